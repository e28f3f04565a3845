//! Identities by consistent renaming: the same name for the same thing, on both sides.
//!
//! Filehandles, stateids and the like are made up anew in each run. What one side calls by one name, the other must call
//! by one name, too. Which names belong together is learnt as the comparison goes: the Reply that defines a filehandle
//! comes before the Calls that use it.

use std::collections::HashMap;

use nfsrdma_dissectors::frame::FrameNumber;

use super::record::{Datum, hash};
use super::role::Identity;

/// Pairs that a generation has at most. Two generations are kept, so that those which were not used for longest go.
const GENERATION: usize = 1 << 19;

/// A name of an identity on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    identity: Identity,
    hash: u128,
}

impl Name {
    /// The name that a value is; `None` where every side has the same, as the stateid of zeros (RFC 8881 section 8.2.3) or
    /// the first cookie. A cookie is a place in one directory, which `scope` is.
    pub fn of(identity: Identity, datum: &Datum, scope: Option<Self>) -> Option<Self> {
        let is_constant = match datum {
            Datum::Number(0) => !matches!(identity, Identity::MinorVersion | Identity::Program),
            Datum::Bytes(bytes) => {
                bytes.iter().all(|byte| *byte == 0) || bytes.iter().all(|byte| *byte == 0xff)
            }
            Datum::Text(text) => text.is_empty(),
            _ => false,
        };
        if is_constant {
            return None;
        }
        let mut bytes = datum.to_string().into_bytes();
        if identity == Identity::Cookie
            && let Some(scope) = scope
        {
            bytes.extend_from_slice(&scope.hash.to_be_bytes());
        }
        Some(Self { identity, hash: hash(&bytes) })
    }
}

/// Two names that stand for the same thing.
#[derive(Clone, Copy, Debug)]
struct Pair {
    name: Name,
    number: u64,
    uses: u64,
    since: [Option<FrameNumber>; 2],
}

/// What a pair of names turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They stand for each other.
    Same,
    /// One of them stands for another name already, since these frames of A and B.
    Other([Option<FrameNumber>; 2]),
}

#[derive(Debug, Default)]
struct Half {
    young: HashMap<Name, Pair>,
    old: HashMap<Name, Pair>,
}

impl Half {
    fn get(&mut self, name: Name) -> Option<&mut Pair> {
        if let Some(pair) = self.old.remove(&name) {
            self.young.entry(name).or_insert(pair);
        }
        self.young.get_mut(&name)
    }

    fn insert(&mut self, name: Name, pair: Pair) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(name, pair);
    }

    fn remove(&mut self, name: Name) {
        self.young.remove(&name);
        self.old.remove(&name);
    }
}

/// The names of both sides that stand for each other.
#[derive(Debug, Default)]
pub struct Renaming {
    halves: [Half; 2],
    count: u64,
}

impl Renaming {
    /// A number that both names of a pair share; 0 for a name that is in no pair. `side` is 0 for A and 1 for B.
    pub fn number(&mut self, side: usize, name: Name) -> u64 {
        self.halves.get_mut(side).and_then(|half| half.get(name)).map_or(0, |pair| pair.number)
    }

    /// Two names stand in the same place. They are a pair from now on if neither is in another.
    pub fn pair(&mut self, a: Name, b: Name, frames: [Option<FrameNumber>; 2]) -> Verdict {
        let [half_a, half_b] = &mut self.halves;
        match (half_a.get(a), half_b.get(b)) {
            (Some(of_a), Some(of_b)) if of_a.name == b => {
                of_a.uses += 1;
                of_b.uses += 1;
                Verdict::Same
            }
            (None, None) => {
                self.learn(a, b, frames);
                Verdict::Same
            }
            (of_a, of_b) => {
                let known = of_a.or(of_b).copied();
                let since = known.map_or([None, None], |pair| pair.since);
                // Seen once only, the first may have been the odd one: what is used later decides.
                if known.is_some_and(|pair| pair.uses == 0) {
                    self.forget(a, b);
                    self.learn(a, b, frames);
                }
                Verdict::Other(since)
            }
        }
    }

    fn learn(&mut self, a: Name, b: Name, since: [Option<FrameNumber>; 2]) {
        self.count += 1;
        let pair = |name| Pair { name, number: self.count, uses: 0, since };
        let (of_a, of_b) = (pair(b), pair(a));
        let [half_a, half_b] = &mut self.halves;
        half_a.insert(a, of_a);
        half_b.insert(b, of_b);
    }

    fn forget(&mut self, a: Name, b: Name) {
        let [half_a, half_b] = &mut self.halves;
        if let Some(pair) = half_a.get(a).copied() {
            half_b.remove(pair.name);
        }
        if let Some(pair) = half_b.get(b).copied() {
            half_a.remove(pair.name);
        }
        half_a.remove(a);
        half_b.remove(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::of(Identity::Filehandle, &Datum::Text(text.as_bytes().into()), None).unwrap()
    }

    fn frames(frame: u64) -> [Option<FrameNumber>; 2] {
        [Some(FrameNumber(frame)), Some(FrameNumber(frame + 100))]
    }

    #[test]
    fn one_name_on_one_side_is_one_name_on_the_other() {
        let mut renaming = Renaming::default();
        assert_eq!(renaming.pair(name("a"), name("x"), frames(1)), Verdict::Same);
        assert_eq!(renaming.pair(name("a"), name("x"), frames(2)), Verdict::Same);
        assert_eq!(renaming.pair(name("a"), name("y"), frames(3)), Verdict::Other(frames(1)));
        assert_eq!(renaming.pair(name("b"), name("x"), frames(4)), Verdict::Other(frames(1)));
        assert_eq!(renaming.pair(name("a"), name("x"), frames(5)), Verdict::Same);
        assert_eq!(renaming.number(0, name("a")), renaming.number(1, name("x")));
        assert_eq!(renaming.number(1, name("y")), 0);
    }

    #[test]
    fn where_the_definition_was_the_odd_one_what_is_used_later_counts() {
        let mut renaming = Renaming::default();
        renaming.pair(name("a"), name("odd"), frames(1));
        assert_eq!(renaming.pair(name("a"), name("x"), frames(2)), Verdict::Other(frames(1)));
        assert_eq!(renaming.pair(name("a"), name("x"), frames(3)), Verdict::Same);
    }

    #[test]
    fn what_is_the_same_everywhere_has_no_name_of_its_own() {
        assert_eq!(Name::of(Identity::Stateid, &Datum::Bytes([0; 12].into()), None), None);
        assert_eq!(Name::of(Identity::Stateid, &Datum::Bytes([0xff; 12].into()), None), None);
        assert_eq!(Name::of(Identity::Cookie, &Datum::Number(0), None), None);
        assert!(Name::of(Identity::MinorVersion, &Datum::Number(0), None).is_some());
    }

    #[test]
    fn a_cookie_is_a_place_in_one_directory() {
        let cookie = |directory| Name::of(Identity::Cookie, &Datum::Number(7), Some(name(directory)));
        assert_ne!(cookie("a"), cookie("b"));
    }
}
