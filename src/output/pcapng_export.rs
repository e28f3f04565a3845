//! Export of the frames of Transactions as a capture file, each with comments about its role in which Transaction.
//!
//! The Transaction of a frame is known only when it is complete, long after the frame. So frames are queued by number,
//! and are written in order when there are too many. Their bytes are read a second time; frames of a pipe, which can be
//! read only once, are queued with their bytes. The file of a live capture grows up to the first frame of a Transaction
//! that is not complete. The frames of a call that has waited long for its reply are written without it; if a filter does
//! not select the call, they are set aside, and written late if it selects the call with its reply.

mod queued_frame;
mod set_aside;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::Rc;

use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_capture_file::{CaptureFileInterface, CaptureFrameSource, PcapngWriter};
use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, Timestamp};
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_flow::pending_call_queries::PendingCall;
use nfsrdma_flow::transaction::{RpcMessageKind, Transaction};
use nfsrdma_flow::transaction_message_decoding::{
    ProcedureOrMainOperation, RpcStatus, RpcSummary, TransactionMessages,
};
use nfsrdma_flow::{Flow, FrameContentKind, FrameRole, TransactionFrame, TransactionSlabKey};
use rustc_hash::{FxHashMap, FxHashSet};

use super::info_column::InfoColumnFormatter;
use super::settings::OutputLineUnit;
use super::style::Glyphs;
use queued_frame::{
    BufferedExportFrame, FindingCommentText, FrameMembership, TransactionCommentText, TransactionFrameRole,
};
use set_aside::SetAsideFrames;

/// Name and version of the program, for the capture files that it writes.
pub(super) const APPLICATION: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

/// Maximum number of queued frames if their bytes are read again: more than pass while a Transaction awaits late
/// duplicates.
const MAX_QUEUED_FRAMES: usize = 4 << 20;
/// Maximum number of comments on one frame: a TCP segment may complete any number of messages.
const MAX_COMMENTS_PER_FRAME: usize = 64;
/// Nanoseconds of frame time that a frame of a growing file waits for a Transaction.
const SETTLED_AGE_NS: u64 = 2_000_000_000;
/// Age of a call without a reply at which its frames are written to a growing file, in nanoseconds.
const OLD_CALL_NS: u64 = 5_000_000_000;
/// Nanoseconds of frame time between two searches for such calls.
const CALL_SEARCH_INTERVAL_NS: u64 = 500_000_000;
/// Nanoseconds of frame time that a frame with a part of a message waits for the rest of it.
const PARTIAL_AGE_NS: u64 = 10_000_000_000;

/// State of a queued frame.
#[derive(Debug, Default)]
struct QueuedFrameSelectionState {
    /// `true` if the frame itself was selected.
    is_chosen: bool,
    /// `true` if it belongs to connection setup or teardown.
    is_set_up: bool,
    /// Connection of a control frame, if control frames are selected.
    control_of: Option<u64>,
    memberships: Vec<FrameMembership>,
    /// Number of calls of the frame without a reply that the filter does not select.
    rejected_calls: u32,
}

/// Selection of a call of which a part is still to come.
#[derive(Debug)]
enum PartialCallSelection {
    /// Its frames are selected, with this comment.
    Selected(Rc<TransactionCommentText>),
    /// These frames are set aside.
    Rejected(Vec<FrameNumber>),
}

impl QueuedFrameSelectionState {
    /// Returns the added comments.
    fn comments(&self, number: FrameNumber) -> Vec<String> {
        let control = self.control_of.map(|connection| format!("connection {connection}: {CONTROL_COMMENT}"));
        let set_up = self.is_set_up.then(|| SETUP_COMMENT.to_owned());
        let memberships = self.memberships.iter().map(|membership| membership.comment(number));
        memberships.chain(set_up).chain(control).collect()
    }
}

/// Source of the bytes of frames.
enum ExportFrameByteSource {
    /// Same files, opened a second time.
    Reread(Box<CaptureFrameSource>),
    /// Bytes in memory.
    Buffered(VecDeque<BufferedExportFrame>),
}

/// Writer of the selected frames.
pub struct FrameFileWriter<W> {
    to: PcapngWriter<W>,
    bytes: ExportFrameByteSource,
    view: OutputLineUnit,
    /// Number of the first queued frame.
    first_frame: u64,
    queue: VecDeque<Option<Box<QueuedFrameSelectionState>>>,
    /// Frames of pending Transactions.
    pending_events: FxHashMap<TransactionSlabKey, Vec<(FrameNumber, FrameRole)>>,
    labels: InfoColumnFormatter,
    /// With [`FrameFileWriter::with_control_frames`]: the connections of selected Transactions.
    connections: Option<FxHashSet<u64>>,
    /// The first frames of transactions that are not emitted yet, except calls in `selected_calls`.
    open_transactions: FxHashMap<TransactionSlabKey, FrameNumber>,
    /// `true` for a file that is read while it is written.
    is_growing: bool,
    /// Calls without a reply whose frames are selected, with their comments.
    selected_calls: FxHashMap<TransactionSlabKey, Rc<TransactionCommentText>>,
    /// Calls without a reply that the filter does not select. Their frames are set aside.
    rejected_calls: FxHashSet<TransactionSlabKey>,
    /// Old calls of which a part is still to come, by their first frame.
    partial_calls: FxHashMap<FrameNumber, PartialCallSelection>,
    set_aside: SetAsideFrames,
    /// Time of the next search for calls without a reply, and number of frames before it.
    next_search: (Timestamp, u64),
    /// Bytes of memory in use, and their limit.
    used_bytes: usize,
    limit_bytes: usize,
    written: u64,
    read: u64,
    too_late: u64,
}

/// Totals of a file of frames.
#[derive(Debug)]
pub struct WrittenFrameTotals {
    /// Frames written to the file.
    pub written: u64,
    /// Frames read, written or not.
    pub read: u64,
    /// Frames of selected Transactions that had been dropped before their Transaction was known.
    pub too_late: u64,
}

impl<W: Write> FrameFileWriter<W> {
    /// Creates a file for frames that can be read twice; `source` reads them from the first frame on.
    ///
    /// In the view of frames, frames are selected one by one, else with their Transactions. The queue takes at most
    /// `limit_bytes` bytes.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn with_second_pass(
        to: W,
        view: OutputLineUnit,
        limit_bytes: usize,
        source: CaptureFrameSource,
    ) -> io::Result<Self> {
        Self::new(to, view, limit_bytes, ExportFrameByteSource::Reread(Box::new(source)))
    }

    /// Creates a file for frames that can be read only once.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn with_buffered_frames(to: W, view: OutputLineUnit, limit_bytes: usize) -> io::Result<Self> {
        Self::new(to, view, limit_bytes, ExportFrameByteSource::Buffered(VecDeque::new()))
    }

    fn new(to: W, view: OutputLineUnit, limit_bytes: usize, bytes: ExportFrameByteSource) -> io::Result<Self> {
        Ok(Self {
            to: PcapngWriter::new(to, APPLICATION)?,
            bytes,
            view,
            first_frame: 1,
            queue: VecDeque::new(),
            pending_events: FxHashMap::default(),
            labels: InfoColumnFormatter::default(),
            connections: None,
            open_transactions: FxHashMap::default(),
            is_growing: false,
            selected_calls: FxHashMap::default(),
            rejected_calls: FxHashSet::default(),
            partial_calls: FxHashMap::default(),
            set_aside: SetAsideFrames::default(),
            next_search: (Timestamp::default(), 0),
            used_bytes: 0,
            limit_bytes,
            written: 0,
            read: 0,
            too_late: 0,
        })
    }

    /// Also selects the control frames of each connection of a selected Transaction: ACKs, NAKs, CNPs and TCP segments
    /// without data. They show which copy of a message was delivered, and where recovery took time.
    #[must_use]
    pub fn with_control_frames(self) -> Self {
        Self { connections: Some(FxHashSet::default()), ..self }
    }

    /// Prepares for [`FrameFileWriter::write_settled`].
    #[must_use]
    pub fn with_growth(self) -> Self {
        Self { is_growing: true, ..self }
    }

    /// Writes the queued frames up to the first that a transaction may still select or label, and flushes the file. A
    /// call without a reply holds back the frames behind it until [`FrameFileWriter::take_due_calls`] names it.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn write_settled(&mut self, flow: &Flow) -> io::Result<()> {
        if !self.is_growing {
            return Ok(());
        }
        let open = &mut self.open_transactions;
        open.retain(|key, _| flow.transaction(*key).is_some());
        let first_open = open.values().min().map_or(u64::MAX, |frame| frame.0);
        self.write_late()?;
        while self.first_frame < first_open && self.is_front_settled(flow.now()) {
            self.pop_front()?;
        }
        self.to.flush()
    }

    /// Returns `true` if the first queued frame is old enough to be written.
    fn is_front_settled(&self, now: Timestamp) -> bool {
        let (Some(state), ExportFrameByteSource::Buffered(frames)) = (self.queue.front(), &self.bytes) else {
            return false;
        };
        let Some(frame) = frames.front() else { return false };
        let is_known = state.as_ref().is_some_and(|state| !state.memberships.is_empty() || state.rejected_calls > 0);
        let age_ns = if frame.is_partial && !is_known { PARTIAL_AGE_NS } else { SETTLED_AGE_NS };
        now.abs_diff_ns(frame.time) >= age_ns
    }

    /// Queues the current frame of `source`, after the flow has decoded it. In every view but that of frames, frames of
    /// connection setup and teardown are selected, too: without them Wireshark cannot dissect the others.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn frame(&mut self, source: &CaptureFrameSource, flow: &Flow, is_chosen: bool) -> io::Result<()> {
        let (Some(frame), Some(interface)) = (source.frame(), source.interface()) else { return Ok(()) };
        // An interface without frames was captured, too.
        if self.read == 0 {
            for (at, interface) in source.live_interfaces().enumerate() {
                self.to.interface(at, interface)?;
            }
        }
        self.buffered_frame(&frame, interface, || source.comments().map(Cow::into_owned).collect(), flow, is_chosen)
    }

    /// Queues a frame that the caller buffered, with the interface that it was captured on.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn buffered_frame(
        &mut self,
        frame: &Frame<'_>,
        (file, interface): (usize, &CaptureFileInterface),
        comments: impl FnOnce() -> Vec<String>,
        flow: &Flow,
        is_chosen: bool,
    ) -> io::Result<()> {
        if self.queue.is_empty() {
            self.first_frame = frame.number.0;
        }
        let is_set_up =
            self.view != OutputLineUnit::Frames && flow.frame_kinds().contains(&FrameContentKind::Management);
        let is_chosen = is_chosen || is_set_up;
        let control_of = self.connections.as_ref().and_then(|_| flow.control_connection());
        let is_known = is_chosen || control_of.is_some();
        let state = is_known
            .then(|| Box::new(QueuedFrameSelectionState { is_chosen, is_set_up, control_of, ..Default::default() }));
        self.used_bytes += membership_bytes(state.as_deref());
        self.read += 1;
        self.queue.push_back(state);
        if let ExportFrameByteSource::Buffered(frames) = &mut self.bytes {
            let interface_id = self.to.interface(file, interface)?;
            let Frame { time, link, length, bytes, .. } = *frame;
            let (bytes, comments) = (bytes.into(), comments());
            let is_waiting =
                |kind| matches!(kind, FrameContentKind::PartialMessage | FrameContentKind::EarlyMessage { .. });
            let is_partial = flow.frame_kinds().iter().copied().any(is_waiting);
            let frame = BufferedExportFrame { time, link, length, bytes, on: interface_id, comments, is_partial };
            self.used_bytes += frame.memory_bytes();
            frames.push_back(frame);
        }
        for kind in flow.frame_kinds() {
            let (FrameContentKind::Message { key, which } | FrameContentKind::Retransmission { key, which }) = *kind
            else {
                continue;
            };
            let Some(transaction) = flow.transaction(key) else { continue };
            self.adopt_partial_call(key, transaction);
            let is_call = which == RpcMessageKind::Call;
            match self.selected_calls.get(&key) {
                Some(label) if is_call => {
                    let label = Rc::clone(label);
                    self.mark(frame.number, &label, TransactionFrameRole::Message(which));
                }
                None if is_call && self.rejected_calls.contains(&key) => self.reject_frame(frame.number),
                None if !self.rejected_calls.contains(&key) => {
                    let message = transaction.call.as_ref().or(transaction.reply.as_ref());
                    let first = message.and_then(|message| message.frames.first().copied());
                    self.open_transactions.entry(key).or_insert(first.unwrap_or(frame.number));
                }
                // The earlier frames of the transaction need not wait for it.
                _ => _ = self.open_transactions.entry(key).or_insert(frame.number),
            }
        }
        for TransactionFrame { frame, key, role } in flow.transaction_frames() {
            if let Some(label) = self.selected_calls.get(key) {
                let label = Rc::clone(label);
                self.mark(*frame, &label, TransactionFrameRole::Event(*role));
            } else if self.rejected_calls.contains(key) {
                self.reject_frame(*frame);
            }
            let events = self.pending_events.entry(*key).or_default();
            // A frame may contain several parts of one chunk.
            if events.last() != Some(&(*frame, *role)) {
                events.push((*frame, *role));
                self.used_bytes += EVENT_BYTES;
            }
        }
        self.enforce_limit()
    }

    /// Adds a complete Transaction with its findings, and with its paths if it is selected. Its frames are selected
    /// with it, except in the view of frames.
    pub fn transaction(
        &mut self,
        key: TransactionSlabKey,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        paths: Option<OperationPaths<'_>>,
        findings: &[Finding],
    ) {
        let events = self.pending_events.remove(&key).unwrap_or_default();
        self.used_bytes -= EVENT_BYTES * events.len();
        self.adopt_partial_call(key, transaction);
        self.open_transactions.remove(&key);
        let is_rejected = self.rejected_calls.remove(&key);
        let selected_call = self.selected_calls.remove(&key);
        let Some(paths) = paths else {
            if is_rejected {
                let call_frames = transaction.call.iter().flat_map(|call| &call.frames);
                let frames = call_frames.chain(events.iter().map(|(frame, _)| frame));
                frames.for_each(|frame| self.set_aside.release(*frame));
            }
            return;
        };
        if let Some(connections) = &mut self.connections {
            connections.insert(transaction.connection.number);
        }
        let label = Rc::new(TransactionCommentText {
            findings: finding_labels(findings, transaction, &events),
            ..self.label(transaction, messages, summary, paths)
        });
        let (too_late, first_frame) = (self.too_late, self.first_frame);
        self.mark_all(transaction, &label, events, selected_call.as_ref());
        if selected_call.is_some() {
            // The frames of the call were written; those of the reply are not, if they left the queue.
            let reply_frames = transaction.reply.iter().flat_map(|reply| &reply.frames);
            self.too_late = too_late + reply_frames.filter(|frame| frame.0 < first_frame).count() as u64;
        }
    }

    /// Applies the selection of a call of which only a part had arrived to the transaction with its other frames.
    fn adopt_partial_call(&mut self, key: TransactionSlabKey, transaction: &Transaction) {
        let Some(call) = transaction.call.as_ref().filter(|_| !self.partial_calls.is_empty()) else { return };
        match call.frames.first().and_then(|first| self.partial_calls.remove(first)) {
            None => {}
            Some(PartialCallSelection::Selected(label)) => {
                self.mark_again(call.frames.iter().copied(), &label);
                self.selected_calls.insert(key, label);
            }
            Some(PartialCallSelection::Rejected(known)) => {
                call.frames.iter().skip(known.len()).for_each(|frame| self.reject_frame(*frame));
                self.rejected_calls.insert(key);
            }
        }
    }

    /// Marks those frames of a call that were not written yet.
    fn mark_again(&mut self, frames: impl Iterator<Item = FrameNumber>, label: &Rc<TransactionCommentText>) {
        let too_late = self.too_late;
        frames.for_each(|frame| self.mark(frame, label, TransactionFrameRole::Message(RpcMessageKind::Call)));
        self.too_late = too_late;
    }

    /// Sets a frame of a call aside that the filter does not select.
    fn reject_frame(&mut self, frame: FrameNumber) {
        // Frames that are selected one by one are only labelled.
        if self.view == OutputLineUnit::Frames {
            return;
        }
        let slot = frame.0.checked_sub(self.first_frame).and_then(|at| self.queue.get_mut(at as usize));
        if let Some(slot) = slot {
            let before = membership_bytes(slot.as_deref());
            slot.get_or_insert_default().rejected_calls += 1;
            self.used_bytes = self.used_bytes.saturating_sub(before) + membership_bytes(slot.as_deref());
        }
    }

    /// Marks the frames of a transaction with a comment, which replaces the one of a call without a reply.
    fn mark_all(
        &mut self,
        transaction: &Transaction,
        label: &Rc<TransactionCommentText>,
        events: Vec<(FrameNumber, FrameRole)>,
        replaced: Option<&Rc<TransactionCommentText>>,
    ) {
        let messages = [RpcMessageKind::Call, RpcMessageKind::Reply].into_iter().flat_map(|kind| {
            let frames = transaction.message(kind).into_iter().flat_map(|message| &message.frames);
            frames.map(move |frame| (*frame, TransactionFrameRole::Message(kind)))
        });
        let events = events.into_iter().map(|(frame, role)| (frame, TransactionFrameRole::Event(role)));
        for (frame, role) in messages.chain(events) {
            if let Some(replaced) = replaced
                && let Some(at) = frame.0.checked_sub(self.first_frame)
                && let Some(Some(state)) = self.queue.get_mut(at as usize)
            {
                let before = membership_bytes(Some(state));
                state.memberships.retain(|membership| !Rc::ptr_eq(&membership.of, replaced));
                self.used_bytes = self.used_bytes.saturating_sub(before) + membership_bytes(Some(state));
            }
            self.mark(frame, label, role);
        }
    }

    /// Returns the calls without a reply that [`FrameFileWriter::pending`] should select now, if at all: those that have
    /// waited for long in a file that is read while it is written, and those whose frames leave the queue soon. The
    /// frames of the others are set aside.
    pub fn take_due_calls(&mut self, flow: &Flow) -> FxHashSet<TransactionSlabKey> {
        let now = flow.now();
        let room_bytes = self.limit_bytes.saturating_sub(self.set_aside.memory_bytes());
        let is_full = self.used_bytes > room_bytes / 4 * 3 || self.queue.len() > self.max_frames() / 4 * 3;
        let is_due = (is_full && self.read >= self.next_search.1) || (self.is_growing && now >= self.next_search.0);
        if !is_due {
            return FxHashSet::default();
        }
        self.next_search = (
            Timestamp(now.0.saturating_add_unsigned(CALL_SEARCH_INTERVAL_NS)),
            self.read + self.queue.len() as u64 / 16 + 1,
        );
        let (first_frame, quarter) = (self.first_frame, self.queue.len() as u64 / 4);
        let is_growing = self.is_growing;
        let is_due = |since: Timestamp, first: FrameNumber| {
            let is_old = is_growing && now.nanoseconds_since(since).is_some_and(|age_ns| age_ns >= OLD_CALL_NS);
            is_old || (is_full && first.0 <= first_frame + quarter)
        };
        let mut due = FxHashSet::default();
        let mut frames: Vec<FrameNumber> = Vec::new();
        for (key, first) in &self.open_transactions {
            let transaction = flow.transaction(*key).filter(|transaction| transaction.reply.is_none());
            if let Some(call) = transaction.and_then(|transaction| transaction.call.as_ref())
                && is_due(call.time, *first)
            {
                due.insert(*key);
                frames.extend(&call.frames);
                frames.extend(self.pending_events.get(key).into_iter().flatten().map(|(frame, _)| *frame));
            }
        }
        // Those that `pending` does not select are set aside, and not asked for again.
        due.iter().for_each(|key| _ = self.open_transactions.remove(key));
        self.rejected_calls.extend(&due);
        let mut partial_calls = FxHashMap::default();
        for call in flow.partial_calls() {
            let known = self.partial_calls.remove(&call.first_frame);
            let is_rejected = matches!(known, Some(PartialCallSelection::Rejected(_)));
            if let Some(known) = known {
                partial_calls.insert(call.first_frame, known);
            } else if is_due(call.since, call.first_frame) {
                let call_frames = call.transaction.call.as_ref().map(|call| call.frames.clone()).unwrap_or_default();
                frames.extend(&call_frames);
                partial_calls.insert(call.first_frame, PartialCallSelection::Rejected(call_frames));
            } else {
                continue;
            }
            // More of a selected call may have arrived.
            if !is_rejected {
                due.insert(call.key);
            }
        }
        for gone in std::mem::replace(&mut self.partial_calls, partial_calls).into_values() {
            if let PartialCallSelection::Rejected(frames) = gone {
                frames.into_iter().for_each(|frame| self.set_aside.release(frame));
            }
        }
        frames.into_iter().for_each(|frame| self.reject_frame(frame));
        due
    }

    /// Selects the frames of a call without a reply, so that they are written even if it never gets one.
    pub fn pending(
        &mut self,
        call: &PendingCall<'_>,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        paths: OperationPaths<'_>,
    ) {
        let PendingCall { key, first_frame, partial, .. } = *call;
        if let Some(connections) = &mut self.connections {
            connections.insert(transaction.connection.number);
        }
        if let Some(PartialCallSelection::Selected(label)) = self.partial_calls.get(&first_frame) {
            let (label, frames) = (Rc::clone(label), transaction.call.iter().flat_map(|call| &call.frames));
            return self.mark_again(frames.copied(), &label);
        }
        let events = self.pending_events.get(&key).cloned().unwrap_or_default();
        let label = Rc::new(self.label(transaction, messages, summary, paths));
        self.mark_all(transaction, &label, events, None);
        if partial.is_some() {
            self.partial_calls.insert(first_frame, PartialCallSelection::Selected(label));
        } else {
            self.rejected_calls.remove(&key);
            self.selected_calls.insert(key, label);
        }
    }

    fn max_frames(&self) -> usize {
        if matches!(self.bytes, ExportFrameByteSource::Reread(_)) { MAX_QUEUED_FRAMES } else { usize::MAX }
    }

    fn label(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        paths: OperationPaths<'_>,
    ) -> TransactionCommentText {
        let mut description = String::new();
        match summary.operation {
            Some(_) => self.labels.write(messages, summary, paths, &Glyphs::UNICODE, &mut description),
            None => description.push_str("a call that is not known"),
        }
        description.truncate(description.trim_end().len());
        description += &format!(", XID {}", transaction.xid);
        let status = match (summary.rpc_status, summary.status) {
            (Some(RpcStatus::Rpc(status)), _) if status.name() != Some(enumerator_names::SUCCESS) => {
                format!(", {status}")
            }
            (Some(RpcStatus::RdmaError(code)), _) => format!(", {code}"),
            (_, Some(status)) => {
                let number = || ProcedureOrMainOperation::Number(status.number);
                match status.name.map_or_else(number, ProcedureOrMainOperation::Named) {
                    ProcedureOrMainOperation::Named(name) => format!(", {name}"),
                    ProcedureOrMainOperation::Number(number) => format!(", status {number}"),
                }
            }
            _ => String::new(),
        };
        let fault = summary.fault(transaction).map(|fault| format!(", {}", fault.name()));
        TransactionCommentText {
            index: transaction.index,
            connection: transaction.connection.number,
            about: description,
            status: status + fault.as_deref().unwrap_or_default(),
            findings: Vec::new(),
        }
    }

    fn mark(&mut self, frame: FrameNumber, comment: &Rc<TransactionCommentText>, role: TransactionFrameRole) {
        let slot = frame.0.checked_sub(self.first_frame).and_then(|at| self.queue.get_mut(at as usize));
        let Some(slot) = slot else {
            let membership = FrameMembership { of: Rc::clone(comment), role };
            self.too_late += u64::from(!self.set_aside.select(frame, membership));
            return;
        };
        if slot.is_none() && self.view == OutputLineUnit::Frames {
            return;
        }
        let before = membership_bytes(slot.as_deref());
        let state = slot.get_or_insert_default();
        let is_known =
            state.memberships.iter().any(|membership| Rc::ptr_eq(&membership.of, comment) && membership.role == role);
        if !is_known && state.memberships.len() < MAX_COMMENTS_PER_FRAME {
            state.memberships.push(FrameMembership { of: Rc::clone(comment), role });
            let after = membership_bytes(Some(state));
            self.used_bytes = (self.used_bytes + after).saturating_sub(before);
        }
    }

    fn enforce_limit(&mut self) -> io::Result<()> {
        let max_frames = self.max_frames();
        while self.used_bytes + self.set_aside.memory_bytes() > self.limit_bytes || self.queue.len() > max_frames {
            if !self.pop_front()? {
                // Only events of pending Transactions are left.
                self.too_late += self.pending_events.values().map(|events| events.len() as u64).sum::<u64>();
                self.pending_events.clear();
                self.used_bytes = 0;
                break;
            }
        }
        Ok(())
    }

    /// Writes the frames that were set aside and selected since.
    fn write_late(&mut self) -> io::Result<()> {
        while let Some((number, (frame, memberships))) = self.set_aside.take_late() {
            let comments: Vec<String> = memberships.iter().map(|membership| membership.comment(number)).collect();
            self.write(number, frame, comments)?;
        }
        Ok(())
    }

    fn write(&mut self, number: FrameNumber, frame: BufferedExportFrame, added: Vec<String>) -> io::Result<()> {
        let BufferedExportFrame { time, link, length, bytes, on, comments, .. } = frame;
        let frame = Frame { number, time, link, length, bytes: &bytes };
        let comments: Vec<String> = comments.into_iter().chain(added).collect();
        self.to.frame(on, &frame, comments.iter().map(String::as_str))?;
        self.written += 1;
        Ok(())
    }

    /// Removes the first frame from the queue. Writes it if it is selected, and sets it aside if a call without a reply
    /// may select it. Returns `false` if the queue is empty.
    fn pop_front(&mut self) -> io::Result<bool> {
        self.write_late()?;
        let Some(state) = self.queue.pop_front() else { return Ok(false) };
        let number = FrameNumber(self.first_frame);
        self.first_frame += 1;
        self.used_bytes = self.used_bytes.saturating_sub(membership_bytes(state.as_deref()));
        let rejected_calls = state.as_ref().map_or(0, |state| state.rejected_calls);
        let state = state.filter(|state| self.is_chosen(state));
        let frame = match &mut self.bytes {
            ExportFrameByteSource::Buffered(frames) => {
                let Some(frame) = frames.pop_front() else { return Ok(true) };
                self.used_bytes = self.used_bytes.saturating_sub(frame.memory_bytes());
                frame
            }
            ExportFrameByteSource::Reread(_) if state.is_none() && rejected_calls == 0 => return Ok(true),
            ExportFrameByteSource::Reread(source) => {
                let (file, interface) = advance(source, number)?;
                let on = self.to.interface(file, interface)?;
                let Some(frame) = source.frame() else { return Ok(true) };
                if let Some(state) = state {
                    let comments: Vec<_> =
                        source.comments().chain(state.comments(number).into_iter().map(Cow::Owned)).collect();
                    self.to.frame(on, &frame, comments.iter().map(AsRef::as_ref))?;
                    self.written += 1;
                    return Ok(true);
                }
                let Frame { time, link, length, bytes, .. } = frame;
                let comments = source.comments().map(Cow::into_owned).collect();
                BufferedExportFrame { time, link, length, bytes: bytes.into(), on, comments, is_partial: false }
            }
        };
        match state {
            Some(state) => self.write(number, frame, state.comments(number))?,
            None if rejected_calls > 0 => self.set_aside.keep(number, frame, rejected_calls, self.limit_bytes / 4),
            None => {}
        }
        Ok(true)
    }

    fn is_chosen(&self, state: &QueuedFrameSelectionState) -> bool {
        let is_control_of =
            |connection| self.connections.as_ref().is_some_and(|connections| connections.contains(&connection));
        match self.view {
            OutputLineUnit::Frames => state.is_chosen,
            _ => state.is_chosen || !state.memberships.is_empty() || state.control_of.is_some_and(is_control_of),
        }
    }

    /// Returns the output. Between two calls, it is always a valid file.
    pub fn output(&mut self) -> &mut W {
        self.to.output()
    }

    /// Writes the queued frames at the end of the input. Returns the output and the totals.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn finish(mut self) -> io::Result<(W, WrittenFrameTotals)> {
        while self.pop_front()? {}
        let Self { to, written, read, too_late, .. } = self;
        Ok((to.into_output(), WrittenFrameTotals { written, read, too_late }))
    }
}

/// Returns the findings of a Transaction with those of their frames that belong to it, or with its last message if none
/// does.
fn finding_labels(
    findings: &[Finding],
    transaction: &Transaction,
    events: &[(FrameNumber, FrameRole)],
) -> Vec<FindingCommentText> {
    let frames_of = |kind| transaction.message(kind).map(|message| message.frames.as_slice()).unwrap_or_default();
    let [call, reply] = [RpcMessageKind::Call, RpcMessageKind::Reply].map(frames_of);
    let is_own = |frame: &FrameNumber| {
        call.contains(frame) || reply.contains(frame) || events.iter().any(|(event_frame, _)| event_frame == frame)
    };
    let label = |finding: &Finding| {
        let mut frames: Vec<FrameNumber> = finding.frames.iter().copied().filter(is_own).collect();
        if frames.is_empty() {
            frames.extend(reply.last().or(call.last()));
        }
        let (severity, rule) = (finding.severity.name(), finding.rule.id);
        let known_deviation = finding.known.as_deref().map(|deviation| format!(" ({deviation})")).unwrap_or_default();
        let text = format!("{severity}{known_deviation} {rule} by the {}: {}", finding.side, finding.text);
        FindingCommentText { frames, text }
    };
    findings.iter().map(label).collect()
}

/// Comment on a frame of connection setup or teardown.
const SETUP_COMMENT: &str = "sets a connection up or takes it down";

/// Comment on a control frame, after its connection.
const CONTROL_COMMENT: &str = "control frame";

const EVENT_BYTES: usize = size_of::<(FrameNumber, FrameRole)>();

/// Returns the bytes of memory that the state of a frame takes; several frames share a label.
fn membership_bytes(state: Option<&QueuedFrameSelectionState>) -> usize {
    let state_bytes = state.map_or(0, |state| {
        size_of::<QueuedFrameSelectionState>() + state.memberships.capacity() * (size_of::<FrameMembership>() + 32)
    });
    size_of::<Option<Box<QueuedFrameSelectionState>>>() + state_bytes
}

/// Reads up to a frame. Errors of the file were reported in the first pass.
fn advance(source: &mut CaptureFrameSource, to: FrameNumber) -> io::Result<(usize, &CaptureFileInterface)> {
    loop {
        match source.next() {
            Ok(Some(frame)) if frame.number == to => break,
            Ok(None) => return Err(capture_changed_error()),
            Ok(Some(_)) | Err(_) => {}
        }
    }
    source.interface().ok_or_else(capture_changed_error)
}

fn capture_changed_error() -> io::Error {
    io::Error::other("the capture changed while it was read")
}

#[cfg(test)]
mod tests {
    use nfsrdma_flow::FlowLimits;

    use nfsrdma_dissectors::captured_frame::LinkType;

    use super::*;
    use crate::testing;

    /// Exports a capture as a live capture does, and returns the file with its length before the end of the input.
    fn exported(name: &str, view: OutputLineUnit, grows: bool) -> (Vec<u8>, usize) {
        let limits =
            FlowLimits { record_transaction_frames: true, emit_on_acknowledgment: true, ..FlowLimits::default() };
        let mut flow = Flow::new(limits);
        let mut source = CaptureFrameSource::open([testing::path(name)]).unwrap();
        let mut file = FrameFileWriter::with_buffered_frames(Vec::new(), view, usize::MAX).unwrap();
        if grows {
            file = file.with_growth();
        }
        let emit = |flow: &mut Flow, file: &mut FrameFileWriter<Vec<u8>>| {
            while let Some((key, transaction)) = flow.next_with_key() {
                transaction.with_messages(|reading| {
                    let about = Some(OperationPaths::default());
                    file.transaction(key, &transaction, reading, &reading.summary(), about, &[]);
                });
            }
        };
        while let Some(frame) = source.next().unwrap() {
            flow.process_frame(&frame);
            file.frame(&source, &flow, true).unwrap();
            emit(&mut flow, &mut file);
            file.write_settled(&flow).unwrap();
        }
        let length = file.output().len();
        flow.finish();
        emit(&mut flow, &mut file);
        let (bytes, totals) = file.finish().unwrap();
        assert_eq!(totals.too_late, 0, "{name}");
        (bytes, length)
    }

    #[test]
    fn a_file_that_grows_is_in_the_end_the_same() {
        for name in ["rxe-v42.pcap", "rxe-v42-loss.pcap", "rxe-v3.pcap", "siw-v42.pcap.gz", "tcp-v42.pcap.gz"] {
            for view in [OutputLineUnit::Transactions, OutputLineUnit::Frames] {
                let (whole, header) = exported(name, view, false);
                let (grown, length) = exported(name, view, true);
                assert!(grown == whole, "{name} {view:?}");
                assert!(length > whole.len() / 3, "{name} {view:?}: {length} of {} bytes", whole.len());
                assert!(header < 1000, "{name} {view:?}: {header} bytes");
            }
        }
    }

    /// A live capture to a file that grows.
    struct LiveExport<S> {
        flow: Flow,
        file: FrameFileWriter<Vec<u8>>,
        selects: S,
    }

    impl<S: Fn(&Transaction) -> bool> LiveExport<S> {
        fn new(limit_bytes: usize, selects: S) -> Self {
            let limits =
                FlowLimits { record_transaction_frames: true, emit_on_acknowledgment: true, ..FlowLimits::default() };
            let file =
                FrameFileWriter::with_buffered_frames(Vec::new(), OutputLineUnit::Transactions, limit_bytes).unwrap();
            Self { flow: Flow::new(limits), file: file.with_growth(), selects }
        }

        fn step(&mut self) {
            let Self { flow, file, selects } = self;
            let due = file.take_due_calls(flow);
            for call in flow.pending_calls().filter(|call| due.contains(&call.key)) {
                let transaction = call.to_transaction();
                if selects(&transaction) {
                    transaction.with_messages(|messages| {
                        file.pending(&call, &transaction, messages, &messages.summary(), OperationPaths::default());
                    });
                }
            }
            while let Some((key, transaction)) = flow.next_with_key() {
                transaction.with_messages(|messages| {
                    let paths = selects(&transaction).then(OperationPaths::default);
                    file.transaction(key, &transaction, messages, &messages.summary(), paths, &[]);
                });
            }
            file.write_settled(flow).unwrap();
        }

        /// Captures frames.
        fn frames(&mut self, frames: &[TimedFrame]) {
            let mut source = CaptureFrameSource::open([testing::path(SLOW)]).unwrap();
            source.next().unwrap();
            let (_, on) = source.interface().unwrap();
            for frame in frames {
                let number = FrameNumber(self.file.read + 1);
                let frame = captured(number.0, frame);
                self.flow.process_frame(&frame);
                self.file.buffered_frame(&frame, (0, on), Vec::new, &self.flow, false).unwrap();
                self.step();
            }
        }

        /// Lets so many seconds pass without a frame.
        fn idle(&mut self, seconds: i64) {
            for _ in 0..2 * seconds {
                let now = self.flow.now().0 + 500_000_000;
                self.flow.advance_time(Timestamp(now));
                self.step();
            }
        }

        /// Returns the transactions in the file, as another reader sees them now.
        fn written(&mut self) -> Vec<Transaction> {
            transactions_of_file(self.file.output().clone())
        }

        /// Ends the capture, and returns the transactions in the file and the number of lost frames.
        fn finish(mut self) -> (Vec<Transaction>, u64) {
            self.flow.finish();
            self.step();
            let (bytes, totals) = self.file.finish().unwrap();
            (transactions_of_file(bytes), totals.too_late)
        }
    }

    /// Time and bytes of a frame.
    type TimedFrame = (i64, Vec<u8>);

    fn captured(number: u64, (time, bytes): &TimedFrame) -> Frame<'_> {
        let (number, time, length) = (FrameNumber(number), Timestamp(*time), bytes.len() as u32);
        Frame { number, time, link: LinkType::ETHERNET, length, bytes }
    }

    fn frames(mut source: CaptureFrameSource) -> Vec<TimedFrame> {
        let mut frames = Vec::new();
        while let Some(frame) = source.next().unwrap() {
            frames.push((frame.time.0, frame.bytes.to_vec()));
        }
        frames
    }

    fn frames_of(name: &str) -> Vec<TimedFrame> {
        frames(CaptureFrameSource::open([testing::path(name)]).unwrap())
    }

    fn transactions(frames: &[TimedFrame]) -> Vec<Transaction> {
        let mut flow = Flow::new(FlowLimits::default());
        (1..).zip(frames).for_each(|(number, frame)| _ = flow.process_frame(&captured(number, frame)));
        flow.finish();
        testing::drained(flow)
    }

    fn transactions_of_file(bytes: Vec<u8>) -> Vec<Transaction> {
        transactions(&frames(CaptureFrameSource::from_reader("file", std::io::Cursor::new(bytes))))
    }

    /// A capture in which a call on RoCE waits for its reply after frame `CUT`.
    const SLOW: &str = "rxe-v3.pcap";
    const CUT: usize = 1268;
    /// Another connection, over TCP.
    const OTHER: &str = "tcp-v42-ganesha.pcap.gz";

    /// Returns the frames of [`SLOW`] up to the cut, those of [`OTHER`] behind them, and the others of [`SLOW`] 12 s
    /// later.
    fn slow_replies() -> [Vec<TimedFrame>; 3] {
        let mut before = frames_of(SLOW);
        let mut after = before.split_off(CUT);
        let mut other = frames_of(OTHER);
        let (cut, begin) = (before.last().unwrap().0, other[0].0);
        other.iter_mut().for_each(|(time, _)| *time += cut - begin + 1_000_000);
        after.iter_mut().for_each(|(time, _)| *time += 12_000_000_000);
        [before, other, after]
    }

    /// Frames that the filter selects do not wait for a call that it does not select.
    #[test]
    fn rejected_hung_call_holds_nothing_back() {
        let [before, other, after] = slow_replies();
        let count = transactions(&frames_of(OTHER)).len();
        let mut live = LiveExport::new(usize::MAX, |one| one.connection.client.port == Some(906));
        live.frames(&before);
        live.frames(&other);
        live.idle(8);
        assert_eq!(live.written().len(), count);
        live.frames(&after);
        let (written, too_late) = live.finish();
        assert_eq!((written.len(), too_late), (count, 0));
    }

    /// A call that the filter selects with its reply only is written after all, late.
    #[test]
    fn call_selected_by_late_reply_is_written() {
        let [before, other, after] = slow_replies();
        let mut live = LiveExport::new(usize::MAX, |one| one.latency_ns().is_some_and(|ns| ns > 5_000_000_000));
        live.frames(&before);
        live.frames(&other);
        live.idle(8);
        assert!(live.written().is_empty());
        live.frames(&after);
        let (written, too_late) = live.finish();
        let found: Vec<_> = written.iter().map(|one| (one.xid, one.latency_ns())).collect();
        let is_late = |(_, ns): &&(_, Option<u64>)| ns.is_some_and(|ns| ns > 11_000_000_000);
        assert_eq!((found.len(), found.iter().filter(is_late).count(), too_late), (2, 2, 0), "{found:?}");
    }

    /// Frames are set aside in limited memory, and lost ones are counted.
    #[test]
    fn memory_set_aside_is_limited() {
        let [before, other, after] = slow_replies();
        let mut live = LiveExport::new(4_000, |one| one.latency_ns().is_some_and(|ns| ns > 5_000_000_000));
        for frames in [&before, &other, &after] {
            live.frames(frames);
            assert!(live.file.used_bytes + live.file.set_aside.memory_bytes() <= 4_000);
            assert!(live.file.set_aside.memory_bytes() <= 1_000);
        }
        assert!(live.finish().1 > 0);
    }

    /// Of a call over TCP only a part arrived: its frames are in the file, whatever follows.
    #[test]
    fn partial_call_is_written() {
        let mut frames = frames_of("tcp-v3.pcap.gz");
        frames.truncate(300);
        let mut live = LiveExport::new(usize::MAX, |one| one.xid.0 == 0xa4e3_e697);
        live.frames(&frames);
        live.idle(20);
        let [partial] = &live.written()[..] else { panic!() };
        let call = partial.call.as_ref().unwrap();
        assert_eq!((call.frames.len(), call.bytes.len()), (90, 130_316));
        assert_eq!(live.finish().1, 0);
        // One that the filter does not select is gone.
        let mut live = LiveExport::new(usize::MAX, |_| false);
        live.frames(&frames);
        live.idle(20);
        assert!(live.file.queue.is_empty());
        assert!(live.written().is_empty());
    }
}
