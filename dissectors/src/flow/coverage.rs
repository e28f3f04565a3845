//! Which bytes of a range have been seen, each counted once.

use std::ops::Range;

/// A set of byte ranges. Data arrives in order nearly always, so the first range stands in place and the others, which
/// loss and reordering make, are allocated only when there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    first: Range<u64>,
    /// Later ranges: sorted, disjoint, not touching each other.
    others: Vec<Range<u64>>,
}

impl Coverage {
    /// Marks bytes as seen.
    #[inline]
    pub fn add(&mut self, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        if self.first.is_empty() {
            self.first = bytes;
        } else if self.others.is_empty() && bytes.start >= self.first.start && bytes.start <= self.first.end {
            self.first.end = self.first.end.max(bytes.end);
        } else {
            self.add_out_of_order(bytes);
        }
    }

    #[cold]
    fn add_out_of_order(&mut self, bytes: Range<u64>) {
        if bytes.end < self.first.start {
            let first = std::mem::replace(&mut self.first, bytes);
            self.others.insert(0, first);
        } else if bytes.start > self.first.end {
            let from = self.others.partition_point(|range| range.end < bytes.start);
            let to = self.others.partition_point(|range| range.start <= bytes.end);
            let touched = self.others.get(from..to).unwrap_or_default();
            let start = touched.first().map_or(bytes.start, |range| range.start.min(bytes.start));
            let end = touched.last().map_or(bytes.end, |range| range.end.max(bytes.end));
            self.others.splice(from..to, [start..end]);
        } else {
            let end = self.first.end.max(bytes.end);
            self.first = self.first.start.min(bytes.start)..end;
            let to = self.others.partition_point(|range| range.start <= end);
            for range in self.others.drain(..to) {
                self.first.end = self.first.end.max(range.end);
            }
        }
    }

    /// How many bytes were seen.
    pub fn seen(&self) -> u64 {
        let length = |range: &Range<u64>| range.end - range.start;
        length(&self.first) + self.others.iter().map(length).sum::<u64>()
    }

    /// How many bytes from 0 on were seen without a gap.
    pub fn prefix(&self) -> u64 {
        if self.first.start == 0 { self.first.end } else { 0 }
    }

    /// The ranges below `end` that were not seen, in order.
    pub fn missing(&self, end: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut from = 0;
        let end_mark = end..end;
        std::iter::once(self.first.clone())
            .chain(self.others.iter().cloned())
            .filter(|range| !range.is_empty())
            .chain(std::iter::once(end_mark))
            .filter_map(move |range| {
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
        let mut coverage = Coverage::default();
        for bytes in [0..1024, 1024..2048, 1024..2048, 0..1024] {
            coverage.add(bytes);
        }
        assert_eq!((coverage.seen(), coverage.prefix()), (2048, 2048));
    }

    #[test]
    fn a_lost_packet_is_a_gap_until_it_is_sent_again() {
        let mut coverage = Coverage::default();
        coverage.add(0..10);
        coverage.add(20..30);
        assert_eq!(coverage.missing(40).collect::<Vec<_>>(), [10..20, 30..40]);
        assert_eq!(coverage.prefix(), 10);
        coverage.add(10..20);
        assert_eq!(coverage.missing(30).count(), 0);
    }

    #[test]
    fn nothing_seen_is_all_missing() {
        assert_eq!(Coverage::default().missing(7).collect::<Vec<_>>(), [0..7]);
    }

    proptest! {
        #[test]
        fn coverage_agrees_with_a_bitmap(ranges in prop::collection::vec((0u64..64, 0u64..16), 0..20)) {
            let mut coverage = Coverage::default();
            let mut bitmap = [false; 80];
            for (start, length) in ranges {
                coverage.add(start..start + length);
                bitmap[start as usize..(start + length) as usize].fill(true);
            }
            prop_assert_eq!(coverage.seen(), bitmap.iter().filter(|bit| **bit).count() as u64);
            prop_assert_eq!(coverage.prefix(), bitmap.iter().take_while(|bit| **bit).count() as u64);
            let mut missing = [false; 80];
            for gap in coverage.missing(80) {
                missing[gap.start as usize..gap.end as usize].fill(true);
            }
            prop_assert!(bitmap.iter().zip(missing).all(|(seen, missing)| *seen != missing));
        }
    }
}
