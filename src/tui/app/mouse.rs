//! Mouse events: a click selects a line and pane or sorts by a column, the wheel scrolls.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::application_state::{App, FocusPane};

/// Number of lines per step of the wheel.
const WHEEL: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, event: MouseEvent) {
        let position = Position { x: event.column, y: event.row };
        if self.help.is_some() || self.prompt.is_some() {
            return;
        }
        match event.kind {
            MouseEventKind::ScrollDown => self.wheel(position, WHEEL),
            MouseEventKind::ScrollUp => self.wheel(position, -WHEEL),
            MouseEventKind::Down(MouseButton::Left) => self.click(position),
            _ => {}
        }
    }

    fn part_at(&self, position: Position) -> Option<(FocusPane, Rect)> {
        let parts = [
            (FocusPane::List, self.areas.list),
            (FocusPane::Tree, self.areas.tree),
            (FocusPane::Bytes, self.areas.bytes),
        ];
        parts.into_iter().find(|(_, area)| area.contains(position))
    }

    fn wheel(&mut self, position: Position, by: isize) {
        let Some((pane, _)) = self.part_at(position) else { return };
        // The wheel scrolls the pane under the mouse, and the focus stays.
        let previous = std::mem::replace(&mut self.focus, pane);
        self.move_by(by);
        self.focus = previous;
    }

    fn click(&mut self, position: Position) {
        if let Some((_, view)) = self.areas.tabs.iter().find(|(area, _)| area.contains(position)) {
            let view = *view;
            return self.show(view);
        }
        if let Some((_, column)) = self.areas.columns.iter().find(|(area, _)| area.contains(position)) {
            let column = *column;
            let (list, rows) = self.list_and_rows();
            return match list.sort.is_some_and(|sort| sort.by == column) {
                true => list.reverse(rows),
                false => list.sort_by(Some(column), rows),
            };
        }
        if let Some((_, number)) = self.areas.headings.iter().find(|(area, _)| area.contains(position)) {
            return self.sort_by_heading(*number);
        }
        let Some((pane, area)) = self.part_at(position) else { return };
        let line = usize::from(position.y.saturating_sub(area.y));
        self.focus = pane;
        match pane {
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
