//! Network layers below RDMA and RPC: link layers, IP, UDP, TCP, and tunnels.
//!
//! Every header is described once with [`header!`](crate::header!). The description drives both decoding and reporting
//! to the observer.

mod erspan;
mod global_route;
pub mod gre;
mod infiniband_link;
mod innermost_packet;
mod ip;
mod link_headers;
mod loopback_and_erf_frames;
mod mpls;
mod network_layer;
mod tcp_checksum;
mod transport;
mod transport_headers;
mod tunnel;
mod undecodable_frame;
mod vxlan;

pub use erspan::{Erspan2, Erspan3, ErspanFrameType, ErspanPlatform};
pub use infiniband_link::InfiniBandRawHeader;
pub use innermost_packet::{InnermostNetworkPacket, NetworkLayerPayload};
pub use ip::{IpFragment, IpIdentification, IpProtocol, Ipv4, Ipv6, Ipv6Fragment, LengthInWords};
pub use link_headers::{
    ByteSwappedLoopbackHeader, Erf, ErfExtension, ErfType, EtherType, Ethernet, Loopback, LoopbackAddressFamily, Sll,
    Sll2, Vlan,
};
pub use mpls::{Mpls, PseudowireChannel, PseudowireControl};
pub use tcp_checksum::{TcpChecksum, has_wrong_ipv4_checksum};
pub use transport_headers::{Tcp, TcpFlagBits, TcpFlags, TcpSegment, TcpSequence, Udp, UdpDatagram};
pub use undecodable_frame::{NetworkHeaderDefect, UndecodableFrameReason};
pub use vxlan::Vxlan;

use crate::address::{Address, VirtualNetwork};
use crate::captured_frame::{CapturedSlice, Frame, LinkType};
use crate::field::registry::{FieldRegistry, describe_headers};
use crate::field::{FieldObserver, NullFieldObserver, TypeErasedFieldObserver};
use innermost_packet::InnermostNetworkContext;
use tunnel::TunnelNesting;

/// Adds the fields of this module to a registry.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    describe_headers!(registry; Ethernet, Vlan, Sll, Sll2, Loopback, ByteSwappedLoopbackHeader, Erf, ErfExtension);
    describe_headers!(registry; Ipv4, Ipv6, Ipv6Fragment, Udp, Tcp, TcpFlagBits);
    registry.field(&transport::TCP_OPTIONS);
    describe_headers!(registry; Erspan2, Erspan3, ErspanPlatform, Mpls, PseudowireControl, PseudowireChannel, Vxlan);
    gre::describe(registry);
    infiniband_link::describe(registry);
}

/// Decodes the addresses and the payload of a frame.
pub fn decode<'a, O: FieldObserver<'a>>(frame: &Frame<'a>, observer: &mut O) -> InnermostNetworkPacket<'a> {
    match O::ignores_all() {
        true => decode_silently(frame),
        false => report(frame, &mut TypeErasedFieldObserver::new(observer)),
    }
}

fn report<'a>(frame: &Frame<'a>, observer: &mut TypeErasedFieldObserver<'_, 'a>) -> InnermostNetworkPacket<'a> {
    decode_with(frame, observer)
}

/// Does the same as [`decode`] without an observer.
#[inline]
pub fn decode_silently<'a>(frame: &Frame<'a>) -> InnermostNetworkPacket<'a> {
    decode_with(frame, &mut NullFieldObserver)
}

#[inline]
fn decode_with<'a, O: FieldObserver<'a>>(frame: &Frame<'a>, observer: &mut O) -> InnermostNetworkPacket<'a> {
    let slice = frame.as_slice();
    match frame.link {
        LinkType::ETHERNET => network_layer::decode_ethernet(slice, TunnelNesting::NONE, observer),
        LinkType::LINUX_SLL => {
            let header = Sll::decode_slice(slice, observer).map(|(header, rest)| (header.etype, rest));
            network_layer::decode_after_header(header, slice, observer)
        }
        LinkType::LINUX_SLL2 => {
            let header = Sll2::decode_slice(slice, observer).map(|(header, rest)| (header.etype, rest));
            network_layer::decode_after_header(header, slice, observer)
        }
        LinkType::NULL | LinkType::LOOP => loopback_and_erf_frames::decode_loopback(slice, observer),
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            network_layer::decode_ip(slice, TunnelNesting::NONE, observer)
        }
        LinkType::ERF => loopback_and_erf_frames::decode_erf(slice, observer),
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
        true => network_layer::decode_transport(protocol, payload, context, &mut NullFieldObserver),
        false => report_payload(protocol, payload, context, &mut TypeErasedFieldObserver::new(observer)),
    }
}

fn report_payload<'a>(
    protocol: IpProtocol,
    payload: CapturedSlice<'a>,
    context: InnermostNetworkContext,
    observer: &mut TypeErasedFieldObserver<'_, 'a>,
) -> InnermostNetworkPacket<'a> {
    network_layer::decode_transport(protocol, payload, context, observer)
}

#[cfg(test)]
mod tests;
