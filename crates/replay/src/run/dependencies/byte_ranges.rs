//! Byte ranges of a file in use: a step waits for earlier writes that overlap its range, and a write also for earlier
//! reads.

/// Ranges longer than this many bytes are kept in a separate list, so that the others can be searched by their start.
const LONG_RANGE_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRangeUse {
    from: u64,
    to: u64,
    window_index: u32,
    writes: bool,
}

impl ByteRangeUse {
    fn conflicts_with(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to && (self.writes || other.writes)
    }

    fn covers(&self, other: &Self) -> bool {
        self.writes && self.from <= other.from && other.to <= self.to
    }
}

#[derive(Debug, Default)]
pub(super) struct ByteRangeUses {
    /// Sorted by their start.
    short: Vec<ByteRangeUse>,
    /// Length of the longest of them since the list was empty.
    longest_bytes: u64,
    long: Vec<ByteRangeUse>,
}

impl ByteRangeUses {
    /// Adds a read or write of the bytes `from..to`. Calls `wait` for each step that it waits for.
    pub(super) fn add(&mut self, (from, to): (u64, u64), window_index: u32, writes: bool, mut wait: impl FnMut(u32)) {
        let new_use = ByteRangeUse { from, to, window_index, writes };
        let mut is_covering = false;
        let mut wait_if_conflict = |other: &ByteRangeUse| {
            if new_use.conflicts_with(other) && other.window_index != window_index {
                wait(other.window_index);
                is_covering |= new_use.covers(other);
            }
        };
        let first = self.short.partition_point(|range| range.from.saturating_add(self.longest_bytes) <= from);
        let candidates = self.short.get(first..).unwrap_or_default();
        candidates.iter().take_while(|range| range.from < to).for_each(&mut wait_if_conflict);
        self.long.iter().for_each(&mut wait_if_conflict);
        if is_covering {
            // Steps that would wait for these ranges wait for this one, which waits for them.
            self.short.retain(|range| !new_use.covers(range));
            self.long.retain(|range| !new_use.covers(range));
        }
        if to - from > LONG_RANGE_BYTES {
            self.long.push(new_use);
        } else {
            self.longest_bytes = self.longest_bytes.max(to - from);
            let at = self.short.partition_point(|range| range.from <= from);
            self.short.insert(at, new_use);
        }
    }

    pub(super) fn remove(&mut self, from: u64, window_index: u32) {
        let first = self.short.partition_point(|range| range.from < from);
        let mut rest = self.short.iter().skip(first).take_while(|range| range.from == from);
        if let Some(at) = rest.position(|range| range.window_index == window_index) {
            self.short.remove(first + at);
        } else {
            self.long.retain(|range| range.window_index != window_index || range.from != from);
        }
        if self.short.is_empty() {
            self.longest_bytes = 0;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u32; 0] = [];

    fn waits(ranges: &mut ByteRangeUses, range: (u64, u64), window_index: u32, writes: bool) -> Vec<u32> {
        let mut waits = Vec::new();
        ranges.add(range, window_index, writes, |window_index| waits.push(window_index));
        waits.sort_unstable();
        waits
    }

    #[test]
    fn reads_do_not_wait_for_reads_and_writes_of_other_bytes_not_for_writes() {
        let mut ranges = ByteRangeUses::default();
        assert_eq!(waits(&mut ranges, (0, 4096), 0, false), NONE);
        assert_eq!(waits(&mut ranges, (0, 8192), 1, false), NONE);
        assert_eq!(waits(&mut ranges, (8192, 12288), 2, true), NONE);
        assert_eq!(waits(&mut ranges, (12288, 16384), 3, true), NONE);
        assert_eq!(waits(&mut ranges, (4000, 12289), 4, false), [2, 3]);
        assert_eq!(waits(&mut ranges, (0, u64::MAX), 5, true), [0, 1, 2, 3, 4]);
        assert_eq!(waits(&mut ranges, (100, 101), 6, false), [5], "which waits for all others");
        ranges.remove(0, 5);
        assert_eq!(waits(&mut ranges, (200, 201), 7, false), NONE);
    }

    #[test]
    fn finished_uses_are_removed() {
        let mut ranges = ByteRangeUses::default();
        for (window_index, range) in [(0, 8192), (0, u64::MAX), (4096, 8192)].into_iter().enumerate() {
            waits(&mut ranges, range, window_index as u32, false);
        }
        [(0, 0), (0, 1), (4096, 2)].into_iter().for_each(|(from, window_index)| ranges.remove(from, window_index));
        assert!(ranges.is_empty());
        assert_eq!(ranges.longest_bytes, 0);
    }
}
