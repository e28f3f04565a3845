//! Calls in flight of one side that share an XID, against RFC 5531 section 9: the Call that a Reply answers.
//!
//! The XID does not tell. The chunks of the Reply do, and the results, which must be those of the Call. If they permit
//! several Calls, or none, the Reply belongs to the Call that was sent first, and proves nothing against its sender.

use nfsrdma_dissectors::rpc::Xid;

use super::connection_rpc_state::ConnectionRpcState;
use super::unexpected_messages::asks_for_other;
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::rdma_operation::ConnectionSideAOrB;
use crate::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use crate::transaction::{CapturedMessage, Transaction};
use crate::transaction_slab_key::TransactionSlabKey;
use crate::transaction_table::{TrackedFlowTransaction, TrackedTransactionTable};

/// Maximum number of Calls of a connection whose XID a later Call has; each of two directions that are joined may have as
/// many. The first of more has no Reply.
const MAX_SHARED_XIDS: usize = 64;

impl ConnectionRpcState {
    /// Records that the sender uses the XID of the Call in `key` again, for a Call that asks for something else.
    /// Returns `false` if the two may be copies, as far as their arguments tell.
    #[cold]
    pub(super) fn share_xid(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        xid: Xid,
        key: TransactionSlabKey,
        call: &CapturedMessage,
    ) -> bool {
        let earlier = context.transaction_table.get(key).and_then(|entry| entry.transaction.call.as_ref());
        if !earlier.is_some_and(|earlier| asks_for_other(earlier, call)) {
            return false;
        }
        let shared = self.shared_xids.get_or_insert_default();
        while shared.calls.len() >= MAX_SHARED_XIDS {
            let (.., first) = shared.calls.remove(0);
            context.transaction_table.close(first, *context.packet_meta);
        }
        shared.calls.push((context.sender, xid, key));
        true
    }

    /// Returns the earlier Call in flight with this XID of which `copy` is a copy.
    #[cold]
    pub(super) fn shared_original(
        &self,
        context: &BorrowedFlowState<'_>,
        xid: Xid,
        copy: &CapturedMessage,
    ) -> Option<TransactionSlabKey> {
        let is_original = |key: &TransactionSlabKey| {
            let entry = context.transaction_table.get(*key).filter(|entry| entry.is_open());
            entry.and_then(|entry| entry.transaction.call.as_ref()).is_some_and(|call| call.is_copy_of(copy))
        };
        self.shared_xids.as_ref()?.with_xid(context.sender, xid).find(is_original)
    }

    /// Records that two Calls, of two directions that were joined, have one XID, if the earlier one is in flight. Returns the
    /// later one.
    #[cold]
    pub(super) fn share_joined_xid(
        &mut self,
        table: &TrackedTransactionTable,
        [one, other]: [TransactionSlabKey; 2],
    ) -> TransactionSlabKey {
        let time = |key| table.get(key).and_then(|entry| Some(entry.transaction.call.as_ref()?.time));
        let (earlier, later) = if time(one) <= time(other) { (one, other) } else { (other, one) };
        if let Some(entry) = table.get(earlier).filter(|entry| entry.is_open()) {
            let shared = self.shared_xids.get_or_insert_default();
            shared.calls.push((entry.requester, entry.transaction.xid, earlier));
        }
        later
    }

    /// Returns the Call of `requester` that a Reply answers; `latest` is the latest of those with its XID.
    #[cold]
    pub(super) fn shared_call_of_reply(
        &self,
        table: &mut TrackedTransactionTable,
        (requester, xid): (ConnectionSideAOrB, Xid),
        latest: Option<TransactionSlabKey>,
        (reply, header): (&CapturedMessage, Option<&RpcRdmaHeaderSummary>),
    ) -> Option<TransactionSlabKey> {
        let mut keys: Vec<_> = self.shared_xids.iter().flat_map(|shared| shared.with_xid(requester, xid)).collect();
        if keys.is_empty() {
            return latest;
        }
        keys.extend(latest);
        let is_open = |key: &TransactionSlabKey| table.get(*key).is_some_and(TrackedFlowTransaction::is_unanswered);
        let open: Vec<_> = keys.iter().copied().filter(is_open).collect();
        let mut lent = Some(reply.clone());
        let mut fits = |key: &TransactionSlabKey| {
            table.get_mut(*key).is_some_and(|entry| may_answer(&mut entry.transaction, &mut lent, header))
        };
        let fitting: Vec<_> = open.iter().copied().filter(|key| fits(key)).collect();
        if let [only] = fitting[..] {
            return Some(only);
        }
        let has_reply = |key: &TransactionSlabKey| {
            let answered = table.get(*key).and_then(|entry| entry.transaction.reply.as_ref());
            answered.is_some_and(|answered| answered.is_copy_of(reply))
        };
        if fitting.is_empty()
            && let Some(answered) = keys.iter().copied().find(has_reply)
        {
            return Some(answered);
        }
        let candidates = if fitting.is_empty() { open } else { fitting };
        for key in &candidates {
            if let Some(entry) = table.get_mut(*key) {
                entry.transaction.is_reply_ambiguous = true;
            }
        }
        // The Reply to an earlier Call may have been lost.
        let is_lossless = |key: &TransactionSlabKey| self.is_gapless_since(table, *key);
        candidates.iter().copied().find(is_lossless).or(candidates.last().copied()).or(latest)
    }

    /// Returns the Call that the Reply in `reply`, of the other of two directions that were joined, answers; `latest` is the
    /// latest of those with its XID.
    pub(super) fn call_of_joined_reply(
        &self,
        table: &mut TrackedTransactionTable,
        latest: TransactionSlabKey,
        reply: TransactionSlabKey,
    ) -> Option<TransactionSlabKey> {
        if self.shared_xids.is_none() {
            return Some(latest);
        }
        let entry = table.get(reply)?;
        let (id, message) = ((entry.requester, entry.transaction.xid), entry.transaction.reply.clone()?);
        let header = { message.rpcrdma }
            .and_then(|words| RpcRdmaHeaderSummary::decode(words.dialect, &message.bytes, message.length));
        self.shared_call_of_reply(table, id, Some(latest), (&message, header.as_ref()))
    }

    /// Returns `true` if no message is missing from the capture since the Call in `key`.
    pub(super) fn is_gapless_since(&self, table: &TrackedTransactionTable, key: TransactionSlabKey) -> bool {
        let call = table.get(key).and_then(|entry| entry.transaction.call.as_ref());
        call.is_some_and(|call| self.last_gap.is_none_or(|gap| gap <= call.time))
    }

    /// Forgets a Call that is being emitted. An earlier one with its XID takes its place.
    #[cold]
    pub(super) fn remove_shared_xid(&mut self, key: TransactionSlabKey, entry: &TrackedFlowTransaction) {
        let Some(shared) = &mut self.shared_xids else { return };
        shared.calls.retain(|(.., of_call)| *of_call != key);
        let id = (entry.requester, entry.transaction.xid);
        if !self.transactions.contains_key(&id)
            && let Some(at) = shared.calls.iter().rposition(|(side, xid, _)| (*side, *xid) == id)
        {
            let (.., earlier) = shared.calls.remove(at);
            self.transactions.insert(id, earlier);
        }
        if shared.calls.is_empty() {
            self.shared_xids = None;
        }
    }
}

/// Returns `true` if a Reply may be that of the Call of a Transaction without one: its chunks are those of the Call, and
/// its results are valid for the arguments, as far as both were captured. The Transaction has the Reply only meanwhile: a
/// copy of the Call may be large.
fn may_answer(
    transaction: &mut Transaction,
    reply: &mut Option<CapturedMessage>,
    header: Option<&RpcRdmaHeaderSummary>,
) -> bool {
    if reply.as_ref().is_none_or(CapturedMessage::is_rdma_error) {
        return true;
    }
    if header.is_some_and(|header| !header.has_chunks_of(transaction)) {
        return false;
    }
    if let Some(reply) = reply.take() {
        match header {
            Some(header) => header.clone().set_reply(transaction, reply),
            None => transaction.reply = Some(reply),
        }
    }
    let summary = transaction.with_messages(|messages| messages.summary());
    let is_fitting = transaction.refused_message().is_none()
        && !summary.is_reply_of_other(transaction)
        && summary.reply_error.is_none_or(|error| error.is_cut());
    *reply = RpcRdmaHeaderSummary::remove_reply(transaction);
    is_fitting
}
