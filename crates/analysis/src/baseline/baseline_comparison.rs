//! Comparison of a capture with its baseline, as of two captures.

use super::{Baseline, BaselineReadError, RecordedTransactionBaseline};
use crate::comparison::difference::{Difference, DifferenceKind};
use crate::comparison::options::ComparisonOptions;
use crate::comparison::{CaptureComparator, ComparisonSide};

/// Compares the baseline that was recorded of a capture with an earlier one.
#[derive(Debug)]
pub struct BaselineComparator<'b> {
    comparison: CaptureComparator,
    baseline: &'b Baseline,
    recorded: &'b RecordedTransactionBaseline,
}

impl<'b> BaselineComparator<'b> {
    /// Creates a check. Records that wait for their partners, and differences, use at most `memory_bytes` bytes.
    pub fn new(
        baseline: &'b Baseline,
        recorded: &'b RecordedTransactionBaseline,
        memory_bytes: usize,
    ) -> Self {
        let selection = ComparisonOptions { exact: true, ..baseline.settings().options().clone() };
        Self { comparison: CaptureComparator::new(selection, usize::MAX, memory_bytes), baseline, recorded }
    }

    /// Compares the Transactions and then the totals, and passes each difference to `report`.
    ///
    /// # Errors
    /// Returns the first error of `report`, which ends the comparison, or the error of reading one of the baselines.
    pub fn run<E: From<BaselineReadError>>(
        &mut self,
        mut report: impl FnMut(Difference) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut then, mut now) = (self.baseline.records(), self.recorded.records());
        let mut failed = None;
        let next = |side| {
            let read = match side {
                ComparisonSide::A => then(),
                ComparisonSide::B => now(),
            };
            read.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                None
            })
        };
        self.comparison.run(next, &mut report)?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        self.compare_totals();
        self.comparison.take_differences().into_iter().try_for_each(report)
    }

    fn compare_totals(&mut self) {
        let [then, now] = [self.baseline.counts(), self.recorded.counts()];
        for key in then.keys(now) {
            let (then, now) = (then.capture_count(key), now.capture_count(key));
            let kind = match key.split('.').next() {
                Some("incomplete") => DifferenceKind::Incomplete,
                Some("undecoded") => DifferenceKind::Undecoded,
                Some("findings") => DifferenceKind::Finding,
                _ => DifferenceKind::Account,
            };
            if then != now && !self.comparison.tolerates(key, then, now) {
                self.comparison.report_capture_difference(kind, key, then, now);
            }
        }
    }

    /// Returns the comparison with its results.
    pub fn comparison(&self) -> &CaptureComparator {
        &self.comparison
    }
}
