//! RPCSEC_GSS Calls: sent as root, omitted, or re-signed in a Kerberos realm.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value as Json;

use super::ganesha::Ganesha;
use super::kerberos_realm::Realm;
use super::program::{Passing, compiled, program};
use crate::captures;

fn plan(trace: &str, more: &[&str]) -> Json {
    let output = program(&[&["replay", "plan", "-T", "json", trace], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn signed_calls_are_sent_as_root_or_skipped() {
    let trace = compiled("rxe-v42-krb5", "signed");
    let reasons = |plan: &Json| -> Vec<(String, String)> {
        let of = |reason: &Json, key: &str| reason[key].as_str().unwrap().to_owned();
        let reasons = plan["reasons"].as_array().unwrap();
        reasons.iter().map(|reason| (of(reason, "reason"), of(reason, "state"))).collect()
    };
    let has = |plan: &Json, reason: &str, state: &str| reasons(plan).contains(&(reason.to_owned(), state.to_owned()));
    let sys = plan(trace.name(), &[]);
    assert!(has(&sys, "secured", "synthesized"), "{sys:#}");
    assert_eq!(sys, plan(trace.name(), &["--sec", "sys"]));
    let skip = plan(trace.name(), &["--sec", "skip"]);
    assert!(has(&skip, "secured-skipped", "skipped"), "{skip:#}");
    assert!(!has(&skip, "secured", "synthesized"), "{skip:#}");
}

/// Runs the program in the environment of a realm.
pub(super) fn program_in(environment: &[(&'static str, PathBuf)], arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"))
}

#[test]
fn rfc2203_signed_calls_are_signed_again_on_nfs_ganesha() {
    let Some(realm) = Realm::new() else { return };
    let Some(server) = Ganesha::start_secure(&realm) else { return };
    let url = format!("tcp://localhost:{}/export", server.port);
    let (trace, live) = (compiled("rxe-v42-krb5", "anew"), Passing::new("anew-live.trace"));
    let run = ["replay", "run", trace.name(), "--server", &url, "--sec", "krb5"];
    let recorded = [&run[..], &["--order", "serial", "-T", "json", "--record", live.name()]].concat();
    let output = program_in(&realm.client_environment(), &recorded);
    let error = String::from_utf8_lossy(&output.stderr);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"));
    assert_eq!(report["own_faults"], Json::Array(Vec::new()), "{report:#}");
    let states = &report["states"];
    assert_eq!((&states["mismatched"], &states["substituted"]), (&0.into(), &0.into()), "{report:#}");
    // nfs-ganesha has no LISTXATTRS, of which this capture has 305.
    let done = states["matched"].as_u64().unwrap() + states["tolerated"].as_u64().unwrap();
    assert_eq!(done, 356, "{report:#}");
    // Users, contexts and services are as in the capture; contexts themselves are established before the replay.
    let capture = captures::path("rxe-v42-krb5");
    let compare = ["compare", "--only", "header", "--ignore", "NULL", capture.to_str().unwrap(), live.name()];
    let output = program(&compare);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));

    let output = program_in(&realm.strangers_environment(), &run);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("No Kerberos credentials") && error.contains("kinit"), "{error}");
}

#[test]
fn a_server_without_kerberos_is_reported() {
    let (Some(realm), Some(server)) = (Realm::new(), Ganesha::start(false)) else { return };
    let url = format!("tcp://localhost:{}/export", server.port);
    let trace = compiled("rxe-v42-krb5", "unknown");
    let run = ["replay", "run", trace.name(), "--server", &url, "--sec", "krb5"];
    let output = program_in(&realm.client_environment(), &run);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("no security context"), "{error}");
}
