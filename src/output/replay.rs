//! Replay report as text, HTML, JSON and JUnit XML. The schema of the JSON is `docs/replay.schema.json`.

mod html;
pub mod printable_report;
mod verdict;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use nfsrdma_analysis::comparison::difference::Difference;
use nfsrdma_analysis::comparison::record_comparison::ComparedFieldAndByteCounts;
use nfsrdma_analysis::statistics::Latencies;
use nfsrdma_replay::run::StepCounts;
use nfsrdma_replay::run::final_tree_check::FinalTreeCheckReport;
use nfsrdma_replay::run::report::{
    CopyStepId, ReplayReport, StepMismatch, StepOutcomeReasonCount, StepResultsOfOperationType, SynthesizedStateCounts,
};
use nfsrdma_replay::seed::file_server_client::FileUserAndGroup;
use serde::Serialize;

use super::baseline_report::reason_without_file;
use super::json::object::{JsonArray, SCHEMA, json_object, write_json_line};
use super::junit;
use super::report::Report;
use super::style::StyledText;
use super::units::{HumanDuration, HumanSize, PluralCount};
use crate::escape;
use printable_report::{
    PrintableReplayReport, ReplayReportOrRefusal, STATES_WITH_REASONS, content_text, copy_frames, difference_text,
    frames, mismatch_title, reason_text, similar_steps, synthesized_text, tree_differences, unchecked_paths,
};
use verdict::{ReplayVerdict, ReplayVerdictSeverity};

/// Maximum number of differences shown per step.
const MAX_SHOWN_DIFFERENCES: usize = 4;
fn first_frames(because: &StepOutcomeReasonCount) -> String {
    let frames: Vec<_> =
        because.first.iter().map(|step| step.frames.iter().find(|frame| **frame > 0).copied().unwrap_or(0)).collect();
    frames.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
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
                file: mismatch.file.as_deref(),
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
            StyledText(styles.header, escape::display_line(format_args!("{} on {}", self.trace, self.server)))
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
            PluralCount(*calls, "call"),
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
                PluralCount(lateness.count(), "call")
            )?;
        }
        let parts = steps.states.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<_> = parts.map(|(state, count)| format!("{count} {}", state.name())).collect();
        writeln!(to, "  steps         {}: {}", steps.total, parts.join(", "))?;
        let ComparedFieldAndByteCounts { fields, data_bytes, .. } = self.report.compared;
        writeln!(to, "  compared      {}, {} of file data", PluralCount(fields, "field"), HumanSize(data_bytes))?;
        if let Some(tree_check) = &self.report.tree_check {
            let FinalTreeCheckReport { names, objects, bytes, written_bytes, differing, .. } = tree_check;
            let [names, objects] = [(*names, "name"), (*objects, "object")].map(|(n, noun)| PluralCount(n, noun));
            writeln!(
                to,
                "  files         {names}, {objects}, {}: {}",
                content_text(*bytes, *written_bytes),
                PluralCount(*differing, "difference")
            )?;
            if tree_check.left_out > 0 {
                let (count, paths) = (PluralCount(tree_check.left_out, "object"), unchecked_paths(tree_check));
                let reason = match tree_check.in_flight {
                    0 => String::new(),
                    count if count == tree_check.left_out => " (in flight when the capture ended)".to_owned(),
                    count => format!(" ({count} by calls in flight when the capture ended)"),
                };
                let text = escape::display_line(format_args!("not checked: {count}{paths}{reason}"));
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
        if self.report.missing_calls > 0 {
            let missing = PluralCount(self.report.missing_calls, "call");
            writeln!(to, "  missing       at least {missing} of the capture: what they changed is unknown")?;
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
                let StepMismatch { step, copy, differences, .. } = mismatch;
                let title = escape::display_line(format_args!("{}", mismatch_title(mismatch)));
                writeln!(to, "  {title}, {}", copy_frames(step, *copy))?;
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
                distribution.map_or_else(|| "-".to_owned(), |distribution| duration(distribution.mean()).to_string())
            };
            let (total, agreeing) = (states.total(), self.report.agreeing(name));
            writeln!(to, "{name:<width$} {total:>5}   {agreeing:>5}   {:>14}  {:>10}", latency(0), latency(1))?;
        }
        if let Some(Ok(recording)) = self.report.recording
            && recording.dropped_bytes > 0
        {
            let bytes = HumanSize(recording.dropped_bytes);
            writeln!(to, "\n{bytes} of file data in flight exceeded the buffer and are not in the recording.")?;
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
        let discard_reasons: BTreeMap<_, _> = discarded.map(|(reason, count)| (reason.to_string(), count)).collect();
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
            missing_calls: report.missing_calls,
            calls_in_flight: report.calls_in_flight,
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
                    in_flight: tree_check.in_flight,
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
        let Some(tree_check) = self.report.tree_check.as_ref().filter(|tree_check| tree_check.differing > 0) else {
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

    fn cases(&self) -> Vec<junit::JunitTestCase<'_>> {
        let failure = |message, lines| junit::JunitFailure { kind: "mismatched".into(), message, lines };
        let tree_case = self.report.tree_check.as_ref().map(|tree_check| {
            let lines = tree_differences(tree_check)
                .take(junit::MAX_SHOWN_DIFFERENCES)
                .map(|(path, difference)| format!("{path}: {difference}"))
                .collect();
            let differing = (tree_check.differing > 0)
                .then(|| failure(format!("{} in the files", PluralCount(tree_check.differing, "difference")), lines));
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
            let mismatched = results.states.mismatched;
            let total = results.states.total();
            let mismatches = self.report.steps.mismatches.iter().filter(|mismatch| mismatch.operation == *name);
            let mut lines = Vec::new();
            for mismatch in mismatches.take(junit::MAX_SHOWN_DIFFERENCES) {
                for difference in mismatch.differences.iter().take(MAX_SHOWN_DIFFERENCES) {
                    let file = mismatch.file.as_ref().map_or_else(String::new, |file| format!("{file}, "));
                    lines.push(format!("{file}{}: {}", frames(&mismatch.step), difference_text(difference)));
                }
            }
            let failure = (mismatched > 0).then(|| failure(format!("{mismatched} of {total} steps differ"), lines));
            let is_skipped = mismatched == 0 && self.report.agreeing(name) == 0 && total > 0;
            let skipped = is_skipped.then(|| "no step was replayed".to_owned());
            junit::JunitTestCase { name, error: None, failure, skipped, time_ns: results.latencies[1].sum() }
        });
        let verdict = ReplayVerdict::of(self.report, self.min_coverage);
        let is_elsewhere = self.report.mismatched() > 0
            || self.report.tree_check.as_ref().is_some_and(|check| check.differing > 0 || check.failed.is_some());
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

impl ReplayReportOrRefusal<'_> {
    /// Writes one line per outcome: verdict, capture, coverage, and the first difference with its path.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn summary_lines(outcomes: &[Self], to: &mut impl Write) -> io::Result<()> {
        for outcome in outcomes {
            let line = match outcome {
                Self::Report(view) => view.summary_line(),
                Self::Refused { trace, error } => {
                    format!("{:<10}  {trace}  {}", "ERROR", reason_without_file(error, trace))
                }
            };
            writeln!(to, "{}", escape::display_line(format_args!("{line}")))?;
        }
        Ok(())
    }

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
