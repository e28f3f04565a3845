//! Traces generated in memory from Calls to the mock server and its Replies. The benchmark of a replayed operation uses
//! them, too.

use std::io::Cursor as Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::{Opaque, Text, XdrArray};
use nfsrdma_mock_server::server::MockServer;
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport};
use nfsrdma_replay::containment::{Containment, ContainmentCheckedRpcClient};
use nfsrdma_replay::run::{ReplayOptions, ReplayReport, run};
use nfsrdma_replay::seed::SeededTree;
use nfsrdma_replay::seed::file_server_client::{NewObjectKind, VersionIndependentNfsClient};
use nfsrdma_replay::seed::v3::Nfs3Client;
use nfsrdma_replay::trace::file_format::{TraceFileDataRetention, TraceProvenance};
use nfsrdma_replay::trace::{
    CallAndReplyWireForms, ChunkSegmentLengths, GssProtection, MessageCaptureCompleteness, NONE, PayloadContentState,
    ReplayTraceReader, ReplayTraceWriter, SubstitutableMessageSlot, TraceCallChunks, TraceCallConnectionAndSession,
    TraceMessage, TraceMessageWireForm, TracePayload, TraceProcedure, TraceReplySizeLimits, TraceSlotValueKind,
    TraceStep, TraceStepOrigin, VariableUseKind,
};
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient};
use nfsrdma_rpc::{
    CallTag, ConnectOptions, ConnectTarget, OutgoingRpcCall, ReplySizeLimits, RequestedCallForm, RpcClientTransport,
    RpcClientTransportEvent,
};

/// Bytes of one READ.
const PIECE: u32 = 4096;
const FILE: usize = 1 << 16;

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// GETATTR of the root.
    Getattr,
    /// READ of 4 KiB of a file of 64 KiB.
    Read(u32),
}

/// Call, and the server's Reply.
struct Known {
    kind: Kind,
    call: Vec<u8>,
    reply: Vec<u8>,
    data: Vec<u8>,
}

/// Planned step of a trace: its time in nanoseconds, and its duration in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) kind: Kind,
    pub(crate) time: u64,
    pub(crate) latency: u64,
    pub(crate) client: u32,
}

/// Trace, and its server.
pub(crate) struct Made {
    pub(crate) trace: Vec<u8>,
    pub(crate) server: Arc<Mutex<MockServer>>,
    pub(crate) seeded: SeededTree,
}

pub(crate) fn target(wish: ConnectOptions) -> ConnectTarget {
    ConnectTarget { address: ([127, 0, 0, 1], 20049).into(), name: "loopback".into(), options: wish }
}

/// Encodes a Call of NFSv3. RFC 5531 section 9, RFC 1813 sections 3.3.1 and 3.3.6.
fn message(kind: Kind, handle: &[u8]) -> Vec<u8> {
    let procedure = if kind == Kind::Getattr { 1 } else { 6 };
    let mut words = vec![1, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0, handle.len() as u32];
    words.extend(handle.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]])));
    if let Kind::Read(offset) = kind {
        words.extend([0, offset, PIECE]);
    }
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns the server's Reply: the message, and the data.
fn answered(transport: &mut MockTransport, message: &[u8], needs: &[u32]) -> (Vec<u8>, Vec<u8>) {
    let connection = transport.connect(&target(ConnectOptions::default())).unwrap();
    let reply = ReplySizeLimits { message_bytes: 512, payloads: needs };
    let call = OutgoingRpcCall {
        xid: Xid(1),
        tag: CallTag(1),
        message,
        payloads: &[],
        reply,
        requested_form: RequestedCallForm::Fitting,
    };
    transport.submit(connection, &call).unwrap();
    loop {
        if let RpcClientTransportEvent::Reply(reply) = transport.poll(None).unwrap().unwrap() {
            let data = reply.payloads.items().first().and_then(|item| item.bytes).unwrap_or_default().to_vec();
            return (reply.message.to_vec(), data);
        }
    }
}

/// Creates a trace of these steps.
pub(crate) fn made(steps: impl IntoIterator<Item = Planned>) -> Made {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let root = transport.server().lock().unwrap().root().to_vec();
    let connection = transport.connect(&target(ConnectOptions::default())).unwrap();
    let line = RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(7), Duration::from_secs(5));
    let mut containment = Containment::for_run(&SeededTree { root: root.clone(), ..SeededTree::default() }, "");
    let mut files = Nfs3Client::new(ContainmentCheckedRpcClient::new(line, &mut containment), root.clone());
    let file = files.make(&root, b"file", NewObjectKind::File, 0o644).unwrap();
    let content: Vec<u8> = (0..FILE).map(|at| (at / 4096 + at) as u8).collect();
    files.write(&file, 0, &content).unwrap();
    files.close();
    drop(files);

    let mut writer = ReplayTraceWriter::new(Bytes::new(Vec::new()), 1 << 20, 1 << 20).unwrap();
    let mut known: Vec<Known> = Vec::new();
    for (at, planned) in steps.into_iter().enumerate() {
        let kind = planned.kind;
        let handle = if kind == Kind::Getattr { &root } else { &file };
        let needs: &[u32] = if kind == Kind::Getattr { &[] } else { &[PIECE] };
        if !known.iter().any(|known| known.kind == kind) {
            let call = message(kind, handle);
            let (reply, data) = answered(&mut transport, &call, needs);
            known.push(Known { kind, call, reply, data });
        }
        let Known { call, reply, data, .. } = known.iter().find(|known| known.kind == kind).unwrap();
        let slots = [SubstitutableMessageSlot {
            at: 40,
            length: 4 + handle.len() as u32,
            value_kind: TraceSlotValueKind::FILEHANDLE,
            part: VariableUseKind::USED,
            is_counted: true,
            operation: 0,
            variable: u32::from(kind != Kind::Getattr),
            // As if an earlier step had provided it.
            definition: 1,
            place: 0,
        }];
        let hash = twox_hash::XxHash3_128::oneshot(data).to_be_bytes();
        let payloads = [TracePayload {
            at: reply.len() as u32,
            length: PIECE,
            is_inside: false,
            content: PayloadContentState::HASHED,
            hash,
            data: 0,
            operation: 0,
            file: 1,
            offset: 0,
        }];
        // The data of a READ came in one Write chunk of two segments.
        let chunks = [ChunkSegmentLengths { lengths: XdrArray::from(&[1024, PIECE][..]) }];
        let none = || ChunkSegmentLengths { lengths: XdrArray::default() };
        let step = TraceStep {
            origin: TraceStepOrigin {
                id: at as u64 + 1,
                repeats: 0,
                call_frame: at as u64 * 2 + 1,
                reply_frame: at as u64 * 2 + 2,
                time_ns: planned.time,
                latency_ns: planned.latency,
                run_of: 0,
            },
            caller: TraceCallConnectionAndSession {
                client: planned.client,
                server: 0,
                connection: u64::from(planned.client) + 1,
                is_reverse: false,
                clientid: NONE,
                session: NONE,
                slot: NONE,
                sequence: NONE,
                owner: NONE,
            },
            procedure: TraceProcedure {
                program: 100_003,
                version: 3,
                minor_version: NONE,
                number: if kind == Kind::Getattr { 1 } else { 6 },
                flavor: 0,
                protection: GssProtection::PLAIN,
            },
            call: TraceMessage {
                completeness: MessageCaptureCompleteness::WHOLE,
                head: Opaque(call),
                body: 40,
                end: call.len() as u32,
                slots: XdrArray::from(&slots[..]),
                payloads: XdrArray::default(),
            },
            reply: TraceMessage {
                completeness: MessageCaptureCompleteness::WHOLE,
                head: Opaque(reply),
                body: 24,
                end: reply.len() as u32,
                slots: XdrArray::default(),
                payloads: XdrArray::from(payloads.get(..needs.len()).unwrap()),
            },
            shape: TraceCallChunks {
                call: none(),
                reads: XdrArray::default(),
                writes: XdrArray::from(chunks.get(..needs.len()).unwrap()),
                reply: none(),
            },
            carried: CallAndReplyWireForms {
                call: TraceMessageWireForm::MESSAGE,
                reply: TraceMessageWireForm::MESSAGE,
                credits: [128; 2],
                rdma_error: 0,
                returned: XdrArray::default(),
                returned_reply: 0,
            },
            needs: TraceReplySizeLimits { message_bytes: 256, payloads: XdrArray::from(needs) },
        };
        writer.step(&step).unwrap();
    }
    let captures = [Text(b"made")];
    let about = TraceProvenance {
        program: Text(b"test"),
        captures: XdrArray::from(&captures[..]),
        keeping: TraceFileDataRetention::HASHED,
        key: 0,
    };
    let (bytes, _) = writer.begin_tables(&about).unwrap().finish().unwrap();
    let handles = [(0, root.clone()), (1, file)].into_iter().collect();
    let seeded = SeededTree { root, handles, ..SeededTree::default() };
    Made { trace: bytes.into_inner(), server: Arc::clone(transport.server()), seeded }
}

impl Made {
    /// Replays the trace on its server.
    pub(crate) fn run(&self, options: &ReplayOptions) -> ReplayReport {
        let mut transport = MockTransport::for_server(Arc::clone(&self.server), MockConnectionSettings::default());
        self.run_over(&mut transport, &ConnectOptions::default(), options)
    }

    /// Replays the trace over a transport.
    pub(crate) fn run_over(
        &self,
        transport: &mut dyn RpcClientTransport,
        wish: &ConnectOptions,
        options: &ReplayOptions,
    ) -> ReplayReport {
        let open = || ReplayTraceReader::open(Bytes::new(&self.trace[..])).unwrap();
        let (mut steps, mut contents) = (open(), open());
        let target = target(wish.clone());
        run(&mut steps, &mut contents, transport, &target, &self.seeded, options, &mut ()).unwrap()
    }
}
