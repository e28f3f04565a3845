//! Frames that were not captured. The content of a lost frame is missing, under the right code and to the byte;
//! everything else is unchanged.

use std::collections::BTreeSet;
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::ChunkKind;
use nfsrdma_flow::transaction::{ConnectionTransport, MissingPart, RpcMessageKind};
use proptest::prelude::*;

use crate::captures;
use crate::independent_decoder::{Part, What};
use crate::loss_comparison::{ALL, Exhibit, IWARP, ROCE, TCP, agrees, named, names, run, same};
use crate::mutations::{Kept, frames};

/// Merges ranges.
fn union(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut united: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match united.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}

/// Returns the ranges of a message or of a chunk that are reported as missing.
fn missing(codes: &[MissingPart], what: What) -> Vec<Range<u64>> {
    let of = |code: &MissingPart| match (code, what) {
        (MissingPart::Bytes(which, range), What::Message(wanted)) if *which == wanted => Some(range.clone()),
        (MissingPart::Chunk(kind, index, range), What::Chunk(wanted, at)) if (*kind, *index) == (wanted, at) => {
            Some(range.clone())
        }
        _ => None,
    };
    union(codes.iter().filter_map(of))
}

/// Compares a Call or a Reply with its lost parts.
fn message(now: &Transaction, before: &Transaction, which: RpcMessageKind, lost: &[&Part], said: &str) {
    let what = What::Message(which);
    let parts: Vec<_> = lost.iter().filter(|part| part.what == what).collect();
    let codes = now.missing_parts();
    let said_missing = missing(&codes, what);
    let Some(message) = now.message(which) else {
        assert!(codes.contains(&MissingPart::Message(which)), "{said}: {codes:?}");
        assert!(parts.iter().any(|part| part.is_head), "{said}: the {which:?} is gone");
        return;
    };
    assert!(!codes.contains(&MissingPart::Message(which)), "{said}: {codes:?}");
    assert!(!codes.contains(&MissingPart::Header(which)), "{said}: {codes:?}");
    let gone = union(parts.iter().map(|part| part.bytes.clone()));
    let whole = before.message(which).map_or(0, |message| message.inline_length().unwrap_or(0)) as u64;
    let known = message.inline_length().unwrap_or(0) as u64;
    if known == whole {
        assert_eq!(said_missing, gone, "{said}: {which:?} of {whole} bytes");
        return;
    }
    // Its end was lost, and with it the length: at least one byte beyond the known ones is missing.
    let end = known - 1;
    let up_to = |end: u64| { gone.iter() }.map(move |range| range.start..range.end.min(end));
    let expected = union(up_to(end).chain(std::iter::once(end..known)));
    assert_eq!(said_missing, expected, "{said}: {which:?} of {whole} bytes, of which {gone:?} are gone");
    assert!(gone.iter().any(|range| range.contains(&end)), "{said}: {which:?} ends in what was captured");
    // A record mark has the length. A packet of InfiniBand shows if it is the last: without it, and if two in a row are
    // lost and may be the end of one message and the beginning of another, the length is unknown.
    assert_ne!(now.connection.transport, ConnectionTransport::Tcp, "{said}");
}

/// Compares a chunk with its lost parts.
fn chunk(now: &Transaction, kind: ChunkKind, index: usize, lost: &[&Part], said: &str) {
    let what = What::Chunk(kind, index);
    // Only the Call has the chunk, and only the Reply the length to be moved.
    let is_known = match kind {
        ChunkKind::Read => now.reply.is_some() || now.read_chunks.get(index).is_some_and(|c| c.moved_bytes() > 0),
        _ => now.reply.is_some(),
    };
    if now.call.is_none() || !is_known {
        return;
    }
    let of_chunk = || lost.iter().filter(|part| part.what == what);
    let gone = union(of_chunk().map(|part| part.bytes.clone()));
    // The Reply returns a length in whole words; bytes that were not returned are not missing.
    let said_missing = missing(&now.missing_parts(), what);
    // The responses of a lost request may find their Call.
    let are_placed = now.connection.transport == ConnectionTransport::RoceV2
        && said_missing == union(of_chunk().filter(|part| !part.is_request).map(|part| part.bytes.clone()));
    assert!(are_placed || said_missing == gone, "{said}: {what:?}: {said_missing:?}, not {gone:?}");
}

/// Removes frames from a part of a capture, and checks every Transaction in it.
fn without(exhibit: &Exhibit, range: &Range<usize>, lost: &[usize]) {
    let numbers: Vec<_> = lost.iter().map(|at| at + 1).collect();
    let said = format!("{} without {numbers:?}", exhibit.name);
    let expected = exhibit.within(range);
    let left = exhibit.numbered(range.clone()).filter(|(number, _)| !lost.contains(&(*number as usize - 1)));
    let outcome = run(left);
    assert_eq!(outcome.given_up, 0, "{said}");
    let found = named(&outcome.transactions, &said);
    let invented: Vec<_> = found.keys().filter(|name| !expected.contains_key(*name)).collect();
    assert!(invented.is_empty(), "{said}: invented {invented:x?}");
    let parts: Vec<_> = lost.iter().flat_map(|at| &exhibit.parts[*at]).collect();
    for (name, index) in &expected {
        let before = &exhibit.transactions[*index];
        let said = format!("{said}: {name:x?}");
        let parts: Vec<_> = parts.iter().filter(|part| part.transaction == *index).copied().collect();
        let Some(now) = found.get(name) else {
            for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
                let is_gone = |part: &&Part| part.what == What::Message(which) && part.is_head;
                assert!(before.message(which).is_none() || parts.iter().any(is_gone), "{said}: gone");
            }
            continue;
        };
        if parts.is_empty() {
            let has_frames = !numbers.iter().any(|number| names(before, FrameNumber(*number as u64)));
            same(now, before, has_frames, &said);
            continue;
        }
        agrees(now, before, &said);
        let is_missed = !now.missing_parts().is_empty() || parts.iter().all(|part| part.is_request);
        assert!(is_missed, "{said}: nothing is missed of {parts:?}");
        message(now, before, RpcMessageKind::Call, &parts, &said);
        message(now, before, RpcMessageKind::Reply, &parts, &said);
        let chunks: BTreeSet<_> = { before.read_chunks.iter().enumerate() }
            .map(|(at, _)| (0, at))
            .chain(before.write_chunks.iter().enumerate().map(|(at, _)| (1, at)))
            .chain(before.reply_chunk.iter().map(|_| (2, 0)))
            .collect();
        for (kind, at) in chunks {
            let kind = [ChunkKind::Read, ChunkKind::Write, ChunkKind::Reply][kind];
            chunk(now, kind, at, &parts, &said);
        }
    }
}

/// Returns the tested parts of a capture: its beginning, with connection setup, and one from the middle.
fn tried(exhibit: &Exhibit) -> [Range<usize>; 2] {
    [exhibit.quiet(0, 300), exhibit.quiet(exhibit.frames.len() / 2, 200)]
}

fn each_in_turn(exhibits: [usize; 2]) {
    for exhibit in exhibits.map(|at| &*ALL[at]) {
        for range in tried(exhibit) {
            without(exhibit, &range, &[]);
            for lost in range.clone() {
                without(exhibit, &range, &[lost]);
            }
        }
    }
}

#[test]
fn losing_any_rocev2_frame_loses_exactly_its_content() {
    each_in_turn(ROCE);
}

/// Returns the position of the BTH of RoCEv2 behind Ethernet, IPv4 or IPv6, and UDP.
fn bth(frame: &Kept) -> Option<usize> {
    let (protocol, udp) = match frame.bytes.get(12..14)? {
        [8, 0] => (23, 14 + 20),
        [0x86, 0xdd] => (20, 14 + 40),
        _ => return None,
    };
    (frame.bytes.get(protocol) == Some(&17)).then_some(udp + 8)
}

/// RC RDMA WRITE First, of the opcodes of the BTH (InfiniBand Architecture Specification volume 1, table 38).
fn is_write_first(frame: &Kept) -> bool {
    bth(frame).is_some_and(|bth| frame.bytes.get(bth) == Some(&0x06))
}

/// Bytes of data in a First packet, which are the path MTU: BTH, RETH and ICRC are not data.
fn data_of_first(frame: &Kept) -> u64 {
    (frame.length as usize - bth(frame).unwrap() - (12 + 16 + 4)) as u64
}

#[test]
fn losing_the_first_packet_of_an_rdma_write_loses_only_that() {
    let mut count = 0;
    for exhibit in ROCE.map(|at| &*ALL[at]) {
        for at in (0..exhibit.frames.len()).filter(|at| is_write_first(&exhibit.frames[*at])) {
            let before = (0..6).map(|doubled| exhibit.quiet(at.saturating_sub(100 << doubled), 0).start);
            let start = before.into_iter().find(|start| *start <= at).unwrap();
            let [part] = &exhibit.parts[at][..] else { panic!("{}: frame {}", exhibit.name, at + 1) };
            assert_eq!(part.bytes.end - part.bytes.start, data_of_first(&exhibit.frames[at]));
            without(exhibit, &(start..exhibit.quiet(at + 1, 0).start), &[at]);
            count += 1;
        }
    }
    let frames = frames("rxe-v42");
    for lost in (0..frames.len()).filter(|at| is_write_first(&frames[*at])) {
        let outcome = run((1..).zip(&frames).filter(|(number, _)| *number as usize != lost + 1));
        let said = format!("rxe-v42 without {}", lost + 1);
        assert!(outcome.undecoded.is_empty(), "{said}: {:?}", outcome.undecoded);
        let codes: Vec<_> = outcome.transactions.iter().flat_map(Transaction::missing_parts).collect();
        let [MissingPart::Chunk(ChunkKind::Write | ChunkKind::Reply, _, bytes)] = &codes[..] else {
            panic!("{said}: {codes:?}")
        };
        assert_eq!(bytes.end - bytes.start, data_of_first(&frames[lost]), "{said}");
        count += 1;
    }
    assert_eq!(count, 3 + 30 + 32);
}

/// Returns the number of missing bytes of chunks, and everything else that is missing.
fn missing_in_all(transactions: &[Transaction]) -> (u64, Vec<String>) {
    let mut bytes = 0;
    let mut others = Vec::new();
    for transaction in transactions {
        for code in transaction.missing_parts() {
            match code {
                MissingPart::Chunk(_, _, range) => bytes += range.end - range.start,
                other => others.push(format!("{:?} {other:?}", transaction.xid)),
            }
        }
    }
    others.sort();
    (bytes, others)
}

/// Removes the First packet of RDMA Writes in turn: of every `step`-th, and those of the frames `always`. No content is
/// missing but its own, and that only if it was not sent again. Returns the number of removed packets.
fn first_packets_cost_their_own_bytes(name: &str, step: usize, always: &[usize]) -> usize {
    let frames = frames(name);
    let before = run((1..).zip(&frames));
    let (bytes_before, others_before) = missing_in_all(&before.transactions);
    let firsts: Vec<_> = (0..frames.len()).filter(|at| is_write_first(&frames[*at])).collect();
    let named = always.iter().map(|number| number - 1);
    assert!(named.clone().all(|at| firsts.contains(&at)), "{name}");
    let tried: BTreeSet<_> = firsts.iter().copied().step_by(step).chain(named).collect();
    for lost in &tried {
        let outcome = run((1..).zip(&frames).filter(|(number, _)| *number as usize != lost + 1));
        let said = format!("{name} without {}", lost + 1);
        assert_eq!(outcome.undecoded, before.undecoded, "{said}");
        assert_eq!(outcome.given_up, before.given_up, "{said}");
        assert_eq!(outcome.transactions.len(), before.transactions.len(), "{said}");
        let (bytes, others) = missing_in_all(&outcome.transactions);
        assert_eq!(others, others_before, "{said}");
        let cost = bytes.saturating_sub(bytes_before);
        assert!(cost <= data_of_first(&frames[*lost]), "{said}: {cost} bytes");
    }
    tried.len()
}

/// The lossy capture with most RDMA Writes, in its own test.
const MOST_WRITES: &str = "rxe-v42-bulk-loss5";

#[test]
fn the_first_packet_of_each_rdma_write_costs_its_own_bytes_in_every_capture_over_roce() {
    let others = captures::ALL.into_iter().filter(|name| *name != MOST_WRITES);
    let count: usize = others.map(|name| first_packets_cost_their_own_bytes(name, 1, &[])).sum();
    assert_eq!(count, 685);
}

/// The environment variable NFSRDMA_FULL asks for each RDMA Write. The Replies of the named frames come more than a
/// second after the RDMA Writes: their packets were sent again after ACK timeouts.
#[test]
fn the_first_packet_of_an_rdma_write_costs_its_own_bytes_before_a_late_reply() {
    let is_full = std::env::var_os("NFSRDMA_FULL").is_some();
    let late = [1400, 2614, 2634, 5300, 5328, 6339, 8899, 10206];
    first_packets_cost_their_own_bytes(MOST_WRITES, if is_full { 1 } else { 8 }, &late);
    for name in captures::more() {
        first_packets_cost_their_own_bytes(name, if is_full { 1 } else { 32 }, &[]);
    }
}

#[test]
fn losing_any_tcp_segment_loses_exactly_its_content() {
    each_in_turn(TCP);
}

#[test]
fn losing_any_iwarp_segment_loses_exactly_its_content() {
    each_in_turn(IWARP);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn losing_two_neighbours_loses_exactly_their_content(exhibit in 0usize..6, in_middle: bool, at in 0usize..400) {
        let exhibit = &*ALL[exhibit];
        let range = &tried(exhibit)[usize::from(in_middle)];
        if range.len() < 2 {
            return Ok(());
        }
        let at = range.start + at % (range.len() - 1);
        without(exhibit, range, &[at, at + 1]);
    }
}
