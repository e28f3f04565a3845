//! Operations, like top: counts, rates, latencies and errors.

use nfsrdma_dissectors::flow::transaction_message_decoding::ProcedureOrMainOperation;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::output::operation_statistics::recovery_text;
use crate::output::style::columns as width_of;
use crate::output::units::{ByteRate, EventRateText, HumanDuration, HumanSize};
use crate::tui::app::{App, MarkedRow};
use crate::tui::model::statistics_snapshot::DisplayedStatistics;
use nfsrdma_analysis::operation_statistics::{LatencySpread, OperationStats};
use nfsrdma_analysis::rates::RatesByWindow;

use super::line_wrap::wrapped_parts;
use super::table::{self, TableView, TableViewColumn, TuiTableCell, name, number, order, text};
use super::{cut_top, draw_text, grouped, known};

/// The columns. Rates are Transactions ended per second, in windows of 1, 10 and 60 s.
pub(in crate::tui) const COLUMNS: &[TableViewColumn] = &[
    name("OPERATION"),
    text("PROGRAM", 10, 8),
    number("CALLS", 7, 1),
    number("/S 1S", 6, 2),
    number("/S 10S", 6, 4),
    number("/S 60S", 6, 6),
    number("ERRORS", 6, 1),
    number("P50", 7, 3),
    number("P90", 7, 7),
    number("P99", 7, 3),
    number("MAX", 7, 5),
    number("TIME%", 5, 7),
    number("RECOVERY", 8, 8),
    number("IN", 8, 6),
    number("OUT", 8, 6),
    number("B/S 10S", 8, 5),
];

/// The table of operations.
#[derive(Debug)]
pub(in crate::tui) struct OperationsView;

fn rates(app: &App, row: &OperationStats) -> RatesByWindow {
    app.rates().operations.get(&row.key).copied().unwrap_or_default()
}

impl TableView for OperationsView {
    fn columns(&self) -> &'static [TableViewColumn] {
        COLUMNS
    }

    fn len(&self, app: &App) -> usize {
        app.displayed_pass().tables.operations.len()
    }

    fn order(&self, app: &App) -> Vec<usize> {
        let (rows, table) = (&app.displayed_pass().tables.operations, app.table());
        let latency =
            |row: &OperationStats, of: fn(&LatencySpread) -> u64| row.latency.as_ref().map_or(0, of);
        match table.sort {
            // Names from A to Z.
            0 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.name()))),
            1 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.program()))),
            sort => order(rows.len(), table, |at| {
                rows.get(at).map(|row| match sort {
                    3..=5 => {
                        let rate = rates(app, row).get(sort - 3).map_or(0.0, |rate| rate.transactions);
                        rate_key(rate)
                    }
                    6 => row.errors,
                    7 => latency(row, |all| all.p50),
                    8 => latency(row, |all| all.p90),
                    9 => latency(row, |all| all.p99),
                    10 => latency(row, |all| all.max),
                    11 => latency(row, |all| all.sum),
                    12 => row.recovery_ns,
                    13 => row.bytes_in,
                    14 => row.bytes_out,
                    15 => rate_key(rates(app, row)[1].bytes),
                    _ => row.calls,
                })
            }),
        }
    }

    fn cells(&self, app: &App, row: usize) -> Vec<TuiTableCell> {
        let tables = &app.displayed_pass().tables;
        let Some(row) = tables.operations.get(row) else { return Vec::new() };
        let (theme, glyphs) = (&app.theme, app.tui_glyphs.glyphs);
        let plain = Style::new();
        let time = |of: fn(&LatencySpread) -> u64| {
            row.latency
                .as_ref()
                .map_or(String::new(), |latency| HumanDuration(of(latency), glyphs).to_string())
        };
        let rates = rates(app, row);
        let is_known = app.complete_windows();
        let rate = |at: usize| known(is_known[at], EventRateText(rates[at].transactions));
        let byte_rate = known(is_known[1], HumanSize(rates[1].bytes as u64));
        let errors = if row.errors > 0 { grouped(row.errors) } else { String::new() };
        vec![
            (row.name(), theme.heading),
            (row.program(), theme.dim),
            (grouped(row.calls), plain),
            (rate(0), plain),
            (rate(1), plain),
            (rate(2), plain),
            (errors, theme.error),
            (time(|latency| latency.p50), plain),
            (time(|latency| latency.p90), plain),
            (time(|latency| latency.p99), plain),
            (time(|latency| latency.max), plain),
            (format!("{:.1}", tables.totals().share(row)), plain),
            (recovery_text(row.recovery_ns, glyphs), theme.error),
            (HumanSize(row.bytes_in).to_string(), plain),
            (HumanSize(row.bytes_out).to_string(), plain),
            (byte_rate, plain),
        ]
    }

    fn value(&self, app: &App, row: usize) -> Option<String> {
        app.displayed_pass().tables.operations.get(row).map(OperationStats::name)
    }

    fn filter(&self, app: &App, row: usize) -> Option<String> {
        app.displayed_pass().tables.operations.get(row).map(filter_for)
    }

    fn mark(&self, app: &App, row: usize) -> Option<MarkedRow> {
        app.displayed_pass().tables.operations.get(row).map(|row| MarkedRow::Operation(row.key))
    }
}

/// Returns the filter for an operation, including program and version: others have operations of the same name.
pub(super) fn filter_for(row: &OperationStats) -> String {
    let mut filter = match row.key.operation {
        Some(ProcedureOrMainOperation::Named(name)) => format!("nfsrdma.operation == \"{name}\""),
        Some(ProcedureOrMainOperation::Number(number)) => format!("nfsrdma.operation == \"{number}\""),
        None => "!nfsrdma.operation".to_owned(),
    };
    if let Some(program) = row.key.program {
        filter += &format!(" && nfsrdma.program == \"{program}\"");
    }
    if let Some(version) = row.key.version {
        filter += &format!(" && nfsrdma.version == {version}");
    }
    filter
}

/// Converts a rate to a sort key.
pub(super) fn rate_key(rate: f64) -> u64 {
    (rate * 1e6) as u64
}

/// Returns a one-line summary of the capture.
pub(super) fn summary(tables: &DisplayedStatistics, app: &App) -> String {
    let (frames, bytes) = tables.frames;
    let (transactions, incomplete) = tables.transactions;
    let seconds = tables.seconds();
    let in_flight = app.displayed_pass().activity.pending_count as u64;
    let complete = match (incomplete, in_flight) {
        (0, 0) => "all complete".to_owned(),
        (0, count) => format!("{} in flight", grouped(count)),
        (count, 0) => format!("{} incomplete", grouped(count)),
        (count, more) => format!("{} incomplete, {} in flight", grouped(count), grouped(more)),
    };
    let rate = match seconds > 0.0 {
        true => {
            format!(
                ", mean {}/s, {}",
                grouped((transactions as f64 / seconds).round() as u64),
                ByteRate(bytes as f64 / seconds)
            )
        }
        false => String::new(),
    };
    let recovery = match tables.recovery_ns() {
        0 => String::new(),
        ns => format!(", {} in recovery", HumanDuration(ns, app.tui_glyphs.glyphs)),
    };
    let given_up = match tables.evicted_count {
        0 => String::new(),
        count => format!(" {} {} dropped", app.tui_glyphs.separator, grouped(count)),
    };
    format!(
        "{} {} ({complete}), {} {}, {} in {}{rate}{recovery}{given_up}",
        grouped(transactions),
        if transactions == 1 { "Transaction" } else { "Transactions" },
        grouped(frames),
        if frames == 1 { "frame" } else { "frames" },
        HumanSize(bytes),
        HumanDuration((seconds * 1e9) as u64, app.tui_glyphs.glyphs),
    )
}

/// Draws the summary of the capture and, if live, the packet drops. Returns the rest of the area.
pub(super) fn draw_head(app: &App, buffer: &mut Buffer, area: Rect) -> Rect {
    let mut lines: Vec<_> =
        wrapped_parts(&summary(&app.displayed_pass().tables, app), usize::from(area.width))
            .into_iter()
            .map(|line| Line::styled(line, app.theme.dim))
            .collect();
    if let Some(counters) = app.unfiltered.progress.counters {
        let [kernel, interface, here] =
            [counters.dropped_by_kernel, counters.dropped_by_interface, counters.dropped_by_program];
        let style = if counters.dropped() > 0 { app.theme.error } else { app.theme.dim };
        let text = format!(
            "dropped: {} by the kernel, {} by the interface, {} here",
            grouped(kernel),
            grouped(interface),
            grouped(here)
        );
        let text = wrapped_parts(&text, usize::from(area.width));
        lines.extend(text.into_iter().map(|line| Line::styled(line, style)));
    }
    lines.extend(rates_lines(app, usize::from(area.width)));
    let (place, rest) = cut_top(area, lines.len() as u16);
    for (line, text) in lines.iter().enumerate() {
        draw_text(buffer, place, line, text);
    }
    rest
}

/// Returns the total rates per window: current ones while frames arrive, otherwise around the cursor. On a narrow
/// screen each window has a line.
fn rates_lines(app: &App, width: usize) -> Vec<Line<'static>> {
    let rates = app.total_rates();
    let is_zero = |at: usize| rates[at].is_none_or(|rate| rate.transactions == 0.0);
    let (title, style) = match (app.is_live(), app.rates_time(), app.unfiltered.tables.times) {
        (true, ..) if is_zero(0) && !is_zero(2) => ("stalled".to_owned(), app.theme.error),
        (true, ..) => ("now".to_owned(), app.theme.notice),
        (false, Some(middle), Some((start, _))) => {
            let at = HumanDuration(middle.nanoseconds_since(start).unwrap_or(0), app.tui_glyphs.glyphs);
            (format!("around {at}"), app.theme.dim)
        }
        (false, ..) => return Vec::new(),
    };
    let windows = ["1 s", "10 s", "60 s"];
    let parts = rates.iter().zip(windows).map(|(rate, window)| match rate {
        Some(rate) => format!("  {window}: {}/s {}", EventRateText(rate.transactions), ByteRate(rate.bytes)),
        None => format!("  {window}: -"),
    });
    let mut lines = vec![Line::styled(title, style)];
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.width() + width_of(&part) <= width => line.push_span(Span::raw(part)),
            _ => lines.push(Line::raw(part)),
        }
    }
    lines
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let area = draw_head(app, buffer, area);
    table::draw(app, &OperationsView, buffer, area);
}
