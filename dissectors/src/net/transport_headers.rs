//! Headers of UDP and TCP, datagrams and segments.

use super::ip::LengthInWords;
use crate::address::Port;
use crate::captured_frame::CapturedSlice;
use crate::field::{FieldKind, FieldValue, FlagName};
use crate::fixed_header::HeaderBitFieldValue;

crate::number! {
    /// TCP sequence number, modulo 2^32. RFC 9293 section 3.4.
    pub struct TcpSequence(u32) as Unsigned;
}

impl TcpSequence {
    /// Returns the sequence number `count` bytes later, modulo 2^32.
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// Returns the number of bytes from `self` to `other`, -2^31 to 2^31 - 1; negative if `other` comes first.
    #[inline]
    pub const fn distance(self, other: Self) -> i32 {
        other.0.wrapping_sub(self.0) as i32
    }
}

/// TCP control bits, 8 bits. RFC 9293 section 3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

const TCP_FLAGS: &[FlagName] = &[
    (0x01, "FIN"),
    (0x02, "SYN"),
    (0x04, "RST"),
    (0x08, "PSH"),
    (0x10, "ACK"),
    (0x20, "URG"),
    (0x40, "ECE"),
    (0x80, "CWR"),
];

impl TcpFlags {
    /// Returns `true` if ACK is set, and none of SYN, FIN and RST: the segment only carries data or acknowledges some.
    pub const fn is_plain_ack(self) -> bool {
        self.0 & 0x17 == 0x10
    }

    /// Returns `true` if the sender finished sending.
    pub const fn fin(self) -> bool {
        self.0 & 0x01 != 0
    }

    /// Returns the flags without FIN.
    #[must_use]
    pub const fn without_fin(self) -> Self {
        Self(self.0 & !0x01)
    }

    /// Returns `true` if the segment synchronizes sequence numbers; the SYN precedes the first byte.
    pub const fn syn(self) -> bool {
        self.0 & 0x02 != 0
    }

    /// Returns `true` if the connection is reset.
    pub const fn rst(self) -> bool {
        self.0 & 0x04 != 0
    }

    /// Returns `true` if the acknowledgment number is valid.
    pub const fn ack(self) -> bool {
        self.0 & 0x10 != 0
    }
}

impl<'a> HeaderBitFieldValue<'a> for TcpFlags {
    const KIND: FieldKind = FieldKind::Flags;
    const NAMES: &'static [FlagName] = TCP_FLAGS;

    #[inline(always)]
    fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
        Self(u8::get::<LENGTH, START, END>(header))
    }

    fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
        self.0.put::<START, END>(header);
    }

    fn value(self) -> FieldValue<'a> {
        FieldValue::Flags(u64::from(self.0), TCP_FLAGS)
    }
}

crate::header! {
    /// UDP. RFC 768.
    pub struct Udp [8] "udp" {
        0..16 srcport: Port => "udp.srcport",
        16..32 dstport: Port => "udp.dstport",
        /// Length in bytes with this header; 0 in a jumbogram.
        32..48 length: u16 => "udp.length",
        48..64 checksum: u16 => "udp.checksum",
    }

    /// TCP. RFC 9293 section 3.1.
    pub struct Tcp [20] "tcp" {
        0..16 srcport: Port => "tcp.srcport",
        16..32 dstport: Port => "tcp.dstport",
        32..64 seq: TcpSequence => "tcp.seq_raw",
        64..96 ack: TcpSequence => "tcp.ack_raw",
        /// Length of this header with its options.
        96..100 hdr_len: LengthInWords<4> => "tcp.hdr_len",
        104..112 flags: TcpFlags => "tcp.flags",
        112..128 window: u16 => "tcp.window_size_value",
        128..144 checksum: u16 => "tcp.checksum",
        144..160 urgent_pointer: u16 => "tcp.urgent_pointer",
    }

    /// TCP control bits, one by one. RFC 9293 section 3.1.
    pub struct TcpFlagBits [1] "tcp.flags" {
        0..1 cwr: bool => "tcp.flags.cwr",
        1..2 ece: bool => "tcp.flags.ece",
        2..3 urg: bool => "tcp.flags.urg",
        3..4 ack: bool => "tcp.flags.ack",
        4..5 push: bool => "tcp.flags.push",
        5..6 reset: bool => "tcp.flags.reset",
        6..7 syn: bool => "tcp.flags.syn",
        7..8 fin: bool => "tcp.flags.fin",
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegment<'a> {
    /// Source port.
    pub source_port: Port,
    /// Destination port.
    pub destination_port: Port,
    /// Sequence number of the first payload byte, or of the SYN.
    pub sequence: TcpSequence,
    /// Next sequence number expected from the other direction.
    pub acknowledgment: TcpSequence,
    /// Control bits.
    pub flags: TcpFlags,
    /// Receive window, unscaled.
    pub window: u16,
    /// Header with its options, as far as it was captured.
    pub header: &'a [u8],
    /// Stream bytes.
    pub payload: CapturedSlice<'a>,
}

impl<'a> TcpSegment<'a> {
    /// Returns the raw options, as far as they were captured. RFC 9293 section 3.1.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        self.header.get(Tcp::LENGTH..).unwrap_or_default()
    }
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpDatagram<'a> {
    /// Source port.
    pub source_port: Port,
    /// Destination port.
    pub destination_port: Port,
    /// Payload.
    pub payload: CapturedSlice<'a>,
}
