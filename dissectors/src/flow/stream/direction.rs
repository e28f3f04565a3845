//! One direction of a stream put in order. RFC 9293 sections 3.4 and 3.10.7.4.
//!
//! Segments that come in order pass through without being copied. Those behind a hole are held until it is filled, or
//! given up: at once when too many bytes wait, soon when the receiver has acknowledged what is missing (it was on the wire
//! and not captured, unless it was only captured late), and else when no retransmission is to be expected any more.

use std::collections::VecDeque;
use std::ops::Range;

use crate::flow::recent_frames::IpIdVariation;
use crate::flow::transaction::RpcMessageKind;
use crate::flow::transaction_table::TransactionKey;
use crate::flow::{DeliveryAnomaly, PacketMeta, Stall};
use crate::frame::{FrameNumber, Timestamp};
use crate::net::{TcpSegment, TcpSequence};
use crate::rdma::PacketPayload;

use super::{Position, StreamBytes, StreamReader};

/// How long, in nanoseconds of the capture's clock, a segment may be captured late that was acknowledged already: mirror
/// ports whose clocks differ, and several queues, change the order of frames.
const LATE: u64 = 50_000_000;

/// How long a hole waits that was not acknowledged: longer than the retransmission of a lost segment takes, which doubles
/// its time-out with every loss (RFC 6298 section 5).
const UNACKNOWLEDGED: u64 = 30_000_000_000;

/// Whether a hole with this deadline has waited long enough. One that lies farther ahead than any wait is of a clock that went
/// back.
pub(in crate::flow) fn is_over(deadline: Timestamp, now: Timestamp) -> bool {
    deadline <= now || deadline.apart(now) > 2 * UNACKNOWLEDGED
}

/// How long after a segment, in nanoseconds of the capture's clock, another copy of it may come: the Maximum Segment Lifetime
/// of RFC 9293 section 3.4.2, within which no sequence number is used again.
const LIFETIME: u64 = 120_000_000_000;

/// Farther from what is expected than this, a segment is none of this stream: the largest windows are smaller.
const NEAR: u64 = 1 << 28;

/// How long a receiver may wait with an acknowledgement, in nanoseconds: Linux 200 ms at the most, RFC 9293 section 3.8.6.3 500 ms;
/// no retransmission time-out of Linux is shorter.
const LATEST_ACKNOWLEDGMENT: u64 = 200_000_000;

/// Frames of one held segment that are listed.
const FRAMES: usize = 64;

/// What a held segment takes besides its bytes, in bytes.
const OVERHEAD: usize = 128;

/// A segment, or what is new in it, that waits behind a hole.
#[derive(Debug)]
struct OutOfOrderSegment {
    at: Position,
    length: u32,
    bytes: Vec<u8>,
    frames: Vec<FrameNumber>,
    time: Timestamp,
    /// Its sender had received the other direction up to here.
    received: Position,
}

impl OutOfOrderSegment {
    fn end(&self) -> Position {
        self.at + u64::from(self.length)
    }

    fn cost(&self) -> usize {
        OVERHEAD + self.bytes.len()
    }

    fn piece(&self) -> StreamBytes<'_> {
        StreamBytes {
            at: self.at,
            data: PacketPayload { bytes: &self.bytes, length: self.length },
            sight: PacketMeta::new(&self.frames, self.time),
        }
    }
}

/// So many bytes of a direction that is over are known again: half of those whose order the numbers tell.
const LONGEST_FORMER: u64 = 1 << 30;

/// So far ahead of what is expected next, a segment may belong to a direction rather than to the one before it.
const SOON: u64 = 1 << 20;

/// Where the segments of one direction were.
#[derive(Clone, Copy, Debug)]
struct PreviousDirection {
    syn: Option<TcpSequence>,
    from: TcpSequence,
    last: TcpSequence,
}

/// The stream that was between the same ports before: copies of its segments may come when another has begun.
#[derive(Clone, Copy, Debug)]
pub(in crate::flow) struct PreviousIncarnation {
    /// Of both directions.
    halves: [Option<PreviousDirection>; 2],
    /// When the other began.
    over: Timestamp,
}

impl PreviousIncarnation {
    pub(in crate::flow) fn new(halves: [&TcpStreamDirection; 2], over: Timestamp) -> Self {
        Self { halves: halves.map(TcpStreamDirection::former), over }
    }

    /// Whether a segment in a direction, which is `now` that of `half`, is a copy of one of the former stream.
    pub(in crate::flow) fn has(
        &self,
        at: usize,
        half: &TcpStreamDirection,
        segment: &TcpSegment<'_>,
        now: Timestamp,
    ) -> bool {
        let Some(former) = self.halves.get(at).copied().flatten() else { return false };
        if self.over.apart(now) >= LIFETIME {
            return false;
        }
        if segment.flags.syn() {
            let is_of_former = former.syn == Some(segment.sequence);
            return is_of_former && half.first != Some(segment.sequence.add(1));
        }
        let end = segment.sequence.add(segment.payload.length as u32);
        former.from.distance(segment.sequence) >= 0
            && end.distance(former.last) >= 0
            && !half.has_reached(segment.sequence)
    }
}

/// One direction of a stream.
#[derive(Debug, Default)]
pub(in crate::flow) struct TcpStreamDirection {
    /// Where the bytes that are expected next begin; unknown until something was seen.
    next: Option<Position>,
    /// Where the first bytes began that were seen.
    from: Position,
    /// The number of the first byte, by the SYN before it.
    first: Option<TcpSequence>,
    /// When that was seen first.
    begun: Timestamp,
    /// Up to where the receiver has acknowledged.
    acknowledged: Position,
    /// Since when it has acknowledged more than was captured.
    ahead_since: Option<Timestamp>,
    /// Whether the receiver asked for the bytes before those that wait: it does not have them either.
    is_missed: bool,
    /// When bytes were sent last.
    last: Timestamp,
    /// When it asked for bytes again last.
    pub(in crate::flow) asked: Option<Timestamp>,
    /// What tells its segments apart.
    pub(in crate::flow) identities: IpIdVariation,
    /// After the last byte, by the FIN behind it.
    end: Option<Position>,
    /// Up to where the other direction was given out. What its sender sent after it had received more waits.
    other_reached: Position,
    /// In order, without overlap, all beyond `next`.
    held: VecDeque<OutOfOrderSegment>,
    held_bytes: usize,
    /// Segments that repeated bytes otherwise than they came first.
    contradictions: u64,
    /// Messages that were given out and not acknowledged, each with where it ends.
    unsettled: VecDeque<(Position, TransactionKey, RpcMessageKind)>,
}

/// Messages that wait for their acknowledgement.
const UNSETTLED: usize = 1024;

impl TcpStreamDirection {
    /// Counts a sequence number on from those that were seen.
    fn place(&self, sequence: TcpSequence) -> Position {
        match self.next {
            // Room below for segments older than the first one seen.
            None => (1 << 32) + Position::from(sequence.0),
            Some(next) => {
                let distance = TcpSequence(next as u32).distance(sequence);
                next.saturating_add_signed(i64::from(distance))
            }
        }
    }

    /// Whether a SYN with this number begins another stream than the one that is known.
    pub(in crate::flow) fn is_other(&self, syn: TcpSequence) -> bool {
        match (self.first, self.next) {
            (Some(first), _) => first != syn.add(1),
            // The SYN may have been captured late.
            (None, Some(_)) => self.place(syn.add(1)) != self.from,
            (None, None) => false,
        }
    }

    /// Whether a SYN with this number is a copy of the one that was seen.
    pub(in crate::flow) fn is_copy(&self, syn: TcpSequence, now: Timestamp) -> bool {
        self.first == Some(syn.add(1)) && self.begun.apart(now) < LIFETIME
    }

    /// Whether bytes of it were seen.
    pub(in crate::flow) fn has_bytes(&self) -> bool {
        self.next.is_some_and(|next| next > self.from)
    }

    /// Whether its SYN was seen.
    pub(in crate::flow) fn has_begun(&self) -> bool {
        self.first.is_some()
    }

    /// Whether a segment with this number can be one of this stream.
    pub(in crate::flow) fn is_near(&self, sequence: TcpSequence) -> bool {
        self.next.is_none_or(|next| self.place(sequence).abs_diff(next) < NEAR)
    }

    /// A SYN: the next number is that of the first byte.
    pub(in crate::flow) fn begin(&mut self, syn: TcpSequence, now: Timestamp) {
        if self.first.is_none() {
            (self.first, self.begun) = (Some(syn.add(1)), now);
        }
        self.start(self.place(syn.add(1)));
    }

    /// Where the bytes that are expected next begin, which are these if none were seen.
    fn start(&mut self, at: Position) -> Position {
        if self.next.is_none() {
            self.from = at;
        }
        *self.next.get_or_insert(at)
    }

    /// A FIN stands behind the last byte.
    pub(in crate::flow) fn finish_at(&mut self, sequence: TcpSequence) {
        self.end = Some(self.place(sequence));
    }

    /// How much memory the held segments take.
    pub(in crate::flow) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// How many segments repeated bytes otherwise than they came first, since this was asked last.
    pub(in crate::flow) fn take_contradictions(&mut self) -> u64 {
        std::mem::take(&mut self.contradictions)
    }

    /// Whether a number lies where the bytes of this direction are, from its SYN to what may come soon.
    fn has_reached(&self, sequence: TcpSequence) -> bool {
        let at = self.place(sequence);
        self.next.is_some_and(|next| at + 1 >= self.from && at < next + SOON)
    }

    /// Where its segments were, from the SYN to what follows the FIN.
    fn former(&self) -> Option<PreviousDirection> {
        let last = self.next?.max(self.end.unwrap_or(0)) + 1;
        let from = self.from.saturating_sub(1).max(last.saturating_sub(LONGEST_FORMER));
        Some(PreviousDirection {
            syn: self.first.map(|first| first.add(u32::MAX)),
            from: TcpSequence(from as u32),
            last: TcpSequence(last as u32),
        })
    }

    /// Whether these bytes are the next, and none wait.
    pub(in crate::flow) fn is_next(&self, sequence: TcpSequence) -> bool {
        self.held.is_empty() && self.next.is_none_or(|next| next == self.place(sequence))
    }

    /// Whether the receiver has not acknowledged up to here before.
    pub(in crate::flow) fn is_news(&self, acknowledgment: TcpSequence) -> bool {
        self.place(acknowledgment) > self.acknowledged
    }

    /// Keeps a segment until it is known what the stream carries.
    pub(in crate::flow) fn keep(
        &mut self,
        sequence: TcpSequence,
        data: PacketPayload<'_>,
        sight: PacketMeta<'_>,
    ) {
        let at = self.place(sequence);
        let next = self.start(at);
        self.hold(StreamBytes { at, data, sight }.after(next.saturating_sub(at) as u32), 0);
    }

    /// The first bytes, as many as are there.
    pub(in crate::flow) fn first_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        let mut follows = self.next;
        let unbroken = move |held: &&OutOfOrderSegment| {
            let is_next = Some(held.at) == follows;
            follows = (held.bytes.len() == held.length as usize).then(|| held.end());
            is_next
        };
        self.held.iter().take_while(unbroken).flat_map(|held| held.bytes.iter().copied())
    }

    /// The bytes of each segment that was kept.
    pub(in crate::flow) fn kept(&self) -> impl Iterator<Item = PacketPayload<'_>> {
        self.held.iter().map(|held| held.piece().data)
    }

    /// The frames that carried what is kept.
    pub(in crate::flow) fn kept_frames(&self) -> impl Iterator<Item = FrameNumber> {
        self.held.iter().flat_map(|held| held.frames.iter().copied())
    }

    /// Gives out what was kept.
    pub(in crate::flow) fn release(&mut self, reader: &mut impl StreamReader) {
        self.drain(None, reader);
    }

    /// Forgets what was kept, and where it was.
    pub(in crate::flow) fn forget(&mut self) {
        *self = Self { first: self.first, begun: self.begun, ..Self::default() };
    }

    /// Where the receiver of this direction is, by what it acknowledges; 0 where that tells nothing.
    pub(in crate::flow) fn received(&self, acknowledgment: TcpSequence) -> Position {
        let Some(next) = self.next else { return 0 };
        let position = self.place(acknowledgment);
        // A FIN takes a number, too.
        let position = self.end.map_or(position, |end| end.min(position));
        if position > next + NEAR { 0 } else { position }
    }

    /// Up to where its bytes were given out; unknown where nothing of it was seen.
    pub(in crate::flow) fn reached(&self) -> Option<Position> {
        self.next
    }

    /// The other direction was given out up to here: whether something waited for that.
    pub(in crate::flow) fn note_other(&mut self, reached: Option<Position>) -> bool {
        self.other_reached = reached.unwrap_or(Position::MAX);
        self.held
            .front()
            .is_some_and(|held| Some(held.at) == self.next && held.received <= self.other_reached)
    }

    /// Takes a segment with bytes, whose sender had received the other direction up to `received`.
    pub(in crate::flow) fn take(
        &mut self,
        sequence: TcpSequence,
        data: PacketPayload<'_>,
        sight: PacketMeta<'_>,
        received: Position,
        reader: &mut impl StreamReader,
    ) {
        if data.length == 0 {
            return;
        }
        let at = self.place(sequence);
        let next = self.start(at);
        let piece = StreamBytes { at, data, sight };
        let end = piece.range().end;
        if end > next {
            self.last = sight.time;
        }
        if end <= next {
            // A keep-alive repeats the last byte, which its receiver has long had (RFC 9293 section 3.8.4).
            if data.length > 1 || end < next {
                self.again(piece, reader);
            }
            return;
        }
        let new = piece.after(next.saturating_sub(at) as u32);
        if at < next {
            self.again(piece.within(0..(next - at) as u32), reader);
        }
        let is_due = received <= self.other_reached;
        // Segments that wait were received, and not delivered before the bytes that are missing before them.
        let since = self.held.front().filter(|held| self.is_missed && held.at > next).map(|held| held.time);
        if new.at == next && is_due && self.held.front().is_none_or(|held| held.at >= end) {
            self.next = Some(end);
            let stall = since.map(|since| Stall { since, until: sight.time });
            let remark = DeliveryAnomaly { stall, ..DeliveryAnomaly::default() };
            let came = PacketMeta { remark: stall.map(|_| &remark).or(sight.remark), ..sight };
            reader.piece(StreamBytes { sight: came, ..new });
        } else {
            self.hold(new, received);
        }
        self.drain(since.map(|_| sight.time), reader);
        if self.ahead_since.is_some() {
            self.ahead_since = (self.next < Some(self.acknowledged)).then_some(sight.time);
        }
    }

    /// Holds what of a segment is not held yet.
    fn hold(&mut self, piece: StreamBytes<'_>, received: Position) {
        let Range { start, end } = piece.range();
        let part =
            |range: Range<Position>| piece.within((range.start - start) as u32..(range.end - start) as u32);
        let mut from = start;
        let mut at = self.held.partition_point(|held| held.end() <= start);
        while from < end {
            let (hole, known) = match self.held.get(at) {
                Some(held) => (from..held.at.min(end).max(from), held.at.max(from)..held.end().min(end)),
                None => (from..end, end..end),
            };
            if !hole.is_empty() {
                self.insert(at, part(hole), received);
                at += 1;
            }
            if known.is_empty() {
                break;
            }
            self.repeat(at, part(known.clone()));
            from = known.end;
            at += 1;
        }
    }

    fn insert(&mut self, at: usize, piece: StreamBytes<'_>, received: Position) {
        let held = OutOfOrderSegment {
            at: piece.at,
            length: piece.data.length,
            bytes: piece.data.bytes.to_vec(),
            frames: piece.sight.frames.to_vec(),
            time: piece.sight.time,
            received,
        };
        self.held_bytes += held.cost();
        self.held.insert(at, held);
    }

    /// Bytes of a held segment came again: the first copy counts, and the second adds only what a snap length may have
    /// cut from the first.
    fn repeat(&mut self, at: usize, piece: StreamBytes<'_>) {
        let Some(held) = self.held.get_mut(at) else { return };
        let into = (piece.at - held.at) as usize;
        let known = held.bytes.get(into..).unwrap_or_default();
        if known.iter().zip(piece.data.bytes).any(|(known, again)| known != again) {
            self.contradictions += 1;
        } else if into <= held.bytes.len() && into + piece.data.bytes.len() > held.bytes.len() {
            let more = piece.data.bytes.get(held.bytes.len() - into..).unwrap_or_default();
            self.held_bytes += more.len();
            held.bytes.extend_from_slice(more);
        }
        if held.frames.len() < FRAMES {
            held.frames.extend_from_slice(piece.sight.frames);
        }
    }

    /// Bytes that were taken before came again: for the receiver, if it asked for them, or has not acknowledged them when it had to.
    /// Where its acknowledgements are not captured nothing tells, and the first copy counts.
    fn again(&self, piece: StreamBytes<'_>, reader: &mut impl StreamReader) {
        if piece.sight.is_captured_twice() {
            return reader.again(piece);
        }
        let time = piece.sight.time;
        // An acknowledgement may be late; a sender that is in doubt tries early (RFC 8985 section 7.1).
        let is_overdue = time.apart(self.last) >= LATEST_ACKNOWLEDGMENT || self.asked >= Some(self.last);
        let is_needed = self.acknowledged > 0 && piece.range().end > self.acknowledged && is_overdue;
        let remark = match is_needed {
            // Since when, the first copy tells.
            true => DeliveryAnomaly {
                closes_hole: true,
                stall: Some(Stall { since: Timestamp(i64::MIN), until: time }),
                ..DeliveryAnomaly::default()
            },
            false => DeliveryAnomaly { is_surplus: true, ..DeliveryAnomaly::default() },
        };
        reader.again(StreamBytes { sight: PacketMeta { remark: Some(&remark), ..piece.sight }, ..piece });
    }

    /// Gives out what no longer waits; its receiver could not have it before `until`, if that is known.
    fn drain(&mut self, until: Option<Timestamp>, reader: &mut impl StreamReader) {
        while let Some(held) = self.held.front()
            && Some(held.at) == self.next
            && held.received <= self.other_reached
            && let Some(held) = self.held.pop_front()
        {
            self.held_bytes -= held.cost();
            self.next = Some(held.end());
            let piece = held.piece();
            let stall = until.map(|until| Stall { since: held.time, until });
            let remark = DeliveryAnomaly { stall, ..DeliveryAnomaly::default() };
            let sight = PacketMeta { remark: stall.map(|_| &remark), ..piece.sight };
            reader.piece(StreamBytes { sight, ..piece });
        }
        self.is_missed &= !self.held.is_empty();
    }

    /// The receiver has acknowledged everything before this number.
    ///
    /// One that repeats its number and carries nothing else asks for what follows (RFC 5681 section 2).
    pub(in crate::flow) fn acknowledge(
        &mut self,
        sequence: TcpSequence,
        carries_bytes: bool,
        now: Timestamp,
    ) {
        let Some(next) = self.next else { return };
        let position = self.place(sequence);
        if position == next && self.held.front().is_some_and(|held| held.at > next) {
            self.is_missed = true;
        }
        if position > next + NEAR || position <= self.acknowledged {
            if position == self.acknowledged && !carries_bytes {
                self.asked = Some(now);
            }
            return;
        }
        self.acknowledged = position;
        if position > next && self.ahead_since.is_none() {
            self.ahead_since = Some(now);
        }
    }

    /// A message ends with the last byte that was given out. Tells whether its receiver has acknowledged it already.
    pub(in crate::flow) fn ends_message(&mut self, key: TransactionKey, which: RpcMessageKind) -> bool {
        let Some(next) = self.next.filter(|next| *next > self.acknowledged) else { return true };
        if self.unsettled.len() >= UNSETTLED {
            self.unsettled.pop_front();
        }
        self.unsettled.push_back((next, key, which));
        false
    }

    /// The next message that was acknowledged since this was asked last.
    pub(in crate::flow) fn settle(&mut self) -> Option<(TransactionKey, RpcMessageKind)> {
        self.unsettled.front().filter(|(end, ..)| *end <= self.acknowledged)?;
        self.unsettled.pop_front().map(|(_, key, which)| (key, which))
    }

    /// The hole before the bytes that wait, or before what was acknowledged.
    fn hole(&self) -> Option<Range<Position>> {
        let next = self.next?;
        // A FIN takes a number, too.
        let acknowledged = self.end.map_or(self.acknowledged, |end| end.min(self.acknowledged));
        match self.held.front() {
            Some(held) => Some(next..held.at),
            None if acknowledged > next => Some(next..acknowledged),
            None => None,
        }
    }

    /// Whether bytes are missing before some that wait or were acknowledged.
    pub(in crate::flow) fn has_hole(&self) -> bool {
        self.hole().is_some_and(|hole| !hole.is_empty())
    }

    /// When the hole is to be given up, if there is one.
    pub(in crate::flow) fn deadline(&self) -> Option<Timestamp> {
        let hole = self.hole()?;
        let (since, wait) = match self.ahead_since {
            Some(since) if self.acknowledged >= hole.end => (since, LATE),
            _ => (self.held.front()?.time, UNACKNOWLEDGED),
        };
        Some(Timestamp(since.0.saturating_add_unsigned(wait)))
    }

    /// Gives up waiting for the first hole: it becomes a piece without bytes, and what waited behind it follows.
    pub(in crate::flow) fn give_up(&mut self, now: Timestamp, reader: &mut impl StreamReader) {
        let Some(hole) = self.hole() else { return };
        if hole.is_empty() {
            // What it waits for in the other direction does not come.
            self.other_reached = Position::MAX;
        }
        let mut from = hole.start;
        while from < hole.end {
            let length = u32::try_from(hole.end - from).unwrap_or(u32::MAX);
            let sight = PacketMeta::new(&[], now);
            self.next = Some(from + u64::from(length));
            reader.piece(StreamBytes { at: from, data: PacketPayload { bytes: &[], length }, sight });
            from += u64::from(length);
        }
        self.drain(None, reader);
        self.ahead_since = self.ahead_since.filter(|_| self.next < Some(self.acknowledged));
    }

    /// Nothing more will come: gives out everything that waits, with its holes.
    pub(in crate::flow) fn finish(&mut self, now: Timestamp, reader: &mut impl StreamReader) {
        while !self.held.is_empty() {
            self.give_up(now, reader);
        }
        self.give_up(now, reader);
    }
}
