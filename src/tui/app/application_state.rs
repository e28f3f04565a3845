//! The state of the terminal interface between two screens, as the views read it.

use std::collections::BTreeSet;
use std::time::Instant;

use nfsrdma_analysis::filter::{Filter, FilterError};
use nfsrdma_analysis::memory_budget_shares::{self, CommandMemoryBudget};
use nfsrdma_analysis::names::FilehandleDisplay;
use nfsrdma_analysis::rates::{SlidingWindowRates, TransactionAndByteRate, WINDOWS_NS};
use nfsrdma_capture_file::CaptureInterfaceLinkState;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_flow::FlowLimits;
use ratatui::layout::{Position, Rect};

use super::filtered_sorted_frame_list::FilteredSortedFrameList;
use super::frame_list::FrameListPane;
use super::marked_row::MarkedRow;
use super::rates_around_chosen_row::RatesAroundChosenRow;
use super::read_pass_results::ReadPassResults;
use super::transaction_list::TransactionListPane;
use super::tree::TreePane;
use crate::output::settings::TimeFormat;
use crate::output::style::Glyphs;
use crate::output::transaction_list::{TransactionListColumn, TransactionListLayout};
use crate::tui::frame_reload::FrameReloadClient;
use crate::tui::frame_reload::detail_subject::{DetailSubject, TransactionReloadKey};
use crate::tui::memory_shares::ViewMemoryShares;
use crate::tui::model::TransactionRows;
use crate::tui::model::transaction_list_row::{PAGE_ROWS, TransactionRowWithText};
use crate::tui::prompt::{Prompt, PromptPurpose};
use crate::tui::read_pass::ReadPassSettings;
use crate::tui::rereadable_capture::SharedCapture;
use crate::tui::search::RunningSearch;
use crate::tui::theme::{Theme, ThemeName, TuiGlyphs};
use crate::tui::transaction_finding_store::TransactionFindingStore;
use crate::tui::tui_view::{TABLE_COUNT, TuiView};

/// Minimum width of the operation column when other columns are scrolled.
const MIN_OPERATION_COLUMNS: usize = 12;

/// Message if there is no row to act on.
pub(super) const NOTHING_CHOSEN: &str = "nothing is selected";

/// Approximate size of a row with its text, in bytes.
pub(super) const ROW_BYTES: usize = 160;

/// A Transaction is slow if it takes more than this many times the median of its operation.
const SLOW_FACTOR: u64 = 4;

/// The part of the screen that has the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) enum FocusPane {
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
            memory: CommandMemoryBudget::for_interface(memory_budget_shares::DEFAULT_BYTES, []),
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
pub(in crate::tui) struct StatusMessage {
    pub(in crate::tui) text: String,
    pub(in crate::tui) is_error: bool,
}

/// The state of a table: its cursor, top line, sort column and direction.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tui) struct TableViewState {
    pub(in crate::tui) at: usize,
    pub(in crate::tui) top: usize,
    pub(in crate::tui) sort: usize,
    pub(in crate::tui) is_reversed: bool,
    /// Number of columns scrolled past.
    pub(in crate::tui) scroll: usize,
}

/// The view in which a filter was made from a row; closing the list returns to it.
#[derive(Clone, Debug)]
pub(in crate::tui) struct TuiBackStackEntry {
    pub(super) view: TuiView,
    /// The previous filter.
    pub(super) filter: Option<String>,
    /// The previous states of the tables.
    pub(super) tables: [TableViewState; TABLE_COUNT],
}

/// The areas drawn last, for the mouse and for paging.
#[derive(Debug, Default)]
pub(in crate::tui) struct ScreenAreas {
    pub(in crate::tui) list: Rect,
    pub(in crate::tui) tree: Rect,
    pub(in crate::tui) bytes: Rect,
    pub(in crate::tui) tabs: Vec<(Rect, TuiView)>,
    pub(in crate::tui) columns: Vec<(Rect, TransactionListColumn)>,
    pub(in crate::tui) headings: Vec<(Rect, usize)>,
    /// The cursor of the prompt.
    pub(in crate::tui) cursor: Option<Position>,
}

/// A menu with one letter for each action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum SingleLetterActionMenu {
    Follow,
}

/// The terminal interface, independent of a terminal.
pub struct App {
    pub(in crate::tui) options: TuiOptions,
    pub(in crate::tui) theme: Theme,
    pub(in crate::tui) tui_glyphs: TuiGlyphs,
    pub(in crate::tui) capture: SharedCapture,
    pub(super) pass_settings: ReadPassSettings,
    pub(super) shares: ViewMemoryShares,
    pub(in crate::tui) unfiltered: ReadPassResults,
    pub(in crate::tui) filtered: Option<ReadPassResults>,
    pub(super) reload_client: FrameReloadClient,
    pub(in crate::tui) view: TuiView,
    pub(in crate::tui) focus: FocusPane,
    pub(in crate::tui) list: TransactionListPane,
    pub(in crate::tui) frame_list: FrameListPane,
    pub(super) is_searching_forward: bool,
    pub(super) row_rates: RatesAroundChosenRow,
    pub(super) filter_origins: Vec<TuiBackStackEntry>,
    /// Number of columns of the current view that do not fit.
    pub(in crate::tui) hidden_columns: usize,
    /// States of the tables: operations, connections, files, charts.
    pub(in crate::tui) tables: [TableViewState; TABLE_COUNT],
    pub(in crate::tui) tree: TreePane,
    pub(in crate::tui) has_waterfall: bool,
    pub(in crate::tui) has_bytes: bool,
    pub(in crate::tui) is_zoomed: bool,
    pub(in crate::tui) marks: BTreeSet<MarkedRow>,
    pub(in crate::tui) prompt: Option<Prompt>,
    pub(super) history: [Vec<String>; 4],
    pub(in crate::tui) menu: Option<SingleLetterActionMenu>,
    pub(in crate::tui) help: Option<usize>,
    pub(in crate::tui) message: Option<StatusMessage>,
    pub(in crate::tui) is_paused: bool,
    /// Number of input errors that the user has dismissed.
    pub(super) dismissed_errors: usize,
    pub(super) search: Option<RunningSearch>,
    /// Text of the last search.
    pub(in crate::tui) last_search: Option<String>,
    pub(super) requested_page: Option<(usize, Instant)>,
    pub(in crate::tui) areas: ScreenAreas,
    /// Control sequences to send to the terminal.
    pub(super) control_sequences: Vec<Vec<u8>>,
    pub(super) requests: Vec<TerminalControlRequest>,
}

/// Requests that only the owner of the terminal can fulfil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum TerminalControlRequest {
    Quit,
    Suspend,
    Redraw,
}

impl App {
    /// Starts to read a capture.
    ///
    /// # Errors
    /// Returns an error if the filter is invalid.
    pub fn new(capture: SharedCapture, options: TuiOptions) -> Result<Self, FilterError> {
        let filter = match &options.filter {
            Some(text) => Some((Filter::parse(text)?, text.clone())),
            None => None,
        };
        let (is_live, has_tail) = (capture.is_received_once(), capture.is_live() || capture.is_followed());
        let theme = Theme::new(options.theme);
        // For frames received once, a Transaction is shown as soon as it is acknowledged, and not seconds later.
        let limits = FlowLimits { emit_on_acknowledgment: capture.is_received_once(), ..options.limits.clone() };
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
        let reader = FrameReloadClient::start(capture.clone(), settings.clone(), unfiltered.pass.names.clone(), screen);
        let mut filtered =
            filter.map(|filter| ReadPassResults::start(&capture, Some(filter), &settings, Some(&unfiltered)));
        shares.apply_limits(&mut unfiltered.rows, filtered.as_mut().map(|pass| &mut pass.rows));
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
    pub(in crate::tui) fn displayed_pass(&self) -> &ReadPassResults {
        self.filtered.as_ref().unwrap_or(&self.unfiltered)
    }

    pub(in crate::tui) fn rows(&self) -> &TransactionRows {
        &self.displayed_pass().rows
    }

    /// Returns the list of Transactions with the displayed rows.
    pub(super) fn list_and_rows(&mut self) -> (&mut TransactionListPane, &TransactionRows) {
        let pass = self.filtered.as_ref().unwrap_or(&self.unfiltered);
        (&mut self.list, &pass.rows)
    }

    /// Returns the row of the cursor; `None` if it is evicted, or if there is none.
    pub(in crate::tui) fn entry(&self) -> Option<TransactionRowWithText<'_>> {
        self.list.entry(self.rows(), self.list.at)
    }

    /// Returns the state of the current view's table.
    pub(in crate::tui) fn table(&self) -> TableViewState {
        self.view.table_index().and_then(|number| self.tables.get(number)).copied().unwrap_or_default()
    }

    pub(in crate::tui) fn table_mut(&mut self) -> Option<&mut TableViewState> {
        let number = self.view.table_index()?;
        self.tables.get_mut(number)
    }

    /// Returns `true` if the waterfall is shown in place of the tree.
    pub(in crate::tui) fn shows_waterfall(&self) -> bool {
        self.has_waterfall && self.view == TuiView::Transactions
    }

    /// Returns the loaded frames, if the view shows frames.
    pub(in crate::tui) fn loaded_frames(&self) -> Option<&FilteredSortedFrameList> {
        self.frame_list.lines.as_ref().filter(|_| self.view == TuiView::Frames)
    }

    /// Returns the subject of tree and bytes.
    pub(in crate::tui) fn subject(&self) -> Option<DetailSubject> {
        match self.view == TuiView::Frames {
            true => (self.frame_list.at > 0).then_some(DetailSubject::Frame(FrameNumber(self.frame_list.at))),
            false => Some(DetailSubject::Transaction(TransactionReloadKey::from(self.entry()?.row))),
        }
    }

    /// Returns `true` if a Transaction is marked.
    pub(in crate::tui) fn is_marked(&self, entry: &TransactionRowWithText<'_>) -> bool {
        self.marks.contains(&MarkedRow::Transaction(entry.row.index))
    }

    /// Returns `true` while frames are being received.
    pub(in crate::tui) fn is_live(&self) -> bool {
        self.capture.is_received_once() && !self.displayed_pass().progress.is_over
    }

    /// Returns the rates to display.
    pub(in crate::tui) fn rates(&self) -> &SlidingWindowRates {
        if self.is_live() { &self.displayed_pass().activity.rates } else { &self.row_rates.table }
    }

    /// Returns the rates of all Transactions; `None` for a window with an unknown rate.
    pub(in crate::tui) fn total_rates(&self) -> [Option<TransactionAndByteRate>; WINDOWS_NS.len()] {
        if self.is_live() { self.rates().all.map(Some) } else { self.row_rates.all }
    }

    /// Returns `true` for each window of which [`Self::rates`] counts all Transactions.
    pub(in crate::tui) fn complete_windows(&self) -> [bool; WINDOWS_NS.len()] {
        if self.is_live() { [true; WINDOWS_NS.len()] } else { self.row_rates.is_complete }
    }

    /// Returns the time around which the rates of a file were computed.
    pub(in crate::tui) fn rates_time(&self) -> Option<Timestamp> {
        self.row_rates.time
    }

    /// Discards the rates, because other rows are shown.
    pub(super) fn clear_row_rates(&mut self) {
        self.row_rates = RatesAroundChosenRow::default();
    }

    /// Computes the rates around the chosen Transaction, if it has changed.
    pub(in crate::tui) fn update_row_rates(&mut self) {
        let (Some(number), Some(times)) =
            (self.list.row_number(self.rows(), self.list.at), self.unfiltered.tables.times)
        else {
            return;
        };
        if !self.is_live() {
            let pass = self.filtered.as_ref().unwrap_or(&self.unfiltered);
            self.row_rates.update(number, times, pass);
        }
    }

    /// Returns `true` if a Transaction is slow: by the configured latency or the median of its operation.
    pub(in crate::tui) fn is_slow(&self, entry: &TransactionRowWithText<'_>) -> bool {
        let Some(latency) = entry.row.latency_ns else { return false };
        match self.options.slow_ns {
            Some(slow) => latency >= slow,
            None => {
                let median = self.unfiltered.tables.median_latency_ns(entry.name());
                median.is_some_and(|median| latency > median.saturating_mul(SLOW_FACTOR))
            }
        }
    }

    /// Returns the last input error not dismissed, with the number of earlier ones, or else the problem of the link.
    pub(in crate::tui) fn error_message(&self) -> Option<String> {
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
    pub(in crate::tui) fn link_problem(&self) -> Option<CaptureInterfaceLinkState> {
        self.unfiltered
            .progress
            .link
            .filter(|state| *state != CaptureInterfaceLinkState::Up && !self.unfiltered.progress.is_over)
    }

    pub(in crate::tui) fn show_message(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_error: false });
    }

    pub(super) fn show_search_wrapped(&mut self, is_forward: bool) {
        let end = if is_forward { "first" } else { "last" };
        self.show_message(format!("search wrapped, continuing from the {end}"));
    }

    pub(in crate::tui) fn show_error(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_error: true });
    }

    /// Takes the control sequences to send to the terminal.
    pub(in crate::tui) fn take_sequences(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.control_sequences)
    }

    /// Takes the requests to the owner of the terminal.
    pub(in crate::tui) fn take_requests(&mut self) -> Vec<TerminalControlRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Returns the columns of the list for this width: the most important ones, or after scrolling the operation and
    /// the columns from the scroll position on.
    pub(in crate::tui) fn layout(&self, width: usize) -> TransactionListLayout {
        let layout = TransactionListLayout::of(Some(width), self.options.time);
        let Some(skipped) = self.list.scroll.checked_sub(1) else { return layout };
        let all = TransactionListLayout::of(Some(usize::MAX / 2), self.options.time);
        let mut columns = vec![(TransactionListColumn::Operation, MIN_OPERATION_COLUMNS)];
        let mut remaining = width.saturating_sub(MIN_OPERATION_COLUMNS);
        let others = all.columns.into_iter().filter(|(column, _)| *column != TransactionListColumn::Operation);
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
    pub(super) fn open_prompt(&mut self, purpose: PromptPurpose, text: &str) {
        let history = self.history.get(purpose as usize).map_or(&[][..], Vec::as_slice);
        self.prompt = Some(Prompt::new(purpose, text, history));
    }
}
