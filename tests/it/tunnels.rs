//! A capture from a mirror port or an overlay has the same Transactions as one without a tunnel: every frame of a real
//! capture is encapsulated in each kind of tunnel, and the lines must be the same, including ICRC, frames and times.

use std::process::Command;

use nfsrdma_flow::{Flow, FlowLimits};
use serde_json::{Value, json};

use crate::captures::Temporary;
use crate::mutations::{Kept, frames};
use crate::program;
use crate::skipped::skip_without;

const NAME: &str = "rxe-v42-deleg";

const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&ETHERNET[..], &ether_type.to_be_bytes(), payload].concat()
}

/// Encodes an IPv4 datagram; `fragment` is the word of flags and offset. `length` bytes of payload were on the wire.
fn ipv4(protocol: u8, fragment: u16, payload: &[u8], length: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + length as u16).to_be_bytes());
    header.extend([0, 1]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    ethernet(0x0800, &[&header, payload].concat())
}

/// Encodes a UDP header for `length` bytes.
fn udp(port: u16, length: usize) -> Vec<u8> {
    [0xc001, port, 8 + length as u16, 0].iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Function that encapsulates a frame: from its bytes, and its length on the wire.
pub(crate) type Wrap = fn(&[u8], usize) -> Vec<u8>;

fn gre(header: &[u8], inside: &[u8], length: usize) -> Vec<u8> {
    ipv4(47, 0x4000, &[header, inside].concat(), header.len() + length)
}

const ERSPAN_2: [u8; 16] = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0x64, 0x00, 0x05, 0, 0, 0, 0];
const VXLAN: [u8; 8] = [0x08, 0, 0, 0, 0, 0, 100, 0];
/// Labels 100 and 200.
const LABELS: [u8; 8] = [0x00, 0x06, 0x40, 0x40, 0x00, 0x0c, 0x81, 0x40];

const TUNNELS: [(&str, Wrap); 13] = [
    ("gre", |f, n| gre(&[0, 0, 0x08, 0], &f[14..], n - 14)),
    ("gre with checksum, key and sequence", |f, n| {
        gre(&[0xb0, 0, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9], &f[14..], n - 14)
    }),
    ("nvgre", |f, n| gre(&[0x20, 0, 0x65, 0x58, 0, 0, 1, 0], f, n)),
    ("erspan type I", |f, n| gre(&[0, 0, 0x88, 0xbe], f, n)),
    ("erspan type II", |f, n| gre(&ERSPAN_2, f, n)),
    ("erspan type III", |f, n| {
        let erspan = [0x20, 0x64, 0, 5, 1, 2, 3, 4, 0, 0, 0x80, 1, 0x0c, 0, 0, 0, 0, 0, 0, 0];
        gre(&[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1][..], &erspan].concat(), f, n)
    }),
    ("vxlan", |f, n| vxlan(f, n)),
    ("vxlan of a tagged frame", |f, n| vxlan(&[&f[..12], &[0x81, 0, 0, 5][..], &f[12..]].concat(), n + 4)),
    ("mpls", |f, _| ethernet(0x8847, &[&LABELS, &f[14..]].concat())),
    ("mpls pseudo-wire", |f, _| ethernet(0x8847, &[&LABELS, f].concat())),
    ("mpls pseudo-wire with control word", |f, _| ethernet(0x8848, &[&LABELS, &[0, 0, 0, 7][..], f].concat())),
    ("ip in ip", |f, n| ipv4(4, 0x4000, &f[14..], n - 14)),
    ("a mirrored overlay", |f, n| {
        let inside = vxlan(f, n);
        gre(&ERSPAN_2, &inside, n + inside.len() - f.len())
    }),
];

pub(crate) fn vxlan(inside: &[u8], length: usize) -> Vec<u8> {
    let length = VXLAN.len() + length;
    ipv4(17, 0x4000, &[&udp(4789, length), &VXLAN[..], inside].concat(), 8 + length)
}

/// Returns a capture of Ethernet frames, with nanoseconds.
pub(crate) fn pcap(frames: &[Kept]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1u32] {
        file.extend(word.to_le_bytes());
    }
    for frame in frames {
        let (seconds, nanoseconds) = (frame.time.0 / 1_000_000_000, frame.time.0 % 1_000_000_000);
        for word in [seconds as u32, nanoseconds as u32, frame.bytes.len() as u32, frame.length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&frame.bytes);
    }
    file
}

pub(crate) fn wrapped(frames: &[Kept], wrap: Wrap) -> Vec<Kept> {
    let wrap = |kept: &Kept| {
        let bytes = wrap(&kept.bytes, kept.length as usize);
        let added = (bytes.len() - kept.bytes.len()) as u32;
        Kept { length: kept.length + added, bytes, ..kept.clone() }
    };
    // A tunnel for IP carries nothing else.
    frames.iter().filter(|kept| kept.bytes[12..14] == [0x08, 0x00]).map(wrap).collect()
}

fn lines(name: &str, frames: &[Kept]) -> program::Lines {
    program::json(Temporary::new(&format!("{}.pcap", name.replace(' ', "-")), &pcap(frames)).path())
}

/// Returns the Transactions, without their virtual network.
fn transactions(name: &str, frames: &[Kept]) -> Vec<program::Transaction> {
    let mut transactions = lines(name, frames).transactions;
    for members in transactions.iter_mut().filter_map(|transaction| transaction.0.as_object_mut()) {
        members.remove("vlan_ids");
        members.remove("vni");
    }
    transactions
}

pub(crate) fn only_ip(name: &str) -> Vec<Kept> {
    frames(name).into_iter().filter(|kept| kept.bytes[12..14] == [0x08, 0x00]).collect()
}

#[test]
fn in_every_tunnel_the_transactions_are_those_without() {
    let frames = only_ip(NAME);
    let plain = transactions("plain", &frames);
    assert!(plain.len() > 30);
    for (name, wrap) in TUNNELS {
        assert_eq!(transactions(name, &wrapped(&frames, wrap)), plain, "{name}");
    }
}

/// VLAN tags from outside to inside (IEEE 802.1Q section 9.6), VNI (RFC 7348 section 5) and VSID (RFC 7637 section 3.2)
/// are in the lines of Transactions, of connections, of the summary, and are fields.
#[test]
fn ieee_802_1q_9_6_rfc7348_5_the_virtual_network_is_reported() {
    // The first three bits after the type are the priority.
    const TAGS: [u8; 8] = [0x88, 0xa8, 0xe0, 7, 0x81, 0x00, 0xe0, 5];
    let cases: [(&str, Wrap, Value, Value, &str); 5] = [
        ("plain", |f, _| f.to_vec(), Value::Null, Value::Null, "\t"),
        ("two tags", |f, _| [&f[..12], &TAGS, &f[12..]].concat(), json!([7, 5]), Value::Null, "7,5\t"),
        ("vxlan", |f, n| vxlan(f, n), Value::Null, json!(100), "\t100"),
        (
            "a tag in vxlan",
            |f, n| vxlan(&[&f[..12], &[0x81, 0, 0, 5][..], &f[12..]].concat(), n + 4),
            json!([5]),
            json!(100),
            "5\t100",
        ),
        ("nvgre", |f, n| gre(&[0x20, 0, 0x65, 0x58, 0, 0, 1, 9], f, n), Value::Null, json!(1), "\t1"),
    ];
    let plain = only_ip(NAME);
    for (name, wrap, vlan_ids, vni, fields) in cases {
        let bytes = pcap(&wrapped(&plain, wrap));
        let file = Temporary::new(&format!("printed-{}.pcap", name.replace(' ', "-")), &bytes);
        let run = |arguments: &[&str]| {
            let output = program::output(file.path(), arguments);
            assert!(!output.is_empty(), "{name}");
            output
        };
        let is_told = |value: &Value| value["vlan_ids"] == vlan_ids && value["vni"] == vni;
        for line in run(&["-T", "json"]).lines().chain(run(&["--view", "connections", "-T", "json"]).lines()) {
            let value: Value = serde_json::from_str(line).unwrap();
            if value["kind"] == "summary" {
                assert!(value["connections"]["listed"].as_array().unwrap().iter().all(is_told), "{name}: {line}");
            } else {
                assert!(is_told(&value), "{name}: {line}");
            }
        }
        let printed = run(&["-T", "fields", "-e", "nfsrdma.vlan_id", "-e", "nfsrdma.vni", "--summary", "none"]);
        assert!(printed.lines().all(|line| line == fields), "{name}: {printed}");
    }
}

#[test]
fn a_snap_length_cuts_the_same_inside_a_tunnel() {
    let mut frames = only_ip(NAME);
    for frame in &mut frames {
        frame.bytes.truncate(160);
    }
    let plain = transactions("plain-cut", &frames);
    assert!(plain.iter().any(|transaction| !transaction.missing().is_empty()));
    for (name, wrap) in TUNNELS {
        let name = format!("cut {name}");
        assert_eq!(transactions(&name, &wrapped(&frames, wrap)), plain, "{name}");
    }
}

/// Removes the frame numbers, which differ if one packet takes two frames.
fn without_frames(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            // Also that of a finding.
            members.remove("frames");
            members.remove("frame");
            members.values_mut().for_each(|member| *member = without_frames(member.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_frames(item.take())),
        _ => {}
    }
    value
}

#[test]
fn fragmented_datagrams_of_a_tunnel_are_reassembled() {
    let plain = only_ip(NAME);
    let mut fragments = Vec::new();
    for (number, kept) in (1u16..).zip(&plain) {
        let payload = [&ERSPAN_2, &kept.bytes[..]].concat();
        let (head, tail) = payload.split_at(payload.len() / 16 * 8);
        let offset = head.len() as u16 / 8;
        for (flags, piece) in [(0x2000, head), (offset, tail)] {
            let mut bytes = ipv4(47, flags, piece, piece.len());
            bytes[18..20].copy_from_slice(&number.to_be_bytes());
            fragments.push(Kept { length: bytes.len() as u32, bytes, ..kept.clone() });
        }
    }
    let comparable =
        |lines: program::Lines| lines.transactions.into_iter().map(|t| without_frames(t.0)).collect::<Vec<_>>();
    assert_eq!(comparable(lines("fragments", &fragments)), comparable(lines("whole", &plain)));
}

/// The ICRC covers addresses inside of the tunnel.
#[test]
fn the_icrc_is_checked_inside_of_a_tunnel() {
    let frames = only_ip(NAME);
    let checked = |frames: &[Kept]| {
        let mut flow = Flow::new(FlowLimits { check_icrc: true, ..FlowLimits::default() });
        for (number, kept) in (1..).zip(frames) {
            flow.process_frame(&kept.frame(number));
        }
        (flow.icrc_counts().good, flow.icrc_counts().bad, flow.icrc_counts().unknown)
    };
    assert_eq!(checked(&frames), (frames.len() as u64, 0, 0));
    for (name, wrap) in TUNNELS {
        assert_eq!(checked(&wrapped(&frames, wrap)), (frames.len() as u64, 0, 0), "{name}");
    }
}

/// tshark finds the same XIDs in the same frames. It decodes RoCEv2 in ERSPAN and VXLAN.
#[test]
fn tshark_finds_the_same_packets_in_a_tunnel() {
    let frames = only_ip(NAME);
    for (name, wrap) in TUNNELS.into_iter().filter(|(name, _)| ["erspan type II", "vxlan"].contains(name)) {
        let file = Temporary::new(&format!("tshark-{}.pcap", name.replace(' ', "-")), &pcap(&wrapped(&frames, wrap)));
        let fields = ["-T", "fields", "-E", "occurrence=f", "-e", "frame.number", "-e", "rpcordma.xid"];
        let output = Command::new("tshark").arg("-r").arg(file.path()).args(fields).output();
        let Ok(output) = output else {
            skip_without("tshark");
            return;
        };
        let mut theirs: Vec<(u64, u32)> = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some((frame, xid)) = line.split_once('\t').filter(|(_, xid)| !xid.is_empty()) {
                let xid = u32::from_str_radix(xid.trim_start_matches("0x"), 16).expect("an XID");
                theirs.push((frame.parse().expect("a number"), xid));
            }
        }
        let mut ours: Vec<(u64, u32)> = Vec::new();
        for transaction in program::json(file.path()).transactions {
            for message in ["call", "reply"].into_iter().filter_map(|side| transaction.message(side)) {
                ours.extend(program::frames(message).first().map(|frame| (*frame, transaction.xid())));
            }
        }
        ours.sort_unstable();
        assert!(!theirs.is_empty(), "{name}");
        assert_eq!(ours, theirs, "{name}");
    }
}
