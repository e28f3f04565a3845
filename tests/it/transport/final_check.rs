//! Final check of a replay: it reads every file, and reports if it cannot.

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nfsrdma_analysis::comparison::difference::DifferenceKind;
use nfsrdma_analysis::filter::Filter;
use nfsrdma_mock_server::server::fault_injection::{
    MockFaultInjector, MockFieldMutation, MockServerFault, MockServerFaultKind,
};
use nfsrdma_mock_server::server::{MockRefusal, MockServer};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport};
use nfsrdma_replay::run::final_tree_check::FinalTreeCheckReport;
use nfsrdma_replay::run::tolerance_rules::file::parse_rules;
use nfsrdma_replay::run::{ReplayMonitor, ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::run_plan::selected_steps::SelectedSteps;
use nfsrdma_replay::seed::SeededTree;
use nfsrdma_replay::seed::file_server_client::FileUserAndGroup;
use nfsrdma_replay::trace::ReplayTraceReader;

use super::client::target;
use super::mock_server_faults::Work;
use super::program::{Passing, program};
use crate::captures;

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
    let options =
        ReplayOptions { order: ReplayOrder::Serial, max_shown_mismatches: 1000, ..super::auxiliary_programs::none() };
    let (target, mut watch) = (target(20049), StopAfterLastStep(&server));
    let report = run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut watch).unwrap();
    let server = server.lock().unwrap().clone();
    (report, server)
}

/// Server that changes between the last step and the final check.
struct ChangingServer<'s, F>(&'s Mutex<MockServer>, F);

impl<F: FnMut(&mut MockServer)> ReplayMonitor for ChangingServer<'_, F> {
    fn report_progress(&mut self, report: &ReplayReport, total: u64, _: Duration) {
        if report.steps.total >= total {
            (self.1)(&mut self.0.lock().unwrap());
        }
    }
}

/// Replays a trace on a server that `change` changes before the final check.
fn checked_after_change(
    work: &Work,
    seeded: &SeededTree,
    options: &ReplayOptions,
    change: impl FnMut(&mut MockServer),
) -> ReplayReport {
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let server = Arc::new(Mutex::new(work.server.lock().unwrap().clone()));
    let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
    let (target, mut watch) = (target(20049), ChangingServer(&server, change));
    let (mut steps, mut contents) = (open(), open());
    run(&mut steps, &mut contents, &mut transport, &target, seeded, options, &mut watch).unwrap()
}

fn serial_options() -> ReplayOptions {
    ReplayOptions { order: ReplayOrder::Serial, max_shown_mismatches: 1000, ..super::auxiliary_programs::none() }
}

/// Injects a status in each READ of the final check.
fn refuse_reads(version: u32, status: u32) -> impl FnMut(&mut MockServer) {
    move |server| {
        let what = MockServerFaultKind::WrongStatus(status);
        let fault = MockServerFault { version, operation: "READ", kind: what };
        server.fault_injector = Some(MockFaultInjector::new(fault).with_repetition());
    }
}

/// A READ that is refused is a difference, except to the user to whom the export squashes root: then its file is not
/// checked, and its bytes count for the coverage.
#[test]
fn files_that_root_may_not_read_are_left_out_where_the_export_squashes_root() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v41", 4)] {
        let work = Work::of(capture, version, "squashed-check");
        // NFS3ERR_ACCES and NFS4ERR_ACCESS.
        let report = checked_after_change(&work, &work.seeded, &serial_options(), refuse_reads(version, 13));
        let check = report.tree_check.as_ref().unwrap();
        assert!(check.differing > 0 && report.is_different(), "{capture}: {check:?}");
        let nobody = FileUserAndGroup { user: "nobody".into(), group: "nogroup".into() };
        let seeded = SeededTree { squashed_owner: Some(nobody), ..work.seeded.clone() };
        let report = checked_after_change(&work, &seeded, &serial_options(), refuse_reads(version, 13));
        let check = report.tree_check.as_ref().unwrap();
        assert_eq!((check.differing, check.bytes), (0, 0), "{capture}: {:#?}", check.mismatches);
        assert!(check.written_bytes > 20_000 && report.shortfall(50.0).is_some(), "{capture}: {check:?}");
        // Another status is a difference there, too: NFS3ERR_IO and NFS4ERR_IO.
        let report = checked_after_change(&work, &seeded, &serial_options(), refuse_reads(version, 5));
        assert!(report.tree_check.as_ref().unwrap().differing > 0, "{capture}");
    }
}

/// A server that only asks to retry holds the check until its time limit, not for each Call.
#[test]
fn the_final_check_ends_at_its_time_limit() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v41", 4)] {
        let work = Work::of(capture, version, "limited-check");
        let options = ReplayOptions { max_time: Some(Duration::from_secs(3)), ..serial_options() };
        let begin = Instant::now();
        // NFS3ERR_JUKEBOX and NFS4ERR_DELAY.
        let report = checked_after_change(&work, &work.seeded, &options, refuse_reads(version, 10_008));
        let check = report.tree_check.as_ref().unwrap();
        assert!(check.failed.as_ref().is_some_and(|why| why.contains("time limit reached")), "{check:?}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{capture}: {:?}", begin.elapsed());
        assert!(report.shortfall(0.0).is_some(), "{capture}");
    }
}

/// A LINK that made a copy is found, although the content of both names is right.
#[test]
fn a_hard_link_that_is_a_copy_is_found() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v41", 4)] {
        let work = Work::of(capture, version, "copied-link");
        // In the whole capture, the names are removed.
        let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
        let filter = Filter::parse("nfs.procedure_v3 == \"LINK\" || nfs.opcode == \"LINK\"").unwrap();
        let selected = SelectedSteps::select(&mut open(), &mut open(), filter).unwrap();
        assert_eq!(selected.selected, 1, "{capture}");
        let options = ReplayOptions { selected_steps: Some(Rc::new(selected)), ..serial_options() };
        let report = checked_after_change(&work, &work.seeded, &options, |_| {});
        assert!(!report.is_different(), "{capture}: {:#?}", report.tree_check);
        let report = checked_after_change(&work, &work.seeded, &options, |server| {
            server.tree.separate_hard_links();
        });
        let check = report.tree_check.as_ref().unwrap();
        let paths: Vec<_> = check.mismatches.iter().flat_map(|of| &of.differences).map(|of| &of.path).collect();
        assert!(paths.iter().any(|path| *path == "fileid (one)"), "{capture}: {paths:?}");
    }
}

/// An additional name is found in each directory of the tree: in those from before the first step, in those that a step
/// has created, and where the steps name nothing.
#[test]
fn an_additional_name_is_found_in_each_directory() {
    // No step can reach the directory above a mount, or that of the objects without names.
    for (capture, version, top, out_of_reach) in [
        ("rxe-v3", 3, "tree", 1),
        ("rxe-v40", 4, "tree", 0),
        ("rxe-v42-maildir", 4, "tree", 0),
        ("siw-v42-mid", 4, "nameless", 1),
    ] {
        let work = Work::of(capture, version, "additional-name");
        // It was there before the run.
        let add = |server: &mut MockServer, name: &[u8]| server.tree.add_name_below(&[b"run", top.as_bytes()], name);
        add(&mut work.server.lock().unwrap(), b"seen before");
        let work = work.seeded_again();
        let mut count = 0;
        let report = checked_after_change(&work, &work.seeded, &serial_options(), |server| {
            if count == 0 {
                count = add(server, b"by nobody") - out_of_reach;
            }
        });
        let check = report.tree_check.as_ref().unwrap();
        let names = check.mismatches.iter().flat_map(|of| &of.differences).map(|of| of.operation.as_str());
        let found = names.filter(|path| path.ends_with("by nobody")).count();
        assert!(count > 1, "{capture}: {count} directories");
        assert_eq!(check.failed, None, "{capture}");
        assert_eq!((found, check.differing), (count, count as u64), "{capture}: {:#?}", check.mismatches);
    }
}

/// Returns the trace of the packets of a capture that a filter selects, on a server with its tree.
fn part_of(capture: &'static str, version: u32, filter: &str, test: &str) -> Work {
    let [cut, trace] = ["pcap", "trace"].map(|end| Passing::new(&format!("{test}-{capture}.{end}")));
    let path = captures::path(capture);
    let write = ["-q", "--view", "frames", "-Y", filter, "-w", cut.name(), path.to_str().unwrap()];
    assert!(program(&write).status.success());
    assert!(program(&["replay", "compile", "-q", cut.name(), "-o", trace.name()]).status.success());
    Work::of_trace(MockServer::default(), capture, version, fs::read(trace.name()).unwrap())
}

/// Returns the final check after a run in which nothing differs, and after one whose files are damaged at the end.
fn checked_and_damaged(work: &Work) -> [FinalTreeCheckReport; 2] {
    let options = serial_options();
    let whole = checked_after_change(work, &work.seeded, &options, |_| {});
    let mut damaged = 0;
    let broken = checked_after_change(work, &work.seeded, &options, |server| {
        if damaged == 0 {
            damaged = server.tree.damage_files();
        }
    });
    assert!(damaged > 0);
    [whole, broken].map(|report| report.tree_check.unwrap())
}

/// A WRITE to a filehandle whose name was not captured: its file is read by its handle.
#[test]
fn a_file_without_a_captured_name_is_checked() {
    let work = part_of("rxe-v3", 3, "frame.number >= 208 && frame.number < 482", "nameless");
    let [whole, broken] = checked_and_damaged(&work);
    assert_eq!((whole.bytes, whole.written_bytes, whole.objects), (262_144, 262_144, 1), "{whole:?}");
    assert_eq!((whole.differing, whole.coverage()), (0, 1.0), "{whole:?}");
    assert_eq!(broken.differing, 1, "{broken:?}");
    let difference = &broken.mismatches[0].differences[0];
    assert_eq!((difference.kind, difference.path.as_str()), (DifferenceKind::Data, "content at byte 0"));
}

/// Files that the steps only read: a server that damages them later is found.
#[test]
fn content_from_before_the_first_step_is_checked() {
    let work = part_of("rxe-v42-deleg", 4, "frame.number < 92", "seeded-content");
    let [whole, broken] = checked_and_damaged(&work);
    assert_eq!((whole.bytes, whole.written_bytes, whole.differing), (5000, 5000, 0), "{whole:?}");
    assert_eq!(broken.differing, 1, "{broken:?}");
}

/// Names that a correct server makes: those of a file that is removed while it is open, if the server is itself a
/// client (Linux: `.nfs` and digits), and those that each of its directories has.
#[test]
fn names_of_the_server_are_no_differences() {
    let work = Work::of("rxe-v42-maildir", 4, "server-names");
    let add = |server: &mut MockServer, name: &[u8]| server.tree.add_name_below(&[b"run"], name);
    add(&mut work.server.lock().unwrap(), b".snapshot");
    let work = work.seeded_again();
    let mut count = 0;
    let report = checked_after_change(&work, &work.seeded, &serial_options(), |server| {
        if count == 0 {
            add(server, b".snapshot");
            count = add(server, b".nfs000000000000a13200000001");
        }
    });
    let check = report.tree_check.as_ref().unwrap();
    // `run` and `nameless` are not listed.
    assert!(count > 5, "{count} directories");
    assert_eq!((check.differing, check.tolerated), (0, count as u64 - 2), "{:#?}", check.mismatches);
}

/// The capture ends in the middle of 32 concurrent processes: only the names and ranges of Calls without a recorded
/// Reply are uncertain.
#[test]
fn a_capture_that_ends_in_the_middle_leaves_most_files_to_be_checked() {
    for (capture, frames) in [("rxe-v42-credits", 2240), ("rxe-v42-database", 1430), ("rxe-v42-maildir", 1900)] {
        let work = part_of(capture, 4, &format!("frame.number < {frames}"), "ends");
        let report = checked_after_change(&work, &work.seeded, &serial_options(), |_| {});
        let check = report.tree_check.as_ref().unwrap();
        assert_eq!((report.mismatched(), check.differing, &check.failed), (0, 0, &None), "{capture}: {check:?}");
        assert!(check.coverage() > 0.9 && check.bytes > 0, "{capture}: {} {check:?}", check.coverage());
    }
}

/// Server that injects no more faults after the last step: the final check is not affected.
struct StopAfterLastStep<'s>(&'s Mutex<MockServer>);

impl ReplayMonitor for StopAfterLastStep<'_> {
    fn report_progress(&mut self, report: &ReplayReport, total: u64, _: Duration) {
        if let Some(injector) = self.0.lock().unwrap().fault_injector.as_mut().filter(|_| report.steps.total >= total) {
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
        let (report, server) =
            replayed(work, MockConnectionSettings::default(), Some(MockFaultInjector::new(lie).with_skips(skip)));
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
        let options = ReplayOptions { rules: parse_rules(rules).unwrap(), ..serial_options() };
        let report = checked_after_change(&work, &work.seeded, &options, |server| {
            server.tree.raise_change_attributes();
        });
        let check = report.tree_check.unwrap();
        let differences = check.mismatches.into_iter().flat_map(|mismatch| mismatch.differences);
        (differences.map(|difference| difference.path).collect::<BTreeSet<_>>(), check.tolerated)
    };
    let (without, tolerated) = aspects("");
    assert_eq!(without, ["change (stays)", "time_metadata (stays)"].map(String::from).into());
    assert_eq!(tolerated, 0);
    let changeid = "[xfs] raises it\nignore nfs.changeid4,nfs.changeid4.before,nfs.changeid4.after\n";
    let (with, tolerated) = aspects(changeid);
    assert_eq!(with, ["time_metadata (stays)"].map(String::from).into());
    assert!(tolerated > 0, "what a rule tolerates is counted");
}

/// A server like Linux for a Call that offers both a Write chunk and a Reply chunk.
#[test]
fn no_call_of_the_check_offers_a_reply_chunk_beside_a_write_chunk() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v41", 4), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "one-kind");
        let settings = MockConnectionSettings { refuses_both_chunks: true, ..MockConnectionSettings::default() };
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
    assert_eq!(tolerated, 1, "no step differs because of an unsupported operation: {:#?}", honest.steps.reasons);
    // NFS4ERR_IO, NFS4ERR_NOENT.
    for status in [5, 2] {
        let (times, unfound) = unfound(
            &work,
            MockServerFault { version: 4, operation: "READ", kind: MockServerFaultKind::WrongStatus(status) },
            true,
        );
        assert!(times > 7 && unfound.is_empty(), "{status}: {unfound:?} of {times}");
    }
}

/// Objects of unsupported operations are checked like all others.
#[test]
fn the_check_covers_written_data_of_unsupported_operations() {
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
        let fault = MockServerFault { version, operation: "READ", kind: MockServerFaultKind::WrongStatus(5) };
        let (report, _) = replayed(&work, MockConnectionSettings::default(), Some(MockFaultInjector::new(fault)));
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
            kind: MockServerFaultKind::WrongArgument(&["data"], MockFieldMutation::LastFlipped),
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

/// An owner of NFSv4 that nobody has changed, and that is another one at the end.
#[test]
fn another_owner_is_found_without_a_change_of_times() {
    for (capture, version) in [("rxe-v40", 4), ("rxe-v41", 4)] {
        let work = Work::of(capture, version, "other-owner");
        {
            // A name whose encoding is padded.
            let tree = &mut work.server.lock().unwrap().tree;
            tree.change_owners([65_534; 2]);
            tree.new_object_owner = [65_534; 2];
        }
        let report = checked_after_change(&work, &work.seeded, &serial_options(), |_| {});
        assert_eq!(report.tree_check.as_ref().map(|check| check.differing), Some(0), "{:#?}", report.tree_check);
        let report = checked_after_change(&work, &work.seeded, &serial_options(), |server| {
            server.tree.change_owners([7, 7]);
        });
        let check = report.tree_check.as_ref().unwrap();
        let paths: BTreeSet<_> =
            check.mismatches.iter().flat_map(|of| &of.differences).map(|of| of.path.as_str()).collect();
        assert_eq!(paths, ["group (stays)", "owner (stays)"].into(), "{capture}: {:#?}", check.mismatches);
        // Files whose last operation is CLOSE, after the last reply with their owners, and one whose owners were set.
        let found: BTreeSet<_> = check.mismatches.iter().map(|of| of.operation.as_str()).collect();
        for file in ["s8k", "s64k", "s256k", "sparse"] {
            assert!(found.iter().any(|path| path.ends_with(&format!("/{file}"))), "{capture}: {file} of {found:#?}");
        }
    }
}

/// A WRITE that failed for lack of space in the capture succeeds here. In a capture from the middle, it also has a
/// substitute for its session, which must not hide that.
#[test]
fn a_write_that_lacked_space_in_the_capture_leaves_no_difference() {
    for capture in ["rxe-v42", "rxe-v42-mid", "siw-v42-mid"] {
        let work = Work::of(capture, 4, "lacked-space");
        let (report, _) = replayed(&work, MockConnectionSettings::default(), None);
        let check = report.tree_check.as_ref().unwrap();
        assert!(report.steps.reasons.keys().any(|(_, reason)| reason == "room"), "{capture}");
        assert_eq!((check.differing, &check.failed), (0, &None), "{capture}: {:#?}", check.mismatches);
    }
}

/// A directory of the tree that the server does not accept (MKDIR: RFC 1813 section 3.3.9; CREATE: RFC 8881 section
/// 18.4): what the capture has below it cannot be checked, which the coverage shows. No step finds the directory.
#[test]
fn names_below_a_refused_directory_count() {
    // The directories of the run precede: `run`, `tree`, `nameless`, and `export` of MOUNT.
    for (capture, version, operation, skip) in
        [("rxe-v3", 3, "MKDIR", 4), ("rxe-v40", 4, "CREATE", 3), ("rxe-v42", 4, "CREATE", 3)]
    {
        let accepted = Work::of(capture, version, "accepted-directory");
        let (honest, _) = replayed(&accepted, MockConnectionSettings::default(), None);
        let honest = honest.tree_check.unwrap();
        assert_eq!((honest.left_out, honest.coverage()), (0, 1.0), "{capture}");
        for (skip, name, least) in [(skip, "data", 630), (skip + 1, "many300", 602)] {
            // NFS3ERR_NAMETOOLONG, NFS4ERR_NAMETOOLONG.
            let mut server = MockServer::default();
            server.refusal = Some(MockRefusal::once(operation, 63, skip));
            let work = Work::on(server, capture, version, "refused-directory");
            let [counts, all] = [&work, &accepted].map(|work| work.seeded.counts);
            assert_eq!(counts.objects + counts.left_out, all.objects + all.left_out, "{capture} {name}");
            assert!(counts.left_out > 300, "{capture} {name}: {counts:?}");
            let (report, _) = replayed(&work, MockConnectionSettings::default(), None);
            let check = report.tree_check.as_ref().unwrap();
            assert_eq!((check.differing, &check.failed), (0, &None), "{capture} {name}: {:#?}", check.mismatches);
            assert!(check.left_out >= least, "{capture} {name}: {check:?}");
            let total = |check: &FinalTreeCheckReport| check.names + check.objects + check.left_out;
            assert!(total(check) >= total(&honest), "{capture} {name}: {check:?}");
            assert!(check.coverage() < 0.06, "{capture} {name}: {check:?}");
            assert_eq!(check.left_out_paths[0], name, "{capture}");
            let is_below = |path: &String| path.starts_with(&format!("{name}/"));
            assert!(check.left_out_paths[1..].iter().any(is_below), "{capture}: {:?}", check.left_out_paths);
            let is_lookup_tolerated = |(_, reason): &&(_, String)| version == 3 && reason == "after-difference";
            assert_eq!(report.steps.reasons.keys().find(is_lookup_tolerated), None, "{capture} {name}");
        }
    }
}
