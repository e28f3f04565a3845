//! Link layers without an EtherType: loopback and ERF.

use super::infiniband_link;
use super::innermost_packet::InnermostNetworkPacket;
use super::link_headers::{ByteSwappedLoopbackHeader, Erf, ErfExtension, ErfType, Loopback, LoopbackAddressFamily};
use super::network_layer::{decode_ethernet, decode_ipv4, decode_ipv6};
use super::tunnel::TunnelNesting;
use super::undecodable_frame::UndecodableFrameReason;
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;

/// Decodes a loopback frame. The first byte reveals the byte order, because every family number fits one byte.
pub(super) fn decode_loopback<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let family = if slice.bytes.first().is_some_and(|first| *first != 0) {
        ByteSwappedLoopbackHeader::decode(slice.bytes, slice.at, observer)
            .map(|(header, _)| LoopbackAddressFamily(u32::from(header.family)))
    } else {
        Loopback::decode(slice.bytes, slice.at, observer).map(|(header, _)| header.family)
    };
    let rest = slice.skip_bytes(Loopback::LENGTH);
    match family {
        None => InnermostNetworkPacket::cut(slice.at),
        Some(LoopbackAddressFamily::INET) => decode_ipv4(rest, TunnelNesting::NONE, observer),
        Some(
            LoopbackAddressFamily::INET6_LINUX
            | LoopbackAddressFamily::INET6_OPENBSD
            | LoopbackAddressFamily::INET6_FREEBSD
            | LoopbackAddressFamily::INET6_MACOS,
        ) => decode_ipv6(rest, TunnelNesting::NONE, observer),
        Some(other) => InnermostNetworkPacket::from_unread_reason(UndecodableFrameReason::Family(other)),
    }
}

/// Length of the padding before the Ethernet frame of an ERF record, in bytes.
const ERF_ETHERNET_PADDING_BYTES: usize = 2;

pub(super) fn decode_erf<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let Some((header, mut rest)) = Erf::decode_slice(slice, observer) else {
        return InnermostNetworkPacket::cut(slice.at);
    };
    let mut has_extension = header.ext_header;
    while has_extension {
        let Some((extension, after)) = ErfExtension::decode_slice(rest, observer) else {
            return InnermostNetworkPacket::cut(rest.at);
        };
        (has_extension, rest) = (extension.more, after);
    }
    match header.record_type {
        ErfType::ETHERNET | ErfType::COLOR_ETHERNET | ErfType::DSM_ETHERNET => {
            decode_ethernet(rest.skip_bytes(ERF_ETHERNET_PADDING_BYTES), TunnelNesting::NONE, observer)
        }
        ErfType::INFINIBAND => infiniband_link::decode_local(rest, observer),
        other => InnermostNetworkPacket::from_unread_reason(UndecodableFrameReason::ErfRecord(other)),
    }
}
