//! Captures in which another client changed files, whose Calls are not in them.

use std::fs;
use std::io::Cursor;
use std::sync::{Arc, Mutex};

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_mock_server::server::fault_injection::{MockFaultInjector, MockServerFault, MockServerFaultKind};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport};
use nfsrdma_replay::containment::{Containment, ContainmentCheckedRpcClient};
use nfsrdma_replay::run::{ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::seed::file_server_client::{FileServerClientError, VersionIndependentNfsClient};
use nfsrdma_replay::seed::v3::Nfs3Client;
use nfsrdma_replay::seed::v4::Nfs4Client;
use nfsrdma_replay::seed::{SeedMode, ServerRunDirectory, seed};
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_rpc::RpcClientTransport;
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient};
use serde_json::Value as Json;

use super::client::target;
use super::mock_server_faults::Work;
use super::program::{Passing, program};
use crate::captures;

fn replayed(work: &Work) -> ReplayReport {
    replayed_from(work, &work.file)
}

/// Replays another trace that expects the same tree.
fn replayed_from(work: &Work, file: &Arc<[u8]>) -> ReplayReport {
    replayed_with(work, file, true)
}

/// Replays another trace, with or without the final check.
fn replayed_with(work: &Work, file: &Arc<[u8]>, walk: bool) -> ReplayReport {
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let server = Arc::new(Mutex::new(work.server.lock().unwrap().clone()));
    let mut transport = MockTransport::for_server(server, MockConnectionSettings::default());
    let options = ReplayOptions {
        order: ReplayOrder::Serial,
        max_shown_mismatches: 1000,
        checks_tree: walk,
        ..super::auxiliary_programs::none()
    };
    let target = target(20049);
    run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut ()).unwrap()
}

/// A capture in which a GETATTR returns another size than its steps produce: as if another client had appended to the
/// file before.
#[test]
fn a_size_that_no_step_explains_is_unreplayable_and_no_mismatch() {
    let work = Work::of("rxe-v3", 3, "outsiders");
    let honest = replayed(&work);
    assert_eq!(because(&honest, "changed by another client"), 0);
    let mut capture = fs::read(captures::path("rxe-v3")).unwrap();
    let places = getattrs(&capture);
    let mut found = 0;
    // The first ones describe the initial state.
    for place in places.iter().rev().take(6) {
        let size = place + 48..place + 56;
        let old = u64::from_be_bytes(capture[size.clone()].try_into().unwrap());
        capture[size.clone()].copy_from_slice(&(old + 5).to_be_bytes());
        let trace = recompiled(&capture, "outsiders");
        for walk in [true, false] {
            let report = replayed_with(&work, &trace, walk);
            let is_found = because(&report, "changed by another client") > 0;
            found += u64::from(is_found);
            println!("size {old} at {place}: {:?}", report.steps.states);
            if is_found {
                assert_eq!(report.mismatched(), 0, "{:#?}", report.steps.mismatches);
                let walked = report.tree_check.as_ref().map(|walked| (walked.differing, walked.failed.clone()));
                assert_eq!(walked, walk.then_some((0, None)));
            }
        }
        capture[size].copy_from_slice(&old.to_be_bytes());
    }
    assert!(found > 0 && found % 2 == 0, "{found} none of {} GETATTR, with the check and without", places.len());
}

/// A capture in which a GETATTR returns NFS3ERR_STALE, though no step removes the file.
#[test]
fn rfc1813_section_2_6_a_file_that_no_step_removed_and_that_is_stale_is_unreplayable_and_no_mismatch() {
    let work = Work::of("rxe-v3", 3, "stale");
    let mut capture = fs::read(captures::path("rxe-v3")).unwrap();
    let places = getattrs(&capture);
    let mut found = 0;
    for place in places.iter().rev().take(4) {
        let status = place + 24..place + 28;
        let old: [u8; 4] = capture[status.clone()].try_into().unwrap();
        assert_eq!(old, [0; 4]);
        capture[status.clone()].copy_from_slice(&70u32.to_be_bytes());
        let trace = recompiled(&capture, "stale");
        for walk in [true, false] {
            let report = replayed_with(&work, &trace, walk);
            let is_found = because(&report, "changed by another client") > 0;
            found += u64::from(is_found);
            assert!(!is_found || report.mismatched() == 0, "{:#?}", report.steps.mismatches);
        }
        capture[status].copy_from_slice(&old);
    }
    assert!(found > 0 && found % 2 == 0, "{found} of {} GETATTR, with the check and without", places.len());
}

/// Returns the trace of a changed capture.
fn recompiled(capture: &[u8], test: &str) -> Arc<[u8]> {
    let (file, trace) = (Passing::new(&format!("{test}.pcap")), Passing::new(&format!("{test}.trace")));
    fs::write(&file.0, capture).unwrap();
    let output = program(&["replay", "compile", "-q", file.name(), "-o", trace.name()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(&trace.0).unwrap().into()
}

/// Returns the offsets of the Replies of GETATTR of files that are not directories.
fn getattrs(capture: &[u8]) -> Vec<usize> {
    let listed = program(&["-T", "json", "--summary", "none", captures::path("rxe-v3").to_str().unwrap()]);
    // Replies of GETATTR: XID, REPLY, MSG_ACCEPTED, a verifier of AUTH_NONE, SUCCESS, NFS3_OK, NF3REG; the size is 48
    // bytes further. The last is of a file written before.
    let xids = listed.stdout.split(|byte| *byte == b'\n').filter_map(|line| {
        let line: Json = serde_json::from_slice(line).ok()?;
        let xid = line["xid"].as_str()?.strip_prefix("0x")?;
        (line["operation"] == "GETATTR").then(|| u32::from_str_radix(xid, 16).unwrap())
    });
    let place = |xid: u32| {
        let words = [xid, 1, 0, 0, 0, 0, 0, 1];
        let pattern: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        capture.windows(pattern.len()).position(|window| window == pattern)
    };
    xids.filter_map(place).collect()
}

fn because(report: &ReplayReport, reason: &str) -> u64 {
    let of = report.steps.reasons.iter().filter(|((_, why), _)| why.starts_with(reason));
    of.map(|(_, because)| because.steps).sum()
}

/// The error of a server that refuses setup helps the administrator to fix the export.
#[test]
fn a_refusal_of_set_up_is_reported_in_a_sentence() {
    for (version, operation) in [(3, "MKDIR"), (4, "CREATE")] {
        for (status, expected) in [
            (30, "read-only file system: export it read-write"),
            (28, "no space left on device"),
            (13, "with no_root_squash"),
        ] {
            let work = Work::of(if version == 3 { "rxe-v3" } else { "rxe-v41" }, version, "refusals");
            let mut server = work.server.lock().unwrap().clone();
            server.fault_injector = Some(MockFaultInjector::new(MockServerFault {
                version,
                operation,
                kind: MockServerFaultKind::WrongStatus(status),
            }));
            let root = server.root().to_vec();
            let mut transport =
                MockTransport::for_server(Arc::new(Mutex::new(server)), MockConnectionSettings::default());
            let target = target(20049);
            let connection = transport.connect(&target).unwrap();
            let line = RpcClient::new(
                &mut transport,
                connection,
                AuthSysCredential::default(),
                Xid(99),
                target.options.timeout,
            );
            let mut containment = Containment::for_seeding("/", "other");
            containment.set_export_handle(&root);
            containment.add_client_name("refused");
            let line = ContainmentCheckedRpcClient::new(line, &mut containment);
            let mut files: Box<dyn VersionIndependentNfsClient> = match version {
                3 => Box::new(Nfs3Client::new(line, root)),
                _ => Box::new(Nfs4Client::new(line, "refused", &[1]).unwrap()),
            };
            let mut contents = ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
            let place = ServerRunDirectory { export: "/", directory: "other" };
            let error =
                seed(&mut contents, &mut *files, &place, SeedMode::Make, |_, _| Ok(())).unwrap_err().to_string();
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
            drop(files);
            if version == 4 {
                let line = RpcClient::new(
                    &mut transport,
                    connection,
                    AuthSysCredential::default(),
                    Xid(999),
                    target.options.timeout,
                );
                let mut containment = Containment::for_seeding("/no/such", "other");
                containment.add_client_name("missing");
                let mut files =
                    Nfs4Client::new(ContainmentCheckedRpcClient::new(line, &mut containment), "missing", &[1]).unwrap();
                let missing = files.export("/no/such").unwrap_err();
                assert!(matches!(missing, FileServerClientError::Refused(..)));
                assert!(missing.to_string().contains("no such file or directory: check the URL"), "{missing}");
            }
        }
    }
}
