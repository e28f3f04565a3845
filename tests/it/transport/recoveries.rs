//! Lost connections and server restarts during a replay on the mock server: pending Calls are resent, and the state of
//! clients is reclaimed.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_mock_server::server::{MockDelegationPolicy, MockRefusal, MockServer};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport, MockTransportFault};
use nfsrdma_replay::run::{ReplayMonitor, ReplayOptions, ReplayOrder, ReplayPace, ReplayReport, run};
use nfsrdma_replay::seed::SeededTree;
use nfsrdma_replay::trace::ReplayTraceReader;

use super::client::target;
use super::mock_server_faults::Work;
use crate::captures::{self, Temporary};
use crate::second_count;

/// Operations that are not idempotent.
const ONCE: [Operation; 11] = [
    Operation::OPEN,
    Operation::CLOSE,
    Operation::OPEN_DOWNGRADE,
    Operation::LOCK,
    Operation::LOCKU,
    Operation::CREATE,
    Operation::LINK,
    Operation::REMOVE,
    Operation::RENAME,
    Operation::SETATTR,
    Operation::CREATE_SESSION,
];

/// Replays a trace with these faults, by the number of the Call, on a server changed before.
fn replayed_on(
    work: &Work,
    faults: impl IntoIterator<Item = (u64, MockTransportFault)>,
    change: impl FnOnce(&mut MockServer),
) -> (ReplayReport, BTreeMap<u32, u64>) {
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let mut server = work.server.lock().unwrap().clone();
    server.operation_counts.clear();
    change(&mut server);
    let server = Arc::new(Mutex::new(server));
    let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
    faults.into_iter().for_each(|(after, fault)| transport.inject(after, fault));
    let options =
        ReplayOptions { order: ReplayOrder::Serial, max_shown_mismatches: 1000, ..super::auxiliary_programs::none() };
    let target = target(20049);
    let report = run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut ()).unwrap();
    let begun = server.lock().unwrap().operation_counts.clone();
    (report, begun)
}

fn replayed(work: &Work, faults: impl IntoIterator<Item = (u64, MockTransportFault)>) -> ReplayReport {
    replayed_on(work, faults, |_| {}).0
}

fn because(report: &ReplayReport, reason: &str) -> u64 {
    let of = report.steps.reasons.iter().filter(|((_, name), _)| name.split(':').next() == Some(reason));
    of.map(|(_, because)| because.steps).sum()
}

/// Returns `times` faults, at every seventh Call, but not at the first ones.
fn breaks(times: u64, fault: MockTransportFault) -> impl Iterator<Item = (u64, MockTransportFault)> {
    (0..times).map(move |n| (5 + n * 7, fault))
}

/// Verifies that neither Replies nor files differ, and that nothing was executed twice.
fn is_as_recorded(report: &ReplayReport, what: &str) {
    assert!(report.is_consistent(), "{what}");
    assert_eq!(report.protocol.own, Vec::<String>::new(), "{what}");
    assert_eq!(report.mismatched(), 0, "{what}: {:#?}", report.steps.mismatches);
    let walked = report.tree_check.as_ref().unwrap();
    assert_eq!((walked.differing, &walked.failed), (0, &None), "{what}: {:#?}", walked.mismatches);
    assert!(walked.objects > 0, "{what}");
}

#[test]
fn rfc8881_section_2_10_6_2_calls_of_a_lost_connection_are_sent_again_and_done_once() {
    let work = Work::of("rxe-v41", 4, "again");
    let (whole, begun) = replayed_on(&work, [], |_| {});
    is_as_recorded(&whole, "whole");
    assert_eq!((whole.recovery.reconnects, whole.recovery.resent), (0, 0));
    for fault in [MockTransportFault::BreakBefore, MockTransportFault::BreakAfter] {
        let (report, again) = replayed_on(&work, breaks(40, fault), |_| {});
        is_as_recorded(&report, &format!("{fault:?}"));
        assert_eq!(report.steps.total, whole.steps.total);
        assert_eq!((report.recovery.disconnects, report.recovery.reconnects), (40, 40), "{fault:?}");
        let printed = because(&report, "sent-again") + because(&report, "reply-unknown");
        assert!(printed > 30, "{fault:?}: {:#?}", report.steps.reasons);
        assert!(report.recovery.resent >= printed, "{fault:?}: {} of {printed}", report.recovery.resent);
        for operation in ONCE {
            assert_eq!(again.get(&operation.number().0), begun.get(&operation.number().0), "{fault:?}: {operation}");
        }
        // An unsupported operation may be one whose Reply is unknown.
        assert!(
            report.steps.states.unreplayable <= whole.steps.states.unreplayable,
            "{fault:?}: {:#?}",
            report.steps.reasons
        );
    }
}

#[test]
fn rfc7530_section_9_1_7_calls_of_nfs_4_0_and_3_are_sent_again_with_their_xid_and_reported() {
    for (capture, version) in [("rxe-v40", 4), ("rxe-v3", 3)] {
        let work = Work::of(capture, version, "again-before");
        let report = replayed(&work, breaks(20, MockTransportFault::BreakBefore));
        is_as_recorded(&report, capture);
        assert_eq!((report.recovery.disconnects, report.recovery.reconnects), (20, 20), "{capture}");
        let printed = because(&report, "sent-again");
        assert!(printed >= 15 && report.recovery.resent >= printed, "{capture}: {printed} {:#?}", report.steps.reasons);
    }
}

#[test]
fn rfc8881_section_18_34_the_backchannel_is_bound_to_the_new_connection() {
    let work = Work::of("rxe-v41", 4, "bound");
    let report = replayed(&work, breaks(40, MockTransportFault::BreakBefore));
    assert!(report.recovery.rebound >= 30, "{} of {}", report.recovery.rebound, report.recovery.reconnects);
    assert_eq!(report.refused, Vec::<String>::new());
}

#[test]
fn rfc8881_section_2_10_3_1_a_connection_that_is_not_bound_is_bound_before_the_call_is_sent_again() {
    let work = Work::of("rxe-v41", 4, "unbound");
    let faults = breaks(40, MockTransportFault::BreakBefore);
    let (report, _) = replayed_on(&work, faults, |server| server.requires_bound_connections = true);
    is_as_recorded(&report, "unbound");
    assert_eq!(report.refused, Vec::<String>::new());
    assert_eq!(because(&report, "sent-again") + because(&report, "reply-unknown"), 40);
    assert!(report.recovery.rebound >= 30, "{:?}", report.recovery);
    let faults = breaks(40, MockTransportFault::ForgetBindings);
    let (report, _) = replayed_on(&work, faults, |server| server.requires_bound_connections = true);
    is_as_recorded(&report, "forgotten");
    let bound = because(&report, "connection-bound");
    assert_eq!(report.recovery.reconnects, 0);
    // RFC 8881 section 15.1.11.6: only clients with state protection may get it.
    assert!(!report.protocol.violations.is_empty() && report.is_different());
    assert!(bound >= 30 && report.recovery.rebound >= bound, "{bound} {:?}", report.recovery);
}

/// RFC 8881 section 18.37.3: DESTROY_SESSION without SEQUENCE is sent on a connection of the session.
#[test]
fn unbound_destroy_session_is_no_violation() {
    const CONN_NOT_BOUND_TO_SESSION: u32 = 10_055;
    let work = Work::of("rxe-v41", 4, "unbound-destruction");
    for (operation, skip, is_violation) in [("DESTROY_SESSION", 0, false), ("SEQUENCE", 40, true)] {
        let refusal = MockRefusal::once(operation, CONN_NOT_BOUND_TO_SESSION, skip);
        let (report, _) = replayed_on(&work, [], |server| server.refusal = Some(refusal));
        assert_eq!(because(&report, "connection-bound"), 1, "{operation}");
        assert_eq!(!report.protocol.violations.is_empty(), is_violation, "{operation}: {:?}", report.protocol);
    }
}

#[test]
fn a_server_that_always_closes_ends_the_run_in_order() {
    let work = Work::of("rxe-v41", 4, "closes");
    let report = replayed(&work, (0..100_000).map(|n| (n, MockTransportFault::BreakBefore)));
    assert!(report.recovery.resent <= 12, "{} were sent again", report.recovery.resent);
    assert!(report.is_consistent());
    assert_eq!(report.steps.states.matched + report.steps.states.tolerated, 0, "{:?}", report.steps.states);
    assert!(report.mismatched() > 0);
}

/// RFC 5531 section 9.
#[test]
fn the_report_has_the_auth_stat_of_a_call_that_is_denied() {
    let work = Work::of("rxe-v41", 4, "denied");
    let report = replayed(&work, (100..300).map(|at| (at, MockTransportFault::Denied)));
    let differences = report.steps.mismatches.iter().flat_map(|step| &step.differences);
    let denied: Vec<_> = differences
        .filter(|difference| difference.field == "rpc.state_auth")
        .map(|difference| difference.b.value.as_deref())
        .collect();
    assert!(!denied.is_empty() && denied.iter().all(|stat| *stat == Some("AUTH_TOOWEAK")), "{denied:?}");
}

/// Returns the Calls at which a server restarts: enough to have opens and locks at some of them.
fn restarts(fault: MockTransportFault) -> impl Iterator<Item = (u64, MockTransportFault)> {
    [9, 41, 62, 83, 104, 125, 146, 167, 188, 209, 230, 251].into_iter().map(move |at| (at, fault))
}

#[test]
fn rfc8881_section_8_4_2_after_a_restart_clients_sessions_opens_and_locks_are_recovered() {
    for capture in ["rxe-v41", "rxe-v42"] {
        let work = Work::of(capture, 4, "restarts");
        for fault in [MockTransportFault::Forget, MockTransportFault::Restart] {
            let report = replayed(&work, restarts(fault));
            is_as_recorded(&report, &format!("{capture} {fault:?}"));
            assert_eq!(report.refused, Vec::<String>::new(), "{capture} {fault:?}");
            assert!(report.recovery.recovered >= 10, "{capture} {fault:?}: {}", report.recovery.recovered);
            assert!(report.recovery.reclaimed > 0 && report.recovery.not_reclaimed == 0, "{capture} {fault:?}");
            assert!(because(&report, "server-restarted") >= 10, "{capture}: {:#?}", report.steps.reasons);
        }
    }
}

/// A server may grant delegations that the capture does not have, and no step returns them: with an OPEN, with the OPEN
/// that reclaims one (Linux 7.2), or for a directory. While a client holds one, DESTROY_CLIENTID fails (RFC 8881
/// section 18.50.3).
#[test]
fn rfc8881_section_10_4_delegations_that_the_capture_does_not_have_are_returned() {
    for (delegations, is_returned) in
        [(MockDelegationPolicy::UnlessRefused, false), (MockDelegationPolicy::Always, true)]
    {
        for capture in ["rxe-v41", "rxe-v42"] {
            let work = Work::of(capture, 4, "delegations");
            // A server that forgets sessions alone still knows the delegations.
            for (count, fault) in [
                (0, MockTransportFault::Forget),
                (12, MockTransportFault::Forget),
                (12, MockTransportFault::ForgetSessions),
            ] {
                let what = format!("{capture} {delegations:?}, {count} times {fault:?}");
                let faults = restarts(fault).take(count);
                let (report, _) = replayed_on(&work, faults, |server| server.delegations = delegations);
                is_as_recorded(&report, &what);
                assert_eq!(report.refused, Vec::<String>::new(), "{what}");
                let busy = report.steps.reasons.keys().filter(|(_, reason)| reason.contains("BUSY")).count();
                assert_eq!(busy, 0, "{what}: {:#?}", report.steps.reasons);
                assert!(!is_returned || report.returned_delegations > 10, "{what}: {}", report.returned_delegations);
            }
        }
    }
}

#[test]
fn rfc7530_section_9_6_2_after_a_restart_nfs_4_0_reclaims_under_the_owners_next_seqids() {
    let work = Work::of("rxe-v40", 4, "restarts");
    for fault in [MockTransportFault::Forget, MockTransportFault::Restart] {
        let report = replayed(&work, restarts(fault));
        is_as_recorded(&report, &format!("{fault:?}"));
        assert_eq!(report.refused, Vec::<String>::new(), "{fault:?}");
        assert!(
            report.recovery.recovered >= 8 && report.recovery.reclaimed > 0,
            "{fault:?}: {}",
            report.recovery.recovered
        );
        assert!(because(&report, "server-restarted") >= 8, "{:#?}", report.steps.reasons);
    }
}

/// RFC 7530 section 9.1.7: NFS4ERR_GRACE advances the seqids of both owners of a LOCK. A server that advances only one
/// is wrong when it answers NFS4ERR_BAD_SEQID to the next, and grants the LOCK with the seqid that it expects.
#[test]
fn rfc7530_section_9_1_7_bad_seqid_after_grace_is_violation() {
    let work = Work::of("rxe-v40", 4, "grace");
    for (forgets_lock_owner, count) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
        // The first LOCK that the captured server granted.
        let refusal = MockRefusal { forgets_lock_owner, count, ..MockRefusal::once("LOCK", 10_013, 6) };
        let (report, _) = replayed_on(&work, [], |server| server.refusal = Some(refusal));
        assert_eq!(report.protocol.own, Vec::<String>::new());
        assert!(report.delayed >= count, "{}", report.delayed);
        let violations: Vec<_> =
            report.protocol.violations.iter().map(|(text, count)| (text.as_str(), *count)).collect();
        let expected = "NFS4ERR_BAD_SEQID to NFS 4.0 LOCK: its seqids follow those of the calls before, but the server \
                        has not counted one that it answered with NFS4ERR_GRACE (RFC 7530 section 9.1.7)";
        assert_eq!(violations, if forgets_lock_owner { vec![(expected, 1)] } else { Vec::new() });
        assert_eq!(report.mismatched(), 0, "{:#?}", report.steps.mismatches);
        assert_eq!(report.steps.states.unreplayable, 0, "the lock is there: {:#?}", report.steps.reasons);
    }
}

/// RFC 7530 sections 9.1.7 and 9.1.9: a server that has restarted knows no owner, and any seqid of a reclaim is right.
#[test]
fn rfc7530_section_9_1_9_bad_seqid_of_reclaim_is_violation() {
    let work = Work::of("rxe-v40", 4, "reclaim-seqid");
    for (status, own, code) in [(10_026, 0, "9.1.9"), (10_006, 0, "SERVERFAULT"), (10_036, 1, "")] {
        let restarted = restarts(MockTransportFault::Restart);
        let (report, _) = replayed_on(&work, restarted, |server| {
            server.refusal = Some(MockRefusal { is_of_reclaims: true, ..MockRefusal::once("OPEN", status, 0) });
        });
        assert_eq!(report.protocol.own.len(), own, "{status}: {:?}", report.protocol.own);
        let violations: Vec<_> = report.protocol.violations.keys().collect();
        assert_eq!(violations.len(), 1 - own, "{status}: {violations:?}");
        assert!(violations.iter().all(|violation| violation.contains(code)), "{status}: {violations:?}");
        // The second attempt has the seqid of a new owner.
        assert_eq!(report.recovery.not_reclaimed > 0, status != 10_026, "{status}");
    }
}

/// The names of owners after a restart.
struct Translating<'s>(&'s Mutex<MockServer>, fn(&mut MockServer));

impl ReplayMonitor for Translating<'_> {
    fn report_progress(&mut self, report: &ReplayReport, _: u64, _: Duration) {
        if report.recovery.recovered > 0 {
            (self.1)(&mut self.0.lock().unwrap());
        }
    }
}

/// RFC 7530 section 5.9: a server that restarts with another configuration may have names for owners that were numbers.
/// Another number is another owner.
#[test]
fn rfc7530_section_5_9_owners_have_names_after_restart() {
    const USER: u32 = 65_534;
    for capture in ["rxe-v40", "rxe-v42"] {
        let work = Work::of(capture, 4, "translated-owners");
        let run_with = |change: fn(&mut MockServer), without: &'static [&'static str], does_restart: bool| {
            let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
            let mut server = work.server.lock().unwrap().clone();
            server.tree.change_owners([USER; 2]);
            server.tree.new_object_owner = [USER; 2];
            let server = Arc::new(Mutex::new(server));
            let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
            let restart = [(125, MockTransportFault::Restart)];
            restart.into_iter().filter(|_| does_restart).for_each(|(at, fault)| transport.inject(at, fault));
            let options = ReplayOptions {
                order: ReplayOrder::Serial,
                max_shown_mismatches: 1000,
                disabled_rules: without.to_vec(),
                ..super::auxiliary_programs::none()
            };
            let (target, mut watch) = (target(20049), Translating(&server, change));
            run(&mut open(), &mut open(), &mut transport, &target, &work.seeded, &options, &mut watch).unwrap()
        };
        let names: fn(&mut MockServer) = |server| server.tree.owner_domain = Some("example.org");
        let report = run_with(names, &[], true);
        let check = report.tree_check.as_ref().unwrap();
        assert_eq!((report.mismatched(), check.differing), (0, 0), "{capture}: {:#?}", report.steps.mismatches);
        assert!(because(&report, "owner") > 0 || check.tolerated > 0, "{capture}: {:#?}", report.steps.reasons);
        assert!(run_with(names, &["owner"], true).is_different(), "{capture}");
        let report = run_with(|server| server.tree.change_owners([7; 2]), &[], true);
        let check = report.tree_check.as_ref().unwrap();
        assert!(report.mismatched() > 0 && check.differing > 0, "{capture}: another number");
    }
}

/// Nothing but the verifiers of WRITE and COMMIT tells a client of NFSv3 that the server has restarted.
#[test]
fn rfc1813_section_3_3_21_write_verifiers_differ_after_a_restart() {
    let work = Work::of("rxe-v3", 3, "verifiers");
    let report = replayed(&work, restarts(MockTransportFault::Restart));
    is_as_recorded(&report, "rxe-v3");
    assert!(report.recovery.reconnects >= 8, "{}", report.recovery.reconnects);
}

#[test]
fn rfc8881_section_8_4_2_1_locks_are_reclaimed_with_the_opens_that_they_came_from() {
    for capture in ["rxe-v41", "rxe-v40"] {
        let work = Work::of(capture, 4, "locks");
        let count = |begun: &BTreeMap<u32, u64>| begun.get(&Operation::LOCK.number().0).copied().unwrap_or(0);
        let whole = count(&replayed_on(&work, [], |_| {}).1);
        assert!(whole > 0, "{capture}");
        // Between these Calls locks are held.
        for at in [164, 168, 172] {
            let (report, begun) = replayed_on(&work, [(at, MockTransportFault::Forget)], |_| {});
            is_as_recorded(&report, &format!("{capture} {at}"));
            assert!(
                count(&begun) > whole && report.recovery.reclaimed >= 2,
                "{capture} {at}: {}",
                report.recovery.reclaimed
            );
            assert_eq!(report.recovery.not_reclaimed, 0, "{capture} {at}");
        }
    }
}

#[test]
fn rfc8881_section_8_4_2_a_lost_session_is_created_again_and_opens_remain() {
    let work = Work::of("rxe-v42", 4, "sessions");
    let report = replayed(&work, restarts(MockTransportFault::ForgetSessions));
    is_as_recorded(&report, "sessions");
    assert!(report.recovery.recovered >= 10, "{}", report.recovery.recovered);
    assert_eq!((report.recovery.reclaimed, report.recovery.not_reclaimed), (0, 0));
    assert_eq!(report.refused, Vec::<String>::new());
}

/// Without its EXCHANGE_ID, a captured CREATE_SESSION uses the client of the prologue, which has a session already.
#[test]
fn rfc8881_section_18_36_3_a_session_of_the_prologues_client_has_the_next_csa_sequence() {
    // EXCHANGE_ID ends with frame 19.
    let whole = captures::bytes("rxe-v42");
    let start = second_count::records(&whole).nth(19).unwrap().0;
    let file = Temporary::new("create-session.pcap", &[&whole[..24], &whole[start..]].concat());
    let path = file.path().to_str().unwrap().to_owned().leak();
    let report = replayed(&Work::of(path, 4, "create-session"), []);
    is_as_recorded(&report, "CREATE_SESSION");
}

#[test]
fn rfc8881_section_8_4_3_lost_state_is_reported_and_dependent_steps_are_not_sent() {
    let work = Work::of("rxe-v41", 4, "no-grace");
    let (report, _) =
        replayed_on(&work, restarts(MockTransportFault::Forget), |server| server.loses_clients_on_restart = true);
    assert!(report.is_consistent());
    assert_eq!(report.protocol.own, Vec::<String>::new());
    assert!(report.recovery.recovered >= 10 && report.recovery.reclaimed == 0, "{}", report.recovery.recovered);
    assert!(report.recovery.not_reclaimed > 0 && because(&report, "not-reclaimed") > 0, "{:#?}", report.steps.reasons);
    let printed = "OPEN with CLAIM_PREVIOUS: NFS4ERR_NO_GRACE";
    assert!(report.refused.iter().any(|what| what == printed), "{:#?}", report.refused);
}

#[test]
fn a_server_that_restarts_for_ever_ends_the_run_with_a_reason() {
    for fault in [MockTransportFault::Forget, MockTransportFault::Restart] {
        let work = Work::of("rxe-v41", 4, "for-ever");
        let whole = replayed(&work, []);
        let report = replayed(&work, (40..100_000).map(|at| (at, fault)));
        assert!(report.is_consistent(), "{fault:?}");
        assert!(report.is_different(), "{fault:?}: {:?}", report.steps.states);
        assert!(report.calls < 3 * whole.calls, "{fault:?}: {} calls", report.calls);
        match fault {
            MockTransportFault::Forget => {
                let printed = report.refused.iter().any(|what| what.contains("has forgotten it 17 times"));
                assert!(printed && because(&report, "not-reclaimed") > 0, "{:#?}", report.refused);
            }
            _ => assert!(because(&report, "no-connection") > 0, "{:#?}", report.steps.reasons),
        }
    }
}

/// RFC 7530 section 9.5, RFC 8881 section 8.3: the lease takes a second. At 15 calls per second, each renews it from
/// NFSv4.1 on; at 2.5, some thirds of the lease pass without one.
#[test]
fn idle_clients_renew_their_leases() {
    for (capture, renewing, rate, expected) in [
        ("rxe-v40-deleg", Operation::RENEW, 15.0, 2..=10),
        ("rxe-v42-deleg", Operation::SEQUENCE, 15.0, 0..=0),
        ("rxe-v42-deleg", Operation::SEQUENCE, 2.5, 3..=40),
    ] {
        let work = Work::of(capture, 4, "lease");
        let counted = |lease_seconds, rate| {
            let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
            let (mut steps, mut contents) = (open(), open());
            let mut server = work.server.lock().unwrap().clone();
            server.operation_counts.clear();
            let server = Arc::new(Mutex::new(server));
            let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
            let options = ReplayOptions {
                order: ReplayOrder::Serial,
                pace: ReplayPace::Rate(rate),
                ..super::auxiliary_programs::none()
            };
            let seeded = SeededTree { lease_seconds: Some(lease_seconds), ..work.seeded.clone() };
            let target = target(20049);
            let report = run(&mut steps, &mut contents, &mut transport, &target, &seeded, &options, &mut ()).unwrap();
            is_as_recorded(&report, capture);
            let counts = &server.lock().unwrap().operation_counts;
            counts.get(&renewing.number().0).copied().unwrap_or(0)
        };
        let (without, with) = (counted(90, 15.0), counted(1, rate));
        assert!(expected.contains(&(with - without)), "{capture} at {rate}/s: {without} and {with}");
    }
}

/// RFC 7530 section 9.6.3.
#[test]
fn client_with_expired_lease_is_registered_again() {
    const EXPIRED: u32 = 10_011;
    let work = Work::of("rxe-v40-deleg", 4, "expired");
    let refusal = MockRefusal::once("OPEN", EXPIRED, 1);
    let (report, _) = replayed_on(&work, [], |server| server.refusal = Some(refusal));
    assert!(report.is_consistent());
    assert_eq!((report.recovery.recovered, report.mismatched()), (1, 0), "{:#?}", report.steps.mismatches);
}

/// RFC 8881 section 18.37.3: nobody needs the session that was destroyed; a new one would keep DESTROY_CLIENTID busy.
#[test]
fn lost_reply_of_destroy_recovers_nothing() {
    let work = Work::of("rxe-v42-deleg", 4, "destroyed");
    let calls = replayed(&work, []).calls;
    for at in calls.saturating_sub(12)..calls {
        let report = replayed(&work, [(at, MockTransportFault::BreakAfter)]);
        is_as_recorded(&report, &format!("call {at} of {calls}"));
        assert_eq!((report.recovery.disconnects, report.recovery.recovered), (1, 0), "call {at} of {calls}");
    }
}
