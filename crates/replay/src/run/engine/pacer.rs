//! Pace of a run: the time when each step is to be sent. With think time, each client waits as long after the
//! completion of its previous steps as it did in the capture.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::super::options::ReplayPace;
use super::step_window::StepWindowEntry;

/// Determines when steps are due. It reads no clock: the engine passes the times.
#[derive(Debug)]
pub(super) struct StepPacer {
    pub(super) pace: ReplayPace,
    /// Capture time of the first Call.
    first_call_time_ns: u64,
    /// Send time of the first Call.
    pub(super) started: Option<Instant>,
    /// Number of steps sent, without retries.
    pub(super) sent: u64,
    /// Completion times of the latest steps of each client, if clients have think time.
    clients: FxHashMap<u32, ThinkTimeHistory>,
}

impl StepPacer {
    pub(super) fn new(pace: ReplayPace, first_call_time_ns: u64) -> Self {
        Self { pace, first_call_time_ns, started: None, sent: 0, clients: FxHashMap::default() }
    }

    /// Sets the time to which the captured times of steps are relative, unless it is set.
    pub(super) fn start_captured_times(&mut self, now: impl FnOnce() -> Instant) {
        if matches!(self.pace, ReplayPace::CapturedTimes(_)) {
            self.started.get_or_insert_with(now);
        }
    }

    /// Returns the time when a step is due whose dependencies are satisfied, or `None` if it is due at once.
    pub(super) fn due_time(&self, entry: &StepWindowEntry) -> Option<Instant> {
        match self.pace {
            ReplayPace::Immediate | ReplayPace::CapturedDepth | ReplayPace::Rate(_) => None,
            ReplayPace::CapturedTimes(times) => {
                let elapsed_ns = entry.captured.call_time_ns.saturating_sub(self.first_call_time_ns) as f64;
                Some(self.started? + nanoseconds(elapsed_ns / times))
            }
            ReplayPace::ThinkTime => self.clients.get(&entry.captured.client)?.due_time(entry.captured.call_time_ns),
        }
    }

    /// Returns the time when the next step is due at a fixed rate.
    pub(super) fn due_time_at_rate(&self, calls_per_second: f64) -> Option<Instant> {
        self.started.map(|started| started + nanoseconds(self.sent as f64 * 1e9 / calls_per_second))
    }

    pub(super) fn record_completion(&mut self, entry: &StepWindowEntry, now: Instant) {
        if self.pace == ReplayPace::ThinkTime {
            let client = self.clients.entry(entry.captured.client).or_default();
            client.record_completion(entry.captured.reply_time_ns, now);
        }
    }
}

/// Maximum number of steps remembered per client; at least as many as may have been in flight at once.
const MAX_STEPS: usize = 1024;

/// Latest steps of a client: captured reply time and completion time in this run, by captured time.
#[derive(Debug, Default)]
pub(super) struct ThinkTimeHistory(VecDeque<(u64, Instant)>);

impl ThinkTimeHistory {
    /// Adds a step with its captured reply time `end`.
    pub(super) fn record_completion(&mut self, end: u64, now: Instant) {
        if self.0.len() >= MAX_STEPS {
            self.0.pop_front();
        }
        let at = self.0.partition_point(|(reply_time_ns, _)| *reply_time_ns <= end);
        self.0.insert(at, (end, now));
    }

    /// Returns the send time of a step that was sent at `start` in the capture: as long after the last Reply before it
    /// as there.
    pub(super) fn due_time(&self, start: u64) -> Option<Instant> {
        let index = self.0.partition_point(|(end, _)| *end <= start).checked_sub(1)?;
        let (end, completed) = self.0.get(index)?;
        Some(*completed + Duration::from_nanos(start.saturating_sub(*end).min(1 << 60)))
    }
}

fn nanoseconds(time: f64) -> Duration {
    Duration::from_nanos(time.clamp(0.0, 1e18) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_times_are_relative_to_the_first_start() {
        let now = Instant::now();
        let mut pacer = StepPacer::new(ReplayPace::CapturedTimes(1.0), 1_000);
        pacer.start_captured_times(|| now);
        pacer.start_captured_times(|| now + Duration::from_secs(1));
        let mut step = StepWindowEntry::default();
        step.captured.call_time_ns = 4_000;
        assert_eq!(pacer.due_time(&step), Some(now + Duration::from_nanos(3_000)));
        let mut at_once = StepPacer::new(ReplayPace::Immediate, 1_000);
        at_once.start_captured_times(|| now);
        assert_eq!((at_once.started, at_once.due_time(&step)), (None, None), "the first call sets it");
    }

    #[test]
    fn each_pace_has_its_due_times() {
        let now = Instant::now();
        let due_after = |pace, sent| {
            let mut pacer = StepPacer::new(pace, 1_000);
            (pacer.started, pacer.sent) = (Some(now), sent);
            let mut held = StepWindowEntry::default();
            (held.captured.call_time_ns, held.captured.reply_time_ns) = (5_000, 6_000);
            let due = pacer.due_time(&held).map(|due| due - now);
            pacer.record_completion(&held, now);
            held.captured.call_time_ns = 9_000;
            (due, pacer.due_time(&held).map(|due| due - now), pacer.due_time_at_rate(1e6).map(|due| due - now))
        };
        let after = |nanoseconds| Some(Duration::from_nanos(nanoseconds));
        assert_eq!(due_after(ReplayPace::Immediate, 0), (None, None, after(0)));
        // At twice the speed of the capture.
        assert_eq!(due_after(ReplayPace::CapturedTimes(2.0), 0), (after(2_000), after(4_000), after(0)));
        // As long after the previous Reply as in the capture.
        assert_eq!(due_after(ReplayPace::ThinkTime, 0), (None, after(3_000), after(0)));
        assert_eq!(due_after(ReplayPace::Rate(1e6), 7), (None, None, after(7_000)));
    }

    #[test]
    fn a_step_is_due_after_the_last_earlier_reply() {
        let mut history = ThinkTimeHistory::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        history.record_completion(500, later);
        history.record_completion(100, now);
        assert_eq!(history.due_time(99), None);
        assert_eq!(history.due_time(130), Some(now + Duration::from_nanos(30)), "that at 500 was not there yet");
        assert_eq!(history.due_time(501), Some(later + Duration::from_nanos(1)));
        (1000..5000).for_each(|end| history.record_completion(end, now));
        assert_eq!(history.0.len(), MAX_STEPS);
    }
}
