//! A step of a program beside NFS: it is asked at once, and everything else rests until it is answered.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::rpc::Program;

use super::super::report::State;
use super::held::{Held, step};
use super::{Engine, Going, LATER, RunError, SLACK};
use crate::replay::beside::rerooted;
use crate::replay::trace::emit::{Header, emit};

impl<R: Read + Seek> Engine<'_, R> {
    /// Asks, and gives the step the state that follows from the answer.
    pub(super) fn ask(&mut self, held: &mut Held) -> Result<Going, RunError> {
        let bytes = std::mem::take(&mut held.bytes);
        let Some(mut beside) = self.beside.take() else {
            return Ok(Going::Settled(State::Unreplayable("other-program: it is being asked".into())));
        };
        let going = match step(&bytes) {
            Some(step) => {
                let xid = beside.xid();
                let (program, version) = (Program(step.asked.program), step.asked.version);
                self.values.begin(step.call.body);
                let emitted =
                    emit(&step.call, Header::Xid(xid), &mut self.values, &mut self.out, &mut self.placed);
                let unbound = self.values.unbound().map(|slot| slot.holds.words());
                let root = &self.seeded.path;
                let message = match program {
                    Program::MOUNT => rerooted(&self.out, version, step.asked.procedure, root),
                    _ => None,
                };
                let message = message.unwrap_or_else(|| self.out.clone());
                match (emitted, unbound) {
                    (_, Some(what)) => {
                        let why = format!("no-value: no Reply of this run has given the {what}");
                        Going::Settled(State::Unreplayable(why))
                    }
                    (Err(_), None) => {
                        let why = "wrong-slot: a place in the Call cannot have its value";
                        Going::Settled(State::Unreplayable(why.into()))
                    }
                    (Ok(()), None) => {
                        self.values.swap_used(&mut held.used);
                        let sent = Instant::now();
                        self.started.get_or_insert(sent);
                        self.report.calls += 1;
                        let expected = step.needs.message.saturating_add(SLACK);
                        let called = (program, version);
                        let answered =
                            beside.call(step.caller.client, called, (xid, &message), expected, |reply| {
                                self.answered(held, &step, reply, sent.elapsed())
                            });
                        match answered {
                            Ok(state) => match state? {
                                Some(state) => Going::Settled(state),
                                None => Going::Later(Instant::now() + LATER),
                            },
                            Err(why) => Going::Settled(State::Unreplayable(format!("other-program: {why}"))),
                        }
                    }
                }
            }
            None => Going::Settled(State::Unreplayable("unreadable: the step cannot be read".into())),
        };
        held.bytes = bytes;
        self.beside = Some(beside);
        Ok(going)
    }
}
