//! Baselines: what a capture was, written down so that people can read it and a program can compare with it.
//!
//! A baseline is text: counts of the capture, of its operations, and each Transaction with every field that must be
//! equal. It is made of the same records that two captures are compared by, so that comparing with a baseline is
//! comparing two captures of which one was written down.
//!
//! - [`canonical_names`]: records as a baseline has them; [`fields`]: what its paths are; [`settings`]: what people want of it;
//! - [`writer`](mod@writer) and [`reader`](mod@reader): its text, and [`value`]: one value of it;
//! - [`check`]: a capture held to it.

mod canonical_names;
mod check;
mod fields;
mod reader;
mod settings;
#[cfg(test)]
mod tests;
mod value;
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

/// Transactions of a baseline, at most: it is for people to read, and both are in memory as a whole.
pub const TRANSACTIONS: usize = 200_000;

/// The version of the form of baselines.
pub const VERSION: u32 = 2;

/// What is counted of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Calls that were seen.
    pub calls: u64,
    /// Replies that were seen.
    pub replies: u64,
    /// Replies that say that the Call failed.
    pub errors: u64,
    /// Bytes that Read, Write and Reply chunks offer, and bytes that the last two returned.
    pub read: u64,
    /// Bytes that Write chunks offer, and return.
    pub write: (u64, u64),
    /// Bytes that Reply chunks offer, and return.
    pub reply: (u64, u64),
}

/// A capture as a whole, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaselineCounts {
    /// `frames`, `transactions`, `incomplete`, `undecoded.malformed` ...
    pub whole: BTreeMap<String, u64>,
    /// By operation: `NFS 4.2 READ`.
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
            use super::comparison::record::RecordChunkKind;
            let offered: u64 = chunk.segments.iter().map(|segment| segment.length).sum();
            let returned: u64 = chunk.segments.iter().filter_map(|segment| segment.returned).sum();
            match chunk.kind {
                RecordChunkKind::Read(..) | RecordChunkKind::ReplyRead(_) => counts.read += offered,
                RecordChunkKind::Write => {
                    counts.write = (counts.write.0 + offered, counts.write.1 + returned)
                }
                RecordChunkKind::Reply => {
                    counts.reply = (counts.reply.0 + offered, counts.reply.1 + returned)
                }
            }
        }
    }

    /// A count of the capture as a whole; what is not counted was not there.
    pub fn of(&self, key: &str) -> u64 {
        self.whole.get(key).copied().unwrap_or(0)
    }

    /// What is counted of either capture as a whole.
    fn keys<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        self.whole.keys().chain(other.whole.keys()).map(String::as_str).collect()
    }

    /// The capture has ended.
    pub fn end(&mut self, trace: &ComparedCapture) {
        let mut set = |key: &str, count: u64| self.whole.insert(key.to_owned(), count);
        set("frames", trace.frames);
        set("transactions", trace.transactions);
        set("incomplete", trace.incomplete);
        for (why, count) in &trace.undecoded {
            set(&format!("undecoded.{why}"), *count);
        }
        for (what, count) in &trace.given_up {
            set(&format!("given_up.{what}"), *count);
        }
    }
}

/// A capture written down.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// Which differences count, as people wrote it into the baseline.
    pub settings: BaselineSettings,
    /// The capture as a whole.
    pub counts: BaselineCounts,
    /// The fields of its Transactions.
    pub fields: BaselineFields,
    /// Its Transactions, in the order of their Calls, and whose they are.
    pub records: Vec<(ComparisonClient, ComparisonRecord)>,
}

/// A capture has more than [`TRANSACTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTransactions;

impl Baseline {
    /// The baseline of what `next` gives, until it gives no more.
    ///
    /// # Errors
    /// Where it gives more than a baseline has.
    pub fn of(
        settings: BaselineSettings,
        mut next: impl FnMut() -> Option<(ComparisonClient, ComparisonRecord)>,
    ) -> Result<Self, TooManyTransactions> {
        let mut baseline = Self { settings, ..Self::default() };
        while let Some((client, record)) = next() {
            if baseline.records.len() >= TRANSACTIONS {
                return Err(TooManyTransactions);
            }
            baseline.counts.record(&record);
            baseline.records.push((client, record));
        }
        baseline.records.sort_by_key(|(_, record)| (record.place.frame(), record.place.index));
        for (_, record) in &mut baseline.records {
            canonical_names::canonical(record);
            baseline.fields.record(record);
        }
        Ok(baseline)
    }

    /// Counts what follows from the Transactions.
    fn count_again(&mut self) {
        let incomplete = self.records.iter().filter(|(_, record)| !record.missing.is_empty()).count();
        self.counts.whole.insert("transactions".to_owned(), self.records.len() as u64);
        self.counts.whole.insert("incomplete".to_owned(), incomplete as u64);
    }
}
