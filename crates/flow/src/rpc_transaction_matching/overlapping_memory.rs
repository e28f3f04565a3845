//! Memory that is offered twice: ranges of one handle that overlap, in one Call or in Calls in flight at the same time.
//!
//! An RDMA Write into such a range is recorded in one of the segments, although it fills all of them. RFC 8166 section
//! 4.4.1 asks Requesters not to offer memory twice, but a Responder that writes it keeps to its part.

use nfsrdma_dissectors::memory_handle::Handle;

use super::connection_rpc_state::ConnectionRpcState;
use crate::advertised_handles::AdvertisedSegment;
use crate::rdma_operation::ConnectionSideAOrB;
use crate::transaction::Transaction;
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};
use crate::transaction_table::{TrackedFlowTransaction, TrackedTransactionTable};

/// Maximum number of missing ranges of a Reply that are looked up: hostile captures have many.
const MAX_MISSING: usize = 64;

/// Written bytes that a Reply returns, and that no RDMA Write into their segment moved.
struct MissingWrite {
    segment: PackedChunkSegmentOrdinal,
    handle: Handle,
    /// Offset of the segment.
    base: u64,
    /// Offsets of the first byte, and behind the last.
    start: u64,
    end: u64,
}

/// Returns `true` if a Reply returns more bytes of a segment than were moved into it.
pub(super) fn lacks_writes(transaction: &Transaction) -> bool {
    let chunks = transaction.write_chunks.iter().chain(&transaction.reply_chunk);
    chunks
        .flat_map(|chunk| &chunk.segments)
        .any(|segment| segment.returned_bytes() > segment.moved_coverage.total_bytes())
}

fn missing_writes(entry: &TrackedFlowTransaction) -> Vec<MissingWrite> {
    let written = entry.segments().filter(|(_, segment)| segment.returned_length.is_some());
    let missing = written.flat_map(|(at, segment)| {
        segment.unmoved_memory(segment.returned_bytes()).map(move |range| MissingWrite {
            segment: at,
            handle: range.handle,
            base: segment.offset,
            start: range.offset,
            end: range.end(),
        })
    });
    missing.take(MAX_MISSING).collect()
}

impl ConnectionRpcState {
    /// Adds the bytes that a Reply of a Call of `requester` returns, and that were recorded in other segments of the
    /// same memory.
    #[cold]
    pub(super) fn adopt_overlapping_writes(
        &self,
        transactions: &mut TrackedTransactionTable,
        requester: ConnectionSideAOrB,
        key: TransactionSlabKey,
    ) {
        let Some(entry) = transactions.get(key) else { return };
        let Some(sent) = entry.transaction.call.as_ref().map(|call| call.time) else { return };
        // Memory is offered anew after a Reply.
        let is_in_flight =
            |other: &TrackedFlowTransaction| other.transaction.reply.as_ref().is_none_or(|reply| reply.time > sent);
        let mut found = Vec::new();
        for missing in missing_writes(entry) {
            let Some(uses) = self.handles.get(&(requester, missing.handle)) else { continue };
            let candidates = uses.candidates_at(missing.end - 1);
            for AdvertisedSegment { key: other, segment_index: at, .. } in candidates {
                if (other, at) == (key, missing.segment) {
                    continue;
                }
                let other_entry = transactions.get(other).filter(|entry| is_in_flight(entry));
                let segment = other_entry.and_then(|entry| entry.segment_at(at));
                let Some(segment) = segment.filter(|segment| segment.handle == missing.handle) else { continue };
                for moved in segment.moved_coverage.ranges() {
                    let start = segment.offset.saturating_add(moved.start).max(missing.start);
                    let end = segment.offset.saturating_add(moved.end).min(missing.end);
                    if start < end {
                        found.push((missing.segment, start - missing.base..end - missing.base, other));
                    }
                }
            }
        }
        for (at, bytes, other) in found {
            for sharing in [key, other] {
                if let Some(entry) = transactions.get_mut(sharing) {
                    entry.transaction.shares_memory = true;
                }
            }
            if let Some((chunk, index)) = transactions.get_mut(key).and_then(|entry| entry.segment(at))
                && let Some(segment) = chunk.segments.get_mut(index)
            {
                segment.moved_coverage.add(bytes);
            }
        }
    }
}
