//! One header field at a time is changed in real captures, over RoCE and iWARP. Nearly every change breaks a rule, and
//! is named by a rule that states the broken requirement.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking, in its helper functions too")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use nfsrdma_conformance::{Finding, ReportedFindingSeverity};
use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::transaction::{CallDirection, CapturedMessage, EndpointRole, RpcMessageKind, Transaction};

use common::{StoredFrame, frames_of, judge, lone_fpdu};

fn read(frames: &[StoredFrame]) -> (Vec<Transaction>, Vec<Finding>) {
    let mut transactions = Vec::new();
    let (findings, _) = judge(frames.iter().map(StoredFrame::whole), |transaction| transactions.push(transaction));
    (transactions, findings)
}

/// A change of a field, and the rules that state a requirement that it breaks.
struct Variant {
    what: String,
    frame: usize,
    at: usize,
    bytes: Vec<u8>,
    rules: &'static [&'static str],
    /// `true` if these rules alone are broken: consequences for other messages are none of their faults.
    is_alone: bool,
}

/// A message that is in one frame.
struct Located<'t> {
    record: &'t CapturedMessage,
    frame: usize,
    /// Offset of the RPC-over-RDMA header in the frame.
    at: usize,
}

fn locate<'t>(frames: &[StoredFrame], record: &'t CapturedMessage) -> Option<Located<'t>> {
    let [number] = record.frames[..] else { return None };
    let frame = number.0 as usize - 1;
    record.rpcrdma?;
    let at = frames[frame].bytes.windows(record.bytes.len()).position(|bytes| bytes == record.bytes)?;
    Some(Located { record, frame, at })
}

/// Returns the XID of the Call that was answered last before this one was sent, on its connection and in its direction.
fn answered_before(transactions: &[Transaction], transaction: &Transaction) -> Option<Xid> {
    let sent = transaction.call.as_ref()?.time;
    let replied = |other: &Transaction| other.call.as_ref().and(other.reply.as_ref()).map(|reply| reply.time);
    let is_before = |other: &&Transaction| {
        other.connection == transaction.connection
            && other.direction == transaction.direction
            && replied(other).is_some_and(|time| time < sent)
    };
    transactions.iter().filter(is_before).max_by_key(|other| replied(other)).map(|other| other.xid)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Offsets of the segments in a header: of the Read list (at the Position), and of the Write list and Reply chunk (at
/// the handle). RFC 8166 section 4.3.
#[derive(Default)]
struct Segments {
    reads: Vec<usize>,
    writes: Vec<usize>,
    reply: Vec<usize>,
    /// Offsets of the numbers of segments.
    counts: Vec<usize>,
}

fn segments(bytes: &[u8]) -> Segments {
    let mut found = Segments::default();
    let mut at = 16;
    while word(bytes, at) == 1 {
        found.reads.push(at + 4);
        at += 24;
    }
    at += 4;
    while word(bytes, at) == 1 {
        let count = word(bytes, at + 4) as usize;
        found.counts.push(at + 4);
        found.writes.extend((0..count).map(|index| at + 8 + 16 * index));
        at += 8 + 16 * count;
    }
    at += 4;
    if word(bytes, at) == 1 {
        let count = word(bytes, at + 4) as usize;
        found.counts.push(at + 4);
        found.reply.extend((0..count).map(|index| at + 8 + 16 * index));
    }
    found
}

/// Collects variants of a capture.
struct Variants<'f> {
    frames: &'f [StoredFrame],
    all: Vec<Variant>,
    /// Number of variants of each kind.
    counts: BTreeMap<String, usize>,
}

/// Maximum number of variants of a kind per capture.
const MAX_PER_KIND: usize = 8;

impl Variants<'_> {
    fn add(
        &mut self,
        kind: impl Into<String>,
        (frame, at): (usize, usize),
        value: u32,
        rules: &'static [&'static str],
    ) {
        let kind = kind.into();
        let what = format!("{kind}, frame {}: {value:#x}", frame + 1);
        let count = self.counts.entry(kind).or_default();
        if *count < MAX_PER_KIND {
            *count += 1;
            let bytes = value.to_be_bytes().to_vec();
            self.all.push(Variant { what, frame, at, bytes, rules, is_alone: false });
        }
    }

    /// Adds a variant that breaks one of these rules and nothing else.
    fn add_alone(
        &mut self,
        kind: impl Into<String>,
        place: (usize, usize),
        value: u32,
        rules: &'static [&'static str],
    ) {
        let count = self.all.len();
        self.add(kind, place, value, rules);
        self.all[count..].iter_mut().for_each(|variant| variant.is_alone = true);
    }

    /// Adds the variants of a message.
    fn message(
        &mut self,
        located: &Located<'_>,
        kind: RpcMessageKind,
        transaction: &Transaction,
        answered: Option<Xid>,
    ) {
        let Located { record, frame, at } = *located;
        let bytes = &record.bytes;
        let place = |offset: usize| (frame, at + offset);
        let xid = transaction.xid.0;
        let is_call = kind == RpcMessageKind::Call;
        let of = if is_call { "call" } else { "reply" };
        if let Some(rpc) = record.rpc_offset.filter(|rpc| bytes.len() > rpc + 4) {
            self.add(format!("xid of a {of}"), place(rpc), xid ^ 0x0400, &["rpcrdma/xid-mismatch"]);
        }
        if record.inline_bytes().len() > 8 {
            self.add(format!("rdma_xid of a {of}"), place(0), xid ^ 0x0400, &["rpcrdma/xid-mismatch"]);
        }
        if let Some(answered) = answered {
            let long = if record.is_nomsg() { "long " } else { "" };
            let kind = format!("rdma_xid of an answered call, in a {long}{of}");
            self.add(kind, place(0), answered.0, &["rpcrdma/xid-mismatch"]);
        }
        self.add(format!("version of a {of}"), place(4), 7, &["rpcrdma/version"]);
        self.add(format!("credits of a {of}"), place(8), 0, &["rpcrdma/credit-zero"]);
        self.add(format!("procedure of a {of}"), place(12), 9, &["rpcrdma/proc-unknown"]);
        self.add(format!("{of} as RDMA_MSGP"), place(12), 2, &["rpcrdma/msgp"]);
        if record.is_nomsg() {
            let rules = &[
                "rpcrdma/nomsg-without-chunk",
                "rpcrdma/reply-chunk-in-msg",
                "rpcrdma/position-zero",
                "rpcrdma/list-broken",
                "rpcrdma/short-message",
                "rpcrdma/undecodable",
            ];
            self.add(format!("RDMA_NOMSG {of} as RDMA_MSG"), place(12), 0, rules);
        } else if !record.is_rdma_error() {
            let rules = &["rpcrdma/nomsg-without-chunk"];
            self.add(format!("RDMA_MSG {of} as RDMA_NOMSG"), place(12), 1, rules);
        }
        let lists = segments(bytes);
        for position in &lists.reads {
            let place = |offset: usize| place(position + offset);
            let [value, handle, length, offset] = [0, 4, 8, 12].map(|at| word(bytes, position + at));
            if value > 0 {
                self.add("position + 2", place(0), value + 2, &["rpcrdma/position-unaligned"]);
                self.add("position - 4", place(0), value - 4, &["rpcrdma/position-no-item"]);
                self.add("position + 400", place(0), value + 400, &["rpcrdma/position-no-item"]);
                self.add("read length + 8", place(8), length + 8, &["rpcrdma/item-length"]);
                if length > 8 {
                    let rules = &["rpcrdma/item-length", "rpcrdma/read-bounds"];
                    self.add("read length - 8", place(8), length - 8, rules);
                }
            }
            let rules = &["rpcrdma/handle-unknown", "rpcrdma/read-missing"];
            self.add("read handle", place(4), handle ^ 0x5500, rules);
            let rules = &["rpcrdma/read-bounds", "rpcrdma/read-missing"];
            self.add("read offset", place(12), offset ^ 0x10, rules);
        }
        // A Reply has only the first.
        let known = if is_call { 2 } else { 1 };
        let handle_rules = &["rpcrdma/not-copied", "rpcrdma/handle-unknown"][..known];
        let offset_rules = &["rpcrdma/not-copied", "rpcrdma/write-bounds"][..known];
        let writes = lists.writes.iter().map(|at| ("write", *at));
        let replies = lists.reply.iter().map(|at| ("reply chunk", *at));
        for (chunk, segment) in writes.chain(replies) {
            let handle = word(bytes, segment) ^ 0x5500;
            self.add(format!("{chunk} handle of a {of}"), place(segment), handle, handle_rules);
            let offset = word(bytes, segment + 8) ^ 0x10;
            self.add(format!("offset of a {of}"), place(segment + 8), offset, offset_rules);
        }
        if !is_call {
            let offered: Vec<u32> = { transaction.write_chunks.iter().chain(&transaction.reply_chunk) }
                .flat_map(|chunk| &chunk.segments)
                .map(|segment| segment.length)
                .collect();
            for (segment, offered) in lists.writes.iter().chain(&lists.reply).zip(offered) {
                let returned = word(bytes, segment + 4);
                let place = place(segment + 4);
                self.add("returned more than offered", place, offered + 4, &["rpcrdma/returned-too-much"]);
                let rules = &["rpcrdma/returned-not-written", "rpcrdma/result-length", "rpcrdma/undecodable"];
                if returned > 4 && returned + 4 <= offered {
                    self.add("returned + 4", place, returned + 4, rules);
                }
                if returned > 4 {
                    self.add("returned - 4", place, returned - 4, rules);
                }
            }
        }
        for count in &lists.counts {
            // The header and the RPC message of a Long Reply are apart: its chunk may have any number of segments.
            let rules: &[&str] = match is_call {
                true => &["rpcrdma/list-broken"],
                false => &["rpcrdma/list-broken", "rpcrdma/not-copied"],
            };
            let value = word(bytes, *count);
            self.add_alone(format!("segment count of a {of} + 1"), place(*count), value + 1, rules);
            if value > 0 {
                let rules = &["rpcrdma/list-broken", "rpcrdma/nomsg-without-chunk", "rpcrdma/not-copied"];
                self.add_alone(format!("segment count of a {of} - 1"), place(*count), value - 1, rules);
            }
        }
        self.sequence(located, kind);
        if transaction.direction == CallDirection::Reverse {
            self.callback(located, kind);
        }
    }

    /// Adds the variants of CB_COMPOUND with CB_SEQUENCE first. RFC 8881 sections 19.2 and 20.9.
    fn callback(&mut self, located: &Located<'_>, kind: RpcMessageKind) {
        const CB_SEQUENCE: u32 = 11;
        let Located { record, frame, at } = *located;
        let bytes = &record.bytes;
        let Some(rpc) = record.rpc_offset.filter(|rpc| bytes.len() > rpc + 60) else { return };
        let skip_opaque = |at: usize| at + 4 + (word(bytes, at) as usize).next_multiple_of(4);
        if kind == RpcMessageKind::Call {
            // Credential and verifier, tag, minor version, callback_ident, number of operations.
            let tag = skip_opaque(skip_opaque(rpc + 28) + 4);
            let minor_version = skip_opaque(tag);
            let first = minor_version + 12;
            if word(bytes, rpc + 20) != 1 || word(bytes, first) != CB_SEQUENCE {
                return;
            }
            let place = |offset: usize| (frame, at + first + 4 + offset);
            let value = |offset: usize| word(bytes, first + 4 + offset);
            self.add("minor version of a callback", (frame, at + minor_version), 1, &["nfs/minor-version"]);
            self.add("session of a callback", place(4), value(4) ^ 0x10, &["nfs/sequence-echo"]);
            for more in [1, 100] {
                let rules = &["nfs/slot-gap", "nfs/slot-first", "nfs/sequence-echo"];
                self.add("sequence id of a callback", place(16), value(16) + more, rules);
            }
            self.add("slot of a callback", place(20), 40, &["nfs/slot-range", "nfs/sequence-echo"]);
        } else {
            // Accepted, verifier, SUCCESS, status, tag, number of results.
            let status = skip_opaque(rpc + 16) + 4;
            let first = skip_opaque(status + 4) + 4;
            if bytes.len() < first + 32 || word(bytes, first) != CB_SEQUENCE {
                return;
            }
            let place = |offset: usize| (frame, at + first + 8 + offset);
            let value = |offset: usize| word(bytes, first + 8 + offset);
            self.add("status of a callback's reply", (frame, at + status), 5, &["nfs/compound-status"]);
            self.add("first result of a callback", (frame, at + first), 8, &["nfs/result-operation"]);
            for (field, offset) in [("session", 4), ("sequence id", 16), ("slot", 20)] {
                let kind = format!("{field} of a callback's reply");
                self.add(kind, place(offset), value(offset) ^ 1, &["nfs/sequence-echo"]);
            }
        }
    }

    /// Adds the variants of SEQUENCE, which Linux sends first. RFC 8881 section 18.46.
    fn sequence(&mut self, located: &Located<'_>, kind: RpcMessageKind) {
        let Located { record, frame, at } = *located;
        let bytes = &record.bytes;
        let Some(rpc) = record.rpc_offset else { return };
        // Program NFS, version 4, COMPOUND.
        let mut cursor = rpc + 4;
        if bytes.len() < cursor + 60 {
            return;
        }
        let is_call = word(bytes, cursor) == 0;
        if is_call != (kind == RpcMessageKind::Call) {
            return;
        }
        let skip_opaque = |at: usize| at + 4 + (word(bytes, at) as usize).next_multiple_of(4);
        if is_call {
            if [8, 12, 16].map(|field| word(bytes, cursor + field)) != [100_003, 4, 1] {
                return;
            }
            // Credential and verifier, tag, minor version, number of operations.
            cursor = skip_opaque(cursor + 24);
            cursor = skip_opaque(cursor + 4);
            cursor = skip_opaque(cursor) + 8;
            if word(bytes, cursor) != 53 {
                return;
            }
            let place = |offset: usize| (frame, at + cursor + 4 + offset);
            let sequence_id = word(bytes, cursor + 20);
            self.add("session of a call", place(4), word(bytes, cursor + 8) ^ 0x10, &["nfs/sequence-echo"]);
            self.add("sequence id + 1", place(16), sequence_id + 1, &["nfs/slot-gap", "nfs/sequence-echo"]);
            if sequence_id > 1 {
                let rules = &["nfs/false-retry", "nfs/sequence-echo", "nfs/slot-gap"];
                self.add("sequence id - 1", place(16), sequence_id - 1, rules);
            }
            self.add("slot beyond the table", place(20), 5000, &["nfs/slot-range", "nfs/sequence-echo"]);
        } else {
            // Accepted, verifier, SUCCESS, NFS4_OK, tag, number of operations.
            if word(bytes, cursor + 4) != 0 {
                return;
            }
            cursor = skip_opaque(cursor + 12);
            if word(bytes, cursor) != 0 || bytes.len() < cursor + 60 {
                return;
            }
            cursor = skip_opaque(cursor + 8) + 4;
            if bytes.len() < cursor + 40 || [word(bytes, cursor), word(bytes, cursor + 4)] != [53, 0] {
                return;
            }
            let place = |offset: usize| (frame, at + cursor + 8 + offset);
            self.add("operation of a result", (frame, at + cursor), 54, &["nfs/result-operation"]);
            for (field, offset) in [("session", 4), ("sequence id", 16), ("slot", 20)] {
                let value = word(bytes, cursor + 8 + offset) ^ 1;
                self.add(format!("{field} of a reply"), place(offset), value, &["nfs/sequence-echo"]);
            }
        }
    }

    /// Adds the variants of RDMA headers: RoCE, opcodes with RETH or IETH. InfiniBand Architecture Specification volume
    /// 1, section 9.3.
    fn roce(&mut self) {
        const BTH: usize = 42;
        for frame in 0..self.frames.len() {
            let bytes = &self.frames[frame].bytes;
            if bytes.len() < BTH + 32 || bytes[12..14] != [8, 0] || bytes[23] != 17 || bytes[36..38] != [0x12, 0xb7] {
                continue;
            }
            let reth = BTH + 12;
            let place = |offset: usize| (frame, reth + offset);
            let [offset, handle, length] = [4, 8, 12].map(|field| word(bytes, reth + field));
            let moved = offset ^ 0x1000_0000;
            match bytes[BTH] {
                6 | 10 => {
                    self.add("RDMA Write handle", place(8), handle ^ 0x5500, &["rpcrdma/handle-unknown"]);
                    for (kind, length) in [("Length + 4", length + 4), ("Length - 4", length.saturating_sub(4))] {
                        self.add_alone(format!("Write, DMA {kind}"), place(12), length, &["transport/write-length"]);
                    }
                    // The frames of a Write that is returned to its end; the rest of the segment has room.
                    let rules = &["rpcrdma/returned-not-written", "rpcrdma/write-bounds"];
                    self.add("RDMA Write offset + 4", place(4), offset + 4, rules);
                    let rules = &["rpcrdma/write-bounds", "rpcrdma/handle-unknown"];
                    self.add("RDMA Write offset", place(4), moved, rules);
                }
                12 => {
                    for (kind, length) in [("+ 1 MiB", length + (1 << 20)), ("* 100", length * 100)] {
                        self.add_alone(format!("Read, DMA Length {kind}"), place(12), length, &["rpcrdma/read-bounds"]);
                    }
                    self.add("RDMA Read handle", place(8), handle ^ 0x5500, &["rpcrdma/handle-unknown"]);
                    let rules = &["rpcrdma/read-bounds", "rpcrdma/handle-unknown"];
                    self.add("RDMA Read offset", place(4), moved, rules);
                }
                0x17 => {
                    let handle = word(bytes, reth) ^ 0x5500;
                    self.add("invalidated handle", place(0), handle, &["rpcrdma/inval-foreign"]);
                }
                _ => {}
            }
        }
    }

    /// Adds the variants of the headers of FPDUs that begin with a segment of TCP. RFC 5040 section 4, RFC 5041 section
    /// 4.
    fn iwarp(&mut self) {
        /// Offset of the headers of DDP in a frame with TCP options for timestamps.
        const DDP: usize = 68;
        for frame in 0..self.frames.len() {
            let bytes = &self.frames[frame].bytes;
            if bytes.len() < DDP + 46 || bytes[23] != 6 || bytes[46] != 0x80 {
                continue;
            }
            // RFC 5044 section 4.1: the length is in front of the headers, the padding behind the ULPDU.
            let length = usize::from(u16::from_be_bytes([bytes[DDP - 2], bytes[DDP - 1]]));
            let is_segment = matches!(bytes[DDP..DDP + 2], [0xc1, 0x40] | [0x41, 0x41 | 0x43..=0x46]);
            if is_segment && bytes.len() == DDP - 2 + (2 + length).next_multiple_of(4) + 4 {
                let (fpdu, pad) = (word(bytes, DDP - 2), DDP + length);
                self.add("ULPDU_Length 0", (frame, DDP - 2), fpdu & 0xffff, &["rdmap/framing"]);
                let three = 3 << 16 | fpdu & 0xffff;
                self.add("ULPDU_Length 3", (frame, DDP - 2), three, &["rdmap/framing"]);
                for (kind, other) in [("ULPDU_Length - 1", length - 1), ("ULPDU_Length + 1", length + 1)] {
                    // A message with the roundup of its data may have the right length.
                    if !(other + 2).is_multiple_of(4) {
                        let value = (other as u32) << 16 | fpdu & 0xffff;
                        self.add(kind, (frame, DDP - 2), value, &["rdmap/framing"]);
                    }
                }
                if !(length + 2).is_multiple_of(4) {
                    let value = word(bytes, pad) ^ 0x5500_0000;
                    self.add("padding", (frame, pad), value, &["rdmap/reserved-bits"]);
                }
            }
            // Version 1 of DDP and of RDMAP, from or to port 20049.
            let is_segment = (bytes[DDP] & 0x3f, bytes[DDP + 1] >> 4) == (0x01, 0x4)
                && (bytes[34..36] == [0x4e, 0x51] || bytes[36..38] == [0x4e, 0x51]);
            if !is_segment {
                continue;
            }
            let control = word(bytes, DDP);
            for (kind, bit) in [("reserved bit of DDP", 0x0400_0000), ("reserved bit of RDMAP", 0x0010_0000)] {
                self.add_alone(kind, (frame, DDP), control | bit, &["rdmap/reserved-bits"]);
            }
            match bytes[DDP..DDP + 2] {
                // Tagged and last, version 1; RDMA Write.
                [0xc1, 0x40] => {
                    let at = DDP + 10;
                    let offset = word(bytes, at);
                    let rules = &["rpcrdma/returned-not-written", "rpcrdma/write-bounds", "rdmap/tagged-offset"];
                    self.add("tagged offset + 4", (frame, at), offset + 4, rules);
                }
                // Untagged and last; RDMA Read Request: sink STag, sink offset, size. Its ULPDU has 46 bytes.
                [0x41, 0x41] if bytes[DDP - 2..DDP] == [0, 46] => {
                    let at = DDP + 18 + 12;
                    let size = word(bytes, at);
                    if size > 8 {
                        self.add("size of a request - 8", (frame, at), size - 8, &["rdmap/response-length"]);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the variants of private data and of the start-up frames of MPA. RFC 8797 section 4, RFC 5044 section 7.1.1.
    fn private_data(&mut self) {
        for frame in 0..self.frames.len().min(20) {
            let bytes = &self.frames[frame].bytes;
            if let Some(at) = bytes.windows(7).position(|key| key == b"MPA ID ") {
                let place = (frame, at + 16);
                let flags = word(bytes, at + 16);
                self.add("R bit", place, flags ^ 0x2000_0000, &["rdmap/startup"]);
                self.add("reserved bit of MPA", place, flags ^ 0x0100_0000, &["rdmap/startup"]);
                self.add("PD_Length 600", place, flags & 0xffff_0000 | 600, &["rdmap/startup"]);
            }
            let Some(at) = bytes.windows(4).position(|four| four == [0xf6, 0xab, 0x0e, 0x18]) else {
                continue;
            };
            let (place, rest) = ((frame, at + 4), word(bytes, at + 4));
            self.add("private data, version", place, rest ^ 0x0300_0000, &["rpcrdma/private-version"]);
            self.add("private data, reserved bit", place, rest | 0x0040_0000, &["rpcrdma/private-reserved"]);
        }
    }
}

/// Rules that the other side breaks in a changed capture: it reacted to the field as it was.
const REACTIONS: [&str; 5] = [
    "rpcrdma/error-not-sent",
    "rpcrdma/inval-foreign",
    "rpcrdma/inval-not-announced",
    "rpcrdma/returned-not-written",
    "rpcrdma/send-too-long",
];

/// Returns the sender of a frame of Ethernet and IPv4.
fn sender_of(frame: &StoredFrame, client: Address) -> EndpointRole {
    let source: [u8; 4] = frame.bytes[26..30].try_into().unwrap();
    match client == Address::Ip(source.into()) {
        true => EndpointRole::Client,
        false => EndpointRole::Server,
    }
}

#[test]
fn a_changed_field_is_named_by_the_right_rule() {
    let (mut total, mut named) = (0, 0);
    let (mut consequences, mut accused) = (Vec::new(), Vec::new());
    let mut missed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut kinds = BTreeSet::new();
    let captures = ["rxe-v42.pcap", "rxe-v3.pcap", "rxe-v42-deleg.pcap", "siw-v42.pcap.gz", "siw-v3.pcap.gz"];
    for name in captures {
        let frames = frames_of(name);
        let (transactions, before) = read(&frames);
        let client = transactions[0].connection.client.address;
        assert!(before.iter().all(|finding| finding.severity < ReportedFindingSeverity::Warning), "{name}");
        let mut variants = Variants { frames: &frames, all: Vec::new(), counts: BTreeMap::new() };
        // Other operations in each part of the capture.
        let step = 7;
        for start in 0..step {
            for transaction in transactions.iter().skip(start).step_by(step) {
                for kind in [RpcMessageKind::Call, RpcMessageKind::Reply] {
                    if let Some(located) = transaction.message(kind).and_then(|record| locate(&frames, record)) {
                        let answered = answered_before(&transactions, transaction);
                        variants.message(&located, kind, transaction, answered);
                    }
                }
            }
        }
        variants.roce();
        variants.iwarp();
        variants.private_data();
        kinds.extend(variants.counts.into_keys());
        for variant in variants.all {
            let mut changed = frames.clone();
            let place = variant.at..variant.at + variant.bytes.len();
            changed[variant.frame].bytes[place].copy_from_slice(&variant.bytes);
            changed[variant.frame].seal();
            let (_, findings) = read(&changed);
            total += 1;
            // An RDMA Read of the wrong place is one violation.
            let of_call = |rules: &[&str]| -> BTreeSet<u32> {
                let such = findings.iter().filter(|finding| rules.contains(&finding.rule.id));
                such.filter_map(|finding| Some(finding.xid?.0)).collect()
            };
            let misread = of_call(&["rpcrdma/read-bounds", "rpcrdma/handle-unknown"]);
            assert!(misread.is_disjoint(&of_call(&["rpcrdma/read-missing"])), "{name} {}", variant.what);
            let is_expected = |finding: &&Finding| variant.rules.contains(&finding.rule.id);
            let mut others = { findings.iter() }
                .filter(|finding| finding.severity >= ReportedFindingSeverity::Warning && !is_expected(finding));
            if variant.is_alone
                && let Some(other) = others.next()
            {
                consequences.push(format!("{name} {}: {} {}", variant.what, other.rule.id, other.text));
            }
            let sender = sender_of(&frames[variant.frame], client);
            let innocent = { findings.iter() }
                .filter(|finding| finding.severity == ReportedFindingSeverity::Error && finding.side != sender)
                .find(|finding| !is_expected(finding) && !REACTIONS.contains(&finding.rule.id));
            if let Some(finding) = innocent {
                let Finding { rule, side, ref text, .. } = *finding;
                accused.push(format!("{name} {}: {side} {}: {text}", variant.what, rule.id));
            }
            if findings.iter().any(|finding| is_expected(&finding)) {
                named += 1;
            } else {
                let rules = { findings.iter() }
                    .filter(|finding| finding.severity >= ReportedFindingSeverity::Warning)
                    .map(|finding| finding.rule.id.to_owned());
                missed.entry(format!("{name} {}", variant.what)).or_default().extend(rules);
            }
        }
    }
    assert!(consequences.is_empty(), "{consequences:#?}");
    assert!(accused.is_empty(), "the other side is accused: {} times\n{accused:#?}", accused.len());
    println!("{named} of {total} variants are named by the right rule; not: {missed:#?}");
    assert!(total >= 400, "{total} variants");
    for kind in ["slot of a callback", "slot of a callback's reply", "padding", "ULPDU_Length 0", "R bit"] {
        assert!(kinds.contains(kind), "no variant: {kind}");
    }
    assert!(named * 100 >= total * 99, "{named} of {total}: {missed:#?}");
}

/// RFC 5044 sections 4.1 and 4.4: the receiver takes the bytes that ULPDU_Length states.
#[test]
fn a_wrong_ulpdu_length_is_named() {
    for (name, rules) in [
        ("siw-v42-crc.pcap.gz", &["rdmap/framing"][..]),
        // A length that ends with a later FPDU hides those before it.
        ("siw-v42.pcap.gz", &["rdmap/framing", "rdmap/last-segment"][..]),
    ] {
        let frames = frames_of(name);
        // By the first byte of the headers of DDP and RDMAP: tagged or not, last or not; opcode.
        let mut places: BTreeMap<[u8; 2], Vec<(usize, usize)>> = BTreeMap::new();
        let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (frame, StoredFrame { bytes, .. }) in frames.iter().enumerate().rev() {
            let Some(at) = lone_fpdu(bytes) else { continue };
            // The bytes behind the last of a sender may be fewer than the length states.
            let count = counts.entry(bytes[26..30].to_vec()).or_default();
            *count += 1;
            if *count > 4 {
                places.entry([bytes[at + 2], bytes[at + 3]]).or_default().push((frame, at));
            }
        }
        let mut silent = Vec::new();
        let mut total = 0;
        for ([ddp, rdmap], places) in &places {
            for (frame, at) in places.iter().step_by(places.len().div_ceil(6)) {
                for difference in [-4_i16, 1, 4, 16, 400] {
                    let mut changed = frames.clone();
                    let length = &mut changed[*frame].bytes[*at..at + 2];
                    let value = u16::from_be_bytes([length[0], length[1]]);
                    // Within the padding, nothing shows the change.
                    let is_same_size = |value: u16| (2 + value).next_multiple_of(4);
                    if is_same_size(value) == is_same_size(value.wrapping_add_signed(difference)) {
                        continue;
                    }
                    length.copy_from_slice(&value.wrapping_add_signed(difference).to_be_bytes());
                    changed[*frame].seal();
                    let (_, findings) = read(&changed);
                    total += 1;
                    let bad: BTreeSet<&str> = { findings.iter() }
                        .filter(|finding| finding.severity >= ReportedFindingSeverity::Warning)
                        .map(|finding| finding.rule.id)
                        .collect();
                    if !rules.iter().any(|rule| bad.contains(rule)) {
                        silent
                            .push(format!("{name} {ddp:02x}{rdmap:02x} {difference:+}, frame {}: {bad:?}", frame + 1));
                    }
                }
            }
        }
        assert!(total > 100, "{name}: {total} variants");
        assert!(silent.is_empty(), "{} of {total}: {silent:#?}", silent.len());
    }
}
