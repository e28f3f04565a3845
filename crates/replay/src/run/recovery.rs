//! Recovery. After a lost connection, Calls in flight are sent again and their Replies are interpreted accordingly.
//! After a server restart, the [state](recoverable_client_state) of the clients is [reclaimed](calls).
//!
//! If a server has executed a Call whose Reply was lost, a retry obtains the Reply without another execution: from
//! NFSv4.1 on by slot and sequence ID (RFC 8881 section 2.10.6.2), before by XID through its duplicate request cache
//! (RFC 5531 section 9, RFC 7530 section 3.1.1). Therefore a Call is sent again byte for byte, over another connection.

pub(super) mod calls;
pub(super) mod recoverable_client_state;

use std::time::Duration;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    Args, BindConnToSession4Args, ChannelDirFromClient4, ChannelDirFromServer4, CompoundCall, CompoundCallHead,
    CompoundReply, Nfsstat4, Operation, Results, Sessionid4,
};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion};
use nfsrdma_dissectors::rpc::{self, Xid};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Text};
use nfsrdma_nfs_model::{self as model, Again};

use super::reply_statuses_and_grants::ReplyStatusesAndSessionGrants;
use super::step_outcome::StepOutcome;

pub(super) const MAX_RESENDS: u32 = 8;
/// Number of consecutive connections lost without a Reply after which no Call is sent again; after twice as many
/// nothing is sent.
pub(super) const MAX_FAILED_CONNECTIONS: u32 = 12;
/// Increment of the delay before the next connection, for each connection lost without a Reply.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

pub(super) const MAX_CLIENT_RECOVERIES: u32 = 16;

/// Maximum number of sessions per connection whose binding is remembered.
pub(super) const MAX_BINDINGS: usize = 64;

/// Reason code of a step affected by recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRecoveryReasonCode {
    /// Stable name in output.
    pub code: &'static str,
    /// Description.
    pub text: &'static str,
}

/// Defines a constant for each reason, and the list of all.
macro_rules! recovery_reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        $($(#[$doc])* pub const $name: StepRecoveryReasonCode = StepRecoveryReasonCode { code: $code, text: $text };)*

        /// All reasons.
        pub const ALL_REASONS: &[StepRecoveryReasonCode] = &[$($name),*];
    };
}

recovery_reasons! {
    /// The Reply came after the Call was sent again.
    SENT_AGAIN = "sent-again",
        "its connection was lost; it was sent again on another, and the reply matched";
    /// NFS4ERR_RETRY_UNCACHED_REP. RFC 8881 section 15.1.10.3.
    REPLY_UNKNOWN = "reply-unknown",
        "its connection was lost after it was executed; the server did not cache the reply, and nothing is compared";
    /// Names of a listing that was not continued to its end, or has more names than are remembered.
    UNLISTED = "listing-unfinished",
        "the live listing lacks names of the captured one so far: it was not read to its end, or has too many to compare";
    /// Gaps in the numbers of the captured calls. RFC 8881 section 2.10.6.1.
    CALL_MISSING = "call-missing",
        "differs after a call that is missing from the capture, which may have changed what it depends on";
    /// The server executed the Call, the Reply was lost, and it executed the Call again.
    DONE_TWICE = "done-twice",
        "its connection was lost after it was executed; sent again, it found its own result";
    /// The server has restarted, or forgotten a session. RFC 8881 section 8.4.2.
    RESTARTED = "server-restarted",
        "the server had forgotten its client or session; that was re-established, and it was sent again";
    /// SETCLIENTID_CONFIRM or RECLAIM_COMPLETE is missing. RFC 7530 section 16.33.5, RFC 8881 section 18.51.3.
    CLIENT_COMPLETED = "client-completed",
        "the capture lacks the call that confirms its client (SETCLIENTID_CONFIRM, RECLAIM_COMPLETE); the run sent that call, then this one again";
    /// RPCSEC_GSS_CREDPROBLEM or RPCSEC_GSS_CTXPROBLEM. RFC 2203 section 5.3.3.3.
    CONTEXT_RENEWED = "context-renewed",
        "the server no longer knew its security context; it was sent again with a new one";
    /// NFS4ERR_CONN_NOT_BOUND_TO_SESSION. RFC 8881 section 15.1.11.6.
    CONNECTION_BOUND = "connection-bound",
        "its connection was not bound to the session; the run bound it (BIND_CONN_TO_SESSION) and sent the call again";
    /// NFS4ERR_NO_GRACE and similar: the step is unreplayable.
    NOT_RECLAIMED = "not-reclaimed",
        "uses a client, session, open or lock that the server lost and that was not reclaimed";
    /// Repeatedly lost connections: the step is unreplayable.
    NO_CONNECTION = "no-connection",
        "connections to the server were lost, and no reply came";
    /// The server accepts less in one READ or WRITE than the captured one.
    SPLIT = "split",
        "the server accepts less per READ or WRITE; it was split into several calls, which matched as a whole";
}

/// Returns `true` if a COMPOUND is idempotent and may be sent again if its reply was not cached: it reads, or writes the
/// same bytes at the same offset.
pub(super) fn is_repeatable(operations: &[Operation]) -> bool {
    operations.iter().all(|operation| {
        let is_read = model::v4::meaning(*operation).again.is_read();
        is_read || matches!(*operation, Operation::WRITE | Operation::COMMIT)
    })
}

/// Returns `true` if a Call that was sent again failed because of its own first execution, which only a duplicate
/// request cache could prevent. `is_new` is `true` if it was rebuilt for another session, which caches no Reply of the
/// previous one.
pub(super) fn failed_by_first_execution(
    procedure: Option<Procedure>,
    operations: &[Operation],
    is_new: bool,
    outcome: &ReplyStatusesAndSessionGrants,
) -> bool {
    let Some(status) = outcome.last_status() else { return false };
    let again = match procedure {
        Some(Procedure::V3(procedure)) => Some(model::v3::meaning(procedure).again),
        // SEQUENCE prevents a second execution.
        Some(Procedure::Compound) if is_new || operations.first() != Some(&Operation::SEQUENCE) => {
            let failed = operations.get(outcome.statuses.len() - 1);
            failed.map(|operation| model::v4::meaning(*operation).again)
        }
        _ => None,
    };
    again == Some(Again::Fails(status))
}

/// Returns the state of a step that was sent again, from the state that its Reply alone would give.
pub(super) fn resent_state(state: StepOutcome, is_done_twice: bool, is_new: bool) -> StepOutcome {
    match state {
        StepOutcome::Matched | StepOutcome::Tolerated(_) if is_new => StepOutcome::Substituted(RESTARTED.code),
        StepOutcome::Matched | StepOutcome::Tolerated(_) => StepOutcome::Substituted(SENT_AGAIN.code),
        StepOutcome::Mismatched(_) if is_done_twice => StepOutcome::Substituted(DONE_TWICE.code),
        state => state,
    }
}

/// Encodes BIND_CONN_TO_SESSION after the header of its Call: binds the connection to channels of a session. RFC 8881
/// section 18.34.
pub(super) fn bind_conn_to_session(
    minorversion: u32,
    session: Sessionid4,
    direction: ChannelDirFromClient4,
    encoder: &mut Encoder,
) {
    let bind = Args::BIND_CONN_TO_SESSION(BindConnToSession4Args {
        bctsa_sessid: session,
        bctsa_dir: direction,
        bctsa_use_conn_in_rdma_mode: false,
    });
    CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion }, &[bind]).encode(encoder);
}

pub(super) enum SessionBindError {
    /// The server does not know the session any more.
    UnknownSession,
    Delayed,
    Status(Nfsstat4),
    /// Message for the report.
    Refused(String),
}

/// Decodes the Reply to BIND_CONN_TO_SESSION.
///
/// # Errors
/// Returns an error if the connection is not bound to the requested channels.
pub(super) fn decode_bind_reply(
    mut cursor: Cursor<'_>,
    direction: ChannelDirFromClient4,
) -> Result<(), SessionBindError> {
    let refusal = |reason: &str| SessionBindError::Refused(format!("BIND_CONN_TO_SESSION: {reason}"));
    let unreadable = |_| refusal("its reply cannot be read");
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).map_err(unreadable)?;
    let status = message.reply().map(|reply| (reply.status(), reply.auth_stat()));
    match status {
        Some((status, _)) if status.is_success() => {}
        Some((_, Some(auth_stat))) => return Err(refusal(&format!("denied: {auth_stat}"))),
        Some((status, None)) => return Err(refusal(&status.to_string())),
        None => return Err(refusal("the answer is a call")),
    }
    let reply = CompoundReply::decode(&mut cursor, &mut NullFieldObserver).map_err(unreadable)?;
    match reply.operations().next() {
        Some(Ok(Results::BIND_CONN_TO_SESSION(StatusUnion::Ok(ok)))) => match ok.bctsr_dir {
            ChannelDirFromServer4::CDFS4_FORE if direction == ChannelDirFromClient4::CDFC4_BACK_OR_BOTH => {
                Err(refusal("the server binds the fore channel alone"))
            }
            ChannelDirFromServer4::CDFS4_BACK if direction != ChannelDirFromClient4::CDFC4_BACK_OR_BOTH => {
                Err(refusal("the server binds the backchannel alone"))
            }
            _ => Ok(()),
        },
        Some(Ok(results)) => match results.status() {
            Nfsstat4::NFS4ERR_BADSESSION | Nfsstat4::NFS4ERR_DEADSESSION => Err(SessionBindError::UnknownSession),
            Nfsstat4::NFS4ERR_DELAY => Err(SessionBindError::Delayed),
            status => Err(SessionBindError::Status(status)),
        },
        _ => Err(refusal("no result")),
    }
}

/// Returns the XID of a Call, the first four bytes of its message.
pub(super) fn xid(message: &[u8]) -> Option<Xid> {
    message.first_chunk().map(|bytes| Xid(u32::from_be_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v3;

    use super::*;

    fn answered(statuses: &[u32]) -> ReplyStatusesAndSessionGrants {
        ReplyStatusesAndSessionGrants { statuses: statuses.to_vec(), ..ReplyStatusesAndSessionGrants::default() }
    }

    #[test]
    fn rfc8881_section_2_10_6_with_sequence_nothing_counts_as_done_twice() {
        let [remove, sequenced] =
            [&[Operation::PUTFH, Operation::REMOVE][..], &[Operation::SEQUENCE, Operation::PUTFH, Operation::REMOVE]];
        assert!(failed_by_first_execution(Some(Procedure::Compound), remove, false, &answered(&[0, 2])));
        assert!(!failed_by_first_execution(Some(Procedure::Compound), remove, false, &answered(&[2])), "PUTFH failed");
        assert!(!failed_by_first_execution(Some(Procedure::Compound), sequenced, false, &answered(&[0, 0, 2])));
        let anew = failed_by_first_execution(Some(Procedure::Compound), sequenced, true, &answered(&[0, 0, 2]));
        assert!(anew, "another session keeps nothing of the one before");
    }

    #[test]
    fn exist_and_noent_may_result_from_the_first_execution() {
        let v3 = |procedure| Some(Procedure::V3(procedure));
        assert!(failed_by_first_execution(v3(v3::Procedure::MKDIR), &[], false, &answered(&[17])));
        assert!(failed_by_first_execution(v3(v3::Procedure::RENAME), &[], false, &answered(&[2])));
        assert!(!failed_by_first_execution(v3(v3::Procedure::LOOKUP), &[], false, &answered(&[2])));
        assert!(!failed_by_first_execution(v3(v3::Procedure::MKDIR), &[], false, &answered(&[13])));
    }

    #[test]
    fn only_calls_that_change_nothing_are_repeatable() {
        assert!(is_repeatable(&[Operation::SEQUENCE, Operation::PUTFH, Operation::READ]));
        for changes in [Operation::REMOVE, Operation::OPEN, Operation::LOCK, Operation::SETATTR] {
            assert!(!is_repeatable(&[Operation::SEQUENCE, Operation::PUTFH, changes]), "{changes}");
        }
    }

    #[test]
    fn the_document_has_every_reason() {
        let document = include_str!("../../../../docs/replay.md");
        for StepRecoveryReasonCode { code, text } in ALL_REASONS {
            assert!(document.contains(&format!("| `{code}` | {text} |")), "{code}");
        }
    }
}
