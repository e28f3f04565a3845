//! A cache by the address of a description: descriptions are constants of the program, so that each is looked up by
//! name only once.

use rustc_hash::FxHashMap;

/// Number of direct-mapped entries. Colliding entries are in a map.
const PLACES: usize = 1024;

/// Values by address, at most one for each description of the program.
#[derive(Clone, Debug)]
pub(super) struct PtrCache<T> {
    places: Box<[(usize, T); PLACES]>,
    overflow: FxHashMap<usize, T>,
}

impl<T: Copy + Default> Default for PtrCache<T> {
    fn default() -> Self {
        Self { places: Box::new([(0, T::default()); PLACES]), overflow: FxHashMap::default() }
    }
}

impl<T: Copy> PtrCache<T> {
    /// Returns the value, if it is cached.
    #[inline(always)]
    pub(super) fn get(&self, address: usize) -> Option<T> {
        let (known, answer) = self.place(address);
        if known == address { Some(answer) } else { self.other(address) }
    }

    #[inline(always)]
    fn place(&self, address: usize) -> (usize, T) {
        // Descriptions are at least as large as their alignment.
        self.places[(address >> 4) % PLACES]
    }

    #[inline(never)]
    fn other(&self, address: usize) -> Option<T> {
        self.overflow.get(&address).copied()
    }

    /// Adds a value.
    pub(super) fn put(&mut self, address: usize, answer: T) {
        let place = &mut self.places[(address >> 4) % PLACES];
        if place.0 == 0 {
            *place = (address, answer);
        } else {
            self.overflow.insert(address, answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_whose_places_are_one_are_both_known() {
        let mut remembered = PtrCache::default();
        let (one, other) = (0x1000, 0x1000 + (PLACES << 4));
        remembered.put(one, 1);
        remembered.put(other, 2);
        assert_eq!([one, other, other + 16].map(|at| remembered.get(at)), [Some(1), Some(2), None]);
    }
}
