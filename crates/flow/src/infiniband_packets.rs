//! Packets of the InfiniBand transport: attribution to connections and RDMA operations.

use std::cell::OnceCell;

use nfsrdma_dissectors::address::{Address, VirtualNetwork};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::infiniband::mad::Mad;
use nfsrdma_dissectors::infiniband::{
    self, Aeth, InfinibandPacket, NakCode, OpcodeService, Psn, Qpn, RdmaEncapsulation, Syndrome, cm,
};
use nfsrdma_dissectors::net::InnermostNetworkPacket;
use nfsrdma_dissectors::rpc::{RpcMessageKind, Xid};

use super::connection::{ConnectionLookupResult, FlowConnection, QueuePairFlowKey};
use super::connection_setup::SetUpFrame;
use super::count_categories::{EvictedState, UndecodedReason};
use super::duplicate_frames::{self, FrameFingerprint};
use super::early_packet_buffer::EarlyRdmaWriteHoldReason;
use super::exceptional_transport_events::{ConnectionSlotTransportEvent, TransportAnomalyKind};
use super::extended_psn::ExtendedPsn;
use super::finality;
use super::flow_state::Flow;
use super::frame_kind::FrameContentKind;
use super::lost_write_placement::PlacedWrite;
use super::packet_meta::{DeliveryAnomaly, PacketMeta};
use super::packet_opcode_sequence::PacketOpcodeOrLengthViolation;
use super::reliable_connection::RequesterPacketState;
use super::rpc_transaction_matching::connection_rpc_state::ConnectionRpcState;
use super::rpc_transaction_matching::rpcrdma_messages;
use super::transaction::{ConnectionTransport, Transaction};
use super::transaction_slab_key::TransactionSlabKey;
use super::transaction_table::TrackedTransactionTable;
use crate::rdma_operation::{ConnectionSideAOrB, RdmaMemoryRange, RdmaOperation};

/// Number of packets of a side that a capture may lack between the set-up and the first captured one. Beyond it, the
/// starting PSN of the set-up is not that of the packets.
const MAX_LOST_AT_START: i32 = 128;

impl Flow {
    /// Processes a datagram of the connection manager.
    fn process_management(
        &mut self,
        packet_meta: PacketMeta<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        packet: &InfinibandPacket<'_>,
    ) -> FrameContentKind {
        if self.is_management_captured_twice(packet_meta, datagram, packet) {
            return FrameContentKind::Management;
        }
        let message = Mad::from_packet(packet, &mut NullFieldObserver)
            .and_then(|mad| cm::CmMessage::decode(&mad, &mut NullFieldObserver));
        let Some(message) = message else {
            let is_cut = packet.payload.bytes.len() < packet.payload.length;
            return self.stats.count_undecoded(if is_cut {
                UndecodedReason::CutFrame
            } else {
                UndecodedReason::Management
            });
        };
        let mut on_eviction = || self.stats.count_evicted(EvictedState::SetUp);
        let InnermostNetworkPacket { tenant, source, destination, .. } = *datagram;
        let route = (tenant, source, destination);
        let set_up_frame = SetUpFrame::from(&packet_meta);
        if let Some(established) = self.set_ups.process_message(route, &message, set_up_frame, &mut on_eviction) {
            let replaced = self.connections.establish(
                &established,
                connection_transport(packet.encapsulation),
                packet_meta.last_frame(),
            );
            for index in replaced {
                self.close_connection(index, packet_meta);
            }
            if self.connections.exceeds_limit() {
                self.evict_connections(None, packet_meta);
            }
        } else {
            self.end_connection_before_set_up(route, &message);
        }
        if let cm::CmMessage::DisconnectRequest(request, _) = message
            && let Some(key) =
                self.connections.key_by_path(QueuePairFlowKey { tenant, source, destination, qpn: request.remote_qpn })
        {
            self.record_connection_end(key);
        }
        FrameContentKind::Management
    }

    /// Ends the connection whose queue pair a REQ or a REP assigns to another one.
    fn end_connection_before_set_up(
        &mut self,
        (tenant, source, destination): (VirtualNetwork, Address, Address),
        message: &cm::CmMessage<'_>,
    ) {
        let (qpn, communication) = match message {
            cm::CmMessage::Request(request, ..) => (request.local_qpn, None),
            cm::CmMessage::Reply(reply, _) => (reply.local_qpn, Some((reply.remote_comm_id, reply.local_comm_id))),
            _ => return,
        };
        let path = QueuePairFlowKey { tenant, source: destination, destination: source, qpn };
        let Some((at, peer)) = self.connections.sender_on_path(path) else { return };
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.is_replaced |= match communication {
            _ if connection.is_ending => true,
            // A client that has sent messages has received the REP, and does not repeat its REQ.
            None => connection.ends[peer.peer()].requests.has_begun(),
            // A server repeats its REP until it receives the RTU, even if it has sent messages.
            Some(_) => connection.communication_ids.is_some() && connection.communication_ids != communication,
        };
        if connection.is_replaced
            && let Some(key) = self.connections.key(at)
        {
            self.record_connection_end(key);
        }
    }

    /// Returns `true` if a datagram of the connection manager is a duplicate made by the capture.
    fn is_management_captured_twice(
        &mut self,
        packet_meta: PacketMeta<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        packet: &InfinibandPacket<'_>,
    ) -> bool {
        let id = packet_meta.identification;
        // MAD header with transaction ID, communication IDs and the following fields: sections 13.4.3 and 12.6.
        let words = packet.payload.bytes.chunks_exact(8).take(12);
        let words = words.map(|word| word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        let seed = duplicate_frames::mix_fingerprint(
            datagram.address_hash(),
            u64::from(packet.bth.psn.0) << 16 | u64::from(id),
        );
        let fingerprint = words.fold(seed, duplicate_frames::mix_fingerprint);
        // No sender repeats a request within seconds.
        let is_twice = self.recent_frames.contains_copy(fingerprint, packet_meta.time, true, None);
        self.recent_frames.record(fingerprint, packet_meta.time);
        self.stats.duplicate_frames += u64::from(is_twice);
        is_twice
    }

    #[inline]
    pub(super) fn process_packet(
        &mut self,
        packet_meta: PacketMeta<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        packet: &InfinibandPacket<'_>,
    ) -> FrameContentKind {
        match packet.properties.service {
            OpcodeService::Rc => self.process_reliable(packet_meta, datagram, packet),
            OpcodeService::Ud if packet.bth.destqp == Qpn::GENERAL_SERVICES => {
                self.process_management(packet_meta, datagram, packet)
            }
            OpcodeService::Cnp => {
                let path = queue_pair_path(datagram, packet);
                self.control_connection_key = self.connections.key_by_path(path);
                if let Some(sides) = self.connections.sender_on_path(path) {
                    let events = &mut self.transaction_table.transport_events;
                    events.record(sides, &packet_meta, None, TransportAnomalyKind::CongestionNotification);
                }
                FrameContentKind::Control
            }
            _ => self.stats.count_undecoded(UndecodedReason::OtherService),
        }
    }

    fn process_reliable(
        &mut self,
        packet_meta: PacketMeta<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        packet: &InfinibandPacket<'_>,
    ) -> FrameContentKind {
        let (at, sender) = match self.connections.cached_lookup(datagram, packet.bth.destqp) {
            Some(location) => location,
            None => self.find_connection(packet_meta, datagram, packet),
        };
        if self.transaction_table.transport_events.has_bad_icrc
            && let Some(connection) = self.connections.get_mut(at)
        {
            // Its receiver drops it.
            connection.conversation.record_loss(packet_meta.time);
        }
        let (sequence, anomaly) = self.detect_anomaly(at, sender, packet_meta, packet);
        let packet_meta = PacketMeta { anomaly: anomaly.as_ref(), ..packet_meta };
        let content = self.apply_packet(at, sender, packet_meta, packet, sequence);
        if self.transaction_table.transport_events.is_enabled() {
            self.record_packet_events(at, sender, packet_meta, packet);
        }
        if content == FrameContentKind::Control {
            self.control_connection_key = self.connections.key(at);
        }
        self.update_reorder_buffer(at, sender, packet_meta, packet, content);
        // Only the first and the last packet of a request make a connection remember more.
        let position = packet.properties.position;
        if (position.begins() || position.ends()) && !is_response(packet) {
            self.connections.update_memory_bytes(at);
        }
        content
    }

    /// Returns the connection of a packet and the side that sent it. The first packet of a connection adds it.
    #[inline(never)]
    fn find_connection(
        &mut self,
        packet_meta: PacketMeta<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        packet: &InfinibandPacket<'_>,
    ) -> (usize, ConnectionSideAOrB) {
        let path = queue_pair_path(datagram, packet);
        if let Some((ended_index, sender)) = self.connections.ended_on_path(path)
            && self.begins_next_connection(ended_index, sender, packet_meta, packet)
        {
            self.close_connection(ended_index, packet_meta);
        }
        let (at, sender, lookup) = {
            // Evaluated once per packet, however many connections it may belong to.
            let reply_xid = OnceCell::new();
            let evidence = |connection: &FlowConnection, side: ConnectionSideAOrB| {
                refers_to_side(&self.transaction_table, connection, side, packet, &reply_xid)
            };
            self.connections.find(path, connection_transport(packet.encapsulation), evidence)
        };
        match lookup {
            ConnectionLookupResult::Known | ConnectionLookupResult::Paired => {}
            ConnectionLookupResult::Merged(merged) => self.on_connections_joined(at, merged, sender),
            ConnectionLookupResult::New => self.on_new_connection(at, path, packet_meta),
        }
        (at, sender)
    }

    /// Returns `true` if a packet begins a message of another connection on the queue pairs of an ended one: not all of
    /// its set-up was captured. A message that was captured late, twice, or sent again belongs to the ended connection.
    fn begins_next_connection(
        &self,
        ended_index: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        packet: &InfinibandPacket<'_>,
    ) -> bool {
        let Some(connection) = self.connections.get(ended_index) else { return false };
        let sent = &connection.ends[sender].requests;
        let fingerprint = packet_fingerprint(ended_index, sender, packet, packet_meta.identification);
        packet.properties.operation == infiniband::PacketOperation::Send
            && packet.properties.position.begins()
            && (connection.is_replaced || !sent.may_follow_end(sent.extend_psn(packet.bth.psn)))
            && !self.recent_frames.contains_copy(fingerprint, packet_meta.time, true, None)
    }

    /// Returns the sequence number of a packet, and its delivery anomaly or `None` if it arrived once and in order.
    /// Updates the delivery state.
    #[inline]
    fn detect_anomaly(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        packet: &InfinibandPacket<'_>,
    ) -> (ExtendedPsn, Option<DeliveryAnomaly>) {
        let Some(connection) = self.connections.get_mut(at) else { return (0, None) };
        let sequence = sequence_of(connection, sender, packet);
        let FlowConnection { ends, path_mtu, last_frame, conversation, .. } = connection;
        *last_frame = packet_meta.last_frame();
        let (own, peer) = ends.own_and_peer(sender);
        let (psn, id) = (packet.bth.psn, packet_meta.identification);
        let fingerprint = packet_fingerprint(at, sender, packet, id);
        let is_response = is_response(packet);
        let is_known = match is_response {
            true => peer.requests.record_answer(sequence),
            false => own.requests.was_sent_before(sequence),
        };
        if is_known {
            // A response is retransmitted when its request was.
            let last_retransmission = match is_response {
                true => peer.requests.retransmission_times().1,
                false => own.requests.retransmission_times().0,
            };
            let ids_distinguish = own.ip_id_variation.distinguishes_packets(id);
            if self.recent_frames.contains_copy(fingerprint, packet_meta.time, ids_distinguish, last_retransmission) {
                self.recent_frames.record(fingerprint, packet_meta.time);
                self.stats.duplicate_frames += 1;
                return (sequence, Some(DeliveryAnomaly::CapturedTwice));
            }
        } else {
            own.ip_id_variation.record(id);
        }
        if !is_response && own.requests.is_late(sequence) {
            conversation.is_misordered = true;
            self.stats.late_packets += 1;
        }
        self.recent_frames.record(fingerprint, packet_meta.time);
        if is_response {
            if !is_known && peer.requests.is_missing(sequence) {
                conversation.record_loss(packet_meta.time);
                let is_refusal = packet.aeth.is_some_and(|aeth| {
                    matches!(aeth.syndrome, Syndrome::Nak(NakCode::PSN_SEQUENCE_ERROR) | Syndrome::RnrNak { .. })
                });
                if is_refusal && !peer.requests.has_gap() {
                    conversation.record_unseen_refusal(sender, packet_meta.time);
                }
            }
            return (sequence, None);
        }
        // Without the set-up, packets before the first one may have been lost with it.
        let is_first_missing = match own.starting_psn.take() {
            Some(announced) => {
                // More packets than that are not lost at the start of a connection, and none precede it.
                let lost = announced.distance(psn);
                if !(0..MAX_LOST_AT_START).contains(&lost) {
                    let kind = TransportAnomalyKind::StartingPsn { announced, first: psn };
                    self.transaction_table.transport_events.record((at, sender), &packet_meta, None, kind);
                }
                lost != 0
            }
            None => !own.requests.has_begun(),
        };
        if is_first_missing || own.requests.may_follow_gap(sequence) {
            conversation.record_loss(packet_meta.time);
        }
        let anomaly = own.requests.detect_anomaly(sequence, packet, packet_meta.time, *path_mtu);
        match anomaly {
            None | Some(DeliveryAnomaly::Surplus) => {}
            Some(DeliveryAnomaly::Repeated(_) | DeliveryAnomaly::Recovered(_)) => {
                conversation.record_repeat(packet_meta.time);
            }
            Some(_) => conversation.record_loss(packet_meta.time),
        }
        (sequence, anomaly)
    }

    /// Decodes the effect of a packet of a connection on messages and memory; `sequence` is its sequence number. It may
    /// complete or end incomplete messages.
    fn apply_packet(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        packet: &InfinibandPacket<'_>,
        sequence: ExtendedPsn,
    ) -> FrameContentKind {
        let Some((connection, mut context)) = self.rpc_context(at, sender, &packet_meta) else {
            return FrameContentKind::Unrelated;
        };
        let FlowConnection { ends, path_mtu, conversation, .. } = connection;
        let (own, peer) = ends.own_and_peer(sender);
        let (own, peer) = (&mut own.requests, &mut peer.requests);
        // Most connections never have a message of several packets.
        let mut has_parts = own.has_partial_messages() || peer.has_partial_messages();
        let bytes_before = if has_parts { own.partial_message_bytes() + peer.partial_message_bytes() } else { 0 };
        let mut earlier_contents = Vec::new();
        let operation = if is_response(packet) {
            if !packet_meta.is_captured_twice() {
                let sent = (&mut *peer, sequence);
                finality::handle_acknowledgement(sent, packet, packet_meta.time, context.transaction_table);
            }
            peer.process_response(packet, sequence, path_mtu)
        } else if !has_parts {
            own.process_request(packet, sequence, packet_meta, path_mtu)
        } else {
            while own.has_partial_messages()
                && let Some(message) = own.take_ended_message(packet_meta.time)
            {
                earlier_contents.push(conversation.handle_operation(&mut context, message));
            }
            let operation = own.process_request(packet, sequence, packet_meta, path_mtu);
            if peer.has_partial_messages()
                && let Ok(operation) = &operation
                && let Some(call) = take_answered_part(conversation, sender.peer(), peer, operation)
            {
                context.sender = sender.peer();
                earlier_contents.push(conversation.handle_operation(&mut context, call));
                context.sender = sender;
            }
            operation
        };
        let content = match operation {
            Ok(operation) => conversation.handle_operation_inline(&mut context, operation),
            Err(reason) => conversation.handle_no_operation(&mut context, reason),
        };
        has_parts |= own.has_partial_messages();
        if let FrameContentKind::Message { key, which } = content {
            if own.is_refused(sequence) {
                context.transaction_table.record_refusal(key, which);
            } else if own.is_acknowledged(sequence) {
                context.transaction_table.record_acknowledgment(key, which);
            }
        }
        if has_parts {
            self.account_partial_messages(at, sender, bytes_before);
        }
        if !earlier_contents.is_empty() {
            earlier_contents.into_iter().for_each(|content| self.on_message(at, content, packet_meta));
        }
        self.on_message(at, content, packet_meta);
        content
    }

    /// Updates the accounted bytes of a connection's incomplete messages, which were `bytes_before` before a packet of
    /// `sender`.
    fn account_partial_messages(&mut self, at: usize, sender: ConnectionSideAOrB, bytes_before: usize) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let (own, peer) = connection.ends.own_and_peer(sender);
        let (own, peer) = (&mut own.requests, &mut peer.requests);
        self.partial_message_bytes =
            (self.partial_message_bytes + own.partial_message_bytes() + peer.partial_message_bytes())
                .saturating_sub(bytes_before);
        if self.partial_message_bytes > self.limits.partial_message_bytes || self.transaction_table.is_pool_used_up() {
            self.partial_message_bytes -= own.partial_message_bytes();
            own.drop_partial_messages();
            self.stats.count_evicted(EvictedState::MessageParts);
        }
        self.stats.count_undecoded_frames(
            UndecodedReason::MessagePart,
            own.take_dropped_frames() + peer.take_dropped_frames(),
        );
    }

    /// Counts a packet, and records its transport events.
    #[inline(never)]
    fn record_packet_events(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        packet: &InfinibandPacket<'_>,
    ) {
        if packet_meta.is_captured_twice() {
            return;
        }
        let events = &self.transaction_table.transport_events;
        let Some(connection) = self.connections.get_mut(at) else { return };
        let order = connection.ends[sender].packet_order.get_or_insert_default().check(packet);
        let is_read = packet.properties.operation == infiniband::PacketOperation::ReadRequest;
        let checks = connection.conversation.checks_mut();
        checks.packets += 1;
        checks.read_requests += u64::from(is_read);
        checks.acknowledgments += u64::from(packet.aeth.is_some());
        checks.icrcs += u64::from(events.has_checked_icrc);
        let is_usual = packet_meta.anomaly.is_none()
            && order.is_none()
            && packet.aeth.is_none_or(|aeth| matches!(aeth.syndrome, Syndrome::Ack { .. }))
            && !events.has_congestion_mark
            && !events.has_bad_icrc;
        if !is_usual {
            self.record_unusual_packet(at, sender, packet_meta, packet, order);
        }
    }

    /// Records the transport events of a packet that has some.
    #[cold]
    fn record_unusual_packet(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        packet: &InfinibandPacket<'_>,
        order: Option<PacketOpcodeOrLengthViolation>,
    ) {
        // With a Call that the capture lacks, the sender may have exceeded its credits.
        let mut is_certain = true;
        let refusal = match packet.aeth.map(|aeth| aeth.syndrome) {
            Some(Syndrome::Nak(NakCode::INVALID_REQUEST)) if self.refuses_oversized_send(at, sender) => {
                Some(TransportAnomalyKind::OversizedSendRefused)
            }
            Some(Syndrome::Nak(code)) => Some(TransportAnomalyKind::Nak(code)),
            Some(Syndrome::RnrNak { timer }) => {
                let wait_us = Syndrome::RnrNak { timer }.wait_us().unwrap_or(0);
                let conversation = self.connections.get(at).map(|connection| &connection.conversation);
                let (requester, now) = (sender.peer(), packet_meta.time);
                let exceeds_credits = conversation.is_some_and(|state| state.exceeds_credits(requester));
                is_certain =
                    exceeds_credits || !conversation.is_some_and(|state| state.may_lack_credit_use(requester, now));
                Some(TransportAnomalyKind::ReceiverNotReady { wait_us, exceeds_credits })
            }
            _ => None,
        };
        if let Some(
            TransportAnomalyKind::Nak(NakCode::REMOTE_ACCESS_ERROR | NakCode::INVALID_REQUEST)
            | TransportAnomalyKind::OversizedSendRefused,
        ) = refusal
            && let Some((connection, mut context)) = self.rpc_context(at, sender, &packet_meta)
        {
            connection.conversation.confirm_accesses(&mut context, true);
        }
        let is_read = packet.properties.operation == infiniband::PacketOperation::ReadRequest;
        let anomaly = match packet_meta.anomaly {
            None | Some(DeliveryAnomaly::CapturedTwice | DeliveryAnomaly::Reordered) => None,
            Some(DeliveryAnomaly::Refused) => Some(TransportAnomalyKind::SequenceGap),
            Some(_) if is_read => Some(TransportAnomalyKind::RepeatedReadRequest),
            Some(_) => Some(TransportAnomalyKind::Retransmission),
        };
        let events = &mut self.transaction_table.transport_events;
        let congestion = events.has_congestion_mark.then_some(TransportAnomalyKind::CongestionExperienced);
        let damage = events.has_bad_icrc.then_some(TransportAnomalyKind::BadIcrc);
        if let Some(kind) = refusal.filter(|_| events.is_enabled()) {
            let event = ConnectionSlotTransportEvent::new((at, sender), &packet_meta, None, kind);
            events.record_event(ConnectionSlotTransportEvent { is_certain, ..event });
        }
        for kind in { anomaly.into_iter() }
            .chain(congestion)
            .chain(damage)
            .chain(order.map(TransportAnomalyKind::PacketOrderFault))
        {
            events.record((at, sender), &packet_meta, None, kind);
        }
    }

    /// Returns `true` if the first message that a side refuses is a Send longer than the inline threshold, which the side
    /// has announced in the set-up.
    fn refuses_oversized_send(&self, at: usize, receiver: ConnectionSideAOrB) -> bool {
        let sender = receiver.peer();
        let Some(connection) = self.connections.get(at) else { return false };
        let Some((to_server, to_client)) = connection.parameters.as_ref().and_then(|p| p.inline_thresholds()) else {
            return false;
        };
        let Some(client) = connection.opened_by else { return false };
        let threshold = if client == sender { to_server } else { to_client };
        let (refused, _) = connection.ends[sender].requests.refused_messages(false);
        let message = |attribution| {
            let (key, at) = TransactionSlabKey::from_attribution(attribution)?;
            self.transaction_table.get(key)?.transaction.message(at.message_kind()?)
        };
        refused
            .last()
            .and_then(message)
            .is_some_and(|message| message.sends == 1 && message.length > threshold as usize)
    }

    /// Retries buffered packets if the packet just processed may determine their place, or buffers that packet
    /// if its own place is unknown.
    fn update_reorder_buffer(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        packet: &InfinibandPacket<'_>,
        content: FrameContentKind,
    ) {
        let is_undecoded = matches!(content, FrameContentKind::Undecoded(_));
        if !is_undecoded && self.stats.reorder_bytes == 0 {
            return;
        }
        // Its first copy is buffered, if it is undecoded, too.
        if is_undecoded && packet_meta.is_captured_twice() {
            return;
        }
        let Some(connection) = self.connections.get_mut(at) else { return };
        if let FrameContentKind::Undecoded(reason) = content
            && connection.conversation.is_rpc
        {
            let position = (sender, connection.ends[sender].requests.extend_psn(packet.bth.psn));
            connection.reorder_buffer.add(position, packet, packet_meta, reason, &mut self.stats, &self.limits);
            return;
        }
        if connection.reorder_buffer.is_empty() {
            return;
        }
        let call = match content {
            FrameContentKind::Message { key, which: RpcMessageKind::Call } => {
                // The packets that wait may concern this Call, and find no place.
                if connection.reorder_buffer.may_wait_for_call_of(sender) {
                    connection.conversation.record_loss(packet_meta.time);
                }
                Some(key)
            }
            FrameContentKind::Message { key, which: RpcMessageKind::Reply }
            // What was lost before the first copy may have been sent again.
            | FrameContentKind::Retransmission { key, which: RpcMessageKind::Reply } => {
                let Some(entry) = self.transaction_table.get(key) else { return };
                if entry.transaction.call.is_none() {
                    connection.reorder_buffer.assign_to_transaction(key);
                    return;
                }
                if !entry.transaction.read_chunks.is_empty() {
                    self.place_orphan_responses(at, sender.peer(), key, packet_meta);
                }
                let Some(connection) = self.connections.get_mut(at) else { return };
                let Some(entry) = self.transaction_table.get(key) else { return };
                let requests = &mut connection.ends[sender].requests;
                let orphans = connection.reorder_buffer.orphans(sender);
                let inferred_writes = requests.infer_lost_writes(
                    orphans,
                    unseen_write_ranges(&entry.transaction),
                    connection.path_mtu,
                );
                let Some(first) = inferred_writes.first().map(PlacedWrite::psn) else { return };
                inferred_writes.into_iter().for_each(|write| requests.add_inferred_write(write));
                return self.retry_early_packets(at, None, Some((sender, first)), packet_meta);
            }
            FrameContentKind::ChunkData { .. } | FrameContentKind::ReadRequest { .. } if packet.reth.is_some() => None,
            _ => return,
        };
        let FlowConnection { ends, conversation, reorder_buffer, .. } = connection;
        reorder_buffer.drop_expired_orphans(packet_meta.time, &mut self.stats, |writer| EarlyRdmaWriteHoldReason {
            oldest_call: conversation.oldest_write_offer(&self.transaction_table, writer.peer()),
            newest: ends[writer].requests.highest_sequence().unwrap_or_default(),
        });
        let start = packet.reth.map(|_| (sender, packet.bth.psn));
        self.retry_early_packets(at, call, start, packet_meta);
    }

    /// Places the complete RDMA Read responses of a side to the Call that was just answered, if their requests were not
    /// captured and no other place is possible.
    fn place_orphan_responses(
        &mut self,
        at: usize,
        responder: ConnectionSideAOrB,
        answered_call: TransactionSlabKey,
        packet_meta: PacketMeta<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let FlowConnection { ends, path_mtu, conversation, reorder_buffer, .. } = connection;
        let responses = reorder_buffer.orphan_responses(responder);
        if responses.is_empty() {
            return;
        }
        let reader = &mut ends[responder.peer()].requests;
        let transactions = &self.transaction_table;
        let unread = conversation.unread_ranges(transactions, responder, answered_call);
        let owner = |range| conversation.find_segment(transactions, responder, range);
        if reader.infer_lost_reads(&responses, unread, *path_mtu, owner) {
            self.retry_early_packets(at, None, None, packet_meta);
        }
    }

    /// Retries buffered packets whose place may be known now.
    fn retry_early_packets(
        &mut self,
        at: usize,
        call: Option<TransactionSlabKey>,
        start: Option<(ConnectionSideAOrB, Psn)>,
        packet_meta: PacketMeta<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let mut retries = connection.reorder_buffer.take_retryable(call, start, packet_meta.time, &mut self.stats);
        // A placed packet may determine the place of others: a Read request that of its responses.
        while !retries.is_empty() {
            let count_before = retries.len();
            let mut remaining = Vec::new();
            for retry in retries {
                let (sender, packet) = (retry.sender, retry.packet());
                let Some(connection) = self.connections.get(at) else { continue };
                let sequence = sequence_of(connection, sender, &packet);
                if let FrameContentKind::Undecoded(reason) =
                    self.apply_packet(at, sender, retry.meta(), &packet, sequence)
                {
                    self.stats.uncount_undecoded(reason);
                    remaining.push(retry);
                }
            }
            retries = remaining;
            if retries.len() == count_before {
                break;
            }
        }
        if let Some(connection) = self.connections.get_mut(at) {
            connection.reorder_buffer.put_back(retries, &mut self.stats);
        }
    }
}

/// Returns the fingerprint of a packet of a connection; `identification` is that of its IPv4 header.
#[inline]
fn packet_fingerprint(
    at: usize,
    sender: ConnectionSideAOrB,
    packet: &InfinibandPacket<'_>,
    identification: u16,
) -> FrameFingerprint {
    let headers = u64::from(packet.bth.psn.0) << 40
        | u64::from(packet.bth.opcode.0) << 32
        | u64::from(identification) << 16
        | (at as u64 & 0x7fff) << 1
        | u64::from(sender == ConnectionSideAOrB::A);
    // An ACK may follow a NAK of the same PSN.
    let headers = packet.aeth.map_or(headers, |Aeth { syndrome, msn }| {
        duplicate_frames::mix_fingerprint(headers, u64::from(syndrome.byte()) << 24 | u64::from(msn.0))
    });
    FrameFingerprint { headers, icrc: packet.icrc.unwrap_or(0) }
}

/// Returns `true` if a packet uses the sequence numbers of the requests that it answers.
fn is_response(packet: &InfinibandPacket<'_>) -> bool {
    use infiniband::PacketOperation::{Acknowledge, AtomicAcknowledge, ReadResponse};
    matches!(packet.properties.operation, ReadResponse | Acknowledge | AtomicAcknowledge)
}

/// Returns the sequence number of a packet that a side of a connection sent.
#[inline]
fn sequence_of(connection: &FlowConnection, sender: ConnectionSideAOrB, packet: &InfinibandPacket<'_>) -> ExtendedPsn {
    let requester = if is_response(packet) { sender.peer() } else { sender };
    connection.ends[requester].requests.extend_psn(packet.bth.psn)
}

/// Ends the wait for the rest of a Call of `requester` that an operation of its peer answers, and returns its captured
/// part: the rest will not come.
#[cold]
fn take_answered_part<'a>(
    conversation: &ConnectionRpcState,
    requester: ConnectionSideAOrB,
    requests: &'a mut RequesterPacketState,
    operation: &RdmaOperation<'_>,
) -> Option<RdmaOperation<'a>> {
    match operation {
        RdmaOperation::Send { message, .. } => {
            let xid = rpcrdma_messages::reply_xid(message.bytes, message.length)
                .filter(|xid| !conversation.has_transaction(requester, *xid))?;
            requests.take_incomplete_message(|bytes| rpcrdma_messages::may_start_call(bytes, xid))
        }
        RdmaOperation::Write { handle, .. } | RdmaOperation::ReadRequest { handle, .. } => {
            let advertises = |bytes: &[u8]| rpcrdma_messages::advertises_handle(bytes, *handle);
            let is_known = conversation.has_handle(requester, *handle);
            if is_known { None } else { requests.take_incomplete_message(advertises) }
        }
        _ => None,
    }
}

/// Maximum number of ranges that a Reply returns and that were not seen, for which lost RDMA Writes are inferred: they
/// are examined for each copy of the Reply, and hostile captures have many.
const MAX_UNSEEN_RANGES: usize = 4096;

/// Returns the ranges that a Reply reports as written but for which no RDMA Write was captured.
fn unseen_write_ranges(transaction: &Transaction) -> Vec<RdmaMemoryRange> {
    let chunks = transaction.write_chunks.iter().chain(&transaction.reply_chunk);
    let segments = chunks.flat_map(|chunk| &chunk.segments);
    let unmoved = segments.flat_map(|segment| segment.unmoved_memory(segment.returned_bytes()));
    let ranges: Vec<_> = unmoved.take(MAX_UNSEEN_RANGES + 1).collect();
    if ranges.len() > MAX_UNSEEN_RANGES { Vec::new() } else { ranges }
}

fn queue_pair_path(datagram: &InnermostNetworkPacket<'_>, packet: &InfinibandPacket<'_>) -> QueuePairFlowKey {
    QueuePairFlowKey {
        tenant: datagram.tenant,
        source: datagram.source,
        destination: datagram.destination,
        qpn: packet.bth.destqp,
    }
}

fn connection_transport(encapsulation: RdmaEncapsulation) -> ConnectionTransport {
    match encapsulation {
        RdmaEncapsulation::RoceV2 => ConnectionTransport::RoceV2,
        RdmaEncapsulation::RoceV1 => ConnectionTransport::RoceV1,
        RdmaEncapsulation::InfiniBand => ConnectionTransport::InfiniBand,
    }
}

/// Returns `true` if a packet answers a request of `side` of a connection, or uses memory that `side`
/// advertised.
fn refers_to_side(
    transactions: &TrackedTransactionTable,
    connection: &FlowConnection,
    side: ConnectionSideAOrB,
    packet: &InfinibandPacket<'_>,
    reply_xid: &OnceCell<Option<Xid>>,
) -> bool {
    use infiniband::PacketOperation::{Acknowledge, AtomicAcknowledge, ReadRequest, ReadResponse, Send, Write};
    match packet.properties.operation {
        Acknowledge | AtomicAcknowledge | ReadResponse => {
            connection.ends[side].requests.was_sent_recently(packet.bth.psn)
        }
        ReadRequest | Write => packet
            .reth
            .as_ref()
            .is_some_and(|reth| connection.conversation.find_segment(transactions, side, reth.into()).0.is_some()),
        Send => reply_xid
            .get_or_init(|| rpcrdma_messages::reply_xid(packet.payload.bytes, packet.payload.length))
            .is_some_and(|xid| connection.conversation.has_transaction(side, xid)),
        _ => false,
    }
}
