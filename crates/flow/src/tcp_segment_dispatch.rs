//! TCP segments: attribution to streams, and dispatch of their bytes to the protocol of the stream.

use std::collections::VecDeque;
use std::sync::Arc;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::iwarp::mpa::MpaStartupFrameKind;
use nfsrdma_dissectors::net::{InnermostNetworkPacket, TcpSegment, TcpSequence};
use nfsrdma_dissectors::rpcrdma::SidePrivateData;

use super::by_side::ConnectionSidePair;
use super::connection::{ConnectionTable, FlowConnection};
use super::connection_key::ConnectionSlabKey;
use super::connection_setup::{NegotiatedParameters, RdmaReadResources, ServiceIdOrPort};
use super::count_categories::{EvictedState, IgnoredTraffic, UndecodedReason};
use super::duplicate_frames;
use super::endpoint_pair::EndpointPair;
use super::finality;
use super::flow_state::Flow;
use super::frame_kind::FrameContentKind;
use super::iwarp::IwarpConnection;
use super::limits::FlowLimits;
use super::packet_meta::{DeliveryAnomaly, PacketMeta};
use super::record_header_search::SegmentEnd;
use super::rpc_records::{CapturedRpcRecordParser, StreamProtocolUpgrade};
use super::statistics::FlowDecodingStatistics;
use super::stream::direction::{self, TcpStreamDirection};
use super::stream::stream_bytes::{StreamBytes, StreamPosition, TcpDirectionReader};
use super::stream_parser_context::StreamParserBorrowedFlowState;
use super::stream_protocol::{self, StreamProtocol, StreamProtocolDetection};
use super::transaction::ConnectionTransport;
use super::transaction_table::TrackedTransactionTable;
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB};

/// Dispatcher of the bytes of a stream to the parser of its protocol, which may change between two bytes.
pub(super) struct StreamDispatcher<'a> {
    sender: ConnectionSideAOrB,
    protocol: &'a mut StreamProtocol,
    connection: &'a mut Option<ConnectionSlabKey>,
    ports: EndpointPair,
    opened_by: Option<ConnectionSideAOrB>,
    last_frame: FrameNumber,
    now: Timestamp,
    /// Acknowledgement number of the segment that is processed; `None` for one that waited.
    acknowledgment: Option<TcpSequence>,
    /// `true` if earlier messages were truncated so much that nothing of them was decoded.
    has_cut_messages: bool,
    /// `true` for a side if its next bytes are the first captured ones, but may not be its first.
    may_begin_late: ConnectionSidePair<bool>,
    connections: &'a mut ConnectionTable,
    transaction_table: &'a mut TrackedTransactionTable,
    stats: &'a mut FlowDecodingStatistics,
    limits: &'a FlowLimits,
    frame_kinds: &'a mut Vec<FrameContentKind>,
    /// Connections that ended because the stream switched to another protocol.
    ended_connections: &'a mut Vec<ConnectionSlabKey>,
}

impl StreamDispatcher<'_> {
    /// Runs `read` with the protocol of the stream and its context. Creates the connection if necessary.
    fn with_context<R>(
        &mut self,
        read: impl FnOnce(&mut StreamProtocol, &mut StreamParserBorrowedFlowState<'_>) -> R,
    ) -> Option<R> {
        let key = match *self.connection {
            Some(key) if self.connections.contains_key(key) => key,
            _ => self.connect(),
        };
        let FlowConnection { conversation: exchange, last_frame, .. } = self.connections.get_mut(key.slot)?;
        *last_frame = self.last_frame;
        exchange.has_cut_lists |= self.has_cut_messages;
        if std::mem::take(&mut self.may_begin_late[self.sender]) {
            exchange.record_loss(self.now);
        }
        let mut stream_context = StreamParserBorrowedFlowState {
            connection: key.slot,
            sender: self.sender,
            conversation: exchange,
            transaction_table: self.transaction_table,
            stats: self.stats,
            limits: self.limits,
            first_kind: self.frame_kinds.len(),
            frame_kinds: self.frame_kinds,
        };
        Some(read(self.protocol, &mut stream_context))
    }

    /// Returns `true` if the connection of the stream still exists.
    fn has_connection(&self) -> bool {
        self.connection.is_some_and(|key| self.connections.contains_key(key))
    }

    fn connect(&mut self) -> ConnectionSlabKey {
        let transport = match self.protocol {
            StreamProtocol::Mpa(_) => ConnectionTransport::Iwarp,
            _ => ConnectionTransport::Tcp,
        };
        let key = self.connections.add_port_connection(self.ports, transport);
        if let Some(connection) = self.connections.get_mut(key.slot) {
            connection.opened_by = self.opened_by;
        }
        *self.connection = Some(key);
        key
    }

    /// Switches the stream to another protocol and ends its connection. MPA is the second phase of the same
    /// connection (draft-talpey-nfsv4-rdma-sess-01 section 2.3.2) and keeps its number; any other protocol is a
    /// new connection.
    fn switch_protocol(&mut self, next: StreamProtocolUpgrade) {
        self.finish();
        let ended_key = self.connection.take();
        self.ended_connections.extend(ended_key);
        *self.protocol = match next {
            StreamProtocolUpgrade::Mpa => StreamProtocol::Mpa(Box::default()),
            StreamProtocolUpgrade::Tls => StreamProtocol::Tls,
        };
        let ended = ended_key.and_then(|key| self.connections.get_mut_by_key(key));
        if let (StreamProtocolUpgrade::Mpa, Some(ended)) = (next, ended)
            && let Some(number) = ended.number
        {
            ended.continues_as_mpa = true;
            let key = self.connect();
            if let Some(connection) = self.connections.get_mut_by_key(key) {
                connection.number = Some(number);
            }
        }
    }

    /// Runs `read` with the MPA parser. The start-up frames of MPA reveal who opened the connection, and its
    /// parameters.
    #[inline]
    fn with_mpa(&mut self, read: impl FnOnce(&mut IwarpConnection, &mut StreamParserBorrowedFlowState<'_>)) {
        let started = self.with_context(|protocol, stream_context| {
            let StreamProtocol::Mpa(iwarp) = protocol else { return false };
            read(iwarp, stream_context);
            let counts = iwarp.take_counts();
            if stream_context.transaction_table.transport_events.is_enabled() {
                stream_context.conversation.checks_mut().fpdu_crcs += counts.good + counts.bad;
            }
            stream_context.stats.frame_mpa_counts.add(counts);
            iwarp.take_started()
        });
        if started == Some(true) {
            self.apply_mpa_startup();
        }
    }

    #[cold]
    fn apply_mpa_startup(&mut self) {
        let (StreamProtocol::Mpa(iwarp), Some(key)) = (&*self.protocol, *self.connection) else { return };
        let Some(connection) = self.connections.get_mut(key.slot) else { return };
        for side in ConnectionSideAOrB::BOTH {
            match iwarp.startup(side).map(|(startup, _)| startup.kind) {
                Some(MpaStartupFrameKind::Request) => connection.opened_by = Some(side),
                Some(MpaStartupFrameKind::Reply) => connection.opened_by = Some(side.peer()),
                None => {}
            }
        }
        let Some(opened_by) = connection.opened_by else { return };
        let startups = [opened_by, opened_by.peer()].map(|side| iwarp.startup(side));
        let [client, server] =
            startups.map(|startup| startup.map_or(SidePrivateData::Cut, |(startup, _)| startup.rpcrdma));
        let [client_format, server_format] = startups.map(|startup| startup?.0.private_data_format);
        let [client_reads, server_reads] = startups.map(|startup| {
            let enhanced = startup?.0.enhanced?;
            Some(RdmaReadResources { inbound: enhanced.ird.0, outbound: enhanced.ord.0 })
        });
        let [client_frame, server_frame] = startups.map(|startup| Some(startup?.1));
        let (_, port) = if opened_by == ConnectionSideAOrB::A { self.ports.b } else { self.ports.a };
        let parameters = NegotiatedParameters {
            service: ServiceIdOrPort::Port(port),
            client,
            server,
            client_format,
            server_format,
            client_reads,
            server_reads,
            ack_timeout_ns: None,
            is_cut: false,
            client_frame,
            server_frame,
        };
        connection.conversation.is_rpc |= parameters.shows_rpc_over_rdma();
        connection.conversation.record_set_up(opened_by, &parameters);
        connection.parameters = Some(Arc::new(parameters));
    }

    /// Processes chunk data of the other side that waited for these bytes.
    #[inline]
    fn process_early_data(&mut self, stream_bytes: &StreamBytes<'_>) {
        let StreamProtocol::Mpa(iwarp) = &mut *self.protocol else { return };
        let has_early_data = iwarp.has_early_data_for(self.sender);
        if iwarp.is_answered_before_capture(self.sender, stream_bytes.at) {
            self.with_context(|_, stream_context| stream_context.conversation.record_loss(stream_bytes.meta.time));
        }
        if has_early_data {
            self.process_due_data(stream_bytes.range().end);
        }
    }

    #[cold]
    fn process_due_data(&mut self, reached: StreamPosition) {
        let (receiver, now) = (self.sender, self.now);
        self.sender = receiver.peer();
        let preceding = self.frame_kinds.len();
        let mut is_due = true;
        while is_due {
            is_due = false;
            self.with_mpa(|iwarp, stream_context| is_due = iwarp.process_early(reached, now, stream_context));
            // They are the meanings of earlier frames.
            self.frame_kinds.truncate(preceding);
        }
        self.sender = receiver;
    }

    /// Ends both directions: incomplete messages are delivered as far as they were captured.
    fn finish(&mut self) {
        for side in ConnectionSideAOrB::BOTH {
            self.finish_side(side);
        }
    }

    /// Ends a direction, of which more bytes may follow anywhere.
    pub(super) fn finish_side(&mut self, side: ConnectionSideAOrB) {
        self.sender = side;
        // If nothing is buffered and the connection was evicted, nothing has to be delivered, and no connection is
        // created.
        if self.has_connection() || self.protocol.buffered_bytes() > 0 {
            self.with_context(|protocol, stream_context| match protocol {
                StreamProtocol::Mpa(iwarp) => iwarp.finish(side, stream_context),
                _ => {
                    if let Some(records) = record_reader(protocol, side) {
                        records.finish(stream_context);
                    }
                }
            });
        }
    }

    fn undecoded(&mut self, reason: UndecodedReason, packet_meta: PacketMeta<'_>) {
        if !packet_meta.frames.is_empty() {
            let content = self.stats.count_undecoded_packet(reason, &packet_meta);
            self.frame_kinds.push(content);
        }
    }
}

fn record_reader(protocol: &mut StreamProtocol, sender: ConnectionSideAOrB) -> Option<&mut CapturedRpcRecordParser> {
    let StreamProtocol::Records(records) = protocol else { return None };
    Some(&mut records[sender])
}

impl TcpDirectionReader for StreamDispatcher<'_> {
    fn read_bytes(&mut self, stream_bytes: StreamBytes<'_>) {
        if stream_bytes.meta.frames.is_empty()
            && let Some(connection) = self.connection.and_then(|key| self.connections.get_mut_by_key(key))
        {
            // The bytes of a gap.
            connection.conversation.record_loss(stream_bytes.meta.time);
        }
        let mut remaining = stream_bytes;
        let sender = self.sender;
        loop {
            match self.protocol {
                StreamProtocol::Records(_) => {
                    let next = self.with_context(|protocol, stream_context| {
                        record_reader(protocol, sender)?.process(remaining, stream_context)
                    });
                    let Some(Some((next, rest))) = next else { return };
                    self.switch_protocol(next);
                    self.sender = sender;
                    remaining = rest;
                }
                StreamProtocol::Mpa(_) => {
                    let acknowledgment = self.acknowledgment;
                    self.with_mpa(|iwarp, stream_context| {
                        iwarp.process(sender, remaining, acknowledgment, stream_context)
                    });
                    return self.process_early_data(&remaining);
                }
                StreamProtocol::Tls => return self.undecoded(UndecodedReason::Tls, remaining.meta),
                StreamProtocol::Opening | StreamProtocol::MidStream { .. } | StreamProtocol::Other => return,
            }
        }
    }

    fn read_retransmission(&mut self, stream_bytes: StreamBytes<'_>) {
        let sender = self.sender;
        match self.protocol {
            StreamProtocol::Records(_) | StreamProtocol::Mpa(_) if !self.has_connection() => {
                self.undecoded(UndecodedReason::LateCopy, stream_bytes.meta);
            }
            StreamProtocol::Records(_) => {
                self.with_context(|protocol, stream_context| {
                    record_reader(protocol, sender)
                        .map(|records| records.process_retransmission(&stream_bytes, stream_context))
                });
            }
            StreamProtocol::Mpa(_) => self.with_mpa(|iwarp, stream_context| {
                iwarp.process_retransmission(sender, stream_bytes.range(), stream_bytes.meta, stream_context)
            }),
            StreamProtocol::Tls => self.undecoded(UndecodedReason::Tls, stream_bytes.meta),
            StreamProtocol::Opening | StreamProtocol::MidStream { .. } | StreamProtocol::Other => {}
        }
    }
}

impl Flow {
    pub(super) fn process_segment(
        &mut self,
        packet_meta: PacketMeta<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        segment: &TcpSegment<'_>,
    ) -> FrameContentKind {
        let ports = EndpointPair {
            tenant: datagram.tenant,
            a: (datagram.source, segment.source_port),
            b: (datagram.destination, segment.destination_port),
        };
        let port_numbers = [segment.source_port, segment.destination_port];
        let (at, sender) = self.streams.find(ports);
        self.frame_kinds.clear();
        if self.streams.get_mut(at).is_some_and(|stream| stream.is_copy_of_previous(sender, segment, packet_meta.time))
        {
            return match segment.payload.length {
                0 => FrameContentKind::Control,
                _ => self.stats.count_undecoded(UndecodedReason::LateCopy),
            };
        }
        let mut anomaly =
            self.detect_segment_duplicate(at, sender, packet_meta, segment).then_some(DeliveryAnomaly::CapturedTwice);
        // A copy counts if the frame itself was accepted.
        if anomaly.is_some()
            && segment.payload.length > 0
            && let Some(stream) = self.streams.get_mut(at)
            && (stream.is_parsed() || stream.is_opening())
            && !stream.directions[sender].has_accepted(segment.sequence, segment.payload.length as u32)
        {
            if !stream.replaces_damaged(sender, datagram, segment) {
                return self.ignored_segment(&packet_meta, segment);
            }
            self.stats.duplicate_frames -= 1;
            anomaly = None;
        }
        let packet_meta = PacketMeta { anomaly: anomaly.as_ref(), ..packet_meta };
        let checked;
        let (sender, segment) =
            if anomaly.is_some() || self.expects_segment(at, sender, packet_meta, (datagram, segment)) {
                (sender, segment)
            } else {
                match self.check_segment(at, sender, ports, packet_meta, (datagram, segment)) {
                    Ok((sender, segment)) => {
                        checked = segment;
                        (sender, &checked)
                    }
                    Err(content) => {
                        // Its data may be kept.
                        self.enforce_buffer_limits(at, packet_meta.time);
                        self.streams.update_deadline(at);
                        self.control_connection_key = self.streams.get_mut(at).and_then(|stream| stream.connection);
                        return content;
                    }
                }
            };
        if let Some(stream) = self.streams.get_mut(at) {
            stream.set_sequence_bases(sender, segment);
            stream.is_cut |= segment.payload.is_cut();
        }
        let data = CapturedPacketPayload { bytes: segment.payload.bytes, length: segment.payload.length as u32 };
        let events = &self.transaction_table.transport_events;
        let is_retransmission = events.is_enabled() && self.is_retransmission(at, sender, segment);
        if data.length > 0 {
            if anomaly.is_none() && segment.flags.ack() && !segment.flags.rst() {
                self.record_acknowledged_messages(at, sender, segment);
            }
            let first = if segment.flags.syn() { segment.sequence.add(1) } else { segment.sequence };
            let acknowledgment = segment.flags.ack().then_some(segment.acknowledgment);
            self.process_stream_bytes(at, sender, packet_meta, (first, acknowledgment), data);
        }
        if anomaly.is_none() {
            self.process_flags_and_ack(at, sender, packet_meta, segment, data);
            if self.transaction_table.transport_events.is_enabled() {
                self.record_segment_events(at, sender, packet_meta, segment, is_retransmission);
            }
        }
        self.streams.update_memory(at);
        if self.streams.exceeds_limit() {
            self.evict_streams(at, packet_meta.time);
        }
        if data.length == 0 {
            self.control_connection_key = self.streams.get_mut(at).and_then(|stream| stream.connection);
        }
        match (self.frame_kinds.first(), self.streams.get_mut(at).map(|stream| &stream.protocol)) {
            (Some(content), _) => *content,
            // Captured early: the transaction follows when the preceding bytes arrive.
            (None, Some(StreamProtocol::Records(_))) if data.length > 1 => {
                self.find_early_messages(at, sender, segment);
                self.frame_kinds.first().copied().unwrap_or(FrameContentKind::PartialMessage)
            }
            (None, Some(StreamProtocol::Mpa(_))) if data.length > 1 => FrameContentKind::PartialMessage,
            (None, Some(StreamProtocol::Records(_) | StreamProtocol::Mpa(_) | StreamProtocol::Tls)) => {
                FrameContentKind::Control
            }
            // More than a keep-alive, on a port of NFS.
            (None, Some(protocol)) if data.length > 1 && stream_protocol::includes_nfs_port(port_numbers) => {
                match protocol {
                    StreamProtocol::Opening => FrameContentKind::PartialMessage,
                    _ => {
                        let stream = self.streams.get_mut(at);
                        let is_cut = stream.is_some_and(|stream| {
                            stream.has_cut_messages |= stream.is_cut;
                            stream.is_cut
                        });
                        let reason = stream_protocol::unknown_stream_reason(is_cut);
                        self.record_unknown_frames(at, 1, u32::from(!is_cut));
                        self.stats.count_undecoded_packet(reason, &packet_meta)
                    }
                }
            }
            (None, _) => self.stats.count_ignored(IgnoredTraffic::Tcp),
        }
    }

    /// Determines the messages that a buffered segment completes.
    #[cold]
    fn find_early_messages(&mut self, at: usize, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let expected = TcpSequence(stream.directions[sender].expected_position() as u32);
        if let Some(records) = record_reader(&mut stream.protocol, sender) {
            let first = if segment.flags.syn() { segment.sequence.add(1) } else { segment.sequence };
            let data = CapturedPacketPayload { bytes: segment.payload.bytes, length: segment.payload.length as u32 };
            records.find_early_messages(expected, first, data, &mut self.frame_kinds);
        }
    }

    /// Returns `true` if a segment is a duplicate made by the capture. Updates the detection state.
    #[inline]
    fn detect_segment_duplicate(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        segment: &TcpSegment<'_>,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(at) else { return false };
        let (own, peer) = stream.directions.own_and_peer(sender);
        let id = packet_meta.identification;
        let fingerprint = duplicate_frames::mix_fingerprint(
            u64::from(segment.sequence.0) << 32 | u64::from(segment.acknowledgment.0),
            u64::from(id) << 48
                | u64::from(segment.flags.0) << 32
                | (segment.payload.length as u64 & 0xffff) << 16
                | u64::from(segment.window),
        ) ^ (at as u64) << 1
            ^ u64::from(sender == ConnectionSideAOrB::A);
        // Options fill whole words, of which the capture may cut the last.
        let (words, rest) = segment.options().as_chunks::<4>();
        let words = words.iter().map(|word| u64::from(u32::from_be_bytes(*word)));
        let rest = rest.iter().map(|byte| u64::from(*byte));
        let fingerprint = words.chain(rest).fold(fingerprint, duplicate_frames::mix_fingerprint);
        let is_continuation = match segment.payload.length {
            0 => !segment.flags.syn() && segment.flags.ack() && peer.acknowledges_more(segment.acknowledgment),
            _ => own.is_next(segment.sequence),
        };
        if is_continuation {
            own.id_variation.record(id);
        } else if self.recent_frames.contains_copy(
            fingerprint,
            packet_meta.time,
            // No SYN is retransmitted within a second (RFC 6298 section 2).
            own.id_variation.distinguishes_packets(id) || segment.flags.syn(),
            own.last_request_time,
        ) {
            self.recent_frames.record(fingerprint, packet_meta.time);
            self.stats.duplicate_frames += 1;
            return true;
        }
        self.recent_frames.record(fingerprint, packet_meta.time);
        false
    }

    /// Passes bytes to the parser of the stream, or to protocol detection.
    pub(super) fn process_stream_bytes(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        (first, acknowledgment): (TcpSequence, Option<TcpSequence>),
        data: CapturedPacketPayload<'_>,
    ) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let ports = stream.port_numbers();
        let mut is_kept = false;
        let is_opening = matches!(stream.protocol, StreamProtocol::Opening);
        let received = acknowledgment.map_or(0, |number| stream.directions[sender.peer()].received(number));
        let verdict = match &mut stream.protocol {
            StreamProtocol::Records(_) | StreamProtocol::Mpa(_) | StreamProtocol::Tls => {
                if !stream.directions[sender].is_near(first) {
                    // Of a copy of a frame.
                    let content = self.stats.count_undecoded_packet(UndecodedReason::Stray, &packet_meta);
                    return self.frame_kinds.push(content);
                }
                if stream.is_ending
                    && stream.outlives_end(sender, first.add(data.length))
                    && let Some(key) = stream.connection
                {
                    self.connections.record_continuation(key);
                }
                self.dispatch_stream(at, sender, |own, dispatcher| {
                    dispatcher.acknowledgment = acknowledgment;
                    own.process_segment(first, data, packet_meta, received, dispatcher)
                });
                return;
            }
            StreamProtocol::Opening => {
                let own = &mut stream.directions[sender];
                let first_verdict = match own.is_next(first) {
                    true => stream_protocol::detect_by_first_bytes(data.bytes, ports),
                    false => StreamProtocolDetection::Undecided,
                };
                if first_verdict == StreamProtocolDetection::Undecided {
                    is_kept = true;
                    own.buffer_segment(first, data, packet_meta, received);
                    let mut bytes = [0; stream_protocol::MAX_DETECTION_BYTES];
                    let filled = bytes.iter_mut().zip(own.first_bytes());
                    let count = filled.map(|(target, byte)| *target = byte).count();
                    let verdict = stream_protocol::detect_by_first_bytes(bytes.get(..count).unwrap_or_default(), ports);
                    if verdict == StreamProtocolDetection::Undecided
                        && own.buffered_bytes() > stream_protocol::MAX_BUFFERED_BYTES
                    {
                        return self.skip_all_gaps(at, packet_meta.time);
                    }
                    verdict
                } else {
                    first_verdict
                }
            }
            StreamProtocol::MidStream { .. } => {
                return self.search_mid_stream(at, sender, packet_meta, (first, acknowledgment, received), data);
            }
            StreamProtocol::Other => StreamProtocolDetection::Other,
        };
        match verdict {
            StreamProtocolDetection::Undecided => {}
            // The first captured bytes of a direction need not be its first bytes, whatever a SYN says: that may be stray.
            StreamProtocolDetection::Other if is_opening && stream.may_have_begun_before(sender) => {
                if !is_kept {
                    stream.directions[sender].buffer_segment(first, data, packet_meta, received);
                }
                self.end_detection(at);
                for side in [sender, sender.peer()] {
                    self.dispatch_stream(at, side, |own, dispatcher| own.deliver_buffered(dispatcher));
                }
            }
            StreamProtocolDetection::Other => {
                let forgotten = stream.drop_buffered(StreamProtocol::Other);
                self.count_undetected(at, &forgotten);
            }
            StreamProtocolDetection::Records | StreamProtocolDetection::Mpa | StreamProtocolDetection::Tls => {
                stream.set_protocol(verdict);
                if is_kept {
                    self.dispatch_stream(at, sender, |own, dispatcher| own.deliver_buffered(dispatcher));
                } else {
                    self.dispatch_stream(at, sender, |own, dispatcher| {
                        dispatcher.acknowledgment = acknowledgment;
                        own.process_segment(first, data, packet_meta, received, dispatcher)
                    });
                }
                self.dispatch_stream(at, sender.peer(), |own, dispatcher| own.deliver_buffered(dispatcher));
            }
        }
    }

    /// Searches a segment for the protocol of a stream whose start was not captured. The header of a record may continue
    /// in the next segment.
    fn search_mid_stream(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        (first, acknowledgment, received): (TcpSequence, Option<TcpSequence>, StreamPosition),
        data: CapturedPacketPayload<'_>,
    ) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let ports = stream.port_numbers();
        let is_of_nfs = stream_protocol::includes_nfs_port(ports);
        let StreamProtocol::MidStream { looked_at, possible_starts } = &mut stream.protocol else { return };
        let is_searched = *looked_at < stream_protocol::MAX_SEARCHED_BYTES;
        *looked_at = looked_at.saturating_add(data.length).max(1);
        let stream_bytes = StreamBytes { at: first.0.into(), data, meta: packet_meta };
        let (own, peer) = possible_starts.get_or_insert_default().own_and_peer(sender);
        let begun = own.take_record(&stream_bytes, |bytes| stream_protocol::begins_call(bytes, ports));
        let verdict = match begun {
            Some(_) => StreamProtocolDetection::Records,
            None => stream_protocol::detect_by_segment(data, ports, is_searched),
        };
        if verdict == StreamProtocolDetection::Undecided {
            if (is_searched || is_of_nfs) && !own.contains(&stream_bytes) {
                let (kept, without_record) = own.keep(&stream_bytes, true);
                if kept == data.length && is_of_nfs {
                    self.frame_kinds.push(FrameContentKind::PartialMessage);
                }
                let undetected = stream.undetected(without_record.frames);
                self.count_undetected(at, &undetected);
            }
            return;
        }
        let begins_before = begun.is_some();
        let (ends, without_record) = begun.unwrap_or_else(|| (VecDeque::new(), own.clear()));
        let peer_ends = peer.take_ends();
        stream.set_protocol(verdict);
        if let StreamProtocol::Records(records) = &mut stream.protocol
            && begins_before
        {
            records[sender].expect_record();
        }
        let undetected = stream.undetected(without_record.frames);
        self.count_undetected(at, &undetected);
        self.recount_unknown_frames(at);
        self.dispatch_segment_ends(at, sender, &ends);
        self.dispatch_stream(at, sender, |own, dispatcher| {
            dispatcher.acknowledgment = acknowledgment;
            own.process_segment(first, data, packet_meta, received, dispatcher)
        });
        self.dispatch_segment_ends(at, sender.peer(), &peer_ends);
    }

    /// Dispatches bytes of earlier segments, which waited for the detection of the protocol.
    fn dispatch_segment_ends(&mut self, at: usize, sender: ConnectionSideAOrB, ends: &VecDeque<SegmentEnd>) {
        let preceding = self.frame_kinds.len();
        for end in ends {
            let StreamBytes { at: position, data, meta } = end.to_stream_bytes();
            let first = TcpSequence(position as u32);
            self.dispatch_stream(at, sender, |own, dispatcher| own.process_segment(first, data, meta, 0, dispatcher));
        }
        // They are the meanings of earlier frames.
        self.frame_kinds.truncate(preceding);
    }

    /// Records the messages that a segment with data acknowledges: its sender had received them before it sent the
    /// data.
    fn record_acknowledged_messages(&mut self, at: usize, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let peer = &mut stream.directions[sender.peer()];
        while let Some((key, kind)) = peer.next_message_acknowledged_by(segment.acknowledgment) {
            self.transaction_table.record_acknowledgment(key, kind);
        }
    }

    /// Handles the flags and the acknowledgement number of a segment: the end of the stream, and bytes received.
    fn process_flags_and_ack(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        segment: &TcpSegment<'_>,
        data: CapturedPacketPayload<'_>,
    ) {
        let flags = segment.flags;
        let Some(stream) = self.streams.get_mut(at) else { return };
        if flags.fin() || flags.rst() {
            stream.is_ending = true;
            if flags.rst() {
                stream.reset = Some((sender, packet_meta.time));
            }
            if let Some(key) = stream.connection {
                self.record_connection_end(key);
            }
        }
        let Some(stream) = self.streams.get_mut(at) else { return };
        if matches!(stream.protocol, StreamProtocol::Other | StreamProtocol::MidStream { .. }) {
            return;
        }
        let (own, peer) = stream.directions.own_and_peer(sender);
        if flags.fin() {
            own.record_fin(segment.sequence.add(data.length).add(u32::from(flags.syn())));
        }
        if flags.ack() && !flags.rst() {
            for delay in peer.acknowledge(segment, packet_meta.time) {
                self.transaction_table.revoke_delay(&delay);
            }
            while let Some((key, kind)) = peer.next_acknowledged_message() {
                self.transaction_table.record_acknowledgment(key, kind);
            }
            if peer.has_acknowledged_doubtful() {
                self.deliver_doubtful_segment(at, sender.peer(), false);
            }
        }
        self.enforce_buffer_limits(at, packet_meta.time);
        self.streams.update_deadline(at);
    }

    /// Ends protocol detection by the first bytes of a stream.
    pub(super) fn end_detection(&mut self, at: usize) {
        if let Some(stream) = self.streams.get_mut(at) {
            let forgotten = stream.detect_in_buffered();
            self.count_undetected(at, &forgotten);
        }
    }

    /// Records frames of a stream without a known protocol, of which `unknown` count as those of an unknown stream.
    fn record_unknown_frames(&mut self, at: usize, frames: u64, unknown: u32) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        stream.unknown_frames = stream.unknown_frames.saturating_add(unknown);
        self.stats.unknown_rpc_frames += frames * u64::from(stream.has_carried_rpc);
    }

    /// Counts the frames of an unknown stream again, now that its protocol is known: they are those of a message that
    /// began before the capture.
    fn recount_unknown_frames(&mut self, at: usize) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let reason = match stream.protocol {
            StreamProtocol::Records(_) => UndecodedReason::NoRecordMark,
            StreamProtocol::Mpa(_) => UndecodedReason::Framing,
            _ => return,
        };
        self.move_unknown_frames(at, reason);
    }

    /// Counts the frames of an unknown stream again, now that a handshake follows them before both sides have ended the
    /// stream: they are those of none.
    pub(super) fn recount_frames_before_handshake(&mut self, at: usize) {
        if self.streams.get_mut(at).is_some_and(|stream| !stream.is_parsed() && !stream.is_over()) {
            self.move_unknown_frames(at, UndecodedReason::Stray);
        }
    }

    /// Counts the frames of an unknown stream for another reason.
    fn move_unknown_frames(&mut self, at: usize, reason: UndecodedReason) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let frames = u64::from(std::mem::take(&mut stream.unknown_frames));
        for _ in 0..frames {
            self.stats.uncount_undecoded(UndecodedReason::UnknownStream);
        }
        self.stats.count_undecoded_frames(reason, frames);
    }

    /// Counts frames that were buffered for a protocol detection that failed.
    fn count_undetected(&mut self, at: usize, forgotten: &[(FrameNumber, UndecodedReason)]) {
        let present = self.streams.get_mut(at).map(|stream| stream.last_frame);
        let unknown = forgotten.iter().filter(|(_, reason)| *reason == UndecodedReason::UnknownStream).count();
        self.record_unknown_frames(at, forgotten.len() as u64, unknown as u32);
        for (frame, reason) in forgotten {
            let content = self.stats.count_undecoded(*reason);
            if Some(*frame) == present {
                self.frame_kinds.push(content);
            }
        }
    }

    /// Delivers everything buffered in a stream, with the gaps before it.
    fn skip_all_gaps(&mut self, at: usize, now: Timestamp) {
        self.end_detection(at);
        self.finish_stray_segment(at);
        for side in ConnectionSideAOrB::BOTH {
            self.deliver_doubtful_segment(at, side, true);
        }
        // Bytes that wait for the other direction follow the gaps in that direction.
        while let Some(side) = self.streams.get_mut(at).and_then(|stream| stream.side_with_gap()) {
            self.dispatch_stream(at, side, |own, dispatcher| own.skip_gap(now, dispatcher));
        }
        for side in ConnectionSideAOrB::BOTH {
            self.dispatch_stream(at, side, |own, dispatcher| own.finish(now, dispatcher));
        }
    }

    /// Enforces the limits of buffered bytes after a change of one stream.
    #[inline]
    fn enforce_buffer_limits(&mut self, at: usize, now: Timestamp) {
        if self.exceeds_buffer_limits(at) {
            self.reduce_buffered_bytes(at, now);
        }
    }

    /// Counts the buffered bytes of a stream. Returns `true` if there are too many, or too many of all streams.
    #[inline]
    fn exceeds_buffer_limits(&mut self, at: usize) -> bool {
        let Some(stream) = self.streams.get_mut(at) else { return false };
        let waiting_bytes = stream.waiting_bytes();
        let buffered_bytes = waiting_bytes + stream.protocol.buffered_bytes();
        let before = std::mem::replace(&mut stream.counted_buffered_bytes, buffered_bytes);
        self.stream_bytes = (self.stream_bytes + buffered_bytes).saturating_sub(before);
        waiting_bytes > self.limits.gap_bytes
            || self.stream_bytes > self.limits.stream_bytes
            || self.transaction_table.is_pool_used_up()
    }

    /// Delivers the bytes that wait in a stream. If that does not help, incomplete messages are stored no longer.
    #[cold]
    fn reduce_buffered_bytes(&mut self, at: usize, now: Timestamp) {
        for _ in 0..2 {
            if !self.exceeds_buffer_limits(at) {
                return;
            }
            let Some(stream) = self.streams.get_mut(at) else { return };
            if stream.waiting_bytes() > 0 {
                self.stats.count_evicted(EvictedState::Hole);
                self.skip_all_gaps(at, now);
                continue;
            }
            match &mut stream.protocol {
                StreamProtocol::Records(records) => {
                    records.0.iter_mut().for_each(|records| records.stop_storing(&mut self.stats));
                }
                StreamProtocol::Mpa(iwarp) if iwarp.buffered_bytes() > 0 => {
                    iwarp.drop_buffered();
                    self.stats.count_evicted(EvictedState::MessageParts);
                }
                _ => {}
            }
            return;
        }
    }

    /// Lets a direction of a stream pass bytes to the dispatcher, and applies the effects of the messages they
    /// complete.
    pub(super) fn dispatch_stream(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        deliver: impl FnOnce(&mut TcpStreamDirection, &mut StreamDispatcher<'_>),
    ) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let [a, b] = &stream.directions.0;
        let may_begin_late = ConnectionSidePair([a.may_begin_late(), b.may_begin_late()]);
        let (own, peer) = stream.directions.own_and_peer(sender);
        let first = self.frame_kinds.len();
        let mut ended = Vec::new();
        let mut dispatcher = StreamDispatcher {
            sender,
            protocol: &mut stream.protocol,
            connection: &mut stream.connection,
            ports: stream.ports,
            opened_by: stream.opened_by,
            last_frame: stream.last_frame,
            has_cut_messages: stream.has_cut_messages,
            now: self.now,
            acknowledgment: None,
            may_begin_late,
            connections: &mut self.connections,
            transaction_table: &mut self.transaction_table,
            stats: &mut self.stats,
            limits: &self.limits,
            frame_kinds: &mut self.frame_kinds,
            ended_connections: &mut ended,
        };
        own.update_other_reached(peer.delivered_position());
        deliver(own, &mut dispatcher);
        dispatcher.acknowledgment = None;
        // Bytes that one direction waits for may be delivered in the other, and so on.
        let (mut waiting, mut delivered) = (&mut *peer, &mut *own);
        while waiting.update_other_reached(delivered.delivered_position()) {
            dispatcher.sender = dispatcher.sender.peer();
            waiting.deliver_buffered(&mut dispatcher);
            std::mem::swap(&mut waiting, &mut delivered);
        }
        let contradictions = own.take_contradictions();
        let stray_frames = own.take_stray_frames();
        let is_misordered = own.is_misordered();
        self.stats.late_packets += own.take_late_segments();
        let key = stream.connection;
        if is_misordered && let Some(connection) = key.and_then(|key| self.connections.get_mut_by_key(key)) {
            connection.conversation.is_misordered = true;
        }
        self.stats.count_undecoded_frames(UndecodedReason::Contradiction, contradictions);
        self.stats.count_undecoded_frames(UndecodedReason::Stray, stray_frames);
        let packet_meta = PacketMeta::new(&[], self.now);
        finality::handle_emitted_messages(
            self.streams.get_mut(at),
            &self.frame_kinds,
            first,
            &mut self.transaction_table,
        );
        if let Some(stream) = self.streams.get_mut(at) {
            let own = &mut stream.directions[sender];
            own.delay_messages(|key, kind, until| self.transaction_table.delay_delivery(key, kind, until));
        }
        for index in first..self.frame_kinds.len() {
            if let (Some(key), Some(content)) = (key, self.frame_kinds.get(index).copied()) {
                self.on_message(key.slot, content, packet_meta);
            }
        }
        for key in ended {
            if self.connections.contains_key(key) {
                self.close_connection(key.slot, packet_meta);
            }
        }
        if let Some(key) = key.filter(|_| self.connections.exceeds_limit()) {
            self.evict_connections(Some(key.slot), packet_meta);
        }
    }

    /// Skips gaps whose deadline has passed.
    #[inline]
    pub(super) fn skip_expired_gaps(&mut self, now: Timestamp) {
        while let Some(at) = self.streams.next_due(now) {
            self.skip_expired_gap(at, now);
        }
    }

    #[cold]
    fn skip_expired_gap(&mut self, at: usize, now: Timestamp) {
        self.end_detection(at);
        while let Some((deadline, side)) = self.streams.get_mut(at).and_then(|stream| stream.deadline())
            && direction::is_past(deadline, now)
        {
            self.deliver_doubtful_segment(at, side, true);
            let is_waiting = self.streams.get_mut(at).is_some_and(|s| s.directions[side].is_waiting_for_peer());
            self.dispatch_stream(at, side, |own, dispatcher| own.skip_gap(now, dispatcher));
            if let Some(stream) = self.streams.get_mut(at) {
                if is_waiting {
                    stream.directions[side.peer()].set_silent();
                } else if stream.directions[side].is_behind() {
                    stream.directions[side].set_silent();
                }
            }
        }
        self.streams.update_deadline(at);
        self.enforce_buffer_limits(at, now);
    }

    /// Ends a stream: delivers what it has buffered and closes its connection.
    pub(super) fn end_stream(&mut self, at: usize, now: Timestamp) {
        self.flush_stream(at, now);
        let Some(stream) = self.streams.get_mut(at) else { return };
        self.stream_bytes = self.stream_bytes.saturating_sub(std::mem::take(&mut stream.counted_buffered_bytes));
        let key = stream.connection.take();
        if let Some(key) = key.filter(|key| self.connections.contains_key(*key)) {
            self.close_connection(key.slot, PacketMeta::new(&[], now));
        }
    }

    /// Delivers everything incomplete in a stream as far as it was captured.
    fn flush_stream(&mut self, at: usize, now: Timestamp) {
        self.skip_all_gaps(at, now);
        self.dispatch_stream(at, ConnectionSideAOrB::A, |_, dispatcher| dispatcher.finish());
    }

    /// Ends all streams at the end of the input.
    pub(super) fn finish_streams(&mut self, now: Timestamp) {
        for at in self.streams.all() {
            self.flush_stream(at, now);
        }
    }

    /// Evicts the streams idle longest while there are too many; never `newest`.
    pub(super) fn evict_streams(&mut self, newest: usize, now: Timestamp) {
        for at in self.streams.idle_longest() {
            let Some(stream) = self.streams.get_mut(at).filter(|_| at != newest) else { continue };
            if !stream.is_evictable() {
                self.stats.count_evicted(EvictedState::Stream);
            }
            self.end_stream(at, now);
            self.streams.remove(at);
        }
    }
}
