//! Sets of byte ranges of a file.

use rangemap::RangeSet;

/// Approximate memory per range in bytes: its bounds, in a node of a B-tree that is two thirds full.
const RANGE_BYTES: usize = 32;
/// Memory of a node of the B-tree in bytes: 11 ranges and a header. The least that a set needs that is not empty.
const NODE_BYTES: usize = 192;

/// Disjoint ranges in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayByteRangeSet {
    ranges: RangeSet<u64>,
}

impl ReplayByteRangeSet {
    /// Adds a range, and calls `on_new_range` for each part that was not in the set. At most `max_ranges` ranges are
    /// kept: above that, the ranges closest to each other are merged, and the bytes between them count as added.
    /// Returns `true` if this happened, so that bytes will be missed.
    pub(crate) fn add(
        &mut self,
        from: u64,
        to: u64,
        max_ranges: usize,
        mut on_new_range: impl FnMut(u64, u64),
    ) -> bool {
        if from >= to {
            return false;
        }
        self.gaps(from, to).into_iter().for_each(|(from, to)| on_new_range(from, to));
        self.ranges.insert(from..to);
        let is_full = self.ranges.len() > max_ranges;
        if is_full {
            self.merge_nearest(max_ranges / 2);
        }
        is_full
    }

    pub(crate) fn remove(&mut self, from: u64, to: u64) {
        if from < to {
            self.ranges.remove(from..to);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|range| (range.start, range.end))
    }

    /// Returns the parts of a range that are not in the set.
    pub(crate) fn gaps(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        if from >= to {
            return Vec::new();
        }
        self.ranges.gaps(&(from..to)).map(|gap| (gap.start, gap.end)).collect()
    }

    /// Closes the smallest gaps until at most `max_ranges` ranges remain.
    fn merge_nearest(&mut self, max_ranges: usize) {
        let (Some(first), Some(last)) = (self.ranges.first(), self.ranges.last()) else { return };
        let gaps: Vec<_> = self.ranges.gaps(&(first.start..last.end)).collect();
        let mut lengths: Vec<u64> = gaps.iter().map(|gap| gap.end - gap.start).collect();
        let excess = self.ranges.len().saturating_sub(max_ranges.max(1));
        let Some(last) = excess.checked_sub(1).filter(|last| *last < lengths.len()) else { return };
        let widest = *lengths.select_nth_unstable(last).1;
        self.ranges.extend(gaps.into_iter().filter(|gap| gap.end - gap.start <= widest));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { (self.ranges.len() * RANGE_BYTES).max(NODE_BYTES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(ranges: &mut ReplayByteRangeSet, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut new = Vec::new();
        ranges.add(from, to, usize::MAX, |from, to| new.push((from, to)));
        new
    }

    #[test]
    fn a_range_read_before_is_not_new_again() {
        let mut ranges = ReplayByteRangeSet::default();
        assert_eq!(add(&mut ranges, 10, 20), [(10, 20)]);
        assert_eq!(add(&mut ranges, 30, 40), [(30, 40)]);
        assert_eq!(add(&mut ranges, 0, 50), [(0, 10), (20, 30), (40, 50)]);
        assert_eq!(add(&mut ranges, 0, 50), []);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 50)]);
    }

    #[test]
    fn above_the_limit_the_nearest_ranges_become_one() {
        let mut ranges = ReplayByteRangeSet::default();
        for (from, to) in [(0, 10), (12, 20), (100, 110), (113, 120)] {
            assert!(!ranges.add(from, to, 4, |_, _| {}));
        }
        assert!(ranges.add(1000, 1010, 4, |_, _| {}));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 120), (1000, 1010)]);
        assert_eq!(add(&mut ranges, 0, 200), [(120, 200)]);
    }

    proptest! {
        #[test]
        fn gaps_are_the_bytes_outside_all_ranges(
            pieces in prop::collection::vec((0..200_u64, 0..40_u64), 0..20), from in 0..250_u64, length in 0..50_u64
        ) {
            let mut ranges = ReplayByteRangeSet::default();
            for (from, length) in &pieces {
                ranges.add(*from, from + length, usize::MAX, |_, _| {});
            }
            let gaps = ranges.gaps(from, from + length);
            for at in 0..300 {
                let is_known = pieces.iter().any(|(from, length)| (*from..from + length).contains(&at));
                let is_asked = (from..from + length).contains(&at);
                let times = gaps.iter().filter(|(start, end)| (*start..*end).contains(&at)).count();
                prop_assert_eq!(times, usize::from(is_asked && !is_known));
            }
        }

        #[test]
        fn a_removed_range_is_a_gap(
            pieces in prop::collection::vec((0..200_u64, 0..40_u64), 0..20), from in 0..250_u64, length in 0..50_u64
        ) {
            let mut ranges = ReplayByteRangeSet::default();
            for (from, length) in &pieces {
                ranges.add(*from, from + length, usize::MAX, |_, _| {});
            }
            ranges.remove(from, from + length);
            for at in 0..300 {
                let is_known = pieces.iter().any(|(from, length)| (*from..from + length).contains(&at));
                let is_removed = (from..from + length).contains(&at);
                let times = ranges.iter().filter(|(start, end)| (*start..*end).contains(&at)).count();
                prop_assert_eq!(times, usize::from(is_known && !is_removed));
            }
        }

        #[test]
        fn each_byte_is_new_once(pieces in prop::collection::vec((0..200_u64, 0..40_u64), 0..60)) {
            let mut ranges = ReplayByteRangeSet::default();
            let mut additions = [0; 256];
            let mut asked = [false; 256];
            for (from, length) in pieces {
                ranges.add(from, from + length, usize::MAX, |from, to| (from..to).for_each(|at| additions[at as usize] += 1));
                (from..from + length).for_each(|at| asked[at as usize] = true);
            }
            for (additions, asked) in additions.iter().zip(asked) {
                prop_assert_eq!(*additions, i32::from(asked));
            }
        }
    }
}
