//! Transport-independent RDMA operations of RoCE, InfiniBand and iWARP.
//!
//! A transport turns its packets into [`RdmaOperation`]s between the two sides of a connection; the layers above do not
//! depend on the transport.

use std::num::NonZeroU64;
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::memory_handle::Handle;

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionSideAOrB {
    /// The side whose packet was seen first.
    A,
    /// The other side.
    B,
}

impl ConnectionSideAOrB {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// Returns side A if `is_a`, otherwise side B.
    pub fn a_if(is_a: bool) -> Self {
        if is_a { Self::A } else { Self::B }
    }

    /// Returns the opposite side.
    pub fn peer(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A range of remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaMemoryRange {
    /// Identifier of the memory.
    pub handle: Handle,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

impl RdmaMemoryRange {
    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length.into())
    }

    /// Returns `true` if both have common bytes.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.handle == other.handle && self.offset < other.end() && other.offset < self.end()
    }
}

/// Payload of one packet: the captured bytes and the length on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapturedPacketPayload<'a> {
    /// Captured bytes, at most `length`.
    pub bytes: &'a [u8],
    /// Length in bytes according to the headers, without padding and checksum.
    pub length: u32,
}

/// Time lost to retransmission of packets that were lost or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetransmissionStall {
    /// Time of the first sign of the loss: the first packet behind the gap, the NAK, or the last packet before an ACK
    /// timeout.
    pub since: Timestamp,
    /// Time of the packet that was finally accepted.
    pub until: Timestamp,
}

impl RetransmissionStall {
    /// Returns the smallest stall that spans both.
    pub(crate) fn span(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => {
                Some(Self { since: one.since.min(other.since), until: one.until.max(other.until) })
            }
            (one, other) => one.or(other),
        }
    }
}

/// A message sent into the peer's receive buffers, reassembled from its packets.
#[derive(Clone, Copy, Debug)]
pub struct RdmaSendMessage<'a> {
    /// Captured bytes up to the first gap.
    pub bytes: &'a [u8],
    /// Length in bytes according to the headers, at least `bytes.len()`. A lower bound if the last packets are missing.
    pub length: usize,
    /// Ranges of a multi-packet message that were not captured; the first follows `bytes`.
    pub gaps: &'a [Range<u64>],
    /// Frames that carried the message, retransmissions included.
    pub frames: &'a [FrameNumber],
    /// Time of the first packet.
    pub time: Timestamp,
    /// Time of the packet that completed the message at the receiver.
    pub end_time: Timestamp,
    /// Time lost to retransmission of its packets.
    pub stall: Option<RetransmissionStall>,
    /// Handle that a Send with Invalidate invalidates (InfiniBand Architecture Specification volume 1, section
    /// 9.4.1.1.3; RFC 5040 section 5.3); `None` for other Sends, and if the last packet was not captured.
    pub invalidated_handle: Option<Handle>,
}

/// A message with its own buffers; the fields are those of [`RdmaSendMessage`].
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedRdmaSendMessage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: usize,
    pub(crate) gaps: Vec<Range<u64>>,
    pub(crate) frames: Vec<FrameNumber>,
    pub(crate) time: Timestamp,
    pub(crate) end_time: Timestamp,
    pub(crate) stall: Option<RetransmissionStall>,
    pub(crate) invalidated_handle: Option<Handle>,
}

impl OwnedRdmaSendMessage {
    /// Returns the message without a copy of its buffers.
    pub(crate) fn as_message(&self) -> RdmaSendMessage<'_> {
        RdmaSendMessage {
            bytes: &self.bytes,
            length: self.length,
            gaps: &self.gaps,
            frames: &self.frames,
            time: self.time,
            end_time: self.end_time,
            stall: self.stall,
            invalidated_handle: self.invalidated_handle,
        }
    }
}

/// Cached attribution of the packets of one RDMA operation. The layer above writes it at the first packet, so that
/// later packets and retransmissions need no lookup. Opaque to the transports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaAttribution(pub Option<(NonZeroU64, u32)>);

/// An operation of one side of a connection.
#[derive(Debug)]
pub enum RdmaOperation<'a> {
    /// Send of a message.
    Send {
        /// The message.
        message: RdmaSendMessage<'a>,
        /// Attribution of the message, for later retransmissions.
        attribution: &'a mut RdmaAttribution,
    },
    /// Retransmitted packet of an earlier message.
    SendRetransmission {
        /// Attribution of the message.
        attribution: RdmaAttribution,
        /// `true` if the packet ends the message.
        ends: bool,
    },
    /// Retransmitted bytes of an earlier RDMA Write or Read Response over TCP: headers, data or trailers.
    ChunkDataRetransmission {
        /// Attribution of the data.
        attribution: RdmaAttribution,
    },
    /// RDMA Write: bytes placed in the peer's memory.
    Write {
        /// Identifier of the memory.
        handle: Handle,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes written.
        data: CapturedPacketPayload<'a>,
        /// Attribution of the memory.
        attribution: &'a mut RdmaAttribution,
    },
    /// RDMA Read Request for bytes of the peer's memory.
    ReadRequest {
        /// Identifier of the memory.
        handle: Handle,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes requested.
        length: u32,
        /// Attribution of the memory.
        attribution: &'a mut RdmaAttribution,
    },
    /// RDMA Read Response with bytes of the sender's own memory.
    ReadResponse {
        /// Offset of the first byte.
        offset: u64,
        /// Bytes read.
        data: CapturedPacketPayload<'a>,
        /// Attribution of the memory, from the request.
        attribution: RdmaAttribution,
    },
}
