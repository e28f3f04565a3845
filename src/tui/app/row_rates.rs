//! Rates: for files around the chosen Transaction, for live captures at the current time.

use nfsrdma_dissectors::frame::Timestamp;

use crate::analysis::rates::{RateTable, RatesAround};

use super::App;

/// Maximum number of rows counted before and after the chosen one.
const MAX_ROWS_PER_SIDE: usize = 1 << 20;
/// Maximum displacement of a row, in nanoseconds: Transactions are listed later than they end.
const DISPLACED_NS: u64 = 5_000_000_000;

/// The rates around the chosen row.
#[derive(Debug, Default)]
pub(in crate::tui) struct ChosenRowRates {
    /// Number of the chosen row, and number of rows, for which the rates were computed.
    computed_for: Option<(usize, usize)>,
    time: Option<Timestamp>,
    table: RateTable,
}

impl App {
    /// Returns `true` while frames are being received.
    pub(in crate::tui) fn is_live(&self) -> bool {
        self.capture.is_received_once() && !self.displayed_pass().progress.is_over
    }

    /// Returns the rates to display.
    pub(in crate::tui) fn rates(&self) -> &RateTable {
        if self.is_live() { &self.displayed_pass().activity.rates } else { &self.row_rates.table }
    }

    /// Returns the time around which the rates of a file were computed.
    pub(in crate::tui) fn rates_time(&self) -> Option<Timestamp> {
        self.row_rates.time
    }

    /// Discards the rates, because other rows are shown.
    pub(super) fn clear_row_rates(&mut self) {
        self.row_rates = ChosenRowRates::default();
    }

    /// Computes the rates around the chosen Transaction, if it has changed.
    pub(in crate::tui) fn update_row_rates(&mut self) {
        let rows = self.rows();
        let (Some(number), Some(times)) = (self.list.row_number(self.list.at), self.unfiltered.tables.times)
        else {
            return;
        };
        let of = Some((number, rows.len()));
        if self.is_live() || self.row_rates.computed_for == of {
            return;
        }
        let Some(middle) = rows.get(number).map(|entry| entry.to_ended_transaction().time) else { return };
        let mut around = RatesAround::new(middle, times);
        let half_ns = crate::analysis::rates::WINDOWS_NS.iter().max().copied().unwrap_or(0) / 2;
        let mut count = |numbers: &mut dyn Iterator<Item = usize>| {
            for entry in numbers.take(MAX_ROWS_PER_SIDE).filter_map(|number| rows.get(number)) {
                let ended = entry.to_ended_transaction();
                if around.contains(ended.time) {
                    around.add(ended);
                } else if middle.abs_diff_ns(ended.time) > half_ns + DISPLACED_NS {
                    break;
                }
            }
        };
        count(&mut (0..number).rev());
        count(&mut (number..rows.len()));
        let table = around.table();
        self.row_rates = ChosenRowRates { computed_for: of, time: Some(middle), table };
    }
}
