//! Which connections are over, for those who tell of each as it closes.
//!
//! A connection is over when the flow takes it out: another took its place, or there were too many. One whose end was seen,
//! a FIN or a RST of TCP or a DREQ of the connection manager, is over as soon as none of its Transactions waits for anything;
//! should it carry one more after that, it is over again.

use std::collections::VecDeque;

use super::Flow;
use super::connection::{ConnectionKey, ConnectionState};

/// How many connections whose end was seen are looked at for a frame, in turn.
const LOOKED_AT: usize = 4;

/// Connections that are over or about to be.
#[derive(Debug, Default)]
pub(super) struct ClosingConnections {
    /// Those whose end was seen.
    ending: VecDeque<ConnectionKey>,
    /// Those that are over, in the order in which they closed.
    closed: VecDeque<ConnectionState>,
}

impl Flow {
    /// The next connection that is over and has carried RPC, if [`Limits::note_closed`](super::FlowLimits::note_closed) asks for
    /// it: all of its Transactions came before.
    pub fn next_closed(&mut self) -> Option<ConnectionState> {
        for _ in 0..self.closing.ending.len().min(LOOKED_AT) {
            let Some(key) = self.closing.ending.pop_front() else { break };
            // What was taken out is noted there.
            let Some(connection) = self.connections.of(key) else { continue };
            match connection.exchange.keys().next() {
                Some(_) => self.closing.ending.push_back(key),
                None => self.closing.closed.extend(connection.state()),
            }
        }
        self.closing.closed.pop_front()
    }

    /// The end of a connection was seen.
    pub(super) fn note_ending(&mut self, key: ConnectionKey) {
        let Some(connection) = self.connections.of_mut(key) else { return };
        if !std::mem::replace(&mut connection.is_ending, true) && self.limits.note_closed {
            self.closing.ending.push_back(key);
        }
    }

    /// A connection is about to be taken out.
    pub(super) fn note_closed(&mut self, at: usize) {
        if self.limits.note_closed {
            let connection = self.connections.get(at).filter(|connection| !connection.has_next_phase);
            self.closing.closed.extend(connection.and_then(|connection| connection.state()));
        }
    }
}
