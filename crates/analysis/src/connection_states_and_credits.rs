//! Lifetimes of connections: parameters of their setup, use of credits, and their end.

use std::collections::BTreeMap;

use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};
use nfsrdma_flow::{ConnectionParametersSnapshot, Flow, Transaction};

use super::connections::ConnectionTally;
use super::load_over_time::{CREDIT_STEPS, CreditSample, CreditSeries};
use super::sessions::{CapturedSessionConnections, ConnectionSessionSummary};

/// Maximum number of connections with credits over time and states that outlive those of the flow.
const MAX_CONNECTIONS: usize = 1_000;
/// Memory of a connection's credits over time and of its state, in bytes.
const CONNECTION_BYTES: usize =
    CREDIT_STEPS * size_of::<CreditSample>() + size_of::<ConnectionParametersSnapshot>() + 128;

/// A connection with all its counts.
#[derive(Clone, Debug)]
pub struct ConnectionStats {
    /// Traffic of the connection.
    pub tally: ConnectionTally,
    /// Parameters of its setup and its end, as far as observed.
    pub state: Option<ConnectionParametersSnapshot>,
    /// Credits over time; only for the first connections, and if it has any.
    pub credits: Option<CreditSeries>,
    /// Sessions seen on the connection.
    pub sessions: Vec<ConnectionSessionSummary>,
}

impl ConnectionStats {
    /// Returns `closed`, `established` or `open`, by what was observed.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            Some(state) if state.is_ending => "closed",
            Some(state) if state.parameters.is_some() => "established",
            _ => "open",
        }
    }

    /// Returns the largest number of Calls in flight, each of which takes a credit; `None` if it was not kept.
    pub fn in_use(&self) -> Option<u32> {
        Some(self.credits.as_ref()?.max_of(|step| step.in_flight))
    }

    /// Returns the time with as many Calls in flight as granted, in nanoseconds; `None` if it was not kept.
    pub fn at_limit_ns(&self) -> Option<u64> {
        Some(self.credits.as_ref()?.time_ns(|step| step.at_limit_ns))
    }
}

/// Credits, states and sessions of connections.
#[derive(Debug)]
pub struct ConnectionStatesAndCredits {
    credits: BTreeMap<u64, CreditSeries>,
    states: BTreeMap<u64, ConnectionParametersSnapshot>,
    sessions: CapturedSessionConnections,
    most: usize,
}

impl ConnectionStatesAndCredits {
    /// Creates an empty table that uses up to `limit_bytes` bytes.
    pub fn new(limit_bytes: usize) -> Self {
        let max_connections = (limit_bytes / CONNECTION_BYTES).clamp(1, MAX_CONNECTIONS);
        Self {
            credits: BTreeMap::new(),
            states: BTreeMap::new(),
            sessions: CapturedSessionConnections::default(),
            most: max_connections,
        }
    }

    /// Counts a Transaction.
    pub fn transaction(&mut self, transaction: &Transaction, messages: &TransactionMessages<'_>, summary: &RpcSummary) {
        let number = transaction.connection.number;
        self.sessions.record(transaction, messages, summary);
        let has_room = self.credits.len() < self.most || self.credits.contains_key(&number);
        if transaction.connection.transport.is_rdma() && has_room {
            self.credits.entry(number).or_default().transaction(transaction);
        }
    }

    /// Counts the slot of a Call, and the number of slots that its Reply grants.
    pub fn slot(&mut self, transaction: &Transaction, slot: u32, granted: Option<u32>) {
        let number = transaction.connection.number;
        if self.credits.len() < self.most || self.credits.contains_key(&number) {
            self.credits.entry(number).or_default().slot(transaction, slot, granted);
        }
    }

    /// Updates the states of the connections in the flow. States that the flow has evicted remain.
    pub fn update_states(&mut self, flow: &Flow) {
        for state in flow.connections() {
            if state.is_ending {
                self.sessions.end_connection(state.number);
            }
            if self.states.len() < self.most || self.states.contains_key(&state.number) {
                self.states.insert(state.number, state);
            }
        }
    }

    /// Returns a connection with all its counts.
    pub fn row(&self, tally: &ConnectionTally) -> ConnectionStats {
        let number = tally.name.number;
        ConnectionStats {
            tally: *tally,
            state: self.states.get(&number).copied(),
            credits: self.credits.get(&number).cloned(),
            sessions: self.sessions.sessions_of(number),
        }
    }
}

/// Connections until their end, as many as the flow has.
#[derive(Debug)]
pub struct OpenConnectionTallies {
    tallies: BTreeMap<u64, ConnectionTally>,
    lifetimes: ConnectionStatesAndCredits,
}

impl OpenConnectionTallies {
    /// Creates an empty table whose credits over time use up to `limit_bytes` bytes.
    pub fn new(limit_bytes: usize) -> Self {
        Self { tallies: BTreeMap::new(), lifetimes: ConnectionStatesAndCredits::new(limit_bytes) }
    }

    /// Counts a Transaction.
    pub fn transaction(&mut self, transaction: &Transaction, messages: &TransactionMessages<'_>, summary: &RpcSummary) {
        let name = transaction.connection;
        let tally = self.tallies.entry(name.number).or_insert_with(|| ConnectionTally::new(name));
        tally.add(transaction, summary);
        self.lifetimes.transaction(transaction, messages, summary);
    }

    /// Removes a connection at its end and returns its counts, if any.
    pub fn close(&mut self, state: ConnectionParametersSnapshot) -> Option<ConnectionStats> {
        let tally = self.tallies.remove(&state.number)?;
        let credits = self.lifetimes.credits.remove(&state.number);
        self.lifetimes.sessions.end_connection(state.number);
        let sessions = self.lifetimes.sessions.sessions_of(state.number);
        Some(ConnectionStats { tally, state: Some(state), credits, sessions })
    }

    /// Removes the remaining connections at the end of the input, in the order of their numbers.
    pub fn take_remaining(&mut self, flow: &Flow) -> Vec<ConnectionStats> {
        let states: BTreeMap<u64, ConnectionParametersSnapshot> =
            flow.connections().map(|state| (state.number, state)).collect();
        let ended = states.values().filter(|state| state.is_ending);
        ended.for_each(|state| self.lifetimes.sessions.end_connection(state.number));
        let tallies = std::mem::take(&mut self.tallies);
        tallies
            .into_iter()
            .map(|(number, tally)| ConnectionStats {
                tally,
                state: states.get(&number).copied(),
                credits: self.lifetimes.credits.remove(&number),
                sessions: self.lifetimes.sessions.sessions_of(number),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_is_emitted_once_and_then_starts_over() {
        let transactions = crate::testing::transactions("rxe-v42.pcap");
        let number = transactions[0].connection.number;
        let state = ConnectionParametersSnapshot {
            number,
            parameters: None,
            properties: [None; 2],
            message_credits: Default::default(),
            is_ending: true,
        };
        let mut open = OpenConnectionTallies::new(1 << 20);
        assert!(open.close(state).is_none());
        let on_it = transactions.iter().filter(|transaction| transaction.connection.number == number);
        let count = |open: &mut OpenConnectionTallies, transaction: &Transaction| {
            transaction.with_messages(|messages| open.transaction(transaction, messages, &messages.summary()));
        };
        let count_of_all = on_it.inspect(|transaction| count(&mut open, transaction)).count();
        let row = open.close(state).unwrap();
        assert_eq!((row.tally.transactions, row.state_name()), (count_of_all as u64, "closed"));
        assert!(open.close(state).is_none());
        count(&mut open, &transactions[0]);
        assert_eq!(open.close(state).map(|row| row.tally.transactions), Some(1));
    }
}
