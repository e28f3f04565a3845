//! Reassembly of one direction of a TCP stream. RFC 9293 sections 3.4 and 3.10.7.4.
//!
//! Segments in order pass through without a copy. Those after a gap are buffered until the gap is filled or skipped: at
//! once if too many bytes are buffered, soon if the receiver has acknowledged the missing bytes and later ones of their
//! sender were captured, after a second if none were, or others were captured after their acknowledgement (the clocks
//! of the directions differ), otherwise when no retransmission is to be expected any more. Bytes sent after receiving
//! some of the other direction wait for those.

use std::collections::{BTreeMap, VecDeque};
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::net::{TcpChecksum, TcpSegment, TcpSequence};
use nfsrdma_dissectors::rpc::RpcMessageKind;

use super::stream_bytes::{StreamBytes, StreamPosition, TcpDirectionReader};
use super::tcp_receiver_loss_reports::{self, RetransmissionDelayedMessage, TcpReceiverAcknowledgements};
use crate::by_side::ConnectionSidePair;
use crate::duplicate_frames::VaryingIpIdDetector;
use crate::packet_meta::{DeliveryAnomaly, PacketMeta};
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB, RetransmissionStall};
use crate::transaction_slab_key::TransactionSlabKey;

/// Nanoseconds of frame time that an acknowledged segment may be captured after later ones of its sender: multiple
/// queues reorder frames.
const MAX_CAPTURE_DELAY_NS: u64 = 50_000_000;

/// Nanoseconds of frame time that one direction may be captured later than the other: their clocks may differ, as
/// those of two capture cards or mirror ports. Sequence and acknowledgement numbers give the order until then.
pub(crate) const MAX_CLOCK_SKEW_NS: u64 = 1_000_000_000;

/// Nanoseconds that an unacknowledged gap waits: longer than the retransmission of a lost segment takes,
/// whose timeout doubles with every loss (RFC 6298 section 5).
const MAX_UNACKNOWLEDGED_WAIT_NS: u64 = 30_000_000_000;

/// Returns `true` if the deadline of a gap has passed. A deadline farther ahead than any wait is from
/// before the clock went back.
pub(crate) fn is_past(deadline: Timestamp, now: Timestamp) -> bool {
    deadline <= now || deadline.abs_diff_ns(now) > 2 * MAX_UNACKNOWLEDGED_WAIT_NS
}

/// Nanoseconds of frame time within which a copy of a segment may arrive: the Maximum Segment Lifetime of
/// RFC 9293 section 3.4.2, in which no sequence number is reused.
pub(crate) const MAX_SEGMENT_LIFETIME_NS: u64 = 120_000_000_000;

/// Maximum distance in bytes of a segment of this stream from the expected position: larger than any
/// window.
const MAX_DISTANCE: u64 = 1 << 28;

/// Maximum delay of an acknowledgement in nanoseconds: at most 200 ms in Linux, 500 ms in
/// RFC 9293 section 3.8.6.3; no retransmission timeout of Linux is shorter.
const MAX_ACK_DELAY_NS: u64 = 200_000_000;

/// Maximum number of frames recorded for one buffered segment.
const MAX_SEGMENT_FRAMES: usize = 64;

/// Bookkeeping bytes counted per buffered segment: its place in a map that is half full, and two allocations.
const SEGMENT_OVERHEAD_BYTES: usize = 256;

/// Maximum number of buffered segments before another one that it corrects.
const MAX_CORRECTED_SEGMENTS: usize = 64;

/// Returns `true` if a timestamp is not older than another one. RFC 7323 section 5.2.
fn is_not_older(timestamp: NonZeroU32, other: NonZeroU32) -> bool {
    timestamp.get().wrapping_sub(other.get()) < 1 << 31
}

/// A segment, or the new part of one, buffered after a gap.
#[derive(Debug)]
struct OutOfOrderSegment {
    at: StreamPosition,
    length: u32,
    bytes: Vec<u8>,
    frames: Vec<FrameNumber>,
    time: Timestamp,
    /// Position up to which its sender had received the other direction.
    received: StreamPosition,
    /// Position of the next expected byte when it was buffered.
    expected: StreamPosition,
}

impl OutOfOrderSegment {
    fn end(&self) -> StreamPosition {
        self.at + u64::from(self.length)
    }

    fn counted_bytes(&self) -> usize {
        SEGMENT_OVERHEAD_BYTES + self.bytes.len() + size_of_val(self.frames.as_slice())
    }

    fn to_stream_bytes(&self) -> StreamBytes<'_> {
        StreamBytes {
            at: self.at,
            data: CapturedPacketPayload { bytes: &self.bytes, length: self.length },
            meta: PacketMeta::new(&self.frames, self.time),
        }
    }
}

/// Number of recent bytes of a previous incarnation whose copies are recognized: half of the range that
/// sequence numbers can order.
const MAX_PREVIOUS_BYTES: u64 = 1 << 30;

/// Maximum number of bytes ahead of the expected position at which a segment is attributed to this
/// direction rather than to the previous one.
pub(crate) const MAX_BYTES_AHEAD: u64 = 1 << 20;

/// Maximum number of bytes acknowledged before the SYN of their direction is captured.
const MAX_BYTES_BEFORE_SYN: i32 = 1 << 24;

/// Place of a segment in a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentPlace {
    /// Within the bytes that may follow soon, or before, from the first byte on.
    Near,
    /// Ahead of them: many segments are missing, or its number is wrong.
    Ahead,
    /// So far away that its number is wrong, or another stream began.
    Far,
}

/// Maximum length of the data of a segment on Ethernet, without jumbo frames.
const MAX_ETHERNET_DATA: u32 = 1_460;

/// Number of right checksums after which older ones count half.
const MAX_COUNTED_CHECKSUMS: u8 = 32;

/// Number of recent segments with a wrong checksum and without a right copy from which on a direction, most of whose
/// checksums are wrong, counts for other streams.
const MIN_MISLEADING_CHECKSUMS: u8 = 3;

/// Counts of recent checksums. They decide if a wrong one means damage, or that the capture rarely has right ones:
/// addresses were replaced, or a network card computes them later or has joined segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChecksumCounts {
    right: u8,
    /// Wrong ones of segments of which no right copy was captured.
    wrong: u8,
}

impl ChecksumCounts {
    #[inline]
    pub(crate) fn add_right(&mut self) {
        self.right += 1;
        if self.right == MAX_COUNTED_CHECKSUMS {
            (self.right, self.wrong) = (self.right / 2, self.wrong / 2);
        }
    }

    pub(crate) fn add_wrong(&mut self) {
        self.wrong = self.wrong.saturating_add(1);
    }

    /// Returns `true` if wrong checksums mean nothing, with `more` of them.
    fn are_misleading_with(self, more: u8) -> bool {
        self.wrong.saturating_add(more) > self.right
    }

    /// Returns `true` if most checksums are right, with another wrong one.
    fn are_right_with_another(self) -> bool {
        !self.are_misleading_with(1) && self.right / 2 > self.wrong
    }

    /// Returns `true` if a wrong checksum means damage.
    pub(crate) fn show_damage(self) -> bool {
        self.right > 0 && !self.are_misleading_with(0)
    }

    fn are_empty(self) -> bool {
        self.right == 0 && self.wrong == 0
    }

    /// Returns `true` if the first one is right.
    pub(crate) fn have_begun_after(self, before: Self) -> bool {
        before.are_empty() && self.right > 0
    }

    /// Returns `true` if enough wrong ones took effect since.
    pub(crate) fn have_misled_after(self, before: Self) -> bool {
        self.have_misled() && !before.have_misled()
    }

    fn have_misled(self) -> bool {
        self.wrong >= MIN_MISLEADING_CHECKSUMS && self.are_misleading_with(0)
    }
}

/// Sequence number range of one direction of a previous incarnation.
#[derive(Clone, Copy, Debug)]
struct PreviousTcpIncarnationRange {
    syn: Option<TcpSequence>,
    from: TcpSequence,
    last: TcpSequence,
}

/// Previous incarnation of a stream between the same ports: copies of its segments may arrive after the
/// next one has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreviousStreamIncarnation {
    directions: ConnectionSidePair<Option<PreviousTcpIncarnationRange>>,
    /// Time of its last SYN or new bytes.
    last_time: Timestamp,
}

impl PreviousStreamIncarnation {
    pub(crate) fn new(ConnectionSidePair([a, b]): &ConnectionSidePair<TcpStreamDirection>) -> Self {
        let last_time = a.last.max(a.syn_time).max(b.last).max(b.syn_time);
        Self { directions: ConnectionSidePair([a.to_previous(), b.to_previous()]), last_time }
    }

    /// Returns `true` if a segment of `sender` is a copy of one of the previous incarnation. `directions` are those of
    /// the incarnation now.
    pub(crate) fn contains_copy(
        &self,
        sender: ConnectionSideAOrB,
        directions: &ConnectionSidePair<TcpStreamDirection>,
        segment: &TcpSegment<'_>,
        now: Timestamp,
    ) -> bool {
        let (own, peer) = (&directions[sender], &directions[sender.peer()]);
        let Some(former) = self.directions[sender] else { return false };
        if self.last_time.abs_diff_ns(now) >= MAX_SEGMENT_LIFETIME_NS {
            return false;
        }
        if segment.flags.syn() {
            let is_of_former = former.syn == Some(segment.sequence);
            let answers_new_syn = segment.flags.ack() && peer.first_sequence == Some(segment.acknowledgment);
            return is_of_former && !answers_new_syn && own.first_sequence != Some(segment.sequence.add(1));
        }
        let end = segment.sequence.add(segment.payload.length as u32);
        former.from.distance(segment.sequence) >= 0
            && end.distance(former.last) >= 0
            && !own.has_reached(segment.sequence)
    }
}

/// One direction of a stream.
#[derive(Debug, Default)]
pub(crate) struct TcpStreamDirection {
    /// Position of the next expected byte; `None` before the first segment.
    next_position: Option<StreamPosition>,
    /// Position of the first captured byte.
    from: StreamPosition,
    /// Sequence number of the first byte, from the SYN.
    first_sequence: Option<TcpSequence>,
    /// Time of the first SYN.
    syn_time: Timestamp,
    /// `true` if its SYN was captured, and not only the answer to it.
    is_syn_captured: bool,
    /// Position up to which the receiver has acknowledged.
    acknowledged: StreamPosition,
    /// Position after the last segment of its sender, by its sequence number.
    sent_claim: StreamPosition,
    /// Position in the last acknowledgement. One beyond the captured bytes counts only if a second segment confirms it:
    /// a damaged segment may have any number.
    acknowledged_claim: StreamPosition,
    /// Last number acknowledged before anything of this direction was captured.
    early_acknowledgment: Option<TcpSequence>,
    /// `true` if a segment of its sender was captured.
    is_captured: bool,
    /// `true` if the other direction waits for its first segment.
    is_awaited: bool,
    /// `true` if nothing of it was captured for so long that the other direction no longer waits for it.
    is_silent: bool,
    checksums: ChecksumCounts,
    /// Length of the longest data with a right checksum.
    longest_right: u32,
    /// `true` if the checksum of the SYN or of the first captured data was wrong: their number may be wrong, too.
    has_wrong_start: bool,
    /// Last segment with a wrong checksum, until a copy arrives or the checksums of others tell if it is damaged.
    doubtful: Option<Box<OutOfOrderSegment>>,
    /// Time since which it has acknowledged more than was captured.
    ahead_since: Option<Timestamp>,
    /// `true` if the receiver reported that it lacks the bytes before the buffered ones, too.
    is_gap_requested: bool,
    /// Time at which new bytes were last sent.
    last: Timestamp,
    /// Time of the last segment with an acknowledgement number.
    last_answer_time: Timestamp,
    /// Shortest time in nanoseconds from new bytes to the acknowledgement of all bytes.
    shortest_answer_ns: Option<NonZeroU64>,
    /// Receive window in the last acknowledgement.
    window: u16,
    /// Newest timestamp of a segment with an acknowledgement.
    answer_timestamp: Option<NonZeroU32>,
    /// Reports of the receiver about missing bytes. Allocated at the first: most streams lose nothing.
    reports: Option<Box<TcpReceiverAcknowledgements>>,
    /// Retransmission that the receiver needed, since the last call of [`TcpStreamDirection::delay_messages`].
    needed_retransmission: Option<Box<(Range<StreamPosition>, Timestamp)>>,
    /// Time at which the receiver last requested a retransmission.
    pub(crate) last_request_time: Option<Timestamp>,
    /// Detector for its duplicates.
    pub(crate) id_variation: VaryingIpIdDetector,
    /// Position after the last byte, from the FIN.
    end: Option<StreamPosition>,
    /// Position up to which the other direction was delivered. Bytes that were sent after receiving more of it
    /// wait.
    other_reached: StreamPosition,
    /// By their positions, without overlap, all at or after `next`.
    out_of_order: BTreeMap<StreamPosition, OutOfOrderSegment>,
    buffered_bytes: usize,
    /// `true` if bytes were captured after their acknowledgement.
    is_misordered: bool,
    /// Number of segments with such bytes since the last call of [`Self::take_late_segments`].
    late_segments: u64,
    /// Number of retransmitted segments that differ from the first copy.
    contradictions: u64,
    /// Number of frames with a wrong sequence number that were dropped.
    stray_frames: u64,
    /// End and key of each delivered message that was not acknowledged.
    unacknowledged_messages: VecDeque<(StreamPosition, TransactionSlabKey, RpcMessageKind)>,
}

/// Maximum number of messages that wait for their acknowledgement.
const MAX_UNACKNOWLEDGED_MESSAGES: usize = 1024;

impl TcpStreamDirection {
    /// Extends a sequence number relative to the expected one.
    #[inline]
    fn position_of(&self, sequence: TcpSequence) -> StreamPosition {
        match self.next_position {
            // Leaves positions below for segments older than the first one seen.
            None => (1 << 32) + StreamPosition::from(sequence.0),
            Some(next) => {
                // No expected position is below 2^32.
                let distance = TcpSequence(next as u32).distance(sequence);
                next.wrapping_add_signed(i64::from(distance))
            }
        }
    }

    /// Returns `true` if a SYN with this number begins another stream.
    pub(crate) fn starts_other_stream(&self, syn: TcpSequence) -> bool {
        match (self.first_sequence, self.next_position) {
            (Some(first), _) => first != syn.add(1),
            // The SYN may have been captured late.
            (None, Some(_)) => self.position_of(syn.add(1)) != self.from,
            (None, None) => false,
        }
    }

    /// Returns `true` if the first SYN had this number.
    pub(crate) fn has_syn(&self, syn: TcpSequence) -> bool {
        self.first_sequence == Some(syn.add(1))
    }

    /// Returns `true` if a copy of the first SYN may still arrive.
    pub(crate) fn may_have_syn_copy(&self, now: Timestamp) -> bool {
        self.syn_time.abs_diff_ns(now) < MAX_SEGMENT_LIFETIME_NS
    }

    pub(crate) fn has_bytes(&self) -> bool {
        self.next_position.is_some_and(|next| next > self.from)
    }

    /// Returns `true` if nothing of it was delivered, and bytes before the first captured ones may be missing: its SYN
    /// was not captured.
    pub(crate) fn may_begin_late(&self) -> bool {
        !self.has_bytes() && (self.next_position.is_none() || self.first_sequence.is_none())
    }

    /// Returns `true` if its SYN was captured.
    pub(crate) fn has_begun(&self) -> bool {
        self.first_sequence.is_some()
    }

    /// Returns `true` if a SYN with this number can be the one of this direction, of which no bytes were captured.
    pub(crate) fn fits_syn(&self, syn: TcpSequence) -> bool {
        let first = syn.add(1);
        match (self.first_sequence, self.next_position) {
            (Some(known), _) => known == first,
            (None, Some(_)) => self.position_of(first) == self.from,
            (None, None) => self
                .early_acknowledgment
                .is_none_or(|acknowledged| (0..MAX_BYTES_BEFORE_SYN).contains(&first.distance(acknowledged))),
        }
    }

    /// Returns the position after the last captured byte.
    fn captured_end(&self) -> StreamPosition {
        let buffered_end = self.out_of_order.last_key_value().map_or(0, |(_, segment)| segment.end());
        self.next_position.unwrap_or(0).max(buffered_end)
    }

    fn first_buffered(&self) -> Option<&OutOfOrderSegment> {
        self.out_of_order.first_key_value().map(|(_, segment)| segment)
    }

    /// Returns the buffered segment that has the byte at a position, or the first one after it.
    fn buffered_from(&self, position: StreamPosition) -> Option<&OutOfOrderSegment> {
        let before = self.out_of_order.range(..=position).next_back().filter(|(_, before)| before.end() > position);
        before.or_else(|| self.out_of_order.range(position..).next()).map(|(_, segment)| segment)
    }

    fn take_first_buffered(&mut self) -> Option<OutOfOrderSegment> {
        let (_, segment) = self.out_of_order.pop_first()?;
        self.buffered_bytes -= segment.counted_bytes();
        Some(segment)
    }

    /// Returns the place of a segment with this number.
    pub(crate) fn place(&self, sequence: TcpSequence) -> SegmentPlace {
        let Some(next) = self.next_position else { return SegmentPlace::Near };
        let at = self.position_of(sequence);
        if at.abs_diff(next) >= MAX_DISTANCE || self.is_before_start(at) {
            SegmentPlace::Far
        } else if at > self.captured_end().max(self.acknowledged) + MAX_BYTES_AHEAD {
            SegmentPlace::Ahead
        } else {
            SegmentPlace::Near
        }
    }

    /// Returns `true` if a position is before the first byte, so that it is none of this stream: a copy of bytes a little
    /// before the first captured ones is possible until the receiver has acknowledged more. A keep-alive repeats the
    /// number before the first byte.
    fn is_before_start(&self, at: StreamPosition) -> bool {
        at + 1 < self.from && (!self.is_start_unconfirmed() || at + MAX_BYTES_AHEAD < self.from)
    }

    /// Returns `true` if only the first captured bytes tell where the direction begins: its SYN was not captured, and the
    /// receiver has acknowledged none of them. Their number may be wrong.
    fn is_start_unconfirmed(&self) -> bool {
        self.first_sequence.is_none() && self.next_position.is_some() && self.acknowledged <= self.from
    }

    /// Returns `true` if bytes far from all others begin the direction if the receiver acknowledges them.
    pub(crate) fn may_restart_at(&self, sequence: TcpSequence) -> bool {
        let is_far = |next| self.position_of(sequence).abs_diff(next) > MAX_BYTES_AHEAD;
        self.is_start_unconfirmed() && self.next_position.is_some_and(is_far)
    }

    /// Returns `true` if it has carried messages that the receiver has not acknowledged: its first bytes were no stray
    /// ones.
    pub(crate) fn has_unacknowledged_messages(&self) -> bool {
        !self.unacknowledged_messages.is_empty()
    }

    /// Returns `true` if the receiver expects bytes with this number instead of the first captured ones.
    pub(crate) fn is_start_expected_at(&self, sequence: TcpSequence) -> bool {
        self.may_restart_at(sequence)
            && (self.early_acknowledgment == Some(sequence) || self.acknowledged == self.position_of(sequence))
    }

    /// Returns `true` if a stream that begins at this number will soon have the numbers of the captured bytes: those were
    /// stray ones.
    pub(crate) fn is_ahead_of(&self, first: TcpSequence) -> bool {
        self.next_position.is_some() && {
            let at = self.position_of(first);
            at <= self.from && at + MAX_DISTANCE > self.from
        }
    }

    /// Returns `true` if a number is before that of the next expected byte.
    pub(crate) fn precedes_next(&self, sequence: TcpSequence) -> bool {
        self.next_position.is_some_and(|next| self.position_of(sequence) < next)
    }

    /// Returns `true` if bytes with this number continue the captured ones, or repeat some that were not acknowledged.
    pub(crate) fn is_continued_at(&self, sequence: TcpSequence) -> bool {
        self.next_position.is_some_and(|next| {
            let at = self.position_of(sequence);
            let oldest = if self.acknowledged == 0 { next } else { self.acknowledged.min(next) };
            (oldest..=self.captured_end()).contains(&at)
        })
    }

    /// Returns `true` if the receiver may send this acknowledgement number.
    pub(crate) fn may_be_acknowledged(&self, acknowledgment: TcpSequence) -> bool {
        self.next_position.is_some_and(|next| {
            let at = self.position_of(acknowledgment);
            let oldest = if self.acknowledged == 0 { self.from } else { self.acknowledged.min(next) };
            at + MAX_BYTES_AHEAD >= oldest && at <= self.captured_end().max(self.acknowledged) + MAX_BYTES_AHEAD
        })
    }

    /// Returns `true` if a number acknowledges bytes that were not captured.
    #[inline]
    pub(crate) fn exceeds_captured(&self, acknowledgment: TcpSequence) -> bool {
        self.next_position.is_some_and(|next| {
            // The captured bytes end at the next expected one, or behind it.
            let is_ahead = TcpSequence(next as u32).distance(acknowledgment) > 0;
            is_ahead && self.position_of(acknowledgment) > self.captured_end()
        })
    }

    /// Returns `true` if a segment of the receiver acknowledges less than one before although it is not older, by its
    /// timestamp: it is of another stream.
    pub(crate) fn is_taken_back_by(&self, segment: &TcpSegment<'_>) -> bool {
        segment.flags.ack()
            && self.position_of(segment.acknowledgment) < self.acknowledged
            && tcp_receiver_loss_reports::timestamp(segment.options())
                .zip(self.answer_timestamp)
                .is_some_and(|(timestamp, newest)| is_not_older(timestamp, newest))
    }

    /// Returns `true` if the receiver has acknowledged something.
    pub(crate) fn has_acknowledgments(&self) -> bool {
        self.acknowledged > 0
    }

    /// Returns `true` if a FIN at this number can end the direction: after all bytes.
    pub(crate) fn may_end_at(&self, sequence: TcpSequence) -> bool {
        self.next_position.is_none_or(|_| {
            let at = self.position_of(sequence);
            let last = self.captured_end().max(self.acknowledged);
            (last..=last + MAX_BYTES_AHEAD).contains(&at)
        })
    }

    /// Returns `true` if its sender may reset the connection with this number: it is in the window of the receiver, as
    /// far as that is known. RFC 9293 section 3.10.7.4.
    pub(crate) fn may_be_reset_at(&self, sequence: TcpSequence) -> bool {
        self.next_position.is_none() || self.may_be_acknowledged(sequence)
    }

    /// Returns `true` if bytes that end at this number follow the end of the direction or, after a reset by its sender,
    /// are new: it did not end.
    pub(crate) fn outlives(&self, end: TcpSequence, is_reset: bool) -> bool {
        let at = self.position_of(end);
        self.end.is_some_and(|end| at > end) || is_reset && self.next_position.is_some_and(|next| at > next)
    }

    pub(crate) fn has_end(&self) -> bool {
        self.end.is_some()
    }

    pub(crate) fn forget_end(&mut self) {
        self.end = None;
    }

    /// Returns `true` if its SYN was captured, or another segment of its sender after the answer to it.
    pub(crate) fn is_established(&self) -> bool {
        self.first_sequence.is_some() && self.is_captured
    }

    /// Handles the number and the length of a segment of its sender.
    #[inline]
    pub(crate) fn record_segment(&mut self, sequence: TcpSequence, length: u32, now: Timestamp) {
        self.is_captured = true;
        let claim = self.position_of(sequence) + u64::from(length);
        self.sent_claim = claim;
        let confirmed = claim.min(self.acknowledged_claim);
        if self.is_silent || confirmed > self.acknowledged {
            self.record_ahead(confirmed, now);
        }
    }

    /// Handles bytes that were acknowledged and sent, but not captured.
    #[cold]
    fn record_ahead(&mut self, confirmed: StreamPosition, now: Timestamp) {
        if confirmed > self.captured_end() {
            self.acknowledged = self.acknowledged.max(confirmed);
        }
        if std::mem::take(&mut self.is_silent) || self.ahead_since.is_none() {
            self.ahead_since = (self.next_position < Some(self.acknowledged)).then_some(now);
        }
    }

    /// Records that the other direction does not wait for this one any longer.
    pub(crate) fn set_silent(&mut self) {
        self.is_silent = true;
    }

    /// Returns `true` if nothing follows a gap, so that its bytes may still be captured, but did not in time.
    pub(crate) fn is_behind(&self) -> bool {
        self.out_of_order.is_empty() && Some(self.sent_claim) < self.next_position
    }

    /// Returns the position of the next expected byte, 0 before the first segment.
    pub(crate) fn expected_position(&self) -> StreamPosition {
        self.next_position.unwrap_or(0)
    }

    /// Returns the number of the first byte, from the SYN or the answer to it.
    pub(crate) fn first_sequence(&self) -> Option<TcpSequence> {
        self.first_sequence
    }

    /// Returns the number and the time of its SYN, if that was captured.
    pub(crate) fn captured_syn(&self) -> Option<(TcpSequence, Timestamp)> {
        let first = self.first_sequence.filter(|_| self.is_syn_captured)?;
        Some((first.add(u32::MAX), self.syn_time))
    }

    /// Returns `true` if a number that its sender or its receiver uses cannot follow the SYN, of which no bytes were
    /// delivered. A keep-alive repeats the number before the first byte.
    pub(crate) fn contradicts_start(&self, number: TcpSequence) -> bool {
        let Some(next) = self.next_position.filter(|_| self.has_begun() && !self.has_bytes()) else { return false };
        !(next - 1..=self.captured_end() + MAX_BYTES_AHEAD).contains(&self.position_of(number))
    }

    /// Returns `true` if its bytes wait for the other direction only.
    pub(crate) fn is_waiting_for_peer(&self) -> bool {
        self.first_buffered().is_some_and(|segment| Some(segment.at) == self.next_position)
    }

    /// Starts at the number that the answer to its SYN has.
    pub(crate) fn start_after_answer(&mut self, acknowledgment: TcpSequence, now: Timestamp) {
        if self.first_sequence.is_none() && self.next_position.is_none() {
            (self.first_sequence, self.syn_time) = (Some(acknowledgment), now);
            self.start_at(self.position_of(acknowledgment));
        }
    }

    /// Lets the other direction wait for the first segment of this one.
    pub(crate) fn await_answer(&mut self) {
        self.is_awaited = true;
    }

    /// Records the checksum of a segment. Returns `true` if it shows damage; by the checksums of other streams if it is
    /// the first one of the direction.
    pub(crate) fn record_checksum(&mut self, length: u32, checksum: TcpChecksum, others: ChecksumCounts) -> bool {
        let is_wrong = checksum == TcpChecksum::Bad;
        match checksum {
            TcpChecksum::Good | TcpChecksum::Partial => {
                self.longest_right = self.longest_right.max(length);
                self.checksums.add_right();
            }
            TcpChecksum::Bad if self.checksums.show_damage() => return true,
            TcpChecksum::Bad if self.checksums.are_empty() && others.show_damage() => return true,
            TcpChecksum::Bad => self.checksums.add_wrong(),
            TcpChecksum::Unknown => {}
        }
        if self.next_position.is_none() {
            self.has_wrong_start = is_wrong && !self.is_joined(length);
        } else if is_wrong {
            self.has_wrong_start = false;
        }
        false
    }

    /// Returns `true` if the checksum of its SYN or first data was wrong, and no others have shown yet what that means.
    #[inline]
    pub(crate) fn has_wrong_start(&self) -> bool {
        self.has_wrong_start
    }

    /// Handles the first bytes after a wrong start. Returns `true` if they begin the direction: the checksum of its SYN
    /// or first captured data was wrong, unlike that of these bytes, so that the number, or the message that begins
    /// there, was wrong, too.
    pub(crate) fn resolve_wrong_start(&mut self, sequence: TcpSequence) -> bool {
        std::mem::take(&mut self.has_wrong_start)
            && self.checksums.show_damage()
            && self.next_position.is_some()
            && (self.first_sequence.is_none()
                || !self.has_bytes() && self.precedes_next(sequence)
                || self.contradicts_start(sequence))
    }

    /// Starts again at this number: that of the first captured bytes was wrong. Positions do not decrease, whatever the
    /// number: others were compared to them. Buffered bytes are dropped and counted.
    pub(crate) fn restart_at(&mut self, sequence: TcpSequence) {
        let relative = self.position_of(sequence);
        let rounds = if relative < self.expected_position() { 1 << 32 } else { 0 };
        let at = relative + rounds;
        let is_acknowledged = (1..=relative).contains(&self.acknowledged);
        *self = Self {
            next_position: Some(at),
            from: at,
            acknowledged: if is_acknowledged { self.acknowledged + rounds } else { 0 },
            is_captured: self.is_captured,
            checksums: self.checksums,
            longest_right: self.longest_right,
            last: self.last,
            other_reached: self.other_reached,
            is_misordered: self.is_misordered,
            contradictions: self.contradictions,
            stray_frames: self.stray_frames + self.buffered_frames().count() as u64,
            ..Self::default()
        };
    }

    /// Delivers all buffered segments, with the gaps before them.
    pub(crate) fn deliver_all_buffered(&mut self, now: Timestamp, reader: &mut impl TcpDirectionReader) {
        while !self.out_of_order.is_empty() {
            self.skip_gap(now, reader);
        }
    }

    /// Counts a segment that its checksum shows to be damaged: if it is the first one of the direction, the next decides.
    pub(crate) fn record_damage(&mut self) {
        if self.checksums.are_empty() {
            self.checksums.add_wrong();
        }
    }

    /// Returns `true` if nothing of it was accepted.
    pub(crate) fn is_unknown(&self) -> bool {
        self.next_position.is_none()
    }

    /// Returns `true` if no checksum tells about the ones that follow.
    #[inline]
    pub(crate) fn has_no_checksum(&self) -> bool {
        self.checksums.are_empty()
    }

    pub(crate) fn checksums(&self) -> ChecksumCounts {
        self.checksums
    }

    /// Keeps a segment with a wrong checksum, which the receiver discards (RFC 9293 section 3.1) unless such checksums
    /// mean nothing. Returns `true` if it continues the one kept before, and that is so: that one is buffered, and this
    /// one is not kept.
    pub(crate) fn keep_doubtful(
        &mut self,
        sequence: TcpSequence,
        data: CapturedPacketPayload<'_>,
        packet_meta: PacketMeta<'_>,
        received: StreamPosition,
    ) -> bool {
        let at = self.position_of(sequence);
        let stream_bytes = StreamBytes { at, data, meta: packet_meta };
        if self.next_position.is_none_or(|next| stream_bytes.range().end <= next) {
            return false;
        }
        if let Some(before) = self.doubtful.take().filter(|before| before.end() == at)
            && self.has_no_copy(&before)
        {
            let are_joined = self.is_joined(before.length) && self.is_joined(data.length);
            let takes_effect = are_joined || self.checksums.are_misleading_with(2);
            self.record_wrong(before.length);
            if takes_effect {
                self.buffer_doubtful(&before);
                self.record_wrong(data.length);
                return true;
            }
        }
        self.doubtful = Some(Box::new(self.to_buffered(stream_bytes, received)));
        false
    }

    /// Returns `true` if data of this length, with a wrong checksum, are those of several segments that a network card
    /// has joined.
    fn is_joined(&self, length: u32) -> bool {
        length > self.longest_right.max(MAX_ETHERNET_DATA)
    }

    /// Counts the wrong checksum of data of this length, of which no right copy was captured.
    fn record_wrong(&mut self, length: u32) {
        if !self.is_joined(length) {
            self.checksums.add_wrong();
        }
    }

    /// Returns `true` if no other segment has the first of the new bytes of a kept one: it was not sent again, perhaps
    /// shorter.
    fn has_no_copy(&self, segment: &OutOfOrderSegment) -> bool {
        self.next_position.is_some_and(|next| next <= segment.at.max(segment.expected))
    }

    /// Buffers the new bytes of a kept segment with a wrong checksum.
    fn buffer_doubtful(&mut self, segment: &OutOfOrderSegment) {
        let known = self.next_position.map_or(0, |next| next.saturating_sub(segment.at));
        self.buffer_new_part(segment.to_stream_bytes().after(known as u32), segment.received);
    }

    /// Returns `true` if the receiver acknowledged the bytes of the kept segment with a wrong checksum.
    pub(crate) fn has_acknowledged_doubtful(&self) -> bool {
        self.doubtful.as_ref().is_some_and(|segment| self.acknowledged >= segment.end())
    }

    /// Decides about the kept segment with a wrong checksum whose bytes the receiver acknowledged, if other checksums
    /// suffice or, with `is_last`, none are to be expected. Returns `true` if it is buffered for delivery: such
    /// checksums mean nothing. Otherwise, it is damaged, and the capture lacks what the receiver has accepted.
    pub(crate) fn accept_doubtful(&mut self, is_last: bool) -> bool {
        let Some(length) = self.doubtful.as_ref().map(|segment| segment.length) else { return false };
        let is_damaged = self.checksums.are_right_with_another() && !self.is_joined(length);
        let is_decided = is_last || is_damaged || self.checksums.are_misleading_with(1) || self.is_joined(length);
        if !is_decided || !self.has_acknowledged_doubtful() {
            return false;
        }
        let Some(segment) = self.doubtful.take().filter(|segment| self.has_no_copy(segment)) else { return false };
        let is_accepted = !is_damaged;
        self.record_wrong(length);
        if is_accepted {
            self.buffer_doubtful(&segment);
        }
        is_accepted
    }

    /// Returns `true` if a segment with this number can be one of this stream.
    pub(crate) fn is_near(&self, sequence: TcpSequence) -> bool {
        self.next_position.is_none_or(|next| self.position_of(sequence).abs_diff(next) < MAX_DISTANCE)
    }

    /// Handles a SYN: the next number is that of the first byte.
    pub(crate) fn record_syn(&mut self, syn: TcpSequence, now: Timestamp) {
        (self.is_captured, self.is_silent, self.is_syn_captured) = (true, false, true);
        if self.first_sequence.is_none() {
            (self.first_sequence, self.syn_time) = (Some(syn.add(1)), now);
        }
        self.start_at(self.position_of(syn.add(1)));
    }

    /// Returns the position of the next expected byte, which is `at` if none was captured.
    fn start_at(&mut self, at: StreamPosition) -> StreamPosition {
        if self.next_position.is_none() {
            self.from = at;
            let is_behind = |early: TcpSequence| TcpSequence(at as u32).distance(early) > 0;
            self.record_late(self.early_acknowledgment.is_some_and(is_behind));
        }
        *self.next_position.get_or_insert(at)
    }

    /// Handles a FIN after the last byte.
    pub(crate) fn record_fin(&mut self, sequence: TcpSequence) {
        self.end = Some(self.position_of(sequence));
    }

    /// Returns the memory in bytes, without the buffered segments.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.unacknowledged_messages.capacity() * size_of::<(StreamPosition, TransactionSlabKey, RpcMessageKind)>()
    }

    /// Returns the memory of the buffered segments in bytes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes + self.doubtful.as_ref().map_or(0, |segment| segment.counted_bytes())
    }

    #[inline]
    fn record_late(&mut self, is_late: bool) {
        self.is_misordered |= is_late;
        self.late_segments += u64::from(is_late);
    }

    /// Returns the number of segments captured after their acknowledgement since the last call.
    pub(crate) fn take_late_segments(&mut self) -> u64 {
        std::mem::take(&mut self.late_segments)
    }

    /// Returns `true` if bytes were captured after their acknowledgement.
    pub(crate) fn is_misordered(&self) -> bool {
        self.is_misordered
    }

    /// Returns the number of dropped frames with a wrong sequence number since the last call.
    pub(crate) fn take_stray_frames(&mut self) -> u64 {
        std::mem::take(&mut self.stray_frames)
    }

    /// Returns the number of retransmitted segments that differ from the first copy since the last call.
    pub(crate) fn take_contradictions(&mut self) -> u64 {
        std::mem::take(&mut self.contradictions)
    }

    /// Returns `true` if a number is in the range of this direction, from its SYN to the bytes that may follow
    /// soon.
    fn has_reached(&self, sequence: TcpSequence) -> bool {
        let at = self.position_of(sequence);
        self.next_position.is_some_and(|next| at + 1 >= self.from && at < next + MAX_BYTES_AHEAD)
    }

    /// Returns the range of its segments, from the SYN to the number after the FIN.
    fn to_previous(&self) -> Option<PreviousTcpIncarnationRange> {
        let last = self.next_position?.max(self.end.unwrap_or(0)) + 1;
        let from = self.from.saturating_sub(1).max(last.saturating_sub(MAX_PREVIOUS_BYTES));
        Some(PreviousTcpIncarnationRange {
            syn: self.first_sequence.map(|first| first.add(u32::MAX)),
            from: TcpSequence(from as u32),
            last: TcpSequence(last as u32),
        })
    }

    /// Returns `true` if these bytes are the next, and none are buffered.
    pub(crate) fn is_next(&self, sequence: TcpSequence) -> bool {
        self.out_of_order.is_empty() && self.next_position.is_none_or(|next| next == self.position_of(sequence))
    }

    /// Returns `true` if bytes from this number on are a retransmission: they were captured before, or fill a gap that
    /// the receiver reported.
    pub(crate) fn is_retransmission(&self, sequence: TcpSequence, length: u32) -> bool {
        let Some(next) = self.next_position.filter(|_| length > 0) else { return false };
        let at = self.position_of(sequence);
        let end = at + u64::from(length);
        let fills_reported_gap =
            || self.is_gap_requested && self.first_buffered().is_some_and(|segment| end <= segment.at);
        (at < next && !self.is_keep_alive(length, end)) || self.is_buffered(at..end) || fills_reported_gap()
    }

    fn is_buffered(&self, range: Range<StreamPosition>) -> bool {
        self.buffered_from(range.start).is_some_and(|segment| segment.at < range.end)
    }

    /// Returns `true` if some of these bytes were delivered, or are buffered.
    pub(crate) fn has_accepted(&self, sequence: TcpSequence, length: u32) -> bool {
        let at = self.position_of(sequence);
        self.next_position.is_some_and(|next| at < next) || self.is_buffered(at..at + u64::from(length))
    }

    /// Returns `true` if bytes before `end` are a keep-alive, not a retransmission: it repeats the last byte, which its
    /// receiver has acknowledged (RFC 9293 section 3.8.4), if acknowledgements were captured.
    fn is_keep_alive(&self, length: u32, end: StreamPosition) -> bool {
        length == 1 && Some(end) == self.next_position && (self.acknowledged == 0 || end <= self.acknowledged)
    }

    /// Returns `true` if this number acknowledges more than all before.
    pub(crate) fn acknowledges_more(&self, acknowledgment: TcpSequence) -> bool {
        self.position_of(acknowledgment) > self.acknowledged
    }

    /// Buffers a segment until the protocol of the stream is known.
    pub(crate) fn buffer_segment(
        &mut self,
        sequence: TcpSequence,
        data: CapturedPacketPayload<'_>,
        packet_meta: PacketMeta<'_>,
        received: StreamPosition,
    ) {
        let at = self.position_of(sequence);
        let next = self.start_at(at);
        let stream_bytes = StreamBytes { at, data, meta: packet_meta };
        self.buffer_new_part(stream_bytes.after(next.saturating_sub(at) as u32), received);
    }

    /// Iterates over the contiguous captured bytes at the start.
    pub(crate) fn first_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        let mut follows = self.next_position;
        let is_contiguous = move |segment: &&OutOfOrderSegment| {
            let is_next = Some(segment.at) == follows;
            follows = (segment.bytes.len() == segment.length as usize).then(|| segment.end());
            is_next
        };
        self.out_of_order.values().take_while(is_contiguous).flat_map(|segment| segment.bytes.iter().copied())
    }

    /// Iterates over the bytes of the buffered segments.
    pub(crate) fn buffered_payloads(&self) -> impl Iterator<Item = CapturedPacketPayload<'_>> {
        self.out_of_order.values().map(|segment| segment.to_stream_bytes().data)
    }

    pub(crate) fn buffered_frames(&self) -> impl Iterator<Item = FrameNumber> {
        self.out_of_order.values().flat_map(|segment| segment.frames.iter().copied())
    }

    pub(crate) fn deliver_buffered(&mut self, reader: &mut impl TcpDirectionReader) {
        self.deliver_contiguous(None, reader);
    }

    /// Drops the buffered segments and their positions.
    pub(crate) fn reset(&mut self) {
        *self = Self { first_sequence: self.first_sequence, syn_time: self.syn_time, ..Self::default() };
    }

    /// Returns the position of the receiver by its acknowledgement number; 0 if that is implausible.
    pub(crate) fn received(&self, acknowledgment: TcpSequence) -> StreamPosition {
        let Some(next) = self.next_position else { return StreamPosition::from(self.is_awaited) };
        let position = self.position_of(acknowledgment);
        // A FIN uses a number too.
        let position = self.end.map_or(position, |end| end.min(position));
        if position > next + MAX_DISTANCE { 0 } else { position }
    }

    /// Returns the position up to which its bytes were delivered; `None` if the other direction need not wait for it.
    pub(crate) fn delivered_position(&self) -> Option<StreamPosition> {
        if self.is_silent { None } else { self.next_position.or(self.is_awaited.then_some(0)) }
    }

    /// Updates the delivered position of the other direction. Returns `true` if buffered bytes waited for it.
    pub(crate) fn update_other_reached(&mut self, reached: Option<StreamPosition>) -> bool {
        self.other_reached = reached.unwrap_or(StreamPosition::MAX);
        self.first_buffered()
            .is_some_and(|segment| Some(segment.at) == self.next_position && segment.received <= self.other_reached)
    }

    /// Processes a segment with bytes whose sender had received the other direction up to `received`.
    pub(crate) fn process_segment(
        &mut self,
        sequence: TcpSequence,
        data: CapturedPacketPayload<'_>,
        packet_meta: PacketMeta<'_>,
        received: StreamPosition,
        reader: &mut impl TcpDirectionReader,
    ) {
        if data.length == 0 {
            return;
        }
        let at = self.position_of(sequence);
        let next = self.start_at(at);
        let stream_bytes = StreamBytes { at, data, meta: packet_meta };
        let end = stream_bytes.range().end;
        if end > next {
            self.last = packet_meta.time;
            self.record_late(end <= self.acknowledged);
        }
        if end <= next {
            if !self.is_keep_alive(data.length, end) {
                self.report_retransmission(stream_bytes, reader);
            }
            return;
        }
        let new_bytes = stream_bytes.after(next.saturating_sub(at) as u32);
        if at < next {
            self.report_retransmission(stream_bytes.within(0..(next - at) as u32), reader);
        }
        if !self.out_of_order.is_empty() {
            self.recheck_buffered(&new_bytes, received);
        }
        let is_due = received <= self.other_reached;
        // Buffered segments were received, but not delivered before the missing bytes before them.
        let since = self
            .first_buffered()
            .filter(|segment| self.is_gap_requested && segment.at > next)
            .map(|segment| segment.time);
        if new_bytes.at == next && is_due && self.first_buffered().is_none_or(|segment| segment.at >= end) {
            self.next_position = Some(end);
            let until = packet_meta.time;
            let recovery = since.map(|since| DeliveryAnomaly::Recovered(RetransmissionStall { since, until }));
            let meta = PacketMeta { anomaly: recovery.as_ref().or(packet_meta.anomaly), ..packet_meta };
            reader.read_bytes(StreamBytes { meta, ..new_bytes });
        } else {
            self.buffer_new_part(new_bytes, received);
        }
        self.deliver_contiguous(since.map(|_| packet_meta.time), reader);
        if let Some(since) = self.ahead_since {
            let since = if self.next_position > Some(next) { packet_meta.time } else { since };
            self.ahead_since = (self.next_position < Some(self.acknowledged)).then_some(since);
        }
    }

    /// Corrects the buffered segments by one that was sent in order: those that contradict it had a wrong sequence
    /// number, and none before its end was sent after receiving more than its sender had received.
    #[cold]
    fn recheck_buffered(&mut self, new_bytes: &StreamBytes<'_>, received: StreamPosition) {
        let Range { start, end } = new_bytes.range();
        if received > 0 {
            // One that was sent in order has corrected those before it.
            let before = self.out_of_order.range_mut(..end).rev().map(|(_, segment)| segment);
            let is_corrected = |segment: &&mut OutOfOrderSegment| segment.received == 0 || segment.received > received;
            let corrected = before.take_while(is_corrected).take(MAX_CORRECTED_SEGMENTS);
            corrected.for_each(|segment| segment.received = segment.received.min(received));
        }
        if Some(start) != self.next_position {
            return;
        }
        while let Some(segment) = self.first_buffered().filter(|segment| (start + 1..end).contains(&segment.at)) {
            let expected = new_bytes.data.bytes.get((segment.at - start) as usize..).unwrap_or_default();
            if segment.bytes.iter().zip(expected).all(|(byte, expected)| byte == expected) {
                break;
            }
            self.contradictions += 1;
            self.take_first_buffered();
        }
    }

    /// Buffers the part of a segment that is not buffered yet.
    fn buffer_new_part(&mut self, stream_bytes: StreamBytes<'_>, received: StreamPosition) {
        let Range { start, end } = stream_bytes.range();
        let slice = |range: Range<StreamPosition>| {
            stream_bytes.within((range.start - start) as u32..(range.end - start) as u32)
        };
        let mut from = start;
        while from < end {
            let (at, hole, overlap) = match self.buffered_from(from) {
                Some(segment) => {
                    let overlap = segment.at.max(from)..segment.end().min(end);
                    (segment.at, from..overlap.start.min(end), overlap)
                }
                None => (end, from..end, end..end),
            };
            if !hole.is_empty() {
                self.insert(slice(hole), received);
            }
            if overlap.is_empty() {
                break;
            }
            self.merge_copy(at, slice(overlap.clone()));
            from = overlap.end;
        }
    }

    fn insert(&mut self, stream_bytes: StreamBytes<'_>, received: StreamPosition) {
        let segment = self.to_buffered(stream_bytes, received);
        self.buffered_bytes += segment.counted_bytes();
        self.out_of_order.insert(segment.at, segment);
    }

    fn to_buffered(&self, stream_bytes: StreamBytes<'_>, received: StreamPosition) -> OutOfOrderSegment {
        OutOfOrderSegment {
            at: stream_bytes.at,
            length: stream_bytes.data.length,
            bytes: stream_bytes.data.bytes.to_vec(),
            frames: stream_bytes.meta.frames.to_vec(),
            time: stream_bytes.meta.time,
            received,
            expected: self.next_position.unwrap_or(stream_bytes.at),
        }
    }

    /// Merges a copy of bytes in the segment buffered at a position: the first copy counts, and the second only adds
    /// bytes that a snap length removed from the first.
    fn merge_copy(&mut self, at: StreamPosition, stream_bytes: StreamBytes<'_>) {
        let Some(segment) = self.out_of_order.get_mut(&at) else { return };
        let counted_before = segment.counted_bytes();
        let offset = (stream_bytes.at - segment.at) as usize;
        let stored = segment.bytes.get(offset..).unwrap_or_default();
        if stored.iter().zip(stream_bytes.data.bytes).any(|(stored, copied)| stored != copied) {
            self.contradictions += 1;
        } else if offset <= segment.bytes.len() && offset + stream_bytes.data.bytes.len() > segment.bytes.len() {
            let new_bytes = stream_bytes.data.bytes.get(segment.bytes.len() - offset..).unwrap_or_default();
            segment.bytes.extend_from_slice(new_bytes);
        }
        if segment.frames.len() < MAX_SEGMENT_FRAMES {
            segment.frames.extend_from_slice(stream_bytes.meta.frames);
        }
        self.buffered_bytes += segment.counted_bytes() - counted_before;
    }

    /// Handles a retransmission of delivered bytes. The receiver needs it if it requested the bytes or their
    /// acknowledgement is overdue. If its acknowledgements are not captured, this is unknown, and the first
    /// copy counts.
    fn report_retransmission(&mut self, stream_bytes: StreamBytes<'_>, reader: &mut impl TcpDirectionReader) {
        if stream_bytes.meta.is_captured_twice() {
            return reader.read_retransmission(stream_bytes);
        }
        let time = stream_bytes.meta.time;
        let is_needed = self.is_needed(&stream_bytes);
        if is_needed {
            let Range { start, end } = stream_bytes.range();
            self.needed_retransmission = Some(Box::new((start.max(self.acknowledged)..end, time)));
        } else if let Some(reports) = &mut self.reports {
            reports.record_needless(&stream_bytes.range());
        }
        let anomaly = match is_needed {
            // The first copy determines the start.
            true => DeliveryAnomaly::ClosesGap(RetransmissionStall { since: Timestamp(i64::MIN), until: time }),
            false => DeliveryAnomaly::Surplus,
        };
        let meta = PacketMeta { anomaly: Some(&anomaly), ..stream_bytes.meta };
        reader.read_retransmission(StreamBytes { meta, ..stream_bytes });
    }

    /// Returns `true` if the receiver needs a retransmission, as far as its acknowledgements tell.
    #[cold]
    fn is_needed(&self, stream_bytes: &StreamBytes<'_>) -> bool {
        let Range { start, end } = stream_bytes.range();
        if self.acknowledged == 0 || end <= self.acknowledged {
            return false;
        }
        let unacknowledged = start.max(self.acknowledged)..end;
        let reports = self.reports.as_deref();
        if reports.is_some_and(|reports| reports.were_received(&unacknowledged)) {
            return false;
        }
        // An acknowledgement may be late; a sender in doubt retransmits early (RFC 8985 section 7.1). One that
        // follows the last bytes sooner than any other before may have been sent before they arrived.
        let answers_less = || {
            let waited = self.last_answer_time.nanoseconds_since(self.last);
            waited.zip(self.shortest_answer_ns).is_some_and(|(waited, shortest)| waited >= shortest.get())
        };
        stream_bytes.meta.time.abs_diff_ns(self.last) >= MAX_ACK_DELAY_NS
            || self.last_request_time >= Some(self.last)
            || reports.is_some_and(|reports| reports.are_missing(&unacknowledged))
            || answers_less()
    }

    /// Delays the messages that were not delivered before the last retransmission that the receiver needed: those
    /// that end after its first byte and are not acknowledged. `delay` delays a message until a time and returns
    /// its end before, if that changed.
    pub(crate) fn delay_messages(
        &mut self,
        mut delay: impl FnMut(TransactionSlabKey, RpcMessageKind, Timestamp) -> Option<Timestamp>,
    ) {
        let Some(needed) = self.needed_retransmission.take() else { return };
        let (retransmitted, until) = *needed;
        let from = self.unacknowledged_messages.partition_point(|(end, ..)| *end <= retransmitted.start);
        for (_, key, kind) in self.unacknowledged_messages.range(from..).copied() {
            if let Some(before) = delay(key, kind, until) {
                let retransmitted = retransmitted.clone();
                let delay = RetransmissionDelayedMessage { key, which: kind, before, until, retransmitted };
                self.reports.get_or_insert_default().record_delay(delay);
            }
        }
    }

    /// Delivers buffered segments that no longer wait; their receiver could not deliver them before `until`, if
    /// known.
    fn deliver_contiguous(&mut self, until: Option<Timestamp>, reader: &mut impl TcpDirectionReader) {
        while let Some(segment) = self.first_buffered()
            && Some(segment.at) == self.next_position
            && segment.received <= self.other_reached
            && let Some(segment) = self.take_first_buffered()
        {
            self.next_position = Some(segment.end());
            self.ahead_since = self.ahead_since.map(|since| since.max(segment.time));
            let stream_bytes = segment.to_stream_bytes();
            let recovery =
                until.map(|until| DeliveryAnomaly::Recovered(RetransmissionStall { since: segment.time, until }));
            let meta = PacketMeta { anomaly: recovery.as_ref(), ..stream_bytes.meta };
            reader.read_bytes(StreamBytes { meta, ..stream_bytes });
        }
        self.is_gap_requested &= !self.out_of_order.is_empty();
    }

    /// Handles the acknowledgement in a segment of the receiver, of everything before a number. Returns the delays
    /// of messages that were none, because the receiver had the retransmitted bytes before.
    ///
    /// A duplicate acknowledgement without data requests the bytes that follow (RFC 5681 section 2).
    pub(crate) fn acknowledge(
        &mut self,
        segment: &TcpSegment<'_>,
        now: Timestamp,
    ) -> Vec<RetransmissionDelayedMessage> {
        let Some(next) = self.next_position else {
            self.early_acknowledgment = Some(segment.acknowledgment);
            return Vec::new();
        };
        let claim = self.position_of(segment.acknowledgment);
        if claim > next + MAX_DISTANCE {
            return Vec::new();
        }
        let mut position = claim;
        let before = std::mem::replace(&mut self.acknowledged_claim, claim);
        if claim > next && claim > self.captured_end() {
            position = claim.min(self.sent_claim.max(before));
            if position <= self.captured_end() {
                return Vec::new();
            }
        }
        if position == next && self.first_buffered().is_some_and(|first| first.at > next) {
            self.is_gap_requested = true;
        }
        self.last_answer_time = now;
        if let Some(timestamp) = tcp_receiver_loss_reports::timestamp(segment.options())
            && self.answer_timestamp.is_none_or(|newest| is_not_older(timestamp, newest))
        {
            self.answer_timestamp = Some(timestamp);
        }
        let window = std::mem::replace(&mut self.window, segment.window);
        if position > self.acknowledged {
            self.acknowledged = position;
            if position > next && self.ahead_since.is_none() {
                self.ahead_since = Some(now);
            }
            if position == next {
                let waited = NonZeroU64::new(now.abs_diff_ns(self.last)).unwrap_or(NonZeroU64::MIN);
                self.shortest_answer_ns = Some(self.shortest_answer_ns.map_or(waited, |shortest| shortest.min(waited)));
            }
        } else if position == self.acknowledged && segment.payload.length == 0 {
            self.last_request_time = Some(now);
            if position < next && window == segment.window && !segment.flags.fin() {
                self.reports.get_or_insert_default().record_missing_before(next);
            }
        }
        let blocks = tcp_receiver_loss_reports::sack_blocks(segment.options());
        match self.reports.is_some() || !blocks.is_empty() {
            true => self.apply_reports(position, blocks, now),
            false => Vec::new(),
        }
    }

    /// Applies the SACK blocks of an acknowledgement of everything before `position`.
    #[cold]
    fn apply_reports(
        &mut self,
        position: StreamPosition,
        blocks: &[[[u8; 4]; 2]],
        now: Timestamp,
    ) -> Vec<RetransmissionDelayedMessage> {
        let range = |block: &[[u8; 4]; 2]| {
            let [left, right] = tcp_receiver_loss_reports::block_edges(*block);
            self.position_of(left)..self.position_of(right)
        };
        let blocks: Vec<_> = blocks.iter().map(range).collect();
        let acknowledged = self.acknowledged;
        let reports = self.reports.get_or_insert_default();
        let mut spurious = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            // The first block may be one of bytes received twice (RFC 2883 section 4).
            let is_in_second =
                || blocks.get(1).is_some_and(|second| second.start <= block.start && block.end <= second.end);
            if index == 0 && (block.end <= position || is_in_second()) {
                spurious = reports.take_spurious(block, now);
            } else if acknowledged < block.start && block.start < block.end {
                reports.record_received(block.clone());
            }
        }
        reports.acknowledge(acknowledged);
        // The blocks cover buffered bytes, but not the gap before them: the receiver lacks it, too.
        if let Some((next, start)) = self.next_position.zip(self.out_of_order.first_key_value().map(|(at, _)| *at)) {
            let are_behind = blocks.iter().any(|block| block.start >= start && block.start > acknowledged);
            self.is_gap_requested |= next < start && are_behind && !reports.were_received(&(next..start));
        }
        spurious
    }

    /// Records that a message ends with the last delivered byte. Returns `true` if it is already acknowledged.
    pub(crate) fn record_message_end(&mut self, key: TransactionSlabKey, kind: RpcMessageKind) -> bool {
        let Some(next) = self.next_position.filter(|next| *next > self.acknowledged) else { return true };
        if self.unacknowledged_messages.len() >= MAX_UNACKNOWLEDGED_MESSAGES {
            self.unacknowledged_messages.pop_front();
        }
        self.unacknowledged_messages.push_back((next, key, kind));
        false
    }

    /// Returns the next message acknowledged since the last call.
    pub(crate) fn next_acknowledged_message(&mut self) -> Option<(TransactionSlabKey, RpcMessageKind)> {
        self.unacknowledged_messages.front().filter(|(end, ..)| *end <= self.acknowledged)?;
        self.unacknowledged_messages.pop_front().map(|(_, key, kind)| (key, kind))
    }

    /// Returns the next message acknowledged by this number, which a segment of the receiver has.
    #[inline]
    pub(crate) fn next_message_acknowledged_by(
        &mut self,
        acknowledgment: TcpSequence,
    ) -> Option<(TransactionSlabKey, RpcMessageKind)> {
        let (end, ..) = *self.unacknowledged_messages.front()?;
        let position = self.position_of(acknowledgment);
        // A damaged segment may acknowledge anything.
        let is_plausible = position <= self.captured_end().max(self.acknowledged);
        if !is_plausible || position < end {
            return None;
        }
        self.unacknowledged_messages.pop_front().map(|(_, key, kind)| (key, kind))
    }

    /// Returns `true` if nothing is buffered or acknowledged beyond the delivered bytes.
    #[inline]
    pub(crate) fn has_nothing_missing(&self) -> bool {
        self.next_position.is_none_or(|next| self.acknowledged <= next && self.out_of_order.is_empty())
    }

    /// Returns the gap before the buffered or acknowledged bytes.
    fn gap(&self) -> Option<Range<StreamPosition>> {
        let next = self.next_position?;
        // A FIN uses a number too.
        let acknowledged = self.end.map_or(self.acknowledged, |end| end.min(self.acknowledged));
        match self.first_buffered() {
            // Bytes that the receiver lacks, too, may still be sent.
            Some(first) if acknowledged > next => Some(next..first.at.min(acknowledged)),
            Some(first) => Some(next..first.at),
            None if acknowledged > next && self.is_captured => Some(next..acknowledged),
            None => None,
        }
    }

    /// Returns `true` if bytes are missing before buffered or acknowledged ones.
    pub(crate) fn has_gap(&self) -> bool {
        self.gap().is_some_and(|hole| !hole.is_empty())
    }

    /// Returns the deadline of the first gap, if there is one.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let hole = self.gap()?;
        let first = self.first_buffered();
        let (since, wait) = match (self.ahead_since, first) {
            (_, Some(first)) if hole.is_empty() => (first.time, MAX_CLOCK_SKEW_NS),
            (Some(since), _) if self.acknowledged >= hole.end => {
                let since = first.map_or(since, |first| first.time.max(since));
                match first.is_some() || self.sent_claim >= hole.end {
                    // The retransmission of a lost segment follows later ones.
                    true if self.is_misordered => (since, MAX_CLOCK_SKEW_NS),
                    true => (since, MAX_CAPTURE_DELAY_NS),
                    false if self.is_silent => return None,
                    false => (since, MAX_CLOCK_SKEW_NS),
                }
            }
            _ => (first?.time, MAX_UNACKNOWLEDGED_WAIT_NS),
        };
        Some(Timestamp(since.0.saturating_add_unsigned(wait)))
    }

    /// Returns `true` if the first buffered segment has a wrong sequence number: the bytes before it are not
    /// acknowledged, others were sent in order since, and none follow it.
    fn is_first_buffered_stray(&self) -> bool {
        let mut segments = self.out_of_order.values();
        segments.next().is_some_and(|first| {
            let is_alone = segments.next().is_none_or(|second| second.at > first.end());
            is_alone && self.acknowledged < first.at && Some(first.expected) < self.next_position
        })
    }

    /// Skips the first gap: delivers it as missing bytes, then the buffered segments after it.
    pub(crate) fn skip_gap(&mut self, now: Timestamp, reader: &mut impl TcpDirectionReader) {
        let Some(hole) = self.gap() else { return };
        if !hole.is_empty()
            && self.is_first_buffered_stray()
            && let Some(segment) = self.take_first_buffered()
        {
            self.stray_frames += segment.frames.len() as u64;
            return;
        }
        if hole.is_empty() {
            // The bytes it waits for in the other direction will not arrive.
            self.other_reached = StreamPosition::MAX;
        }
        let mut from = hole.start;
        while from < hole.end {
            let length = u32::try_from(hole.end - from).unwrap_or(u32::MAX);
            let packet_meta = PacketMeta::new(&[], now);
            self.next_position = Some(from + u64::from(length));
            reader.read_bytes(StreamBytes {
                at: from,
                data: CapturedPacketPayload { bytes: &[], length },
                meta: packet_meta,
            });
            from += u64::from(length);
        }
        self.deliver_contiguous(None, reader);
        self.ahead_since = self.ahead_since.filter(|_| self.next_position < Some(self.acknowledged));
    }

    /// Ends the direction: delivers everything buffered, with its gaps.
    pub(crate) fn finish(&mut self, now: Timestamp, reader: &mut impl TcpDirectionReader) {
        self.doubtful = None;
        self.deliver_all_buffered(now, reader);
        self.skip_gap(now, reader);
    }
}
