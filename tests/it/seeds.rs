//! The documents that NFS over RDMA began with, by their sections, tested with the program. 001 is
//! draft-ietf-nfsv4-rpcrdma-cm-pvt-data-02, 002 draft-ietf-nfsv4-rfc5667bis-02, 003 "NFS over RDMA" (SIGCOMM 2003), 004
//! draft-talpey-nfsv4-rdma-sess-01.

use std::path::Path;

use serde_json::{Value, json};

use crate::captures::{self, Temporary};
use crate::dialects::{capture, fabric::Kind, headers::Dialect};
use crate::mutations::{Kept, frames};
use crate::program::{nanoseconds, output};
use crate::tunnels::pcap;

pub(crate) fn connections(capture: &Path) -> Vec<Value> {
    let text = output(capture, &["--view", "connections", "-T", "json", "--summary", "none"]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn with_private_data(file: &str, client: [u8; 4], server: [u8; 4]) -> Temporary {
    with_private_data_of("rxe-v42", file, client, server)
}

/// Changes the last four bytes of private data of both sides of a capture: version, flags, send and receive size.
pub(crate) fn with_private_data_of(name: &str, file: &str, client: [u8; 4], server: [u8; 4]) -> Temporary {
    const IDENTIFIER: [u8; 4] = [0xf6, 0xab, 0x0e, 0x18];
    let mut frames = frames(name);
    let mut sides = [client, server].into_iter();
    for kept in &mut frames {
        if let Some(at) = kept.bytes.windows(4).position(|bytes| bytes == IDENTIFIER)
            && let Some(said) = sides.next()
        {
            kept.bytes[at + 4..at + 8].copy_from_slice(&said);
            kept.seal();
        }
    }
    assert_eq!(sides.next(), None, "two messages have private data");
    Temporary::new(file, &pcap(&frames))
}

#[test]
fn seed_001_5_2_the_threshold_of_a_direction_is_the_smaller_of_send_and_receive() {
    // The client sends 2 KiB and receives 1, the server sends 8 and receives 4.
    let file = with_private_data("thresholds.pcap", [1, 0, 1, 0], [1, 0, 7, 3]);
    let lines = connections(file.path());
    let set_up = &lines[0]["set_up"];
    assert_eq!(set_up["inline_thresholds"], json!({"to_server": 2048, "to_client": 1024}));
    assert_eq!((&set_up["client"]["send_size"], &set_up["server"]["receive_size"]), (&json!(2048), &json!(4096)));
    let text = output(file.path(), &["--view", "connections", "-V", "--summary", "none"]);
    assert!(text.contains("inline thresholds: 2048 to the server, 1024 to the client"), "{text}");
}

#[test]
fn seed_001_5_1_the_flags_are_a_byte_with_reserved_bits() {
    let file = with_private_data("flags.pcap", [1, 0x81, 3, 3], [1, 0x40, 3, 3]);
    let fields = ["-e", "rpcordma.private_data.flags", "-e", "rpcordma.private_data.remote_invalidation"];
    let printed =
        output(file.path(), &[&["--view", "frames", "-T", "fields", "--summary", "none"][..], &fields].concat());
    let printed: Vec<&str> = printed.lines().filter(|line| !line.starts_with('\t')).collect();
    assert_eq!(printed, ["129\t1", "64\t0"]);
}

#[test]
fn seed_001_4_1_cut_private_data_is_distinguished_from_absent() {
    let printed = |file: &Path| {
        let set_up = connections(file)[0]["set_up"].clone();
        (set_up["private_data"].clone(), set_up["inline_thresholds"].clone())
    };
    // Version 2 of the format is unknown, and counts as absent: 1,024 bytes each way.
    let unknown = with_private_data("unknown-private-data.pcap", [2, 0, 3, 3], [1, 0, 3, 3]);
    let thresholds = json!({"to_server": 1024, "to_client": 1024});
    assert_eq!(printed(unknown.path()), (json!({"client": "none", "server": "present"}), thresholds));
    let mut cut = frames("rxe-v42");
    cut.iter_mut().for_each(|kept| kept.bytes.truncate(228));
    let cut = Temporary::new("cut-private-data.pcap", &pcap(&cut));
    // A REQ is longer than a REP: that of the client is beyond the snap length.
    assert_eq!(printed(cut.path()), (json!({"client": "cut", "server": "present"}), Value::Null));
}

/// RFC 8167 section 4.1.
#[test]
fn seed_8167_4_1_the_credits_of_the_reverse_direction_are_counted_apart() {
    let path = captures::path("rxe-v42-deleg");
    let credits = connections(&path)[0]["credits"].clone();
    assert_eq!((&credits["reverse_asked"], &credits["reverse_granted"]), (&json!(2), &json!(16)));
    assert_eq!(credits["granted"], json!(128));
    let text = output(&path, &["--view", "connections", "-V", "--summary", "none"]);
    assert!(text.contains("reverse credits: 2 asked, 16 granted"), "{text}");
}

/// A mount with nconnect=2: one session over two concurrent connections, of which the second has another client port.
#[test]
fn seed_004_2_1_connections_are_joined_by_their_session() {
    const PORT_BEHIND: u16 = 1000;
    let path = captures::path("tcp-v42");
    let alone = connections(&path);
    let has_session = |line: &&Value| line["sessions"] != json!([]);
    let [own] = &alone.iter().filter(has_session).collect::<Vec<_>>()[..] else { panic!("{alone:?}") };
    let port = u16::try_from(own["client_port"].as_u64().unwrap()).unwrap();
    let mut both = Vec::new();
    for kept in frames("tcp-v42") {
        let mut other = kept.clone();
        let ports = [34, 36].map(|at| u16::from_be_bytes([kept.bytes[at], kept.bytes[at + 1]]));
        let is_tcp = kept.bytes[12..14] == [0x08, 0x00] && kept.bytes[23] == 6;
        let at = [34, 36].into_iter().zip(ports).find(|(_, of)| is_tcp && *of == port);
        both.push(kept);
        if let Some((at, _)) = at {
            other.bytes[at..at + 2].copy_from_slice(&(port + PORT_BEHIND).to_be_bytes());
            both.push(other);
        }
    }
    let file = Temporary::new("nconnect.pcap", &pcap(&both));
    let lines = connections(file.path());
    let joined: Vec<&Value> = lines.iter().filter(has_session).collect();
    let mut numbers: Vec<u64> = joined.iter().map(|line| line["connection"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers.len(), 2, "{lines:?}");
    let session = &own["sessions"][0]["session"];
    for line in &joined {
        let [only] = &line["sessions"].as_array().unwrap()[..] else { panic!("{joined:?}") };
        assert_eq!((&only["session"], &only["connections"]), (session, &json!(numbers)));
    }
    let text = output(file.path(), &["--view", "connections", "-T", "csv", "--summary", "none"]);
    assert_eq!(text.lines().count(), 1 + lines.len());
}

#[test]
fn seed_004_2_4_credits_are_asked_for_granted_and_used_over_time() {
    let path = captures::path("rxe-v42");
    let line = connections(&path).remove(0);
    let steps = line["credits"]["steps"].as_array().unwrap();
    assert!(steps.len() > 10, "{}", steps.len());
    for (key, of_all) in [("asked", "asked"), ("granted", "granted"), ("in_flight", "in_use")] {
        let most = steps.iter().map(|step| step[key].as_u64().unwrap()).max();
        assert_eq!(most, line["credits"][of_all].as_u64(), "{key}");
    }
    let times: Vec<u64> = steps.iter().map(|step| nanoseconds(step["time"].as_str().unwrap())).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    let [start, end] = ["time", "end_time"].map(|key| nanoseconds(line[key].as_str().unwrap()));
    assert!(times[0] == start && times.last().is_some_and(|last| *last <= end));
}

#[test]
fn seed_002_4_1_the_list_shows_the_target_of_a_symbolic_link() {
    for (name, operation, line) in [
        ("rxe-v42", "CREATE", "CREATE /data/w/sl LNK → \"s100\""),
        ("rxe-v3", "SYMLINK", "SYMLINK /export/data/w/sl → \"s100\""),
    ] {
        let filter = format!("nfsrdma.operation == {operation}");
        let list = output(&captures::path(name), &["-Y", &filter, "--summary", "none"]);
        assert!(list.contains(line), "{list}");
        // The target of the long link went in a Read chunk.
        assert!(list.contains("longsl") && list.contains("xxx/xxx"), "{list}");
    }
}

#[test]
fn seed_003_4_3_1_a_done_message_is_shown_and_its_chunks_are_counted() {
    for dialect in [Dialect::Prototype, Dialect::Rfc5666] {
        let (file, conversations) = capture(dialect, Kind::Roce, 5);
        let done = conversations.iter().filter(|one| one.done.is_some()).count();
        assert!(done > 0, "{dialect:?}");
        let frames = output(file.path(), &["--view", "frames", "--summary", "none"]);
        assert_eq!(frames.matches("RDMA_DONE of 0x").count(), done, "{dialect:?}");
        let trees = output(file.path(), &["--view", "frames", "-V", "--summary", "none"]);
        assert_eq!(trees.matches("RDMA_DONE, ").count() + trees.matches("RDMA_DONE [").count(), done, "{dialect:?}");
        let fetched: usize =
            conversations.iter().flat_map(|one| &one.reply_reads).map(|(_, chunk)| chunk.content.len()).sum();
        let text = output(file.path(), &["-T", "json", "-q"]);
        let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(summary["chunks"]["reply_read"]["moved"].as_u64(), Some(fetched as u64), "{dialect:?}");
    }
}

/// draft-ietf-nfsv4-rpcrdma-version-two sections 4.2.1, 5.2 and 6.3.3: messages without a Transaction have a tree, and
/// credits count them.
#[test]
fn draft_version_two_6_3_3_control_messages_have_a_tree_and_messages_have_credits() {
    let seeds = 1..20;
    let (file, _) = { seeds.map(|seed| capture(Dialect::Version2, Kind::Roce, seed)) }
        .find(|(file, _)| output(file.path(), &["--view", "frames"]).contains("RDMA2_CONNPROP_FINAL"))
        .expect("one of them tells properties");
    let trees = output(file.path(), &["--view", "frames", "-V", "--summary", "none"]);
    assert!(trees.contains("htype: RDMA2_CONNPROP_FINAL (7)"), "{trees}");
    assert!(trees.contains("rdma_props: which RDMA2_PROPID_"), "{trees}");
    let messages = connections(file.path())[0]["credits"]["messages"].clone();
    assert!(["client", "server"].iter().all(|side| messages[*side]["sent"].as_u64() > Some(0)), "{messages}");
    assert!(messages["client"]["limit"].is_u64(), "{messages}");
}

/// docs/sessions.md maps the operations of section 6 to those of today; the program supports each of them.
#[test]
fn seed_004_6_the_operations_of_sessions_are_those_of_rfc8881() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sessions.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| 6.")).collect();
    assert_eq!(rows.len(), 5);
    let mut operations = 0;
    for row in rows {
        let now = row.split('|').nth(3).unwrap();
        for name in
            now.split('`').skip(1).step_by(2).filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
        {
            let field = if name.starts_with("CB_") { "nfs.cb.operation" } else { "nfs.opcode" };
            output(&captures::path("rxe-v42-deleg"), &["-q", "-Y", &format!("{field} == {name}"), "--summary", "none"]);
            operations += 1;
        }
    }
    assert!(operations >= 6);
}

/// Wherever a snap length truncates a LOOKUP, the filehandle of GETFH names the file.
#[test]
fn rfc8881_18_8_where_the_call_is_cut_the_path_comes_from_the_reply() {
    let mut cut = frames("rxe-v42");
    cut.iter_mut().for_each(|kept: &mut Kept| kept.bytes.truncate(220));
    let file = Temporary::new("path-of-reply.pcap", &pcap(&cut));
    let mut named = 0;
    for line in output(file.path(), &["-T", "json", "--summary", "none"]).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let given = |entry: &Value| {
            let handle = entry["object"].as_str()?.to_owned();
            (entry["op"] == "GETFH" && line["operation"] == "LOOKUP").then_some(handle)
        };
        let operations = line["operations"].as_array().unwrap();
        let is_cut = line["missing"].as_array().unwrap().iter().any(|code| code.as_str().unwrap().starts_with("call:"));
        if let Some(handle) = operations.iter().find_map(given).filter(|_| is_cut) {
            let bytes: Vec<u8> =
                (0..handle.len() / 2).map(|at| u8::from_str_radix(&handle[2 * at..2 * at + 2], 16).unwrap()).collect();
            assert_eq!(line["path"].as_str(), Some(&*format!("0x{:08x}", crc32(&bytes))), "{line}");
            named += 1;
        }
    }
    assert!(named >= 10, "{named}");
}

/// Returns the CRC-32 of IEEE 802.3 section 3.2.9, Wireshark's hash of a filehandle.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}
