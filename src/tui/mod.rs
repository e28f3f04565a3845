//! The terminal interface.
//!
//! ```text
//! source -> read_pass (a thread) -> read_pass_channel -> model -> views -> terminal
//!               |                                          ^         |
//!               +-- names, tables                          +-- app <-+-- keys, mouse, prompt
//!                                                               |
//! source -> frame_reload (a thread) <- requests ----------------+
//! ```
//!
//! - A [`read_pass`] reads all frames once, on its own thread: it decodes them, keeps the Transactions that the
//!   filter selects, and puts light [rows](model::transaction_list_row) and [tables](model::statistics_snapshot) into a
//!   [`read_pass_channel`]. Without a filter there is one pass; a filter starts a second one, so that removing the
//!   filter costs nothing. A pass whose channel is full waits, so that a pause loses nothing.
//! - The [`model`] stores the rows of a pass in pages, in bounded memory. Pages far from the visible ones are evicted,
//!   and reloaded when they are needed.
//! - [`frame_reload`] is the other thread: it reads the frames of the chosen Transaction again and decodes them with
//!   all bytes, for tree, hex pane and waterfall. It also reads evicted pages, parts of the packet list, and frames to
//!   save. It starts shortly before the first frame and compares the result with the row; if they differ, because the
//!   context of the frames is earlier, it starts from the beginning. Files are read again from disk. Of a pipe or an
//!   interface only the latest frames are kept; evicted ones are reported as gone.
//! - [`app`] handles events, and its [`application_state`](app::application_state) is what the views draw: one table of
//!   [`keys`] maps keys to actions, and the help is generated from it. It draws after each event, and only the visible
//!   part.
//! - [`views`] has one module per view. They read the model and decode nothing. [`theme`] defines styles.
//! - [`terminal`] takes control of the terminal and restores it at the end, after a panic and after a signal.
//!
//! For frames of an interface, pass a [`CaptureFrameSource`](nfsrdma_capture_file::CaptureFrameSource) to
//! [`rereadable_capture::SharedCapture::received_once`]; everything else is the same as for files.

pub mod app;
mod clipboard;
pub mod event_loop;
mod followed_file;
mod frame_clock;
pub mod frame_reload;
mod frame_scan;
pub mod keys;
pub mod memory_shares;
pub mod model;
mod prompt;
mod read_pass;
mod read_pass_channel;
pub mod rereadable_capture;
mod retained_live_frames;
mod save;
mod search;
mod styled_line_parsing;
mod terminal;
#[cfg(test)]
mod tests;
pub mod theme;
mod transaction_finding_store;
pub mod tui_view;
mod views;

pub use app::application_state::{App, TuiOptions};
pub use event_loop::run;
