//! What many Transactions say together, as the views show it: made anew from time to time by a pass, and light to give.

use std::collections::BTreeMap;

use nfsrdma_dissectors::flow::reading::{Facts, Operation};
use nfsrdma_dissectors::flow::transaction::{ConnectionName, Which};
use nfsrdma_dissectors::flow::{ConnectionState, Flow, Transaction};
use nfsrdma_dissectors::frame::{Frame, Timestamp};

use crate::analysis::files::{FileTally, Files};
use crate::analysis::histogram::Histogram;
use crate::analysis::load::{self, CreditSeries, Load};
use crate::analysis::names::About;
use crate::analysis::series::Series;
use crate::analysis::statistics::{OperationKey, Statistics, has_failed};
use crate::filter;

/// Files that are listed, by bytes and by time.
const FILES: usize = 500;
/// Connections that are listed.
const CONNECTIONS: usize = 1_000;
/// Operations whose latencies are drawn.
const OPERATIONS: usize = 256;

/// An operation with all that is counted of it.
#[derive(Clone, Debug)]
pub struct OperationRow {
    /// Its name.
    pub name: String,
    /// Its program and version: `NFS 4`.
    pub program: String,
    /// Calls.
    pub calls: u64,
    /// Replies.
    pub replies: u64,
    /// Replies that say that it was not done.
    pub errors: u64,
    /// Bytes of Calls, chunks spliced in.
    pub bytes_in: u64,
    /// Bytes of Replies, chunks spliced in.
    pub bytes_out: u64,
    /// The median, the 90th and the 99th percentile and the longest latency, and the sum of all; `None` without any.
    pub latency: Option<[u64; 5]>,
    /// How its latencies are spread.
    pub histogram: Histogram,
}

/// A connection with all that is counted of it.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    /// The two ends.
    pub name: ConnectionName,
    /// Transactions.
    pub transactions: u64,
    /// Those that are not complete.
    pub incomplete: u64,
    /// Bytes of messages and chunks.
    pub bytes: u64,
    /// What its set-up said, and whether its end was seen, where that was noticed.
    pub state: Option<ConnectionState>,
    /// Its credits over time.
    pub credits: Option<CreditSeries>,
}

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
pub struct Tables {
    /// Frames and their bytes on the wire; of a filter, of what it selects.
    pub frames: (u64, u64),
    /// The first and the last time of a frame.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Transactions, and those that are not complete.
    pub transactions: (u64, u64),
    /// Operations, most Calls first.
    pub operations: Vec<OperationRow>,
    /// How many connections there are.
    pub connections_count: u64,
    /// Those with the most bytes.
    pub connections: Vec<ConnectionRow>,
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

impl Default for Tables {
    fn default() -> Self {
        Self {
            frames: (0, 0),
            times: None,
            transactions: (0, 0),
            operations: Vec::new(),
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

impl Tables {
    /// The median of the latencies of an operation, whatever its version.
    pub fn median(&self, name: &str) -> Option<u64> {
        self.operations.iter().find(|row| row.name == name).and_then(|row| Some(row.latency?[0]))
    }

    /// Seconds from the first to the last frame.
    pub fn seconds(&self) -> f64 {
        let length = self.times.and_then(|(first, last)| last.since(first));
        length.map_or(0.0, |ns| ns as f64 / 1e9)
    }
}

/// Counts for [`Tables`].
#[derive(Debug)]
pub struct Tally {
    statistics: Statistics,
    histograms: BTreeMap<OperationKey, Histogram>,
    all: Histogram,
    files: Files,
    load: Series<Load>,
    credits: BTreeMap<u64, CreditSeries>,
    states: BTreeMap<u64, ConnectionState>,
    is_new: bool,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            statistics: Statistics::default(),
            histograms: BTreeMap::new(),
            all: Histogram::default(),
            files: Files::default(),
            load: load::load(),
            credits: BTreeMap::new(),
            states: BTreeMap::new(),
            is_new: true,
        }
    }
}

impl Tally {
    /// Whether no tables were made of it.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Counts a frame.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.statistics.frame(frame);
    }

    /// Counts the frames of a Transaction that a filter selected.
    pub fn chosen_frames(&mut self, chosen: filter::Tally) {
        self.statistics.chosen_frames(chosen.frames, chosen.bytes, chosen.times);
    }

    /// Counts a Transaction.
    pub fn transaction(&mut self, transaction: &Transaction, facts: &Facts, about: About<'_>) {
        self.statistics.transaction(transaction, facts);
        let length = |which| transaction.rpc_length(which).unwrap_or(0);
        let bytes = length(Which::Call) + length(Which::Reply);
        let failed = has_failed(facts);
        if let Some(path) = about.path {
            self.files.transaction(path, transaction, bytes, failed);
        }
        if let Some(latency) = transaction.latency() {
            self.all.add(latency);
            let key = OperationKey::of(facts);
            if self.histograms.len() < OPERATIONS || self.histograms.contains_key(&key) {
                self.histograms.entry(key).or_default().add(latency);
            }
        }
        let last = transaction.reply.as_ref().or(transaction.call.as_ref());
        if let Some(step) = last.and_then(|message| self.load.at(message.end_time)) {
            step.transactions += 1;
            step.bytes += bytes;
            step.errors += u64::from(failed);
        }
        let number = transaction.connection.number;
        let has_room = self.credits.len() < CONNECTIONS || self.credits.contains_key(&number);
        if transaction.connection.transport.is_rdma() && has_room {
            self.credits.entry(number).or_default().transaction(transaction);
        }
    }

    /// Makes the tables.
    pub fn tables(&mut self, flow: &Flow) -> Tables {
        self.is_new = false;
        let Self { statistics, histograms, all, files, load, credits, states, .. } = self;
        // Those that the flow has forgotten stay as they were.
        for state in flow.connections() {
            if states.len() < CONNECTIONS || states.contains_key(&state.number) {
                states.insert(state.number, state);
            }
        }
        let mut listed = files.largest(FILES, |tally| tally.bytes);
        listed.extend(files.largest(FILES, |tally| tally.time));
        listed.sort_unstable_by_key(|(path, _)| *path);
        listed.dedup_by_key(|(path, _)| *path);
        let operations = statistics.operations().map(|(key, tally)| OperationRow {
            name: match key.operation {
                Some(Operation::Named(name)) => name.to_owned(),
                Some(Operation::Number(number)) => format!("operation {number}"),
                None => "?".to_owned(),
            },
            program: match (key.program, key.version) {
                (Some(program), Some(version)) => format!("{program} {version}"),
                (Some(program), None) => program.to_owned(),
                _ => String::new(),
            },
            calls: tally.calls,
            replies: tally.replies,
            errors: tally.errors,
            bytes_in: tally.call_bytes,
            bytes_out: tally.reply_bytes,
            latency: (tally.latencies.count() > 0).then(|| {
                let latencies = &tally.latencies;
                let sum = latencies.mean().saturating_mul(latencies.count());
                let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|part| latencies.quantile(part));
                [p50, p90, p99, latencies.max(), sum]
            }),
            histogram: histograms.get(key).cloned().unwrap_or_default(),
        });
        let mut operations: Vec<OperationRow> = operations.collect();
        operations.sort_by_key(|row| std::cmp::Reverse(row.calls));
        let connections = statistics.connections();
        Tables {
            frames: (statistics.frames(), statistics.bytes()),
            times: statistics.times(),
            transactions: (statistics.transactions(), statistics.incomplete()),
            operations,
            connections_count: connections.count(),
            connections: connections
                .largest()
                .map(|tally| ConnectionRow {
                    name: tally.name,
                    transactions: tally.transactions,
                    incomplete: tally.incomplete,
                    bytes: tally.bytes,
                    state: states.get(&tally.name.number).copied(),
                    credits: credits.get(&tally.name.number).cloned(),
                })
                .collect(),
            files_count: (files.count(), files.given_up()),
            files: listed.into_iter().map(|(path, tally)| FileRow { path: path.to_vec(), tally }).collect(),
            histogram: all.clone(),
            load: load.clone(),
            given_up: flow.given_up().map(|(_, count)| count).sum(),
        }
    }
}
