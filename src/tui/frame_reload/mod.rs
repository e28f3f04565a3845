//! The thread that reads frames again: for the chosen item, evicted pages, and frames to save.
//!
//! Details come first, then the packet list, pages (latest first) and saves. Obsolete requests are dropped, and a long
//! read regularly checks for new ones.

mod evicted_row_pages;
mod packet_list_page;
mod rdma_acknowledgements;
mod transaction;
mod waterfall;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use nfsrdma_capture_file::CaptureResumePoint;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::flow::FlowLimits;
use nfsrdma_dissectors::flow::transaction::{CallDirection, Transaction};
use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::FxHashMap;

use crate::output::style::TerminalProfile;
use crate::output::transaction_list::wire_bytes;
use crate::output::tree::{TreeLine, TreeLineByteSource};
use crate::output::units::TimeFormat;
use nfsrdma_analysis::filter::Filter;

use super::model::{RowPage, TransactionListRow, transaction_list_row};
use super::read_pass::{ReadPassSettings, SharedInferredFileNames};
use super::rereadable_capture::SharedCapture;
use super::save::{self, SaveRequest};

pub use waterfall::{TransactionWaterfall, WaterfallAck, WaterfallBar, WaterfallBarKind};

/// Number of frames between two checks for requests.
const STALE_CHECK_FRAMES: u64 = 1024;

/// Key of a Transaction to read again, taken from its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionReloadKey {
    /// Transaction number.
    pub index: u64,
    /// Connection number.
    pub connection: u64,
    /// Transaction ID.
    pub xid: Xid,
    /// First frame.
    pub first: FrameNumber,
    /// Last frame.
    pub last: FrameNumber,
    /// Time from Call to Reply, in nanoseconds.
    pub latency_ns: Option<u64>,
    /// Number of bytes in its messages and chunks.
    pub bytes: u64,
    /// `true` if the server sent the Call.
    pub is_reverse: bool,
}

impl TransactionReloadKey {
    /// Returns `true` if `transaction` is this one. Its numbers are not compared, because they may differ.
    pub(super) fn matches(&self, transaction: &Transaction) -> bool {
        transaction.xid == self.xid
            && transaction_list_row::frames(transaction) == (self.first, self.last)
            && transaction.latency_ns() == self.latency_ns
            && wire_bytes(transaction) == self.bytes
            && (transaction.direction == CallDirection::Reverse) == self.is_reverse
    }
}

impl From<&TransactionListRow> for TransactionReloadKey {
    fn from(row: &TransactionListRow) -> Self {
        let TransactionListRow {
            index,
            connection,
            xid,
            first,
            last,
            latency_ns: latency,
            bytes,
            is_reverse,
            ..
        } = *row;
        Self { index, connection, xid, first, last, latency_ns: latency, bytes, is_reverse }
    }
}

/// The subject of tree and hex pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailSubject {
    /// A Transaction.
    Transaction(TransactionReloadKey),
    /// A frame with the messages that it completes.
    Frame(FrameNumber),
}

/// The details of a subject.
#[derive(Debug)]
pub struct DetailPaneContent {
    /// The subject.
    pub subject: DetailSubject,
    /// Lines of the tree.
    pub lines: Vec<TreeLine>,
    /// The bytes that the lines were decoded from.
    pub bytes: FxHashMap<TreeLineByteSource, Vec<u8>>,
    /// Timeline of a Transaction.
    pub waterfall: TransactionWaterfall,
    /// Frames of the subject.
    pub frames: Vec<FrameNumber>,
    /// Reason why there are no details.
    pub problem: Option<String>,
}

impl DetailPaneContent {
    fn missing(subject: DetailSubject, problem: &str) -> Self {
        Self {
            subject,
            lines: Vec::new(),
            bytes: FxHashMap::default(),
            waterfall: TransactionWaterfall::default(),
            frames: Vec::new(),
            problem: Some(problem.to_owned()),
        }
    }
}

/// A part of the packet list.
#[derive(Clone, Debug, Default)]
pub struct RenderedPacketListPage {
    /// First requested frame. The frames from it to `first` are gone.
    pub wanted: FrameNumber,
    /// First frame of the part.
    pub first: FrameNumber,
    /// One line per frame, with escape sequences for styles.
    pub lines: Vec<String>,
    /// Header line.
    pub header: String,
    /// Width of the lines in columns.
    pub width: usize,
    /// Number of columns scrolled past.
    pub left: usize,
}

/// A request to the reload thread.
#[derive(Debug)]
pub(super) enum FrameReloadRequest {
    Detail(DetailSubject),
    /// The packet list of `count` frames from `first` on.
    Frames {
        first: FrameNumber,
        count: usize,
        screen: TerminalProfile,
        left: usize,
        time: TimeFormat,
        start: Option<Timestamp>,
    },
    /// A page of the rows that a filter selects.
    Page {
        number: usize,
        filter: Option<(Filter, String)>,
    },
    Save(SaveRequest),
    /// More resume points.
    ResumePoints(Vec<CaptureResumePoint>),
}

/// A response of the reload thread.
#[derive(Debug)]
pub(super) enum ReloadResponse {
    Detail(Box<DetailPaneContent>),
    Frames(RenderedPacketListPage),
    Page {
        number: usize,
        filter: Option<String>,
        page: RowPage,
    },
    /// The message about a saved file, or the error.
    Saved(Result<String, String>),
}

/// The client end of the reload thread.
#[derive(Debug)]
pub(super) struct FrameReloadClient {
    requests: Sender<FrameReloadRequest>,
    responses: Receiver<ReloadResponse>,
}

impl FrameReloadClient {
    /// Starts the thread.
    pub(super) fn start(
        capture: SharedCapture,
        settings: ReadPassSettings,
        names: SharedInferredFileNames,
        screen: TerminalProfile,
    ) -> Self {
        let (request_sender, request_receiver) = channel();
        let (response_sender, response_receiver) = channel();
        thread::spawn(move || {
            let limits = FlowLimits {
                keep_file_data: true,
                record_transaction_frames: true,
                ..settings.limits.clone()
            };
            let mut worker = FrameReloadWorker {
                capture,
                manner: settings,
                limits,
                names,
                screen,
                resume_points: Vec::new(),
                requests: request_receiver,
                responses: response_sender,
                pending: UnansweredFrameReloadRequests::default(),
            };
            while worker.serve_next() {}
        });
        Self { requests: request_sender, responses: response_receiver }
    }

    pub(super) fn request(&self, request: FrameReloadRequest) {
        // The thread ends when the client is dropped.
        let _ = self.requests.send(request);
    }

    pub(super) fn try_response(&self) -> Option<ReloadResponse> {
        self.responses.try_recv().ok()
    }
}

/// Requests that are not answered yet.
#[derive(Debug, Default)]
struct UnansweredFrameReloadRequests {
    detail: Option<DetailSubject>,
    frames: Option<FrameReloadRequest>,
    pages: Vec<FrameReloadRequest>,
    saves: VecDeque<SaveRequest>,
}

impl UnansweredFrameReloadRequests {
    fn is_empty(&self) -> bool {
        self.detail.is_none() && self.frames.is_none() && self.pages.is_empty() && self.saves.is_empty()
    }
}

/// The worker on the reload thread.
struct FrameReloadWorker {
    capture: SharedCapture,
    manner: ReadPassSettings,
    limits: FlowLimits,
    names: SharedInferredFileNames,
    screen: TerminalProfile,
    resume_points: Vec<CaptureResumePoint>,
    requests: Receiver<FrameReloadRequest>,
    responses: Sender<ReloadResponse>,
    pending: UnansweredFrameReloadRequests,
}

impl FrameReloadWorker {
    /// Answers one request. Returns `false` when the client is gone.
    fn serve_next(&mut self) -> bool {
        if self.pending.is_empty() {
            match self.requests.recv() {
                Ok(request) => self.enqueue(request),
                Err(_) => return false,
            }
        }
        if !self.receive_requests() {
            return false;
        }
        let response = if let Some(subject) = self.pending.detail.take() {
            self.detail(subject).map(|detail| ReloadResponse::Detail(Box::new(detail)))
        } else if let Some(request) = self.pending.frames.take() {
            self.frames(request).map(ReloadResponse::Frames)
        } else if let Some(request) = self.pending.pages.pop() {
            self.page(request)
        } else {
            self.pending
                .saves
                .pop_front()
                .map(|request| ReloadResponse::Saved(save::save(&self.capture, &self.manner, &request)))
        };
        response.is_none_or(|response| self.responses.send(response).is_ok())
    }

    /// Receives pending requests. Returns `false` when the client is gone.
    fn receive_requests(&mut self) -> bool {
        loop {
            match self.requests.try_recv() {
                Ok(request) => self.enqueue(request),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn enqueue(&mut self, request: FrameReloadRequest) {
        match request {
            FrameReloadRequest::Detail(subject) => self.pending.detail = Some(subject),
            request @ FrameReloadRequest::Frames { .. } => self.pending.frames = Some(request),
            request @ FrameReloadRequest::Page { .. } => {
                self.pending.pages.push(request);
                // Drop old requests, whose pages are no longer visible.
                if self.pending.pages.len() > 4 {
                    self.pending.pages.remove(0);
                }
            }
            FrameReloadRequest::Save(request) => self.pending.saves.push_back(request),
            FrameReloadRequest::ResumePoints(resume_points) => self.resume_points.extend(resume_points),
        }
    }

    /// Returns `true` if another request has priority, or if the client is gone.
    fn is_superseded(&mut self) -> bool {
        !self.receive_requests() || self.pending.detail.is_some()
    }

    /// Returns the last resume point that is at least `margin` frames before `frame`.
    fn resume_point_before(&self, frame: FrameNumber, margin: u64) -> Option<CaptureResumePoint> {
        let at = self.resume_points.partition_point(|point| point.frame.0.saturating_add(margin) <= frame.0);
        at.checked_sub(1).and_then(|at| self.resume_points.get(at)).copied()
    }
}
