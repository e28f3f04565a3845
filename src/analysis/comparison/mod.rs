//! Two captures side by side: what is the same, what differs, and where.
//!
//! - [`recorder`]: a Transaction is reduced to a [`record`], every field of it, whatever the operation;
//! - [`compare_class`]: the one table that says which fields must be equal, which are identities, and which may differ;
//! - [`clients`]: which clients are the same; [`pairing_queue`]: records of one client and one direction, on both sides;
//! - [`queue_matching`]: along both; [`alignment`]: which of them stand for each other,
//!   by what nothing learnt later changes;
//! - [`record_comparison`]: two records compared; [`compare_policy`]: what is compared of them; [`listing`]: entries of directories, by name;
//!   [`lengths`]: chunks and what went inline;
//! - [`identity_map`]: the names that identities have on both sides;
//! - [`difference`]: what comes out; [`options`]: which differences count, by a [`ignore_keys`]; [`tally`]: how many there
//!   are, and the first;
//! - [`record_amendments`]: what is known of a Transaction that comes from a trace;
//! - [`main_loop`]: both captures from beginning to end.
//!
//! Both captures are read at once, and no more of either is kept than is needed to put them together again where one has
//! what the other has not. So captures of any length are compared in a fixed amount of memory.

mod alignment;
pub mod capture;
mod clients;
pub mod compare_class;
mod compare_policy;
pub mod difference;
pub mod identity_map;
mod ignore_keys;
mod lengths;
mod listing;
mod main_loop;
pub mod options;
mod pairing_queue;
mod queue_matching;
pub mod record;
pub mod record_amendments;
pub mod record_comparison;
pub mod recorder;
pub mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use difference::{Difference, DifferenceKind, DifferenceSide};
pub use pairing_queue::ComparisonClient;
use pairing_queue::{FilehandleOrigins, LEFT, PairingQueue, WaitingRecord};
use record_comparison::{ComparedCounts, RecordComparer, half};

use identity_map::IdentityMap;
use options::ComparisonOptions;
use record::ComparisonRecord;

/// Records of one side that wait, at most.
pub const WAITING: usize = 16_384;
/// Clients that are remembered when they wait for nothing, at most.
const LANES: usize = 16_384;
/// Memory of a client that waits for nothing, in bytes, about.
const LANE_BYTES: usize = 1_024;
/// Operations that are counted apart.
const OPERATIONS: usize = 1_024;

/// One of two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonSide {
    /// The first: the recording, or what was before.
    A,
    /// The second: the replay, or what is now.
    B,
}

/// How far a lane is worked off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PairingUrgency {
    /// Some is left, so that what comes later can still be looked at.
    Steady,
    /// As long as both sides are the same.
    Together,
    /// All of it, because too much waits.
    Pressed,
    /// All of it: nothing comes after it.
    Last,
}

/// How often an operation is on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationSideCounts {
    /// How often A and B have it.
    pub counts: [u64; 2],
    /// Its differences.
    pub differences: u64,
}

/// Compares two captures.
#[derive(Debug)]
pub struct Comparison {
    selection: ComparisonOptions,
    renaming: IdentityMap,
    /// What brought the filehandles of each side.
    origins: [FilehandleOrigins; 2],
    lanes: Vec<PairingQueue>,
    /// Which lane is whose, on each side.
    clients: [HashMap<ComparisonClient, usize>; 2],
    waiting: [usize; 2],
    waiting_bytes: [usize; 2],
    /// Memory for records that wait and for clients, in bytes.
    room_bytes: usize,
    /// Records that found no partner, of all lanes.
    left: usize,
    /// The differences with the lowest frames, as many as are wanted.
    differences: Vec<Difference>,
    most: usize,
    counts: BTreeMap<DifferenceKind, u64>,
    /// Differences that the selection leaves out.
    filtered: u64,
    mix: BTreeMap<Rc<str>, OperationSideCounts>,
    compared: ComparedCounts,
    pairs: u64,
    reordered: u64,
    set_up: u64,
    /// Clients that passes over all of them visited.
    #[cfg(test)]
    visited: u64,
}

impl Comparison {
    /// A comparison that has seen nothing, and keeps so many differences. Records that wait, and clients, take so many bytes.
    pub fn new(selection: ComparisonOptions, most: usize, room_bytes: usize) -> Self {
        Self {
            room_bytes,
            selection,
            renaming: IdentityMap::default(),
            origins: Default::default(),
            lanes: Vec::new(),
            clients: Default::default(),
            left: 0,
            waiting: [0; 2],
            waiting_bytes: [0; 2],
            differences: Vec::new(),
            most: most.max(1),
            counts: BTreeMap::new(),
            filtered: 0,
            mix: BTreeMap::new(),
            compared: ComparedCounts::default(),
            pairs: 0,
            reordered: 0,
            set_up: 0,
            #[cfg(test)]
            visited: 0,
        }
    }

    /// Takes a record of a side.
    pub fn push(&mut self, side: ComparisonSide, client: ComparisonClient, record: ComparisonRecord) {
        let at = side as usize;
        self.waiting[at] += 1;
        self.waiting_bytes[at] += record.size();
        let name = self.mix_name(&record.class);
        self.mix.entry(name).or_default().counts[at] += 1;
        let lane = *self.clients[at].entry(client).or_insert_with_key(|client| {
            let mut lane = PairingQueue::default();
            lane.rows[at].client = Some(client.clone());
            self.lanes.push(lane);
            self.lanes.len() - 1
        });
        let key = self.origins[at].key(&record);
        self.lanes[lane].rows[at].push(WaitingRecord { record, key, pairs: 0 });
    }

    /// A capture full of nonsense has operations without end.
    fn mix_name(&self, class: &Rc<str>) -> Rc<str> {
        if self.mix.contains_key(class) || self.mix.len() < OPERATIONS {
            Rc::clone(class)
        } else {
            "other operations".into()
        }
    }

    /// Whether a side has enough records for [`Self::advance`].
    pub fn has_enough(&self, side: ComparisonSide) -> bool {
        self.holds(side, WAITING)
    }

    /// Puts together what can be. Some of what waits is left, so that what follows can still be looked at; `are_over` says
    /// which captures have ended.
    pub fn advance(&mut self, are_over: [bool; 2]) {
        if are_over == [true; 2] {
            return;
        }
        self.join_lanes(false);
        for at in 0..self.lanes.len() {
            self.with_lane(at, |this, lane| this.work(lane, PairingUrgency::Steady));
        }
        for side in [ComparisonSide::A, ComparisonSide::B]
            .into_iter()
            .filter(|side| self.has_enough(*side))
            .collect::<Vec<_>>()
        {
            self.drop_unmatched(side);
        }
        // Of many clients each has little that waits, and all of it is too much. What is the same needs no look ahead. Half
        // of it goes, so that this is not done again for the next record.
        for pace in [PairingUrgency::Together, PairingUrgency::Pressed] {
            if !self.is_full(WAITING) {
                return;
            }
            for at in 0..self.lanes.len() {
                if self.is_full(WAITING / 2) {
                    self.with_lane(at, |this, lane| this.work(lane, pace));
                }
            }
        }
    }

    fn with_lane(&mut self, at: usize, work: impl FnOnce(&mut Self, &mut PairingQueue)) {
        #[cfg(test)]
        {
            self.visited += 1;
        }
        let Some(mut lane) = self.lanes.get_mut(at).map(std::mem::take) else { return };
        work(self, &mut lane);
        self.lanes[at] = lane;
    }

    /// Whether so many records wait on either side, or as many bytes in proportion.
    fn is_full(&self, records: usize) -> bool {
        [ComparisonSide::A, ComparisonSide::B].into_iter().any(|side| self.holds(side, records))
    }

    /// Whether so many records of a side wait, or as many bytes in proportion.
    fn holds(&self, side: ComparisonSide, records: usize) -> bool {
        let at = side as usize;
        // Each side has three eighths of the memory, and clients the rest.
        self.waiting[at] >= records || self.waiting_bytes[at] >= self.room_bytes / 8 * 3 / WAITING * records
    }

    /// Whether more clients are remembered than may be. A pass over all of them must free about as many records, so that they
    /// are fewer where fewer records can wait.
    fn is_crowded(&self) -> bool {
        self.lanes.len() > LANES.min(self.room_bytes / 4 / LANE_BYTES)
    }

    /// Of those that found no partner only so many wait for one that comes late.
    fn evict(&mut self, lane: &mut PairingQueue) {
        let across = is_across(lane);
        for side in 0..2 {
            while self.left > LEFT
                && let Some(waiting) = lane.rows[side].left.pop_front()
            {
                self.left -= 1;
                self.alone(&waiting.record, side, across);
            }
        }
    }

    /// Both captures have ended.
    pub fn finish(&mut self) {
        self.join_lanes(true);
        for mut lane in std::mem::take(&mut self.lanes) {
            self.work(&mut lane, PairingUrgency::Last);
            self.settle(&mut lane);
        }
        self.tell_wrong_names(true);
        self.sort();
    }

    /// Whether the selection lets it be told.
    fn tell(
        selection: &ComparisonOptions,
        counts: &mut BTreeMap<DifferenceKind, u64>,
        mix: &mut BTreeMap<Rc<str>, OperationSideCounts>,
        differences: &mut Vec<Difference>,
        difference: Difference,
    ) -> bool {
        if !selection.counts(&difference) {
            return false;
        }
        *counts.entry(difference.kind).or_default() += 1;
        if let Some(mix) = mix.get_mut(class(&difference.operation).as_str()) {
            mix.differences += 1;
        }
        differences.push(difference);
        true
    }

    fn report(&mut self, difference: Difference) {
        let (counts, mix) = (&mut self.counts, &mut self.mix);
        let is_told = Self::tell(&self.selection, counts, mix, &mut self.differences, difference);
        self.filtered += u64::from(!is_told);
        if self.differences.len() >= self.most.saturating_mul(2).max(1024) {
            self.sort();
        }
    }

    /// Keeps the first.
    fn sort(&mut self) {
        self.differences.sort_by_key(Difference::order);
        self.differences.truncate(self.most);
    }

    fn compare(&mut self, a: &ComparisonRecord, b: &ComparisonRecord, is_across: bool) {
        self.pairs += 1;
        if is_across && a.is_set_up && !a.is_null {
            self.set_up += 1;
            return;
        }
        let differences = RecordComparer {
            selection: &self.selection,
            renaming: &mut self.renaming,
            compared: &mut self.compared,
        }
        .compare(a, b);
        for difference in differences {
            self.report(difference);
        }
        self.tell_wrong_names(false);
    }

    /// Which names belong together is known later than they are compared.
    fn tell_wrong_names(&mut self, is_last: bool) {
        for difference in self.renaming.wrong(is_last) {
            self.report(difference);
        }
    }

    fn took(&mut self, side: usize, records: &[WaitingRecord]) {
        self.waiting[side] -= records.len();
        let bytes = records.iter().map(|waiting| waiting.record.size()).sum();
        self.waiting_bytes[side] = self.waiting_bytes[side].saturating_sub(bytes);
    }

    /// A record of one side alone.
    fn alone(&mut self, record: &ComparisonRecord, side: usize, is_across: bool) {
        // How often a connection is tried out is no work of the client's.
        if is_across && record.is_set_up {
            self.set_up += 1;
            return;
        }
        let here = half(record, true, Some(record.about()));
        let (kind, a, b) = if side == 0 {
            (DifferenceKind::Missing, here, DifferenceSide::default())
        } else {
            (DifferenceKind::Extra, DifferenceSide::default(), here)
        };
        let operation = record.title.to_string();
        self.report(Difference { kind, operation, path: String::new(), field: "", times: 1, a, b });
    }

    /// Tells a difference that is of the captures as a whole.
    pub fn whole(&mut self, kind: DifferenceKind, what: &str, a: impl ToString, b: impl ToString) {
        let side = |value: String| DifferenceSide { place: None, frame: None, value: Some(value) };
        self.report(Difference {
            kind,
            operation: "capture".to_owned(),
            path: what.to_owned(),
            field: "",
            times: 1,
            a: side(a.to_string()),
            b: side(b.to_string()),
        });
    }

    /// Whether two counts of the captures as a whole are near enough.
    pub fn tolerates(&self, key: &str, a: u64, b: u64) -> bool {
        self.selection
            .tolerances
            .iter()
            .any(|tolerance| tolerance.fields == key && tolerance.most.allows(a, b))
    }

    /// How many differences the selection leaves out: `--ignore`, `--only`, or the settings of a baseline.
    pub fn filtered(&self) -> u64 {
        self.filtered
    }

    /// The differences with the lowest frames, in their order; without those that were taken.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// How many differences there are of each kind.
    pub fn counts(&self) -> &BTreeMap<DifferenceKind, u64> {
        &self.counts
    }

    /// How many differences there are.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The operations of both sides.
    pub fn mix(&self) -> &BTreeMap<Rc<str>, OperationSideCounts> {
        &self.mix
    }

    /// What was compared of the pairs.
    pub fn compared(&self) -> ComparedCounts {
        self.compared
    }

    /// Transactions that stood for each other.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Transactions that came in another order, but did not depend on each other.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Calls that find the way to a program (NULL, PORTMAP), where one side has RDMA and the other has not.
    pub fn set_up(&self) -> u64 {
        self.set_up
    }
}

/// `NFS 4 READ` of `NFS 4.2 READ`.
pub(crate) fn class(title: &str) -> String {
    let words = title.split(' ').map(|word| match word.split_once('.') {
        Some((major, minor)) if [major, minor].iter().all(|part| part.parse::<u32>().is_ok()) => major,
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether one side of a lane has RDMA, and the other has not.
fn is_across(lane: &PairingQueue) -> bool {
    let is_rdma = |side: usize| {
        let row = &lane.rows[side];
        row.is_rdma
    };
    lane.rows.iter().all(|row| row.client.is_some()) && is_rdma(0) != is_rdma(1)
}
