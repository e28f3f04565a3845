//! RDMA accesses and messages of a connection that look invalid, until later messages confirm them.

use nfsrdma_dissectors::captured_frame::Timestamp;

use crate::exceptional_transport_events::{ConnectionSlotTransportEvent, RdmaMemoryAccess};
use crate::rdma_operation::ConnectionSideAOrB;

/// Maximum number of suspected accesses, and of suspected messages, per connection.
pub(super) const MAX_SUSPECTS: usize = 64;

/// An access that looks invalid.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuspectedAccess {
    pub(super) event: ConnectionSlotTransportEvent,
    pub(super) access: RdmaMemoryAccess,
    /// `true` if no Call in flight offers the whole range.
    pub(super) is_unknown: bool,
    pub(super) losses: u64,
}

/// Accesses of one connection that look invalid.
#[derive(Debug, Default)]
pub(super) struct SuspectedAccesses {
    pub(super) suspects: Vec<SuspectedAccess>,
    /// Time of the last access that looks invalid and belongs to no known Call.
    pub(super) last_unattributed: Option<Timestamp>,
}

impl SuspectedAccesses {
    /// Returns `true` if an access that looks invalid may have been meant for a Call that was sent at `call_time`.
    #[inline]
    pub(super) fn may_concern(&self, call_time: Timestamp) -> bool {
        self.last_unattributed.is_some_and(|access| call_time <= access)
    }
}

/// A message that the state of its connection does not seem to permit.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuspectedUnexpectedMessage {
    pub(super) event: ConnectionSlotTransportEvent,
    /// `true` if the Transaction had no Call.
    pub(super) is_without_call: bool,
    /// Number of losses of the conversation, if a lost message would permit this one.
    pub(super) losses: Option<u64>,
}

/// Messages of one connection that look invalid.
#[derive(Debug, Default)]
pub(super) struct SuspectedUnexpectedMessages {
    pub(super) suspects: Vec<SuspectedUnexpectedMessage>,
    /// `true` if a Reply had Read chunks (RFC 5666).
    pub(super) has_reply_read_list: bool,
    /// `true` if a Reply may belong to a Call that is not in the table any more, or whose XID another Call has.
    pub(super) has_forgotten_calls: bool,
}

impl SuspectedUnexpectedMessages {
    /// Adopts the facts about another part of the same connection. Its suspected messages are dropped.
    pub(super) fn merge(&mut self, other: &Self) {
        self.has_reply_read_list |= other.has_reply_read_list;
        self.has_forgotten_calls |= other.has_forgotten_calls;
    }

    /// Records that a Call of `requester` is missing. Calls of one side do not permit messages of the same side.
    pub(super) fn record_missing_call(&mut self, requester: ConnectionSideAOrB) {
        for suspect in self.suspects.iter_mut().filter(|suspect| suspect.event.sender == requester) {
            suspect.losses = suspect.losses.map(|losses| losses + 1);
        }
    }
}
