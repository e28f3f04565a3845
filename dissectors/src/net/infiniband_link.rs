//! InfiniBand link and network headers: the Local Route Header of native packets, and the Global Route Header of
//! RoCEv1.

use super::link::{self, EtherType};
use super::tunnel::{InnermostNetworkContext, TunnelNesting};
use super::{InnermostNetworkPacket, NetworkHeaderDefect, NetworkLayerPayload, UndecodableFrameReason, ip};
use crate::address::{Address, VirtualNetwork};
use crate::captured_frame::CapturedSlice;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldObserver, FieldValue};
use crate::infiniband::{Grh, InfinibandPacket, Lrh, LrhLinkNextHeader, RdmaEncapsulation};

crate::header! {
    /// Raw header: the EtherType of a packet without InfiniBand transport. InfiniBand Architecture Specification volume
    /// 1, section 5.3.
    pub struct InfiniBandRawHeader [4] "infiniband.rwh" {
        /// Next protocol.
        16..32 etype: EtherType => "infiniband.rwh.etype",
    }
}

crate::field::fields! {
    VARIANT_CRC = "infiniband.variant.crc" "VCRC" Hex(4),
        "Variant CRC, as the two bytes stand. Section 7.8.2.";
}

/// Adds the fields of this module to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    InfiniBandRawHeader::describe(registry);
    registry.field(&VARIANT_CRC);
}

const VARIANT_CRC_LENGTH: usize = 2;

/// Decodes a native packet, starting with the Local Route Header.
pub(super) fn decode_local<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let Some((lrh, _)) = Lrh::decode(slice.bytes, slice.at, observer) else {
        return InnermostNetworkPacket::cut(slice.at);
    };
    if lrh.lver != 0 {
        return InnermostNetworkPacket::malformed(NetworkHeaderDefect::LrhVersion, slice.at);
    }
    let length = usize::from(lrh.pktlen) * 4;
    if length < Lrh::LENGTH {
        return InnermostNetworkPacket::malformed(NetworkHeaderDefect::LrhLength, slice.at + 4);
    }
    let rest = slice.with_length(length).skip_bytes(Lrh::LENGTH);
    let mut packet = match lrh.lnh {
        LrhLinkNextHeader::GLOBAL => decode_routed(rest, RdmaEncapsulation::InfiniBand, observer),
        LrhLinkNextHeader::LOCAL => {
            let payload = decode_packet(rest, RdmaEncapsulation::InfiniBand, observer);
            datagram(Address::Lid(lrh.slid), Address::Lid(lrh.dlid), slice.at, payload)
        }
        LrhLinkNextHeader::IPV6 => return ip::decode_ipv6(rest, TunnelNesting::NONE, observer),
        _ => {
            let header = InfiniBandRawHeader::decode_slice(rest, observer);
            let header = header.map(|(header, payload)| (header.etype, payload));
            return link::decode_after_header(header, rest, observer);
        }
    };
    packet.network_offset = slice.at;
    if O::is_enabled() {
        let crc = slice.skip_bytes(length);
        if let Some((bytes, _)) = crc.bytes.split_first_chunk::<VARIANT_CRC_LENGTH>() {
            let value = FieldValue::Unsigned(u64::from(u16::from_be_bytes(*bytes)));
            observer.value(&VARIANT_CRC, crc.at..crc.at + VARIANT_CRC_LENGTH, value);
        }
    }
    packet
}

/// Decodes a RoCEv1 packet, starting with the Global Route Header.
pub(super) fn decode_global<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    tenant: VirtualNetwork,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    InnermostNetworkPacket { tenant, ..decode_routed(slice, RdmaEncapsulation::RoceV1, observer) }
}

fn decode_routed<'a, O: FieldObserver<'a>>(
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
        decode_packet(rest, wire, observer)
    } else {
        NetworkLayerPayload::malformed(NetworkHeaderDefect::GrhNextHeader, slice.at + 6)
    };
    datagram(Address::from_gid(grh.sgid), Address::from_gid(grh.dgid), slice.at, payload)
}

fn datagram(
    source: Address,
    destination: Address,
    network_offset: usize,
    payload: NetworkLayerPayload<'_>,
) -> InnermostNetworkPacket<'_> {
    let nesting = TunnelNesting::NONE;
    InnermostNetworkContext { source, destination, network_offset, identification: 0, nesting }
        .into_datagram(payload)
}

/// Decodes a packet of the InfiniBand transport.
#[inline(always)]
pub(super) fn decode_packet<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    wire: RdmaEncapsulation,
    observer: &mut O,
) -> NetworkLayerPayload<'a> {
    match InfinibandPacket::decode(slice, wire, observer) {
        Ok(packet) => NetworkLayerPayload::Infiniband(packet),
        Err(error) => NetworkLayerPayload::Other(UndecodableFrameReason::Infiniband(error)),
    }
}
