//! What was found out once of a description, by where it stands: descriptions are constants of the program, so their
//! addresses name them, and names are compared once for each.

use rustc_hash::FxHashMap;

/// Places where an answer is found at once. What finds its place taken is looked for in a map.
const PLACES: usize = 1024;

/// Answers by address. There are as many as the program has descriptions.
#[derive(Clone, Debug)]
pub(super) struct PtrCache<T> {
    places: Box<[(usize, T); PLACES]>,
    others: FxHashMap<usize, T>,
}

impl<T: Copy + Default> Default for PtrCache<T> {
    fn default() -> Self {
        Self { places: Box::new([(0, T::default()); PLACES]), others: FxHashMap::default() }
    }
}

impl<T: Copy> PtrCache<T> {
    /// The answer, if it was found out before.
    #[inline(always)]
    pub(super) fn get(&self, address: usize) -> Option<T> {
        let (known, answer) = self.place(address);
        if known == address { Some(answer) } else { self.other(address) }
    }

    #[inline(always)]
    fn place(&self, address: usize) -> (usize, T) {
        // Descriptions are at least as large as the words that their addresses are multiples of.
        self.places[(address >> 4) % PLACES]
    }

    #[inline(never)]
    fn other(&self, address: usize) -> Option<T> {
        self.others.get(&address).copied()
    }

    /// Remembers an answer.
    pub(super) fn put(&mut self, address: usize, answer: T) {
        let place = &mut self.places[(address >> 4) % PLACES];
        if place.0 == 0 {
            *place = (address, answer);
        } else {
            self.others.insert(address, answer);
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
