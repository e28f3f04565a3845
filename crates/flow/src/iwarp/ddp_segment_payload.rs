//! Payload of a DDP segment, or a part of it, with its frames.

use std::ops::Range;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::iwarp::DdpSegment;

use crate::packet_meta::PacketMeta;
use crate::rdma_operation::CapturedPacketPayload;
use crate::stream::stream_bytes::StreamPosition;

/// Payload of a segment, or a part of it.
#[derive(Clone, Debug)]
pub(super) struct DdpSegmentPayload<'a> {
    pub(super) segment: &'a DdpSegment,
    /// Length of the whole payload in bytes.
    pub(super) length: u32,
    /// Offset of the bytes in the payload.
    pub(super) offset: u32,
    pub(super) data: CapturedPacketPayload<'a>,
    pub(super) range: Range<StreamPosition>,
    /// Frames of the bytes, with those that had only header bytes before or trailer bytes after them; the time
    /// is that of the bytes.
    pub(super) meta: PacketMeta<'a>,
    /// Times of the first and last of the frames.
    pub(super) times: FrameTimeRange,
}

impl DdpSegmentPayload<'_> {
    /// Returns `true` if this is the whole payload.
    pub(super) fn is_complete(&self) -> bool {
        self.data.length == self.length
    }

    /// Returns `true` if frames carried it. This includes bytes removed by a snap length, but not those of a
    /// lost segment.
    pub(super) fn was_captured(&self) -> bool {
        !self.meta.frames.is_empty()
    }

    /// Returns `true` if the payload ends here.
    pub(super) fn is_end(&self) -> bool {
        self.offset + self.data.length == self.length
    }
}

/// Time range of several frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameTimeRange {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

impl FrameTimeRange {
    #[inline]
    pub(super) fn at(time: Timestamp) -> Self {
        Self { first: time, last: time }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}
