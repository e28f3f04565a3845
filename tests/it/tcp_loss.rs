//! Captures of NFS over TCP with lost or changed frames.

use std::collections::BTreeMap;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

use crate::mutations::{Kept, frames};

/// Returns the first frames of a mount, which include every kind of exchange.
pub(crate) fn beginning(name: &str, count: usize) -> Vec<Kept> {
    frames(name).into_iter().take(count).collect()
}

/// Transactions by the client's port and the XID.
pub(crate) type Transactions = BTreeMap<(Option<u32>, u32), Transaction>;

/// Reads the frames under their original numbers; returns the Transactions, and the undecoded frames.
pub(crate) fn read<'a>(frames: impl IntoIterator<Item = (usize, &'a Kept)>) -> (Transactions, Vec<String>) {
    let mut flow = Flow::new(FlowLimits::default());
    for (number, kept) in frames {
        flow.process_frame(&kept.frame(number as u64 + 1));
    }
    flow.finish();
    let mut transactions = Transactions::new();
    while let Some(transaction) = flow.next_transaction() {
        let name = (transaction.connection.client.port, transaction.xid.0);
        assert!(transactions.insert(name, transaction).is_none(), "{name:x?} twice");
    }
    let undecoded = flow.stats().undecoded_counts();
    (transactions, undecoded.map(|(why, count)| format!("{} {count}", why.key())).collect())
}

pub(crate) fn facts(transaction: &Transaction) -> String {
    let facts = transaction.with_messages(|reading| reading.summary());
    format!("{:?} {:?} {:?}", facts.operation, facts.status, transaction.missing_parts())
}

fn carries(transaction: &Transaction, frame: u64) -> bool {
    let messages = transaction.call.iter().chain(&transaction.reply);
    { messages }.any(|message| message.frames.contains(&FrameNumber(frame)))
}

/// Removes every frame in turn: its content is missing, nothing else changes, and nothing is invented.
fn each_frame_lost_in_turn(name: &str, count: usize) {
    let all = beginning(name, count);
    let (whole, _) = read(all.iter().enumerate());
    for lost in 0..all.len() {
        let (found, _) = read(all.iter().enumerate().filter(|(at, _)| *at != lost));
        let at = format!("{name} without frame {}", lost + 1);
        for name in found.keys() {
            assert!(whole.contains_key(name), "{at}: {name:x?} is invented");
        }
        for (name, transaction) in &whole {
            let now = found.get(name);
            if carries(transaction, lost as u64 + 1) {
                let is_missed = now.is_none_or(|now| now.missing_parts() != transaction.missing_parts());
                assert!(is_missed, "{at}: {name:x?} misses {:?}", now.map(|now| now.missing_parts()));
                let statuses = now.map(|now| now.with_messages(|reading| reading.summary()).status);
                let status = transaction.with_messages(|reading| reading.summary()).status;
                assert!(statuses.flatten().is_none_or(|now| Some(now) == status), "{at}: {name:x?}");
            } else {
                assert_eq!(now.map(facts), Some(facts(transaction)), "{at}: {name:x?}");
            }
        }
    }
}

#[test]
fn only_the_bytes_of_a_lost_segment_are_missing() {
    each_frame_lost_in_turn("tcp-v3", 300);
    each_frame_lost_in_turn("tcp-v42", 250);
}

#[test]
fn swapped_neighbours_lose_nothing() {
    for name in ["tcp-v3", "tcp-v42"] {
        let all = beginning(name, 300);
        let (whole, _) = read(all.iter().enumerate());
        for at in 0..all.len() - 1 {
            let mut swapped: Vec<_> = all.iter().enumerate().collect();
            swapped.swap(at, at + 1);
            let (found, undecoded) = read(swapped);
            let what = format!("{name}: frames {} and {}", at + 1, at + 2);
            assert_eq!(undecoded, Vec::<String>::new(), "{what}");
            assert!(found.keys().eq(whole.keys()), "{what}");
            for (name, transaction) in &found {
                assert_eq!(facts(transaction), facts(&whole[name]), "{what}");
            }
        }
    }
}

#[test]
fn clocks_of_two_mirror_ports_that_differ_lose_nothing() {
    for name in ["tcp-v3", "tcp-v42"] {
        let all = frames(name);
        let (whole, _) = read(all.iter().enumerate());
        for (late, microseconds) in [(1, 500), (2, 500), (1, 5_000), (2, 5_000)] {
            let mut skewed: Vec<Kept> = all.clone();
            for frame in &mut skewed {
                // The source address of Ethernet/IPv4.
                if frame.bytes.get(29) == Some(&late) {
                    frame.time = Timestamp(frame.time.0 + microseconds * 1_000);
                }
            }
            skewed.sort_by_key(|frame| frame.time);
            let (found, undecoded) = read(skewed.iter().enumerate());
            let what = format!("{name}: host {late} {microseconds} us late");
            assert_eq!(undecoded, Vec::<String>::new(), "{what}");
            for (name, transaction) in &whole {
                assert_eq!(found.get(name).map(facts), Some(facts(transaction)), "{what}");
            }
        }
    }
}

#[test]
fn two_mirrors_that_give_each_frame_twice_add_nothing() {
    for name in ["tcp-v3", "tcp-v42"] {
        let all = frames(name);
        let (whole, _) = read(all.iter().enumerate());
        let (found, undecoded) = read(all.iter().enumerate().flat_map(|frame| [frame, frame]));
        assert_eq!(undecoded, Vec::<String>::new());
        assert!(found.keys().eq(whole.keys()));
        for (name, transaction) in &found {
            assert_eq!(facts(transaction), facts(&whole[name]));
            assert_eq!(transaction.call.as_ref().map(|call| call.copies), Some(1), "{name:x?}");
        }
    }
}

/// Captures that begin anywhere: no Transaction is invented, and those with all frames are complete.
#[test]
fn a_capture_may_begin_anywhere() {
    for name in ["tcp-v3", "tcp-v42"] {
        let all = frames(name);
        let (whole, _) = read(all.iter().enumerate());
        for from in (0..all.len()).step_by(37) {
            let (found, _) = read(all.iter().enumerate().skip(from));
            let at = format!("{name} from frame {}", from + 1);
            let is_there = |transaction: &&Transaction| {
                let messages = transaction.call.iter().chain(&transaction.reply);
                { messages }.flat_map(|message| &message.frames).all(|frame| frame.0 > from as u64)
            };
            for transaction in whole.values().filter(is_there) {
                let same = found.values().filter(|found| found.xid == transaction.xid);
                let same: Vec<_> = same.map(facts).collect();
                assert_eq!(same, [facts(transaction)], "{at}");
            }
        }
    }
}

/// Whichever frames of the beginning were lost, the stream is resynchronized: all Transactions are found, except for
/// the few lost with the frames and the search for a record boundary.
#[test]
fn no_loss_in_the_beginning_costs_the_whole_connection() {
    for name in ["tcp-v3", "tcp-v42", "siw-v3", "siw-v42-crc"] {
        let all = beginning(name, 250);
        let (whole, _) = read(all.iter().enumerate());
        for lost in (0..1 << 9).filter(|lost: &u32| lost.count_ones() <= 3) {
            let is_there = |at: usize| at >= 9 || lost >> at & 1 == 0;
            let (found, undecoded) = read(all.iter().enumerate().filter(|(at, _)| is_there(*at)));
            let at = format!("{name} without {lost:09b}");
            assert!(found.keys().all(|name| whole.contains_key(name)), "{at}: invented");
            assert!(found.len() + 10 >= whole.len(), "{at}: {} of {}, {undecoded:?}", found.len(), whole.len());
        }
    }
}
