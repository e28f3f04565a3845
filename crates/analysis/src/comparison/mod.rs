//! Comparison of two captures.
//!
//! - [`comparable_transaction_recorder`]: reduces a Transaction to a [`record`] with every field, whatever the
//!   operation;
//! - [`field_equality`]: the table of fields that must be equal, that are identities, and that may differ;
//! - [`capture_comparator`]: state of a comparison;
//! - [`client_pairing`]: pairing of clients; [`pairing_queue`]: records of one client and direction, on both sides;
//! - [`queue_matching`]: matching along both queues; [`alignment`]: pairs of records by stable keys;
//! - [`record_comparison`]: two records; [`field_comparison_policy`]: treatment of fields; [`directory_listing`]:
//!   directory entries; [`chunk_length_comparison`]: chunks and inline lengths;
//! - [`identity_map`]: mapping between the identities of both sides;
//! - [`difference`]: the results; [`options`], [`ignore_keys`]: the differences that count; [`difference_tally`]:
//!   number and first;
//! - [`trace_side_information`]: extra knowledge about Transactions that come from a trace;
//! - [`late_records`]: records that come after their successors.
//!
//! Both captures are read in parallel. Records are kept only as far as needed to synchronize the two sides after a gap,
//! so that memory is limited for captures of any length.

mod alignment;
pub(crate) mod capture_comparator;
pub mod capture_summary;
mod chunk_length_comparison;
mod client_pairing;
pub mod comparable_transaction_recorder;
pub mod difference;
pub mod difference_tally;
mod directory_listing;
mod field_comparison_policy;
pub mod field_equality;
pub mod field_path;
pub mod field_path_text;
pub mod identity_map;
mod ignore_keys;
mod late_records;
pub mod options;
pub(crate) mod pairing_queue;
mod queue_matching;
pub mod record;
pub mod record_comparison;
#[cfg(test)]
mod tests;
pub mod trace_side_information;

use std::cell::Cell;

pub use capture_comparator::{CaptureComparator, ComparisonSide, MAX_WAITING_RECORDS, OperationComparisonCounts};
use capture_comparator::{DifferenceReceiver, PairingQueueDrainExtent};
use difference::Difference;
pub use pairing_queue::ClientAddressAndCallDirection;
use record::ComparableTransaction;
pub use record::class;

impl CaptureComparator {
    /// Compares the records that `next` returns for each side until both return `None`, and passes differences to
    /// `report`. With `usize::MAX` ([`Self::new`]) these are all.
    ///
    /// Differences come in frame order if both captures fit in the window
    /// ([`MAX_WAITING_RECORDS`]) and their differences in the memory, otherwise in frame
    /// order within each part.
    ///
    /// # Errors
    /// Returns the first error of `report`, which ends the comparison.
    pub fn run<E>(
        &mut self,
        mut next: impl FnMut(ComparisonSide) -> Option<(ClientAddressAndCallDirection, ComparableTransaction)>,
        mut report: impl FnMut(Difference) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        let has_failed = Cell::new(false);
        let mut receive = |this: &mut Self| {
            let differences = this.take_differences();
            if result.is_ok() {
                result = differences.into_iter().try_for_each(&mut report);
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

    /// Pairs waiting records, except some that later ones may still need; `are_over` is `true` for captures that have
    /// ended. Calls `receive` if the differences have filled their memory.
    fn advance(&mut self, are_over: [bool; 2], receive: &mut DifferenceReceiver<'_>) {
        if are_over == [true; 2] {
            return;
        }
        self.pair_clients(false);
        for at in 0..self.queues.len() {
            self.with_queue(at, |this, queue| this.match_queue(queue, PairingQueueDrainExtent::Steady, receive));
        }
        let full_sides = ComparisonSide::BOTH.map(|side| (side, self.has_enough(side)));
        for (side, _) in full_sides.into_iter().filter(|(_, is_full)| *is_full) {
            self.drop_unmatched(side);
        }
        self.settle_late_records(receive);
        // Many clients have few waiting records each, and too many in total. Equal records need no look-ahead. Half of
        // the records are removed, so that the next record does not start over.
        for extent in [PairingQueueDrainExtent::WhileEqual, PairingQueueDrainExtent::Full] {
            if !self.is_full(MAX_WAITING_RECORDS) {
                return;
            }
            for at in 0..self.queues.len() {
                if self.is_full(MAX_WAITING_RECORDS / 2) {
                    self.with_queue(at, |this, queue| this.match_queue(queue, extent, receive));
                }
            }
        }
    }

    /// Finishes the comparison at the end of both captures. Calls `receive` if the differences have filled their
    /// memory.
    fn finish(&mut self, receive: &mut DifferenceReceiver<'_>) {
        self.pair_clients(true);
        for mut queue in std::mem::take(&mut self.queues) {
            self.match_queue(&mut queue, PairingQueueDrainExtent::Last, receive);
            self.finish_queue(&mut queue, receive);
        }
        self.report_identity_differences(true);
        self.sort();
    }
}
