//! Link layers, up to the EtherType of a frame.

use super::tunnel::TunnelNesting;
use super::{InnermostNetworkPacket, UndecodableFrameReason, infiniband_link, ip, mpls};
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;

crate::named! {
    /// EtherType: the network protocol, as numbered by Ethernet and GRE.
    pub struct EtherType(u16) {
        IPV4 = 0x0800 "IPv4",
        ARP = 0x0806 "ARP",
        /// In GRE: an Ethernet frame.
        TRANSPARENT_ETHERNET = 0x6558 "Transparent Ethernet Bridging",
        VLAN = 0x8100 "802.1Q VLAN",
        IPV6 = 0x86dd "IPv6",
        FLOW_CONTROL = 0x8808 "Ethernet flow control",
        MPLS = 0x8847 "MPLS",
        /// Upstream-assigned labels. RFC 5332 section 3.
        MPLS_UPSTREAM = 0x8848 "MPLS (upstream label)",
        PPP = 0x880b "PPP",
        SERVICE_VLAN = 0x88a8 "802.1ad VLAN",
        /// In GRE: a mirrored frame, after a header of type II if GRE has a sequence number.
        ERSPAN = 0x88be "ERSPAN",
        LLDP = 0x88cc "LLDP",
        /// In GRE: a mirrored frame after a header of type III.
        ERSPAN_3 = 0x22eb "ERSPAN type III",
        PTP = 0x88f7 "PTP",
        /// RoCEv1: a Global Route Header follows.
        ROCE = 0x8915 "RoCE",
        /// VLAN tag of QinQ before 802.1ad.
        OLD_SERVICE_VLAN = 0x9100 "QinQ VLAN",
    }

    /// Address family of a loopback frame; the number of IPv6 depends on the system.
    pub struct LoopbackAddressFamily(u32) {
        INET = 2 "IPv4",
        INET6_LINUX = 10 "IPv6 (Linux)",
        INET6_OPENBSD = 24 "IPv6 (NetBSD, OpenBSD)",
        INET6_FREEBSD = 28 "IPv6 (FreeBSD)",
        INET6_MACOS = 30 "IPv6 (macOS)",
    }

    /// Record type of ERF, 7 bits.
    pub struct ErfType(u8) {
        ETHERNET = 2 "Ethernet",
        COLOR_ETHERNET = 11 "Ethernet with colour",
        DSM_ETHERNET = 16 "Ethernet with stream",
        INFINIBAND = 21 "InfiniBand",
        /// Link flow control without a packet.
        INFINIBAND_LINK = 25 "InfiniBand link",
    }
}

crate::header! {
    /// Ethernet II. IEEE 802.3 section 3.
    pub struct Ethernet [14] "eth" {
        0..48 dst: [u8; 6] => "eth.dst",
        48..96 src: [u8; 6] => "eth.src",
        /// Next protocol; a length if below 0x0600.
        96..112 ethertype: EtherType => "eth.type",
    }

    /// VLAN tag. IEEE 802.1Q section 9.6.
    pub struct Vlan [4] "vlan" {
        0..3 priority: u8 => "vlan.priority",
        3..4 dei: bool => "vlan.dei",
        4..16 id: u16 => "vlan.id",
        /// Next protocol.
        16..32 etype: EtherType => "vlan.etype",
    }

    /// Linux cooked capture. <https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html>
    pub struct Sll [16] "sll" {
        /// Direction: incoming (0 to 3) or outgoing (4).
        0..16 pkttype: u16 => "sll.pkttype",
        /// Device type, a Linux ARPHRD_ value.
        16..32 hatype: u16 => "sll.hatype",
        32..48 halen: u16 => "sll.halen",
        48..96 src: [u8; 6] => "sll.src.eth",
        /// Next protocol.
        112..128 etype: EtherType => "sll.etype",
    }

    /// Linux cooked capture, version 2. <https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html>
    pub struct Sll2 [20] "sll" {
        /// Next protocol.
        0..16 etype: EtherType => "sll.etype",
        32..64 ifindex: u32 => "sll.ifindex",
        /// Device type, a Linux ARPHRD_ value.
        64..80 hatype: u16 => "sll.hatype",
        /// Direction: incoming (0 to 3) or outgoing (4).
        80..88 pkttype: u8 => "sll.pkttype",
        88..96 halen: u8 => "sll.halen",
        96..144 src: [u8; 6] => "sll.src.eth",
    }

    /// Loopback, in network byte order. <https://www.tcpdump.org/linktypes.html>
    pub struct Loopback [4] "null" {
        0..32 family: LoopbackAddressFamily => "null.family",
    }

    /// Loopback, in reverse byte order. <https://www.tcpdump.org/linktypes.html>
    pub struct ByteSwappedLoopbackHeader [4] "null" {
        0..8 family: u8 => "null.family",
    }

    /// Extensible Record Format of Endace. <https://www.tcpdump.org/linktypes/LINKTYPE_ERF.html>
    pub struct Erf [16] "erf" {
        /// `true` if an extension header of eight bytes follows.
        64..65 ext_header: bool => "erf.types.ext_header",
        65..72 record_type: ErfType => "erf.types.type",
        72..80 flags: u8 => "erf.flags",
        /// Length of the record in bytes, with this header.
        80..96 rlen: u16 => "erf.rlen",
        /// Number of records lost before this one.
        96..112 lctr: u16 => "erf.lctr",
        /// Length on the wire in bytes.
        112..128 wlen: u16 => "erf.wlen",
    }

    /// Extension header of ERF. <https://www.tcpdump.org/linktypes/LINKTYPE_ERF.html>
    pub struct ErfExtension [8] "erf.ehdr" {
        /// `true` if another extension header follows.
        0..1 more: bool => "erf.types.ext_header",
        1..8 extension_type: u8 => "erf.ehdr.types",
    }
}

#[inline(always)]
pub(super) fn decode_ethernet<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    depth: TunnelNesting,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    match Ethernet::decode_slice(slice, observer) {
        Some((header, rest)) => decode_network(header.ethertype, rest, depth, observer),
        None => InnermostNetworkPacket::cut(slice.at),
    }
}

/// Decodes the protocol of an EtherType, after any VLAN tags.
#[inline(always)]
pub(super) fn decode_network<'a, O: FieldObserver<'a>>(
    mut ether_type: EtherType,
    mut slice: CapturedSlice<'a>,
    mut depth: TunnelNesting,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    loop {
        return match ether_type {
            EtherType::IPV4 => ip::decode_ipv4(slice, depth, observer),
            EtherType::IPV6 => ip::decode_ipv6(slice, depth, observer),
            EtherType::ROCE => infiniband_link::decode_global(slice, depth.tenant, observer),
            EtherType::VLAN | EtherType::SERVICE_VLAN | EtherType::OLD_SERVICE_VLAN => {
                let Some((tag, rest)) = Vlan::decode_slice(slice, observer) else {
                    return InnermostNetworkPacket::cut(slice.at);
                };
                depth.tenant = depth.tenant.with_vlan(tag.id);
                (ether_type, slice) = (tag.etype, rest);
                continue;
            }
            EtherType::MPLS | EtherType::MPLS_UPSTREAM => mpls::decode_label_stack(slice, depth, observer),
            other => InnermostNetworkPacket::from_unread_reason(UndecodableFrameReason::EtherType(other)),
        };
    }
}

/// Decodes the protocol after the header of a link layer at `slice`: its EtherType and the rest, if it was captured.
pub(super) fn decode_after_header<'a, O: FieldObserver<'a>>(
    header: Option<(EtherType, CapturedSlice<'a>)>,
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    match header {
        Some((ether_type, rest)) => decode_network(ether_type, rest, TunnelNesting::NONE, observer),
        None => InnermostNetworkPacket::cut(slice.at),
    }
}

/// Decodes a loopback frame. The first byte reveals the byte order, because every family number fits one byte.
pub(super) fn decode_loopback<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let family = if slice.bytes.first().is_some_and(|first| *first != 0) {
        ByteSwappedLoopbackHeader::decode(slice.bytes, slice.at, observer)
            .map(|(header, _)| LoopbackAddressFamily(u32::from(header.family)))
    } else {
        Loopback::decode(slice.bytes, slice.at, observer).map(|(header, _)| header.family)
    };
    let rest = slice.skip_bytes(Loopback::LENGTH);
    match family {
        None => InnermostNetworkPacket::cut(slice.at),
        Some(LoopbackAddressFamily::INET) => ip::decode_ipv4(rest, TunnelNesting::NONE, observer),
        Some(
            LoopbackAddressFamily::INET6_LINUX
            | LoopbackAddressFamily::INET6_OPENBSD
            | LoopbackAddressFamily::INET6_FREEBSD
            | LoopbackAddressFamily::INET6_MACOS,
        ) => ip::decode_ipv6(rest, TunnelNesting::NONE, observer),
        Some(other) => InnermostNetworkPacket::from_unread_reason(UndecodableFrameReason::Family(other)),
    }
}

/// Length of the padding before the Ethernet frame of an ERF record, in bytes.
const ERF_ETHERNET_PADDING_BYTES: usize = 2;

pub(super) fn decode_erf<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let Some((header, mut rest)) = Erf::decode_slice(slice, observer) else {
        return InnermostNetworkPacket::cut(slice.at);
    };
    let mut has_extension = header.ext_header;
    while has_extension {
        let Some((extension, after)) = ErfExtension::decode_slice(rest, observer) else {
            return InnermostNetworkPacket::cut(rest.at);
        };
        (has_extension, rest) = (extension.more, after);
    }
    match header.record_type {
        ErfType::ETHERNET | ErfType::COLOR_ETHERNET | ErfType::DSM_ETHERNET => {
            decode_ethernet(rest.skip_bytes(ERF_ETHERNET_PADDING_BYTES), TunnelNesting::NONE, observer)
        }
        ErfType::INFINIBAND => infiniband_link::decode_local(rest, observer),
        other => InnermostNetworkPacket::from_unread_reason(UndecodableFrameReason::ErfRecord(other)),
    }
}
