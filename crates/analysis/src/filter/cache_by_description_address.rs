//! A cache by the address of a description: descriptions are constants of the program, so that each is looked up by
//! name only once.

use rustc_hash::FxHashMap;

/// Number of direct-mapped entries. Colliding entries are in a map.
const DIRECT_ENTRIES: usize = 1024;

/// Values by address, at most one for each description of the program.
#[derive(Clone, Debug)]
pub(super) struct CacheKeyedByDescriptionAddress<T> {
    direct: Box<[(usize, T); DIRECT_ENTRIES]>,
    overflow: FxHashMap<usize, T>,
}

impl<T: Copy + Default> Default for CacheKeyedByDescriptionAddress<T> {
    fn default() -> Self {
        Self { direct: Box::new([(0, T::default()); DIRECT_ENTRIES]), overflow: FxHashMap::default() }
    }
}

impl<T: Copy> CacheKeyedByDescriptionAddress<T> {
    #[inline(always)]
    pub(super) fn get(&self, address: usize) -> Option<T> {
        let (cached_address, value) = self.place(address);
        if cached_address == address { Some(value) } else { self.other(address) }
    }

    #[inline(always)]
    fn place(&self, address: usize) -> (usize, T) {
        // Descriptions are at least as large as their alignment.
        self.direct[(address >> 4) % DIRECT_ENTRIES]
    }

    #[inline(never)]
    fn other(&self, address: usize) -> Option<T> {
        self.overflow.get(&address).copied()
    }

    pub(super) fn insert(&mut self, address: usize, value: T) {
        let entry = &mut self.direct[(address >> 4) % DIRECT_ENTRIES];
        if entry.0 == 0 {
            *entry = (address, value);
        } else {
            self.overflow.insert(address, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_slot_are_both_found() {
        let mut remembered = CacheKeyedByDescriptionAddress::default();
        let (one, other) = (0x1000, 0x1000 + (DIRECT_ENTRIES << 4));
        remembered.insert(one, 1);
        remembered.insert(other, 2);
        assert_eq!([one, other, other + 16].map(|at| remembered.get(at)), [Some(1), Some(2), None]);
    }
}
