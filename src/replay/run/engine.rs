//! What is in flight, what comes next, and what becomes of it.
//!
//! - [`sending`]: a step becomes a Call of this run;
//! - [`hearing`]: its Reply gives it its state.

mod hearing;
mod sending;

use std::collections::VecDeque;
use std::fmt;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::{Field, Unobserved};
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::{Program, Xid};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Xdr};
use rustc_hash::{FxHashMap, FxHashSet};

use super::judge::Judge;
use super::options::{Options, Order, Pace};
use super::prologue::{PrologueError, prologue};
use super::recording::Tape;
use super::report::{Report, State, StepId};
use super::responder;
use super::shape::Parts;
use super::values::{Used, Values};
use crate::replay::plan;
use crate::replay::plan::reason::{Reason, State as Planned};
use crate::replay::seed::Seeded;
use crate::replay::trace::emit::Placed;
use crate::replay::trace::{Holds, NONE, Step, Trace, TraceError};
use crate::replay::transport::{ConnectionId, Discard, Disconnect, Event, Target, Transport, TransportError};

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

    /// What hears all that is sent and comes; asked once, when the first step is due.
    fn tape(&mut self) -> Option<Box<dyn Tape>> {
        None
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
    /// An OPEN asks for what it got in the capture.
    has_other_wants: bool,
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
    let plan = plan::judge::Judge::new(steps)?.with(options.chosen.clone(), options.gss);
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
    let tape = watch.tape();
    let engine = Engine {
        tape,
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
    tape: Option<Box<dyn Tape>>,
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
                    if let Some(tape) = &mut self.tape {
                        tape.lost(tag.0, Some(&error));
                    }
                    self.fail(tag.0, &format!("RDMA_ERROR: {error:?}"));
                }
                Some(Event::Call(call)) => {
                    let mut names = Vec::new();
                    answer = responder::answer(call.message, &mut names)
                        .map(|message| (call.connection, call.xid, message));
                    if let Some(tape) = &mut self.tape {
                        let answer = answer.as_ref().map(|(_, _, message)| message.as_slice());
                        tape.called(call.connection, call.message, answer);
                    }
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
        self.report.recorded_as =
            self.tape.take().map(|tape| tape.finish().map_err(|error| error.to_string()));
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
            if verdict.reason == Some(Reason::Filtered) && self.otherwise.len() < OTHERWISE {
                // What it would have done to these files is not done.
                self.otherwise.extend(
                    step.call
                        .slots
                        .iter()
                        .chain(step.reply.slots.iter())
                        .filter_map(|slot| (slot.holds == Holds::FILEHANDLE).then_some(slot.variable)),
                );
            }
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
                has_other_wants: false,
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
