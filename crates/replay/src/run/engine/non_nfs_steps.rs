//! Steps of programs other than NFS. Each is called synchronously; nothing else proceeds until it is answered.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::rpc::Program;
use nfsrdma_rpc::{CallTag, OutgoingRpcCall, TransportReply};

use super::super::step_outcome::StepOutcome;
use super::super::trace_recording::{CallbackOrAuxiliaryCallAndReply, CallbackOrAuxiliaryStream, with_recorder};
use super::replay_engine::{REPLY_HEADROOM_BYTES, ReplayEngine};
use super::reply::StepReplyDisposition;
use super::send::replacement_header;
use super::send_result::StepSendObstacle;
use super::step_window::{StepWindowEntry, unreadable_state};
use crate::auxiliary_programs::{
    AuxiliaryProgramError, AuxiliaryRpcConnection, AuxiliaryRpcConnections, reroot_mount_path,
};
use crate::trace::step::TraceStep;

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Calls the program of a step. Returns the outcome of the step, or the reason for a retry.
    pub(super) fn call_auxiliary(&mut self, entry: &mut StepWindowEntry) -> StepSendObstacle {
        if let Err(error) = self.check_all() {
            return error.into();
        }
        let Some(mut auxiliary) = self.call_builder.auxiliary.take() else {
            return StepSendObstacle::unreplayable("other-program: a call of another program is in progress");
        };
        let stored_step = std::mem::take(&mut entry.step);
        let obstacle = match stored_step.trace_step() {
            Some(step) => {
                self.call_program(&step, entry, &mut auxiliary).map_or_else(|unsent| unsent, StepSendObstacle::Finished)
            }
            None => unreadable_state().into(),
        };
        entry.step = stored_step;
        self.call_builder.auxiliary = Some(auxiliary);
        obstacle
    }

    fn call_program(
        &mut self,
        step: &TraceStep<'_>,
        entry: &mut StepWindowEntry,
        auxiliary: &mut AuxiliaryRpcConnections,
    ) -> Result<StepOutcome, StepSendObstacle> {
        let xid = auxiliary.next_xid();
        let (program, version) = (Program(step.procedure.program), step.procedure.version);
        let is_emitted = self.call_builder.emit_call(step, replacement_header(step, xid), xid, None);
        if let Some(reason) = self.call_builder.missing_value_reason(is_emitted) {
            return Err(StepSendObstacle::unreplayable(reason));
        }
        if !self.call_builder.placed.is_empty() {
            return Err(StepSendObstacle::unreplayable("payloads: more than a call can carry"));
        }
        let mut message = std::mem::take(&mut self.call_builder.call_buffer);
        // The recording has the captured path, so that it can be replayed below another directory.
        let captured = reroot_mount_path(&message, &self.context.seeded.path)
            .or_else(|| auxiliary.replace_nlm_caller(&message))
            .map(|rewritten| std::mem::replace(&mut message, rewritten));
        let expected = step.needs.message_bytes.saturating_add(REPLY_HEADROOM_BYTES);
        let call = OutgoingRpcCall::without_payloads(xid, CallTag(xid.0.into()), &message, expected);
        let call = self.call_builder.containment.check_call(call).map_err(StepSendObstacle::unreplayable)?;
        self.call_builder.values.swap_counts(&mut entry.call.counts);
        let client = step.caller.client;
        let program = (program, version);
        let mut connection =
            auxiliary.lane(client, program).map_err(|error| self.retry_or_give_up(program, auxiliary, &error))?;
        let sent = Instant::now();
        self.scheduler.pacer.started.get_or_insert(sent);
        self.report.calls += 1;
        entry.call.reply_identifiers = call.reply_identifiers();
        let recorder = self.context.recorder;
        let mut recorded_reply = None;
        let mut process = |reply: &TransportReply<'_>| {
            with_recorder(recorder, |_| recorded_reply = Some((reply.message.to_vec(), Instant::now())));
            self.call_builder.containment.record_reply(call.call(), reply.cursor());
            match self.process_reply(entry, step, reply)? {
                StepReplyDisposition::Retry | StepReplyDisposition::BindAndResend => Err(StepSendObstacle::RetryLater),
                StepReplyDisposition::Finished(outcome) => Ok(outcome),
                StepReplyDisposition::Check(mut findings) => {
                    findings.latency = sent.elapsed();
                    Ok(self.checked_outcome(entry, step, reply.into(), &findings)?)
                }
            }
        };
        let mut result = auxiliary.call(connection, &call, &mut process);
        // A program that restarts closes its connections, and may get another port.
        if let Err(AuxiliaryProgramError::Absent(_)) = result {
            match auxiliary.lane(client, program) {
                Ok(replacement) => {
                    connection = replacement;
                    result = auxiliary.call(connection, &call, &mut process);
                }
                Err(error) => return Err(self.retry_or_give_up(program, auxiliary, &error)),
            }
        }
        // It may accept a connection and close it until it has started.
        if let Err(error @ AuxiliaryProgramError::Absent(_)) = &result
            && let Some(retry_at) = auxiliary.schedule_retry(program, error)
        {
            return Err(StepSendObstacle::UnreachableUntil(retry_at));
        }
        if let AuxiliaryRpcConnection { number, local: Some(caller), peer: callee, .. } = connection {
            let (reply, received) = recorded_reply.map_or((None, sent), |(reply, received)| (Some(reply), received));
            let exchange = CallbackOrAuxiliaryCallAndReply {
                // Each copy of the clients has its own connections.
                stream: CallbackOrAuxiliaryStream::Program(u64::from(self.context.number) << 24 | number),
                caller,
                callee,
                client_key: (self.context.number, client),
                step: step.origin.id,
                message: captured.as_deref().unwrap_or(&message),
                answer: reply.as_deref(),
                times: [sent, received],
            };
            with_recorder(recorder, |recorder| recorder.record_exchange(&exchange));
        }
        result.map_err(|error| self.no_reply_state(&error))?
    }

    /// Returns what to do with a step whose program cannot be reached: retry later, or unreplayable.
    fn retry_or_give_up(
        &mut self,
        program: (Program, u32),
        auxiliary: &mut AuxiliaryRpcConnections,
        error: &AuxiliaryProgramError,
    ) -> StepSendObstacle {
        auxiliary
            .schedule_retry(program, error)
            .map_or_else(|| self.no_reply_state(error).into(), StepSendObstacle::UnreachableUntil)
    }

    fn no_reply_state(&mut self, error: &AuxiliaryProgramError) -> StepOutcome {
        if let AuxiliaryProgramError::Silent(reason) = error {
            self.report.end.silent_program.get_or_insert_with(|| reason.clone());
        }
        StepOutcome::Unreplayable(format!("other-program: {error}"))
    }
}
