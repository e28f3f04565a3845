//! JUnit XML reports of checks and replays: a suite per capture or trace, a case per operation.
//!
//! There is no single schema. The output is valid for that of Jenkins and the older one of Ant: a suite has
//! `properties`, its cases, `system-out` and `system-err` in this order, and every attribute that either of them
//! requires. `tests/it/junit/` has both, and a test validates reports against them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use nfsrdma_analysis::comparison::difference_tally::OperationDifferenceTally;
use nfsrdma_dissectors::captured_frame::Timestamp;

use super::baseline_report::{BaselineCheckOutcome, CaptureBaselineCheckResult, DifferencePaths, difference_line};
use super::units::{CalendarTime, DateTimeUtc};
use crate::escape;

/// Name of the case for the capture as a whole.
pub(super) const CAPTURE_CASE: &str = "capture";
/// Maximum number of differences in the text of one failure.
pub const MAX_SHOWN_DIFFERENCES: usize = 20;

/// Text in XML. Escapes markup, invisible characters, and characters that XML 1.0 does not allow.
pub(super) struct XmlText<'a>(pub(super) &'a str);

impl fmt::Display for XmlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        self.0.chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&apos;"),
            '\n' => f.write_char('\n'),
            '\u{fffe}' | '\u{ffff}' => write!(f, "{}", character.escape_default()),
            character => escape::write_escaped(character, f),
        })
    }
}

/// Text in an XML attribute: [`XmlText`] with line ends as references, because a parser replaces them with spaces.
pub(super) struct XmlAttributeText<'a>(pub(super) &'a str);

impl fmt::Display for XmlAttributeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.split_inclusive('\n').try_for_each(|line| match line.strip_suffix('\n') {
            Some(line) => write!(f, "{}&#10;", XmlText(line)),
            None => XmlText(line).fmt(f),
        })
    }
}

/// Seconds with milliseconds.
struct JunitSeconds(Duration);

impl fmt::Display for JunitSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0.as_secs_f64())
    }
}

/// Returns the name of a capture without directories and extensions, the class of its cases.
fn class(file: &str) -> &str {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.split('.').next().filter(|name| !name.is_empty()).unwrap_or(name)
}

/// Writes the report on checks that began at `started`.
///
/// # Errors
/// Returns an error if writing fails.
pub fn write(to: &mut impl Write, checks: &[CaptureBaselineCheckResult], started: SystemTime) -> io::Result<()> {
    let suites: Vec<_> = checks.iter().map(check_suite).collect();
    write_suites(to, &suites, started, "unreadable")
}

fn check_suite(check: &CaptureBaselineCheckResult) -> JunitTestSuite<'_> {
    let error = match &check.outcome {
        BaselineCheckOutcome::NoBaseline(what) | BaselineCheckOutcome::Unreadable(what) => Some(what.as_str()),
        _ => None,
    };
    let differences = match &check.outcome {
        BaselineCheckOutcome::Different(differences) => Some(differences),
        _ => None,
    };
    let operations = differences.map(|differences| differences.tally.operations());
    // Includes operations of the baseline alone, and the group of those beyond the limit.
    let mut names: BTreeSet<&str> =
        operations.iter().flat_map(|operations| operations.keys()).map(String::as_str).collect();
    names.extend(check.outcome.summary().iter().flat_map(|summary| &summary.operations).map(String::as_str));
    names.remove(CAPTURE_CASE);
    let case = |name| JunitTestCase {
        name,
        error: error.filter(|_| name == CAPTURE_CASE),
        failure: differences
            .and_then(|differences| check_failure(differences.tally.operations().get(name)?, &differences.paths)),
        skipped: None,
        // A capture is read once for all of its operations.
        time_ns: if name == CAPTURE_CASE { check.time.as_nanos() } else { 0 },
    };
    let cases = [CAPTURE_CASE].into_iter().chain(names).map(case).collect();
    JunitTestSuite { name: &check.file, properties: None, elapsed: check.time, cases }
}

fn check_failure(tally: &OperationDifferenceTally, paths: &DifferencePaths) -> Option<JunitFailure> {
    let differences = tally.first.differences();
    let mut lines: Vec<_> = differences.iter().map(|difference| difference_line(difference, paths, "→")).collect();
    let (kind, message) = (differences.first()?.kind.to_string().into(), lines.first()?.clone());
    let remaining = tally.count - differences.len() as u64;
    if remaining > 0 {
        lines.push(format!("and {remaining} more"));
    }
    Some(JunitFailure { kind, message, lines })
}

/// Formats a time without fraction and zone, as the schemas require.
fn timestamp(started: SystemTime) -> String {
    let seconds = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = Timestamp(i64::try_from(seconds.as_nanos()).unwrap_or(i64::MAX));
    let timestamp = DateTimeUtc(CalendarTime::from_timestamp(time)).to_string();
    timestamp.get(..19).unwrap_or_default().replace(' ', "T")
}

/// Result for one operation of a check or of a replay, or for a conformance rule.
pub(super) struct JunitTestCase<'a> {
    /// Name of the operation or rule.
    pub(super) name: &'a str,
    /// Reason why the replay did not begin, or why a capture or baseline could not be read.
    pub(super) error: Option<&'a str>,
    pub(super) failure: Option<JunitFailure>,
    /// Reason why none of the steps was compared with the recording, or why the rule was never judged.
    pub(super) skipped: Option<String>,
    /// Total time of the server for all steps, or of the whole check, in nanoseconds.
    pub(super) time_ns: u128,
}

/// Failure of a test case.
pub(super) struct JunitFailure {
    /// Type of the failure.
    pub(super) kind: Cow<'static, str>,
    /// Summary in one line.
    pub(super) message: String,
    /// Lines of the text.
    pub(super) lines: Vec<String>,
}

/// Check of a capture, replay of a trace, or a group of conformance rules.
pub(super) struct JunitTestSuite<'a> {
    /// Path of the capture or trace, or group of rules.
    pub(super) name: &'a str,
    /// Properties, if the report has any: names and values.
    pub(super) properties: Option<Vec<(&'static str, &'a str)>>,
    /// Duration of the check or replay.
    pub(super) elapsed: Duration,
    /// Results by operation.
    pub(super) cases: Vec<JunitTestCase<'a>>,
}

/// Writes a report of these suites; `error_type` is the type of their errors.
///
/// # Errors
/// Returns an error if writing fails.
pub(super) fn write_suites(
    to: &mut impl Write,
    suites: &[JunitTestSuite<'_>],
    started: SystemTime,
    error_type: &str,
) -> io::Result<()> {
    writeln!(to, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(to, "<testsuites>")?;
    for (id, suite) in suites.iter().enumerate() {
        write_suite(to, id, suite, started, error_type)?;
    }
    writeln!(to, "</testsuites>")
}

fn write_suite(
    to: &mut impl Write,
    id: usize,
    suite: &JunitTestSuite<'_>,
    started: SystemTime,
    error_type: &str,
) -> io::Result<()> {
    let JunitTestSuite { name, properties, elapsed, cases } = suite;
    let (class, timestamp) = (class(name), timestamp(started));
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    let errors = cases.iter().filter(|case| case.error.is_some()).count();
    let skipped = cases.iter().filter(|case| case.skipped.is_some()).count();
    writeln!(
        to,
        r#"  <testsuite name="{}" package="{}" id="{id}" tests="{}" failures="{failures}" errors="{errors}" skipped="{skipped}" time="{}" timestamp="{timestamp}" hostname="localhost">"#,
        XmlAttributeText(name),
        XmlAttributeText(class),
        cases.len(),
        JunitSeconds(*elapsed),
    )?;
    match properties {
        None => writeln!(to, "    <properties/>")?,
        Some(properties) => {
            write!(to, "    <properties>")?;
            for (name, value) in properties {
                write!(to, r#"<property name="{name}" value="{}"/>"#, XmlAttributeText(value))?;
            }
            writeln!(to, "</properties>")?;
        }
    }
    for case in cases {
        let time = JunitSeconds(Duration::from_nanos(u64::try_from(case.time_ns).unwrap_or(u64::MAX)));
        let name = XmlAttributeText(case.name);
        write!(to, r#"    <testcase classname="{}" name="{name}" time="{time}""#, XmlAttributeText(class))?;
        match (case.error, &case.failure, &case.skipped) {
            (Some(error), ..) => {
                let (message, text) = (XmlAttributeText(error), XmlText(error));
                writeln!(to, ">\n      <error message=\"{message}\" type=\"{error_type}\">{text}</error>")?;
                writeln!(to, "    </testcase>")?;
            }
            (None, Some(JunitFailure { kind, message, lines }), _) => {
                let (message, text) = (XmlAttributeText(message), lines.join("\n"));
                writeln!(to, ">\n      <failure message=\"{message}\" type=\"{kind}\">{}</failure>", XmlText(&text))?;
                writeln!(to, "    </testcase>")?;
            }
            (None, None, Some(reason)) => {
                writeln!(to, r#"><skipped message="{}"/></testcase>"#, XmlAttributeText(reason))?;
            }
            (None, None, None) => writeln!(to, "/>")?,
        }
    }
    writeln!(to, "    <system-out/>")?;
    writeln!(to, "    <system-err/>")?;
    writeln!(to, "  </testsuite>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_xml_does_not_allow_are_escaped() {
        assert_eq!(
            XmlText("a<b> & \"c\" \u{1b}\u{ffff}").to_string(),
            "a&lt;b&gt; &amp; &quot;c&quot; \\u{1b}\\u{ffff}"
        );
        assert_eq!(XmlAttributeText("a\n\n<b").to_string(), "a&#10;&#10;&lt;b");
    }

    #[test]
    fn a_class_is_the_name_of_the_file_alone() {
        assert_eq!(class("captures/rxe-v42.pcap.gz"), "rxe-v42");
        assert_eq!(class(".pcap"), ".pcap");
    }
}
