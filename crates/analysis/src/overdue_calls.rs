//! Detection of Calls that have waited long for their Reply, each reported once.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::pending_call_queries::PendingCall;
use nfsrdma_flow::{Flow, TransactionSlabKey};
use rustc_hash::FxHashSet;

/// Minimum and maximum interval between two scans of the Calls in flight, in nanoseconds.
const SHORTEST_INTERVAL_NS: u64 = 1_000_000;
const LONGEST_INTERVAL_NS: u64 = 100_000_000;

/// A detector of Calls in flight for a long time. It stores no more Calls than the flow does.
#[derive(Debug)]
pub struct OverdueCallDetector {
    age_ns: u64,
    due: Option<Timestamp>,
    reported: FxHashSet<TransactionSlabKey>,
}

fn later(time: Timestamp, ns: u64) -> Timestamp {
    Timestamp(time.0.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX)))
}

impl OverdueCallDetector {
    /// Creates a detector of Calls older than `age_ns` nanoseconds.
    pub fn new(age_ns: u64) -> Self {
        Self { age_ns, due: None, reported: FxHashSet::default() }
    }

    /// Returns `true` if a scan is due; called once per frame.
    #[inline]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.due.is_none_or(|due| now >= due)
    }

    /// Returns the Calls that have reached the age since the last scan, with their ages in nanoseconds.
    pub fn take<'f>(&mut self, flow: &'f Flow, now: Timestamp) -> Vec<(PendingCall<'f>, u64)> {
        let mut overdue = Vec::new();
        let mut in_flight = FxHashSet::default();
        // A later Call is not due before this.
        let mut due = later(now, self.age_ns);
        for call in flow.pending_calls() {
            let age_ns = now.nanoseconds_since(call.since).unwrap_or(0);
            if self.reported.contains(&call.key) {
                in_flight.insert(call.key);
            } else if age_ns >= self.age_ns {
                in_flight.insert(call.key);
                overdue.push((call, age_ns));
            } else {
                due = due.min(later(call.since, self.age_ns));
            }
        }
        self.reported = in_flight;
        let interval_ns = (self.age_ns / 4).clamp(SHORTEST_INTERVAL_NS, LONGEST_INTERVAL_NS);
        self.due = Some(due.max(later(now, interval_ns)));
        overdue
    }
}
