//! Transport events of TCP segments.

use nfsrdma_dissectors::net::TcpSegment;

use super::exceptional_transport_events::TransportAnomalyKind;
use super::flow_state::Flow;
use super::packet_meta::PacketMeta;
use crate::rdma_operation::ConnectionSideAOrB;

impl Flow {
    /// Returns `true` if the bytes of a segment, which was not processed yet, are a retransmission.
    #[cold]
    pub(super) fn is_retransmission(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        segment: &TcpSegment<'_>,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(at) else { return false };
        let own = &stream.directions[sender];
        !segment.flags.syn()
            && own.is_near(segment.sequence)
            && own.is_retransmission(segment.sequence, segment.payload.length as u32)
    }

    #[cold]
    pub(super) fn record_segment_events(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        segment: &TcpSegment<'_>,
        is_retransmission: bool,
    ) {
        let Some(key) = self.streams.get_mut(at).and_then(|stream| stream.connection) else { return };
        let Some(connection) = self.connections.get_mut_by_key(key) else { return };
        connection.conversation.checks_mut().segments += 1;
        let TcpSegment { flags, window, .. } = *segment;
        let has_closed_window = window == 0 && !flags.syn() && !flags.fin() && !flags.rst();
        let events = &mut self.transaction_table.transport_events;
        let kinds = [
            (is_retransmission, TransportAnomalyKind::Retransmission),
            (has_closed_window, TransportAnomalyKind::ZeroWindow),
            (events.has_congestion_mark, TransportAnomalyKind::CongestionExperienced),
        ];
        for (_, kind) in kinds.into_iter().filter(|(has_occurred, _)| *has_occurred) {
            events.record((key.slot, sender), &packet_meta, None, kind);
        }
    }
}
