//! Replay report with the texts that its formats share.

use nfsrdma_analysis::comparison::difference::Difference;
use nfsrdma_analysis::comparison::identity_map::UNLIKE_IN_FRAME;
use nfsrdma_replay::run::FinalStepState;
use nfsrdma_replay::run::final_tree_check::FinalTreeCheckReport;
use nfsrdma_replay::run::options::ReplayPace;
use nfsrdma_replay::run::report::{EarlyRunEnd, ReplayReport, StepIdWithFrames, StepMismatch, SynthesizedStateCounts};
use nfsrdma_replay::seed::SeedCounts;
use nfsrdma_rpc::url::ServerUrl;

use super::verdict::{ReplayVerdict, ReplayVerdictSeverity};
use crate::output::style::TerminalProfile;
use crate::output::units::{HumanSize, PluralCount};

/// View of a replay report.
#[derive(Clone, Copy, Debug)]
pub struct PrintableReplayReport<'a> {
    /// Path of the trace, as given.
    pub trace: &'a str,
    /// URL of the server.
    pub server: &'a ServerUrl,
    /// Directory of the replay on the server.
    pub directory: &'a str,
    /// Result of the replay.
    pub report: &'a ReplayReport,
    /// Objects created before the replay.
    pub seeded: SeedCounts,
    /// Pace of the steps.
    pub pace: ReplayPace,
    /// Percentage of the steps and of the final check that must be verified.
    pub min_coverage: f64,
    /// Output device.
    pub screen: TerminalProfile,
}

/// Outcome of the replay of one capture or trace.
pub enum ReplayReportOrRefusal<'a> {
    /// The replay began.
    Report(Box<PrintableReplayReport<'a>>),
    /// The replay could not begin.
    Refused {
        /// Path of the capture or trace.
        trace: &'a str,
        /// Error message.
        error: &'a str,
    },
}

impl PrintableReplayReport<'_> {
    /// Returns the reasons why the run ended before its last step.
    pub(super) fn early_end(&self) -> Vec<String> {
        let EarlyRunEnd { is_interrupted, limit, unreachable, silent_program } = &self.report.end;
        let mut reasons = Vec::new();
        if let Some(limit) = limit {
            reasons.push(format!("The run was stopped at its limit of {} s.", limit.as_secs_f64()));
        } else if *is_interrupted {
            reasons.push("The run was interrupted.".to_owned());
        }
        reasons.extend(unreachable.as_ref().map(|reason| format!("The run was aborted: {reason}.")));
        reasons.extend(silent_program.as_ref().map(|reason| format!("Calls were not replayed: {reason}.")));
        reasons
    }

    pub(super) fn events(&self) -> [(&'static str, u64); 13] {
        [
            ("retried", self.report.delayed),
            ("disconnects", self.report.recovery.disconnects),
            ("reconnects", self.report.recovery.reconnects),
            ("resent", self.report.recovery.resent),
            ("rebound", self.report.recovery.rebound),
            ("recovered", self.report.recovery.recovered),
            ("reclaimed", self.report.recovery.reclaimed),
            ("not reclaimed", self.report.recovery.not_reclaimed),
            ("contexts renewed", self.report.recovery.contexts_renewed),
            ("returned", self.report.returned_delegations),
            ("callbacks", self.report.callbacks.by_operation.values().sum()),
            ("unanswered", self.report.callbacks.unanswered),
            ("dropped values", self.report.dropped_values),
        ]
    }
}

impl PrintableReplayReport<'_> {
    /// Returns verdict, capture, coverage, and the first difference with its path.
    pub(super) fn summary_line(&self) -> String {
        let verdict = ReplayVerdict::of(self.report, self.min_coverage);
        let word = match verdict.severity {
            ReplayVerdictSeverity::Good => "ok",
            ReplayVerdictSeverity::Incomplete => "INCOMPLETE",
            ReplayVerdictSeverity::Bad => "DIFFERS",
        };
        let report = self.report;
        let steps = format!("{} of {} replayed", report.replayed(), PluralCount(report.chosen(), "step"));
        let files = report.tree_check.as_ref().map_or_else(
            || "no final check".to_owned(),
            |check| format!("{:.0}% of the final check", (check.coverage() * 100.0).floor()),
        );
        let first = self.first_difference().map_or_else(String::new, |first| format!("; first: {first}"));
        format!("{word:<10}  {}  {}; {steps}, {files}{first}", self.trace, verdict.text)
    }

    /// Describes the first difference: of a step, of the protocol, or of a file.
    fn first_difference(&self) -> Option<String> {
        let report = self.report;
        let step = report.steps.mismatches.first().map(|mismatch| {
            let difference = mismatch.differences.first().map_or_else(String::new, difference_text);
            format!("{}, {}: {difference}", mismatch_title(mismatch), copy_frames(&mismatch.step, mismatch.copy))
        });
        let protocol = || report.protocol.own.first().or_else(|| report.protocol.violations.keys().next()).cloned();
        let file = || {
            let (path, difference) = tree_differences(report.tree_check.as_ref()?).next()?;
            Some(format!("{path}: {difference}"))
        };
        step.or_else(protocol).or_else(file)
    }
}

/// Describes a difference of a reply.
pub(super) fn difference_text(difference: &Difference) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    let path = if difference.path.is_empty() { difference.kind.word() } else { &difference.path };
    let times = if difference.count > 1 { format!(" ({} times)", difference.count) } else { String::new() };
    let (a, b) = (value(&difference.a.value), value(&difference.b.value));
    match (a.split_once(UNLIKE_IN_FRAME), b.split_once(UNLIKE_IN_FRAME)) {
        (Some((a, frame)), Some((b, other))) => {
            let frames = if frame == other { format!("frame {frame}") } else { format!("frames {frame} and {other}") };
            format!("{path}: recorded {a} is live {b}, unlike in {frames}{times}")
        }
        _ => format!("{path}: recorded {a}, live {b}{times}"),
    }
}

/// Returns the operation of a mismatched step, with its file or directory if known.
pub(super) fn mismatch_title(mismatch: &StepMismatch) -> String {
    match &mismatch.file {
        Some(file) => format!("{} of {file}", mismatch.operation),
        None => mismatch.operation.clone(),
    }
}

/// States whose reasons are shown: the step was not compared, or a difference was tolerated.
pub(super) const STATES_WITH_REASONS: [FinalStepState; 4] =
    [FinalStepState::Unreplayable, FinalStepState::Skipped, FinalStepState::Substituted, FinalStepState::Tolerated];

pub(super) fn frames(step: &StepIdWithFrames) -> String {
    match step.frames {
        [0, 0] => format!("step {}", step.step),
        [call, 0] => format!("frame {call}"),
        [0, reply] => format!("frame {reply} (reply)"),
        [call, reply] => format!("frames {call} and {reply}"),
    }
}

/// Returns the differences that the final check found: each path with its description.
pub(super) fn tree_differences(tree_check: &FinalTreeCheckReport) -> impl Iterator<Item = (&str, String)> {
    tree_check.mismatches.iter().flat_map(|mismatch| {
        mismatch.differences.iter().map(|difference| {
            let [expected, actual] =
                [&difference.a, &difference.b].map(|side| side.value.as_deref().unwrap_or_default());
            let last_step = match mismatch.step.frames {
                [0, 0] => String::new(),
                _ => format!("; last touched in {}", frames(&mismatch.step)),
            };
            let path = &difference.path;
            (&*mismatch.operation, format!("{path} must be {expected}, is {actual}{last_step}"))
        })
    })
}

/// Returns how much of the known content of the files was read.
pub(super) fn content_text(bytes: u64, known_bytes: u64) -> String {
    match known_bytes {
        0 => "no known content".to_owned(),
        _ => format!("{} of {} of known content", HumanSize(bytes), HumanSize(known_bytes)),
    }
}

/// Returns the first paths that the final check left out, after a colon; empty if none is known.
pub(super) fn unchecked_paths(tree_check: &FinalTreeCheckReport) -> String {
    let paths: Vec<&str> = tree_check.left_out_paths.iter().map(String::as_str).take(3).collect();
    let ellipsis = if tree_check.left_out > paths.len() as u64 { ", ..." } else { "" };
    if paths.is_empty() { String::new() } else { format!(": {}{ellipsis}", paths.join(", ")) }
}

/// Returns a reason; for a tolerance rule, with its explanation.
pub(super) fn reason_text(report: &ReplayReport, state: FinalStepState, reason: &str) -> String {
    let explanation = report.steps.rules.get(reason).filter(|_| state == FinalStepState::Tolerated);
    explanation.map_or_else(|| reason.to_owned(), |explanation| format!("{reason}: {explanation}"))
}

/// Returns the frames of a step and, if there are several copies of the clients, the number of its copy.
pub(super) fn copy_frames(step: &StepIdWithFrames, copy: u32) -> String {
    match copy {
        0 => frames(step),
        copy => format!("{}, client {copy}", frames(step)),
    }
}

/// Returns the number of steps with the same differences and the first of them, if there are any.
pub(super) fn similar_steps(mismatch: &StepMismatch) -> Option<String> {
    let StepMismatch { similar_steps, first_similar, .. } = mismatch;
    let first: Vec<_> = first_similar.iter().map(|similar| copy_frames(&similar.step, similar.copy)).collect();
    let ellipsis = if *similar_steps > first.len() as u64 { ", ..." } else { "" };
    (*similar_steps > 0)
        .then(|| format!("and {} like it: {}{ellipsis}", PluralCount(*similar_steps, "step"), first.join("; ")))
}

/// Returns the state from before the capture that the run created, as text.
pub(super) fn synthesized_text(synthesized: SynthesizedStateCounts) -> String {
    let counts =
        [(synthesized.clients, "client"), (synthesized.opens, "open")].into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, noun)| PluralCount(count, noun).to_string()).collect();
    format!("{}, from before the capture", counts.join(" and "))
}

#[cfg(test)]
mod tests {
    use nfsrdma_analysis::comparison::difference::{DifferenceKind, DifferenceSideValue};

    use super::*;

    /// Both values of a pair that another frame contradicts, in one sentence.
    #[test]
    fn contradicted_pair_is_one_sentence() {
        let side = |value: &str| DifferenceSideValue { location: None, frame: None, value: Some(value.to_owned()) };
        let text = |a: &str, b: &str| {
            difference_text(&Difference {
                kind: DifferenceKind::Identity,
                operation: "NFS 4.2 WRITE".to_owned(),
                path: "WRITE.writeverf".to_owned(),
                section: 0,
                field: "nfs.verifier4",
                count: 1,
                a: side(a),
                b: side(b),
            })
        };
        assert_eq!(
            text("verifier 0x1, unlike in frame 2656", "verifier 0x2, unlike in frame 2656"),
            "WRITE.writeverf: recorded verifier 0x1 is live verifier 0x2, unlike in frame 2656"
        );
        assert_eq!(
            text("verifier 0x1, unlike in frame 7", "verifier 0x2, unlike in frame 9"),
            "WRITE.writeverf: recorded verifier 0x1 is live verifier 0x2, unlike in frames 7 and 9"
        );
        assert_eq!(text("1", "2"), "WRITE.writeverf: recorded 1, live 2");
    }
}
