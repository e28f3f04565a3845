//! Reassembly of messages of several packets.
//!
//! InfiniBand Architecture Specification volume 1, section 9.7.5: a message is a First packet, any
//! number of Middle packets and a Last packet, with consecutive sequence numbers.

use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::infiniband::PacketPositionInMessage;
use nfsrdma_dissectors::memory_handle::Handle;

use super::early_packet_buffer::MAX_AGE_NS;
use super::extended_psn::ExtendedPsn;
use super::missing_byte_ranges::add_gap;
use super::packet_meta::PacketMeta;
use crate::rdma_operation::{CapturedPacketPayload, OwnedRdmaSendMessage, RdmaSendMessage, RetransmissionStall};

/// Maximum number of buffered packets of incomplete messages.
const MAX_PACKETS: usize = 256;
/// Maximum number of frames recorded for one buffered packet.
const MAX_PACKET_FRAMES: usize = 64;

/// A packet of a message that takes several.
#[derive(Debug)]
struct MessagePacket {
    sequence: ExtendedPsn,
    position: PacketPositionInMessage,
    frames: Vec<FrameNumber>,
    /// Time of its first copy.
    time: Timestamp,
    /// Time of the copy that the peer accepted, as far as is known.
    end_time: Timestamp,
    bytes: Vec<u8>,
    length: u32,
    is_refused: bool,
    stall: Option<RetransmissionStall>,
    /// Only the Last packet names a handle.
    invalidated_handle: Option<Handle>,
}

/// A range of buffered packets that is ready to be delivered as a message.
pub(super) struct DeliverablePacketRange {
    packets: Range<usize>,
    /// `true` if the last of them is the Last packet of the message.
    pub(super) is_complete: bool,
}

/// A message with the sequence numbers of its first and last packet.
pub(super) struct ReassembledMessage<'a> {
    pub(super) message: RdmaSendMessage<'a>,
    pub(super) first: ExtendedPsn,
    pub(super) last: ExtendedPsn,
    /// `true` if the receiver refused its last packet.
    pub(super) is_refused: bool,
}

/// The buffered packets of incomplete messages of one direction.
#[derive(Debug, Default)]
pub(super) struct InfinibandMessageReassembler {
    /// Sorted by `sequence`.
    packets: Vec<MessagePacket>,
    /// Payload bytes of the buffered packets.
    payload_bytes: usize,
    /// Frames of buffered packets dropped because their message is unknown.
    dropped_frames: u64,
    /// Buffer for the message delivered last.
    message: OwnedRdmaSendMessage,
}

impl InfinibandMessageReassembler {
    /// Buffers a packet, or merges it with the buffered copy.
    pub(super) fn add(
        &mut self,
        sequence: ExtendedPsn,
        (position, data, invalidated_handle): (PacketPositionInMessage, CapturedPacketPayload<'_>, Option<Handle>),
        packet_meta: PacketMeta<'_>,
    ) {
        let packet = MessagePacket {
            sequence,
            position,
            frames: packet_meta.frames.to_vec(),
            time: packet_meta.time,
            end_time: packet_meta.time,
            bytes: data.bytes.to_vec(),
            length: data.length,
            is_refused: packet_meta.is_refused(),
            stall: packet_meta.stall(),
            invalidated_handle,
        };
        let at = self.packets.partition_point(|other| other.sequence < sequence);
        match self.packets.get_mut(at) {
            // The first copy counts; the second only adds bytes that a snap length removed from the first.
            Some(other) if other.sequence == sequence => {
                if other.frames.len() < MAX_PACKET_FRAMES {
                    other.frames.extend(packet.frames);
                }
                if !packet_meta.is_duplicate() {
                    // The packet was refused or lost before; this copy is accepted or refused again.
                    (other.end_time, other.is_refused, other.stall) =
                        (packet.end_time, packet.is_refused, packet.stall);
                } else if packet_meta.may_be_accepted() {
                    // The rest of the message waits for the retransmission.
                    other.stall = packet.stall;
                }
                if other.bytes.len() < packet.bytes.len() {
                    self.payload_bytes += packet.bytes.len() - other.bytes.len();
                    other.bytes = packet.bytes;
                }
            }
            _ => {
                self.payload_bytes += packet.bytes.len();
                self.packets.insert(at, packet);
            }
        }
    }

    /// Returns the contiguous run of buffered packets around one of them, starting at a First packet.
    pub(super) fn run_around(&self, sequence: ExtendedPsn) -> Option<DeliverablePacketRange> {
        let mut start = self.packets.partition_point(|packet| packet.sequence < sequence);
        while self.packets.get(start)?.position != PacketPositionInMessage::First {
            let previous = start.checked_sub(1)?;
            (self.packets.get(previous)?.sequence + 1 == self.packets.get(start)?.sequence).then_some(())?;
            start = previous;
        }
        Some(self.run_from(start, 1))
    }

    /// Returns the buffered packets of the message whose First packet is at index `start`, up to the first increase of
    /// the sequence number by more than `max_step`.
    fn run_from(&self, start: usize, max_step: u64) -> DeliverablePacketRange {
        let mut end = start + 1;
        while let (Some(previous), Some(packet)) = (self.packets.get(end - 1), self.packets.get(end))
            && previous.position != PacketPositionInMessage::Last
            && packet.position != PacketPositionInMessage::First
            && packet.sequence - previous.sequence <= max_step
        {
            end += 1;
        }
        self.packet_run(start..end)
    }

    fn packet_run(&self, packets: Range<usize>) -> DeliverablePacketRange {
        let ends = self
            .packets
            .get(..packets.end)
            .and_then(<[_]>::last)
            .is_some_and(|packet| packet.position == PacketPositionInMessage::Last);
        DeliverablePacketRange { packets, is_complete: ends }
    }

    /// Returns the buffered packets of the message whose First packet is at index `start`. A single
    /// missing packet between two others can only be a Middle packet; more could be the end of this
    /// message and the start of another.
    fn partial_run(&self, start: usize) -> DeliverablePacketRange {
        self.run_from(start, 2)
    }

    /// Removes the packets of a run and concatenates them into a message.
    pub(super) fn deliver(&mut self, run: DeliverablePacketRange) -> ReassembledMessage<'_> {
        let message = &mut self.message;
        message.bytes.clear();
        message.frames.clear();
        message.gaps.clear();
        (message.time, message.end_time) = (Timestamp(i64::MAX), Timestamp(i64::MIN));
        (message.stall, message.invalidated_handle) = (None, None);
        // Every packet but the last is as long as the first.
        let packet_length = self.packets.get(run.packets.start).map_or(0, |packet| u64::from(packet.length));
        let mut length = 0;
        let mut sequences: Option<(ExtendedPsn, ExtendedPsn)> = None;
        let mut is_refused = false;
        for packet in self.packets.drain(run.packets) {
            self.payload_bytes -= packet.bytes.len();
            let (first, last) = sequences.unwrap_or((packet.sequence, packet.sequence.saturating_sub(1)));
            let lost_length = (packet.sequence - last - 1) * packet_length;
            add_gap(&mut message.gaps, length..length + lost_length);
            length += lost_length;
            sequences = Some((first, packet.sequence));
            message.time = message.time.min(packet.time);
            message.end_time = message.end_time.max(packet.end_time);
            is_refused = packet.is_refused;
            message.invalidated_handle = packet.invalidated_handle;
            message.stall = RetransmissionStall::span(message.stall, packet.stall);
            message.frames.extend(packet.frames);
            if message.gaps.is_empty() {
                message.bytes.extend_from_slice(&packet.bytes);
            }
            let end = length + u64::from(packet.length);
            add_gap(&mut message.gaps, length + packet.bytes.len() as u64..end);
            length = end;
        }
        if !run.is_complete {
            // At least one more packet belongs to the message; its bytes are missing, and their number is
            // unknown.
            add_gap(&mut message.gaps, length..length + 1);
            length += 1;
        }
        message.length = length as usize;
        message.frames.sort_unstable();
        let (first, last) = sequences.unwrap_or_default();
        ReassembledMessage { message: message.as_message(), first, last, is_refused }
    }

    /// Returns the memory in bytes, without the payload of the buffered packets.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.packets.capacity() * size_of::<MessagePacket>()
            + self.message.bytes.capacity()
            + self.message.frames.capacity() * size_of::<FrameNumber>()
    }

    /// Returns `true` if no packet is buffered.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns `true` if more packets are buffered than the limit allows.
    pub(super) fn is_full(&self) -> bool {
        self.packets.len() > MAX_PACKETS
    }

    /// Returns the number of payload bytes of the buffered packets.
    pub(super) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the packets of the first message whose First packet `is_wanted` accepts.
    pub(super) fn find_incomplete(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> Option<DeliverablePacketRange> {
        let begins =
            |packet: &MessagePacket| packet.position == PacketPositionInMessage::First && is_wanted(&packet.bytes);
        let Some(first) = self.packets.iter().position(begins) else {
            // Packets without a First packet cannot be attributed; the oldest is dropped.
            if self.is_full() {
                self.drop_first_packet();
            }
            return None;
        };
        Some(self.partial_run(first))
    }

    /// Yields the sequence numbers up to `sequence` at which a message begins or after which the next
    /// one begins.
    pub(super) fn boundaries_until(&self, sequence: ExtendedPsn) -> impl Iterator<Item = ExtendedPsn> + '_ {
        let packets = self.packets.iter().filter(move |packet| packet.sequence <= sequence);
        packets.filter_map(|packet| match packet.position {
            PacketPositionInMessage::First => Some(packet.sequence),
            PacketPositionInMessage::Last => Some(packet.sequence + 1),
            _ => None,
        })
    }

    /// Returns the packets of a message from before `end` if the rest had time to arrive or nothing
    /// more will come.
    pub(super) fn next_ended(
        &mut self,
        end: ExtendedPsn,
        is_ended: bool,
        now: Timestamp,
    ) -> Option<DeliverablePacketRange> {
        while let Some(packet) = self.packets.first()
            && packet.sequence < end
        {
            let run = match packet.position {
                PacketPositionInMessage::First => self.partial_run(0),
                _ => self.packet_run(0..1),
            };
            let is_old = |packet: &MessagePacket| now.abs_diff_ns(packet.time) > MAX_AGE_NS;
            if !is_ended && !self.packets.get(run.packets.clone())?.iter().all(is_old) {
                return None;
            }
            if packet.position == PacketPositionInMessage::First {
                return Some(run);
            }
            self.drop_first_packet();
        }
        None
    }

    fn drop_first_packet(&mut self) {
        let packet = self.packets.remove(0);
        self.payload_bytes -= packet.bytes.len();
        self.dropped_frames += packet.frames.len() as u64;
    }

    /// Drops all packets.
    pub(super) fn clear(&mut self) {
        for packet in self.packets.drain(..) {
            self.dropped_frames += packet.frames.len() as u64;
        }
        self.payload_bytes = 0;
    }

    /// Returns the number of frames of dropped packets since the last call.
    pub(super) fn take_dropped_frames(&mut self) -> u64 {
        std::mem::take(&mut self.dropped_frames)
    }
}
