//! Counts of a capture and of its operations.

use std::collections::{BTreeMap, BTreeSet};

use crate::comparison::capture_summary::ComparedCaptureSummary;
use crate::comparison::record::{ComparableTransaction, ComparedChunkKind};

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
    pub fn record(&mut self, record: &ComparableTransaction) {
        let counts = match self.operations.get_mut(&*record.title) {
            Some(counts) => counts,
            None => self.operations.entry(record.title.to_string()).or_default(),
        };
        counts.calls += u64::from(record.call.is_some());
        counts.replies += u64::from(record.reply.is_some());
        counts.errors += u64::from(record.reply.is_some() && !record.is_ok());
        for chunk in &record.chunks {
            let offered: u64 = chunk.segments.iter().map(|segment| segment.length).sum();
            let returned: u64 = chunk.segments.iter().filter_map(|segment| segment.returned).sum();
            let sums = match chunk.kind {
                ComparedChunkKind::Read(..) | ComparedChunkKind::ReplyRead(_) => {
                    counts.read += offered;
                    continue;
                }
                ComparedChunkKind::Write => &mut counts.write,
                ComparedChunkKind::Reply => &mut counts.reply,
            };
            *sums = (sums.0 + offered, sums.1 + returned);
        }
    }

    /// Returns a count of the whole capture, 0 if there is none.
    pub fn capture_count(&self, key: &str) -> u64 {
        self.capture_counts.get(key).copied().unwrap_or(0)
    }

    /// Returns the keys of the whole-capture counts of both captures.
    pub(super) fn keys<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        self.capture_counts.keys().chain(other.capture_counts.keys()).map(String::as_str).collect()
    }

    pub(super) fn set_transactions(&mut self, transactions: u64, incomplete: u64) {
        self.capture_counts.insert("transactions".to_owned(), transactions);
        self.capture_counts.insert("incomplete".to_owned(), incomplete);
    }

    /// Adds the totals of the capture at its end.
    pub fn add_capture_totals(&mut self, trace: &ComparedCaptureSummary) {
        let mut set = |key: &str, count: u64| self.capture_counts.insert(key.to_owned(), count);
        set("frames", trace.frames);
        set("transactions", trace.transactions);
        set("incomplete", trace.incomplete);
        for (reason, count) in &trace.undecoded {
            set(&format!("undecoded.{reason}"), *count);
        }
        for (state, count) in &trace.evicted {
            set(&format!("given_up.{state}"), *count);
        }
        for (rule, count) in &trace.findings {
            set(&format!("findings.{rule}"), *count);
        }
    }
}
