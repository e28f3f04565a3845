//! TCP streams: segments in any order become bytes in order, with the frames that carried them.
//!
//! A [`TcpDirectionReader`] reads the content of each direction as [`StreamBytes`], in order, without overlap and
//! with every gap reported. A segment that was truncated by a snap length or never captured has fewer bytes
//! than its length; so loss, snap lengths and captures that begin in mid-stream are one case.

pub(super) mod context;
pub(super) mod direction;
pub(super) mod protocol;
pub(super) mod table;
pub(super) mod tcp_receiver_loss_reports;

use std::ops::Range;

use crate::rdma_operation::CapturedPacketPayload;

use super::packet_meta::PacketMeta;

/// A position in one direction of a stream: a sequence number extended beyond 32 bits, so that it never
/// wraps.
pub(super) type StreamPosition = u64;

/// The next bytes of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamBytes<'a> {
    /// Position of the first byte.
    pub(super) at: StreamPosition,
    /// Captured bytes, and their length on the wire.
    pub(super) data: CapturedPacketPayload<'a>,
    /// Frames that carried them; none if they were not captured.
    pub(super) meta: PacketMeta<'a>,
}

impl<'a> StreamBytes<'a> {
    /// Returns the range of stream positions on the wire.
    pub(super) fn range(&self) -> Range<StreamPosition> {
        self.at..self.at + u64::from(self.data.length)
    }

    /// Returns the bytes without the first `count`.
    pub(super) fn after(&self, count: u32) -> Self {
        self.within(count..self.data.length)
    }

    /// Returns the bytes in a range that counts from the first byte.
    pub(super) fn within(&self, range: Range<u32>) -> Self {
        let end = range.end.min(self.data.length);
        let start = range.start.min(end);
        let captured = self.data.bytes.get(start as usize..).unwrap_or_default();
        let length = end - start;
        let bytes = captured.get(..length as usize).unwrap_or(captured);
        Self {
            at: self.at + u64::from(start),
            data: CapturedPacketPayload { bytes, length },
            meta: self.meta,
        }
    }
}

/// Reader of the bytes of one direction.
pub(super) trait TcpDirectionReader {
    fn read_bytes(&mut self, stream_bytes: StreamBytes<'_>);

    /// Handles a retransmission of bytes that were read before. The first copy counts; this one is only
    /// compared.
    fn read_retransmission(&mut self, stream_bytes: StreamBytes<'_>);
}
