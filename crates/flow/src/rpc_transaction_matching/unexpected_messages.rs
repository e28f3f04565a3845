//! Messages that are malformed, or that the state of their connection does not permit, for transport events.
//!
//! A capture may lack the message that permits another one. So such a message is reported only once its receiver has
//! sent a further message without loss.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc::gss::GssPayload;
use nfsrdma_dissectors::rpc::{RpcMessageKind, RpcMsg, Xid};
use nfsrdma_dissectors::rpcrdma::{self, AnyDialectHeader, RdmaProc, RpcRdma1ErrCode};
use nfsrdma_dissectors::xdr::Cursor;

use super::connection_rpc_state::ConnectionRpcState;
use super::suspected_violations::{MAX_SUSPECTS, SuspectedUnexpectedMessage};
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::count_categories::UndecodedReason;
use crate::exceptional_transport_events::{RpcRdmaHeaderFault, TransportAnomalyKind, UnexpectedRpcMessageReason};
use crate::rdma_operation::{ConnectionSideAOrB, RdmaSendMessage};
use crate::transaction::{CapturedMessage, RpcRdmaHeaderWords, Transaction};
use crate::transaction_slab_key::TransactionSlabKey;
use crate::transaction_table::TrackedFlowTransaction;

/// Maximum number of Calls in flight, on all connections, to compare with a Reply of unknown XID.
const MAX_COMPARED_CALLS: usize = 1024;

impl ConnectionRpcState {
    /// Records a Send that was not decoded.
    #[cold]
    pub(super) fn record_undecoded(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        message: &RdmaSendMessage<'_>,
        reason: UndecodedReason,
    ) {
        let is_version1 = self.dialect.is_none_or(rpcrdma::Dialect::is_version1);
        let is_malformed = reason == UndecodedReason::MalformedHeader && message.gaps.is_empty();
        let fault = (is_version1 && is_malformed).then(|| header_fault(message)).flatten();
        let length = u32::try_from(message.length).unwrap_or(u32::MAX);
        self.record_version1(context, None, TransportAnomalyKind::Undecoded { reason, length, fault });
    }

    /// Records an event of version 1. Before the first Call or Reply, the event waits for the connection to be
    /// identified.
    fn record_version1(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        transaction: Option<TransactionSlabKey>,
        kind: TransportAnomalyKind,
    ) {
        if self.last_message_time.is_some() {
            context.record_event(transaction, kind);
        } else if context.transaction_table.transport_events.is_enabled()
            && self.suspected_messages.suspects.len() < MAX_SUSPECTS
        {
            self.suspected_messages.suspects.push(SuspectedUnexpectedMessage {
                event: context.event(transaction, kind),
                is_without_call: false,
                losses: None,
            });
        }
    }

    /// Records RDMA_DONE for a Transaction, if it is known.
    pub(super) fn record_done(&mut self, context: &mut BorrowedFlowState<'_>, transaction: Option<TransactionSlabKey>) {
        if !self.dialect.is_none_or(rpcrdma::Dialect::is_version1) {
            return;
        }
        let entry = transaction.and_then(|key| context.transaction_table.get(key));
        let of_transaction = entry.map(|entry| !entry.transaction.reply_read_chunks.is_empty());
        let has_read_list = match of_transaction {
            _ if self.suspected_messages.has_reply_read_list => Some(true),
            // The Reply is not captured yet, or not at all.
            Some(false) if entry.is_some_and(|entry| entry.transaction.reply.is_none()) => None,
            known => known,
        };
        self.record_version1(context, transaction, TransportAnomalyKind::Done { has_read_list });
    }

    /// Returns the fault of a Reply of the sender, of which no Call of the peer is in flight. A Reply whose RPC message
    /// has another XID is judged like any other message.
    fn fault_of_lone_reply(
        &self,
        context: &BorrowedFlowState<'_>,
        xid: Xid,
        reply: &CapturedMessage,
    ) -> Option<UnexpectedRpcMessageReason> {
        let now = context.packet_meta.time;
        let may_lack_call = self.may_lack_calls(now) || self.suspected_messages.has_forgotten_calls;
        // After a loss, the message is not judged.
        let is_lossy = self.has_set_up && self.has_lost_recently(now);
        if (may_lack_call && !is_lossy) || !self.may_suspect(context) {
            return None;
        }
        if reply.is_rdma_error() {
            let own_call =
                self.transactions.get(&(context.sender, xid)).and_then(|key| context.transaction_table.get(*key));
            return Some(match own_call.is_some_and(TrackedFlowTransaction::is_open) {
                true => UnexpectedRpcMessageReason::ErrorByRequester,
                false => UnexpectedRpcMessageReason::ErrorWithoutCall,
            });
        }
        if reply.is_nomsg() {
            let has_called = self.credits[context.sender.peer()].call_count > 0;
            return Some(match has_called {
                true => UnexpectedRpcMessageReason::LongReplyWithoutCall,
                false => UnexpectedRpcMessageReason::LongCallWithoutChunk,
            });
        }
        // The kind of a message without its RPC message is a guess.
        let is_certain = inline_xid(reply) == Some(xid) && reply.unknown_header().is_none();
        is_certain.then_some(UnexpectedRpcMessageReason::ReplyWithoutCall)
    }

    /// Returns the fault of a Reply of the sender with an XID that no Transaction of the connection has.
    #[cold]
    pub(super) fn fault_of_unknown_reply(
        &self,
        context: &BorrowedFlowState<'_>,
        xid: Xid,
        reply: &CapturedMessage,
    ) -> Option<UnexpectedRpcMessageReason> {
        let fault = self.fault_of_lone_reply(context, xid, reply)?;
        (!may_answer_other_call(context, context.sender.peer(), xid)).then_some(fault)
    }

    /// Judges another Reply of the sender to an answered Call. A Call that was sent again may have several.
    #[cold]
    pub(super) fn check_second_reply(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        key: TransactionSlabKey,
        reply: &CapturedMessage,
    ) {
        let Some(entry) = context.transaction_table.get(key) else { return };
        if reply.rpcrdma.is_none() || context.packet_meta.anomaly.is_some() {
            return;
        }
        let Transaction { xid: outer, call, reply: first, .. } = &*entry.transaction;
        let outer = *outer;
        if let Some(inner) = inline_xid(reply).filter(|inner| *inner != outer) {
            let has_rpc = RpcMsg::decode(&mut Cursor::new(reply.inline_bytes()), &mut NullFieldObserver).is_ok();
            if has_rpc {
                let kind =
                    TransportAnomalyKind::UnexpectedMessage(UnexpectedRpcMessageReason::XidMismatch { outer, inner });
                self.record_version1(context, Some(key), kind);
            }
            return;
        }
        // The first Reply may have been that of another Call.
        let is_first_of_other = first.as_ref().and_then(inline_xid).is_some_and(|of_first| of_first != outer);
        let is_permitted = is_first_of_other || call.as_ref().is_none_or(|call| call.copies != 1);
        if !is_permitted && let Some(fault) = self.fault_of_lone_reply(context, outer, reply) {
            let is_certain = !self.has_lost_recently(context.packet_meta.time);
            self.suspect_message(context, key, fault, is_certain);
        }
    }

    fn may_suspect(&self, context: &BorrowedFlowState<'_>) -> bool {
        context.transaction_table.transport_events.is_enabled()
            && context.packet_meta.anomaly.is_none()
            && self.suspected_messages.suspects.len() < MAX_SUSPECTS
    }

    /// Judges a Call that has the XID of the Call in `earlier`, which is in flight unless a Reply is missing. RFC 5531
    /// section 9. Without the set-up, it may precede the first captured packet of its sender. UDP does not show a gap.
    #[cold]
    pub(super) fn suspect_xid(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        key: TransactionSlabKey,
        earlier: TransactionSlabKey,
    ) {
        if !self.may_suspect(context) {
            return;
        }
        let is_lossless = self.is_gapless_since(context.transaction_table, earlier);
        let has_replied = self.last_reply.is_some_and(|reply| reply.requester == context.sender);
        let is_certain = is_lossless && !self.is_datagram && (self.has_set_up || has_replied);
        self.suspect_message(context, key, UnexpectedRpcMessageReason::XidInUse, is_certain);
    }

    /// Reports a message once its receiver has sent a further message without loss; at once as uncertain, unless
    /// `is_certain`.
    pub(super) fn suspect_message(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        transaction: TransactionSlabKey,
        fault: UnexpectedRpcMessageReason,
        is_certain: bool,
    ) {
        if !is_certain {
            let event = context.event(Some(transaction), TransportAnomalyKind::UnexpectedMessage(fault));
            return context.record_suspect(event, false);
        }
        let entry = context.transaction_table.get(transaction);
        self.suspected_messages.suspects.push(SuspectedUnexpectedMessage {
            event: context.event(Some(transaction), TransportAnomalyKind::UnexpectedMessage(fault)),
            is_without_call: entry.is_some_and(|entry| entry.transaction.call.is_none()),
            losses: Some(self.losses),
        });
    }

    /// Decides the suspected messages that the sender received: it has sent a message without loss.
    pub(super) fn confirm_messages(&mut self, context: &mut BorrowedFlowState<'_>) {
        if self.suspected_messages.suspects.is_empty() {
            return;
        }
        let mut remaining = Vec::new();
        for suspect in std::mem::take(&mut self.suspected_messages.suspects) {
            let SuspectedUnexpectedMessage { event, is_without_call, losses } = suspect;
            let is_certain = losses.is_none_or(|losses| losses == self.losses);
            if is_certain && (event.sender == context.sender || context.packet_meta.last_frame() == event.frame) {
                remaining.push(suspect);
                continue;
            }
            let entry = event.transaction.and_then(|key| context.transaction_table.get(key));
            // The Call was captured after its Reply.
            let has_call = entry.is_some_and(|entry| entry.transaction.call.is_some());
            if self.is_judged(event.kind) && !(is_without_call && has_call) {
                context.record_suspect(event, is_certain);
            }
        }
        self.suspected_messages.suspects = remaining;
    }

    /// Records the suspected messages as uncertain: the connection or the capture ends.
    pub(crate) fn drop_suspected_messages(&mut self, context: &mut BorrowedFlowState<'_>) {
        for suspect in std::mem::take(&mut self.suspected_messages.suspects) {
            if self.is_judged(suspect.event.kind) {
                context.record_suspect(suspect.event, false);
            }
        }
    }

    /// Returns `true` if the messages of the connection are of version 1 of RPC-over-RDMA, or if the fault is one of RPC.
    fn is_judged(&self, fault: TransportAnomalyKind) -> bool {
        const XID_IN_USE: TransportAnomalyKind =
            TransportAnomalyKind::UnexpectedMessage(UnexpectedRpcMessageReason::XidInUse);
        self.dialect.is_some_and(rpcrdma::Dialect::is_version1) || fault == XID_IN_USE
    }
}

/// Returns the fault of the header of a message that was captured completely.
fn header_fault(message: &RdmaSendMessage<'_>) -> Option<RpcRdmaHeaderFault> {
    let mut header_cursor = Cursor::new(message.bytes).with_length(message.length);
    let mut word = || header_cursor.word().ok();
    let (_xid, version, _credits) = (word(), word(), word());
    let (proc, code) = (word().map(RdmaProc), word());
    if version == Some(rpcrdma::VERSION) {
        match (proc, code) {
            (Some(RdmaProc::RDMA_DONE), _) => return None,
            (Some(RdmaProc::RDMA_ERROR), Some(code)) if RpcRdma1ErrCode(code).name().is_none() => {
                return Some(RpcRdmaHeaderFault::ErrorCode(code));
            }
            _ => {}
        }
    }
    if message.length < rpcrdma::MIN_HEADER_BYTES {
        return Some(RpcRdmaHeaderFault::Short);
    }
    if message.bytes.len() < RpcRdmaHeaderWords::LENGTH {
        return None;
    }
    let mut cursor = Cursor::new(message.bytes).with_length(message.length);
    match AnyDialectHeader::decode(rpcrdma::Dialect::Rfc8166, &mut cursor, &mut NullFieldObserver) {
        Ok(_) => Some(RpcRdmaHeaderFault::NoRpcMessage),
        Err(error) if error.is_cut() => None,
        Err(_) if proc == Some(RdmaProc::RDMA_MSGP) && version == Some(rpcrdma::VERSION) => {
            Some(RpcRdmaHeaderFault::Padded)
        }
        Err(error) => Some(RpcRdmaHeaderFault::ChunkLists(error)),
    }
}

/// Returns the XID of an RPC message that follows its RPC-over-RDMA header; `None` if it was not captured, and for
/// RDMA_ERROR.
fn inline_xid(message: &CapturedMessage) -> Option<Xid> {
    let is_inline = !message.is_rdma_error() && !message.is_nomsg();
    let xid = message.inline_bytes().first_chunk().filter(|_| is_inline)?;
    Some(Xid(u32::from_be_bytes(*xid)))
}

/// Returns `true` if a Reply with this XID may answer a Call of another connection, or a Call of `requester` that has
/// the XID only in its RPC message.
fn may_answer_other_call(context: &BorrowedFlowState<'_>, requester: ConnectionSideAOrB, xid: Xid) -> bool {
    let table = &*context.transaction_table;
    if table.open_count() > MAX_COMPARED_CALLS {
        return true;
    }
    table.open_entries().any(|(_, entry)| {
        if entry.connection != context.connection {
            return entry.transaction.xid == xid;
        }
        let rpc_xid = || entry.transaction.with_messages(|messages| messages.cursor(RpcMessageKind::Call)?.word().ok());
        entry.requester == requester && rpc_xid() == Some(xid.0)
    })
}

/// Returns `true` if two Calls with one XID differ in their procedures or, as far as these were captured, in their
/// arguments. Credentials may differ: RPCSEC_GSS numbers each copy, also in protected arguments (RFC 2203 section
/// 5.3.3.1).
pub(super) fn asks_for_other(earlier: &CapturedMessage, call: &CapturedMessage) -> bool {
    let (mut one, mut other) = (Cursor::new(earlier.inline_bytes()), Cursor::new(call.inline_bytes()));
    let decode = |cursor: &mut Cursor<'_>| {
        let message = RpcMsg::decode(cursor, &mut NullFieldObserver).ok()?;
        let call = message.call()?;
        Some(((call.prog, call.vers, call.proc), call.cred.payload() != GssPayload::Plain))
    };
    let (Some((first, is_protected)), Some((second, _))) = (decode(&mut one), decode(&mut other)) else {
        return false;
    };
    let common = one.rest().len().min(other.rest().len());
    first != second || (!is_protected && one.rest().get(..common) != other.rest().get(..common))
}
