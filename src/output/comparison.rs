//! Comparison of two captures, as text and as JSON Lines.

mod json;
mod text;

use std::io::{self, Write};

use super::Report;
use super::style::TerminalProfile;
use nfsrdma_analysis::comparison::CaptureComparator;
use nfsrdma_analysis::comparison::capture_summary::ComparedCaptureSummary;
use nfsrdma_analysis::comparison::difference::{Difference, DifferenceSideValue};

/// Report on the comparison of two captures.
pub struct ComparisonReportWriter<'a> {
    /// First capture.
    pub a: &'a ComparedCaptureSummary,
    /// Second capture.
    pub b: &'a ComparedCaptureSummary,
    /// Result of the comparison.
    pub comparison: &'a CaptureComparator,
    /// First differences, up to the number shown.
    pub first: &'a [Difference],
    /// Memory limit with which no identities would have been forgotten, if some were.
    pub needed_memory: Option<String>,
    /// Output device.
    pub screen: TerminalProfile,
}

impl Report for ComparisonReportWriter<'_> {
    fn text(&self, to: &mut impl Write) -> io::Result<()> {
        text::write(self, to)
    }

    fn json(&self, to: &mut impl Write) -> io::Result<()> {
        json::write(self, to)
    }
}

/// Writes the JSON line of kind `difference`; `file` is the capture, if there are several.
///
/// # Errors
/// Returns an error if writing fails.
pub fn json_line(to: &mut impl Write, difference: &Difference, file: Option<&str>) -> io::Result<()> {
    json::difference(to, difference, file)
}

/// Shortens a path to the operation and the field: `GETATTR size` for `GETATTR.obj_attributes.size`.
pub fn short_path(path: &str) -> String {
    match (path.split('.').next(), path.rsplit('.').next()) {
        (Some(first), Some(last)) if first != last => format!("{first} {last}"),
        _ => path.to_owned(),
    }
}

/// Formats a difference: `READ count: 4096 → 4095`. A value that one side lacks is `-`.
pub fn difference_text(difference: &Difference, to: &str) -> String {
    let value = |side: &DifferenceSideValue| side.value.clone().unwrap_or_else(|| "-".to_owned());
    let (a, b) = (value(&difference.a), value(&difference.b));
    let mut text = String::new();
    if !difference.path.is_empty() {
        text.push_str(&short_path(&difference.path));
        text.push_str(": ");
    }
    text += &format!("{a} {to} {b}");
    if difference.count > 1 {
        text += &format!(", and {} more", difference.count - 1);
    }
    text
}

/// Returns the frame of one side.
pub fn frame_of(side: &DifferenceSideValue) -> Option<u64> {
    side.frame.map(|frame| frame.0)
}
