//! Messages of one direction: segments become RDMA operations. RFC 5041 section 5; RFC 5040 section 5.
//!
//! A stream yields segments in the order in which they were sent, so one message is reassembled at a time;
//! its missing parts will not arrive once the next message begins.

use std::collections::VecDeque;
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{CapturedSlice, FrameNumber, Timestamp};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::iwarp::crc::RunningFpduCrc;
use nfsrdma_dissectors::iwarp::ddp::{DdpMessageSequenceNumber, DdpQueueNumber};
use nfsrdma_dissectors::iwarp::mpa::FpduHeader;
use nfsrdma_dissectors::iwarp::rdmap::{RdmapOpcode, RdmapReadRequestHeader, RdmapTerminate};
use nfsrdma_dissectors::iwarp::{DdpSegment, DdpSegmentDestination};
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::xdr::roundup;

use super::ddp_segment_payload::DdpSegmentPayload;
use super::events::{IwarpEvent, IwarpEventSink};
use super::outstanding_rdma_read::OutstandingRdmaRead;
use super::segment_faults::{DdpSegmentOrder, QUEUES};
use crate::count_categories::UndecodedReason;
use crate::exceptional_transport_events::{RdmapFault, TransportAnomalyKind};
use crate::missing_byte_ranges::add_gap;
use crate::packet_meta::PacketMeta;
use crate::rdma_operation::{
    OwnedRdmaSendMessage, RdmaAttribution, RdmaOperation, RdmaSendMessage, RetransmissionStall,
};
use crate::stream::stream_bytes::StreamPosition;

/// Maximum number of RDMA Reads that wait for their responses: more than any sender has outstanding.
const MAX_OUTSTANDING_READS: usize = 256;
/// Number of messages remembered to recognize their retransmissions.
const MAX_SENT_MESSAGES: usize = 128;
/// Maximum number of bytes reassembled of one message; no inline threshold is larger.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of allocated memory kept for the next message: usually an inline threshold.
const RETAINED_CAPACITY_BYTES: usize = 16 << 10;
/// Maximum number of frames recorded for one incomplete message.
const MAX_MESSAGE_FRAMES: usize = 4096;

/// A delivered message.
#[derive(Debug)]
struct DeliveredRdmapSend {
    range: Range<StreamPosition>,
    number: DdpMessageSequenceNumber,
    /// Memory of the last tagged segment before it.
    after: Option<Handle>,
    /// Length of the trailer of its last FPDU: pad and CRC.
    trailer_bytes: u8,
    attribution: RdmaAttribution,
}

/// Consecutive FPDUs with data of one memory segment.
#[derive(Debug)]
struct TaggedFpduRun {
    /// Positions from the first header to the last trailer.
    range: Range<StreamPosition>,
    attribution: RdmaAttribution,
}

/// Bytes before the payload of a tagged FPDU, without markers: ULPDU Length (RFC 5044 section 4), DDP and RDMAP
/// control, STag and tagged offset (RFC 5041 section 4.2).
const TAGGED_HEADER_BYTES: u64 = 16;

/// The same with a marker (RFC 5044 section 4.3). No untagged FPDU with a header of RPC-over-RDMA is that short.
const MAX_TAGGED_HEADER_BYTES: u64 = TAGGED_HEADER_BYTES + 4;

/// An RDMA Write that is not complete yet.
#[derive(Debug)]
pub(super) struct IwarpOngoingRdmaWrite {
    stag: Handle,
    /// Offset of its next bytes.
    next_offset: u64,
    attribution: RdmaAttribution,
}

/// Reassembly of a Send.
#[derive(Debug, Default)]
struct IwarpSendReassembly {
    message_number: DdpMessageSequenceNumber,
    message: OwnedRdmaSendMessage,
    range: Range<StreamPosition>,
    /// Length of the trailer after the last FPDU.
    trailer_bytes: u8,
    is_open: bool,
    /// `true` if a snap length truncated it.
    is_cut: bool,
}

impl IwarpSendReassembly {
    fn begin(&mut self, number: DdpMessageSequenceNumber, at: StreamPosition, time: Timestamp) {
        let OwnedRdmaSendMessage { bytes, gaps, frames, .. } = std::mem::take(&mut self.message);
        self.message = OwnedRdmaSendMessage { bytes, gaps, frames, time, end_time: time, ..Default::default() };
        self.clear();
        (self.message_number, self.range, self.is_open, self.is_cut) = (number, at..at, true, false);
    }

    fn clear(&mut self) {
        self.message.bytes.clear();
        self.message.gaps.clear();
        self.message.frames.clear();
    }

    /// Frees memory that few messages need.
    fn shrink(&mut self) {
        self.clear();
        self.message.bytes.shrink_to(RETAINED_CAPACITY_BYTES);
        self.message.gaps.shrink_to(RETAINED_CAPACITY_BYTES / size_of::<Range<u64>>());
        self.message.frames.shrink_to(RETAINED_CAPACITY_BYTES / size_of::<FrameNumber>());
    }

    /// Appends the next bytes, or bytes after a gap.
    fn add(&mut self, offset: u64, payload: &DdpSegmentPayload<'_>) {
        let DdpSegmentPayload { data, meta: packet_meta, range, .. } = payload;
        let message = &mut self.message;
        if offset < message.length as u64 {
            return;
        }
        add_gap(&mut message.gaps, message.length as u64..offset);
        let free_bytes = MAX_MESSAGE_BYTES.saturating_sub(message.bytes.len());
        let captured = data.bytes.get(..free_bytes).unwrap_or(data.bytes);
        if message.gaps.is_empty() {
            message.bytes.extend_from_slice(captured);
        }
        let end = offset + u64::from(data.length);
        add_gap(&mut message.gaps, offset + captured.len() as u64..end);
        message.length = usize::try_from(end).unwrap_or(usize::MAX);
        // Every segment of the message names the handle (RFC 5040 section 5.3).
        message.invalidated_handle = message.invalidated_handle.or(payload.segment.invalidate);
        if payload.was_captured() {
            self.is_cut |= data.bytes.len() < data.length as usize;
            message.end_time = payload.times.last.max(packet_meta.accepted_time());
            message.stall = RetransmissionStall::span(message.stall, packet_meta.stall());
        }
        self.add_frames(packet_meta);
        self.range.end = range.end;
        self.trailer_bytes = trailer_bytes(payload);
    }

    /// Records a retransmission of bytes that the receiver lacked: it waited since the bytes before it.
    fn record_needed_copy(&mut self, packet_meta: &PacketMeta<'_>) {
        let message = &mut self.message;
        if let Some(stall) = packet_meta.stall().filter(|_| !packet_meta.is_duplicate()) {
            let stall = RetransmissionStall { since: stall.since.max(message.end_time), ..stall };
            message.stall = RetransmissionStall::span(message.stall, Some(stall));
            message.end_time = message.end_time.max(packet_meta.accepted_time());
        }
    }

    fn add_frames(&mut self, packet_meta: &PacketMeta<'_>) {
        let frames = &mut self.message.frames;
        for frame in packet_meta.frames {
            if frames.last() != Some(frame) && frames.len() < MAX_MESSAGE_FRAMES {
                frames.push(*frame);
            }
        }
    }
}

/// Longest header of a message without payload: that of a Read Request.
const MAX_HEADER_BYTES: usize = RdmapReadRequestHeader::LENGTH;

/// A tagged segment.
#[derive(Clone, Copy, Debug)]
struct LastTaggedSegment {
    stag: Handle,
    /// Low 32 bits of the offset of the bytes that continue it.
    next_offset: u32,
    start: StreamPosition,
}

/// The end of a ULPDU and its padding: the last four bytes as a big-endian number, unless some were not captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct FpduTail(Option<u32>);

impl FpduTail {
    pub(super) const UNKNOWN: Self = Self(None);
    pub(super) const EMPTY: Self = Self(Some(0));

    /// Adds the bytes that follow.
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let Some(before) = self.0 else { return };
        self.0 = Some(match bytes.last_chunk() {
            Some(last) => u32::from_be_bytes(*last),
            None => bytes.iter().fold(before, |tail, byte| tail << 8 | u32::from(*byte)),
        });
    }

    /// Returns the last bytes, at most three, as a big-endian number.
    pub(super) fn last(self, count: usize) -> Option<u32> {
        let mask = !(u32::MAX << (8 * count.min(3)));
        self.0.map(|tail| tail & mask)
    }
}

/// An FPDU whose headers were decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecodedFpdu {
    pub(super) segment: DdpSegment,
    pub(super) header: FpduHeader,
    /// Unknown before it ends.
    pub(super) tail: FpduTail,
    pub(super) start: StreamPosition,
    /// Frame of its header.
    pub(super) frame: FrameNumber,
    pub(super) time: Timestamp,
}

impl DecodedFpdu {
    /// Returns the length in bytes of a ULPDU that ends this much later or earlier in the same FPDU, unless its padding
    /// would not be zero: RFC 5044 section 4.1.
    pub(super) fn other_length(&self, change: i64) -> Option<u16> {
        let ulpdu_length = u16::try_from(i64::from(self.header.ulpdu_length).checked_add(change)?).ok()?;
        let other = FpduHeader { ulpdu_length };
        (change != 0
            && other.fpdu_length() == self.header.fpdu_length()
            && self.tail.last(other.pad()).is_none_or(|pad| pad == 0))
        .then_some(ulpdu_length)
    }

    /// Returns the length in bytes of the ULPDU with which its message, of `length` bytes, has as many as it must have;
    /// `None` for a message with the roundup of its data, which a sender may have added.
    pub(super) fn length_of_message(&self, length: u64, expected: u64) -> Option<u16> {
        let has_roundup = length > expected && length.is_multiple_of(4);
        self.other_length(expected.wrapping_sub(length) as i64).filter(|_| !has_roundup)
    }

    /// Returns the end of its payload, which begins at an offset.
    pub(super) fn end_of(&self, offset: u64) -> u64 {
        let payload_length = u64::from(self.header.ulpdu_length).saturating_sub(self.segment.header_length() as u64);
        offset.wrapping_add(payload_length)
    }
}

/// Deviation of an FPDU that counts if its length is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnconfirmedFault {
    pub(super) fault: RdmapFault,
    pub(super) frame: FrameNumber,
    pub(super) time: Timestamp,
}

impl UnconfirmedFault {
    pub(super) fn new(fault: RdmapFault, packet_meta: PacketMeta<'_>) -> Self {
        Self { fault, frame: packet_meta.last_frame(), time: packet_meta.time }
    }
}

/// End of an RDMA Write, with a deviation of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedWrite {
    pub(super) fpdu: DecodedFpdu,
    pub(super) attribution: RdmaAttribution,
    pub(super) unconfirmed: Option<UnconfirmedFault>,
}

/// What later bytes will show to be right, or a consequence of a wrong length.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedLengths {
    /// Deviation of the last FPDU.
    pub(super) fault: Option<UnconfirmedFault>,
    /// The ends of RDMA Writes before it, until the Reply confirms their lengths.
    pub(super) ended_writes: VecDeque<EndedWrite>,
}

/// State of the messages of one direction.
#[derive(Debug, Default)]
pub(super) struct IwarpMessageReassembler {
    send_reassembly: IwarpSendReassembly,
    ongoing_write: Option<IwarpOngoingRdmaWrite>,
    /// In the order of the requests.
    outstanding_reads: VecDeque<OutstandingRdmaRead>,
    /// Sorted by stream position.
    sent_messages: VecDeque<DeliveredRdmapSend>,
    /// FPDUs of RDMA Writes and Read Responses; sorted by stream position.
    chunk_data: VecDeque<TaggedFpduRun>,
    last_tagged: Option<LastTaggedSegment>,
    /// `true` if the peer ended the stream with a Terminate: it refuses what follows.
    is_terminated: bool,
    /// Header of a message, assembled from several parts.
    header_buffer: [u8; MAX_HEADER_BYTES],
    header_bytes: u8,
    /// `true` if a snap length truncated headers: an RDMA Read request may be among them.
    pub(super) has_cut_segments: bool,
    /// Order of the segments of this side; `None` after lost FPDUs, and if transport events are not recorded.
    pub(super) order: Option<Box<DdpSegmentOrder>>,
    /// The last FPDU whose headers were decoded.
    pub(super) last_fpdu: Option<DecodedFpdu>,
    /// `None` before the first deviation or RDMA Write of a stream without CRCs, and if transport events are not recorded.
    pub(super) unconfirmed: Option<Box<UnconfirmedLengths>>,
    /// Number of the last message of each queue; 0 before the first (RFC 5041 section 4.3).
    pub(super) last_numbers: [DdpMessageSequenceNumber; QUEUES],
}

impl IwarpMessageReassembler {
    /// Returns `true` if the response to a Read of this side is placed in this memory.
    pub(super) fn has_outstanding_read_into(&self, stag: Handle) -> bool {
        self.outstanding_reads.iter().any(|read| read.sink_stag == stag)
    }

    /// Returns `true` if this untagged segment continues the message of `current`, a segment that has not ended, or the
    /// open message, or begins the next one of its queue.
    pub(super) fn expects(
        &self,
        queue: DdpQueueNumber,
        number: DdpMessageSequenceNumber,
        offset: u32,
        current: Option<&DdpSegment>,
    ) -> bool {
        let open = match current {
            Some(DdpSegment {
                is_last: true,
                target: DdpSegmentDestination::Untagged { queue: last, number: ended, .. },
                ..
            }) if *last == queue => {
                return offset == 0 && number.0 == ended.0.wrapping_add(1);
            }
            // It ends its own message, whose length is wrong.
            Some(DdpSegment { is_last: true, target: DdpSegmentDestination::Untagged { .. }, .. }) => None,
            Some(DdpSegment { is_last: false, target, .. }) => match target {
                DdpSegmentDestination::Untagged { queue, number, .. } => Some((*queue, *number)),
                DdpSegmentDestination::Tagged { .. } => return false,
            },
            _ => self.send_reassembly.is_open.then_some((DdpQueueNumber(0), self.send_reassembly.message_number)),
        };
        match open {
            Some(open) => offset > 0 && open == (queue, number),
            None => {
                let last = self.last_numbers.get(queue.0 as usize);
                offset == 0 && last.is_some_and(|last| number.0 == last.0.wrapping_add(1))
            }
        }
    }

    /// Returns the RDMA Reads without their complete responses, if all requests since the start-up frame are known.
    pub(super) fn known_reads(&self) -> Option<&VecDeque<OutstandingRdmaRead>> {
        let knows_all = self.order.as_ref().is_some_and(|order| order.has_all_fpdus());
        Some(&self.outstanding_reads).filter(|reads| knows_all && reads.len() < MAX_OUTSTANDING_READS)
    }

    /// Returns the memory in bytes of the records of retransmissions and RDMA Reads.
    pub(super) fn memory_bytes(&self) -> usize {
        self.outstanding_reads.capacity() * size_of::<OutstandingRdmaRead>()
            + self.sent_messages.capacity() * size_of::<DeliveredRdmapSend>()
            + self.chunk_data.capacity() * size_of::<TaggedFpduRun>()
            + self.unconfirmed.as_ref().map_or(0, |unconfirmed| {
                size_of::<UnconfirmedLengths>() + unconfirmed.ended_writes.capacity() * size_of::<EndedWrite>()
            })
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        let OwnedRdmaSendMessage { bytes, gaps, frames, .. } = &self.send_reassembly.message;
        if self.send_reassembly.is_open { bytes.len() + size_of_val(&gaps[..]) + size_of_val(&frames[..]) } else { 0 }
    }

    pub(super) fn drop_partial(&mut self) {
        self.send_reassembly = IwarpSendReassembly::default();
        self.order = None;
    }

    /// Returns `true` if bytes at this offset of memory continue the last tagged segment.
    #[inline]
    pub(super) fn is_continued_at(&self, stag: Handle, offset: u64) -> bool {
        self.last_tagged.is_some_and(|last| last.stag == stag && last.next_offset == offset as u32)
    }

    /// Drops the message of which an FPDU, of this opcode and from this position on, is a part. If it was
    /// delivered, or its data were, returns their attribution.
    #[cold]
    pub(super) fn withdraw_fpdu(&mut self, opcode: RdmapOpcode, start: StreamPosition) -> Option<RdmaAttribution> {
        match opcode {
            _ if opcode.is_send() && self.send_reassembly.is_open => {
                self.send_reassembly.is_open = false;
                self.send_reassembly.shrink();
                None
            }
            _ if opcode.is_send() => {
                let newest = self.sent_messages.back().filter(|sent| sent.range.end > start);
                newest.map(|sent| sent.attribution)
            }
            RdmapOpcode::WRITE | RdmapOpcode::READ_RESPONSE => self.chunk_data_at(start),
            _ => None,
        }
    }

    /// Returns the attribution of the chunk data in an FPDU that begins here.
    pub(super) fn chunk_data_at(&self, start: StreamPosition) -> Option<RdmaAttribution> {
        let run = self.chunk_data.get(self.chunk_data.partition_point(|run| run.range.end <= start));
        let is_in = |run: &&TaggedFpduRun| run.range.start <= start + MAX_TAGGED_HEADER_BYTES;
        run.filter(is_in).map(|run| run.attribution)
    }

    /// Returns the deviation of the last FPDU that counts if its length is right.
    pub(super) fn unconfirmed_fault(&self) -> Option<RdmapFault> {
        self.unconfirmed.as_ref()?.fault.map(|unconfirmed| unconfirmed.fault)
    }

    pub(super) fn drop_unconfirmed_fault(&mut self) {
        if let Some(unconfirmed) = &mut self.unconfirmed {
            unconfirmed.fault = None;
        }
    }

    /// Returns the bytes between the Send in reassembly and a segment that continues it; a negative number if they
    /// overlap.
    #[inline]
    pub(super) fn send_gap_before(&self, segment: &DdpSegment) -> Option<i64> {
        let DdpSegmentDestination::Untagged { number, offset, .. } = segment.target else { return None };
        let IwarpSendReassembly { message, message_number, is_open, .. } = &self.send_reassembly;
        (*is_open && *message_number == number && segment.opcode.is_send())
            .then(|| i64::from(offset) - message.length as i64)
    }

    /// Appends the bytes to the Send in reassembly that its last FPDU has behind its ULPDU, or removes those that are
    /// not of the ULPDU: the next segment shows its length.
    #[cold]
    pub(super) fn resize_send(&mut self, fpdu: &DecodedFpdu, change: i64) {
        let message = &mut self.send_reassembly.message;
        let length = message.length.saturating_add_signed(change as isize);
        let is_whole = message.gaps.is_empty() && message.bytes.len() == message.length;
        match fpdu.tail.last(fpdu.header.pad()) {
            Some(pad) if is_whole && change > 0 => {
                let [_, pad @ ..] = pad.to_be_bytes();
                let pad = pad.get(pad.len() - fpdu.header.pad()..).unwrap_or_default();
                message.bytes.extend(pad.iter().take(length - message.length));
            }
            _ if change > 0 => add_gap(&mut message.gaps, message.length as u64..length as u64),
            _ if is_whole => message.bytes.truncate(length),
            // The bytes that remain are the first of those behind.
            _ => return,
        }
        message.length = length;
    }

    /// Processes payload of a segment that this side sent. Returns `false` if it has chunk data or an RDMA Read Request
    /// whose place is unknown.
    #[inline]
    pub(super) fn process_payload(
        &mut self,
        peer: &mut Self,
        payload: &DdpSegmentPayload<'_>,
        sink: &mut impl IwarpEventSink,
    ) -> bool {
        let opcode = payload.segment.opcode;
        match payload.segment.target {
            DdpSegmentDestination::Tagged { stag, offset } => {
                let offset = offset.wrapping_add(u64::from(payload.offset));
                self.deliver_incomplete(sink);
                let next_offset = (offset as u32).wrapping_add(payload.data.length);
                self.last_tagged = Some(LastTaggedSegment { stag, next_offset, start: payload.range.start });
                let owner = match opcode {
                    RdmapOpcode::WRITE => self.process_write(stag, offset, payload, sink),
                    _ => peer.process_response(stag, offset, payload, sink),
                };
                if owner.0.is_some() {
                    self.record_chunk_data(payload, owner);
                }
                owner.0.is_some()
            }
            DdpSegmentDestination::Untagged { queue, number, offset } => {
                if payload.offset == 0
                    && payload.segment.is_last
                    && let Some(last) = self.last_numbers.get_mut(queue.0 as usize)
                {
                    *last = number;
                }
                if self.send_reassembly.is_open && (self.send_reassembly.message_number != number || !opcode.is_send())
                {
                    self.deliver_incomplete(sink);
                }
                match opcode {
                    _ if opcode.is_send() => self.process_send(number, offset, payload, sink),
                    RdmapOpcode::READ_REQUEST | RdmapOpcode::TERMINATE => {
                        if let Some(fault) = self.assemble_header(payload, sink) {
                            peer.refuse(fault, payload.meta, sink);
                        }
                        let is_request = opcode == RdmapOpcode::READ_REQUEST && payload.is_complete();
                        return !is_request
                            || self.outstanding_reads.back().is_none_or(|read| read.attribution.0.is_some());
                    }
                    _ if payload.is_end() => {
                        sink.event(payload.meta, IwarpEvent::Undecoded(UndecodedReason::OtherService));
                    }
                    _ => sink.event(payload.meta, IwarpEvent::Part),
                }
                true
            }
        }
    }

    /// Processes payload whose place was unknown when it was captured; the bytes that determine it have arrived since.
    /// `write` is the RDMA Write in such payload before.
    #[cold]
    pub(super) fn process_early(
        &mut self,
        peer: &mut Self,
        payload: &DdpSegmentPayload<'_>,
        write: &mut Option<IwarpOngoingRdmaWrite>,
        sink: &mut impl IwarpEventSink,
    ) {
        let owner = match payload.segment.target {
            DdpSegmentDestination::Tagged { stag, offset } => {
                let offset = offset.wrapping_add(u64::from(payload.offset));
                if payload.segment.opcode == RdmapOpcode::WRITE {
                    std::mem::swap(&mut self.ongoing_write, write);
                    let owner = self.process_write(stag, offset, payload, sink);
                    std::mem::swap(&mut self.ongoing_write, write);
                    owner
                } else {
                    peer.process_response(stag, offset, payload, sink)
                }
            }
            DdpSegmentDestination::Untagged { .. } => return self.place_read(payload, sink),
        };
        if owner.0.is_some() {
            self.record_chunk_data(payload, owner);
        }
    }

    /// Places an RDMA Read whose request was captured before the call that offers the memory.
    fn place_read(&mut self, payload: &DdpSegmentPayload<'_>, sink: &mut impl IwarpEventSink) {
        let Some((request, _)) = RdmapReadRequestHeader::decode(payload.data.bytes, 0, &mut NullFieldObserver) else {
            return;
        };
        let is_of_request = |read: &&mut OutstandingRdmaRead| {
            (read.sink_stag, read.sink_offset, read.length) == (request.sink_stag, request.sink_offset, request.length)
        };
        let mut unplaced = self.outstanding_reads.iter_mut().filter(|read| read.attribution.0.is_none());
        if let Some(read) = unplaced.find(is_of_request) {
            let operation = RdmaOperation::ReadRequest {
                handle: request.source_stag,
                offset: request.source_offset,
                length: request.length,
                attribution: &mut read.attribution,
            };
            sink.event(payload.meta, IwarpEvent::Operation(operation));
        }
    }

    /// Processes bytes of an RDMA Write and returns their attribution.
    fn process_write(
        &mut self,
        stag: Handle,
        offset: u64,
        payload: &DdpSegmentPayload<'_>,
        sink: &mut impl IwarpEventSink,
    ) -> RdmaAttribution {
        let data = payload.data;
        let ends = payload.is_end() && payload.segment.is_last;
        if data.length == 0 {
            self.ongoing_write = self.ongoing_write.take().filter(|_| !ends);
            sink.event(payload.meta, IwarpEvent::Control(Some(TransportAnomalyKind::EmptyWrite)));
            return RdmaAttribution::default();
        }
        let write = match &mut self.ongoing_write {
            Some(write) if write.stag == stag && write.next_offset == offset => write,
            other => other.insert(IwarpOngoingRdmaWrite {
                stag,
                next_offset: offset,
                attribution: RdmaAttribution::default(),
            }),
        };
        write.next_offset = offset.wrapping_add(u64::from(data.length));
        if payload.was_captured() {
            let operation = RdmaOperation::Write { handle: stag, offset, data, attribution: &mut write.attribution };
            sink.event(payload.meta, IwarpEvent::Operation(operation));
        }
        let owner = write.attribution;
        if ends {
            self.ongoing_write = None;
        }
        owner
    }

    /// Records the position of chunk data, to recognize its retransmissions.
    #[inline]
    fn record_chunk_data(&mut self, payload: &DdpSegmentPayload<'_>, owner: RdmaAttribution) {
        let Range { start, end } = payload.range;
        let end = if payload.is_end() { end + u64::from(trailer_bytes(payload)) } else { end };
        match self.chunk_data.back_mut() {
            Some(last) if last.attribution == owner && start <= last.range.end + MAX_TAGGED_HEADER_BYTES => {
                last.range.end = last.range.end.max(end);
            }
            _ => self.add_chunk_data(start..end, owner),
        }
    }

    #[inline(never)]
    fn add_chunk_data(&mut self, range: Range<StreamPosition>, attribution: RdmaAttribution) {
        if self.chunk_data.len() >= MAX_SENT_MESSAGES {
            self.chunk_data.pop_front();
        }
        let start = range.start.saturating_sub(TAGGED_HEADER_BYTES);
        self.chunk_data.push_back(TaggedFpduRun { range: start..range.end, attribution });
    }

    /// Processes bytes of the peer's response to an RDMA Read of this side. Responses arrive in the order of
    /// their requests (RFC 5040 section 5.5).
    fn process_response(
        &mut self,
        stag: Handle,
        offset: u64,
        payload: &DdpSegmentPayload<'_>,
        sink: &mut impl IwarpEventSink,
    ) -> RdmaAttribution {
        let data = payload.data;
        let source = self
            .outstanding_reads
            .iter()
            .enumerate()
            .find_map(|(at, read)| Some((at, read.map_to_source(stag, offset, data.length)?, read.attribution)));
        let Some((at, source, owner)) = source else {
            let is_cut = self.has_cut_segments;
            let reason = if is_cut { UndecodedReason::CutRead } else { UndecodedReason::ReadWithoutRequest };
            sink.event(payload.meta, IwarpEvent::Undecoded(reason));
            return RdmaAttribution::default();
        };
        let ends = payload.is_end() && payload.segment.is_last;
        // Earlier requests have been answered.
        self.outstanding_reads.drain(..if ends { at + 1 } else { at });
        if data.length == 0 {
            sink.event(payload.meta, IwarpEvent::Control(None));
            return RdmaAttribution::default();
        }
        if payload.was_captured() {
            let operation = RdmaOperation::ReadResponse { offset: source, data, attribution: owner };
            sink.event(payload.meta, IwarpEvent::Operation(operation));
        }
        owner
    }

    fn process_send(
        &mut self,
        number: DdpMessageSequenceNumber,
        offset: u32,
        payload: &DdpSegmentPayload<'_>,
        sink: &mut impl IwarpEventSink,
    ) {
        let (data, packet_meta) = (payload.data, payload.meta);
        let is_whole = offset == 0 && payload.is_complete() && payload.segment.is_last;
        if is_whole && !self.send_reassembly.is_open {
            if data.length == 0 {
                return sink.event(packet_meta, IwarpEvent::Control(Some(TransportAnomalyKind::EmptySend)));
            }
            let place = (number, self.last_tagged.map(|last| last.stag));
            let owner = record_sent(&mut self.sent_messages, place, payload.range.clone(), trailer_bytes(payload));
            let message = RdmaSendMessage {
                bytes: data.bytes,
                length: data.length as usize,
                gaps: &[],
                frames: packet_meta.frames,
                time: payload.times.first,
                end_time: payload.times.last.max(packet_meta.accepted_time()),
                stall: packet_meta.stall(),
                invalidated_handle: payload.segment.invalidate,
            };
            sink.event(packet_meta, IwarpEvent::Operation(RdmaOperation::Send { message, attribution: owner }));
            return self.refuse_newest(packet_meta, sink);
        }
        if !self.send_reassembly.is_open {
            self.send_reassembly.begin(number, payload.range.start, payload.times.first);
        }
        self.send_reassembly.add(u64::from(offset) + u64::from(payload.offset), payload);
        if payload.is_end() && payload.segment.is_last {
            self.deliver_send(packet_meta, sink);
            self.send_reassembly.shrink();
        } else {
            sink.event(packet_meta, IwarpEvent::Part);
        }
    }

    fn deliver_send(&mut self, packet_meta: PacketMeta<'_>, sink: &mut impl IwarpEventSink) {
        let IwarpSendReassembly { message, range, trailer_bytes, is_open, is_cut, message_number } =
            &mut self.send_reassembly;
        *is_open = false;
        let message = message.as_message();
        if message.bytes.is_empty() && message.length > 0 {
            // Nothing shows what it belongs to.
            let reason = if *is_cut { UndecodedReason::CutHeader } else { UndecodedReason::MessagePart };
            for frame in message.frames {
                let packet_meta = PacketMeta::new(std::slice::from_ref(frame), message.time);
                sink.event(packet_meta, IwarpEvent::Undecoded(reason));
            }
            return;
        }
        if message.length == 0 {
            return sink.event(packet_meta, IwarpEvent::Control(None));
        }
        let place = (*message_number, self.last_tagged.map(|last| last.stag));
        let owner = record_sent(&mut self.sent_messages, place, range.clone(), *trailer_bytes);
        sink.event(packet_meta, IwarpEvent::Operation(RdmaOperation::Send { message, attribution: owner }));
        self.refuse_newest(packet_meta, sink);
    }

    /// Delivers the message in reassembly incomplete: the rest will not come.
    pub(super) fn deliver_incomplete(&mut self, sink: &mut impl IwarpEventSink) {
        if !self.send_reassembly.is_open {
            return;
        }
        // At least one more segment belongs to it; its bytes are missing, and their number is unknown.
        let message = &mut self.send_reassembly.message;
        let length = message.length as u64;
        add_gap(&mut message.gaps, length..length + 1);
        message.length += 1;
        let frame = message.frames.last().copied();
        let packet_meta = PacketMeta::new(frame.as_slice(), message.end_time);
        self.deliver_send(packet_meta, sink);
        self.send_reassembly.shrink();
    }

    /// Reports the messages of this side that the peer refuses with a Terminate: the one at fault, and those after it.
    /// `fault` is the segment at fault, if the Terminate names it; otherwise it is the last one.
    #[cold]
    fn refuse(
        &mut self,
        fault: Option<DdpSegmentDestination>,
        packet_meta: PacketMeta<'_>,
        sink: &mut impl IwarpEventSink,
    ) {
        self.is_terminated = true;
        let sent = &self.sent_messages;
        let last_tagged = self.last_tagged.map_or(0, |last| last.start);
        let behind_last_tagged = || sent.partition_point(|sent| sent.range.start < last_tagged);
        let first = match fault {
            Some(DdpSegmentDestination::Untagged { queue: DdpQueueNumber::SEND, number, .. }) => {
                sent.iter().rposition(|sent| sent.number == number).unwrap_or(sent.len())
            }
            Some(DdpSegmentDestination::Untagged { .. }) => sent.len(),
            // The Reply follows the data that it returns.
            Some(DdpSegmentDestination::Tagged { stag, .. }) => {
                sent.iter().rposition(|sent| sent.after == Some(stag)).unwrap_or_else(behind_last_tagged)
            }
            None => behind_last_tagged().max(sent.len().saturating_sub(1)),
        };
        for sent in self.sent_messages.range(first..) {
            sink.event(packet_meta, IwarpEvent::RefusedMessage(sent.attribution));
        }
    }

    /// Reports that the peer refuses the newest message, if it ended the stream before.
    fn refuse_newest(&self, packet_meta: PacketMeta<'_>, sink: &mut impl IwarpEventSink) {
        if self.is_terminated
            && let Some(newest) = self.sent_messages.back()
        {
            sink.event(packet_meta, IwarpEvent::RefusedMessage(newest.attribution));
        }
    }

    /// Assembles the header of a message without payload. Returns the segment at fault of a Terminate, as far as the
    /// Terminate names it.
    fn assemble_header(
        &mut self,
        payload: &DdpSegmentPayload<'_>,
        sink: &mut impl IwarpEventSink,
    ) -> Option<Option<DdpSegmentDestination>> {
        let DdpSegmentPayload { data, meta: packet_meta, .. } = *payload;
        if payload.is_complete() {
            let is_cut = data.bytes.len() < data.length as usize;
            return self.process_header(payload.segment, (data.bytes, is_cut), packet_meta, sink);
        }
        if payload.offset == 0 {
            self.header_bytes = 0;
            self.send_reassembly.message.frames.clear();
        }
        // No Send is in reassembly meanwhile.
        self.send_reassembly.add_frames(&packet_meta);
        // The known part of the header ends at the first byte that was not captured.
        let filled = usize::from(self.header_bytes);
        if filled == payload.offset as usize
            && let Some(free_buffer) = self.header_buffer.get_mut(filled..)
        {
            let count = free_buffer.len().min(data.bytes.len());
            free_buffer.iter_mut().zip(data.bytes).for_each(|(to, from)| *to = *from);
            self.header_bytes += count as u8;
        }
        if !payload.is_end() {
            sink.event(packet_meta, IwarpEvent::Part);
            return None;
        }
        let header = self.header_buffer;
        let captured = header.get(..self.header_bytes.into()).unwrap_or_default();
        let frames = std::mem::take(&mut self.send_reassembly.message.frames);
        let header_meta = PacketMeta { frames: if payload.was_captured() { &frames } else { &[] }, ..packet_meta };
        let is_cut = captured.len() < header.len().min(payload.length as usize);
        let refused = self.process_header(payload.segment, (captured, is_cut), header_meta, sink);
        self.send_reassembly.message.frames = frames;
        refused
    }

    fn process_header(
        &mut self,
        segment: &DdpSegment,
        (bytes, is_cut): (&[u8], bool),
        packet_meta: PacketMeta<'_>,
        sink: &mut impl IwarpEventSink,
    ) -> Option<Option<DdpSegmentDestination>> {
        self.has_cut_segments |= is_cut;
        if is_cut {
            // The request may ask for any response.
            self.order = None;
        }
        let slice = CapturedSlice::new(bytes, bytes.len(), 0);
        let is_terminate = segment.opcode == RdmapOpcode::TERMINATE;
        let event = if is_terminate {
            RdmapTerminate::decode(slice, &mut NullFieldObserver).map(IwarpEvent::Terminate)
        } else {
            RdmapReadRequestHeader::decode(bytes, 0, &mut NullFieldObserver)
                .map(|(request, _)| self.begin_read(&request))
        };
        let reason = if is_cut { UndecodedReason::CutFrame } else { UndecodedReason::Malformed };
        sink.event(packet_meta, event.unwrap_or(IwarpEvent::Undecoded(reason)));
        is_terminate.then(|| RdmapTerminate::segment_at_fault(slice))
    }

    fn begin_read(&mut self, request: &RdmapReadRequestHeader) -> IwarpEvent<'_> {
        // Reused memory still has the bytes of the earlier Read.
        let end = request.sink_offset.saturating_add(u64::from(request.length));
        self.outstanding_reads.retain(|read| {
            let read_end = read.sink_offset.saturating_add(u64::from(read.length));
            let is_apart = read_end <= request.sink_offset || end <= read.sink_offset;
            read.sink_stag != request.sink_stag || is_apart || read.length == 0
        });
        if self.outstanding_reads.len() >= MAX_OUTSTANDING_READS {
            self.outstanding_reads.pop_front();
        }
        self.outstanding_reads.push_back(OutstandingRdmaRead {
            sink_stag: request.sink_stag,
            sink_offset: request.sink_offset,
            length: request.length,
            source_offset: request.source_offset,
            attribution: RdmaAttribution::default(),
        });
        match self.outstanding_reads.back_mut() {
            Some(read) if request.length > 0 => IwarpEvent::Operation(RdmaOperation::ReadRequest {
                handle: request.source_stag,
                offset: request.source_offset,
                length: request.length,
                attribution: &mut read.attribution,
            }),
            _ => IwarpEvent::Control(None),
        }
    }

    /// Reports retransmissions of the messages and chunk data that overlap a range of retransmitted bytes. A segment
    /// with a trailer alone is attributed to its message, but is not a retransmission of the message.
    pub(super) fn report_retransmission(
        &mut self,
        range: Range<StreamPosition>,
        packet_meta: PacketMeta<'_>,
        sink: &mut impl IwarpEventSink,
    ) {
        let overlaps = |other: &Range<StreamPosition>| other.start < range.end && range.start < other.end;
        let from =
            self.sent_messages.partition_point(|sent| sent.range.end + u64::from(sent.trailer_bytes) <= range.start);
        for sent in self.sent_messages.range(from..).take_while(|sent| sent.range.start < range.end) {
            let ends = (range.start..=range.end).contains(&sent.range.end) && range.start < sent.range.end;
            let operation = RdmaOperation::SendRetransmission { attribution: sent.attribution, ends };
            sink.event(packet_meta, IwarpEvent::Operation(operation));
        }
        let from = self.chunk_data.partition_point(|sent| sent.range.end <= range.start);
        for sent in self.chunk_data.range(from..).take_while(|sent| overlaps(&sent.range)) {
            let operation = RdmaOperation::ChunkDataRetransmission { attribution: sent.attribution };
            sink.event(packet_meta, IwarpEvent::Operation(operation));
        }
        if self.send_reassembly.is_open && overlaps(&self.send_reassembly.range) {
            self.send_reassembly.add_frames(&packet_meta);
            self.send_reassembly.record_needed_copy(&packet_meta);
        }
    }
}

/// Returns the length of the trailer of an FPDU: the pad to a multiple of four bytes, and the CRC (RFC 5044
/// section 4.1).
fn trailer_bytes(payload: &DdpSegmentPayload<'_>) -> u8 {
    let ulpdu_length = payload.segment.header_length() + payload.length as usize;
    (roundup(FpduHeader::LENGTH + ulpdu_length) + RunningFpduCrc::LENGTH) as u8
}

/// Records a delivered message to recognize its retransmissions, and returns its attribution slot.
fn record_sent(
    sent: &mut VecDeque<DeliveredRdmapSend>,
    (number, after): (DdpMessageSequenceNumber, Option<Handle>),
    range: Range<StreamPosition>,
    trailer_bytes: u8,
) -> &mut RdmaAttribution {
    if sent.len() >= MAX_SENT_MESSAGES {
        sent.pop_front();
    }
    let attribution = RdmaAttribution::default();
    sent.push_back(DeliveredRdmapSend { range, number, after, trailer_bytes, attribution });
    let last = sent.len() - 1;
    &mut sent[last].attribution
}
