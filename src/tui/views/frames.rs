//! The packet list, read from the capture where one looks; below it the tree and the bytes of the chosen frame.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::tui::app::{App, Mark, Part, scrolled};

use super::{cut_left, cut_top, grouped, paint, put, styled, transactions};

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let has_list = !(app.is_zoomed && app.part != Part::List);
    let has_tree = !(app.is_zoomed && app.part == Part::List) && area.height >= 10;
    let height = match (has_list, has_tree) {
        (true, true) => area.height * 2 / 5,
        (true, false) => area.height,
        (false, _) => 0,
    };
    let (list, below) = cut_top(area, height);
    if has_list {
        draw_list(app, buffer, list);
    }
    if has_tree {
        transactions::draw_below(app, buffer, below);
    }
}

fn draw_list(app: &mut App, buffer: &mut Buffer, area: Rect) {
    // The first column is for marks.
    let (marks, area) = cut_left(area, 1);
    let (head, lines) = cut_top(area, 1);
    let (_, marks) = cut_top(marks, 1);
    app.areas.list = lines;
    if app.packets.selected.is_some() {
        return draw_selected(app, buffer, head, lines, marks);
    }
    let count = app.all.progress.frames;
    let height = u64::from(lines.height);
    if count == 0 {
        return put(buffer, lines, 0, &Line::styled("reading", app.theme.dim));
    }
    let packets = &mut app.packets;
    packets.at = packets.at.clamp(1, count);
    let last_top = (count + 1).saturating_sub(height).max(1);
    packets.top = packets.top.clamp(1, last_top).min(packets.at).max((packets.at + 1).saturating_sub(height));
    let (top, at) = (packets.top, packets.at);
    let stretch = &packets.stretch;
    put(buffer, head, 0, &styled::parsed(&stretch.header));
    for line in 0..height.min(count + 1 - top) {
        let number = top + line;
        let told = number.checked_sub(stretch.first.0).and_then(|at| stretch.lines.get(at as usize));
        match told {
            Some(told) => put(buffer, lines, line as usize, &styled::parsed(told)),
            None => {
                let is_gone = (stretch.wanted.0..stretch.first.0).contains(&number);
                let what = if is_gone { "  gone: later frames took its room (--frame-memory)" } else { "" };
                let text = format!("{:>7}{what}", grouped(number));
                put(buffer, lines, line as usize, &Line::styled(text, app.theme.dim));
            }
        }
        if app.marks.contains(&Mark::Frame(number)) {
            put(buffer, marks, line as usize, &Line::styled(app.signs.mark, app.theme.notice));
        }
        if number == at {
            let style = if app.part == Part::List { app.theme.cursor } else { app.theme.other_cursor };
            paint(buffer, lines, line as usize, style);
        }
    }
}

/// The frames that the filter selects.
fn draw_selected(app: &mut App, buffer: &mut Buffer, head: Rect, lines: Rect, marks: Rect) {
    let packets = &mut app.packets;
    let Some(selected) = &packets.selected else { return };
    let height = usize::from(lines.height);
    let at = selected.position(packets.at);
    let top = usize::try_from(packets.top).unwrap_or(0);
    let top = scrolled(top, at, height, selected.lines.len());
    packets.top = top as u64;
    put(buffer, head, 0, &styled::parsed(&selected.header));
    if selected.lines.is_empty() {
        let text = if selected.is_looking() {
            "reading"
        } else {
            "no frame is selected by the filter; u takes it away"
        };
        return put(buffer, lines, 0, &Line::styled(text, app.theme.dim));
    }
    for (line, (number, text)) in selected.lines.iter().skip(top).take(height).enumerate() {
        put(buffer, lines, line, &styled::parsed(text));
        if app.marks.contains(&Mark::Frame(number.0)) {
            put(buffer, marks, line, &Line::styled(app.signs.mark, app.theme.notice));
        }
        if top + line == at {
            let style = if app.part == Part::List { app.theme.cursor } else { app.theme.other_cursor };
            paint(buffer, lines, line, style);
        }
    }
}
