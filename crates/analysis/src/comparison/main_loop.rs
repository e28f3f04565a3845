//! The main loop of every comparison, from the beginning to the end of both captures.

use std::cell::Cell;

use super::difference::Difference;
use super::record::ComparisonRecord;
use super::{CaptureComparator, ClientAddressAndCallDirection, ComparisonSide};

impl CaptureComparator {
    /// Compares the records that `next` returns for each side until both return `None`, and passes differences to
    /// `report`. With `usize::MAX` ([`Self::new`]) these are all.
    ///
    /// Differences come in frame order if both captures fit in the window
    /// ([`MAX_WAITING_RECORDS`](super::MAX_WAITING_RECORDS)) and their differences in the memory, otherwise in frame
    /// order within each part.
    ///
    /// # Errors
    /// Returns the first error of `report`, which ends the comparison.
    pub fn run<E>(
        &mut self,
        mut next: impl FnMut(ComparisonSide) -> Option<(ClientAddressAndCallDirection, ComparisonRecord)>,
        mut report: impl FnMut(Difference) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        let has_failed = Cell::new(false);
        let mut receive = |this: &mut Self| {
            let found = this.take_differences();
            if result.is_ok() {
                result = found.into_iter().try_for_each(&mut report);
                has_failed.set(result.is_err());
            }
        };
        let mut are_over = [false; 2];
        while are_over != [true; 2] && !has_failed.get() {
            for (side, is_over) in ComparisonSide::BOTH.into_iter().zip(&mut are_over) {
                while !*is_over && !self.has_enough(side) {
                    match next(side) {
                        Some((client, record)) => self.push(side, client, record),
                        None => *is_over = true,
                    }
                }
            }
            self.advance(are_over, &mut receive);
            receive(self);
        }
        if !has_failed.get() {
            self.finish(&mut receive);
            receive(self);
        }
        result
    }

    /// Takes the differences found since the last call, sorted by frame.
    pub fn take_differences(&mut self) -> Vec<Difference> {
        self.sort();
        std::mem::take(&mut self.differences)
    }
}
