//! All streams of TCP, by addresses and ports.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::address::Port;
use crate::flow::account::Undecoded;
use crate::flow::bounded;
use crate::flow::connection::{ConnectionKey, Ports};
use crate::flow::records::Records;
use crate::frame::{FrameNumber, Timestamp};
use crate::net::{TcpSegment, TcpSequence};
use crate::rdma::Side;

use super::half::{self, Formers, Half};
use super::protocol::{self, Protocol, Verdict};

/// A stream: both directions of one connection of TCP.
#[derive(Debug)]
pub(in crate::flow) struct Stream {
    /// Side A is who sent the segment that was seen first.
    pub(in crate::flow) ports: Ports,
    pub(in crate::flow) a: Half,
    pub(in crate::flow) b: Half,
    pub(in crate::flow) protocol: Protocol,
    /// The side that sent the SYN, where that was seen.
    pub(in crate::flow) opened_by: Option<Side>,
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
    former: Option<Formers>,
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
pub struct StreamPlace {
    /// Which stream of the capture it is, from 0, in the order of their first segments.
    pub stream: u64,
    /// The sequence number, from that of the SYN on; where that was not captured, the first number that was is 1.
    pub sequence: u32,
    /// The acknowledgement number in the same way; 0 where the segment has none.
    pub acknowledgment: u32,
}

impl Stream {
    fn new(ports: Ports, number: u64) -> Self {
        Self {
            ports,
            number,
            starts: [None; 2],
            a: Half::default(),
            b: Half::default(),
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
    pub(in crate::flow) fn halves(&mut self, sender: Side) -> (&mut Half, &mut Half) {
        match sender {
            Side::A => (&mut self.a, &mut self.b),
            Side::B => (&mut self.b, &mut self.a),
        }
    }

    /// Whether a segment is a copy of one of the stream that was between the same ports before.
    pub(in crate::flow) fn is_former(&self, sender: Side, segment: &TcpSegment<'_>, now: Timestamp) -> bool {
        let Some(former) = &self.former else { return false };
        match sender {
            Side::A => former.has(0, &self.a, segment, now),
            Side::B => former.has(1, &self.b, segment, now),
        }
    }

    /// What was between the same ports before had the same numbers.
    pub(in crate::flow) fn forget_former(&mut self) {
        self.former = None;
    }

    /// Notes from where the numbers of a segment count, if it is the first that tells.
    pub(in crate::flow) fn count_from(&mut self, sender: Side, segment: &TcpSegment<'_>) {
        let before = |number: TcpSequence| number.add(u32::MAX);
        let [a, b] = &mut self.starts;
        let (own, other) = if sender == Side::A { (a, b) } else { (b, a) };
        own.get_or_insert(if segment.flags.syn() { segment.sequence } else { before(segment.sequence) });
        if segment.flags.ack() {
            other.get_or_insert(before(segment.acknowledgment));
        }
    }

    /// Where a segment stands that a side sent.
    pub(in crate::flow) fn place(&self, sender: Side, segment: &TcpSegment<'_>) -> StreamPlace {
        let [a, b] = self.starts;
        let (own, other) = if sender == Side::A { (a, b) } else { (b, a) };
        let since = |start: Option<TcpSequence>, number: TcpSequence| {
            start.map_or(0, |start| number.0.wrapping_sub(start.0))
        };
        let acknowledgment = if segment.flags.ack() { since(other, segment.acknowledgment) } else { 0 };
        StreamPlace { stream: self.number, sequence: since(own, segment.sequence), acknowledgment }
    }

    /// A side of whose bytes some are missing before others.
    pub(in crate::flow) fn side_with_hole(&mut self) -> Option<Side> {
        [Side::A, Side::B].into_iter().find(|side| self.halves(*side).0.has_hole())
    }

    /// It is known what the stream carries.
    pub(in crate::flow) fn carry(&mut self, verdict: Verdict) {
        let begins = matches!(self.protocol, Protocol::Opening);
        self.protocol = match verdict {
            Verdict::Mpa => Protocol::Mpa(Box::default()),
            Verdict::Tls => Protocol::Tls,
            Verdict::Undecided => return,
            Verdict::Other => Protocol::Other,
            Verdict::Records => {
                let mut records = Box::<[Records; 2]>::default();
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
    pub(in crate::flow) fn settle(&mut self) -> Vec<(FrameNumber, Undecoded)> {
        if !matches!(self.protocol, Protocol::Opening) {
            return Vec::new();
        }
        let ports = self.port_numbers();
        let verdicts = self.a.kept().chain(self.b.kept()).map(|data| protocol::segment(data, ports, true));
        let verdict = { verdicts }.find(|verdict| *verdict != Verdict::Undecided);
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
    pub(in crate::flow) fn forget(&mut self, protocol: Protocol) -> Vec<(FrameNumber, Undecoded)> {
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
    pub(in crate::flow) fn deadline(&self) -> Option<(Timestamp, Side)> {
        let of = |half: &Half, other: &Half, side| {
            let counts = half.has_hole() || !other.has_hole();
            half.deadline().filter(|_| counts).map(|deadline| (deadline, side))
        };
        let (a, b) = (of(&self.a, &self.b, Side::A), of(&self.b, &self.a, Side::B));
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
const STREAM_BYTES: usize = size_of::<Stream>() + 2 * size_of::<(Ports, usize)>();

/// All streams.
#[derive(Debug)]
pub(in crate::flow) struct Streams {
    slots: slab::Slab<Stream>,
    by_ports: FxHashMap<Ports, usize>,
    last: Option<(Ports, usize)>,
    /// How many there have been.
    count: u64,
    /// When the holes of streams are to be given up, in order.
    deadlines: BTreeSet<(Timestamp, usize)>,
    /// Memory of all streams without what they hold, in bytes.
    weight: usize,
    bound: usize,
}

impl Streams {
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
    pub(in crate::flow) fn find(&mut self, ports: Ports) -> (usize, Side) {
        let at = match self.last {
            Some((last, at)) if last == ports => at,
            _ => {
                let Self { slots, by_ports, count, bound, .. } = self;
                *by_ports.entry(ports.in_order().0).or_insert_with(|| {
                    *count += 1;
                    bounded::insert(slots, *bound, Stream::new(ports, *count - 1))
                })
            }
        };
        self.last = Some((ports, at));
        let is_a = self.slots.get(at).is_some_and(|stream| stream.ports.a == ports.a);
        (at, if is_a { Side::A } else { Side::B })
    }

    pub(in crate::flow) fn get_mut(&mut self, at: usize) -> Option<&mut Stream> {
        self.slots.get_mut(at)
    }

    /// The stream of the last segment.
    pub(in crate::flow) fn last(&self) -> Option<&Stream> {
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
    pub(in crate::flow) fn renew(&mut self, at: usize, ports: Ports, now: Timestamp) {
        if let Some(stream) = self.slots.get_mut(at) {
            if let Some(deadline) = stream.deadline {
                self.deadlines.remove(&(deadline, at));
            }
            let halves = if stream.ports == ports { [&stream.a, &stream.b] } else { [&stream.b, &stream.a] };
            let former = Formers::new(halves, now);
            let weight = stream.weight;
            *stream = Stream { former: Some(former), weight, ..Stream::new(ports, self.count) };
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
        ends.into_iter().find(|(deadline, _)| half::is_over(*deadline, now)).map(|(_, at)| *at)
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
