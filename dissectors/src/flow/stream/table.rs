//! All streams of TCP, by addresses and ports.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::address::Port;
use crate::flow::connection::{ConnectionKey, PortPair};
use crate::flow::records::RecordReader;
use crate::flow::slab_limit;
use crate::flow::statistics::UndecodedReason;
use crate::frame::{FrameNumber, Timestamp};
use crate::net::{TcpSegment, TcpSequence};
use crate::rdma::ConnectionSide;

use super::direction::{self, PreviousIncarnation, TcpStreamDirection};
use super::protocol::{self, Protocol, ProtocolDetection};

/// A stream: both directions of one connection of TCP.
#[derive(Debug)]
pub(in crate::flow) struct TcpConversation {
    /// Side A is who sent the segment that was seen first.
    pub(in crate::flow) ports: PortPair,
    pub(in crate::flow) a: TcpStreamDirection,
    pub(in crate::flow) b: TcpStreamDirection,
    pub(in crate::flow) protocol: Protocol,
    /// The side that sent the SYN, where that was seen.
    pub(in crate::flow) opened_by: Option<ConnectionSide>,
    /// The connection of RPC or RDMA on it.
    pub(in crate::flow) connection: Option<ConnectionKey>,
    pub(in crate::flow) last_frame: FrameNumber,
    /// Whether a FIN or a RST was seen.
    pub(in crate::flow) is_ending: bool,
    /// True if a snap length cut segments of it.
    pub(in crate::flow) is_cut: bool,
    /// True if segments were cut so short that nothing was found in them.
    pub(in crate::flow) has_cut_messages: bool,
    /// What was between the same ports before.
    former: Option<PreviousIncarnation>,
    /// A segment that was far from all others, by its sequence number.
    pub(in crate::flow) stray: Option<TcpSequence>,
    /// What it holds, as it was counted last, in bytes.
    pub(in crate::flow) held: usize,
    /// The memory that it was found to take beside that, in bytes.
    weight: u32,
    /// When its first hole is to be given up, as it stands among the deadlines.
    deadline: Option<Timestamp>,
    /// Which stream of the capture it is, from 0.
    number: u64,
    /// The numbers that sequence numbers of A and of B count from: those of their SYNs, or what stands for them.
    starts: [Option<TcpSequence>; 2],
}

/// Where a segment stands in its stream, as people count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegmentNumbers {
    /// Which stream of the capture it is, from 0, in the order of their first segments.
    pub stream: u64,
    /// The sequence number, from that of the SYN on; where that was not captured, the first number that was is 1.
    pub sequence: u32,
    /// The acknowledgement number in the same way; 0 where the segment has none.
    pub acknowledgment: u32,
}

impl TcpConversation {
    fn new(ports: PortPair, number: u64) -> Self {
        Self {
            ports,
            number,
            starts: [None; 2],
            a: TcpStreamDirection::default(),
            b: TcpStreamDirection::default(),
            protocol: Protocol::Middle { looked_at: 0 },
            opened_by: None,
            connection: None,
            last_frame: FrameNumber::default(),
            is_ending: false,
            is_cut: false,
            has_cut_messages: false,
            former: None,
            stray: None,
            held: 0,
            weight: 0,
            deadline: None,
        }
    }

    /// What a side sends, and what it receives.
    pub(in crate::flow) fn halves(
        &mut self,
        sender: ConnectionSide,
    ) -> (&mut TcpStreamDirection, &mut TcpStreamDirection) {
        match sender {
            ConnectionSide::A => (&mut self.a, &mut self.b),
            ConnectionSide::B => (&mut self.b, &mut self.a),
        }
    }

    /// Whether a segment is a copy of one of the stream that was between the same ports before.
    pub(in crate::flow) fn is_former(
        &self,
        sender: ConnectionSide,
        segment: &TcpSegment<'_>,
        now: Timestamp,
    ) -> bool {
        let Some(former) = &self.former else { return false };
        match sender {
            ConnectionSide::A => former.has(0, &self.a, segment, now),
            ConnectionSide::B => former.has(1, &self.b, segment, now),
        }
    }

    /// What was between the same ports before had the same numbers.
    pub(in crate::flow) fn forget_former(&mut self) {
        self.former = None;
    }

    /// Notes from where the numbers of a segment count, if it is the first that tells.
    pub(in crate::flow) fn count_from(&mut self, sender: ConnectionSide, segment: &TcpSegment<'_>) {
        let before = |number: TcpSequence| number.add(u32::MAX);
        let [a, b] = &mut self.starts;
        let (own, other) = if sender == ConnectionSide::A { (a, b) } else { (b, a) };
        own.get_or_insert(if segment.flags.syn() { segment.sequence } else { before(segment.sequence) });
        if segment.flags.ack() {
            other.get_or_insert(before(segment.acknowledgment));
        }
    }

    /// Where a segment stands that a side sent.
    pub(in crate::flow) fn place(
        &self,
        sender: ConnectionSide,
        segment: &TcpSegment<'_>,
    ) -> TcpSegmentNumbers {
        let [a, b] = self.starts;
        let (own, other) = if sender == ConnectionSide::A { (a, b) } else { (b, a) };
        let since = |start: Option<TcpSequence>, number: TcpSequence| {
            start.map_or(0, |start| number.0.wrapping_sub(start.0))
        };
        let acknowledgment = if segment.flags.ack() { since(other, segment.acknowledgment) } else { 0 };
        TcpSegmentNumbers { stream: self.number, sequence: since(own, segment.sequence), acknowledgment }
    }

    /// A side of whose bytes some are missing before others.
    pub(in crate::flow) fn side_with_hole(&mut self) -> Option<ConnectionSide> {
        [ConnectionSide::A, ConnectionSide::B].into_iter().find(|side| self.halves(*side).0.has_hole())
    }

    /// It is known what the stream carries.
    pub(in crate::flow) fn carry(&mut self, verdict: ProtocolDetection) {
        let begins = matches!(self.protocol, Protocol::Opening);
        self.protocol = match verdict {
            ProtocolDetection::Mpa => Protocol::Mpa(Box::default()),
            ProtocolDetection::Tls => Protocol::Tls,
            ProtocolDetection::Undecided => return,
            ProtocolDetection::Other => Protocol::Other,
            ProtocolDetection::Records => {
                let mut records = Box::<[RecordReader; 2]>::default();
                for (records, half) in records.iter_mut().zip([&self.a, &self.b]) {
                    if begins && half.has_begun() {
                        records.begin();
                    }
                }
                Protocol::Records(records)
            }
        };
    }

    /// If it is not known yet what the stream carries, then because its first bytes were not captured: any of those that
    /// were kept may tell. Where none does, gives why, of each frame that is forgotten with them.
    #[must_use]
    pub(in crate::flow) fn settle(&mut self) -> Vec<(FrameNumber, UndecodedReason)> {
        if !matches!(self.protocol, Protocol::Opening) {
            return Vec::new();
        }
        let ports = self.port_numbers();
        let verdicts = self.a.kept().chain(self.b.kept()).map(|data| protocol::segment(data, ports, true));
        let verdict = { verdicts }.find(|verdict| *verdict != ProtocolDetection::Undecided);
        match verdict {
            Some(verdict) => {
                self.carry(verdict);
                Vec::new()
            }
            None => self.forget(Protocol::Middle { looked_at: 1 }),
        }
    }

    /// Nothing was found in what was kept: gives why, of each of its frames, if the stream is of NFS.
    #[must_use]
    pub(in crate::flow) fn forget(&mut self, protocol: Protocol) -> Vec<(FrameNumber, UndecodedReason)> {
        self.protocol = protocol;
        let is_of_nfs = protocol::is_of_nfs(self.port_numbers());
        let is_cut = self.is_cut;
        self.has_cut_messages |= is_cut;
        let kept = { self.a.kept_frames().chain(self.b.kept_frames()) }.filter(|_| is_of_nfs);
        let mut frames: Vec<_> = kept.map(|frame| (frame, protocol::unknown(is_cut))).collect();
        frames.sort_unstable_by_key(|(frame, _)| *frame);
        frames.dedup_by_key(|(frame, _)| *frame);
        self.a.forget();
        self.b.forget();
        frames
    }

    fn port_numbers(&self) -> [Port; 2] {
        [self.ports.a.1, self.ports.b.1]
    }

    /// When the first of its directions is to be given up waiting, and who sends that. What waits for the other direction
    /// waits as long as there is a hole in that.
    pub(in crate::flow) fn deadline(&self) -> Option<(Timestamp, ConnectionSide)> {
        let of = |half: &TcpStreamDirection, other: &TcpStreamDirection, side| {
            let counts = half.has_hole() || !other.has_hole();
            half.deadline().filter(|_| counts).map(|deadline| (deadline, side))
        };
        let (a, b) = (of(&self.a, &self.b, ConnectionSide::A), of(&self.b, &self.a, ConnectionSide::B));
        a.into_iter().chain(b).min_by_key(|(deadline, _)| *deadline)
    }

    /// What it holds, in bytes.
    pub(in crate::flow) fn held_bytes(&self) -> usize {
        self.a.held_bytes() + self.b.held_bytes() + self.protocol.held_bytes()
    }

    /// The memory that it takes without what it holds, in bytes.
    fn memory_bytes(&self) -> usize {
        STREAM_BYTES + self.protocol.memory_bytes()
    }

    /// Whether nothing is lost by forgetting it.
    pub(in crate::flow) fn is_idle(&self) -> bool {
        self.is_ending
            || matches!(self.protocol, Protocol::Other | Protocol::Opening | Protocol::Middle { .. })
    }
}

/// Memory of a stream itself and of its place among the others, in bytes.
const STREAM_BYTES: usize = size_of::<TcpConversation>() + 2 * size_of::<(PortPair, usize)>();

/// All streams.
#[derive(Debug)]
pub(in crate::flow) struct TcpConversationTable {
    slots: slab::Slab<TcpConversation>,
    by_ports: FxHashMap<PortPair, usize>,
    last: Option<(PortPair, usize)>,
    /// How many there have been.
    count: u64,
    /// When the holes of streams are to be given up, in order.
    deadlines: BTreeSet<(Timestamp, usize)>,
    /// Memory of all streams without what they hold, in bytes.
    weight: usize,
    bound: usize,
}

impl TcpConversationTable {
    pub(in crate::flow) fn new(bound: usize) -> Self {
        Self {
            slots: slab::Slab::new(),
            by_ports: FxHashMap::default(),
            last: None,
            count: 0,
            deadlines: BTreeSet::new(),
            weight: 0,
            bound: bound.max(1),
        }
    }

    /// The stream of a segment that goes from `ports.a` to `ports.b`, and the side that sent it.
    pub(in crate::flow) fn find(&mut self, ports: PortPair) -> (usize, ConnectionSide) {
        let at = match self.last {
            Some((last, at)) if last == ports => at,
            _ => {
                let Self { slots, by_ports, count, bound, .. } = self;
                *by_ports.entry(ports.in_order().0).or_insert_with(|| {
                    *count += 1;
                    slab_limit::insert(slots, *bound, TcpConversation::new(ports, *count - 1))
                })
            }
        };
        self.last = Some((ports, at));
        let is_a = self.slots.get(at).is_some_and(|stream| stream.ports.a == ports.a);
        (at, if is_a { ConnectionSide::A } else { ConnectionSide::B })
    }

    pub(in crate::flow) fn get_mut(&mut self, at: usize) -> Option<&mut TcpConversation> {
        self.slots.get_mut(at)
    }

    /// The stream of the last segment.
    pub(in crate::flow) fn last(&self) -> Option<&TcpConversation> {
        self.last.and_then(|(_, at)| self.slots.get(at))
    }

    /// Every stream.
    pub(in crate::flow) fn all(&self) -> Vec<usize> {
        self.slots.iter().map(|(at, _)| at).collect()
    }

    /// How many streams there are, and marks of them; and what they hold in bytes.
    #[cfg(test)]
    pub(in crate::flow) fn size(&self) -> (usize, usize) {
        let marks = self.by_ports.len().max(self.deadlines.len());
        (self.slots.len().max(marks), self.slots.iter().map(|(_, stream)| stream.held_bytes()).sum())
    }

    /// A stream between the same ports begins anew in its place.
    pub(in crate::flow) fn renew(&mut self, at: usize, ports: PortPair, now: Timestamp) {
        if let Some(stream) = self.slots.get_mut(at) {
            if let Some(deadline) = stream.deadline {
                self.deadlines.remove(&(deadline, at));
            }
            let halves = if stream.ports == ports { [&stream.a, &stream.b] } else { [&stream.b, &stream.a] };
            let former = PreviousIncarnation::new(halves, now);
            let weight = stream.weight;
            *stream =
                TcpConversation { former: Some(former), weight, ..TcpConversation::new(ports, self.count) };
            self.count += 1;
        }
    }

    /// Takes a stream out.
    pub(in crate::flow) fn remove(&mut self, at: usize) {
        self.last = None;
        if let Some(stream) = self.slots.try_remove(at) {
            self.weight -= stream.weight as usize;
            self.by_ports.remove(&stream.ports.in_order().0);
            if let Some(deadline) = stream.deadline {
                self.deadlines.remove(&(deadline, at));
            }
        }
    }

    /// Notes when the first hole of a stream is to be given up.
    pub(in crate::flow) fn note_deadline(&mut self, at: usize) {
        let Some(stream) = self.slots.get_mut(at) else { return };
        let deadline = stream.deadline().map(|(deadline, _)| deadline);
        if deadline != stream.deadline {
            if let Some(before) = stream.deadline {
                self.deadlines.remove(&(before, at));
            }
            stream.deadline = deadline;
            self.deadlines.extend(deadline.map(|deadline| (deadline, at)));
        }
    }

    /// A stream with a hole that has waited long enough.
    #[inline]
    pub(in crate::flow) fn is_due(&self, now: Timestamp) -> Option<usize> {
        let ends = [self.deadlines.first()?, self.deadlines.last()?];
        ends.into_iter().find(|(deadline, _)| direction::is_over(*deadline, now)).map(|(_, at)| *at)
    }

    /// Finds again how much memory a stream takes.
    #[inline]
    pub(in crate::flow) fn weigh(&mut self, at: usize) {
        let Some(stream) = self.slots.get_mut(at) else { return };
        let now = u32::try_from(stream.memory_bytes()).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut stream.weight, now);
        self.weight = (self.weight + now as usize).saturating_sub(before as usize);
    }

    /// Memory of all streams without what they hold, in bytes.
    pub(in crate::flow) fn memory_bytes(&self) -> usize {
        self.weight
    }

    /// How many there are.
    pub(in crate::flow) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(in crate::flow) fn is_over_bound(&self) -> bool {
        self.slots.len() > self.bound
    }

    /// The eighth of the streams that have been silent longest; first those that nothing is lost with.
    pub(in crate::flow) fn most_silent(&self) -> Vec<usize> {
        let mut silent: Vec<_> =
            self.slots.iter().map(|(at, stream)| (!stream.is_idle(), stream.last_frame, at)).collect();
        let count = (silent.len() / 8).max(1).min(silent.len());
        if count < silent.len() {
            silent.select_nth_unstable(count - 1);
            silent.truncate(count);
        }
        silent.sort_unstable();
        silent.into_iter().map(|(_, _, at)| at).collect()
    }
}
