//! Comparison of live Replies with the recorded ones, which determines the states of steps.
//!
//! No Call depends on the result, so Replies are queued and checked while the transport is idle. The queue is limited;
//! when it is full, the oldest Reply is checked at once.

use std::collections::VecDeque;
use std::io::{Read, Seek};
use std::ops::Range;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::auth::Flavor;
use nfsrdma_dissectors::xdr::{ChunkItem, Cursor};
use nfsrdma_rpc::{ReplyPayloads, TransportReply};
use rustc_hash::FxHashMap;

use super::super::call_description::{CallDescription, ROOT};
use super::super::dependencies::effects::OperationEffect;
use super::super::file_divergence::FileDivergence;
use super::super::outcome::ReplyOutcome;
use super::super::recovery;
use super::super::reply_check::{ReplyCheckResult, ReplyPair, StepExecution};
use super::super::rules;
use super::super::step_outcome::StepOutcome;
use super::super::tree_check::StepConformance;
use super::reply::{recorded_items, unprotected_reply};
use super::window::{WindowStep, unreadable_state};
use super::{MAX_LINK_TEXT_BYTES, ReplayEngine, ReplayRunError, record_divergence};
use crate::analysis::comparison::difference::{Difference, DifferenceKind, DifferenceSide};
use crate::analysis::comparison::record::hash;
use crate::replay::plan::reason::PlanReason;
use crate::replay::trace::layout::LONGEST;
use crate::replay::trace::{
    CaptureCompleteness, MessageSlot, MessageSlotKind, NONE, PayloadContentState, TraceError, TracePayload,
    TraceStep, keyed_content,
};

/// Maximum number of bytes of queued Replies, and of free buffers.
const MAX_QUEUED_BYTES: usize = 8 << 20;
/// Maximum number of free buffers.
const MAX_FREE_BUFFERS: usize = 1024;

/// State of a step whose recorded Reply shows a change by another client.
const CHANGED_OUTSIDE_REASON: &str =
    "changed by another client: its Calls are not in the capture, and the file was there as they left it";

/// Result of processing a Reply.
pub(super) enum ReplyDisposition {
    /// The step is to be sent again.
    Retry,
    /// The step has this state, whatever else the Reply contains.
    Finished(StepOutcome),
    /// The Reply is to be checked.
    Check(ReplyFindings),
}

/// Findings about a Reply from before its check.
#[derive(Debug, Default)]
pub(super) struct ReplyFindings {
    pub(super) outcome: ReplyOutcome,
    /// Outcome of the recorded Reply, where it matters.
    pub(super) recorded: ReplyOutcome,
    /// `true` if it has the slot and the sequence ID of its Call.
    pub(super) is_echo: bool,
    /// `true` if its values are not bound yet.
    pub(super) is_unbound: bool,
    /// Kind of the required value that it lacks.
    pub(super) missing: Option<MessageSlotKind>,
    /// `true` if it gives another stateid for locks that already have one.
    pub(super) is_other_lock: bool,
    /// `true` if it reports the effect of the same Call, sent before the connection was lost.
    pub(super) is_done_twice: bool,
    /// `true` if the recorded Reply has an entry of a directory whose attributes were delayed.
    pub(super) has_delayed_entry: bool,
    /// Send time of the Call.
    pub(super) sent: Option<Instant>,
}

/// A live Reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveReply<'a> {
    pub(super) message: &'a [u8],
    chunks: &'a [ChunkItem<'a>],
}

impl<'a> LiveReply<'a> {
    /// Returns a cursor at the start of the message.
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
    window_step: Box<WindowStep>,
    findings: ReplyFindings,
    latency: Duration,
    reply: StoredReply,
}

impl QueuedReplyCheck {
    /// Returns the number of bytes that it holds.
    fn size_bytes(&self) -> usize {
        self.reply.bytes.len() + self.window_step.step.len() + self.window_step.call.message.len()
    }
}

/// A stored Reply.
#[derive(Debug, Default)]
struct StoredReply {
    /// Message, followed by the contents of its chunks.
    bytes: Vec<u8>,
    message_length_bytes: usize,
    /// Range of each chunk's content.
    chunks: Vec<Range<usize>>,
}

impl StoredReply {
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

    fn payloads(&self) -> ReplyPayloads<'_> {
        self.chunks.iter().map(|range| self.bytes(range.clone())).collect()
    }

    fn live<'a>(&'a self, payloads: &'a ReplyPayloads<'_>) -> LiveReply<'a> {
        LiveReply { message: self.bytes(0..self.message_length_bytes), chunks: payloads.items() }
    }
}

/// Queue of Replies to be checked, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct ReplyCheckQueue {
    queue: VecDeque<QueuedReplyCheck>,
    bytes: usize,
    free_buffers: Vec<QueuedReplyCheck>,
    /// Capacity of the free buffers in bytes.
    free_bytes: usize,
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Returns `true` if Replies wait to be checked.
    pub(super) fn is_behind(&self) -> bool {
        !self.verifier.unchecked_replies.queue.is_empty()
    }

    /// Returns `true` if the queue is more than half full.
    pub(super) fn is_far_behind(&self) -> bool {
        self.verifier.unchecked_replies.bytes > MAX_QUEUED_BYTES / 2
    }

    /// Queues a Reply to be checked. Returns buffers for another step.
    pub(super) fn queue_check(
        &mut self,
        held: Box<WindowStep>,
        answer: ReplyFindings,
        latency: Duration,
        reply: &TransportReply<'_>,
    ) -> Result<Box<WindowStep>, ReplayRunError> {
        let mut kept = self.verifier.unchecked_replies.free_buffers.pop().unwrap_or_default();
        self.verifier.unchecked_replies.free_bytes -= kept.reply.bytes.capacity();
        kept.reply.keep(reply);
        let room = std::mem::replace(&mut kept.window_step, held);
        (kept.findings, kept.latency) = (answer, latency);
        self.verifier.unchecked_replies.bytes += kept.size_bytes();
        self.verifier.unchecked_replies.queue.push_back(kept);
        while self.verifier.unchecked_replies.bytes > MAX_QUEUED_BYTES {
            self.check_next()?;
        }
        Ok(room)
    }

    /// Checks the oldest queued Reply.
    pub(super) fn check_next(&mut self) -> Result<(), ReplayRunError> {
        let Some(mut kept) = self.verifier.unchecked_replies.queue.pop_front() else { return Ok(()) };
        self.verifier.unchecked_replies.bytes =
            self.verifier.unchecked_replies.bytes.saturating_sub(kept.size_bytes());
        let QueuedReplyCheck { window_step: held, findings: answer, latency, reply } = &mut kept;
        let payloads = reply.payloads();
        let live = reply.live(&payloads);
        let state = match held.step.trace_step() {
            Some(step) => {
                self.bind_deferred(held, &step, live, answer);
                self.checked_state(held, &step, live, answer, *latency)?
            }
            None => unreadable_state(),
        };
        if self.verifier.unchecked_replies.queue.is_empty() {
            self.verifier.pending_variables.clear();
        }
        self.report.steps.count(kept.window_step.id, kept.window_step.description.title(), state);
        let late = self.verifier.checker.take_late_differences(false);
        if !late.is_empty() {
            self.report.steps.apply_late_differences(late);
        }
        let free = self.verifier.unchecked_replies.free_bytes + kept.reply.bytes.capacity();
        if free <= MAX_QUEUED_BYTES && self.verifier.unchecked_replies.free_buffers.len() < MAX_FREE_BUFFERS {
            kept.findings = ReplyFindings::default();
            self.verifier.unchecked_replies.free_bytes = free;
            self.verifier.unchecked_replies.free_buffers.push(kept);
        }
        Ok(())
    }

    /// Binds the values of a queued Reply, if that is not done yet.
    fn bind_deferred(
        &mut self,
        held: &WindowStep,
        step: &TraceStep<'_>,
        live: LiveReply<'_>,
        answer: &mut ReplyFindings,
    ) {
        if std::mem::take(&mut answer.is_unbound) {
            self.register_identifiers(held, live);
            answer.missing = self.bind_values(step, live, &answer.outcome);
        }
    }

    /// Binds the values of queued Replies if the step's Call needs one of them.
    pub(super) fn bind_deferred_for(&mut self, step: &TraceStep<'_>) {
        if self.verifier.pending_variables.is_empty()
            || !step.call.slots.iter().any(|slot| self.verifier.pending_variables.contains(&slot.variable))
        {
            return;
        }
        self.verifier.pending_variables.clear();
        let mut queue = std::mem::take(&mut self.verifier.unchecked_replies.queue);
        for QueuedReplyCheck { window_step: held, findings: answer, reply, .. } in
            queue.iter_mut().filter(|kept| kept.findings.is_unbound)
        {
            let payloads = reply.payloads();
            if let Some(step) = held.step.trace_step() {
                self.bind_deferred(held, &step, reply.live(&payloads), answer);
            }
        }
        self.verifier.unchecked_replies.queue = queue;
    }

    /// Checks all queued Replies, because the next action depends on them.
    pub(super) fn check_all(&mut self) -> Result<(), ReplayRunError> {
        while self.is_behind() {
            self.check_next()?;
        }
        Ok(())
    }

    /// Returns the state of a step from its Reply.
    pub(super) fn checked_state(
        &mut self,
        held: &WindowStep,
        step: &TraceStep<'_>,
        live: LiveReply<'_>,
        answer: &ReplyFindings,
        latency: Duration,
    ) -> Result<StepOutcome, TraceError> {
        let (mut state, went) = match answer.is_echo {
            true => self.compare_reply(held, step, live, answer, latency)?,
            false => (StepOutcome::Mismatched(vec![slot_difference(held)]), StepConformance::Differently),
        };
        let given = match answer.missing {
            Some(what) => {
                Some([format!("gave a {}", what.display_name()), format!("gave no {}", what.display_name())])
            }
            None => answer
                .is_other_lock
                .then(|| ["gave the stateid of these locks".into(), "gave another".into()]),
        };
        state = match (state, given) {
            (
                StepOutcome::Matched | StepOutcome::Tolerated(_) | StepOutcome::Substituted(_),
                Some(values),
            ) => StepOutcome::Mismatched(vec![identifier_difference(held, values)]),
            (state, _) => state,
        };
        if held.rewrites.piece.is_some() && state == StepOutcome::Matched {
            state = StepOutcome::Substituted(recovery::SPLIT.code);
        }
        if held.resend.count > 0 {
            state = recovery::resent_state(state, answer.is_done_twice, held.resend.renewals > 0);
        } else if held.resend.denials > 0 && matches!(state, StepOutcome::Matched | StepOutcome::Tolerated(_))
        {
            state = StepOutcome::Substituted(recovery::CONTEXT_RENEWED.code);
        }
        if !has_recorded_effects(&state) {
            self.mark_objects_uncertain(held, step, &state);
        }
        if let Some(walk) = &mut self.verifier.expected_tree {
            walk.apply_step(
                step,
                &held.description,
                (&state, went),
                held.captured.overlaps_change,
                self.contents,
            );
        }
        let live = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if step.origin.latency > 0 {
            let of = self.report.steps.operation(held.description.title());
            for (latencies, value) in of.latencies.iter_mut().zip([step.origin.latency, live]) {
                latencies.add(value);
            }
        }
        Ok(state)
    }

    /// Marks the objects of a step as uncertain, if the step may have changed them or its Reply did not match.
    pub(super) fn mark_objects_uncertain(
        &mut self,
        held: &WindowStep,
        step: &TraceStep<'_>,
        state: &StepOutcome,
    ) {
        if !matches!(state, StepOutcome::Mismatched(_)) && !held.description.may_change() {
            return;
        }
        let slots = step.call.slots.iter().chain(step.reply.slots.iter());
        let handles =
            slots.filter(|slot| slot.holds == MessageSlotKind::FILEHANDLE).map(|slot| slot.variable);
        self.verifier
            .checker
            .mark_uncertain(handles.chain(held.description.files.iter().copied()), &held.description.effects);
    }

    /// Compares the Reply with the recorded one.
    fn compare_reply(
        &mut self,
        held: &WindowStep,
        step: &TraceStep<'_>,
        live: LiveReply<'_>,
        ReplyFindings { outcome, recorded, has_delayed_entry, sent, .. }: &ReplyFindings,
        latency: Duration,
    ) -> Result<(StepOutcome, StepConformance), TraceError> {
        let message = unprotected_reply(step);
        if step.reply.seen != CaptureCompleteness::WHOLE {
            return Ok((StepOutcome::Substituted(PlanReason::ReplyLost.code()), StepConformance::AsRecorded));
        }
        if recorded.is_delayed() && outcome.is_success() && !self.context.options.strict {
            return Ok((StepOutcome::Tolerated(rules::DELAYED), StepConformance::Differently));
        }
        let key = self.contents.summary().key;
        let is_text = held.description.reads_link(step.asked.find_description());
        let payloads = || step.reply.payloads.iter().filter(|payload| !payload.is_inside);
        // Only the text of symbolic links is read; for file data the hash suffices.
        let mut texts: Vec<Option<Vec<u8>>> = Vec::new();
        self.verifier.expected_data.clear();
        for payload in payloads() {
            let is_read = is_text
                && payload.length <= MAX_LINK_TEXT_BYTES
                && matches!(payload.content, PayloadContentState::KEPT | PayloadContentState::ZEROS);
            let mut text = Vec::new();
            let is_known = is_read && self.contents.content(&payload, &mut text)?;
            if is_text {
                texts.push(is_known.then_some(text));
            }
            if !is_known {
                self.verifier
                    .expected_data
                    .push((payload.length, expected_hash(key, &payload, &mut self.verifier.key_data)));
            }
        }
        let text = |at: usize| texts.get(at).and_then(Option::as_deref);
        let items = recorded_items(step, text);
        let parts = &held.description;
        let is_directory = |file: &u32| *file == ROOT || self.context.seeded.directories.contains(file);
        self.verifier.is_directory.clear();
        self.verifier.is_directory.extend(parts.files.iter().map(is_directory));
        let listing = listed_directory(step, parts);
        let verdict = self.verifier.checker.check(&ReplyPair {
            step: held.id.step,
            frames: held.id.frames,
            title: held.description.title(),
            procedure: step.asked.find_description(),
            recorded: Cursor::new(&message).with_chunks(&items),
            known: &self.verifier.expected_data,
            live: live.cursor(),
            chunks: live.chunks,
            directories: &self.verifier.is_directory,
            files: &parts.files,
            execution: sent.map(|sent| StepExecution {
                operations: &parts.operations,
                acts: &parts.effects,
                slots: [step.call.slots, step.reply.slots],
                step_turn: held.turn,
                call_time_ns: step.origin.time,
                times: [sent, sent + latency],
                has_no_overlap: !held.captured.overlaps_change
                    && !held.call.overlaps_change
                    && held.resend.count == 0,
                was_sent_unchanged: !held.rewrites.has_dropped_attributes
                    && held.rewrites.piece.is_none()
                    && held.resend.count == 0,
                seeded: &self.context.seeded.handles,
                statuses: &outcome.statuses,
            }),
            is_racing: held.captured.overlaps_change,
            listing,
        });
        let is_file = |slot: &MessageSlot| {
            slot.holds == MessageSlotKind::FILEHANDLE
                && !self.context.seeded.directories.contains(&slot.variable)
        };
        let variables = step.call.slots.iter().chain(step.reply.slots.iter()).filter(is_file);
        let files: Vec<u32> = variables.map(|slot| slot.variable).collect();
        let mut touched = FileDivergence::default();
        files
            .iter()
            .filter_map(|file| self.verifier.divergent_files.get(file))
            .for_each(|of| touched.merge(of));
        if !self.verifier.unmodified_directories.is_empty() {
            let mut slots = step.call.slots.iter().filter(|slot| slot.holds == MessageSlotKind::FILEHANDLE);
            if slots.any(|slot| self.verifier.unmodified_directories.contains(&slot.variable)) {
                touched.merge(&FileDivergence::from_operation(
                    Some(Operation::REMOVE),
                    OperationEffect::Remove(0),
                    0,
                ));
            }
        }
        let copies = [Operation::COPY, Operation::CLONE].iter().any(|copy| parts.operations.contains(copy));
        // Index of the first operation that was executed only in the capture or only here.
        let from = match verdict {
            ReplyCheckResult::Unsupported(..) => Some(outcome.statuses.len().saturating_sub(1)),
            ReplyCheckResult::Tolerated(rules::ROOM) => Some(0),
            _ => (copies && !touched.is_empty()).then_some(0),
        };
        if let Some(from) = from {
            record_operation_divergence(&mut self.verifier.divergent_files, step, parts, &files, from);
        }
        if let ReplyCheckResult::Mismatched(differences) = &verdict
            && self.verifier.checker.is_enabled(rules::AFTER)
            && !held.captured.overlaps_change
            && !touched.is_outside()
            && !touched.explains(differences)
            && let Some(outside) = self.detect_outside_change(step, parts, live, differences)?
        {
            files
                .iter()
                .for_each(|file| record_divergence(&mut self.verifier.divergent_files, *file, &outside));
            touched.merge(&outside);
        }
        let mut went = StepConformance::AsRecorded;
        let is_after = match &verdict {
            ReplyCheckResult::Mismatched(differences)
                if (self.verifier.checker.is_enabled(rules::AFTER)
                    || self.context.options.selected_steps.is_some())
                    && touched.explains(differences) =>
            {
                let is_other_way = |one: &Difference| {
                    matches!(
                        one.kind,
                        DifferenceKind::Status | DifferenceKind::Missing | DifferenceKind::Extra
                    )
                };
                went = match differences.iter().any(is_other_way) {
                    true => StepConformance::Differently,
                    false => StepConformance::WithOtherAttributes,
                };
                let reads = differences.iter().any(|one| one.kind == DifferenceKind::Data);
                !reads || self.is_data_unchanged_except(step, live, &touched)?
            }
            _ => false,
        };
        if is_after && went == StepConformance::Differently && !touched.is_outside() {
            // Later steps see the effects that are missing or new here.
            self.record_undone_effects(step, parts);
            self.verifier.leaves_open |= parts.operations.contains(&Operation::OPEN);
        }
        let state = match verdict {
            ReplyCheckResult::Mismatched(_)
                if *has_delayed_entry && outcome.is_success() && !self.context.options.strict =>
            {
                StepOutcome::Tolerated(rules::DELAYED)
            }
            ReplyCheckResult::Mismatched(differences)
                if step.asked.flavor == Flavor::RPCSEC_GSS.0
                    && self.issuer.signing.is_none()
                    && self.verifier.checker.are_only_access_rights(&differences) =>
            {
                StepOutcome::Tolerated(rules::CREDENTIALS)
            }
            // The file is still open: through an open in place of a delegation, or because its CLOSE was not sent.
            ReplyCheckResult::Mismatched(differences)
                if self.verifier.leaves_open && self.verifier.checker.are_only_client_busy(&differences) =>
            {
                StepOutcome::Tolerated(rules::DELEGATION)
            }
            ReplyCheckResult::Mismatched(_)
                if is_after
                    && touched.is_outside()
                    && !parts.effects.iter().any(|act| act.may_change_size_or_links()) =>
            {
                StepOutcome::Unreplayable(CHANGED_OUTSIDE_REASON.into())
            }
            ReplyCheckResult::Mismatched(_) if is_after => StepOutcome::Tolerated(rules::AFTER),
            ReplyCheckResult::Matched | ReplyCheckResult::Tolerated(_) if held.reason.is_some() => {
                StepOutcome::Substituted(held.reason.map_or("", PlanReason::code))
            }
            ReplyCheckResult::Matched if held.rewrites.has_dropped_attributes => {
                StepOutcome::Tolerated(rules::ATTRIBUTES_OFFERED)
            }
            ReplyCheckResult::Matched if held.rewrites.has_changed_wants => {
                StepOutcome::Tolerated(rules::DELEGATION)
            }
            ReplyCheckResult::Matched if held.delay_retries > 0 => StepOutcome::Tolerated(rules::DELAYED),
            ReplyCheckResult::Matched => StepOutcome::Matched,
            ReplyCheckResult::Tolerated(rule) => StepOutcome::Tolerated(rule),
            ReplyCheckResult::Unsupported(operation, status) => {
                StepOutcome::Unreplayable(format!("unsupported: the server has no {operation} ({status})"))
            }
            ReplyCheckResult::Mismatched(differences) => StepOutcome::Mismatched(differences),
        };
        Ok((state, went))
    }
}

/// Returns `true` if a step with this state has changed the same objects as in the capture.
fn has_recorded_effects(state: &StepOutcome) -> bool {
    match state {
        StepOutcome::Matched | StepOutcome::Substituted(_) => true,
        StepOutcome::Tolerated(rule) => {
            ![rules::DELAYED, rules::ROOM, rules::AFTER, rules::CREDENTIALS].contains(rule)
        }
        StepOutcome::Mismatched(differences) => {
            differences.iter().all(|one| one.kind == DifferenceKind::Relation)
        }
        StepOutcome::Skipped(_) | StepOutcome::Unreplayable(_) => false,
    }
}

/// Records changes by operations from index `from` on, which were executed only in the capture or only here. `files`
/// are all files of the step.
pub(super) fn record_operation_divergence(
    otherwise: &mut FxHashMap<u32, FileDivergence>,
    step: &TraceStep<'_>,
    parts: &CallDescription,
    files: &[u32],
    from: usize,
) {
    for (at, act) in parts.effects.iter().enumerate().skip(from) {
        let payloads = step.call.payloads.iter().filter(|payload| payload.operation as usize == at);
        let written = payloads.map(|payload| u64::from(payload.length)).sum();
        let touched = FileDivergence::from_operation(parts.operations.get(at).copied(), *act, written);
        let file = parts.files.get(at).filter(|file| files.contains(file) && !touched.affects_only_names());
        for file in file.map_or(files, std::slice::from_ref) {
            record_divergence(otherwise, *file, &touched);
        }
    }
}

/// Returns the difference of a Reply whose SEQUENCE has another slot than its Call. RFC 8881 section 18.46.3.
fn slot_difference(held: &WindowStep) -> Difference {
    let half = |value: &str| DifferenceSide { location: None, frame: None, value: Some(value.to_owned()) };
    Difference {
        kind: DifferenceKind::Result,
        operation: held.description.title().to_owned(),
        path: "SEQUENCE".into(),
        field: "",
        count: 1,
        a: half("the session, slot and sequence ID of the Call"),
        b: half("others"),
    }
}

/// Returns the difference of a Reply that lacks a required value or replaces a value given before.
fn identifier_difference(held: &WindowStep, values: [String; 2]) -> Difference {
    let [a, b] = values.map(|value| DifferenceSide { location: None, frame: None, value: Some(value) });
    Difference {
        kind: DifferenceKind::Identity,
        operation: held.description.title().to_owned(),
        path: String::new(),
        field: "",
        count: 1,
        a,
        b,
    }
}

/// Returns the listed directory, and `true` if the listing starts at its beginning.
fn listed_directory(step: &TraceStep<'_>, parts: &CallDescription) -> Option<(u32, bool)> {
    if !parts.lists(step.asked.find_description()) {
        return None;
    }
    let is_first = !step.call.slots.iter().any(|slot| slot.holds == MessageSlotKind::COOKIE);
    let at = parts.operations.iter().position(|operation| *operation == Operation::READDIR);
    let directory = match at {
        Some(at) => parts.files.get(at).copied(),
        None => {
            let slot = step.call.slots.iter().find(|slot| slot.holds == MessageSlotKind::FILEHANDLE);
            slot.map(|slot| slot.variable)
        }
    };
    Some((directory.unwrap_or(NONE), is_first))
}

/// Returns the hash that the file data of a Reply must have, if known.
fn expected_hash(key: u64, payload: &TracePayload, room: &mut Vec<u8>) -> Option<u128> {
    match payload.content {
        PayloadContentState::UNKNOWN => None,
        PayloadContentState::KEYED if payload.length > LONGEST => None,
        PayloadContentState::KEYED => {
            room.resize(payload.length as usize, 0);
            keyed_content::fill(key, payload.file, payload.offset, room);
            Some(hash(room))
        }
        _ => Some(u128::from_be_bytes(payload.hash)),
    }
}
