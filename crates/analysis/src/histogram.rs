//! Histogram of latencies, with steps of 1, 2 and 5 in each power of ten.

/// Upper bounds of the steps in nanoseconds, from 1 µs to 100 s; longer latencies have a step of their own.
pub const UPPER_BOUNDS_NS: [u64; 25] = {
    let mut bounds = [0; 25];
    let (mut at, mut decade) = (0, 1_000);
    while at < bounds.len() {
        bounds[at] = decade * [1, 2, 5][at % 3];
        at += 1;
        if at % 3 == 0 {
            decade *= 10;
        }
    }
    bounds
};

/// Counts by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: [u64; UPPER_BOUNDS_NS.len() + 1],
}

impl LatencyHistogram {
    /// Counts a latency, in nanoseconds.
    pub fn add(&mut self, latency: u64) {
        let step = UPPER_BOUNDS_NS.partition_point(|bound| *bound < latency);
        if let Some(count) = self.counts.get_mut(step) {
            *count += 1;
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the steps between the first and the last that is not empty, with upper bound in nanoseconds (`None` for
    /// the last of all) and count.
    pub fn steps(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let is_used = |count: &u64| *count > 0;
        let first = self.counts.iter().position(is_used).unwrap_or(0);
        let end = self.counts.iter().rposition(is_used).map_or(0, |last| last + 1);
        let counts = self.counts.iter().enumerate().take(end).skip(first);
        counts.map(|(step, count)| (UPPER_BOUNDS_NS.get(step).copied(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_1_2_and_5_of_each_power_of_ten() {
        assert_eq!(UPPER_BOUNDS_NS[..5], [1_000, 2_000, 5_000, 10_000, 20_000]);
        assert_eq!(UPPER_BOUNDS_NS.last(), Some(&100_000_000_000));
    }

    #[test]
    fn a_latency_counts_in_the_first_step_that_it_is_not_above() {
        let mut histogram = LatencyHistogram::default();
        [0, 1_000, 1_001, 5_001, 200_000_000_000].iter().for_each(|latency| histogram.add(*latency));
        let steps: Vec<_> = histogram.steps().collect();
        assert_eq!(steps[..4], [(Some(1_000), 2), (Some(2_000), 1), (Some(5_000), 0), (Some(10_000), 1)]);
        assert_eq!(steps.last(), Some(&(None, 1)));
        assert_eq!(histogram.count(), 5);
    }
}
