//! Rates of files that are read, around the chosen Transaction; of what comes now, those of this moment.

use nfsrdma_dissectors::frame::Timestamp;

use crate::analysis::rates::{RateTable, RatesAround};

use super::App;

/// Rows that are counted before and behind the chosen one at most.
const ROWS: usize = 1 << 20;
/// Nanoseconds that a row may stand beside its place: Transactions close later than they end.
const DISPLACED_NS: u64 = 5_000_000_000;

/// The rates that were counted last.
#[derive(Debug, Default)]
pub(in crate::tui) struct ChosenRowRates {
    /// The number of the chosen row and how many there were, when this was counted.
    of: Option<(usize, usize)>,
    time: Option<Timestamp>,
    table: RateTable,
}

impl App {
    /// Whether frames are coming at present.
    pub(in crate::tui) fn is_live(&self) -> bool {
        self.capture.is_once() && !self.side().progress.is_over
    }

    /// The rates that views show.
    pub(in crate::tui) fn rates(&self) -> &RateTable {
        if self.is_live() { &self.side().activity.rates } else { &self.around.table }
    }

    /// The moment that the rates of a file lie around.
    pub(in crate::tui) fn around_time(&self) -> Option<Timestamp> {
        self.around.time
    }

    /// Other rows are shown.
    pub(super) fn forget_around(&mut self) {
        self.around = ChosenRowRates::default();
    }

    /// Counts around the chosen Transaction, if that is another one than before.
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
