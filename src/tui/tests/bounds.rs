//! Memory is bounded, and evicted rows are reloaded.

use std::fs::File;
use std::io;

use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_capture_file::ZstdWindowBudget;
use ratatui::crossterm::event::KeyCode;

use super::{Screen, path};
use crate::tui::TuiOptions;
use crate::tui::model::transaction_list_row::PAGE_ROWS;
use crate::tui::rereadable_capture::SharedCapture;

#[path = "../../../benches/repeat.rs"]
#[allow(dead_code, reason = "the benchmark needs more of it")]
mod repeat;

/// A capture repeated several times.
struct Long(std::path::PathBuf);

impl Long {
    fn new(name: &str, repetitions: u32) -> Self {
        Self::compressed(name, repetitions, 1)
    }

    /// Divides the distances of the frames in time.
    fn compressed(name: &str, repetitions: u32, divisor: u64) -> Self {
        let file = std::env::temp_dir().join(format!("nfsrdma-inspect-{name}-{}.pcap", std::process::id()));
        let mut real = std::fs::read(path("rxe-v42-deleg.pcap")).unwrap();
        divide_distances(&mut real, divisor);
        let mut repeated = repeat::Repeated::new(real, repetitions);
        io::copy(&mut repeated, &mut File::create(&file).unwrap()).unwrap();
        Self(file)
    }

    fn open(&self, memory: usize) -> Screen {
        // Size of the budget that gives the rows of files this share (`ViewMemoryShares`).
        let budget_bytes = memory as u64 / 14 * 32 * 8 / 6 * 8 / 7;
        let options =
            TuiOptions { memory: CommandMemoryBudget::for_interface(budget_bytes, []), ..TuiOptions::default() };
        Screen::of(SharedCapture::files(vec![self.0.clone()], ZstdWindowBudget::default()), 80, 24, options)
    }
}

/// Divides the distances of the records of a pcap file in time.
fn divide_distances(file: &mut [u8], divisor: u64) {
    const SECOND: u64 = 1_000_000_000;
    let (mut at, mut first) = (24, None);
    while let Some(record) = file.get_mut(at..at + 16) {
        let word = |at: usize| u64::from(u32::from_le_bytes(record[at..at + 4].try_into().unwrap()));
        let (time, length) = (word(0) * SECOND + word(4), word(8));
        let first = *first.get_or_insert(time);
        let time = first + (time - first) / divisor;
        record[..4].copy_from_slice(&((time / SECOND) as u32).to_le_bytes());
        record[4..8].copy_from_slice(&((time % SECOND) as u32).to_le_bytes());
        at += 16 + length as usize;
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn rates_over_evicted_rows_are_unknown_or_those_of_all_rows() {
    // 250 transactions per second, so that ten seconds have several pages of rows.
    let long = Long::compressed("rates", 120, 20);
    let mut whole = long.open(1 << 30);
    let mut bounded = long.open(whole.app.rows().memory_bytes() / 5);
    whole.press(KeyCode::End);
    bounded.press(KeyCode::End).keys("2");
    assert!(bounded.app.rows().evicted_count() > 0);
    // The whole list, counted without its rates.
    let rows = whole.app.rows();
    let middle = bounded.app.rates_time().unwrap();
    assert_eq!(middle, rows.get(rows.len() - 1).unwrap().to_ended_transaction().time);
    let (first, last) = whole.app.unfiltered.tables.times.unwrap();
    let (rates, is_complete) = (bounded.app.total_rates(), bounded.app.complete_windows());
    assert!(is_complete.contains(&false), "{is_complete:?}");
    for (rate, half_ns) in rates.into_iter().zip([500_000_000, 5_000_000_000, 30_000_000_000_u64]) {
        let is_in = |time: nfsrdma_dissectors::captured_frame::Timestamp| time.abs_diff_ns(middle) <= half_ns;
        let count = rows.entries().filter(|entry| is_in(entry.to_ended_transaction().time)).count();
        let part = middle.nanoseconds_since(first).unwrap().min(half_ns)
            + last.nanoseconds_since(middle).unwrap().min(half_ns);
        let expected = count as f64 / (part as f64 / 1e9);
        if let Some(rate) = rate {
            assert!((rate.transactions / expected - 1.0).abs() < 0.1, "{rate:?} {expected}");
        }
    }
    let text = bounded.text();
    let row = text.lines().find(|line| line.contains(" GETATTR ")).unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains(" - "), "{text}");
}

#[test]
fn evicted_pages_are_reloaded_unchanged() {
    let long = Long::new("forgotten", 100);
    let mut whole = long.open(1 << 30);
    let count = whole.app.rows().len();
    assert!(count > 3 * PAGE_ROWS, "{count}");
    assert_eq!(whole.app.rows().evicted_count(), 0);
    let memory = whole.app.rows().memory_bytes() / 2;
    // A growing page reserves space for as many rows again.
    let most = memory + (256 << 10);
    let mut bounded = long.open(memory);
    assert!(bounded.app.rows().memory_bytes() <= most);
    assert!(bounded.app.rows().evicted_count() > 0);
    assert_eq!(bounded.app.rows().len(), count);
    for code in [KeyCode::End, KeyCode::PageUp, KeyCode::Home, KeyCode::PageDown, KeyCode::End] {
        for screen in [&mut whole, &mut bounded] {
            screen.press(code);
        }
        assert_eq!(bounded.chosen(), whole.chosen());
        assert_eq!(bounded.text(), whole.text());
        assert!(bounded.app.rows().memory_bytes() <= most, "{} of {most}", bounded.app.rows().memory_bytes());
    }
}
