//! Trailers of FPDUs that TCP retransmits after data of RDMA Writes and Read responses.

use crate::flow::FrameKind;
use crate::flow::frame_event::FrameAction;
use crate::flow::transaction_table::TransactionKey;
use crate::rdma::RdmaAttribution;

use super::RpcContext;

/// Attributes a frame to the chunk whose data the trailer ends; no bytes of the chunk move again.
#[cold]
pub(super) fn again(desk: &mut RpcContext<'_>, owner: RdmaAttribution) -> FrameKind {
    let Some((key, at)) = TransactionKey::noted(owner).filter(|(key, _)| desk.ledger.get(*key).is_some())
    else {
        return FrameKind::Nothing;
    };
    if desk.limits.note_steps {
        desk.ledger.note(key, FrameAction::Moved { kind: at.kind(), chunk: at.chunk() }, *desk.sight);
    }
    FrameKind::Data { key, kind: at.kind(), chunk: at.chunk() }
}
