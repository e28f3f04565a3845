//! Calls in flight: those whose Reply has not been seen yet.
//!
//! A Transaction is given out when it is over, so a Call that a server never answers stays in the flow until the input ends.
//! Live views ask here instead. The flow has no clock: ages are differences of frame times, and the caller decides what time
//! it is now.

use crate::frame::{FrameNumber, Timestamp};

use super::chunk::Chunk;
use super::transaction::{CallDirection, ConnectionName, Transaction};
use super::{EvictedState, Flow, FrameKind, PacketMeta, TransactionKey};

/// What an unanswered Transaction has come to so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingPhase {
    /// The Responder fetches the Read chunks of the Call.
    DataIn {
        /// Bytes that RDMA Reads have moved.
        moved_bytes: u64,
        /// Bytes that the Call offers.
        offered_bytes: u64,
    },
    /// The Responder has all of the Call and has sent nothing.
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
    /// Its key in the flow.
    pub key: TransactionKey,
    /// The Transaction so far. Its index is not known before it is over.
    pub transaction: &'f Transaction,
    /// The connection it went over.
    pub connection: ConnectionName,
    /// The side that sent the Call, relative to the connection.
    pub direction: CallDirection,
    /// When the first frame of the Call was seen.
    pub since: Timestamp,
    /// The first frame of the Call.
    pub first_frame: FrameNumber,
    /// How often the Call was sent.
    pub copies: u32,
}

impl PendingCall<'_> {
    /// The step that the Transaction has reached.
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

    /// A copy of the Transaction with its connection and direction; its index is 0.
    pub fn to_transaction(&self) -> Transaction {
        let mut transaction = self.transaction.clone();
        transaction.connection = self.connection;
        transaction.direction = self.direction;
        transaction
    }
}

impl Flow {
    /// Calls without a Reply, in the order in which the flow learnt of them: that of their last frames.
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

    /// Names the connections of the Transactions of which the last frame completed messages, as far as they are known yet: views of
    /// frames show them before they are given out.
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

    /// Open Transactions take too much memory: gives up the oldest, but for the newest.
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

    /// Gives out Calls that have waited longer than [`Limits::call_age_ns`](super::FlowLimits::call_age_ns).
    #[inline]
    pub(super) fn give_up_old_calls(&mut self, now: Timestamp) {
        let Some(most_ns) = self.limits.call_age_ns else { return };
        while let Some(key) = self.ledger.oldest_open() {
            let since = self.ledger.get(key).and_then(|entry| Some(entry.transaction.call.as_ref()?.time));
            // Where the clock went back, the age is not known.
            if since.and_then(|since| now.since(since)).is_none_or(|age_ns| age_ns <= most_ns) {
                return;
            }
            self.account.gave_up(EvictedState::OldCall);
            self.release(key);
        }
    }
}
