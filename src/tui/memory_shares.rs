//! Shares of the terminal interface's memory.

use super::model::TransactionRows;

/// Shares of the view's memory
/// ([`CommandMemoryBudget::view_bytes`](nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget::view_bytes)), in
/// bytes.
#[derive(Clone, Copy, Debug)]
pub struct ViewMemoryShares {
    /// Rows of all passes.
    rows_bytes: usize,
    /// Pending rows, if frames are received once.
    pub(super) waiting_bytes: usize,
    /// Kept frames and their first-pass results, if frames are received once.
    pub(crate) kept_bytes: usize,
    /// Lines of frames that a filter selects, or that are sorted.
    pub(super) lines_bytes: usize,
    /// Frames that wait while Transactions are saved.
    pub(super) saving_bytes: usize,
}

impl ViewMemoryShares {
    /// Divides `view_bytes` for a capture whose frames are received once (`is_once`) or can be read again.
    pub(crate) fn new(view_bytes: usize, is_once: bool) -> Self {
        let eighth = view_bytes / 8;
        let (rows, waiting, kept) = if is_once { (2, 1, 3) } else { (6, 0, 0) };
        Self {
            rows_bytes: rows * eighth,
            waiting_bytes: waiting * eighth,
            kept_bytes: kept * eighth,
            lines_bytes: eighth,
            saving_bytes: eighth,
        }
    }

    /// Sets each pass's limit of memory for rows. An eighth of the share is reserved for sorting them.
    pub(super) fn apply_limits(&self, unfiltered: &mut TransactionRows, filtered: Option<&mut TransactionRows>) {
        let bytes = self.rows_bytes / 8 * 7;
        match filtered {
            Some(filtered) => {
                // Few rows of the unfiltered pass are needed while a filter is set.
                unfiltered.set_limit(bytes / 4);
                filtered.set_limit(bytes / 4 * 3);
            }
            None => unfiltered.set_limit(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_up_to_the_share_of_the_view() {
        for is_once in [false, true] {
            let shares = ViewMemoryShares::new(112 << 20, is_once);
            let ViewMemoryShares { rows_bytes, waiting_bytes, kept_bytes, lines_bytes, saving_bytes } = shares;
            assert_eq!(rows_bytes + waiting_bytes + kept_bytes + lines_bytes + saving_bytes, 112 << 20);
        }
    }
}
