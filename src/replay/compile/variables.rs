//! What servers and clients name, and the numbers that a trace gives it. Names are remembered by their hash, in two
//! generations of each kind, so that those which were not met for longest are forgotten: a name that comes again after that
//! is a new variable that nothing defines, and it is counted.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use twox_hash::XxHash3_128;

use crate::replay::trace::{Holds, Variable};

/// What is remembered in two generations.
#[derive(Debug)]
pub(super) struct Remembered<K, V> {
    young: FxHashMap<K, V>,
    old: FxHashMap<K, V>,
    bound: usize,
    pub(super) forgotten: u64,
}

impl<K: Copy + Eq + Hash, V: Copy> Remembered<K, V> {
    /// Remembers so many at least, and twice as many at most.
    pub(super) fn new(bound: usize) -> Self {
        Self { young: FxHashMap::default(), old: FxHashMap::default(), bound, forgotten: 0 }
    }

    pub(super) fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(*value);
        }
        let value = self.old.remove(&key)?;
        self.insert(key, value);
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.bound && !self.young.contains_key(&key) {
            std::mem::swap(&mut self.young, &mut self.old);
            self.forgotten += self.young.len() as u64;
            self.young.clear();
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

/// A variable, and the step that defined it; 0 where none did before its first use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) variable: u32,
    pub(super) definition: u64,
}

/// Gives one number to each name.
#[derive(Debug)]
pub(super) struct Variables {
    filehandles: Remembered<u128, Known>,
    stateids: Remembered<u128, Known>,
    cookies: Remembered<u128, Known>,
    changes: Remembered<u128, Known>,
    others: Remembered<u128, Known>,
    count: u32,
}

impl Default for Variables {
    fn default() -> Self {
        Self {
            filehandles: Remembered::new(1 << 19),
            stateids: Remembered::new(1 << 18),
            cookies: Remembered::new(1 << 17),
            changes: Remembered::new(1 << 15),
            others: Remembered::new(1 << 15),
            count: 0,
        }
    }
}

/// Where a name counts: on a server, for a client, in a directory, of a file. Which of them matters follows from what it is
/// a name of; the others are left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scope {
    pub(super) server: u32,
    pub(super) client: u32,
    pub(super) file: u32,
}

impl Variables {
    fn of(&mut self, holds: Holds) -> &mut Remembered<u128, Known> {
        match holds {
            Holds::FILEHANDLE => &mut self.filehandles,
            Holds::STATEID => &mut self.stateids,
            Holds::COOKIE => &mut self.cookies,
            Holds::CHANGE => &mut self.changes,
            _ => &mut self.others,
        }
    }

    /// The variable of a name; where it was not known, a new one that `definition` defines. Tells whether it was known.
    pub(super) fn get(&mut self, holds: Holds, scope: Scope, name: &[u8], definition: u64) -> (Known, bool) {
        let place = match holds {
            Holds::COOKIE | Holds::COOKIE_VERIFIER | Holds::CHANGE => [scope.server, scope.file],
            Holds::OWNER | Holds::CLIENT_VERIFIER | Holds::CREATE_VERIFIER | Holds::PROGRAM => {
                [scope.client, u32::MAX]
            }
            Holds::CLIENT_OWNER | Holds::HOST => [u32::MAX, u32::MAX],
            _ => [scope.server, u32::MAX],
        };
        let mut hasher = twox_hash::xxhash3_128::Hasher::with_seed(u64::from(holds.0));
        hasher.write(&place.map(u32::to_be_bytes).concat());
        hasher.write(name);
        let key = hasher.finish_128();
        if let Some(known) = self.of(holds).get(key) {
            return (known, true);
        }
        let known = Known { variable: self.new_one().0, definition };
        self.of(holds).insert(key, known);
        (known, false)
    }

    /// A variable without a name.
    pub(super) fn new_one(&mut self) -> Variable {
        let new = Variable(self.count);
        // The last number stands for none.
        self.count = self.count.saturating_add(1).min(u32::MAX - 1);
        new
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.count.into()
    }

    /// Names that were forgotten; change values aside, of which each is met a few times.
    pub(super) fn forgotten(&self) -> u64 {
        [&self.filehandles, &self.stateids, &self.cookies, &self.others].map(|of| of.forgotten).iter().sum()
    }
}

/// The hash that names data and values.
pub(super) fn hash(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_used_is_remembered_and_others_are_forgotten() {
        let mut remembered = Remembered::new(4);
        remembered.insert(0, 'a');
        for key in 1..100 {
            remembered.insert(key, 'b');
            assert_eq!(remembered.get(0), Some('a'));
        }
        assert_eq!(remembered.get(1), None);
        assert!(remembered.forgotten > 80);
    }

    #[test]
    fn a_cookie_counts_in_its_directory_and_a_filehandle_on_its_server() {
        let mut variables = Variables::default();
        let mut of = |holds, server, file| {
            variables.get(holds, Scope { server, client: 0, file }, b"name", 1).0.variable
        };
        assert_ne!(of(Holds::COOKIE, 0, 1), of(Holds::COOKIE, 0, 2));
        assert_eq!(of(Holds::COOKIE, 0, 1), of(Holds::COOKIE, 0, 1));
        assert_eq!(of(Holds::FILEHANDLE, 0, 1), of(Holds::FILEHANDLE, 0, 2));
        assert_ne!(of(Holds::FILEHANDLE, 0, 1), of(Holds::FILEHANDLE, 1, 1));
        assert_ne!(of(Holds::FILEHANDLE, 0, 1), of(Holds::STATEID, 0, 1));
    }
}
