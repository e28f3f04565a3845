//! Stateful analysis: queue pairs, reassembly, chunks, and the Transactions built from them.
//!
//! [`Flow`] takes frames and returns [`Transaction`]s in the order in which they close. ARCHITECTURE.md describes the
//! modules in the order of the layers.
//!
//! Every kind of state has a limit in [`FlowLimits`]. [`FlowDecodingStatistics`] counts the state evicted at a limit.

mod accepted_packet_inference;
mod advertised_handles;
mod borrowed_flow_state;
mod bounded_slab_growth;
mod by_side;
mod byte_range_set;
mod call_retries;
pub mod chunk;
mod closed_connection_reports;
mod connection;
mod connection_key;
mod connection_setup;
mod count_categories;
mod duplicate_frames;
mod early_packet_buffer;
mod endpoint_pair;
mod extended_psn;
mod finality;
mod frame_kind;
mod infiniband_message_reassembly;
mod infiniband_packets;
pub mod ip_reassembly;
mod iwarp;
mod limits;
mod memory_budget;
mod missing_byte_ranges;
mod non_message_frame_role;
mod packet_meta;
mod packet_opcode_sequence;
pub mod pending_call_queries;
mod reliable_connection;
mod rpc_over_udp;
mod rpc_records;
mod rpc_transaction_matching;
mod rpcrdma2_message_continuation;
mod rpcrdma_control_message;
mod rpcrdma_header_summary;
mod statistics;
mod stream;
mod tcp_segment_dispatch;
mod tcp_segment_events;
#[cfg(test)]
mod tests;
pub mod transaction;
mod transaction_key;
pub mod transaction_message_decoding;
mod transaction_table;
pub mod transport_event;
mod transport_event_queries;

use std::collections::VecDeque;

pub use byte_range_set::ByteRangeSet;
pub use connection::ConnectionParametersSnapshot;
pub use connection_setup::{
    NFS_RDMA_PORT, NegotiatedParameters, RdmaReadResources, ServiceIdOrPort, SetUpFrame,
};
pub use count_categories::{EvictedState, IgnoredTraffic, UndecodedReason};
pub use frame_kind::FrameContentKind;
pub use iwarp::isolated_tcp_segment::observe_segment;
pub use iwarp::mpa_counts::MpaCounts;
pub use limits::FlowLimits;
pub use non_message_frame_role::{FrameRole, TransactionFrame};
pub use packet_opcode_sequence::PacketOpcodeOrLengthViolation;
pub use rpc_transaction_matching::credits::Version2SendCredits;
pub use rpcrdma_control_message::RpcRdmaControlMessage;
pub use statistics::FlowDecodingStatistics;
pub use transaction::Transaction;
pub use transaction_key::TransactionSlabKey;

pub use crate::rdma_operation::RetransmissionStall;

use crate::captured_frame::{Frame, FrameNumber, Timestamp};
use crate::field::{FieldObserver, NullFieldObserver};
use crate::infiniband::PacketErrorKind;
use crate::infiniband::icrc::Icrc;
use crate::net::{
    self, InnermostNetworkPacket, IpFragment, NetworkLayerPayload, TcpSegment, UndecodableFrameReason,
};
use crate::rdma_operation::ConnectionSideAOrB;
use crate::rpc::RpcMessageKind;

use borrowed_flow_state::BorrowedFlowState;
use call_retries::{CallRetryDetectionTable, CallRetryHash, EarlierCallEmissionState};
use closed_connection_reports::ClosedConnectionReportQueue;
use connection::{ConnectionTable, FlowConnection, QueuePairFlowKey};
use connection_key::ConnectionSlabKey;
use connection_setup::PendingConnectionSetUps;
use duplicate_frames::DuplicateFrameDetector;
use ip_reassembly::IpReassembler;
use packet_meta::PacketMeta;
use stream::protocol::StreamProtocol;
use stream::table::TcpConversationTable;
pub use stream::table::TcpSegmentNumbers;
use transaction::{CapturedMessage, SiblingConnections};
use transaction_table::{TrackedFlowTransaction, TrackedTransactionTable};

/// Frames between two checks of the memory limits while no Transaction changes: 4 MiB in frames of 64 KiB.
const MAX_FRAMES_BETWEEN_CHECKS: u32 = 64;

/// Counts of ICRC check results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IcrcCounts {
    /// Packets with a correct ICRC.
    pub good: u64,
    /// Packets with a wrong ICRC.
    pub bad: u64,
    /// Packets truncated by the capture.
    pub unknown: u64,
}

/// Analysis of one capture: takes frames and returns Transactions.
#[derive(Debug)]
pub struct Flow {
    limits: FlowLimits,
    connections: ConnectionTable,
    transaction_table: TrackedTransactionTable,
    set_ups: PendingConnectionSetUps,
    ip_reassembler: IpReassembler,
    retries: CallRetryDetectionTable,
    stats: FlowDecodingStatistics,
    icrc_counts: IcrcCounts,
    recent_frames: DuplicateFrameDetector,
    /// Bytes of incomplete messages.
    partial_message_bytes: usize,
    streams: TcpConversationTable,
    /// Bytes buffered for all streams.
    stream_bytes: usize,
    /// Meanings of the last frame.
    frame_kinds: Vec<FrameContentKind>,
    mpa_counts_before_frame: MpaCounts,
    /// Connection of the last frame if the frame is [`FrameContentKind::Control`].
    control_connection_key: Option<ConnectionSlabKey>,
    /// Time of the last frame.
    now: Timestamp,
    /// Frames since the last check of memory limits and due Transactions.
    frames_since_check: u32,
    ready: VecDeque<(TransactionSlabKey, Box<Transaction>)>,
    closing_connections: ClosedConnectionReportQueue,
    emitted_transactions: u64,
    numbered_connections: u64,
}

impl Flow {
    /// Creates an empty flow.
    pub fn new(limits: FlowLimits) -> Self {
        Self {
            connections: ConnectionTable::new(limits.connections),
            transaction_table: TrackedTransactionTable::new(&limits),
            set_ups: PendingConnectionSetUps::new(limits.set_ups),
            ip_reassembler: IpReassembler::new(limits.fragments),
            retries: CallRetryDetectionTable::new(limits.open_transactions),
            stats: FlowDecodingStatistics::default(),
            icrc_counts: IcrcCounts::default(),
            recent_frames: DuplicateFrameDetector::default(),
            partial_message_bytes: 0,
            streams: TcpConversationTable::new(limits.streams),
            stream_bytes: 0,
            frame_kinds: Vec::new(),
            mpa_counts_before_frame: MpaCounts::default(),
            control_connection_key: None,
            now: Timestamp::default(),
            frames_since_check: 0,
            ready: VecDeque::new(),
            closing_connections: ClosedConnectionReportQueue::default(),
            emitted_transactions: 0,
            numbered_connections: 0,
            limits,
        }
    }

    /// Processes the next frame and returns its meaning. [`Flow::frame_kinds`] lists further meanings.
    pub fn process_frame(&mut self, frame: &Frame<'_>) -> FrameContentKind {
        let datagram = net::decode_silently(frame);
        self.process_datagram(frame, &datagram)
    }

    /// Processes the next frame like [`Flow::process_frame`] and reports the fields of its headers to the observer.
    pub fn process_frame_observed<'a, O: FieldObserver<'a>>(
        &mut self,
        frame: &Frame<'a>,
        observer: &mut O,
    ) -> (InnermostNetworkPacket<'a>, FrameContentKind) {
        let datagram = net::decode(frame, observer);
        let content = self.process_datagram(frame, &datagram);
        (datagram, content)
    }

    fn process_datagram(
        &mut self,
        frame: &Frame<'_>,
        datagram: &InnermostNetworkPacket<'_>,
    ) -> FrameContentKind {
        let packet_meta = PacketMeta {
            identification: datagram.identification,
            ..PacketMeta::new(std::slice::from_ref(&frame.number), frame.time)
        };
        let is_clock_set_back =
            frame.time.0 < self.now.0.saturating_sub(duplicate_frames::MAX_CLOCK_STEP_BACK_NS);
        if is_clock_set_back {
            self.forget_previous_capture();
        }
        self.now = frame.time;
        self.transaction_table.transaction_frames.clear();
        self.clear_transport_events();
        self.skip_expired_gaps(frame.time);
        self.frame_kinds.clear();
        self.control_connection_key = None;
        self.mpa_counts_before_frame.add(std::mem::take(&mut self.stats.frame_mpa_counts));
        if self.transaction_table.transport_events.is_enabled() {
            let is_marked = transport_event::has_congestion_mark(frame, datagram);
            self.transaction_table.transport_events.has_congestion_mark = is_marked;
        }
        let content = match &datagram.payload {
            NetworkLayerPayload::Infiniband(packet) => {
                if self.limits.check_icrc {
                    self.check_icrc(frame, datagram);
                }
                self.process_packet(packet_meta, datagram, packet)
            }
            NetworkLayerPayload::Fragment(fragment) => {
                self.stats.count_ignored(IgnoredTraffic::Fragment);
                self.process_fragment(frame, datagram, fragment)
            }
            NetworkLayerPayload::Other(UndecodableFrameReason::Infiniband(error))
                if error.kind == PacketErrorKind::Cut =>
            {
                self.stats.count_undecoded(UndecodedReason::CutFrame)
            }
            NetworkLayerPayload::Other(
                UndecodableFrameReason::Infiniband(_) | UndecodableFrameReason::Malformed { .. },
            ) => self.stats.count_undecoded(UndecodedReason::Malformed),
            NetworkLayerPayload::Tcp(segment) => self.process_segment(packet_meta, datagram, segment),
            NetworkLayerPayload::Udp(udp) => self.handle_udp_datagram(packet_meta, datagram, udp),
            NetworkLayerPayload::Other(_) => self.stats.count_ignored(IgnoredTraffic::Other),
        };
        self.record_siblings();
        self.frames_since_check += 1;
        if self.transaction_table.needs_check(frame.time)
            || self.frames_since_check >= MAX_FRAMES_BETWEEN_CHECKS
            || is_clock_set_back
        {
            self.emit_due_transactions(frame.time);
        }
        if self.frame_kinds.is_empty() {
            self.frame_kinds.push(content);
        }
        if self.has_transport_events() {
            self.attribute_events(frame.number);
        }
        if self.limits.name_open_transactions {
            self.set_message_connections();
        }
        content
    }

    /// Records the other connections between the hosts of the Transactions that were closed. Rules need them; how long
    /// a Transaction waits for its emission must not matter.
    fn record_siblings(&mut self) {
        while let Some(key) = self.transaction_table.newly_closed.pop() {
            let Some(connection) = self.transaction_table.get(key).map(|entry| entry.connection) else {
                continue;
            };
            let siblings = self.siblings(connection);
            if let Some(entry) = self.transaction_table.get_mut(key) {
                entry.transaction.siblings = siblings;
            }
        }
    }

    /// Returns the other connections between the hosts of a connection.
    fn siblings(&self, at: usize) -> SiblingConnections {
        let addresses = self.connections.get(at).map(FlowConnection::addresses);
        if addresses.is_some_and(|addresses| self.streams.has_undetermined_between(addresses)) {
            return SiblingConnections::Open;
        }
        self.connections.siblings(at)
    }

    /// Handles a clock that went back so far that another capture begins: the old one yields no more late
    /// copies.
    #[cold]
    fn forget_previous_capture(&mut self) {
        self.recent_frames.clear();
        while let Some(key) = self.transaction_table.first_closed() {
            self.emit_transaction(key);
        }
    }

    /// Advances the time to `now`, by the clock of the frames, without a frame, and emits the Transactions that
    /// are due.
    pub fn advance_time(&mut self, now: Timestamp) {
        self.now = now;
        self.transaction_table.transaction_frames.clear();
        self.clear_transport_events();
        self.frame_kinds.clear();
        self.skip_expired_gaps(now);
        self.emit_due_transactions(now);
    }

    /// Emits the Transactions that are due and enforces the memory limits.
    fn emit_due_transactions(&mut self, now: Timestamp) {
        self.frames_since_check = 0;
        if self.are_tables_full() {
            self.evict_from_larger_table(now);
        }
        self.transaction_table.set_pooled_bytes(self.pooled_bytes());
        while let Some(key) = self.transaction_table.next_due(now) {
            self.emit_transaction(key);
        }
        if self.transaction_table.must_evict_open() {
            self.evict_calls_over_memory_limit(now);
        }
        self.emit_expired_calls(now);
        self.transaction_table.record_checked(now);
    }

    /// Returns the time of the last frame, or the later time passed to [`Flow::advance_time`].
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the number of the connection of the last frame if that frame is [`FrameContentKind::Control`]: an ACK
    /// or NAK of a queue pair, a CNP, or a TCP segment without data. `None` before the connection has carried
    /// RPC.
    pub fn control_connection(&self) -> Option<u64> {
        self.connections.number(self.control_connection_key?)
    }

    /// Returns all meanings of the last frame in the order of its bytes. A TCP segment may complete several
    /// messages: its own and those that waited for it.
    pub fn frame_kinds(&self) -> &[FrameContentKind] {
        &self.frame_kinds
    }

    /// Returns `true` if the last frame was an iWARP segment.
    pub fn is_iwarp(&self) -> bool {
        self.streams.last().is_some_and(|stream| matches!(stream.protocol, StreamProtocol::Mpa(_)))
    }

    /// Returns the relative numbers of a TCP segment in its stream if it is the segment processed last.
    pub fn segment_numbers(
        &self,
        datagram: &InnermostNetworkPacket<'_>,
        segment: &TcpSegment<'_>,
    ) -> Option<TcpSegmentNumbers> {
        let stream = self.streams.last()?;
        let source = (datagram.source, segment.source_port);
        let is_a = source == stream.ports.a;
        (is_a || source == stream.ports.b)
            .then(|| stream.relative_numbers(ConnectionSideAOrB::a_if(is_a), segment))
    }

    /// Returns the events that the last frame, and packets placed with its help, caused in Transactions. Empty
    /// unless [`FlowLimits::record_transaction_frames`] is set.
    pub fn transaction_frames(&self) -> &[TransactionFrame] {
        &self.transaction_table.transaction_frames
    }

    /// Returns the next finished Transaction.
    pub fn next_transaction(&mut self) -> Option<Transaction> {
        self.next_with_key().map(|(_, transaction)| *transaction)
    }

    /// Returns the next finished Transaction and its key.
    pub fn next_with_key(&mut self) -> Option<(TransactionSlabKey, Box<Transaction>)> {
        self.ready.pop_front()
    }

    /// Ends the input and emits everything that waits; open Transactions come last, in the order of their
    /// Calls.
    pub fn finish(&mut self) {
        // Those of the last frame were available after it.
        self.clear_transport_events();
        self.finish_streams(self.now);
        while let Some(key) = self.transaction_table.first_closed() {
            self.emit_transaction(key);
        }
        // Missing packets will not arrive: partial messages become partial Calls, or end Transactions with a
        // partial Reply.
        let packet_meta = PacketMeta::new(&[], Timestamp::default());
        for at in self.connections.all_slots() {
            self.flush_partial_messages(at, packet_meta);
        }
        for key in self.transaction_table.open_keys_by_first_frame() {
            self.emit_transaction(key);
        }
        while let Some(key) = self.transaction_table.first_closed() {
            self.emit_transaction(key);
        }
        self.release_early_events();
    }

    /// Returns the header-only messages of RPC-over-RDMA in the last frame, whose number is `frame`: RDMA_DONE,
    /// and messages that belong to no Transaction.
    pub fn header_only_messages(&self, frame: FrameNumber) -> &[RpcRdmaControlMessage] {
        self.transaction_table.header_only_messages.messages_of_frame(frame)
    }

    /// Returns a Transaction that has not been emitted yet. It has no index; its connection is set as far as it
    /// is known.
    pub fn transaction(&self, key: TransactionSlabKey) -> Option<&Transaction> {
        self.transaction_table.get(key).map(|entry| &*entry.transaction)
    }

    /// Iterates over the connections in the table that have carried RPC.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionParametersSnapshot> + '_ {
        self.connections.states()
    }

    /// Returns the counts of the traffic that is in no Transaction.
    pub fn stats(&self) -> &FlowDecodingStatistics {
        &self.stats
    }

    /// Returns the counts of the state evicted at a limit, by kind.
    pub fn evicted_counts(&self) -> impl Iterator<Item = (EvictedState, u64)> + '_ {
        let fragments = Some((EvictedState::Fragments, self.ip_reassembler.dropped_datagrams()))
            .filter(|(_, count)| *count > 0);
        self.stats.evicted_counts().chain(fragments)
    }

    /// Returns the counts of ICRC check results.
    pub fn icrc_counts(&self) -> IcrcCounts {
        self.icrc_counts
    }

    /// Returns the counts of MPA CRC check results and of discarded bytes.
    pub fn mpa_counts(&self) -> MpaCounts {
        let mut counts = self.mpa_counts_before_frame;
        counts.add(self.stats.frame_mpa_counts);
        counts
    }

    /// Returns the MPA counts of the last frame alone: of the FPDUs it completed, its own and those that waited
    /// for it.
    pub fn frame_mpa_counts(&self) -> MpaCounts {
        self.stats.frame_mpa_counts
    }

    /// Adds an IP fragment and processes the datagram that it completes.
    fn process_fragment(
        &mut self,
        frame: &Frame<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        fragment: &IpFragment<'_>,
    ) -> FrameContentKind {
        let Some(reassembled) = self.ip_reassembler.add(frame, datagram, fragment) else {
            return FrameContentKind::PartialMessage;
        };
        let datagram = reassembled.decode(&mut NullFieldObserver);
        let packet_meta = PacketMeta {
            identification: fragment.identification.0 as u16,
            ..PacketMeta::new(&reassembled.frames, frame.time)
        };
        match &datagram.payload {
            NetworkLayerPayload::Infiniband(packet) => self.process_packet(packet_meta, &datagram, packet),
            NetworkLayerPayload::Tcp(segment) => self.process_segment(packet_meta, &datagram, segment),
            NetworkLayerPayload::Udp(udp) => self.handle_udp_datagram(packet_meta, &datagram, udp),
            _ => FrameContentKind::Unrelated,
        }
    }

    fn check_icrc(&mut self, frame: &Frame<'_>, datagram: &InnermostNetworkPacket<'_>) {
        match datagram.icrc(frame) {
            Some(Icrc::Good) => {
                self.icrc_counts.good += 1;
                self.transaction_table.transport_events.has_checked_icrc = true;
            }
            Some(Icrc::Bad { .. }) => {
                self.icrc_counts.bad += 1;
                let events = &mut self.transaction_table.transport_events;
                (events.has_checked_icrc, events.has_bad_icrc) = (true, true);
            }
            Some(Icrc::Unknown) | None => self.icrc_counts.unknown += 1,
        }
    }

    /// Applies the effects of a message beyond its own connection.
    #[inline(always)]
    fn on_message(&mut self, at: usize, content: FrameContentKind, packet_meta: PacketMeta<'_>) {
        let FrameContentKind::Message { key, which } = content else { return };
        self.number_connection(at);
        self.connections.update_memory_bytes(at);
        if which == RpcMessageKind::Call {
            self.link_repeated_call(key, packet_meta);
        }
    }

    /// Returns a connection, and the context of its RPC conversation for a packet of `sender`.
    #[inline]
    fn rpc_context<'a>(
        &'a mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: &'a PacketMeta<'a>,
    ) -> Option<(&'a mut FlowConnection, BorrowedFlowState<'a>)> {
        let context = BorrowedFlowState {
            connection: at,
            sender,
            transaction_table: &mut self.transaction_table,
            stats: &mut self.stats,
            limits: &self.limits,
            packet_meta,
            is_in_causal_order: false,
        };
        Some((self.connections.get_mut(at)?, context))
    }

    /// Ends the reassembly of partial messages: processes each as far as it was captured.
    fn flush_partial_messages(&mut self, at: usize, packet_meta: PacketMeta<'_>) {
        let Some((connection, mut context)) = self.rpc_context(at, ConnectionSideAOrB::A, &packet_meta)
        else {
            return;
        };
        let FlowConnection { ends, conversation, .. } = connection;
        let mut contents = Vec::new();
        let mut partial_message_bytes = 0;
        for side in ConnectionSideAOrB::BOTH {
            let requests = &mut ends[side].requests;
            partial_message_bytes += requests.partial_message_bytes();
            requests.finish();
            context.sender = side;
            while let Some(message) = requests.take_ended_message(packet_meta.time) {
                contents.push(conversation.handle_operation(&mut context, message));
            }
            let dropped_frames = requests.take_dropped_frames();
            context.stats.count_undecoded_frames(UndecodedReason::MessagePart, dropped_frames);
        }
        conversation.drop_suspected_accesses(&mut context);
        conversation.drop_suspected_messages(&mut context);
        self.partial_message_bytes = self.partial_message_bytes.saturating_sub(partial_message_bytes);
        for content in contents {
            self.on_message(at, content, packet_meta);
        }
        if let Some(connection) = self.connections.get_mut(at) {
            connection.reorder_buffer.drop_all(&mut self.stats);
            connection.conversation.continuations.drop_all(&mut self.stats);
        }
    }

    /// Numbers a connection at its first message.
    fn number_connection(&mut self, at: usize) {
        if let Some(connection) = self.connections.get_mut(at)
            && connection.number.is_none()
        {
            self.numbered_connections += 1;
            connection.number = Some(self.numbered_connections);
        }
    }

    /// Links a Call to the unanswered Call on another connection that it repeats, and closes the latter.
    #[inline(never)]
    fn link_repeated_call(&mut self, key: TransactionSlabKey, packet_meta: PacketMeta<'_>) {
        let Some(entry) = self.transaction_table.get(key) else { return };
        let Some(call) = &entry.transaction.call else { return };
        let Some(connection) = self.connections.get(entry.connection) else { return };
        let route = connection.route(entry.requester);
        match self.retries.record_call(route, entry.transaction.xid, key) {
            Some(EarlierCallEmissionState::Pending(previous_key)) => {
                let is_repeated = |other: &TrackedFlowTransaction| {
                    let bytes = other.transaction.call.as_ref().map(CapturedMessage::inline_bytes);
                    other.connection != entry.connection
                        && other.is_unanswered()
                        && bytes == Some(call.inline_bytes())
                };
                if self.transaction_table.get(previous_key).is_some_and(is_repeated) {
                    if self.transaction_table.get(previous_key).is_some_and(TrackedFlowTransaction::is_open) {
                        self.transaction_table.close(previous_key, packet_meta);
                    }
                    if let Some(previous) = self.transaction_table.get_mut(previous_key) {
                        previous.repeated_by = Some(key);
                    }
                }
            }
            Some(EarlierCallEmissionState::Emitted { index, hash })
                if hash == CallRetryHash::new(call.inline_bytes()) =>
            {
                if let Some(entry) = self.transaction_table.get_mut(key) {
                    entry.transaction.retry_of = Some(index);
                }
            }
            Some(EarlierCallEmissionState::Emitted { .. }) | None => {}
        }
    }

    /// Moves the Transactions of connection `merged`, which is the direction of `at` on which `sender` sends.
    fn on_connections_joined(&mut self, at: usize, merged: usize, sender: ConnectionSideAOrB) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let split_keys = std::mem::take(&mut connection.conversation.split_transactions);
        let keys =
            connection.conversation.transaction_keys().chain(split_keys.iter().map(|(_, other)| *other));
        // A connection with only one direction names its sender A.
        self.transaction_table.move_to_connection(keys, merged, at, sender == ConnectionSideAOrB::B);
        for (one, other) in split_keys {
            connection.conversation.merge_halves(&mut self.transaction_table, one, other);
        }
    }

    /// Handles a new connection: applies a partly captured set-up and enforces the limit of the table.
    fn on_new_connection(&mut self, newest: usize, path: QueuePairFlowKey, packet_meta: PacketMeta<'_>) {
        if self.set_ups.has_request_from(path.tenant, path.destination, path.source, path.qpn)
            && let Some(connection) = self.connections.get_mut(newest)
        {
            connection.opened_by = Some(ConnectionSideAOrB::B);
        }
        if self.connections.exceeds_limit() {
            self.evict_connections(Some(newest), packet_meta);
        }
    }

    /// Evicts the connections idle longest while there are too many.
    fn evict_connections(&mut self, newest: Option<usize>, packet_meta: PacketMeta<'_>) {
        for at in self.connections.longest_idle() {
            if Some(at) != newest {
                if !self.has_ended_idle(at) {
                    self.stats.count_evicted(EvictedState::Connection);
                }
                self.close_connection(at, packet_meta);
            }
        }
    }

    /// Returns `true` if a connection has ended with nothing open, so that its removal loses nothing.
    fn has_ended_idle(&self, at: usize) -> bool {
        self.connections.get(at).is_some_and(|connection| {
            let mut keys = connection.conversation.transaction_keys();
            connection.is_ending
                && !keys
                    .any(|key| self.transaction_table.get(key).is_some_and(TrackedFlowTransaction::is_open))
        })
    }

    /// Removes a connection and closes its open Transactions unanswered.
    fn close_connection(&mut self, at: usize, packet_meta: PacketMeta<'_>) {
        self.flush_partial_messages(at, packet_meta);
        let Some(connection) = self.connections.get(at) else { return };
        let mut open: Vec<TransactionSlabKey> = connection.conversation.transaction_keys().collect();
        open.sort_unstable_by_key(|key| {
            self.transaction_table.get(*key).and_then(TrackedFlowTransaction::first_frame)
        });
        for key in open {
            if self.transaction_table.get(key).is_some_and(TrackedFlowTransaction::is_open) {
                self.transaction_table.close(key, packet_meta);
            }
        }
        // They are emitted now because only the connection knows their names.
        while self.transaction_table.has_closed_on(at) {
            let Some(key) = self.transaction_table.first_closed() else { break };
            self.emit_transaction(key);
        }
        self.record_transport_end(at);
        self.record_closed_connection(at);
        self.connections.remove(at);
    }

    fn emit_transaction(&mut self, key: TransactionSlabKey) {
        self.record_siblings();
        let Some(mut entry) = self.transaction_table.remove(key) else { return };
        if entry.is_open() && self.transaction_table.transport_events.is_enabled() {
            entry.transaction.siblings = self.siblings(entry.connection);
        }
        self.emitted_transactions += 1;
        entry.transaction.index = self.emitted_transactions;
        if let Some(repeated_by) = entry.repeated_by
            && let Some(repeat) = self.transaction_table.get_mut(repeated_by)
        {
            repeat.transaction.retry_of = Some(self.emitted_transactions);
        }
        if let Some(connection) = self.connections.get_mut(entry.connection) {
            connection.conversation.remove_transaction(key, &entry);
            connection.conversation.apply_dialect(&mut entry.transaction);
            let transaction = &entry.transaction;
            let route = connection.route(entry.requester);
            let unanswered = match (&transaction.call, &transaction.reply) {
                (_, Some(_)) => None,
                (call, None) => Some(call.as_ref().map_or(&[][..], CapturedMessage::inline_bytes)),
            };
            self.retries.record_emission(route, transaction.xid, key, unanswered, transaction.index);
            let name_and_direction = connection.name_and_direction(entry.requester);
            (entry.transaction.connection, entry.transaction.direction) = name_and_direction;
            entry.transaction.has_connection_ended =
                connection.is_ending && entry.transaction.reply.is_none();
            entry.transaction.credit_use.is_direction_known = connection.client().is_some();
            entry.transaction.credit_use.may_follow_reply |= connection.conversation.is_misordered;
            entry.transaction.set_up.clone_from(&connection.parameters);
        }
        self.stats.chunk_content_bytes =
            self.stats.chunk_content_bytes.saturating_sub(entry.transaction.chunk_content_bytes());
        self.ready.push_back((key, entry.transaction));
    }
}
