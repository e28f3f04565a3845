//! Passes Replies and lost Calls on to the part that sent the Call.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_rpc::{CallTag, TransportReply, gss};

use super::super::recovery::MAX_RESENDS;
use super::super::run_error::ReplayRunError;
use super::super::step_outcome::StepOutcome;
use super::super::trace_recording::with_recorder;
use super::renewable_gss_context::GssReplyVerificationData;
use super::replay_engine::ReplayEngine;
use super::reply::CompletedStep;
use super::step_window::{BIND_INDEX, CONTEXT_INDEX, RECOVERY_INDEX, RENEWAL_INDEX, SUBSTITUTE_INDEX, window_index};
use crate::run_plan::reason::PlanReason;
use crate::trace::step::MessageCaptureCompleteness;

impl<R: Read + Seek> ReplayEngine<'_, R> {
    pub(super) fn handle_reply(&mut self, reply: &TransportReply<'_>) -> Result<(), ReplayRunError> {
        self.connections.record_reply();
        let Some(window_index) = self.scheduler.window.find(reply.tag) else {
            match window_index(reply.tag) {
                CONTEXT_INDEX => self.handle_setup_reply(reply),
                _ => self.verify_own_reply(reply),
            }
            return Ok(());
        };
        let mut entry = self.scheduler.window.take(window_index);
        let now = Instant::now();
        let Some((connection, sent)) = entry.call.in_flight.take() else { return Ok(()) };
        with_recorder(self.context.recorder, |recorder| recorder.record_reply(reply));
        self.scheduler.end_flight();
        self.unpark_connection(connection, 1);
        if self.call_builder.signing.is_some() {
            // The RPCSEC_GSS sequence window is shared by all connections.
            self.scheduler.unpark_each(1);
        }
        if let Some(started) = self.scheduler.pacer.started {
            self.report.timing.elapsed = now - started;
        }
        let signature = entry.call.signature.take();
        let completed = CompletedStep { window_index, window_step: entry, sent, replied: now };
        match signature {
            None => self.complete_call(completed, reply),
            Some(signature) => self.open(signature, reply, completed),
        }
    }

    /// Verifies the Reply to a signed Call and processes it without its protection.
    fn open(
        &mut self,
        signature: GssReplyVerificationData,
        reply: &TransportReply<'_>,
        completed: CompletedStep,
    ) -> Result<(), ReplayRunError> {
        if gss::reports_unknown_context(reply.cursor())
            && completed.window_step.resend.denials < MAX_RESENDS
            && self.is_re_established(signature, reply.connection)
        {
            self.resend_denied_step(completed.window_index, completed.window_step, reply.connection);
            return Ok(());
        }
        let Some(signing) = &mut self.call_builder.signing else {
            return self.complete_call(completed, reply);
        };
        let mut plain = std::mem::take(&mut signing.unprotected_reply);
        let result = signing.open(signature, reply.message, &mut plain);
        let outcome = match result {
            Ok(()) => self.complete_call(completed, &TransportReply { message: &plain, ..reply.clone() }),
            // It is unknown whether the server has executed the step.
            Err(error) => {
                let state = self.unanswered_state(&completed.window_step, &error.to_string())?;
                self.finish_step(completed.window_index, completed.window_step, state);
                Ok(())
            }
        };
        if let Some(signing) = &mut self.call_builder.signing {
            signing.unprotected_reply = plain;
        }
        outcome
    }

    /// Verifies the Reply to a Call that is not a step and processes it without its protection. An empty Reply is
    /// processed if it was forged.
    fn verify_own_reply(&mut self, reply: &TransportReply<'_>) {
        let Some(signature) =
            self.call_builder.signing.as_mut().and_then(|signing| signing.own_signatures.remove(&reply.tag))
        else {
            return self.complete_own_call(reply);
        };
        if gss::reports_unknown_context(reply.cursor()) && self.is_re_established(signature, reply.connection) {
            return self.resend_denied_control(reply);
        }
        let Some(signing) = &mut self.call_builder.signing else { return };
        let mut plain = std::mem::take(&mut signing.unprotected_reply);
        if signing.open(signature, reply.message, &mut plain).is_err() {
            plain.clear();
        }
        self.complete_own_call(&TransportReply { message: &plain, ..reply.clone() });
        if let Some(signing) = &mut self.call_builder.signing {
            signing.unprotected_reply = plain;
        }
    }

    /// Handles the verified Reply to a Call that is not a step.
    fn complete_own_call(&mut self, reply: &TransportReply<'_>) {
        match window_index(reply.tag) {
            SUBSTITUTE_INDEX => self.handle_substitute_reply(reply),
            RECOVERY_INDEX => self.handle_recovery_reply(reply),
            RENEWAL_INDEX => self.handle_renewal_reply(reply),
            BIND_INDEX => self.handle_bind_reply(reply),
            _ => {}
        }
    }

    /// Handles a Call whose connection was lost before its Reply: it is sent again, or fails after too many tries.
    pub(super) fn handle_lost_call(&mut self, tag: CallTag, reason: &str) -> Result<(), ReplayRunError> {
        let Some(window_index) = self.scheduler.window.find(tag) else {
            match window_index(tag) {
                RECOVERY_INDEX => self.handle_recovery_loss(tag),
                RENEWAL_INDEX => self.connections.leases.lose(tag),
                CONTEXT_INDEX => self.handle_setup_loss(tag),
                SUBSTITUTE_INDEX => self.lose_substitute(tag, true),
                _ => {}
            }
            return Ok(());
        };
        let is_exhausted =
            self.scheduler.window.get(window_index).is_none_or(|entry| entry.resend.count >= MAX_RESENDS);
        if is_exhausted || self.connections.is_failing() || self.report.end.is_interrupted {
            return self.handle_failed_call(tag, reason);
        }
        with_recorder(self.context.recorder, |recorder| recorder.record_lost(tag, None));
        let mut entry = self.scheduler.window.take(window_index);
        entry.call.in_flight = None;
        entry.resend.is_pending = true;
        entry.resend.count += 1;
        self.scheduler.end_flight();
        self.scheduler.put_back(window_index, entry, None);
        Ok(())
    }

    /// Handles a Call that will get no Reply.
    pub(super) fn handle_failed_call(&mut self, tag: CallTag, reason: &str) -> Result<(), ReplayRunError> {
        let Some(window_index) = self.scheduler.window.find(tag) else {
            match window_index(tag) {
                BIND_INDEX => self.lose_binding(tag, reason),
                RENEWAL_INDEX => self.connections.leases.lose(tag),
                CONTEXT_INDEX => self.handle_setup_loss(tag),
                SUBSTITUTE_INDEX => self.lose_substitute(tag, false),
                _ => {}
            }
            return Ok(());
        };
        with_recorder(self.context.recorder, |recorder| recorder.record_lost(tag, None));
        let mut entry = self.scheduler.window.take(window_index);
        self.scheduler.end_flight();
        if let Some((connection, _)) = entry.call.in_flight.take() {
            self.unpark_connection(connection, 1);
        }
        let reason = match entry.resend.count {
            0 => reason.to_owned(),
            resends => format!("{reason} (sent again {resends} times)"),
        };
        let mut state = self.unanswered_state(&entry, &reason)?;
        let completeness = entry.step.trace_step().map(|step| step.reply.completeness);
        if completeness.is_none_or(|completeness| completeness == MessageCaptureCompleteness::NOTHING) {
            state = StepOutcome::Substituted(PlanReason::ReplyLost.code());
        }
        self.finish_step(window_index, entry, state);
        Ok(())
    }
}
