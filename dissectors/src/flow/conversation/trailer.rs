//! Trailers of FPDUs that TCP retransmits after data of RDMA Writes and Read responses.

use crate::flow::FrameKind;
use crate::flow::frame_event::FrameAction;
use crate::flow::transaction_table::TransactionKey;
use crate::rdma::RdmaAttribution;

use super::RpcContext;

/// Attributes a frame to the chunk whose data the trailer ends; no bytes of the chunk move again.
#[cold]
pub(super) fn record_retransmitted_trailer(desk: &mut RpcContext<'_>, owner: RdmaAttribution) -> FrameKind {
    let Some((key, at)) =
        TransactionKey::from_attribution(owner).filter(|(key, _)| desk.transaction_table.get(*key).is_some())
    else {
        return FrameKind::Unrelated;
    };
    if desk.limits.record_frame_events {
        desk.transaction_table.record_event(
            key,
            FrameAction::MovedChunkData { kind: at.kind(), chunk: at.chunk() },
            *desk.packet_meta,
        );
    }
    FrameKind::ChunkData { key, kind: at.kind(), chunk: at.chunk() }
}
