//! Delivery times of messages over TCP and iWARP, computed independently from headers alone. This witness shares no
//! code with the dissectors. They work in one pass; it reads all acknowledgements of a capture before it judges the
//! first byte.
//!
//! Bytes are delivered in order (RFC 9293 section 3.10.7.4), so a message is delivered when the last of the bytes
//! before its end is accepted. Of several copies of a byte, the receiver accepted the first that arrived:
//! - It had arrived before an acknowledgement covers the byte, cumulative or selective (RFC 2018).
//! - A copy was lost if the receiver reports bytes that were captured behind it, but not the copy.
//! - It was lost, too, if nothing acknowledged it for longer than an acknowledgement is delayed.
//! - Copies that the receiver reports as duplicates arrived (RFC 2883).
//!
//! The capture point may therefore be near the sender, where lost segments are captured, or near the receiver, where
//! they are not.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};

use crate::captures;
use crate::program::{self, Transaction, frames, nanoseconds};
use crate::second_count::records;

/// Maximum delay of an acknowledgement in nanoseconds (Linux; RFC 9293 section 3.8.6.3 permits 500 ms).
const MAX_ACK_DELAY_NS: u64 = 200_000_000;

/// Port of NFS over RDMA.
const IWARP_PORT: u16 = 20049;

/// Position in a stream, relative to its first byte.
type Position = i64;

/// Address and port.
pub(crate) type Endpoint = (Vec<u8>, u16);

/// TCP segment.
pub(crate) struct Segment<'a> {
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) sequence: u32,
    acknowledgment: u32,
    flags: u8,
    options: &'a [u8],
    /// Captured bytes, and their number on the wire.
    bytes: &'a [u8],
    pub(crate) length: usize,
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().unwrap()))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().unwrap()))
}

/// Decodes Ethernet, IPv4 or IPv6, and TCP.
pub(crate) fn segment(frame: &[u8], wire_length: usize) -> Option<Segment<'_>> {
    let ip = frame.get(14..)?;
    let (addresses, header, total) = match be16(frame, 12)? {
        0x0800 if *ip.get(9)? == 6 => (12..20, usize::from(ip[0] & 15) * 4, usize::from(be16(ip, 2)?)),
        0x86dd if *ip.get(6)? == 6 => (8..40, 40, 40 + usize::from(be16(ip, 4)?)),
        _ => return None,
    };
    // With segmentation offload, the length in the IP header may be 0.
    let total = if total <= header { wire_length - 14 } else { total };
    let (source, destination) = ip.get(addresses.clone())?.split_at(addresses.len() / 2);
    let tcp = ip.get(header..)?;
    let data_offset = usize::from(*tcp.get(12)? >> 4) * 4;
    let length = total.checked_sub(header + data_offset)?;
    let captured = tcp.get(data_offset..)?;
    Some(Segment {
        source: (source.to_vec(), be16(tcp, 0)?),
        destination: (destination.to_vec(), be16(tcp, 2)?),
        sequence: be32(tcp, 4)?,
        acknowledgment: be32(tcp, 8)?,
        flags: *tcp.get(13)?,
        options: &tcp[20..data_offset],
        bytes: &captured[..captured.len().min(length)],
        length,
    })
}

/// Returns the edges of the SACK blocks. RFC 2018 section 3.
fn sack_blocks(mut options: &[u8]) -> Vec<[u32; 2]> {
    let mut blocks = Vec::new();
    while let Some(kind) = options.first() {
        let length = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(options.get(1).copied().unwrap_or(0)).max(2),
        };
        let Some(option) = options.get(..length) else { break };
        if *kind == 5 {
            let edges = option[2..].chunks_exact(8);
            blocks.extend(edges.map(|edges| [be32(edges, 0).unwrap(), be32(edges, 4).unwrap()]));
        }
        options = &options[length..];
    }
    blocks
}

/// Copy of bytes.
#[derive(Clone, Debug)]
struct Copy {
    frame: u64,
    time: u64,
    bytes: Range<Position>,
}

/// Acknowledgement.
#[derive(Debug)]
struct Report {
    frame: u64,
    acknowledged: Position,
    /// Selectively acknowledged bytes.
    blocks: Vec<Range<Position>>,
    /// Bytes that were received twice.
    duplicate: Option<Range<Position>>,
}

impl Report {
    fn covers(&self, bytes: &Range<Position>) -> bool {
        bytes.end <= self.acknowledged
            || self.blocks.iter().any(|block| block.start <= bytes.start && bytes.end <= block.end)
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Direction {
    /// Sequence number of the first byte, and `true` if it is from a SYN.
    first: Option<(u32, bool)>,
    copies: Vec<Copy>,
    /// Acknowledgements of the receiver.
    reports: Vec<Report>,
    /// First copies of the bytes, and which of them are known.
    content: Vec<u8>,
    known: Vec<bool>,
}

impl Direction {
    fn position(&self, sequence: u32) -> Option<Position> {
        Some(Position::from(sequence.wrapping_sub(self.first?.0) as i32))
    }

    fn add_copy(&mut self, frame: u64, time: u64, segment: &Segment<'_>) {
        let sequence = segment.sequence;
        self.first.get_or_insert((sequence, false));
        let start = self.position(sequence).unwrap();
        self.copies.push(Copy { frame, time, bytes: start..start + segment.length as Position });
        let Ok(at) = usize::try_from(start) else { return };
        let end = at + segment.bytes.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
            self.known.resize(end, false);
        }
        for (at, byte) in (at..end).zip(segment.bytes) {
            if !std::mem::replace(&mut self.known[at], true) {
                self.content[at] = *byte;
            }
        }
    }

    fn add_report(&mut self, frame: u64, segment: &Segment<'_>) {
        let Some(acknowledged) = self.position(segment.acknowledgment) else { return };
        let range = |[left, right]: [u32; 2]| self.position(left).unwrap()..self.position(right).unwrap();
        let mut blocks: Vec<_> = sack_blocks(segment.options).into_iter().map(range).collect();
        // RFC 2883 section 4: the first block, if it is acknowledged, or part of the second.
        let is_duplicate = blocks.first().is_some_and(|first| {
            let is_in_second = blocks.get(1).is_some_and(|next| next.start <= first.start && first.end <= next.end);
            first.end <= acknowledged || is_in_second
        });
        let duplicate = is_duplicate.then(|| blocks.remove(0));
        self.reports.push(Report { frame, acknowledged, blocks, duplicate });
    }

    fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.known.get(range.clone())?.iter().all(|known| *known).then(|| &self.content[range])
    }
}

/// A message in a stream.
#[derive(Debug)]
struct Message {
    xid: u32,
    /// Bytes of the RPC record, or of the FPDUs of a Send.
    bytes: Vec<Range<Position>>,
}

/// Returns the length of an FPDU from its ULPDU Length. RFC 5044 section 4.
fn fpdu_length(bytes: &[u8]) -> Option<usize> {
    Some((2 + usize::from(be16(bytes, 0)?)).next_multiple_of(4) + 4)
}

impl Direction {
    /// Returns the RPC records. RFC 5531 section 11.
    fn rpc_records(&self) -> Vec<Message> {
        let begins_record = |copy: &&Copy| {
            let word =
                |at: usize| be32(self.bytes(copy.bytes.start as usize + at..copy.bytes.start as usize + at + 4)?, 0);
            let is_call = || word(8) == Some(0) && word(12) == Some(2);
            let is_reply = || word(8) == Some(1) && word(12) == Some(0);
            copy.bytes.start >= 0 && word(0).is_some_and(|mark| mark >> 24 == 0x80) && (is_call() || is_reply())
        };
        let start = match self.first {
            Some((_, true)) => Some(0),
            _ => self.copies.iter().find(begins_record).map(|copy| copy.bytes.start),
        };
        let Some(mut at) = start.and_then(|start| usize::try_from(start).ok()) else { return Vec::new() };
        let mut messages = Vec::new();
        let mut fragments: Vec<Range<Position>> = Vec::new();
        let mut xid = None;
        while let Some(mark) = self.bytes(at..at + 4).and_then(|mark| be32(mark, 0)) {
            let end = at + 4 + (mark & 0x7fff_ffff) as usize;
            if fragments.is_empty() {
                xid = self.bytes(at + 4..at + 8).and_then(|xid| be32(xid, 0));
            }
            fragments.push(at as Position..end as Position);
            if mark >> 31 == 1 {
                let bytes = std::mem::take(&mut fragments);
                messages.extend(xid.map(|xid| Message { xid, bytes }));
            }
            at = end;
        }
        messages
    }

    /// Returns the Sends of an iWARP stream without markers. RFC 5044 section 4, RFC 5041 section 4, RFC 5040 section
    /// 4.
    fn sends(&self) -> Vec<Message> {
        let is_fpdu = |copy: &&Copy| {
            let Ok(start) = usize::try_from(copy.bytes.start) else { return false };
            self.bytes(start..copy.bytes.end as usize).is_some_and(|bytes| {
                bytes.get(2).is_some_and(|control| control & 0x3f == 1) && fpdu_length(bytes) == Some(bytes.len())
            })
        };
        let startup = self.bytes(0..20).filter(|bytes| bytes.starts_with(b"MPA ID Re"));
        let start = match startup {
            Some(startup) => Some(20 + usize::from(be16(startup, 18).unwrap())),
            None => self.copies.iter().find(is_fpdu).map(|copy| copy.bytes.start as usize),
        };
        let Some(mut at) = start else { return Vec::new() };
        let mut messages = Vec::new();
        let mut fpdus: Vec<Range<Position>> = Vec::new();
        let mut xid = None;
        while let Some(head) = self.bytes(at..at + 4)
            && let Some(length) = fpdu_length(head)
        {
            let end = at + length;
            let (is_tagged, is_last, opcode) = (head[2] & 0x80 != 0, head[2] & 0x40 != 0, head[3] & 0xf);
            // Send, with Invalidate, with Solicited Event, with both.
            if !is_tagged && (3..=6).contains(&opcode) {
                if fpdus.is_empty() {
                    xid = self.bytes(at + 20..at + 24).and_then(|xid| be32(xid, 0));
                }
                fpdus.push(at as Position..end as Position);
                if is_last {
                    let bytes = std::mem::take(&mut fpdus);
                    messages.extend(xid.map(|xid| Message { xid, bytes }));
                }
            }
            at = end;
        }
        messages
    }

    /// Returns the frames with bytes of a message.
    fn frames(&self, message: &Message) -> Vec<u64> {
        let has_part =
            |copy: &&Copy| message.bytes.iter().any(|part| part.start < copy.bytes.end && copy.bytes.start < part.end);
        self.copies.iter().filter(has_part).map(|copy| copy.frame).collect()
    }
}

/// Times between which bytes were accepted; only one, if it is known.
type Times = RangeInclusive<u64>;

fn exactly(copy: &Copy) -> Times {
    copy.time..=copy.time
}

/// Bytes between two edges of segments: all copies have all of them.
struct Stretch<'a> {
    bytes: Range<Position>,
    copies: Vec<&'a Copy>,
}

/// Judges the copies of one direction.
struct Receiver<'a> {
    direction: &'a Direction,
    stretches: Vec<Stretch<'a>>,
}

impl<'a> Receiver<'a> {
    fn new(direction: &'a Direction) -> Self {
        let edges = direction.copies.iter().flat_map(|copy| [copy.bytes.start, copy.bytes.end]);
        let edges: Vec<Position> = edges.collect::<BTreeSet<_>>().into_iter().collect();
        let between = edges.windows(2).map(|edges| Stretch { bytes: edges[0]..edges[1], copies: Vec::new() });
        let mut stretches: Vec<Stretch<'_>> = between.collect();
        for copy in &direction.copies {
            let from = stretches.partition_point(|stretch| stretch.bytes.start < copy.bytes.start);
            let of_copy = stretches[from..].iter_mut().take_while(|stretch| stretch.bytes.start < copy.bytes.end);
            of_copy.for_each(|stretch| stretch.copies.push(copy));
        }
        // Bytes that were not captured cannot be judged.
        stretches.retain(|stretch| !stretch.copies.is_empty());
        Self { direction, stretches }
    }

    /// Returns for each stretch when it and all before it were accepted.
    fn deliveries(&self) -> Vec<Times> {
        let mut delivered = 0..=0;
        let times = self.stretches.iter().map(|stretch| {
            let accepted = self.accepted(stretch);
            delivered = *delivered.start().max(accepted.start())..=*delivered.end().max(accepted.end());
            delivered.clone()
        });
        times.collect()
    }

    fn accepted(&self, Stretch { bytes, copies }: &Stretch<'_>) -> Times {
        let first = copies[0];
        if copies.len() == 1 {
            return exactly(first);
        }
        let from = self.direction.reports.partition_point(|report| report.frame < first.frame);
        let reports = &self.direction.reports[from..];
        let covering = reports.iter().position(|report| report.covers(bytes)).unwrap_or(reports.len());
        let (open, end) = (&reports[..covering], reports.get(covering).map_or(u64::MAX, |report| report.frame));
        let candidates: Vec<&Copy> = copies.iter().copied().filter(|copy| copy.frame < end).collect();
        let is_duplicate = |report: &&Report| {
            let duplicate = report.duplicate.as_ref();
            duplicate.is_some_and(|again| again.start <= bytes.start && bytes.end <= again.end)
        };
        // Each copy that arrived, except the first, is a duplicate. The receiver had the byte before the copies behind
        // the acknowledgement, so these account for the first duplicates.
        let behind = copies.len() - candidates.len();
        let duplicates = reports.iter().filter(is_duplicate).count().saturating_sub(behind);
        let candidates = &candidates[..candidates.len().saturating_sub(duplicates)];
        let [.., last] = candidates else { return exactly(first) };
        let is_lost = |(copy, next): (&&Copy, &&Copy)| {
            let is_overdue = duplicates == 0 && next.time - copy.time >= MAX_ACK_DELAY_NS;
            is_overdue || open.iter().any(|report| self.shows_loss(report, copy, bytes.start))
        };
        let lost = candidates.iter().zip(&candidates[1..]).take_while(|pair| is_lost(*pair)).count();
        candidates[lost].time..=last.time
    }

    /// Returns `true` if an acknowledgement of less than `start` has bytes that were sent after a copy.
    fn shows_loss(&self, report: &Report, copy: &Copy, start: Position) -> bool {
        let overtook = |block: &Range<Position>| {
            let from = self.stretches.partition_point(|stretch| stretch.bytes.end <= block.start);
            let mut within = self.stretches[from..].iter().take_while(|stretch| stretch.bytes.start < block.end);
            within.any(|stretch| stretch.copies[0].frame > copy.frame)
        };
        report.frame > copy.frame && report.acknowledged <= start && report.blocks.iter().any(overtook)
    }
}

/// A message, with its delivery.
struct Delivery {
    xid: u32,
    /// Frames with bytes of it.
    frames: Vec<u64>,
    times: Times,
    /// Time at which its last byte was captured first.
    first_time: u64,
    /// `true` if an acknowledgement covers all its bytes.
    is_acknowledged: bool,
}

/// Returns the deliveries of the messages of each direction, by its sender and receiver.
fn deliveries(pcap: &[u8]) -> HashMap<(Endpoint, Endpoint), Vec<Delivery>> {
    // Connections between the same ports, one after the other.
    let mut directions: HashMap<(Endpoint, Endpoint), Vec<Direction>> = HashMap::new();
    let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap());
    let unit = if word(0) == 0xa1b2_3c4d { 1 } else { 1000 };
    for (frame, (at, bytes)) in (1..).zip(records(pcap)) {
        let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)) * unit;
        let Some(segment) = segment(bytes, word(at + 12) as usize) else { continue };
        let forth = (segment.source.clone(), segment.destination.clone());
        let back = (segment.destination.clone(), segment.source.clone());
        let own = directions.entry(forth.clone()).or_default();
        if segment.flags & SYN != 0 {
            let first = Some((segment.sequence.wrapping_add(1), true));
            let is_known = own.last().is_some_and(|direction| direction.first == first);
            if !is_known {
                own.push(Direction { first, ..Direction::default() });
                if segment.flags & ACK == 0 {
                    directions.entry(back.clone()).or_default().push(Direction::default());
                } else {
                    // The SYN of the client added an entry for each direction.
                    let empty = directions.get_mut(&forth).unwrap();
                    let at = empty.len() - 2;
                    empty.remove(at);
                }
            }
        }
        let own = directions.entry(forth).or_default();
        if own.is_empty() {
            own.push(Direction::default());
        }
        if segment.length > 0 {
            own.last_mut().unwrap().add_copy(frame, time, &segment);
        }
        if segment.flags & ACK != 0
            && let Some(peer) = directions.entry(back).or_default().last_mut()
        {
            peer.add_report(frame, &segment);
        }
    }
    let read = |(ends, directions): ((Endpoint, Endpoint), Vec<Direction>)| {
        let found = directions.iter().flat_map(|direction| {
            let is_iwarp = [ends.0.1, ends.1.1].contains(&IWARP_PORT);
            let messages = if is_iwarp { direction.sends() } else { direction.rpc_records() };
            let receiver = Receiver::new(direction);
            let deliveries = receiver.deliveries();
            messages.into_iter().filter_map(move |message| {
                let end = message.bytes.last().unwrap().end;
                let last = receiver.stretches.partition_point(|stretch| stretch.bytes.end < end);
                Some(Delivery {
                    xid: message.xid,
                    frames: direction.frames(&message),
                    times: deliveries.get(last)?.clone(),
                    first_time: receiver.stretches[last].copies[0].time,
                    is_acknowledged: direction.reports.iter().any(|report| report.acknowledged >= end),
                })
            })
        });
        let found = found.collect();
        (ends, found)
    };
    directions.into_iter().map(read).collect()
}

/// Returns the sides of a message: its sender and its receiver.
fn sides(transaction: &Transaction, which: &str) -> (Endpoint, Endpoint) {
    let side = |name: &str, port: &str| {
        let address: IpAddr = transaction.text(name).unwrap().parse().unwrap();
        let address = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        (address, program::number(&transaction.0, port) as u16)
    };
    let (client, server) = (side("client", "client_port"), side("server", "server_port"));
    if transaction.is_forward() == (which == "call") { (client, server) } else { (server, client) }
}

/// Counts of compared messages.
#[derive(Default, Debug, PartialEq, Eq)]
struct Compared {
    messages: u64,
    /// Messages that were delivered later than their last byte was captured.
    delayed: u64,
    /// Messages for which headers do not determine the copy that arrived.
    doubtful: u64,
}

/// Compares frames, delivery times and their evidence.
fn compare(name: &str) -> Compared {
    let deliveries = deliveries(&captures::bytes(name));
    let mut compared = Compared::default();
    if deliveries.values().all(Vec::is_empty) {
        return compared;
    }
    for transaction in &program::json(&captures::path(name)).transactions {
        if !matches!(transaction.text("transport"), Some("tcp" | "iwarp")) {
            continue;
        }
        for which in ["call", "reply"] {
            let Some(message) = transaction.message(which) else { continue };
            let said = format!("{name}: {which} {message}");
            let mut of = frames(message);
            of.sort_unstable();
            let mut own = deliveries.get(&sides(transaction, which)).into_iter().flatten();
            let found = own.find(|one| one.xid == transaction.xid() && one.frames == of);
            let found = found.unwrap_or_else(|| panic!("{said}: no message in these frames"));
            let end = nanoseconds(message["end_time"].as_str().unwrap());
            assert!(found.times.contains(&end), "{said}: expected {:?}", found.times);
            // The server received a Call that it answered.
            let is_answered = which == "call" && transaction.message("reply").is_some();
            let is_acknowledged = found.is_acknowledged || is_answered;
            assert_eq!(message["delivered"] == "acknowledged", is_acknowledged, "{said}");
            compared.messages += 1;
            compared.delayed += u64::from(*found.times.start() > found.first_time);
            compared.doubtful += u64::from(found.times.start() < found.times.end());
        }
    }
    compared
}

#[test]
fn messages_over_tcp_and_iwarp_end_when_a_witness_finds_them_delivered() {
    let lossless = [
        ("rxe-v3", 28),
        ("rxe-v40", 4),
        ("rxe-v40-deleg", 8),
        ("rxe-v42-krb5", 4),
        ("siw-v3", 396),
        ("siw-v40-errors", 280),
        ("siw-v41", 454),
        ("siw-v42", 450),
        ("siw-v42-crc", 474),
        ("siw-v42-mid", 440),
        ("tcp-v3", 402),
        ("tcp-v42", 474),
        ("tcp-v42-ganesha", 178),
    ];
    for (name, messages) in lossless {
        assert_eq!(compare(name), Compared { messages, delayed: 0, doubtful: 0 }, "{name}");
    }
    for (name, delayed, doubtful) in [("siw-v42-bulk-loss", 6, 0), ("tcp-v42-bulk-loss", 15, 0)] {
        assert_eq!(compare(name), Compared { messages: 92, delayed, doubtful }, "{name}");
    }
    for name in captures::more() {
        let Compared { messages, doubtful, .. } = compare(name);
        assert!(doubtful * 20 <= messages, "{name}: {doubtful} of {messages}");
    }
}
