//! Characters that do not reach a reader as they are: they would control a terminal, turn the direction of what stands beside
//! them, or not be seen.
//!
//! There is one function for each kind of output, all with the same characters ([`is_unsafe`]): [`line()`] for text, [`letter`]
//! for text that has escapes of its own, [`EscapedJsonFormatter`] for JSON, which reads back as the same value.

use std::borrow::Cow;
use std::io;

pub use nfsrdma_dissectors::escape::{is_unsafe, letter, line, told};
use serde::Serialize;
use serde_json::ser::Formatter;

/// Writes JSON on one line in which unsafe characters are `\uXXXX`, beyond those for which JSON demands it.
pub struct EscapedJsonFormatter;

impl Formatter for EscapedJsonFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        // Nearly all are printable ASCII.
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return to.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe) {
            let (before, after) = rest.split_at(at);
            to.write_all(before.as_bytes())?;
            let mut after = after.chars();
            if let Some(letter) = after.next() {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(to, "\\u{unit:04x}")?;
                }
            }
            rest = after.as_str();
        }
        to.write_all(rest.as_bytes())
    }
}

/// Writes a value as JSON.
///
/// # Errors
/// What writing gives.
pub fn json_to(to: impl io::Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(to, EscapedJsonFormatter))
}

/// A value as JSON.
///
/// # Errors
/// What serialising gives.
pub fn json(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    json_to(&mut bytes, value)?;
    Ok(bytes)
}

/// A cell of CSV that a spreadsheet does not take for a formula: one that begins as formulas do and is no number has an
/// apostrophe before it.
pub fn formula(cell: &str) -> Cow<'_, str> {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    if is_formula { format!("'{cell}").into() } else { cell.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_none_of_them_and_reads_back_as_the_same() {
        let text: String =
            ('\0'..=char::MAX).filter(|letter| is_unsafe(*letter)).chain("ö \"\\".chars()).collect();
        let bytes = json(&text).unwrap();
        let written = String::from_utf8(bytes).unwrap();
        assert!(!written.chars().any(is_unsafe));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }

    #[test]
    fn a_cell_is_no_formula() {
        for cell in ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=", "-"] {
            assert_eq!(formula(cell), format!("'{cell}"));
        }
        for cell in ["-5", "-0.000001", "+7", "a=b", "", "name", "1-2"] {
            assert_eq!(formula(cell), cell);
        }
    }
}
