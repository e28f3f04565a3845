//! What a person or a program sees: views of Transactions and of frames.

pub mod json;
mod settings;
pub mod summary;

use std::io::{self, Write};

use nfsrdma_dissectors::flow::{Flow, Transaction};
use nfsrdma_dissectors::frame::Frame;
use summary::Summary;

use crate::analysis::statistics::Statistics;
use json::JsonLines;
pub use settings::{Format, Settings, SummaryFormat, TimeFormat, View};

/// Columns of a summary where nothing limits it.
const WIDTH: usize = 100;

/// Writes what was asked for, as it becomes known.
pub struct Output<W> {
    settings: Settings,
    to: W,
    json: JsonLines,
    statistics: Statistics,
    lines: u64,
}

impl<W: Write> Output<W> {
    /// An output that has shown nothing.
    pub fn new(settings: Settings, to: W) -> Self {
        Self { settings, to, json: JsonLines::default(), statistics: Statistics::default(), lines: 0 }
    }

    /// Gives the flow the next frame, and shows it in the view of frames.
    ///
    /// # Errors
    /// What writing gives, as of all functions here.
    pub fn frame(&mut self, frame: &Frame<'_>, flow: &mut Flow) -> io::Result<()> {
        self.statistics.frame(frame);
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
        transaction.read(|reading| {
            let facts = reading.facts();
            self.statistics.transaction(transaction, &facts);
            if self.settings.view != View::Transactions {
                return Ok(());
            }
            self.lines += 1;
            match self.settings.format {
                _ if self.settings.quiet => Ok(()),
                Format::Text => writeln!(self.to, "{} {}", transaction.index, transaction.xid),
                Format::Json => self.json.transaction(&mut self.to, transaction, reading, &facts),
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
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// The input has ended, of which the capturing program says it lost so many packets: shows the summary.
    pub fn finish(&mut self, flow: &Flow, dropped: Option<u64>) -> io::Result<()> {
        let icrc = self.settings.icrc.then(|| flow.icrc());
        let summary = Summary { statistics: &self.statistics, flow, icrc, dropped };
        match self.settings.summary {
            SummaryFormat::Text => {
                if self.lines > 0 && !self.settings.quiet {
                    writeln!(self.to)?;
                }
                summary.text(&mut self.to, self.settings.width.unwrap_or(WIDTH))?;
            }
            SummaryFormat::Json => summary.json(&mut self.to)?,
            SummaryFormat::None => {}
        }
        self.flush()
    }
}
