//! Characters of captured text that must not reach a reader unchanged: they would control a terminal, change the
//! direction of the text beside them, or be invisible.

use std::borrow::Cow;
use std::fmt::{self, Display};

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

/// Returns `true` for a character that must be escaped: C0, DEL and C1 controls, format characters, and line
/// separators.
#[inline]
pub fn is_unsafe(character: char) -> bool {
    match character {
        ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        _ => {
            let at = FORMAT_CHARACTERS.partition_point(|(_, last)| *last < character);
            FORMAT_CHARACTERS.get(at).is_some_and(|(first, _)| *first <= character)
        }
    }
}

/// Writes a character, escaped as `\u{202e}` if it is unsafe.
///
/// # Errors
/// Returns the errors of `to`.
pub fn write_escaped(character: char, to: &mut impl fmt::Write) -> fmt::Result {
    if is_unsafe(character) { write!(to, "{}", character.escape_default()) } else { to.write_char(character) }
}

/// Returns a text on one line, with unsafe characters escaped.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        // A text takes all that is written.
        let _ = write_escaped(character, &mut escaped);
    }
    escaped.into()
}

/// Returns the `Display` text of a value on one line, with unsafe characters escaped.
pub fn display_line(value: impl Display) -> String {
    let text = value.to_string();
    match escape_line(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    /// All characters whose category says that they are not shown, by the tables of another crate.
    fn all_unsafe() -> Vec<char> {
        let category = Regex::new(r"^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]$").unwrap();
        ('\0'..=char::MAX).filter(|letter| category.is_match(letter.encode_utf8(&mut [0; 4]))).collect()
    }

    #[test]
    fn unsafe_characters_are_those_of_unicode() {
        let ours: Vec<char> = ('\0'..=char::MAX).filter(|letter| is_unsafe(*letter)).collect();
        assert_eq!(ours, all_unsafe());
        assert!(ours.len() > 200, "{}", ours.len());
    }

    #[test]
    fn escaped_lines_have_no_unsafe_characters() {
        for unsafe_letter in all_unsafe() {
            let text = format!("a{unsafe_letter}b");
            let shown = escape_line(&text);
            assert!(!shown.chars().any(is_unsafe), "{shown:?}");
            assert!(shown.starts_with("a\\") && shown.ends_with('b'), "{shown}");
        }
        assert_eq!(escape_line("a\u{202e}b\u{1b}"), "a\\u{202e}b\\u{1b}");
        assert!(matches!(escape_line("grün \u{1f600}"), Cow::Borrowed(_)));
    }
}
