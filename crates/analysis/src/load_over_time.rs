//! Load over time: Transactions, bytes and failures, and the credits in use by a connection.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::CallDirection;

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

/// The credits of a connection within a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditSample {
    /// Largest credit grant of a Reply; 0 if none.
    pub granted: u32,
    /// Largest credit request of a Call; 0 if none.
    pub requested: u32,
    /// Largest number of Calls in flight, at the times of Calls in the step.
    pub in_flight: u32,
    /// Time with as many Calls in flight as granted, in nanoseconds.
    pub at_limit_ns: u64,
    /// Largest number of session slots in use: one more than the highest slot of a Call; 0 without sessions.
    pub slots: u32,
    /// Largest number of slots that a Reply granted; 0 if none.
    pub granted_slots: u32,
    /// Time with the highest granted slot in use, in nanoseconds.
    pub slots_at_limit_ns: u64,
}

impl TimeSeriesBucket for CreditSample {
    fn merge(&mut self, next: Self) {
        self.granted = self.granted.max(next.granted);
        self.requested = self.requested.max(next.requested);
        self.in_flight = self.in_flight.max(next.in_flight);
        self.at_limit_ns = self.at_limit_ns.saturating_add(next.at_limit_ns);
        self.slots = self.slots.max(next.slots);
        self.granted_slots = self.granted_slots.max(next.granted_slots);
        self.slots_at_limit_ns = self.slots_at_limit_ns.saturating_add(next.slots_at_limit_ns);
    }
}

/// The credits of one connection, forward direction (RFC 8166 section 3.3.1).
#[derive(Clone, Debug)]
pub struct CreditSeries(pub TimeSeries<CreditSample>);

impl Default for CreditSeries {
    fn default() -> Self {
        Self(TimeSeries::new(CREDIT_STEPS))
    }
}

impl CreditSeries {
    /// Counts a Transaction.
    pub fn transaction(&mut self, transaction: &Transaction) {
        let Some(call) = &transaction.call else { return };
        if transaction.direction == CallDirection::Reverse {
            return;
        }
        if let Some(step) = self.0.step_at(call.time) {
            let requested = call.rpcrdma.and_then(|header| header.calls_in_flight_credits()).unwrap_or(0);
            step.requested = step.requested.max(requested);
            step.in_flight = step.in_flight.max(transaction.credit_use.in_flight);
        }
        let Some(reply) = &transaction.reply else { return };
        if let Some(granted) = reply.rpcrdma.and_then(|header| header.calls_in_flight_credits())
            && let Some(step) = self.0.step_at(reply.end_time)
        {
            step.granted = step.granted.max(granted);
        }
        let at_limit_ns = transaction.credit_use.at_limit_ns;
        if at_limit_ns > 0 {
            let start = Timestamp(reply.end_time.0.saturating_sub_unsigned(at_limit_ns));
            self.0.span(start, reply.end_time, |step, ns| step.at_limit_ns += ns);
        }
    }

    /// Counts the slot of a Call, and the slots that the Reply grants. A slot has one Call at a time (RFC 8881 section
    /// 2.10.6.1), so that Calls on the highest slot do not overlap.
    pub fn slot(&mut self, transaction: &Transaction, slot: u32, granted: Option<u32>) {
        let Some(call) = &transaction.call else { return };
        if transaction.direction == CallDirection::Reverse {
            return;
        }
        let used = slot.saturating_add(1);
        if let Some(step) = self.0.step_at(call.time) {
            step.slots = step.slots.max(used);
        }
        let (Some(reply), Some(granted)) = (&transaction.reply, granted) else { return };
        if let Some(step) = self.0.step_at(reply.end_time) {
            step.granted_slots = step.granted_slots.max(granted);
        }
        if used >= granted {
            self.0.span(call.time, reply.end_time, |step, ns| step.slots_at_limit_ns += ns);
        }
    }

    /// Returns the largest value of `value_of` over all steps.
    pub fn max_of(&self, value_of: impl Fn(&CreditSample) -> u32) -> u32 {
        self.0.steps().iter().map(value_of).max().unwrap_or(0)
    }

    /// Returns the sum of the time `value_of` over all steps, in nanoseconds.
    pub fn time_ns(&self, value_of: impl Fn(&CreditSample) -> u64) -> u64 {
        self.0.steps().iter().map(value_of).sum()
    }

    /// Returns `true` if its Calls had slots.
    pub fn has_slots(&self) -> bool {
        self.0.steps().iter().any(|step| step.slots > 0)
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
            assert_eq!(credits.time_ns(|step| step.at_limit_ns), 0, "{name}");
        }
    }
}
