//! Sessions with their channels and slots, as far as the capture shows them. Most rules need the session from its
//! CREATE_SESSION on. RFC 8881 section 2.10.6.

use nfsrdma_dissectors::address::VirtualNetwork;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::nfs::v4::{Args, CbArgs, ChannelAttrs4, Operation, Results, Sessionid4, Stateid4};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::SiblingConnectionStatus;
use rustc_hash::FxHashMap;

use crate::bounded_table::empty_if_full;
use crate::compound_operations_view::{Channel, CompoundOperationIterator, CompoundRetryDigest, OperationSet};
use crate::connection_history::{HostPair, hosts_of};
use crate::unjudged_earlier_calls::CallsAwaitingReply;

/// Maximum number of channels of sessions. Beyond it, all are forgotten, and rules that need them are not judged.
const MAX_CHANNELS: usize = 8192;
/// Maximum number of asynchronous copies of a session. Beyond it, copies are not recorded.
const MAX_COPIES: usize = 1024;
/// Maximum number of slots of a channel with a history.
const MAX_SLOTS: usize = 4096;

const DESTROY_SESSION: OperationSet = OperationSet::of(&[Operation::DESTROY_SESSION]);
const SESSION_OPERATIONS: OperationSet =
    OperationSet::of(&[Operation::CREATE_SESSION, Operation::BIND_CONN_TO_SESSION, Operation::DESTROY_SESSION]);
const COPY_OPERATIONS: OperationSet =
    OperationSet::of(&[Operation::COPY, Operation::OFFLOAD_STATUS, Operation::OFFLOAD_CANCEL]);

/// Limits of a channel. RFC 8881 section 18.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelLimits {
    /// ca_maxrequestsize, in bytes.
    pub(crate) max_request_bytes: u32,
    /// ca_maxresponsesize, in bytes.
    pub(crate) max_response_bytes: u32,
    /// ca_maxresponsesize_cached, in bytes.
    pub(crate) max_cached_response_bytes: u32,
    /// ca_maxoperations.
    pub(crate) max_operations: u32,
    /// ca_maxrequests: number of slots.
    pub(crate) max_requests: u32,
}

/// Point in the history of a channel. Between two equal points no use of a slot is missing from the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChannelCaptureGapSnapshot {
    /// Connection number.
    connection: u64,
    losses: u64,
    /// Number of messages that may have used the channel, but cannot be decoded.
    gaps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastSessionSlotUse {
    pub(crate) sequence_id: u32,
    /// sa_cachethis or csa_cachethis.
    pub(crate) is_cache_requested: bool,
    pub(crate) call_time: Timestamp,
    /// First frame of the Call.
    pub(crate) call_frame: Option<FrameNumber>,
    /// Time of the first frame of the Reply; `None` if it was not captured.
    pub(crate) reply_time: Option<Timestamp>,
    /// `true` if the result of SEQUENCE or CB_SEQUENCE is NFS4_OK. Otherwise the result is unknown, or the RPC failed:
    /// the replier may or may not have executed the Call.
    pub(crate) is_executed: bool,
    /// `true` if the sequence ID was not that of the use before, nor the next: the sequence ID that follows is
    /// uncertain.
    pub(crate) is_misordered: bool,
    /// `true` if the replier lowered its highest slot, or the target of it, below this one since. It may have retired
    /// the slot, whose sequence IDs then begin with 1 again. RFC 8881 section 2.10.6.1.
    is_retired: bool,
    /// `true` if the connection of a Call without a Reply ended.
    has_connection_ended: bool,
    /// Digest of the operations after the first, if the Call was captured to its end.
    pub(crate) arguments: Option<CompoundRetryDigest>,
    /// Digest of the results after the first, if the Reply was captured to its end.
    pub(crate) results: Option<CompoundRetryDigest>,
    certain: ChannelCaptureGapSnapshot,
    /// Number of the Call on its connection.
    call_number: u64,
    /// `true` if the Call may have been sent after a Reply that was captured later.
    may_follow_reply: bool,
}

impl LastSessionSlotUse {
    pub(crate) fn connection(&self) -> u64 {
        self.certain.connection
    }

    /// Returns `true` if this use may have ended before the Call of the Transaction was sent, although its Reply was
    /// captured later, or the other way around.
    pub(crate) fn has_uncertain_order(&self, transaction: &Transaction) -> bool {
        let is_elsewhere = self.connection() != transaction.connection.number;
        transaction.credit_use.may_follow_reply || (is_elsewhere && self.may_follow_reply)
    }

    /// Returns `true` if the Call occupies its sequence ID, as far as the capture shows: it was executed, or it has no
    /// Reply although no packet is missing from the capture. A replier that refuses SEQUENCE does not use the slot.
    pub(crate) fn is_slot_used(&self, transaction: &Transaction) -> bool {
        let has_same_losses =
            self.connection() == transaction.connection.number && self.certain.losses == transaction.credit_use.losses;
        !self.is_retired
            && !self.is_misordered
            && (self.is_executed || (self.reply_time.is_none() && (self.has_connection_ended || has_same_losses)))
    }

    /// Returns `true` if the Call was sent before that of the Transaction, which was captured at `time`, or is the same
    /// one.
    pub(crate) fn is_before(&self, transaction: &Transaction, time: Timestamp) -> bool {
        let number = transaction.credit_use.call_number;
        let has_order = self.connection() == transaction.connection.number && self.call_number > 0 && number > 0;
        // The numbers have the order of a stream, the times that of the capture.
        if has_order { self.call_number <= number } else { self.call_time <= time }
    }
}

/// Limit of the slots that the replier wants to withdraw. RFC 8881 section 2.10.6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetHighestSlot {
    /// sr_target_highest_slotid or csr_target_highest_slotid.
    pub(crate) highest_slot: u32,
    /// Time of the first Reply with it.
    pub(crate) since: Timestamp,
    /// Number of Calls on the session that were sent after this Reply.
    pub(crate) later_calls: u32,
}

/// State of the channel and slot of a COMPOUND or CB_COMPOUND before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotStateBeforeCompound {
    /// Minor version of the COMPOUND that created the session.
    pub(crate) minor_version: u32,
    pub(crate) limits: ChannelLimits,
    /// Highest slot that the replier ever granted, by ca_maxrequests or in the results of SEQUENCE or CB_SEQUENCE.
    pub(crate) highest_granted_slot: u32,
    /// Target of the last results of SEQUENCE or CB_SEQUENCE.
    pub(crate) target: Option<TargetHighestSlot>,
    /// Last use of the slot; `None` before its first.
    pub(crate) last_use: Option<LastSessionSlotUse>,
    /// `true` if uses of the slot since then may be missing from the capture.
    pub(crate) has_gaps: bool,
}

#[derive(Debug)]
struct SessionChannel {
    /// `true` if the creation of the session was captured.
    is_whole: bool,
    minor_version: u32,
    limits: ChannelLimits,
    slots: FxHashMap<u32, LastSessionSlotUse>,
    highest_granted_slot: u32,
    /// Lower one of sr_highest_slotid and sr_target_highest_slotid, or of their csr counterparts, in the last results.
    highest_retained_slot: u32,
    target: Option<TargetHighestSlot>,
    created: ChannelCaptureGapSnapshot,
    /// First frame of the Call of CREATE_SESSION.
    created_frame: Option<FrameNumber>,
    /// Hosts of the connection of CREATE_SESSION.
    hosts: HostPair,
    /// `true` if a connection between other addresses has used the session.
    has_other_hosts: bool,
    /// Number of the Call of CREATE_SESSION on its connection.
    created_by: u64,
    /// Connection of the last COMPOUND.
    connection: u64,
    gaps: u64,
    /// Asynchronous copies that were requested on the channel, by their stateids without seqid.
    copies: Vec<AsynchronousCopy>,
}

/// A copy of which the result was not reported yet. RFC 7862 section 4.8.
#[derive(Debug)]
struct AsynchronousCopy {
    stateid: [u8; 12],
    is_reported: bool,
    started: ChannelCaptureGapSnapshot,
}

/// Asynchronous copies of a session that ends. RFC 7862 section 15.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedSessionAsyncCopies {
    /// Number of copies of the session.
    pub(crate) started: usize,
    /// Number of copies without a reported result.
    pub(crate) unreported: usize,
    /// `true` if reports may be missing from the capture.
    pub(crate) has_gaps: bool,
}

impl SessionChannel {
    fn new(transaction: &Transaction, minor_version: u32, attributes: &ChannelAttrs4<'_>, gaps: u64) -> Self {
        let limits = ChannelLimits {
            max_request_bytes: attributes.ca_maxrequestsize,
            max_response_bytes: attributes.ca_maxresponsesize,
            max_cached_response_bytes: attributes.ca_maxresponsesize_cached,
            max_operations: attributes.ca_maxoperations,
            max_requests: attributes.ca_maxrequests,
        };
        Self::with_limits(transaction, minor_version, limits, gaps)
    }

    /// Creates the channel of a session whose creation was not captured. Its limits are unknown.
    fn of_unknown_session(transaction: &Transaction) -> Self {
        let limits = ChannelLimits {
            max_request_bytes: u32::MAX,
            max_response_bytes: u32::MAX,
            max_cached_response_bytes: u32::MAX,
            max_operations: u32::MAX,
            max_requests: u32::MAX,
        };
        Self { is_whole: false, ..Self::with_limits(transaction, 0, limits, 0) }
    }

    fn with_limits(transaction: &Transaction, minor_version: u32, limits: ChannelLimits, gaps: u64) -> Self {
        let connection = transaction.connection.number;
        Self {
            is_whole: true,
            minor_version,
            limits,
            slots: FxHashMap::default(),
            highest_granted_slot: limits.max_requests.saturating_sub(1),
            highest_retained_slot: limits.max_requests.saturating_sub(1),
            target: None,
            created: ChannelCaptureGapSnapshot { connection, losses: transaction.credit_use.losses, gaps: 0 },
            created_frame: transaction.call.as_ref().and_then(|call| call.frames.first().copied()),
            hosts: hosts_of(&transaction.connection),
            has_other_hosts: false,
            created_by: transaction.credit_use.call_number,
            connection,
            gaps,
            copies: Vec::new(),
        }
    }

    fn certain_point(&self, transaction: &Transaction) -> ChannelCaptureGapSnapshot {
        let connection = transaction.connection.number;
        // Uses on another connection are not in a certain order with those on this one.
        let gaps = self.gaps + u64::from(connection != self.connection);
        ChannelCaptureGapSnapshot { connection, losses: transaction.credit_use.losses, gaps }
    }

    /// Returns `true` if another connection than that of the Transaction may have used the session after this frame.
    /// What it carried may be lost or wait for its Reply, and nothing on this connection shows that.
    fn may_be_used_elsewhere(&self, after: Option<FrameNumber>, transaction: &Transaction) -> bool {
        let is_open = match transaction.siblings {
            SiblingConnectionStatus::None => false,
            SiblingConnectionStatus::Ended(last) => after.is_none_or(|after| last > after),
            SiblingConnectionStatus::Open => true,
        };
        is_open || self.has_other_hosts
    }
}

/// Key of a channel. Servers of different virtual networks may give the same session IDs, and a capture of an access
/// port and a trunk has each session twice.
type SessionChannelKey = (VirtualNetwork, Channel, Sessionid4);

/// The channels of all sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    channels: FxHashMap<SessionChannelKey, SessionChannel>,
    waiting_calls: CallsAwaitingReply,
}

impl SessionTable {
    /// Returns the state of the slot of a COMPOUND or CB_COMPOUND before it.
    pub(crate) fn slot(
        &self,
        transaction: &Transaction,
        operations: &CompoundOperationIterator<'_>,
    ) -> Option<SlotStateBeforeCompound> {
        let sequence = operations.sequence.as_ref()?;
        let session = self.channels.get(&(transaction.connection.tenant, operations.channel, sequence.session))?;
        if !session.is_whole {
            return None;
        }
        let last_use = session.slots.get(&sequence.slot).copied();
        let last_point = last_use.map_or(session.created, |last_use| last_use.certain);
        let frame_before = last_use.map_or(session.created_frame, |last_use| last_use.call_frame);
        // Calls of the server have their own numbers.
        let created_by = if operations.channel == Channel::Fore { session.created_by } else { 0 };
        let number_before = last_use.map_or(created_by, |last_use| last_use.call_number);
        Some(SlotStateBeforeCompound {
            minor_version: session.minor_version,
            limits: session.limits,
            highest_granted_slot: session.highest_granted_slot,
            target: session.target,
            last_use,
            // A lost message is known only when a later one is captured: here the Reply.
            has_gaps: last_point != session.certain_point(transaction)
                || last_use.is_some_and(|last_use| last_use.is_misordered || last_use.is_retired)
                || transaction.reply.is_none()
                || session.may_be_used_elsewhere(frame_before, transaction)
                // A Call between them may have used the slot.
                || self.waiting_calls.has_between(number_before, transaction),
        })
    }

    /// Returns the last use of the slot of a COMPOUND or CB_COMPOUND, whether or not the creation of its session was
    /// captured.
    pub(crate) fn last_use(
        &self,
        transaction: &Transaction,
        operations: &CompoundOperationIterator<'_>,
    ) -> Option<LastSessionSlotUse> {
        let sequence = operations.sequence.as_ref()?;
        let session = self.channels.get(&(transaction.connection.tenant, operations.channel, sequence.session))?;
        session.slots.get(&sequence.slot).copied()
    }

    /// Returns the copies of the session that a COMPOUND destroys, if it has any.
    pub(crate) fn ended_copies(
        &self,
        transaction: &Transaction,
        operations: &CompoundOperationIterator<'_>,
    ) -> Option<EndedSessionAsyncCopies> {
        if !operations.has_any(DESTROY_SESSION) {
            return None;
        }
        let tenant = transaction.connection.tenant;
        let session = operations.pairs().find_map(|pair| match pair {
            (Args::DESTROY_SESSION(destroyed), Some(Results::DESTROY_SESSION(result))) => result
                .ok()
                .and_then(|_| self.channels.get(&(tenant, Channel::Fore, destroyed.dsa_sessionid)))
                .filter(|session| session.is_whole),
            _ => None,
        })?;
        let end_point = session.certain_point(transaction);
        let unreported = || session.copies.iter().filter(|copy| !copy.is_reported);
        let started = session.copies.len();
        (started > 0).then(|| EndedSessionAsyncCopies {
            started,
            unreported: unreported().count(),
            has_gaps: unreported().any(|copy| copy.started != end_point)
                || session.may_be_used_elsewhere(session.created_frame, transaction),
        })
    }

    /// Records that the client knows the result of a copy, or no longer wants it.
    fn record_report(&mut self, stateid: &Stateid4) {
        let copies = self.channels.values_mut().flat_map(|session| &mut session.copies);
        copies.filter(|copy| copy.stateid == stateid.other).for_each(|copy| copy.is_reported = true);
    }

    /// Records that a Call was judged. Call it for each Call, after [`SessionTable::record`].
    pub(crate) fn record_call(&mut self, transaction: &Transaction) {
        if !self.channels.is_empty() {
            self.waiting_calls.record(transaction);
        }
    }

    /// Records that sessions may have been used in a message that cannot be decoded.
    pub(crate) fn record_gap(&mut self) {
        self.channels.values_mut().for_each(|session| session.gaps += 1);
    }

    pub(crate) fn record(&mut self, transaction: &Transaction, operations: &CompoundOperationIterator<'_>) {
        if operations.has_any(SESSION_OPERATIONS) {
            self.record_lifetimes(transaction, operations);
        }
        if operations.has_any(COPY_OPERATIONS) {
            self.record_copies(transaction, operations);
        }
        for operation in operations.callback_arguments {
            if let CbArgs::CB_OFFLOAD(report) = operation {
                self.record_report(&report.coa_stateid);
            }
        }
        self.record_use(transaction, operations);
    }

    /// Records sessions that are created and destroyed.
    fn record_lifetimes(&mut self, transaction: &Transaction, operations: &CompoundOperationIterator<'_>) {
        let tenant = transaction.connection.tenant;
        for (arguments, result) in operations.pairs() {
            match (arguments, result) {
                (Args::CREATE_SESSION(_), Some(Results::CREATE_SESSION(created))) => {
                    let Some(created) = created.ok() else { continue };
                    empty_if_full(&mut self.channels, MAX_CHANNELS);
                    for (channel, attributes) in
                        [(Channel::Fore, &created.csr_fore_chan_attrs), (Channel::Back, &created.csr_back_chan_attrs)]
                    {
                        let id = (tenant, channel, created.csr_sessionid);
                        // A retry, or a server that was restarted: the slots are unknown.
                        let gaps = u64::from(self.channels.get(&id).is_some_and(|session| session.is_whole));
                        let minor_version = operations.minor_version;
                        let state = SessionChannel::new(transaction, minor_version, attributes, gaps);
                        self.channels.insert(id, state);
                    }
                }
                (Args::BIND_CONN_TO_SESSION(bound), _) => {
                    for channel in [Channel::Fore, Channel::Back] {
                        if let Some(session) = self.channels.get_mut(&(tenant, channel, bound.bctsa_sessid)) {
                            session.has_other_hosts |= session.hosts != hosts_of(&transaction.connection);
                        }
                    }
                }
                (Args::DESTROY_SESSION(destroyed), Some(Results::DESTROY_SESSION(result))) if result.ok().is_some() => {
                    for channel in [Channel::Fore, Channel::Back] {
                        self.channels.remove(&(tenant, channel, destroyed.dsa_sessionid));
                    }
                }
                _ => {}
            }
        }
    }

    fn record_copies(&mut self, transaction: &Transaction, operations: &CompoundOperationIterator<'_>) {
        let tenant = transaction.connection.tenant;
        for pair in operations.pairs() {
            match pair {
                (Args::COPY(_), Some(Results::COPY(copied))) => {
                    let callback = copied.ok().and_then(|copied| copied.cr_response.wr_callback_id.iter().next());
                    let session = operations
                        .sequence
                        .and_then(|sequence| self.channels.get_mut(&(tenant, operations.channel, sequence.session)));
                    if let (Some(stateid), Some(session)) = (callback, session)
                        && session.copies.len() < MAX_COPIES
                    {
                        let started = session.certain_point(transaction);
                        let stateid = stateid.other;
                        session.copies.push(AsynchronousCopy { stateid, is_reported: false, started });
                    }
                }
                (Args::OFFLOAD_STATUS(args), Some(Results::OFFLOAD_STATUS(result)))
                    if result.ok().is_some_and(|result| !result.osr_complete.is_empty()) =>
                {
                    self.record_report(&args.osa_stateid);
                }
                (Args::OFFLOAD_CANCEL(args), Some(Results::OFFLOAD_CANCEL(result))) if result.ok().is_some() => {
                    self.record_report(&args.oca_stateid);
                }
                _ => {}
            }
        }
    }

    /// Records the use of a slot. A refused SEQUENCE or CB_SEQUENCE does not use it.
    fn record_use(&mut self, transaction: &Transaction, operations: &CompoundOperationIterator<'_>) {
        let tenant = transaction.connection.tenant;
        let sequence = operations.sequence.as_ref();
        if let Some(returned) = operations.sequence_result.as_ref()
            && !sequence.is_some_and(|sequence| sequence.is_echoed_by(returned))
        {
            // The replier used another slot, or the requester did not ask for this one.
            let requested = sequence.map(|sequence| sequence.session).unwrap_or_default();
            for id in [returned.session, requested] {
                if let Some(session) = self.channels.get_mut(&(tenant, operations.channel, id)) {
                    session.gaps += 1;
                }
            }
            return;
        }
        let Some(sequence) = sequence else { return };
        let id = (tenant, operations.channel, sequence.session);
        let Some(call) = &transaction.call else { return };
        if !self.channels.contains_key(&id) {
            empty_if_full(&mut self.channels, MAX_CHANNELS);
            self.channels.insert(id, SessionChannel::of_unknown_session(transaction));
        }
        let Some(session) = self.channels.get_mut(&id) else { return };
        let certain = session.certain_point(transaction);
        if session.connection != certain.connection {
            session.has_other_hosts |= session.hosts != hosts_of(&transaction.connection);
        }
        (session.connection, session.gaps) = (certain.connection, certain.gaps);
        let result = operations.sequence_result.as_ref();
        if let Some(target) = &mut session.target
            && call.time > target.since
        {
            target.later_calls = target.later_calls.saturating_add(1);
        }
        let reply = transaction.reply.as_ref();
        if result.is_none() && reply.is_some() && operations.failure.is_none() && !operations.is_refused() {
            // The Reply cannot be decoded. It may have changed the limits.
            session.gaps += 1;
        }
        if let (Some(result), Some(reply)) = (result, reply) {
            let highest_slot = result.target_highest_slot;
            session.highest_granted_slot = session.highest_granted_slot.max(highest_slot).max(result.highest_slot);
            // A server also retires slots above the target, once the client uses none of them.
            let retained = result.highest_slot.min(highest_slot);
            if retained < session.highest_retained_slot {
                let retired = session.slots.iter_mut().filter(|(slot, _)| **slot > retained);
                retired.for_each(|(_, used)| used.is_retired = true);
            }
            session.highest_retained_slot = retained;
            if session.target.is_none_or(|target| target.highest_slot != highest_slot) {
                session.target = Some(TargetHighestSlot { highest_slot, since: reply.end_time, later_calls: 0 });
            }
        }
        if result.is_none() && operations.is_refused() {
            return;
        }
        let last_use = session.slots.get(&sequence.slot);
        // Transactions come in the order in which they close.
        let is_older = last_use.is_some_and(|previous| !previous.is_before(transaction, call.time));
        if is_older || (last_use.is_none() && session.slots.len() >= MAX_SLOTS) {
            return;
        }
        let id = sequence.sequence_id;
        let follows =
            |previous: &LastSessionSlotUse| id == previous.sequence_id || id == previous.sequence_id.wrapping_add(1);
        let used = LastSessionSlotUse {
            sequence_id: id,
            is_misordered: last_use.is_some_and(|previous| !follows(previous)),
            is_retired: false,
            is_cache_requested: sequence.is_cache_requested,
            call_time: call.time,
            call_frame: call.frames.first().copied(),
            reply_time: reply.map(|reply| reply.time),
            is_executed: result.is_some(),
            has_connection_ended: transaction.has_connection_ended,
            arguments: operations.arguments_digest,
            results: operations.results_digest,
            // A loss before the Reply may be of the next Call on the slot: the Reply may be decoded later.
            certain: ChannelCaptureGapSnapshot { losses: transaction.credit_use.losses_before, ..certain },
            call_number: transaction.credit_use.call_number,
            may_follow_reply: transaction.credit_use.may_follow_reply,
        };
        session.slots.insert(sequence.slot, used);
    }
}
