//! Results of a pass: its rows in pages, in bounded memory, and its tables.

pub mod pending_calls_and_rates;
pub mod row_sorting;
pub mod statistics_snapshot;
pub mod transaction_list_row;

use std::sync::Arc;

use nfsrdma_dissectors::captured_frame::FrameNumber;

use transaction_list_row::{PAGE_ROWS, RowPage, TransactionRowWithText};

/// Number of the first row of a call without a reply: larger than that of any completed transaction.
const FIRST_PENDING: usize = (u32::MAX - (1 << 16)) as usize;

/// Number of the latest rows among which a call that was pending is searched for.
const MAX_LATEST_ROWS: usize = 4096;

/// A page, or the description of an evicted one.
#[derive(Clone, Debug)]
enum EvictableRowPage {
    Loaded(Arc<RowPage>),
    Evicted { rows: usize, first: FrameNumber },
}

/// The rows of a pass, in the order in which transactions were completed, and behind them those of calls that have
/// waited for a reply for long.
#[derive(Debug)]
pub struct TransactionRows {
    pending: Arc<RowPage>,
    /// Number of times that other calls were pending.
    pending_changes: u64,
    slots: Vec<EvictableRowPage>,
    len: usize,
    bytes: usize,
    limit: usize,
    evicted_count: usize,
}

impl TransactionRows {
    /// Returns an empty list with a limit in bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            pending: Arc::default(),
            pending_changes: 0,
            slots: Vec::new(),
            len: 0,
            bytes: 0,
            limit,
            evicted_count: 0,
        }
    }

    /// Sets the limit in bytes. Rows above it are evicted when the next ones are added.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Returns the number of rows, including evicted ones and pending calls.
    pub fn len(&self) -> usize {
        self.len + self.pending.len()
    }

    /// Returns the number of rows of completed transactions, including evicted ones.
    pub fn completed_len(&self) -> usize {
        self.len
    }

    /// Returns the number of rows of pending calls.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Returns the number of times that other calls were pending.
    pub fn pending_changes(&self) -> u64 {
        self.pending_changes
    }

    /// Returns `true` if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces the rows of pending calls.
    pub fn set_pending(&mut self, page: RowPage) {
        let indices = |page: &RowPage| page.iter().map(|entry| entry.row.index).collect::<Vec<_>>();
        self.pending_changes += u64::from(indices(&self.pending) != indices(&page));
        self.pending = Arc::new(page);
    }

    /// Returns the number of the row at a position in the unsorted list.
    pub fn number_at(&self, position: usize) -> usize {
        match position.checked_sub(self.len) {
            Some(pending) => FIRST_PENDING + pending,
            None => position,
        }
    }

    /// Returns the position of a call in the unsorted list, by the index of its row: as a pending call, or as a
    /// transaction that was completed lately.
    pub fn position_of_pending(&self, index: u64) -> Option<usize> {
        let is_same = |entry: &TransactionRowWithText<'_>| entry.row.pending_index() == index;
        let pending = self.pending.iter().position(|entry| is_same(&entry)).map(|at| self.len + at);
        pending.or_else(|| {
            let latest = self.len.saturating_sub(MAX_LATEST_ROWS)..self.len;
            latest.rev().find(|at| self.get(*at).is_some_and(|entry| is_same(&entry)))
        })
    }

    /// Returns the number of evicted rows.
    pub fn evicted_count(&self) -> usize {
        self.evicted_count
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes + self.slots.capacity() * size_of::<EvictableRowPage>()
    }

    /// Adds rows. `cursor_row` is the row in view, whose page and neighbouring pages are not evicted.
    pub fn push(&mut self, page: RowPage, cursor_row: usize) {
        self.len += page.len();
        let mut rest = Some(page);
        if let Some(EvictableRowPage::Loaded(last)) = self.slots.last_mut()
            && last.len() < PAGE_ROWS
            && let Some(page) = rest.take()
        {
            let last = Arc::make_mut(last);
            self.bytes -= last.memory_bytes();
            rest = last.append(page);
            self.bytes += last.memory_bytes();
        }
        if let Some(page) = rest {
            self.bytes += page.memory_bytes();
            self.slots.push(EvictableRowPage::Loaded(Arc::new(page)));
        }
        self.evict_pages(cursor_row / PAGE_ROWS);
    }

    /// Evicts pages until the limit is met, the farthest from `cursor_page` first. The last page stays, because it
    /// grows.
    fn evict_pages(&mut self, cursor_page: usize) {
        while self.bytes > self.limit {
            let last = self.slots.len().saturating_sub(1);
            let is_loaded = |slot: &EvictableRowPage| matches!(slot, EvictableRowPage::Loaded(_));
            let start = self.slots.iter().position(is_loaded).filter(|at| *at < last);
            let end = self.slots.get(..last).and_then(|slots| slots.iter().rposition(is_loaded));
            let Some((start, end)) = start.zip(end) else { return };
            let farthest = if start.abs_diff(cursor_page) >= end.abs_diff(cursor_page) { start } else { end };
            if farthest.abs_diff(cursor_page) <= 1 {
                return;
            }
            let Some(slot) = self.slots.get_mut(farthest) else { return };
            let EvictableRowPage::Loaded(page) = &slot else { return };
            self.bytes -= page.memory_bytes();
            self.evicted_count += page.len();
            let first = page.get(0).map_or(FrameNumber(0), |entry| entry.row.first);
            *slot = EvictableRowPage::Evicted { rows: page.len(), first };
        }
    }

    /// Returns a row by its number; `None` if it is evicted, and beyond the end.
    pub fn get(&self, at: usize) -> Option<TransactionRowWithText<'_>> {
        if let Some(pending) = at.checked_sub(FIRST_PENDING) {
            return self.pending.get(pending);
        }
        match self.slots.get(at / PAGE_ROWS)? {
            EvictableRowPage::Loaded(page) => page.get(at % PAGE_ROWS),
            EvictableRowPage::Evicted { .. } => None,
        }
    }

    /// Returns `true` if a row was evicted.
    pub fn is_evicted(&self, at: usize) -> bool {
        matches!(self.slots.get(at / PAGE_ROWS), Some(EvictableRowPage::Evicted { .. }))
    }

    /// Restores an evicted page that was read again, if it matches.
    pub fn restore_page(&mut self, number: usize, page: RowPage, cursor_row: usize) {
        let Some(slot @ EvictableRowPage::Evicted { .. }) = self.slots.get_mut(number) else { return };
        let EvictableRowPage::Evicted { rows, first } = *slot else { return };
        let is_same = page.len() == rows && page.get(0).is_none_or(|entry| entry.row.first == first);
        if is_same {
            self.bytes += page.memory_bytes();
            self.evicted_count -= rows;
            *slot = EvictableRowPage::Loaded(Arc::new(page));
            self.evict_pages(cursor_row / PAGE_ROWS);
        }
    }

    /// Returns the rows in memory.
    pub fn entries(&self) -> impl Iterator<Item = TransactionRowWithText<'_>> {
        self.pages().flat_map(|(_, page)| (0..page.len()).filter_map(|at| page.get(at)))
    }

    /// Returns the pages in memory, each with the number of its first row.
    pub fn pages(&self) -> impl DoubleEndedIterator<Item = (usize, &Arc<RowPage>)> {
        let completed = self.slots.iter().enumerate().filter_map(|(number, slot)| match slot {
            EvictableRowPage::Loaded(page) => Some((number * PAGE_ROWS, page)),
            EvictableRowPage::Evicted { .. } => None,
        });
        completed.chain(std::iter::once((FIRST_PENDING, &self.pending)))
    }
}
