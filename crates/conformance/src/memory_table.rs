//! Memory that Calls offered, to find ranges that several Calls in flight offer at the same time. RFC 8166 section 4.4.1.

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::chunk::ChunkSegment;
use nfsrdma_dissectors::flow::transaction::CallDirection;
use nfsrdma_dissectors::frame::Timestamp;
use nfsrdma_dissectors::rdma::Handle;
use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::FxHashMap;

/// Maximum number of handles. Beyond it, all are forgotten.
const MAX_HANDLES: usize = 1 << 14;
/// Maximum number of ranges of a handle: the last ones.
const MAX_RANGES: usize = 64;
/// Nanoseconds by which packets of the two directions may be captured in the wrong order: a capture of several queues.
const MAX_SKEW_NS: i64 = 1_000_000;

/// Memory that another Call in flight offered, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOverlap {
    /// The other Call.
    pub xid: Xid,
    /// Handle.
    pub handle: Handle,
    /// Offset of the first common byte.
    pub offset: u64,
    /// Number of common bytes.
    pub length: u64,
}

#[derive(Clone, Copy, Debug)]
struct OfferedRange {
    transaction: u64,
    xid: Xid,
    start: u64,
    end: u64,
    is_written: bool,
    call_time: Timestamp,
    reply_time: Timestamp,
}

impl OfferedRange {
    fn overlaps(&self, other: &Self) -> bool {
        let is_common = self.start < other.end && other.start < self.end;
        let is_apart = |first: &Self, second: &Self| {
            second.call_time.0.saturating_add(MAX_SKEW_NS) >= first.reply_time.0
        };
        is_common
            && (self.is_written || other.is_written)
            && self.transaction != other.transaction
            && !is_apart(self, other)
            && !is_apart(other, self)
    }
}

/// Connection, direction of the Calls, and handle.
type MemoryKey = (u64, CallDirection, Handle);

/// Ranges that answered Calls offered.
#[derive(Debug, Default)]
pub(crate) struct MemoryTable(FxHashMap<MemoryKey, Vec<OfferedRange>>);

impl MemoryTable {
    /// Records the memory of a Transaction. Returns memory that another Call in flight at the same time offered.
    pub(crate) fn record(&mut self, transaction: &Transaction) -> Option<MemoryOverlap> {
        let (call, reply) = (transaction.call.as_ref()?, transaction.reply.as_ref()?);
        if call.copies > 1 {
            return None;
        }
        let written =
            transaction.write_chunks.iter().chain(&transaction.reply_chunk).map(|chunk| (chunk, true));
        let chunks = transaction.read_chunks.iter().map(|chunk| (chunk, false)).chain(written);
        let segments = chunks
            .flat_map(|(chunk, is_written)| chunk.segments.iter().map(move |segment| (segment, is_written)));
        let mut found = None;
        for (segment, is_written) in segments.filter(|(segment, _)| segment.length > 0) {
            let ChunkSegment { handle, offset, length, .. } = *segment;
            let range = OfferedRange {
                transaction: transaction.index,
                xid: transaction.xid,
                start: offset,
                end: offset.saturating_add(u64::from(length)),
                is_written,
                call_time: call.time,
                reply_time: reply.time,
            };
            if self.0.len() >= MAX_HANDLES {
                self.0.clear();
            }
            let ranges =
                self.0.entry((transaction.connection.number, transaction.direction, handle)).or_default();
            let other = ranges.iter().find(|other| range.overlaps(other));
            found = found.or(other.map(|other| {
                let start = range.start.max(other.start);
                MemoryOverlap {
                    xid: other.xid,
                    handle,
                    offset: start,
                    length: range.end.min(other.end) - start,
                }
            }));
            if ranges.len() >= MAX_RANGES {
                ranges.remove(0);
            }
            // Most handles are used again only after the Reply.
            if ranges.iter().all(|other| other.reply_time < range.call_time) {
                ranges.clear();
            }
            ranges.push(range);
        }
        found
    }
}
