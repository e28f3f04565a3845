//! Differences counted by operation, and the first of them, for reports of limited size.

use std::collections::BTreeMap;

use super::difference::Difference;

/// Maximum number of operations counted separately; a malformed capture has more.
const MAX_OPERATIONS: usize = 1_024;
const OTHER_OPERATIONS: &str = "other operations";

/// The differences with the lowest frames.
#[derive(Clone, Debug)]
pub struct FirstDifferences {
    max_count: usize,
    differences: Vec<Difference>,
}

impl FirstDifferences {
    /// Creates a list of at most `max_count` differences.
    pub fn new(max_count: usize) -> Self {
        Self { max_count, differences: Vec::new() }
    }

    /// Adds a difference.
    pub fn push(&mut self, difference: &Difference) {
        let is_late = self.differences.last().is_some_and(|last| last.sort_key() <= difference.sort_key());
        if self.differences.len() >= self.max_count && is_late || self.max_count == 0 {
            return;
        }
        let at = self.differences.partition_point(|existing| existing.sort_key() <= difference.sort_key());
        self.differences.truncate(self.max_count - 1);
        self.differences.insert(at.min(self.differences.len()), difference.clone());
    }

    /// Returns the differences kept, by frame.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }
}

/// The differences of one operation.
#[derive(Clone, Debug)]
pub struct OperationDifferenceTally {
    /// Number of differences.
    pub count: u64,
    /// The first differences.
    pub first: FirstDifferences,
}

/// Differences by operation.
#[derive(Clone, Debug)]
pub struct DifferenceTally {
    /// The first differences of all operations.
    pub first: FirstDifferences,
    max_per_operation: usize,
    operations: BTreeMap<String, OperationDifferenceTally>,
}

impl DifferenceTally {
    /// Creates a tally that keeps `max_count` differences of all operations, and `max_per_operation` of each.
    pub fn new(max_count: usize, max_per_operation: usize) -> Self {
        Self { first: FirstDifferences::new(max_count), max_per_operation, operations: BTreeMap::new() }
    }

    /// Counts a difference.
    pub fn push(&mut self, difference: &Difference) {
        self.first.push(difference);
        let is_known = self.operations.contains_key(&difference.operation) || self.operations.len() < MAX_OPERATIONS;
        let name = if is_known { &*difference.operation } else { OTHER_OPERATIONS };
        let max_per_operation = self.max_per_operation;
        let operation = self
            .operations
            .entry(name.to_owned())
            .or_insert_with(|| OperationDifferenceTally { count: 0, first: FirstDifferences::new(max_per_operation) });
        operation.count += 1;
        operation.first.push(difference);
    }

    /// Returns the operations with differences: `NFS 4.2 READ`; `capture` for those of no operation.
    pub fn operations(&self) -> &BTreeMap<String, OperationDifferenceTally> {
        &self.operations
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::captured_frame::FrameNumber;

    use super::super::difference::{DifferenceKind, DifferenceSideValue};
    use super::*;

    fn difference(operation: &str, frame: u64) -> Difference {
        let half = DifferenceSideValue { frame: Some(FrameNumber(frame)), ..DifferenceSideValue::default() };
        Difference {
            kind: DifferenceKind::Count,
            operation: operation.to_owned(),
            path: String::new(),
            section: 0,
            field: "",
            count: 1,
            a: half.clone(),
            b: half,
        }
    }

    fn frames(first: &FirstDifferences) -> Vec<u64> {
        first.differences().iter().filter_map(|difference| difference.a.frame).map(|frame| frame.0).collect()
    }

    #[test]
    fn the_first_differences_are_retained_in_any_order_of_arrival() {
        for most in 0..6 {
            let mut first = FirstDifferences::new(most);
            for frame in [5, 3, 9, 1, 7] {
                first.push(&difference("READ", frame));
            }
            assert_eq!(frames(&first), [1, 3, 5, 7, 9][..most.min(5)]);
        }
    }

    #[test]
    fn each_operation_counts_all_and_retains_its_first_differences() {
        let mut tally = DifferenceTally::new(2, 2);
        (1..=50).for_each(|frame| tally.push(&difference("LOOKUP", frame)));
        (60..=63).for_each(|frame| tally.push(&difference("READ", frame)));
        assert_eq!(frames(&tally.first), [1, 2]);
        let of = |name: &str| (tally.operations()[name].count, frames(&tally.operations()[name].first));
        assert_eq!((of("LOOKUP"), of("READ")), ((50, vec![1, 2]), (4, vec![60, 61])));
    }

    #[test]
    fn operations_without_number_are_one() {
        let mut tally = DifferenceTally::new(1, 1);
        (0..3 * MAX_OPERATIONS as u64).for_each(|at| tally.push(&difference(&format!("procedure {at}"), at)));
        assert_eq!(tally.operations().len(), MAX_OPERATIONS + 1);
        assert_eq!(tally.operations()[OTHER_OPERATIONS].count, 2 * MAX_OPERATIONS as u64);
    }
}
