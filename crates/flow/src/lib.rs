//! Stateful analysis: queue pairs, reassembly, chunks, and the Transactions built from them.
//!
//! [`Flow`] takes frames and returns [`Transaction`]s in the order in which they close. ARCHITECTURE.md describes the
//! modules in the order of the layers.
//!
//! Every kind of state has a limit in [`FlowLimits`]. [`FlowDecodingStatistics`] counts the state evicted at a limit.
//!
//! No I/O, no clock, no threads, no unsafe code.
#![forbid(unsafe_code)]

mod accepted_packet_inference;
mod advertised_handles;
mod borrowed_flow_state;
mod bounded_slab_growth;
mod by_side;
mod byte_range_set;
pub mod chunk;
mod closed_connection_reports;
mod connection;
mod connection_key;
mod connection_lifecycle;
mod connection_setup;
mod count_categories;
mod cross_connection_call_retries;
mod duplicate_frames;
mod early_packet_buffer;
mod endpoint_pair;
pub mod exceptional_transport_events;
mod extended_psn;
mod finality;
mod flow_state;
mod frame_kind;
mod infiniband_message_reassembly;
mod infiniband_packets;
pub mod ip_reassembly;
mod iwarp;
mod limits;
mod lost_write_placement;
mod memory_budget;
mod missing_byte_ranges;
mod missing_parts;
mod non_message_frame_role;
mod packet_meta;
mod packet_opcode_sequence;
pub mod pending_call_queries;
pub mod rdma_operation;
pub mod read_list;
mod record_header_search;
mod reliable_connection;
mod reply_header_validity;
mod rpc_over_udp;
mod rpc_records;
mod rpc_transaction_matching;
mod rpcrdma2_message_continuation;
mod rpcrdma_control_message;
mod rpcrdma_header_summary;
mod session_slots;
mod statistics;
mod stream;
mod stream_parser_context;
mod stream_protocol;
mod tcp_conversations;
mod tcp_segment_acceptance;
mod tcp_segment_dispatch;
mod tcp_segment_events;
#[cfg(test)]
mod tests;
pub mod transaction;
mod transaction_emission;
pub mod transaction_message_decoding;
mod transaction_slab_key;
mod transaction_table;
mod transport_event_queries;

pub use byte_range_set::ByteRangeSet;
pub use connection::ConnectionParametersSnapshot;
pub use connection_setup::{NFS_RDMA_PORT, NegotiatedParameters, RdmaReadResources, ServiceIdOrPort, SetUpFrame};
pub use count_categories::{EvictedState, IgnoredTraffic, UndecodedReason};
pub use flow_state::{Flow, IcrcCounts};
pub use frame_kind::FrameContentKind;
pub use iwarp::isolated_tcp_segment::observe_segment;
pub use iwarp::mpa_counts::MpaCounts;
pub use limits::FlowLimits;
pub use non_message_frame_role::{FrameRole, TransactionFrame};
pub use packet_opcode_sequence::PacketOpcodeOrLengthViolation;
pub use rpc_transaction_matching::credits::{CreditsInUse, Version2SendCredits};
pub use rpcrdma_control_message::RpcRdmaControlMessage;
pub use statistics::FlowDecodingStatistics;
pub use tcp_conversations::TcpSegmentNumbers;
pub use transaction::Transaction;
pub use transaction_slab_key::TransactionSlabKey;

pub use rdma_operation::RetransmissionStall;

use nfsrdma_dissectors::captured_frame::{Frame, Timestamp};
use nfsrdma_dissectors::field::{FieldObserver, NullFieldObserver};
use nfsrdma_dissectors::infiniband::PacketErrorKind;
use nfsrdma_dissectors::infiniband::icrc::Icrc;
use nfsrdma_dissectors::net::{self, InnermostNetworkPacket, IpFragment, NetworkLayerPayload, UndecodableFrameReason};

use packet_meta::PacketMeta;

/// Frames between two checks of the memory limits while no Transaction changes: 4 MiB in frames of 64 KiB.
const MAX_FRAMES_BETWEEN_CHECKS: u32 = 64;

impl Flow {
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

    fn process_datagram(&mut self, frame: &Frame<'_>, datagram: &InnermostNetworkPacket<'_>) -> FrameContentKind {
        let packet_meta = PacketMeta {
            identification: datagram.identification,
            ..PacketMeta::new(std::slice::from_ref(&frame.number), frame.time)
        };
        let is_clock_set_back = frame.time.0 < self.now.0.saturating_sub(duplicate_frames::MAX_CLOCK_STEP_BACK_NS);
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
            let is_marked = exceptional_transport_events::has_congestion_mark(frame, datagram);
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
            NetworkLayerPayload::Tcp(segment)
                if segment.payload.is_cut() && self.has_damaged_length(frame, datagram, segment) =>
            {
                self.stats.count_undecoded(UndecodedReason::BadChecksum)
            }
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
}
