//! What many Transactions say together, as the views show it: made anew from time to time by a pass, and light to give.

use std::collections::BTreeMap;

use nfsrdma_dissectors::flow::decode::{RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::transaction::RpcMessageKind;
use nfsrdma_dissectors::flow::{Flow, Transaction};
use nfsrdma_dissectors::frame::{Frame, Timestamp};

use crate::analysis::connection_lifetimes::{ConnectionLifetimes, ConnectionStats};
use crate::analysis::files::{FileTallies, FileTally};
use crate::analysis::histogram::Histogram;
use crate::analysis::load::{self, Load};
use crate::analysis::names::OperationPaths;
use crate::analysis::operations::{self, CaptureTotals, OperationStats};
use crate::analysis::sequence;
use crate::analysis::series::Series;
use crate::analysis::statistics::{OperationKey, Statistics, has_failed};
use crate::filter;

/// Files that are listed, by bytes and by time.
const FILES: usize = 500;
/// Operations whose latencies are drawn.
const OPERATIONS: usize = 256;

/// A file with all that is counted of it.
#[derive(Clone, Debug)]
pub struct FileRow {
    /// Its path, or the hash of its filehandle.
    pub path: Vec<u8>,
    /// What was done with it.
    pub tally: FileTally,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct ViewTables {
    /// Frames and their bytes on the wire; of a filter, of what it selects.
    pub frames: (u64, u64),
    /// The first and the last time of a frame.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Transactions, and those that are not complete.
    pub transactions: (u64, u64),
    /// Operations, most Calls first.
    pub operations: Vec<OperationStats>,
    /// How the latencies of each are spread.
    pub histograms: BTreeMap<OperationKey, Histogram>,
    /// How many connections there are.
    pub connections_count: u64,
    /// Those with the most bytes.
    pub connections: Vec<ConnectionStats>,
    /// How many files are known, and how many were forgotten.
    pub files_count: (usize, u64),
    /// Those with the most bytes or the most time.
    pub files: Vec<FileRow>,
    /// How all latencies are spread.
    pub histogram: Histogram,
    /// What went on when.
    pub load: Series<Load>,
    /// What the decoder gave up because of its bounds.
    pub given_up: u64,
}

impl Default for ViewTables {
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
            histogram: Histogram::default(),
            load: load::load(),
            given_up: 0,
        }
    }
}

impl ViewTables {
    /// The median of the latencies of an operation, whatever its version.
    pub fn median(&self, name: &str) -> Option<u64> {
        self.operations.iter().find(|row| row.name() == name).and_then(|row| Some(row.latency?.p50))
    }

    /// Seconds from the first to the last frame.
    pub fn seconds(&self) -> f64 {
        operations::seconds(self.times)
    }

    /// What the operations are compared with.
    pub fn whole(&self) -> CaptureTotals {
        CaptureTotals::new(&self.operations, self.times)
    }
}

/// Counts for [`ViewTables`].
#[derive(Debug)]
pub struct ViewTablesBuilder {
    statistics: Statistics,
    histograms: BTreeMap<OperationKey, Histogram>,
    all: Histogram,
    files: FileTallies,
    load: Series<Load>,
    lives: ConnectionLifetimes,
    is_new: bool,
}

impl ViewTablesBuilder {
    /// Nothing is counted yet. What is counted, and the tables that are made of it, may take so many bytes.
    pub fn new(room_bytes: usize) -> Self {
        let eighth = room_bytes / 8;
        Self {
            statistics: Statistics::new(3 * eighth),
            histograms: BTreeMap::new(),
            all: Histogram::default(),
            files: FileTallies::new(2 * eighth),
            load: load::load(),
            // They are copied for the tables, which may be made again before the last ones are gone.
            lives: ConnectionLifetimes::new(eighth),
            is_new: true,
        }
    }

    /// Whether no tables were made of it.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Counts a frame.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.statistics.frame(frame);
    }

    /// Counts the frames of a Transaction that a filter selected.
    pub fn chosen_frames(&mut self, chosen: filter::FrameTally) {
        self.statistics.record_selected_frames(chosen.frames, chosen.bytes, chosen.times);
    }

    /// Counts a Transaction.
    pub fn transaction(
        &mut self,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        about: OperationPaths<'_>,
    ) {
        self.statistics.transaction(transaction, facts);
        let length = |which| transaction.rpc_length(which).unwrap_or(0);
        let bytes = length(RpcMessageKind::Call) + length(RpcMessageKind::Reply);
        let failed = has_failed(facts);
        if let Some(path) = about.path {
            self.files.transaction(path, transaction, bytes, failed);
        }
        if let Some(latency) = transaction.latency_ns() {
            self.all.add(latency);
            let key = OperationKey::from_summary(facts);
            if self.histograms.len() < OPERATIONS || self.histograms.contains_key(&key) {
                self.histograms.entry(key).or_default().add(latency);
            }
        }
        let last = transaction.reply.as_ref().or(transaction.call.as_ref());
        if let Some(step) = last.and_then(|message| self.load.step_at(message.end_time)) {
            step.transactions += 1;
            step.bytes += bytes;
            step.errors += u64::from(failed);
        }
        self.lives.transaction(transaction, reading, facts);
        if let Some(used) = sequence::slot(reading, facts) {
            self.lives.slot(transaction, used.slot, sequence::granted_slots(reading, facts));
        }
    }

    /// Makes the tables.
    pub fn tables(&mut self, flow: &Flow) -> ViewTables {
        self.is_new = false;
        let Self { statistics, histograms, all, files, load, lives, .. } = self;
        lives.update_states(flow);
        let mut listed = files.largest(FILES, |tally| tally.bytes);
        listed.extend(files.largest(FILES, |tally| tally.time_ns));
        listed.sort_unstable_by_key(|(path, _)| *path);
        listed.dedup_by_key(|(path, _)| *path);
        let connections = statistics.connections();
        ViewTables {
            frames: (statistics.frames(), statistics.bytes()),
            times: statistics.times(),
            transactions: (statistics.transactions(), statistics.incomplete()),
            operations: operations::rows(statistics),
            histograms: histograms.clone(),
            connections_count: connections.count(),
            connections: connections.largest().map(|tally| lives.row(tally)).collect(),
            files_count: (files.count(), files.evicted()),
            files: listed.into_iter().map(|(path, tally)| FileRow { path: path.to_vec(), tally }).collect(),
            histogram: all.clone(),
            load: load.clone(),
            given_up: flow.evicted_counts().map(|(_, count)| count).sum(),
        }
    }
}
