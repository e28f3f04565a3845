//! Connections: their endpoints and statistics, and the credits of the chosen one over time.

use nfsrdma_analysis::connection_states_and_credits::ConnectionStats;
use nfsrdma_analysis::filter::derived_fields::GeneratedField;
use nfsrdma_analysis::load_over_time::{CreditSeries, TimeAtLimit};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::charts;
use super::drawing_primitives::{cut_bottom, cut_left, cut_top, draw_text, grouped, rule};
use super::line_wrap::wrapped;
use super::table::{
    self, DIM, ERROR, NOTICE, PLAIN, TableCell, TableColumn, TableRows, TableView as _, name, number, text,
};
use crate::output::connections;
use crate::output::units::HumanDuration;
use crate::tui::app::application_state::App;
use crate::tui::app::marked_row::MarkedRow;

/// Width of the state, as [`short_state`] writes it.
const STATE_COLUMNS: usize = 6;

/// Abbreviates the state of a connection as ss(8) does.
fn short_state(state: &str) -> &str {
    if state == "established" { "estab" } else { state }
}

/// The table of connections.
#[derive(Debug)]
pub(in crate::tui) struct ConnectionsView;

fn rate(app: &App, row: &ConnectionStats, window: usize) -> TableCell {
    let rates = app.rates().connections.get(&row.tally.name.number).copied().unwrap_or_default();
    TableCell::rate(app, &rates, window)
}

/// Returns the largest number of calls in flight, on a connection with credits.
fn in_use(row: &ConnectionStats) -> Option<u64> {
    row.in_use().filter(|_| row.has_credits()).map(u64::from)
}

impl TableRows for ConnectionsView {
    type Row = ConnectionStats;

    // Rates are Transactions ended per second, in windows of 1, 10 and 60 s.
    const COLUMNS: &'static [TableColumn<ConnectionStats>] = &[
        name("CONNECTION", |app, row| TableCell::Text(ends(app, row))),
        number("CONN", 4, 1, DIM, |_, row| TableCell::Identifier(row.tally.name.number)),
        text("TRANSPORT", 10, 9, DIM, |_, row| TableCell::Text(row.tally.name.transport.to_string())),
        number("TRANSACTIONS", 12, 4, PLAIN, |_, row| TableCell::Count(Some(row.tally.transactions))),
        number("/S 1S", 6, 5, PLAIN, |app, row| rate(app, row, 0)),
        number("/S 10S", 6, 6, PLAIN, |app, row| rate(app, row, 1)),
        number("/S 60S", 6, 8, PLAIN, |app, row| rate(app, row, 2)),
        number("BYTES", 8, 3, PLAIN, |_, row| TableCell::Bytes(row.tally.bytes)),
        number("INCOMPLETE", 10, 1, NOTICE, |_, row| TableCell::nonzero_count(row.tally.incomplete)),
        text("STATE", STATE_COLUMNS, 2, DIM, |_, row| TableCell::Text(short_state(row.state_name()).to_owned())),
        number("GRANTED", 7, 2, PLAIN, |_, row| {
            let (smallest, largest) = row.grants();
            TableCell::Grants(smallest, largest)
        }),
        number("IN USE", 6, 2, PLAIN, |_, row| TableCell::Count(in_use(row))),
        number("AT LIMIT", 8, 4, ERROR, |_, row| TableCell::AtLimit(row.time_at_limit())),
        number("RECOVERY", 8, 5, ERROR, |_, row| TableCell::nonzero_time_ns(row.tally.recovery_ns)),
        text("DIALECT", 9, 10, DIM, |_, row| {
            TableCell::Text(row.tally.dialect.map_or(String::new(), |dialect| dialect.to_string()))
        }),
    ];

    fn rows(app: &App) -> &[ConnectionStats] {
        &app.displayed_pass().tables.connections
    }

    fn filter(row: &ConnectionStats) -> String {
        format!("{} == {}", GeneratedField::Connection, row.tally.name.number)
    }

    fn mark(row: &ConnectionStats) -> MarkedRow {
        MarkedRow::Connection(row.tally.name.number)
    }
}

fn chosen_row(app: &App) -> Option<&ConnectionStats> {
    app.displayed_pass().tables.connections.get(*ConnectionsView.order(app).get(app.table().at)?)
}

fn ends(app: &App, row: &ConnectionStats) -> String {
    connections::format_endpoints(&row.tally.name, app.tui_glyphs.glyphs)
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let tables = &app.displayed_pass().tables;
    let count = tables.connections_count;
    let mut text = format!("{} {}", grouped(count), if count == 1 { "connection" } else { "connections" });
    if (tables.connections.len() as u64) < tables.connections_count {
        text += &format!("; the {} with the most bytes are listed", grouped(tables.connections.len() as u64));
    }
    draw_text(buffer, head, 0, &Line::styled(text, app.theme.dim));
    let chart = if area.height >= 14 { (area.height / 3).clamp(7, 15) } else { 0 };
    let (area, below) = cut_bottom(area, chart);
    table::draw(app, &ConnectionsView, buffer, area);
    if chart > 0 {
        credits(app, buffer, below);
    }
}

/// Returns the granted amounts per step; a grant applies until the next one.
fn hold_grants(granted: impl Iterator<Item = u32>) -> Vec<f64> {
    let mut last = 0;
    let amounts = granted.map(|granted| {
        if granted > 0 {
            last = granted;
        }
        f64::from(last)
    });
    amounts.collect()
}

/// Draws the credits of the chosen connection and the slots of its session.
fn credits(app: &App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let row = chosen_row(app);
    let series = |row: &ConnectionStats| {
        let is_rdma = row.tally.name.transport.is_rdma();
        [("credits", row.credits.clone().filter(|_| is_rdma)), ("slots", row.busiest_slots().cloned())]
    };
    let charts: Vec<(&str, CreditSeries)> =
        row.into_iter().flat_map(series).filter_map(|(name, series)| Some((name, series?))).collect();
    let Some((row, (_, first))) = row.zip(charts.first()) else {
        rule(app, buffer, head, "Credits", "", false);
        let text = "no credits (not an RDMA connection), and no call used a session slot";
        return draw_text(buffer, area, 0, &Line::styled(text, app.theme.dim));
    };
    let is_rdma = row.tally.name.transport.is_rdma();
    let title = format!("Connection {}", row.tally.name.number);
    let step = format!("peaks of {}", HumanDuration(first.steps.width(), app.tui_glyphs.glyphs));
    rule(app, buffer, head, &title, &step, false);
    let describe = |row| connections::describe_parameters(row, app.tui_glyphs.glyphs);
    let parameters = if is_rdma { wrapped(&describe(row), usize::from(area.width)) } else { Vec::new() };
    let lines = parameters.len().min(if area.height >= 9 { 2 } else { 0 });
    let (parameters_area, area) = cut_top(area, lines as u16);
    for (line, text) in parameters.into_iter().take(lines).enumerate() {
        draw_text(buffer, parameters_area, line, &Line::styled(text, app.theme.dim));
    }
    // Side by side or stacked; if there is space for only one chart, the credits.
    let chart_areas = match (charts.len(), area.width >= 100, area.height >= 8) {
        (2, true, _) => {
            let (left, right) = cut_left(area, area.width / 2);
            vec![cut_left(left, left.width - 2).0, right]
        }
        (2, false, true) => {
            let (above, below) = cut_bottom(area, area.height / 2);
            vec![above, below]
        }
        _ => vec![area],
    };
    for ((name, series), chart_area) in charts.iter().zip(chart_areas) {
        draw_use(app, buffer, chart_area, name, series);
    }
}

/// Draws the used amount of a limited resource as columns and the grant as a line. Columns are red where the limit was
/// reached.
fn draw_use(app: &App, buffer: &mut Buffer, area: Rect, name: &str, series: &CreditSeries) {
    let steps = series.steps.steps();
    let (max_used, limit) = series.most_in_flight();
    let at_limit = match series.time_at_limit() {
        TimeAtLimit::Never => Span::styled(", never at the limit", app.theme.dim),
        TimeAtLimit::Unknown => Span::raw(""),
        TimeAtLimit::Ns(ns) => {
            Span::styled(format!(", at the limit {}", HumanDuration(ns, app.tui_glyphs.glyphs)), app.theme.error)
        }
    };
    // State now, or at the end of the capture.
    let still = match series.exhausted_since {
        Some(_) if app.displayed_pass().progress.is_over => " to the end",
        Some(_) => ", still",
        None => "",
    };
    let still = Span::styled(still, app.theme.error);
    let granted = match limit {
        0 => Span::styled(", no grant captured before", app.theme.dim),
        limit => Span::styled(format!(" of {limit} granted"), app.theme.reply),
    };
    let used = |text: String| Span::styled(format!("{name}: {text}"), app.theme.call);
    // On a narrow screen, the numbers stay whole.
    let [in_use, of_limit] =
        [" in use", ""].map(|end| Span::styled(granted.content.replace(" granted", end), granted.style));
    let texts = [
        vec![used(format!("at most {max_used} in use")), granted.clone(), at_limit.clone(), still.clone()],
        vec![used(max_used.to_string()), in_use.clone(), at_limit.clone(), still],
        vec![used(max_used.to_string()), in_use, at_limit.clone()],
        match series.at_limit_ns() {
            None => vec![used(format!("at most {max_used} in use")), granted],
            Some(_) => vec![used(max_used.to_string()), of_limit, at_limit],
        },
    ];
    let [long, short, shorter, shortest] = texts.map(Line::from);
    let fits = |line: &Line<'_>| line.width() <= usize::from(area.width);
    let text = [long, short, shorter].into_iter().find(fits).unwrap_or(shortest);
    let (heading, area) = cut_top(area, 1);
    draw_text(buffer, heading, 0, &text);
    let chart = charts::ColumnChart {
        values: steps.iter().map(|step| f64::from(step.in_flight)).collect(),
        style: app.theme.call,
        limits: hold_grants(steps.iter().map(|step| step.granted)),
        is_at_limit: steps.iter().map(|step| step.at_limit_ns > 0).collect(),
        label: &|value| format!("{value:.0}"),
    };
    chart.draw(app, buffer, area, charts::ChartTimeAxis::for_series(app, &series.steps));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_fits_its_column() {
        for state in ["open", "established", "closed"] {
            assert!(short_state(state).len() <= STATE_COLUMNS, "{state}");
        }
    }
}
