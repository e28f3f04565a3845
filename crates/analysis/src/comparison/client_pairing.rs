//! Pairing of the clients of two captures: by address, or else in the order in which they appear.

use std::collections::{HashMap, HashSet};

use nfsrdma_dissectors::flow::transaction::CallDirection;

use super::difference::{Difference, DifferenceKind, DifferenceSideValue};
use super::pairing_queue::ComparisonPairingQueueSide;
use super::{CaptureComparator, ComparisonSide, MAX_WAITING_RECORDS};

impl CaptureComparator {
    /// Drops and counts the first half of the records of each unpaired client, until half of the records that may wait
    /// are left. One pass over all clients thus frees up to one record per client, so that thousands of clients with
    /// one Call each do not cost a pass each. An unpaired client is one difference, however many records it has.
    pub(super) fn drop_unmatched(&mut self, side: ComparisonSide) {
        let at = side as usize;
        for lane in 0..self.queues.len() {
            if !self.has_waiting(side, MAX_WAITING_RECORDS / 2) {
                return;
            }
            self.with_queue(lane, |this, lane| {
                if lane.sides[1 - at].client.is_none() {
                    let half = lane.sides[at].waiting.len().div_ceil(2);
                    let records = this.take_waiting(lane, at, half);
                    let late = std::mem::take(&mut lane.sides[at].late);
                    late.iter().for_each(|late| this.late[at].subtract(late));
                    lane.sides[at].dropped += (records.len() + late.len()) as u64;
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
            let same = client.and_then(|client| self.clients[1].get(client).copied());
            let free = same.filter(|b| self.queues[*b].sides[0].client.is_none());
            pairs.extend(free.map(|b| (*a, b)));
            free.is_none()
        });
        let taken: HashSet<usize> = pairs.iter().map(|(_, b)| *b).collect();
        alone_b.retain(|b| !taken.contains(b));
        // Two decodings of one capture have the same clients.
        let directions = [CallDirection::Forward, CallDirection::Reverse].into_iter();
        for direction in directions.filter(|_| !self.options.exact) {
            let goes = |at: &usize, side: usize| {
                let client = self.queues[*at].sides[side].client.as_ref();
                client.is_some_and(|client| client.direction == direction)
            };
            let in_a = alone_a.iter().filter(|at| goes(at, 0));
            let in_b = alone_b.iter().filter(|at| goes(at, 1));
            pairs.extend(in_a.copied().zip(in_b.copied()));
        }
        for (a, b) in &pairs {
            let row = std::mem::take(&mut self.queues[*b].sides[1]);
            self.queues[*a].sides[1] = row;
        }
        // Above the limit, idle clients are removed; they are added again with their next Call.
        let is_crowded = self.has_too_many_clients() && !is_all;
        let mut differences = Vec::new();
        self.queues.retain(|lane| {
            let is_idle = is_crowded && lane.sides.iter().all(ComparisonPairingQueueSide::is_idle);
            let is_alone = lane.sides.iter().any(|row| row.client.is_none());
            let rows = lane.sides.iter().enumerate().filter(|_| is_idle);
            differences.extend(rows.filter_map(|(side, row)| client_difference(row, side, is_alone)));
            lane.sides.iter().any(|row| row.client.is_some()) && !is_idle
        });
        self.clients.iter_mut().for_each(HashMap::clear);
        for (at, lane) in self.queues.iter().enumerate() {
            for (clients, row) in self.clients.iter_mut().zip(&lane.sides) {
                clients.extend(row.client.clone().map(|client| (client, at)));
            }
        }
        for lane in self.queues.iter_mut().filter(|_| is_all) {
            let is_alone = lane.sides.iter().any(|row| row.client.is_none());
            for (side, row) in lane.sides.iter_mut().enumerate() {
                differences.extend(client_difference(row, side, is_alone));
                if is_alone {
                    *row = ComparisonPairingQueueSide::default();
                }
            }
        }
        differences.into_iter().for_each(|difference| self.report(difference));
    }
}

/// Returns the difference for a client that is on one side only, or began long before it did on the other.
fn client_difference(row: &ComparisonPairingQueueSide, side: usize, is_alone: bool) -> Option<Difference> {
    let (client, (place, title)) = row.client.as_ref().zip(row.first.as_ref())?;
    let (count, when) = match (is_alone, row.dropped) {
        (true, _) => (row.records, ""),
        (false, 0) => return None,
        (false, dropped) => (dropped, " before the other capture has it"),
    };
    let value = Some(format!("{} with {count} Transactions{when}", client.address));
    let here = DifferenceSideValue { location: Some(*place), frame: place.frame(), value };
    Some(Difference::without_field(DifferenceKind::Client, title, "", here.on_side(side)))
}
