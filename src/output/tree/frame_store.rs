//! Access to earlier frames, whose headers the tree shows.

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber};
use nfsrdma_flow::MpaCounts;

/// Store of earlier frames.
pub trait FrameStore {
    /// Returns the frame of this number, or `None` if it is not stored.
    fn frame(&self, number: FrameNumber) -> Option<Frame<'_>>;

    /// Returns the CRC results of the FPDUs that the frame completes, if they are stored.
    fn crc(&self, _number: FrameNumber) -> MpaCounts {
        MpaCounts::default()
    }
}

/// Store without frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyFrameStore;

impl FrameStore for EmptyFrameStore {
    fn frame(&self, _: FrameNumber) -> Option<Frame<'_>> {
        None
    }
}
