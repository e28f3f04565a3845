//! The terminal: taken over at the start, restored at the end, after a panic and after a signal.

use std::cell::RefCell;
use std::io::{self, Write};
use std::panic;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use ratatui::layout::Position;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::app::application_state::App;

/// `true` while the program controls the terminal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns `true` if the terminal was restored although the user did not quit: after a panic of another thread.
pub(super) fn is_lost() -> bool {
    !IS_TAKEN.load(Ordering::SeqCst)
}

/// The terminal, controlled by the program until this is dropped.
pub(super) struct TuiTerminal {
    terminal: Terminal<CrosstermBackend<UnwrittenTerminalOutput>>,
    screens: ChangedScreenWriter,
    has_mouse: bool,
}

/// Output for the terminal that is not written yet.
#[derive(Clone, Debug, Default)]
struct UnwrittenTerminalOutput(Rc<RefCell<Vec<u8>>>);

impl UnwrittenTerminalOutput {
    fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Write for UnwrittenTerminalOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Draws screens, and writes those that differ from the one before.
#[derive(Debug, Default)]
struct ChangedScreenWriter {
    output: UnwrittenTerminalOutput,
    /// The screen written last, and the cursor on it.
    last: Option<(Buffer, Option<Position>)>,
}

impl ChangedScreenWriter {
    /// Draws a screen as a synchronized update, which supporting terminals show at once.
    fn draw(
        &mut self,
        terminal: &mut Terminal<CrosstermBackend<UnwrittenTerminalOutput>>,
        app: &mut App,
        to: &mut impl Write,
    ) -> io::Result<()> {
        let drawn = terminal.draw(|frame| app.draw(frame))?;
        let cursor = app.areas.cursor;
        let update = self.output.take();
        if self.last.as_ref().is_some_and(|(screen, at)| screen == drawn.buffer && *at == cursor) {
            return Ok(());
        }
        self.last = Some((drawn.buffer.clone(), cursor));
        queue!(to, BeginSynchronizedUpdate)?;
        to.write_all(&update)?;
        execute!(to, EndSynchronizedUpdate)
    }

    /// Writes the next screen even if it is the same.
    fn forget(&mut self) {
        self.last = None;
    }
}

impl TuiTerminal {
    /// Takes control of the terminal. From then on, a panic restores it before its message is printed.
    pub(super) fn take_control(has_mouse: bool) -> io::Result<Self> {
        let previous_hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic_info| {
            restore();
            previous_hook(panic_info);
        }));
        enter(has_mouse)?;
        let screens = ChangedScreenWriter::default();
        let terminal = Terminal::new(CrosstermBackend::new(screens.output.clone()))?;
        Ok(Self { terminal, screens, has_mouse })
    }

    /// Draws a screen. Nothing is written if it is the same as before.
    pub(super) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        self.screens.draw(&mut self.terminal, app, &mut io::stdout())
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
        self.screens.forget();
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

#[cfg(test)]
mod tests {
    use nfsrdma_capture_file::ZstdWindowBudget;
    use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
    use ratatui::layout::Rect;
    use ratatui::{TerminalOptions, Viewport};

    use super::*;
    use crate::tui::TuiOptions;
    use crate::tui::rereadable_capture::SharedCapture;

    #[test]
    fn an_unchanged_screen_writes_nothing() {
        let file = crate::testing::path("rxe-v42.pcap");
        let capture = SharedCapture::files(vec![file], ZstdWindowBudget::default());
        let mut app = App::new(capture, TuiOptions::default()).unwrap();
        let mut screens = ChangedScreenWriter::default();
        let options = TerminalOptions { viewport: Viewport::Fixed(Rect::new(0, 0, 80, 24)) };
        let backend = CrosstermBackend::new(screens.output.clone());
        let mut terminal = Terminal::with_options(backend, options).unwrap();
        let mut written = |app: &mut App, is_forced: bool| {
            let mut to = Vec::new();
            if is_forced {
                screens.forget();
            }
            screens.draw(&mut terminal, app, &mut to).unwrap();
            to.len()
        };
        assert!(written(&mut app, false) > 100);
        assert_eq!([written(&mut app, false), written(&mut app, false)], [0, 0]);
        assert!(written(&mut app, true) > 0);
        // The cursor of the prompt is a part of the screen.
        let mut press = |app: &mut App, code| {
            app.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
            written(app, false)
        };
        assert!(press(&mut app, KeyCode::Char('g')) > 0);
        assert!(press(&mut app, KeyCode::Char('5')) > 0);
        assert!(press(&mut app, KeyCode::Left) > 0);
        assert_eq!(press(&mut app, KeyCode::Left), 0);
        assert!(press(&mut app, KeyCode::Esc) > 0);
    }
}
