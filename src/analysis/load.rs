//! What went on when: Transactions, their bytes and their failures, and how many of a connection's credits were in use.

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::Direction;

use super::series::{Series, Step};

/// Steps of the load of a capture, and of the credits of a connection.
const STEPS: usize = 512;
const CREDIT_STEPS: usize = 128;

/// What ended within a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Transactions.
    pub transactions: u64,
    /// Bytes of their messages, with what moved in chunks.
    pub bytes: u64,
    /// Those of them that failed.
    pub errors: u64,
}

impl Step for Load {
    fn join(&mut self, next: Self) {
        self.transactions += next.transactions;
        self.bytes += next.bytes;
        self.errors += next.errors;
    }
}

/// The load of a capture.
pub fn load() -> Series<Load> {
    Series::new(STEPS)
}

/// The credits of a connection within a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credits {
    /// The most that a Reply granted; 0 where none did.
    pub granted: u32,
    /// The most that a Call asked for; 0 where none did.
    pub asked: u32,
    /// Nanoseconds that Calls waited for their Replies, all together: divided by the step, the mean of Calls under way.
    pub busy: u64,
}

impl Step for Credits {
    fn join(&mut self, next: Self) {
        self.granted = self.granted.max(next.granted);
        self.asked = self.asked.max(next.asked);
        self.busy = self.busy.saturating_add(next.busy);
    }
}

/// The credits of one connection, forward direction (RFC 8166 section 3.3.1).
#[derive(Clone, Debug)]
pub struct CreditSeries(pub Series<Credits>);

impl Default for CreditSeries {
    fn default() -> Self {
        Self(Series::new(CREDIT_STEPS))
    }
}

impl CreditSeries {
    /// Counts a Transaction.
    pub fn transaction(&mut self, transaction: &Transaction) {
        let Some(call) = &transaction.call else { return };
        if transaction.direction == Direction::Reverse {
            return;
        }
        if let Some(words) = call.rpcrdma
            && let Some(step) = self.0.at(call.time)
        {
            step.asked = step.asked.max(words.credits);
        }
        let Some(reply) = &transaction.reply else { return };
        if let Some(words) = reply.rpcrdma
            && let Some(step) = self.0.at(reply.end_time)
        {
            step.granted = step.granted.max(words.credits);
        }
        self.0.span(call.time, reply.end_time, |step, ns| step.busy = step.busy.saturating_add(ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_calls_were_under_way_is_their_latency() {
        let transactions = crate::testing::transactions("rxe-v42.pcap");
        let mut credits = CreditSeries::default();
        transactions.iter().for_each(|transaction| credits.transaction(transaction));
        let forward = transactions.iter().filter(|transaction| transaction.direction == Direction::Forward);
        let latencies: u64 = forward.filter_map(Transaction::latency).sum();
        let busy: u64 = credits.0.steps().iter().map(|step| step.busy).sum();
        assert_eq!(busy, latencies);
        assert!(credits.0.steps().iter().any(|step| step.granted == 128));
    }
}
