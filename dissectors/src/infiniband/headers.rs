//! Headers around the Base Transport Header: route headers before it, extension transport headers after it.
//!
//! Sections refer to the InfiniBand Architecture Specification volume 1.

use std::fmt;
use std::net::Ipv6Addr;

use super::queue_pair_and_packet_numbers::Qpn;
use crate::address::Lid;
use crate::field::{FieldKind, FieldValue};
use crate::fixed_header::HeaderBitFieldValue;
use crate::memory_handle::Handle;

crate::number! {
    /// Message sequence number, 24 bits: the number of messages that the responder completed, modulo 2^24. Section
    /// 9.7.5.1.4.
    pub struct Msn(u32) as Unsigned;

    /// Queue key, 32 bits, which authorizes a datagram for its destination queue pair. Section 10.2.4.
    pub struct InfinibandQKey(u32) as Hex(8);

    /// Immediate data: four bytes for the remote consumer.
    pub struct ImmediateData(u32) as Hex(8);
}

crate::named! {
    /// Header after the Local Route Header. Section 7.7.5.
    pub struct LrhLinkNextHeader(u8) {
        /// A raw packet with an EtherType.
        RAW = 0 "Raw",
        /// A raw IPv6 packet.
        IPV6 = 1 "Raw IPv6",
        /// The Base Transport Header.
        LOCAL = 2 "IBA local",
        /// The Global Route Header, then the Base Transport Header.
        GLOBAL = 3 "IBA global",
    }
}

crate::header! {
    /// Local Route Header. Section 7.7.
    pub struct Lrh [8] "infiniband.lrh" {
        /// Virtual lane.
        0..4 vl: u8 => "infiniband.lrh.vl",
        /// Version of the link layer; 0.
        4..8 lver: u8 => "infiniband.lrh.lver",
        /// Service level.
        8..12 sl: u8 => "infiniband.lrh.sl",
        /// Next header.
        14..16 lnh: LrhLinkNextHeader => "infiniband.lrh.lnh",
        /// Destination LID.
        16..32 dlid: Lid => "infiniband.lrh.dlid",
        /// Length from this header through the ICRC in 4-byte words.
        37..48 pktlen: u16 => "infiniband.lrh.pktlen",
        /// Source LID.
        48..64 slid: Lid => "infiniband.lrh.slid",
    }

    /// Global Route Header, with the layout of the IPv6 header. Section 8.3.
    pub struct Grh [40] "infiniband.grh" {
        /// IP version; 6.
        0..4 ipver: u8 => "infiniband.grh.ipver",
        /// Traffic class.
        4..12 tclass: u8 => "infiniband.grh.tclass",
        /// Flow label.
        12..32 flowlabel: u32 => "infiniband.grh.flowlabel",
        /// Length in bytes from the end of this header through the ICRC.
        32..48 paylen: u16 => "infiniband.grh.paylen",
        /// Next header; 0x1b is the Base Transport Header.
        48..56 nxthdr: u8 => "infiniband.grh.nxthdr",
        /// Hop limit: number of routers that the packet may still pass.
        56..64 hoplmt: u8 => "infiniband.grh.hoplmt",
        /// Source GID.
        64..192 sgid: Ipv6Addr => "infiniband.grh.sgid",
        /// Destination GID.
        192..320 dgid: Ipv6Addr => "infiniband.grh.dgid",
    }

    /// Reliable Datagram Extended Transport Header. Section 9.3.1.
    pub struct Rdeth [4] "infiniband.rdeth" {
        /// End-to-end context of the receiver.
        8..32 eecnxt: u32 => "infiniband.rdeth.eecnxt",
    }

    /// Datagram Extended Transport Header. Section 9.3.2.
    pub struct Deth [8] "infiniband.deth" {
        /// Queue key of the destination queue pair.
        0..32 q_key: InfinibandQKey => "infiniband.deth.q_key",
        /// Source queue pair.
        40..64 srcqp: Qpn => "infiniband.deth.srcqp",
    }

    /// RDMA Extended Transport Header. Section 9.3.3.
    pub struct Reth [16] "infiniband.reth" {
        /// Virtual address of the data in the region.
        0..64 va: u64 => "infiniband.reth.va",
        /// Identifier of the memory region.
        64..96 r_key: Handle => "infiniband.reth.r_key",
        /// Length of the whole message in bytes, 0 to 2^31.
        96..128 dmalen: u32 => "infiniband.reth.dmalen",
    }

    /// Atomic Extended Transport Header. Section 9.3.4.
    pub struct AtomicEth [28] "infiniband.atomiceth" {
        /// Virtual address of the value in the region.
        0..64 va: u64 => "infiniband.reth.va",
        /// Identifier of the memory region.
        64..96 r_key: Handle => "infiniband.reth.r_key",
        /// Swap data or add data.
        96..160 swapdt: u64 => "infiniband.atomiceth.swapdt",
        /// Compare data: the value that the swap requires.
        160..224 cmpdt: u64 => "infiniband.atomiceth.cmpdt",
    }

    /// ACK Extended Transport Header. Section 9.3.5.
    pub struct Aeth [4] "infiniband.aeth" {
        /// Kind of acknowledgement, and its credits, timer or error code.
        0..8 syndrome: Syndrome => "infiniband.aeth.syndrome",
        /// Number of messages that the responder completed, modulo 2^24.
        8..32 msn: Msn => "infiniband.aeth.msn",
    }

    /// Atomic ACK Extended Transport Header. Section 9.3.
    pub struct AtomicAckEth [8] "infiniband.atomicacketh" {
        /// Value before the operation.
        0..64 origremdt: u64 => "infiniband.atomicacketh.origremdt",
    }

    /// Immediate Data Extended Transport Header. Section 9.3.
    pub struct ImmDt [4] "infiniband.immdt" {
        /// Four bytes for the consumer.
        0..32 immediate: ImmediateData => "infiniband.immdt",
    }

    /// Invalidate Extended Transport Header. Section 9.3.
    pub struct Ieth [4] "infiniband.ieth" {
        /// Handle to invalidate.
        0..32 r_key: Handle => "infiniband.ieth",
    }

    /// Extended Reliable Connection Extended Transport Header. Annex A14.
    pub struct XrcEth [4] "infiniband.xrceth" {
        /// Destination shared receive queue.
        8..32 xrcsrq: u32 => "infiniband.xrceth.xrcsrq",
    }

    /// Flush Extended Transport Header. Annex A19.
    pub struct Feth [4] "infiniband.feth" {
        /// Selectivity: 0 a range, 1 the whole region.
        26..28 selectivity: u8 => "infiniband.feth.sel",
        /// Placement type: bit 0 global visibility, bit 1 persistence.
        28..32 placement: u8 => "infiniband.feth.plt",
    }
}

impl Grh {
    /// Value of `nxthdr` before the Base Transport Header. Section 8.3.
    pub const NEXT_BTH: u8 = 0x1b;
}

/// AETH syndrome, the first byte of the AETH. Section 9.7.5.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Acknowledgement of the request.
    Ack {
        /// Encoded end-to-end flow-control credits, 5 bits; see [`Syndrome::credits`].
        credits: u8,
    },
    /// Receiver not ready: the requester waits, then retries.
    RnrNak {
        /// Encoded time to wait, 5 bits; see [`Syndrome::wait_us`].
        timer: u8,
    },
    /// Negative acknowledgement.
    Nak(NakCode),
    /// Reserved value.
    Reserved(u8),
}

crate::named! {
    /// NAK code, 5 bits. Section 9.7.5.2.8.
    pub struct NakCode(u8) {
        /// A packet before this one is missing.
        PSN_SEQUENCE_ERROR = 0 "PSN Sequence Error",
        /// The responder does not support the operation, or the message does not fit.
        INVALID_REQUEST = 1 "Invalid Request",
        /// The handle does not permit the access.
        REMOTE_ACCESS_ERROR = 2 "Remote Access Error",
        /// The responder failed.
        REMOTE_OPERATIONAL_ERROR = 3 "Remote Operational Error",
        /// The datagram is invalid.
        INVALID_RD_REQUEST = 4 "Invalid RD Request",
    }
}

/// Returns element `code` of 0, 1, 2, 3, 4, 6, 8, 12, 16, ..., the encoding of credits and times.
const fn half_octaves(code: u8) -> u32 {
    match code {
        0 | 1 => code as u32,
        code if code.is_multiple_of(2) => 1 << (code / 2),
        code => 3 << (code / 2 - 1),
    }
}

impl Syndrome {
    /// Decodes a syndrome byte.
    #[inline]
    pub const fn from_byte(byte: u8) -> Self {
        let value = byte & 0x1f;
        match byte >> 5 {
            0 => Self::Ack { credits: value },
            1 => Self::RnrNak { timer: value },
            3 => Self::Nak(NakCode(value)),
            _ => Self::Reserved(byte),
        }
    }

    /// Encodes the syndrome.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Ack { credits } => credits & 0x1f,
            Self::RnrNak { timer } => 0x20 | timer & 0x1f,
            Self::Nak(code) => 0x60 | code.0 & 0x1f,
            Self::Reserved(byte) => byte,
        }
    }

    /// Returns the number of receive buffers that the responder still offers. `None` if it does not count them (code
    /// 31), or if this is not an acknowledgement.
    pub const fn credits(self) -> Option<u32> {
        match self {
            Self::Ack { credits } if credits < 31 => Some(half_octaves(credits)),
            _ => None,
        }
    }

    /// Returns the time in microseconds to wait before the retry, or `None` unless the receiver was not ready.
    pub const fn wait_us(self) -> Option<u32> {
        match self {
            Self::RnrNak { timer: 0 } => Some(655_360),
            Self::RnrNak { timer } => Some(half_octaves(timer & 0x1f) * 10),
            _ => None,
        }
    }

    /// Returns the display name, or `None` for a reserved value.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Ack { .. } => Some("Ack"),
            Self::RnrNak { .. } => Some("RNR Nak"),
            Self::Nak(code) => code.name(),
            Self::Reserved(_) => None,
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ack { .. } => f.pad("Ack"),
            Self::RnrNak { .. } => f.pad("RNR Nak"),
            Self::Nak(code) => write!(f, "Nak: {code}"),
            Self::Reserved(byte) => write!(f, "reserved {byte:#04x}"),
        }
    }
}

impl<'a> HeaderBitFieldValue<'a> for Syndrome {
    const KIND: FieldKind = FieldKind::Enum;

    #[inline(always)]
    fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
        Self::from_byte(u8::get::<LENGTH, START, END>(header))
    }

    fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
        self.byte().put::<START, END>(header);
    }

    fn value(self) -> FieldValue<'a> {
        FieldValue::Enum(u64::from(self.byte()), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::NullFieldObserver;

    #[test]
    fn bits_5_and_6_of_the_syndrome_are_its_kind() {
        assert_eq!(Syndrome::from_byte(0x1f), Syndrome::Ack { credits: 31 });
        assert_eq!(Syndrome::from_byte(0x2c), Syndrome::RnrNak { timer: 12 });
        assert_eq!(Syndrome::from_byte(0x40), Syndrome::Reserved(0x40));
        assert_eq!(Syndrome::from_byte(0x60), Syndrome::Nak(NakCode::PSN_SEQUENCE_ERROR));
        assert_eq!(Syndrome::from_byte(0x61), Syndrome::Nak(NakCode::INVALID_REQUEST));
        assert_eq!(Syndrome::from_byte(0x62), Syndrome::Nak(NakCode::REMOTE_ACCESS_ERROR));
        assert_eq!(Syndrome::from_byte(0x63), Syndrome::Nak(NakCode::REMOTE_OPERATIONAL_ERROR));
        assert_eq!(Syndrome::from_byte(0x64), Syndrome::Nak(NakCode::INVALID_RD_REQUEST));
        assert_eq!(Syndrome::from_byte(0x65), Syndrome::Nak(NakCode(5)));
        assert_eq!(Syndrome::from_byte(0x80), Syndrome::Reserved(0x80));
        assert!((0..=255).all(|byte| Syndrome::from_byte(byte).byte() == byte));
    }

    #[test]
    fn credits_are_encoded_in_half_octaves() {
        let credits = |code| Syndrome::Ack { credits: code }.credits();
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8].map(credits), [0, 1, 2, 3, 4, 6, 8, 12, 16].map(Some));
        assert_eq!(credits(30), Some(32_768));
        assert_eq!(credits(31), None);
        assert_eq!(Syndrome::Nak(NakCode::INVALID_REQUEST).credits(), None);
    }

    #[test]
    fn timer_of_a_receiver_that_is_not_ready() {
        let wait = |code| Syndrome::RnrNak { timer: code }.wait_us();
        assert_eq!(wait(0), Some(655_360));
        assert_eq!(wait(1), Some(10));
        assert_eq!(wait(5), Some(60));
        assert_eq!(wait(14), Some(1_280));
        assert_eq!(wait(31), Some(491_520));
        assert_eq!(Syndrome::Ack { credits: 1 }.wait_us(), None);
    }

    #[test]
    fn local_route_header_of_a_management_datagram() {
        let bytes = [0xf0, 0x02, 0xff, 0xff, 0x00, 0x48, 0x00, 0x07];
        let (lrh, _) = Lrh::decode(&bytes, 0, &mut NullFieldObserver).unwrap();
        assert_eq!((lrh.vl, lrh.lver, lrh.sl, lrh.lnh), (15, 0, 0, LrhLinkNextHeader::LOCAL));
        assert_eq!((lrh.dlid, lrh.pktlen, lrh.slid), (Lid(0xffff), 72, Lid(7)));
        assert_eq!(lrh.encode(), bytes);
    }
}
