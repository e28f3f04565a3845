//! The event loop: handles an event or an update, then draws.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};

use super::app::application_state::{App, TerminalControlRequest};
use super::terminal::{self, TerminationSignals, TuiTerminal};

/// Timeout of the wait for a key while work is pending, and while it is not.
const BUSY: Duration = Duration::from_millis(16);
const IDLE: Duration = Duration::from_millis(100);

/// Reads events on its own thread. If the terminal is gone, as when its window is closed, the read may never
/// return, but the signal for it must still be handled.
fn events() -> Receiver<io::Result<Event>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        loop {
            let event = event::read();
            let is_over = event.is_err();
            if sender.send(event).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

/// Reason for the end of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuiEnd {
    /// The user quit.
    Quit,
    /// A signal of this number arrived.
    Signal(i32),
    /// The input ended before its first frame, with this error.
    NoFrames(String),
}

/// Runs until the user quits, a signal arrives, or the input ends without a frame.
///
/// # Errors
/// Returns the errors of the terminal.
pub fn run(mut app: App, has_mouse: bool) -> io::Result<TuiEnd> {
    let signals = TerminationSignals::new()?;
    let mut screen = TuiTerminal::take_control(has_mouse)?;
    let events = events();
    let mut is_new = true;
    loop {
        if let Some(signal) = signals.received() {
            return Ok(TuiEnd::Signal(signal));
        }
        if terminal::is_lost() {
            return Err(io::Error::other("internal error; see above"));
        }
        is_new |= app.tick();
        if let Some(error) = app.no_frames_error() {
            return Ok(TuiEnd::NoFrames(error));
        }
        if is_new {
            screen.draw(&mut app)?;
            // Drawing may determine sizes, such as the number of lines. Changes made by this tick are not on the screen
            // yet.
            is_new = app.tick();
        }
        let mut next = match events.recv_timeout(if is_new || app.is_busy() { BUSY } else { IDLE }) {
            Ok(event) => Some(event?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the terminal is gone")),
        };
        // Held keys produce more events than screens are needed.
        while let Some(event) = next {
            app.event(&event);
            is_new = true;
            for sequence in app.take_sequences() {
                screen.send(&sequence)?;
            }
            for request in app.take_requests() {
                match request {
                    TerminalControlRequest::Quit => return Ok(TuiEnd::Quit),
                    TerminalControlRequest::Suspend => screen.suspend()?,
                    TerminalControlRequest::Redraw => screen.redraw()?,
                }
            }
            next = events.try_recv().ok().transpose()?;
        }
    }
}
