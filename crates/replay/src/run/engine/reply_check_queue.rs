//! Queue of live Replies that are to be compared with the recorded ones.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};
use nfsrdma_rpc::{ReplyWriteChunkReceivedData, TransportReply};

use super::super::reply_statuses_and_grants::ReplyStatusesAndSessionGrants;
use super::step_window::StepWindowEntry;
use crate::trace::step::TraceSlotValueKind;

/// Maximum number of bytes of queued Replies, and of free buffers.
const MAX_QUEUED_BYTES: usize = 8 << 20;
const MAX_FREE_BUFFERS: usize = 1024;

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
pub(super) struct QueuedReplyCheck {
    pub(super) window_step: Box<StepWindowEntry>,
    pub(super) findings: UncheckedLiveReplyFacts,
    pub(super) reply: OwnedLiveReply,
}

impl QueuedReplyCheck {
    fn size_bytes(&self) -> usize {
        self.reply.bytes.len() + self.window_step.step.len() + self.window_step.call.message.len()
    }
}

#[derive(Debug, Default)]
pub(super) struct OwnedLiveReply {
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

    pub(super) fn payloads(&self) -> ReplyWriteChunkReceivedData<'_> {
        self.chunks.iter().map(|range| self.bytes(range.clone())).collect()
    }

    pub(super) fn live<'a>(&'a self, payloads: &'a ReplyWriteChunkReceivedData<'_>) -> LiveReply<'a> {
        LiveReply { message: self.bytes(0..self.message_length_bytes), chunks: payloads.items() }
    }
}

/// Queue of Replies to be checked, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct ReplyCheckQueue {
    pub(super) queue: VecDeque<QueuedReplyCheck>,
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

    /// Returns `true` if the oldest Reply must be checked at once.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > MAX_QUEUED_BYTES
    }

    /// Adds a Reply to be checked. Returns buffers for another step.
    pub(super) fn push(
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

    pub(super) fn pop(&mut self) -> Option<QueuedReplyCheck> {
        let queued = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(queued.size_bytes());
        Some(queued)
    }

    /// Keeps the buffers of a Reply that was checked.
    pub(super) fn recycle(&mut self, mut queued: QueuedReplyCheck) {
        let free_bytes = self.free_bytes + queued.reply.bytes.capacity();
        if free_bytes <= MAX_QUEUED_BYTES && self.free_buffers.len() < MAX_FREE_BUFFERS {
            queued.findings = UncheckedLiveReplyFacts::default();
            self.free_bytes = free_bytes;
            self.free_buffers.push(queued);
        }
    }
}
