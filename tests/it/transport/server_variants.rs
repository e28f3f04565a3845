//! Replays on servers that are correct, but unlike the captured one: without delegations, with confirmation of owners,
//! with smaller limits. None of that is a mismatch.

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_mock_server::server::fault_injection::{self, MockFaultInjector, MockServerFault, MockServerFaultKind};
use nfsrdma_mock_server::server::{MockDelegationPolicy, MockListingPolicy, MockServer};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport, MockTransportFault};
use nfsrdma_replay::containment::{Containment, ContainmentCheckedRpcClient};
use nfsrdma_replay::run::{ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::seed::file_server_client::{FileUserAndGroup, VersionIndependentNfsClient};
use nfsrdma_replay::seed::v3::Nfs3Client;
use nfsrdma_replay::seed::v4::Nfs4Client;
use nfsrdma_replay::seed::{SeedMode, SeededTree, ServerRunDirectory, seed};
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_rpc::RpcClientTransport;
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient};

use super::auxiliary_programs;
use super::client::target;
use super::mock_server_faults::Work;
use super::program::{Passing, program};
use super::proxy::injected_faults::FaultInjector;
use crate::captures;

/// Replays a trace on its server after a change, with these faults by the number of the Call. Returns also the server
/// after that.
pub(super) fn replayed(
    work: &Work,
    faults: impl IntoIterator<Item = (u64, MockTransportFault)>,
    change: impl FnOnce(&mut MockServer),
) -> (ReplayReport, MockServer) {
    replayed_with(work, faults, change, |_| {})
}

/// Replays a trace with other options.
fn replayed_with(
    work: &Work,
    faults: impl IntoIterator<Item = (u64, MockTransportFault)>,
    change: impl FnOnce(&mut MockServer),
    choose: impl FnOnce(&mut ReplayOptions),
) -> (ReplayReport, MockServer) {
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let mut server = work.server.lock().unwrap().clone();
    server.operation_counts.clear();
    change(&mut server);
    let server = Arc::new(Mutex::new(server));
    let programs = auxiliary_programs::serve(&server, FaultInjector::honest());
    let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
    faults.into_iter().for_each(|(after, fault)| transport.inject(after, fault));
    let beside = auxiliary_programs::of(&programs);
    let mut options = ReplayOptions {
        order: ReplayOrder::Serial,
        max_shown_mismatches: 1000,
        auxiliary_ports: beside,
        ..ReplayOptions::default()
    };
    choose(&mut options);
    let target = target(20049);
    let report = run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut ()).unwrap();
    let server = server.lock().unwrap().clone();
    (report, server)
}

/// Verifies that neither Replies nor files differ.
fn is_as_recorded(report: &ReplayReport, what: &str) {
    assert!(report.is_consistent(), "{what}");
    assert_eq!(report.protocol.own, Vec::<String>::new(), "{what}");
    assert_eq!(report.mismatched(), 0, "{what}: {:#?}", report.steps.mismatches);
    let walked = report.tree_check.as_ref().unwrap();
    assert_eq!((walked.differing, &walked.failed), (0, &None), "{what}: {:#?}", walked.mismatches);
    assert!(walked.objects > 0, "{what}");
}

fn because(report: &ReplayReport, reason: &str) -> u64 {
    let of = report.steps.reasons.iter().filter(|((_, name), _)| name.split(':').next() == Some(reason));
    of.map(|(_, because)| because.steps).sum()
}

fn count(server: &MockServer, operation: Operation) -> u64 {
    server.operation_counts.get(&operation.number().0).copied().unwrap_or(0)
}

#[test]
fn rfc8881_section_10_4_a_delegation_that_is_not_granted_is_replaced_by_an_open() {
    let work = Work::of("rxe-v42-deleg", 4, "undelegated");
    let (report, server) = replayed(&work, [], |_| {});
    is_as_recorded(&report, "rxe-v42-deleg");
    // Three files were delegated: each DELEGRETURN is a CLOSE now, which has no result to compare.
    assert_eq!(because(&report, "no-delegation"), 3, "{:#?}", report.steps.reasons);
    // Another client has appended to one of them in the capture.
    assert_eq!(
        (because(&report, "changed by another client"), report.steps.states.unreplayable),
        (1, 1),
        "{:#?}",
        report.steps.reasons
    );
    // For each file: the open of the trace, which is closed at once because the captured client had no stateid of it;
    // the one that replaces the delegation; and the one that the trace opens before it returns that.
    assert_eq!((count(&server, Operation::OPEN), count(&server, Operation::CLOSE)), (9, 9));
    assert_eq!(count(&server, Operation::DELEGRETURN), 0);
    assert_eq!(server.opens(), 0);
}

/// RFC 8881 section 10.4.6: a server revokes a delegation that is not returned, and others wait until then. The capture
/// ends before its client returns one.
#[test]
fn rfc8881_section_10_4_6_a_delegation_that_is_held_at_the_end_is_returned() {
    let [cut, trace] = ["delegated.pcap", "delegated.trace"].map(Passing::new);
    let path = captures::path("rxe-v42-deleg");
    let before_recall = ["-q", "--view", "frames", "-Y", "frame.number < 165", "-w", cut.name()];
    assert!(program(&[&before_recall[..], &[path.to_str().unwrap()]].concat()).status.success());
    assert!(program(&["replay", "compile", "-q", cut.name(), "-o", trace.name()]).status.success());
    let file = fs::read(trace.name()).unwrap();
    let work = Work::of_trace(MockServer::default(), "rxe-v42-deleg", 4, file);
    let (report, server) = replayed(&work, [], |server| server.delegations = MockDelegationPolicy::UnlessRefused);
    is_as_recorded(&report, "rxe-v42-deleg");
    // One delegation is returned by a step. The mock server grants another type than the captured one of the second
    // file, so that it is returned at once. That of the third file is held.
    assert_eq!(count(&server, Operation::DELEGRETURN), 3, "{:#?}", report.steps.reasons);
    assert_eq!((report.returned_delegations, server.delegation_count()), (2, 0));
}

/// RFC 9754 section 5: only the holder of a delegation sets the times of its file. Without one, its SETATTR has no
/// attributes left, which this server counts as a change, like nfs-ganesha. It is in no recorded Reply.
#[test]
fn rfc9754_section_5_a_setattr_without_its_times_changes_no_expectation() {
    for (capture, delegations) in [("rxe-v42-maildir", 39), ("rxe-v42-database", 20)] {
        for order in [ReplayOrder::Serial, ReplayOrder::Dependencies] {
            let work = Work::of(capture, 4, "undelegated");
            let (report, server) = replayed_with(&work, [], |_| {}, |options| options.order = order);
            is_as_recorded(&report, capture);
            assert_eq!(because(&report, "no-delegation"), delegations, "{:#?}", report.steps.reasons);
            assert_eq!((count(&server, Operation::DELEGRETURN), server.opens()), (0, 0), "{capture}");
        }
    }
}

#[test]
fn rfc7530_section_10_4_without_delegations_nfs_4_0_opens_by_name_and_confirms() {
    for confirms_owners in [false, true] {
        let work = Work::of("rxe-v40-deleg", 4, "undelegated");
        let (report, server) = replayed(&work, [], |server| server.confirms_owners = confirms_owners);
        is_as_recorded(&report, &format!("rxe-v40-deleg {confirms_owners}"));
        assert_eq!(because(&report, "no-delegation"), 2, "{:#?}", report.steps.reasons);
        assert_eq!(
            (because(&report, "changed by another client"), report.steps.states.unreplayable),
            (1, 1),
            "{:#?}",
            report.steps.reasons
        );
        // OPENs of the trace, and for each of two delegations one of a separate owner.
        let opens = count(&server, Operation::OPEN);
        assert_eq!((opens, count(&server, Operation::CLOSE)), (6, 6), "{confirms_owners}");
        // The trace confirms its owner once.
        let confirmed = count(&server, Operation::OPEN_CONFIRM);
        assert_eq!(confirmed, if confirms_owners { 3 } else { 1 });
        assert_eq!(server.opens(), 0);
    }
}

/// A connection that breaks before or after the server has executed a Call of this program changes nothing.
#[test]
fn an_open_in_the_place_of_a_delegation_survives_lost_connections_and_restarts() {
    for capture in ["rxe-v42-deleg", "rxe-v40-deleg"] {
        let work = Work::of(capture, 4, "substitutes");
        for fault in [
            MockTransportFault::BreakBefore,
            MockTransportFault::BreakAfter,
            MockTransportFault::Forget,
            MockTransportFault::Restart,
        ] {
            for at in (10..34).step_by(3) {
                // NFSv4.0 has no session with a reply cache (RFC 8881 section 2.10.6.1), and seqids then do not match.
                if capture == "rxe-v40-deleg" && fault == MockTransportFault::BreakAfter {
                    continue;
                }
                let what = format!("{capture} {fault:?} {at}");
                let (report, server) = replayed(&work, [(at, fault)], |_| {});
                assert!(report.is_consistent(), "{what}");
                assert_eq!(report.mismatched(), 0, "{what}: {:#?}", report.steps.mismatches);
                assert_eq!(report.recovery.not_reclaimed, 0, "{what}: {:#?}", report.refused);
                assert_eq!(server.opens(), 0, "{what}: {:#?}", report.steps.reasons);
            }
        }
    }
}

#[test]
fn rfc7530_section_16_18_after_a_restart_opens_are_confirmed_where_the_server_asks_for_it() {
    let work = Work::of("rxe-v40", 4, "confirms");
    let (whole, server) = replayed(&work, [], |server| server.confirms_owners = true);
    is_as_recorded(&whole, "whole");
    let confirmed = count(&server, Operation::OPEN_CONFIRM);
    for fault in [MockTransportFault::Forget, MockTransportFault::Restart] {
        for at in (20..220).step_by(31) {
            let what = format!("{fault:?} {at}");
            let (report, server) = replayed(&work, [(at, fault)], |server| server.confirms_owners = true);
            is_as_recorded(&report, &what);
            assert_eq!((report.recovery.not_reclaimed, &report.refused), (0, &Vec::new()), "{what}");
            assert!(count(&server, Operation::OPEN_CONFIRM) >= confirmed, "{what}");
        }
    }
}

/// READs and WRITEs of captures are split, in seeding, in the replay and in the check, and their results are joined.
#[test]
fn rfc1813_section_3_3_19_and_rfc8881_section_5_8_2_20_reads_and_writes_keep_to_announced_limits() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v42", 4)] {
        let whole = replayed(&Work::of(capture, version, "unlimited"), [], |_| {}).0;
        assert_eq!(because(&whole, "split"), 0, "{capture}");
        for io_bytes in if version == 3 { vec![20_000, 3_000] } else { vec![3_000] } {
            let what = format!("{capture} {io_bytes}");
            let mut server = MockServer::default();
            server.tree.io_bytes = io_bytes;
            let work = Work::on(server, capture, version, "limited");
            let (report, server) = replayed(&work, [], |_| {});
            is_as_recorded(&report, &what);
            let split = because(&report, "split");
            assert!(split > 0, "{what}: {:#?}", report.steps.reasons);
            assert!(report.calls > whole.calls + split, "{what}: {} of {}", report.calls, whole.calls);
            // Nothing else is different.
            assert_eq!(
                report.steps.states.unreplayable, whole.steps.states.unreplayable,
                "{what}: {:#?}",
                report.steps.reasons
            );
            let [before, after] =
                [&whole, &report].map(|report| report.steps.states.matched + report.steps.states.tolerated);
            assert_eq!(after + split, before, "{what}");
            assert_eq!(server.exceeded, 0, "{what}");
        }
    }
}

#[test]
fn rfc8881_section_18_36_reads_and_writes_keep_to_the_limits_of_the_session() {
    for capture in ["rxe-v41", "rxe-v42"] {
        let work = Work::of(capture, 4, "session-limits");
        let whole = replayed(&work, [], |_| {}).0;
        let (report, server) = replayed(&work, [], |server| server.session_bytes = Some(10_000));
        is_as_recorded(&report, capture);
        assert!(because(&report, "split") > 3, "{capture}: {:#?}", report.steps.reasons);
        assert_eq!(
            report.steps.states.unreplayable, whole.steps.states.unreplayable,
            "{capture}: {:#?}",
            report.steps.reasons
        );
        assert_eq!(server.exceeded, 0, "{capture}");
    }
}

/// Split Calls survive the same failures as whole ones.
#[test]
fn pieces_are_sent_again_when_their_connection_goes_away_and_after_a_restart() {
    let mut server = MockServer::default();
    server.tree.io_bytes = 8192;
    let work = Work::on(server, "rxe-v41", 4, "pieces");
    for fault in [
        MockTransportFault::BreakBefore,
        MockTransportFault::BreakAfter,
        MockTransportFault::Forget,
        MockTransportFault::ForgetSessions,
    ] {
        let faults = (0..12).map(|n| (30 + n * 23, fault));
        let (report, server) = replayed(&work, faults, |_| {});
        is_as_recorded(&report, &format!("{fault:?}"));
        assert!(because(&report, "split") + because(&report, "server-restarted") > 0, "{:#?}", report.steps.reasons);
        assert_eq!(server.exceeded, 0, "{fault:?}");
    }
}

/// A Call that cannot be split is not sent, and the steps that depend on it have the same reason.
#[test]
fn rfc8881_section_18_36_an_oversized_compound_and_its_dependents_are_not_sent() {
    let work = Work::of("rxe-v42", 4, "operations");
    // LINK alone has more than six operations, and OPEN has six.
    for (operations, least) in [(6, 1), (5, 20)] {
        let (report, server) = replayed(&work, [], |server| server.operations = Some(operations));
        assert_eq!(report.mismatched(), 0, "{operations}: {:#?}", report.steps.mismatches);
        let walked = report.tree_check.as_ref().unwrap();
        assert_eq!((walked.differing, &walked.failed), (0, &None), "{operations}: {:#?}", walked.mismatches);
        assert!(because(&report, "server-limit") >= least, "{operations}: {:#?}", report.steps.reasons);
        assert_eq!(because(&report, "no-value"), 0, "{operations}: {:#?}", report.steps.reasons);
        assert_eq!(server.exceeded, 0, "{operations}");
    }
}

/// Seeds the tree of a capture on a new server, with these faults by the number of the Call. Returns the counts, the
/// server, and the number of Calls.
fn seeded(
    work: &Work,
    minor: Option<u32>,
    faults: &[(u64, MockTransportFault)],
    server: MockServer,
) -> (SeededTree, MockServer) {
    let server = Arc::new(Mutex::new(server));
    let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
    faults.iter().for_each(|(after, fault)| transport.inject(*after, *fault));
    let target = target(20049);
    let connection = transport.connect(&target).unwrap();
    let root = server.lock().unwrap().root().to_vec();
    let line = RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(1), target.options.timeout);
    let mut containment = Containment::for_seeding("/", "run");
    containment.set_export_handle(&root);
    let line = ContainmentCheckedRpcClient::new(line.with_reconnect(&target), &mut containment);
    let mut files: Box<dyn VersionIndependentNfsClient> = match minor {
        None => Box::new(Nfs3Client::new(line, root)),
        Some(minor) => Box::new(Nfs4Client::new(line, "seed", &[minor]).unwrap()),
    };
    let mut contents = ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let place = ServerRunDirectory { export: "/", directory: "run" };
    let seeded = seed(&mut contents, &mut *files, &place, SeedMode::Make, |_, _| Ok(())).unwrap();
    files.close();
    drop(files);
    let server = server.lock().unwrap().clone();
    (seeded, server)
}

/// A Call lost on a connection that stays, a connection that breaks, a server that restarts: the tree is the same.
#[test]
fn the_tree_is_seeded_completely_despite_any_lost_call() {
    for (capture, minor) in [("rxe-v3", None), ("rxe-v40", Some(0)), ("rxe-v41", Some(1))] {
        let version = if minor.is_none() { 3 } else { 4 };
        let work = Work::of(capture, version, "seeds");
        let (whole, expected) = seeded(&work, minor, &[], MockServer::default());
        let faults = [
            MockTransportFault::NoReply,
            MockTransportFault::BreakBefore,
            MockTransportFault::BreakAfter,
            MockTransportFault::Restart,
            MockTransportFault::Forget,
            MockTransportFault::ForgetSessions,
        ];
        for fault in faults {
            for at in (0..60).step_by(13) {
                let what = format!("{capture} {fault:?} {at}");
                // An NFSv4.0 server forgets an unconfirmed client with everything else; seeding begins with that.
                let (made, server) = seeded(&work, minor, &[(at + 4, fault)], MockServer::default());
                assert!(server.has_same_files(&expected), "{what}");
                let of = |seeded: &SeededTree| seeded.handles.keys().copied().collect::<BTreeSet<_>>();
                assert_eq!(of(&made), of(&whole), "{what}");
                assert_eq!((&made.refusals, made.counts.bytes), (&Vec::new(), whole.counts.bytes), "{what}");
            }
        }
    }
}

/// siw loses the first Call of a connection: the replay and the final check resend it once.
#[test]
fn a_call_that_is_lost_on_a_connection_that_stays_is_sent_once_more() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "lost-calls");
        let calls = replayed(&work, [], |_| {}).0.calls;
        for at in [0, calls / 2, calls + 1] {
            let what = format!("{capture} {at} of {calls}");
            let timeout = Duration::from_secs(2);
            let lost = [(at, MockTransportFault::NoReply)];
            let (report, _) = replayed_with(&work, lost, |_| {}, |options| options.timeout = timeout);
            is_as_recorded(&report, &what);
            // The last Calls are those of the check, or of MOUNT.
            assert!(report.recovery.resent == 1 || at + 1 >= calls, "{what}: {:#?}", report.steps.reasons);
        }
    }
}

/// The final check continues over another connection, and as another client if the server has restarted.
#[test]
fn the_final_check_recovers_as_the_run_does() {
    for (capture, version) in [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v42", 4)] {
        let work = Work::of(capture, version, "checks");
        let calls = replayed(&work, [], |_| {}).0.calls;
        for fault in [
            MockTransportFault::BreakBefore,
            MockTransportFault::BreakAfter,
            MockTransportFault::Restart,
            MockTransportFault::Forget,
            MockTransportFault::ForgetSessions,
        ] {
            for at in if capture == "rxe-v42" { vec![calls + 12, calls + 21] } else { vec![calls + 8] } {
                let (report, _) = replayed(&work, [(at, fault)], |_| {});
                is_as_recorded(&report, &format!("{capture} {fault:?} {at} of {calls}"));
            }
        }
    }
}

/// A server that rejects a name: the steps that depend on it have the reason, and all others run.
#[test]
fn a_name_that_the_server_does_not_take_costs_its_own_steps() {
    for (capture, minor) in [("rxe-v3", None), ("rxe-v42", Some(2))] {
        let work = Work::of(capture, if minor.is_none() { 3 } else { 4 }, "names");
        let whole = replayed(&work, [], |_| {}).0;
        let mut server = MockServer::default();
        server.tree.refused_name = Some(b"tiny".into());
        let (made, server) = seeded(&work, minor, &[], server);
        let [refused] = &made.refusals[..] else { panic!("{:?}", made.refusals) };
        assert!(refused.starts_with("tiny: ") && refused.ends_with("ERR_INVAL"), "{refused}");
        assert!(!made.refused_handles.is_empty() && !made.parents_of_refused.is_empty(), "{capture}");
        let work = Work { server: Mutex::new(server), seeded: made, ..work };
        let (report, _) = replayed(&work, [], |_| {});
        let lost = because(&report, "not-seeded");
        assert!(lost > 3, "{capture}: {:#?}", report.steps.reasons);
        is_as_recorded(&report, capture);
        assert_eq!(because(&report, "no-value"), because(&whole, "no-value"), "{capture}: {:#?}", report.steps.reasons);
        assert!(
            report.steps.states.unreplayable <= whole.steps.states.unreplayable + lost,
            "{capture}: {:#?}",
            report.steps.reasons
        );
        assert!(report.refused.iter().any(|what| what.starts_with("tiny: ")), "{:?}", report.refused);
    }
}

/// A server that rejects a size: the steps on larger files have the reason, and all others run.
#[test]
fn a_size_that_the_server_does_not_take_costs_its_own_steps() {
    for (capture, minor) in [("rxe-v40-deleg", Some(0)), ("rxe-v42-deleg", Some(2))] {
        let work = Work::of(capture, 4, "sizes");
        let whole = replayed(&work, [], |_| {}).0;
        let mut server = MockServer::default();
        // Three files have 5,000 bytes, and no file is larger.
        server.tree.file_bytes = 4_999;
        let (made, mut server) = seeded(&work, minor, &[], server);
        assert_eq!(made.refusals.len(), 3, "{capture}: {:?}", made.refusals);
        let is_detected = |refused: &String| refused.contains(", 5000 bytes: ") && refused.ends_with("4ERR_FBIG");
        assert!(made.refusals.iter().all(is_detected), "{:?}", made.refusals);
        // Another test covers files that the replay itself writes.
        server.tree.file_bytes = u64::MAX;
        let work = Work { server: Mutex::new(server), seeded: made, ..work };
        let (report, _) = replayed(&work, [], |_| {});
        let lost = because(&report, "not-seeded");
        assert!(lost > 0, "{capture}: {:#?}", report.steps.reasons);
        is_as_recorded(&report, capture);
        assert_eq!(because(&report, "no-value"), because(&whole, "no-value"), "{:#?}", report.steps.reasons);
        assert!(
            report.steps.states.unreplayable <= whole.steps.states.unreplayable + lost,
            "{capture}: {:#?}",
            report.steps.reasons
        );
    }
}

#[test]
fn rfc8881_section_5_8_1_12_a_listing_with_an_entry_that_is_delayed_is_asked_for_again() {
    for capture in ["rxe-v40", "rxe-v42"] {
        let work = Work::of(capture, 4, "delayed-entries");
        let whole = replayed(&work, [], |_| {}).0;
        let (report, server) = replayed(&work, [], |server| server.delayed_entries = 4);
        is_as_recorded(&report, capture);
        assert_eq!((whole.delayed, report.delayed, server.delayed_entries), (0, 4, 0), "{capture}");
        assert!(because(&report, "delayed") >= 1, "{capture}: {:#?}", report.steps.reasons);
        // Retries after a delay error are limited.
        let (report, _) =
            replayed_with(&work, [], |server| server.delayed_entries = 1000, |options| options.max_delay_retries = 2);
        assert!(report.mismatched() > 0 && report.is_consistent(), "{capture}: {:?}", report.steps.states);
    }
}

/// XFS counted updates of the access time in the change attribute before Linux 6.13. That is tolerated by name, and no
/// other rise is.
#[test]
fn a_change_attribute_that_reads_raise_is_tolerated() {
    for capture in ["rxe-v40", "rxe-v41", "rxe-v42"] {
        let work = Work::of(capture, 4, "access-times");
        let (report, _) = replayed(&work, [], |server| server.tree.counts_reads = true);
        is_as_recorded(&report, capture);
        assert!(because(&report, "access-time") > 0, "{capture}: {:#?}", report.steps.reasons);
        let check = report.tree_check.as_ref().unwrap();
        assert_eq!((check.differing, &check.failed), (0, &None), "{capture}: {:#?}", check.mismatches);
        let (report, _) = replayed_with(
            &work,
            [],
            |server| server.tree.counts_reads = true,
            |options| options.disabled_rules = vec!["access-time"],
        );
        let is_rise = |of: &&Difference| of.path.contains("change (stays)");
        let rises = report.steps.mismatches.iter().flat_map(|of| &of.differences).filter(is_rise).count();
        assert!(rises > 0, "{capture}: {:#?}", report.steps.mismatches);
    }
}

/// A step that matches after NFS4ERR_DELAY has had its effects, and the final check covers them.
#[test]
fn the_final_check_covers_delayed_steps() {
    for capture in ["rxe-v40", "rxe-v42"] {
        let work = Work::of(capture, 4, "delayed-writes");
        let whole = replayed(&work, [], |_| {}).0;
        let covered = |report: &ReplayReport| {
            let check = report.tree_check.as_ref().unwrap();
            (check.names, check.objects, check.left_out, check.bytes, check.written_bytes)
        };
        let what = MockServerFaultKind::WrongStatus(10_008);
        for skip in 0..8 {
            let fault = MockFaultInjector::new(MockServerFault { version: 4, operation: "WRITE", kind: what });
            let fault = Some(fault.with_skips(skip));
            let (report, _) = replayed(&work, [], |server| server.fault_injector = fault);
            is_as_recorded(&report, capture);
            let is_delayed = because(&report, "delayed") == because(&whole, "delayed") + 1;
            assert!(report.delayed == 1 && is_delayed, "{capture} {skip}: {:#?}", report.steps.reasons);
            assert_eq!(covered(&report), covered(&whole), "{capture} {skip}");
        }
    }
}

/// Other rights of root say nothing about the files: the final check covers them.
#[test]
fn the_final_check_covers_files_with_other_rights() {
    let (report, _) = replayed(&Work::of("rxe-v42-krb5", 4, "other-rights"), [], |_| {});
    assert!(because(&report, "credentials") > 0, "{:#?}", report.steps.reasons);
    let check = report.tree_check.as_ref().unwrap();
    assert_eq!((check.left_out, check.differing, &check.failed), (0, 0, &None), "{:#?}", check.mismatches);
    assert!(check.names > 300, "{}", check.names);
}

/// READ_PLUS is not split: the step is unreplayable if it exceeds the limit.
#[test]
fn rfc7862_section_15_10_a_read_plus_above_the_limit_is_not_sent() {
    let mut server = MockServer::default();
    server.tree.io_bytes = 65_536;
    let work = Work::on(server, "tcp-v42", 4, "read-plus");
    let (report, _) = replayed(&work, [], |_| {});
    assert_eq!(because(&report, "server-limit"), 1, "{:#?}", report.steps.reasons);
    is_as_recorded(&report, "tcp-v42");
}

/// OPEN with CLAIM_FH names no directory: nfs-ganesha describes the file in `cinfo`, and Linux returns 0.
#[test]
fn rfc8881_section_18_16_4_change_info_of_an_open_by_filehandle_is_of_no_directory() {
    let work = Work::of("tcp-v42-ganesha", 4, "cinfo");
    let differences = |omits: bool| {
        let (report, server) = replayed(&work, [], |server| server.omits_cinfo_without_directory = omits);
        assert!(count(&server, Operation::OPEN) > 5);
        let relations = report.steps.mismatches.iter().flat_map(|step| &step.differences);
        relations.filter(|found| found.kind == DifferenceKind::Relation).count()
    };
    assert_eq!((differences(false), differences(true)), (0, 0));
}

/// Objects of root are owned by nobody: NFSv3 has numeric owners, which differ, and that is not a mismatch.
#[test]
fn owners_of_nfs_v3_are_tolerated_where_the_export_squashes_root() {
    let mut server = MockServer::default();
    server.tree.new_object_owner = [65_534, 65_533];
    let work = Work::on(server, "rxe-v3", 3, "squashed");
    let (report, _) = replayed(&work, [], |_| {});
    is_as_recorded(&report, "squashed");
    let nobody = FileUserAndGroup { user: "65534".into(), group: "65533".into() };
    assert_eq!(report.squashed, Some(nobody));
    assert!(because(&report, "owner") > 10, "{:#?}", report.steps.reasons);
    // No other user is taken for the one that root is squashed to.
    let (report, _) = replayed(&work, [], |server| server.tree.new_object_owner = [65_534, 7]);
    assert!(report.mismatched() > 0, "{:#?}", report.steps.reasons);
    // If root is not squashed, owners are compared.
    let work = Work::of("rxe-v3", 3, "root");
    let (report, _) = replayed(&work, [], |server| server.tree.new_object_owner = [65_534, 65_533]);
    assert_eq!((&report.squashed, because(&report, "owner")), (&None, 0));
    assert!(report.mismatched() > 0, "{:#?}", report.steps.reasons);
}

/// RFC 8881 section 5.1: a client could not detect changes without `change`, which is REQUIRED; `space_used` is not.
#[test]
fn rfc8881_section_5_1_a_server_without_a_required_attribute_differs() {
    use nfsrdma_dissectors::nfs::v4::Attributes;
    for (attribute, is_required) in [
        (Attributes::CHANGE, true),
        (Attributes::FSID, true),
        (Attributes::SPACE_USED, false),
        (Attributes::MOUNTED_ON_FILEID, false),
    ] {
        let mut server = MockServer::default();
        server.tree.withheld_attribute = Some(attribute);
        let (report, _) = replayed(&Work::on(server, "rxe-v41", 4, "withheld"), [], |_| {});
        assert_eq!(report.mismatched() > 0, is_required, "{attribute}: {:#?}", report.steps.reasons);
        assert!(is_required || because(&report, "attributes-offered") > 0, "{attribute}");
    }
}

/// NFSv4 has names for owners, which differ anyway; that root is squashed is said all the same.
#[test]
fn a_squashed_root_is_reported_in_nfs_v4_too() {
    let mut server = MockServer::default();
    server.tree.new_object_owner = [65_534, 65_533];
    let (report, _) = replayed(&Work::on(server, "rxe-v41", 4, "squashed"), [], |_| {});
    assert_eq!(report.squashed.as_ref().map(|owner| (&*owner.user, &*owner.group)), Some(("65534", "65533")));
    let (report, _) = replayed(&Work::of("rxe-v41", 4, "root"), [], |_| {});
    assert_eq!(report.squashed, None);
}

/// An export that refuses Calls during the replay is reported in one sentence, once.
#[test]
fn a_read_only_or_full_export_is_reported_in_one_sentence() {
    for (capture, version, operation) in [("rxe-v3", 3, "WRITE"), ("rxe-v41", 4, "WRITE"), ("rxe-v42", 4, "CREATE")] {
        for (status, expected) in [(30, "read-only file system"), (28, "no space left on device")] {
            let work = Work::of(capture, version, "refusing");
            let injector = fault_injection::MockFaultInjector::new(MockServerFault {
                version,
                operation,
                kind: MockServerFaultKind::WrongStatus(status),
            })
            .with_repetition();
            let (report, _) = replayed(&work, [], |server| server.fault_injector = Some(injector));
            let printed = report.refused.iter().filter(|what| what.starts_with(expected)).count();
            assert_eq!(printed, 1, "{capture} {operation}: {:#?}", report.refused);
            assert!(report.is_different(), "{capture} {operation}");
        }
    }
    let (honest, _) = replayed(&Work::of("rxe-v41", 4, "willing"), [], |_| {});
    assert_eq!(honest.refused, Vec::<String>::new());
}

/// RFC 8881 section 18.23.3, RFC 1813 section 3.3.16: a server may return fewer entries than fit, and the client asks
/// for the rest. A name that is missing then is a difference.
#[test]
fn listing_in_smaller_parts_is_continued() {
    let last = "\"file-with-a-longer-name-300\"";
    // Number of listings with a name that the server drops, and the first of these.
    let cases = [
        ("rxe-v3", 3, 1, last),
        ("tcp-v3", 3, 1, last),
        ("rxe-v40", 4, 1, last),
        ("rxe-v42", 4, 1, last),
        ("rxe-v42-maildir", 4, 6, "\"0000.2.client\""),
    ];
    for (capture, version, count, dropped) in cases {
        let work = Work::of(capture, version, "listings");
        for max_entries in [3, 20] {
            let (report, _) = replayed(&work, [], |server| server.listing.max_entries = max_entries);
            is_as_recorded(&report, capture);
            if version == 4 {
                // The part with the delayed entry is requested again, not a later one.
                let (report, _) = replayed(&work, [], |server| {
                    (server.listing.max_entries, server.delayed_entries) = (max_entries, 1);
                });
                is_as_recorded(&report, capture);
                assert_eq!(report.delayed, 1, "{capture}");
            }
            let (report, _) =
                replayed(&work, [], |server| server.listing = MockListingPolicy { max_entries, drops_last: true });
            let names = report.steps.mismatches.iter().flat_map(|mismatch| &mismatch.differences);
            let names: Vec<_> = names.filter(|difference| difference.kind == DifferenceKind::Name).collect();
            assert_eq!(report.mismatched(), count, "{capture}: {:#?}", report.steps.mismatches);
            let values: Vec<_> = names.iter().map(|name| (name.a.value.as_deref(), name.b.value.as_deref())).collect();
            assert_eq!(values, [(Some(dropped), None)], "{capture}");
        }
    }
}
