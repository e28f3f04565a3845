//! Recordings of the Calls and Replies of a replay, compared with the replayed capture.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_mock_server::server::MockServer;
use nfsrdma_mock_server::server::fault_injection::{MockFaultInjector, MockServerFault, MockServerFaultKind};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport, MockTransportFault};
use nfsrdma_replay::containment::{Containment, ContainmentCheckedRpcClient};
use nfsrdma_replay::run::trace_recording::{ReplayMessageRecorder, ReplayRunTraceRecorder};
use nfsrdma_replay::run::{ReplayMonitor, ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::seed::v4::Nfs4Client;
use nfsrdma_replay::seed::{SeedMode, ServerRunDirectory, file_server_client::VersionIndependentNfsClient, seed};
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_replay::trace::file_format::TraceFileDataRetention;
use nfsrdma_rpc::RpcClientTransport;
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient};
use serde_json::Value as Json;

use super::client::target;
use super::ganesha::Ganesha;
use super::mock_server_faults::Work;
use super::program::{Passing, compiled, compiled_with, program};
use crate::captures;

/// Differences between a capture of Linux and its replay on nfs-ganesha: kind, operation, and path, with the reasons.
const EXPECTED: &[(&str, &str, &str)] = &[
    // nfs-ganesha has none of these operations (RFC 8276, RFC 7862 sections 15.2 and 15.13, RFC 8881 section 18.39).
    ("status", "SETXATTR", ""),
    ("status", "GETXATTR", ""),
    ("status", "LISTXATTRS", ""),
    ("status", "REMOVEXATTR", ""),
    ("status", "COPY", ""),
    ("status", "CLONE", ""),
    ("status", "GET_DIR_DELEGATION", ""),
    // It does not support ACLs.
    ("status", "GETACL", ""),
    ("status", "SETACL", ""),
    // The captured server was in its grace period at the first locks.
    ("status", "LOCK", ""),
    // The captured file system was full.
    ("status", "WRITE", ""),
    // Delegations that this server did not grant are not returned.
    ("missing", "DELEGRETURN", ""),
    // A directory comes in another order, and in other parts.
    ("name", "READDIR", "READDIR."),
    ("name", "READDIRPLUS", ""),
    ("order", "READDIR", ""),
    // A listing that the captured client did not end is read until it has the captured names.
    ("extra", "READDIR", ""),
    // Version 6.5 does not support READ_PLUS.
    ("status", "READ_PLUS", ""),
    // It answers READ_PLUS with an empty data segment and eof.
    ("data", "READ_PLUS", "READ_PLUS.rpr_contents"),
    // It frees the stateid of a lock with the lock.
    ("status", "FREE_STATEID", ""),
    // The server may or may not probe the callback channel on its own connection.
    ("client", "NULL", ""),
    // It has no NLM here.
    ("missing", "NLM 4 LOCK", ""),
    ("missing", "NLM 4 UNLOCK", ""),
];

/// Kinds of differences that a replay must not have.
const MUST: &str = "missing,extra,order,status,name,data,client,chunk-kind,chunk-bytes";

/// Returns the differences of two captures or traces.
fn differences(a: &str, b: &str) -> Vec<Json> {
    let output = program(&["compare", "-T", "json", "--only", MUST, a, b]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    lines.filter(|line| line["kind"] == "difference").collect()
}

fn is_expected(difference: &Json) -> bool {
    let of = |key: &str| difference[key].as_str().unwrap_or_default().to_owned();
    let (kind, operation, path) = (of("difference"), of("operation"), of("path"));
    EXPECTED.iter().any(|(what, name, at)| kind == *what && operation.ends_with(name) && path.starts_with(at))
}

/// Replays a capture, and compares the recording.
fn recorded(capture: &str, server: &str) {
    let recording = Passing::new(&format!("recorded-{capture}.trace"));
    let path = captures::path(capture);
    let file = path.to_str().unwrap();
    let output = program(&["check", "-q", "--server", server, "--record", recording.name(), file]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{capture}: {output:?}");
    let found = differences(file, recording.name());
    let others: Vec<_> = found.iter().filter(|difference| !is_expected(difference)).collect();
    assert!(others.is_empty(), "{capture}: {others:#?}");
    let kinds = found.iter().fold(BTreeMap::<String, u32>::new(), |mut kinds, difference| {
        *kinds.entry(difference["difference"].to_string()).or_default() += 1;
        kinds
    });
    assert!(found.len() <= 40, "{capture}: {kinds:?}");
    // It is an ordinary trace.
    let output = program(&["replay", "plan", "-T", "json", recording.name()]);
    let plan: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert!(plan["steps"].is_object() || plan["steps"].is_number(), "{plan:#}");
}

#[test]
fn recordings_of_nfsv4_have_no_difference_to_their_captures_but_those_of_the_server() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    for capture in ["rxe-v42", "rxe-v41", "rxe-v40", "tcp-v42"] {
        recorded(capture, &url);
    }
}

#[test]
fn recordings_of_nfsv3_have_no_difference_to_their_captures_but_those_of_the_server() {
    let Some(server) = Ganesha::start(true) else { return };
    let export = server.export();
    let url = format!("tcp://localhost:{}{}?vers=3&mountport={}", server.port, export.display(), server.mount_port);
    recorded("rxe-v3", &url);
}

/// Monitor that passes a recorder to a replay.
struct Taped(Option<Box<dyn ReplayMessageRecorder>>);

impl ReplayMonitor for Taped {
    fn report_progress(&mut self, _: &ReplayReport, _: u64, _: Duration) {}

    fn recorder(&mut self) -> Option<Box<dyn ReplayMessageRecorder>> {
        self.0.take()
    }
}

/// Replays a capture over simulated RDMA on the mock server, with the captured chunks.
fn recorded_over_rdma(capture: &str, order: ReplayOrder) -> Vec<Json> {
    let trace = compiled(capture, &format!("over-rdma-{order:?}"));
    let recording = Passing::new(&format!("over-rdma-{order:?}-{capture}-live.trace"));
    let open = || ReplayTraceReader::open(BufReader::new(File::open(&trace.0).unwrap())).unwrap();
    let (mut transport, target) = (MockTransport::new(MockConnectionSettings::default()), target(20049));
    let connection = transport.connect(&target).unwrap();
    let line =
        RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(77), Duration::from_secs(5));
    let mut containment = Containment::for_seeding("/", "run");
    let mut files =
        Nfs4Client::new(ContainmentCheckedRpcClient::new(line, &mut containment), "recordings", &[2]).unwrap();
    let place = ServerRunDirectory { export: "/", directory: "run" };
    let seeded = seed(&mut open(), &mut files, &place, SeedMode::Make, |_, _| Ok(())).unwrap();
    files.close();
    drop(files);
    let to = BufWriter::new(File::create(&recording.0).unwrap());
    let tape = ReplayRunTraceRecorder::new(to, TraceFileDataRetention::KEPT, "a run").unwrap();
    let options =
        ReplayOptions { order, captured_chunks: true, tag: "recordings".into(), ..super::auxiliary_programs::none() };
    let mut watch = Taped(Some(Box::new(tape)));
    let (mut steps, mut contents) = (open(), open());
    let report = run(&mut steps, &mut contents, &mut transport, &target, &seeded, &options, &mut watch).unwrap();
    let recorded = report.recording.unwrap().unwrap();
    assert_eq!((recorded.steps, recorded.dropped_bytes), (report.calls, 0));
    differences(captures::path(capture).to_str().unwrap(), recording.name())
}

#[test]
fn a_recording_over_rdma_has_the_chunks_of_its_capture() {
    for capture in ["rxe-v42", "rxe-v41", "rxe-v40"] {
        let found = recorded_over_rdma(capture, ReplayOrder::Serial);
        // Linux answers by a Reply chunk wherever one is offered; the mock server only if it must (RFC 8166 section
        // 3.5.1 allows both).
        let is_choice = |one: &&Json| {
            one["difference"] == "chunk-kind" && one["a"]["value"] == "RDMA_NOMSG" && one["b"]["value"] == "RDMA_MSG"
        };
        let others = found.iter().filter(|one| !is_choice(one));
        let of = |kind: &str| others.clone().filter(|one| one["difference"] == kind).collect::<Vec<_>>();
        for kind in ["chunk-kind", "chunk-bytes", "data", "order", "extra"] {
            assert!(of(kind).is_empty(), "{capture}: {kind}: {:#?}", of(kind));
        }
    }
}

/// Concurrent operations come in another order, and are still paired with those of the capture.
#[test]
fn a_recording_in_any_order_is_paired_with_its_capture() {
    for capture in ["rxe-v42", "rxe-v42-conc-head", "rxe-v40"] {
        let alone = |found: &[Json]| {
            let of = |kind: &str| found.iter().filter(|one| one["difference"] == kind).count();
            [of("missing"), of("extra"), of("data")]
        };
        let one_by_one = alone(&recorded_over_rdma(capture, ReplayOrder::Serial));
        let at_once = alone(&recorded_over_rdma(capture, ReplayOrder::Dependencies));
        assert_eq!(at_once, one_by_one, "{capture}");
        assert_eq!(at_once[1], 0, "{capture}: nothing is in the recording alone");
    }
}

#[test]
fn a_replay_of_other_work_is_distinguished_from_its_capture() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    // Data generated from a key instead of the captured data.
    let trace = Passing::new("otherwise.trace");
    let recording = Passing::new("otherwise-recorded.trace");
    let path = captures::path("rxe-v42");
    let file = path.to_str().unwrap();
    let compile = ["replay", "compile", "-q", "--data", "key", "--key", "7", file, "-o", trace.name()];
    assert!(program(&compile).status.success());
    let run = ["replay", "run", "-q", trace.name(), "--server", &url, "--record", recording.name()];
    let output = program(&run);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found = differences(file, recording.name());
    let of_data = found.iter().filter(|difference| difference["difference"] == "data").count();
    assert!(of_data > 10, "{of_data} differences of file data: {found:#?}");
    // A part of the steps only.
    let trace = compiled("rxe-v42", "part-recorded");
    let run = ["replay", "run", "-q", trace.name(), "--server", &url, "--record", recording.name()];
    let run = [&run[..], &["--filter", "nfs.opcode == \"READ\""]].concat();
    let output = program(&run);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found = differences(file, recording.name());
    assert!(found.iter().any(|difference| difference["difference"] == "missing"), "{found:#?}");
}

#[test]
fn reading_omitted_file_data_again_causes_no_mismatch() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    for keeping in ["hash", "key"] {
        let trace = compiled_with("rxe-v42", "not-kept", keeping);
        let run = ["replay", "run", trace.name(), "--server", &url, "-T", "json"];
        let report: Json = serde_json::from_slice(&program(&run).stdout).unwrap();
        assert_eq!(report["states"]["mismatched"], 0, "{keeping}: {report:#}");
    }
}

#[test]
fn a_recording_of_copies_has_the_clients_of_each_and_runs_again() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    let trace = compiled("rxe-v42", "copies-recorded");
    let recording = Passing::new("copies-recorded-recording.trace");
    let run = |trace: &str, more: &[&str]| -> Json {
        let run = ["replay", "run", "-T", "json", trace, "--server", &url];
        let output = program(&[&run[..], more].concat());
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let plan = |trace: &str| -> Json {
        let output = program(&["replay", "plan", "-T", "json", trace]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let number = |of: &Json| of.as_u64().unwrap_or_else(|| panic!("{of:#}"));
    let twice = run(trace.name(), &["--clients", "2", "--record", recording.name()]);
    let [captured, recorded] = [trace.name(), recording.name()].map(plan);
    assert_eq!(number(&recorded["steps"]["total"]), number(&twice["calls"]));
    let clients = |plan: &Json| plan["clients"].as_array().unwrap().len();
    assert_eq!(clients(&recorded), 2 * clients(&captured));
    // Steps in two directories of the capture are in one directory of the replay: values must not be shared between
    // them.
    let again = run(recording.name(), &["--directory", "again", "--allow-source-server"]);
    let good = |report: &Json| {
        ["matched", "tolerated", "substituted"].iter().map(|state| number(&report["states"][*state])).sum::<u64>()
    };
    assert_eq!(again["own_faults"].as_array().map(Vec::len), Some(0), "{again:#}");
    assert_eq!(number(&again["states"]["mismatched"]), number(&twice["states"]["mismatched"]), "{again:#}");
    assert!(good(&again) * 10 >= good(&twice) * 9, "{again:#}");
}

/// Replays with an NFSv4.2 server that omits one Reply, at the Call after `after` others.
fn with_one_reply_less(after: u64) -> ReplayReport {
    let trace = compiled("rxe-v42", &format!("one-less-{after}"));
    let open = || ReplayTraceReader::open(BufReader::new(File::open(&trace.0).unwrap())).unwrap();
    let (mut transport, target) = (MockTransport::new(MockConnectionSettings::default()), target(20049));
    let connection = transport.connect(&target).unwrap();
    let line =
        RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(77), Duration::from_secs(5));
    let mut containment = Containment::for_seeding("/", "run");
    let mut files =
        Nfs4Client::new(ContainmentCheckedRpcClient::new(line, &mut containment), "one less", &[2]).unwrap();
    let place = ServerRunDirectory { export: "/", directory: "run" };
    let seeded = seed(&mut open(), &mut files, &place, SeedMode::Make, |_, _| Ok(())).unwrap();
    files.close();
    drop(files);
    transport.inject(after, MockTransportFault::NoReply);
    let options =
        ReplayOptions { timeout: Duration::from_millis(100), checks_tree: false, ..super::auxiliary_programs::none() };
    run(&mut open(), &mut open(), &mut transport, &target, &seeded, &options, &mut ()).unwrap()
}

#[test]
fn rfc8881_section_2_10_6_1_no_slot_is_out_of_step_after_a_reply_that_did_not_come() {
    for after in [40, 80, 120] {
        let report = with_one_reply_less(after);
        assert_eq!(report.protocol.own, [""; 0], "after {after}");
        // It was retried once, on its slot.
        let given_up = report.steps.mismatches.iter().flat_map(|mismatch| &mismatch.differences);
        let given_up = given_up.filter(|one| one.b.value.as_deref().is_some_and(|what| what.contains("no reply")));
        assert_eq!((given_up.count(), report.recovery.resent), (0, 1), "after {after}: {:#?}", report.steps.mismatches);
    }
}

#[test]
fn a_recording_does_not_overwrite_the_trace_that_runs() {
    let trace = compiled("rxe-v42-conc-head", "overwrites");
    let before = std::fs::read(&trace.0).unwrap();
    let url = "tcp://127.0.0.1:1/export";
    let output = program(&["replay", "run", trace.name(), "--server", url, "--record", trace.name()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(std::fs::read(&trace.0).unwrap(), before);
}

/// A Call that changes names and that the captured server delayed was sent again by its client. It is replayed once: a
/// name cannot be created or removed twice.
#[test]
fn a_change_that_the_captured_server_delayed_is_replayed_once() {
    let mut delayed = 0;
    for (capture, version, operations) in [
        ("rxe-v41", 4, &["CREATE", "REMOVE", "RENAME", "LINK", "OPEN", "LOOKUP"][..]),
        ("rxe-v3", 3, &["MKDIR", "REMOVE", "RENAME", "LINK", "SYMLINK", "LOOKUP"][..]),
    ] {
        let work = Work::of(capture, version, "delayed");
        for (operation, skip) in operations.iter().zip([0, 1].into_iter().cycle()) {
            let fault = MockServerFault { version, operation, kind: MockServerFaultKind::Delayed };
            let mut server = work.server.lock().unwrap().clone();
            server.fault_injector = Some(MockFaultInjector::new(fault).with_skips(skip));
            let recording = Passing::new(&format!("delayed-{capture}-{operation}-{skip}.trace"));
            let report = replayed(&work, server, Some(&recording));
            let what = format!("{capture} {operation} {skip}");
            assert_eq!(report.mismatched(), 0, "{what}: {:#?}", report.steps.mismatches);
            if report.delayed == 0 {
                continue;
            }
            let file = std::fs::read(&recording.0).unwrap();
            let again = Work::of_trace(MockServer::default(), capture, version, file);
            let server = again.server.lock().unwrap().clone();
            let report = replayed(&again, server, None);
            assert_eq!(report.mismatched(), 0, "{what}: {:#?}", report.steps.mismatches);
            let walked = report.tree_check.as_ref().unwrap();
            assert_eq!((walked.differing, &walked.failed), (0, &None), "{what}: {:#?}", walked.mismatches);
            let because = report.steps.reasons.iter().filter(|((_, reason), _)| reason.starts_with("delayed"));
            assert_eq!(
                because.map(|(_, because)| because.steps).sum::<u64>(),
                1,
                "{what}: {:#?}",
                report.steps.reasons
            );
            delayed += 1;
        }
    }
    assert!(delayed >= 10, "{delayed}");
}

/// Replays a trace on a server, and records that.
fn replayed(work: &Work, server: MockServer, recording: Option<&Passing>) -> ReplayReport {
    let open = || ReplayTraceReader::open(std::io::Cursor::new(Arc::clone(&work.file))).unwrap();
    let mut transport = MockTransport::for_server(Arc::new(Mutex::new(server)), MockConnectionSettings::default());
    let tape = recording.map(|recording| {
        let to = BufWriter::new(File::create(&recording.0).unwrap());
        let tape = ReplayRunTraceRecorder::new(to, TraceFileDataRetention::KEPT, "a run").unwrap();
        Box::new(tape) as Box<dyn ReplayMessageRecorder>
    });
    let options =
        ReplayOptions { order: ReplayOrder::Serial, tag: "delayed".into(), ..super::auxiliary_programs::none() };
    let (mut steps, mut contents) = (open(), open());
    let target = target(20049);
    run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut Taped(tape)).unwrap()
}
