//! A sortable table with a cursor.

use std::cmp::Reverse;

use nfsrdma_analysis::load_over_time::TimeAtLimit;
use nfsrdma_analysis::rates::RatesByWindowLength;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{ListAreas, draw_text, grouped};
use crate::output::connections;
use crate::output::style::{Glyphs, columns as width_of, fit, fit_words};
use crate::output::units::{self, EventRateText, HumanDuration, HumanSize};
use crate::tui::app::application_state::App;
use crate::tui::app::marked_row::MarkedRow;
use crate::tui::app::transaction_list::scrolled;
use crate::tui::theme::Theme;

/// The heading of a column.
#[derive(Clone, Copy, Debug)]
pub(in crate::tui) struct TableColumnHeading {
    pub(in crate::tui) name: &'static str,
    /// Minimum width. Wider numbers widen the column.
    width: usize,
    pub(in crate::tui) is_number: bool,
    /// On a narrow screen, the columns with the highest values are omitted first.
    priority: u8,
}

/// Style of the cells of a column.
type CellStyle = fn(&Theme) -> Style;

pub(super) const PLAIN: CellStyle = |_| Style::new();
pub(super) const DIM: CellStyle = |theme| theme.dim;
pub(super) const HEADING: CellStyle = |theme| theme.heading;
pub(super) const NOTICE: CellStyle = |theme| theme.notice;
pub(super) const ERROR: CellStyle = |theme| theme.error;

/// The value of a cell, from which its text and its order follow.
pub(in crate::tui) enum TableCell {
    /// Sorts from A to Z.
    Text(String),
    /// Path of a file; sorts by its bytes.
    Path(Vec<u8>),
    /// Sorts upward; other numbers sort downward.
    Identifier(u64),
    /// Blank without a count.
    Count(Option<u64>),
    Bytes(u64),
    /// Nanoseconds; blank without a time.
    TimeNs(Option<u64>),
    /// Time at a limit.
    AtLimit(TimeAtLimit),
    Percentage(f64),
    /// Per second; `-` if unknown.
    Rate(Option<f64>),
    /// Bytes per second; `-` if unknown.
    ByteRate(Option<f64>),
    /// The smallest and the largest credit grant.
    Grants(u32, u32),
}

impl TableCell {
    /// Returns a count that is blank if it is zero.
    pub(super) fn nonzero_count(count: u64) -> Self {
        Self::Count((count > 0).then_some(count))
    }

    /// Returns a time that is blank if it is zero.
    pub(super) fn nonzero_time_ns(time_ns: u64) -> Self {
        Self::TimeNs((time_ns > 0).then_some(time_ns))
    }

    /// Returns the rate of Transactions in a window.
    pub(super) fn rate(app: &App, rates: &RatesByWindowLength, window: usize) -> Self {
        Self::Rate(app.complete_windows()[window].then_some(rates[window].transactions))
    }

    /// Returns the rate of bytes in a window.
    pub(super) fn byte_rate(app: &App, rates: &RatesByWindowLength, window: usize) -> Self {
        Self::ByteRate(app.complete_windows()[window].then_some(rates[window].bytes))
    }

    fn into_text(self, glyphs: Glyphs) -> String {
        const UNKNOWN: &str = "-";
        match self {
            Self::Text(text) => text,
            Self::Path(path) => {
                let mut text = String::new();
                units::path(&path, &glyphs, &mut text);
                text
            }
            Self::Identifier(number) => number.to_string(),
            Self::Count(count) => count.map(grouped).unwrap_or_default(),
            Self::Bytes(bytes) => HumanSize(bytes).to_string(),
            Self::TimeNs(ns) => ns.map(|ns| HumanDuration(ns, glyphs).to_string()).unwrap_or_default(),
            Self::Grants(smallest, largest) => connections::grants_text((smallest, largest)),
            Self::AtLimit(time) => connections::at_limit_text(time, glyphs),
            Self::Percentage(percent) => format!("{percent:.1}"),
            Self::Rate(rate) => rate.map_or(UNKNOWN.to_owned(), |rate| EventRateText(rate).to_string()),
            Self::ByteRate(rate) => rate.map_or(UNKNOWN.to_owned(), |rate| HumanSize(rate as u64).to_string()),
        }
    }

    fn into_sort_key(self) -> (Reverse<i128>, Vec<u8>) {
        let millionths = |value: f64| (value * 1e6) as i128;
        let number = match self {
            Self::Text(text) => return (Reverse(0), text.into_bytes()),
            Self::Path(path) => return (Reverse(0), path),
            Self::Identifier(number) => -i128::from(number),
            Self::Count(number) | Self::TimeNs(number) => number.unwrap_or(0).into(),
            Self::Grants(_, largest) => largest.into(),
            Self::AtLimit(TimeAtLimit::Unknown) => -2,
            Self::AtLimit(TimeAtLimit::Never) => -1,
            Self::Bytes(number) | Self::AtLimit(TimeAtLimit::Ns(number)) => number.into(),
            Self::Percentage(value) => millionths(value),
            Self::Rate(value) | Self::ByteRate(value) => millionths(value.unwrap_or(0.0)),
        };
        (Reverse(number), Vec::new())
    }
}

/// A column of a table with rows `R`.
pub(in crate::tui) struct TableColumn<R> {
    heading: TableColumnHeading,
    style: CellStyle,
    cell: fn(&App, &R) -> TableCell,
}

/// Returns the name column, which is the first, always visible, and shrinks in favour of numbers.
pub(super) const fn name<R>(name: &'static str, cell: fn(&App, &R) -> TableCell) -> TableColumn<R> {
    text(name, MIN_NAME_COLUMNS, 0, HEADING, cell)
}

/// Returns a text column.
pub(super) const fn text<R>(
    name: &'static str,
    width: usize,
    priority: u8,
    style: CellStyle,
    cell: fn(&App, &R) -> TableCell,
) -> TableColumn<R> {
    TableColumn { heading: TableColumnHeading { name, width, is_number: false, priority }, style, cell }
}

/// Returns a number column.
pub(super) const fn number<R>(
    name: &'static str,
    width: usize,
    priority: u8,
    style: CellStyle,
    cell: fn(&App, &R) -> TableCell,
) -> TableColumn<R> {
    TableColumn { heading: TableColumnHeading { name, width, is_number: true, priority }, style, cell }
}

/// Minimum width of the name column.
const MIN_NAME_COLUMNS: usize = 12;

/// Rows of the statistics that a view shows as a table.
pub(in crate::tui) trait TableRows: Sync {
    /// A row.
    type Row: 'static;

    /// The columns; the first one is the name.
    const COLUMNS: &'static [TableColumn<Self::Row>];

    /// Returns the rows.
    fn rows(app: &App) -> &[Self::Row];

    /// Returns the display filter for the Transactions of a row.
    fn filter(row: &Self::Row) -> String;

    /// Returns the key for marking a row.
    fn mark(row: &Self::Row) -> MarkedRow;
}

/// A view that consists of a table. Rows are identified by their index.
pub(in crate::tui) trait TableView: Sync {
    /// Returns the headings of the columns.
    fn headings(&self) -> Vec<TableColumnHeading>;

    /// Returns the number of rows.
    fn len(&self, app: &App) -> usize;

    /// Returns the rows in display order.
    fn order(&self, app: &App) -> Vec<usize>;

    /// Returns the cells of a row with their styles, one per column.
    fn cells(&self, app: &App, row: usize) -> Vec<(String, Style)>;

    /// Returns the name of a row, for copying.
    fn value(&self, app: &App, row: usize) -> Option<String>;

    /// Returns the display filter for the Transactions of a row.
    fn filter(&self, app: &App, row: usize) -> Option<String>;

    /// Returns the key for marking a row.
    fn mark(&self, app: &App, row: usize) -> Option<MarkedRow>;

    /// Returns the searchable text of a row.
    fn text(&self, app: &App, row: usize) -> String {
        let cells = self.cells(app, row).into_iter().map(|(text, _)| text);
        self.value(app, row).into_iter().chain(cells).collect::<Vec<_>>().join(" ")
    }
}

impl<T: TableRows> TableView for T {
    fn headings(&self) -> Vec<TableColumnHeading> {
        T::COLUMNS.iter().map(|column| column.heading).collect()
    }

    fn len(&self, app: &App) -> usize {
        T::rows(app).len()
    }

    fn order(&self, app: &App) -> Vec<usize> {
        let (rows, table) = (T::rows(app), app.table());
        let mut order: Vec<usize> = (0..rows.len()).collect();
        if let Some(column) = T::COLUMNS.get(table.sort) {
            order.sort_by_cached_key(|at| rows.get(*at).map(|row| (column.cell)(app, row).into_sort_key()));
        }
        if table.is_reversed {
            order.reverse();
        }
        order
    }

    fn cells(&self, app: &App, row: usize) -> Vec<(String, Style)> {
        let Some(row) = T::rows(app).get(row) else { return Vec::new() };
        let glyphs = app.tui_glyphs.glyphs;
        let cell = |column: &TableColumn<T::Row>| {
            let cell = (column.cell)(app, row);
            let is_never = matches!(cell, TableCell::AtLimit(TimeAtLimit::Never));
            let style = if is_never { app.theme.dim } else { (column.style)(&app.theme) };
            (cell.into_text(glyphs), style)
        };
        T::COLUMNS.iter().map(cell).collect()
    }

    fn value(&self, app: &App, row: usize) -> Option<String> {
        Some((T::COLUMNS.first()?.cell)(app, T::rows(app).get(row)?).into_text(app.tui_glyphs.glyphs))
    }

    fn filter(&self, app: &App, row: usize) -> Option<String> {
        T::rows(app).get(row).map(T::filter)
    }

    fn mark(&self, app: &App, row: usize) -> Option<MarkedRow> {
        T::rows(app).get(row).map(T::mark)
    }
}

/// Returns the visible columns with their widths: the name and the most important ones, or after scrolling those from
/// the scroll position on. Numbers are never cut.
fn layout(columns: &[TableColumnHeading], widths: &[usize], width: usize, scroll: usize) -> Vec<(usize, usize)> {
    let mut shown: Vec<usize> = (0..columns.len()).filter(|at| *at == 0 || *at >= scroll).collect();
    let min_width = |shown: &[usize]| -> usize {
        let others = shown.iter().filter(|at| **at > 0).filter_map(|at| widths.get(*at));
        MIN_NAME_COLUMNS + others.map(|width| width + 1).sum::<usize>()
    };
    while shown.len() > 1 && min_width(&shown) > width {
        let priority = |at: usize| columns.get(at).map_or(0, |column| column.priority);
        // Of equal priorities the rightmost column is omitted; after scrolling always the last one.
        let key = |at: &usize| (if scroll > 0 { 0 } else { priority(shown[*at]) }, *at);
        let Some(at) = (1..shown.len()).max_by_key(key) else { break };
        shown.remove(at);
    }
    let rest = width.saturating_sub(min_width(&shown) - MIN_NAME_COLUMNS).max(1);
    let place = |at: usize| (at, if at == 0 { rest } else { widths.get(at).copied().unwrap_or(0) });
    shown.into_iter().map(place).collect()
}

/// Returns a heading of the given width. The sign of the sort order follows the name.
pub(super) fn heading(name: &str, is_number: bool, sign: Option<&str>, width: usize, app: &App) -> String {
    let sign = sign.unwrap_or_default();
    let name = fit(name, width.saturating_sub(width_of(sign)), &app.tui_glyphs.glyphs);
    match is_number {
        true => format!("{:>width$}", format!("{name}{sign}")),
        false => format!("{name}{sign}"),
    }
}

/// Draws the table of a view.
pub(super) fn draw(app: &mut App, view: &dyn TableView, buffer: &mut Buffer, area: Rect) {
    let areas = ListAreas::new(area);
    let ListAreas { head, lines, .. } = areas;
    let (columns, order) = (view.headings(), view.order(app));
    let mut table = app.table();
    let height = usize::from(lines.height);
    table.at = table.at.min(order.len().saturating_sub(1));
    table.top = scrolled(table.top, table.at, height, order.len());
    table.scroll = table.scroll.min(columns.len().saturating_sub(1));
    let rows: Vec<(usize, Vec<(String, Style)>)> =
        order.iter().skip(table.top).take(height).map(|row| (*row, view.cells(app, *row))).collect();
    let mut widths: Vec<usize> = columns.iter().map(|column| column.width.max(width_of(column.name))).collect();
    for (_, cells) in &rows {
        for ((width, column), (cell, _)) in widths.iter_mut().zip(&columns).zip(cells) {
            if column.is_number {
                *width = (*width).max(width_of(cell));
            }
        }
    }
    let (up, down) = app.tui_glyphs.sorted;
    let sign = if table.is_reversed { up } else { down };
    // The sign of the sort order needs space in its column.
    if let Some((width, column)) = widths.get_mut(table.sort).zip(columns.get(table.sort)) {
        *width = (*width).max(width_of(column.name) + width_of(sign));
    }
    let shown = layout(&columns, &widths, usize::from(lines.width), table.scroll);
    let last = shown.last().map_or(0, |(at, _)| at + 1);
    app.hidden_columns = columns.len() - if table.scroll > 0 { last } else { shown.len() };
    let mut x = lines.x;
    let mut headings = Vec::new();
    for (number, width) in &shown {
        let Some(column) = columns.get(*number) else { continue };
        let is_sorted = table.sort == *number;
        let text = heading(column.name, column.is_number, is_sorted.then_some(sign), *width, app);
        let style = if is_sorted { app.theme.key } else { app.theme.heading };
        let heading_area = Rect { x, width: (*width as u16).min((lines.x + lines.width).saturating_sub(x)), ..head };
        draw_text(buffer, heading_area, 0, &Line::styled(text, style));
        headings.push((heading_area, *number));
        x += *width as u16 + 1;
    }
    app.areas.headings = headings;
    app.areas.list = lines;
    for (line, (row, cells)) in rows.iter().enumerate() {
        let mut text = Vec::new();
        for (number, width) in &shown {
            let (Some(column), Some((cell, style))) = (columns.get(*number), cells.get(*number)) else {
                continue;
            };
            let cell = fit_words(cell, *width, &app.tui_glyphs.glyphs).into_owned();
            let fill = " ".repeat(width.saturating_sub(width_of(&cell)));
            let (before, after) = if column.is_number { (fill, String::new()) } else { (String::new(), fill) };
            text.extend([Span::raw(before), Span::styled(cell, *style), Span::raw(after + " ")]);
        }
        draw_text(buffer, lines, line, &Line::from(text));
        let is_marked = view.mark(app, *row).is_some_and(|mark| app.marks.contains(&mark));
        areas.draw_signs(app, buffer, line, is_marked, table.top + line == table.at);
    }
    if let Some(state) = app.table_mut() {
        *state = table;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[TableColumnHeading] =
        &[heading("NAME", 0), heading("A", 1), heading("B", 3), heading("C", 2), heading("D", 1)];

    const fn heading(name: &'static str, priority: u8) -> TableColumnHeading {
        TableColumnHeading { name, width: 5, is_number: true, priority }
    }

    fn shown(width: usize, scroll: usize) -> Vec<(usize, usize)> {
        layout(COLUMNS, &[MIN_NAME_COLUMNS, 5, 5, 5, 5], width, scroll)
    }

    #[test]
    fn the_name_gives_way_first_and_then_the_columns_that_matter_least() {
        assert_eq!(shown(80, 0), [(0, 56), (1, 5), (2, 5), (3, 5), (4, 5)]);
        assert_eq!(shown(36, 0), [(0, 12), (1, 5), (2, 5), (3, 5), (4, 5)]);
        assert_eq!(shown(35, 0), [(0, 17), (1, 5), (3, 5), (4, 5)]);
        assert_eq!(shown(29, 0), [(0, 17), (1, 5), (4, 5)]);
        assert_eq!(shown(18, 0), [(0, 12), (1, 5)]);
        assert_eq!(shown(10, 0), [(0, 10)]);
    }

    #[test]
    fn a_table_that_was_scrolled_begins_with_another_column() {
        assert_eq!(shown(24, 1), [(0, 12), (1, 5), (2, 5)]);
        assert_eq!(shown(24, 2), [(0, 12), (2, 5), (3, 5)]);
        assert_eq!(shown(18, 4), [(0, 12), (4, 5)]);
    }
}
