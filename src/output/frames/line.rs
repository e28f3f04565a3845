//! A line of the packet list: its columns, its pieces of one style each, and the part of it that a screen shows.

use std::io::{self, Write};

use crate::output::style::{Style, StyledText, TerminalStyle, fit_words};
use crate::output::units::TimeFormat;

/// How wide the columns are; what is longer pushes the rest to the right, addresses in a pipe those of the
/// lines behind it, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameColumnWidths {
    pub(super) number: usize,
    pub(super) time: usize,
    /// 0 where a narrow screen leaves the addresses out.
    pub(super) address: usize,
    pub(super) protocol: usize,
    pub(super) length: usize,
}

impl FrameColumnWidths {
    pub(super) fn of(screen: Option<usize>, time: TimeFormat) -> Self {
        match screen {
            Some(..64) => Self { number: 5, time: time.width(), address: 0, protocol: 6, length: 5 },
            Some(..120) => Self { number: 5, time: time.width(), address: 9, protocol: 6, length: 5 },
            _ => Self { number: 7, time: time.width(), address: 15, protocol: 8, length: 6 },
        }
    }

    /// Widens the columns of addresses, if one of these has no room.
    pub(super) fn make_room(&mut self, source: &str, destination: &str) {
        self.address = self.address.max(source.len()).max(destination.len());
    }
}

/// A line in pieces of one style each.
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

    /// What was appended since the last piece has this style.
    pub(super) fn piece(&mut self, style: Style) {
        self.pieces.push((self.text.len(), style));
    }

    /// Writes the line from column `left` on, cut where the screen ends.
    pub(super) fn end(
        &mut self,
        out: &mut impl Write,
        screen: &TerminalStyle,
        left: usize,
    ) -> io::Result<()> {
        self.piece(Style::new());
        let past = bytes_of_columns(&self.text, left);
        let shown = self.text.get(past..).unwrap_or_default();
        let text = match screen.width {
            Some(width) => fit_words(shown, width, &screen.glyphs),
            None => shown.into(),
        };
        let mut from = 0;
        let pieces = self.pieces.iter().map(|(end, style)| (end.saturating_sub(past), style));
        for (end, style) in pieces {
            // The sign of a cut takes the style of the piece that was cut.
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

/// The bytes that so many columns of a text take.
fn bytes_of_columns(text: &str, columns: usize) -> usize {
    let mut taken = 0;
    let is_past = |(_, character): &(usize, char)| {
        taken += unicode_width::UnicodeWidthChar::width(*character).unwrap_or(0);
        taken > columns
    };
    text.char_indices().find(is_past).map_or(text.len(), |(at, _)| at)
}
