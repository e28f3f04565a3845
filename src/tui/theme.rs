//! Appearance of the terminal interface: colours for dark and light backgrounds or none, UTF-8 or ASCII characters.

use anstyle::{AnsiColor, Effects};
use ratatui::style::{Color, Modifier, Style};

use crate::output::style::{self as output_style, Glyphs, TerminalOutputStyles, TerminalProfile};

/// Which colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// Choose by COLORFGBG; dark by default
    #[default]
    Auto,
    /// Colors for a dark background
    Dark,
    /// Colors for a light background
    Light,
    /// Bold, dim and reversed text only
    None,
}

/// The styles of all elements.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Styles shared with other views of the program.
    pub styles: TerminalOutputStyles,
    /// Column names and titles.
    pub heading: Style,
    /// Tab of the current view.
    pub tab: Style,
    /// Selected line in the focused part of the screen.
    pub cursor: Style,
    /// Selected line in the other parts of the screen.
    pub other_cursor: Style,
    /// Bytes of the selected field.
    pub bytes: Style,
    /// Separators and hints.
    pub dim: Style,
    /// Errors.
    pub error: Style,
    /// Notices.
    pub notice: Style,
    /// Keys.
    pub key: Style,
    /// Calls in a waterfall, and bars.
    pub call: Style,
    /// Incoming data.
    pub data_in: Style,
    /// Outgoing data.
    pub data_out: Style,
    /// Replies.
    pub reply: Style,
}

impl Theme {
    /// Returns the theme with this name.
    pub fn new(name: ThemeName) -> Self {
        let plain = Style::new();
        let color = |dark: Color, light: Color| match name {
            ThemeName::None => plain,
            ThemeName::Light => plain.fg(light),
            ThemeName::Auto | ThemeName::Dark => plain.fg(dark),
        };
        let is_colored = name != ThemeName::None;
        let bar = match name {
            ThemeName::None => plain.add_modifier(Modifier::REVERSED),
            ThemeName::Light => plain.bg(Color::Indexed(153)).fg(Color::Black),
            ThemeName::Auto | ThemeName::Dark => plain.bg(Color::Indexed(24)).fg(Color::White),
        };
        let other_cursor = match name {
            ThemeName::None => plain.add_modifier(Modifier::UNDERLINED),
            ThemeName::Light => plain.bg(Color::Indexed(254)).fg(Color::Black),
            ThemeName::Auto | ThemeName::Dark => plain.bg(Color::Indexed(237)).fg(Color::White),
        };
        Self {
            styles: if is_colored { TerminalOutputStyles::colored() } else { plain_styles() },
            heading: plain.add_modifier(Modifier::BOLD),
            tab: plain.add_modifier(Modifier::BOLD | Modifier::REVERSED),
            cursor: bar,
            other_cursor,
            bytes: match name {
                ThemeName::None => plain.add_modifier(Modifier::REVERSED),
                ThemeName::Light => plain.bg(Color::Indexed(223)).fg(Color::Black),
                ThemeName::Auto | ThemeName::Dark => plain.bg(Color::Indexed(94)).fg(Color::White),
            },
            dim: plain.add_modifier(Modifier::DIM),
            error: color(Color::LightRed, Color::Red).add_modifier(Modifier::BOLD),
            notice: color(Color::LightMagenta, Color::Magenta),
            key: color(Color::LightCyan, Color::Cyan).add_modifier(Modifier::BOLD),
            call: color(Color::LightGreen, Color::Green),
            data_in: color(Color::LightCyan, Color::Cyan),
            data_out: color(Color::LightMagenta, Color::Magenta),
            reply: color(Color::LightGreen, Color::Green),
        }
    }

    /// Resolves `auto`: `none` without colours, else by the value of COLORFGBG, where `15;0` is white on black.
    pub fn resolve(name: ThemeName, is_colored: bool, background: Option<&str>) -> ThemeName {
        let is_light = || {
            let number = background.and_then(|text| text.rsplit(';').next()?.parse::<u8>().ok());
            number.is_some_and(|number| matches!(number, 7 | 9..=15))
        };
        match name {
            ThemeName::Auto if !is_colored => ThemeName::None,
            ThemeName::Auto if is_light() => ThemeName::Light,
            ThemeName::Auto => ThemeName::Dark,
            name => name,
        }
    }

    /// Returns the terminal style for the other views of the program.
    pub fn terminal_style(&self, glyphs: Glyphs) -> TerminalProfile {
        TerminalProfile { width: None, styles: self.styles, glyphs }
    }
}

/// Returns styles without colours, in which important elements are still bold.
fn plain_styles() -> TerminalOutputStyles {
    let bold = output_style::Style::new().bold();
    let dim = output_style::Style::new().dimmed();
    TerminalOutputStyles {
        operation: bold,
        callback: bold,
        error: bold,
        layer: bold,
        ok: dim,
        dim,
        ..TerminalOutputStyles::plain()
    }
}

/// Converts a style of the other views.
pub fn from_anstyle(style: output_style::Style) -> Style {
    let mut result = Style::new();
    if let Some(anstyle::Color::Ansi(color)) = style.get_fg_color() {
        result = result.fg(match color {
            AnsiColor::Red => Color::Red,
            AnsiColor::Green => Color::Green,
            AnsiColor::Magenta => Color::Magenta,
            AnsiColor::Cyan => Color::Cyan,
            _ => Color::Reset,
        });
    }
    let effects = style.get_effects();
    for (effect, modifier) in [(Effects::BOLD, Modifier::BOLD), (Effects::DIMMED, Modifier::DIM)] {
        if effects.contains(effect) {
            result = result.add_modifier(modifier);
        }
    }
    result
}

/// The characters used only by the terminal interface.
#[derive(Clone, Copy, Debug)]
pub struct TuiGlyphs {
    /// Characters shared with other views of the program.
    pub glyphs: Glyphs,
    /// Horizontal line.
    pub rule: &'static str,
    /// Vertical line.
    pub vertical_line: &'static str,
    /// Full cell of a bar.
    pub full: &'static str,
    /// Cells filled from below, in eighths or larger steps.
    pub levels: &'static [&'static str],
    /// Cell of a late bar.
    pub hatched: &'static str,
    /// Point in time in a waterfall.
    pub moment: &'static str,
    /// ACK in a waterfall.
    pub ack: &'static str,
    /// NAK in a waterfall.
    pub nak: &'static str,
    /// Marked line.
    pub mark: &'static str,
    /// Open group.
    pub open: &'static str,
    /// Closed group.
    pub closed: &'static str,
    /// Ascending and descending sort order.
    pub sorted: (&'static str, &'static str),
    /// Separator between two parts of a line.
    pub separator: &'static str,
}

impl TuiGlyphs {
    /// Returns the characters for a terminal's character set.
    pub fn new(glyphs: Glyphs) -> Self {
        if glyphs.is_unicode {
            Self {
                glyphs,
                rule: "─",
                vertical_line: "│",
                full: "█",
                hatched: "▒",
                levels: &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
                moment: "▏",
                ack: "◂",
                nak: "✗",
                mark: "●",
                open: "▾",
                closed: "▸",
                sorted: ("▲", "▼"),
                separator: "·",
            }
        } else {
            Self {
                glyphs,
                rule: "-",
                vertical_line: "|",
                full: "#",
                hatched: "/",
                levels: &[".", ":", "|", "#"],
                moment: "|",
                ack: "<",
                nak: "X",
                mark: "*",
                open: "-",
                closed: "+",
                sorted: ("^", "v"),
                separator: "-",
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_the_background_choose_the_theme() {
        let named = |colored, background| Theme::resolve(ThemeName::Auto, colored, background);
        assert_eq!(named(false, Some("0;15")), ThemeName::None);
        assert_eq!(named(true, Some("0;15")), ThemeName::Light);
        assert_eq!(named(true, Some("15;default;0")), ThemeName::Dark);
        assert_eq!(named(true, None), ThemeName::Dark);
        assert_eq!(Theme::resolve(ThemeName::Light, false, None), ThemeName::Light);
    }

    #[test]
    fn the_theme_without_colours_has_none() {
        let theme = Theme::new(ThemeName::None);
        for style in [theme.cursor, theme.other_cursor, theme.bytes, theme.error, theme.call, theme.key] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert_eq!(from_anstyle(theme.styles.error).fg, None);
    }

    #[test]
    fn ascii_signs_are_ascii() {
        let signs = TuiGlyphs::new(Glyphs::ASCII);
        let one = [
            signs.rule,
            signs.vertical_line,
            signs.full,
            signs.hatched,
            signs.moment,
            signs.ack,
            signs.nak,
            signs.mark,
            signs.open,
            signs.closed,
            signs.separator,
        ];
        assert!(one.iter().chain(signs.levels).all(|sign| sign.is_ascii()));
    }
}
