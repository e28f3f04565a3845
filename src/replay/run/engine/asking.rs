//! A step of a program beside NFS: it is asked at once, and everything else rests until it is answered.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::rpc::Program;

use super::super::report::State;
use super::held::{Held, unreadable};
use super::judging::Heard;
use super::sending::new_header;
use super::{Engine, Going, RunError, SLACK};
use crate::replay::beside::{Beside, rerooted};
use crate::replay::trace::Step;
use crate::replay::trace::emit::{Header, emit};
use crate::replay::transport::{Call, Tag};

impl<R: Read + Seek> Engine<'_, R> {
    /// Asks, and gives the step the state that follows from the answer.
    pub(super) fn ask(&mut self, held: &mut Held) -> Result<Going, RunError> {
        self.catch_up()?;
        let Some(mut beside) = self.beside.take() else {
            return Ok(Going::Settled(State::Unreplayable("other-program: another is being asked".into())));
        };
        let kept = std::mem::take(&mut held.step);
        let going = match kept.read() {
            Some(step) => self.ask_for(&step, held, &mut beside),
            None => Ok(Going::Settled(unreadable())),
        };
        held.step = kept;
        self.beside = Some(beside);
        going
    }

    fn ask_for(&mut self, step: &Step<'_>, held: &mut Held, beside: &mut Beside) -> Result<Going, RunError> {
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
        if let Some(other) = rerooted(&message, &self.seeded.path) {
            message = other;
        }
        let expected = step.needs.message.saturating_add(SLACK);
        let call = match self.containment.admit(Call::small(xid, Tag(xid.0.into()), &message, expected)) {
            Ok(call) => call,
            Err(escape) => {
                self.out = message;
                return Ok(Going::Settled(State::Unreplayable(escape.to_string())));
            }
        };
        self.values.swap_used(&mut held.used);
        let sent = Instant::now();
        self.started.get_or_insert(sent);
        self.report.calls += 1;
        held.gives = call.gives();
        let (client, of) = (step.caller.client, (program, version));
        let answered = beside.call(client, of, &call, |reply| {
            self.containment.learn(call.call(), reply.cursor());
            Ok(match self.hear(held, step, reply)? {
                Heard::Again => Going::Later,
                Heard::Settled(state) => Going::Settled(state),
                Heard::Answer(answer) => {
                    Going::Settled(self.judged(held, step, reply.into(), &answer, sent.elapsed())?)
                }
            })
        });
        self.out = message;
        match answered {
            Ok(going) => going,
            Err(why) => Ok(Going::Settled(State::Unreplayable(format!("other-program: {why}")))),
        }
    }
}
