//! Line of the packet list: its columns, its styled pieces, and the part of it that fits on the screen.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use crate::output::settings::TimeFormat;
use crate::output::style::{Style, StyledText, TerminalProfile, fit_words};

/// Widths of the columns. A longer cell moves the rest to the right; in a pipe, a longer address widens its column for
/// the following lines, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameColumnWidths {
    pub(super) number: usize,
    pub(super) time: usize,
    /// 0 if a narrow screen omits the addresses.
    pub(super) address: usize,
    pub(super) protocol: usize,
    pub(super) length: usize,
}

impl FrameColumnWidths {
    pub(super) fn for_screen(screen: Option<usize>, time: TimeFormat) -> Self {
        match screen {
            Some(..64) => Self { number: 5, time: time.width(), address: 0, protocol: 6, length: 5 },
            Some(..120) => Self { number: 5, time: time.width(), address: 9, protocol: 6, length: 5 },
            _ => Self { number: 7, time: time.width(), address: 15, protocol: 8, length: 6 },
        }
    }

    /// Widens the columns of addresses to fit these two.
    pub(super) fn widen_addresses(&mut self, source: &str, destination: &str) {
        self.address = self.address.max(source.len()).max(destination.len());
    }
}

/// Line in pieces of one style each.
#[derive(Debug, Default)]
pub(super) struct FrameListLine {
    pub(super) text: String,
    pieces: Vec<(usize, Style)>,
}

impl FrameListLine {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.pieces.clear();
    }

    /// Sets the style of the text appended since the last piece.
    pub(super) fn end_piece(&mut self, style: Style) {
        self.pieces.push((self.text.len(), style));
    }

    /// Appends text in a style.
    pub(super) fn push(&mut self, style: Style, text: impl fmt::Display) {
        let _ = write!(self.text, "{text}");
        self.end_piece(style);
    }

    /// Writes the line from column `scroll_columns` on, truncated at the end of the screen.
    pub(super) fn write_line(
        &mut self,
        out: &mut impl Write,
        screen: &TerminalProfile,
        scroll_columns: usize,
    ) -> io::Result<()> {
        self.end_piece(Style::new());
        let skipped_bytes = bytes_of_columns(&self.text, scroll_columns);
        let visible = self.text.get(skipped_bytes..).unwrap_or_default();
        let text = match screen.width {
            Some(width) => fit_words(visible, width, &screen.glyphs),
            None => visible.into(),
        };
        let mut from = 0;
        let pieces = self.pieces.iter().map(|(end, style)| (end.saturating_sub(skipped_bytes), style));
        for (end, style) in pieces {
            // The truncation mark takes the style of the truncated piece.
            let is_cut = end >= text.len() || !text.is_char_boundary(end);
            let piece = if is_cut { text.get(from..) } else { text.get(from..end) };
            if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
                write!(out, "{}", StyledText(*style, piece))?;
            }
            if is_cut {
                break;
            }
            from = end;
        }
        writeln!(out)
    }
}

/// Returns the length in bytes of the first `columns` columns of a text.
fn bytes_of_columns(text: &str, columns: usize) -> usize {
    let mut width = 0;
    let is_past = |(_, character): &(usize, char)| {
        width += unicode_width::UnicodeWidthChar::width(*character).unwrap_or(0);
        width > columns
    };
    text.char_indices().find(is_past).map_or(text.len(), |(at, _)| at)
}
