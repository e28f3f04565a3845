//! A capture with a snap length is decoded as far as its bytes allow, reports what is missing, and counts by the
//! lengths in the headers. `rxe-v42-snap128` has 128 bytes of each frame: an RPC-over-RDMA message of up to 74 bytes is
//! complete.

use std::collections::BTreeMap;
use std::process::Command;

use nfsrdma_flow::Transaction as FlowTransaction;
use nfsrdma_flow::transaction::{ConnectionTransport, RpcMessageKind};
use serde_json::Value;

use crate::captures::{self, Temporary};
use crate::independent_decoder;
use crate::kernel_counters::{equals_the_second_count, totals};
use crate::loss_comparison::{ALL, agrees, named, run};
use crate::mountstats::Mountstats;
use crate::program::{self, Transaction};
use crate::second_count::{self, Message};

const NAME: &str = "rxe-v42-snap128";

/// DESTROY_SESSION and DESTROY_CLIENTID, which the unmount sends after the kernel's counters were read.
const CALLS_OF_THE_UNMOUNT: u64 = 2;

fn transactions() -> Vec<Transaction> {
    program::json(&captures::path(NAME)).transactions
}

/// Returns the SENDs of the capture, by XID and side of the Transaction.
fn sends() -> BTreeMap<(u32, &'static str), Message> {
    let messages = second_count::messages(&captures::bytes(NAME));
    messages.into_iter().map(|m| ((m.xid, if m.is_call { "call" } else { "reply" }), m)).collect()
}

#[test]
fn with_a_snap_length_all_messages_and_captured_segments_are_counted() {
    equals_the_second_count(NAME, &transactions());
}

#[test]
fn with_a_snap_length_calls_and_replies_equal_the_kernels_counts() {
    let (totals, line) = (totals(&transactions()), Mountstats::read(NAME).transport);
    assert_eq!(totals.sends(), line.sends + CALLS_OF_THE_UNMOUNT);
    assert_eq!(totals.receives(), line.receives + CALLS_OF_THE_UNMOUNT);
}

#[test]
fn with_a_snap_length_the_bytes_are_the_kernels() {
    let (totals, line) = (totals(&transactions()), Mountstats::read(NAME).transport);
    assert_eq!(totals.counts.returned, line.counts.returned, "bytes returned");
    assert_eq!(totals.counts.write_segments, line.counts.write_segments, "Write segments");
    // The last segment of a long list is beyond the snap length, at most one per Call.
    let cut = sends().values().filter(|send| send.is_call && send.are_lists_cut).count() as u64;
    let missing = (line.counts.read_segments + line.counts.reply_segments)
        .checked_sub(totals.counts.read_segments + totals.counts.reply_segments)
        .expect("the kernel marshalled every segment that is there");
    assert!(missing <= cut, "{missing} segments are missing, {cut} calls have cut lists");
}

#[test]
fn with_a_snap_length_moved_bytes_are_those_of_the_headers() {
    for transaction in transactions() {
        for segment in transaction.segments("read_chunks") {
            assert_eq!(segment["moved"], segment["length"], "{segment} of {transaction:?}");
        }
        for segment in [transaction.segments("write_chunks"), transaction.segments("reply_chunk")].concat() {
            let returned = segment["returned"].as_u64();
            assert!(returned.is_none_or(|returned| segment["moved"] == returned), "{segment}");
        }
    }
}

#[test]
fn a_transaction_cut_by_the_snap_length_reports_missing_bytes() {
    let sends = sends();
    for transaction in transactions() {
        for side in ["call", "reply"] {
            let is_cut = sends.get(&(transaction.xid(), side)).is_some_and(|send| send.is_cut);
            let missing = transaction.missing();
            let says_so = missing.iter().any(|code| code.starts_with(&format!("{side}:")));
            assert_eq!(says_so, is_cut, "{side} of {transaction:?}");
            assert!(!is_cut || transaction.0["complete"] == false, "{transaction:?}");
        }
    }
}

#[test]
fn with_a_snap_length_operations_are_the_kernels_as_far_as_the_bytes_go() {
    // The credential alone fills the rest of a Call, so no COMPOUND shows its operations: NULL is complete, and every
    // other Call with a procedure (RFC 5531 section 9: the sixth word) is a COMPOUND. If it has one operation, its
    // Reply names it.
    let kernel = Mountstats::read(NAME);
    let sends = sends();
    let shows_procedure = |xid| sends.get(&(xid, "call")).is_some_and(|send| send.rpc_captured >= 24);
    let mut calls: BTreeMap<Option<String>, u64> = BTreeMap::new();
    for transaction in transactions().iter().filter(|t| shows_procedure(t.xid())) {
        assert!(transaction.is_nfs(), "{transaction:?}");
        *calls.entry(transaction.text("operation").map(str::to_owned)).or_default() += 1;
    }
    let compounds = sends.values().filter(|send| send.is_call && send.rpc_captured >= 24).count() as u64 - 1;
    let of_kernel = |name| (name, kernel.operations[name].calls);
    let (created, ended) = (of_kernel("CREATE_SESSION"), CALLS_OF_THE_UNMOUNT);
    let expected = [
        of_kernel("NULL"),
        created,
        ("DESTROY_SESSION", ended / 2),
        ("DESTROY_CLIENTID", ended / 2),
        ("COMPOUND", compounds - created.1 - ended),
    ];
    assert_eq!(calls, expected.into_iter().map(|(name, calls)| (Some(name.to_owned()), calls)).collect());
}

/// Returns a capture truncated to a snap length.
fn cut(name: &str, snap: usize) -> Vec<u8> {
    let whole = captures::bytes(name);
    let mut file = whole[..24].to_vec();
    for (at, packet) in second_count::records(&whole) {
        let kept = packet.len().min(snap);
        file.extend(&whole[at..at + 8]);
        file.extend((kept as u32).to_le_bytes());
        file.extend(&whole[at + 12..at + 16]);
        file.extend(&packet[..kept]);
    }
    file
}

/// Verifies that a value equals the other, or is unknown.
#[track_caller]
fn same_or_null(cut: &Value, whole: &Value, key: &str, said: &str) {
    assert!(cut[key].is_null() || cut[key] == whole[key], "{said}: {key}: {} not {}", cut[key], whole[key]);
}

/// Compares the segments of a truncated capture with those of the whole one: the same, or a prefix if it says so.
fn same_chunks(cut: &Value, whole: &Value, may_lack: bool, said: &str) {
    let chunks = |value: &Value| match value {
        Value::Array(chunks) => chunks.clone(),
        Value::Null => Vec::new(),
        chunk => vec![chunk.clone()],
    };
    let (cut, whole) = (chunks(cut), chunks(whole));
    assert!(cut.len() == whole.len() || (may_lack && cut.len() < whole.len()), "{said}: {cut:?}");
    for (cut, whole) in cut.iter().zip(&whole) {
        same_or_null(cut, whole, "position", said);
        let segments = |chunk: &Value| chunk["segments"].as_array().cloned().unwrap_or_default();
        let (some, all) = (segments(cut), segments(whole));
        assert!(some.len() == all.len() || (cut["cut"] == true && some.len() < all.len()), "{said}: {cut}");
        assert!(may_lack || cut["cut"].is_null(), "{said}: {cut}");
        for (segment, whole) in some.iter().zip(&all) {
            for key in ["handle", "offset", "length", "moved", "frames"] {
                assert_eq!(segment[key], whole[key], "{said}: {key} of {segment}");
            }
            same_or_null(segment, whole, "returned", said);
        }
    }
}

#[test]
fn no_snap_length_adds_values_to_those_of_the_whole_capture() {
    for (name, snap) in [("rxe-v42", 96), ("rxe-v42", 128), ("rxe-v42", 256), ("rxe-v3", 96), ("rxe-v3", 128)] {
        let file = Temporary::new(&format!("{name}-{snap}.pcap"), &cut(name, snap));
        let found = program::json(file.path()).transactions;
        let whole = program::json(&captures::path(name)).transactions;
        let whole: BTreeMap<_, _> = whole.iter().map(|t| ((t.is_forward(), t.xid()), t)).collect();
        assert_eq!(found.len(), whole.len(), "{name} {snap}");
        let (mut cut_headers, mut from_reply) = (0, 0);
        for transaction in &found {
            let cut = &transaction.0;
            let said = format!("{name} with a snap length of {snap}, {}", cut["xid"]);
            let whole = &whole[&(transaction.is_forward(), transaction.xid())].0;
            for key in ["program", "version", "minor_version", "procedure", "status", "rpc_status"] {
                same_or_null(cut, whole, key, &said);
            }
            // If the arguments cannot be decoded, the operation is the procedure.
            let is_procedure = cut["operation"] == cut["procedure"];
            assert!(is_procedure || cut["operation"] == whole["operation"], "{said}: {}", cut["operation"]);
            let entries = |value: &Value| value["operations"].as_array().cloned().unwrap_or_default();
            // If the Reply names what was truncated in the Call, it is known all the same.
            let (named, all) = (entries(cut), entries(whole));
            if !named.is_empty() && named.len() == all.len() {
                assert_eq!(cut["operation"], whole["operation"], "{said}");
                from_reply += u32::from(cut["call"]["lists"] == "whole" && !cut["call"]["rpc_length"].is_null());
            }
            for (entry, whole) in entries(cut).iter().zip(entries(whole)) {
                assert_eq!(entry["op"], whole["op"], "{said}");
                same_or_null(entry, &whole, "status", &said);
            }
            let codes = transaction.missing();
            for side in ["call", "reply"] {
                same_or_null(&cut[side], &whole[side], "length", &said);
                same_or_null(&cut[side], &whole[side], "rpc_length", &said);
                assert_eq!(cut[side]["frames"], whole[side]["frames"], "{said}");
                let is_cut = codes.contains(&&*format!("{side}:header"));
                let lists = if is_cut { "cut" } else { "whole" };
                let has_lists = !cut[side]["rpcrdma"].is_null();
                assert!(!has_lists || cut[side]["lists"] == lists, "{said}: {}", cut[side]);
                cut_headers += u32::from(is_cut);
                let knows_length = cut[side]["rpc_length"].is_u64();
                assert!(cut[side].is_null() || is_cut != knows_length, "{said}: {}", cut[side]);
            }
            let may_lack = codes.contains(&"call:header");
            for key in ["read_chunks", "write_chunks", "reply_chunk"] {
                same_chunks(&cut[key], &whole[key], may_lack, &said);
            }
        }
        assert_eq!(cut_headers > 0, snap < 256, "{name} {snap}: {cut_headers}");
        assert!(snap < 256 || from_reply > 0, "{name} {snap}");
    }
}

/// The name is behind 257 bytes of a frame, and the Reply, in memory, is cut before its filehandle.
#[test]
fn an_open_with_an_unknown_path_is_marked() {
    let file = Temporary::new("open-260.pcap", &cut("rxe-v42", 260));
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(["--summary", "none"])
        .arg(file.path())
        .output()
        .expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let details = || text.lines().filter_map(|line| line.split_once(" OPEN ")).map(|(_, details)| details.trim());
    // Behind the file that the operation starts from, if that is known.
    let unknown = details().filter(|details| details.contains("? R") || details.contains("? W")).count();
    assert!(unknown > 0, "{text}");
    assert!(details().all(|details| details.starts_with(['/', '0', '"', '…', '?'])), "{text}");
}

/// Each transport with common snap lengths: as many Transactions as in the whole capture, each with the same content or
/// less, as `missing` reports.
#[test]
fn with_a_snap_length_every_transport_has_the_same_or_less_content() {
    for exhibit in &ALL {
        for snap in [96, 128, 256] {
            let said = format!("{} with a snap length of {snap}", exhibit.name);
            let frames: Vec<_> = { exhibit.frames.iter().cloned() }
                .map(|mut kept| {
                    kept.bytes.truncate(snap);
                    kept
                })
                .collect();
            let outcome = run((1..).zip(&frames));
            let found = named(&outcome.transactions, &said);
            let expected: BTreeMap<_, _> =
                exhibit.transactions.iter().map(|t| (independent_decoder::name(t), t)).collect();
            for (name, now) in &found {
                let before = expected.get(name).unwrap_or_else(|| panic!("{said}: {name:x?} is invented"));
                let said = format!("{said}: {name:x?}");
                agrees(now, before, &said);
                let codes: Vec<_> = now.missing_parts().iter().map(ToString::to_string).collect();
                for (side, which) in [("call", RpcMessageKind::Call), ("reply", RpcMessageKind::Reply)] {
                    let whole = before.message(which).unwrap();
                    let is_whole = now.message(which).is_some_and(|message| message.bytes == whole.bytes);
                    let is_of = |code: &String| code == side || code.starts_with(&format!("{side}:"));
                    let is_missed = codes.iter().any(is_of);
                    assert_eq!(is_missed, !is_whole, "{said}: {codes:?}");
                }
                // Moved bytes are counted by the headers.
                let moved = |t: &FlowTransaction| {
                    let chunks = t.read_chunks.iter().chain(&t.write_chunks).chain(&t.reply_chunk);
                    chunks.map(|chunk| chunk.moved_bytes()).sum::<u64>()
                };
                if now.call.as_ref().is_some_and(|call| call.rpc_offset.is_some()) {
                    assert!(moved(now) == moved(before), "{said}: {} of {}", moved(now), moved(before));
                }
            }
            let sends = outcome.undecoded.get("cut_header").copied().unwrap_or(0);
            if (exhibit.transactions.iter().any(|t| t.connection.transport == ConnectionTransport::Iwarp), snap)
                == (true, 96)
            {
                // 10 bytes are left after the headers of Ethernet, IP, TCP with its time stamps, and DDP: the XID and
                // the version, but not the word that distinguishes a Call from a Reply.
                let rdma = expected.values().filter(|t| t.connection.transport == ConnectionTransport::Iwarp).count();
                assert_eq!(found.len(), expected.len() - rdma, "{said}");
                // If two FPDUs are in one segment, not even the DDP headers of the second are captured.
                let cut = sends + outcome.undecoded["cut_frame"];
                assert!((sends..=cut).contains(&(2 * rdma as u64)), "{said}: {:?}", outcome.undecoded);
                continue;
            }
            // As little may be captured of a second FPDU in one segment.
            assert_eq!(found.len(), expected.len(), "{said}: {:?}", outcome.undecoded);
            assert!(sends <= 1, "{said}: {:?}", outcome.undecoded);
        }
    }
}

/// Data beyond the snap length is reported as cut, and never as malformed, lost or undecodable.
#[test]
fn bytes_beyond_the_snap_length_are_neither_malformed_nor_lost() {
    for name in ["rxe-v42", "rxe-v3", "siw-v42", "siw-v3", "tcp-v42"] {
        for snap in (34..=144).step_by(2).chain([160, 200, 256]) {
            let file = Temporary::new("snapped.pcap", &cut(name, snap));
            let program = env!("CARGO_BIN_EXE_nfsrdma-inspect");
            let output = Command::new(program).args(["-q", "-T", "json"]).arg(file.path()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            let reasons = summary["undecoded"].as_object().unwrap();
            let others: Vec<_> = reasons.keys().filter(|reason| !reason.starts_with("cut_")).collect();
            assert!(others.is_empty(), "{name} cut at {snap}: {others:?}");
            assert_eq!(summary["missing"]["undecoded"], 0, "{name} cut at {snap}");
        }
    }
}

/// Within 256 bytes, the Call of an OPEN that creates a file ends before the name, and its Reply before the filehandle.
#[test]
fn a_call_that_was_cut_is_listed_by_its_decoded_operations() {
    let file = Temporary::new("snap256.pcap", &cut("rxe-v42", 256));
    let of = |text: String| -> BTreeMap<String, String> {
        let is_line = |line: &&str| line.split_whitespace().nth(4).is_some_and(|xid| xid.starts_with("0x"));
        let lines = text.lines().filter(is_line).map(|line| {
            let (_, rest) = line.split_once(" 0x").unwrap();
            (rest[..8].to_owned(), rest[8..].split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
        });
        lines.collect()
    };
    let whole = of(program::output(&captures::path("rxe-v42"), &["--color", "never"]));
    let cut = of(program::output(file.path(), &["--color", "never"]));
    assert_eq!(whole.len(), cut.len());
    let (mut directories, mut others) = (0, Vec::new());
    for (xid, whole) in &whole {
        let mut words = whole.split(' ');
        let (operation, path) = (words.next().unwrap(), words.next().unwrap_or_default());
        let cut = &cut[xid];
        if cut.split(' ').next() != Some(operation) {
            assert!(cut.contains(" ?"), "{xid}: {cut}");
            others.push((cut.split(' ').next().unwrap(), operation));
        }
        if operation == "OPEN" && !cut.starts_with(&format!("OPEN {path}")) {
            // The handles of some directories and files were in what was cut, too.
            let (directory, _) = path.rsplit_once('/').unwrap();
            let is_handle = cut.starts_with("OPEN 0x");
            assert!(is_handle || cut.starts_with(&format!("OPEN {directory} ")), "{xid}: {whole}: {cut}");
            assert!(cut.contains(" ?"), "{xid}: {cut}");
            directories += usize::from(!is_handle);
        }
    }
    assert!(directories > 10, "{directories}");
    // Linux sends the times of a file before it returns its delegation, and that operation was cut.
    assert_eq!(others, [("SETATTR", "DELEGRETURN"); 2]);
    // In JSON, a Call that was not read to its end has the name of its procedure.
    let lines = program::json(file.path()).transactions;
    let cut: Vec<_> = { lines.iter() }.filter(|one| one.text("operation") == Some("COMPOUND")).collect();
    assert!(cut.len() >= directories, "{}", cut.len());
}

/// The name of a file was cut, and its directory was not: the directory is not the object.
#[test]
fn a_file_with_a_cut_name_is_not_shown_as_its_directory() {
    let cases = [
        ("rxe-v3", &[168, 176, 184][..]),
        ("siw-v3", &[200, 208, 216]),
        ("tcp-v3", &[152, 168]),
        ("tcp-v42", &[216, 248]),
        ("rxe-v40", &[192, 224]),
    ];
    for (name, snaps) in cases {
        let whole = program::json(&captures::path(name)).transactions;
        let paths: BTreeMap<_, _> = whole.iter().filter_map(|one| Some((one.xid(), one.text("path")?))).collect();
        for snap in snaps {
            let file = Temporary::new("cut-names.pcap", &cut(name, *snap));
            let mut nameless = 0;
            for one in program::json(file.path()).transactions {
                let Some(path) = paths.get(&one.xid()) else { continue };
                nameless += u64::from(one.text("path").is_none());
                let is_directory = one.text("path").filter(|cut| cut != path).is_some_and(|cut| {
                    path.strip_prefix(cut.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
                });
                assert!(!is_directory, "{name} cut at {snap}: {path}: {one:?}");
            }
            assert!(nameless > 0, "{name} cut at {snap}");
        }
    }
    let file = Temporary::new("cut-names-listed.pcap", &cut("rxe-v3", 184));
    let text = program::output(file.path(), &["--color", "never"]);
    assert!(text.contains(" LOOKUP /export/data/w ?"), "{text}");
    assert!(text.contains(" REMOVE /export/data/w ?"), "{text}");
}

/// The REQ of each of these has its queue pair, and its private data was cut.
#[test]
fn a_set_up_that_was_cut_is_a_set_up() {
    for snap in [128, 160, 200] {
        let file = Temporary::new("cut-set-up.pcap", &cut("rxe-v42", snap));
        let text = program::output(file.path(), &["--view", "connections", "-T", "json"]);
        let set_ups: Vec<Value> = { text.lines() }
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["kind"] == "connection")
            .map(|line| line["set_up"].clone())
            .collect();
        assert!(!set_ups.is_empty());
        for set_up in set_ups {
            let said = format!("{snap}: {set_up}");
            assert_eq!(set_up["port"], 20049, "{said}");
            assert_eq!(set_up["private_data"]["client"], "cut", "{said}");
            assert!(set_up["inline_thresholds"].is_null(), "{said}");
            assert!(set_up["reads"]["client"]["inbound"].is_u64(), "{said}");
            assert!(set_up["reads"]["server"]["inbound"].is_u64(), "{said}");
        }
    }
}

/// A capture that is played twice has each connection twice: the second set-up, though cut, begins a new one.
#[test]
fn a_capture_that_was_cut_and_is_played_twice_has_twice_the_connections() {
    let once = crate::mutations::frames(NAME);
    let length_ns = once.last().unwrap().time.0 - once[0].time.0 + 60_000_000_000;
    let again = once.iter().cloned().map(|mut kept| {
        kept.time.0 += length_ns;
        kept
    });
    let twice: Vec<_> = once.iter().cloned().chain(again).collect();
    let count = |transactions: &[FlowTransaction]| {
        let mut counts = BTreeMap::new();
        transactions.iter().for_each(|one| *counts.entry(one.connection.number).or_insert(0) += 1);
        counts.into_values().collect::<Vec<i32>>()
    };
    let [one, two] = [&once, &twice].map(|frames| count(&run((1..).zip(frames)).transactions));
    assert_eq!(two, [&one[..], &one].concat());
}

/// Where a snap length cuts the Call and the Reply before their main operation, its file is unknown, too.
#[test]
fn an_unknown_operation_has_no_path() {
    let mut unknown = 0;
    for snap_length in (96..=160).step_by(4) {
        let mut frames = crate::mutations::frames("rxe-v40-errors");
        frames.iter_mut().for_each(|frame| frame.bytes.truncate(snap_length));
        let file = Temporary::new("cut-errors.pcap", &crate::tunnels::pcap(&frames));
        let transactions = program::json(file.path()).transactions;
        for one in transactions.iter().filter(|one| one.text("operation") == Some("COMPOUND")) {
            assert_eq!(one.text("path"), None, "{snap_length}: {}", one.0);
            unknown += 1;
        }
    }
    assert!(unknown > 100, "{unknown}");
}
