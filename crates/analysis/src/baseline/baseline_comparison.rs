//! Comparison of a capture with its baseline, as of two captures.

use super::baseline_read_error::BaselineReadError;
use super::baseline_recorder::CurrentCaptureBaseline;
use super::reader::Baseline;
use crate::comparison::capture_comparator::{CaptureComparator, ComparisonSide};
use crate::comparison::difference::{Difference, DifferenceKind};
use crate::comparison::options::ComparisonOptions;

/// Compares the baseline that was recorded of a capture with an earlier one.
#[derive(Debug)]
pub struct BaselineComparator<'b> {
    comparison: CaptureComparator,
    baseline: &'b Baseline,
    recorded: &'b CurrentCaptureBaseline,
}

impl<'b> BaselineComparator<'b> {
    /// Creates a check. Records that wait for their partners, and differences, use at most `memory_bytes` bytes.
    pub fn new(baseline: &'b Baseline, recorded: &'b CurrentCaptureBaseline, memory_bytes: usize) -> Self {
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
        let (mut expected, mut actual) = (self.baseline.records(), self.recorded.records());
        let mut read_error = None;
        let next = |side| {
            let read = match side {
                ComparisonSide::A => expected(),
                ComparisonSide::B => actual(),
            };
            read.unwrap_or_else(|error| {
                read_error.get_or_insert(error);
                None
            })
        };
        self.comparison.run(next, &mut report)?;
        if let Some(error) = read_error {
            return Err(error.into());
        }
        self.compare_totals();
        self.comparison.take_differences().into_iter().try_for_each(report)
    }

    fn compare_totals(&mut self) {
        let [expected, actual] = [self.baseline.counts(), self.recorded.counts()];
        for key in expected.keys(actual) {
            let (expected, actual) = (expected.capture_count(key), actual.capture_count(key));
            let kind = match key.split('.').next() {
                Some("incomplete") => DifferenceKind::Incomplete,
                Some("undecoded") => DifferenceKind::Undecoded,
                Some("findings") => DifferenceKind::Finding,
                _ => DifferenceKind::Account,
            };
            if expected != actual && !self.comparison.tolerates(key, expected, actual) {
                self.comparison.report_capture_difference(kind, key, expected, actual);
            }
        }
    }

    /// Returns the comparison with its results.
    pub fn comparison(&self) -> &CaptureComparator {
        &self.comparison
    }
}
