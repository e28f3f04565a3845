//! The terminal: taken over at the start, given back at the end, after a panic, and after a signal.

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

/// Whether the terminal is ours at present.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether the terminal was given back although nobody quit: a panic of another thread did it.
pub(super) fn is_lost() -> bool {
    !IS_TAKEN.load(Ordering::SeqCst)
}

/// A terminal that is ours, until this goes away.
pub(super) struct TuiTerminal {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    has_mouse: bool,
}

impl TuiTerminal {
    /// Takes the terminal over. From here on a panic gives it back before it says what happened.
    pub(super) fn take(has_mouse: bool) -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            give_back();
            before(about);
        }));
        begin(has_mouse)?;
        Ok(Self { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?, has_mouse })
    }

    /// Draws a screen, which the terminal shows when all of it is there, if it can.
    pub(super) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        let drawn = self.terminal.draw(|frame| app.draw(frame)).map(|_| ());
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        drawn
    }

    /// Sends the terminal what is no text.
    pub(super) fn send(&mut self, sequence: &[u8]) -> io::Result<()> {
        let mut out = io::stdout();
        out.write_all(sequence)?;
        out.flush()
    }

    /// Stops the program as Ctrl-Z does elsewhere, with the terminal given back meanwhile.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        #[cfg(unix)]
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        begin(self.has_mouse)?;
        self.redraw()
    }

    /// Has everything drawn again. [`Terminal::clear`] would ask the terminal where its cursor is, and the answer would go to the
    /// thread that reads keys.
    pub(super) fn redraw(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }
}

impl Drop for TuiTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn begin(has_mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    let mut out = io::stdout();
    execute!(out, EnterAlternateScreen, EnableBracketedPaste)?;
    if has_mouse {
        execute!(out, EnableMouseCapture)?;
    }
    Ok(())
}

/// Gives the terminal back; where it cannot be written to, there is nobody left to see it.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(out, DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen);
        let _ = execute!(out, ratatui::crossterm::cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Signals that end the program. The first is noted, so that the end is an orderly one.
pub(super) struct TerminationSignals(Arc<AtomicUsize>);

impl TerminationSignals {
    /// Notes signals from now on.
    pub(super) fn new() -> io::Result<Self> {
        let noted = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
            let number = usize::try_from(signal).unwrap_or(1);
            signal_hook::flag::register_usize(signal, Arc::clone(&noted), number)?;
        }
        Ok(Self(noted))
    }

    /// The number of the signal that came, if one did.
    pub(super) fn came(&self) -> Option<i32> {
        i32::try_from(self.0.load(Ordering::SeqCst)).ok().filter(|signal| *signal > 0)
    }
}
