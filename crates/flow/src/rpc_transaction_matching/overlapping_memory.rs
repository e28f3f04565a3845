//! Memory that is offered twice: ranges of one handle that overlap, in one Call or in Calls in flight at the same time.
//!
//! An RDMA Write into such a range is recorded in one of the segments, although it fills all of them. RFC 8166 section
//! 4.4.1 asks Requesters not to offer memory twice, but a Responder that writes it keeps to its part.

use std::ops::Range;

use nfsrdma_dissectors::memory_handle::Handle;

use super::connection_rpc_state::ConnectionRpcState;
use crate::advertised_handles::AdvertisedSegment;
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::chunk::ChunkSegment;
use crate::count_categories::EvictedState;
use crate::rdma_operation::ConnectionSideAOrB;
use crate::transaction::Transaction;
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};
use crate::transaction_table::TrackedFlowTransaction;

/// Maximum number of missing ranges of a Reply that are looked up, and of their parts that are found: hostile captures
/// have many.
const MAX_MISSING: usize = 64;

/// Maximum number of captured bytes that a Reply adopts: the same bytes may be missing from many segments.
const MAX_ADOPTED_BYTES: u64 = 16 << 20;

/// Written bytes that a Reply returns, and that no RDMA Write into their segment moved.
struct MissingWrite {
    segment: PackedChunkSegmentOrdinal,
    handle: Handle,
    /// Offset of the segment.
    base: u64,
    /// Positions in the segment.
    range: Range<u64>,
}

/// A part of a missing range that was recorded in another segment.
struct FoundWrite {
    segment: PackedChunkSegmentOrdinal,
    /// Positions in the segment.
    range: Range<u64>,
    /// Captured bytes with their positions.
    parts: Vec<(u64, Vec<u8>)>,
    /// Transaction of the other segment.
    other: TransactionSlabKey,
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
        let (handle, base) = (segment.handle, segment.offset);
        segment.unmoved(segment.returned_bytes()).map(move |range| MissingWrite { segment: at, handle, base, range })
    });
    missing.take(MAX_MISSING).collect()
}

/// Returns positions in a segment at `base` as positions in a segment at `other_base`, as far as they are in the first
/// `length` bytes of it. The space of offsets wraps.
fn translate(range: &Range<u64>, base: u64, other_base: u64, length: u64) -> Range<u64> {
    // Segments are shorter than half of the space, so that their distance is a signed number.
    let distance = i128::from(base.wrapping_sub(other_base) as i64);
    let within = |at: u64| (i128::from(at) + distance).clamp(0, length.into()) as u64;
    within(range.start)..within(range.end)
}

/// Returns the parts of a missing range that are recorded in another segment.
fn found_in(segment: &ChunkSegment, missing: &MissingWrite, other: TransactionSlabKey) -> Vec<FoundWrite> {
    let searched = translate(&missing.range, missing.base, segment.offset, segment.length.into());
    let to_missing = segment.offset.wrapping_sub(missing.base);
    let found = segment.moved_coverage.parts_of(searched).take(MAX_MISSING).map(|part| {
        let captured = segment.captured_parts(&part);
        FoundWrite {
            segment: missing.segment,
            parts: captured.map(|(at, bytes)| (at.wrapping_add(to_missing), bytes.to_vec())).collect(),
            range: part.start.wrapping_add(to_missing)..part.end.wrapping_add(to_missing),
            other,
        }
    });
    found.collect()
}

impl ConnectionRpcState {
    /// Adds the bytes that a Reply of a Call of `requester` returns, and that were recorded in other segments of the
    /// same memory since the Call.
    #[cold]
    pub(super) fn adopt_overlapping_writes(
        &self,
        context: &mut BorrowedFlowState<'_>,
        requester: ConnectionSideAOrB,
        key: TransactionSlabKey,
    ) {
        let Some(entry) = context.transaction_table.get(key) else { return };
        let Some(sent) = entry.transaction.call.as_ref().map(|call| call.time) else { return };
        let mut adopted_bytes = 0;
        for missing in missing_writes(entry) {
            let Some(uses) = self.handles.get(&(requester, missing.handle)) else { continue };
            let last = missing.base.wrapping_add(missing.range.end - 1);
            for AdvertisedSegment { key: other, segment_index: at, .. } in uses.candidates_at(last) {
                if (other, at) == (key, missing.segment) || adopted_bytes > MAX_ADOPTED_BYTES {
                    continue;
                }
                let Some(entry) = context.transaction_table.get(other) else { continue };
                // Memory is offered again after a Reply, and bytes before the Call are not its own.
                let is_over = entry.transaction.reply.as_ref().is_some_and(|reply| reply.time <= sent);
                let is_since = entry.chunk_at(at).and_then(|chunk| chunk.times).is_some_and(|(_, last)| last >= sent);
                let segment = entry.segment_at(at).filter(|segment| segment.handle == missing.handle);
                let Some(segment) = segment.filter(|_| !is_over && is_since) else { continue };
                for found in found_in(segment, &missing, other) {
                    adopted_bytes += found.parts.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
                    adopt(context, key, &found);
                }
            }
        }
    }
}

/// Adds bytes that were recorded in another segment to a Transaction.
fn adopt(context: &mut BorrowedFlowState<'_>, key: TransactionSlabKey, found: &FoundWrite) {
    for sharing in [key, found.other] {
        if let Some(entry) = context.transaction_table.get_mut(sharing) {
            entry.transaction.shares_memory = true;
        }
    }
    let Some((chunk, index)) = context.transaction_table.get_mut(key).and_then(|entry| entry.segment(found.segment))
    else {
        return;
    };
    let Some(segment) = chunk.segments.get_mut(index) else { return };
    let kept_bytes = &mut context.stats.chunk_content_bytes;
    let growth = segment.max_growth_of(&found.parts);
    if growth.is_some_and(|growth| *kept_bytes + growth > context.limits.chunk_content_bytes) {
        *kept_bytes -= segment.drop_payload();
        context.stats.count_evicted(EvictedState::KeptChunk);
    }
    let kept_bytes = &mut context.stats.chunk_content_bytes;
    *kept_bytes -= segment.payload_memory_bytes();
    segment.adopt(found.range.clone(), &found.parts);
    *kept_bytes += segment.payload_memory_bytes();
}
