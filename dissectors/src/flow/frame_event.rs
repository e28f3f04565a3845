//! Roles of frames in a Transaction, other than frames of its messages, which are listed in [`MessageRecord`].
//!
//! [`MessageRecord`]: super::transaction::MessageRecord

use crate::frame::FrameNumber;

use super::chunk::ChunkKind;
use super::transaction_table::TransactionKey;

/// Role of one frame in a Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEvent {
    /// The frame; a packet in IP fragments has one event per frame.
    pub frame: FrameNumber,
    /// Key of the Transaction.
    pub key: TransactionKey,
    /// Action of the frame.
    pub action: FrameAction,
}

/// Action of a frame for a Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameAction {
    /// Moved bytes of a chunk.
    MovedChunkData {
        /// Kind of the chunk.
        kind: ChunkKind,
        /// Index among the chunks of its kind.
        chunk: usize,
    },
    /// Requested bytes of a Read chunk.
    RequestedRead {
        /// Index of the Read chunk.
        chunk: usize,
    },
    /// Reported that the Requester has fetched the Read chunks of the Reply (RDMA_DONE, RFC 5666 section 3.5).
    Done,
}
