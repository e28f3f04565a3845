//! What happened when in a Transaction: its Call, each RDMA Read and Write for each of its chunks, its Reply.

use nfsrdma_dissectors::flow::chunk::{Chunk, ChunkKind};
use nfsrdma_dissectors::flow::transaction::{MessageRecord, RpcMessageKind, Transaction};
use nfsrdma_dissectors::flow::{FrameAction, FrameEvent};
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::infiniband::Syndrome;
use rustc_hash::FxHashMap;

use super::acknowledgements::{self, ReliablePacket};

/// A packet, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaterfallPacket {
    pub(super) time: Timestamp,
    /// Whether it begins its RDMA operation, where its headers tell.
    pub(super) begins: Option<bool>,
    /// Bytes of its payload, where its headers tell.
    pub(super) bytes: u64,
    /// What acknowledgements need to know of it, over InfiniBand and RoCE.
    pub(super) reliable: Option<ReliablePacket>,
}

/// What a bar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaterfallBarKind {
    /// A message.
    Message(RpcMessageKind),
    /// An RDMA Read for this Read chunk: from the request to the last response.
    Read(usize),
    /// An RDMA Write for this Write chunk.
    Write(usize),
    /// An RDMA Write for the Reply chunk.
    ReplyWrite,
    /// RDMA_DONE.
    Done,
    /// A NAK, which refused what a side had sent.
    Nak(Syndrome),
}

/// Something that took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterfallBar {
    /// What it was.
    pub kind: WaterfallBarKind,
    /// When it began.
    pub from: Timestamp,
    /// When it was over.
    pub to: Timestamp,
    /// Its first and its last frame.
    pub frames: (FrameNumber, FrameNumber),
    /// Bytes of the message, or those that moved; 0 where that is not known.
    pub bytes: u64,
    /// Whether it is a request that nothing answered.
    pub is_open: bool,
    /// The ACK for what was sent, where it was seen.
    pub acknowledged: Option<WaterfallAck>,
}

/// An ACK that covers what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterfallAck {
    /// When it was captured.
    pub time: Timestamp,
    /// Its frame.
    pub frame: FrameNumber,
}

impl WaterfallBar {
    fn stretch(&mut self, frame: FrameNumber, packet: &WaterfallPacket) {
        self.to = self.to.max(packet.time);
        self.frames.1 = self.frames.1.max(frame);
        self.bytes += packet.bytes;
        self.is_open = false;
    }
}

/// The bars of a Transaction, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct Waterfall {
    /// The bars.
    pub bars: Vec<WaterfallBar>,
}

impl Waterfall {
    /// The bars of a Transaction, of which the frames did `steps`.
    pub(super) fn of(
        transaction: &Transaction,
        steps: &[FrameEvent],
        packets: &FxHashMap<FrameNumber, WaterfallPacket>,
    ) -> Self {
        let mut bars = Vec::new();
        let mut steps: Vec<FrameEvent> = steps.to_vec();
        steps.sort_by_key(|step| step.frame);
        steps.dedup();
        for step in &steps {
            let Some(packet) = packets.get(&step.frame) else { continue };
            place(&mut bars, step, packet);
        }
        count_bytes(&mut bars, transaction);
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            bars.extend(transaction.message(which).and_then(|message| of_message(which, message)));
        }
        let mut frames: Vec<FrameNumber> = steps.iter().map(|step| step.frame).collect();
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            frames.extend(transaction.message(which).iter().flat_map(|message| &message.frames));
        }
        acknowledgements::mark(&mut bars, &transaction.connection, &frames, packets);
        bars.sort_by_key(|bar| (bar.from, bar.frames.0));
        Self { bars }
    }

    /// From the first moment to the end of the Reply: what was sent again after it is no part of the Transaction's time. Without a
    /// Reply to the last moment.
    pub fn times(&self) -> Option<(Timestamp, Timestamp)> {
        let first = self.bars.iter().map(|bar| bar.from).min()?;
        let reply = self.bars.iter().find(|bar| bar.kind == WaterfallBarKind::Message(RpcMessageKind::Reply));
        let sent = self.bars.iter().filter(|bar| !matches!(bar.kind, WaterfallBarKind::Nak(_)));
        let last = reply.map(|bar| bar.to).or(sent.map(|bar| bar.to).max())?;
        Some((first, last))
    }
}

/// Where the frames do not tell what they moved, as in a stream of TCP, the only bar of a chunk moved all of it.
fn count_bytes(bars: &mut [WaterfallBar], transaction: &Transaction) {
    let moved = |kind| match kind {
        WaterfallBarKind::Read(chunk) => transaction.read_chunks.get(chunk),
        WaterfallBarKind::Write(chunk) => transaction.write_chunks.get(chunk),
        WaterfallBarKind::ReplyWrite => transaction.reply_chunk.as_ref(),
        WaterfallBarKind::Message(_) | WaterfallBarKind::Done | WaterfallBarKind::Nak(_) => None,
    };
    let kinds: Vec<WaterfallBarKind> = bars.iter().map(|bar| bar.kind).collect();
    for bar in bars.iter_mut().filter(|bar| bar.bytes == 0 && !bar.is_open) {
        if kinds.iter().filter(|kind| **kind == bar.kind).count() == 1 {
            bar.bytes = moved(bar.kind).map_or(0, Chunk::moved_bytes);
        }
    }
}

fn of_message(which: RpcMessageKind, message: &MessageRecord) -> Option<WaterfallBar> {
    let (first, last) = (*message.frames.first()?, *message.frames.last()?);
    Some(WaterfallBar {
        kind: WaterfallBarKind::Message(which),
        from: message.time,
        to: message.end_time,
        frames: (first, last),
        bytes: message.length as u64,
        is_open: false,
        acknowledged: None,
    })
}

fn place(bars: &mut Vec<WaterfallBar>, step: &FrameEvent, packet: &WaterfallPacket) {
    let (kind, is_open) = match step.action {
        FrameAction::RequestedRead { chunk } => (WaterfallBarKind::Read(chunk), true),
        FrameAction::MovedChunkData { kind: ChunkKind::Read, chunk } => {
            (WaterfallBarKind::Read(chunk), false)
        }
        FrameAction::MovedChunkData { kind: ChunkKind::Write, chunk } => {
            (WaterfallBarKind::Write(chunk), false)
        }
        FrameAction::MovedChunkData { kind: ChunkKind::Reply, .. } => (WaterfallBarKind::ReplyWrite, false),
        FrameAction::Done => (WaterfallBarKind::Done, false),
    };
    if !is_open {
        // The responses come in the order of their requests: one that begins answers the first that is open.
        let waits = bars.iter().position(|bar| bar.kind == kind && bar.is_open);
        let goes_on = bars.iter().rposition(|bar| bar.kind == kind && !bar.is_open);
        let of = match packet.begins {
            Some(true) => waits,
            Some(false) => goes_on,
            None => waits.or(goes_on),
        };
        if let Some(bar) = of.and_then(|of| bars.get_mut(of)) {
            return bar.stretch(step.frame, packet);
        }
    }
    bars.push(WaterfallBar {
        kind,
        from: packet.time,
        to: packet.time,
        frames: (step.frame, step.frame),
        bytes: if is_open { 0 } else { packet.bytes },
        is_open,
        acknowledged: None,
    });
}
