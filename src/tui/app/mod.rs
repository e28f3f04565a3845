//! The application state between two screens.

mod actions;
mod copy_text;
mod filtered_sorted_frame_list;
mod filters;
mod frame_list;
mod mouse;
mod navigation;
mod rates_around_chosen_row;
mod read_pass_results;
mod save_command;
mod transaction_list;
mod tree;
mod view_rows;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nfsrdma_capture_file::CaptureInterfaceLinkState;
use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::flow::FlowLimits;
use ratatui::crossterm::event::{Event, KeyEventKind};
use ratatui::layout::{Position, Rect};

use crate::output::style::Glyphs;
use crate::output::transaction_list::{TransactionListColumn, TransactionListLayout};
use crate::output::units::TimeFormat;
use nfsrdma_analysis::filter::Filter;
use nfsrdma_analysis::memory_budget::CommandMemoryBudget;
use nfsrdma_analysis::names::FilehandleDisplay;

use super::frame_reload::{DetailSubject, FrameReloadClient, FrameReloadRequest, ReloadResponse};
use super::keys;
use super::memory_shares::ViewMemoryShares;
use super::model::{PAGE_ROWS, TransactionRows};
use super::prompt::{self, Prompt, PromptKeyOutcome, PromptPurpose};
use super::read_pass::ReadPassSettings;
use super::rereadable_capture::SharedCapture;
use super::search::RunningSearch;
use super::theme::{Theme, ThemeName, TuiGlyphs};
use super::transaction_finding_store::TransactionFindingStore;
use super::views;

pub(super) use filtered_sorted_frame_list::{FrameColumn, PacketListSortOrder};
pub(super) use frame_list::FrameListPane;
pub(super) use rates_around_chosen_row::RatesAroundChosenRow;
pub(super) use read_pass_results::ReadPassResults;
pub(super) use transaction_list::{TransactionListPane, scrolled};
pub(super) use tree::TreePane;
pub(super) use view_rows::MarkedRow;
#[cfg(test)]
pub(super) use view_rows::TuiViewRecordKind;

/// Timeout after which an unanswered request is repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(300);

/// Minimum width of the operation column when other columns are scrolled.
const MIN_OPERATION_COLUMNS: usize = 12;

/// Approximate size of a row with its text, in bytes.
const ROW_BYTES: usize = 160;

/// The views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TuiView {
    /// The list of Transactions, with tree, bytes and waterfall.
    #[default]
    Transactions,
    /// Operation statistics.
    Operations,
    /// Connections with their credits.
    Connections,
    /// Files.
    Files,
    /// The packet list, with tree and bytes.
    Frames,
    /// Charts of throughput and latencies.
    Charts,
}

impl TuiView {
    /// All views, in the order of their keys.
    pub const ALL: [Self; 6] =
        [Self::Transactions, Self::Operations, Self::Connections, Self::Files, Self::Frames, Self::Charts];

    /// Returns the title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Transactions => "Transactions",
            Self::Operations => "Operations",
            Self::Connections => "Connections",
            Self::Files => "Files",
            Self::Frames => "Frames",
            Self::Charts => "Charts",
        }
    }

    /// Returns the title for a narrow screen.
    pub const fn short_title(self) -> &'static str {
        match self {
            Self::Transactions => "Trans",
            Self::Operations => "Ops",
            Self::Connections => "Conn",
            Self::Files => "Files",
            Self::Frames => "Frames",
            Self::Charts => "Charts",
        }
    }
}

/// The part of the screen that has the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FocusPane {
    #[default]
    List,
    /// The tree, or the waterfall in its place.
    Tree,
    Bytes,
}

/// Options of the terminal interface.
#[derive(Clone, Debug)]
pub struct TuiOptions {
    /// Memory of the whole interface.
    pub memory: CommandMemoryBudget,
    /// Colours.
    pub theme: ThemeName,
    /// Character set.
    pub glyphs: Glyphs,
    /// Limits of the decoder.
    pub limits: FlowLimits,
    /// Display of filehandles.
    pub filehandles: FilehandleDisplay,
    /// Time format.
    pub time: TimeFormat,
    /// Display filter.
    pub filter: Option<String>,
    /// Latency in nanoseconds from which a Transaction is slow.
    pub slow_ns: Option<u64>,
    /// `true` to apply the conformance rules.
    pub findings: bool,
}

impl Default for TuiOptions {
    fn default() -> Self {
        Self {
            memory: CommandMemoryBudget::for_interface(nfsrdma_analysis::memory_budget::DEFAULT_BYTES, []),
            theme: ThemeName::Dark,
            glyphs: Glyphs::UNICODE,
            limits: FlowLimits::default(),
            filehandles: FilehandleDisplay::default(),
            time: TimeFormat::default(),
            filter: None,
            slow_ns: None,
            findings: false,
        }
    }
}

/// The message at the bottom of the screen.
#[derive(Clone, Debug)]
pub(super) struct StatusMessage {
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// The state of a table: its cursor, top line, sort column and direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TableViewState {
    pub(super) at: usize,
    pub(super) top: usize,
    pub(super) sort: usize,
    pub(super) is_reversed: bool,
    /// Number of columns scrolled past.
    pub(super) scroll: usize,
}

/// The view in which a filter was made from a row; closing the list returns to it.
#[derive(Clone, Debug)]
pub(super) struct TuiBackStackEntry {
    view: TuiView,
    /// The previous filter.
    filter: Option<String>,
    /// The previous states of the tables.
    tables: [TableViewState; view_rows::TABLE_COUNT],
}

/// The areas drawn last, for the mouse and for paging.
#[derive(Debug, Default)]
pub(super) struct ScreenAreas {
    pub(super) list: Rect,
    pub(super) tree: Rect,
    pub(super) bytes: Rect,
    pub(super) tabs: Vec<(Rect, TuiView)>,
    pub(super) columns: Vec<(Rect, TransactionListColumn)>,
    pub(super) headings: Vec<(Rect, usize)>,
    /// The cursor of the prompt.
    pub(super) cursor: Option<Position>,
}

/// A menu with one letter for each action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SingleLetterActionMenu {
    Follow,
}

/// The terminal interface, independent of a terminal.
pub struct App {
    pub(super) options: TuiOptions,
    pub(super) theme: Theme,
    pub(super) tui_glyphs: TuiGlyphs,
    pub(super) capture: SharedCapture,
    pass_settings: ReadPassSettings,
    shares: ViewMemoryShares,
    pub(super) unfiltered: ReadPassResults,
    pub(super) filtered: Option<ReadPassResults>,
    reload_client: FrameReloadClient,
    pub(super) view: TuiView,
    pub(super) focus: FocusPane,
    pub(super) list: TransactionListPane,
    pub(super) frame_list: FrameListPane,
    is_searching_forward: bool,
    row_rates: RatesAroundChosenRow,
    filter_origins: Vec<TuiBackStackEntry>,
    /// Number of columns of the current view that do not fit.
    pub(super) hidden_columns: usize,
    /// States of the tables: operations, connections, files, charts.
    pub(super) tables: [TableViewState; view_rows::TABLE_COUNT],
    pub(super) tree: TreePane,
    pub(super) has_waterfall: bool,
    pub(super) has_bytes: bool,
    pub(super) is_zoomed: bool,
    pub(super) marks: BTreeSet<MarkedRow>,
    pub(super) prompt: Option<Prompt>,
    history: [Vec<String>; 4],
    pub(super) menu: Option<SingleLetterActionMenu>,
    pub(super) help: Option<usize>,
    pub(super) message: Option<StatusMessage>,
    pub(super) is_paused: bool,
    /// Number of input errors that the user has dismissed.
    dismissed_errors: usize,
    search: Option<RunningSearch>,
    /// Text of the last search.
    pub(super) last_search: Option<String>,
    requested_page: Option<(usize, Instant)>,
    pub(super) areas: ScreenAreas,
    /// Control sequences to send to the terminal.
    control_sequences: Vec<Vec<u8>>,
    requests: Vec<TerminalControlRequest>,
}

/// Requests that only the owner of the terminal can fulfil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TerminalControlRequest {
    Quit,
    Suspend,
    Redraw,
}

impl App {
    /// Starts to read a capture.
    ///
    /// # Errors
    /// Returns an error if the filter is invalid.
    pub fn new(
        capture: SharedCapture,
        options: TuiOptions,
    ) -> Result<Self, nfsrdma_analysis::filter::FilterError> {
        let filter = match &options.filter {
            Some(text) => Some((Filter::parse(text)?, text.clone())),
            None => None,
        };
        let (is_live, has_tail) = (capture.is_received_once(), capture.is_live() || capture.is_followed());
        let theme = Theme::new(options.theme);
        // For frames received once, a Transaction is shown as soon as it is acknowledged, and not seconds later.
        let limits =
            FlowLimits { emit_on_acknowledgment: capture.is_received_once(), ..options.limits.clone() };
        let memory = options.memory.clone();
        let shares = ViewMemoryShares::new(memory.view_bytes(), capture.is_received_once());
        let pages = shares.waiting_bytes / 2 / ROW_BYTES / PAGE_ROWS;
        let early_bytes = shares.waiting_bytes / 4;
        let settings = ReadPassSettings {
            limits,
            memory,
            filehandles: options.filehandles,
            glyphs: options.glyphs,
            max_pending_pages: pages,
            max_unnumbered_bytes: early_bytes,
            findings: options.findings.then(TransactionFindingStore::default),
        };
        let mut unfiltered = ReadPassResults::start(&capture, None, &settings, None);
        let screen = theme.terminal_style(options.glyphs);
        let reader = FrameReloadClient::start(
            capture.clone(),
            settings.clone(),
            unfiltered.pass.names.clone(),
            screen,
        );
        let mut filtered =
            filter.map(|filter| ReadPassResults::start(&capture, Some(filter), &settings, Some(&unfiltered)));
        shares.apply_limits(&mut unfiltered, filtered.as_mut());
        Ok(Self {
            theme,
            tui_glyphs: TuiGlyphs::new(options.glyphs),
            capture,
            pass_settings: settings,
            shares,
            unfiltered,
            filtered,
            reload_client: reader,
            view: TuiView::default(),
            focus: FocusPane::default(),
            list: TransactionListPane::new(has_tail),
            frame_list: FrameListPane::default(),
            is_searching_forward: true,
            row_rates: RatesAroundChosenRow::default(),
            filter_origins: Vec::new(),
            hidden_columns: 0,
            // Sort by Calls, bytes and bytes; for frames received once, by current rates.
            tables: (if is_live { [4, 5, 5, 0] } else { [2, 7, 1, 0] })
                .map(|sort| TableViewState { sort, ..TableViewState::default() }),
            tree: TreePane::default(),
            has_waterfall: false,
            has_bytes: true,
            is_zoomed: false,
            marks: BTreeSet::new(),
            prompt: None,
            history: Default::default(),
            menu: None,
            help: None,
            message: None,
            is_paused: false,
            dismissed_errors: 0,
            search: None,
            last_search: None,
            requested_page: None,
            areas: ScreenAreas::default(),
            control_sequences: Vec::new(),
            requests: Vec::new(),
            options,
        })
    }

    /// Returns the displayed pass.
    pub(super) fn displayed_pass(&self) -> &ReadPassResults {
        self.filtered.as_ref().unwrap_or(&self.unfiltered)
    }

    pub(super) fn rows(&self) -> &TransactionRows {
        &self.displayed_pass().rows
    }

    /// Returns the row of the cursor; `None` if it is evicted, or if there is none.
    pub(super) fn entry(&self) -> Option<super::model::TransactionRowWithText<'_>> {
        self.list.entry(self.rows(), self.list.at)
    }

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
        let cursor_row = self.list.row_number(self.list.at).unwrap_or(0);
        // Frames received once do not wait: a pause ends when the memory for pending rows is used up.
        if self.is_paused && self.capture.is_received_once() {
            let waiting = self.unfiltered.pass.pending_rows()
                + self.filtered.as_ref().map_or(0, |side| side.pass.pending_rows());
            if waiting > self.shares.waiting_bytes / 2 / ROW_BYTES {
                self.is_paused = false;
                self.show_error("pause ended: memory limit reached (--max-memory)");
                is_new = true;
            }
        }
        if !self.is_paused {
            let (resume_points, news) =
                self.unfiltered.take(if self.filtered.is_some() { usize::MAX / 2 } else { cursor_row });
            is_new |= news;
            if !resume_points.is_empty() {
                self.reload_client.request(FrameReloadRequest::ResumePoints(resume_points));
            }
            if let Some(filtered) = &mut self.filtered {
                is_new |= filtered.take(cursor_row).1;
            }
        }
        let rows = self.filtered.as_ref().map_or(&self.unfiltered.rows, |side| &side.rows);
        is_new |= self.list.poll_sorting(rows);
        while let Some(response) = self.reload_client.try_response() {
            is_new = true;
            self.handle_response(response);
        }
        is_new |= self.continue_search();
        is_new |= self.poll_scans();
        self.request_missing_data();
        is_new
    }

    fn handle_response(&mut self, response: ReloadResponse) {
        match response {
            ReloadResponse::Detail(mut detail) => {
                if self.subject() != Some(detail.subject) {
                    return;
                }
                // Use the file name of that time; names that the tree looks up may have been inferred later.
                if let (DetailSubject::Transaction(key), Some(entry)) = (detail.subject, self.entry())
                    && let Some((_, title)) =
                        detail.lines.first_mut().and_then(|line| line.pieces.first_mut())
                {
                    *title = format!("Transaction {}: {}", key.index, entry.label());
                }
                self.tree.show(*detail);
            }
            ReloadResponse::Frames(page) => {
                self.frame_list.slice = page;
                self.frame_list.request = None;
            }
            ReloadResponse::Page { number, filter, page } => {
                self.requested_page = None;
                let cursor_row = self.list.row_number(self.list.at).unwrap_or(0);
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
        let is_due = |requested_at: Option<Instant>| {
            requested_at.is_none_or(|asked| asked.elapsed() > REQUEST_TIMEOUT)
        };
        if self.view == TuiView::Transactions {
            let height = usize::from(self.areas.list.height).max(1);
            let lines = self.list.top..self.list.top + height;
            let numbers = lines.filter_map(|at| self.list.row_number(at));
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
            (requested, layout) == (top, (width, self.frame_list.scroll_columns))
                && at.elapsed() < REQUEST_TIMEOUT
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
        (is_pipe && self.capture.file_change().is_none() && progress.is_over && progress.frames == 0).then(
            || match errors.as_slice() {
                [] => format!("{}: no frames", self.capture.name()),
                errors => errors.join("; "),
            },
        )
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

    /// Returns the last input error not dismissed, with the number of earlier ones, or else the problem of the link.
    pub(super) fn error_message(&self) -> Option<String> {
        let errors = self.unfiltered.errors.get(self.dismissed_errors..).unwrap_or_default();
        let Some((last, earlier)) = errors.split_last() else {
            return self.link_problem().map(|state| format!("{}: {state}", self.capture.name()));
        };
        Some(match earlier.len() {
            0 => last.clone(),
            count => format!("{last} (and {count} more before)"),
        })
    }

    /// Returns the state of the interface if it delivers nothing at present.
    pub(super) fn link_problem(&self) -> Option<CaptureInterfaceLinkState> {
        self.unfiltered
            .progress
            .link
            .filter(|state| *state != CaptureInterfaceLinkState::Up && !self.unfiltered.progress.is_over)
    }

    pub(super) fn show_message(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_error: false });
    }

    fn show_search_wrapped(&mut self, is_forward: bool) {
        let end = if is_forward { "first" } else { "last" };
        self.show_message(format!("search wrapped, continuing from the {end}"));
    }

    pub(super) fn show_error(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_error: true });
    }

    /// Takes the control sequences to send to the terminal.
    pub(super) fn take_sequences(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.control_sequences)
    }

    /// Takes the requests to the owner of the terminal.
    pub(super) fn take_requests(&mut self) -> Vec<TerminalControlRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Returns the columns of the list for this width: the most important ones, or after scrolling the operation and
    /// the columns from the scroll position on.
    pub(super) fn layout(&self, width: usize) -> TransactionListLayout {
        let layout = TransactionListLayout::of(Some(width), self.options.time);
        let Some(skipped) = self.list.scroll.checked_sub(1) else { return layout };
        let all = TransactionListLayout::of(Some(usize::MAX / 2), self.options.time);
        let mut columns = vec![(TransactionListColumn::Operation, MIN_OPERATION_COLUMNS)];
        let mut remaining = width.saturating_sub(MIN_OPERATION_COLUMNS);
        let others =
            all.columns.into_iter().filter(|(column, _)| *column != TransactionListColumn::Operation);
        for (column, wide) in others.skip(skipped) {
            let needed = wide + layout.gap.len();
            if needed > remaining {
                break;
            }
            remaining -= needed;
            columns.push((column, wide));
        }
        columns
            .iter_mut()
            .filter(|(column, _)| *column == TransactionListColumn::Operation)
            .for_each(|(_, wide)| *wide += remaining);
        TransactionListLayout { columns, gap: layout.gap }
    }

    /// Opens the prompt.
    fn open_prompt(&mut self, purpose: PromptPurpose, text: &str) {
        let history = self.history.get(purpose as usize).map_or(&[][..], Vec::as_slice);
        self.prompt = Some(Prompt::new(purpose, text, history));
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
