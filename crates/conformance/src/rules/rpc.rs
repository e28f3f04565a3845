//! RPC: RFC 5531, and retransmission as NFS restricts it.

use nfsrdma_flow::transaction::ConnectionTransport;

use super::prelude::*;

/// Judges the values of the arguments, or of the results.
fn defined_values(transaction: &ConformanceTransaction<'_>, kind: RpcMessageKind) -> Option<RuleVerdict> {
    let (record, sender, all_error) = match kind {
        RpcMessageKind::Call => (transaction.call()?, transaction.requester(), transaction.summary.call_error),
        RpcMessageKind::Reply => (transaction.reply()?, transaction.responder(), transaction.summary.reply_error),
    };
    let error = transaction.summary.decode_error(transaction.transaction, kind);
    let invalid = error.filter(|error| matches!(error, XdrError::Invalid { .. }));
    let verdict = match (transaction.undefined_value(kind), invalid) {
        (None, None) if all_error.is_some() => return Some(RuleVerdict::Unknown),
        (None, None) => return Some(RuleVerdict::Kept),
        // The rest of the message may be anything.
        _ if error.is_some()
            && transaction.message(kind).is_some_and(|message| super::read_chunks::explains_decode_error(&message)) =>
        {
            return None;
        }
        // A server may answer it with the results of another call.
        _ if kind == RpcMessageKind::Reply && super::sessions::is_false_retry(transaction) => return None,
        // See rpc/wrong-result.
        _ if kind == RpcMessageKind::Reply && transaction.summary.has_wrong_result(transaction.transaction) => {
            return None;
        }
        (Some(undefined), _) => {
            RuleVerdict::broken((undefined.to_string(), undefined.value)).at_field(undefined.field.name)
        }
        (None, Some(error)) => RuleVerdict::broken(format!("byte {}: {}", error.at(), error.reason())),
    };
    Some(verdict.by(sender).in_frames(&record.frames))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpc/undefined-argument",
        severity: Severity::Warning,
        section: "RFC 4506 sections 4.3, 4.4 and 4.15",
        requirement: "The enumerations and booleans in the arguments of a call have values that their types define.",
        explanation: "The server cannot decode the arguments: GARBAGE_ARGS or NFS4ERR_BADXDR. Some servers ignore the value, \
            or take it for another one. Example: a WRITE asks for level 9 of stability: \"stable 9, which StableHow does not define\".",
        subjects: &[RequiredMessageProperty::Call],
        suspects: &[RequiredMessageProperty::Undecodable],
        check: RuleCheck::Transaction(|transaction| defined_values(transaction, RpcMessageKind::Call)),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpc/undefined-result",
        severity: Severity::Warning,
        section: "RFC 4506 sections 4.3, 4.4 and 4.15",
        requirement: "The enumerations and booleans in the results of a reply have values that their types define.",
        explanation: "The client cannot decode the results, and most clients return an I/O error. If the rest of the results \
            cannot be decoded either, they break rpc/wrong-result instead. Example: a WRITE reports a level of stability \
            that does not exist: \"committed 7, which StableHow does not define\".",
        subjects: &[RequiredMessageProperty::Reply],
        suspects: &[RequiredMessageProperty::Undecodable],
        check: RuleCheck::Transaction(|transaction| defined_values(transaction, RpcMessageKind::Reply)),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpc/wrong-argument",
        severity: Severity::Warning,
        section: "RFC 5531 section 9, RFC 4506",
        requirement: "Without RDMA: a call has the arguments that its procedure defines, to their end.",
        explanation: "The server cannot decode the call: GARBAGE_ARGS or NFS4ERR_BADXDR. The text has the byte offset and the \
            reason; -V shows the call up to there. Over RDMA, see rpcrdma/undecodable; for values, rpc/undefined-argument. \
            Example: a name of 40 bytes ends after four: \"the arguments have an error at byte 64: the message ends before the 40 bytes that belong here\".",
        subjects: &[RequiredMessageProperty::Call],
        needs: &[RequiredCaptureEvidence::WholeMessage],
        check: RuleCheck::Transaction(|transaction| {
            let call = transaction.call().filter(|_| !transaction.transaction.connection.transport.is_rdma())?;
            let verdict = match transaction.summary.decode_error(transaction.transaction, RpcMessageKind::Call) {
                Some(XdrError::Invalid { .. }) => return None,
                Some(error) => {
                    let at = error.at();
                    RuleVerdict::broken(format!("the arguments have an error at byte {at}: {}", error.reason()))
                }
                None if transaction.summary.call_error.is_some() => RuleVerdict::Unknown,
                None => RuleVerdict::Kept,
            };
            Some(verdict.by(transaction.requester()).in_frames(&call.frames))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpc/garbage-args",
        severity: Severity::Warning,
        section: "RFC 5531 section 9, RFC 8881 section 15.1.1.1",
        requirement: "Without RDMA: a server answers a call whose arguments it cannot decode with GARBAGE_ARGS, or a COMPOUND \
            with NFS4ERR_BADXDR.",
        explanation: "The server reports success, or an error of NFS, for arguments that end too early or have undefined \
            values: it does not check them, or acted on other values than the client meant. See rpc/wrong-argument and \
            rpc/undefined-argument for the arguments, and rpcrdma/garbage-args for calls over RDMA. Example: a name of 40 \
            bytes ends after four, and the server looks it up: \"NFS3ERR_NOENT, but the arguments have an error at byte 64\".",
        subjects: &[
            RequiredMessageProperty::Call,
            RequiredMessageProperty::Reply,
            RequiredMessageProperty::Undecodable,
        ],
        needs: &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::WholeMessage],
        check: RuleCheck::Transaction(|transaction| {
            let transport = transaction.transaction.connection.transport;
            if transport.is_rdma() { None } else { super::header::garbage_args(transaction) }
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpc/resent-here",
        section: "RFC 7530 section 3.1.1, RFC 8881 section 2.9.2",
        requirement: "A Requester does not send a call again on a living connection.",
        explanation: "The connection delivers the first call or ends. The copy uses another credit and receive buffer, and \
            may end the connection. The RFCs bind NFSv4 and its callbacks; for NFSv2, NFSv3 and NFSACL this is a warning. \
            Copies that the transport sends do not count. Example: a client repeats a COMPOUND after a timeout of 60 \
            seconds, although the connection lives: \"sent 2 times\".",
        subjects: &[RequiredMessageProperty::Call],
        needs: &[RequiredCaptureEvidence::MessageKind],
        check: RuleCheck::Transaction(|transaction| {
            let call = transaction.call()?;
            if transaction.transaction.connection.transport == ConnectionTransport::Udp
                || transaction.summary.procedure == Some(0)
                // RFC 8267 section 3.1: a Requester may repeat a Call after RDMA_ERROR.
                || transaction.reply().is_some_and(|reply| reply.is_rdma_error())
            {
                return None;
            }
            let Some(program) = transaction.summary.program else { return Some(RuleVerdict::Unknown) };
            let severity = match (program, transaction.summary.version) {
                (Program::NFS, Some(4)) | (Program::NFS_CB, _) => Severity::Error,
                (Program::NFS | Program::NFSACL, Some(_)) => Severity::Warning,
                (Program::NFS | Program::NFSACL, None) => return Some(RuleVerdict::Unknown),
                // No RFC forbids other programs to repeat a Call.
                _ => return None,
            };
            let retransmissions = call.retransmissions;
            let verdict =
                RuleVerdict::from_condition(retransmissions == 0, || format!("sent {} times", retransmissions + 1));
            Some(
                verdict
                    .with_severity(severity)
                    .by(transaction.requester())
                    .in_frames(&call.frames)
                    .at_field(field_names::RPCORDMA_XID),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpc/wrong-result",
        section: "RFC 5531 section 9, RFC 4506",
        requirement: "A successful reply has the results that its procedure defines, to their end.",
        explanation: "The client cannot use the reply: it returns an I/O error, or waits for ever; most clients ignore bytes \
            behind the results. The status of the transaction is \"wrong result\". The reply belongs to another call, or the \
            server cut its results off, or added to them. Results of other operations, of another slot or with another XID \
            break nfs/result-operation, nfs/result-count, nfs/result-after-failure, nfs/compound-status, nfs/sequence-echo or \
            rpcrdma/xid-mismatch instead. The status is the same for results that the arguments or chunks rule out: see \
            nfs/read-count, nfs/write-count, nfs/write-committed, nfs/unrequested-attrs, nfs/session-attrs, nfs/read-plus, \
            nfs/copy-stateid, nfs/result-arguments, rpcrdma/returned-too-much, rpcrdma/returned-not-in-order, \
            rpcrdma/item-inline, rpcrdma/item-in-wrong-chunk, rpcrdma/empty-not-kept, rpcrdma/reply-chunk-in-msg and \
            rpc/stale-handles. Example: a reply of GETATTR ends before its \
            status: \"the results have an error at byte 24: the message ends before the 4 bytes that belong here\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Reply],
        needs: &[RequiredCaptureEvidence::BothMessages],
        suspects: &[RequiredMessageProperty::Undecodable],
        check: RuleCheck::Transaction(|transaction| {
            transaction.call()?;
            transaction.reply()?;
            let summary = transaction.summary;
            let Some(error) = summary.reply_error else { return Some(RuleVerdict::Kept) };
            let is_success = matches!(summary.rpc_status, Some(RpcStatus::Rpc(status)) if status.is_success());
            if !is_success || summary.has_contradiction {
                return None;
            }
            if !summary.has_wrong_result(transaction.transaction) {
                return Some(RuleVerdict::Unknown);
            }
            let is_explained = match transaction.message(RpcMessageKind::Reply) {
                Some(reply) => super::header::is_decode_error_explained(&reply),
                None => super::sessions::is_false_retry(transaction),
            };
            let text = || format!("the results have an error at byte {}: {}", error.at(), error.reason());
            (!is_explained).then(|| RuleVerdict::broken(text()))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpc/reply-elsewhere",
        section: "RFC 8881 section 2.9.2",
        requirement: "A reply is sent on the connection of its call.",
        explanation: "The other connection has no call with this XID: the client drops the reply and never completes the \
            call. After a lost connection, the server waits until the client repeats the call. Example: a server answers a \
            call of connection 1 on the newest connection of the client: \"reply on connection 2\".",
        subjects: &[RequiredMessageProperty::Call],
        needs: &[RequiredCaptureEvidence::MessageKind],
        check: RuleCheck::Transaction(|transaction| {
            let call = transaction.call()?;
            if transaction.transaction.connection.transport == ConnectionTransport::Udp {
                return None;
            }
            match (transaction.reply(), transaction.reply_elsewhere) {
                (Some(_), _) => Some(RuleVerdict::Kept),
                (None, Some(reply)) => {
                    let frames = [call.frames.first().copied(), Some(reply.frame)];
                    let frames: Vec<_> = frames.into_iter().flatten().collect();
                    let text = || format!("reply on connection {}", reply.connection);
                    Some(RuleVerdict::broken(text()).by(transaction.responder()).in_frames(&frames))
                }
                (None, None) => None,
            }
        }),
        ..Rule::DEFAULT
    },
];
