//! Pairs of endpoints: the two ports of a connection, or the addresses of two hosts.

use nfsrdma_dissectors::address::{Address, Port, VirtualNetwork};

/// Two endpoints with ports; `a` is the sender of the first packet seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EndpointPair {
    pub(super) tenant: VirtualNetwork,
    pub(super) a: (Address, Port),
    pub(super) b: (Address, Port),
}

impl EndpointPair {
    /// Returns the pair for the other direction.
    pub(super) fn reversed(self) -> Self {
        Self { a: self.b, b: self.a, ..self }
    }

    /// Returns `true` if the other pair is that for the other direction.
    #[inline]
    pub(super) fn is_reverse_of(&self, other: &Self) -> bool {
        self.a == other.b && self.b == other.a && self.tenant == other.tenant
    }

    /// Returns the same pair for either direction, and `true` if `a` and `b` were swapped.
    pub(super) fn in_canonical_order(self) -> (Self, bool) {
        let is_swapped = self.a > self.b;
        (if is_swapped { self.reversed() } else { self }, is_swapped)
    }
}

/// Returns the two addresses in ascending order.
pub(super) fn ordered_addresses(one: Address, other: Address) -> (Address, Address) {
    if one <= other { (one, other) } else { (other, one) }
}
