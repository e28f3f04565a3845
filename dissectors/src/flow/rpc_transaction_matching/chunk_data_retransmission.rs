//! Data of RDMA Writes and Read Responses that TCP retransmits.

use crate::flow::non_message_frame_role::FrameRole;
use crate::flow::transaction_table::TransactionSlabKey;
use crate::flow::{FrameContentKind, RetransmissionStall};
use crate::rdma_operation::RdmaAttribution;

use super::BorrowedFlowState;

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
    let chunks =
        transaction.read_chunks.iter().chain(&transaction.write_chunks).chain(&transaction.reply_chunk);
    let last_data = chunks.filter_map(|chunk| chunk.times).map(|(_, last)| last).max();
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
