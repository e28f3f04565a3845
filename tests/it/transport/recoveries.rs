//! Connections that go away while a trace runs, over the server inside the program: what was in flight is sent again.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use nfsrdma_inspect::replay::run::{Options, Order, Report, run};
use nfsrdma_inspect::replay::trace::Trace;
use nfsrdma_inspect::replay::transport::loopback::{Fault, Loopback, Settings};

use super::client::target;
use super::liars::Work;

/// Runs a trace with these faults, by the number of the Call.
fn replayed(work: &Work, faults: impl IntoIterator<Item = (u64, Fault)>) -> Report {
    let open = || Trace::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let server = Arc::new(Mutex::new(work.server.lock().unwrap().clone()));
    let mut transport = Loopback::to(server, Settings::default());
    faults.into_iter().for_each(|(after, fault)| transport.inject(after, fault));
    let options = Options { order: Order::Conservative, shown: 1000, walk: false, ..Options::default() };
    let target = target(20049);
    run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut ()).unwrap()
}

fn because(report: &Report, reason: &str) -> u64 {
    report.reasons.iter().filter(|((_, name), _)| name == reason).map(|(_, because)| because.steps).sum()
}

/// Every seventh Call, but those at the beginning.
fn breaks(fault: Fault) -> impl Iterator<Item = (u64, Fault)> {
    (0..40).map(move |n| (5 + n * 7, fault))
}

#[test]
fn rfc8881_section_2_10_6_2_calls_of_a_lost_connection_are_sent_again_and_done_once() {
    let work = Work::of("rxe-v41", 4, "again");
    let whole = replayed(&work, []);
    assert_eq!((whole.reconnects, whole.resent, whole.mismatched()), (0, 0, 0));
    for fault in [Fault::BreakBefore, Fault::BreakAfter] {
        let report = replayed(&work, breaks(fault));
        assert!(report.is_sound());
        assert_eq!(report.steps, whole.steps);
        assert_eq!(report.own_faults, Vec::<String>::new(), "{fault:?}");
        assert_eq!(report.mismatched(), 0, "{fault:?}: {:#?}", report.mismatches);
        assert_eq!((report.disconnects, report.reconnects), (40, 40), "{fault:?}");
        let told = because(&report, "sent-again") + because(&report, "reply-unknown");
        assert!(told > 30, "{fault:?}: {:#?}", report.reasons);
        // One that the server has not may be one of which the answer is not known.
        assert!(report.states[5] <= whole.states[5], "{fault:?}: {:#?}", report.reasons);
    }
}

#[test]
fn rfc8881_section_18_34_the_backchannel_is_bound_to_the_new_connection() {
    let work = Work::of("rxe-v41", 4, "bound");
    let report = replayed(&work, breaks(Fault::BreakBefore));
    assert!(report.rebound >= 30, "{} of {}", report.rebound, report.reconnects);
    assert_eq!(report.refused, Vec::<String>::new());
}

#[test]
fn a_server_that_always_closes_ends_the_run_in_order() {
    let work = Work::of("rxe-v41", 4, "closes");
    let report = replayed(&work, (0..100_000).map(|n| (n, Fault::BreakBefore)));
    assert!(report.resent <= 12, "{} were sent again", report.resent);
    assert!(report.is_sound());
    assert_eq!(report.states[0] + report.states[1], 0, "{:?}", report.states);
    assert!(report.mismatched() > 0);
}
