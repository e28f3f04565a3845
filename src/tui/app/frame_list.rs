//! The packet list: its cursor, the frames that a filter selects, its order, and its search.

use nfsrdma_dissectors::captured_frame::FrameNumber;

use crate::output::style::TerminalOutputStyles;
use crate::tui::frame_reload::RenderedPacketListPage;
use crate::tui::frame_scan::{FrameLine, FrameScan, FrameScanQuery, TuiFrameLineFormat, TuiFrameScanResult};
use crate::tui::views::ansi_escape_parsing::plain;

use super::App;
use super::filtered_sorted_frame_list::{
    FilteredSortedFrameList, FrameListScanSettings, PacketListSortOrder,
};

/// Number of columns that a key scrolls, and maximum scroll position.
const SCROLL_COLUMNS: usize = 8;
const MAX_SCROLL_COLUMNS: usize = 400;

/// The packet list.
#[derive(Debug, Default)]
pub(in crate::tui) struct FrameListPane {
    /// The chosen Transaction when the list was last opened.
    pub(super) opened_for: Option<u64>,
    /// Frame number of the cursor; 0 before a frame was chosen.
    pub(in crate::tui) at: u64,
    /// Top line: without a filter the frame number, with a filter the index of the line, counted from 0.
    pub(in crate::tui) top: u64,
    pub(in crate::tui) slice: RenderedPacketListPage,
    pub(super) request: Option<(FrameNumber, (usize, usize), std::time::Instant)>,
    /// Number of columns scrolled past.
    pub(in crate::tui) scroll_columns: usize,
    /// Sort order of the list.
    pub(in crate::tui) sort: PacketListSortOrder,
    /// The lines of the frames that the filter selects, or of all frames if they are sorted.
    pub(in crate::tui) lines: Option<FilteredSortedFrameList>,
    search: Option<(FrameScan, String)>,
}

impl FrameListPane {
    /// Returns `true` while a scan is running.
    pub(super) fn is_scanning(&self) -> bool {
        self.search.is_some() || self.lines.as_ref().is_some_and(FilteredSortedFrameList::is_scanning)
    }

    /// Stops a search. Returns `true` if there was one.
    pub(super) fn stop_search(&mut self) -> bool {
        self.search.take().is_some()
    }
}

impl App {
    /// Moves the cursor by `by` frames.
    pub(super) fn move_frame_cursor(&mut self, by: isize) {
        match &self.frame_list.lines {
            // While frames are loading, the nearest loaded frame may not be the final position of the cursor.
            Some(held) if by == 0 && !held.is_complete_to(self.frame_list.at) => {}
            Some(loaded) => {
                let position = loaded.position_of(self.frame_list.at).saturating_add_signed(by);
                let position = position.min(loaded.len().saturating_sub(1));
                if let Some(line) = loaded.get(position) {
                    self.frame_list.at = line.number.0;
                }
            }
            None => {
                let last = self.unfiltered.progress.frames.max(1);
                let at = i64::try_from(self.frame_list.at).unwrap_or(i64::MAX);
                let at = at.saturating_add(by as i64).max(1).unsigned_abs();
                self.frame_list.at = at.min(last);
            }
        }
    }

    /// Moves the cursor to the clicked line, counted from the top.
    pub(super) fn click_frame(&mut self, line: u64) {
        let at = self.frame_list.top + line;
        match &self.frame_list.lines {
            Some(loaded) => {
                if let Some(line) = usize::try_from(at).ok().and_then(|at| loaded.get(at)) {
                    self.frame_list.at = line.number.0;
                }
            }
            None if at <= self.unfiltered.progress.frames => self.frame_list.at = at,
            None => {}
        }
    }

    /// Moves the cursor to a frame and scrolls to it.
    pub(super) fn go_to_frame(&mut self, frame: u64) {
        self.frame_list.at = frame;
        self.frame_list.top = match &self.frame_list.lines {
            Some(loaded) => loaded.position_of(frame).saturating_sub(2) as u64,
            None => frame.saturating_sub(2).max(1),
        };
    }

    fn line_format(&self, width: Option<usize>) -> TuiFrameLineFormat {
        let mut screen = self.theme.terminal_style(self.options.glyphs);
        screen.width = width;
        // Invisible lines, which are only searched, have no styles.
        if width.is_none() {
            screen.styles = TerminalOutputStyles::plain();
        }
        TuiFrameLineFormat {
            screen,
            time: self.options.time,
            start: self.unfiltered.tables.times.map(|(start, _)| start),
            scroll_columns: if width.is_some() { self.frame_list.scroll_columns } else { 0 },
            filehandles: self.options.filehandles,
            limits: self.options.limits.clone(),
            memory: self.options.memory.clone(),
        }
    }

    /// Sorts the packet list. In capture order it is read in pages, otherwise loaded up to a limit.
    pub(super) fn sort_frames(&mut self, sort: PacketListSortOrder) {
        self.frame_list.sort = sort;
        if let Some(loaded) = &mut self.frame_list.lines {
            loaded.sort(sort);
        }
        let (at, width) = (self.frame_list.at, usize::from(self.areas.list.width));
        if width > 0 {
            self.update_frame_lines(width);
        }
        self.go_to_frame(at);
    }

    /// Updates the loaded frames if the filter, the order or the width has changed.
    pub(super) fn update_frame_lines(&mut self, width: usize) {
        let filter = self.filtered.as_ref().and_then(|side| side.filter.clone());
        if filter.is_none() && self.frame_list.sort.is_capture_order() {
            if self.frame_list.lines.take().is_some() {
                self.go_to_frame(self.frame_list.at);
            }
            return;
        }
        let (filter, text) = filter.unzip();
        let made_for = FrameListScanSettings {
            filter: text,
            width,
            left: self.frame_list.scroll_columns,
            time: self.options.time,
        };
        if self.frame_list.lines.as_ref().is_none_or(|loaded| loaded.settings != made_for) {
            let scan = self.scan(FrameScanQuery::Selected(filter), Some(width));
            self.frame_list.lines = Some(FilteredSortedFrameList::new(made_for, self.frame_list.sort, scan));
            self.frame_list.top = 0;
        }
    }

    /// Scrolls the list horizontally.
    pub(super) fn scroll_frames(&mut self, is_right: bool) {
        let scrolled = self.frame_list.scroll_columns;
        self.frame_list.scroll_columns = match is_right {
            true => (scrolled + SCROLL_COLUMNS).min(MAX_SCROLL_COLUMNS),
            false => scrolled.saturating_sub(SCROLL_COLUMNS),
        };
    }

    fn scan(&self, query: FrameScanQuery, width: Option<usize>) -> FrameScan {
        FrameScan::start(self.capture.clone(), query, self.line_format(width))
    }

    /// Searches for the next frame whose line contains a text: among the loaded frames, or through the capture.
    pub(super) fn search_frames(&mut self, text: &str, is_forward: bool) {
        let at = self.frame_list.at;
        if let Some(loaded) = &self.frame_list.lines {
            let contains_text =
                |line: &&FrameLine| crate::tui::search::contains_ignore_case(&plain(&line.text), text);
            let position = loaded.position_of(at);
            let match_line = match is_forward {
                true => {
                    let next =
                        loaded.lines_from(position + 1).find(contains_text).map(|line| (line.number, false));
                    next.or_else(|| loaded.lines_from(0).find(contains_text).map(|line| (line.number, true)))
                }
                false => {
                    let last_before = |to| {
                        (0..to)
                            .rev()
                            .filter_map(|position| loaded.get(position))
                            .find(|line| contains_text(line))
                    };
                    let previous = last_before(position).map(|line| (line.number, false));
                    previous.or_else(|| last_before(loaded.len()).map(|line| (line.number, true)))
                }
            };
            return self.handle_search_result(match_line, text, is_forward);
        }
        let query =
            FrameScanQuery::Text { lowercase_text: text.to_owned(), from: FrameNumber(at), is_forward };
        // The lines of this scan are not truncated, so their whole text is searched.
        self.frame_list.search = Some((self.scan(query, None), text.to_owned()));
        self.is_searching_forward = is_forward;
        self.show_message("searching the frames; Esc stops");
    }

    fn handle_search_result(
        &mut self,
        match_frame: Option<(FrameNumber, bool)>,
        text: &str,
        is_forward: bool,
    ) {
        self.message = None;
        match match_frame {
            Some((frame, has_wrapped)) => {
                self.go_to_frame(frame.0);
                if has_wrapped {
                    self.show_search_wrapped(is_forward);
                }
            }
            None => self.show_error(format!("not found: {text:?}")),
        }
    }

    /// Processes the results of scans. Returns `true` if there were any.
    pub(super) fn poll_scans(&mut self) -> bool {
        let limit_bytes = self.shares.lines_bytes;
        let at = self.frame_list.at;
        let is_complete = |loaded: &FilteredSortedFrameList| loaded.is_complete_to(at);
        let was_complete = self.frame_list.lines.as_ref().is_none_or(is_complete);
        let mut is_new =
            self.frame_list.lines.as_mut().is_some_and(|loaded| loaded.take_results(limit_bytes));
        if !was_complete && self.frame_list.lines.as_ref().is_some_and(is_complete) {
            // Move the cursor to the nearest selected frame.
            self.move_frame_cursor(0);
        }
        if let Some((scan, text)) = &self.frame_list.search {
            let (results, is_over) = scan.take();
            let text = text.clone();
            let outcome = results.into_iter().find_map(|result| match result {
                TuiFrameScanResult::Text(outcome) => Some(outcome),
                TuiFrameScanResult::Header(_) | TuiFrameScanResult::Line(..) => None,
            });
            if outcome.is_some() || is_over {
                is_new = true;
                self.frame_list.search = None;
                self.handle_search_result(outcome.flatten(), &text, self.is_searching_forward);
            }
        }
        is_new
    }

    /// Returns the line of the cursor without styles, if it is loaded.
    pub(super) fn cursor_line_text(&self) -> Option<String> {
        let at = self.frame_list.at;
        let line = match &self.frame_list.lines {
            Some(loaded) => &loaded.get(loaded.position_of(at)).filter(|line| line.number.0 == at)?.text,
            None => {
                let page = &self.frame_list.slice;
                page.lines.get(usize::try_from(at.checked_sub(page.first.0)?).ok()?)?
            }
        };
        Some(plain(line).trim().to_owned())
    }
}
