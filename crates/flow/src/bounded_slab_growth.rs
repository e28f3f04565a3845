//! Tables whose capacity grows to a limit, not to twice the limit, and eviction from them.

use nfsrdma_dissectors::captured_frame::FrameNumber;
use slab::Slab;

/// Returns the indexes of the entries to evict, an eighth of all but at least one, in order: entries that are to be
/// kept come last, then those used last.
pub(super) fn eighth_to_evict(entries: impl Iterator<Item = (bool, FrameNumber, usize)>) -> Vec<usize> {
    let mut entries: Vec<_> = entries.collect();
    let count = (entries.len() / 8).max(1).min(entries.len());
    if count < entries.len() {
        entries.select_nth_unstable(count - 1);
        entries.truncate(count);
    }
    entries.sort_unstable();
    entries.into_iter().map(|(_, _, at)| at).collect()
}

/// Adds a value to a table of at most `bound` + 1 values and returns its index.
///
/// A vector that doubles would end up with capacity for twice as many values, and hold both allocations
/// while it grows.
pub(super) fn insert<T>(slab: &mut Slab<T>, bound: usize, value: T) -> usize {
    let len = slab.len();
    if len == slab.capacity() {
        let next = if 2 * len >= bound { bound + 1 } else { 2 * len };
        slab.reserve_exact(next.saturating_sub(len).clamp(1, len.max(4)));
    }
    slab.insert(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_is_at_most_the_bound_plus_one() {
        for bound in [1, 5, 100, 1000] {
            let mut slab = Slab::new();
            (0..=bound).for_each(|value| {
                insert(&mut slab, bound, value);
            });
            assert!(slab.capacity() <= (bound + 1).max(4), "{bound}: {}", slab.capacity());
        }
    }
}
