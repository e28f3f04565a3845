//! The clock that stamps frames, as far as they show it: the age of a call without a reply, and by how much decoding
//! lags behind an interface.

use std::time::{Duration, Instant};

use nfsrdma_dissectors::captured_frame::Timestamp;

/// Nanoseconds by which a frame that has just arrived may differ from the clock: clocks drift.
const MAX_DRIFT_NS: u64 = 100_000_000;
/// Time after which frames that arrive late, though decoding waited for them, show that the clock was set back.
const SET_BACK_AFTER: Duration = Duration::from_secs(10);

/// The clock: the time of a frame, and when it was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameClock {
    anchor: Option<(Timestamp, Instant)>,
    /// Since when frames were late, though decoding waited for them.
    late_since: Option<Instant>,
}

impl FrameClock {
    /// Returns the time of the clock at an instant; `None` before the first frame.
    pub(super) fn at(&self, instant: Instant) -> Option<Timestamp> {
        let (time, received_at) = self.anchor?;
        let passed_ns = i64::try_from(instant.saturating_duration_since(received_at).as_nanos()).unwrap_or(i64::MAX);
        Some(Timestamp(time.0.saturating_add(passed_ns)))
    }

    /// Sets the clock by a frame whose time is no measure of when it is received, as in a pipe.
    pub(super) fn set(&mut self, time: Timestamp, received_at: Instant) {
        *self = Self { anchor: Some((time, received_at)), late_since: None };
    }

    /// Sets the clock by a frame of an interface, which may have waited before it is decoded: then the clock runs on.
    /// Returns by how many nanoseconds decoding is behind it. After a pause (`has_paused`), a frame has just arrived,
    /// unless the program itself stood still.
    pub(super) fn frame(&mut self, time: Timestamp, received_at: Instant, has_paused: bool) -> u64 {
        let Some(late_ns) = self.at(received_at).and_then(|now| now.nanoseconds_since(time)) else {
            self.set(time, received_at);
            return 0;
        };
        let sets_clock = match (late_ns > MAX_DRIFT_NS, has_paused) {
            (false, _) => {
                self.late_since = None;
                has_paused
            }
            (true, false) => false,
            (true, true) => {
                let late_since = *self.late_since.get_or_insert(received_at);
                received_at.saturating_duration_since(late_since) >= SET_BACK_AFTER
            }
        };
        if sets_clock {
            self.set(time, received_at);
            return 0;
        }
        late_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn frames_that_waited_are_behind() {
        let (start, mut clock) = (Instant::now(), FrameClock::default());
        assert_eq!(clock.at(start), None);
        assert_eq!(clock.frame(Timestamp(0), start, true), 0);
        // Without a pause, a frame of 1.0 s is decoded at 1.5 s.
        assert_eq!(clock.frame(Timestamp(S), at(start, 1_500), false), 500_000_000);
        assert_eq!(clock.at(at(start, 1_500)), Some(Timestamp(3 * S / 2)));
        // A frame of the future sets the clock.
        assert_eq!(clock.frame(Timestamp(3 * S), at(start, 2_000), false), 0);
        assert_eq!(clock.at(at(start, 2_000)), Some(Timestamp(3 * S)));
    }

    /// A program that was stopped, or got no processor, does not take old frames for new ones.
    #[test]
    fn standstill_does_not_set_clock_back() {
        let (start, mut clock) = (Instant::now(), FrameClock::default());
        clock.frame(Timestamp(0), start, true);
        for ms in 0..50 {
            let late_ns = clock.frame(Timestamp(S + ms * 1_000_000), at(start, 6_000), ms == 0);
            assert_eq!(late_ns, (5_000 - ms as u64) * 1_000_000);
        }
        assert_eq!(clock.at(at(start, 6_000)), Some(Timestamp(6 * S)));
        assert_eq!(clock.frame(Timestamp(7 * S), at(start, 7_010), true), 0);
    }

    #[test]
    fn clock_follows_drift_and_steps() {
        let (start, mut clock) = (Instant::now(), FrameClock::default());
        clock.frame(Timestamp(0), start, true);
        assert_eq!(clock.frame(Timestamp(S), at(start, 1_050), true), 0);
        assert_eq!(clock.at(at(start, 1_050)), Some(Timestamp(S)));
        // Set back by 5 s: after 10 s, frames of the new time are new.
        for second in 2..12 {
            assert!(clock.frame(Timestamp((second - 5) * S), at(start, second as u64 * 1_000), true) > 4_000_000_000);
        }
        assert_eq!(clock.frame(Timestamp(7 * S), at(start, 12_000), true), 0);
    }
}
