//! Transport events of real captures, compared with a count from packet headers alone.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking, in its helper functions too")]

mod common;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_conformance::{ConformanceChecker, ReportedFindingSeverity};
use nfsrdma_dissectors::captured_frame::Frame;
use nfsrdma_flow::exceptional_transport_events::{CapturedTransportEvent, TransportAnomalyKind};
use nfsrdma_flow::{Flow, FlowLimits};

use common::{StoredFrame, captures, frames_of, lone_fpdu};

/// Frames by the kind of their event.
type FramesByKind = HashMap<&'static str, BTreeSet<u64>>;

fn name(event: &CapturedTransportEvent) -> Option<&'static str> {
    Some(match event.kind {
        TransportAnomalyKind::Nak(code) => ["nak 0", "nak 1", "nak 2", "nak 3"].get(usize::from(code.0))?,
        TransportAnomalyKind::OversizedSendRefused => "nak 1",
        TransportAnomalyKind::ReceiverNotReady { .. } => "rnr nak",
        TransportAnomalyKind::Retransmission => "retransmission",
        TransportAnomalyKind::RepeatedReadRequest => "repeated read",
        TransportAnomalyKind::SequenceGap => "gap",
        TransportAnomalyKind::CongestionNotification => "cnp",
        TransportAnomalyKind::CongestionExperienced => "congestion experienced",
        TransportAnomalyKind::ZeroWindow => "zero window",
        _ => return None,
    })
}

/// One direction: source, destination, and destination queue pair or ports.
type Direction = (Vec<u8>, Vec<u8>, u32);

/// Distance of sequence numbers of `bits` bits, negative if `other` comes first.
fn distance(bits: u32, one: u32, other: u32) -> i32 {
    (other.wrapping_sub(one) << (32 - bits)) as i32 >> (32 - bits)
}

/// Path MTU in bytes of the laboratory's RoCE connections: the active MTU of rxe over an Ethernet MTU of 1,500 bytes.
const PATH_MTU: u32 = 1024;

/// Events that headers show.
#[derive(Default)]
struct HeaderCount {
    frames: FramesByKind,
    /// Request PSNs of each direction, with those of responses to RDMA Reads.
    sent: HashMap<Direction, HashSet<u32>>,
    highest: HashMap<Direction, u32>,
    /// PSNs of RDMA Read requests before any packet showed the path MTU: how many PSNs they use is unknown to the
    /// product.
    early_reads: HashSet<(Direction, u32)>,
    has_seen_path_mtu: bool,
    /// End of the bytes of each direction of TCP.
    ends: HashMap<Direction, u32>,
}

impl HeaderCount {
    fn add(&mut self, kind: &'static str, frame: u64) {
        self.frames.entry(kind).or_default().insert(frame);
    }

    fn frame(&mut self, number: u64, bytes: &[u8]) -> Option<()> {
        let ip = bytes.get(14..)?;
        let (source, destination, protocol, ecn, length, rest) = match bytes.get(12..14)? {
            [0x08, 0x00] => {
                let length = usize::from(u16::from_be_bytes([ip[2], ip[3]])) - 20;
                (ip.get(12..16)?, ip.get(16..20)?, ip[9], ip[1] & 3, length, ip.get(20..)?)
            }
            [0x86, 0xdd] => {
                let length = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
                (ip.get(8..24)?, ip.get(24..40)?, ip[6], ip[1] >> 4 & 3, length, ip.get(40..)?)
            }
            _ => return None,
        };
        let names = (source.to_vec(), destination.to_vec());
        let has_met_congestion = match protocol {
            17 if rest.get(2..4)? == 4791_u16.to_be_bytes() => self.packet(number, names, rest.get(8..)?)?,
            6 => self.segment(number, names, rest, length)?,
            _ => false,
        };
        if has_met_congestion && ecn == 3 {
            self.add("congestion experienced", number);
        }
        Some(())
    }

    /// Counts a packet of RoCEv2. InfiniBand Architecture Specification volume 1, sections 9.2 and 9.3.
    fn packet(&mut self, number: u64, (from, to): (Vec<u8>, Vec<u8>), packet: &[u8]) -> Option<bool> {
        let word = |at: usize| Some(u32::from_be_bytes(packet.get(at..at + 4)?.try_into().ok()?));
        let (opcode, queue_pair, psn) = (packet[0], word(4)? & 0xff_ffff, word(8)? & 0xff_ffff);
        let direction = (from, to, queue_pair);
        self.has_seen_path_mtu |= matches!(opcode, 0x00 | 0x01 | 0x06 | 0x07 | 0x0d | 0x0e);
        match opcode {
            0x81 => self.add("cnp", number),
            0x11 => match packet.get(12)? {
                syndrome @ 0x60..=0x63 => {
                    self.add(["nak 0", "nak 1", "nak 2", "nak 3"][usize::from(syndrome & 3)], number)
                }
                0x20..=0x3f => self.add("rnr nak", number),
                _ => {}
            },
            0x00..=0x0c | 0x16 | 0x17 => {
                let is_read = opcode == 0x0c;
                let count = if is_read { word(24)?.div_ceil(PATH_MTU).max(1) } else { 1 };
                if is_read && !self.has_seen_path_mtu {
                    self.early_reads.insert((direction.clone(), psn));
                } else if self.early_reads.contains(&(direction.clone(), psn)) {
                    self.add("of unknown size", number);
                }
                let sent = self.sent.entry(direction.clone()).or_default();
                let is_known = sent.contains(&psn);
                sent.extend((0..count).map(|at| (psn + at) & 0xff_ffff));
                let highest = self.highest.entry(direction).or_insert(psn);
                let is_behind = distance(24, *highest, psn) < 0;
                let is_jump = distance(24, *highest, psn) > 1;
                if !is_behind {
                    *highest = (psn + count - 1) & 0xff_ffff;
                }
                match (is_known, is_behind) {
                    (true, _) => self.add(if is_read { "known read" } else { "known" }, number),
                    (false, true) => self.add("fills a gap", number),
                    (false, false) if is_jump => self.add("jump", number),
                    _ => {}
                }
            }
            _ => {}
        }
        Some(matches!(opcode, 0x00..=0x17))
    }

    /// Counts a segment of TCP. RFC 9293 section 3.1.
    fn segment(&mut self, number: u64, (from, to): (Vec<u8>, Vec<u8>), segment: &[u8], length: usize) -> Option<bool> {
        let word = |at: usize| Some(u32::from_be_bytes(segment.get(at..at + 4)?.try_into().ok()?));
        let (ports, sequence, flags) = (word(0)?, word(4)?, segment[13]);
        let payload = (length - usize::from(segment[12] >> 4) * 4) as u32;
        if segment.get(14..16)? == [0, 0] && flags & 0b111 == 0 {
            self.add("zero window", number);
        }
        let end = sequence.wrapping_add(payload);
        if payload > 0 && flags & 0b10 == 0 {
            let known = self.ends.entry((from, to, ports)).or_insert(sequence);
            let behind = distance(32, sequence, *known);
            let is_keep_alive = payload == 1 && behind == 1;
            if distance(32, *known, end) > 0 {
                *known = end;
            }
            if behind > 0 && !is_keep_alive {
                self.add("known", number);
            }
        }
        Some(true)
    }
}

/// Returns the events of the product, and the count from headers.
fn count(path: &Path) -> (FramesByKind, FramesByKind) {
    let mut flow = Flow::new(FlowLimits { record_transport_events: true, ..FlowLimits::default() });
    let (mut found, mut headers) = (FramesByKind::new(), HeaderCount::default());
    let mut source = CaptureFrameSource::open([path]).unwrap();
    while let Some(frame) = source.next().unwrap() {
        let Frame { number, bytes, .. } = frame;
        headers.frame(number.0, bytes);
        flow.process_frame(&frame);
        for event in flow.transport_events() {
            if let Some(name) = name(&event) {
                found.entry(name).or_default().insert(event.frame.0);
            }
        }
        while flow.next_transaction().is_some() {}
    }
    (found, headers.frames)
}

/// Kinds that each frame shows alone.
const EXACT: [&str; 8] =
    ["nak 0", "nak 1", "nak 2", "nak 3", "rnr nak", "cnp", "congestion experienced", "zero window"];

/// Returns the frames of several kinds.
fn of(frames: &FramesByKind, kinds: &[&str]) -> BTreeSet<u64> {
    kinds.iter().filter_map(|kind| frames.get(kind)).flatten().copied().collect()
}

#[test]
fn the_headers_of_each_frame_show_the_same_events() {
    let mut sums: HashMap<&str, usize> = HashMap::new();
    for path in captures() {
        let (found, headers) = count(&path);
        let name = path.file_name().unwrap().to_string_lossy();
        for kind in EXACT {
            assert_eq!(found.get(kind), headers.get(kind), "{name}: {kind}");
        }
        // A packet that the receiver refuses again follows a gap; it was not accepted.
        let repeated = of(&found, &["retransmission", "repeated read"]);
        let gaps = of(&found, &["gap"]);
        let sent_again = of(&headers, &["known", "known read", "fills a gap"]);
        assert!(repeated.is_subset(&sent_again), "{name}: {:?}", repeated.difference(&sent_again));
        let either = repeated.union(&gaps).copied().collect();
        let missing: BTreeSet<u64> = sent_again.difference(&either).copied().collect();
        assert!(missing.is_subset(&of(&headers, &["of unknown size"])), "{name}: {missing:?}");
        assert!(of(&headers, &["jump"]).is_subset(&gaps), "{name}");
        assert!(repeated.is_disjoint(&gaps), "{name}");
        for (kind, frames) in found {
            *sums.entry(kind).or_default() += frames.len();
        }
    }
    assert_eq!(sums.get("nak 0"), Some(&110));
    assert!(["gap", "retransmission", "repeated read"].iter().all(|kind| sums[kind] > 100), "{sums:?}");
}

/// Returns the rules of severity warning and error with findings about connections.
fn broken(frames: &[StoredFrame]) -> BTreeSet<&'static str> {
    let limits = FlowLimits { record_transport_events: true, check_icrc: true, ..FlowLimits::default() };
    let mut flow = Flow::new(limits);
    let mut checker = ConformanceChecker::new();
    for frame in frames {
        flow.process_frame(&frame.whole());
        checker.record_events(&flow);
        while flow.next_transaction().is_some() {}
    }
    let findings = checker.finish();
    let broken = findings.iter().filter(|finding| finding.severity >= ReportedFindingSeverity::Warning);
    broken.map(|finding| finding.rule.id).collect()
}

/// CRC32C, bit by bit. RFC 5044 section 4.4.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

/// Change of an FPDU, and the rule that it breaks.
type Change = (&'static str, fn(opcode: u8) -> bool, fn(&mut [u8]));

const ANY: fn(u8) -> bool = |_| true;
const UNTAGGED: fn(u8) -> bool = |opcode| opcode != 0 && opcode != 2;

const CHANGES: [Change; 10] = [
    ("rdmap/version", ANY, |fpdu| fpdu[2] ^= 3),
    ("rdmap/version", ANY, |fpdu| fpdu[3] |= 0x80),
    ("rdmap/reserved-bits", ANY, |fpdu| fpdu[2] |= 0x10),
    ("rdmap/reserved-bits", ANY, |fpdu| fpdu[3] |= 0x20),
    ("rdmap/opcode", ANY, |fpdu| fpdu[3] |= 0x0c),
    ("rdmap/tagged", ANY, |fpdu| fpdu[2] ^= 0x80),
    ("rdmap/queue", UNTAGGED, |fpdu| fpdu[11] ^= 3),
    ("rdmap/message-number", UNTAGGED, |fpdu| fpdu[15] ^= 0x40),
    ("rdmap/message-offset", UNTAGGED, |fpdu| fpdu[18] ^= 0x40),
    ("rdmap/response-sink", |opcode| opcode == 2, |fpdu| fpdu[7] ^= 0x40),
];

/// Number of FPDUs changed in each capture, for each change.
const VARIANTS: usize = 4;

#[test]
fn a_changed_header_field_is_named() {
    let (mut named, mut all, mut others) = (0, 0, Vec::new());
    for name in ["siw-v42-crc.pcap.gz", "siw-v3.pcap.gz"] {
        let mut frames = frames_of(name);
        let fpdus: Vec<(usize, usize)> =
            frames.iter().enumerate().filter_map(|(at, frame)| Some((at, lone_fpdu(&frame.bytes)?))).collect();
        for (rule, is_changed, change) in CHANGES {
            let able: Vec<_> = fpdus.iter().filter(|(at, fpdu)| is_changed(frames[*at].bytes[fpdu + 3] & 15)).collect();
            for (at, fpdu) in able.iter().step_by((able.len() / VARIANTS).max(1)) {
                let before = frames[*at].bytes.clone();
                let bytes = &mut frames[*at].bytes[*fpdu..];
                change(bytes);
                let end = bytes.len() - 4;
                let crc = crc32c(&bytes[..end]);
                bytes[end..].copy_from_slice(&crc.to_le_bytes());
                frames[*at].seal();
                let found = broken(&frames);
                all += 1;
                match found.contains(rule) {
                    true => named += 1,
                    false => others.push(format!("{name} frame {}: {rule}, found {found:?}", at + 1)),
                }
                frames[*at].bytes = before;
            }
        }
    }
    println!("{named} of {all}");
    assert!(all >= 40 && named * 100 >= all * 99, "{named} of {all}\n{}", others.join("\n"));
}

/// Changes of opcodes that leave the headers as they are: First becomes Only, Middle becomes Last, and the reverse.
/// InfiniBand Architecture Specification volume 1, section 9.2.1.
const OPCODES: [(u8, u8); 6] = [(0x00, 0x04), (0x01, 0x02), (0x02, 0x01), (0x06, 0x0a), (0x07, 0x08), (0x08, 0x07)];

/// Offset of the Base Transport Header in a frame of Ethernet and IPv4.
const BTH: usize = 42;

#[test]
fn a_changed_packet_is_named() {
    let mut frames = frames_of("rxe-v3.pcap");
    assert_eq!(broken(&frames), BTreeSet::new());
    let mut count = 0;
    for (before, after) in OPCODES {
        let is_such = |frame: &[u8]| frame[23] == 17 && frame[36..38] == [0x12, 0xb7] && frame[BTH] == before;
        let such: Vec<usize> = (0..frames.len()).filter(|at| is_such(&frames[*at].bytes)).collect();
        for at in such.iter().step_by((such.len() / VARIANTS).max(1)) {
            frames[*at].bytes[BTH] = after;
            // The ICRC covers the opcode.
            let expected = BTreeSet::from(["transport/icrc", "transport/packet-order"]);
            assert!(broken(&frames).is_superset(&expected), "frame {}: opcode {before} to {after}", at + 1);
            frames[*at].bytes[BTH] = before;
            let last = frames[*at].bytes.len() - 5;
            frames[*at].bytes[last] ^= 1;
            assert!(broken(&frames).contains("transport/icrc"), "frame {}", at + 1);
            frames[*at].bytes[last] ^= 1;
            count += 1;
        }
    }
    assert!(count >= 12, "{count}");
}
