//! Both captures from their beginnings to their ends: the one loop that every comparison goes through.

use super::difference::Difference;
use super::record::ComparisonRecord;
use super::{Comparison, ComparisonClient, ComparisonSide};

impl Comparison {
    /// Compares what `next` gives of each side until it gives no more of either, and tells each difference when it is
    /// known. So none has to be kept, however many there are: [`Self::new`] with `usize::MAX` gives all of them.
    ///
    /// They come by frame where both captures fit into what waits ([`WAITING`](super::WAITING)), and otherwise by frame
    /// in each part.
    ///
    /// # Errors
    /// The first error of `tell`, which ends the comparison.
    pub fn drive<E>(
        &mut self,
        mut next: impl FnMut(ComparisonSide) -> Option<(ComparisonClient, ComparisonRecord)>,
        mut tell: impl FnMut(Difference) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut are_over = [false; 2];
        while are_over != [true; 2] {
            for (side, is_over) in [ComparisonSide::A, ComparisonSide::B].into_iter().zip(&mut are_over) {
                while !*is_over && !self.has_enough(side) {
                    match next(side) {
                        Some((client, record)) => self.push(side, client, record),
                        None => *is_over = true,
                    }
                }
            }
            self.advance(are_over);
            self.take().into_iter().try_for_each(&mut tell)?;
        }
        self.finish();
        self.take().into_iter().try_for_each(tell)
    }

    /// Takes the differences that were found since it was asked last, by frame.
    pub fn take(&mut self) -> Vec<Difference> {
        self.sort();
        std::mem::take(&mut self.differences)
    }
}
