//! The thread that reads frames again: for what is chosen, what was forgotten, and what is saved.
//!
//! What was asked for last comes first; what was asked for before it and is not needed any more is left out. A reading that
//! takes long looks from time to time whether it is still wanted.

mod acknowledgements;
mod list;
mod pages;
mod transaction;
mod waterfall;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use nfsrdma_dissectors::flow::FlowLimits;
use nfsrdma_dissectors::flow::transaction::{CallDirection, Transaction};
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::FxHashMap;

use crate::filter::Filter;
use crate::output::style::TerminalStyle;
use crate::output::transaction_list::wire_bytes;
use crate::output::tree::{ByteRangeOrigin, TreeLine};
use crate::output::units::TimeFormat;
use crate::source::ResumePoint;

use super::capture::CaptureHandle;
use super::model::{RowPage, TransactionListRow, row};
use super::read_pass::{PassSettings, SharedNames};
use super::save::{self, SaveRequest};

pub use waterfall::{Waterfall, WaterfallAck, WaterfallBar, WaterfallBarKind};

/// Frames between two looks at what is asked.
const FRAMES: u64 = 1024;

/// A Transaction that is to be read again, by what its row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionReloadKey {
    /// Number of the Transaction.
    pub index: u64,
    /// Number of its connection.
    pub connection: u64,
    /// Its transaction id.
    pub xid: Xid,
    /// The first of its frames.
    pub first: FrameNumber,
    /// The last of its frames.
    pub last: FrameNumber,
    /// From Call to Reply.
    pub latency: Option<u64>,
    /// Bytes of its messages and of what moved through its chunks.
    pub bytes: u64,
    /// Whether the server called.
    pub is_reverse: bool,
}

impl TransactionReloadKey {
    /// Whether a Transaction that was read again is this one, whatever number it has now.
    pub(super) fn is(&self, transaction: &Transaction) -> bool {
        transaction.xid == self.xid
            && row::frames(transaction) == (self.first, self.last)
            && transaction.latency_ns() == self.latency
            && wire_bytes(transaction) == self.bytes
            && (transaction.direction == CallDirection::Reverse) == self.is_reverse
    }
}

impl From<&TransactionListRow> for TransactionReloadKey {
    fn from(row: &TransactionListRow) -> Self {
        let TransactionListRow { index, connection, xid, first, last, latency, bytes, is_reverse, .. } = *row;
        Self { index, connection, xid, first, last, latency, bytes, is_reverse }
    }
}

/// What tree and hex pane show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailSubject {
    /// A Transaction.
    Transaction(TransactionReloadKey),
    /// A frame with the messages that it completes.
    Frame(FrameNumber),
}

/// A subject with all that is known of it.
#[derive(Debug)]
pub struct SubjectDetail {
    /// Of what.
    pub subject: DetailSubject,
    /// Its tree.
    pub lines: Vec<TreeLine>,
    /// The bytes that the lines were read from.
    pub bytes: FxHashMap<ByteRangeOrigin, Vec<u8>>,
    /// What happened when; of a Transaction.
    pub waterfall: Waterfall,
    /// Every frame that has a part in it.
    pub frames: Vec<FrameNumber>,
    /// Why there is nothing.
    pub problem: Option<String>,
}

impl SubjectDetail {
    fn missing(subject: DetailSubject, problem: &str) -> Self {
        Self {
            subject,
            lines: Vec::new(),
            bytes: FxHashMap::default(),
            waterfall: Waterfall::default(),
            frames: Vec::new(),
            problem: Some(problem.to_owned()),
        }
    }
}

/// A stretch of the packet list.
#[derive(Clone, Debug, Default)]
pub struct FrameListSlice {
    /// The frame from which on it was asked for; those between this and the first are gone.
    pub wanted: FrameNumber,
    /// The first frame of it.
    pub first: FrameNumber,
    /// A line for each frame, with escapes for styles.
    pub lines: Vec<String>,
    /// The line above them.
    pub header: String,
    /// Columns that the lines are made for.
    pub width: usize,
    /// Columns that are scrolled past.
    pub left: usize,
}

/// What can be asked.
#[derive(Debug)]
pub(super) enum ReloadRequest {
    Detail(DetailSubject),
    /// Frames from this one on, for so many columns.
    Frames {
        first: FrameNumber,
        count: usize,
        screen: TerminalStyle,
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
    /// More places from which frames can be read.
    Places(Vec<ResumePoint>),
}

/// What is answered.
#[derive(Debug)]
pub(super) enum ReloadResponse {
    Detail(Box<SubjectDetail>),
    Frames(FrameListSlice),
    Page {
        number: usize,
        filter: Option<String>,
        page: RowPage,
    },
    /// What is said of a file that was saved, or why it was not.
    Saved(Result<String, String>),
}

/// The side of who asks.
#[derive(Debug)]
pub(super) struct ReloadClient {
    questions: Sender<ReloadRequest>,
    answers: Receiver<ReloadResponse>,
}

impl ReloadClient {
    /// Starts the thread.
    pub(super) fn start(
        capture: CaptureHandle,
        manner: PassSettings,
        names: SharedNames,
        screen: TerminalStyle,
    ) -> Self {
        let (questions, asked) = channel();
        let (answers, received) = channel();
        thread::spawn(move || {
            let limits =
                FlowLimits { keep_file_data: true, record_frame_events: true, ..manner.limits.clone() };
            let mut desk = ReloadWorker {
                capture,
                manner,
                limits,
                names,
                screen,
                places: Vec::new(),
                asked,
                answers,
                waiting: PendingReloads::default(),
            };
            while desk.serve() {}
        });
        Self { questions, answers: received }
    }

    pub(super) fn ask(&self, question: ReloadRequest) {
        // The thread ends when nobody can ask any more.
        let _ = self.questions.send(question);
    }

    pub(super) fn answer(&self) -> Option<ReloadResponse> {
        self.answers.try_recv().ok()
    }
}

/// What was asked and is not answered yet.
#[derive(Debug, Default)]
struct PendingReloads {
    detail: Option<DetailSubject>,
    frames: Option<ReloadRequest>,
    pages: Vec<ReloadRequest>,
    saves: VecDeque<SaveRequest>,
}

impl PendingReloads {
    fn is_empty(&self) -> bool {
        self.detail.is_none() && self.frames.is_none() && self.pages.is_empty() && self.saves.is_empty()
    }
}

/// The side of who answers.
struct ReloadWorker {
    capture: CaptureHandle,
    manner: PassSettings,
    limits: FlowLimits,
    names: SharedNames,
    screen: TerminalStyle,
    places: Vec<ResumePoint>,
    asked: Receiver<ReloadRequest>,
    answers: Sender<ReloadResponse>,
    waiting: PendingReloads,
}

impl ReloadWorker {
    /// Answers one question; `false` when nobody asks any more.
    fn serve(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.asked.recv() {
                Ok(question) => self.note(question),
                Err(_) => return false,
            }
        }
        if !self.listen() {
            return false;
        }
        let answer = if let Some(subject) = self.waiting.detail.take() {
            self.detail(subject).map(|detail| ReloadResponse::Detail(Box::new(detail)))
        } else if let Some(question) = self.waiting.frames.take() {
            self.frames(question).map(ReloadResponse::Frames)
        } else if let Some(question) = self.waiting.pages.pop() {
            self.page(question)
        } else {
            self.waiting
                .saves
                .pop_front()
                .map(|request| ReloadResponse::Saved(save::save(&self.capture, &self.manner, &request)))
        };
        answer.is_none_or(|answer| self.answers.send(answer).is_ok())
    }

    /// Hears what is asked meanwhile; `false` when nobody asks any more.
    fn listen(&mut self) -> bool {
        loop {
            match self.asked.try_recv() {
                Ok(question) => self.note(question),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn note(&mut self, question: ReloadRequest) {
        match question {
            ReloadRequest::Detail(subject) => self.waiting.detail = Some(subject),
            question @ ReloadRequest::Frames { .. } => self.waiting.frames = Some(question),
            question @ ReloadRequest::Page { .. } => {
                self.waiting.pages.push(question);
                // What was asked for long ago is not looked at any more.
                if self.waiting.pages.len() > 4 {
                    self.waiting.pages.remove(0);
                }
            }
            ReloadRequest::Save(request) => self.waiting.saves.push_back(request),
            ReloadRequest::Places(places) => self.places.extend(places),
        }
    }

    /// Whether something else is wanted than what is being read, or nothing any more.
    fn is_stale(&mut self) -> bool {
        !self.listen() || self.waiting.detail.is_some()
    }

    /// The last place that is at least so many frames before one.
    fn place(&self, frame: FrameNumber, margin: u64) -> Option<ResumePoint> {
        let at = self.places.partition_point(|place| place.frame.0.saturating_add(margin) <= frame.0);
        at.checked_sub(1).and_then(|at| self.places.get(at)).copied()
    }
}
