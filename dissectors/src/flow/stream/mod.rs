//! Streams of TCP: segments in any order become bytes in order, with the frames that carried them.
//!
//! What a stream carries is read by a [`StreamReader`] in each direction, which takes [`StreamBytes`]s: they come in order, without
//! overlap and without a hole that is not told. A segment that a snap length cut, or one that was never captured, is a
//! piece whose bytes are fewer than its length; so loss, snap lengths and captures that begin in the middle are one case.
//!
//! - [`direction`]: one direction put in order;
//! - [`protocol`]: what a stream carries, told by its first bytes or, in the middle, by structure;
//! - [`context`]: what a reader gives its messages and RDMA operations to;
//! - [`table`]: all streams, by addresses and ports.

pub(super) mod context;
pub(super) mod direction;
pub(super) mod protocol;
pub(super) mod table;

use std::ops::Range;

use crate::rdma::PacketPayload;

use super::PacketMeta;

/// A place in one direction of a stream: sequence numbers, counted on beyond 32 bits, so that they never wrap.
pub(super) type Position = u64;

/// The next bytes of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamBytes<'a> {
    /// Where they begin.
    pub(super) at: Position,
    /// The bytes, as many as were captured, and their length on the wire.
    pub(super) data: PacketPayload<'a>,
    /// The frames that carried them; none, where they were not captured.
    pub(super) sight: PacketMeta<'a>,
}

impl<'a> StreamBytes<'a> {
    /// From the first byte to the one after the last, on the wire.
    pub(super) fn range(&self) -> Range<Position> {
        self.at..self.at + u64::from(self.data.length)
    }

    /// The same without its first `count` bytes.
    pub(super) fn after(&self, count: u32) -> Self {
        self.within(count..self.data.length)
    }

    /// The bytes of it that lie in a range, which counts from its first byte.
    pub(super) fn within(&self, range: Range<u32>) -> Self {
        let end = range.end.min(self.data.length);
        let start = range.start.min(end);
        let captured = self.data.bytes.get(start as usize..).unwrap_or_default();
        let length = end - start;
        let bytes = captured.get(..length as usize).unwrap_or(captured);
        Self { at: self.at + u64::from(start), data: PacketPayload { bytes, length }, sight: self.sight }
    }
}

/// What takes the bytes of one direction.
pub(super) trait StreamReader {
    /// Takes the next bytes.
    fn piece(&mut self, piece: StreamBytes<'_>);

    /// Bytes that were taken before were sent again. The first copy counts: what this one holds is only compared.
    fn again(&mut self, piece: StreamBytes<'_>);
}
