//! Trailers of FPDUs that TCP retransmits after data of RDMA Writes and Read responses.

use crate::flow::FrameKind;
use crate::flow::frame_role::FrameRole;
use crate::flow::transaction_table::TransactionKey;
use crate::rdma::RdmaAttribution;

use super::ConversationContext;

/// Attributes a frame to the chunk whose data the trailer ends; no bytes of the chunk move again.
#[cold]
pub(super) fn record_retransmitted_trailer(
    context: &mut ConversationContext<'_>,
    owner: RdmaAttribution,
) -> FrameKind {
    let Some((key, at)) = TransactionKey::from_attribution(owner)
        .filter(|(key, _)| context.transaction_table.get(*key).is_some())
    else {
        return FrameKind::Unrelated;
    };
    if context.limits.record_transaction_frames {
        context.transaction_table.record_event(
            key,
            FrameRole::MovedChunkData { kind: at.kind(), chunk: at.chunk() },
            *context.packet_meta,
        );
    }
    FrameKind::ChunkData { key, kind: at.kind(), chunk: at.chunk() }
}
