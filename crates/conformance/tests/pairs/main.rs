//! Each rule has a conversation that breaks it and nothing else, and a legal twin that differs in one thing and stays
//! silent. The conversations are encoded from the RFCs alone, over RoCE, iWARP and TCP.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking, in its helper functions too")]

mod access;
mod back_channel;
mod blame;
mod callbacks;
mod credits;
mod details;
mod exchange;
#[allow(dead_code, reason = "shared with the generated conversations of the dissectors")]
#[path = "../../../../crates/flow/tests/conversations/fabric.rs"]
mod fabric;
mod founding;
mod gss;
mod header;
mod nfs;
mod perf;
mod private_data;
mod rdmap;
mod read_chunks;
mod refusals;
mod repeated_calls;
mod rpc;
mod scene;
mod sessions;
mod statuses;
mod tolerances;
mod transport;
mod two_connections;
mod write_chunks;
#[allow(dead_code, reason = "shared with the generated conversations of the dissectors")]
#[path = "../../../../crates/flow/tests/conversations/writer.rs"]
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use nfsrdma_conformance::{ConformanceChecker, Finding, RULES, ReportedFindingSeverity, Rule, RuleTally, find_rule};
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_flow::{Flow, FlowLimits};

use fabric::Kind;
use scene::Scene;

/// A conversation that breaks a rule if `broken` is set.
pub(crate) struct Pair {
    /// Rule that it breaks.
    rule: &'static str,
    /// Transports on which it is possible.
    kinds: &'static [Kind],
    conversation: fn(&mut Scene, broken: bool),
}

pub(crate) const BOTH: &[Kind] = &[Kind::Roce, Kind::Iwarp];
pub(crate) const TCP: &[Kind] = &[Kind::Tcp];
pub(crate) const ALL: &[Kind] = &[Kind::Roce, Kind::Iwarp, Kind::Tcp];

/// All pairs, by group.
fn pairs() -> Vec<&'static Pair> {
    [
        header::PAIRS,
        credits::PAIRS,
        private_data::PAIRS,
        read_chunks::PAIRS,
        write_chunks::PAIRS,
        callbacks::PAIRS,
        access::PAIRS,
        transport::PAIRS,
        rdmap::PAIRS,
        rpc::PAIRS,
        gss::PAIRS,
        sessions::PAIRS,
        back_channel::PAIRS,
        nfs::PAIRS,
        perf::PAIRS,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the time of a frame: frames are 2 ms apart.
fn frame_time(number: u64) -> Timestamp {
    Timestamp(1_700_000_000_000_000_000 + (number as i64 - 1) * 2_000_000)
}

/// Returns the findings of a capture.
fn findings(frames: &[Vec<u8>]) -> Vec<Finding> {
    judge(frames, frame_time).0
}

/// Returns the findings of a capture and the judgements of its rules; `frame_time` returns the time of a frame.
fn judge(
    frames: &[Vec<u8>],
    frame_time: impl Fn(u64) -> Timestamp,
) -> (Vec<Finding>, BTreeMap<&'static str, RuleTally>) {
    let mut flow = Flow::new(FlowLimits { record_transport_events: true, check_icrc: true, ..FlowLimits::default() });
    let mut checker = ConformanceChecker::new();
    let mut all = Vec::new();
    // As in the program: each Transaction is judged once it is complete.
    let mut judge_ready = |flow: &mut Flow, checker: &mut ConformanceChecker| {
        checker.record_events(flow);
        while let Some((key, transaction)) = flow.next_with_key() {
            transaction.with_messages(|messages| {
                let summary = messages.summary();
                all.extend(checker.check_transaction(Some(key), &transaction, messages, &summary));
            });
        }
    };
    for (at, bytes) in frames.iter().enumerate() {
        let time = frame_time(at as u64 + 1);
        flow.process_frame(&Frame {
            number: FrameNumber(at as u64 + 1),
            time,
            link: LinkType::ETHERNET,
            bytes,
            length: bytes.len() as u32,
        });
        judge_ready(&mut flow, &mut checker);
    }
    flow.finish();
    judge_ready(&mut flow, &mut checker);
    all.extend(checker.finish());
    let tallies = checker.tallies(&flow.transport_checks()).map(|(rule, tally)| (rule.id, tally)).collect();
    (all, tallies)
}

fn describe(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| format!("{} {} {:?}: {}", finding.rule.id, finding.side, finding.frames, finding.text))
        .collect()
}

/// Returns the rules with findings. Rules of severity info hold for nearly every conversation, and do not count unless
/// they are the rule under test.
fn broken_rules(findings: &[Finding], wanted: &str) -> BTreeSet<&'static str> {
    let counts = |finding: &&Finding| finding.rule.id == wanted || finding.severity > ReportedFindingSeverity::Known;
    findings.iter().filter(counts).map(|finding| finding.rule.id).collect()
}

#[test]
fn each_pair_breaks_its_rule_and_nothing_else() {
    let mut failures = Vec::new();
    for pair in pairs() {
        assert!(find_rule(pair.rule).is_some(), "no rule {}", pair.rule);
        for kind in pair.kinds {
            for broken in [true, false] {
                let mut scene = Scene::new(*kind);
                (pair.conversation)(&mut scene, broken);
                let accepted = std::mem::take(&mut scene.accepted);
                let found = findings(&scene.frames());
                let mut rules = broken_rules(&found, pair.rule);
                assert!(accepted.iter().all(|rule| rules.remove(rule)), "{}: none of {accepted:?}", pair.rule);
                let expected: BTreeSet<&str> = broken.then_some(pair.rule).into_iter().collect();
                if rules != expected {
                    let twin = if broken { "broken" } else { "legal" };
                    failures.push(format!("{} {kind:?} {twin}: {:#?}", pair.rule, describe(&found)));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn each_rule_has_a_pair() {
    let mut counts: BTreeMap<&str, usize> = RULES.iter().map(|rule| (rule.id, 0)).collect();
    for pair in pairs() {
        *counts.entry(pair.rule).or_default() += 1;
    }
    let without: Vec<&str> = counts.iter().filter(|(_, count)| **count == 0).map(|(rule, _)| *rule).collect();
    assert_eq!(without, [""; 0]);
}

/// Returns the example in an explanation: the text of a finding, in quotes.
fn example(rule: &Rule) -> Option<&'static str> {
    let (_, example) = rule.explanation.split_once("Example: ")?;
    example.strip_suffix("\".")?.split_once(": \"").map(|(_, text)| text)
}

#[test]
fn each_explanation_has_an_example_with_the_text_of_a_finding() {
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pair in pairs() {
        for kind in pair.kinds {
            let mut scene = Scene::new(*kind);
            (pair.conversation)(&mut scene, true);
            let found = findings(&scene.frames());
            let of_rule = found.into_iter().filter(|finding| finding.rule.id == pair.rule);
            texts.entry(pair.rule).or_default().extend(of_rule.map(|finding| finding.text));
        }
    }
    for rule in RULES {
        let example = example(rule).unwrap_or_else(|| panic!("{} has no example", rule.id));
        let is_real = texts[rule.id].iter().any(|text| text.contains(example));
        assert!(is_real, "{}: no finding \"{example}\": {:#?}", rule.id, texts[rule.id]);
    }
}
