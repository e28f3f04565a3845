//! What came of a run: each step in exactly one state.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::issue_delay::IssueDelayHistogram;
use super::recording::RecordingTotals;
use super::rules::ToleranceRule;
use super::tree_check::TreeCheckReport;
use crate::analysis::comparison::difference::{Difference, DifferenceKind};
use crate::analysis::statistics::Latencies;

/// Reasons that are counted apart.
const NAMES: usize = 4_096;
/// Operations that are counted apart: each has latencies.
const OPERATIONS: usize = 512;
/// Ways to break the protocol that are counted apart.
const VIOLATIONS: usize = 64;
/// Steps that are shown of each reason.
const FIRST: usize = 5;

/// What became of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayStepState {
    /// Its live Reply says what the recorded one says.
    Matched,
    /// It says something else that this rule lets differ.
    Tolerated(ToleranceRule),
    /// It says something else.
    Mismatched(Vec<Difference>),
    /// It was sent with something that the capture does not tell in its place, and why; what can be compared matched.
    Repaired(&'static str),
    /// It was not sent, and need not be: the code of the reason, and what it is.
    Skipped(String),
    /// It cannot be done: the code of the reason, and what it is.
    Unreplayable(String),
}

impl ReplayStepState {
    /// The names of all of them, in the order in which they are told.
    pub const NAMES: [&'static str; 6] =
        ["matched", "tolerated", "mismatched", "repaired", "skipped", "unreplayable"];

    /// Its place among the names.
    pub fn index(&self) -> usize {
        match self {
            Self::Matched => 0,
            Self::Tolerated(_) => 1,
            Self::Mismatched(_) => 2,
            Self::Repaired(_) => 3,
            Self::Skipped(_) => 4,
            Self::Unreplayable(_) => 5,
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::Matched | Self::Mismatched(_) => None,
            Self::Tolerated(rule) => Some(rule.name),
            Self::Repaired(why) => Some(why),
            Self::Skipped(why) | Self::Unreplayable(why) => Some(why),
        }
    }
}

/// Why too little could be verified. `min_coverage` is in percent.
#[derive(Clone, Debug, PartialEq)]
pub enum CoverageShortfall {
    /// Too few steps were replayed.
    Steps {
        /// Those that were.
        replayed: u64,
        /// Those that were to be.
        chosen: u64,
        /// What is asked for.
        min_coverage: f64,
    },
    /// The final check ended before its end, and why.
    CheckFailed(String),
    /// The final check left out too much.
    Files {
        /// Names and objects that were looked at, and that are to be.
        looked: [u64; 2],
        /// Bytes that were read, and that are to be.
        bytes: [u64; 2],
        /// What is asked for.
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

/// A step as a report names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId {
    /// The `id` of the step.
    pub step: u64,
    /// First frames of Call and Reply in the capture; 0 where there is none.
    pub frames: [u64; 2],
}

/// A step whose Reply differs.
#[derive(Clone, Debug, PartialEq)]
pub struct StepMismatch {
    /// Which.
    pub step: StepId,
    /// Which copy of the captured clients, from 1; 0 where there is one.
    pub copy: u32,
    /// What it is about.
    pub operation: String,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// How often a reason was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReasonCount {
    /// Steps.
    pub steps: u64,
    /// By operation.
    pub operations: BTreeMap<String, u64>,
    /// The first of them.
    pub first: Vec<StepId>,
}

/// What came of the steps of one operation.
#[derive(Clone, Debug, Default)]
pub struct ReplayOperationReport {
    /// By state, in the order of [`ReplayStepState::NAMES`].
    pub states: [u64; 6],
    /// Recorded and live latencies, of the steps that were sent and have both.
    pub latencies: [Latencies; 2],
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// Steps of the trace.
    pub steps: u64,
    /// By state, in the order of [`ReplayStepState::NAMES`].
    pub states: [u64; 6],
    /// Why, by the place of the state and the reason.
    pub reasons: BTreeMap<(usize, String), ReplayReasonCount>,
    /// The rules that were needed: their names, and why there are.
    pub rules: BTreeMap<&'static str, &'static str>,
    /// By operation.
    pub operations: BTreeMap<String, ReplayOperationReport>,
    /// The first mismatches.
    pub mismatches: Vec<StepMismatch>,
    /// Calls that were sent; a step that is sent again counts again.
    pub calls: u64,
    /// Steps that were sent again because the server asked for it.
    pub delayed: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Connections that went away.
    pub disconnects: u64,
    /// Connections that were opened in the place of those.
    pub reconnects: u64,
    /// Why the server could not be reached any more, so that the run ended before its end.
    pub unreachable: Option<String>,
    /// The reason that a program beside NFS was not called any more: no Reply within the timeout.
    pub silent: Option<String>,
    /// Calls that were sent again because their connection went away.
    pub resent: u64,
    /// Backchannels that were bound to another connection.
    pub rebound: u64,
    /// Clients and sessions that were set up anew because the server had forgotten them.
    pub recovered: u64,
    /// Opens and ranges of locks that were reclaimed then.
    pub reclaimed: u64,
    /// Opens and locks that could not be.
    pub not_reclaimed: u64,
    /// Security contexts that were set up anew because the server did not know them any more.
    pub contexts_renewed: u64,
    /// Those that the server has said to have destroyed in the end.
    pub contexts_destroyed: u64,
    /// Calls of the server, by operation, and those that could not be answered.
    pub callbacks: BTreeMap<&'static str, u64>,
    /// Calls of the server that were not answered.
    pub unanswered: u64,
    /// Why nothing listens for the callbacks of NFSv4.0, where it should.
    pub no_callbacks: Option<String>,
    /// Delegations that the capture does not have, returned as they came.
    pub returned: u64,
    /// What this program did wrong itself.
    pub own_faults: Vec<String>,
    /// Messages of the server that made no sense.
    pub discarded: u64,
    /// How the server broke the protocol, and how often.
    pub violations: BTreeMap<String, u64>,
    /// Fields and bytes of file data that were compared.
    pub compared: [u64; 2],
    /// Clients, sessions and opens from before the capture that were made.
    pub bridged: u64,
    /// What the server refused of what was before the capture, and of what was set up anew.
    pub refused: Vec<String>,
    /// Values that there was no room for.
    pub forgotten: u64,
    /// From the first Call to the last Reply.
    pub elapsed: Duration,
    /// How much later than intended Calls were sent, where the pace has times.
    pub lateness: IssueDelayHistogram,
    /// From the first Call of the capture to the last, in nanoseconds.
    pub recorded: u64,
    /// Whether it was ended before its end: by somebody, or because it took too long.
    pub is_interrupted: bool,
    /// User and group that what root makes belongs to, where the export squashes root.
    pub squashed: Option<[u32; 2]>,
    /// The limit that it reached, if that ended it.
    pub limit: Option<Duration>,
    /// What was recorded of it, or why the recording was not finished; `None` where none was asked for.
    pub recorded_as: Option<Result<RecordingTotals, String>>,
    /// What the walk after the run has found; `None` without one.
    pub walked: Option<TreeCheckReport>,
}

impl ReplayReport {
    /// Puts a step in its state.
    pub fn settle(&mut self, step: StepId, operation: &str, state: ReplayStepState, shown: usize) {
        self.steps += 1;
        let at = state.index();
        if let Some(count) = self.states.get_mut(at) {
            *count += 1;
        }
        if let Some(count) = self.of(operation).states.get_mut(at) {
            *count += 1;
        }
        if let ReplayStepState::Tolerated(rule) = &state {
            self.rules.entry(rule.name).or_insert(rule.why);
        }
        if let Some(reason) = state.reason() {
            self.because(at, reason, step, operation);
        }
        if let ReplayStepState::Mismatched(differences) = state
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

    fn because(&mut self, at: usize, reason: &str, step: StepId, operation: &str) {
        let key = (at, reason.to_owned());
        let has_room = self.reasons.len() < NAMES || self.reasons.contains_key(&key);
        let because = self.reasons.entry(if has_room { key } else { (at, "other".to_owned()) }).or_default();
        because.steps += 1;
        *because.operations.entry(operation.to_owned()).or_default() += 1;
        if because.first.len() < FIRST {
            because.first.push(step);
        }
    }

    /// What is counted of an operation.
    pub fn of(&mut self, operation: &str) -> &mut ReplayOperationReport {
        let has_room = self.operations.len() < OPERATIONS || self.operations.contains_key(operation);
        let name = if has_room { operation } else { "other" };
        if !self.operations.contains_key(name) {
            self.operations.insert(name.to_owned(), ReplayOperationReport::default());
        }
        // It is there now.
        self.operations.entry(name.to_owned()).or_default()
    }

    /// Steps that turned out late to have another name for something.
    pub fn late(&mut self, differences: Vec<Difference>, shown: usize) {
        for difference in differences {
            let place = difference.a.place.unwrap_or_default();
            let frame =
                |frame: Option<nfsrdma_dissectors::frame::FrameNumber>| frame.map_or(0, |frame| frame.0);
            let step = StepId { step: place.index, frames: [frame(place.call), frame(place.reply)] };
            let known = self.mismatches.iter_mut().find(|mismatch| mismatch.step == step);
            if let Some(known) = known {
                known.differences.push(difference);
                continue;
            }
            // It was counted among those that matched; one with another status among those that cannot be done.
            let operation = difference.operation.clone();
            let states = &mut self.states;
            let mut among = if difference.kind == DifferenceKind::Status { 5..6 } else { 0..2 };
            let from = among.find(|at| states.get(*at).is_some_and(|count| *count > 0));
            let Some(from) = from else { continue };
            moved(&mut self.states, from);
            moved(&mut self.of(&operation).states, from);
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

    /// Steps that were sent and compared, or need not be.
    pub fn replayed(&self) -> u64 {
        self.states.iter().take(4).sum()
    }

    /// Steps that are to be replayed: all that need not be skipped.
    pub fn chosen(&self) -> u64 {
        self.steps.saturating_sub(self.states.get(4).copied().unwrap_or(0))
    }

    /// Mismatches.
    pub fn mismatched(&self) -> u64 {
        self.states.get(2).copied().unwrap_or(0)
    }

    /// Whether the server answered a step otherwise than it was recorded, or files are otherwise than they must be.
    pub fn is_different(&self) -> bool {
        self.mismatched() > 0
            || !self.violations.is_empty()
            || self.walked.as_ref().is_some_and(|walked| walked.differing > 0)
    }

    /// The server broke the protocol.
    pub fn violate(&mut self, how: String) {
        if self.violations.len() < VIOLATIONS || self.violations.contains_key(&how) {
            *self.violations.entry(how).or_default() += 1;
        }
    }

    /// Why too little could be verified, where at least so much is asked for, in percent: of the steps that are not skipped, and
    /// of what the final check has to look at. A run that replayed nothing, and a check that failed, are never enough.
    pub fn shortfall(&self, min_coverage: f64) -> Option<CoverageShortfall> {
        let (replayed, chosen) = (self.replayed(), self.chosen());
        if replayed == 0 || (replayed as f64) * 100.0 < min_coverage * chosen as f64 {
            return Some(CoverageShortfall::Steps { replayed, chosen, min_coverage });
        }
        let walked = self.walked.as_ref()?;
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

    /// Whether each step is in exactly one state.
    pub fn is_sound(&self) -> bool {
        let by_operation: u64 = self.operations.values().flat_map(|of| of.states).sum();
        self.states.iter().sum::<u64>() == self.steps && by_operation == self.steps
    }
}

/// One step less in a state, and one more among the mismatches.
fn moved(states: &mut [u64; 6], from: usize) {
    let [matched, tolerated, mismatched, _, _, unreplayable] = states;
    let counted = match from {
        5 => unreplayable,
        0 if *matched > 0 => matched,
        _ => tolerated,
    };
    if *counted > 0 {
        *counted -= 1;
        *mismatched += 1;
    }
}
