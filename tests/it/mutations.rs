//! Mutated captures: packets with flipped bits, truncated, dropped, duplicated, reordered, or from another capture. The
//! whole pipeline processes them without a panic, emits no more than was there, and invents nothing.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::Range;
use std::sync::LazyLock;

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_conformance::ConformanceChecker;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use nfsrdma_dissectors::infiniband;
use nfsrdma_dissectors::net::{self, NetworkLayerPayload};
use nfsrdma_flow::transaction::{CallDirection, RpcMessageKind};
use nfsrdma_flow::transaction_message_decoding::{ProcedureOrMainOperation, RpcSummary};
use nfsrdma_flow::{Flow, FlowLimits, FrameContentKind, Transaction, ip_reassembly};
use proptest::prelude::*;

use crate::captures;

/// Copy of a frame of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) time: Timestamp,
    pub(crate) link: LinkType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: u32,
}

impl Kept {
    pub(crate) fn frame(&self, number: u64) -> Frame<'_> {
        Frame { number: FrameNumber(number), time: self.time, link: self.link, bytes: &self.bytes, length: self.length }
    }

    /// Corrects the checksum of a TCP segment in Ethernet and IPv4 after a change, as its sender would have: a receiver
    /// drops a segment with a wrong one. RFC 9293 section 3.1.
    pub(crate) fn seal(&mut self) {
        let bytes = &mut self.bytes;
        if bytes.get(12..14) != Some(&[8, 0]) || bytes.get(23) != Some(&6) {
            return;
        }
        let tcp = 14 + usize::from(bytes[14] & 0xf) * 4;
        let end = 14 + usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
        bytes[tcp + 16..tcp + 18].fill(0);
        let pseudo_header = [&bytes[26..34], &[0, 6], &((end - tcp) as u16).to_be_bytes()].concat();
        let words = pseudo_header.chunks(2).chain(bytes[tcp..end].chunks(2));
        let mut sum: u32 = words.map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[tcp + 16..tcp + 18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

pub(crate) fn frames(name: &str) -> Vec<Kept> {
    let mut source = CaptureFrameSource::from_reader(name, Cursor::new(captures::bytes(name)));
    let mut frames = Vec::new();
    while let Some(frame) = source.next().unwrap_or_else(|e| panic!("{e}")) {
        let (time, link, length) = (frame.time, frame.link, frame.length);
        frames.push(Kept { time, link, length, bytes: frame.bytes.to_vec() });
    }
    frames
}

/// NFSv4.2 with callbacks in the reverse direction.
static DELEGATIONS: LazyLock<Vec<Kept>> = LazyLock::new(|| frames("rxe-v42-deleg"));
/// NFSv3 with Read, Write and Reply chunks.
static VERSION_3: LazyLock<Vec<Kept>> = LazyLock::new(|| frames("rxe-v3"));

/// Observer that verifies correct nesting.
#[derive(Default)]
struct Watcher {
    depth: u64,
    values: u64,
}

impl<'a> FieldObserver<'a> for Watcher {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {
        self.depth += 1;
    }
    fn leave(&mut self, _: usize) {
        self.depth = self.depth.checked_sub(1).expect("what is left was entered");
    }
    fn value(&mut self, _: &'static FieldDefinition, bytes: Range<usize>, _: FieldValue<'a>) {
        assert!(bytes.start <= bytes.end);
        self.values += 1;
    }
}

/// Result of a run.
struct Outcome {
    transactions: Vec<Transaction>,
    given_up: u64,
}

/// Runs frames through the pipeline, observed, and reads every Transaction in every way.
fn run<'a>(limits: FlowLimits, frames: impl IntoIterator<Item = &'a Kept>) -> Outcome {
    let mut flow = Flow::new(limits);
    let mut transactions = Vec::new();
    let mut checker = ConformanceChecker::new();
    for (number, kept) in (1..).zip(frames) {
        let mut watcher = Watcher::default();
        let (_, meaning) = flow.process_frame_observed(&kept.frame(number), &mut watcher);
        if let FrameContentKind::Message { key, .. } = meaning {
            // It may have been emitted already if a limit is reached.
            assert!(flow.transaction(key).is_none_or(|transaction| transaction.index == 0));
        }
        checker.record_events(&flow);
        transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    }
    flow.finish();
    transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    for (index, transaction) in (1..).zip(&transactions) {
        assert_eq!(transaction.index, index);
        assert!(transaction.call.is_some() || transaction.reply.is_some());
        read(transaction);
        transaction.with_messages(|messages| {
            checker.check_transaction(None, transaction, messages, &messages.summary());
        });
    }
    checker.finish();
    Outcome { transactions, given_up: flow.evicted_counts().map(|(_, count)| count).sum() }
}

fn read(transaction: &Transaction) -> RpcSummary {
    transaction.missing_parts();
    if let (Some(phases), Some(latency)) = (transaction.phases(), transaction.latency_ns()) {
        let parts = phases.named_durations().map(|(_, ns)| ns);
        assert_eq!(parts.iter().sum::<u64>(), latency, "{transaction:?}");
    }
    for segment in transaction.read_chunks.iter().chain(&transaction.write_chunks).flat_map(|c| &c.segments) {
        assert!(segment.moved_coverage.total_bytes() <= u64::from(segment.length));
    }
    transaction.with_messages(|reading| {
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            transaction.rpc_length(which);
            let mut watcher = Watcher::default();
            let whole = reading.observe(which, &mut watcher).is_ok();
            assert!(!whole || watcher.depth == 0, "{which:?} of {transaction:?}");
            // No message has more values than bytes, and an observed walk costs as much as it reports.
            let bytes = transaction.message(which).map_or(0, |message| message.length as u64);
            let chunks = transaction.read_chunks.iter().chain(&transaction.reply_chunk);
            assert!(watcher.values <= bytes + chunks.map(|chunk| chunk.moved_bytes()).sum::<u64>() + 64);
        }
        reading.summary()
    })
}

/// Returns the maximum number of messages that these packets may begin or contain.
fn sends<'a>(frames: impl IntoIterator<Item = &'a Kept>) -> usize {
    let sends = |kept: &Kept| match net::decode(&kept.frame(1), &mut NullFieldObserver).payload {
        NetworkLayerPayload::Infiniband(packet) => {
            usize::from(packet.properties.operation == infiniband::PacketOperation::Send)
        }
        // The datagram may be one when it is complete.
        NetworkLayerPayload::Fragment(_) => 1,
        NetworkLayerPayload::Udp(_) => 1,
        // The shortest message has 20 bytes.
        NetworkLayerPayload::Tcp(segment) => segment.payload.length.div_ceil(20),
        _ => 0,
    };
    frames.into_iter().map(sends).sum()
}

/// Mutation of a capture; positions are taken modulo the length.
#[derive(Clone, Debug)]
enum Mutation {
    /// Flips a bit of a frame.
    Flip(usize, usize, u8),
    /// Overwrites a word of a frame.
    Overwrite(usize, usize, u32),
    /// Truncates a frame like a snap length.
    Cut(usize, usize),
    /// Shortens a frame like a faulty sender.
    Shorten(usize, usize),
    Drop(usize),
    Double(usize, usize),
    Swap(usize, usize),
    /// Inserts a frame of the other capture.
    Insert(usize, usize),
    /// Replaces the end of a frame by that of another.
    Splice(usize, usize, usize),
    /// Changes the clock.
    Time(usize, i64),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    use Mutation::*;
    let at = || 0usize..4096;
    // Headers are in the first bytes, so these are changed more often.
    let byte = || prop_oneof![0usize..120, 0usize..1200];
    let word = prop_oneof![0u32..6, any::<u32>(), Just(u32::MAX), Just(1 << 31)];
    prop_oneof![
        4 => (at(), byte(), 0u8..8).prop_map(|(frame, byte, bit)| Flip(frame, byte, bit)),
        4 => (at(), byte(), word).prop_map(|(frame, byte, word)| Overwrite(frame, byte, word)),
        2 => (at(), byte()).prop_map(|(frame, length)| Cut(frame, length)),
        1 => (at(), byte()).prop_map(|(frame, length)| Shorten(frame, length)),
        2 => at().prop_map(Drop),
        2 => (at(), at()).prop_map(|(frame, to)| Double(frame, to)),
        2 => (at(), at()).prop_map(|(one, other)| Swap(one, other)),
        1 => (at(), at()).prop_map(|(to, other)| Insert(to, other)),
        1 => (at(), at(), byte()).prop_map(|(one, other, at)| Splice(one, other, at)),
        1 => (at(), any::<i64>()).prop_map(|(frame, time)| Time(frame, time)),
    ]
}

fn apply(frames: &mut Vec<Kept>, mutation: &Mutation, others: &[Kept]) {
    use Mutation::*;
    let count = frames.len();
    if count == 0 {
        return;
    }
    match *mutation {
        Flip(frame, byte, bit) => {
            let bytes = &mut frames[frame % count].bytes;
            if let Some(byte) = bytes.get_mut(byte) {
                *byte ^= 1 << bit;
            }
        }
        Overwrite(frame, byte, word) => {
            // Most important words are on a boundary of two, because the Ethernet header has fourteen bytes.
            if let Some(place) = frames[frame % count].bytes.get_mut(byte & !1..(byte & !1) + 4) {
                place.copy_from_slice(&word.to_be_bytes());
            }
        }
        Cut(frame, length) => frames[frame % count].bytes.truncate(length),
        Shorten(frame, length) => {
            let kept = &mut frames[frame % count];
            kept.bytes.truncate(length);
            kept.length = kept.bytes.len() as u32;
        }
        Drop(frame) => {
            frames.remove(frame % count);
        }
        Double(frame, to) => {
            let copy = frames[frame % count].clone();
            frames.insert(to % count, copy);
        }
        Swap(one, other) => frames.swap(one % count, other % count),
        Insert(to, other) => frames.insert(to % count, others[other % others.len()].clone()),
        Splice(one, other, at) => {
            let end = frames[other % count].bytes.get(at..).map(<[u8]>::to_vec).unwrap_or_default();
            let kept = &mut frames[one % count];
            kept.bytes.truncate(at);
            kept.bytes.extend(end);
            kept.length = kept.bytes.len() as u32;
        }
        Time(frame, time) => frames[frame % count].time = Timestamp(time),
    }
}

/// Returns limits that a small capture reaches.
fn narrow() -> FlowLimits {
    FlowLimits {
        pool_bytes: 8000,
        table_bytes: 4000,
        connections: 2,
        open_transactions: 3,
        call_age_ns: Some(1_000_000_000),
        lingering_transactions: 2,
        message_bytes: 4000,
        streams: 2,
        gap_bytes: 1000,
        stream_bytes: 2000,
        set_ups: 1,
        partial_message_bytes: 2000,
        fragments: ip_reassembly::IpReassemblyLimits {
            datagrams: 2,
            bytes: 2000,
            fragments: 4,
            max_age_ns: 1_000_000_000,
        },
        reorder_bytes: 16 << 10,
        chunk_content_bytes: 500,
        dialect: None,
        keep_file_data: true,
        check_icrc: true,
        record_transaction_frames: true,
        record_transport_events: true,
        name_open_transactions: true,
        report_closed_connections: true,
        emit_on_acknowledgment: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_mutated_capture_is_decoded_within_bounds(
        mutations in prop::collection::vec(mutation(), 1..40),
        from in 0usize..1200,
        use_version_3: bool,
        is_narrow: bool,
    ) {
        let (source, others) = if use_version_3 { (&*VERSION_3, &*DELEGATIONS) } else { (&*DELEGATIONS, &*VERSION_3) };
        // A few hundred frames from anywhere.
        let from = from % source.len();
        let mut frames: Vec<Kept> = source[from..].iter().take(300).cloned().collect();
        for mutation in &mutations {
            apply(&mut frames, mutation, others);
        }
        let limits = if is_narrow { narrow() } else { FlowLimits::default() };
        let outcome = run(limits, &frames);
        let sends = sends(&frames);
        prop_assert!(outcome.transactions.len() <= sends, "{} of {sends}", outcome.transactions.len());
        prop_assert!(outcome.given_up <= 4 * frames.len() as u64);
    }
}

/// Identity of a Transaction in two runs over nearly the same packets.
type Name = (CallDirection, u32);

fn by_name(transactions: &[Transaction]) -> BTreeMap<(bool, u32), Vec<&Transaction>> {
    let mut named: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for transaction in transactions {
        let (direction, xid): Name = (transaction.direction, transaction.xid.0);
        named.entry((direction == CallDirection::Forward, xid)).or_default().push(transaction);
    }
    named
}

/// Compares the rest of a capture with the whole capture: no additional Transaction, and no other operation or status.
fn nothing_is_invented(expected: &[Transaction], found: &[Transaction], said: &str) -> Result<(), TestCaseError> {
    let expected = by_name(expected);
    for (name, transactions) in by_name(found) {
        let said = format!("{said}: {name:x?}");
        prop_assert_eq!(transactions.len(), 1, "{}", said);
        let found = transactions[0];
        let Some(before) = expected.get(&name).map(|transactions| transactions[0]) else {
            return Err(TestCaseError::fail(format!("{said}: invented")));
        };
        let (now, then) = (read(found), read(before));
        // A Call that lost bytes may be known by its procedure only.
        let is_whole = found.call.as_ref().is_some_and(|call| call.gaps.is_empty());
        let is_same = now.operation == then.operation || now.operation.is_none();
        prop_assert!(is_same || !is_whole, "{said}: {now:?}, not {then:?}");
        prop_assert!(now.operation.is_some() || then.operation.is_none() || found.call.is_none(), "{said}: {now:?}");
        prop_assert!(now.program.is_none() || now.program == then.program, "{said}: {now:?}");
        prop_assert!(now.version.is_none() || now.version == then.version, "{said}: {now:?}");
        prop_assert!(now.status.is_none() || now.status == then.status, "{said}: {now:?}");
        prop_assert!(now.rpc_status.is_none() || now.rpc_status == then.rpc_status, "{said}: {now:?}");
        prop_assert_eq!(found.connection.client.address, before.connection.client.address, "{}", said);
    }
    Ok(())
}

#[test]
fn one_lost_packet_adds_no_transaction_operation_or_status() {
    let all = &*DELEGATIONS;
    let undisturbed = run(FlowLimits::default(), all).transactions;
    let expected = by_name(&undisturbed);
    assert!(expected.values().all(|transactions| transactions.len() == 1));
    for lost in 0..all.len() {
        let kept = all.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, kept)| kept);
        let found = run(FlowLimits::default(), kept).transactions;
        let said = format!("without frame {}", lost + 1);
        nothing_is_invented(&undisturbed, &found, &said).unwrap_or_else(|e| panic!("{e}"));
        // One packet belongs to one message or chunk, so that everything else is unchanged.
        let named = by_name(&found);
        let gone = expected.keys().filter(|name| !named.contains_key(*name)).count();
        let is_partial = |t: &&Transaction| !t.missing_parts().is_empty();
        let partial = found.iter().filter(is_partial).count();
        assert!(gone + partial <= 1, "{said}: {gone} gone, {partial} partial");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn many_lost_and_duplicated_packets_add_nothing(
        fates in prop::collection::vec(0u8..20, 200),
        losses in 0u8..12,
    ) {
        let all = &*DELEGATIONS;
        let undisturbed = run(FlowLimits::default(), all).transactions;
        // Up to half of the packets are lost, some are seen twice.
        let copies = |fate: u8| match fate {
            fate if fate < losses => 0,
            19 => 2,
            _ => 1,
        };
        let kept = all.iter().zip(fates.iter().cycle()).flat_map(|(kept, fate)| std::iter::repeat_n(kept, copies(*fate)));
        let found = run(FlowLimits::default(), kept).transactions;
        nothing_is_invented(&undisturbed, &found, "what is left")?;
    }
}

#[test]
fn the_capture_that_the_others_are_compared_with_is_whole() {
    let transactions = run(FlowLimits::default(), &*DELEGATIONS).transactions;
    let reverse = transactions.iter().filter(|t| t.direction == CallDirection::Reverse).count();
    assert!(reverse > 0 && transactions.len() > 30, "{reverse} of {}", transactions.len());
    for transaction in &transactions {
        assert_eq!(transaction.missing_parts(), [], "{transaction:?}");
        assert!(matches!(read(transaction).operation, Some(ProcedureOrMainOperation::Named(_))));
    }
}
