//! Events of a transport that are not part of a Transaction: losses and their recovery, congestion, errors, and RDMA
//! Reads and Writes of memory that was not offered for them.
//!
//! Recorded only if [`FlowLimits::record_transport_events`](super::FlowLimits::record_transport_events) is set.

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, Timestamp};
use nfsrdma_dissectors::infiniband::{NakCode, Psn, RdmaEncapsulation};
use nfsrdma_dissectors::iwarp::ddp::{DdpMessageSequenceNumber, DdpQueueNumber};
use nfsrdma_dissectors::iwarp::rdmap::{RdmapOpcode, RdmapTerminate};
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::net::{InnermostNetworkPacket, NetworkLayerPayload};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::XdrError;

use super::connection_key::ConnectionSlabKey;
use super::count_categories::UndecodedReason;
use super::packet_meta::PacketMeta;
use super::packet_opcode_sequence::PacketOpcodeOrLengthViolation;
use super::transaction::{EndpointRole, TransactionConnection};
use super::transaction_slab_key::TransactionSlabKey;
use crate::rdma_operation::ConnectionSideAOrB;

/// Event of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedTransportEvent {
    /// Last frame of the packet.
    pub frame: FrameNumber,
    /// Time of the packet.
    pub time: Timestamp,
    /// Connection of the packet.
    pub connection: TransactionConnection,
    /// Sender of the packet.
    pub sender: EndpointRole,
    /// `true` if the set-up of the connection was captured.
    pub has_set_up: bool,
    /// Transaction that the packet belongs to, if it was identified. It may have been emitted already.
    pub transaction: Option<TransactionSlabKey>,
    /// `false` if the capture may lack the message that permits the packet, or may have it in the wrong order.
    pub is_certain: bool,
    /// Kind of the event.
    pub kind: TransportAnomalyKind,
}

/// Nanoseconds by which packets of the two directions may be captured in the wrong order: a capture of several queues.
pub const MAX_CAPTURE_SKEW_NS: u64 = 1_000_000;

/// Nanoseconds by which a Reply may be captured after a Call that followed it.
pub(super) const MAX_REPLY_SKEW_NS: u64 = 20_000;

/// Kind of a transport event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportAnomalyKind {
    /// Negative acknowledgement of InfiniBand, except RNR NAK. InfiniBand Architecture Specification volume 1, section
    /// 9.7.5.2.8.
    Nak(NakCode),
    /// NAK Invalid Request of a Send that is longer than the inline threshold of its sender. Section 9.7.5.2.
    OversizedSendRefused,
    /// RNR NAK: no receive buffer was posted. Section 9.7.5.2.8.
    ReceiverNotReady {
        /// Microseconds that the requester waits before it retries.
        wait_us: u32,
        /// `true` if the requester had more calls in flight than its peer granted: the receive buffers are in use.
        exceeds_credits: bool,
    },
    /// A packet or TCP segment whose receiver had accepted a copy already, or whose earlier copy was lost or refused.
    Retransmission,
    /// A packet after a gap in the PSN sequence, which the receiver refuses.
    SequenceGap,
    /// An RDMA Read request with a PSN that an earlier one used: the request or responses to it were lost.
    RepeatedReadRequest,
    /// A packet that does not follow the packet with the PSN before it.
    PacketOrderFault(PacketOpcodeOrLengthViolation),
    /// The first packet of a side does not have the PSN that the set-up announced, nor one soon after it. InfiniBand
    /// Architecture Specification volume 1, section 12.7.31.
    StartingPsn {
        /// Starting PSN of the set-up.
        announced: Psn,
        /// PSN of the first packet.
        first: Psn,
    },
    /// Congestion Notification Packet. Annex A17.9.
    CongestionNotification,
    /// A packet that a switch marked with Congestion Experienced (RFC 3168 section 5), or with FECN on InfiniBand.
    CongestionExperienced,
    /// An ICRC that does not match the packet. Annex A17.3.3. Recorded only if
    /// [`FlowLimits::check_icrc`](super::FlowLimits::check_icrc) is set too.
    BadIcrc,
    /// An FPDU with a wrong CRC. RFC 5044 section 4.4.
    BadMpaCrc,
    /// A TCP segment that announces a window of zero. RFC 9293 section 3.8.6.
    ZeroWindow,
    /// An RDMA Read or Write that the peer did not permit.
    InvalidAccess(RdmaMemoryAccess, RdmaAccessViolationReason),
    /// As many RDMA Reads in flight as the owner of the memory answers at a time, or more. InfiniBand Architecture
    /// Specification volume 1, section 9.7; RFC 6581 section 9.1.
    ReadsInFlight {
        /// RDMA Reads in flight.
        count: u32,
        /// Maximum number that the owner of the memory declared at the set-up.
        limit: u16,
    },
    /// A message that is not an RPC-over-RDMA message, on a connection that carries RPC-over-RDMA.
    Undecoded {
        /// Reason why it was not decoded.
        reason: UndecodedReason,
        /// Length of the message in bytes.
        length: u32,
        /// Fault of its header, if it is complete and the connection uses version 1.
        fault: Option<RpcRdmaHeaderFault>,
    },
    /// A Send without payload.
    EmptySend,
    /// A segment of iWARP that deviates from its specifications.
    Rdmap(RdmapFault),
    /// An RDMA Write without payload.
    EmptyWrite,
    /// RDMA_DONE of RFC 5666.
    Done {
        /// `true` if the Reply of the Call has Read chunks, or the connection had such Replies before; `None` if
        /// neither is known.
        has_read_list: Option<bool>,
    },
    /// A message that the state of its connection does not permit.
    UnexpectedMessage(UnexpectedRpcMessageReason),
    /// RDMAP Terminate: the sender detected an error and closes the stream. RFC 5040 section 4.8.
    Terminate(RdmapTerminate),
}

/// Deviation of a segment from RFC 5040, RFC 5041 or RFC 5044.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmapFault {
    /// Version of DDP, which is 1. RFC 5041 section 4.1.
    DdpVersion(u8),
    /// Version of RDMAP, which is 1, or 0 in the RDMA Consortium's specification. RFC 5040 section 4.1.
    RdmapVersion(u8),
    /// Padding of an FPDU, one to three bytes, that is not zero. RFC 5044 section 4.1.
    Pad(u32),
    /// A reserved field of a marker that is not zero. RFC 5044 section 4.2.
    MarkerReserved(u16),
    /// No FPDU begins where the one before it ends. RFC 5044 section 4.1.
    NoFpdu,
    /// No FPDU begins where this one ends, as its ULPDU_Length says.
    NoFpduBehind,
    /// A ULPDU_Length that is not that of its FPDU, whose CRC shows where it ends. RFC 5044 section 4.1.
    UlpduLength {
        /// ULPDU_Length in bytes.
        announced: u16,
        /// Length of the ULPDU.
        length: u16,
    },
    /// A ULPDU of this many bytes, which is too short for the headers of a segment. RFC 5041 sections 4.2 and 4.3.
    ShortUlpdu(u16),
    /// Reserved bits that are not zero. RFC 5041 section 4.1, RFC 5040 section 4.1.
    ReservedBits {
        /// Reserved bits of DDP.
        ddp: u8,
        /// Reserved bits of RDMAP.
        rdmap: u8,
    },
    /// A reserved opcode. RFC 5040 section 4.1; RFC 7306 section 10.
    Opcode(RdmapOpcode),
    /// A tagged segment of an untagged message, or the reverse. RFC 5040 section 4.1.
    Tagged {
        /// Opcode.
        opcode: RdmapOpcode,
        /// `true` for a tagged segment.
        is_tagged: bool,
    },
    /// A message in the wrong queue. RFC 5040 section 4.1.
    Queue {
        /// Opcode.
        opcode: RdmapOpcode,
        /// Queue of the segment.
        queue: DdpQueueNumber,
    },
    /// A header of the wrong length. RFC 5040 section 4.4.
    HeaderLength {
        /// Opcode.
        opcode: RdmapOpcode,
        /// Bytes after the DDP header.
        length: u32,
    },
    /// A message sequence number that does not follow its predecessor, or a first one that is not 1. RFC 5041 section
    /// 4.3.
    MessageNumber {
        /// Queue of the segment.
        queue: DdpQueueNumber,
        /// Number of the message.
        number: DdpMessageSequenceNumber,
        /// Number that follows the last.
        expected: DdpMessageSequenceNumber,
    },
    /// An untagged segment that does not continue its message, or a first one whose offset is not 0. RFC 5041 section
    /// 5.2.
    MessageOffset {
        /// Offset of the segment in bytes.
        offset: u32,
        /// Bytes of the message before it.
        expected: u32,
    },
    /// A tagged segment that does not continue its message. RFC 5041 section 5.2.
    TaggedOffset {
        /// Memory.
        stag: Handle,
        /// Offset of the segment.
        offset: u64,
        /// Offset after the preceding segment.
        expected: u64,
    },
    /// A message begins before the last segment of another one. RFC 5041 sections 4.1 and 5.3.
    Interrupted {
        /// Opcode of the message without its last segment.
        opcode: RdmapOpcode,
    },
    /// A Read Response to memory that no RDMA Read Request in flight names as its sink. RFC 5040 section 4.5.
    UnrequestedResponse {
        /// Memory.
        stag: Handle,
        /// Offset.
        offset: u64,
        /// Number of bytes of the segment.
        length: u32,
    },
    /// A Read Response before that to an earlier request. RFC 5040 section 5.2.2.
    ResponseOrder {
        /// Memory.
        stag: Handle,
        /// Number of earlier requests without a complete response.
        unanswered: u32,
    },
    /// A Read Response of another length than requested. RFC 5040 section 4.5.
    ResponseLength {
        /// Length of the response in bytes, as far as it was captured.
        length: u64,
        /// Requested number of bytes.
        requested: u32,
    },
    /// A start-up frame of MPA.
    Startup(MpaStartupFault),
    /// An FPDU of the responder before the first of the initiator. RFC 5044 section 7.1.2.
    ResponderFirst,
    /// The receiver requested markers, and there are none. RFC 5044 section 4.3.
    NoMarkers,
    /// The receiver requested no markers, and there are some. RFC 5044 section 4.3.
    UnrequestedMarkers,
    /// A marker that does not point to the start of its FPDU. RFC 5044 section 4.3.
    MarkerPointer {
        /// Value of the marker in bytes.
        pointer: u16,
        /// Distance of the marker from the start of the FPDU in bytes.
        expected: u16,
    },
}

impl RdmapFault {
    /// Returns `true` for a Read Response that does not fit the requests of its receiver.
    pub(crate) fn is_of_response(&self) -> bool {
        matches!(self, Self::UnrequestedResponse { .. } | Self::ResponseOrder { .. } | Self::ResponseLength { .. })
    }
}

/// Deviation of a start-up frame of MPA from RFC 5044 section 7.1 or RFC 6581.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpaStartupFault {
    /// Reserved bits that are not zero. RFC 5044 section 7.1.1.
    ReservedBits(u8),
    /// The R bit in a Request, which cannot reject. RFC 5044 section 7.1.1.
    RejectedRequest,
    /// The sender of a Reply with the R bit sends FPDUs on the connection that it rejected. RFC 5044 section 7.1.2.
    UsedAfterRejection,
    /// More private data than permitted: its length in bytes. RFC 5044 section 7.1.1.
    PrivateDataLength(u16),
    /// PD_Length is not the length of the private data. RFC 5044 section 7.1.1.
    PrivateDataMismatch {
        /// PD_Length in bytes.
        announced: u16,
        /// Length of the private data in bytes.
        length: u16,
    },
    /// Enhanced connection data in this revision of MPA, which has none. RFC 6581 section 6.
    EnhancedRevision {
        /// Revision of the frame.
        revision: u8,
        /// In a Reply: revision of its Request, if captured.
        requested: Option<u8>,
    },
    /// Enhanced connection data are announced, and the private data is too short for them. RFC 6581 section 6.
    NoEnhancedData,
    /// A Reply of another revision of MPA than its Request. RFC 5044 section 7.1.1, RFC 6581 section 10.
    Revision {
        /// Revision of the Request.
        requested: u8,
        /// Revision of the Reply.
        replied: u8,
    },
    /// A Reply that is enhanced although its Request is not, or the reverse. RFC 6581 section 10.
    EnhancedReply {
        /// `true` if the Reply is enhanced.
        is_enhanced: bool,
    },
    /// A Reply that does not confirm the connection model of its Request. RFC 6581 section 9.2.
    PeerToPeer {
        /// `true` if the Request asks for the peer-to-peer model.
        is_requested: bool,
    },
    /// A Reply that wants to have more RDMA Reads in flight than its Request permits. RFC 6581 section 9.1.
    RdmaReadQueueDepth {
        /// Outbound RDMA Reads of the responder.
        outbound: u16,
        /// Inbound RDMA Reads of the initiator.
        inbound: u16,
    },
}

/// An RDMA Read or Write of the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaMemoryAccess {
    /// `true` for an RDMA Read.
    pub is_read: bool,
    /// Handle of the memory.
    pub handle: Handle,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes, of the packet for an RDMA Write.
    pub length: u32,
}

/// Reason why an RDMA Read or Write is not permitted. RFC 8166 sections 3.4.3 to 3.4.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RdmaAccessViolationReason {
    /// No Call in flight offers memory under the handle.
    NotOffered,
    /// A Call in flight offers memory under the handle, but not this range.
    OutOfBounds,
    /// The Call that offers the memory has its Reply already.
    AfterReply,
    /// An RDMA Read of a Write or Reply chunk, or an RDMA Write to a Read chunk.
    WrongOperation,
    /// The sender has Calls in flight, and its peer has none: a Requester accesses memory of the Responder.
    ByRequester,
}

/// Fault of an RPC-over-RDMA header. RFC 8166 section 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcRdmaHeaderFault {
    /// The message is shorter than the smallest header. Section 4.5.
    Short,
    /// The chunk lists of RDMA_MSGP cannot be decoded. RDMA_MSGP itself is a fault: section 4.6.1.
    Padded,
    /// The chunk lists cannot be decoded. Section 4.3.
    ChunkLists(XdrError),
    /// RDMA_ERROR has an unknown error code. Section 4.5.
    ErrorCode(u32),
    /// Neither a Call nor a Reply follows the chunk lists of an RDMA_MSG. Section 4.2.4.
    NoRpcMessage,
}

/// Reason why the state of a connection does not permit a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnexpectedRpcMessageReason {
    /// The Requester of a Call in flight sent RDMA_ERROR with its XID. RFC 8166 section 4.2.4.
    ErrorByRequester,
    /// RDMA_ERROR, but no Call in flight has its XID. RFC 8166 section 4.5.
    ErrorWithoutCall,
    /// A Long Reply, but no Call in flight has its XID. RFC 8166 section 4.2.1.
    LongReplyWithoutCall,
    /// RDMA_NOMSG without a Position-Zero Read chunk to a side that has sent no Call: it can be no Reply. RFC 8166
    /// section 4.2.4.
    LongCallWithoutChunk,
    /// A Reply in a Send, but no Call in flight has its XID. RFC 5531 section 9.
    ReplyWithoutCall,
    /// The RPC message of another Reply to an answered Call has another XID than its header. RFC 8166 section 4.2.1.
    XidMismatch {
        /// XID of the header.
        outer: Xid,
        /// XID of the RPC message.
        inner: Xid,
    },
    /// A Call with the XID of another Call in flight. RFC 5531 section 9.
    XidInUse,
}

/// Event before its connection is named.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionSlotTransportEvent {
    pub(super) frame: FrameNumber,
    pub(super) time: Timestamp,
    pub(super) connection: usize,
    pub(super) sender: ConnectionSideAOrB,
    pub(super) transaction: Option<TransactionSlabKey>,
    pub(super) is_certain: bool,
    pub(super) kind: TransportAnomalyKind,
}

impl ConnectionSlotTransportEvent {
    /// Creates a certain event of the packet `packet_meta`, which `sender` sent on the connection in slot `connection`.
    pub(super) fn new(
        (connection, sender): (usize, ConnectionSideAOrB),
        packet_meta: &PacketMeta<'_>,
        transaction: Option<TransactionSlabKey>,
        kind: TransportAnomalyKind,
    ) -> Self {
        let (frame, time) = (packet_meta.last_frame(), packet_meta.time);
        Self { frame, time, connection, sender, transaction, is_certain: true, kind }
    }
}

/// Numbers of packets and segments that were examined for events: without events, they show that nothing happened.
/// Connections whose events are not reported do not count: they have not carried RPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExaminedPacketCounts {
    /// Packets of reliable connections, without duplicates made by the capture.
    pub packets: u64,
    /// Those of them that are RDMA Read requests.
    pub read_requests: u64,
    /// Those of them that acknowledge requests, or refuse them.
    pub acknowledgments: u64,
    /// Packets of InfiniBand whose ICRC was checked.
    pub icrcs: u64,
    /// Start-up frames of MPA.
    pub startups: u64,
    /// FPDUs with known headers.
    pub fpdus: u64,
    /// Those of them whose ULPDU_Length cannot be judged: the positions of FPDUs are not proven yet, or have markers.
    pub unproven_fpdus: u64,
    /// Those of them whose predecessors are known.
    pub ordered_fpdus: u64,
    /// Those of the latter that are untagged.
    pub untagged_fpdus: u64,
    /// Read Responses whose requests are known, as FPDUs.
    pub responses: u64,
    /// FPDUs whose CRC was checked.
    pub fpdu_crcs: u64,
    /// Segments of TCP, without duplicates made by the capture.
    pub segments: u64,
}

impl ExaminedPacketCounts {
    /// Adds other numbers.
    pub(super) fn add(&mut self, other: &Self) {
        let Self {
            packets,
            read_requests,
            acknowledgments,
            icrcs,
            startups,
            fpdus,
            unproven_fpdus,
            ordered_fpdus,
            untagged_fpdus,
            responses,
            fpdu_crcs,
            segments,
        } = *other;
        self.packets += packets;
        self.read_requests += read_requests;
        self.acknowledgments += acknowledgments;
        self.icrcs += icrcs;
        self.startups += startups;
        self.fpdus += fpdus;
        self.unproven_fpdus += unproven_fpdus;
        self.ordered_fpdus += ordered_fpdus;
        self.untagged_fpdus += untagged_fpdus;
        self.responses += responses;
        self.fpdu_crcs += fpdu_crcs;
        self.segments += segments;
    }

    /// Counts an FPDU whose headers are known.
    #[inline]
    pub(super) fn count_fpdu(&mut self, fpdu: FpduProperties) {
        self.fpdus += 1;
        self.ordered_fpdus += u64::from(fpdu.is_ordered);
        self.untagged_fpdus += u64::from(fpdu.is_ordered && fpdu.is_untagged);
        self.responses += u64::from(fpdu.has_read_requests);
    }
}

/// Properties of an FPDU that conformance rules need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FpduProperties {
    /// All FPDUs before it are known.
    pub(crate) is_ordered: bool,
    /// Its segment is untagged.
    pub(crate) is_untagged: bool,
    /// It is an RDMA Read Response whose requests are known.
    pub(crate) has_read_requests: bool,
}

/// Maximum number of events of connections that have not carried RPC yet.
pub(super) const MAX_EARLY_EVENTS: usize = 256;

/// Maximum number of events that are kept until their connections, set up for RPC-over-RDMA, carry RPC or end.
pub(super) const MAX_IDENTIFIED_EVENTS: usize = 1 << 12;

/// Events since the last frame.
#[derive(Debug, Default)]
pub(super) struct UnemittedTransportEvents {
    pub(super) is_enabled: bool,
    pub(super) events: Vec<ConnectionSlotTransportEvent>,
    /// Earlier events of connections that have not carried RPC yet.
    pub(super) early: Vec<(ConnectionSlabKey, ConnectionSlotTransportEvent)>,
    /// Number of connections that had carried RPC when `early` was last searched for events of such connections.
    pub(super) early_connections: u64,
    /// Events of connections that ended before they carried RPC.
    pub(super) released: Vec<CapturedTransportEvent>,
    /// `true` if a switch marked the last frame with Congestion Experienced.
    pub(super) has_congestion_mark: bool,
    /// `true` if the ICRC of the last frame is wrong.
    pub(super) has_bad_icrc: bool,
    /// `true` if the ICRC of the last frame was checked.
    pub(super) has_checked_icrc: bool,
    /// Numbers of packets examined on connections that were removed.
    pub(super) checks: ExaminedPacketCounts,
}

impl UnemittedTransportEvents {
    pub(super) fn new(is_enabled: bool) -> Self {
        Self { is_enabled, ..Self::default() }
    }

    /// Returns `true` if events are recorded.
    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Records an event as [`ConnectionSlotTransportEvent::new`] creates it, if events are recorded.
    #[inline]
    pub(super) fn record(
        &mut self,
        sides: (usize, ConnectionSideAOrB),
        packet_meta: &PacketMeta<'_>,
        transaction: Option<TransactionSlabKey>,
        kind: TransportAnomalyKind,
    ) {
        if self.is_enabled {
            self.record_event(ConnectionSlotTransportEvent::new(sides, packet_meta, transaction, kind));
        }
    }

    pub(super) fn record_event(&mut self, event: ConnectionSlotTransportEvent) {
        self.events.push(event);
    }
}

/// Returns `true` if a switch marked a frame with Congestion Experienced: in the innermost IP header (RFC 3168 section
/// 5), or in the Base Transport Header of InfiniBand (InfiniBand Architecture Specification volume 1, annex A10).
#[cold]
pub(super) fn has_congestion_mark(frame: &Frame<'_>, datagram: &InnermostNetworkPacket<'_>) -> bool {
    if let NetworkLayerPayload::Infiniband(packet) = &datagram.payload
        && packet.encapsulation != RdmaEncapsulation::RoceV2
    {
        return packet.bth.fecn;
    }
    let Some([first, second, ..]) = frame.bytes.get(datagram.network_offset..) else { return false };
    let ecn = match first >> 4 {
        4 => second & 0b11,
        6 => second >> 4 & 0b11,
        _ => 0,
    };
    ecn == CONGESTION_EXPERIENCED
}

/// ECN field of a packet that met congestion. RFC 3168 section 5.
const CONGESTION_EXPERIENCED: u8 = 0b11;
