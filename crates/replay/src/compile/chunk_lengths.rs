//! Chunk lengths and wire forms of a Transaction, and the size limits of its Reply.

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::nfs::{Procedure, v2, v3};
use nfsrdma_dissectors::xdr::XdrArray;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::Chunk;
use nfsrdma_flow::read_list::ReadList;
use nfsrdma_flow::transaction::CapturedMessage;
use nfsrdma_flow::transaction_message_decoding::{RpcStatus, RpcSummary};

use crate::trace::run_dependent_field_visitor::{VisitedNfs4Opcode, VisitedOperation};
use crate::trace::step::{CallAndReplyWireForms, ChunkSegmentLengths, TraceCallChunks, TraceMessageWireForm};

/// Margin in bytes for identifiers that are longer on the live server: a filehandle has up to 128 bytes, and a COMPOUND
/// may return several.
const REPLY_SIZE_MARGIN_BYTES: u32 = 1_024;
/// Maximum length of the text of a symbolic link in file systems (PATH_MAX), in bytes.
const MAX_LINK_TEXT_BYTES: u32 = 4_096;
/// Assumed length of a Reply that was not captured, in bytes.
const DEFAULT_REPLY_BYTES: u32 = 4_096;

/// Lengths of the segments of each chunk of a Call, and the lengths returned.
#[derive(Debug, Default)]
pub(super) struct CompiledChunkLengths {
    call: Vec<u32>,
    reads: Vec<Vec<u32>>,
    writes: Vec<Vec<u32>>,
    reply: Vec<u32>,
    returned_bytes: Vec<u32>,
}

impl CompiledChunkLengths {
    pub(super) fn from_transaction(transaction: &Transaction) -> Self {
        let segment_lengths = |chunk: &Chunk| chunk.segments.iter().map(|segment| segment.length).collect();
        let is_long = transaction.call.as_ref().is_some_and(CapturedMessage::is_nomsg);
        let mut lengths = Self::default();
        // In the order of the data items.
        for chunks in ReadList::new(&transaction.read_chunks).positions() {
            let segments = chunks.segments().map(|segment| segment.length).collect();
            match chunks.position() {
                Some(0) if is_long => lengths.call = segments,
                _ => lengths.reads.push(segments),
            }
        }
        lengths.writes = transaction.write_chunks.iter().map(segment_lengths).collect();
        lengths.reply = transaction.reply_chunk.as_ref().map(segment_lengths).unwrap_or_default();
        lengths.returned_bytes = transaction.write_chunks.iter().map(returned_length).collect();
        lengths
    }

    /// Returns the Read and Write chunks as lists, for [`Self::to_call_chunks`].
    pub(super) fn segment_length_lists(&self) -> [Vec<ChunkSegmentLengths<'_>>; 2] {
        [&self.reads, &self.writes].map(|chunks| {
            chunks.iter().map(|lengths| ChunkSegmentLengths { lengths: XdrArray::from(&lengths[..]) }).collect()
        })
    }

    pub(super) fn to_call_chunks<'s>(
        &'s self,
        [reads, writes]: &'s [Vec<ChunkSegmentLengths<'s>>; 2],
    ) -> TraceCallChunks<'s> {
        TraceCallChunks {
            call: ChunkSegmentLengths { lengths: XdrArray::from(&self.call[..]) },
            reads: XdrArray::from(&reads[..]),
            writes: XdrArray::from(&writes[..]),
            reply: ChunkSegmentLengths { lengths: XdrArray::from(&self.reply[..]) },
        }
    }

    pub(super) fn to_transfer(&self, transaction: &Transaction, summary: &RpcSummary) -> CallAndReplyWireForms<'_> {
        let wire_form = |message: Option<&CapturedMessage>| match message {
            Some(message) if message.is_rdma_error() => TraceMessageWireForm::ERROR,
            Some(message) if message.is_nomsg() => TraceMessageWireForm::NOMSG,
            Some(CapturedMessage { rpcrdma: Some(_), .. }) => TraceMessageWireForm::MESSAGE,
            _ => TraceMessageWireForm::RECORD,
        };
        let credits = |message: Option<&CapturedMessage>| {
            let header_words = message.and_then(|message| message.rpcrdma);
            header_words.and_then(|header_words| header_words.calls_in_flight_credits()).unwrap_or(0)
        };
        let (call, reply) = (transaction.call.as_ref(), transaction.reply.as_ref());
        CallAndReplyWireForms {
            call: wire_form(call),
            reply: wire_form(reply),
            credits: [credits(call), credits(reply)],
            rdma_error: match summary.rpc_status {
                Some(RpcStatus::RdmaError(code)) => code.number(),
                _ => 0,
            },
            returned: XdrArray::from(&self.returned_bytes[..]),
            returned_reply: transaction.reply_chunk.as_ref().map_or(0, returned_length),
        }
    }

    /// Returns the maximum number of bytes of the Reply message, and of each DDP-eligible result.
    pub(super) fn reply_needs(
        &self,
        procedure: Option<Procedure>,
        operations: &[VisitedOperation],
        reply_head: Option<u32>,
    ) -> (u32, Vec<u32>) {
        let mut message = reply_head.unwrap_or(DEFAULT_REPLY_BYTES).saturating_add(REPLY_SIZE_MARGIN_BYTES);
        let mut payloads = Vec::new();
        for operation in operations {
            let count = operation.count.unwrap_or(0);
            match (procedure, operation.number) {
                // A DDP-eligible result of the requested length.
                (_, VisitedNfs4Opcode::Fore(Operation::READ))
                | (Some(Procedure::V3(v3::Procedure::READ) | Procedure::V2(v2::Procedure::READ)), _) => {
                    payloads.push(count)
                }
                // The text of a symbolic link, which is DDP-eligible.
                (_, VisitedNfs4Opcode::Fore(Operation::READLINK))
                | (Some(Procedure::V3(v3::Procedure::READLINK) | Procedure::V2(v2::Procedure::READLINK)), _) => {
                    match self.writes.get(payloads.len()) {
                        Some(chunk) => {
                            let length = chunk.iter().fold(0_u32, |sum, length| sum.saturating_add(*length));
                            payloads.push(length.max(MAX_LINK_TEXT_BYTES));
                        }
                        None => message = message.saturating_add(MAX_LINK_TEXT_BYTES),
                    }
                }
                // The requested length in the message itself.
                (
                    _,
                    VisitedNfs4Opcode::Fore(
                        Operation::READDIR
                        | Operation::READ_PLUS
                        | Operation::LISTXATTRS
                        | Operation::GETDEVICEINFO
                        | Operation::LAYOUTGET,
                    ),
                )
                | (
                    Some(
                        Procedure::V3(v3::Procedure::READDIR | v3::Procedure::READDIRPLUS)
                        | Procedure::V2(v2::Procedure::READDIR),
                    ),
                    _,
                ) => message = message.saturating_add(count),
                _ => {}
            }
        }
        (message, payloads)
    }
}

fn returned_length(chunk: &Chunk) -> u32 {
    chunk.returned_bytes().map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
}
