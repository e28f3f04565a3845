//! Connections: their endpoints and statistics, and the credits of the chosen one over time.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::output::connections;
use crate::output::units::{EventRateText, HumanDuration};
use crate::tui::app::{App, MarkedRow};
use nfsrdma_analysis::connection_states_and_credits::ConnectionStats;
use nfsrdma_analysis::load_over_time::{CreditSample, CreditSeries};
use nfsrdma_analysis::rates::RatesByWindow;

use super::line_wrap::wrapped;
use super::operations::rate_key;
use super::table::{self, TableView, TableViewColumn, TuiTableCell, name, number, order, text};
use super::{charts, cut_bottom, cut_left, cut_top, draw_text, grouped, known, rule};

/// Width of the state, as [`short_state`] writes it.
const STATE_COLUMNS: usize = 6;

/// The columns. Rates are Transactions ended per second, in windows of 1, 10 and 60 s.
pub(in crate::tui) const COLUMNS: &[TableViewColumn] = &[
    name("CONNECTION"),
    number("CONN", 4, 1),
    text("TRANSPORT", 10, 9),
    number("TRANSACTIONS", 12, 4),
    number("/S 1S", 6, 5),
    number("/S 10S", 6, 6),
    number("/S 60S", 6, 8),
    number("BYTES", 8, 3),
    number("INCOMPLETE", 10, 1),
    text("STATE", STATE_COLUMNS, 2),
    number("GRANTED", 7, 2),
    number("IN USE", 6, 2),
    number("AT LIMIT", 8, 4),
    number("RECOVERY", 8, 5),
    text("DIALECT", 9, 10),
];

/// Abbreviates the state of a connection as ss(8) does.
fn short_state(state: String) -> String {
    if state == "established" { "estab".into() } else { state }
}

/// The table of connections.
#[derive(Debug)]
pub(in crate::tui) struct ConnectionsView;

fn rates(app: &App, row: &ConnectionStats) -> RatesByWindow {
    app.rates().connections.get(&row.tally.name.number).copied().unwrap_or_default()
}

impl TableView for ConnectionsView {
    fn columns(&self) -> &'static [TableViewColumn] {
        COLUMNS
    }

    fn len(&self, app: &App) -> usize {
        app.displayed_pass().tables.connections.len()
    }

    fn order(&self, app: &App) -> Vec<usize> {
        let (table, rows) = (app.table(), &app.displayed_pass().tables.connections);
        let of = |key: fn(&ConnectionStats) -> u64| order(rows.len(), table, |at| rows.get(at).map(key));
        match table.sort {
            0 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| ends(app, row)))),
            1 => order(rows.len(), table, |at| {
                std::cmp::Reverse(rows.get(at).map(|row| row.tally.name.number))
            }),
            2 => order(rows.len(), table, |at| {
                std::cmp::Reverse(rows.get(at).map(|row| row.tally.name.transport.to_string()))
            }),
            3 => of(|row| row.tally.transactions),
            sort @ 4..=6 => order(rows.len(), table, |at| {
                let row = rows.get(at)?;
                rates(app, row).get(sort - 4).map(|rate| rate_key(rate.transactions))
            }),
            8 => of(|row| row.tally.incomplete),
            9 => order(rows.len(), table, |at| {
                std::cmp::Reverse(rows.get(at).map(ConnectionStats::state_name))
            }),
            10 => of(|row| u64::from(row.tally.granted_credits)),
            11 => order(rows.len(), table, |at| rows.get(at).map(|row| u64::from(row.in_use().unwrap_or(0)))),
            12 => of(|row| row.at_limit_ns().unwrap_or(0)),
            13 => of(|row| row.tally.recovery_ns),
            14 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.tally.dialect))),
            _ => of(|row| row.tally.bytes),
        }
    }

    fn cells(&self, app: &App, row: usize) -> Vec<TuiTableCell> {
        let Some(row) = app.displayed_pass().tables.connections.get(row) else { return Vec::new() };
        let [
            ends,
            number,
            transport,
            dialect,
            transactions,
            bytes,
            incomplete,
            state,
            granted,
            used,
            recovery,
        ] = connections::cells(row, app.tui_glyphs.glyphs);
        let at_limit = match row.at_limit_ns() {
            Some(ns) if ns > 0 => HumanDuration(ns, app.tui_glyphs.glyphs).to_string(),
            _ => String::new(),
        };
        let rates = rates(app, row);
        let is_known = app.complete_windows();
        let rate = |at: usize| known(is_known[at], EventRateText(rates[at].transactions));
        let (theme, plain) = (&app.theme, Style::new());
        vec![
            (ends, theme.heading),
            (number, theme.dim),
            (transport, theme.dim),
            (transactions, plain),
            (rate(0), plain),
            (rate(1), plain),
            (rate(2), plain),
            (bytes, plain),
            (incomplete, theme.notice),
            (short_state(state), theme.dim),
            (granted, plain),
            (used, plain),
            (at_limit, theme.error),
            (recovery, theme.error),
            (dialect, theme.dim),
        ]
    }

    fn value(&self, app: &App, row: usize) -> Option<String> {
        app.displayed_pass().tables.connections.get(row).map(|row| ends(app, row))
    }

    fn filter(&self, app: &App, row: usize) -> Option<String> {
        let row = app.displayed_pass().tables.connections.get(row)?;
        Some(format!("nfsrdma.connection == {}", row.tally.name.number))
    }

    fn mark(&self, app: &App, row: usize) -> Option<MarkedRow> {
        app.displayed_pass()
            .tables
            .connections
            .get(row)
            .map(|row| MarkedRow::Connection(row.tally.name.number))
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
    let held = granted.map(|granted| {
        if granted > 0 {
            last = granted;
        }
        f64::from(last)
    });
    held.collect()
}

/// Draws the credits of the chosen connection and the slots of its session.
fn credits(app: &App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let row = chosen_row(app);
    let Some((row, credits)) = row.and_then(|row| Some((row, row.credits.as_ref()?))) else {
        rule(app, buffer, head, "Credits", "", false);
        let text = "no credits (not an RDMA connection), and no Call used a session slot";
        return draw_text(buffer, area, 0, &Line::styled(text, app.theme.dim));
    };
    let is_rdma = row.tally.name.transport.is_rdma();
    let title = format!("Connection {}", row.tally.name.number);
    let step = format!("peaks of {}", HumanDuration(credits.0.width(), app.tui_glyphs.glyphs));
    rule(app, buffer, head, &title, &step, false);
    let said = if is_rdma {
        wrapped(&connections::describe_parameters(row), usize::from(area.width))
    } else {
        Vec::new()
    };
    let lines = said.len().min(if area.height >= 9 { 2 } else { 0 });
    let (place, area) = cut_top(area, lines as u16);
    for (line, text) in said.into_iter().take(lines).enumerate() {
        draw_text(buffer, place, line, &Line::styled(text, app.theme.dim));
    }
    let mut charts: Vec<CreditResourceChart<'_>> = Vec::new();
    if is_rdma {
        charts.push(CreditResourceChart {
            name: "credits",
            used: &|step| step.in_flight,
            granted: &|step| step.granted,
            at_limit_ns: &|step| step.at_limit_ns,
        });
    }
    if credits.has_slots() {
        charts.push(CreditResourceChart {
            name: "slots",
            used: &|step| step.slots,
            granted: &|step| step.granted_slots,
            at_limit_ns: &|step| step.slots_at_limit_ns,
        });
    }
    // Side by side or stacked; if there is space for only one chart, the credits.
    let places = match (charts.len(), area.width >= 100, area.height >= 8) {
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
    for (limit, place) in charts.iter().zip(places) {
        limit.draw(app, buffer, place, credits);
    }
}

/// A limited resource: used up to a granted amount.
struct CreditResourceChart<'f> {
    name: &'static str,
    used: &'f dyn Fn(&CreditSample) -> u32,
    granted: &'f dyn Fn(&CreditSample) -> u32,
    at_limit_ns: &'f dyn Fn(&CreditSample) -> u64,
}

impl CreditResourceChart<'_> {
    /// Draws the used amount as columns and the grant as a line. Columns are red where the limit was reached.
    fn draw(&self, app: &App, buffer: &mut Buffer, area: Rect, credits: &CreditSeries) {
        let steps = credits.0.steps();
        let (most, granted) = (credits.max_of(self.used), credits.max_of(self.granted));
        let at_limit_ns = credits.time_ns(self.at_limit_ns);
        let at_limit = match at_limit_ns {
            0 => Span::styled(", never at the limit", app.theme.dim),
            ns => Span::styled(
                format!(", at the limit {}", HumanDuration(ns, app.tui_glyphs.glyphs)),
                app.theme.error,
            ),
        };
        let text = Line::from(vec![
            Span::styled(format!("{}: at most {most} in use", self.name), app.theme.call),
            Span::raw(" of "),
            Span::styled(format!("{granted} granted"), app.theme.reply),
            at_limit,
        ]);
        let (heading, area) = cut_top(area, 1);
        draw_text(buffer, heading, 0, &text);
        let chart = charts::GrantUsageSeries {
            used: steps.iter().map(|step| f64::from((self.used)(step))).collect(),
            granted: hold_grants(steps.iter().map(|step| (self.granted)(step))),
            is_at_limit: steps.iter().map(|step| (self.at_limit_ns)(step) > 0).collect(),
        };
        chart.draw(app, buffer, area, charts::ChartTimeAxis::for_series(app, &credits.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_fits_its_column() {
        for state in ["open", "established", "closed"] {
            assert!(short_state(state.to_owned()).len() <= STATE_COLUMNS, "{state}");
        }
    }
}
