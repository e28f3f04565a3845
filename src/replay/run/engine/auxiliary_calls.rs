//! Steps of programs other than NFS. Each is called synchronously; nothing else proceeds until it is answered.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::rpc::Program;

use super::super::recording::{Exchange, Stream};
use super::super::report::ReplayStepState;
use super::reply_check_queue::ReplyDisposition;
use super::send::new_header;
use super::window::{WindowStep, unreadable};
use super::{OptionalReplayRecorder, ReplayEngine, ReplayRunError, SLACK, StepSendOutcome};
use crate::replay::auxiliary_programs::{AuxiliaryRpcConnections, Lane, NoReply, rerooted};
use crate::replay::trace::TraceStep;
use crate::replay::trace::emission::{EmittedHeader, emit};
use crate::replay::transport::{CallTag, TransportCall};

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Calls the program and returns the state of the step.
    pub(super) fn ask(
        &mut self,
        held: &mut WindowStep,
        tape: &mut OptionalReplayRecorder,
    ) -> Result<StepSendOutcome, ReplayRunError> {
        self.catch_up()?;
        let Some(mut beside) = self.beside.take() else {
            return Ok(StepSendOutcome::Settled(ReplayStepState::Unreplayable(
                "other-program: another is being asked".into(),
            )));
        };
        let kept = std::mem::take(&mut held.step);
        let going = match kept.read() {
            Some(step) => self.ask_for(&step, held, &mut beside, tape),
            None => Ok(StepSendOutcome::Settled(unreadable())),
        };
        held.step = kept;
        self.beside = Some(beside);
        going
    }

    fn ask_for(
        &mut self,
        step: &TraceStep<'_>,
        held: &mut WindowStep,
        beside: &mut AuxiliaryRpcConnections,
        tape: &mut OptionalReplayRecorder,
    ) -> Result<StepSendOutcome, ReplayRunError> {
        let xid = beside.xid();
        let (program, version) = (Program(step.asked.program), step.asked.version);
        self.values.begin(step.call.body);
        let header = new_header(step, xid);
        let header = header.as_deref().map_or(EmittedHeader::Xid(xid), EmittedHeader::New);
        let emitted = emit(&step.call, header, &mut self.values, &mut self.out, &mut self.placed);
        if let Some(why) = self.unsendable(emitted.is_ok()) {
            return Ok(StepSendOutcome::Settled(ReplayStepState::Unreplayable(why)));
        }
        if !self.placed.is_empty() {
            return Ok(StepSendOutcome::Settled(ReplayStepState::Unreplayable(
                "payloads: more than can be sent".into(),
            )));
        }
        let mut message = std::mem::take(&mut self.out);
        // The recording has the captured path, so that it can be replayed below another directory.
        let captured =
            rerooted(&message, &self.seeded.path).map(|other| std::mem::replace(&mut message, other));
        let expected = step.needs.message.saturating_add(SLACK);
        let call = match self.containment.admit(TransportCall::small(
            xid,
            CallTag(xid.0.into()),
            &message,
            expected,
        )) {
            Ok(call) => call,
            Err(escape) => {
                self.out = message;
                return Ok(StepSendOutcome::Settled(ReplayStepState::Unreplayable(escape.to_string())));
            }
        };
        self.values.swap_used(&mut held.used);
        let client = step.caller.client;
        let lane = match beside.lane(client, (program, version)) {
            Ok(lane) => lane,
            Err(why) => {
                self.out = message;
                return Ok(StepSendOutcome::Settled(self.not_answered(&why)));
            }
        };
        let sent = Instant::now();
        self.started.get_or_insert(sent);
        self.report.calls += 1;
        held.gives = call.gives();
        let mut answer_of_tape = None;
        let answered = beside.call(lane, &call, |reply| {
            answer_of_tape = tape.is_some().then(|| (reply.message.to_vec(), Instant::now()));
            self.containment.learn(call.call(), reply.cursor());
            Ok(match self.hear(held, step, reply)? {
                ReplyDisposition::Again => StepSendOutcome::Later,
                ReplyDisposition::Settled(state) => StepSendOutcome::Settled(state),
                ReplyDisposition::Answer(answer) => StepSendOutcome::Settled(self.judged(
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
            tape.exchanged(&Exchange {
                // Each copy of the clients has its own connections.
                stream: Stream::Program(u64::from(self.number) << 24 | number),
                caller: local,
                callee: peer,
                whose: (self.number, client),
                step: step.origin.id,
                message: captured.as_deref().unwrap_or(&message),
                answer: answer.as_deref(),
                times: [sent, came],
            });
        }
        self.out = message;
        match answered {
            Ok(going) => going,
            Err(why) => Ok(StepSendOutcome::Settled(self.not_answered(&why))),
        }
    }

    /// Returns the state of a step whose program does not reply.
    fn not_answered(&mut self, why: &NoReply) -> ReplayStepState {
        if let NoReply::Silent(why) = why {
            self.report.silent.get_or_insert_with(|| why.clone());
        }
        ReplayStepState::Unreplayable(format!("other-program: {why}"))
    }
}
