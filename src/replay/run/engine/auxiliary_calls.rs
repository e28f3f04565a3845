//! Steps of programs other than NFS. Each is called synchronously; nothing else proceeds until it is answered.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::rpc::Program;
use nfsrdma_rpc::{CallTag, TransportCall};

use super::super::recording::{Exchange, Stream};
use super::super::step_outcome::StepOutcome;
use super::reply_check_queue::ReplyDisposition;
use super::send::replacement_header;
use super::window::{WindowStep, unreadable_state};
use super::{OptionalReplayRecorder, REPLY_HEADROOM_BYTES, ReplayEngine, ReplayRunError, StepSendOutcome};
use crate::replay::auxiliary_programs::{AuxiliaryRpcConnections, Lane, NoReply, reroot_mount_path};
use crate::replay::trace::TraceStep;
use crate::replay::trace::emission::{EmittedHeader, emit};

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Calls the program and returns the state of the step.
    pub(super) fn call_auxiliary(
        &mut self,
        held: &mut WindowStep,
        tape: &mut OptionalReplayRecorder,
    ) -> Result<StepSendOutcome, ReplayRunError> {
        self.check_all()?;
        let Some(mut beside) = self.issuer.auxiliary.take() else {
            return Ok(StepSendOutcome::Finished(StepOutcome::Unreplayable(
                "other-program: another is being asked".into(),
            )));
        };
        let kept = std::mem::take(&mut held.step);
        let going = match kept.trace_step() {
            Some(step) => self.call_program(&step, held, &mut beside, tape),
            None => Ok(StepSendOutcome::Finished(unreadable_state())),
        };
        held.step = kept;
        self.issuer.auxiliary = Some(beside);
        going
    }

    fn call_program(
        &mut self,
        step: &TraceStep<'_>,
        held: &mut WindowStep,
        beside: &mut AuxiliaryRpcConnections,
        tape: &mut OptionalReplayRecorder,
    ) -> Result<StepSendOutcome, ReplayRunError> {
        let xid = beside.next_xid();
        let (program, version) = (Program(step.asked.program), step.asked.version);
        self.issuer.values.begin_call(step.call.body);
        let header = replacement_header(step, xid);
        let header = header.as_deref().map_or(EmittedHeader::Xid(xid), EmittedHeader::New);
        let emitted = emit(
            &step.call,
            header,
            &mut self.issuer.values,
            &mut self.issuer.call_buffer,
            &mut self.issuer.placed,
        );
        if let Some(why) = self.issuer.missing_value_reason(emitted.is_ok()) {
            return Ok(StepSendOutcome::Finished(StepOutcome::Unreplayable(why)));
        }
        if !self.issuer.placed.is_empty() {
            return Ok(StepSendOutcome::Finished(StepOutcome::Unreplayable(
                "payloads: more than can be sent".into(),
            )));
        }
        let mut message = std::mem::take(&mut self.issuer.call_buffer);
        // The recording has the captured path, so that it can be replayed below another directory.
        let captured = reroot_mount_path(&message, &self.context.seeded.path)
            .map(|other| std::mem::replace(&mut message, other));
        let expected = step.needs.message.saturating_add(REPLY_HEADROOM_BYTES);
        let call = match self.issuer.containment.check_call(TransportCall::without_payloads(
            xid,
            CallTag(xid.0.into()),
            &message,
            expected,
        )) {
            Ok(call) => call,
            Err(escape) => {
                self.issuer.call_buffer = message;
                return Ok(StepSendOutcome::Finished(StepOutcome::Unreplayable(escape.to_string())));
            }
        };
        self.issuer.values.swap_counts(&mut held.call.counts);
        let client = step.caller.client;
        let lane = match beside.lane(client, (program, version)) {
            Ok(lane) => lane,
            Err(why) => {
                self.issuer.call_buffer = message;
                return Ok(StepSendOutcome::Finished(self.no_reply_state(&why)));
            }
        };
        let sent = Instant::now();
        self.scheduler.pacer.started.get_or_insert(sent);
        self.report.calls += 1;
        held.call.reply_identifiers = call.reply_identifiers();
        let mut answer_of_tape = None;
        let answered = beside.call(lane, &call, |reply| {
            answer_of_tape = tape.is_some().then(|| (reply.message.to_vec(), Instant::now()));
            self.issuer.containment.record_reply(call.call(), reply.cursor());
            Ok(match self.process_reply(held, step, reply)? {
                ReplyDisposition::Retry => StepSendOutcome::RetryLater,
                ReplyDisposition::Finished(state) => StepSendOutcome::Finished(state),
                ReplyDisposition::Check(answer) => StepSendOutcome::Finished(self.checked_outcome(
                    held,
                    step,
                    reply.into(),
                    &answer,
                    sent.elapsed(),
                )?),
            })
        });
        if let (Some(tape), Lane { number, local: Some(local), peer, .. }) = (tape, lane) {
            let (answer, came) = answer_of_tape.map_or((None, sent), |(answer, came)| (Some(answer), came));
            tape.record_exchange(&Exchange {
                // Each copy of the clients has its own connections.
                stream: Stream::Program(u64::from(self.context.number) << 24 | number),
                caller: local,
                callee: peer,
                client_key: (self.context.number, client),
                step: step.origin.id,
                message: captured.as_deref().unwrap_or(&message),
                answer: answer.as_deref(),
                times: [sent, came],
            });
        }
        self.issuer.call_buffer = message;
        match answered {
            Ok(going) => going,
            Err(why) => Ok(StepSendOutcome::Finished(self.no_reply_state(&why))),
        }
    }

    /// Returns the state of a step whose program does not reply.
    fn no_reply_state(&mut self, why: &NoReply) -> StepOutcome {
        if let NoReply::Silent(why) = why {
            self.report.end.silent_program.get_or_insert_with(|| why.clone());
        }
        StepOutcome::Unreplayable(format!("other-program: {why}"))
    }
}
