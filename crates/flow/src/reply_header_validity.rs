//! The RPC-over-RDMA header of a Reply, compared with that of its Call. RFC 8166 sections 3.4.6, 4.5.1 and 4.6.1.

use nfsrdma_dissectors::rpcrdma::{
    AnyDialectHeader, RdmaBody, RdmaProc, RpcRdmaError, RpcRdmaMessageType, RpcTransferMode,
};

use super::chunk::Chunk;
use super::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use super::transaction::{CapturedMessage, ChunkListCompleteness, Transaction};

const INLINE: RpcRdmaMessageType = RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSG);
const PADDED: RpcRdmaMessageType = RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSGP);

impl RpcRdmaHeaderSummary {
    /// Returns `true` if this header cannot be that of the Reply to the Call of a Transaction: its chunks differ, it is
    /// RDMA_MSGP, the message is inline and its Reply chunk used, or it refuses a version that it supports.
    pub(super) fn contradicts_call(&self, transaction: &Transaction, reply: &CapturedMessage) -> bool {
        // A Call that was sent again may offer other memory.
        let Some(call) = transaction.call.as_ref().filter(|call| call.copies == 1) else { return false };
        if call.has_no_chunks() && reply.has_no_chunks() {
            return false;
        }
        let is_call_decoded = call.rpcrdma.is_some_and(|words| words.dialect.is_version1());
        if !is_call_decoded || !self.words.dialect.is_version1() || self.is_cut || self.is_unknown() {
            return false;
        }
        if self.words.transfer_mode == RpcTransferMode::Error {
            return supports_version_of(call, reply);
        }
        // RFC 5666 has padded messages.
        let is_padded = self.words.message_type == PADDED
            && self.read_chunks.is_empty()
            && call.rpcrdma.is_some_and(|words| words.message_type != PADDED);
        let has_message_twice = self.words.message_type == INLINE
            && self.reply_chunk.as_ref().is_some_and(|chunk| chunk.offered_bytes() > 0);
        is_padded || has_message_twice || !self.has_chunks_of(transaction)
    }

    /// Returns `true` if all chunks are copies of those of the Call, as far as it was captured. Unused chunks may come back
    /// in either form: without lengths (RFC 8166 section 4.3.2.2), or without segments (RFC 8267 section 6.4.1).
    pub(super) fn has_chunks_of(&self, transaction: &Transaction) -> bool {
        let Some(call) = &transaction.call else { return true };
        if call.chunk_lists() != Some(ChunkListCompleteness::Complete) || self.is_cut || self.is_unknown() {
            return true;
        }
        let is_copy = |(chunk, copy): (&Chunk, &Chunk)| copy.segments.is_empty() || has_memory_of(copy, chunk);
        self.write_chunks.len() <= transaction.write_chunks.len()
            && transaction.write_chunks.iter().zip(&self.write_chunks).all(is_copy)
            && match (&transaction.reply_chunk, &self.reply_chunk) {
                (Some(chunk), Some(copy)) => has_memory_of(copy, chunk),
                (None, Some(_)) => false,
                (_, None) => true,
            }
    }
}

/// Returns `true` if the segments of a chunk have the handles and offsets of those of another one.
fn has_memory_of(copy: &Chunk, chunk: &Chunk) -> bool {
    copy.segments.len() == chunk.segments.len() && { copy.segments.iter().zip(&chunk.segments) }
        .all(|(copy, segment)| (copy.handle, copy.offset) == (segment.handle, segment.offset))
}

/// Returns `true` if ERR_VERS names a range of versions that is empty, or has the version of the Call.
fn supports_version_of(call: &CapturedMessage, error: &CapturedMessage) -> bool {
    match (call.rpcrdma, error.header()) {
        (Some(words), Some(AnyDialectHeader::Version1(header))) => match &header.rdma_body {
            RdmaBody::Error(RpcRdmaError::Vers(range)) => {
                range.rdma_vers_low > range.rdma_vers_high
                    || (range.rdma_vers_low..=range.rdma_vers_high).contains(&words.version)
            }
            _ => false,
        },
        _ => false,
    }
}
