//! The replay engine: issues the steps of a trace, handles their Replies and reports their states.
//!
//! It has five parts. None of them knows another; [`ReplayEngine`] calls them and passes results on:
//!
//! - [`scheduler`]: steps that are not finished, in a [`step_window`]; their order ([`ready_queue`],
//!   [`overlapping_changes`]) and pace ([`pacer`]);
//! - [`live_call_builder`]: values and state at the live server, from which Calls are built; it changes them for the
//!   live server ([`io_split`], [`delegation_substitutes`]) and signs them ([`rpcsec_gss`]);
//! - [`connections`]: live connections, their loss and timeouts;
//! - [`verification`]: compares Replies with the recorded ones, which determines the outcome of a step
//!   ([`reply_check_queue`]); [`lock_stateid_change_detection`]: lock stateids with a single user;
//!   [`changes_by_uncaptured_clients`]: changes made by other clients in the capture;
//! - [`ReplayReport`]: outcomes and counts.
//!
//! The rest involves several parts. [`event_loop`] drives the engines and their transport until every step is finished:
//!
//! - [`issuing`] and [`send`]: send a step; [`non_nfs_steps`]: steps of programs other than NFS;
//! - [`reply`]: handles a Reply and stores its values; [`cb_getattr`]: answers to the server's CB_GETATTR;
//! - [`reply_timeout`], [`reconnect`]: missing Replies and lost connections;
//! - [`reclaim`], [`gss_context_renewal`]: clients and security contexts that the server has forgotten; return of the
//!   delegations that the capture does not return.

mod cb_getattr;
mod changes_by_uncaptured_clients;
mod connections;
mod delegation_substitutes;
mod event_loop;
mod gss_context_renewal;
mod io_split;
mod issuing;
mod live_call_builder;
mod lock_stateid_change_detection;
mod non_nfs_steps;
mod overlapping_changes;
mod pacer;
mod ready_queue;
mod reclaim;
mod reconnect;
mod reply;
mod reply_check_queue;
mod reply_timeout;
mod rpcsec_gss;
mod scheduler;
mod send;
mod step_window;
mod verification;

use std::cell::RefCell;
use std::fmt;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::gss::{self, GssContextSetupError};
use nfsrdma_rpc::{
    CallTag, ConnectTarget, OutgoingRpcCall, RpcTransport, RpcTransportError, SubmitError,
    TransportConnectionId,
};
use rustc_hash::FxHashMap;

use super::call_operations_and_files::CallOperationsAndFiles;
use super::callbacks::CallbackServer;
use super::dependencies::collector::DependencyCollector;
use super::dependencies::name_to_object_bindings::DirectoryEntryTargetTable;
use super::file_divergence::FileDivergence;
use super::final_tree_check::{FinalTreeCheckLiveIdentifiers, FinalTreeCheckReport};
use super::live_values::{LiveVariableValues, client_suffix};
use super::options::ReplayOptions;
use super::preexisting_client_state::create_missing_state;
use super::report::ReplayReport;
use super::report::steps::StepIdWithFrames;
use super::step_outcome::StepOutcome;
use super::trace_recording::ReplayMessageRecorder;
use crate::auxiliary_programs::AuxiliaryRpcConnections;
use crate::containment::{Containment, ContainmentCheckedTransport};
use crate::run_plan;
use crate::run_plan::step_replayability::GssCallReplayPolicy;
use crate::seed::SeededTree;
use crate::trace::error::TraceError;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::TraceStep;
use connections::ReplayConnectionPool;
use delegation_substitutes::DelegationSubstitutes;
use io_split::UnboundVariableReason;
use live_call_builder::LiveCallBuilder;
use nfsrdma_analysis::comparison::record::hash;
use rpcsec_gss::{GssCallSigner, GssUnsignedCallReason};
use scheduler::StepScheduler;
use step_window::StepWindowEntry;
use verification::LiveReplyVerificationState;

/// Extra bytes that a live Reply may need compared with the recorded one, for longer filehandles and owners.
const REPLY_HEADROOM_BYTES: u32 = 1024;
/// Maximum number of files whose differences from the capture are remembered.
const MAX_DIVERGENT_FILES: usize = 1 << 16;
/// Number of consecutive reply timeouts that ends the run.
const MAX_REPLY_TIMEOUTS: u32 = 3;
/// Maximum number of copies of the captured clients.
pub const MAX_CLIENT_COPIES: usize = 4096;
/// State of a step that uses a delegation that the live server did not grant.
const NO_DELEGATION_REASON: &str = "no-delegation: uses a delegation that this server did not grant";

/// An error that ends a run early.
#[derive(Debug)]
pub enum ReplayRunError {
    /// Error of the server or the transport.
    Transport(RpcTransportError),
    /// Error in the trace.
    Trace(TraceError),
    /// Error of a security context.
    Security(GssContextSetupError),
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

/// Observes a run in progress.
pub trait ReplayMonitor {
    /// Called with the current report; `total` is the number of steps in the trace.
    fn report_progress(&mut self, report: &ReplayReport, total: u64, elapsed: Duration);

    /// Returns `true` if the run is to be interrupted.
    fn should_stop(&self) -> bool {
        false
    }

    /// Returns the recorder of everything sent and received; called once, before the first step is sent.
    fn recorder(&mut self) -> Option<Box<dyn ReplayMessageRecorder>> {
        None
    }
}

impl ReplayMonitor for () {
    fn report_progress(&mut self, _: &ReplayReport, _: u64, _: Duration) {}
}

/// Recorder of everything sent and received, if there is one.
type OptionalReplayRecorder = Option<Box<dyn ReplayMessageRecorder>>;

/// Passes the recorder to `record`, if there is one.
fn with_recorder(
    recorder: &RefCell<OptionalReplayRecorder>,
    record: impl FnOnce(&mut dyn ReplayMessageRecorder),
) {
    if let Some(recorder) = &mut *recorder.borrow_mut() {
        record(&mut **recorder);
    }
}

/// Reason why a step was not sent.
enum StepSendObstacle {
    Finished(StepOutcome),
    /// The live connection with this index has no capacity now.
    Parked(usize),
    /// The server asked for a later retry.
    RetryLater,
    /// The server cannot be reached, or is not to be contacted, until this time.
    UnreachableUntil(Instant),
    /// The slot of the live session is in use by a step that used another slot in the capture.
    SlotBusy((u32, u32)),
    Failed(ReplayRunError),
}

impl StepSendObstacle {
    /// The step cannot be replayed, for this reason.
    fn unreplayable(reason: impl fmt::Display) -> Self {
        Self::Finished(StepOutcome::Unreplayable(reason.to_string()))
    }
}

impl From<StepOutcome> for StepSendObstacle {
    fn from(outcome: StepOutcome) -> Self {
        Self::Finished(outcome)
    }
}

impl<E: Into<ReplayRunError>> From<E> for StepSendObstacle {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

enum NonStepCallSubmitResult {
    Sent,
    /// The connection has no capacity, or the Call cannot be signed yet.
    NotYet,
    /// The connection is lost; the transport reports its end later.
    Lost,
    /// The Call can never be signed, for this reason.
    Unsigned(String),
    /// The Call does not pass the containment check.
    Escapes(String),
}

/// A copy of the captured clients, with a directory of its own.
pub struct ReplayClientCopy<'r, R> {
    /// The trace.
    pub steps: &'r mut ReplayTraceReader<R>,
    /// The same trace, opened a second time.
    pub contents: &'r mut ReplayTraceReader<R>,
    /// Directory of this copy.
    pub seeded: &'r SeededTree,
}

/// Runs a trace. `steps` and `contents` are the same trace, opened twice.
///
/// # Errors
/// Returns an error if the server cannot be reached, the transport fails, or the trace is damaged.
pub fn run<R: Read + Seek>(
    steps: &mut ReplayTraceReader<R>,
    contents: &mut ReplayTraceReader<R>,
    transport: &mut dyn RpcTransport,
    target: &ConnectTarget,
    seeded: &SeededTree,
    options: &ReplayOptions,
    monitor: &mut dyn ReplayMonitor,
) -> Result<ReplayReport, ReplayRunError> {
    run_all(vec![ReplayClientCopy { steps, contents, seeded }], transport, target, options, monitor)
}

/// Runs several copies of the captured clients concurrently, at most [`MAX_CLIENT_COPIES`], and returns one report for
/// all of them.
///
/// # Errors
/// Returns the errors of [`run`].
pub fn run_all<R: Read + Seek>(
    copies: Vec<ReplayClientCopy<'_, R>>,
    transport: &mut dyn RpcTransport,
    target: &ConnectTarget,
    options: &ReplayOptions,
    monitor: &mut dyn ReplayMonitor,
) -> Result<ReplayReport, ReplayRunError> {
    let callbacks = CallbackServer::new(target.address.ip());
    let recorder = RefCell::default();
    let mut engines = Vec::new();
    for (number, copy) in (0..).zip(copies.into_iter().take(MAX_CLIENT_COPIES)) {
        engines.push(ReplayEngine::new(number, copy, transport, target, options, &callbacks, &recorder)?);
    }
    recorder.replace(monitor.recorder());
    with_recorder(&recorder, |_| callbacks.record());
    // From here on, every Call passes the containment check before it is sent.
    let transport = &mut ContainmentCheckedTransport::new(transport);
    event_loop::drive(&mut engines, transport, monitor, &recorder, &callbacks)?;
    callbacks.end_recording();
    // The Calls of the tree check are not part of the recording.
    let recording = recorder.take().map(|recorder| recorder.finish().map_err(|error| error.to_string()));
    let mut reports = engines.into_iter().map(|engine| engine.conclude(transport));
    let Some(first) = reports.next() else { return Ok(ReplayReport::default()) };
    let mut sum = first?;
    for (number, report) in (2..).zip(reports) {
        sum.join(report?, number);
    }
    sum.recording = recording;
    callbacks.finish(&mut sum);
    Ok(sum)
}

impl<'r, R: Read + Seek> ReplayEngine<'r, R> {
    fn new(
        number: u32,
        copy: ReplayClientCopy<'r, R>,
        transport: &mut dyn RpcTransport,
        target: &'r ConnectTarget,
        options: &'r ReplayOptions,
        callbacks: &'r CallbackServer,
        recorder: &'r RefCell<OptionalReplayRecorder>,
    ) -> Result<Self, ReplayRunError> {
        let ReplayClientCopy { steps, contents, seeded } = copy;
        let plan = run_plan::step_replayability::StepPlanner::new(steps)?
            .with_selection(options.selected_steps.clone(), options.gss);
        let names = DirectoryEntryTargetTable::new(steps)?;
        steps.rewind();
        // The first copy uses the tag that a single copy would use.
        let tag = if number == 0 { options.tag.clone() } else { format!("{number:x}.{}", options.tag) };
        let first_xid = Xid(hash(format!("beside {tag}").as_bytes()) as u32);
        let mut values = LiveVariableValues::new(&tag);
        let mut report = ReplayReport { squashed: seeded.squashed_owner.clone(), ..ReplayReport::default() };
        report.steps.max_mismatches = options.max_shown_mismatches;
        for (variable, handle) in &seeded.handles {
            report.dropped_values += u64::from(!values.set_value(*variable, handle));
        }
        let mut containment = Containment::for_run(seeded, &client_suffix(&tag));
        let setup = create_missing_state(contents, transport, target, &tag, &mut values, &mut containment)?;
        report.synthesized = setup.counts;
        for reason in &setup.refused_clients {
            report.add_refusal(format!("a client from before the capture: {reason}"));
        }
        for (_, reason) in &setup.refused {
            report.add_refusal(format!("a file that was opened before the capture: {reason}"));
        }
        let mut substitutes = DelegationSubstitutes::default();
        substitutes.active.extend(&setup.delegations);
        report.refused.extend(seeded.refusals.iter().cloned());
        let signing = match options.gss {
            GssCallReplayPolicy::Krb5 => {
                GssCallSigner::from_trace(contents, transport, target, &tag, gss::mechanism)?
            }
            GssCallReplayPolicy::Sys | GssCallReplayPolicy::Skip => None,
        };
        let end = &steps.summary().end;
        report.timing.recorded_ns = end.last.saturating_sub(end.first);
        let mut verification = LiveReplyVerificationState::new(options, seeded, signing.is_some());
        verification.leaves_open = setup.leaves_open;
        let refused_handles = seeded.refused_handles.iter();
        if let Some(tree) = verification.expected_tree.as_mut().filter(|_| options.checks_tree) {
            tree.add_initial_content(contents, seeded)?;
        }
        Ok(Self {
            scheduler: StepScheduler::new(
                steps,
                plan,
                DependencyCollector::new(options.order, options.pace, names),
                options.pace,
            ),
            verification,
            call_builder: LiveCallBuilder {
                values,
                containment,
                signing,
                missing_values: refused_handles
                    .map(|variable| (*variable, UnboundVariableReason::Object))
                    .collect(),
                ungranted_delegations: setup.delegations.into_iter().collect(),
                substitutes,
                refused_opens: setup.refused.into_iter().collect(),
                auxiliary: Some(AuxiliaryRpcConnections::new(target, options.auxiliary_ports, first_xid)),
                ..LiveCallBuilder::default()
            },
            connections: ReplayConnectionPool::default(),
            report,
            context: ReplayClientCopyContext { number, tag, target, seeded, options, callbacks, recorder },
            contents,
        })
    }
}

/// Settings that all parts of a run read.
struct ReplayClientCopyContext<'r> {
    /// Number of this client copy, from 0.
    number: u32,
    /// Suffix that makes client owner strings unique per run and per copy.
    tag: String,
    target: &'r ConnectTarget,
    seeded: &'r SeededTree,
    options: &'r ReplayOptions,
    callbacks: &'r CallbackServer,
    /// Shared by all copies.
    recorder: &'r RefCell<OptionalReplayRecorder>,
}

impl ReplayClientCopyContext<'_> {
    /// Returns `true` if the Reply to a Call sent at this time is overdue.
    fn is_overdue(&self, sent: Instant, now: Instant) -> bool {
        now.saturating_duration_since(sent) > self.options.timeout
    }

    /// Returns the reason for giving up a Call whose Reply is overdue.
    fn timeout_text(&self) -> String {
        format!("no Reply within {} s", self.options.timeout.as_secs_f64())
    }
}

/// The run of one client copy.
struct ReplayEngine<'r, R> {
    context: ReplayClientCopyContext<'r>,
    /// Contents of payloads, which Calls and the verification of Replies need.
    contents: &'r mut ReplayTraceReader<R>,
    scheduler: StepScheduler<'r, R>,
    call_builder: LiveCallBuilder,
    connections: ReplayConnectionPool,
    verification: LiveReplyVerificationState<'r>,
    report: ReplayReport,
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Ends the run when nothing is in flight, gives unsent steps their state and returns the report.
    fn conclude(
        mut self,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<ReplayReport, ReplayRunError> {
        let interrupted = || StepOutcome::Skipped("interrupted: the run ended before it".into());
        for entry in self.scheduler.window.steps_in_order() {
            self.report.steps.count(entry.id, entry.description.title(), interrupted());
        }
        let mut parts = CallOperationsAndFiles::default();
        while !self.scheduler.is_exhausted {
            match self.scheduler.steps.next_step()? {
                Some(step) => {
                    parts.read(&step, &mut self.scheduler.titles);
                    self.report.steps.count(step_id(&step), parts.title(), interrupted());
                }
                None => self.scheduler.is_exhausted = true,
            }
        }
        self.destroy_contexts(transport);
        let late_differences = self.verification.checker.take_late_differences(true);
        self.report.steps.apply_late_differences(late_differences);
        if let (Some(reason), true) = (&self.report.end.unreachable, self.context.options.checks_tree) {
            // The tree check would only time out again.
            let failed = Some(format!("not started: {reason}"));
            self.report.tree_check = Some(FinalTreeCheckReport { failed, ..FinalTreeCheckReport::default() });
        } else if let Some(tree) = self
            .verification
            .expected_tree
            .take()
            .filter(|_| self.context.options.checks_tree && !self.report.end.is_interrupted)
        {
            let options = &self.context.options;
            let identifiers = FinalTreeCheckLiveIdentifiers {
                seeded: self.context.seeded,
                values: &self.call_builder.values,
                checker: &self.verification.checker,
                signs_calls: options.gss == GssCallReplayPolicy::Krb5,
                max_duration: options.max_duration(self.report.timing.recorded_ns),
                max_shown_mismatches: options.max_shown_mismatches,
            };
            self.report.tree_check = Some(tree.check(
                (transport, &mut self.call_builder.containment),
                self.context.target,
                &self.context.tag,
                &identifiers,
                self.contents,
            ));
        }
        self.report.dropped_values +=
            self.call_builder.dropped_values + self.call_builder.containment.take_dropped_count();
        self.report.compared = self.verification.checker.compared;
        Ok(self.report)
    }

    /// Submits a Call that is no step, signed if `client` is given and signs its Calls.
    fn submit_own(
        &mut self,
        connection: TransportConnectionId,
        (xid, tag): (Xid, CallTag),
        (message, client): (&[u8], Option<u32>),
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> NonStepCallSubmitResult {
        let signing = self.call_builder.signing.as_mut().zip(client);
        let signed = signing.map(|(signing, client)| signing.sign_own(client, tag, message)).transpose();
        let sent = match signed {
            Ok(signed) => signed.flatten().unwrap_or(message),
            Err(GssUnsignedCallReason::NotYet) => return NonStepCallSubmitResult::NotYet,
            Err(GssUnsignedCallReason::Never(reason)) => return NonStepCallSubmitResult::Unsigned(reason),
        };
        let call = OutgoingRpcCall::without_payloads(xid, tag, sent, REPLY_HEADROOM_BYTES);
        match self.call_builder.containment.check_call(call).map(|call| transport.submit(connection, &call)) {
            Ok(Ok(_)) => NonStepCallSubmitResult::Sent,
            Ok(Err(SubmitError::Busy(_))) => NonStepCallSubmitResult::NotYet,
            Ok(Err(SubmitError::Refused(_))) => NonStepCallSubmitResult::Lost,
            Err(escape) => NonStepCallSubmitResult::Escapes(escape.to_string()),
        }
    }

    /// Queues at most `max_count` of the steps that wait for capacity on a connection.
    fn unpark_connection(&mut self, connection: TransportConnectionId, max_count: usize) {
        if let Some(number) = self.connections.connection_index.get(&connection) {
            self.scheduler.unpark(*number, max_count);
        }
    }

    /// Records the final state of a step and releases its window entry.
    fn finish_step(&mut self, window_index: u32, entry: Box<StepWindowEntry>, state: StepOutcome) {
        let is_executed = match &state {
            StepOutcome::Mismatched(_) | StepOutcome::Substituted(_) | StepOutcome::Unreplayable(_) => true,
            // The other operations of a DELEGRETURN that was sent as a CLOSE are not compared.
            StepOutcome::Skipped(_) => entry.rewrites.is_substituted,
            StepOutcome::Matched | StepOutcome::Tolerated(_) => false,
        };
        if let (Some(step), true) = (entry.step.trace_step(), is_executed) {
            self.verification.mark_objects_uncertain(&entry, &step, &state);
        }
        self.report.steps.count(entry.id, entry.description.title(), state);
        self.scheduler.release(window_index, entry);
    }
}

/// Records differences of a file from the capture, if the number of files allows it.
fn record_divergence(files: &mut FxHashMap<u32, FileDivergence>, variable: u32, touched: &FileDivergence) {
    if !touched.is_empty() && (files.len() < MAX_DIVERGENT_FILES || files.contains_key(&variable)) {
        files.entry(variable).or_default().merge(touched);
    }
}

fn step_id(step: &TraceStep<'_>) -> StepIdWithFrames {
    StepIdWithFrames { step: step.origin.id, frames: [step.origin.call_frame, step.origin.reply_frame] }
}
