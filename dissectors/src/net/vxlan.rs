//! VXLAN: Ethernet frames in UDP. RFC 7348.

use super::transport::UdpDatagram;
use super::tunnel::{InnermostNetworkContext, TunnelPayloadType, decode_inner_network};
use super::{InnermostNetworkPacket, NetworkLayerPayload};
use crate::address::{Port, VirtualNetwork};
use crate::field::FieldObserver;

crate::header! {
    /// Virtual eXtensible Local Area Network, with the group policy bits. RFC 7348 section 5.
    pub struct Vxlan [8] "vxlan" {
        0..1 flag_g: bool => "vxlan.flag_g",
        /// `true` if the network identifier is valid.
        4..5 flag_i: bool => "vxlan.flag_i",
        9..10 flag_d: bool => "vxlan.flag_d",
        12..13 flag_a: bool => "vxlan.flag_a",
        16..32 gbp: u16 => "vxlan.gbp",
        /// VXLAN Network Identifier.
        32..56 vni: u32 => "vxlan.vni",
    }
}

/// Destination port of VXLAN. RFC 7348 section 5.
pub(super) const PORT: Port = Port(4789);

/// Decodes a UDP datagram to the VXLAN port. Without a valid network identifier it is plain UDP.
#[inline(never)]
pub(super) fn decode_datagram<'a, O: FieldObserver<'a>>(
    datagram: UdpDatagram<'a>,
    context: InnermostNetworkContext,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let slice = datagram.payload;
    let is_vxlan = slice.bytes.first().is_none_or(|first| first & VALID_VNI_FLAG != 0);
    if slice.length < Vxlan::LENGTH || !is_vxlan {
        return context.into_datagram(NetworkLayerPayload::Udp(datagram));
    }
    match Vxlan::decode_slice(slice, observer) {
        Some((header, rest)) => {
            let tenant = VirtualNetwork::network(header.vni);
            decode_inner_network(TunnelPayloadType::Ethernet, rest, context, tenant, observer)
        }
        None => context.into_datagram(NetworkLayerPayload::cut(slice.at)),
    }
}

/// Bit of the first VXLAN byte that marks a valid network identifier.
const VALID_VNI_FLAG: u8 = 0x08;
