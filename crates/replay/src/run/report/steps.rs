//! Results of the steps of a run: each step is in exactly one state.

use std::collections::BTreeMap;

use nfsrdma_analysis::comparison::difference::{Difference, TransactionCaptureLocation};
use nfsrdma_analysis::statistics::Latencies;
use nfsrdma_dissectors::captured_frame::FrameNumber;
use rustc_hash::FxHashMap;

use crate::run::step_outcome::{FinalStepState, StepCounts, StepOutcome};

/// Maximum number of reasons counted separately.
const MAX_REASONS: usize = 4_096;
/// Maximum number of operations counted separately; each has latencies.
const MAX_OPERATIONS: usize = 512;
/// Maximum number of steps whose state is remembered for late differences.
const MAX_REMEMBERED_STATES: usize = 1 << 16;
/// Maximum number of example steps per reason.
pub(in crate::run) const MAX_EXAMPLES: usize = 5;

/// Identification of a step in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIdWithFrames {
    /// The `id` of the step.
    pub step: u64,
    /// First frames of Call and Reply in the capture; 0 if there is none.
    pub frames: [u64; 2],
}

impl StepIdWithFrames {
    /// Returns the location of the step in the capture.
    pub(in crate::run) fn location(self) -> TransactionCaptureLocation {
        let [call, reply] = self.frames.map(|number| (number > 0).then_some(FrameNumber(number)));
        TransactionCaptureLocation { index: self.step, call, reply }
    }
}

/// A step of one client copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyStepId {
    /// The step.
    pub step: StepIdWithFrames,
    /// Number of the client copy, from 1; 0 if there is only one.
    pub copy: u32,
}

/// A step whose Reply differs, and the number of similar ones: the same fields of the same operation differ in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepMismatch {
    /// The step.
    pub step: StepIdWithFrames,
    /// Number of the client copy, from 1; 0 if there is only one.
    pub copy: u32,
    /// Title of the operation.
    pub operation: String,
    /// Path of its file or directory below the captured root, if known.
    pub file: Option<String>,
    /// Differences of the Reply.
    pub differences: Vec<Difference>,
    /// Number of similar steps after this one.
    pub similar_steps: u64,
    /// The first similar steps.
    pub first_similar: Vec<CopyStepId>,
}

impl StepMismatch {
    fn is_similar(&self, other: &Self) -> bool {
        let is_same_field = |(a, b): (&Difference, &Difference)| a.kind == b.kind && a.path == b.path;
        self.operation == other.operation
            && self.differences.len() == other.differences.len()
            && self.differences.iter().zip(&other.differences).all(is_same_field)
    }
}

/// Number of steps with a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepOutcomeReasonCount {
    /// Number of steps.
    pub steps: u64,
    /// Number of steps by operation.
    pub operations: BTreeMap<String, u64>,
    /// Example steps.
    pub first: Vec<StepIdWithFrames>,
    /// Number of the reason, in the order in which they were first counted.
    number: u64,
}

/// Results of the steps of one operation.
#[derive(Clone, Debug, Default)]
pub struct StepResultsOfOperationType {
    /// Number of steps by state.
    pub states: StepCounts,
    /// Recorded and live latencies of steps that were sent and have both.
    pub latencies: [Latencies; 2],
}

/// Results of the steps of a run.
#[derive(Clone, Debug, Default)]
pub struct StepResultsOfRun {
    /// Number of steps of the trace.
    pub total: u64,
    /// Number of steps by state.
    pub states: StepCounts,
    /// Reasons, by state and code.
    pub reasons: BTreeMap<(FinalStepState, String), StepOutcomeReasonCount>,
    /// Rules that were needed: name and justification.
    pub rules: BTreeMap<&'static str, &'static str>,
    /// Results by operation.
    pub operations: BTreeMap<String, StepResultsOfOperationType>,
    /// First mismatches, one of each group of similar ones.
    pub mismatches: Vec<StepMismatch>,
    /// Maximum number of groups of mismatches.
    pub max_mismatches: usize,
    /// Number of mismatches that are in none of the groups.
    pub unlisted_mismatches: u64,
    /// State and number of the reason of the steps that were sent and did not match, by `id`.
    uncommon: FxHashMap<u64, (FinalStepState, u64)>,
    /// Number of reasons so far.
    reason_count: u64,
}

impl StepResultsOfRun {
    /// Counts a step in its final state.
    pub fn count(&mut self, step: StepIdWithFrames, operation: &str, outcome: StepOutcome) {
        self.total += 1;
        let state = outcome.state();
        *self.states.get_mut(state) += 1;
        *self.operation(operation).states.get_mut(state) += 1;
        if let StepOutcome::Tolerated(rule) = &outcome {
            self.rules.entry(rule.name).or_insert(rule.reason);
        }
        let reason = outcome.reason().map(|reason| self.count_reason(state, reason, step, operation));
        if !matches!(state, FinalStepState::Matched | FinalStepState::Skipped)
            && self.uncommon.len() < MAX_REMEMBERED_STATES
        {
            self.uncommon.insert(step.step, (state, reason.unwrap_or_default()));
        }
        if let StepOutcome::Mismatched(differences) = outcome {
            let operation = operation.to_owned();
            self.keep_mismatch(StepMismatch { step, operation, differences, ..Default::default() });
        }
    }

    /// Returns the mismatch of a step, if it has no path yet and is the first of its group.
    pub fn unnamed_mismatch(&mut self, step: StepIdWithFrames) -> Option<&mut StepMismatch> {
        self.mismatches.iter_mut().rev().find(|mismatch| mismatch.step == step && mismatch.file.is_none())
    }

    /// Counts a step with a reason. Returns the number of the reason.
    fn count_reason(&mut self, state: FinalStepState, reason: &str, step: StepIdWithFrames, operation: &str) -> u64 {
        let key = (state, reason.to_owned());
        let has_capacity = self.reasons.len() < MAX_REASONS || self.reasons.contains_key(&key);
        let key = if has_capacity { key } else { (state, "other".to_owned()) };
        self.reason_count += 1;
        let number = self.reason_count;
        let entry = self.reasons.entry(key).or_insert_with(|| StepOutcomeReasonCount { number, ..Default::default() });
        entry.steps += 1;
        *entry.operations.entry(operation.to_owned()).or_default() += 1;
        if entry.first.len() < MAX_EXAMPLES {
            entry.first.push(step);
        }
        entry.number
    }

    fn uncount_reason(&mut self, state: FinalStepState, number: u64, step: StepIdWithFrames, operation: &str) {
        self.reasons.retain(|(entry_state, _), count| {
            if *entry_state != state || count.number != number {
                return true;
            }
            count.steps = count.steps.saturating_sub(1);
            count.first.retain(|first| *first != step);
            if let Some(steps) = count.operations.get_mut(operation) {
                *steps = steps.saturating_sub(1);
            }
            count.operations.retain(|_, steps| *steps > 0);
            count.steps > 0
        });
    }

    /// Adds a mismatch, and those that are similar to it, to its group, or begins one if the limit allows it.
    fn keep_mismatch(&mut self, mismatch: StepMismatch) {
        let steps = 1 + mismatch.similar_steps;
        if let Some(existing) = self.mismatches.iter_mut().find(|existing| existing.is_similar(&mismatch)) {
            let first = CopyStepId { step: mismatch.step, copy: mismatch.copy };
            existing.first_similar.extend(std::iter::once(first).chain(mismatch.first_similar));
            existing.first_similar.truncate(MAX_EXAMPLES);
            existing.similar_steps += steps;
        } else if self.mismatches.len() < self.max_mismatches {
            self.mismatches.push(mismatch);
        } else {
            self.unlisted_mismatches += steps;
        }
    }

    /// Adds mismatches of the client copy with this number to those of the copies before it.
    pub(in crate::run) fn join_mismatches(&mut self, mismatches: Vec<StepMismatch>, copy: u32) {
        number_first_copy(&mut self.mismatches);
        for mut mismatch in mismatches {
            mismatch.copy = copy;
            mismatch.first_similar.iter_mut().for_each(|similar| similar.copy = copy);
            self.keep_mismatch(mismatch);
        }
    }

    /// Returns the results of an operation; beyond the limit, those of `other`.
    pub fn operation(&mut self, operation: &str) -> &mut StepResultsOfOperationType {
        let has_capacity = self.operations.len() < MAX_OPERATIONS || self.operations.contains_key(operation);
        self.operations.entry(if has_capacity { operation } else { "other" }.to_owned()).or_default()
    }

    /// Changes the state of steps whose difference was only detected later.
    pub fn apply_late_differences(&mut self, differences: Vec<Difference>) {
        for difference in differences {
            let step = step_of(&difference);
            // A group keeps its fields.
            let existing = self.mismatches.iter_mut().find(|mismatch| mismatch.step == step);
            if let Some(existing) = existing.filter(|existing| existing.similar_steps == 0) {
                existing.differences.push(difference);
                continue;
            }
            let operation = difference.operation.clone();
            let (from, reason) = self.state_of(step, &operation);
            if from == FinalStepState::Mismatched {
                continue;
            }
            self.uncount_reason(from, reason, step, &operation);
            if self.uncommon.len() < MAX_REMEMBERED_STATES || self.uncommon.contains_key(&step.step) {
                self.uncommon.insert(step.step, (FinalStepState::Mismatched, 0));
            }
            move_step(&mut self.states, from, FinalStepState::Mismatched);
            move_step(&mut self.operation(&operation).states, from, FinalStepState::Mismatched);
            let differences = vec![difference];
            self.keep_mismatch(StepMismatch { step, operation, differences, ..Default::default() });
        }
        self.mismatches.sort_by_key(|mismatch| mismatch.step);
    }

    /// Counts steps whose difference was only detected later as not compared, for the reason with this code.
    pub(in crate::run) fn leave_out_late_differences(&mut self, differences: Vec<Difference>, code: &str) {
        for difference in differences {
            let step = step_of(&difference);
            let operation = &difference.operation;
            let (from, reason) = self.state_of(step, operation);
            if from == FinalStepState::Mismatched {
                continue;
            }
            let to = FinalStepState::Substituted;
            self.uncount_reason(from, reason, step, operation);
            let reason = self.count_reason(to, code, step, operation);
            if self.uncommon.len() < MAX_REMEMBERED_STATES || self.uncommon.contains_key(&step.step) {
                self.uncommon.insert(step.step, (to, reason));
            }
            move_step(&mut self.states, from, to);
            move_step(&mut self.operation(operation).states, from, to);
        }
    }

    /// Returns the state that a step was counted in, and the number of its reason. If too many steps did not match to
    /// remember all, it may be any state of the operation.
    fn state_of(&mut self, step: StepIdWithFrames, operation: &str) -> (FinalStepState, u64) {
        if let Some(entry) = self.uncommon.get(&step.step) {
            return *entry;
        }
        let states = self.operation(operation).states;
        let mut likely = [FinalStepState::Matched, FinalStepState::Tolerated, FinalStepState::Substituted].into_iter();
        (likely.find(|state| states.get(*state) > 0).unwrap_or(FinalStepState::Unreplayable), u64::MAX)
    }

    /// Returns `true` if each step is in exactly one state.
    pub fn is_consistent(&self) -> bool {
        let by_operation: u64 = self.operations.values().map(|results| results.states.total()).sum();
        self.states.total() == self.total && by_operation == self.total
    }
}

/// Sets the numbers of the first client copy, which are only needed if there are several.
pub(in crate::run) fn number_first_copy(mismatches: &mut [StepMismatch]) {
    for mismatch in mismatches {
        let similar = mismatch.first_similar.iter_mut().map(|similar| &mut similar.copy);
        similar.chain([&mut mismatch.copy]).filter(|copy| **copy == 0).for_each(|copy| *copy = 1);
    }
}

/// Returns the step that a difference is about.
fn step_of(difference: &Difference) -> StepIdWithFrames {
    let location = difference.a.location.unwrap_or_default();
    let frames = [location.call, location.reply].map(|frame| frame.map_or(0, |frame| frame.0));
    StepIdWithFrames { step: location.index, frames }
}

fn move_step(states: &mut StepCounts, from: FinalStepState, to: FinalStepState) {
    let count = states.get_mut(from);
    if *count > 0 {
        *count -= 1;
        *states.get_mut(to) += 1;
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::captured_frame::FrameNumber;

    use super::*;
    use crate::run::tolerance_rules;
    use nfsrdma_analysis::comparison::difference::{DifferenceKind, DifferenceSideValue, TransactionCaptureLocation};

    const READ: &str = "NFS 4.2 READ";

    fn step_id(step: u64) -> StepIdWithFrames {
        StepIdWithFrames { step, frames: [step * 2, step * 2 + 1] }
    }

    fn difference(step: u64, kind: DifferenceKind) -> Difference {
        let [call, reply] = step_id(step).frames.map(|frame| Some(FrameNumber(frame)));
        let location = Some(TransactionCaptureLocation { index: step, call, reply });
        let side = || DifferenceSideValue { location, frame: reply, value: Some("handle".into()) };
        Difference {
            kind,
            operation: READ.into(),
            path: "PUTFH.object".into(),
            section: 0,
            field: "nfs.fhandle",
            count: 1,
            a: side(),
            b: side(),
        }
    }

    /// Returns the results of one step in each state: 0 matched, 1 tolerated, 2 mismatched, and so on.
    fn one_of_each(max_mismatches: usize) -> StepResultsOfRun {
        let mut results = StepResultsOfRun { max_mismatches, ..StepResultsOfRun::default() };
        let outcomes = [
            StepOutcome::Matched,
            StepOutcome::Tolerated(tolerance_rules::AFTER),
            StepOutcome::Mismatched(vec![difference(2, DifferenceKind::Result)]),
            StepOutcome::Substituted("sent-again"),
            StepOutcome::Skipped("filtered: not selected".into()),
            StepOutcome::Unreplayable("unsupported: the server has no READ".into()),
        ];
        (0..).zip(outcomes).for_each(|(step, outcome)| results.count(step_id(step), READ, outcome));
        results
    }

    /// RFC 8881 section 2.10.6.1: a gap in the sequence IDs shows that a call is missing.
    #[test]
    fn explained_late_difference_is_counted() {
        let mut results = one_of_each(10);
        let mut expected = results.states;
        (expected.matched, expected.substituted) = (expected.matched - 1, expected.substituted + 1);
        let mut leave_out = |step: u64| {
            results.leave_out_late_differences(vec![difference(step, DifferenceKind::Identity)], "call-missing");
            let count = |code: &str| {
                let key = (FinalStepState::Substituted, code.to_owned());
                results.reasons.get(&key).map_or(0, |count| count.steps)
            };
            assert!(results.is_consistent());
            (results.states, ["call-missing", "sent-again"].map(count))
        };
        assert_eq!(leave_out(0), (expected, [1, 1]));
        assert_eq!(leave_out(0), (expected, [1, 1]), "again");
        assert_eq!(leave_out(2), (expected, [1, 1]), "it differs in any case");
        assert_eq!(leave_out(3), (expected, [2, 0]), "for another reason");
    }

    #[test]
    fn a_late_difference_moves_its_own_step_to_the_mismatches() {
        for (step, state) in (0..).zip(FinalStepState::ALL).filter(|(_, state)| *state != FinalStepState::Skipped) {
            for shown in [0, 10] {
                let mut results = one_of_each(shown);
                let mut expected = results.states;
                *expected.get_mut(state) -= 1;
                expected.mismatched += 1;
                // A second difference of the same step does not move another step.
                for _ in 0..2 {
                    results.apply_late_differences(vec![difference(step, DifferenceKind::Identity)]);
                }
                assert_eq!(results.states, expected, "{state:?}, {shown} shown");
                assert_eq!(results.operations[READ].states, expected, "{state:?}, {shown} shown");
                assert!(results.is_consistent());
                let of_state = results.reasons.iter().filter(|((of, _), _)| *of == state);
                assert_eq!(of_state.map(|(_, because)| because.steps).sum::<u64>(), 0, "{state:?}");
                assert!(results.mismatches.iter().filter(|mismatch| mismatch.step == step_id(step)).count() <= 1);
            }
        }
    }

    fn mismatched(results: &mut StepResultsOfRun, step: u64, operation: &str, path: &str) {
        let difference = Difference { path: path.to_owned(), ..difference(step, DifferenceKind::Result) };
        results.count(step_id(step), operation, StepOutcome::Mismatched(vec![difference]));
    }

    /// Returns the steps of each group: the first, the number of the others, and the first of these.
    fn groups(results: &StepResultsOfRun) -> Vec<(u64, u64, Vec<u64>)> {
        let steps = |one: &StepMismatch| one.first_similar.iter().map(|similar| similar.step.step).collect();
        results.mismatches.iter().map(|one| (one.step.step, one.similar_steps, steps(one))).collect()
    }

    #[test]
    fn mismatches_are_grouped_by_operation_and_field_beyond_the_limit() {
        let mut results = StepResultsOfRun { max_mismatches: 2, ..StepResultsOfRun::default() };
        (0..100).for_each(|step| mismatched(&mut results, step, "NFS 3 GETATTR", "obj_attributes.uid"));
        mismatched(&mut results, 100, "NFS 3 GETATTR", "obj_attributes.size");
        (101..104).for_each(|step| mismatched(&mut results, step, "NFS 3 LOOKUP", "obj_attributes.uid"));
        mismatched(&mut results, 104, "NFS 3 GETATTR", "obj_attributes.size");
        assert_eq!(groups(&results), [(0, 99, vec![1, 2, 3, 4, 5]), (100, 1, vec![104])]);
        assert_eq!((results.states.mismatched, results.unlisted_mismatches), (105, 3));
    }

    #[test]
    fn the_groups_of_several_copies_are_joined() {
        let mut results = StepResultsOfRun { max_mismatches: 2, ..StepResultsOfRun::default() };
        let copy = || {
            let mut results = StepResultsOfRun { max_mismatches: 2, ..StepResultsOfRun::default() };
            mismatched(&mut results, 1, READ, "READ.eof");
            mismatched(&mut results, 2, READ, "READ.eof");
            results
        };
        mismatched(&mut results, 0, READ, "READ.count");
        results.join_mismatches(copy().mismatches, 2);
        results.join_mismatches(copy().mismatches, 3);
        let named = results.mismatches.iter().map(|one| (one.step.step, one.copy, one.similar_steps));
        assert_eq!(named.collect::<Vec<_>>(), [(0, 1, 0), (1, 2, 3)]);
        let similar = results.mismatches[1].first_similar.iter().map(|one| (one.step.step, one.copy));
        assert_eq!(similar.collect::<Vec<_>>(), [(2, 2), (1, 3), (2, 3)]);
        let mut other = copy();
        mismatched(&mut other, 3, READ, "READ.status");
        results.join_mismatches(other.mismatches, 4);
        assert_eq!((results.mismatches.len(), results.unlisted_mismatches), (2, 1));
    }

    #[test]
    fn a_late_difference_leaves_the_reason_of_other_steps() {
        let mut results = one_of_each(10);
        results.count(step_id(9), READ, StepOutcome::Tolerated(tolerance_rules::AFTER));
        results.apply_late_differences(vec![difference(1, DifferenceKind::Identity)]);
        let because = &results.reasons[&(FinalStepState::Tolerated, tolerance_rules::AFTER.name.to_owned())];
        assert_eq!((because.steps, because.operations[READ], &*because.first), (1, 1, &[step_id(9)][..]));
    }
}
