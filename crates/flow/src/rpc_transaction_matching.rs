//! RPC on one connection: joins Calls and Replies, and attributes RDMA Reads and Writes to advertised chunks. RFC 8166.
//!
//! Messages without an RPC-over-RDMA header are in [`plain_rpc`].

mod advertised_memory;
mod call_reply_matching;
mod chunk_data;
pub(super) mod connection_rpc_state;
pub(super) mod credits;
mod dialect;
mod invalid_memory_access;
mod message_chunks;
mod message_record;
mod overlapping_memory;
mod plain_rpc;
mod rdma_read_depth;
pub(super) mod retransmitted_message_packets;
pub(super) mod rpcrdma_messages;
mod shared_xids;
mod suspected_violations;
mod unexpected_messages;

use super::borrowed_flow_state::BorrowedFlowState;
use super::count_categories::UndecodedReason;
use super::exceptional_transport_events::{RdmaMemoryAccess, TransportAnomalyKind};
use super::frame_kind::FrameContentKind;
use crate::rdma_operation::{RdmaMemoryRange, RdmaOperation};
use chunk_data::{ChunkDataPacket, record_payload, record_read_request, unknown_memory};
use connection_rpc_state::ConnectionRpcState;
use retransmitted_message_packets::record_retransmission;

impl ConnectionRpcState {
    #[inline(never)]
    pub(super) fn handle_operation(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        operation: RdmaOperation<'_>,
    ) -> FrameContentKind {
        self.handle_operation_inline(context, operation)
    }

    /// Inlined form of [`ConnectionRpcState::handle_operation`] for the most frequent callers: the compiler then does
    /// not assemble the operation in memory.
    #[inline(always)]
    pub(super) fn handle_operation_inline(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        operation: RdmaOperation<'_>,
    ) -> FrameContentKind {
        if context.transaction_table.transport_events.is_enabled() {
            self.record_time(context.packet_meta.time);
        }
        match operation {
            RdmaOperation::Write { handle, offset, data, attribution: owner } => {
                if owner.0.is_none() {
                    let length = data.length;
                    let range = RdmaMemoryRange { handle, offset, length };
                    *owner = self.find_segment(context.transaction_table, context.sender.peer(), range);
                    self.memory_owner.get_or_insert(context.sender.peer());
                    if context.transaction_table.transport_events.is_enabled() {
                        if length == 0 {
                            context.record_event(None, TransportAnomalyKind::EmptyWrite);
                        }
                        let access = RdmaMemoryAccess { is_read: false, handle, offset, length };
                        self.check_access(context, *owner, access);
                    }
                }
                let unknown = self.unknown_memory_reason(unknown_memory(false));
                let (kind, remaining_bytes) = record_payload(context, *owner, offset, &data, unknown);
                if remaining_bytes == 0 {
                    return kind;
                }
                let packet = ChunkDataPacket { is_read: false, offset, data };
                self.record_rest(context, packet, owner, (remaining_bytes, kind))
            }
            RdmaOperation::ReadResponse { offset, data, attribution: mut owner } => {
                if context.transaction_table.transport_events.is_enabled() {
                    let range = (offset, data.length);
                    self.read_depths.count_response(context, owner, range);
                }
                let unknown = self.unknown_memory_reason(unknown_memory(true));
                let (kind, remaining_bytes) = record_payload(context, owner, offset, &data, unknown);
                if remaining_bytes == 0 {
                    return kind;
                }
                let packet = ChunkDataPacket { is_read: true, offset, data };
                self.record_rest(context, packet, &mut owner, (remaining_bytes, kind))
            }
            RdmaOperation::ReadRequest { handle, offset, length, attribution: owner } => {
                if owner.0.is_none() {
                    let range = RdmaMemoryRange { handle, offset, length };
                    *owner = self.find_segment(context.transaction_table, context.sender.peer(), range);
                    if context.transaction_table.transport_events.is_enabled() {
                        let access = RdmaMemoryAccess { is_read: true, handle, offset, length };
                        self.check_access(context, *owner, access);
                    }
                }
                if context.transaction_table.transport_events.is_enabled() {
                    self.read_depths.count_request(context, *owner, (offset, length));
                }
                record_read_request(
                    context,
                    *owner,
                    (offset, length),
                    self.unknown_memory_reason(UndecodedReason::ReadOfUnknownMemory),
                )
            }
            RdmaOperation::Send { message, attribution: owner } => {
                let kind = self.handle_message(context, &message, owner);
                if context.packet_meta.anomaly.is_none() {
                    self.confirm_accesses(context, false);
                    self.confirm_messages(context);
                }
                kind
            }
            RdmaOperation::SendRetransmission { attribution: owner, ends } => {
                let unknown = if self.has_cut_lists { UndecodedReason::CutHeader } else { UndecodedReason::NotRpcRdma };
                record_retransmission(context, owner, ends, unknown)
            }
            RdmaOperation::ChunkDataRetransmission { attribution: owner } => {
                chunk_data::record_retransmitted_data(context, owner)
            }
        }
    }

    /// Counts a packet that yields no operation, if it is undecoded.
    pub(super) fn handle_no_operation(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        content: FrameContentKind,
    ) -> FrameContentKind {
        if let FrameContentKind::Undecoded(reason) = content {
            // It may have been a message, or data that a rule would miss.
            self.record_loss(context.packet_meta.time);
            context.count_undecoded(reason);
        }
        content
    }
}
