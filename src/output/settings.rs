//! What was asked to be shown, and how.

use clap::ValueEnum;

use super::style::TerminalStyle;
pub use crate::analysis::names::Filehandles;
use crate::memory::Memory;

/// Format of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// Human-readable text
    #[default]
    Text,
    /// JSON Lines: one object per line
    Json,
    /// Values of the fields selected with -e, as in tshark
    Fields,
    /// Comma-separated values (RFC 4180)
    Csv,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Human-readable text
    #[default]
    Text,
    /// JSON Lines: one object per line
    Json,
}

/// Unit of each output line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LineView {
    /// One line per RPC transaction: call, reply and chunks
    #[default]
    Transactions,
    /// One line per frame
    Frames,
    /// One line per operation type: count, rate, latency and errors
    Operations,
    /// One line per connection, printed when it closes: traffic, credits and state; -V adds its setup
    Connections,
}

impl LineView {
    /// Whether a line counts Transactions.
    pub fn counts(self) -> bool {
        matches!(self, Self::Operations | Self::Connections)
    }
}

/// How a time is written, under the letters of tshark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TimeFormat {
    /// Seconds since the first frame
    #[default]
    #[value(name = "r")]
    Relative,
    /// Seconds since the previous line
    #[value(name = "d", alias = "dd")]
    Delta,
    /// Time of day, UTC
    #[value(name = "a", alias = "u")]
    Absolute,
    /// Date and time of day, UTC
    #[value(name = "ad", alias = "ud")]
    AbsoluteDate,
    /// Seconds since 1970-01-01, UTC
    #[value(name = "e")]
    Epoch,
    /// ISO 8601, UTC: 2026-11-21T03:07:19.055820921Z; in JSON as additional keys, such as time_iso
    #[value(name = "iso")]
    Iso,
}

/// The form of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// Human-readable text
    Text,
    /// A JSON object on one line
    Json,
    /// No summary
    None,
}

/// Everything that a view needs to know of what was asked.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// Format of the lines.
    pub format: LineFormat,
    /// What a line is.
    pub view: LineView,
    /// Whether each line is followed by its bytes.
    pub bytes: bool,
    /// Whether each line is followed by its whole tree.
    pub tree: bool,
    /// Whether the lines are left out.
    pub quiet: bool,
    /// How a time is written.
    pub time: TimeFormat,
    /// What follows the lines.
    pub summary: SummaryFormat,
    /// How many lines there are at most.
    pub most: u64,
    /// Whether somebody asks what Transactions are about, though no line says so.
    pub tells_files: bool,
    /// Whether ICRCs are checked.
    pub icrc: bool,
    /// How files are told.
    pub filehandles: Filehandles,
    /// Where text is shown.
    pub screen: TerminalStyle,
    /// The memory of the command.
    pub memory: Memory,
}
