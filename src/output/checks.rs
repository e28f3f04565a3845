//! What checking captures against their baselines gave: for people, and as JSON Lines.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::comparison::{DifferenceObject, frame_of, words};
use super::json::SCHEMA;
use super::style::{Screen, Styled, columns, fit};
use crate::analysis::baseline::Counts;
use crate::analysis::comparison::Comparison;
use crate::analysis::comparison::difference::Difference;
use crate::analysis::comparison::trace::Trace;

/// How a check ended.
#[derive(Debug)]
pub enum Outcome {
    /// Everything is as the baseline has it.
    Same(Trace),
    /// The baseline was written.
    Blessed(Trace),
    /// Something differs.
    Different(Box<Comparison>),
    /// The capture or its baseline could not be read, and why.
    Unreadable(String),
}

/// A capture that was checked.
#[derive(Debug)]
pub struct Check {
    /// The capture's file, as it was named.
    pub file: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What the capture holds now.
    pub counts: Counts,
    /// How long it took.
    pub time: Duration,
}

/// Captures that were checked.
pub struct View<'a> {
    /// Each of them.
    pub checks: &'a [Check],
    /// Where they are shown.
    pub screen: Screen,
    /// Differences of one capture that are shown.
    pub count: usize,
    /// Whether those are left out that are as they were.
    pub quiet: bool,
}

/// `frame 595: NFS 4.2 READ, count: READ count: 4096 → 4095`: a difference from a baseline in one line.
pub fn line(difference: &Difference, to: &str) -> String {
    let (then, now) = (frame_of(&difference.a), frame_of(&difference.b));
    let place = match (then, now) {
        (Some(then), Some(now)) if then != now => format!("frame {now}, in the baseline {then}: "),
        (_, Some(now)) => format!("frame {now}: "),
        (Some(then), None) => format!("frame {then} of the baseline: "),
        (None, None) => String::new(),
    };
    format!("{place}{}, {}: {}", difference.operation, difference.kind, words(difference, to))
}

fn of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl View<'_> {
    /// Writes a line a capture, below it what differs, and at last how many there were of each.
    ///
    /// # Errors
    /// What writing gives.
    pub fn text(&self, to: &mut impl Write) -> io::Result<()> {
        let styles = self.screen.styles;
        let name = self.checks.iter().map(|check| columns(&check.file)).max().unwrap_or(0).min(48);
        let (mut same, mut blessed, mut different, mut unreadable) = (0, 0, 0, 0);
        for check in self.checks {
            let file = &check.file;
            match &check.outcome {
                Outcome::Same(trace) => {
                    same += 1;
                    if !self.quiet {
                        let what = of(trace.transactions, "Transaction");
                        writeln!(to, "{:<8}  {file:<name$}  {what}", Styled(styles.ok, "same"))?;
                    }
                }
                Outcome::Blessed(trace) => {
                    blessed += 1;
                    let what = of(trace.transactions, "Transaction");
                    writeln!(to, "{:<8}  {file:<name$}  {what}", Styled(styles.operation, "blessed"))?;
                }
                Outcome::Different(comparison) => {
                    different += 1;
                    let what = of(comparison.total(), "difference");
                    writeln!(to, "{:<8}  {file:<name$}  {what}", Styled(styles.error, "DIFFERS"))?;
                    self.differences(to, comparison)?;
                }
                Outcome::Unreadable(_) => {
                    unreadable += 1;
                    writeln!(to, "{:<8}  {file:<name$}", Styled(styles.error, "ERROR"))?;
                }
            }
        }
        let counts =
            [(same, "as it was"), (blessed, "blessed"), (different, "differs"), (unreadable, "not readable")];
        let counts: Vec<_> = counts.iter().filter(|(count, _)| *count > 0).collect();
        let words: Vec<_> = counts
            .iter()
            .map(|(count, what)| match (*what, count) {
                ("as it was", 2..) => format!("{count} as they were"),
                ("differs", 2..) => format!("{count} differ"),
                _ => format!("{count} {what}"),
            })
            .collect();
        writeln!(to, "{}: {}", of(self.checks.len() as u64, "capture"), words.join(", "))
    }

    fn differences(&self, to: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
        let shown = comparison.differences().iter().take(self.count);
        let number = shown.len() as u64;
        for difference in shown {
            let line = line(difference, self.screen.glyphs.to);
            match self.screen.width {
                Some(width) => {
                    writeln!(to, "  {}", fit(&line, width.saturating_sub(2).max(40), &self.screen.glyphs))?;
                }
                None => writeln!(to, "  {line}")?,
            }
        }
        if comparison.total() > number {
            writeln!(to, "  and {} more; -c shows more", comparison.total() - number)?;
        }
        Ok(())
    }

    /// Writes a line of kind `difference` for each that was kept, and one of kind `check` for each capture.
    ///
    /// # Errors
    /// What writing gives.
    pub fn json(&self, to: &mut impl Write) -> io::Result<()> {
        for check in self.checks {
            let mut object = CheckObject {
                schema: SCHEMA,
                kind: "check",
                file: &check.file,
                outcome: "same",
                transactions: check.counts.whole.get("transactions").copied(),
                differences: 0,
                counts: BTreeMap::new(),
                error: None,
            };
            match &check.outcome {
                Outcome::Same(_) => {}
                Outcome::Blessed(trace) => {
                    object.outcome = "blessed";
                    object.transactions = Some(trace.transactions);
                }
                Outcome::Different(comparison) => {
                    for difference in comparison.differences() {
                        object_line(to, &DifferenceObject::new(difference, Some(&check.file)))?;
                    }
                    object.outcome = "different";
                    object.differences = comparison.total();
                    object.counts =
                        comparison.counts().iter().map(|(kind, count)| (kind.word(), *count)).collect();
                }
                Outcome::Unreadable(what) => {
                    object.outcome = "unreadable";
                    object.error = Some(what);
                }
            }
            object_line(to, &object)?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct CheckObject<'a> {
    schema: u32,
    kind: &'static str,
    file: &'a str,
    outcome: &'static str,
    transactions: Option<u64>,
    differences: u64,
    counts: BTreeMap<&'static str, u64>,
    error: Option<&'a str>,
}

fn object_line(to: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(object)?;
    line.push(b'\n');
    to.write_all(&line)
}
