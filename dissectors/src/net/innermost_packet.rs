//! Innermost network packet of a frame: addresses and payload.

use std::hash::{Hash, Hasher};

use super::ip::IpFragment;
use super::transport_headers::{TcpSegment, UdpDatagram};
use super::tunnel::TunnelNesting;
use super::undecodable_frame::{NetworkHeaderDefect, UndecodableFrameReason};
use crate::address::{Address, VirtualNetwork};
use crate::captured_frame::{CapturedSlice, Frame};
use crate::field::FieldObserver;
use crate::infiniband::icrc::{self, Icrc};
use crate::infiniband::packet::{InfinibandPacket, RdmaEncapsulation};

/// Addresses and payload of a frame. In a tunnel, those of the innermost datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnermostNetworkPacket<'a> {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Offset of the header with these addresses: IP, or the first route header of InfiniBand.
    pub network_offset: usize,
    /// Identification of the IPv4 datagram (RFC 791 section 3.1); 0 if there is none.
    pub identification: u16,
    /// Virtual network.
    pub tenant: VirtualNetwork,
    /// Payload.
    pub payload: NetworkLayerPayload<'a>,
}

/// Payload of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkLayerPayload<'a> {
    /// A packet of the InfiniBand transport.
    Infiniband(InfinibandPacket<'a>),
    /// A TCP segment.
    Tcp(TcpSegment<'a>),
    /// A UDP datagram, except RoCEv2.
    Udp(UdpDatagram<'a>),
    /// A fragment of an IP datagram.
    Fragment(IpFragment<'a>),
    /// Nothing that is decoded.
    Other(UndecodableFrameReason),
}

impl<'a> InnermostNetworkPacket<'a> {
    /// Returns the packet of a frame without a decodable network header.
    pub(super) fn from_unread_reason(reason: UndecodableFrameReason) -> Self {
        InnermostNetworkContext::without_network(TunnelNesting::NONE).into_unread(reason)
    }

    /// Returns the packet of a frame that the capture cuts within the header at `at`.
    pub(super) fn cut(at: usize) -> Self {
        Self::from_unread_reason(UndecodableFrameReason::Cut { at })
    }

    /// Returns the packet of a frame with a malformed header at `at`.
    pub(super) fn malformed(defect: NetworkHeaderDefect, at: usize) -> Self {
        Self::from_unread_reason(UndecodableFrameReason::Malformed { what: defect, at })
    }

    /// Returns a hash of virtual network, source and destination. It depends on the direction.
    pub fn address_hash(&self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        (self.tenant, self.source, self.destination).hash(&mut hasher);
        hasher.finish()
    }

    /// Checks the ICRC of the packet in this frame. Returns `None` if there is no packet. Packets reassembled from IP
    /// fragments are not checked.
    pub fn icrc(&self, frame: &Frame<'a>) -> Option<Icrc> {
        let NetworkLayerPayload::Infiniband(packet) = &self.payload else { return None };
        let routes = frame.bytes.get(self.network_offset..packet.at);
        let bytes = frame.bytes.get(packet.at..packet.at + packet.length);
        Some(match (routes, bytes) {
            (Some(routes), Some(bytes)) => icrc::check(packet.encapsulation, routes, bytes),
            _ => Icrc::Unknown,
        })
    }
}

impl<'a> NetworkLayerPayload<'a> {
    /// Returns the end of the payload in the frame, before any padding of the link layer, or `None` if nothing was
    /// decoded.
    pub fn end_offset(&self) -> Option<usize> {
        let slice_end = |slice: &CapturedSlice<'_>| slice.at + slice.bytes.len();
        match self {
            Self::Infiniband(packet) => Some(packet.at + packet.length),
            Self::Tcp(segment) => Some(slice_end(&segment.payload)),
            Self::Udp(datagram) => Some(slice_end(&datagram.payload)),
            Self::Fragment(fragment) => Some(slice_end(&fragment.payload)),
            Self::Other(_) => None,
        }
    }

    /// Decodes a packet of the InfiniBand transport.
    #[inline(always)]
    pub(super) fn decode_infiniband<O: FieldObserver<'a>>(
        slice: CapturedSlice<'a>,
        encapsulation: RdmaEncapsulation,
        observer: &mut O,
    ) -> Self {
        match InfinibandPacket::decode(slice, encapsulation, observer) {
            Ok(packet) => Self::Infiniband(packet),
            Err(error) => Self::Other(UndecodableFrameReason::Infiniband(error)),
        }
    }

    /// Returns the payload of a frame that the capture cuts within the header at `at`.
    pub(super) fn cut(at: usize) -> Self {
        Self::Other(UndecodableFrameReason::Cut { at })
    }

    /// Returns the payload of a frame with a malformed header at `at`.
    pub(super) fn malformed(defect: NetworkHeaderDefect, at: usize) -> Self {
        Self::Other(UndecodableFrameReason::Malformed { what: defect, at })
    }
}

/// Decoding state of a frame: the innermost network header and the tunnels around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct InnermostNetworkContext {
    /// Source address.
    pub(super) source: Address,
    /// Destination address.
    pub(super) destination: Address,
    /// Offset of the header with these addresses.
    pub(super) network_offset: usize,
    /// Identification of the IPv4 datagram; 0 if there is none.
    pub(super) identification: u16,
    /// Tunnels around that header.
    pub(super) nesting: TunnelNesting,
}

impl InnermostNetworkContext {
    /// Returns a state before any network header.
    pub(super) fn without_network(depth: TunnelNesting) -> Self {
        Self {
            source: Address::Unknown,
            destination: Address::Unknown,
            network_offset: 0,
            identification: 0,
            nesting: depth,
        }
    }

    /// Returns the datagram with this payload.
    #[inline(always)]
    pub(super) fn into_datagram(self, payload: NetworkLayerPayload<'_>) -> InnermostNetworkPacket<'_> {
        InnermostNetworkPacket {
            source: self.source,
            destination: self.destination,
            network_offset: self.network_offset,
            identification: self.identification,
            tenant: self.nesting.tenant,
            payload,
        }
    }

    /// Returns the datagram with the reason that it has no decodable payload.
    pub(super) fn into_unread<'a>(self, reason: UndecodableFrameReason) -> InnermostNetworkPacket<'a> {
        self.into_datagram(NetworkLayerPayload::Other(reason))
    }

    /// Returns the datagram with a malformed header at `at`.
    pub(super) fn malformed<'a>(self, defect: NetworkHeaderDefect, at: usize) -> InnermostNetworkPacket<'a> {
        self.into_unread(UndecodableFrameReason::Malformed { what: defect, at })
    }
}
