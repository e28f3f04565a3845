//! Recovery of one client whose state the server has forgotten, or the return of its delegations.

use std::collections::VecDeque;
use std::time::Instant;

use nfsrdma_dissectors::nfs::v4::{Clientid4, Sessionid4};
use nfsrdma_dissectors::rpc::Xid;

use super::super::recovery::calls::RecoveryCall;

/// Session used for reclaiming: its ID, the last sa_sequenceid of its first slot, and its number of slots.
pub(super) type SessionUsedForReclaim = (Sessionid4, u32, u32);

/// Recovery of the state of one client: its Calls, in order.
#[derive(Debug, Default)]
pub(super) struct ClientReclaim {
    pub(super) client: Clientid4,
    /// Index of the live connection that carries the Calls.
    pub(super) line: usize,
    pub(super) calls: VecDeque<RecoveryCall>,
    pub(super) session: Option<SessionUsedForReclaim>,
    /// Call that is in flight or to be sent; sent again unchanged after a lost connection.
    pub(super) message: Option<(Xid, Vec<u8>)>,
    /// Variables and seqids of the open-owner and of the lock-owner whose seqids the Call counts.
    pub(super) seqids: [Option<(u32, u32)>; 2],
    pub(super) sent: Option<Instant>,
    /// Earliest send time of the next Call.
    pub(super) retry_at: Option<Instant>,
    pub(super) tries: u32,
    /// `true` if the client itself was forgotten, not just a session.
    pub(super) is_client_lost: bool,
    /// `true` if the lease has expired, so that nothing can be reclaimed and all is requested again.
    pub(super) is_expired: bool,
    /// `true` if nothing is reclaimed: the capture lacks the call that completes the registration of the client.
    pub(super) is_completion: bool,
    /// `true` if nothing is reclaimed: the client returns its delegations at the end of the run.
    pub(super) is_return: bool,
}
