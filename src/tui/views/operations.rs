//! Operations, like top: counts, rates, latencies and errors.

use nfsrdma_analysis::filter::derived_fields::GeneratedField;
use nfsrdma_analysis::operation_statistics::{LatencySpread, OperationStats};
use nfsrdma_analysis::rates::RatesByWindowLength;
use nfsrdma_analysis::statistics::Completeness;
use nfsrdma_flow::transaction_message_decoding::ProcedureOrMainOperation;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{cut_top, draw_text, grouped};
use super::line_wrap::wrapped_parts;
use super::table::{self, DIM, ERROR, PLAIN, TableCell, TableColumn, TableRows, name, number, text};
use crate::output::style::columns as width_of;
use crate::output::units::{ByteRate, EventRateText, HumanDuration, HumanSize, PluralCount};
use crate::tui::app::application_state::App;
use crate::tui::app::marked_row::MarkedRow;
use crate::tui::model::statistics_snapshot::DisplayedStatistics;

/// The table of operations.
#[derive(Debug)]
pub(in crate::tui) struct OperationsView;

fn rate(app: &App, row: &OperationStats, window: usize) -> TableCell {
    TableCell::rate(app, &rates(app, row), window)
}

fn rates(app: &App, row: &OperationStats) -> RatesByWindowLength {
    app.rates().operations.get(&row.key).copied().unwrap_or_default()
}

fn latency(row: &OperationStats, value_ns: fn(&LatencySpread) -> u64) -> TableCell {
    TableCell::TimeNs(row.latency.as_ref().map(value_ns))
}

impl TableRows for OperationsView {
    type Row = OperationStats;

    // Rates are Transactions ended per second, in windows of 1, 10 and 60 s.
    const COLUMNS: &'static [TableColumn<OperationStats>] = &[
        name("OPERATION", |_, row| TableCell::Text(row.name())),
        text("PROGRAM", 10, 8, DIM, |_, row| TableCell::Text(row.program())),
        number("CALLS", 7, 1, PLAIN, |_, row| TableCell::Count(Some(row.calls))),
        number("/S 1S", 6, 2, PLAIN, |app, row| rate(app, row, 0)),
        number("/S 10S", 6, 4, PLAIN, |app, row| rate(app, row, 1)),
        number("/S 60S", 6, 6, PLAIN, |app, row| rate(app, row, 2)),
        number("ERRORS", 6, 1, ERROR, |_, row| TableCell::nonzero_count(row.errors)),
        number("P50", 7, 3, PLAIN, |_, row| latency(row, |latency| latency.p50)),
        number("P90", 7, 7, PLAIN, |_, row| latency(row, |latency| latency.p90)),
        number("P99", 7, 3, PLAIN, |_, row| latency(row, |latency| latency.p99)),
        number("MAX", 7, 5, PLAIN, |_, row| latency(row, |latency| latency.max)),
        number("TIME%", 5, 7, PLAIN, |app, row| TableCell::Percentage(app.displayed_pass().tables.totals().share(row))),
        number("RECOVERY", 8, 8, ERROR, |_, row| TableCell::nonzero_time_ns(row.recovery_ns)),
        number("IN", 8, 6, PLAIN, |_, row| TableCell::Bytes(row.bytes_in)),
        number("OUT", 8, 6, PLAIN, |_, row| TableCell::Bytes(row.bytes_out)),
        number("B/S 10S", 8, 5, PLAIN, |app, row| TableCell::byte_rate(app, &rates(app, row), 1)),
    ];

    fn rows(app: &App) -> &[OperationStats] {
        &app.displayed_pass().tables.operations
    }

    fn filter(row: &OperationStats) -> String {
        filter_for(row)
    }

    fn mark(row: &OperationStats) -> MarkedRow {
        MarkedRow::Operation(row.key)
    }
}

/// Returns the filter for an operation, including program and version: others have operations of the same name.
pub(super) fn filter_for(row: &OperationStats) -> String {
    let mut filter = match row.key.operation {
        Some(ProcedureOrMainOperation::Named(name)) => format!("{} == \"{name}\"", GeneratedField::Operation),
        Some(ProcedureOrMainOperation::Number(number)) => {
            format!("{} == \"{number}\"", GeneratedField::Operation)
        }
        None => format!("!{}", GeneratedField::Operation),
    };
    if let Some(program) = row.key.program {
        filter += &format!(" && {} == \"{program}\"", GeneratedField::Program);
    }
    if let Some(version) = row.key.version {
        filter += &format!(" && {} == {version}", GeneratedField::Version);
    }
    filter
}

/// Returns a one-line summary of the capture.
pub(super) fn summary(tables: &DisplayedStatistics, app: &App) -> String {
    let (frames, bytes) = tables.frames;
    let (transactions, incomplete) = tables.transactions;
    let seconds = tables.seconds();
    let in_flight = app.displayed_pass().activity.pending_count as u64;
    let mut parts = Vec::new();
    match Completeness::new(incomplete, tables.unknown_frames) {
        Completeness::Incomplete(count) => parts.push(format!("{} incomplete", grouped(count))),
        _ if transactions == 0 || in_flight > 0 => {}
        Completeness::All => parts.push("all complete".to_owned()),
        Completeness::Decoded(_) => parts.push("the decoded ones complete".to_owned()),
    }
    if in_flight > 0 {
        parts.push(format!("{} in flight", grouped(in_flight)));
    }
    if transactions > 0 && tables.unknown_frames > 0 {
        parts.push(format!("{} not decoded", PluralCount(tables.unknown_frames, "frame")));
    }
    let complete = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
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
        "{} {}{complete}, {} {}, {} in {}{rate}{recovery}{given_up}",
        grouped(transactions),
        if transactions == 1 { "transaction" } else { "transactions" },
        grouped(frames),
        if frames == 1 { "frame" } else { "frames" },
        HumanSize(bytes),
        HumanDuration((seconds * 1e9) as u64, app.tui_glyphs.glyphs),
    )
}

/// Draws the summary of the capture and, if live, the packet drops. Returns the rest of the area.
pub(super) fn draw_head(app: &App, buffer: &mut Buffer, area: Rect) -> Rect {
    let mut lines: Vec<_> = wrapped_parts(&summary(&app.displayed_pass().tables, app), usize::from(area.width))
        .into_iter()
        .map(|line| Line::styled(line, app.theme.dim))
        .collect();
    if let Some(counters) = app.unfiltered.progress.counters {
        let [kernel, interface, program] =
            [counters.dropped_by_kernel, counters.dropped_by_interface, counters.dropped_by_program];
        let style = if counters.dropped() > 0 { app.theme.error } else { app.theme.dim };
        let text = format!(
            "dropped: {} by the kernel, {} by the interface, {} by this program",
            grouped(kernel),
            grouped(interface),
            grouped(program)
        );
        let text = wrapped_parts(&text, usize::from(area.width));
        lines.extend(text.into_iter().map(|line| Line::styled(line, style)));
    }
    lines.extend(rates_lines(app, usize::from(area.width)));
    let (head_area, rest) = cut_top(area, lines.len() as u16);
    for (line, text) in lines.iter().enumerate() {
        draw_text(buffer, head_area, line, text);
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
