//! Decides if a step can run, based on the step, the tables of its trace, and the decisions on the steps before it.

use std::io::{Read, Seek};
use std::rc::Rc;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::{Procedure, v4};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::rpc::auth::Flavor;
use nfsrdma_dissectors::xdr::{Cursor, XdrError};
use rustc_hash::{FxHashMap, FxHashSet};

use super::name_changes_resent_after_delay::is_delayed_change;
use super::reason::{PlanReason, PlannedStepDisposition};
use super::selected_steps::SelectedSteps;
use crate::auxiliary_programs::is_limited_to_files;
use crate::containment::Containment;
use crate::trace::error::TraceError;
use crate::trace::file_format::TraceFileType;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{
    GssProtection, MessageCaptureCompleteness, NONE, PayloadContentState, SubstitutableMessageSlot, TraceMessage,
    TraceMessageWireForm, TraceProcedure, TraceSlotValueKind, TraceStep, VariableUseKind, stateid_use,
};

/// Maximum number of tracked variables of steps that do not run. Variables above the limit are dropped and counted.
const MAX_UNAVAILABLE_VARIABLES: usize = 1 << 20;

/// The planned state of a step, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanDecision {
    /// The reason that the step does not run as it was captured; `None` if it does.
    pub reason: Option<PlanReason>,
    /// The needed step that does not run, if that is the reason.
    pub needs: Option<u64>,
}

impl PlanDecision {
    /// Returns the planned state of the step.
    pub fn state(&self) -> PlannedStepDisposition {
        self.reason.map_or(PlannedStepDisposition::Run, PlanReason::state)
    }
}

impl From<Option<PlanReason>> for PlanDecision {
    fn from(reason: Option<PlanReason>) -> Self {
        Self { reason, needs: None }
    }
}

/// Information from the tables about an object.
#[derive(Clone, Copy, Debug, Default)]
struct PlanObjectKnowledge {
    is_named: bool,
    has_type: bool,
    is_directory: bool,
}

/// Plans the steps of a trace, in order.
#[derive(Debug, Default)]
pub struct StepReplayabilityAnalyzer {
    /// The reason for a step to use each undefined variable.
    undefined: FxHashMap<u32, PlanReason>,
    /// Variables that lost replies gave, as later steps show.
    given_by_lost_replies: FxHashSet<u32>,
    /// Variables that a step would define that does not run, with that step.
    unavailable_variables: FxHashMap<u32, u64>,
    /// Number of such variables that were dropped at the limit.
    pub dropped_variables: u64,
    selected_steps: Option<Rc<SelectedSteps>>,
    gss: GssCallReplayPolicy,
    /// The containment that refuses calls before they are sent; only in a plan, as a run checks each call with the
    /// identifiers of the live server.
    containment: Option<Containment>,
}

/// The treatment of Calls with RPCSEC_GSS whose arguments are not encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GssCallReplayPolicy {
    /// Send them with AUTH_SYS.
    #[default]
    Sys,
    /// Sign them with a context of the run.
    Krb5,
    /// Do not send them.
    Skip,
}

impl StepReplayabilityAnalyzer {
    /// Creates a planner from the tables of a trace about undefined variables.
    ///
    /// # Errors
    /// Returns an error if the trace is truncated or damaged.
    pub fn new(trace: &mut ReplayTraceReader<impl Read + Seek>) -> Result<Self, TraceError> {
        let mut wanted = FxHashMap::default();
        trace.for_each_undefined(|line| {
            if line.object != NONE {
                wanted.insert(line.object, PlanObjectKnowledge::default());
            }
        })?;
        trace.for_each_object(|object| {
            if let Some(known) = wanted.get_mut(&object.number) {
                known.is_named = object.is_named();
                known.has_type = object.file_type != TraceFileType::UNKNOWN;
                known.is_directory = object.file_type == TraceFileType::DIRECTORY;
            }
        })?;
        let mut judge = Self::default();
        trace.for_each_undefined(|line| {
            let object = wanted.get(&line.object);
            judge.undefined.insert(line.variable, reason_for_undefined(line.value_kind, object, line.access));
        })?;
        Ok(judge)
    }

    /// Restricts the planner to a selection of the steps, with this policy.
    #[must_use]
    pub fn with_selection(self, chosen: Option<Rc<SelectedSteps>>, gss: GssCallReplayPolicy) -> Self {
        Self { selected_steps: chosen, gss, ..self }
    }

    /// Also decides which calls the containment will refuse.
    #[must_use]
    pub fn with_containment(self) -> Self {
        Self { containment: Some(Containment::for_plan()), ..self }
    }

    /// Decides on the next step.
    pub fn plan_step(&mut self, step: &TraceStep<'_>) -> PlanDecision {
        let verdict = self.decide(step);
        if step.reply.is_empty() && self.given_by_lost_replies.len() < MAX_UNAVAILABLE_VARIABLES {
            let defined = step.reply.slots.iter().filter(|slot| slot.part == VariableUseKind::DEFINED);
            self.given_by_lost_replies.extend(defined.map(|slot| slot.variable));
        }
        // A value in the Reply of a repeated Call is defined by the first Call.
        if !verdict.state().is_sent() && verdict.reason != Some(PlanReason::Callback) {
            for slot in step.reply.slots.iter().filter(|slot| slot.part == VariableUseKind::DEFINED) {
                if self.unavailable_variables.len() < MAX_UNAVAILABLE_VARIABLES {
                    self.unavailable_variables.insert(slot.variable, step.origin.id);
                } else {
                    self.dropped_variables += 1;
                }
            }
        }
        verdict
    }

    fn decide(&self, step: &TraceStep<'_>) -> PlanDecision {
        let is_signed = step.procedure.flavor == Flavor::RPCSEC_GSS.0;
        let early = match (step.call.completeness, step.procedure.protection) {
            _ if step.caller.is_reverse => Some(PlanReason::Callback),
            _ if self.selected_steps.as_ref().is_some_and(|chosen| !chosen.contains(step.origin.id)) => {
                Some(PlanReason::Filtered)
            }
            (MessageCaptureCompleteness::NOTHING, _) => Some(PlanReason::CallLost),
            (_, GssProtection::PRIVACY) => Some(PlanReason::Encrypted),
            (_, GssProtection::CONTROL) => Some(PlanReason::SecuritySetUp),
            (MessageCaptureCompleteness::PART, _) => Some(PlanReason::CallCut),
            _ if step.origin.repeats != 0 => Some(PlanReason::Repeated),
            _ if is_delayed_change(step) => Some(PlanReason::Delayed),
            _ if step.carried.reply == TraceMessageWireForm::ERROR => Some(PlanReason::TransportError),
            _ if !is_replayed(&step.procedure) => Some(PlanReason::OtherProgram),
            _ => match step.procedure.find_description().map(|procedure| check_arguments(procedure, &step.call)) {
                None | Some(Err(XdrError::Unknown { .. })) => Some(PlanReason::NotDescribed),
                Some(Err(_)) => Some(PlanReason::Unreadable),
                Some(Ok(())) if is_signed && self.gss == GssCallReplayPolicy::Skip => Some(PlanReason::SecuredSkipped),
                Some(Ok(())) => None,
            },
        };
        if early.is_some() {
            return early.into();
        }
        if let Some(violation) = self.containment.as_ref().and_then(|containment| containment.planned_violation(step)) {
            return PlanReason::of_violation(violation).into();
        }
        let used = step.call.slots.iter().filter(|slot| slot.part.uses_value() && !slot.value_kind.is_count());
        let mut worst = (is_signed && self.gss == GssCallReplayPolicy::Sys).then_some(PlanReason::Secured);
        for slot in used {
            if let Some(needs) = self.unavailable_variables.get(&slot.variable) {
                return PlanDecision { reason: Some(PlanReason::NeedsOther), needs: Some(*needs) };
            }
            worst = worse(worst, self.missing_definition_reason(&slot).map(|reason| relax_reason(reason, step, &slot)));
        }
        let lacks_data = step.call.payloads.iter().any(|payload| payload.content == PayloadContentState::UNKNOWN);
        worst = worse(worst, lacks_data.then_some(PlanReason::DataUnknown));
        worst = worse(
            worst,
            (step.reply.completeness != MessageCaptureCompleteness::WHOLE).then_some(PlanReason::ReplyLost),
        );
        worst.into()
    }

    fn missing_definition_reason(&self, slot: &SubstitutableMessageSlot) -> Option<PlanReason> {
        let is_missing = slot.definition == 0 && slot.value_kind.is_assigned_by_server();
        match self.undefined.get(&slot.variable) {
            _ if !is_missing || self.given_by_lost_replies.contains(&slot.variable) => None,
            Some(reason) => Some(*reason),
            // The table was too small for the variable.
            None => Some(reason_for_undefined(slot.value_kind, None, 0)),
        }
    }
}

fn is_replayed(procedure: &TraceProcedure) -> bool {
    match (Program(procedure.program), procedure.version) {
        (Program::NFS, version) => matches!(version, 3 | 4),
        (Program::NFSACL, version) => version == 3,
        (program, version) => is_limited_to_files(program, version, procedure.number),
    }
}

/// Returns the more severe reason; of equal ones the first. Reasons shared by all Calls of a client rank lowest.
fn worse(one: Option<PlanReason>, other: Option<PlanReason>) -> Option<PlanReason> {
    let weight = |reason: Option<PlanReason>| {
        let is_shared = matches!(reason, Some(PlanReason::ClientBefore | PlanReason::Secured));
        (reason.map_or(PlannedStepDisposition::Run, PlanReason::state), !is_shared)
    };
    if weight(other) > weight(one) { other } else { one }
}

/// Returns the reason for a Call that uses an undefined variable.
fn reason_for_undefined(
    value_kind: TraceSlotValueKind,
    object: Option<&PlanObjectKnowledge>,
    access: u32,
) -> PlanReason {
    let is_found = object.is_some_and(|object| object.is_named || object.has_type);
    match value_kind {
        TraceSlotValueKind::FILEHANDLE => match object {
            Some(PlanObjectKnowledge { is_named: true, .. }) => PlanReason::NamedBefore,
            Some(PlanObjectKnowledge { has_type: true, .. }) => PlanReason::Nameless,
            _ => PlanReason::Unknown,
        },
        // The run opens the file in place of its delegation; a directory cannot be opened.
        TraceSlotValueKind::STATEID if access & stateid_use::DELEGATION != 0 => {
            let is_file = is_found && object.is_some_and(|object| !object.is_directory);
            if is_file { PlanReason::OpenBefore } else { PlanReason::DelegationBefore }
        }
        TraceSlotValueKind::STATEID if access & stateid_use::LOCK != 0 => PlanReason::LockBefore,
        TraceSlotValueKind::STATEID if is_found => PlanReason::OpenBefore,
        TraceSlotValueKind::STATEID => PlanReason::StateUnknown,
        TraceSlotValueKind::CLIENTID | TraceSlotValueKind::SESSION => PlanReason::ClientBefore,
        TraceSlotValueKind::COOKIE | TraceSlotValueKind::COOKIE_VERIFIER => PlanReason::ListingBefore,
        TraceSlotValueKind::CONFIRM_VERIFIER => PlanReason::ConfirmBefore,
        TraceSlotValueKind::CHANGE => PlanReason::ChangeBefore,
        TraceSlotValueKind::DEVICE => PlanReason::DeviceBefore,
        _ => PlanReason::StateUnknown,
    }
}

/// Replaces the reason of a lock by `OpenBefore`, as the run can open the file itself, except in NFSv4.0. Operations
/// that handle locks keep their reason.
fn relax_reason(reason: PlanReason, step: &TraceStep<'_>, slot: &SubstitutableMessageSlot) -> PlanReason {
    // A file is opened before the first step by its filehandle, which NFSv4.0 does not support.
    if step.procedure.minor_version == 0 && matches!(reason, PlanReason::OpenBefore | PlanReason::LockBefore) {
        return PlanReason::StateUnknown;
    }
    if reason != PlanReason::LockBefore {
        return reason;
    }
    let body = step.call.head.0.get(step.call.body as usize..).unwrap_or_default();
    let call = v4::CompoundCall::decode(&mut Cursor::new(body), &mut NullFieldObserver);
    let operation = call.ok().and_then(|call| call.operations().nth(slot.operation as usize)?.ok());
    match operation.map(|operation| operation.operation()) {
        Some(v4::Operation::LOCK | v4::Operation::LOCKU | v4::Operation::FREE_STATEID) => PlanReason::LockBefore,
        _ => PlanReason::OpenBefore,
    }
}

/// Returns an error if the arguments of a Call cannot be decoded.
fn check_arguments(procedure: Procedure, call: &TraceMessage<'_>) -> Result<(), XdrError> {
    procedure.arguments(&mut call.body_cursor().with_chunks(&call.items()), &mut NullFieldObserver)
}
