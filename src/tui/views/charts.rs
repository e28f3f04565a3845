//! Charts: Transactions and bytes over time, and the distribution of latencies of all operations or of one.

use nfsrdma_analysis::bounded_time_series::{TimeSeries, TimeSeriesBucket};
use nfsrdma_analysis::histogram::LatencyHistogram;
use nfsrdma_analysis::load_over_time::TrafficTimeBucket;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{cut_bottom, cut_left, cut_top, draw_text, grouped, rule};
use super::operations;
use super::operations::OperationsView;
use super::table::{TableColumnHeading, TableView};
use crate::output::style::columns as width_of;
use crate::output::units::{HumanDuration, HumanSize, ShortNumber};
use crate::tui::app::application_state::App;
use crate::tui::app::marked_row::MarkedRow;

/// The rows of the charts: all operations together, followed by each operation.
#[derive(Debug)]
pub(in crate::tui) struct ChartsView;

impl TableView for ChartsView {
    fn headings(&self) -> Vec<TableColumnHeading> {
        Vec::new()
    }

    fn len(&self, app: &App) -> usize {
        app.displayed_pass().tables.operations.len() + 1
    }

    fn order(&self, app: &App) -> Vec<usize> {
        (0..self.len(app)).collect()
    }

    fn cells(&self, _: &App, _: usize) -> Vec<(String, Style)> {
        Vec::new()
    }

    fn value(&self, app: &App, row: usize) -> Option<String> {
        OperationsView.value(app, row.checked_sub(1)?)
    }

    fn filter(&self, app: &App, row: usize) -> Option<String> {
        OperationsView.filter(app, row.checked_sub(1)?)
    }

    fn mark(&self, app: &App, row: usize) -> Option<MarkedRow> {
        OperationsView.mark(app, row.checked_sub(1)?)
    }
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let area = operations::draw_head(app, buffer, area);
    let count = app.displayed_pass().tables.operations.len();
    if let Some(table) = app.table_mut() {
        table.at = table.at.min(count);
    }
    app.areas.list = area;
    if area.width >= 110 {
        let (left, right) = cut_left(area, area.width / 2);
        let (left, _) = cut_left(left, left.width - 2);
        over_time(app, buffer, left);
        latencies(app, buffer, right);
    } else {
        let (above, below) = cut_bottom(area, area.height.div_ceil(2));
        over_time(app, buffer, above);
        latencies(app, buffer, below);
    }
}

fn over_time(app: &App, buffer: &mut Buffer, area: Rect) {
    let pass = app.displayed_pass();
    let mut load = pass.tables.load.clone();
    // Without frames, the rate is zero up to now.
    if load.start().is_some_and(|start| start < pass.activity.now) {
        load.step_at(pass.activity.now);
    }
    let seconds = load.width() as f64 / 1e9;
    let step = format!("peaks of {}", HumanDuration(load.width(), app.tui_glyphs.glyphs));
    let axis = ChartTimeAxis::for_series(app, &load);
    let mut draw = |area, title, value: fn(&TrafficTimeBucket) -> u64, style, label: fn(f64) -> String| {
        let (head, area) = cut_top(area, 1);
        rule(app, buffer, head, title, &step, false);
        let values = load.steps().iter().map(|step| value(step) as f64 / seconds).collect();
        let chart = ColumnChart { values, style, limits: Vec::new(), is_at_limit: Vec::new(), label: &label };
        chart.draw(app, buffer, area, axis);
    };
    let (above, below) = cut_bottom(area, area.height / 2);
    draw(
        above,
        "Transactions a second",
        |load| load.transactions,
        app.theme.call,
        |rate| ShortNumber(rate).to_string(),
    );
    draw(below, "Bytes a second", |load| load.bytes, app.theme.data_in, |rate| HumanSize(rate as u64).to_string());
}

/// The time span of a chart, in nanoseconds since the first frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChartTimeAxis {
    from: u64,
    to: u64,
}

impl ChartTimeAxis {
    /// Returns the time span of a series.
    pub(super) fn for_series<S: TimeSeriesBucket>(app: &App, series: &TimeSeries<S>) -> Self {
        let first = app.displayed_pass().tables.times.map(|(first, _)| first);
        let from = series.start().zip(first).and_then(|(start, first)| start.nanoseconds_since(first)).unwrap_or(0);
        Self { from, to: from.saturating_add(series.width().saturating_mul(series.steps().len() as u64)) }
    }

    /// Draws the start, the end and, if there is space, the middle.
    fn draw(self, app: &App, buffer: &mut Buffer, area: Rect) {
        let text = |ns: u64| match ns {
            0 => "0 s".to_owned(),
            ns => HumanDuration(ns, app.tui_glyphs.glyphs).to_string(),
        };
        let width = usize::from(area.width);
        let (from, middle, to) = (text(self.from), text(self.from.midpoint(self.to)), text(self.to));
        let mut line = String::new();
        let mut used = 0;
        let mut write = |at: usize, text: &str| {
            if at >= used && at + width_of(text) <= width {
                line += &" ".repeat(at - used);
                line += text;
                used = at + width_of(text);
            }
        };
        write(0, &from);
        let wide = width_of(&from) + width_of(&middle) + width_of(&to);
        if width > 2 * wide {
            write((width - width_of(&middle)) / 2, &middle);
        }
        write(width.saturating_sub(width_of(&to)).max(width_of(&from) + 1), &to);
        draw_text(buffer, area, 0, &Line::styled(line, app.theme.dim));
    }
}

/// Columns over time, with the maximum at the left and the time axis below.
pub(super) struct ColumnChart<'c> {
    pub(super) values: Vec<f64>,
    pub(super) style: Style,
    /// Limits of the values, drawn as a line; empty without limits. The chart is scaled to the larger maximum.
    pub(super) limits: Vec<f64>,
    /// `true` for each value at its limit.
    pub(super) is_at_limit: Vec<bool>,
    /// Text of the maximum.
    pub(super) label: &'c dyn Fn(f64) -> String,
}

impl ColumnChart<'_> {
    /// Draws the chart.
    pub(super) fn draw(&self, app: &App, buffer: &mut Buffer, area: Rect, axis: ChartTimeAxis) {
        let maximum = self.values.iter().chain(&self.limits).copied().fold(0.0, f64::max);
        if maximum <= 0.0 || area.height == 0 {
            return draw_text(buffer, area, 0, &Line::styled("nothing yet", app.theme.dim));
        }
        let label = (self.label)(maximum);
        let margin = width_of(&label).max(4) as u16 + 1;
        let (area, below) = cut_bottom(area, u16::from(area.height >= 4));
        axis.draw(app, buffer, cut_left(below, margin).1);
        let (labels, chart) = cut_left(area, margin);
        let label_line = |text: &str| Line::styled(format!("{text:>0$}", usize::from(margin - 1)), app.theme.dim);
        draw_text(buffer, labels, 0, &label_line(&label));
        if area.height > 1 {
            draw_text(buffer, labels, usize::from(area.height) - 1, &label_line("0"));
        }
        let (width, height, count) = (usize::from(chart.width), usize::from(chart.height), self.values.len());
        let levels = app.tui_glyphs.levels;
        for column in 0..width {
            let start = column * count / width;
            let end = ((column + 1) * count).div_ceil(width).max(start + 1).min(count);
            // Each column shows the maximum of its steps, so that peaks are visible on a narrow screen too.
            let largest =
                |values: &[f64]| values.get(start..end).unwrap_or_default().iter().copied().fold(0.0, f64::max);
            let filled = (largest(&self.values) / maximum * (height * levels.len()) as f64).ceil() as usize;
            let is_at_limit = self.is_at_limit.get(start..end).unwrap_or_default().contains(&true);
            let limit = largest(&self.limits);
            // The line of the limit is at the upper edge of the usable amount.
            let limit_line = height - ((limit / maximum * height as f64).ceil() as usize).clamp(1, height);
            for line in 0..height {
                let (text, style) = match filled.saturating_sub((height - 1 - line) * levels.len()) {
                    0 if limit > 0.0 && line == limit_line => (app.tui_glyphs.rule, app.theme.reply),
                    0 => continue,
                    level => {
                        let style = if is_at_limit { app.theme.error } else { self.style };
                        (levels.get(level.min(levels.len()) - 1).copied().unwrap_or(" "), style)
                    }
                };
                let (_, cell) = cut_left(chart, column as u16);
                draw_text(buffer, cut_left(cell, 1).0, line, &Line::styled(text, style));
            }
        }
    }
}

fn latencies(app: &App, buffer: &mut Buffer, area: Rect) {
    let tables = &app.displayed_pass().tables;
    let chosen = app.table().at.checked_sub(1).and_then(|at| tables.operations.get(at));
    let (name, histogram, recovery_ns) = match chosen {
        Some(row) => (row.name(), tables.histograms.get(&row.key), row.recovery_ns),
        None => ("all operations".to_owned(), Some(&tables.histogram), tables.recovery_ns()),
    };
    let none = LatencyHistogram::default();
    let histogram = histogram.unwrap_or(&none);
    let (head, area) = cut_top(area, 1);
    let count = format!("{} latencies", grouped(histogram.count()));
    rule(app, buffer, head, &format!("Latency of {name}"), &count, true);
    let (line, area) = cut_top(area, u16::from(recovery_ns > 0));
    let recovery = format!("{} in recovery", HumanDuration(recovery_ns, app.tui_glyphs.glyphs));
    draw_text(buffer, line, 0, &Line::styled(recovery, app.theme.error));
    bars(app, buffer, area, histogram);
}

/// Draws a histogram with one bar per step.
fn bars(app: &App, buffer: &mut Buffer, area: Rect, histogram: &LatencyHistogram) {
    let glyphs = app.tui_glyphs.glyphs;
    let steps: Vec<(Option<u64>, u64)> = histogram.steps().collect();
    let total = histogram.count();
    if total == 0 {
        return draw_text(buffer, area, 0, &Line::styled("no latencies", app.theme.dim));
    }
    // If there are more steps than lines, neighbouring steps share a line.
    let steps_per_line = steps.len().div_ceil(usize::from(area.height).max(1));
    let lines: Vec<(Option<u64>, u64)> = steps
        .chunks(steps_per_line)
        .map(|steps| (steps.last().and_then(|(bound, _)| *bound), steps.iter().map(|(_, count)| count).sum()))
        .collect();
    let max_count = lines.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let bar_width = usize::from(area.width).saturating_sub(11 + 1 + 9 + 7);
    let mut so_far = 0;
    for (line, (bound, count)) in lines.iter().enumerate() {
        so_far += count;
        let bound = match bound {
            Some(bound) => format!("<= {}", HumanDuration(*bound, glyphs)),
            None => "longer".to_owned(),
        };
        let length = (u128::from(*count) * bar_width as u128).div_ceil(u128::from(max_count)) as usize;
        let text = Line::from(vec![
            Span::styled(format!("{bound:>11} "), app.theme.dim),
            Span::styled(app.tui_glyphs.full.repeat(length), app.theme.data_out),
            Span::raw(" ".repeat(bar_width - length.min(bar_width))),
            Span::raw(format!("{:>9}", grouped(*count))),
            Span::styled(format!(" {:>5.1}%", so_far as f64 / total as f64 * 100.0), app.theme.dim),
        ]);
        draw_text(buffer, area, line, &text);
    }
}
