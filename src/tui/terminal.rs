//! The terminal: taken over at the start, restored at the end, after a panic and after a signal.

use std::io::{self, Stdout, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::app::App;

/// `true` while the program controls the terminal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns `true` if the terminal was restored although the user did not quit: after a panic of another thread.
pub(super) fn is_lost() -> bool {
    !IS_TAKEN.load(Ordering::SeqCst)
}

/// The terminal, controlled by the program until this is dropped.
pub(super) struct TuiTerminal {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    has_mouse: bool,
}

impl TuiTerminal {
    /// Takes control of the terminal. From then on, a panic restores it before its message is printed.
    pub(super) fn take_control(has_mouse: bool) -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            restore();
            before(about);
        }));
        enter(has_mouse)?;
        Ok(Self { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?, has_mouse })
    }

    /// Draws a screen as a synchronized update, which supporting terminals show at once.
    pub(super) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        let drawn = self.terminal.draw(|frame| app.draw(frame)).map(|_| ());
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        drawn
    }

    /// Sends a control sequence to the terminal.
    pub(super) fn send(&mut self, sequence: &[u8]) -> io::Result<()> {
        let mut out = io::stdout();
        out.write_all(sequence)?;
        out.flush()
    }

    /// Suspends the program like Ctrl-Z, with the terminal restored meanwhile.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        restore();
        #[cfg(unix)]
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        enter(self.has_mouse)?;
        self.redraw()
    }

    /// Redraws everything. [`Terminal::clear`] would query the cursor position, and the answer would go to the thread
    /// that reads keys.
    pub(super) fn redraw(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }
}

impl Drop for TuiTerminal {
    fn drop(&mut self) {
        restore();
    }
}

fn enter(has_mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    let mut out = io::stdout();
    execute!(out, EnterAlternateScreen, EnableBracketedPaste)?;
    if has_mouse {
        execute!(out, EnableMouseCapture)?;
    }
    Ok(())
}

/// Restores the terminal. Errors are ignored, because there is no terminal left to report them on.
fn restore() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(out, DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen);
        let _ = execute!(out, ratatui::crossterm::cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Signals that end the program. One is recorded, so that the program ends in an orderly way.
pub(super) struct TerminationSignals(Arc<AtomicUsize>);

impl TerminationSignals {
    /// Starts to record signals.
    pub(super) fn new() -> io::Result<Self> {
        let noted = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
            let number = usize::try_from(signal).unwrap_or(1);
            signal_hook::flag::register_usize(signal, Arc::clone(&noted), number)?;
        }
        Ok(Self(noted))
    }

    /// Returns the number of the recorded signal, if any.
    pub(super) fn received(&self) -> Option<i32> {
        i32::try_from(self.0.load(Ordering::SeqCst)).ok().filter(|signal| *signal > 0)
    }
}
