//! Results of the steps of a run: each step is in exactly one state.

use std::collections::BTreeMap;

use crate::analysis::comparison::difference::{Difference, DifferenceKind};
use crate::analysis::statistics::Latencies;
use crate::replay::run::step_outcome::{StepCounts, StepOutcome, StepState};

/// Maximum number of reasons counted separately.
const MAX_REASONS: usize = 4_096;
/// Maximum number of operations counted separately; each has latencies.
const MAX_OPERATIONS: usize = 512;
/// Maximum number of example steps per reason.
pub(in crate::replay::run) const MAX_EXAMPLES: usize = 5;

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

/// Results of the steps of a run.
#[derive(Clone, Debug, Default)]
pub struct StepResults {
    /// Number of steps of the trace.
    pub total: u64,
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
    /// Maximum number of mismatches that are kept.
    pub max_mismatches: usize,
}

impl StepResults {
    /// Counts a step in its final state.
    pub fn count(&mut self, step: StepId, operation: &str, outcome: StepOutcome) {
        self.total += 1;
        let state = outcome.state();
        *self.states.get_mut(state) += 1;
        *self.operation(operation).states.get_mut(state) += 1;
        if let StepOutcome::Tolerated(rule) = &outcome {
            self.rules.entry(rule.name).or_insert(rule.why);
        }
        if let Some(reason) = outcome.reason() {
            self.count_reason(state, reason, step, operation);
        }
        if let StepOutcome::Mismatched(differences) = outcome {
            self.keep_mismatch(step, operation, differences);
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

    /// Keeps a mismatch, if it is one of the first.
    fn keep_mismatch(&mut self, step: StepId, operation: &str, differences: Vec<Difference>) {
        if self.mismatches.len() < self.max_mismatches {
            self.mismatches.push(StepMismatch {
                step,
                copy: 0,
                operation: operation.to_owned(),
                differences,
            });
        }
    }

    /// Returns the results of an operation; beyond the limit, those of `other`.
    pub fn operation(&mut self, operation: &str) -> &mut ReplayOperationReport {
        let has_room = self.operations.len() < MAX_OPERATIONS || self.operations.contains_key(operation);
        let name = if has_room { operation } else { "other" };
        if !self.operations.contains_key(name) {
            self.operations.insert(name.to_owned(), ReplayOperationReport::default());
        }
        // The entry exists now.
        self.operations.entry(name.to_owned()).or_default()
    }

    /// Changes the state of steps whose difference was only detected later.
    pub fn apply_late_differences(&mut self, differences: Vec<Difference>) {
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
            move_to_mismatched(&mut self.operation(&operation).states, from);
            self.keep_mismatch(step, &operation, vec![difference]);
        }
        self.mismatches.sort_by_key(|mismatch| mismatch.step);
    }

    /// Returns `true` if each step is in exactly one state.
    pub fn is_consistent(&self) -> bool {
        let by_operation: u64 = self.operations.values().map(|of| of.states.total()).sum();
        self.states.total() == self.total && by_operation == self.total
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
