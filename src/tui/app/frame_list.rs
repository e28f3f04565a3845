//! The packet list: its cursor, and the lines loaded for it.

use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::filtered_sorted_frame_list::{FilteredSortedFrameList, PacketListSortOrder};
use crate::tui::frame_reload::reload_messages::RenderedPacketListPage;
use crate::tui::frame_scan::FrameScan;
use crate::tui::styled_line_parsing::plain;

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
    pub(super) search: Option<(FrameScan, String)>,
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

    /// Moves the cursor by `by` frames; `count` is the number of frames in the capture.
    pub(super) fn move_cursor(&mut self, by: isize, count: u64) {
        match &self.lines {
            // While frames are loading, the nearest loaded frame may not be the final position of the cursor.
            Some(held) if by == 0 && !held.is_complete_to(self.at) => {}
            Some(loaded) => {
                let position = loaded.position_of(self.at).saturating_add_signed(by);
                let position = position.min(loaded.len().saturating_sub(1));
                if let Some(line) = loaded.get(position) {
                    self.at = line.number.0;
                }
            }
            None => {
                let last = count.max(1);
                let at = i64::try_from(self.at).unwrap_or(i64::MAX);
                let at = at.saturating_add(by as i64).max(1).unsigned_abs();
                self.at = at.min(last);
            }
        }
    }

    /// Moves the cursor to the clicked line, counted from the top, of a capture of `count` frames.
    pub(super) fn click(&mut self, line: u64, count: u64) {
        let at = self.top + line;
        match &self.lines {
            Some(loaded) => {
                if let Some(line) = usize::try_from(at).ok().and_then(|at| loaded.get(at)) {
                    self.at = line.number.0;
                }
            }
            None if at <= count => self.at = at,
            None => {}
        }
    }

    /// Moves the cursor to a frame and scrolls to it.
    pub(super) fn go_to(&mut self, frame: u64) {
        self.at = frame;
        self.top = match &self.lines {
            Some(loaded) => loaded.position_of(frame).saturating_sub(2) as u64,
            None => frame.saturating_sub(2).max(1),
        };
    }

    /// Scrolls the list horizontally.
    pub(super) fn scroll_horizontally(&mut self, is_right: bool) {
        let scrolled = self.scroll_columns;
        self.scroll_columns = match is_right {
            true => (scrolled + SCROLL_COLUMNS).min(MAX_SCROLL_COLUMNS),
            false => scrolled.saturating_sub(SCROLL_COLUMNS),
        };
    }

    /// Returns the line of the cursor without styles, if it is loaded.
    pub(super) fn cursor_line_text(&self) -> Option<String> {
        let at = self.at;
        let line = match &self.lines {
            Some(loaded) => &loaded.get(loaded.position_of(at)).filter(|line| line.number.0 == at)?.text,
            None => {
                let page = &self.slice;
                page.lines.get(usize::try_from(at.checked_sub(page.first.0)?).ok()?)?
            }
        };
        Some(plain(line).trim().to_owned())
    }
}
