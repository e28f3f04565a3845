//! Cursor movement, and search for rows.

use std::time::{Duration, Instant};

use super::application_state::{App, FocusPane};
use crate::tui::model::pending_calls_and_rates::MAX_LISTED_CALLS;
use crate::tui::model::transaction_list_row::TransactionRowWithText;
use crate::tui::search::{self, RunningSearch, SearchCriterion};
use crate::tui::tui_view::TuiView;

/// Maximum duration of a search step between two key events.
const SEARCH_STEP: Duration = Duration::from_millis(8);

/// Message while a match may still arrive.
const SEARCHING_MESSAGE: &str = "still searching while the capture is read; Esc stops";

impl App {
    /// Moves by `by` lines in the focused pane.
    pub(super) fn move_by(&mut self, by: isize) {
        match self.focus {
            FocusPane::List => self.move_rows(by),
            FocusPane::Tree if self.shows_waterfall() => self.tree.move_bar_cursor(by),
            FocusPane::Tree => self.tree.move_cursor(by),
            FocusPane::Bytes => {
                let top = self.tree.bytes_top.unwrap_or(0).saturating_add_signed(by);
                self.tree.bytes_top = Some(top.min(1 << 24));
            }
        }
    }

    /// Moves by `by` pages of the focused pane.
    pub(super) fn move_pages(&mut self, by: isize) {
        let area = match self.focus {
            FocusPane::List => self.areas.list,
            FocusPane::Tree => self.areas.tree,
            FocusPane::Bytes => self.areas.bytes,
        };
        let lines = isize::try_from(area.height.max(2)).unwrap_or(2) - 1;
        self.move_by(by * lines);
    }

    /// Moves to the left or to the right.
    pub(super) fn move_horizontally(&mut self, is_right: bool) {
        match self.focus {
            FocusPane::Tree if self.view.has_tree() => self.tree.set_open(is_right),
            FocusPane::List => self.scroll_columns(is_right),
            FocusPane::Tree | FocusPane::Bytes => {}
        }
    }

    /// Moves the focus by `steps` panes.
    pub(super) fn move_focus(&mut self, steps: usize) {
        if !self.view.has_tree() {
            return;
        }
        let mut parts = vec![FocusPane::List, FocusPane::Tree];
        if self.areas.bytes.height > 0 {
            parts.push(FocusPane::Bytes);
        }
        let at = parts.iter().position(|pane| *pane == self.focus).unwrap_or(0);
        // Two steps forward are one step back among three panes; among two panes a single step suffices.
        let steps = if parts.len() == 2 { 1 } else { steps };
        self.focus = parts.get((at + steps) % parts.len()).copied().unwrap_or_default();
    }

    /// Searches for text: in the tree if it has the focus, else in the rows.
    pub(super) fn search_for(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.last_search = Some(text.to_ascii_lowercase());
        self.repeat_search(true);
    }

    pub(super) fn repeat_search(&mut self, is_forward: bool) {
        let Some(text) = self.last_search.clone() else {
            return self.show_error("no previous search; / searches");
        };
        if self.view.has_tree() && self.focus != FocusPane::List {
            self.focus = FocusPane::Tree;
            self.has_waterfall = false;
            if !self.tree.find(&text, is_forward) {
                self.show_error(SearchCriterion::Text(text).not_found_message());
            }
        } else {
            self.search_rows(text, is_forward);
        }
    }

    /// Goes to the location that the text denotes.
    pub(super) fn go_to(&mut self, text: &str) {
        let start = self.unfiltered.tables.times.map(|(start, _)| start);
        match search::parse_location(text, start) {
            Ok(target) => self.go_to_target(target),
            Err(text) => self.show_error(text),
        }
    }

    /// Starts a search for the next matching row.
    pub(super) fn start_search(&mut self, target: SearchCriterion, is_forward: bool) {
        self.view = TuiView::Transactions;
        let count = self.list.len(self.rows());
        self.search = Some(RunningSearch::new(target, is_forward, self.list.at, count));
        self.list.follows_tail = false;
        // Nearby rows are found before the next key.
        self.continue_search();
    }

    /// Continues the search with some more rows. Returns `true` if the screen has changed.
    pub(super) fn continue_search(&mut self) -> bool {
        let Some(mut search) = self.search.take() else { return false };
        let start = Instant::now();
        let count = self.list.len(self.rows());
        let is_sorted = self.list.sort.is_some();
        // The last rows arrive together with the end of the pass.
        if search.remaining == 0 && search.is_forward {
            match is_sorted {
                false => search.extend(count, MAX_LISTED_CALLS),
                // New rows are sorted in anywhere.
                true if search.has_count_changed(count) => search = RunningSearch::from_start(search.target, count),
                true => {}
            }
        }
        // A match may be in frames not read yet, or in rows not sorted in yet.
        let may_come =
            search.is_forward && (!self.displayed_pass().progress.is_over || self.list.has_unsorted_rows(self.rows()));
        while search.remaining > 0 {
            let is_match = self
                .list
                .entry(self.rows(), search.next_position)
                .is_some_and(|entry| self.is_target(&search.target, &entry));
            if is_match {
                self.list.at = search.next_position;
                // Another message may have replaced this one.
                self.message.take_if(|message| message.text == SEARCHING_MESSAGE);
                // Centre a row that is not visible.
                let height = usize::from(self.areas.list.height);
                if !(self.list.top..self.list.top + height).contains(&search.next_position) {
                    self.list.top = search.next_position.saturating_sub(height / 2);
                }
                self.focus = FocusPane::List;
                if search.has_wrapped {
                    self.show_search_wrapped(search.is_forward);
                }
                return true;
            }
            search.advance();
            if search.remaining % 256 == 0 && start.elapsed() > SEARCH_STEP {
                self.search = Some(search);
                return false;
            }
        }
        if may_come {
            let is_news = self.message.is_none();
            if is_news {
                self.show_message(SEARCHING_MESSAGE);
            }
            self.search = Some(search);
            return is_news;
        }
        let forgotten = match self.rows().evicted_count() {
            0 => String::new(),
            count => format!(" in memory; {count} were dropped (--max-memory)"),
        };
        self.show_error(search.target.not_found_message() + &forgotten);
        true
    }

    fn is_target(&self, target: &SearchCriterion, entry: &TransactionRowWithText<'_>) -> bool {
        let row = entry.row;
        match target {
            SearchCriterion::Text(text) => search::has_text(entry, text),
            SearchCriterion::Incomplete => row.is_incomplete,
            SearchCriterion::Failed => row.has_failed,
            SearchCriterion::Slow => self.is_slow(entry),
            SearchCriterion::Marked => self.is_marked(entry),
            SearchCriterion::Frame(frame) => (row.first..=row.last).contains(frame),
            SearchCriterion::Xid(xid) => row.xid == *xid,
            SearchCriterion::Index(index) => row.index == *index,
            SearchCriterion::Time(time) => row.time >= *time,
        }
    }
}
