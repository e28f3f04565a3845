//! Tests of the flow, one rule per test: frames in, and the expected Transactions out, each as one line.

mod beginnings;
mod bounds;
mod chunks;
mod closing;
mod connections;
mod control_messages;
mod cut;
mod dialects;
mod iwarp;
mod loss;
mod message;
mod messages;
mod packet_losses;
mod pending;
mod seeds;
mod settling;
mod shared_xids;
mod stream_delivery;
mod streams;
mod tcp;
mod udp;
mod undecoded;
mod wire;

use std::ops::Range;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::field::{FieldDefinition, FieldValue};
use nfsrdma_dissectors::rpc::RpcMessageKind;

use super::transaction::{CallDirection, MissingPart};
use super::transaction_message_decoding::{ProcedureOrMainOperation, RpcStatus};
use super::*;
use crate::chunk::Chunk;
use message::*;
use wire::{Client, Frames, Link, Server};

/// Result of processing a capture.
struct Outcome {
    flow: Flow,
    transactions: Vec<Transaction>,
    meanings: Vec<FrameContentKind>,
}

/// Runs frames that are a microsecond apart, the first at 1 microsecond.
fn run(frames: &[Vec<u8>]) -> Outcome {
    run_cut(frames, u64::MAX, 0)
}

/// Like [`run`], with a snap length after the first `whole` frames.
fn run_cut(frames: &[Vec<u8>], whole: u64, snap: usize) -> Outcome {
    let limits = FlowLimits { check_icrc: true, ..FlowLimits::default() };
    run_within(limits, frames, |number| if number > whole { snap } else { usize::MAX })
}

fn run_within(limits: FlowLimits, frames: &[Vec<u8>], snap: impl Fn(u64) -> usize) -> Outcome {
    let mut flow = Flow::new(limits);
    let mut meanings = Vec::new();
    let mut transactions = Vec::new();
    for (number, bytes) in (1..).zip(frames) {
        meanings.push(feed(&mut flow, number, number as i64 * 1000, bytes, snap(number)));
        transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    }
    flow.finish();
    transactions.extend(std::iter::from_fn(|| flow.next_transaction()));
    for (index, transaction) in (1..).zip(&transactions) {
        assert_eq!(transaction.index, index);
        whole(transaction);
    }
    Outcome { flow, transactions, meanings }
}

fn feed(flow: &mut Flow, number: u64, time: i64, bytes: &[u8], snap: usize) -> FrameContentKind {
    let bytes = identified(bytes, number as u16);
    feed_as_it_is(flow, number, time, &bytes, snap)
}

/// Feeds a frame with its own identification.
fn feed_as_it_is(flow: &mut Flow, number: u64, time: i64, bytes: &[u8], snap: usize) -> FrameContentKind {
    flow.process_frame(&Frame {
        number: FrameNumber(number),
        time: Timestamp(time),
        link: nfsrdma_dissectors::captured_frame::LinkType::ETHERNET,
        bytes: &bytes[..bytes.len().min(snap)],
        length: bytes.len() as u32,
    })
}

/// Returns a frame whose IPv4 datagram has its own identification. Fragments keep theirs.
fn identified(bytes: &[u8], identification: u16) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some([0x08, 0x00, first, _, _, _, _, _, high, low]) = bytes.get(12..22) else { return bytes };
    if first >> 4 != 4 || (*high & 0x3f, *low) != (0, 0) {
        return bytes;
    }
    bytes[18..20].copy_from_slice(&identification.to_be_bytes());
    let copy = bytes.clone();
    let frame = Frame {
        number: FrameNumber(1),
        time: Timestamp(0),
        link: nfsrdma_dissectors::captured_frame::LinkType::ETHERNET,
        bytes: &copy,
        length: copy.len() as u32,
    };
    let datagram = nfsrdma_dissectors::net::decode(&frame, &mut NullFieldObserver);
    if let (nfsrdma_dissectors::net::NetworkLayerPayload::Infiniband(packet), Some(Icrc::Bad { expected, .. })) =
        (datagram.payload, datagram.icrc(&frame))
    {
        let end = packet.at + packet.length;
        bytes[end - 4..end].copy_from_slice(&expected.to_be_bytes());
    }
    bytes
}

/// Asserts the invariants of every Transaction: its phases add up to its latency, and it decodes with an
/// observer.
fn whole(transaction: &Transaction) {
    if let Some(phases) = transaction.phases() {
        let sum: u64 = phases.named_durations().iter().map(|(_, ns)| ns).sum();
        assert_eq!(Some(sum), transaction.latency_ns());
    }
    let mut depth = Depth(0);
    transaction.with_messages(|reading| {
        reading.summary();
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            let _ = reading.observe(which, &mut depth);
        }
    });
}

struct Depth(i32);

impl<'a> FieldObserver<'a> for Depth {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {
        self.0 += 1;
    }
    fn leave(&mut self, _: usize) {
        self.0 -= 1;
    }
    fn value(&mut self, _: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {}
}

impl Outcome {
    fn lines(&self) -> Vec<String> {
        self.transactions.iter().map(line).collect()
    }

    fn undecoded(&self) -> Vec<(UndecodedReason, u64)> {
        self.flow.stats().undecoded_counts().collect()
    }
}

/// Asserts the Transactions of a capture as lines, and that every packet has a correct ICRC.
#[track_caller]
fn expect(frames: &[Vec<u8>], lines: &[&str]) -> Outcome {
    let outcome = run(frames);
    assert_eq!(outcome.lines(), lines);
    assert_eq!(outcome.flow.icrc_counts().bad, 0);
    outcome
}

/// Like [`expect`], and no frame may be undecoded.
#[track_caller]
fn expect_all(frames: &[Vec<u8>], lines: &[&str]) -> Outcome {
    let outcome = expect(frames, lines);
    assert_eq!(outcome.undecoded(), []);
    outcome
}

/// Formats a Transaction as a line: `#index cCONNECTION > XID OPERATION STATUS call FRAMES reply FRAMES`,
/// its chunks `r112[MOVED/OFFERED@FRAMES]`, `w[MOVED/RETURNED/OFFERED@FRAMES]`, `rc[...]`, and the missing
/// parts.
fn line(transaction: &Transaction) -> String {
    let t = transaction;
    let facts = t.with_messages(|reading| reading.summary());
    let operation = match facts.operation {
        Some(ProcedureOrMainOperation::Named(name)) => name.to_owned(),
        Some(ProcedureOrMainOperation::Number(number)) => number.to_string(),
        None => "-".to_owned(),
    };
    let status = match (facts.status, facts.rpc_status) {
        (Some(status), _) => status.name.unwrap_or("?").to_owned(),
        (None, Some(RpcStatus::Rpc(status))) => status.to_string(),
        (None, Some(RpcStatus::RdmaError(error))) => error.to_string(),
        (None, None) => "-".to_owned(),
    };
    let way = if t.direction == CallDirection::Forward { '>' } else { '<' };
    let mut line = format!("#{} c{} {way} {:x} {operation} {status}", t.index, t.connection.number, t.xid.0);
    for (name, message) in [("call", &t.call), ("reply", &t.reply)] {
        if let Some(message) = message {
            let frames: Vec<_> = message.frames.iter().map(FrameNumber::to_string).collect();
            line += &format!(" {name} {}", frames.join(","));
            if message.copies != 1 {
                line += &format!(" x{}", message.copies);
            }
        }
    }
    for chunk in &t.read_chunks {
        line += &format!(" r{}{}", chunk.position.unwrap(), segments(chunk, false));
    }
    for chunk in &t.write_chunks {
        line += &format!(" w{}", segments(chunk, true));
    }
    if let Some(chunk) = &t.reply_chunk {
        line += &format!(" rc{}", segments(chunk, true));
    }
    for chunk in &t.reply_read_chunks {
        line += &format!(" rr{}{}", chunk.position.unwrap(), segments(chunk, false));
    }
    if t.is_done {
        line += " done";
    }
    if let Some(index) = t.retry_of {
        line += &format!(" retry of #{index}");
    }
    let missing: Vec<_> = facts.missing(t).iter().map(MissingPart::to_string).collect();
    if !missing.is_empty() {
        line += &format!(" missing {}", missing.join(","));
    }
    line
}

fn segments(chunk: &Chunk, returns: bool) -> String {
    let segment = |segment: &chunk::ChunkSegment| {
        let mut text = segment.moved_coverage.total_bytes().to_string();
        if returns {
            text += &segment.returned_length.map_or("/-".to_owned(), |returned| format!("/{returned}"));
        }
        text += &format!("/{}", segment.length);
        if let Some((first, last)) = segment.frames {
            text += &format!("@{first}-{last}");
        }
        text
    };
    let segments: Vec<_> = chunk.segments.iter().map(segment).collect();
    format!("[{}]", segments.join(" "))
}

/// Returns the frames without those with these numbers, counted from 1.
fn without(frames: &[Vec<u8>], lost: &[usize]) -> Frames {
    (1..).zip(frames).filter(|(number, _)| !lost.contains(number)).map(|(_, frame)| frame.clone()).collect()
}

/// A READ whose data is in one Write chunk of one segment, in five frames or more.
fn read(link: &mut Link, xid: u32, sink: Memory) -> Frames {
    let length = sink.length;
    [
        link.send(Client, &read_call(xid, length).write(&[sink])),
        link.ack(Server),
        link.write(Server, sink, &data(length as usize)),
        link.send(Server, &read_reply(xid, length).write(&[sink])),
        link.ack(Client),
    ]
    .concat()
}

/// A WRITE whose data is in one Read chunk of one segment.
fn write(link: &mut Link, xid: u32, source: Memory) -> Frames {
    let length = source.length;
    [
        link.send(Client, &write_call(xid, length).read(&[source])),
        link.read(Server, source, &data(length as usize)),
        link.send(Server, &write_reply(xid, length)),
    ]
    .concat()
}

/// A Call and its Reply, two frames.
fn getattr(link: &mut Link, xid: u32) -> Frames {
    [link.send(Client, &getattr_call(xid)), link.send(Server, &getattr_reply(xid))].concat()
}

fn null(link: &mut Link, xid: u32) -> Frames {
    [link.send(Client, &null_call(xid)), link.send(Server, &null_reply(xid))].concat()
}
