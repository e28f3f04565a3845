//! Final check of a replay: it reads every file, and reports if it cannot.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfsrdma_mock_server::server::MockServer;
use nfsrdma_mock_server::server::fault_injection::{
    MockFaultInjector, MockFieldMutation, MockServerFault, MockServerFaultKind,
};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport};
use nfsrdma_replay::run::tolerance_rules::file::parse_rules;
use nfsrdma_replay::run::{ReplayMonitor, ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::trace::ReplayTraceReader;

use super::client::target;
use super::mock_server_faults::Work;

/// Replays a trace on a server with these settings that may inject one fault, before the last step is complete. Returns
/// also the server after that.
fn replayed(
    work: &Work,
    settings: MockConnectionSettings,
    injector: Option<MockFaultInjector>,
) -> (ReplayReport, MockServer) {
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let mut server = work.server.lock().unwrap().clone();
    server.fault_injector = injector;
    let server = Arc::new(Mutex::new(server));
    let mut transport = MockTransport::for_server(Arc::clone(&server), settings);
    let options = ReplayOptions {
        order: ReplayOrder::Serial,
        max_shown_mismatches: 1000,
        ..super::auxiliary_programs::none()
    };
    let (target, mut watch) = (target(20049), StopAfterLastStep(&server));
    let report =
        run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut watch).unwrap();
    let server = server.lock().unwrap().clone();
    (report, server)
}

/// Server whose change attributes rise after the last step.
struct Rising<'s>(&'s Mutex<MockServer>);

impl ReplayMonitor for Rising<'_> {
    fn report_progress(&mut self, report: &ReplayReport, total: u64, _: Duration) {
        if report.steps.total >= total {
            self.0.lock().unwrap().tree.raise_change_attributes();
        }
    }
}

/// Server that injects no more faults after the last step: the final check is not affected.
struct StopAfterLastStep<'s>(&'s Mutex<MockServer>);

impl ReplayMonitor for StopAfterLastStep<'_> {
    fn report_progress(&mut self, report: &ReplayReport, total: u64, _: Duration) {
        if let Some(injector) =
            self.0.lock().unwrap().fault_injector.as_mut().filter(|_| report.steps.total >= total)
        {
            injector.stop();
        }
    }
}

/// Injects a fault at each of its occasions in a capture, one per replay. Returns the number of occasions, and those
/// not detected although a Reply had the wrong value (`is_detected`) or files differ at the end.
fn unfound(work: &Work, lie: MockServerFault, is_detected: bool) -> (usize, Vec<u64>) {
    let (mut skip, mut times, mut unfound) = (0, 0, Vec::new());
    let (_, honest) = replayed(work, MockConnectionSettings::default(), None);
    loop {
        let (report, server) = replayed(
            work,
            MockConnectionSettings::default(),
            Some(MockFaultInjector::new(lie).with_skips(skip)),
        );
        if server.fault_injector.as_ref().is_none_or(|injector| injector.injections() == 0) {
            return (times, unfound);
        }
        // Overwritten or removed data has no effect.
        if is_detected || !server.has_same_files(&honest) {
            times += 1;
            if !report.is_different() {
                unfound.push(skip);
            }
        }
        skip += 1;
    }
}

/// XFS before Linux 6.13 raises the change attribute with access times. A rule about the attribute holds in the final
/// check, too, and tolerates nothing else.
#[test]
fn a_rule_about_an_attribute_holds_in_the_final_check() {
    let work = Work::of("rxe-v41", 4, "rising");
    let aspects = |rules: &str| {
        let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
        let server = Arc::new(Mutex::new(work.server.lock().unwrap().clone()));
        let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
        let options = ReplayOptions {
            order: ReplayOrder::Serial,
            max_shown_mismatches: 1000,
            rules: parse_rules(rules).unwrap(),
            ..super::auxiliary_programs::none()
        };
        let (target, mut watch) = (target(20049), Rising(&server));
        let (seeded, mut steps, mut contents) = (&work.seeded, open(), open());
        let report =
            run(&mut steps, &mut contents, &mut transport, &target, seeded, &options, &mut watch).unwrap();
        let found = report.tree_check.unwrap().mismatches;
        let differences = found.into_iter().flat_map(|mismatch| mismatch.differences);
        differences.map(|difference| difference.path).collect::<BTreeSet<_>>()
    };
    assert_eq!(aspects(""), ["change (stays)", "time_metadata (stays)"].map(String::from).into());
    let changeid = "[xfs] raises it\nignore nfs.changeid4,nfs.changeid4.before,nfs.changeid4.after\n";
    assert_eq!(aspects(changeid), ["time_metadata (stays)"].map(String::from).into());
}

/// A server like Linux for a Call that offers both a Write chunk and a Reply chunk.
#[test]
fn no_call_of_the_check_offers_a_reply_chunk_beside_a_write_chunk() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v41", 4), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "one-kind");
        let settings =
            MockConnectionSettings { refuses_both_chunks: true, ..MockConnectionSettings::default() };
        let (report, _) = replayed(&work, settings, None);
        let walked = report.tree_check.as_ref().unwrap();
        assert_eq!((&walked.failed, walked.differing), (&None, 0), "{capture}: {:#?}", walked.mismatches);
        assert!(walked.bytes > 20_000, "{capture}: {} bytes were read", walked.bytes);
    }
}

/// The server does not support ALLOCATE, DEALLOCATE, COPY and CLONE, so that files differ from the capture. That
/// explains other bytes in the ranges of these operations, and nothing else.
#[test]
fn a_read_that_fails_or_gives_another_byte_is_found_also_of_a_file_that_an_unsupported_operation_was_for() {
    let work = Work::of("rxe-v42", 4, "touched");
    let (honest, _) = replayed(&work, MockConnectionSettings::default(), None);
    let tolerated = honest.steps.reasons.keys().filter(|(_, reason)| reason == "after-difference").count();
    assert_eq!(
        tolerated, 1,
        "no step differs because of an unsupported operation: {:#?}",
        honest.steps.reasons
    );
    // NFS4ERR_IO, NFS4ERR_NOENT.
    for status in [5, 2] {
        let (times, unfound) = unfound(
            &work,
            MockServerFault { version: 4, operation: "READ", what: MockServerFaultKind::WrongStatus(status) },
            true,
        );
        assert!(times > 7 && unfound.is_empty(), "{status}: {unfound:?} of {times}");
    }
}

/// Objects of unsupported operations are checked like all others.
#[test]
fn the_check_covers_what_was_written_also_where_an_operation_was_unsupported() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v41", 4), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "covered");
        let (report, _) = replayed(&work, MockConnectionSettings::default(), None);
        let walked = report.tree_check.as_ref().unwrap();
        let seen = (walked.names, walked.objects, walked.left_out, walked.bytes, walked.written_bytes);
        println!("{capture}: {seen:?}, {:.3}", walked.coverage());
        assert_eq!((walked.differing, &walked.failed), (0, &None), "{:#?}", walked.mismatches);
        assert!(walked.written_bytes > 20_000 && walked.coverage() > 0.97, "{capture}: {seen:?}");
    }
}

/// A READ that fails in the run is a mismatch, and its file is checked: the step has changed nothing.
#[test]
fn a_step_that_only_reads_leaves_no_file_out_of_the_check() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "only-reads");
        let (honest, _) = replayed(&work, MockConnectionSettings::default(), None);
        let fault = MockServerFault { version, operation: "READ", what: MockServerFaultKind::WrongStatus(5) };
        let (report, _) =
            replayed(&work, MockConnectionSettings::default(), Some(MockFaultInjector::new(fault)));
        assert_eq!(report.steps.states.mismatched, 1, "{capture}");
        let [honest, checked] = [&honest, &report].map(|report| report.tree_check.as_ref().unwrap());
        assert_eq!(
            (checked.bytes, checked.left_out, checked.differing, &checked.failed),
            (honest.bytes, honest.left_out, 0, &None),
            "{capture}"
        );
        assert!(checked.bytes > 20_000, "{capture}: {} bytes", checked.bytes);
    }
}

#[test]
fn every_write_that_keeps_another_byte_is_found() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "planted");
        let lie = MockServerFault {
            version,
            operation: "WRITE",
            what: MockServerFaultKind::WrongArgument("data", MockFieldMutation::LastFlipped),
        };
        let (honest, _) = replayed(&work, MockConnectionSettings::default(), None);
        // Data that exceeded the captured file system is not expected.
        let room = honest
            .steps
            .reasons
            .iter()
            .filter(|((_, reason), _)| reason == "room")
            .map(|(_, of)| of.steps)
            .sum::<u64>();
        let (times, unfound) = unfound(&work, lie, false);
        println!("{capture}: {} of {times} are not found, {room} steps had no room", unfound.len());
        assert!(times > 5 && unfound.len() as u64 <= room, "{capture}: {unfound:?} of {times}");
    }
}
