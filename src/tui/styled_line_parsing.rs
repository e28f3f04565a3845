//! Lines with escape sequences for styles, written by other views of the program.

use anstyle::{AnsiColor, Style};
use ratatui::text::{Line, Span};

use crate::output::style::{Glyphs, fit_words};
use crate::tui::theme;

/// Parses a styled line. [`StyledText`](crate::output::style::StyledText) writes no other escape sequences.
pub(super) fn parsed(text: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        if !before.is_empty() {
            spans.push(Span::styled(before.to_owned(), theme::from_anstyle(style)));
        }
        let (codes, after) = after.split_once('m').unwrap_or((after, ""));
        for code in codes.split(';') {
            style = match code {
                "1" => style.bold(),
                "2" => style.dimmed(),
                "31" => style.fg_color(Some(AnsiColor::Red.into())),
                "32" => style.fg_color(Some(AnsiColor::Green.into())),
                "35" => style.fg_color(Some(AnsiColor::Magenta.into())),
                "36" => style.fg_color(Some(AnsiColor::Cyan.into())),
                _ => Style::new(),
            };
        }
        rest = after;
    }
    if !rest.is_empty() {
        spans.push(Span::styled(rest.to_owned(), theme::from_anstyle(style)));
    }
    Line::from(spans)
}

/// Truncates a line to `width` columns. A truncated line ends with a sign, and no number in it is cut.
pub(super) fn fitted(line: Line<'static>, width: usize, glyphs: &Glyphs) -> Line<'static> {
    let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
    let cut = fit_words(&text, width, glyphs);
    if cut == text {
        return line;
    }
    let mut kept_length = cut.strip_suffix(glyphs.cut).unwrap_or(&cut).len();
    let mut spans = Vec::new();
    for span in line.spans {
        let part = span.content.get(..kept_length.min(span.content.len())).unwrap_or_default().to_owned();
        kept_length -= part.len();
        let is_last = part.len() < span.content.len() || kept_length == 0;
        spans.push(Span::styled(part, span.style));
        if is_last {
            break;
        }
    }
    spans.push(Span::raw(glyphs.cut));
    Line::from(spans)
}

/// Returns the text of a line without its styles.
pub(in crate::tui) fn plain(text: &str) -> String {
    parsed(text).spans.iter().map(|span| span.content.as_ref()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::{StyledText, TerminalOutputStyles};

    #[test]
    fn a_line_is_cut_between_its_words_across_styles() {
        let line =
            parsed(&format!("at {} of {}", StyledText(TerminalOutputStyles::colored().xid, "0x838df27d"), "1978"));
        let truncated = |width| {
            let line = fitted(line.clone(), width, &Glyphs::UNICODE);
            line.spans.iter().map(|span| span.content.clone()).collect::<String>()
        };
        assert_eq!(truncated(21), "at 0x838df27d of 1978");
        assert_eq!(truncated(20), "at 0x838df27d of …");
        assert_eq!(truncated(12), "at …");
        let line = fitted(line.clone(), 15, &Glyphs::UNICODE);
        assert_eq!(line.spans[1].style, theme::from_anstyle(TerminalOutputStyles::colored().xid));
    }

    #[test]
    fn every_style_is_parsed_back() {
        let styles = TerminalOutputStyles::colored();
        for style in [styles.header, styles.time, styles.error, styles.callback, styles.label, styles.dim] {
            let line = parsed(&format!("a{}b", StyledText(style, "x")));
            let (texts, seen): (Vec<_>, Vec<_>) =
                line.spans.iter().map(|span| (span.content.clone(), span.style)).unzip();
            assert_eq!(texts, ["a", "x", "b"]);
            assert_eq!(
                seen,
                [theme::from_anstyle(Style::new()), theme::from_anstyle(style), theme::from_anstyle(Style::new())]
            );
        }
    }
}
