//! Segments that their receiver discards (RFC 9293 section 3.10.7.4), inserted into captures of real connections, and
//! directions with another clock. They change nothing, except for messages whose bytes they have.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what is wrong by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use flate2::read::GzDecoder;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_flow::transaction::{CallDirection, CapturedMessage};
use nfsrdma_flow::{Flow, FlowLimits, Transaction, UndecodedReason};

const CAPTURES: [&str; 4] = ["tcp-v3.pcap.gz", "tcp-v42.pcap.gz", "siw-v42.pcap.gz", "siw-v3.pcap.gz"];

/// Number of places in each capture at which a segment of each class is inserted, one per run.
const PLACES: u64 = 100;

/// Maximum number of transactions that an inserted segment may cost.
const MAX_LOST: usize = 2;

const IP: usize = 14;
const TCP: usize = IP + 20;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Generator of numbers: SplitMix64, always the same ones.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn word(&mut self) -> u32 {
        self.next() as u32
    }
}

#[derive(Clone, Debug)]
struct Captured {
    time: i64,
    bytes: Vec<u8>,
}

/// Returns the frames of a capture in the pcap format, little-endian with microseconds or nanoseconds.
fn frames(name: &str) -> Vec<Captured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../captures/{name}"));
    let mut bytes = std::fs::read(&path).unwrap();
    if path.extension().is_some_and(|extension| extension == "gz") {
        let compressed = std::mem::take(&mut bytes);
        GzDecoder::new(&compressed[..]).read_to_end(&mut bytes).unwrap();
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let unit = if word(0) == 0xa1b2_3c4d { 1 } else { 1000 };
    let mut frames = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let end = at + 16 + word(at + 8) as usize;
        let time = i64::from(word(at)) * 1_000_000_000 + i64::from(word(at + 4)) * unit;
        frames.push(Captured { time, bytes: bytes[at + 16..end].to_vec() });
        at = end;
    }
    frames
}

/// A TCP segment in Ethernet and IPv4.
#[derive(Clone, Debug)]
struct Segment(Vec<u8>);

impl Segment {
    fn from_frame(frame: &Captured) -> Option<Self> {
        let bytes = &frame.bytes;
        let is_tcp = bytes[12..14] == [8, 0] && bytes[IP] == 0x45 && bytes[IP + 9] == 6;
        let end = IP + usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
        is_tcp.then(|| Self(bytes[..end].to_vec()))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.0[TCP + at..TCP + at + 4].try_into().unwrap())
    }

    fn set_word(mut self, at: usize, value: u32) -> Self {
        self.0[TCP + at..TCP + at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    fn sequence(&self) -> u32 {
        self.word(4)
    }

    fn acknowledgment(&self) -> u32 {
        self.word(8)
    }

    fn at(self, sequence: u32) -> Self {
        self.set_word(4, sequence)
    }

    fn acknowledging(self, acknowledgment: u32) -> Self {
        self.set_word(8, acknowledgment)
    }

    fn flags(mut self, flags: u8) -> Self {
        self.0[TCP + 13] = flags;
        self
    }

    fn offset(mut self, words: u8) -> Self {
        self.0[TCP + 12] = words << 4;
        self
    }

    fn payload_at(&self) -> usize {
        TCP + usize::from(self.0[TCP + 12] >> 4) * 4
    }

    fn payload(&self) -> &[u8] {
        &self.0[self.payload_at()..]
    }

    fn with_payload(mut self, payload: &[u8]) -> Self {
        self.0.truncate(self.payload_at());
        self.0.extend(payload);
        let length = (self.0.len() - IP) as u16;
        self.0[IP + 2..IP + 4].copy_from_slice(&length.to_be_bytes());
        self
    }

    fn without_payload(self) -> Self {
        self.with_payload(&[])
    }

    fn with_more_bytes(self, random: &mut Random, count: Range<u64>) -> Self {
        let count = count.start + random.below(count.end - count.start);
        let more: Vec<u8> = (0..count).map(|_| random.word() as u8).collect();
        let data = [self.payload(), &more].concat();
        let mut longer = self.with_payload(&data).sealed();
        longer.0[TCP + 16] ^= 0x5a;
        longer
    }

    fn ports(&self) -> [u16; 2] {
        [self.word(0) >> 16, self.word(0) & 0xffff].map(|port| port as u16)
    }

    /// Returns `true` if the checksum is right: its receiver may take the data.
    fn is_sealed(&self) -> bool {
        self.clone().sealed().0 == self.0
    }

    /// Computes the checksum. RFC 9293 section 3.1.
    fn sealed(mut self) -> Self {
        self.0[TCP + 16..TCP + 18].fill(0);
        let length = (self.0.len() - TCP) as u32;
        let words = |bytes: &[u8]| -> u32 {
            bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
        };
        let mut sum = words(&self.0[IP + 12..IP + 20]) + 6 + length + words(&self.0[TCP..]);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        self.0[TCP + 16..TCP + 18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        self
    }
}

/// A way to make a segment that its receiver discards from one of the capture.
type Maker = fn(&mut Random, Segment) -> Segment;

/// Each SYN has the checksum that its bytes need, except for damaged ones.
const SYNS: [(&str, Maker); 10] = [
    ("SYN", |random, s| s.at(random.word()).acknowledging(0).flags(SYN).without_payload().sealed()),
    ("SYN with data", |random, s| s.at(random.word()).acknowledging(0).flags(SYN | PSH).sealed()),
    ("SYN of an old number", |random, s| {
        let old = s.sequence().wrapping_sub(random.below(1 << 20) as u32);
        s.at(old).flags(SYN).without_payload().sealed()
    }),
    ("SYN in the window", |random, s| {
        let ahead = s.sequence().wrapping_add(random.below(1 << 16) as u32);
        s.at(ahead).flags(SYN).without_payload().sealed()
    }),
    ("SYN before the next byte", |_, s| {
        let before = s.sequence().wrapping_sub(1);
        s.at(before).flags(SYN).without_payload().sealed()
    }),
    ("data with SYN", |_, s| {
        let flags = SYN | PSH | ACK;
        s.flags(flags).sealed()
    }),
    ("damaged flags", |_, s| s.flags(SYN | PSH)),
    ("SYN,ACK", |_, s| s.flags(SYN | ACK).without_payload().sealed()),
    ("SYN,ACK of other numbers", |random, s| {
        s.at(random.word()).acknowledging(random.word()).flags(SYN | ACK).without_payload().sealed()
    }),
    ("SYN,ACK with data", |random, s| s.at(random.word()).flags(SYN | ACK).sealed()),
];

const RSTS: [(&str, Maker); 6] = [
    ("RST", |_, s| s.flags(RST).without_payload().sealed()),
    ("RST,ACK", |_, s| s.flags(RST | ACK).without_payload().sealed()),
    ("RST of another number", |random, s| s.at(random.word()).flags(RST).without_payload().sealed()),
    ("RST of number 0", |_, s| s.at(0).acknowledging(0).flags(RST).without_payload().sealed()),
    ("RST with data", |_, s| s.flags(RST | ACK).sealed()),
    ("damaged RST", |_, s| s.flags(RST)),
];

const FINS: [(&str, Maker); 5] = [
    ("FIN", |_, s| s.flags(FIN | ACK).without_payload().sealed()),
    ("FIN of another number", |random, s| s.at(random.word()).flags(FIN | ACK).without_payload().sealed()),
    ("FIN of an old number", |random, s| {
        let old = s.sequence().wrapping_sub(random.below(1 << 20) as u32);
        s.at(old).flags(FIN | ACK).without_payload().sealed()
    }),
    ("FIN ahead", |random, s| {
        let ahead = s.sequence().wrapping_add(random.below(1 << 20) as u32);
        s.at(ahead).flags(FIN | ACK).without_payload().sealed()
    }),
    ("data with FIN", |_, s| s.flags(FIN | PSH | ACK).sealed()),
];

/// Damaged headers have a right checksum in half of the makers: then only what follows shows the damage.
const DAMAGES: [(&str, Maker); 24] = [
    ("bit of a port", |random, mut s| {
        s.0[TCP + random.below(4) as usize] ^= 1 << random.below(8);
        s
    }),
    ("bit of an address", |random, mut s| {
        s.0[IP + 12 + random.below(8) as usize] ^= 1 << random.below(8);
        s
    }),
    ("other number", |random, s| s.at(random.word()).sealed()),
    ("other numbers", |random, s| s.at(random.word()).acknowledging(random.word()).sealed()),
    ("near number", |random, s| {
        let near = s.sequence().wrapping_add(random.below(1 << 21) as u32).wrapping_sub(1 << 20);
        s.at(near).sealed()
    }),
    ("number ahead", |random, s| {
        let ahead = s.sequence().wrapping_add((1 << 20) + random.below(1 << 28) as u32);
        s.at(ahead).sealed()
    }),
    ("bit of the number", |random, s| {
        let flipped = s.sequence() ^ 1 << random.below(32);
        s.at(flipped)
    }),
    ("other acknowledgement", |random, s| s.acknowledging(random.word()).sealed()),
    ("other acknowledgement alone", |random, s| s.acknowledging(random.word()).without_payload().sealed()),
    ("acknowledgement ahead", |random, s| {
        let ahead = s.acknowledgment().wrapping_add(1 + random.below(1 << 24) as u32);
        s.acknowledging(ahead).sealed()
    }),
    ("acknowledgement ahead alone", |random, s| {
        let ahead = s.acknowledgment().wrapping_add(1 + random.below(1 << 24) as u32);
        s.acknowledging(ahead).without_payload().sealed()
    }),
    ("acknowledgement a little ahead", |random, s| {
        let ahead = s.acknowledgment().wrapping_add(1 + random.below(4000) as u32);
        s.acknowledging(ahead).without_payload().sealed()
    }),
    ("short offset", |random, s| s.offset(random.below(5) as u8)),
    ("long offset", |_, s| s.offset(15).sealed()),
    ("other offset", |random, s| s.offset(5 + random.below(11) as u8)),
    ("any flags", |random, s| {
        let flags = random.word() as u8;
        s.flags(flags)
    }),
    ("any flags, right checksum", |random, s| {
        let flags = random.word() as u8;
        s.flags(flags).sealed()
    }),
    ("flipped bits of data", |random, mut s| {
        let (start, end) = (s.payload_at(), s.0.len());
        if start < end {
            for _ in 0..3 {
                s.0[start + random.below((end - start) as u64) as usize] ^= 1 << random.below(8);
            }
        }
        s
    }),
    ("other data", |random, s| {
        let data: Vec<u8> = s.payload().iter().map(|_| random.word() as u8).collect();
        s.with_payload(&data)
    }),
    ("other data, right checksum", |random, s| {
        let data: Vec<u8> = s.payload().iter().map(|_| random.word() as u8).collect();
        s.with_payload(&data).sealed()
    }),
    ("any header", |random, mut s| {
        s.0[TCP + 4..TCP + 20].fill_with(|| random.word() as u8);
        s
    }),
    ("bits of the header", |random, mut s| {
        for _ in 0..3 {
            s.0[TCP + 4 + random.below(16) as usize] ^= 1 << random.below(8);
        }
        s
    }),
    ("missing end", |random, s| {
        let data = s.payload().to_vec();
        let length = random.below(data.len() as u64 + 1) as usize;
        s.with_payload(&data[..length]).sealed()
    }),
    ("additional end", |random, s| {
        let data = [s.payload(), &vec![0; 1 + random.below(100) as usize]].concat();
        s.with_payload(&data).sealed()
    }),
];

/// A copy with a wrong checksum and other bytes behind it.
const LONGER_COPIES: [(&str, Maker); 2] = [
    ("many bytes", |random, s| s.with_more_bytes(random, 200..1400)),
    ("few bytes", |random, s| s.with_more_bytes(random, 1..200)),
];

/// Client, server, direction and XID of a transaction.
type Name = (String, String, bool, u32);

#[derive(Clone, Debug, PartialEq)]
struct Facts {
    operation: Option<String>,
    call: Option<Vec<u8>>,
    reply: Option<Vec<u8>>,
    is_whole: bool,
    /// Bytes moved in each chunk.
    moved: Vec<u64>,
}

fn facts(transaction: &Transaction) -> (Name, Facts) {
    let connection = &transaction.connection;
    let [client, server] = [&connection.client, &connection.server].map(|e| format!("{} {:?}", e.address, e.port));
    let bytes = |message: &Option<CapturedMessage>| message.as_ref().map(|message| message.bytes.clone());
    let chunks = transaction.read_chunks.iter().chain(&transaction.write_chunks).chain(&transaction.reply_chunk);
    let summary = transaction.with_messages(|messages| messages.summary());
    let facts = Facts {
        operation: summary.operation.map(|operation| format!("{operation:?}")),
        call: bytes(&transaction.call),
        reply: bytes(&transaction.reply),
        is_whole: transaction.missing_parts().is_empty(),
        moved: chunks.map(|chunk| chunk.moved_bytes()).collect(),
    };
    ((client, server, transaction.direction == CallDirection::Forward, transaction.xid.0), facts)
}

type Transactions = BTreeMap<Name, Vec<Facts>>;

fn run(frames: &[Captured]) -> Transactions {
    run_with(frames, FlowLimits { keep_file_data: true, ..FlowLimits::default() })
}

fn run_with(frames: &[Captured], limits: FlowLimits) -> Transactions {
    let mut flow = Flow::new(limits);
    let mut found = Transactions::new();
    let mut take = |flow: &mut Flow| {
        while let Some(transaction) = flow.next_transaction() {
            let (name, facts) = facts(&transaction);
            found.entry(name).or_default().push(facts);
        }
    };
    for (number, Captured { time, bytes }) in (1..).zip(frames) {
        let length = bytes.len() as u32;
        let (number, time) = (FrameNumber(number), Timestamp(*time));
        flow.process_frame(&Frame { number, time, link: LinkType::ETHERNET, bytes, length });
        take(&mut flow);
    }
    flow.finish();
    take(&mut flow);
    found
}

/// A capture, its transactions, and the indexes of its segments on connections with NFS.
struct Original {
    name: &'static str,
    frames: Vec<Captured>,
    transactions: Transactions,
    segments: Vec<usize>,
}

impl Original {
    fn new(name: &'static str) -> Self {
        let original = Self::of(name, frames(name));
        let is_whole = |facts: &Facts| facts.is_whole && facts.call.is_some() && facts.reply.is_some();
        let transactions = &original.transactions;
        assert!(transactions.len() > 100 && transactions.values().flatten().all(is_whole), "{name}");
        original
    }

    fn of(name: &'static str, frames: Vec<Captured>) -> Self {
        let transactions = run(&frames);
        let is_nfs = |frame: &Captured| {
            Segment::from_frame(frame).is_some_and(|s| s.ports().iter().any(|port| [2049, 20049].contains(port)))
        };
        let segments: Vec<_> = frames.iter().enumerate().filter(|(_, f)| is_nfs(f)).map(|(at, _)| at).collect();
        Self { name, frames, transactions, segments }
    }

    /// Returns the number of transactions that are whole, with other bytes than in the original.
    fn wrong(&self, found: &Transactions) -> usize {
        let is_wrong = |name: &Name, facts: &Facts| {
            let known = self.transactions.get(name).map_or(&[][..], Vec::as_slice);
            let has_bytes = |known: &Facts| (&known.call, &known.reply) == (&facts.call, &facts.reply);
            facts.is_whole && facts.call.is_some() && facts.reply.is_some() && !known.iter().any(has_bytes)
        };
        found.iter().flat_map(|(name, all)| all.iter().filter(move |facts| is_wrong(name, facts))).count()
    }

    /// Compares the transactions of a changed capture. Returns a description if more are lost than `max_lost`, or one
    /// is there that the original does not have.
    fn fault(&self, changed: &[Captured], max_lost: usize) -> Option<String> {
        let found = run(changed);
        let lost = |(name, facts): &(&Name, &Vec<Facts>)| found.get(*name).is_none_or(|now| !now.contains(&facts[0]));
        let lost = self.transactions.iter().filter(lost).count();
        let is_known = |name: &Name, facts: &Facts| {
            let known = self.transactions.get(name).map_or(&[][..], Vec::as_slice);
            known.iter().any(|known| facts.operation.is_none() || facts.operation == known.operation)
        };
        let invented = found.iter().flat_map(|(name, all)| all.iter().map(move |facts| (name, facts)));
        let invented: Vec<_> = invented
            .filter(|(name, facts)| !is_known(name, facts))
            .map(|(name, facts)| format!("{name:x?} {:?}", facts.operation))
            .collect();
        (lost > max_lost || !invented.is_empty()).then(|| format!("{lost} lost, invented {invented:?}"))
    }

    /// Returns the capture with a segment in front of a random place, made from one before or after it; and `true` if
    /// its checksum is right.
    fn with_stray(&self, random: &mut Random, make: Maker) -> (Vec<Captured>, bool) {
        let place = random.below(self.segments.len() as u64) as usize;
        let model = (place + random.below(6) as usize).saturating_sub(3).min(self.segments.len() - 1);
        let model = if random.below(2) == 0 { place } else { model };
        let segment = Segment::from_frame(&self.frames[self.segments[model]]).unwrap();
        let place = self.segments[place];
        let stray = make(random, segment);
        let is_sealed = stray.is_sealed();
        let stray = Captured { time: self.frames[place].time - 1, bytes: stray.0 };
        ([&self.frames[..place], &[stray], &self.frames[place..]].concat(), is_sealed)
    }
}

fn strays_change_nothing(class: &[(&str, Maker)]) {
    let mut faults = Vec::new();
    for original in CAPTURES.map(Original::new) {
        for place in 0..PLACES {
            let (what, make) = class[place as usize % class.len()];
            let (changed, is_sealed) = original.with_stray(&mut Random(place), make);
            let fault = original.fault(&changed, MAX_LOST);
            // Its receiver takes data with a right checksum, whatever they are.
            let wrong = if is_sealed { 0 } else { original.wrong(&run(&changed)) };
            let fault = fault.or_else(|| (wrong > 0).then(|| format!("{wrong} with wrong bytes")));
            faults.extend(fault.map(|fault| format!("{}, place {place}: {what}: {fault}", original.name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// RFC 9293 section 3.10.7.4, fourth: a SYN in the window is answered by a challenge ACK, and changes nothing.
#[test]
fn stray_syn_changes_nothing() {
    strays_change_nothing(&SYNS);
}

/// RFC 9293 section 3.10.7.4, second: a RST outside the window is dropped.
#[test]
fn stray_rst_changes_nothing() {
    strays_change_nothing(&RSTS);
}

#[test]
fn stray_fin_changes_nothing() {
    strays_change_nothing(&FINS);
}

/// RFC 9293 section 3.1: a segment with a wrong checksum is discarded.
#[test]
fn damaged_segment_changes_nothing() {
    strays_change_nothing(&DAMAGES);
}

/// RFC 9293 section 3.1: also if the copy begins with right bytes, as that of an FPDU.
#[test]
fn longer_damaged_copy_changes_nothing() {
    strays_change_nothing(&LONGER_COPIES);
}

/// A damaged segment, and one in four IP fragments that continues it, after right ones: none is delivered.
#[test]
fn damaged_run_in_fragments_is_counted_once() {
    let mut flow = Flow::new(FlowLimits::default());
    let frames = frames("cases/damaged-fragments.pcap");
    for (number, Captured { time, bytes }) in (1..).zip(&frames) {
        let length = bytes.len() as u32;
        let (number, time) = (FrameNumber(number), Timestamp(*time));
        flow.process_frame(&Frame { number, time, link: LinkType::ETHERNET, bytes, length });
    }
    flow.finish();
    let counts: Vec<_> = flow.stats().undecoded_counts().collect();
    assert_eq!(counts, [(UndecodedReason::BadChecksum, 2)]);
}

/// A damaged segment that was captured twice, in front of segments before its place.
#[test]
fn copies_of_damaged_segment_change_nothing() {
    let mut faults = Vec::new();
    for original in CAPTURES.map(Original::new) {
        for place in 0..PLACES {
            let mut random = Random(place);
            let count = original.segments.len() - 4;
            let at = random.below(count as u64) as usize;
            let model =
                Segment::from_frame(&original.frames[original.segments[at + random.below(4) as usize]]).unwrap();
            let mut damaged = model;
            for byte in damaged.payload_at()..damaged.0.len() {
                damaged.0[byte] ^= (random.word() & 0xf) as u8;
            }
            damaged.0[TCP + 17] ^= 1;
            let at = original.segments[at];
            let stray = Captured { time: original.frames[at].time - 2, bytes: damaged.0 };
            let changed = [&original.frames[..at], &[stray.clone(), stray], &original.frames[at..]].concat();
            let wrong = original.wrong(&run(&changed));
            let wrong = (wrong > 0).then(|| format!("{wrong} with wrong bytes"));
            let fault = original.fault(&changed, MAX_LOST).or(wrong);
            faults.extend(fault.map(|fault| format!("{}, place {place}: {fault}", original.name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// RFC 9293 section 3.1: one to three bits of a segment whose right copy was not captured, or of its addresses.
#[test]
fn damage_in_place_costs_few_transactions() {
    let mut faults = Vec::new();
    for original in CAPTURES.map(Original::new) {
        for place in 0..PLACES {
            let mut random = Random(place);
            let at = original.segments[2 + random.below(original.segments.len() as u64 - 2) as usize];
            let mut damaged = Segment::from_frame(&original.frames[at]).unwrap();
            let from = if random.below(4) == 0 { IP + 12 } else { TCP };
            let end = (damaged.payload_at() + random.below(40) as usize).min(damaged.0.len());
            for _ in 0..=random.below(3) {
                damaged.0[from + random.below((end - from) as u64) as usize] ^= 1 << random.below(8);
            }
            let mut changed = original.frames.clone();
            changed[at].bytes.splice(..damaged.0.len(), damaged.0);
            let wrong = original.wrong(&run(&changed));
            let wrong = (wrong > 0).then(|| format!("{wrong} with wrong bytes"));
            let fault = original.fault(&changed, MAX_LOST).or(wrong);
            faults.extend(fault.map(|fault| format!("{}, place {place}: {fault}", original.name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// RFC 9293 section 3.1: each damaged segment is followed by its copy, at once or after the next ones of its sender.
#[test]
fn damaged_data_never_end_in_messages() {
    let mut faults = Vec::new();
    for original in CAPTURES.map(Original::new) {
        for place in 0..PLACES {
            let mut random = Random(place);
            let at = 20 + random.below(original.segments.len() as u64 - 30) as usize;
            let model = |at: usize| Segment::from_frame(&original.frames[original.segments[at]]).unwrap();
            let Some(at) = (at..original.segments.len() - 5).find(|at| model(*at).payload().len() > 100) else {
                continue;
            };
            let mut damaged = model(at);
            let (start, end) = (damaged.payload_at(), damaged.0.len());
            for _ in 0..1 + random.below(20) {
                damaged.0[start + random.below((end - start) as u64) as usize] ^= 1 + random.below(255) as u8;
            }
            if damaged.is_sealed() {
                continue;
            }
            let ports = damaged.ports();
            let is_next = |next: &usize| model(*next).ports() == ports && !model(*next).payload().is_empty();
            let later = (at + 1..).take(random.below(3) as usize).take_while(is_next).count();
            let [from, to] = [original.segments[at], original.segments[at + later]];
            let mut changed = original.frames.clone();
            let mut copy = changed[from].clone();
            copy.time = changed[to].time + 1;
            changed[from].bytes.splice(..damaged.0.len(), damaged.0);
            changed.insert(to + 1, copy);
            let wrong = original.wrong(&run(&changed));
            let wrong = (wrong > 0).then(|| format!("{wrong} with wrong bytes"));
            let fault = original.fault(&changed, 0).or(wrong);
            faults.extend(fault.map(|fault| format!("{}, place {place}, {later} later: {fault}", original.name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Two segments with wrong checksums, of which the first begins with delivered bytes and the second continues it.
#[test]
fn damaged_overlap_ends() {
    let mut faults = Vec::new();
    for original in CAPTURES.map(Original::new) {
        for place in 0..PLACES {
            let mut random = Random(place);
            let at = original.segments[20 + random.below(original.segments.len() as u64 - 20) as usize];
            let model = Segment::from_frame(&original.frames[at]).unwrap();
            let known = 1 + random.below(40) as u32;
            let [first, second] = [known + 1 + random.below(300) as u32, 1 + random.below(300) as u32];
            let from = model.sequence().wrapping_sub(known);
            let mut damaged = |from: u32, length: u32| {
                let data: Vec<u8> = (0..length).map(|_| random.word() as u8).collect();
                let mut segment = model.clone().flags(PSH | ACK).at(from).with_payload(&data).sealed();
                segment.0[TCP + 17] ^= 1;
                Captured { time: original.frames[at].time - 1, bytes: segment.0 }
            };
            let strays = [damaged(from, first), damaged(from.wrapping_add(first), second)];
            let changed = [&original.frames[..at], &strays, &original.frames[at..]].concat();
            // Wrong checksums in a row may mean that all are wrong, and the data right.
            let fault = original.fault(&changed, 3 * MAX_LOST);
            faults.extend(fault.map(|fault| format!("{}, place {place}: {fault}", original.name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Number of segments at the start of a capture among which others are inserted.
const OPENING_SEGMENTS: usize = 12;

/// Segments that fit the start of a connection.
const OPENINGS: [(&str, Maker); 4] = [
    ("SYN,ACK before the next byte", |_, s| {
        let before = s.sequence().wrapping_sub(1);
        s.at(before).flags(SYN | ACK).without_payload().sealed()
    }),
    ("own data with SYN", |_, s| s.flags(SYN | PSH).sealed()),
    ("damaged SYN", |random, s| {
        let mut damaged = s.at(random.word()).acknowledging(0).flags(SYN).without_payload().sealed();
        damaged.0[TCP + 17] ^= 1;
        damaged
    }),
    ("SYN,ACK with other data", |random, s| {
        let data: Vec<u8> = (0..100).map(|_| random.word() as u8).collect();
        s.flags(SYN | ACK).with_payload(&data).sealed()
    }),
];

/// Runs `change` at each of the first segments of whole captures, and of those that begin within a connection. Returns a
/// description of each fault.
fn opening_faults(
    mut change: impl FnMut(&Original, usize, &mut Random) -> Vec<(String, Vec<Captured>)>,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, start) in CAPTURES.into_iter().flat_map(|name| [(name, 0), (name, 200)]) {
        let original = Original::of(name, frames(name).split_off(start));
        for place in 0..OPENING_SEGMENTS {
            for (what, changed) in change(&original, place, &mut Random(place as u64)) {
                let fault = original.fault(&changed, MAX_LOST);
                faults.extend(fault.map(|fault| format!("{name} from {start}, place {place}: {what}: {fault}")));
            }
        }
    }
    faults
}

/// RFC 9293 section 3.10.7.4: among the first segments, before a message shows what the stream carries.
#[test]
fn stray_syn_in_opening_changes_nothing() {
    let class = [&SYNS[..], &OPENINGS].concat();
    let faults = opening_faults(|original, place, random| {
        let inserted = |(what, make): &(&str, Maker)| {
            let model = (place + random.below(6) as usize).saturating_sub(3);
            let stray = make(random, Segment::from_frame(&original.frames[original.segments[model]]).unwrap());
            let place = original.segments[place];
            let stray = Captured { time: original.frames[place].time - 1, bytes: stray.0 };
            ((*what).to_owned(), [&original.frames[..place], &[stray], &original.frames[place..]].concat())
        };
        class.iter().skip(place % 2).step_by(2).map(inserted).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// RFC 9293 section 3.10.7.3: a segment of the connection before its SYN, or before the answer to it, with a FIN, a
/// changed number, or as it is. Its data may be those of a call or reply.
#[test]
fn later_segment_in_handshake_changes_nothing() {
    let mut faults = Vec::new();
    for original in CAPTURES.map(Original::new) {
        let [syn, answer] = [0, 1].map(|at| original.segments[at]);
        for (count, model) in original.segments[3..].iter().step_by(7).enumerate() {
            let later = Segment::from_frame(&original.frames[*model]).unwrap();
            if later.0.len() > 1400 {
                // It may have the beginning of a call, which is shown, whatever follows.
                continue;
            }
            let changed = match count % 4 {
                0 => later.clone(),
                1 => later.clone().flags(FIN | PSH | ACK),
                2 => later.clone().at(later.sequence() ^ 1 << (count % 32)),
                _ => later.clone().acknowledging(later.acknowledgment() ^ 1 << (count % 32)),
            };
            for place in [syn, answer] {
                for stray in [changed.clone(), changed.clone().sealed()] {
                    let stray = Captured { time: original.frames[place].time - 1, bytes: stray.0 };
                    let frames = [&original.frames[..place], &[stray], &original.frames[place..]].concat();
                    let fault = original.fault(&frames, MAX_LOST);
                    faults.extend(fault.map(|fault| format!("{}, {model} before {place}: {fault}", original.name)));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

/// RFC 9293 section 3.1: one bit of the flags of one of the first segments, without and with a fitting checksum.
#[test]
fn damaged_flags_in_opening_change_nothing() {
    let faults = opening_faults(|original, place, _| {
        let at = original.segments[place];
        let segment = Segment::from_frame(&original.frames[at]).unwrap();
        let mut variants = Vec::new();
        for (flag, is_sealed) in [(SYN, false), (SYN, true), (ACK, false), (ACK, true)] {
            let flags = segment.0[TCP + 13] ^ flag;
            let damaged = segment.clone().flags(flags);
            let damaged = if is_sealed { damaged.sealed() } else { damaged };
            let mut changed = original.frames.clone();
            changed[at].bytes.splice(..damaged.0.len(), damaged.0);
            variants.push((format!("flag {flag:#x}, right checksum: {is_sealed}"), changed));
        }
        variants
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// RFC 791 section 3.1: the IP length exceeds the bytes on the wire. That is no snap length.
#[test]
fn damaged_ip_length_costs_one_segment() {
    let faults = opening_faults(|original, place, random| {
        // Half of them among the first segments.
        let place = if random.below(2) == 0 { place } else { random.below(original.segments.len() as u64) as usize };
        let at = original.segments[place];
        let length = u16::from_be_bytes([original.frames[at].bytes[IP + 2], original.frames[at].bytes[IP + 3]]);
        let longer = (0..16).map(|bit| length | 1 << bit).filter(|longer| *longer > length);
        let changed = longer.step_by(3).map(|longer| {
            let mut changed = original.frames.clone();
            changed[at].bytes[IP + 2..IP + 4].copy_from_slice(&longer.to_be_bytes());
            (format!("length {longer} instead of {length}"), changed)
        });
        changed.collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// RFC 9293 section 3.10.7.4: a SYN of the server and an answer that fits it, in a connection with calls.
#[test]
fn stray_handshake_turns_no_role() {
    let mut faults = Vec::new();
    for original in CAPTURES.map(Original::new) {
        let from_server = |at: &&usize| {
            let segment = Segment::from_frame(&original.frames[**at]).unwrap();
            [2049, 20049].contains(&segment.ports()[0])
        };
        let places: Vec<_> = original.segments.iter().filter(from_server).skip(20).collect();
        for seed in 0..PLACES / 4 {
            let mut random = Random(seed);
            let at = *places[random.below(places.len() as u64) as usize];
            let [sequence, answer] = [random.word(), random.word()];
            let model = Segment::from_frame(&original.frames[at]).unwrap().without_payload();
            let syn = model.clone().at(sequence).acknowledging(0).flags(SYN).sealed();
            let mut reverse = model;
            reverse.0[IP + 12..IP + 20].rotate_left(4);
            reverse.0[TCP..TCP + 4].rotate_left(2);
            let answer = reverse.at(answer).acknowledging(sequence.wrapping_add(1)).flags(SYN | ACK).sealed();
            let time = original.frames[at].time;
            let strays =
                [(syn, 2), (answer, 1)].map(|(stray, before)| Captured { time: time - before, bytes: stray.0 });
            let changed = [&original.frames[..at], &strays, &original.frames[at..]].concat();
            let fault = original.fault(&changed, MAX_LOST);
            faults.extend(fault.map(|fault| format!("{}, frame {at}: {fault}", original.name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// RFC 9293 section 3.1: also a segment that a network card has joined from others, as those around it with right
/// checksums.
#[test]
fn damaged_joined_segment_changes_nothing() {
    let mut faults = Vec::new();
    for name in CAPTURES {
        let mut joined = Vec::<Captured>::new();
        for frame in frames(name) {
            let last = joined.last().and_then(Segment::from_frame).filter(|last| !last.payload().is_empty());
            let pair = last.zip(Segment::from_frame(&frame)).filter(|(last, next)| {
                let end = last.sequence().wrapping_add(last.payload().len() as u32);
                last.ports() == next.ports() && end == next.sequence() && last.payload().len() < 40_000
            });
            match pair {
                Some((last, next)) if !next.payload().is_empty() => {
                    let data = [last.payload(), next.payload()].concat();
                    joined.last_mut().unwrap().bytes = last.with_payload(&data).sealed().0;
                }
                _ => joined.push(frame),
            }
        }
        let original = Original::of(name, joined);
        let is_long = |at: &&usize| Segment::from_frame(&original.frames[**at]).unwrap().payload().len() > 9_216;
        let places: Vec<_> = original.segments.iter().filter(is_long).collect();
        for (seed, at) in (0..).zip(&places).take(20) {
            let mut random = Random(seed);
            let model = Segment::from_frame(&original.frames[**at]).unwrap();
            let data: Vec<u8> = model.payload().iter().map(|_| random.word() as u8).collect();
            let mut damaged = model.with_payload(&data).sealed();
            damaged.0[TCP + 17] ^= 1;
            let stray = Captured { time: original.frames[**at].time - 1, bytes: damaged.0 };
            let changed = [&original.frames[..**at], &[stray], &original.frames[**at..]].concat();
            let wrong = original.wrong(&run(&changed));
            let wrong = (wrong > 0).then(|| format!("{wrong} with wrong bytes"));
            let fault = original.fault(&changed, MAX_LOST).or(wrong);
            faults.extend(fault.map(|fault| format!("{name}, frame {at}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// 112 frames of a message that began before the capture, in a connection of which nothing else is unknown.
#[test]
fn message_begun_before_is_known() {
    let mut flow = Flow::new(FlowLimits::default());
    for (number, Captured { time, bytes }) in (601..761).zip(&frames("tcp-v42.pcap.gz")[600..760]) {
        let length = bytes.len() as u32;
        let (number, time) = (FrameNumber(number), Timestamp(*time));
        flow.process_frame(&Frame { number, time, link: LinkType::ETHERNET, bytes, length });
    }
    flow.finish();
    let counts: Vec<_> = flow.stats().undecoded_counts().collect();
    assert_eq!(counts, [(UndecodedReason::NoRecordMark, 112)]);
}

/// A damaged segment (SYN, PSH) in a connection of 49 calls, as tshark counts.
#[test]
fn syn_in_stream_loses_no_call() {
    let found = run(&frames("cases/tcp-syn-in-stream.pcap"));
    let all: Vec<&Facts> = found.values().flatten().collect();
    let count = |has: fn(&Facts) -> bool| all.iter().filter(|facts| has(facts)).count();
    assert_eq!([count(|facts| facts.call.is_some()), count(|facts| facts.is_whole), all.len()], [50, 49, 50]);
    assert_eq!(found.keys().map(|(client, server, ..)| (client, server)).collect::<BTreeSet<_>>().len(), 1);
}

/// The reply of the fifth call has a SYN instead, so that its receiver discards it.
#[test]
fn syn_from_server_turns_no_role() {
    let found = run(&frames("cases/tcp-syn-from-server.pcap"));
    let calls: Vec<_> = found
        .iter()
        .map(|((client, server, is_forward, xid), facts)| {
            assert_eq!((facts.len(), facts[0].call.is_some(), *is_forward), (1, true, true));
            let is_answered = facts[0].reply.is_some();
            (client.as_str(), server.as_str(), *xid, is_answered)
        })
        .collect();
    let expected = |xid: u32| ("10.0.0.1 Some(1000)", "10.0.0.2 Some(2049)", xid, xid != 5);
    assert_eq!(calls, (1..=10).map(expected).collect::<Vec<_>>());
}

/// A segment of each kind, in front of random segments of one connection.
#[test]
fn many_stray_segments_cost_few_transactions() {
    let kinds = [&SYNS[..], &RSTS, &FINS, &DAMAGES].concat();
    for original in CAPTURES.map(Original::new) {
        let mut frames = original.frames.clone();
        let mut random = Random(7);
        for (_, make) in &kinds {
            let Original { name, transactions, segments, .. } = &original;
            let mut changed = Original { name, frames, transactions: transactions.clone(), segments: segments.clone() };
            // Each insertion moves the later segments, so that any frame may follow.
            let is_tcp = |at: &usize| Segment::from_frame(&changed.frames[*at]).is_some();
            changed.segments.retain(is_tcp);
            (frames, _) = changed.with_stray(&mut random, *make);
        }
        let fault = original.fault(&frames, kinds.len() / 4);
        assert_eq!(fault, None, "{}", original.name);
    }
}

/// Delays the frames that 10.9.0.`late` sent.
fn delay(frames: &mut [Captured], late: u8, milliseconds: i64) {
    for frame in frames {
        let is_late = frame.bytes.get(12..14) == Some(&[8, 0]) && frame.bytes.get(29) == Some(&late);
        frame.time += i64::from(is_late) * milliseconds * 1_000_000;
    }
}

/// Numbers give the order of both directions (RFC 9293 section 3.4), whatever their clocks: up to 200 ms apart.
#[test]
fn skewed_clocks_of_directions_lose_nothing() {
    let mut faults = Vec::new();
    for original in CAPTURES.map(Original::new) {
        for (late, milliseconds) in [1, 2].into_iter().flat_map(|late| [1, 20, 50, 100, 200].map(|ms| (late, ms))) {
            for is_sorted in [true, false] {
                let mut frames = original.frames.clone();
                delay(&mut frames, late, milliseconds);
                if is_sorted {
                    frames.sort_by_key(|frame| frame.time);
                }
                let fault = original.fault(&frames, 0);
                let what = format!("{}: 10.9.0.{late} {milliseconds} ms late, sorted: {is_sorted}", original.name);
                faults.extend(fault.map(|fault| format!("{what}: {fault}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The same with lost segments, whose retransmission is captured after its acknowledgement; and over TCP if the capture
/// begins in the middle of the connection, so that no SYN tells where the other direction begins.
#[test]
fn skewed_losses_and_late_starts_lose_nothing() {
    let mut faults = Vec::new();
    const LOSSES: &str = "tcp-v42-bulk-loss.pcap.gz";
    for (name, start) in [(LOSSES, 0), (LOSSES, 150)] {
        let frames = frames(name).split_off(start);
        let original = Original { name, transactions: run(&frames), frames, segments: Vec::new() };
        for (late, milliseconds) in [(1, 50), (1, 100), (1, 200), (2, 100)] {
            let mut frames = original.frames.clone();
            delay(&mut frames, late, milliseconds);
            frames.sort_by_key(|frame| frame.time);
            let fault = original.fault(&frames, 0);
            faults.extend(fault.map(|fault| format!("{name}: 10.9.0.{late} {milliseconds} ms late: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The same over iWARP from the middle of the connection on: RDMA Writes follow the call that advertises their memory,
/// and RDMA Read Responses their request.
#[test]
fn skewed_iwarp_beginnings_lose_nothing() {
    let mut faults = Vec::new();
    let mut random = Random(11);
    let names = ["siw-v42-mid.pcap.gz", "siw-v3.pcap.gz", "siw-v42.pcap.gz", "siw-v41.pcap.gz"];
    for name in names {
        let whole = frames(name);
        for start in (0..5).map(|_| 72 + random.below(whole.len() as u64 * 3 / 4) as usize) {
            let frames = whole[start..].to_vec();
            let original = Original { name, transactions: run(&frames), frames, segments: Vec::new() };
            for (late, milliseconds) in [1, 2].into_iter().flat_map(|late| [20, 30, 50, 70, 100].map(|ms| (late, ms))) {
                let mut frames = original.frames.clone();
                delay(&mut frames, late, milliseconds);
                frames.sort_by_key(|frame| frame.time);
                let fault = original.fault(&frames, 0);
                let what = format!("{name} from {start}: 10.9.0.{late} {milliseconds} ms late");
                faults.extend(fault.map(|fault| format!("{what}: {fault}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// One direction of an RDMA connection from its middle on: each frame without a place counts, whether it waited for the
/// other direction or not.
#[test]
fn late_one_way_frames_count_each() {
    for (sender, expected) in [(2, 188), (1, 419)] {
        let mut flow = Flow::new(FlowLimits::default());
        let frames = frames("siw-v42.pcap.gz").split_off(300);
        let is_sent = |frame: &&Captured| frame.bytes.get(12..14) == Some(&[8, 0]) && frame.bytes[29] == sender;
        for (number, Captured { time, bytes }) in (1..).zip(frames.iter().filter(is_sent)) {
            let length = bytes.len() as u32;
            let (number, time) = (FrameNumber(number), Timestamp(*time));
            flow.process_frame(&Frame { number, time, link: LinkType::ETHERNET, bytes, length });
        }
        flow.finish();
        assert_eq!(flow.stats().undecoded_counts().map(|(_, count)| count).sum::<u64>(), expected, "10.9.0.{sender}");
    }
}

/// RFC 5044 section 4.1: FPDUs whose ULPDU_Length is wrong, without and with CRCs.
#[test]
fn recorded_events_change_no_transaction() {
    let mut random = Random(44);
    for name in ["siw-v3.pcap.gz", "siw-v42.pcap.gz", "siw-v42-crc.pcap.gz"] {
        let frames = frames(name);
        let whole_fpdu = |frame: &Captured| {
            let segment = Segment::from_frame(frame)?;
            let announced = u16::from_be_bytes(*segment.payload().first_chunk()?);
            let length = (2 + usize::from(announced)).next_multiple_of(4) + 4;
            (length == segment.payload().len()).then_some((segment, announced))
        };
        let fpdus: Vec<_> = { (0..).zip(&frames) }.filter_map(|(at, frame)| Some((at, whole_fpdu(frame)?))).collect();
        let fpdus = &fpdus[5..fpdus.len() - 5];
        for change in [-40_i16, -4, -1, 1, 4, 100] {
            for _ in 0..4 {
                let (at, (segment, announced)): &(usize, _) = &fpdus[random.below(fpdus.len() as u64) as usize];
                let length = announced.wrapping_add_signed(change).to_be_bytes();
                let payload = [&length[..], &segment.payload()[2..]].concat();
                let mut changed = frames.clone();
                changed[*at].bytes = segment.clone().with_payload(&payload).sealed().0;
                let [unrecorded, recorded] = [false, true].map(|record_transport_events| {
                    run_with(&changed, FlowLimits { record_transport_events, ..FlowLimits::default() })
                });
                assert!(unrecorded == recorded, "{name}: frame {}, ULPDU_Length {announced} {change:+}", at + 1);
            }
        }
    }
}
