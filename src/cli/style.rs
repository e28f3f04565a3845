//! What standard output can show: colours, characters, and how wide lines may be.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;

use crate::output::style::{Glyphs, Styles, TerminalStyle};

/// Columns of a terminal about which nothing is known.
const WIDTH: usize = 80;

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set, CLICOLOR is 0 or TERM is dumb; elsewhere if CLICOLOR_FORCE or FORCE_COLOR is set
    #[default]
    Auto,
    /// In pipes and files too
    Always,
    /// No color
    Never,
}

impl Color {
    pub(super) fn on_standard_output(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => is_colored(io::stdout().is_terminal(), |name| env::var(name).ok()),
        }
    }
}

/// Whether output has colours by the variables of the environment: NO_COLOR (no-color.org) before CLICOLOR_FORCE and CLICOLOR
/// (bixense.com/clicolors) and FORCE_COLOR (force-color.org). `0` takes a variable back, but for NO_COLOR, whose value does not
/// count.
fn is_colored(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_on = |name| variable(name).filter(|value| !value.is_empty()).map(|value| value != "0");
    if is_on("NO_COLOR").is_some() {
        return false;
    }
    if [is_on("CLICOLOR_FORCE"), is_on("FORCE_COLOR")].contains(&Some(true)) {
        return true;
    }
    is_terminal
        && is_on("CLICOLOR") != Some(false)
        && is_on("FORCE_COLOR") != Some(false)
        && variable("TERM").is_none_or(|term| term != "dumb")
}

/// What standard output can show.
pub(super) fn screen(color: Color) -> TerminalStyle {
    let styles = if color.on_standard_output() { Styles::colored() } else { Styles::plain() };
    let told = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let width = io::stdout().is_terminal().then(|| terminal_width(told, env::var("COLUMNS").ok().as_deref()));
    let glyphs = glyphs(width.is_some(), |name| env::var(name).ok());
    TerminalStyle { width, styles, glyphs }
}

/// Columns of a terminal: what it tells, or else the variable COLUMNS. A serial line, or a terminal in a container, may
/// tell nothing or 0.
fn terminal_width(told: Option<usize>, variable: Option<&str>) -> usize {
    let of_variable = || variable.and_then(|columns| columns.trim().parse().ok());
    told.filter(|width| *width > 0).or_else(|| of_variable().filter(|width| *width > 0)).unwrap_or(WIDTH)
}

/// The characters that output may have, by the variables that setlocale(3) looks at. Where a locale is named, it decides; where none
/// is, as in a container or a cron job, a terminal gets ASCII, and files and pipes get UTF-8.
fn glyphs(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Glyphs {
    let named =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    let is_utf8 = named.map(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    if is_utf8.unwrap_or(!is_terminal) { Glyphs::UNICODE } else { Glyphs::ASCII }
}

/// Text with the characters that the locale has, on standard output or standard error.
pub(super) fn in_locale(text: String, is_error: bool) -> String {
    let is_terminal = if is_error { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    if glyphs(is_terminal, |name| env::var(name).ok()).is_unicode { text } else { ascii(&text) }
}

/// Text in ASCII alone: glyphs as views write them, and `?` for other characters.
fn ascii(text: &str) -> String {
    let (from, to) = (Glyphs::UNICODE, Glyphs::ASCII);
    let glyphs = [
        (from.cut, to.cut),
        (from.to, to.to),
        (from.back, to.back),
        (from.times, to.times),
        (from.micro, to.micro),
        (from.infinity, to.infinity),
    ];
    let text = glyphs.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.chars().map(|character| if character.is_ascii() { character } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variable of an environment that has these alone.
    fn environment<'e>(set: &'e [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'e {
        |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_environment_forces_colours_and_forbids_them() {
        let colored = |is_terminal, set: &[(&str, &str)]| is_colored(is_terminal, environment(set));
        assert!(colored(true, &[]) && !colored(false, &[]));
        assert!(!colored(true, &[("NO_COLOR", "0")]) && colored(true, &[("NO_COLOR", "")]));
        for name in ["CLICOLOR_FORCE", "FORCE_COLOR"] {
            assert!(
                colored(false, &[(name, "1")]) && colored(false, &[(name, "3"), ("TERM", "dumb")]),
                "{name}"
            );
            assert!(!colored(false, &[(name, "0")]) && !colored(false, &[(name, "")]), "{name}");
            assert!(!colored(true, &[(name, "1"), ("NO_COLOR", "1")]), "{name}");
        }
        assert!(!colored(true, &[("CLICOLOR", "0")]) && colored(true, &[("CLICOLOR", "1")]));
        assert!(colored(false, &[("CLICOLOR", "0"), ("CLICOLOR_FORCE", "1")]));
        assert!(!colored(true, &[("FORCE_COLOR", "0")]) && !colored(true, &[("TERM", "dumb")]));
    }

    #[test]
    fn the_locale_decides_which_characters_there_are() {
        let unicode = |is_terminal, set: &[(&str, &str)]| glyphs(is_terminal, environment(set)).is_unicode;
        for is_terminal in [true, false] {
            assert!(!unicode(is_terminal, &[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
            assert!(!unicode(is_terminal, &[("LANG", "POSIX")]));
            assert!(unicode(is_terminal, &[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        }
        assert!(unicode(false, &[]) && !unicode(true, &[]));
    }

    #[test]
    fn ascii_has_the_glyphs_of_the_views() {
        assert_eq!(
            ascii("\u{2026}/log \u{2192} b, reply\u{d7}2, 5 \u{b5}s, \u{e9}"),
            "~/log -> b, replyx2, 5 us, ?"
        );
    }

    #[test]
    fn a_terminal_without_a_size_has_that_of_the_variable_or_80_columns() {
        assert_eq!(terminal_width(Some(132), Some("100")), 132);
        assert_eq!(terminal_width(Some(0), Some("100")), 100);
        assert_eq!(terminal_width(None, Some("100")), 100);
        for variable in [None, Some("0"), Some(""), Some("wide")] {
            assert_eq!(terminal_width(None, variable), 80);
        }
    }
}
