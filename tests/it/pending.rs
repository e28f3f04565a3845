//! Reports of pending Calls.

use std::process::Command;

use serde_json::Value;

use crate::captures::{self, Temporary};
use crate::program::number;
use crate::schema;

/// XID of the READ of 4096 bytes from `/data/w/s2k`: its Call is frame 590, its RDMA Writes are 592 and 593, its Reply
/// is 595.
const XID: &str = "0xb38df27d";
const REPLY: u64 = 595;

/// Returns a pcap capture without one of its frames.
fn without(name: &str, frame: u64) -> Vec<u8> {
    let bytes = captures::bytes(name);
    let (mut at, mut number) = (24, 1);
    let mut left = bytes[..at].to_vec();
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let end = at + 16 + length;
        if number != frame {
            left.extend_from_slice(&bytes[at..end]);
        }
        (at, number) = (end, number + 1);
    }
    left
}

fn lines(arguments: &[&str], name: &str) -> Vec<String> {
    let file = Temporary::new(name, &without("rxe-v42", REPLY));
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).args(arguments).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn json(arguments: &[&str], name: &str) -> Vec<Value> {
    let lines = lines(&[&["-T", "json"], arguments].concat(), name);
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_call_pending_for_the_given_time_has_its_own_line() {
    let lines = json(&["-l", "--pending", "1"], "pending.pcap");
    let pending: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "pending").collect();
    let [call] = pending[..] else { panic!("{pending:?}") };
    schema::assert_keeps(&schema::validator("pending.schema.json"), call, "pending");
    assert_eq!((&call["xid"], &call["operation"], &call["path"]), (&XID.into(), &"READ".into(), &"/data/w/s2k".into()));
    assert_eq!((&call["slot"], &call["phase"], &call["moved_bytes"]), (&0.into(), &"data_out".into(), &2000.into()));
    assert_eq!(call["call"]["frames"], serde_json::json!([590]));
    let age_ns = number(call, "age_ns");
    // There is a frame at least every 300 ms.
    assert!((1_000_000_000..1_400_000_000).contains(&age_ns), "{age_ns}");
    // The Transaction follows when it is complete.
    let at = lines.iter().position(|line| line["kind"] == "pending");
    let done = lines.iter().position(|line| line["kind"] == "transaction" && line["xid"] == XID);
    assert!(at < done, "{at:?} {done:?}");
}

#[test]
fn operations_of_a_pending_call_have_the_paths_of_its_transaction() {
    let lines = json(&["--pending", "1"], "operation-paths.pcap");
    let paths = |kind: &str| {
        let mut of = lines.iter().filter(|line| line["kind"] == kind && line["xid"] == XID);
        let operations = of.next().unwrap()["operations"].as_array().unwrap();
        operations.iter().map(|operation| operation["path"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(paths("pending"), paths("transaction"));
    assert!(paths("pending").contains(&"/data/w/s2k".into()));
}

/// All that is known when a call is sent selects it, and that it is not complete.
#[test]
fn known_fields_select_pending_calls() {
    for (filter, count) in [
        ("nfsrdma.connection == 1 && nfsrdma.transport == \"rocev2\" && nfsrdma.direction == \"forward\"", 1),
        ("nfsrdma.client == 10.9.0.2 && nfsrdma.server == 10.9.0.1 && nfsrdma.client_port == 17", 1),
        ("nfsrdma.path == \"/data/w/s2k\" && nfsrdma.operation == \"READ\" && nfs.slotid == 0", 1),
        ("nfsrdma.chunk.kind == \"write\" && nfsrdma.chunk.offered == 4096 && nfsrdma.call.frame == 590", 1),
        ("nfsrdma.complete == 0 && nfsrdma.missing == \"reply\"", 1),
        ("nfsrdma.latency", 0),
        ("nfsrdma.status", 0),
        ("nfsrdma.client == 10.9.0.1", 0),
    ] {
        let lines = json(&["--pending", "1", "-Y", filter], "selected.pcap");
        assert_eq!(lines.iter().filter(|line| line["kind"] == "pending").count(), count, "{filter}");
    }
}

#[test]
fn nothing_is_reported_of_a_file_unless_it_is_asked_for() {
    for arguments in [&[][..], &["--pending", "0"], &["--pending", "1", "-Y", "nfs.opcode == WRITE"]] {
        let lines = json(arguments, "unasked.pcap");
        assert!(lines.iter().all(|line| line["kind"] != "pending"), "{arguments:?}");
    }
}

#[test]
fn a_filter_applies_to_pending_calls_as_seen_so_far() {
    let arguments = ["--pending", "1", "-Y", "nfs.opcode == READ && rpcordma.writes_count == 1"];
    let lines = json(&arguments, "filtered.pcap");
    assert_eq!(lines.iter().filter(|line| line["kind"] == "pending").count(), 1);
    // The values of the frames are still available when the Transaction is complete.
    let reads = lines.iter().filter(|line| line["kind"] == "transaction").count();
    let whole = json(&arguments[2..], "whole.pcap");
    assert_eq!(reads, whole.iter().filter(|line| line["kind"] == "transaction").count());
}

#[test]
fn the_list_shows_the_phase_of_a_pending_call() {
    let lines = lines(&["-l", "--pending", "1"], "list.pcap");
    let line = lines.iter().find(|line| line.contains("pending")).unwrap();
    assert!(line.contains("READ /data/w/s2k 0+4096"), "{line}");
    assert!(line.ends_with("pending: data out 1.95 KiB, slot 0"), "{line}");
}

/// Without `-l` lines wait for late duplicates, but names from their Replies are known before.
#[test]
fn a_call_in_flight_has_the_path_that_its_line_has() {
    for arguments in [&["--pending", "0.2"][..], &["--pending", "0.2", "-l"]] {
        let lines = json(arguments, "paths.pcap");
        let path = |kind: &str| {
            let of_kind = |line: &&Value| line["kind"] == kind && line["xid"] == XID;
            lines.iter().find(of_kind).map(|line| line["path"].clone())
        };
        assert_eq!(path("pending"), Some("/data/w/s2k".into()), "{arguments:?}");
        assert_eq!(path("pending"), path("transaction"), "{arguments:?}");
    }
    let list = self::lines(&["--pending", "0.2"], "paths-list.pcap");
    let labels: Vec<_> = list.iter().filter(|line| line.contains(XID)).collect();
    assert_eq!(labels.len(), 2, "{labels:?}");
    assert!(labels.iter().all(|line| line.contains("READ /data/w/s2k 0+4096")), "{labels:?}");
}

#[test]
fn a_call_that_is_too_old_is_given_up_and_counted() {
    let lines = json(&["--max-call-age", "1"], "old.pcap");
    let at = |xid: &str| lines.iter().position(|line| line["kind"] == "transaction" && line["xid"] == xid).unwrap();
    let given_up = &lines[at(XID)];
    assert_eq!(given_up["missing"], serde_json::json!(["reply"]));
    // Not at the end of the input.
    assert!(at(XID) + 100 < lines.len());
    assert_eq!(number(&lines.last().unwrap()["given_up"], "old_calls"), 1);
}

#[test]
fn invalid_durations_are_refused() {
    for option in ["--pending", "--max-call-age"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).args([option, "soon", "file"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("give a number of seconds"), "{error}");
    }
}

/// The first Reply of an OPEN, frame 2212 of `rxe-v42-loss`, came before the data of its Reply chunk, which was lost.
/// Its filehandle came with the second one, frame 2215, before the COPY and the CLOSE of the file.
#[test]
fn a_pending_call_has_the_path_that_a_delivered_copy_of_a_reply_gave() {
    let capture = captures::path("rxe-v42-loss");
    let lines = crate::program::output(&capture, &["-T", "json", "--pending", "0.0005"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (xid, operation) in [("0xbfc00cfc", "COPY"), ("0xc1c00cfc", "CLOSE")] {
        let path = |kind: &str| {
            let line = lines.iter().find(|line| line["kind"] == kind && line["xid"] == xid);
            let operations = line.unwrap_or_else(|| panic!("{kind} {xid}"))["operations"].as_array().unwrap();
            operations.iter().find(|entry| entry["op"] == operation).unwrap()["path"].clone()
        };
        assert!(path("transaction").as_str().is_some_and(|path| path.starts_with("/data/w/")), "{xid}");
        assert_eq!(path("pending"), path("transaction"), "{xid}");
    }
    let text = crate::program::output(&capture, &["--pending", "0.0005"]);
    let copy = text.lines().find(|line| line.contains(" COPY ") && line.contains(" pending: ")).unwrap();
    assert!(copy.contains("/data/w/s8k 0+8192 → copy8k 0"), "{copy}");
}
