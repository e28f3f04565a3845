//! Every replay is bounded in time: a server that does not answer, or that always returns a delay error, holds it for a
//! limited time.

use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nfsrdma_mock_server::server::fault_injection::{MockFaultInjector, MockServerFault, MockServerFaultKind};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport, MockTransportFault};
use nfsrdma_replay::run::{ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::trace::ReplayTraceReader;

use super::client::target;
use super::mock_server_faults::Work;

/// NFS4ERR_DELAY and NFS3ERR_JUKEBOX.
const DELAY: u32 = 10_008;
/// NFS4ERR_GRACE.
const GRACE: u32 = 10_013;

/// Replays a trace on a server with these faults. Returns also the duration.
fn replayed(
    work: &Work,
    lie: Option<MockServerFault>,
    faults: impl Iterator<Item = (u64, MockTransportFault)>,
    options: ReplayOptions,
) -> (ReplayReport, Duration) {
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let mut server = work.server.lock().unwrap().clone();
    server.fault_injector = lie.map(|lie| MockFaultInjector::new(lie).with_repetition());
    let mut transport = MockTransport::for_server(Arc::new(Mutex::new(server)), MockConnectionSettings::default());
    faults.for_each(|(after, fault)| transport.inject(after, fault));
    let options = ReplayOptions { order: ReplayOrder::Serial, ..options };
    let (target, begin) = (target(20049), Instant::now());
    let report = run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut ()).unwrap();
    assert!(report.is_consistent());
    (report, begin.elapsed())
}

#[test]
fn a_server_that_falls_silent_ends_the_run_after_three_timeouts_and_the_check_does_not_wait_again() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "silent");
        let options = ReplayOptions { timeout: Duration::from_secs(2), ..super::auxiliary_programs::none() };
        let (report, took) = replayed(&work, None, (100..5000).map(|at| (at, MockTransportFault::NoReply)), options);
        let why = report.end.unreachable.as_deref().unwrap();
        assert!(why.contains("no reply within 2 s, 3 times in a row"), "{why}");
        let walked = report.tree_check.as_ref().unwrap();
        assert!(walked.failed.as_ref().is_some_and(|why| why.starts_with("not started")), "{walked:?}");
        assert_eq!(walked.names, 0);
        // A Call that binds a new connection of NFSv4.1 gets no Reply, too.
        assert!(
            (1..=3).contains(&report.mismatched()) && took < Duration::from_secs(30),
            "{capture}: {took:?} {:?}",
            report.steps.states
        );
        assert!(
            report.steps.states.matched + report.steps.states.tolerated > 50 && report.steps.states.unreplayable > 90,
            "{capture}: {:?}",
            report.steps.states
        );
    }
}

#[test]
fn a_server_that_delays_or_is_in_grace_for_ever_ends_the_run() {
    for (capture, version, operation, status, name) in [
        ("rxe-v41", 4, "SEQUENCE", DELAY, "NFS4ERR_DELAY"),
        ("rxe-v40", 4, "OPEN", GRACE, "NFS4ERR_GRACE"),
        ("rxe-v3", 3, "LOOKUP", DELAY, "NFS3ERR_JUKEBOX"),
    ] {
        let work = Work::of(capture, version, "delays");
        let lie = MockServerFault { version, operation, kind: MockServerFaultKind::WrongStatus(status) };
        let options = ReplayOptions { delay_timeout: Duration::from_secs(2), ..super::auxiliary_programs::none() };
        let (report, took) = replayed(&work, Some(lie), std::iter::empty(), options);
        let why = report.end.unreachable.as_deref().unwrap_or_default();
        assert!(why.contains(name), "{capture}: {why}");
        assert!(took < Duration::from_secs(30), "{capture}: {took:?}");
        assert!(report.delayed > 0, "{capture}");
    }
}

/// Other operations continue, and the retries of a delayed one decrease.
#[test]
fn one_operation_that_is_always_delayed_costs_less_each_time() {
    let work = Work::of("rxe-v3", 3, "one-delay");
    let lie = MockServerFault { version: 3, operation: "ACCESS", kind: MockServerFaultKind::WrongStatus(DELAY) };
    let options = ReplayOptions { max_delay_retries: 4, ..super::auxiliary_programs::none() };
    let (report, took) = replayed(&work, Some(lie), std::iter::empty(), options);
    assert_eq!(report.end.unreachable, None);
    assert!(report.mismatched() > 20, "{:?}", report.steps.states);
    // 4, 2 and 1 tries, and then none.
    assert_eq!(report.delayed, 4 + 2 + 1);
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn a_run_ends_at_its_limit() {
    let work = Work::of("rxe-v41", 4, "limit");
    let lie = MockServerFault { version: 4, operation: "SEQUENCE", kind: MockServerFaultKind::WrongStatus(DELAY) };
    let limit = Duration::from_secs(1);
    let options = ReplayOptions { max_time: Some(limit), ..super::auxiliary_programs::none() };
    let (report, took) = replayed(&work, Some(lie), std::iter::empty(), options);
    assert_eq!((report.end.limit, report.end.is_interrupted), (Some(limit), true));
    assert!(took >= limit && took < Duration::from_secs(30), "{took:?}");
}
