//! A sortable table with a cursor.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::output::style::{columns as width_of, fit, fit_words};
use crate::tui::app::{App, MarkedRow, TableViewState, scrolled};

use super::{cut_left, cut_top, draw_text, set_line_style};

/// A cell with its style.
pub(in crate::tui) type TuiTableCell = (String, Style);

/// Returns the order of a table's lines: by the keys of the sort column, largest first, or reversed.
pub(super) fn order<K: Ord>(count: usize, table: TableViewState, key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_cached_key(|at| std::cmp::Reverse(key(*at)));
    if table.is_reversed {
        order.reverse();
    }
    order
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(in crate::tui) struct TableViewColumn {
    /// Heading.
    pub(in crate::tui) name: &'static str,
    /// Minimum width. Wider numbers widen the column.
    width: usize,
    pub(in crate::tui) is_number: bool,
    /// On a narrow screen, the columns with the highest values are omitted first.
    priority: u8,
}

/// Returns the name column, which is the first, always visible, and shrinks in favour of numbers.
pub(super) const fn name(name: &'static str) -> TableViewColumn {
    TableViewColumn { name, width: MIN_NAME_COLUMNS, is_number: false, priority: 0 }
}

/// Returns a text column.
pub(super) const fn text(name: &'static str, width: usize, priority: u8) -> TableViewColumn {
    TableViewColumn { name, width, is_number: false, priority }
}

/// Returns a number column.
pub(super) const fn number(name: &'static str, width: usize, priority: u8) -> TableViewColumn {
    TableViewColumn { name, width, is_number: true, priority }
}

/// Minimum width of the name column.
const MIN_NAME_COLUMNS: usize = 12;

/// A view that consists of a table.
pub(in crate::tui) trait TableView: Sync {
    /// Returns the columns.
    fn columns(&self) -> &'static [TableViewColumn];

    /// Returns the number of rows.
    fn len(&self, app: &App) -> usize;

    /// Returns the rows in display order.
    fn order(&self, app: &App) -> Vec<usize>;

    /// Returns the cells of a row, one per column.
    fn cells(&self, app: &App, row: usize) -> Vec<TuiTableCell>;

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

/// Returns the visible columns with their widths: the name and the most important ones, or after scrolling those from
/// the scroll position on. Numbers are never cut.
fn layout(columns: &[TableViewColumn], widths: &[usize], width: usize, scroll: usize) -> Vec<(usize, usize)> {
    let mut shown: Vec<usize> = (0..columns.len()).filter(|at| *at == 0 || *at >= scroll).collect();
    let least = |shown: &[usize]| -> usize {
        let others = shown.iter().filter(|at| **at > 0).filter_map(|at| widths.get(*at));
        MIN_NAME_COLUMNS + others.map(|width| width + 1).sum::<usize>()
    };
    while shown.len() > 1 && least(&shown) > width {
        let priority = |at: usize| columns.get(at).map_or(0, |column| column.priority);
        // Of equal priorities the rightmost column is omitted; after scrolling always the last one.
        let key = |at: &usize| (if scroll > 0 { 0 } else { priority(shown[*at]) }, *at);
        let Some(at) = (1..shown.len()).max_by_key(key) else { break };
        shown.remove(at);
    }
    let rest = width.saturating_sub(least(&shown) - MIN_NAME_COLUMNS).max(1);
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
    let (marks, area) = cut_left(area, 1);
    let (head, lines) = cut_top(area, 1);
    let (_, marks) = cut_top(marks, 1);
    let (columns, order) = (view.columns(), view.order(app));
    let mut table = app.table();
    let height = usize::from(lines.height);
    table.at = table.at.min(order.len().saturating_sub(1));
    table.top = scrolled(table.top, table.at, height, order.len());
    table.scroll = table.scroll.min(columns.len().saturating_sub(1));
    let rows: Vec<(usize, Vec<TuiTableCell>)> =
        order.iter().skip(table.top).take(height).map(|row| (*row, view.cells(app, *row))).collect();
    let mut widths: Vec<usize> =
        columns.iter().map(|column| column.width.max(width_of(column.name))).collect();
    for (_, cells) in &rows {
        for ((width, column), (cell, _)) in widths.iter_mut().zip(columns).zip(cells) {
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
    let shown = layout(columns, &widths, usize::from(area.width), table.scroll);
    let last = shown.last().map_or(0, |(at, _)| at + 1);
    app.hidden_columns = columns.len() - if table.scroll > 0 { last } else { shown.len() };
    let mut x = area.x;
    let mut headings = Vec::new();
    for (number, width) in &shown {
        let Some(column) = columns.get(*number) else { continue };
        let is_sorted = table.sort == *number;
        let text = heading(column.name, column.is_number, is_sorted.then_some(sign), *width, app);
        let style = if is_sorted { app.theme.key } else { app.theme.heading };
        let place = Rect { x, width: (*width as u16).min((area.x + area.width).saturating_sub(x)), ..head };
        draw_text(buffer, place, 0, &Line::styled(text, style));
        headings.push((place, *number));
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
            let (before, after) =
                if column.is_number { (fill, String::new()) } else { (String::new(), fill) };
            text.extend([Span::raw(before), Span::styled(cell, *style), Span::raw(after + " ")]);
        }
        draw_text(buffer, lines, line, &Line::from(text));
        if view.mark(app, *row).is_some_and(|mark| app.marks.contains(&mark)) {
            draw_text(buffer, marks, line, &Line::styled(app.tui_glyphs.mark, app.theme.notice));
        }
        if table.top + line == table.at {
            set_line_style(buffer, lines, line, app.theme.cursor);
        }
    }
    if let Some(place) = app.table_mut() {
        *place = table;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[TableViewColumn] =
        &[name("NAME"), number("A", 5, 1), number("B", 5, 3), text("C", 5, 2), number("D", 5, 1)];

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
