//! Escaping of unsafe characters, which would control a terminal, change the direction of adjacent text, or be
//! invisible.
//!
//! There is one function for each kind of output, all for the same characters ([`is_unsafe`]): [`escape_line`] for
//! text, [`write_escaped`] for text with its own escapes, [`EscapedJsonFormatter`] for JSON, which parses to the same
//! value.

use std::borrow::Cow;
use std::io;

pub use nfsrdma_text::escape::{display_line, escape_line, is_unsafe, write_escaped};
use serde::Serialize;
use serde_json::ser::Formatter;

/// JSON formatter for one line that writes unsafe characters as `\uXXXX`, in addition to the escapes that JSON
/// requires.
pub struct EscapedJsonFormatter;

impl Formatter for EscapedJsonFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        // Fast path: nearly all text is printable ASCII.
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return to.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe) {
            let (before, after) = rest.split_at(at);
            to.write_all(before.as_bytes())?;
            let mut after = after.chars();
            if let Some(character) = after.next() {
                for unit in character.encode_utf16(&mut [0; 2]) {
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
/// Returns an error if writing or serialising fails.
pub fn json_to(to: impl io::Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(to, EscapedJsonFormatter))
}

/// Returns a value as JSON.
///
/// # Errors
/// Returns an error if serialising fails.
pub fn json(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    json_to(&mut bytes, value)?;
    Ok(bytes)
}

/// Protects a CSV cell from evaluation as a formula in a spreadsheet: adds an apostrophe before a cell that begins like
/// a formula and is not a number.
pub fn escape_formula(cell: &str) -> Cow<'_, str> {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    if is_formula { format!("'{cell}").into() } else { cell.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_unsafe_characters_and_is_parsed_back() {
        let text: String = ('\0'..=char::MAX).filter(|letter| is_unsafe(*letter)).chain("ö \"\\".chars()).collect();
        let bytes = json(&text).unwrap();
        let written = String::from_utf8(bytes).unwrap();
        assert!(!written.chars().any(is_unsafe));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }

    #[test]
    fn formulas_in_cells_are_escaped() {
        for cell in ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=", "-"] {
            assert_eq!(escape_formula(cell), format!("'{cell}"));
        }
        for cell in ["-5", "-0.000001", "+7", "a=b", "", "name", "1-2"] {
            assert_eq!(escape_formula(cell), cell);
        }
    }
}
