//! Statistics of many Transactions for the views: a cheap snapshot that a pass makes at intervals.

use std::collections::BTreeMap;

use nfsrdma_analysis::bounded_time_series::TimeSeries;
use nfsrdma_analysis::connection_states_and_credits::{ConnectionStatesAndCredits, ConnectionStats};
use nfsrdma_analysis::connections::ConnectionTally;
use nfsrdma_analysis::files::{FileTallies, FileTally};
use nfsrdma_analysis::filter;
use nfsrdma_analysis::histogram::LatencyHistogram;
use nfsrdma_analysis::load_over_time::{self, TrafficTimeBucket};
use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_analysis::operation_statistics::{self, OperationStats, RatioDenominators};
use nfsrdma_analysis::statistics::{FrameAndTransactionStatistics, OperationKey, has_failed};
use nfsrdma_dissectors::captured_frame::{Frame, Timestamp};
use nfsrdma_flow::transaction::{RpcMessageKind, TransactionConnection};
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};
use nfsrdma_flow::{Flow, Transaction};

/// Maximum number of files listed by bytes, and of files listed by time.
const MAX_FILES_PER_ORDER: usize = 500;
/// Maximum number of operations with a latency histogram.
const MAX_HISTOGRAMS: usize = 256;

/// A file with its statistics.
#[derive(Clone, Debug)]
pub struct FileRow {
    /// Path, or the hash of its filehandle.
    pub path: Vec<u8>,
    /// Statistics of the file.
    pub tally: FileTally,
}

/// The statistics.
#[derive(Clone, Debug)]
pub struct DisplayedStatistics {
    /// Number of frames and of their bytes on the wire; with a filter, of the selected frames.
    pub frames: (u64, u64),
    /// First and last frame time.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Number of Transactions, and of incomplete ones.
    pub transactions: (u64, u64),
    /// Operations, most Calls first.
    pub operations: Vec<OperationStats>,
    /// Latency histogram of each operation.
    pub histograms: BTreeMap<OperationKey, LatencyHistogram>,
    /// Number of connections.
    pub connections_count: u64,
    /// The connections with the most bytes.
    pub connections: Vec<ConnectionStats>,
    /// Number of known files, and of evicted ones.
    pub files_count: (usize, u64),
    /// The files with the most bytes or the most time.
    pub files: Vec<FileRow>,
    /// Histogram of all latencies.
    pub histogram: LatencyHistogram,
    /// Load over time.
    pub load: TimeSeries<TrafficTimeBucket>,
    /// Number of states that the decoder evicted because of its limits.
    pub evicted_count: u64,
    /// Number of frames on connections with RPC that were not decoded.
    pub unknown_frames: u64,
}

impl Default for DisplayedStatistics {
    fn default() -> Self {
        Self {
            frames: (0, 0),
            times: None,
            transactions: (0, 0),
            operations: Vec::new(),
            histograms: BTreeMap::new(),
            connections_count: 0,
            connections: Vec::new(),
            files_count: (0, 0),
            files: Vec::new(),
            histogram: LatencyHistogram::default(),
            load: load_over_time::load(),
            evicted_count: 0,
            unknown_frames: 0,
        }
    }
}

impl DisplayedStatistics {
    /// Returns the median latency of an operation in nanoseconds, in the first listed version.
    pub fn median_latency_ns(&self, name: &str) -> Option<u64> {
        self.operations.iter().find(|row| row.name() == name).and_then(|row| Some(row.latency?.p50))
    }

    /// Takes the credits, slots, sessions and states of connections from the tables of all transactions: they do not
    /// depend on what a filter selects.
    pub fn adopt_connection_facts(&mut self, all: &Self) {
        let by_number: BTreeMap<u64, &ConnectionStats> =
            all.connections.iter().map(|row| (row.tally.name.number, row)).collect();
        for row in &mut self.connections {
            if let Some(facts) = by_number.get(&row.tally.name.number) {
                row.state = facts.state;
                row.credits.clone_from(&facts.credits);
                row.slots.clone_from(&facts.slots);
                row.sessions.clone_from(&facts.sessions);
            }
        }
    }

    /// Returns the number of seconds from the first to the last frame.
    pub fn seconds(&self) -> f64 {
        operation_statistics::seconds(self.times)
    }

    /// Returns the time that all Transactions spent in loss recovery, in nanoseconds.
    pub fn recovery_ns(&self) -> u64 {
        self.operations.iter().map(|row| row.recovery_ns).sum()
    }

    /// Returns the totals to which the operations are compared.
    pub fn totals(&self) -> RatioDenominators {
        RatioDenominators::new(&self.operations, self.times)
    }
}

/// Numbers of calls that have waited for a reply for long, as far as a filter selects them.
#[derive(Debug, Default)]
pub struct PendingCallTally {
    connections: BTreeMap<u64, (TransactionConnection, u64)>,
    operations: BTreeMap<OperationKey, u64>,
    files: BTreeMap<Vec<u8>, u64>,
}

impl PendingCallTally {
    /// Counts a call.
    pub fn add(&mut self, connection: TransactionConnection, operation: OperationKey, path: Option<&[u8]>) {
        if let Some(path) = path {
            *self.files.entry(path.to_vec()).or_default() += 1;
        }
        self.connections.entry(connection.number).or_insert((connection, 0)).1 += 1;
        *self.operations.entry(operation).or_default() += 1;
    }
}

/// Counts for [`DisplayedStatistics`].
#[derive(Debug)]
pub struct ViewTablesBuilder {
    statistics: FrameAndTransactionStatistics,
    histograms: BTreeMap<OperationKey, LatencyHistogram>,
    histogram: LatencyHistogram,
    files: FileTallies,
    load: TimeSeries<TrafficTimeBucket>,
    lifetimes: ConnectionStatesAndCredits,
    is_unused: bool,
}

impl ViewTablesBuilder {
    /// Returns empty statistics. They and the tables made from them use up to `room_bytes`.
    pub fn new(room_bytes: usize) -> Self {
        let eighth = room_bytes / 8;
        Self {
            statistics: FrameAndTransactionStatistics::new(3 * eighth),
            histograms: BTreeMap::new(),
            histogram: LatencyHistogram::default(),
            files: FileTallies::new(2 * eighth),
            load: load_over_time::load(),
            // They are cloned for the tables, and old tables may still exist when new ones are made.
            lifetimes: ConnectionStatesAndCredits::new(eighth),
            is_unused: true,
        }
    }

    /// Returns `true` if no tables were made yet.
    pub fn is_unused(&self) -> bool {
        self.is_unused
    }

    /// Counts a frame.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.statistics.frame(frame);
    }

    /// Counts the frames of a Transaction that a filter selected.
    pub fn chosen_frames(&mut self, selected: filter::SelectedFrameTally) {
        self.statistics.record_selected_frames(selected);
    }

    /// Counts a Transaction.
    pub fn transaction(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        paths: OperationPaths<'_>,
    ) {
        self.statistics.transaction(transaction, summary);
        let length = |kind| transaction.rpc_length(kind).unwrap_or(0);
        let bytes = length(RpcMessageKind::Call) + length(RpcMessageKind::Reply);
        let failed = has_failed(transaction, summary);
        if let Some(path) = paths.path {
            self.files.transaction(path, transaction, bytes, failed);
        }
        if let Some(latency) = transaction.latency_ns() {
            self.histogram.add(latency);
            let key = OperationKey::from_summary(summary);
            if self.histograms.len() < MAX_HISTOGRAMS || self.histograms.contains_key(&key) {
                self.histograms.entry(key).or_default().add(latency);
            }
        }
        let last = transaction.reply.as_ref().or(transaction.call.as_ref());
        if let Some(step) = last.and_then(|message| self.load.step_at(message.end_time)) {
            step.transactions += 1;
            step.bytes += bytes;
            step.errors += u64::from(failed);
        }
        self.lifetimes.transaction(transaction, messages, summary);
    }

    /// Counts the credits and the session of a call without a reply. It may be counted again when it is complete.
    pub fn pending(&mut self, transaction: &Transaction, messages: &TransactionMessages<'_>, summary: &RpcSummary) {
        self.lifetimes.transaction(transaction, messages, summary);
    }

    /// Counts the session slots of the messages that the last frame of the flow completed.
    pub fn slots(&mut self, flow: &Flow) {
        self.lifetimes.frame(flow);
    }

    /// Counts the session slots of the calls of which only a part has arrived. Called before the flow ends.
    pub fn partial_calls(&mut self, flow: &Flow) {
        self.lifetimes.set_partial_calls(flow);
    }

    /// Makes the tables, which include these pending calls, as of `now`.
    pub fn tables(&mut self, flow: &Flow, pending: &PendingCallTally, now: Timestamp) -> DisplayedStatistics {
        self.is_unused = false;
        let Self { statistics, histograms, histogram: all, files, load, lifetimes: lives, .. } = self;
        lives.update_states(flow, now);
        let mut listed = files.largest(MAX_FILES_PER_ORDER, |tally| tally.bytes);
        listed.extend(files.largest(MAX_FILES_PER_ORDER, |tally| tally.time_ns));
        listed.sort_unstable_by_key(|(path, _)| *path);
        listed.dedup_by_key(|(path, _)| *path);
        let mut hung = pending.files.clone();
        let mut file_rows: Vec<FileRow> = listed
            .into_iter()
            .map(|(path, tally)| {
                let transactions = tally.transactions + hung.remove(path).unwrap_or(0);
                FileRow { path: path.to_vec(), tally: FileTally { transactions, ..tally } }
            })
            .collect();
        let new_files = hung.keys().filter(|path| files.get(path).is_none()).count();
        file_rows.extend(hung.into_iter().map(|(path, count)| {
            let tally = files.get(&path).unwrap_or_default();
            FileRow { path, tally: FileTally { transactions: tally.transactions + count, ..tally } }
        }));
        let connections = statistics.connections();
        let mut waiting = pending.connections.clone();
        let with_pending = |tally: &ConnectionTally| {
            let count = waiting.remove(&tally.name.number).map_or(0, |(_, count)| count);
            tally.with_pending(count)
        };
        let mut tallies: Vec<ConnectionTally> = connections.largest().map(with_pending).collect();
        let new_count = if tallies.len() as u64 == connections.count() { waiting.len() as u64 } else { 0 };
        tallies.extend(waiting.into_values().map(|(name, count)| ConnectionTally::new(name).with_pending(count)));
        let pending_count: u64 = pending.operations.values().sum();
        DisplayedStatistics {
            frames: (statistics.frames(), statistics.bytes()),
            times: statistics.times(),
            transactions: (statistics.transactions() + pending_count, statistics.incomplete() + pending_count),
            operations: operation_statistics::rows_with_pending(statistics, &pending.operations),
            histograms: histograms.clone(),
            connections_count: connections.count() + new_count,
            connections: tallies.iter().map(|tally| lives.row(tally)).collect(),
            files_count: (files.count() + new_files, files.evicted()),
            files: file_rows,
            histogram: all.clone(),
            load: load.clone(),
            evicted_count: flow.evicted_counts().map(|(_, count)| count).sum(),
            unknown_frames: flow.stats().unknown_rpc_frames(),
        }
    }
}
