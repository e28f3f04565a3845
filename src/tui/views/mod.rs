//! The views, one module each, and the surrounding lines: view names above, messages and input below.

pub(super) mod charts;
pub(super) mod connections;
mod drawing_primitives;
pub(super) mod files;
mod frames;
mod help;
mod hex;
mod line_wrap;
pub(super) mod operations;
mod pending_calls;
mod status_lines;
pub(super) mod table;
mod title_bar;
mod transactions;
mod tree;
mod waterfall;

use ratatui::Frame;
use ratatui::text::Line;

use super::app::application_state::App;
use super::tui_view::TuiView;
use drawing_primitives::{cut_bottom, cut_top, draw_text};

/// Draws the whole screen.
pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let area = frame.area();
    app.areas = Default::default();
    if area.width < 20 || area.height < 6 {
        for (line, text) in line_wrap::wrapped("too small: 20x6 at least", usize::from(area.width)).iter().enumerate() {
            draw_text(frame.buffer_mut(), area, line, &Line::from(text.as_str()));
        }
        return;
    }
    let buffer = frame.buffer_mut();
    let (top, rest) = cut_top(area, 1);
    title_bar::draw(app, buffer, top);
    let (rest, last) = cut_bottom(rest, status_lines::line_count(app, rest));
    let rest = status_lines::draw_above(app, buffer, rest);
    let cursor = status_lines::draw_line(app, buffer, last);
    app.areas.cursor = cursor;
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
