//! What standard output can show: colours, characters, and how wide lines may be.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;

use crate::output::style::{Glyphs, Screen, Styles};

/// Columns of a terminal about which nothing is known.
const WIDTH: usize = 80;

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// Also in a pipe or a file
    Always,
    /// Nowhere
    Never,
}

impl Color {
    pub(super) fn on_standard_output(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
                io::stdout().is_terminal()
                    && !is_set("NO_COLOR")
                    && env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// What standard output can show.
pub(super) fn screen(color: Color) -> Screen {
    let styles = if color.on_standard_output() { Styles::colored() } else { Styles::plain() };
    let told = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let width = io::stdout().is_terminal().then(|| terminal_width(told, env::var("COLUMNS").ok().as_deref()));
    // What goes into a file or a pipe is the same in every locale.
    let glyphs = if width.is_some() && !locale_is_utf8() { Glyphs::ASCII } else { Glyphs::UNICODE };
    Screen { width, styles, glyphs }
}

/// Columns of a terminal: what it tells, or else the variable COLUMNS. A serial line, or a terminal in a container, may
/// tell nothing or 0.
fn terminal_width(told: Option<usize>, variable: Option<&str>) -> usize {
    let of_variable = || variable.and_then(|columns| columns.trim().parse().ok());
    told.filter(|width| *width > 0).or_else(|| of_variable().filter(|width| *width > 0)).unwrap_or(WIDTH)
}

/// Whether the locale's characters are UTF-8, by the variables that setlocale(3) looks at.
fn locale_is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(env::var_os)
        .find(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().to_ascii_lowercase());
    locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
