//! Handles the Reply to a step and stores the values that later steps need.

use std::cell::LazyCell;
use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::nfs::v4::{Nfsstat4, Operation};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_rpc::{ReplyWriteChunkReceivedData, TransportReply};

use super::super::file_divergence::MAX_DIVERGENT_FILES;
use super::super::live_values::LiveServerSession;
use super::super::recovery::recoverable_client_state::{RenewedValue, SentCallWithReply};
use super::super::recovery::{self, MAX_RESENDS};
use super::super::reply_statuses_and_grants::{GrantedForeChannel, ImpossibleStatus, ReplyStatusesAndSessionGrants};
use super::super::root_and_attribute_rewriting::NO_DELEGATION_REASON;
use super::super::run_error::ReplayRunError;
use super::super::step_outcome::StepOutcome;
use super::connections::ConnectionSessionBinding;
use super::io_split::SplitIoProgress;
use super::listing_continuation::{has_delayed_entry, may_contain_delay};
use super::listing_parts::ListingProgress;
use super::live_call_builder::LiveCallBuilder;
use super::recorded_reply::{recorded_items, unprotected_reply};
use super::replay_engine::ReplayEngine;
use super::reply_check_queue::{LiveReply, UncheckedLiveReplyFacts};
use super::step_window::{StepWindowEntry, unreadable_state};
use crate::containment::ReplyIdentifierKinds;
use crate::seed::file_server_client::advice_for_status;
use crate::trace::live_reply_binding;
use crate::trace::step::{
    GssProtection, MessageCaptureCompleteness, SubstitutableMessageSlot, TraceSlotValueKind, TraceStep, VariableUseKind,
};
use crate::trace::value_substitution::{TracePayloadInMessage, captured_value};

/// A step that was in flight.
pub(super) struct CompletedStep {
    pub(super) window_index: u32,
    pub(super) window_step: Box<StepWindowEntry>,
    pub(super) sent: Instant,
    pub(super) replied: Instant,
}

/// What remains to be done for a step after its Reply.
pub(super) enum StepReplyDisposition {
    /// The step is to be sent again.
    Retry,
    /// The Call is to be sent again unchanged, once its connection is bound to the session.
    BindAndResend,
    /// The step has this state, whatever else the Reply contains.
    Finished(StepOutcome),
    Check(UncheckedLiveReplyFacts),
}

/// Status of a Call that is not the next on its slot.
const SEQ_MISORDERED: &str = enumerator_names::NFS4ERR_SEQ_MISORDERED;

impl LiveCallBuilder {
    /// Registers the identifiers that the server returned with the containment check, so that Calls may use them.
    pub(super) fn register_identifiers(&mut self, entry: &StepWindowEntry, reply: LiveReply<'_>) {
        if entry.call.reply_identifiers == ReplyIdentifierKinds::Nothing {
            return;
        }
        let items = TracePayloadInMessage::items(&entry.call.placed);
        self.containment.record_decoded_reply(Cursor::new(&entry.call.message).with_chunks(&items), reply.cursor());
    }

    /// Binds the variables that the Reply gives. Returns the kind of the first value that later Calls need and the
    /// Reply lacks. If both Replies have the same layout, they are read at their captured positions.
    pub(super) fn bind_values(
        &mut self,
        step: &TraceStep<'_>,
        reply: LiveReply<'_>,
        outcome: &ReplyStatusesAndSessionGrants,
        has_same_layout: impl FnOnce() -> bool,
    ) -> Option<TraceSlotValueKind> {
        if !step.reply.slots.iter().any(|slot| is_used(&slot)) {
            return None;
        }
        let is_in_place = step.reply.slots.iter().all(|slot| may_bind_later(&slot))
            && step.procedure.protection != GssProtection::INTEGRITY
            && has_same_layout();
        if is_in_place {
            for slot in step.reply.slots.iter() {
                let is_bound = self.values.bind(&slot, captured_value(reply.message, &slot));
                self.dropped_values += u64::from(!is_bound);
            }
            return None;
        }
        for slot in step.reply.slots.iter().filter(is_owner_of_lost_stateid) {
            let is_owner = |call: &SubstitutableMessageSlot| {
                call.operation == slot.operation && call.value_kind == slot.value_kind
            };
            if let Some(owner) = step.call.slots.iter().find(is_owner) {
                self.values.alias_owner(slot.variable, owner.variable);
            }
        }
        let (visitor, _) = live_reply_binding::visit_reply(&step.procedure, reply.cursor());
        let last = visitor.slot_fields.iter().rev().find(|field| field.value_kind == TraceSlotValueKind::COOKIE);
        let last = last.and_then(|field| live_reply_binding::field_value(reply.message, field));
        let open_stateid = visitor
            .slot_fields
            .iter()
            .find(|field| field.value_kind == TraceSlotValueKind::STATEID && !field.is_constant);
        let open_stateid = open_stateid
            .and_then(|field| Some((field.operation, live_reply_binding::field_value(reply.message, field)?)));
        let (values, ungranted, mut dropped) = (&mut self.values, &mut self.ungranted_delegations, 0);
        let substitutes = &mut self.substitutes;
        // Names in a directory are compared with its listing.
        let is_listing = step.reply.variable(TraceSlotValueKind::COOKIE).is_some();
        let mut missing = None;
        live_reply_binding::bind_slots(step, &visitor, reply.message, |slot, value| {
            // If the live directory lacks a name in this part, the next part continues where this one ended.
            let value = if slot.value_kind == TraceSlotValueKind::COOKIE { value.or(last) } else { value };
            // The live server did not grant the delegation; the open's own stateid stands in for it.
            let replacement = open_stateid.filter(|(operation, _)| {
                slot.value_kind == TraceSlotValueKind::STATEID && value.is_none() && *operation == slot.operation
            });
            // RFC 8881 section 18.35.3: eir_sequenceid of a confirmed client is ignored.
            let is_established = slot.value_kind == TraceSlotValueKind::CREATE_SEQUENCE
                && outcome.has_confirmed_client
                && values.has_create_sequence(slot.variable);
            let value = match replacement {
                _ if is_established => None,
                Some(_) if substitutes.active.contains(&slot.variable) => None,
                Some((_, stateid)) => {
                    if ungranted.len() < MAX_DIVERGENT_FILES {
                        ungranted.insert(slot.variable);
                    }
                    substitutes.missing.get_or_insert((slot.variable, slot.operation));
                    Some(stateid)
                }
                None => value,
            };
            if value.is_none() && !is_listing && is_required(slot) {
                missing.get_or_insert(slot.value_kind);
            }
            dropped += u64::from(!values.bind(slot, value));
        });
        self.dropped_values += dropped + visitor.dropped_fields;
        missing.filter(|_| outcome.is_success())
    }

    /// Takes over the values that a reply gives to variables of earlier steps, if the capture lacks the reply.
    fn renew_values(&mut self, entry: &StepWindowEntry, step: &TraceStep<'_>, reply: &TransportReply<'_>) {
        let (sent, placed) = (&entry.call.message[..], &entry.call.placed[..]);
        let exchange = SentCallWithReply { step, sent, placed, reply: reply.cursor() };
        for (variable, value) in self.client_state.values_renewed_by(&exchange) {
            match value {
                RenewedValue::StateidSeqid(seqid) => self.values.set_seqid(variable, seqid),
                RenewedValue::Client(id, sequence) => {
                    let id = id.to_be_bytes();
                    if self.values.get(variable) != Some(&id[..]) {
                        self.dropped_values += u64::from(!self.values.set_value(variable, &id));
                        sequence.into_iter().for_each(|next| self.values.set_create_sequence(variable, next));
                    }
                }
            }
        }
    }

    /// Opens a session of the live server with the granted number of slots.
    fn begin_session(&mut self, step: &TraceStep<'_>, granted: GrantedForeChannel, captured: GrantedForeChannel) {
        if let Some(variable) = step.reply.variable(TraceSlotValueKind::SESSION) {
            let session = LiveServerSession::new(granted.slots)
                .with_limits(granted.limits, captured.limits)
                .with_holder(step.caller.client, step.procedure.minor_version);
            self.values.open_session(variable, session);
        }
        if let Some(variable) = step.call.variable(TraceSlotValueKind::CREATE_SEQUENCE) {
            self.values.increment_create_sequence(variable);
        }
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Handles the verified Reply to a step, or to a piece of it; queues the next piece or completes the step.
    pub(super) fn complete_call(
        &mut self,
        mut completed: CompletedStep,
        reply: &TransportReply<'_>,
    ) -> Result<(), ReplayRunError> {
        let Some(piece) = completed.window_step.rewrites.piece else {
            return self.complete_listing(completed, reply);
        };
        completed.sent = piece.first_sent.unwrap_or(completed.sent);
        match self.handle_piece_reply(&mut completed.window_step, piece, reply) {
            SplitIoProgress::NextPiece => {
                self.scheduler.put_back(completed.window_index, completed.window_step, None);
                Ok(())
            }
            // The data that was read is kept in case the last piece is sent again.
            SplitIoProgress::Failed => self.complete_step(completed, reply),
            SplitIoProgress::Joined(message) => {
                let data = std::mem::take(&mut completed.window_step.read_data);
                let payloads = match data.is_empty() && reply.payloads.items().is_empty() {
                    true => ReplyWriteChunkReceivedData::None,
                    false => [&data[..]].into_iter().collect(),
                };
                self.complete_step(completed, &TransportReply { message: &message, payloads, ..reply.clone() })
            }
        }
    }

    /// Handles the Reply to a step that is not split; queues the next READDIR of a listing or completes the step.
    fn complete_listing(
        &mut self,
        mut completed: CompletedStep,
        reply: &TransportReply<'_>,
    ) -> Result<(), ReplayRunError> {
        let progress = self.handle_listing_reply(&mut completed.window_step, completed.sent, reply)?;
        if let Some(listing) = &completed.window_step.rewrites.listing {
            completed.sent = listing.first_sent;
        }
        match progress {
            ListingProgress::NextPart => {
                self.scheduler.put_back(completed.window_index, completed.window_step, None);
                Ok(())
            }
            ListingProgress::Unchanged => self.complete_step(completed, reply),
            ListingProgress::Joined(message) => {
                let payloads = ReplyWriteChunkReceivedData::None;
                self.complete_step(completed, &TransportReply { message: &message, payloads, ..reply.clone() })
            }
        }
    }

    /// Handles the Reply to a step, joined from all its pieces.
    fn complete_step(
        &mut self,
        CompletedStep { window_index, window_step: mut entry, sent, replied: now }: CompletedStep,
        reply: &TransportReply<'_>,
    ) -> Result<(), ReplayRunError> {
        let stored_step = std::mem::take(&mut entry.step);
        let disposition = match stored_step.trace_step() {
            Some(step) => self.process_reply(&mut entry, &step, reply)?,
            None => StepReplyDisposition::Finished(unreadable_state()),
        };
        entry.step = stored_step;
        if !matches!(disposition, StepReplyDisposition::Retry | StepReplyDisposition::BindAndResend) {
            self.scheduler.pacer.record_completion(&entry, now);
        }
        match disposition {
            StepReplyDisposition::Check(mut findings) => {
                (findings.sent, findings.latency) = (Some(sent), now - sent);
                let slot = entry.captured.slot;
                let mut free_entry = self.queue_check(entry, findings, reply)?;
                free_entry.captured.slot = slot;
                self.release_after_substitute(window_index, free_entry, reply.connection);
            }
            StepReplyDisposition::Finished(state) => {
                // Earlier Replies are checked before its effects become uncertain.
                self.check_all()?;
                self.record_undone(&entry, &state);
                self.finish_step(window_index, entry, state);
            }
            StepReplyDisposition::Retry => self.scheduler.delay(window_index, entry, now),
            StepReplyDisposition::BindAndResend => {
                entry.resend.was_unbound = true;
                // SEQUENCE failed, so that the Call still has its slot.
                if let Some(slot) = entry.call.counts.slot {
                    self.call_builder.values.set_slot_state(slot, true, false);
                }
                self.resend_denied_step(window_index, entry, reply.connection);
            }
        }
        Ok(())
    }

    /// Extracts from a Reply everything that later steps need.
    pub(super) fn process_reply(
        &mut self,
        entry: &mut StepWindowEntry,
        step: &TraceStep<'_>,
        reply: &TransportReply<'_>,
    ) -> Result<StepReplyDisposition, ReplayRunError> {
        let procedure = step.procedure.find_description();
        let (outcome, structure) = ReplyStatusesAndSessionGrants::with_structure(procedure, reply.cursor());
        let operations = &entry.description.operations;
        let violation = structure.and_then(|structure| structure.violation(operations));
        if let (Some(violation), false) = (violation, entry.rewrites.is_substituted) {
            self.report.protocol.count_violation(format!("{violation}: {}", entry.description.title()));
        }
        let is_echo = entry
            .call
            .counts
            .slot
            .zip(outcome.sequence)
            .is_none_or(|(slot, sequence)| self.call_builder.values.matches_sequence(slot, sequence));
        self.count_sequences(&entry.call.counts, &outcome);
        let message = unprotected_reply(step);
        let recorded = LazyCell::new(|| recorded_outcome(step, &message));
        let was_delayed_in_capture =
            (step.procedure.program == Program::NLM.0 || may_contain_delay(&message)) && recorded.is_delayed();
        if self.needs_completion(entry, step, reply.connection, &outcome, || recorded.last_status()) {
            return Ok(StepReplyDisposition::Retry);
        }
        if !outcome.is_delayed() {
            self.connections.delayed_since = None;
        } else if !was_delayed_in_capture && self.may_retry_delayed(entry) {
            self.report.delayed += 1;
            return Ok(StepReplyDisposition::Retry);
        }
        let is_listing = entry.description.operations.contains(&Operation::READDIR);
        let has_recorded_delayed_entry = is_listing && has_delayed_entry(&message, Cursor::new(&message));
        if is_listing
            && !has_recorded_delayed_entry
            && has_delayed_entry(reply.message, reply.cursor())
            && self.may_retry_delayed(entry)
        {
            self.report.delayed += 1;
            return Ok(StepReplyDisposition::Retry);
        }
        if outcome.is_uncached() && entry.resend.count > 0 {
            let is_repeatable = recovery::is_repeatable(&entry.description.operations);
            return Ok(match is_repeatable && entry.delay_retries < self.context.options.max_delay_retries {
                true => StepReplyDisposition::Retry,
                false => StepReplyDisposition::Finished(self.unknown_reply_state(entry, step)?),
            });
        }
        if outcome.is_connection_unbound()
            && entry.resend.denials < MAX_RESENDS
            && !recorded.is_connection_unbound()
            && let Some(session) = step.call.variables(TraceSlotValueKind::SESSION).next()
            && self.connections.queue_binding(reply.connection, session, step.procedure.minor_version)
        {
            // The run requests no state protection for Calls that it does not sign. SEQUENCE then binds the connection,
            // but DESTROY_SESSION without it is sent on a connection of the session (RFC 8881 section 18.37.3).
            let is_destruction = entry.description.operations.first() == Some(&Operation::DESTROY_SESSION);
            if entry.call.signature.is_none() && !is_destruction {
                self.report.protocol.count_violation(
                    "NFS4ERR_CONN_NOT_BOUND_TO_SESSION of a client without state protection (RFC 8881 section \
                     15.1.11.6)"
                        .to_owned(),
                );
            }
            return Ok(StepReplyDisposition::BindAndResend);
        }
        let is_done_twice = entry.resend.count > 0
            && recovery::failed_by_first_execution(
                procedure,
                &entry.description.operations,
                entry.resend.renewals > 0,
                &outcome,
            )
            && recorded.is_success();
        if !is_done_twice && self.needs_recovery(entry, step, reply.connection, &outcome, || recorded.last_status()) {
            return Ok(StepReplyDisposition::Retry);
        }
        if self.has_uncounted_error(entry, &outcome, || recorded.last_status()) {
            return Ok(StepReplyDisposition::Retry);
        }
        // NFSv3 has the same numbers. RFC 1813 section 2.6, RFC 8881 section 15.1.4.
        if let Some(status @ (Nfsstat4::NFS4ERR_NOSPC | Nfsstat4::NFS4ERR_ROFS | Nfsstat4::NFS4ERR_DQUOT)) =
            outcome.last_status().map(Nfsstat4)
            && recorded.last_status() != Some(status.0)
        {
            self.report_export_status(entry, status);
        }
        if let Some(state) = self.call_builder.session_limit_state(entry, &outcome, || recorded.last_status()) {
            // Operations before the one that exceeds the limit were executed (RFC 8881 section 2.10.6.4).
            let executed_count = outcome.statuses.len().saturating_sub(1);
            if let Some(tree) = &mut self.verification.expected_tree {
                tree.mark_effects_uncertain(step, &entry.description, executed_count);
            }
            return Ok(StepReplyDisposition::Finished(state));
        }
        let is_unbound = entry.call.reply_identifiers < ReplyIdentifierKinds::State
            && outcome.fore_channel.is_none()
            && step.reply.slots.iter().all(|slot| may_bind_later(&slot));
        let missing = match is_unbound {
            true => {
                let used_slots = step.reply.slots.iter().filter(is_used);
                self.verification.pending_variables.extend(used_slots.map(|slot| slot.variable));
                None
            }
            false => {
                self.call_builder.register_identifiers(entry, LiveReply::from(reply));
                self.bind_values(step, LiveReply::from(reply), &outcome)
            }
        };
        if let Some(granted) = outcome.fore_channel {
            let captured = recorded.fore_channel.unwrap_or(granted);
            self.call_builder.begin_session(step, granted, captured);
            let session = step.reply.variable(TraceSlotValueKind::SESSION).filter(|_| outcome.has_backchannel);
            if let Some(session) = session {
                let binding = ConnectionSessionBinding::of_backchannel(session, step.procedure.minor_version);
                let is_recorded = self.connections.record_binding(reply.connection, binding);
                self.report.dropped_values += u64::from(!is_recorded);
            }
        }
        if entry.rewrites.is_substituted {
            let failed = outcome.statuses.len().saturating_sub(1);
            if let Some((status, operation)) = outcome.last_status().zip(entry.description.operations.get(failed))
                && status != 0
                && recorded.is_success()
            {
                // DELEGRETURN is sent as CLOSE.
                let operation = if *operation == Operation::DELEGRETURN { Operation::CLOSE } else { *operation };
                let what = format!("{operation} in place of {}", entry.description.title());
                let minor = step.procedure.minor_version;
                self.report.protocol.add_own_status(&what, (minor, operation), Nfsstat4(status));
            }
            self.call_builder.substitute_closed(step);
            return Ok(StepReplyDisposition::Finished(StepOutcome::Skipped(NO_DELEGATION_REASON.into())));
        }
        if step.reply.completeness != MessageCaptureCompleteness::WHOLE {
            self.call_builder.renew_values(entry, step, reply);
        }
        let is_other_lock =
            self.verification.locks.has_changed_stateid(step, &entry.description, outcome.lock_stateid_other);
        self.call_builder.record_state(entry, step, reply);
        let may_grant = |operation: &Operation| matches!(*operation, Operation::OPEN | Operation::GET_DIR_DELEGATION);
        if entry.description.operations.iter().any(may_grant) {
            self.verification.leaves_open |= self.call_builder.record_substitute_request(entry, step, reply);
        }
        if is_done_twice {
            self.call_builder.record_destroyed(step, &entry.description.operations);
        }
        if entry.description.operations.contains(&Operation::DESTROY_SESSION) && (outcome.is_success() || is_done_twice)
        {
            let sessions = step.call.variables(TraceSlotValueKind::SESSION);
            sessions.for_each(|session| {
                self.connections.remove_bindings(session);
                self.call_builder.values.end_lease(session);
            });
        }
        let is_of_server = is_done_twice || entry.resend.renewals > 0;
        let (minor, operations) = (step.procedure.minor_version, &entry.description.operations);
        let error = outcome.client_error(minor, operations);
        let has_recorded_fault = recorded.client_error(minor, operations).is_some();
        let fault = error.map(|(name, _)| name);
        // The server has confirmed every earlier Call on the slot.
        let is_false_error = matches!(fault, Some(SEQ_MISORDERED))
            && entry.resend.count == 0
            && entry.call.counts.slot.is_some_and(|slot| self.call_builder.values.is_slot_certain(slot));
        if let Some((fault, Some(impossible))) = error.filter(|_| !has_recorded_fault) {
            let ImpossibleStatus { operation, section } = impossible;
            let operation = operation.map_or("COMPOUND", Operation::name);
            self.report.protocol.count_violation(format!("{fault} to {operation}, which cannot have it ({section})"));
        } else if is_false_error && !has_recorded_fault {
            self.report.protocol.count_violation(format!(
                "{SEQ_MISORDERED}, though the call was the next on its slot (RFC 8881 section 2.10.6.1)"
            ));
        } else if self.report.protocol.violations.is_empty()
            && let Some(fault) = fault.filter(|_| !has_recorded_fault && !is_of_server)
        {
            // After a violation by the server the state of both need not agree.
            let [call, _] = entry.id.frames;
            let error = format!("{} of frame {call}: {fault}", entry.description.title());
            self.report.protocol.add_own(error);
        }
        Ok(StepReplyDisposition::Check(UncheckedLiveReplyFacts {
            outcome,
            was_delayed_in_capture,
            is_echo,
            is_unbound,
            missing,
            is_other_lock,
            is_done_twice,
            has_delayed_entry: has_recorded_delayed_entry,
            ..UncheckedLiveReplyFacts::default()
        }))
    }

    /// Returns `true` if the server answers NFS4ERR_BAD_SEQID because it has not counted an error, and the step is to
    /// be sent again with a seqid that it may expect. RFC 7530 section 9.1.7.
    fn has_uncounted_error(
        &mut self,
        entry: &StepWindowEntry,
        outcome: &ReplyStatusesAndSessionGrants,
        recorded_status: impl FnOnce() -> Option<u32>,
    ) -> bool {
        const BAD_SEQID: Nfsstat4 = Nfsstat4::NFS4ERR_BAD_SEQID;
        if outcome.last_status() != Some(BAD_SEQID.0)
            || entry.resend.count > 0
            || recorded_status() == Some(BAD_SEQID.0)
        {
            return false;
        }
        let operation = outcome.statuses.len().saturating_sub(1) as u32;
        let (values, seqids) = (&mut self.call_builder.values, &entry.call.counts.seqids);
        let Some(error) = values.uncounted_error(operation, seqids) else { return false };
        let (is_rewound, is_first) = values.rewind_seqid(operation, seqids);
        if !is_rewound {
            // Later errors may follow from this one.
            values.mark_owners_doubtful(seqids);
        }
        if is_first {
            self.report.protocol.count_violation(format!(
                "{BAD_SEQID} to {}: its seqids follow those of the calls before, but the server has not counted one \
                 that it answered with {error} (RFC 7530 section 9.1.7)",
                entry.description.title()
            ));
        }
        is_rewound
    }

    /// Reports once that the export is read-only, full, or over quota.
    fn report_export_status(&mut self, entry: &StepWindowEntry, status: Nfsstat4) {
        let Some(advice) = advice_for_status(status) else { return };
        if !self.report.refused.iter().any(|refusal| refusal.starts_with(advice)) {
            self.report.add_refusal(format!("{advice} (first seen in {})", entry.description.title()));
        }
    }

    /// Returns `true` if a step is to be retried as the server asked.
    fn may_retry_delayed(&mut self, entry: &StepWindowEntry) -> bool {
        let delayed_since = *self.connections.delayed_since.get_or_insert_with(Instant::now);
        if delayed_since.elapsed() > self.context.options.delay_timeout {
            let seconds = delayed_since.elapsed().as_secs();
            let reason = format!(
                "{}: server busy for {seconds} s (NFS4ERR_DELAY, NFS4ERR_GRACE, NFS3ERR_JUKEBOX); check its state and the end \
                 of its grace period",
                self.context.target.name
            );
            self.mark_unreachable(&reason);
            return false;
        }
        let may_retry =
            entry.delay_retries < self.context.options.max_delay_retries >> self.connections.futile_retries.min(6);
        self.connections.futile_retries += u32::from(!may_retry);
        may_retry
    }
}

/// Returns `true` if the run uses the value of a reply slot. Counts that the session keeps itself, and the session ID
/// that SEQUENCE repeats, give nothing new.
fn is_used(slot: &SubstitutableMessageSlot) -> bool {
    match slot.value_kind {
        TraceSlotValueKind::STATEID_SEQID | TraceSlotValueKind::CREATE_SEQUENCE => true,
        TraceSlotValueKind::SESSION => slot.part == VariableUseKind::DEFINED,
        kind => !kind.is_count(),
    }
}

/// Returns `true` for a slot that names the owner of a stateid which a lost reply gave.
fn is_owner_of_lost_stateid(slot: &SubstitutableMessageSlot) -> bool {
    slot.place == 0 && matches!(slot.value_kind, TraceSlotValueKind::OPEN_SEQID | TraceSlotValueKind::LOCK_SEQID)
}

/// Returns `true` if the slot's value can be bound later, before a Call is sent with it.
fn may_bind_later(slot: &SubstitutableMessageSlot) -> bool {
    matches!(
        slot.value_kind,
        TraceSlotValueKind::FILEHANDLE | TraceSlotValueKind::CHANGE | TraceSlotValueKind::WRITE_VERIFIER
    ) || !is_used(slot)
}

/// Returns `true` if a Reply must give the slot's value, which later Calls use. Stateids are not required: a server
/// need not grant a delegation, or may copy synchronously.
fn is_required(slot: &SubstitutableMessageSlot) -> bool {
    let is_name = matches!(
        slot.value_kind,
        TraceSlotValueKind::FILEHANDLE | TraceSlotValueKind::CLIENTID | TraceSlotValueKind::SESSION
    );
    is_name && slot.part == VariableUseKind::DEFINED
}

fn recorded_outcome(step: &TraceStep<'_>, message: &[u8]) -> ReplyStatusesAndSessionGrants {
    let items = recorded_items(step, |_| None);
    ReplyStatusesAndSessionGrants::of(step.procedure.find_description(), Cursor::new(message).with_chunks(&items))
}
