//! Slots of both channels of a session: RFC 8881 sections 2.10.6, 18.46 and 20.9.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::nfs::v4::{CbArgs, SequenceStatusFlags};
use nfsrdma_nfs_model::v4::sequence::Sequence;
use nfsrdma_nfs_model::v4::{self, Position};

use super::prelude::*;
use crate::session_table::{LastSessionSlotUse, SlotStateBeforeCompound};

/// Flags of sr_status_flags that report a loss of the backchannel.
const LOST_BACKCHANNEL: [(SequenceStatusFlags, &str); 3] = [
    (SequenceStatusFlags::SEQ4_STATUS_CB_PATH_DOWN, "SEQ4_STATUS_CB_PATH_DOWN"),
    (SequenceStatusFlags::SEQ4_STATUS_CB_PATH_DOWN_SESSION, "SEQ4_STATUS_CB_PATH_DOWN_SESSION"),
    (SequenceStatusFlags::SEQ4_STATUS_BACKCHANNEL_FAULT, "SEQ4_STATUS_BACKCHANNEL_FAULT"),
];

/// A Call with SEQUENCE or CB_SEQUENCE on a channel and slot with a history.
pub(super) struct SessionSlotCall<'t> {
    pub(super) sequence: Sequence,
    pub(super) history: &'t SlotStateBeforeCompound,
    transaction: &'t Transaction,
    time: Timestamp,
    pub(super) frames: &'t [FrameNumber],
}

impl<'t> SessionSlotCall<'t> {
    pub(super) fn of(transaction: &'t ConformanceTransaction<'_>) -> Option<Self> {
        let sequence = transaction.operations.sequence?;
        let call = transaction.call()?;
        Some(Self {
            sequence,
            history: transaction.slot.as_ref()?,
            transaction: transaction.transaction,
            time: call.time,
            frames: &call.frames,
        })
    }

    /// Returns the last use of the slot, if it was before this Call: Transactions come in the order in which they
    /// close.
    fn earlier_use(&self) -> Option<LastSessionSlotUse> {
        self.history.last_use.filter(|last_use| last_use.is_before(self.transaction, self.time))
    }

    /// Returns the Call that this one repeats.
    fn repeated_use(&self) -> Option<LastSessionSlotUse> {
        self.earlier_use().filter(|last_use| last_use.sequence_id == self.sequence.sequence_id)
    }
}

/// Returns a violation of the Requester, or `Unknown` if uses of the slot may be missing from the capture.
fn certain_violation(
    transaction: &ConformanceTransaction<'_>,
    call: &SessionSlotCall<'_>,
    text: impl FnOnce() -> String,
) -> RuleVerdict {
    if call.history.has_gaps {
        return RuleVerdict::Unknown;
    }
    by_requester(transaction, call.frames, RuleVerdict::broken(text()))
}

/// Returns the end of the text about a violation that the Responder did not refuse.
fn accepted(transaction: &ConformanceTransaction<'_>) -> &'static str {
    match (transaction.operations.status, transaction.operations.channel) {
        (Some(Nfsstat4::NFS4_OK), Channel::Fore) => ", which the server accepted",
        (Some(Nfsstat4::NFS4_OK), Channel::Back) => ", which the client accepted",
        _ => "",
    }
}

/// Sets the Requester as the side of a violation, with its frames.
pub(super) fn by_requester(
    transaction: &ConformanceTransaction<'_>,
    frames: &[FrameNumber],
    verdict: RuleVerdict,
) -> RuleVerdict {
    verdict.by(transaction.requester()).in_frames(frames)
}

fn position(operation: &Args<'_>) -> Position {
    v4::meaning(operation.operation()).position
}

/// Returns the fault in the position of CB_SEQUENCE. RFC 8881 section 20.9.3.
fn callback_sequence_fault(operations: &[CbArgs<'_>], accepted: &str) -> Option<String> {
    operations.iter().enumerate().find_map(|(at, operation)| match (at, matches!(operation, CbArgs::CB_SEQUENCE(_))) {
        (0, false) => Some(format!("{} is the first operation{accepted}", operation.operation())),
        (1.., true) => Some(format!("CB_SEQUENCE is operation {}{accepted}", at + 1)),
        _ => None,
    })
}

fn check_sequence_position(transaction: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let operations = &transaction.operations;
    // A server answers MINOR_VERS_MISMATCH to other minor versions.
    if !matches!(operations.minor_version, 1 | 2) {
        return None;
    }
    let frames = transaction.call().map(|call| call.frames.as_slice()).unwrap_or_default();
    if operations.channel == Channel::Back {
        operations.callback_arguments.first()?;
        let fault = callback_sequence_fault(operations.callback_arguments, accepted(transaction));
        return Some(by_requester(transaction, frames, RuleVerdict::from_fault(fault)));
    }
    let first = operations.arguments.first()?;
    let is_in_session = position(first) == Position::First;
    let name = |operation: &Args<'_>| operation.operation().to_string();
    let accepted = accepted(transaction);
    let fault = operations.arguments.iter().enumerate().find_map(|(at, operation)| {
        Some(match position(operation) {
            Position::First if at > 0 => {
                format!("SEQUENCE is operation {}{accepted}", at + 1)
            }
            Position::First => return None,
            Position::Alone | Position::AloneOrInSession if at == 0 && operations.operation_count > 1 => {
                let count = operations.operation_count;
                format!(
                    "{} is the first of {count}{accepted}",
                    name(operation),
                    count = CountWithNoun(count, "operation")
                )
            }
            Position::Alone if at > 0 => {
                format!("{} is operation {}, not the only one{accepted}", name(operation), at + 1)
            }
            Position::InSession if at == 0 => {
                format!("{} is the first operation{accepted}", name(operation))
            }
            _ => return None,
        })
    });
    let fault = fault.or_else(|| {
        let (Args::SEQUENCE(sequence), true) = (first, is_in_session) else { return None };
        let count = operations.operation_count as usize;
        let destroyed = operations.arguments.iter().position(|operation| {
            matches!(operation, Args::DESTROY_SESSION(destroyed) if destroyed.dsa_sessionid == sequence.sa_sessionid)
        })?;
        (destroyed + 1 < count)
            .then(|| format!("DESTROY_SESSION of its own session is operation {} of {count}{accepted}", destroyed + 1))
    });
    Some(by_requester(transaction, frames, RuleVerdict::from_fault(fault)))
}

fn check_replay(transaction: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let call = SessionSlotCall::of(transaction)?;
    let repeated = call.repeated_use()?;
    let operations = &transaction.operations;
    operations.sequence_result?;
    let arguments = operations.arguments_digest.zip(repeated.arguments);
    let (Some((current_arguments, first_arguments)), Some((results, first_results))) =
        (arguments, operations.results_digest.zip(repeated.results))
    else {
        return Some(RuleVerdict::Unknown);
    };
    if current_arguments.is_same(first_arguments) != Some(true) {
        return None;
    }
    let Some(is_same) = results.is_same(first_results) else { return Some(RuleVerdict::Unknown) };
    // RFC 8881 section 2.10.6.1.3: a reply that the client did not want in the cache need not be there.
    let second = operations.outcomes().nth(1).map(|(_, status)| status);
    let is_uncached = !repeated.is_cache_requested && second.is_some_and(|status| status != Nfsstat4::NFS4_OK);
    Some(RuleVerdict::from_condition(is_same || is_uncached, || {
        let (id, [prefix, _]) = (repeated.sequence_id, operations.channel.prefixes());
        match second {
            Some(Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP) => {
                format!("NFS4ERR_RETRY_UNCACHED_REP for sequence ID {id}, which was sent with {prefix}_cachethis")
            }
            _ => format!("other results than in the first reply to sequence ID {id}"),
        }
    }))
}

/// Compares a Call with the other one of its session, slot and sequence ID. Both Calls suffice.
fn check_false_retry(transaction: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let sequence = transaction.operations.sequence?;
    let call = transaction.call()?;
    let other = transaction.last_use.filter(|other| other.sequence_id == sequence.sequence_id)?;
    let digests = transaction.operations.arguments_digest.zip(other.arguments);
    let is_same = digests.and_then(|(now, before)| now.is_same(before));
    Some(match is_same {
        Some(true) => RuleVerdict::Kept,
        Some(false) if other.is_slot_used(transaction.transaction) => {
            let (slot, id) = (sequence.slot, sequence.sequence_id);
            let text = || format!("another request with sequence ID {id} on slot {slot}");
            let mut frames: Vec<FrameNumber> = call.frames.iter().copied().chain(other.call_frame).collect();
            frames.sort_unstable();
            by_requester(transaction, &frames, RuleVerdict::broken(text())).at_field(field_names::NFS_SEQID)
        }
        _ => RuleVerdict::Unknown,
    })
}

/// Judges the answer to a sequence ID that is wrong for certain.
fn check_accepted_gap(transaction: &ConformanceTransaction<'_>) -> Option<RuleVerdict> {
    let call = SessionSlotCall::of(transaction)?;
    let Sequence { slot, sequence_id: id, highest_slot, .. } = call.sequence;
    let last_use = call.earlier_use();
    let is_first = call.history.last_use.is_none();
    // nfs/slot-range judges slots that were not granted.
    if last_use.is_none() && (!is_first || slot > highest_slot.min(call.history.highest_granted_slot)) {
        return None;
    }
    let last_id = last_use.map_or(0, |last_use| last_use.sequence_id);
    if id == last_id.wrapping_add(1) || last_use.is_some() && id == last_id {
        return Some(RuleVerdict::Kept);
    }
    if call.history.has_gaps || last_use.is_some_and(|last_use| !last_use.is_executed) {
        return Some(RuleVerdict::Unknown);
    }
    let before = if is_first { "not used before".to_owned() } else { format!("{last_id} before") };
    let result = transaction.operations.sequence_result;
    // nfs/sequence-echo judges results of another sequence ID.
    if result.is_some_and(|result| result.sequence_id != id) {
        return None;
    }
    let is_refused = result.is_none();
    let text = || format!("sequence ID {id} on slot {slot} accepted, {before}");
    Some(RuleVerdict::from_condition(is_refused, text).at_field(field_names::NFS_SEQID))
}

/// Returns `true` if the Call is a false retry: the Responder may answer with the results of the other Call.
pub(super) fn is_false_retry(transaction: &ConformanceTransaction<'_>) -> bool {
    matches!(check_false_retry(transaction), Some(RuleVerdict::Broken(_)))
}

/// Returns the verdict about the results of a Call; `None` for a fault that the Requester caused with a false retry.
pub(super) fn unless_false_retry(
    transaction: &ConformanceTransaction<'_>,
    verdict: RuleVerdict,
) -> Option<RuleVerdict> {
    let is_broken = matches!(verdict, RuleVerdict::Broken(_));
    (!is_broken || !is_false_retry(transaction)).then_some(verdict)
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "nfs/sequence-first",
        section: "RFC 8881 sections 18.46.3, 18.34.3, 18.35.3, 18.36.3, 18.37.3, 18.50.3 and 20.9.3",
        requirement: "A COMPOUND of minor version 1 or 2 begins with SEQUENCE, or is a single operation about clients or \
            sessions; a CB_COMPOUND begins with CB_SEQUENCE.",
        explanation: "Without SEQUENCE there is no slot, and so no protection against a second execution. The server answers \
            NFS4ERR_OP_NOT_IN_SESSION, NFS4ERR_NOT_ONLY_OP or NFS4ERR_SEQUENCE_POS; the text says if it accepted the \
            COMPOUND instead. Example: a COMPOUND of minor version 2 begins with PUTROOTFH: \"PUTROOTFH is the first \
            operation, which the server accepted\".",
        subjects: &[RequiredMessageProperty::Compound, RequiredMessageProperty::SessionVersion],
        suspects: &[RequiredMessageProperty::UnusualCompound],
        check: RuleCheck::Transaction(check_sequence_position),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/sequence-echo",
        section: "RFC 8881 sections 2.10.6.1, 18.46.3 and 20.9.3",
        requirement: "SEQUENCE and CB_SEQUENCE return the session ID, slot and sequence ID of their arguments.",
        explanation: "A Requester that finds other values cannot be sure that the reply belongs to its call. The Linux \
            client then recovers the session. Example: the call used slot 0, and the results name slot 1: \"sr_slotid 1, sa_slotid 0\".",
        subjects: &[RequiredMessageProperty::Sequence],
        needs: &[RequiredCaptureEvidence::BothMessages],
        suspects: &[RequiredMessageProperty::UnusualSequence],
        check: RuleCheck::Transaction(|transaction| {
            let operations = &transaction.operations;
            let (sent, returned) = operations.sequence.zip(operations.sequence_result)?;
            let [args_prefix, result_prefix] = operations.channel.prefixes();
            Some(if sent.session != returned.session {
                let text = format!("{result_prefix}_sessionid differs from {args_prefix}_sessionid");
                RuleVerdict::broken(text).at_field(field_names::NFS_SESSION_ID4)
            } else if sent.slot != returned.slot {
                let text = format!("{result_prefix}_slotid {}, {args_prefix}_slotid {}", returned.slot, sent.slot);
                RuleVerdict::broken(text).at_field(field_names::NFS_SLOTID)
            } else if sent.sequence_id != returned.sequence_id {
                let (result_id, args_id) = (returned.sequence_id, sent.sequence_id);
                let text = format!("{result_prefix}_sequenceid {result_id}, {args_prefix}_sequenceid {args_id}");
                RuleVerdict::broken(text).at_field(field_names::NFS_SEQID)
            } else {
                RuleVerdict::Kept
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/slot-first",
        section: "RFC 8881 sections 2.10.6.1 and 18.36.3",
        requirement: "The first use of a slot of the fore channel or the back channel has the sequence ID 1.",
        explanation: "The Responder answers NFS4ERR_SEQ_MISORDERED. The Requester may have kept the sequence IDs of an \
            earlier session. Example: a new session has had no call on slot 1, and the client begins with 2: \"sequence ID 2 in the \
            first use of slot 1\".",
        subjects: &[RequiredMessageProperty::Sequence, RequiredMessageProperty::FirstSlotUse],
        needs: &[RequiredCaptureEvidence::Session],
        check: RuleCheck::Transaction(|transaction| {
            let call = SessionSlotCall::of(transaction)?;
            let Sequence { slot, highest_slot, .. } = call.sequence;
            // nfs/slot-range judges the others.
            let is_slot = slot <= highest_slot.min(call.history.highest_granted_slot);
            if call.history.last_use.is_some() || !is_slot {
                return None;
            }
            let (slot, id) = (call.sequence.slot, call.sequence.sequence_id);
            Some(match id {
                1 => RuleVerdict::Kept,
                _ => certain_violation(transaction, &call, || {
                    format!("sequence ID {id} in the first use of slot {slot}")
                })
                .at_field(field_names::NFS_SEQID),
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/slot-gap",
        section: "RFC 8881 sections 2.10.6.1 and 20.9.3",
        requirement: "The sequence ID of a slot grows by one with each call; a retry repeats it.",
        explanation: "The Responder answers NFS4ERR_SEQ_MISORDERED, and the client must recover the session. After \
            0xffffffff comes 0. Slots of the back channel are those of the server. Example: a client skips 3: \"sequence ID 4 on slot 0, 2 before\".",
        subjects: &[RequiredMessageProperty::Sequence],
        needs: &[RequiredCaptureEvidence::Session],
        suspects: &[RequiredMessageProperty::UnusualSequence],
        check: RuleCheck::Transaction(|transaction| {
            let call = SessionSlotCall::of(transaction)?;
            let last_use = call.earlier_use()?;
            let (slot, id, last_id) = (call.sequence.slot, call.sequence.sequence_id, last_use.sequence_id);
            Some(if id == last_id || id == last_id.wrapping_add(1) {
                RuleVerdict::Kept
            } else if !last_use.is_executed {
                RuleVerdict::Unknown
            } else {
                certain_violation(transaction, &call, || {
                    let accepted = accepted(transaction);
                    format!("sequence ID {id} on slot {slot}, {last_id} before{accepted}")
                })
                .at_field(field_names::NFS_SEQID)
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/gap-accepted",
        section: "RFC 8881 sections 2.10.6.1 and 20.9.3",
        requirement: "A Responder answers NFS4ERR_SEQ_MISORDERED to a sequence ID that is neither the last of the slot nor \
            the next.",
        explanation: "The Responder lost count of the slot, or does not check it: it may execute a late copy of a request \
            again. nfs/slot-gap or nfs/slot-first names the Requester. Example: the last sequence ID of slot 0 is 2, and the \
            server executes a call with 4: \"sequence ID 4 on slot 0 accepted, 2 before\".",
        subjects: &[RequiredMessageProperty::Sequence],
        needs: &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::Session],
        suspects: &[RequiredMessageProperty::UnusualSequence],
        check: RuleCheck::Transaction(check_accepted_gap),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/retry-here",
        section: "RFC 8881 section 2.10.6.2",
        requirement: "A Requester repeats a request only after its connection was lost, on another connection.",
        explanation: "A living connection delivers the request and its reply. The retry uses another credit, and may come \
            while the Responder still executes the request. Example: a client repeats a COMPOUND without a reconnect: \
            \"sequence ID 2 on slot 0 again on the same connection\".",
        subjects: &[RequiredMessageProperty::Sequence, RequiredMessageProperty::RepeatedSequence],
        needs: &[RequiredCaptureEvidence::Session],
        check: RuleCheck::Transaction(|transaction| {
            let call = SessionSlotCall::of(transaction)?;
            // RFC 8267 section 3.1: a Call may be repeated after an error of the transport.
            let has_failed = |last_use: &LastSessionSlotUse| last_use.reply_time.is_some() && !last_use.is_executed;
            let repeated = call.repeated_use().filter(|last_use| !has_failed(last_use))?;
            let (arguments, first_arguments) = transaction.operations.arguments_digest.zip(repeated.arguments)?;
            if arguments.is_same(first_arguments) != Some(true) {
                return None;
            }
            let (slot, id) = (call.sequence.slot, call.sequence.sequence_id);
            Some(match repeated.connection() == transaction.transaction.connection.number {
                false => RuleVerdict::Kept,
                true => certain_violation(transaction, &call, || {
                    format!("sequence ID {id} on slot {slot} again on the same connection")
                })
                .at_field(field_names::NFS_SEQID),
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/slot-busy",
        section: "RFC 8881 sections 2.10.6.1 and 2.10.6.2",
        requirement: "A Requester waits for the reply before it uses the slot again.",
        explanation: "If the Responder has not seen the first call, it refuses the second one with NFS4ERR_SEQ_MISORDERED, \
            and the Requester does not know which sequence ID is next. An interrupted call is a frequent cause. Example: a user \
            interrupts a process, and the client uses its slot for the next call at once: \"sequence IDs 2 and 3 in flight \
            on slot 0\".",
        subjects: &[RequiredMessageProperty::Sequence],
        needs: &[RequiredCaptureEvidence::Session],
        suspects: &[RequiredMessageProperty::UnusualSequence],
        check: RuleCheck::Transaction(|transaction| {
            let call = SessionSlotCall::of(transaction)?;
            let other_use = call.history.last_use?;
            if other_use.sequence_id == call.sequence.sequence_id {
                return None;
            }
            let reply_time = transaction.reply().map(|reply| reply.time);
            // Transactions come in the order in which they close: the other use may be later.
            let (busy_until, next_call) = if other_use.is_before(transaction.transaction, call.time) {
                (other_use.reply_time, call.time)
            } else {
                (reply_time, other_use.call_time)
            };
            let Some(busy_until) = busy_until else { return Some(RuleVerdict::Unknown) };
            if next_call >= busy_until {
                return Some(RuleVerdict::Kept);
            }
            if other_use.has_uncertain_order(transaction.transaction) {
                return Some(RuleVerdict::Unknown);
            }
            let slot = call.sequence.slot;
            let text = || {
                let [first, second] = [other_use.sequence_id, call.sequence.sequence_id];
                format!("sequence IDs {first} and {second} in flight on slot {slot}")
            };
            let frames: Vec<FrameNumber> =
                other_use.call_frame.into_iter().chain(call.frames.iter().copied()).collect();
            Some(by_requester(transaction, &frames, RuleVerdict::broken(text())).at_field(field_names::NFS_SLOTID))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/slot-range",
        section: "RFC 8881 sections 2.10.6.1, 18.36.3, 18.46.3 and 20.9.3",
        requirement: "A slot is not above sa_highest_slotid of the same SEQUENCE, and that is a slot that the server granted; \
            the same applies to CB_SEQUENCE, and slots that the client granted.",
        explanation: "The Responder answers NFS4ERR_BADSLOT to a slot that it did not grant, and may answer \
            NFS4ERR_BAD_HIGH_SLOT if only sa_highest_slotid is too high: a warning, because a Requester may set it above the \
            slots in use. Slots go from 0 to ca_maxrequests - 1 of the channel, unless results of SEQUENCE or CB_SEQUENCE \
            raise the limit. Example: \
            ca_maxrequests is 4, and the client uses a fifth slot: \"slot 4, slots up to 3 granted\".",
        subjects: &[RequiredMessageProperty::Sequence],
        suspects: &[RequiredMessageProperty::UnusualSequence],
        check: RuleCheck::Transaction(|transaction| {
            let Sequence { slot, highest_slot: highest, .. } = transaction.operations.sequence?;
            let [prefix, _] = transaction.operations.channel.prefixes();
            let frames = &transaction.call()?.frames;
            if slot > highest {
                let text = || format!("slot {slot}, {prefix}_highest_slotid {highest}");
                let verdict = RuleVerdict::broken(text()).at_field(field_names::NFS_SLOTID);
                return Some(by_requester(transaction, frames, verdict));
            }
            let call = SessionSlotCall::of(transaction)?;
            let granted = call.history.highest_granted_slot;
            Some(if slot > granted {
                let text = || format!("slot {slot}, slots up to {granted} granted");
                certain_violation(transaction, &call, text).at_field(field_names::NFS_SLOTID)
            } else if highest > granted {
                let text = || format!("{prefix}_highest_slotid {highest}, slots up to {granted} granted");
                certain_violation(transaction, &call, text)
                    .with_severity(Severity::Warning)
                    .at_field(field_names::NFS_HIGH_SLOTID)
            } else {
                RuleVerdict::Kept
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/enforced-slot",
        severity: Severity::Warning,
        section: "RFC 8881 sections 2.10.6.1, 18.46.3 and 20.9.3",
        requirement: "sr_highest_slotid is not less than sa_highest_slotid, and csr_highest_slotid not less than \
            csa_highest_slotid, unless the Responder never granted that slot.",
        explanation: "The Requester has a request in flight on a slot that the Responder no longer accepts. A Responder may \
            do so only to a Requester that ignores the target for its highest slot. nfs/slot-range names a slot that was \
            never granted. Example: the client has a call on slot 3, and the server \
            no longer accepts it: \"sr_highest_slotid 2, sa_highest_slotid 3\".",
        subjects: &[RequiredMessageProperty::Sequence],
        suspects: &[RequiredMessageProperty::UnusualSequence],
        check: RuleCheck::Transaction(|transaction| {
            let operations = &transaction.operations;
            let (sent, returned) = operations.sequence.zip(operations.sequence_result)?;
            let (requested, enforced) = (sent.highest_slot, returned.highest_slot);
            if transaction.slot.is_some_and(|slot| requested > slot.highest_granted_slot) {
                return None;
            }
            let [args_prefix, result_prefix] = operations.channel.prefixes();
            Some(
                RuleVerdict::from_condition(enforced >= requested, || {
                    format!("{result_prefix}_highest_slotid {enforced}, {args_prefix}_highest_slotid {requested}")
                })
                .at_field(field_names::NFS_HIGH_SLOTID),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/minor-version",
        section: "RFC 8881 sections 2.7 and 19.2.3",
        requirement: "A session is used in the minor version in which it was created, also in CB_COMPOUND.",
        explanation: "The Responder may apply other rules to the same operations, or refuse them. Example: a client mounts with \
            minor version 1 and uses the session of a mount with 2: \"minor version 1, the session is of 2\".",
        subjects: &[RequiredMessageProperty::Sequence],
        needs: &[RequiredCaptureEvidence::Session],
        suspects: &[RequiredMessageProperty::UnusualSequence],
        check: RuleCheck::Transaction(|transaction| {
            let call = SessionSlotCall::of(transaction)?;
            let (created, used) = (call.history.minor_version, transaction.operations.minor_version);
            let text = || format!("minor version {used}, the session is of {created}");
            Some(
                by_requester(transaction, call.frames, RuleVerdict::from_condition(used == created, text))
                    .at_field(field_names::NFS_MINORVERSION),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/false-retry",
        section: "RFC 8881 sections 2.10.6.1.3.1 and 20.9.3",
        requirement: "A call with the slot and sequence ID of an executed call has the same operations and arguments.",
        explanation: "The Responder may take it for a retry, and answer with the results of the other call: they are not \
            judged. At best it returns NFS4ERR_SEQ_FALSE_RETRY. The two calls suffice: the session may be older than the \
            capture. Example: slot 0 and sequence ID 2 carried an ACCESS of 0x1f, and carry one of 1: \
            \"another request with sequence ID 2 on slot 0\".",
        subjects: &[RequiredMessageProperty::Sequence, RequiredMessageProperty::RepeatedSequence],
        check: RuleCheck::Transaction(check_false_retry),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/replay-wrong",
        section: "RFC 8881 sections 2.10.6.1 and 2.10.6.1.3",
        requirement: "A retry is answered with the results of the first reply.",
        explanation: "Other results show that the Responder executed the request twice, or lost its reply cache. A request \
            without sa_cachethis or csa_cachethis may be answered NFS4ERR_RETRY_UNCACHED_REP. Example: the first reply granted access 1, and \
            the reply of the retry 3: \"other results than in the first reply to sequence ID 2\".",
        subjects: &[RequiredMessageProperty::Sequence, RequiredMessageProperty::RepeatedSequence],
        needs: &[RequiredCaptureEvidence::BothMessages, RequiredCaptureEvidence::Session],
        check: RuleCheck::Transaction(check_replay),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/highest-slot",
        severity: Severity::Warning,
        section: "RFC 8881 section 2.10.6.1",
        requirement: "A Requester stops using slots above sr_target_highest_slotid or csr_target_highest_slotid.",
        explanation: "The Responder wants to free the slots. It may enforce its target, and answer NFS4ERR_BADSLOT. Calls that \
            were under way, and the next two, do not count. Example: the server wants slot 0 only, and the third call after \
            that uses slot 1: \"slot 1, sr_target_highest_slotid 0\".",
        subjects: &[RequiredMessageProperty::Sequence],
        needs: &[RequiredCaptureEvidence::Session],
        check: RuleCheck::Transaction(|transaction| {
            let call = SessionSlotCall::of(transaction)?;
            let target = call.history.target?;
            let slot = call.sequence.slot;
            let is_retry = call.repeated_use().is_some();
            // nfs/slot-range judges slots that were never granted.
            let is_granted = slot <= call.history.highest_granted_slot;
            if is_retry || !is_granted || call.time <= target.since || target.later_calls < 2 {
                return None;
            }
            let highest = target.highest_slot;
            Some(match slot <= highest {
                true => RuleVerdict::Kept,
                // The Reply with the target may have come after the Call.
                false if transaction.transaction.credit_use.may_follow_reply => RuleVerdict::Unknown,
                false => certain_violation(transaction, &call, || {
                    let [_, prefix] = transaction.operations.channel.prefixes();
                    format!("slot {slot}, {prefix}_target_highest_slotid {highest}")
                })
                .at_field(field_names::NFS_SLOTID),
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/backchannel-down",
        severity: Severity::Warning,
        section: "RFC 8881 section 18.46.3",
        requirement: "A client has a backchannel that works, and restores it when the server reports its loss in SEQUENCE.",
        explanation: "The server cannot recall delegations and layouts, and may revoke them. Look for the end of the connection \
            that was bound to the backchannel (-V --view connections), for BIND_CONN_TO_SESSION, and for callbacks that the \
            client did not answer. The side is the client, which must act. A client that never asks for a backchannel may \
            ignore it. Example: the connection of the backchannel has ended, and the results of the next SEQUENCE have the \
            flag: \"SEQ4_STATUS_CB_PATH_DOWN\".",
        subjects: &[RequiredMessageProperty::Compound],
        needs: &[RequiredCaptureEvidence::BothMessages],
        check: RuleCheck::Transaction(|transaction| {
            let Results::SEQUENCE(result) = transaction.operations.results.first()? else { return None };
            let result = result.ok()?;
            let reported = LOST_BACKCHANNEL.iter().filter(|(flag, _)| result.sr_status_flags.contains(*flag));
            let names: Vec<&str> = reported.map(|(_, name)| *name).collect();
            let verdict = RuleVerdict::from_condition(names.is_empty(), || names.join(", "));
            Some(verdict.by(transaction.requester()))
        }),
        ..Rule::PER_CONNECTION
    },
];
