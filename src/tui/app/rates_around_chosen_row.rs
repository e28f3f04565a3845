//! Rates: for files around the chosen Transaction, for live captures at the current time.

use nfsrdma_analysis::load_over_time;
use nfsrdma_analysis::rates::{CenteredWindowRates, SlidingWindowRates, TransactionAndByteRate, WINDOWS_NS};
use nfsrdma_dissectors::captured_frame::Timestamp;

use super::read_pass_results::ReadPassResults;

/// Maximum number of rows counted before and after the chosen one.
const MAX_ROWS_PER_SIDE: usize = 1 << 20;
/// Maximum displacement of a row, in nanoseconds: Transactions are listed later than they end.
const DISPLACED_NS: u64 = 5_000_000_000;

/// The rates around the chosen row.
#[derive(Debug, Default)]
pub(in crate::tui) struct RatesAroundChosenRow {
    /// State of the rows for which the rates were computed.
    computed_for: Option<DisplayedRatesKey>,
    pub(super) time: Option<Timestamp>,
    pub(super) table: SlidingWindowRates,
    /// `true` for each window of which all rows were counted; the others are zero in the table.
    pub(super) is_complete: [bool; WINDOWS_NS.len()],
    /// Rates of all Transactions, from the load series if a window is incomplete; `None` if unknown.
    pub(super) all: [Option<TransactionAndByteRate>; WINDOWS_NS.len()],
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

impl RatesAroundChosenRow {
    /// Computes the rates around row `number` of a pass, if it or the rows have changed.
    pub(super) fn update(&mut self, number: usize, times: (Timestamp, Timestamp), pass: &ReadPassResults) {
        let rows = &pass.rows;
        let key = Some(DisplayedRatesKey {
            number,
            row_count: rows.len(),
            evicted_count: rows.evicted_count(),
            times,
            transactions: pass.tables.transactions.0,
        });
        if self.computed_for == key {
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
        let series = &pass.tables.load;
        let all = std::array::from_fn(|at| match is_complete[at] {
            true => Some(table.all[at]),
            false => load_over_time::rate_around(series, middle, WINDOWS_NS[at], times),
        });
        *self = Self { computed_for: key, time: Some(middle), table, is_complete, all };
    }
}
