//! The help, generated from the table of key bindings.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{cut_left, cut_top, draw_text, rule};
use super::line_wrap::wrapped;
use crate::tui::app::application_state::App;
use crate::tui::keys::{self, HelpSection};
use crate::tui::theme::from_anstyle;

/// Width of the column of keys.
const KEY_COLUMNS: usize = 14;

/// Draws the help from the scroll position on.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, area) = cut_top(area, 1);
    rule(app, buffer, head, "Keys", "", true);
    app.areas.list = area;
    let columns = if area.width >= 150 { 2 } else { 1 };
    let width = area.width / columns as u16;
    let lines = lines(app, usize::from(width));
    let per_column = lines.len().div_ceil(columns);
    let max_top = per_column.saturating_sub(usize::from(area.height));
    let top = app.help.unwrap_or(0).min(max_top);
    app.help = Some(top);
    if max_top > 0 {
        let lines_below = (per_column - usize::from(area.height)).saturating_sub(top);
        let position = if lines_below > 0 { format!("{lines_below} more below") } else { "the end".to_owned() };
        rule(app, buffer, head, "Keys", &position, true);
    }
    for column in 0..columns {
        let (_, column_area) = cut_left(area, width * column as u16);
        let (column_area, _) = cut_left(column_area, width);
        let visible = lines.iter().skip(column * per_column).take(per_column).skip(top);
        for (at, line) in visible.take(usize::from(area.height)).enumerate() {
            draw_text(buffer, column_area, at, line);
        }
    }
}

fn lines(app: &App, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for section in HelpSection::ALL {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled(section.title(), app.theme.heading));
        for binding in keys::TABLE.iter().filter(|binding| binding.section == section) {
            let names: Vec<String> = binding.keys.iter().map(|key| keys::name(*key)).collect();
            let mut keys = names.join(" ");
            for help in wrapped(binding.help, width.saturating_sub(KEY_COLUMNS + 4)) {
                lines.push(Line::from(vec![
                    Span::styled(format!("  {keys:<KEY_COLUMNS$} "), app.theme.key),
                    Span::raw(help),
                ]));
                keys.clear();
            }
        }
    }
    lines.extend([Line::default(), Line::styled("Colours", app.theme.heading)]);
    let (theme, styles) = (&app.theme, &app.theme.styles);
    let legend = [
        ("operation", from_anstyle(styles.operation), "an operation of the client"),
        ("callback", from_anstyle(styles.callback), "one of the server: a callback"),
        ("error", theme.error, "it failed, or a limit was reached"),
        ("slow", theme.notice, "it took long, or something is missing"),
        ("copies", from_anstyle(styles.mark), "not in the capture, or sent more than once"),
        ("call", theme.call, "calls, and what is in use"),
        ("data in", theme.data_in, "RDMA Reads: data that the client writes"),
        ("data out", theme.data_out, "RDMA Writes: data that the client reads"),
        ("reply", theme.reply, "replies, and what is granted"),
    ];
    for (name, style, meaning) in legend {
        lines.push(Line::from(vec![Span::styled(format!("  {name:<KEY_COLUMNS$} "), style), Span::raw(meaning)]));
    }
    lines
}
