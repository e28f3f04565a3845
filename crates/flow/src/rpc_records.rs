//! RPC messages from one direction of a TCP stream. RFC 5531 section 11.
//!
//! A record mark has the length of its fragment, so bytes missing inside a fragment affect nothing else. If
//! a mark itself is missing, the next record is searched for by its structure, and the bytes skipped are
//! counted.

use std::collections::VecDeque;
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::net::TcpSequence;
use nfsrdma_dissectors::rpc::record_marking::{self, RecordMark};
use nfsrdma_dissectors::rpc::{self, MsgType, RpcMessageKind, Xid, tls};

use super::count_categories::{EvictedState, UndecodedReason};
use super::frame_kind::FrameContentKind;
use super::iwarp::mpa_recognition::begins_mpa;
use super::missing_byte_ranges::add_gap;
use super::packet_meta::PacketMeta;
use super::record_header_search::{PossibleRecordStart, begins_usual_call};
use super::rpc_transaction_matching::retransmitted_message_packets::record_retransmission;
use super::statistics::FlowDecodingStatistics;
use super::stream::stream_bytes::{StreamBytes, StreamPosition};
use super::stream_parser_context::StreamParserBorrowedFlowState;
use super::transaction::CapturedMessage;
use super::transaction_slab_key::TransactionSlabKey;
use super::transaction_table::TrackedTransactionTable;
use crate::rdma_operation::{CapturedPacketPayload, RdmaAttribution, RetransmissionStall};

/// Protocol that follows the last record on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamProtocolUpgrade {
    /// MPA, which begins with a Request or a Reply frame. RFC 5044 section 7.1.
    Mpa,
    /// TLS. RFC 9289 section 4.1.
    Tls,
}

/// Number of messages remembered to recognize their retransmissions.
const MAX_SENT_RECORDS: usize = 128;

/// Maximum number of frames recorded for one message.
const MAX_RECORD_FRAMES: usize = 1 << 16;

/// Maximum length of the rest of a fragment for which room is made at once, as a multiple of the bytes stored so far.
const MAX_GROWTH: usize = 64;

/// Number of bytes of a message, through the RPC version or the status of a Reply, that show if it can be one.
const RECOGNIZED_BYTES: usize = 12;

/// Number of bytes after which a message is file data, or else part of a long list.
const MAX_HEADER_BYTES: usize = 512;

/// Parser state of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RpcRecordParserState {
    /// Before or in a record mark.
    Mark,
    /// In a fragment.
    Fragment { left: u32, is_last: bool },
    /// At an unknown position: the next record is searched for.
    #[default]
    Lost,
}

/// A message that is not complete yet.
#[derive(Debug)]
struct PartialRpcRecord {
    /// Stream position of its first record mark.
    start: StreamPosition,
    fragments: u32,
    /// `true` if no more of its bytes are stored.
    is_storage_stopped: bool,
    record: CapturedMessage,
}

/// A message that was delivered.
#[derive(Debug)]
struct DeliveredRpcRecord {
    range: Range<StreamPosition>,
    /// `true` if it was a single fragment, so that its bytes are contiguous in the stream.
    is_single_fragment: bool,
    attribution: RdmaAttribution,
}

/// Maximum number of bytes of a partial call that a query returns: its headers, and the arguments before the data.
const MAX_PARTIAL_CALL_BYTES: usize = 16 << 10;

/// A call of which a part is still to come.
#[derive(Debug)]
pub(super) struct PartialCall {
    /// The beginning of the call.
    pub(super) message: CapturedMessage,
    pub(super) received_bytes: u64,
    /// Bytes of the whole call; of its fragments so far, if others follow.
    pub(super) total_bytes: u64,
}

/// Place behind missing bytes up to which records are known.
#[derive(Clone, Copy, Debug)]
struct EarlyRecordBoundary {
    /// Number of the next byte.
    next: TcpSequence,
    /// Bytes of the current fragment that are still to come; 0 before a record mark.
    left: u32,
    is_last: bool,
    /// Message of the current record, if its header was captured.
    message: Option<(Xid, RpcMessageKind)>,
}

/// Record parser of one direction.
#[derive(Debug, Default)]
pub(super) struct CapturedRpcRecordParser {
    state: RpcRecordParserState,
    /// Captured bytes of an incomplete record mark.
    mark_bytes: Vec<u8>,
    partial_record: Option<PartialRpcRecord>,
    /// While a record is searched for: bytes in which one may begin.
    possible_start: PossibleRecordStart,
    /// End of the last segment behind missing bytes. Allocated at the first: most streams lose nothing.
    early_boundary: Option<Box<EarlyRecordBoundary>>,
    /// Sorted by stream position.
    sent_records: VecDeque<DeliveredRpcRecord>,
}

impl CapturedRpcRecordParser {
    /// Expects a record at the next byte.
    pub(super) fn expect_record(&mut self) {
        self.state = RpcRecordParserState::Mark;
    }

    /// Returns `true` if the next bytes continue a fragment whose message header was decoded.
    #[inline]
    pub(super) fn is_within_fragment(&self, length: u32) -> bool {
        matches!(self.state, RpcRecordParserState::Fragment { left, .. } if left >= length)
            && self.partial_record.as_ref().is_some_and(|partial| partial.record.length >= MAX_HEADER_BYTES)
    }

    /// Returns the memory in bytes, without the incomplete message.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.sent_records.capacity() * size_of::<DeliveredRpcRecord>()
    }

    /// Returns the memory of the incomplete message in bytes.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.partial_record.as_ref().map_or(0, |partial| partial.record.heap_bytes_of_message())
    }

    /// Parses the next bytes. Returns those that follow the last record if another protocol begins there.
    pub(super) fn process<'p>(
        &mut self,
        mut stream_bytes: StreamBytes<'p>,
        stream_context: &mut StreamParserBorrowedFlowState<'_>,
    ) -> Option<(StreamProtocolUpgrade, StreamBytes<'p>)> {
        let first = stream_context.frame_kinds.len();
        while stream_bytes.data.length > 0 {
            if let Some(next) = self.next_protocol(&stream_bytes) {
                return Some((next, stream_bytes));
            }
            stream_bytes = match self.state {
                RpcRecordParserState::Mark => self.process_mark(stream_bytes, stream_context),
                RpcRecordParserState::Fragment { left, is_last } => {
                    self.process_fragment(stream_bytes, left, is_last, stream_context)
                }
                RpcRecordParserState::Lost => self.search(stream_bytes, first, stream_context),
            };
        }
        None
    }

    /// Returns the protocol that begins here instead of a record.
    fn next_protocol(&self, stream_bytes: &StreamBytes<'_>) -> Option<StreamProtocolUpgrade> {
        if self.partial_record.is_some() {
            return None;
        }
        let bytes = stream_bytes.data.bytes;
        if begins_mpa(bytes) {
            return Some(StreamProtocolUpgrade::Mpa);
        }
        // The signature of TLS is too short to be searched for anywhere.
        (self.state == RpcRecordParserState::Mark && tls::begins_record(bytes)).then_some(StreamProtocolUpgrade::Tls)
    }

    fn process_mark<'p>(
        &mut self,
        stream_bytes: StreamBytes<'p>,
        stream_context: &mut StreamParserBorrowedFlowState<'_>,
    ) -> StreamBytes<'p> {
        if stream_bytes.data.bytes.is_empty() && self.mark_bytes.is_empty() && self.partial_record.is_none() {
            // The record that would begin here was not captured.
            self.state = RpcRecordParserState::Lost;
            return stream_bytes;
        }
        let start = stream_bytes.at - self.mark_bytes.len() as u64;
        let missing_bytes = RecordMark::LENGTH - self.mark_bytes.len();
        let available = stream_bytes.data.bytes.get(..missing_bytes).unwrap_or(stream_bytes.data.bytes);
        self.mark_bytes.extend_from_slice(available);
        let rest = stream_bytes.after(available.len() as u32);
        let partial = self.partial_record.get_or_insert_with(|| PartialRpcRecord::new(start, stream_bytes.meta.time));
        partial.record_frame(&stream_bytes.meta);
        if available.len() < missing_bytes {
            if rest.data.length > 0 {
                self.lose_sync(stream_context);
            } else {
                stream_context.frame_kinds.push(FrameContentKind::PartialMessage);
            }
            return rest;
        }
        let mark = RecordMark::from_bytes(&self.mark_bytes);
        self.mark_bytes.clear();
        let record_length = |mark: &RecordMark| partial.record.length as u64 + u64::from(mark.length);
        let Some(mark) = mark.filter(|mark| record_length(mark) <= u64::from(record_marking::MAX_RECORD_BYTES)) else {
            self.partial_record = None;
            stream_context.count_undecoded(UndecodedReason::NotRpc, stream_bytes.meta);
            self.lose_sync(stream_context);
            return rest;
        };
        partial.fragments += 1;
        self.state = RpcRecordParserState::Fragment { left: mark.length, is_last: mark.is_last };
        if mark.length == 0 {
            self.end_fragment(rest.at, mark.is_last, stream_context);
        } else if rest.data.length == 0 {
            stream_context.frame_kinds.push(FrameContentKind::PartialMessage);
        }
        rest
    }

    fn process_fragment<'p>(
        &mut self,
        stream_bytes: StreamBytes<'p>,
        left: u32,
        is_last: bool,
        stream_context: &mut StreamParserBorrowedFlowState<'_>,
    ) -> StreamBytes<'p> {
        let fragment = stream_bytes.within(0..left);
        let rest = stream_bytes.after(fragment.data.length);
        let remaining_bytes = left - fragment.data.length;
        if let Some(partial) = &mut self.partial_record {
            let is_recognized = partial.record.bytes.len() >= RECOGNIZED_BYTES;
            partial.add(&fragment, left);
            if !is_recognized && !partial.may_be_rpc() {
                self.partial_record = None;
                stream_context.count_undecoded(UndecodedReason::NotRpc, stream_bytes.meta);
                self.lose_sync(stream_context);
                return rest;
            }
        }
        self.state = RpcRecordParserState::Fragment { left: remaining_bytes, is_last };
        if remaining_bytes == 0 {
            self.end_fragment(rest.at, is_last, stream_context);
        } else if !stream_bytes.meta.frames.is_empty() {
            stream_context.frame_kinds.push(FrameContentKind::PartialMessage);
        }
        rest
    }

    fn end_fragment(
        &mut self,
        end: StreamPosition,
        is_last: bool,
        stream_context: &mut StreamParserBorrowedFlowState<'_>,
    ) {
        self.state = RpcRecordParserState::Mark;
        if is_last {
            self.deliver(end, stream_context);
        } else {
            stream_context.frame_kinds.push(FrameContentKind::PartialMessage);
        }
    }

    /// Delivers the message as far as it was captured.
    fn deliver(&mut self, end: StreamPosition, stream_context: &mut StreamParserBorrowedFlowState<'_>) {
        let Some(partial) = self.partial_record.take() else { return };
        let (range, is_whole) = (partial.start..end, partial.fragments == 1);
        let mut record = partial.record;
        record.frames.sort_unstable();
        record.frames.dedup();
        record.frames.shrink_to_fit();
        let last = [record.frames.last().copied().unwrap_or_default()];
        let packet_meta = PacketMeta::new(&last, record.end_time);
        let (conversation, mut context) = stream_context.rpc_context(&packet_meta);
        let (content, owner) = conversation.handle_plain_message(&mut context, record);
        stream_context.frame_kinds.push(content);
        if self.sent_records.len() >= MAX_SENT_RECORDS {
            self.sent_records.pop_front();
        }
        self.sent_records.push_back(DeliveredRpcRecord { range, is_single_fragment: is_whole, attribution: owner });
    }

    /// Enters the search state: the start of the next record is unknown.
    fn lose_sync(&mut self, stream_context: &mut StreamParserBorrowedFlowState<'_>) {
        self.mark_bytes.clear();
        let state = std::mem::take(&mut self.state);
        if let Some(partial) = &mut self.partial_record {
            let missing = match state {
                RpcRecordParserState::Fragment { left, is_last: true } => u64::from(left),
                // At least one byte of the following fragments; their length is unknown.
                RpcRecordParserState::Fragment { left, is_last: false } => u64::from(left) + 1,
                RpcRecordParserState::Mark | RpcRecordParserState::Lost => 1,
            };
            partial.add_gap(missing);
            let end = partial.start + partial.record.length as u64;
            self.deliver(end, stream_context);
        }
    }

    /// Returns the incomplete message if it is a call, with its position in the stream.
    pub(super) fn partial_call(&self) -> Option<(StreamPosition, PartialCall)> {
        let PartialRpcRecord { start, record, .. } = self.partial_record.as_ref()?;
        if record.bytes.get(4..8) != Some(&[0; 4]) {
            return None;
        }
        let left = match self.state {
            RpcRecordParserState::Fragment { left, .. } => u64::from(left),
            RpcRecordParserState::Mark | RpcRecordParserState::Lost => 0,
        };
        let total_bytes = record.length as u64 + left;
        let bytes = record.bytes.get(..MAX_PARTIAL_CALL_BYTES).unwrap_or(&record.bytes).to_vec();
        let message = CapturedMessage::plain(record.frames.clone(), record.time, bytes, total_bytes as usize);
        let message = CapturedMessage { end_time: record.end_time, ..message };
        Some((*start, PartialCall { message, received_bytes: record.length as u64, total_bytes }))
    }

    /// Delivers the incomplete message: nothing more will come.
    pub(super) fn finish(&mut self, stream_context: &mut StreamParserBorrowedFlowState<'_>) {
        self.lose_sync(stream_context);
        stream_context.count_without_record(&self.possible_start.clear());
    }

    /// Stops storing bytes of the incomplete message, because a memory limit was reached.
    pub(super) fn stop_storing(&mut self, stats: &mut FlowDecodingStatistics) {
        if let Some(partial) = &mut self.partial_record
            && !std::mem::replace(&mut partial.is_storage_stopped, true)
        {
            stats.count_evicted(EvictedState::MessageParts);
        }
    }

    /// Searches for the start of a record. Within unknown bytes, a Reply must answer a known Call. The meanings
    /// of the current piece begin at index `first`.
    #[cold]
    fn search<'p>(
        &mut self,
        stream_bytes: StreamBytes<'p>,
        first: usize,
        stream_context: &mut StreamParserBorrowedFlowState<'_>,
    ) -> StreamBytes<'p> {
        let bytes = stream_bytes.data.bytes;
        let is_matching_reply = |bytes: &[u8]| {
            let reply = rpc::recognize_record(bytes).filter(|message| message.mtype == MsgType::REPLY);
            reply.is_some_and(|reply| {
                stream_context.conversation.has_transaction(stream_context.sender.peer(), reply.xid)
            })
        };
        let begun = self
            .possible_start
            .take_record(&stream_bytes, |bytes| begins_usual_call(bytes) || is_matching_reply(bytes));
        if let Some((ends, without_record)) = begun {
            stream_context.count_without_record(&without_record);
            self.state = RpcRecordParserState::Mark;
            let preceding = stream_context.frame_kinds.len();
            for end in &ends {
                self.process(end.to_stream_bytes(), stream_context);
            }
            // They are the meanings of earlier frames.
            stream_context.frame_kinds.truncate(preceding);
            return stream_bytes;
        }
        let begins_record = |at: &usize| match bytes.get(*at..).unwrap_or_default() {
            bytes if *at == 0 => rpc::recognize_record(bytes).is_some_and(|message| message.is_usual),
            bytes => rpc::recognize_call_record(bytes).is_some() || is_matching_reply(bytes),
        };
        let start = (0..bytes.len()).find(begins_record);
        let mut skipped = start.map_or(stream_bytes.data.length, |at| at as u32);
        let without_record = match start {
            Some(_) => {
                self.state = RpcRecordParserState::Mark;
                self.possible_start.clear()
            }
            None => {
                let is_all = stream_context.frame_kinds.len() == first;
                let (kept, without_record) = self.possible_start.keep(&stream_bytes, is_all);
                if kept == skipped {
                    stream_context.frame_kinds.push(FrameContentKind::PartialMessage);
                }
                skipped -= kept;
                without_record
            }
        };
        stream_context.count_without_record(&without_record);
        if skipped > 0 {
            stream_context.count_skipped(
                skipped,
                stream_bytes.meta,
                start.is_none() && stream_context.frame_kinds.len() == first,
            );
        }
        stream_bytes.after(start.map_or(stream_bytes.data.length, |at| at as u32))
    }

    /// Determines the messages that a segment behind missing bytes completes. `expected` is the number of the next byte
    /// to parse. A record is known by the length of the fragment in which bytes are missing, by the segment before, or by
    /// its structure at the start of a segment.
    pub(super) fn find_early_messages(
        &mut self,
        expected: TcpSequence,
        first: TcpSequence,
        data: CapturedPacketPayload<'_>,
        frame_kinds: &mut Vec<FrameContentKind>,
    ) {
        let left = match self.state {
            RpcRecordParserState::Fragment { left, .. } => left,
            RpcRecordParserState::Mark | RpcRecordParserState::Lost => 0,
        };
        // Bytes of the fragment that is being parsed, of which others are missing.
        let unfinished = u32::try_from(first.distance(expected.add(left))).unwrap_or(0);
        let known = self.early_boundary.as_deref().copied().filter(|known| known.next == first);
        let mut boundary = match known {
            Some(known) if unfinished == 0 => known,
            _ => EarlyRecordBoundary { next: first, left: unfinished, is_last: false, message: None },
        };
        let is_known = boundary.advance(data, frame_kinds);
        if !is_known || boundary.left > 0 || boundary.message.is_some() {
            frame_kinds.push(FrameContentKind::PartialMessage);
        }
        match &mut self.early_boundary {
            Some(known) if is_known => **known = boundary,
            early_boundary => *early_boundary = is_known.then(|| Box::new(boundary)),
        }
    }

    /// Handles a retransmission of bytes that were parsed before.
    pub(super) fn process_retransmission(
        &mut self,
        stream_bytes: &StreamBytes<'_>,
        stream_context: &mut StreamParserBorrowedFlowState<'_>,
    ) {
        let range = stream_bytes.range();
        let mut is_known = false;
        if let Some(partial) = &mut self.partial_record
            && range.end > partial.start
        {
            partial.record_frame(&stream_bytes.meta);
            stream_context.frame_kinds.push(FrameContentKind::PartialMessage);
            is_known = true;
        }
        let from = self.sent_records.partition_point(|sent| sent.range.end <= range.start);
        for sent in self.sent_records.range(from..).take_while(|sent| sent.range.start < range.end) {
            is_known = true;
            if sent.differs_from_copy(stream_bytes, stream_context.transaction_table) {
                stream_context.stats.count_undecoded_frames(UndecodedReason::Contradiction, 1);
            }
            let ends = range.contains(&(sent.range.end - 1));
            let (_, mut context) = stream_context.rpc_context(&stream_bytes.meta);
            let content = record_retransmission(&mut context, sent.attribution, ends, UndecodedReason::NotRpc);
            stream_context.frame_kinds.push(content);
        }
        if !is_known {
            stream_context.count_undecoded(UndecodedReason::LateCopy, stream_bytes.meta);
        }
    }
}

impl EarlyRecordBoundary {
    /// Advances behind the bytes of a segment, and adds each message that they complete. Returns `false` if no record is
    /// recognized where one begins.
    fn advance(&mut self, data: CapturedPacketPayload<'_>, frame_kinds: &mut Vec<FrameContentKind>) -> bool {
        let mut at = 0;
        while at < data.length {
            if self.left == 0 {
                let bytes = data.bytes.get(at as usize..).unwrap_or_default();
                let Some(mark) = RecordMark::from_bytes(bytes) else { return false };
                // The following fragments of a record have no header.
                if self.message.is_none() {
                    let message = rpc::recognize_record(bytes).filter(|message| message.is_usual);
                    let Some(message) = message else { return false };
                    let which = match message.mtype {
                        MsgType::CALL => RpcMessageKind::Call,
                        _ => RpcMessageKind::Reply,
                    };
                    self.message = Some((message.xid, which));
                }
                (self.left, self.is_last) = (mark.length, mark.is_last);
                at += RecordMark::LENGTH as u32;
            }
            let step = self.left.min(data.length.saturating_sub(at));
            (self.left, at) = (self.left - step, at + step);
            if self.left == 0 && self.is_last {
                let message = self.message.take();
                frame_kinds.extend(message.map(|(xid, which)| FrameContentKind::EarlyMessage { xid, which }));
            }
        }
        self.next = self.next.add(data.length);
        true
    }
}

impl DeliveredRpcRecord {
    /// Returns `true` if the retransmitted bytes differ from the first copy.
    fn differs_from_copy(&self, copy: &StreamBytes<'_>, transactions: &TrackedTransactionTable) -> bool {
        let Some((key, at)) =
            TransactionSlabKey::from_attribution(self.attribution).filter(|_| self.is_single_fragment)
        else {
            return false;
        };
        let message = transactions.get(key).and_then(|entry| entry.transaction.message(at.message_kind()?));
        let Some(message) = message else { return false };
        let data_start = self.range.start + RecordMark::LENGTH as u64;
        let stored = message.bytes.get(copy.at.saturating_sub(data_start) as usize..).unwrap_or_default();
        let copied = copy.data.bytes.get(data_start.saturating_sub(copy.at) as usize..).unwrap_or_default();
        stored.iter().zip(copied).any(|(stored, copied)| stored != copied)
    }
}

impl PartialRpcRecord {
    fn new(start: StreamPosition, time: Timestamp) -> Self {
        let record = CapturedMessage::plain(Vec::new(), time, Vec::new(), 0);
        Self { start, fragments: 0, is_storage_stopped: false, record }
    }

    fn record_frame(&mut self, packet_meta: &PacketMeta<'_>) {
        let Self { record, .. } = self;
        if packet_meta.frames.is_empty() {
            return;
        }
        if !packet_meta.is_duplicate() {
            // For a retransmission, the wait began with the bytes before it.
            let stall_start = |time| if time == Timestamp(i64::MIN) { record.end_time } else { time };
            let stall =
                packet_meta.stall().map(|stall| RetransmissionStall { since: stall_start(stall.since), ..stall });
            record.stall = RetransmissionStall::span(record.stall, stall);
            record.time = record.time.min(packet_meta.time);
            record.end_time = record.end_time.max(packet_meta.accepted_time());
        }
        if record.frames.len() < MAX_RECORD_FRAMES && record.frames.last() != packet_meta.frames.last() {
            record.frames.extend_from_slice(packet_meta.frames);
        }
    }

    /// Adds bytes of a fragment, of which `left` bytes are still to come with these.
    fn add(&mut self, fragment: &StreamBytes<'_>, left: u32) {
        self.record_frame(&fragment.meta);
        let (bytes, length) = (fragment.data.bytes, fragment.data.length as usize);
        if self.is_storage_stopped {
            self.add_gap(length as u64);
            return;
        }
        // Bytes after a gap were captured, but cannot be decoded.
        if self.record.gaps.is_empty() {
            let stored = &mut self.record.bytes;
            if stored.capacity() - stored.len() < bytes.len() {
                // A vector that only doubles copies its bytes again and again.
                let rest = (left as usize).min(MAX_GROWTH * stored.len());
                stored.reserve_exact(rest.max(bytes.len()));
            }
            stored.extend_from_slice(bytes);
        }
        self.record.length += bytes.len();
        self.add_gap((length - bytes.len()) as u64);
    }

    fn add_gap(&mut self, bytes: u64) {
        let from = self.record.length as u64;
        add_gap(&mut self.record.gaps, from..from + bytes);
        self.record.length += bytes as usize;
    }

    /// Returns `true` if it can be an RPC message: a Call, with a small RPC version, or a Reply, accepted or denied.
    /// RFC 5531 section 9.
    fn may_be_rpc(&self) -> bool {
        match *self.record.bytes.get(4..).unwrap_or_default() {
            [0, 0, 0, 0, 0, 0, 0, version, ..] => (1..16).contains(&version),
            [0, 0, 0, 1, 0, 0, 0, status, ..] => status <= 1,
            [_, _, _, _, _, _, _, _, ..] => false,
            [a, b, c, mtype, ..] => [a, b, c] == [0; 3] && mtype <= 1,
            _ => true,
        }
    }
}
