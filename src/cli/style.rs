//! Whether text is coloured, and how wide it may be.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;

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

/// Columns of the terminal that standard output is, or `None` where it is none.
pub(super) fn width_of_standard_output() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    (width.0 > 0).then_some(width.0.into())
}
