//! What frames did for a Transaction beside those of its messages, which a [`MessageRecord`] lists.
//!
//! [`MessageRecord`]: super::transaction::MessageRecord

use crate::frame::FrameNumber;

use super::chunk::ChunkKind;
use super::transaction_table::TransactionKey;

/// A frame did something for a Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEvent {
    /// The frame; a packet in fragments has a step for each.
    pub frame: FrameNumber,
    /// The Transaction.
    pub key: TransactionKey,
    /// What the frame did.
    pub deed: FrameAction,
}

/// What a frame did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameAction {
    /// It moved bytes of a chunk.
    Moved {
        /// What the chunk is for.
        kind: ChunkKind,
        /// Which chunk of its kind.
        chunk: usize,
    },
    /// It asked for bytes of a Read chunk.
    Asked {
        /// Which Read chunk.
        chunk: usize,
    },
    /// It said that the Requester has fetched what the Reply offered (RDMA_DONE, RFC 5666 section 4.2).
    Done,
}
