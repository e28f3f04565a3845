//! The first line: the names of the views, the name of the capture and its state.

use nfsrdma_capture_file::CaptureInterfaceLinkState;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::drawing_primitives::{draw_text, grouped};
use crate::output::style::{Glyphs, columns as width_of};
use crate::output::units::{HumanDuration, HumanSize};
use crate::tui::app::application_state::App;
use crate::tui::tui_view::TuiView;

/// Maximum width for which the name of the capture makes the names of views shorter, in columns.
const MAX_NAME_COLUMNS: usize = 14;
/// Minimum width of the name of a file that is cut, in columns.
const MIN_CUT_NAME_COLUMNS: usize = 8;

/// Lag of decoding that is displayed, in nanoseconds.
const MIN_BEHIND_NS: u64 = 1_000_000_000;

/// Importance of a part of the state, the most important first. Parts that do not fit are left out whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TitleBarPartPriority {
    Link,
    Waiting,
    Behind,
    Stopped,
    Dropped,
    Name,
    Age,
    Read,
}

/// A part of the state of the capture.
#[derive(Clone, Debug)]
struct TitleBarPart {
    rank: TitleBarPartPriority,
    text: String,
}

/// Ways to write the names of the views: that of the displayed view, and the others.
type TitleBarViewNameFormatters = (fn(TuiView) -> &'static str, fn(TuiView) -> &'static str);

/// The names of the views from wide to narrow. The first three have the full name of the displayed view.
const VIEW_NAMES: [TitleBarViewNameFormatters; 5] = [
    (TuiView::title, TuiView::title),
    (TuiView::title, TuiView::short_title),
    (TuiView::title, no_name),
    (TuiView::short_title, no_name),
    (no_name, no_name),
];
const WITH_FULL_NAME: usize = 3;

fn no_name(_: TuiView) -> &'static str {
    ""
}

/// Returns the label of a view.
fn label(app: &App, view: TuiView, number: usize, (shown, others): TitleBarViewNameFormatters) -> String {
    match if view == app.view { shown(view) } else { others(view) } {
        "" => format!(" {number} "),
        name => format!(" {number} {name} "),
    }
}

/// Returns the labels of all views, and their width with a blank behind each.
fn labels(app: &App, names: TitleBarViewNameFormatters) -> (Vec<String>, usize) {
    let labels: Vec<String> =
        TuiView::ALL.into_iter().zip(1..).map(|(view, number)| label(app, view, number, names)).collect();
    let width = labels.iter().map(|label| width_of(label) + 1).sum();
    (labels, width)
}

/// Draws the view names and the state of the capture. View names are shortened to leave space for the state.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let parts = parts(app);
    let room = usize::from(area.width);
    let needed = |min_priority: TitleBarPartPriority| -> usize {
        let kept_parts: Vec<&TitleBarPart> = parts.iter().filter(|part| part.rank <= min_priority).collect();
        let width = |part: &TitleBarPart| match part.rank {
            TitleBarPartPriority::Name => width_of(&part.text).min(MAX_NAME_COLUMNS),
            _ => width_of(&part.text),
        };
        kept_parts.iter().map(|part| width(part)).sum::<usize>()
            + kept_parts.len().saturating_sub(1) * separator_width(app)
    };
    let fits = |names: &&TitleBarViewNameFormatters, least| labels(app, **names).1 + needed(least) <= room;
    let (wide, all) = (VIEW_NAMES.get(..WITH_FULL_NAME).unwrap_or_default(), &VIEW_NAMES);
    let names = wide
        .iter()
        .find(|names| fits(names, TitleBarPartPriority::Name))
        .or_else(|| all.iter().skip(WITH_FULL_NAME - 1).find(|names| fits(names, TitleBarPartPriority::Behind)))
        .copied()
        .unwrap_or((no_name, no_name));
    let (labels, width) = labels(app, names);
    let state = fitted(app, &parts, room.saturating_sub(width));
    let mut x = area.x;
    let mut tabs = Vec::new();
    for (view, text) in TuiView::ALL.into_iter().zip(labels) {
        let style = if view == app.view { app.theme.tab } else { app.theme.dim };
        let width = width_of(&text) as u16;
        let tab_area = Rect { x, width: width.min((area.x + area.width).saturating_sub(x)), ..area };
        draw_text(buffer, tab_area, 0, &Line::styled(text, style));
        tabs.push((tab_area, view));
        x += width + 1;
    }
    app.areas.tabs = tabs;
    let width = width_of(&state) as u16;
    if width > 0 && x + width <= area.x + area.width {
        let info_area = Rect { x: area.x + area.width - width, width, ..area };
        draw_text(buffer, info_area, 0, &Line::from(state));
    }
}

fn separator_width(app: &App) -> usize {
    width_of(app.tui_glyphs.separator) + 2
}

/// Returns the parts that fit, the most important ones first, in their order on the screen.
fn fitted(app: &App, parts: &[TitleBarPart], width: usize) -> String {
    let gap = separator_width(app);
    let mut by_rank: Vec<(usize, &TitleBarPart)> = parts.iter().enumerate().collect();
    by_rank.sort_by_key(|(_, part)| part.rank);
    let mut kept: Vec<(usize, TitleBarPartPriority, String)> = Vec::new();
    let mut remaining = width;
    for (at, TitleBarPart { rank, text }) in by_rank {
        let gap_before = if kept.is_empty() { 0 } else { gap };
        let space = remaining.saturating_sub(gap_before);
        let text = match rank {
            // Without the number of waiting Calls, the age has no meaning.
            TitleBarPartPriority::Age if !kept.iter().any(|(_, rank, _)| *rank == TitleBarPartPriority::Waiting) => {
                continue;
            }
            // The start of a long file name may be cut, but an interface is named or not.
            TitleBarPartPriority::Name if !app.capture.is_live() && space >= MIN_CUT_NAME_COLUMNS => {
                fit_end(text, space, &app.tui_glyphs.glyphs)
            }
            _ => text.clone(),
        };
        let width = width_of(&text);
        if width > 0 && width <= space {
            remaining -= gap_before + width;
            kept.push((at, *rank, text));
        }
    }
    kept.sort_by_key(|(at, ..)| *at);
    let texts: Vec<String> = kept.into_iter().map(|(_, _, text)| text).collect();
    texts.join(&format!(" {} ", app.tui_glyphs.separator))
}

/// Truncates text at its start.
fn fit_end(text: &str, width: usize, glyphs: &Glyphs) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let max_width = width.saturating_sub(width_of(glyphs.cut));
    let start =
        text.char_indices().map(|(at, _)| at).find(|at| width_of(text.get(*at..).unwrap_or_default()) <= max_width);
    match start.and_then(|start| text.get(start..)) {
        Some(end) => format!("{}{end}", glyphs.cut),
        None => String::new(),
    }
}

/// Returns the name of the capture and the parts of its state, in their order on the screen.
fn parts(app: &App) -> Vec<TitleBarPart> {
    let progress = app.displayed_pass().progress;
    let mut parts = Vec::new();
    let mut add = |rank, text: String| parts.push(TitleBarPart { rank, text });
    add(TitleBarPartPriority::Name, app.capture.name());
    if app.is_paused {
        add(TitleBarPartPriority::Stopped, "PAUSED".to_owned());
    } else if !progress.is_over {
        match progress.bytes.total_bytes.filter(|total| *total > 0) {
            Some(total) => {
                let fraction = progress.bytes.read_bytes.min(total) as f64 / total as f64;
                add(TitleBarPartPriority::Read, format!("{:.0}%", fraction * 100.0));
            }
            // Frames received once are read only by the first pass.
            None => {
                add(TitleBarPartPriority::Read, HumanSize(app.unfiltered.progress.bytes.read_bytes).to_string());
            }
        }
    }
    if let Some(state) = app.link_problem() {
        let state_name = match state {
            CaptureInterfaceLinkState::Up => "UP",
            CaptureInterfaceLinkState::NoCarrier => "NO LINK",
            CaptureInterfaceLinkState::Down => "DOWN",
            CaptureInterfaceLinkState::Gone => "GONE",
        };
        add(TitleBarPartPriority::Link, state_name.to_owned());
    }
    if app.capture.is_live() && app.unfiltered.progress.is_over {
        add(TitleBarPartPriority::Stopped, "ended".to_owned());
    }
    if !progress.is_over
        && let Some(oldest) = app.displayed_pass().activity.old_calls().next()
    {
        let activity = &app.displayed_pass().activity;
        let age = HumanDuration(activity.age_ns(oldest), app.tui_glyphs.glyphs);
        add(TitleBarPartPriority::Waiting, format!("{} waiting", grouped(activity.old_count as u64)));
        add(TitleBarPartPriority::Age, age.to_string());
    }
    let behind_ns = app.unfiltered.progress.behind_ns;
    if !app.unfiltered.progress.is_over && behind_ns > MIN_BEHIND_NS {
        add(TitleBarPartPriority::Behind, format!("behind {}", HumanDuration(behind_ns, app.tui_glyphs.glyphs)));
    }
    // For an interface, zero drops are displayed too.
    let is_told = |dropped: &u64| *dropped > 0 || app.unfiltered.progress.counters.is_some();
    if let Some(dropped) = app.unfiltered.progress.dropped.filter(is_told) {
        add(TitleBarPartPriority::Dropped, format!("{} dropped", grouped(dropped)));
    }
    parts
}
