//! Scans of all frames on a thread of their own: for frames that a filter selects, or for one that contains a text.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use nfsrdma_analysis::filter::{Filter, FilterRunner};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_analysis::names::{FileNames, FilehandleDisplay};
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_flow::{Flow, FlowLimits};

use super::rereadable_capture::SharedCapture;
use super::search;
use crate::output::frames::{FrameColumnSortKeys, FrameListWriter};
use crate::output::settings::TimeFormat;
use crate::output::style::TerminalProfile;

/// Time that a scan of a capture received once waits for more frames.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of pending lines; at this limit the scan waits.
const MAX_PENDING_LINES: usize = 16_384;

/// The frames to look for.
#[derive(Clone, Debug)]
pub(super) enum FrameScanQuery {
    /// All frames that a filter selects; without one, every frame.
    Selected(Option<Filter>),
    /// The nearest frame after `from`, in the given direction, whose line contains the lowercase text `small`.
    Text { lowercase_text: String, from: FrameNumber, is_forward: bool },
}

/// Format of the lines.
#[derive(Clone, Debug)]
pub(super) struct TuiFrameLineFormat {
    pub(super) screen: TerminalProfile,
    pub(super) time: TimeFormat,
    /// Number of columns scrolled past.
    pub(super) scroll_columns: usize,
    /// Start of relative times.
    pub(super) start: Option<Timestamp>,
    pub(super) filehandles: FilehandleDisplay,
    pub(super) limits: FlowLimits,
    pub(super) memory: CommandMemoryBudget,
}

/// A frame with its line and the values of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameLine {
    pub(super) number: FrameNumber,
    pub(super) text: String,
    pub(super) cells: FrameColumnSortKeys,
}

/// A result of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TuiFrameScanResult {
    /// The header line with the column names.
    Header(String),
    /// A selected frame.
    Line(FrameLine),
    /// The frame with the text, and `true` if the scan wrapped around; `None` if no frame contains the text.
    Text(Option<(FrameNumber, bool)>),
}

/// A running scan. Dropping it stops the scan.
#[derive(Debug)]
pub(super) struct FrameScan {
    is_stopped: Arc<AtomicBool>,
    results: Receiver<TuiFrameScanResult>,
}

impl Drop for FrameScan {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

impl FrameScan {
    /// Starts a scan.
    pub(super) fn start(capture: SharedCapture, query: FrameScanQuery, format: TuiFrameLineFormat) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = sync_channel(MAX_PENDING_LINES);
        let stopped = Arc::clone(&is_stopped);
        thread::spawn(move || FrameSearchWorker { capture, format, is_stopped: stopped, results: sender }.run(query));
        Self { is_stopped, results: receiver }
    }

    /// Returns the results since the last call, and `true` if the scan is over.
    pub(super) fn take(&self) -> (Vec<TuiFrameScanResult>, bool) {
        use std::sync::mpsc::TryRecvError;
        let mut results = Vec::new();
        loop {
            match self.results.try_recv() {
                Ok(result) if results.len() < MAX_PENDING_LINES => results.push(result),
                Ok(result) => {
                    results.push(result);
                    return (results, false);
                }
                Err(error) => return (results, error == TryRecvError::Disconnected),
            }
        }
    }
}

struct FrameSearchWorker {
    capture: SharedCapture,
    format: TuiFrameLineFormat,
    is_stopped: Arc<AtomicBool>,
    results: SyncSender<TuiFrameScanResult>,
}

/// Frames that contain the text.
#[derive(Debug, Default)]
struct TextMatchFrames {
    first: Option<FrameNumber>,
    last: Option<FrameNumber>,
    last_before: Option<FrameNumber>,
}

impl TextMatchFrames {
    /// Returns the nearest match in the given direction, and `true` if it requires wrapping around.
    fn nearest(&self, is_forward: bool) -> Option<(FrameNumber, bool)> {
        match is_forward {
            // A match behind `from` would have ended the search.
            true => self.first.map(|frame| (frame, true)),
            false => self.last_before.map(|frame| (frame, false)).or(self.last.map(|frame| (frame, true))),
        }
    }
}

impl FrameSearchWorker {
    fn run(self, query: FrameScanQuery) {
        let TuiFrameLineFormat { screen, time, scroll_columns: left, start, filehandles, limits, memory } =
            self.format.clone();
        let Ok(mut frames) = self.capture.reread(None) else { return };
        let mut flow = Flow::new(FlowLimits { keep_file_data: false, record_transaction_frames: false, ..limits });
        let mut list = FrameListWriter::new(screen, time).with_scroll(left);
        let mut names = FileNames::new(filehandles, memory.names_bytes());
        let (mut selection, search) = match query {
            FrameScanQuery::Selected(filter) => {
                (filter.map(|filter| FilterRunner::with_filehandles(filter, filehandles, &memory)), None)
            }
            FrameScanQuery::Text { lowercase_text: small, from, is_forward } => (None, Some((small, from, is_forward))),
        };
        let mut matches = TextMatchFrames::default();
        let mut has_header = false;
        loop {
            if self.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            let Some(frame) = frames.next() else {
                // A search ends at the last available frame; a selection continues with new frames.
                if search.is_some() || !self.capture.is_received_once() || self.capture.first_pass_progress().is_over {
                    break;
                }
                thread::sleep(POLL_INTERVAL);
                continue;
            };
            list.start(start.unwrap_or(frame.time));
            let (datagram, kind, is_selected) = match &mut selection {
                Some(selection) => selection.frame(&frame, &mut flow),
                None => {
                    let (datagram, kind) = flow.process_frame_observed(&frame, &mut NullFieldObserver);
                    (datagram, kind, true)
                }
            };
            names.infer_from_frame(&flow);
            let mut bytes = Vec::new();
            let is_written = is_selected && list.frame(&mut bytes, &frame, &datagram, kind, &flow, &mut names).is_ok();
            let number = frame.number;
            while flow.next_transaction().is_some() {}
            if !is_written {
                continue;
            }
            let text = String::from_utf8_lossy(&bytes);
            for line in text.lines() {
                // The column names come with the first line.
                if !std::mem::replace(&mut has_header, true) {
                    if search.is_none() && self.results.send(TuiFrameScanResult::Header(line.to_owned())).is_err() {
                        return;
                    }
                    continue;
                }
                match &search {
                    None => {
                        let line = FrameLine { number, text: line.to_owned(), cells: list.last_cells() };
                        if self.results.send(TuiFrameScanResult::Line(line)).is_err() {
                            return;
                        }
                    }
                    Some((small, from, is_forward)) => {
                        if search::contains_ignore_case(line, small) {
                            if *is_forward && number > *from {
                                let _ = self.results.send(TuiFrameScanResult::Text(Some((number, false))));
                                return;
                            }
                            matches.first.get_or_insert(number);
                            matches.last = Some(number);
                            if number < *from {
                                matches.last_before = Some(number);
                            }
                        }
                        if !is_forward && number >= *from && matches.last_before.is_some() {
                            let _ = self.results.send(TuiFrameScanResult::Text(matches.nearest(false)));
                            return;
                        }
                    }
                }
            }
        }
        if let Some((_, _, is_forward)) = search {
            // The receiver may be gone.
            let _ = self.results.send(TuiFrameScanResult::Text(matches.nearest(is_forward)));
        }
    }
}
