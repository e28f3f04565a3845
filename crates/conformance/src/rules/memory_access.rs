//! RDMA Reads and Writes: the memory that a Responder may access, and when. RFC 8166 sections 3.1 and 3.4.3 to 3.4.6.

use nfsrdma_flow::exceptional_transport_events::{RdmaAccessViolationReason, RdmaMemoryAccess};

use super::prelude::*;

/// Returns a violation if the event is an access with this fault.
fn access_verdict(
    event: &CapturedTransportEvent,
    expected: RdmaAccessViolationReason,
    is_read: Option<bool>,
) -> Option<RuleVerdict> {
    let TransportAnomalyKind::InvalidAccess(access, fault) = event.kind else { return None };
    if fault != expected || is_read.is_some_and(|is_read| is_read != access.is_read) {
        return None;
    }
    let RdmaMemoryAccess { is_read, handle, offset, length } = access;
    let operation = if is_read { "RDMA Read" } else { "RDMA Write" };
    Some(RuleVerdict::broken(format!(
        "{operation} of {length}, handle {handle}, offset 0x{offset:x}",
        length = CountWithNoun(length, "byte")
    )))
}

/// Judges accesses with a fault, which are events. `$was_accessed` says if a Transaction had accesses of this kind.
macro_rules! access {
    ($fault:ident, $is_read:expr, $was_accessed:expr) => {
        RuleCheck::Absence(|event| access_verdict(event, RdmaAccessViolationReason::$fault, $is_read), $was_accessed)
    };
}

/// Evidence for the absence of an invalid access: without the Call, the offered memory is not known.
const ACCESS: &[RequiredCaptureEvidence] =
    &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::ChunkLists, RequiredCaptureEvidence::NoLoss];

/// Rules about RDMA Reads and Writes that the Requester did not permit.
pub(crate) const ACCESS_RULES: [&str; 6] = [
    "rpcrdma/handle-unknown",
    "rpcrdma/read-bounds",
    "rpcrdma/write-bounds",
    "rpcrdma/read-late",
    "rpcrdma/write-late",
    "rpcrdma/wrong-op",
];

/// Returns `true` if the Responder read memory of the Call.
pub(super) fn was_read(view: &ConformanceTransaction<'_>) -> bool {
    view.transaction.read_chunks.iter().any(was_used)
}

/// Returns `true` if the Responder wrote to memory of the Call.
fn was_written(view: &ConformanceTransaction<'_>) -> bool {
    view.transaction.write_chunks.iter().chain(&view.transaction.reply_chunk).any(was_used)
}

fn was_used(chunk: &Chunk) -> bool {
    chunk.times.is_some()
}

fn was_accessed(view: &ConformanceTransaction<'_>) -> bool {
    was_read(view) || was_written(view)
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/handle-unknown",
        section: "RFC 8166 section 3.4.3",
        requirement: "A Responder accesses only memory that a call in flight offers.",
        explanation: "The access fails with a Remote Access Error and ends the connection, or damages memory of another use. \
            Example: an RDMA Write uses a handle of an earlier connection: \"RDMA Write of 100 bytes, handle 0x77770000\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: ACCESS,
        check: access!(NotOffered, None, was_accessed),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/read-bounds",
        section: "RFC 8166 section 3.4.3",
        requirement: "An RDMA Read stays in the segment that the call offers.",
        explanation: "The access fails with a Remote Access Error and ends the connection, or reads memory of another use. \
            Compare offset and length with the Read list of the call. Example: a segment ends at 0x20101000, and an RDMA \
            Read of 100 bytes begins 96 bytes before its end: \"RDMA Read of 100 bytes, handle 0x0a010200, offset \
            0x20100fa0\".",
        subjects: &[RequiredMessageProperty::ReadChunks],
        needs: ACCESS,
        check: access!(OutOfBounds, Some(true), was_read),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/write-bounds",
        section: "RFC 8166 section 3.4.3",
        requirement: "An RDMA Write stays in the segment that the call offers.",
        explanation: "The access fails with a Remote Access Error and ends the connection, or damages memory of another use. \
            Compare offset and length with the Write list and the Reply chunk of the call. Example: a segment ends at \
            0x20101000, and an RDMA Write of 100 bytes begins 96 bytes before its end: \"RDMA Write of 100 bytes, handle \
            0x0a010200, offset 0x20100fa0\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: ACCESS,
        check: access!(OutOfBounds, Some(false), was_written),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/read-late",
        section: "RFC 8166 section 3.4.5.1",
        requirement: "A Responder does not read memory of a call after its reply.",
        explanation: "The reply tells the Requester that it may use the memory for something else: the Responder reads other \
            data, or the access ends the connection. Example: a server answers a WRITE, and then fetches its data: \"RDMA \
            Read of 4096 bytes, handle 0x0a010200\".",
        subjects: &[RequiredMessageProperty::ReadChunks],
        needs: ACCESS,
        check: access!(AfterReply, Some(true), was_read),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/write-late",
        section: "RFC 8166 section 3.4.6",
        requirement: "A Responder does not write to memory of a call after its reply.",
        explanation: "The Requester has used the memory for something else by then: the RDMA Write damages it, or ends the \
            connection. Example: a server answers a READ, and then writes its data: \"RDMA Write of 1024 bytes, handle \
            0x0a010200\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: ACCESS,
        check: access!(AfterReply, Some(false), was_written),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/wrong-op",
        section: "RFC 8166 sections 3.4.5 and 3.4.6",
        requirement: "A Responder reads Read chunks, and writes to Write chunks and Reply chunks.",
        explanation: "The Requester registers the memory for one of the two: the other ends the connection. Example: a \
            server writes to the Read chunk of a WRITE: \"RDMA Write of 96 bytes, handle 0x0a010200\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: ACCESS,
        check: access!(WrongOperation, None, was_accessed),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/wrong-side",
        section: "RFC 8166 section 3.1",
        requirement: "Only the Responder of a call reads and writes memory.",
        explanation: "A Responder does not offer memory. Only RFC 5666 let a Requester read results. Example: a client \
            writes to memory that it offered itself: \"RDMA Write of 96 bytes, handle 0x0a010200\".",
        subjects: &[RequiredMessageProperty::Chunks],
        needs: ACCESS,
        check: access!(ByRequester, None, was_accessed),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/reads-in-flight",
        section: "InfiniBand Architecture Specification volume 1, sections 9.7 and 12.7; RFC 6581 section 9.1",
        requirement: "A side has no more RDMA Reads in flight than its peer declared at the set-up.",
        explanation: "The peer has no resources for the Read: it answers with a NAK or a Terminate, which ends the \
            connection. Look at responder_resources of REQ and REP, or at the IRD of the MPA start-up frames. Example: the \
            client declared 16 responder resources, and the server fetches a WRITE of 17 segments at once: \"17 RDMA Reads \
            in flight, 16 declared by the peer\".",
        subjects: &[RequiredMessageProperty::ReadChunks],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::ChunkLists, RequiredCaptureEvidence::NoLoss],
        check: RuleCheck::Absence(
            |event| {
                let TransportAnomalyKind::ReadsInFlight { count, limit } = event.kind else {
                    return None;
                };
                Some(RuleVerdict::from_condition(count <= u32::from(limit), || {
                    format!("{count} RDMA Reads in flight, {limit} declared by the peer")
                }))
            },
            was_read,
        ),
        ..Rule::DEFAULT
    },
];
