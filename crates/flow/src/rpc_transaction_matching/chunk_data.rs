//! Data that RDMA moves in or out of chunks, and data of RDMA Writes and Read Responses that TCP retransmits.

use super::advertised_memory::MAX_ADJACENT;
use super::connection_rpc_state::ConnectionRpcState;
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::count_categories::{EvictedState, UndecodedReason};
use crate::exceptional_transport_events::{RdmaAccessViolationReason, RdmaMemoryAccess};
use crate::frame_kind::FrameContentKind;
use crate::non_message_frame_role::FrameRole;
use crate::rdma_operation::{CapturedPacketPayload, RdmaAttribution, RetransmissionStall};
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};

/// A packet with chunk data.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkDataPacket<'a> {
    /// `true` for a response to an RDMA Read, `false` for an RDMA Write.
    pub(super) is_read: bool,
    /// Offset of the first byte.
    pub(super) offset: u64,
    pub(super) data: CapturedPacketPayload<'a>,
}

impl ConnectionRpcState {
    /// Returns the reason for an operation on memory that no known Call advertised.
    pub(super) fn unknown_memory_reason(&self, default_reason: UndecodedReason) -> UndecodedReason {
        if self.has_cut_lists { UndecodedReason::CutAdvertisement } else { default_reason }
    }

    /// Records the last `remaining_bytes` bytes of a packet, which are behind the segment `owner`: in the segments of
    /// the chunk that follow. `owner` becomes the last of them. Bytes behind the chunk violate its bounds.
    #[cold]
    pub(super) fn record_rest(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        packet: ChunkDataPacket<'_>,
        owner: &mut RdmaAttribution,
        (mut remaining_bytes, first_content): (u32, FrameContentKind),
    ) -> FrameContentKind {
        let ChunkDataPacket { is_read, offset, data } = packet;
        let Some((key, at)) = TransactionSlabKey::from_attribution(*owner) else { return first_content };
        let segment = context.transaction_table.get(key).and_then(|entry| entry.segment_at(at));
        let Some(handle) = segment.map(|segment| segment.handle) else { return first_content };
        let side = if is_read { context.sender } else { context.sender.peer() };
        let unknown = self.unknown_memory_reason(unknown_memory(is_read));
        for _ in 0..MAX_ADJACENT {
            let recorded_bytes = data.length - remaining_bytes;
            let Some(rest_offset) = offset.checked_add(u64::from(recorded_bytes)) else { break };
            let next = self.find_next_segment(context.transaction_table, side, handle, rest_offset, (key, at));
            let Some(next) = next else {
                if !is_read && context.transaction_table.transport_events.is_enabled() {
                    let access = RdmaMemoryAccess { is_read, handle, offset, length: data.length };
                    let fault = (RdmaAccessViolationReason::OutOfBounds, Some(key));
                    self.suspect_access(context, access, fault);
                }
                return if recorded_bytes == 0 { context.count_undecoded(unknown) } else { first_content };
            };
            *owner = key.to_attribution(next);
            let bytes = data.bytes.get(recorded_bytes as usize..).unwrap_or_default();
            (_, remaining_bytes) = record_payload(
                context,
                *owner,
                rest_offset,
                &CapturedPacketPayload { bytes, length: remaining_bytes },
                unknown,
            );
            if remaining_bytes == 0 {
                break;
            }
        }
        first_content
    }
}

/// Returns the reason for payload of memory that no known Call advertised.
pub(super) fn unknown_memory(is_read: bool) -> UndecodedReason {
    match is_read {
        true => UndecodedReason::ReadOfUnknownMemory,
        false => UndecodedReason::WriteToUnknownMemory,
    }
}

/// Records payload of a chunk. Returns the number of bytes, at the end of the payload, that are behind the segment,
/// too.
#[inline]
pub(super) fn record_payload(
    context: &mut BorrowedFlowState<'_>,
    owner: RdmaAttribution,
    offset: u64,
    data: &CapturedPacketPayload<'_>,
    unknown: UndecodedReason,
) -> (FrameContentKind, u32) {
    let Some((key, at)) = TransactionSlabKey::from_attribution(owner) else {
        let is_empty = data.length == 0;
        return (if is_empty { FrameContentKind::EmptyOperation } else { context.count_undecoded(unknown) }, 0);
    };
    let kind = FrameContentKind::ChunkData { key, kind: at.kind(), chunk: at.chunk() };
    if context.limits.record_transaction_frames {
        context.transaction_table.record_event(
            key,
            FrameRole::MovedChunkData { kind: at.kind(), chunk: at.chunk() },
            *context.packet_meta,
        );
    }
    if context.packet_meta.is_captured_twice() {
        return (kind, 0);
    }
    if let Some(stall) = context.packet_meta.stall() {
        record_chunk_stall(context, key, at, stall);
    }
    let frames = context.packet_meta.frames;
    let is_heavy = context.transaction_table.is_memory_short();
    let is_pool_used_up = is_heavy && context.transaction_table.is_pool_used_up();
    let Some((chunk, index)) = context.transaction_table.get_mut(key).and_then(|entry| entry.segment(at)) else {
        return (context.count_undecoded(unknown), 0);
    };
    if !context.packet_meta.is_duplicate() {
        chunk.extend_times(context.packet_meta.accepted_time());
    }
    let Some(segment) = chunk.segments.get_mut(index) else { return (FrameContentKind::Unrelated, 0) };
    if is_heavy && segment.adds_range(offset, data) {
        context.stats.count_evicted(EvictedState::MovedRange);
        return (kind, 0);
    }
    let added;
    let before = segment.moved_coverage.heap_bytes();
    if let Some(growth) = segment.max_growth_bytes(data) {
        if context.stats.chunk_content_bytes + growth > context.limits.chunk_content_bytes || is_pool_used_up {
            context.stats.chunk_content_bytes -= segment.drop_payload();
            context.stats.count_evicted(EvictedState::KeptChunk);
        }
        context.stats.chunk_content_bytes -= segment.payload_memory_bytes();
        added = segment.add(offset, data, frames);
        context.stats.chunk_content_bytes += segment.payload_memory_bytes();
    } else {
        added = segment.add(offset, data, frames);
    }
    let after = segment.moved_coverage.heap_bytes();
    if before != after {
        context.transaction_table.apply_size_change(key, before, after);
    }
    (kind, data.length - added as u32)
}

pub(super) fn record_read_request(
    context: &mut BorrowedFlowState<'_>,
    owner: RdmaAttribution,
    (offset, length): (u64, u32),
    unknown: UndecodedReason,
) -> FrameContentKind {
    let Some((key, at)) = TransactionSlabKey::from_attribution(owner) else {
        return match length {
            0 => FrameContentKind::EmptyOperation,
            _ => context.count_undecoded(unknown),
        };
    };
    if context.limits.record_transaction_frames {
        context.transaction_table.record_event(
            key,
            FrameRole::RequestedRead { chunk: at.chunk() },
            *context.packet_meta,
        );
    }
    let packet_meta = context.packet_meta;
    if let Some(stall) = packet_meta.stall().filter(|_| !packet_meta.is_duplicate()) {
        record_chunk_stall(context, key, at, stall);
    }
    if let Some((chunk, index)) = context.transaction_table.get_mut(key).and_then(|entry| entry.segment(at)) {
        // A repeated RDMA Read request means that the responses were lost.
        let last = chunk.times.map(|(_, last)| last).filter(|_| packet_meta.was_already_accepted());
        if !packet_meta.is_captured_twice() {
            chunk.extend_times(packet_meta.time);
        }
        if !packet_meta.is_duplicate() {
            chunk.record_read_request(index, offset, length);
        }
        if let Some((since, entry)) = last.zip(context.transaction_table.get_mut(key)) {
            entry.transaction.record_stall(RetransmissionStall { since, until: packet_meta.time });
        }
    }
    FrameContentKind::ReadRequest { key, chunk: at.chunk() }
}

/// Records a stall of chunk data that was lost and retransmitted.
#[cold]
pub(super) fn record_chunk_stall(
    context: &mut BorrowedFlowState<'_>,
    key: TransactionSlabKey,
    at: PackedChunkSegmentOrdinal,
    stall: RetransmissionStall,
) {
    let Some(entry) = context.transaction_table.get_mut(key) else { return };
    // A stall cannot begin before the first transfer of the chunk.
    let first = entry.segment(at).and_then(|(chunk, _)| chunk.times).map(|(first, _)| first);
    let since = first.map_or(stall.since, |first| first.max(stall.since));
    entry.transaction.record_stall(RetransmissionStall { since, ..stall });
}

/// Attributes a frame to the chunk whose data it repeats, and records the wait for it if the receiver lacked the data.
/// No bytes of the chunk move again.
#[cold]
pub(super) fn record_retransmitted_data(
    context: &mut BorrowedFlowState<'_>,
    owner: RdmaAttribution,
) -> FrameContentKind {
    let packet_meta = context.packet_meta;
    let Some((key, at)) = TransactionSlabKey::from_attribution(owner) else {
        return FrameContentKind::Unrelated;
    };
    let Some(entry) = context.transaction_table.get_mut(key) else { return FrameContentKind::Unrelated };
    let transaction = &mut entry.transaction;
    let last_data = transaction.call_chunks().filter_map(|chunk| chunk.times).map(|(_, last)| last).max();
    // The delay of a Reply behind the data includes the wait: TrackedTransactionTable::delay_delivery.
    let is_answered = transaction.reply.is_some();
    let stall = packet_meta.stall().filter(|_| !packet_meta.is_duplicate() && !is_answered);
    if let Some((last_data, stall)) = last_data.zip(stall) {
        transaction.record_stall(RetransmissionStall { since: last_data.max(stall.since), ..stall });
        if let Some((chunk, _)) = entry.segment(at) {
            chunk.extend_times(packet_meta.accepted_time());
        }
    }
    if context.limits.record_transaction_frames {
        context.transaction_table.record_event(
            key,
            FrameRole::MovedChunkData { kind: at.kind(), chunk: at.chunk() },
            *packet_meta,
        );
    }
    FrameContentKind::ChunkData { key, kind: at.kind(), chunk: at.chunk() }
}
