//! The outcome of a step, and numbers of steps by state.

use std::ops::AddAssign;

use nfsrdma_analysis::comparison::difference::Difference;

use super::tolerance_rules::BuiltInToleranceRule;

/// Final state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FinalStepState {
    /// The live Reply equals the recorded one.
    Matched,
    /// The live Reply differs as a rule tolerates.
    Tolerated,
    /// The live Reply differs.
    Mismatched,
    /// The step was sent with a substitute, and everything comparable matched.
    Substituted,
    /// The step was not sent and need not be.
    Skipped,
    /// The step cannot be replayed.
    Unreplayable,
}

impl FinalStepState {
    /// All states, in report order.
    pub const ALL: [Self; 6] =
        [Self::Matched, Self::Tolerated, Self::Mismatched, Self::Substituted, Self::Skipped, Self::Unreplayable];

    /// Returns the name of the state in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::Tolerated => "tolerated",
            Self::Mismatched => "mismatched",
            Self::Substituted => "substituted",
            Self::Skipped => "skipped",
            Self::Unreplayable => "unreplayable",
        }
    }
}

/// Final state of a step, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// The live Reply equals the recorded one.
    Matched,
    /// The live Reply differs as this rule tolerates.
    Tolerated(BuiltInToleranceRule),
    /// The live Reply differs.
    Mismatched(Vec<Difference>),
    /// The step was sent with a substitute for something that the capture lacks, or after recovery, with the code of
    /// the reason; everything comparable matched.
    Substituted(&'static str),
    /// The step was not sent and need not be: code and text of the reason.
    Skipped(String),
    /// The step cannot be replayed: code and text of the reason.
    Unreplayable(String),
}

impl StepOutcome {
    /// Returns the state without its reason.
    pub fn state(&self) -> FinalStepState {
        match self {
            Self::Matched => FinalStepState::Matched,
            Self::Tolerated(_) => FinalStepState::Tolerated,
            Self::Mismatched(_) => FinalStepState::Mismatched,
            Self::Substituted(_) => FinalStepState::Substituted,
            Self::Skipped(_) => FinalStepState::Skipped,
            Self::Unreplayable(_) => FinalStepState::Unreplayable,
        }
    }

    /// Returns the reason, if the state needs one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Matched | Self::Mismatched(_) => None,
            Self::Tolerated(rule) => Some(rule.name),
            Self::Substituted(reason) => Some(reason),
            Self::Skipped(why) | Self::Unreplayable(why) => Some(why),
        }
    }
}

/// Number of steps in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the variants of FinalStepState")]
pub struct StepCounts {
    pub matched: u64,
    pub tolerated: u64,
    pub mismatched: u64,
    pub substituted: u64,
    pub skipped: u64,
    pub unreplayable: u64,
}

impl StepCounts {
    /// Returns the number of steps in a state.
    pub fn get(mut self, state: FinalStepState) -> u64 {
        *self.get_mut(state)
    }

    /// Returns the number of steps in a state, to be changed.
    pub fn get_mut(&mut self, state: FinalStepState) -> &mut u64 {
        match state {
            FinalStepState::Matched => &mut self.matched,
            FinalStepState::Tolerated => &mut self.tolerated,
            FinalStepState::Mismatched => &mut self.mismatched,
            FinalStepState::Substituted => &mut self.substituted,
            FinalStepState::Skipped => &mut self.skipped,
            FinalStepState::Unreplayable => &mut self.unreplayable,
        }
    }

    /// Returns the states with their numbers, in report order.
    pub fn iter(&self) -> impl Iterator<Item = (FinalStepState, u64)> + '_ {
        FinalStepState::ALL.into_iter().map(|state| (state, self.get(state)))
    }

    /// Returns the number of steps.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, steps)| steps).sum()
    }

    /// Returns the number of steps that were sent, and that matched as far as they are comparable.
    pub fn agreeing(&self) -> u64 {
        self.matched + self.tolerated + self.substituted
    }

    /// Returns the number of steps that were sent and compared.
    pub fn replayed(&self) -> u64 {
        self.agreeing() + self.mismatched
    }
}

impl AddAssign for StepCounts {
    fn add_assign(&mut self, other: Self) {
        other.iter().for_each(|(state, steps)| *self.get_mut(state) += steps);
    }
}
