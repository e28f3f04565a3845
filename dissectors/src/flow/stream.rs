//! Streams of TCP: segments in any order become bytes in order, with the frames that carried them.
//!
//! What a stream carries is read by a [`Reader`] in each direction, which takes [`Piece`]s: they come in order, without
//! overlap and without a hole that is not told. A segment that a snap length cut, or one that was never captured, is a
//! piece whose bytes are fewer than its length; so loss, snap lengths and captures that begin in the middle are one case.

use std::ops::Range;

use crate::rdma::Data;

use super::Sight;

/// A place in one direction of a stream: sequence numbers, counted on beyond 32 bits, so that they never wrap.
pub(super) type Position = u64;

/// The next bytes of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// Where they begin.
    pub(super) at: Position,
    /// The bytes, as many as were captured, and their length on the wire.
    pub(super) data: Data<'a>,
    /// The frames that carried them; none, where they were not captured.
    pub(super) sight: Sight<'a>,
}

/// What takes the bytes of one direction.
pub(super) trait Reader {
    /// Takes the next bytes.
    fn piece(&mut self, piece: Piece<'_>);

    /// Bytes that were taken before were sent again.
    fn again(&mut self, range: Range<Position>, sight: Sight<'_>);
}
