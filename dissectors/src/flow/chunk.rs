//! The chunks that a Call advertised, and what RDMA moved through them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::frame::{FrameNumber, Timestamp};
use crate::rdma::{Handle, PacketPayload};

use super::coverage::Coverage;

/// What a chunk is for (RFC 8166 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// The Responder fetches a data item, or at Position zero the whole Call, with RDMA Read.
    Read,
    /// The Responder places a data item with RDMA Write.
    Write,
    /// The Responder places the whole Reply with RDMA Write.
    Reply,
}

/// A range of the Requester's memory, and what was moved in or out of it.
#[derive(Clone, Debug, Default)]
pub struct ChunkSegment {
    /// Names the memory.
    pub handle: Handle,
    /// Where the range begins.
    pub offset: u64,
    /// Length in bytes, as the Call offers it.
    pub length: u32,
    /// Write and Reply chunks: the length that the Reply says was written.
    pub returned: Option<u32>,
    /// The bytes of the range that were seen in RDMA payloads, by the lengths that the headers tell.
    pub moved: Coverage,
    /// First and last frame that moved any.
    pub frames: Option<(FrameNumber, FrameNumber)>,
    /// The bytes themselves, where something needs them.
    pub kept: Option<Box<SegmentBytes>>,
}

/// Bytes of a segment that are kept because a view or a decoder looks into them.
#[derive(Clone, Debug, Default)]
pub struct SegmentBytes {
    /// From the first byte on, without a gap.
    prefix: Vec<u8>,
    /// What came before the bytes that belong before it, by its place. It takes no room but its own: a packet may say that
    /// it belongs at the far end of 4 GiB.
    ahead: BTreeMap<usize, Vec<u8>>,
    /// Memory that all this takes.
    taken: u64,
    captured: Coverage,
    /// Whether a message is read out of them, so that bytes which a snap length cut are missed.
    is_message: bool,
}

/// What bytes that came ahead take besides themselves, in bytes: their place, and the range that they are.
const AHEAD: u64 = 128;

/// What finds a segment by its handle, in bytes.
const HANDLE_BYTES: usize = 64;

impl SegmentBytes {
    fn add(&mut self, at: usize, bytes: &[u8]) {
        self.captured.add(at as u64..(at + bytes.len()) as u64);
        if at > self.prefix.len() {
            let known = self.ahead.get(&at).map_or(0, Vec::len);
            if known < bytes.len() {
                self.take_ahead(at);
                self.taken += AHEAD + bytes.len() as u64;
                self.ahead.insert(at, bytes.to_vec());
            }
            return;
        }
        self.append(at, bytes);
        while let Some((at, _)) = self.ahead.first_key_value()
            && *at <= self.prefix.len()
        {
            let at = *at;
            if let Some(bytes) = self.take_ahead(at) {
                self.append(at, &bytes);
            }
        }
    }

    fn take_ahead(&mut self, at: usize) -> Option<Vec<u8>> {
        let bytes = self.ahead.remove(&at)?;
        self.taken -= AHEAD + bytes.len() as u64;
        Some(bytes)
    }

    /// Adds what lies beyond the prefix of bytes that begin in it. Of bytes that come twice the first copy stays: the
    /// second is the same, sent again.
    fn append(&mut self, at: usize, bytes: &[u8]) {
        let new = bytes.get(self.prefix.len() - at..).unwrap_or_default();
        self.prefix.extend_from_slice(new);
        self.taken += new.len() as u64;
    }

    /// The bytes from the first on that were captured without a gap.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }
}

impl ChunkSegment {
    /// Whether `length` bytes at `offset` lie in the range.
    pub fn holds(&self, offset: u64, length: u64) -> bool {
        offset
            .checked_sub(self.offset)
            .and_then(|at| at.checked_add(length))
            .is_some_and(|end| end <= u64::from(self.length))
    }

    /// Which bytes of the content are there: of a message the captured ones, of data those that the headers account for.
    fn content_coverage(&self) -> &Coverage {
        match &self.kept {
            Some(kept) if kept.is_message => &kept.captured,
            _ => &self.moved,
        }
    }

    /// Whether these bytes would be noted as one more range of those that were seen.
    #[cold]
    pub(super) fn is_scattered(&self, offset: u64, data: &PacketPayload<'_>) -> bool {
        let Some(at) = offset.checked_sub(self.offset) else { return false };
        !self.moved.touches(&(at..at + u64::from(data.length)))
    }

    /// Bytes of memory that keeping this data takes at most, if its bytes are kept.
    pub(super) fn growth(&self, data: &PacketPayload<'_>) -> Option<u64> {
        self.kept.as_ref().map(|_| AHEAD + data.bytes.len() as u64)
    }

    /// Bytes of memory that the kept bytes take.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.taken)
    }

    /// Drops the kept bytes, and tells how many they were.
    pub(super) fn stop_keeping(&mut self) -> u64 {
        self.kept.take().map_or(0, |kept| kept.taken)
    }

    /// Notes bytes that were seen to move, and keeps them if they are wanted. Returns how many of them lie in the range.
    pub fn add(&mut self, offset: u64, data: &PacketPayload<'_>, frames: &[FrameNumber]) -> u64 {
        let Some(at) = offset.checked_sub(self.offset).filter(|at| *at < u64::from(self.length)) else {
            return 0;
        };
        let room = u64::from(self.length) - at;
        let length = u64::from(data.length).min(room);
        self.moved.add(at..at + length);
        for frame in frames.iter().copied() {
            let (first, last) = self.frames.unwrap_or((frame, frame));
            self.frames = Some((first.min(frame), last.max(frame)));
        }
        if let Some(kept) = &mut self.kept {
            let captured = data.bytes.len().min(length as usize);
            kept.add(at as usize, &data.bytes[..captured]);
        }
        length
    }
}

/// Segments that hold one data item or one message.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Read chunks: the byte offset of the item in the unreduced Call (RFC 8166 section 3.4.5); 0 is the Call itself.
    pub position: Option<u32>,
    /// In the order of the header.
    pub segments: Vec<ChunkSegment>,
    /// Whether the capture ends where another segment may stand.
    pub is_cut: bool,
    /// When the first RDMA Read request or RDMA Write for this chunk was seen, and the last response or Write.
    pub times: Option<(Timestamp, Timestamp)>,
}

impl Chunk {
    /// Memory that it takes besides the value itself and the bytes that are kept, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let ranges: usize = self.segments.iter().map(|segment| segment.moved.heap_bytes()).sum();
        self.segments.capacity() * size_of::<ChunkSegment>() + self.segments.len() * HANDLE_BYTES + ranges
    }

    /// Bytes that the Call offers.
    pub fn offered(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.length)).sum()
    }

    /// Bytes that the Reply says were written; `None` without a Reply.
    pub fn returned(&self) -> Option<u64> {
        self.segments.iter().map(|segment| segment.returned.map(u64::from)).sum()
    }

    /// Bytes that were seen to move.
    pub fn moved(&self) -> u64 {
        self.segments.iter().map(|segment| segment.moved.seen()).sum()
    }

    /// Asks for the bytes to be kept; `is_message` says that a message will be read out of them.
    pub fn keep(&mut self, is_message: bool) {
        for segment in &mut self.segments {
            segment.kept.get_or_insert_default().is_message |= is_message;
        }
    }

    /// Stretches the times by an event.
    pub fn touch(&mut self, time: Timestamp) {
        self.times = Some(self.times.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
    }

    /// The ranges of the chunk's content that were not seen, where a segment holds `expected` bytes; counted over the
    /// chunk's segments laid end to end.
    pub fn missing(&self, expected: impl Fn(&ChunkSegment) -> u64) -> Vec<Range<u64>> {
        let mut base = 0;
        let mut missing: Vec<Range<u64>> = Vec::new();
        for segment in &self.segments {
            let length = expected(segment);
            for gap in segment.content_coverage().missing(length) {
                match missing.last_mut() {
                    Some(last) if last.end == base + gap.start => last.end = base + gap.end,
                    _ => missing.push(base + gap.start..base + gap.end),
                }
            }
            base += length;
        }
        missing
    }

    /// The chunk's content laid end to end, as far as it was captured without a gap, where a segment holds `expected`
    /// bytes. Borrowed where one segment holds it all. `None` where the bytes were not kept.
    pub fn content(&self, expected: impl Fn(&ChunkSegment) -> u64) -> Option<std::borrow::Cow<'_, [u8]>> {
        if let [segment] = self.segments.as_slice() {
            let bytes = segment.kept.as_ref()?.prefix();
            return Some(bytes[..bytes.len().min(expected(segment) as usize)].into());
        }
        let mut content = Vec::new();
        for segment in &self.segments {
            let (bytes, length) = (segment.kept.as_ref()?.prefix(), expected(segment) as usize);
            content.extend_from_slice(&bytes[..bytes.len().min(length)]);
            if bytes.len() < length {
                break;
            }
        }
        Some(content.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(offset: u64, length: u32) -> ChunkSegment {
        ChunkSegment { offset, length, ..ChunkSegment::default() }
    }

    fn data(bytes: &[u8]) -> PacketPayload<'_> {
        PacketPayload { bytes, length: bytes.len() as u32 }
    }

    #[test]
    fn moved_never_exceeds_the_segment() {
        let mut segment = segment(1000, 10);
        assert_eq!(segment.add(1008, &data(b"abcdef"), &[FrameNumber(1)]), 2);
        assert_eq!(segment.add(990, &data(b"abcdef"), &[FrameNumber(2)]), 0);
        assert_eq!(segment.moved.seen(), 2);
    }

    #[test]
    fn what_a_snap_length_cut_still_counts_as_moved() {
        let mut segment = segment(0, 1024);
        segment.kept = Some(Box::default());
        segment.add(0, &PacketPayload { bytes: b"abc", length: 1024 }, &[FrameNumber(1)]);
        assert_eq!(segment.moved.seen(), 1024);
        assert_eq!(segment.kept.unwrap().prefix(), b"abc");
    }

    #[test]
    fn kept_bytes_are_put_in_order_however_they_come() {
        let mut segment = segment(0, 10);
        segment.kept = Some(Box::default());
        for (at, bytes) in [(8, "89"), (4, "456"), (4, "45"), (6, "678"), (2, "23")] {
            segment.add(at, &data(bytes.as_bytes()), &[FrameNumber(1)]);
        }
        assert_eq!(
            (segment.kept.as_ref().unwrap().prefix(), segment.kept_bytes()),
            (&b""[..], 2 + 3 + 3 + 2 + 4 * AHEAD)
        );
        segment.add(0, &data(b"012"), &[FrameNumber(2)]);
        assert_eq!((segment.kept.as_ref().unwrap().prefix(), segment.kept_bytes()), (&b"0123456789"[..], 10));
        assert_eq!(segment.stop_keeping(), 10);
    }

    #[test]
    fn bytes_at_the_far_end_take_no_more_than_themselves() {
        let mut segment = segment(0, u32::MAX);
        segment.kept = Some(Box::default());
        segment.add(u64::from(u32::MAX) - 3, &data(b"abc"), &[FrameNumber(1)]);
        assert_eq!(segment.kept_bytes(), 3 + AHEAD);
    }

    #[test]
    fn gaps_are_counted_over_the_segments_laid_end_to_end() {
        let mut chunk = Chunk { segments: vec![segment(0, 10), segment(100, 10)], ..Chunk::default() };
        chunk.segments[0].add(0, &data(b"01234567"), &[FrameNumber(1)]);
        chunk.segments[1].add(103, &data(b"3456789"), &[FrameNumber(2)]);
        let missing = chunk.missing(|segment| u64::from(segment.length));
        assert_eq!(missing, std::slice::from_ref(&(8..13)));
    }

    #[test]
    fn content_is_laid_end_to_end_as_far_as_it_was_returned() {
        let mut chunk = Chunk { segments: vec![segment(0, 4), segment(100, 4)], ..Chunk::default() };
        chunk.keep(true);
        chunk.segments[0].add(0, &data(b"abcd"), &[FrameNumber(1)]);
        chunk.segments[1].add(100, &data(b"efgh"), &[FrameNumber(2)]);
        chunk.segments[0].returned = Some(4);
        chunk.segments[1].returned = Some(2);
        let returned = |segment: &ChunkSegment| u64::from(segment.returned.unwrap_or(0));
        assert_eq!(chunk.content(returned).unwrap(), &b"abcdef"[..]);
    }
}
