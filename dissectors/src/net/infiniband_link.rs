//! Native InfiniBand: the Local Route Header, and the packets after it.

use super::global_route::{datagram, decode_routed};
use super::innermost_packet::{InnermostNetworkPacket, NetworkLayerPayload};
use super::link_headers::EtherType;
use super::network_layer::{decode_after_header, decode_ipv6};
use super::tunnel::TunnelNesting;
use super::undecodable_frame::NetworkHeaderDefect;
use crate::address::Address;
use crate::captured_frame::CapturedSlice;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldObserver, FieldValue};
use crate::infiniband::headers::{Lrh, LrhLinkNextHeader};
use crate::infiniband::packet::RdmaEncapsulation;

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
            let payload = NetworkLayerPayload::decode_infiniband(rest, RdmaEncapsulation::InfiniBand, observer);
            datagram(Address::Lid(lrh.slid), Address::Lid(lrh.dlid), slice.at, payload)
        }
        LrhLinkNextHeader::IPV6 => return decode_ipv6(rest, TunnelNesting::NONE, observer),
        _ => {
            let header = InfiniBandRawHeader::decode_slice(rest, observer);
            let header = header.map(|(header, payload)| (header.etype, payload));
            return decode_after_header(header, rest, observer);
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
