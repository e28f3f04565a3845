//! Tables with columns of fixed width, so that each line can be written as soon as it is complete.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::style::{Style, StyledText, TerminalProfile, columns as width_of, fit};
use crate::escape;

/// Column of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableColumn {
    /// Name in the header.
    pub name: &'static str,
    /// Width in columns; on a terminal, the first column takes the rest of the line.
    pub width: usize,
    /// Minimum width of the screen at which the column is shown.
    pub from: u16,
    /// `true` if the cells are aligned right.
    pub is_number: bool,
}

/// Creates a column of text that is shown at every width.
pub const fn text(name: &'static str, width: usize) -> TableColumn {
    text_from(name, width, 0)
}

/// Creates a column of text that screens narrower than `from` omit.
pub const fn text_from(name: &'static str, width: usize, from: u16) -> TableColumn {
    TableColumn { name, width, from, is_number: false }
}

/// Creates a column of numbers that screens narrower than `from` omit.
pub const fn number(name: &'static str, width: usize, from: u16) -> TableColumn {
    TableColumn { name, width, from, is_number: true }
}

/// Writer of a table, line by line.
#[derive(Debug)]
pub struct TableLineWriter {
    screen: TerminalProfile,
    columns: &'static [TableColumn],
    /// Indexes of the columns that fit on the screen, from left to right.
    shown: Vec<usize>,
    /// Widths of all columns. In a pipe, where nothing is truncated, a longer cell widens its column for the following
    /// lines.
    widths: Vec<usize>,
    has_header: bool,
}

impl TableLineWriter {
    /// Creates a table that has written nothing.
    pub fn new(screen: TerminalProfile, columns: &'static [TableColumn]) -> Self {
        let widths = columns.iter().map(|column| column.width).collect();
        Self { screen, columns, shown: shown(screen.width, columns), widths, has_header: false }
    }

    /// Writes a line, and before the first one the header.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn line(&mut self, to: &mut impl Write, cells: &[(String, Style)]) -> io::Result<()> {
        if self.screen.width.is_none() {
            for (width, (cell, _)) in self.widths.iter_mut().zip(cells) {
                *width = (*width).max(width_of(cell));
            }
        }
        if !std::mem::replace(&mut self.has_header, true) {
            let style = self.screen.styles.header;
            let names: Vec<_> = self.columns.iter().map(|column| (column.name.to_owned(), style)).collect();
            self.write(to, &names)?;
        }
        self.write(to, cells)
    }

    fn write(&self, to: &mut impl Write, cells: &[(String, Style)]) -> io::Result<()> {
        let screen_width = self.screen.width.unwrap_or(usize::MAX);
        let cell = |at: &usize| Some((self.columns.get(*at)?, cells.get(*at)?, *self.widths.get(*at)?));
        let visible: Vec<_> = self.shown.iter().filter_map(cell).collect();
        let other_widths: usize = visible.iter().skip(1).map(|(_, _, width)| width + GAP.len()).sum();
        let mut line = String::new();
        let mut remaining = screen_width;
        for (at, (column, (cell, style), width)) in visible.iter().enumerate() {
            let is_last = at + 1 == visible.len();
            let gap = if at > 0 { GAP } else { "" };
            let mut width = *width;
            if let (0, Some(screen)) = (at, self.screen.width) {
                width = screen.saturating_sub(other_widths).max(MIN_FIRST_COLUMN_WIDTH);
            }
            // A pipe truncates nothing, and the last column of text ends with the screen.
            let available = remaining.saturating_sub(gap.len());
            let cell = match self.screen.width {
                Some(_) => fit(
                    cell,
                    if is_last && !column.is_number { available } else { width.min(available) },
                    &self.screen.glyphs,
                ),
                None => cell.as_str().into(),
            };
            let fill = width.saturating_sub(width_of(&cell)).min(available.saturating_sub(width_of(&cell)));
            line.push_str(gap);
            if column.is_number {
                line.extend(std::iter::repeat_n(' ', fill));
            }
            // Empty cells have no colour.
            if !cell.is_empty() {
                line.push_str(&StyledText(*style, &cell).to_string());
            }
            if !column.is_number && !is_last {
                line.extend(std::iter::repeat_n(' ', fill));
            }
            remaining = available.saturating_sub(width_of(&cell) + fill);
        }
        writeln!(to, "{}", line.trim_end_matches(' '))
    }
}

/// Returns the columns that fit on a screen beside the first. The columns with the largest minimum width are dropped
/// first, then the last ones: a truncated number would read as another number. A pipe shows all.
fn shown(width: Option<usize>, columns: &[TableColumn]) -> Vec<usize> {
    let Some(screen_width) = width else { return (0..columns.len()).collect() };
    let mut candidates: Vec<_> = columns.iter().enumerate().skip(1).collect();
    candidates.sort_by_key(|(_, column)| column.from);
    let mut remaining = screen_width.saturating_sub(PREFERRED_FIRST_COLUMN_WIDTH.min(screen_width / 2));
    let has_room = |(_, column): &(usize, &TableColumn)| {
        let width = column.width + GAP.len();
        let has_room = usize::from(column.from) <= screen_width && width <= remaining;
        remaining = remaining.saturating_sub(width);
        has_room
    };
    let mut visible: Vec<_> = candidates.into_iter().take_while(has_room).map(|(at, _)| at).chain([0]).collect();
    visible.sort_unstable();
    visible
}

const GAP: &str = "  ";
/// Minimum width of the first column.
const MIN_FIRST_COLUMN_WIDTH: usize = 8;
/// Minimum width of the first column while other columns can be dropped for it.
const PREFERRED_FIRST_COLUMN_WIDTH: usize = 16;

/// Writes a line of comma-separated values (RFC 4180).
pub(super) fn csv<T: AsRef<str>>(to: &mut impl Write, cells: impl IntoIterator<Item = T>) -> io::Result<()> {
    let mut line = String::new();
    for (at, cell) in cells.into_iter().enumerate() {
        line.extend((at > 0).then_some(','));
        super::fields_format::push_csv_cell(&escape::escape_formula(&escape::escape_line(cell.as_ref())), &mut line);
    }
    line.push('\n');
    to.write_all(line.as_bytes())
}

/// Returns the cells of a CSV line: the values under these keys of a JSON object, `.` before a key of an inner object.
/// A list becomes one cell, separated by commas.
pub(super) fn csv_cells(keys: &[&str], object: &impl Serialize) -> io::Result<Vec<String>> {
    fn text(value: &Value) -> String {
        match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        }
    }
    let object = serde_json::to_value(object)?;
    let value = |key: &str| key.split('.').try_fold(&object, |object, key| object.get(key));
    Ok(keys.iter().map(|key| value(key).map(text).unwrap_or_default()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[TableColumn] = &[text("NAME", 10), number("COUNT", 6, 0), text_from("WORD", 4, 40)];

    fn written(screen: TerminalProfile, lines: &[[&str; 3]]) -> String {
        let mut table = TableLineWriter::new(screen, COLUMNS);
        let mut text = Vec::new();
        for line in lines {
            let cells = line.map(|cell| (cell.to_owned(), Style::new()));
            table.line(&mut text, &cells).unwrap();
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn in_a_pipe_nothing_is_cut_and_nothing_left_out() {
        let text = written(
            TerminalProfile::pipe(),
            &[["READ", "1,000", "open"], ["a name that is long", "7", "set up"], ["MKDIR", "12", ""]],
        );
        assert_eq!(
            text,
            "NAME         COUNT  WORD\nREAD         1,000  open\na name that is long       7  set up\n\
             MKDIR                    12\n"
        );
    }

    #[test]
    fn on_a_terminal_the_first_column_takes_the_remaining_width() {
        let text =
            written(TerminalProfile::terminal(20), &[["READ", "1,000", "open"], ["a name that is long", "7", ""]]);
        assert_eq!(text, "NAME           COUNT\nREAD           1,000\na name that…       7\n");
        for width in 1..60 {
            let text = written(TerminalProfile::terminal(width), &[["READ", "1,000", "set up"]]);
            assert!(text.lines().all(|line| width_of(line) <= width), "{width}: {text}");
            let row = text.lines().nth(1).unwrap();
            assert!(row.contains("1,000") || !row.contains("1,"), "{width}: {text}");
        }
    }
}
