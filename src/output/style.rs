//! Terminal style of a view: colours, characters and width.
//!
//! Colours are the 16 of ANSI, of which every terminal has a version that suits its background, and bold and dim.
//! White, black, yellow and blue are not used, because each of them is invisible on some background.

use std::borrow::Cow;
use std::fmt;

use anstyle::AnsiColor;
pub use anstyle::Style;

/// Styles of the elements of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalOutputStyles {
    /// Line of column names.
    pub header: Style,
    /// Time.
    pub time: Style,
    /// Transaction id.
    pub xid: Style,
    /// Name of an operation.
    pub operation: Style,
    /// Name of a callback operation.
    pub callback: Style,
    /// Data moved by a chunk.
    pub chunk: Style,
    /// Status of success.
    pub ok: Style,
    /// Status of an error.
    pub error: Style,
    /// Mark of a message that is not in the capture or was retransmitted.
    pub mark: Style,
    /// Name of a protocol layer.
    pub layer: Style,
    /// Name of a field.
    pub label: Style,
    /// Least important text: byte positions, punctuation.
    pub dim: Style,
}

impl TerminalOutputStyles {
    /// Returns styles without colours.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Returns colours that are legible on dark and light backgrounds.
    pub fn colored() -> Self {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        Self {
            header: Style::new().bold().dimmed(),
            time: color(AnsiColor::Green),
            xid: color(AnsiColor::Cyan),
            operation: Style::new().bold(),
            callback: color(AnsiColor::Magenta).bold(),
            chunk: Style::new(),
            ok: Style::new().dimmed(),
            error: color(AnsiColor::Red).bold(),
            mark: color(AnsiColor::Magenta),
            layer: Style::new().bold(),
            label: color(AnsiColor::Cyan),
            dim: Style::new().dimmed(),
        }
    }
}

/// Characters beyond ASCII that a view uses, or their ASCII replacements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glyphs {
    /// Mark of truncated text.
    pub cut: &'static str,
    /// Arrow of the forward direction.
    pub to: &'static str,
    /// Arrow of the reverse direction.
    pub reply_arrow: &'static str,
    /// Multiplication sign before a count.
    pub times: &'static str,
    /// Unit of microseconds.
    pub micro: &'static str,
    /// End of a range that reaches the end of a file.
    pub infinity: &'static str,
    /// `true` if names may show characters beyond ASCII.
    pub is_unicode: bool,
}

impl Glyphs {
    /// Characters for terminals and files in UTF-8.
    pub const UNICODE: Self =
        Self {
            cut: "…", to: "→", reply_arrow: "←", times: "×", micro: "µs", infinity: "∞", is_unicode: true
        };
    /// Characters for every other locale.
    pub const ASCII: Self =
        Self { cut: "~", to: "->", reply_arrow: "<-", times: "x", micro: "us", infinity: "end", is_unicode: false };
}

/// Width, colours and characters of the output device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalProfile {
    /// Columns of the terminal; `None` if lines have no limit, as in a pipe.
    pub width: Option<usize>,
    /// Styles of the elements.
    pub styles: TerminalOutputStyles,
    /// Characters beyond ASCII.
    pub glyphs: Glyphs,
}

impl TerminalProfile {
    /// Returns the style of a pipe or a file: no truncation, no colours.
    pub fn pipe() -> Self {
        Self { width: None, styles: TerminalOutputStyles::plain(), glyphs: Glyphs::UNICODE }
    }

    /// Returns the style of a terminal of `width` columns, without colours.
    pub fn terminal(width: usize) -> Self {
        Self { width: Some(width), ..Self::pipe() }
    }
}

/// Text in a style.
#[derive(Clone, Copy, Debug)]
pub struct StyledText<T>(pub Style, pub T);

impl<T: fmt::Display> fmt::Display for StyledText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Style::new() {
            return self.1.fmt(f);
        }
        write!(f, "{}", self.0.render())?;
        self.1.fmt(f)?;
        write!(f, "{}", self.0.render_reset())
    }
}

/// Returns the width of text on a terminal, in columns.
pub fn columns(text: &str) -> usize {
    // Fast path: nearly all text is printable ASCII.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.len();
    }
    unicode_width::UnicodeWidthStr::width(text)
}

/// Returns the text truncated to `width` columns, with a mark if it is longer.
pub fn fit<'a>(text: &'a str, width: usize, glyphs: &Glyphs) -> Cow<'a, str> {
    // No text has more columns than bytes.
    if text.len() <= width || columns(text) <= width {
        return text.into();
    }
    let text_width = width.saturating_sub(columns(glyphs.cut));
    let mut used = 0;
    let end = text.char_indices().find_map(|(at, character)| {
        used += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        (used > text_width).then_some(at)
    });
    let mut cut = text.get(..end.unwrap_or(text.len())).unwrap_or_default().to_owned();
    if columns(glyphs.cut) <= width {
        cut.push_str(glyphs.cut);
    }
    cut.into()
}

/// Truncates as [`fit`] does, but never within a number, which would read as another number: a truncated word with
/// digits is removed as a whole, unless it is a path.
pub fn fit_words<'a>(text: &'a str, width: usize, glyphs: &Glyphs) -> Cow<'a, str> {
    let mut cut = fit(text, width, glyphs).into_owned();
    if cut.len() == text.len() && cut == text {
        return text.into();
    }
    let cut_at = cut.strip_suffix(glyphs.cut).unwrap_or(&cut).len();
    let start = text.get(..cut_at).and_then(|before| before.rfind(' ')).map_or(0, |blank| blank + 1);
    let end = text.get(cut_at..).and_then(|after| after.find(' ')).map_or(text.len(), |blank| cut_at + blank);
    let has_digits = |word: &str| {
        let is_path = word.contains('/') && word.chars().any(char::is_alphabetic);
        !is_path && word.bytes().any(|byte| byte.is_ascii_digit())
    };
    // A line of one word shows its beginning all the same.
    if start > 0 && end > cut_at && cut_at > start && text.get(start..end).is_some_and(has_digits) {
        cut.replace_range(start..cut_at, "");
    }
    cut.into()
}

/// Wraps text into lines of at most `width` columns; longer words are not broken.
pub(super) fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_style_adds_nothing() {
        assert_eq!(StyledText(TerminalOutputStyles::plain().error, "EIO").to_string(), "EIO");
        assert_eq!(
            StyledText(TerminalOutputStyles::colored().error, "EIO").to_string(),
            "\u{1b}[1m\u{1b}[31mEIO\u{1b}[0m"
        );
    }

    #[test]
    fn text_is_cut_by_columns_and_never_within_a_character() {
        let fit = |text, width| fit(text, width, &Glyphs::UNICODE).into_owned();
        assert_eq!(fit("READ 0+4096", 11), "READ 0+4096");
        assert_eq!(fit("READ 0+4096", 10), "READ 0+40…");
        assert_eq!(fit("größe", 5), "größe");
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn no_number_is_cut_in_the_middle() {
        let fit = |text, width| fit_words(text, width, &Glyphs::UNICODE).into_owned();
        assert_eq!(fit("READ 0+4096 len 2000", 20), "READ 0+4096 len 2000");
        assert_eq!(fit("READ 0+4096 len 2000", 19), "READ 0+4096 len …");
        assert_eq!(fit("READ 0+4096 len 2000", 15), "READ 0+4096 le…");
        assert_eq!(fit("READ 0+4096 len 2000", 11), "READ …");
        assert_eq!(fit("READ 0+4096 len 2000", 12), "READ 0+4096…");
        assert_eq!(fit("LOOKUP name", 9), "LOOKUP n…");
        assert_eq!(fit("CLOSE /data/s100", 14), "CLOSE /data/s…");
        assert_eq!(fit("W 2000/4096", 8), "W …");
        assert_eq!(fit("0x838df27d", 6), "0x838…");
    }

    #[test]
    fn ascii_cuts_with_ascii() {
        assert_eq!(super::fit("READ 0+4096", 6, &Glyphs::ASCII), "READ ~");
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrap_words("10 frames, 2 transactions.", 12), ["10 frames, 2", "transactions."]);
    }
}
