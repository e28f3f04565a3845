//! Sorting of rows. It runs on its own thread, over pages shared with the model.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::TransactionRows;
use super::transaction_list_row::{RowPage, TransactionListRow, TransactionRowWithText};
use crate::output::transaction_list::TransactionListColumn;

/// Sort order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSort {
    /// Column.
    pub by: TransactionListColumn,
    /// `true` if the largest comes first.
    pub is_descending: bool,
}

/// The result of sorting.
#[derive(Debug, Default)]
pub struct SortedRowNumbers {
    /// Row numbers in sorted order.
    pub rows: Vec<u32>,
    /// Number of completed rows when sorting began.
    pub row_count: usize,
    /// Number of times that other calls were pending before.
    pub pending_changes: u64,
}

impl SortedRowNumbers {
    /// Returns `true` if all rows are sorted in.
    pub fn is_current(&self, rows: &TransactionRows) -> bool {
        self.row_count >= rows.completed_len() && self.pending_changes == rows.pending_changes()
    }
}

/// Compares two rows by a column.
fn compare(column: TransactionListColumn, a: &TransactionRowWithText<'_>, b: &TransactionRowWithText<'_>) -> Ordering {
    let (one, other) = (a.row, b.row);
    match column {
        TransactionListColumn::Time => one.time.cmp(&other.time),
        TransactionListColumn::Frame => one.first.cmp(&other.first),
        TransactionListColumn::Connection => one.connection.cmp(&other.connection),
        TransactionListColumn::Client => a.client().to_string().cmp(&b.client().to_string()),
        TransactionListColumn::Xid => one.xid.0.cmp(&other.xid.0),
        TransactionListColumn::Version => a.version().cmp(b.version()),
        TransactionListColumn::Operation => a.label().cmp(b.label()),
        TransactionListColumn::Chunks => one.chunk_bytes.cmp(&other.chunk_bytes),
        TransactionListColumn::Bytes => one.bytes.cmp(&other.bytes),
        TransactionListColumn::Latency => one.latency_ns.cmp(&other.latency_ns),
        TransactionListColumn::Status => {
            // Rows that need attention come first.
            let severity = |row: &TransactionListRow| (!row.has_failed, !row.is_incomplete, !row.has_copies);
            severity(one).cmp(&severity(other)).then_with(|| a.status().0.cmp(b.status().0))
        }
    }
}

/// Sorts the rows in memory, on its own thread.
pub fn start(rows: &TransactionRows, sort: RowSort) -> Receiver<SortedRowNumbers> {
    let pages: Vec<(usize, Arc<RowPage>)> = rows.pages().map(|(at, page)| (at, Arc::clone(page))).collect();
    let (row_count, pending_changes) = (rows.completed_len(), rows.pending_changes());
    let (sender, receiver) = channel();
    thread::spawn(move || {
        // The receiver may be gone.
        let _ = sender.send(SortedRowNumbers { rows: sorted(&pages, sort), row_count, pending_changes });
    });
    receiver
}

fn sorted(pages: &[(usize, Arc<RowPage>)], sort: RowSort) -> Vec<u32> {
    let mut rows: Vec<(u32, TransactionRowWithText<'_>)> = Vec::new();
    for (start, page) in pages {
        rows.extend(page.iter().enumerate().map(|(at, entry)| ((start + at) as u32, entry)));
    }
    rows.sort_by(|(_, a), (_, b)| {
        let order = compare(sort.by, a, b);
        if sort.is_descending { order.reverse() } else { order }
    });
    rows.into_iter().map(|(number, _)| number).collect()
}
