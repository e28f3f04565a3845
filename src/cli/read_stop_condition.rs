//! Conditions besides the frames that end reading.

use nfsrdma_dissectors::captured_frame::Timestamp;

/// Condition besides the frames that ends reading.
pub(in crate::cli) trait ReadStopCondition {
    /// Counts a frame; returns `true` if it is the last requested one.
    fn frame(&mut self, time: Timestamp) -> bool;

    /// Returns the current time on the clock of the frames, while no frame arrives.
    fn idle(&mut self) -> Timestamp;
}

/// Files are read as fast as possible, to their end.
pub(in crate::cli) struct NoEarlyReadStop;

impl ReadStopCondition for NoEarlyReadStop {
    fn frame(&mut self, _: Timestamp) -> bool {
        false
    }

    fn idle(&mut self) -> Timestamp {
        Timestamp::default()
    }
}
