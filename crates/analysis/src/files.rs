//! Traffic by file, for any number of files.

use nfsrdma_flow::Transaction;
use rustc_hash::FxHashMap;

/// Maximum number of files; above it those with the fewest bytes and the least time are evicted.
const MAX_FILES: usize = 32_768;

/// Traffic of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTally {
    /// Number of Transactions.
    pub transactions: u64,
    /// Number of failed Transactions.
    pub errors: u64,
    /// Bytes of their messages, including chunks.
    pub bytes: u64,
    /// Sum of their latencies, in nanoseconds.
    pub time_ns: u64,
    /// Number of them with a latency: calls without a reply have none.
    pub timed: u64,
}

impl FileTally {
    /// Returns the mean latency, in nanoseconds; `None` without any.
    pub fn mean_ns(&self) -> Option<u64> {
        self.time_ns.checked_div(self.timed)
    }
}

/// Files by path; a file without a known name has the hash of its filehandle as its path.
#[derive(Debug)]
pub struct FileTallies {
    tallies: FxHashMap<Box<[u8]>, FileTally>,
    evicted: u64,
    /// Approximate memory of the files, and its limit, in bytes.
    bytes: usize,
    room_bytes: usize,
}

/// Approximate memory of a file without its path, in bytes.
const FILE_BYTES: usize = 2 * size_of::<(Box<[u8]>, FileTally)>();

impl FileTallies {
    /// Creates an empty table that uses up to `room_bytes` bytes.
    pub fn new(room_bytes: usize) -> Self {
        Self { tallies: FxHashMap::default(), evicted: 0, bytes: 0, room_bytes }
    }

    /// Counts a Transaction of this many bytes.
    pub fn transaction(&mut self, path: &[u8], transaction: &Transaction, bytes: u64, has_failed: bool) {
        if !self.tallies.contains_key(path) {
            let bytes = path.len() + FILE_BYTES;
            while self.tallies.len() >= MAX_FILES || (self.bytes + bytes > self.room_bytes && self.bytes > 0) {
                self.evict_smallest();
            }
            self.bytes += bytes;
            self.tallies.insert(path.into(), FileTally::default());
        }
        let Some(tally) = self.tallies.get_mut(path) else { return };
        tally.transactions += 1;
        tally.errors += u64::from(has_failed);
        tally.bytes += bytes;
        if let Some(latency_ns) = transaction.latency_ns() {
            tally.time_ns += latency_ns;
            tally.timed += 1;
        }
    }

    fn evict_smallest(&mut self) {
        let keep_count = self.tallies.len() / 4;
        let (by_bytes, by_time) = (
            self.nth_largest_value(keep_count, |tally| tally.bytes),
            self.nth_largest_value(keep_count, |tally| tally.time_ns),
        );
        let before = self.tallies.len();
        self.tallies.retain(|_, tally| tally.bytes > by_bytes || tally.time_ns > by_time);
        self.evicted += (before - self.tallies.len()) as u64;
        self.bytes = self.tallies.keys().map(|path| path.len() + FILE_BYTES).sum();
    }

    /// Returns the value that at most `keep_count` files exceed.
    fn nth_largest_value(&self, keep_count: usize, value_of: fn(&FileTally) -> u64) -> u64 {
        let mut values: Vec<u64> = self.tallies.values().map(value_of).collect();
        values.sort_unstable_by(|a, b| b.cmp(a));
        values.get(keep_count).copied().unwrap_or(0)
    }

    /// Returns the traffic of a file; `None` if it is not known.
    pub fn get(&self, path: &[u8]) -> Option<FileTally> {
        self.tallies.get(path).copied()
    }

    /// Returns the number of files.
    pub fn count(&self) -> usize {
        self.tallies.len()
    }

    /// Returns the number of evicted files.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the files with the largest value of `value_of`, largest first.
    pub fn largest(&self, count: usize, value_of: impl Fn(&FileTally) -> u64) -> Vec<(&[u8], FileTally)> {
        let mut files: Vec<_> = self.tallies.iter().map(|(path, tally)| (&**path, *tally)).collect();
        files.sort_unstable_by(|(a, tally_a), (b, tally_b)| value_of(tally_b).cmp(&value_of(tally_a)).then(a.cmp(b)));
        files.truncate(count);
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_and_the_busiest_stay() {
        let transaction = &crate::testing::transactions("rxe-v42.pcap")[60];
        let mut files = FileTallies::new(64 << 20);
        for number in 0..2 * MAX_FILES as u64 {
            let bytes = if number % 1_000 == 0 { 1 << 30 } else { 1 };
            files.transaction(&number.to_be_bytes(), transaction, bytes, false);
        }
        assert!(files.count() <= MAX_FILES);
        assert!(files.evicted() > 0);
        let largest = files.largest(66, |tally| tally.bytes);
        assert!(largest.iter().all(|(_, tally)| tally.bytes == 1 << 30), "{largest:?}");
    }

    #[test]
    fn long_paths_keep_within_their_memory() {
        const ROOM_BYTES: usize = 1 << 20;
        let transaction = &crate::testing::transactions("rxe-v42.pcap")[60];
        let mut files = FileTallies::new(ROOM_BYTES);
        for number in 0..10_000_u64 {
            let path = [&[b'a'; 4_000][..], &number.to_be_bytes()].concat();
            files.transaction(&path, transaction, if number == 5 { 1 << 30 } else { 1 }, false);
            assert!(files.tallies.keys().map(|path| path.len()).sum::<usize>() < ROOM_BYTES);
        }
        assert_eq!(files.evicted() + files.count() as u64, 10_000);
        assert_eq!(files.largest(1, |tally| tally.bytes)[0].1.bytes, 1 << 30);
    }

    #[test]
    fn the_tally_of_a_file_sums_up_its_transactions() {
        let transactions = crate::testing::transactions("rxe-v42.pcap");
        let mut files = FileTallies::new(64 << 20);
        files.transaction(b"/a", &transactions[60], 100, false);
        files.transaction(b"/a", &transactions[60], 50, true);
        let time = 2 * transactions[60].latency_ns().unwrap();
        let tally = FileTally { transactions: 2, errors: 1, bytes: 150, time_ns: time, timed: 2 };
        assert_eq!(files.largest(9, |tally| tally.bytes), [(&b"/a"[..], tally)]);
        // A call without a reply does not lower the mean.
        let hung = Transaction { reply: None, ..transactions[60].clone() };
        files.transaction(b"/a", &hung, 10, false);
        let tally = files.get(b"/a").unwrap();
        assert_eq!((tally.transactions, tally.mean_ns()), (3, transactions[60].latency_ns()));
    }
}
