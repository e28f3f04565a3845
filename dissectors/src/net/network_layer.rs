//! Network layer: EtherTypes, IP with its options and extension headers, and tunnels.
//!
//! The payload of a tunnel is decoded like a frame without tunnel, up to [`TunnelNesting::MAX_TUNNELS`] nested tunnels.
//! The addresses of an [`InnermostNetworkPacket`] are those of the innermost one.

use std::net::IpAddr;

use etherparse::{IpAuthHeaderSlice, Ipv6RawExtHeaderSlice};

use super::innermost_packet::{InnermostNetworkContext, InnermostNetworkPacket, NetworkLayerPayload};
use super::ip::{IpFragment, IpProtocol, Ipv4, Ipv6, Ipv6Fragment};
use super::link_headers::{EtherType, Ethernet, Vlan};
use super::tunnel::{TunnelNesting, TunnelPayload, TunnelPayloadType};
use super::undecodable_frame::{NetworkHeaderDefect, UndecodableFrameReason};
use super::{global_route, gre, mpls, transport, vxlan};
use crate::address::Address;
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;

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
            EtherType::IPV4 => decode_ipv4(slice, depth, observer),
            EtherType::IPV6 => decode_ipv6(slice, depth, observer),
            EtherType::ROCE => global_route::decode_global(slice, depth.tenant, observer),
            EtherType::VLAN | EtherType::SERVICE_VLAN | EtherType::OLD_SERVICE_VLAN => {
                let Some((tag, rest)) = Vlan::decode_slice(slice, observer) else {
                    return InnermostNetworkPacket::cut(slice.at);
                };
                depth.tenant = depth.tenant.with_vlan(tag.id);
                (ether_type, slice) = (tag.etype, rest);
                continue;
            }
            EtherType::MPLS | EtherType::MPLS_UPSTREAM => {
                let context = InnermostNetworkContext::without_network(depth);
                decode_tunnel(mpls::decode_label_stack(slice, observer), context, observer)
            }
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

/// Decodes an IP datagram of the version in its first four bits.
pub(super) fn decode_ip<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    depth: TunnelNesting,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    match slice.bytes.first().map(|first| first >> 4) {
        Some(4) => decode_ipv4(slice, depth, observer),
        Some(6) => decode_ipv6(slice, depth, observer),
        Some(_) => InnermostNetworkPacket::malformed(NetworkHeaderDefect::IpVersion, slice.at),
        None => InnermostNetworkPacket::cut(slice.at),
    }
}

#[inline(always)]
pub(super) fn decode_ipv4<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    depth: TunnelNesting,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let Some((header, _)) = Ipv4::decode(slice.bytes, slice.at, observer) else {
        return InnermostNetworkPacket::cut(slice.at);
    };
    if header.version != 4 {
        return InnermostNetworkPacket::malformed(NetworkHeaderDefect::IpVersion, slice.at);
    }
    let header_length = header.hdr_len.bytes() as usize;
    let length = if header.len == 0 { slice.length } else { usize::from(header.len) };
    let context = InnermostNetworkContext {
        source: Address::Ip(IpAddr::V4(header.src)),
        destination: Address::Ip(IpAddr::V4(header.dst)),
        network_offset: slice.at,
        identification: header.id.0 as u16,
        nesting: depth,
    };
    if header_length < Ipv4::LENGTH || header_length > length {
        return context.malformed(NetworkHeaderDefect::IpHeaderLength, slice.at);
    }
    let payload = slice.with_length(length).skip_bytes(header_length);
    if header.mf || header.frag_offset.0 != 0 {
        return context.into_datagram(NetworkLayerPayload::Fragment(IpFragment {
            protocol: header.proto,
            identification: header.id,
            offset: header.frag_offset.bytes(),
            has_more_fragments: header.mf,
            payload,
        }));
    }
    if header.proto == IpProtocol::AUTHENTICATION {
        decode_extensions(header.proto, payload, context, observer)
    } else {
        decode_transport(header.proto, payload, context, observer)
    }
}

#[inline]
pub(super) fn decode_ipv6<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    depth: TunnelNesting,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let Some((header, _)) = Ipv6::decode(slice.bytes, slice.at, observer) else {
        return InnermostNetworkPacket::cut(slice.at);
    };
    if header.version != 6 {
        return InnermostNetworkPacket::malformed(NetworkHeaderDefect::IpVersion, slice.at);
    }
    let rest = slice.skip_bytes(Ipv6::LENGTH);
    let payload = if header.plen == 0 { rest } else { rest.with_length(usize::from(header.plen)) };
    let context = InnermostNetworkContext {
        source: Address::Ip(IpAddr::V6(header.src)),
        destination: Address::Ip(IpAddr::V6(header.dst)),
        network_offset: slice.at,
        identification: 0,
        nesting: depth,
    };
    match header.nxt {
        IpProtocol::UDP | IpProtocol::TCP => decode_transport(header.nxt, payload, context, observer),
        _ => decode_extensions(header.nxt, payload, context, observer),
    }
}

/// Skips extension headers up to the transport header, or up to a fragment header that marks a fragment.
fn decode_extensions<'a, O: FieldObserver<'a>>(
    mut protocol: IpProtocol,
    mut part: CapturedSlice<'a>,
    context: InnermostNetworkContext,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    loop {
        let next = match protocol {
            IpProtocol::HOP_BY_HOP | IpProtocol::ROUTING | IpProtocol::DESTINATION_OPTIONS => {
                let header = Ipv6RawExtHeaderSlice::from_slice(part.bytes).ok();
                header.map(|header| (IpProtocol(header.next_header().0), header.slice().len()))
            }
            IpProtocol::AUTHENTICATION => {
                let header = IpAuthHeaderSlice::from_slice(part.bytes).ok();
                header.map(|header| (IpProtocol(header.next_header().0), header.slice().len()))
            }
            IpProtocol::FRAGMENT => match Ipv6Fragment::decode_slice(part, observer) {
                Some((header, payload)) if header.more || header.offset.0 != 0 => {
                    return context.into_datagram(NetworkLayerPayload::Fragment(IpFragment {
                        protocol: header.nxt,
                        identification: header.ident,
                        offset: header.offset.bytes(),
                        has_more_fragments: header.more,
                        payload,
                    }));
                }
                header => header.map(|(header, _)| (header.nxt, Ipv6Fragment::LENGTH)),
            },
            _ => return decode_transport(protocol, part, context, observer),
        };
        let Some((next_protocol, length)) = next else {
            return match part.is_cut() {
                true => context.into_datagram(NetworkLayerPayload::cut(part.at)),
                false => context.malformed(NetworkHeaderDefect::IpExtension, part.at),
            };
        };
        protocol = next_protocol;
        part = part.skip_bytes(length);
    }
}

/// Decodes the payload of an IP datagram.
#[inline(always)]
pub(super) fn decode_transport<'a, O: FieldObserver<'a>>(
    protocol: IpProtocol,
    payload: CapturedSlice<'a>,
    context: InnermostNetworkContext,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let tunnel = match protocol {
        IpProtocol::UDP => match transport::decode_udp(payload, observer) {
            NetworkLayerPayload::Udp(datagram) if vxlan::is_vxlan(&datagram) => {
                vxlan::decode_header(datagram.payload, observer)
            }
            carried => return context.into_datagram(carried),
        },
        IpProtocol::TCP => return context.into_datagram(transport::decode_tcp(payload, observer)),
        IpProtocol::GRE => gre::decode_packet(payload, observer),
        IpProtocol::IPV4 => Ok(TunnelPayload::new(TunnelPayloadType::Network(EtherType::IPV4), payload)),
        IpProtocol::IPV6 => Ok(TunnelPayload::new(TunnelPayloadType::Network(EtherType::IPV6), payload)),
        IpProtocol::MPLS => Ok(TunnelPayload::new(TunnelPayloadType::Network(EtherType::MPLS), payload)),
        other => return context.into_unread(UndecodableFrameReason::IpProtocol(other)),
    };
    decode_tunnel(tunnel, context, observer)
}

/// Decodes the payload of a tunnel. Kept out of line, because frames without tunnel do not need it.
#[inline(never)]
fn decode_tunnel<'a, O: FieldObserver<'a>>(
    tunnel: Result<TunnelPayload<'a>, UndecodableFrameReason>,
    context: InnermostNetworkContext,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let TunnelPayload { payload_type, slice, tenant } = match tunnel {
        Ok(payload) => payload,
        Err(reason) => return context.into_unread(reason),
    };
    let Some(depth) = context.nesting.nested(tenant) else {
        return context.malformed(NetworkHeaderDefect::TunnelDepth, slice.at);
    };
    let datagram = match payload_type {
        TunnelPayloadType::Ethernet => decode_ethernet(slice, depth, observer),
        TunnelPayloadType::Network(ether_type) => decode_network(ether_type, slice, depth, observer),
        TunnelPayloadType::Ip => decode_ip(slice, depth, observer),
    };
    match (datagram.source, datagram.destination) {
        // A tunneled Ethernet frame never takes the outer addresses, even if it has no network address.
        (Address::Unknown, Address::Unknown) if payload_type != TunnelPayloadType::Ethernet => {
            context.into_datagram(datagram.payload)
        }
        _ => datagram,
    }
}
