//! Independent decoder of the content of each frame of a capture, from nothing but headers and the order of a capture
//! without loss: the bytes of each Call, Reply or chunk that are lost with the frame.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use nfsrdma_dissectors::address::{Address, Port};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::infiniband::{InfinibandPacket, PacketOperation};
use nfsrdma_dissectors::net::{self, NetworkLayerPayload};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::ChunkKind;
use nfsrdma_flow::transaction::{CallDirection, RpcMessageKind};

use crate::mutations::Kept;

/// Identity of a Transaction, whatever happened to its capture: the caller, and the XID.
pub(crate) type Name = (Address, u32);

pub(crate) fn name(transaction: &Transaction) -> Name {
    let ends = [transaction.connection.client, transaction.connection.server];
    let caller = ends[usize::from(transaction.direction == CallDirection::Reverse)];
    (caller.address, transaction.xid.0)
}

/// Object that a frame carries a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Message(RpcMessageKind),
    Chunk(ChunkKind, usize),
}

/// Part of a Transaction.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Index of the Transaction in the capture.
    pub(crate) transaction: usize,
    pub(crate) what: What,
    /// Bytes that are unknown without the frame: of a message those of the RPC message in the frame; of a chunk those
    /// in the frame, and those whose position only this frame has.
    pub(crate) bytes: Range<u64>,
    /// `true` if the frame identifies the rest of the message.
    pub(crate) is_head: bool,
    /// `true` for an RDMA Read request, which has none of the bytes that its responses move.
    pub(crate) is_request: bool,
}

/// Returns the parts in each frame of a capture without loss, by the index of their Transaction.
pub(crate) fn parts(frames: &[Kept], transactions: &[Transaction]) -> Vec<Vec<Part>> {
    let mut witness =
        Witness { transactions, by_xid: HashMap::new(), parts: vec![Vec::new(); frames.len()], messages: 0, data: 0 };
    for (at, transaction) in transactions.iter().enumerate() {
        witness.by_xid.entry(transaction.xid.0).or_default().push(at);
    }
    let mut packets = Packets::default();
    let mut streams: BTreeMap<(Address, Port, Address, Port), Stream> = BTreeMap::new();
    for (at, kept) in frames.iter().enumerate() {
        let frame = kept.frame(at as u64 + 1);
        let datagram = net::decode(&frame, &mut NullFieldObserver);
        let (source, destination) = (datagram.source, datagram.destination);
        match &datagram.payload {
            NetworkLayerPayload::Infiniband(packet) => packets.packet(at, source, destination, packet, &mut witness),
            NetworkLayerPayload::Tcp(segment) => {
                let ends = (source, segment.source_port, destination, segment.destination_port);
                streams.entry(ends).or_default().add(at, segment.payload.bytes);
            }
            NetworkLayerPayload::Udp(udp) => {
                let bytes = udp.payload.bytes;
                witness.message(bytes, &[(at, 0..bytes.len())], 0..8);
            }
            _ => {}
        }
    }
    let keys: Vec<_> = streams.keys().copied().collect();
    for (one, other) in keys.iter().map(|ends| (*ends, (ends.2, ends.3, ends.0, ends.1))) {
        let Some(mut own) = streams.remove(&one) else { continue };
        let mut peer = streams.remove(&other).unwrap_or_default();
        if own.bytes.starts_with(b"MPA ID") {
            own.fpdus(one.0, &mut peer, one.2, &mut witness);
        } else {
            own.records(&mut witness);
            peer.records(&mut witness);
        }
    }
    let expected: usize =
        transactions.iter().map(|t| usize::from(t.call.is_some()) + usize::from(t.reply.is_some())).sum();
    assert_eq!(witness.messages, expected, "messages that were found again");
    let moved: u64 = { transactions.iter() }
        .flat_map(|t| t.read_chunks.iter().chain(&t.write_chunks).chain(&t.reply_chunk))
        .map(|chunk| chunk.moved_bytes())
        .sum();
    assert_eq!(witness.data, moved, "bytes of chunks that were found again");
    witness.parts
}

struct Witness<'a> {
    transactions: &'a [Transaction],
    by_xid: HashMap<u32, Vec<usize>>,
    parts: Vec<Vec<Part>>,
    messages: usize,
    data: u64,
}

impl Witness<'_> {
    /// Adds a message in these ranges of these frames; without the bytes in `head` it cannot be identified.
    fn message(&mut self, bytes: &[u8], frames: &[(usize, Range<usize>)], head: Range<usize>) {
        let Some(xid) = bytes.first_chunk() else { return };
        for index in self.by_xid.get(&u32::from_be_bytes(*xid)).into_iter().flatten() {
            for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
                let message = self.transactions[*index].message(which);
                let Some(message) = message.filter(|message| message.bytes == bytes) else { continue };
                assert_eq!(message.copies, 1, "{message:?}");
                let numbers = frames.iter().map(|(frame, _)| *frame as u64 + 1);
                assert!(numbers.eq(message.frames.iter().map(|frame| frame.0)), "{frames:?} {message:?}");
                self.messages += 1;
                let rpc = |at: usize| at.saturating_sub(message.rpc_offset.unwrap()) as u64;
                for (frame, range) in frames {
                    self.parts[*frame].push(Part {
                        transaction: *index,
                        what: What::Message(which),
                        bytes: rpc(range.start)..rpc(range.end),
                        is_head: range.is_empty() || range.start < head.end && head.start < range.end,
                        is_request: false,
                    });
                }
                return;
            }
        }
    }

    /// Adds bytes written to or read from memory of `owner`: in the frame, or placed by it.
    fn data(&mut self, frame: usize, owner: Address, memory: &Memory, moved: u64) {
        for (index, transaction) in self.transactions.iter().enumerate() {
            let [Some(call), Some(reply)] = [&transaction.call, &transaction.reply] else { continue };
            let is_open =
                call.frames[0].0 <= frame as u64 + 1 && reply.frames.last().is_some_and(|last| last.0 > frame as u64);
            if name(transaction).0 != owner || !is_open {
                continue;
            }
            let reads = transaction.read_chunks.iter().enumerate().map(|(at, c)| (ChunkKind::Read, at, c));
            let writes = transaction.write_chunks.iter().enumerate().map(|(at, c)| (ChunkKind::Write, at, c));
            let replies = transaction.reply_chunk.iter().map(|chunk| (ChunkKind::Reply, 0, chunk));
            for (kind, at, chunk) in reads.chain(writes).chain(replies) {
                let mut base = 0;
                for segment in &chunk.segments {
                    let held =
                        Memory { handle: segment.handle.0, offset: segment.offset, length: segment.length.into() };
                    if let Some(into) = held.place(memory) {
                        self.data += moved;
                        self.parts[frame].push(Part {
                            transaction: index,
                            what: What::Chunk(kind, at),
                            bytes: base + into..base + into + memory.length,
                            is_head: false,
                            is_request: moved == 0,
                        });
                        return;
                    }
                    // A returned length ends the segment in the numbering of the codes.
                    base += u64::from(match kind {
                        ChunkKind::Read => segment.length,
                        _ => segment.returned_length.unwrap_or(0),
                    });
                }
            }
        }
    }
}

/// Range of memory.
#[derive(Clone, Debug)]
struct Memory {
    handle: u32,
    offset: u64,
    length: u64,
}

impl Memory {
    /// Returns the offset of another range within it.
    fn place(&self, other: &Self) -> Option<u64> {
        let into = other.offset.checked_sub(self.offset)?;
        (self.handle == other.handle && into + other.length <= self.length).then_some(into)
    }

    /// Removes and returns its first bytes.
    fn take(&mut self, length: u64) -> Self {
        let taken = Self { length, ..self.clone() };
        self.offset += length;
        self.length -= length;
        taken
    }
}

/// Bytes of an incomplete message, and the frame of each part.
type Unfinished = (Vec<u8>, Vec<(usize, Range<usize>)>);

/// Packets of RoCE: one connection between two addresses, in the order of sending.
#[derive(Default)]
struct Packets {
    sends: HashMap<Address, Unfinished>,
    writes: HashMap<Address, Memory>,
    /// Pending Reads by the owner of the memory.
    reads: HashMap<Address, VecDeque<Memory>>,
}

impl Packets {
    fn packet(
        &mut self,
        at: usize,
        source: Address,
        destination: Address,
        packet: &InfinibandPacket<'_>,
        witness: &mut Witness<'_>,
    ) {
        let (payload, place) = (packet.payload.bytes, packet.properties.position);
        let length = payload.len() as u64;
        let memory =
            packet.reth.map(|reth| Memory { handle: reth.r_key.0, offset: reth.va, length: reth.dmalen.into() });
        match packet.properties.operation {
            PacketOperation::Send => {
                let (bytes, frames) = self.sends.entry(source).or_default();
                frames.push((at, bytes.len()..bytes.len() + payload.len()));
                bytes.extend_from_slice(payload);
                if place.ends() {
                    let (bytes, frames) = self.sends.remove(&source).unwrap();
                    // The First packet.
                    let head = frames[0].1.clone();
                    witness.message(&bytes, &frames, head);
                }
            }
            PacketOperation::Write => {
                if let Some(memory) = memory {
                    let before = self.writes.insert(source, memory);
                    assert!(before.is_none_or(|before| before.length == 0));
                }
                let bytes = self.writes.get_mut(&source).unwrap().take(length);
                witness.data(at, destination, &bytes, length);
            }
            PacketOperation::ReadRequest => {
                let memory = memory.unwrap();
                witness.data(at, destination, &memory, 0);
                self.reads.entry(destination).or_default().push_back(memory);
            }
            PacketOperation::ReadResponse => {
                let reads = self.reads.get_mut(&source).unwrap();
                witness.data(at, source, &reads[0].take(length), length);
                if place.ends() {
                    assert_eq!(reads.pop_front().unwrap().length, 0);
                }
            }
            _ => {}
        }
    }
}

/// One direction of a TCP stream in order: its bytes, and the frame of each part.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    frames: Vec<(usize, Range<usize>)>,
}

/// DDP segment.
struct Fpdu {
    start: usize,
    payload: Range<usize>,
    tagged: Option<Memory>,
    opcode: u8,
    is_last: bool,
}

impl Stream {
    fn add(&mut self, frame: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.frames.push((frame, self.bytes.len()..self.bytes.len() + bytes.len()));
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Returns the frames that contain a part of a range, with that part.
    fn within(&self, range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let from = self.frames.partition_point(|(_, held)| held.end <= range.start);
        let until = range.end;
        self.frames[from..]
            .iter()
            .take_while(move |(_, held)| held.start < until)
            .map(move |(frame, held)| (*frame, held.start.max(range.start)..held.end.min(range.end)))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    /// Decodes records of one fragment each. RFC 5531 section 11.
    fn records(&self, witness: &mut Witness<'_>) {
        let mut at = 0;
        while at + 4 <= self.bytes.len() && self.bytes[at] & 0x80 != 0 {
            let end = at + 4 + (self.word(at) & 0x7fff_ffff) as usize;
            let Some(message) = self.bytes.get(at + 4..end) else { return };
            let start = at + 4;
            let frames: Vec<_> = self
                .within(at..end)
                .map(|(frame, held)| {
                    // A frame with bytes of the mark is a head.
                    (frame, held.start.max(start) - start..held.end.max(start) - start)
                })
                .collect();
            witness.message(message, &frames, 0..8);
            at = end;
        }
    }

    /// Returns the DDP segments in FPDUs without markers. RFC 5044 section 4, RFC 5041 section 4.
    fn segments(&self) -> Vec<Fpdu> {
        // After the MPA startup frame, with its private data.
        let mut at = 20 + usize::from(u16::from_be_bytes([self.bytes[18], self.bytes[19]]));
        let mut segments = Vec::new();
        while at < self.bytes.len() {
            let ulpdu = usize::from(u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]));
            let (ddp, rdmap) = (self.bytes[at + 2], self.bytes[at + 3]);
            let is_tagged = ddp & 0x80 != 0;
            let payload = at + 2 + if is_tagged { 14 } else { 18 }..at + 2 + ulpdu;
            let tagged = is_tagged.then(|| Memory {
                handle: self.word(at + 4),
                offset: self.long(at + 8),
                length: payload.len() as u64,
            });
            segments.push(Fpdu { start: at, payload, tagged, opcode: rdmap & 0xf, is_last: ddp & 0x40 != 0 });
            at += (2 + ulpdu).next_multiple_of(4) + 4;
        }
        segments
    }

    fn fpdus(&mut self, owner: Address, peer: &mut Self, peer_owner: Address, witness: &mut Witness<'_>) {
        let (own_segments, peer_segments) = (self.segments(), peer.segments());
        let reads_of_peer = peer.requests(&peer_segments, owner, witness);
        let reads_of_own = self.requests(&own_segments, peer_owner, witness);
        self.operations(&own_segments, owner, peer_owner, &reads_of_peer, witness);
        peer.operations(&peer_segments, peer_owner, owner, &reads_of_own, witness);
    }

    /// Returns the RDMA Reads requested by this side, of memory of `owner`: frame, sink and source.
    fn requests(&self, segments: &[Fpdu], owner: Address, witness: &mut Witness<'_>) -> Vec<(usize, Memory, Memory)> {
        let mut requests = Vec::new();
        for segment in segments.iter().filter(|segment| segment.opcode == 1) {
            let at = segment.payload.start;
            let length = u64::from(self.word(at + 12));
            let sink = Memory { handle: self.word(at), offset: self.long(at + 4), length };
            let source = Memory { handle: self.word(at + 16), offset: self.long(at + 20), length };
            let mut last = 0;
            for (frame, _) in self.within(segment.start..segment.payload.end) {
                witness.data(frame, owner, &source, 0);
                last = frame;
            }
            requests.push((last, sink, source));
        }
        requests
    }

    fn operations(
        &self,
        segments: &[Fpdu],
        owner: Address,
        peer: Address,
        reads: &[(usize, Memory, Memory)],
        witness: &mut Witness<'_>,
    ) {
        let (mut message, mut pieces) = (Vec::new(), Vec::<(usize, Range<usize>)>::new());
        // A later Read of the same sink.
        let mut next_read = 0;
        for segment in segments {
            let headers = segment.payload.start - segment.start;
            let frames: Vec<_> = self.within(segment.start..segment.payload.end).collect();
            let in_payload = |held: &Range<usize>| {
                let at = |at: usize| at.max(segment.payload.start) - segment.payload.start;
                at(held.start)..at(held.end)
            };
            let is_head = |held: &Range<usize>| held.start < segment.start + headers;
            match segment.opcode {
                0 | 2 => {
                    let mut tagged = segment.tagged.clone().unwrap();
                    let mut holder = peer;
                    if segment.opcode == 2 {
                        holder = owner;
                        let found = reads
                            .iter()
                            .enumerate()
                            .skip(next_read)
                            .find(|(_, (asked, sink, _))| *asked <= frames[0].0 && sink.place(&tagged).is_some());
                        let (at, (_, sink, source)) = found.unwrap();
                        next_read = at;
                        tagged.offset = source.offset + sink.place(&tagged).unwrap();
                        tagged.handle = source.handle;
                        if segment.is_last {
                            next_read += 1;
                        }
                    }
                    for (frame, held) in &frames {
                        let there = in_payload(held);
                        let memory = if is_head(held) {
                            tagged.clone()
                        } else {
                            Memory { offset: tagged.offset + there.start as u64, length: there.len() as u64, ..tagged }
                        };
                        if memory.length > 0 {
                            witness.data(*frame, holder, &memory, there.len() as u64);
                        }
                    }
                }
                3..=6 => {
                    let base = message.len();
                    message.extend_from_slice(&self.bytes[segment.payload.clone()]);
                    let all = base..base + segment.payload.len();
                    for (frame, held) in &frames {
                        let there = in_payload(held);
                        let there = base + there.start..base + there.end;
                        let there = if is_head(held) { all.clone() } else { there };
                        match pieces.last_mut() {
                            Some((last, range)) if last == frame => *range = range.start..there.end,
                            _ => pieces.push((*frame, there)),
                        }
                    }
                    if segment.is_last {
                        witness.message(&std::mem::take(&mut message), &std::mem::take(&mut pieces), 0..32);
                    }
                }
                _ => {}
            }
        }
    }
}
