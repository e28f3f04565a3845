//! File systems: fsids of the capture, and the fsids of the live server that correspond to them.

use rustc_hash::FxHashMap;

/// Maximum number of file systems; the table is cleared when it is full.
const MAX_FILE_SYSTEMS: usize = 1 << 16;

/// Pairs of a recorded and a live fsid. An fsid of NFSv4 is `major << 64 | minor`, one of NFSv3 the number.
#[derive(Debug, Default)]
pub(super) struct FileSystemPairs {
    live_by_recorded: FxHashMap<u128, u128>,
    is_incomplete: bool,
}

impl FileSystemPairs {
    fn clear(&mut self) {
        self.is_incomplete |= !self.live_by_recorded.is_empty();
        self.live_by_recorded.clear();
    }

    /// Adds a pair, unless the recorded fsid has one. Returns the live fsid of its pair.
    pub(super) fn insert(&mut self, recorded: u128, live: u128) -> u128 {
        if self.live_by_recorded.len() >= MAX_FILE_SYSTEMS {
            self.clear();
        }
        *self.live_by_recorded.entry(recorded).or_insert(live)
    }

    /// Returns `true` if this is certainly no live fsid of a pair. A file system whose pair was dropped is not certain.
    pub(super) fn is_unknown(&self, live: u128) -> bool {
        !self.is_incomplete
            && !self.live_by_recorded.is_empty()
            && self.live_by_recorded.values().all(|existing| *existing != live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_no_reply_named_is_unknown() {
        let mut pairs = FileSystemPairs::default();
        assert!(!pairs.is_unknown(7), "nothing is known");
        assert_eq!(pairs.insert(1, 0), 0);
        assert!(!pairs.is_unknown(0) && pairs.is_unknown(7));
        assert_eq!(pairs.insert(1, 7), 0);
    }

    #[test]
    fn a_file_system_with_a_dropped_pair_is_not_unknown() {
        let mut pairs = FileSystemPairs::default();
        pairs.insert(1, 0);
        pairs.insert(2, 115 << 64);
        pairs.clear();
        pairs.insert(1, 0);
        assert!(!pairs.is_unknown(115 << 64));
    }
}
