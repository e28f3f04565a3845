//! Baselines: what a capture was, written down so that people can read it and a program can compare with it.
//!
//! A baseline is text: counts of the capture, of its operations, and each Transaction with every field that must be
//! equal. [`text`] writes and reads it. It is made of the same records that two captures are compared by, so that
//! comparing with a baseline is comparing two captures of which one was written down.

mod canon;
#[cfg(test)]
mod tests;
pub mod text;

use std::collections::BTreeMap;

use super::comparison::difference::Kind;
use super::comparison::record::Record;
use super::comparison::selection::Selection;
use super::comparison::trace::Trace;
use super::comparison::{Client, Comparison};

pub use canon::Canon;

/// Transactions of a baseline, at most: it is for people to read, and both are in memory as a whole.
pub const TRANSACTIONS: usize = 200_000;

/// The version of the form of baselines.
pub const VERSION: u32 = 1;

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
pub struct Counts {
    /// `frames`, `transactions`, `incomplete`, `undecoded.malformed` ...
    pub whole: BTreeMap<String, u64>,
    /// By operation: `NFS 4.2 READ`.
    pub operations: BTreeMap<String, OperationCounts>,
}

impl Counts {
    /// Counts a record.
    pub fn record(&mut self, record: &Record) {
        let counts = self.operations.entry(record.title.to_string()).or_default();
        counts.calls += u64::from(record.call.is_some());
        counts.replies += u64::from(record.reply.is_some());
        counts.errors += u64::from(record.reply.is_some() && !record.is_ok());
        for chunk in &record.chunks {
            use super::comparison::record::ChunkKind;
            let offered: u64 = chunk.segments.iter().map(|segment| segment.length).sum();
            let returned: u64 = chunk.segments.iter().filter_map(|segment| segment.returned).sum();
            match chunk.kind {
                ChunkKind::Read(..) | ChunkKind::ReplyRead(_) => counts.read += offered,
                ChunkKind::Write => counts.write = (counts.write.0 + offered, counts.write.1 + returned),
                ChunkKind::Reply => counts.reply = (counts.reply.0 + offered, counts.reply.1 + returned),
            }
        }
    }

    /// The capture has ended.
    pub fn end(&mut self, trace: &Trace) {
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
    pub selection: Selection,
    /// The capture as a whole.
    pub counts: Counts,
    /// Its Transactions, in the order of their Calls, and whose they are.
    pub records: Vec<(Client, Record)>,
}

impl Baseline {
    /// Brings the records of a capture into the order of their Calls, and into the form that baselines have.
    pub fn in_order(&mut self) {
        self.records.sort_by_key(|(_, record)| (record.place.frame(), record.place.index));
        let mut canon = Canon::default();
        self.records.iter_mut().for_each(|(_, record)| canon.record(record));
    }
}

/// Compares the counts of the capture as a whole; `a` is the baseline's.
pub fn compare_counts(comparison: &mut Comparison, a: &Counts, b: &Counts) {
    let keys: std::collections::BTreeSet<&String> = a.whole.keys().chain(b.whole.keys()).collect();
    for key in keys {
        let of = |counts: &Counts| counts.whole.get(key).copied().unwrap_or(0);
        let (one, other) = (of(a), of(b));
        let kind = match key.split('.').next() {
            Some("incomplete") => Kind::Incomplete,
            Some("undecoded") => Kind::Undecoded,
            _ => Kind::Account,
        };
        if one != other && !comparison.tolerates(key, one, other) {
            comparison.whole(kind, key, one, other);
        }
    }
}
