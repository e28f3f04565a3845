//! Lower bound of a value that never decreases: the greatest value in a Reply that arrived before a Call was sent. It
//! needs neither the captured order of steps nor the absence of overlaps.

use std::time::Instant;

#[derive(Clone, Copy, Debug)]
struct ReceivedValue {
    values: [u128; 2],
    received: Instant,
    /// Turn of the step before whose execution the object had the value, as its Reply states.
    before_turn: Option<u64>,
}

/// The step whose Reply has a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepReplyTiming {
    pub(super) turn: u64,
    pub(super) sent: Instant,
    pub(super) received: Instant,
    /// `true` for the value before its execution: `before` of change_info4, pre_op_attr.
    pub(super) is_before: bool,
}

/// The greatest live value, and the one before, which bounds Calls sent before the greatest arrived.
#[derive(Debug, Default)]
pub(super) struct AttributeValueLowerBound {
    greatest: Option<ReceivedValue>,
    earlier: Option<ReceivedValue>,
}

impl AttributeValueLowerBound {
    /// Returns the recorded and the live value below which no live value in this Reply may be.
    pub(super) fn before(&self, reply: StepReplyTiming) -> Option<[u128; 2]> {
        let received_values = [self.greatest, self.earlier].into_iter().flatten();
        let is_earlier = |value: &ReceivedValue| {
            value.received < reply.sent || !reply.is_before && value.before_turn == Some(reply.turn)
        };
        received_values.into_iter().find(is_earlier).map(|value| value.values)
    }

    pub(super) fn record(&mut self, values: [u128; 2], reply: StepReplyTiming) {
        if self.greatest.is_none_or(|greatest| values[1] > greatest.values[1]) {
            let before_turn = reply.is_before.then_some(reply.turn);
            self.earlier = self.greatest.replace(ReceivedValue { values, received: reply.received, before_turn });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn floors(floor: &AttributeValueLowerBound, start: Instant, sent: &[u64]) -> Vec<Option<u128>> {
        let reply = |sent| {
            let sent = start + Duration::from_millis(sent);
            StepReplyTiming { turn: 99, sent, received: sent, is_before: false }
        };
        sent.iter().map(|sent| floor.before(reply(*sent)).map(|values| values[1])).collect()
    }

    #[test]
    fn a_call_is_bounded_by_values_received_before_it_was_sent() {
        let start = Instant::now();
        let reply = |turn, ms| StepReplyTiming {
            turn,
            sent: start,
            received: start + Duration::from_millis(ms),
            is_before: false,
        };
        let mut floor = AttributeValueLowerBound::default();
        assert_eq!(floors(&floor, start, &[0]), [None]);
        floor.record([1, 10], reply(1, 5));
        assert_eq!(floors(&floor, start, &[5, 6]), [None, Some(10)]);
        floor.record([2, 20], reply(2, 8));
        floor.record([3, 15], reply(3, 9));
        assert_eq!(floors(&floor, start, &[5, 6, 8, 9]), [None, Some(10), Some(10), Some(20)]);
    }

    #[test]
    fn a_value_after_an_operation_is_bounded_by_the_one_before_it() {
        let now = Instant::now();
        let reply = |turn, is_before| StepReplyTiming { turn, sent: now, received: now, is_before };
        let mut floor = AttributeValueLowerBound::default();
        floor.record([1, 10], reply(1, true));
        assert_eq!(floor.before(reply(1, true)), None);
        assert_eq!(floor.before(reply(1, false)), Some([1, 10]));
        assert_eq!(floor.before(reply(2, false)), None);
    }
}
