//! Performance: nothing is broken, but something costs time. One finding per connection.

use nfsrdma_flow::read_list::ReadList;

use super::prelude::*;

/// Bytes of a segment in a Write list, and in a Read list with its Position and discriminant. RFC 8166 section 4.1.2.
const WRITE_SEGMENT_BYTES: u64 = 16;
const READ_SEGMENT_BYTES: u64 = 24;
/// Bytes of the discriminant and the segment count of a Write chunk.
const WRITE_CHUNK_BYTES: u64 = 8;

/// Inline thresholds in bytes that [`threshold_would_save`] considers.
const LARGER_THRESHOLDS: [u64; 3] = [8 << 10, 16 << 10, 64 << 10];

/// Bytes of a segment below which the RDMA operations of a chunk cost more than its data: one packet of the largest
/// path MTU takes 4,096 bytes, and a registration has 16 pages at least.
const SMALL_SEGMENT_BYTES: u64 = 64 << 10;

/// Judges a message whose data items are in chunks: its length in bytes, had they been inline.
fn chunk_for_small(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_proc(RdmaProc::RDMA_MSG))?;
    let transaction = message.transaction.transaction;
    let chunks = match message.kind {
        RpcMessageKind::Call => &transaction.read_chunks,
        RpcMessageKind::Reply => &transaction.write_chunks,
    };
    let used = |chunk: &Chunk| match message.kind {
        RpcMessageKind::Call => chunk.offered_bytes(),
        RpcMessageKind::Reply => chunk.returned_bytes().unwrap_or(0),
    };
    let data: u64 = chunks.iter().map(used).sum();
    if data == 0 {
        return None;
    }
    let Some(threshold) = message.transaction.inline_threshold_bytes(message.sender()) else {
        return Some(RuleVerdict::Unknown);
    };
    let list_bytes: u64 = chunks
        .iter()
        .map(|chunk| match message.kind {
            RpcMessageKind::Call => READ_SEGMENT_BYTES * chunk.segments.len() as u64,
            RpcMessageKind::Reply => WRITE_CHUNK_BYTES + WRITE_SEGMENT_BYTES * chunk.segments.len() as u64,
        })
        .sum();
    let inline = (message.record.length as u64).saturating_sub(list_bytes) + data.next_multiple_of(4);
    let is_needed = inline > u64::from(threshold);
    let verdict = RuleVerdict::measured(is_needed, [data, inline, threshold.into(), 0], |aggregate| {
        let (tally, bytes) = (aggregate.tally("message", "messages"), aggregate.totals[0]);
        let [data, inline, threshold, _] = aggregate.worst;
        format!(
            "{tally} with {bytes} in chunks would have fitted inline; at most {data} in a chunk: inline, the Send \
             would have {inline} of the {threshold} allowed",
            bytes = CountWithNoun(bytes, "byte"),
            data = CountWithNoun(data, "byte"),
            inline = CountWithNoun(inline, "byte")
        )
    });
    Some(verdict.by(message.transaction.requester()))
}

fn threshold_would_save(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1().filter(|_| message.is_proc(RdmaProc::RDMA_NOMSG))?;
    let transaction = message.transaction.transaction;
    let payload = match message.kind {
        RpcMessageKind::Call => ReadList::new(&transaction.read_chunks).position_zero()?.offered_bytes(),
        RpcMessageKind::Reply => transaction.reply_chunk.as_ref()?.returned_bytes()?,
    };
    let Some(threshold) = message.transaction.inline_threshold_bytes(message.sender()) else {
        return Some(RuleVerdict::Unknown);
    };
    let length = message.record.length as u64 + payload;
    let enough = LARGER_THRESHOLDS.into_iter().find(|larger| length <= *larger);
    let saves = length > u64::from(threshold) && enough.is_some();
    let values = [length, threshold.into(), enough.unwrap_or_default(), payload];
    Some(RuleVerdict::measured(!saves, values, |aggregate| {
        let (tally, bytes) = (aggregate.tally("Long message", "Long messages"), aggregate.totals[3]);
        let [length, threshold, enough, _] = aggregate.worst;
        format!(
            "{tally} with {bytes} in chunks; at most {length}, inline threshold {threshold}: {enough} would suffice",
            bytes = CountWithNoun(bytes, "byte"),
            length = CountWithNoun(length, "byte")
        )
    }))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "perf/read-chunk-for-small",
        severity: Severity::Info,
        section: "RFC 8166 section 3.5.1",
        requirement: "Observation: data in a chunk would have fitted into the Send.",
        explanation: "A chunk costs a registration, an RDMA Read or Write, and an invalidation. Messages count whose data in \
            Read or Write chunks would have fitted inline. A client that knows the length of a file can request it without a \
            Write chunk. Example: READs of files of 1,000 bytes: \"inline, the Send would have 1108 bytes of the 4096 \
            allowed\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(chunk_for_small),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "perf/threshold-would-save",
        severity: Severity::Info,
        section: "RFC 8797 section 4.2",
        requirement: "Observation: a larger inline threshold would avoid Long messages.",
        explanation: "Long calls and long replies count that a threshold of 8, 16 or 64 KiB makes Short. Larger thresholds \
            take more memory for receive buffers: credits times threshold per connection. Example: a long reply of READDIR \
            with 5,044 bytes: \"at most 5092 bytes, inline threshold 4096: 8192 would suffice\".",
        subjects: &[RequiredMessageProperty::LongMessage],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(threshold_would_save),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "perf/no-invalidation",
        severity: Severity::Info,
        section: "RFC 8797 section 4.1",
        requirement: "Observation: a reply to a call with chunks invalidates none of its handles.",
        explanation: "Without Send With Invalidate, the Requester invalidates each handle with a work request of its own \
            before it completes the call. Look at the R bits of the private data. Example: the reply of a READ comes as a \
            plain Send: \"1 reply without invalidation: 1 segment to invalidate locally\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Transaction(|view| {
            view.version1_call()?;
            let segments = view.offered_chunks().flat_map(|chunk| &chunk.segments).count();
            // RDMA_ERROR returns no results: the Requester sends the Call again, or gives up.
            let reply = view.reply().filter(|reply| segments > 0 && !reply.is_rdma_error())?;
            let values = [segments as u64, 0, 0, 0];
            Some(RuleVerdict::measured(reply.invalidated_handle.is_some(), values, |aggregate| {
                let (tally, total) = (aggregate.tally("reply", "replies"), aggregate.totals[0]);
                format!(
                    "{tally} without invalidation: {total} to invalidate locally, {} per reply at most",
                    aggregate.worst[0],
                    total = CountWithNoun(total, "segment")
                )
            }))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "perf/many-segments",
        severity: Severity::Info,
        section: "RFC 8166 section 3.4.4",
        requirement: "Observation: a chunk has several short segments.",
        explanation: "Each segment is an RDMA operation and a registration of its own. Short segments come from clients that \
            register physical pages, or from scattered buffers. Example: the buffer of a READ is four pieces of 1,024 bytes: \
            \"the worst chunk has 4096 bytes in 4 segments, 1024 bytes on average\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Chunks],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call())?;
            let used = |chunk: &Chunk| chunk.segments.iter().filter(|segment| segment.length > 0).count() as u64;
            let chunks = message.transaction.offered_chunks();
            let mut chunks = chunks
                .map(|chunk| (used(chunk), chunk.offered_bytes()))
                .filter(|(segments, _)| *segments > 0)
                .peekable();
            chunks.peek()?;
            let scattered = chunks.find(|(segments, bytes)| *segments > 1 && bytes / segments < SMALL_SEGMENT_BYTES);
            let (segments, bytes) = scattered.unwrap_or_default();
            Some(RuleVerdict::measured(scattered.is_none(), [segments, bytes, 0, 0], |aggregate| {
                let (tally, [segments, bytes, ..]) = (aggregate.tally("call", "calls"), aggregate.worst);
                let average = bytes / segments.max(1);
                format!(
                    "{tally}; the worst chunk has {bytes} in {segments}, {average} on average",
                    bytes = CountWithNoun(bytes, "byte"),
                    segments = CountWithNoun(segments, "segment"),
                    average = CountWithNoun(average, "byte")
                )
            }))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "perf/serial-credits",
        severity: Severity::Info,
        section: "RFC 8166 section 3.3.1",
        requirement: "Observation: a grant permits one call in flight.",
        explanation: "With one credit, each call waits for the reply before it: the round trip limits the throughput. Look \
            at the server's number of receive buffers. Example: a server \
            with one receive buffer per connection: \"grant 1 in 1 of 4 replies\".",
        subjects: &[RequiredMessageProperty::Reply],
        needs: &[RequiredCaptureEvidence::MessageKind],
        check: RuleCheck::Message(|message| {
            let words = message.version1().filter(|_| !message.is_call() && !message.is_reverse())?;
            // rpcrdma/credit-zero judges a grant of zero.
            let credits = u64::from(words.credits);
            if credits == 0 {
                return None;
            }
            let verdict = RuleVerdict::measured(credits > 1, [credits, 0, 0, 0], |aggregate| {
                format!("grant 1 in {}", aggregate.tally("reply", "replies"))
            });
            Some(verdict.at_field(field_names::RPCORDMA_FLOW_CONTROL))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "perf/grant-is-echo",
        severity: Severity::Info,
        section: "RFC 8166 section 3.3.1",
        requirement: "Observation: a grant follows the request, whatever the resources of the Responder are.",
        explanation: "The client changed its request, and the grant followed it: the server grants whatever is requested. \
            Its receive buffers may not suffice for it. Example: a client requests 32 credits, later 64, and gets both: \
            \"grants 32 and 64 for requests of 32 and 64\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Reply],
        needs: &[RequiredCaptureEvidence::BothMessages],
        check: RuleCheck::Transaction(|view| {
            let requested = view.message(RpcMessageKind::Call)?.version1()?.credits;
            let granted = view.message(RpcMessageKind::Reply)?.version1()?.credits;
            let direction = view.transaction.direction;
            let (request_before, grant_before) =
                (view.connection.last_request(direction)?, view.connection.last_grant(direction)?);
            if requested == request_before {
                return None;
            }
            let is_echo = granted == requested && grant_before == request_before;
            let values = [requested, granted, request_before, grant_before].map(u64::from);
            Some(RuleVerdict::measured(!is_echo, values, |aggregate| {
                let [requested, granted, request_before, grant_before] = aggregate.worst;
                format!("grants {grant_before} and {granted} for requests of {request_before} and {requested}")
            }))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "perf/ird-limited",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, section 9.7; RFC 6581 section 9.1",
        requirement: "Observation: a side has as many RDMA Reads in flight as its peer declared.",
        explanation: "Further RDMA Reads wait for one of those in flight. Raise responder_resources of the client, or use \
            fewer and longer segments. Example: the server fetches a WRITE in 16 segments from a client that declared 16: \
            \"16 RDMA Reads in flight, 16 declared by the peer\".",
        subjects: &[RequiredMessageProperty::ReadChunks],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::Absence(
            |event| {
                let TransportAnomalyKind::ReadsInFlight { count, limit } = event.kind else {
                    return None;
                };
                // rpcrdma/reads-in-flight judges more than the limit.
                if count > u32::from(limit) {
                    return None;
                }
                let values = [count.into(), limit.into(), 0, 0];
                Some(RuleVerdict::measured(count < u32::from(limit), values, |aggregate| {
                    let [count, limit, ..] = aggregate.worst;
                    format!("{count} RDMA Reads in flight, {limit} declared by the peer")
                }))
            },
            super::memory_access::was_read,
        ),
        ..Rule::PER_CONNECTION
    },
];
