//! Comparison of live Replies with the recorded ones, which determines the states of steps.
//!
//! No Call depends on the result, so Replies are queued and checked while the transport is idle. The queue is limited;
//! when it is full, the oldest Reply is checked at once.

use std::collections::VecDeque;
use std::io::{Read, Seek};
use std::ops::Range;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};
use nfsrdma_rpc::{ReplyWriteChunkReceivedData, TransportReply};

use super::super::reply_statuses_and_grants::ReplyStatusesAndSessionGrants;
use super::super::step_outcome::StepOutcome;
use super::step_window::{StepWindowEntry, unreadable_state};
use super::{ReplayEngine, ReplayRunError};
use crate::trace::error::TraceError;
use crate::trace::step::{TraceSlotValueKind, TraceStep};

/// Maximum number of bytes of queued Replies, and of free buffers.
const MAX_QUEUED_BYTES: usize = 8 << 20;
const MAX_FREE_BUFFERS: usize = 1024;

pub(super) enum StepReplyDisposition {
    /// The step is to be sent again.
    Retry,
    /// The Call is to be sent again unchanged, once its connection is bound to the session.
    BindAndResend,
    /// The step has this state, whatever else the Reply contains.
    Finished(StepOutcome),
    Check(UncheckedLiveReplyFacts),
}

/// Findings about a Reply from before its check.
#[derive(Debug, Default)]
pub(super) struct UncheckedLiveReplyFacts {
    pub(super) outcome: ReplyStatusesAndSessionGrants,
    /// `true` if the recorded Reply asked to retry later.
    pub(super) was_delayed_in_capture: bool,
    /// `true` if it has the slot and the sequence ID of its Call.
    pub(super) is_echo: bool,
    /// `true` if its values are not bound yet.
    pub(super) is_unbound: bool,
    /// Kind of the required value that it lacks.
    pub(super) missing: Option<TraceSlotValueKind>,
    /// `true` if it gives another stateid for locks that already have one.
    pub(super) is_other_lock: bool,
    /// `true` if it reports the effect of the same Call, sent before the connection was lost.
    pub(super) is_done_twice: bool,
    /// `true` if the recorded Reply has an entry of a directory whose attributes were delayed.
    pub(super) has_delayed_entry: bool,
    /// Send time of the Call; `None` for programs other than NFS, whose values are not related to earlier ones.
    pub(super) sent: Option<Instant>,
    pub(super) latency: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LiveReply<'a> {
    pub(super) message: &'a [u8],
    pub(super) chunks: &'a [ChunkedDataItem<'a>],
}

impl<'a> LiveReply<'a> {
    pub(super) fn cursor(self) -> Cursor<'a> {
        Cursor::new(self.message).with_chunks(self.chunks)
    }
}

impl<'a> From<&'a TransportReply<'_>> for LiveReply<'a> {
    fn from(reply: &'a TransportReply<'_>) -> Self {
        Self { message: reply.message, chunks: reply.payloads.items() }
    }
}

/// A queued Reply with its step and findings. Its buffers are reused.
#[derive(Debug, Default)]
struct QueuedReplyCheck {
    window_step: Box<StepWindowEntry>,
    findings: UncheckedLiveReplyFacts,
    reply: OwnedLiveReply,
}

impl QueuedReplyCheck {
    fn size_bytes(&self) -> usize {
        self.reply.bytes.len() + self.window_step.step.len() + self.window_step.call.message.len()
    }
}

#[derive(Debug, Default)]
struct OwnedLiveReply {
    /// Message, followed by the contents of its chunks.
    bytes: Vec<u8>,
    message_length_bytes: usize,
    /// Range of each chunk's content.
    chunks: Vec<Range<usize>>,
}

impl OwnedLiveReply {
    fn keep(&mut self, reply: &TransportReply<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(reply.message);
        self.message_length_bytes = self.bytes.len();
        self.chunks.clear();
        for item in reply.payloads.items() {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(item.bytes.unwrap_or_default());
            self.chunks.push(at..self.bytes.len());
        }
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    fn payloads(&self) -> ReplyWriteChunkReceivedData<'_> {
        self.chunks.iter().map(|range| self.bytes(range.clone())).collect()
    }

    fn live<'a>(&'a self, payloads: &'a ReplyWriteChunkReceivedData<'_>) -> LiveReply<'a> {
        LiveReply { message: self.bytes(0..self.message_length_bytes), chunks: payloads.items() }
    }
}

/// Queue of Replies to be checked, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct ReplyCheckQueue {
    queue: VecDeque<QueuedReplyCheck>,
    bytes: usize,
    free_buffers: Vec<QueuedReplyCheck>,
    free_bytes: usize,
}

impl ReplyCheckQueue {
    pub(super) fn is_behind(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(super) fn is_far_behind(&self) -> bool {
        self.bytes > MAX_QUEUED_BYTES / 2
    }

    /// Adds a Reply to be checked. Returns buffers for another step.
    fn push(
        &mut self,
        entry: Box<StepWindowEntry>,
        findings: UncheckedLiveReplyFacts,
        reply: &TransportReply<'_>,
    ) -> Box<StepWindowEntry> {
        let mut queued = self.free_buffers.pop().unwrap_or_default();
        self.free_bytes -= queued.reply.bytes.capacity();
        queued.reply.keep(reply);
        let window_step = std::mem::replace(&mut queued.window_step, entry);
        queued.findings = findings;
        self.bytes += queued.size_bytes();
        self.queue.push_back(queued);
        window_step
    }

    fn pop(&mut self) -> Option<QueuedReplyCheck> {
        let queued = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(queued.size_bytes());
        Some(queued)
    }

    /// Keeps the buffers of a Reply that was checked.
    fn recycle(&mut self, mut queued: QueuedReplyCheck) {
        let free_bytes = self.free_bytes + queued.reply.bytes.capacity();
        if free_bytes <= MAX_QUEUED_BYTES && self.free_buffers.len() < MAX_FREE_BUFFERS {
            queued.findings = UncheckedLiveReplyFacts::default();
            self.free_bytes = free_bytes;
            self.free_buffers.push(queued);
        }
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Queues a Reply to be checked. Returns buffers for another step.
    pub(super) fn queue_check(
        &mut self,
        entry: Box<StepWindowEntry>,
        findings: UncheckedLiveReplyFacts,
        reply: &TransportReply<'_>,
    ) -> Result<Box<StepWindowEntry>, ReplayRunError> {
        let window_step = self.verification.unchecked_replies.push(entry, findings, reply);
        while self.verification.unchecked_replies.bytes > MAX_QUEUED_BYTES {
            self.check_next()?;
        }
        Ok(window_step)
    }

    pub(super) fn check_next(&mut self) -> Result<(), ReplayRunError> {
        let Some(mut queued) = self.verification.unchecked_replies.pop() else { return Ok(()) };
        let QueuedReplyCheck { window_step: entry, findings, reply } = &mut queued;
        let payloads = reply.payloads();
        let live = reply.live(&payloads);
        let outcome = match entry.step.trace_step() {
            Some(step) => {
                self.bind_deferred(entry, &step, live, findings);
                self.checked_outcome(entry, &step, live, findings)?
            }
            None => unreadable_state(),
        };
        if !self.verification.unchecked_replies.is_behind() {
            self.verification.pending_variables.clear();
        }
        self.report.steps.count(entry.id, entry.description.title(), outcome);
        let late_differences = self.verification.checker.take_late_differences(false);
        if !late_differences.is_empty() {
            self.report.steps.apply_late_differences(late_differences);
        }
        self.verification.unchecked_replies.recycle(queued);
        Ok(())
    }

    /// Binds the values of a queued Reply, if that is not done yet.
    fn bind_deferred(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
        live: LiveReply<'_>,
        findings: &mut UncheckedLiveReplyFacts,
    ) {
        if std::mem::take(&mut findings.is_unbound) {
            self.call_builder.register_identifiers(entry, live);
            findings.missing = self.bind_values(step, live, &findings.outcome);
        }
    }

    /// Binds the values of queued Replies if the step's Call needs one of them.
    pub(super) fn bind_deferred_for(&mut self, step: &TraceStep<'_>) {
        let pending = &mut self.verification.pending_variables;
        if pending.is_empty() || !step.call.slots.iter().any(|slot| pending.contains(&slot.variable)) {
            return;
        }
        pending.clear();
        let mut queue = std::mem::take(&mut self.verification.unchecked_replies.queue);
        for QueuedReplyCheck { window_step: entry, findings, reply } in &mut queue {
            if let Some(step) = entry.step.trace_step().filter(|_| findings.is_unbound) {
                self.bind_deferred(entry, &step, reply.live(&reply.payloads()), findings);
            }
        }
        self.verification.unchecked_replies.queue = queue;
    }

    /// Checks all queued Replies, because the next action depends on them.
    pub(super) fn check_all(&mut self) -> Result<(), ReplayRunError> {
        while self.verification.unchecked_replies.is_behind() {
            self.check_next()?;
        }
        Ok(())
    }

    /// Returns the outcome of a step from its Reply, and records its latency.
    pub(super) fn checked_outcome(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
        live: LiveReply<'_>,
        findings: &UncheckedLiveReplyFacts,
    ) -> Result<StepOutcome, TraceError> {
        let outcome = self.verification.check(entry, step, live, findings, self.contents)?;
        if step.origin.latency > 0 {
            let live_ns = u64::try_from(findings.latency.as_nanos()).unwrap_or(u64::MAX);
            let operation = self.report.steps.operation(entry.description.title());
            for (latencies, value) in operation.latencies.iter_mut().zip([step.origin.latency, live_ns]) {
                latencies.add(value);
            }
        }
        Ok(outcome)
    }
}
