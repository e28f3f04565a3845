//! State of the RPCs of one connection.

use std::collections::hash_map::Entry;

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::memory_handle::Handle;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::rpcrdma::Dialect;
use nfsrdma_dissectors::rpcrdma::version2::PeerProperties;
use rustc_hash::FxHashMap;

use super::credits::{CreditsInUse, RequesterCreditState, Version2SendCredits};
use super::rdma_read_depth::RdmaReadDepthTracker;
use super::suspected_violations::{SuspectedAccesses, SuspectedUnexpectedMessages};
use crate::advertised_handles::HandleSegments;
use crate::by_side::ConnectionSidePair;
use crate::connection_setup::NegotiatedParameters;
use crate::exceptional_transport_events::ExaminedPacketCounts;
use crate::rdma_operation::ConnectionSideAOrB;
use crate::rpcrdma2_message_continuation::PartialRpcMessageTable;
use crate::transaction_slab_key::TransactionSlabKey;
use crate::transaction_table::TrackedTransactionTable;

/// A captured Call, to detect a Reply that was captured in the wrong order.
#[derive(Clone, Copy, Debug)]
pub(super) struct MisorderedReplyDetectionCall {
    /// [`TransactionSlabKey::NONE`] for no Call, which takes less memory than an `Option`.
    pub(super) key: TransactionSlabKey,
    pub(super) frame: FrameNumber,
    pub(super) time: Timestamp,
}

impl Default for MisorderedReplyDetectionCall {
    fn default() -> Self {
        Self { key: TransactionSlabKey::NONE, frame: FrameNumber::default(), time: Timestamp::default() }
    }
}

/// The first frame of a captured Reply, to detect a Call that was captured in the wrong order.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyFirstFrame {
    pub(super) requester: ConnectionSideAOrB,
    pub(super) frame: FrameNumber,
    pub(super) time: Timestamp,
}

/// Number of Calls before which a Reply may have been received that was captured after them.
pub(super) const MAX_CALLS_BEFORE_REPLY: usize = 4;

/// Nanoseconds without loss before an access that make it certain that the capture has all Calls in flight.
const MIN_LOSSLESS_NS: u64 = 10_000_000_000;

/// Packets of a connection that were examined for events.
#[derive(Debug, Default)]
struct ExaminedPackets {
    counts: ExaminedPacketCounts,
    /// Time of the first message, RDMA Read or RDMA Write.
    first_time: Option<Timestamp>,
}

/// Calls whose XID a later Call of the same side has, in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct SharedXidCalls {
    pub(super) calls: Vec<(ConnectionSideAOrB, Xid, TransactionSlabKey)>,
}

impl SharedXidCalls {
    pub(super) fn with_xid(&self, requester: ConnectionSideAOrB, xid: Xid) -> impl Iterator<Item = TransactionSlabKey> {
        let of_xid = self.calls.iter().filter(move |(side, of_call, _)| (*side, *of_call) == (requester, xid));
        of_xid.map(|(.., key)| *key)
    }

    fn keys(&self) -> impl Iterator<Item = TransactionSlabKey> {
        self.calls.iter().map(|(.., key)| *key)
    }

    /// Adopts those of the other direction of the connection.
    fn adopt(&mut self, other: Self, side: impl Fn(ConnectionSideAOrB) -> ConnectionSideAOrB) {
        self.calls.extend(other.calls.into_iter().map(|(requester, xid, key)| (side(requester), xid, key)));
    }
}

/// State of the RPCs of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionRpcState {
    /// `true` if the connection is known to carry RPC-over-RDMA.
    pub(crate) is_rpc: bool,
    /// `true` if its messages are datagrams: a missing one leaves no gap.
    pub(crate) is_datagram: bool,
    /// Dialect of the connection, once a message identified it.
    pub(crate) dialect: Option<Dialect>,
    /// Version 2 properties announced by side A and by side B; `None` before the first.
    pub(crate) properties: ConnectionSidePair<Option<PeerProperties>>,
    /// Message credits of side A and of side B in version 2.
    pub(crate) message_credits: ConnectionSidePair<Version2SendCredits>,
    /// Messages in several Sends that are incomplete.
    pub(crate) continuations: PartialRpcMessageTable,
    /// `true` if a snap length cut the chunk lists of a message.
    pub(crate) has_cut_lists: bool,
    /// Side that sent the first NFS, MOUNT or NFSACL Call.
    pub(crate) nfs_client_side: Option<ConnectionSideAOrB>,
    /// Side whose memory the peer writes, or that offered memory in a Call: callbacks seldom need any (RFC 8167 section
    /// 5.3).
    pub(super) memory_owner: Option<ConnectionSideAOrB>,
    /// Side that sent the first Call.
    pub(super) first_caller: Option<ConnectionSideAOrB>,
    /// Open and lingering Transactions, by the side that sends the Call and the XID.
    pub(super) transactions: FxHashMap<(ConnectionSideAOrB, Xid), TransactionSlabKey>,
    /// Calls in flight whose XID a later Call of the same side has. Allocated at the first.
    pub(super) shared_xids: Option<Box<SharedXidCalls>>,
    /// Advertised memory, by the side that owns it.
    pub(super) handles: FxHashMap<(ConnectionSideAOrB, Handle), HandleSegments>,
    /// Pairs of Transactions that merged connections held for one Requester and XID: one may have the Call, the other
    /// the Reply.
    pub(crate) split_transactions: Vec<(TransactionSlabKey, TransactionSlabKey)>,
    /// Credits for Calls of side A and of side B.
    pub(super) credits: ConnectionSidePair<RequesterCreditState>,
    /// Number of times that messages were found lost or missing from the capture.
    pub(super) losses: u64,
    /// Number of them in which nothing is missing from the capture: packets that were sent again.
    repeats: u64,
    /// Time of the last loss.
    pub(super) last_loss: Option<Timestamp>,
    /// Time of the last of those in which something is missing.
    pub(super) last_gap: Option<Timestamp>,
    /// When side A, and side B, last refused packets of the other side that were not captured. Allocated at the first.
    unseen_refusals: Option<Box<ConnectionSidePair<Option<Timestamp>>>>,
    /// `true` if a packet was captured after its acknowledgement: the order of the two directions is unknown.
    pub(crate) is_misordered: bool,
    /// `true` if the set-up of the connection was captured.
    pub(super) has_set_up: bool,
    /// RDMA Reads and Writes that look invalid, if transport events are recorded.
    pub(super) suspects: SuspectedAccesses,
    /// RDMA Reads in flight, if transport events are recorded.
    pub(super) read_depths: RdmaReadDepthTracker,
    /// Messages that look invalid, if transport events are recorded.
    pub(super) suspected_messages: SuspectedUnexpectedMessages,
    /// What was examined, if transport events are recorded.
    examined: Option<Box<ExaminedPackets>>,
    /// The Calls captured last, in a ring.
    pub(super) last_calls: [MisorderedReplyDetectionCall; MAX_CALLS_BEFORE_REPLY],
    /// Index of the oldest of them.
    pub(super) oldest_call: u8,
    /// The Reply captured last.
    pub(super) last_reply: Option<ReplyFirstFrame>,
    /// End time of the last captured message.
    pub(super) last_message_time: Option<Timestamp>,
}

impl ConnectionRpcState {
    /// Returns the credits that the calls of each side without a reply use.
    pub(crate) fn credits_in_use(&self) -> ConnectionSidePair<CreditsInUse> {
        ConnectionSidePair(self.credits.0.map(|credits| credits.in_use))
    }

    /// Merges the state of another conversation on the same connection; `is_swapped` if its sides are reversed.
    pub(crate) fn merge(&mut self, other: Self, is_swapped: bool) {
        let side = |side: ConnectionSideAOrB| if is_swapped { side.peer() } else { side };
        self.is_rpc |= other.is_rpc;
        self.has_set_up |= other.has_set_up;
        self.losses += other.losses;
        self.repeats += other.repeats;
        self.is_misordered |= other.is_misordered;
        self.last_loss = self.last_loss.max(other.last_loss);
        self.last_gap = self.last_gap.max(other.last_gap);
        self.read_depths.merge_limits(&other.read_depths, is_swapped);
        self.has_cut_lists |= other.has_cut_lists;
        self.merge_dialect(other.dialect);
        self.suspected_messages.merge(&other.suspected_messages);
        if let Some(other) = other.examined {
            self.checks_mut().add(&other.counts);
            let first_time = &mut self.examined.get_or_insert_default().first_time;
            *first_time = [*first_time, other.first_time].into_iter().flatten().min();
        }
        self.continuations.adopt(other.continuations, side);
        if let Some(shared) = other.shared_xids {
            self.shared_xids.get_or_insert_default().adopt(*shared, side);
        }
        for other_side in ConnectionSideAOrB::BOTH {
            let own_side = side(other_side);
            if let Some(refused) = other.unseen_refusals.as_ref().and_then(|refusals| refusals[other_side]) {
                let refusal = &mut self.unseen_refusals.get_or_insert_default()[own_side];
                *refusal = (*refusal).max(Some(refused));
            }
            self.properties[own_side] = self.properties[own_side].or(other.properties[other_side]);
            self.message_credits[own_side] = self.message_credits[own_side].merge(other.message_credits[other_side]);
            let in_use = &mut self.credits[own_side].in_use;
            *in_use = in_use.merge(other.credits[other_side].in_use);
        }
        self.nfs_client_side = self.nfs_client_side.or(other.nfs_client_side.map(side));
        self.memory_owner = self.memory_owner.or(other.memory_owner.map(side));
        self.first_caller = self.first_caller.or(other.first_caller.map(side));
        self.last_message_time = self.last_message_time.max(other.last_message_time);
        for ((other_side, xid), key) in other.transactions {
            let existing_key = *self.transactions.entry((side(other_side), xid)).or_insert(key);
            if existing_key != key {
                self.split_transactions.push((existing_key, key));
            }
        }
        for ((other_side, handle), uses) in other.handles {
            match self.handles.entry((side(other_side), handle)) {
                Entry::Occupied(mut own) => own.get_mut().merge(uses),
                Entry::Vacant(entry) => {
                    entry.insert(uses);
                }
            }
        }
    }

    /// Returns the side that is probably the client, if a snap length hides the programs of the Calls.
    pub(crate) fn probable_client_side(&self) -> Option<ConnectionSideAOrB> {
        self.nfs_client_side.or(self.memory_owner).or(self.first_caller)
    }

    pub(crate) fn checks(&self) -> ExaminedPacketCounts {
        self.examined.as_ref().map(|examined| examined.counts).unwrap_or_default()
    }

    /// Returns the numbers of packets examined, to count another one. Called only if transport events are recorded.
    pub(crate) fn checks_mut(&mut self) -> &mut ExaminedPacketCounts {
        &mut self.examined.get_or_insert_default().counts
    }

    /// Records the time of a message, RDMA Read or RDMA Write. Called only if transport events are recorded.
    #[inline]
    pub(super) fn record_time(&mut self, now: Timestamp) {
        self.examined.get_or_insert_default().first_time.get_or_insert(now);
    }

    /// Adopts the set-up of a connection that `client` opened.
    pub(crate) fn record_set_up(&mut self, client: ConnectionSideAOrB, parameters: &NegotiatedParameters) {
        self.has_set_up = true;
        self.read_depths.set_limits(client, parameters);
    }

    /// Returns the heap memory of the tables, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.transactions.capacity() * size_of::<((ConnectionSideAOrB, Xid), TransactionSlabKey)>()
            + self.handles.capacity() * size_of::<((ConnectionSideAOrB, Handle), HandleSegments)>()
    }

    /// Returns the keys of open and lingering Transactions.
    pub(crate) fn transaction_keys(&self) -> impl Iterator<Item = TransactionSlabKey> + '_ {
        self.transactions.values().copied().chain(self.shared_xids.iter().flat_map(|shared| shared.keys()))
    }

    /// Returns the time of the oldest Call in flight of a side that offers memory to write to.
    pub(crate) fn oldest_write_offer(
        &self,
        transaction_table: &TrackedTransactionTable,
        requester: ConnectionSideAOrB,
    ) -> Option<Timestamp> {
        let entries = self.transaction_keys().filter_map(|key| transaction_table.get(key));
        let calls = entries
            .filter(|entry| entry.is_open() && entry.requester == requester)
            .filter(|entry| !entry.transaction.write_chunks.is_empty() || entry.transaction.reply_chunk.is_some());
        calls.filter_map(|entry| Some(entry.transaction.call.as_ref()?.time)).min()
    }

    /// Returns `true` if a Transaction with this Requester and XID is open or lingering.
    pub(crate) fn has_transaction(&self, side: ConnectionSideAOrB, xid: Xid) -> bool {
        self.transactions.contains_key(&(side, xid))
    }

    /// Returns the number of Transactions and of advertised segments.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        let uses = self.handles.values().map(HandleSegments::size);
        (self.transactions.len(), uses.sum())
    }

    /// Records that packets of the connection were lost, or are missing from the capture.
    pub(crate) fn record_loss(&mut self, now: Timestamp) {
        self.last_gap = Some(now);
        self.count_loss(now);
    }

    /// Records that a packet was sent again.
    pub(crate) fn record_repeat(&mut self, now: Timestamp) {
        self.count_loss(now);
        self.repeats += 1;
    }

    /// Records that `receiver` refuses packets of the other side that were not captured.
    #[cold]
    pub(crate) fn record_unseen_refusal(&mut self, receiver: ConnectionSideAOrB, now: Timestamp) {
        self.unseen_refusals.get_or_insert_default()[receiver] = Some(now);
    }

    /// Returns when a side last refused packets of the other side that were not captured.
    pub(super) fn last_unseen_refusal(&self, receiver: ConnectionSideAOrB) -> Option<Timestamp> {
        self.unseen_refusals.as_ref().and_then(|refusals| refusals[receiver])
    }

    fn count_loss(&mut self, now: Timestamp) {
        self.losses += 1;
        self.last_loss = Some(now);
        self.read_depths.forget();
    }

    /// Returns `true` if a side has more calls in flight than its peer granted, one before the first grant: no reply that
    /// would show otherwise is missing. RFC 8166 section 3.3.1.
    pub(crate) fn exceeds_credits(&self, requester: ConnectionSideAOrB) -> bool {
        let credits = &self.credits[requester];
        let is_version_1 = self.dialect.is_some_and(|dialect| dialect != Dialect::Version2);
        is_version_1
            && (self.has_set_up || credits.has_grant_when_idle)
            && credits.gaps_when_idle == self.gaps()
            && credits.in_use.in_flight > credits.limit().unwrap_or(1).max(1)
    }

    /// Returns `true` if the capture may lack Calls in flight of a side whose credits are known.
    pub(crate) fn may_lack_credit_use(&self, requester: ConnectionSideAOrB, now: Timestamp) -> bool {
        let is_lossy = self.last_gap.is_some_and(|gap| now.abs_diff_ns(gap) < MIN_LOSSLESS_NS);
        is_lossy && self.credits[requester].limit().is_some()
    }

    /// Returns the number of times that messages were found missing from the capture.
    pub(crate) fn gaps(&self) -> u64 {
        self.losses - self.repeats
    }

    /// Returns `true` if the capture may lack Calls in flight: messages were lost recently, or may precede the capture.
    pub(super) fn may_lack_calls(&self, now: Timestamp) -> bool {
        self.has_lost_recently(now)
            || (!self.has_set_up && self.first_time().is_none_or(|first| now.abs_diff_ns(first) < MIN_LOSSLESS_NS))
    }

    /// Returns the time of the first message, RDMA Read or RDMA Write.
    fn first_time(&self) -> Option<Timestamp> {
        self.examined.as_ref()?.first_time
    }

    /// Returns `true` if messages were lost recently.
    pub(super) fn has_lost_recently(&self, now: Timestamp) -> bool {
        self.last_loss.is_some_and(|loss| now.abs_diff_ns(loss) < MIN_LOSSLESS_NS)
    }

    /// Merges the dialect that another conversation of the same connection detected.
    fn merge_dialect(&mut self, other: Option<Dialect>) {
        self.dialect = match (self.dialect, other) {
            (own, None) => own,
            (None | Some(Dialect::Rfc8166), other) => other,
            (own, _) => own,
        };
    }
}
