//! The list of Transactions: its cursor and its order.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use crate::output::transaction_list::TransactionListColumn;
use crate::tui::model::TransactionRows;
use crate::tui::model::row_sorting::{self, RowSort, SortedRowNumbers};
use crate::tui::model::transaction_list_row::TransactionRowWithText;

/// Interval at which new rows are sorted in.
const RESORT_INTERVAL: Duration = Duration::from_secs(1);

/// The columns by which the list can be sorted, in order.
const COLUMNS: [TransactionListColumn; 11] = [
    TransactionListColumn::Time,
    TransactionListColumn::Frame,
    TransactionListColumn::Connection,
    TransactionListColumn::Client,
    TransactionListColumn::Xid,
    TransactionListColumn::Version,
    TransactionListColumn::Operation,
    TransactionListColumn::Chunks,
    TransactionListColumn::Bytes,
    TransactionListColumn::Latency,
    TransactionListColumn::Status,
];

/// The list.
#[derive(Debug, Default)]
pub(in crate::tui) struct TransactionListPane {
    /// Line of the cursor, counted from 0.
    pub(in crate::tui) at: usize,
    /// Line at the top of the screen.
    pub(in crate::tui) top: usize,
    /// Number of columns scrolled past.
    pub(in crate::tui) scroll: usize,
    /// `true` if the cursor stays on the newest row.
    pub(in crate::tui) follows_tail: bool,
    /// Sort order; `None` for the order in which Transactions were completed.
    pub(in crate::tui) sort: Option<RowSort>,
    order: Option<SortedRowNumbers>,
    sorting: Option<Receiver<SortedRowNumbers>>,
    sorted_at: Option<Instant>,
}

impl TransactionListPane {
    /// Returns a list in the order in which Transactions were completed.
    pub(super) fn new(has_tail: bool) -> Self {
        Self { follows_tail: has_tail, ..Self::default() }
    }

    /// Returns the number of lines.
    pub(in crate::tui) fn len(&self, rows: &TransactionRows) -> usize {
        self.order.as_ref().map_or(rows.len(), |order| order.rows.len())
    }

    /// Returns the row number of a line.
    pub(in crate::tui) fn row_number(&self, rows: &TransactionRows, at: usize) -> Option<usize> {
        match &self.order {
            Some(order) => order.rows.get(at).map(|number| *number as usize),
            None => Some(rows.number_at(at)),
        }
    }

    /// Returns the line of the newest row: the last completed transaction, if there is one.
    fn newest_line(&self, rows: &TransactionRows) -> usize {
        let lines = match (&self.order, rows.completed_len()) {
            (None, count) if count > 0 => count,
            _ => self.len(rows),
        };
        lines.saturating_sub(1)
    }

    /// Returns the number of lines with pending calls below the newest row.
    pub(in crate::tui) fn pending_lines(&self, rows: &TransactionRows) -> usize {
        self.len(rows).saturating_sub(self.newest_line(rows) + 1)
    }

    /// Keeps the cursor on a pending call that has moved, or was completed.
    pub(super) fn stay_on_pending(&mut self, index: Option<u64>, rows: &TransactionRows) {
        if self.follows_tail {
            return;
        }
        let position = index.and_then(|index| rows.position_of_pending(index));
        let line = position.and_then(|position| match &self.order {
            None => Some(position),
            Some(order) => {
                let number = rows.number_at(position);
                order.rows.iter().position(|row| *row as usize == number)
            }
        });
        self.move_to(line.unwrap_or(self.at), rows);
    }

    /// Returns the row of a line; `None` if it is evicted, and beyond the end.
    pub(in crate::tui) fn entry<'r>(&self, rows: &'r TransactionRows, at: usize) -> Option<TransactionRowWithText<'r>> {
        rows.get(self.row_number(rows, at)?)
    }

    /// Returns `true` if some rows are not sorted in yet.
    pub(in crate::tui) fn has_unsorted_rows(&self, rows: &TransactionRows) -> bool {
        self.sort.is_some() && self.order.as_ref().is_none_or(|order| !order.is_current(rows))
    }

    /// Returns `true` while the list is being sorted.
    pub(in crate::tui) fn is_sorting(&self) -> bool {
        self.sorting.is_some()
    }

    /// Moves the cursor by `by` lines.
    pub(super) fn move_cursor(&mut self, by: isize, rows: &TransactionRows) {
        let last = self.len(rows).saturating_sub(1);
        self.at = self.at.saturating_add_signed(by).min(last);
        self.follows_tail &= by > 0 && self.at == last;
    }

    /// Moves the cursor to a line.
    pub(super) fn move_to(&mut self, at: usize, rows: &TransactionRows) {
        self.at = at.min(self.len(rows).saturating_sub(1));
    }

    /// Sorts by the column `step` positions from the current one. The unsorted order precedes the first column.
    pub(super) fn sort_by_neighbor(&mut self, step: isize, shown: &[TransactionListColumn], rows: &TransactionRows) {
        let columns: Vec<TransactionListColumn> = COLUMNS.into_iter().filter(|column| shown.contains(column)).collect();
        let at = self.sort.and_then(|sort| columns.iter().position(|column| *column == sort.by));
        let count = columns.len() as isize + 1;
        let now = at.map_or(0, |at| at as isize + 1);
        let column = usize::try_from((now + step).rem_euclid(count) - 1).ok().and_then(|at| columns.get(at));
        self.sort_by(column.copied(), rows);
    }

    /// Sorts by a column: sizes and latencies in descending order, all others in ascending order.
    pub(super) fn sort_by(&mut self, column: Option<TransactionListColumn>, rows: &TransactionRows) {
        let is_descending = column.is_some_and(|column| {
            matches!(
                column,
                TransactionListColumn::Chunks | TransactionListColumn::Bytes | TransactionListColumn::Latency
            )
        });
        self.set_sort(column.map(|column| RowSort { by: column, is_descending }), rows);
    }

    /// Reverses the order.
    pub(super) fn reverse(&mut self, rows: &TransactionRows) {
        let sort = match self.sort {
            Some(sort) => RowSort { is_descending: !sort.is_descending, ..sort },
            None => RowSort { by: TransactionListColumn::Time, is_descending: true },
        };
        self.set_sort(Some(sort), rows);
    }

    fn set_sort(&mut self, sort: Option<RowSort>, rows: &TransactionRows) {
        self.sort = sort;
        self.follows_tail = false;
        match sort {
            Some(sort) => {
                self.sorting = Some(row_sorting::start(rows, sort));
                self.sorted_at = Some(Instant::now());
            }
            None => (self.order, self.sorting) = (None, None),
        }
        self.top = 0;
        self.at = 0;
    }

    /// Starts over with other rows.
    pub(super) fn reset(&mut self, rows: &TransactionRows) {
        let sort = self.sort;
        (self.order, self.sorting) = (None, None);
        self.set_sort(sort, rows);
    }

    /// Takes the result of sorting, and sorts in new rows. Returns `true` if the list has changed.
    pub(super) fn poll_sorting(&mut self, rows: &TransactionRows) -> bool {
        let mut is_new = false;
        if let Some(sorting) = &self.sorting {
            match sorting.try_recv() {
                Ok(order) => {
                    // The cursor stays on its row.
                    let row = self.order.is_some().then(|| self.row_number(rows, self.at)).flatten();
                    let at = row.and_then(|row| order.rows.iter().position(|other| *other as usize == row));
                    self.order = Some(order);
                    self.at = at.unwrap_or(self.at);
                    self.sorting = None;
                    is_new = true;
                }
                Err(TryRecvError::Disconnected) => self.sorting = None,
                Err(TryRecvError::Empty) => {}
            }
        } else if let Some(sort) = self.sort
            && self.order.as_ref().is_none_or(|order| !order.is_current(rows))
            && (self.order.as_ref().is_some_and(|order| order.pending_changes != rows.pending_changes())
                || self.len(rows) == 0
                || self.sorted_at.is_none_or(|at| at.elapsed() > RESORT_INTERVAL))
        {
            self.sorting = Some(row_sorting::start(rows, sort));
            self.sorted_at = Some(Instant::now());
        }
        if self.follows_tail {
            let last = self.newest_line(rows);
            is_new |= self.at != last;
            self.at = last;
        }
        is_new
    }
}

/// Returns the top line of a window of `height` lines that contains the line `at`, scrolled as little as possible.
pub(in crate::tui) fn scrolled(top: usize, at: usize, height: usize, count: usize) -> usize {
    let max_top = count.saturating_sub(height);
    let top = top.min(at).min(max_top);
    if height == 0 { top } else { top.max((at + 1).saturating_sub(height)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_moves_no_more_than_it_must() {
        assert_eq!(scrolled(10, 12, 5, 100), 10);
        assert_eq!(scrolled(10, 15, 5, 100), 11);
        assert_eq!(scrolled(10, 9, 5, 100), 9);
        assert_eq!(scrolled(98, 99, 5, 100), 95);
        assert_eq!(scrolled(3, 1, 5, 2), 0);
        assert_eq!(scrolled(3, 7, 0, 9), 3);
    }
}
