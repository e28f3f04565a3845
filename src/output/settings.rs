//! Settings of the output: view, format and limits.

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

/// Unit that a line shows.
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
    /// Returns `true` if a line counts Transactions.
    pub fn is_aggregate(self) -> bool {
        matches!(self, Self::Operations | Self::Connections)
    }
}

/// Format of times, under the letters of tshark.
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

/// Settings of a view.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// Format of the lines.
    pub format: LineFormat,
    /// Unit that a line shows.
    pub view: LineView,
    /// `true` if a hex dump follows each line.
    pub bytes: bool,
    /// `true` if the full tree follows each line.
    pub tree: bool,
    /// `true` to omit the lines.
    pub quiet: bool,
    /// Format of times.
    pub time: TimeFormat,
    /// Format of the summary after the lines.
    pub summary: SummaryFormat,
    /// Maximum number of lines.
    pub max_lines: u64,
    /// `true` if file names of Transactions are needed although no line shows them.
    pub needs_file_names: bool,
    /// `true` to check ICRCs.
    pub icrc: bool,
    /// Display of filehandles.
    pub filehandles: Filehandles,
    /// Width, colours and characters of the output device.
    pub screen: TerminalStyle,
    /// Memory limits of the command.
    pub memory: Memory,
}
