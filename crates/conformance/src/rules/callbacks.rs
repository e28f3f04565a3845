//! Reverse-direction operation: RFC 8167, RFC 8267 section 6.5.

use super::prelude::*;

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "nfs/cb-before-session",
        section: "RFC 8167 section 6, RFC 8881 section 2.10.3.1",
        requirement: "A server sends calls on a connection only after a session has bound it to its backchannel.",
        explanation: "The client may have posted no receive buffer for a call, so that the connection ends: again after each \
            reconnect. CREATE_SESSION with CONN_BACK_CHAN in its results binds its connection, and so does \
            BIND_CONN_TO_SESSION that returns CDFS4_BACK or CDFS4_BOTH. Example: the results of CREATE_SESSION have \
            CONN_BACK_CHAN clear, and the server sends CB_NULL: \"no session has bound the connection to its backchannel\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Reverse],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::MessageKind],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call() && message.is_reverse())?;
            let backchannel = message.transaction.connection.backchannel;
            let credit_use = message.transaction.transaction.credit_use;
            // RFC 8881 section 2.10.6.3: a Call of the server may come before the Reply to the Call of the client that
            // creates or binds the session.
            let may_be_bound = credit_use.losses > 0 || credit_use.peer_in_flight > 0;
            let is_certain = !may_be_bound && !backchannel.is_uncertain;
            Some(match (backchannel.is_bound, is_certain) {
                (true, _) => RuleVerdict::Kept,
                (false, false) => RuleVerdict::Unknown,
                (false, true) => {
                    RuleVerdict::broken("no session has bound the connection to its backchannel".to_owned())
                }
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/cb-long",
        section: "RFC 8267 section 6.5.2",
        requirement: "A server sends only Short messages on the backchannel of a client whose ca_maxrequestsize is no larger \
            than the inline threshold.",
        explanation: "A client that supports long calls on its backchannel says so with a larger ca_maxrequestsize. Others \
            cannot fetch the call, and answer ERR_CHUNK or end the connection. See the results of CREATE_SESSION. Example: \
            the client accepts requests of 4,096 bytes, its threshold, and the server sends CB_COMPOUND in a Position-Zero \
            Read chunk: \"Long call, ca_maxrequestsize 4096, inline threshold 4096\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Reverse],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call() && message.is_reverse())?;
            let max_request_bytes = message.transaction.connection.backchannel.max_request_bytes?;
            let Some((_, threshold)) = message.transaction.set_up()?.inline_thresholds() else {
                return Some(RuleVerdict::Unknown);
            };
            let has_call_chunk = message.read_chunks().iter().any(|chunk| chunk.position == Some(0));
            let is_long = has_call_chunk || message.transaction.transaction.reply_chunk.is_some();
            let (kind, field) = match has_call_chunk {
                true => ("Long call", field_names::RPCORDMA_POSITION),
                false => ("Reply chunk", field_names::RPCORDMA_REPLY),
            };
            let text = || format!("{kind}, ca_maxrequestsize {max_request_bytes}, inline threshold {threshold}");
            Some(RuleVerdict::from_condition(!is_long || max_request_bytes > threshold, text).at_field(field))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/cb-chunks-refused",
        section: "RFC 8167 section 5.3",
        requirement: "A client that does not support chunks in its backchannel answers a call with chunks with ERR_CHUNK.",
        explanation: "The client reported success, but fetched nothing from the Read chunks of the call, or did not return \
            its Write chunks or its Reply chunk: it acted on a call that it could not read completely, or the server has no \
            place for the results. Look for a client that ignores chunk lists of callbacks. Example: a client reports \
            success for a long call that it did not read: \"success, but Read chunks of 40 bytes not fetched\".",
        subjects: &[RequiredMessageProperty::Reverse, RequiredMessageProperty::Chunks],
        needs: &[
            RequiredCaptureEvidence::BothMessages,
            RequiredCaptureEvidence::ChunkLists,
            RequiredCaptureEvidence::NoLoss,
        ],
        check: RuleCheck::Transaction(check_refusal),
        ..Rule::DEFAULT
    },
];

/// Judges a Reply to a reverse-direction Call with chunks.
fn check_refusal(view: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let Transaction { read_chunks, write_chunks, reply_chunk, .. } = view.transaction;
    let offered_bytes = |chunks: &[Chunk]| chunks.iter().map(Chunk::offered_bytes).sum::<u64>();
    let (to_read, to_write) = (offered_bytes(read_chunks), offered_bytes(write_chunks));
    let reply_bytes = reply_chunk.as_ref().map_or(0, Chunk::offered_bytes);
    if view.transaction.direction != CallDirection::Reverse || to_read + to_write + reply_bytes == 0 {
        return None;
    }
    match view.summary.rpc_status? {
        RpcStatus::RdmaError(RpcRdmaErrorCode::Version1(RpcRdma1ErrCode::ERR_CHUNK)) => {
            return Some(RuleVerdict::Kept);
        }
        RpcStatus::Rpc(status) if status.is_success() => {}
        // A client that supports chunks may refuse the Call before it uses them.
        _ => return Some(RuleVerdict::Unknown),
    }
    if view.summary.status.is_some_and(|status| !status.is_ok) {
        return Some(RuleVerdict::Unknown);
    }
    let is_fetched = read_chunks.iter().any(|chunk| chunk.moved_bytes() > 0);
    let reply = view.message(RpcMessageKind::Reply)?;
    let header = reply.header()?;
    let ignored = if to_read > 0 && !is_fetched {
        Some(("Read chunks", to_read, "fetched"))
    } else if to_write > 0 && header.writes().is_empty() {
        Some(("Write chunks", to_write, "returned"))
    } else if reply_bytes > 0 && header.reply_chunk().is_none() {
        Some(("a Reply chunk", reply_bytes, "returned"))
    } else {
        None
    };
    Some(RuleVerdict::from_fault(
        ignored.map(|(chunks, bytes, verb)| {
            format!("success, but {chunks} of {} not {verb}", CountWithNoun(bytes, "byte"))
        }),
    ))
}
