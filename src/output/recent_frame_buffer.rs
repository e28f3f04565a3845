//! Ring buffer of the latest frames, for views that need the bytes of an earlier frame.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

/// Ring buffer of frames with a limit in bytes: a new frame evicts the oldest ones. Pinned frames stay, in a quarter of
/// the memory.
#[derive(Debug)]
pub struct RecentFrameBuffer {
    frames: VecDeque<BufferedFrameCopy>,
    bytes: usize,
    limit_bytes: usize,
    /// Frames that are kept longer than the others.
    pinned: BTreeSet<FrameNumber>,
    /// Those of them that would have been evicted, with their memory.
    kept: BTreeMap<FrameNumber, BufferedFrameCopy>,
    kept_bytes: usize,
}

impl RecentFrameBuffer {
    /// Creates a ring of at most `limit_bytes` bytes, including the bookkeeping of each frame.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            limit_bytes,
            pinned: BTreeSet::new(),
            kept: BTreeMap::new(),
            kept_bytes: 0,
        }
    }

    /// Returns the number of the oldest frame in the ring.
    pub fn first_number(&self) -> Option<FrameNumber> {
        self.frames.front().map(|frame| frame.number)
    }

    /// Appends a frame; frames must come in the order of their numbers. A frame larger than the ring is dropped.
    pub fn push(&mut self, frame: &Frame<'_>) {
        let cost = frame.bytes.len() + size_of::<BufferedFrameCopy>();
        let mut bytes = Vec::new();
        while self.bytes + self.kept_bytes + cost > self.limit_bytes {
            let Some(oldest) = self.frames.pop_front() else { return };
            let oldest_bytes = oldest.bytes.len() + size_of::<BufferedFrameCopy>();
            self.bytes -= oldest_bytes;
            if self.pinned.contains(&oldest.number) && self.kept_bytes + oldest_bytes <= self.limit_bytes / 4 {
                self.kept_bytes += oldest_bytes;
                // The memory of the ring and of the kept frames together meets the limit.
                self.kept.insert(oldest.number, oldest);
            } else {
                bytes = oldest.bytes;
            }
        }
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        bytes.shrink_to(frame.bytes.len() * 2);
        self.bytes += cost;
        let Frame { number, time, link, length, .. } = *frame;
        self.frames.push_back(BufferedFrameCopy { number, time, link, length, bytes, crc: None });
    }

    /// Pins these frames, and no others.
    pub fn pin(&mut self, pinned: BTreeSet<FrameNumber>) {
        self.pinned = pinned;
        let Self { kept, pinned, kept_bytes, .. } = self;
        kept.retain(|number, frame| {
            let is_pinned = pinned.contains(number);
            *kept_bytes -= if is_pinned { 0 } else { frame.bytes.len() + size_of::<BufferedFrameCopy>() };
            is_pinned
        });
    }

    /// Returns the numbers of the pinned frames before the first one of the ring, from `from` on.
    pub fn pinned_before_ring(&self, from: FrameNumber) -> impl Iterator<Item = FrameNumber> + '_ {
        self.kept.range(from..).map(|(number, _)| *number)
    }

    fn copy_of(&self, number: FrameNumber) -> Option<&BufferedFrameCopy> {
        let at = self.frames.binary_search_by_key(&number, |frame| frame.number);
        at.ok().and_then(|at| self.frames.get(at)).or_else(|| self.kept.get(&number))
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
        let BufferedFrameCopy { number, time, link, length, bytes, .. } = self.copy_of(number)?;
        Some(Frame { number: *number, time: *time, link: *link, length: *length, bytes })
    }

    fn crc(&self, number: FrameNumber) -> MpaCounts {
        self.copy_of(number).and_then(|frame| frame.crc.as_deref()).copied().unwrap_or_default()
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
    fn pinned_frames_outlive_the_ring() {
        let cost = 100 + size_of::<BufferedFrameCopy>();
        let mut kept = RecentFrameBuffer::new(8 * cost);
        (1..=8).for_each(|number| kept.push(&frame(number, &[number as u8; 100])));
        kept.pin([1, 3].map(FrameNumber).into());
        (9..=40).for_each(|number| kept.push(&frame(number, &[number as u8; 100])));
        let pinned = |kept: &RecentFrameBuffer| {
            kept.pinned_before_ring(FrameNumber(1)).map(|number| number.0).collect::<Vec<_>>()
        };
        assert_eq!(pinned(&kept), [1, 3]);
        assert_eq!(kept.frame(FrameNumber(3)).map(|frame| frame.bytes[0]), Some(3));
        assert!(kept.frame(FrameNumber(2)).is_none() && kept.frame(FrameNumber(40)).is_some());
        assert_eq!((kept.kept_bytes, kept.frames.len()), (2 * cost, 6));
        kept.pin([3].map(FrameNumber).into());
        assert_eq!((pinned(&kept), kept.kept_bytes), (vec![3], cost));
    }

    #[test]
    fn a_frame_larger_than_the_buffer_is_not_stored() {
        let mut kept = RecentFrameBuffer::new(100);
        kept.push(&frame(1, &[0; 200]));
        assert!(kept.frame(FrameNumber(1)).is_none());
        assert_eq!(kept.bytes, 0);
    }
}
