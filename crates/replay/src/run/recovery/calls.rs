//! Calls that reclaim the state of a client from a server that has forgotten it, and their Replies.
//!
//! The order is (RFC 8881 section 8.4.2, RFC 7530 section 9.6.2): client, sessions, opens, locks, and from NFSv4.1 on
//! RECLAIM_COMPLETE.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Args, Clientid4, CompoundCall, CompoundCallHead, CompoundReply, CreateSession4Args, Delegreturn4Args,
    ExchangeIdFlags, ExistLockOwner4, Lock4Args, LockOwner4, LockRes, Locker4, NfsLockType4, Nfsstat4, ObjectFh4,
    Open4Args, OpenClaim4, OpenConfirm4Args, OpenDelegationType4, OpenOwner4, OpenRflags, OpenToLockOwner4, Openflag4,
    Opentype4, Operation, ReclaimComplete4Args, Renew4Args, Results, Sequence4Args, Sessionid4, SetclientidConfirm,
    SetclientidRes, ShareAccess, Stateid4, Verifier4,
};
use nfsrdma_dissectors::rpc::{AcceptStat, RpcMsg, RpcReplyStatus, Xid};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, Text, Void};
use nfsrdma_rpc::TransportErrorResponsibility;
use nfsrdma_rpc::synchronous_client::RpcCallError;

use super::recoverable_client_state::{RecoverableState, StateidOther};
use crate::run::rpc_header_splitting::{split_header, successful_results};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum RecoveryCall {
    /// EXCHANGE_ID, as it was sent. RFC 8881 section 18.35.
    ExchangeId,
    /// CREATE_SESSION to replace this session. RFC 8881 section 18.36.
    CreateSession(Sessionid4),
    /// SETCLIENTID, as it was sent. RFC 7530 section 16.33.
    Setclientid,
    /// SETCLIENTID_CONFIRM with the verifier from SETCLIENTID. RFC 7530 section 16.34.
    SetclientidConfirm(Verifier4),
    /// OPEN with CLAIM_PREVIOUS. RFC 8881 section 18.16.3.
    Open(StateidOther),
    /// OPEN_CONFIRM of a reclaimed open, with the seqid of its stateid. RFC 7530 section 16.18.
    OpenConfirm(StateidOther, u32),
    /// LOCK with reclaim, for the range with this index of a lock-owner; the first uses the open stateid, the others
    /// the lock stateid. RFC 8881 section 18.10.3.
    Lock(StateidOther, usize),
    /// DELEGRETURN of a delegation that the server granted with the reclaimed open `open`. RFC 8881 section 18.6.
    ReturnDelegation { open: StateidOther, delegation: StateidOther, seqid: u32 },
    /// DELEGRETURN of a delegation that is held at the end of the run, with the seqid of its stateid. RFC 8881 section
    /// 18.6.
    ReturnHeldDelegation(StateidOther, u32),
    /// RECLAIM_COMPLETE. RFC 8881 section 18.51.
    ReclaimComplete,
    /// RENEW, under the principal of SETCLIENTID. RFC 7530 section 16.28.4.
    Renew,
}

impl RecoveryCall {
    pub(in crate::run) fn operation(self) -> Operation {
        match self {
            Self::ExchangeId => Operation::EXCHANGE_ID,
            Self::CreateSession(_) => Operation::CREATE_SESSION,
            Self::Setclientid => Operation::SETCLIENTID,
            Self::SetclientidConfirm(_) => Operation::SETCLIENTID_CONFIRM,
            Self::Open(_) => Operation::OPEN,
            Self::OpenConfirm(..) => Operation::OPEN_CONFIRM,
            Self::Lock(..) => Operation::LOCK,
            Self::ReturnDelegation { .. } | Self::ReturnHeldDelegation(..) => Operation::DELEGRETURN,
            Self::ReclaimComplete => Operation::RECLAIM_COMPLETE,
            Self::Renew => Operation::RENEW,
        }
    }

    pub(in crate::run) fn name(self) -> &'static str {
        match self {
            Self::Open(_) => "OPEN with CLAIM_PREVIOUS",
            Self::Lock(..) => "LOCK with reclaim",
            call => call.operation().name(),
        }
    }

    /// Returns `true` if a SEQUENCE precedes the operation from NFSv4.1 on.
    pub(in crate::run) fn has_sequence(self) -> bool {
        !matches!(self, Self::ExchangeId | Self::CreateSession(_))
    }

    pub(in crate::run) fn is_delegation_return(self) -> bool {
        matches!(self, Self::ReturnDelegation { .. } | Self::ReturnHeldDelegation(..))
    }
}

/// Identifiers that a Call of a recovery uses.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct RecoveryCallContext {
    pub(in crate::run) xid: Xid,
    pub(in crate::run) client: Clientid4,
    /// Session, and the sa_sequenceid of its first slot.
    pub(in crate::run) session: Option<(Sessionid4, u32)>,
    /// For NFSv4.0, the next seqids of the open-owner and of the lock-owner.
    pub(in crate::run) seqids: [u32; 2],
    /// Current seqids of the stateids of the open and of the lock.
    pub(in crate::run) stateid_seqids: [u32; 2],
    /// `true` if the lease has expired: there is no grace period, and everything is requested again. RFC 7530 section
    /// 9.6.3.
    pub(in crate::run) is_expired: bool,
}

/// Encodes the Call. Returns `None` if the state it reclaims is no longer held.
pub(in crate::run) fn encode_call(
    held_state: &RecoverableState,
    call: RecoveryCall,
    context: &RecoveryCallContext,
) -> Option<Vec<u8>> {
    let client = held_state.clients.get(&context.client)?;
    let minor = client.minor_version;
    let encode = |header: &[u8], operations: &[Args<'_>]| {
        let sequence = context.session.map(|(id, sequence)| (id, 0, sequence));
        encode_compound(header, context.xid, minor, sequence, operations)
    };
    let putfh = |file| Args::PUTFH(ObjectFh4 { object: Opaque(file) });
    match call {
        RecoveryCall::ExchangeId | RecoveryCall::Setclientid => with_xid(client.message.to_vec(), context.xid),
        RecoveryCall::CreateSession(id) => {
            let (header, mut cursor) = split_header(&held_state.sessions.get(&id)?.message, &[])?;
            let call = CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            let Args::CREATE_SESSION(args) = call.operations().next()?.ok()? else { return None };
            let args = CreateSession4Args { csa_clientid: context.client, csa_sequence: client.sequence, ..*args };
            let mut encoder = Encoder::new();
            encoder.raw(header);
            CompoundCall::new(call.head.clone(), &[Args::CREATE_SESSION(Box::new(args))]).encode(&mut encoder);
            with_xid(encoder.finish().0, context.xid)
        }
        RecoveryCall::SetclientidConfirm(setclientid_confirm) => {
            let confirm = SetclientidConfirm { clientid: context.client, setclientid_confirm };
            encode(split_header(&client.message, &[])?.0, &[Args::SETCLIENTID_CONFIRM(confirm)])
        }
        RecoveryCall::Open(other) => {
            let open = held_state.opens.get(&other)?;
            // Linux 7.2 grants a delegation although the claim asks for none.
            let want_flags = if minor > 0 { ShareAccess::OPEN4_SHARE_ACCESS_WANT_NO_DELEG.0 } else { 0 };
            let entry = open.entry.as_ref().filter(|_| context.is_expired);
            let claim = match entry {
                Some(entry) => OpenClaim4::Null(Text(&entry.name)),
                None => OpenClaim4::Previous(OpenDelegationType4::OPEN_DELEGATE_NONE),
            };
            let args = Open4Args {
                seqid: context.seqids[0],
                share_access: ShareAccess(open.access.0 | want_flags),
                share_deny: open.deny,
                owner: OpenOwner4 { clientid: context.client, owner: Opaque(&open.owner) },
                openhow: Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE),
                claim,
            };
            match entry {
                // The name may be that of another file now.
                Some(entry) => encode(&open.header, &[putfh(&entry.directory), Args::OPEN(args), Args::GETFH(Void)]),
                None => encode(&open.header, &[putfh(&open.file), Args::OPEN(args)]),
            }
        }
        RecoveryCall::OpenConfirm(other, seqid) => {
            let open = held_state.opens.get(&other)?;
            let confirm = OpenConfirm4Args { open_stateid: Stateid4 { seqid, other }, seqid: context.seqids[0] };
            encode(&open.header, &[putfh(&open.file), Args::OPEN_CONFIRM(confirm)])
        }
        RecoveryCall::Lock(other, at) => {
            let lock = held_state.locks.get(&other)?;
            let open = held_state.opens.get(&lock.open)?;
            let range = lock.ranges.get(at)?;
            let locker = match at {
                0 => Locker4::New(OpenToLockOwner4 {
                    open_seqid: context.seqids[0],
                    open_stateid: Stateid4 { seqid: context.stateid_seqids[0], other: lock.open },
                    lock_seqid: context.seqids[1],
                    lock_owner: LockOwner4 { clientid: context.client, owner: Opaque(&lock.owner) },
                }),
                _ => Locker4::Existing(ExistLockOwner4 {
                    lock_stateid: Stateid4 { seqid: context.stateid_seqids[1], other },
                    lock_seqid: context.seqids[1],
                }),
            };
            let args = Lock4Args {
                locktype: if range.is_write { NfsLockType4::WRITE_LT } else { NfsLockType4::READ_LT },
                reclaim: !context.is_expired,
                offset: range.start,
                length: if range.end == u64::MAX { u64::MAX } else { range.end.saturating_sub(range.start) },
                locker,
            };
            encode(&lock.header, &[putfh(&open.file), Args::LOCK(args)])
        }
        RecoveryCall::ReturnDelegation { open, delegation: other, seqid } => {
            let open = held_state.opens.get(&open)?;
            let args = Delegreturn4Args { deleg_stateid: Stateid4 { seqid, other } };
            encode(&open.header, &[putfh(&open.file), Args::DELEGRETURN(args)])
        }
        RecoveryCall::ReturnHeldDelegation(other, seqid) => {
            let delegation = held_state.delegations.get(&other)?;
            let args = Delegreturn4Args { deleg_stateid: Stateid4 { seqid, other } };
            encode(&delegation.header, &[putfh(&delegation.file), Args::DELEGRETURN(args)])
        }
        RecoveryCall::ReclaimComplete => {
            let args = ReclaimComplete4Args { rca_one_fs: false };
            encode(split_header(&client.message, &[])?.0, &[Args::RECLAIM_COMPLETE(args)])
        }
        RecoveryCall::Renew => {
            let args = Renew4Args { clientid: context.client };
            encode(split_header(&client.message, &[])?.0, &[Args::RENEW(args)])
        }
    }
}

/// Encodes a COMPOUND after an RPC header. SEQUENCE precedes the operations if a session, slot and sequence ID are
/// given.
pub(in crate::run) fn encode_compound(
    header: &[u8],
    xid: Xid,
    minorversion: u32,
    sequence: Option<(Sessionid4, u32, u32)>,
    operations: &[Args<'_>],
) -> Option<Vec<u8>> {
    let sequence = sequence.map(|(sa_sessionid, sa_slotid, sa_sequenceid)| {
        let (sa_highest_slotid, sa_cachethis) = (sa_slotid, true);
        Args::SEQUENCE(Sequence4Args { sa_sessionid, sa_sequenceid, sa_slotid, sa_highest_slotid, sa_cachethis })
    });
    let operations: Vec<_> = sequence.into_iter().chain(operations.iter().cloned()).collect();
    let mut encoder = Encoder::new();
    encoder.raw(header);
    CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion }, &operations).encode(&mut encoder);
    with_xid(encoder.finish().0, xid)
}

fn with_xid(mut message: Vec<u8>, xid: Xid) -> Option<Vec<u8>> {
    message.get_mut(..4)?.copy_from_slice(&xid.0.to_be_bytes());
    Some(message)
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::run) enum RecoveryCallResult {
    /// Client ID, sequence ID for CREATE_SESSION, and `true` if the server still knew the client.
    Client(Clientid4, u32, bool),
    /// Client ID to be confirmed.
    Unconfirmed(Clientid4, Verifier4),
    /// Session ID and number of granted slots.
    Session(Sessionid4, u32),
    Stateid(Stateid4),
    /// Stateid of an open to be confirmed.
    UnconfirmedLiveOpen(Stateid4),
    Done,
}

/// Reply to a Call of a recovery or of a substitute open.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run) struct RecoveryReply {
    /// Status of each operation, up to the first that failed.
    pub(in crate::run) statuses: Vec<Nfsstat4>,
    /// The operation of the last status.
    pub(in crate::run) operation: Operation,
    /// Result of the last operation that has one.
    pub(in crate::run) result: RecoveryCallResult,
    /// Stateid of a delegation that an OPEN granted.
    pub(in crate::run) delegation: Option<Stateid4>,
    /// Filehandle of the file that an OPEN by name has opened.
    pub(in crate::run) file: Option<Box<[u8]>>,
}

impl RecoveryReply {
    /// Decodes a Reply; `cursor` is at the start of the RPC message. Returns `None` if it cannot be decoded or RPC
    /// reports an error.
    pub(in crate::run) fn of(cursor: Cursor<'_>) -> Option<Self> {
        let reply = CompoundReply::decode(&mut successful_results(cursor)?, &mut NullFieldObserver).ok()?;
        let mut decoded = Self {
            statuses: Vec::new(),
            operation: Operation::ILLEGAL,
            result: RecoveryCallResult::Done,
            delegation: None,
            file: None,
        };
        for results in reply.operations().map_while(Result::ok).take(8) {
            decoded.statuses.push(results.status());
            decoded.operation = results.operation();
            if let Results::OPEN(StatusUnion::Ok(ok)) = &results {
                decoded.delegation = ok.delegation.stateid().cloned();
            }
            if let Results::GETFH(StatusUnion::Ok(ok)) = &results {
                decoded.file = Some(ok.object.0.into());
            }
            decoded.result = match results {
                Results::EXCHANGE_ID(StatusUnion::Ok(ok)) => RecoveryCallResult::Client(
                    ok.eir_clientid,
                    ok.eir_sequenceid,
                    ok.eir_flags.contains(ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R),
                ),
                Results::SETCLIENTID(SetclientidRes::Ok(ok)) => {
                    RecoveryCallResult::Unconfirmed(ok.clientid, ok.setclientid_confirm)
                }
                Results::CREATE_SESSION(StatusUnion::Ok(ok)) => {
                    RecoveryCallResult::Session(ok.csr_sessionid, ok.csr_fore_chan_attrs.ca_maxrequests)
                }
                Results::OPEN(StatusUnion::Ok(ok)) if ok.rflags.contains(OpenRflags::OPEN4_RESULT_CONFIRM) => {
                    RecoveryCallResult::UnconfirmedLiveOpen(ok.stateid)
                }
                Results::OPEN(StatusUnion::Ok(ok)) => RecoveryCallResult::Stateid(ok.stateid),
                Results::OPEN_CONFIRM(StatusUnion::Ok(ok)) => RecoveryCallResult::Stateid(ok.open_stateid),
                Results::LOCK(LockRes::Ok(ok)) => RecoveryCallResult::Stateid(ok.lock_stateid),
                // SEQUENCE, PUTFH and CLOSE, for example, have no result that is needed.
                _ => continue,
            };
        }
        (!decoded.statuses.is_empty()).then_some(decoded)
    }

    /// Returns the party at fault for a reply that is [none](Self::of), and the reason. RFC 5531 section 9.
    pub(in crate::run) fn failure(mut cursor: Cursor<'_>) -> (TransportErrorResponsibility, String) {
        let unreadable = || (TransportErrorResponsibility::Server, "its reply cannot be read".to_owned());
        let Ok(message) = RpcMsg::decode(&mut cursor, &mut NullFieldObserver) else { return unreadable() };
        let Some(reply) = message.reply() else { return unreadable() };
        let error = match reply.status() {
            status if status.is_success() => return unreadable(),
            // Whether the server serves the program, or this machine, is a matter of its configuration.
            RpcReplyStatus::Accepted(AcceptStat::PROG_MISMATCH) => {
                return (TransportErrorResponsibility::Unreachable, AcceptStat::PROG_MISMATCH.to_string());
            }
            _ if reply.auth_stat().is_some() => {
                let reason = reply.auth_stat().map_or_else(String::new, |auth_stat| format!("denied: {auth_stat}"));
                return (TransportErrorResponsibility::Unreachable, reason);
            }
            status => RpcCallError::Rpc(status),
        };
        (error.blame(), error.to_string())
    }

    /// Returns the stateid of the open that was reclaimed or made.
    pub(in crate::run) fn opened(&self) -> Option<StateidOther> {
        match &self.result {
            RecoveryCallResult::Stateid(stateid) | RecoveryCallResult::UnconfirmedLiveOpen(stateid) => {
                Some(stateid.other)
            }
            _ => None,
        }
    }

    pub(in crate::run) fn status(&self) -> Nfsstat4 {
        self.statuses.last().copied().unwrap_or(Nfsstat4::NFS4ERR_SERVERFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5531 section 9.
    #[test]
    fn failed_reply_has_party_at_fault() {
        use TransportErrorResponsibility::{Program, Server, Unreachable};
        let cases: [(&[u32], _, &str); 9] = [
            (&[9, 1, 0, 0, 0, 4], Program, "GARBAGE_ARGS"),
            (&[9, 1, 0, 0, 0, 3], Server, "PROC_UNAVAIL"),
            (&[9, 1, 0, 0, 0, 1], Unreachable, "PROG_UNAVAIL"),
            (&[9, 1, 0, 0, 0, 2, 3, 4], Unreachable, "PROG_MISMATCH"),
            (&[9, 1, 0, 0, 0, 5], Unreachable, "SYSTEM_ERR"),
            (&[9, 1, 1, 0, 3, 4], Server, "RPC_MISMATCH"),
            (&[9, 1, 1, 1, 5], Unreachable, "AUTH_TOOWEAK"),
            (&[9, 1, 0, 0, 0, 0], Server, "its reply cannot be read"),
            (&[9, 1], Server, "its reply cannot be read"),
        ];
        for (words, expected, text) in cases {
            let message = words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
            assert!(RecoveryReply::of(Cursor::new(&message)).is_none(), "{text}");
            let (blame, reason) = RecoveryReply::failure(Cursor::new(&message));
            assert!(blame == expected && reason.contains(text), "{text}: {blame:?}, {reason}");
        }
    }
}
