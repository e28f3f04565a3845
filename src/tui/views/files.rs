//! Files: the busiest by bytes, time or Transactions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use crate::output::units::{self, EventRateText, HumanDuration, HumanSize};
use crate::tui::app::{App, MarkedRow};
use nfsrdma_analysis::files::FileTally;
use nfsrdma_analysis::filter::quoted;
use nfsrdma_analysis::rates::RatesByWindow;

use super::operations::rate_key;
use super::table::{self, TableView, TableViewColumn, TuiTableCell, name, number, order};
use super::{cut_top, draw_text, grouped, known};

/// The columns. Rates are Transactions ended per second, in windows of 1, 10 and 60 s.
pub(in crate::tui) const COLUMNS: &[TableViewColumn] = &[
    name("FILE"),
    number("BYTES", 8, 1),
    number("TIME", 7, 1),
    number("TRANSACTIONS", 12, 2),
    number("/S 1S", 6, 3),
    number("/S 10S", 6, 5),
    number("/S 60S", 6, 6),
    number("B/S 10S", 8, 4),
    number("MEAN", 7, 3),
    number("ERRORS", 6, 2),
];

/// The table of files.
#[derive(Debug)]
pub(in crate::tui) struct FilesView;

impl FilesView {
    fn path(app: &App, row: usize) -> Option<String> {
        let mut text = String::new();
        units::path(&app.displayed_pass().tables.files.get(row)?.path, &app.tui_glyphs.glyphs, &mut text);
        Some(text)
    }

    /// Returns the rates, which are keyed by the path as captured or as displayed.
    fn rates(app: &App, row: usize) -> RatesByWindow {
        let files = &app.rates().files;
        let shown = || files.get(Self::path(app, row)?.as_bytes());
        let captured =
            app.displayed_pass().tables.files.get(row).and_then(|row| files.get(row.path.as_slice()));
        captured.or_else(shown).copied().unwrap_or_default()
    }
}

impl TableView for FilesView {
    fn columns(&self) -> &'static [TableViewColumn] {
        COLUMNS
    }

    fn len(&self, app: &App) -> usize {
        app.displayed_pass().tables.files.len()
    }

    fn order(&self, app: &App) -> Vec<usize> {
        let (table, rows) = (app.table(), &app.displayed_pass().tables.files);
        let tally = |at: usize| rows.get(at).map(|row| row.tally).unwrap_or_default();
        let order_by = |key: fn(&FileTally) -> u64| order(rows.len(), table, |at| key(&tally(at)));
        match table.sort {
            // Paths from A to Z.
            0 => order(rows.len(), table, |at| std::cmp::Reverse(rows.get(at).map(|row| row.path.clone()))),
            2 => order_by(|tally| tally.time_ns),
            3 => order_by(|tally| tally.transactions),
            sort @ 4..=6 => order(rows.len(), table, |at| {
                Self::rates(app, at).get(sort - 4).map(|rate| rate_key(rate.transactions))
            }),
            7 => order(rows.len(), table, |at| rate_key(Self::rates(app, at)[1].bytes)),
            8 => order_by(|tally| tally.time_ns / tally.transactions.max(1)),
            9 => order_by(|tally| tally.errors),
            _ => order_by(|tally| tally.bytes),
        }
    }

    fn cells(&self, app: &App, row: usize) -> Vec<TuiTableCell> {
        let Some(file) = app.displayed_pass().tables.files.get(row) else { return Vec::new() };
        let plain = Style::new();
        let time = |ns| HumanDuration(ns, app.tui_glyphs.glyphs).to_string();
        let (tally, rates) = (file.tally, Self::rates(app, row));
        let is_known = app.complete_windows();
        let rate = |at: usize| known(is_known[at], EventRateText(rates[at].transactions));
        let byte_rate = known(is_known[1], HumanSize(rates[1].bytes as u64));
        let errors = if tally.errors > 0 { grouped(tally.errors) } else { String::new() };
        vec![
            (Self::path(app, row).unwrap_or_default(), app.theme.heading),
            (HumanSize(tally.bytes).to_string(), plain),
            (time(tally.time_ns), plain),
            (grouped(tally.transactions), plain),
            (rate(0), plain),
            (rate(1), plain),
            (rate(2), plain),
            (byte_rate, plain),
            (time(tally.time_ns / tally.transactions.max(1)), plain),
            (errors, app.theme.error),
        ]
    }

    fn value(&self, app: &App, row: usize) -> Option<String> {
        Self::path(app, row)
    }

    fn filter(&self, app: &App, row: usize) -> Option<String> {
        Some(format!("nfsrdma.path == {}", quoted(&app.displayed_pass().tables.files.get(row)?.path)))
    }

    fn mark(&self, app: &App, row: usize) -> Option<MarkedRow> {
        app.displayed_pass().tables.files.get(row).map(|row| MarkedRow::File(row.path.clone()))
    }
}

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    let tables = &app.displayed_pass().tables;
    let (count, forgotten) = tables.files_count;
    let mut text = format!("{} {}", grouped(count as u64), if count == 1 { "file" } else { "files" });
    if forgotten > 0 {
        text += &format!(", {} of the least used were evicted", grouped(forgotten));
    }
    if tables.files.len() < count {
        text += &format!("; the {} busiest are listed", grouped(tables.files.len() as u64));
    }
    draw_text(buffer, head, 0, &Line::styled(text, app.theme.dim));
    table::draw(app, &FilesView, buffer, area);
}
