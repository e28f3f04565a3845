//! Table of TCP streams by addresses and ports.

use std::collections::BTreeSet;

use nfsrdma_dissectors::address::{Address, Port};
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::net::{TcpChecksum, TcpSegment, TcpSequence};
use rustc_hash::FxHashMap;

use super::bounded_slab_growth;
use super::by_side::ConnectionSidePair;
use super::connection_key::ConnectionSlabKey;
use super::count_categories::UndecodedReason;
use super::endpoint_pair::{EndpointPair, ordered_addresses};
use super::packet_meta::PacketMeta;
use super::rpc_records::{CapturedRpcRecordParser, PartialCall};
use super::stream::direction::{self, ChecksumCounts, MAX_BYTES_AHEAD, PreviousStreamIncarnation, TcpStreamDirection};
use super::stream::stream_bytes::StreamPosition;
use super::stream_protocol::{self, StreamProtocol, StreamProtocolDetection};
use super::transaction_slab_key::TransactionSlabKey;
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB};

/// A TCP stream: both directions of a TCP connection.
#[derive(Debug)]
pub(super) struct TcpConversation {
    /// Endpoints; side A sent the first captured segment.
    pub(super) ports: EndpointPair,
    pub(super) directions: ConnectionSidePair<TcpStreamDirection>,
    pub(super) protocol: StreamProtocol,
    /// Side that sent the SYN, if it was captured.
    pub(super) opened_by: Option<ConnectionSideAOrB>,
    /// RPC or RDMA connection on the stream.
    pub(super) connection: Option<ConnectionSlabKey>,
    pub(super) last_frame: FrameNumber,
    /// `true` if a FIN or a RST was captured that the conversation has not outlived.
    pub(super) is_ending: bool,
    /// Side that sent a RST, and its time.
    pub(super) reset: Option<(ConnectionSideAOrB, Timestamp)>,
    /// SYN of each side in a stream that has carried data. A new stream begins only if the other side answers it, or
    /// data continue at its number. RFC 9293 section 3.10.7.4. Allocated for the first: hardly a stream has one.
    unconfirmed_syns: Option<Box<ConnectionSidePair<Option<CapturedSyn>>>>,
    /// `true` if a snap length truncated segments of it.
    pub(super) is_cut: bool,
    /// `true` if segments were truncated so much that nothing was found in them.
    pub(super) has_cut_messages: bool,
    /// `true` if RPC was found in it, or in an earlier incarnation.
    pub(super) has_carried_rpc: bool,
    /// Number of frames counted as those of an unknown stream: of a message that began before the capture if the stream
    /// turns out to be known.
    pub(super) unknown_frames: u32,
    /// Previous incarnation of the stream, between the same ports.
    previous: Option<Box<PreviousStreamIncarnation>>,
    /// Last segment whose sequence number is far ahead of all others, or far from them.
    pub(super) stray: Option<Box<StraySegment>>,
    /// Bytes buffered, as counted last.
    pub(super) counted_buffered_bytes: usize,
    /// Memory without buffered bytes, as counted last.
    counted_memory_bytes: u32,
    /// Deadline of its first gap, as entered in the deadline queue.
    deadline: Option<Timestamp>,
    /// Number of the stream in the capture, from 0.
    number: u64,
    /// Bases of the relative sequence numbers of A and B: the numbers of their SYNs, or a substitute.
    sequence_bases: ConnectionSidePair<Option<TcpSequence>>,
}

/// A captured SYN.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapturedSyn {
    pub(super) sequence: TcpSequence,
    /// Acknowledgement number, if it is the answer to a SYN.
    pub(super) acknowledgment: Option<TcpSequence>,
    pub(super) time: Timestamp,
}

impl CapturedSyn {
    /// Returns `true` if it is the answer to a SYN.
    pub(super) fn is_answer(self) -> bool {
        self.acknowledgment.is_some()
    }

    /// Returns the number of the first byte.
    pub(super) fn first_byte(self) -> TcpSequence {
        self.sequence.add(1)
    }

    /// Returns `true` if one of two SYNs of different sides answers the other.
    pub(super) fn is_pair(self, other: Self) -> bool {
        let answers =
            |answer: Self, syn: Self| syn.acknowledgment.is_none() && answer.acknowledgment == Some(syn.first_byte());
        answers(self, other) || answers(other, self)
    }
}

/// A segment whose sequence number is far ahead of all others in its direction, or far from them.
#[derive(Debug)]
pub(super) struct StraySegment {
    pub(super) sender: ConnectionSideAOrB,
    pub(super) first: TcpSequence,
    pub(super) length: u32,
    /// Captured bytes.
    pub(super) bytes: Vec<u8>,
    pub(super) frames: Vec<FrameNumber>,
    pub(super) time: Timestamp,
    /// Position up to which its sender had received the other direction.
    pub(super) received: StreamPosition,
    /// Position of the next expected byte when it was captured.
    pub(super) expected: StreamPosition,
    /// Number of segments that it continues.
    pub(super) preceding: u32,
    /// `true` if it is too far from the other segments to be one of their stream.
    pub(super) is_far: bool,
    /// `true` if it is the first of its direction, with a wrong checksum, and those of other streams are right: the next
    /// one of its sender, or its acknowledgement, decides.
    pub(super) is_doubtful_start: bool,
    /// `true` if it is the data of a SYN: a segment that continues them, or acknowledges exactly them, decides.
    pub(super) is_syn_data: bool,
}

impl StraySegment {
    /// Returns the first data of a direction, which may be wrong: they have a wrong checksum, or are those of a SYN.
    pub(super) fn doubtful_start(
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        segment: &TcpSegment<'_>,
    ) -> Self {
        let is_syn_data = segment.flags.syn();
        Self {
            sender,
            first: segment.sequence.add(u32::from(is_syn_data)),
            length: segment.payload.length as u32,
            bytes: segment.payload.bytes.to_vec(),
            frames: packet_meta.frames.to_vec(),
            time: packet_meta.time,
            received: 0,
            expected: 0,
            preceding: 0,
            is_far: true,
            is_doubtful_start: true,
            is_syn_data,
        }
    }

    pub(super) fn end(&self) -> TcpSequence {
        self.first.add(self.length)
    }

    /// Returns `true` if a segment or an acknowledgement at this number confirms it.
    pub(super) fn is_followed_at(&self, sequence: TcpSequence) -> bool {
        (0..MAX_BYTES_AHEAD as i32).contains(&self.end().distance(sequence))
    }

    /// Returns `true` if a segment decides about it, the first one of its direction.
    pub(super) fn is_decided_by(&self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) -> bool {
        match sender == self.sender {
            true => segment.payload.length > 0,
            false if self.is_syn_data => segment.flags.ack() && segment.acknowledgment == self.end(),
            false => segment.flags.ack() && self.is_followed_at(segment.acknowledgment),
        }
    }

    pub(super) fn data(&self) -> CapturedPacketPayload<'_> {
        CapturedPacketPayload { bytes: &self.bytes, length: self.length }
    }

    pub(super) fn packet_meta(&self) -> PacketMeta<'_> {
        PacketMeta::new(&self.frames, self.time)
    }
}

/// Relative numbers of a segment in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegmentNumbers {
    /// Number of the stream in the capture, from 0, in the order of their first segments.
    pub stream: u64,
    /// Sequence number relative to that of the SYN; if the SYN was not captured, the first captured number is
    /// 1.
    pub sequence: u32,
    /// Acknowledgement number, relative like the sequence number; 0 if the segment has none.
    pub acknowledgment: u32,
}

impl TcpConversation {
    fn new(ports: EndpointPair, number: u64) -> Self {
        Self {
            ports,
            number,
            sequence_bases: ConnectionSidePair::default(),
            directions: ConnectionSidePair::default(),
            protocol: StreamProtocol::mid_stream(0),
            opened_by: None,
            connection: None,
            last_frame: FrameNumber::default(),
            is_ending: false,
            reset: None,
            unconfirmed_syns: None,
            is_cut: false,
            has_cut_messages: false,
            has_carried_rpc: false,
            unknown_frames: 0,
            previous: None,
            stray: None,
            counted_buffered_bytes: 0,
            counted_memory_bytes: 0,
            deadline: None,
        }
    }

    /// Returns `true` if a SYN is to be confirmed.
    #[inline]
    pub(super) fn has_unconfirmed_syn(&self) -> bool {
        self.unconfirmed_syns.is_some()
    }

    pub(super) fn unconfirmed_syn(&self, sender: ConnectionSideAOrB) -> Option<CapturedSyn> {
        self.unconfirmed_syns.as_ref().and_then(|syns| syns[sender])
    }

    pub(super) fn keep_unconfirmed_syn(&mut self, sender: ConnectionSideAOrB, syn: CapturedSyn) {
        self.unconfirmed_syns.get_or_insert_default()[sender] = Some(syn);
    }

    /// Forgets unconfirmed SYNs after the Maximum Segment Lifetime.
    pub(super) fn drop_old_syns(&mut self, now: Timestamp) {
        let Some(syns) = &mut self.unconfirmed_syns else { return };
        for syn in &mut syns.0 {
            *syn = syn.filter(|syn| syn.time.abs_diff_ns(now) < direction::MAX_SEGMENT_LIFETIME_NS);
        }
        if syns.0.iter().all(Option::is_none) {
            self.unconfirmed_syns = None;
        }
    }

    /// Returns `true` if the stream has carried data, or both sides have opened it.
    pub(super) fn is_living(&self) -> bool {
        let [a, b] = &self.directions.0;
        !matches!(self.protocol, StreamProtocol::Opening | StreamProtocol::MidStream { looked_at: 0, .. })
            || (a.has_bytes() || b.has_bytes())
            || self.is_established()
    }

    /// Returns `true` if both sides have opened the stream.
    pub(super) fn is_established(&self) -> bool {
        self.directions.0.iter().all(TcpStreamDirection::is_established)
    }

    /// Returns `true` if nothing more is to be expected: it was reset, or both sides have ended it.
    pub(super) fn is_over(&self) -> bool {
        self.reset.is_some() || self.directions.0.iter().all(TcpStreamDirection::has_end)
    }

    /// Returns `true` if the parser of the stream has begun.
    pub(super) fn is_parsed(&self) -> bool {
        matches!(self.protocol, StreamProtocol::Records(_) | StreamProtocol::Mpa(_) | StreamProtocol::Tls)
    }

    /// Returns `true` if the protocol is to be detected by its first bytes.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.protocol, StreamProtocol::Opening)
    }

    /// Returns `true` if data were searched for the protocol, and it is not known yet.
    pub(super) fn is_searched(&self) -> bool {
        matches!(self.protocol, StreamProtocol::MidStream { looked_at: 1.., .. })
    }

    /// Returns `true` if the SYN of each side was captured.
    pub(super) fn has_both_syns(&self) -> bool {
        self.directions.0.iter().all(|direction| direction.captured_syn().is_some())
    }

    /// Returns the SYN of a side that opened the stream, if it was captured.
    pub(super) fn opening_syn(&self, side: ConnectionSideAOrB) -> Option<CapturedSyn> {
        let is_answer = self.opened_by == Some(side.peer());
        let acknowledgment = self.directions[side.peer()].first_sequence().filter(|_| is_answer);
        let (sequence, time) = self.directions[side].captured_syn()?;
        Some(CapturedSyn { sequence, acknowledgment, time })
    }

    /// Handles a SYN that opens the stream.
    pub(super) fn record_syn(&mut self, sender: ConnectionSideAOrB, syn: CapturedSyn) {
        if !syn.is_answer() && self.directions[sender.peer()].captured_syn().is_none() {
            // Whatever answer was captured before it: that was a stray one.
            self.opened_by = Some(sender);
        }
        self.opened_by.get_or_insert(if syn.is_answer() { sender.peer() } else { sender });
        let (own, peer) = self.directions.own_and_peer(sender);
        own.record_syn(syn.sequence, syn.time);
        match syn.acknowledgment {
            Some(acknowledgment) => peer.start_after_answer(acknowledgment, syn.time),
            None => peer.await_answer(),
        }
        if let StreamProtocol::MidStream { looked_at: 0, .. } = self.protocol {
            self.protocol = StreamProtocol::Opening;
        }
    }

    /// Returns `true` if data that end at this number show that the stream has not ended, contrary to a FIN or a RST.
    pub(super) fn outlives_end(&mut self, sender: ConnectionSideAOrB, end: TcpSequence) -> bool {
        let is_reset = self.reset.is_some_and(|(side, _)| side == sender);
        let own = &mut self.directions[sender];
        if !own.outlives(end, is_reset) {
            return false;
        }
        own.forget_end();
        self.reset = self.reset.filter(|_| !is_reset);
        self.is_ending = self.reset.is_some() || self.directions.0.iter().any(TcpStreamDirection::has_end);
        !self.is_ending
    }

    pub(super) fn is_copy_of_previous(
        &self,
        sender: ConnectionSideAOrB,
        segment: &TcpSegment<'_>,
        now: Timestamp,
    ) -> bool {
        self.previous.as_ref().is_some_and(|previous| previous.contains_copy(sender, &self.directions, segment, now))
    }

    /// Forgets the previous incarnation, because it had the same numbers.
    pub(super) fn forget_previous(&mut self) {
        self.previous = None;
    }

    /// Sets the bases of relative numbers if this segment is the first that has them.
    pub(super) fn set_sequence_bases(&mut self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) {
        if let [Some(_), Some(_)] = self.sequence_bases.0 {
            return;
        }
        let previous = |number: TcpSequence| number.add(u32::MAX);
        let (own, peer) = self.sequence_bases.own_and_peer(sender);
        own.get_or_insert(if segment.flags.syn() { segment.sequence } else { previous(segment.sequence) });
        if segment.flags.ack() {
            peer.get_or_insert(previous(segment.acknowledgment));
        }
    }

    /// Returns the relative numbers of a segment that a side sent.
    pub(super) fn relative_numbers(&self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) -> TcpSegmentNumbers {
        let (own, peer) = (self.sequence_bases[sender], self.sequence_bases[sender.peer()]);
        let relative =
            |start: Option<TcpSequence>, number: TcpSequence| start.map_or(0, |start| number.0.wrapping_sub(start.0));
        let acknowledgment = if segment.flags.ack() { relative(peer, segment.acknowledgment) } else { 0 };
        TcpSegmentNumbers { stream: self.number, sequence: relative(own, segment.sequence), acknowledgment }
    }

    pub(super) fn side_with_gap(&self) -> Option<ConnectionSideAOrB> {
        ConnectionSideAOrB::BOTH.into_iter().find(|side| self.directions[*side].has_gap())
    }

    pub(super) fn set_protocol(&mut self, verdict: StreamProtocolDetection) {
        let is_opening = matches!(self.protocol, StreamProtocol::Opening);
        self.has_carried_rpc |= matches!(verdict, StreamProtocolDetection::Records | StreamProtocolDetection::Mpa);
        self.protocol = match verdict {
            StreamProtocolDetection::Mpa => StreamProtocol::Mpa(Box::default()),
            StreamProtocolDetection::Tls => StreamProtocol::Tls,
            StreamProtocolDetection::Undecided => return,
            StreamProtocolDetection::Other => StreamProtocol::Other,
            StreamProtocolDetection::Records => {
                let mut records = Box::<ConnectionSidePair<CapturedRpcRecordParser>>::default();
                for side in ConnectionSideAOrB::BOTH {
                    if is_opening && self.directions[side].has_begun() {
                        records[side].expect_record();
                    }
                }
                StreamProtocol::Records(records)
            }
        };
    }

    /// Searches all buffered segments for the protocol of a stream whose first bytes were not captured. If none
    /// reveals it, drops them and returns each of their frames with the reason.
    #[must_use]
    pub(super) fn detect_in_buffered(&mut self) -> Vec<(FrameNumber, UndecodedReason)> {
        match &mut self.protocol {
            StreamProtocol::Opening => {}
            StreamProtocol::MidStream { possible_starts: starts, .. } => {
                let starts = std::mem::take(starts).map(|starts| starts.0).into_iter().flatten();
                let frames = starts.flat_map(|mut start| start.clear().frames).collect();
                return self.undetected(frames);
            }
            _ => return Vec::new(),
        }
        let ports = self.port_numbers();
        let payloads = self.directions.0.iter().flat_map(TcpStreamDirection::buffered_payloads);
        let verdicts = payloads.map(|data| stream_protocol::detect_by_segment(data, ports, true));
        let verdict = { verdicts }.find(|verdict| *verdict != StreamProtocolDetection::Undecided);
        match verdict {
            Some(verdict) => {
                self.set_protocol(verdict);
                Vec::new()
            }
            None => self.drop_buffered(StreamProtocol::mid_stream(1)),
        }
    }

    /// Returns `true` if the first captured bytes of a direction, which begin no message, may follow others: its SYN was
    /// not captured, or the ports suggest RPC, so that the SYN may be a stray one.
    pub(super) fn may_have_begun_before(&self, sender: ConnectionSideAOrB) -> bool {
        !self.directions[sender].has_begun() || stream_protocol::includes_nfs_port(self.port_numbers())
    }

    /// Sets a protocol and drops the buffered segments. Returns each of their frames with the reason if the
    /// stream uses an NFS port.
    #[must_use]
    pub(super) fn drop_buffered(&mut self, protocol: StreamProtocol) -> Vec<(FrameNumber, UndecodedReason)> {
        self.protocol = protocol;
        self.has_cut_messages |= self.is_cut;
        let frames = self.directions.0.iter().flat_map(TcpStreamDirection::buffered_frames).collect();
        self.directions.0.iter_mut().for_each(TcpStreamDirection::reset);
        self.undetected(frames)
    }

    /// Returns each of the frames with the reason why it was not decoded if the stream uses an NFS port.
    pub(super) fn undetected(&self, mut frames: Vec<FrameNumber>) -> Vec<(FrameNumber, UndecodedReason)> {
        if !stream_protocol::includes_nfs_port(self.port_numbers()) {
            return Vec::new();
        }
        let reason = stream_protocol::unknown_stream_reason(self.is_cut);
        frames.sort_unstable();
        frames.dedup();
        frames.into_iter().map(|frame| (frame, reason)).collect()
    }

    pub(super) fn port_numbers(&self) -> [Port; 2] {
        [self.ports.a.1, self.ports.b.1]
    }

    /// Returns the first deadline of a gap, and the side that sends that direction. Bytes that wait for the
    /// other direction have no deadline while that has a gap.
    pub(super) fn deadline(&self) -> Option<(Timestamp, ConnectionSideAOrB)> {
        let deadline = |side| {
            let (own, peer) = (&self.directions[side], &self.directions[side.peer()]);
            let deadline = own.deadline()?;
            (own.has_gap() || !peer.has_gap()).then_some((deadline, side))
        };
        let deadlines = ConnectionSideAOrB::BOTH.into_iter().filter_map(deadline);
        let (deadline, side) = deadlines.min_by_key(|(deadline, _)| *deadline)?;
        // After a reset, only what the other capture point delays follows.
        let last = self.reset.map(|(_, time)| Timestamp(time.0.saturating_add_unsigned(direction::MAX_CLOCK_SKEW_NS)));
        Some((last.map_or(deadline, |last| last.min(deadline)), side))
    }

    /// Returns the number of bytes that wait behind gaps, or for the detection of the protocol.
    pub(super) fn waiting_bytes(&self) -> usize {
        let stray_bytes = self.stray.as_ref().map_or(0, |stray| size_of::<StraySegment>() + stray.bytes.len());
        self.directions.0.iter().map(TcpStreamDirection::buffered_bytes).sum::<usize>() + stray_bytes
    }

    /// Returns the memory in bytes, without buffered bytes.
    fn memory_bytes(&self) -> usize {
        let directions = self.directions.0.iter().map(TcpStreamDirection::memory_bytes);
        STREAM_BYTES + self.protocol.memory_bytes() + directions.sum::<usize>()
    }

    /// Returns `true` if its eviction loses nothing.
    pub(super) fn is_evictable(&self) -> bool {
        self.is_ending
            || matches!(
                self.protocol,
                StreamProtocol::Other | StreamProtocol::Opening | StreamProtocol::MidStream { .. }
            )
    }
}

/// Bytes counted for a stream itself and its places in tables.
const STREAM_BYTES: usize = size_of::<TcpConversation>() + 2 * size_of::<(EndpointPair, usize)>();

/// Maximum number of streams with gaps that [`TcpConversationTable::has_undetermined_between`] examines.
const MAX_EXAMINED_GAPS: usize = 64;

/// All TCP streams.
#[derive(Debug)]
pub(super) struct TcpConversationTable {
    slots: slab::Slab<TcpConversation>,
    by_ports: FxHashMap<EndpointPair, usize>,
    /// Stream of the last segment, with its endpoints.
    last: Option<(EndpointPair, usize)>,
    /// Number of streams so far.
    count: u64,
    /// Deadlines of the gaps of streams, sorted.
    deadlines: BTreeSet<(Timestamp, usize)>,
    /// Memory in bytes of all streams, without buffered bytes.
    counted_memory_bytes: usize,
    max_streams: usize,
    /// Streams with right checksums in both directions, and directions with wrong ones.
    checksums: ChecksumCounts,
}

impl TcpConversationTable {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            slots: slab::Slab::new(),
            by_ports: FxHashMap::default(),
            last: None,
            count: 0,
            deadlines: BTreeSet::new(),
            counted_memory_bytes: 0,
            max_streams: bound.max(1),
            checksums: ChecksumCounts::default(),
        }
    }

    /// Returns `true` if streams have right checksums in both directions, so that a wrong one means damage.
    pub(super) fn have_right_checksums(&self) -> bool {
        self.checksums.show_damage()
    }

    /// Records the checksum of a segment. Returns `true` if it shows damage.
    pub(super) fn record_checksum(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        (length, checksum): (u32, TcpChecksum),
    ) -> bool {
        let Some(stream) = self.slots.get_mut(at) else { return false };
        let (own, peer) = stream.directions.own_and_peer(sender);
        let before = own.checksums();
        let is_damaged = own.record_checksum(length, checksum, self.checksums);
        if own.checksums().have_begun_after(before) && peer.checksums().show_damage() {
            self.checksums.add_right();
        } else if own.checksums().have_misled_after(before) {
            self.checksums.add_wrong();
        }
        is_damaged
    }

    /// Returns the stream of a segment from `ports.a` to `ports.b`, and the side that sent it.
    pub(super) fn find(&mut self, ports: EndpointPair) -> (usize, ConnectionSideAOrB) {
        match &self.last {
            Some((last, at)) if *last == ports => return (*at, ConnectionSideAOrB::A),
            Some((last, at)) if last.is_reverse_of(&ports) => return (*at, ConnectionSideAOrB::B),
            _ => {}
        }
        let Self { slots, by_ports, count, max_streams: bound, .. } = self;
        let at = *by_ports.entry(ports.in_canonical_order().0).or_insert_with(|| {
            *count += 1;
            bounded_slab_growth::insert(slots, *bound, TcpConversation::new(ports, *count - 1))
        });
        let of_stream = slots.get(at).map_or(ports, |stream| stream.ports);
        self.last = Some((of_stream, at));
        (at, ConnectionSideAOrB::a_if(of_stream.a == ports.a))
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut TcpConversation> {
        self.slots.get_mut(at)
    }

    /// Returns the stream of the last segment.
    pub(super) fn last(&self) -> Option<&TcpConversation> {
        self.last.and_then(|(_, at)| self.slots.get(at))
    }

    /// Returns the indexes of all streams.
    pub(super) fn all(&self) -> Vec<usize> {
        self.slots.iter().map(|(at, _)| at).collect()
    }

    /// Returns the number of streams or table entries, whichever is larger, and buffered bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let marks = self.by_ports.len().max(self.deadlines.len());
        (
            self.slots.len().max(marks),
            self.slots.iter().map(|(_, stream)| stream.waiting_bytes() + stream.protocol.buffered_bytes()).sum(),
        )
    }

    /// Replaces a stream by its next incarnation between the same ports.
    pub(super) fn begin_incarnation(&mut self, at: usize, ports: EndpointPair) {
        if let Some(stream) = self.slots.get_mut(at) {
            if let Some(deadline) = stream.deadline {
                self.deadlines.remove(&(deadline, at));
            }
            let directions = std::mem::take(&mut stream.directions).swapped_if(stream.ports != ports);
            *stream = TcpConversation {
                previous: Some(Box::new(PreviousStreamIncarnation::new(&directions))),
                counted_memory_bytes: stream.counted_memory_bytes,
                has_carried_rpc: stream.has_carried_rpc,
                ..TcpConversation::new(ports, self.count)
            };
            self.count += 1;
            if let Some((last, _)) = self.last.as_mut().filter(|(_, last)| *last == at) {
                *last = ports;
            }
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.last = None;
        if let Some(stream) = self.slots.try_remove(at) {
            self.counted_memory_bytes -= stream.counted_memory_bytes as usize;
            self.by_ports.remove(&stream.ports.in_canonical_order().0);
            if let Some(deadline) = stream.deadline {
                self.deadlines.remove(&(deadline, at));
            }
        }
    }

    /// Updates the deadline of the first gap of a stream. Most have none.
    #[inline]
    pub(super) fn update_deadline(&mut self, at: usize) {
        let Some(stream) = self.slots.get(at) else { return };
        if stream.deadline.is_some() || !stream.directions.0.iter().all(TcpStreamDirection::has_nothing_missing) {
            self.enter_deadline(at);
        }
    }

    #[inline(never)]
    fn enter_deadline(&mut self, at: usize) {
        let Some(stream) = self.slots.get_mut(at) else { return };
        let deadline = stream.deadline().map(|(deadline, _)| deadline);
        if deadline != stream.deadline {
            if let Some(old_deadline) = stream.deadline {
                self.deadlines.remove(&(old_deadline, at));
            }
            stream.deadline = deadline;
            self.deadlines.extend(deadline.map(|deadline| (deadline, at)));
        }
    }

    /// Returns a stream with a gap whose deadline has passed.
    #[inline]
    pub(super) fn next_due(&self, now: Timestamp) -> Option<usize> {
        let ends = [self.deadlines.first()?, self.deadlines.last()?];
        ends.into_iter().find(|(deadline, _)| direction::is_past(*deadline, now)).map(|(_, at)| *at)
    }

    /// Returns `true` if all bytes of a stream between these addresses wait after a gap: it may carry RPC. With many
    /// gaps, returns `true` without a search.
    pub(super) fn has_undetermined_between(&self, addresses: (Address, Address)) -> bool {
        let mut waiting = self.deadlines.iter().filter_map(|(_, at)| self.slots.get(*at));
        self.deadlines.len() > MAX_EXAMINED_GAPS
            || waiting.any(|stream| {
                stream.connection.is_none()
                    && !matches!(stream.protocol, StreamProtocol::Tls | StreamProtocol::Other)
                    && ordered_addresses(stream.ports.a.0, stream.ports.b.0) == addresses
            })
    }

    /// Updates the memory counted for a stream.
    #[inline]
    pub(super) fn update_memory(&mut self, at: usize) {
        let Some(stream) = self.slots.get_mut(at) else { return };
        let now = u32::try_from(stream.memory_bytes()).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut stream.counted_memory_bytes, now);
        self.counted_memory_bytes = (self.counted_memory_bytes + now as usize).saturating_sub(before as usize);
    }

    /// Returns the memory in bytes of all streams, without buffered bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.counted_memory_bytes
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Iterates over the calls of which a part is still to come, each with a key that no transaction has, its connection
    /// and its sender.
    pub(super) fn partial_calls(
        &self,
    ) -> impl Iterator<Item = (TransactionSlabKey, Option<ConnectionSlabKey>, ConnectionSideAOrB, PartialCall)> + '_
    {
        self.slots.iter().flat_map(|(_, stream)| {
            let records = match &stream.protocol {
                StreamProtocol::Records(records) => Some(records),
                _ => None,
            };
            [ConnectionSideAOrB::A, ConnectionSideAOrB::B].into_iter().filter_map(move |side| {
                let (start, call) = records?[side].partial_call()?;
                let key = TransactionSlabKey::of_partial_call(stream.number, side, start);
                Some((key, stream.connection, side, call))
            })
        })
    }

    pub(super) fn exceeds_limit(&self) -> bool {
        self.slots.len() > self.max_streams
    }

    /// Returns the eighth of the streams that have been idle longest; first those whose eviction loses nothing.
    pub(super) fn idle_longest(&self) -> Vec<usize> {
        let streams = self.slots.iter();
        bounded_slab_growth::eighth_to_evict(
            streams.map(|(at, stream)| (!stream.is_evictable(), stream.last_frame, at)),
        )
    }
}
