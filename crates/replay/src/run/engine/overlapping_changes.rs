//! Steps that overlapped a change of files, in the capture or in the run. The sizes and link counts in their Replies
//! may be from before or after the change.

use nfsrdma_rpc::CallTag;

const MAX_OVERLAPPING: usize = 1 << 12;

/// Steps that were in flight in the capture when the last step was sent.
#[derive(Debug, Default)]
pub(super) struct CapturedStepOverlaps {
    /// Captured reply time, window index and turn of each step.
    open: Vec<(u64, u32, u64)>,
    /// Latest captured reply time of the changes so far.
    latest_change_end_ns: u64,
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
        let is_racing = start < self.latest_change_end_ns;
        if is_change {
            self.latest_change_end_ns = self.latest_change_end_ns.max(end);
        }
        if end > start && self.open.len() < MAX_OVERLAPPING {
            self.open.push((end, window_index, turn));
        }
        is_racing
    }
}

/// Maximum number of objects of a step that are compared; a step with more may use any.
const MAX_OBJECTS: usize = 6;

/// The objects whose attributes a step may read or change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObjectsOfStep {
    /// Numbers of the objects; the first `count` are valid.
    numbers: [u32; MAX_OBJECTS],
    count: usize,
    /// `true` if it may use objects that are not known.
    has_unknown: bool,
}

impl ObjectsOfStep {
    /// Returns the objects with these numbers. With `has_unknown`, there may be any others.
    pub(super) fn new(numbers: impl Iterator<Item = u32>, has_unknown: bool) -> Self {
        let mut objects = Self { has_unknown, ..Self::default() };
        for number in numbers {
            if objects.known().contains(&number) {
                continue;
            }
            match objects.numbers.get_mut(objects.count) {
                Some(free) => (*free, objects.count) = (number, objects.count + 1),
                None => objects.has_unknown = true,
            }
        }
        objects
    }

    fn known(&self) -> &[u32] {
        self.numbers.get(..self.count).unwrap_or_default()
    }

    fn may_share(&self, other: &Self) -> bool {
        self.has_unknown || other.has_unknown || self.known().iter().any(|number| other.known().contains(number))
    }
}

/// Steps in flight in the run. Those that overlap a change of one of their objects prove no order.
#[derive(Debug, Default)]
pub(super) struct LiveFileChangeOverlaps {
    in_flight: Vec<FileStepInFlight>,
}

#[derive(Debug)]
struct FileStepInFlight {
    tag: CallTag,
    is_change: bool,
    objects: ObjectsOfStep,
}

impl LiveFileChangeOverlaps {
    /// Adds a step that is sent. If it changes files, calls `mark` for each step in flight that may use the same
    /// objects. Returns `true` if a change of one of its objects is in flight. `is_flying` returns `true` for steps
    /// still in flight.
    pub(super) fn admit(
        &mut self,
        (tag, is_change): (CallTag, bool),
        objects: ObjectsOfStep,
        is_flying: impl Fn(CallTag) -> bool,
        mut mark: impl FnMut(CallTag),
    ) -> bool {
        self.in_flight.retain(|other| is_flying(other.tag));
        let mut overlaps_change = false;
        for other in &self.in_flight {
            if (is_change || other.is_change) && objects.may_share(&other.objects) {
                if is_change {
                    mark(other.tag);
                }
                overlaps_change |= other.is_change;
            }
        }
        if self.in_flight.len() < MAX_OVERLAPPING {
            self.in_flight.push(FileStepInFlight { tag, is_change, objects });
        }
        overlaps_change
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
    fn steps_that_overlap_no_change_are_certain() {
        assert_eq!(racing(&[(0, 9, false), (1, 8, false), (10, 12, true)]), [false, false, false]);
    }

    #[test]
    fn a_change_makes_steps_begun_before_its_end_uncertain() {
        assert_eq!(
            racing(&[(0, 9, false), (1, 2, false), (3, 6, true), (5, 8, false), (6, 8, false)]),
            [true, false, false, true, false]
        );
    }

    #[test]
    fn in_the_run_a_change_makes_uncertain_only_steps_that_may_use_its_objects() {
        let objects = |numbers: &[u32]| ObjectsOfStep::new(numbers.iter().copied(), false);
        let (unknown, many) = (ObjectsOfStep::new([].into_iter(), true), objects(&[1, 2, 3, 4, 5, 6, 7]));
        let mut overlaps = LiveFileChangeOverlaps::default();
        let mut admit = |tag, is_change, objects| {
            let mut marked = Vec::new();
            let is_marked = overlaps.admit((CallTag(tag), is_change), objects, |_| true, |tag| marked.push(tag.0));
            (is_marked, marked)
        };
        assert_eq!(admit(1, false, objects(&[1, 2])), (false, vec![]));
        assert_eq!(admit(2, true, objects(&[3, 3])), (false, vec![]));
        assert_eq!(admit(3, true, objects(&[2, 4])), (false, vec![1]));
        assert_eq!(admit(4, false, objects(&[3])), (true, vec![]));
        assert_eq!(admit(5, false, objects(&[5])), (false, vec![]));
        assert_eq!(admit(6, false, unknown), (true, vec![]));
        assert_eq!(admit(7, true, objects(&[9])), (false, vec![6]));
        assert_eq!(admit(8, true, many), (true, vec![1, 2, 3, 4, 5, 6, 7]));
    }
}
