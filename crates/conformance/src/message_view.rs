//! A message with an RPC-over-RDMA header, as rules see it.

use std::ops::Deref;

use nfsrdma_dissectors::flow::chunk::Chunk;
use nfsrdma_dissectors::flow::transaction::{
    CallDirection, ChunkListState, ConnectionRole, HeaderWords, MessageRecord, RpcMessageKind,
};
use nfsrdma_dissectors::rpcrdma::{MessageHeader, MessageType, RdmaProc, WriteChunk};

use crate::rule::{Evidence, EvidenceSet};
use crate::transaction_view::TransactionView;

/// A Call or a Reply with an RPC-over-RDMA header, and the Transaction that it belongs to.
pub struct MessageView<'t> {
    /// The Transaction.
    pub transaction: &'t TransactionView<'t>,
    /// Call or Reply.
    pub kind: RpcMessageKind,
    /// The message.
    pub record: &'t MessageRecord,
    /// Header words.
    pub words: HeaderWords,
}

impl<'t> MessageView<'t> {
    /// Returns `true` if the message has this procedure, in RPC-over-RDMA version 1.
    pub(crate) fn is_proc(&self, proc: RdmaProc) -> bool {
        self.words.message_type == MessageType::Version1(proc)
    }

    /// Returns `true` for a Call.
    pub fn is_call(&self) -> bool {
        self.kind == RpcMessageKind::Call
    }

    /// Returns the side that sent the message.
    pub fn sender(&self) -> ConnectionRole {
        let requester = self.transaction.requester();
        if self.is_call() { requester } else { requester.peer() }
    }

    /// Returns the header words of a version 1 header with a known procedure.
    pub fn version1(&self) -> Option<HeaderWords> {
        (self.words.dialect.is_version1() && self.record.unknown_header().is_none()).then_some(self.words)
    }

    /// Returns `true` if the chunk lists are complete in the capture.
    pub fn has_complete_lists(&self) -> bool {
        self.record.chunk_lists() == Some(ChunkListState::Complete)
    }

    /// Returns `true` if all bytes of the message were captured.
    pub fn is_whole(&self) -> bool {
        self.record.gaps.is_empty() && self.record.bytes.len() >= self.record.length
    }

    /// Returns the evidence that the message provides, in a Transaction that provides `transaction`.
    pub(crate) fn evidence(&self, transaction: EvidenceSet) -> EvidenceSet {
        transaction
            .without(Evidence::ChunkLists)
            .without(Evidence::WholeMessage)
            .with(Evidence::ChunkLists, self.has_complete_lists())
            .with(Evidence::WholeMessage, self.is_whole())
    }

    /// Returns the decoded header.
    pub fn header(&self) -> Option<MessageHeader<'t>> {
        self.record.header()
    }

    /// Returns the Read chunks of the message.
    pub fn read_chunks(&self) -> &'t [Chunk] {
        let transaction: &'t _ = self.transaction.transaction;
        if self.is_call() { &transaction.read_chunks } else { &transaction.reply_read_chunks }
    }

    /// Returns the Write chunks in the header of the message, as lists of handle, length in bytes and offset.
    pub fn write_chunks(&self) -> Vec<Vec<HeaderSegment>> {
        let Some(header) = self.header() else { return Vec::new() };
        header.writes().iter().map(|chunk| segments(&chunk)).collect()
    }

    /// Returns the Reply chunk in the header of the message.
    pub fn reply_chunk(&self) -> Option<Vec<HeaderSegment>> {
        Some(segments(self.header()?.reply_chunk()?))
    }

    /// Returns `true` if the direction of the Call is reverse.
    pub fn is_reverse(&self) -> bool {
        self.transaction.transaction.direction == CallDirection::Reverse
    }
}

impl<'t> Deref for MessageView<'t> {
    type Target = MessageRecord;

    fn deref(&self) -> &MessageRecord {
        self.record
    }
}

/// A segment in the header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSegment {
    /// Handle.
    pub handle: u32,
    /// Length in bytes: offered by a Call, returned by a Reply.
    pub length: u32,
    /// Offset.
    pub offset: u64,
}

fn segments(chunk: &WriteChunk<'_>) -> Vec<HeaderSegment> {
    let segments = chunk.target.iter();
    segments
        .map(|segment| HeaderSegment {
            handle: segment.handle.0,
            length: segment.length,
            offset: segment.offset,
        })
        .collect()
}
