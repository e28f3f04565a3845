//! A step of a program beside NFS: it is asked at once, and everything else rests until it is answered.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::rpc::Program;

use super::super::recording::{Exchange, Stream};
use super::super::report::State;
use super::held::{Held, unreadable};
use super::judging::Heard;
use super::sending::new_header;
use super::{Engine, Going, Listener, RunError, SLACK};
use crate::replay::beside::{Beside, Lane, NoReply, rerooted};
use crate::replay::trace::Step;
use crate::replay::trace::emit::{Header, emit};
use crate::replay::transport::{Call, Tag};

impl<R: Read + Seek> Engine<'_, R> {
    /// Asks, and gives the step the state that follows from the answer.
    pub(super) fn ask(&mut self, held: &mut Held, tape: &mut Listener) -> Result<Going, RunError> {
        self.catch_up()?;
        let Some(mut beside) = self.beside.take() else {
            return Ok(Going::Settled(State::Unreplayable("other-program: another is being asked".into())));
        };
        let kept = std::mem::take(&mut held.step);
        let going = match kept.read() {
            Some(step) => self.ask_for(&step, held, &mut beside, tape),
            None => Ok(Going::Settled(unreadable())),
        };
        held.step = kept;
        self.beside = Some(beside);
        going
    }

    fn ask_for(
        &mut self,
        step: &Step<'_>,
        held: &mut Held,
        beside: &mut Beside,
        tape: &mut Listener,
    ) -> Result<Going, RunError> {
        let xid = beside.xid();
        let (program, version) = (Program(step.asked.program), step.asked.version);
        self.values.begin(step.call.body);
        let header = new_header(step, xid);
        let header = header.as_deref().map_or(Header::Xid(xid), Header::New);
        let emitted = emit(&step.call, header, &mut self.values, &mut self.out, &mut self.placed);
        if let Some(why) = self.unsendable(emitted.is_ok()) {
            return Ok(Going::Settled(State::Unreplayable(why)));
        }
        if !self.placed.is_empty() {
            return Ok(Going::Settled(State::Unreplayable("payloads: more than can be sent".into())));
        }
        let mut message = std::mem::take(&mut self.out);
        // A recording has the path that the capture has, so that it can be put below another directory.
        let captured =
            rerooted(&message, &self.seeded.path).map(|other| std::mem::replace(&mut message, other));
        let expected = step.needs.message.saturating_add(SLACK);
        let call = match self.containment.admit(Call::small(xid, Tag(xid.0.into()), &message, expected)) {
            Ok(call) => call,
            Err(escape) => {
                self.out = message;
                return Ok(Going::Settled(State::Unreplayable(escape.to_string())));
            }
        };
        self.values.swap_used(&mut held.used);
        let client = step.caller.client;
        let lane = match beside.lane(client, (program, version)) {
            Ok(lane) => lane,
            Err(why) => {
                self.out = message;
                return Ok(Going::Settled(self.not_answered(&why)));
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
                Heard::Again => Going::Later,
                Heard::Settled(state) => Going::Settled(state),
                Heard::Answer(answer) => {
                    Going::Settled(self.judged(held, step, reply.into(), &answer, sent.elapsed())?)
                }
            })
        });
        if let (Some(tape), Lane { number, local: Some(local), peer, .. }) = (tape, lane) {
            let (answer, came) = answer_of_tape.map_or((None, sent), |(answer, came)| (Some(answer), came));
            tape.exchanged(&Exchange {
                // Each copy of the clients has connections of its own.
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
            Err(why) => Ok(Going::Settled(self.not_answered(&why))),
        }
    }

    /// The state of a step whose program gives no Reply.
    fn not_answered(&mut self, why: &NoReply) -> State {
        if let NoReply::Silent(why) = why {
            self.report.silent.get_or_insert_with(|| why.clone());
        }
        State::Unreplayable(format!("other-program: {why}"))
    }
}
