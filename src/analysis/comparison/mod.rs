//! Two captures side by side: what is the same, what differs, and where.
//!
//! - [`recorder`]: a Transaction is reduced to a [`record`], every field of it, whatever the operation;
//! - [`role`]: the one table that says which fields must be equal, which are identities, and which may differ;
//! - [`lane`]: records of one client and one direction, on both sides; [`alignment`]: which of them stand for each other;
//! - [`pair`]: two records compared; [`renaming`]: the names that identities have on both sides;
//! - [`difference`]: what comes out; [`selection`]: which differences count, by a [`vocabulary`]; [`tally`]: how many there are, and the first;
//! - [`drive`]: both captures from beginning to end.
//!
//! Both captures are read at once, and no more of either is kept than is needed to put them together again where one has
//! what the other has not. So captures of any length are compared in a fixed amount of memory.

mod alignment;
pub mod difference;
mod drive;
mod lane;
pub mod pair;
pub mod record;
pub mod recorder;
pub mod renaming;
pub mod role;
pub mod selection;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod trace;
mod vocabulary;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use nfsrdma_dissectors::flow::transaction::Direction;

use difference::{Difference, Half, Kind};
pub use lane::Client;
use lane::{Key, LEFT, Lane, Row, WINDOW, frame};
use pair::{Compared, Comparer, half};
use record::Record;
use renaming::Renaming;
use selection::Selection;

/// Records of one side that wait, at most.
pub const WAITING: usize = 16_384;
/// Bytes that they take, at most, about.
pub const WAITING_BYTES: usize = 64 << 20;
/// Clients that are remembered when they wait for nothing.
const LANES: usize = 16_384;
/// Operations that are counted apart.
const OPERATIONS: usize = 1_024;

/// One of two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first: the recording, or what was before.
    A,
    /// The second: the replay, or what is now.
    B,
}

/// How far a lane is worked off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
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
pub struct Mix {
    /// How often A and B have it.
    pub counts: [u64; 2],
    /// Its differences.
    pub differences: u64,
}

/// Compares two captures.
#[derive(Debug)]
pub struct Comparison {
    selection: Selection,
    renaming: Renaming,
    lanes: Vec<Lane>,
    /// Which lane is whose, on each side.
    clients: [HashMap<Client, usize>; 2],
    waiting: [usize; 2],
    waiting_bytes: [usize; 2],
    /// Records that found no partner, of all lanes.
    left: usize,
    /// The differences with the lowest frames, as many as are wanted.
    differences: Vec<Difference>,
    most: usize,
    counts: BTreeMap<Kind, u64>,
    /// Differences that the selection leaves out.
    filtered: u64,
    mix: BTreeMap<Rc<str>, Mix>,
    compared: Compared,
    pairs: u64,
    reordered: u64,
    set_up: u64,
}

impl Comparison {
    /// A comparison that has seen nothing, and keeps so many differences.
    pub fn new(selection: Selection, most: usize) -> Self {
        Self {
            selection,
            renaming: Renaming::default(),
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
            compared: Compared::default(),
            pairs: 0,
            reordered: 0,
            set_up: 0,
        }
    }

    /// Takes a record of a side.
    pub fn push(&mut self, side: Side, client: Client, record: Record) {
        let at = side as usize;
        self.waiting[at] += 1;
        self.waiting_bytes[at] += record.size();
        let name = self.mix_name(&record.class);
        self.mix.entry(name).or_default().counts[at] += 1;
        let lane = *self.clients[at].entry(client).or_insert_with_key(|client| {
            let mut lane = Lane::default();
            lane.rows[at].client = Some(client.clone());
            self.lanes.push(lane);
            self.lanes.len() - 1
        });
        self.lanes[lane].rows[at].push(record);
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
    pub fn has_enough(&self, side: Side) -> bool {
        let at = side as usize;
        self.waiting[at] >= WAITING || self.waiting_bytes[at] >= WAITING_BYTES
    }

    /// Puts together what can be. Some of what waits is left, so that what follows can still be looked at; `are_over` says
    /// which captures have ended.
    pub fn advance(&mut self, are_over: [bool; 2]) {
        if are_over == [true; 2] {
            return;
        }
        self.join_lanes(false);
        for at in 0..self.lanes.len() {
            self.with_lane(at, |this, lane| {
                this.work(lane, Pace::Steady);
                this.leave_alone(lane);
            });
        }
        // Of many clients each has little that waits, and all of it is too much. What is the same needs no look ahead. Half
        // of it goes, so that this is not done again for the next record.
        for pace in [Pace::Together, Pace::Pressed] {
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

    fn with_lane(&mut self, at: usize, work: impl FnOnce(&mut Self, &mut Lane)) {
        let Some(mut lane) = self.lanes.get_mut(at).map(std::mem::take) else { return };
        work(self, &mut lane);
        self.lanes[at] = lane;
    }

    /// Whether so many records wait on a side, or as many bytes in proportion.
    fn is_full(&self, records: usize) -> bool {
        let bytes = WAITING_BYTES / WAITING * records;
        (0..2).any(|at| self.waiting[at] >= records || self.waiting_bytes[at] >= bytes)
    }

    /// What a client does that the other side does not have yet cannot wait for ever.
    fn leave_alone(&mut self, lane: &mut Lane) {
        for (at, side) in [(0, Side::A), (1, Side::B)] {
            if lane.rows[1 - at].client.is_none() && self.has_enough(side) {
                let half = lane.rows[at].waiting.len().div_ceil(2);
                let records = lane.rows[at].take(half);
                self.took(at, &records);
                self.left += records.len();
                lane.rows[at].left.extend(records);
                self.evict(lane);
            }
        }
    }

    /// Of those that found no partner only so many wait for one that comes late.
    fn evict(&mut self, lane: &mut Lane) {
        let across = is_across(lane);
        for side in 0..2 {
            while self.left > LEFT
                && let Some(record) = lane.rows[side].left.pop_front()
            {
                self.left -= 1;
                self.alone(&record, side, across);
            }
        }
    }

    /// Both captures have ended.
    pub fn finish(&mut self) {
        self.join_lanes(true);
        for mut lane in std::mem::take(&mut self.lanes) {
            self.work(&mut lane, Pace::Last);
            self.settle(&mut lane);
        }
        self.sort();
    }

    /// Clients of one side alone find their likes on the other: by address, or else in the order in which they appear.
    fn join_lanes(&mut self, is_all: bool) {
        let of = |lanes: &[Lane], side: usize| -> Vec<usize> {
            (0..lanes.len()).filter(|at| lanes[*at].rows[1 - side].client.is_none()).collect()
        };
        let client = |lanes: &[Lane], at: usize, side: usize| lanes[at].rows[side].client.clone();
        let (mut alone_a, mut alone_b) = (of(&self.lanes, 0), of(&self.lanes, 1));
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        alone_a.retain(|a| {
            let same = client(&self.lanes, *a, 0).and_then(|client| self.clients[1].get(&client).copied());
            let free = same.filter(|b| self.lanes[*b].rows[0].client.is_none());
            pairs.extend(free.map(|b| (*a, b)));
            free.is_none()
        });
        let taken: HashSet<usize> = pairs.iter().map(|(_, b)| *b).collect();
        alone_b.retain(|b| !taken.contains(b));
        // Two decodings of one capture have the same clients.
        let directions = [Direction::Forward, Direction::Reverse].into_iter();
        for direction in directions.filter(|_| !self.selection.exact) {
            let goes = |at: &usize, side: usize| {
                self.lanes[*at].rows[side].client.as_ref().is_some_and(|client| client.direction == direction)
            };
            let in_a = alone_a.iter().filter(|at| goes(at, 0));
            let in_b = alone_b.iter().filter(|at| goes(at, 1));
            pairs.extend(in_a.copied().zip(in_b.copied()));
        }
        for (a, b) in &pairs {
            let row = std::mem::take(&mut self.lanes[*b].rows[1]);
            self.lanes[*a].rows[1] = row;
        }
        // Of clients without number those go that wait for nothing; they are known again when they call again.
        let is_crowded = self.lanes.len() > LANES;
        self.lanes.retain(|lane| {
            lane.rows.iter().any(|row| row.client.is_some())
                && !(is_crowded && !is_all && lane.rows.iter().all(Row::is_idle))
        });
        self.clients.iter_mut().for_each(HashMap::clear);
        for (at, lane) in self.lanes.iter().enumerate() {
            for (clients, row) in self.clients.iter_mut().zip(&lane.rows) {
                clients.extend(row.client.clone().map(|client| (client, at)));
            }
        }
        if !is_all {
            return;
        }
        // One difference says that a client is on one side alone.
        for lane in &mut self.lanes {
            let Some(alone) = (0..2).find(|side| lane.rows[1 - side].client.is_none()) else { continue };
            let row = std::mem::take(&mut lane.rows[alone]);
            let (Some(client), Some(first)) = (row.client.clone(), row.waiting.front()) else { continue };
            let here = Half {
                place: Some(first.place),
                frame: first.place.frame(),
                value: Some(format!("{} with {} Transactions", client.address, row.records)),
            };
            let halves = if alone == 0 { [here, Half::default()] } else { [Half::default(), here] };
            let [a, b] = halves;
            let difference = Difference {
                kind: Kind::Client,
                operation: first.title.to_string(),
                path: String::new(),
                field: "",
                times: 1,
                a,
                b,
            };
            let (counts, mix) = (&mut self.counts, &mut self.mix);
            let is_told = Self::tell(&self.selection, counts, mix, &mut self.differences, difference);
            self.filtered += u64::from(!is_told);
        }
    }

    /// Whether the selection lets it be told.
    fn tell(
        selection: &Selection,
        counts: &mut BTreeMap<Kind, u64>,
        mix: &mut BTreeMap<Rc<str>, Mix>,
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

    fn compare(&mut self, a: &Record, b: &Record, is_across: bool) {
        self.pairs += 1;
        if is_across && a.is_set_up && !a.is_null {
            self.set_up += 1;
            return;
        }
        let differences = Comparer {
            selection: &self.selection,
            renaming: &mut self.renaming,
            compared: &mut self.compared,
            is_other_minor: false,
        }
        .compare(a, b);
        for difference in differences {
            self.report(difference);
        }
    }

    fn took(&mut self, side: usize, records: &[Record]) {
        self.waiting[side] -= records.len();
        self.waiting_bytes[side] =
            self.waiting_bytes[side].saturating_sub(records.iter().map(Record::size).sum());
    }

    /// Goes along both rows of a lane.
    fn work(&mut self, lane: &mut Lane, pace: Pace) {
        loop {
            let across = is_across(lane);
            let [a, b] = &mut lane.rows;
            // What is not the last may still be joined by one of a lower frame.
            let keep = match pace {
                Pace::Steady => WINDOW.max((a.waiting.len() + b.waiting.len()) / 8),
                Pace::Together | Pace::Pressed | Pace::Last => 0,
            };
            if a.waiting.len() <= keep && b.waiting.len() <= keep {
                return;
            }
            let heads = a.waiting.front().zip(b.waiting.front());
            let together = heads.is_some_and(|(one, other)| {
                Key::of(one, 0, &mut self.renaming) == Key::of(other, 1, &mut self.renaming)
            });
            if together {
                let (of_a, of_b) = (a.take(1), b.take(1));
                self.took(0, &of_a);
                self.took(1, &of_b);
                for (one, other) in of_a.iter().zip(&of_b) {
                    self.compare(one, other, across);
                }
                continue;
            }
            if pace == Pace::Together {
                return;
            }
            self.apart(lane, pace == Pace::Last);
        }
    }

    /// The heads are not the same: finds where the rows go on together.
    fn apart(&mut self, lane: &mut Lane, is_all: bool) {
        let [a, b] = &mut lane.rows;
        let keys = |row: &Row, side: usize, renaming: &mut Renaming| -> Vec<_> {
            row.waiting.iter().take(WINDOW).map(|record| Key::of(record, side, renaming)).collect()
        };
        let (keys_a, keys_b) = (keys(a, 0, &mut self.renaming), keys(b, 1, &mut self.renaming));
        let is_end = is_all && keys_a.len() == a.waiting.len() && keys_b.len() == b.waiting.len();
        let same = |i: usize, j: usize| keys_a.get(i) == keys_b.get(j);
        // The same filehandle and offset first, then the same operation.
        let about = |i: usize, j: usize| {
            keys_a
                .get(i)
                .zip(keys_b.get(j))
                .is_some_and(|(one, other)| (one.signature, one.about) == (other.signature, other.about))
        };
        let alike = |i: usize, j: usize| {
            keys_a.get(i).zip(keys_b.get(j)).is_some_and(|(one, other)| one.signature == other.signature)
        };
        let found = alignment::align(keys_a.len(), keys_b.len(), is_end, same, &[&about, &alike]);
        let (of_a, of_b) = (a.take(found.until.0), b.take(found.until.1));
        self.took(0, &of_a);
        self.took(1, &of_b);
        // In the order of A, because what is defined is used later.
        let across = is_across(lane);
        let mut pairs: Vec<_> = found.pairs.iter().chain(&found.moved).copied().collect();
        pairs.sort_unstable();
        for (i, j) in &pairs {
            if let (Some(one), Some(other)) = (of_a.get(*i), of_b.get(*j)) {
                self.compare(one, other, across);
                if found.moved.contains(&(*i, *j)) {
                    self.moved(&of_a, &of_b, (*i, *j), &pairs);
                }
            }
        }
        for (side, records) in [(0, of_a), (1, of_b)] {
            let is_free = |at: usize| !pairs.iter().any(|(i, j)| if side == 0 { *i == at } else { *j == at });
            let free =
                records.into_iter().enumerate().filter(|(at, _)| is_free(*at)).map(|(_, record)| record);
            let row = &mut lane.rows[side];
            let before = row.left.len();
            row.left.extend(free);
            self.left += row.left.len() - before;
        }
        self.evict(lane);
    }

    /// A record stands in another place on the other side. That is a difference where one of the two operations waited
    /// for the other on both sides; operations that were in flight at the same time do not depend on each other.
    fn moved(&mut self, a: &[Record], b: &[Record], (i, j): (usize, usize), pairs: &[(usize, usize)]) {
        let (Some(one), Some(other)) = (a.get(i), b.get(j)) else { return };
        let waited = |first: &Record, second: &Record| first.until < frame(second);
        let is_exact = self.selection.strict || self.selection.exact;
        let crossed = pairs.iter().find(|(p, q)| {
            let (Some(in_a), Some(in_b)) = (a.get(*p), b.get(*q)) else { return false };
            if i < *p && j > *q {
                is_exact || waited(one, in_a) && waited(in_b, other)
            } else if i > *p && j < *q {
                is_exact || waited(in_a, one) && waited(other, in_b)
            } else {
                false
            }
        });
        let Some((p, q)) = crossed else {
            self.reordered += 1;
            return;
        };
        let (Some(in_a), Some(in_b)) = (a.get(*p), b.get(*q)) else { return };
        let word = |is_before: bool, record: &Record| {
            let word = if is_before { "before" } else { "after" };
            Some(format!("{word} {} of frame {}", record.title, frame(record)))
        };
        self.report(Difference {
            kind: Kind::Order,
            operation: one.title.to_string(),
            path: String::new(),
            field: "",
            times: 1,
            a: half(one, true, word(i < *p, in_a)),
            b: half(other, true, word(j < *q, in_b)),
        });
    }

    /// What found no partner: the one that came late may be it.
    fn settle(&mut self, lane: &mut Lane) {
        let across = is_across(lane);
        for side in 0..2 {
            for late in std::mem::take(&mut lane.rows[side].late) {
                let wanted = Key::of(&late, side, &mut self.renaming);
                self.waiting[side] -= 1;
                let renaming = &mut self.renaming;
                let found = lane.rows[1 - side]
                    .left
                    .iter()
                    .position(|other| Key::of(other, 1 - side, renaming) == wanted);
                self.left -= usize::from(found.is_some());
                match found.and_then(|at| lane.rows[1 - side].left.remove(at)) {
                    Some(other) if side == 0 => self.compare(&late, &other, across),
                    Some(other) => self.compare(&other, &late, across),
                    None => {
                        self.left += 1;
                        lane.rows[side].left.push_back(late);
                    }
                }
            }
        }
        for side in 0..2 {
            for record in std::mem::take(&mut lane.rows[side].left) {
                self.left -= 1;
                self.alone(&record, side, across);
            }
        }
    }

    /// A record of one side alone.
    fn alone(&mut self, record: &Record, side: usize, is_across: bool) {
        // How often a connection is tried out is no work of the client's.
        if is_across && record.is_set_up {
            self.set_up += 1;
            return;
        }
        let here = half(record, true, Some(record.about()));
        let (kind, a, b) = if side == 0 {
            (Kind::Missing, here, Half::default())
        } else {
            (Kind::Extra, Half::default(), here)
        };
        let operation = record.title.to_string();
        self.report(Difference { kind, operation, path: String::new(), field: "", times: 1, a, b });
    }

    /// Tells a difference that is of the captures as a whole.
    pub fn whole(&mut self, kind: Kind, what: &str, a: impl ToString, b: impl ToString) {
        let side = |value: String| Half { place: None, frame: None, value: Some(value) };
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
    pub fn counts(&self) -> &BTreeMap<Kind, u64> {
        &self.counts
    }

    /// How many differences there are.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The operations of both sides.
    pub fn mix(&self) -> &BTreeMap<Rc<str>, Mix> {
        &self.mix
    }

    /// What was compared of the pairs.
    pub fn compared(&self) -> Compared {
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
fn is_across(lane: &Lane) -> bool {
    let is_rdma = |side: usize| {
        let row = &lane.rows[side];
        row.is_rdma
    };
    lane.rows.iter().all(|row| row.client.is_some()) && is_rdma(0) != is_rdma(1)
}
