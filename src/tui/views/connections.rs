//! Connections: their ends, what went over them, and the credits of the chosen one over time.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::analysis::lives::ConnectionRow;
use crate::output::connections;
pub(crate) use crate::output::connections::COLUMNS;
use crate::output::units::Duration;
use crate::tui::app::App;

use super::table::{self, Cell, order};
use super::wrapping::wrapped;
use super::{charts, cut_bottom, cut_top, grouped, put, rule};

fn sorted(app: &App) -> Vec<usize> {
    let (table, rows) = (app.table(), &app.side().tables.connections);
    let of = |key: fn(&ConnectionRow) -> u64| order(rows.len(), table, |at| rows.get(at).map(key));
    match table.sort {
        0 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| ends(app, row)))),
        1 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.tally.name.number))),
        2 => order(rows.len(), table, |at| {
            std::cmp::Reverse(rows.get(at).map(|row| row.tally.name.transport.to_string()))
        }),
        3 => of(|row| row.tally.transactions),
        5 => of(|row| row.tally.incomplete),
        6 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(ConnectionRow::word))),
        7 => of(|row| u64::from(row.tally.granted)),
        8 => {
            order(rows.len(), table, |at| rows.get(at).map(|row| (row.in_use().unwrap_or(0.0) * 1e6) as u64))
        }
        _ => of(|row| row.tally.bytes),
    }
}

fn row(app: &App) -> Option<&ConnectionRow> {
    app.side().tables.connections.get(*sorted(app).get(app.table().at)?)
}

/// The number of the connection of the cursor.
pub(in crate::tui) fn chosen(app: &App) -> Option<u64> {
    row(app).map(|row| row.tally.name.number)
}

/// Its two ends.
pub(in crate::tui) fn chosen_ends(app: &App) -> Option<String> {
    row(app).map(|row| ends(app, row))
}

fn ends(app: &App, row: &ConnectionRow) -> String {
    connections::ends(&row.tally.name, app.signs.glyphs)
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let tables = &app.side().tables;
    let count = tables.connections_count;
    let mut text = format!("{} {}", grouped(count), if count == 1 { "connection" } else { "connections" });
    if (tables.connections.len() as u64) < tables.connections_count {
        text += &format!("; the {} with the most bytes are listed", grouped(tables.connections.len() as u64));
    }
    put(buffer, head, 0, &Line::styled(text, app.theme.dim));
    let chart = if area.height >= 14 { (area.height / 3).clamp(7, 15) } else { 0 };
    let (area, below) = cut_bottom(area, chart);
    let order = sorted(app);
    table::draw(app, buffer, area, COLUMNS, &order, cells);
    if chart > 0 {
        credits(app, buffer, below);
    }
}

fn cells(app: &App, at: usize) -> Vec<Cell> {
    let Some(row) = app.side().tables.connections.get(at) else { return Vec::new() };
    let style = |at| match at {
        0 => app.theme.heading,
        1 | 6 => app.theme.dim,
        5 => app.theme.notice,
        _ => Style::new(),
    };
    let cells = connections::cells(row, app.signs.glyphs);
    cells.into_iter().enumerate().map(|(at, cell)| (cell, style(at))).collect()
}

/// What was granted, step by step: what was said last holds until something else is.
fn held(granted: impl Iterator<Item = u32>) -> Vec<f64> {
    let mut last = 0;
    let held = granted.map(|granted| {
        if granted > 0 {
            last = granted;
        }
        f64::from(last)
    });
    held.collect()
}

/// The credits of the connection of the cursor: those that were granted, and below them Calls under way, as columns.
fn credits(app: &App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let row = row(app);
    let Some((row, credits)) = row.and_then(|row| Some((row, row.credits.as_ref()?))) else {
        rule(app, buffer, head, "Credits", "", false);
        let text = "a connection without RDMA has no credits";
        return put(buffer, area, 0, &Line::styled(text, app.theme.dim));
    };
    let series = &credits.0;
    let width = series.width() as f64;
    let values: Vec<f64> = series.steps().iter().map(|step| step.busy as f64 / width).collect();
    let title = format!("Credits of connection {}", row.tally.name.number);
    let step = format!("peaks of {}", Duration(series.width(), app.signs.glyphs));
    let axis = charts::Axis::of(app, series);
    rule(app, buffer, head, &title, &step, false);
    let (asked, granted) = (row.tally.asked, row.tally.granted);
    let most = values.iter().copied().fold(0.0, f64::max);
    let text = Line::from(vec![
        Span::styled(format!("granted {granted}"), app.theme.reply),
        Span::raw(format!(", asked for {asked}; ")),
        Span::styled(format!("Calls under way, at most {most:.2}"), app.theme.call),
    ]);
    let (told, area) = cut_top(area, 1);
    put(buffer, told, 0, &text);
    let said = wrapped(&connections::terms(row), usize::from(area.width));
    let (place, area) = cut_top(area, said.len().min(2) as u16);
    for (line, text) in said.into_iter().enumerate() {
        put(buffer, place, line, &Line::styled(text, app.theme.dim));
    }
    let (area, above) = if area.height >= 8 {
        let (above, below) = cut_top(area, 3);
        (below, above)
    } else {
        (area, Rect { height: 0, ..area })
    };
    if above.height > 0 {
        let granted: Vec<f64> = held(series.steps().iter().map(|step| step.granted));
        charts::columns(app, buffer, above, (&granted, axis), app.theme.reply, |value| format!("{value:.0}"));
    }
    charts::columns(app, buffer, area, (&values, axis), app.theme.call, |value| format!("{value:.1}"));
}
