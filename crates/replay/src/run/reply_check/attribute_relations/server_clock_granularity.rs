//! Granularity of a server's change attributes and times, inferred from the run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Minimum distance of changes that times with subsecond parts distinguish: a kernel's clock tick is at most 10 ms.
const SUBSECOND_GRANULARITY: Duration = Duration::from_millis(20);
/// The same for times in whole seconds; FAT has a resolution of two seconds.
const SECOND_GRANULARITY: Duration = Duration::from_millis(2_100);
/// Maximum distance of changes which show that a change attribute is a counter, if it distinguishes them.
const CLOSE_CHANGES: Duration = Duration::from_millis(1);
/// Number of such observations required.
const MIN_OBSERVATIONS: u32 = 16;
/// Number of increases, without any decrease, after which no decrease is allowed. A value that is compared with two
/// earlier ones counts twice.
const MIN_INCREASES: u32 = 16;
/// Maximum difference of the server's clock from that of this machine in seconds.
const MAX_SERVER_SKEW_SECONDS: u64 = 86_400;
/// Maximum difference of the captured server's clock from the capture's in seconds, for anything to follow from it.
const MAX_CAPTURE_SKEW_SECONDS: u64 = 3_600;

#[derive(Debug, Default)]
pub(super) struct ServerChangeAndTimeTraits {
    /// Number of Replies whose change attribute was the time of a change, and of those where it was not.
    time_based_counts: [u32; 2],
    /// Number of changes close to the previous one that the change attribute distinguished.
    close_count: u32,
    /// `true` if it failed to distinguish one.
    is_coarse: bool,
    has_subseconds: bool,
    /// Number of change attributes that increased, and that decreased.
    increase_decrease_counts: [u32; 2],
    /// change_attr_type4, if the server returns it.
    pub(super) change_attr_type: Option<u32>,
    change_range: ServerWideChangeAttributeRange,
}

/// Change attributes set by changes of the run, for all objects: a server may draw them from one clock.
#[derive(Debug, Default)]
struct ServerWideChangeAttributeRange {
    turn: Option<u64>,
    /// Minimum and maximum of all steps, and maximum before the last step.
    least: u64,
    greatest: u64,
    before: u64,
    /// Minimum of the recorded change attributes of these steps.
    recorded_least: u64,
    /// Number of steps that exceeded all earlier values.
    rising: u32,
    /// `true` if one did not: each object has its own counter.
    is_per_object: bool,
}

/// Decodes a time of either version to seconds and nanoseconds.
pub(super) fn decode_time(bytes: &[u8]) -> Option<(u64, u64)> {
    let (seconds, nanoseconds) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Some((number(seconds), number(nanoseconds)))
}

impl ServerChangeAndTimeTraits {
    pub(super) fn record_time(&mut self, time: (u64, u64)) {
        self.has_subseconds |= time.1 != 0;
    }

    /// Adds a change attribute with times of its Reply, one of which it may be (RFC 8881 section 5.8.1.4).
    pub(super) fn record_change(&mut self, change: u64, times: &[(u64, u64)]) {
        let is_of = |(seconds, nanoseconds): &(u64, u64)| {
            [
                seconds.wrapping_mul(1_000_000_000).wrapping_add(*nanoseconds),
                seconds.wrapping_shl(32).wrapping_add(*nanoseconds),
                seconds.wrapping_shl(30).wrapping_add(*nanoseconds),
                seconds.wrapping_mul(1_000_000).wrapping_add(nanoseconds / 1000),
            ]
            .contains(&change)
        };
        let [timed, untimed] = &mut self.time_based_counts;
        *(if times.iter().any(is_of) { timed } else { untimed }) += 1;
    }

    /// Adds a change attribute after a change. `elapsed` is the time from the previous value to that change,
    /// `change_interval` the maximum time between the last two changes. Returns `true` if the value must have changed
    /// and has not.
    pub(super) fn must_move(&mut self, elapsed: Duration, change_interval: Option<Duration>, has_moved: bool) -> bool {
        if has_moved {
            self.close_count += u32::from(change_interval.is_some_and(|interval| interval < CLOSE_CHANGES));
            return false;
        }
        let is_told = matches!(self.change_attr_type, Some(0..=2));
        let is_time = self.time_based_counts[0] > self.time_based_counts[1];
        let is_fine = is_told || self.close_count >= MIN_OBSERVATIONS && !self.is_coarse && !is_time;
        if elapsed >= self.granularity() || is_fine {
            return true;
        }
        self.is_coarse = true;
        false
    }

    /// Adds the recorded and the live change attribute set by a change. Returns `true` if the live one is below all
    /// others of this run, the recorded one is not, and the server draws them from one clock. If both are, another file
    /// system of the server has counters.
    pub(super) fn is_below_run(&mut self, turn: u64, [recorded, change]: [u64; 2]) -> bool {
        let range = &mut self.change_range;
        let is_recorded_below = recorded < range.recorded_least;
        range.recorded_least = range.recorded_least.min(recorded);
        let Some(last) = range.turn else {
            *range = ServerWideChangeAttributeRange {
                turn: Some(turn),
                least: change,
                greatest: change,
                before: change,
                recorded_least: recorded,
                is_per_object: range.is_per_object,
                ..ServerWideChangeAttributeRange::default()
            };
            return false;
        };
        if range.is_per_object || turn < last {
            return false;
        }
        // Values of one step have no order: a created object and its directory.
        if turn > last {
            (range.turn, range.before) = (Some(turn), range.greatest);
            range.rising += u32::from(change > range.before);
        }
        if range.rising == 0 {
            range.least = range.least.min(change);
        } else if change < range.before {
            if range.rising > MIN_OBSERVATIONS && change < range.least && !is_recorded_below {
                return true;
            }
            range.is_per_object = true;
        }
        range.greatest = range.greatest.max(change);
        false
    }

    /// Forgets the values drawn so far, after a restart of the server.
    pub(super) fn forget(&mut self) {
        let is_per_object = self.change_range.is_per_object;
        self.change_range =
            ServerWideChangeAttributeRange { is_per_object, ..ServerWideChangeAttributeRange::default() };
    }

    /// Returns the minimum distance of changes that times distinguish.
    pub(super) fn granularity(&self) -> Duration {
        if self.has_subseconds { SUBSECOND_GRANULARITY } else { SECOND_GRANULARITY }
    }

    /// Adds a later change attribute. Returns `true` for a forbidden decrease: RFC 7862 section 12.2.3.
    pub(super) fn is_forbidden_decrease(&mut self, before: u64, now: u64) -> bool {
        let is_rising = match self.change_attr_type {
            Some(kind) => kind <= 3,
            None => self.increase_decrease_counts[0] >= MIN_INCREASES && self.increase_decrease_counts[1] == 0,
        };
        match now.cmp(&before) {
            std::cmp::Ordering::Less if is_rising => return true,
            std::cmp::Ordering::Less => self.increase_decrease_counts[1] += 1,
            std::cmp::Ordering::Greater => self.increase_decrease_counts[0] += 1,
            std::cmp::Ordering::Equal => {}
        }
        false
    }
}

/// Returns `true` if a time set by a change is not of the day of the run, but the recorded one was of the capture's.
/// `captured` is the capture time of the Call in nanoseconds since 1970.
pub(super) fn is_unexpected_time(recorded: u64, live: u64, captured: u64) -> bool {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    recorded.abs_diff(captured / 1_000_000_000) <= MAX_CAPTURE_SKEW_SECONDS
        && live.abs_diff(now()) > MAX_SERVER_SKEW_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_coarse_change_attribute_must_move_only_between_distant_changes() {
        let mut clock = ServerChangeAndTimeTraits::default();
        clock.record_time((1, 5));
        assert!(!clock.must_move(3 * MS, None, false));
        assert!(clock.must_move(30 * MS, None, false));
        (0..100).for_each(|_| _ = clock.must_move(MS / 2, Some(MS / 2), true));
        assert!(!clock.must_move(3 * MS, None, false), "it was coarse before");
    }

    #[test]
    fn a_change_attribute_that_has_counted_must_count_on() {
        let mut clock = ServerChangeAndTimeTraits::default();
        (0..16).for_each(|_| assert!(!clock.must_move(MS / 2, Some(MS / 2), true)));
        assert!(clock.must_move(MS / 2, None, false));
    }

    #[test]
    fn changes_that_are_far_apart_do_not_show_that_it_counts() {
        let mut clock = ServerChangeAndTimeTraits::default();
        clock.record_time((1, 5));
        (0..100).for_each(|_| _ = clock.must_move(MS / 2, Some(4 * MS), true));
        assert!(!clock.must_move(MS / 2, None, false));
    }

    #[test]
    fn rfc7862_section_12_2_3_the_announced_change_attr_type_is_used() {
        let mut clock = ServerChangeAndTimeTraits { change_attr_type: Some(1), ..ServerChangeAndTimeTraits::default() };
        assert!(clock.must_move(MS / 2, None, false));
        assert!(clock.is_forbidden_decrease(2, 1) && !clock.is_forbidden_decrease(1, 2));
        clock.change_attr_type = Some(4);
        assert!(!clock.is_forbidden_decrease(2, 1));
    }

    #[test]
    fn rfc8881_section_5_8_1_4_a_change_attribute_that_is_the_time_is_as_coarse_as_that() {
        let mut clock = ServerChangeAndTimeTraits::default();
        (0..8).for_each(|second| clock.record_change(second * 1_000_000_000 + 7, &[(second, 7)]));
        (0..16).for_each(|_| _ = clock.must_move(MS / 2, Some(MS / 2), true));
        assert!(!clock.must_move(MS, None, false));
    }

    #[test]
    fn with_one_clock_a_change_attribute_below_all_others_is_detected() {
        let mut clock = ServerChangeAndTimeTraits::default();
        // A file and its directory in each step.
        let step = |clock: &mut ServerChangeAndTimeTraits, turn: u64| {
            [1001, 1000].map(|first| clock.is_below_run(turn, [first + 10 * turn; 2]))
        };
        (0..=16).for_each(|turn| assert_eq!(step(&mut clock, turn), [false; 2]));
        assert!(!clock.is_below_run(17, [1200; 2]), "it is enough from the next on");
        assert!(clock.is_below_run(18, [1300, 0]) && clock.is_below_run(19, [1301, 999]));
        assert_eq!(step(&mut clock, 40), [false; 2], "a lie proves nothing");
        assert!(
            !clock.is_below_run(41, [1500, 1010]) && !clock.is_below_run(42, [1501, 0]),
            "objects count by themselves"
        );
        // Another file system has counters, also in the capture.
        let mut clock = ServerChangeAndTimeTraits::default();
        (0..40).for_each(|turn| assert_eq!(step(&mut clock, turn), [false; 2]));
        assert!(!clock.is_below_run(40, [2, 4]) && !clock.is_below_run(41, [3, 5]));
        // Each object counts from 1.
        let mut clock = ServerChangeAndTimeTraits::default();
        (0..100).for_each(|turn| assert!(!clock.is_below_run(turn, [5000 + turn, 1 + turn / 3 % 2])));
        assert!(!clock.is_below_run(100, [6000, 0]));
        clock.forget();
        (101..200).for_each(|turn| assert!(!clock.is_below_run(turn, [6000 + turn, 10 * turn])));
        assert!(!clock.is_below_run(200, [7000, 0]), "a restart does not change that");
    }

    #[test]
    fn a_fresh_time_of_1970_is_not_of_today_where_the_recorded_one_was_of_its_day() {
        let captured = 1_700_000_000;
        assert!(is_unexpected_time(captured + 5, 0, captured * 1_000_000_000));
        assert!(!is_unexpected_time(12, 0, captured * 1_000_000_000), "the client had set it");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(!is_unexpected_time(captured, now - 3600, captured * 1_000_000_000));
    }
}
