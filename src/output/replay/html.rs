//! Replay reports as one page of HTML, without external resources and scripts. Names from servers and captures are
//! escaped. The style supports light and dark schemes and small screens.

use std::fmt;
use std::io::{self, Write};

use nfsrdma_analysis::comparison::difference::Difference;
use nfsrdma_analysis::comparison::record_comparison::ComparedFieldAndByteCounts;
use nfsrdma_analysis::statistics::Latencies;
use nfsrdma_replay::run::final_tree_check::FinalTreeCheckReport;
use nfsrdma_replay::run::report::{
    ReplayReport, StepOutcomeReasonCount, StepResultsOfOperationType, SynthesizedStateCounts,
};
use nfsrdma_replay::seed::file_server_client::FileUserAndGroup;

use super::printable_report::{
    PrintableReplayReport, ReplayReportOrRefusal, STATES_WITH_REASONS, content_text, copy_frames, frames,
    mismatch_title, reason_text, similar_steps, synthesized_text, tree_differences, unchecked_paths,
};
use super::verdict::{ReplayVerdict, ReplayVerdictSeverity};
use crate::output::junit::XmlText;
use crate::output::style::Glyphs;
use crate::output::units::{EventRateText, HumanCount, HumanDuration, HumanSize, PluralCount};

/// Maximum number of differences shown per step.
const MAX_SHOWN_DIFFERENCES: usize = 20;
/// Number of points of a curve.
const CURVE_POINTS: u32 = 60;
/// Width and height of a curve.
const CURVE_SIZE: (f64, f64) = (168.0, 44.0);

const STYLE: &str = include_str!("page.css");

/// Untrusted text: escaped, and isolated in its direction, so that a name cannot reorder the text next to it.
struct HtmlText<'a>(&'a str);

impl fmt::Display for HtmlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", XmlText(self.0))
    }
}

fn time(nanoseconds: u64) -> HumanDuration {
    HumanDuration(nanoseconds, Glyphs::UNICODE)
}

/// Writes the page.
///
/// # Errors
/// Returns an error if writing fails.
pub(super) fn write(to: &mut impl Write, outcomes: &[ReplayReportOrRefusal<'_>]) -> io::Result<()> {
    let title = match outcomes {
        [ReplayReportOrRefusal::Report(report)] => format!("{} on {}", report.trace, report.server),
        [ReplayReportOrRefusal::Refused { trace, .. }] => (*trace).to_owned(),
        _ => format!("{} runs", outcomes.len()),
    };
    writeln!(
        to,
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{}</title>
<style>
{STYLE}</style>
</head>
<body>"#,
        XmlText(&title)
    )?;
    if outcomes.len() > 1 {
        writeln!(to, "<nav><h1>{}</h1><ul>", XmlText(&title))?;
        for (at, outcome) in outcomes.iter().enumerate() {
            let (trace, (class, text)) = match outcome {
                ReplayReportOrRefusal::Report(view) => (view.trace, class_and_text(view)),
                ReplayReportOrRefusal::Refused { trace, .. } => (*trace, ("bad", "not replayed".to_owned())),
            };
            writeln!(
                to,
                r##"<li><a href="#run-{at}">{}</a> <span class="outcome {class}">{text}</span></li>"##,
                HtmlText(trace)
            )?;
        }
        writeln!(to, "</ul></nav>")?;
    }
    for (at, outcome) in outcomes.iter().enumerate() {
        match outcome {
            ReplayReportOrRefusal::Report(view) => run(to, at, view)?,
            ReplayReportOrRefusal::Refused { trace, error } => refused(to, at, trace, error)?,
        }
    }
    writeln!(to, "<footer>nfsrdma-inspect {}</footer>\n</body>\n</html>", env!("CARGO_PKG_VERSION"))
}

/// Returns the CSS class of the outcome of a replay, and its description.
fn class_and_text(view: &PrintableReplayReport<'_>) -> (&'static str, String) {
    let ReplayVerdict { severity, text } = ReplayVerdict::of(view.report, view.min_coverage);
    let class = match severity {
        ReplayVerdictSeverity::Good => "good",
        ReplayVerdictSeverity::Incomplete => "fair",
        ReplayVerdictSeverity::Bad => "bad",
    };
    (class, text)
}

/// Writes a replay that could not begin.
fn refused(to: &mut impl Write, at: usize, trace: &str, error: &str) -> io::Result<()> {
    writeln!(to, r#"<main id="run-{at}">"#)?;
    writeln!(to, "<header><h1>{}</h1>", HtmlText(trace))?;
    writeln!(to, r#"<p class="outcome bad">not replayed</p></header>"#)?;
    writeln!(to, "<p>{}</p>", HtmlText(error))?;
    writeln!(to, "</main>")
}

fn run(to: &mut impl Write, at: usize, view: &PrintableReplayReport<'_>) -> io::Result<()> {
    let report = view.report;
    let (class, outcome) = class_and_text(view);
    writeln!(to, r#"<main id="run-{at}">"#)?;
    writeln!(to, "<header><h1>{}</h1>", HtmlText(view.trace))?;
    writeln!(to, "<p>replayed on {}</p>", HtmlText(&view.server.to_string()))?;
    writeln!(to, r#"<p class="outcome {class}">{outcome}</p></header>"#)?;
    states(to, report)?;
    write_run_facts(to, view)?;
    for fault in &report.protocol.own {
        writeln!(to, r#"<p class="outcome bad">{}</p>"#, HtmlText(fault))?;
    }
    mismatches(to, report)?;
    files(to, report)?;
    operations(to, report)?;
    reasons(to, report)?;
    writeln!(to, "</main>")
}

/// Writes the states as a bar, and their counts.
fn states(to: &mut impl Write, report: &ReplayReport) -> io::Result<()> {
    let state_counts = || {
        let counts = report.steps.states.iter().filter(|(_, steps)| *steps > 0);
        counts.map(|(state, steps)| (state.name(), steps))
    };
    writeln!(to, r#"<section><h2>{} steps</h2><div class="bar" aria-hidden="true">"#, HumanCount(report.steps.total))?;
    for (name, steps) in state_counts() {
        // A minimum width keeps small counts visible.
        let width = (steps as f64 * 1000.0 / report.steps.total.max(1) as f64).max(6.0);
        writeln!(to, r#"<i class="{name}" style="flex-grow:{width:.1}"></i>"#)?;
    }
    writeln!(to, r#"</div><ul class="states">"#)?;
    for (name, steps) in state_counts() {
        let percent = steps as f64 * 100.0 / report.steps.total.max(1) as f64;
        writeln!(
            to,
            r#"<li><i class="{name}"></i><b>{}</b> {name} <small>{percent:.1}%</small></li>"#,
            HumanCount(steps)
        )?;
    }
    writeln!(to, "</ul></section>")
}

fn write_run_facts(to: &mut impl Write, view: &PrintableReplayReport<'_>) -> io::Result<()> {
    let report = view.report;
    let elapsed = u64::try_from(report.timing.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let rate = |calls: u64, nanoseconds: u64| match nanoseconds {
        0 => "-".to_owned(),
        _ => format!("{} calls/s", EventRateText(calls as f64 * 1e9 / nanoseconds as f64)),
    };
    let ComparedFieldAndByteCounts { fields, data_bytes, .. } = report.compared;
    let seeded = view.seeded;
    let mut rows = vec![
        ("directory", HtmlText(view.directory).to_string()),
        ("seeded", format!("{}, {}", PluralCount(seeded.objects, "object"), HumanSize(seeded.bytes))),
        ("pace", view.pace.to_string()),
        ("run", format!("{} in {}, {}", PluralCount(report.calls, "call"), time(elapsed), rate(report.calls, elapsed))),
        (
            "recorded",
            format!("{}, {}", time(report.timing.recorded_ns), rate(report.steps.total, report.timing.recorded_ns)),
        ),
        ("connections", HumanCount(report.connections).to_string()),
        ("compared", format!("{}, {} of file data", PluralCount(fields, "field"), HumanSize(data_bytes))),
    ];
    if let Some(tree_check) = &report.tree_check {
        let FinalTreeCheckReport {
            names, objects, bytes, written_bytes, differing, left_out, tolerated, failed, ..
        } = tree_check;
        let mut text = format!(
            "{}, {}, {}: {}",
            PluralCount(*names, "name"),
            PluralCount(*objects, "object"),
            content_text(*bytes, *written_bytes),
            PluralCount(*differing, "difference")
        );
        if *left_out > 0 {
            text += &format!("; {} were not checked{}", HumanCount(*left_out), unchecked_paths(tree_check));
        }
        if *tolerated > 0 {
            text += &format!("; {} tolerated by rules", PluralCount(*tolerated, "attribute"));
        }
        if let Some(reason) = failed {
            text += &format!("; check incomplete: {}", HtmlText(reason));
        }
        rows.push(("files", text));
    }
    let lateness = &report.timing.issue_delay;
    if lateness.count() > 0 {
        let [p50, p99, latest] = [0.5, 0.99, 1.0].map(|quantile| time(lateness.quantile_ns(quantile)));
        rows.push(("issue times", format!("p50 {p50} late, p99 {p99}, latest {latest}")));
    }
    if report.synthesized != SynthesizedStateCounts::default() {
        rows.push(("synthesized", synthesized_text(report.synthesized)));
    }
    for (reason, count) in &report.protocol.discarded {
        let text = format!("{}: {reason}", PluralCount(*count, "message"));
        rows.push(("discarded", HtmlText(&text).to_string()));
    }
    let events = view.events().into_iter().filter(|(_, count)| *count > 0);
    rows.extend(events.map(|(name, count)| (name, HumanCount(count).to_string())));
    writeln!(to, "<section><h2>Run</h2><dl>")?;
    for (name, value) in rows {
        writeln!(to, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
    }
    writeln!(to, "</dl>")?;
    if let Some(error) = &report.callbacks.listen_error {
        writeln!(to, "<p>no callback listener: {}</p>", HtmlText(error))?;
    }
    for violation in report.protocol.violations.keys() {
        writeln!(to, "<p>the server broke the protocol: {}</p>", HtmlText(violation))?;
    }
    if let Some(FileUserAndGroup { user, group }) = &report.squashed {
        let [user, group] = [user, group].map(|name| HtmlText(name));
        writeln!(to, "<p>the export squashes root to user {user} and group {group}</p>")?;
    }
    for reason in view.early_end() {
        writeln!(to, "<p>{}</p>", HtmlText(&reason))?;
    }
    for refusal in &report.refused {
        writeln!(to, "<p>refused: {}</p>", HtmlText(refusal))?;
    }
    writeln!(to, "</section>")
}

fn mismatches(to: &mut impl Write, report: &ReplayReport) -> io::Result<()> {
    if report.mismatched() == 0 {
        return Ok(());
    }
    writeln!(to, r#"<section><h2>Mismatches</h2><div class="wide"><table class="differences">"#)?;
    writeln!(to, "<thead><tr><th>Where</th><th>Field</th><th>Recorded</th><th>Live</th></tr></thead>")?;
    for mismatch in &report.steps.mismatches {
        let count = mismatch.differences.len();
        let similar = similar_steps(mismatch).map_or_else(String::new, |similar| format!("<br>{similar}"));
        let shown_count = count.min(MAX_SHOWN_DIFFERENCES);
        writeln!(
            to,
            r#"<tbody><tr><th scope="rowgroup" rowspan="{}">{}<br><small>{}{similar}</small></th>"#,
            shown_count.max(1) + usize::from(count > shown_count),
            HtmlText(&mismatch_title(mismatch)),
            copy_frames(&mismatch.step, mismatch.copy)
        )?;
        for (at, difference) in mismatch.differences.iter().take(shown_count).enumerate() {
            let row_start = if at == 0 { "" } else { "<tr>" };
            writeln!(to, "{row_start}{}</tr>", HtmlDifferenceCells(difference))?;
        }
        if count > shown_count {
            writeln!(to, r#"<tr><td colspan="3">and {} more</td></tr>"#, HumanCount((count - shown_count) as u64))?;
        }
        writeln!(to, "</tbody>")?;
    }
    writeln!(to, "</table></div>")?;
    let unlisted = report.steps.unlisted_mismatches;
    if unlisted > 0 {
        let unlisted = HumanCount(unlisted);
        writeln!(to, "<p>And {unlisted} more steps with other differences; -c shows more of them.</p>")?;
    }
    writeln!(to, "</section>")
}

fn files(to: &mut impl Write, report: &ReplayReport) -> io::Result<()> {
    let Some(tree_check) = report.tree_check.as_ref().filter(|tree_check| tree_check.differing > 0) else {
        return Ok(());
    };
    writeln!(to, r#"<section><h2>Files that differ</h2><ul class="reasons">"#)?;
    for (path, difference) in tree_differences(tree_check) {
        writeln!(to, "<li><b>{}</b> {}</li>", HtmlText(path), HtmlText(&difference))?;
    }
    writeln!(to, "</ul>")?;
    let unlisted = tree_check.differing.saturating_sub(tree_check.mismatches.len() as u64);
    if unlisted > 0 {
        writeln!(to, "<p>And {} more; -c shows more of them.</p>", HumanCount(unlisted))?;
    }
    writeln!(to, "</section>")
}

/// Difference as three table cells.
struct HtmlDifferenceCells<'a>(&'a Difference);

impl fmt::Display for HtmlDifferenceCells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { kind, path, field, count: times, a, b, .. } = self.0;
        let location = if path.is_empty() { kind.word() } else { path };
        write!(f, r#"<td title="{}"><code>{}</code>"#, XmlText(field), HtmlText(location))?;
        if *times > 1 {
            write!(f, " <small>{} times</small>", HumanCount(*times))?;
        }
        write!(f, "</td>")?;
        for side in [a, b] {
            match &side.value {
                Some(value) => write!(f, "<td><code>{}</code></td>", HtmlText(value))?,
                None => write!(f, "<td>nothing</td>")?,
            }
        }
        Ok(())
    }
}

fn operations(to: &mut impl Write, report: &ReplayReport) -> io::Result<()> {
    writeln!(to, r#"<section><h2>Operations</h2>"#)?;
    let timed = || {
        report
            .steps
            .operations
            .values()
            .flat_map(|results| &results.latencies)
            .filter(|latencies| latencies.count() > 0)
    };
    let axis = HtmlLatencyAxis {
        from: timed().map(Latencies::min).min().unwrap_or(1),
        to: timed().map(Latencies::max).max().unwrap_or(1),
    };
    writeln!(
        to,
        r#"<p class="key"><span class="recorded">recorded</span> and <span class="live">live</span> latency; the curves show the cumulative share of answered calls, on one logarithmic axis from {} to {}</p><div class="wide"><table>
<thead><tr><th rowspan="2">Operation</th><th rowspan="2">Steps</th><th rowspan="2">Match</th><th rowspan="2">Timed</th><th colspan="2">Median</th><th colspan="2">99th percentile</th><th rowspan="2" class="curve">Latency</th></tr>
<tr><th class="recorded">recorded</th><th class="live">live</th><th class="recorded">recorded</th><th class="live">live</th></tr></thead><tbody>"#,
        time(axis.from),
        time(axis.to)
    )?;
    let mut rows: Vec<_> = report.steps.operations.iter().collect();
    rows.sort_by_key(|(_, results)| std::cmp::Reverse(results.states.total()));
    for (name, results) in rows {
        let StepResultsOfOperationType { states, latencies } = results;
        let class = if states.mismatched > 0 { r#" class="differs""# } else { "" };
        write!(
            to,
            r#"<tr{class}><th scope="row">{}</th><td>{}</td><td>{}</td><td>{}</td>"#,
            HtmlText(name),
            HumanCount(states.total()),
            HumanCount(report.agreeing(name)),
            HumanCount(latencies.iter().map(Latencies::count).max().unwrap_or(0))
        )?;
        for quantile in [0.5, 0.99] {
            for (distribution, class) in latencies.iter().zip(["recorded", "live"]) {
                match distribution.count() {
                    0 => write!(to, r#"<td class="{class}">-</td>"#)?,
                    _ => write!(to, r#"<td class="{class}">{}</td>"#, time(distribution.quantile(quantile)))?,
                }
            }
        }
        write!(to, "<td>")?;
        curves(to, latencies, &axis)?;
        writeln!(to, "</td></tr>")?;
    }
    writeln!(to, "</tbody></table></div></section>")
}

/// Shortest and longest latency of all operations, in nanoseconds.
struct HtmlLatencyAxis {
    from: u64,
    to: u64,
}

impl HtmlLatencyAxis {
    /// Returns the position of a latency on the logarithmic axis, from 0 to the width of a curve.
    fn x_position(&self, latency: u64) -> f64 {
        let log = |latency: u64| (latency.max(1) as f64).ln();
        let span = log(self.to) - log(self.from);
        if span <= 0.0 { CURVE_SIZE.0 / 2.0 } else { (log(latency) - log(self.from)) / span * CURVE_SIZE.0 }
    }
}

/// Writes the cumulative distributions of the recorded and live latencies.
fn curves(to: &mut impl Write, latencies: &[Latencies; 2], axis: &HtmlLatencyAxis) -> io::Result<()> {
    if latencies.iter().all(|distribution| distribution.count() == 0) {
        return Ok(());
    }
    let (width, height) = CURVE_SIZE;
    let label: Vec<_> = latencies
        .iter()
        .zip(["recorded", "live"])
        .filter(|(distribution, _)| distribution.count() > 0)
        .map(|(distribution, name)| format!("{name} {} to {}", time(distribution.min()), time(distribution.max())))
        .collect();
    write!(
        to,
        r#"<svg viewBox="-2 -2 {} {}" role="img" aria-label="{}"><path class="axis" d="M0 {height}H{width}"/>"#,
        width + 4.0,
        height + 4.0,
        label.join(", ")
    )?;
    // Ticks at powers of ten.
    let mut decade: u64 = 1_000;
    while decade < axis.to {
        if decade > axis.from {
            write!(to, r#"<path class="tick" d="M{:.1} 0V{height}"/>"#, axis.x_position(decade))?;
        }
        decade = decade.saturating_mul(10);
    }
    for (distribution, class) in
        latencies.iter().zip(["recorded", "live"]).filter(|(distribution, _)| distribution.count() > 0)
    {
        write!(to, r#"<path class="{class}" d="M{:.1} {height}"#, axis.x_position(distribution.min()))?;
        for point in 0..=CURVE_POINTS {
            let fraction = f64::from(point) / f64::from(CURVE_POINTS);
            let latency = if point == 0 { distribution.min() } else { distribution.quantile(fraction) };
            write!(to, "L{:.1} {:.1}", axis.x_position(latency), height * (1.0 - fraction))?;
        }
        write!(to, r#""/>"#)?;
    }
    write!(to, "</svg>")
}

fn reasons(to: &mut impl Write, report: &ReplayReport) -> io::Result<()> {
    for state in STATES_WITH_REASONS {
        let mut state_reasons: Vec<(&str, &StepOutcomeReasonCount)> = report
            .steps
            .reasons
            .iter()
            .filter(|((other, _), _)| *other == state)
            .map(|((_, reason), reason_count)| (reason.as_str(), reason_count))
            .collect();
        state_reasons.sort_by_key(|(_, reason_count)| std::cmp::Reverse(reason_count.steps));
        if state_reasons.is_empty() {
            continue;
        }
        let name = state.name();
        writeln!(to, r#"<section><h2><i class="{name}"></i>{name}: why</h2><ul class="reasons">"#)?;
        for (reason, reason_count) in state_reasons {
            let operations: Vec<_> = reason_count.operations.keys().take(6).map(String::as_str).collect();
            let first: Vec<_> = reason_count.first.iter().map(frames).collect();
            writeln!(
                to,
                "<li><b>{}</b> {}<br><small>{}; {}</small></li>",
                HumanCount(reason_count.steps),
                HtmlText(&reason_text(report, state, reason)),
                HtmlText(&operations.join(", ")),
                first.join("; ")
            )?;
        }
        writeln!(to, "</ul></section>")?;
    }
    Ok(())
}
