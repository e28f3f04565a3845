//! Long Replies and Reply chunks: RFC 8166 sections 3.5.3 and 4.3.3, RFC 8267 section 3.1.

use super::prelude::*;
use crate::ddp_eligible_operations::requests_inline;

/// Returns `true` if a Reply that is too long for a Send would have had to use the Reply chunk of its Call.
pub(super) fn has_unused_reply_chunk(message: &ConformanceMessage<'_>) -> bool {
    let chunk = message.transaction.transaction.reply_chunk.as_ref();
    !message.is_call() && chunk.is_some_and(|chunk| chunk.offered_bytes() > 0 || chunk.is_cut)
}

pub(super) fn reply_chunk_in_msg(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| !message.is_call() && !message.record.has_no_chunks())?;
    if !message.is_proc(RdmaProc::RDMA_MSG) {
        return None;
    }
    let returned = message.reply_chunk_bytes()?;
    let text = || format!("RDMA_MSG with {returned} in the Reply chunk", returned = CountWithNoun(returned, "byte"));
    Some(RuleVerdict::from_condition(returned == 0, text).at_field(field_names::RPCORDMA_REPLY))
}

/// Returns the least size in bytes of a Reply with all the data that the Call requests inline; `None` if the Call
/// requests none.
fn min_full_reply_bytes(view: &ConformanceTransaction<'_>) -> Option<u64> {
    let chunks = &view.transaction.write_chunks;
    let reads = view.eligible_reads()?;
    let inline = reads.iter().enumerate().filter(|(at, _)| chunks.get(*at).is_none_or(requests_inline));
    let total: u64 = inline.filter_map(|(_, count)| *count).map(u64::from).sum();
    let total = total + view.requested_entries_bytes();
    (total > 0).then_some(total)
}

fn reply_chunk_short(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    view.version1_call()?;
    let reply = view.message(RpcMessageKind::Reply)?;
    const GARBAGE_ARGS: RpcStatus = RpcStatus::Rpc(RpcReplyStatus::Accepted(AcceptStat::GARBAGE_ARGS));
    // draft-ietf-nfsv4-rfc5667bis-02 section 3 permits either answer.
    let error_name = match reply.header().and_then(AnyDialectHeader::error) {
        Some(RpcRdmaErrorCode::Version1(RpcRdma1ErrCode::ERR_CHUNK)) => "ERR_CHUNK",
        _ if view.summary.rpc_status == Some(GARBAGE_ARGS) => "GARBAGE_ARGS",
        _ => return None,
    };
    let offered_bytes = view.transaction.reply_chunk.as_ref().map_or(0, Chunk::offered_bytes);
    let threshold = view.inline_threshold_bytes(view.responder());
    let (Some(needed), Some(threshold)) = (min_full_reply_bytes(view), threshold) else {
        return Some(RuleVerdict::Unknown);
    };
    let available_bytes = offered_bytes.max(u64::from(threshold));
    Some(
        RuleVerdict::from_condition(needed <= available_bytes, || {
            format!(
                "Reply chunk of {offered} for a reply of up to {needed} of data, answered {error_name}",
                offered = CountWithNoun(offered_bytes, "byte"),
                needed = CountWithNoun(needed, "byte")
            )
        })
        .by(view.requester()),
    )
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/long-reply-not-used",
        section: "RFC 8166 section 3.5.3",
        requirement: "A reply that is longer than the inline threshold uses the Reply chunk of its call.",
        explanation: "The Send does not fit into the receive buffer: the transport ends the connection. Example: a READ \
            without Write chunk returns 5,000 bytes, and the server sends them inline: \"5092 bytes sent beside a Reply \
            chunk, inline threshold 4096\".",
        subjects: &[RequiredMessageProperty::Reply],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| has_unused_reply_chunk(message))?;
            if message.record.is_rdma_error() || !message.record.gaps.is_empty() {
                return None;
            }
            let Some(threshold) = message.transaction.inline_threshold_bytes(message.sender()) else {
                return Some(RuleVerdict::Unknown);
            };
            let length = message.record.length;
            Some(RuleVerdict::from_condition(length <= threshold as usize, || {
                format!(
                    "{length} sent beside a Reply chunk, inline threshold {threshold}",
                    length = CountWithNoun(length, "byte")
                )
            }))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/reply-chunk-in-msg",
        section: "RFC 8166 sections 3.5.3 and 4.3.3",
        requirement: "A reply with RDMA_MSG returns no bytes in the Reply chunk.",
        explanation: "A Reply chunk holds the whole payload, which RDMA_MSG has in the Send: the receiver finds two \
            payloads, and takes one. Example: a server writes the results into the Reply chunk, and sends them again in the \
            Send: \"RDMA_MSG with 28 bytes in the Reply chunk\".",
        subjects: &[RequiredMessageProperty::Reply, RequiredMessageProperty::Chunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(reply_chunk_in_msg),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/reply-chunk-short",
        section: "RFC 8166 section 4.3.3, RFC 8267 section 3.1",
        requirement: "A Reply chunk holds the longest possible reply.",
        explanation: "Judged where the Responder answered ERR_CHUNK or GARBAGE_ARGS, and the call requests more data than \
            the Reply chunk and the inline threshold hold. The RPC fails, and with it the operation of the application, unless the client \
            sends it again with a larger chunk. Example: a READDIR requests 8,192 bytes, and its Reply chunk has 8,000: \
            \"Reply chunk of 8000 bytes for a reply of up to 8192 bytes of data\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Reply, RequiredMessageProperty::Failure],
        needs: &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Transaction(reply_chunk_short),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/reply-chunk-unneeded",
        severity: Severity::Info,
        section: "RFC 8166 section 4.3.3",
        requirement: "Observation: a long reply would have fitted into a Send.",
        explanation: "A long reply costs an RDMA Write, a registration and an invalidation more than a Short one. The \
            Responder may send it inline although a Reply chunk was offered. Linux always uses an offered Reply chunk. \
            Example: READDIR of a small directory with a Reply chunk: \"1 long reply with 3044 bytes would have fitted \
            inline\".",
        subjects: &[RequiredMessageProperty::Reply, RequiredMessageProperty::LongMessage],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| !message.is_call())?;
            if !message.is_proc(RdmaProc::RDMA_NOMSG) {
                return None;
            }
            let returned = message.reply_chunk_bytes()?;
            let Some(threshold) = message.transaction.inline_threshold_bytes(message.sender()) else {
                return Some(RuleVerdict::Unknown);
            };
            let length = message.record.length as u64 + returned;
            let is_needed = returned == 0 || length > u64::from(threshold);
            Some(RuleVerdict::measured(is_needed, [length, threshold.into(), returned, 0], |aggregate| {
                let (tally, bytes) = (aggregate.tally("long reply", "long replies"), aggregate.totals[2]);
                let [length, threshold, ..] = aggregate.worst;
                format!(
                    "{tally} with {bytes} would have fitted inline; the longest Send would have {length} of the \
                     {threshold} allowed",
                    bytes = CountWithNoun(bytes, "byte"),
                    length = CountWithNoun(length, "byte")
                )
            }))
        }),
        ..Rule::PER_CONNECTION
    },
];
