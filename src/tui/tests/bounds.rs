//! Memory is bounded, and evicted rows are reloaded.

use std::fs::File;
use std::io;

use nfsrdma_capture_file::Windows;
use ratatui::crossterm::event::KeyCode;

use crate::memory::MemoryBudget;
use crate::tui::TuiOptions;
use crate::tui::capture_handle::CaptureHandle;
use crate::tui::model::PAGE_ROWS;

use super::{Screen, path};

#[path = "../../../benches/repeat.rs"]
#[allow(dead_code, reason = "the benchmark needs more of it")]
mod repeat;

/// A capture repeated several times.
struct Long(std::path::PathBuf);

impl Long {
    fn new(name: &str, repetitions: u32) -> Self {
        let file = std::env::temp_dir().join(format!("nfsrdma-inspect-{name}-{}.pcap", std::process::id()));
        let real = std::fs::read(path("rxe-v42-deleg.pcap")).unwrap();
        let mut repeated = repeat::Repeated::new(real, repetitions);
        io::copy(&mut repeated, &mut File::create(&file).unwrap()).unwrap();
        Self(file)
    }

    fn open(&self, memory: usize) -> Screen {
        // Size of the budget that gives the rows of files this share (`ViewMemoryShares`).
        let budget_bytes = memory as u64 / 14 * 32 * 8 / 6 * 8 / 7;
        let options =
            TuiOptions { memory: MemoryBudget::for_interface(budget_bytes, []), ..TuiOptions::default() };
        Screen::of(CaptureHandle::files(vec![self.0.clone()], Windows::default()), 80, 24, options)
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn pages_that_were_forgotten_are_read_again_as_they_were() {
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
