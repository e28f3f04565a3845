//! Buffer of the frames that are received once, and the first pass's results for them.
//!
//! The latest frames are kept, so that others can read them again: for trees, to save them, for a filter that is set
//! later. A reader that starts in the middle would number Transactions and connections differently, and infer other
//! file names. Therefore all readers use the first pass's results, and skip Transactions without them, because some
//! frames are gone.

use std::collections::{BTreeSet, VecDeque};

use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_capture_file::{CaptureFileInterface, CaptureFrameSource};
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{CallDirection, TransactionConnection};
use rustc_hash::FxHashMap;

use super::frame_clock::FrameClock;
use super::model::transaction_list_row;
use crate::output::recent_frame_buffer::RecentFrameBuffer;
use crate::output::tree::frame_store::FrameStore as _;

/// Maximum number of distinct interfaces.
const MAX_INTERFACES: usize = 256;
/// Memory accounted for the results of a Transaction, without its paths, in bytes.
const RESULT_BYTES: usize = 160;

type FirstPassTransactionKey = (Xid, FrameNumber);

/// The kept frames, and the first pass's results.
pub(super) struct RetainedLiveFrames {
    frames: RecentFrameBuffer,
    interfaces: Vec<(usize, CaptureFileInterface)>,
    /// Index in `interfaces` of each change of interface, by the first frame that was captured on it.
    interface_changes: VecDeque<(FrameNumber, usize)>,
    /// The first pass's results for Transactions, by XID and first frame.
    results: FxHashMap<FirstPassTransactionKey, TuiFirstPassTransactionResult>,
    /// The calls in flight of the first pass, by XID and first frame.
    pending: FxHashMap<FirstPassTransactionKey, (TransactionConnection, CallDirection)>,
    order: VecDeque<FirstPassTransactionKey>,
    /// Current and maximum size of the results, in bytes.
    size_bytes: usize,
    limit_bytes: usize,
    /// Progress of the first pass, for other readers.
    pub(super) progress: FirstPassProgress,
}

/// The first pass's results for a Transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TuiFirstPassTransactionResult {
    /// Transaction number.
    pub(super) index: u64,
    /// Number of the connection.
    pub(super) connection: u64,
    path: Option<Box<[u8]>>,
    new_path: Option<Box<[u8]>>,
    start: Option<Box<[u8]>>,
}

impl TuiFirstPassTransactionResult {
    /// Returns the paths of the operation, as they were at that time.
    pub(super) fn paths(&self) -> OperationPaths<'_> {
        OperationPaths { path: self.path.as_deref(), new_path: self.new_path.as_deref(), start: self.start.as_deref() }
    }

    fn size_bytes(&self) -> usize {
        let path = |path: &Option<Box<[u8]>>| path.as_ref().map_or(0, |path| path.len());
        RESULT_BYTES + path(&self.path) + path(&self.new_path) + path(&self.start)
    }
}

/// Progress of the first pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FirstPassProgress {
    /// Last frame whose completed Transactions all have numbers.
    pub(super) frame: FrameNumber,
    /// Capture time at which the first pass found no more frames.
    pub(super) idle: Option<Timestamp>,
    /// The clock that stamps frames.
    pub(super) clock: FrameClock,
    /// `true` if it has ended.
    pub(super) is_over: bool,
}

impl RetainedLiveFrames {
    /// Returns a buffer that uses two thirds of `memory_bytes` for frames, and the rest for results.
    pub(super) fn new(memory_bytes: usize) -> Self {
        Self {
            frames: RecentFrameBuffer::new(memory_bytes / 3 * 2),
            interfaces: Vec::new(),
            interface_changes: VecDeque::new(),
            results: FxHashMap::default(),
            pending: FxHashMap::default(),
            order: VecDeque::new(),
            size_bytes: 0,
            limit_bytes: memory_bytes / 3,
            progress: FirstPassProgress::default(),
        }
    }

    /// Keeps the last frame of the source.
    pub(super) fn keep(&mut self, source: &CaptureFrameSource) {
        let Some(frame) = source.frame() else { return };
        self.frames.push(&frame);
        if let Some((file, interface)) = source.interface() {
            self.note_interface(frame.number, file, interface);
        }
    }

    fn note_interface(&mut self, frame: FrameNumber, file: usize, interface: &CaptureFileInterface) {
        let is_same = |at: usize| {
            self.interfaces.get(at).is_some_and(|(known_file, known)| {
                *known_file == file && known.name == interface.name && known.link == interface.link
            })
        };
        let last = self.interface_changes.back().map(|(_, at)| *at);
        if last.is_some_and(is_same) {
            return;
        }
        let at = (0..self.interfaces.len()).find(|at| is_same(*at)).or_else(|| {
            (self.interfaces.len() < MAX_INTERFACES).then(|| {
                self.interfaces.push((file, interface.clone()));
                self.interfaces.len() - 1
            })
        });
        let Some(at) = at else { return };
        self.interface_changes.push_back((frame, at));
        // Drop the changes that concern only evicted frames.
        let first = self.frames.first_number().unwrap_or(frame);
        while self.interface_changes.get(1).is_some_and(|(next, _)| *next <= first) {
            self.interface_changes.pop_front();
        }
    }

    /// Returns the interface of a frame, and the number of its file.
    pub(super) fn interface(&self, frame: FrameNumber) -> Option<(usize, CaptureFileInterface)> {
        let next = self.interface_changes.partition_point(|(first, _)| *first <= frame);
        // The changes before the first frame of the ring are gone.
        let (_, at) = self.interface_changes.get(next.saturating_sub(1))?;
        self.interfaces.get(*at).cloned()
    }

    /// Records the results for a Transaction.
    pub(super) fn record(&mut self, transaction: &Transaction, paths: OperationPaths<'_>) {
        let first = self.frames.first_number().unwrap_or_default();
        while self.size_bytes > self.limit_bytes || self.order.front().is_some_and(|(_, frame)| *frame < first) {
            let Some(key) = self.order.pop_front() else { break };
            self.size_bytes -= self.results.remove(&key).map_or(0, |result| result.size_bytes());
        }
        let name = result_key(transaction);
        let result = TuiFirstPassTransactionResult {
            index: transaction.index,
            connection: transaction.connection.number,
            path: paths.path.map(Box::from),
            new_path: paths.new_path.map(Box::from),
            start: paths.start.map(Box::from),
        };
        self.size_bytes += result.size_bytes();
        match self.results.insert(name, result) {
            Some(previous) => self.size_bytes -= previous.size_bytes(),
            None => self.order.push_back(name),
        }
    }

    /// Returns the results for a Transaction.
    pub(super) fn first_pass_result(&self, transaction: &Transaction) -> Option<&TuiFirstPassTransactionResult> {
        self.results.get(&result_key(transaction))
    }

    /// Replaces the calls in flight. Their frames are kept until they are complete.
    pub(super) fn set_pending<'t>(&mut self, calls: impl Iterator<Item = &'t Transaction>) {
        self.pending.clear();
        let mut frames = BTreeSet::new();
        for call in calls {
            self.pending.insert(result_key(call), (call.connection, call.direction));
            frames.extend(call.call.iter().flat_map(|message| &message.frames));
        }
        self.frames.pin(frames);
    }

    /// Sets the connection of a call in flight to that of the first pass. Returns `false` if the first pass has no such
    /// call in flight.
    pub(super) fn adopt_pending(&self, call: &mut Transaction) -> bool {
        let Some((connection, direction)) = self.pending.get(&result_key(call)) else { return false };
        (call.connection, call.direction) = (*connection, *direction);
        true
    }

    /// Copies up to `max_frames` frames from `from` to `until`. Starts at the first kept frame if `from` is gone.
    pub(super) fn copy(&self, from: FrameNumber, until: FrameNumber, max_frames: usize, to: &mut Vec<OwnedFrame>) {
        let first = self.frames.first_number().filter(|first| *first > from).unwrap_or(from);
        let pinned = self.frames.pinned_before_ring(from).filter(|number| *number <= until);
        let pinned = pinned.filter_map(|number| self.frames.frame(number));
        let in_ring = (first.0..=until.0).map_while(|number| self.frames.frame(FrameNumber(number)));
        let frames = pinned.chain(in_ring).take(max_frames);
        to.extend(frames.map(|frame: Frame<'_>| OwnedFrame::from_frame(&frame)));
    }
}

/// A frame that owns its bytes.
#[derive(Clone, Debug)]
pub(super) struct OwnedFrame {
    pub(super) number: FrameNumber,
    time: Timestamp,
    link: LinkType,
    length: u32,
    bytes: Vec<u8>,
}

impl OwnedFrame {
    /// Copies a frame.
    pub(super) fn from_frame(frame: &Frame<'_>) -> Self {
        let Frame { number, time, link, length, bytes } = *frame;
        Self { number, time, link, length, bytes: bytes.to_vec() }
    }

    /// Returns the frame.
    pub(super) fn frame(&self) -> Frame<'_> {
        let Self { number, time, link, length, bytes } = self;
        Frame { number: *number, time: *time, link: *link, length: *length, bytes }
    }
}

fn result_key(transaction: &Transaction) -> FirstPassTransactionKey {
    (transaction.xid, transaction_list_row::frames(transaction).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_transactions_are_evicted_with_their_frames() {
        let mut source = CaptureFrameSource::open([crate::testing::path("rxe-v42.pcap")]).unwrap();
        let transactions = crate::testing::transactions("rxe-v42.pcap");
        let mut once = RetainedLiveFrames::new(150 << 10);
        while source.next().unwrap().is_some() {
            once.keep(&source);
        }
        let first = once.frames.first_number().unwrap();
        assert!(first.0 > 1_000);
        for transaction in &transactions {
            once.record(transaction, OperationPaths { path: Some(b"/file"), ..OperationPaths::default() });
        }
        assert!(once.order.len() == once.results.len() && once.results.len() < transactions.len());
        assert_eq!(
            once.size_bytes,
            once.results.values().map(TuiFirstPassTransactionResult::size_bytes).sum::<usize>()
        );
        assert!(once.size_bytes <= once.limit_bytes + 2 * RESULT_BYTES);
        let last = transactions.last().unwrap();
        let recorded = once.first_pass_result(last).unwrap();
        assert_eq!((recorded.index, recorded.connection), (last.index, 1));
        assert_eq!(recorded.paths().path, Some(&b"/file"[..]));
        assert_eq!(once.first_pass_result(&transactions[0]), None);
        assert_eq!(once.interface(first).unwrap().0, 0);
        let mut copies = Vec::new();
        once.copy(FrameNumber(1), FrameNumber(first.0 + 1), 100, &mut copies);
        assert_eq!(copies.len(), 2);
    }
}
