//! Pairing of the clients of two captures: by address, or else in the order in which they appear.

use std::collections::{HashMap, HashSet};

use nfsrdma_flow::transaction::CallDirection;

use super::capture_comparator::{CaptureComparator, ComparisonSide, MAX_WAITING_RECORDS};
use super::difference::{Difference, DifferenceKind, DifferenceSideValue};
use super::pairing_queue::ComparisonPairingQueueSide;

impl CaptureComparator {
    /// Drops and counts the first half of the records of each unpaired client, until half of the records that may wait
    /// are left. One pass over all clients thus frees up to one record per client, so that thousands of clients with
    /// one Call each do not cost a pass each. An unpaired client is one difference, however many records it has.
    pub(super) fn drop_unmatched(&mut self, side: ComparisonSide) {
        let at = side as usize;
        for index in 0..self.queues.len() {
            if !self.has_waiting(side, MAX_WAITING_RECORDS / 2) {
                return;
            }
            self.with_queue(index, |this, queue| {
                if queue.sides[1 - at].client.is_none() {
                    let half = queue.sides[at].waiting.len().div_ceil(2);
                    let records = this.take_waiting(queue, at, half);
                    let late_records = std::mem::take(&mut queue.sides[at].late);
                    late_records.iter().for_each(|late| this.late[at].subtract(late));
                    queue.sides[at].dropped += (records.len() + late_records.len()) as u64;
                }
            });
        }
    }

    /// Pairs clients that are on one side only: by address, or else in the order in which they appear.
    pub(super) fn pair_clients(&mut self, is_all: bool) {
        let alone = |side: usize| -> Vec<usize> {
            (0..self.queues.len()).filter(|at| self.queues[*at].sides[1 - side].client.is_none()).collect()
        };
        let (mut alone_a, mut alone_b) = (alone(0), alone(1));
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        alone_a.retain(|a| {
            let client = self.queues[*a].sides[0].client.as_ref();
            let same_client = client.and_then(|client| self.clients[1].get(client).copied());
            let free = same_client.filter(|b| self.queues[*b].sides[0].client.is_none());
            pairs.extend(free.map(|b| (*a, b)));
            free.is_none()
        });
        let paired_b: HashSet<usize> = pairs.iter().map(|(_, b)| *b).collect();
        alone_b.retain(|b| !paired_b.contains(b));
        // Two decodings of one capture have the same clients.
        let directions = [CallDirection::Forward, CallDirection::Reverse].into_iter();
        for direction in directions.filter(|_| !self.options.exact) {
            let has_direction = |at: &usize, side: usize| {
                let client = self.queues[*at].sides[side].client.as_ref();
                client.is_some_and(|client| client.direction == direction)
            };
            let in_a = alone_a.iter().filter(|at| has_direction(at, 0));
            let in_b = alone_b.iter().filter(|at| has_direction(at, 1));
            pairs.extend(in_a.copied().zip(in_b.copied()));
        }
        for (a, b) in &pairs {
            let queue_side = std::mem::take(&mut self.queues[*b].sides[1]);
            self.queues[*a].sides[1] = queue_side;
        }
        // Above the limit, idle clients are removed; they are added again with their next Call.
        let is_crowded = self.has_too_many_clients() && !is_all;
        let mut differences = Vec::new();
        self.queues.retain(|queue| {
            let is_idle = is_crowded && queue.sides.iter().all(ComparisonPairingQueueSide::is_idle);
            let is_alone = queue.sides.iter().any(|queue_side| queue_side.client.is_none());
            let rows = queue.sides.iter().enumerate().filter(|_| is_idle);
            differences.extend(rows.filter_map(|(side, queue_side)| client_difference(queue_side, side, is_alone)));
            queue.sides.iter().any(|queue_side| queue_side.client.is_some()) && !is_idle
        });
        self.clients.iter_mut().for_each(HashMap::clear);
        for (at, queue) in self.queues.iter().enumerate() {
            for (clients, queue_side) in self.clients.iter_mut().zip(&queue.sides) {
                clients.extend(queue_side.client.clone().map(|client| (client, at)));
            }
        }
        for queue in self.queues.iter_mut().filter(|_| is_all) {
            let is_alone = queue.sides.iter().any(|queue_side| queue_side.client.is_none());
            for (side, queue_side) in queue.sides.iter_mut().enumerate() {
                differences.extend(client_difference(queue_side, side, is_alone));
                if is_alone {
                    *queue_side = ComparisonPairingQueueSide::default();
                }
            }
        }
        differences.into_iter().for_each(|difference| self.report(difference));
    }
}

/// Returns the difference for a client that is on one side only, or began long before it did on the other.
fn client_difference(queue_side: &ComparisonPairingQueueSide, side: usize, is_alone: bool) -> Option<Difference> {
    let (client, (location, title)) = queue_side.client.as_ref().zip(queue_side.first.as_ref())?;
    let (count, suffix) = match (is_alone, queue_side.dropped) {
        (true, _) => (queue_side.records, ""),
        (false, 0) => return None,
        (false, dropped) => (dropped, " before the other capture has it"),
    };
    let value = Some(format!("{} with {count} transactions{suffix}", client.address));
    let side_value = DifferenceSideValue { location: Some(*location), frame: location.frame(), value };
    Some(Difference::without_field(DifferenceKind::Client, title, "", side_value.on_side(side)))
}
