//! `check`: the baselines of the captures in `captures/`, reports for CI, and the commands of `docs/ci.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::captures;
use crate::program;
use crate::skipped::skip_without;

/// Temporary folder, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nfsrdma-inspect-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .arg("check")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"))
}

#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// Creates a folder with a small capture and its baseline.
fn blessed(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("trace.pcap", &captures::bytes("rxe-v42-deleg"));
    ends(&run(&folder.0, &["--bless", "trace.pcap"]), 0);
    folder
}

/// Changes an NFS4_OK of an operation in frame 87 of the capture to NFS4ERR_STALE.
fn damage(folder: &Folder) -> u64 {
    let mut bytes = captures::bytes("rxe-v42-deleg");
    // After the header of the file: time, lengths and bytes of each frame.
    let (mut at, mut frame) = (24, 0);
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    while at < bytes.len() {
        frame += 1;
        let length = word(&bytes, at + 8);
        // GETFH of a Reply, and its status.
        let getfh = b"\0\0\0\x0a\0\0\0\0\0\0\0\x14";
        let found = bytes[at..at + 16 + length].windows(getfh.len()).position(|window| window == getfh);
        if let Some(found) = found {
            bytes[at + found + 7] = 70;
            folder.write("trace.pcap", &bytes);
            return frame;
        }
        at += 16 + length;
    }
    panic!("there is no GETFH");
}

#[test]
fn the_captures_are_as_their_baselines_have_them() {
    let names = captures::ALL.map(captures::path);
    let names: Vec<_> = names.iter().map(|path| path.to_str().unwrap()).collect();
    let output = run(&captures::folder(), &names);
    let text = ends(&output, 0);
    assert!(text.ends_with(&format!("{} captures: {} unchanged\n", names.len(), names.len())), "{text}");
}

#[test]
fn a_changed_value_is_named_at_its_frame() {
    let folder = blessed("named");
    let frame = damage(&folder);
    let text = ends(&run(&folder.0, &["trace.pcap"]), 1);
    assert!(text.starts_with("DIFFERS   trace.pcap"), "{text}");
    let of_file = format!("frame {frame}: NFS 4.2 LOOKUP of /data, status: GETFH status: NFS4_OK → NFS4ERR_STALE\n");
    assert!(text.contains(&of_file), "{text}");
    assert!(text.ends_with("1 capture: 1 differs\n"), "{text}");
}

/// Verdict, coverage and first difference of each capture come last; each error names its capture.
#[test]
fn several_captures_end_with_one_line_each() {
    let folder = blessed("several");
    folder.write("same.pcap", &captures::bytes("rxe-v42-deleg"));
    ends(&run(&folder.0, &["--bless", "same.pcap"]), 0);
    folder.write("other.pcap", &captures::bytes("rxe-v42-deleg"));
    let frame = damage(&folder);
    let output = run(&folder.0, &["trace.pcap", "same.pcap", "other.pcap"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let lines: Vec<_> = text.lines().collect();
    let [.., differs, same, error, summary] = lines[..] else { panic!("{text}") };
    assert_eq!(lines.first(), Some(&"trace.pcap"));
    let expected = format!(" in 37 transactions; first: frame {frame}: NFS 4.2 LOOKUP of /data, ");
    assert!(differs.starts_with("DIFFERS   trace.pcap  ") && differs.contains(&expected), "{differs}");
    assert_eq!(same, "same      same.pcap   37 transactions");
    assert_eq!(error, "ERROR     other.pcap  no baseline; write it with: check --bless other.pcap");
    assert_eq!(summary, "3 captures: 1 unchanged, 1 differs, 1 without a baseline");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("nfsrdma-inspect: other.pcap"));
}

/// RFC 8881 section 16.2.3: a Reply with NFS4_OK has a result for each operation. Here the count of a Reply is one less
/// than its results, so that the last one belongs to nothing.
#[test]
fn a_message_that_is_not_decoded_to_its_end_is_seen_everywhere() {
    let folder = blessed("undecoded");
    let mut bytes = captures::bytes("rxe-v42-deleg");
    // Status, tag, number of results, SEQUENCE and its status.
    let begins = |window: &[u8]| {
        window.starts_with(&[0; 11]) && window[11] > 2 && window[12..].starts_with(b"\0\0\0\x35\0\0\0\0")
    };
    let at = bytes.windows(20).position(begins).expect("a reply to a COMPOUND with SEQUENCE");
    let operations = bytes[at + 11];
    bytes[at + 11] -= 1;
    let capture = folder.write("trace.pcap", &bytes);

    let lines = program::json(&capture);
    let changed: Vec<_> = { lines.transactions.iter() }.filter(|t| t.0["complete"] == false).collect();
    let [changed] = changed[..] else { panic!("{changed:?}") };
    let undecoded = &changed.0["reply"]["undecoded"];
    let reason = format!("results of {} of {operations} operations only", operations - 1);
    assert_eq!(undecoded["reason"], reason, "{changed:?}");
    let undecoded_part = format!("undecoded:reply:{}-", undecoded["offset"]);
    assert_eq!(changed.missing(), [undecoded_part.as_str(), "reply:wrong-result"]);
    assert_eq!(changed.0["call"]["undecoded"], Value::Null);
    let summary = lines.summary.expect("a summary");
    assert_eq!((&summary["incomplete"], &summary["missing"]["undecoded"]), (&1.into(), &1.into()));

    let list = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).arg(&capture).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert_eq!(list.lines().filter(|line| line.ends_with(" wrong result")).count(), 1, "{list}");
    assert!(list.contains("1 incomplete (not fully"), "{list}");

    let text = ends(&run(&folder.0, &["trace.pcap"]), 1);
    assert!(text.contains("undecoded:reply:"), "{text}");
}

#[test]
fn blessing_again_changes_nothing_and_keeps_the_settings() {
    let folder = blessed("again");
    let first = folder.read("trace.pcap.baseline");
    assert!(ends(&run(&folder.0, &["--bless", "trace.pcap"]), 0).starts_with("same "));
    assert_eq!(folder.read("trace.pcap.baseline"), first);
    let settings = "[settings]\n# Since the upgrade of March:\nignore status,inline # both\n\ntolerate frames 5%\n";
    let set = first.replace("[settings]\n", settings);
    folder.write("trace.pcap.baseline", set.as_bytes());
    ends(&run(&folder.0, &["--bless", "trace.pcap"]), 0);
    assert_eq!(folder.read("trace.pcap.baseline"), set);
}

#[test]
fn differences_that_a_baseline_ignores_or_tolerates_do_not_count() {
    let folder = blessed("ignored");
    damage(&folder);
    let text = folder.read("trace.pcap.baseline");
    // The status ends the COMPOUND, so that the rest is not decoded.
    let set = text.replace(
        "[settings]\n",
        "[settings]\nignore status\nignore undecoded\nignore incomplete\nignore LOOKUP\nignore OPEN\n",
    );
    folder.write("trace.pcap.baseline", set.as_bytes());
    ends(&run(&folder.0, &["trace.pcap"]), 0);
    let folder = blessed("tolerated");
    let text = folder.read("trace.pcap.baseline").replace("\nframes 197\n", "\nframes 190\n");
    folder.write("trace.pcap.baseline", text.as_bytes());
    assert!(ends(&run(&folder.0, &["trace.pcap"]), 1).contains("capture, account: frames: 190 → 197"));
    let text = text.replace("[settings]\n", "[settings]\ntolerate frames 7\n");
    folder.write("trace.pcap.baseline", text.as_bytes());
    ends(&run(&folder.0, &["trace.pcap"]), 0);
}

#[test]
fn unreadable_files_are_reported_and_the_others_are_checked() {
    let folder = blessed("unreadable");
    folder.write("other.pcap", &captures::bytes("rxe-v42-deleg"));
    let text = ends(&run(&folder.0, &["other.pcap", "trace.pcap", "none.pcap"]), 2);
    assert!(text.contains("other.pcap.baseline: no baseline; write it with: check --bless other.pcap"), "{text}");
    assert!(text.contains("none.pcap: cannot open: no such file or directory; check the path"), "{text}");
    assert!(text.contains("same      trace.pcap"), "{text}");
    assert!(text.contains("3 captures: 1 unchanged, 1 without a baseline, 1 not readable\n"), "{text}");
    assert_eq!(text.matches("o such file").count(), 2, "{text}");
    folder.write("trace.pcap.baseline", b"nfsrdma-inspect baseline 1\n");
    assert!(ends(&run(&folder.0, &["trace.pcap"]), 2).contains("trace.pcap.baseline: line 1: baseline version 1"));
    folder.write("trace.pcap.baseline", b"Dear Bob,\n");
    assert!(ends(&run(&folder.0, &["trace.pcap"]), 2).contains("line 1: not a baseline"));
    folder.write("trace.pcap.baseline", b"nfsrdma-inspect baseline 2\n\x1b[31m\n");
    let text = ends(&run(&folder.0, &["trace.pcap"]), 2);
    assert!(text.contains("line 2: a control character") && !text.contains('\u{1b}'), "{text}");
    folder.write("trace.pcap.baseline", b"nfsrdma-inspect baseline 2\n\xff\n");
    assert!(ends(&run(&folder.0, &["trace.pcap"]), 2).contains("line 2: a control character"));
}

/// A FIFO cannot be read a second time for the paths of the differences, which are still differences.
#[test]
fn capture_from_fifo_differs() {
    let folder = blessed("fifo");
    let _ = damage(&folder);
    let path = folder.0.join("trace.pcap");
    let expected = ends(&run(&folder.0, &["trace.pcap"]), 1);
    assert!(expected.contains("DIFFERS"), "{expected}");
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let writer = std::thread::spawn(move || fs::write(&path, bytes));
    // A command that waits for another writer does not end.
    let output = Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_nfsrdma-inspect"), "check", "trace.pcap"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let text = ends(&output, 1);
    assert_eq!(text.lines().last(), expected.lines().last());
    writer.join().unwrap().unwrap();
}

#[test]
fn a_capture_with_the_name_of_a_baseline_is_not_replaced() {
    let folder = blessed("capture-baseline");
    for name in ["rxe-v42-deleg", "rxe-v42-credits"] {
        let capture = captures::bytes(name);
        folder.write("trace.pcap.baseline", &capture);
        let text = ends(&run(&folder.0, &["--bless", "trace.pcap"]), 2);
        assert!(text.contains("trace.pcap.baseline: not a baseline, and not replaced; move or remove it"), "{text}");
        assert!(fs::read(folder.0.join("trace.pcap.baseline")).unwrap() == capture, "{name}");
    }
}

#[test]
fn a_file_that_is_no_baseline_is_not_replaced() {
    let folder = blessed("not-baseline");
    let right = folder.read("trace.pcap.baseline");
    let long = "x".repeat(1 << 20);
    for other in ["Dear Bob,\n", "\n", &long, &format!("\n{right}"), &format!("Dear Bob,\n{right}")] {
        folder.write("trace.pcap.baseline", other.as_bytes());
        let text = ends(&run(&folder.0, &["--bless", "trace.pcap"]), 2);
        let last = text.lines().last().unwrap();
        assert!(
            last.ends_with("trace.pcap.baseline: not a baseline, and not replaced; move or remove it, and bless again"),
            "{text}"
        );
        assert_eq!(folder.read("trace.pcap.baseline"), other);
        assert!(ends(&run(&folder.0, &["trace.pcap"]), 2).contains("not a baseline"));
    }
}

#[test]
fn a_baseline_that_cannot_be_read_is_written_again_and_keeps_its_settings() {
    let folder = blessed("unreadable-blessed");
    let right = folder.read("trace.pcap.baseline");
    let settings = "[settings]\n# ours\nignore inline\n";
    let conflict = "[settings]\n# ours\n<<<<<<< HEAD\nignore inline\n=======\nignore inline\n>>>>>>> other\n";
    for (spoiled, expected) in [
        ("nfsrdma-inspect baseline 1\n\n[settings]\n# ours\nignore inline\n\n[capture]\n".to_owned(), settings),
        (right.replace("[settings]\n", conflict), settings),
        (format!("<<<<<<< HEAD\n{right}"), "[settings]\n"),
        (format!("<<<<<<< HEAD\n{right}=======\n{right}>>>>>>> other\n"), "[settings]\n"),
        (String::new(), "[settings]\n"),
    ] {
        folder.write("trace.pcap.baseline", spoiled.as_bytes());
        ends(&run(&folder.0, &["trace.pcap"]), 2);
        assert!(ends(&run(&folder.0, &["--bless", "trace.pcap"]), 0).starts_with("blessed "));
        assert_eq!(folder.read("trace.pcap.baseline"), right.replace("[settings]\n", expected));
        ends(&run(&folder.0, &["trace.pcap"]), 0);
    }
}

#[test]
fn an_invalid_setting_is_reported_and_preserved() {
    let folder = blessed("typo");
    let right = folder.read("trace.pcap.baseline");
    for (line, what) in [
        ("ignore NOSUCHOP", "unknown operation NOSUCHOP"),
        ("ignore READ,REDA", "unknown operation REDA; did you mean READ?"),
        ("tolerate nosuch 5", "unknown field, length or count nosuch"),
        ("tolerate frames inf%", "give a number, such as 4096, or a percentage, such as 5%"),
    ] {
        let set = right.replace("[settings]\n", &format!("[settings]\n{line}\n"));
        folder.write("trace.pcap.baseline", set.as_bytes());
        for arguments in [&["trace.pcap"][..], &["--bless", "trace.pcap"]] {
            let text = ends(&run(&folder.0, arguments), 2);
            assert!(text.contains(&format!("trace.pcap.baseline: line 6: {what}")), "{text}");
        }
        assert_eq!(folder.read("trace.pcap.baseline"), set);
    }
}

#[test]
fn a_capture_without_transactions_has_no_baseline() {
    let folder = Folder::new("nothing");
    folder.write("empty.pcap", &captures::bytes("rxe-v42-deleg")[..24]);
    assert!(ends(&run(&folder.0, &["--bless", "empty.pcap"]), 2).contains("empty.pcap: no NFS transactions"));
    assert!(!folder.0.join("empty.pcap.baseline").exists());
}

#[test]
fn differences_that_the_settings_leave_out_are_counted() {
    let folder = blessed("counted");
    many_differences(&folder);
    let text = folder.read("trace.pcap.baseline").replace("[settings]\n", "[settings]\nignore argument,result\n");
    folder.write("trace.pcap.baseline", text.as_bytes());
    let text = ends(&run(&folder.0, &["trace.pcap"]), 0);
    assert!(text.starts_with("same ") && text.contains(" left out by its settings"), "{text}");
}

#[test]
fn a_value_of_a_baseline_is_shown_as_that_of_the_capture() {
    let folder = blessed("shown");
    let text = folder.read("trace.pcap.baseline").replacen(" access=0x1df ->", " access=0x1de ->", 1);
    folder.write("trace.pcap.baseline", text.as_bytes());
    let text = ends(&run(&folder.0, &["trace.pcap"]), 1);
    assert!(text.contains("ACCESS access: 0x1de (") && text.contains(") → 0x1df ("), "{text}");
}

/// Validates a report against a schema with xmllint, if it is installed.
fn validates(folder: &Folder, report: &str) {
    for schema in ["jenkins.xsd", "ant.xsd"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/junit").join(schema);
        let output =
            Command::new("xmllint").args(["--noout", "--schema"]).arg(path).arg(report).current_dir(&folder.0).output();
        let Ok(output) = output else {
            skip_without("xmllint");
            return;
        };
        assert!(output.status.success(), "{schema}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_report_keeps_the_schemas_of_junit() {
    let folder = blessed("junit");
    let frame = damage(&folder);
    folder.write("none.pcap", &captures::bytes("rxe-v42-deleg"));
    let arguments = ["--junit", "report.xml", "trace.pcap", "none.pcap"];
    ends(&run(&folder.0, &arguments), 2);
    let report = folder.read("report.xml");
    assert_eq!(report.matches("<testsuite ").count(), 2);
    assert_eq!(report.matches("<error ").count(), 1);
    assert!(report.contains(&format!("message=\"frame {frame}: NFS 4.2 LOOKUP of /data, ")), "{report}");
    assert!(report.contains("GETFH status: NFS4_OK → NFS4ERR_STALE"), "{report}");
    validates(&folder, "report.xml");
}

#[test]
fn a_line_end_in_the_name_of_a_capture_is_a_reference_in_a_report() {
    let folder = blessed("line-end");
    folder.write("n\nm.pcap", &captures::bytes("rxe-v42-deleg"));
    ends(&run(&folder.0, &["--junit", "report.xml", "n\nm.pcap"]), 2);
    let report = folder.read("report.xml");
    for attribute in [" name=\"n&#10;m.pcap\"", " package=\"n&#10;m\"", " classname=\"n&#10;m\""] {
        assert!(report.contains(attribute), "{report}");
    }
    assert!(report.lines().all(|line| line.matches('"').count() % 2 == 0), "{report}");
    validates(&folder, "report.xml");
}

/// Writes a baseline with two operations that differ from the capture: one many times, and one once.
fn many_differences(folder: &Folder) -> u64 {
    let text = folder.read("trace.pcap.baseline");
    let mut data = 0;
    let lines = text.lines().map(|line| {
        if line.starts_with("  READ ") {
            data += 1;
            line.replace(" eof=true", " eof=false")
        } else {
            line.replace(" share_deny=OPEN4_SHARE_DENY_NONE", " share_deny=OPEN4_SHARE_DENY_READ")
        }
    });
    let lines: Vec<_> = lines.collect();
    folder.write("trace.pcap.baseline", (lines.join("\n") + "\n").as_bytes());
    data
}

#[test]
fn a_case_fails_for_counted_differences_even_if_not_shown() {
    let folder = blessed("cases");
    let reads = many_differences(&folder);
    let arguments = ["-c", "1", "--junit", "report.xml", "trace.pcap"];
    let text = ends(&run(&folder.0, &arguments), 1);
    assert!(reads > 0 && text.contains("\n  and "), "{text}");
    let report = folder.read("report.xml");
    assert!(report.contains("failures=\"2\""), "{report}");
    for case in ["NFS 4.2 OPEN", "NFS 4.2 READ"] {
        let start = report.find(&format!("name=\"{case}\"")).unwrap();
        assert!(report[start..].lines().nth(1).unwrap().contains("<failure "), "{report}");
    }
}

#[test]
fn as_many_differences_are_given_as_are_asked_for() {
    let folder = blessed("asked");
    many_differences(&folder);
    let lines = |arguments: &[&str]| {
        let output = run(&folder.0, &[&["-T", "json", "trace.pcap"], arguments].concat());
        let lines: Vec<Value> =
            str::from_utf8(&output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let check = lines.last().unwrap();
        assert_eq!(check["kind"], "check");
        (lines.len() as u64 - 1, check["differences"].as_u64().unwrap())
    };
    let (given, all) = lines(&[]);
    assert!(given == all && all > 3, "{given} {all}");
    assert_eq!(lines(&["-c", "2"]), (2, all));
    let text = |count: &str| ends(&run(&folder.0, &["-c", count, "trace.pcap"]), 1);
    assert_eq!(text("100000").lines().count() as u64, all + 2);
    assert!(text("0").contains(&format!("  and {all} more; -c shows more")));
}

#[test]
fn every_line_keeps_the_schema() {
    let folder = blessed("schema");
    folder.write("same.pcap", &captures::bytes("rxe-v42-deleg"));
    ends(&run(&folder.0, &["--bless", "same.pcap"]), 0);
    damage(&folder);
    let output = run(&folder.0, &["-T", "json", "trace.pcap", "same.pcap", "none.pcap"]);
    ends(&output, 2);
    let validator = crate::schema::validator("comparison.schema.json");
    let mut outcomes = Vec::new();
    for line in str::from_utf8(&output.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        crate::schema::assert_keeps(&validator, &line, "check");
        outcomes.extend(line["outcome"].as_str().map(str::to_owned));
    }
    assert_eq!(outcomes, ["different", "same", "unreadable"]);
}

/// Returns the commands of `docs/ci.md`: after `run:` in the workflow of GitHub, under `script:` in the job of GitLab,
/// and after a `$` in the console.
fn commands_of_the_document() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci.md");
    let text = fs::read_to_string(path).unwrap();
    let command = |line: &str| {
        let line = line.trim();
        let start = ["$ ", "- run: ", "run: ", "- "].into_iter().find_map(|start| line.strip_prefix(start))?;
        let start = start.strip_suffix(" || true").unwrap_or(start);
        start.starts_with("nfsrdma-inspect ").then(|| start.to_owned())
    };
    text.lines().filter_map(command).collect()
}

#[test]
fn commands_of_the_document_on_ci_work() {
    let folder = Folder::new("document");
    fs::create_dir_all(folder.0.join("traces")).unwrap();
    folder.write("traces/mount.pcap", &captures::bytes("rxe-v42-deleg"));
    folder.write("traces/upgrade.pcap", &captures::bytes("rxe-v42-deleg"));
    ends(&run(&folder.0, &["--bless", "traces/upgrade.pcap"]), 0);
    let commands = commands_of_the_document();
    assert!(commands.len() >= 5, "{commands:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    let paths = std::env::join_paths(
        [program.parent().unwrap().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    for command in &commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(&folder.0)
            .env("PATH", paths.as_ref().unwrap())
            .output()
            .unwrap();
        ends(&output, 0);
        if command.contains("--junit") {
            validates(&folder, "report.xml");
        }
    }
}

/// Offset of the flags of an MPA start-up frame, over IPv4 with TCP timestamps.
const MPA_FLAGS: usize = 66 + 16;

/// A finding that belongs to no transaction: a reserved bit of the MPA Request.
#[test]
fn a_new_finding_about_a_connection_is_a_difference() {
    let folder = Folder::new("connection-finding");
    let mut frames = crate::mutations::frames("siw-v42");
    frames.truncate(400);
    folder.write("trace.pcap", &crate::tunnels::pcap(&frames));
    ends(&run(&folder.0, &["--bless", "trace.pcap"]), 0);
    assert!(!folder.read("trace.pcap.baseline").contains("findings."));
    let is_request = |bytes: &[u8]| bytes.get(66..).is_some_and(|data| data.starts_with(b"MPA ID Req Frame"));
    let request = frames.iter_mut().find(|frame| is_request(&frame.bytes)).unwrap();
    request.bytes[MPA_FLAGS] |= 0x01;
    request.seal();
    folder.write("trace.pcap", &crate::tunnels::pcap(&frames));
    let said = ends(&run(&folder.0, &["trace.pcap"]), 1);
    assert!(said.contains("capture, finding: findings rdmap/startup: 0 → 1"), "{said}");
    ends(&run(&folder.0, &["--bless", "trace.pcap"]), 0);
    assert!(folder.read("trace.pcap.baseline").contains("\nfindings.rdmap/startup 1\n"));
    ends(&run(&folder.0, &["trace.pcap"]), 0);
}

/// Where `lint` shows it, too.
#[test]
fn a_new_finding_of_the_requester_is_at_its_call() {
    let folder = Folder::new("finding-of-call");
    let mut frames = crate::mutations::frames("rxe-v42");
    frames.truncate(600);
    folder.write("trace.pcap", &crate::tunnels::pcap(&frames));
    ends(&run(&folder.0, &["--bless", "trace.pcap"]), 0);
    // The credits that the Call of EXCHANGE_ID in frame 10 asks for. Its header begins behind Ethernet, IPv4, UDP and
    // BTH.
    frames[9].bytes[54 + 8..54 + 12].fill(0);
    folder.write("trace.pcap", &crate::tunnels::pcap(&frames));
    let said = ends(&run(&folder.0, &["trace.pcap"]), 1);
    assert!(said.contains("frame 10: ") && said.contains(", finding: none → rpcrdma/credit-zero"), "{said}");
    let found = crate::lint::lint(&["-T", "json"], Some(&folder.0.join("trace.pcap")));
    let lines = String::from_utf8(found.stdout).unwrap();
    let line = lines.lines().find(|line| line.contains("\"rpcrdma/credit-zero\"")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(line).unwrap()["frames"][0], 10);
}

#[test]
fn a_new_and_a_vanished_finding_are_differences() {
    let folder = Folder::new("findings");
    let good = {
        let mut frames = crate::mutations::frames("rxe-v42");
        frames.truncate(600);
        crate::tunnels::pcap(&frames)
    };
    let broken = crate::tunnels::pcap(&crate::lint::without_credits());
    let line = "  findings rpcrdma/credit-zero";
    for (blessed, now, text) in
        [(&good, &broken, "none → rpcrdma/credit-zero"), (&broken, &good, "rpcrdma/credit-zero → none")]
    {
        folder.write("trace.pcap", blessed);
        ends(&run(&folder.0, &["--bless", "trace.pcap"]), 0);
        let baseline = folder.read("trace.pcap.baseline");
        assert_eq!(baseline.lines().filter(|of| *of == line).count(), usize::from(blessed == &broken));
        ends(&run(&folder.0, &["trace.pcap"]), 0);

        folder.write("trace.pcap", now);
        let said = ends(&run(&folder.0, &["--junit", "report.xml", "trace.pcap"]), 1);
        assert!(said.contains(&format!(", finding: {text}")) && said.contains("frame 8: "), "{said}");
        let report = folder.read("report.xml");
        assert!(report.contains("finding") && report.matches("<failure ").count() == 1, "{report}");
        let said = ends(&run(&folder.0, &["-T", "json", "trace.pcap"]), 1);
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let validator = crate::schema::validator("comparison.schema.json");
        let mut kinds = Vec::new();
        for line in lines {
            crate::schema::assert_keeps(&validator, &line, "check");
            if line["kind"] == "difference" {
                kinds.push(line["difference"].as_str().unwrap().to_owned());
            }
        }
        assert_eq!(kinds, ["finding"]);

        // Settings can leave it out.
        folder
            .write("trace.pcap.baseline", baseline.replace("[settings]\n", "[settings]\nignore finding\n").as_bytes());
        let said = ends(&run(&folder.0, &["trace.pcap"]), 0);
        assert!(said.contains("1 difference left out by its settings"), "{said}");
        fs::remove_file(folder.0.join("trace.pcap.baseline")).unwrap();
    }
}

/// The port 1 of loopback refuses connections.
#[test]
fn reports_have_the_captures_that_no_server_replayed() {
    let folder = Folder::new("refused");
    folder.write("one.pcap", &captures::bytes("rxe-v42-deleg"));
    folder.write("two.pcap", b"no capture");
    let server = ["--server", "tcp://127.0.0.1:1/export"];
    let reports = ["--junit", "report.xml", "--html", "report.html"];
    for (captures, code, errors) in [
        (&["one.pcap"][..], 4, &["refused"][..]),
        (&["missing.pcap"], 2, &["No such file"]),
        (&["one.pcap", "two.pcap"], 2, &["refused", "not a capture"]),
    ] {
        let said = ends(&run(&folder.0, &[captures, &server, &reports].concat()), code).to_lowercase();
        let (xml, html) = (folder.read("report.xml"), folder.read("report.html"));
        assert_eq!(xml.matches("<error ").count(), captures.len(), "{xml}");
        assert_eq!(html.matches("<p class=\"outcome bad\">not replayed</p>").count(), captures.len(), "{html}");
        for (capture, error) in captures.iter().zip(errors) {
            assert!(xml.contains(&format!("<testsuite name=\"{capture}\"")), "{xml}");
            assert!(html.contains(capture), "{html}");
            let error = error.to_lowercase();
            for text in [&said, &xml.to_lowercase(), &html.to_lowercase()] {
                assert!(text.contains(&error), "{error} is not in {text}");
            }
        }
    }
}
