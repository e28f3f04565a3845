//! Old pending Calls, shown above the list: the requests of a hanging server.

use nfsrdma_dissectors::address::Address;
use nfsrdma_flow::transaction::CallDirection;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::drawing_primitives::{cut_top, draw_text, grouped, rule};
use crate::output::info_column::shorten;
use crate::output::pending_call_progress::PendingCallProgress;
use crate::output::style::{columns as width_of, fit_words};
use crate::output::units::HumanDuration;
use crate::tui::app::application_state::App;
use crate::tui::model::pending_calls_and_rates::{LiveActivitySnapshot, PendingCallRow};
use crate::tui::theme;

/// Minimum height of the view below, in lines.
const MIN_HEIGHT_BELOW: u16 = 10;
/// Width that an operation and its file keep beside other columns, if they need it.
const MIN_LABEL_COLUMNS: usize = 20;
/// Width of the screen from which XIDs are shown.
const MIN_WIDTH_WITH_XID: usize = 100;

/// Draws the oldest pending Calls, as far as there is space. Returns the rest of the area.
pub(super) fn draw(app: &App, buffer: &mut Buffer, area: Rect) -> Rect {
    let activity = &app.displayed_pass().activity;
    let old_count = activity.old_calls().count();
    let max_height = (area.height / 4).max(2).min(area.height.saturating_sub(MIN_HEIGHT_BELOW));
    if old_count == 0 || max_height < 2 {
        return area;
    }
    let lines = (old_count as u16).min(max_height - 1);
    let (calls_area, rest) = cut_top(area, lines + 1);
    let (head, calls_area) = cut_top(calls_area, 1);
    let oldest = activity.old_calls().next().map_or(0, |row| activity.age_ns(row));
    let title = format!("No reply for {}", HumanDuration(oldest, app.tui_glyphs.glyphs));
    let counts = match usize::from(lines) < activity.old_count {
        true => format!(
            "{} of {} waiting, {} in flight",
            lines,
            grouped(activity.old_count as u64),
            grouped(activity.pending_count as u64)
        ),
        false => format!("{} in flight", grouped(activity.pending_count as u64)),
    };
    rule(app, buffer, head, &title, &counts, true);
    for (line, row) in activity.old_calls().take(usize::from(lines)).enumerate() {
        draw_text(buffer, calls_area, line, &call_line(app, activity, row, usize::from(area.width)));
    }
    rest
}

/// Returns the line of a Call: age, operation with its file, state and connection. What does not fit beside age and
/// operation is left out whole: first the XID, then the connection, then the client, then the phase, then the slot.
fn call_line(app: &App, activity: &LiveActivitySnapshot, row: &PendingCallRow, width: usize) -> Line<'static> {
    let glyphs = &app.tui_glyphs.glyphs;
    let age_ns = activity.age_ns(row);
    let age = format!("{:>8}", HumanDuration(age_ns, *glyphs).to_string());
    let progress = PendingCallProgress { age_ns, phase: row.phase, slot: row.slot, direction: row.direction };
    let phase = PendingCallProgress { slot: None, ..progress }.to_string();
    let mut progress = progress.to_string();
    if row.copies > 1 {
        progress = format!("{progress}, sent {}{}", glyphs.times, row.copies);
    }
    let mut phase = phase;
    let min_label_width = width_of(&row.label).min(MIN_LABEL_COLUMNS);
    let space = width.saturating_sub(width_of(&age) + 2);
    // The slot leads to its session: on a narrow screen it is more use than the phase.
    if min_label_width + 2 + width_of(&progress) > space
        && let Some(slot) = row.slot
    {
        (phase, progress) = (format!("slot {}", slot.slot), String::new());
    }
    let rest = progress.strip_prefix(&phase).unwrap_or_default();
    let client = match row.client {
        Address::Unknown => String::new(),
        address => format!("  {address}"),
    };
    let connection = format!("  conn {}", row.connection);
    let xid = if width >= MIN_WIDTH_WITH_XID { format!("  {}", row.xid) } else { String::new() };
    let mut space = space;
    let mut has_all = true;
    let parts = [format!("  {phase}"), rest.to_owned(), client, connection, xid];
    let [phase, rest, client, connection, xid] = parts.map(|part| {
        has_all &= min_label_width + width_of(&part) <= space;
        if !has_all {
            return String::new();
        }
        space -= width_of(&part);
        part
    });
    let mut label = row.label.clone();
    shorten(row.path.clone(), space, glyphs, &mut label);
    let label = fit_words(&label, space, glyphs).into_owned();
    let fill = " ".repeat(space.saturating_sub(width_of(&label)));
    let split = (0..=row.name_length.min(label.len())).rev().find(|at| label.is_char_boundary(*at)).unwrap_or(0);
    let (name, arguments) = label.split_at(split);
    let styles = &app.theme.styles;
    let operation = if row.direction == CallDirection::Reverse { styles.callback } else { styles.operation };
    Line::from(vec![
        Span::styled(age, app.theme.error),
        Span::raw("  "),
        Span::styled(name.to_owned(), theme::from_anstyle(operation)),
        Span::raw(arguments.to_owned() + &fill),
        Span::styled(phase + &rest, app.theme.notice),
        Span::styled(client + &connection + &xid, Style::new()),
    ])
}
