//! Packets captured in another order than on the wire: two mirror ports whose clocks differ, or swapped neighbours.
//! Nothing is lost, so nothing may be missing.

use std::collections::BTreeMap;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::{Flow, FlowLimits};

use crate::loss_comparison::{ALL, named, run, same};
use crate::mutations::{Kept, frames};

/// Values independent of the order: by XID and direction the operation, the status, and the bytes of the chunks.
type Facts = BTreeMap<(u32, bool), String>;

/// Reads the frames; returns the Transactions, those that are incomplete, and the undecoded frames.
fn read(frames: &[Kept]) -> (Facts, Vec<String>, Vec<String>) {
    let mut flow = Flow::new(FlowLimits::default());
    for (number, frame) in (1..).zip(frames) {
        flow.process_frame(&frame.frame(number));
    }
    flow.finish();
    let (mut facts, mut incomplete) = (Facts::new(), Vec::new());
    while let Some(transaction) = flow.next_transaction() {
        let missing: Vec<_> = transaction.missing_parts().iter().map(ToString::to_string).collect();
        if !missing.is_empty() {
            incomplete.push(format!("{} {}", transaction.xid, missing.join(" ")));
        }
        let read = transaction.with_messages(|reading| reading.summary());
        let chunks = transaction.read_chunks.iter().chain(&transaction.write_chunks).chain(&transaction.reply_chunk);
        let moved: Vec<_> =
            chunks.map(|chunk| (chunk.offered_bytes(), chunk.returned_bytes(), chunk.moved_bytes())).collect();
        let is_forward = transaction.connection.client.address.to_string().ends_with('2');
        facts.insert((transaction.xid.0, is_forward), format!("{:?} {:?} {moved:?}", read.operation, read.status));
    }
    let undecoded = flow.stats().undecoded_counts();
    (facts, incomplete, undecoded.map(|(why, count)| format!("{} {count}", why.key())).collect())
}

/// Returns the frames as captured if the clock of one host is late.
fn skewed(frames: &[Kept], last_octet: u8, nanoseconds: i64) -> Vec<Kept> {
    let mut frames = frames.to_vec();
    for frame in &mut frames {
        // The source address of Ethernet/IPv4.
        if frame.bytes.get(12..14) == Some(&[8, 0]) && frame.bytes.get(29) == Some(&last_octet) {
            frame.time = Timestamp(frame.time.0 + nanoseconds);
        }
    }
    frames.sort_by_key(|frame| frame.time);
    frames
}

#[test]
fn clocks_of_two_mirror_ports_that_differ_lose_nothing() {
    for name in ["rxe-v3", "rxe-v42", "rxe-v42-deleg"] {
        let frames = frames(name);
        let (expected, ..) = read(&frames);
        for late in [1, 2] {
            // With more, a Reply may come before a packet of its Call, which is then emitted without it.
            for microseconds in [200, 500, 1_000, 2_000] {
                let (facts, incomplete, undecoded) = read(&skewed(&frames, late, microseconds * 1_000));
                let what = format!("{name}: host {late} {microseconds} us late");
                assert_eq!(incomplete, Vec::<String>::new(), "{what}");
                assert_eq!(undecoded, Vec::<String>::new(), "{what}");
                assert_eq!(facts, expected, "{what}");
            }
        }
    }
}

/// The summary says that the clocks differ if more than a twentieth of the frames are late.
#[test]
fn packets_of_late_direction_are_counted() {
    for name in ["rxe-v42", "tcp-v42"] {
        let frames = frames(name);
        let late_packets = |frames: &[Kept]| {
            let mut flow = Flow::new(FlowLimits::default());
            (1..).zip(frames).for_each(|(number, frame)| _ = flow.process_frame(&frame.frame(number)));
            flow.finish();
            flow.stats().late_packets()
        };
        assert_eq!(late_packets(&frames), 0, "{name}");
        for host in [1, 2] {
            let sent = frames.iter().filter(|frame| frame.bytes.get(29) == Some(&host)).count() as u64;
            let late = late_packets(&skewed(&frames, host, 2_000_000));
            assert!((frames.len() as u64 / 20..=sent).contains(&late), "{name}: {late} of {sent} of host {host}");
        }
    }
}

#[test]
fn swapped_neighbours_lose_nothing() {
    let frames = frames("rxe-v42-deleg");
    let (expected, ..) = read(&frames);
    for at in 0..frames.len() - 1 {
        let mut swapped = frames.clone();
        swapped.swap(at, at + 1);
        let (facts, incomplete, undecoded) = read(&swapped);
        assert_eq!((incomplete, undecoded), (Vec::new(), Vec::new()), "frames {} and {}", at + 1, at + 2);
        assert_eq!(facts, expected, "frames {} and {}", at + 1, at + 2);
    }
}

/// On each transport, the content of a Transaction is the same, except for times and frame numbers.
#[test]
fn swapped_neighbours_change_nothing_on_any_transport() {
    for exhibit in &ALL {
        for range in [exhibit.quiet(0, 200), exhibit.quiet(exhibit.frames.len() / 2, 120)] {
            let expected = exhibit.within(&range);
            for at in range.start..range.end.saturating_sub(1) {
                let said = format!("{}: frames {} and {}", exhibit.name, at + 1, at + 2);
                let mut frames: Vec<_> = exhibit.numbered(range.clone()).collect();
                frames.swap(at - range.start, at + 1 - range.start);
                let outcome = run(frames);
                assert!(outcome.undecoded.is_empty(), "{said}: {:?}", outcome.undecoded);
                let found = named(&outcome.transactions, &said);
                assert_eq!(found.len(), expected.len(), "{said}");
                for (name, index) in &expected {
                    same(found[name], &exhibit.transactions[*index], false, &said);
                }
            }
        }
    }
}
