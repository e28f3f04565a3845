//! Traces that begin in the middle of a session: what their clients had opened, and the delegations that they held.

use std::fs;

use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_mock_server::server::MockServer;
use nfsrdma_mock_server::server::fault_injection::{MockFaultInjector, MockServerFault, MockServerFaultKind};
use nfsrdma_replay::run::ReplayReport;

use super::ganesha::Ganesha;
use super::mock_server_faults::Work;
use super::program::{Passing, program};
use super::server_variants::replayed;
use crate::captures;

/// Compiles the transactions of a capture whose first packet is at or after `first`.
fn compiled_from(capture: &str, first: u32, test: &str) -> Passing {
    let trace = Passing::new(&format!("{test}-from-{first}.trace"));
    let (path, filter) = (captures::path(capture), format!("frame.number >= {first}"));
    let output = program(&["replay", "compile", "-q", "-Y", &filter, path.to_str().unwrap(), "-o", trace.name()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    trace
}

/// Compiles captures that were taken at different times, without the operations that create clients and sessions.
fn compiled_without_sessions(names: &[&str], test: &str) -> Passing {
    let trace = Passing::new(&format!("{test}.trace"));
    let paths: Vec<_> = names.iter().map(|name| captures::path(name)).collect();
    let mut line = vec!["replay", "compile", "-q", "-Y", "not (nfs.opcode in {42, 43})", "-o", trace.name()];
    line.extend(paths.iter().map(|path| path.to_str().unwrap()));
    let output = program(&line);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    trace
}

/// Returns the operations with unreplayable steps, and their number.
fn unreplayable(report: &ReplayReport) -> Vec<String> {
    let of = report.steps.operations.iter().filter(|(_, of)| of.states.unreplayable > 0);
    of.map(|(name, of)| format!("{name}: {}", of.states.unreplayable)).collect()
}

/// The database has a delegation when the trace begins. Its stateid is in most WRITEs, and in a DELEGRETURN at the end.
#[test]
fn a_delegation_from_before_the_capture_is_replaced_by_an_open() {
    let trace = compiled_from("rxe-v42-database", 90, "delegated-before");
    let plan = String::from_utf8(program(&["replay", "plan", trace.name()]).stdout).unwrap();
    assert!(plan.contains("DELEGRETURN") && !plan.contains("unreplayable"), "{plan}");
    let work = Work::of_trace(MockServer::default(), "rxe-v42-database", 4, fs::read(trace.name()).unwrap());
    let (report, server) = replayed(&work, [], |_| {});
    assert_eq!((report.mismatched(), &report.protocol.own), (0, &Vec::new()), "{:#?}", report.steps.mismatches);
    let walked = report.tree_check.as_ref().unwrap();
    assert_eq!((walked.differing, &walked.failed), (0, &None), "{:#?}", walked.mismatches);
    // The mock server has no delegations of directories.
    assert_eq!(unreplayable(&report), ["NFS 4.2 GET_DIR_DELEGATION: 1"], "{:#?}", report.steps.reasons);
    assert_eq!((report.synthesized.clients, report.synthesized.opens), (1, 1));
    assert_eq!(server.opens(), 0, "its DELEGRETURN is a CLOSE");

    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    let output = program(&["replay", "run", trace.name(), "--server", &url]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("no-value") && !text.contains("delegation-before"), "{text}");
    assert!(text.contains("  synthesized   1 client and 1 open, from before the capture\n"), "{text}");
    assert!(text.contains("(pace max)\n"), "{text}");
}

#[test]
fn the_refusal_of_an_open_from_before_the_capture_is_in_the_report_and_in_the_reasons() {
    let trace = compiled_from("rxe-v42-database", 90, "refused-before");
    let work = Work::of_trace(MockServer::default(), "rxe-v42-database", 4, fs::read(trace.name()).unwrap());
    let what = MockServerFaultKind::WrongStatus(Nfsstat4::NFS4ERR_ACCESS.0);
    let fault = MockServerFault { version: 4, operation: "OPEN", kind: what };
    let (report, _) = replayed(&work, [], |server| server.fault_injector = Some(MockFaultInjector::new(fault)));
    let refusals: Vec<_> = report.refused.iter().filter(|why| why.contains("before the capture")).collect();
    let [refusal] = refusals[..] else { panic!("{:?}", report.refused) };
    assert!(refusal.contains("OPEN: NFS4ERR_ACCESS"), "{refusal}");
    let reasons = &report.steps.reasons;
    let because = reasons.iter().find(|((_, why), _)| *why == format!("no-value: {refusal}"));
    assert!(because.is_some_and(|(_, because)| because.steps > 10), "{reasons:#?}");
    assert!(!reasons.keys().any(|(_, why)| why.contains("no reply of this run")), "{reasons:#?}");
}

/// A client mounts with two minor versions: each has its own client ID and session.
#[test]
fn a_refused_client_from_before_the_capture_costs_no_step_of_another() {
    let captures = ["rxe-v42-cb-getattr", "rxe-v41"];
    let trace = compiled_without_sessions(&captures, "client-refused-before");
    let work = Work::of_trace(MockServer::default(), "two clients", 4, fs::read(trace.name()).unwrap());
    let of = |report: &ReplayReport, version: &str| {
        let of = report.steps.operations.iter().filter(|(name, _)| name.starts_with(version));
        of.map(|(_, of)| of.states.unreplayable).sum::<u64>()
    };
    let (report, _) = replayed(&work, [], |_| {});
    assert_eq!((report.synthesized.clients, &report.refused), (2, &Vec::new()));
    // The mock server has no delegations of directories.
    assert_eq!((of(&report, "NFS 4.1"), of(&report, "NFS 4.2")), (1, 0), "{:#?}", report.steps.reasons);

    let what = MockServerFaultKind::WrongStatus(Nfsstat4::NFS4ERR_SERVERFAULT.0);
    let fault = MockServerFault { version: 4, operation: "EXCHANGE_ID", kind: what };
    let (report, _) = replayed(&work, [], |server| server.fault_injector = Some(MockFaultInjector::new(fault)));
    assert_eq!(report.synthesized.clients, 1);
    let [refusal] = &report.refused[..] else { panic!("{:?}", report.refused) };
    assert!(refusal.contains("a client from before the capture: EXCHANGE_ID: NFS4ERR_SERVERFAULT"), "{refusal}");
    assert_eq!(of(&report, "NFS 4.2"), 0, "{:#?}", report.steps.reasons);
    assert!(of(&report, "NFS 4.1") > 100, "{:#?}", report.steps.reasons);
}

/// Writes a capture without the frames before `first`.
fn begun_late(capture: &str, first: u32, test: &str) -> Passing {
    let bytes = captures::bytes(capture);
    let mut at = 24;
    for _ in 1..first {
        // Time, lengths and bytes.
        at += 16 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    let file = Passing::new(&format!("{test}.pcap"));
    fs::write(file.name(), [&bytes[..24], &bytes[at..]].concat()).unwrap();
    file
}

/// RFC 7862 section 15.11.3: where a file from before the capture has holes is unknown.
#[test]
fn holes_from_before_capture_are_not_compared() {
    let capture = begun_late("rxe-v42", 1471, "holes-before");
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    let output = program(&["check", "--server", &url, "--allow-source-server", capture.name()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let seek = text.lines().find(|line| line.starts_with("NFS 4.2 SEEK ")).unwrap();
    assert_eq!(seek.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["3", "3"], "{text}");
}
