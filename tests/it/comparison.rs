//! `compare` on pairs of real captures: two runs of one workload are equal except for the listed texts, and two minor
//! versions differ only in the features that one of them lacks.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::captures;

fn run(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .arg("compare")
        .args(arguments)
        .args(files)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"))
}

fn lines(output: &Output) -> (Vec<Value>, Value) {
    let text = str::from_utf8(&output.stdout).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.pop().unwrap();
    assert_eq!(last["kind"], "comparison");
    (lines, last)
}

fn compared(a: &str, b: &str) -> (Vec<Value>, Value) {
    let output = run(&["-T", "json", "-c", "1000"], &[&captures::path(a), &captures::path(b)]);
    assert_eq!(str::from_utf8(&output.stderr).unwrap(), "");
    let (differences, comparison) = lines(&output);
    let code = if differences.is_empty() { 0 } else { 1 };
    assert_eq!((output.status.code(), &comparison["equal"]), (Some(code), &Value::Bool(code == 0)));
    (differences, comparison)
}

#[track_caller]
fn equal(a: &str, b: &str) -> Value {
    let (differences, comparison) = compared(a, b);
    assert_eq!(differences, Vec::<Value>::new(), "{a} and {b}");
    assert!(comparison["pairs"].as_u64() > Some(100) && comparison["fields"].as_u64() > Some(5_000));
    comparison
}

#[test]
fn two_runs_of_a_workload_are_equal() {
    let comparison = equal("rxe-v42", "rxe-v42-ip6");
    assert_eq!((&comparison["pairs"], &comparison["not_known"]), (&237.into(), &0.into()));
}

#[test]
fn loss_changes_nothing_that_is_compared() {
    equal("rxe-v42", "rxe-v42-loss");
}

#[test]
fn nfsv3_over_roce_is_that_over_iwarp_but_for_the_segments_of_large_chunks_and_a_lock_in_the_grace_period() {
    let (differences, _) = compared("rxe-v3", "siw-v3");
    let found: Vec<_> = differences
        .iter()
        .map(|difference| {
            let text = |key: &str| difference[key].as_str().unwrap_or_default();
            (text("difference"), text("operation"), text("path"))
        })
        .collect();
    let expected = [
        // A memory registration of one device holds fewer pages than one of the other.
        ("chunk-shape", "NFS 3 WRITE", "chunk 0 (R) segments"),
        ("chunk-shape", "NFS 3 READ", "chunk 0 (W) segments"),
        // One server had just started: its client retried after the grace period.
        ("result", "NLM 4 LOCK", "LOCK.stat"),
        ("extra", "NLM 4 LOCK", ""),
    ];
    assert_eq!(
        found.iter().map(|(kind, operation, _)| (*kind, *operation)).collect::<Vec<_>>(),
        expected.map(|(kind, operation, _)| (kind, operation))
    );
    assert_eq!((found[0].2, found[1].2), (expected[0].2, expected[1].2));
}

#[test]
fn nfsv3_over_rdma_is_that_over_tcp_but_for_how_the_way_is_found() {
    let comparison = equal("rxe-v3", "tcp-v3");
    // GETPORT and NULL, which the client sends more often for a mount over TCP.
    assert_eq!(comparison["set_up"], 7);
}

#[test]
fn nfsv4_2_over_rdma_is_that_over_tcp_and_read_plus_is_read() {
    let comparison = equal("rxe-v42", "tcp-v42");
    assert_eq!((&comparison["pairs"], &comparison["data_bytes"]), (&237.into(), &809_074.into()));
}

#[test]
fn minor_versions_differ_only_in_features_of_the_higher() {
    let (differences, comparison) = compared("rxe-v42", "rxe-v41");
    // The effects of the minor version are a small part.
    assert_eq!((&comparison["fields"], &comparison["left_out"]), (&11_978.into(), &1_461.into()));
    let mut found: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for difference in &differences {
        let text = |key: &str| difference[key].as_str().unwrap_or_default();
        *found.entry((text("difference"), text("operation"), text("path"))).or_default() += 1;
    }
    let expected = [
        // Operations of NFSv4.2 (RFC 7862) and of its extension for extended attributes (RFC 8276).
        (("missing", "NFS 4.2 ALLOCATE", ""), 1),
        (("missing", "NFS 4.2 CLONE", ""), 1),
        (("missing", "NFS 4.2 COPY", ""), 1),
        (("missing", "NFS 4.2 DEALLOCATE", ""), 1),
        (("missing", "NFS 4.2 GETXATTR", ""), 2),
        (("missing", "NFS 4.2 LISTXATTRS", ""), 1),
        (("missing", "NFS 4.2 REMOVEXATTR", ""), 1),
        (("missing", "NFS 4.2 SEEK", ""), 3),
        (("missing", "NFS 4.2 SETXATTR", ""), 2),
        // The client's replacement for COPY.
        (("extra", "NFS 4.1 READ", ""), 1),
        (("extra", "NFS 4.1 WRITE", ""), 1),
        // The effect of ALLOCATE and CLONE on the files that are closed then.
        (("result", "NFS 4.2 CLOSE", "GETATTR.obj_attributes.size"), 2),
        // Delegations of RFC 9754: an OPEN gives a delegation and no stateid, so that there is nothing to close, and
        // DELEGRETURN sets the times that were delegated.
        (("extra", "NFS 4.1 CLOSE", ""), 1),
        (("identity", "NFS 4.2 OPEN", "OPEN.stateid.other"), 1),
        (("missing", "NFS 4.2 DELEGRETURN", "SETATTR"), 2),
    ];
    assert_eq!(found, expected.into_iter().collect());
}

#[test]
fn a_capture_from_the_middle_lacks_only_earlier_operations() {
    let (differences, _) = compared("rxe-v42", "rxe-v42-mid");
    let missing: Vec<_> = differences.iter().filter(|difference| difference["difference"] == "missing").collect();
    let first = missing.iter().position(|difference| difference["a"]["frame"].as_u64() > Some(70));
    // The mount, then the unmount.
    assert_eq!((missing.len(), first), (17, Some(15)));
}

#[test]
fn differences_are_chosen_by_kind_field_and_operation() {
    let of = |arguments: &[&str]| {
        let files = [captures::path("rxe-v42"), captures::path("rxe-v41")];
        let output = run(&[&["-T", "json"], arguments].concat(), &[&files[0], &files[1]]);
        lines(&output).1["differences"].as_u64().unwrap()
    };
    assert_eq!(of(&[]), 21);
    assert_eq!(of(&["--only", "missing"]), 15);
    assert_eq!(of(&["--only", "missing", "--ignore", "SEEK,COPY"]), 11);
    assert_eq!(of(&["--ignore", "missing,extra"]), 3);
    assert_eq!(of(&["--ignore", "missing,extra,nfs.stateid.*"]), 2);
    assert!(of(&["--strict"]) > 1_000);
}

#[test]
fn quiet_comparison_prints_nothing_but_errors() {
    let files = [captures::path("rxe-v42"), captures::path("rxe-v41"), captures::path("rxe-v42-ip6")];
    for (other, code) in [(&files[1], 1), (&files[2], 0)] {
        let output = run(&["-q"], &[&files[0], other]);
        assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(code), 0, 0));
    }
    let output = run(&[], &[&files[0], Path::new("no/such.pcap")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(str::from_utf8(&output.stderr).unwrap().contains("no/such.pcap: cannot open"));
}

#[test]
fn the_first_difference_comes_first_with_its_frames_on_both_sides() {
    let output = run(&["--color", "never", "-c", "4"], &[&captures::path("rxe-v42"), &captures::path("rxe-v41")]);
    let text = str::from_utf8(&output.stdout).unwrap().replace(&*captures::folder().to_string_lossy(), "captures");
    insta::assert_snapshot!(text);
}

#[test]
fn every_line_keeps_the_schema() {
    let validator = crate::schema::validator("comparison.schema.json");
    let files = [captures::path("rxe-v42"), captures::path("rxe-v41")];
    for arguments in [&["-T", "json"][..], &["-T", "json", "--strict"]] {
        let (differences, comparison) = lines(&run(arguments, &[&files[0], &files[1]]));
        for line in differences.iter().chain([&comparison]) {
            crate::schema::assert_keeps(&validator, line, "compare");
        }
    }
}

#[test]
fn json_gives_every_difference_unless_fewer_are_asked_for() {
    let of = |arguments: &[&str]| {
        let files = [captures::path("rxe-v42"), captures::path("rxe-v41")];
        let output = run(&[&["-T", "json", "--strict"], arguments].concat(), &[&files[0], &files[1]]);
        let (differences, comparison) = lines(&output);
        (differences.len() as u64, comparison["differences"].as_u64().unwrap())
    };
    let (given, all) = of(&[]);
    assert!(given == all && all > 1_000, "{given} {all}");
    assert_eq!(of(&["-c", "7"]), (7, all));
}

#[test]
fn omitted_differences_are_counted() {
    let files = [captures::path("rxe-v42"), captures::path("rxe-v41")];
    let output = run(&["--ignore", "missing,extra,identity,result"], &[&files[0], &files[1]]);
    let text = str::from_utf8(&output.stdout).unwrap();
    assert!(text.contains("No differences.") && text.contains(" left out by --only or --ignore."), "{text}");
    let output = run(&["-T", "json", "--only", "identity"], &[&files[0], &files[1]]);
    assert!(lines(&output).1["filtered"].as_u64() >= Some(15));
}

#[test]
fn inputs_that_cannot_be_compared_are_exit_code_2() {
    let fails = |a: &str, b: &str| {
        let output = run(&[], &[Path::new(a), Path::new(b)]);
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
        String::from_utf8(output.stderr).unwrap()
    };
    let capture = captures::path("rxe-v42-deleg");
    let capture = capture.to_str().unwrap();
    // Nothing is reported for a file that is not a capture.
    assert!(fails(capture, "Cargo.toml").contains("Cargo.toml: not a capture file"));
    let fails_with = |arguments: &[&str]| {
        let output = run(arguments, &[Path::new(capture), Path::new(capture)]);
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(fails_with(&["--only", "REDA"]).contains("unknown operation REDA; did you mean READ?"));
    assert!(fails_with(&["--only", "nfs.nosuch"]).contains("unknown field nfs.nosuch"));
    assert!(fails_with(&["--only", "data", "--ignore", "data"]).contains("name it once"));
    assert!(fails("-", "-").contains("standard input cannot be both A and B"));
    let folder = std::env::temp_dir();
    let empty = folder.join(format!("nfsrdma-inspect-{}-empty.pcap", std::process::id()));
    std::fs::write(&empty, &std::fs::read(capture).unwrap()[..24]).unwrap();
    let empty = empty.to_str().unwrap();
    let text = fails(empty, empty);
    std::fs::remove_file(empty).unwrap();
    assert!(text.contains("no NFS transactions in either, nothing to compare"), "{text}");
}
