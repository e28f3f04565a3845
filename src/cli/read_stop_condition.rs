//! Conditions besides the frames that end reading.

use nfsrdma_dissectors::captured_frame::Timestamp;

use crate::interrupt::ShutdownSignalRegistration;

/// Condition besides the frames that ends reading.
pub(in crate::cli) trait ReadStopCondition {
    /// Counts a frame; returns `true` if it is the last requested one.
    fn frame(&mut self, time: Timestamp) -> bool;

    /// Returns the current time on the clock of the frames, while no frame arrives.
    fn idle(&mut self) -> Timestamp;

    /// Returns `true` if the inputs end where the user wanted it, which may be within a frame.
    fn has_ended_inputs(&self) -> bool {
        false
    }
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

/// Pipes are read to their end, or until the user interrupts that.
impl ReadStopCondition for ShutdownSignalRegistration {
    fn frame(&mut self, _: Timestamp) -> bool {
        false
    }

    fn idle(&mut self) -> Timestamp {
        Timestamp::default()
    }

    fn has_ended_inputs(&self) -> bool {
        self.is_requested()
    }
}
