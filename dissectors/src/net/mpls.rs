//! MPLS: a label stack, followed by IP or an Ethernet pseudowire. RFC 3032, RFC 4385, RFC 4448.
//!
//! The labels do not identify the payload. Its first four bits do (RFC 4928 section 3): 4 and 6 start an IP datagram, 0
//! a control word, 1 an associated channel. A pseudowire without control word starts with an arbitrary Ethernet
//! address, so the bits may be ambiguous. Then the plausibility of the headers after them decides.

use super::ip::{Ipv4, Ipv6};
use super::link_headers::{EtherType, Ethernet};
use super::tunnel::{TunnelPayload, TunnelPayloadType};
use super::undecodable_frame::{NetworkHeaderDefect, UndecodableFrameReason};
use crate::captured_frame::CapturedSlice;
use crate::field::{FieldObserver, NullFieldObserver};

crate::header! {
    /// MPLS label stack entry. RFC 3032 section 2.1.
    pub struct Mpls [4] "mpls" {
        0..20 label: u32 => "mpls.label",
        20..23 exp: u8 => "mpls.exp",
        /// `true` in the last entry of the stack.
        23..24 bottom: bool => "mpls.bottom",
        24..32 ttl: u8 => "mpls.ttl",
    }

    /// Control word of an Ethernet pseudowire. RFC 4448 section 4.6.
    pub struct PseudowireControl [4] "pweth" {
        16..32 sequence_number: u16 => "pweth.cw.sequence_number",
    }

    /// Associated channel header of a pseudowire. RFC 4385 section 5.
    pub struct PseudowireChannel [4] "pwach" {
        4..8 ver: u8 => "pwach.ver",
        8..16 res: u8 => "pwach.res",
        16..32 channel_type: u16 => "pwach.channel_type",
    }
}

/// Label before an IPv4 datagram. RFC 3032 section 2.1.
const IPV4_EXPLICIT_NULL: u32 = 0;
/// Label before an IPv6 datagram.
const IPV6_EXPLICIT_NULL: u32 = 2;

/// Decodes a label stack. Returns its payload.
#[inline(never)]
pub(super) fn decode_label_stack<'a, O: FieldObserver<'a>>(
    mut slice: CapturedSlice<'a>,
    observer: &mut O,
) -> Result<TunnelPayload<'a>, UndecodableFrameReason> {
    let last = loop {
        let Some((entry, rest)) = Mpls::decode_slice(slice, observer) else {
            return Err(UndecodableFrameReason::incomplete(slice, Mpls::LENGTH, NetworkHeaderDefect::MplsStack));
        };
        slice = rest;
        if entry.bottom {
            break entry.label;
        }
    };
    let payload_type = match (last, slice.bytes.first().map(|first| first >> 4)) {
        (IPV4_EXPLICIT_NULL, _) => TunnelPayloadType::Network(EtherType::IPV4),
        (IPV6_EXPLICIT_NULL, _) => TunnelPayloadType::Network(EtherType::IPV6),
        (_, Some(4 | 6)) if may_be_ip(slice) || !is_ethernet(slice) => TunnelPayloadType::Ip,
        (_, Some(0)) => {
            if has_control_word(slice) {
                PseudowireControl::decode(slice.bytes, slice.at, observer);
                slice = slice.skip_bytes(PseudowireControl::LENGTH);
            }
            TunnelPayloadType::Ethernet
        }
        (_, Some(_)) if is_ethernet(slice) => TunnelPayloadType::Ethernet,
        (_, first) => {
            if first == Some(1) {
                PseudowireChannel::decode(slice.bytes, slice.at, observer);
            }
            return Err(match first {
                None if slice.length > 0 => UndecodableFrameReason::Cut { at: slice.at },
                _ => UndecodableFrameReason::EtherType(EtherType::MPLS),
            });
        }
    };
    Ok(TunnelPayload::new(payload_type, slice))
}

/// Returns `true` if the length in the IP header matches this part, allowing for padding of a short frame and for a few
/// bytes appended by a mirror. A truncated header always passes.
fn may_be_ip(slice: CapturedSlice<'_>) -> bool {
    let length = if slice.bytes.first().is_some_and(|first| first >> 4 == 4) {
        Ipv4::decode(slice.bytes, slice.at, &mut NullFieldObserver).map(|(header, _)| usize::from(header.len))
    } else {
        Ipv6::decode(slice.bytes, slice.at, &mut NullFieldObserver)
            .map(|(header, _)| Ipv6::LENGTH + usize::from(header.plen))
    };
    let is_padded = slice.length <= MAX_PADDED_PAYLOAD_BYTES;
    length.is_none_or(|length| length <= slice.length && (is_padded || slice.length - length <= MAX_TRAILER_BYTES))
}

/// Maximum payload after one label in an Ethernet frame of minimum length, in bytes.
const MAX_PADDED_PAYLOAD_BYTES: usize = 60 - Ethernet::LENGTH - Mpls::LENGTH;
/// Maximum number of bytes that a mirror appends to a frame, such as a timestamp.
const MAX_TRAILER_BYTES: usize = 16;

/// Returns `true` if an Ethernet header with a named EtherType begins here.
fn is_ethernet(slice: CapturedSlice<'_>) -> bool {
    Ethernet::decode(slice.bytes, slice.at, &mut NullFieldObserver)
        .is_some_and(|(header, _)| header.ethertype.name().is_some())
}

/// Returns `true` if four zero bits begin a control word instead of an Ethernet address. The upper half of a control
/// word is zero (RFC 4448 section 4.6), but many addresses begin with zeros, too.
fn has_control_word(slice: CapturedSlice<'_>) -> bool {
    match (is_ethernet(slice), is_ethernet(slice.skip_bytes(PseudowireControl::LENGTH))) {
        (true, false) => false,
        (false, true) => true,
        _ => slice.bytes.starts_with(&[0, 0]),
    }
}
