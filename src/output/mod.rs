//! What a person or a program sees: views of Transactions and of frames.

pub mod json;
mod settings;

use std::io::{self, Write};

use nfsrdma_dissectors::flow::{Flow, Transaction};
use nfsrdma_dissectors::frame::Frame;

use json::JsonLines;
pub use settings::{Format, Settings, SummaryFormat, TimeFormat, View};

/// Writes what was asked for, as it becomes known.
pub struct Output<W> {
    settings: Settings,
    to: W,
    json: JsonLines,
    frames: u64,
    transactions: u64,
    lines: u64,
}

impl<W: Write> Output<W> {
    /// An output that has shown nothing.
    pub fn new(settings: Settings, to: W) -> Self {
        Self { settings, to, json: JsonLines::default(), frames: 0, transactions: 0, lines: 0 }
    }

    /// Gives the flow the next frame, and shows it in the view of frames.
    ///
    /// # Errors
    /// What writing gives, as of all functions here.
    pub fn frame(&mut self, frame: &Frame<'_>, flow: &mut Flow) -> io::Result<()> {
        self.frames += 1;
        let meaning = flow.frame(frame);
        if self.settings.view == View::Frames {
            self.lines += 1;
            if !self.settings.quiet {
                writeln!(self.to, "{} {} {meaning:?}", frame.number, frame.time)?;
            }
        }
        Ok(())
    }

    /// Shows the next Transaction.
    pub fn transaction(&mut self, transaction: &Transaction) -> io::Result<()> {
        self.transactions += 1;
        if self.settings.view == View::Transactions {
            self.lines += 1;
            if !self.settings.quiet {
                match self.settings.format {
                    Format::Text => writeln!(self.to, "{} {}", transaction.index, transaction.xid)?,
                    Format::Json => transaction.read(|reading| {
                        self.json.transaction(&mut self.to, transaction, reading, &reading.facts())
                    })?,
                }
            }
        }
        Ok(())
    }

    /// Lines of the view up to now, those that were left out included.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Transactions up to now.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Shows at once what is still in a buffer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// The input has ended: shows the summary.
    pub fn finish(&mut self, _flow: &Flow) -> io::Result<()> {
        if self.settings.summary != SummaryFormat::None {
            writeln!(self.to, "{} frames, {} Transactions", self.frames, self.transactions)?;
        }
        self.flush()
    }
}
