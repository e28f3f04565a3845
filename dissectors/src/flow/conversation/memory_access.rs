//! RDMA Reads and Writes of memory that the peer did not offer for them.
//!
//! A capture may lack the Call that offered the memory, or have it later than the access. So an access is reported only
//! once the owner of the memory has sent a further message without loss, or has refused the access.

use crate::flow::chunk::ChunkKind;
use crate::flow::transaction_table::{SegmentIndex, TransactionEntry, TransactionKey};
use crate::flow::transport_event::{AccessFault, MemoryAccess, TransportEventKind};
use crate::frame::{FrameNumber, Timestamp};
use crate::rdma::{ConnectionSide, RdmaAttribution};

use super::{RpcContext, RpcConversation};

/// Maximum number of suspected accesses per connection.
const MAX_SUSPECTS: usize = 64;

/// Nanoseconds by which packets of the two directions may be captured in the wrong order: a capture of several queues.
const MAX_SKEW_NS: u64 = 1_000_000;

/// Nanoseconds without loss before an access that make it certain that the capture has all Calls in flight.
pub(super) const MIN_LOSSLESS_NS: u64 = 10_000_000_000;

/// An access that looks invalid.
#[derive(Clone, Copy, Debug)]
struct SuspectedAccess {
    sender: ConnectionSide,
    frame: FrameNumber,
    time: Timestamp,
    transaction: Option<TransactionKey>,
    access: MemoryAccess,
    fault: AccessFault,
    losses: u64,
}

/// Accesses of one connection that look invalid.
#[derive(Debug, Default)]
pub(super) struct SuspectedAccesses(Vec<SuspectedAccess>);

impl RpcConversation {
    /// Records that packets of the connection were lost, or are missing from the capture.
    pub(in crate::flow) fn record_loss(&mut self, now: Timestamp) {
        self.losses += 1;
        self.last_loss = Some(now);
        self.read_depths.forget();
    }

    /// Checks the first packet of an RDMA Read or Write of `sender`, whose memory is `owner`.
    pub(super) fn check_access(
        &mut self,
        context: &mut RpcContext<'_>,
        sender: ConnectionSide,
        owner: RdmaAttribution,
        access: MemoryAccess,
    ) {
        let has_lost_recently =
            self.last_loss.is_some_and(|loss| context.packet_meta.time.abs_diff_ns(loss) < MIN_LOSSLESS_NS);
        if access.length == 0
            || context.packet_meta.anomaly.is_some()
            || self.has_cut_lists
            || has_lost_recently
            || self.suspects.0.len() >= MAX_SUSPECTS
            || self
                .suspects
                .0
                .iter()
                .any(|known| known.sender == sender && known.access.handle == access.handle)
        {
            return;
        }
        let found = TransactionKey::from_attribution(owner);
        let fault = match found {
            Some((key, at)) => fault_of_known_memory(context.transaction_table.get(key), at, access.is_read),
            None => Some(self.fault_of_unknown_memory(context, sender, &access)),
        };
        let Some(fault) = fault else { return };
        self.suspects.0.push(SuspectedAccess {
            sender,
            frame: context.packet_meta.last_frame(),
            time: context.packet_meta.time,
            transaction: found.map(|(key, _)| key),
            access,
            fault,
            losses: self.losses,
        });
    }

    fn fault_of_unknown_memory(
        &self,
        context: &RpcContext<'_>,
        sender: ConnectionSide,
        access: &MemoryAccess,
    ) -> AccessFault {
        let open = |side| context.transaction_table.open_on(context.connection, side);
        let uses = self.handles.get(&(sender.peer(), access.handle));
        let is_open =
            |key: TransactionKey| context.transaction_table.get(key).is_some_and(TransactionEntry::is_open);
        if uses.is_some_and(|uses| uses.keys().any(is_open)) {
            AccessFault::OutOfBounds
        } else if open(sender) > 0 && open(sender.peer()) == 0 {
            AccessFault::ByRequester
        } else {
            AccessFault::NotOffered
        }
    }

    /// Decides the suspected accesses to memory of `owner`, who sent a message without loss or refused an access.
    #[inline]
    pub(in crate::flow) fn confirm_accesses(
        &mut self,
        context: &mut RpcContext<'_>,
        owner: ConnectionSide,
        is_refusal: bool,
    ) {
        if !self.suspects.0.is_empty() {
            self.decide_accesses(context, owner, is_refusal);
        }
    }

    #[cold]
    fn decide_accesses(&mut self, context: &mut RpcContext<'_>, owner: ConnectionSide, is_refusal: bool) {
        let now = context.packet_meta.time;
        let mut waiting = Vec::new();
        for suspect in std::mem::take(&mut self.suspects.0) {
            let SuspectedAccess { sender, frame, time, transaction, access, fault, losses } = suspect;
            if losses != self.losses {
                continue;
            }
            if sender.peer() != owner || (!is_refusal && now.abs_diff_ns(time) < MAX_SKEW_NS) {
                waiting.push(suspect);
                continue;
            }
            let is_unknown = matches!(fault, AccessFault::NotOffered | AccessFault::OutOfBounds);
            let found = self.find_segment(
                context.transaction_table,
                owner,
                access.handle,
                access.offset,
                access.length,
            );
            // A Call that was captured after the access offers the memory.
            if !(is_unknown && found.0.is_some()) {
                context.transaction_table.transport_events.record_at(
                    (context.connection, sender),
                    (frame, time),
                    transaction,
                    TransportEventKind::InvalidAccess(access, fault),
                );
            }
        }
        self.suspects.0 = waiting;
    }
}

/// Returns the violation of an access to a segment that contains its range.
fn fault_of_known_memory(
    entry: Option<&TransactionEntry>,
    at: SegmentIndex,
    is_read: bool,
) -> Option<AccessFault> {
    let entry = entry?;
    let is_readable = at.is_reply_segment() || at.kind() == ChunkKind::Read;
    if is_readable != is_read {
        return Some(AccessFault::WrongOperation);
    }
    // The Requester reads chunks of the Reply after it.
    (!entry.is_open() && !at.is_reply_segment()).then_some(AccessFault::AfterReply)
}
