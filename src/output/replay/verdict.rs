//! Verdict on a replay in one sentence.

use nfsrdma_replay::run::report::ReplayReport;

use crate::output::units::{HumanCount, PluralCount};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayVerdictSeverity {
    /// Nothing differs.
    Good,
    /// Too little was verified.
    Incomplete,
    /// Something differs, or a side broke the protocol.
    Bad,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplayVerdict {
    pub(super) severity: ReplayVerdictSeverity,
    /// The verdict in one sentence.
    pub(super) text: String,
}

impl ReplayVerdict {
    fn new(severity: ReplayVerdictSeverity, text: impl Into<String>) -> Self {
        Self { severity, text: text.into() }
    }

    /// Returns the verdict of a report, of which `min_coverage` percent must be verified.
    pub(super) fn of(report: &ReplayReport, min_coverage: f64) -> Self {
        let tree_check = report.tree_check.as_ref();
        let files = tree_check.map_or(0, |tree_check| tree_check.differing);
        let steps = report.mismatched();
        let bad = |text: String| Self::new(ReplayVerdictSeverity::Bad, text);
        let incomplete = |text: &str| Self::new(ReplayVerdictSeverity::Incomplete, text);
        let shortfall = report.shortfall(min_coverage);
        if !report.protocol.own.is_empty() {
            bad("protocol error by this program".into())
        } else if report.end.unreachable.is_some() {
            incomplete("the server became unreachable")
        } else if report.end.silent_program.is_some() {
            incomplete("a program other than NFS did not answer")
        } else if steps > 0 {
            let differ = if steps == 1 { "differs" } else { "differ" };
            bad(format!("{} {differ}", PluralCount(steps, "step")))
        } else if !report.protocol.violations.is_empty() {
            bad("the server violated the protocol".into())
        } else if files > 0 {
            bad(format!("{} in the files at the end", PluralCount(files, "difference")))
        } else if report.end.limit.is_some() {
            incomplete("stopped at the time limit")
        } else if report.end.is_interrupted {
            incomplete("stopped before the last step")
        } else if tree_check.is_some_and(|tree_check| tree_check.failed.is_some()) {
            incomplete("the final check is incomplete")
        } else if report.replayed() == 0 {
            incomplete("nothing was replayed and compared")
        } else if let Some(shortfall) = shortfall {
            incomplete(&shortfall.to_string())
        } else {
            Self::new(ReplayVerdictSeverity::Good, without_difference(report))
        }
    }
}

/// Describes a replay in which nothing differs: first what was tolerated and what was not replayed.
fn without_difference(report: &ReplayReport) -> String {
    let states = report.steps.states;
    let mut parts = Vec::new();
    if states.tolerated > 0 {
        let replayed = PluralCount(report.replayed(), "step");
        parts.push(format!("{} of {replayed} tolerated by rules", HumanCount(states.tolerated)));
    }
    if states.unreplayable > 0 {
        parts.push(format!("{} not replayed", PluralCount(states.unreplayable, "step")));
    }
    if report.uncompared() > 0 {
        parts.push(format!("{} sent without a reply to compare", PluralCount(report.uncompared(), "step")));
    }
    if report.tree_check.as_ref().is_some_and(|tree_check| tree_check.left_out > 0) {
        parts.push("some files not checked".to_owned());
    }
    let tolerated = report.tree_check.as_ref().map_or(0, |tree_check| tree_check.tolerated);
    if tolerated > 0 {
        parts.push(format!("{} in the final check tolerated by rules", PluralCount(tolerated, "attribute")));
    }
    parts.push(if parts.is_empty() { "nothing differs" } else { "nothing else differs" }.to_owned());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_replay::run::final_tree_check::FinalTreeCheckReport;
    use nfsrdma_replay::run::report::EarlyRunEnd;
    use nfsrdma_replay::run::report::StepOutcomeReasonCount;
    use nfsrdma_replay::run::{FinalStepState, StepCounts};

    fn report(matched: u64, tolerated: u64, mismatched: u64) -> ReplayReport {
        let unreplayable = 10 - matched - tolerated - mismatched;
        let states = StepCounts { matched, tolerated, mismatched, unreplayable, ..StepCounts::default() };
        let mut report = ReplayReport::default();
        (report.steps.total, report.steps.states) = (10, states);
        report
    }

    #[test]
    fn steps_without_a_reply_to_compare_are_not_verified() {
        let mut report = report(0, 0, 0);
        report.steps.states = StepCounts { substituted: 10, ..StepCounts::default() };
        let key = (FinalStepState::Substituted, "reply-lost".to_owned());
        let mut because = StepOutcomeReasonCount::default();
        because.steps = 10;
        report.steps.reasons.insert(key, because);
        is(&report, ReplayVerdictSeverity::Incomplete, "nothing was replayed and compared");
        report.steps.states.matched = 10;
        let text = "10 steps sent without a reply to compare, nothing else differs";
        is(&report, ReplayVerdictSeverity::Good, text);
    }

    fn is(report: &ReplayReport, severity: ReplayVerdictSeverity, text: &str) {
        assert_eq!(ReplayVerdict::of(report, 50.0), ReplayVerdict::new(severity, text));
    }

    #[test]
    fn tolerated_and_unreplayed_steps_come_before_the_statement_that_nothing_differs() {
        is(&report(10, 0, 0), ReplayVerdictSeverity::Good, "nothing differs");
        is(&report(6, 4, 0), ReplayVerdictSeverity::Good, "4 of 10 steps tolerated by rules, nothing else differs");
        is(
            &report(5, 4, 0),
            ReplayVerdictSeverity::Good,
            "4 of 9 steps tolerated by rules, 1 step not replayed, nothing else differs",
        );
        is(&report(5, 4, 1), ReplayVerdictSeverity::Bad, "1 step differs");
    }

    #[test]
    fn a_run_that_verified_too_little_is_not_good() {
        is(&report(0, 0, 0), ReplayVerdictSeverity::Incomplete, "nothing was replayed and compared");
        is(
            &report(1, 0, 0),
            ReplayVerdictSeverity::Incomplete,
            "too little could be verified: 1 of 10 steps were replayed and compared, less than 50%",
        );
        let mut interrupted = report(10, 0, 0);
        interrupted.end = EarlyRunEnd { is_interrupted: true, ..EarlyRunEnd::default() };
        is(&interrupted, ReplayVerdictSeverity::Incomplete, "stopped before the last step");
        let mut unchecked = report(10, 0, 0);
        unchecked.tree_check = Some(FinalTreeCheckReport { failed: Some("EIO".into()), ..Default::default() });
        is(&unchecked, ReplayVerdictSeverity::Incomplete, "the final check is incomplete");
        let mut differing = report(10, 0, 0);
        differing.tree_check = Some(FinalTreeCheckReport { differing: 2, ..Default::default() });
        is(&differing, ReplayVerdictSeverity::Bad, "2 differences in the files at the end");
    }
}
