//! The packet list, read from the capture where one looks; below it the tree and the bytes of the chosen frame.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::tui::app::{App, Part};

use super::{cut_top, grouped, paint, put, styled, transactions};

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
    let (head, lines) = cut_top(area, 1);
    app.areas.list = lines;
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
        if number == at {
            let style = if app.part == Part::List { app.theme.cursor } else { app.theme.other_cursor };
            paint(buffer, lines, line as usize, style);
        }
    }
}
