//! What happens on a connection: Replies, errors, Calls of the reverse direction, and its end.

use std::fmt;

use nfsrdma_dissectors::rdma::Handle;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{RpcRdmaError, RpcRdmaHeader};
use nfsrdma_dissectors::xdr::{ChunkItem, Cursor};

use super::{CallTag, ConnectionId, MessageForm};

/// What happened next on a connection. What it borrows is given back at the next poll.
#[derive(Debug)]
// A box would allocate for each Reply.
#[allow(clippy::large_enum_variant)]
pub enum TransportEvent<'a> {
    /// A Call has its Reply.
    Reply(TransportReply<'a>),
    /// The server could not read the header of a Call, or could not answer it (RFC 8166 section 4.5). The Call is over.
    RdmaError {
        /// Where.
        connection: ConnectionId,
        /// The XID of the Call.
        xid: Xid,
        /// What its sender knows it by.
        tag: CallTag,
        /// What the server says.
        error: RpcRdmaError,
    },
    /// The server calls. It is to be answered with [`answer`](super::RpcTransport::answer).
    Call(ReverseCall<'a>),
    /// The server grants another number of credits; comes before the Reply that said it.
    Credits {
        /// Where.
        connection: ConnectionId,
        /// What it grants now, as it stood in its message.
        granted: u32,
    },
    /// A message was discarded because it makes no sense. A Call that it may have been for stays in flight.
    Discarded {
        /// Where.
        connection: ConnectionId,
        /// The XID, as far as there was one.
        xid: Option<Xid>,
        /// Why.
        why: DiscardReason,
    },
    /// The connection is gone, and with it the Calls in flight on it.
    Disconnected {
        /// Which.
        connection: ConnectionId,
        /// Why.
        reason: DisconnectReason,
        /// The Calls that will have no Reply, in the order in which they were submitted.
        lost: &'a [CallTag],
    },
}

impl TransportEvent<'_> {
    /// Where it happened.
    pub fn connection(&self) -> ConnectionId {
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
    /// Where it came.
    pub connection: ConnectionId,
    /// The XID.
    pub xid: Xid,
    /// What the sender of the Call knows it by.
    pub tag: CallTag,
    /// The RPC message, without what came by Write chunks; from the Send, the Reply chunk, or the record.
    pub message: &'a [u8],
    /// What came by Write chunks.
    pub payloads: ReplyPayloads<'a>,
    /// How the message travelled.
    pub form: MessageForm,
    /// The RPC-over-RDMA header, with the chunks as the server returned them; `None` on TCP.
    pub header: Option<RpcRdmaHeader<'a>>,
    /// The handle that the server invalidated with this Reply.
    pub invalidated: Option<Handle>,
}

impl TransportReply<'_> {
    /// The beginning of the message, for its decoder, which finds in it what came by Write chunks.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.message).with_chunks(self.payloads.items())
    }
}

/// What came by Write chunks, in their order; an unused or an empty chunk has length 0.
#[derive(Clone, Debug, Default)]
pub enum ReplyPayloads<'a> {
    /// The Call offered no Write chunk.
    #[default]
    None,
    /// It offered one.
    One([ChunkItem<'a>; 1]),
    /// It offered more.
    Many(Vec<ChunkItem<'a>>),
}

impl<'a> ReplyPayloads<'a> {
    /// As the decoder takes them.
    pub fn items(&self) -> &[ChunkItem<'a>] {
        match self {
            Self::None => &[],
            Self::One(item) => item,
            Self::Many(items) => items,
        }
    }
}

/// The contents of Write chunks, in their order.
impl<'a> FromIterator<&'a [u8]> for ReplyPayloads<'a> {
    fn from_iter<T: IntoIterator<Item = &'a [u8]>>(contents: T) -> Self {
        let mut items = contents.into_iter().map(|bytes| ChunkItem {
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
    /// Where it came.
    pub connection: ConnectionId,
    /// The XID; it may be that of a Call in flight the other way.
    pub xid: Xid,
    /// The RPC message.
    pub message: &'a [u8],
}

/// Why a message was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardReason {
    /// Shorter than the shortest header (RFC 8166 section 4.5), or than the shortest RPC message.
    Short,
    /// The RPC-over-RDMA header cannot be read, or has no place in a Reply.
    Header,
    /// No Call in flight has this XID.
    UnknownXid,
    /// The XID of the RPC message is not that of its RPC-over-RDMA header (RFC 8166 section 4.5.2).
    Xid,
    /// The returned chunks are not those that the Call offered: other handles or counts, or more than was offered.
    Chunks,
    /// A Reply chunk is said to hold the message, and none was offered.
    NoReplyChunk,
    /// A Call of the reverse direction where none is taken, beyond the credits that were granted, or with chunks, of which
    /// the server is told by ERR_CHUNK (RFC 8167 section 5.3).
    ReverseCall,
}

impl DiscardReason {
    /// Whether no server that keeps to the protocol sends such a message. A late Reply is none.
    pub fn is_violation(self) -> bool {
        match self {
            Self::Short | Self::Header | Self::Xid | Self::Chunks | Self::NoReplyChunk => true,
            Self::UnknownXid | Self::ReverseCall => false,
        }
    }
}

impl fmt::Display for DiscardReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "too short for a message",
            Self::Header => "its RPC-over-RDMA header cannot be read",
            Self::UnknownXid => "no Call in flight has its XID",
            Self::Xid => "header and RPC message have different XIDs",
            Self::Chunks => "its chunks are not those that the Call offered",
            Self::NoReplyChunk => "RDMA_NOMSG without a Reply chunk",
            Self::ReverseCall => "a Call of the reverse direction that is not taken",
        })
    }
}

/// What a port speaks that is no RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignProtocol {
    /// RFC 4253 section 4.2.
    Ssh,
    /// RFC 9112 section 4.
    Http,
    /// RFC 8446 section 5.1: an alert or a handshake.
    Tls,
}

impl ForeignProtocol {
    /// What a stream is that begins so.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b'S', b'S', b'H', b'-', ..] => Some(Self::Ssh),
            [b'H', b'T', b'T', b'P', ..] => Some(Self::Http),
            [0x15 | 0x16, 3, 0..=4, ..] => Some(Self::Tls),
            _ => None,
        }
    }
}

impl fmt::Display for ForeignProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssh => "SSH",
            Self::Http => "HTTP",
            Self::Tls => "TLS",
        })
    }
}

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// This side closed it.
    Asked,
    /// The server closed it in order.
    Closed,
    /// The server, or something between, broke it off.
    Reset,
    /// The server did not acknowledge any more.
    Unreachable,
    /// The server had no receive buffer posted, more often than is borne (RNR retries exceeded).
    NoReceiver,
    /// An access to a chunk was refused: a handle that is not valid, an access beyond its end (RFC 8166 section 4.5.3).
    RemoteAccess,
    /// A Send was longer than the buffer that waited for it.
    Length,
    /// The device of this side refused what this program asked of it: the program's own fault.
    Own,
    /// The device of this side is gone or reset.
    Device,
    /// The server sent what cannot be followed any further, such as a record without end.
    Protocol,
    /// The server announced a record of so many bytes, which are more than a record has. RFC 5531 section 11.
    Record(u32),
    /// What it sent is no RPC, but this.
    Speaks(ForeignProtocol),
}

impl DisconnectReason {
    /// Whether the server broke the protocol, so that nothing that follows can be read.
    pub fn is_violation(self) -> bool {
        matches!(self, Self::Record(_) | Self::Speaks(_))
    }
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Speaks(other) => {
                return write!(
                    f,
                    "this port speaks {other}, and no NFS; check the port (2049 over TCP, 20049 over RDMA)"
                );
            }
            Self::Record(length) => {
                return write!(
                    f,
                    "the server announced a record of {length} bytes, and breaks the protocol (RFC 5531 section 11)"
                );
            }
            Self::Asked => "closed by this side",
            Self::Closed => "closed by the server",
            Self::Reset => "reset by the server or by something between",
            Self::Unreachable => "the server does not acknowledge any more",
            Self::NoReceiver => "the server has no receive buffer posted (RNR)",
            Self::RemoteAccess => "an access to a chunk was refused (remote access error)",
            Self::Length => "a Send was longer than the buffer that waited for it",
            Self::Own => "the local device refused an operation of this program, which is its own fault",
            Self::Device => "the local device is gone",
            Self::Protocol => "the server sent what cannot be followed any further",
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_found_in_the_order_of_the_write_chunks() {
        assert!(ReplyPayloads::from_iter([]).items().is_empty());
        let one = ReplyPayloads::from_iter([&b"abc"[..]]);
        assert_eq!(one.items(), [ChunkItem { position: None, length: 3, bytes: Some(b"abc") }]);
        let many = ReplyPayloads::from_iter([&b"abc"[..], b"", b"de"]);
        assert_eq!(many.items().iter().map(|item| item.length).collect::<Vec<_>>(), [3, 0, 2]);
    }
}
