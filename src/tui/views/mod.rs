//! The views, one module each, and the surrounding lines: view names above, messages and input below.

pub(super) mod charts;
pub(super) mod connections;
pub(super) mod files;
mod frames;
mod help;
mod hex;
mod line_wrap;
pub(super) mod operations;
mod pending_calls;
mod status_lines;
pub(super) mod styled_lines;
pub(super) mod table;
mod transactions;
mod tree;
mod waterfall;

use nfsrdma_capture_file::LinkState;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::output::style::{Glyphs, columns as width_of};
use crate::output::units::{HumanCount, HumanDuration, HumanSize};

use super::app::{App, TuiView};

/// Minimum width of the capture's name and progress, in columns.
const MIN_PROGRESS_COLUMNS: usize = 14;

/// Draws the whole screen.
pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let area = frame.area();
    app.areas = Default::default();
    if area.width < 20 || area.height < 6 {
        for (line, text) in
            line_wrap::wrapped("too small: 20x6 at least", usize::from(area.width)).iter().enumerate()
        {
            draw_text(frame.buffer_mut(), area, line, &Line::from(text.as_str()));
        }
        return;
    }
    let buffer = frame.buffer_mut();
    let (top, rest) = cut_top(area, 1);
    tabs(app, buffer, top);
    let (rest, last) = cut_bottom(rest, status_lines::line_count(app, rest));
    let rest = status_lines::draw_above(app, buffer, rest);
    let cursor = status_lines::draw_line(app, buffer, last);
    if app.help.is_some() {
        help::draw(app, buffer, rest);
    } else {
        app.update_row_rates();
        match app.view {
            TuiView::Transactions => transactions::draw(app, buffer, rest),
            TuiView::Operations => operations::draw(app, buffer, rest),
            TuiView::Connections => connections::draw(app, buffer, rest),
            TuiView::Files => files::draw(app, buffer, rest),
            TuiView::Frames => frames::draw(app, buffer, rest),
            TuiView::Charts => charts::draw(app, buffer, rest),
        }
    }
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}

/// Splits an area into its first lines and the rest.
fn cut_top(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area })
}

/// Splits an area into the rest and its last lines.
fn cut_bottom(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    let rest = area.height - height;
    (Rect { height: rest, ..area }, Rect { y: area.y + rest, height, ..area })
}

/// Splits an area into its left columns and the rest.
fn cut_left(area: Rect, width: u16) -> (Rect, Rect) {
    let width = width.min(area.width);
    (Rect { width, ..area }, Rect { x: area.x + width, width: area.width - width, ..area })
}

/// Writes text to a line of an area, counted from its top. Text outside the area is omitted.
fn draw_text(buffer: &mut Buffer, area: Rect, line: usize, text: &Line<'_>) {
    if let Ok(line) = u16::try_from(line)
        && line < area.height
    {
        buffer.set_line(area.x, area.y + line, text, area.width);
    }
}

/// Sets the style of a line of an area.
fn set_line_style(buffer: &mut Buffer, area: Rect, line: usize, style: Style) {
    if let Ok(line) = u16::try_from(line)
        && line < area.height
    {
        buffer.set_style(Rect { y: area.y + line, height: 1, ..area }, style);
    }
}

/// Draws a rule with a title at its left and a text at its right.
fn rule(app: &App, buffer: &mut Buffer, area: Rect, title: &str, right: &str, is_active: bool) {
    let style = if is_active { app.theme.heading } else { app.theme.dim };
    let line = app.tui_glyphs.rule.repeat(usize::from(area.width));
    draw_text(buffer, area, 0, &Line::styled(line, app.theme.dim));
    if !title.is_empty() {
        let (_, inner) = cut_left(area, 2);
        draw_text(buffer, inner, 0, &Line::styled(format!(" {title} "), style));
    }
    let width = width_of(right) as u16 + 2;
    if !right.is_empty() && usize::from(area.width) > width_of(title) + width_of(right) + 8 {
        let right_area = Rect { x: area.x + area.width - width - 1, width, ..area };
        draw_text(buffer, right_area, 0, &Line::styled(format!(" {right} "), app.theme.dim));
    }
}

/// Draws the view names and the progress.
fn tabs(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let told = progress(app);
    let mut tabs = Vec::new();
    // View names are shortened to leave space for the progress.
    let room = usize::from(area.width);
    let names: [fn(TuiView) -> &'static str; 3] = [TuiView::title, TuiView::short_title, |_| ""];
    let width = |name: fn(TuiView) -> &'static str| -> usize {
        TuiView::ALL
            .iter()
            .map(|view| if *view == app.view { view.title() } else { name(*view) }.len() + 5)
            .sum()
    };
    // The name of the capture is truncated before view names are dropped.
    let least = width_of(&told).min(MIN_PROGRESS_COLUMNS);
    let fits = |name: &fn(TuiView) -> &'static str| width(*name) + least <= room;
    let name = names.into_iter().find(fits).unwrap_or(|_| "");
    let told = fit_end(&told, room.saturating_sub(width(name)), &app.tui_glyphs.glyphs);
    let mut x = area.x;
    for (number, view) in TuiView::ALL.into_iter().enumerate() {
        let is_shown = view == app.view;
        let text = match if is_shown { view.title() } else { name(view) } {
            "" => format!(" {} ", number + 1),
            name => format!(" {} {name} ", number + 1),
        };
        let style = if is_shown { app.theme.tab } else { app.theme.dim };
        let width = width_of(&text) as u16;
        let place = Rect { x, width: width.min((area.x + area.width).saturating_sub(x)), ..area };
        draw_text(buffer, place, 0, &Line::styled(text, style));
        tabs.push((place, view));
        x += width + 1;
    }
    app.areas.tabs = tabs;
    let width = width_of(&told) as u16;
    if width > 0 && x + width <= area.x + area.width {
        let place = Rect { x: area.x + area.width - width, width, ..area };
        draw_text(buffer, place, 0, &Line::from(told));
    }
}

/// Truncates text at its start, so that the numbers at its end stay.
fn fit_end(text: &str, width: usize, glyphs: &Glyphs) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(width_of(glyphs.cut));
    let start = text
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| width_of(text.get(*at..).unwrap_or_default()) <= room);
    format!("{}{}", glyphs.cut, start.and_then(|start| text.get(start..)).unwrap_or_default())
}

/// Returns the name of the capture and its progress.
fn progress(app: &App) -> String {
    let progress = app.displayed_pass().progress;
    let name = app.capture.name();
    let dot = app.tui_glyphs.separator;
    let mut text = name;
    if app.is_paused {
        text = format!("{text} {dot} PAUSED");
    } else if !progress.is_over {
        match progress.bytes.total_bytes.filter(|total| *total > 0) {
            Some(total) => {
                let part = progress.bytes.read_bytes.min(total) as f64 / total as f64;
                text = format!("{text} {dot} {:.0}%", part * 100.0);
            }
            // Frames received once are read only by the first pass.
            None => text = format!("{text} {dot} {}", HumanSize(app.unfiltered.progress.bytes.read_bytes)),
        }
    }
    if let Some(state) = app.link_problem() {
        let word = match state {
            LinkState::Up => "UP",
            LinkState::NoCarrier => "NO LINK",
            LinkState::Down => "DOWN",
            LinkState::Gone => "GONE",
        };
        text = format!("{text} {dot} {word}");
    }
    if app.capture.is_live() && app.unfiltered.progress.is_over {
        text = format!("{text} {dot} ended");
    }
    if !progress.is_over
        && let Some(oldest) = app.displayed_pass().activity.old_calls().next()
    {
        let activity = &app.displayed_pass().activity;
        let age = HumanDuration(activity.age_ns(oldest), app.tui_glyphs.glyphs);
        text = format!("{text} {dot} {} waiting, {age}", grouped(activity.old_count as u64));
    }
    // For an interface, zero drops are displayed too.
    let is_told = |dropped: &u64| *dropped > 0 || app.unfiltered.progress.counters.is_some();
    if let Some(dropped) = app.unfiltered.progress.dropped.filter(is_told) {
        text = format!("{text} {dot} {} dropped", grouped(dropped));
    }
    text
}

/// Formats a number with thousands separators.
fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Makes a line from styled pieces of text.
fn spans<const N: usize>(pieces: [(Style, String); N]) -> Line<'static> {
    Line::from(pieces.into_iter().map(|(style, text)| Span::styled(text, style)).collect::<Vec<_>>())
}
