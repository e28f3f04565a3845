//! Credits: the limit of Calls in flight in version 1, and of messages sent in version 2.

use nfsrdma_dissectors::captured_frame::Timestamp;

/// Credits of one side for its Calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequesterCreditState {
    /// Grant in the last Reply; 0 before the first.
    granted_credits: u32,
    /// Grant in the Reply before it.
    previous_grant: Option<u32>,
    /// `true` after the first Reply.
    has_grant: bool,
    pub(super) call_count: u64,
    /// Number of losses of the conversation when no Call was in flight for the last time.
    pub(super) losses_when_idle: u64,
    /// Number of gaps in the capture at that time.
    pub(super) gaps_when_idle: u64,
    /// Calls without a reply.
    pub(super) in_use: CreditsInUse,
}

/// Credits of one side that its calls without a reply use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditsInUse {
    /// Number of calls without a reply, after the last call or reply.
    pub in_flight: u32,
    /// Time of the last call or reply.
    pub since: Option<Timestamp>,
    /// Grant of the last reply; `None` before the first.
    pub granted: Option<u32>,
    /// Since when as many calls have no reply as were granted.
    pub exhausted_since: Option<Timestamp>,
}

impl CreditsInUse {
    /// Adds those of another part of the same connection.
    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            in_flight: self.in_flight + other.in_flight,
            since: self.since.max(other.since),
            granted: self.granted.or(other.granted),
            exhausted_since: self.exhausted_since.or(other.exhausted_since),
        }
    }
}

impl RequesterCreditState {
    pub(super) fn record_grant(&mut self, granted_credits: u32) {
        self.previous_grant = self.has_grant.then_some(self.granted_credits);
        (self.granted_credits, self.has_grant) = (granted_credits, true);
    }

    /// Returns the larger of the last two grants; `None` before the first.
    pub(super) fn limit(&self) -> Option<u32> {
        self.has_grant.then(|| self.granted_credits.max(self.previous_grant.unwrap_or(0)))
    }

    /// Updates the number of Calls in flight.
    pub(super) fn set_in_flight(&mut self, in_flight: u32, time: Timestamp) {
        let exhausted_since = self.in_use.exhausted_since.take();
        let is_exhausted = self.granted_credits > 0 && in_flight >= self.granted_credits;
        self.in_use = CreditsInUse {
            in_flight,
            since: Some(time),
            granted: self.has_grant.then_some(self.granted_credits),
            exhausted_since: is_exhausted.then(|| exhausted_since.unwrap_or(time)),
        };
    }
}

/// Credits of one side of a connection for its messages in version 2. draft-ietf-nfsv4-rpcrdma-version-two section
/// 4.2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version2SendCredits {
    /// Number of messages seen, modulo 2^32; each counts once.
    pub sent_messages: u32,
    /// Number of messages that the side may send in all since the connection began, modulo 2^32, from the peer's latest
    /// grant; `None` before the first.
    pub send_limit: Option<u32>,
    /// Minimum of messages that the side could still send after each message; negative if it exceeded the limit. `None`
    /// before the first grant, and if the start of the connection was not captured, so that the number of sent messages
    /// is unknown.
    pub min_remaining: Option<i32>,
}

impl Version2SendCredits {
    /// Counts a message that the side sends.
    pub(super) fn count_sent(&mut self) {
        self.sent_messages = self.sent_messages.wrapping_add(1);
        if let Some(limit) = self.send_limit {
            let remaining = limit.wrapping_sub(self.sent_messages).cast_signed();
            self.min_remaining = Some(self.min_remaining.map_or(remaining, |min| min.min(remaining)));
        }
    }

    /// Merges the credits of two parts of one connection; the limit of `other` takes precedence.
    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            sent_messages: self.sent_messages.wrapping_add(other.sent_messages),
            send_limit: other.send_limit.or(self.send_limit),
            min_remaining: None,
        }
    }
}
