//! Results of checking captures against their baselines, as text and as JSON Lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use nfsrdma_analysis::baseline::BaselineCounts;
use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use nfsrdma_analysis::comparison::difference_tally::DifferenceTally;
use rustc_hash::FxHashMap;

use super::comparison::difference_text::{difference_text, frame_of};
use super::json::object::{SCHEMA, json_object, write_json_line};
use super::style::{StyledText, TerminalProfile, columns, fit};
use super::units::PluralCount;
use crate::escape;

/// Summary of a capture.
#[derive(Clone, Debug, Default)]
pub struct BaselineCheckSummary {
    /// Number of Transactions.
    pub transactions: u64,
    /// Operations of the capture and of the baseline: `NFS 4.2 READ`.
    pub operations: BTreeSet<String>,
    /// Number of differences that the settings of the baseline ignore.
    pub filtered: u64,
}

impl BaselineCheckSummary {
    /// Creates the summary of a capture with these counts.
    pub fn from_counts(counts: &BaselineCounts) -> Self {
        let operations = counts.operations.keys().cloned().collect();
        Self { transactions: counts.capture_count("transactions"), operations, filtered: 0 }
    }
}

/// Differences of a capture from its baseline.
#[derive(Debug)]
pub struct BaselineDifferences {
    /// Summary of the capture.
    pub summary: BaselineCheckSummary,
    /// Number of differences by kind.
    pub counts: BTreeMap<DifferenceKind, u64>,
    /// Number of differences by operation, and the first of them.
    pub tally: DifferenceTally,
    /// Files and directories of the differing transactions.
    pub paths: DifferencePaths,
}

/// Paths of files and directories, by the frames of their transactions in the capture.
#[derive(Clone, Debug, Default)]
pub struct DifferencePaths(pub FxHashMap<u64, String>);

impl DifferencePaths {
    /// Returns the frames of the capture, not of the baseline, that a difference is in.
    pub fn frames(difference: &Difference) -> impl Iterator<Item = u64> {
        let location = difference.b.location;
        let messages = [difference.b.frame, location.and_then(|at| at.call), location.and_then(|at| at.reply)];
        messages.into_iter().flatten().map(|frame| frame.0)
    }

    /// Returns the file or directory that a difference is about, if it is known.
    pub fn path(&self, difference: &Difference) -> Option<&str> {
        Self::frames(difference).find_map(|frame| self.0.get(&frame)).map(String::as_str)
    }
}

impl BaselineDifferences {
    /// Returns the total number of differences.
    fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

/// Outcome of a check.
#[derive(Debug)]
pub enum BaselineCheckOutcome {
    /// No differences.
    Same(BaselineCheckSummary),
    /// The baseline was written.
    Blessed(BaselineCheckSummary),
    /// The capture differs from the baseline.
    Different(Box<BaselineDifferences>),
    /// There is no baseline; the error says how to write it.
    NoBaseline(String),
    /// Error that prevented reading the capture or its baseline.
    Unreadable(String),
}

impl BaselineCheckOutcome {
    /// Returns the summary of the capture, if it could be read.
    pub fn summary(&self) -> Option<&BaselineCheckSummary> {
        match self {
            Self::Same(summary) | Self::Blessed(summary) => Some(summary),
            Self::Different(differences) => Some(&differences.summary),
            Self::NoBaseline(_) | Self::Unreadable(_) => None,
        }
    }
}

/// Result of checking one capture.
#[derive(Debug)]
pub struct CaptureBaselineCheckResult {
    /// Path of the capture, as given.
    pub file: String,
    /// Outcome of the check.
    pub outcome: BaselineCheckOutcome,
    /// Duration of the check.
    pub time: Duration,
}

/// Report on checked captures.
pub struct BaselineReportWriter<'a> {
    /// Results in the order of the captures.
    pub checks: &'a [CaptureBaselineCheckResult],
    /// Output device.
    pub screen: TerminalProfile,
    /// `true` to omit captures without differences.
    pub quiet: bool,
}

/// Formats a difference from a baseline in one line:
/// `frame 595: NFS 4.2 READ of /data/w/s2k, count: READ count: 4096 → 4095`.
pub fn difference_line(difference: &Difference, paths: &DifferencePaths, to: &str) -> String {
    let (baseline_frame, frame) = (frame_of(&difference.a), frame_of(&difference.b));
    let location = match (baseline_frame, frame) {
        (Some(baseline_frame), Some(frame)) if baseline_frame != frame => {
            format!("frame {frame}, in the baseline {baseline_frame}: ")
        }
        (_, Some(frame)) => format!("frame {frame}: "),
        (Some(baseline_frame), None) => format!("frame {baseline_frame} of the baseline: "),
        (None, None) => String::new(),
    };
    let of = paths.path(difference).map(|path| format!(" of {}", escape::escape_line(path))).unwrap_or_default();
    format!("{location}{}{of}, {}: {}", difference.operation, difference.kind, difference_text(difference, to))
}

/// Returns an error message without the name of its capture, or of the baseline of that, with which it begins.
pub(super) fn reason_without_file<'m>(message: &'m str, file: &str) -> &'m str {
    let rest = message.strip_prefix(file).map(|rest| rest.strip_prefix(".baseline").unwrap_or(rest));
    rest.and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message)
}

impl BaselineReportWriter<'_> {
    /// Writes the differences of each capture, then a line per capture, and finally the number of captures by outcome.
    /// The line of a single capture comes before its differences.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn text(&self, to: &mut impl Write) -> io::Result<()> {
        let styles = self.screen.styles;
        let name =
            self.checks.iter().map(|check| columns(&escape::escape_line(&check.file))).max().unwrap_or(0).min(48);
        let (mut same, mut blessed, mut different, mut without_baseline, mut unreadable) = (0, 0, 0, 0, 0);
        let is_alone = self.checks.len() == 1;
        for check in self.checks.iter().filter(|_| !is_alone) {
            if let BaselineCheckOutcome::Different(differences) = &check.outcome {
                writeln!(to, "{}", StyledText(styles.header, escape::escape_line(&check.file)))?;
                self.differences(to, differences)?;
            }
        }
        for check in self.checks {
            let file = escape::escape_line(&check.file);
            let of_summary = |summary: &BaselineCheckSummary| {
                let left_out = match summary.filtered {
                    0 => String::new(),
                    count => format!("; {} left out by its settings", PluralCount(count, "difference")),
                };
                format!("{}{left_out}", PluralCount(summary.transactions, "transaction"))
            };
            match &check.outcome {
                BaselineCheckOutcome::Same(summary) => {
                    same += 1;
                    if !self.quiet {
                        let extent = of_summary(summary);
                        writeln!(to, "{:<8}  {file:<name$}  {extent}", StyledText(styles.ok, "same"))?;
                    }
                }
                BaselineCheckOutcome::Blessed(summary) => {
                    blessed += 1;
                    let extent = of_summary(summary);
                    writeln!(to, "{:<8}  {file:<name$}  {extent}", StyledText(styles.operation, "blessed"))?;
                }
                BaselineCheckOutcome::Different(differences) => {
                    different += 1;
                    let count = PluralCount(differences.total(), "difference");
                    let extent = of_summary(&differences.summary);
                    // Counts of the capture follow from those that have a frame.
                    let shown = differences.tally.first.differences();
                    let has_frame =
                        |difference: &&Difference| frame_of(&difference.a).or(frame_of(&difference.b)).is_some();
                    let first = shown.iter().find(has_frame).or(shown.first()).filter(|_| !is_alone);
                    let first = first.map_or_else(String::new, |first| {
                        format!("; first: {}", difference_line(first, &differences.paths, self.screen.glyphs.to))
                    });
                    let extent = if is_alone { String::new() } else { format!(" in {extent}") };
                    writeln!(to, "{:<8}  {file:<name$}  {count}{extent}{first}", StyledText(styles.error, "DIFFERS"))?;
                    if is_alone {
                        self.differences(to, differences)?;
                    }
                }
                BaselineCheckOutcome::NoBaseline(what) => {
                    without_baseline += 1;
                    let reason = escape::escape_line(reason_without_file(what, &check.file));
                    writeln!(to, "{:<8}  {file:<name$}  {reason}", StyledText(styles.error, "ERROR"))?;
                }
                BaselineCheckOutcome::Unreadable(what) => {
                    unreadable += 1;
                    let reason = escape::escape_line(reason_without_file(what, &check.file));
                    writeln!(to, "{:<8}  {file:<name$}  {reason}", StyledText(styles.error, "ERROR"))?;
                }
            }
        }
        let counts = [
            (same, "unchanged"),
            (blessed, "blessed"),
            (different, "differs"),
            (without_baseline, "without a baseline"),
            (unreadable, "not readable"),
        ];
        let counts: Vec<_> = counts.iter().filter(|(count, _)| *count > 0).collect();
        let outcomes: Vec<_> = counts
            .iter()
            .map(|(count, outcome)| match (*outcome, count) {
                ("differs", 2..) => format!("{count} differ"),
                _ => format!("{count} {outcome}"),
            })
            .collect();
        writeln!(to, "{}: {}", PluralCount(self.checks.len() as u64, "capture"), outcomes.join(", "))
    }

    fn differences(&self, to: &mut impl Write, differences: &BaselineDifferences) -> io::Result<()> {
        let shown_differences = differences.tally.first.differences();
        for difference in shown_differences {
            let line = difference_line(difference, &differences.paths, self.screen.glyphs.to);
            match self.screen.width {
                Some(width) => {
                    writeln!(to, "  {}", fit(&line, width.saturating_sub(2).max(40), &self.screen.glyphs))?;
                }
                None => writeln!(to, "  {line}")?,
            }
        }
        let remaining = differences.total() - shown_differences.len() as u64;
        if remaining > 0 {
            writeln!(to, "  and {remaining} more; -c shows more")?;
        }
        Ok(())
    }
}

impl CaptureBaselineCheckResult {
    /// Writes the JSON line of kind `check`, which follows the lines of its differences.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn json(&self, to: &mut impl Write) -> io::Result<()> {
        let summary = self.outcome.summary();
        let (outcome, differences, error) = match &self.outcome {
            BaselineCheckOutcome::Same(_) => ("same", None, None),
            BaselineCheckOutcome::Blessed(_) => ("blessed", None, None),
            BaselineCheckOutcome::Different(differences) => ("different", Some(differences), None),
            BaselineCheckOutcome::NoBaseline(what) | BaselineCheckOutcome::Unreadable(what) => {
                ("unreadable", None, Some(what))
            }
        };
        let counts = differences.iter().flat_map(|differences| &differences.counts);
        let object = json_object! {
            schema: SCHEMA,
            kind: "check",
            file: &self.file,
            outcome: outcome,
            transactions: summary.map(|summary| summary.transactions),
            differences: differences.map_or(0, |differences| differences.total()),
            filtered: summary.map_or(0, |summary| summary.filtered),
            counts: counts.map(|(kind, count)| (kind.word(), *count)).collect::<BTreeMap<_, _>>(),
            error: error,
        };
        write_json_line(to, &object)
    }
}
