//! The run of one client copy: its five parts, and common actions that involve several of them.

use std::cell::RefCell;
use std::fmt;
use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::{CallTag, ConnectTarget, OutgoingRpcCall, RpcClientConnectionId, SubmitError};
use rustc_hash::FxHashSet;

use super::super::call_operations_and_files::CallOperationsAndFiles;
use super::super::live_values::CallSlotAndSeqids;
use super::super::nfs40_callback_server::CallbackServer;
use super::super::options::ReplayOptions;
use super::super::reply_statuses_and_grants::ReplyStatusesAndSessionGrants;
use super::super::report::ReplayReport;
use super::super::run_error::ReplayRunError;
use super::super::step_outcome::StepOutcome;
use super::super::trace_recording::OptionalReplayRecorder;
use super::connections::ReplayConnectionPool;
use super::live_call_builder::LiveCallBuilder;
use super::renewable_gss_context::GssUnsignedCallReason;
use super::scheduler::{StepScheduler, step_id};
use super::send_result::NonStepCallSubmitResult;
use super::step_window::StepWindowEntry;
use super::verification::LiveReplyVerificationState;
use crate::containment::ContainmentCheckedTransport;
use crate::seed::SeededTree;
use crate::trace::reader::ReplayTraceReader;

/// Extra bytes that a live Reply may need compared with the recorded one, for longer filehandles and owners.
pub(super) const REPLY_HEADROOM_BYTES: u32 = 1024;

/// Settings that all parts of a run read.
pub(super) struct ReplayClientCopyContext<'r> {
    /// Number of this client copy, from 0.
    pub(super) number: u32,
    /// Suffix that makes client owner strings unique per run and per copy.
    pub(super) tag: String,
    pub(super) target: &'r ConnectTarget,
    pub(super) seeded: &'r SeededTree,
    pub(super) options: &'r ReplayOptions,
    pub(super) callbacks: &'r CallbackServer,
    /// Shared by all copies.
    pub(super) recorder: &'r RefCell<OptionalReplayRecorder>,
}

impl ReplayClientCopyContext<'_> {
    /// Returns `true` if the Reply to a Call sent at this time is overdue.
    pub(super) fn is_overdue(&self, sent: Instant, now: Instant) -> bool {
        now.saturating_duration_since(sent) > self.options.timeout
    }

    /// Returns the reason for giving up a Call whose Reply is overdue.
    pub(super) fn timeout_text(&self) -> String {
        format!("no reply within {} s", self.options.timeout.as_secs_f64())
    }
}

/// The run of one client copy.
pub(super) struct ReplayEngine<'r, R> {
    pub(super) context: ReplayClientCopyContext<'r>,
    /// Contents of payloads, which Calls and the verification of Replies need.
    pub(super) contents: &'r mut ReplayTraceReader<R>,
    pub(super) scheduler: StepScheduler<'r, R>,
    pub(super) call_builder: LiveCallBuilder,
    pub(super) connections: ReplayConnectionPool,
    pub(super) verification: LiveReplyVerificationState<'r>,
    pub(super) report: ReplayReport,
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Submits a Call that is not a step, signed if `client` is given and signs its Calls.
    pub(super) fn submit_own(
        &mut self,
        connection: RpcClientConnectionId,
        (xid, tag): (Xid, CallTag),
        (message, client): (&[u8], Option<u32>),
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> NonStepCallSubmitResult {
        let signing = self.call_builder.signing.as_mut().zip(client);
        let signed = signing.map(|(signing, client)| signing.sign_own(client, tag, message)).transpose();
        let sent = match signed {
            Ok(signed) => signed.flatten().unwrap_or(message),
            Err(GssUnsignedCallReason::NotYet) => return NonStepCallSubmitResult::NotYet,
            Err(GssUnsignedCallReason::Never(reason)) => return NonStepCallSubmitResult::Unsigned(reason),
        };
        let call = OutgoingRpcCall::without_payloads(xid, tag, sent, REPLY_HEADROOM_BYTES);
        match self.call_builder.containment.check_call(call).map(|call| transport.submit(connection, &call)) {
            Ok(Ok(_)) => NonStepCallSubmitResult::Sent,
            Ok(Err(SubmitError::Busy(_))) => NonStepCallSubmitResult::NotYet,
            Ok(Err(SubmitError::Refused(_))) => NonStepCallSubmitResult::Lost,
            Err(escape) => NonStepCallSubmitResult::Escapes(escape.to_string()),
        }
    }

    /// Queues at most `max_count` of the steps that wait for capacity on a connection.
    pub(super) fn unpark_connection(&mut self, connection: RpcClientConnectionId, max_count: usize) {
        if let Some(number) = self.connections.connection_index.get(&connection) {
            self.scheduler.unpark(*number, max_count);
        }
    }

    /// Records the final state of a step and releases its window entry.
    pub(super) fn finish_step(&mut self, window_index: u32, entry: Box<StepWindowEntry>, state: StepOutcome) {
        let is_executed = match &state {
            StepOutcome::Mismatched(_) | StepOutcome::Substituted(_) | StepOutcome::Unreplayable(_) => true,
            // The other operations of a DELEGRETURN that was sent as a CLOSE are not compared.
            StepOutcome::Skipped(_) => entry.rewrites.is_substituted,
            StepOutcome::Matched | StepOutcome::Tolerated(_) => false,
        };
        if let (Some(step), true) = (entry.step.trace_step(), is_executed) {
            self.verification.mark_objects_uncertain(&entry, &step, &state);
        }
        self.count_step(&entry, state);
        self.scheduler.release(window_index, entry);
    }

    /// Counts a step in its final state.
    pub(super) fn count_step(&mut self, entry: &StepWindowEntry, outcome: StepOutcome) {
        let is_mismatch = matches!(outcome, StepOutcome::Mismatched(_));
        self.report.steps.count(entry.id, entry.description.title(), outcome);
        if is_mismatch {
            self.name_file(entry);
        }
    }

    /// Gives mismatches without a path the path of their step, which is read again: their difference was detected after
    /// other steps.
    pub(super) fn name_late_mismatches(&mut self, parts: &mut CallOperationsAndFiles) -> Result<(), ReplayRunError> {
        let unnamed = self.report.steps.mismatches.iter().filter(|mismatch| mismatch.file.is_none());
        let mut unnamed: FxHashSet<_> = unnamed.map(|mismatch| mismatch.step).collect();
        self.scheduler.steps.rewind();
        while !unnamed.is_empty()
            && let Some(step) = self.scheduler.steps.next_step()?
        {
            let id = step_id(&step);
            if unnamed.remove(&id)
                && let Some(mismatch) = self.report.steps.unnamed_mismatch(id)
            {
                parts.read(&step, &mut self.scheduler.titles);
                let difference = mismatch.differences.first();
                mismatch.file = self.verification.path_of_difference(&step, parts, difference, self.contents);
            }
        }
        Ok(())
    }

    /// Gives the mismatch of a step the path that its first difference is about, if it is the first of its group.
    pub(super) fn name_file(&mut self, entry: &StepWindowEntry) {
        if let Some(mismatch) = self.report.steps.unnamed_mismatch(entry.id)
            && let Some(step) = entry.step.trace_step()
        {
            let difference = mismatch.differences.first();
            mismatch.file = self.verification.path_of_difference(&step, &entry.description, difference, self.contents);
        }
    }

    /// Frees a live slot and wakes the steps that wait for it.
    pub(super) fn free_slot(&mut self, slot: (u32, u32), is_counted: bool) {
        self.call_builder.values.set_slot_state(slot, false, is_counted);
        self.scheduler.wake_slot(slot);
    }

    /// Retires a live slot whose Call was given up; steps that wait for it use another.
    pub(super) fn retire_slot(&mut self, slot: (u32, u32)) {
        self.call_builder.values.mark_slot_doubtful(slot);
        self.scheduler.wake_slot(slot);
    }

    /// Updates the sequence IDs of slots and the seqids of owners.
    pub(super) fn count_sequences(&mut self, used: &CallSlotAndSeqids, outcome: &ReplyStatusesAndSessionGrants) {
        if let Some(slot) = used.slot {
            self.free_slot(slot, outcome.is_sequenced());
        }
        for (is_lock, owner, operation, seqid) in &used.seqids {
            if let Some(status) = outcome.statuses.get(*operation as usize) {
                self.call_builder.values.update_owner_seqid(*is_lock, *owner, *seqid, *status);
            }
        }
    }

    /// Marks a connection as lost; the next step on it opens a new one.
    pub(super) fn mark_connection_lost(&mut self, connection: RpcClientConnectionId) {
        if let Some(number) = self.connections.mark_lost(connection, Instant::now(), self.context.options.timeout) {
            self.scheduler.unpark(number, usize::MAX);
        }
    }

    /// Marks the server as unreachable: no more Calls are sent, and the run ends with a report.
    pub(super) fn mark_unreachable(&mut self, reason: &dyn fmt::Display) {
        self.connections.failed_connections = u32::MAX;
        // A recovery cannot continue.
        self.connections.reclaim = None;
        self.report.end.unreachable.get_or_insert_with(|| reason.to_string());
    }
}
