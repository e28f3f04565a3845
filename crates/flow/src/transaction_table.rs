//! Table of open Transactions, and of closed ones that may still receive copies; they are emitted in the
//! order in which they closed.

use std::collections::VecDeque;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::RpcMessageKind;

use super::by_side::ConnectionSidePair;
use super::chunk::{Chunk, ChunkSegment};
use super::early_packet_buffer::MAX_AGE_NS;
use super::exceptional_transport_events::UnemittedTransportEvents;
use super::limits::FlowLimits;
use super::non_message_frame_role::{FrameRole, TransactionFrame};
use super::packet_meta::PacketMeta;
use super::rpcrdma_control_message::FrameRpcRdmaControlMessages;
use super::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use super::stream::tcp_receiver_loss_reports::{MAX_DUPLICATE_REPORT_DELAY_NS, RetransmissionDelayedMessage};
use super::transaction::{CapturedMessage, DeliveryEvidence, MissingPart, Transaction};
use super::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};
use crate::rdma_operation::{ConnectionSideAOrB, RetransmissionStall};

/// State of a Transaction in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionTableEntryState {
    /// It waits for its Reply.
    Open,
    /// It waits for copies only; the value is the number of its closing.
    Closed(u64),
}

/// Bytes counted for an entry itself and its places in tables and queues.
const ENTRY_BYTES: usize = size_of::<TransactionSlabSlot>() + size_of::<Transaction>() + 256;

/// A Transaction with the internal state of the flow.
#[derive(Debug)]
pub(super) struct TrackedFlowTransaction {
    /// Boxed, because it is large and moves from the table to the queue of finished Transactions and to its user.
    pub(super) transaction: Box<Transaction>,
    pub(super) connection: usize,
    /// Side that sent the Call, or that received the Reply.
    pub(super) requester: ConnectionSideAOrB,
    pub(super) state: TransactionTableEntryState,
    /// Key of the entry that repeats this one on another connection.
    pub(super) repeated_by: Option<TransactionSlabKey>,
    /// Memory counted for the entry, in bytes.
    pub(super) counted_bytes: usize,
    /// `true` if its Reply was acknowledged.
    pub(super) is_reply_acknowledged: bool,
    /// `true` if the last captured copy of its Reply was refused.
    pub(super) is_refused: bool,
    /// `true` if a retransmission in a stream delayed its Reply. The receiver may still report the retransmission as a
    /// duplicate.
    pub(super) is_delayed: bool,
    /// Number of losses of the conversation when no Call was in flight for the last time before the Call.
    pub(super) losses_when_idle: u64,
    /// Number of gaps of the capture in the conversation at that time.
    pub(super) gaps_when_idle: u64,
}

impl TrackedFlowTransaction {
    /// Creates an open entry for a message in this packet.
    pub(super) fn new(
        transaction: Box<Transaction>,
        connection: usize,
        requester: ConnectionSideAOrB,
        packet_meta: &PacketMeta<'_>,
    ) -> Self {
        Self {
            transaction,
            connection,
            requester,
            state: TransactionTableEntryState::Open,
            repeated_by: None,
            counted_bytes: 0,
            is_reply_acknowledged: false,
            is_refused: packet_meta.is_refused(),
            is_delayed: false,
            losses_when_idle: 0,
            gaps_when_idle: 0,
        }
    }

    /// Returns `true` if the Requester acknowledged the Reply: a Call that follows is a new one, even if it is equal.
    /// Datagrams have no acknowledgements.
    pub(super) fn has_delivered_reply(&self) -> bool {
        let reply = self.transaction.reply.as_ref();
        self.is_reply_acknowledged && reply.is_some_and(|reply| reply.delivery_evidence != DeliveryEvidence::Assumed)
    }

    /// Returns `true` if it waits for its Reply.
    pub(super) fn is_open(&self) -> bool {
        self.state == TransactionTableEntryState::Open
    }

    /// Returns the memory in bytes, without the stored content of chunks.
    fn memory_bytes(&self) -> usize {
        ENTRY_BYTES + self.transaction.heap_bytes()
    }

    /// Returns `true` if no Reply was captured.
    pub(super) fn is_unanswered(&self) -> bool {
        self.transaction.reply.is_none()
    }

    /// Returns the first frame of its Call or, without a Call, of its Reply.
    pub(super) fn first_frame(&self) -> Option<FrameNumber> {
        let message = self.transaction.call.as_ref().or(self.transaction.reply.as_ref())?;
        message.frames.first().copied()
    }

    pub(super) fn segment(&mut self, at: PackedChunkSegmentOrdinal) -> Option<(&mut Chunk, usize)> {
        let transaction = &mut *self.transaction;
        let chunks = match at.0 >> 29 {
            0 => &mut transaction.read_chunks[..],
            1 => &mut transaction.write_chunks,
            2 => transaction.reply_chunk.as_mut_slice(),
            PackedChunkSegmentOrdinal::REPLY_READ => &mut transaction.reply_read_chunks,
            _ => return None,
        };
        let chunk = chunks.get_mut(at.chunk())?;
        (at.segment() < chunk.segments.len()).then_some((chunk, at.segment()))
    }

    pub(super) fn segment_at(&self, at: PackedChunkSegmentOrdinal) -> Option<&ChunkSegment> {
        self.chunk_at(at)?.segments.get(at.segment())
    }

    pub(super) fn chunk_at(&self, at: PackedChunkSegmentOrdinal) -> Option<&Chunk> {
        match at.0 >> 29 {
            0 => self.transaction.read_chunks.get(at.chunk()),
            1 => self.transaction.write_chunks.get(at.chunk()),
            2 => self.transaction.reply_chunk.as_ref(),
            PackedChunkSegmentOrdinal::REPLY_READ => self.transaction.reply_read_chunks.get(at.chunk()),
            _ => None,
        }
    }

    /// Returns the side that owns the memory of a segment.
    pub(super) fn memory_side(&self, at: PackedChunkSegmentOrdinal) -> ConnectionSideAOrB {
        if at.is_reply_segment() { self.requester.peer() } else { self.requester }
    }

    /// Iterates over the segments of all chunks with their indexes.
    pub(super) fn segments(&self) -> impl Iterator<Item = (PackedChunkSegmentOrdinal, &ChunkSegment)> {
        fn segments_of_kind(
            kind: u32,
            chunks: &[Chunk],
        ) -> impl Iterator<Item = (PackedChunkSegmentOrdinal, &ChunkSegment)> {
            chunks.iter().enumerate().flat_map(move |(chunk, content)| {
                let segments = content.segments.iter().enumerate();
                segments.map(move |(index, segment)| (PackedChunkSegmentOrdinal::new(kind, chunk, index), segment))
            })
        }
        let transaction = &self.transaction;
        segments_of_kind(0, &transaction.read_chunks)
            .chain(segments_of_kind(1, &transaction.write_chunks))
            .chain(segments_of_kind(2, transaction.reply_chunk.as_slice()))
            .chain(segments_of_kind(PackedChunkSegmentOrdinal::REPLY_READ, &transaction.reply_read_chunks))
    }
}

/// Nanoseconds of frame time that a closed Transaction waits for copies of its messages: longer than usual
/// timeouts of a queue pair.
const LINGER_NS: u64 = 2_000_000_000;

/// Nanoseconds of frame time that a closed Transaction waits for a Reply that was refused: until the last retry of a
/// lost packet.
const REFUSED_LINGER_NS: u64 = super::accepted_packet_inference::MAX_GAP_AGE_NS;

#[derive(Debug)]
struct TransactionSlabSlot {
    key: TransactionSlabKey,
    entry: Option<TrackedFlowTransaction>,
}

/// Record of the closing of an entry.
#[derive(Clone, Copy, Debug)]
struct ClosedTransactionQueueEntry {
    key: TransactionSlabKey,
    /// Number of the closing; only the last closing of an entry is valid.
    number: u64,
    time: Timestamp,
}

/// Numbers of entries of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct ConnectionEntryCounts {
    open: ConnectionSidePair<u32>,
    closed: usize,
}

impl ConnectionEntryCounts {
    fn subtract_open(&mut self, requester: ConnectionSideAOrB) {
        self.open[requester] = self.open[requester].saturating_sub(1);
    }
}

/// All entries, by key and in the order of their closing.
#[derive(Debug)]
pub(super) struct TrackedTransactionTable {
    slots: Vec<TransactionSlabSlot>,
    free: Vec<u32>,
    /// Number of openings so far.
    opening_count: u64,
    /// In order of closing; stale ones remain until they reach the front.
    closing_queue: VecDeque<ClosedTransactionQueueEntry>,
    /// Number of closings so far.
    closing_count: u64,
    /// In order of opening; keys of removed entries remain until they reach the front.
    open_queue: VecDeque<TransactionSlabKey>,
    max_lingering: usize,
    open_count: usize,
    closed_count: usize,
    /// Numbers of entries per connection.
    counts: Vec<ConnectionEntryCounts>,
    /// Memory of all entries in bytes.
    counted_bytes: usize,
    /// Limit of `weight`.
    max_bytes: usize,
    /// Bytes of the pool used by other state.
    pooled_bytes: usize,
    /// Limit of `weight` and `pooled` together.
    max_pool_bytes: usize,
    /// `true` to emit acknowledged Transactions at once.
    emits_on_acknowledgment: bool,
    /// `true` if open entries expire.
    expires_open_entries: bool,
    /// Time in nanoseconds before which nothing is due unless an entry changes.
    nothing_due_until: i64,
    /// Events of Transactions since the last frame, if recorded.
    pub(super) transaction_frames: Vec<TransactionFrame>,
    /// Transport events since the last frame, if recorded.
    pub(super) transport_events: UnemittedTransportEvents,
    /// Transactions closed since the last frame, if transport events are recorded.
    pub(super) newly_closed: Vec<TransactionSlabKey>,
    pub(super) header_only_messages: FrameRpcRdmaControlMessages,
}

/// Minimum number of stale elements in a queue before it is compacted.
const MIN_STALE_ENTRIES: usize = 1024;

impl TrackedTransactionTable {
    /// Creates a table in which at most `lingering_transactions` closed Transactions wait for copies, and none
    /// once the memory is used up; the first to close is emitted first. With `prompt`, those that expect
    /// nothing more do not wait.
    pub(super) fn new(limits: &FlowLimits) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            opening_count: 0,
            closing_queue: VecDeque::new(),
            closing_count: 0,
            open_queue: VecDeque::new(),
            max_lingering: limits.lingering_transactions,
            open_count: 0,
            closed_count: 0,
            counts: Vec::new(),
            counted_bytes: 0,
            max_bytes: limits.message_bytes,
            pooled_bytes: 0,
            max_pool_bytes: limits.pool_bytes,
            emits_on_acknowledgment: limits.emit_on_acknowledgment,
            expires_open_entries: limits.call_age_ns.is_some(),
            nothing_due_until: i64::MIN,
            transaction_frames: Vec::new(),
            header_only_messages: FrameRpcRdmaControlMessages::default(),
            transport_events: UnemittedTransportEvents::new(limits.record_transport_events),
            newly_closed: Vec::new(),
        }
    }

    #[cold]
    pub(super) fn record_event(&mut self, key: TransactionSlabKey, role: FrameRole, packet_meta: PacketMeta<'_>) {
        self.transaction_frames.extend(packet_meta.frames.iter().map(|frame| TransactionFrame {
            frame: *frame,
            key,
            role,
        }));
    }

    /// Returns `true` if an entry changed, or some may be due, since [`TrackedTransactionTable::record_checked`].
    #[inline]
    pub(super) fn needs_check(&self, now: Timestamp) -> bool {
        now.0 >= self.nothing_due_until
    }

    /// Records that nothing more is due now: the next may be the first closed entry at the end of its wait.
    pub(super) fn record_checked(&mut self, now: Timestamp) {
        let first =
            self.closing_queue.front().map_or(i64::MAX, |closing| closing.time.0.saturating_add(LINGER_NS as i64));
        let is_timed = self.emits_on_acknowledgment || self.expires_open_entries;
        self.nothing_due_until = if is_timed { i64::MIN } else { first.max(now.0.saturating_add(1)) };
    }

    /// Sets the bytes of the pool that other state uses.
    #[inline]
    pub(super) fn set_pooled_bytes(&mut self, bytes: usize) {
        self.pooled_bytes = bytes;
    }

    #[inline]
    pub(super) fn is_pool_used_up(&self) -> bool {
        self.counted_bytes.saturating_add(self.pooled_bytes) > self.max_pool_bytes
    }

    /// Returns `true` if Transactions exceed their memory limit or the pool is nearly used up: closed
    /// Transactions are emitted before other state must be dropped.
    #[inline]
    pub(super) fn is_memory_short(&self) -> bool {
        let used = self.counted_bytes.saturating_add(self.pooled_bytes);
        self.counted_bytes > self.max_bytes || used > self.max_pool_bytes - self.max_pool_bytes / 16
    }

    /// Returns `true` if open Transactions alone exceed their limit, or use more of an exhausted pool than all
    /// other state.
    #[inline]
    pub(super) fn must_evict_open(&self) -> bool {
        self.is_memory_short()
            && self.closed_count == 0
            && (self.counted_bytes > self.max_bytes || self.counted_bytes > self.pooled_bytes)
    }

    /// Updates the memory counted for an entry.
    fn update_counted_bytes(&mut self, key: TransactionSlabKey) {
        let Some(entry) = self.get_mut(key) else { return };
        let now = entry.memory_bytes();
        let before = std::mem::replace(&mut entry.counted_bytes, now);
        self.counted_bytes = (self.counted_bytes + now).saturating_sub(before);
    }

    /// Records that the memory of an entry changed from `before` to `after` bytes.
    pub(super) fn apply_size_change(&mut self, key: TransactionSlabKey, before: usize, after: usize) {
        let Some(entry) = self.get_mut(key) else { return };
        entry.counted_bytes = (entry.counted_bytes + after).saturating_sub(before);
        self.counted_bytes = (self.counted_bytes + after).saturating_sub(before);
    }

    pub(super) fn get(&self, key: TransactionSlabKey) -> Option<&TrackedFlowTransaction> {
        let slot = self.slots.get(key.slot())?;
        (slot.key == key).then_some(slot.entry.as_ref()?)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: TransactionSlabKey) -> Option<&mut TrackedFlowTransaction> {
        let slot = self.slots.get_mut(key.slot())?;
        if slot.key == key { slot.entry.as_mut() } else { None }
    }

    /// Returns the number of entries that wait for their Reply.
    pub(super) fn open_count(&self) -> usize {
        self.open_count
    }

    /// Returns the number of Calls of a side that wait for their Reply on a connection.
    pub(super) fn open_on(&self, connection: usize, requester: ConnectionSideAOrB) -> u32 {
        self.counts.get(connection).map_or(0, |counts| counts.open[requester])
    }

    /// Returns the numbers of entries of a connection.
    fn counts_mut(&mut self, connection: usize) -> &mut ConnectionEntryCounts {
        if self.counts.len() <= connection {
            self.counts.resize(connection + 1, ConnectionEntryCounts::default());
        }
        &mut self.counts[connection]
    }

    /// Closes an entry, or changes the number of its closing.
    fn set_closed(&mut self, key: TransactionSlabKey, number: u64) {
        let Some(entry) = self.get_mut(key) else { return };
        let (connection, requester) = (entry.connection, entry.requester);
        let before = std::mem::replace(&mut entry.state, TransactionTableEntryState::Closed(number));
        if before == TransactionTableEntryState::Open {
            self.open_count -= 1;
            self.closed_count += 1;
            let counts = self.counts_mut(connection);
            counts.subtract_open(requester);
            counts.closed += 1;
        }
    }

    pub(super) fn add(&mut self, entry: TrackedFlowTransaction) -> TransactionSlabKey {
        self.nothing_due_until = i64::MIN;
        self.counts_mut(entry.connection).open[entry.requester] += 1;
        self.opening_count += 1;
        let free = self.free.pop().map(|slot| slot as usize);
        let key = TransactionSlabKey::new(self.opening_count, free.unwrap_or(self.slots.len()));
        let filled = TransactionSlabSlot { key, entry: Some(entry) };
        match free {
            Some(slot) => self.slots[slot] = filled,
            None => self.slots.push(filled),
        }
        self.open_queue.push_back(key);
        self.open_count += 1;
        self.update_counted_bytes(key);
        key
    }

    /// Closes an entry. A closed one closes again, later: a late part of its Reply was captured.
    pub(super) fn close(&mut self, key: TransactionSlabKey, packet_meta: PacketMeta<'_>) {
        self.nothing_due_until = i64::MIN;
        self.closing_count += 1;
        let number = self.closing_count;
        self.update_counted_bytes(key);
        if self.get(key).is_none() {
            return;
        }
        self.set_closed(key, number);
        if self.transport_events.is_enabled() {
            self.newly_closed.push(key);
        }
        self.closing_queue.push_back(ClosedTransactionQueueEntry { key, number, time: packet_meta.time });
        if self.closing_queue.len() > 2 * self.closed_count + MIN_STALE_ENTRIES {
            let mut closings = std::mem::take(&mut self.closing_queue);
            closings.retain(|closing| self.is_current(closing));
            self.closing_queue = closings;
        }
        // Stale keys would pile up behind one Transaction that stays open.
        if self.open_queue.len() > 2 * (self.open_count + self.closed_count) + MIN_STALE_ENTRIES {
            let mut opened = std::mem::take(&mut self.open_queue);
            opened.retain(|key| self.get(*key).is_some());
            self.open_queue = opened;
        }
    }

    /// Returns `true` if this was the last closing of an entry that still exists.
    fn is_current(&self, closing: &ClosedTransactionQueueEntry) -> bool {
        self.get(closing.key).is_some_and(|entry| entry.state == TransactionTableEntryState::Closed(closing.number))
    }

    /// Adds the Call of an entry that has only a Reply.
    pub(super) fn add_call(&mut self, key: TransactionSlabKey, with_call: Box<Transaction>) {
        let Some(entry) = self.get_mut(key) else { return };
        let with_reply = std::mem::replace(&mut entry.transaction, with_call);
        entry.transaction.credit_use = with_reply.credit_use;
        if let Some(reply) = with_reply.reply {
            let summary =
                reply.rpcrdma.and_then(|words| RpcRdmaHeaderSummary::decode(words.dialect, &reply.bytes, reply.length));
            match summary {
                Some(summary) => summary.set_reply(&mut entry.transaction, reply),
                None => entry.transaction.reply = Some(reply),
            }
        }
        self.update_counted_bytes(key);
    }

    /// Merges an entry that has only a Call with one that has only its Reply. The result keeps the closing of
    /// the latter.
    pub(super) fn merge_halves(
        &mut self,
        call: TransactionSlabKey,
        reply: TransactionSlabKey,
    ) -> Option<&TrackedFlowTransaction> {
        let is_apart = self.get(call)?.transaction.reply.is_none() && self.get(reply)?.transaction.call.is_none();
        let TransactionTableEntryState::Closed(number) = self.get(reply)?.state else { return None };
        if !is_apart {
            return None;
        }
        let with_reply = self.remove(reply)?.transaction;
        let with_call = std::mem::replace(&mut self.get_mut(call)?.transaction, with_reply);
        self.set_closed(call, number);
        let at = self.closing_queue.partition_point(|closing| closing.number < number);
        if let Some(closing) = self.closing_queue.get_mut(at) {
            closing.key = call;
        }
        self.add_call(call, with_call);
        self.get(call)
    }

    /// Moves entries from connection `from` to connection `to`; `is_swapped`: the sides change names. `keys`
    /// are those that may not be closed.
    pub(super) fn move_to_connection(
        &mut self,
        keys: impl Iterator<Item = TransactionSlabKey>,
        from: usize,
        to: usize,
        is_swapped: bool,
    ) {
        let keys: Vec<TransactionSlabKey> = keys.chain(self.closing_queue.iter().map(|closing| closing.key)).collect();
        for key in keys {
            let Some(entry) = self.get_mut(key).filter(|entry| entry.connection == from) else { continue };
            entry.connection = to;
            let requester_before = entry.requester;
            if is_swapped {
                entry.requester = entry.requester.peer();
            }
            let (requester, is_open) = (entry.requester, entry.is_open());
            if is_open {
                self.counts_mut(from).subtract_open(requester_before);
                self.counts_mut(to).open[requester] += 1;
            } else {
                self.counts_mut(from).closed -= 1;
                self.counts_mut(to).closed += 1;
            }
        }
    }

    /// Iterates over the open entries in the order of their opening.
    pub(super) fn open_entries(&self) -> impl Iterator<Item = (TransactionSlabKey, &TrackedFlowTransaction)> {
        let entries = self.open_queue.iter().filter_map(|key| Some((*key, self.get(*key)?)));
        entries.filter(|(_, entry)| entry.is_open())
    }

    pub(super) fn oldest_open(&mut self) -> Option<TransactionSlabKey> {
        while let Some(key) = self.open_queue.front().copied() {
            match self.get(key) {
                Some(entry) if entry.state == TransactionTableEntryState::Open => return Some(key),
                _ => self.open_queue.pop_front(),
            };
        }
        None
    }

    /// Returns the first closed entry if it is due.
    #[inline]
    pub(super) fn next_due(&mut self, now: Timestamp) -> Option<TransactionSlabKey> {
        while let Some(closing) = self.closing_queue.front() {
            // If the clock went back, the deadline may never come.
            let waited =
                now.abs_diff_ns(closing.time) > LINGER_NS && now.abs_diff_ns(closing.time) > self.linger_ns(closing);
            let may_leave = waited
                || self.closed_count > self.max_lingering
                || self.is_memory_short()
                || (self.emits_on_acknowledgment && self.expects_nothing_more(closing, now));
            if !may_leave {
                return None;
            }
            if self.is_current(closing) {
                return Some(closing.key);
            }
            self.closing_queue.pop_front();
        }
        None
    }

    /// Returns the nanoseconds that a closed entry waits for copies: longer if its Reply was refused, because
    /// it will be retransmitted.
    #[cold]
    fn linger_ns(&self, closing: &ClosedTransactionQueueEntry) -> u64 {
        let is_refused = self.get(closing.key).is_some_and(|entry| entry.is_refused && !entry.is_reply_acknowledged);
        if is_refused { REFUSED_LINGER_NS } else { LINGER_NS }
    }

    /// Returns `true` if a closed entry expects nothing more, or the closing is stale.
    fn expects_nothing_more(&self, closing: &ClosedTransactionQueueEntry, now: Timestamp) -> bool {
        let waited = now.abs_diff_ns(closing.time);
        self.get(closing.key).is_none_or(|entry| {
            entry.state != TransactionTableEntryState::Closed(closing.number)
                || (entry.is_reply_acknowledged
                    && !(entry.is_delayed && waited <= MAX_DUPLICATE_REPORT_DELAY_NS)
                    && is_final(&entry.transaction, waited))
        })
    }

    pub(super) fn record_acknowledgment(&mut self, key: TransactionSlabKey, kind: RpcMessageKind) {
        let Some(entry) = self.get_mut(key) else { return };
        let Transaction { call, reply, .. } = &mut *entry.transaction;
        entry.is_reply_acknowledged |= kind == RpcMessageKind::Reply;
        // An answered Call was received, even if its acknowledgement follows later.
        let reply = reply.iter_mut().filter(|_| kind == RpcMessageKind::Reply);
        call.iter_mut().chain(reply).for_each(CapturedMessage::record_acknowledgment);
    }

    /// Records that the receiver of a message refused it for good.
    #[cold]
    pub(super) fn record_refusal(&mut self, key: TransactionSlabKey, kind: RpcMessageKind) {
        let Some(entry) = self.get_mut(key) else { return };
        let Transaction { call, reply, .. } = &mut *entry.transaction;
        let message = match kind {
            RpcMessageKind::Call => call,
            RpcMessageKind::Reply => reply,
        };
        message.iter_mut().for_each(|message| message.is_refused = true);
    }

    /// Records that bytes of a Transaction lie in an FPDU of a wrong length.
    #[cold]
    pub(super) fn record_misframing(&mut self, key: TransactionSlabKey) {
        if let Some(entry) = self.get_mut(key) {
            entry.transaction.is_misframed = true;
        }
    }

    /// Records that the receiver of a Reply was not ready: the Reply is sent again, or the connection ends.
    #[cold]
    pub(super) fn expect_copy(&mut self, key: TransactionSlabKey) {
        if let Some(entry) = self.get_mut(key) {
            entry.is_refused = true;
        }
    }

    /// Delays the delivery of a message until the time of a retransmission that its receiver needed. Returns the
    /// end of the message before; `None` if it was delivered earlier.
    pub(super) fn delay_delivery(
        &mut self,
        key: TransactionSlabKey,
        kind: RpcMessageKind,
        until: Timestamp,
    ) -> Option<Timestamp> {
        let transaction = &mut self.get_mut(key)?.transaction;
        let is_delivered = transaction.is_call_delivered();
        let message = match kind {
            RpcMessageKind::Call => transaction.call.as_mut().filter(|_| !is_delivered),
            RpcMessageKind::Reply => transaction.reply.as_mut(),
        };
        let message = message
            .filter(|message| message.delivery_evidence == DeliveryEvidence::Assumed && message.end_time < until)?;
        let before = std::mem::replace(&mut message.end_time, until);
        transaction.record_stall(RetransmissionStall { since: before, until });
        if kind == RpcMessageKind::Reply {
            self.close(key, PacketMeta::new(&[], until));
            if let Some(entry) = self.get_mut(key) {
                entry.is_delayed = true;
            }
        }
        Some(before)
    }

    /// Revokes the delay of a message: its receiver had the retransmitted bytes before.
    #[cold]
    pub(super) fn revoke_delay(&mut self, delay: &RetransmissionDelayedMessage) {
        let Some(entry) = self.get_mut(delay.key) else { return };
        let message = match delay.which {
            RpcMessageKind::Call => &mut entry.transaction.call,
            RpcMessageKind::Reply => &mut entry.transaction.reply,
        };
        if let Some(message) = message.as_mut().filter(|message| message.end_time == delay.until) {
            message.end_time = delay.before;
            entry.transaction.revoke_stall(RetransmissionStall { since: delay.before, until: delay.until });
        }
    }

    pub(super) fn first_closed(&mut self) -> Option<TransactionSlabKey> {
        while let Some(closing) = self.closing_queue.front() {
            if self.is_current(closing) {
                return Some(closing.key);
            }
            self.closing_queue.pop_front();
        }
        None
    }

    /// Returns all open entries in the order of their first frames; in the order of their opening if they share
    /// a frame.
    pub(super) fn open_keys_by_first_frame(&self) -> Vec<TransactionSlabKey> {
        let entries = self.open_queue.iter().filter_map(|key| Some((self.get(*key)?.first_frame(), *key)));
        let mut keys: Vec<_> = entries.collect();
        keys.sort_by_key(|(frame, _)| *frame);
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns `true` if a closed entry of this connection is waiting.
    pub(super) fn has_closed_on(&self, connection: usize) -> bool {
        self.counts.get(connection).is_some_and(|counts| counts.closed > 0)
    }

    /// Returns the number of slots or queue elements, whichever is larger.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.slots.len().max(self.open_queue.len()).max(self.closing_queue.len())
    }

    pub(super) fn remove(&mut self, key: TransactionSlabKey) -> Option<TrackedFlowTransaction> {
        let slot = self.slots.get_mut(key.slot())?;
        if slot.key != key {
            return None;
        }
        let entry = slot.entry.take()?;
        self.counted_bytes = self.counted_bytes.saturating_sub(entry.counted_bytes);
        match entry.state {
            TransactionTableEntryState::Open => {
                self.open_count -= 1;
                self.counts_mut(entry.connection).subtract_open(entry.requester);
            }
            TransactionTableEntryState::Closed(_) => {
                self.closed_count -= 1;
                self.counts_mut(entry.connection).closed -= 1;
            }
        }
        self.free.push(key.slot() as u32);
        Some(entry)
    }
}

/// Returns `true` if nothing more is expected for a Transaction whose Reply was acknowledged, `waited` nanoseconds
/// after it closed. Missing parts may have been captured late.
fn is_final(transaction: &Transaction, waited: u64) -> bool {
    let may_come = |missing: &MissingPart| {
        matches!(missing, MissingPart::Message(_) | MissingPart::Chunk(..) | MissingPart::ReplyRead(..))
    };
    let awaits_done = !transaction.reply_read_chunks.is_empty() && !transaction.is_done;
    !awaits_done && (waited > MAX_AGE_NS || !transaction.missing_parts().iter().any(may_come))
}
