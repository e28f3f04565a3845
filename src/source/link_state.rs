//! Whether an interface can bring packets at present.

use std::fmt;

/// The state of a network interface while it is captured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is up, and its link too.
    Up,
    /// It is up, and its link is not: a cable, or the other end of a virtual one.
    NoCarrier,
    /// It was taken down.
    Down,
    /// It does not exist any more.
    Gone,
}

/// What to say of it, and what follows.
impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "the interface is up",
            Self::NoCarrier => "the interface has no link; nothing is captured until it has one",
            Self::Down => "the interface is down; nothing is captured until it is up again",
            Self::Gone => "the interface is gone; capture again when it is there",
        })
    }
}
