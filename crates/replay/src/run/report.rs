//! Report of a run.

pub(super) mod steps;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use nfsrdma_analysis::comparison::record_comparison::ComparedFieldAndByteCounts;
use nfsrdma_dissectors::nfs::v4::{Nfsstat4, Operation};
use nfsrdma_nfs_model::v4::statuses;
use nfsrdma_rpc::{ReceivedMessageDiscardReason, TransportErrorResponsibility};

use super::final_tree_check::FinalTreeCheckReport;
use super::issue_delay_histogram::IssueDelayHistogram;
use super::recovery;
use super::step_outcome::FinalStepState;
use super::trace_recording::RunRecordingTotals;
use crate::nfs4::remedy::{blames_client, can_have, is_server_failure};
use crate::run_plan::reason::PlanReason;
use crate::seed::file_server_client::FileUserAndGroup;
pub use steps::{
    CopyStepId, StepIdWithFrames, StepMismatch, StepOutcomeReasonCount, StepResultsOfOperationType, StepResultsOfRun,
};

/// Maximum number of kinds of protocol violations counted separately.
const MAX_VIOLATION_KINDS: usize = 64;
/// Maximum number of refusals, and of protocol errors, that are listed.
pub(super) const MAX_LISTED_MESSAGES: usize = 100;

/// Reason for insufficient coverage. `min_coverage` is in percent.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayCoverageShortfall {
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

impl fmt::Display for ReplayCoverageShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too little could be verified: ")?;
        match self {
            Self::Steps { replayed: 0, chosen, .. } => {
                write!(f, "none of {chosen} steps was replayed and compared")
            }
            Self::Steps { replayed, chosen, min_coverage } => {
                write!(f, "{replayed} of {chosen} steps were replayed and compared, less than {min_coverage}%")
            }
            Self::CheckFailed(reason) => write!(f, "the final check was not completed: {reason}"),
            Self::Files { looked: [looked, total], bytes: [read, written], min_coverage } => write!(
                f,
                "the final check covered {looked} of {total} names and objects, and {read} of {written} bytes, less than {min_coverage}%"
            ),
        }
    }
}

/// Connections that were lost, and what was recovered after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayRecoveryCounts {
    /// Number of connections lost.
    pub disconnects: u64,
    /// Number of connections opened to replace lost ones.
    pub reconnects: u64,
    /// Number of Calls sent again because their connection was lost.
    pub resent: u64,
    /// Number of times a connection was bound to a session (BIND_CONN_TO_SESSION).
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
}

/// Calls of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallbackCounts {
    /// Number of Calls by operation.
    pub by_operation: BTreeMap<&'static str, u64>,
    /// Number of Calls that were not answered.
    pub unanswered: u64,
    /// Reason why there is no port for callbacks of NFSv4.0.
    pub listen_error: Option<String>,
}

/// Errors in the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayProtocolErrors {
    /// Errors of this program.
    pub own: Vec<String>,
    /// Violations by the server, with their number.
    pub violations: BTreeMap<String, u64>,
    /// Messages of the server that were not used, by reason, with their number.
    pub discarded: BTreeMap<ReceivedMessageDiscardReason, u64>,
}

impl ReplayProtocolErrors {
    /// Adds an error of this program, up to a limit.
    pub fn add_own(&mut self, error: String) {
        if self.own.len() < MAX_LISTED_MESSAGES {
            self.own.push(error);
        }
    }

    /// Adds a failure of the program's own calls, if this program or the server broke the protocol.
    pub fn add_fault(&mut self, blame: TransportErrorResponsibility, error: String) {
        match blame {
            TransportErrorResponsibility::Program => self.add_own(error),
            TransportErrorResponsibility::Server => self.count_violation(error),
            TransportErrorResponsibility::Unreachable => {}
        }
    }

    /// Adds the status of one of the run's own calls that failed, if the server has failed or broken the protocol, or
    /// says that this program has. `what` names the call.
    pub(super) fn add_own_status(&mut self, what: &str, (minor, operation): (u32, Operation), status: Nfsstat4) {
        if !can_have(minor, Some(operation), status) {
            let section = statuses::section(minor, Some(operation));
            self.count_violation(format!("{status} to {what}, which cannot have it ({section})"));
        } else if blames_client(status) && self.violations.is_empty() {
            self.add_own(format!("{what}: {status}"));
        } else if is_server_failure(status) {
            self.count_violation(format!("{status} to {what}, for which the capture shows that it can succeed"));
        }
    }

    /// Returns the number of messages of the server that were not used.
    pub fn discarded_messages(&self) -> u64 {
        self.discarded.values().sum()
    }

    /// Counts a violation by the server.
    pub fn count_violation(&mut self, description: String) {
        if self.violations.len() < MAX_VIOLATION_KINDS || self.violations.contains_key(&description) {
            *self.violations.entry(description).or_default() += 1;
        }
    }
}

/// State from before the capture that the run created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynthesizedStateCounts {
    /// Number of clients, with their sessions.
    pub clients: u64,
    /// Number of opens.
    pub opens: u64,
}

/// Duration of a run.
#[derive(Clone, Debug, Default)]
pub struct RunTimingResult {
    /// Time from the first Call to the last Reply.
    pub elapsed: Duration,
    /// Issue delays of Calls, if the pace has intended times.
    pub issue_delay: IssueDelayHistogram,
    /// Time from the first to the last Call of the capture in nanoseconds.
    pub recorded_ns: u64,
}

/// Reasons why a run ended before its last step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlyRunEnd {
    /// `true` if the run was ended early, by the user or by its time limit.
    pub is_interrupted: bool,
    /// Time limit that ended the run, if it did.
    pub limit: Option<Duration>,
    /// Reason why the server became unreachable, which ended the run.
    pub unreachable: Option<String>,
    /// Reason why a program other than NFS is no longer called: no Reply within the timeout.
    pub silent_program: Option<String>,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// Results of the steps.
    pub steps: StepResultsOfRun,
    /// Number of Calls sent, except those of substitute opens; a step that is sent again counts again.
    pub calls: u64,
    /// Number of retries because the server asked for them.
    pub delayed: u64,
    /// Number of connections opened.
    pub connections: u64,
    /// Lost connections and recovered state.
    pub recovery: ReplayRecoveryCounts,
    /// Calls of the server.
    pub callbacks: CallbackCounts,
    /// Number of delegations that no step returns, returned by the run.
    pub returned_delegations: u64,
    /// Errors in the protocol.
    pub protocol: ReplayProtocolErrors,
    /// Fields and file data compared.
    pub compared: ComparedFieldAndByteCounts,
    /// State created because it was made before the capture.
    pub synthesized: SynthesizedStateCounts,
    /// Refusals by the server of state from before the capture or of state to be recovered.
    pub refused: Vec<String>,
    /// Number of calls that are missing from the capture, at least.
    pub missing_calls: u64,
    /// Number of replayed calls that were in flight when the capture ended: no replay can compare their replies.
    pub calls_in_flight: u64,
    /// Number of values dropped because of a limit.
    pub dropped_values: u64,
    /// Duration of the run.
    pub timing: RunTimingResult,
    /// Reasons why the run ended before its last step.
    pub end: EarlyRunEnd,
    /// Owner of objects created by root, if the export squashes root.
    pub squashed: Option<FileUserAndGroup>,
    /// Totals of the recording, or the reason why it failed; `None` if not requested.
    pub recording: Option<Result<RunRecordingTotals, String>>,
    /// Result of the tree check after the run; `None` without one.
    pub tree_check: Option<FinalTreeCheckReport>,
}

impl ReplayReport {
    /// Adds a refusal by the server, up to a limit.
    pub fn add_refusal(&mut self, refusal: String) {
        if self.refused.len() < MAX_LISTED_MESSAGES {
            self.refused.push(refusal);
        }
    }

    /// Returns the number of steps that were sent and compared: matched, tolerated, mismatched or substituted, without
    /// those [without a comparison](Self::uncompared).
    pub fn replayed(&self) -> u64 {
        self.steps.states.replayed().saturating_sub(self.uncompared())
    }

    /// Returns the number of steps that were sent, but have no recorded or no live Reply to compare, or not all of it.
    pub fn uncompared(&self) -> u64 {
        self.uncompared_counts().map(|count| count.steps).sum()
    }

    fn uncompared_counts(&self) -> impl Iterator<Item = &StepOutcomeReasonCount> {
        let lost = PlanReason::ReplyLost.code();
        let codes = [lost, recovery::REPLY_UNKNOWN.code, recovery::UNLISTED.code, recovery::CALL_MISSING.code];
        codes.into_iter().filter_map(|code| self.steps.reasons.get(&(FinalStepState::Substituted, code.to_owned())))
    }

    /// Returns the number of steps of an operation that were compared, and matched as far as they are comparable.
    pub fn agreeing(&self, operation: &str) -> u64 {
        let states = self.steps.operations.get(operation).map(|results| results.states).unwrap_or_default();
        let uncompared = self.uncompared_counts().filter_map(|count| count.operations.get(operation));
        states.agreeing().saturating_sub(uncompared.sum())
    }

    /// Returns the number of steps to be replayed and compared: all but those that need not be sent, and those in flight
    /// when the capture ended, unless these are more than the compared ones. A call that `--sec skip` left out proves
    /// nothing, and counts.
    pub fn chosen(&self) -> u64 {
        let code = PlanReason::SecuredSkipped.code();
        let is_left_out = |(state, reason): &(FinalStepState, String)| {
            *state == FinalStepState::Skipped && reason.split(':').next() == Some(code)
        };
        let left_out: u64 =
            self.steps.reasons.iter().filter(|(key, _)| is_left_out(key)).map(|(_, count)| count.steps).sum();
        let chosen = self.steps.total.saturating_sub(self.steps.states.skipped.saturating_sub(left_out));
        if self.calls_in_flight > self.replayed() { chosen } else { chosen.saturating_sub(self.calls_in_flight) }
    }

    /// Returns the number of mismatches.
    pub fn mismatched(&self) -> u64 {
        self.steps.states.mismatched
    }

    /// Returns `true` if there are mismatches, protocol violations, or differences in the final tree.
    pub fn is_different(&self) -> bool {
        self.mismatched() > 0
            || !self.protocol.violations.is_empty()
            || self.tree_check.as_ref().is_some_and(|check| check.differing > 0)
    }

    /// Returns the reason for insufficient coverage, if it is below `min_coverage` percent of the steps that are not
    /// skipped, or of the final check. A run that replayed nothing and a failed check are never sufficient.
    pub fn shortfall(&self, min_coverage: f64) -> Option<ReplayCoverageShortfall> {
        let (replayed, chosen) = (self.replayed(), self.chosen());
        if replayed == 0 || (replayed as f64) * 100.0 < min_coverage * chosen as f64 {
            return Some(ReplayCoverageShortfall::Steps { replayed, chosen, min_coverage });
        }
        let check = self.tree_check.as_ref()?;
        if let Some(error) = &check.failed {
            return Some(ReplayCoverageShortfall::CheckFailed(error.clone()));
        }
        let percent = check.coverage() * 100.0;
        let FinalTreeCheckReport { names, objects, bytes, written_bytes, .. } = *check;
        (percent < min_coverage).then_some(ReplayCoverageShortfall::Files {
            looked: [names + objects, names + objects + check.unverified()],
            bytes: [bytes, written_bytes],
            min_coverage,
        })
    }

    /// Returns `true` if each step is in exactly one state.
    pub fn is_consistent(&self) -> bool {
        self.steps.is_consistent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::step_outcome::StepOutcome;

    /// No replay can check what a call in flight when the capture ended changed. Nothing checked is no proof.
    #[test]
    fn calls_in_flight_need_no_coverage() {
        let shortfall = |check: FinalTreeCheckReport| {
            let mut report = ReplayReport { calls_in_flight: 1, tree_check: Some(check), ..ReplayReport::default() };
            report.steps.count(StepIdWithFrames::default(), "NFS 4 NULL", StepOutcome::Matched);
            let lost = StepOutcome::Substituted(PlanReason::ReplyLost.code());
            report.steps.count(StepIdWithFrames::default(), "NFS 4.2 REMOVE", lost.clone());
            assert_eq!((report.replayed(), report.chosen()), (1, 1));
            let shortfall = report.shortfall(90.0);
            report.steps.count(StepIdWithFrames::default(), "NFS 4.2 REMOVE", lost);
            report.calls_in_flight = 2;
            assert_eq!((report.replayed(), report.chosen()), (1, 3), "more in flight than compared");
            shortfall
        };
        let check = FinalTreeCheckReport { names: 2, objects: 2, left_out: 1, in_flight: 1, ..Default::default() };
        assert_eq!(shortfall(check.clone()), None);
        let uncertain = FinalTreeCheckReport { in_flight: 0, ..check.clone() };
        assert!(matches!(shortfall(uncertain), Some(ReplayCoverageShortfall::Files { looked: [4, 5], .. })));
        let unchecked = FinalTreeCheckReport { names: 0, objects: 0, ..check };
        assert!(matches!(shortfall(unchecked), Some(ReplayCoverageShortfall::Files { looked: [0, 1], .. })));
    }

    /// RFC 8881 section 15.2.
    #[test]
    fn impossible_status_is_violation_by_server() {
        let mut protocol = ReplayProtocolErrors::default();
        protocol.add_own_status("OPEN", (1, Operation::OPEN), Nfsstat4::NFS4ERR_ACCESS);
        assert_eq!(protocol, ReplayProtocolErrors::default());
        protocol.add_own_status("EXCHANGE_ID", (1, Operation::EXCHANGE_ID), Nfsstat4::NFS4ERR_BAD_COOKIE);
        let text = "NFS4ERR_BAD_COOKIE to EXCHANGE_ID, which cannot have it (RFC 8881 section 15.2)";
        assert_eq!(protocol.violations.keys().collect::<Vec<_>>(), [text]);
    }

    /// `--sec skip` of a capture with one NULL and 663 signed calls.
    #[test]
    fn calls_left_out_by_sec_count() {
        let mut report = ReplayReport::default();
        report.steps.count(StepIdWithFrames::default(), "NFS 4 NULL", StepOutcome::Matched);
        let reason = format!("{}: {}", PlanReason::SecuredSkipped.code(), PlanReason::SecuredSkipped.text());
        for _ in 0..663 {
            report.steps.count(StepIdWithFrames::default(), "NFS 4.2 READ", StepOutcome::Skipped(reason.clone()));
        }
        assert_eq!((report.replayed(), report.chosen()), (1, 664));
        assert!(matches!(
            report.shortfall(50.0),
            Some(ReplayCoverageShortfall::Steps { replayed: 1, chosen: 664, .. })
        ));
        let callback = StepOutcome::Skipped(PlanReason::Callback.code().to_owned());
        report.steps.count(StepIdWithFrames::default(), "NFS_CB 1 CB_RECALL", callback);
        assert_eq!(report.chosen(), 664, "the run need not send it");
    }
}
