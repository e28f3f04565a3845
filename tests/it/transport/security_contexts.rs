//! Security contexts of a replay: re-established if the server has lost them, and destroyed at the end.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::ganesha::Ganesha;
use super::gss_calls::program_in;
use super::kerberos_realm::Realm;
use super::program::compiled;
use super::proxy::contexts::{DATA, DESTROY, INIT, ProxiedGssCalls, Signed, by_proc, forgetful};
use crate::schema::{assert_keeps, validator};

/// RPCSEC_GSS_CREDPROBLEM and RPCSEC_GSS_CTXPROBLEM. RFC 2203 section 5.3.3.3.
const CREDPROBLEM: u32 = 13;
const CTXPROBLEM: u32 = 14;

fn steps(report: &Json, state: &str) -> u64 {
    report["states"][state].as_u64().unwrap()
}

/// Returns the number of steps in a report with a reason.
fn because(report: &Json, reason: &str) -> u64 {
    let reasons = report["reasons"].as_array().unwrap();
    reasons.iter().filter(|of| of["reason"] == reason).filter_map(|of| of["steps"].as_u64()).sum()
}

/// Replays a trace with RPCSEC_GSS through a proxy that drops contexts at these Calls. Returns the report, and the
/// Calls recorded by the proxy.
fn replayed(realm: &Realm, test: &str, order: &str, forgets: &[(usize, u32)]) -> Option<(Json, Vec<Signed>)> {
    let server = Ganesha::start_secure(realm)?;
    let (report, seen) = replayed_on(realm, server.port, (test, order), forgets, |_| {});
    assert_eq!(steps(&report, "mismatched"), 0, "{report:#}");
    // As many as without lost contexts: nfs-ganesha has no LISTXATTRS, of which this capture has 305.
    let done = ["matched", "tolerated", "substituted"].map(|state| steps(&report, state)).iter().sum::<u64>();
    assert_eq!(done, 356, "{report:#}");
    assert_eq!(steps(&report, "substituted"), because(&report, "context-renewed"), "{report:#}");
    Some((report, seen))
}

/// Replays the trace on a server that `disturb` changes meanwhile.
fn replayed_on(
    realm: &Realm,
    port: u16,
    (test, order): (&str, &str),
    forgets: &[(usize, u32)],
    disturb: impl FnOnce(&Mutex<ProxiedGssCalls>) + Send,
) -> (Json, Vec<Signed>) {
    let (proxy, seen) = forgetful(([127, 0, 0, 1], port).into(), forgets);
    let url = format!("tcp://localhost:{}/export", proxy.port);
    let trace = compiled("rxe-v42-krb5", test);
    let run = ["replay", "run", trace.name(), "--server", &url, "--sec", "krb5", "--order", order];
    let run = [&run[..], &["-T", "json"]].concat();
    let output = thread::scope(|scope| {
        scope.spawn(|| disturb(&seen));
        program_in(&realm.client_environment(), &run)
    });
    let error = String::from_utf8_lossy(&output.stderr);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"));
    assert_keeps(&validator("replay.schema.json"), &report, test);
    assert_eq!(report["own_faults"], Json::Array(Vec::new()), "{report:#}");
    let seen = seen.lock().unwrap();
    let signed = seen.signed.clone();
    // If steps use RPCSEC_GSS, so do the Calls of the program itself.
    let ways: BTreeSet<usize> =
        signed.iter().filter(|call| call.operation.is_some()).map(|call| call.connection).collect();
    let unsigned: Vec<_> = seen.unsigned.iter().filter(|(way, _)| ways.contains(way)).collect();
    assert!(unsigned.is_empty(), "{unsigned:?}");
    assert!(!seen.unsigned.is_empty(), "the tree is made by root");
    (report, signed)
}

/// Verifies that each context is destroyed by the last Call with it: a NULL without arguments, and with the next
/// sequence number.
fn are_destroyed(seen: &[Signed], report: &Json, contexts: usize) {
    let ends: Vec<_> = seen.iter().filter(|call| call.gss_proc == DESTROY).collect();
    assert_eq!(ends.len(), contexts);
    for end in &ends {
        assert_eq!((end.procedure, end.arguments.len()), (0, 0), "{end:?}");
        let numbers = seen.iter().filter(|call| call.handle == end.handle && call.gss_proc != INIT);
        let numbers: Vec<u32> = numbers.map(|call| call.seq_num).collect();
        let (last, before) = numbers.split_last().unwrap();
        assert!(before.iter().all(|number| number < last), "{end:?}");
    }
    // The server has confirmed it.
    assert_eq!(report["contexts_destroyed"], contexts, "{report:#}");
}

#[test]
fn rfc2203_section_5_4_contexts_are_destroyed_in_the_end() {
    let Some(realm) = Realm::new() else { return };
    let Some((report, seen)) = replayed(&realm, "destroyed", "serial", &[]) else { return };
    let contexts = by_proc(&seen)[&INIT];
    assert!(contexts > 0);
    are_destroyed(&seen, &report, contexts);
    assert_eq!((&report["contexts_renewed"], because(&report, "context-renewed")), (&0.into(), 0));
}

#[test]
fn rfc2203_section_5_3_3_3_after_a_denial_a_new_context_resends_the_call() {
    let Some(realm) = Realm::new() else { return };
    let forgets = [(20, CREDPROBLEM), (90, CREDPROBLEM), (200, CTXPROBLEM), (300, CREDPROBLEM)];
    for order in ["serial", "dependencies"] {
        let Some((report, seen)) = replayed(&realm, order, order, &forgets) else { return };
        let denied: Vec<_> = seen.iter().filter(|call| call.is_denied).collect();
        assert!(denied.len() >= forgets.len(), "{order}");
        // If nfs-ganesha supports the operation of the Call, the step reports it.
        let printed = because(&report, "context-renewed");
        assert!(0 < printed && printed <= denied.len() as u64, "{order}: {} {report:#}", denied.len());
        let handles: BTreeSet<_> = seen.iter().filter(|call| call.gss_proc == DATA).map(|call| &call.handle).collect();
        let renewed = report["contexts_renewed"].as_u64().unwrap() as usize;
        assert!(renewed >= forgets.len(), "{order}: {renewed}");
        // A denied Call is retried with another XID, and no sequence number is used twice with a context.
        let xids: BTreeSet<_> = seen.iter().map(|call| (call.connection, call.xid)).collect();
        assert_eq!(xids.len(), seen.len(), "{order}");
        for handle in handles {
            let of = || seen.iter().filter(|call| call.handle == *handle && call.gss_proc != INIT);
            let numbers: BTreeSet<u32> = of().map(|call| call.seq_num).collect();
            assert_eq!(numbers.len(), of().count(), "{order}");
        }
        let contexts = by_proc(&seen)[&INIT] - renewed;
        are_destroyed(&seen, &report, contexts);
    }
}

#[test]
fn rfc2203_section_5_3_3_3_after_a_restart_contexts_clients_and_sessions_are_set_up_again() {
    let Some(realm) = Realm::new() else { return };
    let Some(mut server) = Ganesha::start_secure(&realm) else { return };
    let port = server.port;
    let restart = |seen: &Mutex<ProxiedGssCalls>| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while seen.lock().unwrap().signed.len() < 150 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        server.restart();
    };
    let (report, seen) = replayed_on(&realm, port, ("restarted", "serial"), &[], restart);
    let renewed = report["contexts_renewed"].as_u64().unwrap();
    assert!(renewed > 0 && report["recovered"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!((steps(&report, "mismatched"), &report["not_reclaimed"]), (0, &0.into()), "{report:#}");
    // EXCHANGE_ID and CREATE_SESSION of the captured client, and those after the restart.
    for operation in [42, 43] {
        let of: Vec<_> = seen.iter().filter(|call| call.operation == Some(operation)).collect();
        assert!(of.len() >= 2 && of.iter().all(|call| call.is_protected), "{operation}: {of:#?}");
    }
    // A context not used after the restart is unknown to the server, and need not be destroyed.
    let contexts = by_proc(&seen)[&INIT] - renewed as usize;
    assert_eq!(by_proc(&seen)[&DESTROY], contexts);
    assert!(report["contexts_destroyed"].as_u64().unwrap() > 0, "{report:#}");
}
