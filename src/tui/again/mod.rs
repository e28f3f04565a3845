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

use nfsrdma_dissectors::flow::Limits;
use nfsrdma_dissectors::flow::transaction::{Direction, Transaction};
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::FxHashMap;

use crate::filter::Filter;
use crate::output::list::wire_bytes;
use crate::output::style::Screen;
use crate::output::tree::{Origin, TreeLine};
use crate::output::units::TimeFormat;
use crate::source::Place;

use super::capture::Capture;
use super::model::{Page, Row, row};
use super::pass::{Manner, SharedNames};
use super::save::{self, SaveRequest};

pub use waterfall::{Acknowledged, Bar, BarKind, Waterfall};

/// Frames between two looks at what is asked.
const FRAMES: u64 = 1024;

/// A Transaction that is to be read again, by what its row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
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

impl Wanted {
    /// Whether a Transaction that was read again is this one, whatever number it has now.
    pub(super) fn is(&self, transaction: &Transaction) -> bool {
        transaction.xid == self.xid
            && row::frames(transaction) == (self.first, self.last)
            && transaction.latency() == self.latency
            && wire_bytes(transaction) == self.bytes
            && (transaction.direction == Direction::Reverse) == self.is_reverse
    }
}

impl From<&Row> for Wanted {
    fn from(row: &Row) -> Self {
        let Row { index, connection, xid, first, last, latency, bytes, is_reverse, .. } = *row;
        Self { index, connection, xid, first, last, latency, bytes, is_reverse }
    }
}

/// What tree and hex pane show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A Transaction.
    Transaction(Wanted),
    /// A frame with the messages that it completes.
    Frame(FrameNumber),
}

/// A subject with all that is known of it.
#[derive(Debug)]
pub struct Detail {
    /// Of what.
    pub subject: Subject,
    /// Its tree.
    pub lines: Vec<TreeLine>,
    /// The bytes that the lines were read from.
    pub bytes: FxHashMap<Origin, Vec<u8>>,
    /// What happened when; of a Transaction.
    pub waterfall: Waterfall,
    /// Every frame that has a part in it.
    pub frames: Vec<FrameNumber>,
    /// Why there is nothing.
    pub problem: Option<String>,
}

impl Detail {
    fn missing(subject: Subject, problem: &str) -> Self {
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
pub struct Stretch {
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
pub(super) enum Question {
    Detail(Subject),
    /// Frames from this one on, for so many columns.
    Frames {
        first: FrameNumber,
        count: usize,
        screen: Screen,
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
    Places(Vec<Place>),
}

/// What is answered.
#[derive(Debug)]
pub(super) enum Answer {
    Detail(Box<Detail>),
    Frames(Stretch),
    Page {
        number: usize,
        filter: Option<String>,
        page: Page,
    },
    /// What is said of a file that was saved, or why it was not.
    Saved(Result<String, String>),
}

/// The side of who asks.
#[derive(Debug)]
pub(super) struct Reader {
    questions: Sender<Question>,
    answers: Receiver<Answer>,
}

impl Reader {
    /// Starts the thread.
    pub(super) fn start(capture: Capture, manner: Manner, names: SharedNames, screen: Screen) -> Self {
        let (questions, asked) = channel();
        let (answers, received) = channel();
        thread::spawn(move || {
            let limits = Limits { keep_data: true, note_steps: true, ..manner.limits.clone() };
            let mut desk = Desk {
                capture,
                manner,
                limits,
                names,
                screen,
                places: Vec::new(),
                asked,
                answers,
                waiting: Waiting::default(),
            };
            while desk.serve() {}
        });
        Self { questions, answers: received }
    }

    pub(super) fn ask(&self, question: Question) {
        // The thread ends when nobody can ask any more.
        let _ = self.questions.send(question);
    }

    pub(super) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

/// What was asked and is not answered yet.
#[derive(Debug, Default)]
struct Waiting {
    detail: Option<Subject>,
    frames: Option<Question>,
    pages: Vec<Question>,
    saves: VecDeque<SaveRequest>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.detail.is_none() && self.frames.is_none() && self.pages.is_empty() && self.saves.is_empty()
    }
}

/// The side of who answers.
struct Desk {
    capture: Capture,
    manner: Manner,
    limits: Limits,
    names: SharedNames,
    screen: Screen,
    places: Vec<Place>,
    asked: Receiver<Question>,
    answers: Sender<Answer>,
    waiting: Waiting,
}

impl Desk {
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
            self.detail(subject).map(|detail| Answer::Detail(Box::new(detail)))
        } else if let Some(question) = self.waiting.frames.take() {
            self.frames(question).map(Answer::Frames)
        } else if let Some(question) = self.waiting.pages.pop() {
            self.page(question)
        } else {
            self.waiting
                .saves
                .pop_front()
                .map(|request| Answer::Saved(save::save(&self.capture, &self.manner, &request)))
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

    fn note(&mut self, question: Question) {
        match question {
            Question::Detail(subject) => self.waiting.detail = Some(subject),
            question @ Question::Frames { .. } => self.waiting.frames = Some(question),
            question @ Question::Page { .. } => {
                self.waiting.pages.push(question);
                // What was asked for long ago is not looked at any more.
                if self.waiting.pages.len() > 4 {
                    self.waiting.pages.remove(0);
                }
            }
            Question::Save(request) => self.waiting.saves.push_back(request),
            Question::Places(places) => self.places.extend(places),
        }
    }

    /// Whether something else is wanted than what is being read, or nothing any more.
    fn is_stale(&mut self) -> bool {
        !self.listen() || self.waiting.detail.is_some()
    }

    /// The last place that is at least so many frames before one.
    fn place(&self, frame: FrameNumber, margin: u64) -> Option<Place> {
        let at = self.places.partition_point(|place| place.frame.0.saturating_add(margin) <= frame.0);
        at.checked_sub(1).and_then(|at| self.places.get(at)).copied()
    }
}
