//! Operations, like top: how many, how fast, how long, how many failed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use crate::analysis::operations::{OperationRow, Spread};
use crate::output::operations;
pub(crate) use crate::output::operations::COLUMNS;
use crate::output::units::{Bytes, Duration};
use crate::tui::app::{App, View};
use crate::tui::model::tables::Tables;

use super::table::{self, Cell, order};
use super::{cut_top, grouped, put};

fn sorted(app: &App) -> Vec<usize> {
    let tables = &app.side().tables;
    let table = app.table();
    let rows = &tables.operations;
    let latency = |row: &OperationRow, of: fn(&Spread) -> u64| row.latency.as_ref().map_or(0, of);
    match table.sort {
        // Names from A to Z.
        0 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.name()))),
        1 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.program()))),
        sort => order(rows.len(), table, |at| {
            rows.get(at).map(|row| match sort {
                4 => row.errors,
                5 => latency(row, |all| all.p50),
                6 => latency(row, |all| all.p90),
                7 => latency(row, |all| all.p99),
                8 => latency(row, |all| all.max),
                9 => latency(row, |all| all.sum),
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
        View::Charts => rows.get(app.table().at.checked_sub(1)?).map(|row| row.name()),
        _ => rows.get(*sorted(app).get(app.table().at)?).map(|row| row.name()),
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
    let cells = operations::cells(row, &tables.whole(), app.signs.glyphs);
    let style = |at| match at {
        0 => app.theme.heading,
        1 => app.theme.dim,
        4 => app.theme.error,
        _ => Style::new(),
    };
    cells.into_iter().enumerate().map(|(at, cell)| (cell, style(at))).collect()
}
