//! Matching along both sides of a queue: record by record while they are equal, then by alignment.

use std::collections::HashSet;

use super::alignment;
use super::capture_comparator::{CaptureComparator, DifferenceReceiver, PairingQueueDrainExtent, differs_in_rdma};
use super::difference::{Difference, DifferenceKind};
use super::pairing_queue::{
    ALIGNMENT_WINDOWS, ComparisonPairingQueue, MAX_REPLY_DISTANCE, QueuedComparisonRecord, frame,
};
use super::record::ComparableTransaction;
use super::record_comparison::difference_side;

impl CaptureComparator {
    pub(super) fn match_queue(
        &mut self,
        queue: &mut ComparisonPairingQueue,
        extent: PairingQueueDrainExtent,
        receive: &mut DifferenceReceiver<'_>,
    ) {
        // A client on one side only waits for the other side.
        if queue.sides.iter().any(|queue_side| queue_side.client.is_none()) {
            return;
        }
        loop {
            let (differs_in_rdma, is_other_minor) = (differs_in_rdma(queue), queue.differs_in_minor_version());
            // Records of a replay name their steps, so that their contents do not matter.
            let is_replay = queue.is_replay();
            let [a, b] = &queue.sides;
            // Unless both sides have ended, a record of a lower frame may still come.
            let keep_count = match extent {
                PairingQueueDrainExtent::Steady => ALIGNMENT_WINDOWS[0].max((a.waiting.len() + b.waiting.len()) / 8),
                _ => 0,
            };
            if a.waiting.len() <= keep_count && b.waiting.len() <= keep_count {
                return;
            }
            let is_front_pair = !is_replay
                && a.waiting.front().zip(b.waiting.front()).is_some_and(|(front_a, front_b)| {
                    let key = front_a.key.with_numbers(0, is_other_minor, &mut self.identities);
                    key.is_same(&front_b.key.with_numbers(1, is_other_minor, &mut self.identities))
                });
            if is_front_pair {
                let (of_a, of_b) = (self.take_waiting(queue, 0, 1), self.take_waiting(queue, 1, 1));
                for (waiting_a, waiting_b) in of_a.iter().zip(&of_b) {
                    self.compare(&waiting_a.record, &waiting_b.record, differs_in_rdma, receive);
                }
                continue;
            }
            if extent == PairingQueueDrainExtent::WhileEqual {
                return;
            }
            self.match_by_alignment(queue, extent == PairingQueueDrainExtent::Last, receive);
        }
    }

    /// Aligns the two sides, whose first records differ.
    fn match_by_alignment(
        &mut self,
        queue: &mut ComparisonPairingQueue,
        is_all: bool,
        receive: &mut DifferenceReceiver<'_>,
    ) {
        let alignment = self.alignment_of(queue, is_all);
        let (differs_in_rdma, is_replay) = (differs_in_rdma(queue), queue.is_replay());
        let of_a = self.take_waiting(queue, 0, alignment.covered.0);
        let of_b = self.take_waiting(queue, 1, alignment.covered.1);
        // In the order of A, because definitions come before uses.
        let mut pairs: Vec<_> = alignment.pairs.iter().chain(&alignment.moved).copied().collect();
        pairs.sort_unstable();
        for (i, j) in &pairs {
            if let (Some(a), Some(b)) = (of_a.get(*i), of_b.get(*j)) {
                self.compare(&a.record, &b.record, differs_in_rdma, receive);
            }
        }
        // A replay chooses the order of independent steps; that is not a difference of the server.
        match is_replay {
            true => self.reordered += alignment.moved.len() as u64,
            false => self.report_moved([&of_a, &of_b], &alignment.moved, &pairs),
        }
        let paired = [
            pairs.iter().map(|(i, _)| *i).collect::<HashSet<_>>(),
            pairs.iter().map(|(_, j)| *j).collect::<HashSet<_>>(),
        ];
        for ((queue_side, records), paired) in queue.sides.iter_mut().zip([of_a, of_b]).zip(&paired) {
            let records = records.into_iter().enumerate();
            for (_, waiting) in records.filter(|(at, _)| !paired.contains(at)) {
                self.unpaired.add(&waiting);
                queue_side.unpaired.push_back(QueuedComparisonRecord { pairs: self.pairs, ..waiting });
            }
        }
        self.evict(queue);
    }

    /// Returns the alignment of the waiting records, as far as known by now.
    fn alignment_of(&mut self, queue: &ComparisonPairingQueue, is_all: bool) -> alignment::SequenceAlignment {
        if let Some(pairs) = queue.is_replay().then(|| queue.pairs_by_step()).flatten() {
            let lengths = queue.sides.each_ref().map(|queue_side| queue_side.waiting.len());
            return alignment::align_known_pairs(pairs, (lengths[0], lengths[1]), is_all);
        }
        let longest = queue.sides.iter().map(|queue_side| queue_side.waiting.len()).max().unwrap_or(0);
        let is_other_minor = queue.differs_in_minor_version();
        for window in ALIGNMENT_WINDOWS {
            let is_end = window >= longest;
            let mut sides: [Vec<_>; 2] = Default::default();
            for (side, (queue_side, numbered)) in queue.sides.iter().zip(&mut sides).enumerate() {
                let keys = queue_side.waiting.iter().take(window).map(|waiting| &waiting.key);
                numbered.extend(keys.map(|key| key.with_numbers(side, is_other_minor, &mut self.identities)));
            }
            let keys = sides.each_ref().map(|side| side.iter().map(|key| key.call).collect::<Vec<_>>());
            let [a, b] = &sides;
            let pair = |i: usize, j: usize| a.get(i).zip(b.get(j));
            let input = alignment::SequenceAlignmentInput {
                keys: [&keys[0], &keys[1]],
                weight: |i, j| pair(i, j).map_or(0, |(key_a, key_b)| key_a.weight(key_b)),
                is_same: |i, j| pair(i, j).is_some_and(|(key_a, key_b)| key_a.is_same(key_b)),
            };
            if let Some(aligned) = input.align(is_all && is_end, is_end) {
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
        let has_waited = |row: &[QueuedComparisonRecord], first: usize, second: usize| {
            record(row, first)
                .zip(record(row, second))
                .is_some_and(|(first, second)| is_exact || first.end_frame < frame(second))
        };
        let is_crossed = |(i, j): (usize, usize), (p, q): (usize, usize)| {
            i < p && j > q && has_waited(a, i, p) && has_waited(b, q, j)
                || i > p && j < q && has_waited(a, p, i) && has_waited(b, j, q)
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
            let (Some(record_a), Some(record_b)) = (record(a, pair.0), record(b, pair.1)) else { continue };
            let (Some(in_a), Some(in_b)) = (record(a, other.0), record(b, other.1)) else { continue };
            let order_text = |is_before: bool, record: &ComparableTransaction| {
                let word = if is_before { "before" } else { "after" };
                Some(format!("{word} {} of frame {}", record.title, frame(record)))
            };
            let sides = [
                difference_side(record_a, true, order_text(pair.0 < other.0, in_a)),
                difference_side(record_b, true, order_text(pair.1 < other.1, in_b)),
            ];
            self.report(Difference::without_field(DifferenceKind::Order, &record_a.title, "", sides));
        }
    }

    /// Pairs late records with those without partners, and reports the rest.
    pub(super) fn finish_queue(&mut self, queue: &mut ComparisonPairingQueue, receive: &mut DifferenceReceiver<'_>) {
        let differs_in_rdma = differs_in_rdma(queue);
        self.pair_late_records(queue, receive);
        self.give_up_late_records(queue);
        self.pair_replies(queue, receive);
        for side in 0..2 {
            for waiting in std::mem::take(&mut queue.sides[side].unpaired) {
                self.unpaired.subtract(&waiting);
                self.report_unpaired(&waiting.record, side, differs_in_rdma);
            }
        }
    }

    /// Pairs each Reply without its Call, whose operation is unknown, with a nearby unpaired Transaction of the other
    /// side.
    fn pair_replies(&mut self, queue: &mut ComparisonPairingQueue, receive: &mut DifferenceReceiver<'_>) {
        let differs_in_rdma = differs_in_rdma(queue);
        for side in 0..2 {
            let mut at = 0;
            while let Some(reply) = queue.sides[side].unpaired.get(at) {
                let distance = |other: &QueuedComparisonRecord| other.pairs.abs_diff(reply.pairs);
                let is_likely = |other: &QueuedComparisonRecord| {
                    other.record.call.is_some() && other.record.reply.is_some() && distance(other) <= MAX_REPLY_DISTANCE
                };
                let others = queue.sides[1 - side].unpaired.iter().enumerate();
                let nearest = others
                    .filter(|(_, other)| reply.record.call.is_none() && is_likely(other))
                    .min_by_key(|(_, other)| distance(other))
                    .map(|(index, _)| index);
                let Some(other) = nearest.and_then(|index| queue.sides[1 - side].unpaired.remove(index)) else {
                    at += 1;
                    continue;
                };
                self.unpaired.subtract(&other);
                let Some(reply) = queue.sides[side].unpaired.remove(at) else { continue };
                self.unpaired.subtract(&reply);
                let (a, b) = if side == 0 { (reply, other) } else { (other, reply) };
                self.compare(&a.record, &b.record, differs_in_rdma, receive);
            }
        }
    }
}

fn record(row: &[QueuedComparisonRecord], at: usize) -> Option<&ComparableTransaction> {
    row.get(at).map(|waiting| &waiting.record)
}
