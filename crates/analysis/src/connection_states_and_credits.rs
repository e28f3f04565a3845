//! Lifetimes of connections: parameters of their setup, use of credits, and their end.

use std::collections::BTreeMap;

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};
use nfsrdma_flow::{ConnectionParametersSnapshot, Flow, Transaction};

use super::call_session_slots::SessionId;
use super::connections::ConnectionTally;
use super::load_over_time::{CREDIT_STEPS, CreditSample, CreditSeries, TimeAtLimit};
use super::sessions::{CapturedSessionConnections, ConnectionSessionSummary};
use super::slot_use::SlotUse;

/// Maximum number of connections with credits over time and states that outlive those of the flow.
const MAX_CONNECTIONS: usize = 1_000;
/// Memory of a connection's credits and slots over time and of its state, in bytes.
const CONNECTION_BYTES: usize =
    2 * CREDIT_STEPS * size_of::<CreditSample>() + size_of::<ConnectionParametersSnapshot>() + 128;

/// A connection with all its counts.
#[derive(Clone, Debug)]
pub struct ConnectionStats {
    /// Traffic of the connection.
    pub tally: ConnectionTally,
    /// Parameters of its setup and its end, as far as observed.
    pub state: Option<ConnectionParametersSnapshot>,
    /// Credits over time; only for the first connections, and if it has any.
    pub credits: Option<CreditSeries>,
    /// Use of the slots of each of its sessions, by all connections of the session.
    pub slots: BTreeMap<SessionId, CreditSeries>,
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

    /// Returns the largest number of calls in flight, each of which takes a credit; `None` if it was not kept.
    pub fn in_use(&self) -> Option<u32> {
        Some(self.credits.as_ref()?.most_in_flight().0)
    }

    /// Returns `true` if calls take credits: over RDMA, whether or not a grant was captured, except in a dialect without
    /// them.
    pub fn has_credits(&self) -> bool {
        let has_grant = self.granted_credits() > 0;
        has_grant || self.tally.name.transport.is_rdma() && self.tally.dialect != Some(Dialect::Prototype)
    }

    /// Returns the largest credit grant; 0 if none. It is that of the whole connection, whatever transactions a filter
    /// selects.
    pub fn granted_credits(&self) -> u32 {
        let granted = self.credits.as_ref().map_or(0, |credits| credits.max_of(|step| step.granted));
        granted.max(self.tally.granted_credits)
    }

    /// Returns the smallest credit grant that limited the calls in flight, and the largest of all.
    pub fn grants(&self) -> (u32, u32) {
        let largest = self.granted_credits();
        let smallest = self.credits.as_ref().map_or(0, CreditSeries::smallest_reached_limit);
        (if smallest > 0 { smallest.min(largest) } else { largest }, largest)
    }

    /// Returns the time with as many calls in flight as granted, in nanoseconds; `None` if it was not kept.
    pub fn at_limit_ns(&self) -> Option<u64> {
        Some(self.credits.as_ref()?.at_limit_ns().unwrap_or(0))
    }

    /// Returns the time with as many calls in flight as granted; unknown on a connection without credits.
    pub fn time_at_limit(&self) -> TimeAtLimit {
        self.credits.as_ref().map_or(TimeAtLimit::Unknown, CreditSeries::time_at_limit)
    }

    /// Returns the use of the slots of the session with the most calls in flight.
    pub fn busiest_slots(&self) -> Option<&CreditSeries> {
        self.slots.values().max_by_key(|series| series.most_in_flight().0)
    }
}

/// Credits, states and sessions of connections.
#[derive(Debug)]
pub struct ConnectionStatesAndCredits {
    credits: BTreeMap<u64, CreditSeries>,
    states: BTreeMap<u64, ConnectionParametersSnapshot>,
    sessions: CapturedSessionConnections,
    slots: SlotUse,
    /// Time of the last update of the states.
    now: Timestamp,
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
            slots: SlotUse::new(max_connections),
            now: Timestamp::default(),
            most: max_connections,
        }
    }

    /// Counts a transaction. One without a reply may be counted again when it is complete.
    pub fn transaction(&mut self, transaction: &Transaction, messages: &TransactionMessages<'_>, summary: &RpcSummary) {
        let number = transaction.connection.number;
        self.sessions.record(transaction, messages, summary);
        let has_room = self.credits.len() < self.most || self.credits.contains_key(&number);
        if transaction.connection.transport.is_rdma() && has_room {
            self.credits.entry(number).or_default().transaction(transaction);
        }
    }

    /// Counts the slots of the messages that the last frame of the flow completed.
    pub fn frame(&mut self, flow: &Flow) {
        self.slots.frame(flow);
    }

    /// Counts the slots of the calls of which only a part has arrived. Called before the flow ends, which completes
    /// them.
    pub fn set_partial_calls(&mut self, flow: &Flow) {
        self.slots.set_partial_calls(flow);
    }

    /// Updates the states of the connections in the flow at `now`, when calls without a reply still wait. States that
    /// the flow has evicted remain.
    pub fn update_states(&mut self, flow: &Flow, now: Timestamp) {
        self.now = now;
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
        let credits = self.credits.get(&number).cloned();
        self.stats(*tally, self.states.get(&number).copied(), credits, self.now)
    }

    /// Returns a connection with all its counts at `now`.
    fn stats(
        &self,
        tally: ConnectionTally,
        state: Option<ConnectionParametersSnapshot>,
        mut credits: Option<CreditSeries>,
        now: Timestamp,
    ) -> ConnectionStats {
        // As long as no reply comes, no transaction has the time at the limit.
        if let (Some(state), Some(credits)) = (state, &mut credits) {
            let until = state.ended_at.unwrap_or(now);
            let [used, _] = &state.credits_in_use;
            credits.hold_credits(used, until);
            credits.hold_limit(used.exhausted_since, used.uncounted_since(), until);
        }
        let sessions = self.sessions.sessions_of(tally.name.number);
        let slots = sessions.iter().filter_map(|session| Some((session.id, self.slots.of_session(&session.id, now)?)));
        ConnectionStats { tally, state, credits, slots: slots.collect(), sessions }
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

    /// Counts a transaction in the traffic of its connection.
    pub fn transaction(&mut self, transaction: &Transaction, summary: &RpcSummary) {
        let name = transaction.connection;
        let tally = self.tallies.entry(name.number).or_insert_with(|| ConnectionTally::new(name));
        tally.add(transaction, summary);
    }

    /// Counts the credits and the session of a transaction. They are those of the connection, whatever transactions a
    /// filter selects.
    pub fn credits(&mut self, transaction: &Transaction, messages: &TransactionMessages<'_>, summary: &RpcSummary) {
        self.lifetimes.transaction(transaction, messages, summary);
    }

    /// Counts the slots of the messages that the last frame of the flow completed.
    pub fn frame(&mut self, flow: &Flow) {
        self.lifetimes.frame(flow);
    }

    /// Counts the slots of the calls of which only a part has arrived. Called before the flow ends.
    pub fn set_partial_calls(&mut self, flow: &Flow) {
        self.lifetimes.set_partial_calls(flow);
    }

    /// Removes a connection at its end, or at `now`, and returns its counts, if any.
    pub fn close(&mut self, state: ConnectionParametersSnapshot, now: Timestamp) -> Option<ConnectionStats> {
        let credits = self.lifetimes.credits.remove(&state.number);
        // Sessions are those of all transactions, whatever a filter selects.
        self.lifetimes.sessions.end_connection(state.number);
        let tally = self.tallies.remove(&state.number)?;
        Some(self.lifetimes.stats(tally, Some(state), credits, now))
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
            .map(|(number, tally)| {
                let credits = self.lifetimes.credits.remove(&number);
                self.lifetimes.stats(tally, states.get(&number).copied(), credits, flow.now())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::captured_frame::Frame;

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
            ended_at: None,
            credits_in_use: Default::default(),
        };
        let now = Timestamp::default();
        let mut open = OpenConnectionTallies::new(1 << 20);
        assert!(open.close(state, now).is_none());
        let on_it = transactions.iter().filter(|transaction| transaction.connection.number == number);
        let count = |open: &mut OpenConnectionTallies, transaction: &Transaction| {
            transaction.with_messages(|messages| open.transaction(transaction, &messages.summary()));
        };
        let count_of_all = on_it.inspect(|transaction| count(&mut open, transaction)).count();
        let row = open.close(state, now).unwrap();
        assert_eq!((row.tally.transactions, row.state_name()), (count_of_all as u64, "closed"));
        assert!(open.close(state, now).is_none());
        count(&mut open, &transactions[0]);
        assert_eq!(open.close(state, now).map(|row| row.tally.transactions), Some(1));
    }

    /// Returns the only connection of a capture, at its end.
    fn connection(name: &str) -> ConnectionStats {
        changed_connection(name, |_, _| {})
    }

    /// Returns the only connection of a capture whose frames were changed, at its end.
    fn changed_connection(name: &str, mut change: impl FnMut(&mut Vec<u8>, &mut Timestamp)) -> ConnectionStats {
        let mut source = nfsrdma_capture_file::CaptureFrameSource::open([crate::testing::path(name)]).unwrap();
        let mut flow = Flow::new(nfsrdma_flow::FlowLimits::default());
        let mut open = OpenConnectionTallies::new(1 << 20);
        while let Some(frame) = source.next().unwrap() {
            let mut bytes = frame.bytes.to_vec();
            let mut time = frame.time;
            change(&mut bytes, &mut time);
            flow.process_frame(&Frame { bytes: &bytes, time, ..frame });
            open.frame(&flow);
        }
        flow.finish();
        while let Some(transaction) = flow.next_transaction() {
            transaction.with_messages(|messages| {
                open.credits(&transaction, messages, &messages.summary());
                open.transaction(&transaction, &messages.summary());
            });
        }
        let [row] = &open.take_remaining(&flow)[..] else { panic!("{name}") };
        row.clone()
    }

    /// RFC 8166 section 3.3.1: the limit is that of the latest reply. The server grants 64 credits, and 16 or 32 from its
    /// reply number 200 on; 16 calls hang.
    #[test]
    fn lowered_grant_is_the_limit_if_reached() {
        const GRANTS: std::ops::Range<usize> = 62..66;
        for (lowered, grants, time) in [(16_u32, (16, 64), TimeAtLimit::Ns(15_000)), (32, (64, 64), TimeAtLimit::Never)]
        {
            let mut replies = 0;
            let row = changed_connection("cases/all-credits-hang.pcap.gz", |bytes, _| {
                // Sends of the server: its address, RC Send Only, and rdma_credit behind rdma_xid and rdma_vers.
                if bytes.len() > GRANTS.end && bytes[26..30] == [10, 0, 0, 2] && bytes[42] == 4 {
                    let granted = if replies < 200 { 64 } else { lowered };
                    bytes[GRANTS].copy_from_slice(&granted.to_be_bytes());
                    replies += 1;
                }
            });
            assert!(replies > 290, "{replies}");
            assert_eq!((row.in_use(), row.grants(), row.time_at_limit()), (Some(16), grants, time));
            assert_eq!(row.credits.map(|credits| credits.most_in_flight()), Some((16, lowered)));
        }
    }

    /// RFC 8166 section 3.3.1: a grant of 0 is not permitted; a client sends at most one call under it, and 16 hang.
    #[test]
    fn hung_calls_exceed_zero_grant() {
        let row = changed_connection("cases/all-credits-hang.pcap.gz", |bytes, _| {
            if bytes.len() > 66 && bytes[26..30] == [10, 0, 0, 2] && bytes[42] == 4 {
                bytes[62..66].fill(0);
            }
        });
        let credits = row.credits.as_ref().unwrap();
        assert_eq!((row.in_use(), credits.most_in_flight()), (Some(16), (16, 1)));
        assert!(matches!(row.time_at_limit(), TimeAtLimit::Ns(ns) if ns > 15_000), "{:?}", row.time_at_limit());
        // Since the first of the 16, 15 ms before the last.
        assert!(credits.exhausted_since < Some(Timestamp(1_003_014_999_999)), "{:?}", credits.exhausted_since);
    }

    /// RFC 8166 section 3.3.1: a call takes its credit until the reply, and its slot (RFC 8881 section 2.10.6.1), also
    /// while nothing is captured.
    #[test]
    fn ended_hang_fills_its_steps() {
        const NAME: &str = "rxe-v42-credits.pcap.gz";
        const HANG_NS: i64 = 5_000_000_000;
        // The captured state with the most calls in flight, computed from the transactions, lasts 5 s longer.
        let mut events = Vec::new();
        for transaction in crate::testing::transactions(NAME) {
            let is_counted = transaction.direction == nfsrdma_flow::transaction::CallDirection::Forward;
            if let (true, Some(call), Some(reply)) = (is_counted, &transaction.call, &transaction.reply) {
                events.extend([(call.end_time, 1), (reply.end_time, -1)]);
            }
        }
        events.sort_unstable();
        let in_flight = events.iter().scan(0, |now, (time, change)| {
            *now += change;
            Some((*now, *time))
        });
        let (most, begin) = in_flight.max_by_key(|(now, time)| (*now, std::cmp::Reverse(*time))).unwrap();
        let row = changed_connection(NAME, |_, time| {
            if *time > begin {
                time.0 += HANG_NS;
            }
        });
        let slots = row.busiest_slots().unwrap().clone();
        for series in [row.credits.unwrap(), slots] {
            let (start, width) = (series.steps.start().unwrap().0, series.steps.width() as i64);
            let within = series.steps.steps().iter().enumerate().filter(|(at, _)| {
                let from = start + *at as i64 * width;
                from > begin.0 && from + width < begin.0 + HANG_NS
            });
            let within: Vec<u32> = within.map(|(_, step)| step.in_flight).collect();
            assert!(most > 4 && within.len() > 20, "{most} {within:?}");
            assert_eq!(within, vec![most as u32; within.len()]);
        }
    }

    /// RFC 8166 section 3.3.1: each call without a reply takes a credit.
    #[test]
    fn hung_calls_use_up_credits() {
        let row = connection("cases/all-credits-hang.pcap.gz");
        // From the last call, at 3.024999 s, to the end, 15 µs later.
        assert_eq!((row.in_use(), row.grants(), row.time_at_limit()), (Some(16), (16, 16), TimeAtLimit::Ns(15_000)));
        let since = row.credits.unwrap().exhausted_since;
        assert_eq!(since.map(|since| since.to_string()), Some("1003.014999999".to_owned()));
        let row = connection("cases/server-dead.pcap");
        assert_eq!((row.in_use(), row.granted_credits(), row.state_name()), (Some(8), 8, "closed"));
        // From the last call, at 1.9 ms, to the disconnection.
        let seconds = row.at_limit_ns().unwrap() as f64 / 1e9;
        assert!((179.9..=180.1).contains(&seconds), "{seconds}");
    }
}
