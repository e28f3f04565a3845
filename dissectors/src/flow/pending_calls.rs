//! Calls in flight: those whose Reply has not been captured yet.
//!
//! A Transaction is emitted when it is finished, so a Call that a server never answers stays in the flow
//! until the input ends. Live views query it here. The flow has no clock: ages are differences of frame
//! times, and the caller supplies the current time.

use crate::frame::{FrameNumber, Timestamp};

use super::chunk::Chunk;
use super::transaction::{CallDirection, ConnectionName, Transaction};
use super::{EvictedState, Flow, FrameKind, PacketMeta, TransactionKey};

/// Progress of an unanswered Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingPhase {
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
#[derive(Clone, Copy, Debug)]
pub struct PendingCall<'f> {
    /// Key of the Transaction in the flow.
    pub key: TransactionKey,
    /// The Transaction so far. Its index is assigned when it is emitted.
    pub transaction: &'f Transaction,
    /// Connection of the Call.
    pub connection: ConnectionName,
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
    pub fn phase(&self) -> PendingPhase {
        let moved = |chunks: &mut dyn Iterator<Item = &Chunk>| chunks.map(Chunk::moved).sum::<u64>();
        let Transaction { read_chunks, write_chunks, reply_chunk, .. } = self.transaction;
        let written = moved(&mut write_chunks.iter().chain(reply_chunk));
        let read = moved(&mut read_chunks.iter());
        let offered = read_chunks.iter().map(Chunk::offered).sum::<u64>();
        if written > 0 {
            PendingPhase::DataOut { moved_bytes: written }
        } else if read < offered {
            PendingPhase::DataIn { moved_bytes: read, offered_bytes: offered }
        } else {
            PendingPhase::Server
        }
    }

    /// Returns a copy of the Transaction with its connection and direction; its index is 0.
    pub fn to_transaction(&self) -> Transaction {
        let mut transaction = self.transaction.clone();
        transaction.connection = self.connection;
        transaction.direction = self.direction;
        transaction
    }
}

impl Flow {
    /// Iterates over the Calls without a Reply in the order in which the flow completed them: that of their
    /// last frames.
    pub fn pending(&self) -> impl Iterator<Item = PendingCall<'_>> {
        self.ledger.open_entries().filter_map(|(key, entry)| {
            let call = entry.transaction.call.as_ref()?;
            let (connection, direction) = self.connections.get(entry.connection)?.place_of(entry.requester);
            Some(PendingCall {
                key,
                transaction: &entry.transaction,
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
    pub(super) fn name_connections(&mut self) {
        for meaning in &self.meanings {
            if let FrameKind::Message { key, .. } | FrameKind::MessageAgain { key, .. } = *meaning
                && let Some(entry) = self.ledger.get_mut(key)
                && let Some(connection) = self.connections.get(entry.connection)
            {
                let place = connection.place_of(entry.requester);
                (entry.transaction.connection, entry.transaction.direction) = place;
            }
        }
    }

    /// Evicts the oldest open Transactions, but not the newest, while Transactions use too much memory.
    #[cold]
    pub(super) fn give_up_heavy_calls(&mut self, now: Timestamp) {
        while self.ledger.is_full()
            && self.ledger.open() > 1
            && let Some(oldest) = self.ledger.oldest_open()
        {
            self.account.gave_up(EvictedState::OpenTransaction);
            self.ledger.close(oldest, PacketMeta::new(&[], now));
            self.release(oldest);
        }
    }

    /// Emits Calls that have waited longer than [`FlowLimits::call_age_ns`](super::FlowLimits::call_age_ns).
    #[inline]
    pub(super) fn give_up_old_calls(&mut self, now: Timestamp) {
        let Some(most_ns) = self.limits.call_age_ns else { return };
        while let Some(key) = self.ledger.oldest_open() {
            let since = self.ledger.get(key).and_then(|entry| Some(entry.transaction.call.as_ref()?.time));
            // The age is unknown if the clock went back.
            if since.and_then(|since| now.since(since)).is_none_or(|age_ns| age_ns <= most_ns) {
                return;
            }
            self.account.gave_up(EvictedState::OldCall);
            self.release(key);
        }
    }
}
