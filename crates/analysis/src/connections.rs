//! Traffic by connection, for any number of connections.

use std::collections::{BTreeMap, BTreeSet};

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{CallDirection, CapturedMessage, RpcMessageKind, TransactionConnection};
use nfsrdma_flow::transaction_message_decoding::RpcSummary;

/// Maximum number of connections that are counted separately.
const MAX_TALLIES: usize = 4_096;
/// Number of connections that remain when there are more: those with the most bytes.
const MAX_LISTED: usize = 1_000;
/// Maximum number of connection numbers stored beyond the first gap.
const MAX_PENDING_NUMBERS: usize = 65_536;

/// Traffic of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTally {
    /// Name of the connection.
    pub name: TransactionConnection,
    /// Dialect of RPC-over-RDMA of the latest answered Call and its Reply; `None` without RDMA.
    pub dialect: Option<Dialect>,
    /// Number of Transactions.
    pub transactions: u64,
    /// Number of incomplete Transactions.
    pub incomplete: u64,
    /// Bytes of RPC messages, including chunks.
    pub bytes: u64,
    /// Part of the latencies that was spent in loss recovery, in nanoseconds.
    pub recovery_ns: u64,
    /// Start of the first and end of the last message.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Largest credit grant of a Reply, forward direction (RFC 8166 section 3.3.1); 0 if none.
    pub granted_credits: u32,
    /// Largest credit request of a Call, forward direction; 0 if none.
    pub requested_credits: u32,
    /// Largest credit grant of a Reply, reverse direction (RFC 8167 section 4.1); 0 if none.
    pub reverse_granted_credits: u32,
    /// Largest credit request of a Call, reverse direction; 0 if none.
    pub reverse_requested_credits: u32,
}

impl ConnectionTally {
    /// Creates the tally of a connection without Transactions.
    pub fn new(name: TransactionConnection) -> Self {
        Self {
            name,
            dialect: None,
            transactions: 0,
            incomplete: 0,
            bytes: 0,
            recovery_ns: 0,
            times: None,
            granted_credits: 0,
            requested_credits: 0,
            reverse_granted_credits: 0,
            reverse_requested_credits: 0,
        }
    }

    /// Returns the tally with `count` more calls that wait for a reply.
    #[must_use]
    pub fn with_pending(self, count: u64) -> Self {
        Self { transactions: self.transactions + count, incomplete: self.incomplete + count, ..self }
    }

    /// Counts a Transaction.
    pub fn add(&mut self, transaction: &Transaction, summary: &RpcSummary) {
        let length = |kind| transaction.rpc_length(kind).unwrap_or(0);
        let is_complete = summary.missing(transaction).is_empty();
        self.count(transaction, is_complete, length(RpcMessageKind::Call) + length(RpcMessageKind::Reply));
    }

    fn count(&mut self, transaction: &Transaction, is_complete: bool, bytes: u64) {
        // A later Transaction may know more about both ends.
        self.name = transaction.connection;
        self.transactions += 1;
        self.incomplete += u64::from(!is_complete);
        self.bytes += bytes;
        self.recovery_ns += transaction.recovery_ns();
        for message in transaction.call.iter().chain(&transaction.reply) {
            let (start, end) = (message.time, message.end_time.max(message.time));
            self.times = Some(self.times.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        let is_refused = transaction.reply.as_ref().is_some_and(CapturedMessage::is_rdma_error);
        let messages = transaction.reply.iter().chain(&transaction.call);
        let dialect = { messages }.find_map(CapturedMessage::dialect);
        // Peers may agree on another version after an error.
        if !is_refused || self.dialect.is_none() {
            self.dialect = dialect.or(self.dialect);
        }
        let credits = |kind| transaction.message(kind).and_then(|message| message.rpcrdma);
        let credits = |kind| credits(kind).and_then(|header| header.calls_in_flight_credits()).unwrap_or(0);
        let (requested, granted) = match transaction.direction {
            CallDirection::Forward => (&mut self.requested_credits, &mut self.granted_credits),
            CallDirection::Reverse => (&mut self.reverse_requested_credits, &mut self.reverse_granted_credits),
        };
        *requested = (*requested).max(credits(RpcMessageKind::Call));
        *granted = (*granted).max(credits(RpcMessageKind::Reply));
    }
}

/// The connections of a capture: their exact number, and those with the most bytes.
#[derive(Debug, Default)]
pub struct ConnectionTallies {
    numbers: NearlyOrderedSet,
    tallies: BTreeMap<u64, ConnectionTally>,
}

impl ConnectionTallies {
    /// Counts a Transaction.
    pub fn transaction(&mut self, transaction: &Transaction, is_complete: bool, bytes: u64) {
        let name = transaction.connection;
        self.numbers.add(name.number);
        if self.tallies.len() >= MAX_TALLIES && !self.tallies.contains_key(&name.number) {
            let largest: BTreeSet<u64> = self.largest().map(|tally| tally.name.number).collect();
            self.tallies.retain(|number, _| largest.contains(number));
        }
        let tally = self.tallies.entry(name.number).or_insert_with(|| ConnectionTally::new(name));
        tally.count(transaction, is_complete, bytes);
    }

    /// Returns the number of connections.
    pub fn count(&self) -> u64 {
        self.numbers.count()
    }

    /// Returns up to 1,000 connections, those with the most bytes first. With more than 4,096 connections, counts of
    /// one that had few bytes for long may be too low.
    pub fn largest(&self) -> impl Iterator<Item = &ConnectionTally> {
        let mut tallies: Vec<_> = self.tallies.values().collect();
        tallies.sort_by_key(|tally| (std::cmp::Reverse(tally.bytes), tally.name.number));
        tallies.into_iter().take(MAX_LISTED)
    }
}

/// A set of numbers that arrive nearly in order.
#[derive(Debug, Default)]
struct NearlyOrderedSet {
    /// Every number up to this one counts as seen, except for `gaps`.
    seen_up_to: u64,
    /// Number of unseen numbers up to `below`.
    gaps: u64,
    /// Numbers seen above `below`.
    seen_above: BTreeSet<u64>,
}

impl NearlyOrderedSet {
    fn add(&mut self, number: u64) {
        if number <= self.seen_up_to {
            return;
        }
        self.seen_above.insert(number);
        while let Some(first) = self.seen_above.first().copied()
            && (first == self.seen_up_to + 1 || self.seen_above.len() > MAX_PENDING_NUMBERS)
        {
            self.seen_above.pop_first();
            self.gaps += first - self.seen_up_to - 1;
            self.seen_up_to = first;
        }
    }

    fn count(&self) -> u64 {
        self.seen_up_to - self.gaps + self.seen_above.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_once_in_any_order() {
        let mut numbers = NearlyOrderedSet::default();
        for number in [1, 2, 5, 2, 4, 1, 9] {
            numbers.add(number);
        }
        assert_eq!(numbers.count(), 5);
        numbers.add(3);
        assert_eq!((numbers.count(), numbers.seen_up_to, numbers.seen_above.len()), (6, 5, 1));
    }

    #[test]
    fn numbers_with_gaps_take_a_bounded_amount_of_memory() {
        let mut numbers = NearlyOrderedSet::default();
        (1..=2 * MAX_PENDING_NUMBERS as u64).for_each(|number| numbers.add(2 * number));
        assert_eq!(numbers.seen_above.len(), MAX_PENDING_NUMBERS);
        assert_eq!(numbers.count(), 2 * MAX_PENDING_NUMBERS as u64);
    }
}
