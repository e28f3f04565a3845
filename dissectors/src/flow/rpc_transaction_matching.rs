//! RPC on one connection: joins Calls and Replies, and attributes RDMA Reads and Writes to advertised chunks. RFC 8166.
//!
//! Messages without an RPC-over-RDMA header are in [`plain_rpc`].

mod advertised_memory;
mod chunk_data;
pub(super) mod credits;
mod dialect;
mod invalid_memory_access;
mod plain_rpc;
mod rdma_read_depth;
mod rpcrdma_messages;
mod unexpected_messages;

use std::collections::hash_map::Entry;
use std::hash::Hash;

use rustc_hash::FxHashMap;

pub(super) use rpcrdma_messages::{advertises_handle, may_start_call, reply_xid};

use crate::captured_frame::{FrameNumber, Timestamp};
use crate::field::NullFieldObserver;
use crate::nfs::{self, Procedure, SymlinkTextChunkFlags};
use crate::rdma_operation::{
    ConnectionSideAOrB, Handle, RdmaAttribution, RdmaMemoryRange, RdmaOperation, RdmaSendMessage,
    RetransmissionStall,
};
use crate::rpc::{self, Program, RpcMessageKind, Xid};
use crate::rpcrdma::Dialect;
use crate::rpcrdma::version2::PeerProperties;
use crate::xdr::{Cursor, XdrError};

use super::advertised_handles::HandleSegments;
use super::borrowed_flow_state::BorrowedFlowState;
use super::by_side::BySide;
use super::chunk::ChunkSegment;
use super::connection_setup::NegotiatedParameters;
use super::count_categories::{EvictedState, UndecodedReason};
use super::frame_kind::FrameContentKind;
use super::packet_meta::DeliveryAnomaly;
use super::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use super::rpcrdma2_message_continuation::PartialRpcMessageTable;
use super::statistics::FlowDecodingStatistics;
use super::transaction::{CallCreditUse, CapturedMessage, DeliveryEvidence, Transaction};
use super::transaction_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};
use super::transaction_table::{TrackedFlowTransaction, TrackedTransactionTable, TransactionTableEntryState};
use super::transport_event::{
    ExaminedPacketCounts, RdmaReadOrWrite, TransportAnomalyKind, UnexpectedRpcMessageReason,
};
use chunk_data::{ChunkDataPacket, record_payload, record_read_request, unknown_memory};
use credits::{RequesterCreditState, Version2SendCredits};
use invalid_memory_access::SuspectedAccesses;
use rdma_read_depth::RdmaReadDepthTracker;
use unexpected_messages::SuspectedUnexpectedMessages;

/// State of the XID of a new Call.
enum NewCallXidMatch {
    /// The Call is a copy of this Transaction's Call.
    Copy(TransactionSlabKey),
    /// The Reply in this Transaction was captured before the Call.
    Reply(TransactionSlabKey),
    /// The XID is reused for another Call. This Transaction's Call was in flight.
    InUse(TransactionSlabKey),
    /// The XID is new, or reused for another Call.
    NoMatch,
}

/// A captured Call, to detect a Reply that was captured in the wrong order.
#[derive(Clone, Copy, Debug)]
struct MisorderedReplyDetectionCall {
    key: TransactionSlabKey,
    frame: FrameNumber,
    time: Timestamp,
}

/// The first frame of a captured Reply, to detect a Call that was captured in the wrong order.
#[derive(Clone, Copy, Debug)]
struct ReplyFirstFrame {
    requester: ConnectionSideAOrB,
    frame: FrameNumber,
    time: Timestamp,
}

/// Number of Calls before which a Reply may have been received that was captured after them.
const MAX_CALLS_BEFORE_REPLY: usize = 4;

/// Nanoseconds by which a Reply may be captured after a Call that followed it.
const MAX_REPLY_SKEW_NS: u64 = 20_000;

/// State of the RPCs of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionRpcState {
    /// `true` if the connection is known to carry RPC-over-RDMA.
    pub(super) is_rpc: bool,
    /// Dialect of the connection, once a message identified it.
    dialect: Option<Dialect>,
    /// Version 2 properties announced by side A and by side B; `None` before the first.
    pub(super) properties: BySide<Option<PeerProperties>>,
    /// Message credits of side A and of side B in version 2.
    pub(super) message_credits: BySide<Version2SendCredits>,
    /// Messages in several Sends that are incomplete.
    pub(super) continuations: PartialRpcMessageTable,
    /// `true` if a snap length cut the chunk lists of a message.
    pub(super) has_cut_lists: bool,
    /// Side that sent the first NFS, MOUNT or NFSACL Call.
    pub(super) nfs_client_side: Option<ConnectionSideAOrB>,
    /// Open and lingering Transactions, by the side that sends the Call and the XID.
    transactions: FxHashMap<(ConnectionSideAOrB, Xid), TransactionSlabKey>,
    /// Advertised memory, by the side that owns it.
    handles: FxHashMap<(ConnectionSideAOrB, Handle), HandleSegments>,
    /// Pairs of Transactions that merged connections held for one Requester and XID: one may have the Call, the other
    /// the Reply.
    pub(super) split_transactions: Vec<(TransactionSlabKey, TransactionSlabKey)>,
    /// Credits for Calls of side A and of side B.
    credits: BySide<RequesterCreditState>,
    /// Number of times that messages were found lost or missing from the capture.
    losses: u64,
    /// Time of the last of them.
    last_loss: Option<Timestamp>,
    /// `true` if a packet was captured after its acknowledgement: the order of the two directions is unknown.
    pub(super) is_misordered: bool,
    /// `true` if the set-up of the connection was captured.
    has_set_up: bool,
    /// Time of the first message, RDMA Read or RDMA Write, if transport events are recorded.
    first_time: Option<Timestamp>,
    /// RDMA Reads and Writes that look invalid, if transport events are recorded.
    suspects: SuspectedAccesses,
    /// RDMA Reads in flight, if transport events are recorded.
    read_depths: RdmaReadDepthTracker,
    /// Messages that look invalid, if transport events are recorded.
    suspected_messages: SuspectedUnexpectedMessages,
    /// Numbers of packets examined, if transport events are recorded.
    checks: Option<Box<ExaminedPacketCounts>>,
    /// The Calls captured last, in a ring.
    last_calls: [Option<MisorderedReplyDetectionCall>; MAX_CALLS_BEFORE_REPLY],
    /// Index of the oldest of them.
    oldest_call: usize,
    /// The Reply captured last.
    last_reply: Option<ReplyFirstFrame>,
    /// End time of the last captured message.
    last_message_time: Option<Timestamp>,
}

impl ConnectionRpcState {
    /// Merges the state of another conversation on the same connection; `is_swapped` if its sides are reversed.
    pub(super) fn merge(&mut self, other: Self, is_swapped: bool) {
        let side = |side: ConnectionSideAOrB| if is_swapped { side.peer() } else { side };
        self.is_rpc |= other.is_rpc;
        self.has_set_up |= other.has_set_up;
        self.first_time = [self.first_time, other.first_time].into_iter().flatten().min();
        self.losses += other.losses;
        self.is_misordered |= other.is_misordered;
        self.last_loss = self.last_loss.max(other.last_loss);
        self.read_depths.merge_limits(&other.read_depths, is_swapped);
        self.has_cut_lists |= other.has_cut_lists;
        self.merge_dialect(other.dialect);
        self.suspected_messages.merge(&other.suspected_messages);
        if let Some(checks) = other.checks {
            self.checks_mut().add(&checks);
        }
        self.continuations.adopt(other.continuations, side);
        for other_side in ConnectionSideAOrB::BOTH {
            let own_side = side(other_side);
            self.properties[own_side] = self.properties[own_side].or(other.properties[other_side]);
            self.message_credits[own_side] =
                self.message_credits[own_side].merge(other.message_credits[other_side]);
        }
        self.nfs_client_side = self.nfs_client_side.or(other.nfs_client_side.map(side));
        self.last_message_time = self.last_message_time.max(other.last_message_time);
        for ((other_side, xid), key) in other.transactions {
            let existing_key = *self.transactions.entry((side(other_side), xid)).or_insert(key);
            if existing_key != key {
                self.split_transactions.push((existing_key, key));
            }
        }
        self.handles.extend(
            other.handles.into_iter().map(|((other_side, handle), uses)| ((side(other_side), handle), uses)),
        );
    }

    pub(super) fn checks(&self) -> ExaminedPacketCounts {
        self.checks.as_deref().copied().unwrap_or_default()
    }

    /// Returns the numbers of packets examined, to count another one. Called only if transport events are recorded.
    pub(super) fn checks_mut(&mut self) -> &mut ExaminedPacketCounts {
        self.checks.get_or_insert_default()
    }

    /// Adopts the set-up of a connection that `client` opened.
    pub(super) fn record_set_up(&mut self, client: ConnectionSideAOrB, parameters: &NegotiatedParameters) {
        self.has_set_up = true;
        self.read_depths.set_limits(client, parameters);
    }

    /// Returns the heap memory of the tables, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.transactions.capacity() * size_of::<((ConnectionSideAOrB, Xid), TransactionSlabKey)>()
            + self.handles.capacity() * size_of::<((ConnectionSideAOrB, Handle), HandleSegments)>()
    }

    /// Returns the keys of open and lingering Transactions.
    pub(super) fn transaction_keys(&self) -> impl Iterator<Item = TransactionSlabKey> + '_ {
        self.transactions.values().copied()
    }

    /// Returns the time of the oldest Call in flight of a side that offers memory to write to.
    pub(super) fn oldest_write_offer(
        &self,
        transaction_table: &TrackedTransactionTable,
        requester: ConnectionSideAOrB,
    ) -> Option<Timestamp> {
        let entries = self.transaction_keys().filter_map(|key| transaction_table.get(key));
        let calls = entries.filter(|entry| entry.is_open() && entry.requester == requester).filter(|entry| {
            !entry.transaction.write_chunks.is_empty() || entry.transaction.reply_chunk.is_some()
        });
        calls.filter_map(|entry| Some(entry.transaction.call.as_ref()?.time)).min()
    }

    /// Returns `true` if a Transaction with this Requester and XID is open or lingering.
    pub(super) fn has_transaction(&self, side: ConnectionSideAOrB, xid: Xid) -> bool {
        self.transactions.contains_key(&(side, xid))
    }

    /// Returns the number of Transactions and of advertised segments.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let uses = self.handles.values().map(HandleSegments::size);
        (self.transactions.len(), uses.sum())
    }

    #[inline(never)]
    pub(super) fn handle_operation(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        operation: RdmaOperation<'_>,
    ) -> FrameContentKind {
        self.handle_operation_inline(context, operation)
    }

    /// Does the same as [`ConnectionRpcState::handle_operation`] where most operations come from, so that they need not
    /// be assembled to be passed.
    #[inline(always)]
    pub(super) fn handle_operation_inline(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        operation: RdmaOperation<'_>,
    ) -> FrameContentKind {
        if context.transaction_table.transport_events.is_enabled() {
            self.first_time.get_or_insert(context.packet_meta.time);
        }
        match operation {
            RdmaOperation::Write { handle, offset, data, attribution: owner } => {
                if owner.0.is_none() {
                    let length = data.length;
                    let range = RdmaMemoryRange { handle, offset, length };
                    *owner = self.find_segment(context.transaction_table, context.sender.peer(), range);
                    if context.transaction_table.transport_events.is_enabled() {
                        if length == 0 {
                            context.record_event(None, TransportAnomalyKind::EmptyWrite);
                        }
                        let access = RdmaReadOrWrite { is_read: false, handle, offset, length };
                        self.check_access(context, *owner, access);
                    }
                }
                let unknown = self.unknown_memory_reason(unknown_memory(false));
                let (kind, remaining_bytes) = record_payload(context, *owner, offset, &data, unknown);
                if remaining_bytes == 0 {
                    return kind;
                }
                let packet = ChunkDataPacket { is_read: false, offset, data };
                self.record_rest(context, packet, owner, (remaining_bytes, kind))
            }
            RdmaOperation::ReadResponse { offset, data, attribution: mut owner } => {
                if context.transaction_table.transport_events.is_enabled() {
                    let range = (offset, data.length);
                    self.read_depths.count_response(context, owner, range);
                }
                let unknown = self.unknown_memory_reason(unknown_memory(true));
                let (kind, remaining_bytes) = record_payload(context, owner, offset, &data, unknown);
                if remaining_bytes == 0 {
                    return kind;
                }
                let packet = ChunkDataPacket { is_read: true, offset, data };
                self.record_rest(context, packet, &mut owner, (remaining_bytes, kind))
            }
            RdmaOperation::ReadRequest { handle, offset, length, attribution: owner } => {
                if owner.0.is_none() {
                    let range = RdmaMemoryRange { handle, offset, length };
                    *owner = self.find_segment(context.transaction_table, context.sender.peer(), range);
                    if context.transaction_table.transport_events.is_enabled() {
                        let access = RdmaReadOrWrite { is_read: true, handle, offset, length };
                        self.check_access(context, *owner, access);
                    }
                }
                if context.transaction_table.transport_events.is_enabled() {
                    self.read_depths.count_request(context, *owner, (offset, length));
                }
                record_read_request(
                    context,
                    *owner,
                    length,
                    self.unknown_memory_reason(UndecodedReason::ReadOfUnknownMemory),
                )
            }
            RdmaOperation::Send { message, attribution: owner } => {
                let kind = self.handle_message(context, &message, owner);
                if context.packet_meta.anomaly.is_none() {
                    self.confirm_accesses(context, false);
                    self.confirm_messages(context);
                }
                kind
            }
            RdmaOperation::SendRetransmission { attribution: owner, ends } => {
                let unknown =
                    if self.has_cut_lists { UndecodedReason::CutHeader } else { UndecodedReason::NotRpcRdma };
                record_retransmission(context, owner, ends, unknown)
            }
            RdmaOperation::ChunkDataRetransmission { attribution: owner } => {
                chunk_data::record_retransmitted_data(context, owner)
            }
        }
    }

    /// Counts a packet that yields no operation, if it is undecoded.
    pub(super) fn handle_no_operation(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        content: FrameContentKind,
    ) -> FrameContentKind {
        if let FrameContentKind::Undecoded(reason) = content {
            // It may have been a message, or data that a rule would miss.
            self.record_loss(context.packet_meta.time);
            context.count_undecoded(reason);
        }
        content
    }

    fn add_call(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        call: CapturedMessage,
        summary: RpcRdmaHeaderSummary,
        cursor: Cursor<'_>,
    ) -> TransactionSlabKey {
        let xid = summary.xid;
        let quiet_ns = self.update_last_message_time(&call);
        let mut is_xid_in_use = false;
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
                is_xid_in_use = self.is_other_call(context, key, &call);
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
        store_call_chunks(&mut transaction, summary, cursor, context.limits.keep_file_data);
        let key = self.open_transaction(context, transaction, reply_key);
        if is_xid_in_use {
            self.suspect_message(context, key, UnexpectedRpcMessageReason::XidInUse);
        }
        key
    }

    /// Updates the time of the last message. Returns the nanoseconds since the message before, if there was one.
    fn update_last_message_time(&mut self, message: &CapturedMessage) -> Option<u64> {
        let end = self.last_message_time.map_or(message.end_time, |last| last.max(message.end_time));
        message.time.nanoseconds_since(self.last_message_time.replace(end)?)
    }

    /// Looks up the XID of a Call, and records the Call if it is a copy.
    fn match_call_xid(
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
            if !context.packet_meta.is_captured_twice() {
                call.copies += 1;
                call.retransmissions += u32::from(!context.packet_meta.is_duplicate());
            }
            let listed_bytes = append_frames(&mut call.frames, &copy.frames, context.stats);
            call.adopt_longer_copy(copy);
            context.transaction_table.apply_size_change(key, 0, listed_bytes);
            return NewCallXidMatch::Copy(key);
        }
        // The XID is reused for another Call, so nothing more is expected for the previous one.
        if entry.state == TransactionTableEntryState::Open {
            context.transaction_table.close(key, *context.packet_meta);
            self.suspected_messages.has_forgotten_calls = true;
            return NewCallXidMatch::InUse(key);
        }
        NewCallXidMatch::NoMatch
    }

    /// Records which side sends Calls of NFS, MOUNT or NFSACL, if this Call is the first of them.
    fn record_caller(&mut self, sender: ConnectionSideAOrB, call: Cursor<'_>) {
        if self.nfs_client_side.is_none()
            && let Some(Program::NFS | Program::MOUNT | Program::NFSACL) = call_program(call)
        {
            self.nfs_client_side = Some(sender);
        }
    }

    /// Adds a new Call, or completes the Transaction in `reply_key` that has only the Reply.
    fn open_transaction(
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
            let (losses, time) = (self.losses, context.packet_meta.time);
            let credits = &mut self.credits[context.sender];
            if in_flight <= 1 {
                credits.losses_when_idle = losses;
            }
            credits.set_in_flight(in_flight, time);
            credits.call_count += 1;
            let (losses_when_idle, granted) = (credits.losses_when_idle, credits.limit());
            let call_number = credits.call_count;
            if let Some(entry) = context.transaction_table.get_mut(key) {
                entry.losses_when_idle = losses_when_idle;
                let may_follow_reply = self.is_after_reply_of_same_time(context.is_in_causal_order, entry);
                entry.transaction.credit_use = CallCreditUse {
                    in_flight,
                    peer_in_flight,
                    call_number,
                    granted,
                    losses,
                    losses_before: losses,
                    may_follow_reply,
                    ..CallCreditUse::default()
                };
            }
            if let Some(slot) = self.last_calls.get_mut(self.oldest_call) {
                *slot =
                    Some(MisorderedReplyDetectionCall { key, frame: context.packet_meta.last_frame(), time });
                self.oldest_call = (self.oldest_call + 1) % MAX_CALLS_BEFORE_REPLY;
            }
        }
        key
    }

    /// Replaces the chunks of a Call by those of its retransmission.
    fn readvertise(
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
    pub(super) fn merge_halves(
        &mut self,
        transaction_table: &mut TrackedTransactionTable,
        one: TransactionSlabKey,
        other: TransactionSlabKey,
    ) {
        let has_call = |key| transaction_table.get(key).is_some_and(|entry| entry.transaction.call.is_some());
        let (call, reply) = if has_call(one) { (one, other) } else { (other, one) };
        if let Some(entry) = transaction_table.merge_halves(call, reply) {
            self.transactions.insert((entry.requester, entry.transaction.xid), call);
        }
    }

    fn add_reply(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        xid: Xid,
        reply: CapturedMessage,
        summary: Option<RpcRdmaHeaderSummary>,
    ) -> TransactionSlabKey {
        let requester = context.sender.peer();
        self.update_last_message_time(&reply);
        let stall = reply.stall;
        let existing = self.transactions.get(&(requester, xid)).copied();
        self.mark_calls_before_reply(context, existing);
        self.last_reply = { reply.frames.first() }.map(|frame| ReplyFirstFrame {
            requester,
            frame: *frame,
            time: reply.time,
        });
        let Some((key, entry)) =
            existing.and_then(|key| Some((key, context.transaction_table.get_mut(key)?)))
        else {
            // The Call was lost, or precedes the capture.
            let suspected_fault = self.fault_of_unknown_reply(context, xid, &reply);
            self.record_loss(context.packet_meta.time);
            self.suspected_messages.record_missing_call(requester);
            let mut transaction = empty_transaction(xid);
            (transaction.credit_use.losses, transaction.credit_use.losses_before) =
                (self.losses, self.losses);
            if let Some(stall) = stall {
                transaction.record_stall(stall);
            }
            transaction.reply = Some(reply);
            let entry =
                TrackedFlowTransaction::new(transaction, context.connection, requester, context.packet_meta);
            let key = context.transaction_table.add(entry);
            self.transactions.insert((requester, xid), key);
            context.transaction_table.close(key, *context.packet_meta);
            if let Some(fault) = suspected_fault {
                self.suspect_message(context, key, fault);
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
        let granted = reply.rpcrdma.and_then(|words| words.calls_in_flight_credits()).unwrap_or(0);
        let call_time = transaction.call.as_ref().map(|call| call.time);
        transaction.has_suspected_access |= call_time.is_some_and(|sent| self.suspects.may_concern(sent));
        // A Call behind a gap of a stream is decoded late: a loss in the other direction may be counted already.
        let is_loss_later = self.last_loss.zip(call_time).is_some_and(|(loss, sent)| loss > sent);
        transaction.credit_use.is_exact = entry.losses_when_idle == self.losses && !is_loss_later;
        transaction.credit_use.losses = self.losses;
        let now = context.packet_meta.time;
        let credits = &mut self.credits[requester];
        if let Some(since) = credits.exhausted_since.take() {
            transaction.credit_use.at_limit_ns = now.nanoseconds_since(since).unwrap_or(0);
        }
        match summary {
            Some(summary) => {
                summary.set_reply(transaction, reply);
                retain_read_results(transaction, context.limits.keep_file_data);
            }
            None => transaction.reply = Some(reply),
        }
        if let Some(stall) = stall {
            transaction.record_stall(stall);
        }
        entry.is_refused = context.packet_meta.is_refused();
        context.transaction_table.close(key, *context.packet_meta);
        credits.record_grant(granted);
        credits.set_in_flight(context.transaction_table.open_on(context.connection, requester), now);
        self.advertise(context.transaction_table, key, PackedChunkSegmentOrdinal::is_reply_segment);
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
        for slot in &mut self.last_calls {
            let Some(MisorderedReplyDetectionCall { key, frame, time }) = *slot else { continue };
            let is_near = packet_meta.last_frame().0 <= frame.0 + 1
                || packet_meta.time.abs_diff_ns(time) <= MAX_REPLY_SKEW_NS;
            if !is_near {
                *slot = None;
            } else if answered_call.is_some_and(|call| call != key)
                && let Some(entry) = context.transaction_table.get_mut(key)
            {
                entry.transaction.credit_use.may_follow_reply = true;
            }
        }
    }

    /// Removes a Transaction that is being emitted.
    pub(super) fn remove_transaction(&mut self, key: TransactionSlabKey, entry: &TrackedFlowTransaction) {
        if entry.is_unanswered() {
            self.suspected_messages.has_forgotten_calls = true;
        }
        if let Entry::Occupied(occupied) = self.transactions.entry((entry.requester, entry.transaction.xid))
            && *occupied.get() == key
        {
            occupied.remove();
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

/// Returns the type of the RPC message at the cursor; `None` if it is neither Call nor Reply.
fn rpc_type(cursor: &Cursor<'_>) -> Result<Option<RpcMessageKind>, XdrError> {
    let mut cursor = *cursor;
    cursor.word()?;
    Ok(match cursor.word()? {
        0 => Some(RpcMessageKind::Call),
        1 => Some(RpcMessageKind::Reply),
        _ => None,
    })
}

/// Returns `true` if a copy of a Call advertises other memory, and the memory advertised before is unused.
fn advertises_other_memory(transaction: &Transaction, copy: &RpcRdmaHeaderSummary) -> bool {
    let existing_chunks = transaction.call_chunks();
    let copied_chunks = copy.read_chunks.iter().chain(&copy.write_chunks).chain(&copy.reply_chunk);
    let memory_range = |segment: &ChunkSegment| (segment.handle, segment.offset, segment.length);
    let is_unused = existing_chunks.clone().all(|chunk| chunk.times.is_none());
    let segments = existing_chunks.flat_map(|chunk| &chunk.segments).map(memory_range);
    is_unused
        && !copy.is_cut
        && !segments.eq(copied_chunks.flat_map(|chunk| &chunk.segments).map(memory_range))
}

fn call_program(mut cursor: Cursor<'_>) -> Option<Program> {
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    message.call().map(|call| call.prog)
}

/// Returns the chunks of a Call, at the cursor, that hold text.
fn link_text_chunks(mut cursor: Cursor<'_>) -> Option<SymlinkTextChunkFlags> {
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let call = message.call()?;
    let procedure = Procedure::from_numbers(call.prog, call.vers, call.proc)?;
    Some(nfs::link_text_chunks(procedure, cursor))
}

/// Stores the chunks of a Call, and retains the payload bytes that will be decoded.
fn store_call_chunks(
    transaction: &mut Transaction,
    summary: RpcRdmaHeaderSummary,
    rpc: Cursor<'_>,
    keep_data: bool,
) {
    let has_items = !summary.write_chunks.is_empty() || !summary.read_chunks.is_empty();
    let text =
        if has_items { link_text_chunks(rpc).unwrap_or_default() } else { SymlinkTextChunkFlags::default() };
    transaction.read_chunks = summary.read_chunks;
    transaction.write_chunks = summary.write_chunks;
    transaction.reply_chunk = summary.reply_chunk;
    let whole_calls = transaction.read_chunks.iter_mut().filter(|chunk| chunk.position == Some(0));
    whole_calls.chain(&mut transaction.reply_chunk).for_each(|chunk| chunk.retain_payload(true));
    if text.call || keep_data {
        transaction.read_chunks.iter_mut().for_each(|chunk| chunk.retain_payload(false));
    }
    if text.reply || keep_data {
        transaction.write_chunks.iter_mut().for_each(|chunk| chunk.retain_payload(false));
    }
}

/// Retains the payload bytes that will be decoded from results that the Requester fetches with RDMA Read.
fn retain_read_results(transaction: &mut Transaction, keep_data: bool) {
    if transaction.reply_read_chunks.is_empty() {
        return;
    }
    let has_text = || {
        let call = transaction.call.as_ref()?;
        Some(link_text_chunks(Cursor::new(call.inline_bytes()).with_length(call.length))?.reply)
    };
    if keep_data || has_text() == Some(true) {
        transaction.reply_read_chunks.iter_mut().for_each(|chunk| chunk.retain_payload(false));
    }
}

fn empty_transaction(xid: Xid) -> Box<Transaction> {
    Box::new(Transaction { xid, ..Transaction::default() })
}

fn inline_message_cursor<'a>(message: &RdmaSendMessage<'a>, summary: &RpcRdmaHeaderSummary) -> Cursor<'a> {
    let mut cursor = Cursor::new(message.bytes).with_length(message.length);
    // Cannot fail, because the header was decoded. Nothing follows a header that was cut.
    let _ = cursor.take(summary.rpc_offset.unwrap_or(usize::MAX).min(message.bytes.len()));
    cursor
}

/// Maximum number of frames listed per message. A receiver that is never ready causes any number of copies.
const MAX_MESSAGE_FRAMES: usize = 4096;

/// Lists the frames of a copy. Returns the additional memory in bytes.
fn append_frames(
    frames: &mut Vec<FrameNumber>,
    copy: &[FrameNumber],
    stats: &mut FlowDecodingStatistics,
) -> usize {
    let capacity_before = frames.capacity();
    if frames.len() < MAX_MESSAGE_FRAMES {
        frames.extend_from_slice(copy);
    } else {
        stats.count_evicted(EvictedState::Copy);
    }
    (frames.capacity() - capacity_before) * size_of::<FrameNumber>()
}

fn message_record(
    message: &RdmaSendMessage<'_>,
    summary: &RpcRdmaHeaderSummary,
    (sends, is_kind_known): (u32, bool),
) -> CapturedMessage {
    CapturedMessage {
        end_time: message.end_time,
        stall: message.stall,
        rpcrdma: Some(summary.words),
        sends,
        gaps: message.gaps.to_vec(),
        invalidated_handle: message.invalidated_handle,
        rpc_offset: summary.rpc_offset,
        is_kind_known,
        ..CapturedMessage::plain(
            message.frames.to_vec(),
            message.time,
            message.bytes.to_vec(),
            message.length,
        )
    }
}

/// Records a retransmitted packet of a message; `ends` says that it is the message's last packet, and `unknown` is the
/// reason for a message that was not decoded.
pub(super) fn record_retransmission(
    context: &mut BorrowedFlowState<'_>,
    owner: RdmaAttribution,
    ends: bool,
    unknown: UndecodedReason,
) -> FrameContentKind {
    let Some((key, at)) = TransactionSlabKey::from_attribution(owner) else {
        return context.count_undecoded(unknown);
    };
    let packet_meta = context.packet_meta;
    if at == PackedChunkSegmentOrdinal::PART || at == PackedChunkSegmentOrdinal::CONTROL {
        return FrameContentKind::PartialMessage;
    }
    let Some(entry) = context.transaction_table.get_mut(key) else {
        return context.count_undecoded(UndecodedReason::LateCopy);
    };
    let transaction = &mut entry.transaction;
    let is_call_delivered = transaction.is_call_delivered();
    let (kind, message) = match at {
        PackedChunkSegmentOrdinal::DONE => return FrameContentKind::Done { key },
        PackedChunkSegmentOrdinal::CALL => (RpcMessageKind::Call, &mut transaction.call),
        _ => (RpcMessageKind::Reply, &mut transaction.reply),
    };
    let Some(message) = message else { return FrameContentKind::Retransmission { key, which: kind } };
    let listed_bytes = append_frames(&mut message.frames, packet_meta.frames, context.stats);
    message.copies += u32::from(ends && !packet_meta.is_captured_twice());
    let is_accepted =
        packet_meta.stall().is_some() && !packet_meta.is_duplicate() && !packet_meta.is_refused();
    let is_needed = message.delivery_evidence != DeliveryEvidence::Acknowledged
        && (kind == RpcMessageKind::Reply || !is_call_delivered);
    if ends && is_needed && packet_meta.may_be_accepted() {
        message.delivery_evidence = DeliveryEvidence::AssumedFirst;
    }
    if ends && kind == RpcMessageKind::Reply && !packet_meta.is_duplicate() {
        entry.is_refused = packet_meta.is_refused();
    }
    // In a stream, it delays messages behind it, too: TcpStreamDirection::delay_messages.
    let is_accepted = is_accepted && !matches!(packet_meta.anomaly, Some(DeliveryAnomaly::ClosesGap(_)));
    if let Some(stall) = packet_meta.stall().filter(|_| is_accepted && is_needed) {
        let since = stall.since.max(message.end_time);
        if ends {
            message.end_time = message.end_time.max(packet_meta.accepted_time());
            // The receiver lacked the earlier copies.
            message.delivery_evidence = DeliveryEvidence::Assumed;
        }
        transaction.record_stall(RetransmissionStall { since, ..stall });
        if ends && kind == RpcMessageKind::Reply {
            context.transaction_table.close(key, *packet_meta);
        }
    }
    context.transaction_table.apply_size_change(key, 0, listed_bytes);
    FrameContentKind::Retransmission { key, which: kind }
}
