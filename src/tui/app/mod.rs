//! The application: it handles events and the results of the other threads, and draws the views.

mod actions;
pub mod application_state;
mod copy_text;
mod cursor_movement_and_search;
pub(super) mod filtered_sorted_frame_list;
mod filters;
mod frame_list;
mod frame_list_scans;
pub(super) mod marked_row;
mod mouse;
mod rates_around_chosen_row;
mod read_pass_results;
mod save_command;
pub(super) mod transaction_list;
mod tree;
pub(super) mod view_row_commands;

use std::time::{Duration, Instant};

use nfsrdma_dissectors::captured_frame::FrameNumber;
use ratatui::crossterm::event::{Event, KeyEventKind};

use super::frame_reload::detail_subject::DetailSubject;
use super::frame_reload::reload_messages::{FrameReloadRequest, ReloadResponse};
use super::keys;
use super::model::transaction_list_row::{PAGE_ROWS, is_pending_index};
use super::prompt::{self, Prompt, PromptKeyOutcome, PromptPurpose};
use super::tui_view::TuiView;
use super::views;
use application_state::{App, ROW_BYTES};
use marked_row::MarkedRow;
use read_pass_results::ReadPassResults;

/// Timeout after which an unanswered request is repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(300);

impl App {
    /// Handles a terminal event.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if let Some(mut prompt) = self.prompt.take() {
                    match prompt.key(*key) {
                        PromptKeyOutcome::Continue => self.prompt = Some(prompt),
                        PromptKeyOutcome::Accepted => self.accept_prompt(&prompt),
                        PromptKeyOutcome::Cancelled => self.message = None,
                    }
                } else if let Some(menu) = self.menu.take() {
                    self.handle_menu_key(menu, key.code);
                } else if let Some(action) = keys::action(*key) {
                    self.message = None;
                    self.perform(action);
                }
            }
            Event::Mouse(mouse) => self.mouse(*mouse),
            Event::Paste(text) => {
                if let Some(prompt) = &mut self.prompt {
                    prompt.paste(text);
                }
            }
            _ => {}
        }
    }

    /// Processes the results of the other threads. Returns `true` if the screen may have changed.
    pub fn tick(&mut self) -> bool {
        let mut is_new = self.reload_changed_file();
        let cursor_row = self.list.row_number(self.rows(), self.list.at).unwrap_or(0);
        // Frames received once do not wait: a pause ends when the memory for pending rows is used up.
        if self.is_paused && self.capture.is_received_once() {
            let waiting =
                self.unfiltered.pass.pending_rows() + self.filtered.as_ref().map_or(0, |side| side.pass.pending_rows());
            if waiting > self.shares.waiting_bytes / 2 / ROW_BYTES {
                self.is_paused = false;
                self.show_error("pause ended: memory limit reached (--max-memory)");
                is_new = true;
            }
        }
        if !self.is_paused {
            let pending = self.entry().map(|entry| entry.row.index).filter(|index| is_pending_index(*index));
            let (resume_points, news) =
                self.unfiltered.take(if self.filtered.is_some() { usize::MAX / 2 } else { cursor_row }, None);
            is_new |= news;
            if !resume_points.is_empty() {
                self.reload_client.request(FrameReloadRequest::ResumePoints(resume_points));
            }
            if let Some(filtered) = &mut self.filtered {
                is_new |= filtered.take(cursor_row, Some(&self.unfiltered.tables)).1;
            }
            let (list, rows) = self.list_and_rows();
            list.stay_on_pending(pending, rows);
            self.move_marks_of_pending();
        }
        let (list, rows) = self.list_and_rows();
        is_new |= list.poll_sorting(rows);
        while let Some(response) = self.reload_client.try_response() {
            is_new = true;
            self.handle_response(response);
        }
        is_new |= self.continue_search();
        is_new |= self.poll_scans();
        self.request_missing_data();
        is_new
    }

    /// Moves the marks of pending calls that were completed to their transactions.
    fn move_marks_of_pending(&mut self) {
        let rows = &self.unfiltered.rows;
        let pending = self.marks.iter().filter_map(|mark| match mark {
            MarkedRow::Transaction(index) if is_pending_index(*index) => Some(*index),
            _ => None,
        });
        let completed: Vec<(u64, u64)> = pending
            .filter_map(|index| {
                let row = rows.get(rows.number_at(rows.position_of_pending(index)?))?.row;
                (!row.is_pending()).then_some((index, row.index))
            })
            .collect();
        for (pending, completed) in completed {
            self.marks.remove(&MarkedRow::Transaction(pending));
            self.marks.insert(MarkedRow::Transaction(completed));
        }
    }

    fn handle_response(&mut self, response: ReloadResponse) {
        match response {
            ReloadResponse::Detail(mut detail) => {
                if self.subject() != Some(detail.subject) {
                    return;
                }
                // Use the file name of that time; names that the tree looks up may have been inferred later.
                if let (DetailSubject::Transaction(key), Some(entry)) = (detail.subject, self.entry())
                    && let Some((_, title)) = detail.lines.first_mut().and_then(|line| line.pieces.first_mut())
                {
                    *title = match key.is_pending() {
                        true => format!("Call without a reply: {}", entry.label()),
                        false => format!("Transaction {}: {}", key.index, entry.label()),
                    };
                }
                self.tree.show(*detail);
            }
            ReloadResponse::Frames(page) => {
                self.frame_list.slice = page;
                self.frame_list.request = None;
            }
            ReloadResponse::Page { number, filter, page } => {
                self.requested_page = None;
                let cursor_row = self.list.row_number(self.rows(), self.list.at).unwrap_or(0);
                let side = self.filtered.as_mut().unwrap_or(&mut self.unfiltered);
                if side.filter.as_ref().map(|(_, text)| text) == filter.as_ref() {
                    side.rows.restore_page(number, page, cursor_row);
                }
            }
            ReloadResponse::Saved(Ok(text)) => self.show_message(text),
            ReloadResponse::Saved(Err(text)) => self.show_error(text),
        }
    }

    /// Requests data that the screen shows and that is not loaded.
    fn request_missing_data(&mut self) {
        if self.view.has_tree()
            && let Some(subject) = self.subject()
            && self.tree.requested != Some(subject)
        {
            self.tree.requested = Some(subject);
            self.reload_client.request(FrameReloadRequest::Detail(subject));
        }
        let is_due = |requested_at: Option<Instant>| requested_at.is_none_or(|asked| asked.elapsed() > REQUEST_TIMEOUT);
        if self.view == TuiView::Transactions {
            let height = usize::from(self.areas.list.height).max(1);
            let lines = self.list.top..self.list.top + height;
            let numbers = lines.filter_map(|at| self.list.row_number(self.rows(), at));
            let forgotten = numbers.into_iter().find(|number| self.rows().is_evicted(*number));
            if let Some(number) = forgotten.map(|number| number / PAGE_ROWS)
                && is_due(self.requested_page.filter(|(requested, _)| *requested == number).map(|(_, at)| at))
            {
                self.requested_page = Some((number, Instant::now()));
                let filter = self.displayed_pass().filter.clone();
                self.reload_client.request(FrameReloadRequest::Page { number, filter });
            }
        }
        if self.view == TuiView::Frames {
            self.request_frames();
        }
    }

    fn request_frames(&mut self) {
        let (height, width) = (u64::from(self.areas.list.height), usize::from(self.areas.list.width));
        let count = self.unfiltered.progress.frames;
        if width > 0 {
            self.update_frame_lines(width);
        }
        if height == 0 || count == 0 || self.frame_list.lines.is_some() {
            return;
        }
        let top = FrameNumber(self.frame_list.top.max(1));
        let page = &self.frame_list.slice;
        let end = top.0.saturating_add(height).min(count + 1);
        let has = (1..=top.0).contains(&page.wanted.0)
            && page.first.0 + page.lines.len() as u64 >= end
            && (page.width, page.left) == (width, self.frame_list.scroll_columns);
        let is_asked = self.frame_list.request.is_some_and(|(requested, layout, at)| {
            (requested, layout) == (top, (width, self.frame_list.scroll_columns)) && at.elapsed() < REQUEST_TIMEOUT
        });
        if has || is_asked {
            return;
        }
        let left = self.frame_list.scroll_columns;
        self.frame_list.request = Some((top, (width, left), Instant::now()));
        let first = FrameNumber(top.0.saturating_sub(4 * height).max(1));
        let mut screen = self.theme.terminal_style(self.options.glyphs);
        screen.width = Some(width);
        let start = self.unfiltered.tables.times.map(|(start, _)| start);
        let count = (9 * height) as usize;
        self.reload_client.request(FrameReloadRequest::Frames {
            first,
            count,
            screen,
            left,
            time: self.options.time,
            start,
        });
    }

    /// Draws the screen.
    pub fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        views::draw(self, frame);
    }

    /// Returns the number of Transactions in the list, visible or not.
    pub fn transactions(&self) -> usize {
        self.rows().len()
    }

    /// Returns `true` if the capture was read to its end.
    pub fn is_read(&self) -> bool {
        self.displayed_pass().progress.is_over
    }

    /// Returns an error if a pipe ended without a frame to show. Files are read before the interface starts.
    pub(super) fn no_frames_error(&self) -> Option<String> {
        let ReadPassResults { progress, errors, .. } = &self.unfiltered;
        let is_pipe = self.capture.is_received_once() && !self.capture.is_live();
        // Another file follows one that was truncated or replaced.
        (is_pipe && self.capture.file_change().is_none() && progress.is_over && progress.frames == 0).then(|| {
            match errors.as_slice() {
                [] => format!("{}: no frames", self.capture.name()),
                errors => errors.join("; "),
            }
        })
    }

    /// Returns `true` if no work is pending: everything was read and every request was answered.
    pub fn is_idle(&self) -> bool {
        let is_over = |side: &ReadPassResults| side.progress.is_over || self.is_paused;
        let has_tree = !self.view.has_tree()
            || self.subject().is_none()
            || self.tree.detail.as_ref().map(|detail| detail.subject) == self.subject();
        is_over(&self.unfiltered)
            && self.filtered.as_ref().is_none_or(is_over)
            && !self.list.is_sorting()
            && self.search.is_none()
            && has_tree
            && self.frame_list.request.is_none()
            && !self.frame_list.is_scanning()
            && self.requested_page.is_none()
    }

    /// Returns `true` if pending work will change the screen soon.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_idle() && !self.is_paused
    }

    fn accept_prompt(&mut self, prompt: &Prompt) {
        let text = prompt.text();
        let text = text.trim();
        if let Some(history) = self.history.get_mut(prompt.purpose as usize) {
            prompt::add_to_history(history, text);
        }
        match prompt.purpose {
            PromptPurpose::Filter if text.is_empty() => self.remove_filter(),
            PromptPurpose::Filter => self.set_filter(text),
            PromptPurpose::Search => self.search_for(text),
            PromptPurpose::GoTo => self.go_to(text),
            PromptPurpose::Save => self.save_to(text),
        }
    }
}
