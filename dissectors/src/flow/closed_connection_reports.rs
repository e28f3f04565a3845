//! Reports of closed connections.
//!
//! A connection is closed when the flow removes it, because another one replaced it or because there were too many. A
//! connection whose end was seen (a FIN or RST of TCP, a DREQ of the connection manager, or a REQ or REP for another
//! connection on its queue pairs) is closed as soon as none of its Transactions is open or lingering. If it carries
//! another Transaction after that, it is reported again.

use std::collections::VecDeque;

use super::Flow;
use super::connection::ConnectionParametersSnapshot;
use super::connection_key::ConnectionSlabKey;

/// Number of ending connections that each call of [`Flow::next_closed`] checks, in rotation.
const MAX_CHECKED: usize = 4;

/// Connections that are closed or ending.
#[derive(Debug, Default)]
pub(super) struct ClosedConnectionReportQueue {
    /// Connections whose end was seen.
    ending_connections: VecDeque<ConnectionSlabKey>,
    /// Closed connections, in the order of closing.
    closed_connections: VecDeque<ConnectionParametersSnapshot>,
}

impl Flow {
    /// Returns the next closed connection that has carried RPC, if
    /// [`FlowLimits::report_closed_connections`](super::FlowLimits::report_closed_connections) is set. All of its
    /// Transactions were emitted before.
    pub fn next_closed(&mut self) -> Option<ConnectionParametersSnapshot> {
        for _ in 0..self.closing_connections.ending_connections.len().min(MAX_CHECKED) {
            let Some(key) = self.closing_connections.ending_connections.pop_front() else { break };
            // `note_closed` handles connections that were removed.
            let Some(connection) = self.connections.get_by_key(key) else { continue };
            match connection.conversation.transaction_keys().next() {
                Some(_) => self.closing_connections.ending_connections.push_back(key),
                None => self.closing_connections.closed_connections.extend(connection.state()),
            }
        }
        self.closing_connections.closed_connections.pop_front()
    }

    pub(super) fn record_connection_end(&mut self, key: ConnectionSlabKey) {
        if self.connections.record_end(key) && self.limits.report_closed_connections {
            self.closing_connections.ending_connections.push_back(key);
        }
    }

    /// Records that a connection is about to be removed.
    pub(super) fn record_closed_connection(&mut self, at: usize) {
        if self.limits.report_closed_connections {
            let connection = self.connections.get(at).filter(|connection| !connection.continues_as_mpa);
            self.closing_connections
                .closed_connections
                .extend(connection.and_then(|connection| connection.state()));
        }
    }
}
