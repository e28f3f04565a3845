//! nfs-ganesha over TCP: the same calls as on the mock server, and `probe`.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{CompoundCall, Operation};
use nfsrdma_dissectors::rpc::RpcMsg;
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_rpc::tcp::TcpTransport;
use nfsrdma_rpc::{DisconnectReason, RpcClientTransport, RpcClientTransportEvent};
use serde_json::Value;

use super::client::{Client, content, every_length, many_nulls, target};
use super::ganesha::Ganesha;
use super::program::{compiled, program};
use super::proxy::injected_faults::FaultInjector;
use super::proxy::{Proxy, record, send};
use crate::captures;
use crate::schema::{assert_keeps, validator};

fn probe(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .arg("probe")
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"))
}

#[test]
fn files_of_every_length_in_every_minor_version() {
    let Some(server) = Ganesha::start(false) else { return };
    for minor in 0..=2 {
        let mut tcp = TcpTransport::new();
        let mut client = Client::new(&mut tcp, &target(server.port), minor, &["export"]);
        every_length(&mut client);
        // The written data is in the file for every reader.
        let data = content(123_457);
        let open = client.open("seen", true);
        client.write(&open, &data);
        client.close(&open);
        assert!(fs::read(server.export().join("seen")).unwrap() == data);
        client.remove("seen");
        client.leave();
    }
}

#[test]
fn many_calls_in_flight_on_several_connections() {
    let Some(server) = Ganesha::start(false) else { return };
    let mut tcp = TcpTransport::new();
    for _ in 0..3 {
        assert_eq!(many_nulls(&mut tcp, &target(server.port), 5000, 64), 64);
    }
}

/// Forwards calls to a server, and restarts it when it has granted the first lock.
fn forward_until_lock(mut client: TcpStream, server: &Mutex<Ganesha>, was_restarted: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", server.lock().unwrap().port)) else { return };
    while let Ok(Some(call)) = record(&mut client) {
        let mut cursor = Cursor::new(&call[..]);
        let is_lock = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).is_ok()
            && CompoundCall::decode(&mut cursor, &mut NullFieldObserver).is_ok_and(|compound| {
                compound.operations().map_while(Result::ok).any(|args| args.operation() == Operation::LOCK)
            });
        let Ok(Some(reply)) = send(&mut stream, &call).and_then(|()| record(&mut stream)) else { return };
        if send(&mut client, &reply).is_err() {
            return;
        }
        // The status follows the header of an accepted reply: RFC 5531 section 9.
        if is_lock && reply.get(24..28) == Some(&[0; 4]) && !was_restarted.swap(true, Ordering::Relaxed) {
            return server.lock().unwrap().restart();
        }
    }
}

/// RFC 7530 section 9.1.7: NFS4ERR_GRACE advances the seqid of each owner of a LOCK. During its grace period,
/// nfs-ganesha 4.3 advances that of the open-owner alone: its log has "expected seqid" 2 for the 28th LOCK.
#[test]
fn ganesha_that_forgets_seqids_is_blamed() {
    let Some(server) = Ganesha::start_with_grace_period() else { return };
    let (server, was_restarted) = (Mutex::new(server), Arc::new(AtomicBool::new(false)));
    let has_restarted = Arc::clone(&was_restarted);
    let proxy =
        Proxy::of(FaultInjector::honest(), move |client, _| forward_until_lock(client, &server, &was_restarted));
    let url = format!("tcp://127.0.0.1:{}/export?vers=4.0", proxy.port);
    let capture = captures::path("rxe-v40");
    let arguments = ["replay", capture.to_str().unwrap(), "-T", "json", "--order", "serial", "--server", &url];
    let output = program(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(has_restarted.load(Ordering::Relaxed), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["own_faults"], serde_json::json!([]), "{said}");
    assert_eq!((report["recovered"].as_u64(), report["reclaimed"].as_u64()), (Some(1), Some(2)), "{report:#}");
    let violations: Vec<_> = report["violations"].as_object().unwrap().keys().collect();
    assert_eq!(output.status.code(), Some(if violations.is_empty() { 0 } else { 1 }), "{said}");
    if let [violation] = violations[..] {
        let expected = "NFS4ERR_BAD_SEQID to NFS 4.0 LOCK: its seqids follow those of the calls before, but the server \
                        has not counted one that it answered with NFS4ERR_GRACE (RFC 7530 section 9.1.7)";
        assert_eq!(violation, expected);
        // The run finds the seqid that the server expects.
        assert_eq!(report["states"]["mismatched"].as_u64(), Some(0), "{report:#}");
    }
}

#[test]
fn a_server_that_disappears_in_the_middle_is_reported() {
    let Some(mut server) = Ganesha::start(false) else { return };
    let mut tcp = TcpTransport::new();
    let connection = tcp.connect(&target(server.port)).unwrap();
    server.kill();
    let event = tcp.poll(Some(Instant::now() + Duration::from_secs(10))).unwrap();
    let Some(RpcClientTransportEvent::Disconnected { connection: gone, reason, lost_calls: [] }) = event else {
        panic!("{event:?}")
    };
    assert_eq!(gone, connection);
    assert!(matches!(reason, DisconnectReason::Closed | DisconnectReason::Reset), "{reason}");
    let refused = tcp.connect(&target(server.port)).unwrap_err().to_string();
    assert!(refused.ends_with("connection refused; check the port and that the server is running"), "{refused}");
}

#[test]
fn probe_shows_versions_limits_and_exports() {
    let Some(server) = Ganesha::start(true) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    let output = probe(&["-T", "json", "--server", &url]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_keeps(&validator("probe.schema.json"), &found, "probe");
    assert_eq!((&found["kind"], &found["transport"]), (&"probe".into(), &"TCP".into()));
    assert_eq!(found["versions"], serde_json::json!([3, 4]));
    assert_eq!((&found["rdma"], &found["credits"]), (&Value::Null, &Value::Null));
    assert!(found["null_ns"]["fastest"].as_u64() > Some(0));
    for (minor, v4) in found["v4"].as_array().unwrap().iter().enumerate() {
        assert_eq!((v4["minor_version"].as_u64(), &v4["error"]), (Some(minor as u64), &Value::Null));
        assert!(v4["maxread"].as_u64() >= Some(1 << 16), "{v4}");
        assert_eq!(v4["root"][0], serde_json::json!({"name": "export", "is_directory": true}));
        assert_eq!(v4["fore_channel"]["maxrequests"].is_u64(), minor > 0);
    }
    assert_eq!(found["v4"].as_array().unwrap().len(), 3);
    // The port mapper has the port of MOUNT, whose path is the folder, not the pseudo path of NFSv4.
    assert_eq!(found["exports"]["port"].as_u64(), Some(server.mount_port.into()), "{found}");
    assert_eq!(found["exports"]["list"][0]["path"], server.export().to_str().unwrap());
    let url = format!("tcp://127.0.0.1:{}{}?vers=3", server.port, server.export().display());
    let output = probe(&["--server", &url]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("NFSv3\n  READ            "), "{text}");
    assert!(!text.contains("NFSv4"), "{text}");
}

#[test]
fn an_unreachable_server_is_reported_in_one_line_with_exit_code_4() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // A server that listens and does not answer.
    let output = probe(&["--timeout", "0.2", "--server", &format!("tcp://127.0.0.1:{port}/")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    let expected =
        format!("nfsrdma-inspect: 127.0.0.1 (127.0.0.1:{port}): no reply within 0.2 s; check that the server runs\n");
    assert_eq!(said, expected);
    // A server that does not listen.
    drop(listener);
    let output = probe(&["--server", &format!("tcp://127.0.0.1:{port}/")]);
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1);
    assert!(said.contains("connection refused; check the port"), "{said}");
}

/// A port mapper or a MOUNT that accepts connections and does not answer.
#[test]
fn a_silent_mount_service_is_exit_code_4() {
    let trace = compiled("rxe-v3", "silent-mount");
    let [nfs, mount] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [nfs_port, mount_port] = [&nfs, &mount].map(|listener| listener.local_addr().unwrap().port());
    let url = format!("tcp://127.0.0.1:{nfs_port}/export?vers=3&mountport={mount_port}");
    let output = program(&["replay", "run", trace.name(), "--timeout", "0.3", "--server", &url]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("no reply within 0.3 s") && said.lines().count() == 1, "{said}");
}

#[test]
fn an_unsupported_version_is_reported_with_exit_code_4() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export?vers=3", server.port);
    let output = probe(&["--server", &url]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("\nNFSv3: not supported; the server has 4\n"), "{text}");
    let output = probe(&["-T", "json", "--server", &url]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_keeps(&validator("probe.schema.json"), &found, "probe");
    assert_eq!(output.status.code(), Some(4), "{found}");
    assert_eq!(found["absent"], "NFSv3: not supported; the server has 4");
}

/// Returns the result of `probe` for a server that gives this answer to everything. Without an answer it closes each
/// connection.
fn code_and_error(answer: &[u8]) -> (Option<i32>, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = answer.to_vec();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut answer) = (stream.unwrap(), answer.clone());
            let mut mark = [0; 4];
            while stream.read_exact(&mut mark).is_ok() && !answer.is_empty() {
                let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
                stream.read_exact(&mut call).unwrap();
                // A Reply has the XID of its Call after the record mark.
                if answer.starts_with(&[0x80]) {
                    answer[4..8].copy_from_slice(&call[..4]);
                }
                stream.write_all(&answer).unwrap();
            }
        }
    });
    let output = probe(&["--timeout", "5", "--server", &format!("tcp://127.0.0.1:{port}/")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    (output.status.code(), said)
}

#[test]
fn a_port_of_another_protocol_is_named() {
    let foreign: [(&[u8], &str); 3] = [
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "this port speaks SSH, not NFS; check the port"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "this port speaks HTTP, not NFS"),
        (b"\x15\x03\x01\0\x02\x02\x0a", "this port speaks TLS, not NFS"),
    ];
    for (answer, expected) in foreign {
        let (code, said) = code_and_error(answer);
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_denied_call_is_reported_with_a_remedy() {
    // RFC 5531 section 9: the words of a Reply after its XID.
    let turned_away: [(&[u32], &str); 2] = [
        // MSG_DENIED, AUTH_ERROR, AUTH_TOOWEAK.
        (&[1, 1, 1, 5], "AUTH_ERROR, AUTH_TOOWEAK; check the security of the export (sec=)"),
        // MSG_ACCEPTED, AUTH_NONE, PROG_UNAVAIL.
        (&[1, 0, 0, 0, 1], "an RPC server without the program"),
    ];
    for (words, expected) in turned_away {
        let mark = 0x8000_0000 | (words.len() as u32 * 4 + 4);
        let all = [&[mark, 0][..], words].concat();
        let (code, said) = code_and_error(&all.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>());
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_server_that_closes_at_once_is_reported_with_a_remedy() {
    let (code, said) = code_and_error(&[]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("check that an NFS server listens on this port"), "{said}");
}

#[test]
fn an_invalid_url_is_a_usage_error() {
    let output = probe(&["--server", "nas:/export"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no scheme; write rdma://HOST/EXPORT or tcp://HOST/EXPORT"), "{said}");
}

/// Answers NULL, and everything else with random words, like a server that is not an NFS server.
fn babble(mut stream: TcpStream, mut state: u64) -> Option<()> {
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark).ok()?;
        let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut call).ok()?;
        let mut reply = call[..4].to_vec();
        // Accepted, without a verifier, and a success. RFC 5531 section 9.
        [1, 0, 0, 0, 0_u32].iter().for_each(|word| reply.extend(word.to_be_bytes()));
        if call[20..24] != [0; 4] {
            for _ in 0..64 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                reply.extend(((state >> 32) as u32).to_be_bytes());
            }
        }
        let mark = 0x8000_0000 | reply.len() as u32;
        stream.write_all(&[&mark.to_be_bytes()[..], &reply].concat()).ok()?;
    }
}

/// It broke the protocol.
#[test]
fn server_with_unreadable_replies_is_faulty() {
    for seed in 0..20 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("tcp://{}/export", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || babble(stream.unwrap(), seed));
            }
        });
        let output = probe(&["--server", &url]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{seed}: {said}");
        assert!(said.contains(" unreadable replies; check that an NFS server listens there"), "{said}");
    }
}
