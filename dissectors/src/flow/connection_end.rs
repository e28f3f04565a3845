//! Reports of closed connections.
//!
//! A connection is closed when the flow removes it, because another one replaced it or because there were too many. A
//! connection whose end was seen (a FIN or RST of TCP, or a DREQ of the connection manager) is closed as soon as none
//! of its Transactions is open or lingering. If it carries another Transaction after that, it is reported again.

use std::collections::VecDeque;

use super::Flow;
use super::connection::{ConnectionKey, ConnectionState};

/// Number of ending connections that each call of [`Flow::next_closed`] checks, in rotation.
const LOOKED_AT: usize = 4;

/// Connections that are closed or ending.
#[derive(Debug, Default)]
pub(super) struct ClosingConnections {
    /// Connections whose end was seen.
    ending: VecDeque<ConnectionKey>,
    /// Closed connections, in the order of closing.
    closed: VecDeque<ConnectionState>,
}

impl Flow {
    /// Returns the next closed connection that has carried RPC, if
    /// [`FlowLimits::note_closed`](super::FlowLimits::note_closed) is set. All of its Transactions were emitted before.
    pub fn next_closed(&mut self) -> Option<ConnectionState> {
        for _ in 0..self.closing.ending.len().min(LOOKED_AT) {
            let Some(key) = self.closing.ending.pop_front() else { break };
            // `note_closed` handles connections that were removed.
            let Some(connection) = self.connections.of(key) else { continue };
            match connection.exchange.keys().next() {
                Some(_) => self.closing.ending.push_back(key),
                None => self.closing.closed.extend(connection.state()),
            }
        }
        self.closing.closed.pop_front()
    }

    /// Records that the end of a connection was seen.
    pub(super) fn note_ending(&mut self, key: ConnectionKey) {
        let Some(connection) = self.connections.of_mut(key) else { return };
        if !std::mem::replace(&mut connection.is_ending, true) && self.limits.note_closed {
            self.closing.ending.push_back(key);
        }
    }

    /// Records that a connection is about to be removed.
    pub(super) fn note_closed(&mut self, at: usize) {
        if self.limits.note_closed {
            let connection = self.connections.get(at).filter(|connection| !connection.has_next_phase);
            self.closing.closed.extend(connection.and_then(|connection| connection.state()));
        }
    }
}
