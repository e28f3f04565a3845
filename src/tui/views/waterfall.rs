//! The waterfall of the chosen Transaction: Call, RDMA Reads and Writes of its chunks, and Reply on a time axis.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::infiniband::Syndrome;
use nfsrdma_flow::transaction::RpcMessageKind;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{cut_bottom, cut_top, draw_text, pane_title, set_line_style};
use super::line_wrap::wrapped;
use crate::output::pending_call_progress::responder;
use crate::output::style::{Glyphs, columns as width_of};
use crate::output::tree::transaction::possible_recovery_text;
use crate::output::units::{HumanDuration, HumanSize};
use crate::tui::app::application_state::{App, FocusPane};
use crate::tui::app::transaction_list::scrolled;
use crate::tui::frame_reload::waterfall_bar::{WaterfallBar, WaterfallBarKind};

/// Minimum number of lines for the legend.
const MIN_LEGEND_LINES: u16 = 6;
/// Minimum width of the axis, in columns.
const MIN_AXIS_COLUMNS: usize = 12;

/// Draws the waterfall below a rule.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (head, lines) = cut_top(area, 1);
    pane_title(app, buffer, head, "Waterfall", FocusPane::Tree);
    let subject = app.subject();
    let Some(detail) = app.tree.detail.as_ref() else {
        app.areas.tree = lines;
        return;
    };
    let is_there = Some(detail.subject) == subject;
    if let Some(problem) = &detail.problem {
        return draw_text(buffer, lines, 0, &Line::styled(problem.clone(), app.theme.notice));
    }
    let waterfall = detail.waterfall.clone();
    let Some((start, end)) = waterfall.times() else { return };
    let width = usize::from(lines.width);
    let columns = WaterfallColumns::for_width(width);
    let axis = columns.axis;
    let (scale, lines) = cut_top(lines, 1);
    let (lines, below) = cut_bottom(lines, u16::from(lines.height >= MIN_LEGEND_LINES));
    let notes = waterfall.possible_recovery.map(|(direction, evidence)| {
        let text = possible_recovery_text(evidence, app.tui_glyphs.glyphs);
        wrapped(&format!("{}: {text}", responder(direction)), width)
    });
    let notes = notes.unwrap_or_default();
    let (lines, notes_area) = cut_bottom(lines, (lines.height / 2).min(notes.len() as u16));
    for (line, note) in notes.into_iter().take(usize::from(notes_area.height)).enumerate() {
        draw_text(buffer, notes_area, line, &Line::styled(note, app.theme.notice));
    }
    let recovered = waterfall.bars.iter().filter(|bar| bar.kind == WaterfallBarKind::Recovery);
    let recovery_ns = recovered.map(|bar| bar.to.nanoseconds_since(bar.from).unwrap_or(0)).sum();
    draw_text(buffer, below, 0, &legend(app, width, recovery_ns));
    let total = end.nanoseconds_since(start).unwrap_or(0);
    let glyphs = app.tui_glyphs.glyphs;
    let mut legend = format!("{:<18} {:>8} ", "", "BYTES");
    if columns.has_frames {
        legend += &format!("{:<17} ", "FRAMES");
    }
    // A call that is waiting for its reply may have nothing but one frame.
    let label = if total > 0 { HumanDuration(total, glyphs).to_string() } else { String::new() };
    legend += &format!("{:<1$}", "0", axis.saturating_sub(width_of(&label)));
    legend += &format!("{label}  {:>8} {:>8}", "AT", "TOOK");
    if columns.has_acks {
        legend += &format!(" {:>8}", "ACK IN");
    }
    draw_text(buffer, scale, 0, &Line::styled(legend, app.theme.heading));
    app.areas.tree = lines;
    let height = usize::from(lines.height);
    let count = waterfall.bars.len();
    app.tree.bar_top = scrolled(app.tree.bar_top, app.tree.bar, height, count);
    for (line, bar) in waterfall.bars.iter().skip(app.tree.bar_top).take(height).enumerate() {
        let text = bar_line(app, bar, (start, total), columns);
        draw_text(buffer, lines, line, &text);
        if app.tree.bar_top + line == app.tree.bar && app.focus == FocusPane::Tree {
            set_line_style(buffer, lines, line, app.theme.cursor);
        }
    }
    if !is_there {
        buffer.set_style(lines, app.theme.dim);
    }
}

fn bar_line(
    app: &App,
    bar: &WaterfallBar,
    (start, total): (Timestamp, u64),
    WaterfallColumns { axis, has_frames, has_acks }: WaterfallColumns,
) -> Line<'static> {
    let glyphs = app.tui_glyphs.glyphs;
    let (name, style) = match bar.kind {
        WaterfallBarKind::Message(RpcMessageKind::Call) => ("Call".to_owned(), app.theme.call),
        WaterfallBarKind::Message(RpcMessageKind::Reply) => ("Reply".to_owned(), app.theme.reply),
        WaterfallBarKind::Read(chunk) => (format!("Read  chunk {chunk}"), app.theme.data_in),
        WaterfallBarKind::Write(chunk) => (format!("Write chunk {chunk}"), app.theme.data_out),
        WaterfallBarKind::ReplyWrite => ("Write Reply chunk".to_owned(), app.theme.data_out),
        WaterfallBarKind::Done => ("RDMA_DONE".to_owned(), app.theme.call),
        WaterfallBarKind::Nak(Syndrome::RnrNak { .. }) => ("RNR NAK".to_owned(), app.theme.error),
        WaterfallBarKind::Nak(_) => ("NAK".to_owned(), app.theme.error),
        WaterfallBarKind::Recovery => ("Recovery".to_owned(), app.theme.error),
    };
    let bytes = if bar.bytes > 0 { HumanSize(bar.bytes).to_string() } else { String::new() };
    let mut line = vec![Span::styled(format!("{name:<18}"), style), Span::raw(format!(" {bytes:>8} "))];
    if has_frames {
        let (first, last) = (bar.frames.0.0, bar.frames.1.0);
        let frames = if first == last { first.to_string() } else { format!("{first}-{last}") };
        line.push(Span::styled(format!("{frames:<17} "), app.theme.dim));
    }
    let at = bar.from.nanoseconds_since(start).unwrap_or(0);
    let took = bar.to.nanoseconds_since(bar.from).unwrap_or(0);
    let column = |ns: u64| (u128::from(ns) * (axis as u128 - 1) / u128::from(total.max(1))) as usize;
    // Frames after the end of the Reply are late copies, beyond the axis.
    let is_late = at > total;
    let (first, last) = (column(at.min(total)), column((at + took).min(total)));
    let sign = match (bar.kind, is_late, took) {
        (WaterfallBarKind::Nak(_), ..) => app.tui_glyphs.nak,
        (WaterfallBarKind::Recovery, ..) => app.tui_glyphs.rule,
        (_, true, _) => app.tui_glyphs.hatched,
        (_, false, 0) => app.tui_glyphs.moment,
        (_, false, _) => app.tui_glyphs.full,
    };
    let is_nak = matches!(bar.kind, WaterfallBarKind::Nak(_));
    let mut end = if is_nak { first + 1 } else { last + 1 };
    // The reason of a NAK is after its sign, or before it if there is no space.
    let nak_text = nak_reason(bar.kind, glyphs).unwrap_or_default();
    let wide = width_of(&nak_text) + 1;
    let (before, behind) = match () {
        () if nak_text.is_empty() => (String::new(), String::new()),
        () if end + wide <= axis => (String::new(), format!(" {nak_text}")),
        () if wide <= first => (format!("{nak_text} "), String::new()),
        () => (String::new(), String::new()),
    };
    line.push(Span::raw(" ".repeat(first - width_of(&before))));
    line.push(Span::styled(before, app.theme.dim));
    line.push(Span::styled(sign.repeat(if is_nak { 1 } else { last - first + 1 }), style));
    end += width_of(&behind);
    line.push(Span::styled(behind, app.theme.dim));
    // An ACK is drawn if its position is free. Otherwise only its column shows it.
    let acknowledged = bar.ack.and_then(|acknowledged| acknowledged.time.nanoseconds_since(start));
    if let Some(at) = acknowledged.filter(|at| *at <= total).map(column).filter(|at| *at >= end && *at < axis) {
        line.push(Span::raw(" ".repeat(at - end)));
        line.push(Span::styled(app.tui_glyphs.ack, app.theme.notice));
        end = at + 1;
    }
    line.push(Span::raw(" ".repeat(axis.saturating_sub(end))));
    let took = match (took, bar.is_open) {
        (_, true) => "no answer".to_owned(),
        (0, _) => String::new(),
        (took, _) => HumanDuration(took, glyphs).to_string(),
    };
    let text = format!("  {:>8} {took:>8}", HumanDuration(at, glyphs).to_string());
    line.push(Span::styled(text, Style::new()));
    if has_acks {
        let ack_delay_ns = bar.ack.map(|acknowledged| acknowledged.time.nanoseconds_since(bar.to).unwrap_or(0));
        let ack_delay = ack_delay_ns.map_or(String::new(), |after| HumanDuration(after, glyphs).to_string());
        line.push(Span::styled(format!(" {ack_delay:>8}"), app.theme.notice));
    }
    Line::from(line)
}

/// The visible columns and the width of the axis.
#[derive(Clone, Copy, Debug)]
struct WaterfallColumns {
    axis: usize,
    has_frames: bool,
    has_acks: bool,
}

impl WaterfallColumns {
    fn for_width(width: usize) -> Self {
        let (has_frames, has_acks) = (width >= 100, width >= 110);
        let fixed = 18 + 10 + if has_frames { 18 } else { 0 } + 19 + if has_acks { 9 } else { 0 };
        Self { axis: width.saturating_sub(fixed).max(MIN_AXIS_COLUMNS), has_frames, has_acks }
    }
}

/// Returns the reason of a NAK.
fn nak_reason(kind: WaterfallBarKind, glyphs: Glyphs) -> Option<String> {
    match kind {
        WaterfallBarKind::Nak(Syndrome::Nak(code)) => {
            Some(code.name().map_or_else(|| format!("code {}", code.0), str::to_owned))
        }
        WaterfallBarKind::Nak(syndrome) => {
            let wait_ns = syndrome.wait_us().map(|us| u64::from(us).saturating_mul(1_000));
            wait_ns.map(|ns| format!("wait {}", HumanDuration(ns, glyphs)))
        }
        _ => None,
    }
}

/// Returns the legend of the signs with the time in recovery, as far as it fits.
fn legend(app: &App, mut room: usize, recovery_ns: u64) -> Line<'static> {
    let (signs, theme) = (&app.tui_glyphs, &app.theme);
    let recovery = format!("recovery {}", HumanDuration(recovery_ns, signs.glyphs));
    let entries = [
        (signs.rule, theme.error, if recovery_ns > 0 { recovery.as_str() } else { "" }),
        (signs.moment, theme.call, "Call, reply"),
        (signs.full, theme.data_in, "RDMA Read"),
        (signs.full, theme.data_out, "RDMA Write"),
        (signs.hatched, theme.reply, "copy after the reply"),
        (signs.ack, theme.notice, "ACK"),
        (signs.nak, theme.error, "NAK"),
    ];
    let mut spans = Vec::new();
    for (sign, style, meaning) in entries.into_iter().filter(|(_, _, what)| !what.is_empty()) {
        let width = width_of(sign) + width_of(meaning) + 3;
        if width <= room {
            room -= width;
            spans.push(Span::styled(format!(" {sign} "), style));
            spans.push(Span::styled(format!("{meaning} "), theme.dim));
        }
    }
    Line::from(spans)
}
