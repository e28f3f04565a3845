//! Escaping of unsafe characters, which would control a terminal, change the direction of adjacent text, or be
//! invisible.
//!
//! There is one function for each kind of output, all for the same characters ([`is_unsafe`]): [`line()`] for text,
//! [`letter`] for text with its own escapes, [`EscapedJsonFormatter`] for JSON, which parses to the same value.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;

/// Characters of the categories Cf, Zl and Zp of Unicode 16: format characters, among them those of bidirectional text,
/// and the separators of lines and paragraphs.
const FORMAT_CHARACTERS: [(char, char); 21] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{2064}'),
    ('\u{2066}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

/// Returns `true` for a character that must be escaped: C0, DEL and C1, format characters, and separators of lines.
#[inline]
pub fn is_unsafe(letter: char) -> bool {
    match letter {
        ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        _ => {
            let at = FORMAT_CHARACTERS.partition_point(|(_, last)| *last < letter);
            FORMAT_CHARACTERS.get(at).is_some_and(|(first, _)| *first <= letter)
        }
    }
}

/// Writes a character, escaped like `\u{202e}` if it is unsafe.
pub fn write_escaped(letter: char, to: &mut impl fmt::Write) -> fmt::Result {
    if is_unsafe(letter) { write!(to, "{}", letter.escape_default()) } else { to.write_char(letter) }
}

/// Escapes text for one line.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for one in text.chars() {
        // Writing to a String never fails.
        let _ = write_escaped(one, &mut shown);
    }
    shown.into()
}

/// Formats a value and escapes it for one line.
pub fn display_line(what: impl Display) -> String {
    let text = what.to_string();
    match escape_line(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shown) => shown,
    }
}

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
/// a formula and is no number.
pub fn escape_formula(cell: &str) -> Cow<'_, str> {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    if is_formula { format!("'{cell}").into() } else { cell.into() }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    /// Returns all unsafe characters by their category, from the tables of another crate.
    fn all_unsafe() -> Vec<char> {
        let category = Regex::new(r"^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]$").unwrap();
        ('\0'..=char::MAX).filter(|letter| category.is_match(letter.encode_utf8(&mut [0; 4]))).collect()
    }

    #[test]
    fn the_characters_are_those_of_unicode() {
        let ours: Vec<char> = ('\0'..=char::MAX).filter(|letter| is_unsafe(*letter)).collect();
        assert_eq!(ours, all_unsafe());
        assert!(ours.len() > 200, "{}", ours.len());
    }

    #[test]
    fn text_has_none_of_them() {
        for unsafe_letter in all_unsafe() {
            let text = format!("a{unsafe_letter}b");
            let shown = escape_line(&text);
            assert!(!shown.chars().any(is_unsafe), "{shown:?}");
            assert!(shown.starts_with("a\\") && shown.ends_with('b'), "{shown}");
        }
        assert_eq!(escape_line("a\u{202e}b\u{1b}"), "a\\u{202e}b\\u{1b}");
        assert!(matches!(escape_line("grün \u{1f600}"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_has_none_of_them_and_reads_back_as_the_same() {
        let text: String = all_unsafe().into_iter().chain("ö \"\\".chars()).collect();
        let bytes = json(&text).unwrap();
        let written = String::from_utf8(bytes).unwrap();
        assert!(!written.chars().any(is_unsafe));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }

    #[test]
    fn a_cell_is_no_formula() {
        for cell in ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=", "-"] {
            assert_eq!(escape_formula(cell), format!("'{cell}"));
        }
        for cell in ["-5", "-0.000001", "+7", "a=b", "", "name", "1-2"] {
            assert_eq!(escape_formula(cell), cell);
        }
    }
}
