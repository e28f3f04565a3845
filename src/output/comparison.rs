//! Comparison of two captures, as text and as JSON Lines.

pub mod difference_text;
mod json;
mod text;
pub mod unformatted_comparison_report;

use std::io::{self, Write};

use nfsrdma_analysis::comparison::difference::Difference;

use super::report::Report;
use unformatted_comparison_report::ComparisonReportWriter;

impl Report for ComparisonReportWriter<'_> {
    fn text(&self, to: &mut impl Write) -> io::Result<()> {
        text::write(self, to)
    }

    fn json(&self, to: &mut impl Write) -> io::Result<()> {
        json::write(self, to)
    }
}

/// Writes the JSON line of kind `difference`; `file` is the capture, if there are several, and `object` the file or
/// directory that the difference is about, if known.
///
/// # Errors
/// Returns an error if writing fails.
pub fn json_line(
    to: &mut impl Write,
    difference: &Difference,
    file: Option<&str>,
    object: Option<&str>,
) -> io::Result<()> {
    json::difference(to, difference, file, object)
}
