//! Sets of byte ranges, in which each byte counts once.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of byte ranges. Data nearly always arrives in order, so the first range is stored inline. Further ranges,
/// caused by loss and reordering, are allocated on demand; there may be very many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteRangeSet {
    first_range: Range<u64>,
    /// End of each later range by its start: disjoint and not adjacent. `None` if there are none.
    #[expect(clippy::box_collection, reason = "an empty map would make every segment 16 bytes larger")]
    later_ranges: Option<Box<BTreeMap<u64, u64>>>,
}

/// Memory per additional range in bytes: two words in a node of a B-tree that is two thirds full.
const RANGE_BYTES: usize = 32;

impl ByteRangeSet {
    /// Adds bytes.
    #[inline]
    pub fn add(&mut self, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        if self.first_range.is_empty() {
            self.first_range = bytes;
        } else if self.later_ranges.is_none()
            && bytes.start >= self.first_range.start
            && bytes.start <= self.first_range.end
        {
            self.first_range.end = self.first_range.end.max(bytes.end);
        } else {
            self.add_out_of_order(bytes);
        }
    }

    #[cold]
    fn add_out_of_order(&mut self, bytes: Range<u64>) {
        let later_ranges = self.later_ranges.get_or_insert_default();
        if let Some(mut last) = later_ranges.last_entry()
            && (*last.key()..=*last.get()).contains(&bytes.start)
        {
            *last.get_mut() = bytes.end.max(*last.get());
            return;
        }
        let Range { mut start, mut end } = bytes;
        later_ranges.insert(self.first_range.start, self.first_range.end);
        while let Some((previous_start, previous_end)) =
            later_ranges.range(..=end).next_back().map(|(from, to)| (*from, *to))
            && previous_end >= start
        {
            later_ranges.remove(&previous_start);
            (start, end) = (start.min(previous_start), end.max(previous_end));
        }
        later_ranges.insert(start, end);
        if let Some((start, end)) = later_ranges.pop_first() {
            self.first_range = start..end;
        }
        if later_ranges.is_empty() {
            self.later_ranges = None;
        }
    }

    /// Returns `true` if the bytes can be added without another range, because they touch an existing one.
    pub fn touches(&self, bytes: &Range<u64>) -> bool {
        let touches = |range: &Range<u64>| range.start <= bytes.end && bytes.start <= range.end;
        let candidate = self.later_ranges.iter().filter_map(|ranges| ranges.range(..=bytes.end).next_back());
        self.first_range.is_empty()
            || touches(&self.first_range)
            || candidate.map(|(from, to)| *from..*to).any(|range| touches(&range))
    }

    /// Returns the heap memory of the ranges, in bytes.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.later_ranges.as_ref().map_or(0, |ranges| ranges.len() * RANGE_BYTES)
    }

    /// Returns `true` if a byte is in the set.
    pub(crate) fn contains(&self, at: u64) -> bool {
        self.parts_of(at..at.saturating_add(1)).next().is_some()
    }

    /// Iterates over the parts of a range that are in the set.
    pub(crate) fn parts_of(&self, bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let later_ranges = self.later_ranges.iter().flat_map({
            let bytes = bytes.clone();
            move |ranges| {
                let preceding = ranges.range(..bytes.start).next_back();
                preceding.into_iter().chain(ranges.range(bytes.clone())).map(|(start, end)| *start..*end)
            }
        });
        let ranges = std::iter::once(self.first_range.clone()).chain(later_ranges);
        let parts = ranges.map(move |range| range.start.max(bytes.start)..range.end.min(bytes.end));
        parts.filter(|part| !part.is_empty())
    }

    fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let later_ranges = self.later_ranges.iter().flat_map(|ranges| ranges.iter()).map(|(start, end)| *start..*end);
        std::iter::once(self.first_range.clone()).chain(later_ranges)
    }

    /// Returns the number of bytes in the set.
    pub fn total_bytes(&self) -> u64 {
        self.ranges().map(|range| range.end - range.start).sum()
    }

    /// Returns the end of the last range; 0 without one.
    pub fn end(&self) -> u64 {
        self.ranges().map(|range| range.end).max().unwrap_or(0)
    }

    /// Returns the number of contiguous bytes from 0.
    pub fn prefix_bytes(&self) -> u64 {
        if self.first_range.start == 0 { self.first_range.end } else { 0 }
    }

    /// Returns the ranges below `end` that are not in the set, in order.
    pub fn missing_ranges(&self, end: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut from = 0;
        let end_mark = end..end;
        self.ranges().filter(|range| !range.is_empty()).chain(std::iter::once(end_mark)).filter_map(move |range| {
            let gap = from..range.start.min(end);
            from = range.end;
            (!gap.is_empty()).then_some(gap)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn retransmitted_bytes_count_once() {
        let mut coverage = ByteRangeSet::default();
        for bytes in [0..1024, 1024..2048, 1024..2048, 0..1024] {
            coverage.add(bytes);
        }
        assert_eq!((coverage.total_bytes(), coverage.prefix_bytes()), (2048, 2048));
    }

    #[test]
    fn a_lost_packet_is_a_gap_until_it_is_sent_again() {
        let mut coverage = ByteRangeSet::default();
        coverage.add(0..10);
        coverage.add(20..30);
        assert_eq!(coverage.missing_ranges(40).collect::<Vec<_>>(), [10..20, 30..40]);
        assert_eq!(coverage.prefix_bytes(), 10);
        coverage.add(10..20);
        assert_eq!(coverage.missing_ranges(30).count(), 0);
    }

    #[test]
    fn without_bytes_the_whole_range_is_missing() {
        assert!(ByteRangeSet::default().missing_ranges(7).eq(std::iter::once(0..7)));
    }

    proptest! {
        #[test]
        fn coverage_agrees_with_a_bitmap(ranges in prop::collection::vec((0u64..64, 0u64..16), 0..20)) {
            let mut coverage = ByteRangeSet::default();
            let mut bitmap = [false; 80];
            for (start, length) in ranges {
                let (touches, before) = (coverage.touches(&(start..start + length)), coverage.heap_bytes());
                coverage.add(start..start + length);
                prop_assert!(!touches || coverage.heap_bytes() <= before);
                bitmap[start as usize..(start + length) as usize].fill(true);
            }
            prop_assert_eq!(coverage.total_bytes(), bitmap.iter().filter(|bit| **bit).count() as u64);
            prop_assert_eq!(coverage.prefix_bytes(), bitmap.iter().take_while(|bit| **bit).count() as u64);
            let mut missing = [false; 80];
            for gap in coverage.missing_ranges(80) {
                missing[gap.start as usize..gap.end as usize].fill(true);
            }
            for at in 0..80 {
                prop_assert_eq!(coverage.contains(at), bitmap[at as usize]);
                let parts: u64 = coverage.parts_of(at..70.max(at)).map(|part| part.end - part.start).sum();
                let expected = bitmap.iter().take(70).skip(at as usize).filter(|bit| **bit).count();
                prop_assert_eq!(parts, expected as u64);
            }
            prop_assert!(bitmap.iter().zip(missing).all(|(seen, missing)| *seen != missing));
        }
    }
}
