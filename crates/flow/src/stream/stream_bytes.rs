//! Bytes of one direction of a stream, with their positions, and the trait of their readers.

use std::ops::Range;

use crate::packet_meta::PacketMeta;
use crate::rdma_operation::CapturedPacketPayload;

/// A position in one direction of a stream: a sequence number extended beyond 32 bits, so that it never
/// wraps.
pub(crate) type StreamPosition = u64;

/// The next bytes of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamBytes<'a> {
    /// Position of the first byte.
    pub(crate) at: StreamPosition,
    /// Captured bytes, and their length on the wire.
    pub(crate) data: CapturedPacketPayload<'a>,
    /// Frames that carried them; none if they were not captured.
    pub(crate) meta: PacketMeta<'a>,
}

impl<'a> StreamBytes<'a> {
    /// Returns the range of stream positions on the wire.
    pub(crate) fn range(&self) -> Range<StreamPosition> {
        self.at..self.at + u64::from(self.data.length)
    }

    /// Returns the bytes without the first `count`.
    pub(crate) fn after(&self, count: u32) -> Self {
        self.within(count..self.data.length)
    }

    /// Returns the bytes in a range that counts from the first byte.
    pub(crate) fn within(&self, range: Range<u32>) -> Self {
        let end = range.end.min(self.data.length);
        let start = range.start.min(end);
        let captured = self.data.bytes.get(start as usize..).unwrap_or_default();
        let length = end - start;
        let bytes = captured.get(..length as usize).unwrap_or(captured);
        Self { at: self.at + u64::from(start), data: CapturedPacketPayload { bytes, length }, meta: self.meta }
    }
}

/// Reader of the bytes of one direction.
pub(crate) trait TcpDirectionReader {
    fn read_bytes(&mut self, stream_bytes: StreamBytes<'_>);

    /// Handles a retransmission of bytes that were read before. The first copy counts; this one is only
    /// compared.
    fn read_retransmission(&mut self, stream_bytes: StreamBytes<'_>);
}
