//! `-T fields`, `-T csv` and `-T json` with `-e`: lines of fields in tshark's format for the fields that it has; and
//! `-x`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::captures;
use super::program;
use crate::skipped::skip_without;

fn run(arguments: &[&str], capture: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(arguments)
        .arg(capture)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn shown(arguments: &[&str], name: &str) -> String {
    let (code, text, error) = run(arguments, &captures::path(name));
    assert_eq!(code, Some(0), "{error}");
    text
}

/// Returns the output of tshark; `None` if it is not installed.
fn tshark(arguments: &[&str], name: &str) -> Option<String> {
    let output = Command::new("tshark").env("TZ", "UTC").arg("-r").arg(captures::path(name)).args(arguments).output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(_) => {
            skip_without("tshark");
            None
        }
    }
}

/// Fields of all types that tshark decodes the same in every frame. For fields of messages, tests/it/wireshark.rs and
/// tests/it/filters_like_tshark.rs explain the differences.
const FIELDS: [&str; 34] = [
    "frame.number",
    "frame.time",
    "frame.time_epoch",
    "frame.time_relative",
    "frame.time_delta",
    "frame.len",
    "frame.cap_len",
    "eth.src",
    "eth.type",
    "ip.src",
    "ip.dst",
    "ip.id",
    "ip.flags.df",
    "ip.checksum",
    "ip.dsfield",
    "ip.dsfield.ecn",
    "ipv6.src",
    "ipv6.flow",
    "udp.dstport",
    "tcp.srcport",
    "tcp.flags",
    "tcp.len",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.bth.a",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.aeth.msn",
    "infiniband.mad.transactionid",
    "rpcordma.xid",
    "rpcordma.flow_control",
    "rpcordma.rdma_handle",
    "rpcordma.rdma_offset",
];

fn named<'a>(fields: &[&'a str]) -> Vec<&'a str> {
    fields.iter().flat_map(|field| ["-e", field]).collect()
}

#[test]
fn values_are_written_as_tshark_writes_them() {
    for name in ["rxe-v42", "rxe-v42-ip6", "rxe-v3", "tcp-v42"] {
        let fields = named(&FIELDS);
        let Some(expected) = tshark(&[&["-T", "fields"], fields.as_slice()].concat(), name) else { return };
        let ours = shown(&[&["--view", "frames", "-T", "fields"], fields.as_slice()].concat(), name);
        for (ours, expected) in ours.lines().zip(expected.lines()) {
            assert_eq!(ours, with_numbers(expected), "{name}");
        }
        assert_eq!(ours.lines().count(), expected.lines().count());
    }
}

/// Converts booleans, which tshark writes as words since 4.4, to numbers.
fn with_numbers(line: &str) -> String {
    let number = |cell| match cell {
        "True" => "1",
        "False" => "0",
        other => other,
    };
    line.split('\t').map(number).collect::<Vec<_>>().join("\t")
}

#[test]
fn the_options_of_a_line_are_those_of_tshark() {
    let fields = named(&["frame.number", "rpcordma.rdma_handle", "eth.src", "ipv6.src"]);
    let layouts: [&[&str]; 5] = [
        &["-E", "header=y", "-E", "separator=/s", "-E", "quote=d"],
        &["-E", "separator=;", "-E", "quote=s", "-E", "aggregator=/s"],
        &["-E", "separator=/t", "-E", "occurrence=f"],
        &["-E", "separator=,", "-E", "occurrence=l"],
        &["-E", "header=n", "-E", "quote=n", "-E", "occurrence=a"],
    ];
    for layout in layouts {
        let Some(expected) = tshark(&[&["-T", "fields"], fields.as_slice(), layout].concat(), "rxe-v3") else {
            return;
        };
        let ours = shown(&[&["--view", "frames", "-T", "fields"], fields.as_slice(), layout].concat(), "rxe-v3");
        for (ours, expected) in ours.lines().zip(expected.lines()) {
            assert_eq!(ours, expected, "{layout:?}");
        }
    }
}

#[test]
fn a_transaction_has_the_fields_of_all_its_frames_and_of_both_messages() {
    let fields =
        named(&["nfsrdma.index", "nfsrdma.call.frame", "nfsrdma.reply.frame", "nfs.opcode", "nfsrdma.chunk.moved"]);
    let text = shown(&[&["-T", "fields", "-Y", "nfsrdma.xid == 0x9c8df27d"], fields.as_slice()].concat(), "rxe-v42");
    assert_eq!(text, "26\t120\t131\t53,22,38,9,53,22,38,9\t8192\n");
}

#[test]
fn csv_without_fields_is_a_table_of_json_values() {
    let text = shown(&["-T", "csv"], "rxe-v42-loss");
    let lines = program::json(&captures::path("rxe-v42-loss")).transactions;
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let at = |name: &str| header.iter().position(|of| *of == name).unwrap();
    let mut count = 0;
    for (row, line) in rows.zip(&lines) {
        count += 1;
        let same = |name: &str, key: &str| {
            let value = match &line.0[key] {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            assert_eq!(row[at(name)], value, "{name}");
        };
        same("nfsrdma.index", "index");
        same("nfsrdma.client", "client");
        same("nfsrdma.xid", "xid");
        same("nfsrdma.operation", "operation");
        same("nfsrdma.status", "status");
        assert_eq!(row[at("nfsrdma.call.time_epoch")], line.0["call"]["time"].as_str().unwrap());
        let latency = line.0["latency_ns"].as_u64().unwrap();
        let seconds = format!("{}.{:09}", latency / 1_000_000_000, latency % 1_000_000_000);
        assert_eq!(row[at("nfsrdma.latency")], seconds);
    }
    assert_eq!(count, lines.len());
}

#[test]
fn csv_quotes_cells_with_commas() {
    let text = shown(&["-T", "csv", "-e", "nfsrdma.index", "-e", "nfs.opcode", "-c", "2"], "rxe-v42");
    assert_eq!(text, "nfsrdma.index,nfs.opcode\n1,\n2,\"42,42\"\n");
}

#[test]
fn json_with_fields_is_an_object_of_lists_in_their_order() {
    let named = ["-T", "json", "-e", "rpc.xid", "-e", "nfs.opcode", "-e", "ipv6.src", "-c", "2"];
    let text = shown(&named, "rxe-v42");
    let expected = "{\"rpc.xid\":[\"0x838df27d\",\"0x838df27d\"]}\n\
                    {\"rpc.xid\":[\"0x848df27d\",\"0x848df27d\"],\"nfs.opcode\":[\"42\",\"42\"]}\n";
    assert_eq!(text, expected);
    let frame = shown(&["--view", "frames", "-T", "json", "-c", "1"], "rxe-v42");
    let frame: Value = serde_json::from_str(&frame).unwrap();
    assert_eq!((&frame["frame.number"][0], &frame["frame.len"][0]), (&"1".into(), &"42".into()));
}

/// Without `-e`, a frame has all its fields, with the same values as with `-e`.
#[test]
fn json_of_frames_without_fields_is_everything_that_a_frame_has() {
    // Reply and Call over RDMA, a CM message, a Call over TCP, and FPDUs.
    for (name, number, has) in [
        ("rxe-v42", 595, "nfs.nfsstat4"),
        ("rxe-v42", 590, "rpcordma.xid"),
        ("rxe-v42", 3, "infiniband.cm.req.serviceid"),
        ("tcp-v42", 10, "nfs.opcode"),
        ("siw-v42", 15, "iwarp_mpa.ulpdulength"),
    ] {
        let chosen = format!("frame.number == {number}");
        let json = |fields: &[&str]| -> serde_json::Map<String, Value> {
            let text = shown(&[&["--view", "frames", "-T", "json", "-Y", &chosen], fields].concat(), name);
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name} {number}: {e}: {text}"))
        };
        let whole = json(&[]);
        assert!(whole.contains_key("eth.src") && whole.contains_key(has), "{name} {number}: {whole:?}");
        let names: Vec<&String> = whole.keys().collect();
        for names in names.chunks(60) {
            let named = json(&names.iter().flat_map(|name| ["-e", name]).collect::<Vec<_>>());
            for (field, values) in named {
                // The columns have one value each.
                let of_whole = &whole[&field];
                assert!(*of_whole == values || of_whole[0] == values[0] && field.contains("frame."), "{field}");
            }
        }
    }
}

#[test]
fn invalid_combinations_of_options_are_refused() {
    let refused = |arguments: &[&str]| {
        let (code, _, error) = run(arguments, &captures::path("rxe-v42-deleg"));
        assert_eq!(code, Some(2));
        error
    };
    assert!(refused(&["-T", "fields"]).contains("-T fields needs -e FIELD"));
    assert!(refused(&["-e", "rpc.xid"]).contains("-T fields, csv or json"));
    assert!(refused(&["-T", "fields", "-e", "rpc.xids"]).contains("unknown field rpc.xids; did you mean rpc.xid?"));
    assert!(refused(&["-T", "fields", "-e", "rpc.xid", "-E", "separator=ab"]).contains("separator=/t|/s|CHAR"));
    assert!(refused(&["-T", "csv", "-E", "quote=s"]).contains("-E separator and quote apply to -T fields"));
    assert!(refused(&["-T", "csv", "-V"]).contains("-V prints text and cannot be combined with -T csv"));
    assert!(refused(&["-T", "json", "-x"]).contains("-x prints text and cannot be combined with -T json"));
}

/// Returns the lines of the hex dump.
fn bytes(text: &str) -> Vec<&str> {
    let is_dump = |line: &&str| {
        line.get(4..6) == Some("  ") && line.get(..4).is_some_and(|at| at.chars().all(|c| c.is_ascii_hexdigit()))
    };
    text.lines().filter(is_dump).collect()
}

#[test]
fn bytes_of_frames_are_shown_as_tshark_shows_them() {
    let Some(expected) = tshark(&["-x", "-c", "9"], "rxe-v42") else { return };
    let ours = shown(&["--view", "frames", "-x", "-c", "9", "--summary", "none"], "rxe-v42");
    assert_eq!(bytes(&ours), bytes(&expected));
}

#[test]
fn bytes_of_a_transaction_are_those_of_its_messages_and_its_chunks() {
    let write = ["-x", "-Y", "nfsrdma.xid == 0x9c8df27d", "--summary", "none"];
    let text = shown(&write, "rxe-v42");
    let titles: Vec<&str> = text.lines().filter(|line| line.ends_with(" bytes:")).collect();
    // 52 bytes of RPC-over-RDMA precede the 196 of the Call.
    assert_eq!(titles[0], "Call, 248 bytes:");
    assert_eq!(titles[2], "Read chunk 0, segment 0, 8192 of 8192 bytes:");
    assert!(text.contains("\n0000  9c 8d f2 7d 00 00 00 01 "), "{}", &text[..400]);
}

#[test]
fn a_whole_frame_has_its_time_in_iso_8601_too_if_asked_for() {
    let line = |arguments: &[&str]| {
        let arguments = [&["--view", "frames", "-T", "json", "-c", "1"], arguments].concat();
        serde_json::from_str::<Value>(&shown(&arguments, "rxe-v42")).unwrap()
    };
    let (plain, iso) = (line(&[]), line(&["-t", "iso"]));
    assert_eq!(plain["frame.time_epoch"], iso["frame.time_epoch"]);
    assert_eq!(plain["frame.time_epoch"][0], "1795230436.754465185");
    assert_eq!(plain["frame.time_iso"], Value::Null);
    assert_eq!(iso["frame.time_iso"], serde_json::json!(["2026-11-21T03:07:16.754465185Z"]));
    // -e selects exactly the fields of a line.
    let chosen = line(&["-t", "iso", "-e", "frame.time_epoch"]);
    assert_eq!(chosen, serde_json::json!({ "frame.time_epoch": ["1795230436.754465185"] }));
}
