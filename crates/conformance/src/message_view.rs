//! A message with an RPC-over-RDMA header, as rules see it.

use std::ops::Deref;

use nfsrdma_dissectors::rpc::VERSION as RPC_VERSION;
use nfsrdma_dissectors::rpcrdma::{AnyDialectHeader, RdmaProc, RpcRdmaMessageType, WriteChunk};
use nfsrdma_flow::chunk::Chunk;
use nfsrdma_flow::transaction::{
    CallDirection, CapturedMessage, ChunkListCompleteness, EndpointRole, RpcMessageKind, RpcRdmaHeaderWords,
};

use crate::required_evidence::{RequiredCaptureEvidence, RequiredCaptureEvidenceSet};
use crate::rule_applicability::{RequiredMessageProperty, RequiredMessagePropertySet};
use crate::transaction_view::ConformanceTransaction;

/// A Call or a Reply with an RPC-over-RDMA header, and the Transaction that it belongs to.
pub(crate) struct ConformanceMessage<'t> {
    pub(crate) transaction: &'t ConformanceTransaction<'t>,
    pub(crate) kind: RpcMessageKind,
    pub(crate) record: &'t CapturedMessage,
    pub(crate) words: RpcRdmaHeaderWords,
}

impl ConformanceTransaction<'_> {
    /// Returns a message, if it has an RPC-over-RDMA header.
    pub(crate) fn message(&self, kind: RpcMessageKind) -> Option<ConformanceMessage<'_>> {
        let record = self.transaction.message(kind)?;
        Some(ConformanceMessage { transaction: self, kind, record, words: record.rpcrdma? })
    }

    /// Returns the Call, if it has a version 1 header with a known procedure.
    pub(crate) fn version1_call(&self) -> Option<ConformanceMessage<'_>> {
        self.message(RpcMessageKind::Call).filter(|call| call.version1().is_some())
    }
}

impl<'t> ConformanceMessage<'t> {
    /// Returns `true` if the message has this procedure, in RPC-over-RDMA version 1.
    pub(crate) fn is_proc(&self, proc: RdmaProc) -> bool {
        self.words.message_type == RpcRdmaMessageType::Version1(proc)
    }

    pub(crate) fn is_call(&self) -> bool {
        self.kind == RpcMessageKind::Call
    }

    pub(crate) fn sender(&self) -> EndpointRole {
        let requester = self.transaction.requester();
        if self.is_call() { requester } else { requester.peer() }
    }

    /// Returns the header words of a version 1 header with a known procedure.
    pub(crate) fn version1(&self) -> Option<RpcRdmaHeaderWords> {
        (self.words.dialect.is_version1() && self.record.unknown_header().is_none()).then_some(self.words)
    }

    pub(crate) fn has_complete_lists(&self) -> bool {
        self.record.chunk_lists() == Some(ChunkListCompleteness::Complete)
    }

    /// Returns `true` if all bytes of the message were captured.
    pub(crate) fn is_whole(&self) -> bool {
        self.record.gaps.is_empty() && self.record.bytes.len() >= self.record.length
    }

    pub(crate) fn inline_rpc_version(&self) -> Option<u32> {
        let is_inline_call = self.is_call() && !self.record.is_nomsg();
        let word = self.record.inline_bytes().get(8..12).filter(|_| is_inline_call)?;
        word.try_into().ok().map(u32::from_be_bytes)
    }

    /// Returns `true` if the message is not decoded to its end, or has another version of RPC.
    fn is_undecodable(&self) -> bool {
        let summary = self.transaction.summary;
        let error = if self.is_call() { summary.call_error } else { summary.reply_error };
        error.is_some() || self.inline_rpc_version().is_some_and(|version| version != RPC_VERSION)
    }

    pub(crate) fn subjects(&self) -> RequiredMessagePropertySet {
        let view = self.transaction;
        // Lists that the capture lacks may have chunks.
        let may_have_chunks = !self.has_complete_lists();
        RequiredMessagePropertySet::default()
            .with(RequiredMessageProperty::Call, self.is_call())
            .with(RequiredMessageProperty::Reply, !self.is_call())
            .with(RequiredMessageProperty::Version1, self.version1().is_some())
            .with(RequiredMessageProperty::RdmaError, self.record.is_rdma_error())
            .with(RequiredMessageProperty::LongMessage, self.record.is_nomsg())
            .with(RequiredMessageProperty::Reverse, self.is_reverse())
            .with(RequiredMessageProperty::ReadChunks, may_have_chunks || !self.read_chunks().is_empty())
            .with(RequiredMessageProperty::WriteChunks, view.may_have_write_chunks())
            .with(RequiredMessageProperty::Chunks, !self.record.has_no_chunks())
            .with(RequiredMessageProperty::Protected, view.is_protected())
            .with(RequiredMessageProperty::Invalidation, self.record.invalidated_handle.is_some())
            .with(RequiredMessageProperty::UnusualHeader, view.has_unusual_header(self.record))
            .with(RequiredMessageProperty::Undecodable, self.is_undecodable())
            .with(RequiredMessageProperty::NullProcedure, view.summary.procedure == Some(0))
            .with(RequiredMessageProperty::RepeatedCall, view.transaction.retry_of.is_some())
    }

    /// Returns the evidence that the message provides, in a Transaction that provides `transaction`.
    pub(crate) fn evidence(&self, transaction: RequiredCaptureEvidenceSet) -> RequiredCaptureEvidenceSet {
        // The chunks of a Call are offered, those of a Reply are returned.
        let has_lists = self.has_complete_lists()
            && transaction.provides(RequiredCaptureEvidenceSet::of(&[RequiredCaptureEvidence::MessageKind]));
        transaction
            .without(RequiredCaptureEvidence::ChunkLists)
            .without(RequiredCaptureEvidence::WholeMessage)
            .with(RequiredCaptureEvidence::ChunkLists, has_lists)
            .with(RequiredCaptureEvidence::WholeMessage, self.is_whole())
    }

    /// Returns the decoded header; `None` if neither message has chunks, or if it is truncated or malformed.
    pub(crate) fn header(&self) -> Option<&'t AnyDialectHeader<'t>> {
        self.transaction.header(self.kind)
    }

    pub(crate) fn read_chunks(&self) -> &'t [Chunk] {
        let transaction: &'t _ = self.transaction.transaction;
        if self.is_call() { &transaction.read_chunks } else { &transaction.reply_read_chunks }
    }

    /// Returns the bytes in the Reply chunk in the header of the message: offered by a Call, returned by a Reply.
    pub(crate) fn reply_chunk_bytes(&self) -> Option<u64> {
        self.header()?.reply_chunk().map(WriteChunk::length)
    }

    pub(crate) fn is_reverse(&self) -> bool {
        self.transaction.transaction.direction == CallDirection::Reverse
    }
}

impl<'t> Deref for ConformanceMessage<'t> {
    type Target = CapturedMessage;

    fn deref(&self) -> &CapturedMessage {
        self.record
    }
}
