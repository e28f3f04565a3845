//! Builder of streams: FPDUs with and without markers and CRCs, and the events decoded from them.

use std::num::NonZeroU64;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::iwarp::crc::RunningFpduCrc;
use nfsrdma_dissectors::iwarp::ddp::{DdpControl, DdpMessageSequenceNumber, DdpQueueNumber, Tagged, Untagged};
use nfsrdma_dissectors::iwarp::mpa::{
    FpduHeader, Marker, MpaEnhancedConnectionData, MpaReadQueueDepthField, MpaReplyFrame, MpaRequestFrame, REPLY_KEY,
    REQUEST_KEY,
};
use nfsrdma_dissectors::iwarp::rdmap::{RdmapControl, RdmapInvalidateStag, RdmapOpcode, RdmapReadRequestHeader};
use nfsrdma_dissectors::memory_handle::Handle;

use super::super::{IwarpConnection, MpaCounts};
use crate::iwarp::events::{IwarpEvent, IwarpEventSink};
use crate::packet_meta::PacketMeta;
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB, RdmaAttribution, RdmaOperation};
use crate::stream::stream_bytes::{StreamBytes, StreamPosition};

/// Start position of streams.
pub(crate) const START: StreamPosition = 1 << 32;

/// Bytes that one side sends.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) bytes: Vec<u8>,
    /// Offset of the first marker in them.
    pub(crate) markers: Option<usize>,
    pub(crate) has_crc: bool,
    sends: u32,
    reads: u32,
    /// Number of bytes already taken.
    sent: usize,
    /// Maximum payload of one segment.
    pub(crate) segment: usize,
}

impl Sender {
    /// A sender in mid-stream, without markers.
    pub(crate) fn plain(has_crc: bool) -> Self {
        Self { bytes: Vec::new(), markers: None, has_crc, sends: 0, reads: 0, sent: 0, segment: 600 }
    }

    /// Adds a start-up frame; `peer_wants` are its peer's flags M and C.
    pub(crate) fn starting(is_request: bool, wants: (bool, bool), peer_wants: (bool, bool)) -> Self {
        let enhanced = MpaEnhancedConnectionData {
            peer_to_peer: false,
            send_rtr: false,
            ird: MpaReadQueueDepthField(16),
            write_rtr: false,
            read_rtr: false,
            ord: MpaReadQueueDepthField(16),
        };
        let private = [&enhanced.encode()[..], &[0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]].concat();
        let (markers, crc) = wants;
        let (pd_length, rejected, res, rev) = (private.len() as u16, false, 0, 2);
        let frame = if is_request {
            MpaRequestFrame { key: &REQUEST_KEY, markers, crc, rejected, enhanced: true, res, rev, pd_length }.encode()
        } else {
            MpaReplyFrame { key: &REPLY_KEY, markers, crc, rejected, enhanced: true, res, rev, pd_length }.encode()
        };
        let bytes = [&frame[..], &private].concat();
        let mut sender = Self::plain(crc || peer_wants.1);
        sender.markers = peer_wants.0.then_some(bytes.len());
        sender.bytes = bytes;
        sender
    }

    /// Returns the bytes that have not been sent yet.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let sent = std::mem::replace(&mut self.sent, self.bytes.len());
        self.bytes[sent..].to_vec()
    }

    fn marker(&mut self, begins: usize) {
        if let Some(first) = self.markers
            && (self.bytes.len() - first).is_multiple_of(512)
        {
            // It may precede the FPDU that it belongs to.
            let fpduptr = (self.bytes.len() - begins) as u16;
            self.bytes.extend(Marker { reserved: 0, fpduptr }.encode());
        }
    }

    /// Adds an FPDU.
    pub(crate) fn fpdu(&mut self, ulpdu: &[u8]) {
        let header = FpduHeader { ulpdu_length: ulpdu.len() as u16 };
        let covered_from = self.bytes.len();
        self.marker(covered_from);
        let begins = self.bytes.len();
        let content = [&header.encode()[..], ulpdu, &[0; 3][..header.pad()]].concat();
        for word in content.chunks(4) {
            if self.bytes.len() > begins {
                self.marker(begins);
            }
            self.bytes.extend(word);
        }
        self.marker(begins);
        let crc = RunningFpduCrc::compute(&self.bytes[covered_from..]).to_wire_bytes();
        self.bytes.extend(if self.has_crc { crc } else { [0; 4] });
    }

    pub(crate) fn tagged(&mut self, opcode: RdmapOpcode, stag: u32, offset: u64, payload: &[u8]) {
        let count = payload.len().div_ceil(self.segment).max(1);
        for at in 0..count {
            let part = &payload[at * self.segment..payload.len().min((at + 1) * self.segment)];
            let ddp = DdpControl { tagged: true, last: at + 1 == count, reserved: 0, version: 1 };
            let rdmap = RdmapControl { version: 1, reserved: 0, opcode };
            let tagged = Tagged { stag: Handle(stag), offset: offset.wrapping_add((at * self.segment) as u64) };
            self.fpdu(&[&ddp.encode()[..], &rdmap.encode(), &tagged.encode(), part].concat());
        }
    }

    pub(crate) fn untagged(&mut self, opcode: RdmapOpcode, queue: DdpQueueNumber, number: u32, payload: &[u8]) {
        let count = payload.len().div_ceil(self.segment).max(1);
        for at in 0..count {
            let part = &payload[at * self.segment..payload.len().min((at + 1) * self.segment)];
            let ddp = DdpControl { tagged: false, last: at + 1 == count, reserved: 0, version: 1 };
            let rdmap = RdmapControl { version: 1, reserved: 0, opcode };
            let invalidate = RdmapInvalidateStag { stag: Handle(if opcode.invalidates() { 7 } else { 0 }) };
            let untagged =
                Untagged { queue, number: DdpMessageSequenceNumber(number), offset: (at * self.segment) as u32 };
            let headers = [&ddp.encode()[..], &rdmap.encode(), &invalidate.encode(), &untagged.encode()].concat();
            self.fpdu(&[&headers, part].concat());
        }
    }

    pub(crate) fn send(&mut self, opcode: RdmapOpcode, payload: &[u8]) {
        self.sends += 1;
        self.untagged(opcode, DdpQueueNumber::SEND, self.sends, payload);
    }

    pub(crate) fn write(&mut self, stag: u32, offset: u64, payload: &[u8]) {
        self.tagged(RdmapOpcode::WRITE, stag, offset, payload);
    }

    pub(crate) fn read(&mut self, sink: (u32, u64), length: u32, source: (u32, u64)) {
        self.reads += 1;
        let request = RdmapReadRequestHeader {
            sink_stag: Handle(sink.0),
            sink_offset: sink.1,
            length,
            source_stag: Handle(source.0),
            source_offset: source.1,
        };
        self.untagged(RdmapOpcode::READ_REQUEST, DdpQueueNumber::READ_REQUEST, self.reads, &request.encode());
    }

    pub(crate) fn respond(&mut self, sink: (u32, u64), payload: &[u8]) {
        self.tagged(RdmapOpcode::READ_RESPONSE, sink.0, sink.1, payload);
    }
}

/// Bytes with a short debug format.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Content(pub(in crate::iwarp) Vec<u8>);

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes {:02x?}", self.0.len(), self.0.get(..4).unwrap_or(&self.0))
    }
}

/// A decoded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Startup,
    Send { bytes: Content, length: usize, gaps: Vec<std::ops::Range<u64>>, frames: Vec<u64> },
    Again { owner: u64, ends: bool },
    Write { stag: u32, offset: u64, bytes: Content, length: u32 },
    ReadRequest { stag: u32, offset: u64, length: u32 },
    Response { offset: u64, bytes: Content, length: u32 },
    Terminate(String),
    Undecoded(&'static str),
}

/// Collects events, and feeds the connection.
#[derive(Default)]
pub(crate) struct Bench {
    pub(crate) iwarp: IwarpConnection,
    pub(crate) log: Log,
    number: u64,
}

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) seen: Vec<Seen>,
    pub(crate) known: Vec<u32>,
    owners: u64,
    /// Number of attribution lookups by the layer above.
    pub(crate) lookups: u64,
    /// Frames of each operation.
    pub(crate) frames: Vec<Vec<u64>>,
    /// Start and end time of each Send.
    pub(crate) times: Vec<(i64, i64)>,
    /// `true` to merge consecutive RDMA Writes or Read responses with contiguous data.
    pub(crate) joins: bool,
}

impl Log {
    fn note(&mut self, owner: &mut RdmaAttribution) {
        if owner.0.is_none() {
            self.owners += 1;
            self.lookups += 1;
            *owner = RdmaAttribution(NonZeroU64::new(self.owners).map(|key| (key, 0)));
        }
    }

    fn push(&mut self, seen: Seen) {
        if self.joins {
            match (self.seen.last_mut(), &seen) {
                (
                    Some(Seen::Write { stag, offset, bytes, length }),
                    Seen::Write { stag: of, offset: next, bytes: more, length: by },
                ) if stag == of && *offset + u64::from(*length) == *next => {
                    bytes.0.extend(&more.0);
                    *length += by;
                    return;
                }
                (
                    Some(Seen::Response { offset, bytes, length }),
                    Seen::Response { offset: next, bytes: more, length: by },
                ) if *offset + u64::from(*length) == *next => {
                    bytes.0.extend(&more.0);
                    *length += by;
                    return;
                }
                _ => {}
            }
        }
        self.seen.push(seen);
    }
}

impl IwarpEventSink for Log {
    fn records_events(&self) -> bool {
        true
    }

    fn event(&mut self, packet_meta: PacketMeta<'_>, event: IwarpEvent<'_>) {
        match &event {
            IwarpEvent::Operation(RdmaOperation::Send { message, .. }) => {
                self.frames.push(message.frames.iter().map(|frame| frame.0).collect());
                self.times.push((message.time.0, message.end_time.0));
            }
            IwarpEvent::Operation(_) => self.frames.push(packet_meta.frames.iter().map(|frame| frame.0).collect()),
            _ => {}
        }
        let seen = match event {
            IwarpEvent::Startup => Seen::Startup,
            IwarpEvent::Fpdu(_) | IwarpEvent::UnprovenFpdu | IwarpEvent::Transport(_) => return,
            IwarpEvent::Operation(RdmaOperation::Send { message, attribution: owner }) => {
                self.note(owner);
                Seen::Send {
                    bytes: Content(message.bytes.to_vec()),
                    length: message.length,
                    gaps: message.gaps.to_vec(),
                    frames: if self.joins { Vec::new() } else { message.frames.iter().map(|frame| frame.0).collect() },
                }
            }
            IwarpEvent::Operation(RdmaOperation::ChunkDataRetransmission { attribution: owner }) => {
                Seen::Again { owner: owner.0.map_or(0, |(key, _)| key.get()), ends: false }
            }
            IwarpEvent::Operation(RdmaOperation::SendRetransmission { attribution: owner, ends }) => {
                Seen::Again { owner: owner.0.map_or(0, |(key, _)| key.get()), ends }
            }
            IwarpEvent::Operation(RdmaOperation::Write { handle, offset, data, attribution: owner }) => {
                self.note(owner);
                Seen::Write { stag: handle.0, offset, bytes: Content(data.bytes.to_vec()), length: data.length }
            }
            IwarpEvent::Operation(RdmaOperation::ReadRequest { handle, offset, length, attribution: owner }) => {
                self.note(owner);
                Seen::ReadRequest { stag: handle.0, offset, length }
            }
            IwarpEvent::Operation(RdmaOperation::ReadResponse { offset, data, .. }) => {
                Seen::Response { offset, bytes: Content(data.bytes.to_vec()), length: data.length }
            }
            IwarpEvent::Terminate(terminate) => Seen::Terminate(terminate.to_string()),
            IwarpEvent::Undecoded(why) => Seen::Undecoded(why.key()),
            IwarpEvent::Part
            | IwarpEvent::Control(_)
            | IwarpEvent::Refused { .. }
            | IwarpEvent::RefusedMessage(_)
            | IwarpEvent::Misframed(_) => {
                return;
            }
        };
        self.push(seen);
    }

    fn knows_memory(&self, stag: Handle) -> bool {
        self.known.contains(&stag.0)
    }
}

impl Bench {
    /// Feeds a piece of which `captured` bytes were captured, in its own frame.
    pub(crate) fn cut(&mut self, side: ConnectionSideAOrB, at: StreamPosition, bytes: &[u8], captured: usize) {
        self.number += 1;
        let number = FrameNumber(self.number);
        let frames = [number];
        let packet_meta = PacketMeta::new(&frames, Timestamp(self.number as i64));
        let data = CapturedPacketPayload { bytes: &bytes[..captured], length: bytes.len() as u32 };
        self.iwarp.process(side, StreamBytes { at, data, meta: packet_meta }, None, &mut self.log);
    }

    pub(crate) fn feed(&mut self, side: ConnectionSideAOrB, at: StreamPosition, bytes: &[u8]) {
        self.cut(side, at, bytes, bytes.len());
    }

    /// Feeds bytes that were not captured.
    pub(crate) fn hole(&mut self, side: ConnectionSideAOrB, at: StreamPosition, length: usize) {
        let packet_meta = PacketMeta::new(&[], Timestamp(self.number as i64));
        let data = CapturedPacketPayload { bytes: &[], length: length as u32 };
        self.iwarp.process(side, StreamBytes { at, data, meta: packet_meta }, None, &mut self.log);
    }

    /// Feeds a whole direction in pieces of these lengths, the last one repeated.
    pub(crate) fn pieces(&mut self, side: ConnectionSideAOrB, bytes: &[u8], lengths: &[usize]) {
        let mut at = 0;
        let mut lengths = lengths.iter().copied();
        let mut length = bytes.len();
        while at < bytes.len() {
            length = lengths.next().unwrap_or(length).max(1);
            let end = (at + length).min(bytes.len());
            self.feed(side, START + at as u64, &bytes[at..end]);
            at = end;
        }
    }

    pub(crate) fn counts(&mut self) -> MpaCounts {
        self.iwarp.take_counts()
    }
}

pub(crate) fn response(offset: u64, bytes: Vec<u8>) -> Seen {
    Seen::Response { offset, length: bytes.len() as u32, bytes: Content(bytes) }
}

/// Bytes that encode their position.
pub(crate) fn payload(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(7).wrapping_add(seed) ^ (at >> 8) as u8).collect()
}

pub(crate) fn send(bytes: Vec<u8>, frames: &[u64]) -> Seen {
    Seen::Send { length: bytes.len(), bytes: Content(bytes), gaps: Vec::new(), frames: frames.to_vec() }
}

pub(crate) fn write(stag: u32, offset: u64, bytes: Vec<u8>) -> Seen {
    Seen::Write { stag, offset, length: bytes.len() as u32, bytes: Content(bytes) }
}
