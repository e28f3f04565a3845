//! Statistics of a whole capture, in limited memory.

use hdrhistogram::Histogram;
use nfsrdma_dissectors::captured_frame::{Frame, Timestamp};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::{Chunk, ChunkKind};
use nfsrdma_flow::transaction::{MissingPart, PossibleRecovery, RpcMessageKind, UncapturedOriginalCallEvidence};
use nfsrdma_flow::transaction_message_decoding::{ProcedureOrMainOperation, RpcStatus, RpcSummary};
use rustc_hash::FxHashMap;

use super::connections::ConnectionTallies;
use crate::filter::runner::SelectedFrameTally;
use crate::memory_budget_shares::CommandMemoryBudget;

/// Maximum number of operations counted separately. All programs have about 150; the rest, of unknown programs and
/// versions, is counted without a name, as are the rarest operations if percentiles need too much memory.
const MAX_OPERATIONS: usize = 256;
/// Significant digits of percentiles.
const DIGITS: u8 = 3;
/// Number of leading binary digits that a histogram of so many decimal digits keeps. The others are set in percentiles.
const EXACT_BITS: u32 = 11;
/// Maximum number of latencies that are kept one by one: a histogram is larger, and slower to read.
const MAX_SINGLE_LATENCIES: usize = 64;
/// Largest latency that percentiles distinguish, in nanoseconds: more than a day. It limits a histogram.
const MAX_LATENCY_NS: u64 = 1 << 47;

/// Key of an operation in the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationKey {
    /// Name of the program.
    pub program: Option<&'static str>,
    /// Version of the program.
    pub version: Option<u32>,
    /// The operation.
    pub operation: Option<ProcedureOrMainOperation>,
}

impl OperationKey {
    /// Returns the key of a Transaction.
    pub fn from_summary(summary: &RpcSummary) -> Self {
        Self { program: summary.program_name(), version: summary.version, operation: summary.operation }
    }
}

/// Completeness of the transactions of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// All are.
    All,
    /// All that were decoded are, but so many frames of connections with RPC were not decoded.
    Decoded(u64),
    /// So many are not.
    Incomplete(u64),
}

impl Completeness {
    /// Judges a number of incomplete transactions, and of frames of unknown streams on connections with RPC.
    pub fn new(incomplete: u64, unknown_frames: u64) -> Self {
        match (incomplete, unknown_frames) {
            (0, 0) => Self::All,
            (0, frames) => Self::Decoded(frames),
            (transactions, _) => Self::Incomplete(transactions),
        }
    }
}

/// Latencies: exact extremes and mean, percentiles with three significant digits.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    samples: LatencySamples,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Latencies {
    /// Counts a latency, in nanoseconds.
    pub fn add(&mut self, latency: u64) {
        self.min = if self.count == 0 { latency } else { self.min.min(latency) };
        self.max = self.max.max(latency);
        self.sum += u128::from(latency);
        self.count += 1;
        self.samples.record(latency.min(MAX_LATENCY_NS));
    }

    /// Adds the latencies of another.
    pub fn join(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.count += other.count;
        self.samples.join(&other.samples);
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the memory of the percentiles, in bytes.
    fn memory_bytes(&self) -> usize {
        match &self.samples {
            LatencySamples::Few(latencies) => latencies.capacity() * size_of::<u64>(),
            LatencySamples::Many(histogram) => histogram.distinct_values() * size_of::<u32>(),
        }
    }

    /// Returns the minimum, in nanoseconds.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Returns the maximum, in nanoseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the sum, in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Returns the mean, in nanoseconds.
    pub fn mean(&self) -> u64 {
        u64::try_from(self.sum / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// Returns the quantile for a fraction of the latencies, in nanoseconds.
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.samples.quantile(quantile).clamp(self.min, self.max)
    }
}

/// Latencies that percentiles are taken from, in nanoseconds.
#[derive(Clone, Debug)]
enum LatencySamples {
    /// One by one, in any order: most operations have few.
    Few(Vec<u64>),
    /// Counted by their leading digits.
    Many(Histogram<u32>),
}

impl Default for LatencySamples {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl LatencySamples {
    fn record(&mut self, latency: u64) {
        match self {
            Self::Few(latencies) if latencies.len() < MAX_SINGLE_LATENCIES => latencies.push(latency),
            _ => {
                if let Some(histogram) = self.histogram() {
                    // An auto-resizing histogram accepts every number.
                    let _ = histogram.record(latency);
                }
            }
        }
    }

    /// Returns the histogram, which has all latencies from now on.
    fn histogram(&mut self) -> Option<&mut Histogram<u32>> {
        if let Self::Few(latencies) = self {
            let mut histogram = Histogram::new(DIGITS).ok()?;
            for latency in latencies {
                // As above.
                let _ = histogram.record(*latency);
            }
            *self = Self::Many(histogram);
        }
        match self {
            Self::Few(_) => None,
            Self::Many(histogram) => Some(histogram),
        }
    }

    fn join(&mut self, other: &Self) {
        match other {
            Self::Few(latencies) => latencies.iter().for_each(|latency| self.record(*latency)),
            Self::Many(addend) => {
                if let Some(histogram) = self.histogram() {
                    // As above.
                    let _ = histogram.add(addend);
                }
            }
        }
    }

    /// Returns the quantile for a fraction of the latencies: that of a histogram.
    fn quantile(&self, quantile: f64) -> u64 {
        let latencies = match self {
            Self::Few(latencies) => latencies,
            Self::Many(histogram) => return histogram.value_at_quantile(quantile),
        };
        let rank = (quantile.min(1.0) * latencies.len() as f64).ceil() as usize;
        let mut sorted = latencies.clone();
        sorted.sort_unstable();
        let Some(value) = sorted.get(rank.saturating_sub(1)) else { return 0 };
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(EXACT_BITS);
        value | ((1 << shift) - 1)
    }
}

/// Counts of an operation.
#[derive(Debug, Default)]
pub struct OperationTally {
    /// Number of Calls, each XID once.
    pub calls: u64,
    /// Number of Calls truncated before their program.
    pub truncated_calls: u64,
    /// Number of Replies, each XID once.
    pub replies: u64,
    /// Number of failed Transactions: see [`has_failed`].
    pub errors: u64,
    /// Latencies.
    pub latencies: Latencies,
    /// Sum of the phases `recovery`, in nanoseconds.
    pub recovery_ns: u64,
    /// Bytes of the Calls, including chunks.
    pub call_bytes: u64,
    /// Bytes of the Replies, including chunks.
    pub reply_bytes: u64,
    /// Bytes moved through Read chunks.
    pub read_chunk_bytes: u64,
    /// Bytes moved through Write chunks.
    pub write_chunk_bytes: u64,
    /// Bytes moved through Reply chunks.
    pub reply_chunk_bytes: u64,
}

impl OperationTally {
    fn join(&mut self, other: &Self) {
        let Self {
            calls,
            truncated_calls,
            replies,
            errors,
            latencies,
            recovery_ns,
            call_bytes,
            reply_bytes,
            read_chunk_bytes,
            write_chunk_bytes,
            reply_chunk_bytes,
        } = other;
        self.calls += calls;
        self.truncated_calls += truncated_calls;
        self.replies += replies;
        self.errors += errors;
        self.latencies.join(latencies);
        self.recovery_ns += recovery_ns;
        self.call_bytes += call_bytes;
        self.reply_bytes += reply_bytes;
        self.read_chunk_bytes += read_chunk_bytes;
        self.write_chunk_bytes += write_chunk_bytes;
        self.reply_chunk_bytes += reply_chunk_bytes;
    }
}

/// Counts of chunks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkTally {
    /// Number of chunks.
    pub chunks: u64,
    /// Number of segments.
    pub segments: u64,
    /// Bytes offered by Calls.
    pub offered: u64,
    /// Bytes written according to Replies; 0 for Read chunks.
    pub returned: u64,
    /// Bytes moved by RDMA, each once.
    pub moved: u64,
}

impl ChunkTally {
    fn add(&mut self, chunk: &Chunk) -> u64 {
        let moved = chunk.moved_bytes();
        self.chunks += 1;
        self.segments += chunk.segments.len() as u64;
        self.offered += chunk.offered_bytes();
        self.returned +=
            chunk.segments.iter().filter_map(|segment| segment.returned_length).map(u64::from).sum::<u64>();
        self.moved += moved;
        moved
    }
}

/// Chunks by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkTallies {
    /// Read chunks.
    pub read: ChunkTally,
    /// Write chunks.
    pub write: ChunkTally,
    /// Reply chunks.
    pub reply: ChunkTally,
    /// Read chunks of Replies (RFC 5666 section 3.5).
    pub reply_read: ChunkTally,
}

/// Number of Transactions by missing part. One may count for several parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncompleteTransactionTally {
    /// The Call.
    pub call: u64,
    /// The Reply.
    pub reply: u64,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// The rest of a captured message, which could not be decoded.
    pub undecoded: u64,
    /// The acceptance of a message, which its receiver refused.
    pub refused: u64,
    /// The results of the Call: the Reply has others, or malformed ones.
    pub wrong_result: u64,
}

impl IncompleteTransactionTally {
    fn add(&mut self, missing: &[MissingPart]) {
        let count_if = |predicate: fn(&MissingPart) -> bool| u64::from(missing.iter().any(predicate));
        self.call += count_if(|missing| matches!(missing, MissingPart::Message(RpcMessageKind::Call)));
        self.reply += count_if(|missing| matches!(missing, MissingPart::Message(RpcMessageKind::Reply)));
        self.message_bytes += count_if(|missing| matches!(missing, MissingPart::Header(_) | MissingPart::Bytes(..)));
        self.chunk_bytes += count_if(|missing| matches!(missing, MissingPart::Chunk(..) | MissingPart::ReplyRead(..)));
        self.undecoded += count_if(|missing| matches!(missing, MissingPart::Undecoded(..)));
        self.refused += count_if(|missing| matches!(missing, MissingPart::Refused(_)));
        self.wrong_result += count_if(|missing| matches!(missing, MissingPart::WrongResult));
    }
}

/// Counts of retransmitted messages, and the time that they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetransmissionTally {
    /// Number of copies of Calls and Replies beyond the first of each, from any sender.
    pub copies: u64,
    /// Number of copies sent by RPC, with a new PSN or stream position. The transport sent the others.
    pub rpc_copies: u64,
    /// Number of Transactions that waited for lost or refused packets.
    pub transactions: u64,
    /// Sum of their phases `recovery`, in nanoseconds.
    pub wait_ns: u64,
    /// Number of Transactions whose phase `server` has an ACK timeout or more, or may have it without a set-up. A packet
    /// may have been lost before the capture point: a request, or an RDMA Read of the server, retransmitted with the
    /// same PSN. Or a Call was lost behind it, and retransmitted.
    pub suspected_transactions: u64,
    /// Number of those on connections without a captured set-up, whose ACK timeout is unknown.
    pub suspected_without_set_up: u64,
    /// Number of Transactions that waited for packets of the server that the client refused, and that were not captured.
    pub refused_answers: u64,
    /// Number of Calls with a copy that was certainly lost before the capture point, which no latency includes.
    pub lost_copies: u64,
    /// Number of Calls with a copy that may have been lost before the capture point, or with an idle client.
    pub possible_lost_copies: u64,
}

impl RetransmissionTally {
    fn add(&mut self, transaction: &Transaction) {
        for message in transaction.call.iter().chain(&transaction.reply) {
            self.copies += u64::from(message.copies.saturating_sub(1));
            self.rpc_copies += u64::from(message.retransmissions);
        }
        match transaction.lost_copy() {
            Some(UncapturedOriginalCallEvidence::Certain { .. }) => self.lost_copies += 1,
            Some(UncapturedOriginalCallEvidence::Possible { .. }) => self.possible_lost_copies += 1,
            None => {}
        }
        let possible_recovery = transaction.possible_recovery();
        match possible_recovery {
            Some(PossibleRecovery::Nak) => self.refused_answers += 1,
            Some(evidence) => {
                self.suspected_transactions += 1;
                self.suspected_without_set_up += u64::from(evidence == PossibleRecovery::UnknownAckTimeout);
            }
            None => {}
        }
        let recovery_ns = transaction.recovery_ns();
        self.transactions += u64::from(recovery_ns > 0);
        self.wait_ns += recovery_ns;
    }

    /// Returns `true` if packets were lost.
    pub fn has_loss(&self) -> bool {
        self.copies > 0 || self.wait_ns > 0 || self.lost_copies > 0 || self.refused_answers > 0
    }

    /// Returns the number of copies by the transport: after a NAK, an ACK timeout, or a TCP retransmission timeout.
    pub fn transport_copies(&self) -> u64 {
        self.copies.saturating_sub(self.rpc_copies)
    }
}

/// Statistics of frames and Transactions.
#[derive(Debug)]
pub struct FrameAndTransactionStatistics {
    frames: SelectedFrameTally,
    transactions: u64,
    incomplete: u64,
    missing: IncompleteTransactionTally,
    recovery: RetransmissionTally,
    connections: ConnectionTallies,
    operations: FxHashMap<OperationKey, OperationTally>,
    /// Memory of the percentiles of operations, and its limit, in bytes.
    percentile_bytes: usize,
    limit_bytes: usize,
    /// Number of Transactions without a name, because of the limits on operations.
    unnamed_transactions: u64,
    /// `true` after an operation lost its name: then no other gets one, so that no counts are partial.
    is_full: bool,
    chunks: ChunkTallies,
}

impl Default for FrameAndTransactionStatistics {
    /// Creates statistics with the default memory.
    fn default() -> Self {
        Self::new(CommandMemoryBudget::default().tables_bytes())
    }
}

impl FrameAndTransactionStatistics {
    /// Creates empty statistics whose percentiles use up to `limit_bytes` bytes.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            frames: SelectedFrameTally::default(),
            transactions: 0,
            incomplete: 0,
            missing: IncompleteTransactionTally::default(),
            recovery: RetransmissionTally::default(),
            connections: ConnectionTallies::default(),
            operations: FxHashMap::default(),
            percentile_bytes: 0,
            limit_bytes,
            unnamed_transactions: 0,
            is_full: false,
            chunks: ChunkTallies::default(),
        }
    }

    /// Counts a frame, by its length on the wire.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.frames.add(frame.length, frame.time);
    }

    /// Counts frames that were selected with their Transaction.
    pub fn record_selected_frames(&mut self, frames: SelectedFrameTally) {
        self.frames.merge(frames);
    }

    /// Counts a Transaction.
    pub fn transaction(&mut self, transaction: &Transaction, summary: &RpcSummary) {
        let missing = summary.missing(transaction);
        self.transactions += 1;
        self.incomplete += u64::from(!missing.is_empty());
        self.missing.add(&missing);
        self.recovery.add(transaction);

        let length = |kind| transaction.rpc_length(kind).unwrap_or(0);
        let (call_bytes, reply_bytes) = (length(RpcMessageKind::Call), length(RpcMessageKind::Reply));
        self.connections.transaction(transaction, missing.is_empty(), call_bytes + reply_bytes);

        let key = OperationKey::from_summary(summary);
        let has_room = !self.is_full && self.operations.len() < MAX_OPERATIONS;
        let has_room = has_room || self.operations.contains_key(&key);
        self.unnamed_transactions += u64::from(!has_room);
        let key = if has_room { key } else { OperationKey::default() };
        let tally = self.operations.entry(key).or_default();
        tally.calls += u64::from(transaction.call.is_some());
        let is_cut = |missing: &MissingPart| {
            matches!(missing, MissingPart::Header(RpcMessageKind::Call) | MissingPart::Bytes(RpcMessageKind::Call, _))
        };
        tally.truncated_calls += u64::from(summary.program.is_none() && missing.iter().any(is_cut));
        tally.replies += u64::from(transaction.reply.is_some());
        tally.errors += u64::from(has_failed(transaction, summary));
        tally.recovery_ns += transaction.recovery_ns();
        tally.call_bytes += call_bytes;
        tally.reply_bytes += reply_bytes;
        let before = tally.latencies.memory_bytes();
        if let Some(latency) = transaction.latency_ns() {
            tally.latencies.add(latency);
        }
        let grown_bytes = tally.latencies.memory_bytes() - before;
        for chunk in &transaction.reply_read_chunks {
            self.chunks.reply_read.add(chunk);
        }
        for (chunk, kind) in chunks(transaction) {
            match kind {
                ChunkKind::Read => tally.read_chunk_bytes += self.chunks.read.add(chunk),
                ChunkKind::Write => tally.write_chunk_bytes += self.chunks.write.add(chunk),
                ChunkKind::Reply => tally.reply_chunk_bytes += self.chunks.reply.add(chunk),
            }
        }
        if grown_bytes > 0 {
            self.percentile_bytes += grown_bytes;
            self.merge_rarest();
        }
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u64 {
        self.frames.frames
    }

    /// Returns the bytes of the frames on the wire.
    pub fn bytes(&self) -> u64 {
        self.frames.bytes
    }

    /// Returns the earliest and the latest time of a frame.
    pub fn times(&self) -> Option<(Timestamp, Timestamp)> {
        self.frames.times
    }

    /// Returns the number of Transactions.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Returns the number of incomplete Transactions.
    pub fn incomplete(&self) -> u64 {
        self.incomplete
    }

    /// Returns the counts of missing parts.
    pub fn missing(&self) -> IncompleteTransactionTally {
        self.missing
    }

    /// Returns the counts of retransmissions.
    pub fn recovery(&self) -> RetransmissionTally {
        self.recovery
    }

    /// Returns the connections.
    pub fn connections(&self) -> &ConnectionTallies {
        &self.connections
    }

    /// Returns the operations by program and version; within these, those with the most Calls first.
    pub fn operations(&self) -> impl Iterator<Item = (&OperationKey, &OperationTally)> {
        let mut operations: Vec<_> = self.operations.iter().collect();
        operations.sort_by_key(|(key, tally)| {
            // Operations without a program come last.
            (key.program.is_none(), key.program, key.version, std::cmp::Reverse(tally.calls), **key)
        });
        operations.into_iter()
    }

    /// Returns the chunks.
    pub fn chunks(&self) -> ChunkTallies {
        self.chunks
    }

    /// Returns the number of Transactions without a name, because of the limits on operations.
    pub fn unnamed_transactions(&self) -> u64 {
        self.unnamed_transactions
    }

    /// Merges the rarest operations into the one without a name, until percentiles fit the limit.
    #[cold]
    fn merge_rarest(&mut self) {
        let unnamed = OperationKey::default();
        while self.percentile_bytes > self.limit_bytes
            && let Some(rarest) = self.rarest()
            && let Some(tally) = self.operations.remove(&rarest)
        {
            self.is_full = true;
            self.unnamed_transactions += tally.calls.max(tally.replies);
            self.percentile_bytes -= tally.latencies.memory_bytes();
            let sum = self.operations.entry(unnamed).or_default();
            let before = sum.latencies.memory_bytes();
            sum.join(&tally);
            self.percentile_bytes += sum.latencies.memory_bytes() - before;
        }
    }

    /// Returns the operation with the fewest Calls, if at least two have names.
    fn rarest(&self) -> Option<OperationKey> {
        let named_operations = || self.operations.iter().filter(|(key, _)| **key != OperationKey::default());
        named_operations().nth(1)?;
        named_operations().map(|(key, tally)| (tally.calls, *key)).min().map(|(_, key)| key)
    }
}

/// Returns `true` if a Reply reports a failure, or the status of the Transaction is a fault.
pub fn has_failed(transaction: &Transaction, summary: &RpcSummary) -> bool {
    summary.fault(transaction).is_some() || reports_failure(summary)
}

fn reports_failure(summary: &RpcSummary) -> bool {
    let by_rpc = summary.rpc_status.is_some_and(|status| match status {
        RpcStatus::Rpc(status) => !status.is_success(),
        RpcStatus::RdmaError(_) => true,
    });
    by_rpc || summary.status.is_some_and(|status| !status.is_ok)
}

/// Returns the chunks of the Call.
fn chunks(transaction: &Transaction) -> impl Iterator<Item = (&Chunk, ChunkKind)> {
    let kind = |kind| move |chunk| (chunk, kind);
    let read = transaction.read_chunks.iter().map(kind(ChunkKind::Read));
    let write = transaction.write_chunks.iter().map(kind(ChunkKind::Write));
    read.chain(write).chain(transaction.reply_chunk.iter().map(kind(ChunkKind::Reply)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_dissectors::nfs::ProcedureStatus;

    #[test]
    fn extremes_and_mean_are_exact_and_percentiles_have_three_digits() {
        let mut latencies = Latencies::default();
        (1..=1_000_u64).for_each(|n| latencies.add(n * 1_000_003));
        assert_eq!((latencies.min(), latencies.max()), (1_000_003, 1_000_003_000));
        assert_eq!(latencies.mean(), 1_000_003 * 1_001 / 2);
        for (part, expected) in [(0.5, 500_001_500), (0.9, 900_002_700), (0.99, 990_002_970), (0.999, 999_002_997)] {
            let error = latencies.quantile(part).abs_diff(expected);
            assert!(error * 1_000 <= expected, "{part}: {}", latencies.quantile(part));
        }
        assert!(latencies.quantile(1.0) <= latencies.max());
    }

    #[test]
    fn a_single_latency_is_every_percentile() {
        let mut latencies = Latencies::default();
        latencies.add(9_449_528);
        assert_eq!([0.5, 0.9, 0.99, 0.999].map(|part| latencies.quantile(part)), [9_449_528; 4]);
        (0..MAX_SINGLE_LATENCIES).for_each(|_| latencies.add(u64::MAX));
        assert_eq!(latencies.max(), u64::MAX);
        assert!(matches!(latencies.samples, LatencySamples::Many(histogram) if histogram.distinct_values() < 1 << 17));
    }

    #[test]
    fn single_latencies_have_percentiles_of_histogram() {
        let mut latencies = Latencies::default();
        for number in 0..MAX_SINGLE_LATENCIES as u64 {
            latencies.add(number.pow(9) + 1_000);
            let mut histogram = latencies.clone();
            histogram.samples.histogram().unwrap();
            assert!(matches!(latencies.samples, LatencySamples::Few(_)));
            for part in [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
                assert_eq!(latencies.quantile(part), histogram.quantile(part), "{number} {part}");
            }
        }
    }

    #[test]
    fn joined_latencies_are_those_of_both() {
        for (first, second) in [(10, 20), (50, 50), (50, 100), (100, 50), (100, 100), (0, 100)] {
            let [mut joined, mut other, mut all] = [(); 3].map(|()| Latencies::default());
            (0..first).for_each(|number| joined.add(number * 7_919));
            (0..second).for_each(|number| other.add(number * 104_729));
            (0..first).for_each(|number| all.add(number * 7_919));
            (0..second).for_each(|number| all.add(number * 104_729));
            joined.join(&other);
            assert_eq!((joined.count(), joined.sum(), joined.max()), (all.count(), all.sum(), all.max()));
            for part in [0.1, 0.5, 0.9, 0.99] {
                assert_eq!(joined.quantile(part), all.quantile(part), "{first} {second} {part}");
            }
        }
    }

    #[test]
    fn a_reply_has_failed_by_the_status_of_its_program() {
        let summary = |number, name, is_ok| RpcSummary {
            status: Some(ProcedureStatus { number, name: Some(name), is_ok }),
            ..RpcSummary::default()
        };
        assert!(!reports_failure(&summary(0, "NFS3_OK", true)) && reports_failure(&summary(2, "NFS3ERR_NOENT", false)));
        assert!(!reports_failure(&summary(1, "Q_OK", true)) && reports_failure(&summary(2, "Q_NOQUOTA", false)));
        assert!(!reports_failure(&RpcSummary::default()));
    }

    #[test]
    fn percentiles_keep_within_their_memory_and_the_most_frequent_operations_keep_their_names() {
        use nfsrdma_dissectors::rpc::Program;
        const ROOM_BYTES: usize = 1 << 20;
        let mut statistics = FrameAndTransactionStatistics::new(ROOM_BYTES);
        let mut transaction = crate::testing::transactions("rxe-v42.pcap")[0].clone();
        let start = transaction.call.as_ref().unwrap().end_time;
        // Latencies of days need the largest histograms; version 7 has most of them.
        for number in 0..20_000_u32 {
            let version = if number % 2 == 0 { 7 } else { 1_000 + number % 100 };
            let latency = 1 << (number % 47);
            transaction.reply.as_mut().unwrap().time = Timestamp(start.0 + latency);
            let facts = RpcSummary { program: Some(Program(7)), version: Some(version), ..RpcSummary::default() };
            statistics.transaction(&transaction, &facts);
        }
        let bytes: usize = statistics.operations().map(|(_, tally)| tally.latencies.memory_bytes()).sum();
        assert_eq!(bytes, statistics.percentile_bytes);
        assert!(bytes <= ROOM_BYTES, "{bytes}");
        let calls = |version: Option<u32>| {
            statistics.operations().filter(|(key, _)| key.version == version).map(|(_, tally)| tally.calls).sum::<u64>()
        };
        assert_eq!(calls(Some(7)), 10_000);
        assert_eq!(calls(None), statistics.unnamed_transactions());
        assert!(statistics.unnamed_transactions() > 500);
        assert_eq!(statistics.operations().map(|(_, tally)| tally.calls).sum::<u64>(), 20_000);
    }

    #[test]
    fn unknown_operations_take_a_bounded_amount_of_memory() {
        use nfsrdma_dissectors::rpc::Program;
        let mut statistics = FrameAndTransactionStatistics::default();
        let transaction = &crate::testing::transactions("rxe-v42.pcap")[0];
        for version in 0..10_000 {
            let facts = RpcSummary { program: Some(Program(7)), version: Some(version), ..RpcSummary::default() };
            statistics.transaction(transaction, &facts);
        }
        assert_eq!(statistics.operations().count(), MAX_OPERATIONS + 1);
        assert_eq!(statistics.operations().map(|(_, tally)| tally.calls).sum::<u64>(), 10_000);
    }
}
