//! Calls and Replies joined by XID to Transactions.

use std::collections::hash_map::Entry;
use std::hash::Hash;

use nfsrdma_dissectors::rpc::{self, MsgType, Program, RpcMessageKind, Xid};
use nfsrdma_dissectors::xdr::Cursor;
use rustc_hash::FxHashMap;

use super::connection_rpc_state::{
    ConnectionRpcState, MAX_CALLS_BEFORE_REPLY, MisorderedReplyDetectionCall, ReplyFirstFrame,
};
use super::message_chunks::{advertises_other_memory, retain_read_results, store_call_chunks};
use super::message_record::append_frames;
use super::overlapping_memory::lacks_writes;
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::count_categories::EvictedState;
use crate::exceptional_transport_events::MAX_REPLY_SKEW_NS;
use crate::rdma_operation::ConnectionSideAOrB;
use crate::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use crate::transaction::{CallCreditUse, CapturedMessage, Transaction};
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};
use crate::transaction_table::{TrackedFlowTransaction, TrackedTransactionTable, TransactionTableEntryState};

/// State of the XID of a new Call.
pub(super) enum NewCallXidMatch {
    /// The Call is a copy of this Transaction's Call.
    Copy(TransactionSlabKey),
    /// The Reply in this Transaction was captured before the Call.
    Reply(TransactionSlabKey),
    /// The XID is that of another Call in flight: the Call of this Transaction.
    InUse(TransactionSlabKey),
    /// The XID is new, or reused for another Call.
    NoMatch,
}

impl ConnectionRpcState {
    pub(super) fn add_call(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        call: CapturedMessage,
        summary: RpcRdmaHeaderSummary,
        cursor: Cursor<'_>,
    ) -> TransactionSlabKey {
        let xid = summary.xid;
        let quiet_ns = self.update_last_message_time(&call);
        let mut shared = None;
        let reply_key = match self.match_call_xid(context, xid, &call) {
            NewCallXidMatch::Copy(key) => {
                let moved = |entry: &TrackedFlowTransaction| {
                    entry.is_open() && advertises_other_memory(&entry.transaction, &summary)
                };
                if context.transaction_table.get(key).is_some_and(moved) {
                    self.readvertise(context, key, summary, cursor);
                }
                return key;
            }
            NewCallXidMatch::Reply(key) => Some(key),
            NewCallXidMatch::InUse(key) => {
                shared = Some(key);
                None
            }
            NewCallXidMatch::NoMatch => None,
        };
        let mut transaction = empty_transaction(xid);
        transaction.quiet_ns = quiet_ns;
        if let Some(stall) = call.stall {
            transaction.record_stall(stall);
        }
        transaction.call = Some(call);
        self.record_caller(context.sender, cursor);
        if !summary.read_chunks.is_empty() || !summary.write_chunks.is_empty() || summary.reply_chunk.is_some() {
            self.memory_owner.get_or_insert(context.sender);
        }
        store_call_chunks(&mut transaction, summary, cursor, context.limits.keep_file_data);
        let key = self.open_transaction(context, transaction, reply_key);
        if let Some(earlier) = shared {
            self.suspect_xid(context, key, earlier);
        }
        key
    }

    /// Updates the time of the last message. Returns the nanoseconds since the message before, if there was one.
    fn update_last_message_time(&mut self, message: &CapturedMessage) -> Option<u64> {
        let end = self.last_message_time.map_or(message.end_time, |last| last.max(message.end_time));
        message.time.nanoseconds_since(self.last_message_time.replace(end)?)
    }

    /// Looks up the XID of a Call, and records the Call if it is a copy.
    pub(super) fn match_call_xid(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        xid: Xid,
        copy: &CapturedMessage,
    ) -> NewCallXidMatch {
        let Some(key) = self.transactions.get(&(context.sender, xid)).copied() else {
            return NewCallXidMatch::NoMatch;
        };
        let Some(entry) = context.transaction_table.get_mut(key) else { return NewCallXidMatch::NoMatch };
        let may_be_copy = !entry.has_delivered_reply() || context.packet_meta.is_duplicate();
        // Captured after its Reply: a capture of several queues may reorder packets.
        let Some(call) = &mut entry.transaction.call else { return NewCallXidMatch::Reply(key) };
        if may_be_copy && call.is_copy_of(copy) {
            return Self::record_call_copy(context, key, copy);
        }
        let is_open = entry.state == TransactionTableEntryState::Open;
        if let Some(key) = self.shared_original(context, xid, copy) {
            return Self::record_call_copy(context, key, copy);
        }
        if !is_open {
            return NewCallXidMatch::NoMatch;
        }
        self.suspected_messages.has_forgotten_calls = true;
        if self.share_xid(context, xid, key, copy) {
            return NewCallXidMatch::InUse(key);
        }
        // The XID is reused, so nothing more is expected for the previous Call.
        context.transaction_table.close(key, *context.packet_meta);
        NewCallXidMatch::NoMatch
    }

    /// Records a copy of the Call of a Transaction.
    fn record_call_copy(
        context: &mut BorrowedFlowState<'_>,
        key: TransactionSlabKey,
        copy: &CapturedMessage,
    ) -> NewCallXidMatch {
        let entry = context.transaction_table.get_mut(key);
        if let Some(call) = entry.and_then(|entry| entry.transaction.call.as_mut()) {
            if !context.packet_meta.is_captured_twice() {
                call.copies += 1;
                call.retransmissions += u32::from(!context.packet_meta.is_duplicate());
            }
            let listed_bytes = append_frames(&mut call.frames, &copy.frames, context.stats);
            call.adopt_longer_copy(copy);
            context.transaction_table.apply_size_change(key, 0, listed_bytes);
        }
        NewCallXidMatch::Copy(key)
    }

    /// Records which side sends Calls of NFS, MOUNT or NFSACL, if this Call is the first of them.
    pub(super) fn record_caller(&mut self, sender: ConnectionSideAOrB, call: Cursor<'_>) {
        self.first_caller.get_or_insert(sender);
        if self.nfs_client_side.is_none()
            && let Some(Program::NFS | Program::MOUNT | Program::NFSACL) = call_program(call)
        {
            self.nfs_client_side = Some(sender);
        }
    }

    /// Adds a new Call, or completes the Transaction in `reply_key` that has only the Reply.
    pub(super) fn open_transaction(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        transaction: Box<Transaction>,
        reply_key: Option<TransactionSlabKey>,
    ) -> TransactionSlabKey {
        if reply_key.is_none()
            && context.transaction_table.open_count() >= context.limits.open_transactions
            && let Some(oldest) = context.transaction_table.oldest_open()
        {
            context.transaction_table.close(oldest, *context.packet_meta);
            context.stats.count_evicted(EvictedState::OpenTransaction);
        }
        let xid = transaction.xid;
        let key = match reply_key {
            Some(key) => {
                context.transaction_table.add_call(key, transaction);
                self.expect_reads(context.transaction_table, key, context.limits.keep_file_data);
                key
            }
            None => context.transaction_table.add(TrackedFlowTransaction::new(
                transaction,
                context.connection,
                context.sender,
                context.packet_meta,
            )),
        };
        self.transactions.insert((context.sender, xid), key);
        self.advertise(context.transaction_table, key, |at| !at.is_reply_segment());
        if reply_key.is_none() {
            let in_flight = context.transaction_table.open_on(context.connection, context.sender);
            let peer_in_flight = context.transaction_table.open_on(context.connection, context.sender.peer());
            let (losses, gaps, time) = (self.losses, self.gaps(), context.packet_meta.time);
            let credits = &mut self.credits[context.sender];
            if in_flight <= 1 {
                // A Reply that was emitted was captured long before.
                let last_reply = context.transaction_table.get(credits.last_reply);
                let is_received = last_reply.is_none_or(|entry| entry.is_reply_acknowledged);
                credits.record_idle(losses, gaps, is_received);
            }
            let before_call = credits.in_use;
            credits.set_in_flight(in_flight, time);
            credits.call_count += 1;
            let (losses_when_idle, granted) = (credits.losses_when_idle, credits.limit());
            let (gaps_when_idle, has_grant_when_idle) = (credits.gaps_when_idle, credits.has_grant_when_idle);
            let call_number = credits.call_count;
            if let Some(entry) = context.transaction_table.get_mut(key) {
                (entry.losses_when_idle, entry.gaps_when_idle) = (losses_when_idle, gaps_when_idle);
                let may_follow_reply = self.is_after_reply_of_same_time(context.is_in_causal_order, entry);
                entry.transaction.credit_use = CallCreditUse {
                    in_flight,
                    peer_in_flight,
                    call_number,
                    granted,
                    has_grant_when_idle,
                    losses,
                    losses_before: losses,
                    may_follow_reply,
                    before_call,
                    ..CallCreditUse::default()
                };
            }
            if let Some(slot) = self.last_calls.get_mut(usize::from(self.oldest_call)) {
                *slot = MisorderedReplyDetectionCall { key, frame: context.packet_meta.last_frame(), time };
                self.oldest_call = (self.oldest_call + 1) % MAX_CALLS_BEFORE_REPLY as u8;
            }
        }
        key
    }

    /// Replaces the chunks of a Call by those of its retransmission.
    pub(super) fn readvertise(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        key: TransactionSlabKey,
        summary: RpcRdmaHeaderSummary,
        rpc: Cursor<'_>,
    ) {
        let Some(entry) = context.transaction_table.get_mut(key) else { return };
        self.remove_advertised_memory(key, entry);
        store_call_chunks(&mut entry.transaction, summary, rpc, context.limits.keep_file_data);
        self.advertise(context.transaction_table, key, |at| !at.is_reply_segment());
    }

    /// Merges a Transaction that has only a Call with the one that has its Reply, after their connections were merged.
    pub(crate) fn merge_halves(
        &mut self,
        transaction_table: &mut TrackedTransactionTable,
        (one, other): (TransactionSlabKey, TransactionSlabKey),
        keep_data: bool,
    ) {
        let has_call = |key| transaction_table.get(key).is_some_and(|entry| entry.transaction.call.is_some());
        let (latest, reply) = match [one, other].map(has_call) {
            [true, true] => {
                let later = self.share_joined_xid(transaction_table, [one, other]);
                if let Some(entry) = transaction_table.get(later) {
                    self.transactions.insert((entry.requester, entry.transaction.xid), later);
                }
                return;
            }
            [true, false] => (one, other),
            [false, _] => (other, one),
        };
        let Some(call) = self.call_of_joined_reply(transaction_table, latest, reply) else { return };
        if let Some(entry) = transaction_table.merge_halves(call, reply) {
            self.transactions.insert((entry.requester, entry.transaction.xid), latest);
            self.expect_reads(transaction_table, call, keep_data);
        }
    }

    /// Prepares for the RDMA Reads of the Requester, once a Reply has its Call.
    fn expect_reads(
        &mut self,
        transaction_table: &mut TrackedTransactionTable,
        key: TransactionSlabKey,
        keep_data: bool,
    ) {
        if let Some(entry) = transaction_table.get_mut(key) {
            retain_read_results(&mut entry.transaction, keep_data);
        }
        self.advertise(transaction_table, key, PackedChunkSegmentOrdinal::is_reply_segment);
    }

    pub(super) fn add_reply(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        xid: Xid,
        reply: CapturedMessage,
        summary: Option<RpcRdmaHeaderSummary>,
    ) -> TransactionSlabKey {
        let requester = context.sender.peer();
        self.update_last_message_time(&reply);
        let stall = reply.stall;
        let mut existing = self.transactions.get(&(requester, xid)).copied();
        if self.shared_xids.is_some() {
            let message = (&reply, summary.as_ref());
            existing = self.shared_call_of_reply(context.transaction_table, (requester, xid), existing, message);
        }
        self.mark_calls_before_reply(context, existing);
        self.last_reply =
            { reply.frames.first() }.map(|frame| ReplyFirstFrame { requester, frame: *frame, time: reply.time });
        let Some((key, entry)) = existing.and_then(|key| Some((key, context.transaction_table.get_mut(key)?))) else {
            // The Call was lost, or precedes the capture; or a Requester refuses a Reply, which RFC 8166 section 4.5 does
            // not permit.
            if reply.is_rdma_error()
                && let Some(own) = self.transactions.get(&(context.sender, xid))
            {
                context.transaction_table.record_refusal(*own, RpcMessageKind::Reply);
            }
            let suspected_fault = self.fault_of_unknown_reply(context, xid, &reply);
            let is_certain = !self.has_lost_recently(context.packet_meta.time);
            self.record_loss(context.packet_meta.time);
            self.suspected_messages.record_missing_call(requester);
            let mut transaction = empty_transaction(xid);
            (transaction.credit_use.losses, transaction.credit_use.losses_before) = (self.losses, self.losses);
            if let Some(stall) = stall {
                transaction.record_stall(stall);
            }
            transaction.reply = Some(reply);
            let entry = TrackedFlowTransaction::new(transaction, context.connection, requester, context.packet_meta);
            let key = context.transaction_table.add(entry);
            self.transactions.insert((requester, xid), key);
            context.transaction_table.close(key, *context.packet_meta);
            if let Some(fault) = suspected_fault {
                self.suspect_message(context, key, fault, is_certain);
            }
            return key;
        };
        let transaction = &mut entry.transaction;
        if let Some(earlier) = &mut transaction.reply {
            if !context.packet_meta.is_captured_twice() {
                earlier.copies += 1;
                earlier.retransmissions += u32::from(!context.packet_meta.is_duplicate());
            }
            let listed_bytes = append_frames(&mut earlier.frames, &reply.frames, context.stats);
            let is_more = earlier.adopt_longer_copy(&reply);
            context.transaction_table.apply_size_change(key, 0, listed_bytes);
            if is_more {
                context.transaction_table.close(key, *context.packet_meta);
            }
            if context.transaction_table.transport_events.is_enabled() {
                self.check_second_reply(context, key, &reply);
            }
            return key;
        }
        let granted = reply.rpcrdma.and_then(|words| words.calls_in_flight_credits());
        let call_time = transaction.call.as_ref().map(|call| call.time);
        transaction.has_suspected_access |= call_time.is_some_and(|sent| self.suspects.may_concern(sent));
        let refused = self.last_unseen_refusal(requester);
        transaction.is_answer_refused = refused.zip(call_time).is_some_and(|(refused, sent)| refused > sent);
        // A Call after a gap of a stream is decoded late: a loss in the other direction may be counted already.
        let is_loss_later = self.last_loss.zip(call_time).is_some_and(|(loss, sent)| loss > sent);
        let is_gap_later = self.last_gap.zip(call_time).is_some_and(|(gap, sent)| gap > sent);
        transaction.credit_use.is_exact = entry.losses_when_idle == self.losses && !is_loss_later;
        transaction.credit_use.is_gapless = entry.gaps_when_idle == self.gaps() && !is_gap_later;
        transaction.credit_use.losses = self.losses;
        let now = context.packet_meta.time;
        let credits = &mut self.credits[requester];
        transaction.credit_use.before_reply = credits.in_use;
        transaction.credit_use.at_limit_ns = credits.count_exhausted(now);
        match summary {
            Some(summary) => summary.set_reply(transaction, reply),
            None => transaction.reply = Some(reply),
        }
        if let Some(stall) = stall {
            transaction.record_stall(stall);
        }
        let lacks_writes = lacks_writes(transaction);
        entry.is_refused = context.packet_meta.is_refused();
        if lacks_writes {
            self.adopt_overlapping_writes(context, requester, key);
        }
        context.transaction_table.close(key, *context.packet_meta);
        let credits = &mut self.credits[requester];
        if let Some(granted) = granted {
            credits.record_grant(granted);
        }
        credits.last_reply = key;
        credits.set_in_flight(context.transaction_table.open_on(context.connection, requester), now);
        self.expect_reads(context.transaction_table, key, context.limits.keep_file_data);
        key
    }

    /// Returns `true` if the first frame of a Call was captured just before a Reply, which may have been received
    /// before the Call was sent.
    fn is_after_reply_of_same_time(&self, is_in_causal_order: bool, entry: &TrackedFlowTransaction) -> bool {
        let (Some(reply), Some(call)) = (self.last_reply, &entry.transaction.call) else { return false };
        if reply.requester != entry.requester || reply.time < call.time {
            return false;
        }
        is_in_causal_order
            || call.frames.first().is_some_and(|frame| reply.frame.0 <= frame.0 + 1)
            || reply.time.abs_diff_ns(call.time) <= MAX_REPLY_SKEW_NS
    }

    /// Marks Calls that were captured just before a Reply, which may have been received before they were sent.
    fn mark_calls_before_reply(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        answered_call: Option<TransactionSlabKey>,
    ) {
        let packet_meta = context.packet_meta;
        if context.is_in_causal_order {
            // The senders of these Calls had not received the Reply.
            return;
        }
        for call in self.last_calls.iter_mut().filter(|call| call.key != TransactionSlabKey::NONE) {
            let MisorderedReplyDetectionCall { key, frame, time } = *call;
            let is_near =
                packet_meta.last_frame().0 <= frame.0 + 1 || packet_meta.time.abs_diff_ns(time) <= MAX_REPLY_SKEW_NS;
            if !is_near {
                *call = MisorderedReplyDetectionCall::default();
            } else if answered_call.is_some_and(|call| call != key)
                && let Some(entry) = context.transaction_table.get_mut(key)
            {
                entry.transaction.credit_use.may_follow_reply = true;
            }
        }
    }

    /// Removes a Transaction that is being emitted.
    pub(crate) fn remove_transaction(&mut self, key: TransactionSlabKey, entry: &TrackedFlowTransaction) {
        if entry.is_unanswered() {
            self.suspected_messages.has_forgotten_calls = true;
        }
        if let Entry::Occupied(occupied) = self.transactions.entry((entry.requester, entry.transaction.xid))
            && *occupied.get() == key
        {
            occupied.remove();
        }
        if self.shared_xids.is_some() {
            self.remove_shared_xid(key, entry);
        }
        self.remove_advertised_memory(key, entry);
        // Capacity for the peak of each connection would add up over all connections.
        shrink_map(&mut self.transactions);
        shrink_map(&mut self.handles);
    }
}

/// Shrinks a map of which less than an eighth of the capacity is used.
fn shrink_map<K: Eq + Hash, V>(map: &mut FxHashMap<K, V>) {
    if map.capacity() > 16 && map.len() < map.capacity() / 8 {
        map.shrink_to(2 * map.len());
    }
}

/// Returns the program of a Call, which the capture may cut behind it (RFC 5531 section 9).
fn call_program(mut cursor: Cursor<'_>) -> Option<Program> {
    let (_xid, kind, version) = (cursor.word().ok()?, cursor.word().ok()?, cursor.word().ok()?);
    let program = cursor.word().ok().map(Program)?;
    (MsgType(kind) == MsgType::CALL && version == rpc::VERSION).then_some(program)
}

pub(super) fn empty_transaction(xid: Xid) -> Box<Transaction> {
    Box::new(Transaction { xid, ..Transaction::default() })
}
