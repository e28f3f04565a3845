//! State of a comparison of two captures: waiting records, differences found, and counts.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::difference::{Difference, DifferenceKind, DifferenceSideValue};
use super::identity_map::CrossCaptureIdentityMap;
use super::options::ComparisonOptions;
use super::pairing_queue::{
    ClientAddressAndCallDirection, ComparisonFilehandleOrigins, ComparisonPairingQueue, FILEHANDLE_ORIGIN_BYTES,
    MAX_UNPAIRED, QueuedComparisonRecord,
};
use super::record::{ComparableTransaction, class};
use super::record_comparison::{ComparedFieldAndByteCounts, RecordComparer, difference_side};

/// Maximum number of waiting records per side.
pub const MAX_WAITING_RECORDS: usize = 16_384;
const MAX_IDLE_CLIENTS: usize = 16_384;
/// Maximum number of operations that are counted separately.
const OPERATIONS: usize = 1_024;

/// One of two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonSide {
    /// The first: the recording, or the earlier capture.
    A,
    /// The second: the replay, or the later capture.
    B,
}

impl ComparisonSide {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];
}

/// Extent to which a queue is processed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PairingQueueDrainExtent {
    /// Some records are left, to be aligned with later ones.
    Steady,
    /// While both sides are equal.
    WhileEqual,
    /// All records, because too many wait.
    Full,
    /// All records: none follow.
    Last,
}

/// Counts of an operation on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationComparisonCounts {
    /// Number of occurrences in A and B.
    pub counts: [u64; 2],
    /// Number of differences.
    pub differences: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueuedRecordCountAndBytes {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl QueuedRecordCountAndBytes {
    pub(super) fn add(&mut self, record: &QueuedComparisonRecord) {
        self.count += 1;
        self.bytes += record.bytes;
    }

    pub(super) fn subtract(&mut self, record: &QueuedComparisonRecord) {
        self.count -= 1;
        self.bytes -= record.bytes;
    }
}

/// Approximate memory of a client without waiting records, in bytes.
const IDLE_CLIENT_BYTES: usize = 1_024;
/// Part of the memory for identities, in sixteenths.
const IDENTITY_PARTS: u64 = 5;

/// Shares of the memory of a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparisonMemoryShares {
    /// Bytes of the waiting records of one side.
    pub(super) waiting_bytes: usize,
    /// Bytes of the records without partners.
    unpaired_bytes: usize,
    /// Bytes of the differences that are not passed on yet.
    difference_bytes: usize,
    /// Bytes of the pairs of identities.
    identity_bytes: usize,
    /// Number of clients.
    clients: usize,
    /// Number of filehandles of one side whose origins are known.
    filehandles: usize,
}

impl ComparisonMemoryShares {
    fn new(bytes: usize) -> Self {
        let sixteenth = bytes / 16;
        Self {
            waiting_bytes: 3 * sixteenth,
            unpaired_bytes: 2 * sixteenth,
            difference_bytes: sixteenth,
            identity_bytes: IDENTITY_PARTS as usize * sixteenth,
            clients: MAX_IDLE_CLIENTS.min(sixteenth / IDLE_CLIENT_BYTES),
            filehandles: sixteenth / 2 / FILEHANDLE_ORIGIN_BYTES,
        }
    }

    /// Returns the memory of a comparison whose share for identities is `identity_bytes`.
    fn memory_for_identities(identity_bytes: u64) -> u64 {
        identity_bytes.div_ceil(IDENTITY_PARTS).saturating_mul(16)
    }
}

/// Receiver of the differences of a comparison, called when they have filled their share of the memory.
pub(super) type DifferenceReceiver<'r> = dyn FnMut(&mut CaptureComparator) + 'r;

/// Comparison of two captures.
#[derive(Debug)]
pub struct CaptureComparator {
    pub(super) options: ComparisonOptions,
    pub(super) identities: CrossCaptureIdentityMap,
    /// Origins of the filehandles of each side.
    origins: [ComparisonFilehandleOrigins; 2],
    pub(super) queues: Vec<ComparisonPairingQueue>,
    /// Queue of each client, by side.
    pub(super) clients: [HashMap<ClientAddressAndCallDirection, usize>; 2],
    pub(super) waiting: [QueuedRecordCountAndBytes; 2],
    /// Records that came after their successors, of all queues.
    pub(super) late: [QueuedRecordCountAndBytes; 2],
    /// Records without partners, of all queues.
    pub(super) unpaired: QueuedRecordCountAndBytes,
    pub(super) memory: ComparisonMemoryShares,
    /// The differences with the lowest frames, up to `max_differences`.
    differences: Vec<Difference>,
    difference_bytes: usize,
    max_differences: usize,
    counts: BTreeMap<DifferenceKind, u64>,
    /// Number of differences that the options exclude.
    filtered: u64,
    operation_counts: BTreeMap<Rc<str>, OperationComparisonCounts>,
    compared: ComparedFieldAndByteCounts,
    pub(super) pairs: u64,
    pub(super) reordered: u64,
    setup_calls: u64,
    /// Number of clients visited by passes over all of them.
    #[cfg(test)]
    pub(super) visited: u64,
}

impl CaptureComparator {
    /// Creates a comparison with at most `max_differences` differences that uses up to `memory_bytes` bytes.
    pub fn new(selection: ComparisonOptions, max_differences: usize, memory_bytes: usize) -> Self {
        let memory = ComparisonMemoryShares::new(memory_bytes);
        Self {
            options: selection,
            identities: CrossCaptureIdentityMap::for_memory(memory.identity_bytes),
            origins: [(); 2].map(|()| ComparisonFilehandleOrigins::new(memory.filehandles)),
            queues: Vec::new(),
            clients: Default::default(),
            waiting: Default::default(),
            late: Default::default(),
            unpaired: QueuedRecordCountAndBytes::default(),
            memory,
            differences: Vec::new(),
            difference_bytes: 0,
            max_differences: max_differences.max(1),
            counts: BTreeMap::new(),
            filtered: 0,
            operation_counts: BTreeMap::new(),
            compared: ComparedFieldAndByteCounts::default(),
            pairs: 0,
            reordered: 0,
            setup_calls: 0,
            #[cfg(test)]
            visited: 0,
        }
    }

    /// Takes the differences found since the last call, sorted by frame.
    pub fn take_differences(&mut self) -> Vec<Difference> {
        self.sort();
        std::mem::take(&mut self.differences)
    }

    /// Adds a record of a side.
    pub(super) fn push(
        &mut self,
        side: ComparisonSide,
        client: ClientAddressAndCallDirection,
        record: ComparableTransaction,
    ) {
        let at = side as usize;
        let name = self.counted_name(&record.class);
        self.operation_counts.entry(name).or_default().counts[at] += 1;
        let queue_index = *self.clients[at].entry(client).or_insert_with_key(|client| {
            let mut queue = ComparisonPairingQueue::default();
            queue.sides[at].client = Some(client.clone());
            self.queues.push(queue);
            self.queues.len() - 1
        });
        let key = self.origins[at].key(&record);
        let record = QueuedComparisonRecord::new(record, key);
        if self.queues[queue_index].sides[at].is_late(&record) {
            self.late[at].add(&record);
        } else {
            self.waiting[at].add(&record);
        }
        self.queues[queue_index].sides[at].push(record);
    }

    /// Limits the number of names: a malformed capture can have any number of operations.
    fn counted_name(&self, class: &Rc<str>) -> Rc<str> {
        if self.operation_counts.contains_key(class) || self.operation_counts.len() < OPERATIONS {
            Rc::clone(class)
        } else {
            "other operations".into()
        }
    }

    /// Returns `true` if a side has enough records for [`Self::advance`].
    pub fn has_enough(&self, side: ComparisonSide) -> bool {
        self.has_waiting(side, MAX_WAITING_RECORDS)
    }

    pub(super) fn with_queue(&mut self, at: usize, work: impl FnOnce(&mut Self, &mut ComparisonPairingQueue)) {
        #[cfg(test)]
        {
            self.visited += 1;
        }
        let Some(mut queue) = self.queues.get_mut(at).map(std::mem::take) else { return };
        work(self, &mut queue);
        self.queues[at] = queue;
    }

    /// Returns `true` if this many records wait on either side, or as many bytes in proportion.
    pub(super) fn is_full(&self, records: usize) -> bool {
        ComparisonSide::BOTH.into_iter().any(|side| self.has_waiting(side, records))
    }

    /// Returns `true` if this many records of a side wait, late ones included, or as many bytes in proportion.
    pub(super) fn has_waiting(&self, side: ComparisonSide, records: usize) -> bool {
        let at = side as usize;
        let [waiting, late] = [self.waiting[at], self.late[at]];
        waiting.count + late.count >= records
            || waiting.bytes + late.bytes >= self.memory.waiting_bytes / MAX_WAITING_RECORDS * records
    }

    /// Returns `true` if there are too many clients. A pass over all of them must free about as many records, so that
    /// the limit scales with the memory.
    pub(super) fn has_too_many_clients(&self) -> bool {
        self.queues.len() > self.memory.clients
    }

    /// Limits the number of records without partners that wait for a late one, and their memory.
    pub(super) fn evict(&mut self, queue: &mut ComparisonPairingQueue) {
        let differs_in_rdma = differs_in_rdma(queue);
        for side in 0..2 {
            while (self.unpaired.count > MAX_UNPAIRED || self.unpaired.bytes > self.memory.unpaired_bytes)
                && let Some(waiting) = queue.sides[side].unpaired.pop_front()
            {
                self.unpaired.subtract(&waiting);
                self.report_unpaired(&waiting.record, side, differs_in_rdma);
            }
        }
    }

    /// Adds a difference unless the options exclude it.
    pub(super) fn report(&mut self, difference: Difference) {
        self.difference_bytes += difference.memory_bytes();
        if self.options.includes(&difference) {
            *self.counts.entry(difference.kind).or_default() += 1;
            if let Some(operation) = self.operation_counts.get_mut(class(&difference.operation).as_str()) {
                operation.differences += 1;
            }
            self.differences.push(difference);
        } else {
            self.filtered += 1;
        }
        if self.differences.len() >= self.max_differences.saturating_mul(2).max(1024) {
            self.sort();
        }
    }

    /// Sorts the differences, and keeps the first.
    pub(super) fn sort(&mut self) {
        self.differences.sort_by_key(Difference::sort_key);
        self.differences.truncate(self.max_differences);
        self.difference_bytes = self.differences.iter().map(Difference::memory_bytes).sum();
    }

    /// Compares two records, and passes the differences on if they have filled their memory.
    pub(super) fn compare(
        &mut self,
        a: &ComparableTransaction,
        b: &ComparableTransaction,
        differs_in_rdma: bool,
        receive: &mut DifferenceReceiver<'_>,
    ) {
        self.compare_records(a, b, differs_in_rdma);
        if self.difference_bytes > self.memory.difference_bytes {
            receive(self);
        }
    }

    fn compare_records(&mut self, a: &ComparableTransaction, b: &ComparableTransaction, differs_in_rdma: bool) {
        self.pairs += 1;
        if differs_in_rdma && a.is_connection_setup && !a.is_null {
            self.setup_calls += 1;
            return;
        }
        let differences =
            RecordComparer { options: &self.options, identities: &mut self.identities, compared: &mut self.compared }
                .compare(a, b);
        for difference in differences {
            self.report(difference);
        }
        self.report_identity_differences(false);
    }

    /// Reports wrong pairs of names, which are known later than the records.
    pub(super) fn report_identity_differences(&mut self, is_last: bool) {
        for difference in self.identities.take_differences(is_last) {
            self.report(difference);
        }
    }

    /// Takes the first `count` records of a side from a queue.
    pub(super) fn take_waiting(
        &mut self,
        queue: &mut ComparisonPairingQueue,
        side: usize,
        count: usize,
    ) -> Vec<QueuedComparisonRecord> {
        let records = queue.sides[side].take(count);
        records.iter().for_each(|waiting| self.waiting[side].subtract(waiting));
        records
    }

    pub(super) fn report_unpaired(&mut self, record: &ComparableTransaction, side: usize, differs_in_rdma: bool) {
        // The number of connection attempts is up to the transport.
        if differs_in_rdma && record.is_connection_setup {
            self.setup_calls += 1;
            return;
        }
        let kind = if side == 0 { DifferenceKind::Missing } else { DifferenceKind::Extra };
        let sides = difference_side(record, true, Some(record.summary())).on_side(side);
        self.report(Difference::without_field(kind, &record.title, "", sides));
    }

    /// Reports a difference of the whole captures.
    pub fn report_capture_difference(&mut self, kind: DifferenceKind, path: &str, a: impl ToString, b: impl ToString) {
        let sides = [a.to_string(), b.to_string()]
            .map(|value| DifferenceSideValue { value: Some(value), ..DifferenceSideValue::default() });
        self.report(Difference::without_field(kind, "capture", path, sides));
    }

    /// Returns `true` if two counts of the whole captures are within their tolerance.
    pub fn tolerates(&self, key: &str, a: u64, b: u64) -> bool {
        self.options.tolerates_count(key, a, b)
    }

    /// Returns the number of differences excluded by `--ignore`, `--only` or the settings of a baseline.
    pub fn filtered(&self) -> u64 {
        self.filtered
    }

    /// Returns the differences with the lowest frames, in order, without those taken before.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// Returns the number of differences by kind.
    pub fn counts(&self) -> &BTreeMap<DifferenceKind, u64> {
        &self.counts
    }

    /// Returns the number of differences.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the counts of the operations on both sides.
    pub fn operation_counts(&self) -> &BTreeMap<Rc<str>, OperationComparisonCounts> {
        &self.operation_counts
    }

    /// Returns the counts of compared fields.
    pub fn compared(&self) -> ComparedFieldAndByteCounts {
        self.compared
    }

    /// Returns the number of pairs of identities that were forgotten because of the memory limit.
    pub fn forgotten_identities(&self) -> u64 {
        self.identities.forgotten()
    }

    /// Returns the memory in bytes with which the comparison would have forgotten no identities.
    pub fn memory_for_identities(&self) -> u64 {
        ComparisonMemoryShares::memory_for_identities(self.identities.needed_bytes())
    }

    /// Returns the number of paired Transactions.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Returns the number of Transactions in different order that did not depend on each other.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Returns the number of connection setup Calls (NULL, PORTMAP) where only one side uses RDMA.
    pub fn setup_calls(&self) -> u64 {
        self.setup_calls
    }
}

pub(super) fn differs_in_rdma(queue: &ComparisonPairingQueue) -> bool {
    let [a, b] = &queue.sides;
    a.client.is_some() && b.client.is_some() && a.is_rdma != b.is_rdma
}
