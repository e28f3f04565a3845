//! Compares a real capture with what is left of it after losses: the same Transactions, except for the lost parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::LazyLock;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_flow::chunk::ChunkSegment;
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::transaction_message_decoding::RpcSummary;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

use crate::independent_decoder::{self, Name, Part};
use crate::mutations::{Kept, frames};

/// Capture without loss.
pub(crate) struct Exhibit {
    pub(crate) name: &'static str,
    pub(crate) frames: Vec<Kept>,
    pub(crate) transactions: Vec<Transaction>,
    /// Parts by frame.
    pub(crate) parts: Vec<Vec<Part>>,
}

/// Captures of each transport, with and without sessions, callbacks and CRCs.
pub(crate) static ALL: [LazyLock<Exhibit>; 6] = [
    LazyLock::new(|| Exhibit::new("rxe-v42-deleg")),
    LazyLock::new(|| Exhibit::new("rxe-v3")),
    LazyLock::new(|| Exhibit::new("tcp-v3")),
    LazyLock::new(|| Exhibit::new("tcp-v42")),
    LazyLock::new(|| Exhibit::new("siw-v3")),
    LazyLock::new(|| Exhibit::new("siw-v42-crc")),
];

/// Indexes in [`ALL`] of the captures over RoCE.
pub(crate) const ROCE: [usize; 2] = [0, 1];
/// Indexes of the captures over TCP.
pub(crate) const TCP: [usize; 2] = [2, 3];
/// Indexes of the captures over iWARP.
pub(crate) const IWARP: [usize; 2] = [4, 5];

/// Frame with its number in the capture.
pub(crate) type Numbered<'a> = (u64, &'a Kept);

/// Result of a run.
pub(crate) struct Outcome {
    pub(crate) transactions: Vec<Transaction>,
    /// Undecoded frames by reason.
    pub(crate) undecoded: BTreeMap<&'static str, u64>,
    pub(crate) given_up: u64,
    /// Frames that the capture contains twice.
    pub(crate) captured_twice: u64,
}

pub(crate) fn run<'a>(frames: impl IntoIterator<Item = Numbered<'a>>) -> Outcome {
    let mut flow = Flow::new(FlowLimits::default());
    let mut transactions = Vec::new();
    for (number, kept) in frames {
        flow.process_frame(&kept.frame(number));
        transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    }
    flow.finish();
    transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    Outcome {
        transactions,
        undecoded: flow.stats().undecoded_counts().map(|(why, count)| (why.key(), count)).collect(),
        given_up: flow.evicted_counts().map(|(_, count)| count).sum(),
        captured_twice: flow.stats().duplicate_frames(),
    }
}

pub(crate) fn facts(transaction: &Transaction) -> RpcSummary {
    transaction.with_messages(|reading| reading.summary())
}

/// Returns the Transactions by name, which must be unique.
#[track_caller]
pub(crate) fn named<'a>(transactions: &'a [Transaction], said: &str) -> BTreeMap<Name, &'a Transaction> {
    let mut named = BTreeMap::new();
    for transaction in transactions {
        let name = independent_decoder::name(transaction);
        assert!(named.insert(name, transaction).is_none(), "{said}: {name:x?} twice");
    }
    named
}

impl Exhibit {
    fn new(name: &'static str) -> Self {
        let frames = frames(name);
        let outcome = run((1..).zip(&frames));
        let transactions = outcome.transactions;
        assert!(outcome.undecoded.is_empty(), "{name}: {:?}", outcome.undecoded);
        named(&transactions, name);
        for transaction in &transactions {
            assert_eq!(transaction.missing_parts(), [], "{name}: {transaction:?}");
        }
        let parts = independent_decoder::parts(&frames, &transactions);
        Self { name, frames, transactions, parts }
    }

    pub(crate) fn numbered(&self, range: Range<usize>) -> impl Iterator<Item = Numbered<'_>> {
        (range.start as u64 + 1..).zip(&self.frames[range])
    }

    /// Returns a part of the capture of about `count` frames that splits no Transaction.
    pub(crate) fn quiet(&self, from: usize, count: usize) -> Range<usize> {
        let is_inside = |at: usize| {
            self.transactions.iter().any(|transaction| {
                let messages = transaction.call.iter().chain(&transaction.reply);
                let frames: BTreeSet<_> = messages.flat_map(|message| &message.frames).collect();
                let [Some(first), Some(last)] = [frames.first(), frames.last()] else { return false };
                first.0 <= at as u64 && last.0 > at as u64
            })
        };
        let quiet = |from: usize| (from..self.frames.len()).find(|at| !is_inside(*at));
        let start = quiet(from).unwrap_or(self.frames.len());
        start..quiet(start + count).unwrap_or(self.frames.len())
    }

    /// Returns the Transactions whose frames are in a part of the capture, with their indexes in it.
    pub(crate) fn within(&self, range: &Range<usize>) -> BTreeMap<Name, usize> {
        let is_within = |transaction: &Transaction| {
            let mut messages = transaction.call.iter().chain(&transaction.reply);
            messages.all(|message| message.frames.iter().all(|frame| range.contains(&(frame.0 as usize - 1))))
        };
        let all = self.transactions.iter().enumerate();
        all.filter(|(_, t)| is_within(t)).map(|(at, t)| (independent_decoder::name(t), at)).collect()
    }
}

/// Verifies that a Transaction does not contradict the one of the whole capture.
#[track_caller]
pub(crate) fn agrees(now: &Transaction, before: &Transaction, said: &str) {
    fn same<T: PartialEq + Debug>(now: Option<T>, then: Option<T>, what: &str, said: &str) {
        assert!(now.is_none() || now == then, "{said}: {what} {now:?}, not {then:?}");
    }
    let (found, expected) = (facts(now), facts(before));
    same(found.program, expected.program, "program", said);
    same(found.version, expected.version, "version", said);
    same(found.minor_version, expected.minor_version, "minor version", said);
    same(found.procedure, expected.procedure, "procedure", said);
    same(found.status, expected.status, "status", said);
    same(found.rpc_status, expected.rpc_status, "RPC status", said);
    // If the arguments cannot be decoded, the operation is the procedure.
    let is_procedure = found.procedure_name.is_some_and(|name| format!("{:?}", found.operation).contains(name));
    let is_read = now.call.is_some() && found.call_error.is_none();
    if is_read || !is_procedure {
        same(found.operation, expected.operation, "operation", said);
    }
    assert_eq!(now.connection.transport, before.connection.transport, "{said}");
    let messages =
        [RpcMessageKind::Call, RpcMessageKind::Reply].map(|which| (now.message(which), before.message(which)));
    for (now, before) in messages.into_iter().filter_map(|(now, before)| Some((now?, before?))) {
        let length = now.bytes.len().min(before.bytes.len());
        assert_eq!(now.bytes[..length], before.bytes[..length], "{said}");
        assert!(now.length <= before.length, "{said}: {} of {}", now.length, before.length);
    }
    for (now, before) in { now.read_chunks.iter().zip(&before.read_chunks) }
        .chain(now.write_chunks.iter().zip(&before.write_chunks))
        .chain(now.reply_chunk.iter().zip(&before.reply_chunk))
    {
        same(now.position, before.position, "position", said);
        for (now, before) in now.segments.iter().zip(&before.segments) {
            assert_eq!((now.handle, now.offset, now.length), (before.handle, before.offset, before.length));
            same(now.returned_length, before.returned_length, "returned", said);
            assert!(
                now.moved_coverage.total_bytes() <= before.moved_coverage.total_bytes(),
                "{said}: {now:?} of {before:?}"
            );
        }
    }
}

/// Returns `true` if a Transaction refers to a frame: one with a part of it, or with the CRC after a part.
pub(crate) fn names(transaction: &Transaction, frame: FrameNumber) -> bool {
    let messages = [RpcMessageKind::Call, RpcMessageKind::Reply].map(|which| transaction.message(which));
    let chunks = { transaction.read_chunks.iter() }.chain(&transaction.write_chunks).chain(&transaction.reply_chunk);
    let mut ends = chunks.flat_map(|chunk| &chunk.segments).filter_map(|segment| segment.frames);
    messages.into_iter().flatten().any(|message| message.frames.contains(&frame))
        || ends.any(|(first, last)| first == frame || last == frame)
}

/// Verifies that two Transactions are equal except for their index, and except for frames and times unless
/// `has_frames`.
#[track_caller]
pub(crate) fn same(now: &Transaction, before: &Transaction, has_frames: bool, said: &str) {
    assert_eq!(now.missing_parts(), before.missing_parts(), "{said}");
    let head = |t: &Transaction| (t.connection.transport, t.xid, t.is_done, t.retry_of);
    assert_eq!(head(now), head(before), "{said}");
    for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
        let (Some(now), Some(before)) = (now.message(which), before.message(which)) else {
            assert!(now.message(which).is_none() && before.message(which).is_none(), "{said}: {which:?}");
            continue;
        };
        let said = format!("{said}: {which:?}");
        assert!(now.bytes == before.bytes, "{said}: bytes");
        assert_eq!((now.length, &now.gaps, now.rpc_offset), (before.length, &before.gaps, before.rpc_offset), "{said}");
        assert_eq!(now.rpcrdma, before.rpcrdma, "{said}");
        if has_frames {
            assert_eq!((&now.frames, now.copies), (&before.frames, before.copies), "{said}");
            assert_eq!((now.time, now.end_time), (before.time, before.end_time), "{said}");
        }
    }
    let chunks = |t: &Transaction| {
        let chunks = t.read_chunks.iter().chain(&t.write_chunks).chain(&t.reply_chunk);
        chunks.chain(&t.reply_read_chunks).cloned().collect::<Vec<_>>()
    };
    let (now_chunks, before_chunks) = (chunks(now), chunks(before));
    assert_eq!(now_chunks.len(), before_chunks.len(), "{said}");
    for (now, before) in now_chunks.iter().zip(&before_chunks) {
        assert_eq!((now.position, now.is_cut), (before.position, before.is_cut), "{said}");
        if has_frames {
            assert_eq!(now.times, before.times, "{said}");
        }
        assert_eq!(now.segments.len(), before.segments.len(), "{said}");
        for (now, before) in now.segments.iter().zip(&before.segments) {
            let memory =
                |segment: &ChunkSegment| (segment.handle, segment.offset, segment.length, segment.returned_length);
            assert_eq!(memory(now), memory(before), "{said}");
            assert_eq!(now.moved_coverage, before.moved_coverage, "{said}: {:?}", memory(now));
            let kept = |segment: &ChunkSegment| segment.payload.as_ref().map(|kept| kept.prefix().to_vec());
            assert!(kept(now) == kept(before), "{said}: the bytes of {:?}", memory(now));
            if has_frames {
                assert_eq!(now.frames, before.frames, "{said}");
            }
        }
    }
}
