//! From a captured frame down to what carries RDMA or RPC: link layers, IP, UDP and TCP, and tunnels around them.
//!
//! Every header is described once with [`header!`](crate::header!), and that description both finds the way and
//! tells an observer about it.

mod erspan;
pub mod gre;
mod infiniband_link;
mod ip;
mod link;
mod mpls;
mod transport;
mod tunnel;
mod vxlan;

use std::fmt;
use std::hash::{Hash, Hasher};

pub use erspan::{Erspan2, Erspan3, ErspanPlatform, FrameType};
pub use infiniband_link::RawHeader;
pub use ip::{Identification, IpFragment, IpProtocol, Ipv4, Ipv6, Ipv6Fragment, WordCount};
pub use link::{
    Erf, ErfExtension, ErfType, EtherType, Ethernet, Family, Loopback, Sll, Sll2, SwappedLoopback, Vlan,
};
pub use mpls::{Mpls, PseudowireChannel, PseudowireControl};
pub use transport::{Tcp, TcpFlagBits, TcpFlags, TcpSegment, TcpSequence, Udp, UdpDatagram};
pub use vxlan::Vxlan;

use tunnel::{FrameDecodeContext, TunnelNesting};

use crate::address::{Address, Tenant};
use crate::field::Observer;
use crate::field::registry::{Registry, describe_headers};
use crate::frame::{CapturedSlice, Frame, LinkType};
use crate::infiniband::icrc::{self, Icrc};
use crate::infiniband::{self, InfinibandPacket};

/// Adds the fields of this room to a registry.
pub(crate) fn describe(registry: &mut Registry) {
    describe_headers!(registry; Ethernet, Vlan, Sll, Sll2, Loopback, SwappedLoopback, Erf, ErfExtension);
    describe_headers!(registry; Ipv4, Ipv6, Ipv6Fragment, Udp, Tcp, TcpFlagBits);
    registry.field(&transport::TCP_OPTIONS);
    describe_headers!(registry; Erspan2, Erspan3, ErspanPlatform, Mpls, PseudowireControl, PseudowireChannel, Vxlan);
    gre::describe(registry);
    infiniband_link::describe(registry);
}

/// What a frame carries, and between whom; inside of a tunnel, what the tunnel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub source: Address,
    /// Who gets it.
    pub destination: Address,
    /// Where the header with these addresses begins: IP, or the first route header of InfiniBand.
    pub network: usize,
    /// The identification of the IPv4 datagram (RFC 791 section 3.1); 0 where there is none.
    pub identification: u16,
    /// The virtual network that it is in.
    pub tenant: Tenant,
    /// What it carries.
    pub carried: DatagramPayload<'a>,
}

/// What a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramPayload<'a> {
    /// A packet of the InfiniBand transport.
    Infiniband(InfinibandPacket<'a>),
    /// A segment of TCP.
    Tcp(TcpSegment<'a>),
    /// A datagram of UDP, but for RoCEv2.
    Udp(UdpDatagram<'a>),
    /// A fragment of an IP datagram.
    Fragment(IpFragment<'a>),
    /// Nothing that this program reads.
    Other(UnreadFrameReason),
}

/// Why a frame carries nothing that this program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadFrameReason {
    /// A link type without decoder here.
    LinkType(LinkType),
    /// A network protocol without meaning here, such as ARP; below 0x0600 the length of an IEEE 802.3 frame.
    EtherType(EtherType),
    /// An IP protocol without meaning here, such as ICMP.
    IpProtocol(IpProtocol),
    /// A record type of ERF without meaning here, such as flow control of an InfiniBand link.
    ErfRecord(ErfType),
    /// An address family of a loopback frame without meaning here.
    Family(Family),
    /// The capture ends within the header that begins here.
    Cut {
        /// Position in the frame.
        at: usize,
    },
    /// A header that says what cannot be.
    Malformed {
        /// What is wrong.
        what: HeaderDefect,
        /// Position in the frame.
        at: usize,
    },
    /// It should be a packet of the InfiniBand transport, and is none.
    Infiniband(infiniband::PacketError),
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderDefect {
    /// Neither version 4 nor 6, or not the one that the layer above says.
    IpVersion,
    /// A header length below 20 bytes or beyond the datagram.
    IpHeaderLength,
    /// An extension header beyond the datagram, or in a place that is not allowed.
    IpExtension,
    /// A length below 8 or beyond the datagram.
    UdpLength,
    /// A header length below 20 bytes or beyond the datagram.
    TcpHeaderLength,
    /// A link version that is not 0.
    LrhVersion,
    /// A packet length shorter than the headers.
    LrhLength,
    /// A version that is not 6.
    GrhVersion,
    /// Something else than the Base Transport Header follows.
    GrhNextHeader,
    /// A version of GRE that is neither 0 nor 1.
    GreVersion,
    /// A GRE header beyond the datagram.
    GreHeader,
    /// A version that is not the one of the GRE protocol type.
    ErspanVersion,
    /// A frame type that is neither Ethernet nor IP.
    ErspanFrameType,
    /// An ERSPAN header beyond the datagram.
    ErspanHeader,
    /// A label stack beyond the frame.
    MplsStack,
    /// More tunnels inside of each other than are read.
    TunnelDepth,
}

impl fmt::Display for HeaderDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::IpVersion => "IP version",
            Self::IpHeaderLength => "IP header length",
            Self::IpExtension => "IPv6 extension header",
            Self::UdpLength => "UDP length",
            Self::TcpHeaderLength => "TCP header length",
            Self::LrhVersion => "LRH version",
            Self::LrhLength => "LRH packet length",
            Self::GrhVersion => "GRH version",
            Self::GrhNextHeader => "GRH next header",
            Self::GreVersion => "GRE version",
            Self::GreHeader => "GRE header length",
            Self::ErspanVersion => "ERSPAN version",
            Self::ErspanFrameType => "ERSPAN frame type",
            Self::ErspanHeader => "ERSPAN header length",
            Self::MplsStack => "MPLS label stack",
            Self::TunnelDepth => "nesting of tunnels",
        })
    }
}

impl fmt::Display for UnreadFrameReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(link) => write!(f, "link type {} is not known here", link.0),
            Self::EtherType(ether_type) => write!(f, "ether type {ether_type}"),
            Self::IpProtocol(protocol) => write!(f, "IP protocol {protocol}"),
            Self::ErfRecord(record) => write!(f, "ERF record type {record}"),
            Self::Family(family) => write!(f, "address family {family}"),
            Self::Cut { at } => write!(f, "the capture ends within the header at byte {at}"),
            Self::Malformed { what, at } => write!(f, "bad {what} at byte {at}"),
            Self::Infiniband(error) => error.fmt(f),
        }
    }
}

impl<'a> Datagram<'a> {
    fn other(reason: UnreadFrameReason) -> Self {
        Self {
            source: Address::Unknown,
            destination: Address::Unknown,
            network: 0,
            identification: 0,
            tenant: Tenant::NONE,
            carried: DatagramPayload::Other(reason),
        }
    }

    fn cut(at: usize) -> Self {
        Self::other(UnreadFrameReason::Cut { at })
    }

    fn malformed(what: HeaderDefect, at: usize) -> Self {
        Self::other(UnreadFrameReason::Malformed { what, at })
    }

    /// A hash of who talks to whom, and in which virtual network; another one the other way round.
    pub(crate) fn between(&self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        (self.tenant, self.source, self.destination).hash(&mut hasher);
        hasher.finish()
    }

    /// Checks the ICRC of the packet that this frame carries; `None` when it carries none. What was put together
    /// from fragments is not checked.
    pub fn icrc(&self, frame: &Frame<'a>) -> Option<Icrc> {
        let DatagramPayload::Infiniband(packet) = &self.carried else { return None };
        let routes = frame.bytes.get(self.network..packet.at);
        let bytes = frame.bytes.get(packet.at..packet.at + packet.length);
        Some(match (routes, bytes) {
            (Some(routes), Some(bytes)) => icrc::check(packet.wire, routes, bytes),
            _ => Icrc::Unknown,
        })
    }
}

impl DatagramPayload<'_> {
    /// Where what is carried ends in the frame, as far as it was captured; padding of the link layer may follow. `None`
    /// where nothing that is read is carried.
    pub fn end(&self) -> Option<usize> {
        let part = |part: &CapturedSlice<'_>| part.at + part.bytes.len();
        match self {
            Self::Infiniband(packet) => Some(packet.at + packet.length),
            Self::Tcp(segment) => Some(part(&segment.payload)),
            Self::Udp(datagram) => Some(part(&datagram.payload)),
            Self::Fragment(fragment) => Some(part(&fragment.payload)),
            Self::Other(_) => None,
        }
    }

    fn cut(at: usize) -> Self {
        Self::Other(UnreadFrameReason::Cut { at })
    }

    fn malformed(what: HeaderDefect, at: usize) -> Self {
        Self::Other(UnreadFrameReason::Malformed { what, at })
    }
}

/// Finds what a frame carries.
#[inline]
pub fn decode<'a, O: Observer<'a>>(frame: &Frame<'a>, observer: &mut O) -> Datagram<'a> {
    let part = frame.part();
    match frame.link {
        LinkType::ETHERNET => link::ethernet(part, TunnelNesting::NONE, observer),
        LinkType::LINUX_SLL => link::sll(part, observer),
        LinkType::LINUX_SLL2 => link::sll2(part, observer),
        LinkType::NULL | LinkType::LOOP => link::null(part, observer),
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            ip::either(part, TunnelNesting::NONE, observer)
        }
        LinkType::ERF => link::erf(part, observer),
        LinkType::INFINIBAND => infiniband_link::local(part, observer),
        other => Datagram::other(UnreadFrameReason::LinkType(other)),
    }
}

/// Finds what the payload of an IP datagram carries that was put together from fragments; `payload.at` is where
/// the observer is told that it begins.
pub fn decode_payload<'a, O: Observer<'a>>(
    source: Address,
    destination: Address,
    tenant: Tenant,
    protocol: IpProtocol,
    payload: CapturedSlice<'a>,
    observer: &mut O,
) -> Datagram<'a> {
    let way = FrameDecodeContext {
        source,
        destination,
        network: payload.at,
        identification: 0,
        depth: TunnelNesting::within(tenant),
    };
    transport::decode(protocol, payload, way, observer)
}

#[cfg(test)]
mod tests;
