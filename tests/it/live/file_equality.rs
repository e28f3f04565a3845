//! Live output equals that of the file, without delay.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::veth_link::{RECEIVER, Wire};
use crate::captures;
use crate::program;
use crate::schema;

/// Removes the values of a Transaction that differ each time: times, and frame numbers, whose count is kept.
///
/// The default capture filter accepts every segment of the well-known ports. At a port known only from rpcbind it
/// accepts RPC messages and no acknowledgements, so that the delivery of a Reply is unknown there.
fn timeless(mut value: Value) -> Value {
    fn strip(value: &mut Value, dropped: &[&str]) {
        match value {
            Value::Object(members) => {
                members.retain(|key, _| !dropped.contains(&key.as_str()));
                for (key, member) in members.iter_mut() {
                    match member {
                        Value::Array(frames) if key == "frames" => *member = frames.len().into(),
                        _ => strip(member, dropped),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| strip(item, dropped)),
            _ => {}
        }
    }
    // A lost copy is possible after a pause as long as an ACK timeout, and recovery in a server phase as long.
    let times = ["time", "end_time", "latency_ns", "phases_ns", "possible_recovery", "lost_copy"];
    strip(&mut value, &times);
    // The frame of a finding.
    strip(&mut value, &["frame"]);
    let is_acknowledged = ["client_port", "server_port"].iter().any(|port| {
        let port = value[port].as_u64();
        value["transport"] != "tcp" || port.is_some_and(|port| [111, 2049, 20049].contains(&port))
    });
    if !is_acknowledged {
        strip(&mut value, &["delivered"]);
    }
    value
}

fn transactions(lines: &[String]) -> Vec<Value> {
    let values = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values.filter(|value| value["kind"] == "transaction").map(timeless).collect()
}

/// Returns the counters of a capture without loss.
pub(super) fn capture(lines: &[String]) -> Value {
    let summary: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!(summary["kind"], "summary");
    schema::assert_keeps(&schema::validator("summary.schema.json"), &summary, "live");
    summary["capture"].clone()
}

fn seen_as_in_the_file(name: &'static str) {
    let Some(wire) = Wire::new() else { return };
    let mut program = wire.capture(&["-i", RECEIVER, "-T", "json"]);
    program.listen();
    wire.send(name, |player| player.play(1, None));
    // All sent frames are received at the end.
    let (lines, _) = program.interrupt();
    let expected: Vec<Value> =
        program::json(&captures::path(name)).transactions.into_iter().map(|one| timeless(one.0)).collect();
    let found = transactions(&lines);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(found.len(), expected.len(), "{name}");
    let counts = capture(&lines);
    assert_eq!(counts["received"], counts["decoded"], "{counts}");
    for dropped in ["dropped_by_kernel", "dropped_by_interface", "dropped_by_program"] {
        assert_eq!(counts[dropped], 0, "{counts}");
    }
}

#[test]
fn roce_is_seen_as_in_the_file() {
    seen_as_in_the_file("rxe-v42");
}

#[test]
fn nfsv3_with_all_that_is_beside_it_is_seen_as_in_the_file() {
    seen_as_in_the_file("rxe-v3");
}

#[test]
fn roce_over_ipv6_is_seen_as_in_the_file() {
    seen_as_in_the_file("rxe-v42-ip6");
}

#[test]
fn iwarp_is_seen_as_in_the_file() {
    seen_as_in_the_file("siw-v42");
}

#[test]
fn nfs_over_tcp_is_seen_as_in_the_file() {
    seen_as_in_the_file("tcp-v42");
}

/// The client acknowledges a Reply within a millisecond; the program does not wait two seconds for late duplicates.
#[test]
fn a_line_comes_when_the_reply_was_acknowledged_and_not_when_something_follows() {
    let Some(wire) = Wire::new() else { return };
    let mut program = wire.capture(&["-i", RECEIVER, "-T", "json", "-l"]);
    program.listen();
    let whole = program::json(&captures::path("rxe-v42")).transactions;
    // The READ of DESIGN's example: its Reply is frame 595.
    let reads: Vec<usize> = whole
        .iter()
        .filter(|one| one.text("operation") == Some("READ"))
        .filter_map(|one| program::frames(one.message("reply")?).last().map(|frame| *frame as usize))
        .collect();
    let last = reads[0];
    wire.send("rxe-v42", |player| {
        player.send(0..last);
        // The acknowledgement of the Reply follows soon.
        player.send(last..last + 2);
    });
    let sent = Instant::now();
    let is_read = |line: &String| line.contains(r#""operation":"READ""#);
    loop {
        let line = program.line(Duration::from_secs(20)).expect("there is a line");
        if is_read(&line) {
            break;
        }
    }
    assert!(sent.elapsed() < Duration::from_secs(1), "{:?}", sent.elapsed());
    program.interrupt();
}

#[test]
fn filters_fields_and_the_list_work_live() {
    let Some(wire) = Wire::new() else { return };
    let offline = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
            .args(arguments)
            .arg(captures::path("rxe-v42"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for arguments in [
        &["-Y", "nfs.opcode == READ", "-T", "fields", "-e", "rpc.xid", "-e", "nfs.offset4"][..],
        &["-Y", "nfs.opcode == WRITE", "-T", "csv", "-e", "rpc.xid", "-e", "nfs.count3", "-e", "nfs.count4"],
    ] {
        let live = wire.capture(&[arguments, &["-i", RECEIVER]].concat());
        wire.send("rxe-v42", |player| player.play(1, None));
        assert_eq!(live.interrupt().0, offline(arguments), "{arguments:?}");
    }
    // Ends after a tenth of the lines.
    let live = wire.capture(&["-i", RECEIVER, "-c", "23", "--summary", "none"]);
    wire.send("rxe-v42", |player| player.play(1, None));
    assert_eq!(live.end().0.len(), 24);
}

#[test]
fn a_capture_ends_by_itself_after_its_time_without_a_packet() {
    let Some(wire) = Wire::new() else { return };
    let begin = Instant::now();
    let (lines, _) = wire.capture(&["-i", RECEIVER, "-a", "duration:0.3"]).end();
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!(
        lines,
        ["0 frames, 0 B. 0 transactions on 0 connections. 0 packets passed the capture filter, none dropped."]
    );
}

#[test]
fn lint_of_an_interface_without_traffic_is_no_success() {
    let Some(wire) = Wire::new() else { return };
    let timed = wire.capture(&["lint", "-i", RECEIVER, "-a", "duration:0.3"]);
    let interrupted = wire.capture(&["lint", "-i", RECEIVER]);
    interrupted.signal(Signal::SIGINT);
    for program in [timed, interrupted] {
        let (code, errors) = program.gone();
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.ends_with("nothing to judge: no RPC-over-RDMA or NFS traffic in 0 frames\n"), "{errors}");
    }
}

#[test]
fn a_call_that_a_server_leaves_without_a_reply_is_reported_while_it_waits() {
    let Some(wire) = Wire::new() else { return };
    let mut program = wire.capture(&["-i", RECEIVER, "-T", "json", "--pending", "1"]);
    program.listen();
    // All frames before the Reply of the READ of `/data/w/s2k`, which is frame 595; then nothing follows.
    wire.send("rxe-v42", |player| player.send(0..593));
    let sent = Instant::now();
    let pending = loop {
        let line = program.line(Duration::from_secs(20)).expect("there is a line");
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["kind"] == "pending" {
            break line;
        }
    };
    assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
    assert_eq!(pending["xid"], "0xb38df27d");
    assert_eq!((&pending["path"], &pending["slot"]), (&"/data/w/s2k".into(), &0.into()));
    schema::assert_keeps(&schema::validator("pending.schema.json"), &pending, "live");
    program.interrupt();
}
