//! Which bytes of a file are accounted for.

/// Ranges that are remembered apart; where there are more, those that are nearest to each other become one, and what lies
/// between them counts as accounted for.
const MOST: usize = 64;

/// Ranges in ascending order, apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    ranges: Vec<(u64, u64)>,
}

impl Ranges {
    /// Tells which parts of a range were not accounted for, and accounts for all of it. `true` where ranges had to be
    /// put together, so that bytes will be missed.
    pub(super) fn add(&mut self, from: u64, to: u64, mut new: impl FnMut(u64, u64)) -> bool {
        if from >= to {
            return false;
        }
        let first = self.ranges.partition_point(|(_, end)| *end < from);
        let last = self.ranges.partition_point(|(start, _)| *start <= to);
        let mut at = from;
        let (mut start, mut end) = (from, to);
        for (known_start, known_end) in self.ranges.get(first..last).unwrap_or_default() {
            if at < *known_start {
                new(at, (*known_start).min(to));
            }
            at = at.max(*known_end);
            (start, end) = (start.min(*known_start), end.max(*known_end));
        }
        if at < to {
            new(at, to);
        }
        self.ranges.splice(first..last.max(first), [(start, end)]);
        let is_full = self.ranges.len() > MOST;
        if is_full {
            self.put_together();
        }
        is_full
    }

    fn put_together(&mut self) {
        let gaps = self.ranges.windows(2).enumerate();
        let nearest = gaps.min_by_key(|(_, pair)| match pair {
            [(_, end), (start, _)] => start - end,
            _ => u64::MAX,
        });
        let Some((at, _)) = nearest else { return };
        if let Some((_, end)) = self.ranges.get(at + 1).copied() {
            if let Some(range) = self.ranges.get_mut(at) {
                range.1 = end;
            }
            self.ranges.remove(at + 1);
        }
    }

    /// Bytes of memory beside its own.
    pub(super) fn weight(&self) -> usize {
        self.ranges.capacity() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(ranges: &mut Ranges, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut new = Vec::new();
        ranges.add(from, to, |from, to| new.push((from, to)));
        new
    }

    #[test]
    fn what_was_read_before_is_not_told_again() {
        let mut ranges = Ranges::default();
        assert_eq!(add(&mut ranges, 10, 20), [(10, 20)]);
        assert_eq!(add(&mut ranges, 30, 40), [(30, 40)]);
        assert_eq!(add(&mut ranges, 0, 50), [(0, 10), (20, 30), (40, 50)]);
        assert_eq!(add(&mut ranges, 0, 50), []);
        assert_eq!(ranges.ranges, [(0, 50)]);
    }

    proptest! {
        #[test]
        fn each_byte_is_told_once(pieces in prop::collection::vec((0..200_u64, 0..40_u64), 0..60)) {
            let mut ranges = Ranges::default();
            let mut told = [0; 256];
            let mut asked = [false; 256];
            for (from, length) in pieces {
                ranges.add(from, from + length, |from, to| (from..to).for_each(|at| told[at as usize] += 1));
                (from..from + length).for_each(|at| asked[at as usize] = true);
            }
            for (told, asked) in told.iter().zip(asked) {
                prop_assert_eq!(*told, i32::from(asked));
            }
        }
    }
}
