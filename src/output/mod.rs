//! What a person or a program sees: views of Transactions and of frames.
//!
//! [`Output`] is given every frame and every Transaction, and writes what was asked for: the [`list`], the [`tree`], the
//! [`frames`], JSON Lines ([`json`]) and the [`summary`].

pub mod frame_file;
pub mod frames;
pub mod json;
pub mod kept_frames;
mod label;
pub mod list;
pub mod pcapng;
mod settings;
pub mod style;
pub mod summary;
pub mod tree;
pub mod units;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use nfsrdma_dissectors::field::Unobserved;
use nfsrdma_dissectors::flow::{Flow, Transaction};
use nfsrdma_dissectors::frame::Frame;

use crate::analysis::statistics::Statistics;

use frames::FrameList;
use json::JsonLines;
use kept_frames::KeptFrames;
use list::List;
pub use settings::{Format, Settings, SummaryFormat, TimeFormat, View};
use summary::Summary;
use tree::TreeView;

/// Columns of a summary where nothing limits it.
const WIDTH: usize = 100;

/// The view that writes the lines.
enum Lines {
    /// They are left out.
    None,
    List(List),
    Trees(Box<TreeView>, KeptFrames),
    Json(JsonLines),
    Frames(FrameList),
    FrameTrees(FrameList, Box<TreeView>),
}

impl Lines {
    fn of(settings: &Settings) -> Self {
        let Settings { screen, time, .. } = *settings;
        match (settings.quiet, settings.view, settings.format, settings.tree) {
            (true, ..) => Self::None,
            (_, View::Transactions, Format::Json, _) => Self::Json(JsonLines::default()),
            (_, View::Transactions, Format::Text, false) => Self::List(List::new(screen, time)),
            (_, View::Transactions, Format::Text, true) => {
                Self::Trees(Box::new(TreeView::new(screen)), KeptFrames::default())
            }
            (_, View::Frames, _, false) => Self::Frames(FrameList::new(screen, time)),
            (_, View::Frames, _, true) => {
                Self::FrameTrees(FrameList::new(screen, time), Box::new(TreeView::new(screen)))
            }
        }
    }
}

/// Writes what was asked for, as it becomes known.
pub struct Output<W> {
    settings: Settings,
    to: W,
    lines_view: Lines,
    statistics: Statistics,
    lines: u64,
}

impl<W: Write> Output<W> {
    /// An output that has shown nothing.
    pub fn new(settings: Settings, to: W) -> Self {
        Self { lines_view: Lines::of(&settings), settings, to, statistics: Statistics::default(), lines: 0 }
    }

    /// Gives the flow the next frame, and shows it in the view of frames.
    ///
    /// # Errors
    /// What writing gives, as of all functions here.
    pub fn frame(&mut self, frame: &Frame<'_>, flow: &mut Flow) -> io::Result<()> {
        self.statistics.frame(frame);
        self.lines += u64::from(self.settings.view == View::Frames);
        match &mut self.lines_view {
            Lines::None | Lines::Json(_) => {
                flow.frame(frame);
                Ok(())
            }
            Lines::List(list) => {
                list.start(frame.time);
                flow.frame(frame);
                Ok(())
            }
            Lines::Trees(_, kept) => {
                kept.keep(frame);
                flow.frame(frame);
                Ok(())
            }
            Lines::Frames(list) => {
                let (datagram, meaning) = flow.observed_frame(frame, &mut Unobserved);
                list.frame(&mut self.to, frame, &datagram, meaning, flow)
            }
            Lines::FrameTrees(list, tree) => {
                let (datagram, meaning) = flow.observed_frame(frame, &mut Unobserved);
                list.frame(&mut self.to, frame, &datagram, meaning, flow)?;
                tree.frame(&mut self.to, frame, flow)?;
                self.to.write_all(b"\n")
            }
        }
    }

    /// Shows the next Transaction.
    ///
    /// # Errors
    /// What writing gives.
    pub fn transaction(&mut self, transaction: &Transaction) -> io::Result<()> {
        self.lines += u64::from(self.settings.view == View::Transactions);
        let Self { to, lines_view, statistics, .. } = self;
        transaction.read(|reading| {
            let facts = reading.facts();
            statistics.transaction(transaction, &facts);
            match lines_view {
                Lines::None | Lines::Frames(_) | Lines::FrameTrees(..) => Ok(()),
                Lines::List(list) => list.transaction(to, transaction, reading, &facts),
                Lines::Trees(tree, kept) => tree.transaction(to, transaction, reading, &facts, kept),
                Lines::Json(json) => json.transaction(to, transaction, reading, &facts),
            }
        })
    }

    /// Lines of the view up to now, those that were left out included.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Transactions up to now.
    pub fn transactions(&self) -> u64 {
        self.statistics.transactions()
    }

    /// Shows at once what is still in a buffer.
    ///
    /// # Errors
    /// What writing gives.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// The input has ended: shows the summary. `dropped` is how many packets the capturing program says it lost.
    ///
    /// # Errors
    /// What writing gives.
    pub fn finish(&mut self, flow: &Flow, dropped: Option<u64>) -> io::Result<()> {
        let icrc = self.settings.icrc.then(|| flow.icrc());
        let summary = Summary { statistics: &self.statistics, flow, icrc, dropped };
        match self.settings.summary {
            SummaryFormat::None => {}
            SummaryFormat::Json => summary.json(&mut self.to)?,
            SummaryFormat::Text => {
                if self.lines > 0 && !self.settings.quiet {
                    self.to.write_all(b"\n")?;
                }
                summary.text(&mut self.to, self.settings.screen.width.unwrap_or(WIDTH))?;
            }
        }
        self.flush()
    }
}
