//! What happened when, in as many steps of time as a chart may need, whatever the capture's length: when there is no room
//! for another step, two of them become one.

use nfsrdma_dissectors::frame::Timestamp;

/// The narrowest step, in nanoseconds.
const NARROWEST: u64 = 1_000_000;

/// What happened within a step of time.
pub trait SeriesStep: Copy + Default {
    /// Takes in what happened in the step after it.
    fn join(&mut self, next: Self);
}

/// Steps of time of equal width from a first moment on. What is said to have happened before it counts in the first.
#[derive(Clone, Debug)]
pub struct Series<S> {
    start: Option<Timestamp>,
    width: u64,
    most: usize,
    steps: Vec<S>,
}

impl<S: SeriesStep> Series<S> {
    /// A series of at most so many steps.
    pub fn new(most: usize) -> Self {
        Self { start: None, width: NARROWEST, most: most.max(2), steps: Vec::new() }
    }

    /// Nanoseconds of a step.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// When the first step begins.
    pub fn start(&self) -> Option<Timestamp> {
        self.start
    }

    /// The steps.
    pub fn steps(&self) -> &[S] {
        &self.steps
    }

    /// The step at a time.
    pub fn at(&mut self, time: Timestamp) -> Option<&mut S> {
        let step = self.reach(time);
        self.steps.get_mut(step)
    }

    /// The steps that a time lies in which goes from one moment to another, with the nanoseconds of it in each.
    pub fn span(&mut self, from: Timestamp, to: Timestamp, mut each: impl FnMut(&mut S, u64)) {
        let start = *self.start.get_or_insert(from);
        // What comes last may make the steps wider.
        let last = self.reach(to);
        let first = self.reach(from).min(last);
        let (from, to) = (from.since(start).unwrap_or(0), to.since(start).unwrap_or(0));
        let width = self.width;
        for (at, step) in self.steps.iter_mut().enumerate().take(last + 1).skip(first) {
            let begin = at as u64 * width;
            each(step, to.min(begin.saturating_add(width)).saturating_sub(from.max(begin)));
        }
    }

    fn reach(&mut self, time: Timestamp) -> usize {
        let after = time.since(*self.start.get_or_insert(time)).unwrap_or(0);
        while after / self.width >= self.most as u64 {
            self.width = self.width.saturating_mul(2);
            self.steps = self.steps.chunks(2).map(joined).collect();
        }
        let step = (after / self.width) as usize;
        if self.steps.len() <= step {
            self.steps.resize(step + 1, S::default());
        }
        step
    }
}

fn joined<S: SeriesStep>(steps: &[S]) -> S {
    let mut sum = S::default();
    steps.iter().for_each(|step| sum.join(*step));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Sum(u64);

    impl SeriesStep for Sum {
        fn join(&mut self, next: Self) {
            self.0 += next.0;
        }
    }

    #[test]
    fn when_there_is_no_room_two_steps_become_one() {
        let mut series: Series<Sum> = Series::new(4);
        for ms in 0..7 {
            series.at(Timestamp(ms * 1_000_000)).unwrap().0 += 1;
        }
        assert_eq!((series.width(), series.steps()), (2_000_000, &[Sum(2), Sum(2), Sum(2), Sum(1)][..]));
        // A day later is in reach, and takes no more memory.
        series.at(Timestamp(86_400_000_000_000)).unwrap().0 += 1;
        assert!(series.steps().len() <= 4);
        assert_eq!(series.steps().iter().map(|sum| sum.0).sum::<u64>(), 8);
    }

    #[test]
    fn a_span_is_shared_among_the_steps_that_it_lies_in() {
        let mut series: Series<Sum> = Series::new(8);
        series.at(Timestamp(0));
        series.span(Timestamp(500_000), Timestamp(2_250_000), |step, ns| step.0 += ns);
        assert_eq!(series.steps(), [Sum(500_000), Sum(1_000_000), Sum(250_000)]);
    }

    #[test]
    fn what_comes_before_the_start_counts_in_the_first_step() {
        let mut series: Series<Sum> = Series::new(8);
        series.at(Timestamp(5_000_000)).unwrap().0 += 1;
        series.at(Timestamp(1)).unwrap().0 += 1;
        assert_eq!(series.steps(), [Sum(2)]);
    }
}
