//! Steps that overlapped a change of files in the capture. The sizes and link counts in their Replies may be from
//! before or after the change.

use nfsrdma_rpc::CallTag;

/// Maximum number of overlapping steps that are tracked.
const MAX_OVERLAPPING: usize = 1 << 12;

/// Steps that were in flight in the capture when the last step was sent.
#[derive(Debug, Default)]
pub(super) struct CapturedStepOverlaps {
    /// Captured reply time, window index and turn of each step.
    open: Vec<(u64, u32, u64)>,
    /// Latest captured reply time of the changes so far.
    latest_change_end: u64,
}

impl CapturedStepOverlaps {
    /// Adds a step with its captured start and end times; steps are added in the order of their start. If the step
    /// changes files, calls `mark` for each earlier step that it overlaps. Returns `true` if it overlaps an earlier
    /// change.
    pub(super) fn admit(
        &mut self,
        (start, end): (u64, u64),
        is_change: bool,
        (window_index, turn): (u32, u64),
        mut mark: impl FnMut(u32, u64),
    ) -> bool {
        self.open.retain(|(end, ..)| *end > start);
        if is_change {
            self.open.iter().for_each(|(_, window_index, turn)| mark(*window_index, *turn));
        }
        let is_racing = start < self.latest_change_end;
        if is_change {
            self.latest_change_end = self.latest_change_end.max(end);
        }
        if end > start && self.open.len() < MAX_OVERLAPPING {
            self.open.push((end, window_index, turn));
        }
        is_racing
    }
}

/// Steps in flight in the run. Those that overlap a change of files prove no order.
#[derive(Debug, Default)]
pub(super) struct LiveFileChangeOverlaps {
    in_flight: Vec<(CallTag, bool)>,
}

impl LiveFileChangeOverlaps {
    /// Adds a step that is sent. If it changes files, calls `mark` for each step in flight. Returns `true` if a change
    /// is in flight. `is_flying` returns `true` for steps still in flight.
    pub(super) fn admit(
        &mut self,
        tag: CallTag,
        is_change: bool,
        is_flying: impl Fn(CallTag) -> bool,
        mut mark: impl FnMut(CallTag),
    ) -> bool {
        self.in_flight.retain(|(tag, _)| is_flying(*tag));
        if is_change {
            self.in_flight.iter().for_each(|(tag, _)| mark(*tag));
        }
        let is_crowded = self.in_flight.iter().any(|(_, is_change)| *is_change);
        if self.in_flight.len() < MAX_OVERLAPPING {
            self.in_flight.push((tag, is_change));
        }
        is_crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns, for each step (start, end, changes files), whether it overlaps a change.
    fn racing(steps: &[(u64, u64, bool)]) -> Vec<bool> {
        let (mut overlap, mut racing) = (CapturedStepOverlaps::default(), vec![false; steps.len()]);
        for (at, (start, end, is_change)) in steps.iter().enumerate() {
            let mut earlier = Vec::new();
            let is = overlap.admit((*start, *end), *is_change, (at as u32, at as u64), |window_index, _| {
                earlier.push(window_index)
            });
            racing[at] = is;
            earlier.into_iter().for_each(|window_index| racing[window_index as usize] = true);
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
