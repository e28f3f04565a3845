//! Effects of key actions on the state of the interface.

use nfsrdma_text::os_error_text;
use ratatui::crossterm::event::KeyCode;

use super::application_state::{
    App, FocusPane, SingleLetterActionMenu, TerminalControlRequest, TuiBackStackEntry, TuiOptions,
};
use crate::output::settings::TimeFormat;
use crate::tui::keys::KeyAction;
use crate::tui::prompt::PromptPurpose;
use crate::tui::rereadable_capture::SharedCapture;
use crate::tui::search::SearchCriterion;
use crate::tui::tui_view::TuiView;

impl App {
    /// Performs an action.
    pub(in crate::tui) fn perform(&mut self, action: KeyAction) {
        if let Some(top) = self.help
            && !matches!(action, KeyAction::Redraw | KeyAction::Suspend)
        {
            return self.move_help(action, top);
        }
        match action {
            KeyAction::Quit => self.requests.push(TerminalControlRequest::Quit),
            KeyAction::Suspend => self.requests.push(TerminalControlRequest::Suspend),
            KeyAction::Redraw => self.requests.push(TerminalControlRequest::Redraw),
            KeyAction::Reload => self.reload(),
            KeyAction::Help => self.help = Some(0),
            KeyAction::Show(view) => self.show(view),
            KeyAction::NextView => {
                let at = TuiView::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
                self.show(TuiView::ALL.get(at + 1).copied().unwrap_or_default());
            }
            KeyAction::Up => self.move_by(-1),
            KeyAction::Down => self.move_by(1),
            KeyAction::PageUp => self.move_pages(-1),
            KeyAction::PageDown => self.move_pages(1),
            KeyAction::First => self.move_by(isize::MIN / 2),
            KeyAction::Last => self.move_by(isize::MAX / 2),
            KeyAction::Left => self.move_horizontally(false),
            KeyAction::Right => self.move_horizontally(true),
            KeyAction::NextPart => self.move_focus(1),
            KeyAction::PreviousPart => self.move_focus(2),
            KeyAction::Open => self.open(),
            KeyAction::Close => self.close(),
            KeyAction::Filter => {
                let text = self.displayed_pass().filter.as_ref().map_or(String::new(), |(_, text)| text.clone());
                self.open_prompt(PromptPurpose::Filter, &text);
            }
            KeyAction::Unfilter => {
                self.filter_origins.clear();
                self.remove_filter();
            }
            KeyAction::Search => self.open_prompt(PromptPurpose::Search, ""),
            KeyAction::SearchNext => self.repeat_search(true),
            KeyAction::SearchPrevious => self.repeat_search(false),
            KeyAction::GoTo => self.open_prompt(PromptPurpose::GoTo, ""),
            KeyAction::NextIncomplete => self.start_search(SearchCriterion::Incomplete, true),
            KeyAction::PreviousIncomplete => self.start_search(SearchCriterion::Incomplete, false),
            KeyAction::NextError => self.start_search(SearchCriterion::Failed, true),
            KeyAction::PreviousError => self.start_search(SearchCriterion::Failed, false),
            KeyAction::NextSlow => self.start_search(SearchCriterion::Slow, true),
            KeyAction::PreviousSlow => self.start_search(SearchCriterion::Slow, false),
            KeyAction::Mark => self.mark_row(),
            KeyAction::NextMark => self.next_mark(),
            KeyAction::Unmark => self.marks.clear(),
            KeyAction::Tail => {
                self.list.follows_tail = !self.list.follows_tail;
                self.show_message(if self.list.follows_tail { "following" } else { "not following" });
            }
            KeyAction::Follow => self.menu = Some(SingleLetterActionMenu::Follow),
            KeyAction::FollowFile => self.follow(Self::filter_for_file),
            KeyAction::FollowSlot => self.follow(Self::filter_for_slot),
            KeyAction::FollowConnection => self.follow(Self::filter_for_connection),
            KeyAction::FollowXid => self.follow(Self::filter_for_xid),
            KeyAction::SortRight => self.sort_rows(1),
            KeyAction::SortLeft => self.sort_rows(-1),
            KeyAction::Reverse => self.reverse_rows(),
            KeyAction::Pause => {
                self.is_paused = !self.is_paused;
                self.show_message(if self.is_paused { "paused" } else { "resumed" });
            }
            KeyAction::CopyValue => self.copy_value(),
            KeyAction::CopyFilter => self.copy_filter(),
            KeyAction::CopyCommand => self.copy_command(),
            KeyAction::FilterValue => self.filter_value(),
            KeyAction::Save => self.open_prompt(PromptPurpose::Save, ""),
            KeyAction::Waterfall => {
                self.has_waterfall = !self.has_waterfall;
                if self.view != TuiView::Transactions {
                    self.show(TuiView::Transactions);
                    self.has_waterfall = true;
                }
            }
            KeyAction::Hex => self.has_bytes = !self.has_bytes,
            KeyAction::Zoom => self.is_zoomed = !self.is_zoomed,
            KeyAction::Time => {
                self.options.time = match self.options.time {
                    TimeFormat::Relative => TimeFormat::Delta,
                    TimeFormat::Delta => TimeFormat::Absolute,
                    TimeFormat::Absolute => TimeFormat::AbsoluteDate,
                    TimeFormat::AbsoluteDate => TimeFormat::Epoch,
                    TimeFormat::Epoch => TimeFormat::Iso,
                    TimeFormat::Iso => TimeFormat::Relative,
                };
                self.frame_list.slice = Default::default();
            }
        }
    }

    fn move_help(&mut self, action: KeyAction, top: usize) {
        let page = usize::from(self.areas.list.height.max(2)) - 1;
        self.help = match action {
            KeyAction::Down => Some(top + 1),
            KeyAction::Up => Some(top.saturating_sub(1)),
            KeyAction::PageDown => Some(top + page),
            KeyAction::PageUp => Some(top.saturating_sub(page)),
            KeyAction::First => Some(0),
            KeyAction::Last => Some(usize::MAX / 2),
            _ => None,
        };
    }

    /// Switches to a view. The packet list begins at the chosen Transaction.
    pub(super) fn show(&mut self, view: TuiView) {
        let chosen = self.entry().map(|entry| (entry.row.index, entry.row.first.0));
        if view == TuiView::Frames
            && self.view != TuiView::Frames
            && let Some((index, first)) = chosen
            && (self.view == TuiView::Transactions || self.frame_list.opened_for != Some(index))
        {
            self.frame_list.opened_for = Some(index);
            self.frame_list.at = first;
            self.frame_list.top = first.saturating_sub(2).max(1);
        }
        if view == TuiView::Frames && self.frame_list.at == 0 && self.unfiltered.progress.frames > 0 {
            (self.frame_list.at, self.frame_list.top) = (1, 1);
        }
        self.view = view;
        self.focus = FocusPane::List;
        self.is_zoomed = false;
    }

    /// Reads the files again, keeping the view, the filter and the chosen Transaction.
    fn reload(&mut self) {
        match self.capture.again() {
            Ok(Some(capture)) => {
                let index = self.entry().map(|entry| entry.row.index);
                if self.read_again(capture)
                    && let Some(index) = index
                    && self.view == TuiView::Transactions
                    && !self.list.follows_tail
                {
                    self.go_to(&format!("#{index}"));
                }
                self.show_message("reloading the files");
            }
            Ok(None) => self.show_error("data from an interface or a pipe cannot be read again"),
            Err(error) => self.show_error(format!("{}: {}", self.capture.name(), os_error_text(&error))),
        }
    }

    /// Reads a followed file again if it was truncated or replaced. Returns `true` if it was.
    pub(super) fn reload_changed_file(&mut self) -> bool {
        let Some(change) = self.capture.file_change() else { return false };
        // It may be gone again: then the next call tries again.
        let Ok(Some(capture)) = self.capture.again() else { return false };
        self.marks.clear();
        let name = self.capture.name();
        if self.read_again(capture) {
            self.show_message(format!("{name}: {change}; reading it from the start"));
        }
        true
    }

    /// Starts again with a capture, and keeps the view and the filter. Returns `false` after an error, which is shown.
    fn read_again(&mut self, capture: SharedCapture) -> bool {
        let options = TuiOptions { filter: self.filter_text(), ..self.options.clone() };
        let app = match Self::new(capture, options) {
            Ok(app) => app,
            Err(error) => {
                self.show_error(error.to_string());
                return false;
            }
        };
        let previous = std::mem::replace(self, app);
        (self.view, self.tables, self.marks) = (previous.view, previous.tables, previous.marks);
        (self.history, self.last_search) = (previous.history, previous.last_search);
        (self.frame_list.at, self.frame_list.sort) = (previous.frame_list.at, previous.frame_list.sort);
        // The rows are sorted as soon as they are read.
        self.list.sort = previous.list.sort;
        self.list.follows_tail = previous.list.follows_tail;
        true
    }

    /// Opens the selected item.
    fn open(&mut self) {
        match self.focus {
            FocusPane::List => self.open_row(),
            FocusPane::Tree if self.shows_waterfall() => {
                // Opens the frame of the bar.
                let detail = self.tree.detail.as_ref();
                let bar = detail.and_then(|detail| detail.waterfall.bars.get(self.tree.bar));
                if let Some(frame) = bar.map(|bar| bar.frames.0.0) {
                    self.show(TuiView::Frames);
                    self.frame_list.go_to(frame);
                }
            }
            FocusPane::Tree => {
                if !self.tree.toggle() && self.has_bytes {
                    self.focus = FocusPane::Bytes;
                }
            }
            FocusPane::Bytes => {}
        }
    }

    /// Goes back one step: stops a search, dismisses errors, leaves the pane, the zoom, the view or the waterfall,
    /// returns to the table that Enter was pressed in, or removes the filter.
    fn close(&mut self) {
        if self.search.take().is_some() || self.frame_list.stop_search() {
            self.show_message("stopped");
        } else if self.dismissed_errors < self.unfiltered.errors.len() {
            self.dismissed_errors = self.unfiltered.errors.len();
        } else if self.focus != FocusPane::List {
            self.focus = FocusPane::List;
        } else if self.is_zoomed {
            self.is_zoomed = false;
        } else if self.view != TuiView::Transactions {
            self.show(TuiView::Transactions);
        } else if self.has_waterfall {
            self.has_waterfall = false;
        } else if let Some(origin) = self.filter_origins.pop() {
            self.go_back(origin);
        } else {
            self.remove_filter();
        }
    }

    /// Returns to the view in which a row was opened, with its former filter.
    fn go_back(&mut self, TuiBackStackEntry { view, filter, tables }: TuiBackStackEntry) {
        match filter {
            Some(filter) => self.set_filter(&filter),
            None => self.remove_filter(),
        }
        self.tables = tables;
        self.show(view);
    }

    /// Handles a letter typed in a menu.
    pub(super) fn handle_menu_key(&mut self, menu: SingleLetterActionMenu, code: KeyCode) {
        match (menu, code) {
            (SingleLetterActionMenu::Follow, KeyCode::Char('f')) => self.perform(KeyAction::FollowFile),
            (SingleLetterActionMenu::Follow, KeyCode::Char('s')) => self.perform(KeyAction::FollowSlot),
            (SingleLetterActionMenu::Follow, KeyCode::Char('c')) => self.perform(KeyAction::FollowConnection),
            (SingleLetterActionMenu::Follow, KeyCode::Char('x')) => self.perform(KeyAction::FollowXid),
            _ => {}
        }
    }

    /// Filters for the Transactions that have something in common with the chosen one.
    fn follow(&mut self, filter: impl FnOnce(&Self) -> Result<String, &'static str>) {
        match filter(self) {
            Ok(filter) => self.set_filter(&filter),
            Err(error) => self.show_error(error),
        }
    }
}
