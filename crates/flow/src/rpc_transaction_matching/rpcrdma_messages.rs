//! Messages with an RPC-over-RDMA header: their type, and the Transaction that each belongs to.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::rpc::{RpcMessageKind, VERSION as RPC_VERSION, Xid};
use nfsrdma_dissectors::rpcrdma::version2::RpcRdma2HeaderType;
use nfsrdma_dissectors::rpcrdma::{self, AnyDialectHeader, Dialect, RdmaProc, RpcRdmaMessageType, RpcTransferMode};
use nfsrdma_dissectors::xdr::Cursor;

use super::connection_rpc_state::ConnectionRpcState;
use super::message_chunks::advertises_other_memory;
use super::message_record::{inline_message_cursor, message_record, rpc_type};
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::count_categories::UndecodedReason;
use crate::exceptional_transport_events::TransportAnomalyKind;
use crate::frame_kind::FrameContentKind;
use crate::non_message_frame_role::FrameRole;
use crate::rdma_operation::{ConnectionSideAOrB, RdmaAttribution, RdmaSendMessage};
use crate::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use crate::rpcrdma2_message_continuation::MultiSendRpcMessage;
use crate::transaction::RpcRdmaHeaderWords;
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};

/// Kind of a message, as far as the capture shows it.
#[derive(Clone, Copy, Debug)]
struct InferredMessageKind {
    kind: RpcMessageKind,
    /// See [`CapturedMessage::is_kind_known`](crate::transaction::CapturedMessage::is_kind_known).
    is_known: bool,
}

impl InferredMessageKind {
    const CALL: Self = Self::known(RpcMessageKind::Call);
    const REPLY: Self = Self::known(RpcMessageKind::Reply);

    const fn known(kind: RpcMessageKind) -> Self {
        Self { kind, is_known: true }
    }
}

impl ConnectionRpcState {
    /// Handles a message that `sender` sent.
    pub(super) fn handle_message(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        message: &RdmaSendMessage<'_>,
        owner: &mut RdmaAttribution,
    ) -> FrameContentKind {
        if message.length == 0 {
            context.record_event(None, TransportAnomalyKind::EmptySend);
            return FrameContentKind::EmptyOperation;
        }
        let kind = self.decode_message(context, message, owner);
        if let FrameContentKind::Undecoded(reason) = kind
            && self.is_rpc
        {
            self.record_undecoded(context, message, reason);
        }
        kind
    }

    fn decode_message(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        message: &RdmaSendMessage<'_>,
        owner: &mut RdmaAttribution,
    ) -> FrameContentKind {
        let dialect = match self.detect_dialect(message, context.limits.dialect) {
            Ok(dialect) => dialect,
            Err(reason) => {
                if reason == UndecodedReason::CutHeader {
                    self.has_cut_lists = true;
                    self.record_loss(context.packet_meta.time);
                }
                return context.count_undecoded(reason);
            }
        };
        let Some(summary) = RpcRdmaHeaderSummary::decode(dialect, message.bytes, message.length) else {
            // The fixed words end with the message type.
            let is_cut = message.bytes.len() < message.length.min(RpcRdmaHeaderWords::LENGTH);
            let reason = if is_cut { UndecodedReason::CutHeader } else { UndecodedReason::MalformedHeader };
            self.has_cut_lists |= is_cut;
            // It may have advertised memory, or have been a Call or a Reply.
            self.record_loss(context.packet_meta.time);
            return context.count_undecoded(reason);
        };
        let is_other_version = self.dialect.is_some_and(|current| current.is_version1() != dialect.is_version1());
        if summary.is_unknown() || is_other_version {
            self.record_loss(context.packet_meta.time);
        }
        if context.limits.dialect.is_none() {
            self.update_dialect(&summary);
        }
        self.has_cut_lists |= summary.is_cut;
        if let RpcRdmaMessageType::Version2(_) = summary.words.message_type
            && !summary.is_unknown()
            && !context.packet_meta.is_captured_twice()
        {
            // The message grants credits to the peer.
            let (own, peer) = self.message_credits.own_and_peer(context.sender);
            own.count_sent();
            peer.send_limit = Some(summary.words.credits);
        }
        let frame = context.packet_meta.last_frame();
        let header_only_messages = &mut context.transaction_table.header_only_messages;
        match summary.words.transfer_mode {
            RpcTransferMode::Done => {
                header_only_messages.add(frame, dialect, message);
                self.handle_done(context, summary.xid, owner)
            }
            RpcTransferMode::Control => {
                header_only_messages.add(frame, dialect, message);
                self.record_properties(context.sender, message);
                *owner = TransactionSlabKey::NONE.to_attribution(PackedChunkSegmentOrdinal::CONTROL);
                FrameContentKind::TransportMessage(summary.words.message_type)
            }
            RpcTransferMode::Part => self.handle_message_part(context, message, &summary, owner),
            // An error without a Call: the peer refused properties or a grant. Only version 2 has such errors.
            RpcTransferMode::Error
                if summary.xid == Xid(0)
                    && matches!(summary.words.message_type, RpcRdmaMessageType::Version2(_))
                    && !self.has_transaction(context.sender.peer(), Xid(0)) =>
            {
                header_only_messages.add(frame, dialect, message);
                *owner = TransactionSlabKey::NONE.to_attribution(PackedChunkSegmentOrdinal::CONTROL);
                FrameContentKind::TransportMessage(summary.words.message_type)
            }
            RpcTransferMode::Inline | RpcTransferMode::InChunk | RpcTransferMode::Error | RpcTransferMode::Unknown => {
                self.handle_complete_message(context, message, summary, owner)
            }
        }
    }

    /// Records the properties that a side announces.
    fn record_properties(&mut self, sender: ConnectionSideAOrB, message: &RdmaSendMessage<'_>) {
        let mut cursor = Cursor::new(message.bytes).with_length(message.length);
        let header = AnyDialectHeader::decode(Dialect::Version2, &mut cursor, &mut NullFieldObserver);
        if let Ok(AnyDialectHeader::Version2(header)) = &header
            && let Some(properties) = header.properties()
        {
            self.properties[sender].get_or_insert_default().record(properties);
        }
    }

    fn handle_complete_message(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        message: &RdmaSendMessage<'_>,
        summary: RpcRdmaHeaderSummary,
        owner: &mut RdmaAttribution,
    ) -> FrameContentKind {
        // Only an error is shorter than a version 1 header with empty lists.
        let has_lists = summary.words.dialect.is_version1() || summary.is_unknown();
        let is_error = summary.words.transfer_mode == RpcTransferMode::Error;
        if has_lists && message.length < rpcrdma::MIN_HEADER_BYTES && !is_error {
            return context.count_undecoded(UndecodedReason::MalformedHeader);
        }
        let rpc = inline_message_cursor(message, &summary);
        let has_invalidation = message.invalidated_handle.is_some();
        let Some(kind) = self.message_kind(context, (&summary, has_invalidation), &rpc) else {
            // It may have been a Call, with memory, or the Reply to one.
            self.record_loss(context.packet_meta.time);
            return context.count_undecoded(UndecodedReason::MalformedHeader);
        };
        let message_kind = kind.kind;
        let xid = summary.xid;
        let is_last = matches!(summary.words.message_type, RpcRdmaMessageType::Version2(_))
            && summary.words.transfer_mode == RpcTransferMode::Inline;
        let assembled = match is_last {
            true => {
                self.continuations.add_last_part((context.sender, xid, message_kind), message, &summary, context.stats)
            }
            false => None,
        };
        let key = match &assembled {
            Some(assembled) => {
                self.add_message(context, (&assembled.message.as_message(), assembled.send_count), summary, kind)
            }
            None => self.add_message(context, (message, 1), summary, kind),
        };
        *owner = key.to_attribution(PackedChunkSegmentOrdinal::of_message(message_kind));
        FrameContentKind::Message { key, which: message_kind }
    }

    /// Adds a Call or a Reply that came in `sends` Sends.
    fn add_message(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        (message, sends): (&RdmaSendMessage<'_>, u32),
        summary: RpcRdmaHeaderSummary,
        kind: InferredMessageKind,
    ) -> TransactionSlabKey {
        let record = message_record(message, &summary, (sends, kind.is_known));
        match kind.kind {
            RpcMessageKind::Call => {
                let rpc = inline_message_cursor(message, &summary);
                self.add_call(context, record, summary, rpc)
            }
            RpcMessageKind::Reply => {
                if !summary.read_chunks.is_empty() {
                    self.suspected_messages.has_reply_read_list = true;
                }
                if context.limits.dialect.is_none() {
                    self.record_read_list(&summary);
                }
                self.add_reply(context, summary.xid, record, Some(summary))
            }
        }
    }

    /// Adds a part of a message, but not its last. A retransmitted part may complete a message that was added before.
    fn handle_message_part(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        message: &RdmaSendMessage<'_>,
        summary: &RpcRdmaHeaderSummary,
        owner: &mut RdmaAttribution,
    ) -> FrameContentKind {
        let is_call = summary.words.message_type == RpcRdmaMessageType::Version2(RpcRdma2HeaderType::RDMA2_CALL_MIDDLE);
        let kind = if is_call { RpcMessageKind::Call } else { RpcMessageKind::Reply };
        *owner = TransactionSlabKey::NONE.to_attribution(PackedChunkSegmentOrdinal::PART);
        let stats_and_limit = (&mut *context.stats, context.limits.partial_message_bytes);
        let completed =
            self.continuations.add_part((context.sender, summary.xid, kind), message, summary, stats_and_limit);
        if let Some(assembled) = completed
            && let Some(key) = self.complete_message(context, kind, &assembled)
        {
            return FrameContentKind::Message { key, which: kind };
        }
        FrameContentKind::PartialMessage
    }

    /// Adds late parts to a message that was added without them.
    fn complete_message(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        kind: RpcMessageKind,
        assembled: &MultiSendRpcMessage,
    ) -> Option<TransactionSlabKey> {
        let message = assembled.message.as_message();
        let summary = RpcRdmaHeaderSummary::decode(Dialect::Version2, message.bytes, message.length)?;
        let requester = if kind == RpcMessageKind::Call { context.sender } else { context.sender.peer() };
        let key = self.transactions.get(&(requester, summary.xid)).copied()?;
        let complete = message_record(&message, &summary, (assembled.send_count, true));
        let entry = context.transaction_table.get_mut(key)?;
        let existing = match kind {
            RpcMessageKind::Call => entry.transaction.call.as_mut()?,
            RpcMessageKind::Reply => entry.transaction.reply.as_mut()?,
        };
        existing.frames.clone_from(&complete.frames);
        existing.sends = complete.sends;
        if existing.adopt_longer_copy(&complete) && kind == RpcMessageKind::Reply {
            context.transaction_table.close(key, *context.packet_meta);
        } else if kind == RpcMessageKind::Call && advertises_other_memory(&entry.transaction, &summary) {
            let rpc = inline_message_cursor(&message, &summary);
            self.readvertise(context, key, summary, rpc);
        }
        Some(key)
    }

    /// Returns the kind of a message; `None` if it is neither Call nor Reply.
    fn message_kind(
        &self,
        context: &BorrowedFlowState<'_>,
        (summary, has_invalidation): (&RpcRdmaHeaderSummary, bool),
        rpc: &Cursor<'_>,
    ) -> Option<InferredMessageKind> {
        let (call, reply) = (InferredMessageKind::CALL, InferredMessageKind::REPLY);
        // The Call may be missing from the capture. RFC 8797 section 4.1: only Replies invalidate handles.
        let kind_by_xid = || match self.has_transaction(context.sender.peer(), summary.xid) {
            true => reply,
            false if has_invalidation => InferredMessageKind { is_known: false, ..reply },
            false => InferredMessageKind { is_known: false, ..call },
        };
        // Only Calls advertise memory to read, except if the Requester fetches the results: then a Call of the other
        // side is waiting for the Reply.
        let reader = || match self.has_pending_call(context, summary.xid) {
            true => reply,
            false if summary.words.dialect == Dialect::Prototype => {
                if self.nfs_client_side == Some(context.sender.peer()) { reply } else { call }
            }
            false => call,
        };
        Some(match summary.words.message_type {
            _ if summary.words.transfer_mode == RpcTransferMode::Error => reply,
            RpcRdmaMessageType::Version2(
                RpcRdma2HeaderType::RDMA2_CALL_EXTERNAL
                | RpcRdma2HeaderType::RDMA2_CALL_MIDDLE
                | RpcRdma2HeaderType::RDMA2_CALL_INLINE,
            ) => call,
            RpcRdmaMessageType::Version2(
                RpcRdma2HeaderType::RDMA2_REPLY_EXTERNAL
                | RpcRdma2HeaderType::RDMA2_REPLY_MIDDLE
                | RpcRdma2HeaderType::RDMA2_REPLY_INLINE,
            ) => reply,
            _ if summary.has_position_zero() => reader(),
            // Otherwise a pending Call identifies the Reply.
            _ if summary.is_cut && !summary.read_chunks.is_empty() => reader(),
            _ if summary.is_cut || summary.is_unknown() => kind_by_xid(),
            // The RPC message of an RDMA_NOMSG Reply is in a Reply chunk. One without any chunk is an error (RFC 8166
            // section 4.5.2); a Call like that is answered by ERR_CHUNK.
            RpcRdmaMessageType::Version1(RdmaProc::RDMA_NOMSG) if summary.reply_chunk.is_none() => kind_by_xid(),
            RpcRdmaMessageType::Version1(RdmaProc::RDMA_NOMSG) => reply,
            RpcRdmaMessageType::Prototype(_) | RpcRdmaMessageType::Version1(_) | RpcRdmaMessageType::Version2(_) => {
                match rpc_type(rpc) {
                    Ok(kind) => InferredMessageKind::known(kind.filter(|kind| {
                        starts_with(rpc, summary.xid) || self.may_have_other_xid(context.sender, summary, rpc, *kind)
                    })?),
                    Err(_) => kind_by_xid(),
                }
            }
        })
    }

    /// Returns `true` if what follows the chunk lists may be an RPC message with another XID than its header.
    /// Otherwise, the lists end elsewhere: a number of segments, or the announcement of a list entry, is wrong.
    #[cold]
    fn may_have_other_xid(
        &self,
        sender: ConnectionSideAOrB,
        summary: &RpcRdmaHeaderSummary,
        rpc: &Cursor<'_>,
        kind: RpcMessageKind,
    ) -> bool {
        if summary.words.message_type != RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSG) {
            return true;
        }
        let mut cursor = *rpc;
        let mut word = || cursor.word().ok();
        let (xid, _type, version) = (word(), word(), word());
        let has_call = |xid: Xid| self.has_transaction(sender.peer(), xid);
        match kind {
            RpcMessageKind::Call => version.is_none_or(|version| version == RPC_VERSION) && !has_call(summary.xid),
            RpcMessageKind::Reply => has_call(summary.xid) || xid.is_some_and(|xid| has_call(Xid(xid))),
        }
    }

    /// Returns `true` if a Call of `sender`'s peer with this XID is waiting for its Reply.
    fn has_pending_call(&self, context: &BorrowedFlowState<'_>, xid: Xid) -> bool {
        let call =
            self.transactions.get(&(context.sender.peer(), xid)).and_then(|key| context.transaction_table.get(*key));
        call.is_some_and(|entry| entry.is_open() && entry.transaction.call.is_some())
    }

    /// Handles RDMA_DONE: the Requester has fetched the Read chunks of the Reply (RFC 5666 section 3.5).
    fn handle_done(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        xid: Xid,
        owner: &mut RdmaAttribution,
    ) -> FrameContentKind {
        let key = self.transactions.get(&(context.sender, xid)).copied();
        self.record_done(context, key);
        let Some((key, entry)) = key.and_then(|key| Some((key, context.transaction_table.get_mut(key)?))) else {
            return context.count_undecoded(UndecodedReason::DoneWithoutCall);
        };
        entry.transaction.is_done = true;
        context.transaction_table.close(key, *context.packet_meta);
        if context.limits.record_transaction_frames {
            context.transaction_table.record_event(key, FrameRole::Done, *context.packet_meta);
        }
        *owner = key.to_attribution(PackedChunkSegmentOrdinal::DONE);
        FrameContentKind::Done { key }
    }
}

fn starts_with(cursor: &Cursor<'_>, xid: Xid) -> bool {
    let mut cursor = *cursor;
    cursor.word() == Ok(xid.0)
}

/// Returns `true` if the start of a message may be that of the Call with this XID. A Reply of the same side may have
/// the XID, too: they are independent in each direction (RFC 8167 section 2.4.1).
pub(crate) fn may_start_call(bytes: &[u8], xid: Xid) -> bool {
    let is_reply = || xid_and_kind(bytes, bytes.len() + 1).is_some_and(|(_, kind)| kind == Some(RpcMessageKind::Reply));
    bytes.starts_with(&xid.0.to_be_bytes()) && !is_reply()
}

/// Returns `true` if the start of a message advertises memory under this handle.
pub(crate) fn advertises_handle(bytes: &[u8], handle: Handle) -> bool {
    let advertises = |summary: RpcRdmaHeaderSummary| {
        let chunks = summary.read_chunks.iter().chain(&summary.write_chunks).chain(&summary.reply_chunk);
        chunks.flat_map(|chunk| &chunk.segments).any(|segment| segment.handle == handle)
    };
    let dialects = [Dialect::Rfc8166, Dialect::Version2, Dialect::Prototype].into_iter();
    { dialects }.any(|dialect| RpcRdmaHeaderSummary::decode(dialect, bytes, bytes.len() + 1).is_some_and(advertises))
}

/// Returns the XID of a message that may be a Reply.
pub(crate) fn reply_xid(bytes: &[u8], length: usize) -> Option<Xid> {
    let (xid, kind) = xid_and_kind(bytes, length)?;
    (kind != Some(RpcMessageKind::Call)).then_some(xid)
}

/// Returns the XID of a message of `length` bytes, and its kind if its start tells.
fn xid_and_kind(bytes: &[u8], length: usize) -> Option<(Xid, Option<RpcMessageKind>)> {
    let (_, dialect) = rpcrdma::recognize_dialect(bytes, length, None);
    let mut cursor = Cursor::new(bytes).with_length(length);
    let header = AnyDialectHeader::decode(dialect, &mut cursor, &mut NullFieldObserver).ok()?;
    let kind = |is_reply| Some(if is_reply { RpcMessageKind::Reply } else { RpcMessageKind::Call });
    let kind = match (header.message_type(), header.transfer_mode()) {
        (
            RpcRdmaMessageType::Version2(htype),
            RpcTransferMode::Inline | RpcTransferMode::InChunk | RpcTransferMode::Part,
        ) => kind(htype >= RpcRdma2HeaderType::RDMA2_REPLY_EXTERNAL),
        (_, RpcTransferMode::Inline) => kind(rpc_type(&cursor) == Ok(Some(RpcMessageKind::Reply))),
        (_, RpcTransferMode::Control) => kind(false),
        _ => None,
    };
    Some((header.xid(), kind))
}
