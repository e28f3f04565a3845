//! What a frame was, told as soon as it is taken.

use crate::iwarp::rdmap::Terminate;
use crate::rpcrdma::MessageType;

use super::chunk::ChunkKind;
use super::statistics::UndecodedReason;
use super::transaction::RpcMessageKind;
use super::transaction_table::TransactionKey;

/// What a frame was, or one of the things that it was: a segment of TCP may complete several messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Nothing that concerns RDMA or RPC.
    Nothing,
    /// It completed a message.
    Message {
        /// The Transaction that the message belongs to.
        key: TransactionKey,
        /// Its Call or its Reply.
        which: RpcMessageKind,
    },
    /// It repeated a message, or a part of one.
    MessageAgain {
        /// The Transaction that the message belongs to.
        key: TransactionKey,
        /// Its Call or its Reply.
        which: RpcMessageKind,
    },
    /// It is an RDMA_DONE: the Requester has fetched what the Reply offered (RFC 5666 section 3.5).
    Done {
        /// The Transaction that it closes.
        key: TransactionKey,
    },
    /// It is a message of RPC-over-RDMA that belongs to no Transaction: properties, or a grant of credits
    /// (draft-ietf-nfsv4-rpcrdma-version-two sections 6.3.2 to 6.3.4).
    TransportMessage(MessageType),
    /// A Send or another RDMA operation without data, for memory that no Call advertised: it keeps a connection alive, returns credits
    /// (draft-talpey-nfsv4-rdma-sess-01 section 2.4) or starts MPA between peers (RFC 6581 section 9).
    Empty,
    /// It holds a part of a message that is not whole yet.
    Part,
    /// It moved bytes of a chunk.
    Data {
        /// The Transaction that advertised the chunk.
        key: TransactionKey,
        /// What the chunk is for.
        kind: ChunkKind,
        /// Which chunk of its kind.
        chunk: usize,
    },
    /// It asked for bytes of a Read chunk.
    ReadRequest {
        /// The Transaction that advertised the chunk.
        key: TransactionKey,
        /// Which Read chunk.
        chunk: usize,
    },
    /// It holds bytes of a stream that belong to a record whose mark was not captured.
    Skipped {
        /// How many.
        bytes: u32,
    },
    /// It acknowledges, or refuses.
    Control,
    /// It sets a connection up or takes it down.
    Management,
    /// It ends a stream of iWARP, and says why.
    Terminate(Terminate),
    /// It should mean something, and does not.
    Undecoded(UndecodedReason),
}
