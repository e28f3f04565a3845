//! What became of connections: what their set-up said, how their credits were used, and whether they have ended.

use std::collections::{BTreeMap, BTreeSet};

use nfsrdma_dissectors::flow::decode::{RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::{ConnectionState, Flow, Transaction};

use super::connections::ConnectionTally;
use super::load::{CREDIT_STEPS, CreditSample, CreditSeries};
use super::sequence::{self, SessionId};

/// Connections whose credits over time, and whose states after the flow has forgotten them, are kept at a time at most.
const KEPT: usize = 1_000;
/// Memory of a connection's credits over time, and of its state, in bytes.
const LIFE_BYTES: usize = CREDIT_STEPS * size_of::<CreditSample>() + size_of::<ConnectionState>() + 128;

/// A connection with all that is counted of it.
#[derive(Clone, Debug)]
pub struct ConnectionStats {
    /// What went over it.
    pub tally: ConnectionTally,
    /// What its set-up said, and whether its end was seen, where that was noticed.
    pub state: Option<ConnectionState>,
    /// Its credits over time; only where it has any, and for the first connections.
    pub credits: Option<CreditSeries>,
    /// The sessions that were seen on it.
    pub sessions: Vec<BoundSession>,
}

impl ConnectionStats {
    /// Whether its set-up and its end were seen, in a word.
    pub fn word(&self) -> &'static str {
        match self.state {
            Some(state) if state.is_ending => "ended",
            Some(state) if state.terms.is_some() => "set up",
            _ => "open",
        }
    }

    /// The most Calls that were in flight at a time, of which each takes a credit. `None` where that was not kept.
    pub fn in_use(&self) -> Option<u32> {
        Some(self.credits.as_ref()?.most(|step| step.in_flight))
    }

    /// Nanoseconds during which as many Calls were in flight as were granted. `None` where that was not kept.
    pub fn at_limit_ns(&self) -> Option<u64> {
        Some(self.credits.as_ref()?.time_ns(|step| step.at_limit_ns))
    }
}

/// Sessions, and connections of all of them, that are remembered.
const SESSIONS: usize = 4_096;

/// A session, and the connections that are bound to it (RFC 8881 section 2.10.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundSession {
    /// The session.
    pub id: SessionId,
    /// The numbers of the connections on which it was seen up to now, in order.
    pub connections: Vec<u64>,
}

/// Sessions by connection, and connections by session.
#[derive(Debug, Default)]
struct Sessions {
    connections: BTreeMap<SessionId, BTreeSet<u64>>,
    of: BTreeMap<u64, BTreeSet<SessionId>>,
    count: usize,
}

impl Sessions {
    /// A session was seen on a connection.
    fn note(&mut self, id: SessionId, connection: u64) {
        let is_known = self.of.get(&connection).is_some_and(|sessions| sessions.contains(&id));
        if !is_known && self.count < SESSIONS {
            self.count += 1;
            self.of.entry(connection).or_default().insert(id);
            self.connections.entry(id).or_default().insert(connection);
        }
    }

    /// Those of a connection.
    fn on(&self, connection: u64) -> Vec<BoundSession> {
        let ids = self.of.get(&connection).into_iter().flatten();
        let of = |id| self.connections.get(id).into_iter().flatten().copied().collect();
        ids.map(|id| BoundSession { id: *id, connections: of(id) }).collect()
    }
}

/// Credits, states and sessions of connections.
#[derive(Debug)]
pub struct ConnectionLifetimes {
    credits: BTreeMap<u64, CreditSeries>,
    states: BTreeMap<u64, ConnectionState>,
    sessions: Sessions,
    /// Connections that are kept at a time at most.
    most: usize,
}

impl ConnectionLifetimes {
    /// Nothing is known yet, and what will be may take so many bytes.
    pub fn new(room_bytes: usize) -> Self {
        let most = (room_bytes / LIFE_BYTES).clamp(1, KEPT);
        Self { credits: BTreeMap::new(), states: BTreeMap::new(), sessions: Sessions::default(), most }
    }

    /// Counts a Transaction.
    pub fn transaction(
        &mut self,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
    ) {
        let number = transaction.connection.number;
        if let Some(session) = sequence::session(reading, facts) {
            self.sessions.note(session, number);
        }
        let has_room = self.credits.len() < self.most || self.credits.contains_key(&number);
        if transaction.connection.transport.is_rdma() && has_room {
            self.credits.entry(number).or_default().transaction(transaction);
        }
    }

    /// Counts the slot of a Call, and how many slots its Reply lets the client use.
    pub fn slot(&mut self, transaction: &Transaction, slot: u32, granted: Option<u32>) {
        let number = transaction.connection.number;
        if self.credits.len() < self.most || self.credits.contains_key(&number) {
            self.credits.entry(number).or_default().slot(transaction, slot, granted);
        }
    }

    /// Looks how the connections are that the flow remembers. Those that it has forgotten stay as they were.
    pub fn look(&mut self, flow: &Flow) {
        for state in flow.connections() {
            if self.states.len() < self.most || self.states.contains_key(&state.number) {
                self.states.insert(state.number, state);
            }
        }
    }

    /// A connection, with what was counted of it.
    pub fn row(&self, tally: &ConnectionTally) -> ConnectionStats {
        let number = tally.name.number;
        ConnectionStats {
            tally: *tally,
            state: self.states.get(&number).copied(),
            credits: self.credits.get(&number).cloned(),
            sessions: self.sessions.on(number),
        }
    }
}

/// Connections that are counted until they are over. There are as many as the flow remembers.
#[derive(Debug)]
pub struct OpenConnections {
    tallies: BTreeMap<u64, ConnectionTally>,
    lives: ConnectionLifetimes,
}

impl OpenConnections {
    /// Nothing is counted yet; credits over time may take so many bytes.
    pub fn new(room_bytes: usize) -> Self {
        Self { tallies: BTreeMap::new(), lives: ConnectionLifetimes::new(room_bytes) }
    }

    /// Counts a Transaction.
    pub fn transaction(
        &mut self,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
    ) {
        let name = transaction.connection;
        let tally = self.tallies.entry(name.number).or_insert_with(|| ConnectionTally::new(name));
        tally.add(transaction, facts);
        self.lives.transaction(transaction, reading, facts);
    }

    /// A connection is over: gives it, if something was counted of it.
    pub fn close(&mut self, state: ConnectionState) -> Option<ConnectionStats> {
        let tally = self.tallies.remove(&state.number)?;
        let credits = self.lives.credits.remove(&state.number);
        let sessions = self.lives.sessions.on(state.number);
        Some(ConnectionStats { tally, state: Some(state), credits, sessions })
    }

    /// The input is over: gives those that are left, in the order in which they were first seen.
    pub fn rest(&mut self, flow: &Flow) -> Vec<ConnectionStats> {
        let states: BTreeMap<u64, ConnectionState> =
            flow.connections().map(|state| (state.number, state)).collect();
        let rest = std::mem::take(&mut self.tallies);
        rest.into_iter()
            .map(|(number, tally)| ConnectionStats {
                tally,
                state: states.get(&number).copied(),
                credits: self.lives.credits.remove(&number),
                sessions: self.lives.sessions.on(number),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_given_once_and_begins_anew_after_it() {
        let transactions = crate::testing::transactions("rxe-v42.pcap");
        let number = transactions[0].connection.number;
        let state = ConnectionState {
            number,
            terms: None,
            properties: [None; 2],
            message_credits: Default::default(),
            is_ending: true,
        };
        let mut open = OpenConnections::new(1 << 20);
        assert!(open.close(state).is_none());
        let on_it = transactions.iter().filter(|transaction| transaction.connection.number == number);
        let count = |open: &mut OpenConnections, transaction: &Transaction| {
            transaction.read(|reading| open.transaction(transaction, reading, &reading.facts()));
        };
        let count_of_all = on_it.inspect(|transaction| count(&mut open, transaction)).count();
        let row = open.close(state).unwrap();
        assert_eq!((row.tally.transactions, row.word()), (count_of_all as u64, "ended"));
        assert!(open.close(state).is_none());
        count(&mut open, &transactions[0]);
        assert_eq!(open.close(state).map(|row| row.tally.transactions), Some(1));
    }
}
