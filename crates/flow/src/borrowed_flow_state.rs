//! State of the flow that the operations of a connection use.

use super::count_categories::UndecodedReason;
use super::exceptional_transport_events::{ConnectionSlotTransportEvent, TransportAnomalyKind};
use super::frame_kind::FrameContentKind;
use super::limits::FlowLimits;
use super::packet_meta::PacketMeta;
use super::statistics::FlowDecodingStatistics;
use super::transaction_slab_key::TransactionSlabKey;
use super::transaction_table::TrackedTransactionTable;
use crate::rdma_operation::ConnectionSideAOrB;

/// State outside the conversation that its operations use.
pub(super) struct BorrowedFlowState<'a> {
    pub(super) connection: usize,
    /// Side that sent the operation that is handled.
    pub(super) sender: ConnectionSideAOrB,
    pub(super) transaction_table: &'a mut TrackedTransactionTable,
    pub(super) stats: &'a mut FlowDecodingStatistics,
    pub(super) limits: &'a FlowLimits,
    pub(super) packet_meta: &'a PacketMeta<'a>,
    /// `true` if messages come in an order that acknowledgements prove: a message comes after those that its sender had
    /// received.
    pub(super) is_in_causal_order: bool,
}

impl BorrowedFlowState<'_> {
    /// Counts an undecoded frame, unless it is a duplicate made by the capture.
    pub(super) fn count_undecoded(&mut self, reason: UndecodedReason) -> FrameContentKind {
        self.stats.count_undecoded_packet(reason, self.packet_meta)
    }

    pub(super) fn event(
        &self,
        transaction: Option<TransactionSlabKey>,
        kind: TransportAnomalyKind,
    ) -> ConnectionSlotTransportEvent {
        let sides = (self.connection, self.sender);
        ConnectionSlotTransportEvent::new(sides, self.packet_meta, transaction, kind)
    }

    /// Records a transport event of the packet, if such events are recorded.
    #[inline]
    pub(super) fn record_event(&mut self, transaction: Option<TransactionSlabKey>, kind: TransportAnomalyKind) {
        let sides = (self.connection, self.sender);
        self.transaction_table.transport_events.record(sides, self.packet_meta, transaction, kind);
    }

    /// Records an event of an earlier packet of the connection, and whether it is certain.
    pub(super) fn record_suspect(&mut self, event: ConnectionSlotTransportEvent, is_certain: bool) {
        let event = ConnectionSlotTransportEvent { connection: self.connection, is_certain, ..event };
        self.transaction_table.transport_events.record_event(event);
    }
}
