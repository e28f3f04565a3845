//! Generic Routing Encapsulation: IP protocol 47, with a payload of any EtherType. RFC 2784, RFC 2890, RFC 1701.

use super::erspan;
use super::link_headers::EtherType;
use super::tunnel::{TunnelPayload, TunnelPayloadType};
use super::undecodable_frame::{NetworkHeaderDefect, UndecodableFrameReason};
use crate::address::VirtualNetwork;
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;
use crate::field::registry::{FieldRegistry, describe_headers};

/// Adds the fields of GRE to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    describe_headers!(registry; GreFlags, GreChecksumAndOffset, GreKeyField, GreSequenceNumber, GreSourceRouteEntry);
}

crate::number! {
    /// Key of a flow within a GRE tunnel. NVGRE uses its upper 24 bits as Virtual Subnet ID.
    pub struct GreKey(u32) as Hex(8);
}

crate::field::fields! {
    pub GRE = "gre" "GRE" Group, "Generic Routing Encapsulation. RFC 2784 section 2, RFC 2890 section 2.";
}

crate::header! {
    /// GRE flags and protocol type. RFC 2784 section 2.1, RFC 2890 section 2, RFC 1701.
    pub struct GreFlags [4] "gre.flags_and_version" {
        0..1 checksum: bool => "gre.flags.checksum",
        1..2 routing: bool => "gre.flags.routing",
        2..3 key: bool => "gre.flags.key",
        3..4 sequence_number: bool => "gre.flags.sequence_number",
        4..5 strict_source_route: bool => "gre.flags.strict_source_route",
        5..8 recursion_control: u8 => "gre.flags.recursion_control",
        13..16 version: u8 => "gre.flags.version",
        /// Type of the payload.
        16..32 proto: EtherType => "gre.proto",
    }

    /// GRE checksum, and offset of the active source route. RFC 2784 section 2.3, RFC 1701.
    pub struct GreChecksumAndOffset [4] "gre.checksum_and_offset" {
        0..16 checksum: u16 => "gre.checksum",
        16..32 offset: u16 => "gre.offset",
    }

    /// GRE key. RFC 2890 section 2.1.
    pub struct GreKeyField [4] "gre.key_group" {
        0..32 key: GreKey => "gre.key",
    }

    /// GRE sequence number. RFC 2890 section 2.2.
    pub struct GreSequenceNumber [4] "gre.sequence" {
        0..32 sequence_number: u32 => "gre.sequence_number",
    }

    /// GRE source route entry; family and length 0 end the list. RFC 1701.
    pub struct GreSourceRouteEntry [4] "gre.routing" {
        0..16 address_family: u16 => "gre.routing.address_family",
        16..24 sre_offset: u8 => "gre.routing.sre_offset",
        /// Length of the routing information that follows, in bytes.
        24..32 src_length: u8 => "gre.routing.src_length",
    }
}

/// GRE version of PPTP, which has another header. RFC 2637 section 4.1.
const ENHANCED_GRE: u8 = 1;

/// Decodes the header of a GRE packet, and those of ERSPAN after it. Returns the payload.
#[inline(never)]
pub(super) fn decode_packet<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> Result<TunnelPayload<'a>, UndecodableFrameReason> {
    // If the capture ends in the options of the IP header, this part begins after the end of the frame.
    if slice.bytes.is_empty() {
        return Err(incomplete_header(slice));
    }
    observer.enter(&GRE, slice.at);
    let decoded = decode_header(slice, observer);
    // A source route may extend beyond the captured bytes.
    let captured_end = slice.at + slice.bytes.len();
    let end = decoded.as_ref().map_or(captured_end, |(.., rest)| rest.at.min(captured_end));
    observer.leave(end);
    let (flags, key, rest) = decoded?;
    match flags.proto {
        EtherType::TRANSPARENT_ETHERNET => {
            // The upper 24 bits are the Virtual Subnet ID of NVGRE: RFC 7637 section 3.2.
            let tenant = key.map_or(VirtualNetwork::NONE, |key| VirtualNetwork::network(key.0 >> 8));
            Ok(TunnelPayload { payload_type: TunnelPayloadType::Ethernet, slice: rest, tenant })
        }
        // Type I has no ERSPAN header and no sequence number.
        EtherType::ERSPAN if !flags.sequence_number => Ok(TunnelPayload::new(TunnelPayloadType::Ethernet, rest)),
        EtherType::ERSPAN => erspan::decode_type_2(rest, observer),
        EtherType::ERSPAN_3 => erspan::decode_type_3(rest, observer),
        other => Ok(TunnelPayload::new(TunnelPayloadType::Network(other), rest)),
    }
}

/// Decodes the GRE header with its optional fields. Returns the key and the payload, or the reason to stop.
fn decode_header<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> Result<(GreFlags, Option<GreKey>, CapturedSlice<'a>), UndecodableFrameReason> {
    let (flags, mut rest) = GreFlags::decode_slice(slice, observer).ok_or_else(|| incomplete_header(slice))?;
    match flags.version {
        0 => {}
        ENHANCED_GRE => return Err(UndecodableFrameReason::EtherType(flags.proto)),
        _ => {
            let defect = NetworkHeaderDefect::GreVersion;
            return Err(UndecodableFrameReason::Malformed { what: defect, at: slice.at + 1 });
        }
    }
    if flags.checksum || flags.routing {
        (_, rest) = GreChecksumAndOffset::decode_slice(rest, observer).ok_or_else(|| incomplete_header(rest))?;
    }
    let mut key = None;
    if flags.key {
        let (field, after) = GreKeyField::decode_slice(rest, observer).ok_or_else(|| incomplete_header(rest))?;
        (key, rest) = (Some(field.key), after);
    }
    if flags.sequence_number {
        (_, rest) = GreSequenceNumber::decode_slice(rest, observer).ok_or_else(|| incomplete_header(rest))?;
    }
    let mut has_route = flags.routing;
    while has_route {
        let (route, _) =
            GreSourceRouteEntry::decode(rest.bytes, rest.at, observer).ok_or_else(|| incomplete_header(rest))?;
        let length = GreSourceRouteEntry::LENGTH + usize::from(route.src_length);
        if rest.bytes.len() < length {
            return Err(UndecodableFrameReason::incomplete(rest, length, NetworkHeaderDefect::GreHeader));
        }
        rest = rest.skip_bytes(length);
        has_route = route.address_family != 0 || route.src_length != 0;
    }
    Ok((flags, key, rest))
}

/// Returns the defect of an incomplete header of four bytes.
fn incomplete_header(slice: CapturedSlice<'_>) -> UndecodableFrameReason {
    UndecodableFrameReason::incomplete(slice, GreFlags::LENGTH, NetworkHeaderDefect::GreHeader)
}
