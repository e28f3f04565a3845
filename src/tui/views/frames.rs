//! The packet list, of which only the visible part is read, with tree and bytes of the chosen frame below.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::drawing_primitives::{ListAreas, cut_top, draw_text, grouped};
use super::transactions;
use crate::output::style::columns as width_of;
use crate::tui::app::application_state::{App, FocusPane};
use crate::tui::app::filtered_sorted_frame_list::{FrameColumn, PacketListSortOrder};
use crate::tui::app::marked_row::MarkedRow;
use crate::tui::app::transaction_list::scrolled;
use crate::tui::styled_line_parsing;

/// Draws the view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let has_list = !(app.is_zoomed && app.focus != FocusPane::List);
    let has_tree = !(app.is_zoomed && app.focus == FocusPane::List) && area.height >= 10;
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
    let areas = ListAreas::new(area);
    let ListAreas { head, lines, .. } = areas;
    app.areas.list = lines;
    if let Some(loaded) = &app.frame_list.lines {
        let header = loaded.header.clone();
        draw_loaded(app, buffer, areas);
        return headings(app, buffer, head, &header);
    }
    let count = app.unfiltered.progress.frames;
    let height = u64::from(lines.height);
    if count == 0 {
        return draw_text(buffer, lines, 0, &Line::styled("reading", app.theme.dim));
    }
    let packets = &mut app.frame_list;
    packets.at = packets.at.clamp(1, count);
    let last_top = (count + 1).saturating_sub(height).max(1);
    packets.top = packets.top.clamp(1, last_top).min(packets.at).max((packets.at + 1).saturating_sub(height));
    let (top, at) = (packets.top, packets.at);
    let page = &app.frame_list.slice;
    draw_text(buffer, head, 0, &styled_line_parsing::parsed(&page.header));
    for line in 0..height.min(count + 1 - top) {
        let number = top + line;
        let frame_text = number.checked_sub(page.first.0).and_then(|at| page.lines.get(at as usize));
        match frame_text {
            Some(frame_text) => draw_text(buffer, lines, line as usize, &styled_line_parsing::parsed(frame_text)),
            None => {
                let is_gone = (page.wanted.0..page.first.0).contains(&number);
                let reason = if is_gone { "  no longer in memory (--max-memory)" } else { "" };
                let text = format!("{:>7}{reason}", grouped(number));
                draw_text(buffer, lines, line as usize, &Line::styled(text, app.theme.dim));
            }
        }
        let is_marked = app.marks.contains(&MarkedRow::Frame(number));
        areas.draw_signs(app, buffer, line as usize, is_marked, number == at);
    }
    let header = app.frame_list.slice.header.clone();
    headings(app, buffer, head, &header);
}

/// Draws the loaded frames: those that the filter selects, or all in another order.
fn draw_loaded(app: &mut App, buffer: &mut Buffer, areas: ListAreas) {
    let ListAreas { head, lines, .. } = areas;
    let Some(loaded) = &app.frame_list.lines else { return };
    let height = usize::from(lines.height);
    let at = loaded.position_of(app.frame_list.at);
    let top = usize::try_from(app.frame_list.top).unwrap_or(0);
    let top = scrolled(top, at, height, loaded.len());
    app.frame_list.top = top as u64;
    draw_text(buffer, head, 0, &styled_line_parsing::parsed(&loaded.header));
    if loaded.len() == 0 {
        let text = if loaded.is_scanning() { "reading" } else { "no frame matches the filter; u removes it" };
        return draw_text(buffer, lines, 0, &Line::styled(text, app.theme.dim));
    }
    for (line, frame) in loaded.lines_from(top).take(height).enumerate() {
        draw_text(buffer, lines, line, &styled_line_parsing::parsed(&frame.text));
        let is_marked = app.marks.contains(&MarkedRow::Frame(frame.number.0));
        areas.draw_signs(app, buffer, line, is_marked, top + line == at);
    }
}

/// Records the column positions for the mouse, and highlights the sort column.
fn headings(app: &mut App, buffer: &mut Buffer, head: Rect, header: &str) {
    let text = styled_line_parsing::plain(header);
    let PacketListSortOrder { by, is_descending } = app.frame_list.sort;
    let is_shown = !app.frame_list.sort.is_capture_order();
    let (up, down) = app.tui_glyphs.sorted;
    let sign = if is_descending { down } else { up };
    let mut from = 0;
    for (number, column) in FrameColumn::ALL.into_iter().enumerate() {
        let Some(name_offset) = text.get(from..).and_then(|rest| rest.find(column.name())) else { continue };
        let start = from + name_offset;
        let end = text.get(start..).and_then(|rest| rest.find(' ')).map_or(text.len(), |blank| start + blank);
        let columns = |to: usize| width_of(text.get(..to).unwrap_or_default()) as u16;
        // A right-aligned column begins after the previous one, and its name is at its end.
        let (x, to) = (head.x + columns(from), head.x + columns(end));
        if to >= head.x + head.width {
            break;
        }
        app.areas.headings.push((Rect { x, width: to - x + 1, height: 1, ..head }, number));
        if is_shown && column == by {
            // The sign follows the name. A name at the right end of its column moves to the left for it; the mark
            // column provides the first one's place.
            let moved = u16::from(column.is_at_right());
            let x = (head.x + columns(start)).saturating_sub(moved);
            let name = text.get(start..end).unwrap_or_default();
            let heading_area = Rect { x, width: columns(end) - columns(start) + 1, height: 1, ..head };
            draw_text(buffer, heading_area, 0, &Line::styled(format!("{name}{sign}"), app.theme.key));
        }
        from = end;
    }
}
