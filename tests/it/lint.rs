//! `lint`: output, selection, exit codes and reports, with a real capture in which one header word was changed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::captures::{self, Temporary};
use crate::mutations::{Kept, frames};
use crate::schema;
use crate::skipped::skip_without;
use crate::tunnels::pcap;

/// Offset of the RPC-over-RDMA header of a RoCE Send over IPv4.
const HEADER: usize = 54;

/// Returns `rxe-v42` up to frame 600, in which the Reply in frame 8 grants no credits.
pub(crate) fn without_credits() -> Vec<Kept> {
    let mut frames = frames("rxe-v42");
    frames.truncate(600);
    frames[7].bytes[HEADER + 8..HEADER + 12].fill(0);
    frames
}

pub(crate) fn broken(name: &str) -> Temporary {
    Temporary::new(&format!("lint-{name}.pcap"), &pcap(&without_credits()))
}

pub(crate) fn lint(arguments: &[&str], capture: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    command.arg("lint").args(arguments).args(capture).output().unwrap()
}

/// Returns standard output of a command with this exit code.
#[track_caller]
pub(crate) fn text(output: &Output, code: i32) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}{error}");
    text
}

#[test]
fn a_finding_names_its_rule_section_side_frame_and_values() {
    let capture = broken("text");
    let said = text(&lint(&[], Some(capture.path())), 0);
    for part in [
        "error    rpcrdma/credit-zero  1 finding\n",
        "A Responder grants at least one credit in each reply. (RFC 8166 section 3.3.1)",
        "frame 8  xid 0x838df27d  server 10.9.0.1, connection 1: credit 0",
        "1 error",
        " in 50 transactions and 600 frames",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn the_exit_code_depends_on_deny_and_allow() {
    let capture = broken("codes");
    for (arguments, code) in [
        (&["-q"][..], 0),
        (&["-q", "--deny", "error"], 1),
        (&["-q", "--deny", "rpcrdma/credit-zero"], 1),
        (&["-q", "--deny", "rpcrdma/*"], 1),
        (&["-q", "--deny", "transport/*"], 0),
        (&["-q", "--deny", "rpcrdma/reply-chunk-unneeded"], 1),
        (&["-q", "--deny", "rpcrdma/reply-chunk-*"], 0),
        (&["-q", "--deny", "info"], 1),
        (&["-q", "--deny", "error", "--allow", "rpcrdma/credit-*"], 0),
    ] {
        assert_eq!(text(&lint(arguments, Some(capture.path())), code), "", "{arguments:?}");
    }
    assert_eq!(text(&lint(&["-q", "--deny", "error"], Some(&captures::path("rxe-v42"))), 0), "");
}

/// A capture of the wrong interface must not pass.
#[test]
fn a_capture_without_rpc_is_an_error() {
    let capture = Temporary::new("lint-nothing.pcap", &pcap(&[]));
    let output = lint(&["--deny", "error"], Some(capture.path()));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("nothing to judge: no RPC-over-RDMA or NFS traffic in 0 frames"), "{error}");
}

/// Rules about set-up and chunks do not apply over TCP, so their evidence cannot be missing.
#[test]
fn set_up_and_chunks_are_not_missing_over_tcp() {
    let said = text(&lint(&["-T", "json"], Some(&captures::path("tcp-v3"))), 0);
    let summary: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    for rule in summary["rules"].as_array().unwrap() {
        assert_eq!(rule["not_judged"], 0, "{rule}");
    }
}

#[test]
fn an_unknown_pattern_is_an_error() {
    let output = lint(&["--deny", "rpcrdma/credits-zero"], Some(&captures::path("rxe-v42")));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("is neither a severity nor the id or pattern of a rule; --list shows all rules"), "{error}");
}

#[test]
fn a_configuration_denies_allows_and_knows() {
    let capture = broken("config");
    let configured = |name: &str, content: &str, code: i32| {
        let config = Temporary::new(&format!("lint-{name}.toml"), content.as_bytes());
        let path = config.path().to_str().unwrap();
        text(&lint(&["--config", path], Some(capture.path())), code)
    };
    assert!(configured("deny", "deny = ['error']\n", 1).contains("credit-zero"));
    assert!(!configured("allow", "allow = ['rpcrdma/credit-zero']\n", 0).contains("credit-zero"));
    let known = "deny = ['error']\n[[known]]\nrule = 'rpcrdma/credit-zero'\nside = 'server'\naddress = '10.9.0.1'\n\
                 implementation = 'ExampleOS 3'\n";
    let said = configured("known", known, 0);
    assert!(said.contains("known    rpcrdma/credit-zero") && said.contains("Known deviation: ExampleOS 3."), "{said}");
    configured("denied", &known.replace("['error']", "['rpcrdma/credit-zero', 'rpcrdma/*']"), 0);
    configured("known-denied", &known.replace("['error']", "['known']"), 1);
    let said = configured("elsewhere", &known.replace("10.9.0.1", "10.9.0.7"), 1);
    assert!(said.contains("error    rpcrdma/credit-zero"), "{said}");
}

#[test]
fn each_json_line_keeps_the_schema() {
    let validator = schema::validator("lint.schema.json");
    let capture = broken("json");
    for path in [capture.path().to_owned(), captures::path("rxe-v42-loss"), captures::path("siw-v3")] {
        let said = text(&lint(&["-T", "json"], Some(&path)), 0);
        let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &lines {
            schema::assert_keeps(&validator, line, &path.display().to_string());
        }
        let (summary, findings) = lines.split_last().unwrap();
        assert_eq!(summary["kind"], "lint-summary");
        for rule in summary["rules"].as_array().unwrap() {
            let of_rule = findings.iter().filter(|line| line["rule"] == rule["rule"]);
            let count: u64 = of_rule.map(|line| line["count"].as_u64().unwrap()).sum();
            assert_eq!(rule["findings"], count, "{rule}");
        }
    }
}

/// A CI system that uploads the report after each run would show that of the run before.
#[test]
fn a_junit_report_names_a_capture_that_cannot_be_read() {
    let report = std::env::temp_dir().join(format!("nfsrdma-lint-unreadable-{}.xml", std::process::id()));
    let path = report.to_str().unwrap();
    std::fs::write(&report, "an older report").unwrap();
    let missing = Path::new("no-such-capture.pcap");
    assert_eq!(lint(&["--junit", path], Some(missing)).status.code(), Some(2));
    let written = std::fs::read_to_string(&report).unwrap();
    assert_eq!(written.matches("<testcase ").count(), 1, "{written}");
    assert!(written.contains("no-such-capture.pcap: cannot open"), "{written}");
    assert_keeps_schemas_of_junit(&report);
    std::fs::remove_file(&report).unwrap();
}

#[test]
fn a_junit_report_has_a_suite_per_group_and_a_case_per_rule() {
    let capture = broken("junit");
    let report = std::env::temp_dir().join(format!("nfsrdma-lint-{}.xml", std::process::id()));
    let path = report.to_str().unwrap();
    text(&lint(&["-q", "--deny", "error", "--junit", path], Some(capture.path())), 1);
    let written = std::fs::read_to_string(&report).unwrap();
    let rules = text(&lint(&["--list"], None), 0);
    assert_eq!(written.matches("<testcase ").count(), rules.lines().count());
    // Tools merge or overwrite suites of one name.
    let names = |element: &str| -> Vec<String> {
        let starts = written.split(element).skip(1);
        let name = |rest: &str| rest.split_once("name=\"")?.1.split_once('"').map(|(name, _)| name.to_owned());
        starts.map(|rest| name(rest).unwrap()).collect()
    };
    let groups: BTreeSet<&str> = rules.lines().map(|line| line.split_once('/').unwrap().0).collect();
    let suites = names("<testsuite ");
    assert_eq!(suites.len(), groups.len(), "{suites:?}");
    assert_eq!(suites.iter().map(String::as_str).collect::<BTreeSet<_>>(), groups);
    for suite in written.split("<testsuite ").skip(1) {
        let (_, name) = suite.split_once("name=\"").unwrap();
        let (name, cases) = name.split_once('"').unwrap();
        let of_group = rules.lines().filter(|line| line.starts_with(&format!("{name}/"))).count();
        assert_eq!(cases.matches("<testcase ").count(), of_group, "{name}");
        assert!(suite.contains(&format!("tests=\"{of_group}\"")), "{name}");
    }
    assert_eq!(written.matches("<failure ").count(), 1, "{written}");
    assert_keeps_schemas_of_junit(&report);
    std::fs::remove_file(&report).unwrap();
}

fn assert_keeps_schemas_of_junit(report: &Path) {
    for schema in ["jenkins.xsd", "ant.xsd"] {
        let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/junit").join(schema);
        let Ok(checked) = Command::new("xmllint").args(["--noout", "--schema"]).arg(schema).arg(report).output() else {
            return skip_without("xmllint");
        };
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn each_rule_is_explained() {
    let list = text(&lint(&["--list"], None), 0);
    for line in list.lines() {
        let id = line.split_whitespace().next().unwrap();
        let explained = text(&lint(&["--explain", id], None), 0);
        assert!(explained.starts_with(id), "{explained}");
        assert!(explained.lines().count() >= 5, "{explained}");
        assert!(["section", "RFC", "draft", "annex"].iter().any(|word| line.contains(word)), "{line}");
    }
    for unknown in ["nothing", "nothing/*", "error"] {
        assert_eq!(lint(&["--explain", unknown], None).status.code(), Some(2), "{unknown}");
    }
}

#[test]
fn a_pattern_explains_its_rules() {
    let list = text(&lint(&["--list"], None), 0);
    let ids: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let of_group: Vec<&str> = ids.into_iter().filter(|id| id.starts_with("gss/")).collect();
    assert!(of_group.len() > 1);
    let explained = text(&lint(&["--explain", "gss/*"], None), 0);
    let single = |id: &&str| text(&lint(&["--explain", id], None), 0);
    assert_eq!(explained, of_group.iter().map(single).collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_rules_as_json_keep_the_schema() {
    let validator = schema::validator("lint.schema.json");
    let rules = |arguments: &[&str]| -> Vec<Value> {
        let said = text(&lint(arguments, None), 0);
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let list = rules(&["--list", "-T", "json"]);
    for line in &list {
        schema::assert_keeps(&validator, line, "--list");
    }
    let shown = text(&lint(&["--list"], None), 0);
    let ids: Vec<&str> = shown.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(list.iter().map(|line| line["rule"].as_str().unwrap()).collect::<Vec<_>>(), ids);
    let one = rules(&["--explain", "rpcrdma/credit-exceeded", "-T", "json"]);
    let of_rule: Vec<&Value> = list.iter().filter(|line| line["rule"] == "rpcrdma/credit-exceeded").collect();
    assert_eq!(one.iter().collect::<Vec<_>>(), of_rule);
    assert!(one[0]["needs"].as_array().unwrap().len() > 1, "{one:?}");
}

#[test]
fn the_views_show_findings() {
    let capture = broken("views");
    let view = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
        text(&command.args(arguments).arg(capture.path()).output().unwrap(), 0)
    };
    let list = view(&["--findings"]);
    let marked: Vec<&str> = list.lines().filter(|line| line.contains("!error")).collect();
    assert_eq!(marked.len(), 1, "{list}");
    assert!(marked[0].contains("0x838df27d") && list.contains("rpcrdma/credit-zero ×1"), "{list}");
    assert!(!view(&[]).contains("!error"));
    let tree = view(&["-V", "-c", "1"]);
    assert!(
        tree.contains("error: rpcrdma/credit-zero, by the server 10.9.0.1: credit 0 (RFC 8166 section 3.3.1)"),
        "{tree}"
    );
    let of_tree: Vec<&str> = tree.lines().collect();
    let at = of_tree.iter().position(|line| line.contains("error: rpcrdma/credit-zero")).unwrap();
    let (field, finding) = (of_tree[at - 1], of_tree[at]);
    assert!(field.trim_start().starts_with("rdma_credit: 0 [8..12]"), "{tree}");
    let indentation = |line: &str| line.len() - line.trim_start().len();
    assert_eq!(indentation(finding), indentation(field) + 2, "{tree}");
    let lines = view(&["-T", "json", "--summary", "none", "-Y", "nfsrdma.finding.severity == error"]);
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(line["xid"], "0x838df27d");
    assert_eq!(line["findings"][0]["rule"], "rpcrdma/credit-zero");
    assert_eq!(line["findings"][0]["side"], "server");
    let fields = view(&[
        "-T",
        "fields",
        "-e",
        "rpc.xid",
        "-e",
        "nfsrdma.finding",
        "-e",
        "nfsrdma.finding.side",
        "-Y",
        "nfsrdma.finding == \"rpcrdma/credit-zero\"",
    ]);
    assert!(fields.contains("\trpcrdma/credit-zero\tserver\n"), "{fields}");
}

#[test]
fn an_event_of_the_last_frame_counts_once() {
    let found = |path: &Path| {
        let lines = text(&lint(&["-T", "json"], Some(path)), 0);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["kind"] == "finding").collect::<Vec<_>>()
    };
    let whole = found(&captures::path("rxe-v42-loss"));
    let of_event = whole.iter().find(|line| line["rule"].as_str().unwrap().starts_with("transport/")).unwrap();
    let frame = of_event["frames"][0].as_u64().unwrap();
    let mut frames = frames("rxe-v42-loss");
    frames.truncate(frame.try_into().unwrap());
    let capture = Temporary::new("lint-last-event.pcap", &pcap(&frames));
    let start = found(capture.path());
    let same: Vec<&Value> = start.iter().filter(|line| line["rule"] == of_event["rule"]).collect();
    assert_eq!(same.len(), 1, "{start:?}");
    assert_eq!((&same[0]["count"], &same[0]["frames"]), (&Value::from(1), &serde_json::json!([frame])));
}

#[test]
fn a_capture_with_all_credits_in_use_exceeds_none() {
    let said = text(&lint(&["-T", "json"], Some(&captures::path("rxe-v42-credits"))), 0);
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.last().unwrap();
    let rule = |id: &str| summary["rules"].as_array().unwrap().iter().find(|rule| rule["rule"] == id).unwrap();
    let exceeded = rule("rpcrdma/credit-exceeded");
    assert_eq!((&exceeded["findings"], &exceeded["not_judged"]), (&Value::from(0), &Value::from(0)), "{exceeded}");
    assert!(exceeded["judged"].as_u64() > Some(700), "{exceeded}");
    assert!(rule("rpcrdma/credits-all-used")["findings"].as_u64() > Some(0));
}

#[test]
fn the_call_answered_with_err_chunk_offered_too_short_a_reply_chunk() {
    for name in ["rxe-v40-errors", "siw-v40-errors"] {
        let said = text(&lint(&["-T", "json", "--deny", "error"], Some(&captures::path(name))), 1);
        let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let broken: Vec<_> = { lines.iter() }
            .filter(|line| line["severity"] == "error" || line["severity"] == "warning")
            .map(|line| (line["rule"].as_str().unwrap(), line["side"].as_str().unwrap()))
            .collect();
        assert_eq!(broken, [("rpcrdma/reply-chunk-short", "client")], "{name}");
        let rules = lines.last().unwrap()["rules"].as_array().unwrap();
        let judged = |id: &str| rules.iter().find(|rule| rule["rule"] == id).unwrap()["judged"].as_u64();
        assert!(judged("rpcrdma/error-no-call") > Some(0), "{name}");
        assert!(judged("rpcrdma/error-range") > Some(0), "{name}");
    }
}

/// Offset of the last byte of the message sequence number in a segment with one FPDU, over IPv4 with TCP timestamps.
const MESSAGE_NUMBER: usize = 81;

/// Returns `siw-v42` with a wrong message number in a short GETATTR, and the number of its frame.
fn with_wrong_message_number() -> (Vec<Kept>, usize) {
    let said = inspect(&["-T", "json", "--summary", "none"], &captures::path("siw-v42"));
    let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let frame = { lines }
        .filter(|line| line["operation"] == "GETATTR" && line["reply_chunk"].is_null())
        .filter_map(|line| line["call"]["frames"][0].as_u64())
        .nth(5)
        .unwrap();
    let (mut frames, frame) = (frames("siw-v42"), usize::try_from(frame).unwrap());
    frames[frame - 1].bytes[MESSAGE_NUMBER] += 1;
    frames[frame - 1].seal();
    (frames, frame)
}

/// Returns standard output of the default command, which succeeds.
#[track_caller]
fn inspect(arguments: &[&str], capture: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    text(&command.args(arguments).arg(capture).output().unwrap(), 0)
}

#[test]
fn a_violation_of_a_rule_about_connections_is_a_finding_of_its_transaction() {
    let (frames, frame) = with_wrong_message_number();
    let capture = Temporary::new("lint-message-number.pcap", &pcap(&frames));
    let view = |arguments: &[&str]| inspect(arguments, capture.path());
    let filter = "nfsrdma.finding == \"rdmap/message-number\"";
    let lines = view(&["-T", "json", "-Y", filter]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The message with the wrong number, and the one behind it.
    let [line, _, summary] = &lines[..] else { panic!("{lines:?}") };
    schema::assert_keeps(&schema::validator("transaction.schema.json"), line, "message number");
    assert_eq!(line["call"]["frames"], serde_json::json!([frame]));
    let finding = &line["findings"][0];
    assert_eq!((&finding["rule"], &finding["frame"]), (&"rdmap/message-number".into(), &frame.into()));
    assert_eq!(summary["findings"]["rdmap/message-number"], 2);
    let list = view(&["--findings"]);
    assert_eq!(list.lines().filter(|line| line.contains("!error")).count(), 2, "{list}");
    assert!(list.contains("2 errors (rdmap/message-number ×2)"), "{list}");
    let tree = view(&["-V", "-Y", filter]);
    assert!(tree.contains("error: rdmap/message-number, by the client 10.9.0.2: "), "{tree}");
}

/// Of these rules, `lint` has one finding per connection and side; other views have each violation in its Transaction.
#[test]
fn the_views_and_lint_count_the_same_violations() {
    let capture = captures::path("rxe-v42");
    let said = text(&lint(&["-T", "json"], Some(&capture)), 0);
    let findings = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut of_lint = std::collections::BTreeMap::<String, u64>::new();
    for line in findings.filter(|line| line["kind"] == "finding") {
        *of_lint.entry(line["rule"].as_str().unwrap().to_owned()).or_default() += line["count"].as_u64().unwrap();
    }
    assert!(of_lint["rpcrdma/inval-not-announced"] > 50);
    for (rule, count) in of_lint {
        let filter = format!("nfsrdma.finding == \"{rule}\"");
        let lines = inspect(&["-T", "fields", "-e", "nfsrdma.finding", "-Y", &filter], &capture);
        let found: usize = lines.lines().map(|line| line.matches(&rule).count()).sum();
        assert_eq!(found as u64, count, "{rule}");
    }
}

/// Behind a filter, the totals are those of the selected Transactions; infos do not hide the errors.
#[test]
fn the_summary_counts_findings_of_selected_transactions() {
    let capture = broken("selected");
    let whole = inspect(&["-q", "--findings"], capture.path());
    let whole = whole.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(whole.contains("Conformance findings: 1 error (rpcrdma/credit-zero ×1)"), "{whole}");
    assert!(whole.contains("rules).") && !whole.contains("perf/"), "{whole}");
    let selected = inspect(&["-q", "--findings", "-Y", "nfsrdma.finding.severity == error"], capture.path());
    let selected = selected.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        selected.contains("Conformance findings of these transactions: 1 error (rpcrdma/credit-zero ×1)."),
        "{selected}"
    );
}

/// Linux has known deviations and infos, which patterns do not deny.
#[test]
fn the_examples_for_ci_accept_linux() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/conformance.md")).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let config = Temporary::new("lint-example.toml", example.as_bytes());
    let config = config.path().to_str().unwrap();
    for name in ["rxe-v42", "rxe-v3", "siw-v42"] {
        let capture = captures::path(name);
        text(&lint(&["-q", "--config", config], Some(&capture)), 0);
        text(&lint(&["-q", "--deny", "error", "--deny", "warning", "--allow", "perf/*"], Some(&capture)), 0);
        text(&lint(&["-q", "--deny", "rpcrdma/*", "--allow", "rpcrdma/port"], Some(&capture)), 0);
        text(&lint(&["-q", "--deny", "rpcrdma/inval-not-announced"], Some(&capture)), 0);
        text(&lint(&["-q", "--deny", "known"], Some(&capture)), 1);
    }
}

#[test]
fn an_error_in_the_configuration_has_its_reason() {
    let config = Temporary::new("lint-bad.toml", b"deny = ['error']\ndenny = ['error']\n");
    let path = config.path().to_str().unwrap();
    for (path, reason) in
        [(path, ": line 2: unknown field `denny`"), ("/nonexistent/lint.toml", ": no such file or directory")]
    {
        let output = lint(&["--config", path], Some(&captures::path("rxe-v42")));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(&format!("--config {path}{reason}")), "{error}");
    }
}

#[test]
fn a_count_limits_the_findings_of_each_rule() {
    const SEND_ONLY: u8 = 4;
    let is_send =
        |frame: &&mut Kept| frame.bytes.get(26..30) == Some(&[10, 9, 0, 1]) && frame.bytes.get(42) == Some(&SEND_ONLY);
    let mut frames = without_credits();
    for frame in frames.iter_mut().filter(is_send).take(4) {
        frame.bytes[HEADER + 8..HEADER + 12].fill(0);
    }
    let capture = Temporary::new("lint-count.pcap", &pcap(&frames));
    let of_rules = |arguments: &[&str]| {
        let said = text(&lint(arguments, Some(capture.path())), 0);
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut rules = std::collections::BTreeMap::<String, u64>::new();
        for line in lines.filter(|line| line["kind"] == "finding") {
            *rules.entry(line["rule"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        rules
    };
    let (all, two) = (of_rules(&["-T", "json"]), of_rules(&["-T", "json", "-c", "2"]));
    assert!(all["rpcrdma/credit-zero"] == 4 && all.len() > 2, "{all:?}");
    assert_eq!(two, all.into_iter().map(|(rule, count)| (rule, count.min(2))).collect());
}

/// Rules are judged, never judged for lack of evidence, or do not apply.
#[test]
fn the_last_line_accounts_for_each_rule() {
    let last_line = |arguments: &[&str], name: &str| {
        let said = text(&lint(arguments, Some(&captures::path(name))), 0);
        said.lines().last().unwrap().to_owned()
    };
    let number = |line: &str, text: &str| -> usize {
        let part = line.split("; ").find(|part| part.contains(text)).unwrap_or("0");
        part.split_whitespace().next().unwrap().parse().unwrap()
    };
    let rules = text(&lint(&["--list"], None), 0);
    let line = last_line(&[], "rxe-v42-mid");
    let [judged, idle] = [" judged ", " did not apply"].map(|text| number(&line, text));
    let (_, never) = line.split_once("loss or truncation), for ").unwrap();
    let never: usize = never.split(' ').next().unwrap().parse().unwrap();
    assert!(never > 0, "{line}");
    assert_eq!(judged + idle + never, rules.lines().count(), "{line}");

    let hint = "; transport/icrc needs --check-icrc";
    assert!(line.ends_with(hint), "{line}");
    assert!(!last_line(&["--check-icrc"], "rxe-v42").contains(hint));
    assert!(!last_line(&[], "siw-v42").contains(hint));
    let icrc = rules.lines().find(|line| line.starts_with("transport/icrc")).unwrap();
    assert!(icrc.ends_with("needs the option --check-icrc"), "{icrc}");
}

#[test]
fn a_skipped_case_has_its_reason() {
    let report = Temporary::new("lint-skipped.xml", b"");
    let path = report.path().to_str().unwrap();
    text(&lint(&["-q", "--junit", path], Some(&captures::path("rxe-v42-mid"))), 0);
    let written = std::fs::read_to_string(report.path()).unwrap();
    let message = |rule: &str| {
        let line = written.lines().find(|line| line.contains(&format!("name=\"{rule}\""))).unwrap();
        line.split_once("<skipped message=\"").unwrap().1.split_once('"').unwrap().0.to_owned()
    };
    assert_eq!(message("transport/icrc"), "needs --check-icrc");
    assert_eq!(message("rdmap/crc"), "did not apply");
    let said = text(&lint(&["-T", "json"], Some(&captures::path("rxe-v42-mid"))), 0);
    let summary: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let is_lacking = |rule: &&Value| rule["judged"] == 0 && rule["not_judged"].as_u64() > Some(1);
    let lacking = summary["rules"].as_array().unwrap().iter().find(is_lacking).unwrap();
    let count: usize = message(lacking["rule"].as_str().unwrap()).split(' ').next().unwrap().parse().unwrap();
    assert_eq!(lacking["not_judged"], count);
}

#[test]
fn a_known_deviation_has_its_implementation_and_address() {
    let filter = "nfsrdma.finding == \"rpcrdma/inval-not-announced\"";
    let tree = inspect(&["-V", "-c", "1", "-Y", filter], &captures::path("rxe-v42"));
    let line = tree.lines().find(|line| line.contains("rpcrdma/inval-not-announced")).unwrap();
    assert!(line.trim_start().starts_with("known deviation ("), "{line}");
    assert!(line.contains("rpcrdma/inval-not-announced, by the server 10.9.0.1: "), "{line}");
    let lines = inspect(&["-T", "json", "-c", "1", "--summary", "none", "-Y", filter], &captures::path("rxe-v42"));
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(line["findings"][0]["address"], "10.9.0.1");
}

/// A live capture has no end to wait for.
#[test]
fn the_first_violation_of_a_rule_about_connections_is_known_at_its_frame() {
    use nfsrdma_conformance::{ConformanceChecker, FindingGranularity};
    use nfsrdma_flow::{Flow, FlowLimits};
    let mut flow = Flow::new(FlowLimits { record_transport_events: true, ..FlowLimits::default() });
    let mut checker = ConformanceChecker::new().with_first_violations();
    let mut first = Vec::new();
    for (at, kept) in frames("rxe-v42-loss").iter().enumerate() {
        let number = at as u64 + 1;
        flow.process_frame(&kept.frame(number));
        checker.record_events(&flow);
        for finding in checker.take_first() {
            assert!(finding.frames.iter().all(|frame| frame.0 <= number));
            first.push((number, finding));
        }
    }
    let naks: Vec<_> = first.iter().filter(|(_, finding)| finding.rule.id == "transport/nak-sequence").collect();
    let [(number, nak)] = &naks[..] else { panic!("{naks:?}") };
    assert_eq!((nak.count, nak.frames[0].0), (1, *number));
    let total = checker.finish();
    let total = total.iter().find(|finding| finding.rule.id == "transport/nak-sequence").unwrap();
    assert_eq!((total.count, total.frames[0], total.rule.scope), (10, nak.frames[0], FindingGranularity::Connection));
    // The line of a first violation differs from that of the total, and both keep the schema.
    let validator = schema::validator("lint.schema.json");
    for (finding, is_first) in [(nak, true), (total, false)] {
        let mut line = Vec::new();
        nfsrdma_inspect::output::lint::json_line(&mut line, finding, is_first).unwrap();
        let line: Value = serde_json::from_slice(&line).unwrap();
        schema::assert_keeps(&validator, &line, "first");
        assert_eq!(line.get("first").is_some(), is_first);
    }
}

/// Without a reason, a filter that selects nothing would look like a trace that conforms.
#[test]
fn a_trace_has_no_findings() {
    let (trace, ..) =
        crate::traces::compiled("rxe-v3", nfsrdma_replay::trace::file_format::TraceFileDataRetention::HASHED);
    let trace = Temporary::new("lint.trace", &trace);
    for arguments in [&["-Y", "nfsrdma.finding.severity == info"][..], &["--findings"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
        let output = command.args(arguments).arg(trace.path()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("a trace has none: --findings and nfsrdma.finding need the capture"), "{error}");
    }
    let lines = inspect(&["-T", "json"], trace.path());
    for line in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert!(line["findings"].is_null() || line["findings"].as_array().unwrap().is_empty(), "{line}");
    }
}

/// The view of connections marks those with findings, and names them with `-V` and in JSON: also findings that belong
/// to no Transaction, such as those about the set-up.
#[test]
fn the_view_of_connections_shows_their_findings() {
    let name = "rxe-v40-errors";
    let said = text(&lint(&["-T", "json", "-c", "100000"], Some(&captures::path(name))), 0);
    let mut expected = std::collections::BTreeSet::new();
    for line in said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if line["kind"] == "finding" {
            expected.insert((line["connection"].as_u64().unwrap(), line["rule"].as_str().unwrap().to_owned()));
        }
    }
    assert!(expected.iter().any(|(_, rule)| rule == "rpcrdma/private-none"), "{expected:?}");
    let view = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
            .args(["--view", "connections"])
            .args(arguments)
            .arg(captures::path(name))
            .output()
            .unwrap();
        text(&output, 0)
    };
    let mut found = std::collections::BTreeSet::new();
    for line in view(&["-T", "json", "--findings"]).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        for finding in line["findings"].as_array().into_iter().flatten() {
            found.insert((line["connection"].as_u64().unwrap(), finding["rule"].as_str().unwrap().to_owned()));
        }
    }
    assert_eq!(found, expected);
    let list = view(&["--findings"]);
    assert!(list.lines().next().unwrap().ends_with("FINDING"), "{list}");
    assert!(list.lines().any(|line| line.ends_with("error")), "{list}");
    let full = view(&["--findings", "-V"]);
    for (_, rule) in expected {
        assert!(full.contains(&format!(": {rule}, by the ")), "{rule}: {full}");
    }
    assert!(!view(&[]).contains("FINDING"));
}

#[test]
fn an_unknown_rule_has_proposals() {
    let said = |id| String::from_utf8(lint(&["--explain", id], None).stderr).unwrap();
    assert!(said("credit-zero").ends_with("did you mean rpcrdma/credit-zero?\n"), "{}", said("credit-zero"));
    assert!(said("rpcrdma").ends_with("--list shows all rules\n"));
}
