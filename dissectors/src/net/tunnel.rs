//! Tunnels: datagrams and frames inside IP datagrams, from overlay networks and mirror ports.
//!
//! The payload of a tunnel is decoded like a frame without tunnel, up to [`TunnelNesting::MAX_TUNNELS`] nested tunnels.
//! The addresses of a [`InnermostNetworkPacket`] are those of the innermost one.

use super::link::{self, EtherType};
use super::{InnermostNetworkPacket, NetworkHeaderDefect, NetworkLayerPayload, UndecodableFrameReason, ip};
use crate::address::{Address, VirtualNetwork};
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;

/// Number of tunnels around a header, and the virtual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TunnelNesting {
    tunnels: u8,
    /// Virtual network of the innermost tunnel.
    pub(super) tenant: VirtualNetwork,
}

impl TunnelNesting {
    /// No tunnel: directly in the link layer of the capture.
    pub(super) const NONE: Self = Self { tunnels: 0, tenant: VirtualNetwork::NONE };
    /// Maximum number of nested tunnels. A mirrored overlay network has two or three.
    const MAX_TUNNELS: u8 = 8;

    /// Returns a nesting without tunnels in this virtual network.
    pub(super) fn in_tenant(tenant: VirtualNetwork) -> Self {
        Self { tenant, ..Self::NONE }
    }

    fn nested(self, tenant: VirtualNetwork) -> Option<Self> {
        (self.tunnels < Self::MAX_TUNNELS).then_some(Self { tunnels: self.tunnels + 1, tenant })
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

    /// Returns the datagram with an incomplete header of `length` bytes.
    pub(super) fn incomplete<'a>(
        self,
        slice: CapturedSlice<'_>,
        length: usize,
        defect: NetworkHeaderDefect,
    ) -> InnermostNetworkPacket<'a> {
        self.into_unread(incomplete_header(slice, length, defect))
    }
}

/// Returns the defect of an incomplete header: malformed if the enclosing length is below `length` bytes, otherwise
/// cut.
pub(super) fn incomplete_header(
    slice: CapturedSlice<'_>,
    length: usize,
    defect: NetworkHeaderDefect,
) -> UndecodableFrameReason {
    if slice.length < length {
        UndecodableFrameReason::Malformed { what: defect, at: slice.at }
    } else {
        UndecodableFrameReason::Cut { at: slice.at }
    }
}

/// Payload type of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TunnelPayloadType {
    /// An Ethernet frame without frame check sequence.
    Ethernet,
    /// A packet of this EtherType.
    Network(EtherType),
    /// An IP datagram of the version in its first four bits.
    Ip,
}

/// Decodes the payload of a tunnel. Kept out of line, because frames without tunnel do not need it.
pub(super) fn decode_inner<'a, O: FieldObserver<'a>>(
    payload_type: TunnelPayloadType,
    slice: CapturedSlice<'a>,
    context: InnermostNetworkContext,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    decode_inner_network(payload_type, slice, context, VirtualNetwork::NONE, observer)
}

/// Same as [`decode_inner`] for a tunnel with a virtual network.
#[inline(never)]
pub(super) fn decode_inner_network<'a, O: FieldObserver<'a>>(
    payload_type: TunnelPayloadType,
    slice: CapturedSlice<'a>,
    context: InnermostNetworkContext,
    tenant: VirtualNetwork,
    observer: &mut O,
) -> InnermostNetworkPacket<'a> {
    let Some(depth) = context.nesting.nested(tenant) else {
        return context.malformed(NetworkHeaderDefect::TunnelDepth, slice.at);
    };
    let datagram = match payload_type {
        TunnelPayloadType::Ethernet => link::decode_ethernet(slice, depth, observer),
        TunnelPayloadType::Network(ether_type) => link::decode_network(ether_type, slice, depth, observer),
        TunnelPayloadType::Ip => ip::decode_ip(slice, depth, observer),
    };
    match (datagram.source, datagram.destination) {
        // A tunneled Ethernet frame never takes the outer addresses, even if it has no network address.
        (Address::Unknown, Address::Unknown) if payload_type != TunnelPayloadType::Ethernet => {
            context.into_datagram(datagram.payload)
        }
        _ => datagram,
    }
}
