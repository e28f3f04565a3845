//! Matching along both sides of a queue: record by record while they are equal, then by alignment.

use std::collections::HashSet;

use super::difference::{Difference, DifferenceKind};
use super::pairing_queue::{
    ALIGNMENT_WINDOWS, ComparisonPairingQueue, MAX_REPLY_DISTANCE, QueuedComparisonRecord, frame,
};
use super::record::ComparisonRecord;
use super::record_comparison::difference_side;
use super::{CaptureComparator, DifferenceReceiver, PairingQueueDrainExtent, alignment, differs_in_rdma};

impl CaptureComparator {
    pub(super) fn match_queue(
        &mut self,
        lane: &mut ComparisonPairingQueue,
        pace: PairingQueueDrainExtent,
        receive: &mut DifferenceReceiver<'_>,
    ) {
        // A client on one side only waits for the other side.
        if lane.sides.iter().any(|row| row.client.is_none()) {
            return;
        }
        loop {
            let (across, is_other_minor) = (differs_in_rdma(lane), lane.differs_in_minor_version());
            // Records of a replay name their steps, so that their contents do not matter.
            let is_replay = lane.is_replay();
            let [a, b] = &lane.sides;
            // Unless both sides have ended, a record of a lower frame may still come.
            let keep = match pace {
                PairingQueueDrainExtent::Steady => {
                    ALIGNMENT_WINDOWS[0].max((a.waiting.len() + b.waiting.len()) / 8)
                }
                _ => 0,
            };
            if a.waiting.len() <= keep && b.waiting.len() <= keep {
                return;
            }
            let together = !is_replay
                && a.waiting.front().zip(b.waiting.front()).is_some_and(|(one, other)| {
                    let known = one.key.with_numbers(0, is_other_minor, &mut self.identities);
                    known.is_same(&other.key.with_numbers(1, is_other_minor, &mut self.identities))
                });
            if together {
                let (of_a, of_b) = (self.take_waiting(lane, 0, 1), self.take_waiting(lane, 1, 1));
                for (one, other) in of_a.iter().zip(&of_b) {
                    self.compare(&one.record, &other.record, across, receive);
                }
                continue;
            }
            if pace == PairingQueueDrainExtent::WhileEqual {
                return;
            }
            self.match_by_alignment(lane, pace == PairingQueueDrainExtent::Last, receive);
        }
    }

    /// Aligns the two sides, whose first records differ.
    fn match_by_alignment(
        &mut self,
        lane: &mut ComparisonPairingQueue,
        is_all: bool,
        receive: &mut DifferenceReceiver<'_>,
    ) {
        let found = self.alignment_of(lane, is_all);
        let (across, is_run) = (differs_in_rdma(lane), lane.is_replay());
        let of_a = self.take_waiting(lane, 0, found.covered.0);
        let of_b = self.take_waiting(lane, 1, found.covered.1);
        // In the order of A, because definitions come before uses.
        let mut pairs: Vec<_> = found.pairs.iter().chain(&found.moved).copied().collect();
        pairs.sort_unstable();
        for (i, j) in &pairs {
            if let (Some(one), Some(other)) = (of_a.get(*i), of_b.get(*j)) {
                self.compare(&one.record, &other.record, across, receive);
            }
        }
        // A replay chooses the order of independent steps; that is no difference of the server.
        match is_run {
            true => self.reordered += found.moved.len() as u64,
            false => self.report_moved([&of_a, &of_b], &found.moved, &pairs),
        }
        let paired = [
            pairs.iter().map(|(i, _)| *i).collect::<HashSet<_>>(),
            pairs.iter().map(|(_, j)| *j).collect::<HashSet<_>>(),
        ];
        for ((row, records), paired) in lane.sides.iter_mut().zip([of_a, of_b]).zip(&paired) {
            let records = records.into_iter().enumerate();
            for (_, waiting) in records.filter(|(at, _)| !paired.contains(at)) {
                self.unpaired.add(&waiting);
                row.unpaired.push_back(QueuedComparisonRecord { pairs: self.pairs, ..waiting });
            }
        }
        self.evict(lane);
    }

    /// Returns the alignment of the waiting records, as far as known by now.
    fn alignment_of(&mut self, lane: &ComparisonPairingQueue, is_all: bool) -> alignment::SequenceAlignment {
        if let Some(pairs) = lane.is_replay().then(|| lane.pairs_by_step()).flatten() {
            let lengths = lane.sides.each_ref().map(|row| row.waiting.len());
            return alignment::align_by_steps(pairs, (lengths[0], lengths[1]), is_all);
        }
        let longest = lane.sides.iter().map(|row| row.waiting.len()).max().unwrap_or(0);
        let is_other_minor = lane.differs_in_minor_version();
        for window in ALIGNMENT_WINDOWS {
            let is_end = window >= longest;
            let mut sides: [Vec<_>; 2] = Default::default();
            for (side, (row, known)) in lane.sides.iter().zip(&mut sides).enumerate() {
                let keys = row.waiting.iter().take(window).map(|waiting| &waiting.key);
                known.extend(keys.map(|key| key.with_numbers(side, is_other_minor, &mut self.identities)));
            }
            let keys = sides.each_ref().map(|side| side.iter().map(|known| known.call).collect::<Vec<_>>());
            let [a, b] = &sides;
            let of = |i: usize, j: usize| a.get(i).zip(b.get(j));
            let rows = alignment::SequenceAlignmentInput {
                keys: [&keys[0], &keys[1]],
                weight: |i, j| of(i, j).map_or(0, |(one, other)| one.weight(other)),
                is_same: |i, j| of(i, j).is_some_and(|(one, other)| one.is_same(other)),
            };
            if let Some(aligned) = rows.align(is_all && is_end, is_end) {
                return aligned;
            }
        }
        alignment::SequenceAlignment::default()
    }

    /// Reports records at different positions. It is a difference if one of two operations waited for the other on both
    /// sides; operations in flight at the same time are independent. Two swapped operations are one difference.
    fn report_moved(
        &mut self,
        rows: [&[QueuedComparisonRecord]; 2],
        moved: &[(usize, usize)],
        pairs: &[(usize, usize)],
    ) {
        let [a, b] = rows;
        let is_exact = self.options.strict || self.options.exact;
        let waited = |row: &[QueuedComparisonRecord], first: usize, second: usize| {
            record(row, first)
                .zip(record(row, second))
                .is_some_and(|(first, second)| is_exact || first.end_frame < frame(second))
        };
        let is_crossed = |(i, j): (usize, usize), (p, q): (usize, usize)| {
            i < p && j > q && waited(a, i, p) && waited(b, q, j)
                || i > p && j < q && waited(a, p, i) && waited(b, j, q)
        };
        let mut matched_before = HashSet::new();
        for pair in moved {
            if matched_before.contains(pair) {
                continue;
            }
            // Another moved record is the more likely partner of a swap.
            let partner = moved.iter().filter(|other| !matched_before.contains(*other)).chain(pairs);
            let Some(other) = partner.copied().find(|other| is_crossed(*pair, *other)) else {
                self.reordered += 1;
                continue;
            };
            if moved.contains(&other) {
                matched_before.insert(other);
            }
            let (Some(one), Some(opposite)) = (record(a, pair.0), record(b, pair.1)) else { continue };
            let (Some(in_a), Some(in_b)) = (record(a, other.0), record(b, other.1)) else { continue };
            let word = |is_before: bool, record: &ComparisonRecord| {
                let word = if is_before { "before" } else { "after" };
                Some(format!("{word} {} of frame {}", record.title, frame(record)))
            };
            let sides = [
                difference_side(one, true, word(pair.0 < other.0, in_a)),
                difference_side(opposite, true, word(pair.1 < other.1, in_b)),
            ];
            self.report(Difference::without_field(DifferenceKind::Order, &one.title, "", sides));
        }
    }

    /// Pairs late records with those without partners, and reports the rest.
    pub(super) fn finish_queue(
        &mut self,
        lane: &mut ComparisonPairingQueue,
        receive: &mut DifferenceReceiver<'_>,
    ) {
        let across = differs_in_rdma(lane);
        self.pair_late_records(lane, receive);
        self.give_up_late_records(lane);
        self.pair_replies(lane, receive);
        for side in 0..2 {
            for waiting in std::mem::take(&mut lane.sides[side].unpaired) {
                self.unpaired.subtract(&waiting);
                self.report_unpaired(&waiting.record, side, across);
            }
        }
    }

    /// Pairs each Reply without its Call, whose operation is unknown, with a nearby unpaired Transaction of the other
    /// side.
    fn pair_replies(&mut self, lane: &mut ComparisonPairingQueue, receive: &mut DifferenceReceiver<'_>) {
        let across = differs_in_rdma(lane);
        for side in 0..2 {
            let mut at = 0;
            while let Some(reply) = lane.sides[side].unpaired.get(at) {
                let near = |other: &QueuedComparisonRecord| other.pairs.abs_diff(reply.pairs);
                let is_likely = |other: &QueuedComparisonRecord| {
                    other.record.call.is_some()
                        && other.record.reply.is_some()
                        && near(other) <= MAX_REPLY_DISTANCE
                };
                let others = lane.sides[1 - side].unpaired.iter().enumerate();
                let found = others
                    .filter(|(_, other)| reply.record.call.is_none() && is_likely(other))
                    .min_by_key(|(_, other)| near(other))
                    .map(|(place, _)| place);
                let Some(other) = found.and_then(|place| lane.sides[1 - side].unpaired.remove(place)) else {
                    at += 1;
                    continue;
                };
                self.unpaired.subtract(&other);
                let Some(reply) = lane.sides[side].unpaired.remove(at) else { continue };
                self.unpaired.subtract(&reply);
                let (one, other) = if side == 0 { (reply, other) } else { (other, reply) };
                self.compare(&one.record, &other.record, across, receive);
            }
        }
    }
}

fn record(row: &[QueuedComparisonRecord], at: usize) -> Option<&ComparisonRecord> {
    row.get(at).map(|waiting| &waiting.record)
}
