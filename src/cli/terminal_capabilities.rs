//! Capabilities of standard output: colours, characters and width.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;

use crate::output::style::{Glyphs, TerminalOutputStyles, TerminalProfile};

/// Default width of a terminal in columns.
const DEFAULT_WIDTH: usize = 80;

/// Use of colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set, CLICOLOR is 0 or TERM is dumb; elsewhere if CLICOLOR_FORCE or FORCE_COLOR
    /// is set
    #[default]
    Auto,
    /// In pipes and files too
    Always,
    /// No color
    Never,
}

impl ColorChoice {
    pub(super) fn on_standard_output(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => is_colored(io::stdout().is_terminal(), |name| env::var(name).ok()),
        }
    }
}

/// Returns `true` if the environment enables colours: NO_COLOR (no-color.org) takes precedence over CLICOLOR_FORCE and
/// CLICOLOR (bixense.com/clicolors) and FORCE_COLOR (force-color.org). The value `0` disables a variable, except
/// NO_COLOR, whose value is ignored.
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

/// Returns the style of standard output.
pub(super) fn screen(color: ColorChoice) -> TerminalProfile {
    let styles =
        if color.on_standard_output() { TerminalOutputStyles::colored() } else { TerminalOutputStyles::plain() };
    let reported = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let width = io::stdout().is_terminal().then(|| terminal_width(reported, env::var("COLUMNS").ok().as_deref()));
    let glyphs = glyphs(width.is_some(), |name| env::var(name).ok());
    TerminalProfile { width, styles, glyphs }
}

/// Returns the width of a terminal: the reported one, or else the variable COLUMNS. A serial line, or a terminal in a
/// container, may report no width or 0.
fn terminal_width(reported: Option<usize>, variable: Option<&str>) -> usize {
    let of_variable = || variable.and_then(|columns| columns.trim().parse().ok());
    reported.filter(|width| *width > 0).or_else(|| of_variable().filter(|width| *width > 0)).unwrap_or(DEFAULT_WIDTH)
}

/// Returns the characters for output by the variables of setlocale(3). A locale decides if one is set; else, as in a
/// container or a cron job, a terminal gets ASCII, and files and pipes get UTF-8.
fn glyphs(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Glyphs {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    let is_utf8 = locale.map(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    if is_utf8.unwrap_or(!is_terminal) { Glyphs::UNICODE } else { Glyphs::ASCII }
}

/// Restricts text to the characters of the locale, for standard output or standard error.
pub(super) fn restrict_to_locale(text: String, is_error: bool) -> String {
    let is_terminal = if is_error { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    if glyphs(is_terminal, |name| env::var(name).ok()).is_unicode { text } else { to_ascii(&text) }
}

/// Converts text to ASCII: glyphs by their ASCII forms, and other characters by `?`.
fn to_ascii(text: &str) -> String {
    let (from, to) = (Glyphs::UNICODE, Glyphs::ASCII);
    let glyphs = [
        (from.cut, to.cut),
        (from.to, to.to),
        (from.reply_arrow, to.reply_arrow),
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

    /// Returns a lookup in an environment with these variables only.
    fn environment<'e>(set: &'e [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'e {
        |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_environment_forces_colours_and_forbids_them() {
        let colored = |is_terminal, set: &[(&str, &str)]| is_colored(is_terminal, environment(set));
        assert!(colored(true, &[]) && !colored(false, &[]));
        assert!(!colored(true, &[("NO_COLOR", "0")]) && colored(true, &[("NO_COLOR", "")]));
        for name in ["CLICOLOR_FORCE", "FORCE_COLOR"] {
            assert!(colored(false, &[(name, "1")]) && colored(false, &[(name, "3"), ("TERM", "dumb")]), "{name}");
            assert!(!colored(false, &[(name, "0")]) && !colored(false, &[(name, "")]), "{name}");
            assert!(!colored(true, &[(name, "1"), ("NO_COLOR", "1")]), "{name}");
        }
        assert!(!colored(true, &[("CLICOLOR", "0")]) && colored(true, &[("CLICOLOR", "1")]));
        assert!(colored(false, &[("CLICOLOR", "0"), ("CLICOLOR_FORCE", "1")]));
        assert!(!colored(true, &[("FORCE_COLOR", "0")]) && !colored(true, &[("TERM", "dumb")]));
    }

    #[test]
    fn the_locale_determines_the_available_characters() {
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
            to_ascii("\u{2026}/log \u{2192} b, reply\u{d7}2, 5 \u{b5}s, \u{e9}"),
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
