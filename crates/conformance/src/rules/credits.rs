//! Credits and inline thresholds: RFC 8166 section 3.3, RFC 8167 section 4, RFC 8797 section 4.

use nfsrdma_flow::transaction::CallCreditUse;

use super::prelude::*;

/// Nanoseconds from the first Call of a connection before its use of credits is judged.
const MIN_OBSERVED_NS: u64 = 20_000_000;

/// Returns the consequence of a Call that its receiver had no buffer for, as far as it was captured.
fn end_of_connection(message: &ConformanceMessage<'_>) -> &'static str {
    let transaction = message.transaction.transaction;
    match message.is_call() && transaction.reply.is_none() && transaction.has_connection_ended {
        true => "; the connection ended without a reply",
        false => "",
    }
}

/// Returns the consequence of Calls for which their receiver had no buffer, as far as it was captured.
fn end_of_calls(message: &ConformanceMessage<'_>) -> String {
    let transaction = message.transaction.transaction;
    match transaction.has_connection_ended {
        true => {
            let calls = CountWithNoun(transaction.unanswered_at_end, "call");
            format!("; the connection ended with {calls} without a reply")
        }
        false => String::new(),
    }
}

/// Judges the number of Calls in flight. `describe` returns the text of a violation with this number.
fn judge_in_flight(used: CallCreditUse, limit: u32, describe: impl FnOnce(u32) -> String) -> RuleVerdict {
    match used.min_in_flight() {
        count if count > limit => RuleVerdict::broken(describe(count)),
        // A Reply that was captured just after the Call may have permitted it.
        _ if used.in_flight > limit => RuleVerdict::Unknown,
        _ => RuleVerdict::Kept,
    }
}

/// Judges the number of Calls in flight against the grant. `noun` is the name of a Call in the text.
fn judge_granted(message: &ConformanceMessage<'_>, noun: &'static str) -> Option<RuleVerdict> {
    let used = message.transaction.transaction.credit_use;
    let granted = used.granted?;
    // A grant of 0, which is a violation of its own, permits one call.
    Some(judge_in_flight(used, granted.max(1), |count| {
        format!("{} in flight, {granted} granted{}", CountWithNoun(count, noun), end_of_calls(message))
    }))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/credit-zero",
        section: "RFC 8166 section 3.3.1",
        requirement: "A Responder grants at least one credit in each reply.",
        explanation: "A Requester that honours a grant of zero can never send another call: the connection stalls. A call \
            that requests zero credits is a warning. Look at the server's receive queue: a grant is the number of receives \
            that it has posted. Example: a server out of receive buffers writes 0 into rdma_credit of its reply: \"credit \
            0\".",
        subjects: &[RequiredMessageProperty::Version1],
        needs: &[RequiredCaptureEvidence::MessageKind],
        suspects: &[RequiredMessageProperty::UnusualHeader],
        check: RuleCheck::Message(|message| {
            let words = message.version1()?;
            let verdict = RuleVerdict::from_condition(words.credits > 0, || "credit 0".to_owned());
            let severity = if message.is_call() { Severity::Warning } else { Severity::Error };
            Some(verdict.with_severity(severity).at_field(field_names::RPCORDMA_FLOW_CONTROL))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/credit-exceeded",
        section: "RFC 8166 section 3.3.1",
        requirement: "A Requester has no more calls in flight than the Responder granted.",
        explanation: "The Responder may have no receive buffer for the call: the transport then answers RNR NAK, or ends the \
            connection; the text says if it did. Only a reply raises the grant: if no message is missing from the \
            capture (packet numbers leave no gap, and nothing is acknowledged that was not captured), the calls alone \
            prove the violation, whether a reply, an RNR NAK, a fatal NAK, the end of the connection or nothing \
            follows. The larger of the last two grants counts, because a grant may shrink while a call is under way. \
            Example: the last two replies granted one credit, and a second call follows before the reply of the first: \"2 \
            calls in flight, 1 granted\".",
        subjects: &[RequiredMessageProperty::Call],
        needs: &[RequiredCaptureEvidence::Grant, RequiredCaptureEvidence::NoGap],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call() && !message.is_reverse())?;
            judge_granted(message, "call")
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/credits-reverse",
        section: "RFC 8167 section 4.1",
        requirement: "A server has no more reverse-direction calls in flight than the client granted for them.",
        explanation: "Credits of the two directions are counted apart. A client often has few receive buffers for callbacks. \
            Example: the client granted one credit for callbacks, and the server sends CB_RECALL twice at once: \"2 reverse \
            calls in flight, 1 granted\".",
        subjects: &[RequiredMessageProperty::Call, RequiredMessageProperty::Reverse],
        needs: &[RequiredCaptureEvidence::Grant, RequiredCaptureEvidence::NoGap],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call() && message.is_reverse())?;
            judge_granted(message, "reverse call")
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/first-call",
        section: "RFC 8166 section 3.3.3",
        requirement: "Before the first reply of a connection, a Requester has one call in flight.",
        explanation: "Until the first reply, the Requester does not know how many credits it has. Example: a client sends \
            NULL and EXCHANGE_ID at once on a new connection: \"2 calls in flight before the first reply\".",
        subjects: &[RequiredMessageProperty::Call],
        needs: &[RequiredCaptureEvidence::SetUp, RequiredCaptureEvidence::NoGap],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.is_call())?;
            let used = message.transaction.transaction.credit_use;
            if used.granted.is_some() || used.min_in_flight() == 0 {
                return None;
            }
            // The first Reply may have been lost.
            if used.losses > 0 {
                return Some(RuleVerdict::Unknown);
            }
            Some(judge_in_flight(used, 1, |count| {
                let end = end_of_calls(message);
                format!("{} in flight before the first reply{end}", CountWithNoun(count, "call"))
            }))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "rpcrdma/credits-all-used",
        severity: Severity::Info,
        section: "RFC 8267 section 6.7.2",
        requirement: "Observation: a client leaves no credit for the assessment of its connection.",
        explanation: "For more than a tenth of the time, as many calls were in flight as the server had granted: further \
            calls waited in the client, and a client that has used all credits cannot find out that its server has vanished: \
            it should keep one for that. A larger grant may raise throughput; compare the time that the server needs for a \
            call. Example: fio with 64 jobs, and a grant of 2: \"all of 2 credits used\".",
        subjects: &[RequiredMessageProperty::Reply],
        needs: &[RequiredCaptureEvidence::NoLoss],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| !message.is_call() && !message.is_reverse())?;
            let view = message.transaction;
            if !view.transaction.credit_use.is_direction_known {
                return Some(RuleVerdict::Unknown);
            }
            let granted = view.transaction.credit_use.granted.filter(|granted| *granted > 1)?;
            let elapsed_ns = message.record.end_time.nanoseconds_since(view.connection.first_time?)?;
            let at_limit_ns = view.transaction.credit_use.at_limit_ns;
            let total_ns = view.connection.at_limit_ns + at_limit_ns;
            // Each later Reply counts, so that the share is that at the end of the connection.
            let is_limited = elapsed_ns > MIN_OBSERVED_NS && total_ns > elapsed_ns / 10;
            let exhausted = if at_limit_ns > 0 { granted } else { view.connection.exhausted_credits };
            let values = [u64::from(at_limit_ns > 0), exhausted.into(), total_ns, elapsed_ns];
            let verdict = RuleVerdict::measured(!is_limited, values, |aggregate| {
                let ([_, granted, ..], [.., total_ns, elapsed_ns]) = (aggregate.worst, aggregate.last);
                let elapsed_ns = elapsed_ns.max(1);
                let permille = total_ns.saturating_mul(1000).saturating_add(elapsed_ns / 2) / elapsed_ns;
                format!("all of {granted} credits used for {}.{}% of the time", permille / 10, permille % 10)
            });
            Some(verdict.by(view.requester()))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rpcrdma/grant-shrunk",
        severity: Severity::Info,
        section: "RFC 8166 section 3.3.1",
        requirement: "Observation: a Responder lowers its grant, as it may.",
        explanation: "A smaller grant limits throughput. The server may be short of memory, or serve more clients. Example: \
            a server grants 64 credits, and later 32: \"grant 32, 64 before\".",
        subjects: &[RequiredMessageProperty::Reply],
        needs: &[RequiredCaptureEvidence::MessageKind],
        check: RuleCheck::Message(|message| {
            let words = message.version1().filter(|_| !message.is_call())?;
            if !message.transaction.transaction.credit_use.is_direction_known {
                return Some(RuleVerdict::Unknown);
            }
            let direction: CallDirection = message.transaction.transaction.direction;
            let previous_grant = message.transaction.connection.last_grant(direction)?;
            let granted = words.credits;
            let values = [previous_grant.saturating_sub(granted).into(), granted.into(), previous_grant.into(), 0];
            let verdict = RuleVerdict::measured(granted >= previous_grant, values, |aggregate| {
                let [_, granted, previous_grant, _] = aggregate.worst;
                format!("grant {granted}, {previous_grant} before; smaller in {}", aggregate.tally("reply", "replies"))
            });
            Some(verdict.at_field(field_names::RPCORDMA_FLOW_CONTROL))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rpcrdma/send-too-long",
        section: "RFC 8166 section 3.3.2, RFC 8797 section 4.2, RFC 8167 section 4.2",
        requirement: "A Send is no longer than the inline threshold of its direction.",
        explanation: "The threshold is the smaller of the sender's send size and the receiver's receive size; a side without \
            private data has 1,024 bytes (RFC 8797 section 5.1). A longer Send does not fit into the receive buffer: the \
            transport ends the connection; the text says if it did. Longer messages must use chunks. Example: \
            both sides declared 4,096 bytes, and a reply of READ has its data inline: \"4100 bytes sent, inline threshold 4096\".",
        subjects: &[RequiredMessageProperty::Version1],
        needs: &[RequiredCaptureEvidence::SetUp],
        check: RuleCheck::Message(|message| {
            message.version1().filter(|_| message.record.sends == 1 && message.record.gaps.is_empty())?;
            // rpcrdma/long-reply-not-used judges a Reply that has a Reply chunk.
            if super::reply_chunk::has_unused_reply_chunk(message) {
                return None;
            }
            let Some(threshold) = message.transaction.inline_threshold_bytes(message.sender()) else {
                return Some(RuleVerdict::Unknown);
            };
            let length = message.record.length;
            Some(RuleVerdict::from_condition(length <= threshold as usize, || {
                format!(
                    "{length} sent, inline threshold {threshold}{}",
                    end_of_connection(message),
                    length = CountWithNoun(length, "byte")
                )
            }))
        }),
        ..Rule::DEFAULT
    },
];
