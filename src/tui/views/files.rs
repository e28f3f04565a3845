//! Files: the busiest by bytes, time or Transactions.

use nfsrdma_analysis::filter::derived_fields::GeneratedField;
use nfsrdma_analysis::filter::quoted;
use nfsrdma_analysis::rates::RatesByWindowLength;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::drawing_primitives::{cut_top, draw_text, grouped};
use super::table::{self, ERROR, PLAIN, TableCell, TableColumn, TableRows, name, number};
use crate::output::units::{self};
use crate::tui::app::application_state::App;
use crate::tui::app::marked_row::MarkedRow;
use crate::tui::model::statistics_snapshot::FileRow;

/// The table of files.
#[derive(Debug)]
pub(in crate::tui) struct FilesView;

fn path(app: &App, row: &FileRow) -> String {
    let mut text = String::new();
    units::path(&row.path, &app.tui_glyphs.glyphs, &mut text);
    text
}

fn rate(app: &App, row: &FileRow, window: usize) -> TableCell {
    TableCell::rate(app, &rates(app, row), window)
}

/// Returns the rates, which are keyed by the path as captured or as displayed.
fn rates(app: &App, row: &FileRow) -> RatesByWindowLength {
    let files = &app.rates().files;
    let rates = files.get(row.path.as_slice()).or_else(|| files.get(path(app, row).as_bytes()));
    rates.copied().unwrap_or_default()
}

impl TableRows for FilesView {
    type Row = FileRow;

    // Rates are Transactions ended per second, in windows of 1, 10 and 60 s.
    const COLUMNS: &'static [TableColumn<FileRow>] = &[
        name("FILE", |_, row| TableCell::Path(row.path.clone())),
        number("BYTES", 8, 1, PLAIN, |_, row| TableCell::Bytes(row.tally.bytes)),
        number("TIME", 7, 1, PLAIN, |_, row| TableCell::TimeNs(Some(row.tally.time_ns))),
        number("TRANSACTIONS", 12, 2, PLAIN, |_, row| TableCell::Count(Some(row.tally.transactions))),
        number("/S 1S", 6, 3, PLAIN, |app, row| rate(app, row, 0)),
        number("/S 10S", 6, 5, PLAIN, |app, row| rate(app, row, 1)),
        number("/S 60S", 6, 6, PLAIN, |app, row| rate(app, row, 2)),
        number("B/S 10S", 8, 4, PLAIN, |app, row| TableCell::byte_rate(app, &rates(app, row), 1)),
        number("MEAN", 7, 3, PLAIN, |_, row| TableCell::TimeNs(row.tally.mean_ns())),
        number("ERRORS", 6, 2, ERROR, |_, row| TableCell::nonzero_count(row.tally.errors)),
    ];

    fn rows(app: &App) -> &[FileRow] {
        &app.displayed_pass().tables.files
    }

    fn filter(row: &FileRow) -> String {
        format!("{} == {}", GeneratedField::Path, quoted(&row.path))
    }

    fn mark(row: &FileRow) -> MarkedRow {
        MarkedRow::File(row.path.clone())
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
