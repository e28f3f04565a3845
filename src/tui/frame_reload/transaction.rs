//! A Transaction or a frame, read again with all its bytes.

use nfsrdma_capture_file::CaptureResumePoint;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::net::{InnermostNetworkPacket, NetworkLayerPayload};
use nfsrdma_flow::transaction::{RpcMessageKind, Transaction, TransactionConnection};
use nfsrdma_flow::{Flow, FrameContentKind, TransactionFrame, TransactionSlabKey};
use rustc_hash::FxHashMap;

use super::detail_subject::{DetailSubject, TransactionReloadKey};
use super::rdma_acknowledgements::{ReliableConnectionPacket, WaterfallPacket};
use super::reload_messages::DetailPaneContent;
use super::reload_worker::{FrameReloadWorker, STALE_CHECK_FRAMES};
use super::waterfall::TransactionWaterfall;
use crate::output::tree::frame_store::FrameStore;
use crate::output::tree::lines::TreeLineByteSource;
use crate::output::tree::transaction::FieldTreeTextWriter;
use crate::tui::retained_live_frames::OwnedFrame;

/// Number of preceding frames read as context: they associate queue pairs with connections, and contain the beginnings
/// of messages.
const CONTEXT_FRAMES: u64 = 4096;
/// Number of frames after the last one in which its acknowledgement is searched for.
const ACK_SEARCH_FRAMES: u64 = 64;
/// Maximum size of the frames kept, in bytes.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// Maximum number of packets kept for the waterfall.
const MAX_PACKETS: usize = 1 << 20;

/// Kept frames, by number.
#[derive(Debug, Default)]
struct ReloadedFrames {
    frames: FxHashMap<FrameNumber, OwnedFrame>,
    bytes: usize,
}

impl ReloadedFrames {
    fn keep(&mut self, frame: &Frame<'_>) {
        if self.bytes + frame.bytes.len() <= MAX_KEPT_BYTES {
            self.bytes += frame.bytes.len();
            self.frames.insert(frame.number, OwnedFrame::from_frame(frame));
        }
    }
}

impl FrameStore for ReloadedFrames {
    fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        self.frames.get(&number).map(OwnedFrame::frame)
    }
}

/// The result of a search for a Transaction.
enum TransactionReloadOutcome {
    Found(Box<ReloadedTransaction>),
    /// No Transaction matches the row.
    NotFound,
    /// Another request has priority.
    Superseded,
}

struct ReloadedTransaction {
    transaction: Box<Transaction>,
    steps: Vec<TransactionFrame>,
    packets: FxHashMap<FrameNumber, WaterfallPacket>,
    frames: ReloadedFrames,
}

impl FrameReloadWorker {
    /// Reads a subject; `None` if another request has priority.
    pub(super) fn detail(&mut self, subject: DetailSubject) -> Option<DetailPaneContent> {
        let key = match subject {
            DetailSubject::Transaction(key) => key,
            DetailSubject::Frame(number) => return self.frame_detail(number),
        };
        let resume_point = self.resume_point_before(key.first, CONTEXT_FRAMES);
        let mut outcome = TransactionReloadOutcome::NotFound;
        for resume_point in resume_point.map(Some).into_iter().chain([None]) {
            outcome = self.find_transaction(key, resume_point);
            if !matches!(outcome, TransactionReloadOutcome::NotFound) {
                break;
            }
        }
        match outcome {
            TransactionReloadOutcome::Found(reloaded) => Some(self.build_detail(key, *reloaded)),
            TransactionReloadOutcome::Superseded => None,
            TransactionReloadOutcome::NotFound if self.capture.is_received_once() => {
                Some(DetailPaneContent::missing(subject, "its frames are no longer in memory (--max-memory)"))
            }
            TransactionReloadOutcome::NotFound => {
                Some(DetailPaneContent::missing(subject, "the capture file changed while it was open"))
            }
        }
    }

    /// Reads from `resume_point` until the Transaction is found. The search ends shortly after its last frame, except
    /// when a file is read from the start.
    fn find_transaction(
        &mut self,
        wanted: TransactionReloadKey,
        resume_point: Option<CaptureResumePoint>,
    ) -> TransactionReloadOutcome {
        let Ok(mut frames) = self.capture.reread(resume_point) else {
            return TransactionReloadOutcome::NotFound;
        };
        let from_start = resume_point.is_none() && !self.capture.is_received_once();
        let mut flow = Flow::new(self.limits.clone());
        let mut steps: FxHashMap<TransactionSlabKey, Vec<TransactionFrame>> = FxHashMap::default();
        let mut packets = FxHashMap::default();
        let mut kept_frames = ReloadedFrames::default();
        let mut count = 0;
        loop {
            let frame = frames.next();
            let is_over = match frame {
                Some(frame) => {
                    count += 1;
                    let number = frame.number;
                    let is_near = number >= wanted.first && number <= wanted.last;
                    let (datagram, _) = flow.process_frame_observed(&frame, &mut NullFieldObserver);
                    if is_near {
                        kept_frames.keep(&frame);
                    }
                    let is_behind = number > wanted.last && number.0 <= wanted.last.0 + ACK_SEARCH_FRAMES;
                    if (is_near || is_behind) && packets.len() < MAX_PACKETS {
                        packets.insert(number, waterfall_packet(&frame, &datagram));
                    }
                    for step in flow.transaction_frames().iter().filter(|step| step.frame >= wanted.first) {
                        steps.entry(step.key).or_default().push(*step);
                    }
                    !from_start && number.0 >= wanted.last.0 + ACK_SEARCH_FRAMES
                }
                None => true,
            };
            if is_over {
                flow.finish();
            }
            while let Some((key, transaction)) = flow.next_with_key() {
                if wanted.matches(&transaction) {
                    let steps = steps.remove(&key).unwrap_or_default();
                    return TransactionReloadOutcome::Found(Box::new(ReloadedTransaction {
                        transaction,
                        steps,
                        packets,
                        frames: kept_frames,
                    }));
                }
                steps.remove(&key);
            }
            if is_over {
                return TransactionReloadOutcome::NotFound;
            }
            if count % STALE_CHECK_FRAMES == 0 && self.is_superseded() {
                return TransactionReloadOutcome::Superseded;
            }
        }
    }

    /// Builds the details.
    fn build_detail(&mut self, key: TransactionReloadKey, reloaded: ReloadedTransaction) -> DetailPaneContent {
        let ReloadedTransaction { mut transaction, steps, packets, frames: held } = reloaded;
        transaction.index = if key.is_pending() { 0 } else { key.index };
        transaction.connection = TransactionConnection { number: key.connection, ..transaction.connection };
        let mut view = FieldTreeTextWriter::new(self.screen).with_literals();
        let transaction = &transaction;
        let findings = self.manner.findings.as_ref().map(|findings| findings.of(key.index)).unwrap_or_default();
        let lines = self.names.look_up(|names| {
            transaction.with_messages(|messages| {
                let summary = messages.summary();
                names.resolve(transaction, messages, &summary);
                view.transaction_lines(transaction, messages, &summary, names, &findings, &held).to_vec()
            })
        });
        let mut bytes: FxHashMap<TreeLineByteSource, Vec<u8>> = FxHashMap::default();
        for line in &lines {
            if bytes.contains_key(&line.origin) {
                continue;
            }
            let source = match line.origin {
                TreeLineByteSource::Nothing => continue,
                TreeLineByteSource::Frame(number) => held.frame(number).map(|frame| frame.bytes.to_vec()),
                TreeLineByteSource::Message(kind) => transaction.message(kind).map(|message| message.bytes.clone()),
                TreeLineByteSource::Chunk(kind) => FieldTreeTextWriter::message_chunk_content(transaction, kind),
            };
            bytes.insert(line.origin, source.unwrap_or_default());
        }
        let mut frames: Vec<FrameNumber> = steps.iter().map(|step| step.frame).collect();
        for message in
            [RpcMessageKind::Call, RpcMessageKind::Reply].into_iter().filter_map(|kind| transaction.message(kind))
        {
            frames.extend(&message.frames);
        }
        frames.sort_unstable();
        frames.dedup();
        DetailPaneContent {
            subject: DetailSubject::Transaction(key),
            lines,
            bytes,
            waterfall: TransactionWaterfall::from_events(transaction, &steps, &packets),
            frames,
            problem: None,
        }
    }

    fn frame_detail(&mut self, number: FrameNumber) -> Option<DetailPaneContent> {
        let subject = DetailSubject::Frame(number);
        let mut frames = self.capture.reread(self.resume_point_before(number, CONTEXT_FRAMES)).ok()?;
        let mut flow = Flow::new(self.limits.clone());
        let mut count = 0;
        while let Some(frame) = frames.next() {
            flow.process_frame(&frame);
            count += 1;
            if frame.number == number {
                let mut view = FieldTreeTextWriter::new(self.screen).with_literals();
                let lines = self.names.look_up(|names| view.frame_lines(&frame, &flow, names).to_vec());
                let mut bytes: FxHashMap<TreeLineByteSource, Vec<u8>> = FxHashMap::default();
                bytes.insert(TreeLineByteSource::Frame(number), frame.bytes.to_vec());
                for content in flow.frame_kinds() {
                    if let FrameContentKind::Message { key, which } | FrameContentKind::Retransmission { key, which } =
                        *content
                        && let Some(transaction) = flow.transaction(key)
                    {
                        let message = transaction.message(which);
                        let inline = message.map(|message| message.bytes.clone()).unwrap_or_default();
                        bytes.entry(TreeLineByteSource::Message(which)).or_insert(inline);
                        let content =
                            FieldTreeTextWriter::message_chunk_content(transaction, which).unwrap_or_default();
                        bytes.entry(TreeLineByteSource::Chunk(which)).or_insert(content);
                    }
                }
                let frames = vec![number];
                let waterfall = TransactionWaterfall::default();
                return Some(DetailPaneContent { subject, lines, bytes, waterfall, frames, problem: None });
            }
            if frame.number > number {
                break;
            }
            while flow.next_transaction().is_some() {}
            if count % STALE_CHECK_FRAMES == 0 && self.is_superseded() {
                return None;
            }
        }
        Some(DetailPaneContent::missing(subject, "the frame is no longer in memory"))
    }
}

/// Returns the data of a frame for the waterfall.
fn waterfall_packet(frame: &Frame<'_>, datagram: &InnermostNetworkPacket<'_>) -> WaterfallPacket {
    let (begins_operation, bytes) = match &datagram.payload {
        NetworkLayerPayload::Infiniband(packet) => {
            (Some(packet.properties.position.begins()), packet.payload.length as u64)
        }
        _ => (None, 0),
    };
    WaterfallPacket {
        time: frame.time,
        begins_operation,
        bytes,
        reliable: ReliableConnectionPacket::from_datagram(datagram),
    }
}
