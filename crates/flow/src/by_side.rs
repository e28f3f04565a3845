//! Pairs of values: one for each side of a connection.

use std::ops::{Index, IndexMut};

use crate::rdma_operation::ConnectionSideAOrB;

/// The value of side A, then that of side B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionSidePair<T>(pub(super) [T; 2]);

impl<T> ConnectionSidePair<T> {
    /// Returns the value of a side, then that of its peer.
    #[inline]
    pub(super) fn own_and_peer(&mut self, side: ConnectionSideAOrB) -> (&mut T, &mut T) {
        let [a, b] = &mut self.0;
        if side == ConnectionSideAOrB::A { (a, b) } else { (b, a) }
    }

    /// Returns the pair with the sides exchanged if `is_swapped`.
    pub(super) fn swapped_if(self, is_swapped: bool) -> Self {
        let Self([a, b]) = self;
        if is_swapped { Self([b, a]) } else { Self([a, b]) }
    }
}

impl<T> Index<ConnectionSideAOrB> for ConnectionSidePair<T> {
    type Output = T;

    #[inline]
    fn index(&self, side: ConnectionSideAOrB) -> &T {
        &self.0[side as usize]
    }
}

impl<T> IndexMut<ConnectionSideAOrB> for ConnectionSidePair<T> {
    #[inline]
    fn index_mut(&mut self, side: ConnectionSideAOrB) -> &mut T {
        &mut self.0[side as usize]
    }
}
