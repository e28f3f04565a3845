//! Tunnels: datagrams and frames inside of IP datagrams, as overlays carry them and mirror ports send their copies.
//!
//! Whatever stands inside is read as if it stood alone, tunnels included, down to a depth of [`TunnelNesting::MOST`]. The
//! addresses of what is inside are those of the [`Datagram`].

use super::link::{self, EtherType};
use super::{Datagram, DatagramPayload, HeaderDefect, UnreadFrameReason, ip};
use crate::address::{Address, Tenant};
use crate::field::Observer;
use crate::frame::CapturedSlice;

/// How many tunnels stand around a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TunnelNesting {
    tunnels: u8,
    /// The virtual network that the way is in.
    pub(super) tenant: Tenant,
}

impl TunnelNesting {
    /// What is around it is the link layer of the capture.
    pub(super) const NONE: Self = Self { tunnels: 0, tenant: Tenant::NONE };
    /// The most tunnels around anything that is read. Who mirrors an overlay has two or three.
    const MOST: u8 = 8;

    /// No tunnels, in this virtual network.
    pub(super) fn within(tenant: Tenant) -> Self {
        Self { tenant, ..Self::NONE }
    }

    fn deeper(self, tenant: Tenant) -> Option<Self> {
        (self.tunnels < Self::MOST).then_some(Self { tunnels: self.tunnels + 1, tenant })
    }
}

/// How far the way into a frame has come: the innermost network header, and the tunnels around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameDecodeContext {
    /// Who sent it.
    pub(super) source: Address,
    /// Who gets it.
    pub(super) destination: Address,
    /// Where the header with these addresses begins.
    pub(super) network: usize,
    /// The identification of the IPv4 datagram; 0 where there is none.
    pub(super) identification: u16,
    /// The tunnels around that header.
    pub(super) depth: TunnelNesting,
}

impl FrameDecodeContext {
    /// No network header was met yet.
    pub(super) fn without_network(depth: TunnelNesting) -> Self {
        Self { source: Address::Unknown, destination: Address::Unknown, network: 0, identification: 0, depth }
    }

    /// The end of the way.
    #[inline(always)]
    pub(super) fn carries(self, carried: DatagramPayload<'_>) -> Datagram<'_> {
        let Self { source, destination, network, identification, depth } = self;
        Datagram { source, destination, network, identification, tenant: depth.tenant, carried }
    }

    /// The end of the way, where nothing that is read comes.
    pub(super) fn ends<'a>(self, reason: UnreadFrameReason) -> Datagram<'a> {
        self.carries(DatagramPayload::Other(reason))
    }
}

/// Why a header is not whole: the capture cut it, or what is around it is too short for its `length` bytes.
pub(super) fn lacking(part: CapturedSlice<'_>, length: usize, what: HeaderDefect) -> UnreadFrameReason {
    if part.length < length {
        UnreadFrameReason::Malformed { what, at: part.at }
    } else {
        UnreadFrameReason::Cut { at: part.at }
    }
}

/// What a tunnel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TunnelPayload {
    /// A frame of Ethernet, without its check sequence.
    Ethernet,
    /// What an ether type says.
    Network(EtherType),
    /// An IP datagram of the version that its first bits tell.
    Ip,
}

/// Goes on with what is in a tunnel. Frames without tunnel never come here, so that this is kept out of their way.
pub(super) fn enter<'a, O: Observer<'a>>(
    inside: TunnelPayload,
    part: CapturedSlice<'a>,
    way: FrameDecodeContext,
    observer: &mut O,
) -> Datagram<'a> {
    enter_network(inside, part, way, Tenant::NONE, observer)
}

/// The same, where the tunnel names a virtual network.
#[inline(never)]
pub(super) fn enter_network<'a, O: Observer<'a>>(
    inside: TunnelPayload,
    part: CapturedSlice<'a>,
    way: FrameDecodeContext,
    tenant: Tenant,
    observer: &mut O,
) -> Datagram<'a> {
    let Some(depth) = way.depth.deeper(tenant) else {
        return way.ends(UnreadFrameReason::Malformed { what: HeaderDefect::TunnelDepth, at: part.at });
    };
    let datagram = match inside {
        TunnelPayload::Ethernet => link::ethernet(part, depth, observer),
        TunnelPayload::Network(ether_type) => link::network(ether_type, part, depth, observer),
        TunnelPayload::Ip => ip::either(part, depth, observer),
    };
    match (datagram.source, datagram.destination) {
        // A frame has addresses of its own, if none of a network.
        (Address::Unknown, Address::Unknown) if inside != TunnelPayload::Ethernet => {
            way.carries(datagram.carried)
        }
        _ => datagram,
    }
}
