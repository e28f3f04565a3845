//! Limits of the channels of a session: RFC 8881 sections 2.10.6.4 and 18.36.

use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_flow::transaction_message_decoding::session_fault;

use super::prelude::*;
use super::sessions::{SessionSlotCall, by_requester};

/// Returns `true` for an error for a COMPOUND that exceeds a limit of its channel.
fn is_limit_error(status: Option<Nfsstat4>) -> bool {
    matches!(
        status,
        Some(
            Nfsstat4::NFS4ERR_TOO_MANY_OPS
                | Nfsstat4::NFS4ERR_REQ_TOO_BIG
                | Nfsstat4::NFS4ERR_REP_TOO_BIG
                | Nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE
        )
    )
}

/// Returns `true` if the header of the Reply returns more bytes in a segment than the Call offers:
/// rpcrdma/returned-too-much judges it, and the length of the Reply is unknown.
fn has_impossible_length(transaction: &ConformanceTransaction<'_>) -> bool {
    let mut segments = transaction.offered_chunks().flat_map(|chunk| &chunk.segments);
    segments.any(|segment| segment.returned_length.is_some_and(|returned| returned > segment.length))
}

fn check_sizes(transaction: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let call = SessionSlotCall::of(transaction)?;
    if has_impossible_length(transaction) {
        return Some(RuleVerdict::Unknown);
    }
    let limits = call.history.limits;
    let operations = &transaction.operations;
    // The errors of SEQUENCE come before the limits.
    if operations.status.is_none() || (operations.is_refused() && !is_limit_error(operations.status)) {
        return None;
    }
    let header = transaction.header(RpcMessageKind::Reply);
    let length = |kind| transaction.transaction.rpc_length_with_header(kind, header);
    let (Some(request), Some(response)) = (length(RpcMessageKind::Call), length(RpcMessageKind::Reply)) else {
        return Some(RuleVerdict::Unknown);
    };
    // The error for an excess may come with a later operation, which another error kept from being executed.
    let is_unreached = |status| operations.status != Some(status) && operations.status != Some(Nfsstat4::NFS4_OK);
    let is_refused = |status| operations.status == Some(status);
    let excess = if operations.operation_count > limits.max_operations && !is_refused(Nfsstat4::NFS4ERR_TOO_MANY_OPS) {
        if is_unreached(Nfsstat4::NFS4ERR_TOO_MANY_OPS) {
            return Some(RuleVerdict::Unknown);
        }
        Some((
            "operations accepted",
            u64::from(operations.operation_count),
            field_labels::CA_MAXOPERATIONS,
            limits.max_operations,
        ))
    } else if request > u64::from(limits.max_request_bytes) && !is_refused(Nfsstat4::NFS4ERR_REQ_TOO_BIG) {
        if is_unreached(Nfsstat4::NFS4ERR_REQ_TOO_BIG) {
            return Some(RuleVerdict::Unknown);
        }
        let limit = limits.max_request_bytes;
        let verdict = RuleVerdict::broken(format!(
            "{request} of request accepted, {} {limit}",
            field_labels::CA_MAXREQUESTSIZE,
            request = CountWithNoun(request, "byte")
        ));
        return Some(by_requester(transaction, call.frames, verdict));
    } else if response > u64::from(limits.max_response_bytes) && !is_refused(Nfsstat4::NFS4ERR_REP_TOO_BIG) {
        Some(("bytes of response", response, field_labels::CA_MAXRESPONSESIZE, limits.max_response_bytes))
    } else if call.sequence.is_cache_requested
        && response > u64::from(limits.max_cached_response_bytes)
        && operations.sequence_result.is_some()
        && !is_refused(Nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE)
    {
        let limit = limits.max_cached_response_bytes;
        let unit = match operations.channel {
            Channel::Fore => "bytes of response with sa_cachethis",
            Channel::Back => "bytes of response with csa_cachethis",
        };
        Some((unit, response, field_labels::CA_MAXRESPONSESIZE_CACHED, limit))
    } else {
        None
    };
    let text = |(unit, value, name, limit): (&str, u64, &str, u32)| format!("{value} {unit}, {name} {limit}");
    Some(RuleVerdict::from_fault(excess.map(text)))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "nfs/too-big",
        section: "RFC 8881 sections 2.10.6.4 and 18.36.3",
        requirement: "Requests, responses and their numbers of operations stay within the limits of their channel, or the \
            Responder returns the error for them.",
        explanation: "Sizes count the RPC message with the content of its chunks, without the RPC-over-RDMA header. The \
            errors are NFS4ERR_REQ_TOO_BIG, NFS4ERR_REP_TOO_BIG, NFS4ERR_REP_TOO_BIG_TO_CACHE and NFS4ERR_TOO_MANY_OPS. \
            Example: a server accepts nine operations, and its limit is eight: \"9 operations accepted, ca_maxoperations \
            8\".",
        subjects: &[RequiredMessageProperty::Sequence],
        needs: &[
            RequiredCaptureEvidence::BothMessages,
            RequiredCaptureEvidence::Session,
            RequiredCaptureEvidence::WholeMessage,
        ],
        suspects: &[RequiredMessageProperty::LargeMessage],
        check: RuleCheck::Transaction(check_sizes),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/session-attrs",
        section: "RFC 8881 section 18.36.3",
        requirement: "CREATE_SESSION returns no flag of the connection that was not requested, no larger size, and the number \
            of slots and operations of the back channel unchanged.",
        explanation: "The client has allocated buffers and slots for the values that it offered. csr_sequence is \
            csa_sequence. Example: the client offered requests of 8,192 bytes: \"ca_maxrequestsize of the fore channel: 8192 \
            offered, 8196 returned\".",
        subjects: &[RequiredMessageProperty::Compound, RequiredMessageProperty::CreateSession],
        needs: &[RequiredCaptureEvidence::BothMessages],
        check: RuleCheck::Transaction(|transaction| {
            let mut pairs = transaction.operations.pairs().filter_map(|pair| match pair {
                (Args::CREATE_SESSION(args), Some(Results::CREATE_SESSION(created))) => Some((args, created.ok()?)),
                _ => None,
            });
            let (args, created) = pairs.next()?;
            Some(RuleVerdict::from_fault(session_fault(args, created)))
        }),
        ..Rule::DEFAULT
    },
];
