//! Which steps overlapped in the capture with one that changes files: what a Reply told there of sizes and links may be of
//! before the change, or of after it.

use crate::replay::transport::CallTag;

/// Steps that overlap at once which are remembered.
const DEPTH: usize = 1 << 12;

/// Steps that were not answered yet in the capture when the last one was sent there.
#[derive(Debug, Default)]
pub(super) struct CapturedConcurrency {
    /// When each was answered, its seat and its turn.
    open: Vec<(u64, u32, u64)>,
    /// When the last of the changes up to now was answered.
    changed: u64,
}

impl CapturedConcurrency {
    /// A step that was sent and answered at these times comes after all that were sent before it. Tells `mark` those of them
    /// that it overlaps with, if it changes files; and gives whether one of them that does overlaps with it.
    pub(super) fn admit(
        &mut self,
        (start, end): (u64, u64),
        is_change: bool,
        (seat, turn): (u32, u64),
        mut mark: impl FnMut(u32, u64),
    ) -> bool {
        self.open.retain(|(end, ..)| *end > start);
        if is_change {
            self.open.iter().for_each(|(_, seat, turn)| mark(*seat, *turn));
        }
        let is_racing = start < self.changed;
        if is_change {
            self.changed = self.changed.max(end);
        }
        if end > start && self.open.len() < DEPTH {
            self.open.push((end, seat, turn));
        }
        is_racing
    }
}

/// Steps in flight in the run: those that overlap with one that changes files prove no order.
#[derive(Debug, Default)]
pub(super) struct LiveConcurrency {
    flying: Vec<(CallTag, bool)>,
}

impl LiveConcurrency {
    /// A step is sent. Tells `mark` those in flight that it overlaps with, if it changes files; and gives whether one of them
    /// that does overlaps with it. `is_flying` says which are still in flight.
    pub(super) fn admit(
        &mut self,
        tag: CallTag,
        is_change: bool,
        is_flying: impl Fn(CallTag) -> bool,
        mut mark: impl FnMut(CallTag),
    ) -> bool {
        self.flying.retain(|(tag, _)| is_flying(*tag));
        if is_change {
            self.flying.iter().for_each(|(tag, _)| mark(*tag));
        }
        let is_crowded = self.flying.iter().any(|(_, is_change)| *is_change);
        if self.flying.len() < DEPTH {
            self.flying.push((tag, is_change));
        }
        is_crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these steps overlap with a change: from when to when, and whether it is one.
    fn racing(steps: &[(u64, u64, bool)]) -> Vec<bool> {
        let (mut overlap, mut racing) = (CapturedConcurrency::default(), vec![false; steps.len()]);
        for (at, (start, end, is_change)) in steps.iter().enumerate() {
            let mut earlier = Vec::new();
            let is = overlap
                .admit((*start, *end), *is_change, (at as u32, at as u64), |seat, _| earlier.push(seat));
            racing[at] = is;
            earlier.into_iter().for_each(|seat| racing[seat as usize] = true);
        }
        racing
    }

    #[test]
    fn what_overlaps_with_no_change_tells_what_is() {
        assert_eq!(racing(&[(0, 9, false), (1, 8, false), (10, 12, true)]), [false, false, false]);
    }

    #[test]
    fn a_change_makes_uncertain_what_began_before_it_and_what_began_before_its_end() {
        assert_eq!(
            racing(&[(0, 9, false), (1, 2, false), (3, 6, true), (5, 8, false), (6, 8, false)]),
            [true, false, false, true, false]
        );
    }
}
