//! Compares every field of RPC, NFS and its auxiliary programs, RPC-over-RDMA, InfiniBand and iWARP with tshark's
//! values, frame by frame, in every capture. Differences are explained by the rules in `differences`, each of which
//! states who is right, and `docs/tshark.md` lists all of them: `UPDATE=1 cargo test --test it fields_like_tshark`
//! writes it. The test is skipped, with a message, without tshark or with another version than that of the document.

mod differences;
mod shown;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use crate::captures;
use crate::skipped::{skip, skip_without};
use differences::{Difference, Known, RULES};
use shown::Shown;

/// Difference as shown in the document.
#[derive(Clone, Debug, Default)]
struct Example {
    times: u64,
    capture: &'static str,
    frames: String,
    ours: String,
    theirs: String,
}

/// Differences by the rule that explains them and the field.
type Explained = BTreeMap<(usize, &'static str), Example>;

#[derive(Debug, Default)]
struct Outcome {
    agreed: u64,
    fields: std::collections::BTreeSet<&'static str>,
    explained: Explained,
    unexplained: BTreeMap<&'static str, (u64, String)>,
}

impl Outcome {
    fn compare(capture: &'static str) -> Self {
        let shown = Shown::of(capture);
        let pairs = shown.pairs();
        let known = Known::of(&shown);
        let mut outcome = Self::default();
        for pair in &pairs {
            for difference in Difference::all(&shown, *pair, |field| {
                outcome.agreed += 1;
                outcome.fields.insert(field);
            }) {
                outcome.add(&difference, &known);
            }
        }
        outcome
    }

    fn add(&mut self, difference: &Difference<'_>, known: &Known) {
        let rule = RULES.iter().position(|rule| (rule.explains)(difference, known));
        let Some(rule) = rule else {
            let what = format!("{difference:?}");
            self.unexplained.entry(difference.field).or_insert((0, what)).0 += 1;
            return;
        };
        let example = self.explained.entry((rule, difference.field)).or_insert_with(|| Example {
            times: 0,
            capture: difference.shown.capture,
            frames: difference.frames(),
            ours: cell(difference.ours),
            theirs: cell(difference.theirs),
        });
        example.times += 1;
    }

    fn assert_explained(&self) {
        let unexplained = self.unexplained.values();
        let unexplained: Vec<_> = unexplained.map(|(times, what)| format!("{times} times as {what}")).collect();
        assert!(unexplained.is_empty(), "unexplained:\n{}", unexplained.join("\n"));
    }

    fn merge(&mut self, other: Self) {
        self.agreed += other.agreed;
        self.fields.extend(other.fields);
        for (key, example) in other.explained {
            self.explained.entry(key).or_insert(Example { times: 0, ..example.clone() }).times += example.times;
        }
        for (field, (times, what)) in other.unexplained {
            self.unexplained.entry(field).or_insert((0, what)).0 += times;
        }
    }
}

/// Compares captures, two at a time.
fn compared(captures: &[&'static str]) -> BTreeMap<&'static str, Outcome> {
    let waiting = Mutex::new(captures.iter().rev().copied().collect::<Vec<_>>());
    let outcomes = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(capture) = waiting.lock().unwrap().pop() else { return };
                    let outcome = Outcome::compare(capture);
                    outcomes.lock().unwrap().insert(capture, outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// Formats values as a cell of a table; long ones are truncated.
fn cell(values: Option<&Vec<String>>) -> String {
    const LETTERS: usize = 32;
    let Some(values) = values else { return String::new() };
    let text = values.join(", ");
    let short: String = text.chars().take(LETTERS).collect();
    if short.len() < text.len() { format!("`{short}...`") } else { format!("`{short}`") }
}

/// Maximum number of fields listed per rule.
const SHOWN: usize = 16;

/// Returns the version of tshark as the document states it.
fn stated_version(version: &str) -> String {
    format!("tshark {version}")
}

fn document(version: &str, outcome: &Outcome) -> String {
    let differing: u64 = outcome.explained.values().map(|example| example.times).sum();
    let mut text = format!(
        "# Comparison with tshark\n\
         \n\
         Every field of RPC, NFS and its companions, RPC-over-RDMA, InfiniBand and iWARP that both programs have is compared with\n\
         {}, frame by frame (`--view frames`), in every capture of `captures/`. Of {} fields, {} values are\n\
         equal and {differing} differ. A test (`tests/it/fields_like_tshark.rs`) fails on any difference that this page does not explain.\n\
         The comparison ignores the form of values: the base of numbers, verifiers as numbers, and structures as a sentence or as\n\
         bytes.\n\
         \n\
         Each difference has an example: the frame in which tshark shows the field and, after an arrow, the frame in which this\n\
         program shows it, if it is another one. The same rules explain the differences in other captures, which the test reads\n\
         from the directory in `NFSRDMA_MORE_CAPTURES`: nine public captures of NFSv3, 4.0 and 4.1 over TCP and UDP, two of\n\
         InfiniBand and RoCEv2 without RPC, and 35,521 packets of four connections with four writers and readers.\n",
        stated_version(version),
        outcome.fields.len(),
        outcome.agreed,
    );
    for (at, rule) in RULES.iter().enumerate() {
        let mut of_rule: Vec<_> = outcome.explained.iter().filter(|((of, _), _)| *of == at).collect();
        let _ = write!(text, "\n## {}\n{}\n\nRight: {}. {}.\n\n", rule.title, rule.reason, rule.right, rule.section);
        if let Some(elsewhere) = rule.elsewhere {
            let _ = writeln!(text, "Not in a capture of `captures/`: seen in {elsewhere}.");
            continue;
        }
        if of_rule.len() > SHOWN {
            // For missing messages, their fields are not listed.
            let times: u64 = of_rule.iter().map(|(_, example)| example.times).sum();
            let _ = writeln!(text, "{times} values of {} fields, of which the most frequent are:\n", of_rule.len());
            of_rule.sort_by_key(|((_, field), example)| (std::cmp::Reverse(example.times), *field));
            of_rule.truncate(SHOWN);
        }
        text.push_str("| field | times | capture | frame | this program | tshark |\n|---|---|---|---|---|---|\n");
        for ((_, field), example) in of_rule {
            let Example { times, capture, frames, ours, theirs } = example;
            let _ = writeln!(text, "| `{field}` | {times} | {capture} | {frames} | {ours} | {theirs} |");
        }
    }
    text
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tshark.md")
}

#[test]
fn common_fields_have_the_same_values_except_documented_differences() {
    let Some(version) = shown::version() else {
        skip_without("tshark");
        return;
    };
    let stored = fs::read_to_string(path()).unwrap_or_default();
    let is_update = std::env::var_os("UPDATE").is_some();
    if !is_update && !stored.contains(&stated_version(&version)) {
        skip("tshark-version", format_args!("docs/tshark.md is about another version of tshark than {version}"));
        return;
    }
    let outcomes = compared(&captures::ALL);
    let mut outcome = Outcome::default();
    outcomes.into_values().for_each(|of_one| outcome.merge(of_one));
    outcome.assert_explained();
    for (at, rule) in RULES.iter().enumerate() {
        let is_used = outcome.explained.keys().any(|(of, _)| *of == at);
        assert_ne!(is_used, rule.elsewhere.is_some(), "where it is seen is another: {}", rule.title);
        assert!(is_used || rule.elsewhere.is_some(), "nothing differs so any more: {}", rule.title);
    }
    let text = document(&version, &outcome);
    if is_update {
        fs::write(path(), &text).unwrap();
        return;
    }
    assert!(stored == text, "docs/tshark.md is stale: UPDATE=1 cargo test --test it fields_like_tshark");
}

/// Compares the captures in the folder of `NFSRDMA_MORE_CAPTURES`.
#[test]
#[ignore = "it needs captures: NFSRDMA_MORE_CAPTURES=DIR cargo test --test it other_captures -- --ignored"]
fn other_captures_differ_by_the_same_rules() {
    if shown::version().is_none() {
        skip_without("tshark");
        return;
    }
    let mut outcome = Outcome::default();
    let more = captures::more();
    assert!(!more.is_empty(), "NFSRDMA_MORE_CAPTURES names a folder of captures");
    compared(&more).into_values().for_each(|of_one| outcome.merge(of_one));
    outcome.assert_explained();
    for ((rule, field), example) in &outcome.explained {
        eprintln!("{}: {field}, {} times", RULES[*rule].title, example.times);
    }
}
