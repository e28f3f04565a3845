//! Connections of a run, and what a run needs to survive their loss: the state at the server, timeouts and counts of
//! failures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::ChannelDirFromClient4;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::{CallTag, ReconnectionAttempts, RpcClientConnectionId};
use rustc_hash::FxHashMap;

use super::super::recovery::{MAX_BINDINGS, MAX_FAILED_CONNECTIONS, RECONNECT_PAUSE};
use super::client_lease::ClientLeases;
use super::client_reclaim::ClientReclaim;

/// A session to which a connection must be bound. RFC 8881 section 18.34.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionSessionBinding {
    /// Variable of the session.
    pub(super) session: u32,
    pub(super) minor_version: u32,
    pub(super) direction: ChannelDirFromClient4,
    /// `true` if the server has refused a Call on the connection because it is not bound: steps wait for the binding.
    pub(super) is_required: bool,
    /// `true` if the server has refused it.
    pub(super) is_refused: bool,
    /// Number of times that the server has asked to retry it later.
    pub(super) delays: u32,
}

impl ConnectionSessionBinding {
    /// Returns the binding of a connection to the backchannel of a session and, if the server agrees, to its fore
    /// channel.
    pub(super) fn of_backchannel(session: u32, minor_version: u32) -> Self {
        let direction = ChannelDirFromClient4::CDFC4_BACK_OR_BOTH;
        Self { session, minor_version, direction, is_required: false, is_refused: false, delays: 0 }
    }
}

/// BIND_CONN_TO_SESSION in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingBindConnToSession {
    pub(super) tag: CallTag,
    pub(super) binding: ConnectionSessionBinding,
    pub(super) sent: Instant,
}

#[derive(Debug)]
pub(super) struct LiveConnection {
    pub(super) connection: RpcClientConnectionId,
    pub(super) xid: u32,
    /// Set once the connection is lost and must be replaced.
    pub(super) lost: Option<ReconnectionAttempts>,
    /// Sessions to which a replacement of this connection must be bound.
    pub(super) bindings: Vec<ConnectionSessionBinding>,
    /// Those for which BIND_CONN_TO_SESSION has not been sent yet.
    pub(super) pending_bindings: Vec<ConnectionSessionBinding>,
    pub(super) binding_in_flight: Option<PendingBindConnToSession>,
    /// Time before which no binding is requested.
    pub(super) next_binding: Option<Instant>,
    /// Number of recoveries in the run when the sessions were last bound.
    pub(super) recoveries_at_binding: u32,
}

impl LiveConnection {
    pub(super) fn new(connection: RpcClientConnectionId, xid: u32) -> Self {
        Self {
            connection,
            xid,
            lost: None,
            bindings: Vec::new(),
            pending_bindings: Vec::new(),
            binding_in_flight: None,
            next_binding: None,
            recoveries_at_binding: 0,
        }
    }

    pub(super) fn next_xid(&mut self) -> Xid {
        self.xid = self.xid.wrapping_add(1);
        Xid(self.xid)
    }

    /// Returns `true` if steps must wait until the connection is bound to a session.
    pub(super) fn is_waiting_for_binding(&self) -> bool {
        let in_flight = self.binding_in_flight.iter().map(|in_flight| &in_flight.binding);
        self.pending_bindings.iter().chain(in_flight).any(|binding| binding.is_required)
    }

    pub(super) fn refuse_binding(&mut self, session: u32) {
        self.bindings
            .iter_mut()
            .filter(|binding| binding.session == session)
            .for_each(|binding| binding.is_refused = true);
    }
}

/// The connections of a run, and the state that outlives them.
#[derive(Debug, Default)]
pub(super) struct ReplayConnectionPool {
    pub(super) lines: Vec<LiveConnection>,
    /// Index of the live connection by client and captured connection.
    pub(super) connection_by_client: FxHashMap<(u32, u64), usize>,
    pub(super) connection_index: FxHashMap<RpcClientConnectionId, usize>,
    /// Attempts to open connections that are in none of `lines` yet, by client and captured connection.
    pub(super) first_attempts: FxHashMap<(u32, u64), ReconnectionAttempts>,
    /// Number of consecutive connections lost without a Reply.
    pub(super) failed_connections: u32,
    /// Number of consecutive reply timeouts, and the time of the last one.
    pub(super) reply_timeouts: u32,
    pub(super) silent_since: Option<Instant>,
    /// Time since which steps wait for a Reply to a Call that is not a step: one that binds a connection or recovers
    /// state.
    pub(super) stalled_since: Option<Instant>,
    /// Time since which the server has only answered with requests to retry later.
    pub(super) delayed_since: Option<Instant>,
    /// Number of retries requested by the server that had no effect.
    pub(super) futile_retries: u32,
    /// Send times of the Calls in flight, in ascending order.
    pub(super) expiries: VecDeque<(Instant, CallTag)>,
    pub(super) reclaim: Option<ClientReclaim>,
    pub(super) leases: ClientLeases,
    pub(super) binding_calls: u64,
    /// Number of recoveries, and number of Calls that they took.
    pub(super) recoveries: u32,
    pub(super) recovery_calls: u64,
}

impl ReplayConnectionPool {
    /// Returns a connection by its identifier, unless it is lost.
    pub(super) fn line_mut(&mut self, connection: RpcClientConnectionId) -> Option<&mut LiveConnection> {
        self.lines.get_mut(*self.connection_index.get(&connection)?)
    }

    /// Returns the index of the first connection of a captured client.
    pub(super) fn line_of_captured_client(&self, client: u32) -> Option<usize> {
        let connections = self.connection_by_client.iter().filter(|((captured, _), _)| *captured == client);
        connections.map(|(_, line)| *line).min()
    }

    /// Marks a connection as lost at this time. Returns its index, unless it was lost before; the next step on it opens a
    /// new one.
    pub(super) fn mark_lost(
        &mut self,
        connection: RpcClientConnectionId,
        now: Instant,
        timeout: Duration,
    ) -> Option<usize> {
        let number = self.connection_index.remove(&connection)?;
        if let Some(line) = self.lines.get_mut(number) {
            let pause = RECONNECT_PAUSE * self.failed_connections.saturating_sub(1).min(10);
            line.lost = Some(ReconnectionAttempts::new(now + pause, timeout));
            (line.binding_in_flight, line.next_binding) = (None, None);
        }
        Some(number)
    }

    /// Counts a connection that was lost without a Reply.
    pub(super) fn count_failure(&mut self) {
        self.failed_connections = self.failed_connections.saturating_add(1);
    }

    /// Returns `true` if too many connections in a row were lost to send a Call again.
    pub(super) fn is_failing(&self) -> bool {
        self.failed_connections > MAX_FAILED_CONNECTIONS
    }

    /// Returns `true` if no connection is to be opened any more.
    pub(super) fn has_given_up(&self) -> bool {
        self.failed_connections > 2 * MAX_FAILED_CONNECTIONS
    }

    /// Records a Reply: the server can be reached.
    pub(super) fn record_reply(&mut self) {
        if !self.has_given_up() {
            self.failed_connections = 0;
        }
        (self.reply_timeouts, self.stalled_since) = (0, None);
    }

    /// Records a session to which a connection is bound. Returns `false` if there are too many.
    pub(super) fn record_binding(
        &mut self,
        connection: RpcClientConnectionId,
        binding: ConnectionSessionBinding,
    ) -> bool {
        let Some(line) = self.line_mut(connection) else { return true };
        let has_capacity = line.bindings.len() < MAX_BINDINGS;
        if has_capacity {
            line.bindings.push(binding);
        }
        has_capacity
    }

    /// Queues BIND_CONN_TO_SESSION for a connection on which the server refuses Calls, to the fore channel and, if the
    /// connection had the backchannel, to both. Returns `false` if the connection is lost, has too many sessions, or
    /// the server has refused the binding.
    pub(super) fn queue_binding(
        &mut self,
        connection: RpcClientConnectionId,
        session: u32,
        minor_version: u32,
    ) -> bool {
        let Some(line) = self.line_mut(connection) else { return false };
        let is_same = |other: &ConnectionSessionBinding| other.session == session;
        if !line.bindings.iter().any(is_same) && line.bindings.len() < MAX_BINDINGS {
            let direction = ChannelDirFromClient4::CDFC4_FORE;
            let binding = ConnectionSessionBinding::of_backchannel(session, minor_version);
            line.bindings.push(ConnectionSessionBinding { direction, ..binding });
        }
        let existing = line.bindings.iter_mut().find(|binding| is_same(binding));
        let Some(binding) = existing.filter(|binding| !binding.is_refused) else { return false };
        binding.is_required = true;
        if binding.direction == ChannelDirFromClient4::CDFC4_BACK_OR_BOTH {
            binding.direction = ChannelDirFromClient4::CDFC4_FORE_OR_BOTH;
        }
        let binding = *binding;
        let in_flight = line.binding_in_flight.map(|in_flight| in_flight.binding);
        if !in_flight.is_some_and(|in_flight| is_same(&in_flight) && in_flight.is_required) {
            line.pending_bindings.retain(|other| !is_same(other));
            line.pending_bindings.push(binding);
        }
        true
    }

    /// Returns the connection that waits for the Reply with this tag to BIND_CONN_TO_SESSION, and the binding, which is
    /// no longer in flight.
    pub(super) fn take_binding(
        &mut self,
        tag: CallTag,
    ) -> Option<(usize, &mut LiveConnection, ConnectionSessionBinding)> {
        let mut lines = self.lines.iter_mut().enumerate();
        let (number, line) =
            lines.find(|(_, line)| line.binding_in_flight.is_some_and(|in_flight| in_flight.tag == tag))?;
        let binding = line.binding_in_flight.take()?.binding;
        Some((number, line, binding))
    }

    /// Removes the bindings of a destroyed session.
    pub(super) fn remove_bindings(&mut self, session: u32) {
        for line in &mut self.lines {
            line.bindings.retain(|binding| binding.session != session);
            line.pending_bindings.retain(|binding| binding.session != session);
        }
    }
}
