//! Calls in flight: those whose Reply has not been captured yet.
//!
//! A Transaction is emitted when it is finished, so a Call that a server never answers stays in the flow
//! until the input ends. Live views query it here. The flow has no clock: ages are differences of frame
//! times, and the caller supplies the current time.

use std::borrow::Cow;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;

use super::chunk::Chunk;
use super::count_categories::EvictedState;
use super::flow_state::Flow;
use super::frame_kind::FrameContentKind;
use super::packet_meta::PacketMeta;
use super::rpc_records::PartialCall;
use super::transaction::{CallDirection, Transaction, TransactionConnection};
use super::transaction_slab_key::TransactionSlabKey;

/// Progress of an unanswered Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingTransactionPhase {
    /// A part of the call is still to come, in a TCP stream.
    Call {
        /// Bytes of the call that were captured.
        received_bytes: u64,
        /// Bytes of the whole call; of its fragments so far, if others follow.
        total_bytes: u64,
    },
    /// The Responder fetches the Read chunks of the Call.
    DataIn {
        /// Bytes that RDMA Reads have moved.
        moved_bytes: u64,
        /// Bytes that the Call offers in Read chunks.
        offered_bytes: u64,
    },
    /// The Responder has the whole Call and has sent nothing.
    Server,
    /// The Responder writes into the Write chunks or the Reply chunk.
    DataOut {
        /// Bytes that RDMA Writes have moved.
        moved_bytes: u64,
    },
}

/// A Call without a Reply.
#[derive(Clone, Debug)]
pub struct PendingCall<'f> {
    /// Key of the Transaction in the flow. That of a call of which a part is still to come belongs to no transaction.
    pub key: TransactionSlabKey,
    /// The Transaction so far. Its index is assigned when it is emitted.
    pub transaction: Cow<'f, Transaction>,
    /// Bytes of the call that were captured, and of the whole call, if a part of it is still to come.
    pub partial: Option<(u64, u64)>,
    /// Connection of the Call.
    pub connection: TransactionConnection,
    /// Direction of the Call on the connection.
    pub direction: CallDirection,
    /// Time of the first frame of the Call.
    pub since: Timestamp,
    /// The first frame of the Call.
    pub first_frame: FrameNumber,
    /// Number of times the Call was sent.
    pub copies: u32,
}

impl PendingCall<'_> {
    /// Returns the progress of the Transaction.
    pub fn phase(&self) -> PendingTransactionPhase {
        let moved = |chunks: &mut dyn Iterator<Item = &Chunk>| chunks.map(Chunk::moved_bytes).sum::<u64>();
        if let Some((received_bytes, total_bytes)) = self.partial {
            return PendingTransactionPhase::Call { received_bytes, total_bytes };
        }
        let Transaction { read_chunks, write_chunks, reply_chunk, .. } = &*self.transaction;
        let written_bytes = moved(&mut write_chunks.iter().chain(reply_chunk));
        let read_bytes = moved(&mut read_chunks.iter());
        let offered_bytes = read_chunks.iter().map(Chunk::offered_bytes).sum::<u64>();
        if written_bytes > 0 {
            PendingTransactionPhase::DataOut { moved_bytes: written_bytes }
        } else if read_bytes < offered_bytes {
            PendingTransactionPhase::DataIn { moved_bytes: read_bytes, offered_bytes }
        } else {
            PendingTransactionPhase::Server
        }
    }

    /// Returns a copy of the Transaction with its connection and direction; its index is 0.
    pub fn to_transaction(&self) -> Transaction {
        let mut transaction = self.transaction.clone().into_owned();
        transaction.connection = self.connection;
        transaction.direction = self.direction;
        transaction
    }
}

impl Flow {
    /// Iterates over the Calls without a Reply in the order in which the flow completed them: that of their
    /// last frames. Calls of which only a part was captured so far come last.
    pub fn pending_calls(&self) -> impl Iterator<Item = PendingCall<'_>> {
        self.complete_pending_calls().chain(self.partial_calls())
    }

    /// Iterates over the calls of which a TCP stream has delivered only a part so far.
    pub fn partial_calls(&self) -> impl Iterator<Item = PendingCall<'_>> {
        self.streams.partial_calls().filter_map(|(key, connection, requester, call)| {
            let PartialCall { message, received_bytes, total_bytes } = call;
            let connection = self.connections.get_by_key(connection?)?;
            let (connection, direction) = connection.name_and_direction(requester);
            let xid = message.bytes.first_chunk().map(|xid| Xid(u32::from_be_bytes(*xid)))?;
            let (since, first_frame) = (message.time, message.frames.first().copied().unwrap_or_default());
            Some(PendingCall {
                key,
                transaction: Cow::Owned(Transaction { xid, call: Some(message), ..Transaction::default() }),
                partial: Some((received_bytes, total_bytes)),
                connection,
                direction,
                since,
                first_frame,
                copies: 1,
            })
        })
    }

    fn complete_pending_calls(&self) -> impl Iterator<Item = PendingCall<'_>> {
        self.transaction_table.open_entries().filter_map(|(key, entry)| {
            let call = entry.transaction.call.as_ref()?;
            let (connection, direction) = self.connections.get(entry.connection)?.name_and_direction(entry.requester);
            Some(PendingCall {
                key,
                transaction: Cow::Borrowed(&*entry.transaction),
                partial: None,
                connection,
                direction,
                since: call.time,
                first_frame: call.frames.first().copied().unwrap_or_default(),
                copies: call.copies,
            })
        })
    }

    /// Sets the connections of the Transactions whose messages the last frame completed, as far as they are
    /// known, for views that show frames before Transactions are emitted.
    #[inline]
    pub(super) fn set_message_connections(&mut self) {
        for content in &self.frame_kinds {
            if let FrameContentKind::Message { key, .. } | FrameContentKind::Retransmission { key, .. } = *content
                && let Some(entry) = self.transaction_table.get_mut(key)
                && let Some(connection) = self.connections.get(entry.connection)
            {
                let name_and_direction = connection.name_and_direction(entry.requester);
                (entry.transaction.connection, entry.transaction.direction) = name_and_direction;
            }
        }
    }

    /// Evicts the oldest open Transactions, but not the newest, while Transactions use too much memory.
    #[cold]
    pub(super) fn evict_calls_over_memory_limit(&mut self, now: Timestamp) {
        while self.transaction_table.must_evict_open()
            && self.transaction_table.open_count() > 1
            && let Some(oldest) = self.transaction_table.oldest_open()
        {
            self.stats.count_evicted(EvictedState::OpenTransaction);
            self.transaction_table.close(oldest, PacketMeta::new(&[], now));
            self.emit_transaction(oldest);
        }
    }

    /// Emits Calls that have waited longer than [`FlowLimits::call_age_ns`](super::FlowLimits::call_age_ns).
    #[inline]
    pub(super) fn emit_expired_calls(&mut self, now: Timestamp) {
        let Some(max_age_ns) = self.limits.call_age_ns else { return };
        while let Some(key) = self.transaction_table.oldest_open() {
            let call_time =
                self.transaction_table.get(key).and_then(|entry| Some(entry.transaction.call.as_ref()?.time));
            // The age is unknown if the clock went back.
            if call_time
                .and_then(|call_time| now.nanoseconds_since(call_time))
                .is_none_or(|age_ns| age_ns <= max_age_ns)
            {
                return;
            }
            self.stats.count_evicted(EvictedState::OldCall);
            self.emit_transaction(key);
        }
    }
}
