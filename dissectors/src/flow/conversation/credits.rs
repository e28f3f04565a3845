//! Credits: how many Calls one side may have in flight in version 1, and how many messages it may send in version 2.

use crate::frame::Timestamp;

/// The credits that one side may use for its Calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credits {
    /// The grant of the last Reply; 0 before the first.
    pub(super) granted: u32,
    /// Since when as many Calls are in flight as were granted.
    pub(super) full_since: Option<Timestamp>,
}

impl Credits {
    /// Notes how many Calls are in flight from a moment on.
    pub(super) fn note(&mut self, in_flight: u32, time: Timestamp) {
        if self.granted > 0 && in_flight >= self.granted {
            self.full_since.get_or_insert(time);
        } else {
            self.full_since = None;
        }
    }
}

/// The credits that one side of a connection has for its messages in version 2. draft-ietf-nfsv4-rpcrdma-version-two section 4.2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCredits {
    /// Messages that it was seen to send, each once, modulo 2^32.
    pub sent: u32,
    /// The number of messages that it may have sent since the connection began, modulo 2^32, by the last word of its peer; `None`
    /// before that.
    pub limit: Option<u32>,
    /// The fewest messages that it could still send after one that it sent; negative where it sent more than it might. `None` before its
    /// peer told a limit, and where the beginning of the connection was not seen, so that nothing tells how many it had sent.
    pub least_left: Option<i32>,
}

impl MessageCredits {
    /// The side sends a message.
    pub(super) fn send(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        if let Some(limit) = self.limit {
            let left = limit.wrapping_sub(self.sent).cast_signed();
            self.least_left = Some(self.least_left.map_or(left, |least| least.min(left)));
        }
    }

    /// The credits of two parts of one connection together, `other` the later.
    pub(super) fn join(self, other: Self) -> Self {
        Self { sent: self.sent.wrapping_add(other.sent), limit: other.limit.or(self.limit), least_left: None }
    }
}
