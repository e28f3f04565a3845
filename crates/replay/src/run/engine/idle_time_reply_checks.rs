//! Comparison of live Replies with the recorded ones, which determines the states of steps; states of steps without a
//! usable Reply.
//!
//! No Call depends on the result, so Replies are queued and checked while the transport is idle. The queue is limited;
//! when it is full, the oldest Reply is checked at once.

use std::io::{Read, Seek};

use nfsrdma_rpc::TransportReply;

use super::super::recovery;
use super::super::reply_statuses_and_grants::ReplyStatusesAndSessionGrants;
use super::super::run_error::ReplayRunError;
use super::super::step_outcome::StepOutcome;
use super::replay_engine::ReplayEngine;
use super::reply_check_queue::{LiveReply, QueuedReplyCheck, UncheckedLiveReplyFacts};
use super::step_window::{StepWindowEntry, unreadable_state};
use crate::trace::error::TraceError;
use crate::trace::step::{TraceSlotValueKind, TraceStep};

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Queues a Reply to be checked. Returns buffers for another step.
    pub(super) fn queue_check(
        &mut self,
        entry: Box<StepWindowEntry>,
        findings: UncheckedLiveReplyFacts,
        reply: &TransportReply<'_>,
    ) -> Result<Box<StepWindowEntry>, ReplayRunError> {
        let window_step = self.verification.unchecked_replies.push(entry, findings, reply);
        while self.verification.unchecked_replies.is_full() {
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
        self.count_step(entry, outcome);
        self.apply_late_differences(false);
        self.verification.unchecked_replies.recycle(queued);
        Ok(())
    }

    /// Applies differences that are only detected later. Those that missing calls of the capture may explain are counted
    /// as not compared.
    pub(super) fn apply_late_differences(&mut self, is_last: bool) {
        let mut differences = self.verification.checker.take_late_differences(is_last);
        if !differences.is_empty() && !self.context.options.strict {
            let missing = &self.verification.missing_calls;
            let (explained, others) = differences.into_iter().partition(|difference| missing.explain_late(difference));
            self.report.steps.leave_out_late_differences(explained, recovery::CALL_MISSING.code);
            differences = others;
        }
        if !differences.is_empty() {
            self.report.steps.apply_late_differences(differences);
        }
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
        if step.origin.latency_ns > 0 {
            let live_ns = u64::try_from(findings.latency.as_nanos()).unwrap_or(u64::MAX);
            let operation = self.report.steps.operation(entry.description.title());
            for (latencies, value) in operation.latencies.iter_mut().zip([step.origin.latency_ns, live_ns]) {
                latencies.add(value);
            }
        }
        Ok(outcome)
    }

    /// Binds the variables that the Reply gives, or returns the kind of the first one that is needed and missing.
    pub(super) fn bind_values(
        &mut self,
        step: &TraceStep<'_>,
        reply: LiveReply<'_>,
        outcome: &ReplyStatusesAndSessionGrants,
    ) -> Option<TraceSlotValueKind> {
        let (checker, recorded) = (&self.verification.checker, step.reply.head.0);
        self.call_builder.bind_values(step, reply, outcome, || {
            checker.has_same_layout(step.procedure.find_description(), recorded, reply.message)
        })
    }

    /// Returns the state of a step that was sent and cannot be sent again; it is unknown whether the server has
    /// executed it.
    pub(super) fn unanswered_state(
        &mut self,
        entry: &StepWindowEntry,
        reason: &str,
    ) -> Result<StepOutcome, ReplayRunError> {
        // Earlier Replies are checked before the effects of this step become uncertain.
        self.check_all()?;
        if let Some(slot) = entry.call.counts.slot {
            self.retire_slot(slot);
        }
        self.call_builder.values.mark_owners_doubtful(&entry.call.counts.seqids);
        if let (Some(tree), Some(step)) = (&mut self.verification.expected_tree, entry.step.trace_step()) {
            tree.mark_uncertain(&step, &entry.description);
        }
        let outcome = StepOutcome::Mismatched(vec![entry.missing_reply_difference(reason)]);
        if let Some(step) = entry.step.trace_step() {
            self.verification.mark_objects_uncertain(entry, &step, &outcome);
        }
        Ok(outcome)
    }

    /// Returns the state of a step that the server has executed without a usable Reply; its effects are unknown.
    pub(super) fn unknown_reply_state(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
    ) -> Result<StepOutcome, ReplayRunError> {
        self.check_all()?;
        if let Some(tree) = &mut self.verification.expected_tree {
            tree.mark_uncertain(step, &entry.description);
        }
        let outcome = StepOutcome::Substituted(recovery::REPLY_UNKNOWN.code);
        self.verification.mark_objects_uncertain(entry, step, &outcome);
        Ok(outcome)
    }
}
