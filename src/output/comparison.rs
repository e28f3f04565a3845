//! How two captures differ: for people, and as JSON Lines.

mod json;
mod text;

use std::io::{self, Write};

use super::style::TerminalStyle;
use crate::analysis::comparison::Comparison;
use crate::analysis::comparison::capture::ComparedCapture;
use crate::analysis::comparison::difference::{Difference, DifferenceSide};

/// Two captures, and what comparing them gave.
pub struct ComparisonReportView<'a> {
    /// The first.
    pub a: &'a ComparedCapture,
    /// The second.
    pub b: &'a ComparedCapture,
    /// What came out.
    pub comparison: &'a Comparison,
    /// The first differences, as many as are shown.
    pub first: &'a [Difference],
    /// Where it is shown.
    pub screen: TerminalStyle,
}

impl ComparisonReportView<'_> {
    /// Writes it for people: both captures, the first difference with its frames, counts, and the first differences, a
    /// line each.
    ///
    /// # Errors
    /// What writing gives.
    pub fn text(&self, to: &mut impl Write) -> io::Result<()> {
        text::write(self, to)
    }

    /// Writes the line of kind `comparison`, which follows those of the differences.
    ///
    /// # Errors
    /// What writing gives.
    pub fn json(&self, to: &mut impl Write) -> io::Result<()> {
        json::write(self, to)
    }
}

/// Writes the line of kind `difference` of one; `file` says which capture it is of where there are several.
///
/// # Errors
/// What writing gives.
pub fn json_line(to: &mut impl Write, difference: &Difference, file: Option<&str>) -> io::Result<()> {
    json::difference(to, difference, file)
}

/// The operation and the field alone: `GETATTR size` of `GETATTR.obj_attributes.size`.
pub fn short(path: &str) -> String {
    match (path.split('.').next(), path.rsplit('.').next()) {
        (Some(first), Some(last)) if first != last => format!("{first} {last}"),
        _ => path.to_owned(),
    }
}

/// What differs, in words: `READ count: 4096 → 4095`. What one side does not have is `-`.
pub fn words(difference: &Difference, to: &str) -> String {
    let value = |half: &DifferenceSide| half.value.clone().unwrap_or_else(|| "-".to_owned());
    let (a, b) = (value(&difference.a), value(&difference.b));
    let mut text = String::new();
    if !difference.path.is_empty() {
        text.push_str(&short(&difference.path));
        text.push_str(": ");
    }
    text += &format!("{a} {to} {b}");
    if difference.count > 1 {
        text += &format!(", and {} more", difference.count - 1);
    }
    text
}

/// The frame of one side.
pub fn frame_of(half: &DifferenceSide) -> Option<u64> {
    half.frame.map(|frame| frame.0)
}
