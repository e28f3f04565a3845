//! Hex dump of the bytes that the chosen line of the tree was decoded from, with the line's own bytes highlighted.

use nfsrdma_flow::transaction::RpcMessageKind;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{cut_top, draw_text, rule};
use crate::output::tree::lines::TreeLineByteSource;
use crate::tui::app::application_state::{App, FocusPane};

/// Width of a hex dump with 16 bytes per line.
pub(super) const WIDTH: u16 = 6 + 16 * 3 + 1 + 1 + 16;

/// Draws the bytes below a rule.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, lines) = cut_top(area, 1);
    app.areas.bytes = lines;
    let detail = app.tree.detail.as_ref();
    let chosen = app.tree.chosen();
    // For a line without bytes, show the first message, or the first frame.
    let origin = chosen.map(|line| line.origin).filter(|origin| *origin != TreeLineByteSource::Nothing);
    let first = || {
        let mut origins = detail?.lines.iter().map(|line| line.origin);
        let is_message = |origin: &TreeLineByteSource| {
            matches!(origin, TreeLineByteSource::Message(_) | TreeLineByteSource::Frame(_))
        };
        let all: Vec<TreeLineByteSource> = origins.by_ref().filter(is_message).collect();
        all.iter().find(|origin| matches!(origin, TreeLineByteSource::Message(_))).or(all.first()).copied()
    };
    let origin = origin.or_else(first).unwrap_or_default();
    let bytes = detail.and_then(|detail| detail.bytes.get(&origin)).map_or(&[][..], Vec::as_slice);
    let title = match origin {
        TreeLineByteSource::Nothing => "Bytes".to_owned(),
        TreeLineByteSource::Frame(number) => format!("Frame {number}"),
        TreeLineByteSource::Message(RpcMessageKind::Call) => "Call".to_owned(),
        TreeLineByteSource::Message(RpcMessageKind::Reply) => "Reply".to_owned(),
        TreeLineByteSource::Chunk(RpcMessageKind::Call) => "Position-Zero Read chunk".to_owned(),
        TreeLineByteSource::Chunk(RpcMessageKind::Reply) => "Reply chunk".to_owned(),
    };
    let marked = chosen.and_then(|line| line.bytes.clone()).unwrap_or(0..0);
    let right = match (marked.len(), bytes.len()) {
        (0, 0) => String::new(),
        (0, count) => format!("{count} bytes"),
        (1, count) => format!("byte {} of {count}", marked.start),
        (_, count) => format!("bytes {} to {} of {count}", marked.start, marked.end - 1),
    };
    rule(app, buffer, head, &title, &right, app.focus == FocusPane::Bytes);
    if bytes.is_empty() {
        let text = if origin == TreeLineByteSource::Nothing {
            "no bytes belong to this line"
        } else {
            "no bytes were captured"
        };
        return draw_text(buffer, lines, 0, &Line::styled(text, app.theme.dim));
    }
    let per_line = per_line(usize::from(lines.width));
    let height = usize::from(lines.height);
    let count = bytes.len().div_ceil(per_line);
    let max_top = count.saturating_sub(height);
    // If the user has not scrolled, the first highlighted byte is a little below the top.
    let top = app.tree.bytes_top.unwrap_or_else(|| (marked.start / per_line).saturating_sub(height / 4)).min(max_top);
    for line in 0..height.min(count) {
        let start = (top + line) * per_line;
        let Some(part) = bytes.get(start..bytes.len().min(start + per_line)) else { break };
        let mut text = vec![Span::styled(format!("{start:04x}  "), app.theme.dim)];
        let style = |at: usize, byte: Option<u8>| match (marked.contains(&at), byte) {
            (true, _) => app.theme.bytes,
            (false, Some(0)) => app.theme.dim,
            _ => Style::new(),
        };
        for at in 0..per_line {
            let position = start + at;
            match part.get(at) {
                Some(byte) => {
                    text.push(Span::styled(format!("{byte:02x}"), style(position, Some(*byte))));
                    // The gap between two highlighted bytes is highlighted too.
                    let is_inner = marked.contains(&position) && marked.contains(&(position + 1)) && at + 1 < per_line;
                    text.push(Span::styled(" ", if is_inner { app.theme.bytes } else { Style::new() }));
                }
                None => text.push(Span::raw("   ")),
            }
            if at + 1 == per_line / 2 && per_line >= 8 {
                text.push(Span::raw(" "));
            }
        }
        text.push(Span::raw(" "));
        for (at, byte) in part.iter().enumerate() {
            let is_shown = byte.is_ascii_graphic() || *byte == b' ';
            let letter = if is_shown { char::from(*byte) } else { '.' };
            let shade = if is_shown { Some(*byte) } else { Some(0) };
            text.push(Span::styled(letter.to_string(), style(start + at, shade)));
        }
        draw_text(buffer, lines, line, &Line::from(text));
    }
    app.tree.bytes_top = app.tree.bytes_top.map(|top| top.min(max_top));
}

/// Returns the number of bytes per line for a width in columns.
fn per_line(width: usize) -> usize {
    [16, 8, 4].into_iter().find(|count| 6 + count * 4 + 2 <= width).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_screen_has_fewer_bytes_on_a_line() {
        assert_eq!(per_line(usize::from(WIDTH)), 16);
        assert_eq!([80, 71, 39, 10].map(per_line), [16, 8, 4, 2]);
    }
}
