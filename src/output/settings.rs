//! Settings of the output: view, format and limits.

use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_analysis::names::FilehandleDisplay;

use super::style::TerminalProfile;

/// Format of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLineFormat {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportFormat {
    /// Human-readable text
    #[default]
    Text,
    /// JSON Lines: one object per line
    Json,
}

/// Unit of each output line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLineUnit {
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

impl OutputLineUnit {
    /// Returns `true` if a line counts Transactions.
    pub fn is_aggregate(self) -> bool {
        matches!(self, Self::Operations | Self::Connections)
    }
}

/// Format of times, under the letters of tshark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Seconds since the first frame
    #[default]
    Relative,
    /// Seconds since the previous line
    Delta,
    /// Time of day, UTC
    Absolute,
    /// Date and time of day, UTC
    AbsoluteDate,
    /// Seconds since 1970-01-01, UTC
    Epoch,
    /// ISO 8601, UTC: 2026-11-21T03:07:19.055820921Z; in JSON as additional keys, such as time_iso
    Iso,
}

/// The form of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryFormat {
    /// Human-readable text
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
    pub format: OutputLineFormat,
    /// Unit that a line shows.
    pub view: OutputLineUnit,
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
    /// `true` to apply the conformance rules.
    pub findings: bool,
    /// Display of filehandles.
    pub filehandles: FilehandleDisplay,
    /// Width, colours and characters of the output device.
    pub screen: TerminalProfile,
    /// Memory limits of the command.
    pub memory: CommandMemoryBudget,
}
