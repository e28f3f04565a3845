//! `-Y` in each view: the selection, and the counts of the summary.

use std::process::{Command, Output};

use serde_json::Value;

use crate::captures;

fn run(arguments: &[&str], capture: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    command.args(arguments).arg(captures::path(capture)).output().unwrap()
}

/// Returns the lines of `-T json`, the summary last.
fn json(arguments: &[&str], capture: &str) -> Vec<Value> {
    let output = run(&[&["-T", "json"], arguments].concat(), capture);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn transactions(filter: &str, capture: &str) -> Vec<Value> {
    json(&["-Y", filter, "--summary", "none"], capture)
}

/// Verifies that `-Y` selects exactly the Transactions for which `holds` returns `true`.
fn selects(filter: &str, capture: &str, holds: impl Fn(&Value) -> bool) {
    let index = |lines: Vec<Value>| -> Vec<u64> { lines.iter().map(|line| line["index"].as_u64().unwrap()).collect() };
    let mut expected = json(&["--summary", "none"], capture);
    expected.retain(|line| holds(line));
    assert!(!expected.is_empty(), "{filter}");
    assert_eq!(index(transactions(filter, capture)), index(expected), "{filter}");
}

fn segments<'l>(line: &'l Value, chunks: &str) -> Vec<&'l Value> {
    let chunks = line[chunks].as_array().into_iter().flatten();
    chunks.flat_map(|chunk| chunk["segments"].as_array().unwrap()).collect()
}

#[test]
fn a_filter_that_selects_nothing_is_reported() {
    let text = |arguments: &[&str]| String::from_utf8(run(arguments, "rxe-v42").stdout).unwrap();
    let nothing = "nfsrdma.operation == SETCLIENTID";
    assert_eq!(text(&["-Y", nothing]), "No transaction matches the display filter.\n");
    assert_eq!(text(&["-q", "-Y", nothing]), "No transaction matches the display filter.\n");
    let frames = ["--view", "frames", "-Y", "frame.number == 0"];
    assert_eq!(text(&frames), "No frame matches the display filter.\n");
    let summary = json(&["-Y", nothing], "rxe-v42").pop().unwrap();
    assert_eq!((&summary["frames"], &summary["transactions"]), (&0.into(), &0.into()));
}

/// The capture ends in the seventh segment of the WRITE of 64 KiB.
#[test]
fn frames_of_partial_call_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part.pcap");
    let part = part.to_str().unwrap();
    let output = run(&["--view", "frames", "-c", "80", "-w", part], "tcp-v42");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for filter in ["rpc.xid == 0x91f270a7", "frame.number == 74"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
        let output = command.args(["-q", "-T", "json", "-Y", filter, part]).output().unwrap();
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Frames 74 to 80 of 1,514 bytes each.
        assert_eq!((&summary["frames"], &summary["bytes"]), (&7.into(), &(7 * 1514).into()), "{filter}: {summary}");
    }
}

#[test]
fn a_transaction_is_selected_by_its_derived_values() {
    selects("nfsrdma.operation == READ", "rxe-v42", |line| line["operation"] == "READ");
    selects("nfsrdma.latency > 0.01", "rxe-v42", |line| line["latency_ns"].as_u64() > Some(10_000_000));
    selects("nfsrdma.phase.data_out > 0", "rxe-v42", |line| line["phases_ns"]["data_out"].as_u64() > Some(0));
    selects("nfsrdma.status != NFS4_OK", "rxe-v42", |line| line["status"].is_string() && line["status"] != "NFS4_OK");
    selects("nfsrdma.index in {5..7}", "rxe-v42", |line| (5..=7).contains(&line["index"].as_u64().unwrap()));
    selects("nfsrdma.complete == False", "rxe-v42-snap128", |line| line["complete"] == false);
    selects("nfsrdma.missing matches \"^call:[0-9]\"", "rxe-v42-snap128", |line| {
        let missing = line["missing"].as_array().unwrap();
        missing.iter().any(|code| code.as_str().unwrap().starts_with("call:") && code != "call:header")
    });
    selects("nfsrdma.direction == reverse", "rxe-v42-deleg", |line| line["direction"] == "reverse");
    selects("nfsrdma.reply.copies > 1", "rxe-v42-loss", |line| line["reply"]["copies"].as_u64() > Some(1));
    selects("nfsrdma.transport == tcp", "tcp-v42", |line| line["transport"] == "tcp");
    let moved = |line: &Value| segments(line, "read_chunks").iter().map(|s| s["moved"].as_u64().unwrap()).sum::<u64>();
    selects("nfsrdma.chunk.kind == read and nfsrdma.chunk.moved > 8000", "rxe-v42", |line| moved(line) > 8_000);
}

/// RFC 8797: private data is in messages of the connection manager, and in MPA startup frames.
#[test]
fn private_data_is_found_on_either_transport() {
    for capture in ["rxe-v42", "siw-v42"] {
        let named = ["--view", "frames", "-T", "fields", "-e", "rpcordma.private_data.receive_size"];
        let output = run(&[&named[..], &["-Y", "rpcordma.private_data"]].concat(), capture);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n3\n", "{capture}");
    }
}

#[test]
fn a_transaction_is_selected_by_the_path_of_its_file() {
    let path = |line: &Value| line["path"].as_str().unwrap_or_default().to_owned();
    selects("nfsrdma.path contains \"/s2k\"", "rxe-v42", |line| path(line).contains("/s2k"));
    selects("nfsrdma.path == \"/export/data/w/s100\"", "rxe-v3", |line| path(line) == "/export/data/w/s100");
    selects("nfsrdma.new_path", "rxe-v42", |line| line["new_path"].is_string());
    // Names also come from Transactions that the filter rejects, and the frames of a Transaction have its path.
    let output =
        run(&["--view", "frames", "-T", "fields", "-e", "nfsrdma.path", "-Y", "frame.number == 590"], "rxe-v42");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/data/w/s2k\n");
}

#[test]
fn addresses_are_compared_as_addresses() {
    let is_forward = |line: &Value| line["client"] == "10.9.0.2";
    for filter in
        ["nfsrdma.client == 10.9.0.0/16", "nfsrdma.client in {10.9.0.2, fd09::2}", "nfsrdma.client == \"10.9.0.2\""]
    {
        selects(filter, "rxe-v3", is_forward);
    }
    selects("nfsrdma.server == fd09::/16", "rxe-v42-ip6", |line| line["server"] == "fd09::1");
    assert_eq!(transactions("nfsrdma.client == 10.8.0.0/16", "rxe-v3"), [Value::Null; 0]);
}

/// Matching of words and value names ignores case.
#[test]
fn words_are_found_in_either_case() {
    selects("nfsrdma.operation == read", "rxe-v42", |line| line["operation"] == "READ");
    selects("nfsrdma.status == nfs4err_noent", "rxe-v42", |line| line["status"] == "NFS4ERR_NOENT");
    selects("nfsrdma.transport == ROCEV2", "rxe-v3", |line| line["transport"] == "rocev2");
}

/// RFC 5044 section 4.4: if the CRC is not in use, its field has no meaning.
#[test]
fn the_crc_of_an_fpdu_is_judged_in_the_frame_that_ends_it() {
    let verdicts = |capture| {
        let output =
            run(&["--view", "frames", "-T", "fields", "-e", "nfsrdma.mpa.crc", "-Y", "nfsrdma.mpa.crc"], capture);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(verdicts("siw-v42-crc"), ["good".to_owned()].into());
    assert_eq!(verdicts("siw-v42"), ["absent".to_owned()].into());
    let tree = |capture| String::from_utf8(run(&["-V", "-c", "3", "--summary", "none"], capture).stdout).unwrap();
    assert!(tree("siw-v42-crc").contains("MPA CRC: right\n"));
    assert!(tree("siw-v42").contains("MPA CRC: not in use\n"));
}

/// RFC 9293 section 3.10.7.4: frame 1994 has all bytes of the Reply, but its receiver lacks bytes before them.
#[test]
fn a_message_behind_a_gap_has_its_fields_in_the_frame_that_fills_the_gap() {
    let output = run(
        &["--view", "frames", "-T", "fields", "-e", "frame.number", "-Y", "rpc.xid == 0xe78ca942"],
        "siw-v42-bulk-loss",
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1993\n1996\n");
}

#[test]
fn a_transaction_is_selected_by_the_fields_of_its_messages() {
    selects("rpc.xid == 0xb38df27d", "rxe-v42", |line| line["xid"] == "0xb38df27d");
    selects("nfs.opcode == SEEK", "rxe-v42", |line| line["operation"] == "SEEK");
    selects("rpcordma.msg_type == RDMA_NOMSG", "rxe-v42", |line| {
        ["call", "reply"].iter().any(|side| line[side]["rpcrdma"]["proc"] == "RDMA_NOMSG")
    });
    selects("rpc.msgtyp == CALL and not nfs.opcode", "rxe-v42", |line| line["procedure"] == "NULL");
    selects("nfs.procedure_v3 == 6", "rxe-v3", |line| line["operation"] == "READ");
}

#[test]
fn a_transaction_is_selected_by_all_its_frames_together() {
    // The Call, the RDMA Write and the Reply are three frames.
    selects("infiniband.bth.opcode == 10 and rpc.msgtyp == CALL and rpc.msgtyp == REPLY", "rxe-v42", |line| {
        let small = |segment: &&Value| (1..=4_096).contains(&segment["moved"].as_u64().unwrap());
        let written = segments(line, "write_chunks").into_iter();
        let reply = line["reply_chunk"]["segments"].as_array().into_iter().flatten();
        written.chain(reply).filter(small).any(|segment| segment["frames"][0] == segment["frames"][1])
    });
    selects("frame.number == 592", "rxe-v42", |line| line["xid"] == "0xb38df27d");
    selects("frame.protocols contains \"rpcordma:rpc:nfs\" and ip.src == 10.9.0.2", "rxe-v42", |line| {
        line["procedure"] != "NULL"
    });
    // A message over TCP, in frames of which none is the last.
    selects("tcp.len == 1448 and nfs.opcode == WRITE", "tcp-v42", |line| {
        line["operation"] == "WRITE" && line["call"]["frames"].as_array().unwrap().len() > 1
    });
}

#[test]
fn the_summary_counts_selected_transactions() {
    let lines = json(&["-Y", "nfs.opcode == READ"], "rxe-v42");
    let (summary, selected) = lines.split_last().unwrap();
    assert_eq!(summary["transactions"].as_u64(), Some(selected.len() as u64));
    let operations: Vec<_> = summary["operations"].as_array().unwrap().iter().map(|of| &of["operation"]).collect();
    assert_eq!(operations, ["READ"]);
    // Every frame of the selected Transactions: those of the messages and of the RDMA Writes.
    let frames = json(&["--view", "frames", "-q", "-Y", "nfs.opcode == READ"], "rxe-v42").pop().unwrap();
    assert_eq!(frames["frames"], 2 * selected.len());
    assert_eq!(frames["transactions"], selected.len());
    let written: u64 =
        selected.iter().flat_map(|line| segments(line, "write_chunks")).map(|s| s["moved"].as_u64().unwrap()).sum();
    assert!(summary["bytes"].as_u64() > Some(written), "{summary}");
    assert!(summary["frames"].as_u64() > Some(written / 1_024), "{summary}");
}

#[test]
fn a_filter_that_holds_for_all_changes_nothing() {
    for arguments in [&["--view", "frames"][..], &["--view", "frames", "-V"], &["--view", "frames", "-q"]] {
        let (plain, filtered) =
            (run(arguments, "rxe-v40-deleg"), run(&[arguments, &["-Y", "frame"]].concat(), "rxe-v40-deleg"));
        assert!(plain.stdout == filtered.stdout, "{arguments:?}");
    }
    let lines = |arguments: &[&str]| run(&[&["--summary", "none"], arguments].concat(), "rxe-v42-loss").stdout;
    assert!(lines(&[]) == lines(&["-Y", "frame or not frame"]));
    assert!(lines(&["-V", "-c", "20"]) == lines(&["-V", "-c", "20", "-Y", "rpc"]));
}

#[test]
fn lines_are_counted_that_are_selected() {
    assert_eq!(json(&["-Y", "nfs.opcode == READ", "-c", "3", "--summary", "none"], "rxe-v42").len(), 3);
}

#[test]
fn a_filter_that_is_wrong_is_refused_before_anything_is_read() {
    let output = run(&["-Y", "nfs.opcode == REED"], "rxe-v42");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with("nfsrdma-inspect: -Y: column 15: nfs.opcode has no value REED; did you mean READ"));
    assert_eq!(error.lines().count(), 1);
    assert!(output.stdout.is_empty());
}
