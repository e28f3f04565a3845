//! Queue of steps that are ready to be sent: those due now in trace order, the others by due time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct ReadyStepQueue {
    now: BinaryHeap<Reverse<(u64, u32)>>,
    later: BinaryHeap<Reverse<(Instant, u64, u32)>>,
}

impl ReadyStepQueue {
    /// Adds a step that is due at this time, or at once.
    pub(super) fn push(&mut self, turn: u64, window_index: u32, due: Option<Instant>) {
        match due {
            Some(due) => self.later.push(Reverse((due, turn, window_index))),
            None => self.now.push(Reverse((turn, window_index))),
        }
    }

    /// Removes and returns the next step that is due. Needs the time only if some steps are due later.
    pub(super) fn pop(&mut self, now: impl FnOnce() -> Instant) -> Option<u32> {
        if !self.later.is_empty() {
            let now = now();
            while let Some(Reverse((due, turn, window_index))) = self.later.peek().copied() {
                if due > now {
                    break;
                }
                self.later.pop();
                self.now.push(Reverse((turn, window_index)));
            }
        }
        self.now.pop().map(|Reverse((_, window_index))| window_index)
    }

    /// Returns the due time of the next step, if none is due now.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.later.peek().map(|Reverse((due, ..))| *due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn steps_that_are_due_go_in_the_order_of_the_trace_and_others_when_they_are() {
        let mut queue = ReadyStepQueue::default();
        let now = Instant::now();
        queue.push(3, 30, None);
        queue.push(2, 20, Some(now));
        queue.push(1, 10, Some(now + Duration::from_secs(3600)));
        assert_eq!([0; 3].map(|_| queue.pop(|| now)), [Some(20), Some(30), None]);
        let hour = Duration::from_secs(3600);
        assert_eq!(queue.next_due(), Some(now + hour));
        assert_eq!(queue.pop(|| now + hour), Some(10));
        assert_eq!(queue.pop(|| unreachable!("no step is due later")), None);
    }
}
