//! Roles of frames in a Transaction, other than frames of its messages, which are listed in [`CapturedMessage`].
//!
//! [`CapturedMessage`]: super::transaction::CapturedMessage

use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::chunk::ChunkKind;
use super::transaction_slab_key::TransactionSlabKey;

/// A frame with its role in a Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionFrame {
    /// The frame; a packet in IP fragments has one entry per frame.
    pub frame: FrameNumber,
    /// Key of the Transaction.
    pub key: TransactionSlabKey,
    /// Role of the frame.
    pub role: FrameRole,
}

/// Role of a frame in a Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameRole {
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
