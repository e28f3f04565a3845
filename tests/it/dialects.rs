//! Captures of every dialect of RPC-over-RDMA, from the generator of conversations: lines, filters, views, and the
//! option `--dialect`.

#[path = "../../crates/flow/tests/conversations/calls.rs"]
#[allow(dead_code, reason = "the dissectors' own test needs more of it")]
pub(crate) mod calls;
#[path = "../../crates/flow/tests/conversations/fabric.rs"]
#[allow(dead_code, reason = "the dissectors' own test needs more of it")]
pub(crate) mod fabric;
#[path = "../../crates/flow/tests/conversations/headers.rs"]
pub(crate) mod headers;
#[path = "../../crates/flow/tests/conversations/speech.rs"]
mod speech;
#[path = "../../crates/flow/tests/conversations/writer.rs"]
pub(crate) mod writer;

use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::program::output;
use crate::schema::{assert_keeps, validator};
use calls::{Conversation, Dice, Region};
use fabric::{Fabric, Kind};
use headers::Dialect;

/// Number of conversations in a capture.
const CONVERSATIONS: u32 = 12;

fn key(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Prototype => "prototype",
        Dialect::Rfc5666 => "rfc5666",
        Dialect::Rfc8166 => "rfc8166",
        Dialect::Version2 => "v2",
    }
}

/// Creates a capture file of one connection, and returns its conversations.
pub(crate) fn capture(dialect: Dialect, kind: Kind, seed: u64) -> (NamedTempFile, Vec<Conversation>) {
    let mut dice = Dice::new(seed);
    let mut handles = Region::Each(0x1000);
    let conversations: Vec<_> =
        (1..=CONVERSATIONS).map(|xid| Conversation::roll(&mut dice, dialect, xid, &mut handles)).collect();
    let mut fabric = Fabric::new(kind, 1024);
    speech::greet(&mut dice, dialect, &mut fabric);
    speech::speak(&mut dice, &conversations, &mut fabric);
    let mut bytes = Vec::new();
    // A pcap file of Ethernet frames, a millisecond apart.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_536, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (at, frame) in (0..).zip(&fabric.frames) {
        for word in [1_700_000_000 + at / 1000, at % 1000 * 1000, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    (file, conversations)
}

fn lines(capture: &Path, arguments: &[&str]) -> Vec<Value> {
    let text = output(capture, arguments);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the exit code of a comparison: same or different.
fn code(arguments: &[&str], files: &[&Path]) -> Option<i32> {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).args(arguments).args(files).output().unwrap().status.code()
}

/// A baseline written in one dialect differs from the capture read in another, and neither has Transactions for the
/// other.
#[test]
fn compare_and_check_read_the_dialect_that_is_named() {
    each(|dialect, capture, _| {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("dialect.pcap");
        std::fs::copy(capture, &copy).unwrap();
        let named = |other| ["check", "--dialect", key(other)];
        let bless = [&named(dialect)[..], &["--bless"]].concat();
        assert_eq!(code(&bless, &[&copy]), Some(0), "{dialect:?}");
        assert_eq!(code(&named(dialect), &[&copy]), Some(0), "{dialect:?}");
        assert_eq!(code(&["compare", "--dialect", key(dialect)], &[capture, &copy]), Some(0), "{dialect:?}");
        let is_version1 = |dialect| matches!(dialect, Dialect::Rfc5666 | Dialect::Rfc8166);
        for other in Dialect::ALL.into_iter().filter(|other| !(is_version1(*other) && is_version1(dialect))) {
            if key(other) != key(dialect) {
                assert_eq!(code(&named(other), &[&copy]), Some(1), "{dialect:?} as {other:?}");
            }
        }
    });
    let (file, _) = capture(Dialect::Rfc8166, Kind::Roce, 3);
    let nothing = code(&["compare", "--dialect", "prototype"], &[file.path(), file.path()]);
    assert_eq!(nothing, Some(2), "no transactions in either");
}

/// Runs a test for a capture of each dialect over each transport.
fn each(test: impl Fn(Dialect, &Path, &[Conversation])) {
    for dialect in Dialect::ALL {
        for (kind, seed) in [(Kind::Roce, 7), (Kind::Iwarp, 8)] {
            let (file, conversations) = capture(dialect, kind, seed);
            test(dialect, file.path(), &conversations);
        }
    }
}

#[test]
fn the_dialect_of_each_message_is_in_its_line_and_the_line_keeps_the_schema() {
    let transaction = validator("transaction.schema.json");
    each(|dialect, capture, conversations| {
        let lines = lines(capture, &["-T", "json", "--summary", "none"]);
        assert_eq!(lines.len(), conversations.len(), "{dialect:?}");
        for line in &lines {
            assert_keeps(&transaction, line, key(dialect));
            assert_eq!(line["complete"], true, "{dialect:?}: {line}");
            let xid = u32::from_str_radix(&line["xid"].as_str().unwrap()[2..], 16).unwrap();
            let conversation = conversations.iter().find(|one| one.xid == xid).unwrap();
            for (side, sends) in [("call", &conversation.call_sends), ("reply", &conversation.reply_sends)] {
                let header = &line[side]["rpcrdma"];
                assert_eq!(header["dialect"], key(dialect), "{dialect:?}: {line}");
                assert_eq!(line[side]["sends"], sends.len(), "{dialect:?}: {line}");
                assert_eq!(header["credits"].is_null(), dialect == Dialect::Prototype, "{dialect:?}: {line}");
            }
            assert_eq!(line["done"].as_bool().unwrap_or(false), conversation.done.is_some(), "{dialect:?}: {line}");
        }
    });
}

#[test]
fn a_filter_selects_by_dialect() {
    each(|dialect, capture, conversations| {
        for other in Dialect::ALL {
            let filter = format!("rpcordma.dialect == {}", key(other));
            let count = lines(capture, &["-T", "json", "--summary", "none", "-Y", &filter]).len();
            assert_eq!(count, if other == dialect { conversations.len() } else { 0 }, "{dialect:?} {filter}");
        }
    });
    let (file, conversations) = capture(Dialect::Version2, Kind::Roce, 7);
    let offered = conversations.iter().filter(|one| one.invalidate.is_some()).count();
    let count = lines(file.path(), &["-T", "json", "--summary", "none", "-Y", "rpcordma.inv_handle > 0"]).len();
    assert_eq!(count, offered);
}

#[test]
fn the_view_of_connections_names_the_dialect() {
    let connection = validator("connection.schema.json");
    each(|dialect, capture, _| {
        let text = output(capture, &["--view", "connections", "--summary", "none"]);
        let cells: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert!(cells[0].contains(&"DIALECT") && cells[1].contains(&key(dialect)), "{dialect:?}: {text}");
        let lines = lines(capture, &["--view", "connections", "-T", "json"]);
        assert_keeps(&connection, &lines[0], key(dialect));
        assert_eq!(lines[0]["dialect"], key(dialect));
        assert!(lines[0]["properties"].is_null() || dialect == Dialect::Version2, "{}", lines[0]);
    });
}

/// Returns `true` if a packet has nothing but XID 0, version 2, credits, and RDMA2_GRANT.
fn has_grant(capture: &[u8]) -> bool {
    let is_grant = |header: &[u8]| header[..8] == [0, 0, 0, 0, 0, 0, 0, 2] && header[12..] == [0, 0, 0, 5];
    // Behind the ULPDU_Length of 34 and the headers of DDP and RDMAP, or the UDP length of 40 and the Base Transport
    // Header.
    capture.windows(36).any(|packet| is_grant(&packet[20..]) && (packet[..2] == [0, 34] || packet[4..6] == [0, 40]))
}

#[test]
fn messages_of_every_dialect_are_shown_in_the_list_in_full_and_frame_by_frame() {
    let grants = Cell::new(0);
    each(|dialect, capture, conversations| {
        let tree = output(capture, &["-V"]);
        let headers = tree.lines().filter(|line| line.contains("RPC over RDMA")).count();
        assert_eq!(headers, 2 * conversations.len(), "{dialect:?}: {tree}");
        let frames = output(capture, &["--view", "frames"]);
        assert!(!frames.contains("malformed") && !frames.contains("unknown memory"), "{dialect:?}: {frames}");
        let has_done = conversations.iter().any(|one| one.done.is_some());
        assert_eq!(frames.contains("RDMA_DONE of"), has_done, "{dialect:?}: {frames}");
        let has_grant = dialect == Dialect::Version2 && has_grant(&std::fs::read(capture).unwrap());
        grants.set(grants.get() + u32::from(has_grant));
        assert_eq!(frames.contains("RDMA2_GRANT"), has_grant, "{dialect:?}: {frames}");
        // The list and the summary include the chunks that the client reads.
        let moves = |one: &Conversation| one.reply_reads.iter().any(|(_, chunk)| !chunk.content.is_empty());
        let summary = lines(capture, &["-q", "-T", "json"]);
        let moved = summary[0]["chunks"]["reply_read"]["moved"].as_u64().unwrap_or(0);
        assert!(moved > 0 || !conversations.iter().any(moves), "{dialect:?}: {}", summary[0]["chunks"]);
    });
    assert!(grants.get() > 0);
}

/// A capture is read in the selected dialect only.
#[test]
fn the_option_names_the_dialect() {
    each(|dialect, capture, conversations| {
        let named = |name| {
            let lines = lines(capture, &["-T", "json", "--summary", "none", "--dialect", name]);
            lines.iter().filter(|line| line["call"]["rpcrdma"]["dialect"] == name).count()
        };
        assert_eq!(named(key(dialect)), conversations.len(), "{dialect:?}");
        let others = Dialect::ALL.into_iter().filter(|other| key(*other) != key(dialect));
        let is_version1 = |dialect| matches!(dialect, Dialect::Rfc5666 | Dialect::Rfc8166);
        for other in others.filter(|other| !(is_version1(*other) && is_version1(dialect))) {
            // A header-only message may be valid in both.
            assert!(named(key(other)) < conversations.len() / 2, "{dialect:?} as {other:?}");
        }
    });
}
