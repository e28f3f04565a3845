//! Alignment of two sequences of records: their heaviest common subsequence, and moved records.
//!
//! Short sequences are aligned by weights, the similarity of two records. Long ones are aligned first at records that
//! are unique on both sides, so that a gap of any length is bridged, and then by weights between those anchors.

use std::collections::{HashMap, HashSet};

const MAX_MATRIX_CELLS: usize = 1 << 16;

/// Returns the common subsequence with the largest weight, as pairs of ascending indices. Pairs of weight 0 do not
/// count.
pub(super) fn heaviest_subsequence(a: usize, b: usize, weight: impl Fn(usize, usize) -> u32) -> Vec<(usize, usize)> {
    // sums[i * (b + 1) + j]: weight of the heaviest common subsequence from i and j on.
    let width = b + 1;
    let mut sums = vec![0u32; (a + 1) * width];
    let at = |sums: &[u32], i: usize, j: usize| sums.get(i * width + j).copied().unwrap_or(0);
    for i in (0..a).rev() {
        for j in (0..b).rev() {
            let pair_weight = weight(i, j);
            let mut best = at(&sums, i + 1, j).max(at(&sums, i, j + 1));
            if pair_weight > 0 {
                best = best.max(at(&sums, i + 1, j + 1).saturating_add(pair_weight));
            }
            if let Some(sum) = sums.get_mut(i * width + j) {
                *sum = best;
            }
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a && j < b {
        let pair_weight = weight(i, j);
        if pair_weight > 0 && at(&sums, i, j) == at(&sums, i + 1, j + 1).saturating_add(pair_weight) {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if at(&sums, i + 1, j) >= at(&sums, i, j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// Returns the pairs of keys unique in both sequences, as the longest subsequence in order on both sides.
pub(super) fn anchors(a: &[u64], b: &[u64]) -> Vec<(usize, usize)> {
    // Index of each key, and `true` if it is unique.
    let positions_of = |row: &[u64]| {
        let mut positions: HashMap<u64, (usize, bool)> = HashMap::with_capacity(row.len());
        for (at, key) in row.iter().enumerate() {
            positions.entry(*key).and_modify(|position| position.1 = false).or_insert((at, true));
        }
        positions
    };
    let (in_a, in_b) = (positions_of(a), positions_of(b));
    let single = |positions: &HashMap<u64, (usize, bool)>, key: u64| {
        positions.get(&key).filter(|(_, is_single)| *is_single).map(|(at, _)| *at)
    };
    let pairs: Vec<(usize, usize)> = a
        .iter()
        .enumerate()
        .filter_map(|(i, key)| single(&in_a, *key).and(single(&in_b, *key)).map(|j| (i, j)))
        .collect();
    ascending(&pairs)
}

/// Returns the longest subsequence of pairs with ascending first indices whose second indices ascend too.
fn ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // ends[n]: the pair with the lowest second index that ends a sequence of n + 1; before: predecessors.
    let mut ends: Vec<usize> = Vec::new();
    let mut predecessors: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    let second = |at: usize| pairs.get(at).map_or(0, |(_, j)| *j);
    for (at, (_, j)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| second(*end) < *j);
        predecessors.push(length.checked_sub(1).and_then(|last| ends.get(last).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut subsequence = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        subsequence.extend(pairs.get(at).copied());
        next = predecessors.get(at).copied().flatten();
    }
    subsequence.reverse();
    subsequence
}

pub(super) struct SequenceAlignmentInput<'k, W, S> {
    /// The keys of the records of A and B: a key that is unique on both sides is an anchor.
    pub(super) keys: [&'k [u64]; 2],
    /// Similarity of two records; 0 if they cannot be a pair.
    pub(super) weight: W,
    /// Returns `true` if two records are equal, as far as known before they are compared.
    pub(super) is_same: S,
}

/// The alignment of a part of two sequences. Indices count from the beginning of the part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceAlignment {
    /// Pairs in order on both sides.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Pairs of equal records at different positions.
    pub(super) moved: Vec<(usize, usize)>,
    /// Number of records of each sequence that the alignment covers.
    pub(super) covered: (usize, usize),
}

/// Number of consecutive equal pairs after which the two sides are synchronized again.
const MIN_RESYNC_PAIRS: usize = 32;

/// Aligns two sequences whose pairs are all known, in the order of A. Unless `is_all`, records that later pairs may
/// need are left.
pub(super) fn align_known_pairs(
    pairs: Vec<(usize, usize)>,
    lengths: (usize, usize),
    is_all: bool,
) -> SequenceAlignment {
    let mut end = if is_all { lengths } else { (lengths.0.div_ceil(2), 0) };
    // No pair is split: both its records are covered.
    loop {
        let is_covered = |pair: &&(usize, usize)| pair.0 < end.0 || pair.1 < end.1;
        let (i, j) = pairs.iter().filter(is_covered).fold(end, |(i, j), pair| (i.max(pair.0 + 1), j.max(pair.1 + 1)));
        if is_all || (i, j) == end {
            break;
        }
        end = (i, j);
    }
    if end == (0, 0) {
        end = lengths;
    }
    let mut covered_pairs: Vec<_> = pairs.into_iter().filter(|(i, j)| *i < end.0 && *j < end.1).collect();
    let in_order: HashSet<_> = ascending(&covered_pairs).into_iter().collect();
    let moved = covered_pairs.iter().copied().filter(|pair| !in_order.contains(pair)).collect();
    covered_pairs.retain(|pair| in_order.contains(pair));
    SequenceAlignment { pairs: covered_pairs, moved, covered: end }
}

impl<W: Fn(usize, usize) -> u32, S: Fn(usize, usize) -> bool> SequenceAlignmentInput<'_, W, S> {
    /// Aligns both sequences. Returns `None` if they are not synchronized before their end, unless `is_all` (nothing
    /// follows) or `is_forced` (no more records fit).
    pub(super) fn align(&self, is_all: bool, is_forced: bool) -> Option<SequenceAlignment> {
        let [a, b] = self.keys.map(<[u64]>::len);
        let mut pairs = Vec::new();
        self.align_range((0, 0), (a, b), &mut pairs);
        let end = if is_all { (a, b) } else { self.resync_point(&pairs, is_forced)? };
        pairs.retain(|(i, j)| *i < end.0 && *j < end.1);
        let moved = self.moved(&pairs, end);
        // A moved record has its partner, so its other pair is removed.
        let in_a: HashSet<_> = moved.iter().map(|(i, _)| *i).collect();
        let in_b: HashSet<_> = moved.iter().map(|(_, j)| *j).collect();
        pairs.retain(|(i, j)| !in_a.contains(i) && !in_b.contains(j));
        Some(SequenceAlignment { pairs, moved, covered: end })
    }

    fn align_range(&self, from: (usize, usize), to: (usize, usize), pairs: &mut Vec<(usize, usize)>) {
        let (mut from, mut to) = (from, to);
        // Equal records at both ends need no weights.
        let mut tail = Vec::new();
        if (to.0 - from.0).saturating_mul(to.1 - from.1) > MAX_MATRIX_CELLS {
            while from.0 < to.0 && from.1 < to.1 && (self.is_same)(from.0, from.1) {
                pairs.push(from);
                from = (from.0 + 1, from.1 + 1);
            }
            while from.0 < to.0 && from.1 < to.1 && (self.is_same)(to.0 - 1, to.1 - 1) {
                to = (to.0 - 1, to.1 - 1);
                tail.push(to);
            }
        }
        let (a, b) = (to.0 - from.0, to.1 - from.1);
        if a > 0 && b > 0 {
            if a.saturating_mul(b) <= MAX_MATRIX_CELLS {
                let subsequence = heaviest_subsequence(a, b, |i, j| (self.weight)(from.0 + i, from.1 + j));
                pairs.extend(subsequence.into_iter().map(|(i, j)| (from.0 + i, from.1 + j)));
            } else {
                self.align_at_anchors(from, to, pairs);
            }
        }
        pairs.extend(tail.into_iter().rev());
    }

    fn align_at_anchors(&self, from: (usize, usize), to: (usize, usize), pairs: &mut Vec<(usize, usize)>) {
        let [a, b] = self.keys;
        let range = |row: &'_ [u64], from: usize, to: usize| row.get(from..to).unwrap_or_default().to_vec();
        let mut anchors = anchors(&range(a, from.0, to.0), &range(b, from.1, to.1));
        anchors.iter_mut().for_each(|(i, j)| (*i, *j) = (*i + from.0, *j + from.1));
        if anchors.is_empty() {
            // No anchors: align both halves separately.
            let middle = (from.0.midpoint(to.0), from.1.midpoint(to.1));
            self.align_range(from, middle, pairs);
            self.align_range(middle, to, pairs);
            return;
        }
        let mut from = from;
        for anchor in anchors {
            self.align_range(from, anchor, pairs);
            pairs.push(anchor);
            from = (anchor.0 + 1, anchor.1 + 1);
        }
        self.align_range(from, to, pairs);
    }

    /// Returns pairs of equal records at different positions, each unpaired or paired with a record that is only
    /// similar.
    fn moved(&self, pairs: &[(usize, usize)], end: (usize, usize)) -> Vec<(usize, usize)> {
        let paired: HashSet<_> = pairs.iter().collect();
        let mut free_a = vec![true; end.0];
        let mut free_b = vec![true; end.1];
        for (i, j) in pairs.iter().filter(|(i, j)| (self.is_same)(*i, *j)) {
            if let (Some(a), Some(b)) = (free_a.get_mut(*i), free_b.get_mut(*j)) {
                (*a, *b) = (false, false);
            }
        }
        // By key, so that long sequences are scanned once.
        let [a, b] = self.keys;
        let mut positions: HashMap<u64, Vec<usize>> = HashMap::new();
        for (j, key) in b.iter().enumerate().take(end.1) {
            if free_b.get(j).copied().unwrap_or(false) {
                positions.entry(*key).or_default().push(j);
            }
        }
        let mut moved = Vec::new();
        for (i, key) in a.iter().enumerate().take(end.0) {
            if free_a.get(i).copied().unwrap_or(false)
                && let Some(positions) = positions.get_mut(key)
                && let Some(at) = positions.iter().position(|j| !paired.contains(&(i, *j)) && (self.is_same)(i, *j))
            {
                moved.push((i, positions.remove(at)));
            }
        }
        moved
    }

    /// Returns the point where both sides are synchronized again, or a point near the middle if `is_forced`.
    fn resync_point(&self, pairs: &[(usize, usize)], is_forced: bool) -> Option<(usize, usize)> {
        let mut run_length = 0;
        let mut start = None;
        let mut last = None;
        for pair in pairs.iter().filter(|(i, j)| (self.is_same)(*i, *j)) {
            let follows = last.is_some_and(|(i, j)| *pair == (i + 1, j + 1));
            (run_length, start) = if follows { (run_length + 1, start) } else { (1, Some(*pair)) };
            if run_length >= MIN_RESYNC_PAIRS && start != Some((0, 0)) {
                return start;
            }
            last = Some(*pair);
        }
        let [a, b] = self.keys.map(<[u64]>::len);
        let is_middle = |(i, j): &&(usize, usize)| *i <= a * 3 / 4 && *j <= b * 3 / 4 && (*i > 0 || *j > 0);
        let middle = pairs.iter().filter(|(i, j)| (self.is_same)(*i, *j)).rfind(is_middle);
        is_forced.then(|| middle.copied().unwrap_or((a.div_ceil(2), b.div_ceil(2))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters are records: the same letter is equal in the same case, and similar in the other.
    fn of(a: &str, b: &str) -> SequenceAlignment {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let keys = [a, b].map(|row| row.iter().map(|letter| u64::from(*letter)).collect::<Vec<_>>());
        let weight = |i: usize, j: usize| match (a[i] == b[j], a[i].eq_ignore_ascii_case(&b[j])) {
            (true, _) => 100,
            (_, alike) => u32::from(alike),
        };
        let rows =
            SequenceAlignmentInput { keys: [&keys[0], &keys[1]], weight, is_same: |i: usize, j: usize| a[i] == b[j] };
        rows.align(true, true).unwrap()
    }

    fn numbers(a: &[u64], b: &[u64], is_all: bool, must: bool) -> Option<SequenceAlignment> {
        let is_same = |i: usize, j: usize| a[i] == b[j];
        SequenceAlignmentInput { keys: [a, b], weight: |i, j| u32::from(is_same(i, j)), is_same }.align(is_all, must)
    }

    #[test]
    fn rows_with_known_pairs_are_cut_between_pairs() {
        let pairs = vec![(0, 1), (1, 0), (2, 2), (3, 4), (4, 3)];
        let half = align_known_pairs(pairs.clone(), (5, 5), false);
        assert_eq!((half.covered, half.pairs.len(), half.moved.len()), ((3, 3), 2, 1));
        let all = align_known_pairs(pairs, (5, 5), true);
        assert_eq!((all.covered, all.pairs.len(), all.moved.len()), ((5, 5), 3, 2));
        // Some of the records without partners are covered.
        assert_eq!(align_known_pairs(Vec::new(), (4, 0), false).covered, (2, 0));
    }

    #[test]
    fn a_missing_record_leaves_the_other_pairs_intact() {
        assert_eq!(of("abcd", "acd").pairs, [(0, 0), (2, 1), (3, 2)]);
        assert_eq!(of("acd", "abcd").pairs, [(0, 0), (1, 2), (2, 3)]);
    }

    #[test]
    fn similar_records_are_paired_between_equal_ones() {
        assert_eq!(of("abcd", "aBcd").pairs, [(0, 0), (1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn of_two_swapped_records_one_is_moved() {
        let swapped = of("abcd", "acbd");
        assert_eq!((swapped.pairs.len(), swapped.moved.len()), (3, 1));
    }

    #[test]
    fn moved_records_are_not_paired_with_similar_ones() {
        let swapped = of("aBcdb", "abcdB");
        assert_eq!((swapped.pairs.len(), swapped.moved), (3, vec![(1, 4), (4, 1)]));
    }

    #[test]
    fn rows_without_common_records_are_covered_by_half() {
        let (a, b): (Vec<u64>, Vec<u64>) = ((0..100).collect(), (200..260).collect());
        assert_eq!(numbers(&a, &b, false, false), None);
        let nothing = numbers(&a, &b, false, true).unwrap();
        assert_eq!((nothing.pairs.len(), nothing.covered), (0, (50, 30)));
    }

    #[test]
    fn a_long_common_row_is_left_for_later() {
        // One record is missing, and the rest is equal.
        let (a, b): (Vec<u64>, Vec<u64>) = ((0..100).collect(), (1..100).collect());
        let after = numbers(&a, &b, false, false).unwrap();
        assert_eq!((after.pairs, after.covered), (vec![], (1, 0)));
    }

    #[test]
    fn rows_are_aligned_again_after_a_gap_of_thousands() {
        // Most keys are frequent, and every tenth is unique.
        let key = |at: u64| if at.is_multiple_of(10) { 1_000_000 + at } else { at % 7 };
        let a: Vec<u64> = (0..10_000).map(key).collect();
        let b: Vec<u64> = (0..500).chain(8_500..10_000).map(key).collect();
        let found = numbers(&a, &b, true, true).unwrap();
        assert_eq!((found.pairs.len(), found.moved.len()), (b.len(), 0));
        let later = numbers(&a, &b[500..], true, true).unwrap();
        assert_eq!((later.pairs.len(), later.pairs[0]), (1_500, (8_500, 0)));
    }

    #[test]
    fn long_rows_without_unique_records_are_aligned_in_parts() {
        let row = vec![1_u64; 3_000];
        assert_eq!(numbers(&row, &row[1..], true, true).unwrap().pairs.len(), 2_999);
    }

    #[test]
    fn the_heaviest_row_is_not_always_the_longest() {
        let weights = [[0, 5, 0], [1, 0, 0], [0, 1, 9]];
        assert_eq!(heaviest_subsequence(3, 3, |i, j| weights[i][j]), [(0, 1), (2, 2)]);
    }
}
