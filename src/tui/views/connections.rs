//! Connections: their ends, what went over them, and the credits of the chosen one over time.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use nfsrdma_dissectors::flow::Service;
use nfsrdma_dissectors::flow::transaction::{ConnectionName, Endpoint};
use nfsrdma_dissectors::rpcrdma::PrivateData;

use crate::output::units::{Bytes, Duration};
use crate::tui::app::App;
use crate::tui::model::tables::ConnectionRow;

use super::table::{self, Cell, Column, number, order, text};
use super::{charts, cut_bottom, cut_top, grouped, put, rule};

/// Its columns.
pub(crate) const COLUMNS: &[Column] = &[
    text("CONNECTION", 30),
    number("CONN", 6, 60),
    Column { name: "TRANSPORT", width: 10, from: 70, is_number: false },
    number("TRANSACTIONS", 12, 0),
    number("BYTES", 7, 0),
    number("INCOMPLETE", 10, 84),
    Column { name: "STATE", width: 8, from: 110, is_number: false },
    number("GRANTED", 7, 100),
    number("IN USE", 7, 100),
];

fn sorted(app: &App) -> Vec<usize> {
    let (table, rows) = (app.table(), &app.side().tables.connections);
    let of = |key: fn(&ConnectionRow) -> u64| order(rows.len(), table, |at| rows.get(at).map(key));
    match table.sort {
        0 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| ends(app, &row.name)))),
        1 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.name.number))),
        2 => order(rows.len(), table, |at| {
            std::cmp::Reverse(rows.get(at).map(|row| row.name.transport.to_string()))
        }),
        3 => of(|row| row.transactions),
        5 => of(|row| row.incomplete),
        6 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(state))),
        7 => of(|row| u64::from(granted(row))),
        8 => order(rows.len(), table, |at| rows.get(at).map(|row| (used(row) * 1e6) as u64)),
        _ => of(|row| row.bytes),
    }
}

fn row(app: &App) -> Option<&ConnectionRow> {
    app.side().tables.connections.get(*sorted(app).get(app.table().at)?)
}

/// The number of the connection of the cursor.
pub(in crate::tui) fn chosen(app: &App) -> Option<u64> {
    row(app).map(|row| row.name.number)
}

/// Its two ends.
pub(in crate::tui) fn chosen_ends(app: &App) -> Option<String> {
    row(app).map(|row| ends(app, &row.name))
}

/// Whether its set-up and its end were seen.
fn state(row: &ConnectionRow) -> &'static str {
    match row.state {
        Some(state) if state.is_ending => "ended",
        Some(state) if state.terms.is_some() => "set up",
        _ => "open",
    }
}

/// What its set-up said: what was connected to, and the private data of RFC 8797 with the inline thresholds.
fn terms(row: &ConnectionRow) -> String {
    let Some(terms) = row.state.and_then(|state| state.terms) else {
        return "its set-up is not in the capture".to_owned();
    };
    let side = |name: &str, data: Option<PrivateData>| match data {
        Some(data) => {
            let (send, receive) = (data.send_threshold(), data.receive_threshold());
            let invalidates = if data.remote_invalidation { ", remote invalidation" } else { "" };
            format!("{name} sends {send} and receives {receive} bytes inline{invalidates}")
        }
        None => format!("{name} says nothing (1024 bytes inline)"),
    };
    let service = match terms.service {
        Service::Port(port) => format!("port {}", port.0),
        Service::Id(_, Some(ip)) => format!("port {}", ip.destination_port.0),
        Service::Id(id, None) => match id.ip_port() {
            Some((_, port)) => format!("port {}", port.0),
            None => format!("service 0x{:016x}", id.0),
        },
    };
    format!("{service}: {}; {}", side("client", terms.client), side("server", terms.server))
}

/// The most credits that were granted.
fn granted(row: &ConnectionRow) -> u32 {
    let steps = row.credits.iter().flat_map(|credits| credits.0.steps());
    steps.map(|step| step.granted).max().unwrap_or(0)
}

/// Calls under way: the largest mean of a step.
fn used(row: &ConnectionRow) -> f64 {
    let Some(credits) = &row.credits else { return 0.0 };
    let busiest = credits.0.steps().iter().map(|step| step.busy).max().unwrap_or(0);
    busiest as f64 / credits.0.width() as f64
}

fn ends(app: &App, name: &ConnectionName) -> String {
    let end = |end: &Endpoint| match end.port {
        Some(port) if name.transport.has_ports() => format!("{}:{port}", end.address),
        Some(port) => format!("{} QP {port}", end.address),
        None => end.address.to_string(),
    };
    format!("{} {} {}", end(&name.client), app.signs.glyphs.to, end(&name.server))
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let tables = &app.side().tables;
    let mut text = format!("{} connections", grouped(tables.connections_count));
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
    let plain = Style::new();
    let incomplete = if row.incomplete > 0 { grouped(row.incomplete) } else { String::new() };
    let (granted, used) = match granted(row) {
        0 => (String::new(), String::new()),
        granted => (granted.to_string(), format!("{:.1}", used(row))),
    };
    vec![
        (ends(app, &row.name), app.theme.heading),
        (row.name.number.to_string(), app.theme.dim),
        (row.name.transport.to_string(), plain),
        (grouped(row.transactions), plain),
        (Bytes(row.bytes).to_string(), plain),
        (incomplete, app.theme.notice),
        (state(row).to_owned(), app.theme.dim),
        (granted, plain),
        (used, plain),
    ]
}

/// The credits of the connection of the cursor: Calls under way as columns, and how many were granted.
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
    let title = format!("Credits of connection {}", row.name.number);
    let step = format!("a step is {}", Duration(series.width(), app.signs.glyphs));
    rule(app, buffer, head, &title, &step, false);
    let asked = series.steps().iter().map(|step| step.asked).max().unwrap_or(0);
    let most = values.iter().copied().fold(0.0, f64::max);
    let text = Line::from(vec![
        Span::raw(format!("granted at most {}, asked for at most {asked}; ", granted(row))),
        Span::styled("Calls under way, mean of a step", app.theme.call),
        Span::raw(format!(", at most {most:.2}")),
    ]);
    let (told, area) = cut_top(area, 1);
    put(buffer, told, 0, &text);
    let (said, area) = cut_top(area, 1);
    put(buffer, said, 0, &Line::styled(terms(row), app.theme.dim));
    charts::columns(app, buffer, area, &values, app.theme.call, |value| format!("{value:.1}"));
}
