//! Credits: the limit of Calls in flight in version 1, and of messages sent in version 2.

use nfsrdma_dissectors::captured_frame::Timestamp;

use crate::transaction_slab_key::TransactionSlabKey;

/// Credits of one side for its Calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequesterCreditState {
    /// Grant in the last Reply that had one; 0 before the first.
    granted_credits: u32,
    /// Grant in the Reply before it.
    previous_grant: Option<u32>,
    /// `true` after the first grant.
    has_grant: bool,
    /// `true` if a grant was known when a Call was last captured with no other in flight, and the side had received it:
    /// near the Responder, Calls are captured that were sent before.
    pub(super) has_grant_when_idle: bool,
    /// The Transaction of the last Reply.
    pub(super) last_reply: TransactionSlabKey,
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
    /// Calls that the last grant permits: one for a grant of 0, which no Responder may send (RFC 8166 section 3.3.1).
    /// `None` before the first.
    pub limit: Option<u32>,
    /// Since when as many calls have no reply as were granted.
    pub exhausted_since: Option<Timestamp>,
    /// Until when this time is in `CallCreditUse::at_limit_ns` of replies.
    pub counted_until: Timestamp,
}

impl CreditsInUse {
    /// Returns since when all credits are in use, without the time that is counted in replies.
    pub fn uncounted_since(&self) -> Option<Timestamp> {
        self.exhausted_since.map(|since| since.max(self.counted_until))
    }

    /// Adds those of another part of the same connection.
    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            in_flight: self.in_flight + other.in_flight,
            since: self.since.max(other.since),
            limit: self.limit.or(other.limit),
            exhausted_since: self.exhausted_since.or(other.exhausted_since),
            counted_until: self.counted_until.max(other.counted_until),
        }
    }
}

impl RequesterCreditState {
    pub(super) fn record_grant(&mut self, granted_credits: u32) {
        self.previous_grant = self.has_grant.then_some(self.granted_credits);
        (self.granted_credits, self.has_grant) = (granted_credits, true);
    }

    /// Records a Call with which no other one is in flight. `is_received` says if the side had received the last Reply.
    pub(super) fn record_idle(&mut self, losses: u64, gaps: u64, is_received: bool) {
        (self.losses_when_idle, self.gaps_when_idle) = (losses, gaps);
        self.has_grant_when_idle = self.has_grant && is_received;
    }

    /// Returns the larger of the last two grants; `None` before the first. A grant of 0 permits one call.
    pub(super) fn limit(&self) -> Option<u32> {
        self.has_grant.then(|| self.granted_credits.max(self.previous_grant.unwrap_or(0)))
    }

    /// Counts the time until a Reply during which all credits were in use, and returns it in nanoseconds.
    pub(super) fn count_exhausted(&mut self, now: Timestamp) -> u64 {
        let since = self.in_use.uncounted_since();
        self.in_use.counted_until = self.in_use.counted_until.max(now);
        since.and_then(|since| now.nanoseconds_since(since)).unwrap_or(0)
    }

    /// Updates the number of Calls in flight.
    pub(super) fn set_in_flight(&mut self, in_flight: u32, time: Timestamp) {
        let limit = self.has_grant.then_some(self.granted_credits.max(1));
        let is_exhausted = limit.is_some_and(|limit| in_flight >= limit);
        let since = self.in_use.exhausted_since;
        self.in_use = CreditsInUse {
            in_flight,
            since: Some(time),
            limit,
            exhausted_since: is_exhausted.then(|| since.unwrap_or(time)),
            ..self.in_use
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

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8166 section 3.3.1: all credits are in use from the fourth call on, although the grant falls from 4 to 2.
    #[test]
    fn lowered_grant_keeps_exhaustion() {
        let mut credits = RequesterCreditState::default();
        credits.record_grant(4);
        credits.set_in_flight(4, Timestamp(10));
        assert_eq!(credits.count_exhausted(Timestamp(30)), 20);
        credits.record_grant(2);
        credits.set_in_flight(3, Timestamp(30));
        assert_eq!(credits.in_use.exhausted_since, Some(Timestamp(10)));
        assert_eq!(credits.in_use.uncounted_since(), Some(Timestamp(30)));
        assert_eq!(credits.count_exhausted(Timestamp(35)), 5);
        credits.set_in_flight(1, Timestamp(35));
        assert_eq!((credits.in_use.exhausted_since, credits.count_exhausted(Timestamp(40))), (None, 0));
    }

    /// RFC 8166 section 3.3.1: a grant of 0 would be a deadlock; a client may send one call.
    #[test]
    fn zero_grant_permits_one_call() {
        let mut credits = RequesterCreditState::default();
        credits.record_grant(16);
        credits.record_grant(0);
        credits.set_in_flight(1, Timestamp(10));
        assert_eq!((credits.in_use.limit, credits.in_use.exhausted_since), (Some(1), Some(Timestamp(10))));
    }
}
