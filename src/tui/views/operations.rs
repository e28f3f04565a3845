//! Operations, like top: how many, how fast, how long, how many failed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use crate::output::units::{Bytes, Duration};
use crate::tui::app::{App, View};
use crate::tui::model::tables::{OperationRow, Tables};

use super::table::{self, Cell, Column, number, order, text};
use super::{cut_top, grouped, put};

/// Its columns.
pub(crate) const COLUMNS: &[Column] = &[
    text("OPERATION", 20),
    Column { name: "PROGRAM", width: 10, from: 100, is_number: false },
    number("CALLS", 9, 0),
    number("/S", 7, 60),
    number("ERRORS", 7, 0),
    number("P50", 8, 0),
    number("P90", 8, 90),
    number("P99", 8, 0),
    number("MAX", 8, 70),
    number("TIME%", 6, 110),
    number("IN", 6, 80),
    number("OUT", 6, 80),
    number("IN/S", 6, 130),
    number("OUT/S", 6, 130),
];

fn sorted(app: &App) -> Vec<usize> {
    let tables = &app.side().tables;
    let table = app.table();
    let rows = &tables.operations;
    let latency =
        |row: &OperationRow, at: usize| row.latency.and_then(|all| all.get(at).copied()).unwrap_or(0);
    match table.sort {
        // Names from A to Z.
        0 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.name.clone()))),
        1 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.program.clone()))),
        sort => order(rows.len(), table, |at| {
            rows.get(at).map(|row| match sort {
                4 => row.errors,
                5 => latency(row, 0),
                6 => latency(row, 1),
                7 => latency(row, 2),
                8 => latency(row, 3),
                9 => latency(row, 4),
                10 | 12 => row.bytes_in,
                11 | 13 => row.bytes_out,
                _ => row.calls,
            })
        }),
    }
}

/// The operation of the cursor, here and in the charts.
pub(in crate::tui) fn chosen(app: &App) -> Option<String> {
    let rows = &app.side().tables.operations;
    match app.view {
        View::Charts => rows.get(app.table().at.checked_sub(1)?).map(|row| row.name.clone()),
        _ => rows.get(*sorted(app).get(app.table().at)?).map(|row| row.name.clone()),
    }
}

/// What the whole capture is, in a line.
pub(super) fn summary(tables: &Tables, app: &App) -> String {
    let (frames, bytes) = tables.frames;
    let (transactions, incomplete) = tables.transactions;
    let seconds = tables.seconds();
    let complete = match incomplete {
        0 => "all complete".to_owned(),
        count => format!("{} incomplete", grouped(count)),
    };
    let rate = match seconds > 0.0 {
        true => {
            format!(", {:.0}/s, {}B/s", transactions as f64 / seconds, Bytes((bytes as f64 / seconds) as u64))
        }
        false => String::new(),
    };
    let lost = match app.all.progress.counters {
        Some(counters) => format!(
            " {} dropped: {} by the kernel, {} by the interface, {} here",
            app.signs.dot,
            grouped(counters.dropped_by_kernel),
            grouped(counters.dropped_by_interface),
            grouped(counters.dropped_by_program)
        ),
        None => String::new(),
    };
    let given_up = match tables.given_up {
        0 => String::new(),
        count => format!(" {} {} given up", app.signs.dot, grouped(count)),
    };
    format!(
        "{} Transactions ({complete}), {} frames, {}B in {}{rate}{lost}{given_up}",
        grouped(transactions),
        grouped(frames),
        Bytes(bytes),
        Duration((seconds * 1e9) as u64, app.signs.glyphs),
    )
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let text = summary(&app.side().tables, app);
    put(buffer, head, 0, &Line::styled(text, app.theme.dim));
    let order = sorted(app);
    table::draw(app, buffer, area, COLUMNS, &order, cells);
}

fn cells(app: &App, at: usize) -> Vec<Cell> {
    let tables = &app.side().tables;
    let Some(row) = tables.operations.get(at) else { return Vec::new() };
    let plain = Style::new();
    let glyphs = app.signs.glyphs;
    let seconds = tables.seconds();
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let all: u64 =
        tables.operations.iter().filter_map(|row| Some(row.latency?[4])).fold(0, u64::saturating_add);
    let latency = |at: usize| {
        let value = row.latency.and_then(|all| all.get(at).copied());
        (value.map_or(String::new(), |ns| Duration(ns, glyphs).to_string()), plain)
    };
    let share = row.latency.map_or(0.0, |latency| latency[4] as f64 / all.max(1) as f64 * 100.0);
    let errors = match row.errors {
        0 => (String::new(), plain),
        count => (grouped(count), app.theme.error),
    };
    vec![
        (row.name.clone(), app.theme.heading),
        (row.program.clone(), app.theme.dim),
        (grouped(row.calls), plain),
        (per_second(rate(row.calls)), plain),
        errors,
        latency(0),
        latency(1),
        latency(2),
        latency(3),
        (format!("{share:.1}"), plain),
        (Bytes(row.bytes_in).to_string(), plain),
        (Bytes(row.bytes_out).to_string(), plain),
        (Bytes(rate(row.bytes_in) as u64).to_string(), plain),
        (Bytes(rate(row.bytes_out) as u64).to_string(), plain),
    ]
}

/// A rate with as many digits as matter.
fn per_second(rate: f64) -> String {
    match rate {
        ..0.095 => format!("{rate:.3}"),
        ..9.95 => format!("{rate:.2}"),
        ..99.5 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}
