//! The list of Transactions, with the tree and the bytes of the chosen one, or its waterfall, below.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{ListAreas, cut_bottom, cut_left, cut_top, draw_text, grouped};
use super::{hex, pending_calls, table, tree, waterfall};
use crate::output::info_column::shorten;
use crate::output::style::{columns as width_of, fit_words};
use crate::output::transaction_list::{TransactionListColumn, TransactionListLayout};
use crate::output::units::{HumanDuration, HumanSize, ViewTimeFormatter};
use crate::tui::app::application_state::{App, FocusPane};
use crate::tui::app::transaction_list::scrolled;
use crate::tui::model::transaction_list_row::TransactionRowWithText;
use crate::tui::theme;

/// Total number of columns.
const COLUMN_COUNT: usize = 11;
/// Minimum height of the list above the tree, in lines.
const MIN_LIST_LINES: u16 = 4;
/// Minimum width for tree and bytes side by side, because lines of the tree are long.
const MIN_SIDE_BY_SIDE_COLUMNS: u16 = hex::WIDTH + 80;

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let area = pending_calls::draw(app, buffer, area);
    let has_list = !(app.is_zoomed && app.focus != FocusPane::List);
    let has_tree = !(app.is_zoomed && app.focus == FocusPane::List) && area.height >= 10;
    let (list, below) = match (has_list, has_tree) {
        (true, true) => {
            let height = (area.height * 2 / 5).max(MIN_LIST_LINES);
            // A completed list takes only the lines it needs.
            let needed = app.list.len(app.rows()).saturating_add(1);
            let needed =
                if app.displayed_pass().progress.is_over { needed.try_into().unwrap_or(height) } else { height };
            cut_top(area, height.min(needed).max(MIN_LIST_LINES))
        }
        (true, false) => cut_top(area, area.height),
        (false, _) => cut_top(area, 0),
    };
    if has_list {
        draw_list(app, buffer, list);
    }
    if has_tree {
        draw_below(app, buffer, below);
    }
}

/// Draws the tree and the bytes, side by side or stacked, or the waterfall.
pub(super) fn draw_below(app: &mut App, buffer: &mut Buffer, area: Rect) {
    if app.shows_waterfall() {
        return waterfall::draw(app, buffer, area);
    }
    if !app.has_bytes {
        return tree::draw(app, buffer, area);
    }
    if area.width >= MIN_SIDE_BY_SIDE_COLUMNS {
        let (left, right) = cut_left(area, area.width - hex::WIDTH - 1);
        tree::draw(app, buffer, left);
        let (_, right) = cut_left(right, 1);
        hex::draw(app, buffer, right);
    } else if area.height >= 11 {
        let (above, below) = cut_bottom(area, (area.height / 3).max(4));
        tree::draw(app, buffer, above);
        hex::draw(app, buffer, below);
    } else {
        tree::draw(app, buffer, area);
    }
}

fn draw_list(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let areas = ListAreas::new(area);
    let ListAreas { head, lines, .. } = areas;
    app.areas.list = lines;
    let count = app.list.len(app.rows());
    let height = usize::from(lines.height);
    // The calls without a reply below the newest row are visible, too.
    let below = if app.list.follows_tail { app.list.pending_lines(app.rows()).min(height / 2) } else { 0 };
    app.list.top = scrolled(app.list.top, app.list.at + below, height, count);
    let mut layout = app.layout(usize::from(lines.width));
    widen(app, &mut layout, height);
    // Columns scrolled past do not count as hidden.
    let hidden_columns = app.list.scroll.saturating_sub(1);
    app.hidden_columns = COLUMN_COUNT.saturating_sub(layout.columns.len() + hidden_columns);
    heading(app, buffer, head, &layout);
    let mut clock = ViewTimeFormatter::new(app.options.time);
    if let Some((start, _)) = app.unfiltered.tables.times {
        clock.start(start);
    }
    if count == 0 {
        let text = match (app.displayed_pass().progress.is_over, &app.displayed_pass().filter) {
            _ if !app.rows().is_empty() && app.list.has_unsorted_rows(app.rows()) => "sorting",
            (true, Some(_)) => "no transaction matches the filter; u removes it",
            (true, None) => "no transactions: nothing in this capture is RPC",
            (false, _) if app.capture.is_received_once() => "none yet",
            (false, _) => "reading",
        };
        return draw_text(buffer, lines, 0, &Line::styled(text, app.theme.dim));
    }
    if app.options.time == crate::output::settings::TimeFormat::Delta
        && let Some(last_above) = app.list.top.checked_sub(1)
        && let Some(entry) = app.list.entry(app.rows(), last_above)
    {
        clock.write(entry.row.time, &mut String::new());
    }
    for line in 0..height.min(count - app.list.top) {
        let at = app.list.top + line;
        let entry = app.list.entry(app.rows(), at);
        match &entry {
            Some(entry) => {
                let text = row(app, &layout, entry, &mut clock);
                draw_text(buffer, lines, line, &text);
            }
            None => {
                let number = app.list.row_number(app.rows(), at).unwrap_or(0) as u64 + 1;
                let text = format!("Transaction {} is read again {}", grouped(number), app.tui_glyphs.glyphs.cut);
                draw_text(buffer, lines, line, &Line::styled(text, app.theme.dim));
            }
        }
        let is_marked = entry.is_some_and(|entry| app.is_marked(&entry));
        areas.draw_signs(app, buffer, line, is_marked, at == app.list.at);
    }
}

/// Widens columns for wide numbers and for the sign of the sort order, at the expense of the operation.
fn widen(app: &App, layout: &mut TransactionListLayout, height: usize) {
    let top = app.list.top;
    let (mut connection, mut frame) = (0, 0);
    for entry in (top..top + height).filter_map(|at| app.list.entry(app.rows(), at)) {
        connection = connection.max(entry.row.connection);
        frame = frame.max(entry.row.first.0);
    }
    let digits = |number: u64| number.checked_ilog10().map_or(1, |log| log as usize + 1);
    let mut used_width = 0;
    for (column, width) in &mut layout.columns {
        let needed = match column {
            TransactionListColumn::Connection => digits(connection),
            TransactionListColumn::Frame => digits(frame),
            _ => 0,
        };
        let is_sorted = app.list.sort.is_some_and(|sort| sort.by == *column);
        let name = width_of(column.name()) + width_of(app.tui_glyphs.sorted.0);
        let needed = if is_sorted { needed.max(name) } else { needed };
        used_width += needed.saturating_sub(*width);
        *width = needed.max(*width);
    }
    for (column, width) in &mut layout.columns {
        if *column == TransactionListColumn::Operation {
            *width = width.saturating_sub(used_width).max(8);
        }
    }
}

fn heading(app: &mut App, buffer: &mut Buffer, area: Rect, layout: &TransactionListLayout) {
    let mut x = area.x;
    let mut column_areas = Vec::new();
    for (column, width) in &layout.columns {
        let sort = app.list.sort.filter(|sort| sort.by == *column);
        let (up, down) = app.tui_glyphs.sorted;
        let sign = sort.map(|sort| if sort.is_descending { down } else { up });
        let text = table::heading(column.name(), column.is_number(), sign, *width, app);
        let width = *width as u16;
        let column_area = Rect { x, width: width.min((area.x + area.width).saturating_sub(x)), ..area };
        let style = if sort.is_some() { app.theme.key } else { app.theme.heading };
        draw_text(buffer, column_area, 0, &Line::styled(text, style));
        column_areas.push((column_area, *column));
        x += width + layout.gap.len() as u16;
    }
    app.areas.columns = column_areas;
}

/// Returns a line of the list.
fn row(
    app: &App,
    layout: &TransactionListLayout,
    entry: &TransactionRowWithText<'_>,
    clock: &mut ViewTimeFormatter,
) -> Line<'static> {
    let mut line = Vec::new();
    let glyphs = &app.tui_glyphs.glyphs;
    for (at, (column, width)) in layout.columns.iter().enumerate() {
        let (text, pieces) = cell(app, *column, *width, entry, clock);
        let text = fit_words(&text, *width, glyphs).into_owned();
        let fill = " ".repeat(width.saturating_sub(width_of(&text)));
        if at > 0 {
            line.push(Span::raw(layout.gap));
        }
        if column.is_number() {
            line.push(Span::raw(fill.clone()));
        }
        let (first, split, rest) = pieces;
        let split = (0..=split.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (left_text, right_text) = text.split_at(split);
        line.push(Span::styled(left_text.to_owned(), first));
        line.push(Span::styled(right_text.to_owned(), rest));
        if !column.is_number() {
            line.push(Span::raw(fill));
        }
    }
    Line::from(line)
}

/// Returns the text of a cell, the style and the length in bytes of its first part, and the style of the rest.
fn cell(
    app: &App,
    column: TransactionListColumn,
    width: usize,
    entry: &TransactionRowWithText<'_>,
    clock: &mut ViewTimeFormatter,
) -> (String, (Style, usize, Style)) {
    let styles = &app.theme.styles;
    let glyphs = app.tui_glyphs.glyphs;
    let unsplit = |text: String, style| (text, (theme::from_anstyle(style), usize::MAX, Style::new()));
    let row = entry.row;
    match column {
        TransactionListColumn::Time => {
            let mut text = String::new();
            clock.write(row.time, &mut text);
            unsplit(text, styles.time)
        }
        TransactionListColumn::Frame => unsplit(row.first.to_string(), styles.dim),
        TransactionListColumn::Connection => unsplit(row.connection.to_string(), styles.dim),
        TransactionListColumn::Client => unsplit(entry.client().to_string(), styles.dim),
        TransactionListColumn::Xid => unsplit(row.xid.to_string(), styles.xid),
        TransactionListColumn::Version if row.is_reverse => {
            unsplit(format!("{}{}", glyphs.reply_arrow, entry.version()), styles.callback)
        }
        TransactionListColumn::Version => (entry.version().to_owned(), Default::default()),
        TransactionListColumn::Operation => {
            let mut text = entry.label().to_owned();
            shorten(entry.path(), width, &glyphs, &mut text);
            let style = if row.is_reverse { styles.callback } else { styles.operation };
            (text, (theme::from_anstyle(style), entry.name().len(), Style::new()))
        }
        TransactionListColumn::Chunks => {
            let long = entry.chunks();
            let text = if width_of(long) > width { entry.short_chunks() } else { long };
            unsplit(text.to_owned(), styles.chunk)
        }
        TransactionListColumn::Bytes => (HumanSize(row.bytes).to_string(), Default::default()),
        TransactionListColumn::Latency => {
            let age_ns = row.is_pending().then(|| app.displayed_pass().activity.ns_since(row.time));
            let latency_ns = age_ns.or(row.latency_ns);
            let text = latency_ns.map_or(String::new(), |latency| HumanDuration(latency, glyphs).to_string());
            let style = if app.is_slow(entry) { app.theme.notice } else { Style::new() };
            (text, (style, usize::MAX, Style::new()))
        }
        TransactionListColumn::Status => {
            let (text, split) = entry.status();
            let style = if row.has_failed || row.is_pending() { styles.error } else { styles.ok };
            (text.to_owned(), (theme::from_anstyle(style), split, theme::from_anstyle(styles.mark)))
        }
    }
}
