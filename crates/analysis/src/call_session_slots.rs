//! Session slots of Calls (RFC 8881 section 2.10.6.1).

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v4::{CbCompoundCall, CompoundCall, CompoundReply, Results};
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::transaction_message_decoding::TransactionMessages;
use nfsrdma_nfs_model::v4::sequence::{Sequence, SequenceResult};

pub use nfsrdma_dissectors::nfs::v4::Sessionid4 as SessionId;

/// The session slot of a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSessionSlot {
    /// The session.
    pub session: SessionId,
    /// `sa_slotid`, or `csa_slotid` of a callback.
    pub slot: u32,
}

/// Returns the first operation of a Call, if it is SEQUENCE or CB_SEQUENCE.
fn sequence(messages: &TransactionMessages<'_>) -> Option<Sequence> {
    let observer = &mut NullFieldObserver;
    match messages.body(RpcMessageKind::Call)? {
        (Procedure::Compound, mut call) => {
            let call = CompoundCall::decode(&mut call, observer).ok()?;
            Sequence::of(&call.operations().next()?.ok()?)
        }
        (Procedure::CbCompound, mut call) => {
            let call = CbCompoundCall::decode(&mut call, observer).ok()?;
            Sequence::of_callback(&call.operations().next()?.ok()?)
        }
        _ => None,
    }
}

/// Returns what `find` finds first in the results of a COMPOUND.
fn find_result<R>(messages: &TransactionMessages<'_>, find: impl FnMut(Results<'_>) -> Option<R>) -> Option<R> {
    let (Procedure::Compound, mut reply) = messages.body(RpcMessageKind::Reply)? else { return None };
    let reply = CompoundReply::decode(&mut reply, &mut NullFieldObserver).ok()?;
    reply.operations().map_while(Result::ok).find_map(find)
}

/// Returns the slot of a Call; `None` for Calls that begin with another operation, as before NFSv4.1.
pub fn slot(messages: &TransactionMessages<'_>) -> Option<CallSessionSlot> {
    sequence(messages).map(|sequence| CallSessionSlot { session: sequence.session, slot: sequence.slot })
}

/// Returns the number of slots that the Reply grants: one more than `sr_target_highest_slotid`.
pub fn granted_slots(messages: &TransactionMessages<'_>) -> Option<u32> {
    find_result(messages, |result| SequenceResult::of(&result))??.target_highest_slot.checked_add(1)
}

/// Returns the session that a reply to CREATE_SESSION creates, and the number of slots of its fore channel.
pub fn created_session(messages: &TransactionMessages<'_>) -> Option<(SessionId, u32)> {
    find_result(messages, |result| match result {
        Results::CREATE_SESSION(result) => {
            result.ok().map(|created| (created.csr_sessionid, created.csr_fore_chan_attrs.ca_maxrequests))
        }
        _ => None,
    })
}

/// Returns the session of a COMPOUND, to which its connection is bound: that of SEQUENCE, CB_SEQUENCE,
/// BIND_CONN_TO_SESSION or CREATE_SESSION (RFC 8881 sections 18.46, 20.9, 18.34 and 18.36).
pub fn session(messages: &TransactionMessages<'_>) -> Option<SessionId> {
    sequence(messages).map(|sequence| sequence.session).or_else(|| {
        find_result(messages, |result| match result {
            Results::BIND_CONN_TO_SESSION(result) => result.ok().map(|bound| bound.bctsr_sessid),
            Results::CREATE_SESSION(result) => result.ok().map(|created| created.csr_sessionid),
            _ => None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_nfsv42_has_a_slot_and_its_reply_grants_some() {
        let transactions = crate::testing::transactions("rxe-v42.pcap");
        let read = transactions.iter().find(|transaction| transaction.xid.0 == 0xb38d_f27d).unwrap();
        read.with_messages(|messages| {
            assert_eq!(slot(messages).map(|used| used.slot), Some(0));
            assert_eq!(granted_slots(messages), Some(64));
        });
    }

    #[test]
    fn nfsv3_calls_have_no_session_slot() {
        for transaction in crate::testing::transactions("rxe-v3.pcap") {
            transaction.with_messages(|messages| assert_eq!(slot(messages), None));
        }
    }
}
