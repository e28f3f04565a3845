//! Tunnels: datagrams and frames inside IP datagrams, from overlay networks and mirror ports.

use super::link_headers::EtherType;
use crate::address::VirtualNetwork;
use crate::captured_frame::CapturedSlice;

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

    /// Returns the nesting inside one more tunnel, or `None` beyond the maximum.
    pub(super) fn nested(self, tenant: VirtualNetwork) -> Option<Self> {
        (self.tunnels < Self::MAX_TUNNELS).then_some(Self { tunnels: self.tunnels + 1, tenant })
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

/// Payload of a tunnel, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct TunnelPayload<'a> {
    /// Type of the payload.
    pub(super) payload_type: TunnelPayloadType,
    /// The payload.
    pub(super) slice: CapturedSlice<'a>,
    /// Virtual network of the tunnel.
    pub(super) tenant: VirtualNetwork,
}

impl<'a> TunnelPayload<'a> {
    /// Returns the payload of a tunnel without a virtual network.
    pub(super) fn new(payload_type: TunnelPayloadType, slice: CapturedSlice<'a>) -> Self {
        Self { payload_type, slice, tenant: VirtualNetwork::NONE }
    }
}
