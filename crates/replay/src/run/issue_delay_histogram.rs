//! Issue delay: the time by which Calls were sent later than intended.

use std::time::Duration;

/// Histogram range: 1 ns to one hour, with two significant digits.
const MAX_DELAY_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 2;

/// Histogram of issue delays, if the pace has intended times: captured times, a rate, or times after a Reply.
#[derive(Clone, Debug, Default)]
pub struct IssueDelayHistogram(Option<hdrhistogram::Histogram<u64>>);

impl IssueDelayHistogram {
    /// Adds the delay of a Call.
    pub fn add(&mut self, delay: Duration) {
        if self.0.is_none() {
            self.0 = hdrhistogram::Histogram::new_with_bounds(1, MAX_DELAY_NS, SIGNIFICANT_DIGITS).ok();
        }
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Returns the number of Calls that had an intended time.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, hdrhistogram::Histogram::len)
    }

    /// Returns the delay in nanoseconds that this fraction (0 to 1) of the Calls did not exceed.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.value_at_quantile(quantile))
    }

    /// Returns the maximum delay in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.quantile_ns(1.0)
    }

    /// Adds the histogram of another run.
    pub fn merge(&mut self, other: &Self) {
        let Some(other) = &other.0 else { return };
        match &mut self.0 {
            // Both have the same bounds.
            Some(histogram) => {
                let _ = histogram.add(other);
            }
            None => self.0 = Some(other.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_reported_to_two_digits() {
        let mut lateness = IssueDelayHistogram::default();
        assert_eq!((lateness.count(), lateness.max_ns()), (0, 0));
        (1..=100).for_each(|micros| lateness.add(Duration::from_micros(micros)));
        assert_eq!(lateness.count(), 100);
        let near = |value: u64, wanted: u64| value.abs_diff(wanted) * 100 <= wanted;
        assert!(near(lateness.quantile_ns(0.5), 50_000) && near(lateness.max_ns(), 100_000));
        let mut both = IssueDelayHistogram::default();
        both.merge(&lateness);
        both.merge(&lateness);
        assert_eq!(both.count(), 200);
    }
}
