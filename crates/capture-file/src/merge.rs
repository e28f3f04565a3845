//! Merging of several files by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nfsrdma_dissectors::captured_frame::Timestamp;

use super::error::SourceError;
use super::reader::CaptureFileReader;

/// The merge order of the readers: the earliest next frame comes first; of equal times that of the reader named first.
/// Only the next frame of each reader is compared, so each file keeps its own order even if its clock goes backwards.
#[derive(Default)]
pub(super) struct CaptureMergeQueue {
    /// Number of readers whose first frame was read.
    started: usize,
    /// The other readers that hold a frame.
    pending: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// Reader of the last returned frame.
    current: Option<usize>,
}

impl CaptureMergeQueue {
    /// Returns the index of the reader that holds the next frame; `None` when all have ended. After the error of
    /// a reader, which has then ended, the others continue with the next call.
    pub(super) fn next(&mut self, readers: &mut [CaptureFileReader]) -> Result<Option<usize>, SourceError> {
        while let Some(reader) = readers.get_mut(self.started) {
            let index = self.started;
            self.started += 1;
            if let Some(time) = reader.advance()? {
                reader.park_if_tight();
                self.pending.push(Reverse((time, index)));
            }
        }
        if let Some(index) = self.current.take()
            && let Some(reader) = readers.get_mut(index)
            && let Some(time) = reader.advance()?
        {
            // Files of a ring buffer follow each other: mostly the same reader continues, and the heap stays unchanged.
            let key = (time, index);
            self.current = match self.pending.peek_mut() {
                Some(mut other) if other.0 < key => Some(std::mem::replace(&mut other.0, key).1),
                _ => Some(index),
            };
        } else {
            self.current = self.pending.pop().map(|Reverse((_, index))| index);
        }
        if let Some(reader) = self.current.and_then(|index| readers.get_mut(index))
            && let Err(error) = reader.unpark()
        {
            self.current = None;
            return Err(error);
        }
        Ok(self.current)
    }
}
