//! Comparison of a capture with its baseline, as of two captures.

use std::vec;

use super::canonical_records::{canonicalize, set_match_keys};
use super::{Baseline, BaselineCounts};
use crate::analysis::comparison::capture::ComparedCapture;
use crate::analysis::comparison::difference::{Difference, DifferenceKind};
use crate::analysis::comparison::options::ComparisonOptions;
use crate::analysis::comparison::record::ComparisonRecord;
use crate::analysis::comparison::{Comparison, ComparisonClient, ComparisonSide};

/// Compares a capture with its baseline.
#[derive(Debug)]
pub struct BaselineCheck {
    comparison: Comparison,
    compares_identities: bool,
    baseline_records: vec::IntoIter<(ComparisonClient, ComparisonRecord)>,
    baseline_counts: BaselineCounts,
    capture_counts: BaselineCounts,
}

impl BaselineCheck {
    /// Creates a check. Records that wait for their partners use at most `room_bytes` bytes.
    pub fn new(baseline: Baseline, room_bytes: usize) -> Self {
        let selection = ComparisonOptions { exact: true, ..baseline.settings.options().clone() };
        Self {
            comparison: Comparison::new(selection, usize::MAX, room_bytes),
            compares_identities: !baseline.settings.ignores_identities(),
            baseline_records: baseline.records.into_iter(),
            baseline_counts: baseline.counts,
            capture_counts: BaselineCounts::default(),
        }
    }

    /// Compares the records that `next` returns until it returns `None`, and passes each difference to `tell`.
    ///
    /// # Errors
    /// Returns the first error of `tell`, which ends the comparison.
    pub fn run<E>(
        &mut self,
        mut next: impl FnMut() -> Option<(ComparisonClient, ComparisonRecord)>,
        tell: impl FnMut(Difference) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self {
            comparison,
            compares_identities: has_identities,
            baseline_records: written,
            capture_counts: now,
            ..
        } = self;
        let next = |side| match side {
            ComparisonSide::A => written.next(),
            ComparisonSide::B => next().map(|(client, mut record)| {
                now.record(&record);
                canonicalize(&mut record);
                set_match_keys(&mut record, *has_identities);
                (client, record)
            }),
        };
        comparison.run(next, tell)
    }

    /// Compares the totals of the capture at its end.
    ///
    /// # Errors
    /// Returns the first error of `tell`.
    pub fn finish<E>(
        &mut self,
        trace: &ComparedCapture,
        tell: impl FnMut(Difference) -> Result<(), E>,
    ) -> Result<(), E> {
        self.capture_counts.add_capture_totals(trace);
        for key in self.baseline_counts.keys(&self.capture_counts) {
            let (then, now) =
                (self.baseline_counts.capture_count(key), self.capture_counts.capture_count(key));
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
        self.comparison.take_differences().into_iter().try_for_each(tell)
    }

    /// Returns the comparison with its results.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Returns the counts of the baseline and of the capture.
    pub fn counts(&self) -> [&BaselineCounts; 2] {
        [&self.baseline_counts, &self.capture_counts]
    }
}
