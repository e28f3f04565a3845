//! Mouse events: a click selects a line and pane or sorts by a column, the wheel scrolls.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{App, FocusPane};

/// Number of lines per step of the wheel.
const WHEEL: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, event: MouseEvent) {
        let place = Position { x: event.column, y: event.row };
        if self.help.is_some() || self.prompt.is_some() {
            return;
        }
        match event.kind {
            MouseEventKind::ScrollDown => self.wheel(place, WHEEL),
            MouseEventKind::ScrollUp => self.wheel(place, -WHEEL),
            MouseEventKind::Down(MouseButton::Left) => self.click(place),
            _ => {}
        }
    }

    fn part_at(&self, place: Position) -> Option<(FocusPane, Rect)> {
        let parts = [
            (FocusPane::List, self.areas.list),
            (FocusPane::Tree, self.areas.tree),
            (FocusPane::Bytes, self.areas.bytes),
        ];
        parts.into_iter().find(|(_, area)| area.contains(place))
    }

    fn wheel(&mut self, place: Position, by: isize) {
        let Some((part, _)) = self.part_at(place) else { return };
        // The wheel scrolls the pane under the mouse, and the focus stays.
        let before = std::mem::replace(&mut self.focus, part);
        self.move_by(by);
        self.focus = before;
    }

    fn click(&mut self, place: Position) {
        if let Some((_, view)) = self.areas.tabs.iter().find(|(area, _)| area.contains(place)) {
            let view = *view;
            return self.show(view);
        }
        if let Some((_, column)) = self.areas.columns.iter().find(|(area, _)| area.contains(place)) {
            let column = *column;
            let rows = self.filtered.as_ref().map_or(&self.unfiltered.rows, |side| &side.rows);
            return match self.list.sort.is_some_and(|sort| sort.by == column) {
                true => self.list.reverse(rows),
                false => self.list.sort_by(Some(column), rows),
            };
        }
        if let Some((_, number)) = self.areas.headings.iter().find(|(area, _)| area.contains(place)) {
            return self.sort_by_heading(*number);
        }
        let Some((part, area)) = self.part_at(place) else { return };
        let line = usize::from(place.y.saturating_sub(area.y));
        self.focus = part;
        match part {
            FocusPane::List => self.click_row(line),
            FocusPane::Tree if self.shows_waterfall() => {
                let bar = self.tree.bar_top + line;
                self.tree.bar = 0;
                self.tree.move_bar_cursor(isize::try_from(bar).unwrap_or(0));
            }
            FocusPane::Tree => {
                let at = self.tree.top + line;
                if at < self.tree.len() {
                    let was_there = self.tree.at == at;
                    self.tree.at = at;
                    self.tree.bytes_top = None;
                    if was_there {
                        self.tree.toggle();
                    }
                }
            }
            FocusPane::Bytes => {}
        }
    }
}
