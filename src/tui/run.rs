//! The loop: an event or news, then a screen.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};

use super::app::{App, TerminalRequest};
use super::terminal::{self, TerminationSignals, TuiTerminal};

/// How long it waits for a key while something is under way, and while nothing is.
const BUSY: Duration = Duration::from_millis(16);
const IDLE: Duration = Duration::from_millis(100);

/// Reads events on a thread of its own: of a terminal that is gone, as when its window is closed, reading may never come
/// back, and the signal that tells of it must be heard all the same.
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

/// Runs until somebody quits, or a signal comes. Gives the signal's number.
///
/// # Errors
/// What is wrong with the terminal.
pub fn run(mut app: App, has_mouse: bool) -> io::Result<Option<i32>> {
    let signals = TerminationSignals::new()?;
    let mut screen = TuiTerminal::take(has_mouse)?;
    let events = events();
    let mut is_new = true;
    loop {
        if let Some(signal) = signals.came() {
            return Ok(Some(signal));
        }
        if terminal::is_lost() {
            return Err(io::Error::other("a part of the program has failed; see above"));
        }
        is_new |= app.tick();
        if is_new {
            screen.draw(&mut app)?;
            // What was drawn may be what was not known before: how many lines there are. What this tick takes up is on no
            // screen yet.
            is_new = app.tick();
        }
        let mut next = match events.recv_timeout(if is_new || app.is_busy() { BUSY } else { IDLE }) {
            Ok(event) => Some(event?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the terminal is gone")),
        };
        // Keys that are held down are more than screens that are needed.
        while let Some(event) = next {
            app.event(&event);
            is_new = true;
            for sequence in app.take_sequences() {
                screen.send(&sequence)?;
            }
            for wish in app.take_wishes() {
                match wish {
                    TerminalRequest::Quit => return Ok(None),
                    TerminalRequest::Suspend => screen.suspend()?,
                    TerminalRequest::Redraw => screen.redraw()?,
                }
            }
            next = events.try_recv().ok().transpose()?;
        }
    }
}
