//! Counts by connection, for any number of connections.

use std::collections::BTreeMap;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{RpcMessageKind, TransactionConnection};

/// Maximum number of connections counted at a time: more than the flow follows.
const MAX_CONNECTIONS: usize = 64 << 10;
/// Approximate memory of a connection, in bytes: its entry in the map, and in the half that is written at a time.
const TALLY_BYTES: usize = 2 * (size_of::<ExportedConnectionTraffic>() + size_of::<u64>());

#[derive(Clone, Copy, Debug)]
pub(super) struct ExportedConnectionTraffic {
    pub(super) name: TransactionConnection,
    pub(super) transactions: u64,
    pub(super) incomplete: u64,
    pub(super) bytes: u64,
    /// Earliest time of a message, and latest end of one.
    pub(super) times: Option<(Timestamp, Timestamp)>,
    /// Number of the last transaction counted, among all.
    last_transaction: u64,
}

/// The connections that are counted.
#[derive(Debug)]
pub(super) struct ExportConnectionTallies {
    connections: BTreeMap<u64, ExportedConnectionTraffic>,
    transactions: u64,
    /// Maximum number of connections counted at a time.
    max_connections: usize,
}

impl ExportConnectionTallies {
    /// Creates an empty table that uses up to `limit_bytes` bytes.
    pub(super) fn new(limit_bytes: usize) -> Self {
        let max_connections = (limit_bytes / TALLY_BYTES).clamp(2, MAX_CONNECTIONS);
        Self { connections: BTreeMap::new(), transactions: 0, max_connections }
    }

    /// Counts a transaction; returns the connections evicted because there are too many.
    pub(super) fn add(&mut self, transaction: &Transaction, is_complete: bool) -> Vec<ExportedConnectionTraffic> {
        self.transactions += 1;
        let name = transaction.connection;
        let is_new = !self.connections.contains_key(&name.number);
        let evicted =
            if is_new && self.connections.len() >= self.max_connections { self.evict_idle() } else { Vec::new() };
        let tally = self.connections.entry(name.number).or_insert(ExportedConnectionTraffic {
            name,
            transactions: 0,
            incomplete: 0,
            bytes: 0,
            times: None,
            last_transaction: 0,
        });
        // The client may have been identified only now.
        tally.name = name;
        tally.last_transaction = self.transactions;
        tally.transactions += 1;
        tally.incomplete += u64::from(!is_complete);
        let length = |kind| transaction.rpc_length(kind).unwrap_or(0);
        tally.bytes += length(RpcMessageKind::Call) + length(RpcMessageKind::Reply);
        for message in transaction.call.iter().chain(&transaction.reply) {
            let times = tally.times.get_or_insert((message.time, message.end_time));
            *times = (times.0.min(message.time), times.1.max(message.end_time));
        }
        evicted
    }

    /// Takes the half that was idle longest.
    fn evict_idle(&mut self) -> Vec<ExportedConnectionTraffic> {
        let mut last_transactions: Vec<u64> = self.connections.values().map(|tally| tally.last_transaction).collect();
        let middle = last_transactions.len() / 2;
        let (_, limit, _) = last_transactions.select_nth_unstable(middle);
        let limit = *limit;
        let (evicted, remaining) =
            std::mem::take(&mut self.connections).into_iter().partition(|(_, tally)| tally.last_transaction < limit);
        self.connections = remaining;
        BTreeMap::into_values(evicted).collect()
    }

    pub(super) fn take(&mut self) -> Vec<ExportedConnectionTraffic> {
        std::mem::take(&mut self.connections).into_values().collect()
    }
}
