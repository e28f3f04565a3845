//! The RPC-over-RDMA header: RFC 8166 sections 4.2 to 4.6.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc::{RpcMsg, VERSION as RPC_VERSION, Xid};
use nfsrdma_dissectors::rpcrdma::{RdmaBody, RpcRdmaError, RpcRdmaErrvers, RpcRdmaMessageType, VERSION};
use nfsrdma_flow::exceptional_transport_events::{RpcRdmaHeaderFault, UnexpectedRpcMessageReason};

use super::prelude::*;
use crate::undefined_value::UndefinedValue;

/// Nanoseconds without a message after which a NULL Call assesses the health of its connection.
const IDLE_NS: u64 = 5_000_000_000;

/// Returns the fault of a message that could not be decoded.
fn header_fault(event: &CapturedTransportEvent) -> Option<RpcRdmaHeaderFault> {
    match event.kind {
        TransportAnomalyKind::Undecoded { fault, .. } => fault,
        _ => None,
    }
}

/// Returns a violation if the event is a message with this fault.
fn message_verdict(
    event: &CapturedTransportEvent,
    reason: UnexpectedRpcMessageReason,
    text: &str,
) -> Option<RuleVerdict> {
    let has_reason = event.kind == TransportAnomalyKind::UnexpectedMessage(reason);
    has_reason.then(|| RuleVerdict::broken(text.to_owned()))
}

/// Returns `Kept` for an RDMA_ERROR whose Call was captured. One without Call is a transport event.
fn answered_error(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    let has_call = message.transaction.call().is_some();
    (message.record.is_rdma_error() && has_call).then_some(RuleVerdict::Kept)
}

/// Returns rdma_proc of a header of version 1, known or not.
fn version1_proc(message: &ConformanceMessage<'_>) -> Option<RdmaProc> {
    match message.words.message_type {
        RpcRdmaMessageType::Version1(proc) => Some(proc),
        _ => None,
    }
}

/// Judges the place of the RPC message: behind the header of RDMA_MSG, in a chunk of RDMA_NOMSG.
fn placement(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    let RpcRdmaMessageType::Version1(proc) = message.version1()?.message_type else { return None };
    let inline = message.record.inline_length().filter(|_| message.record.gaps.is_empty())?;
    match proc {
        RdmaProc::RDMA_MSG => {
            Some(RuleVerdict::from_condition(inline > 0, || "RDMA_MSG without an RPC message".to_owned()))
        }
        RdmaProc::RDMA_NOMSG => {
            let has_whole = message.read_chunks().iter().any(|chunk| chunk.position == Some(0));
            let (has_chunk, chunk) = match message.kind {
                RpcMessageKind::Call => (has_whole, "Position-Zero Read chunk"),
                RpcMessageKind::Reply => {
                    let is_rfc5666 = has_whole && message.transaction.is_rfc5666();
                    (is_rfc5666 || message.header()?.reply_chunk().is_some(), "Reply chunk")
                }
            };
            if !has_chunk {
                return Some(RuleVerdict::broken(format!("RDMA_NOMSG without a {chunk}")));
            }
            Some(RuleVerdict::from_condition(inline == 0, || {
                format!("RDMA_NOMSG, {inline} behind the header", inline = CountWithNoun(inline, "byte"))
            }))
        }
        _ => None,
    }
}

/// Judges the XIDs of header and RPC message.
fn xid_verdict(message: &ConformanceMessage<'_>) -> Option<RuleVerdict> {
    message.version1()?;
    let mut cursor = match message.kind {
        RpcMessageKind::Call => message.transaction.call_message?,
        RpcMessageKind::Reply => message.transaction.reply_message?,
    };
    if message.record.is_rdma_error() {
        return None;
    }
    let outer = message.transaction.transaction.xid;
    // The XID is the first word. If it differs, the message must have the header of an RPC.
    let is_same = { cursor }.word().is_ok_and(|word| Xid(word) == outer);
    let inner = match is_same {
        true => outer,
        false => RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?.xid,
    };
    let text = || format!("rdma_xid {outer}, RPC xid {inner}");
    Some(RuleVerdict::from_condition(inner == outer, text).at_field(field_names::RPCORDMA_XID))
}

/// Returns the error code with which a Responder must answer a Call, if its header has an error.
fn demanded_error(call: &ConformanceMessage<'_>) -> Option<RpcRdma1ErrCode> {
    let proc = version1_proc(call)?;
    if call.words.version != VERSION {
        return Some(RpcRdma1ErrCode::ERR_VERS);
    }
    let is_broken = proc.name().is_none()
        || matches!(xid_verdict(call), Some(RuleVerdict::Broken(_)))
        || (call.has_complete_lists() && matches!(placement(call), Some(RuleVerdict::Broken(_))));
    is_broken.then_some(RpcRdma1ErrCode::ERR_CHUNK)
}

/// Returns the status of NFS with which a Responder answered arguments that cannot be decoded, or have an undefined
/// value; `None` if it is right, or that of an operation before them.
fn status_for_garbage(transaction: &ConformanceTransaction<'_>, undefined: Option<UndefinedValue>) -> Option<String> {
    /// Statuses of a COMPOUND whose operations the server did not look at.
    const UNREAD: [Nfsstat4; 5] = [
        Nfsstat4::NFS4ERR_BADXDR,
        Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH,
        Nfsstat4::NFS4ERR_RESOURCE,
        Nfsstat4::NFS4ERR_TOO_MANY_OPS,
        Nfsstat4::NFS4ERR_REQ_TOO_BIG,
    ];
    /// Statuses for values that a server does not know, or operations. RFC 8881 sections 15.1.4.1, 15.1.10.1 and
    /// 15.1.1.5; RFC 7862 section 11.1.1.1.
    const UNKNOWN_VALUE: [Nfsstat4; 4] = [
        Nfsstat4::NFS4ERR_BADTYPE,
        Nfsstat4::NFS4ERR_BADIOMODE,
        Nfsstat4::NFS4ERR_UNION_NOTSUPP,
        Nfsstat4::NFS4ERR_NOTSUPP,
    ];
    let operations = transaction.operations;
    let Some(status) = operations.status else {
        // RFC 1813 section 3.3.11 has a status for types of files that the server does not know.
        let status = transaction.summary.status.filter(|status| status.name != Some("NFS3ERR_BADTYPE"))?;
        // RFC 1813 section 2.6: an invalid argument. Most servers decode an enumeration as a number.
        if undefined.is_some() && status.name == Some("NFS3ERR_INVAL") {
            return None;
        }
        return Some(status.name.map_or_else(|| format!("status {}", status.number), str::to_owned));
    };
    // The operation that cannot be decoded follows those that can.
    let decoded = operations.arguments.len() + operations.callback_arguments.len();
    let garbage = undefined.map_or(decoded, |undefined| undefined.operation);
    match (operations.outcomes().nth(garbage), operations.outcomes().next_back()) {
        (Some((number, status)), _) => {
            let is_right = number.is_illegal()
                || status == Nfsstat4::NFS4ERR_BADXDR
                || undefined.is_some() && UNKNOWN_VALUE.contains(&status);
            (!is_right).then(|| format!("{status} of {number}"))
        }
        // An operation before it failed.
        (None, Some((_, last))) if last != Nfsstat4::NFS4_OK => None,
        (None, _) => (!UNREAD.contains(&status)).then(|| status.to_string()),
    }
}

/// Judges the answer to arguments that cannot be decoded, or have undefined values.
pub(super) fn garbage_args(transaction: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let call = transaction.message(RpcMessageKind::Call);
    if let Some(call) = &call {
        call.version1()?;
    }
    let summary = transaction.summary;
    let error = summary.decode_error(transaction.transaction, RpcMessageKind::Call);
    // The others are in the order of the message.
    let undefined = transaction
        .undefined_value(RpcMessageKind::Call)
        .filter(|_| error.is_none_or(|error| matches!(error, XdrError::Invalid { .. })));
    // A receiver that takes whole words has the padding of the transport for the rest of the last one.
    if matches!(error, Some(XdrError::Short { .. } | XdrError::TooLong { .. }))
        && call.as_ref().is_some_and(|call| call.length % 4 != 0)
    {
        return Some(RuleVerdict::Unknown);
    }
    // Bytes that follow the arguments, and numbers that this program does not know, need not be errors.
    let fault = match (undefined, error) {
        (Some(undefined), _) => undefined.to_string(),
        (None, Some(error @ (XdrError::Short { .. } | XdrError::TooLong { .. })))
        | (None, Some(error @ (XdrError::Invalid { .. } | XdrError::NoMessage))) => {
            format!("an error at byte {}: {}", error.at(), error.reason())
        }
        _ => return None,
    };
    let is_accepted = summary.rpc_status == Some(RpcStatus::Rpc(RpcReplyStatus::Accepted(AcceptStat::SUCCESS)));
    let is_success = is_accepted && summary.status.is_none_or(|status| status.is_ok);
    let status = match (is_success, is_accepted) {
        (true, _) => Some("success".to_owned()),
        // What chunks of the client make of its arguments is judged by other rules.
        (false, true)
            if error.is_none() || call.is_none_or(|call| !super::read_chunks::explains_decode_error(&call)) =>
        {
            status_for_garbage(transaction, undefined)
        }
        (false, _) => None,
    };
    let text = status.map(|status| format!("{status}, but the arguments have {fault}"));
    Some(RuleVerdict::from_fault(text))
}

/// Returns the versions that ERR_VERS offers.
fn offered_versions<'t>(message: &ConformanceMessage<'t>) -> Option<&'t RpcRdmaErrvers> {
    match message.header()? {
        AnyDialectHeader::Version1(header) => match &header.rdma_body {
            RdmaBody::Error(RpcRdmaError::Vers(versions)) => Some(versions),
            _ => None,
        },
        _ => None,
    }
}

/// Returns `true` if another rule says why a message cannot be decoded.
pub(super) fn is_decode_error_explained(message: &ConformanceMessage<'_>) -> bool {
    super::read_chunks::explains_decode_error(message)
        // A server may answer it with the results of another Call.
        || (!message.is_call() && super::sessions::is_false_retry(message.transaction))
        // See rpcrdma/nomsg-without-chunk.
        || matches!(placement(message), Some(RuleVerdict::Broken(_)))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/xid-mismatch",
        section: "RFC 8166 section 4.2.1",
        requirement: "The XID of the RPC-over-RDMA header is the XID of the RPC message, inline or in a chunk.",
        explanation: "A receiver that matches replies by one of the two XIDs completes the wrong call. Example: a reply \
            names 0x00000102 in its header, and 0x01000102 in the RPC message behind it: \"rdma_xid 0x00000102, RPC xid \
            0x01000102\".",
        subjects: &[RequiredMessageProperty::Version1],
        check: RuleCheck::MessageOrEvent(xid_verdict, |event| match event.kind {
            TransportAnomalyKind::UnexpectedMessage(UnexpectedRpcMessageReason::XidMismatch { outer, inner }) => {
                let text = format!("rdma_xid {outer}, RPC xid {inner}, in another reply to an answered call");
                Some(RuleVerdict::broken(text).at_field(field_names::RPCORDMA_XID))
            }
            TransportAnomalyKind::UnexpectedMessage(UnexpectedRpcMessageReason::LongReplyWithoutCall) => {
                let text = "a long reply, but no call in flight has its rdma_xid".to_owned();
                let verdict = || RuleVerdict::broken(text).at_field(field_names::RPCORDMA_XID);
                Some(if event.has_set_up { verdict() } else { RuleVerdict::Unknown })
            }
            _ => None,
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/reply-no-call",
        section: "RFC 5531 section 9, RFC 8166 section 4.2.1",
        requirement: "A reply has the XID of a call in flight, which no earlier reply answered.",
        explanation: "The Requester discards the reply, which has used a receive buffer, and ends the connection if none was \
            posted. If the XID is wrong, the call that the reply was for is never completed. A call that was sent again may \
            have several replies. For RDMA_ERROR, see rpcrdma/error-no-call. Example: a server sends the reply to a READ a \
            second time: \"no call with this XID is in flight\".",
        subjects: &[RequiredMessageProperty::Reply, RequiredMessageProperty::Version1],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::BothMessages],
        check: RuleCheck::MessageUnlessEvent(|event| {
            let text = "no call with this XID is in flight";
            Some(
                message_verdict(event, UnexpectedRpcMessageReason::ReplyWithoutCall, text)?
                    .at_field(field_names::RPCORDMA_XID),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/xid-reused",
        section: "RFC 8167 section 2.4, RFC 5531 section 9",
        requirement: "A call has an XID that no other call in flight of its sender has.",
        explanation: "The XID is all that matches a reply to its call. With two calls of one XID in flight, a reply \
            completes the wrong one, or the Responder takes the second for a retransmission and drops it. The calls of the \
            two directions may share an XID (RFC 8167 section 2.4.1). Look at how the sender chooses XIDs after a reconnect. \
            Example: a client restarts its counter after a reconnect, and sends 0x00000102 while the call of the same XID \
            has no reply: \"another call with this XID is in flight\".",
        subjects: &[RequiredMessageProperty::Call],
        check: RuleCheck::MessageUnlessEvent(|event| {
            message_verdict(event, UnexpectedRpcMessageReason::XidInUse, "another call with this XID is in flight")
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/version",
        section: "RFC 8166 section 4.2.2, RFC 8167 section 5.1",
        requirement: "All messages of a connection have one version of RPC-over-RDMA, except calls that RDMA_ERROR refuses.",
        explanation: "A reply has the version of its call, and so has RDMA_ERROR. A Responder that does not support the \
            version answers ERR_VERS; the Requester may then try another. Example: all messages have version 1, then a call \
            comes with 3, and is answered: \"version 3, the connection uses 1\".",
        suspects: &[RequiredMessageProperty::UnusualHeader],
        check: RuleCheck::Message(|message| {
            let version = message.words.version;
            let call_version = message.transaction.message(RpcMessageKind::Call).map(|call| call.words.version);
            if message.record.is_rdma_error() {
                let call_version = call_version?;
                return Some(
                    RuleVerdict::from_condition(version == call_version, || {
                        format!("RDMA_ERROR of version {version}, its call has version {call_version}")
                    })
                    .at_field(field_names::RPCORDMA_VERSION),
                );
            }
            let reply = message.transaction.message(RpcMessageKind::Reply);
            if message.is_call() && reply.is_some_and(|reply| reply.record.is_rdma_error()) {
                return Some(RuleVerdict::Kept);
            }
            let is_known = matches!(version, 1 | 2);
            let expected = message.transaction.connection.version;
            let expected = expected
                .or(call_version.filter(|call_version| matches!(call_version, 1 | 2)))
                .unwrap_or(if is_known { version } else { VERSION });
            Some(
                RuleVerdict::from_condition(is_known && version == expected, || {
                    format!("version {version}, the connection uses {expected}")
                })
                .at_field(field_names::RPCORDMA_VERSION),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/proc-unknown",
        section: "RFC 8166 section 4.2.4",
        requirement: "rdma_proc is one of RDMA_MSG, RDMA_NOMSG, RDMA_MSGP, RDMA_DONE and RDMA_ERROR.",
        explanation: "The receiver cannot find the RPC message. Example: a header with the number 7, where 4 is the highest: \
            \"rdma_proc 7\".",
        suspects: &[RequiredMessageProperty::UnusualHeader],
        check: RuleCheck::Message(|message| {
            let RpcRdmaMessageType::Version1(proc) = message.words.message_type else { return None };
            (message.words.version == VERSION).then_some(())?;
            Some(
                RuleVerdict::from_condition(proc.name().is_some(), || format!("rdma_proc {}", proc.0))
                    .at_field(field_names::RPCORDMA_MSG_TYPE),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/msgp",
        section: "RFC 8166 section 4.6.1",
        requirement: "RDMA_MSGP is not sent.",
        explanation: "RFC 8166 removed the padded message of RFC 5666: implementations did not interoperate. On a connection \
            whose peers follow RFC 5666, the rule does not apply; see dialect/rfc5666. Example: a call with the data of a \
            WRITE behind padding: \"RDMA_MSGP\".",
        subjects: &[RequiredMessageProperty::Version1],
        suspects: &[RequiredMessageProperty::UnusualHeader],
        check: RuleCheck::MessageOrEvent(
            |message| {
                let RpcRdmaMessageType::Version1(proc) = message.version1()?.message_type else {
                    return None;
                };
                if proc == RdmaProc::RDMA_MSGP && message.transaction.is_rfc5666() {
                    return None;
                }
                Some(
                    RuleVerdict::from_condition(proc != RdmaProc::RDMA_MSGP, || "RDMA_MSGP".to_owned())
                        .at_field(field_names::RPCORDMA_MSG_TYPE),
                )
            },
            |event| {
                let text = || "RDMA_MSGP, with chunk lists that cannot be decoded".to_owned();
                let is_padded = header_fault(event)? == RpcRdmaHeaderFault::Padded;
                is_padded.then(|| RuleVerdict::from_condition(false, text))
            },
        ),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/done",
        section: "RFC 8166 section 4.6.2",
        requirement: "RDMA_DONE is not sent.",
        explanation: "RDMA_DONE ends the Read-Read transfers of RFC 5666, which RFC 8166 removed. The receiver discards it; \
            it uses a receive buffer for which no credit was spent. Where a reply has Read chunks, the peers follow RFC 5666 \
            and the rule does not apply; see dialect/rfc5666. Example: a client confirms a reply that had no Read list: \
            \"RDMA_DONE\".",
        check: RuleCheck::Event(|event| {
            let TransportAnomalyKind::Done { has_read_list } = event.kind else { return None };
            match has_read_list {
                Some(true) => None,
                // The Reply may precede the capture.
                None if !event.has_set_up => Some(RuleVerdict::Unknown),
                _ => Some(RuleVerdict::broken("RDMA_DONE".to_owned())),
            }
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/short-message",
        severity: Severity::Warning,
        section: "RFC 8166 section 4.5",
        requirement: "A message is at least as long as the smallest header: 28 bytes, or 20 for ERR_CHUNK.",
        explanation: "The receiver cannot trust the XID of a shorter message and discards it silently. A Send without any \
            byte is legal: see rpcrdma/keepalive. Example: a Send with six of the seven words of the smallest header: \"24 \
            bytes\".",
        subjects: &[RequiredMessageProperty::Version1],
        check: RuleCheck::MessageUnlessEvent(|event| {
            let TransportAnomalyKind::Undecoded { length, .. } = event.kind else { return None };
            let is_short = header_fault(event) == Some(RpcRdmaHeaderFault::Short);
            is_short.then(|| RuleVerdict::broken(format!("{length}", length = CountWithNoun(length, "byte"))))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/list-broken",
        section: "RFC 8166 section 4.3, RFC 4506 section 4.19",
        requirement: "The chunk lists are valid XDR, end within the Send, and the RPC message of an RDMA_MSG follows them.",
        explanation: "The discriminator of a list entry is 0 or 1, and the number of segments of a chunk is the number that \
            follows. A Responder answers such a call with ERR_CHUNK; a Requester discards such a reply, and its call is \
            never completed. The text has the byte offset in the Send. Example: the word that announces a Read chunk is 2 \
            instead of 0 or 1: \"byte 16: 2 is not a valid bool\".",
        subjects: &[RequiredMessageProperty::Version1],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::MessageUnlessEvent(|event| {
            Some(match header_fault(event)? {
                RpcRdmaHeaderFault::ChunkLists(error) => {
                    RuleVerdict::broken(format!("byte {}: {}", error.at(), error.reason()))
                }
                RpcRdmaHeaderFault::NoRpcMessage => {
                    RuleVerdict::broken("neither a call nor a reply follows the chunk lists".to_owned())
                }
                RpcRdmaHeaderFault::Short | RpcRdmaHeaderFault::Padded | RpcRdmaHeaderFault::ErrorCode(_) => {
                    return None;
                }
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/nomsg-without-chunk",
        section: "RFC 8166 sections 4.2.4 and 4.5.2",
        requirement: "The RPC message of RDMA_MSG follows the header; that of RDMA_NOMSG is in a Position-Zero Read chunk or in \
            the Reply chunk, and nothing follows the header.",
        explanation: "The receiver cannot find the RPC message, or finds two. Example: a call offers no Reply chunk, and the \
            reply comes without a payload: \"RDMA_NOMSG without a Reply chunk\".",
        subjects: &[RequiredMessageProperty::Version1],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        suspects: &[RequiredMessageProperty::UnusualHeader],
        check: RuleCheck::MessageOrEvent(
            |message| Some(placement(message)?.at_field(field_names::RPCORDMA_MSG_TYPE)),
            |event| {
                let text = "RDMA_NOMSG without a Position-Zero Read chunk, and no call to answer";
                let verdict = message_verdict(event, UnexpectedRpcMessageReason::LongCallWithoutChunk, text)?;
                Some(if event.has_set_up { verdict } else { RuleVerdict::Unknown })
            },
        ),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/error-from-requester",
        section: "RFC 8166 sections 4.2.4 and 4.5",
        requirement: "Only the Responder of a call sends RDMA_ERROR with its XID.",
        explanation: "A Requester discards a reply that it cannot decode, silently. The Responder may take the RDMA_ERROR \
            for the answer to a call of its own. Example: a client answers a reply that it cannot decode: \"RDMA_ERROR for a \
            call of its sender\".",
        subjects: &[RequiredMessageProperty::RdmaError],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::MessageOrEvent(answered_error, |event| {
            message_verdict(event, UnexpectedRpcMessageReason::ErrorByRequester, "RDMA_ERROR for a call of its sender")
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/error-no-call",
        section: "RFC 8166 section 4.5",
        requirement: "RDMA_ERROR has the XID of a call in flight.",
        explanation: "RDMA_ERROR completes the transaction with its XID. One that belongs to no call is ignored at best, and \
            the call that it was for is never completed. A message of less than 28 bytes is discarded without an answer. \
            Example: a server sends RDMA_ERROR for a call that it has answered already: \"no call with this XID is in \
            flight\".",
        subjects: &[RequiredMessageProperty::RdmaError],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::MessageOrEvent(answered_error, |event| {
            message_verdict(event, UnexpectedRpcMessageReason::ErrorWithoutCall, "no call with this XID is in flight")
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/error-range",
        section: "RFC 8166 section 4.5.1",
        requirement: "RDMA_ERROR is ERR_CHUNK, or ERR_VERS with a range of versions that lacks the version of the call.",
        explanation: "The Requester takes the range for the versions that the Responder supports, and would try the same \
            version again. RDMA_ERROR with another code is discarded, and the call is never completed. Example: a server \
            refuses version 1, but says that it supports it: \"ERR_VERS for version 1, versions 1 to 2 are supported\".",
        subjects: &[RequiredMessageProperty::RdmaError],
        check: RuleCheck::MessageOrEvent(
            |message| {
                if !message.record.is_rdma_error() {
                    return None;
                }
                let Some(RpcRdmaErrvers { rdma_vers_low: low, rdma_vers_high: high }) = offered_versions(message)
                else {
                    let is_version1 = message.words.dialect.is_version1();
                    return is_version1.then_some(RuleVerdict::Kept);
                };
                let call_version = message.transaction.message(RpcMessageKind::Call).map(|call| call.words.version);
                let refused_version = call_version.unwrap_or(message.words.version);
                Some(
                    RuleVerdict::from_condition(low <= high && !(*low..=*high).contains(&refused_version), || {
                        format!("ERR_VERS for version {refused_version}, versions {low} to {high} are supported")
                    })
                    .at_field(field_names::RPCORDMA_VERS_LOW),
                )
            },
            |event| match header_fault(event)? {
                RpcRdmaHeaderFault::ErrorCode(code) => Some(RuleVerdict::broken(format!("error code {code}"))),
                _ => None,
            },
        ),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/error-not-sent",
        section: "RFC 8166 sections 4.5, 4.5.1 and 4.5.2",
        requirement: "A Responder answers a call whose header has an error with RDMA_ERROR: ERR_VERS for an unknown version, \
            otherwise ERR_CHUNK.",
        explanation: "The Requester takes an RPC reply to such a call for the result of a call that the Responder did not \
            understand. Judged are an unknown version or rdma_proc, an XID that differs from that of the RPC message, and a \
            payload in the wrong place; a call without any answer is not. Example: a call is RDMA_NOMSG without a chunk for its payload, and the server answers with an RPC \
            reply: \"a reply to a call that demands ERR_CHUNK\".",
        subjects: &[
            RequiredMessageProperty::Call,
            RequiredMessageProperty::Reply,
            RequiredMessageProperty::UnusualHeader,
        ],
        needs: &[RequiredCaptureEvidence::BothMessages],
        check: RuleCheck::Transaction(|transaction| {
            let demanded = demanded_error(&transaction.message(RpcMessageKind::Call)?)?;
            let reply = transaction.message(RpcMessageKind::Reply)?;
            if !reply.record.is_rdma_error() {
                return Some(RuleVerdict::broken(format!(
                    "a reply to a call that demands {demanded}",
                    demanded = name(demanded)
                )));
            }
            let Some(RpcRdmaErrorCode::Version1(sent)) = reply.header()?.error() else { return None };
            Some(RuleVerdict::from_condition(sent == demanded, || {
                format!("{} to a call that demands {}", name(sent), name(demanded))
            }))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/garbage-args",
        severity: Severity::Warning,
        section: "RFC 8166 section 4.5.2, RFC 5531 section 9, RFC 8881 section 15.1.1.1",
        requirement: "A Responder answers a call whose arguments it cannot decode with GARBAGE_ARGS, or a COMPOUND with \
            NFS4ERR_BADXDR.",
        explanation: "The server reports success, or an error of NFS, for arguments that end too early or have undefined \
            values: it does not check them, or acted on other values than the client meant. It may execute the operations of \
            a COMPOUND before them. RFC 1813 also has NFS3ERR_INVAL for undefined values. See rpcrdma/undecodable and \
            rpc/undefined-argument for the arguments. Example: \
            a WRITE ends before its data, and the server reports NFS3_OK: \"success, but the arguments have an error at byte \
            44\".",
        subjects: &[
            RequiredMessageProperty::Call,
            RequiredMessageProperty::Reply,
            RequiredMessageProperty::Undecodable,
        ],
        needs: &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::WholeMessage],
        check: RuleCheck::Transaction(|transaction| {
            let transport = transaction.transaction.connection.transport;
            if transport.is_rdma() { garbage_args(transaction) } else { None }
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/undecodable",
        severity: Severity::Warning,
        section: "RFC 4506, RFC 5531",
        requirement: "A message of RPC version 2 is decodable to its end.",
        explanation: "The message is malformed, or this program has an error. The text has the byte offset and the reason; \
            -V shows the message up to there. For a reply with results of a wrong form, see rpc/wrong-result. Example: a \
            call of GETATTR is a word longer than its filehandle: \"4 bytes follow the last item\".",
        subjects: &[RequiredMessageProperty::Version1],
        needs: &[RequiredCaptureEvidence::WholeMessage],
        suspects: &[RequiredMessageProperty::Undecodable],
        check: RuleCheck::Message(|message| {
            message.version1()?;
            let transaction = message.transaction;
            let error = transaction.summary.decode_error(transaction.transaction, message.kind);
            let rpc_version = message.inline_rpc_version().unwrap_or(RPC_VERSION);
            Some(match error {
                None => {
                    RuleVerdict::from_condition(rpc_version == RPC_VERSION, || format!("RPC version {rpc_version}"))
                }
                // See rpc/wrong-result.
                Some(_) if !message.is_call() && transaction.summary.has_wrong_result(transaction.transaction) => {
                    return None;
                }
                // rpc/undefined-argument and rpc/undefined-result judge it.
                Some(XdrError::Invalid { .. }) => return None,
                Some(_) if is_decode_error_explained(message) => return None,
                Some(error) => RuleVerdict::broken(format!("byte {}: {}", error.at(), error.reason())),
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/keepalive",
        severity: Severity::Info,
        section: "RFC 8267 section 6.7.2",
        requirement: "Observation: a side assesses an idle connection with a Send or RDMA Write without payload, or with a NULL call.",
        explanation: "Some transports, such as InfiniBand, do not notice that an idle peer has vanished. A Send without \
            payload uses a receive buffer of its receiver; an RDMA Write without payload does not. Example: no message for a \
            minute, then a Send of zero bytes: \"Send without payload\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::NullProcedure],
        check: RuleCheck::MessageOrEvent(
            |message| {
                let transaction = message.transaction.transaction;
                // A lost message is known only when a later one is captured.
                let has_lost = transaction.credit_use.losses_before != message.transaction.connection.losses;
                let is_null = message.is_call()
                    && message.transaction.summary.procedure == Some(0)
                    && message.transaction.connection.first_frame.is_some();
                if is_null && has_lost {
                    return Some(RuleVerdict::Unknown);
                }
                is_null.then(|| {
                    RuleVerdict::from_condition(transaction.quiet_ns.is_none_or(|quiet_ns| quiet_ns < IDLE_NS), || {
                        "NULL call on an idle connection".to_owned()
                    })
                })
            },
            |event| match event.kind {
                TransportAnomalyKind::EmptySend => Some(RuleVerdict::broken("Send without payload".to_owned())),
                TransportAnomalyKind::EmptyWrite => Some(RuleVerdict::broken("RDMA Write without payload".to_owned())),
                _ => None,
            },
        ),
        ..Rule::PER_CONNECTION
    },
];

fn name(code: RpcRdma1ErrCode) -> String {
    code.name().map_or_else(|| format!("error code {}", code.0), str::to_owned)
}
