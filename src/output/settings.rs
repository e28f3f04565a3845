//! What was asked to be shown, and how.

use clap::ValueEnum;

use super::style::TerminalStyle;
pub use crate::analysis::names::Filehandles;
use crate::memory::Memory;

/// The form of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// For people
    #[default]
    Text,
    /// JSON Lines: an object a line
    Json,
    /// The values of the fields that -e names, as tshark writes them
    Fields,
    /// The same as comma-separated values (RFC 4180)
    Csv,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    #[default]
    Text,
    /// JSON Lines: an object a line
    Json,
}

/// What a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LineView {
    /// One RPC with its Call, its Reply and the chunks between them
    #[default]
    Transactions,
    /// One frame of the capture
    Frames,
    /// One operation, with how many there were, how fast, how long they took and how many failed
    Operations,
    /// One connection as it closes, with what went over it, its credits and its state; -V tells its set-up
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
    /// Seconds since the line before
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
    /// ISO 8601, UTC: 2026-11-21T03:07:19.055820921Z; in JSON as keys beside the times, such as time_iso
    #[value(name = "iso")]
    Iso,
}

/// The form of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// For people
    Text,
    /// A JSON object on one line
    Json,
    /// No summary
    None,
}

/// Everything that a view needs to know of what was asked.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// The form of the lines.
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
