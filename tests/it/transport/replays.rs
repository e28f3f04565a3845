//! Replays of traces of real captures on nfs-ganesha.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::ganesha::Ganesha;
use super::program::{Passing, compiled, program};
use crate::captures;
use crate::schema::{assert_keeps, validator};

const NO_READ_PLUS: &str = "unsupported: the server has no READ_PLUS (NFS4ERR_NOTSUPP)";

/// Reasons why steps of these captures cannot run on nfs-ganesha, and its errors.
const NOT_DONE: &[&str] = &[
    // It has none of these operations (RFC 8276, RFC 7862 sections 15.2 and 15.13, RFC 8881 section 18.39).
    "unsupported: the server has no GETXATTR (NFS4ERR_NOTSUPP)",
    "unsupported: the server has no SETXATTR (NFS4ERR_NOTSUPP)",
    "unsupported: the server has no LISTXATTRS (NFS4ERR_NOTSUPP)",
    "unsupported: the server has no REMOVEXATTR (NFS4ERR_NOTSUPP)",
    "unsupported: the server has no CLONE (NFS4ERR_NOTSUPP)",
    "unsupported: the server has no COPY (NFS4ERR_NOTSUPP)",
    "unsupported: the server has no GET_DIR_DELEGATION (NFS4ERR_OP_ILLEGAL)",
    // Version 6.5; version 4.3 has it.
    NO_READ_PLUS,
    // NLM is a separate program on another port.
    "other-program: a program beside NFS, which listens elsewhere",
];

/// Differences of nfs-ganesha from Linux: the operation, the field, and its value.
const OTHERWISE: &[(&str, &str, &str)] = &[
    // It frees the stateid of a lock with the lock.
    ("FREE_STATEID", "FREE_STATEID.status", "NFS4ERR_BAD_STATEID"),
    // It answers READ_PLUS without the data, and from another offset.
    ("READ_PLUS", "READ_PLUS.rpr_contents.rpc_data.d_data", "0 bytes, hash 99aa06d3"),
    ("READ_PLUS", "READ_PLUS.rpr_contents.rpc_data.d_offset", "0"),
    // It has NFSACL, but no ACLs in files.
    ("GETACL", "GETACL.acl", ""),
    ("SETACL", "body.Reply.Accepted.reply_data.stat", "GARBAGE_ARGS"),
];

fn is_listed(operation: &str, difference: &Json) -> bool {
    let (path, live) = (difference["path"].as_str().unwrap(), difference["live"].as_str().unwrap_or_default());
    OTHERWISE.iter().any(|(name, what, answer)| {
        operation.ends_with(name) && path.starts_with(what) && (answer.is_empty() || live == *answer)
            || operation.ends_with(name) && path == "SEQUENCE.sr_status_flags"
    })
}

/// Replays a capture on a server, and compares the report with the lists above.
fn replayed(capture: &str, server: &str) {
    let path = captures::path(capture);
    hold(capture, program(&["check", "--server", server, "-c", "1000", "-T", "json", path.to_str().unwrap()]));
}

/// Compares a report with the lists above.
fn hold(capture: &str, output: std::process::Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).unwrap();
    let report: Json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{capture}: {e}: {text} {error}"));
    assert_keeps(&validator("replay.schema.json"), &report, capture);
    let states = report["states"].as_object().unwrap();
    let of = |state: &str| states[state].as_u64().unwrap();
    let steps = report["steps"].as_u64().unwrap();
    assert_eq!(states.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), steps, "{capture}");
    assert_eq!(report["own_faults"].as_array().map(Vec::len), Some(0), "{capture}: {report:#}");
    for reason in report["reasons"].as_array().unwrap() {
        let why = reason["reason"].as_str().unwrap();
        assert!(reason["state"] != "unreplayable" || NOT_DONE.contains(&why), "{capture}: {reason:#}");
    }
    for mismatch in report["mismatches"].as_array().unwrap() {
        let operation = mismatch["operation"].as_str().unwrap();
        let mut differences = mismatch["differences"].as_array().unwrap().iter();
        assert!(differences.all(|difference| is_listed(operation, difference)), "{capture}: {mismatch:#}");
    }
    let without_plus = report["reasons"].as_array().unwrap().iter();
    let without_plus: u64 = without_plus
        .filter(|reason| reason["reason"] == NO_READ_PLUS)
        .map(|reason| reason["steps"].as_u64().unwrap())
        .sum();
    // However many READ_PLUS a capture has, all have the listed result.
    let is_plus = |mismatch: &&Json| mismatch["operation"].as_str().unwrap().ends_with("READ_PLUS");
    let groups = report["mismatches"].as_array().unwrap().iter().filter(is_plus);
    let plus: u64 = groups.map(|group| 1 + group["similar_steps"].as_u64().unwrap()).sum();
    assert!(of("mismatched") <= 2 + plus, "{capture}: {report:#}");
    let done = of("matched") + of("tolerated") + of("substituted") + plus + without_plus;
    assert!(done * 100 >= steps * 93, "{capture}: {done} of {steps}");
}

#[test]
fn real_captures_run_again_on_nfs_ganesha_over_tcp() {
    let Some(server) = Ganesha::start(false) else { return };
    fs::write(server.export().join("bystander"), "not of any run").unwrap();
    let url = format!("tcp://localhost:{}/export", server.port);
    for capture in ["rxe-v40", "rxe-v41", "rxe-v42", "rxe-v42-mid", "siw-v41", "siw-v42", "tcp-v42"] {
        replayed(capture, &url);
    }
    // The export contains only the directories of the replays.
    assert_eq!(fs::read_to_string(server.export().join("bystander")).unwrap(), "not of any run");
    let names = fs::read_dir(server.export()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let others: Vec<_> =
        names.filter(|name| !["rxe-v4", "siw-v4", "tcp-v4"].iter().any(|of| name.starts_with(of))).collect();
    assert_eq!(others, ["bystander"]);
}

#[test]
fn real_captures_run_again_on_nfs_ganesha_in_every_order() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://localhost:{}/export", server.port);
    for capture in ["rxe-v40", "rxe-v41", "rxe-v42", "tcp-v42"] {
        let trace = compiled(capture, "orders");
        for order in ["dependencies", "captured"] {
            let arguments = ["-c", "1000", "-T", "json", "--server", &url, "--order", order];
            let run = ["replay", "run", trace.0.to_str().unwrap()];
            hold(&format!("{capture} {order}"), program(&[&run[..], &arguments[..]].concat()));
        }
    }
}

#[test]
fn max_time_ends_a_run_with_exit_code_3_and_a_message() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://localhost:{}/export", server.port);
    let trace = compiled("rxe-v41", "max-time");
    // At a tenth of the captured speed, the capture takes a minute.
    let junit = Passing::new("max-time-junit");
    let arguments = ["-T", "json", "--server", &url, "--pace", "x0.1", "--max-time", "2", "--junit", junit.name()];
    let started = std::time::Instant::now();
    let output = program(&[&["replay", "run", trace.0.to_str().unwrap()], &arguments[..]].concat());
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    let error = String::from_utf8_lossy(&output.stderr);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_keeps(&validator("replay.schema.json"), &report, "max-time");
    assert_eq!((output.status.code(), &report["interrupted"]), (Some(3), &Json::Bool(true)), "{error}");
    assert_eq!(report["time_limit_ns"], 2_000_000_000, "{report:#}");
    assert!(error.contains("stopped after 2 s") && error.contains("--max-time"), "{error}");
    // No step differs, and yet the run is a failed case.
    let junit = fs::read_to_string(junit.name()).unwrap();
    let case = junit.split("<testcase ").find(|case| case.contains("name=\"run\"")).expect(&junit);
    assert!(case.contains("<failure") && case.contains("stopped at the time limit"), "{case}");
    let replayed = report["states"]["matched"].as_u64().unwrap();
    assert!(replayed > 0 && replayed < report["steps"].as_u64().unwrap(), "{report:#}");
}

#[test]
fn copies_of_the_captured_clients_run_on_nfs_ganesha_each_in_its_directory() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://localhost:{}/export", server.port);
    let trace = compiled("rxe-v41", "copies");
    let arguments = ["--server", &url, "--clients", "3", "--directory", "d", "-T", "json", "-c", "1000"];
    let run = ["replay", "run", trace.0.to_str().unwrap()];
    let output = program(&[&run[..], &arguments[..]].concat());
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_keeps(&validator("replay.schema.json"), &report, "copies");
    let of = |state: &str| report["states"][state].as_u64().unwrap();
    let (steps, done) = (report["steps"].as_u64().unwrap(), of("matched") + of("tolerated") + of("substituted"));
    assert!(steps % 3 == 0 && done * 100 >= steps * 93, "{report:#}");
    assert_eq!(report["own_faults"].as_array().map(Vec::len), Some(0), "{report:#}");
    for mismatch in report["mismatches"].as_array().unwrap() {
        let operation = mismatch["operation"].as_str().unwrap();
        let mut differences = mismatch["differences"].as_array().unwrap().iter();
        assert!(differences.all(|difference| is_listed(operation, difference)), "{mismatch:#}");
        assert!((1..=3).contains(&mismatch["client"].as_u64().unwrap()));
    }
    let mut names: Vec<_> = fs::read_dir(server.export()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["d", "d-2", "d-3"]);
}

#[test]
fn real_captures_of_nfsv3_run_again_on_nfs_ganesha_over_tcp() {
    let Some(server) = Ganesha::start(true) else { return };
    let export = server.export();
    let url = format!("tcp://localhost:{}{}?vers=3&mountport={}", server.port, export.display(), server.mount_port);
    for capture in ["rxe-v3", "siw-v3", "tcp-v3"] {
        // Of 200 steps 7 to 10 are MOUNT, PORTMAP and NLM.
        let path = captures::path(capture);
        let output = program(&["check", "--server", &url, "-c", "1000", "-T", "json", path.to_str().unwrap()]);
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        for mismatch in report["mismatches"].as_array().unwrap() {
            let operation = mismatch["operation"].as_str().unwrap();
            let mut differences = mismatch["differences"].as_array().unwrap().iter();
            assert!(differences.all(|difference| is_listed(operation, difference)), "{capture}: {mismatch:#}");
        }
        let of = |state: &str| report["states"][state].as_u64().unwrap();
        assert!(of("matched") + of("tolerated") > 170, "{capture}: {report:#}");
        assert_eq!(report["own_faults"].as_array().map(Vec::len), Some(0));
    }
}

#[test]
fn differences_of_nfs_ganesha_are_learnt_reviewed_and_tolerated() {
    let Some(server) = Ganesha::start(true) else { return };
    let export = server.export();
    let url = format!("tcp://localhost:{}{}?vers=3&mountport={}", server.port, export.display(), server.mount_port);
    let trace = compiled("rxe-v3", "learns");
    let rules = Passing(trace.0.with_extension("rules"));
    let (trace, rules) = (trace.0.to_str().unwrap(), rules.0.to_str().unwrap());
    let output = program(&["replay", "learn", trace, "--server", &url, "-o", rules]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(rules).unwrap();
    if text.contains("# No differences.") {
        // Version 6.5 answers as the captured server did.
        let output = program(&["replay", "run", trace, "--server", &url, "--rules", rules, "-T", "json"]);
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["mismatches"].as_array().map(Vec::len), Some(0), "{report:#}");
        return;
    }
    // Results of GETACL are covered by the rule `acl`, and not learned; a status is commented out until it is reviewed.
    assert!(text.contains("# ignore status in SETACL") && !text.contains("GETACL"), "{text}");
    fs::write(rules, text.replace("# [learnt-", "[learnt-").replace("# ignore", "ignore")).unwrap();
    let output = program(&["replay", "run", trace, "--server", &url, "--rules", rules, "-T", "json"]);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_keeps(&validator("replay.schema.json"), &report, "learnt");
    let reasons = report["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|of| of["reason"].as_str().unwrap().starts_with("learnt-")), "{report:#}");
    assert!(reasons.iter().any(|of| of["reason"] == "acl"), "{report:#}");
    // Any other status is reported.
    for mismatch in report["mismatches"].as_array().unwrap() {
        let mut differences = mismatch["differences"].as_array().unwrap().iter();
        assert!(differences.all(|difference| difference["kind"] == "status"), "{mismatch:#} {text}");
    }
    let output = program(&["replay", "run", trace, "--server", &url, "--rules", trace]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_run_refuses_the_captured_server_and_a_directory_that_is_not_empty() {
    let Some(server) = Ganesha::start(false) else { return };
    let trace = compiled("rxe-v42-conc-head", "refuses");
    let file = trace.0.to_str().unwrap();
    fs::create_dir_all(server.export().join("used/by-somebody")).unwrap();
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    let output = program(&["replay", "run", file, "--server", &url, "--directory", "used"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("directory not empty"), "{error}");
    for name in ["..", "a/b", ""] {
        let output = program(&["replay", "seed", file, "--server", &url, "--directory", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
    let output = program(&["replay", "run", file, "--server", "tcp://127.0.0.1:1/export"]);
    assert_eq!(output.status.code(), Some(4));
}

/// Returns `true` if a directory with this name is somewhere below.
fn has_directory(below: &Path, name: &str) -> bool {
    let Ok(entries) = fs::read_dir(below) else { return false };
    let mut directories = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    directories.any(|path| path.ends_with(name) || has_directory(&path, name))
}

/// Replays a trace slowly, calls `disturb` as soon as the run has made the directory `w`, and returns the exit code
/// with the report.
fn disturbed(server: &str, export: &Path, trace: &str, disturb: impl FnOnce(u32)) -> (Option<i32>, Json, String) {
    let child = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(["replay", "run", trace, "--server", server, "--pace", "rate=60", "--timeout", "2", "-T", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !has_directory(export, "w") && start.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(10));
    }
    disturb(child.id());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"));
    (output.status.code(), report, error)
}

/// Returns `true` if each step has a state, and some but not all were replayed.
fn is_of_a_part(report: &Json) -> bool {
    let states: Vec<u64> =
        report["states"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).collect();
    let done = report["states"]["matched"].as_u64().unwrap();
    states.iter().sum::<u64>() == report["steps"].as_u64().unwrap() && (1..200).contains(&done)
}

#[test]
fn a_server_that_dies_in_the_middle_leaves_a_report_and_its_own_exit_code() {
    let Some(mut server) = Ganesha::start(false) else { return };
    let trace = compiled("rxe-v41", "dies");
    let url = format!("tcp://localhost:{}/export", server.port);
    let (code, report, error) = disturbed(&url, &server.export(), trace.name(), |_| server.kill());
    assert!(is_of_a_part(&report), "{report:#}");
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("connection refused") && error.contains("the run was aborted"), "{error}");
}

#[test]
fn an_interrupted_run_has_its_own_exit_code() {
    let Some(server) = Ganesha::start(false) else { return };
    let trace = compiled("rxe-v41", "ended");
    let url = format!("tcp://localhost:{}/export", server.port);
    let interrupt = |process: u32| {
        let process = rustix::process::Pid::from_raw(process as i32).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    };
    let (code, report, error) = disturbed(&url, &server.export(), trace.name(), interrupt);
    assert!(is_of_a_part(&report), "{report:#}");
    assert_eq!((code, &report["interrupted"]), (Some(3), &Json::Bool(true)), "{error}");
}

#[test]
fn a_url_of_another_version_than_the_trace_is_refused_before_anything_is_made() {
    let Some(server) = Ganesha::start(false) else { return };
    let trace = compiled("rxe-v41", "version");
    let url = format!("tcp://localhost:{}/export?vers=3&mountport={}", server.port, server.mount_port);
    let output = program(&["replay", "run", trace.name(), "--server", &url]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("the trace uses NFSv4"), "{error}");
    assert_eq!(fs::read_dir(server.export()).unwrap().count(), 0);
}

#[test]
fn a_check_of_which_little_can_be_replayed_is_not_green() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://localhost:{}/export", server.port);
    let capture = captures::path("rxe-v42-snap128");
    let check = ["check", "-q", "--server", &url, capture.to_str().unwrap()];
    assert_eq!(program(&check).status.code(), Some(3));
    let output = program(&[&check[..], &["--min-coverage", "0"]].concat());
    assert_eq!(output.status.code(), Some(0));
    for percent in ["-1", "101", "nan"] {
        let output = program(&[&check[..], &["--min-coverage", percent]].concat());
        assert_eq!(output.status.code(), Some(2), "{percent}");
    }
}

#[test]
fn a_capture_and_its_trace_are_replayed_with_all_steps_by_one_command() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://localhost:{}/export", server.port);
    let (capture, trace) = (captures::path("rxe-v41"), compiled("rxe-v41", "all-steps"));
    for file in [capture.to_str().unwrap(), trace.name()] {
        let output = program(&["replay", file, "--server", &url, "-T", "json", "-c", "1000"]);
        let report: Json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        assert_keeps(&validator("replay.schema.json"), &report, file);
        assert_eq!(report["trace"], *file);
        let of = |state: &str| report["states"][state].as_u64().unwrap();
        assert!(of("matched") + of("tolerated") > 200 && of("mismatched") == 0, "{report:#}");
        assert!(report["walk"]["bytes"].as_u64().unwrap() > 0, "{report:#}");
    }
    // The capture is read like by `compile`: in another dialect it has no Transaction, and nothing runs.
    let all = ["replay", capture.to_str().unwrap(), "--server", &url, "-T", "json"];
    for (dialect, is_replayed) in [("rfc8166", true), ("prototype", false)] {
        let output = program(&[&all[..], &["--max-memory", "64M", "--dialect", dialect]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        let steps = serde_json::from_slice(&output.stdout).map_or(0, |report: Json| {
            report["states"].as_object().unwrap().values().filter_map(Json::as_u64).sum::<u64>()
        });
        assert_eq!(steps > 200, is_replayed, "{dialect}: {steps} {text}");
        assert_eq!(output.status.code() == Some(0), is_replayed, "{dialect}: {text}");
    }
    let output = program(&[&all[..], &["--max-memory", "1K"]].concat());
    assert_eq!(output.status.code(), Some(2));
    // There is no subcommand, and a server must be given.
    assert_eq!(program(&["replay", trace.name()]).status.code(), Some(2));
    assert_eq!(program(&["replay", "--server", &url]).status.code(), Some(2));
}

#[test]
fn the_directory_of_a_run_is_removed_if_nothing_else_is_in_it() {
    let Some(server) = Ganesha::start(true) else { return };
    let export = server.export();
    let v3 = format!("tcp://localhost:{}{}?vers=3&mountport={}", server.port, export.display(), server.mount_port);
    let v4 = format!("tcp://localhost:{}/export", server.port);
    fs::write(export.join("bystander"), "not of any run").unwrap();
    let left = || {
        let names = fs::read_dir(&export).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    for (capture, url) in [("rxe-v41", &v4), ("rxe-v3", &v3)] {
        let trace = compiled(capture, "removed");
        let run = ["replay", "run", "-q", trace.name(), "--server", url, "--remove", "--clients", "2"];
        let output = program(&run);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)) && !error.contains("not removed"), "{error}");
        assert_eq!(left(), ["bystander"], "{capture}");
        // Files of others stay, however deep, and the marker of another trace does not count.
        for (directory, precious) in [("kept", "precious"), ("deep", "tree/precious")] {
            let of_this = ["--server", url, "--directory", directory];
            assert!(program(&[&["replay", "seed", "-q", trace.name()], &of_this[..]].concat()).status.success());
            let path = export.join(directory).join(precious);
            fs::write(&path, "of somebody").unwrap();
            // nfs-ganesha may list the directories of the tree from its cache, which does not have the file.
            let run = [&["replay", "run", "-q", trace.name(), "--seeded"], &of_this[..]].concat();
            let error = String::from_utf8_lossy(&program(&run).stderr).into_owned();
            assert!(!error.contains("an earlier run changed"), "{error}");
            let output = program(&[&run[..], &["--remove"]].concat());
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(error.contains(&format!("not removed: it contains {precious:?}")), "{error}");
            // Changes of a replay are not undone.
            assert!(error.contains(&format!("{directory}: an earlier run changed")), "{error}");
            assert_eq!(fs::read_to_string(path).unwrap(), "of somebody");
        }
        fs::remove_dir_all(export.join("deep")).unwrap();
        fs::remove_dir_all(export.join("kept")).unwrap();
    }
}
