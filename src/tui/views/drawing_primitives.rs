//! Parts that all views draw: pieces of areas, lines of text, rules with titles, and signs beside lists.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::output::style::columns as width_of;
use crate::output::units::HumanCount;
use crate::tui::app::application_state::{App, FocusPane};

/// Splits an area into its first lines and the rest.
pub(super) fn cut_top(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area })
}

/// Splits an area into the rest and its last lines.
pub(super) fn cut_bottom(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    let rest = area.height - height;
    (Rect { height: rest, ..area }, Rect { y: area.y + rest, height, ..area })
}

/// Splits an area into its left columns and the rest.
pub(super) fn cut_left(area: Rect, width: u16) -> (Rect, Rect) {
    let width = width.min(area.width);
    (Rect { width, ..area }, Rect { x: area.x + width, width: area.width - width, ..area })
}

/// Writes text to a line of an area, counted from its top. Text outside the area is omitted.
pub(super) fn draw_text(buffer: &mut Buffer, area: Rect, line: usize, text: &Line<'_>) {
    if let Ok(line) = u16::try_from(line)
        && line < area.height
    {
        buffer.set_line(area.x, area.y + line, text, area.width);
    }
}

/// Sets the style of a line of an area.
pub(super) fn set_line_style(buffer: &mut Buffer, area: Rect, line: usize, style: Style) {
    if let Ok(line) = u16::try_from(line)
        && line < area.height
    {
        buffer.set_style(Rect { y: area.y + line, height: 1, ..area }, style);
    }
}

/// The areas of a list: its header, its lines, and the column of marks at their left.
#[derive(Clone, Copy)]
pub(super) struct ListAreas {
    pub(super) head: Rect,
    pub(super) lines: Rect,
    pub(super) marks: Rect,
}

impl ListAreas {
    pub(super) fn new(area: Rect) -> Self {
        let (marks, area) = cut_left(area, 1);
        let (head, lines) = cut_top(area, 1);
        Self { head, lines, marks: cut_top(marks, 1).1 }
    }

    /// Draws the mark and the cursor of a line.
    pub(super) fn draw_signs(self, app: &App, buffer: &mut Buffer, line: usize, is_marked: bool, is_at_cursor: bool) {
        if is_marked {
            draw_text(buffer, self.marks, line, &Line::styled(app.tui_glyphs.mark, app.theme.notice));
        }
        if is_at_cursor {
            let style = if app.focus == FocusPane::List { app.theme.cursor } else { app.theme.other_cursor };
            set_line_style(buffer, self.lines, line, style);
        }
    }
}

/// Draws a rule with a title at its left and a text at its right.
pub(super) fn rule(app: &App, buffer: &mut Buffer, area: Rect, title: &str, right: &str, is_active: bool) {
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

/// Draws the title of tree, bytes or waterfall, with the position of the chosen Transaction.
pub(super) fn pane_title(app: &App, buffer: &mut Buffer, area: Rect, name: &str, pane: FocusPane) {
    let right = match app.entry() {
        Some(_) => {
            let count = app.list.len(app.rows()) as u64;
            format!("{} of {}", grouped(app.list.at as u64 + 1), grouped(count))
        }
        None => String::new(),
    };
    rule(app, buffer, area, name, &right, app.focus == pane);
}

/// Formats a number with thousands separators.
pub(super) fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Makes a line from styled pieces of text.
pub(super) fn spans<const N: usize>(pieces: [(Style, String); N]) -> Line<'static> {
    Line::from(pieces.into_iter().map(|(style, text)| Span::styled(text, style)).collect::<Vec<_>>())
}
