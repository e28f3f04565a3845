//! The terminal interface: a capture at work, in a terminal.
//!
//! ```text
//! source -> pass (a thread) -> mailbox -> model -> views -> terminal
//!              |                            ^         |
//!              +-- names, tables            +- app <--+-- keys, mouse, prompt
//!                                               |
//! source -> again (a thread) <- what is asked --+
//! ```
//!
//! - A [`read_pass`] is one reading of all frames, on a thread of its own: it decodes, keeps what the filter selects, and puts light
//!   [rows](model::row) and [tables](model::tables) into a [`pass_channel`]. Without a filter there is one read_pass; a filter
//!   starts another one beside it, so that taking the filter away costs nothing. A pass that is not emptied waits, and so a
//!   pause loses nothing.
//! - The [`model`] keeps the rows of a pass by the page, in bounded memory. Pages far from what is looked at are forgotten, and
//!   read again when somebody comes to them.
//! - [`reload`] is the other thread: it reads the frames of the chosen Transaction reload and decodes them, with all bytes, for
//!   tree, hex pane and waterfall; it reads pages that were forgotten, stretches of the packet list, and what is saved. It
//!   begins not far before the first frame, and holds what comes out to the row: where they differ, because what tells the
//!   meaning of the frames stands earlier, it begins at the start. A file is read again from disk; of what came through a
//!   pipe or an interface the latest frames are kept, and what is gone is said to be.
//! - [`app`] holds what a person does: one table of [`keys`] makes actions of keys, and the help is made from it. It draws after
//!   each event, and draws only what is visible.
//! - [`views`] are rooms, one a view. They look at the model and decode nothing. How things look is in [`theme`].
//! - [`terminal`] takes the terminal over and gives it back, whatever happens: the end, a panic, a signal.
//!
//! Who brings frames from an interface gives a [`Source`](crate::source::CaptureSource) to [`capture::CaptureHandle::once`]; all else is
//! as with a file.

pub mod app;
pub mod capture;
mod clipboard;
mod frame_scan;
pub mod keys;
mod live_frames;
pub mod model;
mod pass_channel;
mod prompt;
mod read_pass;
pub mod reload;
mod run;
mod save;
mod search;
mod shares;
mod terminal;
#[cfg(test)]
mod tests;
pub mod theme;
mod views;

pub use app::{App, TuiOptions};
pub use run::run;
pub use shares::ViewShares;
