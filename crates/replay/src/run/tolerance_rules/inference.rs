//! Inference of rules from runs against a server that is known to be good: differences there are noise, once a person
//! has reviewed them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};

use crate::run::report::ReplayReport;
use crate::run::report::steps::StepIdWithFrames;

/// Maximum number of rules written.
const MAX_RULES: usize = 1024;
/// Maximum number of characters of a value that are shown.
const MAX_VALUE_CHARS: usize = 60;

/// Differences of one kind: the first step, its values, and the number of differences in each run.
struct LearnedDifference<'r> {
    step: StepIdWithFrames,
    values: [&'r str; 2],
    kind: DifferenceKind,
    steps: Vec<u64>,
}

/// Returns the key of the rule for a difference: a word, and an operation if there is one.
fn rule_key(difference: &Difference, title: &str) -> (String, Option<String>) {
    let key = match difference.field {
        "" => difference.kind.word(),
        _ if difference.kind == DifferenceKind::Status => difference.kind.word(),
        field => field,
    };
    let is_operation = |name: &&str| {
        let mut characters = name.chars();
        !name.is_empty()
            && characters
                .all(|character| character.is_ascii_uppercase() || character == '_' || character.is_ascii_digit())
    };
    let section = difference.path.split('.').next().filter(is_operation);
    (key.to_owned(), section.or(title.rsplit(' ').next().filter(is_operation)).map(str::to_owned))
}

/// Returns a file of rules that tolerates the differences of these runs. Rules for results that a server must get right
/// (status, name, file data, ...) are commented out, so that none is tolerated without review.
pub fn infer_rules(trace: &str, server: &str, runs: &[&ReplayReport]) -> String {
    let mut learned: BTreeMap<(String, Option<String>), LearnedDifference<'_>> = BTreeMap::new();
    let mut left_out = 0u64;
    for (at, run) in runs.iter().enumerate() {
        for mismatch in &run.steps.mismatches {
            for difference in &mismatch.differences {
                let key = rule_key(difference, &mismatch.operation);
                if learned.len() >= MAX_RULES && !learned.contains_key(&key) {
                    left_out += 1;
                    continue;
                }
                let entry = learned.entry(key).or_insert_with(|| LearnedDifference {
                    step: mismatch.step,
                    values: [&difference.a, &difference.b].map(|side| side.value.as_deref().unwrap_or("nothing")),
                    kind: difference.kind,
                    steps: vec![0; runs.len()],
                });
                if let Some(steps) = entry.steps.get_mut(at) {
                    *steps += 1 + mismatch.similar_steps;
                }
            }
        }
    }
    let mut text = String::new();
    let kinds = learned.len();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# Differences between {trace} and {} runs on {server}.", runs.len());
    let _ = writeln!(
        text,
        "# Review each rule before using it with --rules: differences covered by it are no longer reported."
    );
    if kinds == 0 {
        let _ = writeln!(text, "# No differences beyond the built-in rules.");
    }
    if left_out > 0 {
        let _ = writeln!(text, "# {left_out} further differences omitted (limit of {MAX_RULES} rules).");
    }
    for (number, ((key, operation), entry)) in (1..).zip(&learned) {
        let short = |value: &str| -> String {
            value
                .chars()
                .take(MAX_VALUE_CHARS)
                .map(|character| if character.is_control() { ' ' } else { character })
                .collect()
        };
        let [recorded, live] = entry.values.map(short);
        let steps: Vec<_> =
            (1..).zip(&entry.steps).map(|(run, steps): (u32, _)| format!("{steps} in run {run}")).collect();
        let frame = entry.step.frames.iter().find(|frame| **frame > 0).copied().unwrap_or(0);
        let _ = writeln!(text, "\n# {}; first at frame {frame}: recorded {recorded}, live {live}", steps.join(", "));
        let is_probable_bug = matches!(
            entry.kind,
            DifferenceKind::Status
                | DifferenceKind::Data
                | DifferenceKind::Name
                | DifferenceKind::Reply
                | DifferenceKind::Identity
        );
        let prefix = if is_probable_bug { "# " } else { "" };
        if is_probable_bug {
            let _ = writeln!(text, "# Probably a server bug: uncomment only if the difference is intended.");
        }
        let within = operation.as_ref().map(|operation| format!(" in {operation}")).unwrap_or_default();
        let _ = writeln!(text, "{prefix}[learnt-{number}] seen on a known good server");
        let _ = writeln!(text, "{prefix}ignore {key}{within}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::file::parse_rules;
    use super::*;
    use crate::run::step_outcome::StepOutcome;
    use nfsrdma_analysis::comparison::difference::DifferenceSideValue;

    fn run(differences: &[(DifferenceKind, &str, &'static str)]) -> ReplayReport {
        let mut report = ReplayReport::default();
        report.steps.max_mismatches = 10;
        let half = |value: &str| DifferenceSideValue { location: None, frame: None, value: Some(value.into()) };
        for (kind, path, field) in differences {
            let difference = Difference {
                kind: *kind,
                operation: "NFS 4.2 LOOKUP".into(),
                path: (*path).into(),
                section: 0,
                field,
                count: 1,
                a: half("0644"),
                b: half("0777 # \n"),
            };
            let step = StepIdWithFrames { step: 1, frames: [120, 121] };
            report.steps.count(step, "NFS 4.2 LOOKUP", StepOutcome::Mismatched(vec![difference]));
        }
        report
    }

    #[test]
    fn a_difference_becomes_a_rule_that_allows_it() {
        let mode = (DifferenceKind::Result, "GETATTR.obj_attributes.mode", "nfs.mode");
        let (one, other) = (run(&[mode, mode]), run(&[mode]));
        let text = infer_rules("work.trace", "tcp://nas/scratch", &[&one, &other]);
        assert!(text.contains("# 2 in run 1, 1 in run 2; first at frame 120: recorded 0644, live 0777 # "), "{text}");
        let rules = parse_rules(&text).unwrap();
        let differences = one.steps.mismatches.iter().flat_map(|mismatch| &mismatch.differences);
        assert!(differences.into_iter().all(|difference| rules[0].allows(difference)), "{text}");
    }

    #[test]
    fn rules_for_statuses_and_file_data_are_commented_out() {
        let report = run(&[
            (DifferenceKind::Status, "LOOKUP.status", "nfs.nfsstat4"),
            (DifferenceKind::Data, "READ.data", "nfs.data"),
        ]);
        let text = infer_rules("work.trace", "tcp://nas/scratch", &[&report, &report]);
        assert!(text.contains("# ignore status in LOOKUP") && text.contains("# ignore nfs.data in READ"), "{text}");
        assert_eq!(parse_rules(&text), Ok(Vec::new()));
    }
}
