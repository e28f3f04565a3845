//! Replies that their receivers refused, and results of another call: list, summary, JSON, CSV, filters, export and
//! `lint` agree.

use std::path::{Path, PathBuf};

use crate::lint::lint;
use crate::{program, schema};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("captures/cases").join(name).with_extension("pcap")
}

/// Capture, XID of the transaction, its status, its code, how the summary ends, and the rule that explains it.
const CASES: [(&str, &str, &str, &str, &str, &str); 2] = [
    (
        "reply-refused-by-client",
        "0x00000041",
        "refused",
        "reply:refused",
        "refused by the receiver). See lint.",
        "transport/nak-invalid-request",
    ),
    ("false-retry", "0x00000062", "wrong result", "reply:wrong-result", "wrong results). See lint.", "nfs/false-retry"),
];

#[test]
fn refused_or_wrong_reply_is_incomplete_everywhere() {
    for (name, xid, status, code, count, rule) in CASES {
        let capture = case(name);
        let list = program::output(&capture, &[]);
        let line = list.lines().find(|line| line.contains(xid)).unwrap();
        assert!(line.ends_with(&format!("  {status}")), "{name}: {line}");
        for arguments in [&[][..], &["-q"]] {
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
            let missing = if is_wrong { serde_json::json!([code]) } else { serde_json::json!([]) };
            assert_eq!(transaction.0["missing"], missing, "{name}");
        }
        let summary = lines.summary.unwrap();
        schema::assert_keeps(&schema::validator("summary.schema.json"), &summary, name);
        let counts = ["refused", "wrong_result"].map(|key| summary["missing"][key].as_u64().unwrap());
        assert_eq!(counts, if status == "refused" { [1, 0] } else { [0, 1] }, "{name}");
        let fields = ["-T", "csv", "-e", "nfsrdma.xid", "-e", "nfsrdma.complete", "-e", "nfsrdma.missing"];
        let csv = program::output(&capture, &[&fields[..], &["--summary", "none"]].concat());
        assert!(csv.lines().any(|line| line == format!("{xid},0,{code}")), "{name}: {csv}");
        for filter in ["nfsrdma.complete == 0", &format!("nfsrdma.missing == \"{code}\"")] {
            let selected = program::output(&capture, &["-Y", filter, "--summary", "none"]);
            assert!(selected.contains(xid) && selected.matches("0x000000").count() == 1, "{name} {filter}: {selected}");
        }
        let tree = program::output(&capture, &["-V", "-Y", "nfsrdma.complete == 0"]);
        assert!(
            tree.contains(&format!(", {status}\n")) && tree.contains(&format!("missing: {code}")),
            "{name}: {tree}"
        );
        let said = String::from_utf8(lint(&[], Some(&capture)).stdout).unwrap();
        assert!(said.contains(rule), "{name}: {said}");
    }
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
    let expected: [(&str, &[&str]); 6] = [
        ("zero-length-chunk", &[]),
        ("second-read-chunk-ignored", &["client rpcrdma/position-no-item"]),
        ("krb5i-with-write-list", &["client gss/reduced"]),
        ("credits-exceeded-then-end", &["client rpcrdma/credit-exceeded", "server transport/receiver-not-ready"]),
        ("false-retry", &["client nfs/false-retry"]),
        ("reply-refused-by-client", &["client transport/nak-invalid-request", "server rpcrdma/send-too-long"]),
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
