//! The lines below the views: current filter, completions, messages, input and hints.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{cut_bottom, draw_text, grouped, set_line_style, spans};
use super::line_wrap::wrapped;
use crate::output::style::{columns as width_of, fit};
use crate::output::units::HumanDuration;
use crate::tui::app::application_state::{App, FocusPane, SingleLetterActionMenu};
use crate::tui::prompt::PromptPurpose;

/// Maximum number of visible candidates.
const MAX_VISIBLE_CANDIDATES: u16 = 8;

/// Draws the lines above the last line. Returns the rest of the area for the view.
pub(super) fn draw_above(app: &App, buffer: &mut Buffer, area: Rect) -> Rect {
    if let Some(prompt) = app.prompt.as_ref().filter(|prompt| prompt.purpose == PromptPurpose::Filter) {
        let count = (prompt.candidates.len() as u16).min(MAX_VISIBLE_CANDIDATES).min(area.height / 2);
        let has_error = u16::from(prompt.error.is_some());
        let (rest, below) = cut_bottom(area, count + has_error);
        let (candidates, error) = cut_bottom(below, has_error);
        if let Some(problem) = &prompt.error {
            let column = prompt.purpose.title().len() + problem.column - 1;
            let text = fit(&problem.message, usize::from(area.width), &app.tui_glyphs.glyphs).into_owned();
            // The message is above the position of the error if it fits there, else at the left edge.
            let indent = if column + width_of(&text) + 2 <= usize::from(area.width) { column } else { 0 };
            draw_text(buffer, error, 0, &Line::styled(format!("{:indent$}{text}", ""), app.theme.error));
        }
        let top = prompt.chosen().map_or(0, |at| (at + 1).saturating_sub(usize::from(count)));
        for (line, candidate) in prompt.candidates.iter().skip(top).take(usize::from(count)).enumerate() {
            let text = spans([
                (app.theme.key, format!("  {:<34} ", candidate.name)),
                (app.theme.dim, candidate.description.clone()),
            ]);
            draw_text(buffer, candidates, line, &text);
            if prompt.chosen() == Some(top + line) {
                set_line_style(buffer, candidates, line, app.theme.cursor);
            }
        }
        return rest;
    }
    let Some(text) = selection(app) else { return area };
    let (rest, status_area) = cut_bottom(area, 1);
    let side = app.displayed_pass();
    let total = app.unfiltered.rows.len().max(side.rows.len()) as u64;
    let mut counts = format!("{} of {}", grouped(side.rows.len() as u64), grouped(total));
    let start = app.unfiltered.tables.times.map(|(start, _)| start);
    if let Some(loaded) = app.loaded_frames() {
        let (count, total) = (loaded.len() as u64, app.unfiltered.progress.frames);
        let cut = if loaded.is_truncated { "; more were dropped (--max-memory)" } else { "" };
        counts = format!("{} of {} frames{cut}", grouped(count), grouped(total));
    }
    if let Some(since) = side.progress.first_available_time
        && let Some(after) = start.and_then(|start| since.nanoseconds_since(start))
    {
        let after = HumanDuration(after, app.tui_glyphs.glyphs);
        counts += &format!("; only since {after}: {} older frames are gone", grouped(side.progress.evicted_frames));
    }
    let width = usize::from(area.width).saturating_sub(width_of(&counts) + 10);
    let (title, text) = text;
    let text = fit(&text, width, &app.tui_glyphs.glyphs).into_owned();
    let line =
        spans([(app.theme.notice, format!(" {title} ")), (Style::new(), text), (app.theme.dim, format!("  {counts}"))]);
    draw_text(buffer, status_area, 0, &line);
    rest
}

/// Returns the selection of the rows with its title: the filter, or the sort order of frames.
fn selection(app: &App) -> Option<(&'static str, String)> {
    match (&app.displayed_pass().filter, app.loaded_frames()) {
        (Some((_, text)), _) => Some(("filter", text.clone())),
        (None, Some(_)) => Some(("sorted by", app.frame_list.sort.by.name().to_owned())),
        (None, None) => None,
    }
}

/// Returns the number of lines at the bottom: those of the message and the hints, or one.
pub(super) fn line_count(app: &App, area: Rect) -> u16 {
    match message(app) {
        Some((_, text)) if app.prompt.is_none() && app.menu.is_none() => {
            let lines = wrapped(&text, usize::from(area.width)).len();
            // The hints stay below the message.
            u16::try_from(lines).unwrap_or(u16::MAX).clamp(1, area.height / 2) + 1
        }
        _ => 1,
    }
}

/// Returns the message, or else the input error, with its style.
fn message(app: &App) -> Option<(Style, String)> {
    let style = |is_error| if is_error { app.theme.error } else { app.theme.notice };
    let message = app.message.as_ref().map(|message| (style(message.is_error), message.text.clone()));
    message.or_else(|| app.error_message().map(|text| (style(true), text)))
}

/// Draws the prompt, the message or the hints. Returns the cursor position of the prompt.
pub(super) fn draw_line(app: &App, buffer: &mut Buffer, area: Rect) -> Option<Position> {
    if let Some(prompt) = &app.prompt {
        let title = prompt.purpose.title();
        let text = prompt.text();
        let width = usize::from(area.width).saturating_sub(title.len() + 1).max(1);
        // If the line is longer than the screen, the text before the cursor scrolls out at the left.
        let before: String = text.chars().take(prompt.cursor()).collect();
        let past = width_of(&before).saturating_sub(width - 1);
        let mut skipped = 0;
        let shown: String = text
            .chars()
            .skip_while(|letter| {
                let is_past = skipped < past;
                skipped += width_of(&letter.to_string());
                is_past
            })
            .collect();
        let mut line = vec![Span::styled(title, app.theme.notice)];
        match prompt.error.as_ref().map(|error| error.column - 1).filter(|_| past == 0) {
            Some(column) => {
                let end = |at: usize| shown.char_indices().nth(at).map_or(shown.len(), |(at, _)| at);
                let (start, next) = (end(column), end(column + 1));
                let piece = |from, to| shown.get(from..to).unwrap_or_default().to_owned();
                line.push(Span::raw(piece(0, start)));
                line.push(Span::styled(piece(start, next), app.theme.error.underlined()));
                line.push(Span::raw(piece(next, shown.len())));
            }
            None => {
                let remaining = width.saturating_sub(width_of(&shown) + 2);
                line.push(Span::raw(shown));
                let purpose = prompt.purpose;
                let explanations = [purpose.explanation(), purpose.short_explanation()];
                if let Some(text) = explanations.into_iter().find(|text| width_of(text) <= remaining) {
                    line.push(Span::styled(format!("  {text}"), app.theme.dim));
                }
            }
        }
        draw_text(buffer, area, 0, &Line::from(line));
        let x = title.len() + width_of(&before) - past;
        return Some(Position { x: area.x + (x as u16).min(area.width - 1), y: area.y });
    }
    let width = usize::from(area.width);
    let text = if let Some(SingleLetterActionMenu::Follow) = app.menu {
        let keys = [("f", "file"), ("s", "slot"), ("c", "connection"), ("x", "XID"), ("Esc", "none")];
        hints(app, &keys, "follow:", width)
    } else if let Some((style, text)) = message(app) {
        let (status_area, keys) = cut_bottom(area, 1);
        for (line, text) in wrapped(&text, width).into_iter().enumerate() {
            draw_text(buffer, status_area, line, &Line::styled(text, style));
        }
        draw_text(buffer, keys, 0, &hints(app, pane_hints(app), "", width));
        return None;
    } else {
        hints(app, pane_hints(app), "", width)
    };
    draw_text(buffer, area, 0, &text);
    None
}

/// Returns the most important keys of the focused pane.
fn pane_hints(app: &App) -> &'static [(&'static str, &'static str)] {
    if app.help.is_some() {
        return &[("Up Down PgUp PgDn", "scroll"), ("Esc", "back")];
    }
    match app.focus {
        FocusPane::List => app.view.hints(),
        FocusPane::Tree => &[
            ("?", "help"),
            ("Esc", "back"),
            ("Left Right", "close, open"),
            ("/", "search"),
            ("=", "filter for this value"),
            ("y", "copy it"),
            ("Y", "copy its filter"),
            ("w", "waterfall"),
            ("x", "bytes"),
            ("z", "zoom"),
        ],
        FocusPane::Bytes => {
            &[("?", "help"), ("Esc", "back"), ("Up Down", "scroll"), ("Tab", "next part"), ("x", "hide")]
        }
    }
}

/// Returns the line of key hints that fit completely.
fn hints(app: &App, keys: &[(&str, &str)], title: &str, mut room: usize) -> Line<'static> {
    let mut line = Vec::new();
    if !title.is_empty() {
        line.push(Span::styled(title.to_owned(), app.theme.notice));
        room = room.saturating_sub(width_of(title));
    }
    for (key, meaning) in keys {
        // The blank after the last hint may be outside.
        let width = width_of(key) + width_of(meaning) + 2;
        if width > room {
            break;
        }
        room = room.saturating_sub(width + 1);
        line.push(Span::styled(format!(" {key} "), app.theme.key));
        line.push(Span::styled(format!("{meaning} "), app.theme.dim));
    }
    Line::from(line)
}
