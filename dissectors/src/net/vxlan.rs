//! VXLAN: Ethernet frames in UDP. RFC 7348.

use super::transport_headers::UdpDatagram;
use super::tunnel::{TunnelPayload, TunnelPayloadType};
use super::undecodable_frame::UndecodableFrameReason;
use crate::address::{Port, VirtualNetwork};
use crate::captured_frame::CapturedSlice;
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
const PORT: Port = Port(4789);

/// Returns `true` if the datagram goes to the VXLAN port, and has a valid network identifier as far as it was captured.
#[inline(always)]
pub(super) fn is_vxlan(datagram: &UdpDatagram<'_>) -> bool {
    let slice = datagram.payload;
    datagram.destination_port == PORT
        && slice.length >= Vxlan::LENGTH
        && slice.bytes.first().is_none_or(|first| first & VALID_VNI_FLAG != 0)
}

/// Decodes the header. Returns the payload.
#[inline(never)]
pub(super) fn decode_header<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> Result<TunnelPayload<'a>, UndecodableFrameReason> {
    let (header, slice) = Vxlan::decode_slice(slice, observer).ok_or(UndecodableFrameReason::Cut { at: slice.at })?;
    let tenant = VirtualNetwork::network(header.vni);
    Ok(TunnelPayload { payload_type: TunnelPayloadType::Ethernet, slice, tenant })
}

/// Bit of the first VXLAN byte that marks a valid network identifier.
const VALID_VNI_FLAG: u8 = 0x08;
