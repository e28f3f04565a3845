//! Credits: the limit of Calls in flight in version 1, and of messages sent in version 2.

use crate::frame::Timestamp;

/// Credits of one side for its Calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credits {
    /// Grant in the last Reply; 0 before the first.
    pub(super) granted: u32,
    /// Time since when all granted credits are in use.
    pub(super) full_since: Option<Timestamp>,
}

impl Credits {
    /// Updates the number of Calls in flight.
    pub(super) fn note(&mut self, in_flight: u32, time: Timestamp) {
        if self.granted > 0 && in_flight >= self.granted {
            self.full_since.get_or_insert(time);
        } else {
            self.full_since = None;
        }
    }
}

/// Credits of one side of a connection for its messages in version 2. draft-ietf-nfsv4-rpcrdma-version-two section
/// 4.2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCredits {
    /// Number of messages seen, modulo 2^32; each counts once.
    pub sent: u32,
    /// Number of messages that the side may send in all since the connection began, modulo 2^32, from the peer's latest
    /// grant; `None` before the first.
    pub limit: Option<u32>,
    /// Minimum of messages that the side could still send after each message; negative if it exceeded the limit. `None`
    /// before the first grant, and if the start of the connection was not captured, so that the number of sent messages
    /// is unknown.
    pub least_left: Option<i32>,
}

impl MessageCredits {
    /// Counts a message that the side sends.
    pub(super) fn send(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        if let Some(limit) = self.limit {
            let left = limit.wrapping_sub(self.sent).cast_signed();
            self.least_left = Some(self.least_left.map_or(left, |least| least.min(left)));
        }
    }

    /// Merges the credits of two parts of one connection; the limit of `other` takes precedence.
    pub(super) fn join(self, other: Self) -> Self {
        Self { sent: self.sent.wrapping_add(other.sent), limit: other.limit.or(self.limit), least_left: None }
    }
}
