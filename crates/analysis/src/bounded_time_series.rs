//! Time series with a limited number of steps for charts, whatever the duration: at the limit, pairs of steps are
//! merged.

use nfsrdma_dissectors::captured_frame::Timestamp;

/// The smallest step width, in nanoseconds.
const MIN_STEP_NS: u64 = 1_000_000;

/// Values of one step of time.
pub trait TimeSeriesBucket: Copy + Default {
    /// Merges the values of the following step.
    fn merge(&mut self, next: Self);
}

/// Steps of equal width from a start time on. Earlier events count in the first step.
#[derive(Clone, Debug)]
pub struct TimeSeries<S> {
    start: Option<Timestamp>,
    width: u64,
    max_steps: usize,
    steps: Vec<S>,
}

impl<S: TimeSeriesBucket> TimeSeries<S> {
    /// Creates a series of at most `max_steps` steps, at least 2.
    pub fn new(max_steps: usize) -> Self {
        Self { start: None, width: MIN_STEP_NS, max_steps: max_steps.max(2), steps: Vec::new() }
    }

    /// Returns the step width in nanoseconds.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Returns the start of the first step.
    pub fn start(&self) -> Option<Timestamp> {
        self.start
    }

    /// Returns the steps.
    pub fn steps(&self) -> &[S] {
        &self.steps
    }

    /// Returns the step at a time.
    pub fn step_at(&mut self, time: Timestamp) -> Option<&mut S> {
        let step = self.index_of(time);
        self.steps.get_mut(step)
    }

    /// Calls `visit` for every step between two times, with the nanoseconds that overlap.
    pub fn span(&mut self, from: Timestamp, to: Timestamp, mut visit: impl FnMut(&mut S, u64)) {
        let start = *self.start.get_or_insert(from);
        // The last step may widen the steps.
        let last = self.index_of(to);
        let first = self.index_of(from).min(last);
        let (from, to) = (from.nanoseconds_since(start).unwrap_or(0), to.nanoseconds_since(start).unwrap_or(0));
        let width = self.width;
        for (at, step) in self.steps.iter_mut().enumerate().take(last + 1).skip(first) {
            let step_start = at as u64 * width;
            visit(step, to.min(step_start.saturating_add(width)).saturating_sub(from.max(step_start)));
        }
    }

    fn index_of(&mut self, time: Timestamp) -> usize {
        let offset_ns = time.nanoseconds_since(*self.start.get_or_insert(time)).unwrap_or(0);
        while offset_ns / self.width >= self.max_steps as u64 {
            self.width = self.width.saturating_mul(2);
            self.steps = self.steps.chunks(2).map(merged_step).collect();
        }
        let step = (offset_ns / self.width) as usize;
        if self.steps.len() <= step {
            self.steps.resize(step + 1, S::default());
        }
        step
    }
}

fn merged_step<S: TimeSeriesBucket>(steps: &[S]) -> S {
    let mut sum = S::default();
    steps.iter().for_each(|step| sum.merge(*step));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Sum(u64);

    impl TimeSeriesBucket for Sum {
        fn merge(&mut self, next: Self) {
            self.0 += next.0;
        }
    }

    #[test]
    fn two_steps_become_one_at_the_limit() {
        let mut series: TimeSeries<Sum> = TimeSeries::new(4);
        for ms in 0..7 {
            series.step_at(Timestamp(ms * 1_000_000)).unwrap().0 += 1;
        }
        assert_eq!((series.width(), series.steps()), (2_000_000, &[Sum(2), Sum(2), Sum(2), Sum(1)][..]));
        // A day later still fits, without more memory.
        series.step_at(Timestamp(86_400_000_000_000)).unwrap().0 += 1;
        assert!(series.steps().len() <= 4);
        assert_eq!(series.steps().iter().map(|sum| sum.0).sum::<u64>(), 8);
    }

    #[test]
    fn a_span_is_divided_among_the_steps_that_it_overlaps() {
        let mut series: TimeSeries<Sum> = TimeSeries::new(8);
        series.step_at(Timestamp(0));
        series.span(Timestamp(500_000), Timestamp(2_250_000), |step, ns| step.0 += ns);
        assert_eq!(series.steps(), [Sum(500_000), Sum(1_000_000), Sum(250_000)]);
    }

    #[test]
    fn samples_before_the_start_count_in_the_first_step() {
        let mut series: TimeSeries<Sum> = TimeSeries::new(8);
        series.step_at(Timestamp(5_000_000)).unwrap().0 += 1;
        series.step_at(Timestamp(1)).unwrap().0 += 1;
        assert_eq!(series.steps(), [Sum(2)]);
    }
}
