//! Reverse-direction operation: RFC 8167, RFC 8267 section 6.5.

use nfsrdma_dissectors::flow::decode::RpcStatus;
use nfsrdma_dissectors::flow::transaction::CallDirection;
use nfsrdma_dissectors::rpcrdma::{ErrCode, ErrorCode};

use crate::rule::{Evidence, Rule, RuleCheck, RuleScope, Severity, Verdict};
use crate::subject::Subject;

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "nfs/cb-before-session",
        severity: Severity::Error,
        section: "RFC 8167 section 6, RFC 8881 section 2.10.3.1",
        requirement: "A server sends Calls on a connection only after a session has bound it to its backchannel.",
        explanation: "The client may have posted no receive buffer for a Call, so that the connection ends: again after each \
            reconnect. CREATE_SESSION with CONN_BACK_CHAN in its results binds its connection, and so does \
            BIND_CONN_TO_SESSION that returns CDFS4_BACK or CDFS4_BOTH.",
        subjects: &[Subject::Call, Subject::Reverse],
        needs: &[Evidence::SetUp],
        scope: RuleScope::Each,
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call() && message.is_reverse())?;
            let backchannel = message.transaction.connection.backchannel;
            let is_certain =
                message.transaction.transaction.credit_use.losses == 0 && !backchannel.is_uncertain;
            Some(match (backchannel.is_bound, is_certain) {
                (true, _) => Verdict::Kept,
                (false, false) => Verdict::Unknown,
                (false, true) => Verdict::from_condition(false, || {
                    "no session has bound the connection to its backchannel".to_owned()
                }),
            })
        }),
    },
    Rule {
        id: "nfs/cb-long",
        severity: Severity::Error,
        section: "RFC 8267 section 6.5.2",
        requirement: "A server sends only Short messages on the backchannel of a client whose ca_maxrequestsize is no larger \
            than the inline threshold.",
        explanation: "A client that supports Long Calls on its backchannel says so with a larger ca_maxrequestsize. Others cannot \
            fetch the Call, and answer ERR_CHUNK or end the connection. See the results of CREATE_SESSION.",
        subjects: &[Subject::Call, Subject::Reverse],
        needs: &[Evidence::SetUp, Evidence::ChunkLists],
        scope: RuleScope::Each,
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call() && message.is_reverse())?;
            let most = message.transaction.connection.backchannel.max_request_bytes?;
            let Some((_, threshold)) = message.transaction.set_up()?.inline_thresholds() else {
                return Some(Verdict::Unknown);
            };
            let has_call_chunk = message.read_chunks().iter().any(|chunk| chunk.position == Some(0));
            let is_long = has_call_chunk || message.transaction.transaction.reply_chunk.is_some();
            Some(Verdict::from_condition(!is_long || most > threshold, || {
                let kind = if has_call_chunk { "Long Call" } else { "Reply chunk" };
                format!("{kind}, ca_maxrequestsize {most}, inline threshold {threshold}")
            }))
        }),
    },
    Rule {
        id: "nfs/cb-chunks-refused",
        severity: Severity::Error,
        section: "RFC 8167 section 5.3",
        requirement: "A client that does not support chunks in its backchannel answers a Call with chunks with ERR_CHUNK.",
        explanation: "Another answer to a Call that the client could not read completely leaves the server to guess. The client \
            answered, and fetched nothing from the Read chunks of the Call.",
        subjects: &[Subject::Reverse, Subject::ReadChunks],
        needs: &[Evidence::BothMessages, Evidence::ChunkLists, Evidence::NoLoss],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let of = transaction.transaction;
            let is_offered = of.read_chunks.iter().any(|chunk| chunk.offered_bytes() > 0);
            if of.direction != CallDirection::Reverse || !is_offered {
                return None;
            }
            let is_fetched = of.read_chunks.iter().any(|chunk| chunk.moved_bytes() > 0);
            let refusal = RpcStatus::RdmaError(ErrorCode::Version1(ErrCode::ERR_CHUNK));
            let is_refused = transaction.summary.rpc_status == Some(refusal);
            Some(Verdict::from_condition(is_fetched || is_refused, || {
                let offered: u64 = of.read_chunks.iter().map(|chunk| chunk.offered_bytes()).sum();
                format!("nothing fetched of {offered} bytes in Read chunks, and the answer is not ERR_CHUNK")
            }))
        }),
    },
];
