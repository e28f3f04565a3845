//! The RPC-over-RDMA header: RFC 8166 sections 4.2 to 4.6.

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::flow::transaction::RpcMessageKind;
use nfsrdma_dissectors::rpc::RpcMsg;
use nfsrdma_dissectors::rpcrdma::{MessageType, RdmaProc, VERSION};

use super::read_chunks;
use crate::rule::{Evidence, Rule, RuleCheck, RuleScope, Severity, Verdict};

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/xid-mismatch",
        severity: Severity::Error,
        section: "RFC 8166 section 4.2.1",
        requirement: "The XID of the RPC-over-RDMA header is the XID of the RPC message, inline or in a chunk.",
        explanation: "A receiver that matches Replies by one of the two XIDs completes the wrong Call.",
        needs: &[],
        scope: RuleScope::Each,
        check: RuleCheck::Message(|message| {
            message.version1()?;
            let mut cursor = match message.kind {
                RpcMessageKind::Call => message.transaction.call_message?,
                RpcMessageKind::Reply => message.transaction.reply_message?,
            };
            if message.record.is_rdma_error() {
                return None;
            }
            let inner = RpcMsg::decode(&mut cursor, &mut NullObserver).ok()?.xid;
            let outer = message.transaction.transaction.xid;
            Some(
                Verdict::from_condition(inner == outer, || format!("rdma_xid {outer}, RPC xid {inner}"))
                    .at_field("rpcordma.xid"),
            )
        }),
    },
    Rule {
        id: "rpcrdma/version",
        severity: Severity::Error,
        section: "RFC 8166 section 4.2.2, RFC 8167 section 5.1",
        requirement: "All messages of a connection have one version of RPC-over-RDMA, except ERR_VERS.",
        explanation: "A Reply has the version of its Call. A Responder that does not support the version answers ERR_VERS.",
        needs: &[],
        scope: RuleScope::Each,
        check: RuleCheck::Message(|message| {
            if message.record.is_rdma_error() {
                return None;
            }
            let expected = message.transaction.connection.version.unwrap_or(VERSION);
            let version = message.words.version;
            let is_known = matches!(version, 1 | 2);
            Some(
                Verdict::from_condition(is_known && version == expected, || {
                    format!("version {version}, the connection uses {expected}")
                })
                .at_field("rpcordma.version"),
            )
        }),
    },
    Rule {
        id: "rpcrdma/proc-unknown",
        severity: Severity::Error,
        section: "RFC 8166 section 4.2.4",
        requirement: "rdma_proc is one of RDMA_MSG, RDMA_NOMSG, RDMA_MSGP, RDMA_DONE and RDMA_ERROR.",
        explanation: "The receiver cannot find the RPC message.",
        needs: &[],
        scope: RuleScope::Each,
        check: RuleCheck::Message(|message| {
            let MessageType::Version1(proc) = message.words.message_type else { return None };
            (message.words.version == VERSION).then_some(())?;
            Some(
                Verdict::from_condition(proc.name().is_some(), || format!("rdma_proc {}", proc.0))
                    .at_field("rpcordma.msg_type"),
            )
        }),
    },
    Rule {
        id: "rpcrdma/msgp",
        severity: Severity::Error,
        section: "RFC 8166 section 4.6.1",
        requirement: "RDMA_MSGP is not sent.",
        explanation: "RFC 8166 removed the padded message of RFC 5666: implementations did not interoperate.",
        needs: &[],
        scope: RuleScope::Each,
        check: RuleCheck::Message(|message| {
            let MessageType::Version1(proc) = message.version1()?.message_type else { return None };
            Some(Verdict::from_condition(proc != RdmaProc::RDMA_MSGP, || "RDMA_MSGP".to_owned()))
        }),
    },
    Rule {
        id: "rpcrdma/undecodable",
        severity: Severity::Warning,
        section: "RFC 4506, RFC 5531",
        requirement: "A message is decodable to its end.",
        explanation: "The message is malformed, or this program has an error. The text has the byte offset and the reason; \
            -V shows the message up to there.",
        needs: &[Evidence::WholeMessage],
        scope: RuleScope::Each,
        check: RuleCheck::Message(|message| {
            message.version1()?;
            let transaction = message.transaction;
            let error = transaction.summary.decode_error(transaction.transaction, message.kind);
            Some(match error {
                None => Verdict::Kept,
                Some(_) if read_chunks::explains_decode_error(message) => return None,
                Some(error) => {
                    Verdict::from_condition(false, || format!("byte {}: {}", error.at(), error.reason()))
                }
            })
        }),
    },
];
