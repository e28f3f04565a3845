//! Sessions and slots: RFC 8881 sections 2.10.6, 18.36 and 18.46.

use nfsrdma_dissectors::flow::transaction::RpcMessageKind;
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::nfs::v4::{
    Args, ChannelAttrs4, CreateSession4Args, CreateSession4Resok, CreateSessionFlags, Nfsstat4, Results,
    Sequence4Args, SequenceStatusFlags,
};

use crate::rule::{Evidence, Rule, RuleCheck, RuleScope, Severity, Verdict};
use crate::session_table::{SlotHistory, SlotUse, sequence_arguments, sequence_result};
use crate::subject::Subject;
use crate::transaction_view::TransactionView;

/// Flags of sr_status_flags that report a loss of the backchannel.
const LOST_BACKCHANNEL: [(SequenceStatusFlags, &str); 3] = [
    (SequenceStatusFlags::SEQ4_STATUS_CB_PATH_DOWN, "SEQ4_STATUS_CB_PATH_DOWN"),
    (SequenceStatusFlags::SEQ4_STATUS_CB_PATH_DOWN_SESSION, "SEQ4_STATUS_CB_PATH_DOWN_SESSION"),
    (SequenceStatusFlags::SEQ4_STATUS_BACKCHANNEL_FAULT, "SEQ4_STATUS_BACKCHANNEL_FAULT"),
];

/// A Call with SEQUENCE on a session and slot with a history.
struct SlotCall<'t> {
    sequence: &'t Sequence4Args,
    history: &'t SlotHistory,
    time: Timestamp,
    frames: &'t [FrameNumber],
}

impl<'t> SlotCall<'t> {
    fn of(transaction: &'t TransactionView<'_>) -> Option<Self> {
        let sequence = sequence_arguments(&transaction.operations)?;
        let call = transaction.call()?;
        Some(Self { sequence, history: transaction.slot.as_ref()?, time: call.time, frames: &call.frames })
    }

    /// Returns the last use of the slot, if it was before this Call: Transactions come in the order in which they close.
    fn earlier_use(&self) -> Option<SlotUse> {
        self.history.last_use.filter(|last_use| last_use.call_time <= self.time)
    }

    /// Returns the Call that this one repeats.
    fn repeated_use(&self) -> Option<SlotUse> {
        self.earlier_use().filter(|last_use| last_use.sequence_id == self.sequence.sa_sequenceid)
    }
}

/// Returns a violation of the client, or `Unknown` if uses of the slot may be missing from the capture.
fn certain_violation(
    transaction: &TransactionView<'_>,
    call: &SlotCall<'_>,
    text: impl FnOnce() -> String,
) -> Verdict {
    if call.history.has_gaps {
        return Verdict::Unknown;
    }
    by_client(transaction, call.frames, Verdict::broken(text()))
}

/// Returns the end of the text about a violation that the server did not refuse.
fn accepted(transaction: &TransactionView<'_>) -> &'static str {
    match transaction.operations.status {
        Some(Nfsstat4::NFS4_OK) => ", which the server accepted",
        _ => "",
    }
}

fn by_client(transaction: &TransactionView<'_>, frames: &[FrameNumber], verdict: Verdict) -> Verdict {
    verdict.by(transaction.requester()).in_frames(frames)
}

/// Position of an operation in a COMPOUND with sessions. RFC 8881 sections 18.34 to 18.37, 18.46 and 18.50.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionPosition {
    /// First.
    Sequence,
    /// The only operation.
    Alone,
    /// The only operation, or behind SEQUENCE.
    AloneOrInSession,
    /// Behind SEQUENCE.
    InSession,
}

fn session_position(operation: &Args<'_>) -> SessionPosition {
    match operation {
        Args::SEQUENCE(_) => SessionPosition::Sequence,
        Args::BIND_CONN_TO_SESSION(_) => SessionPosition::Alone,
        Args::EXCHANGE_ID(_)
        | Args::CREATE_SESSION(_)
        | Args::DESTROY_SESSION(_)
        | Args::DESTROY_CLIENTID(_) => SessionPosition::AloneOrInSession,
        _ => SessionPosition::InSession,
    }
}

fn check_sequence_position(transaction: &TransactionView<'_>) -> Option<Verdict> {
    let operations = &transaction.operations;
    if operations.minor_version == 0 {
        return None;
    }
    let first = operations.arguments.first()?;
    let is_in_session = session_position(first) == SessionPosition::Sequence;
    let name = |operation: &Args<'_>| operation.number().to_string();
    let accepted = accepted(transaction);
    let fault = operations.arguments.iter().enumerate().find_map(|(at, operation)| {
        Some(match session_position(operation) {
            SessionPosition::Sequence if at > 0 => format!("SEQUENCE is operation {}{accepted}", at + 1),
            SessionPosition::Sequence => return None,
            SessionPosition::Alone | SessionPosition::AloneOrInSession
                if at == 0 && operations.operation_count > 1 =>
            {
                let count = operations.operation_count;
                format!("{} is the first of {count} operations{accepted}", name(operation))
            }
            SessionPosition::Alone if at > 0 => {
                format!("{} is operation {}, not the only one{accepted}", name(operation), at + 1)
            }
            SessionPosition::InSession if at == 0 => {
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
        (destroyed + 1 < count).then(|| {
            format!("DESTROY_SESSION of its own session is operation {} of {count}{accepted}", destroyed + 1)
        })
    });
    let frames = transaction.call().map(|call| call.frames.as_slice()).unwrap_or_default();
    let verdict = Verdict::from_condition(fault.is_none(), || fault.unwrap_or_default());
    Some(by_client(transaction, frames, verdict))
}

fn check_replay(transaction: &TransactionView<'_>) -> Option<Verdict> {
    let call = SlotCall::of(transaction)?;
    let repeated = call.repeated_use()?;
    let operations = &transaction.operations;
    sequence_result(operations)?;
    let arguments = operations.arguments_digest.zip(repeated.arguments);
    let (Some((now, before)), Some((results, first))) =
        (arguments, operations.results_digest.zip(repeated.results))
    else {
        return Some(Verdict::Unknown);
    };
    if now.is_same(before) != Some(true) {
        return None;
    }
    let Some(is_same) = results.is_same(first) else { return Some(Verdict::Unknown) };
    // RFC 8881 section 2.10.6.1.3: a reply that the client did not want in the cache need not be there.
    let second = operations.results.get(1).map(Results::status);
    let is_uncached =
        !repeated.is_cache_requested && second.is_some_and(|status| status != Nfsstat4::NFS4_OK);
    Some(Verdict::from_condition(is_same || is_uncached, || {
        let id = repeated.sequence_id;
        match second {
            Some(Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP) => {
                format!("NFS4ERR_RETRY_UNCACHED_REP for sequence ID {id}, which was sent with sa_cachethis")
            }
            _ => format!("other results than in the first reply to sequence ID {id}"),
        }
    }))
}

/// Returns `true` for an error for a COMPOUND that exceeds a limit of its channel.
fn is_limit_error(status: Option<Nfsstat4>) -> bool {
    matches!(
        status,
        Some(
            Nfsstat4::NFS4ERR_TOO_MANY_OPS
                | Nfsstat4::NFS4ERR_REQ_TOO_BIG
                | Nfsstat4::NFS4ERR_REP_TOO_BIG
                | Nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE
        )
    )
}

fn check_sizes(transaction: &TransactionView<'_>) -> Option<Verdict> {
    let call = SlotCall::of(transaction)?;
    let limits = call.history.limits;
    let operations = &transaction.operations;
    // The errors of SEQUENCE come before the limits.
    if operations.status.is_none() || (operations.is_refused() && !is_limit_error(operations.status)) {
        return None;
    }
    let length = |kind| transaction.transaction.rpc_length(kind);
    let (Some(request), Some(response)) = (length(RpcMessageKind::Call), length(RpcMessageKind::Reply))
    else {
        return Some(Verdict::Unknown);
    };
    // The error for an excess may come with a later operation, which another error kept from being executed.
    let is_unreached =
        |status| operations.status != Some(status) && operations.status != Some(Nfsstat4::NFS4_OK);
    let is_refused = |status| operations.status == Some(status);
    let excess = if operations.operation_count > limits.max_operations
        && limits.max_operations > 0
        && !is_refused(Nfsstat4::NFS4ERR_TOO_MANY_OPS)
    {
        if is_unreached(Nfsstat4::NFS4ERR_TOO_MANY_OPS) {
            return Some(Verdict::Unknown);
        }
        Some((
            "operations accepted",
            u64::from(operations.operation_count),
            "ca_maxoperations",
            limits.max_operations,
        ))
    } else if request > u64::from(limits.max_request_bytes) && !is_refused(Nfsstat4::NFS4ERR_REQ_TOO_BIG) {
        if is_unreached(Nfsstat4::NFS4ERR_REQ_TOO_BIG) {
            return Some(Verdict::Unknown);
        }
        let limit = limits.max_request_bytes;
        let verdict =
            Verdict::broken(format!("{request} bytes of request accepted, ca_maxrequestsize {limit}"));
        return Some(by_client(transaction, call.frames, verdict));
    } else if response > u64::from(limits.max_response_bytes) && !is_refused(Nfsstat4::NFS4ERR_REP_TOO_BIG) {
        Some(("bytes of response", response, "ca_maxresponsesize", limits.max_response_bytes))
    } else if call.sequence.sa_cachethis
        && response > u64::from(limits.max_cached_response_bytes)
        && sequence_result(operations).is_some()
        && !is_refused(Nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE)
    {
        let limit = limits.max_cached_response_bytes;
        Some(("bytes of response with sa_cachethis", response, "ca_maxresponsesize_cached", limit))
    } else {
        None
    };
    let text = |(what, value, name, limit): (&str, u64, &str, u32)| format!("{value} {what}, {name} {limit}");
    Some(Verdict::from_condition(excess.is_none(), || excess.map(text).unwrap_or_default()))
}

/// Returns the first attribute of a channel that the server may not have changed in this way.
fn changed_attribute(
    asked: &ChannelAttrs4<'_>,
    granted: &ChannelAttrs4<'_>,
    is_back_channel: bool,
) -> Option<String> {
    let channel = if is_back_channel { "back" } else { "fore" };
    let ird = |attributes: &ChannelAttrs4<'_>| attributes.ca_rdma_ird.iter().next();
    let may_decrease = [
        ("ca_headerpadsize", asked.ca_headerpadsize, granted.ca_headerpadsize),
        ("ca_maxrequestsize", asked.ca_maxrequestsize, granted.ca_maxrequestsize),
        ("ca_maxresponsesize", asked.ca_maxresponsesize, granted.ca_maxresponsesize),
        ("ca_maxresponsesize_cached", asked.ca_maxresponsesize_cached, granted.ca_maxresponsesize_cached),
        ("ca_rdma_ird", ird(asked).unwrap_or(u32::MAX), ird(granted).unwrap_or(0)),
    ];
    let is_fixed = [
        ("ca_maxoperations", asked.ca_maxoperations, granted.ca_maxoperations),
        ("ca_maxrequests", asked.ca_maxrequests, granted.ca_maxrequests),
    ];
    let increased = may_decrease.into_iter().find(|(_, asked, granted)| granted > asked);
    let changed = is_fixed.into_iter().find(|(_, asked, granted)| is_back_channel && granted != asked);
    increased.or(changed).map(|(name, asked, granted)| {
        format!("{name} of the {channel} channel: {asked} offered, {granted} returned")
    })
}

fn wrong_attribute(asked: &CreateSession4Args<'_>, created: &CreateSession4Resok<'_>) -> Option<String> {
    let added = created.csr_flags.0 & !asked.csa_flags.0;
    let forbidden = CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_BACK_CHAN.0
        | CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_RDMA.0;
    if added & forbidden != 0 {
        return Some(format!("csr_flags 0x{:x}, csa_flags 0x{:x}", created.csr_flags.0, asked.csa_flags.0));
    }
    if created.csr_sequence != asked.csa_sequence {
        return Some(format!("csr_sequence {}, csa_sequence {}", created.csr_sequence, asked.csa_sequence));
    }
    changed_attribute(&asked.csa_fore_chan_attrs, &created.csr_fore_chan_attrs, false)
        .or_else(|| changed_attribute(&asked.csa_back_chan_attrs, &created.csr_back_chan_attrs, true))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "nfs/sequence-first",
        severity: Severity::Error,
        section: "RFC 8881 sections 18.46.3, 18.34.3, 18.35.3, 18.36.3, 18.37.3 and 18.50.3",
        requirement: "A COMPOUND of minor version 1 or 2 begins with SEQUENCE, or is a single operation about clients or \
            sessions.",
        explanation: "Without SEQUENCE there is no slot, and so no protection against a second execution. The server answers \
            NFS4ERR_OP_NOT_IN_SESSION, NFS4ERR_NOT_ONLY_OP or NFS4ERR_SEQUENCE_POS; the text says if it accepted the \
            COMPOUND instead. Example: a COMPOUND of minor version 2 begins with PUTROOTFH: \"PUTROOTFH is the first \
            operation, which the server accepted\".",
        subjects: &[Subject::Compound],
        needs: &[],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(check_sequence_position),
    },
    Rule {
        id: "nfs/sequence-echo",
        severity: Severity::Error,
        section: "RFC 8881 section 18.46.3",
        requirement: "SEQUENCE returns the session ID, slot and sequence ID of its arguments.",
        explanation: "A client that finds other values cannot be sure that the Reply belongs to its Call. Linux then \
            recovers the session. Example: the Call used slot 0, and the results name slot 1: \"sr_slotid 1, sa_slotid 0\".",
        subjects: &[Subject::Sequence],
        needs: &[Evidence::BothMessages],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let sent = sequence_arguments(&transaction.operations)?;
            let returned = sequence_result(&transaction.operations)?;
            Some(if sent.sa_sessionid != returned.sr_sessionid {
                Verdict::broken("sr_sessionid differs from sa_sessionid".to_owned())
                    .at_field("nfs.session_id4")
            } else if sent.sa_slotid != returned.sr_slotid {
                let text = format!("sr_slotid {}, sa_slotid {}", returned.sr_slotid, sent.sa_slotid);
                Verdict::broken(text).at_field("nfs.slotid")
            } else if sent.sa_sequenceid != returned.sr_sequenceid {
                let (now, before) = (returned.sr_sequenceid, sent.sa_sequenceid);
                let text = format!("sr_sequenceid {now}, sa_sequenceid {before}");
                Verdict::broken(text).at_field("nfs.seqid")
            } else {
                Verdict::Kept
            })
        }),
    },
    Rule {
        id: "nfs/slot-first",
        severity: Severity::Error,
        section: "RFC 8881 sections 2.10.6.1 and 18.36.3",
        requirement: "The first use of a slot has the sequence ID 1.",
        explanation: "The server answers NFS4ERR_SEQ_MISORDERED. The client may have kept the sequence IDs of an earlier \
            session. Example: a new session has had no Call on slot 1, and the client begins with 2: \"sequence ID 2 in the \
            first use of slot 1\".",
        subjects: &[Subject::Sequence],
        needs: &[Evidence::Session],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let call = SlotCall::of(transaction)?;
            if call.history.last_use.is_some() || call.sequence.sa_slotid > call.history.highest_granted_slot
            {
                return None;
            }
            let (slot, id) = (call.sequence.sa_slotid, call.sequence.sa_sequenceid);
            Some(match id {
                1 => Verdict::Kept,
                _ => certain_violation(transaction, &call, || {
                    format!("sequence ID {id} in the first use of slot {slot}")
                })
                .at_field("nfs.seqid"),
            })
        }),
    },
    Rule {
        id: "nfs/slot-gap",
        severity: Severity::Error,
        section: "RFC 8881 section 2.10.6.1",
        requirement: "The sequence ID of a slot grows by one with each Call; a retry repeats it.",
        explanation: "The server answers NFS4ERR_SEQ_MISORDERED, and the client must recover the session. After 0xffffffff \
            comes 0. Example: a client skips 3: \"sequence ID 4 on slot 0, 2 before\".",
        subjects: &[Subject::Sequence],
        needs: &[Evidence::Session],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let call = SlotCall::of(transaction)?;
            let last_use = call.earlier_use()?;
            let (slot, id, before) =
                (call.sequence.sa_slotid, call.sequence.sa_sequenceid, last_use.sequence_id);
            Some(if id == before || id == before.wrapping_add(1) {
                Verdict::Kept
            } else if !last_use.is_executed {
                Verdict::Unknown
            } else {
                certain_violation(transaction, &call, || {
                    let accepted = accepted(transaction);
                    format!("sequence ID {id} on slot {slot}, {before} before{accepted}")
                })
                .at_field("nfs.seqid")
            })
        }),
    },
    Rule {
        id: "nfs/retry-here",
        severity: Severity::Error,
        section: "RFC 8881 section 2.10.6.2",
        requirement: "A client repeats a request only after its connection was lost, on another connection.",
        explanation: "A living connection delivers the request and its Reply. The retry uses another credit, and may come \
            while the server still executes the request. Example: a client repeats a COMPOUND without a reconnect: \
            \"sequence ID 2 on slot 0 again on the same connection\".",
        subjects: &[Subject::Sequence, Subject::RepeatedSequence],
        needs: &[Evidence::Session],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let call = SlotCall::of(transaction)?;
            // RFC 8267 section 3.1: a Call may be repeated after an error of the transport.
            let has_failed = |earlier: &SlotUse| earlier.reply_time.is_some() && !earlier.is_executed;
            let repeated = call.repeated_use().filter(|earlier| !has_failed(earlier))?;
            let (now, before) = transaction.operations.arguments_digest.zip(repeated.arguments)?;
            if now.is_same(before) != Some(true) {
                return None;
            }
            let (slot, id) = (call.sequence.sa_slotid, call.sequence.sa_sequenceid);
            Some(match repeated.connection() == transaction.transaction.connection.number {
                false => Verdict::Kept,
                true => certain_violation(transaction, &call, || {
                    format!("sequence ID {id} on slot {slot} again on the same connection")
                })
                .at_field("nfs.seqid"),
            })
        }),
    },
    Rule {
        id: "nfs/slot-busy",
        severity: Severity::Error,
        section: "RFC 8881 sections 2.10.6.1 and 2.10.6.2",
        requirement: "A client waits for the Reply before it uses the slot again.",
        explanation: "If the server has not seen the first Call, it refuses the second one with NFS4ERR_SEQ_MISORDERED, and \
            the client does not know which sequence ID is next. An interrupted Call is a frequent cause. Example: a user \
            interrupts a process, and the client uses its slot for the next Call at once: \"sequence IDs 2 and 3 in flight \
            on slot 0\".",
        subjects: &[Subject::Sequence],
        needs: &[Evidence::Session],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let call = SlotCall::of(transaction)?;
            let other = call.history.last_use?;
            if other.sequence_id == call.sequence.sa_sequenceid {
                return None;
            }
            let reply_time = transaction.reply().map(|reply| reply.time);
            // Transactions come in the order in which they close: the other use may be later.
            let (busy_until, next_call) = if other.call_time <= call.time {
                (other.reply_time, call.time)
            } else {
                (reply_time, other.call_time)
            };
            let Some(busy_until) = busy_until else { return Some(Verdict::Unknown) };
            if next_call >= busy_until {
                return Some(Verdict::Kept);
            }
            if transaction.transaction.credit_use.may_follow_reply {
                return Some(Verdict::Unknown);
            }
            let slot = call.sequence.sa_slotid;
            let text = || {
                let [first, second] = [other.sequence_id, call.sequence.sa_sequenceid];
                format!("sequence IDs {first} and {second} in flight on slot {slot}")
            };
            let frames: Vec<FrameNumber> =
                other.call_frame.into_iter().chain(call.frames.iter().copied()).collect();
            Some(by_client(transaction, &frames, Verdict::broken(text())).at_field("nfs.slotid"))
        }),
    },
    Rule {
        id: "nfs/slot-range",
        severity: Severity::Error,
        section: "RFC 8881 sections 2.10.6.1, 18.36.3 and 18.46.3",
        requirement: "A slot is not above sa_highest_slotid of the same SEQUENCE, and that is a slot that the server granted.",
        explanation: "The server answers NFS4ERR_BADSLOT to a slot that it did not grant, and may answer \
            NFS4ERR_BAD_HIGH_SLOT if only sa_highest_slotid is too high: a warning, because a client may set it above the \
            slots in use. Slots go from 0 to ca_maxrequests - 1, unless results of SEQUENCE raise the limit. Example: \
            ca_maxrequests is 4, and the client uses a fifth slot: \"slot 4, slots up to 3 granted\".",
        subjects: &[Subject::Sequence],
        needs: &[],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let sequence = sequence_arguments(&transaction.operations)?;
            let frames = &transaction.call()?.frames;
            let (slot, highest) = (sequence.sa_slotid, sequence.sa_highest_slotid);
            if slot > highest {
                let text = || format!("slot {slot}, sa_highest_slotid {highest}");
                let verdict = Verdict::broken(text()).at_field("nfs.slotid");
                return Some(by_client(transaction, frames, verdict));
            }
            let call = SlotCall::of(transaction)?;
            let granted = call.history.highest_granted_slot;
            Some(if slot > granted {
                let text = || format!("slot {slot}, slots up to {granted} granted");
                certain_violation(transaction, &call, text).at_field("nfs.slotid")
            } else if highest > granted {
                let text = || format!("sa_highest_slotid {highest}, slots up to {granted} granted");
                certain_violation(transaction, &call, text)
                    .with_severity(Severity::Warning)
                    .at_field("nfs.high_slotid")
            } else {
                Verdict::Kept
            })
        }),
    },
    Rule {
        id: "nfs/enforced-slot",
        severity: Severity::Warning,
        section: "RFC 8881 sections 2.10.6.1 and 18.46.3",
        requirement: "sr_highest_slotid is not less than the sa_highest_slotid of the client.",
        explanation: "The client has a request in flight on a slot that the server no longer accepts. A server may do so \
            only to a client that ignores sr_target_highest_slotid. Example: the client has a Call on slot 3, and the server \
            no longer accepts it: \"sr_highest_slotid 2, sa_highest_slotid 3\".",
        subjects: &[Subject::Sequence],
        needs: &[],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let asked = sequence_arguments(&transaction.operations)?.sa_highest_slotid;
            let enforced = sequence_result(&transaction.operations)?.sr_highest_slotid;
            Some(
                Verdict::from_condition(enforced >= asked, || {
                    format!("sr_highest_slotid {enforced}, sa_highest_slotid {asked}")
                })
                .at_field("nfs.high_slotid"),
            )
        }),
    },
    Rule {
        id: "nfs/minor-version",
        severity: Severity::Error,
        section: "RFC 8881 section 2.7",
        requirement: "A session is used in the minor version in which it was created.",
        explanation: "The server may apply other rules to the same operations, or refuse them. Example: a client mounts with \
            minor version 1 and uses the session of a mount with 2: \"minor version 1, the session is of 2\".",
        subjects: &[Subject::Sequence],
        needs: &[Evidence::Session],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let call = SlotCall::of(transaction)?;
            let (created, used) = (call.history.minor_version, transaction.operations.minor_version);
            let text = || format!("minor version {used}, the session is of {created}");
            Some(
                by_client(transaction, call.frames, Verdict::from_condition(used == created, text))
                    .at_field("nfs.minorversion"),
            )
        }),
    },
    Rule {
        id: "nfs/false-retry",
        severity: Severity::Error,
        section: "RFC 8881 section 2.10.6.1.3.1",
        requirement: "A Call with the slot and sequence ID of an executed Call has the same operations and arguments.",
        explanation: "The server may take it for a retry, and answer with the results of the other Call. At best it returns \
            NFS4ERR_SEQ_FALSE_RETRY. Example: slot 0 and sequence ID 2 carried an ACCESS of 0x1f, and carry one of 1: \
            \"another request with sequence ID 2 on slot 0\".",
        subjects: &[Subject::Sequence, Subject::RepeatedSequence],
        needs: &[Evidence::Session],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let call = SlotCall::of(transaction)?;
            let repeated = call.repeated_use()?;
            let digests = transaction.operations.arguments_digest.zip(repeated.arguments);
            let is_same = digests.and_then(|(now, before)| now.is_same(before));
            Some(match is_same {
                Some(true) => Verdict::Kept,
                Some(false) if repeated.is_executed && !repeated.is_misordered => {
                    let (slot, id) = (call.sequence.sa_slotid, call.sequence.sa_sequenceid);
                    let text = || format!("another request with sequence ID {id} on slot {slot}");
                    by_client(transaction, call.frames, Verdict::broken(text())).at_field("nfs.seqid")
                }
                _ => Verdict::Unknown,
            })
        }),
    },
    Rule {
        id: "nfs/replay-wrong",
        severity: Severity::Error,
        section: "RFC 8881 sections 2.10.6.1 and 2.10.6.1.3",
        requirement: "A retry is answered with the results of the first Reply.",
        explanation: "Other results show that the server executed the request twice, or lost its reply cache. A request \
            without sa_cachethis may be answered NFS4ERR_RETRY_UNCACHED_REP. Example: the first Reply granted access 1, and \
            the Reply of the retry 3: \"other results than in the first reply to sequence ID 2\".",
        subjects: &[Subject::Sequence, Subject::RepeatedSequence],
        needs: &[Evidence::BothMessages, Evidence::Session],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(check_replay),
    },
    Rule {
        id: "nfs/too-big",
        severity: Severity::Error,
        section: "RFC 8881 sections 2.10.6.4 and 18.36.3",
        requirement: "Requests, responses and their numbers of operations stay within the limits of the session, or the server \
            returns the error for them.",
        explanation: "Sizes count the RPC message with the content of its chunks, without the RPC-over-RDMA header. The \
            errors are NFS4ERR_REQ_TOO_BIG, NFS4ERR_REP_TOO_BIG, NFS4ERR_REP_TOO_BIG_TO_CACHE and NFS4ERR_TOO_MANY_OPS. \
            Example: a server accepts nine operations, and its limit is eight: \"9 operations accepted, ca_maxoperations \
            8\".",
        subjects: &[Subject::Sequence],
        needs: &[Evidence::BothMessages, Evidence::Session, Evidence::WholeMessage],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(check_sizes),
    },
    Rule {
        id: "nfs/session-attrs",
        severity: Severity::Error,
        section: "RFC 8881 section 18.36.3",
        requirement: "CREATE_SESSION returns no flag of the connection that was not asked for, no larger size, and the number \
            of slots and operations of the back channel unchanged.",
        explanation: "The client has allocated buffers and slots for the values that it offered. csr_sequence is \
            csa_sequence. Example: the client offered requests of 8,192 bytes: \"ca_maxrequestsize of the fore channel: 8192 \
            offered, 8196 returned\".",
        subjects: &[Subject::Compound, Subject::CreateSession],
        needs: &[Evidence::BothMessages],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let mut pairs = transaction.operations.pairs().filter_map(|pair| match pair {
                (Args::CREATE_SESSION(asked), Some(Results::CREATE_SESSION(created))) => {
                    Some((asked, created.ok()?))
                }
                _ => None,
            });
            let (asked, created) = pairs.next()?;
            let fault = wrong_attribute(asked, created);
            Some(Verdict::from_condition(fault.is_none(), || fault.unwrap_or_default()))
        }),
    },
    Rule {
        id: "nfs/highest-slot",
        severity: Severity::Warning,
        section: "RFC 8881 section 2.10.6.1",
        requirement: "A client stops using slots above sr_target_highest_slotid.",
        explanation: "The server wants to free the slots. It may enforce its target, and answer NFS4ERR_BADSLOT. Calls that \
            were under way, and the next two, do not count. Example: the server wants slot 0 only, and the third Call after \
            that uses slot 1: \"slot 1, sr_target_highest_slotid 0\".",
        subjects: &[Subject::Sequence],
        needs: &[Evidence::Session],
        scope: RuleScope::Each,
        check: RuleCheck::Transaction(|transaction| {
            let call = SlotCall::of(transaction)?;
            let target = call.history.target?;
            let slot = call.sequence.sa_slotid;
            let is_retry = call.repeated_use().is_some();
            if is_retry || call.time <= target.since || target.later_calls < 2 {
                return None;
            }
            let highest = target.highest_slot;
            Some(match slot <= highest {
                true => Verdict::Kept,
                false => certain_violation(transaction, &call, || {
                    format!("slot {slot}, sr_target_highest_slotid {highest}")
                })
                .at_field("nfs.slotid"),
            })
        }),
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
        subjects: &[Subject::Compound],
        needs: &[Evidence::BothMessages],
        scope: RuleScope::Connection,
        check: RuleCheck::Transaction(|transaction| {
            let result = sequence_result(&transaction.operations)?;
            let reported: Vec<_> = LOST_BACKCHANNEL
                .iter()
                .filter(|(flag, _)| result.sr_status_flags.contains(*flag))
                .map(|(_, name)| *name)
                .collect();
            let verdict = Verdict::from_condition(reported.is_empty(), || reported.join(", "));
            Some(verdict.by(transaction.requester()))
        }),
    },
];
