//! Session slots in use: those with a call in flight (RFC 8881 section 2.10.6.1), counted as frames arrive, so that calls
//! without a reply count.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_dissectors::nfs::v4::OperationNumber;
use nfsrdma_flow::transaction::{CallDirection, RpcMessageKind, Transaction};
use nfsrdma_flow::transaction_message_decoding::MainOperation;
use nfsrdma_flow::{Flow, FrameContentKind, TransactionSlabKey};
use rustc_hash::FxHashMap;

use super::call_session_slots::{self, CallSessionSlot, SessionId};
use super::load_over_time::CreditSeries;

/// Maximum number of slots of a session that are tracked.
const MAX_SLOTS: usize = 4_096;
/// Maximum number of calls that are tracked.
const MAX_CALLS: usize = 1 << 16;

/// Slots of a session.
#[derive(Debug, Default)]
struct SessionSlots {
    /// The latest call on each slot without a reply. The next call on a slot shows that the previous one is over, even
    /// if its reply was not captured.
    in_flight: FxHashMap<u32, TransactionSlabKey>,
    /// Number of slots that the server grants.
    limit: Option<u32>,
    /// Since when all of them are in use.
    exhausted_since: Option<Timestamp>,
    /// Time of the last call or reply.
    last_call: Timestamp,
    series: CreditSeries,
}

impl SessionSlots {
    /// Counts the calls that have been in flight since the last call or reply.
    fn hold(&mut self, now: Timestamp) {
        self.series.hold(self.in_flight.len() as u32, self.limit, self.last_call, now);
    }

    fn update_exhausted(&mut self, now: Timestamp) {
        self.last_call = now;
        let used = self.in_flight.len();
        if self.limit.is_some_and(|limit| used >= limit as usize) && used > 0 {
            self.exhausted_since.get_or_insert(now);
        } else if let Some(since) = self.exhausted_since.take() {
            self.series.at_limit(since, now);
        }
    }
}

/// Slots in use of all sessions.
#[derive(Debug)]
pub(super) struct SlotUse {
    sessions: FxHashMap<SessionId, SessionSlots>,
    calls: FxHashMap<TransactionSlabKey, CallSessionSlot>,
    /// Slots of the calls of which only a part has arrived, with the times of their first bytes; sorted by time.
    partial_calls: Vec<(CallSessionSlot, Timestamp)>,
    max_sessions: usize,
}

impl SlotUse {
    /// Creates an empty table of up to `max_sessions` sessions.
    pub(super) fn new(max_sessions: usize) -> Self {
        Self { sessions: FxHashMap::default(), calls: FxHashMap::default(), partial_calls: Vec::new(), max_sessions }
    }

    /// Counts the messages that the last frame completed.
    pub(super) fn frame(&mut self, flow: &Flow) {
        for kind in flow.frame_kinds() {
            let FrameContentKind::Message { key, which } = *kind else { continue };
            let Some(transaction) = flow.transaction(key) else { continue };
            match which {
                RpcMessageKind::Call => self.call(key, transaction),
                RpcMessageKind::Reply => self.reply(key, transaction),
            }
        }
        if self.calls.len() > MAX_CALLS {
            self.calls.retain(|key, _| flow.transaction(*key).is_some());
        }
    }

    /// Counts the calls of which a TCP stream has delivered only a part so far, instead of those counted before.
    pub(super) fn set_partial_calls(&mut self, flow: &Flow) {
        let calls = flow.partial_calls().filter(|call| call.direction == CallDirection::Forward);
        let slots = calls.filter_map(|call| {
            let transaction = &call.transaction;
            let used = transaction.with_messages(call_session_slots::slot);
            Some((used?, call.since))
        });
        self.partial_calls = slots.take(MAX_CALLS).collect();
        self.partial_calls.sort_unstable_by_key(|(_, since)| *since);
    }

    fn call(&mut self, key: TransactionSlabKey, transaction: &Transaction) {
        let Some(call) = transaction.call.as_ref().filter(|_| transaction.direction == CallDirection::Forward) else {
            return;
        };
        let used = transaction.with_messages(call_session_slots::slot);
        let Some(used) = used else { return };
        if self.sessions.len() >= self.max_sessions && !self.sessions.contains_key(&used.session) {
            return;
        }
        let session = self.sessions.entry(used.session).or_default();
        if session.in_flight.len() >= MAX_SLOTS && !session.in_flight.contains_key(&used.slot) {
            return;
        }
        session.hold(call.end_time);
        if let Some(previous) = session.in_flight.insert(used.slot, key) {
            self.calls.remove(&previous);
        }
        self.calls.insert(key, used);
        let in_flight = session.in_flight.len() as u32;
        session.series.in_flight(call.end_time, in_flight, session.limit);
        session.update_exhausted(call.end_time);
    }

    fn reply(&mut self, key: TransactionSlabKey, transaction: &Transaction) {
        let Some(reply) = &transaction.reply else { return };
        let now = reply.end_time;
        let used = self.calls.remove(&key);
        let (created, granted) = transaction.with_messages(|messages| {
            let summary = messages.summary();
            let is_creation = summary.main_operation == Some(MainOperation::Operation(OperationNumber::CREATE_SESSION));
            let created = is_creation.then(|| call_session_slots::created_session(messages)).flatten();
            (created, used.as_ref().and_then(|_| call_session_slots::granted_slots(messages)))
        });
        if let Some((id, limit)) = created
            && (self.sessions.len() < self.max_sessions || self.sessions.contains_key(&id))
        {
            let session = self.sessions.entry(id).or_default();
            session.limit = Some(limit);
            session.series.grant(now, limit);
        }
        let Some(used) = used else { return };
        let Some(session) = self.sessions.get_mut(&used.session) else { return };
        session.hold(now);
        if session.in_flight.get(&used.slot) == Some(&key) {
            session.in_flight.remove(&used.slot);
        }
        // All slots were in use until now.
        if let Some(since) = session.exhausted_since.take() {
            session.series.at_limit(since, now);
        }
        if let Some(granted) = granted {
            session.limit = Some(granted);
            session.series.grant(now, granted);
        }
        session.update_exhausted(now);
    }

    /// Returns the use of the slots of a session at `now`; `None` if no call used one.
    pub(super) fn of_session(&self, id: &SessionId, now: Timestamp) -> Option<CreditSeries> {
        let unused = SessionSlots::default();
        let session = self.sessions.get(id).unwrap_or(&unused);
        let mut series = session.series.clone();
        let mut exhausted_since = session.exhausted_since;
        let mut in_flight = session.in_flight.len() as u32;
        series.hold(in_flight, session.limit, session.last_call, now);
        let partial_calls = self.partial_calls.iter().filter(|(used, _)| used.session == *id);
        for (_, since) in partial_calls.filter(|(used, _)| !session.in_flight.contains_key(&used.slot)) {
            in_flight += 1;
            let since = session.last_call.max(*since);
            series.hold(in_flight, session.limit, since, now);
            if session.limit.is_some_and(|limit| in_flight >= limit) {
                exhausted_since.get_or_insert(since);
            }
        }
        if series.most_in_flight().0 == 0 {
            return None;
        }
        series.hold_limit(exhausted_since, exhausted_since, now);
        Some(series)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nfsrdma_capture_file::CaptureFrameSource;
    use nfsrdma_flow::FlowLimits;

    use super::*;

    fn use_of(name: &str) -> (SlotUse, Timestamp) {
        let mut source = CaptureFrameSource::open([crate::testing::path(name)]).unwrap();
        let mut flow = Flow::new(FlowLimits::default());
        let mut slots = SlotUse::new(100);
        while let Some(frame) = source.next().unwrap() {
            flow.process_frame(&frame);
            slots.frame(&flow);
        }
        (slots, flow.now())
    }

    /// Returns the largest number of calls between their call and their reply for each session, computed from the
    /// transactions.
    fn most_at_once(name: &str) -> BTreeMap<SessionId, u32> {
        let mut events: BTreeMap<SessionId, Vec<(Timestamp, i32)>> = BTreeMap::new();
        for transaction in crate::testing::transactions(name) {
            let used = transaction.with_messages(call_session_slots::slot);
            if let (Some(used), CallDirection::Forward, Some(call)) = (used, transaction.direction, &transaction.call) {
                let events = events.entry(used.session).or_default();
                events.push((call.end_time, 1));
                events.extend(transaction.reply.as_ref().map(|reply| (reply.end_time, -1)));
            }
        }
        let most = |mut events: Vec<(Timestamp, i32)>| {
            events.sort_unstable();
            let mut now = 0;
            events
                .into_iter()
                .map(|(_, change)| {
                    now += change;
                    now
                })
                .max()
                .unwrap_or(0) as u32
        };
        events.into_iter().map(|(session, events)| (session, most(events))).collect()
    }

    /// RFC 8881 section 2.10.6.1: a slot is in use from its call to the reply, whatever its number.
    #[test]
    fn slots_in_use_are_calls_in_flight() {
        for name in [
            "rxe-v42.pcap",
            "rxe-v42-deleg.pcap",
            "tcp-v42.pcap.gz",
            "siw-v42.pcap.gz",
            "cases/all-credits-hang.pcap.gz",
        ] {
            let (slots, now) = use_of(name);
            let expected = most_at_once(name);
            let found: BTreeMap<SessionId, u32> =
                expected.keys().filter_map(|id| Some((*id, slots.of_session(id, now)?.most_in_flight().0))).collect();
            assert!(!expected.is_empty(), "{name}");
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn calls_without_reply_hold_their_slots() {
        let (slots, now) = use_of("cases/all-credits-hang.pcap.gz");
        let [id] = slots.sessions.keys().copied().collect::<Vec<_>>()[..] else { panic!() };
        let later = Timestamp(now.0 + 5_000_000_000);
        let series = slots.of_session(&id, later).unwrap();
        assert_eq!((series.most_in_flight(), series.at_limit_ns()), ((16, 64), None));
        assert_eq!(series.steps.steps().last().map(|step| (step.in_flight, step.limit)), Some((16, 64)));
    }

    /// RFC 8881 section 2.10.6.1: a call that the client is still sending holds its slot.
    #[test]
    fn partial_tcp_call_holds_slot() {
        let mut source = CaptureFrameSource::open([crate::testing::path("tcp-v42.pcap.gz")]).unwrap();
        let mut flow = Flow::new(FlowLimits::default());
        let mut slots = SlotUse::new(100);
        while slots.partial_calls.is_empty() || !slots.calls.is_empty() {
            flow.process_frame(&source.next().unwrap().unwrap());
            slots.frame(&flow);
            slots.set_partial_calls(&flow);
        }
        let [(used, since)] = slots.partial_calls[..] else { panic!("{:?}", slots.partial_calls) };
        let series = slots.of_session(&used.session, Timestamp(since.0 + 5_000_000_000)).unwrap();
        let [.., before_last, last] = series.steps.steps() else { panic!() };
        assert_eq!([before_last, last].map(|step| (step.in_flight, step.limit)), [(1, 64); 2]);
        // All other calls have their replies.
        let covered_ns = |series: &CreditSeries| series.steps.width() * series.steps.steps().len() as u64;
        let others = &slots.sessions[&used.session].series;
        assert!(covered_ns(&series) >= 5_000_000_000 && covered_ns(others) < 5_000_000_000, "{}", covered_ns(others));
    }
}
