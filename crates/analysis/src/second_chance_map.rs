//! A map with a maximum number of entries, which forgets an entry that was not used for long.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// A map that forgets entries by the clock algorithm: if it is full, a hand goes round all entries, and stops at the
/// first one that was not used since it passed there last ("second chance").
///
/// The hash table contains indices alone, because a table that loses and gains entries may double its size at any time.
#[derive(Debug)]
pub struct SecondChanceMap<K, V> {
    entries: Vec<(K, V)>,
    /// `true` for entries that were used since the hand passed them.
    used: Vec<bool>,
    indices: HashTable<u32>,
    /// Index of the entry at which the search for one to forget continues.
    hand: usize,
    capacity: usize,
    forgotten: u64,
}

impl<K: Copy + Eq + Hash, V> SecondChanceMap<K, V> {
    /// Maximum memory of an entry in bytes. Lists have at most half their final length before they grow to it, and
    /// seven eighths of a hash table may be free.
    pub const ENTRY_BYTES: usize = (size_of::<(K, V)>() + 1) * 3 / 2 + 8 * (size_of::<u32>() + 1);

    /// Creates a map of at most `capacity` entries, and at least one.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, u32::MAX as usize);
        let (entries, used, indices) = (Vec::new(), Vec::new(), HashTable::new());
        Self { entries, used, indices, hand: 0, capacity, forgotten: 0 }
    }

    /// Creates a map that uses at most `bytes` bytes, besides the memory that its values own.
    pub fn for_memory(bytes: usize) -> Self {
        Self::new(bytes / Self::ENTRY_BYTES)
    }

    /// Returns the number of entries that were forgotten.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns a value, and marks it as used.
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        let index = self.index(key)?;
        if let Some(is_used) = self.used.get_mut(index) {
            *is_used = true;
        }
        self.entries.get_mut(index).map(|(_, value)| value)
    }

    /// Adds or replaces a value.
    pub fn insert(&mut self, key: K, value: V) {
        if let Some(index) = self.index(key) {
            if let Some((_, existing)) = self.entries.get_mut(index) {
                *existing = value;
            }
            return;
        }
        let index = if self.entries.len() < self.capacity {
            if self.entries.len() == self.entries.capacity() {
                let additional = self.entries.len().max(4).min(self.capacity - self.entries.len());
                self.entries.reserve_exact(additional);
                self.used.reserve_exact(additional);
            }
            self.entries.push((key, value));
            self.used.push(false);
            self.entries.len() - 1
        } else {
            let index = self.least_used();
            if let Some(victim) = self.entries.get_mut(index) {
                let (old_key, _) = std::mem::replace(victim, (key, value));
                self.remove_index(old_key, index);
                self.forgotten += 1;
            }
            index
        };
        let entries = &self.entries;
        let hash_of = |index: &u32| entries.get(*index as usize).map_or(0, |(key, _)| hash(*key));
        self.indices.insert_unique(hash(key), index as u32, hash_of);
    }

    /// Removes a value.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let index = self.index(key)?;
        self.remove_index(key, index);
        let last = self.entries.len() - 1;
        let (_, value) = self.entries.swap_remove(index);
        self.used.swap_remove(index);
        // The last entry takes the place.
        if let Some((moved, _)) = self.entries.get(index)
            && let Some(slot) = self.indices.find_mut(hash(*moved), |position| *position as usize == last)
        {
            *slot = index as u32;
        }
        Some(value)
    }

    /// Returns the index of the first entry after the hand that was not used, and moves the hand behind it.
    fn least_used(&mut self) -> usize {
        loop {
            let index = if self.hand < self.entries.len() { self.hand } else { 0 };
            self.hand = index + 1;
            match self.used.get_mut(index) {
                Some(is_used) if *is_used => *is_used = false,
                _ => return index,
            }
        }
    }

    fn index(&self, key: K) -> Option<usize> {
        let is_key = |index: &u32| self.entries.get(*index as usize).is_some_and(|(stored_key, _)| *stored_key == key);
        self.indices.find(hash(key), is_key).map(|index| *index as usize)
    }

    fn remove_index(&mut self, key: K, index: usize) {
        if let Ok(entry) = self.indices.find_entry(hash(key), |position| *position as usize == index) {
            entry.remove();
        }
    }
}

fn hash(key: impl Hash) -> u64 {
    FxBuildHasher.hash_one(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_capacity_the_least_used_entries_are_evicted() {
        let mut map = SecondChanceMap::new(4);
        (0..4).for_each(|key| map.insert(key, key));
        assert!((0..4).all(|key| map.get(key).is_some()) && map.forgotten() == 0);
        map.insert(4, 4);
        // All were used, so that the oldest goes.
        assert!(map.get(0).is_none() && map.get(1).is_some());
        map.insert(5, 5);
        assert!(map.get(1).is_some() && map.get(2).is_none());
        assert_eq!(map.forgotten(), 2);
    }

    #[test]
    fn entries_in_use_stay_however_many_others_come() {
        let mut map = SecondChanceMap::new(8);
        map.insert(0, 0);
        for key in 1..1_000 {
            assert!(map.get(0).is_some());
            map.insert(key, key);
            assert!(map.entries.len() <= 8 && map.indices.len() <= 8);
        }
        assert_eq!(map.forgotten(), 1_000 - 8);
    }

    #[test]
    fn entries_that_are_removed_and_come_again_take_no_more_memory() {
        let mut map = SecondChanceMap::new(8);
        for _ in 0..1_000 {
            map.insert(1, 1);
            assert_eq!(map.remove(1), Some(1));
            assert!(map.entries.is_empty() && map.indices.is_empty());
        }
        assert_eq!(map.forgotten(), 0);
    }
    #[test]
    fn the_values_are_those_of_a_map_without_a_limit() {
        let mut map = SecondChanceMap::new(1_000);
        let mut expected = std::collections::BTreeMap::new();
        for step in 0..20_000u32 {
            // Multiplicative congruential steps visit keys in no order.
            let key = step.wrapping_mul(2_654_435_761) >> 22;
            if step % 3 == 2 {
                assert_eq!(map.remove(key), expected.remove(&key));
            } else if map.entries.len() < 1_000 {
                map.insert(key, step);
                expected.insert(key, step);
            }
            assert_eq!((map.entries.len(), map.indices.len()), (expected.len(), expected.len()));
        }
        assert_eq!(map.forgotten(), 0);
        assert!(expected.len() > 300);
        assert!(expected.iter().all(|(key, value)| map.get(*key) == Some(&mut value.clone())));
    }

    #[test]
    fn the_memory_of_a_full_map_does_not_grow() {
        let count = 30_000u64;
        let mut map = SecondChanceMap::new(count as usize);
        let measured = allocation_counter::measure(|| (0..20 * count).for_each(|key| map.insert(key, [key; 4])));
        let most = count * SecondChanceMap::<u64, [u64; 4]>::ENTRY_BYTES as u64;
        assert!(measured.bytes_max <= most, "{} of {most}", measured.bytes_max);
        assert_eq!(map.forgotten(), 19 * count);
    }
}
