//! The loop: an event or news, then a screen.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event;

use super::app::{App, Wish};
use super::terminal::{self, Screen, Signals};

/// How long it waits for a key while something is under way, and while nothing is.
const BUSY: Duration = Duration::from_millis(16);
const IDLE: Duration = Duration::from_millis(100);

/// Runs until somebody quits, or a signal comes. Gives the signal's number.
///
/// # Errors
/// What is wrong with the terminal.
pub fn run(mut app: App, has_mouse: bool) -> io::Result<Option<i32>> {
    let signals = Signals::new()?;
    let mut screen = Screen::take(has_mouse)?;
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
            screen.terminal.draw(|frame| app.draw(frame))?;
            // What was drawn may be what was not known before: how many lines there are.
            app.tick();
        }
        is_new = false;
        let wait = if app.is_busy() { BUSY } else { IDLE };
        let mut more = event::poll(wait)?;
        while more {
            app.event(&event::read()?);
            is_new = true;
            for sequence in app.take_sequences() {
                screen.send(&sequence)?;
            }
            for wish in app.take_wishes() {
                match wish {
                    Wish::Quit => return Ok(None),
                    Wish::Suspend => screen.suspend()?,
                    Wish::Redraw => screen.terminal.clear()?,
                }
            }
            // Keys that are held down are more than screens that are needed.
            more = event::poll(Duration::ZERO)?;
        }
    }
}
