//! The parts of the memory of the terminal interface for what it keeps.

use super::app::PassView;

/// Parts of the share of the view ([`Memory::view_bytes`](crate::memory::Memory::view_bytes)), in bytes.
#[derive(Clone, Copy, Debug)]
pub struct ViewShares {
    /// For the rows of all passes.
    rows_bytes: usize,
    /// For rows that wait until they are taken, of frames that come once.
    pub(super) waiting_bytes: usize,
    /// For frames that come once, and for what is known of them.
    pub(crate) kept_bytes: usize,
    /// For the lines of frames that a filter selects, or that are sorted.
    pub(super) lines_bytes: usize,
    /// For frames that wait while Transactions are saved.
    pub(super) saving_bytes: usize,
}

impl ViewShares {
    /// The parts of so many bytes for a capture that can be read again, or whose frames come once.
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

    /// Gives each pass its part of the memory for rows. An eighth of that is for sorting them.
    pub(super) fn give(&self, all: &mut PassView, chosen: Option<&mut PassView>) {
        let bytes = self.rows_bytes / 8 * 7;
        match chosen {
            Some(chosen) => {
                // Nobody looks at all rows while a filter is set.
                all.rows.set_limit(bytes / 4);
                chosen.rows.set_limit(bytes / 4 * 3);
            }
            None => all.rows.set_limit(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_no_more_than_the_share_of_the_view() {
        for is_once in [false, true] {
            let shares = ViewShares::new(112 << 20, is_once);
            let ViewShares { rows_bytes, waiting_bytes, kept_bytes, lines_bytes, saving_bytes } = shares;
            assert_eq!(rows_bytes + waiting_bytes + kept_bytes + lines_bytes + saving_bytes, 112 << 20);
        }
    }
}
