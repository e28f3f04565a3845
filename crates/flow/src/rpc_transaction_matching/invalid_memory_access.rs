//! RDMA Reads and Writes of memory that the peer did not offer for them.
//!
//! A capture may lack the Call that offered the memory, or have it later than the access. So an access is reported only
//! once the owner of the memory has sent a further message without loss, or has refused the access; and without the
//! set-up of the connection, only some time after the first captured packet.

use super::connection_rpc_state::ConnectionRpcState;
use super::suspected_violations::{MAX_SUSPECTS, SuspectedAccess};
use crate::borrowed_flow_state::BorrowedFlowState;
use crate::chunk::ChunkKind;
use crate::exceptional_transport_events::{
    MAX_CAPTURE_SKEW_NS, RdmaAccessViolationReason, RdmaMemoryAccess, TransportAnomalyKind,
};
use crate::rdma_operation::{RdmaAttribution, RdmaMemoryRange};
use crate::transaction_slab_key::{PackedChunkSegmentOrdinal, TransactionSlabKey};
use crate::transaction_table::TrackedFlowTransaction;

impl ConnectionRpcState {
    /// Checks the first packet of an RDMA Read or Write of the sender, whose memory is `owner`.
    pub(super) fn check_access(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        owner: RdmaAttribution,
        access: RdmaMemoryAccess,
    ) {
        if access.length == 0 {
            return;
        }
        let attribution = TransactionSlabKey::from_attribution(owner);
        let (fault, key) = match attribution {
            Some((key, at)) => {
                let fault = fault_of_known_memory(context.transaction_table.get(key), at, access.is_read);
                (fault, Some(key))
            }
            None => {
                let (fault, key) = self.fault_of_unknown_memory(context, &access);
                (Some(fault), key)
            }
        };
        if let Some(fault) = fault {
            self.suspect_access(context, access, (fault, key));
        }
    }

    #[cold]
    pub(super) fn suspect_access(
        &mut self,
        context: &mut BorrowedFlowState<'_>,
        access: RdmaMemoryAccess,
        (fault, transaction): (RdmaAccessViolationReason, Option<TransactionSlabKey>),
    ) {
        let now = context.packet_meta.time;
        match transaction.and_then(|key| context.transaction_table.get_mut(key)) {
            Some(entry) => entry.transaction.has_suspected_access = true,
            None => self.suspects.last_unattributed = Some(now),
        }
        let suspects = &self.suspects.suspects;
        let is_known = |suspect: &SuspectedAccess| {
            suspect.event.sender == context.sender && suspect.access.handle == access.handle
        };
        if context.packet_meta.anomaly.is_some() || suspects.len() >= MAX_SUSPECTS || suspects.iter().any(is_known) {
            return;
        }
        if self.has_cut_lists || self.may_lack_calls(now) {
            // The Call that permits it may be missing.
            if self.has_set_up {
                let event = context.event(transaction, TransportAnomalyKind::InvalidAccess(access, fault));
                context.record_suspect(event, false);
            }
            return;
        }
        self.suspects.suspects.push(SuspectedAccess {
            event: context.event(transaction, TransportAnomalyKind::InvalidAccess(access, fault)),
            access,
            is_unknown: matches!(fault, RdmaAccessViolationReason::NotOffered | RdmaAccessViolationReason::OutOfBounds),
            losses: self.losses,
        });
    }

    /// Returns the violation of an access to memory that no Call offers, and the Call that it may have been meant for.
    fn fault_of_unknown_memory(
        &self,
        context: &BorrowedFlowState<'_>,
        access: &RdmaMemoryAccess,
    ) -> (RdmaAccessViolationReason, Option<TransactionSlabKey>) {
        let open = |side| context.transaction_table.open_on(context.connection, side);
        let uses = self.handles.get(&(context.sender.peer(), access.handle));
        let is_open =
            |key: TransactionSlabKey| context.transaction_table.get(key).is_some_and(TrackedFlowTransaction::is_open);
        if let Some(key) = uses.and_then(|uses| uses.iter().map(|segment| segment.key).find(|key| is_open(*key))) {
            (RdmaAccessViolationReason::OutOfBounds, Some(key))
        } else if open(context.sender) > 0 && open(context.sender.peer()) == 0 {
            let own_uses = self.handles.get(&(context.sender, access.handle));
            let key = own_uses.and_then(|uses| uses.iter().map(|segment| segment.key).find(|key| is_open(*key)));
            (RdmaAccessViolationReason::ByRequester, key)
        } else {
            (RdmaAccessViolationReason::NotOffered, None)
        }
    }

    /// Decides the suspected accesses to memory of the sender, which sent a message without loss or refused an access.
    pub(crate) fn confirm_accesses(&mut self, context: &mut BorrowedFlowState<'_>, is_refusal: bool) {
        if self.suspects.suspects.is_empty() {
            return;
        }
        let owner = context.sender;
        let now = context.packet_meta.time;
        let mut remaining = Vec::new();
        for suspect in std::mem::take(&mut self.suspects.suspects) {
            let SuspectedAccess { event, access, is_unknown, losses } = suspect;
            let is_certain = losses == self.losses;
            if is_certain {
                let is_recent = now.abs_diff_ns(event.time) < MAX_CAPTURE_SKEW_NS;
                if event.sender == owner || (!is_refusal && is_recent) {
                    remaining.push(suspect);
                    continue;
                }
                let RdmaMemoryAccess { handle, offset, length, .. } = access;
                let range = RdmaMemoryRange { handle, offset, length };
                let attribution = self.find_segment(context.transaction_table, owner, range);
                // A Call that was captured after the access offers the memory.
                if is_unknown && attribution.0.is_some() {
                    continue;
                }
            }
            context.record_suspect(event, is_certain);
        }
        self.suspects.suspects = remaining;
    }

    /// Records the suspected accesses as uncertain: the connection or the capture ends.
    pub(crate) fn drop_suspected_accesses(&mut self, context: &mut BorrowedFlowState<'_>) {
        for suspect in std::mem::take(&mut self.suspects.suspects) {
            context.record_suspect(suspect.event, false);
        }
    }
}

/// Returns the violation of an access to a segment that contains its range.
fn fault_of_known_memory(
    entry: Option<&TrackedFlowTransaction>,
    at: PackedChunkSegmentOrdinal,
    is_read: bool,
) -> Option<RdmaAccessViolationReason> {
    let entry = entry?;
    let is_readable = at.is_reply_segment() || at.kind() == ChunkKind::Read;
    if is_readable != is_read {
        return Some(RdmaAccessViolationReason::WrongOperation);
    }
    // The Requester reads chunks of the Reply after it.
    (!entry.is_open() && !at.is_reply_segment()).then_some(RdmaAccessViolationReason::AfterReply)
}
