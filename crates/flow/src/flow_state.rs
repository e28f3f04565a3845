//! State of the analysis of one capture, with its results so far.

use std::collections::VecDeque;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::net::{InnermostNetworkPacket, TcpSegment};

use super::borrowed_flow_state::BorrowedFlowState;
use super::closed_connection_reports::ClosedConnectionReportQueue;
use super::connection::{ConnectionParametersSnapshot, ConnectionTable, FlowConnection};
use super::connection_key::ConnectionSlabKey;
use super::connection_setup::PendingConnectionSetUps;
use super::count_categories::EvictedState;
use super::cross_connection_call_retries::CallRetryDetectionTable;
use super::duplicate_frames::DuplicateFrameDetector;
use super::frame_kind::FrameContentKind;
use super::ip_reassembly::IpReassembler;
use super::iwarp::mpa_counts::MpaCounts;
use super::limits::FlowLimits;
use super::non_message_frame_role::TransactionFrame;
use super::packet_meta::PacketMeta;
use super::rpcrdma_control_message::RpcRdmaControlMessage;
use super::session_slots::SessionSlots;
use super::statistics::FlowDecodingStatistics;
use super::stream_protocol::StreamProtocol;
use super::tcp_conversations::{TcpConversationTable, TcpSegmentNumbers};
use super::transaction::Transaction;
use super::transaction_slab_key::TransactionSlabKey;
use super::transaction_table::TrackedTransactionTable;
use crate::rdma_operation::ConnectionSideAOrB;

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
    pub(super) limits: FlowLimits,
    pub(super) connections: ConnectionTable,
    pub(super) transaction_table: TrackedTransactionTable,
    pub(super) set_ups: PendingConnectionSetUps,
    pub(super) ip_reassembler: IpReassembler,
    pub(super) retries: CallRetryDetectionTable,
    pub(super) session_slots: SessionSlots,
    pub(super) stats: FlowDecodingStatistics,
    pub(super) icrc_counts: IcrcCounts,
    pub(super) recent_frames: DuplicateFrameDetector,
    /// Bytes of incomplete messages.
    pub(super) partial_message_bytes: usize,
    pub(super) streams: TcpConversationTable,
    /// Bytes buffered for all streams.
    pub(super) stream_bytes: usize,
    /// Meanings of the last frame.
    pub(super) frame_kinds: Vec<FrameContentKind>,
    pub(super) mpa_counts_before_frame: MpaCounts,
    /// Connection of the last frame if the frame is [`FrameContentKind::Control`].
    pub(super) control_connection_key: Option<ConnectionSlabKey>,
    /// Time of the last frame.
    pub(super) now: Timestamp,
    /// Frames since the last check of memory limits and due Transactions.
    pub(super) frames_since_check: u32,
    pub(super) ready: VecDeque<(TransactionSlabKey, Box<Transaction>)>,
    pub(super) closing_connections: ClosedConnectionReportQueue,
    pub(super) emitted_transactions: u64,
    pub(super) numbered_connections: u64,
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
            session_slots: SessionSlots::default(),
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
        (is_a || source == stream.ports.b).then(|| stream.relative_numbers(ConnectionSideAOrB::a_if(is_a), segment))
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

    /// Returns the next closed connection that has carried RPC, if [`FlowLimits::report_closed_connections`] is set.
    /// All of its Transactions were emitted before.
    pub fn next_closed(&mut self) -> Option<ConnectionParametersSnapshot> {
        self.closing_connections.next_closed(&self.connections)
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
        let fragments =
            Some((EvictedState::Fragments, self.ip_reassembler.dropped_datagrams())).filter(|(_, count)| *count > 0);
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

    /// Returns a connection, and the context of its RPC conversation for a packet of `sender`.
    #[inline]
    pub(super) fn rpc_context<'a>(
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

    /// Numbers a connection at its first message.
    pub(super) fn number_connection(&mut self, at: usize) {
        if let Some(connection) = self.connections.get_mut(at)
            && connection.number.is_none()
        {
            self.numbered_connections += 1;
            connection.number = Some(self.numbered_connections);
        }
    }
}
