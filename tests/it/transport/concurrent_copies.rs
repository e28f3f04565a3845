//! Several concurrent copies of the captured clients, and the transport options that reach them.

use std::io::Cursor;
use std::sync::Arc;

use nfsrdma_mock_server::{MockConnectionSettings, MockTransport, MockTransportFault};
use nfsrdma_replay::run::{ReplayClientCopy, ReplayOptions, ReplayReport, StepCounts, run_all};
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_rpc::{ConnectOptions, RpcClientConnectionId, RpcClientTransport};

use super::generated_traces::{Kind, Made, Planned, made, target};
use super::pacing::Timed;

fn reads(count: u64) -> Made {
    made((0..count).map(|n| Planned { kind: Kind::Read(0), time: n * 10, latency: 5, client: 0 }))
}

/// Runs `copies` copies of a trace at once.
fn run(made: &Made, transport: &mut MockTransport, copies: usize) -> ReplayReport {
    let open = || ReplayTraceReader::open(Cursor::new(&made.trace[..])).unwrap();
    let mut traces: Vec<_> = (0..copies).map(|_| (open(), open())).collect();
    let seeded = &made.seeded;
    let parties = traces.iter_mut().map(|(steps, contents)| ReplayClientCopy { steps, contents, seeded });
    run_all(
        parties.collect(),
        transport,
        &target(ConnectOptions::default()),
        &super::auxiliary_programs::none(),
        &mut (),
    )
    .unwrap()
}

#[test]
fn copies_have_connections_of_their_own_and_are_reported_together() {
    let made = reads(50);
    let mut transport = MockTransport::for_server(Arc::clone(&made.server), MockConnectionSettings::default());
    let report = run(&made, &mut transport, 4);
    assert_eq!(
        (report.steps.states, report.connections),
        (StepCounts { matched: 200, ..StepCounts::default() }, 4),
        "{report:?}"
    );
    assert!(report.is_consistent());
    assert_eq!((report.calls, report.compared.data_bytes), (200, 200 * 4096));
    for connection in 0..4 {
        assert_eq!(transport.counts(RpcClientConnectionId(connection)).unwrap().replies, 50);
    }
}

#[test]
fn a_mismatch_names_its_copy() {
    let made = reads(10);
    let mut transport = MockTransport::for_server(Arc::clone(&made.server), MockConnectionSettings::default());
    // One Call of each of the three is among every three.
    [3, 4, 5].into_iter().for_each(|after| transport.inject(after, MockTransportFault::OtherByte));
    let report = run(&made, &mut transport, 3);
    assert_eq!((report.steps.states.matched, report.mismatched()), (27, 3), "{report:?}");
    let mismatches = &report.steps.mismatches;
    let similar = mismatches.iter().flat_map(|mismatch| &mismatch.first_similar).map(|step| step.copy);
    let mut copies: Vec<u32> = mismatches.iter().map(|mismatch| mismatch.copy).chain(similar).collect();
    copies.sort_unstable();
    assert_eq!(copies, [1, 2, 3]);
}

#[test]
fn credits_and_inline_thresholds_reach_the_transport() {
    let made = reads(100);
    let wish = ConnectOptions { credits: 5, send_size: 2048, receive_size: 1024, ..ConnectOptions::default() };
    let mut transport = MockTransport::for_server(Arc::clone(&made.server), MockConnectionSettings::default());
    let report = made.run_over(&mut transport, &wish, &super::auxiliary_programs::none());
    assert_eq!(report.steps.states.matched, 100, "{report:?}");
    let rdma = transport.params(RpcClientConnectionId(0)).unwrap().rdma.clone().unwrap();
    assert_eq!((rdma.call_inline, rdma.reply_inline), (2048, 1024));
    assert_eq!(transport.credits(RpcClientConnectionId(0)).unwrap().requested, 5);
}

#[test]
fn chunks_are_those_of_the_capture_or_those_that_the_connection_needs() {
    let made = reads(10);
    for (captured_chunks, segments) in [(false, 1), (true, 2)] {
        let mut transport = Timed::new(&made, 0);
        let options = ReplayOptions { captured_chunks, ..super::auxiliary_programs::none() };
        let report = made.run_over(&mut transport, &ConnectOptions::default(), &options);
        assert_eq!(report.steps.states.matched, 10, "{report:?}");
        let written: Vec<_> = transport.submitted.iter().map(|submitted| submitted.write_segments).collect();
        assert_eq!(written, [segments; 10]);
        assert!(transport.submitted.iter().all(|submitted| !submitted.changed));
    }
}
