//! Reports of closed connections.
//!
//! A connection is closed when the flow removes it, because another one replaced it or because there were too many. A
//! connection whose end was seen (a FIN or RST of TCP, a DREQ of the connection manager, or a REQ or REP for another
//! connection on its queue pairs) is closed as soon as none of its Transactions is open or lingering. If it carries
//! another Transaction after that, it is reported again.

use std::collections::VecDeque;

use super::connection::{ConnectionParametersSnapshot, ConnectionTable, FlowConnection};
use super::connection_key::ConnectionSlabKey;

/// Number of ending connections that each call of [`ClosedConnectionReportQueue::next_closed`] checks, in rotation.
const MAX_CHECKED: usize = 4;

/// Connections that are closed or ending.
#[derive(Debug, Default)]
pub(super) struct ClosedConnectionReportQueue {
    /// Connections whose end was seen.
    ending_connections: VecDeque<ConnectionSlabKey>,
    /// Closed connections, in the order of closing.
    closed_connections: VecDeque<ConnectionParametersSnapshot>,
}

impl ClosedConnectionReportQueue {
    /// Returns the next closed connection that has carried RPC.
    pub(super) fn next_closed(&mut self, connections: &ConnectionTable) -> Option<ConnectionParametersSnapshot> {
        for _ in 0..self.ending_connections.len().min(MAX_CHECKED) {
            let Some(key) = self.ending_connections.pop_front() else { break };
            // `record_closed` handles connections that were removed.
            let Some(connection) = connections.get_by_key(key) else { continue };
            // The connection continued after a stray FIN or RST.
            if !connection.is_ending {
                continue;
            }
            match connection.conversation.transaction_keys().next() {
                Some(_) => self.ending_connections.push_back(key),
                None => self.closed_connections.extend(connection.state()),
            }
        }
        self.closed_connections.pop_front()
    }

    /// Records that the end of a connection was seen.
    pub(super) fn record_end(&mut self, key: ConnectionSlabKey) {
        self.ending_connections.push_back(key);
    }

    /// Records that a connection is about to be removed.
    pub(super) fn record_closed(&mut self, connection: &FlowConnection) {
        if !connection.continues_as_mpa {
            self.closed_connections.extend(connection.state());
        }
    }
}
