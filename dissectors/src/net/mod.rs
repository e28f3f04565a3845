//! Network layers below RDMA and RPC: link layers, IP, UDP, TCP, and tunnels.
//!
//! Every header is described once with [`header!`](crate::header!). The description drives both decoding and reporting
//! to the observer.

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

pub use erspan::{Erspan2, Erspan3, ErspanFrameType, ErspanPlatform};
pub use infiniband_link::InfiniBandRawHeader;
pub use ip::{IpFragment, IpIdentification, IpProtocol, Ipv4, Ipv6, Ipv6Fragment, LengthInWords};
pub use link::{
    ByteSwappedLoopbackHeader, Erf, ErfExtension, ErfType, EtherType, Ethernet, Loopback,
    LoopbackAddressFamily, Sll, Sll2, Vlan,
};
pub use mpls::{Mpls, PseudowireChannel, PseudowireControl};
pub use transport::{Tcp, TcpFlagBits, TcpFlags, TcpSegment, TcpSequence, Udp, UdpDatagram};
pub use vxlan::Vxlan;

use tunnel::{InnermostNetworkContext, TunnelNesting};

use crate::address::{Address, VirtualNetwork};
use crate::captured_frame::{CapturedSlice, Frame, LinkType};
use crate::field::registry::{FieldRegistry, describe_headers};
use crate::field::{FieldObserver, NullFieldObserver, TypeErasedFieldObserver};
use crate::infiniband::icrc::{self, Icrc};
use crate::infiniband::{self, InfinibandPacket};

/// Adds the fields of this module to a registry.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    describe_headers!(registry; Ethernet, Vlan, Sll, Sll2, Loopback, ByteSwappedLoopbackHeader, Erf, ErfExtension);
    describe_headers!(registry; Ipv4, Ipv6, Ipv6Fragment, Udp, Tcp, TcpFlagBits);
    registry.field(&transport::TCP_OPTIONS);
    describe_headers!(registry; Erspan2, Erspan3, ErspanPlatform, Mpls, PseudowireControl, PseudowireChannel, Vxlan);
    gre::describe(registry);
    infiniband_link::describe(registry);
}

/// Addresses and payload of a frame. In a tunnel, those of the innermost datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnermostNetworkPacket<'a> {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Offset of the header with these addresses: IP, or the first route header of InfiniBand.
    pub network_offset: usize,
    /// Identification of the IPv4 datagram (RFC 791 section 3.1); 0 if there is none.
    pub identification: u16,
    /// Virtual network.
    pub tenant: VirtualNetwork,
    /// Payload.
    pub payload: NetworkLayerPayload<'a>,
}

/// Payload of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkLayerPayload<'a> {
    /// A packet of the InfiniBand transport.
    Infiniband(InfinibandPacket<'a>),
    /// A TCP segment.
    Tcp(TcpSegment<'a>),
    /// A UDP datagram, except RoCEv2.
    Udp(UdpDatagram<'a>),
    /// A fragment of an IP datagram.
    Fragment(IpFragment<'a>),
    /// Nothing that is decoded.
    Other(UndecodableFrameReason),
}

/// Reason that a frame has no decodable payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndecodableFrameReason {
    /// Unsupported link type.
    LinkType(LinkType),
    /// Unsupported network protocol, such as ARP; below 0x0600 the length of an IEEE 802.3 frame.
    EtherType(EtherType),
    /// Unsupported IP protocol, such as ICMP.
    IpProtocol(IpProtocol),
    /// Unsupported ERF record type, such as flow control of an InfiniBand link.
    ErfRecord(ErfType),
    /// Unsupported address family of a loopback frame.
    Family(LoopbackAddressFamily),
    /// The capture ends within the header at this position.
    Cut {
        /// Position in the frame.
        at: usize,
    },
    /// A malformed header.
    Malformed {
        /// Kind of the defect.
        what: NetworkHeaderDefect,
        /// Position in the frame.
        at: usize,
    },
    /// A malformed packet of the InfiniBand transport.
    Infiniband(infiniband::PacketError),
}

/// Kind of a header defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkHeaderDefect {
    /// Neither version 4 nor 6, or not the version announced by the layer below.
    IpVersion,
    /// A header length below 20 bytes or beyond the datagram.
    IpHeaderLength,
    /// An extension header beyond the datagram, or in an invalid position.
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
    /// The next header is not the Base Transport Header.
    GrhNextHeader,
    /// A version of GRE that is neither 0 nor 1.
    GreVersion,
    /// The GRE header extends beyond the datagram.
    GreHeader,
    /// The version does not match the GRE protocol type.
    ErspanVersion,
    /// A frame type that is neither Ethernet nor IP.
    ErspanFrameType,
    /// The ERSPAN header extends beyond the datagram.
    ErspanHeader,
    /// The label stack extends beyond the frame.
    MplsStack,
    /// Tunnels are nested too deeply.
    TunnelDepth,
}

impl fmt::Display for NetworkHeaderDefect {
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

impl fmt::Display for UndecodableFrameReason {
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

impl<'a> InnermostNetworkPacket<'a> {
    fn from_unread_reason(reason: UndecodableFrameReason) -> Self {
        InnermostNetworkContext::without_network(TunnelNesting::NONE).into_unread(reason)
    }

    fn cut(at: usize) -> Self {
        Self::from_unread_reason(UndecodableFrameReason::Cut { at })
    }

    fn malformed(defect: NetworkHeaderDefect, at: usize) -> Self {
        Self::from_unread_reason(UndecodableFrameReason::Malformed { what: defect, at })
    }

    /// Returns a hash of virtual network, source and destination. It depends on the direction.
    pub(crate) fn address_hash(&self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        (self.tenant, self.source, self.destination).hash(&mut hasher);
        hasher.finish()
    }

    /// Checks the ICRC of the packet in this frame. Returns `None` if there is no packet. Packets reassembled from IP
    /// fragments are not checked.
    pub fn icrc(&self, frame: &Frame<'a>) -> Option<Icrc> {
        let NetworkLayerPayload::Infiniband(packet) = &self.payload else { return None };
        let routes = frame.bytes.get(self.network_offset..packet.at);
        let bytes = frame.bytes.get(packet.at..packet.at + packet.length);
        Some(match (routes, bytes) {
            (Some(routes), Some(bytes)) => icrc::check(packet.encapsulation, routes, bytes),
            _ => Icrc::Unknown,
        })
    }
}

impl NetworkLayerPayload<'_> {
    /// Returns the end of the payload in the frame, before any padding of the link layer, or `None` if nothing was
    /// decoded.
    pub fn end_offset(&self) -> Option<usize> {
        let slice_end = |slice: &CapturedSlice<'_>| slice.at + slice.bytes.len();
        match self {
            Self::Infiniband(packet) => Some(packet.at + packet.length),
            Self::Tcp(segment) => Some(slice_end(&segment.payload)),
            Self::Udp(datagram) => Some(slice_end(&datagram.payload)),
            Self::Fragment(fragment) => Some(slice_end(&fragment.payload)),
            Self::Other(_) => None,
        }
    }

    fn cut(at: usize) -> Self {
        Self::Other(UndecodableFrameReason::Cut { at })
    }

    fn malformed(defect: NetworkHeaderDefect, at: usize) -> Self {
        Self::Other(UndecodableFrameReason::Malformed { what: defect, at })
    }
}

/// Decodes the addresses and the payload of a frame.
pub fn decode<'a, O: FieldObserver<'a>>(frame: &Frame<'a>, observer: &mut O) -> InnermostNetworkPacket<'a> {
    match O::ignores_all() {
        true => decode_silently(frame),
        false => report(frame, &mut TypeErasedFieldObserver::new(observer)),
    }
}

fn report<'a>(
    frame: &Frame<'a>,
    observer: &mut TypeErasedFieldObserver<'_, 'a>,
) -> InnermostNetworkPacket<'a> {
    decode_with(frame, observer)
}

/// Does the same as [`decode`] without an observer.
#[inline]
pub(crate) fn decode_silently<'a>(frame: &Frame<'a>) -> InnermostNetworkPacket<'a> {
    decode_with(frame, &mut NullFieldObserver)
}

#[inline]
fn decode_with<'a, O: FieldObserver<'a>>(frame: &Frame<'a>, observer: &mut O) -> InnermostNetworkPacket<'a> {
    let slice = frame.as_slice();
    match frame.link {
        LinkType::ETHERNET => link::decode_ethernet(slice, TunnelNesting::NONE, observer),
        LinkType::LINUX_SLL => {
            let header = Sll::decode_slice(slice, observer).map(|(header, rest)| (header.etype, rest));
            link::decode_after_header(header, slice, observer)
        }
        LinkType::LINUX_SLL2 => {
            let header = Sll2::decode_slice(slice, observer).map(|(header, rest)| (header.etype, rest));
            link::decode_after_header(header, slice, observer)
        }
        LinkType::NULL | LinkType::LOOP => link::decode_loopback(slice, observer),
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            ip::decode_ip(slice, TunnelNesting::NONE, observer)
        }
        LinkType::ERF => link::decode_erf(slice, observer),
        LinkType::INFINIBAND => infiniband_link::decode_local(slice, observer),
        other => InnermostNetworkPacket::from_unread_reason(UndecodableFrameReason::LinkType(other)),
    }
}

/// Decodes the payload of an IP datagram reassembled from fragments. `payload.at` is its position for the observer.
pub fn decode_payload<'a, O: FieldObserver<'a>>(
    source: Address,
    destination: Address,
    tenant: VirtualNetwork,
    protocol: IpProtocol,
    payload: CapturedSlice<'a>,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let context = InnermostNetworkContext {
        source,
        destination,
        network_offset: payload.at,
        identification: 0,
        nesting: TunnelNesting::in_tenant(tenant),
    };
    match O::ignores_all() {
        true => transport::decode(protocol, payload, context, &mut NullFieldObserver),
        false => report_payload(protocol, payload, context, &mut TypeErasedFieldObserver::new(observer)),
    }
}

fn report_payload<'a>(
    protocol: IpProtocol,
    payload: CapturedSlice<'a>,
    context: InnermostNetworkContext,
    observer: &mut TypeErasedFieldObserver<'_, 'a>,
) -> InnermostNetworkPacket<'a> {
    transport::decode(protocol, payload, context, observer)
}

#[cfg(test)]
mod tests;
