//! Events of a transport that are no part of a Transaction: losses and their recovery, congestion, errors, and RDMA Reads
//! and Writes of memory that was not offered for them.
//!
//! Recorded only if [`FlowLimits::record_transport_events`](super::FlowLimits::record_transport_events) is set.

use crate::frame::{FrameNumber, Timestamp};
use crate::infiniband::NakCode;
use crate::rdma::{ConnectionSide, Handle};
use crate::xdr::XdrError;

use super::statistics::UndecodedReason;
use super::transaction::{ConnectionName, ConnectionRole};
use super::transaction_table::TransactionKey;
use super::{Flow, PacketMeta};

/// Event of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportEvent {
    /// Last frame of the packet.
    pub frame: FrameNumber,
    /// Time of the packet.
    pub time: Timestamp,
    /// Connection of the packet.
    pub connection: ConnectionName,
    /// Sender of the packet.
    pub sender: ConnectionRole,
    /// `true` if the set-up of the connection was captured.
    pub has_set_up: bool,
    /// Transaction that the packet belongs to, if it was identified. It may have been emitted already.
    pub transaction: Option<TransactionKey>,
    /// Kind of the event.
    pub kind: TransportEventKind,
}

/// Kind of a transport event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportEventKind {
    /// Negative acknowledgement of InfiniBand, except RNR NAK. InfiniBand Architecture Specification volume 1, section
    /// 9.7.5.2.8.
    Nak(NakCode),
    /// RNR NAK: no receive buffer was posted. Section 9.7.5.2.8.
    ReceiverNotReady {
        /// Microseconds that the requester waits before it retries.
        wait_us: u32,
    },
    /// A packet or segment whose receiver had accepted a copy already, or whose earlier copy was lost or refused.
    Retransmission,
    /// A packet behind a gap in the PSN sequence, which the receiver refuses.
    SequenceGap,
    /// An RDMA Read request with the PSN of an earlier one: responses were lost.
    RepeatedReadRequest,
    /// Congestion Notification Packet. Annex A17.9.
    CongestionNotification,
    /// A packet that a switch marked with Congestion Experienced (RFC 3168 section 5).
    CongestionExperienced,
    /// An ICRC that does not match the packet. Annex A17.3.3.
    BadIcrc,
    /// An FPDU with a wrong CRC. RFC 5044 section 4.4.
    BadMpaCrc,
    /// A TCP segment that announces a window of zero. RFC 9293 section 3.8.6.
    ZeroWindow,
    /// An RDMA Read or Write that the peer did not permit.
    InvalidAccess(MemoryAccess, AccessFault),
    /// A message that is no RPC-over-RDMA message, on a connection that carries RPC-over-RDMA.
    Undecoded {
        /// Reason why it was not decoded.
        reason: UndecodedReason,
        /// Length of the message in bytes.
        length: u32,
        /// Fault of its header, if it is complete and the connection uses version 1.
        fault: Option<HeaderFault>,
    },
    /// A Send without payload.
    EmptySend,
    /// An RDMA Write without payload.
    EmptyWrite,
    /// RDMA_DONE of RFC 5666.
    Done {
        /// `true` if the Reply of the Call has Read chunks, or the connection had such Replies before; `None` if neither is
        /// known.
        has_read_list: Option<bool>,
    },
    /// A message that the state of its connection does not permit.
    UnexpectedMessage(MessageFault),
    /// RDMAP Terminate: the sender detected an error and closes the stream. RFC 5040 section 4.8.
    Terminate,
}

/// An RDMA Read or Write of the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
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
pub enum AccessFault {
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
pub enum HeaderFault {
    /// The message is shorter than the smallest header. Section 4.5.
    Short,
    /// The chunk lists cannot be decoded. Section 4.3.
    ChunkLists(XdrError),
    /// RDMA_ERROR has an unknown error code. Section 4.5.
    ErrorCode(u32),
    /// Neither a Call nor a Reply follows the chunk lists of an RDMA_MSG. Section 4.2.4.
    NoRpcMessage,
}

/// Reason why the state of a connection does not permit a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageFault {
    /// The Requester of a Call in flight sent RDMA_ERROR with its XID. RFC 8166 section 4.2.4.
    ErrorByRequester,
    /// RDMA_ERROR, but no Call in flight has its XID. RFC 8166 section 4.5.
    ErrorWithoutCall,
    /// A Long Reply, but no Call in flight has its XID. RFC 8166 section 4.2.1.
    LongReplyWithoutCall,
    /// A Call with the XID of another Call in flight. RFC 5531 section 9.
    XidInUse,
}

/// Event before its connection is named.
#[derive(Clone, Copy, Debug)]
struct RecordedEvent {
    frame: FrameNumber,
    time: Timestamp,
    connection: usize,
    sender: ConnectionSide,
    transaction: Option<TransactionKey>,
    kind: TransportEventKind,
}

/// Events since the last frame.
#[derive(Debug, Default)]
pub(super) struct TransportEvents {
    is_enabled: bool,
    events: Vec<RecordedEvent>,
}

impl TransportEvents {
    pub(super) fn new(is_enabled: bool) -> Self {
        Self { is_enabled, events: Vec::new() }
    }

    /// Returns `true` if events are recorded.
    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Forgets all events.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.events.clear();
    }

    /// Records an event of the packet `packet_meta`, which `sender` sent on the connection in slot `connection`.
    #[inline]
    pub(super) fn record(
        &mut self,
        (connection, sender): (usize, ConnectionSide),
        packet_meta: &PacketMeta<'_>,
        transaction: Option<TransactionKey>,
        kind: TransportEventKind,
    ) {
        if self.is_enabled {
            self.record_at(
                (connection, sender),
                (packet_meta.last_frame(), packet_meta.time),
                transaction,
                kind,
            );
        }
    }

    /// Records an event of an earlier packet.
    pub(super) fn record_at(
        &mut self,
        (connection, sender): (usize, ConnectionSide),
        (frame, time): (FrameNumber, Timestamp),
        transaction: Option<TransactionKey>,
        kind: TransportEventKind,
    ) {
        self.events.push(RecordedEvent { frame, time, connection, sender, transaction, kind });
    }
}

impl Flow {
    /// Iterates over the transport events of the last frame, on connections that have carried RPC. Events of earlier frames
    /// are among them if the last frame confirmed them. Empty unless
    /// [`FlowLimits::record_transport_events`](super::FlowLimits::record_transport_events) is set.
    pub fn transport_events(&self) -> impl Iterator<Item = TransportEvent> + '_ {
        self.transaction_table.transport_events.events.iter().filter_map(|event| {
            let connection = self.connections.get(event.connection)?;
            connection.number?;
            let client = connection.client()?;
            Some(TransportEvent {
                frame: event.frame,
                time: event.time,
                connection: connection.name(client),
                sender: ConnectionRole::from_sides(event.sender, client),
                has_set_up: connection.parameters.is_some(),
                transaction: event.transaction,
                kind: event.kind,
            })
        })
    }
}
