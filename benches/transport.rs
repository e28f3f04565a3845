//! Cost of a small Call in the engine: submission, processing by the mock server, and receipt of the Reply, with many
//! in flight. `cargo bench -p benches --bench transport`
#![allow(missing_docs, reason = "criterion's macros make functions that have none")]
#![allow(clippy::expect_used, reason = "a benchmark says what is wrong by panicking")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport};
use nfsrdma_rpc::{
    CallTag, ConnectOptions, ConnectTarget, OutgoingRpcCall, RpcClientConnectionId, RpcClientTransport,
    RpcClientTransportEvent,
};

/// Number of Calls in flight.
const DEPTH: u32 = 64;

/// Encodes an NFSv3 Call without arguments, or with the root's filehandle. RFC 5531 section 9, RFC 1813 section 3.3.
fn message(procedure: u32, root: Option<&[u8]>) -> Vec<u8> {
    let words = [0, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0];
    let mut message: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    if let Some(root) = root {
        message.extend(16u32.to_be_bytes());
        message.extend(root);
    }
    message
}

/// Client that submits Calls and receives Replies.
struct Engine {
    transport: MockTransport,
    connection: RpcClientConnectionId,
    message: Vec<u8>,
    xid: u32,
    in_flight: u32,
}

impl Engine {
    fn new(procedure: u32) -> Self {
        let mut transport = MockTransport::new(MockConnectionSettings::default());
        let address = ([127, 0, 0, 1], 20049).into();
        let target = ConnectTarget { address, name: "mock".into(), options: ConnectOptions::default() };
        let connection = transport.connect(&target).expect("a connection");
        let root = transport.server().lock().expect("a server").root();
        let message = message(procedure, (procedure > 0).then_some(&root[..]));
        let mut engine = Self { transport, connection, message, xid: 0, in_flight: 0 };
        engine.submit();
        engine.drain(0);
        engine
    }

    fn submit(&mut self) {
        self.xid = self.xid.wrapping_add(1);
        if let Some(place) = self.message.first_chunk_mut() {
            *place = self.xid.to_be_bytes();
        }
        let call = OutgoingRpcCall::without_payloads(Xid(self.xid), CallTag(self.xid.into()), &self.message, 200);
        self.transport.submit(self.connection, &call).expect("a credit");
        self.in_flight += 1;
    }

    fn drain(&mut self, left: u32) {
        while self.in_flight > left {
            match self.transport.poll(None).expect("a transport") {
                Some(RpcClientTransportEvent::Reply(reply)) => {
                    black_box(reply.message);
                    self.in_flight -= 1;
                }
                Some(_) => {}
                None => break,
            }
        }
    }
}

fn small_calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("small call over the mock transport");
    group.throughput(Throughput::Elements(u64::from(DEPTH)));
    for (name, procedure) in [("NULL", 0), ("GETATTR", 1)] {
        let mut engine = Engine::new(procedure);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                (0..DEPTH).for_each(|_| engine.submit());
                engine.drain(0);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, small_calls);
criterion_main!(benches);
