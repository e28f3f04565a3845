//! Timeline of a Transaction: its Call, the RDMA Reads and Writes of its chunks, and its Reply.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_flow::chunk::{Chunk, ChunkKind};
use nfsrdma_flow::transaction::{CallDirection, CapturedMessage, PossibleRecovery, RpcMessageKind, Transaction};
use nfsrdma_flow::{FrameRole, TransactionFrame};
use rustc_hash::FxHashMap;

use super::rdma_acknowledgements::{self, WaterfallPacket};
use super::waterfall_bar::{WaterfallBar, WaterfallBarKind};

impl WaterfallBar {
    fn extend(&mut self, frame: FrameNumber, packet: &WaterfallPacket) {
        self.to = self.to.max(packet.time);
        self.frames.1 = self.frames.1.max(frame);
        self.bytes += packet.bytes;
        self.is_open = false;
    }
}

/// The bars of a Transaction, ordered by start time.
#[derive(Clone, Debug, Default)]
pub struct TransactionWaterfall {
    /// The bars.
    pub bars: Vec<WaterfallBar>,
    /// Direction of the Call, and evidence that the time of its responder may include loss recovery.
    pub possible_recovery: Option<(CallDirection, PossibleRecovery)>,
}

impl TransactionWaterfall {
    /// Builds the bars of a Transaction from the events of its frames.
    pub(super) fn from_events(
        transaction: &Transaction,
        steps: &[TransactionFrame],
        packets: &FxHashMap<FrameNumber, WaterfallPacket>,
    ) -> Self {
        let mut bars = Vec::new();
        let mut steps: Vec<TransactionFrame> = steps.to_vec();
        steps.sort_by_key(|step| step.frame);
        steps.dedup();
        for step in &steps {
            let Some(packet) = packets.get(&step.frame) else { continue };
            add_event(&mut bars, step, packet);
        }
        fill_chunk_bytes(&mut bars, transaction);
        for kind in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            bars.extend(transaction.message(kind).and_then(|message| message_bar(kind, message)));
        }
        let mut frames: Vec<FrameNumber> = steps.iter().map(|step| step.frame).collect();
        for kind in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            frames.extend(transaction.message(kind).iter().flat_map(|message| &message.frames));
        }
        rdma_acknowledgements::add_acknowledgements(&mut bars, &transaction.connection, &frames, packets);
        bars.extend(recovery_bars(transaction, packets));
        bars.sort_by_key(|bar| (bar.from, bar.frames.0));
        let possible_recovery = transaction.possible_recovery().map(|evidence| (transaction.direction, evidence));
        Self { bars, possible_recovery }
    }

    /// Returns the time from the first bar to the end of the Reply, because later retransmissions are not part of the
    /// Transaction's time. Without a Reply it ends with the last bar.
    pub fn times(&self) -> Option<(Timestamp, Timestamp)> {
        let first = self.bars.iter().map(|bar| bar.from).min()?;
        let reply = self.bars.iter().find(|bar| bar.kind == WaterfallBarKind::Message(RpcMessageKind::Reply));
        let sent = self.bars.iter().filter(|bar| !matches!(bar.kind, WaterfallBarKind::Nak(_)));
        let last = reply.map(|bar| bar.to).or(sent.map(|bar| bar.to).max())?;
        Some((first, last))
    }
}

/// Sets the size of bars whose frames do not show it, as in a TCP stream, if a chunk has a single bar.
fn fill_chunk_bytes(bars: &mut [WaterfallBar], transaction: &Transaction) {
    let moved = |kind| match kind {
        WaterfallBarKind::Read(chunk) => transaction.read_chunks.get(chunk),
        WaterfallBarKind::Write(chunk) => transaction.write_chunks.get(chunk),
        WaterfallBarKind::ReplyWrite => transaction.reply_chunk.as_ref(),
        WaterfallBarKind::Message(_)
        | WaterfallBarKind::Done
        | WaterfallBarKind::Nak(_)
        | WaterfallBarKind::Recovery => None,
    };
    let kinds: Vec<WaterfallBarKind> = bars.iter().map(|bar| bar.kind).collect();
    for bar in bars.iter_mut().filter(|bar| bar.bytes == 0 && !bar.is_open) {
        if kinds.iter().filter(|kind| **kind == bar.kind).count() == 1 {
            bar.bytes = moved(bar.kind).map_or(0, Chunk::moved_bytes);
        }
    }
}

/// Returns a bar for each time of the phase `recovery`, with the frame that ended it.
fn recovery_bars(
    transaction: &Transaction,
    packets: &FxHashMap<FrameNumber, WaterfallPacket>,
) -> impl Iterator<Item = WaterfallBar> {
    let times = transaction.call.as_ref().zip(transaction.reply.as_ref());
    let times = times.map(|(call, reply)| (call.time, reply.end_time));
    transaction.stalls.iter().filter_map(move |stall| {
        let (start, end) = times?;
        let (from, to) = (stall.since.max(start), stall.until.min(end));
        let end_frame = packets.iter().filter(|(_, packet)| packet.time >= to).map(|(frame, _)| *frame).min()?;
        (from < to).then_some(WaterfallBar {
            kind: WaterfallBarKind::Recovery,
            from,
            to,
            frames: (end_frame, end_frame),
            bytes: 0,
            is_open: false,
            ack: None,
        })
    })
}

fn message_bar(kind: RpcMessageKind, message: &CapturedMessage) -> Option<WaterfallBar> {
    let (first, last) = (*message.frames.first()?, *message.frames.last()?);
    Some(WaterfallBar {
        kind: WaterfallBarKind::Message(kind),
        from: message.time,
        to: message.end_time,
        frames: (first, last),
        bytes: message.length as u64,
        is_open: false,
        ack: None,
    })
}

fn add_event(bars: &mut Vec<WaterfallBar>, step: &TransactionFrame, packet: &WaterfallPacket) {
    let (kind, is_open) = match step.role {
        FrameRole::RequestedRead { chunk } => (WaterfallBarKind::Read(chunk), true),
        FrameRole::MovedChunkData { kind: ChunkKind::Read, chunk } => (WaterfallBarKind::Read(chunk), false),
        FrameRole::MovedChunkData { kind: ChunkKind::Write, chunk } => (WaterfallBarKind::Write(chunk), false),
        FrameRole::MovedChunkData { kind: ChunkKind::Reply, .. } => (WaterfallBarKind::ReplyWrite, false),
        FrameRole::Done => (WaterfallBarKind::Done, false),
    };
    if !is_open {
        // Responses arrive in the order of their requests: one that begins an operation answers the first open request.
        let open_request = bars.iter().position(|bar| bar.kind == kind && bar.is_open);
        let last_transfer = bars.iter().rposition(|bar| bar.kind == kind && !bar.is_open);
        let index = match packet.begins_operation {
            Some(true) => open_request,
            Some(false) => last_transfer,
            None => open_request.or(last_transfer),
        };
        if let Some(bar) = index.and_then(|index| bars.get_mut(index)) {
            return bar.extend(step.frame, packet);
        }
    }
    bars.push(WaterfallBar {
        kind,
        from: packet.time,
        to: packet.time,
        frames: (step.frame, step.frame),
        bytes: if is_open { 0 } else { packet.bytes },
        is_open,
        ack: None,
    });
}
