//! Rates per second: over the last 1, 10 and 60 seconds, or around a point in time of a file.

use std::borrow::Borrow;
use std::hash::Hash;

use nfsrdma_dissectors::captured_frame::Timestamp;
use rustc_hash::FxHashMap;

use super::statistics::OperationKey;

/// Lengths of the windows in nanoseconds: 1, 10 and 60 seconds.
pub const WINDOWS_NS: [u64; 3] = [1_000_000_000, 10_000_000_000, 60_000_000_000];
const SLOTS: u64 = 10;
/// Maximum number of operations, connections or files counted separately; above it, idle ones are evicted.
const MAX_ENTRIES: usize = 4_096;

/// Events per second within one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransactionAndByteRate {
    /// Transactions per second.
    pub transactions: f64,
    /// Bytes of RPC messages per second, including chunks.
    pub bytes: f64,
}

impl TransactionAndByteRate {
    /// Creates the rate of counts within `ns` nanoseconds, at least one.
    pub(super) fn new(transactions: u64, bytes: u64, ns: u64) -> Self {
        let seconds = ns.max(1) as f64 / 1e9;
        Self { transactions: transactions as f64 / seconds, bytes: bytes as f64 / seconds }
    }
}

/// The rates in each of the [`WINDOWS_NS`].
pub type RatesByWindowLength = [TransactionAndByteRate; WINDOWS_NS.len()];

#[derive(Clone, Copy, Debug, Default)]
struct RateCounts {
    transactions: u64,
    bytes: u64,
}

impl RateCounts {
    fn add(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn rate(self, ns: u64) -> TransactionAndByteRate {
        TransactionAndByteRate::new(self.transactions, self.bytes, ns)
    }
}

/// Counts of the latest slots of time.
#[derive(Clone, Copy, Debug)]
struct RateWindow {
    slot_ns: u64,
    /// Number of the latest slot, counted from the epoch.
    last: u64,
    slots: [RateCounts; SLOTS as usize],
}

impl RateWindow {
    fn new(length_ns: u64) -> Self {
        Self { slot_ns: length_ns / SLOTS, last: 0, slots: Default::default() }
    }

    fn slot(&mut self, number: u64) -> &mut RateCounts {
        &mut self.slots[(number % SLOTS) as usize]
    }

    fn add(&mut self, time_ns: u64, counts: RateCounts) {
        let number = time_ns / self.slot_ns;
        if number > self.last {
            for index in (self.last + 1).max(number.saturating_sub(SLOTS - 1))..=number {
                *self.slot(index) = RateCounts::default();
            }
            self.last = number;
        }
        // Events before the window do not count.
        if self.last - number < SLOTS {
            self.slot(number).add(counts);
        }
    }

    /// Returns the rate. The latest slot is incomplete, so that the window is up to one slot shorter than its length.
    fn rate(&self, now_ns: u64) -> TransactionAndByteRate {
        let number = (now_ns / self.slot_ns).max(self.last);
        let first = (number + 1).saturating_sub(SLOTS);
        let mut sum = RateCounts::default();
        for slot in first.max((self.last + 1).saturating_sub(SLOTS))..=self.last {
            sum.add(self.slots[(slot % SLOTS) as usize]);
        }
        let end_ns = now_ns.max(self.last * self.slot_ns);
        sum.rate(end_ns.saturating_sub(first * self.slot_ns))
    }
}

#[derive(Clone, Copy, Debug)]
struct RecentRateWindows([RateWindow; WINDOWS_NS.len()]);

impl Default for RecentRateWindows {
    fn default() -> Self {
        Self(WINDOWS_NS.map(RateWindow::new))
    }
}

impl RecentRateWindows {
    fn add(&mut self, time_ns: u64, counts: RateCounts) {
        self.0.iter_mut().for_each(|window| window.add(time_ns, counts));
    }

    fn rates(&self, now_ns: u64) -> RatesByWindowLength {
        self.0.each_ref().map(|window| window.rate(now_ns))
    }
}

/// Values of all Transactions, and of each active operation, connection and file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrafficByKey<V> {
    /// All Transactions.
    pub all: V,
    /// By operation.
    pub operations: FxHashMap<OperationKey, V>,
    /// By connection number.
    pub connections: FxHashMap<u64, V>,
    /// By path.
    pub files: FxHashMap<Box<[u8]>, V>,
}

/// Rates of all Transactions, and of each active operation, connection and file.
pub type SlidingWindowRates = TrafficByKey<RatesByWindowLength>;

impl SlidingWindowRates {
    /// Returns `true` if nothing happened within the longest window.
    pub fn is_idle(&self) -> bool {
        self.all.iter().all(|rate| rate.transactions == 0.0)
    }
}

/// A completed Transaction.
#[derive(Clone, Copy, Debug)]
pub struct RateMeteredTransaction<'p> {
    /// Time of its last frame.
    pub time: Timestamp,
    /// Bytes of its messages, including chunks.
    pub bytes: u64,
    /// Operation.
    pub operation: OperationKey,
    /// Connection number.
    pub connection: u64,
    /// Path of its file.
    pub path: Option<&'p [u8]>,
}

fn ns(time: Timestamp) -> u64 {
    u64::try_from(time.0).unwrap_or(0)
}

/// Approximate memory of an entry without its key, in bytes.
const ENTRY_BYTES: usize = 2 * size_of::<RecentRateWindows>();

/// Recent rates by key. At the memory limit new keys are not counted; idle ones are evicted once per slot.
#[derive(Debug)]
struct RecentRatesByKey<K> {
    recent: FxHashMap<K, RecentRateWindows>,
    /// Approximate memory of the entries, and its limit, in bytes.
    bytes: usize,
    room_bytes: usize,
    /// Slot of the longest window in which idle entries were last evicted.
    last_eviction_slot: u64,
}

impl<K: Eq + Hash> RecentRatesByKey<K> {
    fn new(room_bytes: usize) -> Self {
        Self { recent: FxHashMap::default(), bytes: 0, room_bytes, last_eviction_slot: 0 }
    }

    fn add<Q>(&mut self, key: &Q, to_key: impl FnOnce(&Q) -> K, (time_ns, counts): (u64, RateCounts))
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(recent) = self.recent.get_mut(key) {
            return recent.add(time_ns, counts);
        }
        let bytes = ENTRY_BYTES + size_of_val(key);
        let is_full = |this: &Self| this.recent.len() >= MAX_ENTRIES || this.bytes + bytes > this.room_bytes;
        if is_full(self) {
            self.evict_idle(time_ns);
        }
        if !is_full(self) {
            self.bytes += bytes;
            self.recent.entry(to_key(key)).or_default().add(time_ns, counts);
        }
    }

    /// Evicts idle entries. It scans all entries, so that it runs once per slot only.
    fn evict_idle<Q>(&mut self, now_ns: u64)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let longest = WINDOWS_NS.len() - 1;
        let slot = now_ns / (WINDOWS_NS[longest] / SLOTS);
        if slot <= self.last_eviction_slot {
            return;
        }
        self.last_eviction_slot = slot;
        self.recent.retain(|_, recent| recent.0[longest].rate(now_ns).transactions > 0.0);
        self.bytes = self.recent.keys().map(|key| ENTRY_BYTES + size_of_val(key.borrow())).sum();
    }
}

/// Current rates.
#[derive(Debug)]
pub struct RecentRates {
    all: RecentRateWindows,
    operations: RecentRatesByKey<OperationKey>,
    connections: RecentRatesByKey<u64>,
    files: RecentRatesByKey<Box<[u8]>>,
}

impl RecentRates {
    /// Creates an empty table; operations, connections and files use up to `limit_bytes` bytes.
    pub fn new(limit_bytes: usize) -> Self {
        let quarter = limit_bytes / 4;
        Self {
            all: RecentRateWindows::default(),
            operations: RecentRatesByKey::new(quarter),
            connections: RecentRatesByKey::new(quarter),
            files: RecentRatesByKey::new(2 * quarter),
        }
    }

    /// Counts a Transaction.
    pub fn add(&mut self, transaction: RateMeteredTransaction<'_>) {
        let time_ns = ns(transaction.time);
        let counts = RateCounts { transactions: 1, bytes: transaction.bytes };
        self.all.add(time_ns, counts);
        let sample = (time_ns, counts);
        self.operations.add(&transaction.operation, |key| *key, sample);
        self.connections.add(&transaction.connection, |key| *key, sample);
        if let Some(path) = transaction.path {
            self.files.add(path, |path| path.into(), sample);
        }
    }

    /// Returns the rates at a time not before the last Transaction.
    pub fn table(&self, now: Timestamp) -> SlidingWindowRates {
        fn busy<K: Clone + Eq + Hash>(table: &RecentRatesByKey<K>, now_ns: u64) -> FxHashMap<K, RatesByWindowLength> {
            let rates = table.recent.iter().map(|(key, recent)| (key.clone(), recent.rates(now_ns)));
            rates.filter(|(_, rates)| rates.iter().any(|rate| rate.transactions > 0.0)).collect()
        }
        let now_ns = ns(now);
        SlidingWindowRates {
            all: self.all.rates(now_ns),
            operations: busy(&self.operations, now_ns),
            connections: busy(&self.connections, now_ns),
            files: busy(&self.files, now_ns),
        }
    }
}

/// Rates around a point in time: half of each window before it, and half after it.
#[derive(Debug)]
pub struct CenteredWindowRates {
    middle: Timestamp,
    /// Length of each window between the first and the last frame, in nanoseconds.
    lengths_ns: [u64; WINDOWS_NS.len()],
    counts: TrafficByKey<CenteredRateCounts>,
}

type CenteredRateCounts = [RateCounts; WINDOWS_NS.len()];

impl CenteredWindowRates {
    /// Creates rates around `middle` in a capture whose first and last frame have these times.
    pub fn new(middle: Timestamp, (first, last): (Timestamp, Timestamp)) -> Self {
        let clamped = |to: Option<u64>, half_ns: u64| to.unwrap_or(0).min(half_ns);
        let length = |ns: u64| {
            clamped(middle.nanoseconds_since(first), ns / 2) + clamped(last.nanoseconds_since(middle), ns / 2)
        };
        Self { middle, lengths_ns: WINDOWS_NS.map(length), counts: TrafficByKey::default() }
    }

    /// Returns `true` if a time is in the longest window.
    pub fn contains(&self, time: Timestamp) -> bool {
        self.middle.abs_diff_ns(time) <= WINDOWS_NS[WINDOWS_NS.len() - 1] / 2
    }

    /// Counts a Transaction that ended within a window.
    pub fn add(&mut self, transaction: RateMeteredTransaction<'_>) {
        let distance_ns = self.middle.abs_diff_ns(transaction.time);
        let counts = RateCounts { transactions: 1, bytes: transaction.bytes };
        let add = |to: &mut CenteredRateCounts| {
            for (sum, length_ns) in to.iter_mut().zip(WINDOWS_NS) {
                if distance_ns <= length_ns / 2 {
                    sum.add(counts);
                }
            }
        };
        let TrafficByKey { all, operations, connections, files } = &mut self.counts;
        add(all);
        if operations.len() < MAX_ENTRIES || operations.contains_key(&transaction.operation) {
            add(operations.entry(transaction.operation).or_default());
        }
        if connections.len() < MAX_ENTRIES || connections.contains_key(&transaction.connection) {
            add(connections.entry(transaction.connection).or_default());
        }
        if let Some(path) = transaction.path {
            let has_room = files.len() < MAX_ENTRIES;
            match files.get_mut(path) {
                Some(sum) => add(sum),
                None if has_room => add(files.entry(path.into()).or_default()),
                None => {}
            }
        }
    }

    /// Returns the rates; those of incomplete windows are zero.
    pub fn table(self, is_complete: [bool; WINDOWS_NS.len()]) -> SlidingWindowRates {
        let rates = |counts: CenteredRateCounts| -> RatesByWindowLength {
            std::array::from_fn(|at| match is_complete[at] {
                true => counts[at].rate(self.lengths_ns[at]),
                false => TransactionAndByteRate::default(),
            })
        };
        let TrafficByKey { all, operations, connections, files } = self.counts;
        SlidingWindowRates {
            all: rates(all),
            operations: operations.into_iter().map(|(key, counts)| (key, rates(counts))).collect(),
            connections: connections.into_iter().map(|(key, counts)| (key, rates(counts))).collect(),
            files: files.into_iter().map(|(key, counts)| (key, rates(counts))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn ended(ms: i64) -> RateMeteredTransaction<'static> {
        RateMeteredTransaction {
            time: Timestamp(1_000 * SECOND + ms * 1_000_000),
            bytes: 100,
            operation: OperationKey::default(),
            connection: 1,
            path: Some(b"/file"),
        }
    }

    fn at(ms: i64) -> Timestamp {
        ended(ms).time
    }

    #[test]
    fn a_steady_load_has_the_same_rate_in_every_window() {
        let mut recent = RecentRates::new(16 << 20);
        (0..120_000).step_by(10).for_each(|ms| recent.add(ended(ms)));
        let table = recent.table(at(120_000));
        for rate in table.all {
            assert!((rate.transactions - 100.0).abs() < 2.0 && (rate.bytes - 10_000.0).abs() < 200.0, "{rate:?}");
        }
        assert_eq!(table.connections[&1], table.all);
        assert_eq!(table.files[&b"/file"[..]], table.all);
    }

    #[test]
    fn one_window_after_a_stall_the_rate_is_zero() {
        let mut recent = RecentRates::new(16 << 20);
        (0..60_000).step_by(10).for_each(|ms| recent.add(ended(ms)));
        let is_zero = |ms: i64| recent.table(at(60_000 + ms)).all.map(|rate| rate.transactions == 0.0);
        assert_eq!(is_zero(500), [false; 3]);
        assert_eq!(is_zero(1_000), [true, false, false]);
        assert_eq!(is_zero(10_000), [true, true, false]);
        assert_eq!(is_zero(60_000), [true; 3]);
        let table = recent.table(at(60_000));
        let rate = table.all[2].transactions;
        let later = recent.table(at(90_000)).all[2].transactions;
        assert!((rate / later - 2.0).abs() < 0.3, "{rate} {later}");
        assert!(recent.table(at(130_000)).is_idle() && recent.table(at(130_000)).operations.is_empty());
    }

    #[test]
    fn files_stay_within_their_memory_and_return_when_others_are_idle() {
        let paths: Vec<Vec<u8>> =
            (0..1_000_u32).map(|number| [&[b'a'; 4_000][..], &number.to_be_bytes()].concat()).collect();
        let mut recent = RecentRates::new(1 << 20);
        let mut count = |paths: &[Vec<u8>], ms| {
            paths.iter().for_each(|path| recent.add(RateMeteredTransaction { path: Some(path), ..ended(ms) }));
            let bytes: usize = recent.files.recent.keys().map(|path| path.len()).sum();
            assert!(bytes < 512 << 10, "{bytes}");
            let files = recent.table(at(ms)).files;
            paths.iter().filter(|path| files.contains_key(path.as_slice())).count()
        };
        let (early, late) = paths.split_at(500);
        let busy = count(early, 0);
        assert!((50..200).contains(&busy), "{busy}");
        // All entries are busy.
        assert_eq!(count(late, 1_000), 0);
        assert_eq!(count(late, 120_000), busy);
    }

    #[test]
    fn centered_rates_have_a_bounded_number_of_connections_and_files() {
        let mut around = CenteredWindowRates::new(at(0), (at(0), at(10)));
        for number in 0..2 * MAX_ENTRIES as u64 {
            let path = number.to_be_bytes();
            around.add(RateMeteredTransaction { connection: number, path: Some(&path), ..ended(0) });
        }
        let table = around.table([true; 3]);
        assert_eq!((table.connections.len(), table.files.len()), (MAX_ENTRIES, MAX_ENTRIES));
    }

    #[test]
    fn half_of_a_centered_window_is_before_the_moment() {
        let mut around = CenteredWindowRates::new(at(50_000), (at(0), at(100_000)));
        (0..=100_000).step_by(100).for_each(|ms| around.add(ended(ms)));
        assert!(around.contains(at(20_000)) && !around.contains(at(19_999)));
        let table = around.table([true; 3]);
        for rate in table.all {
            assert!((rate.transactions - 10.0).abs() <= 1.0, "{rate:?}");
        }
        // There is nothing before the first frame.
        let mut around = CenteredWindowRates::new(at(0), (at(0), at(100_000)));
        (0..=100_000).step_by(100).for_each(|ms| around.add(ended(ms)));
        assert!((around.table([true; 3]).all[1].transactions - 10.0).abs() <= 1.0);
    }
}
