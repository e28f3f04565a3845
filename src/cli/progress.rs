//! Progress line on a terminal.

use std::cell::Cell;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nfsrdma_capture_file::{CaptureFrameSource, CapturePacketCounters, ReadProgress};
use nfsrdma_replay::run::ReplayReport;

use crate::output::units::{ByteRate, EventRateText, HoursMinutesSecondsText, HumanCount, HumanSize};

/// Minimum duration before progress is shown.
const MIN_DURATION: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(200);
/// Number of frames between checks of the clock.
const FRAMES_PER_CHECK: u32 = 64;

const ERASE: &str = "\r\x1b[K";

/// Progress line on standard error.
pub(super) struct ProgressLine {
    start: Instant,
    next_draw: Instant,
    frames: u32,
    is_wanted: bool,
    is_drawn: Rc<Cell<bool>>,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        let start = Instant::now();
        Self {
            start,
            next_draw: start + INTERVAL,
            frames: 0,
            is_wanted: io::stderr().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb"),
            is_drawn: Rc::default(),
        }
    }

    /// Returns standard output, which may be the same terminal: writing to it erases the line.
    pub(super) fn stdout(&self) -> ProgressStdout {
        let to = io::stdout();
        let is_drawn = if to.is_terminal() { Rc::clone(&self.is_drawn) } else { Rc::default() };
        ProgressStdout { to, is_drawn }
    }

    /// Called once per frame; returns `true` if output is due. Checks the clock at once if the input `is_idle`.
    #[inline]
    pub(super) fn is_due(&mut self, is_idle: bool) -> bool {
        self.frames += 1;
        if self.frames < FRAMES_PER_CHECK && !is_idle {
            return false;
        }
        self.frames = 0;
        let now = Instant::now();
        let is_due = now >= self.next_draw;
        if is_due {
            self.next_draw = now + INTERVAL;
        }
        is_due
    }

    pub(super) fn draw(&self, progress: ReadProgress, transactions: u64) {
        self.show(|elapsed| describe(progress, elapsed, transactions));
    }

    /// Draws the progress of a source: of a live capture, its counters.
    pub(super) fn draw_source(&self, source: &CaptureFrameSource, transactions: u64) {
        match source.counters() {
            Some(counters) => self.draw_live(&counters, Some(transactions)),
            None => self.draw(source.progress(), transactions),
        }
    }

    /// Draws the progress of a live capture.
    pub(super) fn draw_live(&self, counters: &CapturePacketCounters, transactions: Option<u64>) {
        self.show(|elapsed| describe_live(counters, elapsed, transactions));
    }

    /// Draws the progress of a replay.
    pub(super) fn draw_run(&self, report: &ReplayReport, total: u64, elapsed: Duration) {
        self.show(|_| {
            let seconds = elapsed.as_secs_f64().max(1e-3);
            let rate = report.calls as f64 / seconds;
            let fraction = report.steps.total as f64 / total.max(1) as f64;
            let remaining_seconds = if fraction > 0.0 { seconds * (1.0 - fraction) / fraction } else { 0.0 };
            format!(
                "{:3.0}%  {} of {} steps  {} calls/s  {} mismatched  {} left",
                fraction * 100.0,
                HumanCount(report.steps.total),
                HumanCount(total),
                EventRateText(rate),
                HumanCount(report.mismatched()),
                HoursMinutesSecondsText(remaining_seconds)
            )
        });
    }

    fn show(&self, describe: impl FnOnce(Duration) -> String) {
        let elapsed = self.start.elapsed();
        if !self.is_wanted || elapsed < MIN_DURATION {
            return;
        }
        let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| width.0.into());
        // One column less than the terminal: a full line would wrap.
        let line: String = describe(elapsed).chars().take(usize::max(width, 2) - 1).collect();
        // A failure to write progress is ignored.
        let _ = write!(io::stderr(), "{ERASE}{line}");
        self.is_drawn.set(true);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        erase(&self.is_drawn);
    }
}

/// Standard output under a [`ProgressLine`].
pub(super) struct ProgressStdout {
    to: io::Stdout,
    is_drawn: Rc<Cell<bool>>,
}

impl Write for ProgressStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        erase(&self.is_drawn);
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Clears the line of a terminal before a message, as progress may be drawn there.
#[cfg(feature = "live")]
pub(super) fn erase_line() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "{ERASE}");
    }
}

fn erase(is_drawn: &Cell<bool>) {
    if is_drawn.take() {
        let _ = write!(io::stderr(), "{ERASE}");
    }
}

fn describe(progress: ReadProgress, elapsed: Duration, transactions: u64) -> String {
    let ReadProgress { read_bytes: read, total_bytes: total } = progress;
    let rate = read as f64 / elapsed.as_secs_f64().max(1e-9);
    let mut line = String::new();
    // A file that is still being written grows beyond its original size.
    if let Some(total) = total.map(|total| total.max(read)).filter(|total| *total > 0) {
        let fraction = read as f64 / total as f64;
        let remaining_seconds = (total - read) as f64 / rate.max(1e-9);
        line += &format!(
            "{:3.0}% of {}, {} left, ",
            (fraction * 100.0).floor(),
            HumanSize(total),
            HoursMinutesSecondsText(remaining_seconds)
        );
    } else {
        line += &format!("{} in {}, ", HumanSize(read), HoursMinutesSecondsText(elapsed.as_secs_f64()));
    }
    line + &format!("{}, {} transactions", ByteRate(rate), HumanCount(transactions))
}

fn describe_live(counters: &CapturePacketCounters, elapsed: Duration, transactions: Option<u64>) -> String {
    let CapturePacketCounters { captured, dropped_by_kernel, dropped_by_interface, dropped_by_program, .. } = *counters;
    let mut line = format!("{} packets in {}", HumanCount(captured), HoursMinutesSecondsText(elapsed.as_secs_f64()));
    if let Some(transactions) = transactions {
        line += &format!(", {} transactions", HumanCount(transactions));
    }
    match counters.dropped() {
        0 => line += ", none dropped",
        _ => {
            line += &format!(
                ", dropped: {} by the kernel, {} by the interface, {} by this program",
                HumanCount(dropped_by_kernel),
                HumanCount(dropped_by_interface),
                HumanCount(dropped_by_program)
            );
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(read: u64, total: Option<u64>, seconds: u64) -> String {
        describe(ReadProgress { read_bytes: read, total_bytes: total }, Duration::from_secs(seconds), 1234)
    }

    #[test]
    fn a_file_has_an_end_to_wait_for() {
        assert_eq!(line(300 << 20, Some(3 << 30), 2), "  9% of 3.00 GiB, 0:19 left, 150 MiB/s, 1,234 transactions");
    }

    #[test]
    fn a_file_that_grows_is_never_past_its_end() {
        assert_eq!(line(2 << 20, Some(1 << 20), 1), "100% of 2.00 MiB, 0:00 left, 2.00 MiB/s, 1,234 transactions");
    }

    #[test]
    fn the_progress_of_a_live_capture_has_its_drops() {
        let mut counters = CapturePacketCounters { captured: 1000, received: 1007, ..CapturePacketCounters::default() };
        let line = |counters: &CapturePacketCounters| describe_live(counters, Duration::from_secs(65), Some(12));
        assert_eq!(line(&counters), "1,000 packets in 1:05, 12 transactions, none dropped");
        counters.dropped_by_kernel = 7;
        assert_eq!(
            line(&counters),
            "1,000 packets in 1:05, 12 transactions, dropped: 7 by the kernel, 0 by the interface, 0 by this program"
        );
    }

    #[test]
    fn the_progress_of_a_pipe_has_no_end() {
        assert_eq!(line(5 << 40, None, 3_725), "5.00 TiB in 1:02:05, 1.37 GiB/s, 1,234 transactions");
        assert_eq!(line(0, None, 0), "0 B in 0:00, 0 B/s, 1,234 transactions");
    }
}
