//! The tree of the selected item, with its cursor.

use rustc_hash::FxHashSet;

use super::transaction_list::scrolled;
use crate::output::tree::lines::TreeLine;
use crate::tui::frame_reload::detail_subject::DetailSubject;
use crate::tui::frame_reload::reload_messages::DetailPaneContent;

/// Key of a group: its depth and the first word of its line. Groups stay closed in other Transactions.
type ProtocolTreeExpansionKey = (usize, String);

/// The tree.
#[derive(Debug)]
pub(in crate::tui) struct TreePane {
    /// The displayed detail.
    pub(in crate::tui) detail: Option<DetailPaneContent>,
    /// The subject requested last.
    pub(super) requested: Option<DetailSubject>,
    /// Index of the cursor among the visible lines.
    pub(in crate::tui) at: usize,
    /// Index of the top visible line.
    pub(in crate::tui) top: usize,
    /// Number of columns scrolled past.
    pub(in crate::tui) left: usize,
    /// Top line of the bytes, if the user has scrolled them.
    pub(in crate::tui) bytes_top: Option<usize>,
    /// Bar of the cursor in the waterfall.
    pub(in crate::tui) bar: usize,
    /// Bar at the top.
    pub(in crate::tui) bar_top: usize,
    closed: FxHashSet<ProtocolTreeExpansionKey>,
    visible: Vec<usize>,
}

impl Default for TreePane {
    fn default() -> Self {
        // Closed by default: there are many frame headers, which are alike.
        let closed = [(2, "Frame".to_owned())].into_iter().collect();
        Self {
            detail: None,
            requested: None,
            at: 0,
            top: 0,
            left: 0,
            bytes_top: None,
            bar: 0,
            bar_top: 0,
            closed,
            visible: Vec::new(),
        }
    }
}

fn group_key(line: &TreeLine) -> ProtocolTreeExpansionKey {
    let text = line.pieces.first().map_or("", |(_, text)| text.as_str());
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(text.len());
    (line.depth, text.get(..end).unwrap_or_default().to_owned())
}

impl TreePane {
    /// Shows another detail.
    pub(super) fn show(&mut self, detail: DetailPaneContent) {
        let is_same = self.detail.as_ref().is_some_and(|previous| previous.subject == detail.subject);
        let previous_line = self.chosen().map(|line| (line.depth, line.field.map(|field| field.name), group_key(line)));
        self.detail = Some(detail);
        self.update_visible();
        self.bytes_top = None;
        if !is_same {
            (self.bar, self.bar_top) = (0, 0);
            // Keep the cursor on the same field, so that a user can compare it between Transactions.
            let is_same_line = |at: &usize| {
                let line = self.line(*at).map(|(line, _)| line);
                line.map(|line| (line.depth, line.field.map(|field| field.name), group_key(line))) == previous_line
            };
            self.at = (0..self.len()).find(is_same_line).unwrap_or(0);
        }
        self.at = self.at.min(self.visible.len().saturating_sub(1));
    }

    fn lines(&self) -> &[TreeLine] {
        self.detail.as_ref().map_or(&[], |detail| &detail.lines)
    }

    /// Computes the visible lines.
    fn update_visible(&mut self) {
        let mut visible = Vec::new();
        let mut hidden_below = None;
        for (at, line) in self.lines().iter().enumerate() {
            if hidden_below.is_some_and(|depth| line.depth > depth) {
                continue;
            }
            hidden_below = None;
            visible.push(at);
            if self.is_group(at) && self.closed.contains(&group_key(line)) {
                hidden_below = Some(line.depth);
            }
        }
        self.visible = visible;
    }

    /// Returns the number of visible lines.
    pub(in crate::tui) fn len(&self) -> usize {
        self.visible.len()
    }

    /// Returns a visible line and, if it is a group, `true` if it is open.
    pub(in crate::tui) fn line(&self, at: usize) -> Option<(&TreeLine, Option<bool>)> {
        let number = *self.visible.get(at)?;
        let line = self.lines().get(number)?;
        let is_open = !self.closed.contains(&group_key(line));
        Some((line, self.is_group(number).then_some(is_open)))
    }

    /// Returns the line of the cursor.
    pub(in crate::tui) fn chosen(&self) -> Option<&TreeLine> {
        self.line(self.at).map(|(line, _)| line)
    }

    fn is_group(&self, number: usize) -> bool {
        let depth = |at: usize| self.lines().get(at).map(|line| line.depth);
        depth(number + 1) > depth(number)
    }

    /// Moves the cursor.
    pub(super) fn move_cursor(&mut self, by: isize) {
        self.at = self.at.saturating_add_signed(by).min(self.len().saturating_sub(1));
        self.bytes_top = None;
    }

    /// Moves the cursor in the waterfall.
    pub(super) fn move_bar_cursor(&mut self, by: isize) {
        let count = self.detail.as_ref().map_or(0, |detail| detail.waterfall.bars.len());
        self.bar = self.bar.saturating_add_signed(by).min(count.saturating_sub(1));
    }

    /// Opens or closes the group at the cursor. Elsewhere it scrolls, or closing goes to the parent group.
    pub(super) fn set_open(&mut self, open: bool) {
        let Some((line, state)) = self.line(self.at) else { return };
        match (state, open) {
            (Some(false), true) => {
                let group = group_key(line);
                self.closed.remove(&group);
            }
            (Some(true), false) => {
                let group = group_key(line);
                self.closed.insert(group);
            }
            (_, true) => self.left = (self.left + 8).min(400),
            (_, false) if self.left > 0 => self.left = self.left.saturating_sub(8),
            (_, false) => {
                let depth = line.depth;
                let above = |at: &usize| self.line(*at).is_some_and(|(line, _)| line.depth < depth);
                if let Some(parent) = (0..self.at).rev().find(above) {
                    self.at = parent;
                }
            }
        }
        self.update_visible();
    }

    /// Opens or closes the group at the cursor. Returns `false` if there is none.
    pub(super) fn toggle(&mut self) -> bool {
        let Some((_, Some(is_open))) = self.line(self.at) else { return false };
        self.set_open(!is_open);
        true
    }

    /// Moves to the next line that contains a text, wrapping around. Returns `false` if there is none.
    pub(super) fn find(&mut self, small: &str, is_forward: bool) -> bool {
        let count = self.len();
        let match_line = (1..=count).find_map(|step| {
            let from = if is_forward { self.at + step } else { self.at + 2 * count - step };
            let at = from % count;
            let has =
                self.line(at).is_some_and(|(line, _)| crate::tui::search::contains_ignore_case(&line.text(), small));
            has.then_some(at)
        });
        if let Some(at) = match_line {
            self.at = at;
            // Show some lines before it as context.
            self.top = at.saturating_sub(4);
            self.bytes_top = None;
        }
        match_line.is_some()
    }

    /// Scrolls so that a window of `height` lines contains the cursor.
    pub(in crate::tui) fn scroll(&mut self, height: usize) {
        self.top = scrolled(self.top, self.at, height, self.len());
    }

    /// Returns the filter literal of the first field with this name.
    pub(super) fn literal(&self, name: &str) -> Option<&str> {
        let is_match = |line: &&TreeLine| line.field.is_some_and(|field| field.name == name);
        self.lines().iter().filter(is_match).find_map(|line| line.literal.as_deref())
    }
}
