//! Recorder that writes the messages of a run as a trace, equal to the one compiled from a capture of the run.
//!
//! Frame numbers count the messages in the order in which they were sent and received. The messages of seeding and of
//! the prologue, and those after the last step, are not recorded.

use std::cell::RefCell;
use std::io::{self, Seek, Write};
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use nfsrdma_dissectors::address::{Address, VirtualNetwork};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpcrdma::{ChunkLists, RpcRdma1Header, RpcRdmaError, WriteChunk};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, roundup};
use nfsrdma_flow::transaction::{CallDirection, ConnectionTransport, Endpoint, TransactionConnection};
use nfsrdma_rpc::rpcrdma_framing::{CallChunkPlan, ChunkRegions, ContiguousChunkMemory, OutgoingCallChunks};
use nfsrdma_rpc::{
    CallTag, NegotiatedRpcRdmaParameters, NegotiatedTransportParams, OutgoingRpcCall, PayloadContentLocation,
    RdmaFabric, RpcClientConnectionId, TransportKind, TransportReply,
};
use rustc_hash::FxHashMap;

use crate::compile::{ReplayRunCallMetadata, TraceCompiler};
use crate::trace::file_format::TraceFileDataRetention;
use crate::trace::step::TraceMessageWireForm;
use crate::trace::wire_to_transaction_conversion::{
    ChunkedFilePayload, ReconstructedWireMessage, ReconstructedWireTransaction,
};

/// Maximum number of bytes of file data kept for Calls in flight; data beyond it is recorded without its content.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// Memory of the compiler of the recording in bytes.
const COMPILER_BYTES: usize = 160 << 20;
/// First stream numbers of callbacks and of programs other than NFS; NFS connections have lower ones.
const FIRST_STREAM_NUMBERS: [u64; 2] = [1 << 32, 1 << 33];

/// A Call that was sent.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRecorderSentCall<'a> {
    /// The Call.
    pub call: &'a OutgoingRpcCall<'a>,
    /// Connection that carries it.
    pub connection: RpcClientConnectionId,
    /// Negotiated parameters of the connection.
    pub terms: &'a NegotiatedTransportParams,
    /// Requested credits; 0 without RDMA.
    pub credits: u32,
    /// Number of the client copy, from 0.
    pub client_copy: u32,
    /// Captured client that the Call replays.
    pub client: u32,
    /// Indices of the operations, from 0, that have the filehandle of the run's root instead of PUTROOTFH.
    pub roots: &'a [u32],
    /// The `id` of its step.
    pub step: u64,
}

/// A TCP stream other than the NFS connections. Numbers count from 0 and are not reused.
#[derive(Clone, Copy, Debug)]
pub enum CallbackOrAuxiliaryStream {
    /// Callback connection opened by the server. RFC 7530 section 10.2.
    Callback(u64),
    /// Connection to MOUNT, NLM or the port mapper.
    Program(u64),
}

/// A Call on such a stream and its answer.
#[derive(Clone, Copy, Debug)]
pub struct CallbackOrAuxiliaryCallAndReply<'a> {
    /// The stream.
    pub stream: CallbackOrAuxiliaryStream,
    /// Address and port of the caller.
    pub caller: SocketAddr,
    /// Address and port of the callee.
    pub callee: SocketAddr,
    /// Number of the client copy, from 0, and captured client that called or was called.
    pub client_key: (u32, u32),
    /// The `id` of its step; 0 if it is not a step.
    pub step: u64,
    /// The RPC message.
    pub message: &'a [u8],
    /// The answer, if there was one.
    pub answer: Option<&'a [u8]>,
    /// Time of the Call and time of its answer.
    pub times: [Instant; 2],
}

/// Totals of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunRecordingTotals {
    /// Number of Calls, each with its Reply if there was one.
    pub steps: u64,
    /// Bytes of file data of Calls recorded without content, because too much was in flight.
    pub dropped_bytes: u64,
}

/// Records the messages of a run.
pub trait ReplayMessageRecorder {
    /// Records a Call that was sent.
    fn record_call(&mut self, sent_call: &ReplayRecorderSentCall<'_>);

    /// Records the Reply to a Call.
    fn record_reply(&mut self, reply: &TransportReply<'_>);

    /// Records that a Call gets no Reply, except possibly this error.
    fn record_lost(&mut self, tag: CallTag, error: Option<&RpcRdmaError>);

    /// Records a Call of the server, and the answer if there is one.
    fn record_callback(&mut self, connection: RpcClientConnectionId, message: &[u8], reply_message: Option<&[u8]>);

    /// Records a Call on a stream other than the NFS connections, with its answer if there is one.
    fn record_exchange(&mut self, exchange: &CallbackOrAuxiliaryCallAndReply<'_>);

    /// Completes the recording.
    ///
    /// # Errors
    /// Returns the first write error; messages after it were not recorded.
    fn finish(self: Box<Self>) -> io::Result<RunRecordingTotals>;
}

/// Recorder of everything sent and received, if there is one.
pub(super) type OptionalReplayRecorder = Option<Box<dyn ReplayMessageRecorder>>;

/// Passes the recorder to `record`, if there is one.
pub(super) fn with_recorder(
    recorder: &RefCell<OptionalReplayRecorder>,
    record: impl FnOnce(&mut dyn ReplayMessageRecorder),
) {
    if let Some(recorder) = &mut *recorder.borrow_mut() {
        record(&mut **recorder);
    }
}

#[derive(Debug)]
struct RecorderPendingCall {
    wire_transaction: ReconstructedWireTransaction,
    /// Number of the client copy, and of the captured client.
    client: (u32, u32),
    roots: Vec<u32>,
    /// The `id` of its step; 0 if it is not a step.
    step: u64,
    kept: usize,
}

/// Recorder that writes a trace.
#[derive(Debug)]
pub struct ReplayRunTraceRecorder<W> {
    compiler: TraceCompiler<W>,
    name: String,
    pending_calls: FxHashMap<CallTag, RecorderPendingCall>,
    /// Name of each connection, with its client copy and captured client.
    connections: FxHashMap<RpcClientConnectionId, (TransactionConnection, (u32, u32))>,
    frames: u64,
    steps: u64,
    kept_bytes: usize,
    not_kept: u64,
    /// Start of the recording in nanoseconds since 1970.
    started: (u64, Instant),
    error: Option<io::Error>,
    encoder: Vec<u8>,
    finish_writer: fn(W) -> io::Result<()>,
}

impl<W: Write + Seek> ReplayRunTraceRecorder<W> {
    /// Starts the recording of a run of the trace with this name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn new(writer: W, retention: TraceFileDataRetention, name: &str) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            compiler: TraceCompiler::new(writer, retention, COMPILER_BYTES)?,
            name: format!("run of {name}"),
            pending_calls: FxHashMap::default(),
            connections: FxHashMap::default(),
            frames: 0,
            steps: 0,
            kept_bytes: 0,
            not_kept: 0,
            started: (u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Instant::now()),
            error: None,
            encoder: Vec::new(),
            finish_writer: |mut writer| writer.flush(),
        })
    }

    /// Sets the function that is called with the writer after the recording is complete.
    pub fn with_finish(self, finish: fn(W) -> io::Result<()>) -> Self {
        Self { finish_writer: finish, ..self }
    }

    /// Returns a time in nanoseconds since 1970.
    fn time(&self, moment: Instant) -> u64 {
        let (start_ns, start) = self.started;
        let elapsed = moment.saturating_duration_since(start);
        start_ns.saturating_add(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    fn next_message(
        &mut self,
        moment: Instant,
        form: TraceMessageWireForm,
        credits: u32,
        message: impl Into<Vec<u8>>,
    ) -> ReconstructedWireMessage {
        self.frames += 1;
        ReconstructedWireMessage {
            form,
            credits,
            frame: self.frames,
            times_ns: [self.time(moment); 2],
            message: message.into(),
            is_complete: true,
        }
    }

    fn write_exchange(
        &mut self,
        (connection, direction): (TransactionConnection, CallDirection),
        (client, step): ((u32, u32), u64),
        [call, reply]: [Option<ReconstructedWireMessage>; 2],
    ) {
        let wire_transaction =
            ReconstructedWireTransaction { reply, ..transaction_without_chunks(connection, direction, call) };
        self.write(RecorderPendingCall { wire_transaction, client, roots: Vec::new(), step, kept: 0 });
    }

    fn write(&mut self, finished: RecorderPendingCall) {
        let RecorderPendingCall { mut wire_transaction, client, roots, step, kept } = finished;
        self.kept_bytes = self.kept_bytes.saturating_sub(kept);
        if self.error.is_some() {
            return;
        }
        self.steps += 1;
        wire_transaction.index = self.steps;
        let context = ReplayRunCallMetadata { client, root_operations: &roots, step };
        self.error = self.compiler.add_recorded(&wire_transaction.into_transaction(), context).err();
    }

    /// Returns the content of a payload, if the limit allows it.
    fn keep_payload(&mut self, source: &PayloadContentLocation<'_>) -> Option<Vec<u8>> {
        match source {
            PayloadContentLocation::Copied(bytes) if self.kept_bytes + bytes.len() <= MAX_KEPT_BYTES => {
                self.kept_bytes += bytes.len();
                return Some(bytes.to_vec());
            }
            PayloadContentLocation::Copied(bytes) => self.not_kept += bytes.len() as u64,
            PayloadContentLocation::Shared { length, .. } => self.not_kept += u64::from(*length),
        }
        None
    }
}

/// Returns a Call that has no chunks and no Reply yet.
fn transaction_without_chunks(
    connection: TransactionConnection,
    direction: CallDirection,
    call: Option<ReconstructedWireMessage>,
) -> ReconstructedWireTransaction {
    ReconstructedWireTransaction {
        index: 0,
        repeats: 0,
        connection,
        direction,
        call,
        reply: None,
        call_chunk: Vec::new(),
        reads: Vec::new(),
        writes: Vec::new(),
        reply_chunk: Vec::new(),
        returned_bytes: 0,
        rdma_error: 0,
    }
}

#[derive(Debug, Default)]
struct SentCallChunkLengths {
    call: Vec<u32>,
    /// Read chunk of each payload; `None` if it is inline.
    reads: Vec<Option<Vec<u32>>>,
    writes: Vec<Vec<u32>>,
    reply: Vec<u32>,
    form: Option<TraceMessageWireForm>,
}

/// Returns the chunks that the transport offers for a Call with these parameters, as in the header that it writes.
fn offered_chunk_lengths(
    call: &OutgoingRpcCall<'_>,
    params: &NegotiatedRpcRdmaParameters,
    bytes: &mut Vec<u8>,
) -> Option<SentCallChunkLengths> {
    let plan = CallChunkPlan::for_call(call, params).ok()?;
    let region = |length: usize| ContiguousChunkMemory {
        length: u32::try_from(length).unwrap_or(u32::MAX),
        ..ContiguousChunkMemory::default()
    };
    let payloads = || (0..).map(|index| plan.is_read(index)).zip(call.payloads);
    let read = || payloads().filter_map(|(is_read, payload)| is_read.then_some(payload));
    let reads: Vec<_> = read().map(|payload| region(payload.length())).collect();
    let read_chunk_bytes: usize = read().map(|payload| payload.padded()).sum();
    let written = (0..OutgoingRpcCall::MAX_PAYLOADS).filter(|index| plan.is_written(*index));
    let writes: Vec<_> = written.map(|index| region(CallChunkPlan::write_length(call, index) as usize)).collect();
    let regions = ChunkRegions {
        call: plan.is_long_call.then(|| region(call.length() - read_chunk_bytes)),
        reads: &reads,
        writes: &writes,
        reply: plan.reply.map(|length| region(length as usize)),
    };
    let mut encoder = Encoder::reusing(std::mem::take(bytes));
    OutgoingCallChunks::default().write_header(call, &plan, 0, &regions, &mut encoder);
    *bytes = encoder.finish().0;
    let header = RpcRdma1Header::decode(&mut Cursor::new(bytes), &mut NullFieldObserver).ok()?;
    let lists = header.chunk_lists()?;
    let at = |position: u32| -> Vec<u32> {
        let segments = lists.rdma_reads.iter().filter(|segment| segment.position == position);
        segments.map(|segment| segment.target.length).collect()
    };
    Some(SentCallChunkLengths {
        call: at(0),
        reads: payloads().map(|(is_read, payload)| is_read.then(|| at(payload.position))).collect(),
        writes: lists.rdma_writes.iter().map(|chunk| segment_lengths(&chunk)).collect(),
        reply: lists.rdma_reply.as_ref().map(segment_lengths).unwrap_or_default(),
        form: Some(match plan.is_long_call {
            true => TraceMessageWireForm::NOMSG,
            false => TraceMessageWireForm::MESSAGE,
        }),
    })
}

fn segment_lengths(chunk: &WriteChunk<'_>) -> Vec<u32> {
    chunk.target.iter().map(|segment| segment.length).collect()
}

fn endpoint(address: Option<SocketAddr>) -> Endpoint {
    Endpoint {
        address: address.map_or(Address::Unknown, |address| Address::Ip(address.ip().to_canonical())),
        port: address.map(|address| address.port().into()),
    }
}

fn connection_name(connection: RpcClientConnectionId, params: &NegotiatedTransportParams) -> TransactionConnection {
    TransactionConnection {
        number: u64::from(connection.0) + 1,
        transport: match params.kind {
            TransportKind::Tcp => ConnectionTransport::Tcp,
            TransportKind::Rdma(RdmaFabric::Infiniband) => ConnectionTransport::InfiniBand,
            TransportKind::Rdma(RdmaFabric::Iwarp) => ConnectionTransport::Iwarp,
            // The mock transport is RDMA without packets.
            TransportKind::Rdma(RdmaFabric::Roce) | TransportKind::Loopback => ConnectionTransport::RoceV2,
        },
        client: endpoint(params.local),
        server: endpoint(Some(params.peer)),
        tenant: VirtualNetwork::NONE,
    }
}

fn message_form(form: nfsrdma_rpc::RpcMessageWireForm) -> TraceMessageWireForm {
    match form {
        nfsrdma_rpc::RpcMessageWireForm::Record => TraceMessageWireForm::RECORD,
        nfsrdma_rpc::RpcMessageWireForm::Message => TraceMessageWireForm::MESSAGE,
        nfsrdma_rpc::RpcMessageWireForm::Nomsg => TraceMessageWireForm::NOMSG,
    }
}

impl<W: Write + Seek> ReplayMessageRecorder for ReplayRunTraceRecorder<W> {
    fn record_call(&mut self, sent_call: &ReplayRecorderSentCall<'_>) {
        if self.error.is_some() {
            return;
        }
        let call = sent_call.call;
        let mut bytes = std::mem::take(&mut self.encoder);
        let chunks = sent_call.terms.rdma.as_ref().and_then(|params| offered_chunk_lengths(call, params, &mut bytes));
        self.encoder = bytes;
        let chunks = chunks.unwrap_or_default();
        let before = self.kept_bytes;
        let (mut message, mut from, mut payload_bytes) = (Vec::with_capacity(call.length()), 0, 0);
        let mut reads = Vec::new();
        for (index, payload) in call.payloads.iter().enumerate() {
            let at = (payload.position as usize).saturating_sub(payload_bytes).clamp(from, call.message.len());
            payload_bytes += payload.padded();
            message.extend_from_slice(call.message.get(from..at).unwrap_or_default());
            from = at;
            let length = u32::try_from(payload.length()).unwrap_or(u32::MAX);
            if let Some(Some(segments)) = chunks.reads.get(index) {
                let (segments, position) = (segments.clone(), payload.position);
                let content = self.keep_payload(&payload.source);
                reads.push(ChunkedFilePayload { segments, position, length: Some(length), content });
            } else if let PayloadContentLocation::Copied(content) = payload.source {
                message.extend_from_slice(content);
                message.resize(message.len() + roundup(content.len()), 0);
            } else {
                message.resize(message.len() + payload.padded(), 0);
            }
        }
        message.extend_from_slice(call.message.get(from..).unwrap_or_default());
        // Inline data uses memory, too.
        self.kept_bytes += message.len();
        let name = connection_name(sent_call.connection, sent_call.terms);
        let client = (sent_call.client_copy, sent_call.client);
        self.connections.insert(sent_call.connection, (name, client));
        let writes = chunks.writes.into_iter();
        let writes = writes.map(|segments| ChunkedFilePayload { segments, ..ChunkedFilePayload::default() });
        let form = chunks.form.unwrap_or(TraceMessageWireForm::RECORD);
        let sent = self.next_message(Instant::now(), form, sent_call.credits, message);
        let wire_transaction = ReconstructedWireTransaction {
            call_chunk: chunks.call,
            reads,
            writes: writes.collect(),
            reply_chunk: chunks.reply,
            ..transaction_without_chunks(name, CallDirection::Forward, Some(sent))
        };
        let (kept, roots) = (self.kept_bytes - before, sent_call.roots.to_vec());
        let pending = RecorderPendingCall { wire_transaction, client, roots, step: sent_call.step, kept };
        self.pending_calls.insert(call.tag, pending);
    }

    fn record_reply(&mut self, reply: &TransportReply<'_>) {
        let Some(mut pending) = self.pending_calls.remove(&reply.tag) else { return };
        let credits = reply.header.as_ref().map_or(0, |header| header.rdma_credit);
        let transaction = &mut pending.wire_transaction;
        let lists = reply.header.as_ref().and_then(RpcRdma1Header::chunk_lists);
        let returned = |lists: &ChunkLists<'_>, at: usize| {
            let chunk = lists.rdma_writes.iter().nth(at)?;
            u32::try_from(chunk.length()).ok()
        };
        for (at, item) in transaction.writes.iter_mut().enumerate() {
            item.length = Some(lists.and_then(|lists| returned(lists, at)).unwrap_or(0));
            item.content = reply.payloads.items().get(at).and_then(|item| item.bytes).map(<[u8]>::to_vec);
        }
        if reply.form == nfsrdma_rpc::RpcMessageWireForm::Nomsg {
            transaction.returned_bytes = u32::try_from(reply.message.len()).unwrap_or(u32::MAX);
        }
        let form = message_form(reply.form);
        transaction.reply = Some(self.next_message(Instant::now(), form, credits, reply.message));
        self.write(pending);
    }

    fn record_lost(&mut self, tag: CallTag, error: Option<&RpcRdmaError>) {
        let Some(mut pending) = self.pending_calls.remove(&tag) else { return };
        if let Some(error) = error {
            pending.wire_transaction.rdma_error = error.tag().0;
            let reply = self.next_message(Instant::now(), TraceMessageWireForm::ERROR, 0, []);
            pending.wire_transaction.reply = Some(reply);
        }
        self.write(pending);
    }

    fn record_callback(&mut self, connection: RpcClientConnectionId, message: &[u8], reply_message: Option<&[u8]>) {
        let Some((name, client)) = self.connections.get(&connection).copied() else { return };
        let form = match name.transport.is_rdma() {
            true => TraceMessageWireForm::MESSAGE,
            false => TraceMessageWireForm::RECORD,
        };
        let now = Instant::now;
        let call = Some(self.next_message(now(), form, 0, message));
        let reply = reply_message.map(|reply_message| self.next_message(now(), form, 0, reply_message));
        self.write_exchange((name, CallDirection::Reverse), (client, 0), [call, reply]);
    }

    fn record_exchange(&mut self, exchange: &CallbackOrAuxiliaryCallAndReply<'_>) {
        let [callbacks, programs] = FIRST_STREAM_NUMBERS;
        let number = match exchange.stream {
            CallbackOrAuxiliaryStream::Callback(number) => callbacks.saturating_add(number),
            CallbackOrAuxiliaryStream::Program(number) => programs.saturating_add(number),
        };
        let name = TransactionConnection {
            number,
            transport: ConnectionTransport::Tcp,
            client: endpoint(Some(exchange.caller)),
            server: endpoint(Some(exchange.callee)),
            tenant: VirtualNetwork::NONE,
        };
        let [call_time, reply_time] = exchange.times;
        let form = TraceMessageWireForm::RECORD;
        let call = Some(self.next_message(call_time, form, 0, exchange.message));
        let reply = exchange.answer.map(|message| self.next_message(reply_time, form, 0, message));
        let of_step = (exchange.client_key, exchange.step);
        self.write_exchange((name, CallDirection::Forward), of_step, [call, reply]);
    }

    fn finish(mut self: Box<Self>) -> io::Result<RunRecordingTotals> {
        let mut unanswered: Vec<CallTag> = self.pending_calls.keys().copied().collect();
        unanswered.sort_unstable_by_key(|tag| tag.0);
        unanswered.into_iter().for_each(|tag| self.record_lost(tag, None));
        let Self { compiler: trace_compiler, name, steps, not_kept, error, finish_writer: finish, .. } = *self;
        if let Some(error) = error {
            return Err(error);
        }
        let (writer, _) = trace_compiler.finish(&[name])?;
        finish(writer)?;
        Ok(RunRecordingTotals { steps, dropped_bytes: not_kept })
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::rpc::Xid;
    use nfsrdma_rpc::{
        CapturedCallChunkLayout, ConnectOptions, DdpEligibleArgument, ReplySizeLimits, RequestedCallForm,
    };

    use super::*;

    /// Returns the chunks of a Call with one argument of 10,000 bytes behind 64 of its message, and one result.
    fn chunks_of(result: u32, shape: RequestedCallForm<'_>) -> SentCallChunkLengths {
        let data = Some(ConnectOptions::default().private_data());
        let terms = NegotiatedRpcRdmaParameters::negotiate(data, data);
        let mut message = vec![0; 80];
        message[..4].copy_from_slice(&9u32.to_be_bytes());
        let content = vec![7; 10_000];
        let payloads = [DdpEligibleArgument { position: 64, source: PayloadContentLocation::Copied(&content) }];
        let reply = ReplySizeLimits { message_bytes: 256, payloads: &[result] };
        let call = OutgoingRpcCall {
            xid: Xid(9),
            tag: CallTag(1),
            message: &message,
            payloads: &payloads,
            reply,
            requested_form: shape,
        };
        offered_chunk_lengths(&call, &terms, &mut Vec::new()).unwrap()
    }

    #[test]
    fn the_chunks_of_a_call_are_those_of_its_header() {
        let SentCallChunkLengths { call, reads, writes, reply, form } = chunks_of(65_536, RequestedCallForm::Fitting);
        assert_eq!((reads, writes), (vec![Some(vec![10_000])], vec![vec![65_536]]));
        assert_eq!((call, reply, form), (vec![], vec![], Some(TraceMessageWireForm::MESSAGE)));
    }

    #[test]
    fn chunks_that_are_those_of_a_capture_are_recorded_segment_by_segment() {
        let captured = CapturedCallChunkLayout {
            reads: &[&[4_096, 8_192]],
            writes: &[&[1_024, 1_024]],
            ..CapturedCallChunkLayout::default()
        };
        let found = chunks_of(2_048, RequestedCallForm::Captured(captured));
        assert_eq!(found.reads, [Some(vec![4_096, 5_904])]);
        assert_eq!(found.writes, [[1_024, 1_024]]);
        // A Long Call includes its payload.
        let captured = CapturedCallChunkLayout { call: &[16_384], ..CapturedCallChunkLayout::default() };
        let found = chunks_of(0, RequestedCallForm::Captured(captured));
        assert_eq!(
            (found.call, found.reads, found.form),
            (vec![10_080], vec![None], Some(TraceMessageWireForm::NOMSG))
        );
    }
}
