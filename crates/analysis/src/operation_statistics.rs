//! Rows of the operation table: counts, rates, latencies and errors.

use std::collections::BTreeMap;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::transaction_message_decoding::ProcedureOrMainOperation;

use super::statistics::{FrameAndTransactionStatistics, OperationKey, OperationTally};

/// Latency distribution of an operation, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySpread {
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
    /// The sum.
    pub sum: u64,
}

/// An operation with its counts.
#[derive(Clone, Debug)]
pub struct OperationStats {
    /// Key of the operation.
    pub key: OperationKey,
    /// Number of Calls.
    pub calls: u64,
    /// Number of Replies.
    pub replies: u64,
    /// Number of Replies that report a failure.
    pub errors: u64,
    /// Bytes of Calls, including chunks.
    pub bytes_in: u64,
    /// Bytes of Replies, including chunks.
    pub bytes_out: u64,
    /// Latencies; `None` without any.
    pub latency: Option<LatencySpread>,
    /// Part of the latencies that was spent in loss recovery, in nanoseconds.
    pub recovery_ns: u64,
}

impl OperationStats {
    fn new(key: &OperationKey, tally: &OperationTally) -> Self {
        let latencies = &tally.latencies;
        let spread = || {
            let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|quantile| latencies.quantile(quantile));
            let sum = latencies.mean().saturating_mul(latencies.count());
            LatencySpread { p50, p90, p99, max: latencies.max(), sum }
        };
        Self {
            key: *key,
            calls: tally.calls,
            replies: tally.replies,
            errors: tally.errors,
            bytes_in: tally.call_bytes,
            bytes_out: tally.reply_bytes,
            latency: (latencies.count() > 0).then(spread),
            recovery_ns: tally.recovery_ns,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> String {
        match self.key.operation {
            Some(ProcedureOrMainOperation::Named(name)) => name.to_owned(),
            Some(ProcedureOrMainOperation::Number(number)) => format!("operation {number}"),
            None => "?".to_owned(),
        }
    }

    /// Returns program and version: `NFS 4`.
    pub fn program(&self) -> String {
        match (self.key.program, self.key.version) {
            (Some(program), Some(version)) => format!("{program} {version}"),
            (Some(program), None) => program.to_owned(),
            _ => String::new(),
        }
    }
}

/// Totals for relative values: duration of the capture, and sum of all latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RatioDenominators {
    /// Seconds from the first to the last frame.
    pub seconds: f64,
    /// Sum of all latencies, in nanoseconds.
    pub latency_ns: u64,
}

impl RatioDenominators {
    /// Computes the totals of these rows, in a capture whose first and last frame have these times.
    pub fn new<'r>(rows: impl IntoIterator<Item = &'r OperationStats>, times: Option<(Timestamp, Timestamp)>) -> Self {
        let latencies = rows.into_iter().filter_map(|row| Some(row.latency?.sum));
        Self { seconds: seconds(times), latency_ns: latencies.fold(0, u64::saturating_add) }
    }

    /// Returns the count per second; 0 if the duration is 0.
    pub fn rate(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the share of the operation in all latencies, in percent.
    pub fn share(&self, row: &OperationStats) -> f64 {
        row.latency.map_or(0.0, |latency| latency.sum as f64 / self.latency_ns.max(1) as f64 * 100.0)
    }
}

/// Returns the seconds between two times.
pub fn seconds(times: Option<(Timestamp, Timestamp)>) -> f64 {
    let length = times.and_then(|(first, last)| last.nanoseconds_since(first));
    length.map_or(0.0, |ns| ns as f64 / 1e9)
}

/// Returns the operations with their tallies, those with the most Calls first.
pub fn busiest(statistics: &FrameAndTransactionStatistics) -> Vec<(&OperationKey, &OperationTally)> {
    let mut operations: Vec<_> = statistics.operations().collect();
    operations.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.calls));
    operations
}

/// Returns the operations as rows, those with the most Calls first.
pub fn rows(statistics: &FrameAndTransactionStatistics) -> Vec<OperationStats> {
    busiest(statistics).into_iter().map(|(key, tally)| OperationStats::new(key, tally)).collect()
}

/// Returns the operations as rows, with numbers of further calls that wait for a reply.
pub fn rows_with_pending(
    statistics: &FrameAndTransactionStatistics,
    pending: &BTreeMap<OperationKey, u64>,
) -> Vec<OperationStats> {
    let mut rows = rows(statistics);
    for (key, count) in pending {
        match rows.iter_mut().find(|row| row.key == *key) {
            Some(row) => row.calls += count,
            None => rows.push(OperationStats { calls: *count, ..OperationStats::new(key, &OperationTally::default()) }),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(calls: u64, latency: Option<u64>) -> OperationStats {
        let spread = |sum| LatencySpread { p50: sum, p90: sum, p99: sum, max: sum, sum };
        OperationStats {
            key: OperationKey::default(),
            calls,
            replies: calls,
            errors: 0,
            bytes_in: 0,
            bytes_out: 0,
            latency: latency.map(spread),
            recovery_ns: 0,
        }
    }

    #[test]
    fn rates_are_of_the_time_between_the_first_and_the_last_frame() {
        let whole = RatioDenominators::new(&[], Some((Timestamp(1_000_000_000), Timestamp(3_000_000_000))));
        assert_eq!(whole.rate(10), 5.0);
        assert_eq!(RatioDenominators::new(&[], None).rate(10), 0.0);
    }

    #[test]
    fn the_shares_of_all_operations_are_the_whole() {
        let rows = [row(1, Some(30)), row(2, Some(10)), row(3, None)];
        let whole = RatioDenominators::new(&rows, None);
        assert_eq!(rows.each_ref().map(|row| whole.share(row)), [75.0, 25.0, 0.0]);
    }

    #[test]
    fn the_busiest_operation_comes_first() {
        let mut statistics = FrameAndTransactionStatistics::default();
        for transaction in crate::testing::transactions("rxe-v42.pcap") {
            transaction.with_messages(|messages| statistics.transaction(&transaction, &messages.summary()));
        }
        let rows = rows(&statistics);
        assert_eq!((rows[0].name(), rows[0].program()), ("LOOKUP".to_owned(), "NFS 4".to_owned()));
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.calls)));
        assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>(), statistics.transactions());
    }
}
