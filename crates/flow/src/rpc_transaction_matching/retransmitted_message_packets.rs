//! Retransmitted packets of messages.

use nfsrdma_dissectors::rpc::RpcMessageKind;

use super::message_record::append_frames;
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::count_categories::UndecodedReason;
use crate::frame_kind::FrameContentKind;
use crate::packet_meta::DeliveryAnomaly;
use crate::rdma_operation::{RdmaAttribution, RetransmissionStall};
use crate::transaction::DeliveryEvidence;
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};

/// Records a retransmitted packet of a message; `ends` says that it is the message's last packet, and `unknown` is the
/// reason for a message that was not decoded.
pub(crate) fn record_retransmission(
    context: &mut BorrowedFlowState<'_>,
    owner: RdmaAttribution,
    ends: bool,
    unknown: UndecodedReason,
) -> FrameContentKind {
    let Some((key, at)) = TransactionSlabKey::from_attribution(owner) else {
        return context.count_undecoded(unknown);
    };
    let packet_meta = context.packet_meta;
    if at == PackedChunkSegmentOrdinal::PART || at == PackedChunkSegmentOrdinal::CONTROL {
        return FrameContentKind::PartialMessage;
    }
    let Some(entry) = context.transaction_table.get_mut(key) else {
        return context.count_undecoded(UndecodedReason::LateCopy);
    };
    let transaction = &mut entry.transaction;
    let is_call_delivered = transaction.is_call_delivered();
    let (kind, message) = match at {
        PackedChunkSegmentOrdinal::DONE => return FrameContentKind::Done { key },
        PackedChunkSegmentOrdinal::CALL => (RpcMessageKind::Call, &mut transaction.call),
        _ => (RpcMessageKind::Reply, &mut transaction.reply),
    };
    let Some(message) = message else { return FrameContentKind::Retransmission { key, which: kind } };
    let listed_bytes = append_frames(&mut message.frames, packet_meta.frames, context.stats);
    message.copies += u32::from(ends && !packet_meta.is_captured_twice());
    let is_accepted = packet_meta.stall().is_some() && !packet_meta.is_duplicate() && !packet_meta.is_refused();
    let is_needed = message.delivery_evidence != DeliveryEvidence::Acknowledged
        && (kind == RpcMessageKind::Reply || !is_call_delivered);
    if ends && is_needed && packet_meta.may_be_accepted() {
        message.delivery_evidence = DeliveryEvidence::AssumedFirst;
    }
    if ends && kind == RpcMessageKind::Reply && !packet_meta.is_duplicate() {
        entry.is_refused = packet_meta.is_refused();
    }
    // In a stream, it delays messages behind it, too: TcpStreamDirection::delay_messages.
    let is_accepted = is_accepted && !matches!(packet_meta.anomaly, Some(DeliveryAnomaly::ClosesGap(_)));
    if let Some(stall) = packet_meta.stall().filter(|_| is_accepted && is_needed) {
        let since = stall.since.max(message.end_time);
        if ends {
            message.end_time = message.end_time.max(packet_meta.accepted_time());
            // The receiver lacked the earlier copies.
            message.delivery_evidence = DeliveryEvidence::Assumed;
        }
        transaction.record_stall(RetransmissionStall { since, ..stall });
        if ends && kind == RpcMessageKind::Reply {
            context.transaction_table.close(key, *packet_meta);
        }
    }
    context.transaction_table.apply_size_change(key, 0, listed_bytes);
    FrameContentKind::Retransmission { key, which: kind }
}
