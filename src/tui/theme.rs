//! How the terminal interface looks: colours for dark and light backgrounds or none at all, and characters in UTF-8 or ASCII.

use anstyle::{AnsiColor, Effects};
use clap::ValueEnum;
use ratatui::style::{Color, Modifier, Style};

use crate::output::style::{self as told, Glyphs, Styles, TerminalStyle};

/// Which colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ThemeName {
    /// Colours for a dark background; for a light one where COLORFGBG says so
    #[default]
    Auto,
    /// Colours for a dark background
    Dark,
    /// Colours for a light background
    Light,
    /// No colours: bold, dim and reversed only
    None,
}

/// The styles of everything that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Those that other views of the program have, too.
    pub styles: Styles,
    /// Names of columns, titles.
    pub heading: Style,
    /// The view that is shown, among the names of views.
    pub tab: Style,
    /// The line where the next key acts.
    pub cursor: Style,
    /// A chosen line in a part of the screen where keys do not act.
    pub other_cursor: Style,
    /// Bytes of the field that is chosen.
    pub bytes: Style,
    /// Lines that part the screen, hints.
    pub dim: Style,
    /// What went wrong.
    pub error: Style,
    /// What to notice.
    pub notice: Style,
    /// A key.
    pub key: Style,
    /// Calls in a waterfall, and bars.
    pub call: Style,
    /// Data that comes in.
    pub data_in: Style,
    /// Data that goes out.
    pub data_out: Style,
    /// Replies.
    pub reply: Style,
}

impl Theme {
    /// The theme of this name.
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
        let other = match name {
            ThemeName::None => plain.add_modifier(Modifier::UNDERLINED),
            ThemeName::Light => plain.bg(Color::Indexed(254)).fg(Color::Black),
            ThemeName::Auto | ThemeName::Dark => plain.bg(Color::Indexed(237)).fg(Color::White),
        };
        Self {
            styles: if is_colored { Styles::colored() } else { plain_styles() },
            heading: plain.add_modifier(Modifier::BOLD),
            tab: plain.add_modifier(Modifier::BOLD | Modifier::REVERSED),
            cursor: bar,
            other_cursor: other,
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

    /// The name with `auto` replaced by what the variable COLORFGBG says: `15;0` is white on black.
    pub fn named(name: ThemeName, is_colored: bool, background: Option<&str>) -> ThemeName {
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

    /// The screen that the other views of the program need to know.
    pub fn screen(&self, glyphs: Glyphs) -> TerminalStyle {
        TerminalStyle { width: None, styles: self.styles, glyphs }
    }
}

/// Without colours what matters is bold all the same.
fn plain_styles() -> Styles {
    let bold = told::Style::new().bold();
    let dim = told::Style::new().dimmed();
    Styles { operation: bold, callback: bold, error: bold, layer: bold, ok: dim, dim, ..Styles::plain() }
}

/// A style of the other views.
pub fn of(style: told::Style) -> Style {
    let mut made = Style::new();
    if let Some(anstyle::Color::Ansi(color)) = style.get_fg_color() {
        made = made.fg(match color {
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
            made = made.add_modifier(modifier);
        }
    }
    made
}

/// Characters that only the terminal interface uses.
#[derive(Clone, Copy, Debug)]
pub struct TuiGlyphs {
    /// Those that other views of the program have, too.
    pub glyphs: Glyphs,
    /// A line from left to right.
    pub rule: &'static str,
    /// A line from top to bottom.
    pub wall: &'static str,
    /// A full cell of a bar.
    pub full: &'static str,
    /// Cells filled from below, by eighths or fewer steps.
    pub levels: &'static [&'static str],
    /// A cell of a bar that comes late.
    pub hatched: &'static str,
    /// A moment in a waterfall.
    pub moment: &'static str,
    /// An ACK in a waterfall.
    pub ack: &'static str,
    /// A NAK in a waterfall.
    pub nak: &'static str,
    /// A line that is marked.
    pub mark: &'static str,
    /// A group that is open.
    pub open: &'static str,
    /// A group that is closed.
    pub closed: &'static str,
    /// Sorted with the smallest first, and with the largest.
    pub sorted: (&'static str, &'static str),
    /// What is between two parts of a line.
    pub dot: &'static str,
}

impl TuiGlyphs {
    /// The characters that a terminal has.
    pub fn new(glyphs: Glyphs) -> Self {
        if glyphs.is_unicode {
            Self {
                glyphs,
                rule: "─",
                wall: "│",
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
                dot: "·",
            }
        } else {
            Self {
                glyphs,
                rule: "-",
                wall: "|",
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
                dot: "-",
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_the_background_choose_the_theme() {
        let named = |colored, background| Theme::named(ThemeName::Auto, colored, background);
        assert_eq!(named(false, Some("0;15")), ThemeName::None);
        assert_eq!(named(true, Some("0;15")), ThemeName::Light);
        assert_eq!(named(true, Some("15;default;0")), ThemeName::Dark);
        assert_eq!(named(true, None), ThemeName::Dark);
        assert_eq!(Theme::named(ThemeName::Light, false, None), ThemeName::Light);
    }

    #[test]
    fn the_theme_without_colours_has_none() {
        let theme = Theme::new(ThemeName::None);
        for style in [theme.cursor, theme.other_cursor, theme.bytes, theme.error, theme.call, theme.key] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert_eq!(of(theme.styles.error).fg, None);
    }

    #[test]
    fn ascii_signs_are_ascii() {
        let signs = TuiGlyphs::new(Glyphs::ASCII);
        let one = [
            signs.rule,
            signs.wall,
            signs.full,
            signs.hatched,
            signs.moment,
            signs.ack,
            signs.nak,
            signs.mark,
            signs.open,
            signs.closed,
            signs.dot,
        ];
        assert!(one.iter().chain(signs.levels).all(|sign| sign.is_ascii()));
    }
}
