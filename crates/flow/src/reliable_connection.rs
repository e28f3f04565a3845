//! The Reliable Connection service of InfiniBand: packets with sequence numbers become RDMA operations.
//! InfiniBand Architecture Specification volume 1, section 9.7.
//!
//! A packet is placed by its PSN alone: the first packet of an RDMA Write or Read has the address, and the
//! distance in PSNs times the path MTU gives the offset. So retransmission, duplicates, loss and reordering
//! need no states of their own, except for packets captured before the first one
//! ([`early_packet_buffer`](super::early_packet_buffer)).

use std::collections::VecDeque;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::infiniband::cm::PathMtu;
use nfsrdma_dissectors::infiniband::{
    self, Aeth, InfinibandPacket, NakCode, PacketPositionInMessage, Psn, Reth, Syndrome,
};
use nfsrdma_dissectors::memory_handle::Handle;

use super::accepted_packet_inference::ReceiverPsnState;
use super::count_categories::UndecodedReason;
use super::early_packet_buffer::{OrphanReadResponse, OrphanWritePacket};
use super::extended_psn::ExtendedPsn;
use super::frame_kind::FrameContentKind;
use super::infiniband_message_reassembly::{DeliverablePacketRange, InfinibandMessageReassembler};
use super::lost_write_placement::{self, PlacedWrite, PlacementSteps, WritePacket};
use super::packet_meta::{DeliveryAnomaly, PacketMeta};
use crate::rdma_operation::{CapturedPacketPayload, RdmaAttribution, RdmaMemoryRange, RdmaOperation, RdmaSendMessage};

/// Number of RDMA Writes and Reads remembered to place following and retransmitted packets: more than any
/// queue pair has outstanding. A retransmission that starts at the first packet needs no memory.
const MAX_SPANS: usize = 128;
/// Number of messages remembered to recognize their copies; a copy of an older one is recognized by its
/// XID.
const MAX_SENT_MESSAGES: usize = 128;
/// Number of packets before and after the newest one that may be captured after the end of the connection.
const MAX_LATE_PACKETS: u64 = 16;

impl From<&Reth> for RdmaMemoryRange {
    fn from(reth: &Reth) -> Self {
        Self { handle: reth.r_key, offset: reth.va, length: reth.dmalen }
    }
}

/// An RDMA Write or Read, which uses the sequence numbers from `first` on.
#[derive(Debug)]
struct RdmaRequestSpan {
    first: ExtendedPsn,
    is_read: bool,
    range: RdmaMemoryRange,
    attribution: RdmaAttribution,
    /// `true` for the end of an RDMA Write whose beginning was lost, and for an RDMA Read whose request was lost.
    is_inferred: bool,
}

impl RdmaRequestSpan {
    fn new(first: ExtendedPsn, is_read: bool, range: RdmaMemoryRange) -> Self {
        Self { first, is_read, range, attribution: RdmaAttribution::default(), is_inferred: false }
    }
}

/// A range of a Read segment of which no byte was captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct UncapturedRdmaReadRange {
    pub(super) range: RdmaMemoryRange,
    /// Time of the Call that offers it.
    pub(super) offered: Timestamp,
    /// `true` if it must have been read: its Call is the one that was just answered.
    pub(super) is_answered: bool,
}

/// A completely captured message.
#[derive(Debug)]
struct SentMessagePsnRange {
    first: ExtendedPsn,
    last: ExtendedPsn,
    attribution: RdmaAttribution,
    /// `true` if the latest copy of its last packet was refused.
    is_refused: bool,
    /// `true` if a NAK that came less than a round trip after the accepted copy may refuse that copy.
    is_uncertain: bool,
}

/// Refusal of packets by their receiver.
#[derive(Clone, Copy, Debug)]
struct PacketRefusal {
    /// Number of the first refused packet.
    first: ExtendedPsn,
    /// `true` for an error, which ends the connection; `false` if the receiver was not ready.
    is_final: bool,
}

/// Requests of one side of a connection: the packets that use its own sequence numbers.
#[derive(Debug, Default)]
pub(super) struct RequesterPacketState {
    highest_sequence: Option<ExtendedPsn>,
    /// Sorted by `first`.
    spans: VecDeque<RdmaRequestSpan>,
    /// Index of the span looked up last.
    last_span_index: usize,
    /// Sorted by `first`.
    sent_messages: VecDeque<SentMessagePsnRange>,
    /// Packets of incomplete messages. Allocated at the first message of several packets: most messages are one
    /// packet, and there may be very many connections.
    assembly: Option<Box<InfinibandMessageReassembler>>,
    /// Messages before this number were received completely, by the acknowledgements of the peer. Missing parts
    /// of them will not come, except for packets that were captured late.
    received_until: ExtendedPsn,
    /// Delivery state of the packets at the peer.
    delivery: ReceiverPsnState,
    /// Messages before this number were acknowledged and reported as such.
    acknowledged_until: ExtendedPsn,
    /// Highest sequence number that the peer answered.
    highest_answered: Option<ExtendedPsn>,
    /// Packets that the peer refused last, unless it acknowledged them later.
    refusal: Option<PacketRefusal>,
    /// `true` if a snap length truncated the header with the memory of an RDMA Read or Write.
    has_cut_request: bool,
    /// `true` if nothing more will come.
    is_ended: bool,
}

/// Path MTU of a connection in bytes: that of its set-up, or learned from its packets, the length of every First and
/// Middle packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObservedPathMtu(Option<u32>);

impl ObservedPathMtu {
    /// Valid path MTUs. InfiniBand Architecture Specification volume 1, section 9.2.
    const ALL: [u32; 5] = [256, 512, 1024, 2048, 4096];

    /// Returns the path MTU that the client chose at the set-up.
    pub(super) fn from_set_up(path_mtu: PathMtu) -> Self {
        let at = usize::from(path_mtu.0).checked_sub(1);
        Self(at.and_then(|at| Self::ALL.get(at)).copied())
    }

    /// Returns `true` if at most `packets` lost packets can have carried `bytes` before a Last packet of `last`
    /// bytes. If the path MTU is unknown, `bytes` must fill a whole number of packets of some path MTU.
    fn can_hold(self, packets: u64, bytes: u32, last: u32) -> bool {
        match self.0 {
            Some(mtu) => u64::from(bytes) <= packets.saturating_mul(mtu.into()),
            None => Self::ALL
                .into_iter()
                .any(|mtu| last <= mtu && bytes.is_multiple_of(mtu) && u64::from(bytes / mtu) <= packets),
        }
    }

    fn record_packet_length(&mut self, position: PacketPositionInMessage, length: u32) {
        if matches!(position, PacketPositionInMessage::First | PacketPositionInMessage::Middle) && length > 0 {
            self.0 = Some(length);
        }
    }

    /// Returns the number of packets that carry `bytes`, if known.
    fn packet_count(self, bytes: u32) -> Option<u64> {
        Some(match self.0 {
            Some(mtu) => u64::from(bytes.div_ceil(mtu).max(1)),
            // No path MTU is smaller.
            None if bytes <= 256 => 1,
            None => return None,
        })
    }

    /// Returns the byte offset in its message of the packet that follows the first by `packets`.
    fn offset(
        self,
        packets: u64,
        position: PacketPositionInMessage,
        data: &CapturedPacketPayload<'_>,
        message: u32,
    ) -> Option<u64> {
        let offset = match (packets, position, self.0) {
            (0, ..) => 0,
            (_, _, Some(mtu)) => packets.checked_mul(u64::from(mtu))?,
            // The end of a message is known even if the path MTU is not, provided that a valid path MTU fits.
            (_, PacketPositionInMessage::Last, None) => {
                let preceding_bytes = u64::from(message).checked_sub(u64::from(data.length))?;
                let is_end = Self::ALL.into_iter().any(|mtu| packets.checked_mul(mtu.into()) == Some(preceding_bytes));
                is_end.then_some(preceding_bytes)?
            }
            _ => return None,
        };
        (offset + u64::from(data.length) <= u64::from(message)).then_some(offset)
    }
}

impl RequesterPacketState {
    /// Extends a PSN relative to the highest one seen.
    #[inline]
    pub(super) fn extend_psn(&self, psn: Psn) -> ExtendedPsn {
        match self.highest_sequence {
            // Leaves numbers below for packets older than the first one seen.
            None => (1 << 24) + ExtendedPsn::from(psn.0),
            Some(newest) => {
                let distance = Psn((newest & 0xff_ffff) as u32).distance(psn);
                newest.saturating_add_signed(i64::from(distance))
            }
        }
    }

    /// Returns `true` if a request with this PSN was sent recently: evidence that a response belongs here.
    pub(super) fn was_sent_recently(&self, psn: Psn) -> bool {
        self.highest_sequence.is_some_and(|newest| {
            let sequence = self.extend_psn(psn);
            sequence <= newest && newest - sequence < 1024
        })
    }

    /// Returns the heap memory in bytes, except for the payload of incomplete messages.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<RdmaRequestSpan>()
            + self.sent_messages.capacity() * size_of::<SentMessagePsnRange>()
            + self.assembly.as_ref().map_or(0, |assembly| assembly.memory_bytes())
    }

    pub(super) fn highest_sequence(&self) -> Option<ExtendedPsn> {
        self.highest_sequence
    }

    pub(super) fn has_begun(&self) -> bool {
        self.highest_sequence.is_some()
    }

    /// Returns `true` if a request with this number or a later one was captured before.
    #[inline]
    pub(super) fn was_sent_before(&self, sequence: ExtendedPsn) -> bool {
        self.highest_sequence.is_some_and(|newest| sequence <= newest)
    }

    /// Returns `true` if a request with this number may be captured after the end of the connection: its first copy,
    /// captured late, or another copy, because its acknowledgement was lost.
    pub(super) fn may_follow_end(&self, sequence: ExtendedPsn) -> bool {
        self.highest_sequence.is_none_or(|newest| {
            let next = self.delivery.expected().max(newest + 1);
            (newest.saturating_sub(MAX_LATE_PACKETS)..next + MAX_LATE_PACKETS).contains(&sequence)
        })
    }

    /// Returns `true` if the peer answered the request with this number, or a later one, before.
    #[inline]
    pub(super) fn was_answered(&self, sequence: ExtendedPsn) -> bool {
        self.highest_answered >= Some(sequence)
    }

    /// Records that the peer answers the request with this number. Returns `true` if it answered that or a
    /// later one before.
    #[inline]
    pub(super) fn record_answer(&mut self, sequence: ExtendedPsn) -> bool {
        let sequence = Some(sequence);
        let is_known = sequence <= self.highest_answered;
        self.highest_answered = self.highest_answered.max(sequence);
        is_known
    }

    /// Returns `true` if no packet of this side with this number, which the peer answers, was captured so far.
    #[inline]
    pub(super) fn is_missing(&self, sequence: ExtendedPsn) -> bool {
        self.delivery.is_missing(sequence)
    }

    /// Returns `true` if packets behind a gap were captured, and the gap is not closed.
    pub(super) fn has_gap(&self) -> bool {
        self.delivery.has_gap()
    }

    /// Returns `true` if a packet of this side with this number is captured after its acknowledgement for the first
    /// time.
    pub(super) fn is_late(&self, sequence: ExtendedPsn) -> bool {
        self.was_answered(sequence) && (!self.was_sent_before(sequence) || self.delivery.is_late(sequence))
    }

    /// Returns the times at which the receiver last requested a retransmission and at which one was last sent.
    pub(super) fn retransmission_times(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        (self.delivery.last_refusal(), self.delivery.last_retransmission())
    }

    /// Returns `true` if packets before this one may be missing although nothing shows it: it follows an RDMA Read that
    /// uses an unknown number of PSNs.
    #[inline]
    pub(super) fn may_follow_gap(&self, sequence: ExtendedPsn) -> bool {
        self.delivery.expected() == 0 && self.highest_sequence.is_some_and(|newest| sequence > newest + 1)
    }

    /// Corrects the PSN that follows the newest RDMA Read, if this new packet has a lower one: the Read announced more
    /// bytes than it asked for.
    #[inline]
    fn correct_read_length(&mut self, sequence: ExtendedPsn, packet: &InfinibandPacket<'_>) {
        if sequence < self.delivery.expected() && !self.was_sent_before(sequence) {
            self.correct_newest_read(sequence, packet);
        }
    }

    #[cold]
    fn correct_newest_read(&mut self, sequence: ExtendedPsn, packet: &InfinibandPacket<'_>) {
        let Some(span) = self.spans.iter().rev().find(|span| span.first < sequence) else { return };
        // A requester may ask for the rest of a Read again.
        let is_rest = packet.reth.as_ref().map(RdmaMemoryRange::from).is_some_and(|range| {
            range.handle == span.range.handle && range.offset >= span.range.offset && range.end() == span.range.end()
        });
        if span.is_read && Some(span.first) == self.highest_sequence && !is_rest {
            self.delivery.expect(sequence);
        }
    }

    /// Returns the anomaly of a request that this side sends, unless the receiver accepts it in order.
    #[inline]
    pub(super) fn detect_anomaly(
        &mut self,
        sequence: ExtendedPsn,
        packet: &InfinibandPacket<'_>,
        now: Timestamp,
        path_mtu: ObservedPathMtu,
    ) -> Option<DeliveryAnomaly> {
        let count = match (packet.properties.operation, packet.reth) {
            (infiniband::PacketOperation::ReadRequest, Some(reth)) => path_mtu.packet_count(reth.dmalen),
            (infiniband::PacketOperation::ReadRequest, None) => None,
            _ => Some(1),
        };
        if self.delivery.expected() == 0 {
            self.expect_after_newest_read(path_mtu);
        }
        self.correct_read_length(sequence, packet);
        self.delivery.record_packet(sequence, count, now)
    }

    /// Infers the PSN that follows the newest request if it is an RDMA Read whose responses have revealed the path MTU
    /// since.
    #[cold]
    fn expect_after_newest_read(&mut self, path_mtu: ObservedPathMtu) {
        let Some(span) = self.spans.back().filter(|span| span.is_read) else { return };
        let is_newest = Some(span.first) == self.highest_sequence;
        if let Some(count) = path_mtu.packet_count(span.range.length).filter(|_| is_newest) {
            self.delivery.expect(span.first + count);
        }
    }

    /// Returns the span that contains a sequence number: the last that begins at or before it.
    fn span_at(&mut self, sequence: ExtendedPsn) -> Option<&mut RdmaRequestSpan> {
        // The packets of one operation are consecutive: the span of the previous packet is tried first.
        let has_begun = |at: usize| self.spans.get(at).is_some_and(|span| span.first <= sequence);
        if !has_begun(self.last_span_index) || has_begun(self.last_span_index + 1) {
            let next_index = self.spans.partition_point(|span| span.first <= sequence);
            self.last_span_index = next_index.checked_sub(1)?;
        }
        self.spans.get_mut(self.last_span_index)
    }

    /// Adds an RDMA Write or Read, or returns the existing span if this is a copy.
    fn find_or_add_span(&mut self, span: RdmaRequestSpan) -> &mut RdmaRequestSpan {
        let sequence = span.first;
        let next_index = position_after(&self.spans, sequence, |span| span.first);
        let existing = next_index.checked_sub(1).filter(|index| {
            self.spans.get(*index).is_some_and(|other| {
                (other.first, other.range.handle, other.range.offset)
                    == (sequence, span.range.handle, span.range.offset)
            })
        });
        match existing {
            Some(at) => &mut self.spans[at],
            None => insert_bounded(&mut self.spans, MAX_SPANS, next_index, span, |span| span.first),
        }
    }

    /// Adds an RDMA Write whose First packet was lost and whose place was inferred.
    pub(super) fn add_inferred_write(&mut self, write: PlacedWrite) {
        let span = RdmaRequestSpan::new(write.first, false, write.range);
        self.find_or_add_span(RdmaRequestSpan { is_inferred: true, ..span });
    }

    /// Returns the end of the last known message, RDMA Write or RDMA Read before a sequence number.
    fn ends_before(&self, sequence: ExtendedPsn, mtu: u32) -> Option<ExtendedPsn> {
        let spans = self.spans.partition_point(|span| span.first < sequence);
        let span = spans.checked_sub(1).and_then(|at| self.spans.get(at));
        let span = span.map(|span| span.first + u64::from(span.range.length.div_ceil(mtu).max(1)));
        let sent = self.sent_messages.partition_point(|sent| sent.first < sequence);
        let sent = sent.checked_sub(1).and_then(|at| self.sent_messages.get(at)).map(|sent| sent.last + 1);
        span.max(sent).map(|end| end.min(sequence))
    }

    /// Returns `true` if a known message, RDMA Write or RDMA Read begins at a sequence number.
    fn begins_at(&self, sequence: ExtendedPsn) -> bool {
        self.spans.binary_search_by_key(&sequence, |span| span.first).is_ok()
            || self.sent_messages.binary_search_by_key(&sequence, |sent| sent.first).is_ok()
    }

    /// Infers the place of RDMA Writes whose First packet was lost from the unseen part of the memory that a
    /// Reply reports as written: an RDMA Write ends where an unseen range ends, and its packets are placed
    /// backward from there. `holes` are in the order in which a Responder fills chunks
    /// (RFC 8166 section 3.4.6), which is that of its RDMA Writes.
    pub(super) fn infer_lost_writes(
        &self,
        orphans: impl Iterator<Item = OrphanWritePacket>,
        holes: Vec<RdmaMemoryRange>,
        path_mtu: ObservedPathMtu,
    ) -> Vec<PlacedWrite> {
        // If the path MTU is unknown, complete operations were single packets.
        let mtu = path_mtu.0.unwrap_or(ObservedPathMtu::ALL[4]);
        let holes = self.subtract_spans(holes);
        let mut orphans: Vec<_> = { orphans }
            .map(|OrphanWritePacket { psn, is_last, length }| WritePacket {
                sequence: self.extend_psn(psn),
                is_last,
                length,
            })
            .collect();
        orphans.sort_unstable();
        orphans.dedup_by_key(|packet| packet.sequence);
        let mut steps = PlacementSteps::new();
        let writes = self.fill_gaps(&orphans, &holes, path_mtu, &mut steps);
        if !writes.is_empty() {
            return writes;
        }
        let mut writes = self.extend_inferred_write(&orphans, &holes, mtu, &mut steps);
        let mut holes = &holes[..];
        let mut start: Option<ExtendedPsn> = None;
        for WritePacket { sequence, is_last, length } in orphans {
            // An operation that begins in between ends the packets before it.
            let is_other = start.is_some_and(|first| self.ends_before(sequence, mtu) > Some(first));
            let first = start.filter(|_| !is_other).unwrap_or(sequence);
            start = Some(first);
            if !is_last {
                continue;
            }
            start = None;
            let preceding_count = self.ends_before(first, mtu).map(|end| first - end);
            // Packets lost after it would be in the same range.
            if preceding_count == Some(0) || !self.begins_at(sequence + 1) {
                continue;
            }
            // Every Middle packet reveals the path MTU: without one, the Last packet is alone.
            if path_mtu.0.is_none() && sequence != first {
                continue;
            }
            let Some(captured_length) = (sequence - first)
                .checked_mul(mtu.into())
                .and_then(|bytes| u32::try_from(bytes + u64::from(length)).ok())
            else {
                continue;
            };
            let lost_count = preceding_count.unwrap_or(u64::MAX);
            let fits = |hole: &RdmaMemoryRange| {
                hole.length > captured_length && path_mtu.can_hold(lost_count, hole.length - captured_length, length)
            };
            let searched = holes.iter().take_while(|_| steps.take(1));
            if let Some((index, hole)) = searched.enumerate().find(|(_, hole)| fits(hole)) {
                let offset = hole.offset.wrapping_add(u64::from(hole.length - captured_length));
                let range = RdmaMemoryRange { offset, length: captured_length, ..*hole };
                writes.push(PlacedWrite { first, range });
                holes = holes.get(index + 1..).unwrap_or_default();
            }
        }
        writes.sort_unstable_by_key(|target| target.first);
        writes
    }

    /// Returns the RDMA Writes that fill the PSNs between known operations. If the path MTU is unknown, only one may
    /// fit.
    fn fill_gaps(
        &self,
        orphans: &[WritePacket],
        holes: &[RdmaMemoryRange],
        path_mtu: ObservedPathMtu,
        steps: &mut PlacementSteps,
    ) -> Vec<PlacedWrite> {
        let mtus = path_mtu.0.as_ref().map_or(&ObservedPathMtu::ALL[..], std::slice::from_ref);
        let filled = mtus.iter().map(|mtu| self.fill_gaps_with(orphans, holes, *mtu, steps));
        let filled: Vec<_> = filled.filter(|all| !all.is_empty()).take(2).collect();
        match <[_; 1]>::try_from(filled) {
            Ok([writes]) if !steps.is_exhausted() => writes,
            _ => Vec::new(),
        }
    }

    fn fill_gaps_with(
        &self,
        orphans: &[WritePacket],
        mut holes: &[RdmaMemoryRange],
        mtu: u32,
        steps: &mut PlacementSteps,
    ) -> Vec<PlacedWrite> {
        let mut packets = orphans.to_vec();
        let mut writes = Vec::new();
        // The Writes of this Reply are the last ones.
        while let Some(newest) = packets.last().map(|packet| packet.sequence)
            && !holes.is_empty()
        {
            let Some(end) = self.next_begin(newest) else { break };
            let Some(start) = self.ends_before(newest, mtu) else {
                let placed = lost_write_placement::fill_until(end, &packets, holes, mtu, steps).unwrap_or_default();
                writes.extend(placed.into_iter().rev());
                break;
            };
            let of_gap = packets.split_off(packets.partition_point(|packet| packet.sequence < start));
            if of_gap.is_empty() {
                break;
            }
            if let Some((placed, count)) = lost_write_placement::fill_gap(start..end, &of_gap, holes, mtu, steps) {
                holes = holes.get(..holes.len() - count).unwrap_or_default();
                writes.extend(placed.into_iter().rev());
            }
        }
        writes.reverse();
        writes
    }

    /// Returns the sequence number at which the next known message, RDMA Write or RDMA Read after another begins.
    fn next_begin(&self, sequence: ExtendedPsn) -> Option<ExtendedPsn> {
        let span = self.spans.get(self.spans.partition_point(|span| span.first <= sequence)).map(|span| span.first);
        let sent = self.sent_messages.partition_point(|sent| sent.first <= sequence);
        let sent = self.sent_messages.get(sent).map(|sent| sent.first);
        span.into_iter().chain(sent).min()
    }

    /// Returns the place of the packets directly before an RDMA Write that was itself inferred: they were lost when its
    /// Reply came, and sent again after it.
    fn extend_inferred_write(
        &self,
        orphans: &[WritePacket],
        holes: &[RdmaMemoryRange],
        mtu: u32,
        steps: &mut PlacementSteps,
    ) -> Vec<PlacedWrite> {
        let mut writes = Vec::new();
        for span in self.spans.iter().filter(|span| span.is_inferred && !span.is_read) {
            let count = orphans.partition_point(|packet| packet.sequence < span.first);
            let preceding = orphans.iter().take(count).rev();
            let run = (1..).zip(preceding).take_while(|(distance, packet)| {
                packet.sequence + distance == span.first && !packet.is_last && packet.length == mtu && steps.take(1)
            });
            let count = run.count() as u32;
            let length = count.saturating_mul(mtu);
            let RdmaMemoryRange { handle, offset, .. } = span.range;
            let fits = |hole: &RdmaMemoryRange| {
                hole.handle == handle && hole.length >= length && hole.offset.wrapping_add(hole.length.into()) == offset
            };
            if count > 0 && steps.take(holes.len()) && holes.iter().any(fits) {
                let first = span.first - u64::from(count);
                let range = RdmaMemoryRange { handle, offset: offset.wrapping_sub(length.into()), length };
                writes.push(PlacedWrite { first, range });
            }
        }
        writes
    }

    /// Adds the RDMA Reads of complete responses whose requests were lost. A response is placed if its packets fill a
    /// gap between the known requests of this side, and if only one unread range is long enough for it: one of the
    /// answered Call, with the length of this response alone. `attribute` returns the owner of a range. Returns `true`
    /// if any was added.
    pub(super) fn infer_lost_reads(
        &mut self,
        responses: &[OrphanReadResponse],
        mut unread: Vec<UncapturedRdmaReadRange>,
        path_mtu: ObservedPathMtu,
        attribute: impl Fn(RdmaMemoryRange) -> RdmaAttribution,
    ) -> bool {
        // If the path MTU is unknown, complete operations were single packets.
        let mtu = path_mtu.0.unwrap_or(ObservedPathMtu::ALL[4]);
        unread.retain(|unread| !self.spans.iter().any(|span| span.is_read && span.range.overlaps(&unread.range)));
        let mut has_found = false;
        for response in responses {
            let first = self.extend_psn(response.first);
            let end = first + u64::from(response.packets);
            let is_gap = self.ends_before(first, mtu) == Some(first) && self.begins_at(end);
            let is_only = responses.iter().filter(|other| other.length == response.length).count() == 1;
            let is_long_enough = |unread: &UncapturedRdmaReadRange| {
                unread.range.length >= response.length && unread.offered <= response.time
            };
            let mut fitting = (0..).zip(&unread).filter(|(_, unread)| is_long_enough(unread));
            let (Some((at, fits)), None) = (fitting.next(), fitting.next()) else { continue };
            if !is_gap || !is_only || !fits.is_answered || fits.range.length != response.length {
                continue;
            }
            let UncapturedRdmaReadRange { range, .. } = unread.swap_remove(at);
            self.find_or_add_span(RdmaRequestSpan {
                attribution: attribute(range),
                is_inferred: true,
                ..RdmaRequestSpan::new(first, true, range)
            });
            has_found = true;
        }
        has_found
    }

    /// Subtracts the known RDMA Writes from unseen ranges: some of their packets were lost.
    fn subtract_spans(&self, mut holes: Vec<RdmaMemoryRange>) -> Vec<RdmaMemoryRange> {
        for span in self.spans.iter().filter(|span| !span.is_read) {
            let Some(at) = holes.iter().position(|hole| hole.overlaps(&span.range)) else { continue };
            let hole = holes.remove(at);
            let before = hole.offset..span.range.offset.min(hole.end());
            let after = span.range.end().max(hole.offset)..hole.end();
            let parts = [before, after].into_iter().filter(|part| !part.is_empty());
            let parts = parts.map(|part| RdmaMemoryRange {
                offset: part.start,
                length: (part.end - part.start) as u32,
                ..hole
            });
            holes.splice(at..at, parts);
        }
        holes
    }

    /// Records that a snap length truncated the header with the memory of an RDMA Read or Write.
    #[cold]
    fn record_cut_request(&mut self) -> FrameContentKind {
        self.has_cut_request = true;
        FrameContentKind::Undecoded(UndecodedReason::CutFrame)
    }

    /// Processes a request packet of this side with the number `sequence`.
    ///
    /// # Errors
    /// Returns the meaning of a packet that yields no operation.
    #[inline(always)]
    pub(super) fn process_request<'a>(
        &'a mut self,
        packet: &InfinibandPacket<'a>,
        sequence: ExtendedPsn,
        packet_meta: PacketMeta<'a>,
        path_mtu: &mut ObservedPathMtu,
    ) -> Result<RdmaOperation<'a>, FrameContentKind> {
        let data = CapturedPacketPayload { bytes: packet.payload.bytes, length: packet.payload.length as u32 };
        let position = packet.properties.position;
        let without_first = FrameContentKind::Undecoded(match self.has_cut_request {
            true => UndecodedReason::CutWrite,
            false => UndecodedReason::WriteWithoutFirst,
        });
        self.highest_sequence = self.highest_sequence.max(Some(sequence));
        match packet.properties.operation {
            infiniband::PacketOperation::Write => {
                path_mtu.record_packet_length(position, data.length);
                let span = match position {
                    PacketPositionInMessage::First | PacketPositionInMessage::Only => {
                        let reth = packet.reth.as_ref().ok_or_else(|| self.record_cut_request())?;
                        self.find_or_add_span(RdmaRequestSpan::new(sequence, false, reth.into()))
                    }
                    _ => self.span_at(sequence).filter(|span| !span.is_read).ok_or(without_first)?,
                };
                let range = span.range;
                let at = path_mtu.offset(sequence - span.first, position, &data, range.length).ok_or(without_first)?;
                Ok(RdmaOperation::Write {
                    handle: range.handle,
                    offset: range.offset.wrapping_add(at),
                    data,
                    attribution: &mut span.attribution,
                })
            }
            infiniband::PacketOperation::ReadRequest => {
                let reth = packet.reth.as_ref().ok_or_else(|| self.record_cut_request())?;
                let span = self.find_or_add_span(RdmaRequestSpan::new(sequence, true, reth.into()));
                let RdmaMemoryRange { handle, offset, length } = span.range;
                let attribution = &mut span.attribution;
                Ok(RdmaOperation::ReadRequest { handle, offset, length, attribution })
            }
            infiniband::PacketOperation::Send => {
                path_mtu.record_packet_length(position, data.length);
                self.process_send(sequence, (position, data, packet.invalidate), packet_meta)
            }
            _ => Err(FrameContentKind::Control),
        }
    }

    /// Processes a response packet of the peer to the request of this side with the number `sequence`.
    ///
    /// # Errors
    /// Returns the meaning of a packet that yields no operation.
    #[inline(always)]
    pub(super) fn process_response<'a>(
        &mut self,
        packet: &InfinibandPacket<'a>,
        sequence: ExtendedPsn,
        path_mtu: &mut ObservedPathMtu,
    ) -> Result<RdmaOperation<'a>, FrameContentKind> {
        if packet.properties.operation != infiniband::PacketOperation::ReadResponse {
            if self.has_partial_messages()
                && let Some(Aeth { syndrome: Syndrome::Ack { .. }, .. }) = packet.aeth
            {
                self.record_acknowledgment(sequence);
            }
            return Err(FrameContentKind::Control);
        }
        let data = CapturedPacketPayload { bytes: packet.payload.bytes, length: packet.payload.length as u32 };
        let position = packet.properties.position;
        path_mtu.record_packet_length(position, data.length);
        let without_request = FrameContentKind::Undecoded(match self.has_cut_request {
            true => UndecodedReason::CutRead,
            false => UndecodedReason::ReadWithoutRequest,
        });
        let span = self.span_at(sequence).filter(|span| span.is_read).ok_or(without_request)?;
        let range = span.range;
        let at = path_mtu.offset(sequence - span.first, position, &data, range.length).ok_or(without_request)?;
        Ok(RdmaOperation::ReadResponse { offset: range.offset.wrapping_add(at), data, attribution: span.attribution })
    }

    #[inline(never)]
    fn process_send<'a>(
        &'a mut self,
        sequence: ExtendedPsn,
        (position, data, invalidated_handle): (PacketPositionInMessage, CapturedPacketPayload<'a>, Option<Handle>),
        packet_meta: PacketMeta<'a>,
    ) -> Result<RdmaOperation<'a>, FrameContentKind> {
        let ends = position.ends();
        let next_index = match self.sent_messages.back() {
            Some(sent) if sent.first <= sequence => self.sent_messages.len(),
            _ => self.sent_messages.partition_point(|sent| sent.first <= sequence),
        };
        if let Some(sent) = next_index.checked_sub(1).and_then(|index| self.sent_messages.get_mut(index))
            && sequence <= sent.last
        {
            if ends && !packet_meta.is_duplicate() {
                sent.is_refused = packet_meta.is_refused();
            }
            return Ok(RdmaOperation::SendRetransmission { attribution: sent.attribution, ends });
        }
        if position == PacketPositionInMessage::Only {
            let owner = record_sent(&mut self.sent_messages, sequence, sequence, packet_meta.is_refused());
            let message = RdmaSendMessage {
                bytes: data.bytes,
                length: data.length as usize,
                gaps: &[],
                frames: packet_meta.frames,
                time: packet_meta.time,
                end_time: packet_meta.time,
                stall: packet_meta.stall(),
                invalidated_handle,
            };
            return Ok(RdmaOperation::Send { message, attribution: owner });
        }
        let assembly = self.assembly.get_or_insert_default();
        assembly.add(sequence, (position, data, invalidated_handle), packet_meta);
        match assembly.run_around(sequence) {
            Some(run) if run.is_complete => self.deliver(run).ok_or(FrameContentKind::PartialMessage),
            _ if assembly.is_full() => self.take_incomplete_message(|_| true).ok_or(FrameContentKind::PartialMessage),
            _ => Err(FrameContentKind::PartialMessage),
        }
    }

    /// Concatenates the packets of a run into a message.
    fn deliver(&mut self, run: DeliverablePacketRange) -> Option<RdmaOperation<'_>> {
        let delivered = self.assembly.as_mut()?.deliver(run);
        let owner = record_sent(&mut self.sent_messages, delivered.first, delivered.last, delivered.is_refused);
        Some(RdmaOperation::Send { message: delivered.message, attribution: owner })
    }

    /// Returns `true` if packets of incomplete messages are buffered.
    pub(super) fn has_partial_messages(&self) -> bool {
        self.assembly.as_ref().is_some_and(|assembly| !assembly.is_empty())
    }

    /// Returns the number of payload bytes of incomplete messages.
    pub(super) fn partial_message_bytes(&self) -> usize {
        self.assembly.as_ref().map_or(0, |assembly| assembly.payload_bytes())
    }

    /// Ends the wait for the rest of a message whose First packet `is_wanted` accepts, and returns its captured
    /// part.
    pub(super) fn take_incomplete_message(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> Option<RdmaOperation<'_>> {
        let run = self.assembly.as_mut()?.find_incomplete(is_wanted)?;
        self.deliver(run)
    }

    /// Handles an acknowledgement of a packet and of every message complete before it.
    fn record_acknowledgment(&mut self, sequence: ExtendedPsn) {
        if self.highest_sequence.is_none_or(|newest| sequence > newest) {
            return;
        }
        let sent = self.sent_messages.partition_point(|sent| sent.first <= sequence);
        let sent = sent.checked_sub(1).and_then(|at| self.sent_messages.get(at)).map(|sent| sent.first);
        let span = self.spans.partition_point(|span| span.first <= sequence);
        let span = span.checked_sub(1).and_then(|at| self.spans.get(at)).map(|span| span.first);
        let parts = self.assembly.iter().flat_map(|assembly| assembly.boundaries_until(sequence));
        self.received_until = parts.chain(sent).chain(span).chain([self.received_until]).max().unwrap_or_default();
    }

    /// Handles an ACK or NAK with the number `sequence`: returns the attributions of the messages that it is the first
    /// to acknowledge. A NAK acknowledges the packets before it.
    #[inline]
    pub(super) fn process_acknowledgment(
        &mut self,
        sequence: ExtendedPsn,
        syndrome: Syndrome,
        now: Timestamp,
    ) -> impl Iterator<Item = RdmaAttribution> + '_ {
        // An RDMA Read uses the numbers of its responses.
        let end = self.highest_sequence.map_or(0, |newest| newest + 1).max(self.delivery.expected());
        let is_known = sequence < end;
        let until = match syndrome {
            Syndrome::Ack { .. } if is_known => {
                self.delivery.record_round_trip(sequence + 1, now);
                sequence + 1
            }
            Syndrome::Nak(NakCode::PSN_SEQUENCE_ERROR) | Syndrome::RnrNak { .. } => {
                let until = sequence.min(end);
                if until > 0 && self.delivery.record_nak(until, now) {
                    self.mark_uncertain(until);
                }
                until
            }
            _ => 0,
        };
        let is_gap_proven = self.delivery.has_proven_gap();
        self.delivery.acknowledge(until);
        let from = self.acknowledged_until;
        self.acknowledged_until = from.max(until);
        // Those that were not acknowledged before are few, at the end of the list.
        let count = match until > from {
            true => self.sent_messages.iter().rev().take_while(|sent| sent.last >= from).count(),
            false => 0,
        };
        let acknowledged = self.sent_messages.range(self.sent_messages.len() - count..);
        let acknowledged = acknowledged.take_while(move |sent| sent.last < until);
        // For a refused message, the accepted copy was not captured.
        let is_accepted = move |sent: &&SentMessagePsnRange| !(sent.is_uncertain || sent.is_refused && is_gap_proven);
        acknowledged.filter(is_accepted).map(|sent| sent.attribution)
    }

    /// Marks the messages whose accepted copies were captured before a NAK that names `from`, which may refuse them.
    #[cold]
    fn mark_uncertain(&mut self, from: ExtendedPsn) {
        let end = self.delivery.expected();
        let messages = self.sent_messages.iter_mut().rev().take_while(|sent| sent.last >= from);
        messages.filter(|sent| sent.last < end).for_each(|sent| sent.is_uncertain = true);
    }

    /// Records what an ACK or NAK with this number says about refused packets. Returns `true` if it refuses packets other
    /// than with a sequence error, after which they are sent again.
    #[inline]
    pub(super) fn record_refusal(&mut self, sequence: ExtendedPsn, syndrome: Syndrome) -> bool {
        match syndrome {
            Syndrome::Ack { .. } => {
                if self.refusal.is_some_and(|refusal| refusal.first <= sequence) {
                    self.refusal = None;
                }
                false
            }
            Syndrome::Nak(NakCode::PSN_SEQUENCE_ERROR) => false,
            Syndrome::Nak(_) | Syndrome::RnrNak { .. } => {
                let is_final = matches!(syndrome, Syndrome::Nak(_));
                let is_known = self.has_final_refusal() || sequence < self.acknowledged_until;
                if !is_known {
                    self.refusal = Some(PacketRefusal { first: sequence, is_final });
                }
                !is_known
            }
            _ => false,
        }
    }

    fn has_final_refusal(&self) -> bool {
        self.refusal.is_some_and(|refusal| refusal.is_final)
    }

    /// Returns `true` if the peer refused the packet with this number for good, or one before it.
    #[inline]
    pub(super) fn is_refused(&self, sequence: ExtendedPsn) -> bool {
        self.refusal.is_some_and(|refusal| refusal.is_final && refusal.first <= sequence)
    }

    /// Returns the attributions of the messages with refused packets, and `true` if they are refused for good. At the end
    /// of the connection, `is_end`, those that were to be sent again after a sequence error count, too.
    pub(super) fn refused_messages(&self, is_end: bool) -> (impl Iterator<Item = RdmaAttribution> + '_, bool) {
        let refused = self.refusal.map(|refusal| refusal.first);
        let unrepeated = Some(self.delivery.expected()).filter(|_| is_end && self.delivery.has_proven_gap());
        let first = [refused, unrepeated].into_iter().flatten().min().unwrap_or(ExtendedPsn::MAX);
        let messages = self.sent_messages.iter().rev().take_while(move |sent| sent.last >= first);
        (messages.map(|sent| sent.attribution), self.has_final_refusal())
    }

    /// Returns `true` if the peer has acknowledged the packet with this number.
    pub(super) fn is_acknowledged(&self, sequence: ExtendedPsn) -> bool {
        sequence < self.acknowledged_until
    }

    /// Ends all messages: nothing more will come.
    pub(super) fn finish(&mut self) {
        self.received_until = ExtendedPsn::MAX;
        self.is_ended = true;
    }

    /// Returns an incomplete message that is acknowledged or ended, once the rest had time to arrive: the clock
    /// of the host that captured the acknowledgement may be ahead.
    pub(super) fn take_ended_message(&mut self, now: Timestamp) -> Option<RdmaOperation<'_>> {
        let run = self.assembly.as_mut()?.next_ended(self.received_until, self.is_ended, now)?;
        self.deliver(run)
    }

    pub(super) fn drop_partial_messages(&mut self) {
        if let Some(assembly) = &mut self.assembly {
            assembly.clear();
        }
    }

    /// Returns the number of frames of dropped packets since the last call.
    pub(super) fn take_dropped_frames(&mut self) -> u64 {
        self.assembly.as_mut().map_or(0, |assembly| assembly.take_dropped_frames())
    }
}

/// Records a message to recognize its copies, and returns its attribution slot.
fn record_sent(
    sent: &mut VecDeque<SentMessagePsnRange>,
    first: ExtendedPsn,
    last: ExtendedPsn,
    is_refused: bool,
) -> &mut RdmaAttribution {
    let message =
        SentMessagePsnRange { first, last, attribution: RdmaAttribution::default(), is_refused, is_uncertain: false };
    let at = position_after(sent, first, |sent| sent.first);
    &mut insert_bounded(sent, MAX_SENT_MESSAGES, at, message, |sent| sent.first).attribution
}

/// Returns the index behind the entries that begin at or before `sequence`; mostly that is the end of the list.
#[inline]
fn position_after<T>(list: &VecDeque<T>, sequence: ExtendedPsn, first: impl Fn(&T) -> ExtendedPsn) -> usize {
    match list.back() {
        Some(last) if first(last) > sequence => list.partition_point(|entry| first(entry) <= sequence),
        _ => list.len(),
    }
}

/// Inserts an entry at index `at`, which keeps the list sorted, and returns it. If the list has `bound` entries, one is
/// removed before its capacity would double: from the end that is farther from the new entry, because a queue pair
/// whose restart was not captured may count from below the recorded entries.
fn insert_bounded<T>(
    list: &mut VecDeque<T>,
    bound: usize,
    mut at: usize,
    entry: T,
    first: impl Fn(&T) -> ExtendedPsn,
) -> &mut T {
    if list.len() >= bound {
        let [front, back] = [list.front(), list.back()].map(|entry| entry.map_or(0, &first));
        let sequence = first(&entry);
        if at == 0 || sequence.saturating_sub(front) < back.saturating_sub(sequence) {
            list.pop_back();
            at = at.min(list.len());
        } else {
            list.pop_front();
            at -= 1;
        }
    }
    if at == list.len() {
        list.push_back(entry);
    } else {
        list.insert(at, entry);
    }
    &mut list[at]
}
