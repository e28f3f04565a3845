//! Replays of traces of real captures on the mock server: without faults, and with injected faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nfsrdma_analysis::comparison::difference::DifferenceKind;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_mock_server::server::MockServer;
use nfsrdma_mock_server::server::fault_injection::{
    self, MockFaultInjector, MockFieldMutation, MockFileTreeFault, MockServerFault, MockServerFaultKind,
};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport, MockTransportFault};
use nfsrdma_replay::containment::{Containment, ContainmentCheckedRpcClient};
use nfsrdma_replay::run::tolerance_rules::file::{self, ToleranceFileRule};
use nfsrdma_replay::run::tolerance_rules::inference::infer_rules;
use nfsrdma_replay::run::{ReplayMonitor, ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::seed::file_server_client::VersionIndependentNfsClient;
use nfsrdma_replay::seed::v3::Nfs3Client;
use nfsrdma_replay::seed::v4::Nfs4Client;
use nfsrdma_replay::seed::{SeedMode, SeededTree, ServerRunDirectory, seed};
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_rpc::RpcClientTransport;
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient};

use super::auxiliary_programs;
use super::client::target;
use super::program::{Passing, compiled, program};
use crate::captures;

/// Trace of a capture, and a server with its tree.
pub(super) struct Work {
    pub(super) capture: &'static str,
    pub(super) version: u32,
    pub(super) file: Arc<[u8]>,
    pub(super) server: Mutex<MockServer>,
    pub(super) seeded: SeededTree,
}

impl Work {
    pub(super) fn of(capture: &'static str, version: u32, test: &str) -> Self {
        Self::on(MockServer::default(), capture, version, test)
    }

    /// Creates a trace with its own server.
    pub(super) fn on(server: MockServer, capture: &'static str, version: u32, test: &str) -> Self {
        let file = fs::read(&compiled(capture, test).0).unwrap();
        Self::of_trace(server, capture, version, file)
    }

    /// Finds the tree on the server once more.
    pub(super) fn seeded_again(&self) -> Self {
        let server = self.server.lock().unwrap().clone();
        Self::seeded(server, self.capture, self.version, Arc::clone(&self.file), SeedMode::Find)
    }

    /// Seeds a trace of a capture on a server.
    pub(super) fn of_trace(server: MockServer, capture: &'static str, version: u32, file: Vec<u8>) -> Self {
        Self::seeded(server, capture, version, file.into(), SeedMode::Make)
    }

    fn seeded(server: MockServer, capture: &'static str, version: u32, file: Arc<[u8]>, mode: SeedMode) -> Self {
        let server = Arc::new(Mutex::new(server));
        let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
        let target = target(20049);
        let connection = transport.connect(&target).unwrap();
        let root = server.lock().unwrap().root().to_vec();
        let line =
            RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(1), target.options.timeout);
        let mut containment = Containment::for_seeding("/", "run");
        containment.set_export_handle(&root);
        let line = ContainmentCheckedRpcClient::new(line, &mut containment);
        let mut files: Box<dyn VersionIndependentNfsClient> = match version {
            3 => Box::new(Nfs3Client::new(line, root)),
            _ => Box::new(Nfs4Client::new(line, "seed", &[2, 1, 0]).unwrap()),
        };
        let place = ServerRunDirectory { export: "/", directory: "run" };
        let mut contents = ReplayTraceReader::open(Cursor::new(Arc::clone(&file))).unwrap();
        let mut seeded = seed(&mut contents, &mut *files, &place, mode, |_, _| Ok(())).unwrap();
        seeded.record_initial_names(&mut *files).unwrap();
        files.close();
        drop(files);
        let server = Mutex::new(server.lock().unwrap().clone());
        Self { capture, version, file, server, seeded }
    }
}

/// Returns the captures of some versions.
fn works(test: &str, is_meant: impl Fn(u32) -> bool) -> Vec<Work> {
    let all = [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v42", 4), ("rxe-v41", 4)];
    let meant = all.into_iter().filter(|(_, version)| is_meant(*version));
    meant.map(|(capture, version)| Work::of(capture, version, test)).collect()
}

/// Monitor that ends a replay as soon as the server has injected a fault and the report shows it, if nothing else
/// matters. After the last step the server injects no more faults: the final check is not affected.
struct Witness<'s> {
    server: &'s Mutex<MockServer>,
    is_impatient: bool,
    is_over: bool,
}

impl ReplayMonitor for Witness<'_> {
    fn report_progress(&mut self, report: &ReplayReport, total: u64, _: Duration) {
        if let Some(injector) = &mut self.server.lock().unwrap().fault_injector {
            self.is_over |= self.is_impatient && injector.injections() > 0 && is_detected(report);
            if report.steps.total >= total {
                injector.stop();
            }
        }
    }

    fn should_stop(&self) -> bool {
        self.is_over
    }
}

/// Returns `true` if a report shows a fault of the server. Broken connections, duplicate Replies, and lost sessions are
/// recovered and counted; everything else is in the exit code.
fn is_detected(report: &ReplayReport) -> bool {
    report.is_different()
        || report.end.unreachable.is_some()
        || report.protocol.discarded_messages() + report.recovery.disconnects + report.recovery.recovered > 0
        || !report.refused.is_empty()
        || !report.protocol.own.is_empty()
}

/// Replays a trace on a server with this fault. Returns the number of injections.
fn replayed(
    work: &Work,
    injector: Option<MockFaultInjector>,
    rules: &[ToleranceFileRule],
    is_impatient: bool,
) -> (ReplayReport, u64) {
    replayed_with(work, injector, rules, is_impatient, true)
}

fn replayed_with(
    work: &Work,
    injector: Option<MockFaultInjector>,
    rules: &[ToleranceFileRule],
    is_impatient: bool,
    walk: bool,
) -> (ReplayReport, u64) {
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let mut server = work.server.lock().unwrap().clone();
    let may_be_silent = injector
        .as_ref()
        .is_some_and(|injector| matches!(injector.injected_fault().kind, MockServerFaultKind::WrongTransport(_)));
    server.fault_injector = injector;
    let server = Arc::new(Mutex::new(server));
    let programs = auxiliary_programs::serve(&server, super::proxy::injected_faults::FaultInjector::honest());
    let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
    let mut watch = Witness { server: &server, is_impatient, is_over: false };
    let (target, seeded) = (target(20049), &work.seeded);
    // On the loopback transport, a Reply comes at once or never; but on a busy machine it may take long, too.
    let timeout = if may_be_silent { Duration::from_millis(100) } else { Duration::from_secs(5) };
    let options = ReplayOptions {
        order: ReplayOrder::Serial,
        timeout,
        tag: "t".into(),
        max_shown_mismatches: 1000,
        rules: rules.to_vec(),
        checks_tree: walk,
        auxiliary_ports: auxiliary_programs::of(&programs),
        ..ReplayOptions::default()
    };
    let report = run(&mut steps, &mut contents, &mut transport, &target, seeded, &options, &mut watch).unwrap();
    let printed = server.lock().unwrap().fault_injector.as_ref().map_or(0, MockFaultInjector::injections);
    (report, printed)
}

/// Compiles the last tenths of a pcap file with little-endian headers.
fn compiled_end(capture: &str, first_tenth: usize) -> Vec<u8> {
    let file = fs::read(captures::path(capture)).unwrap();
    let (header, mut rest) = file.split_at(24);
    let mut packets = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = 16 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (packet, after) = rest.split_at(length);
        packets.push(packet);
        rest = after;
    }
    let packets = packets.split_off(packets.len() * first_tenth / 10);
    let [end, trace] = ["pcap", "trace"].map(|kind| Passing::new(&format!("end-of-{capture}.{kind}")));
    fs::write(&end.0, [header, &packets.concat()].concat()).unwrap();
    let output = program(&["replay", "compile", "-q", end.name(), "-o", trace.name()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(&trace.0).unwrap()
}

/// Captures that begin in the middle: files of an ordinary user, and links whose text is not captured.
#[test]
fn seeded_objects_have_the_captured_owners_and_link_sizes() {
    for (capture, version, first_tenth) in [("rxe-v3", 3, 7), ("rxe-v42", 4, 6)] {
        let file = compiled_end(capture, first_tenth);
        let work = Work::of_trace(MockServer::default(), capture, version, file.clone());
        assert_eq!(work.seeded.refusals, Vec::<String>::new(), "{capture}");
        let (report, _) = replayed(&work, None, &[], false);
        let fields: Vec<_> = report.steps.mismatches.iter().flat_map(|found| &found.differences).collect();
        assert!(!is_detected(&report), "{capture}: {fields:#?}");
        // A server that squashes root refuses owners.
        let mut server = MockServer::default();
        server.tree.new_object_owner = [65_534, 65_533];
        let squashed = Work::of_trace(server, capture, version, file);
        let is_owner = |refused: &&String| refused.ends_with(" objects: the export squashes root");
        // Only the capture of NFSv3 still has files of a user.
        let expected = usize::from(version == 3);
        assert_eq!(squashed.seeded.refusals.iter().filter(is_owner).count(), expected, "{capture}");
    }
}

#[test]
fn a_correct_server_causes_no_mismatch_in_twenty_runs() {
    for work in works("honest", |_| true) {
        let mut report = ReplayReport::default();
        for _ in 0..5 {
            report = replayed(&work, None, &[], false).0;
            assert!(!is_detected(&report), "{}: {:#?} {:#?}", work.capture, report.steps.mismatches, report.tree_check);
            assert!(report.is_consistent());
        }
        let walked = report.tree_check.as_ref().unwrap();
        let seen = (walked.names, walked.objects, walked.bytes, walked.left_out, walked.failed.clone());
        println!("{}: {} steps {:?}, walk {seen:?}", work.capture, report.steps.total, report.steps.states);
        assert_eq!(walked.failed, None, "{}", work.capture);
        // Most of the rest are other programs, or operations that this server does not support.
        let done = report.steps.states.replayed();
        assert!(done * 100 >= report.steps.total * 87, "{}: {:?}", work.capture, report.steps.states);
        assert!(walked.names > 300 && walked.objects > 300 && walked.bytes > 20_000, "{seen:?}");
    }
}

/// Result of an injected fault: `true` if it was detected, and `true` if the exit code shows it. `None` if it was not
/// injected.
type FaultDetection = Option<(bool, bool)>;

/// Injects each fault for one version, in one of the captures.
fn outcomes(version: u32, works: &[Work]) -> BTreeMap<String, FaultDetection> {
    let injected: Vec<MockServerFault> =
        fault_injection::all().into_iter().filter(|fault| fault.version == version).collect();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((at, fault)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    injected.get(at).map(|fault| (at, fault))
                } {
                    let outcome = run_with_fault(fault, at, works);
                    outcomes.lock().unwrap().insert(fault.to_string(), outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// Injects a fault in the first capture with an occasion for it, beginning with another one each time.
fn run_with_fault(fault: &MockServerFault, first: usize, works: &[Work]) -> FaultDetection {
    // A wrong value in a Reply does not change the files.
    let walk = !matches!(
        fault.kind,
        MockServerFaultKind::WrongResult(..)
            | MockServerFaultKind::WrongStatus(_)
            | MockServerFaultKind::Delayed
            | MockServerFaultKind::Refuses(_)
    );
    let turns = (0..works.len()).map(|turn| &works[(first + turn) % works.len()]);
    turns.into_iter().find_map(|work| {
        // A Reply that is lost once is not a fault, and the Call is retried; a server that never answers is at fault.
        let is_silent = matches!(fault.kind, MockServerFaultKind::WrongTransport(MockTransportFault::NoReply));
        let injector = MockFaultInjector::new(*fault);
        let injector = if is_silent { injector.with_repetition() } else { injector };
        let (report, printed) = replayed_with(work, Some(injector), &[], true, walk);
        (printed > 0).then(|| (is_detected(&report), report.is_different()))
    })
}

/// Faults that are not detected, and need not be.
const NOT_FOUND: &[&str] = &[
    // Of the root, whose fileid no later step has.
    "NFSv4 GETATTR: says obj_attributes.fileid one higher",
    // The recorded server was in its grace period and granted no stateid, so that no Call uses it.
    "NFSv4 LOCK: says lock_stateid.seqid one higher",
    // A second EXCHANGE_ID follows, whose clientid replaces this one (RFC 8881 section 18.35.4, case 4).
    "NFSv4 EXCHANGE_ID: says eir_clientid with another bit",
    "NFSv4 EXCHANGE_ID: says eir_sequenceid one higher",
];

/// Compares the undetected faults of one version with [`NOT_FOUND`], and returns the number of faults.
fn faults_are_detected(version: u32) {
    let works = works(&format!("faults-{version}"), |of| of == version);
    let outcomes = outcomes(version, &works);
    let not_injected: Vec<_> = outcomes.iter().filter(|(_, printed)| printed.is_none()).collect();
    assert!(not_injected.is_empty(), "no occasion: {not_injected:#?}");
    let unfound = outcomes.iter().filter(|(_, printed)| printed.is_some_and(|(is_found, _)| !is_found));
    let unfound: BTreeSet<_> = unfound.map(|(fault, _)| fault.as_str()).collect();
    let by_exit_code = outcomes.values().flatten().filter(|(_, is_different)| *is_different).count();
    let (count, unfound_count) = (outcomes.len(), unfound.len());
    println!("{count} faults injected, {by_exit_code} end a run with code 1, {unfound_count} are not detected");
    let of_version = NOT_FOUND.iter().copied().filter(|fault| fault.starts_with(&format!("NFSv{version} ")));
    assert_eq!(unfound, of_version.collect::<BTreeSet<_>>());
}

#[test]
fn faults_of_nfs_v3_are_all_detected() {
    faults_are_detected(3);
}

#[test]
fn faults_of_nfs_v4_are_detected_except_those_listed() {
    faults_are_detected(4);
}

#[test]
fn of_100_faults_99_are_detected() {
    let faults = fault_injection::all().len();
    assert!(faults > 400 && NOT_FOUND.len() * 100 <= faults, "{} of {faults} are not detected", NOT_FOUND.len());
}

/// A Reply that overlapped with a change of files may show the size before or after it, but no other size.
#[test]
fn a_size_that_no_file_had_is_found_in_overlapped_steps_too() {
    for capture in ["rxe-v42-maildir", "rxe-v42-database", "rxe-v42-conc-head"] {
        let work = Work::of(capture, 4, "sizes");
        let (report, _) = replayed_with(&work, None, &[], false, false);
        assert_eq!(report.mismatched(), 0, "{capture}: {:#?}", report.steps.mismatches);
        let what = MockServerFaultKind::WrongResult(&["obj_attributes", "size"], MockFieldMutation::More);
        let fault = MockServerFault { version: 4, operation: "GETATTR", kind: what };
        let (mut injections, mut found) = (0, 0);
        for skip in (0..90).step_by(18) {
            let injector = MockFaultInjector::new(fault).with_skips(skip);
            let (report, injected) = replayed_with(&work, Some(injector), &[], false, false);
            injections += injected;
            found += u64::from(injected > 0 && report.is_different());
        }
        assert!(injections >= 2 && found == injections, "{capture}: {found} of {injections}");
    }
}

/// A wrong effect on a file is detected only by the final check if no step reads it again.
#[test]
fn the_final_check_finds_faults_that_no_reply_reveals() {
    let works = works("walk", |_| true);
    for (version, operation, what) in [
        (3, "REMOVE", MockServerFaultKind::WrongFiles(MockFileTreeFault::Nothing)),
        (3, "RENAME", MockServerFaultKind::WrongFiles(MockFileTreeFault::KeepsNames)),
        (3, "WRITE", MockServerFaultKind::WrongArgument(&["data"], MockFieldMutation::LastFlipped)),
        (4, "WRITE", MockServerFaultKind::WrongArgument(&["data"], MockFieldMutation::LastFlipped)),
    ] {
        let fault = MockServerFault { version, operation, kind: what };
        let work = works.iter().find(|work| work.version == version).unwrap();
        // Files that are read again are detected by that.
        let alone = (0..24).find(|skip| {
            let (report, printed) = replayed(work, Some(MockFaultInjector::new(fault).with_skips(*skip)), &[], false);
            let walked = report.tree_check.as_ref().map_or(0, |walked| walked.differing);
            // The attributes of the directory show that it has not changed.
            let mut differences = report.steps.mismatches.iter().flat_map(|mismatch| &mismatch.differences);
            let is_quiet = differences.all(|difference| difference.kind == DifferenceKind::Relation);
            printed == 1 && is_quiet && walked > 0
        });
        assert!(alone.is_some(), "{fault}");
    }
}

#[test]
fn a_rule_inferred_from_two_runs_applies_in_the_third() {
    let work = Work::of("rxe-v42", 4, "teach");
    let fault = MockServerFault {
        version: 4,
        operation: "GETATTR",
        kind: MockServerFaultKind::WrongResult(&["obj_attributes", "mode"], MockFieldMutation::Flipped),
    };
    let [one, other] = [(); 2].map(|()| replayed(&work, Some(MockFaultInjector::new(fault)), &[], false).0);
    assert_eq!((one.mismatched(), other.mismatched()), (1, 1));
    let text = infer_rules("rxe-v42.trace", "the loopback transport", &[&one, &other]);
    let rules = file::parse_rules(&text).unwrap();
    let third = replayed(&work, Some(MockFaultInjector::new(fault)), &rules, false).0;
    assert_eq!(third.mismatched(), 0, "{:#?}", third.steps.mismatches);
    assert!(third.steps.rules.contains_key("learnt-1"), "{text}");
}
