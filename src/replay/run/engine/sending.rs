//! A step becomes a Call of this run, and goes.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::auth::{AuthSys, Flavor, NoneVerifier, StartTls};
use nfsrdma_dissectors::rpc::{self, Credential, Program, Verifier, Xid};
use nfsrdma_dissectors::xdr::{Encoder, List, Text, Xdr};

use super::super::adapt::{self, adapt};
use super::super::recording::Gone;
use super::super::report::State;
use super::super::shape::Parts;
use super::super::wants::Opens;
use super::{Engine, Flight, Going, Held, Live, RunError, SLACK};
use crate::analysis::comparison::record::hash;
use crate::replay::trace::emit::{Header, emit};
use crate::replay::trace::{Content, Holds, Payload, Protection, Segments, Step, Trace, TraceError, keyed};
use crate::replay::transport::{
    Call, Captured, Expected, Payload as Sent, Shape, Source, SubmitError, Tag, Transport, TransportError,
};

impl<R: Read + Seek> Engine<'_, R> {
    /// The live connection that stands for one of the capture.
    fn line(&mut self, step: &Step<'_>, transport: &mut dyn Transport) -> Result<Live, TransportError> {
        let of = step.caller.connection;
        let of = self.options.connections.map_or(of, |most| of % u64::from(most.max(1)));
        let key = (step.caller.client, of);
        if let Some(live) = self.lines.get_mut(&key) {
            live.xid = live.xid.wrapping_add(1);
            return Ok(*live);
        }
        let connection = transport.connect(self.target)?;
        self.report.connections += 1;
        let seed = hash(format!("{} {} {:?}", self.options.tag, self.report.connections, key).as_bytes());
        let live = Live { connection, xid: seed as u32 };
        self.lines.insert(key, live);
        Ok(live)
    }

    pub(super) fn send(&mut self, mut held: Held, transport: &mut dyn Transport) -> Result<Going, RunError> {
        let Some(step) = held.step() else {
            let state = State::Unreplayable("unreadable: the step cannot be read".into());
            self.settle(&held.id, &held.title, state);
            return Ok(Going::Settled);
        };
        let parts = Parts::of(&step);
        let root = &self.seeded.root;
        let is_root = |variable: u32| self.values.get(variable).is_some_and(|value| value == root.as_slice());
        if parts.leaves(&step, is_root) {
            let state = State::Unreplayable("leaves-root: it leads above the run's directory".into());
            self.settle(&held.id, &held.title, state);
            return Ok(Going::Settled);
        }
        let gives_back = parts.operations.contains(&Operation::DELEGRETURN);
        if gives_back || parts.operations.contains(&Operation::OPEN) {
            let mut stateids = step.call.slots.iter().filter(|slot| slot.holds == Holds::STATEID);
            let is_lost = |variable| gives_back && self.values.get(variable).is_none();
            if stateids.any(|slot| self.borrowed.contains(&slot.variable) || is_lost(slot.variable)) {
                let state = State::Skipped(
                    "no-delegation: is about a delegation that this server did not give".into(),
                );
                self.settle(&held.id, &held.title, state);
                return Ok(Going::Settled);
            }
        }
        let live = self.line(&step, transport)?;
        self.values.begin(step.call.body);
        if let Some((session, slot)) = held.slot {
            self.values.on_slot(session, slot);
        }
        let header = new_header(&step, Xid(live.xid));
        let is_unsigned = header.is_some();
        let header = header.as_deref().map_or(Header::Xid(Xid(live.xid)), Header::New);
        let emitted = emit(&step.call, header, &mut self.values, &mut self.out, &mut self.placed);
        let is_emitted = emitted.is_ok();
        let opens = match !self.options.wants_as_asked && parts.operations.contains(&Operation::OPEN) {
            true => Opens::of(&step),
            false => Opens::default(),
        };
        let live_server =
            adapt::Live { root, supported: self.seeded.supported.as_deref(), opens, is_unsigned };
        let adapted = match parts.is_adaptable() && is_emitted {
            true => adapt(&mut self.out, &mut self.placed, live_server),
            false => Some(adapt::Adapted::default()),
        };
        let has_fewer = adapted.is_some_and(|adapted| adapted.has_fewer);
        let has_other_wants = adapted.is_some_and(|adapted| adapted.has_other_wants);
        let rerooted = !parts.has_root() || adapted.is_some_and(|adapted| adapted.is_rooted);
        // What has no value here would name something of the captured server.
        let unbound = self.values.unbound().map(|slot| slot.holds.words());
        let refused = match unbound {
            Some(what) => Some(format!("no-value: no Reply of this run has given the {what}")),
            None if !is_emitted => Some("wrong-slot: a place in the Call cannot have its value".into()),
            None if !rerooted => Some("root: the root cannot be put in the place of PUTROOTFH".into()),
            None if self.placed.len() > Call::MAX_PAYLOADS => Some("payloads: more than can be sent".into()),
            None => None,
        };
        if let Some(why) = refused {
            self.settle(&held.id, &held.title, State::Unreplayable(why));
            return Ok(Going::Settled);
        }
        self.fill()?;
        let payloads: Vec<Sent<'_>> = self
            .placed
            .iter()
            .zip(&self.buffers)
            .map(|(placed, content)| Sent { position: placed.position, source: Source::Copied(content) })
            .collect();
        self.needs.clear();
        self.needs.extend(step.needs.payloads.iter().take(Call::MAX_PAYLOADS));
        let chunks = Chunks::of(&step);
        let lists = chunks.lists();
        let call = Call {
            xid: Xid(live.xid),
            tag: Tag(held.id.step),
            message: &self.out,
            payloads: &payloads,
            reply: Expected { message: step.needs.message.saturating_add(SLACK), payloads: &self.needs },
            shape: match self.options.captured_chunks {
                true => Shape::Captured(chunks.shape(&lists)),
                false => Shape::Fitting,
            },
        };
        match transport.submit(live.connection, &call) {
            Ok(_) => {
                if let (Some(tape), Some(terms)) = (&mut self.tape, transport.terms(live.connection)) {
                    tape.gone(&Gone {
                        call: &call,
                        connection: live.connection,
                        terms,
                        credits: transport.credits(live.connection).map_or(0, |credits| credits.requested),
                        client: step.caller.client,
                        roots: &parts.roots(),
                    });
                }
            }
            Err(SubmitError::Busy(_)) => return Ok(Going::Back(held)),
            Err(error) => {
                let state = State::Unreplayable(format!("transport: {error}"));
                self.settle(&held.id, &held.title, state);
                return Ok(Going::Settled);
            }
        }
        let used = self.values.used().clone();
        if let Some(slot) = used.slot {
            self.values.occupy(slot, true, false);
        }
        held.has_fewer = has_fewer;
        held.has_other_wants = has_other_wants;
        held.is_racing |= !self.flights.is_empty();
        for flight in self.flights.values_mut() {
            flight.held.is_racing = true;
        }
        let now = Instant::now();
        self.started.get_or_insert(now);
        self.sent += 1;
        self.report.calls += 1;
        let flight = Flight { held, used, sent: now, connection: live.connection };
        self.flights.insert(flight.held.id.step, flight);
        Ok(Going::Sent)
    }

    /// Reads the file data of the Call.
    fn fill(&mut self) -> Result<(), TraceError> {
        while self.buffers.len() < self.placed.len() {
            self.buffers.push(Vec::new());
        }
        let key = self.contents.summary().key;
        for (placed, buffer) in self.placed.iter().zip(&mut self.buffers) {
            content(self.contents, key, &placed.payload, buffer)?;
        }
        Ok(())
    }
}

/// Puts the content of a payload into a buffer; zeros where it is not known.
fn content<R: Read + Seek>(
    contents: &mut Trace<R>,
    key: u64,
    payload: &Payload,
    buffer: &mut Vec<u8>,
) -> Result<(), TraceError> {
    if !contents.content(payload, buffer)? {
        buffer.clear();
        buffer.resize(payload.length as usize, 0);
        if payload.content == Content::KEYED {
            keyed::fill(key, payload.file, payload.offset, buffer);
        }
    }
    Ok(())
}

/// A header of AUTH_SYS for a Call that had RPCSEC_GSS, whose context this run has not.
fn new_header(step: &Step<'_>, xid: Xid) -> Option<Vec<u8>> {
    let is_secured = step.asked.flavor == Flavor::RPCSEC_GSS.0 || step.asked.protection != Protection::PLAIN;
    if !is_secured {
        return None;
    }
    let machinename = Text(env!("CARGO_PKG_NAME").as_bytes());
    let sys = AuthSys { stamp: 0, machinename, uid: 0, gid: 0, gids: List::default() };
    let body = rpc::Body::Call(rpc::Call {
        rpcvers: rpc::VERSION,
        prog: Program(step.asked.program),
        vers: step.asked.version,
        proc: step.asked.procedure,
        cred: Credential::Sys(rpc::auth::Body::Known(sys)),
        verf: Verifier::None(NoneVerifier { body: StartTls::default() }),
    });
    let mut encoder = Encoder::new();
    rpc::Message { xid, body }.encode(&mut encoder);
    Some(encoder.finish().0)
}

/// The chunks that a Call had, as the transport takes them.
struct Chunks {
    call: Vec<u32>,
    reads: Vec<Vec<u32>>,
    writes: Vec<Vec<u32>>,
    reply: Vec<u32>,
}

impl Chunks {
    fn of(step: &Step<'_>) -> Self {
        let lengths = |segments: &Segments<'_>| segments.lengths.iter().collect::<Vec<u32>>();
        let most = Call::MAX_PAYLOADS;
        Self {
            call: lengths(&step.shape.call),
            reads: step.shape.reads.iter().take(most).map(|chunk| lengths(&chunk)).collect(),
            writes: step.shape.writes.iter().take(most).map(|chunk| lengths(&chunk)).collect(),
            reply: lengths(&step.shape.reply),
        }
    }

    fn lists(&self) -> [Vec<&[u32]>; 2] {
        [&self.reads, &self.writes].map(|chunks| chunks.iter().map(Vec::as_slice).collect())
    }

    fn shape<'c>(&'c self, [reads, writes]: &'c [Vec<&'c [u32]>; 2]) -> Captured<'c> {
        Captured { call: &self.call, reads, writes, reply: &self.reply }
    }
}
