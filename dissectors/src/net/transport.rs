//! UDP and TCP, and RoCEv2 in UDP.

use super::innermost_packet::NetworkLayerPayload;
use super::transport_headers::{Tcp, TcpFlagBits, TcpSegment, Udp, UdpDatagram};
use super::undecodable_frame::NetworkHeaderDefect;
use crate::address::Port;
use crate::captured_frame::CapturedSlice;
use crate::field::{FieldObserver, FieldValue};
use crate::infiniband::packet::RdmaEncapsulation;

crate::field::fields! {
    pub(super) TCP_OPTIONS = "tcp.options" "options" Bytes, "Options. RFC 9293 section 3.1";
}

/// Offset of the control bits in a TCP header.
const TCP_FLAGS_OFFSET: usize = 13;

/// Destination port of RoCEv2. InfiniBand Architecture Specification volume 1, annex A17.
const ROCE_V2_PORT: Port = Port(4791);

#[inline(always)]
pub(super) fn decode_udp<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> NetworkLayerPayload<'a> {
    if slice.length < Udp::LENGTH {
        return NetworkLayerPayload::malformed(NetworkHeaderDefect::UdpLength, slice.at);
    }
    let Some((header, _)) = Udp::decode(slice.bytes, slice.at, observer) else {
        return NetworkLayerPayload::cut(slice.at);
    };
    let length = if header.length == 0 { slice.length } else { usize::from(header.length) };
    if length < Udp::LENGTH || length > slice.length {
        return NetworkLayerPayload::malformed(NetworkHeaderDefect::UdpLength, slice.at + 4);
    }
    let payload = slice.with_length(length).skip_bytes(Udp::LENGTH);
    if header.dstport == ROCE_V2_PORT {
        return NetworkLayerPayload::decode_infiniband(payload, RdmaEncapsulation::RoceV2, observer);
    }
    NetworkLayerPayload::Udp(UdpDatagram { source_port: header.srcport, destination_port: header.dstport, payload })
}

#[inline]
pub(super) fn decode_tcp<'a, O: FieldObserver<'a>>(
    slice: CapturedSlice<'a>,
    observer: &mut O,
) -> NetworkLayerPayload<'a> {
    if slice.length < Tcp::LENGTH {
        return NetworkLayerPayload::malformed(NetworkHeaderDefect::TcpHeaderLength, slice.at);
    }
    let Some((header, _)) = Tcp::decode(slice.bytes, slice.at, observer) else {
        return NetworkLayerPayload::cut(slice.at);
    };
    if O::is_enabled() {
        TcpFlagBits::decode(slice.skip_bytes(TCP_FLAGS_OFFSET).bytes, slice.at + TCP_FLAGS_OFFSET, observer);
    }
    let header_length = header.hdr_len.bytes() as usize;
    if header_length < Tcp::LENGTH || header_length > slice.length {
        return NetworkLayerPayload::malformed(NetworkHeaderDefect::TcpHeaderLength, slice.at + 12);
    }
    let header_bytes = slice.bytes.get(..header_length).unwrap_or(slice.bytes);
    let options = header_bytes.get(Tcp::LENGTH..).unwrap_or_default();
    if O::is_enabled() && options.len() == header_length - Tcp::LENGTH && !options.is_empty() {
        let at = slice.at + Tcp::LENGTH;
        observer.value(&TCP_OPTIONS, at..at + options.len(), FieldValue::Bytes(options));
    }
    NetworkLayerPayload::Tcp(TcpSegment {
        source_port: header.srcport,
        destination_port: header.dstport,
        sequence: header.seq,
        acknowledgment: header.ack,
        flags: header.flags,
        window: header.window,
        header: header_bytes,
        payload: slice.skip_bytes(header_length),
    })
}
