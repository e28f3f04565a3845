//! The output of a flow: one RPC with its Call and Reply, the chunks that the Call advertised, and the data
//! that RDMA moved through them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::chunk::{Chunk, ChunkKind, ChunkSegment};
use super::connection_setup::NegotiatedParameters;
use crate::rdma_operation::ConnectionSideAOrB;
pub use crate::rdma_operation::RetransmissionStall;
use crate::rpc_transaction_matching::credits::CreditsInUse;
use nfsrdma_dissectors::address::{Address, VirtualNetwork};
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::memory_handle::Handle;
pub use nfsrdma_dissectors::rpc::RpcMessageKind;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{self, AnyDialectHeader, Dialect, RdmaProc, RpcRdmaMessageType, RpcTransferMode};
use nfsrdma_dissectors::xdr::{Cursor, RdmaMsgpPadding, XdrError};

/// Transport of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConnectionTransport {
    /// RDMA over UDP. Also the default, of a Transaction whose connection is not filled in.
    #[default]
    RoceV2,
    /// RDMA over Ethernet.
    RoceV1,
    /// RDMA over InfiniBand.
    InfiniBand,
    /// RDMA over TCP.
    Iwarp,
    /// RPC in records over TCP, without RDMA.
    Tcp,
    /// RPC in UDP datagrams, without RDMA.
    Udp,
}

impl ConnectionTransport {
    /// All transports.
    pub const ALL: [Self; 6] = [Self::RoceV2, Self::RoceV1, Self::InfiniBand, Self::Iwarp, Self::Tcp, Self::Udp];

    /// Returns `true` if the transport is RDMA.
    pub fn is_rdma(self) -> bool {
        !matches!(self, Self::Tcp | Self::Udp)
    }

    /// Returns `true` if the endpoints are ports, not queue pairs.
    pub fn has_ports(self) -> bool {
        matches!(self, Self::Iwarp | Self::Tcp | Self::Udp)
    }
}

impl fmt::Display for ConnectionTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::RoceV2 => "rocev2",
            Self::RoceV1 => "rocev1",
            Self::InfiniBand => "infiniband",
            Self::Iwarp => "iwarp",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// One end of a connection: an address, and its port or queue pair, if known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Address of the endpoint.
    pub address: Address,
    /// UDP or TCP port, or queue pair number.
    pub port: Option<u32>,
}

/// Identity of a connection in its Transactions; the default is a placeholder until a Transaction is emitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionConnection {
    /// Number from 1, in the order of the first RPC message of each connection.
    pub number: u64,
    /// Transport of the connection.
    pub transport: ConnectionTransport,
    /// Side that opened the connection; if the set-up was not captured, the side that sends NFS, MOUNT or
    /// NFSACL Calls.
    pub client: Endpoint,
    /// The other side.
    pub server: Endpoint,
    /// Virtual network of the connection.
    pub tenant: VirtualNetwork,
}

/// Direction of a Call on its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallDirection {
    /// The Call comes from the client of the connection.
    #[default]
    Forward,
    /// The Call comes from the server of the connection: a callback (RFC 8167).
    Reverse,
}

/// Role of an endpoint on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointRole {
    /// The side that opened the connection; see [`TransactionConnection::client`].
    Client,
    /// The other side.
    Server,
}

impl EndpointRole {
    pub(super) fn from_sides(side: ConnectionSideAOrB, client: ConnectionSideAOrB) -> Self {
        if side == client { Self::Client } else { Self::Server }
    }

    /// Returns the name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// Returns the opposite role.
    pub fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl fmt::Display for EndpointRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Header words of RPC-over-RDMA that every version has (RFC 8166 section 4.2), with their interpretation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcRdmaHeaderWords {
    /// Dialect in which the header was decoded.
    pub dialect: Dialect,
    /// `rdma_proc`, or `rdma_htype` of version 2.
    pub message_type: RpcRdmaMessageType,
    /// Transfer of the RPC message: inline, in a chunk, or none.
    pub transfer_mode: RpcTransferMode,
    /// `rdma_vers`.
    pub version: u32,
    /// `rdma_credit`; 0 in the prototype, which has none.
    pub credits: u32,
}

impl RpcRdmaHeaderWords {
    /// Length in bytes of these words in a header of version 1 or 2.
    pub(super) const LENGTH: usize = 16;

    /// Creates the words of a header of version 1.
    pub fn version1(proc: RdmaProc, credits: u32) -> Self {
        let message_type = RpcRdmaMessageType::Version1(proc);
        Self {
            dialect: Dialect::Rfc8166,
            message_type,
            transfer_mode: message_type.transfer_mode(rpcrdma::VERSION, false),
            version: rpcrdma::VERSION,
            credits,
        }
    }

    /// Returns `rdma_credit` as the number of Calls that may be in flight, its meaning in version 1 (RFC 8166
    /// section 3.3.1). Version 2 counts all messages since the connection began, and the prototype has no
    /// credits.
    pub fn calls_in_flight_credits(&self) -> Option<u32> {
        self.dialect.is_version1().then_some(self.credits)
    }

    /// Returns `rdma_credit` if the header has one.
    pub fn credit_word(&self) -> Option<u32> {
        (self.dialect != Dialect::Prototype).then_some(self.credits)
    }
}

/// Completeness of the chunk lists of a message (RFC 8166 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkListCompleteness {
    /// All lists were decoded: absent ones are empty.
    Complete,
    /// The capture ends within the lists: more may follow.
    Cut,
    /// No list was decoded: the header has an unknown version or procedure.
    Undecodable,
}

impl ChunkListCompleteness {
    /// Returns the name of the state in output.
    pub fn key(self) -> &'static str {
        match self {
            Self::Complete => "whole",
            Self::Cut => "cut",
            Self::Undecodable => "unread",
        }
    }
}

/// Number of leading bytes that must be equal in two copies of a message if one was truncated: a Call up to
/// its procedure (RFC 5531 section 9).
const MIN_COMMON_BYTES: usize = 24;

/// Evidence for the copy of a message that its receiver accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeliveryEvidence {
    /// An acknowledgement of the transport covers it: an ACK or a NAK of InfiniBand (volume 1, section 9.7.5),
    /// or the acknowledgement number of TCP (RFC 9293 section 3.4). For a Call, the acknowledgement of its
    /// Reply is enough.
    Acknowledged,
    /// No acknowledgement that covers it was captured.
    #[default]
    Assumed,
    /// Its sender repeated it after an ACK timeout. An acknowledgement that follows covers both copies: the first was
    /// lost, or its acknowledgement.
    AssumedFirst,
}

impl fmt::Display for DeliveryEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Acknowledged => "acknowledged",
            Self::Assumed | Self::AssumedFirst => "assumed",
        })
    }
}

/// A captured Call or Reply.
#[derive(Clone, Debug)]
pub struct CapturedMessage {
    /// All frames that carried bytes of it, copies included.
    pub frames: Vec<FrameNumber>,
    /// Time of the first frame of its first copy.
    pub time: Timestamp,
    /// Time of the last frame of the copy that its receiver accepted; of the first complete copy if that is
    /// unknown.
    pub end_time: Timestamp,
    /// Evidence that this copy was accepted.
    pub delivery_evidence: DeliveryEvidence,
    /// Number of times it was sent, by RPC or by the transport; duplicates made by the capture do not count.
    pub copies: u32,
    /// Number of times RPC sent it again: with another PSN, at another stream position, or in another datagram.
    pub retransmissions: u32,
    /// Time lost to retransmissions of its packets.
    pub stall: Option<RetransmissionStall>,
    /// RPC-over-RDMA header, of the last Send if there were several; `None` on other transports.
    pub rpcrdma: Option<RpcRdmaHeaderWords>,
    /// Number of Sends that carried it: more than one with message continuation
    /// (draft-ietf-nfsv4-rpcrdma-version-two section 6.6.2). `bytes` has only the header of the last Send.
    pub sends: u32,
    /// Captured bytes of the message, from its RPC-over-RDMA header on.
    pub bytes: Vec<u8>,
    /// Length on the wire; if the last packets are missing, the known minimum.
    pub length: usize,
    /// For a message of several packets: ranges that were not captured. The first follows `bytes`.
    pub gaps: Vec<Range<u64>>,
    /// Handle that the Send, the last if there were several, invalidated at its receiver (RFC 8797 section 4.1).
    pub invalidated_handle: Option<Handle>,
    /// Offset of the RPC message in `bytes`; `None` if the capture ends within the RPC-over-RDMA header.
    pub rpc_offset: Option<usize>,
    /// `false` if the message counts as a Call, or as a Reply, only because the Transaction has no other message: its
    /// header and the captured start of its RPC message permit both.
    pub is_kind_known: bool,
    /// `true` if its receiver refused it for good: with a NAK that ends the connection, or with RNR NAKs until the
    /// connection ended (InfiniBand Architecture Specification volume 1, section 9.7.5.2.8); with a Terminate (RFC 5040
    /// section 4.8); or with RDMA_ERROR, if it is a Reply.
    pub is_refused: bool,
}

impl CapturedMessage {
    /// Creates a message that was sent once, without an RPC-over-RDMA header.
    pub(super) fn plain(frames: Vec<FrameNumber>, time: Timestamp, bytes: Vec<u8>, length: usize) -> Self {
        Self {
            frames,
            time,
            end_time: time,
            delivery_evidence: DeliveryEvidence::Assumed,
            copies: 1,
            retransmissions: 0,
            stall: None,
            rpcrdma: None,
            sends: 1,
            bytes,
            length,
            gaps: Vec::new(),
            invalidated_handle: None,
            rpc_offset: Some(0),
            is_kind_known: true,
            is_refused: false,
        }
    }

    pub(super) fn record_acknowledgment(&mut self) {
        if self.delivery_evidence == DeliveryEvidence::Assumed {
            self.delivery_evidence = DeliveryEvidence::Acknowledged;
        }
    }

    /// Returns the captured bytes of the inline part of the RPC message.
    pub fn inline_bytes(&self) -> &[u8] {
        self.rpc_offset.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    /// Returns the length on the wire of the inline part of the RPC message; `None` if its start is unknown.
    pub fn inline_length(&self) -> Option<usize> {
        self.rpc_offset.map(|at| self.length.saturating_sub(at))
    }

    /// Returns `true` if all three chunk lists of an RDMA_MSG are empty: its header has the minimum length of
    /// seven words (RFC 8166 section 4.3).
    pub fn has_no_chunks(&self) -> bool {
        let is_msg = |words: RpcRdmaHeaderWords| words.message_type == RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSG);
        self.rpc_offset == Some(28) && self.rpcrdma.is_some_and(is_msg)
    }

    /// Returns `true` if the header says that the whole RPC message is in a chunk.
    pub fn is_nomsg(&self) -> bool {
        self.rpcrdma.is_some_and(|words| words.transfer_mode == RpcTransferMode::InChunk)
    }

    /// Returns the error of a header with an unknown version, procedure or header type, which hides the RPC message
    /// (RFC 8166 sections 4.2.2 and 4.2.4). Its offset, 0, refers to the RPC message, of which nothing is
    /// decoded.
    #[inline]
    pub fn unknown_header(&self) -> Option<XdrError> {
        self.rpcrdma.filter(|words| words.transfer_mode == RpcTransferMode::Unknown).and_then(Self::unknown_words)
    }

    #[cold]
    fn unknown_words(words: RpcRdmaHeaderWords) -> Option<XdrError> {
        let unknown = |what, number| Some(XdrError::Unknown { at: 0, what, number });
        let expected = match words.message_type {
            RpcRdmaMessageType::Prototype(_) => words.version,
            RpcRdmaMessageType::Version1(_) => rpcrdma::VERSION,
            RpcRdmaMessageType::Version2(_) => rpcrdma::version2::VERSION,
        };
        match words.version {
            version if version != expected => unknown("RPC-over-RDMA version", version),
            _ => match words.message_type {
                RpcRdmaMessageType::Version2(header_type) => unknown("RPC-over-RDMA header type", header_type.0),
                message_type => unknown("RPC-over-RDMA procedure", message_type.number()),
            },
        }
    }

    /// Returns the dialect of the header; `None` on other transports and for an unknown version.
    pub fn dialect(&self) -> Option<Dialect> {
        let words = self.rpcrdma?;
        let is_known = match words.message_type {
            RpcRdmaMessageType::Prototype(_) => true,
            RpcRdmaMessageType::Version1(_) => words.version == rpcrdma::VERSION,
            RpcRdmaMessageType::Version2(_) => words.version == rpcrdma::version2::VERSION,
        };
        is_known.then_some(words.dialect)
    }

    /// Decodes the RPC-over-RDMA header again; `None` if there is none or it is truncated or malformed.
    pub fn header(&self) -> Option<AnyDialectHeader<'_>> {
        let mut cursor = Cursor::new(&self.bytes).with_length(self.length);
        AnyDialectHeader::decode(self.rpcrdma?.dialect, &mut cursor, &mut NullFieldObserver).ok()
    }

    /// Returns the completeness of the chunk lists; `None` without an RPC-over-RDMA header.
    pub fn chunk_lists(&self) -> Option<ChunkListCompleteness> {
        self.rpcrdma?;
        Some(match (self.unknown_header(), self.rpc_offset) {
            (Some(_), _) => ChunkListCompleteness::Undecodable,
            (None, None) => ChunkListCompleteness::Cut,
            (None, Some(_)) => ChunkListCompleteness::Complete,
        })
    }

    /// Returns the alignment of opaque data in the message: RFC 5666 section 3.9.
    pub fn padding(&self) -> RdmaMsgpPadding {
        const PADDED: RpcRdmaMessageType = RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSGP);
        if self.rpcrdma.is_none_or(|words| words.message_type != PADDED) {
            return RdmaMsgpPadding::default();
        }
        self.header().map(|header| header.padding()).unwrap_or_default()
    }

    /// Returns `true` if `copy` is a retransmission of this message, as far as both were captured.
    pub(super) fn is_copy_of(&self, copy: &Self) -> bool {
        let (one, other) = (self.inline_bytes(), copy.inline_bytes());
        let common = one.len().min(other.len());
        let is_cut = self.is_cut() || copy.is_cut();
        one == other
            || (is_cut
                && common >= MIN_COMMON_BYTES
                && self.inline_length() == copy.inline_length()
                && one.get(..common) == other.get(..common))
    }

    fn is_cut(&self) -> bool {
        self.bytes.len() < self.length
    }

    /// Adopts the bytes of a copy of which more was captured. Returns `true` if it did.
    pub(super) fn adopt_longer_copy(&mut self, copy: &Self) -> bool {
        let is_better = self.is_cut() && copy.bytes.len() > self.bytes.len();
        if is_better {
            self.bytes.clone_from(&copy.bytes);
            self.gaps.clone_from(&copy.gaps);
            (self.length, self.rpc_offset, self.end_time) = (copy.length, copy.rpc_offset, copy.end_time);
            self.is_kind_known |= copy.is_kind_known;
            self.delivery_evidence = copy.delivery_evidence;
        }
        is_better
    }

    /// Returns the heap memory in bytes.
    pub(super) fn heap_bytes_of_message(&self) -> usize {
        self.bytes.capacity()
            + self.frames.capacity() * size_of::<FrameNumber>()
            + self.gaps.capacity() * size_of::<Range<u64>>()
    }

    /// Returns `true` if this is an RDMA_ERROR or an RDMA2_ERROR.
    pub fn is_rdma_error(&self) -> bool {
        self.rpcrdma.is_some_and(|words| words.transfer_mode == RpcTransferMode::Error)
    }
}

/// Part without which a Transaction is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingPart {
    /// The whole message.
    Message(RpcMessageKind),
    /// The end of its RPC-over-RDMA header, with chunks and the start of the RPC message, and everything after
    /// it.
    Header(RpcMessageKind),
    /// Bytes of the inline part of the message.
    Bytes(RpcMessageKind, Range<u64>),
    /// Bytes of the n-th chunk of its kind.
    Chunk(ChunkKind, usize, Range<u64>),
    /// Bytes of the n-th Read chunk of the Reply, which the Requester fetches.
    ReplyRead(usize, Range<u64>),
    /// Bytes that were captured but not decoded: the RPC message from this offset on; or a data item at this offset,
    /// with a chunk of another length.
    Undecoded(RpcMessageKind, u64),
    /// Nothing is missing from the message, but its receiver refused it: its sender's part alone was done.
    Refused(RpcMessageKind),
    /// The results of the Call: the Reply has others, or malformed ones.
    WrongResult,
}

/// Why the status in a Reply says nothing about its Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionFault {
    /// Its receiver refused the Reply, or the Call if there is no Reply.
    Refused,
    /// The Reply does not have the results of the Call.
    WrongResult,
}

impl TransactionFault {
    /// Returns the status of the Transaction in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::WrongResult => "wrong result",
        }
    }
}

/// Formats the code: `call`, `call:header`, `reply:176-227`, `read:0:1024-2047`, `replychunk:0-4095`,
/// `replyread:0:0-99`, with first and last byte; `undecoded:call:256-`, `reply:refused`, `reply:wrong-result`.
impl fmt::Display for MissingPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = |kind| match kind {
            RpcMessageKind::Call => "call",
            RpcMessageKind::Reply => "reply",
        };
        let bytes = |range: &Range<u64>| format!("{}-{}", range.start, range.end.saturating_sub(1));
        match self {
            Self::Message(kind) => f.write_str(message(*kind)),
            Self::Header(kind) => write!(f, "{}:header", message(*kind)),
            Self::Bytes(kind, range) => write!(f, "{}:{}", message(*kind), bytes(range)),
            Self::Chunk(ChunkKind::Read, index, range) => write!(f, "read:{index}:{}", bytes(range)),
            Self::Chunk(ChunkKind::Write, index, range) => write!(f, "write:{index}:{}", bytes(range)),
            Self::Chunk(ChunkKind::Reply, _, range) => write!(f, "replychunk:{}", bytes(range)),
            Self::ReplyRead(index, range) => write!(f, "replyread:{index}:{}", bytes(range)),
            Self::Undecoded(kind, at) => write!(f, "undecoded:{}:{at}-", message(*kind)),
            Self::Refused(kind) => write!(f, "{}:refused", message(*kind)),
            Self::WrongResult => f.write_str("reply:wrong-result"),
        }
    }
}

/// Durations of the phases of a Transaction in nanoseconds; their sum is its latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionPhases {
    /// First to last frame of the Call.
    pub call_ns: u64,
    /// First RDMA Read request to last Read response.
    pub data_in_ns: u64,
    /// Time in no other phase: the server at work, and the network.
    pub server_ns: u64,
    /// First to last RDMA Write.
    pub data_out_ns: u64,
    /// First to last frame of the Reply.
    pub reply_ns: u64,
    /// Time lost to retransmissions of lost or refused packets: an ACK timeout, a receiver that was not ready,
    /// go-back-N, or a TCP retransmission. It is in no other phase.
    pub recovery_ns: u64,
}

impl TransactionPhases {
    /// Returns the phases with their names in output, in the order in which they follow each other without
    /// loss.
    pub fn named_durations(&self) -> [(&'static str, u64); 6] {
        [
            ("call", self.call_ns),
            ("data_in", self.data_in_ns),
            ("server", self.server_ns),
            ("data_out", self.data_out_ns),
            ("reply", self.reply_ns),
            ("recovery", self.recovery_ns),
        ]
    }
}

/// Evidence that the phase `server` may include loss recovery: packets of the answer may have been sent before, and lost
/// before the capture point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PossibleRecovery {
    /// The Requester refused packets of the Responder, with a NAK, that were not captured.
    Nak,
    /// The phase lasted for the ACK timeout of the connection or longer, after which packets are sent again.
    AckTimeout {
        /// The ACK timeout in nanoseconds.
        ns: u64,
    },
    /// The phase lasted for the smallest ACK timeout in use or longer. That of the connection is in its set-up, which
    /// was not captured.
    UnknownAckTimeout,
}

impl PossibleRecovery {
    /// All keys.
    pub const KEYS: [&str; 3] = ["nak", "ack_timeout", "unknown_ack_timeout"];

    /// Returns the key in JSON and filters.
    pub fn key(self) -> &'static str {
        let [nak, ack_timeout, unknown] = Self::KEYS;
        match self {
            Self::Nak => nak,
            Self::AckTimeout { .. } => ack_timeout,
            Self::UnknownAckTimeout => unknown,
        }
    }

    /// Returns the ACK timeout in nanoseconds, if it is the evidence.
    pub fn ack_timeout_ns(self) -> Option<u64> {
        match self {
            Self::AckTimeout { ns } => Some(ns),
            Self::Nak | Self::UnknownAckTimeout => None,
        }
    }
}

/// Smallest ACK timeout in use, in nanoseconds: 4.096 µs × 2^14 = 67 ms (InfiniBand Architecture Specification volume 1,
/// section 9.7.6.1.3).
const MIN_ACK_TIMEOUT_NS: u64 = 4_096 << 14;

/// Maximum number of separate stalls recorded for one Transaction.
const MAX_STALLS: usize = 64;

/// Evidence that a Call was sent before its first captured copy, and that this earlier copy was lost before
/// the capture point. The time since then is in no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncapturedOriginalCallEvidence {
    /// A packet that its sender sent after the Call, by PSN or sequence number, was captured `ns` nanoseconds
    /// before it.
    Certain {
        /// Nanoseconds from that packet to the first captured copy.
        ns: u64,
    },
    /// No message of the connection was captured for an ACK timeout or longer. Nothing distinguishes a lost
    /// copy from an idle client.
    Possible {
        /// Nanoseconds without a message before the first captured copy.
        ns: u64,
    },
}

impl UncapturedOriginalCallEvidence {
    /// Maximum number of ACK timeouts before the last retransmission of a packet: each of seven retries, a
    /// counter of three bits, may wait for four. InfiniBand Architecture Specification volume 1,
    /// sections 9.7.6.1.3 and 9.9.2.1.
    const MAX_ACK_TIMEOUTS: u64 = 7 * 4;

    /// Returns the name of the evidence in output.
    pub fn key(self) -> &'static str {
        match self {
            Self::Certain { .. } => "certain",
            Self::Possible { .. } => "possible",
        }
    }

    /// Returns the nanoseconds of the evidence before the first captured copy.
    pub fn ns(self) -> u64 {
        let (Self::Certain { ns } | Self::Possible { ns }) = self;
        ns
    }
}

/// Credit use of a connection from the start of a Call to its Reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCreditUse {
    /// Calls of the same side in flight on the connection when the Call was captured, including itself; 0 if it
    /// was captured after its Reply. Each uses one credit (RFC 8166 section 3.3.1).
    pub in_flight: u32,
    /// Calls of the other side in flight on the connection when the Call was captured.
    pub peer_in_flight: u32,
    /// Number of the Call among those of its side on the connection, from 1 on; 0 if it was captured after its Reply,
    /// or not at all.
    pub call_number: u64,
    /// Larger of the last two grants before the Call, because a grant may shrink while the Call is under way; `None`
    /// before the first Reply.
    pub granted: Option<u32>,
    /// `true` if a grant was captured before the last time at which no other Call of the side was in flight: each Call
    /// that `in_flight` counts was captured after a known grant.
    pub has_grant_when_idle: bool,
    /// `true` if `in_flight` is certain: no message was lost, or missing from the capture, between the last time at
    /// which no Call was in flight and the Reply; without a Reply, no message is missing from the capture until the end
    /// of the connection, which was captured. Nothing shows that one is missing before the first captured packet of
    /// a side whose set-up was not captured.
    pub is_exact: bool,
    /// `true` if no message is missing from the capture between the last time at which no Call was in flight and the
    /// Reply; without a Reply, until the end of the connection or of the capture. Messages that were sent again are not
    /// missing.
    pub is_gapless: bool,
    /// Number of losses on the connection until the Reply, or until the Call if there is no Reply: messages that were
    /// lost or are missing from the capture, and packets that were sent again.
    pub losses: u64,
    /// Number of losses on the connection until the Call; those until the Reply if the Call is missing.
    pub losses_before: u64,
    /// `true` if a Reply that was captured after the Call may have been received before the Call was sent: it came at
    /// once, as a capture of several queues reorders packets, or a packet of the connection was captured after its
    /// acknowledgement.
    pub may_follow_reply: bool,
    /// `true` if the direction of the Call is known: the side that opened the connection or sends Calls of NFS.
    /// Otherwise, a receiver ignores credits (RFC 8167 section 4.1).
    pub is_direction_known: bool,
    /// Nanoseconds before the Reply during which as many Calls were in flight as the last Reply had granted; 0
    /// if there were fewer, and for Replies after the first.
    pub at_limit_ns: u64,
    /// Credits in use from the last call or reply before the call until the call.
    pub before_call: CreditsInUse,
    /// Credits in use from the last call or reply before the reply until the reply; none for replies after the first.
    pub before_reply: CreditsInUse,
}

impl CallCreditUse {
    /// Returns the least number of Calls in flight, including this one, in spite of reordering by the capture.
    pub fn min_in_flight(&self) -> u32 {
        self.in_flight.saturating_sub(u32::from(self.may_follow_reply && self.in_flight > 1))
    }
}

/// Connections between the hosts of a Transaction besides its own, after the frame that closed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiblingConnectionStatus {
    /// There was none as long as the connection has existed.
    #[default]
    None,
    /// All have ended. This is the last frame of those that ended last.
    Ended(FrameNumber),
    /// At least one did not end.
    Open,
}

/// One RPC.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Index from 1, in the order in which Transactions close.
    pub index: u64,
    /// Connection of the RPC.
    pub connection: TransactionConnection,
    /// Direction of the Call.
    pub direction: CallDirection,
    /// Transaction ID.
    pub xid: Xid,
    /// The Call, if it was captured.
    pub call: Option<CapturedMessage>,
    /// The Reply, if it was captured.
    pub reply: Option<CapturedMessage>,
    /// Read chunks of the Call.
    pub read_chunks: Vec<Chunk>,
    /// Write chunks of the Call.
    pub write_chunks: Vec<Chunk>,
    /// Reply chunk of the Call.
    pub reply_chunk: Option<Chunk>,
    /// Read chunks of the Reply (RFC 5666, Read-Read model).
    pub reply_read_chunks: Vec<Chunk>,
    /// `true` if an RDMA_DONE closed it.
    pub is_done: bool,
    /// `true` for a Call without Reply if the end of its connection was captured: there will be none.
    pub has_connection_ended: bool,
    /// In this case, the number of Calls of the same side without a Reply when the connection ended.
    pub unanswered_at_end: u32,
    /// Other connections between the same hosts; [`SiblingConnectionStatus::None`] unless transport events are
    /// recorded.
    pub siblings: SiblingConnectionStatus,
    /// `true` if the Requester refused packets of the Responder that were not captured, between the Call and the Reply.
    pub is_answer_refused: bool,
    /// Index of the Transaction that this one repeats on another connection.
    pub retry_of: Option<u64>,
    /// `true` if the Call has the arguments of an earlier one, and its XID or its session, slot and sequence ID: the
    /// Responder may have the results in its cache, and needs no data for them.
    pub repeats_call: bool,
    /// `true` if the results are those of an earlier Call with the same session, slot and sequence ID, and other
    /// arguments. RFC 8881 section 2.10.6.1.3.1.
    pub has_results_of_other: bool,
    /// Periods in which its packets were lost or refused and retransmitted; sorted, without overlap.
    pub stalls: Vec<RetransmissionStall>,
    /// Parameters of the connection, if its set-up was captured.
    pub set_up: Option<Arc<NegotiatedParameters>>,
    /// Nanoseconds before the first copy of the Call in which no message of its connection was captured; `None`
    /// if no earlier message was captured.
    pub quiet_ns: Option<u64>,
    /// Credit use of the connection.
    pub credit_use: CallCreditUse,
    /// `true` if an RDMA Read or Write that looks invalid may have been meant for the Call, if transport events are
    /// recorded.
    pub has_suspected_access: bool,
    /// `true` if bytes of the Transaction lie in an FPDU of iWARP with a wrong ULPDU_Length, if transport events are
    /// recorded: they are not what their sender meant, and the answer to them shows nothing.
    pub is_misframed: bool,
    /// `true` if the RPC-over-RDMA header of the Reply cannot be that of the Reply to the Call: it has other chunks, is
    /// RDMA_MSGP, or refuses a version that it supports. RFC 8166 sections 3.4.6, 4.5.1 and 4.6.1.
    pub has_other_reply_header: bool,
    /// `true` if the Reply may be that of another Call in flight with the same XID, as far as its chunks and results tell.
    pub is_reply_ambiguous: bool,
    /// `true` if bytes that an RDMA Write moved count for a segment of this Transaction and for another segment of the
    /// same memory.
    pub shares_memory: bool,
}

impl Transaction {
    /// Returns the heap memory in bytes, without the stored content of chunks.
    pub fn heap_bytes(&self) -> usize {
        let Self { call, reply, read_chunks, write_chunks, reply_chunk, reply_read_chunks, stalls, .. } = self;
        let lists = [read_chunks, write_chunks, reply_read_chunks];
        let chunk_bytes = lists.map(Vec::capacity).iter().sum::<usize>() * size_of::<Chunk>();
        let chunks = lists.into_iter().flatten().chain(reply_chunk);
        size_of_val(stalls.as_slice())
            + chunk_bytes
            + chunks.map(Chunk::heap_bytes).sum::<usize>()
            + call.iter().chain(reply).map(CapturedMessage::heap_bytes_of_message).sum::<usize>()
    }

    pub(super) fn call_chunks(&self) -> impl Iterator<Item = &Chunk> + Clone {
        self.read_chunks.iter().chain(&self.write_chunks).chain(&self.reply_chunk)
    }

    /// Returns `true` if the Responder works on the Call, or has answered it: the Call was delivered.
    pub(super) fn is_call_delivered(&self) -> bool {
        self.reply.is_some() || self.call_chunks().any(|chunk| chunk.times.is_some())
    }

    /// Returns the Call or the Reply.
    pub fn message(&self, kind: RpcMessageKind) -> Option<&CapturedMessage> {
        match kind {
            RpcMessageKind::Call => self.call.as_ref(),
            RpcMessageKind::Reply => self.reply.as_ref(),
        }
    }

    /// Returns `true` if there are no chunks for data items of a message, or for all of it.
    pub(super) fn has_no_chunks(&self, kind: RpcMessageKind) -> bool {
        match kind {
            RpcMessageKind::Call => self.read_chunks.is_empty(),
            RpcMessageKind::Reply => {
                self.write_chunks.is_empty() && self.reply_chunk.is_none() && self.reply_read_chunks.is_empty()
            }
        }
    }

    /// Returns the nanoseconds from the first frame of the Call to the last of the Reply; `None` if either is
    /// missing or the clock went back.
    pub fn latency_ns(&self) -> Option<u64> {
        self.reply.as_ref()?.end_time.nanoseconds_since(self.call.as_ref()?.time)
    }

    /// Returns the ACK timeout of the connection in nanoseconds, if its set-up was captured.
    pub fn ack_timeout_ns(&self) -> Option<u64> {
        self.set_up.as_ref()?.ack_timeout_ns
    }

    /// Returns the evidence that the phase `server` may include loss recovery, if any.
    pub fn possible_recovery(&self) -> Option<PossibleRecovery> {
        let has_ack_timeout = !matches!(
            self.connection.transport,
            ConnectionTransport::Iwarp | ConnectionTransport::Tcp | ConnectionTransport::Udp
        );
        let evidence = match self.set_up.as_deref().filter(|set_up| !set_up.is_cut) {
            _ if self.is_answer_refused => PossibleRecovery::Nak,
            Some(set_up) => PossibleRecovery::AckTimeout { ns: set_up.ack_timeout_ns? },
            None if has_ack_timeout => PossibleRecovery::UnknownAckTimeout,
            None => return None,
        };
        let min_ns = match evidence {
            PossibleRecovery::Nak => 1,
            PossibleRecovery::AckTimeout { ns } => ns,
            PossibleRecovery::UnknownAckTimeout => MIN_ACK_TIMEOUT_NS,
        };
        let is_as_long = |ns: u64| (ns >= min_ns).then_some(evidence);
        // Most transactions are not, and need no phases.
        is_as_long(self.latency_ns()?)?;
        is_as_long(self.phases()?.server_ns)
    }

    /// Returns the evidence that a copy of the Call was lost before the capture point, if any.
    pub fn lost_copy(&self) -> Option<UncapturedOriginalCallEvidence> {
        let call = self.call.as_ref()?;
        // A message of which no packet was captured before its recovery.
        let recovered = call.stall.filter(|stall| stall.until <= call.time);
        let delay_ns = recovered.and_then(|stall| call.time.nanoseconds_since(stall.since)).filter(|ns| *ns > 0);
        let quiet = || {
            let (ns, timeout) = self.quiet_ns.zip(self.ack_timeout_ns())?;
            (timeout..=timeout.saturating_mul(UncapturedOriginalCallEvidence::MAX_ACK_TIMEOUTS))
                .contains(&ns)
                .then_some(ns)
        };
        delay_ns
            .map(|ns| UncapturedOriginalCallEvidence::Certain { ns })
            .or_else(|| quiet().map(|ns| UncapturedOriginalCallEvidence::Possible { ns }))
    }

    /// Records a stall. Merges it with those that it overlaps.
    #[cold]
    pub(super) fn record_stall(&mut self, stall: RetransmissionStall) {
        if stall.until <= stall.since {
            return;
        }
        let at = self.stalls.partition_point(|existing| existing.until < stall.since);
        let end = self.stalls.partition_point(|existing| existing.since <= stall.until);
        let merged = { self.stalls.get(at..end).unwrap_or_default().iter() }.fold(stall, |union, existing| {
            RetransmissionStall { since: union.since.min(existing.since), until: union.until.max(existing.until) }
        });
        if at < end {
            self.stalls.splice(at..end, [merged]);
        } else if self.stalls.len() < MAX_STALLS {
            self.stalls.insert(at, merged);
        }
    }

    /// Removes a stall that was none from the end of those that were recorded.
    #[cold]
    pub(super) fn revoke_stall(&mut self, stall: RetransmissionStall) {
        for existing in self.stalls.iter_mut().filter(|existing| existing.until == stall.until) {
            existing.until = stall.since.max(existing.since);
        }
        self.stalls.retain(|existing| existing.since < existing.until);
    }

    /// Splits the latency into phases. Where loss makes two phases overlap, the common time counts for the
    /// first; time lost to recovery counts for no other.
    pub fn phases(&self) -> Option<TransactionPhases> {
        let latency = self.latency_ns()?;
        let (call, reply) = (self.call.as_ref()?, self.reply.as_ref()?);
        let lost_ns = |start: Timestamp, end: Timestamp| -> u64 {
            let common = |stall: &RetransmissionStall| {
                stall.until.min(end).nanoseconds_since(stall.since.max(start)).unwrap_or(0)
            };
            self.stalls.iter().map(common).sum()
        };
        let mut attributed_until = call.time;
        let mut phase_ns = |start: Timestamp, end: Timestamp| {
            let (start, end) = (start.max(attributed_until), end.min(reply.end_time));
            let length = end.nanoseconds_since(start).unwrap_or(0);
            attributed_until = attributed_until.max(end);
            length.saturating_sub(lost_ns(start, end))
        };
        let span = |chunks: &mut dyn Iterator<Item = &Chunk>| {
            chunks
                .filter_map(|chunk| chunk.times)
                .reduce(|(first, last), (start, end)| (first.min(start), last.max(end)))
        };
        let incoming = span(&mut self.read_chunks.iter());
        let outgoing = span(&mut self.write_chunks.iter().chain(&self.reply_chunk));
        let mut phases =
            TransactionPhases { call_ns: phase_ns(call.time, call.end_time), ..TransactionPhases::default() };
        phases.data_in_ns = incoming.map_or(0, |(start, end)| phase_ns(start, end));
        phases.data_out_ns = outgoing.map_or(0, |(start, end)| phase_ns(start, end));
        phases.reply_ns = phase_ns(reply.time, reply.end_time);
        phases.recovery_ns = lost_ns(call.time, reply.end_time);
        let attributed_ns =
            phases.call_ns + phases.data_in_ns + phases.data_out_ns + phases.reply_ns + phases.recovery_ns;
        phases.server_ns = latency.saturating_sub(attributed_ns);
        Some(phases)
    }

    /// Returns the phase `recovery`, in nanoseconds; 0 if no latency is known.
    pub fn recovery_ns(&self) -> u64 {
        if self.stalls.is_empty() { 0 } else { self.phases().map_or(0, |phases| phases.recovery_ns) }
    }

    /// Returns the message that its receiver refused, if any: an answered Call was accepted.
    pub fn refused_message(&self) -> Option<RpcMessageKind> {
        match (&self.call, &self.reply) {
            (_, Some(reply)) => reply.is_refused.then_some(RpcMessageKind::Reply),
            (Some(call), None) => call.is_refused.then_some(RpcMessageKind::Call),
            (None, None) => None,
        }
    }

    pub(super) fn chunk_content_bytes(&self) -> u64 {
        let chunks = self.call_chunks().chain(&self.reply_read_chunks);
        chunks.flat_map(|chunk| &chunk.segments).map(ChunkSegment::payload_memory_bytes).sum()
    }
}
