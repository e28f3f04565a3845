//! Scans of the capture for the packet list: the frames that a filter selects, its order, and its search.

use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::application_state::App;
use super::filtered_sorted_frame_list::{FilteredSortedFrameList, FrameListScanSettings, PacketListSortOrder};
use crate::output::style::TerminalOutputStyles;
use crate::tui::frame_scan::{FrameLine, FrameScan, FrameScanQuery, TuiFrameLineFormat, TuiFrameScanResult};
use crate::tui::styled_line_parsing::plain;

impl App {
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
        self.frame_list.go_to(at);
    }

    /// Updates the loaded frames if the filter, the order or the width has changed.
    pub(super) fn update_frame_lines(&mut self, width: usize) {
        let filter = self.filtered.as_ref().and_then(|side| side.filter.clone());
        if filter.is_none() && self.frame_list.sort.is_capture_order() {
            if self.frame_list.lines.take().is_some() {
                self.frame_list.go_to(self.frame_list.at);
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

    fn scan(&self, query: FrameScanQuery, width: Option<usize>) -> FrameScan {
        FrameScan::start(self.capture.clone(), query, self.line_format(width))
    }

    /// Searches for the next frame whose line contains a text: among the loaded frames, or through the capture.
    pub(super) fn search_frames(&mut self, text: &str, is_forward: bool) {
        let at = self.frame_list.at;
        if let Some(loaded) = &self.frame_list.lines {
            let contains_text = |line: &&FrameLine| crate::tui::search::contains_ignore_case(&plain(&line.text), text);
            let position = loaded.position_of(at);
            let match_line = match is_forward {
                true => {
                    let next = loaded.lines_from(position + 1).find(contains_text).map(|line| (line.number, false));
                    next.or_else(|| loaded.lines_from(0).find(contains_text).map(|line| (line.number, true)))
                }
                false => {
                    let last_before =
                        |to| (0..to).rev().filter_map(|position| loaded.get(position)).find(|line| contains_text(line));
                    let previous = last_before(position).map(|line| (line.number, false));
                    previous.or_else(|| last_before(loaded.len()).map(|line| (line.number, true)))
                }
            };
            return self.handle_search_result(match_line, text, is_forward);
        }
        let query = FrameScanQuery::Text { lowercase_text: text.to_owned(), from: FrameNumber(at), is_forward };
        // The lines of this scan are not truncated, so their whole text is searched.
        self.frame_list.search = Some((self.scan(query, None), text.to_owned()));
        self.is_searching_forward = is_forward;
        self.show_message("searching the frames; Esc stops");
    }

    fn handle_search_result(&mut self, match_frame: Option<(FrameNumber, bool)>, text: &str, is_forward: bool) {
        self.message = None;
        match match_frame {
            Some((frame, has_wrapped)) => {
                self.frame_list.go_to(frame.0);
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
        let mut is_new = self.frame_list.lines.as_mut().is_some_and(|loaded| loaded.take_results(limit_bytes));
        if !was_complete && self.frame_list.lines.as_ref().is_some_and(is_complete) {
            // Move the cursor to the nearest selected frame.
            self.frame_list.move_cursor(0, self.unfiltered.progress.frames);
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
}
