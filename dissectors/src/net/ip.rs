//! Headers of IPv4 and IPv6, and fragments of datagrams.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::captured_frame::CapturedSlice;
use crate::field::{FieldKind, FieldValue};
use crate::fixed_header::{HeaderBitFieldValue, bits, put_bits};

crate::named! {
    /// IP protocol number. <https://www.iana.org/assignments/protocol-numbers>
    pub struct IpProtocol(u8) {
        HOP_BY_HOP = 0 "IPv6 hop-by-hop options",
        ICMP = 1 "ICMP",
        IGMP = 2 "IGMP",
        IPV4 = 4 "IPv4",
        TCP = 6 "TCP",
        UDP = 17 "UDP",
        IPV6 = 41 "IPv6",
        ROUTING = 43 "IPv6 routing",
        FRAGMENT = 44 "IPv6 fragment",
        GRE = 47 "GRE",
        ESP = 50 "ESP",
        AUTHENTICATION = 51 "AH",
        ICMPV6 = 58 "ICMPv6",
        NONE = 59 "no next header",
        DESTINATION_OPTIONS = 60 "IPv6 destination options",
        SCTP = 132 "SCTP",
        MPLS = 137 "MPLS",
    }
}

/// A length in words of `UNIT` bytes, reported in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthInWords<const UNIT: u32>(pub u16);

impl<const UNIT: u32> LengthInWords<UNIT> {
    /// Returns the length in bytes.
    #[inline(always)]
    pub fn bytes(self) -> u32 {
        u32::from(self.0) * UNIT
    }
}

impl<'a, const UNIT: u32> HeaderBitFieldValue<'a> for LengthInWords<UNIT> {
    const KIND: FieldKind = FieldKind::Unsigned;

    #[inline(always)]
    fn get<const LENGTH: usize, const START: usize, const END: usize>(header: &'a [u8; LENGTH]) -> Self {
        const { assert!(END - START <= 16) };
        Self(bits::<LENGTH, START, END>(header) as u16)
    }

    fn put<const START: usize, const END: usize>(self, header: &mut [u8]) {
        put_bits::<START, END>(u64::from(self.0), header);
    }

    fn value(self) -> FieldValue<'a> {
        FieldValue::Unsigned(u64::from(self.bytes()))
    }
}

crate::number! {
    /// Identification common to the fragments of one datagram: 16 bits in IPv4, 32 in IPv6.
    pub struct IpIdentification(u32) as Hex(4);
}

crate::header! {
    /// IPv4. RFC 791 section 3.1.
    pub struct Ipv4 [20] "ip" {
        0..4 version: u8 => "ip.version",
        /// Length of this header with its options.
        4..8 hdr_len: LengthInWords<4> => "ip.hdr_len",
        8..16 dsfield: u8 => "ip.dsfield",
        /// Length of the datagram in bytes, with this header; 0 if segmentation offload left it unset.
        16..32 len: u16 => "ip.len",
        32..48 id: IpIdentification => "ip.id",
        48..49 rb: bool => "ip.flags.rb",
        49..50 df: bool => "ip.flags.df",
        /// `true` if more fragments follow.
        50..51 mf: bool => "ip.flags.mf",
        /// Offset of the fragment in the datagram.
        51..64 frag_offset: LengthInWords<8> => "ip.frag_offset",
        64..72 ttl: u8 => "ip.ttl",
        72..80 proto: IpProtocol => "ip.proto",
        80..96 checksum: u16 => "ip.checksum",
        96..128 src: Ipv4Addr => "ip.src",
        128..160 dst: Ipv4Addr => "ip.dst",
    }

    /// IPv6. RFC 8200 section 3.
    pub struct Ipv6 [40] "ipv6" {
        0..4 version: u8 => "ipv6.version",
        4..12 tclass: u8 => "ipv6.tclass",
        12..32 flow: u32 => "ipv6.flow",
        /// Length in bytes after this header; 0 in a jumbogram, or if segmentation offload left it unset.
        32..48 plen: u16 => "ipv6.plen",
        48..56 nxt: IpProtocol => "ipv6.nxt",
        56..64 hlim: u8 => "ipv6.hlim",
        64..192 src: Ipv6Addr => "ipv6.src",
        192..320 dst: Ipv6Addr => "ipv6.dst",
    }

    /// IPv6 fragment header. RFC 8200 section 4.5.
    pub struct Ipv6Fragment [8] "ipv6.fraghdr" {
        0..8 nxt: IpProtocol => "ipv6.fraghdr.nxt",
        /// Offset of the fragment in the datagram.
        16..29 offset: LengthInWords<8> => "ipv6.fraghdr.offset",
        /// `true` if more fragments follow.
        31..32 more: bool => "ipv6.fraghdr.more",
        32..64 ident: IpIdentification => "ipv6.fraghdr.ident",
    }
}

/// A fragment of an IP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFragment<'a> {
    /// Protocol of the reassembled datagram.
    pub protocol: IpProtocol,
    /// Identification common to the fragments of one datagram.
    pub identification: IpIdentification,
    /// Offset in the payload of the datagram in bytes, 0 to 65,528.
    pub offset: u32,
    /// `true` if more fragments follow.
    pub has_more_fragments: bool,
    /// Payload of this fragment.
    pub payload: CapturedSlice<'a>,
}
