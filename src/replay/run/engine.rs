//! What is in flight, what comes next, and what becomes of it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::{Field, Unobserved};
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::auth::{AuthSys, Flavor, NoneVerifier, StartTls};
use nfsrdma_dissectors::rpc::{self, Credential, Program, Verifier, Xid};
use nfsrdma_dissectors::xdr::{ChunkItem, Cursor, Encoder, List, Text, Xdr};
use rustc_hash::{FxHashMap, FxHashSet};

use super::adapt::{self, adapt};
use super::judge::{Judge, Replies, Verdict};
use super::options::{Options, Order, Pace};
use super::outcome::Outcome;
use super::prologue::{PrologueError, prologue};
use super::report::{Report, State, StepId};
use super::rules;
use super::shape::Parts;
use super::values::{Session, Used, Values};
use super::{responder, shape::ROOT};
use crate::analysis::comparison::difference::{Difference, Half, Kind, Place};
use crate::analysis::comparison::record::hash;
use crate::replay::plan;
use crate::replay::plan::reason::{Reason, State as Planned};
use crate::replay::seed::Seeded;
use crate::replay::trace::emit::{Header, Placed, emit};
use crate::replay::trace::{
    Content, Holds, NONE, Payload, Protection, Seen, Segments, Slot, Step, Trace, TraceError, bind, keyed,
};
use crate::replay::transport::{
    Call, Captured, ConnectionId, Discard, Disconnect, Event, Expected, Payload as Sent, Reply, Shape,
    Source, SubmitError, Tag, Target, Transport, TransportError,
};

/// Bytes that a live Reply may have more than the recorded one, where filehandles and owners are longer.
const SLACK: u32 = 1024;
/// Between two looks at whether to stop.
const TICK: Duration = Duration::from_millis(50);
/// How long Calls in flight are waited for when a run is ended.
const FAREWELL: Duration = Duration::from_secs(3);
/// Between a NFS4ERR_DELAY and the next try, once; later tries wait longer, up to ten times as long.
const LATER: Duration = Duration::from_millis(50);
/// Own faults that are told.
const FAULTS: usize = 100;
/// Files that a step left otherwise, which are remembered.
const OTHERWISE: usize = 1 << 16;
/// Text of links that is read to be compared.
const TEXT: u32 = 4096;

static FILE: Field = Field::group("trace", "trace", "");

/// Why a run ended before its end.
#[derive(Debug)]
pub enum RunError {
    /// The server or the transport.
    Transport(TransportError),
    /// The trace.
    Trace(TraceError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Trace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

impl From<TransportError> for RunError {
    fn from(error: TransportError) -> Self {
        Self::Transport(error)
    }
}

impl From<TraceError> for RunError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// Looks on while a run goes.
pub trait Watch {
    /// How it stands; `total` steps are in the trace.
    fn look(&mut self, report: &Report, total: u64, elapsed: Duration);

    /// Whether it is to end.
    fn is_over(&self) -> bool {
        false
    }
}

/// Nobody looks.
impl Watch for () {
    fn look(&mut self, _: &Report, _: u64, _: Duration) {}
}

/// A step that waits, or is in flight.
#[derive(Debug)]
struct Held {
    /// The step, in XDR.
    bytes: Vec<u8>,
    id: StepId,
    title: String,
    /// Why it does not run as it was captured.
    reason: Option<Reason>,
    /// When its Call and its Reply were seen in the capture.
    start: u64,
    end: u64,
    client: u32,
    /// The session, and the slot in the capture.
    slot: Option<(u32, u32)>,
    tries: u32,
    not_before: Option<Instant>,
    is_racing: bool,
    /// Attributes that the live server does not have were left out.
    has_fewer: bool,
}

impl Held {
    fn step(&self) -> Option<Step<'_>> {
        Step::decode(&mut Cursor::new(&self.bytes), &FILE, &mut Unobserved).ok()
    }
}

#[derive(Debug)]
struct Flight {
    held: Held,
    used: Used,
    sent: Instant,
    connection: ConnectionId,
}

/// A live connection.
#[derive(Clone, Copy, Debug)]
struct Live {
    connection: ConnectionId,
    xid: u32,
}

/// What becomes of a step that was to be sent.
enum Going {
    Sent,
    Settled,
    /// There is no room for it now.
    Back(Held),
}

/// Runs a trace: `steps` and `contents` are the same trace, opened twice.
///
/// # Errors
/// Where the server cannot be reached, the transport fails, or the trace is damaged.
pub fn run<R: Read + Seek>(
    steps: &mut Trace<R>,
    contents: &mut Trace<R>,
    transport: &mut dyn Transport,
    target: &Target,
    seeded: &Seeded,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Report, RunError> {
    let plan = plan::judge::Judge::new(steps)?;
    steps.rewind();
    let mut values = Values::new(&options.tag);
    let mut report = Report::default();
    for (variable, handle) in &seeded.handles {
        report.forgotten += u64::from(!values.set(*variable, handle));
    }
    let made = prologue(contents, transport, target, &options.tag, &mut values);
    match made {
        Ok(made) => report.bridged = made,
        Err(PrologueError::Trace(error)) => return Err(error.into()),
        Err(PrologueError::Transport(error)) => return Err(error.into()),
        // What is missing is told where it is used.
        Err(PrologueError::Server(what)) => report.refused.push(what),
    }
    let end = &steps.summary().end;
    report.recorded = end.last.saturating_sub(end.first);
    let (total, first) = (end.steps, end.first);
    let engine = Engine {
        contents,
        target,
        seeded,
        options,
        plan,
        values,
        judge: Judge::new(options.strict, options.off.iter().copied(), options.selection.clone()),
        report,
        waiting: VecDeque::new(),
        flights: FxHashMap::default(),
        lines: FxHashMap::default(),
        clients: FxHashMap::default(),
        started: None,
        first,
        sent: 0,
        is_exhausted: false,
        otherwise: FxHashSet::default(),
        borrowed: FxHashSet::default(),
        out: Vec::new(),
        placed: Vec::new(),
        buffers: Vec::new(),
        needs: Vec::new(),
    };
    engine.drive(steps, transport, total, watch)
}

struct Engine<'r, R> {
    contents: &'r mut Trace<R>,
    target: &'r Target,
    seeded: &'r Seeded,
    options: &'r Options,
    plan: plan::judge::Judge,
    values: Values,
    judge: Judge,
    report: Report,
    waiting: VecDeque<Held>,
    flights: FxHashMap<u64, Flight>,
    /// By client, and connection of the capture.
    lines: FxHashMap<(u32, u64), Live>,
    /// Of each client the latest recorded end of a step that is done, and when it was done.
    clients: FxHashMap<u32, (u64, Instant)>,
    started: Option<Instant>,
    /// When the first Call of the capture was seen.
    first: u64,
    sent: u64,
    is_exhausted: bool,
    /// Variables of files that a step left otherwise than in the capture.
    otherwise: FxHashSet<u32>,
    /// Variables of delegations that this server did not give.
    borrowed: FxHashSet<u32>,
    out: Vec<u8>,
    placed: Vec<Placed>,
    buffers: Vec<Vec<u8>>,
    needs: Vec<u32>,
}

impl<R: Read + Seek> Engine<'_, R> {
    fn drive(
        mut self,
        steps: &mut Trace<R>,
        transport: &mut dyn Transport,
        total: u64,
        watch: &mut dyn Watch,
    ) -> Result<Report, RunError> {
        let begin = Instant::now();
        let mut ending: Option<Instant> = None;
        let mut answer: Option<(ConnectionId, Xid, Vec<u8>)> = None;
        loop {
            if ending.is_none() {
                self.admit(steps)?;
            }
            let due = if ending.is_none() { self.issue(transport)? } else { None };
            if self.flights.is_empty() && (self.waiting.is_empty() && self.is_exhausted || ending.is_some()) {
                break;
            }
            let now = Instant::now();
            let deadline = due.map_or(now + TICK, |due| due.min(now + TICK));
            match transport.poll(Some(deadline))? {
                Some(Event::Reply(reply)) => self.reply(&reply)?,
                Some(Event::RdmaError { tag, error, .. }) => {
                    self.fail(tag.0, &format!("RDMA_ERROR: {error:?}"));
                }
                Some(Event::Call(call)) => {
                    let mut names = Vec::new();
                    answer = responder::answer(call.message, &mut names)
                        .map(|message| (call.connection, call.xid, message));
                    for name in names {
                        *self.report.callbacks.entry(name).or_default() += 1;
                    }
                    self.report.unanswered += u64::from(answer.is_none());
                }
                Some(Event::Disconnected { connection, reason, lost }) => {
                    self.report.disconnects += u64::from(reason != Disconnect::Asked);
                    let what = format!("the connection went away: {reason}");
                    let lost: Vec<u64> = lost.iter().map(|tag| tag.0).collect();
                    lost.into_iter().for_each(|tag| self.fail(tag, &what));
                    self.lines.retain(|_, live| live.connection != connection);
                }
                Some(Event::Discarded { why, .. }) => {
                    self.report.discarded += 1;
                    let is_own = matches!(why, Discard::ReverseCall);
                    self.report.unanswered += u64::from(is_own);
                }
                Some(Event::Credits { .. }) => {}
                None => {
                    // A transport that never waits leaves the waiting to us.
                    let rest = deadline.saturating_duration_since(Instant::now());
                    if self.flights.is_empty() && !rest.is_zero() {
                        std::thread::sleep(rest.min(TICK));
                    }
                }
            }
            if let Some((connection, xid, message)) = answer.take()
                && transport.answer(connection, xid, &message).is_err()
            {
                self.report.unanswered += 1;
            }
            self.expire();
            watch.look(&self.report, total, begin.elapsed());
            if ending.is_none() && watch.is_over() {
                self.report.is_interrupted = true;
                ending = Some(Instant::now() + FAREWELL);
            }
            if ending.is_some_and(|end| Instant::now() > end) {
                let left: Vec<u64> = self.flights.keys().copied().collect();
                left.into_iter().for_each(|tag| self.fail(tag, "no Reply before the run was ended"));
            }
        }
        self.conclude(steps)
    }

    /// Nothing is in flight any more: what was not sent has its state, too.
    fn conclude(mut self, steps: &mut Trace<R>) -> Result<Report, RunError> {
        let ended = || State::Skipped("interrupted: the run was ended before it".into());
        for held in std::mem::take(&mut self.waiting) {
            self.settle(&held.id, &held.title, ended());
        }
        while !self.is_exhausted {
            match steps.next_step()? {
                Some(step) => {
                    let title = Parts::of(&step).title;
                    self.report.settle(id(&step), &title, ended(), self.options.shown);
                }
                None => self.is_exhausted = true,
            }
        }
        let late = self.judge.late(true);
        self.report.late(late, self.options.shown);
        self.report.compared = [self.judge.compared.fields, self.judge.compared.data_bytes];
        Ok(self.report)
    }

    fn settle(&mut self, id: &StepId, title: &str, state: State) {
        self.report.settle(*id, title, state, self.options.shown);
    }

    /// Looks at steps ahead; those that are not sent get their state.
    fn admit(&mut self, steps: &mut Trace<R>) -> Result<(), RunError> {
        while !self.is_exhausted && self.waiting.len() < self.options.window.max(1) {
            let Some(step) = steps.next_step()? else {
                self.is_exhausted = true;
                break;
            };
            let verdict = self.plan.step(&step);
            let parts = Parts::of(&step);
            let id = id(&step);
            if let Some(state) = unsent(&step, verdict.reason) {
                self.report.settle(id, &parts.title, state, self.options.shown);
                continue;
            }
            let (start, end) = (step.origin.time, step.origin.time.saturating_add(step.origin.latency));
            // What overlapped in the capture shows there how far the other had come.
            let mut is_racing = false;
            let flights = self.flights.values_mut().map(|flight| &mut flight.held);
            for other in self.waiting.iter_mut().chain(flights) {
                if other.end > start && other.start < end {
                    is_racing = true;
                    other.is_racing = true;
                }
            }
            let mut encoder = Encoder::new();
            step.encode(&mut encoder);
            let has_session =
                step.caller.session != NONE && parts.operations.first() == Some(&Operation::SEQUENCE);
            self.waiting.push_back(Held {
                bytes: encoder.finish().0,
                id,
                title: parts.title,
                reason: verdict.reason,
                start,
                end,
                client: step.caller.client,
                slot: has_session.then_some((step.caller.session, step.caller.slot)),
                tries: 0,
                not_before: None,
                is_racing,
                has_fewer: false,
            });
        }
        Ok(())
    }

    /// Sends what may be sent, in the order of the capture. Gives the time at which the next is due, if that is all that it
    /// waits for.
    fn issue(&mut self, transport: &mut dyn Transport) -> Result<Option<Instant>, RunError> {
        while let Some(front) = self.waiting.front() {
            if self.flights.len() >= self.options.window.max(1) || !self.is_ready(front) {
                return Ok(None);
            }
            let due = self.due(front);
            if let Some(due) = due.filter(|due| *due > Instant::now()) {
                return Ok(Some(due));
            }
            let Some(held) = self.waiting.pop_front() else { return Ok(None) };
            match self.send(held, transport)? {
                Going::Sent | Going::Settled => {}
                Going::Back(held) => {
                    self.waiting.push_front(held);
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Whether all that a step waits for is done.
    fn is_ready(&self, held: &Held) -> bool {
        if let Some((session, slot)) = held.slot
            && let Some(session) = self.values.session(session)
            && session.is_busy(session.slot(slot))
        {
            return false;
        }
        let mut flights = self.flights.values().map(|flight| &flight.held);
        !match self.options.order {
            Order::Trace => flights.any(|other| other.end <= held.start),
            Order::Conservative => flights.any(|other| other.client == held.client),
        }
    }

    /// When a step is to be sent; `None`: now.
    fn due(&self, held: &Held) -> Option<Instant> {
        let nanoseconds = |time: f64| Duration::from_nanos(time.clamp(0.0, 1e18) as u64);
        let paced = match self.options.pace {
            Pace::Asap => None,
            Pace::Original(times) => {
                let since = held.start.saturating_sub(self.first) as f64;
                self.started.map(|started| started + nanoseconds(since / times))
            }
            Pace::Rate(rate) => {
                self.started.map(|started| started + nanoseconds(self.sent as f64 * 1e9 / rate))
            }
            Pace::Think => self.clients.get(&held.client).map(|(end, done)| {
                *done + Duration::from_nanos(held.start.saturating_sub(*end).min(1 << 60))
            }),
        };
        paced.max(held.not_before)
    }

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

    fn send(&mut self, mut held: Held, transport: &mut dyn Transport) -> Result<Going, RunError> {
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
        let header = header.as_deref().map_or(Header::Xid(Xid(live.xid)), Header::New);
        let emitted = emit(&step.call, header, &mut self.values, &mut self.out, &mut self.placed);
        let is_emitted = emitted.is_ok();
        let live_server = adapt::Live { root, supported: self.seeded.supported.as_deref() };
        let adapted = match parts.is_adaptable() && is_emitted {
            true => adapt(&mut self.out, &mut self.placed, live_server),
            false => Some(adapt::Adapted::default()),
        };
        let has_fewer = adapted.is_some_and(|adapted| adapted.has_fewer);
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
            Ok(_) => {}
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

    /// A Reply has come.
    fn reply(&mut self, reply: &Reply<'_>) -> Result<(), RunError> {
        let Some(mut flight) = self.flights.remove(&reply.tag.0) else { return Ok(()) };
        let latency = flight.sent.elapsed();
        if let Some(started) = self.started {
            self.report.elapsed = started.elapsed();
        }
        let Some(step) = flight.held.step() else { return Ok(()) };
        let procedure = step.asked.described();
        let outcome = Outcome::of(procedure, reply.cursor());
        self.count(&flight.used, &outcome);
        let message = plain(&step);
        let recorded = recorded(&step, &message);
        if outcome.is_delayed() && !recorded.is_delayed() && flight.held.tries < self.options.delays {
            self.report.delayed += 1;
            flight.held.tries += 1;
            flight.held.not_before = Some(Instant::now() + LATER * flight.held.tries.min(10));
            self.waiting.push_front(flight.held);
            return Ok(());
        }
        self.bind(&step, reply, &outcome);
        if let (Some(fault), None) = (outcome.own_fault(), recorded.own_fault())
            && self.report.own_faults.len() < FAULTS
        {
            let [call, _] = flight.held.id.frames;
            self.report.own_faults.push(format!("{} of frame {call}: {fault}", flight.held.title));
        }
        let state = self.state(&flight.held, &step, reply, (&message, &recorded), &outcome)?;
        let of = self.report.of(&flight.held.title);
        let live = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if step.origin.latency > 0 {
            for ((histogram, sum), value) in
                of.latencies.iter_mut().zip(&mut of.sums).zip([step.origin.latency, live])
            {
                histogram.add(value);
                *sum += u128::from(value);
            }
        }
        let done = self.clients.entry(flight.held.client).or_insert((0, Instant::now()));
        if flight.held.end >= done.0 {
            *done = (flight.held.end, Instant::now());
        }
        self.settle(&flight.held.id, &flight.held.title, state);
        let late = self.judge.late(false);
        self.report.late(late, self.options.shown);
        Ok(())
    }

    /// What slots and owners count.
    fn count(&mut self, used: &Used, outcome: &Outcome) {
        if let Some(slot) = used.slot {
            self.values.occupy(slot, false, outcome.is_sequenced());
        }
        for (is_lock, owner, operation, seqid) in &used.seqids {
            if let Some(status) = outcome.statuses.get(*operation as usize) {
                self.values.count_owner(*is_lock, *owner, *seqid, *status);
            }
        }
    }

    /// Takes what the Reply gives.
    fn bind(&mut self, step: &Step<'_>, reply: &Reply<'_>, outcome: &Outcome) {
        let (ear, _) = bind::hear(&step.asked, reply.cursor());
        let last = ear.marks.iter().rev().find(|mark| mark.holds == Holds::COOKIE);
        let last = last.and_then(|mark| bind::value(reply.message, mark));
        let opened = ear.marks.iter().find(|mark| mark.holds == Holds::STATEID && !mark.is_constant);
        let opened = opened.and_then(|mark| Some((mark.operation, bind::value(reply.message, mark)?)));
        let (values, borrowed, mut forgotten) = (&mut self.values, &mut self.borrowed, 0);
        bind::bind(step, &ear, reply.message, |slot, value| {
            // A name that the live directory has not in this part: what comes next goes on where this part ended.
            let value = if slot.holds == Holds::COOKIE { value.or(last) } else { value };
            // A delegation that this server did not give: the open itself stands for it.
            let stands_in = opened.filter(|(operation, _)| {
                slot.holds == Holds::STATEID && value.is_none() && *operation == slot.operation
            });
            let value = match stands_in {
                Some((_, stateid)) => {
                    if borrowed.len() < OTHERWISE {
                        borrowed.insert(slot.variable);
                    }
                    Some(stateid)
                }
                None => value,
            };
            forgotten += u64::from(!values.bind(slot, value));
        });
        self.report.forgotten += forgotten;
        if let Some(granted) = outcome.granted {
            if let Some(slot) = step.reply.slots.iter().find(|slot| slot.holds == Holds::SESSION) {
                self.values.open_session(slot.variable, Session::new(granted));
            }
            if let Some(slot) = step.call.slots.iter().find(|slot| slot.holds == Holds::CREATE_SEQUENCE) {
                self.values.created_session(slot.variable);
            }
        }
    }

    /// Holds the Reply to the recorded one.
    fn state(
        &mut self,
        held: &Held,
        step: &Step<'_>,
        reply: &Reply<'_>,
        (message, recorded): (&[u8], &Outcome),
        outcome: &Outcome,
    ) -> Result<State, TraceError> {
        if step.reply.seen != Seen::WHOLE {
            return Ok(State::Repaired(Reason::ReplyLost.code()));
        }
        if recorded.is_delayed() && !outcome.is_delayed() && !self.options.strict {
            return Ok(State::Tolerated(rules::DELAYED));
        }
        let key = self.contents.summary().key;
        let is_text = held.title.ends_with("READLINK");
        let (mut texts, mut known) = (Vec::new(), Vec::new());
        for payload in step.reply.payloads.iter().filter(|payload| !payload.is_inside) {
            let mut text = Vec::new();
            let is_known = is_text
                && payload.length <= TEXT
                && matches!(payload.content, Content::KEPT | Content::ZEROS)
                && self.contents.content(&payload, &mut text)?;
            texts.push((payload.length, is_known.then_some(text)));
            if !is_known {
                known.push((payload.length, expected(key, &payload)));
            }
        }
        let items: Vec<ChunkItem<'_>> = texts
            .iter()
            .map(|(length, text)| ChunkItem { position: None, length: *length, bytes: text.as_deref() })
            .collect();
        let parts = Parts::of(step);
        let files = parts.files(step);
        let is_directory = |file: &u32| *file == ROOT || self.seeded.directories.contains(file);
        let directories: Vec<bool> = files.iter().map(is_directory).collect();
        let listing = listing(step, &parts, &files);
        let verdict = self.judge.judge(&Replies {
            step: held.id.step,
            frames: held.id.frames,
            title: &held.title,
            procedure: step.asked.described(),
            recorded: Cursor::new(message).with_chunks(&items),
            known: &known,
            live: reply.cursor(),
            directories: &directories,
            is_racing: held.is_racing,
            listing,
        });
        let is_file = |slot: &Slot| {
            slot.holds == Holds::FILEHANDLE && !self.seeded.directories.contains(&slot.variable)
        };
        let mut variables = step.call.slots.iter().chain(step.reply.slots.iter()).filter(is_file);
        let is_otherwise = variables.clone().any(|slot| self.otherwise.contains(&slot.variable));
        if matches!(verdict, Verdict::Unsupported(..) | Verdict::Tolerated(rules::ROOM))
            && self.otherwise.len() < OTHERWISE
        {
            self.otherwise.extend(variables.by_ref().map(|slot| slot.variable));
        }
        Ok(match verdict {
            Verdict::Mismatched(differences)
                if step.asked.flavor == Flavor::RPCSEC_GSS.0 && self.judge.is_of_rights(&differences) =>
            {
                State::Tolerated(rules::CREDENTIALS)
            }
            Verdict::Mismatched(differences) if is_otherwise && self.judge.is_of_content(&differences) => {
                State::Tolerated(rules::AFTER)
            }
            Verdict::Matched | Verdict::Tolerated(_) if held.reason.is_some() => {
                State::Repaired(held.reason.map_or("", Reason::code))
            }
            Verdict::Matched if held.has_fewer => State::Tolerated(rules::ATTRIBUTES_OFFERED),
            Verdict::Matched if held.tries > 0 => State::Tolerated(rules::DELAYED),
            Verdict::Matched => State::Matched,
            Verdict::Tolerated(rule) => State::Tolerated(rule),
            Verdict::Unsupported(operation, status) => {
                State::Unreplayable(format!("unsupported: the server has no {operation} ({status})"))
            }
            Verdict::Mismatched(differences) => State::Mismatched(differences),
        })
    }

    /// A Call will have no Reply.
    fn fail(&mut self, tag: u64, what: &str) {
        let Some(flight) = self.flights.remove(&tag) else { return };
        if let Some(slot) = flight.used.slot {
            self.values.occupy(slot, false, false);
        }
        let held = flight.held;
        let frame = |number: u64| (number > 0).then_some(nfsrdma_dissectors::frame::FrameNumber(number));
        let [call, reply] = held.id.frames.map(frame);
        let place = Some(Place { index: held.id.step, call, reply });
        let half = |value: &str| Half { place, frame: reply.or(call), value: Some(value.to_owned()) };
        let difference = Difference {
            kind: Kind::Reply,
            operation: held.title.clone(),
            path: String::new(),
            field: "",
            times: 1,
            a: half("there"),
            b: half(what),
        };
        let state = match held.step().is_some_and(|step| step.reply.seen != Seen::NOTHING) {
            true => State::Mismatched(vec![difference]),
            false => State::Repaired(Reason::ReplyLost.code()),
        };
        self.settle(&held.id, &held.title, state);
    }

    /// Calls whose Reply has not come in time.
    fn expire(&mut self) {
        let timeout = self.options.timeout;
        let late: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.sent.elapsed() > timeout)
            .map(|(tag, _)| *tag)
            .collect();
        for tag in late {
            let place = self.flights.get(&tag).map(|flight| flight.connection);
            let what = format!("no Reply within {} s", timeout.as_secs_f64());
            self.fail(tag, &what);
            // What may still come there belongs to nobody; the next Call has a connection of its own.
            if let Some(connection) = place {
                self.lines.retain(|_, live| live.connection != connection);
            }
        }
    }
}

fn id(step: &Step<'_>) -> StepId {
    StepId { step: step.origin.id, frames: [step.origin.call_frame, step.origin.reply_frame] }
}

/// The state of a step that is not sent.
fn unsent(step: &Step<'_>, reason: Option<Reason>) -> Option<State> {
    if let Some(reason) = reason {
        let why = || format!("{}: {}", reason.code(), reason.text());
        match reason.state() {
            Planned::Skipped => return Some(State::Skipped(why())),
            Planned::Unreplayable => return Some(State::Unreplayable(why())),
            Planned::Run | Planned::Bridged => {}
        }
    }
    match Program(step.asked.program) {
        Program::NFS | Program::NFSACL => None,
        Program::MOUNT => Some(State::Skipped(
            "mount: the run's directory stands for what was mounted, and is known".into(),
        )),
        _ => Some(State::Unreplayable("other-program: a program beside NFS, which listens elsewhere".into())),
    }
}

/// The recorded Reply without what protected its results (RFC 2203 section 5.3.2.2): a length and a number before them, and
/// what follows.
fn plain<'a>(step: &Step<'a>) -> Cow<'a, [u8]> {
    let reply = &step.reply;
    if step.asked.protection != Protection::INTEGRITY {
        return Cow::Borrowed(reply.head.0);
    }
    let before = (reply.body as usize).checked_sub(8).and_then(|end| reply.head.0.get(..end));
    let results = reply.head.0.get(reply.body as usize..reply.end as usize);
    match before.zip(results) {
        Some(both) => Cow::Owned([both.0, both.1].concat()),
        None => Cow::Borrowed(reply.head.0),
    }
}

/// How the recorded Reply went.
fn recorded(step: &Step<'_>, message: &[u8]) -> Outcome {
    let items: Vec<ChunkItem<'_>> = step
        .reply
        .payloads
        .iter()
        .filter(|payload| !payload.is_inside)
        .map(|payload| ChunkItem { position: None, length: payload.length, bytes: None })
        .collect();
    Outcome::of(step.asked.described(), Cursor::new(message).with_chunks(&items))
}

/// The directory that is listed, and whether the listing begins.
fn listing(step: &Step<'_>, parts: &Parts, files: &[u32]) -> Option<(u32, bool)> {
    if !parts.title.contains("READDIR") {
        return None;
    }
    let is_first = !step.call.slots.iter().any(|slot| slot.holds == Holds::COOKIE);
    let at = parts.operations.iter().position(|operation| *operation == Operation::READDIR);
    let directory = match at {
        Some(at) => files.get(at).copied(),
        None => {
            let slot = step.call.slots.iter().find(|slot| slot.holds == Holds::FILEHANDLE);
            slot.map(|slot| slot.variable)
        }
    };
    Some((directory.unwrap_or(NONE), is_first))
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

/// The hash that file data of a Reply must have.
fn expected(key: u64, payload: &Payload) -> Option<u128> {
    match payload.content {
        Content::UNKNOWN => None,
        Content::KEYED => {
            let mut data = vec![0; payload.length as usize];
            keyed::fill(key, payload.file, payload.offset, &mut data);
            Some(hash(&data))
        }
        _ => Some(u128::from_be_bytes(payload.hash)),
    }
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
