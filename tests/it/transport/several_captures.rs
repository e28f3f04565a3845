//! `check` of several captures: the lines at the end, and the names in errors.

use std::fs;
use std::sync::Arc;

use super::auxiliary_programs::serve;
use super::program::{Passing, program};
use super::proxy::injected_faults::FaultInjector;
use crate::captures;

/// Changes the rights that the first ACCESS returns: the capture differs from every server.
fn with_other_rights(capture: &str) -> Vec<u8> {
    let mut bytes = captures::bytes(capture);
    // ACCESS, its status, and the supported and granted rights of a reply.
    let access = b"\0\0\0\x03\0\0\0\0\0\0\x01\xdf\0\0\x01";
    let at = bytes.windows(access.len()).position(|window| window == access).expect("a reply to ACCESS");
    bytes[at + access.len()] ^= 1;
    bytes
}

#[test]
fn several_captures_end_with_one_line_each() {
    let proxy = serve(&Arc::default(), FaultInjector::honest());
    let url = format!("tcp://127.0.0.1:{}/", proxy.port);
    let (same, changed) = (captures::path("rxe-v42-deleg"), Passing::new("changed-access.pcap"));
    fs::write(changed.name(), with_other_rights("rxe-v42-deleg")).unwrap();
    let files = [same.to_str().unwrap(), changed.name(), "nowhere.pcap"];
    let output = program(&[&["check", "--server", &url][..], &files].concat());
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{said}");
    let last: Vec<_> = text.lines().rev().take(3).collect();
    let [refused, differs, same_line] = last[..] else { panic!("{text}") };
    assert!(same_line.starts_with(&format!("ok          {}  ", files[0])), "{same_line}");
    assert!(same_line.contains(" steps replayed, 100% of the final check"), "{same_line}");
    assert!(differs.starts_with(&format!("DIFFERS     {}  1 step differs; ", files[1])), "{differs}");
    let (_, first) = differs.split_once("; first: ").expect("a difference");
    assert!(first.starts_with("NFS 4.2 ACCESS of /"), "{first}");
    assert!(first.contains("ACCESS.access"), "{first}");
    assert!(refused.starts_with("ERROR       nowhere.pcap  "), "{refused}");
    assert_eq!(refused.matches("nowhere.pcap").count(), 1, "{refused}");
    assert!(said.lines().all(|line| line.contains("nowhere.pcap")), "{said}");
}

/// With `-q`, one line per capture: verdict, coverage, and the first difference with its path.
#[test]
fn quiet_check_has_line_per_capture() {
    let proxy = serve(&Arc::default(), FaultInjector::honest());
    let url = format!("tcp://127.0.0.1:{}/", proxy.port);
    let (same, changed) = (captures::path("rxe-v42-deleg"), Passing::new("quiet-access.pcap"));
    fs::write(changed.name(), with_other_rights("rxe-v42-deleg")).unwrap();
    let files = [same.to_str().unwrap(), changed.name(), "nowhere.pcap"];
    let lines = |files: &[&str]| {
        let output = program(&[&["check", "-q", "--server", &url][..], files].concat());
        let text = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
        (output.status.code(), text)
    };
    let (code, text) = lines(&files);
    let [same_line, differs, refused] = &text[..] else { panic!("{text:#?}") };
    assert_eq!(code, Some(2));
    assert!(same_line.starts_with(&format!("ok          {}  ", files[0])), "{same_line}");
    assert!(same_line.ends_with(" steps replayed, 100% of the final check"), "{same_line}");
    assert!(differs.starts_with(&format!("DIFFERS     {}  1 step differs; ", files[1])), "{differs}");
    assert!(differs.contains("; first: NFS 4.2 ACCESS of /"), "{differs}");
    assert!(refused.starts_with("ERROR       nowhere.pcap  "), "{refused}");
    // The exit code of one capture says it all, unless something differs.
    assert_eq!(lines(&files[..1]), (Some(0), Vec::new()));
    let (code, text) = lines(&files[1..2]);
    assert_eq!((code, &text[..]), (Some(1), std::slice::from_ref(differs)));
}

/// A capture that cannot be replayed is named, not its compiled trace.
#[test]
fn error_names_capture() {
    let proxy = serve(&Arc::default(), FaultInjector::honest());
    let url = format!("tcp://127.0.0.1:{}/?vers=4.1", proxy.port);
    let capture = captures::path("rxe-v42-deleg");
    let output = program(&["check", "--server", &url, capture.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected = format!("nfsrdma-inspect: {}: the trace uses NFSv4.2", capture.display());
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn capture_without_replay_has_json_line() {
    let proxy = serve(&Arc::default(), FaultInjector::honest());
    let url = format!("tcp://127.0.0.1:{}/", proxy.port);
    let same = captures::path("rxe-v42-deleg");
    let output = program(&["check", "-T", "json", "--server", &url, same.to_str().unwrap(), "nowhere.pcap"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((output.status.code(), lines[0]["kind"].as_str()), (Some(2), Some("replay")), "{text}");
    let last = lines.last().unwrap();
    assert_eq!([&last["kind"], &last["file"], &last["outcome"]], ["check", "nowhere.pcap", "unreadable"]);
    assert!(last["error"].as_str().unwrap().contains("nowhere.pcap"), "{last}");
}

/// The old report would be taken for that of the capture that cannot be read.
#[test]
fn reports_of_unreadable_capture_are_replaced() {
    let cut = Passing::new("cut-frame.pcap");
    let whole = captures::bytes("rxe-v42-deleg");
    fs::write(cut.name(), &whole[..whole.len() - 3]).unwrap();
    for capture in [cut.name(), "nowhere.pcap"] {
        for option in ["--junit", "--html"] {
            let report = Passing::new(&format!("old{option}"));
            fs::write(report.name(), "OLD").unwrap();
            let output = program(&["replay", capture, "--server", "tcp://127.0.0.1:1/", option, report.name(), "-q"]);
            assert_eq!(output.status.code(), Some(2));
            let text = fs::read_to_string(report.name()).unwrap();
            assert!(!text.contains("OLD") && text.contains(capture), "{option}: {text}");
        }
    }
}
