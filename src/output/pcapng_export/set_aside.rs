//! Frames of calls without a reply that a filter does not select. They leave the queue, so that no other frame waits
//! for them, and are kept in case that the filter selects the calls with their replies.

use std::collections::BTreeMap;

use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::queued_frame::{BufferedExportFrame, FrameMembership};

/// A frame and its roles in transactions that were selected meanwhile.
pub(super) type LateFrame = (BufferedExportFrame, Vec<FrameMembership>);

/// Kept frames, in limited memory.
#[derive(Debug, Default)]
pub(super) struct SetAsideFrames {
    /// Each with the number of calls that it belongs to.
    kept: BTreeMap<FrameNumber, (BufferedExportFrame, u32)>,
    /// Frames of calls that were selected meanwhile.
    late: BTreeMap<FrameNumber, LateFrame>,
    bytes: usize,
}

impl SetAsideFrames {
    /// Returns the memory of the frames.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a frame of so many calls, unless that takes more than `limit_bytes`.
    pub(super) fn keep(&mut self, number: FrameNumber, frame: BufferedExportFrame, calls: u32, limit_bytes: usize) {
        let bytes = frame.memory_bytes();
        if self.bytes + bytes <= limit_bytes {
            self.bytes += bytes;
            self.kept.insert(number, (frame, calls));
        }
    }

    /// Selects a frame for its role in a transaction. Returns `false` if it was not kept.
    pub(super) fn select(&mut self, number: FrameNumber, membership: FrameMembership) -> bool {
        if let Some((frame, _)) = self.kept.remove(&number) {
            self.late.insert(number, (frame, Vec::new()));
        }
        let Some((_, memberships)) = self.late.get_mut(&number) else { return false };
        memberships.push(membership);
        true
    }

    /// Drops a frame for one of the calls that it belongs to.
    pub(super) fn release(&mut self, number: FrameNumber) {
        let Some((frame, calls)) = self.kept.get_mut(&number) else { return };
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            self.bytes -= frame.memory_bytes();
            self.kept.remove(&number);
        }
    }

    /// Takes the first of the selected frames.
    pub(super) fn take_late(&mut self) -> Option<(FrameNumber, LateFrame)> {
        let (number, late) = self.late.pop_first()?;
        self.bytes -= late.0.memory_bytes();
        Some((number, late))
    }
}
