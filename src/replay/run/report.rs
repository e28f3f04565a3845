//! Report of a run: each step is in exactly one state.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::issue_delay::IssueDelayHistogram;
use super::recording::RecordingTotals;
use super::step_outcome::{StepCounts, StepOutcome, StepState};
use super::tree_check::TreeCheckReport;
use crate::analysis::comparison::difference::{Difference, DifferenceKind};
use crate::analysis::statistics::Latencies;

/// Maximum number of reasons counted separately.
const MAX_REASONS: usize = 4_096;
/// Maximum number of operations counted separately; each has latencies.
const MAX_OPERATIONS: usize = 512;
/// Maximum number of kinds of protocol violations counted separately.
const MAX_VIOLATION_KINDS: usize = 64;
/// Maximum number of example steps per reason.
const MAX_EXAMPLES: usize = 5;

/// Reason for insufficient coverage. `min_coverage` is in percent.
#[derive(Clone, Debug, PartialEq)]
pub enum CoverageShortfall {
    /// Too few steps were replayed.
    Steps {
        /// Number of replayed steps.
        replayed: u64,
        /// Number of steps that should be replayed.
        chosen: u64,
        /// Required coverage in percent.
        min_coverage: f64,
    },
    /// The final check failed, for this reason.
    CheckFailed(String),
    /// The final check left out too much.
    Files {
        /// Number of names and objects checked, and to be checked.
        looked: [u64; 2],
        /// Number of bytes read, and to be read.
        bytes: [u64; 2],
        /// Required coverage in percent.
        min_coverage: f64,
    },
}

impl fmt::Display for CoverageShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too little could be verified: ")?;
        match self {
            Self::Steps { replayed: 0, chosen, .. } => write!(f, "none of {chosen} steps was replayed"),
            Self::Steps { replayed, chosen, min_coverage } => {
                write!(f, "{replayed} of {chosen} steps were replayed, less than {min_coverage}%")
            }
            Self::CheckFailed(why) => write!(f, "the final check did not come to its end: {why}"),
            Self::Files { looked: [looked, all], bytes: [read, written], min_coverage } => write!(
                f,
                "the final check covered {looked} of {all} names and objects, and {read} of {written} bytes, less than {min_coverage}%"
            ),
        }
    }
}

/// Identification of a step in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId {
    /// The `id` of the step.
    pub step: u64,
    /// First frames of Call and Reply in the capture; 0 if there is none.
    pub frames: [u64; 2],
}

/// A step whose Reply differs.
#[derive(Clone, Debug, PartialEq)]
pub struct StepMismatch {
    /// The step.
    pub step: StepId,
    /// Number of the client copy, from 1; 0 if there is only one.
    pub copy: u32,
    /// Title of the operation.
    pub operation: String,
    /// Differences of the Reply.
    pub differences: Vec<Difference>,
}

/// Number of steps with a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReasonCount {
    /// Number of steps.
    pub steps: u64,
    /// Number of steps by operation.
    pub operations: BTreeMap<String, u64>,
    /// Example steps.
    pub first: Vec<StepId>,
}

/// Results of the steps of one operation.
#[derive(Clone, Debug, Default)]
pub struct ReplayOperationReport {
    /// Number of steps by state.
    pub states: StepCounts,
    /// Recorded and live latencies of steps that were sent and have both.
    pub latencies: [Latencies; 2],
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// Number of steps of the trace.
    pub steps: u64,
    /// Number of steps by state.
    pub states: StepCounts,
    /// Reasons, by state and code.
    pub reasons: BTreeMap<(StepState, String), ReplayReasonCount>,
    /// Rules that were needed: name and justification.
    pub rules: BTreeMap<&'static str, &'static str>,
    /// Results by operation.
    pub operations: BTreeMap<String, ReplayOperationReport>,
    /// First mismatches.
    pub mismatches: Vec<StepMismatch>,
    /// Number of Calls sent, except those of substitute opens; a step that is sent again counts again.
    pub calls: u64,
    /// Number of retries because the server asked for them.
    pub delayed: u64,
    /// Number of connections opened.
    pub connections: u64,
    /// Number of connections lost.
    pub disconnects: u64,
    /// Number of connections opened to replace lost ones.
    pub reconnects: u64,
    /// Reason why the server became unreachable, which ended the run.
    pub unreachable: Option<String>,
    /// Reason why a program other than NFS is no longer called: no Reply within the timeout.
    pub silent_program: Option<String>,
    /// Number of Calls sent again because their connection was lost.
    pub resent: u64,
    /// Number of backchannels bound to another connection.
    pub rebound: u64,
    /// Number of clients and sessions recovered because the server had forgotten them.
    pub recovered: u64,
    /// Number of opens and lock ranges reclaimed.
    pub reclaimed: u64,
    /// Number of opens and locks that could not be reclaimed.
    pub not_reclaimed: u64,
    /// Number of security contexts renewed because the server did not know them any more.
    pub contexts_renewed: u64,
    /// Number of security contexts destroyed at the end, as confirmed by the server.
    pub contexts_destroyed: u64,
    /// Number of Calls of the server, by operation.
    pub callbacks: BTreeMap<&'static str, u64>,
    /// Number of Calls of the server that were not answered.
    pub unanswered: u64,
    /// Reason why there is no port for callbacks of NFSv4.0.
    pub no_callbacks: Option<String>,
    /// Number of delegations that the capture does not have, returned at once.
    pub returned_delegations: u64,
    /// Protocol errors of this program.
    pub own_faults: Vec<String>,
    /// Number of invalid messages of the server.
    pub discarded: u64,
    /// Protocol violations by the server, with their number.
    pub violations: BTreeMap<String, u64>,
    /// Number of fields and of bytes of file data compared.
    pub compared: [u64; 2],
    /// Number of clients, sessions and opens created because they were made before the capture.
    pub synthesized: u64,
    /// Refusals by the server of state from before the capture or of state to be recovered.
    pub refused: Vec<String>,
    /// Number of values dropped because of a limit.
    pub dropped_values: u64,
    /// Time from the first Call to the last Reply.
    pub elapsed: Duration,
    /// Issue delays of Calls, if the pace has intended times.
    pub issue_delay: IssueDelayHistogram,
    /// Time from the first to the last Call of the capture in nanoseconds.
    pub recorded_ns: u64,
    /// `true` if the run was ended early, by the user or by its time limit.
    pub is_interrupted: bool,
    /// User and group of objects created by root, if the export squashes root.
    pub squashed: Option<[u32; 2]>,
    /// Time limit that ended the run, if it did.
    pub limit: Option<Duration>,
    /// Totals of the recording, or the reason why it failed; `None` if not requested.
    pub recording: Option<Result<RecordingTotals, String>>,
    /// Result of the tree check after the run; `None` without one.
    pub tree_check: Option<TreeCheckReport>,
}

impl ReplayReport {
    /// Counts a step in its final state.
    pub fn count_step(&mut self, step: StepId, operation: &str, outcome: StepOutcome, shown: usize) {
        self.steps += 1;
        let at = outcome.state();
        *self.states.get_mut(at) += 1;
        *self.operation_report(operation).states.get_mut(at) += 1;
        if let StepOutcome::Tolerated(rule) = &outcome {
            self.rules.entry(rule.name).or_insert(rule.why);
        }
        if let Some(reason) = outcome.reason() {
            self.count_reason(at, reason, step, operation);
        }
        if let StepOutcome::Mismatched(differences) = outcome
            && self.mismatches.len() < shown
        {
            self.mismatches.push(StepMismatch {
                step,
                copy: 0,
                operation: operation.to_owned(),
                differences,
            });
        }
    }

    fn count_reason(&mut self, state: StepState, reason: &str, step: StepId, operation: &str) {
        let key = (state, reason.to_owned());
        let has_room = self.reasons.len() < MAX_REASONS || self.reasons.contains_key(&key);
        let because =
            self.reasons.entry(if has_room { key } else { (state, "other".to_owned()) }).or_default();
        because.steps += 1;
        *because.operations.entry(operation.to_owned()).or_default() += 1;
        if because.first.len() < MAX_EXAMPLES {
            because.first.push(step);
        }
    }

    /// Returns the results of an operation; beyond the limit, those of `other`.
    pub fn operation_report(&mut self, operation: &str) -> &mut ReplayOperationReport {
        let has_room = self.operations.len() < MAX_OPERATIONS || self.operations.contains_key(operation);
        let name = if has_room { operation } else { "other" };
        if !self.operations.contains_key(name) {
            self.operations.insert(name.to_owned(), ReplayOperationReport::default());
        }
        // The entry exists now.
        self.operations.entry(name.to_owned()).or_default()
    }

    /// Changes the state of steps whose difference was only detected later.
    pub fn apply_late_differences(&mut self, differences: Vec<Difference>, shown: usize) {
        for difference in differences {
            let place = difference.a.location.unwrap_or_default();
            let frame =
                |frame: Option<nfsrdma_dissectors::frame::FrameNumber>| frame.map_or(0, |frame| frame.0);
            let step = StepId { step: place.index, frames: [frame(place.call), frame(place.reply)] };
            let known = self.mismatches.iter_mut().find(|mismatch| mismatch.step == step);
            if let Some(known) = known {
                known.differences.push(difference);
                continue;
            }
            // It was counted as matched or tolerated, or as unreplayable if the status differs.
            let operation = difference.operation.clone();
            let among: &[StepState] = match difference.kind {
                DifferenceKind::Status => &[StepState::Unreplayable],
                _ => &[StepState::Matched, StepState::Tolerated],
            };
            let Some(from) = among.iter().copied().find(|state| self.states.get(*state) > 0) else {
                continue;
            };
            move_to_mismatched(&mut self.states, from);
            move_to_mismatched(&mut self.operation_report(&operation).states, from);
            if self.mismatches.len() < shown {
                self.mismatches.push(StepMismatch {
                    step,
                    copy: 0,
                    operation,
                    differences: vec![difference],
                });
            }
        }
        self.mismatches.sort_by_key(|mismatch| mismatch.step);
    }

    /// Returns the number of steps that were sent and compared: matched, tolerated, mismatched or substituted.
    pub fn replayed(&self) -> u64 {
        self.states.replayed()
    }

    /// Returns the number of steps to be replayed: all that are not skipped.
    pub fn chosen(&self) -> u64 {
        self.steps.saturating_sub(self.states.skipped)
    }

    /// Returns the number of mismatches.
    pub fn mismatched(&self) -> u64 {
        self.states.mismatched
    }

    /// Returns `true` if there are mismatches, protocol violations, or differences in the final tree.
    pub fn is_different(&self) -> bool {
        self.mismatched() > 0
            || !self.violations.is_empty()
            || self.tree_check.as_ref().is_some_and(|walked| walked.differing > 0)
    }

    /// Counts a protocol violation by the server.
    pub fn count_violation(&mut self, how: String) {
        if self.violations.len() < MAX_VIOLATION_KINDS || self.violations.contains_key(&how) {
            *self.violations.entry(how).or_default() += 1;
        }
    }

    /// Returns the reason for insufficient coverage, if it is below `min_coverage` percent of the steps that are not
    /// skipped, or of the final check. A run that replayed nothing and a failed check are never sufficient.
    pub fn shortfall(&self, min_coverage: f64) -> Option<CoverageShortfall> {
        let (replayed, chosen) = (self.replayed(), self.chosen());
        if replayed == 0 || (replayed as f64) * 100.0 < min_coverage * chosen as f64 {
            return Some(CoverageShortfall::Steps { replayed, chosen, min_coverage });
        }
        let walked = self.tree_check.as_ref()?;
        if let Some(why) = &walked.failed {
            return Some(CoverageShortfall::CheckFailed(why.clone()));
        }
        let percent = walked.coverage() * 100.0;
        let TreeCheckReport { names, objects, left_out, bytes, written_bytes, .. } = *walked;
        (percent < min_coverage).then_some(CoverageShortfall::Files {
            looked: [names + objects, names + objects + left_out],
            bytes: [bytes, written_bytes],
            min_coverage,
        })
    }

    /// Returns `true` if each step is in exactly one state.
    pub fn is_consistent(&self) -> bool {
        let by_operation: u64 = self.operations.values().map(|of| of.states.total()).sum();
        self.states.total() == self.steps && by_operation == self.steps
    }
}

/// Moves one step from a state to the mismatches.
fn move_to_mismatched(states: &mut StepCounts, from: StepState) {
    let counted = states.get_mut(from);
    if *counted > 0 {
        *counted -= 1;
        states.mismatched += 1;
    }
}
