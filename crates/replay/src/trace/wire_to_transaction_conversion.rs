//! The wire form of a call and its reply, converted to a [`Transaction`], so that the code that reads captures needs no
//! second representation of a message.
//!
//! A trace and a run know both messages and the lengths of the chunks. Facts that only packets have (memory offsets of
//! segments, time of each part) become zeros and the times of the whole message.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::{
    ChunkLists, RdmaBody, RdmaProc, RdmaSegment, ReadSegment, RpcRdma1Header, RpcRdmaError, RpcRdmaErrvers, VERSION,
    WriteChunk,
};
use nfsrdma_dissectors::xdr::{Encoder, Xdr, XdrArray, XdrLinkedList, roundup};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::{Chunk, ChunkSegment};
use nfsrdma_flow::rdma_operation::CapturedPacketPayload;
use nfsrdma_flow::transaction::{
    CallCreditUse, CallDirection, CapturedMessage, DeliveryEvidence, RpcRdmaHeaderWords, SiblingConnectionStatus,
    TransactionConnection,
};

use super::step::TraceMessageWireForm;

/// File data that was transferred in its own chunk.
#[derive(Clone, Debug, Default)]
pub struct ChunkedFilePayload {
    /// Lengths of the segments offered in the call, in bytes.
    pub segments: Vec<u32>,
    /// Position of a Read chunk (RFC 8166 section 3.4.5).
    pub position: u32,
    /// Number of bytes transferred; for a Write chunk the number that the reply returned. `None` without a reply.
    pub length: Option<u32>,
    /// The bytes, if they are known.
    pub content: Option<Vec<u8>>,
}

/// A call or a reply on the wire.
#[derive(Clone, Debug)]
pub struct ReconstructedWireMessage {
    /// The wire form of the message.
    pub form: TraceMessageWireForm,
    /// Credits requested or granted; 0 without RDMA.
    pub credits: u32,
    /// Frame number; 0 if unknown.
    pub frame: u64,
    /// Times of the first and the last byte sent, in nanoseconds since 1970.
    pub times_ns: [u64; 2],
    /// The RPC message without the data in chunks of its own.
    pub message: Vec<u8>,
    /// `true` if `message` is complete.
    pub is_complete: bool,
}

/// A call and its reply.
#[derive(Clone, Debug)]
pub struct ReconstructedWireTransaction {
    /// Index of the transaction.
    pub index: u64,
    /// Index of the transaction that this one repeats; 0 if none.
    pub repeats: u64,
    /// The connection.
    pub connection: TransactionConnection,
    /// The direction of the call.
    pub direction: CallDirection,
    /// The call.
    pub call: Option<ReconstructedWireMessage>,
    /// The reply.
    pub reply: Option<ReconstructedWireMessage>,
    /// Segment lengths of the Position-Zero Read chunk of a Long Call.
    pub call_chunk: Vec<u32>,
    /// The Read chunks.
    pub reads: Vec<ChunkedFilePayload>,
    /// The Write chunks.
    pub writes: Vec<ChunkedFilePayload>,
    /// Segment lengths of the Reply chunk that was offered; empty if there was none.
    pub reply_chunk: Vec<u32>,
    /// Number of bytes returned in the Reply chunk.
    pub returned_bytes: u32,
    /// rdma_err of an RDMA_ERROR. RFC 8166 section 4.5.
    pub rdma_error: u32,
}

/// Length added for an incomplete message, whose real length is unknown: large enough that every length in it is
/// plausible.
const ASSUMED_MISSING_BYTES: usize = 64 << 20;
/// ERR_VERS. RFC 8166 section 4.5.1.
const ERR_VERS: u32 = 1;

impl ReconstructedWireTransaction {
    /// Converts to the transaction that the packets would have given.
    pub fn into_transaction(self) -> Transaction {
        let xid = |sent: &Option<ReconstructedWireMessage>| {
            sent.as_ref().and_then(|sent| sent.message.first_chunk()).map(|word| u32::from_be_bytes(*word))
        };
        let xid = Xid(xid(&self.call).or(xid(&self.reply)).unwrap_or(0));
        let has_reply = self.reply.is_some();
        let is_long = |sent: &Option<ReconstructedWireMessage>| {
            sent.as_ref().is_some_and(|sent| sent.form == TraceMessageWireForm::NOMSG)
        };
        let (is_long_call, is_long_reply) = (is_long(&self.call), is_long(&self.reply));
        let mut read_chunks = Vec::new();
        if is_long_call {
            let message = self.call.as_ref().map(|call| call.message.as_slice()).unwrap_or_default();
            let mut segments = self.call_chunk.clone();
            if segments.is_empty() {
                segments.push(length_of(message));
            }
            read_chunks.push(build_chunk(Some(0), &segments, None, Some(length_of(message)), Some(message), true));
        }
        for item in &self.reads {
            let content = item.content.as_deref();
            let moved = item.length.filter(|_| has_reply);
            read_chunks.push(build_chunk(Some(item.position), &item.segments, None, moved, content, false));
        }
        let is_answered = self.reply.as_ref().is_some_and(|reply| reply.form != TraceMessageWireForm::ERROR);
        let write_chunks = self.writes.iter().map(|item| {
            let returned = item.length.filter(|_| is_answered);
            build_chunk(None, &item.segments, returned, returned, item.content.as_deref(), false)
        });
        let write_chunks: Vec<_> = write_chunks.collect();
        let reply_chunk = (!self.reply_chunk.is_empty()).then(|| {
            let message = self.reply.as_ref().filter(|_| is_long_reply);
            let message = message.map(|reply| reply.message.as_slice());
            let returned = is_answered.then_some(self.returned_bytes);
            build_chunk(None, &self.reply_chunk, returned, returned, message, true)
        });
        let call_lists = ReconstructedChunkLists::of(&read_chunks, &write_chunks, reply_chunk.as_ref(), |s| s.length);
        let call = self.call.map(|call| build_message_record(call, xid, 0, &call_lists));
        let used = reply_chunk.as_ref().filter(|_| is_long_reply);
        let reply_lists = ReconstructedChunkLists::of(&[], &write_chunks, used, |s| s.returned_length.unwrap_or(0));
        let reply = self.reply.map(|reply| build_message_record(reply, xid, self.rdma_error, &reply_lists));
        Transaction {
            index: self.index,
            connection: self.connection,
            direction: self.direction,
            xid,
            call,
            reply,
            read_chunks,
            write_chunks,
            reply_chunk,
            reply_read_chunks: Vec::new(),
            is_done: false,
            has_connection_ended: false,
            unanswered_at_end: 0,
            siblings: SiblingConnectionStatus::None,
            stalls: Vec::new(),
            set_up: None,
            quiet_ns: None,
            retry_of: (self.repeats != 0).then_some(self.repeats),
            credit_use: CallCreditUse::default(),
            has_suspected_access: false,
            is_misframed: false,
            is_reply_ambiguous: false,
            repeats_call: false,
            has_results_of_other: false,
            has_other_reply_header: false,
            is_answer_refused: false,
            shares_memory: false,
        }
    }
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Builds a chunk that transferred `transferred_bytes` bytes, which fill its segments in order.
fn build_chunk(
    position: Option<u32>,
    lengths: &[u32],
    returned: Option<u32>,
    transferred_bytes: Option<u32>,
    content: Option<&[u8]>,
    is_message: bool,
) -> Chunk {
    let segments = lengths.iter().map(|length| ChunkSegment { length: *length, ..ChunkSegment::default() }).collect();
    let mut chunk = Chunk { position, segments, ..Chunk::default() };
    let mut remaining_bytes = transferred_bytes.unwrap_or(0);
    let mut rest = content.unwrap_or_default();
    if content.is_some() {
        chunk.retain_payload(is_message);
    }
    for segment in &mut chunk.segments {
        let length = remaining_bytes.min(segment.length);
        remaining_bytes -= length;
        segment.returned_length = returned.map(|_| length);
        let (bytes, after) = rest.split_at(rest.len().min(length as usize));
        rest = after;
        segment.add(0, &CapturedPacketPayload { bytes, length }, &[FrameNumber(0)]);
    }
    chunk
}

/// The chunk lists of a transport header.
struct ReconstructedChunkLists {
    reads: Vec<ReadSegment>,
    writes: Vec<Vec<RdmaSegment>>,
    reply: Option<Vec<RdmaSegment>>,
}

impl ReconstructedChunkLists {
    fn of(reads: &[Chunk], writes: &[Chunk], reply: Option<&Chunk>, length: fn(&ChunkSegment) -> u32) -> Self {
        let targets = |chunk: &Chunk| -> Vec<RdmaSegment> {
            let target = |segment| RdmaSegment { handle: Handle(0), length: length(segment), offset: 0 };
            chunk.segments.iter().map(target).collect()
        };
        let entries = |chunk: &Chunk| {
            let position = chunk.position.unwrap_or(0);
            targets(chunk).into_iter().map(move |target| ReadSegment { position, target })
        };
        Self {
            reads: reads.iter().flat_map(entries).collect(),
            writes: writes.iter().map(targets).collect(),
            reply: reply.map(targets),
        }
    }

    fn header(&self, sent: &ReconstructedWireMessage, xid: Xid, rdma_error: u32) -> Vec<u8> {
        let writes: Vec<_> = self.writes.iter().map(|targets| chunk(targets)).collect();
        let lists = ChunkLists {
            rdma_reads: XdrLinkedList::from(&self.reads[..]),
            rdma_writes: XdrLinkedList::from(&writes[..]),
            rdma_reply: self.reply.as_deref().map(chunk),
        };
        let rdma_body = match (sent.form, rdma_error) {
            (TraceMessageWireForm::ERROR, ERR_VERS) => {
                RdmaBody::Error(RpcRdmaError::Vers(RpcRdmaErrvers { rdma_vers_low: VERSION, rdma_vers_high: VERSION }))
            }
            (TraceMessageWireForm::ERROR, _) => RdmaBody::Error(RpcRdmaError::Chunk),
            (TraceMessageWireForm::NOMSG, _) => RdmaBody::Nomsg(lists),
            _ => RdmaBody::Msg(lists),
        };
        let header = RpcRdma1Header { rdma_xid: xid, rdma_vers: VERSION, rdma_credit: sent.credits, rdma_body };
        let mut encoder = Encoder::new();
        header.encode(&mut encoder);
        encoder.finish().0
    }
}

fn chunk(targets: &[RdmaSegment]) -> WriteChunk<'_> {
    WriteChunk { target: XdrArray::from(targets) }
}

fn build_message_record(
    sent: ReconstructedWireMessage,
    xid: Xid,
    rdma_error: u32,
    lists: &ReconstructedChunkLists,
) -> CapturedMessage {
    let is_rdma = sent.form != TraceMessageWireForm::RECORD;
    let header = if is_rdma { lists.header(&sent, xid, rdma_error) } else { Vec::new() };
    let proc = match sent.form {
        TraceMessageWireForm::NOMSG => RdmaProc::RDMA_NOMSG,
        TraceMessageWireForm::ERROR => RdmaProc::RDMA_ERROR,
        _ => RdmaProc::RDMA_MSG,
    };
    let rpcrdma = is_rdma.then_some(RpcRdmaHeaderWords::version1(proc, sent.credits));
    let rpc_at = Some(header.len());
    let mut bytes = header;
    if matches!(sent.form, TraceMessageWireForm::RECORD | TraceMessageWireForm::MESSAGE) {
        bytes.extend_from_slice(&sent.message);
    }
    let time = |nanoseconds: u64| Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX));
    let [begin, end] = sent.times_ns;
    CapturedMessage {
        sends: 1,
        frames: (sent.frame > 0).then_some(FrameNumber(sent.frame)).into_iter().collect(),
        time: time(begin),
        end_time: time(end),
        delivery_evidence: DeliveryEvidence::Assumed,
        copies: 1,
        retransmissions: 0,
        stall: None,
        rpcrdma,
        length: if sent.is_complete || sent.form == TraceMessageWireForm::NOMSG {
            bytes.len()
        } else {
            bytes.len() + ASSUMED_MISSING_BYTES
        },
        bytes,
        gaps: Vec::new(),
        invalidated_handle: None,
        rpc_offset: rpc_at,
        is_kind_known: true,
        is_refused: false,
    }
}

/// Returns the number of bytes of an item in its message, with XDR padding (RFC 4506 section 4.10).
pub(super) fn padded(length: u32) -> usize {
    length as usize + roundup(length as usize)
}
