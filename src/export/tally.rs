//! What the Transactions of each connection add up to, for as many connections as a capture may have.

use std::collections::BTreeMap;

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::{ConnectionName, RpcMessageKind};
use nfsrdma_dissectors::frame::Timestamp;

/// Connections that are counted at a time at most: more than the flow follows.
const COUNTED: usize = 64 << 10;
/// Memory of a connection that is counted, in bytes, about: its place in the tree, and in the half that is written at a time.
const TALLY_BYTES: usize = 2 * (size_of::<ExportConnectionTally>() + size_of::<u64>());

/// What went over a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExportConnectionTally {
    pub(super) name: ConnectionName,
    pub(super) transactions: u64,
    pub(super) incomplete: u64,
    pub(super) bytes: u64,
    /// The earliest message, and the latest end of one.
    pub(super) times: Option<(Timestamp, Timestamp)>,
    /// The number of the Transaction that was counted last, among all.
    touched: u64,
}

/// The connections that are counted.
#[derive(Debug)]
pub(super) struct ExportConnectionTallies {
    connections: BTreeMap<u64, ExportConnectionTally>,
    transactions: u64,
    /// Connections that are counted at a time at most.
    most: usize,
}

impl ExportConnectionTallies {
    /// Nothing is counted yet; connections may take so many bytes.
    pub(super) fn new(room_bytes: usize) -> Self {
        let most = (room_bytes / TALLY_BYTES).clamp(2, COUNTED);
        Self { connections: BTreeMap::new(), transactions: 0, most }
    }

    /// Counts a Transaction; gives the connections that are counted no more, because there are too many.
    pub(super) fn add(&mut self, transaction: &Transaction, is_complete: bool) -> Vec<ExportConnectionTally> {
        self.transactions += 1;
        let name = transaction.connection;
        let is_new = !self.connections.contains_key(&name.number);
        let gone =
            if is_new && self.connections.len() >= self.most { self.take_silent() } else { Vec::new() };
        let tally = self.connections.entry(name.number).or_insert(ExportConnectionTally {
            name,
            transactions: 0,
            incomplete: 0,
            bytes: 0,
            times: None,
            touched: 0,
        });
        // The client may have shown itself only now.
        tally.name = name;
        tally.touched = self.transactions;
        tally.transactions += 1;
        tally.incomplete += u64::from(!is_complete);
        let length = |which| transaction.rpc_length(which).unwrap_or(0);
        tally.bytes += length(RpcMessageKind::Call) + length(RpcMessageKind::Reply);
        for message in transaction.call.iter().chain(&transaction.reply) {
            let times = tally.times.get_or_insert((message.time, message.end_time));
            *times = (times.0.min(message.time), times.1.max(message.end_time));
        }
        gone
    }

    /// The half that was silent longest.
    fn take_silent(&mut self) -> Vec<ExportConnectionTally> {
        let mut touched: Vec<u64> = self.connections.values().map(|tally| tally.touched).collect();
        let middle = touched.len() / 2;
        let (_, limit, _) = touched.select_nth_unstable(middle);
        let limit = *limit;
        let (gone, left) =
            std::mem::take(&mut self.connections).into_iter().partition(|(_, tally)| tally.touched < limit);
        self.connections = left;
        BTreeMap::into_values(gone).collect()
    }

    /// All that are left.
    pub(super) fn take(&mut self) -> Vec<ExportConnectionTally> {
        std::mem::take(&mut self.connections).into_values().collect()
    }
}
