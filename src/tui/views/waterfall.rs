//! The waterfall of the chosen Transaction: its Call, each RDMA Read and Write of each chunk, and its Reply, on one axis.

use nfsrdma_dissectors::flow::transaction::Which;
use nfsrdma_dissectors::frame::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::output::style::columns as width_of;
use crate::output::units::{Bytes, Duration};
use crate::tui::again::{Bar, BarKind};
use crate::tui::app::{App, Part, scrolled};

use super::{cut_top, paint, put, transactions};

/// Columns of the axis at least.
const AXIS: usize = 12;

/// Draws the waterfall under a rule.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, lines) = cut_top(area, 1);
    transactions::title(app, buffer, head, "Waterfall", Part::Tree);
    let subject = app.subject();
    let Some(detail) = app.tree.detail.as_ref() else {
        app.areas.tree = lines;
        return;
    };
    let is_there = Some(detail.subject) == subject;
    if let Some(problem) = &detail.problem {
        return put(buffer, lines, 0, &Line::styled(problem.clone(), app.theme.notice));
    }
    let waterfall = detail.waterfall.clone();
    let Some((start, end)) = waterfall.times() else { return };
    let width = usize::from(lines.width);
    let has_frames = width >= 100;
    let fixed = 18 + 8 + if has_frames { 18 } else { 0 } + 19;
    let axis = width.saturating_sub(fixed).max(AXIS);
    let (scale, lines) = cut_top(lines, 1);
    let total = end.since(start).unwrap_or(0);
    let glyphs = app.signs.glyphs;
    let mut legend = format!("{:<18} {:>6} ", "", "BYTES");
    if has_frames {
        legend += &format!("{:<17} ", "FRAMES");
    }
    let label = Duration(total, glyphs).to_string();
    legend += &format!("{:<1$}", "0", axis.saturating_sub(width_of(&label)));
    legend += &format!("{label}  {:>8} {:>8}", "AT", "TOOK");
    put(buffer, scale, 0, &Line::styled(legend, app.theme.heading));
    app.areas.tree = lines;
    let height = usize::from(lines.height);
    let count = waterfall.bars.len();
    app.tree.bar_top = scrolled(app.tree.bar_top, app.tree.bar, height, count);
    for (line, bar) in waterfall.bars.iter().skip(app.tree.bar_top).take(height).enumerate() {
        let text = bar_line(app, bar, (start, total), axis, has_frames);
        put(buffer, lines, line, &text);
        if app.tree.bar_top + line == app.tree.bar && app.part == Part::Tree {
            paint(buffer, lines, line, app.theme.cursor);
        }
    }
    if !is_there {
        buffer.set_style(lines, app.theme.dim);
    }
}

fn bar_line(
    app: &App,
    bar: &Bar,
    (start, total): (Timestamp, u64),
    axis: usize,
    has_frames: bool,
) -> Line<'static> {
    let glyphs = app.signs.glyphs;
    let (name, style) = match bar.kind {
        BarKind::Message(Which::Call) => ("Call".to_owned(), app.theme.call),
        BarKind::Message(Which::Reply) => ("Reply".to_owned(), app.theme.reply),
        BarKind::Read(chunk) => (format!("Read  chunk {chunk}"), app.theme.data_in),
        BarKind::Write(chunk) => (format!("Write chunk {chunk}"), app.theme.data_out),
        BarKind::ReplyWrite => ("Write Reply chunk".to_owned(), app.theme.data_out),
        BarKind::Done => ("RDMA_DONE".to_owned(), app.theme.call),
    };
    let bytes = if bar.bytes > 0 { Bytes(bar.bytes).to_string() } else { String::new() };
    let mut line = vec![Span::styled(format!("{name:<18}"), style), Span::raw(format!(" {bytes:>6} "))];
    if has_frames {
        let (first, last) = (bar.frames.0.0, bar.frames.1.0);
        let frames = if first == last { first.to_string() } else { format!("{first}-{last}") };
        line.push(Span::styled(format!("{frames:<17} "), app.theme.dim));
    }
    let at = bar.from.since(start).unwrap_or(0);
    let took = bar.to.since(bar.from).unwrap_or(0);
    let column = |ns: u64| (u128::from(ns) * (axis as u128 - 1) / u128::from(total.max(1))) as usize;
    // What was sent after the Reply had ended is a copy that comes late: it lies beyond the axis.
    let is_late = at > total;
    let (first, last) = (column(at.min(total)), column((at + took).min(total)));
    let sign = match (is_late, took) {
        (true, _) => app.signs.hatched,
        (false, 0) => app.signs.moment,
        (false, _) => app.signs.full,
    };
    line.push(Span::raw(" ".repeat(first)));
    line.push(Span::styled(sign.repeat(last - first + 1), style));
    line.push(Span::raw(" ".repeat(axis.saturating_sub(last + 1))));
    let took = match (took, bar.is_open) {
        (_, true) => "no answer".to_owned(),
        (0, _) => String::new(),
        (took, _) => Duration(took, glyphs).to_string(),
    };
    let text = format!("  {:>8} {took:>8}", Duration(at, glyphs).to_string());
    line.push(Span::styled(text, Style::new()));
    Line::from(line)
}
