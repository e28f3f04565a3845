//! Think time: each client waits as long after the completion of its previous steps as it did in the capture.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

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
        let at = self.0.partition_point(|(known, _)| *known <= end);
        self.0.insert(at, (end, now));
    }

    /// Returns the send time of a step that was sent at `start` in the capture: as long after the last Reply before it
    /// as there.
    pub(super) fn due_time(&self, start: u64) -> Option<Instant> {
        let before = self.0.partition_point(|(end, _)| *end <= start).checked_sub(1)?;
        let (end, done) = self.0.get(before)?;
        Some(*done + Duration::from_nanos(start.saturating_sub(*end).min(1 << 60)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_due_after_the_last_reply_that_was_there_before_it() {
        let mut history = ThinkTimeHistory::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        history.record_completion(500, later);
        history.record_completion(100, now);
        assert_eq!(history.due_time(99), None);
        assert_eq!(
            history.due_time(130),
            Some(now + Duration::from_nanos(30)),
            "that at 500 was not there yet"
        );
        assert_eq!(history.due_time(501), Some(later + Duration::from_nanos(1)));
        (1000..5000).for_each(|end| history.record_completion(end, now));
        assert_eq!(history.0.len(), MAX_STEPS);
    }
}
