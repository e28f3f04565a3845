//! Chunks that a Call advertises, and the bytes that RDMA moves through them.

use std::collections::BTreeMap;
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::memory_handle::Handle;

use super::byte_range_set::ByteRangeSet;
use crate::rdma_operation::{CapturedPacketPayload, RdmaMemoryRange};

/// Purpose of a chunk (RFC 8166 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// The Responder fetches a data item with RDMA Read, or the whole Call at Position zero.
    Read,
    /// The Responder places a data item with RDMA Write.
    Write,
    /// The Responder places the whole Reply with RDMA Write.
    Reply,
}

/// A range of the advertiser's memory, and the bytes that were moved in or out of it.
#[derive(Clone, Debug, Default)]
pub struct ChunkSegment {
    /// Handle of the memory region.
    pub handle: Handle,
    /// Offset of the first byte of the range.
    pub offset: u64,
    /// Length in bytes, as advertised.
    pub length: u32,
    /// Bytes written according to the Reply; Write and Reply chunks only.
    pub returned_length: Option<u32>,
    /// Bytes of the range seen in RDMA payloads, counted by the lengths in the packet headers.
    pub moved_coverage: ByteRangeSet,
    /// Bytes from the start of the range to the end of the last RDMA Read request for it.
    pub requested_until: u32,
    /// First and last frame that moved bytes of the range.
    pub frames: Option<(FrameNumber, FrameNumber)>,
    /// Payload bytes, if a view or a decoder needs them.
    pub payload: Option<Box<ChunkSegmentBytes>>,
}

/// Payload bytes of a segment that are retained for a view or a decoder.
#[derive(Clone, Debug, Default)]
pub struct ChunkSegmentBytes {
    /// Contiguous bytes from the start of the segment.
    prefix: Vec<u8>,
    /// Out-of-order bytes by position. Memory use depends on the bytes alone, because a packet may claim a position at
    /// the far end of 4 GiB.
    out_of_order: BTreeMap<usize, Vec<u8>>,
    /// Memory of `prefix` and `ahead`, in bytes.
    memory_bytes: u64,
    captured_coverage: ByteRangeSet,
    /// `true` if a message is decoded from these bytes, so that bytes cut by a snap length count as missing.
    is_message: bool,
}

/// Overhead of one out-of-order entry, in bytes: its position and its range.
const OUT_OF_ORDER_OVERHEAD_BYTES: u64 = 128;

/// Estimated size of the handle table entry of a segment, in bytes.
const HANDLE_ENTRY_BYTES: usize = 64;

impl ChunkSegmentBytes {
    fn add(&mut self, at: usize, bytes: &[u8]) {
        self.captured_coverage.add(at as u64..(at + bytes.len()) as u64);
        if at > self.prefix.len() {
            let existing_length = self.out_of_order.get(&at).map_or(0, Vec::len);
            if existing_length < bytes.len() {
                self.take_out_of_order(at);
                self.memory_bytes += OUT_OF_ORDER_OVERHEAD_BYTES + bytes.len() as u64;
                self.out_of_order.insert(at, bytes.to_vec());
            }
            return;
        }
        self.append(at, bytes);
        while let Some((at, _)) = self.out_of_order.first_key_value()
            && *at <= self.prefix.len()
        {
            let at = *at;
            if let Some(bytes) = self.take_out_of_order(at) {
                self.append(at, &bytes);
            }
        }
    }

    fn take_out_of_order(&mut self, at: usize) -> Option<Vec<u8>> {
        let bytes = self.out_of_order.remove(&at)?;
        self.memory_bytes -= OUT_OF_ORDER_OVERHEAD_BYTES + bytes.len() as u64;
        Some(bytes)
    }

    /// Appends the part of `bytes` beyond the prefix; `at` is inside the prefix. The first copy of retransmitted bytes
    /// stays.
    fn append(&mut self, at: usize, bytes: &[u8]) {
        let new_bytes = bytes.get(self.prefix.len() - at..).unwrap_or_default();
        self.prefix.extend_from_slice(new_bytes);
        self.memory_bytes += new_bytes.len() as u64;
    }

    /// Iterates over the captured bytes of a range of the segment, with their positions.
    fn parts_of(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &[u8])> {
        let preceding = self.out_of_order.range(..range.start).next_back();
        let out_of_order = preceding.into_iter().chain(self.out_of_order.range(range.clone()));
        let pieces = std::iter::once((0, &self.prefix)).chain(out_of_order.map(|(at, bytes)| (*at, bytes)));
        pieces.filter_map(move |(at, bytes)| {
            let (start, end) = (range.start.max(at), range.end.min(at + bytes.len()));
            Some((start, bytes.get(start.checked_sub(at)?..end.checked_sub(at)?)?))
        })
    }

    /// Returns the contiguous captured bytes from the start of the segment.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }
}

impl ChunkSegment {
    /// Returns `true` if `length` bytes at `offset` are inside the range.
    pub fn contains_range(&self, offset: u64, length: u64) -> bool {
        offset
            .checked_sub(self.offset)
            .and_then(|at| at.checked_add(length))
            .is_some_and(|end| end <= u64::from(self.length))
    }

    /// Returns the number of bytes written according to the Reply; 0 if it reports none.
    pub(super) fn returned_bytes(&self) -> u64 {
        self.returned_length.unwrap_or(0).into()
    }

    /// Returns the number of bytes advertised.
    pub(super) fn offered_bytes(&self) -> u64 {
        self.length.into()
    }

    /// Returns `true` if the Reply returned the byte at an offset, and it was not seen.
    pub(super) fn lacks_returned_byte(&self, offset: u64) -> bool {
        let at = offset.wrapping_sub(self.offset);
        at < self.returned_bytes() && !self.moved_coverage.contains(at)
    }

    /// Returns the captured bytes of a range of the segment, with their positions, if they are retained.
    #[cold]
    pub(super) fn captured_parts(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let range = range.start as usize..range.end as usize;
        let parts = self.payload.iter().flat_map(move |payload| payload.parts_of(range.clone()));
        parts.map(|(at, bytes)| (at as u64, bytes))
    }

    /// Iterates over the missing ranges within the first `length` bytes.
    pub(super) fn unmoved(&self, length: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.moved_coverage.missing_ranges(length)
    }

    /// Adds bytes that were recorded in another segment of the same memory, or only their range.
    #[cold]
    pub(super) fn adopt(&mut self, range: Range<u64>, parts: &[(u64, Vec<u8>)]) {
        self.moved_coverage.add(range);
        if let Some(payload) = &mut self.payload {
            parts.iter().for_each(|(at, bytes)| payload.add(*at as usize, bytes));
        }
    }

    /// Returns the number of bytes from the start of the range that RDMA Reads requested or moved.
    pub(super) fn read_until(&self) -> u64 {
        self.moved_coverage.end().max(self.requested_until.into())
    }

    /// Iterates over the ranges of memory of which no byte was moved, within the first `length` bytes.
    pub(super) fn unmoved_memory(&self, length: u64) -> impl Iterator<Item = RdmaMemoryRange> + '_ {
        self.moved_coverage.missing_ranges(length).map(|range| RdmaMemoryRange {
            handle: self.handle,
            offset: self.offset.wrapping_add(range.start),
            length: u32::try_from(range.end - range.start).unwrap_or(u32::MAX),
        })
    }

    /// Retains payload bytes from now on; `is_message` says that a message will be decoded from them.
    pub(super) fn retain_payload(&mut self, is_message: bool) {
        self.payload.get_or_insert_default().is_message |= is_message;
    }

    /// Returns the available content: captured bytes for a message, bytes accounted for by the headers for data.
    fn content_coverage(&self) -> &ByteRangeSet {
        match &self.payload {
            Some(payload) if payload.is_message => &payload.captured_coverage,
            _ => &self.moved_coverage,
        }
    }

    /// Returns `true` if recording these bytes would add a range to the moved bytes.
    #[cold]
    pub(super) fn adds_range(&self, offset: u64, data: &CapturedPacketPayload<'_>) -> bool {
        let Some(at) = offset.checked_sub(self.offset) else { return false };
        !self.moved_coverage.touches(&(at..at + u64::from(data.length)))
    }

    /// Returns the most memory that retaining this data may take, in bytes; `None` if payload bytes are not retained.
    pub(super) fn max_growth_bytes(&self, data: &CapturedPacketPayload<'_>) -> Option<u64> {
        self.payload.as_ref().map(|_| OUT_OF_ORDER_OVERHEAD_BYTES + data.bytes.len() as u64)
    }

    /// Returns the most memory that retaining these parts may take, in bytes; `None` if payload bytes are not retained.
    pub(super) fn max_growth_of(&self, parts: &[(u64, Vec<u8>)]) -> Option<u64> {
        let growth = parts.iter().map(|(_, bytes)| OUT_OF_ORDER_OVERHEAD_BYTES + bytes.len() as u64).sum();
        self.payload.as_ref().map(|_| growth)
    }

    /// Returns the memory of the retained bytes, in bytes.
    pub(super) fn payload_memory_bytes(&self) -> u64 {
        self.payload.as_ref().map_or(0, |payload| payload.memory_bytes)
    }

    /// Drops the retained bytes and returns how much memory that frees, in bytes.
    pub(super) fn drop_payload(&mut self) -> u64 {
        self.payload.take().map_or(0, |payload| payload.memory_bytes)
    }

    /// Records moved bytes, and retains them if requested. Returns the number of bytes inside the range.
    #[inline]
    pub fn add(&mut self, offset: u64, data: &CapturedPacketPayload<'_>, frames: &[FrameNumber]) -> u64 {
        let Some(at) = offset.checked_sub(self.offset).filter(|at| *at < u64::from(self.length)) else {
            return 0;
        };
        let max_length = u64::from(self.length) - at;
        let length = u64::from(data.length).min(max_length);
        self.moved_coverage.add(at..at + length);
        for frame in frames.iter().copied() {
            let (first, last) = self.frames.unwrap_or((frame, frame));
            self.frames = Some((first.min(frame), last.max(frame)));
        }
        if let Some(payload) = &mut self.payload {
            let captured = data.bytes.len().min(length as usize);
            payload.add(at as usize, &data.bytes[..captured]);
        }
        length
    }
}

/// Segments that hold one data item or one message.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Read chunks: byte offset of the item in the unreduced message (RFC 8166 section 3.4.5); 0 is the message itself.
    pub position: Option<u32>,
    /// Segments in header order.
    pub segments: Vec<ChunkSegment>,
    /// `true` if the capture ends where another segment may follow.
    pub is_cut: bool,
    /// Bytes that RDMA Reads requested from this chunk; bytes that were requested twice may count twice.
    pub requested_bytes: u64,
    /// Times of the first RDMA Read request or RDMA Write for this chunk, and of the last Read response or Write.
    pub times: Option<(Timestamp, Timestamp)>,
}

impl Chunk {
    /// Returns the heap memory in bytes, without retained payload bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let ranges: usize = self.segments.iter().map(|segment| segment.moved_coverage.heap_bytes()).sum();
        self.segments.capacity() * size_of::<ChunkSegment>() + self.segments.len() * HANDLE_ENTRY_BYTES + ranges
    }

    /// Returns the number of bytes advertised.
    pub fn offered_bytes(&self) -> u64 {
        self.segments.iter().map(ChunkSegment::offered_bytes).sum()
    }

    /// Returns the number of bytes written according to the Reply; `None` without a Reply.
    pub fn returned_bytes(&self) -> Option<u64> {
        self.segments.iter().map(|segment| segment.returned_length.map(u64::from)).sum()
    }

    /// Returns the number of bytes seen in RDMA payloads.
    pub fn moved_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.moved_coverage.total_bytes()).sum()
    }

    /// Retains payload bytes from now on; `is_message` says that a message will be decoded from them.
    pub fn retain_payload(&mut self, is_message: bool) {
        self.segments.iter_mut().for_each(|segment| segment.retain_payload(is_message));
    }

    /// Extends `times` to include `time`.
    pub fn extend_times(&mut self, time: Timestamp) {
        self.times = Some(self.times.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
    }

    /// Records an RDMA Read request for `length` bytes of a segment, and of those that follow it in memory.
    pub(super) fn record_read_request(&mut self, index: usize, mut offset: u64, length: u32) {
        self.requested_bytes = self.requested_bytes.saturating_add(length.into());
        let mut remaining = u64::from(length);
        for segment in self.segments.iter_mut().skip(index) {
            let Some(at) = offset.checked_sub(segment.offset) else { break };
            if remaining == 0 || at >= segment.offered_bytes() {
                break;
            }
            let end = (at + remaining).min(segment.offered_bytes());
            segment.requested_until = segment.requested_until.max(end as u32);
            remaining -= end - at;
            offset = offset.wrapping_add(end - at);
        }
    }

    /// Returns the missing ranges of a Read chunk of which the Responder needs `needed` bytes. It reads from the start
    /// to the end, so it has read what precedes a byte that it requested or received.
    pub(super) fn missing_reads(&self, mut needed: u64) -> Vec<Range<u64>> {
        let last = self.segments.iter().rposition(|segment| segment.read_until() > 0);
        let mut index = 0;
        self.missing(|segment| {
            let is_before_last = last.is_some_and(|last| index < last);
            index += 1;
            let needed_here = needed.min(segment.offered_bytes());
            needed -= needed_here;
            if is_before_last { segment.offered_bytes() } else { segment.read_until().max(needed_here) }
        })
    }

    /// Returns the ranges of the content that were not seen, as offsets in the concatenated segments, each of which
    /// holds `expected` bytes.
    pub fn missing(&self, mut expected: impl FnMut(&ChunkSegment) -> u64) -> Vec<Range<u64>> {
        let mut base = 0;
        let mut missing: Vec<Range<u64>> = Vec::new();
        for segment in &self.segments {
            let length = expected(segment);
            for gap in segment.content_coverage().missing_ranges(length) {
                match missing.last_mut() {
                    Some(last) if last.end == base + gap.start => last.end = base + gap.end,
                    _ => missing.push(base + gap.start..base + gap.end),
                }
            }
            base += length;
        }
        missing
    }

    /// Returns the concatenated content up to the first gap in the capture; each segment holds `expected` bytes.
    /// Borrowed if there is one segment. `None` if payload bytes are not retained.
    pub fn content(&self, expected: impl Fn(&ChunkSegment) -> u64) -> Option<std::borrow::Cow<'_, [u8]>> {
        segments_content(self.segments.iter(), expected)
    }
}

/// Returns the concatenated content of segments up to the first gap in the capture; each holds `expected` bytes.
/// Borrowed if there is one segment. `None` if payload bytes are not retained.
pub(super) fn segments_content<'t>(
    segments: impl Iterator<Item = &'t ChunkSegment> + Clone,
    expected: impl Fn(&ChunkSegment) -> u64,
) -> Option<std::borrow::Cow<'t, [u8]>> {
    let mut rest = segments.clone();
    if let (Some(segment), None) = (rest.next(), rest.next()) {
        let bytes = segment.payload.as_ref()?.prefix();
        return Some(bytes[..bytes.len().min(expected(segment) as usize)].into());
    }
    let mut content = Vec::new();
    for segment in segments {
        let (bytes, length) = (segment.payload.as_ref()?.prefix(), expected(segment) as usize);
        content.extend_from_slice(&bytes[..bytes.len().min(length)]);
        if bytes.len() < length {
            break;
        }
    }
    Some(content.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(offset: u64, length: u32) -> ChunkSegment {
        ChunkSegment { offset, length, ..ChunkSegment::default() }
    }

    fn data(bytes: &[u8]) -> CapturedPacketPayload<'_> {
        CapturedPacketPayload { bytes, length: bytes.len() as u32 }
    }

    #[test]
    fn moved_never_exceeds_the_segment() {
        let mut segment = segment(1000, 10);
        assert_eq!(segment.add(1008, &data(b"abcdef"), &[FrameNumber(1)]), 2);
        assert_eq!(segment.add(990, &data(b"abcdef"), &[FrameNumber(2)]), 0);
        assert_eq!(segment.moved_coverage.total_bytes(), 2);
    }

    #[test]
    fn bytes_cut_by_a_snap_length_count_as_moved() {
        let mut segment = segment(0, 1024);
        segment.payload = Some(Box::default());
        segment.add(0, &CapturedPacketPayload { bytes: b"abc", length: 1024 }, &[FrameNumber(1)]);
        assert_eq!(segment.moved_coverage.total_bytes(), 1024);
        assert_eq!(segment.payload.unwrap().prefix(), b"abc");
    }

    #[test]
    fn stored_bytes_are_put_in_order_from_any_arrival() {
        let mut segment = segment(0, 10);
        segment.payload = Some(Box::default());
        for (at, bytes) in [(8, "89"), (4, "456"), (4, "45"), (6, "678"), (2, "23")] {
            segment.add(at, &data(bytes.as_bytes()), &[FrameNumber(1)]);
        }
        assert_eq!(
            (segment.payload.as_ref().unwrap().prefix(), segment.payload_memory_bytes()),
            (&b""[..], 2 + 3 + 3 + 2 + 4 * OUT_OF_ORDER_OVERHEAD_BYTES)
        );
        segment.add(0, &data(b"012"), &[FrameNumber(2)]);
        assert_eq!(
            (segment.payload.as_ref().unwrap().prefix(), segment.payload_memory_bytes()),
            (&b"0123456789"[..], 10)
        );
        assert_eq!(segment.drop_payload(), 10);
    }

    #[test]
    fn bytes_at_the_far_end_take_no_more_than_themselves() {
        let mut segment = segment(0, u32::MAX);
        segment.payload = Some(Box::default());
        segment.add(u64::from(u32::MAX) - 3, &data(b"abc"), &[FrameNumber(1)]);
        assert_eq!(segment.payload_memory_bytes(), 3 + OUT_OF_ORDER_OVERHEAD_BYTES);
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
        chunk.retain_payload(true);
        chunk.segments[0].add(0, &data(b"abcd"), &[FrameNumber(1)]);
        chunk.segments[1].add(100, &data(b"efgh"), &[FrameNumber(2)]);
        chunk.segments[0].returned_length = Some(4);
        chunk.segments[1].returned_length = Some(2);
        let returned = |segment: &ChunkSegment| u64::from(segment.returned_length.unwrap_or(0));
        assert_eq!(chunk.content(returned).unwrap(), &b"abcdef"[..]);
    }
}
