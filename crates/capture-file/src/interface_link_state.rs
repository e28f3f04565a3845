//! State of a captured network interface and its link.

use std::fmt;

/// The state of a network interface during a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureInterfaceLinkState {
    /// The interface and its link are up.
    Up,
    /// The interface is up but has no carrier: a cable is unplugged, or the peer of a virtual interface is down.
    NoCarrier,
    /// The interface was taken down.
    Down,
    /// The interface no longer exists.
    Gone,
}

/// Writes the state and its consequence for the capture.
impl fmt::Display for CaptureInterfaceLinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "the interface is up",
            Self::NoCarrier => "the interface has no link; nothing is captured until it has one",
            Self::Down => "the interface is down; nothing is captured until it is up again",
            Self::Gone => "the interface no longer exists; capture again when it is back",
        })
    }
}
