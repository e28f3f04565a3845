//! What each action does.

use ratatui::crossterm::event::KeyCode;

use crate::output::units::TimeFormat;
use crate::tui::keys::Action;
use crate::tui::prompt::Purpose;
use crate::tui::search::Target;

use super::{App, Menu, Options, Origin, Part, View, Wish};

impl App {
    /// Does what was asked for.
    pub(in crate::tui) fn perform(&mut self, action: Action) {
        if let Some(top) = self.help
            && !matches!(action, Action::Redraw | Action::Suspend)
        {
            return self.move_help(action, top);
        }
        match action {
            Action::Quit => self.wants.push(Wish::Quit),
            Action::Suspend => self.wants.push(Wish::Suspend),
            Action::Redraw => self.wants.push(Wish::Redraw),
            Action::Reload => self.reload(),
            Action::Help => self.help = Some(0),
            Action::Show(view) => self.show(view),
            Action::NextView => {
                let at = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
                self.show(View::ALL.get(at + 1).copied().unwrap_or_default());
            }
            Action::Up => self.move_by(-1),
            Action::Down => self.move_by(1),
            Action::PageUp => self.move_pages(-1),
            Action::PageDown => self.move_pages(1),
            Action::First => self.move_by(isize::MIN / 2),
            Action::Last => self.move_by(isize::MAX / 2),
            Action::Left => self.sideways(false),
            Action::Right => self.sideways(true),
            Action::NextPart => self.next_part(1),
            Action::PartBefore => self.next_part(2),
            Action::Open => self.open(),
            Action::Close => self.close(),
            Action::Filter => {
                let text = self.side().filter.as_ref().map_or(String::new(), |(_, text)| text.clone());
                self.open_prompt(Purpose::Filter, &text);
            }
            Action::Unfilter => {
                self.origins.clear();
                self.unfilter();
            }
            Action::Search => self.open_prompt(Purpose::Search, ""),
            Action::SearchNext => self.search_on(true),
            Action::SearchBefore => self.search_on(false),
            Action::GoTo => self.open_prompt(Purpose::GoTo, ""),
            Action::NextIncomplete => self.hunt(Target::Incomplete, true),
            Action::IncompleteBefore => self.hunt(Target::Incomplete, false),
            Action::NextError => self.hunt(Target::Failed, true),
            Action::ErrorBefore => self.hunt(Target::Failed, false),
            Action::NextSlow => self.hunt(Target::Slow, true),
            Action::SlowBefore => self.hunt(Target::Slow, false),
            Action::Mark => self.mark_row(),
            Action::NextMark => self.next_mark(),
            Action::Unmark => self.marks.clear(),
            Action::Tail => {
                self.list.has_tail = !self.list.has_tail;
                self.tell(if self.list.has_tail { "the list follows" } else { "the list stands still" });
            }
            Action::Follow => self.menu = Some(Menu::Follow),
            Action::FollowFile => self.follow(Self::filter_for_file),
            Action::FollowSlot => self.follow(Self::filter_for_slot),
            Action::FollowConnection => self.follow(Self::filter_for_connection),
            Action::FollowXid => self.follow(Self::filter_for_xid),
            Action::SortRight => self.sort_rows(1),
            Action::SortLeft => self.sort_rows(-1),
            Action::Reverse => self.reverse_rows(),
            Action::Pause => {
                self.is_paused = !self.is_paused;
                self.tell(if self.is_paused { "paused" } else { "going on" });
            }
            Action::CopyValue => self.copy_value(),
            Action::CopyFilter => self.copy_filter(),
            Action::CopyCommand => self.copy_command(),
            Action::FilterValue => self.filter_value(),
            Action::Save => self.open_prompt(Purpose::Save, ""),
            Action::Waterfall => {
                self.has_waterfall = !self.has_waterfall;
                if self.view != View::Transactions {
                    self.show(View::Transactions);
                    self.has_waterfall = true;
                }
            }
            Action::Hex => self.has_bytes = !self.has_bytes,
            Action::Zoom => self.is_zoomed = !self.is_zoomed,
            Action::Time => {
                self.options.time = match self.options.time {
                    TimeFormat::Relative => TimeFormat::Delta,
                    TimeFormat::Delta => TimeFormat::Absolute,
                    TimeFormat::Absolute => TimeFormat::AbsoluteDate,
                    TimeFormat::AbsoluteDate => TimeFormat::Epoch,
                    TimeFormat::Epoch => TimeFormat::Iso,
                    TimeFormat::Iso => TimeFormat::Relative,
                };
                self.packets.stretch = Default::default();
            }
        }
    }

    fn move_help(&mut self, action: Action, top: usize) {
        let page = usize::from(self.areas.list.height.max(2)) - 1;
        self.help = match action {
            Action::Down => Some(top + 1),
            Action::Up => Some(top.saturating_sub(1)),
            Action::PageDown => Some(top + page),
            Action::PageUp => Some(top.saturating_sub(page)),
            Action::First => Some(0),
            Action::Last => Some(usize::MAX / 2),
            _ => None,
        };
    }

    /// Changes to a view. The packet list begins at the chosen Transaction.
    pub(super) fn show(&mut self, view: View) {
        let chosen = self.entry().map(|entry| (entry.row.index, entry.row.first.0));
        if view == View::Frames
            && self.view != View::Frames
            && let Some((index, first)) = chosen
            && (self.view == View::Transactions || self.packets.of != Some(index))
        {
            self.packets.of = Some(index);
            self.packets.at = first;
            self.packets.top = first.saturating_sub(2).max(1);
        }
        if view == View::Frames && self.packets.at == 0 && self.all.progress.frames > 0 {
            (self.packets.at, self.packets.top) = (1, 1);
        }
        self.view = view;
        self.part = Part::List;
        self.is_zoomed = false;
    }

    /// Reads the files again, with the same view, filter and Transaction.
    fn reload(&mut self) {
        if self.capture.is_once() {
            return self.complain("what came once cannot be read again");
        }
        let index = self.entry().map(|entry| entry.row.index);
        let options = Options { filter: self.filter_text(), ..self.options.clone() };
        match Self::new(self.capture.clone(), options) {
            Ok(again) => {
                let before = std::mem::replace(self, again);
                (self.view, self.tables, self.marks) = (before.view, before.tables, before.marks);
                (self.history, self.searched) = (before.history, before.searched);
                (self.packets.at, self.packets.sort) = (before.packets.at, before.packets.sort);
                if let Some(index) = index
                    && self.view == View::Transactions
                {
                    self.go_to(&format!("#{index}"));
                }
                self.tell("the files are read again");
            }
            Err(error) => self.complain(error.to_string()),
        }
    }

    /// Looks closer at what is chosen.
    fn open(&mut self) {
        match self.part {
            Part::List => self.open_row(),
            Part::Tree if self.shows_waterfall() => {
                // The frame of a bar.
                let detail = self.tree.detail.as_ref();
                let bar = detail.and_then(|detail| detail.waterfall.bars.get(self.tree.bar));
                if let Some(frame) = bar.map(|bar| bar.frames.0.0) {
                    self.show(View::Frames);
                    self.go_to_frame(frame);
                }
            }
            Part::Tree => {
                if !self.tree.toggle() && self.has_bytes {
                    self.part = Part::Bytes;
                }
            }
            Part::Bytes => {}
        }
    }

    /// Goes back a step: out of the part, out of the picture, to where Enter came from, out of the filter.
    fn close(&mut self) {
        if self.hunt.take().is_some() || self.packets.stop_search() {
            self.tell("stopped");
        } else if self.errors_seen < self.all.errors.len() {
            self.errors_seen = self.all.errors.len();
        } else if self.part != Part::List {
            self.part = Part::List;
        } else if self.is_zoomed {
            self.is_zoomed = false;
        } else if self.view != View::Transactions {
            self.show(View::Transactions);
        } else if self.has_waterfall {
            self.has_waterfall = false;
        } else if let Some(origin) = self.origins.pop() {
            self.go_back(origin);
        } else {
            self.unfilter();
        }
    }

    /// Goes back to the view where a row was opened, with the filter that was set there.
    fn go_back(&mut self, Origin { view, filter, tables }: Origin) {
        match filter {
            Some(filter) => self.set_filter(&filter),
            None => self.unfilter(),
        }
        self.tables = tables;
        self.show(view);
    }

    /// A letter of a menu was typed.
    pub(super) fn picked(&mut self, menu: Menu, code: KeyCode) {
        match (menu, code) {
            (Menu::Follow, KeyCode::Char('f')) => self.perform(Action::FollowFile),
            (Menu::Follow, KeyCode::Char('s')) => self.perform(Action::FollowSlot),
            (Menu::Follow, KeyCode::Char('c')) => self.perform(Action::FollowConnection),
            (Menu::Follow, KeyCode::Char('x')) => self.perform(Action::FollowXid),
            _ => {}
        }
    }

    /// Shows only what has something in common with the chosen Transaction.
    fn follow(&mut self, filter: impl FnOnce(&Self) -> Result<String, &'static str>) {
        match filter(self) {
            Ok(filter) => self.set_filter(&filter),
            Err(what) => self.complain(what),
        }
    }
}
