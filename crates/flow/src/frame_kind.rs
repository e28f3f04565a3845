//! Classification of a frame, available as soon as it is processed.

use nfsrdma_dissectors::iwarp::rdmap::RdmapTerminate;
use nfsrdma_dissectors::rpc::{RpcMessageKind, Xid};
use nfsrdma_dissectors::rpcrdma::RpcRdmaMessageType;

use super::chunk::ChunkKind;
use super::count_categories::UndecodedReason;
use super::transaction_slab_key::TransactionSlabKey;

/// Classification of a frame or of one of its parts: a TCP segment may complete several messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameContentKind {
    /// Unrelated to RDMA and RPC.
    Unrelated,
    /// The frame completes a message.
    Message {
        /// Transaction that the message belongs to.
        key: TransactionSlabKey,
        /// Call or Reply.
        which: RpcMessageKind,
    },
    /// The frame retransmits a message or a part of one.
    Retransmission {
        /// Transaction that the message belongs to.
        key: TransactionSlabKey,
        /// Call or Reply.
        which: RpcMessageKind,
    },
    /// RDMA_DONE: the Requester has fetched the Read chunks of the Reply (RFC 5666 section 3.5).
    Done {
        /// Transaction that it closes.
        key: TransactionSlabKey,
    },
    /// RPC-over-RDMA message that belongs to no Transaction: properties, or a credit grant
    /// (draft-ietf-nfsv4-rpcrdma-version-two sections 6.3.2 to 6.3.4).
    TransportMessage(RpcRdmaMessageType),
    /// Send without data, or another RDMA operation without data for memory that no Call advertised: a keep-alive, a
    /// return of credits (draft-talpey-nfsv4-rdma-sess-01 section 2.4), or the start of MPA between peers (RFC 6581
    /// section 9).
    EmptyOperation,
    /// Part of an incomplete message.
    PartialMessage,
    /// The frame completes a message behind bytes of the stream that were not captured yet. Its transaction is known
    /// when they are, or are given up.
    EarlyMessage {
        /// XID in the header of the message.
        xid: Xid,
        /// Call or Reply.
        which: RpcMessageKind,
    },
    /// The frame moves bytes of a chunk.
    ChunkData {
        /// Transaction that advertised the chunk.
        key: TransactionSlabKey,
        /// Kind of the chunk.
        kind: ChunkKind,
        /// Index among the chunks of its kind.
        chunk: usize,
    },
    /// The frame requests bytes of a Read chunk.
    ReadRequest {
        /// Transaction that advertised the chunk.
        key: TransactionSlabKey,
        /// Index of the Read chunk.
        chunk: usize,
    },
    /// Bytes of a TCP stream from a record whose record mark was not captured.
    SkippedBytes {
        /// Number of bytes.
        bytes: u32,
    },
    /// Acknowledgement, NAK, congestion notification, or TCP segment without data.
    Control,
    /// Connection set-up or tear-down.
    Management,
    /// Terminate message of an iWARP stream, with the reason.
    Terminate(RdmapTerminate),
    /// The frame belongs to RDMA or RPC but could not be decoded.
    Undecoded(UndecodedReason),
}
