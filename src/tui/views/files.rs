//! Files: the busiest by bytes, by time, by Transactions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use crate::output::units::{self, Bytes, Duration};
use crate::tui::app::App;

use super::table::{self, Cell, Column, number, order, text};
use super::{cut_top, grouped, put};

/// Its columns.
pub(crate) const COLUMNS: &[Column] = &[
    text("FILE", 30),
    number("BYTES", 7, 0),
    number("TIME", 9, 0),
    number("TRANSACTIONS", 12, 0),
    number("MEAN", 8, 70),
    number("ERRORS", 7, 56),
];

fn sorted(app: &App) -> Vec<usize> {
    let (table, rows) = (app.table(), &app.side().tables.files);
    let tally = |at: usize| rows.get(at).map(|row| row.tally).unwrap_or_default();
    let order_by =
        |key: fn(&crate::analysis::files::FileTally) -> u64| order(rows.len(), table, |at| key(&tally(at)));
    match table.sort {
        // Paths from A to Z.
        0 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.path.clone()))),
        2 => order_by(|tally| tally.time),
        3 => order_by(|tally| tally.transactions),
        4 => order_by(|tally| tally.time / tally.transactions.max(1)),
        5 => order_by(|tally| tally.errors),
        _ => order_by(|tally| tally.bytes),
    }
}

/// The path of the cursor.
pub(in crate::tui) fn chosen_path(app: &App) -> Option<&[u8]> {
    let row = app.side().tables.files.get(*sorted(app).get(app.table().at)?)?;
    Some(&row.path)
}

/// The same as text.
pub(in crate::tui) fn chosen(app: &App) -> Option<String> {
    let mut text = String::new();
    units::path(chosen_path(app)?, &app.signs.glyphs, &mut text);
    Some(text)
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let tables = &app.side().tables;
    let (count, forgotten) = tables.files_count;
    let mut text = format!("{} {}", grouped(count as u64), if count == 1 { "file" } else { "files" });
    if forgotten > 0 {
        text += &format!(", {} more that did little were forgotten", grouped(forgotten));
    }
    if tables.files.len() < count {
        text += &format!("; the {} busiest are listed", grouped(tables.files.len() as u64));
    }
    put(buffer, head, 0, &Line::styled(text, app.theme.dim));
    let order = sorted(app);
    table::draw(app, buffer, area, COLUMNS, &order, cells);
}

fn cells(app: &App, at: usize) -> Vec<Cell> {
    let Some(row) = app.side().tables.files.get(at) else { return Vec::new() };
    let plain = Style::new();
    let time = |ns| Duration(ns, app.signs.glyphs).to_string();
    let mut path = String::new();
    units::path(&row.path, &app.signs.glyphs, &mut path);
    let tally = row.tally;
    let errors = if tally.errors > 0 { grouped(tally.errors) } else { String::new() };
    vec![
        (path, app.theme.heading),
        (Bytes(tally.bytes).to_string(), plain),
        (time(tally.time), plain),
        (grouped(tally.transactions), plain),
        (time(tally.time / tally.transactions.max(1)), plain),
        (errors, app.theme.error),
    ]
}
