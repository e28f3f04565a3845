//! Which records of two rows stand for each other: the longest common row, and what moved.

/// The longest common row of two rows of these lengths: pairs of indices that both ascend.
pub(super) fn common(a: usize, b: usize, is_same: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    // lengths[i * (b + 1) + j]: of the longest common row of what follows i and j.
    let width = b + 1;
    let mut lengths = vec![0u16; (a + 1) * width];
    let mut same = vec![false; a * b];
    let at = |lengths: &[u16], i: usize, j: usize| lengths.get(i * width + j).copied().unwrap_or(0);
    for i in (0..a).rev() {
        for j in (0..b).rev() {
            let equal = is_same(i, j);
            if let Some(cell) = same.get_mut(i * b + j) {
                *cell = equal;
            }
            let best = if equal {
                at(&lengths, i + 1, j + 1) + 1
            } else {
                at(&lengths, i + 1, j).max(at(&lengths, i, j + 1))
            };
            if let Some(cell) = lengths.get_mut(i * width + j) {
                *cell = best;
            }
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a && j < b {
        if same.get(i * b + j).copied().unwrap_or(false) {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if at(&lengths, i + 1, j) >= at(&lengths, i, j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// How a part of two rows was put together. All indices count from the beginning of the part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Alignment {
    /// In order on both sides.
    pub(super) pairs: Vec<(usize, usize)>,
    /// The same on both sides, but in another place.
    pub(super) moved: Vec<(usize, usize)>,
    /// How much of each row this accounts for.
    pub(super) until: (usize, usize),
}

/// Pairs in a row after which the two sides are together again.
const TOGETHER: usize = 32;

/// Puts two rows together whose first records are not the same. `is_same` says that two records ask the same, `alike` that
/// they could stand for each other, the likelier first. `is_all` says that nothing comes after the rows.
pub(super) fn align(
    a: usize,
    b: usize,
    is_all: bool,
    is_same: impl Fn(usize, usize) -> bool,
    alike: &[&dyn Fn(usize, usize) -> bool],
) -> Alignment {
    let row = common(a, b, &is_same);
    let until = if is_all { (a, b) } else { end(&row, a, b) };
    let mut pairs: Vec<_> = row.into_iter().filter(|(i, j)| *i < until.0 && *j < until.1).collect();
    let mut free_a = vec![true; until.0];
    let mut free_b = vec![true; until.1];
    let mut take = |i: usize, j: usize| {
        if let (Some(a), Some(b)) = (free_a.get_mut(i), free_b.get_mut(j)) {
            (*a, *b) = (false, false);
        }
    };
    pairs.iter().for_each(|(i, j)| take(*i, *j));
    let mut moved = Vec::new();
    for i in 0..until.0 {
        if !free_a.get(i).copied().unwrap_or(false) {
            continue;
        }
        let partner = (0..until.1).find(|j| free_b.get(*j).copied().unwrap_or(false) && is_same(i, *j));
        if let Some(j) = partner {
            moved.push((i, j));
            if let (Some(a), Some(b)) = (free_a.get_mut(i), free_b.get_mut(j)) {
                (*a, *b) = (false, false);
            }
        }
    }
    // What is left between two pairs, and could stand for each other.
    for is_alike in alike {
        let mut more = Vec::new();
        let mut from = (0, 0);
        for to in pairs.iter().copied().chain([until]) {
            let left = |free: &[bool], from: usize, to: usize| -> Vec<usize> {
                (from..to).filter(|at| free.get(*at).copied().unwrap_or(false)).collect()
            };
            let (in_a, in_b) = (left(&free_a, from.0, to.0), left(&free_b, from.1, to.1));
            let pair = |(i, j): (usize, usize)| in_a.get(i).copied().zip(in_b.get(j).copied());
            let found =
                common(in_a.len(), in_b.len(), |i, j| pair((i, j)).is_some_and(|(i, j)| is_alike(i, j)));
            more.extend(found.into_iter().filter_map(pair));
            from = (to.0 + 1, to.1 + 1);
        }
        for (i, j) in &more {
            if let (Some(a), Some(b)) = (free_a.get_mut(*i), free_b.get_mut(*j)) {
                (*a, *b) = (false, false);
            }
        }
        pairs.extend(more);
        pairs.sort_unstable();
    }
    Alignment { pairs, moved, until }
}

/// Where both sides are together again, or else somewhere in the middle.
fn end(row: &[(usize, usize)], a: usize, b: usize) -> (usize, usize) {
    let mut run = 0;
    let mut start = None;
    let mut last = None;
    for pair in row {
        let follows = last.is_some_and(|(i, j)| *pair == (i + 1, j + 1));
        (run, start) = if follows { (run + 1, start) } else { (1, Some(*pair)) };
        if run >= TOGETHER {
            break;
        }
        last = Some(*pair);
    }
    match start {
        Some(start) if run >= TOGETHER && start != (0, 0) => start,
        _ => {
            let middle = row.iter().rfind(|(i, j)| *i <= a * 3 / 4 && *j <= b * 3 / 4 && (*i > 0 || *j > 0));
            middle.copied().unwrap_or((a.div_ceil(2), b.div_ceil(2)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters are records: the same letter in the same case is the same, in the other it is alike.
    fn of(a: &str, b: &str) -> Alignment {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        align(a.len(), b.len(), true, |i, j| a[i] == b[j], &[&|i, j| a[i].eq_ignore_ascii_case(&b[j])])
    }

    #[test]
    fn what_is_missing_leaves_the_others_together() {
        assert_eq!(of("abcd", "acd").pairs, [(0, 0), (2, 1), (3, 2)]);
        assert_eq!(of("acd", "abcd").pairs, [(0, 0), (1, 2), (2, 3)]);
    }

    #[test]
    fn what_is_only_alike_stands_in_between() {
        assert_eq!(of("abcd", "aBcd").pairs, [(0, 0), (1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn two_that_changed_places_are_one_pair_and_one_that_moved() {
        let swapped = of("abcd", "acbd");
        assert_eq!((swapped.pairs.len(), swapped.moved.len()), (3, 1));
    }

    #[test]
    fn nothing_in_common_ends_in_the_middle() {
        let nothing = align(100, 60, false, |_, _| false, &[]);
        assert_eq!((nothing.pairs.len(), nothing.until), (0, (50, 30)));
    }

    #[test]
    fn a_long_row_in_common_is_left_for_later() {
        // One is missing, and then all is the same.
        let after = align(100, 99, false, |i, j| i == j + 1, &[]);
        assert_eq!((after.pairs, after.until), (vec![], (1, 0)));
    }
}
