//! Memory that Calls offered, to find ranges that several Calls in flight offer at the same time. RFC 8166 section
//! 4.4.1.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::ChunkSegment;
use nfsrdma_flow::exceptional_transport_events::MAX_CAPTURE_SKEW_NS;
use nfsrdma_flow::transaction::CallDirection;
use rustc_hash::FxHashMap;

use crate::bounded_table::empty_if_full;

/// Maximum number of handles. Beyond it, all are forgotten. A client registers a handle anew for each Call: the table
/// is small enough to stay in a cache of the processor.
const MAX_HANDLES: usize = 1 << 12;
/// Maximum number of earlier ranges of a handle: the last ones.
const MAX_EARLIER: usize = 63;

/// Memory that another Call in flight offered, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfferedMemoryOverlap {
    /// The other Call.
    pub(crate) xid: Xid,
    pub(crate) handle: Handle,
    /// Offset of the first common byte.
    pub(crate) offset: u64,
    /// Number of common bytes.
    pub(crate) length: u64,
    /// `false` if one Call may have been answered before the other was sent: a capture of several queues reorders
    /// packets.
    pub(crate) is_certain: bool,
}

#[derive(Clone, Copy, Debug)]
struct OfferedMemoryRange {
    transaction: u64,
    xid: Xid,
    start: u64,
    end: u64,
    is_written: bool,
    call_time: Timestamp,
    reply_time: Timestamp,
}

impl OfferedMemoryRange {
    /// Returns `true` if this range is common to the other, while both Calls are in flight for more than `min_ns`.
    fn overlaps(&self, other: &Self, min_ns: u64) -> bool {
        let is_common = self.start < other.end && other.start < self.end;
        let is_apart =
            |first: &Self, second: &Self| second.call_time.0.saturating_add_unsigned(min_ns) >= first.reply_time.0;
        is_common
            && (self.is_written || other.is_written)
            && self.transaction != other.transaction
            && !is_apart(self, other)
            && !is_apart(other, self)
    }
}

/// Connection, direction of the Calls, and handle.
type OfferedMemoryKey = (u64, CallDirection, Handle);

/// Ranges of one handle that Calls offered.
#[derive(Debug)]
struct OverlapCandidateRanges {
    last: OfferedMemoryRange,
    /// Ranges before it, of Calls in flight at the same time.
    earlier: Vec<OfferedMemoryRange>,
}

impl OverlapCandidateRanges {
    /// Returns a range that overlaps, and whether this is certain.
    fn find_overlap(&self, range: &OfferedMemoryRange) -> Option<(&OfferedMemoryRange, bool)> {
        let find = |min_ns| self.earlier.iter().chain([&self.last]).find(|other| range.overlaps(other, min_ns));
        find(MAX_CAPTURE_SKEW_NS).map(|other| (other, true)).or_else(|| Some((find(0)?, false)))
    }

    fn add(&mut self, range: OfferedMemoryRange) {
        let is_over = |other: &OfferedMemoryRange| other.reply_time < range.call_time;
        // Most handles are used again only after the Reply.
        if is_over(&self.last) && self.earlier.iter().all(is_over) {
            self.earlier.clear();
        } else {
            if self.earlier.len() >= MAX_EARLIER {
                self.earlier.remove(0);
            }
            self.earlier.push(self.last);
        }
        self.last = range;
    }
}

/// Ranges that answered Calls offered.
#[derive(Debug, Default)]
pub(crate) struct OfferedMemoryOverlapDetector(FxHashMap<OfferedMemoryKey, OverlapCandidateRanges>);

impl OfferedMemoryOverlapDetector {
    /// Records the memory of a Transaction. Returns memory that another Call in flight at the same time offered.
    pub(crate) fn record(&mut self, transaction: &Transaction) -> Option<OfferedMemoryOverlap> {
        let (call, reply) = (transaction.call.as_ref()?, transaction.reply.as_ref()?);
        if call.copies > 1 {
            return None;
        }
        let written = transaction.write_chunks.iter().chain(&transaction.reply_chunk).map(|chunk| (chunk, true));
        let chunks = transaction.read_chunks.iter().map(|chunk| (chunk, false)).chain(written);
        let segments =
            chunks.flat_map(|(chunk, is_written)| chunk.segments.iter().map(move |segment| (segment, is_written)));
        let mut overlap = None;
        for (segment, is_written) in segments.filter(|(segment, _)| segment.length > 0) {
            let ChunkSegment { handle, offset, length, .. } = *segment;
            let range = OfferedMemoryRange {
                transaction: transaction.index,
                xid: transaction.xid,
                start: offset,
                end: offset.saturating_add(u64::from(length)),
                is_written,
                call_time: call.time,
                reply_time: reply.time,
            };
            let key = (transaction.connection.number, transaction.direction, handle);
            let Some(ranges) = self.0.get_mut(&key) else {
                empty_if_full(&mut self.0, MAX_HANDLES);
                self.0.insert(key, OverlapCandidateRanges { last: range, earlier: Vec::new() });
                continue;
            };
            if !overlap.is_some_and(|overlap: OfferedMemoryOverlap| overlap.is_certain)
                && let Some((other, is_certain)) = ranges.find_overlap(&range)
            {
                let start = range.start.max(other.start);
                let length = range.end.min(other.end) - start;
                overlap = Some(OfferedMemoryOverlap { xid: other.xid, handle, offset: start, length, is_certain });
            }
            ranges.add(range);
        }
        overlap
    }
}
