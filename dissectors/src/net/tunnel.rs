//! Tunnels: datagrams and frames inside of IP datagrams, as overlays carry them and mirror ports send their copies.
//!
//! Whatever stands inside is read as if it stood alone, tunnels included, down to a depth of [`Depth::MOST`]. The
//! addresses of what is inside are those of the [`Datagram`].

use super::link::{self, EtherType};
use super::{Carried, Datagram, Malformed, Reason, ip};
use crate::address::{Address, Tenant};
use crate::field::Observer;
use crate::frame::Part;

/// How many tunnels stand around a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Depth {
    tunnels: u8,
    /// The virtual network that the way is in.
    pub(super) tenant: Tenant,
}

impl Depth {
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
pub(super) struct Way {
    /// Who sent it.
    pub(super) source: Address,
    /// Who gets it.
    pub(super) destination: Address,
    /// Where the header with these addresses begins.
    pub(super) network: usize,
    /// The identification of the IPv4 datagram; 0 where there is none.
    pub(super) identification: u16,
    /// The tunnels around that header.
    pub(super) depth: Depth,
}

impl Way {
    /// No network header was met yet.
    pub(super) fn without_network(depth: Depth) -> Self {
        Self { source: Address::Unknown, destination: Address::Unknown, network: 0, identification: 0, depth }
    }

    /// The end of the way.
    #[inline(always)]
    pub(super) fn carries(self, carried: Carried<'_>) -> Datagram<'_> {
        let Self { source, destination, network, identification, depth } = self;
        Datagram { source, destination, network, identification, tenant: depth.tenant, carried }
    }

    /// The end of the way, where nothing that is read comes.
    pub(super) fn ends<'a>(self, reason: Reason) -> Datagram<'a> {
        self.carries(Carried::Other(reason))
    }
}

/// Why a header is not whole: the capture cut it, or what is around it is too short for its `length` bytes.
pub(super) fn lacking(part: Part<'_>, length: usize, what: Malformed) -> Reason {
    if part.length < length { Reason::Malformed { what, at: part.at } } else { Reason::Cut { at: part.at } }
}

/// What a tunnel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// A frame of Ethernet, without its check sequence.
    Ethernet,
    /// What an ether type says.
    Network(EtherType),
    /// An IP datagram of the version that its first bits tell.
    Ip,
}

/// Goes on with what is in a tunnel. Frames without tunnel never come here, so that this is kept out of their way.
pub(super) fn enter<'a, O: Observer<'a>>(
    inside: Inside,
    part: Part<'a>,
    way: Way,
    observer: &mut O,
) -> Datagram<'a> {
    enter_network(inside, part, way, Tenant::NONE, observer)
}

/// The same, where the tunnel names a virtual network.
#[inline(never)]
pub(super) fn enter_network<'a, O: Observer<'a>>(
    inside: Inside,
    part: Part<'a>,
    way: Way,
    tenant: Tenant,
    observer: &mut O,
) -> Datagram<'a> {
    let Some(depth) = way.depth.deeper(tenant) else {
        return way.ends(Reason::Malformed { what: Malformed::TunnelDepth, at: part.at });
    };
    let datagram = match inside {
        Inside::Ethernet => link::ethernet(part, depth, observer),
        Inside::Network(ether_type) => link::network(ether_type, part, depth, observer),
        Inside::Ip => ip::either(part, depth, observer),
    };
    match (datagram.source, datagram.destination) {
        // A frame has addresses of its own, if none of a network.
        (Address::Unknown, Address::Unknown) if inside != Inside::Ethernet => way.carries(datagram.carried),
        _ => datagram,
    }
}
