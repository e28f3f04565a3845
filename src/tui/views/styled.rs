//! Lines that other views of the program wrote with escapes for their styles.

use anstyle::{AnsiColor, Style};
use ratatui::text::{Line, Span};

use crate::tui::theme;

/// The line with its styles. What is written by [`Styled`](crate::output::style::Styled) has no other escapes.
pub(super) fn parsed(text: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        if !before.is_empty() {
            spans.push(Span::styled(before.to_owned(), theme::of(style)));
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
        spans.push(Span::styled(rest.to_owned(), theme::of(style)));
    }
    Line::from(spans)
}

/// The text of the line without its styles.
pub(in crate::tui) fn plain(text: &str) -> String {
    parsed(text).spans.iter().map(|span| span.content.as_ref()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::{Styled, Styles};

    #[test]
    fn every_style_comes_back() {
        let styles = Styles::colored();
        for style in [styles.header, styles.time, styles.error, styles.callback, styles.label, styles.dim] {
            let line = parsed(&format!("a{}b", Styled(style, "x")));
            let (texts, seen): (Vec<_>, Vec<_>) =
                line.spans.iter().map(|span| (span.content.clone(), span.style)).unzip();
            assert_eq!(texts, ["a", "x", "b"]);
            assert_eq!(seen, [theme::of(Style::new()), theme::of(style), theme::of(Style::new())]);
        }
    }
}
