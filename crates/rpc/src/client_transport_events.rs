//! Events of connections: Replies, errors, Calls of the reverse direction, and disconnects.

use std::fmt;

use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{RpcRdma1Header, RpcRdmaError};
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};

use crate::outgoing_call::{CallTag, RpcMessageWireForm};
use crate::params::RpcClientConnectionId;

/// An event of a connection. Data that it borrows is released by the next poll.
#[derive(Debug)]
// A box would allocate for each Reply.
#[allow(clippy::large_enum_variant)]
pub enum RpcClientTransportEvent<'a> {
    /// A Reply to a Call.
    Reply(TransportReply<'a>),
    /// The server could not decode the header of a Call, or could not answer it (RFC 8166 section 4.5). The Call is
    /// complete.
    RdmaError {
        /// The connection.
        connection: RpcClientConnectionId,
        /// The XID of the Call.
        xid: Xid,
        /// The tag of the Call.
        tag: CallTag,
        /// The error that the server reports.
        error: RpcRdmaError,
    },
    /// A Call from the server, to be answered with [`answer`](super::RpcClientTransport::answer).
    Call(ReverseCall<'a>),
    /// The server grants another number of credits. Precedes the Reply with the grant.
    Credits {
        /// The connection.
        connection: RpcClientConnectionId,
        /// The number of credits, as in the message.
        granted: u32,
    },
    /// A malformed or unexpected message was discarded. A Call that it may have answered stays in flight.
    Discarded {
        /// The connection.
        connection: RpcClientConnectionId,
        /// The XID, if the message has one.
        xid: Option<Xid>,
        /// The reason.
        reason: ReceivedMessageDiscardReason,
    },
    /// The connection is gone, and with it the Calls in flight on it.
    Disconnected {
        /// The connection.
        connection: RpcClientConnectionId,
        /// The reason.
        reason: DisconnectReason,
        /// The Calls that will get no Reply, in the order of submission.
        lost_calls: &'a [CallTag],
    },
}

impl RpcClientTransportEvent<'_> {
    /// Returns the connection of the event.
    pub fn connection(&self) -> RpcClientConnectionId {
        match self {
            Self::Reply(reply) => reply.connection,
            Self::Call(call) => call.connection,
            Self::RdmaError { connection, .. }
            | Self::Credits { connection, .. }
            | Self::Discarded { connection, .. }
            | Self::Disconnected { connection, .. } => *connection,
        }
    }
}

/// The Reply of a Call.
#[derive(Clone, Debug)]
pub struct TransportReply<'a> {
    /// The connection.
    pub connection: RpcClientConnectionId,
    /// The XID.
    pub xid: Xid,
    /// The tag of the Call.
    pub tag: CallTag,
    /// The RPC message without the contents of Write chunks, from the Send, the Reply chunk, or the record.
    pub message: &'a [u8],
    /// The contents of Write chunks.
    pub payloads: ReplyWriteChunkReceivedData<'a>,
    /// The form of the message.
    pub form: RpcMessageWireForm,
    /// The RPC-over-RDMA header, with the chunks as the server returned them; `None` on TCP.
    pub header: Option<RpcRdma1Header<'a>>,
    /// The handle that the server invalidated with this Reply.
    pub invalidated: Option<Handle>,
}

impl TransportReply<'_> {
    /// Returns a cursor at the beginning of the message, which also supplies the contents of Write chunks to the
    /// decoder.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.message).with_chunks(self.payloads.items())
    }
}

/// The contents of Write chunks, in order; an unused or empty chunk has length 0.
#[derive(Clone, Debug, Default)]
pub enum ReplyWriteChunkReceivedData<'a> {
    /// The Call offered no Write chunk.
    #[default]
    None,
    /// The Call offered one.
    One([ChunkedDataItem<'a>; 1]),
    /// The Call offered more than one.
    Many(Vec<ChunkedDataItem<'a>>),
}

impl<'a> ReplyWriteChunkReceivedData<'a> {
    /// Returns the contents in the form that the decoder takes.
    pub fn items(&self) -> &[ChunkedDataItem<'a>] {
        match self {
            Self::None => &[],
            Self::One(item) => item,
            Self::Many(items) => items,
        }
    }
}

/// Collects the contents of Write chunks, in order.
impl<'a> FromIterator<&'a [u8]> for ReplyWriteChunkReceivedData<'a> {
    fn from_iter<T: IntoIterator<Item = &'a [u8]>>(contents: T) -> Self {
        let mut items = contents.into_iter().map(|bytes| ChunkedDataItem {
            position: None,
            length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            bytes: Some(bytes),
        });
        match (items.next(), items.next()) {
            (None, _) => Self::None,
            (Some(item), None) => Self::One([item]),
            (Some(first), Some(second)) => Self::Many([first, second].into_iter().chain(items).collect()),
        }
    }
}

/// A Call of the reverse direction (RFC 8167; on TCP RFC 8881 section 2.10.3.1).
#[derive(Debug)]
pub struct ReverseCall<'a> {
    /// The connection.
    pub connection: RpcClientConnectionId,
    /// The XID; a Call in flight in the forward direction may have the same one.
    pub xid: Xid,
    /// The RPC message.
    pub message: &'a [u8],
}

/// The reason that a message was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum ReceivedMessageDiscardReason {
    /// Shorter than the minimum header (RFC 8166 section 4.5), or than the minimum RPC message.
    #[error("too short for a message")]
    Short,
    /// The transport header cannot be decoded, or is not valid in a Reply.
    #[error("its RPC-over-RDMA header cannot be read")]
    Header,
    /// No Call in flight has this XID.
    #[error("no call in flight has its XID")]
    UnknownXid,
    /// The XID of the RPC message differs from that of its transport header (RFC 8166 section 4.5.2).
    #[error("header and RPC message have different XIDs")]
    Xid,
    /// The returned chunks do not match the offered ones: other handles or counts, or longer segments.
    #[error("its chunks are not those that the call offered")]
    Chunks,
    /// The header says that a Reply chunk holds the message, but none was offered.
    #[error("RDMA_NOMSG without a Reply chunk")]
    NoReplyChunk,
    /// A Call of the reverse direction that is not accepted: there is no support, the granted credits are exceeded, or
    /// it has chunks, for which the server gets ERR_CHUNK (RFC 8167 section 5.3).
    #[error("a call of the reverse direction, which is not accepted")]
    ReverseCall,
}

impl ReceivedMessageDiscardReason {
    /// Returns `true` if a server that complies with the protocol never sends such a message. A late Reply is no
    /// violation.
    pub fn is_violation(self) -> bool {
        match self {
            Self::Short | Self::Header | Self::Xid | Self::Chunks | Self::NoReplyChunk => true,
            Self::UnknownXid | Self::ReverseCall => false,
        }
    }
}

/// The protocol of a port that does not speak RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonRpcServerProtocol {
    /// SSH: RFC 4253 section 4.2.
    Ssh,
    /// HTTP: RFC 9112 section 4.
    Http,
    /// TLS: RFC 8446 section 5.1, an alert or a handshake.
    Tls,
}

impl NonRpcServerProtocol {
    /// Returns the protocol of a stream that begins with `bytes`, if it is a known one.
    pub(super) fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b'S', b'S', b'H', b'-', ..] => Some(Self::Ssh),
            [b'H', b'T', b'T', b'P', ..] => Some(Self::Http),
            [0x15 | 0x16, 3, 0..=4, ..] => Some(Self::Tls),
            _ => None,
        }
    }
}

impl fmt::Display for NonRpcServerProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssh => "SSH",
            Self::Http => "HTTP",
            Self::Tls => "TLS",
        })
    }
}

/// The reason that a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// This side closed it.
    #[error("closed by this side")]
    LocalClose,
    /// The server closed it in an orderly way.
    #[error("closed by the server")]
    Closed,
    /// The server, or a device in between, reset it.
    #[error("reset by the server or by a device in between")]
    Reset,
    /// The server no longer acknowledged.
    #[error("the server no longer acknowledges packets")]
    Unreachable,
    /// The server had no receive buffer posted for too long (RNR retries exceeded).
    #[error("the server has no receive buffer posted (RNR)")]
    NoReceiver,
    /// An access to a chunk was refused: an invalid handle, or an access beyond its end (RFC 8166 section 4.5.3).
    #[error("an access to a chunk was refused (remote access error)")]
    RemoteAccess,
    /// A Send was longer than the posted receive buffer.
    #[error("a Send was longer than the receive buffer posted for it")]
    Length,
    /// The local device rejected an operation of this program: the program's own fault.
    #[error("the local device refused an invalid operation of this program")]
    LocalFault,
    /// The local device is gone or was reset.
    #[error("the local device is gone")]
    Device,
    /// The server sent data that cannot be decoded any further, such as a record without end.
    #[error("the server sent a message that cannot be processed")]
    Protocol,
    /// The server announced a fragment of this length in bytes, which exceeds the maximum of a record. RFC 5531 section
    /// 11.
    #[error("the server sent a record mark of {0} bytes: it breaks the protocol (RFC 5531 section 11)")]
    Record(u32),
    /// The port speaks this protocol instead of RPC.
    #[error("this port speaks {0}, not NFS; check the port (2049 over TCP, 20049 over RDMA)")]
    NonRpcProtocol(NonRpcServerProtocol),
}

impl DisconnectReason {
    /// Returns `true` if the server violated the protocol, so that the rest of the stream cannot be decoded.
    pub fn is_violation(self) -> bool {
        matches!(self, Self::Record(_) | Self::NonRpcProtocol(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_found_in_the_order_of_the_write_chunks() {
        assert!(ReplyWriteChunkReceivedData::from_iter([]).items().is_empty());
        let one = ReplyWriteChunkReceivedData::from_iter([&b"abc"[..]]);
        assert_eq!(one.items(), [ChunkedDataItem { position: None, length: 3, bytes: Some(b"abc") }]);
        let many = ReplyWriteChunkReceivedData::from_iter([&b"abc"[..], b"", b"de"]);
        assert_eq!(many.items().iter().map(|item| item.length).collect::<Vec<_>>(), [3, 0, 2]);
    }
}
