//! The terminal interface without a terminal: keys in, screens out, on real captures.

mod acknowledgements;
mod behaviour;
mod bounds;
mod documented;
mod findings;
mod frame_order;
mod live;
mod narrow;
mod recovery;
mod reload;
mod screens;
mod unknown_streams;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_capture_file::ZstdWindowBudget;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::rereadable_capture::SharedCapture;
use super::{App, TuiOptions};

/// Timeout of waits, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("captures").join(name)
}

/// A screen that shows the program.
struct Screen {
    app: App,
    terminal: Terminal<TestBackend>,
}

impl Screen {
    /// Opens a capture of `captures/`, and waits until it is read.
    fn open(name: &str, width: u16, height: u16) -> Self {
        Self::with(name, width, height, TuiOptions::default())
    }

    fn with(name: &str, width: u16, height: u16, options: TuiOptions) -> Self {
        Self::of(SharedCapture::files(vec![path(name)], ZstdWindowBudget::default()), width, height, options)
    }

    fn of(capture: SharedCapture, width: u16, height: u16, options: TuiOptions) -> Self {
        let mut screen = Self::begun(capture, width, height, options);
        screen.settle();
        screen
    }

    /// Opens a capture without processing any results.
    fn begun(capture: SharedCapture, width: u16, height: u16, options: TuiOptions) -> Self {
        let app = App::new(capture, options).unwrap();
        Self { app, terminal: Terminal::new(TestBackend::new(width, height)).unwrap() }
    }

    /// Waits until everything is read, without processing the results.
    fn wait_until_read(&self) {
        let start = Instant::now();
        while !self.app.unfiltered.pass.is_over() {
            assert!(start.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Draws, and again with the results, until no work is pending.
    fn settle(&mut self) {
        let start = Instant::now();
        self.app.tick();
        self.draw();
        loop {
            let mut is_new = self.app.tick();
            while !self.app.is_idle() {
                assert!(start.elapsed() < PATIENCE, "{}", self.text());
                thread::sleep(Duration::from_millis(1));
                is_new |= self.app.tick();
            }
            if !is_new {
                break;
            }
            self.draw();
        }
    }

    fn draw(&mut self) {
        self.terminal.draw(|frame| self.app.draw(frame)).unwrap();
    }

    fn press(&mut self, code: KeyCode) -> &mut Self {
        self.app.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        self.settle();
        self
    }

    /// Types letters.
    fn keys(&mut self, letters: &str) -> &mut Self {
        for letter in letters.chars() {
            self.app.event(&Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)));
        }
        self.settle();
        self
    }

    /// Types a line into the prompt that a key opens.
    fn ask(&mut self, key: char, line: &str) -> &mut Self {
        self.keys(&key.to_string()).keys(line).press(KeyCode::Enter)
    }

    /// Returns the text of the screen.
    fn text(&self) -> String {
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let mut text = String::new();
        for line in buffer.content().chunks(width) {
            // Cells covered by a wide character belong to it.
            let mut covered = 0;
            let mut printed = String::new();
            for cell in line {
                if covered == 0 {
                    printed.push_str(cell.symbol());
                    covered = crate::output::style::columns(cell.symbol()).saturating_sub(1);
                } else {
                    covered -= 1;
                }
            }
            text.push_str(printed.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the last line, or the message above the hints.
    fn last_line(&self) -> String {
        let is_said = self.app.message.is_some() || self.app.error_message().is_some();
        let has_message = is_said && self.app.prompt.is_none();
        self.text().lines().rev().nth(usize::from(has_message)).unwrap_or_default().to_owned()
    }

    /// Returns the label of the chosen Transaction.
    fn chosen(&self) -> String {
        self.app.entry().map(|entry| entry.label().to_owned()).unwrap_or_default()
    }
}
