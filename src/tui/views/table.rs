//! A table that is sorted by the column that one chooses, with a cursor.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::output::style::{columns as width_of, fit};
pub(super) use crate::output::table::{Column, number, text};
use crate::tui::app::{App, Table, scrolled};

use super::{cut_top, paint, put};

/// A cell with its style.
pub(super) type Cell = (String, Style);

/// The order of the lines of a table: by the keys of the column that it is sorted by, the largest first, or the other way
/// round.
pub(super) fn order<K: Ord>(count: usize, table: Table, key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_cached_key(|at| std::cmp::Reverse(key(*at)));
    if table.is_reversed {
        order.reverse();
    }
    order
}

/// Draws a table; the width of the first column is what the others leave. `cells` gives the cells of a line.
pub(super) fn draw(
    app: &mut App,
    buffer: &mut Buffer,
    area: Rect,
    columns: &[Column],
    order: &[usize],
    cells: impl Fn(&App, usize) -> Vec<Cell>,
) {
    let (head, lines) = cut_top(area, 1);
    let shown: Vec<usize> = (0..columns.len())
        .filter(|at| columns.get(*at).is_some_and(|column| column.from <= area.width))
        .collect();
    let mut widths: Vec<usize> = columns.iter().map(|column| column.width).collect();
    let others: usize = shown.iter().skip(1).filter_map(|at| Some(widths.get(*at)? + 1)).sum();
    if let Some(first) = widths.first_mut() {
        *first = usize::from(area.width).saturating_sub(others).max(8);
    }
    let mut table = app.table();
    let mut x = area.x;
    let mut headings = Vec::new();
    for number in &shown {
        let (Some(column), Some(width)) = (columns.get(*number), widths.get(*number)) else { continue };
        let is_sorted = table.sort == *number;
        let (up, down) = app.signs.sorted;
        let sign = if !is_sorted {
            ""
        } else if table.is_reversed {
            up
        } else {
            down
        };
        let room = width.saturating_sub(width_of(sign));
        let text = match column.is_number {
            true => format!("{sign}{:>room$}", column.name),
            false => format!("{}{sign}", column.name),
        };
        let place = Rect { x, width: (*width as u16).min((area.x + area.width).saturating_sub(x)), ..head };
        put(buffer, place, 0, &Line::styled(text, if is_sorted { app.theme.key } else { app.theme.heading }));
        headings.push((place, *number));
        x += *width as u16 + 1;
    }
    app.areas.headings = headings;
    app.areas.list = lines;
    let height = usize::from(lines.height);
    table.at = table.at.min(order.len().saturating_sub(1));
    table.top = scrolled(table.top, table.at, height, order.len());
    for (line, of) in order.iter().skip(table.top).take(height).enumerate() {
        let mut text = Vec::new();
        let cells = cells(app, *of);
        for number in &shown {
            let (Some(column), Some(width), Some((cell, style))) =
                (columns.get(*number), widths.get(*number), cells.get(*number))
            else {
                continue;
            };
            let cell = fit(cell, *width, &app.signs.glyphs).into_owned();
            let fill = " ".repeat(width.saturating_sub(width_of(&cell)));
            let (before, after) =
                if column.is_number { (fill, String::new()) } else { (String::new(), fill) };
            text.extend([Span::raw(before), Span::styled(cell, *style), Span::raw(after + " ")]);
        }
        put(buffer, lines, line, &Line::from(text));
        if table.top + line == table.at {
            paint(buffer, lines, line, app.theme.cursor);
        }
    }
    if let Some(place) = app.table_mut() {
        *place = table;
    }
}
