//! Rows in another order than that in which Transactions closed. Sorting is done on a thread of its own, over pages that it
//! shares with the model.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::output::transaction_list::TransactionListColumn;

use super::{PAGE, RowEntry, RowPage, TransactionRows};

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSort {
    /// The column.
    pub by: TransactionListColumn,
    /// Whether the largest comes first.
    pub is_descending: bool,
}

/// The numbers of rows in their order.
#[derive(Debug, Default)]
pub struct RowOrder {
    /// Numbers of rows.
    pub rows: Vec<u32>,
    /// How many rows there were when it was made.
    pub of: usize,
}

/// Compares two rows by a column; equal ones keep their order.
fn compare(by: TransactionListColumn, a: &RowEntry<'_>, b: &RowEntry<'_>) -> Ordering {
    let (one, other) = (a.row, b.row);
    match by {
        TransactionListColumn::Time => one.time.cmp(&other.time),
        TransactionListColumn::Frame => one.first.cmp(&other.first),
        TransactionListColumn::Connection => one.connection.cmp(&other.connection),
        TransactionListColumn::Client => a.client().to_string().cmp(&b.client().to_string()),
        TransactionListColumn::Xid => one.xid.0.cmp(&other.xid.0),
        TransactionListColumn::Version => a.version().cmp(b.version()),
        TransactionListColumn::Operation => a.label().cmp(b.label()),
        TransactionListColumn::Chunks => one.chunk_bytes.cmp(&other.chunk_bytes),
        TransactionListColumn::Bytes => one.bytes.cmp(&other.bytes),
        TransactionListColumn::Latency => one.latency.cmp(&other.latency),
        TransactionListColumn::Status => {
            // What needs attention is what one sorts for.
            let weight =
                |row: &super::TransactionListRow| (!row.has_failed, !row.is_incomplete, !row.has_copies);
            weight(one).cmp(&weight(other)).then_with(|| a.status().0.cmp(b.status().0))
        }
    }
}

/// Sorts the rows that are there, on a thread of its own.
pub fn start(rows: &TransactionRows, sort: RowSort) -> Receiver<RowOrder> {
    let pages: Vec<(usize, Arc<RowPage>)> = rows.pages().map(|(at, page)| (at, Arc::clone(page))).collect();
    let of = rows.len();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        // Nobody may be waiting any more.
        let _ = sender.send(RowOrder { rows: sorted(&pages, sort), of });
    });
    receiver
}

fn sorted(pages: &[(usize, Arc<RowPage>)], sort: RowSort) -> Vec<u32> {
    let mut rows: Vec<(u32, RowEntry<'_>)> = Vec::new();
    for (start, page) in pages {
        debug_assert!(start % PAGE == 0);
        rows.extend(page.iter().enumerate().map(|(at, entry)| ((start + at) as u32, entry)));
    }
    rows.sort_by(|(_, a), (_, b)| {
        let order = compare(sort.by, a, b);
        if sort.is_descending { order.reverse() } else { order }
    });
    rows.into_iter().map(|(number, _)| number).collect()
}
