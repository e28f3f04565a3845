//! Servers that violate the protocol during a replay are named, and their data is not reported as a fault of this
//! program.

use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfsrdma_mock_server::server::{MockReply, MockServer};
use nfsrdma_replay::run::{ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_rpc::tcp::TcpTransport;
use serde_json::Value as Json;

use super::client::target;
use super::mock_server_faults::Work;
use super::program::program;
use super::proxy::Proxy;
use super::proxy::injected_faults::FaultInjector;
use crate::captures;
use crate::schema::{assert_keeps, validator};

/// Function that returns the replacement of a Reply: the record with its mark, or `None` for the correct one.
type Instead = fn(call: &[u8], turn: usize) -> Option<Vec<u8>>;

/// Replays a trace over TCP on a server that replaces some Replies.
fn replayed(instead: Instead, test: &str) -> ReplayReport {
    let work = Work::of("rxe-v41", 4, test);
    let server = Mutex::new(work.server.lock().unwrap().clone());
    let turn = AtomicUsize::new(0);
    let proxy = Proxy::framing(FaultInjector::honest(), move |call| {
        let mut answer = MockReply::default();
        server.lock().unwrap().call(nfsrdma_dissectors::xdr::Cursor::new(call), &mut answer);
        let honest = answer.complete_message();
        let mark = 0x8000_0000 | honest.len() as u32;
        instead(call, turn.fetch_add(1, Ordering::Relaxed))
            .unwrap_or_else(|| [&mark.to_be_bytes()[..], &honest].concat())
    });
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents, mut transport) = (open(), open(), TcpTransport::new());
    let options = ReplayOptions {
        order: ReplayOrder::Serial,
        timeout: Duration::from_secs(2),
        checks_tree: false,
        tag: "violations".into(),
        ..super::auxiliary_programs::none()
    };
    let target = target(proxy.port);
    run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut ()).unwrap()
}

#[test]
fn rfc5531_section_11_a_record_of_two_gibibytes_is_named() {
    let report = replayed(|_, turn| (turn == 40).then(|| vec![0xff; 4]), "two-gibibytes");
    let printed: Vec<_> = report.protocol.violations.keys().collect();
    assert_eq!(
        printed,
        ["the server sent a record mark of 2147483647 bytes: it breaks the protocol (RFC 5531 section 11)"]
    );
    assert!(report.is_different() && report.protocol.own.is_empty());
    // The replay continued on another connection.
    assert!(report.recovery.reconnects >= 1 && report.replayed() > 100, "{:?}", report.steps.states);
}

#[test]
fn random_bytes_are_named() {
    let noise = |_: &[u8], turn: usize| {
        (turn == 40).then(|| (0..997_u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8 | 0x40).collect())
    };
    let report = replayed(noise, "random-bytes");
    assert!(
        report.protocol.violations.keys().any(|how| how.contains("breaks the protocol")),
        "{:?}",
        report.protocol.violations
    );
    assert!(report.is_different() && report.protocol.own.is_empty());
}

/// Returns a COMPOUND Reply with only SEQUENCE and this status.
fn refused(call: &[u8], status: u32) -> Vec<u8> {
    let words = [1, 0, 0, 0, 0, status, 0, 1, 53, status];
    let record = [&call[..4], &words.map(u32::to_be_bytes).concat()].concat();
    [&(0x8000_0000 | record.len() as u32).to_be_bytes()[..], &record].concat()
}

#[test]
fn rfc8881_section_2_10_6_1_an_unfounded_seq_misordered_is_a_server_violation() {
    let report = replayed(|call, turn| (turn == 60).then(|| refused(call, 10_063)), "misordered");
    assert_eq!(report.protocol.own, [""; 0]);
    assert!(
        report.protocol.violations.keys().any(|how| how.contains("NFS4ERR_SEQ_MISORDERED")),
        "{:?}",
        report.protocol.violations
    );
    assert!(report.is_different());
}

/// A second Reply to a Call is not a violation, as a server may answer a Call that was sent again. It is named.
#[test]
fn messages_that_are_not_used_are_counted_by_reason() {
    let server: Arc<Mutex<MockServer>> = Arc::default();
    let behind = Arc::clone(&server);
    let proxy = Proxy::framing(FaultInjector::honest(), move |call| {
        let mut answer = MockReply::default();
        behind.lock().unwrap().call(nfsrdma_dissectors::xdr::Cursor::new(call), &mut answer);
        let message = answer.complete_message();
        let mark = 0x8000_0000 | message.len() as u32;
        [&mark.to_be_bytes()[..], &message].concat().repeat(2)
    });
    server.lock().unwrap().port = proxy.port;
    let url = format!("tcp://127.0.0.1:{0}/?vers=3&rpcbindport={0}", proxy.port);
    let path = captures::path("rxe-v3");
    let arguments = ["check", "--server", &url, path.to_str().unwrap()];
    let text = String::from_utf8(program(&arguments).stdout).unwrap();
    assert!(text.contains(" messages: no call in flight has its XID\n"), "{text}");
    let output = program(&[&arguments[..], &["-T", "json"]].concat());
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let discarded = report["discarded"].as_u64().unwrap();
    assert!(discarded > 100, "{report:#}");
    assert_eq!(report["discard_reasons"]["no call in flight has its XID"], discarded, "{report:#}");
    assert_keeps(&validator("replay.schema.json"), &report, "replay");
}
