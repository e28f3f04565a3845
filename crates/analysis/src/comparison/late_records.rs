//! Records that come after their successors were taken: a Transaction without a Reply comes when its capture ends, or
//! when it is evicted.
//!
//! Late records wait until they fill a quarter of the window. Then those of both sides are paired with each other and
//! with records without partners, and half of the rest become records without partners.

use std::collections::HashMap;

use super::capture_comparator::{CaptureComparator, DifferenceReceiver, MAX_WAITING_RECORDS, differs_in_rdma};
use super::pairing_queue::{ComparisonKeyWithFilehandleNumbers, ComparisonPairingQueue, QueuedComparisonRecord};

/// Number of late records of a side from which they are paired.
const MAX_LATE_RECORDS: usize = MAX_WAITING_RECORDS / 4;
/// Maximum number of records with the same arguments among which a partner is searched.
const MAX_CANDIDATES: usize = 64;

struct LateRecordPartnerCandidate<'q> {
    waiting: &'q QueuedComparisonRecord,
    key: ComparisonKeyWithFilehandleNumbers<'q>,
    /// As in [`LateRecordPairIndices`].
    place: (bool, usize),
    is_taken: bool,
}

/// Indices of a pair: of each side, `true` and the index of a late record, or `false` and that of one without a
/// partner.
type LateRecordPairIndices = [(bool, usize); 2];

impl CaptureComparator {
    /// Returns `true` if more than a number of late records wait on a side, or as many bytes in proportion.
    fn has_late(&self, records: usize) -> bool {
        let bytes = self.memory.waiting_bytes / MAX_WAITING_RECORDS * records;
        self.late.iter().any(|queued| queued.count > records || queued.bytes > bytes)
    }

    /// Pairs late records if there are many.
    pub(super) fn settle_late_records(&mut self, receive: &mut DifferenceReceiver<'_>) {
        if !self.has_late(MAX_LATE_RECORDS) {
            return;
        }
        for at in 0..self.queues.len() {
            self.with_queue(at, |this, queue| this.pair_late_records(queue, receive));
        }
        for at in 0..self.queues.len() {
            if !self.has_late(MAX_LATE_RECORDS / 2) {
                return;
            }
            self.with_queue(at, |this, queue| this.give_up_late_records(queue));
        }
    }

    /// Pairs the late records of a queue with late ones and with records without partners of the other side.
    pub(super) fn pair_late_records(
        &mut self,
        queue: &mut ComparisonPairingQueue,
        receive: &mut DifferenceReceiver<'_>,
    ) {
        if queue.sides.iter().all(|row| row.late.is_empty()) {
            return;
        }
        let differs_in_rdma = differs_in_rdma(queue);
        let pairs = self.late_pairs(queue);
        let mut records = [0, 1].map(|side| {
            let queue_side = &mut queue.sides[side];
            let late = std::mem::take(&mut queue_side.late).into_iter();
            let unpaired = std::mem::take(&mut queue_side.unpaired).into_iter();
            [late.map(Some).collect::<Vec<_>>(), unpaired.map(Some).collect()]
        });
        for pair in pairs {
            let mut take = |side: usize| {
                let (is_late, at) = pair[side];
                let record = records[side][usize::from(!is_late)].get_mut(at)?.take()?;
                if is_late { &mut self.late[side] } else { &mut self.unpaired }.subtract(&record);
                Some(record)
            };
            if let (Some(a), Some(b)) = (take(0), take(1)) {
                self.compare(&a.record, &b.record, differs_in_rdma, receive);
            }
        }
        for (queue_side, [late, unpaired]) in queue.sides.iter_mut().zip(records) {
            queue_side.late = late.into_iter().flatten().collect();
            queue_side.unpaired = unpaired.into_iter().flatten().collect();
        }
    }

    fn late_pairs(&mut self, queue: &ComparisonPairingQueue) -> Vec<LateRecordPairIndices> {
        let is_other_minor = queue.differs_in_minor_version();
        let mut candidates = |side: usize| {
            let queue_side = &queue.sides[side];
            let late = queue_side.late.iter().enumerate().map(|(at, waiting)| ((true, at), waiting));
            let unpaired = queue_side.unpaired.iter().enumerate().map(|(at, waiting)| ((false, at), waiting));
            let all = late.chain(unpaired).map(|(position, waiting)| {
                let key = waiting.key.with_numbers(side, is_other_minor, &mut self.identities);
                LateRecordPartnerCandidate { waiting, key, place: position, is_taken: false }
            });
            all.collect::<Vec<_>>()
        };
        let (of_a, mut of_b) = (candidates(0), candidates(1));
        let (mut by_step, mut by_call, mut by_origin) =
            (HashMap::new(), HashMap::<_, Vec<usize>>::new(), HashMap::<_, Vec<usize>>::new());
        for (at, candidate) in of_b.iter().enumerate().rev() {
            match candidate.waiting.record.replayed_step {
                Some(step) => _ = by_step.insert(step, at),
                None => {
                    by_call.entry(candidate.key.call).or_default().push(at);
                    by_origin.entry(candidate.key.origin_hash()).or_default().push(at);
                }
            }
        }
        let mut pairs = Vec::new();
        for candidate_a in &of_a {
            let is_free = |at: &usize| {
                let candidate_b = &of_b[*at];
                !candidate_b.is_taken && (candidate_a.place.0 || candidate_b.place.0)
            };
            let by_step = by_step.get(&candidate_a.waiting.record.location.index).copied();
            let by_step = by_step
                .filter(|at| of_b[*at].waiting.record.signature == candidate_a.waiting.record.signature)
                .filter(is_free);
            let find = |indices: Option<&mut Vec<usize>>| {
                let indices = indices?;
                // Partners come in the same order on both sides, so that the first are taken first.
                while indices.last().is_some_and(|at| of_b[*at].is_taken) {
                    indices.pop();
                }
                let mut recent = indices.iter().rev().take(MAX_CANDIDATES).copied();
                recent.find(|at| is_free(at) && candidate_a.key.is_same(&of_b[*at].key))
            };
            let partner = by_step
                .or_else(|| find(by_origin.get_mut(&candidate_a.key.origin_hash())))
                .or_else(|| find(by_call.get_mut(&candidate_a.key.call)));
            if let Some(j) = partner {
                of_b[j].is_taken = true;
                pairs.push([candidate_a.place, of_b[j].place]);
            }
        }
        pairs
    }

    /// Makes late records without a partner records without partners.
    pub(super) fn give_up_late_records(&mut self, queue: &mut ComparisonPairingQueue) {
        for side in 0..2 {
            for record in std::mem::take(&mut queue.sides[side].late) {
                self.late[side].subtract(&record);
                self.unpaired.add(&record);
                queue.sides[side].unpaired.push_back(QueuedComparisonRecord { pairs: self.pairs, ..record });
            }
        }
        self.evict(queue);
    }
}
