//! Several files as one, by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nfsrdma_dissectors::frame::Timestamp;

use super::error::SourceError;
use super::reader::CaptureFileReader;

/// The order in which readers give their frames: the earliest first frame is next; of equal ones that of the reader
/// that was named first. Only first frames are compared, so that each file keeps its own order, whatever its clock does.
#[derive(Default)]
pub(super) struct Merge {
    /// Readers whose first frame was asked for.
    started: usize,
    /// All other readers that hold a frame.
    waiting: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// The reader whose frame was given last.
    current: Option<usize>,
}

impl Merge {
    /// The reader that has the next frame, with that frame in it; `None` when all have ended.
    ///
    /// # Errors
    /// Those of a reader, which has then ended; the others go on at the next call.
    pub(super) fn next(&mut self, readers: &mut [CaptureFileReader]) -> Result<Option<usize>, SourceError> {
        while let Some(reader) = readers.get_mut(self.started) {
            let index = self.started;
            self.started += 1;
            if let Some(time) = reader.advance()? {
                if reader.are_windows_tight() {
                    reader.park();
                }
                self.waiting.push(Reverse((time, index)));
            }
        }
        if let Some(index) = self.current.take()
            && let Some(reader) = readers.get_mut(index)
            && let Some(time) = reader.advance()?
        {
            // Files of a ring buffer follow one another: mostly the same reader goes on, and nothing moves.
            let mine = (time, index);
            self.current = match self.waiting.peek_mut() {
                Some(mut other) if other.0 < mine => Some(std::mem::replace(&mut other.0, mine).1),
                _ => Some(index),
            };
        } else {
            self.current = self.waiting.pop().map(|Reverse((_, index))| index);
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
