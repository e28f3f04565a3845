//! The queue of one client and direction: records of both sides wait here until they can be paired.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use nfsrdma_flow::transaction::CallDirection;

use super::comparable_transaction_recorder::{PairingHashFields, arguments};
use super::difference::{DifferenceKind, TransactionCaptureLocation};
use super::field_equality::{FieldEqualityRequirement, MappedIdentifierType};
use super::identity_map::{CrossCaptureIdentityMap, ServerAssignedValueHash};
use super::record::{ComparableMessage, ComparableTransaction, ComparedFieldValue, hash};
use crate::memory_budget_shares::allocated;
use crate::second_chance_map::SecondChanceMap;

/// Numbers of records in an alignment: few first, and more if those do not suffice.
pub(super) const ALIGNMENT_WINDOWS: [usize; 3] = [128, 1_024, usize::MAX];
/// Maximum number of records without partners that wait for a late one, of all queues.
pub(super) const MAX_UNPAIRED: usize = 4_096;

/// Maximum distance, in pairs, between a Reply without its Call and the Transaction of the other side that it may
/// match.
pub(super) const MAX_REPLY_DISTANCE: u64 = 64;

/// Memory of an alignment for each of its records, in bytes: keys, and their places in hash tables.
const ALIGNMENT_BYTES: usize = 160;

/// A client and a direction. The same client on both sides has the same address, or the same rank in order of
/// appearance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddressAndCallDirection {
    /// Address of the client of the connection, as text.
    pub address: Rc<str>,
    /// Direction of its Calls.
    pub direction: CallDirection,
}

#[derive(Debug)]
pub(super) struct QueuedComparisonRecord {
    pub(super) record: ComparableTransaction,
    pub(super) key: ComparisonPairingKey,
    /// Number of pairs when it was found to have no partner.
    pub(super) pairs: u64,
    /// Memory of the record and its key.
    pub(super) bytes: usize,
}

impl QueuedComparisonRecord {
    pub(super) fn new(record: ComparableTransaction, key: ComparisonPairingKey) -> Self {
        let own_bytes = size_of::<Self>() - size_of::<ComparableTransaction>();
        let filehandles = allocated::<FilehandleHashAndOrigin>(key.filehandles.len());
        let bytes = record.memory_bytes() + own_bytes + filehandles + ALIGNMENT_BYTES;
        Self { record, key, pairs: 0, bytes }
    }
}

#[derive(Debug, Default)]
pub(super) struct ComparisonPairingQueueSide {
    pub(super) client: Option<ClientAddressAndCallDirection>,
    pub(super) waiting: VecDeque<QueuedComparisonRecord>,
    /// Largest first frame of the records taken.
    pub(super) last_taken_frame: u64,
    /// Last frame of the records taken.
    last_end_frame: u64,
    pub(super) unpaired: VecDeque<QueuedComparisonRecord>,
    /// Records that arrived after their successors were taken, because no Reply came.
    pub(super) late: Vec<QueuedComparisonRecord>,
    pub(super) records: u64,
    /// Location and title of the first record.
    pub(super) first: Option<(TransactionCaptureLocation, Rc<str>)>,
    /// Number of records dropped because the other side did not have the client for long.
    pub(super) dropped: u64,
    /// Minor version of NFSv4 of the last record.
    minor_version: Option<u32>,
    /// `true` if any record used RDMA.
    pub(super) is_rdma: bool,
    /// `true` if any record is the replay of a step of the other side.
    has_steps: bool,
}

impl ComparisonPairingQueueSide {
    /// Returns `true` if records behind this one were taken already.
    pub(super) fn is_late(&self, waiting: &QueuedComparisonRecord) -> bool {
        frame(&waiting.record) < self.last_taken_frame
    }

    /// Adds a record in the order of its first frame.
    pub(super) fn push(&mut self, waiting: QueuedComparisonRecord) {
        self.records += 1;
        self.is_rdma |= waiting.record.is_rdma();
        self.has_steps |= waiting.record.replayed_step.is_some();
        self.minor_version = waiting.record.minor_version.or(self.minor_version);
        let frame = frame(&waiting.record);
        if self.first.as_ref().is_none_or(|(location, _)| location.frame().is_none_or(|first| frame < first.0)) {
            self.first = Some((waiting.record.location, Rc::clone(&waiting.record.title)));
        }
        if self.is_late(&waiting) {
            self.late.push(waiting);
            return;
        }
        let is_before = |other: &QueuedComparisonRecord| self::frame(&other.record) <= frame;
        let at = self.waiting.iter().rposition(is_before).map_or(0, |at| at + 1);
        // With hundreds of thousands of clients of one record each, capacity for four records each would be a large
        // allocation, which is slow to find.
        if self.waiting.capacity() == 0 {
            self.waiting.reserve_exact(1);
        }
        self.waiting.insert(at, waiting);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.unpaired.is_empty() && self.late.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Vec<QueuedComparisonRecord> {
        let mut records = Vec::with_capacity(count.min(self.waiting.len()));
        while records.len() < count
            && let Some(mut waiting) = self.waiting.pop_front()
        {
            let next = self.waiting.front().map(|next| frame(&next.record));
            let record = &mut waiting.record;
            record.is_racing = frame(record) < self.last_end_frame || next.is_some_and(|next| next < record.end_frame);
            self.last_end_frame = self.last_end_frame.max(record.end_frame);
            self.last_taken_frame = self.last_taken_frame.max(frame(record));
            records.push(waiting);
        }
        // Frees the memory of idle clients, of which there may be thousands.
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        records
    }
}

/// Returns the first frame of a record.
pub(super) fn frame(record: &ComparableTransaction) -> u64 {
    record.location.frame().map_or(0, |frame| frame.0)
}

/// Both sides of one client and direction.
#[derive(Debug, Default)]
pub(super) struct ComparisonPairingQueue {
    pub(super) sides: [ComparisonPairingQueueSide; 2],
}

impl ComparisonPairingQueue {
    /// Returns `true` if B is a replay of A: its records name their steps of A, and have the same signatures.
    pub(super) fn is_replay(&self) -> bool {
        self.sides[1].has_steps && !self.sides[0].has_steps
    }

    /// Pairs waiting records by replayed steps, in the order of A. Returns `None` if more than 10 % of the signatures
    /// differ: then B is the replay of another capture.
    pub(super) fn pairs_by_step(&self) -> Option<Vec<(usize, usize)>> {
        let [a, b] = &self.sides;
        let of_b = b.waiting.iter().enumerate();
        let mut indices: HashMap<u64, usize> = HashMap::with_capacity(b.waiting.len());
        // Of a retransmitted step the last record counts.
        indices.extend(of_b.filter_map(|(at, waiting)| Some((waiting.record.replayed_step?, at))));
        let of_a = a.waiting.iter().enumerate();
        let matched = of_a.filter_map(|(at, waiting)| Some((at, *indices.get(&waiting.record.location.index)?)));
        let mut pairs: Vec<_> = matched.collect();
        let pair_count = pairs.len();
        let signature = |queue_side: &ComparisonPairingQueueSide, at: usize| {
            queue_side.waiting.get(at).map(|waiting| waiting.key.signature)
        };
        pairs.retain(|(i, j)| signature(a, *i) == signature(b, *j));
        (pairs.len() * 10 >= pair_count * 9).then_some(pairs)
    }

    pub(super) fn differs_in_minor_version(&self) -> bool {
        let [a, b] = &self.sides;
        a.minor_version.zip(b.minor_version).is_some_and(|(a, b)| a != b)
    }
}

/// Key of a Call: everything that can be expected to be equal on both sides. It does not change with later records.
#[derive(Clone, Debug)]
pub(super) struct ComparisonPairingKey {
    /// Hash of the operation and everything in the Call that must be equal.
    call: u64,
    /// The same hash without fields that depend on the minor version.
    minor_independent_hash: u64,
    signature: u64,
    about: u64,
    filehandles: Box<[FilehandleHashAndOrigin]>,
}

/// A filehandle by its name and its origin: names differ between runs, and origins do not.
#[derive(Clone, Copy, Debug)]
struct FilehandleHashAndOrigin {
    name: ServerAssignedValueHash,
    origin: u64,
}

pub(super) const FILEHANDLE_ORIGIN_BYTES: usize = SecondChanceMap::<ServerAssignedValueHash, u64>::ENTRY_BYTES;

#[derive(Debug)]
pub(super) struct ComparisonFilehandleOrigins(SecondChanceMap<ServerAssignedValueHash, u64>);

impl ComparisonFilehandleOrigins {
    pub(super) fn new(capacity: usize) -> Self {
        Self(SecondChanceMap::new(capacity))
    }

    /// Returns the key of a record, and adds the filehandles of its messages.
    pub(super) fn key(&mut self, record: &ComparableTransaction) -> ComparisonPairingKey {
        let call_hash = mixed([record.signature, arguments_for_any_minor(record), 0, 0]);
        let filehandles = record.call.as_ref().map(|call| self.filehandles_of(call, call_hash, 0)).unwrap_or_default();
        let scope = filehandles.first().map_or(0, |filehandle| filehandle.origin);
        if let Some(reply) = &record.reply {
            self.filehandles_of(reply, call_hash, scope);
        }
        ComparisonPairingKey {
            call: mixed([record.signature, record.arguments, 0, 0]),
            minor_independent_hash: call_hash,
            signature: record.signature,
            about: record.subject_hash,
            filehandles,
        }
    }

    /// Returns the filehandles of a message. A new one originates from this operation, its scope and the name before.
    fn filehandles_of(
        &mut self,
        message: &ComparableMessage,
        call_hash: u64,
        scope: u64,
    ) -> Box<[FilehandleHashAndOrigin]> {
        let mut filehandles = Vec::new();
        let mut name_scope = scope;
        for entry in message.fields() {
            match entry.path.class {
                FieldEqualityRequirement::Identity(MappedIdentifierType::Filehandle) => {}
                FieldEqualityRequirement::Equal(DifferenceKind::Name) => {
                    name_scope = mixed([scope, datum_hash(&entry.datum), 1, 0]);
                    continue;
                }
                _ => continue,
            }
            let Some(name) = ServerAssignedValueHash::from_value(MappedIdentifierType::Filehandle, &entry.datum, None)
            else {
                continue;
            };
            let origin = match self.0.get(name) {
                Some(origin) => *origin,
                None => {
                    let path_hash = hash(entry.path.text.as_bytes()) as u64;
                    let origin = mixed([call_hash, name_scope, path_hash, 0]);
                    self.0.insert(name, origin);
                    origin
                }
            };
            filehandles.push(FilehandleHashAndOrigin { name, origin });
        }
        filehandles.into()
    }
}

fn arguments_for_any_minor(record: &ComparableTransaction) -> u64 {
    match (&record.call, record.minor_version) {
        (Some(call), Some(_)) => arguments(call, PairingHashFields::InAnyMinorVersion),
        _ => record.arguments,
    }
}

fn datum_hash(value: &ComparedFieldValue) -> u64 {
    match value {
        ComparedFieldValue::Text(bytes) | ComparedFieldValue::Bytes(bytes) => hash(bytes) as u64,
        other => hash(other.to_string().as_bytes()) as u64,
    }
}

fn mixed(words: [u64; 4]) -> u64 {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    hash(&bytes) as u64
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FilehandleComparisonResult {
    /// Equal, as far as known.
    Same,
    /// Unknown.
    Unknown,
    /// Known to be different.
    Other,
}

impl ComparisonPairingKey {
    pub(super) fn with_numbers(
        &self,
        side: usize,
        is_other_minor: bool,
        renaming: &mut CrossCaptureIdentityMap,
    ) -> ComparisonKeyWithFilehandleNumbers<'_> {
        let number = |filehandle: &FilehandleHashAndOrigin| renaming.number(side, filehandle.name);
        let call = if is_other_minor { self.minor_independent_hash } else { self.call };
        ComparisonKeyWithFilehandleNumbers { key: self, call, numbers: self.filehandles.iter().map(number).collect() }
    }
}

/// A key with the numbers that its filehandles share with the other side.
pub(super) struct ComparisonKeyWithFilehandleNumbers<'k> {
    key: &'k ComparisonPairingKey,
    /// Hash of the operation and of everything that must be equal.
    pub(super) call: u64,
    numbers: Vec<u64>,
}

impl ComparisonKeyWithFilehandleNumbers<'_> {
    fn filehandle_relation(&self, other: &Self) -> FilehandleComparisonResult {
        if self.numbers.len() != other.numbers.len() {
            return FilehandleComparisonResult::Other;
        }
        let mut relation = FilehandleComparisonResult::Same;
        let filehandles = self.key.filehandles.iter().zip(&other.key.filehandles);
        for ((a, b), (of_a, of_b)) in filehandles.zip(self.numbers.iter().zip(&other.numbers)) {
            let is_pair = *of_a != 0 && of_a == of_b;
            if !is_pair && a.origin != b.origin {
                if *of_a != 0 || *of_b != 0 {
                    return FilehandleComparisonResult::Other;
                }
                relation = FilehandleComparisonResult::Unknown;
            }
        }
        relation
    }

    /// Returns the hash of the Call and the origins of its filehandles.
    pub(super) fn origin_hash(&self) -> u64 {
        let origins = self.key.filehandles.iter();
        origins.fold(self.call, |hash, filehandle| mixed([hash, filehandle.origin, 0, 0]))
    }

    /// Returns `true` if both have the same arguments, and objects not known to be different.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.call == other.call && self.filehandle_relation(other) != FilehandleComparisonResult::Other
    }

    /// Returns the similarity of two Calls: one equal pair outweighs all similar ones, and filehandles decide between
    /// equal similarities.
    pub(super) fn weight(&self, other: &Self) -> u32 {
        let (a, b) = (self.key, other.key);
        if a.signature != b.signature {
            return 0;
        }
        let [same, unknown, others] = if self.call == other.call {
            [1_000_000, 900_000, 400_000]
        } else if a.about == b.about {
            [1_000, 900, 400]
        } else {
            [3, 2, 0]
        };
        match self.filehandle_relation(other) {
            FilehandleComparisonResult::Same => same,
            FilehandleComparisonResult::Unknown => unknown,
            FilehandleComparisonResult::Other => others,
        }
    }
}
