//! Calls that wait for their Replies while later Calls of the same connection were judged already. Their arguments are
//! not known yet.

use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::CallDirection;
use rustc_hash::FxHashMap;

/// Maximum number of connections and directions. Beyond it, all are forgotten, and their earlier Calls may wait.
const MAX_CONNECTIONS: usize = 1 << 16;
/// Maximum number of Calls of a connection that wait. Beyond it, all of its Calls may wait.
const MAX_WAITING: u64 = 4096;

/// Calls of one connection in one direction.
#[derive(Debug, Default)]
struct ConnectionCallsAwaitingReply {
    /// Highest number of a Call that was judged.
    highest: u64,
    /// Numbers below it of Calls that wait, in ascending order.
    waiting: Vec<u64>,
    /// Highest number of a Call that may wait without being listed.
    uncertain_until: u64,
}

impl ConnectionCallsAwaitingReply {
    fn record(&mut self, number: u64) {
        if number > self.highest {
            let skipped = self.highest + 1..number;
            self.highest = number;
            if self.waiting.len() as u64 + (skipped.end - skipped.start) > MAX_WAITING {
                self.waiting = Vec::new();
                self.uncertain_until = number - 1;
            } else {
                self.waiting.extend(skipped);
            }
        } else if let Ok(at) = self.waiting.binary_search(&number) {
            self.waiting.remove(at);
        }
    }

    fn has_between(&self, start: u64, end: u64) -> bool {
        let is_listed = || {
            let at = self.waiting.partition_point(|waiting| *waiting <= start);
            self.waiting.get(at).is_some_and(|waiting| *waiting < end)
        };
        // Calls after all that were judged wait, too.
        let is_later = end > self.highest + 1 && end > start + 1;
        is_later || self.uncertain_until > start || is_listed()
    }
}

/// Calls in each direction of each connection.
#[derive(Debug, Default)]
pub(crate) struct CallsAwaitingReply(FxHashMap<(u64, CallDirection), ConnectionCallsAwaitingReply>);

impl CallsAwaitingReply {
    /// Records that the Call of a Transaction is judged.
    pub(crate) fn record(&mut self, transaction: &Transaction) {
        let number = transaction.credit_use.call_number;
        if number == 0 {
            return;
        }
        let connection = (transaction.connection.number, transaction.direction);
        if self.0.len() >= MAX_CONNECTIONS && !self.0.contains_key(&connection) {
            self.0.clear();
        }
        let unknown =
            || ConnectionCallsAwaitingReply { highest: number, waiting: Vec::new(), uncertain_until: number - 1 };
        self.0.entry(connection).or_insert_with(unknown).record(number);
    }

    /// Returns `true` if a Call that was sent after the one with this number, and before that of the Transaction, may
    /// wait.
    pub(crate) fn has_between(&self, start: u64, transaction: &Transaction) -> bool {
        let end = transaction.credit_use.call_number;
        // The Calls of a trace have no numbers, and are all there.
        let calls = self.0.get(&(transaction.connection.number, transaction.direction));
        end > 0 && calls.map_or(end > start + 1, |calls| calls.has_between(start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(judged: &[u64]) -> ConnectionCallsAwaitingReply {
        let mut calls = ConnectionCallsAwaitingReply::default();
        for number in judged {
            calls.record(*number);
        }
        calls
    }

    #[test]
    fn a_call_waits_until_it_is_judged() {
        let mut after = calls(&[1, 3]);
        assert!(after.has_between(1, 4) && !after.has_between(2, 4) && !after.has_between(1, 2));
        after.record(2);
        assert!(!after.has_between(1, 4));
    }

    #[test]
    fn the_number_of_waiting_calls_is_limited() {
        let mut after = calls(&[1, MAX_WAITING + 3]);
        assert!(after.waiting.is_empty() && after.has_between(1, MAX_WAITING + 4));
        after.record(MAX_WAITING + 4);
        assert!(!after.has_between(MAX_WAITING + 3, MAX_WAITING + 5));
    }
}
