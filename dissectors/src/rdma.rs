//! RDMA as every transport has it: RoCE, InfiniBand and iWARP come together here.
//!
//! A transport turns its packets into [`RdmaOperation`]s between the two sides of a connection; nothing above this
//! module knows which transport it was.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;

use crate::flow::Stall;
use crate::frame::{FrameNumber, Timestamp};

crate::number! {
    /// What names a region of remote memory: the R_Key of InfiniBand, the STag of iWARP, the `handle` of
    /// RPC-over-RDMA (RFC 8166 section 3.4.3).
    pub struct Handle(u32) as Hex(8);
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionSide {
    /// The end whose packet was seen first.
    A,
    /// The other end.
    B,
}

impl ConnectionSide {
    /// The other end.
    pub fn peer(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Payload of one packet: what was captured of it, and how long it was on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketPayload<'a> {
    /// The captured bytes; at most `length` of them.
    pub bytes: &'a [u8],
    /// Length by the headers, without pad and checksum.
    pub length: u32,
}

/// A message that was sent into the peer's receive buffers, put together from its packets.
#[derive(Clone, Copy, Debug)]
pub struct RdmaMessage<'a> {
    /// What was captured of it, up to the first gap.
    pub bytes: &'a [u8],
    /// Its length by the headers, at least `bytes.len()`; where its last packets are missing, what is known of it.
    pub length: usize,
    /// Of a message of several packets: the ranges that were not captured, of which the first follows `bytes`.
    pub gaps: &'a [Range<u64>],
    /// The frames that carried it, copies included.
    pub frames: &'a [FrameNumber],
    /// When its first packet was seen.
    pub time: Timestamp,
    /// When the packet was seen that made it whole for its receiver.
    pub end_time: Timestamp,
    /// The time that was lost while packets of it were sent again.
    pub stall: Option<Stall>,
}

/// Where the layer above notes what the packets of one RDMA operation belong to, so that it is looked up once for an
/// operation and a packet that is sent again finds the owner of the first copy. Its content means nothing here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaAttribution(pub Option<(NonZeroU64, u32)>);

/// What one side of a connection did.
#[derive(Debug)]
pub enum RdmaOperation<'a> {
    /// It sent a message.
    Send {
        /// The message.
        message: RdmaMessage<'a>,
        /// The owner of the message, for the copies that may follow.
        owner: &'a mut RdmaAttribution,
    },
    /// It sent a packet of an earlier message again.
    SendAgain {
        /// The owner of the message.
        owner: RdmaAttribution,
        /// Whether the packet ends the message.
        ends: bool,
    },
    /// It sent the trailer again that ends data of an earlier RDMA Write or Read response (RFC 5044 section 4.1).
    TrailerAgain {
        /// The owner of the data.
        owner: RdmaAttribution,
    },
    /// It placed bytes in the peer's memory.
    Write {
        /// Names the memory.
        handle: Handle,
        /// Where these bytes begin.
        offset: u64,
        /// The bytes.
        data: PacketPayload<'a>,
        /// The owner of the memory.
        owner: &'a mut RdmaAttribution,
    },
    /// It asked for bytes of the peer's memory.
    ReadRequest {
        /// Names the memory.
        handle: Handle,
        /// Where the bytes begin.
        offset: u64,
        /// How many are asked for.
        length: u32,
        /// The owner of the memory.
        owner: &'a mut RdmaAttribution,
    },
    /// It answered with bytes of its own memory.
    ReadResponse {
        /// Where these bytes begin.
        offset: u64,
        /// The bytes.
        data: PacketPayload<'a>,
        /// The owner of the memory, as the request has it.
        owner: RdmaAttribution,
    },
}
