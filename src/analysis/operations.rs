//! Operations as rows of a table: how many, how fast, how long, how many failed.

use nfsrdma_dissectors::flow::decode::CallOperation;
use nfsrdma_dissectors::frame::Timestamp;

use super::statistics::{OperationKey, OperationTally, Statistics};

/// How the latencies of an operation are spread, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySpread {
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// All together.
    pub sum: u64,
}

/// An operation with what is counted of it.
#[derive(Clone, Debug)]
pub struct OperationStats {
    /// What it is counted under.
    pub key: OperationKey,
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
    /// Its latencies; `None` without any.
    pub latency: Option<LatencySpread>,
}

impl OperationStats {
    fn of(key: &OperationKey, tally: &OperationTally) -> Self {
        let latencies = &tally.latencies;
        let spread = || {
            let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|part| latencies.quantile(part));
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
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self.key.operation {
            Some(CallOperation::Named(name)) => name.to_owned(),
            Some(CallOperation::Number(number)) => format!("operation {number}"),
            None => "?".to_owned(),
        }
    }

    /// Its program and version: `NFS 4`.
    pub fn program(&self) -> String {
        match (self.key.program, self.key.version) {
            (Some(program), Some(version)) => format!("{program} {version}"),
            (Some(program), None) => program.to_owned(),
            _ => String::new(),
        }
    }
}

/// What rows are compared with: how long the capture is, and how long all Transactions took together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CaptureTotals {
    /// Seconds from the first to the last frame.
    pub seconds: f64,
    /// Nanoseconds of all latencies.
    pub latency: u64,
}

impl CaptureTotals {
    /// The whole of these rows, in a capture whose first and last frame have these times.
    pub fn of<'r>(
        rows: impl IntoIterator<Item = &'r OperationStats>,
        times: Option<(Timestamp, Timestamp)>,
    ) -> Self {
        let latencies = rows.into_iter().filter_map(|row| Some(row.latency?.sum));
        Self { seconds: seconds(times), latency: latencies.fold(0, u64::saturating_add) }
    }

    /// How many a second; 0 where no time passed.
    pub fn rate(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// The part of all latencies that is this operation's, in percent.
    pub fn share(&self, row: &OperationStats) -> f64 {
        row.latency.map_or(0.0, |latency| latency.sum as f64 / self.latency.max(1) as f64 * 100.0)
    }
}

/// Seconds between two times.
pub fn seconds(times: Option<(Timestamp, Timestamp)>) -> f64 {
    let length = times.and_then(|(first, last)| last.since(first));
    length.map_or(0.0, |ns| ns as f64 / 1e9)
}

/// The operations with what was counted, those with the most Calls first.
pub fn busiest(statistics: &Statistics) -> Vec<(&OperationKey, &OperationTally)> {
    let mut operations: Vec<_> = statistics.operations().collect();
    operations.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.calls));
    operations
}

/// The operations as rows, those with the most Calls first.
pub fn rows(statistics: &Statistics) -> Vec<OperationStats> {
    busiest(statistics).into_iter().map(|(key, tally)| OperationStats::of(key, tally)).collect()
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
        }
    }

    #[test]
    fn rates_are_of_the_time_between_the_first_and_the_last_frame() {
        let whole = CaptureTotals::of(&[], Some((Timestamp(1_000_000_000), Timestamp(3_000_000_000))));
        assert_eq!(whole.rate(10), 5.0);
        assert_eq!(CaptureTotals::of(&[], None).rate(10), 0.0);
    }

    #[test]
    fn the_shares_of_all_operations_are_the_whole() {
        let rows = [row(1, Some(30)), row(2, Some(10)), row(3, None)];
        let whole = CaptureTotals::of(&rows, None);
        assert_eq!(rows.each_ref().map(|row| whole.share(row)), [75.0, 25.0, 0.0]);
    }

    #[test]
    fn the_busiest_operation_comes_first() {
        let mut statistics = Statistics::default();
        for transaction in crate::testing::transactions("rxe-v42.pcap") {
            transaction.read(|reading| statistics.transaction(&transaction, &reading.facts()));
        }
        let rows = rows(&statistics);
        assert_eq!((rows[0].name(), rows[0].program()), ("LOOKUP".to_owned(), "NFS 4".to_owned()));
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.calls)));
        assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>(), statistics.transactions());
    }
}
