//! Lines of a tree, for text output and for the terminal interface, which shows them next to their bytes.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::field::FieldDefinition;
use nfsrdma_flow::transaction::RpcMessageKind;

use crate::output::style::{Style, StyledText, TerminalOutputStyles};

/// Buffer that the byte range of a line refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TreeLineByteSource {
    /// The line has no bytes.
    #[default]
    Nothing,
    /// Frame of this number.
    Frame(FrameNumber),
    /// Inline message, from its RPC-over-RDMA header on.
    Message(RpcMessageKind),
    /// Chunk that contains the complete RPC message.
    Chunk(RpcMessageKind),
}

/// Line of a tree.
#[derive(Clone, Debug, Default)]
pub struct TreeLine {
    /// Indentation level.
    pub depth: usize,
    /// Text in pieces of one style each.
    pub pieces: Vec<(Style, String)>,
    /// Byte range of the decoded value.
    pub bytes: Option<Range<usize>>,
    /// Buffer that the byte range refers to.
    pub origin: TreeLineByteSource,
    /// Field shown.
    pub field: Option<&'static FieldDefinition>,
    /// Value of that field, if it is a number.
    pub(super) number: Option<i64>,
    /// Fields within the text of that field, such as the members of a structure on one line, with their numbers.
    pub(super) inner: Vec<(&'static FieldDefinition, Option<i64>)>,
    /// Value in display filter syntax; `None` if it has no such form.
    pub literal: Option<String>,
}

impl TreeLine {
    pub(super) fn new(depth: usize, origin: TreeLineByteSource) -> Self {
        Self { depth, origin, ..Self::default() }
    }

    pub(super) fn with_text(mut self, style: Style, text: impl fmt::Display) -> Self {
        self.pieces.push((style, text.to_string()));
        self
    }

    pub(super) fn with_bytes(mut self, bytes: Range<usize>) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Returns `true` if the line shows the field of this filter name, with this value if there is one.
    pub(super) fn shows(&self, name: &str, value: Option<u64>) -> bool {
        let own = self.field.map(|field| (field, self.number));
        let mut fields = own.into_iter().chain(self.inner.iter().copied());
        fields
            .any(|(field, number)| field.name == name && value.is_none_or(|value| number == Some(value.cast_signed())))
    }

    /// Returns the text without indentation and position.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Writes the line with its position and a line feed.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub(super) fn write(&self, out: &mut impl Write, styles: &TerminalOutputStyles) -> io::Result<()> {
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

/// Creates a line of a value that no decoder provides.
pub(super) fn fact_line(
    styles: &TerminalOutputStyles,
    depth: usize,
    label: &str,
    value: impl fmt::Display,
) -> TreeLine {
    styled_fact_line(styles, depth, label, Style::new(), value)
}

/// Creates a line of a value that no decoder provides, in a style.
pub(super) fn styled_fact_line(
    styles: &TerminalOutputStyles,
    depth: usize,
    label: &str,
    style: Style,
    value: impl fmt::Display,
) -> TreeLine {
    TreeLine::new(depth, TreeLineByteSource::Nothing)
        .with_text(styles.label, label)
        .with_text(Style::new(), ": ")
        .with_text(style, value)
}

pub(super) fn heading(depth: usize, style: Style, text: impl fmt::Display) -> TreeLine {
    TreeLine::new(depth, TreeLineByteSource::Nothing).with_text(style, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    static STRUCTURE: FieldDefinition = FieldDefinition::group("test.structure", "structure", "");
    static LENGTH: FieldDefinition = FieldDefinition::group("test.length", "length", "");

    #[test]
    fn line_shows_fields_by_value() {
        let line = TreeLine { field: Some(&STRUCTURE), inner: vec![(&LENGTH, Some(80))], ..TreeLine::default() };
        assert!(line.shows("test.length", None) && line.shows("test.length", Some(80)));
        assert!(!line.shows("test.length", Some(1080)) && !line.shows("test.structure", Some(80)));
    }
}
