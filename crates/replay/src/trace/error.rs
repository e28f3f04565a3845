//! Errors of reading a trace, with the byte offset in the file.

use std::fmt;
use std::io;

use nfsrdma_dissectors::xdr;

/// The reason that a trace could not be read.
#[derive(Debug)]
pub enum TraceError {
    /// The file is not a trace.
    NoTrace,
    /// The trace has this version, which this program does not read.
    Version(u32),
    /// The trace was not finished.
    Unfinished,
    /// The file ends before its last block, or before the end of the content of a payload: offset of the missing bytes.
    Cut(u64),
    /// A block is too long or misplaced, or a checksum is wrong: offset of the damaged part.
    Damaged(u64),
    /// An entry of a block could not be decoded, though its checksum is right.
    Line {
        /// Offset of the error.
        at: u64,
        /// The decoding error.
        error: xdr::XdrError,
    },
    /// The file could not be read.
    Io(io::Error),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTrace => f.write_str("not a trace; create one with `replay compile`"),
            Self::Version(version) => {
                write!(f, "a trace of version {version}, which this program does not read; compile it again")
            }
            Self::Unfinished => f.write_str("the trace was not written to its end; compile it again"),
            Self::Cut(at) => write!(f, "byte {at}: the trace is truncated here; compile it again"),
            Self::Damaged(at) => write!(f, "byte {at}: the trace is damaged; compile it again"),
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
