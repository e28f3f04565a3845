//! MPLS: a stack of labels, and behind it IP or a pseudo-wire of Ethernet. RFC 3032, RFC 4385, RFC 4448.
//!
//! The labels do not say what follows them. The first four bits do (RFC 4928 section 3): 4 and 6 begin an IP datagram,
//! 0 a control word, 1 a channel beside the pseudo-wire. A pseudo-wire without control word begins with any address
//! of Ethernet, so that the bits alone may deceive; then the headers that would follow decide.

use super::ip::{Ipv4, Ipv6};
use super::link::{EtherType, Ethernet};
use super::tunnel::{FrameDecodeContext, TunnelNesting, TunnelPayload, enter, lacking};
use super::{Datagram, HeaderDefect, UnreadFrameReason};
use crate::field::{NullObserver, Observer};
use crate::frame::CapturedSlice;

crate::header! {
    /// Label stack entry of MPLS. RFC 3032 section 2.1.
    pub struct Mpls [4] "mpls" {
        0..20 label: u32 => "mpls.label",
        20..23 exp: u8 => "mpls.exp",
        /// This is the last entry of the stack.
        23..24 bottom: bool => "mpls.bottom",
        24..32 ttl: u8 => "mpls.ttl",
    }

    /// Control word of an Ethernet pseudo-wire. RFC 4448 section 4.6.
    pub struct PseudowireControl [4] "pweth" {
        16..32 sequence_number: u16 => "pweth.cw.sequence_number",
    }

    /// Channel beside a pseudo-wire. RFC 4385 section 5.
    pub struct PseudowireChannel [4] "pwach" {
        4..8 ver: u8 => "pwach.ver",
        8..16 res: u8 => "pwach.res",
        16..32 channel_type: u16 => "pwach.channel_type",
    }
}

/// IPv4 follows. RFC 3032 section 2.1.
const IPV4_EXPLICIT_NULL: u32 = 0;
/// IPv6 follows.
const IPV6_EXPLICIT_NULL: u32 = 2;

/// A stack of labels, and what it carries.
#[inline(never)]
pub(super) fn labels<'a, O: Observer<'a>>(
    mut part: CapturedSlice<'a>,
    depth: TunnelNesting,
    observer: &mut O,
) -> Datagram<'a> {
    let way = FrameDecodeContext::without_network(depth);
    let last = loop {
        let Some((entry, _)) = Mpls::decode(part.bytes, part.at, observer) else {
            return way.ends(lacking(part, Mpls::LENGTH, HeaderDefect::MplsStack));
        };
        part = part.after(Mpls::LENGTH);
        if entry.bottom {
            break entry.label;
        }
    };
    match (last, part.bytes.first().map(|first| first >> 4)) {
        (IPV4_EXPLICIT_NULL, _) => enter(TunnelPayload::Network(EtherType::IPV4), part, way, observer),
        (IPV6_EXPLICIT_NULL, _) => enter(TunnelPayload::Network(EtherType::IPV6), part, way, observer),
        (_, Some(4 | 6)) if may_be_ip(part) || !is_ethernet(part) => {
            enter(TunnelPayload::Ip, part, way, observer)
        }
        (_, Some(0)) if has_control_word(part) => {
            PseudowireControl::decode(part.bytes, part.at, observer);
            enter(TunnelPayload::Ethernet, part.after(PseudowireControl::LENGTH), way, observer)
        }
        (_, Some(0)) => enter(TunnelPayload::Ethernet, part, way, observer),
        (_, Some(_)) if is_ethernet(part) => enter(TunnelPayload::Ethernet, part, way, observer),
        (_, first) => {
            if first == Some(1) {
                PseudowireChannel::decode(part.bytes, part.at, observer);
            }
            way.ends(match first {
                None if part.length > 0 => UnreadFrameReason::Cut { at: part.at },
                _ => UnreadFrameReason::EtherType(EtherType::MPLS),
            })
        }
    }
}

/// Whether the length in an IP header is that of this part, but for the padding of a short frame and a few bytes that
/// a mirror appends; a header that the capture cut may say anything.
fn may_be_ip(part: CapturedSlice<'_>) -> bool {
    let length = if part.bytes.first().is_some_and(|first| first >> 4 == 4) {
        Ipv4::decode(part.bytes, part.at, &mut NullObserver).map(|(header, _)| usize::from(header.len))
    } else {
        Ipv6::decode(part.bytes, part.at, &mut NullObserver)
            .map(|(header, _)| Ipv6::LENGTH + usize::from(header.plen))
    };
    let is_padded = part.length <= PADDED;
    length.is_none_or(|length| length <= part.length && (is_padded || part.length - length <= TRAILER))
}

/// What follows the label in a frame of Ethernet that is as short as can be, in bytes.
const PADDED: usize = 60 - Ethernet::LENGTH - Mpls::LENGTH;
/// The most that a mirror appends to a frame, such as a timestamp, in bytes.
const TRAILER: usize = 16;

/// Whether an Ethernet header with an ether type of a name begins here.
fn is_ethernet(part: CapturedSlice<'_>) -> bool {
    Ethernet::decode(part.bytes, part.at, &mut NullObserver)
        .is_some_and(|(header, _)| header.ethertype.name().is_some())
}

/// Whether four bits of zero begin a control word, and no address of Ethernet. Its upper half is zero (RFC 4448
/// section 4.6), which also many addresses begin with.
fn has_control_word(part: CapturedSlice<'_>) -> bool {
    match (is_ethernet(part), is_ethernet(part.after(PseudowireControl::LENGTH))) {
        (true, false) => false,
        (false, true) => true,
        _ => part.bytes.starts_with(&[0, 0]),
    }
}
