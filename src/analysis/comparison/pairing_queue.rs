//! What one client does in one direction, on both sides: records wait here until both sides can be put together.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use nfsrdma_dissectors::flow::transaction::CallDirection;

use super::DifferenceKind;
use super::compare_class::{CompareClass, IdentityType};
use super::difference::DifferenceLocation;
use super::identity_map::{IdentityMap, IdentityName, TwoGenerationMap};
use super::record::{ComparisonRecord, RecordMessage, RecordValue, hash};
use super::recorder::{SignatureScope, arguments};

/// Records that are looked at where the two sides are not together: few first, and more where those are not enough.
pub(super) const WINDOWS: [usize; 3] = [128, 1_024, usize::MAX];
/// Records that found no partner and wait for one that comes late, of all lanes.
pub(super) const LEFT: usize = 4_096;

/// A Reply without its Call stands for a Transaction that found no partner when there were about as many pairs: at most so
/// many more or less.
pub(super) const NEAR: u64 = 64;

/// Who calls whom: the same client on both sides has the same place in the order in which clients appear, or the same
/// address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ComparisonClient {
    /// Address of the client of the connection, as text.
    pub address: Rc<str>,
    /// Whether it calls, or is called.
    pub direction: CallDirection,
}

/// A record that waits, and what it is known again by.
#[derive(Debug)]
pub(super) struct WaitingRecord {
    pub(super) record: ComparisonRecord,
    pub(super) key: RecordKey,
    /// How many pairs there were when it found no partner.
    pub(super) pairs: u64,
}

/// One side of a lane.
#[derive(Debug, Default)]
pub(super) struct PairingQueueSide {
    pub(super) client: Option<ComparisonClient>,
    pub(super) waiting: VecDeque<WaitingRecord>,
    /// The first frame of the last record that was taken.
    pub(super) passed: u64,
    /// The last frame of those that were taken.
    until: u64,
    /// Those that found no partner.
    pub(super) left: VecDeque<WaitingRecord>,
    /// Those that were given out after what followed them was taken: a Reply never came.
    pub(super) late: Vec<WaitingRecord>,
    pub(super) records: u64,
    /// Where the first of them is, and what it is about.
    pub(super) first: Option<(DifferenceLocation, Rc<str>)>,
    /// Records that were given up, because the other side did not have the client for long.
    pub(super) dropped: u64,
    /// The minor version of NFSv4 that the last of them had.
    minor_version: Option<u32>,
    /// Whether any of them went over RDMA.
    pub(super) is_rdma: bool,
    /// Whether any of them is a run of a step of the other side.
    has_steps: bool,
}

impl PairingQueueSide {
    /// Adds a record in the order of its first frame.
    pub(super) fn push(&mut self, waiting: WaitingRecord) {
        self.records += 1;
        self.is_rdma |= waiting.record.is_rdma();
        self.has_steps |= waiting.record.run_of.is_some();
        self.minor_version = waiting.record.minor_version.or(self.minor_version);
        let frame = frame(&waiting.record);
        if self.first.as_ref().is_none_or(|(place, _)| place.frame().is_none_or(|first| frame < first.0)) {
            self.first = Some((waiting.record.place, Rc::clone(&waiting.record.title)));
        }
        if frame < self.passed {
            self.late.push(waiting);
            return;
        }
        let is_before = |other: &WaitingRecord| self::frame(&other.record) <= frame;
        let at = self.waiting.iter().rposition(is_before).map_or(0, |at| at + 1);
        // Of hundreds of thousands of clients each has one record. Room for four at once would be one of the large pieces of
        // memory, which the allocator looks for among all others.
        if self.waiting.capacity() == 0 {
            self.waiting.reserve_exact(1);
        }
        self.waiting.insert(at, waiting);
    }

    /// Whether any of its records is a run of a step of the other side.
    pub(super) fn has_steps(&self) -> bool {
        self.has_steps
    }

    /// Whether nothing of it waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.left.is_empty() && self.late.is_empty()
    }

    /// Takes the first so many.
    pub(super) fn take(&mut self, count: usize) -> Vec<WaitingRecord> {
        let mut taken = Vec::with_capacity(count.min(self.waiting.len()));
        while taken.len() < count
            && let Some(mut waiting) = self.waiting.pop_front()
        {
            let next = self.waiting.front().map(|next| frame(&next.record));
            let record = &mut waiting.record;
            record.is_racing = frame(record) < self.until || next.is_some_and(|next| next < record.until);
            self.until = self.until.max(record.until);
            self.passed = self.passed.max(frame(record));
            taken.push(waiting);
        }
        // Of thousands of clients each would keep the memory of a few records.
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        taken
    }
}

/// First frame of a record.
pub(super) fn frame(record: &ComparisonRecord) -> u64 {
    record.place.frame().map_or(0, |frame| frame.0)
}

/// Both sides of what one client does in one direction.
#[derive(Debug, Default)]
pub(super) struct PairingQueue {
    pub(super) rows: [PairingQueueSide; 2],
}

impl PairingQueue {
    /// Whether B is a recording of a run of A: its records tell which of A they are. Such records are alike, at least.
    pub(super) fn is_run(&self) -> bool {
        self.rows[1].has_steps && !self.rows[0].has_steps
    }

    /// Which records that wait stand for each other, by the steps that were run, in the order of A. `None` where most of these
    /// ask something else: then B is a run of another capture.
    pub(super) fn pairs_by_step(&self) -> Option<Vec<(usize, usize)>> {
        let [a, b] = &self.rows;
        let of_b = b.waiting.iter().enumerate();
        let mut places: HashMap<u64, usize> = HashMap::with_capacity(b.waiting.len());
        // Of a step that was sent again the last counts.
        places.extend(of_b.filter_map(|(at, waiting)| Some((waiting.record.run_of?, at))));
        let found = a.waiting.iter().enumerate();
        let found = found.filter_map(|(at, waiting)| Some((at, *places.get(&waiting.record.place.index)?)));
        let mut pairs: Vec<_> = found.collect();
        let all = pairs.len();
        let signature =
            |row: &PairingQueueSide, at: usize| row.waiting.get(at).map(|waiting| waiting.key.signature);
        pairs.retain(|(i, j)| signature(a, *i) == signature(b, *j));
        (pairs.len() * 10 >= all * 9).then_some(pairs)
    }

    /// Whether both sides are of two minor versions of NFSv4.
    pub(super) fn is_other_minor(&self) -> bool {
        let [a, b] = &self.rows;
        a.minor_version.zip(b.minor_version).is_some_and(|(a, b)| a != b)
    }
}

/// What a Call is, as far as both sides can be expected to have it alike. Nothing of it changes by what is learnt later.
#[derive(Clone, Debug)]
pub(super) struct RecordKey {
    /// The operation, and everything in the Call that must be equal, in one number.
    call: u64,
    /// The same without what follows from the minor version.
    of_any_minor: u64,
    signature: u64,
    about: u64,
    /// The filehandles of the Call.
    filehandles: Box<[Filehandle]>,
}

/// A filehandle by its name, and by what brought it: two runs call a file otherwise, but find it in the same way.
#[derive(Clone, Copy, Debug)]
struct Filehandle {
    name: IdentityName,
    origin: u64,
}

/// What brought the filehandles of one side.
#[derive(Debug, Default)]
pub(super) struct FilehandleOrigins(TwoGenerationMap<IdentityName, u64>);

impl FilehandleOrigins {
    /// The key of a record, from whose messages filehandles are learnt.
    pub(super) fn key(&mut self, record: &ComparisonRecord) -> RecordKey {
        let by = mixed([record.signature, asked(record), 0, 0]);
        let filehandles = record.call.as_ref().map(|call| self.heard(call, by, 0)).unwrap_or_default();
        let scope = filehandles.first().map_or(0, |filehandle| filehandle.origin);
        if let Some(reply) = &record.reply {
            self.heard(reply, by, scope);
        }
        RecordKey {
            call: mixed([record.signature, record.arguments, 0, 0]),
            of_any_minor: by,
            signature: record.signature,
            about: record.about,
            filehandles,
        }
    }

    /// The filehandles of a message. One that is new came by this operation, below that filehandle, and beside this name.
    fn heard(&mut self, message: &RecordMessage, by: u64, scope: u64) -> Box<[Filehandle]> {
        let mut found = Vec::new();
        let mut beside = scope;
        for entry in message.sections.iter().flat_map(|section| &section.entries) {
            match entry.path.role {
                CompareClass::Identity(IdentityType::Filehandle) => {}
                CompareClass::Equal(DifferenceKind::Name) => {
                    beside = mixed([scope, datum_hash(&entry.datum), 1, 0]);
                    continue;
                }
                _ => continue,
            }
            let Some(name) = IdentityName::of(IdentityType::Filehandle, &entry.datum, None) else { continue };
            let origin = match self.0.get(name) {
                Some(origin) => *origin,
                None => {
                    let place = hash(entry.path.text.as_bytes()) as u64;
                    let origin = mixed([by, beside, place, 0]);
                    self.0.insert(name, origin);
                    origin
                }
            };
            found.push(Filehandle { name, origin });
        }
        found.into()
    }
}

/// What a record asks in any minor version.
fn asked(record: &ComparisonRecord) -> u64 {
    match (&record.call, record.minor_version) {
        (Some(call), Some(_)) => arguments(call, SignatureScope::InAnyMinorVersion),
        _ => record.arguments,
    }
}

fn datum_hash(datum: &RecordValue) -> u64 {
    match datum {
        RecordValue::Text(bytes) | RecordValue::Bytes(bytes) => hash(bytes) as u64,
        other => hash(other.to_string().as_bytes()) as u64,
    }
}

fn mixed(words: [u64; 4]) -> u64 {
    let mut bytes = [0; 32];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    hash(&bytes) as u64
}

/// What the filehandles of two Calls are to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FilehandleRelation {
    /// The same, as far as is known.
    Same,
    /// Nothing is known of them.
    Unknown,
    /// Known to be others.
    Other,
}

impl RecordKey {
    /// With what is known of its filehandles by now.
    pub(super) fn known(
        &self,
        side: usize,
        is_other_minor: bool,
        renaming: &mut IdentityMap,
    ) -> NumberedRecordKey<'_> {
        let number = |filehandle: &Filehandle| renaming.number(side, filehandle.name);
        let call = if is_other_minor { self.of_any_minor } else { self.call };
        NumberedRecordKey { key: self, call, numbers: self.filehandles.iter().map(number).collect() }
    }
}

/// A key, and the numbers that its filehandles share with those of the other side.
pub(super) struct NumberedRecordKey<'k> {
    key: &'k RecordKey,
    /// The operation and what must be equal in it, in one number.
    pub(super) call: u64,
    numbers: Vec<u64>,
}

impl NumberedRecordKey<'_> {
    fn objects(&self, other: &Self) -> FilehandleRelation {
        if self.numbers.len() != other.numbers.len() {
            return FilehandleRelation::Other;
        }
        let mut objects = FilehandleRelation::Same;
        let filehandles = self.key.filehandles.iter().zip(&other.key.filehandles);
        for ((a, b), (of_a, of_b)) in filehandles.zip(self.numbers.iter().zip(&other.numbers)) {
            let is_pair = *of_a != 0 && of_a == of_b;
            if !is_pair && a.origin != b.origin {
                if *of_a != 0 || *of_b != 0 {
                    return FilehandleRelation::Other;
                }
                objects = FilehandleRelation::Unknown;
            }
        }
        objects
    }

    /// Whether both ask the same, of objects that are not known to be others.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.call == other.call && self.objects(other) != FilehandleRelation::Other
    }

    /// How alike two Calls are: one pair of those that ask the same outweighs all that are alike, and the filehandles
    /// decide among those which are as alike.
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
        match self.objects(other) {
            FilehandleRelation::Same => same,
            FilehandleRelation::Unknown => unknown,
            FilehandleRelation::Other => others,
        }
    }
}
