//! Tests of each pace against the clock.

use std::time::{Duration, Instant};

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport};
use nfsrdma_replay::run::{ReplayOptions, ReplayOrder, ReplayPace, ReplayReport, StepCounts};
use nfsrdma_rpc::{
    ConnectOptions, ConnectTarget, NegotiatedTransportParams, OutgoingRpcCall, RegisteredPayloadMemoryId,
    RpcClientConnectionCounters, RpcClientConnectionId, RpcClientTransport, RpcClientTransportError,
    RpcClientTransportEvent, SubmitError, SubmittedCallForm, TransportCredits,
};

use super::generated_traces::{Kind, Made, Planned, made};

const MILLISECOND: u64 = 1_000_000;

/// Mock server that records the submission time of each Call; Replies are delayed until the transport is polled a
/// second time without new Calls, so that Calls accumulate up to the limit.
pub(super) struct Timed {
    pub(super) inner: MockTransport,
    sent: Vec<Instant>,
    pub(super) submitted: Vec<SubmittedCallForm>,
    replied: Vec<Instant>,
    /// Number of polls with a Reply after new Calls.
    turns: u32,
    is_turn: bool,
    in_flight: usize,
    deepest: usize,
    patience: u32,
    polls: u32,
}

impl Timed {
    pub(super) fn new(made: &Made, patience: u32) -> Self {
        let inner = MockTransport::for_server(std::sync::Arc::clone(&made.server), MockConnectionSettings::default());
        Self {
            inner,
            sent: Vec::new(),
            submitted: Vec::new(),
            replied: Vec::new(),
            turns: 0,
            is_turn: false,
            in_flight: 0,
            deepest: 0,
            patience,
            polls: 0,
        }
    }
}

impl RpcClientTransport for Timed {
    fn connect(&mut self, target: &ConnectTarget) -> Result<RpcClientConnectionId, RpcClientTransportError> {
        self.inner.connect(target)
    }
    fn params(&self, connection: RpcClientConnectionId) -> Option<&NegotiatedTransportParams> {
        self.inner.params(connection)
    }
    fn credits(&self, connection: RpcClientConnectionId) -> Option<TransportCredits> {
        self.inner.credits(connection)
    }
    fn counts(&self, connection: RpcClientConnectionId) -> Option<&RpcClientConnectionCounters> {
        self.inner.counts(connection)
    }
    fn share(&mut self, memory: &std::sync::Arc<[u8]>) -> Result<RegisteredPayloadMemoryId, RpcClientTransportError> {
        self.inner.share(memory)
    }
    fn submit(
        &mut self,
        connection: RpcClientConnectionId,
        call: &OutgoingRpcCall<'_>,
    ) -> Result<SubmittedCallForm, SubmitError> {
        let submitted = self.inner.submit(connection, call)?;
        self.sent.push(Instant::now());
        self.submitted.push(submitted);
        self.in_flight += 1;
        self.is_turn = true;
        self.deepest = self.deepest.max(self.in_flight);
        self.polls = 0;
        Ok(submitted)
    }
    fn answer(&mut self, connection: RpcClientConnectionId, xid: Xid, message: &[u8]) -> Result<(), SubmitError> {
        self.inner.answer(connection, xid, message)
    }
    fn flush(&mut self) {
        self.inner.flush();
    }
    fn poll(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<RpcClientTransportEvent<'_>>, RpcClientTransportError> {
        self.polls += 1;
        if self.polls <= self.patience {
            return Ok(None);
        }
        let event = self.inner.poll(deadline)?;
        if matches!(event, Some(RpcClientTransportEvent::Reply(_))) {
            self.replied.push(Instant::now());
            self.turns += u32::from(std::mem::take(&mut self.is_turn));
            self.in_flight -= 1;
        }
        Ok(event)
    }
    fn disconnect(&mut self, connection: RpcClientConnectionId) {
        self.inner.disconnect(connection);
    }
}

#[test]
fn replies_that_came_together_are_taken_together_before_the_next_calls_go() {
    let made = planned((0..320).map(|n| (n, 1000)));
    let mut transport = Timed::new(&made, 1);
    let wish = ConnectOptions { credits: 16, ..ConnectOptions::default() };
    let report = made.run_over(&mut transport, &wish, &super::auxiliary_programs::none());
    assert_eq!(report.steps.states.matched, 320, "{report:?}");
    // The first Call goes alone, as RFC 8166 section 3.3.1 requires.
    assert!(transport.turns <= 320 / 16 + 2, "{}", transport.turns);
}

fn planned(times: impl IntoIterator<Item = (u64, u64)>) -> Made {
    made(times.into_iter().map(|(time, latency)| Planned { kind: Kind::Getattr, time, latency, client: 0 }))
}

fn run(made: &Made, patience: u32, pace: ReplayPace, order: ReplayOrder) -> (Timed, ReplayReport) {
    let mut transport = Timed::new(made, patience);
    let options = ReplayOptions { pace, order, ..super::auxiliary_programs::none() };
    let report = made.run_over(&mut transport, &ConnectOptions::default(), &options);
    assert_eq!(report.steps.states.total(), report.steps.states.matched, "all match: {report:?}");
    (transport, report)
}

/// Tolerance: a clock on a busy machine may be late, but is never early.
const EARLY: Duration = Duration::from_micros(1);
/// Maximum time between the engine's and the transport's reading of the clock.
const SLACK: Duration = Duration::from_millis(50);

/// Verifies that each Call is sent at its time after the first, or later by no more than the report says; a late Call
/// does not delay the next. The lateness on a busy machine does not matter here.
#[track_caller]
fn assert_in_time(transport: &Timed, report: &ReplayReport, intended: impl Iterator<Item = Duration>) {
    let first = transport.sent[0];
    let latest = Duration::from_nanos(report.timing.issue_delay.max_ns());
    for (sent, intended) in transport.sent.iter().zip(intended) {
        let after = *sent - first;
        // The first may itself have been late, and a histogram has two digits.
        assert!(after + latest.mul_f64(1.01) + EARLY >= intended, "{after:?} and not {intended:?}");
        assert!(after <= intended + latest.mul_f64(1.01) + SLACK, "{after:?} and not {intended:?}: {latest:?}");
    }
    assert_eq!(report.timing.issue_delay.count() as usize, transport.sent.len());
    assert!(report.timing.issue_delay.quantile_ns(0.5) <= report.timing.issue_delay.max_ns());
}

#[test]
fn at_the_captured_times_each_call_goes_at_its_time() {
    let times: Vec<u64> = (0..100).map(|n| n * 2 * MILLISECOND + (n % 7) * 100_000).collect();
    for (pace, factor) in [(ReplayPace::CapturedTimes(1.0), 1.0), (ReplayPace::CapturedTimes(4.0), 0.25)] {
        let trace = planned(times.iter().map(|time| (*time, 1000)));
        let (transport, report) = run(&trace, 0, pace, ReplayOrder::Dependencies);
        let intended = times.iter().map(|time| Duration::from_nanos((*time as f64 * factor) as u64));
        assert_in_time(&transport, &report, intended);
    }
}

#[test]
fn at_a_rate_calls_go_one_after_the_other_at_equal_times() {
    let trace = planned((0..100).map(|n| (n, 1)));
    let (transport, report) = run(&trace, 0, ReplayPace::Rate(1000.0), ReplayOrder::Dependencies);
    let first = transport.sent[0];
    for (sent, number) in transport.sent.iter().zip(0..) {
        assert!(*sent - first + EARLY >= Duration::from_millis(number));
    }
    assert_eq!(report.timing.issue_delay.count(), 99, "the first has no time");
}

#[test]
fn with_think_time_each_call_waits_as_long_as_captured() {
    // Each was answered after 100 ms, and the next sent 3 ms later.
    let trace = planned((0..20).map(|n| (n * 103 * MILLISECOND, 100 * MILLISECOND)));
    let (transport, _) = run(&trace, 0, ReplayPace::ThinkTime, ReplayOrder::Dependencies);
    for (replied, sent) in transport.replied.iter().zip(&transport.sent[1..]) {
        assert!(*sent - *replied + EARLY >= Duration::from_millis(3), "{:?}", *sent - *replied);
    }
    let took = *transport.sent.last().unwrap() - transport.sent[0];
    assert!(took < Duration::from_millis(1500), "the server answers at once, and 20 times 100 ms are spared: {took:?}");
}

#[test]
fn at_the_captured_depth_as_many_are_in_flight_as_there_were_and_no_more() {
    // Four at a time were in flight; nothing makes them wait for each other.
    let trace = planned((0..400).map(|n| (n * 10, 39)));
    let (transport, _) = run(&trace, 3, ReplayPace::CapturedDepth, ReplayOrder::Dependencies);
    assert_eq!(transport.deepest, 4);
    let (transport, _) = run(&trace, 3, ReplayPace::Immediate, ReplayOrder::Captured);
    assert_eq!(transport.deepest, 4);
    let (transport, _) = run(&trace, 3, ReplayPace::Immediate, ReplayOrder::Serial);
    assert_eq!(transport.deepest, 1);
    let (transport, _) = run(&trace, 3, ReplayPace::Immediate, ReplayOrder::Dependencies);
    assert_eq!(transport.deepest, 128, "as many as there are credits");
}

#[test]
fn reads_match_and_their_data_is_compared() {
    let kinds = [Kind::Getattr, Kind::Read(0), Kind::Read(8192)];
    let trace = made((0..300u64).map(|n| Planned {
        kind: kinds[n as usize % 3],
        time: n * 10,
        latency: 25,
        client: (n % 2) as u32,
    }));
    let report = trace.run(&super::auxiliary_programs::none());
    assert_eq!(report.steps.states, StepCounts { matched: 300, ..StepCounts::default() }, "{report:?}");
    assert_eq!((report.connections, report.compared.data_bytes), (2, 200 * 4096));
}
