//! Rates: for files around the chosen Transaction, for live captures at the current time.

use nfsrdma_dissectors::captured_frame::Timestamp;

use nfsrdma_analysis::load_over_time;
use nfsrdma_analysis::rates::{CenteredWindowRates, SlidingWindowRates, TransactionAndByteRate, WINDOWS_NS};

use super::App;

/// Maximum number of rows counted before and after the chosen one.
const MAX_ROWS_PER_SIDE: usize = 1 << 20;
/// Maximum displacement of a row, in nanoseconds: Transactions are listed later than they end.
const DISPLACED_NS: u64 = 5_000_000_000;

/// The rates around the chosen row.
#[derive(Debug, Default)]
pub(in crate::tui) struct RatesAroundChosenRow {
    /// State of the rows for which the rates were computed.
    computed_for: Option<DisplayedRatesKey>,
    time: Option<Timestamp>,
    table: SlidingWindowRates,
    /// `true` for each window of which all rows were counted; the others are zero in the table.
    is_complete: [bool; WINDOWS_NS.len()],
    /// Rates of all Transactions, from the load series if a window is incomplete; `None` if unknown.
    all: [Option<TransactionAndByteRate>; WINDOWS_NS.len()],
}

/// Everything that the rates depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DisplayedRatesKey {
    number: usize,
    row_count: usize,
    evicted_count: usize,
    times: (Timestamp, Timestamp),
    /// Number of Transactions in the tables.
    transactions: u64,
}

impl App {
    /// Returns `true` while frames are being received.
    pub(in crate::tui) fn is_live(&self) -> bool {
        self.capture.is_received_once() && !self.displayed_pass().progress.is_over
    }

    /// Returns the rates to display.
    pub(in crate::tui) fn rates(&self) -> &SlidingWindowRates {
        if self.is_live() { &self.displayed_pass().activity.rates } else { &self.row_rates.table }
    }

    /// Returns the rates of all Transactions; `None` for a window with an unknown rate.
    pub(in crate::tui) fn total_rates(&self) -> [Option<TransactionAndByteRate>; WINDOWS_NS.len()] {
        if self.is_live() { self.rates().all.map(Some) } else { self.row_rates.all }
    }

    /// Returns `true` for each window of which [`Self::rates`] counts all Transactions.
    pub(in crate::tui) fn complete_windows(&self) -> [bool; WINDOWS_NS.len()] {
        if self.is_live() { [true; WINDOWS_NS.len()] } else { self.row_rates.is_complete }
    }

    /// Returns the time around which the rates of a file were computed.
    pub(in crate::tui) fn rates_time(&self) -> Option<Timestamp> {
        self.row_rates.time
    }

    /// Discards the rates, because other rows are shown.
    pub(super) fn clear_row_rates(&mut self) {
        self.row_rates = RatesAroundChosenRow::default();
    }

    /// Computes the rates around the chosen Transaction, if it has changed.
    pub(in crate::tui) fn update_row_rates(&mut self) {
        let rows = self.rows();
        let (Some(number), Some(times)) = (self.list.row_number(self.list.at), self.unfiltered.tables.times)
        else {
            return;
        };
        let key = Some(DisplayedRatesKey {
            number,
            row_count: rows.len(),
            evicted_count: rows.evicted_count(),
            times,
            transactions: self.displayed_pass().tables.transactions.0,
        });
        if self.is_live() || self.row_rates.computed_for == key {
            return;
        }
        let Some(middle) = rows.get(number).map(|entry| entry.to_ended_transaction().time) else { return };
        let mut window_rates = CenteredWindowRates::new(middle, times);
        let half_ns = WINDOWS_NS.iter().max().copied().unwrap_or(0) / 2;
        let mut is_complete = [true; WINDOWS_NS.len()];
        let mut count = |numbers: &mut dyn Iterator<Item = usize>| {
            // Distance of the last counted row. Rows beyond a gap may be closer by the displacement.
            let mut apart_ns = 0;
            for (count, number) in numbers.enumerate() {
                let Some(entry) = rows.get(number).filter(|_| count < MAX_ROWS_PER_SIDE) else {
                    for (is_complete, length_ns) in is_complete.iter_mut().zip(WINDOWS_NS) {
                        *is_complete &= apart_ns > length_ns / 2 + DISPLACED_NS;
                    }
                    break;
                };
                let transaction = entry.to_ended_transaction();
                apart_ns = middle.abs_diff_ns(transaction.time);
                if window_rates.contains(transaction.time) {
                    window_rates.add(transaction);
                } else if apart_ns > half_ns + DISPLACED_NS {
                    break;
                }
            }
        };
        count(&mut (0..number).rev());
        count(&mut (number..rows.len()));
        let table = window_rates.table(is_complete);
        let series = &self.displayed_pass().tables.load;
        let all = std::array::from_fn(|at| match is_complete[at] {
            true => Some(table.all[at]),
            false => load_over_time::rate_around(series, middle, WINDOWS_NS[at], times),
        });
        self.row_rates =
            RatesAroundChosenRow { computed_for: key, time: Some(middle), table, is_complete, all };
    }
}
