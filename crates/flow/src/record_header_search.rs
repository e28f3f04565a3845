//! Last bytes of a direction in which a record may begin whose header continues in the next segment. Records need not
//! begin with a segment, and fragments may be smaller than a header. RFC 5531 section 11.

use std::borrow::Cow;
use std::collections::VecDeque;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::record_marking::RecordMark;
use nfsrdma_dissectors::rpc::{self, MsgType};

use super::packet_meta::PacketMeta;
use super::stream::stream_bytes::{StreamBytes, StreamPosition};
use crate::rdma_operation::CapturedPacketPayload;

/// Number of bytes that can begin a header without revealing it.
const MAX_PREFIX_BYTES: usize = rpc::MAX_SPREAD_HEADER_BYTES - 1;

/// Number of bytes of the next segment that are examined with them.
const MAX_EXAMINED_BYTES: usize = 4 * rpc::MAX_SPREAD_HEADER_BYTES;

/// Maximum distance in bytes from the end of the kept bytes at which a segment repeats them.
const MAX_REPEATED_BYTES: u32 = 1 << 20;

/// Returns `true` if a record with a call begins here, of a program and a version as they exist.
pub(super) fn begins_usual_call(bytes: &[u8]) -> bool {
    rpc::recognize_record(bytes).is_some_and(|message| message.mtype == MsgType::CALL && message.is_usual)
}

/// The last bytes of one segment.
#[derive(Debug)]
pub(super) struct SegmentEnd {
    at: StreamPosition,
    bytes: Vec<u8>,
    frames: Vec<FrameNumber>,
    time: Timestamp,
    /// `true` if its frame has nothing else.
    is_all: bool,
}

impl SegmentEnd {
    pub(super) fn to_stream_bytes(&self) -> StreamBytes<'_> {
        StreamBytes {
            at: self.at,
            data: CapturedPacketPayload { bytes: &self.bytes, length: self.bytes.len() as u32 },
            meta: PacketMeta::new(&self.frames, self.time),
        }
    }
}

/// Bytes that turned out to begin no record.
#[derive(Debug, Default)]
pub(super) struct BytesWithoutRecord {
    pub(super) bytes: u64,
    /// Frames that have nothing else.
    pub(super) frames: Vec<FrameNumber>,
}

impl BytesWithoutRecord {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.frames.extend(other.frames);
    }
}

/// Bytes in which a record may begin. Mostly there are none.
#[derive(Debug, Default)]
pub(super) struct PossibleRecordStart {
    ends: VecDeque<SegmentEnd>,
}

impl PossibleRecordStart {
    /// Returns the position after the bytes.
    fn end(&self) -> Option<StreamPosition> {
        self.ends.back().map(|end| end.to_stream_bytes().range().end)
    }

    /// Returns `true` if these bytes repeat examined ones.
    pub(super) fn contains(&self, stream_bytes: &StreamBytes<'_>) -> bool {
        let distance = |end| (end as u32).wrapping_sub(stream_bytes.range().end as u32);
        self.end().is_some_and(|end| distance(end) < MAX_REPEATED_BYTES)
    }

    /// Returns the bytes from the start of a record on if `stream_bytes` continue it; `begins_record` recognizes it.
    /// Only the last 32 bits of positions count, as in sequence numbers.
    pub(super) fn take_record(
        &mut self,
        stream_bytes: &StreamBytes<'_>,
        begins_record: impl Fn(&[u8]) -> bool,
    ) -> Option<(VecDeque<SegmentEnd>, BytesWithoutRecord)> {
        if self.end()? as u32 != stream_bytes.at as u32 {
            return None;
        }
        let mut joined = self.joined();
        let count = joined.len();
        let bytes = stream_bytes.data.bytes;
        joined.extend_from_slice(bytes.get(..MAX_EXAMINED_BYTES).unwrap_or(bytes));
        // As when they were kept.
        let has_content = |bytes: &&[u8]| !bytes.starts_with(&[0; RecordMark::LENGTH]);
        let start = (0..count).find(|at| joined.get(*at..).filter(has_content).is_some_and(&begins_record))?;
        let without_record = self.drop_first(start);
        Some((std::mem::take(&mut self.ends), without_record))
    }

    /// Keeps the bytes at the end in which a record may begin. Returns their number, and what is kept no longer.
    /// `is_all`: the frame has nothing else.
    pub(super) fn keep(&mut self, stream_bytes: &StreamBytes<'_>, is_all: bool) -> (u32, BytesWithoutRecord) {
        let CapturedPacketPayload { bytes, length } = stream_bytes.data;
        let from = bytes.len().saturating_sub(MAX_PREFIX_BYTES);
        let is_next = self.end().is_some_and(|end| end as u32 == stream_bytes.at as u32);
        let mut without_record = if is_next && from == 0 { BytesWithoutRecord::default() } else { self.clear() };
        if bytes.len() < length as usize || stream_bytes.meta.frames.is_empty() {
            let cleared = self.clear();
            without_record.add(cleared);
            return (0, without_record);
        }
        let last = bytes.get(from..).unwrap_or_default();
        let mut joined = Cow::Borrowed(last);
        let earlier = self.joined();
        if !earlier.is_empty() {
            joined = Cow::Owned([&earlier, last].concat());
        }
        let oldest = joined.len().saturating_sub(MAX_PREFIX_BYTES);
        let first = (oldest..joined.len()).find(|at| joined.get(*at..).is_some_and(rpc::may_begin_record));
        let first = first.unwrap_or(joined.len());
        without_record.add(self.drop_first(first.min(earlier.len())));
        let start = from + first.saturating_sub(earlier.len());
        let kept = bytes.get(start..).unwrap_or_default();
        if !kept.is_empty() {
            self.ends.push_back(SegmentEnd {
                at: stream_bytes.at + start as u64,
                bytes: kept.to_vec(),
                frames: stream_bytes.meta.frames.to_vec(),
                time: stream_bytes.meta.time,
                is_all: is_all && start == 0,
            });
        }
        (kept.len() as u32, without_record)
    }

    /// Returns the bytes without an examination.
    pub(super) fn take_ends(&mut self) -> VecDeque<SegmentEnd> {
        std::mem::take(&mut self.ends)
    }

    /// Forgets the bytes.
    pub(super) fn clear(&mut self) -> BytesWithoutRecord {
        self.drop_first(usize::MAX)
    }

    fn joined(&self) -> Vec<u8> {
        self.ends.iter().flat_map(|end| end.bytes.iter().copied()).collect()
    }

    fn drop_first(&mut self, mut count: usize) -> BytesWithoutRecord {
        let mut dropped = BytesWithoutRecord::default();
        while count > 0
            && let Some(end) = self.ends.front_mut()
        {
            let taken = count.min(end.bytes.len());
            end.bytes.drain(..taken);
            end.at += taken as u64;
            dropped.bytes += taken as u64;
            count -= taken;
            if end.bytes.is_empty() {
                dropped.frames.extend(end.frames.drain(..).filter(|_| end.is_all));
                self.ends.pop_front();
            }
        }
        dropped
    }
}
