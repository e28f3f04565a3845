//! Conformance findings as text, JSON Lines and JUnit XML.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use nfsrdma_analysis::conformance::report::{ConformanceFindingsReport, RuleFindings};
use nfsrdma_conformance::{
    Finding, FindingGranularity, RULES, ReportedFindingSeverity, RequiredCaptureEvidence, Rule, RuleTally,
};
use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::json::line::address;
use super::json::object::{JsonArray, SCHEMA, json_object, write_json_line};
use super::junit::{CAPTURE_CASE, JunitFailure, JunitTestCase, JunitTestSuite, write_suites};
use super::style::{StyledText, TerminalProfile, wrap_words};
use super::units::{HumanCount, PluralCount};
use crate::escape;

/// Number of findings of a severity: `2 errors`, `4,309 info`.
pub(super) struct SeverityCount(pub(super) ReportedFindingSeverity, pub(super) u64);

impl fmt::Display for SeverityCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(severity, count) = *self;
        match severity {
            ReportedFindingSeverity::Error | ReportedFindingSeverity::Warning => {
                PluralCount(count, severity.name()).fmt(f)
            }
            ReportedFindingSeverity::Known | ReportedFindingSeverity::Info => {
                write!(f, "{} {}", HumanCount(count), severity.name())
            }
        }
    }
}

/// Writes the JSON line of kind `finding`. `is_first` marks the first violation for a finding about a connection, whose
/// line with all violations follows at the end.
///
/// # Errors
/// Returns an error if writing fails.
pub fn json_line(to: &mut impl Write, finding: &Finding, is_first: bool) -> io::Result<()> {
    let object = json_object! {
        schema: SCHEMA,
        kind: "finding",
        rule: finding.rule.id,
        severity: finding.severity.name(),
        #[serde(flatten)]
        known: finding.known.as_deref().map(|known| json_object! { known: known }),
        section: finding.rule.section,
        text: &finding.text,
        side: finding.side.to_string(),
        address: address(finding.endpoint().address),
        connection: finding.connection.number,
        transaction: finding.transaction,
        xid: finding.xid.map(|xid| xid.to_string()),
        count: finding.count,
        #[serde(flatten)]
        first: is_first.then(|| json_object! { first: true }),
        frames: JsonArray(|| finding.frames.iter().map(|frame| frame.0)),
        time: finding.time.to_string(),
    };
    write_json_line(to, &object)
}

/// Writes the JSON line of kind `lint-summary`.
///
/// # Errors
/// Returns an error if writing fails.
pub fn json_summary(to: &mut impl Write, report: &ConformanceFindingsReport) -> io::Result<()> {
    let rule_object = |(rule, tally): &(&Rule, RuleTally)| {
        json_object! {
            rule: rule.id,
            severity: rule.severity.name(),
            findings: tally.findings,
            judged: tally.judged,
            not_judged: tally.not_judged,
        }
    };
    let object = json_object! {
        schema: SCHEMA,
        kind: "lint-summary",
        frames: report.frames,
        transactions: report.transactions,
        denied: report.denied(),
        severities: json_object! {
            error: report.count(ReportedFindingSeverity::Error),
            warning: report.count(ReportedFindingSeverity::Warning),
            known: report.count(ReportedFindingSeverity::Known),
            info: report.count(ReportedFindingSeverity::Info),
        },
        rules: JsonArray(|| report.tallies.iter().map(rule_object)),
    };
    write_json_line(to, &object)
}

/// Writes the JSON lines of kind `rule`, by group.
///
/// # Errors
/// Returns an error if writing fails.
pub fn json_rules(to: &mut impl Write, rules: &[&'static Rule]) -> io::Result<()> {
    for rule in by_group(rules) {
        let object = json_object! {
            schema: SCHEMA,
            kind: "rule",
            rule: rule.id,
            severity: rule.severity.name(),
            section: rule.section,
            requirement: rule.requirement,
            explanation: rule.explanation,
            needs: JsonArray(|| rule.needs.iter().map(|needed| needed.description())),
        };
        write_json_line(to, &object)?;
    }
    Ok(())
}

/// Formats frames: `frame 595`, `frames 12, 14, …`.
fn frames_text(frames: &[FrameNumber], ellipsis: &str) -> String {
    const MAX_SHOWN: usize = 4;
    let mut text = String::from(if frames.len() == 1 { "frame " } else { "frames " });
    for (at, frame) in frames.iter().take(MAX_SHOWN).enumerate() {
        let _ = write!(text, "{}{frame}", if at > 0 { ", " } else { "" });
    }
    if frames.len() > MAX_SHOWN {
        let _ = write!(text, ", {ellipsis}");
    }
    text
}

/// Formats a finding in one line, without its rule; `has_count` adds the number of its violations.
fn finding_text(finding: &Finding, has_count: bool, screen: &TerminalProfile) -> String {
    let mut text = frames_text(&finding.frames, screen.glyphs.cut);
    if let Some(xid) = finding.xid {
        let _ = write!(text, "  xid {xid}");
    }
    let _ = write!(
        text,
        "  {} {}, connection {}: {}",
        finding.side,
        address(finding.endpoint().address).map(|address| address.0.to_string()).unwrap_or_default(),
        finding.connection.number,
        finding.text
    );
    if has_count && finding.count > 1 {
        let _ = write!(text, " ({})", PluralCount(finding.count, "time"));
    }
    text
}

/// Minimum width in columns of lines on a terminal.
const MIN_WIDTH: usize = 40;

/// Writes a line, indented by `indent` columns. On a terminal, it continues two columns further to the right.
fn write_wrapped(to: &mut impl Write, indent: usize, line: &str, screen: &TerminalProfile) -> io::Result<()> {
    let line = escape::escape_line(line);
    let Some(width) = screen.width else { return writeln!(to, "{:indent$}{line}", "") };
    let width = width.max(MIN_WIDTH).saturating_sub(indent + CONTINUATION_INDENT);
    for (at, wrapped_line) in wrap_words(&line, width).iter().enumerate() {
        let indent = indent + if at > 0 { CONTINUATION_INDENT } else { 0 };
        writeln!(to, "{:indent$}{wrapped_line}", "")?;
    }
    Ok(())
}

/// Columns by which the rest of a long line is indented further.
const CONTINUATION_INDENT: usize = 2;

fn severity_style(severity: ReportedFindingSeverity, screen: &TerminalProfile) -> anstyle::Style {
    match severity {
        ReportedFindingSeverity::Error => screen.styles.error,
        ReportedFindingSeverity::Warning => screen.styles.mark,
        ReportedFindingSeverity::Known | ReportedFindingSeverity::Info => screen.styles.dim,
    }
}

/// Writes a finding as one line, for live captures.
///
/// # Errors
/// Returns an error if writing fails.
pub fn text_line(to: &mut impl Write, finding: &Finding, screen: &TerminalProfile) -> io::Result<()> {
    let severity = finding.severity.name();
    let line = format!("{severity:<7}  {}  {}", finding.rule.id, finding_text(finding, true, screen));
    write_wrapped(to, 0, &line, screen)
}

/// Writes the findings by rule, and the totals.
///
/// # Errors
/// Returns an error if writing fails.
pub fn text(to: &mut impl Write, report: &ConformanceFindingsReport, screen: &TerminalProfile) -> io::Result<()> {
    for of_rule in report.rules() {
        write_rule(to, of_rule, screen)?;
    }
    write_totals(to, report, screen)
}

fn write_rule(to: &mut impl Write, rule_findings: &RuleFindings, screen: &TerminalProfile) -> io::Result<()> {
    let RuleFindings { rule, severity, count, first, .. } = rule_findings;
    let name = severity.name();
    writeln!(
        to,
        "{:<7}  {}  {}",
        StyledText(severity_style(*severity, screen), name),
        StyledText(screen.styles.operation, rule.id),
        PluralCount(*count, counted_noun(rule)),
    )?;
    write_wrapped(to, 9, &format!("{} ({})", rule.requirement, rule.section), screen)?;
    let mut deviations: Vec<&str> = first.iter().filter_map(|finding| finding.known.as_deref()).collect();
    deviations.sort_unstable();
    deviations.dedup();
    for deviation in deviations {
        write_wrapped(to, 9, &format!("Known deviation: {deviation}."), screen)?;
    }
    for finding in first {
        write_wrapped(to, 11, &finding_text(finding, first.len() > 1, screen), screen)?;
    }
    let shown_count: u64 = first.iter().map(|finding| finding.count).sum();
    if count > &shown_count {
        writeln!(to, "           and {} more; -c shows more", HumanCount(count - shown_count))?;
    }
    writeln!(to)
}

/// Returns the noun for what a rule counts: a finding about a connection has the number of its violations, or of
/// observations, which break nothing.
fn counted_noun(rule: &Rule) -> &'static str {
    match rule.scope {
        FindingGranularity::Each => "finding",
        FindingGranularity::Connection if rule.requirement.starts_with("Observation") => "observation",
        FindingGranularity::Connection => "violation",
    }
}

fn write_totals(to: &mut impl Write, report: &ConformanceFindingsReport, screen: &TerminalProfile) -> io::Result<()> {
    let findings: Vec<String> = { ReportedFindingSeverity::ALL.into_iter() }
        .map(|severity| (severity, report.count(severity)))
        .filter(|(_, count)| *count > 0)
        .map(|(severity, count)| SeverityCount(severity, count).to_string())
        .collect();
    let findings = if findings.is_empty() { "no findings".to_owned() } else { findings.join(", ") };
    writeln!(
        to,
        "{findings} in {} and {}",
        PluralCount(report.transactions, "transaction"),
        PluralCount(report.frames, "frame")
    )?;
    let judged_rules = report.tallies.iter().filter(|(_, tally)| tally.judged > 0).count() as u64;
    let judgements: u64 = report.tallies.iter().map(|(_, tally)| tally.judged).sum();
    let not_judged: u64 = report.tallies.iter().map(|(_, tally)| tally.not_judged).sum();
    let lacks_evidence = |tally: &&(&Rule, RuleTally)| tally.1.not_judged > 0;
    let lacking = report.tallies.iter().filter(lacks_evidence).count() as u64;
    let never_judged =
        report.tallies.iter().filter(lacks_evidence).filter(|(_, tally)| tally.judged == 0).count() as u64;
    let idle = report.tallies.len() as u64 - judged_rules - never_judged;
    let mut line = format!(
        "{} judged {}; {} did not apply",
        PluralCount(judged_rules, "rule"),
        PluralCount(judgements, "time"),
        PluralCount(idle, "rule"),
    );
    if not_judged > 0 {
        let not_judged = PluralCount(not_judged, "judgement");
        let rules = PluralCount(lacking, "rule");
        let _ = write!(line, "; {not_judged} by {rules} lacked evidence (set-up not captured, loss or truncation)");
    }
    if never_judged > 0 {
        let _ = write!(line, ", for {} in every case", PluralCount(never_judged, "rule"));
    }
    if report.has_unchecked_icrcs {
        line.push_str("; transport/icrc needs --check-icrc");
    }
    write_wrapped(to, 0, &line, screen)
}

/// Returns the rules of each group together.
fn by_group(rules: &[&'static Rule]) -> Vec<&'static Rule> {
    let first = |other: &Rule| rules.iter().position(|rule| rule.group() == other.group());
    let mut sorted = rules.to_vec();
    sorted.sort_by_key(|rule| first(rule));
    sorted
}

/// Writes one line per rule, by group: id, severity, section and needed evidence.
///
/// # Errors
/// Returns an error if writing fails.
pub fn list(to: &mut impl Write, rules: &[&'static Rule]) -> io::Result<()> {
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    for rule in by_group(rules) {
        let needs: Vec<&str> = rule.needs.iter().map(|needed| needed.description()).collect();
        let needs = if needs.is_empty() { String::new() } else { format!("  needs {}", needs.join(", ")) };
        writeln!(to, "{:<width$}  {:<7}  {}{needs}", rule.id, rule.severity.name(), rule.section)?;
    }
    Ok(())
}

/// Returns the rules as tables in Markdown, one per group.
pub fn documentation() -> String {
    let mut text = String::new();
    let mut groups: Vec<&str> = Vec::new();
    for rule in RULES {
        if !groups.contains(&rule.group()) {
            groups.push(rule.group());
        }
    }
    for group in groups {
        let _ = write!(text, "\n### {group}\n| rule | severity | requirement | section |\n|---|---|---|---|\n");
        for rule in RULES.iter().filter(|rule| rule.group() == group) {
            let Rule { id, severity, requirement, section, .. } = rule;
            let _ = writeln!(text, "| `{id}` | {} | {requirement} | {section} |", severity.name());
        }
    }
    text
}

/// Writes the explanations of rules, by group, in lines of at most `width` columns.
///
/// # Errors
/// Returns an error if writing fails.
pub fn explain(to: &mut impl Write, rules: &[&'static Rule], width: usize) -> io::Result<()> {
    for (number, rule) in by_group(rules).into_iter().enumerate() {
        if number > 0 {
            writeln!(to)?;
        }
        explain_rule(to, rule, width)?;
    }
    Ok(())
}

fn explain_rule(to: &mut impl Write, rule: &Rule, width: usize) -> io::Result<()> {
    writeln!(to, "{} ({}), {}", rule.id, rule.severity.name(), rule.section)?;
    for paragraph in [rule.requirement, rule.explanation] {
        writeln!(to)?;
        for line in wrap_words(paragraph, width) {
            writeln!(to, "{line}")?;
        }
    }
    if !rule.needs.is_empty() {
        writeln!(to, "\nEvidence required:")?;
        for needed in rule.needs {
            writeln!(to, "  {}", needed.description())?;
        }
    }
    Ok(())
}

/// Returns `true` for a rule that is judged only if ICRCs are checked.
fn is_icrc_rule(rule: &Rule) -> bool {
    rule.needs.contains(&RequiredCaptureEvidence::CheckedIcrc)
}

/// Writes a JUnit report: a suite per group of rules, a case per rule. A rule with denied findings fails; a rule that
/// was never judged is skipped.
///
/// # Errors
/// Returns an error if writing fails.
pub fn junit(
    to: &mut impl Write,
    report: &ConformanceFindingsReport,
    errors: &[String],
    screen: &TerminalProfile,
    started: SystemTime,
) -> io::Result<()> {
    let mut suites: Vec<JunitTestSuite<'_>> = Vec::new();
    let unreadable =
        |error| JunitTestCase { name: CAPTURE_CASE, error: Some(error), failure: None, skipped: None, time_ns: 0 };
    if !errors.is_empty() {
        suites.push(JunitTestSuite {
            name: CAPTURE_CASE,
            properties: Some(Vec::new()),
            elapsed: Duration::ZERO,
            cases: errors.iter().map(|error| unreadable(error)).collect(),
        });
    }
    for (rule, tally) in &report.tallies {
        let group = rule.group();
        let denied =
            || report.rules().filter(|rule_findings| rule_findings.rule.id == rule.id && rule_findings.denied > 0);
        let count: u64 = denied().map(|rule_findings| rule_findings.denied).sum();
        let lines =
            denied().flat_map(|rule_findings| &rule_findings.first).map(|finding| finding_text(finding, true, screen));
        let failure = (count > 0).then(|| JunitFailure {
            kind: "finding".into(),
            message: format!("{}: {}", PluralCount(count, counted_noun(rule)), rule.requirement),
            lines: lines.collect(),
        });
        let skipped = (tally.judged == 0).then(|| match tally.not_judged {
            0 if is_icrc_rule(rule) && report.has_unchecked_icrcs => "needs --check-icrc".to_owned(),
            0 => "did not apply".to_owned(),
            lacking => format!("{} lacked evidence", PluralCount(lacking, "judgement")),
        });
        let case = JunitTestCase { name: rule.id, error: None, failure, skipped, time_ns: 0 };
        match suites.iter_mut().find(|suite| suite.name == group) {
            Some(suite) => suite.cases.push(case),
            None => suites.push(JunitTestSuite {
                name: group,
                properties: Some(Vec::new()),
                elapsed: Duration::ZERO,
                cases: vec![case],
            }),
        }
    }
    write_suites(to, &suites, started, "unreadable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_continues_on_the_next_one() {
        let line = "frame 544  xid 0x65ffd91f  client 10.9.0.2, connection 1: Reply chunk of 5000 bytes for a reply";
        let wrapped = |width| {
            let mut to = Vec::new();
            let screen = TerminalProfile { width, ..TerminalProfile::pipe() };
            write_wrapped(&mut to, 11, line, &screen).unwrap();
            String::from_utf8(to).unwrap()
        };
        let text = wrapped(Some(60));
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("             ")), "{text}");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(wrapped(None), format!("           {line}\n"));
    }
}
