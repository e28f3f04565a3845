//! The packet list: its cursor, the frames that a filter selects, its order, and its search.

use nfsrdma_dissectors::frame::FrameNumber;

use crate::output::style::Styles;
use crate::tui::frame_scan::{FrameLine, FrameLineFormat, FrameScan, FrameScanQuery, FrameScanResult};
use crate::tui::reload::FrameListSlice;
use crate::tui::views::styled_lines::plain;

use super::App;
use super::frame_order::{FrameLineList, FrameLineSettings, FrameSort};

/// Number of columns that a key scrolls, and maximum scroll position.
const SCROLLED: usize = 8;
const MOST_SCROLLED: usize = 400;

/// The packet list.
#[derive(Debug, Default)]
pub(in crate::tui) struct FrameListPane {
    /// The chosen Transaction when the list was last opened.
    pub(super) of: Option<u64>,
    /// Frame number of the cursor; 0 before a frame was chosen.
    pub(in crate::tui) at: u64,
    /// Top line: without a filter the frame number, with a filter the index of the line, counted from 0.
    pub(in crate::tui) top: u64,
    pub(in crate::tui) stretch: FrameListSlice,
    pub(super) asked: Option<(FrameNumber, (usize, usize), std::time::Instant)>,
    /// Number of columns scrolled past.
    pub(in crate::tui) left: usize,
    /// Sort order of the list.
    pub(in crate::tui) sort: FrameSort,
    /// The lines of the frames that the filter selects, or of all frames if they are sorted.
    pub(in crate::tui) held: Option<FrameLineList>,
    search: Option<(FrameScan, String)>,
}

impl FrameListPane {
    /// Returns `true` while a scan is running.
    pub(super) fn is_looking(&self) -> bool {
        self.search.is_some() || self.held.as_ref().is_some_and(FrameLineList::is_looking)
    }

    /// Stops a search. Returns `true` if there was one.
    pub(super) fn stop_search(&mut self) -> bool {
        self.search.take().is_some()
    }
}

impl App {
    /// Moves the cursor by `by` frames.
    pub(super) fn step_packets(&mut self, by: isize) {
        match &self.packets.held {
            // While frames are loading, the nearest loaded frame may not be the final position of the cursor.
            Some(held) if by == 0 && !held.is_complete_to(self.packets.at) => {}
            Some(held) => {
                let place = held.place(self.packets.at).saturating_add_signed(by);
                let place = place.min(held.len().saturating_sub(1));
                if let Some(line) = held.get(place) {
                    self.packets.at = line.number.0;
                }
            }
            None => {
                let last = self.all.progress.frames.max(1);
                let at = i64::try_from(self.packets.at).unwrap_or(i64::MAX);
                let at = at.saturating_add(by as i64).max(1).unsigned_abs();
                self.packets.at = at.min(last);
            }
        }
    }

    /// Moves the cursor to the clicked line, counted from the top.
    pub(super) fn click_packet(&mut self, line: u64) {
        let at = self.packets.top + line;
        match &self.packets.held {
            Some(held) => {
                if let Some(line) = usize::try_from(at).ok().and_then(|at| held.get(at)) {
                    self.packets.at = line.number.0;
                }
            }
            None if at <= self.all.progress.frames => self.packets.at = at,
            None => {}
        }
    }

    /// Moves the cursor to a frame and scrolls to it.
    pub(super) fn go_to_frame(&mut self, frame: u64) {
        self.packets.at = frame;
        self.packets.top = match &self.packets.held {
            Some(held) => held.place(frame).saturating_sub(2) as u64,
            None => frame.saturating_sub(2).max(1),
        };
    }

    fn form(&self, width: Option<usize>) -> FrameLineFormat {
        let mut screen = self.theme.screen(self.options.glyphs);
        screen.width = width;
        // Invisible lines, which are only searched, have no styles.
        if width.is_none() {
            screen.styles = Styles::plain();
        }
        FrameLineFormat {
            screen,
            time: self.options.time,
            start: self.all.tables.times.map(|(start, _)| start),
            left: if width.is_some() { self.packets.left } else { 0 },
            filehandles: self.options.filehandles,
            limits: self.options.limits.clone(),
            memory: self.options.memory.clone(),
        }
    }

    /// Sorts the packet list. In capture order it is read in pages, otherwise loaded up to a limit.
    pub(super) fn sort_packets(&mut self, sort: FrameSort) {
        self.packets.sort = sort;
        if let Some(held) = &mut self.packets.held {
            held.sort(sort);
        }
        let (at, width) = (self.packets.at, usize::from(self.areas.list.width));
        if width > 0 {
            self.hold_packets(width);
        }
        self.go_to_frame(at);
    }

    /// Updates the loaded frames if the filter, the order or the width has changed.
    pub(super) fn hold_packets(&mut self, width: usize) {
        let filter = self.chosen.as_ref().and_then(|side| side.filter.clone());
        if filter.is_none() && self.packets.sort.is_of_capture() {
            if self.packets.held.take().is_some() {
                self.go_to_frame(self.packets.at);
            }
            return;
        }
        let (filter, text) = filter.unzip();
        let made_for =
            FrameLineSettings { filter: text, width, left: self.packets.left, time: self.options.time };
        if self.packets.held.as_ref().is_none_or(|held| held.made_for != made_for) {
            let scan = self.scan(FrameScanQuery::Selected(filter), Some(width));
            self.packets.held = Some(FrameLineList::new(made_for, self.packets.sort, scan));
            self.packets.top = 0;
        }
    }

    /// Scrolls the list horizontally.
    pub(super) fn scroll_packets(&mut self, is_right: bool) {
        let left = self.packets.left;
        self.packets.left = match is_right {
            true => (left + SCROLLED).min(MOST_SCROLLED),
            false => left.saturating_sub(SCROLLED),
        };
    }

    fn scan(&self, wanted: FrameScanQuery, width: Option<usize>) -> FrameScan {
        FrameScan::start(self.capture.clone(), wanted, self.form(width))
    }

    /// Searches for the next frame whose line contains a text: among the loaded frames, or through the capture.
    pub(super) fn search_packets(&mut self, text: &str, is_forward: bool) {
        let at = self.packets.at;
        if let Some(held) = &self.packets.held {
            let has = |line: &&FrameLine| crate::tui::search::contains(&plain(&line.text), text);
            let place = held.place(at);
            let found = match is_forward {
                true => {
                    let near = held.from(place + 1).find(has).map(|line| (line.number, false));
                    near.or_else(|| held.from(0).find(has).map(|line| (line.number, true)))
                }
                false => {
                    let back = |to| (0..to).rev().filter_map(|place| held.get(place)).find(|line| has(line));
                    let near = back(place).map(|line| (line.number, false));
                    near.or_else(|| back(held.len()).map(|line| (line.number, true)))
                }
            };
            return self.found_packet(found, text, is_forward);
        }
        let wanted = FrameScanQuery::Text { small: text.to_owned(), from: FrameNumber(at), is_forward };
        // The lines of this scan are not truncated, so their whole text is searched.
        self.packets.search = Some((self.scan(wanted, None), text.to_owned()));
        self.is_searching_forward = is_forward;
        self.tell("searching the frames; Esc stops");
    }

    fn found_packet(&mut self, found: Option<(FrameNumber, bool)>, text: &str, is_forward: bool) {
        self.message = None;
        match found {
            Some((frame, has_wrapped)) => {
                self.go_to_frame(frame.0);
                if has_wrapped {
                    self.tell(format!("going on from the {}", if is_forward { "first" } else { "last" }));
                }
            }
            None => self.complain(format!("no frame has {text:?}")),
        }
    }

    /// Processes the results of scans. Returns `true` if there were any.
    pub(super) fn tick_packets(&mut self) -> bool {
        let room = self.shares.lines_bytes;
        let at = self.packets.at;
        let is_complete = |held: &FrameLineList| held.is_complete_to(at);
        let was_complete = self.packets.held.as_ref().is_none_or(is_complete);
        let mut is_new = self.packets.held.as_mut().is_some_and(|held| held.take(room));
        if !was_complete && self.packets.held.as_ref().is_some_and(is_complete) {
            // Move the cursor to the nearest selected frame.
            self.step_packets(0);
        }
        if let Some((scan, text)) = &self.packets.search {
            let (found, is_over) = scan.take();
            let text = text.clone();
            let outcome = found.into_iter().find_map(|found| match found {
                FrameScanResult::Text(outcome) => Some(outcome),
                FrameScanResult::Header(_) | FrameScanResult::Line(..) => None,
            });
            if outcome.is_some() || is_over {
                is_new = true;
                self.packets.search = None;
                self.found_packet(outcome.flatten(), &text, self.is_searching_forward);
            }
        }
        is_new
    }

    /// Returns the line of the cursor without styles, if it is loaded.
    pub(super) fn packet_text(&self) -> Option<String> {
        let at = self.packets.at;
        let line = match &self.packets.held {
            Some(held) => &held.get(held.place(at)).filter(|line| line.number.0 == at)?.text,
            None => {
                let stretch = &self.packets.stretch;
                stretch.lines.get(usize::try_from(at.checked_sub(stretch.first.0)?).ok()?)?
            }
        };
        Some(plain(line).trim().to_owned())
    }
}
