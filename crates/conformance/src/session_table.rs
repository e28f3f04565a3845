//! Sessions and their slots, as far as the capture shows them from CREATE_SESSION on. RFC 8881 section 2.10.6.

use std::hash::Hasher;

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::MessageRecord;
use nfsrdma_dissectors::frame::Timestamp;
use nfsrdma_dissectors::nfs::v4::{Args, ChannelAttrs4, Results, Sequence4Args, Sequence4Resok, Sessionid4};
use rustc_hash::{FxHashMap, FxHasher};

use crate::operations::CompoundOperations;

/// Maximum number of sessions. Beyond it, all are forgotten, and rules that need them are not judged.
const MAX_SESSIONS: usize = 4096;
/// Maximum number of slots of a session with a history.
const MAX_SLOTS: usize = 4096;

/// Limits of a channel. RFC 8881 section 18.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelLimits {
    /// ca_maxrequestsize, in bytes.
    pub max_request_bytes: u32,
    /// ca_maxresponsesize, in bytes.
    pub max_response_bytes: u32,
    /// ca_maxresponsesize_cached, in bytes.
    pub max_cached_response_bytes: u32,
    /// ca_maxoperations.
    pub max_operations: u32,
    /// ca_maxrequests: number of slots.
    pub max_requests: u32,
}

impl ChannelLimits {
    fn from_attributes(attributes: &ChannelAttrs4<'_>) -> Self {
        Self {
            max_request_bytes: attributes.ca_maxrequestsize,
            max_response_bytes: attributes.ca_maxresponsesize,
            max_cached_response_bytes: attributes.ca_maxresponsesize_cached,
            max_operations: attributes.ca_maxoperations,
            max_requests: attributes.ca_maxrequests,
        }
    }
}

/// Last use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotUse {
    /// Sequence ID.
    pub sequence_id: u32,
    /// Index of the Transaction.
    pub transaction: u64,
    /// Hash of the RPC message of the Call, without the XID and credential.
    pub request_hash: u64,
    /// Hash of the results.
    pub result_hash: Option<u64>,
    /// Time of the Reply; `None` if it was not captured.
    pub reply_time: Option<Timestamp>,
}

/// State of the session and slot of a COMPOUND before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHistory {
    /// Limits of the fore channel.
    pub limits: ChannelLimits,
    /// sa_highest_slotid plus one of earlier COMPOUNDs, at most: slots that the client said it may use.
    pub highest_slot: Option<u32>,
    /// sr_target_highest_slotid of the last SEQUENCE results.
    pub target_highest_slot: Option<u32>,
    /// Last use of the slot; `None` before its first.
    pub last_use: Option<SlotUse>,
    /// `true` if a COMPOUND of the session could not be decoded, so that uses of slots are missing.
    pub has_gaps: bool,
}

#[derive(Debug)]
struct Session {
    limits: ChannelLimits,
    slots: FxHashMap<u32, SlotUse>,
    highest_slot: Option<u32>,
    target_highest_slot: Option<u32>,
    has_gaps: bool,
}

/// All sessions whose creation was captured.
#[derive(Debug, Default)]
pub(crate) struct SessionTable(FxHashMap<Sessionid4, Session>);

impl SessionTable {
    /// Returns the state of the slot of a COMPOUND before it.
    pub(crate) fn slot(&self, operations: &CompoundOperations<'_>) -> Option<SlotHistory> {
        let sequence = sequence_arguments(operations)?;
        let session = self.0.get(&sequence.sa_sessionid)?;
        Some(SlotHistory {
            limits: session.limits,
            highest_slot: session.highest_slot,
            target_highest_slot: session.target_highest_slot,
            last_use: session.slots.get(&sequence.sa_slotid).copied(),
            has_gaps: session.has_gaps,
        })
    }

    /// Records that sessions were used in a message that cannot be decoded.
    pub(crate) fn record_gap(&mut self) {
        self.0.values_mut().for_each(|session| session.has_gaps = true);
    }

    /// Records a COMPOUND.
    pub(crate) fn record(&mut self, transaction: &Transaction, operations: &CompoundOperations<'_>) {
        for (arguments, result) in operations.pairs() {
            match (arguments, result) {
                (Args::CREATE_SESSION(_), Some(Results::CREATE_SESSION(created))) => {
                    let Some(created) = created.ok() else { continue };
                    if self.0.len() >= MAX_SESSIONS {
                        self.0.clear();
                    }
                    let session = Session {
                        limits: ChannelLimits::from_attributes(&created.csr_fore_chan_attrs),
                        slots: FxHashMap::default(),
                        highest_slot: None,
                        target_highest_slot: None,
                        has_gaps: false,
                    };
                    self.0.insert(created.csr_sessionid, session);
                }
                (Args::DESTROY_SESSION(destroyed), Some(Results::DESTROY_SESSION(result)))
                    if result.ok().is_some() =>
                {
                    self.0.remove(&destroyed.dsa_sessionid);
                }
                _ => {}
            }
        }
        let Some(sequence) = sequence_arguments(operations) else { return };
        let Some(session) = self.0.get_mut(&sequence.sa_sessionid) else { return };
        let result = sequence_result(operations);
        session.highest_slot = session.highest_slot.max(Some(sequence.sa_highest_slotid));
        // A refused SEQUENCE does not use the slot.
        if result.is_none() && transaction.reply.is_some() {
            return;
        }
        if let Some(result) = result {
            session.target_highest_slot = Some(result.sr_target_highest_slotid);
        }
        if session.slots.len() < MAX_SLOTS || session.slots.contains_key(&sequence.sa_slotid) {
            let of = |record: Option<&MessageRecord>| {
                record.map(|record| hash(record.inline_bytes().get(4..).unwrap_or_default()))
            };
            let reply = transaction.reply.as_ref();
            session.slots.insert(
                sequence.sa_slotid,
                SlotUse {
                    sequence_id: sequence.sa_sequenceid,
                    transaction: transaction.index,
                    request_hash: of(transaction.call.as_ref()).unwrap_or(0),
                    result_hash: of(reply),
                    reply_time: reply.map(|reply| reply.end_time),
                },
            );
        }
    }
}

/// Returns the arguments of SEQUENCE, if it is the first operation.
pub(crate) fn sequence_arguments<'o>(operations: &'o CompoundOperations<'_>) -> Option<&'o Sequence4Args> {
    match operations.arguments.first()? {
        Args::SEQUENCE(sequence) => Some(sequence),
        _ => None,
    }
}

/// Returns the result of a successful SEQUENCE.
pub(crate) fn sequence_result<'o>(operations: &'o CompoundOperations<'_>) -> Option<&'o Sequence4Resok> {
    match operations.results.first()? {
        Results::SEQUENCE(result) => result.ok(),
        _ => None,
    }
}

/// Returns the hash of a message.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
