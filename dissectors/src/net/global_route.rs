//! Packets with the Global Route Header: RoCEv1, and native InfiniBand between subnets.

use super::innermost_packet::{InnermostNetworkContext, InnermostNetworkPacket, NetworkLayerPayload};
use super::tunnel::TunnelNesting;
use super::undecodable_frame::NetworkHeaderDefect;
use crate::address::{Address, VirtualNetwork};
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;
use crate::infiniband::headers::Grh;
use crate::infiniband::packet::RdmaEncapsulation;

/// Decodes a RoCEv1 packet, starting with the Global Route Header.
pub(super) fn decode_global<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    tenant: VirtualNetwork,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    InnermostNetworkPacket { tenant, ..decode_routed(slice, RdmaEncapsulation::RoceV1, observer) }
}

/// Decodes a packet, starting with the Global Route Header.
pub(super) fn decode_routed<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    wire: RdmaEncapsulation,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let Some((grh, rest)) = Grh::decode_slice(slice, observer) else {
        return InnermostNetworkPacket::cut(slice.at);
    };
    if grh.ipver != 6 {
        return InnermostNetworkPacket::malformed(NetworkHeaderDefect::GrhVersion, slice.at);
    }
    let rest = rest.with_length(usize::from(grh.paylen));
    let payload = if grh.nxthdr == Grh::NEXT_BTH {
        NetworkLayerPayload::decode_infiniband(rest, wire, observer)
    } else {
        NetworkLayerPayload::malformed(NetworkHeaderDefect::GrhNextHeader, slice.at + 6)
    };
    datagram(Address::from_gid(grh.sgid), Address::from_gid(grh.dgid), slice.at, payload)
}

/// Returns a datagram without tunnel.
pub(super) fn datagram(
    source: Address,
    destination: Address,
    network_offset: usize,
    payload: NetworkLayerPayload<'_>,
) -> InnermostNetworkPacket<'_> {
    let nesting = TunnelNesting::NONE;
    InnermostNetworkContext { source, destination, network_offset, identification: 0, nesting }.into_datagram(payload)
}
