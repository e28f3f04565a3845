//! Auxiliary programs of the mock server: the port mapper, MOUNT and NLM, on their own port, so that no test uses the
//! port mapper of this machine.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::nlm::v4 as nlm;
use nfsrdma_dissectors::nfs::rpcbind::v2::{Args, Procedure};
use nfsrdma_dissectors::rpc::{Program, RpcMsg};
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_mock_server::server::{MockReply, MockServer};
use nfsrdma_replay::auxiliary_programs::ConfiguredAuxiliaryPorts;
use nfsrdma_replay::run::ReplayOptions;
use serde_json::Value as Json;

use super::program::{Passing, compiled, program};
use super::proxy::Proxy;
use super::proxy::injected_faults::FaultInjector;
use crate::captures;

/// Serves a server over TCP, with NFS and its auxiliary programs on the same port.
pub(super) fn serve(server: &Arc<Mutex<MockServer>>, injector: FaultInjector) -> Proxy {
    let behind = Arc::clone(server);
    let proxy = Proxy::answering(injector, move |call| {
        let mut answer = MockReply::default();
        behind.lock().unwrap().call(Cursor::new(call), &mut answer);
        answer.complete_message()
    });
    server.lock().unwrap().port = proxy.port;
    proxy
}

/// Returns the ports for programs found by the port mapper of a server.
pub(super) fn of(proxy: &Proxy) -> ConfiguredAuxiliaryPorts {
    ConfiguredAuxiliaryPorts { port_mapper: Some(proxy.port), mount: None }
}

/// Returns options without auxiliary programs.
pub(super) fn none() -> ReplayOptions {
    ReplayOptions {
        auxiliary_ports: ConfiguredAuxiliaryPorts { port_mapper: Some(1), mount: None },
        ..ReplayOptions::default()
    }
}

/// Starts a mock server and returns its URL.
fn served() -> (Proxy, String) {
    let proxy = serve(&Arc::default(), FaultInjector::honest());
    let url = format!("tcp://127.0.0.1:{0}/?vers=3&rpcbindport={0}", proxy.port);
    (proxy, url)
}

/// Returns the number of steps of an operation in a state.
fn steps(report: &Json, operation: &str, state: &str) -> u64 {
    report["operations"][operation][state].as_u64().unwrap_or_else(|| panic!("{operation}: {report:#}"))
}

#[test]
fn mount_and_nlm_are_replayed_and_are_in_the_recording() {
    let (_server, url) = served();
    let recording = Passing::new("beside-recorded.trace");
    let path = captures::path("rxe-v3");
    let file = path.to_str().unwrap();
    let output = program(&["check", "-q", "-T", "json", "--server", &url, "--record", recording.name(), file]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // A LOCK was refused in the capture, while the server was in its grace period: tshark counts 3 GETPORT, 2 NULL, MNT
    // and UMNT, and 4 LOCK and 3 UNLOCK.
    let list = |file: &str| {
        let shown = program(&["-T", "json", "--summary", "none", file]);
        let text = String::from_utf8(shown.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        let mut found = BTreeMap::<String, u32>::new();
        for line in lines.filter(|line| line["kind"] == "transaction") {
            if let Some(program @ (100_000 | 100_005 | 100_021)) = line["program"].as_u64() {
                *found.entry(format!("{program} {}", line["procedure"])).or_default() += 1;
            }
        }
        found
    };
    let [captured, recorded] = [file, recording.name()].map(list);
    assert_eq!(captured.values().sum::<u32>(), 14, "{captured:?}");
    assert_eq!(captured, recorded);
    // They are paired with those of the capture.
    let compared = program(&["compare", "-T", "json", "--only", "missing,extra,client", file, recording.name()]);
    let text = String::from_utf8(compared.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let of_programs: Vec<_> = lines
        .filter(|line| line["kind"] == "difference")
        .filter(|line| !line["operation"].as_str().unwrap_or_default().starts_with("NFS"))
        .collect();
    assert!(of_programs.is_empty(), "{of_programs:#?}");
    // The captured path was mounted; in each replay it is below the replay's directory.
    let again = program(&["replay", "run", "-T", "json", recording.name(), "--allow-source-server", "--server", &url]);
    let report: Json = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(report["states"]["mismatched"], 0, "{report:#}");
    assert_eq!(steps(&report, "MOUNT 3 MNT", "unreplayable"), 0, "{report:#}");
}

/// NLM takes its first Call and goes away; then the port mapper returns another port, as after a restart of Linux.
#[test]
fn a_program_that_restarts_is_called_again_at_its_new_port() {
    let server: Arc<Mutex<MockServer>> = Arc::default();
    let proxy = serve(&server, FaultInjector::honest());
    let port = proxy.port;
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    server.lock().unwrap().port = listener.local_addr().unwrap().port();
    let restarting = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let length = stream.read(&mut [0; 64]).unwrap();
        server.lock().unwrap().port = port;
        length
    });
    let url = format!("tcp://127.0.0.1:{port}/?vers=3&rpcbindport={port}&mountport={port}");
    let path = captures::path("rxe-v3");
    let output = program(&["check", "-T", "json", "--server", &url, path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(restarting.join().unwrap() > 40, "no call came to the first port");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("other-program"), "{text}");
}

/// After the GETPORT of the trace, the port mapper does not know NLM for a second, as while Linux restarts nfsd.
#[test]
fn a_program_that_is_not_registered_for_a_second_is_called_afterwards() {
    let server: Arc<Mutex<MockServer>> = Arc::default();
    let unregistered: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (behind, queries) = (Arc::clone(&server), Arc::clone(&unregistered));
    let proxy = Proxy::answering(FaultInjector::honest(), move |call| {
        let mut answer = MockReply::default();
        behind.lock().unwrap().call(Cursor::new(call), &mut answer);
        let mut message = answer.complete_message();
        if is_query_for(call, Program::NLM) {
            let mut queries = queries.lock().unwrap();
            // The first is the step of the trace.
            if queries.get(1).is_none_or(|first| first.elapsed() < Duration::from_secs(1)) && !queries.is_empty() {
                let port = message.len() - 4;
                message[port..].fill(0);
            }
            queries.push(Instant::now());
        }
        message
    });
    let port = proxy.port;
    server.lock().unwrap().port = port;
    let url = format!("tcp://127.0.0.1:{port}/?vers=3&rpcbindport={port}&mountport={port}");
    let path = captures::path("rxe-v3");
    let output = program(&["check", "-T", "json", "--server", &url, path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("other-program"), "{text}");
    let queries = unregistered.lock().unwrap();
    assert!(queries.len() > 3, "{queries:?}");
    assert!(queries.last().unwrap().duration_since(queries[1]) >= Duration::from_secs(1), "{queries:?}");
}

/// A server in its grace period refuses locks for a second: XNFS section 10, NLM_DENIED_GRACE_PERIOD. In the capture it
/// refused only the first.
#[test]
fn a_lock_is_requested_again_until_the_grace_period_ends() {
    const DENIED_GRACE_PERIOD: u8 = 4;
    let server: Arc<Mutex<MockServer>> = Arc::default();
    let refused: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (behind, log) = (Arc::clone(&server), Arc::clone(&refused));
    let proxy = Proxy::answering(FaultInjector::honest(), move |call| {
        let mut log = log.lock().unwrap();
        let is_in_grace = log.first().is_none_or(|first| first.elapsed() < Duration::from_secs(1));
        let mut answer = MockReply::default();
        let message = RpcMsg::decode(&mut Cursor::new(call), &mut NullFieldObserver).unwrap();
        let is_lock = message.call().is_some_and(|asked| {
            (asked.prog, asked.vers, asked.proc) == (Program::NLM, 4, nlm::Procedure::LOCK.number().0)
        });
        if !(is_lock && is_in_grace) {
            behind.lock().unwrap().call(Cursor::new(call), &mut answer);
            return answer.complete_message();
        }
        log.push(Instant::now());
        // An accepted Reply without a verifier: the cookie, which is the first argument, and the status.
        let mut cursor = Cursor::new(call);
        RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        let length = u32::from_be_bytes(cursor.rest()[..4].try_into().unwrap()) as usize;
        let cookie = &cursor.rest()[..4 + length.next_multiple_of(4)];
        let head = [&call[..4], &[0, 0, 0, 1][..], &[0; 16]].concat();
        [&head, cookie, &[0, 0, 0, DENIED_GRACE_PERIOD]].concat()
    });
    server.lock().unwrap().port = proxy.port;
    let url = format!("tcp://127.0.0.1:{0}/?vers=3&rpcbindport={0}", proxy.port);
    let path = captures::path("rxe-v3");
    let output = program(&["check", "-T", "json", "--server", &url, path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let refused = refused.lock().unwrap();
    assert!(refused.len() > 3, "{refused:?}");
    assert_eq!(steps(&report, "NLM 4 LOCK", "mismatched"), 0, "{report:#}");
    assert_eq!(report["states"]["mismatched"], 0, "{report:#}");
    // The first was refused in the capture, too, so that it is not repeated.
    assert_eq!(report["delayed"].as_u64(), Some(refused.len() as u64 - 1), "{report:#}");
}

/// A refused removal is a failure.
#[test]
fn a_removal_that_is_refused_is_exit_code_3() {
    let trace = compiled("rxe-v3", "refused-removal");
    let server: Arc<Mutex<MockServer>> = Arc::default();
    let proxy = serve(&server, FaultInjector::honest());
    let url = format!("tcp://127.0.0.1:{0}/?vers=3&rpcbindport={0}", proxy.port);
    for (directory, foreign, code) in [("clean", None, 0), ("kept", Some(&b"precious"[..]), 3)] {
        let run = ["--server", &url, "--directory", directory];
        assert!(program(&[&["replay", "seed", "-q", trace.name()], &run[..]].concat()).status.success());
        // No step lists this directory.
        let place: [&[u8]; 4] = [directory.as_bytes(), b"tree", b"export", b"priv"];
        foreign.map(|name| server.lock().unwrap().tree.add_name_below(&place, name));
        let output = program(&[&["replay", "run", "-q", "--seeded", "--remove", trace.name()][..], &run[..]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said.contains("not removed: it contains"), code == 3, "{said}");
    }
}

/// The directory of a run whose seeding failed is removed, but not one that another run has made.
#[test]
fn the_directory_of_a_failed_seeding_is_removed() {
    let trace = compiled("rxe-v42-deleg", "failed-seeding");
    let server: Arc<Mutex<MockServer>> = Arc::default();
    let proxy = serve(&server, FaultInjector::honest());
    let url = format!("tcp://127.0.0.1:{0}/", proxy.port);
    let is_there = |name: &str| server.lock().unwrap().tree.add_name_below(&[name.as_bytes()], b"probe") > 0;
    let of = |directory| ["--server", &url, "--directory", directory];
    let mut seed = ["replay", "seed", "-q", trace.name()].to_vec();
    seed.extend(of("made"));
    assert!(program(&seed).status.success());
    // The second directory that seeding makes.
    server.lock().unwrap().tree.refused_name = Some(b"nameless".into());
    for (directory, stays) in [("failed", false), ("made", true)] {
        let run = ["replay", "run", "-q", "--remove", trace.name()];
        let output = program(&[&run[..], &of(directory)].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(!said.contains("not removed"), "{said}");
        assert_eq!(said.contains("NFS4ERR_INVAL"), !stays, "{said}");
        assert_eq!(is_there(directory), stays, "{directory}: {said}");
    }
}

/// Returns `true` if a Call is a GETPORT for a program.
fn is_query_for(call: &[u8], program: Program) -> bool {
    let mut cursor = Cursor::new(call);
    let message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    message.call().is_some_and(|asked| {
        (asked.prog, asked.vers, asked.proc) == (Program::PORTMAP, 2, Procedure::GETPORT.number().0)
            && matches!(
                Args::decode(Procedure::GETPORT, &mut cursor, &mut NullFieldObserver),
                Ok(Args::GETPORT(mapping)) if mapping.prog == program
            )
    })
}

/// A port mapper that accepts connections and does not answer.
#[test]
fn a_silent_port_mapper_is_exit_code_4_within_the_timeout() {
    let trace = compiled("rxe-v3", "silent-port-mapper");
    let (server, url) = served();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let host = format!("tcp://127.0.0.1:{}/?vers=3", server.port);
    let timed = |arguments: &[&str]| {
        let begin = Instant::now();
        let output = program(&[&["replay"], arguments, &["--timeout", "1"]].concat());
        (output, begin.elapsed())
    };
    // Nothing is mounted without it.
    let without = format!("{host}&rpcbindport={port}");
    let (output, took) = timed(&["seed", trace.name(), "--server", &without]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    let expected = format!("port mapper: 127.0.0.1:{port}: no reply within 1 s; check that rpcbind answers");
    assert!(said.contains(&expected) && said.lines().count() == 1, "{said}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    // With the port of MOUNT, everything except NLM and the port mapper itself is replayed, and the timeout occurs
    // once.
    let with = format!("{host}&mountport={}&rpcbindport={port}", server.port);
    let (output, took) = timed(&["run", "-T", "json", trace.name(), "--server", &with]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("no reply within 1 s; its calls were not replayed"), "{said}");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["states"]["mismatched"], 0, "{report:#}");
    assert_eq!(steps(&report, "MOUNT 3 MNT", "unreplayable"), 0, "{report:#}");
    assert_eq!(steps(&report, "NLM 4 LOCK", "unreplayable"), 4, "{report:#}");
    assert!(report["walk"]["objects"].as_u64() > Some(100), "the files are checked all the same: {report:#}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    drop((silent, url));
}

/// A port mapper that does not exist.
#[test]
fn a_port_mapper_that_does_not_listen_is_named() {
    let trace = compiled("rxe-v3", "no-port-mapper");
    let (server, _) = served();
    let port = super::ganesha::free_port();
    let url = format!("tcp://127.0.0.1:{}/?vers=3&rpcbindport={port}", server.port);
    let output = program(&["replay", "seed", trace.name(), "--server", &url]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("port mapper: ") && said.contains(&format!(":{port}")), "{said}");
    assert!(said.contains("connection refused") && said.contains("?mountport="), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
