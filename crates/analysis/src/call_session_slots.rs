//! Session slots of Calls (RFC 8881 section 2.10.6.1).

use std::ops::Range;

use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};

/// A sessionid4 (RFC 8881 section 3.2).
pub type SessionId = [u8; 16];

/// The session slot of a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSessionSlot {
    /// The session.
    pub session: SessionId,
    /// `sa_slotid`, or `csa_slotid` of a callback.
    pub slot: u32,
}

/// Fields of SEQUENCE or CB_SEQUENCE, the first operation of a COMPOUND, and of operations with their own session.
#[derive(Debug, Default)]
struct SequenceFields {
    session: Option<SessionId>,
    slot: Option<u32>,
    target_highest_slot: Option<u32>,
    /// Of the fore channel, which comes first.
    max_requests: Option<u32>,
}

impl<'a> FieldObserver<'a> for SequenceFields {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        match (field.label, value) {
            (
                field_labels::SA_SESSIONID
                | field_labels::CSA_SESSIONID
                | field_labels::BCTSR_SESSID
                | field_labels::CSR_SESSIONID,
                FieldValue::Bytes(bytes),
            ) => {
                self.session = self.session.or(bytes.try_into().ok());
            }
            (field_labels::SA_SLOTID | field_labels::CSA_SLOTID, FieldValue::Unsigned(slot)) => {
                self.slot = self.slot.or(u32::try_from(slot).ok());
            }
            (field_labels::CA_MAXREQUESTS, FieldValue::Unsigned(count)) => {
                self.max_requests = self.max_requests.or(u32::try_from(count).ok());
            }
            (
                field_labels::SR_TARGET_HIGHEST_SLOTID | field_labels::CSR_TARGET_HIGHEST_SLOTID,
                FieldValue::Unsigned(slot),
            ) => {
                self.target_highest_slot = self.target_highest_slot.or(u32::try_from(slot).ok());
            }
            _ => {}
        }
    }
}

/// Returns the fields of the first of these messages that names a session; `None` before NFSv4.1.
fn sequence_fields(
    messages: &TransactionMessages<'_>,
    summary: &RpcSummary,
    kinds: &[RpcMessageKind],
) -> Option<SequenceFields> {
    summary.minor_version.filter(|minor| *minor > 0)?;
    let mut fields = SequenceFields::default();
    for kind in kinds {
        // Fields before an error are valid.
        let _ = messages.observe_rpc(*kind, &mut fields);
        if fields.session.is_some() {
            break;
        }
    }
    Some(fields)
}

/// Returns the slot of a Call; `None` before NFSv4.1, and for Calls that begin with another operation.
pub fn slot(messages: &TransactionMessages<'_>, summary: &RpcSummary) -> Option<CallSessionSlot> {
    let fields = sequence_fields(messages, summary, &[RpcMessageKind::Call])?;
    Some(CallSessionSlot { session: fields.session?, slot: fields.slot? })
}

/// Returns the number of slots that the Reply grants: one more than `sr_target_highest_slotid`.
pub fn granted_slots(messages: &TransactionMessages<'_>, summary: &RpcSummary) -> Option<u32> {
    let fields = sequence_fields(messages, summary, &[RpcMessageKind::Reply])?;
    fields.target_highest_slot?.checked_add(1)
}

/// Returns the session that a reply to CREATE_SESSION creates, and the number of slots of its fore channel.
pub fn created_session(messages: &TransactionMessages<'_>, summary: &RpcSummary) -> Option<(SessionId, u32)> {
    let fields = sequence_fields(messages, summary, &[RpcMessageKind::Reply])?;
    fields.session.zip(fields.max_requests)
}

/// Returns the session of a COMPOUND, to which its connection is bound: that of SEQUENCE, CB_SEQUENCE,
/// BIND_CONN_TO_SESSION or CREATE_SESSION (RFC 8881 sections 18.46, 20.9, 18.34 and 18.36).
pub fn session(messages: &TransactionMessages<'_>, summary: &RpcSummary) -> Option<SessionId> {
    sequence_fields(messages, summary, &[RpcMessageKind::Call, RpcMessageKind::Reply])?.session
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_nfsv42_has_a_slot_and_its_reply_grants_some() {
        let transactions = crate::testing::transactions("rxe-v42.pcap");
        let read = transactions.iter().find(|transaction| transaction.xid.0 == 0xb38d_f27d).unwrap();
        read.with_messages(|messages| {
            let summary = messages.summary();
            assert_eq!(slot(messages, &summary).map(|used| used.slot), Some(0));
            assert_eq!(granted_slots(messages, &summary), Some(64));
        });
    }

    #[test]
    fn nfsv3_calls_have_no_session_slot() {
        for transaction in crate::testing::transactions("rxe-v3.pcap") {
            transaction.with_messages(|messages| assert_eq!(slot(messages, &messages.summary()), None));
        }
    }
}
