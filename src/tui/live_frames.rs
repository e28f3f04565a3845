//! Frames that come once, and what the first reading has told of them.
//!
//! The latest frames are kept, and others read them again: for trees, to be saved, for a filter that is set later. Who
//! begins in the middle would number Transactions and connections otherwise, and name files by other names; so all take what
//! the first reading told, and pass over what it does not know: Transactions of which frames are gone.

use std::collections::VecDeque;

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::frame::{Frame, FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::FxHashMap;

use crate::analysis::names::OperationPaths;
use crate::output::frame_ring::FrameRing;
use crate::output::tree::FrameStore as _;
use crate::source::{CaptureSource, Interface};

use super::capture::FrameCopy;
use super::model::row;

/// Interfaces that are told apart.
const INTERFACES: usize = 256;
/// Bytes that are taken for what is told of a Transaction, without its paths.
const TOLD: usize = 160;

type FirstPassKey = (Xid, FrameNumber);

/// The frames that are kept, and what is known of them.
pub(super) struct LiveFrames {
    kept: FrameRing,
    interfaces: Vec<(usize, Interface)>,
    /// Which of these a frame was captured on, from some frame on.
    changes: VecDeque<(FrameNumber, usize)>,
    /// What the first reading has told of Transactions, by XID and first frame.
    earlier: FxHashMap<FirstPassKey, FirstPassTransaction>,
    order: VecDeque<FirstPassKey>,
    /// Bytes that this takes, and may take.
    weight: usize,
    room: usize,
    /// What others may read.
    pub(super) told: FirstPassProgress,
}

/// What the first reading has told of a Transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FirstPassTransaction {
    /// Its number.
    pub(super) index: u64,
    /// The number of its connection.
    pub(super) connection: u64,
    path: Option<Box<[u8]>>,
    new_path: Option<Box<[u8]>>,
}

impl FirstPassTransaction {
    /// The file that it is about, as that was called then.
    pub(super) fn about(&self) -> OperationPaths<'_> {
        OperationPaths { path: self.path.as_deref(), new_path: self.new_path.as_deref() }
    }

    fn weight(&self) -> usize {
        let path = |path: &Option<Box<[u8]>>| path.as_ref().map_or(0, |path| path.len());
        TOLD + path(&self.path) + path(&self.new_path)
    }
}

/// How far the first reading has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FirstPassProgress {
    /// All Transactions are numbered that were done with this frame.
    pub(super) frame: FrameNumber,
    /// The time when nothing more had come.
    pub(super) idle: Option<Timestamp>,
    /// Whether it has ended.
    pub(super) is_over: bool,
}

impl LiveFrames {
    /// Keeps frames in two thirds of `room` bytes, and what is told of them in the rest.
    pub(super) fn new(room: usize) -> Self {
        Self {
            kept: FrameRing::new(room / 3 * 2),
            interfaces: Vec::new(),
            changes: VecDeque::new(),
            earlier: FxHashMap::default(),
            order: VecDeque::new(),
            weight: 0,
            room: room / 3,
            told: FirstPassProgress::default(),
        }
    }

    /// Keeps the last frame of the source.
    pub(super) fn keep(&mut self, source: &CaptureSource) {
        let Some(frame) = source.frame() else { return };
        self.kept.keep(&frame);
        if let Some((file, interface)) = source.interface() {
            self.note_interface(frame.number, file, interface);
        }
    }

    fn note_interface(&mut self, frame: FrameNumber, file: usize, interface: &Interface) {
        let is_same = |at: usize| {
            self.interfaces.get(at).is_some_and(|(known_file, known)| {
                *known_file == file && known.name == interface.name && known.link == interface.link
            })
        };
        let last = self.changes.back().map(|(_, at)| *at);
        if last.is_some_and(is_same) {
            return;
        }
        let at = (0..self.interfaces.len()).find(|at| is_same(*at)).or_else(|| {
            (self.interfaces.len() < INTERFACES).then(|| {
                self.interfaces.push((file, interface.clone()));
                self.interfaces.len() - 1
            })
        });
        let Some(at) = at else { return };
        self.changes.push_back((frame, at));
        // Those that only frames have which are gone.
        let first = self.kept.first().unwrap_or(frame);
        while self.changes.get(1).is_some_and(|(next, _)| *next <= first) {
            self.changes.pop_front();
        }
    }

    /// The interface that a frame was captured on.
    pub(super) fn interface(&self, frame: FrameNumber) -> Option<(usize, Interface)> {
        let next = self.changes.partition_point(|(first, _)| *first <= frame);
        let (_, at) = self.changes.get(next.checked_sub(1)?)?;
        self.interfaces.get(*at).cloned()
    }

    /// Notes what the first reading tells of a Transaction.
    pub(super) fn note(&mut self, transaction: &Transaction, about: OperationPaths<'_>) {
        let first = self.kept.first().unwrap_or_default();
        while self.weight > self.room || self.order.front().is_some_and(|(_, frame)| *frame < first) {
            let Some(gone) = self.order.pop_front() else { break };
            self.weight -= self.earlier.remove(&gone).map_or(0, |gone| gone.weight());
        }
        let name = name(transaction);
        let told = FirstPassTransaction {
            index: transaction.index,
            connection: transaction.connection.number,
            path: about.path.map(Box::from),
            new_path: about.new_path.map(Box::from),
        };
        self.weight += told.weight();
        match self.earlier.insert(name, told) {
            Some(before) => self.weight -= before.weight(),
            None => self.order.push_back(name),
        }
    }

    /// What the first reading has told of a Transaction.
    pub(super) fn earlier(&self, transaction: &Transaction) -> Option<&FirstPassTransaction> {
        self.earlier.get(&name(transaction))
    }

    /// Copies frames from one on, as far as `until`; of those that are gone, what comes after them.
    pub(super) fn copy(&self, from: FrameNumber, until: FrameNumber, most: usize, to: &mut Vec<FrameCopy>) {
        let first = self.kept.first().filter(|first| *first > from).unwrap_or(from);
        let numbers = (first.0..=until.0).take(most);
        let frames = numbers.map_while(|number| self.kept.frame(FrameNumber(number)));
        to.extend(frames.map(|frame: Frame<'_>| FrameCopy::of(&frame)));
    }
}

fn name(transaction: &Transaction) -> FirstPassKey {
    (transaction.xid, row::frames(transaction).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_transactions_goes_with_their_frames_and_is_bounded() {
        let mut source = CaptureSource::open([crate::testing::path("rxe-v42.pcap")]).unwrap();
        let transactions = crate::testing::transactions("rxe-v42.pcap");
        let mut once = LiveFrames::new(150 << 10);
        while source.next().unwrap().is_some() {
            once.keep(&source);
        }
        let first = once.kept.first().unwrap();
        assert!(first.0 > 1_000);
        for transaction in &transactions {
            once.note(transaction, OperationPaths { path: Some(b"/file"), new_path: None });
        }
        assert!(once.order.len() == once.earlier.len() && once.earlier.len() < transactions.len());
        assert_eq!(once.weight, once.earlier.values().map(FirstPassTransaction::weight).sum::<usize>());
        assert!(once.weight <= once.room + 2 * TOLD);
        let last = transactions.last().unwrap();
        let told = once.earlier(last).unwrap();
        assert_eq!((told.index, told.connection), (last.index, 1));
        assert_eq!(told.about().path, Some(&b"/file"[..]));
        assert_eq!(once.earlier(&transactions[0]), None);
        assert_eq!(once.interface(first).unwrap().0, 0);
        let mut copies = Vec::new();
        once.copy(FrameNumber(1), FrameNumber(first.0 + 1), 100, &mut copies);
        assert_eq!(copies.len(), 2);
    }
}
