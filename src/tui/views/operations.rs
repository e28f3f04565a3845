//! Operations, like top: how many, how fast, how long, how many failed.

use nfsrdma_dissectors::flow::reading::Operation;
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
use super::wrapping::wrapped;
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

/// The line of the cursor, here and in the charts.
fn row(app: &App) -> Option<&OperationRow> {
    let rows = &app.side().tables.operations;
    match app.view {
        View::Charts => rows.get(app.table().at.checked_sub(1)?),
        _ => rows.get(*sorted(app).get(app.table().at)?),
    }
}

/// The name of the operation of the cursor.
pub(in crate::tui) fn chosen(app: &App) -> Option<String> {
    row(app).map(|row| row.name())
}

/// The filter for its Transactions: other programs and versions have operations of the same name.
pub(in crate::tui) fn chosen_filter(app: &App) -> Option<String> {
    let row = row(app)?;
    let mut filter = match row.key.operation {
        Some(Operation::Named(name)) => format!("nfsrdma.operation == \"{name}\""),
        Some(Operation::Number(number)) => format!("nfsrdma.operation == \"{number}\""),
        None => "!nfsrdma.operation".to_owned(),
    };
    if let Some(program) = row.key.program {
        filter += &format!(" && nfsrdma.program == \"{program}\"");
    }
    if let Some(version) = row.key.version {
        filter += &format!(" && nfsrdma.version == {version}");
    }
    Some(filter)
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
            format!(
                ", {}/s, {}B/s",
                grouped((transactions as f64 / seconds).round() as u64),
                Bytes((bytes as f64 / seconds) as u64)
            )
        }
        false => String::new(),
    };
    let given_up = match tables.given_up {
        0 => String::new(),
        count => format!(" {} {} given up", app.signs.dot, grouped(count)),
    };
    format!(
        "{} {} ({complete}), {} {}, {}B in {}{rate}{given_up}",
        grouped(transactions),
        if transactions == 1 { "Transaction" } else { "Transactions" },
        grouped(frames),
        if frames == 1 { "frame" } else { "frames" },
        Bytes(bytes),
        Duration((seconds * 1e9) as u64, app.signs.glyphs),
    )
}

/// Draws what the whole capture is, and live, by whom packets were dropped; gives what is left of the area.
pub(super) fn head(app: &App, buffer: &mut Buffer, area: Rect) -> Rect {
    let mut lines: Vec<_> = wrapped(&summary(&app.side().tables, app), usize::from(area.width))
        .into_iter()
        .map(|line| Line::styled(line, app.theme.dim))
        .collect();
    if let Some(counters) = app.all.progress.counters {
        let [kernel, interface, here] =
            [counters.dropped_by_kernel, counters.dropped_by_interface, counters.dropped_by_program];
        let style = if counters.dropped() > 0 { app.theme.error } else { app.theme.dim };
        let text = format!(
            "dropped: {} by the kernel, {} by the interface, {} here",
            grouped(kernel),
            grouped(interface),
            grouped(here)
        );
        lines.push(Line::styled(text, style));
    }
    let (place, rest) = cut_top(area, lines.len() as u16);
    for (line, text) in lines.iter().enumerate() {
        put(buffer, place, line, text);
    }
    rest
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let area = head(app, buffer, area);
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
