//! The replay engine: issues the steps of a trace, handles their Replies and reports their states.
//!
//! It has five parts. None of them knows another; [`ReplayEngine`] calls them and passes results on:
//!
//! - [`scheduler`]: steps that are not finished, in a [`step_window`]; their order ([`ready_queue`],
//!   [`overlapping_changes`]) and pace ([`pacer`]);
//! - [`live_call_builder`]: values and state at the live server, from which Calls are built; it changes them for the
//!   live server ([`io_split`], [`listing_parts`], [`substitute_opens_for_delegations`]) and signs them
//!   ([`rpcsec_gss`]);
//!   [`unbound_variable_reason`]: reasons for variables without a value;
//! - [`connections`]: live connections, their loss and timeouts;
//! - [`verification`]: compares Replies with the recorded ones, which determines the outcome of a step
//!   ([`reply_check_queue`]); [`lock_stateid_change_detection`]: lock stateids with a single user;
//!   [`changes_by_uncaptured_clients`]: changes made by other clients in the capture;
//! - [`ReplayReport`]: outcomes and counts.
//!
//! The rest involves several parts; [`replay_engine`] has their common actions. [`event_loop`] drives the engines and
//! their transport until every step is finished:
//!
//! - [`issuing`] and [`send`]: send a step ([`send_result`]); [`non_nfs_steps`]: steps of programs other than NFS;
//! - [`reply_dispatch`]: passes Replies and lost Calls on; [`reply`]: handles a Reply and stores its values;
//!   [`idle_time_reply_checks`]: compares it with the recorded one ([`recorded_reply`]); [`cb_getattr`]: answers to the
//!   server's CB_GETATTR;
//! - [`reply_timeout`], [`reconnect`], [`session_binding_result`]: missing Replies and lost connections;
//! - [`reclaim`], [`gss_context_renewal`]: clients ([`client_reclaim`]) and security contexts
//!   ([`renewable_gss_context`]) that the server has forgotten; return of the delegations that the capture does not
//!   return;
//! - [`lease_renewal`]: renews the leases of clients ([`client_lease`]).

mod cb_getattr;
mod changes_by_uncaptured_clients;
mod client_lease;
mod client_reclaim;
mod connections;
mod event_loop;
mod gss_context_renewal;
mod idle_time_reply_checks;
mod io_split;
mod issuing;
mod lease_renewal;
mod listing_continuation;
mod listing_parts;
mod live_call_builder;
mod lock_stateid_change_detection;
mod non_nfs_steps;
mod overlapping_changes;
mod pacer;
mod ready_queue;
mod reclaim;
mod reconnect;
mod recorded_reply;
mod renewable_gss_context;
mod replay_engine;
mod reply;
mod reply_check_queue;
mod reply_dispatch;
mod reply_timeout;
mod rpcsec_gss;
mod scheduler;
mod send;
mod send_result;
mod session_binding_result;
mod step_window;
mod substitute_opens_for_delegations;
mod unbound_variable_reason;
mod verification;

use std::cell::RefCell;
use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::gss::{self};
use nfsrdma_rpc::{ConnectTarget, RpcClientTransport};

use super::call_operations_and_files::CallOperationsAndFiles;
use super::dependencies::collector::DependencyCollector;
use super::dependencies::name_to_object_bindings::DirectoryEntryTargetTable;
use super::final_tree_check::{FinalTreeCheckLiveIdentifiers, FinalTreeCheckReport};
use super::live_values::{LiveVariableValues, client_suffix};
use super::missing_calls::MissingCalls;
use super::nfs40_callback_server::CallbackServer;
use super::options::ReplayOptions;
use super::preexisting_client_state::create_missing_state;
use super::report::ReplayReport;
use super::run_error::ReplayRunError;
use super::run_monitor::ReplayMonitor;
use super::step_outcome::StepOutcome;
use super::trace_recording::{OptionalReplayRecorder, with_recorder};
use crate::auxiliary_programs::AuxiliaryRpcConnections;
use crate::containment::{Containment, ContainmentCheckedTransport};
use crate::run_plan;
use crate::run_plan::step_replayability::GssCallReplayPolicy;
use crate::seed::SeededTree;
use crate::trace::reader::ReplayTraceReader;
use client_lease::ClientLeases;
use connections::ReplayConnectionPool;
use live_call_builder::LiveCallBuilder;
use replay_engine::{ReplayClientCopyContext, ReplayEngine};
use rpcsec_gss::GssCallSigner;
use scheduler::{StepScheduler, step_id};
use substitute_opens_for_delegations::pending_substitutes::DelegationSubstituteOpens;
use unbound_variable_reason::UnboundVariableReason;
use verification::LiveReplyVerificationState;

/// Maximum number of copies of the captured clients.
pub const MAX_CLIENT_COPIES: usize = 4096;

/// A copy of the captured clients, with its own directory.
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
    transport: &mut dyn RpcClientTransport,
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
    transport: &mut dyn RpcClientTransport,
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
        transport: &mut dyn RpcClientTransport,
        target: &'r ConnectTarget,
        options: &'r ReplayOptions,
        callbacks: &'r CallbackServer,
        recorder: &'r RefCell<OptionalReplayRecorder>,
    ) -> Result<Self, ReplayRunError> {
        let ReplayClientCopy { steps, contents, seeded } = copy;
        let plan = run_plan::step_replayability::StepReplayabilityAnalyzer::new(steps)?
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
        setup.faults.iter().for_each(|(blame, error)| report.protocol.add_fault(*blame, error.clone()));
        for (_, reason) in &setup.refused {
            report.add_refusal(format!("a file that was opened before the capture: {reason}"));
        }
        let mut substitutes = DelegationSubstituteOpens::default();
        substitutes.active.extend(&setup.delegations);
        report.refused.extend(seeded.refusals.iter().cloned());
        let signing = match options.gss {
            GssCallReplayPolicy::Krb5 => GssCallSigner::from_trace(contents, transport, target, &tag, gss::mechanism)?,
            GssCallReplayPolicy::Sys | GssCallReplayPolicy::Skip => None,
        };
        let end = &steps.summary().end;
        report.timing.recorded_ns = end.last_call_ns.saturating_sub(end.first_call_ns);
        let mut verification = LiveReplyVerificationState::new(options, seeded, signing.is_some());
        verification.leaves_open = setup.leaves_open;
        // Read before the first call: a pass over the trace would delay the calls of the run.
        verification.missing_calls = MissingCalls::read(contents)?;
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
                missing_values: refused_handles.map(|variable| (*variable, UnboundVariableReason::Object)).collect(),
                ungranted_delegations: setup.delegations.into_iter().collect(),
                substitutes,
                refused_opens: setup.refused.into_iter().collect(),
                auxiliary: Some(AuxiliaryRpcConnections::new(target, options.auxiliary_ports, first_xid)),
                ..LiveCallBuilder::default()
            },
            connections: ReplayConnectionPool {
                leases: ClientLeases::new(seeded.lease_seconds, setup.clientids),
                ..ReplayConnectionPool::default()
            },
            report,
            context: ReplayClientCopyContext { number, tag, target, seeded, options, callbacks, recorder },
            contents,
        })
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Ends the run when nothing is in flight, gives unsent steps their state and returns the report.
    fn conclude(mut self, transport: &mut ContainmentCheckedTransport<'_>) -> Result<ReplayReport, ReplayRunError> {
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
        self.apply_late_differences(true);
        self.report.missing_calls = self.verification.missing_calls.count();
        self.report.calls_in_flight = self.verification.calls_in_flight;
        self.name_late_mismatches(&mut parts)?;
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
                missing_calls: (!options.strict).then_some(&self.verification.missing_calls),
                signs_calls: options.gss == GssCallReplayPolicy::Krb5,
                max_duration: options.max_duration(self.report.timing.recorded_ns),
                max_shown_mismatches: options.max_shown_mismatches,
            };
            let check = tree.check(
                (transport, &mut self.call_builder.containment),
                self.context.target,
                &self.context.tag,
                &identifiers,
                self.contents,
            );
            if let (Some(failed), Some(blame)) = (&check.failed, check.blame) {
                self.report.protocol.add_fault(blame, format!("final check: {failed}"));
            }
            self.report.tree_check = Some(check);
        }
        self.report.dropped_values +=
            self.call_builder.dropped_values + self.call_builder.containment.take_dropped_count();
        self.report.compared = self.verification.checker.compared;
        Ok(self.report)
    }
}
