//! Load over time: transactions, bytes and failures, and the use of credits and session slots.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::transaction::CallDirection;
use nfsrdma_flow::{CreditsInUse, Transaction};

use super::bounded_time_series::{TimeSeries, TimeSeriesBucket};
use super::rates::TransactionAndByteRate;

/// Maximum number of steps in the load of a capture, and in the credits of a connection.
const STEPS: usize = 512;
pub(super) const CREDIT_STEPS: usize = 128;

/// Traffic that ended within a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficTimeBucket {
    /// Number of Transactions.
    pub transactions: u64,
    /// Bytes of their messages, including chunks.
    pub bytes: u64,
    /// Number of failed Transactions.
    pub errors: u64,
}

impl TimeSeriesBucket for TrafficTimeBucket {
    fn merge(&mut self, next: Self) {
        self.transactions += next.transactions;
        self.bytes += next.bytes;
        self.errors += next.errors;
    }
}

/// Creates the load series of a capture.
pub fn load() -> TimeSeries<TrafficTimeBucket> {
    TimeSeries::new(STEPS)
}

/// Returns the rate in the whole steps of a window around `middle`, in a capture whose first and last frame have these
/// times; `None` if they cover less than nine tenths of it.
pub fn rate_around(
    load: &TimeSeries<TrafficTimeBucket>,
    middle: Timestamp,
    window_ns: u64,
    (first, last): (Timestamp, Timestamp),
) -> Option<TransactionAndByteRate> {
    let half_ns = i64::try_from(window_ns / 2).ok()?;
    let from = middle.0.saturating_sub(half_ns).max(first.0);
    let to = middle.0.saturating_add(half_ns).min(last.0);
    let (start, width) = (load.start()?.0, i64::try_from(load.width()).ok()?);
    let (mut ns, mut sum) = (0_i64, TrafficTimeBucket::default());
    let mut step_start = start;
    for (at, step) in load.steps().iter().enumerate() {
        let end = step_start.saturating_add(width);
        // Earlier events count in the first step. After the last frame there are none.
        let covers_from = if at == 0 { first.0.min(step_start) } else { step_start };
        let covers_to = end.min(last.0);
        if covers_from >= from && covers_to <= to {
            ns = ns.saturating_add(covers_to.saturating_sub(covers_from));
            sum.merge(*step);
        }
        step_start = end;
    }
    let requested_ns = to.saturating_sub(from);
    let is_covered = ns > 0 && i128::from(ns) * 10 >= i128::from(requested_ns) * 9;
    is_covered.then(|| TransactionAndByteRate::new(sum.transactions, sum.bytes, ns.unsigned_abs()))
}

/// Use of a limited resource within a step of time: the credits of a connection, or the slots of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditSample {
    /// Largest grant of a reply; 0 if none.
    pub granted: u32,
    /// Largest credit request of a call; 0 if none.
    pub requested: u32,
    /// Largest number of calls in flight, at the times of calls in the step.
    pub in_flight: u32,
    /// Limit in force when so many calls were in flight; 0 if it is unknown.
    pub limit: u32,
    /// Time with as many calls in flight as granted, in nanoseconds.
    pub at_limit_ns: u64,
}

impl CreditSample {
    fn is_limit_reached(&self) -> bool {
        self.limit > 0 && self.in_flight >= self.limit
    }

    /// Counts calls in flight under a limit. Of equal numbers, the one with the least room counts.
    fn add_in_flight(&mut self, in_flight: u32, limit: u32) {
        let is_tighter = in_flight == self.in_flight && limit > 0 && (self.limit == 0 || limit < self.limit);
        if in_flight > self.in_flight || is_tighter {
            (self.in_flight, self.limit) = (in_flight, limit);
        }
    }
}

impl TimeSeriesBucket for CreditSample {
    fn merge(&mut self, next: Self) {
        self.granted = self.granted.max(next.granted);
        self.requested = self.requested.max(next.requested);
        self.add_in_flight(next.in_flight, next.limit);
        self.at_limit_ns = self.at_limit_ns.saturating_add(next.at_limit_ns);
    }
}

/// Time during which as many calls were in flight as granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeAtLimit {
    /// The limit is unknown: no grant was captured before the most calls were in flight.
    Unknown,
    /// There never were as many.
    Never,
    /// Nanoseconds; 0 if the capture ended at once.
    Ns(u64),
}

/// Use of the credits of a connection, forward direction (RFC 8166 section 3.3.1), or of the slots of a session, fore
/// channel (RFC 8881 section 2.10.6.1).
#[derive(Clone, Debug)]
pub struct CreditSeries {
    /// Use in each step of time.
    pub steps: TimeSeries<CreditSample>,
    /// Since when as many calls have no reply as were granted, if it is so at the end.
    pub exhausted_since: Option<Timestamp>,
}

impl Default for CreditSeries {
    fn default() -> Self {
        Self { steps: TimeSeries::new(CREDIT_STEPS), exhausted_since: None }
    }
}

impl CreditSeries {
    /// Counts the credits of a transaction. One without a reply may be counted again when it is complete.
    pub fn transaction(&mut self, transaction: &Transaction) {
        let Some(call) = &transaction.call else { return };
        if transaction.direction == CallDirection::Reverse {
            return;
        }
        if let Some(step) = self.steps.step_at(call.time) {
            let requested = call.rpcrdma.and_then(|header| header.calls_in_flight_credits()).unwrap_or(0);
            step.requested = step.requested.max(requested);
            // A grant of 0 permits one call: RFC 8166 section 3.3.1.
            let limit = transaction.credit_use.granted.map_or(0, |granted| granted.max(1));
            step.add_in_flight(transaction.credit_use.in_flight, limit);
        }
        self.hold_credits(&transaction.credit_use.before_call, call.end_time);
        let Some(reply) = &transaction.reply else { return };
        self.hold_credits(&transaction.credit_use.before_reply, reply.end_time);
        if let Some(granted) = reply.rpcrdma.and_then(|header| header.calls_in_flight_credits()) {
            self.grant(reply.end_time, granted);
        }
        let at_limit_ns = transaction.credit_use.at_limit_ns;
        if at_limit_ns > 0 {
            self.at_limit(Timestamp(reply.end_time.0.saturating_sub_unsigned(at_limit_ns)), reply.end_time);
        }
    }

    /// Counts calls in flight under a limit, if it is known.
    pub(super) fn in_flight(&mut self, time: Timestamp, in_flight: u32, limit: Option<u32>) {
        if let Some(step) = self.steps.step_at(time) {
            step.add_in_flight(in_flight, limit.unwrap_or(0));
        }
    }

    /// Counts a grant.
    pub(super) fn grant(&mut self, time: Timestamp, granted: u32) {
        if let Some(step) = self.steps.step_at(time) {
            step.granted = step.granted.max(granted);
        }
    }

    /// Counts a time with as many calls in flight as granted.
    pub(super) fn at_limit(&mut self, from: Timestamp, to: Timestamp) {
        self.steps.span(from, to, |step, ns| step.at_limit_ns += ns);
    }

    /// Counts calls without a reply that are in flight from `since` until `now`.
    pub(super) fn hold(&mut self, in_flight: u32, limit: Option<u32>, since: Timestamp, now: Timestamp) {
        if in_flight > 0 {
            self.steps.span(since, now.max(since), |step, _| step.add_in_flight(in_flight, limit.unwrap_or(0)));
        }
    }

    /// Counts credits in use until `now`.
    pub(super) fn hold_credits(&mut self, used: &CreditsInUse, now: Timestamp) {
        if let Some(since) = used.since {
            self.hold(used.in_flight, used.limit, since, now);
        }
    }

    /// Counts the time from `uncounted_since` until `now` during which calls without a reply use up the limit; they do so
    /// since `exhausted_since`.
    pub(super) fn hold_limit(
        &mut self,
        exhausted_since: Option<Timestamp>,
        uncounted_since: Option<Timestamp>,
        now: Timestamp,
    ) {
        self.exhausted_since = exhausted_since;
        if let Some(since) = uncounted_since {
            self.at_limit(since, now.max(since));
        }
    }

    /// Returns the largest value of `value_of` over all steps.
    pub fn max_of(&self, value_of: impl Fn(&CreditSample) -> u32) -> u32 {
        self.steps.steps().iter().map(value_of).max().unwrap_or(0)
    }

    /// Returns the largest number of calls in flight, and the limit in force then; 0 if that is unknown.
    pub fn most_in_flight(&self) -> (u32, u32) {
        let mut most = CreditSample::default();
        self.steps.steps().iter().for_each(|step| most.add_in_flight(step.in_flight, step.limit));
        (most.in_flight, most.limit)
    }

    /// Returns the smallest of the limits that were reached; 0 if none was.
    pub fn smallest_reached_limit(&self) -> u32 {
        let reached = self.steps.steps().iter().filter(|step| step.at_limit_ns > 0 || step.is_limit_reached());
        reached.map(|step| step.limit).filter(|limit| *limit > 0).min().unwrap_or(0)
    }

    /// Returns the time with as many calls in flight as granted, in nanoseconds; `None` if there never were as many.
    pub fn at_limit_ns(&self) -> Option<u64> {
        let ns = self.steps.steps().iter().map(|step| step.at_limit_ns).sum();
        (ns > 0 || self.steps.steps().iter().any(CreditSample::is_limit_reached)).then_some(ns)
    }

    /// Returns the time with as many calls in flight as granted.
    pub fn time_at_limit(&self) -> TimeAtLimit {
        match (self.at_limit_ns(), self.most_in_flight()) {
            (Some(ns), _) => TimeAtLimit::Ns(ns),
            (None, (_, 0)) => TimeAtLimit::Unknown,
            (None, _) => TimeAtLimit::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the largest number of Calls in flight at the time of a Call, computed independently.
    fn most_at_once(transactions: &[Transaction]) -> u32 {
        let mut events = Vec::new();
        for transaction in transactions.iter().filter(|one| one.direction == CallDirection::Forward) {
            let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { continue };
            events.push((call.end_time, 1_i32));
            events.push((reply.end_time, -1));
        }
        events.sort_unstable();
        let mut now = 0;
        let most = events.into_iter().map(|(_, change)| {
            now += change;
            now
        });
        most.max().and_then(|most| u32::try_from(most).ok()).unwrap_or(0)
    }

    #[test]
    fn the_most_calls_in_flight_are_counted_and_not_a_mean() {
        for name in ["rxe-v42.pcap", "rxe-v3.pcap", "rxe-v42-deleg.pcap"] {
            let transactions = crate::testing::transactions(name);
            let on_rdma = |one: &&Transaction| one.connection.transport.is_rdma();
            let number = transactions.iter().find(on_rdma).unwrap().connection.number;
            let on_it: Vec<Transaction> =
                transactions.into_iter().filter(|one| one.connection.number == number).collect();
            let mut credits = CreditSeries::default();
            on_it.iter().for_each(|transaction| credits.transaction(transaction));
            assert_eq!(credits.max_of(|step| step.in_flight), most_at_once(&on_it), "{name}");
            assert!(credits.max_of(|step| step.granted) > 0, "{name}");
            assert_eq!(credits.at_limit_ns(), None, "{name}");
        }
    }
}
