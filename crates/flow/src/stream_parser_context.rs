//! Context of a stream parser: the RPC conversation of its connection, and the tables of the flow.

use std::ops::Range;

use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::rpcrdma::Dialect;

use super::borrowed_flow_state::BorrowedFlowState;
use super::count_categories::UndecodedReason;
use super::exceptional_transport_events::TransportAnomalyKind;
use super::frame_kind::FrameContentKind;
use super::iwarp::events::{IwarpEvent, IwarpEventSink};
use super::limits::FlowLimits;
use super::packet_meta::PacketMeta;
use super::record_header_search::BytesWithoutRecord;
use super::rpc_transaction_matching::connection_rpc_state::ConnectionRpcState;
use super::statistics::FlowDecodingStatistics;
use super::transaction_slab_key::TransactionSlabKey;
use super::transaction_table::TrackedTransactionTable;
use crate::rdma_operation::{ConnectionSideAOrB, RdmaAttribution};

/// State of the flow that a stream parser uses besides its own.
pub(super) struct StreamParserBorrowedFlowState<'a> {
    pub(super) connection: usize,
    /// Side that sends the bytes.
    pub(super) sender: ConnectionSideAOrB,
    pub(super) conversation: &'a mut ConnectionRpcState,
    pub(super) transaction_table: &'a mut TrackedTransactionTable,
    pub(super) stats: &'a mut FlowDecodingStatistics,
    pub(super) limits: &'a FlowLimits,
    /// Meanings of the decoded bytes.
    pub(super) frame_kinds: &'a mut Vec<FrameContentKind>,
    /// Number of meanings of bytes before: of other frames, if these were buffered.
    pub(super) first_kind: usize,
}

impl StreamParserBorrowedFlowState<'_> {
    /// Returns the RPC conversation of the connection and its context for bytes of these frames.
    pub(super) fn rpc_context<'a>(
        &'a mut self,
        packet_meta: &'a PacketMeta<'a>,
    ) -> (&'a mut ConnectionRpcState, BorrowedFlowState<'a>) {
        let context = BorrowedFlowState {
            connection: self.connection,
            sender: self.sender,
            transaction_table: self.transaction_table,
            stats: self.stats,
            limits: self.limits,
            packet_meta,
            is_in_causal_order: true,
        };
        (self.conversation, context)
    }

    /// Counts bytes of a record whose mark was not captured. `is_all`: the frame has nothing else and counts as
    /// undecoded.
    pub(super) fn count_skipped(&mut self, bytes: u32, packet_meta: PacketMeta<'_>, is_all: bool) {
        if packet_meta.frames.is_empty() {
            return;
        }
        self.stats.skipped_bytes += u64::from(bytes);
        if is_all {
            self.stats.count_undecoded_frames(UndecodedReason::NoRecordMark, 1);
        }
        self.frame_kinds.push(FrameContentKind::SkippedBytes { bytes });
    }

    /// Counts bytes in which no record began.
    pub(super) fn count_without_record(&mut self, without_record: &BytesWithoutRecord) {
        self.stats.skipped_bytes += without_record.bytes;
        self.stats.count_undecoded_frames(UndecodedReason::NoRecordMark, without_record.frames.len() as u64);
    }

    /// Counts a frame whose bytes cannot be decoded.
    pub(super) fn count_undecoded(&mut self, reason: UndecodedReason, packet_meta: PacketMeta<'_>) {
        if !packet_meta.frames.is_empty() {
            let content = self.stats.count_undecoded_packet(reason, &packet_meta);
            self.frame_kinds.push(content);
        }
    }

    /// Counts a frame once per reason, however many of its parts cannot be decoded.
    fn remove_repeated_reason(&mut self, packet_meta: &PacketMeta<'_>) {
        let kinds = self.frame_kinds.get(self.first_kind..).unwrap_or_default();
        if let Some((FrameContentKind::Undecoded(reason), preceding)) = kinds.split_last()
            && preceding.contains(&FrameContentKind::Undecoded(*reason))
        {
            if !packet_meta.is_captured_twice() {
                self.stats.uncount_undecoded(*reason);
            }
            self.frame_kinds.pop();
        }
    }
}

impl IwarpEventSink for StreamParserBorrowedFlowState<'_> {
    #[inline]
    fn event(&mut self, packet_meta: PacketMeta<'_>, event: IwarpEvent<'_>) {
        let content = match event {
            IwarpEvent::Operation(operation) => {
                let (conversation, mut context) = self.rpc_context(&packet_meta);
                conversation.handle_operation(&mut context, operation)
            }
            IwarpEvent::Undecoded(reason) => {
                self.conversation.has_cut_lists |=
                    matches!(reason, UndecodedReason::CutFrame | UndecodedReason::CutStream);
                // It may have been a message, or part of one.
                self.conversation.record_loss(packet_meta.time);
                self.count_undecoded(reason, packet_meta);
                return self.remove_repeated_reason(&packet_meta);
            }
            IwarpEvent::Fpdu(properties) => {
                return self.conversation.checks_mut().count_fpdu(properties);
            }
            IwarpEvent::UnprovenFpdu => {
                self.conversation.checks_mut().unproven_fpdus += 1;
                return;
            }
            IwarpEvent::Transport(kind) => {
                return self.rpc_context(&packet_meta).1.record_event(None, kind);
            }
            IwarpEvent::Refused { is_proven } => {
                self.conversation.record_loss(packet_meta.time);
                if is_proven {
                    self.rpc_context(&packet_meta).1.record_event(None, TransportAnomalyKind::BadMpaCrc);
                }
                return;
            }
            IwarpEvent::Startup => {
                if self.records_events() {
                    self.conversation.checks_mut().startups += 1;
                }
                FrameContentKind::Management
            }
            IwarpEvent::Part => FrameContentKind::PartialMessage,
            IwarpEvent::Control(kind) => {
                if let Some(kind) = kind {
                    self.rpc_context(&packet_meta).1.record_event(None, kind);
                }
                FrameContentKind::Control
            }
            IwarpEvent::RefusedMessage(attribution) => {
                if let Some((key, at)) = TransactionSlabKey::from_attribution(attribution)
                    && let Some(kind) = at.message_kind()
                {
                    self.transaction_table.record_refusal(key, kind);
                }
                return;
            }
            IwarpEvent::Misframed(attribution) => {
                if let Some((key, _)) = TransactionSlabKey::from_attribution(attribution) {
                    self.transaction_table.record_misframing(key);
                }
                return;
            }
            IwarpEvent::Terminate(terminate) => {
                let (conversation, mut context) = self.rpc_context(&packet_meta);
                conversation.confirm_accesses(&mut context, true);
                context.record_event(None, TransportAnomalyKind::Terminate(terminate));
                FrameContentKind::Terminate(terminate)
            }
        };
        self.frame_kinds.push(content);
        if let FrameContentKind::Undecoded(_) = content {
            self.remove_repeated_reason(&packet_meta);
        }
    }

    #[inline]
    fn records_events(&self) -> bool {
        self.transaction_table.transport_events.is_enabled()
    }

    fn knows_memory(&self, stag: Handle) -> bool {
        self.conversation.has_handle(self.sender.peer(), stag)
    }

    fn sends_words(&self) -> bool {
        self.conversation.dialect.is_some_and(|dialect| dialect != Dialect::Version2)
    }

    fn unplaced_reason(&self) -> Option<UndecodedReason> {
        self.frame_kinds.get(self.first_kind..)?.iter().rev().find_map(|kind| match kind {
            FrameContentKind::Undecoded(reason) if reason.is_unplaced() => Some(*reason),
            _ => None,
        })
    }

    fn uncount(&mut self, reason: UndecodedReason) {
        self.stats.uncount_undecoded(reason);
    }

    fn memory(&self, stag: Handle, offset: u64, attribution: RdmaAttribution) -> Option<(Range<u64>, Option<u32>)> {
        self.conversation.memory_at(self.transaction_table, self.sender.peer(), (stag, offset), attribution)
    }
}
