//! EtherTypes, and headers of link layers.

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
