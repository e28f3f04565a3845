//! Ring buffer of the latest frames, for views that need the bytes of an earlier frame.

use std::collections::VecDeque;

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_flow::MpaCounts;

use super::tree::frame_store::FrameStore;

#[derive(Debug)]
struct BufferedFrameCopy {
    number: FrameNumber,
    time: Timestamp,
    link: LinkType,
    length: u32,
    bytes: Vec<u8>,
    /// Boxed, because few frames have any counts.
    crc: Option<Box<MpaCounts>>,
}

/// Ring buffer of frames with a limit in bytes: a new frame evicts the oldest ones.
#[derive(Debug)]
pub struct RecentFrameBuffer {
    frames: VecDeque<BufferedFrameCopy>,
    bytes: usize,
    limit_bytes: usize,
}

impl RecentFrameBuffer {
    /// Creates a ring of at most `limit_bytes` bytes, including the bookkeeping of each frame.
    pub fn new(limit_bytes: usize) -> Self {
        Self { frames: VecDeque::new(), bytes: 0, limit_bytes }
    }

    /// Returns the number of the oldest frame in the ring.
    pub fn first_number(&self) -> Option<FrameNumber> {
        self.frames.front().map(|frame| frame.number)
    }

    /// Appends a frame; frames must come in the order of their numbers. A frame larger than the ring is dropped.
    pub fn push(&mut self, frame: &Frame<'_>) {
        let cost = frame.bytes.len() + size_of::<BufferedFrameCopy>();
        let mut bytes = Vec::new();
        while self.bytes + cost > self.limit_bytes {
            let Some(oldest) = self.frames.pop_front() else { return };
            self.bytes -= oldest.bytes.len() + size_of::<BufferedFrameCopy>();
            bytes = oldest.bytes;
        }
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        bytes.shrink_to(frame.bytes.len() * 2);
        self.bytes += cost;
        let Frame { number, time, link, length, .. } = *frame;
        self.frames.push_back(BufferedFrameCopy { number, time, link, length, bytes, crc: None });
    }

    /// Stores the CRC results of the FPDUs that the last frame completes.
    pub fn set_last_crc(&mut self, crc: MpaCounts) {
        if let Some(last) = self.frames.back_mut()
            && crc != MpaCounts::default()
        {
            last.crc = Some(Box::new(crc));
        }
    }
}

impl FrameStore for RecentFrameBuffer {
    fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        let at = self.frames.binary_search_by_key(&number, |frame| frame.number).ok()?;
        let BufferedFrameCopy { number, time, link, length, bytes, .. } = self.frames.get(at)?;
        Some(Frame { number: *number, time: *time, link: *link, length: *length, bytes })
    }

    fn crc(&self, number: FrameNumber) -> MpaCounts {
        let at = self.frames.binary_search_by_key(&number, |frame| frame.number);
        let crc = at.ok().and_then(|at| self.frames.get(at)?.crc.as_deref());
        crc.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64, bytes: &[u8]) -> Frame<'_> {
        Frame { number: FrameNumber(number), time: Timestamp(7), link: LinkType::ETHERNET, length: 99, bytes }
    }

    #[test]
    fn the_oldest_frames_are_evicted_for_new_ones() {
        let mut kept = RecentFrameBuffer::new(3 * (100 + size_of::<BufferedFrameCopy>()));
        for number in [1, 2, 3, 5] {
            kept.push(&frame(number, &[number as u8; 100]));
        }
        let bytes = |number| kept.frame(FrameNumber(number)).map(|frame| frame.bytes.to_vec());
        assert_eq!(bytes(1), None);
        assert_eq!(bytes(2), Some(vec![2; 100]));
        assert_eq!(bytes(4), None);
        assert_eq!(bytes(5), Some(vec![5; 100]));
        let found = kept.frame(FrameNumber(3)).unwrap();
        assert_eq!((found.time, found.link, found.length), (Timestamp(7), LinkType::ETHERNET, 99));
        kept.push(&frame(6, &[6; 300]));
        assert_eq!(kept.frames.len(), 1);
    }

    #[test]
    fn a_frame_larger_than_the_buffer_is_not_stored() {
        let mut kept = RecentFrameBuffer::new(100);
        kept.push(&frame(1, &[0; 200]));
        assert!(kept.frame(FrameNumber(1)).is_none());
        assert_eq!(kept.bytes, 0);
    }
}
