//! Parts of a Transaction that are not in the capture.

use super::chunk::{Chunk, ChunkKind, ChunkSegment};
use super::read_list::ReadList;
use super::transaction::{CapturedMessage, MissingPart, RpcMessageKind, Transaction};
use super::transaction_message_decoding::NeededReads;

impl Transaction {
    /// Returns the parts that are not in the capture, or were refused, in protocol order.
    pub fn missing_parts(&self) -> Vec<MissingPart> {
        let mut missing = Vec::new();
        if self.call.is_none() {
            missing.push(MissingPart::Message(RpcMessageKind::Call));
        }
        let mut inline = |kind, message: &CapturedMessage| {
            let Some(rpc_at) = message.rpc_offset else {
                missing.push(MissingPart::Header(kind));
                return;
            };
            let uncaptured = message.bytes.len() as u64..message.length as u64;
            let uncaptured = (message.gaps.is_empty() && !uncaptured.is_empty()).then_some(uncaptured);
            let rpc = |at: u64| at.saturating_sub(rpc_at as u64);
            let gaps = message.gaps.iter().cloned().chain(uncaptured);
            missing.extend(gaps.map(|gap| MissingPart::Bytes(kind, rpc(gap.start)..rpc(gap.end))));
        };
        if let Some(call) = &self.call {
            inline(RpcMessageKind::Call, call);
        }
        if let Some(reply) = &self.reply {
            inline(RpcMessageKind::Reply, reply);
        }
        missing.extend(self.missing_reads());
        let mut chunk = |kind, index, chunk: &Chunk, expected: fn(&ChunkSegment) -> u64| {
            missing.extend(chunk.missing(expected).into_iter().map(|bytes| MissingPart::Chunk(kind, index, bytes)));
        };
        for (index, write) in self.write_chunks.iter().enumerate() {
            chunk(ChunkKind::Write, index, write, ChunkSegment::returned_bytes);
        }
        if let Some(reply_chunk) = &self.reply_chunk {
            chunk(ChunkKind::Reply, 0, reply_chunk, ChunkSegment::returned_bytes);
        }
        for (index, read) in self.reply_read_chunks.iter().enumerate() {
            let ranges = read.missing(ChunkSegment::offered_bytes).into_iter();
            missing.extend(ranges.map(|bytes| MissingPart::ReplyRead(index, bytes)));
        }
        if self.reply.is_none() {
            missing.push(MissingPart::Message(RpcMessageKind::Reply));
        }
        if let Some(kind) = self.refused_message() {
            missing.push(MissingPart::Refused(kind));
        }
        missing
    }

    /// Returns the bytes of Read chunks that are not in the capture. An RDMA Read request without response, a gap, or a
    /// Reply that shows that the Responder needed the data prove that they were moved.
    fn missing_reads(&self) -> Vec<MissingPart> {
        let is_whole = |chunk: &Chunk| chunk.missing(ChunkSegment::offered_bytes).is_empty();
        if self.read_chunks.iter().all(is_whole) {
            return Vec::new();
        }
        let is_answered = self.reply.as_ref().is_some_and(|reply| !reply.is_rdma_error());
        let needed = if is_answered && !self.repeats_call {
            self.with_messages(|messages| messages.needed_reads())
        } else {
            NeededReads::NONE
        };
        let mut missing = Vec::new();
        for chunks in ReadList::new(&self.read_chunks).positions() {
            let offered_bytes = chunks.offered_bytes();
            let mut needed_bytes = needed.bytes_at(chunks.position(), offered_bytes).unwrap_or(offered_bytes);
            for (index, read) in chunks.indexed_chunks() {
                let ranges = read.missing_reads(needed_bytes).into_iter();
                missing.extend(ranges.map(|bytes| MissingPart::Chunk(ChunkKind::Read, index, bytes)));
                needed_bytes = needed_bytes.saturating_sub(read.offered_bytes());
            }
        }
        // In the order of the list.
        missing.sort_by_key(|part| if let MissingPart::Chunk(_, index, _) = part { *index } else { 0 });
        missing
    }
}
