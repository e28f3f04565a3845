//! Observer of a run in progress.

use std::time::Duration;

use super::report::ReplayReport;
use super::trace_recording::ReplayMessageRecorder;

/// Observes a run in progress.
pub trait ReplayMonitor {
    /// Called with the current report; `total` is the number of steps in the trace.
    fn report_progress(&mut self, report: &ReplayReport, total: u64, elapsed: Duration);

    /// Returns `true` if the run is to be interrupted.
    fn should_stop(&self) -> bool {
        false
    }

    /// Returns the recorder of everything sent and received; called once, before the first step is sent.
    fn recorder(&mut self) -> Option<Box<dyn ReplayMessageRecorder>> {
        None
    }
}

impl ReplayMonitor for () {
    fn report_progress(&mut self, _: &ReplayReport, _: u64, _: Duration) {}
}
