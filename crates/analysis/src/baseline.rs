//! Baselines: a text description of a capture that people can read and a program can compare with.
//!
//! A baseline lists counts of the capture and of its operations, and each Transaction with every field that must be
//! equal. It uses the same records as the comparison of two captures, so checking against a baseline is comparing two
//! captures, one of them stored as text.
//!
//! - [`baseline_recorder`](CurrentCaptureBaseline): the baseline of a capture; [`spooled_text`]: its text, while
//!   the capture is read;
//! - [`writer`] and [`reader`](OpenBaselineFile): the text format; [`line_reader`]: the lines of a file;
//!   [`baseline_read_error`]: faults of a line;
//! - [`record_parser`], [`value_parser`]: one Transaction and one value of the text;
//! - [`canonical_records`]: canonical form of records; [`field_path_filter_names`], [`message_header_texts`],
//!   [`settings`], [`capture_counts`]: parts of the text;
//! - [`baseline_comparison`]: comparison of a capture with a baseline.
//!
//! Neither side is in memory as a whole ([`memory_cost`]): the file is read a Transaction at a time, and so is the text
//! of the capture.

mod baseline_comparison;
mod baseline_read_error;
mod baseline_recorder;
mod canonical_records;
mod capture_counts;
mod field_path_filter_names;
mod line_reader;
mod memory_cost;
mod message_header_texts;
mod reader;
mod record_parser;
mod settings;
mod spooled_text;
#[cfg(test)]
mod tests;
mod value_parser;
mod writer;

pub use baseline_comparison::BaselineComparator;
pub use baseline_read_error::BaselineReadError;
pub use baseline_recorder::{BaselineRecorder, BaselineRecordingError, CurrentCaptureBaseline};
pub use capture_counts::{BaselineCounts, OperationCounts};
pub use field_path_filter_names::BaselineFieldNamesByPath;
pub use reader::{Baseline, OpenBaselineFile};
pub use settings::BaselineSettings;
pub use writer::VERSION;
