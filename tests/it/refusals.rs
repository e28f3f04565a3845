//! Replies that their receivers refused, and results of another call: list, summary, JSON, CSV, filters, export and
//! `lint` agree.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::lint::lint;
use crate::{program, schema};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("captures/cases").join(name).with_extension("pcap")
}

/// A capture with one transaction whose reply is refused or wrong.
struct Case {
    capture: &'static str,
    xid: &'static str,
    status: &'static str,
    /// Its codes of missing parts.
    missing: &'static [&'static str],
    /// End of the count in the summary.
    count: &'static str,
    /// Severity, side and rule of the finding that explains it.
    finding: [&'static str; 3],
}

const UNDECODED_RESULTS: &str = "not fully decoded, wrong results; see lint)";

const CASES: [Case; 5] = [
    Case {
        capture: "reply-refused-by-client",
        xid: "0x00000041",
        status: "refused",
        missing: &["reply:refused"],
        count: "refused by the receiver; see lint)",
        finding: ["error", "server", "rpcrdma/send-too-long"],
    },
    Case {
        capture: "false-retry",
        xid: "0x00000062",
        status: "wrong result",
        missing: &["reply:wrong-result"],
        count: "wrong results; see lint)",
        finding: ["error", "client", "nfs/false-retry"],
    },
    Case {
        capture: "too-few-results",
        xid: "0x00000001",
        status: "wrong result",
        missing: &["undecoded:reply:44-", "reply:wrong-result"],
        count: UNDECODED_RESULTS,
        finding: ["error", "server", "rpc/wrong-result"],
    },
    Case {
        capture: "short-results",
        xid: "0x00000001",
        status: "wrong result",
        missing: &["undecoded:reply:44-", "reply:wrong-result"],
        count: UNDECODED_RESULTS,
        finding: ["error", "server", "rpc/wrong-result"],
    },
    Case {
        capture: "gss-reduced-reply",
        xid: "0x00000001",
        status: "wrong result",
        missing: &["undecoded:reply:72-", "reply:wrong-result"],
        count: UNDECODED_RESULTS,
        finding: ["error", "server", "rpc/wrong-result"],
    },
];

/// Returns the JSON Lines of a view.
fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns severity, side and rule of each finding.
fn findings(capture: &Path) -> Vec<[String; 3]> {
    let text = String::from_utf8(lint(&["-T", "json"], Some(capture)).stdout).unwrap();
    let word = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    json_lines(&text).iter().map(|line| ["severity", "side", "rule"].map(|key| word(line, key))).collect()
}

#[test]
fn refused_or_wrong_reply_is_incomplete_everywhere() {
    for Case { capture: name, xid, status, missing, count, finding } in CASES {
        let capture = case(name);
        let list = program::output(&capture, &[]);
        let line = list.lines().find(|line| line.contains(xid)).unwrap();
        assert!(line.ends_with(&format!("  {status}")), "{name}: {line}");
        let frames = program::output(&capture, &["--view", "frames"]);
        // The refusal comes behind the frame.
        let is_known = status == "refused" || frames.contains(&format!(" {status} xid {xid}"));
        assert!(is_known, "{name}: {frames}");
        for arguments in [&[][..], &["-q"], &["--view", "frames"], &["--view", "operations"]] {
            let text = program::output(&capture, arguments).replace('\n', " ");
            assert!(text.contains(", 1 incomplete (") && text.contains(count), "{name} {arguments:?}: {text}");
            assert!(!text.contains("all complete"), "{name} {arguments:?}: {text}");
        }
        let lines = program::json(&capture);
        let validator = schema::validator("transaction.schema.json");
        for transaction in &lines.transactions {
            schema::assert_keeps(&validator, &transaction.0, name);
            let is_wrong = transaction.text("xid") == Some(xid);
            assert_eq!(transaction.0["complete"], !is_wrong, "{name}");
            let missing = if is_wrong { missing } else { &[] };
            assert_eq!(transaction.0["missing"], serde_json::json!(missing), "{name}");
        }
        let summary = lines.summary.unwrap();
        schema::assert_keeps(&schema::validator("summary.schema.json"), &summary, name);
        let counts = ["refused", "wrong_result"].map(|key| summary["missing"][key].as_u64().unwrap());
        assert_eq!(counts, if status == "refused" { [1, 0] } else { [0, 1] }, "{name}");
        let operations = program::output(&capture, &["--view", "operations", "-T", "json", "--summary", "none"]);
        let errors: u64 = json_lines(&operations).iter().map(|line| line["errors"].as_u64().unwrap()).sum();
        assert_eq!(errors, 1, "{name}: {operations}");
        let fields = ["-T", "csv", "-e", "nfsrdma.xid", "-e", "nfsrdma.complete", "-e", "nfsrdma.missing"];
        let csv = program::output(&capture, &[&fields[..], &["--summary", "none"]].concat());
        let codes = missing.join(",");
        let cell = if missing.len() > 1 { format!("\"{codes}\"") } else { codes };
        assert!(csv.lines().any(|line| line == format!("{xid},0,{cell}")), "{name}: {csv}");
        let by_code = format!("nfsrdma.missing == \"{}\"", missing[missing.len() - 1]);
        for filter in ["nfsrdma.complete == 0", &by_code] {
            let selected = program::output(&capture, &["-Y", filter, "--summary", "none"]);
            assert!(selected.contains(xid) && selected.matches("0x000000").count() == 1, "{name} {filter}: {selected}");
        }
        let tree = program::output(&capture, &["-V", "-Y", "nfsrdma.complete == 0"]);
        let codes = missing.join(", ");
        assert!(
            tree.contains(&format!(", {status}\n")) && tree.contains(&format!("missing: {codes}")),
            "{name}: {tree}"
        );
        let found = findings(&capture);
        assert!(found.contains(&finding.map(str::to_owned)), "{name}: {found:?}");
    }
}

/// RFC 5044 section 4.1: the bytes of an FPDU with a wrong ULPDU_Length are no reply, whether or not rules are applied.
#[test]
fn reply_of_wrong_ulpdu_length_is_missing() {
    let capture = case("reply-fpdu-too-short");
    let list = program::output(&capture, &[]);
    assert!(list.lines().any(|line| line.contains("0xdc6a7385") && line.ends_with("  no reply")), "{list}");
    for arguments in [&["-q"][..], &["--view", "frames"], &["-V"], &["--findings"]] {
        let text = program::output(&capture, arguments).replace('\n', " ");
        assert!(text.contains(", 1 incomplete (no reply captured)"), "{arguments:?}: {text}");
    }
    for transaction in program::json(&capture).transactions {
        let missing: &[&str] = if transaction.text("xid") == Some("0xdc6a7385") { &["reply"] } else { &[] };
        assert_eq!(transaction.0["missing"], serde_json::json!(missing));
    }
    let found = findings(&capture);
    assert!(found.contains(&["error", "server", "rdmap/framing"].map(str::to_owned)), "{found:?}");
}

/// `-c` counts frames: the transactions of those that are shown are in the summary.
#[test]
fn count_of_frames_keeps_their_transactions() {
    let text = program::output(&case("short-results"), &["--view", "frames", "-c", "4"]);
    assert!(text.contains(" NULL xid 0x00000800"), "{text}");
    assert!(text.contains("1 transaction on 1 connection, 1 incomplete (no reply captured)."), "{text}");
    let text = program::output(&case("short-results"), &["--view", "frames", "-c", "3"]);
    assert!(text.contains("No RPC in it"), "{text}");
}

/// Calls of which the last was refused: they have no Reply.
#[test]
fn refused_call_has_no_reply() {
    let capture = case("credits-exceeded-then-end");
    let list = program::output(&capture, &[]);
    let line = list.lines().find(|line| line.contains("0x00000004")).unwrap();
    assert!(line.ends_with("refused no reply"), "{line}");
    let last = program::json(&capture).transactions.pop().unwrap();
    assert_eq!(last.0["missing"], serde_json::json!(["reply", "call:refused"]));
}

/// The side with the finding is the one that departs from the RFCs.
#[test]
fn cases_blame_the_right_side() {
    let expected: [(&str, &[&str]); 8] = [
        ("zero-length-chunk", &[]),
        ("second-read-chunk-ignored", &["client rpcrdma/position-no-item"]),
        ("krb5i-with-write-list", &["client gss/reduced"]),
        ("credits-exceeded-then-end", &["client rpcrdma/credit-exceeded"]),
        ("false-retry", &["client nfs/false-retry"]),
        ("too-few-results", &["server rpc/wrong-result"]),
        ("gss-reduced-reply", &["client gss/reduced", "server gss/reduced", "server rpc/wrong-result"]),
        ("reply-refused-by-client", &["server rpcrdma/send-too-long"]),
    ];
    for (name, findings) in expected {
        let output = lint(&["-T", "json"], Some(&case(name)));
        let text = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<String> = Vec::new();
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let is_fault = ["error", "warning"].iter().any(|severity| line["severity"] == **severity);
            if let (true, Some(side), Some(rule)) = (is_fault, line["side"].as_str(), line["rule"].as_str()) {
                found.push(format!("{side} {rule}"));
            }
        }
        found.sort();
        found.dedup();
        assert_eq!(found, findings, "{name}: {text}");
        if name.starts_with("credits") {
            assert!(text.contains("the connection ended with 4 calls without a reply"), "{text}");
        }
    }
}
