//! The packet list: where one stands in it, what a filter selects of it, and a search through it.

use nfsrdma_dissectors::frame::FrameNumber;

use crate::output::style::Styles;
use crate::output::units::TimeFormat;
use crate::tui::again::Stretch;
use crate::tui::frame_scan::{Form, Found, FrameScan, Wanted};
use crate::tui::views::styled::plain;

use super::App;

/// The packet list.
#[derive(Debug, Default)]
pub(in crate::tui) struct Packets {
    /// The Transaction that was chosen when the list was last gone to.
    pub(super) of: Option<u64>,
    /// The frame of the cursor; 0 before one was chosen.
    pub(in crate::tui) at: u64,
    /// The line at the top: of all frames the number of the frame, of those that a filter selects the line counted from 0.
    pub(in crate::tui) top: u64,
    pub(in crate::tui) stretch: Stretch,
    pub(super) asked: Option<(FrameNumber, usize, std::time::Instant)>,
    /// The frames that the filter selects, where there is one.
    pub(in crate::tui) selected: Option<SelectedFrames>,
    search: Option<(FrameScan, String)>,
}

/// The frames that a filter selects, with their lines.
#[derive(Debug)]
pub(in crate::tui) struct SelectedFrames {
    filter: String,
    width: usize,
    time: TimeFormat,
    pub(in crate::tui) header: String,
    pub(in crate::tui) lines: Vec<(FrameNumber, String)>,
    /// Bytes that the lines take.
    bytes: usize,
    scan: Option<FrameScan>,
    /// Whether there was no room for more.
    pub(in crate::tui) is_cut: bool,
}

impl SelectedFrames {
    /// Whether frames are still being looked for.
    pub(in crate::tui) fn is_looking(&self) -> bool {
        self.scan.is_some()
    }

    /// The line of a frame, or where it would be.
    pub(in crate::tui) fn position(&self, frame: u64) -> usize {
        let at = self.lines.partition_point(|(number, _)| number.0 < frame);
        at.min(self.lines.len().saturating_sub(1))
    }

    /// Takes lines that were found, in as many bytes as there is room for; whether there were any.
    fn take(&mut self, room: usize) -> bool {
        let Some(scan) = &self.scan else { return false };
        let (found, is_over) = scan.take();
        let is_new = !found.is_empty() || is_over;
        for found in found {
            match found {
                Found::Header(header) => self.header = header,
                Found::Line(number, line) => {
                    self.bytes += line.len() + size_of::<(FrameNumber, String)>();
                    self.lines.push((number, line));
                }
                Found::Text(_) => {}
            }
        }
        self.is_cut = self.bytes > room;
        if is_over || self.is_cut {
            self.scan = None;
        }
        is_new
    }
}

impl Packets {
    /// Whether frames are being looked for.
    pub(super) fn is_looking(&self) -> bool {
        self.search.is_some() || self.selected.as_ref().is_some_and(SelectedFrames::is_looking)
    }

    /// Ends a search; whether there was one.
    pub(super) fn stop_search(&mut self) -> bool {
        self.search.take().is_some()
    }
}

impl App {
    /// Moves the cursor by some frames.
    pub(super) fn step_packets(&mut self, by: isize) {
        match &self.packets.selected {
            Some(selected) => {
                let at = selected.position(self.packets.at).saturating_add_signed(by);
                let at = at.min(selected.lines.len().saturating_sub(1));
                if let Some((number, _)) = selected.lines.get(at) {
                    self.packets.at = number.0;
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

    /// Puts the cursor on the line that was clicked, so many below the top.
    pub(super) fn click_packet(&mut self, line: u64) {
        let at = self.packets.top + line;
        match &self.packets.selected {
            Some(selected) => {
                if let Some((number, _)) = usize::try_from(at).ok().and_then(|at| selected.lines.get(at)) {
                    self.packets.at = number.0;
                }
            }
            None if at <= self.all.progress.frames => self.packets.at = at,
            None => {}
        }
    }

    /// Shows a frame, with some before it.
    pub(super) fn go_to_frame(&mut self, frame: u64) {
        self.packets.at = frame;
        self.packets.top = match &self.packets.selected {
            Some(selected) => selected.position(frame).saturating_sub(2) as u64,
            None => frame.saturating_sub(2).max(1),
        };
    }

    fn form(&self, width: Option<usize>) -> Form {
        let mut screen = self.theme.screen(self.options.glyphs);
        screen.width = width;
        // What nobody sees, but searches, has no styles.
        if width.is_none() {
            screen.styles = Styles::plain();
        }
        Form {
            screen,
            time: self.options.time,
            start: self.all.tables.times.map(|(start, _)| start),
            filehandles: self.options.filehandles,
            limits: self.options.limits.clone(),
        }
    }

    /// Keeps the selected frames those of the filter, on a screen that is so wide.
    pub(super) fn select_packets(&mut self, width: usize) {
        let filter = self.chosen.as_ref().and_then(|side| side.filter.clone());
        let Some((filter, text)) = filter else {
            if self.packets.selected.take().is_some() {
                self.go_to_frame(self.packets.at);
            }
            return;
        };
        let time = self.options.time;
        let is_same = |selected: &SelectedFrames| {
            selected.filter == text && selected.width == width && selected.time == time
        };
        if !self.packets.selected.as_ref().is_some_and(is_same) {
            let scan = self.scan(Wanted::Selected(filter), Some(width));
            self.packets.selected = Some(SelectedFrames {
                filter: text,
                width,
                time,
                header: String::new(),
                lines: Vec::new(),
                bytes: 0,
                scan: Some(scan),
                is_cut: false,
            });
            self.packets.top = 0;
        }
    }

    fn scan(&self, wanted: Wanted, width: Option<usize>) -> FrameScan {
        FrameScan::start(self.capture.clone(), wanted, self.form(width))
    }

    /// Looks for the next frame whose line has a text: among the selected ones, or through the capture.
    pub(super) fn search_packets(&mut self, text: &str, is_forward: bool) {
        let at = self.packets.at;
        if let Some(selected) = &self.packets.selected {
            let has = |(_, line): &&(FrameNumber, String)| crate::tui::search::contains(&plain(line), text);
            let lines = &selected.lines;
            let near = match is_forward {
                true => lines.iter().find(|line| line.0.0 > at && has(line)).map(|line| (line.0, false)),
                false => {
                    lines.iter().rev().find(|line| line.0.0 < at && has(line)).map(|line| (line.0, false))
                }
            };
            let far = || match is_forward {
                true => lines.iter().find(has).map(|line| (line.0, true)),
                false => lines.iter().rev().find(has).map(|line| (line.0, true)),
            };
            let found = near.or_else(far);
            return self.found_packet(found, text, is_forward);
        }
        let wanted = Wanted::Text { small: text.to_owned(), from: FrameNumber(at), is_forward };
        // Of lines that nothing cuts everything is searched.
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

    /// Takes up what scans have found; whether anything is new.
    pub(super) fn tick_packets(&mut self) -> bool {
        let room = self.options.memory / 4;
        let was_empty = self.packets.selected.as_ref().is_some_and(|selected| selected.lines.is_empty());
        let mut is_new = self.packets.selected.as_mut().is_some_and(|selected| selected.take(room));
        if is_new && was_empty {
            // The cursor goes to the selected frame that is nearest.
            self.step_packets(0);
        }
        if let Some((scan, text)) = &self.packets.search {
            let (found, is_over) = scan.take();
            let text = text.clone();
            let outcome = found.into_iter().find_map(|found| match found {
                Found::Text(outcome) => Some(outcome),
                Found::Header(_) | Found::Line(..) => None,
            });
            if outcome.is_some() || is_over {
                is_new = true;
                self.packets.search = None;
                self.found_packet(outcome.flatten(), &text, self.is_searching_forward);
            }
        }
        is_new
    }

    /// The line of the cursor, without styles, where it is known.
    pub(super) fn packet_text(&self) -> Option<String> {
        let at = self.packets.at;
        let line = match &self.packets.selected {
            Some(selected) => &selected.lines.iter().find(|(number, _)| number.0 == at)?.1,
            None => {
                let stretch = &self.packets.stretch;
                stretch.lines.get(usize::try_from(at.checked_sub(stretch.first.0)?).ok()?)?
            }
        };
        Some(plain(line).trim().to_owned())
    }
}
