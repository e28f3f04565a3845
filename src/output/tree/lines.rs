//! The lines of a tree before somebody writes them: a stream of text gets them as text, and the terminal interface shows
//! them beside the bytes that they were read from.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use nfsrdma_dissectors::field::Field;
use nfsrdma_dissectors::flow::transaction::RpcMessageKind;
use nfsrdma_dissectors::frame::FrameNumber;

use crate::output::style::{Style, StyledText, Styles};

/// What the positions of a line count in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteRangeOrigin {
    /// The line is about no bytes.
    #[default]
    Nothing,
    /// A frame.
    Frame(FrameNumber),
    /// A message as it went inline, from its RPC-over-RDMA header on.
    Message(RpcMessageKind),
    /// The chunk that holds the whole RPC message.
    Chunk(RpcMessageKind),
}

/// A line.
#[derive(Clone, Debug, Default)]
pub struct TreeLine {
    /// How many steps to the right it stands.
    pub depth: usize,
    /// Its text, in pieces of one style each.
    pub pieces: Vec<(Style, String)>,
    /// The bytes that it was read from.
    pub bytes: Option<Range<usize>>,
    /// What these positions count in.
    pub origin: ByteRangeOrigin,
    /// The field that it shows.
    pub field: Option<&'static Field>,
    /// Its value as a display filter has it; `None` where there is no such value.
    pub literal: Option<String>,
}

impl TreeLine {
    /// A line without text.
    pub(super) fn new(depth: usize, origin: ByteRangeOrigin) -> Self {
        Self { depth, origin, ..Self::default() }
    }

    /// The same with more text at its end.
    pub(super) fn with(mut self, style: Style, text: impl fmt::Display) -> Self {
        self.pieces.push((style, text.to_string()));
        self
    }

    /// The same about these bytes.
    pub(super) fn at(mut self, bytes: Range<usize>) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Its text, without its depth and its position.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Writes it with its position, and ends it.
    ///
    /// # Errors
    /// Those of `out`.
    pub(super) fn write(&self, out: &mut impl Write, styles: &Styles) -> io::Result<()> {
        write!(out, "{:1$}", "", self.depth * 2)?;
        for (style, text) in &self.pieces {
            write!(out, "{}", StyledText(*style, text))?;
        }
        if let Some(bytes) = &self.bytes {
            let position = format!("[{}..{}]", bytes.start, bytes.end);
            write!(out, " {}", StyledText(styles.dim, position))?;
        }
        writeln!(out)
    }
}
