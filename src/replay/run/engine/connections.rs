//! Connections of a run, and what a run needs to survive their loss: the state at the server, timeouts and counts of
//! failures.

use std::collections::VecDeque;
use std::time::Instant;

use nfsrdma_rpc::{CallTag, ConnectionId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::recovery::client_state::RecoverableState;
use super::reclaim::ClientReclaim;

/// A live connection.
#[derive(Debug)]
pub(super) struct LiveConnection {
    pub(super) connection: ConnectionId,
    pub(super) xid: u32,
    /// Set once the connection is lost and must be replaced.
    pub(super) lost: Option<LostConnection>,
    /// Sessions that use this connection as backchannel: variable and minor version.
    pub(super) backchannels: Vec<(u32, u32)>,
    /// Backchannels that are not bound to this connection yet.
    pub(super) unbound_backchannels: Vec<(u32, u32)>,
    /// Number of recoveries in the run when the sessions were last bound.
    pub(super) recoveries_at_binding: u32,
}

/// A connection that was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostConnection {
    pub(super) since: Instant,
    /// Earliest time of the next connection attempt.
    pub(super) next_attempt: Instant,
}

/// The connections of a run, and the state that outlives them.
#[derive(Debug, Default)]
pub(super) struct ConnectionManager {
    pub(super) lines: Vec<LiveConnection>,
    /// Index of the live connection by client and captured connection.
    pub(super) connection_by_client: FxHashMap<(u32, u64), usize>,
    pub(super) connection_index: FxHashMap<ConnectionId, usize>,
    /// Number of consecutive connections lost without a Reply.
    pub(super) failed_connections: u32,
    /// Number of consecutive reply timeouts, and the time of the last one.
    pub(super) reply_timeouts: u32,
    pub(super) silent_since: Option<Instant>,
    /// Time since which steps wait for a Reply to a Call that is no step: one that binds a connection or recovers
    /// state.
    pub(super) stalled_since: Option<Instant>,
    /// Time since which the server has only answered with requests to retry later.
    pub(super) delayed_since: Option<Instant>,
    /// Number of retries requested by the server that had no effect.
    pub(super) futile_retries: u32,
    /// Send times of the Calls in flight, in ascending order.
    pub(super) expiries: VecDeque<(Instant, CallTag)>,
    /// State that the clients hold at the server.
    pub(super) client_state: RecoverableState,
    /// Client whose state is being reclaimed.
    pub(super) reclaim: Option<ClientReclaim>,
    /// Number of recoveries, and number of Calls that they took.
    pub(super) recoveries: u32,
    pub(super) recovery_calls: u64,
    /// Variables of state that could not be recovered.
    pub(super) unrecovered: FxHashSet<u32>,
}
