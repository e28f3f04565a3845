//! Why a trace could not be read, and at which byte of the file.

use std::fmt;
use std::io;

use nfsrdma_dissectors::xdr;

/// Why a trace could not be read.
#[derive(Debug)]
pub enum TraceError {
    /// It is none.
    NoTrace,
    /// It is of a version that this program does not read.
    Version {
        /// Which one.
        version: u32,
    },
    /// It was not written to its end.
    Unfinished,
    /// It ends before its last block, or before the content of a payload does.
    Cut {
        /// Where.
        at: u64,
    },
    /// A block is longer than any is, or has no place there, or its checksum is wrong.
    Damaged {
        /// Where it begins.
        at: u64,
    },
    /// A line of a block could not be read, though the checksum is right.
    Line {
        /// Where.
        at: u64,
        /// Why.
        error: xdr::XdrError,
    },
    /// The file could not be read.
    Io(io::Error),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTrace => f.write_str("this is no trace; make one with `replay compile`"),
            Self::Version { version } => {
                write!(f, "a trace of version {version}, which this program does not read; compile it again")
            }
            Self::Unfinished => f.write_str("the trace was not written to its end; compile it again"),
            Self::Cut { at } => write!(f, "byte {at}: the trace is cut here; compile it again"),
            Self::Damaged { at } => write!(f, "byte {at}: the trace is damaged; compile it again"),
            Self::Line { at, error } => {
                write!(f, "byte {at}: the trace is damaged; compile it again ({error}, within its line)")
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Line { error, .. } => Some(error),
            _ => None,
        }
    }
}
