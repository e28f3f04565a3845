//! `-w`: the frames of Transactions as a capture file, with comments that describe them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nfsrdma_capture_file::CaptureFrameSource;
use serde_json::Value;

use super::captures::{self, Temporary};
use super::program::{self, Transaction};
use crate::skipped::skip_without;

fn run(arguments: &[&str], capture: &Path, input: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(arguments)
        .arg(capture)
        .stdin(input)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"))
}

/// Returns the output of `-w` for a capture.
fn written(name: &str, capture: &Path, more: &[&str]) -> Temporary {
    let file = Temporary::new(name, b"");
    let to = file.path().to_string_lossy().into_owned();
    let output = run(&[&["-w", &to], more].concat(), capture, Stdio::null());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

/// Returns the time and the comments of every frame of a file.
fn frames(file: &Path) -> Vec<(i64, Vec<String>)> {
    let mut source = CaptureFrameSource::open([file]).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        let time = frame.time.0;
        frames.push((time, source.comments().map(Into::into).collect()));
    }
    frames
}

/// Returns a Transaction without the members `keys` of all its objects.
fn without(keys: &[&str], transaction: &Transaction) -> Value {
    fn wipe(keys: &[&str], value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|key, _| !keys.contains(&key.as_str()));
                members.values_mut().for_each(|member| wipe(keys, member));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| wipe(keys, item)),
            _ => {}
        }
    }
    let mut value = transaction.0.clone();
    wipe(keys, &mut value);
    value
}

/// Returns the Transactions of a capture without their frame numbers, which differ in another file, and without `keys`.
fn unnumbered(capture: &Path, keys: &[&str]) -> Vec<Value> {
    let keys = [&["frames", "frame"], keys].concat();
    program::json(capture).transactions.iter().map(|one| without(&keys, one)).collect()
}

#[test]
fn a_written_file_holds_the_same_transactions() {
    for name in ["rxe-v3", "rxe-v42-loss", "rxe-v42-snap128", "tcp-v42", "rxe-v42-krb5"] {
        let capture = captures::path(name);
        let file = written(&format!("same-{name}.pcapng"), &capture, &["-q"]);
        // Without acknowledgements, the evidence of a delivery is unknown. Packets of no Transaction are a gap, which
        // is a finding.
        let keys = ["delivered", "findings"];
        assert_eq!(unnumbered(file.path(), &keys), unnumbered(&capture, &keys), "{name}");
    }
}

/// ACKs, NAKs and empty TCP segments show which copy of a message was delivered.
#[test]
fn with_control_frames_the_same_deliveries_are_known() {
    let lossless = ["rxe-v3", "rxe-v42", "siw-v42-crc", "siw-v3", "tcp-v42", "tcp-v3"];
    let lossy = ["rxe-v42-loss", "rxe-v42-bulk-loss1", "siw-v42-bulk-loss", "tcp-v42-bulk-loss"];
    for name in lossless.into_iter().chain(lossy) {
        let capture = captures::path(name);
        let file = written(&format!("control-{name}.pcapng"), &capture, &["-q", "--control-frames"]);
        let (before, after) = (unnumbered(&capture, &[]), unnumbered(file.path(), &[]));
        assert_eq!(before.len(), after.len(), "{name}");
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{name}");
        }
    }
}

/// Latencies of a part of the Transactions are those of the whole capture, except where TCP segments were lost:
/// segments with data of other Transactions carry acknowledgements, too.
#[test]
fn with_control_frames_the_same_latencies_are_known_of_each_operation() {
    let captures = [
        ("rxe-v42", true),
        ("siw-v42-crc", true),
        ("tcp-v42", true),
        ("rxe-v42-loss", true),
        ("rxe-v42-bulk-loss1", true),
        ("siw-v42-bulk-loss", false),
        ("tcp-v42-bulk-loss", false),
    ];
    for (name, has_latencies) in captures {
        let capture = captures::path(name);
        let all = program::json(&capture).transactions;
        let operations: BTreeSet<&str> = all.iter().filter_map(|one| one.text("operation")).collect();
        for operation in operations {
            let filter = format!("nfsrdma.operation == \"{operation}\"");
            let arguments = ["-q", "--control-frames", "-Y", &filter];
            let file = written(&format!("control-{name}-{operation}.pcapng"), &capture, &arguments);
            let after = program::json(file.path()).transactions;
            let mut before: Vec<_> = all.iter().filter(|one| one.text("operation") == Some(operation)).collect();
            // The order of the first frames is the same, but a gap of a stream may delay the end of a Transaction.
            let mut after: Vec<_> = after.iter().collect();
            before.sort_by_key(|one| one.xid());
            after.sort_by_key(|one| one.xid());
            assert_eq!(before.len(), after.len(), "{name}: {operation}");
            for (before, after) in before.into_iter().zip(after) {
                for key in ["xid", "complete", "missing"] {
                    assert_eq!(before.0[key], after.0[key], "{name}: {operation}");
                }
                let delivery = |one: &Transaction, which: &str| {
                    let message = one.message(which).unwrap();
                    [message["end_time"].clone(), message["delivered"].clone()]
                };
                if has_latencies {
                    assert_eq!(before.0["latency_ns"], after.0["latency_ns"], "{name}: {operation}");
                    for which in ["call", "reply"] {
                        assert_eq!(delivery(before, which), delivery(after, which), "{name}: {operation}");
                    }
                }
            }
        }
    }
}

/// Control frames of a connection without selected Transactions are not written.
#[test]
fn control_frames_are_those_of_the_selected_connections() {
    let capture = captures::path("tcp-v3");
    let all = program::json(&capture).transactions;
    let mount = ["-q", "--control-frames", "-Y", "nfsrdma.operation == \"MNT\""];
    let file = written("control-selected.pcapng", &capture, &mount);
    let mount = all.iter().find(|one| one.text("operation") == Some("MNT")).unwrap();
    let comment = format!("connection {}: control frame", mount.0["connection"]);
    let comments: Vec<String> = frames(file.path()).into_iter().flat_map(|(_, comments)| comments).collect();
    let control: BTreeSet<_> = comments.iter().filter(|text| text.ends_with("control frame")).collect();
    assert_eq!(control, BTreeSet::from([&comment]), "{comments:#?}");
}

/// Soft-iWARP often sends the CRC of an FPDU as a separate segment, and now and then the beginning of its headers.
#[test]
fn transactions_over_iwarp_that_are_selected_are_written_whole() {
    for name in ["siw-v3", "siw-v41", "siw-v42", "siw-v42-crc"] {
        let capture = captures::path(name);
        let all = program::json(&capture).transactions;
        let is_complete = |one: &Transaction| one.0["complete"] == true;
        assert!(all.iter().all(is_complete), "{name}");
        for after in [100, 333, 1000] {
            let filter = format!("frame.number > {after}");
            let file = written(&format!("{name}-{after}.pcapng"), &capture, &["-q", "-Y", &filter]);
            let selected = program::json(file.path()).transactions;
            assert!(selected.len() > 50 && selected.len() <= all.len(), "{name}: {}", selected.len());
            let parts: Vec<_> = selected.iter().filter(|one| !is_complete(one)).map(|one| &one.0).collect();
            assert!(parts.is_empty(), "{name} after {after}: {} of {}: {:?}", parts.len(), selected.len(), parts);
        }
    }
}

/// RFC 5044 section 4.1: a trailer that TCP retransmits belongs to the message that it ends.
#[test]
fn rfc5044_section_4_1_a_trailer_that_is_sent_again_is_written() {
    let payload_length = |bytes: &[u8]| {
        let (total, header) = (usize::from(bytes[16]) << 8 | usize::from(bytes[17]), usize::from(bytes[46] >> 4) * 4);
        total - 20 - header
    };
    let kept = crate::mutations::frames("siw-v42-crc");
    let whole = written("trailer-once.pcapng", &captures::path("siw-v42-crc"), &["-q"]);
    let comments: Vec<_> = frames(whole.path());
    let of = |time: i64| comments.iter().find(|(at, _)| *at == time).map(|(_, comments)| comments.concat());
    // After chunk data a segment of four bytes: the CRC.
    let trailer = { kept.iter() }
        .position(|one| {
            one.bytes[12..14] == [0x08, 0x00]
                && one.bytes[23] == 6
                && payload_length(&one.bytes) == 4
                && of(one.time.0).is_some_and(|text| text.contains("Write chunk"))
        })
        .expect("a CRC that came alone");
    let mut frames_sent = kept.clone();
    let mut again = kept[trailer].clone();
    // A distinct frame: another identification, and so late that it is not a duplicate of the capture.
    again.bytes[18] ^= 0x55;
    let at = kept.iter().position(|later| later.time.0 > again.time.0 + 300_000_000).unwrap();
    again.time.0 = kept[at].time.0 - 1;
    let again_at = again.time;
    frames_sent.insert(at, again);
    let file = Temporary::new("trailer-again.pcap", &crate::tunnels::pcap(&frames_sent));
    let output = written("trailer-again.pcapng", file.path(), &["-q"]);
    let is_it = |(time, comments): &&(i64, Vec<String>)| {
        *time == again_at.0 && comments.iter().any(|text| text.contains("Write chunk"))
    };
    assert_eq!(frames(output.path()).iter().filter(is_it).count(), 1);
    // It moves nothing again.
    let moved = |path: &Path| -> u64 {
        let lines = program::json(path).transactions;
        let segments = lines.iter().flat_map(|one| one.segments("write_chunks"));
        segments.filter_map(|segment| segment["moved"].as_u64()).sum()
    };
    assert_eq!(moved(file.path()), moved(&captures::path("siw-v42-crc")));
}

#[test]
fn the_frames_of_a_transaction_are_those_of_its_messages_and_its_chunks() {
    let capture = captures::path("rxe-v42");
    let transactions = program::json(&capture).transactions;
    let write =
        transactions.iter().find(|one| one.message("call").is_some_and(|call| program::frames(call) == [120])).unwrap();
    let (first, last) =
        (&write.segments("read_chunks")[0]["frames"][0], &write.segments("read_chunks")[0]["frames"][1]);
    let file = written("comments.pcapng", &capture, &["--view", "frames"]);
    let start = format!("Transaction {}, ", write.0["index"]);
    let about: Vec<(u64, String)> = (1..)
        .zip(frames(file.path()))
        .filter_map(|(number, (_, comments))| Some((number, comments.into_iter().find(|of| of.starts_with(&start))?)))
        .collect();
    let text = |number: &Value| {
        let number = number.as_u64().unwrap();
        let found = about.iter().find(|(of, _)| *of == number);
        found.map(|(_, text)| text.strip_prefix(&start).unwrap().to_owned()).unwrap_or_default()
    };
    let (xid, operation) = (write.text("xid").unwrap(), "WRITE /data/w/s8k 0+8192 FILE_SYNC");
    assert_eq!(text(&write.0["call"]["frames"][0]), format!("connection 1: call of {operation}, XID {xid}"));
    assert_eq!(text(&write.0["reply"]["frames"][0]), format!("connection 1: reply to {operation}, XID {xid}, NFS4_OK"));
    assert_eq!(text(first), format!("connection 1: Read chunk 0 of {operation}, XID {xid}"));
    assert_eq!(text(last), text(first));
    let requests = about.iter().filter(|(_, text)| text.contains(": request for Read chunk 0 of ")).count();
    // 8,192 bytes in packets of 1,024.
    let moved = about.iter().filter(|(_, text)| text.contains(": Read chunk 0 of ")).count();
    assert_eq!((requests, moved, about.len()), (1, 8, 11));
}

#[test]
fn frames_without_a_transaction_are_written_only_in_the_frame_view() {
    let capture = captures::path("rxe-v42");
    let all = frames(written("frames.pcapng", &capture, &["--view", "frames"]).path());
    let some = frames(written("transactions.pcapng", &capture, &[]).path());
    assert_eq!(all.len(), 1978);
    let chosen: Vec<_> = all.into_iter().filter(|(_, comments)| !comments.is_empty()).collect();
    let (of_transactions, others): (Vec<_>, Vec<_>) =
        some.into_iter().partition(|(_, comments)| comments[0].starts_with("Transaction "));
    assert_eq!(chosen, of_transactions);
    // REQ, REP and RTU, DREQ and DREP.
    let set_up = "sets a connection up or takes it down";
    assert!(others.iter().all(|(_, comments)| comments == &[set_up]) && others.len() == 5, "{others:?}");
}

/// Without connection setup Wireshark knows neither the protocol of the queue pairs nor the beginning of FPDUs.
#[test]
fn wireshark_decodes_selected_transactions() {
    for (name, protocol) in [("rxe-v42", "infiniband"), ("siw-v42", "iwarp_ddp_rdmap")] {
        let file = written(
            &format!("selected-{name}.pcapng"),
            &captures::path(name),
            &["-Y", "nfsrdma.operation == \"GETATTR\""],
        );
        let Ok(output) =
            Command::new("tshark").args(["-T", "fields", "-e", "frame.protocols", "-r"]).arg(file.path()).output()
        else {
            skip_without("tshark");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let count = text.lines().filter(|line| line.contains(protocol) && line.ends_with(":nfs")).count();
        let getattrs = program::json(&captures::path(name)).transactions;
        let getattrs = getattrs.iter().filter(|one| one.text("operation") == Some("GETATTR")).count();
        assert!(count >= 2 * getattrs, "{name}: {count} of {getattrs} GETATTRs with call and reply: {text}");
    }
}

#[test]
fn the_frames_of_as_many_lines_are_written_as_are_shown() {
    let capture = captures::path("rxe-v42");
    let one = frames(written("count.pcapng", &capture, &["-c", "2"]).path());
    let comments = one.iter().map(|(_, comments)| &comments[0][..14]);
    let of: BTreeSet<&str> = comments.filter(|comment| comment.starts_with("Transaction")).collect();
    assert_eq!(of, ["Transaction 1,", "Transaction 2,"].into());
    let ten = frames(written("count-frames.pcapng", &capture, &["--view", "frames", "-c", "9"]).path());
    assert_eq!(ten.len(), 9);
    // The Transaction is not complete within these frames, and yet it is known.
    assert!(ten[5].1[0].starts_with("Transaction 1, connection 1: call of NULL"), "{ten:?}");
}

/// As `editcap` does; the count is that of the capture readers.
#[test]
fn the_number_of_written_frames_is_on_standard_error() {
    let capture = captures::path("rxe-v42");
    for (more, frames_at_least) in [(&[][..], 1_000), (&["--view", "frames"], 1_978), (&["-Y", "nfs.opcode == 999"], 1)]
    {
        let file = Temporary::new("count-said.pcapng", b"");
        let to = file.path().to_string_lossy().into_owned();
        let output = run(&[&["-w", &to], more].concat(), &capture, Stdio::null());
        let count = frames(file.path()).len();
        assert!(count >= frames_at_least, "{more:?}: {count}");
        let digits = match count {
            1_000.. => format!("{},{:03}", count / 1_000, count % 1_000),
            _ => count.to_string(),
        };
        // capinfos counts 1,978 frames in the capture.
        let expected = format!("nfsrdma-inspect: wrote {digits} of 1,978 frames to {to}\n");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
        let quiet = run(&[&["-q", "-w", &to], more].concat(), &capture, Stdio::null());
        assert_eq!(String::from_utf8(quiet.stderr).unwrap(), "");
    }
    let piped = run(&["-w", "-", "--view", "frames"], &capture, Stdio::null());
    let said = String::from_utf8(piped.stderr).unwrap();
    assert_eq!(said, "nfsrdma-inspect: wrote 1,978 of 1,978 frames to standard output\n");
    assert_eq!(frames(Temporary::new("count-piped.pcapng", &piped.stdout).path()).len(), 1_978);
}

#[test]
fn a_pipe_is_written_like_a_file_within_the_memory_limit() {
    let capture = captures::path("rxe-v42");
    let file = fs::read(written("file.pcapng", &capture, &[]).path()).unwrap();
    let piped = run(&["-w", "-"], Path::new("-"), File::open(&capture).unwrap().into());
    let of = |bytes: Vec<u8>| frames(Temporary::new("piped.pcapng", &bytes).path());
    assert_eq!(of(piped.stdout), of(file));
    let tight = run(&["-w", "-", "--max-write-bytes", "64K"], Path::new("-"), File::open(&capture).unwrap().into());
    let said = String::from_utf8(tight.stderr).unwrap();
    assert!(
        said.contains("frames were dropped from the buffer before their transactions completed, and were not written"),
        "{said}"
    );
}

#[test]
fn an_input_is_never_written_over() {
    let bytes = captures::bytes("rxe-v42-deleg");
    let file = Temporary::new("precious.pcap", &bytes);
    let to = file.path().to_string_lossy().into_owned();
    for input in [file.path(), Path::new("-")] {
        let output = run(&["-w", &to], input, File::open(file.path()).unwrap().into());
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("cannot be overwritten"), "{said}");
    }
    assert_eq!(fs::read(file.path()).unwrap(), bytes);
}

#[test]
fn the_comments_name_the_findings_of_their_transaction() {
    let broken = crate::lint::broken("comments");
    let finding = "; error rpcrdma/credit-zero by the server: credit 0";
    for (name, arguments) in [
        ("findings-all.pcapng", &["-q", "--findings"][..]),
        ("findings-filter.pcapng", &["-q", "-Y", "nfsrdma.finding.side == server"]),
        ("findings-frames.pcapng", &["-q", "--findings", "--view", "frames", "-Y", "frame.number <= 20"]),
        ("findings-none.pcapng", &["-q"]),
    ] {
        let frames = frames(written(name, broken.path(), arguments).path());
        let comments: Vec<&String> = frames.iter().flat_map(|(_, comments)| comments).collect();
        let of_broken: Vec<_> = comments.iter().filter(|text| text.contains("XID 0x838df27d")).collect();
        assert!(of_broken.len() >= 2, "{name}: {comments:?}");
        let is_named = name != "findings-none.pcapng";
        // On the frame of the finding alone, which is that of the Reply.
        let named: Vec<_> = comments.iter().filter(|text| text.contains("rpcrdma/credit-zero")).collect();
        assert_eq!(named.len(), usize::from(is_named), "{name}: {named:?}");
        let is_right = |text: &&&String| text.contains(": reply to ") && text.contains(finding);
        assert!(named.iter().all(is_right), "{name}: {named:?}");
    }
}

#[test]
fn tshark_shows_the_comments() {
    let capture = captures::path("rxe-v42");
    let file = written("tshark.pcapng", &capture, &[]);
    let output =
        Command::new("tshark").arg("-r").arg(file.path()).args(["-T", "fields", "-e", "frame.comment"]).output();
    let Ok(output) = output else {
        skip_without("tshark");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    let ours: Vec<String> = frames(file.path()).into_iter().map(|(_, comments)| comments.join(",")).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), ours);
}
