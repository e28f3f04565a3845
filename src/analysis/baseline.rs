//! Baselines: a text description of a capture that people can read and a program can compare with.
//!
//! A baseline lists counts of the capture and of its operations, and each Transaction with every field that must be
//! equal. It uses the same records as the comparison of two captures, so checking against a baseline is comparing two
//! captures, one of them stored as text.
//!
//! - [`canonical_records`]: canonical form of records; [`fields`]: paths and their fields; [`settings`]: user settings;
//! - [`writer`](mod@writer) and [`reader`](mod@reader): the text format, and [`value_parser`]: one value of it;
//! - [`check`]: comparison of a capture with a baseline.

mod canonical_records;
mod check;
mod fields;
mod reader;
mod settings;
#[cfg(test)]
mod tests;
mod value_parser;
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::ComparisonClient;
use super::comparison::capture::ComparedCapture;
use super::comparison::record::ComparisonRecord;

pub use check::BaselineCheck;
pub use fields::BaselineFields;
pub use reader::{BaselineReadError, read};
pub use settings::BaselineSettings;
pub use writer::write;

/// Maximum number of Transactions in a baseline: it is meant for people, and both sides are held in memory.
pub const MAX_TRANSACTIONS: usize = 200_000;

/// The version of the baseline format.
pub const VERSION: u32 = 2;

/// Counts of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Number of Calls.
    pub calls: u64,
    /// Number of Replies.
    pub replies: u64,
    /// Number of Replies that report an error.
    pub errors: u64,
    /// Bytes offered by Read chunks.
    pub read: u64,
    /// Bytes offered and bytes returned by Write chunks.
    pub write: (u64, u64),
    /// Bytes offered and bytes returned by Reply chunks.
    pub reply: (u64, u64),
}

/// Counts of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaselineCounts {
    /// Counts of the whole capture by key: `frames`, `transactions`, `incomplete`, `undecoded.malformed` ...
    pub capture_counts: BTreeMap<String, u64>,
    /// Counts by operation: `NFS 4.2 READ`.
    pub operations: BTreeMap<String, OperationCounts>,
}

impl BaselineCounts {
    /// Counts a record.
    pub fn record(&mut self, record: &ComparisonRecord) {
        let counts = self.operations.entry(record.title.to_string()).or_default();
        counts.calls += u64::from(record.call.is_some());
        counts.replies += u64::from(record.reply.is_some());
        counts.errors += u64::from(record.reply.is_some() && !record.is_ok());
        for chunk in &record.chunks {
            use super::comparison::record::ComparedChunkKind;
            let offered: u64 = chunk.segments.iter().map(|segment| segment.length).sum();
            let returned: u64 = chunk.segments.iter().filter_map(|segment| segment.returned).sum();
            match chunk.kind {
                ComparedChunkKind::Read(..) | ComparedChunkKind::ReplyRead(_) => counts.read += offered,
                ComparedChunkKind::Write => {
                    counts.write = (counts.write.0 + offered, counts.write.1 + returned)
                }
                ComparedChunkKind::Reply => {
                    counts.reply = (counts.reply.0 + offered, counts.reply.1 + returned)
                }
            }
        }
    }

    /// Returns a count of the whole capture, 0 if there is none.
    pub fn capture_count(&self, key: &str) -> u64 {
        self.capture_counts.get(key).copied().unwrap_or(0)
    }

    /// Returns the keys of the whole-capture counts of both captures.
    fn keys<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        self.capture_counts.keys().chain(other.capture_counts.keys()).map(String::as_str).collect()
    }

    /// Adds the totals of the capture at its end.
    pub fn add_capture_totals(&mut self, trace: &ComparedCapture) {
        let mut set = |key: &str, count: u64| self.capture_counts.insert(key.to_owned(), count);
        set("frames", trace.frames);
        set("transactions", trace.transactions);
        set("incomplete", trace.incomplete);
        for (why, count) in &trace.undecoded {
            set(&format!("undecoded.{why}"), *count);
        }
        for (what, count) in &trace.evicted {
            set(&format!("given_up.{what}"), *count);
        }
        for (rule, count) in &trace.findings {
            set(&format!("findings.{rule}"), *count);
        }
    }
}

/// A baseline.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// Settings from the baseline: the differences that count.
    pub settings: BaselineSettings,
    /// Counts of the capture.
    pub counts: BaselineCounts,
    /// The fields of its Transactions.
    pub fields: BaselineFields,
    /// The Transactions with their clients, in the order of their Calls.
    pub records: Vec<(ComparisonClient, ComparisonRecord)>,
}

/// The error for a capture with more than [`MAX_TRANSACTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTransactions;

impl Baseline {
    /// Creates a baseline of the records that `next` returns, until it returns `None`.
    ///
    /// # Errors
    /// Returns an error if there are more than [`MAX_TRANSACTIONS`] records.
    pub fn from_records(
        settings: BaselineSettings,
        mut next: impl FnMut() -> Option<(ComparisonClient, ComparisonRecord)>,
    ) -> Result<Self, TooManyTransactions> {
        let mut baseline = Self { settings, ..Self::default() };
        while let Some((client, record)) = next() {
            if baseline.records.len() >= MAX_TRANSACTIONS {
                return Err(TooManyTransactions);
            }
            baseline.counts.record(&record);
            baseline.records.push((client, record));
        }
        baseline.records.sort_by_key(|(_, record)| (record.location.frame(), record.location.index));
        for (_, record) in &mut baseline.records {
            canonical_records::canonicalize(record);
            baseline.fields.record(record);
        }
        Ok(baseline)
    }

    /// Counts Transactions from the records.
    fn update_transaction_counts(&mut self) {
        let incomplete = self.records.iter().filter(|(_, record)| !record.missing.is_empty()).count();
        self.counts.capture_counts.insert("transactions".to_owned(), self.records.len() as u64);
        self.counts.capture_counts.insert("incomplete".to_owned(), incomplete as u64);
    }
}
