//! What is in flight, what comes next, and what becomes of it.
//!
//! - [`event_loop`]: engines and their transport, until all is done;
//! - [`issuing`]: which steps are looked at ahead, and which may go; [`window`]: steps that wait or are in flight; [`queue`]: those that may go;
//! - [`concurrency`]: what overlapped in the capture with a change; [`locks`]: stateids that nothing else uses;
//! - [`think_time`]: how long a client thinks;
//! - [`auxiliary_calls`]: programs beside NFS; [`cb_getattr`]: what the server asks of clients with a write delegation;
//! - [`send`]: a step becomes a Call of this run; [`rpcsec_gss`]: what RPCSEC_GSS makes of it;
//! - [`reply`]: its Reply comes, and what it gives is taken; [`reply_check_queue`]: it is held to the recorded one, and gives the step
//!   its state; [`outsiders`]: what another client did in the capture;
//! - [`io_split`]: the live server takes less in one Call than the captured one;
//! - [`reply_timeout`]: no Reply comes;
//! - [`reconnect`]: its connection goes away before that;
//! - [`context_renewal`]: the server does not know a security context any more, or need not any more;
//! - [`reclaim`]: the server has forgotten what it is about;
//! - [`delegation_return`]: it gave a delegation that the capture does not have; [`delegation_substitutes`]: it gave none that the capture has.

mod auxiliary_calls;
mod cb_getattr;
mod concurrency;
mod context_renewal;
mod delegation_return;
mod delegation_substitutes;
mod event_loop;
mod io_split;
mod issuing;
mod locks;
mod outsiders;
mod queue;
mod reclaim;
mod reconnect;
mod reply;
mod reply_check_queue;
mod reply_timeout;
mod rpcsec_gss;
mod send;
mod think_time;
mod window;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::rpc::Xid;
use rustc_hash::{FxHashMap, FxHashSet};

use super::call_description::{CallDescription, CallTitleCache};
use super::callbacks::CallbackServer;
use super::dependencies::DependencyGraph;
use super::dependencies::collector::DependencyCollector;
use super::dependencies::name_targets::NameTargetTable;
use super::file_divergence::FileDivergence;
use super::options::ReplayOptions;
use super::prologue::{PrologueError, prologue};
use super::recording::ReplayRecorder;
use super::recovery::client_state::RecoverableState;
use super::reply_check::ReplyChecker;
use super::report::{ReplayReport, ReplayStepState, StepId};
use super::tree_check::{ExpectedTree, LiveServerNames, TreeCheckReport};
use super::values::{LiveValues, suffix};
use crate::analysis::comparison::record::hash;
use crate::replay::auxiliary_programs::AuxiliaryRpcConnections;
use crate::replay::containment::{ContainedTransport, Containment};
use crate::replay::gss::{self, GssError};
use crate::replay::plan;
use crate::replay::plan::planner::GssPolicy;
use crate::replay::seed::SeededTree;
use crate::replay::trace::emission::PlacedPayload;
use crate::replay::trace::{TraceError, TraceReader, TraceStep};
use crate::replay::transport::{CallTag, ConnectTarget, ConnectionId, RpcTransport, RpcTransportError};
use cb_getattr::CbGetattrAnswers;
use concurrency::{CapturedConcurrency, LiveConcurrency};
use delegation_return::DelegationReturn;
use delegation_substitutes::DelegationSubstitutes;
pub(super) use delegation_substitutes::SubstitutedStateid;
use io_split::MissingValueReason;
use locks::LiveLockStateids;
use queue::StepQueue;
use reclaim::ClientReclaim;
use reply_check_queue::ReplyCheckQueue;
use rpcsec_gss::GssCallSigner;
use think_time::ThinkTimeHistory;
use window::{StepWindow, WindowStep};

/// Bytes that a live Reply may have more than the recorded one, where filehandles and owners are longer.
const SLACK: u32 = 1024;
/// Between a NFS4ERR_DELAY and the next try, once; later tries wait longer, up to ten times as long.
const LATER: Duration = Duration::from_millis(50);
/// Own faults that are told.
const FAULTS: usize = 100;
/// Files that a step left otherwise, which are remembered.
const OTHERWISE: usize = 1 << 16;
/// Times in a row that no Reply may come within the timeout before the run ends.
const SILENCES: u32 = 3;
/// Copies of the captured clients at most.
pub const PARTIES: usize = 4096;
/// Steps in flight at once in the capture that are counted.
const DEPTH: usize = 1 << 16;
/// The state of a step about a delegation that this server did not give.
const UNGIVEN: &str = "no-delegation: is about a delegation that this server did not give";
/// Text of links that is read to be compared.
const TEXT: u32 = 4096;

/// Why a run ended before its end.
#[derive(Debug)]
pub enum ReplayRunError {
    /// The server or the transport.
    Transport(RpcTransportError),
    /// The trace.
    Trace(TraceError),
    /// A security context.
    Security(GssError),
}

impl fmt::Display for ReplayRunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Trace(error) => error.fmt(f),
            Self::Security(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayRunError {}

impl From<RpcTransportError> for ReplayRunError {
    fn from(error: RpcTransportError) -> Self {
        Self::Transport(error)
    }
}

impl From<TraceError> for ReplayRunError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// Looks on while a run goes.
pub trait ReplayMonitor {
    /// How it stands; `total` steps are in the trace.
    fn look(&mut self, report: &ReplayReport, total: u64, elapsed: Duration);

    /// Whether it is to end.
    fn is_over(&self) -> bool {
        false
    }

    /// What hears all that is sent and comes; asked once, when the first step is due.
    fn tape(&mut self) -> Option<Box<dyn ReplayRecorder>> {
        None
    }
}

/// Nobody looks.
impl ReplayMonitor for () {
    fn look(&mut self, _: &ReplayReport, _: u64, _: Duration) {}
}

/// What hears all that is sent and comes, if anything does.
type OptionalReplayRecorder = Option<Box<dyn ReplayRecorder>>;

/// A live connection.
#[derive(Debug)]
struct LiveConnection {
    connection: ConnectionId,
    xid: u32,
    /// Steps that wait for a credit, or for memory.
    parked: VecDeque<u32>,
    /// It is not used any more, and another is to come in its place.
    gone: Option<LostConnection>,
    /// Variables of sessions whose backchannel it is, with their minor version.
    backchannels: Vec<(u32, u32)>,
    /// Those of them that are to be bound to it yet.
    unbound: Vec<(u32, u32)>,
    /// How many recoveries there had been in the run when they were asked for last.
    since: u32,
}

/// A connection that went away.
#[derive(Clone, Copy, Debug)]
struct LostConnection {
    since: Instant,
    /// When the next is to be opened at the earliest.
    next: Instant,
}

/// What becomes of a step that was to be sent.
enum StepSendOutcome {
    Sent,
    /// It was not sent, and has this state.
    Settled(ReplayStepState),
    /// There is no room for it on its line now.
    Parked(usize),
    /// The server asked to be asked again.
    Later,
    /// The server is left alone, or cannot be reached, until then.
    Unreachable(Instant),
    /// The slot of the live session is in use, by what had another slot in the capture.
    Slot((u32, u32)),
}

/// A copy of the captured clients, with a directory of its own.
pub struct ReplayClientCopy<'r, R> {
    /// The trace.
    pub steps: &'r mut TraceReader<R>,
    /// The trace, opened once more.
    pub contents: &'r mut TraceReader<R>,
    /// Its directory.
    pub seeded: &'r SeededTree,
}

/// Runs a trace: `steps` and `contents` are the same trace, opened twice.
///
/// # Errors
/// Where the server cannot be reached, the transport fails, or the trace is damaged.
pub fn run<R: Read + Seek>(
    steps: &mut TraceReader<R>,
    contents: &mut TraceReader<R>,
    transport: &mut dyn RpcTransport,
    target: &ConnectTarget,
    seeded: &SeededTree,
    options: &ReplayOptions,
    watch: &mut dyn ReplayMonitor,
) -> Result<ReplayReport, ReplayRunError> {
    run_all(vec![ReplayClientCopy { steps, contents, seeded }], transport, target, options, watch)
}

/// Runs several copies of the captured clients at the same time, at most [`PARTIES`]. The report is of all together.
///
/// # Errors
/// As [`run`].
pub fn run_all<R: Read + Seek>(
    parties: Vec<ReplayClientCopy<'_, R>>,
    transport: &mut dyn RpcTransport,
    target: &ConnectTarget,
    options: &ReplayOptions,
    watch: &mut dyn ReplayMonitor,
) -> Result<ReplayReport, ReplayRunError> {
    let callbacks = CallbackServer::new(target.address.ip());
    let mut engines = Vec::new();
    for (number, party) in parties.into_iter().take(PARTIES).enumerate() {
        engines.push(ReplayEngine::new(number as u32, party, transport, target, options, &callbacks)?);
    }
    let mut tape = watch.tape();
    if tape.is_some() {
        callbacks.record();
    }
    // From here on nothing is sent that the check has not passed.
    let transport = &mut ContainedTransport::new(transport);
    event_loop::drive(&mut engines, transport, watch, &mut tape, &callbacks)?;
    callbacks.end_recording();
    // What the walk asks is not of the run.
    let recorded_as = tape.map(|tape| tape.finish().map_err(|error| error.to_string()));
    let mut reports = engines.into_iter().map(|engine| engine.conclude(transport));
    let Some(first) = reports.next() else { return Ok(ReplayReport::default()) };
    let mut sum = first?;
    for (number, report) in (2..).zip(reports) {
        sum.join(report?, number, options.shown);
    }
    sum.recorded_as = recorded_as;
    callbacks.finish(&mut sum);
    Ok(sum)
}

impl<'r, R: Read + Seek> ReplayEngine<'r, R> {
    fn new(
        number: u32,
        party: ReplayClientCopy<'r, R>,
        transport: &mut dyn RpcTransport,
        target: &'r ConnectTarget,
        options: &'r ReplayOptions,
        callbacks: &'r CallbackServer,
    ) -> Result<Self, ReplayRunError> {
        let ReplayClientCopy { steps, contents, seeded } = party;
        let plan = plan::planner::StepPlanner::new(steps)?.with(options.chosen.clone(), options.gss);
        let names = NameTargetTable::new(steps)?;
        steps.rewind();
        // The first calls itself as the only one would.
        let tag = if number == 0 { options.tag.clone() } else { format!("{number:x}.{}", options.tag) };
        let first_xid = Xid(hash(format!("beside {tag}").as_bytes()) as u32);
        let mut values = LiveValues::new(&tag);
        let mut report = ReplayReport::default();
        for (variable, handle) in &seeded.handles {
            report.forgotten += u64::from(!values.set(*variable, handle));
        }
        let mut containment = Containment::of_run(seeded, &suffix(&tag));
        let made = prologue(contents, transport, target, &tag, &mut values, &mut containment);
        match made {
            Ok(made) => report.bridged = made,
            Err(PrologueError::Trace(error)) => return Err(error.into()),
            Err(PrologueError::Transport(error)) => return Err(error.into()),
            // What is missing is told where it is used.
            Err(PrologueError::Server(what)) => report.refused.push(what),
        }
        report.refused.extend(seeded.refused.iter().cloned());
        let signing = match options.gss {
            GssPolicy::Reestablish => GssCallSigner::of(contents, transport, target, &tag, gss::mechanism)?,
            GssPolicy::AsSys | GssPolicy::Skip => None,
        };
        let end = &steps.summary().end;
        report.recorded = end.last.saturating_sub(end.first);
        let first = end.first;
        Ok(Self {
            number,
            tag,
            steps,
            contents,
            target,
            seeded,
            options,
            callbacks,
            plan,
            values,
            containment,
            judge: ReplyChecker::new(options.strict, options.off.iter().copied(), options.selection.clone())
                .with_rules(options.rules.clone())
                .with_squashed(seeded.squashed),
            report: ReplayReport { squashed: seeded.squashed, ..report },
            titles: CallTitleCache::default(),
            seats: StepWindow::default(),
            graph: DependencyGraph::default(),
            claims: DependencyCollector::new(options.order, options.pace, names),
            queue: StepQueue::default(),
            ready: Vec::new(),
            turns: 0,
            overlap: CapturedConcurrency::default(),
            crowd: LiveConcurrency::default(),
            locks: LiveLockStateids::default(),
            depths: BinaryHeap::new(),
            in_flight: 0,
            barren: 0,
            silences: 0,
            silent_since: None,
            stalled_since: None,
            delayed_since: None,
            impatience: 0,
            ledger: RecoverableState::default(),
            restart: None,
            unasked: VecDeque::new(),
            recoveries: 0,
            asked: 0,
            unreclaimed: FxHashSet::default(),
            expiries: VecDeque::new(),
            lines: Vec::new(),
            by_place: FxHashMap::default(),
            by_connection: FxHashMap::default(),
            slots: FxHashMap::default(),
            clients: FxHashMap::default(),
            started: None,
            first,
            sent: 0,
            is_exhausted: false,
            next_due: None,
            otherwise: FxHashMap::default(),
            borrowed: FxHashSet::default(),
            substitutes: DelegationSubstitutes::default(),
            lacks: seeded.missing.iter().map(|variable| (*variable, MissingValueReason::Object)).collect(),
            undone_in: seeded.missing_in.clone(),
            leaves_open: false,
            delegated: CbGetattrAnswers::default(),
            out: Vec::new(),
            placed: Vec::new(),
            signing,
            buffers: Vec::new(),
            needs: Vec::new(),
            directories: Vec::new(),
            known: Vec::new(),
            keyed: Vec::new(),
            unjudged: ReplyCheckQueue::default(),
            awaited: FxHashSet::default(),
            walk: Some(ExpectedTree::new()),
            beside: Some(AuxiliaryRpcConnections::new(target, options.beside, first_xid)),
        })
    }
}

struct ReplayEngine<'r, R> {
    /// Which of several copies, from 0.
    number: u32,
    /// What makes its clients strangers to those of other runs, and of other copies.
    tag: String,
    steps: &'r mut TraceReader<R>,
    contents: &'r mut TraceReader<R>,
    target: &'r ConnectTarget,
    seeded: &'r SeededTree,
    options: &'r ReplayOptions,
    callbacks: &'r CallbackServer,
    plan: plan::planner::StepPlanner,
    values: LiveValues,
    /// What its Calls must pass before they are sent.
    containment: Containment,
    judge: ReplyChecker,
    report: ReplayReport,
    titles: CallTitleCache,
    seats: StepWindow,
    graph: DependencyGraph,
    claims: DependencyCollector,
    queue: StepQueue,
    /// Seats of steps that have become free to go.
    ready: Vec<u32>,
    /// Steps that were admitted.
    turns: u64,
    overlap: CapturedConcurrency,
    /// Which steps overlap in the run.
    crowd: LiveConcurrency,
    locks: LiveLockStateids,
    /// When those were answered in the capture that were in flight when the last step was sent there.
    depths: BinaryHeap<Reverse<u64>>,
    in_flight: usize,
    /// Connections in a row that went away without a Reply.
    barren: u32,
    /// Times in a row that no Reply came within the timeout, and when the last of them was.
    silences: u32,
    silent_since: Option<Instant>,
    /// Since when steps wait for a Reply that is none of a step: of what binds a connection, or has state again.
    stalled_since: Option<Instant>,
    /// Since when the server has answered nothing but that it is to be asked later.
    delayed_since: Option<Instant>,
    /// Steps that were sent again in vain because the server asked for it.
    impatience: u32,
    /// What the clients hold at the server.
    ledger: RecoverableState,
    /// A client that is set up anew.
    restart: Option<ClientReclaim>,
    /// Delegations that are to be returned yet.
    unasked: VecDeque<DelegationReturn>,
    /// How often one was, and how many Calls that took.
    recoveries: u32,
    asked: u64,
    /// Variables of what could not be had again.
    unreclaimed: FxHashSet<u32>,
    /// When Calls in flight were sent, in that order.
    expiries: VecDeque<(Instant, CallTag)>,
    lines: Vec<LiveConnection>,
    /// Lines by client, and connection of the capture.
    by_place: FxHashMap<(u32, u64), usize>,
    by_connection: FxHashMap<ConnectionId, usize>,
    /// Steps that wait for a slot of a live session.
    slots: FxHashMap<(u32, u32), VecDeque<u32>>,
    /// Of each client, if it is to think, when its latest steps were done.
    clients: FxHashMap<u32, ThinkTimeHistory>,
    started: Option<Instant>,
    /// When the first Call of the capture was seen.
    first: u64,
    sent: u64,
    is_exhausted: bool,
    /// When the next step is due, if that is known.
    next_due: Option<Instant>,
    /// What of files differs from the capture because of a step before, by the variable of the file.
    otherwise: FxHashMap<u32, FileDivergence>,
    /// Variables of delegations that this server did not give.
    borrowed: FxHashSet<u32>,
    /// The opens that stand for them.
    substitutes: DelegationSubstitutes,
    /// Why variables have no value that steps would have given, or objects have.
    lacks: FxHashMap<u32, MissingValueReason>,
    /// Variables of directories in which a step would have made, removed or renamed something, and was not sent.
    undone_in: FxHashSet<u32>,
    /// An open of the trace, or in the place of a delegation, is not closed by any step.
    leaves_open: bool,
    /// What the captured clients told the server that had given them delegations.
    delegated: CbGetattrAnswers,
    out: Vec<u8>,
    placed: Vec<PlacedPayload>,
    /// What Calls are signed with, if they are.
    signing: Option<GssCallSigner>,
    buffers: Vec<Vec<u8>>,
    needs: Vec<u32>,
    /// Of each operation of the step that was answered, whether its file is a directory.
    directories: Vec<bool>,
    /// Length and hash of the file data that its Reply must have, and room for data that is made from the key.
    known: Vec<(u32, Option<u128>)>,
    keyed: Vec<u8>,
    unjudged: ReplyCheckQueue,
    /// Variables that Replies give from which they were not taken yet.
    awaited: FxHashSet<u32>,
    /// What the steps must have left.
    walk: Option<ExpectedTree>,
    /// What is not NFS; nothing while it is asked.
    beside: Option<AuxiliaryRpcConnections>,
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Whether nothing is left to be sent.
    fn is_done(&self) -> bool {
        self.is_exhausted && self.seats.count() == 0
    }

    /// Nothing is in flight any more: what was not sent has its state, too.
    fn conclude(mut self, transport: &mut ContainedTransport<'_>) -> Result<ReplayReport, ReplayRunError> {
        let ended = || ReplayStepState::Skipped("interrupted: the run was ended before it".into());
        for held in self.seats.waiting() {
            self.report.settle(held.id, held.parts.title(), ended(), self.options.shown);
        }
        let mut parts = CallDescription::default();
        while !self.is_exhausted {
            match self.steps.next_step()? {
                Some(step) => {
                    parts.read(&step, &mut self.titles);
                    self.report.settle(id(&step), parts.title(), ended(), self.options.shown);
                }
                None => self.is_exhausted = true,
            }
        }
        self.destroy_contexts(transport);
        let late = self.judge.late(true);
        self.report.late(late, self.options.shown);
        if let (Some(why), true) = (&self.report.unreachable, self.options.walk) {
            // It would wait once more for what does not come.
            let failed = Some(format!("not begun: {why}"));
            self.report.walked = Some(TreeCheckReport { failed, ..TreeCheckReport::default() });
        } else if let Some(walk) =
            self.walk.take().filter(|_| self.options.walk && !self.report.is_interrupted)
        {
            let left = LiveServerNames { seeded: self.seeded, values: &self.values, judge: &self.judge };
            let (tag, shown) = (&self.tag, self.options.shown);
            self.report.walked = Some(walk.look(
                (transport, &mut self.containment),
                self.target,
                tag,
                &left,
                self.contents,
                shown,
            ));
        }
        self.report.forgotten += self.containment.take_forgotten();
        self.report.compared = [self.judge.compared.fields, self.judge.compared.data_bytes];
        Ok(self.report)
    }

    /// A step has its state, and leaves its seat.
    fn settle(&mut self, seat: u32, held: Box<WindowStep>, state: ReplayStepState) {
        if let (
            Some(step),
            ReplayStepState::Mismatched(_) | ReplayStepState::Repaired(_) | ReplayStepState::Unreplayable(_),
        ) = (held.step.read(), &state)
        {
            self.doubt_objects(&held, &step, &state);
        }
        self.report.settle(held.id, held.parts.title(), state, self.options.shown);
        self.leave(seat, held);
    }

    /// A step leaves its seat, in which `room` stays: others may go.
    fn leave(&mut self, seat: u32, room: Box<WindowStep>) {
        self.seats.leave(seat, room);
        self.graph.finish(seat, &mut self.ready);
        while let Some(seat) = self.ready.pop() {
            self.enqueue(seat);
        }
    }
}

/// Notes what of a file differs from the capture, as far as there is room.
fn touch(files: &mut FxHashMap<u32, FileDivergence>, variable: u32, touched: &FileDivergence) {
    if !touched.is_nothing() && (files.len() < OTHERWISE || files.contains_key(&variable)) {
        files.entry(variable).or_default().join(touched);
    }
}

fn id(step: &TraceStep<'_>) -> StepId {
    StepId { step: step.origin.id, frames: [step.origin.call_frame, step.origin.reply_frame] }
}
