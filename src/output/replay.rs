//! Replay report as text, HTML, JSON and JUnit XML. The schema of the JSON is `docs/replay.schema.json`.

mod html;
mod verdict;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use nfsrdma_rpc::url::ServerUrl;
use serde::Serialize;

use super::json::object::{JsonArray, SCHEMA, json_object, write_json_line};
use super::junit;
use super::report::Report;
use super::style::{StyledText, TerminalProfile};
use verdict::{ReplayVerdict, ReplayVerdictSeverity};

use super::units::{HumanDuration, HumanSize, PluralCount};
use crate::escape;
use nfsrdma_analysis::comparison::difference::Difference;
use nfsrdma_analysis::comparison::record_comparison::ComparedFieldAndByteCounts;
use nfsrdma_analysis::statistics::Latencies;
use nfsrdma_replay::run::final_tree_check::FinalTreeCheckReport;
use nfsrdma_replay::run::options::ReplayPace;
use nfsrdma_replay::run::report::{
    CopyStepId, EarlyRunEnd, ReplayReport, StepIdWithFrames, StepMismatch, StepOutcomeReasonCount,
    StepResultsOfOperationType, SynthesizedStateCounts,
};
use nfsrdma_replay::run::{FinalStepState, StepCounts};
use nfsrdma_replay::seed::SeedCounts;
use nfsrdma_replay::seed::file_server_client::FileUserAndGroup;

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

/// Maximum number of differences shown per step.
const MAX_SHOWN_DIFFERENCES: usize = 4;
/// States whose reasons are shown: the step was not compared, or a difference was tolerated.
const STATES_WITH_REASONS: [FinalStepState; 4] = [
    FinalStepState::Unreplayable,
    FinalStepState::Skipped,
    FinalStepState::Substituted,
    FinalStepState::Tolerated,
];

fn frames(step: &StepIdWithFrames) -> String {
    match step.frames {
        [0, 0] => format!("step {}", step.step),
        [call, 0] => format!("frame {call}"),
        [0, reply] => format!("frame {reply} (Reply)"),
        [call, reply] => format!("frames {call} and {reply}"),
    }
}

fn difference_text(difference: &Difference) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    let path = if difference.path.is_empty() { difference.kind.word() } else { &difference.path };
    let times = if difference.count > 1 { format!(" ({} times)", difference.count) } else { String::new() };
    format!("{path}: recorded {}, live {}{times}", value(&difference.a.value), value(&difference.b.value))
}

/// Returns the differences that the final check found: each path with its description.
fn tree_differences(tree_check: &FinalTreeCheckReport) -> impl Iterator<Item = (&str, String)> {
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
fn content_text(bytes: u64, known_bytes: u64) -> String {
    match known_bytes {
        0 => "no known content".to_owned(),
        _ => format!("{} of {} of known content", HumanSize(bytes), HumanSize(known_bytes)),
    }
}

/// Returns the first paths that the final check left out, after a colon; empty if none is known.
fn unchecked_paths(tree_check: &FinalTreeCheckReport) -> String {
    let paths: Vec<&str> = tree_check.left_out_paths.iter().map(String::as_str).take(3).collect();
    let ellipsis = if tree_check.left_out > paths.len() as u64 { ", ..." } else { "" };
    if paths.is_empty() { String::new() } else { format!(": {}{ellipsis}", paths.join(", ")) }
}

fn first_frames(because: &StepOutcomeReasonCount) -> String {
    let frames: Vec<_> = because
        .first
        .iter()
        .map(|step| step.frames.iter().find(|frame| **frame > 0).copied().unwrap_or(0))
        .collect();
    frames.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns a reason; for a tolerance rule, with its explanation.
fn reason_text(report: &ReplayReport, state: FinalStepState, reason: &str) -> String {
    let explanation = report.steps.rules.get(reason).filter(|_| state == FinalStepState::Tolerated);
    explanation.map_or_else(|| reason.to_owned(), |explanation| format!("{reason}: {explanation}"))
}

/// Returns the frames of a step and, if there are several copies of the clients, the number of its copy.
fn copy_frames(step: &StepIdWithFrames, copy: u32) -> String {
    match copy {
        0 => frames(step),
        copy => format!("{}, client {copy}", frames(step)),
    }
}

/// Returns the number of steps with the same differences and the first of them, if there are any.
fn similar_steps(mismatch: &StepMismatch) -> Option<String> {
    let StepMismatch { similar_steps, first_similar, .. } = mismatch;
    let first: Vec<_> =
        first_similar.iter().map(|similar| copy_frames(&similar.step, similar.copy)).collect();
    let ellipsis = if *similar_steps > first.len() as u64 { ", ..." } else { "" };
    (*similar_steps > 0).then(|| {
        format!("and {} like it: {}{ellipsis}", PluralCount(*similar_steps, "step"), first.join("; "))
    })
}

fn difference_object(difference: &Difference) -> impl Serialize {
    json_object! {
        kind: difference.kind.word(),
        path: &difference.path,
        field: difference.field,
        times: difference.count,
        recorded: difference.a.value.as_deref(),
        live: difference.b.value.as_deref(),
    }
}

fn mismatch_objects(mismatches: &[StepMismatch]) -> impl Serialize {
    let similar_object = |similar: &CopyStepId| {
        json_object! {
            step: similar.step.step,
            client: similar.copy,
            call_frame: similar.step.frames[0],
            reply_frame: similar.step.frames[1],
        }
    };
    JsonArray(move || {
        mismatches.iter().map(move |mismatch| {
            json_object! {
                step: mismatch.step.step,
                client: mismatch.copy,
                call_frame: mismatch.step.frames[0],
                reply_frame: mismatch.step.frames[1],
                operation: &*mismatch.operation,
                differences: JsonArray(move || mismatch.differences.iter().map(difference_object)),
                similar_steps: mismatch.similar_steps,
                first_similar: JsonArray(move || mismatch.first_similar.iter().map(similar_object)),
            }
        })
    })
}

impl Report for PrintableReplayReport<'_> {
    fn text(&self, to: &mut impl Write) -> io::Result<()> {
        let ReplayReport { steps, timing, calls, .. } = self.report;
        let styles = self.screen.styles;
        let nanoseconds = u64::try_from(timing.elapsed.as_nanos()).unwrap_or(u64::MAX);
        let duration = |time| HumanDuration(time, self.screen.glyphs);
        writeln!(
            to,
            "{}",
            StyledText(
                styles.header,
                escape::display_line(format_args!("{} on {}", self.trace, self.server))
            )
        )?;
        writeln!(to, "  outcome       {}", ReplayVerdict::of(self.report, self.min_coverage).text)?;
        writeln!(to, "  directory     {}", self.directory)?;
        writeln!(
            to,
            "  seeded        {}, {} of content",
            PluralCount(self.seeded.objects, "object"),
            HumanSize(self.seeded.bytes)
        )?;
        writeln!(
            to,
            "  run           {} in {}, recorded {} (pace {})",
            PluralCount(*calls, "Call"),
            duration(nanoseconds),
            duration(self.report.timing.recorded_ns),
            self.pace
        )?;
        let lateness = &self.report.timing.issue_delay;
        if lateness.count() > 0 {
            let at = |quantile| duration(lateness.quantile_ns(quantile));
            writeln!(
                to,
                "  issue times   p50 {} late, p99 {}, latest {} ({})",
                at(0.5),
                at(0.99),
                at(1.0),
                PluralCount(lateness.count(), "Call")
            )?;
        }
        let parts = steps.states.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<_> = parts.map(|(state, count)| format!("{count} {}", state.name())).collect();
        writeln!(to, "  steps         {}: {}", steps.total, parts.join(", "))?;
        let ComparedFieldAndByteCounts { fields, data_bytes, .. } = self.report.compared;
        writeln!(
            to,
            "  compared      {}, {} of file data",
            PluralCount(fields, "field"),
            HumanSize(data_bytes)
        )?;
        if let Some(tree_check) = &self.report.tree_check {
            let FinalTreeCheckReport { names, objects, bytes, written_bytes, differing, .. } = tree_check;
            let [names, objects] =
                [(*names, "name"), (*objects, "object")].map(|(n, noun)| PluralCount(n, noun));
            writeln!(
                to,
                "  files         {names}, {objects}, {}: {}",
                content_text(*bytes, *written_bytes),
                PluralCount(*differing, "difference")
            )?;
            if tree_check.left_out > 0 {
                let (count, paths) =
                    (PluralCount(tree_check.left_out, "object"), unchecked_paths(tree_check));
                let text = escape::display_line(format_args!("not checked: {count}{paths}"));
                writeln!(to, "                {text}")?;
            }
            if tree_check.tolerated > 0 {
                let tolerated = PluralCount(tree_check.tolerated, "attribute");
                writeln!(to, "                {tolerated} tolerated by rules")?;
            }
            if let Some(reason) = &tree_check.failed {
                writeln!(to, "                check incomplete: {reason}")?;
            }
        }
        if self.report.synthesized != SynthesizedStateCounts::default() {
            writeln!(to, "  synthesized   {}", synthesized_text(self.report.synthesized))?;
        }
        for (event, count) in self.events() {
            if count > 0 {
                writeln!(to, "  {event:13} {count}")?;
            }
        }
        for (reason, count) in &self.report.protocol.discarded {
            writeln!(to, "  discarded     {}: {reason}", PluralCount(*count, "message"))?;
        }
        for (violation, count) in &self.report.protocol.violations {
            writeln!(to, "  violation     {violation}; {}", PluralCount(*count, "time"))?;
        }
        if let Some(error) = &self.report.callbacks.listen_error {
            writeln!(to, "  no callbacks  no callback listener: {error}")?;
        }
        if let Some(FileUserAndGroup { user, group }) = &self.report.squashed {
            writeln!(to, "  owners        the export squashes root to user {user} and group {group}")?;
        }
        for refusal in &self.report.refused {
            writeln!(to, "  refused       {refusal}")?;
        }
        for state in STATES_WITH_REASONS {
            let mut reasons: Vec<_> =
                self.report.steps.reasons.iter().filter(|((other, _), _)| *other == state).collect();
            reasons.sort_by_key(|(_, reason_count)| std::cmp::Reverse(reason_count.steps));
            if reasons.is_empty() {
                continue;
            }
            writeln!(to, "\n{}", StyledText(styles.header, state.name()))?;
            for ((_, reason), reason_count) in reasons {
                let operations: Vec<_> = reason_count.operations.keys().map(String::as_str).take(4).collect();
                writeln!(to, "{:>7}  {}", reason_count.steps, reason_text(self.report, state, reason))?;
                writeln!(to, "         {}; frames {}", operations.join(", "), first_frames(reason_count))?;
            }
        }
        if !self.report.steps.mismatches.is_empty() {
            writeln!(to, "\n{}", StyledText(styles.header, "mismatched"))?;
            for mismatch in &self.report.steps.mismatches {
                let StepMismatch { step, copy, operation, differences, .. } = mismatch;
                writeln!(to, "  {operation}, {}", copy_frames(step, *copy))?;
                if let Some(similar) = similar_steps(mismatch) {
                    writeln!(to, "    {similar}")?;
                }
                for difference in differences.iter().take(MAX_SHOWN_DIFFERENCES) {
                    writeln!(to, "    {}", difference_text(difference))?;
                }
                if differences.len() > MAX_SHOWN_DIFFERENCES {
                    writeln!(to, "    and {} more", differences.len() - MAX_SHOWN_DIFFERENCES)?;
                }
            }
            let unlisted = self.report.steps.unlisted_mismatches;
            if unlisted > 0 {
                writeln!(to, "  and {unlisted} more steps with other differences; -c shows more of them")?;
            }
        }
        self.files(to)?;
        let width = self.report.steps.operations.keys().map(String::len).max().unwrap_or(0).max(22);
        writeln!(
            to,
            "\n{}",
            StyledText(
                styles.header,
                format_args!("{:<width$} steps   agree    mean recorded        live", "operation")
            )
        )?;
        for (name, results) in &self.report.steps.operations {
            let StepResultsOfOperationType { states, latencies } = results;
            let latency = |at: usize| {
                let distribution = latencies.get(at).filter(|distribution| distribution.count() > 0);
                distribution
                    .map_or_else(|| "-".to_owned(), |distribution| duration(distribution.mean()).to_string())
            };
            let (total, agreeing) = (states.total(), states.agreeing());
            writeln!(
                to,
                "{name:<width$} {total:>5}   {agreeing:>5}   {:>14}  {:>10}",
                latency(0),
                latency(1)
            )?;
        }
        if let Some(Ok(recording)) = self.report.recording
            && recording.dropped_bytes > 0
        {
            let bytes = HumanSize(recording.dropped_bytes);
            writeln!(
                to,
                "\n{bytes} of file data in flight exceeded the buffer and are not in the recording."
            )?;
        }
        for reason in self.early_end() {
            writeln!(to, "\n{reason}")?;
        }
        Ok(())
    }

    fn json(&self, to: &mut impl Write) -> io::Result<()> {
        let report = self.report;
        let lateness = &report.timing.issue_delay;
        let discarded = report.protocol.discarded.iter();
        let discard_reasons: BTreeMap<_, _> =
            discarded.map(|(reason, count)| (reason.to_string(), count)).collect();
        let states = |states: &StepCounts| -> serde_json::Map<String, serde_json::Value> {
            states.iter().map(|(state, count)| (state.name().to_owned(), count.into())).collect()
        };
        let operations: serde_json::Map<_, _> = report
            .steps
            .operations
            .iter()
            .map(|(name, results)| {
                let mut value = states(&results.states);
                let timed = results.latencies.iter().map(Latencies::count).max().unwrap_or(0);
                value.insert("timed".to_owned(), timed.into());
                for (side, latencies) in ["recorded", "live"].iter().zip(&results.latencies) {
                    let has_any = latencies.count() > 0;
                    let mut insert = |key: String, number: u64| {
                        let number = if has_any { number.into() } else { serde_json::Value::Null };
                        value.insert(key, number);
                    };
                    insert(format!("{side}_latency_ns"), latencies.mean());
                    insert(format!("{side}_p50_ns"), latencies.quantile(0.5));
                    insert(format!("{side}_p99_ns"), latencies.quantile(0.99));
                }
                (name.clone(), value.into())
            })
            .collect();
        let json = json_object! {
            schema: SCHEMA,
            kind: "replay",
            trace: self.trace,
            server: self.server.to_string(),
            directory: self.directory,
            pace: self.pace.to_string(),
            steps: report.steps.total,
            states: states(&report.steps.states),
            calls: report.calls,
            connections: report.connections,
            delayed: report.delayed,
            disconnects: report.recovery.disconnects,
            reconnects: report.recovery.reconnects,
            resent: report.recovery.resent,
            rebound: report.recovery.rebound,
            recovered: report.recovery.recovered,
            reclaimed: report.recovery.reclaimed,
            not_reclaimed: report.recovery.not_reclaimed,
            contexts_renewed: report.recovery.contexts_renewed,
            contexts_destroyed: report.recovery.contexts_destroyed,
            discarded: report.protocol.discarded_messages(),
            discard_reasons: discard_reasons,
            violations: &report.protocol.violations,
            callbacks: &report.callbacks.by_operation,
            unanswered: report.callbacks.unanswered,
            no_callbacks: report.callbacks.listen_error.as_deref(),
            returned: report.returned_delegations,
            elapsed_ns: u64::try_from(report.timing.elapsed.as_nanos()).unwrap_or(u64::MAX),
            recorded_ns: report.timing.recorded_ns,
            lateness: (lateness.count() > 0).then(|| {
                json_object! {
                    calls: lateness.count(),
                    p50_ns: lateness.quantile_ns(0.5),
                    p99_ns: lateness.quantile_ns(0.99),
                    max_ns: lateness.max_ns(),
                }
            }),
            synthesized: report.synthesized.clients + report.synthesized.opens,
            synthesized_opens: report.synthesized.opens,
            compared_fields: report.compared.fields,
            compared_bytes: report.compared.data_bytes,
            seeded_objects: self.seeded.objects,
            seeded_bytes: self.seeded.bytes,
            interrupted: report.end.is_interrupted,
            time_limit_ns: report.end.limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
            unreachable: report.end.unreachable.as_deref(),
            silent_program: report.end.silent_program.as_deref(),
            squashed_root: report.squashed.as_ref().map(|FileUserAndGroup { user, group }| {
                json_object! { user: user, group: group }
            }),
            refused: &report.refused,
            dropped_values: report.dropped_values,
            recorded_steps: report.recording.as_ref().and_then(|recording| recording.as_ref().ok()).map(|recording| recording.steps),
            own_faults: &report.protocol.own,
            reasons: JsonArray(|| {
                report.steps.reasons.iter().map(|((state, reason), reason_count)| {
                    json_object! {
                        state: state.name(),
                        reason: reason,
                        steps: reason_count.steps,
                        operations: &reason_count.operations,
                        frames: JsonArray(|| reason_count.first.iter().map(|step| step.frames)),
                    }
                })
            }),
            mismatches: mismatch_objects(&report.steps.mismatches),
            unlisted_mismatches: report.steps.unlisted_mismatches,
            walk: report.tree_check.as_ref().map(|tree_check| {
                json_object! {
                    names: tree_check.names,
                    objects: tree_check.objects,
                    tolerated: tree_check.tolerated,
                    bytes: tree_check.bytes,
                    written_bytes: tree_check.written_bytes,
                    left_out: tree_check.left_out,
                    differing: tree_check.differing,
                    failed: tree_check.failed.as_deref(),
                    mismatches: mismatch_objects(&tree_check.mismatches),
                    left_out_paths: &tree_check.left_out_paths,
                }
            }),
            operations: operations,
        };
        write_json_line(to, &json)
    }
}

impl PrintableReplayReport<'_> {
    fn files(&self, to: &mut impl Write) -> io::Result<()> {
        let Some(tree_check) = self.report.tree_check.as_ref().filter(|tree_check| tree_check.differing > 0)
        else {
            return Ok(());
        };
        writeln!(to, "\n{}", StyledText(self.screen.styles.header, "files that differ"))?;
        for (path, difference) in tree_differences(tree_check) {
            writeln!(to, "  {path}: {difference}")?;
        }
        let unlisted = tree_check.differing.saturating_sub(tree_check.mismatches.len() as u64);
        if unlisted > 0 {
            writeln!(to, "  and {unlisted} more; -c shows more of them")?;
        }
        Ok(())
    }

    /// Returns the reasons why the run ended before its last step.
    fn early_end(&self) -> Vec<String> {
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

    fn events(&self) -> [(&'static str, u64); 13] {
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

    fn cases(&self) -> Vec<junit::JunitTestCase<'_>> {
        let failure = |message, lines| junit::JunitFailure { kind: "mismatched".into(), message, lines };
        let tree_case = self.report.tree_check.as_ref().map(|tree_check| {
            let lines = tree_differences(tree_check)
                .take(junit::MAX_SHOWN_DIFFERENCES)
                .map(|(path, difference)| format!("{path}: {difference}"))
                .collect();
            let differing = (tree_check.differing > 0).then(|| {
                failure(format!("{} in the files", PluralCount(tree_check.differing, "difference")), lines)
            });
            let unfinished = || {
                let reason = tree_check.failed.clone()?;
                Some(failure("the final check was not completed".to_owned(), vec![reason]))
            };
            junit::JunitTestCase {
                name: "files",
                error: None,
                failure: differing.or_else(unfinished),
                skipped: None,
                time_ns: 0,
            }
        });
        let operations = self.report.steps.operations.iter().map(|(name, results)| {
            let StepCounts { mismatched, skipped, unreplayable, .. } = results.states;
            let total = results.states.total();
            let mismatches =
                self.report.steps.mismatches.iter().filter(|mismatch| mismatch.operation == *name);
            let mut lines = Vec::new();
            for mismatch in mismatches.take(junit::MAX_SHOWN_DIFFERENCES) {
                for difference in mismatch.differences.iter().take(MAX_SHOWN_DIFFERENCES) {
                    lines.push(format!("{}: {}", frames(&mismatch.step), difference_text(difference)));
                }
            }
            let failure =
                (mismatched > 0).then(|| failure(format!("{mismatched} of {total} steps differ"), lines));
            let is_skipped = mismatched == 0 && skipped + unreplayable == total && total > 0;
            let skipped = is_skipped.then(|| "no step was replayed".to_owned());
            junit::JunitTestCase { name, error: None, failure, skipped, time_ns: results.latencies[1].sum() }
        });
        let verdict = ReplayVerdict::of(self.report, self.min_coverage);
        let is_elsewhere = self.report.mismatched() > 0
            || self
                .report
                .tree_check
                .as_ref()
                .is_some_and(|check| check.differing > 0 || check.failed.is_some());
        let failure = (verdict.severity != ReplayVerdictSeverity::Good && !is_elsewhere).then(|| {
            let violations = self.report.protocol.violations.keys();
            let end = &self.report.end;
            let end_reasons = [&end.unreachable, &end.silent_program].into_iter().flatten();
            let lines = self.report.protocol.own.iter().chain(violations).chain(end_reasons).cloned();
            failure(verdict.text, lines.take(junit::MAX_SHOWN_DIFFERENCES).collect())
        });
        let run = junit::JunitTestCase { name: "run", error: None, failure, skipped: None, time_ns: 0 };
        operations.chain(tree_case).chain([run]).collect()
    }
}

/// Returns the state from before the capture that the run created, as text.
fn synthesized_text(synthesized: SynthesizedStateCounts) -> String {
    let counts = [(synthesized.clients, "client"), (synthesized.opens, "open")]
        .into_iter()
        .filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, noun)| PluralCount(count, noun).to_string()).collect();
    format!("{}, from before the capture", counts.join(" and "))
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

impl ReplayReportOrRefusal<'_> {
    /// Writes several outcomes as one page of HTML.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn html(outcomes: &[Self], to: &mut impl Write) -> io::Result<()> {
        html::write(to, outcomes)
    }

    /// Writes several outcomes as JUnit XML: a suite per outcome, a case per operation. A replay that could not begin
    /// has one case, with the error.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn junit(outcomes: &[Self], to: &mut impl Write, started: SystemTime) -> io::Result<()> {
        let suites: Vec<_> = outcomes.iter().map(Self::suite).collect();
        junit::write_suites(to, &suites, started, "not-replayed")
    }

    fn suite(&self) -> junit::JunitTestSuite<'_> {
        match self {
            Self::Report(view) => junit::JunitTestSuite {
                name: view.trace,
                properties: Some(vec![("directory", view.directory)]),
                elapsed: view.report.timing.elapsed,
                cases: view.cases(),
            },
            Self::Refused { trace, error } => junit::JunitTestSuite {
                name: trace,
                properties: Some(Vec::new()),
                elapsed: Duration::ZERO,
                cases: vec![junit::JunitTestCase {
                    name: junit::CAPTURE_CASE,
                    error: Some(error),
                    failure: None,
                    skipped: None,
                    time_ns: 0,
                }],
            },
        }
    }
}
