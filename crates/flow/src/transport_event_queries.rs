//! Transport events with the names of their connections, as callers of a flow receive them.

use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::connection::FlowConnection;
use super::exceptional_transport_events::{
    CapturedTransportEvent, ConnectionSlotTransportEvent, ExaminedPacketCounts, MAX_EARLY_EVENTS,
    MAX_IDENTIFIED_EVENTS, UnemittedTransportEvents,
};
use super::flow_state::Flow;
use super::frame_kind::FrameContentKind;
use super::transaction::EndpointRole;

impl ConnectionSlotTransportEvent {
    /// Returns the event with the name of its connection; `None` if the connection has not carried RPC.
    fn named(&self, connection: &FlowConnection) -> Option<CapturedTransportEvent> {
        connection.number?;
        let client = connection.client()?;
        Some(CapturedTransportEvent {
            frame: self.frame,
            time: self.time,
            connection: connection.name(client),
            sender: EndpointRole::from_sides(self.sender, client),
            has_set_up: connection.parameters.as_ref().is_some_and(|parameters| !parameters.is_cut),
            transaction: self.transaction,
            is_certain: self.is_certain,
            kind: self.kind,
        })
    }
}

impl Flow {
    /// Returns the numbers of packets that were examined for events so far, on connections whose events are reported.
    /// Zero unless [`FlowLimits::record_transport_events`](super::FlowLimits::record_transport_events) is set.
    pub fn transport_checks(&self) -> ExaminedPacketCounts {
        let mut checks = self.transaction_table.transport_events.checks;
        self.connections.checks().for_each(|counts| checks.add(&counts));
        checks
    }

    /// Attributes the events of a frame that moves chunk data, or requests it, to its Transaction.
    #[cold]
    pub(super) fn attribute_events(&mut self, frame: FrameNumber) {
        let key = self.frame_kinds.iter().find_map(|kind| match kind {
            FrameContentKind::ChunkData { key, .. } | FrameContentKind::ReadRequest { key, .. } => Some(*key),
            _ => None,
        });
        for event in &mut self.transaction_table.transport_events.events {
            if event.frame == frame {
                event.transaction = event.transaction.or(key);
            }
        }
    }

    /// Forgets the events of the last frame, except those on connections that have not carried RPC yet.
    #[inline]
    pub(super) fn clear_transport_events(&mut self) {
        let events = &mut self.transaction_table.transport_events;
        (events.has_congestion_mark, events.has_bad_icrc, events.has_checked_icrc) = (false, false, false);
        if !events.events.is_empty() || !events.released.is_empty() || !events.early.is_empty() {
            self.keep_early_events();
        }
    }

    #[cold]
    fn keep_early_events(&mut self) {
        let UnemittedTransportEvents { events, early, early_connections, released, .. } =
            &mut self.transaction_table.transport_events;
        let connections = &self.connections;
        released.clear();
        if *early_connections != self.numbered_connections {
            *early_connections = self.numbered_connections;
            early.retain(|(key, _)| connections.contains_key(*key) && connections.number(*key).is_none());
        }
        for event in events.drain(..) {
            let Some(connection) = connections.get(event.connection) else { continue };
            let limit = if connection.is_identified() { MAX_IDENTIFIED_EVENTS } else { MAX_EARLY_EVENTS };
            if connection.number.is_none()
                && early.len() < limit
                && let Some(key) = connections.key(event.connection)
            {
                early.push((key, event));
            }
        }
    }

    /// Numbers the connections that have events and were set up for RPC-over-RDMA, although they never carried RPC:
    /// their events explain why.
    #[cold]
    pub(super) fn release_early_events(&mut self) {
        let UnemittedTransportEvents { events, early, .. } = &self.transaction_table.transport_events;
        let is_identified = |at: &usize| self.connections.get(*at).is_some_and(FlowConnection::is_identified);
        let late = events.iter().map(|event| event.connection).filter(is_identified);
        let identified: Vec<usize> = { early.iter() }
            .filter(|(key, _)| self.connections.contains_key(*key))
            .map(|(key, _)| key.slot)
            .filter(is_identified)
            .chain(late)
            .collect();
        for at in identified {
            self.number_connection(at);
        }
    }

    /// Releases the events of a connection that is about to be removed, and keeps its numbers of packets.
    #[cold]
    pub(super) fn record_transport_end(&mut self, at: usize) {
        if !self.transaction_table.transport_events.is_enabled {
            return;
        }
        let has_events = |flow: &Self| {
            let UnemittedTransportEvents { events, early, .. } = &flow.transaction_table.transport_events;
            let key = flow.connections.key(at);
            events.iter().any(|event| event.connection == at)
                || early.iter().any(|(early_key, _)| Some(*early_key) == key)
        };
        if self.connections.get(at).is_some_and(FlowConnection::is_identified) && has_events(self) {
            self.number_connection(at);
        }
        let Some((connection, key)) = self.connections.get(at).zip(self.connections.key(at)) else { return };
        let UnemittedTransportEvents { events, early, released, checks, .. } =
            &mut self.transaction_table.transport_events;
        let early = early.extract_if(.., |(early_key, _)| *early_key == key).map(|(_, event)| event);
        let last = events.extract_if(.., |event| event.connection == at);
        released.extend(early.chain(last).filter_map(|event| event.named(connection)));
        if connection.number.is_some() {
            checks.add(&connection.conversation.checks());
        }
    }

    /// Returns `false` if [`Flow::transport_events`] is empty.
    #[inline]
    pub fn has_transport_events(&self) -> bool {
        let UnemittedTransportEvents { events, early, released, .. } = &self.transaction_table.transport_events;
        !(events.is_empty() && early.is_empty() && released.is_empty())
    }

    /// Iterates over the transport events of the last frame, on connections that have carried RPC. Events of earlier
    /// frames are among them if the last frame confirmed them, or is the first with RPC, and after [`Flow::finish`]
    /// those of connections that were set up for RPC-over-RDMA and never carried RPC. Empty unless
    /// [`FlowLimits::record_transport_events`](super::FlowLimits::record_transport_events) is set.
    pub fn transport_events(&self) -> impl Iterator<Item = CapturedTransportEvent> + '_ {
        let UnemittedTransportEvents { events, early, early_connections, released, .. } =
            &self.transaction_table.transport_events;
        let early = if *early_connections == self.numbered_connections { &[] } else { early.as_slice() };
        let early = early.iter().filter(|(key, _)| self.connections.contains_key(*key)).map(|(_, event)| event);
        let named = |event: &ConnectionSlotTransportEvent| event.named(self.connections.get(event.connection)?);
        released.iter().copied().chain(early.chain(events).filter_map(named))
    }
}
