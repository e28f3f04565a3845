//! Which segments a handle names.

use std::collections::BTreeMap;

use super::ledger::{Key, SegmentAt};

/// A segment that was offered under a handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) key: Key,
    pub(super) at: SegmentAt,
    pub(super) offset: u64,
}

/// The segments that a handle names. There is nearly always one; but a chunk may have several of one handle, a handle is
/// used again by later Calls, and some clients have one handle for all their memory.
#[derive(Debug)]
pub(super) struct HandleUse {
    pub(super) latest: Use,
    /// By their offsets.
    pub(super) others: BTreeMap<u64, (Key, SegmentAt)>,
    /// With so many others, those are thrown out whose Calls were answered.
    enough: usize,
}

/// How many segments before an offset are looked at for one that holds it: more than one only where they overlap.
const NEIGHBOURS: usize = 8;

impl HandleUse {
    pub(super) fn new(latest: Use) -> Self {
        Self { latest, others: BTreeMap::new(), enough: NEIGHBOURS }
    }

    /// A new segment comes before those that are known.
    pub(super) fn add(&mut self, latest: Use, is_open: impl Fn(Key) -> bool) {
        let before = std::mem::replace(&mut self.latest, latest);
        // A Call that was answered no longer owns what it advertised.
        if is_open(before.key) {
            self.others.insert(before.offset, (before.key, before.at));
        }
        if self.others.len() > self.enough {
            self.others.retain(|_, (key, _)| is_open(*key));
            self.enough = NEIGHBOURS.max(2 * self.others.len());
        }
    }

    /// Takes a segment out; tells whether none is left.
    pub(super) fn remove(&mut self, key: Key, offset: u64) -> bool {
        if self.others.get(&offset).is_some_and(|(other, _)| *other == key) {
            self.others.remove(&offset);
        }
        if self.latest.key == key {
            let Some((offset, (key, at))) = self.others.pop_last() else { return true };
            self.latest = Use { key, at, offset };
        }
        false
    }

    /// The segments that may hold what is at an offset.
    pub(super) fn around(&self, offset: u64) -> impl Iterator<Item = (Key, SegmentAt)> + '_ {
        let before = self.others.range(..=offset).rev().take(NEIGHBOURS);
        std::iter::once((self.latest.key, self.latest.at)).chain(before.map(|(_, place)| *place))
    }
}
