//! Rates: for files around the chosen Transaction, for live captures at the current time.

use nfsrdma_dissectors::frame::Timestamp;

use crate::analysis::rates::{RateTable, RatesAround};

use super::App;

/// Maximum number of rows counted before and after the chosen one.
const ROWS: usize = 1 << 20;
/// Maximum displacement of a row, in nanoseconds: Transactions are listed later than they end.
const DISPLACED_NS: u64 = 5_000_000_000;

/// The rates around the chosen row.
#[derive(Debug, Default)]
pub(in crate::tui) struct ChosenRowRates {
    /// Number of the chosen row, and number of rows, for which the rates were computed.
    of: Option<(usize, usize)>,
    time: Option<Timestamp>,
    table: RateTable,
}

impl App {
    /// Returns `true` while frames are being received.
    pub(in crate::tui) fn is_live(&self) -> bool {
        self.capture.is_once() && !self.side().progress.is_over
    }

    /// Returns the rates to display.
    pub(in crate::tui) fn rates(&self) -> &RateTable {
        if self.is_live() { &self.side().activity.rates } else { &self.around.table }
    }

    /// Returns the time around which the rates of a file were computed.
    pub(in crate::tui) fn around_time(&self) -> Option<Timestamp> {
        self.around.time
    }

    /// Discards the rates, because other rows are shown.
    pub(super) fn forget_around(&mut self) {
        self.around = ChosenRowRates::default();
    }

    /// Computes the rates around the chosen Transaction, if it has changed.
    pub(in crate::tui) fn count_around(&mut self) {
        let rows = self.rows();
        let (Some(number), Some(times)) = (self.list.number(self.list.at), self.all.tables.times) else {
            return;
        };
        let of = Some((number, rows.len()));
        if self.is_live() || self.around.of == of {
            return;
        }
        let Some(middle) = rows.get(number).map(|entry| entry.ended().time) else { return };
        let mut around = RatesAround::new(middle, times);
        let half_ns = crate::analysis::rates::WINDOWS_NS.iter().max().copied().unwrap_or(0) / 2;
        let mut count = |numbers: &mut dyn Iterator<Item = usize>| {
            for entry in numbers.take(ROWS).filter_map(|number| rows.get(number)) {
                let ended = entry.ended();
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
        self.around = ChosenRowRates { of, time: Some(middle), table };
    }
}
