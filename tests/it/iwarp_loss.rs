//! Captures of NFS over iWARP with lost or changed frames.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::net::{self, NetworkLayerPayload};
use nfsrdma_flow::Transaction;

use crate::mutations::Kept;
use crate::tcp_loss::{beginning, facts, read};

/// Returns the number of bytes of FPDUs in a frame.
fn stream_bytes(kept: &Kept) -> usize {
    match net::decode(&kept.frame(1), &mut NullFieldObserver).payload {
        NetworkLayerPayload::Tcp(segment) if !segment.payload.bytes.starts_with(b"MPA ID") => segment.payload.length,
        _ => 0,
    }
}

/// Returns `true` if a frame is between the first of the Call and the last of the Reply.
fn spans(transaction: &Transaction, frame: u64) -> bool {
    let first = transaction.call.as_ref().and_then(|call| call.frames.first());
    let last = transaction.reply.as_ref().and_then(|reply| reply.frames.last());
    first.is_none_or(|first| first.0 <= frame) && last.is_none_or(|last| last.0 >= frame)
}

/// Removes every frame in turn: only Transactions in progress may miss a part, and one does if the frame carried more
/// than a CRC; nothing is invented.
fn each_frame_lost_in_turn(name: &str, count: usize) {
    let all = beginning(name, count);
    let (whole, _) = read(all.iter().enumerate());
    for lost in 0..all.len() {
        let (found, _) = read(all.iter().enumerate().filter(|(at, _)| *at != lost));
        let at = format!("{name} without frame {}", lost + 1);
        for name in found.keys() {
            assert!(whole.contains_key(name), "{at}: {name:x?} is invented");
        }
        let mut is_missed = false;
        for (name, transaction) in &whole {
            let (before, now) = (facts(transaction), found.get(name).map(facts));
            if now.as_ref() != Some(&before) {
                assert!(spans(transaction, lost as u64 + 1), "{at}: {name:x?} {before} is now {now:?}");
                is_missed = true;
            }
        }
        let bytes = stream_bytes(&all[lost]);
        assert_eq!(is_missed, bytes > 4, "{at}, which has {bytes} bytes");
    }
}

#[test]
fn each_frame_of_a_mount_over_iwarp_lost_in_turn_is_missed_and_nothing_else() {
    each_frame_lost_in_turn("siw-v42", 160);
    each_frame_lost_in_turn("siw-v42-crc", 160);
}

#[test]
fn any_two_neighbours_in_the_wrong_order_change_nothing() {
    for name in ["siw-v42", "siw-v42-crc"] {
        let all = beginning(name, 160);
        let (whole, _) = read(all.iter().enumerate());
        for swapped in 3..all.len() - 1 {
            let mut order: Vec<_> = all.iter().enumerate().collect();
            order.swap(swapped, swapped + 1);
            let (found, undecoded) = read(order);
            for (xid, transaction) in &whole {
                let now = found.get(xid).map(facts);
                assert_eq!(now, Some(facts(transaction)), "{name}: {} swapped: {xid:x?} {undecoded:?}", swapped + 1);
            }
        }
    }
}
