//! The tree of the chosen item, with every decoded field.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{cut_top, draw_text, pane_title, rule, set_line_style};
use crate::tui::app::application_state::{App, FocusPane};
use crate::tui::frame_reload::detail_subject::DetailSubject;
use crate::tui::styled_line_parsing::fitted;
use crate::tui::theme;

/// Draws the tree below a rule.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, lines) = cut_top(area, 1);
    app.areas.tree = lines;
    let subject = app.subject();
    match subject {
        Some(DetailSubject::Frame(_)) => rule(app, buffer, head, "Frame", "", app.focus == FocusPane::Tree),
        Some(DetailSubject::Transaction(_)) | None => {
            pane_title(app, buffer, head, "Transaction", FocusPane::Tree);
        }
    }
    let is_there = app.tree.detail.as_ref().is_some_and(|detail| Some(detail.subject) == subject);
    if let Some(problem) = app.tree.detail.as_ref().and_then(|detail| detail.problem.as_ref()) {
        let text = Line::styled(problem.clone(), app.theme.notice);
        return draw_text(buffer, lines, 0, &text);
    }
    app.tree.scroll(usize::from(lines.height));
    for line in 0..usize::from(lines.height) {
        let at = app.tree.top + line;
        let Some((node_line, is_open)) = app.tree.line(at) else { break };
        let sign = match is_open {
            Some(true) => app.tui_glyphs.open,
            Some(false) => app.tui_glyphs.closed,
            None => " ",
        };
        let mut text =
            vec![Span::raw(" ".repeat(node_line.depth * 2)), Span::styled(format!("{sign} "), app.theme.dim)];
        text.extend(
            node_line.pieces.iter().map(|(style, text)| Span::styled(text.clone(), theme::from_anstyle(*style))),
        );
        if let (Some(false), true) = (is_open, node_line.pieces.is_empty()) {
            text.push(Span::raw(app.tui_glyphs.glyphs.cut));
        }
        let text = scrolled_right(text, app.tree.left);
        draw_text(buffer, lines, line, &fitted(text, usize::from(lines.width), &app.tui_glyphs.glyphs));
        if at == app.tree.at {
            let style = if app.focus == FocusPane::Tree { app.theme.cursor } else { app.theme.other_cursor };
            set_line_style(buffer, lines, line, style);
        }
    }
    // Details of the previous row are dimmed.
    if !is_there {
        buffer.set_style(lines, app.theme.dim);
    }
}

/// Returns the line without its first columns.
fn scrolled_right(spans: Vec<Span<'static>>, mut skipped_columns: usize) -> Line<'static> {
    let mut visible = Vec::new();
    for span in spans {
        let count = span.content.chars().count();
        if skipped_columns >= count {
            skipped_columns -= count;
            continue;
        }
        let text: String = span.content.chars().skip(skipped_columns).collect();
        skipped_columns = 0;
        visible.push(Span::styled(text, span.style));
    }
    Line::from(visible)
}
