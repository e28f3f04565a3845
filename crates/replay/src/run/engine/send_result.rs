//! Results of attempts to send Calls.

use std::fmt;
use std::time::Instant;

use super::super::run_error::ReplayRunError;
use super::super::step_outcome::StepOutcome;

/// Reason why a step was not sent.
pub(super) enum StepSendObstacle {
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
    pub(super) fn unreplayable(reason: impl fmt::Display) -> Self {
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

/// Result of an attempt to send a Call that is not a step.
pub(super) enum NonStepCallSubmitResult {
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
