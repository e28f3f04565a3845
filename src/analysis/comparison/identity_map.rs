//! Identities by consistent renaming: the same name for the same thing, on both sides.
//!
//! Filehandles, stateids and the like are made up anew in each run. What one side calls by one name, the other must call
//! by one name, too. Two names that stand in the same place are a pair; of pairs that contradict each other, that which
//! stands more often is believed, and of two that stand as often, the earlier. So it does not matter whether the odd
//! one comes first: it is told where it stands, once, when all that contradicts it is known.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use nfsrdma_dissectors::frame::FrameNumber;

use super::compare_class::IdentityType;
use super::difference::{Difference, DifferenceKind, DifferenceLocation, DifferenceSide};
use super::record::{FieldPath, RecordValue, hash};

/// Names that a generation has at most. Two generations are kept, so that those which were not used for longest go.
const GENERATION: usize = 1 << 17;
/// Pairs that contradict others and are not told yet, at most.
const DISPUTES: usize = 1 << 14;

/// A name of an identity on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdentityName {
    identity: IdentityType,
    hash: u128,
}

impl IdentityName {
    /// The name that a value is; `None` where every side has the same, as the stateid of zeros (RFC 8881 section 8.2.3) or
    /// the first cookie. A cookie is a place in one directory, which `scope` is.
    pub fn of(identity: IdentityType, datum: &RecordValue, scope: Option<Self>) -> Option<Self> {
        let is_constant = match datum {
            RecordValue::Number(0) => !matches!(identity, IdentityType::MinorVersion | IdentityType::Program),
            RecordValue::Bytes(bytes) => {
                bytes.iter().all(|byte| *byte == 0) || bytes.iter().all(|byte| *byte == 0xff)
            }
            RecordValue::Text(text) => text.is_empty(),
            _ => false,
        };
        if is_constant {
            return None;
        }
        let mut bytes = datum.to_string().into_bytes();
        if identity == IdentityType::Cookie
            && let Some(scope) = scope
        {
            bytes.extend_from_slice(&scope.hash.to_be_bytes());
        }
        Some(Self { identity, hash: hash(&bytes) })
    }
}

/// What is remembered in two generations.
#[derive(Debug)]
pub(super) struct TwoGenerationMap<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for TwoGenerationMap<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash, V> TwoGenerationMap<K, V> {
    pub(super) fn get(&mut self, key: K) -> Option<&mut V> {
        if let Some(value) = self.old.remove(&key) {
            self.young.entry(key).or_insert(value);
        }
        self.young.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    fn remove(&mut self, key: K) -> Option<V> {
        let old = self.old.remove(&key);
        self.young.remove(&key).or(old)
    }
}

/// Where two names first stood in the same place: what a difference tells.
#[derive(Clone, Debug)]
pub struct FirstPairing {
    /// What the Transaction is about.
    pub operation: Rc<str>,
    /// The operation within the COMPOUND.
    pub section: Rc<str>,
    /// The field.
    pub path: Rc<FieldPath>,
    /// What the names are names of.
    pub identity: IdentityType,
    /// Where the Transactions are, on A and B.
    pub places: [DifferenceLocation; 2],
    /// The frames that show the field, on A and B.
    pub frames: [Option<FrameNumber>; 2],
    /// The names as they stand there.
    pub values: [RecordValue; 2],
}

/// Two names that stood in the same place, and how often.
#[derive(Debug)]
struct IdentityLink {
    count: u64,
    first: Box<FirstPairing>,
}

/// A name of A, and what it is on B.
#[derive(Debug)]
struct IdentityPair {
    other: IdentityName,
    number: u64,
    link: IdentityLink,
}

/// The names of both sides that stand for each other.
#[derive(Debug, Default)]
pub struct IdentityMap {
    /// By the name of A.
    pairs: TwoGenerationMap<IdentityName, IdentityPair>,
    /// By the name of B: that of A.
    back: TwoGenerationMap<IdentityName, IdentityName>,
    /// What contradicts them.
    disputes: HashMap<(IdentityName, IdentityName), IdentityLink>,
    count: u64,
    wrong: Vec<Difference>,
}

impl IdentityMap {
    /// A number that both names of a pair share; 0 for a name that is in no pair. `side` is 0 for A and 1 for B.
    pub fn number(&mut self, side: usize, name: IdentityName) -> u64 {
        let of_a = if side == 0 { Some(name) } else { self.back.get(name).copied() };
        of_a.and_then(|name| self.pairs.get(name)).map_or(0, |pair| pair.number)
    }

    /// Two names stand in the same place.
    pub fn pair(&mut self, a: IdentityName, b: IdentityName, sighting: impl FnOnce() -> FirstPairing) {
        if let Some(pair) = self.pairs.get(a)
            && pair.other == b
        {
            pair.link.count += 1;
            return;
        }
        let link = match self.disputes.get_mut(&(a, b)) {
            Some(link) => {
                link.count += 1;
                link.count
            }
            None => {
                let link = IdentityLink { count: 1, first: Box::new(sighting()) };
                if self.count_of(a, b) == 0 {
                    self.learn(a, b, link);
                    return;
                }
                if self.disputes.len() >= DISPUTES {
                    self.settle();
                }
                self.disputes.insert((a, b), link);
                1
            }
        };
        if link > self.count_of(a, b)
            && let Some(link) = self.disputes.remove(&(a, b))
        {
            self.part(a, b);
            self.learn(a, b, link);
        }
    }

    /// How often the pairs stand that one of these names is in with another.
    fn count_of(&mut self, a: IdentityName, b: IdentityName) -> u64 {
        let of_a = self.pairs.get(a).map_or(0, |pair| pair.link.count);
        let other = self.back.get(b).copied();
        of_a.max(other.and_then(|other| self.pairs.get(other)).map_or(0, |pair| pair.link.count))
    }

    fn learn(&mut self, a: IdentityName, b: IdentityName, link: IdentityLink) {
        self.count += 1;
        self.pairs.insert(a, IdentityPair { other: b, number: self.count, link });
        self.back.insert(b, a);
    }

    /// The pairs that these names are in are none any more, but what contradicts the better one.
    fn part(&mut self, a: IdentityName, b: IdentityName) {
        let other = self.back.remove(b);
        for name in [Some(a), other].into_iter().flatten() {
            if let Some(pair) = self.pairs.remove(name) {
                self.back.remove(pair.other);
                self.disputes.insert((name, pair.other), pair.link);
            }
        }
    }

    /// Decides what contradicts: of names that are free by now the one that stands most often is a pair, and the others
    /// are differences.
    fn settle(&mut self) {
        let mut disputes: Vec<_> = self.disputes.drain().collect();
        disputes.sort_by_key(|(_, link)| {
            let [a, b] = link.first.places.map(|place| place.index);
            (std::cmp::Reverse(link.count), a, b, link.first.frames)
        });
        for ((a, b), link) in disputes {
            if self.count_of(a, b) == 0 {
                self.learn(a, b, link);
                continue;
            }
            let other = self.back.get(b).copied();
            let of_a = self.pairs.get(a).map(|pair| pair.link.first.frames);
            let of_b = other.and_then(|other| self.pairs.get(other)).map(|pair| pair.link.first.frames);
            let since = [of_a.or(of_b).and_then(|[a, _]| a), of_b.or(of_a).and_then(|[_, b]| b)];
            self.wrong.push(difference(link, since));
        }
    }

    /// The pairs that turned out to be wrong since this was asked last. Nothing is left open if `is_last`.
    pub fn wrong(&mut self, is_last: bool) -> Vec<Difference> {
        if is_last {
            self.settle();
        }
        std::mem::take(&mut self.wrong)
    }
}

/// Names that stand for something else elsewhere, `since` these frames.
fn difference(link: IdentityLink, since: [Option<FrameNumber>; 2]) -> Difference {
    let FirstPairing { operation, section, path, identity, places, frames, values } = *link.first;
    let half = |at: usize| {
        let [value, since] = [
            values.get(at).map(RecordValue::shown).unwrap_or_default(),
            match since.get(at) {
                Some(Some(since)) => format!(", unlike in frame {since}"),
                _ => String::new(),
            },
        ];
        DifferenceSide {
            place: places.get(at).copied(),
            frame: frames.get(at).copied().flatten(),
            value: Some(format!("{} {value}{since}", identity.name())),
        }
    };
    let dot = if section.is_empty() { "" } else { "." };
    Difference {
        kind: DifferenceKind::Identity,
        operation: operation.to_string(),
        path: format!("{section}{dot}{}", path.text),
        field: path.field,
        times: link.count,
        a: half(0),
        b: half(1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare_class::CompareClass;
    use super::*;

    fn name(text: &str) -> IdentityName {
        IdentityName::of(IdentityType::Filehandle, &RecordValue::Text(text.as_bytes().into()), None).unwrap()
    }

    /// Pairs of names in the order of their frames; the frames of the differences and what they stand against.
    fn wrong(pairs: &[(&str, &str)]) -> Vec<(u64, String)> {
        let mut renaming = IdentityMap::default();
        for (at, (a, b)) in (1..).zip(pairs) {
            see(&mut renaming, at, a, b);
        }
        let wrong = renaming.wrong(true);
        wrong.into_iter().map(|wrong| (wrong.a.frame.unwrap().0, wrong.b.value.unwrap())).collect()
    }

    fn see(renaming: &mut IdentityMap, at: u64, a: &str, b: &str) {
        renaming.pair(name(a), name(b), || FirstPairing {
            operation: "NFS 3 LOOKUP".into(),
            section: "LOOKUP".into(),
            path: Rc::new(FieldPath::new(
                "object",
                "nfs.fhandle",
                CompareClass::Identity(IdentityType::Filehandle),
            )),
            identity: IdentityType::Filehandle,
            places: [DifferenceLocation { index: at, ..DifferenceLocation::default() }; 2],
            frames: [Some(FrameNumber(at)), Some(FrameNumber(at + 100))],
            values: [a, b].map(|text| RecordValue::Text(text.as_bytes().into())),
        });
    }

    #[test]
    fn one_name_on_one_side_is_one_name_on_the_other() {
        assert_eq!(wrong(&[("a", "x"), ("b", "y"), ("a", "x"), ("b", "y")]), []);
        let told = |frame: u64, value: &str| (frame, format!("filehandle {value}, unlike in frame 101"));
        assert_eq!(wrong(&[("a", "x"), ("a", "x"), ("a", "y")]), [told(3, "\"y\"")]);
        assert_eq!(wrong(&[("a", "x"), ("a", "x"), ("b", "x")]), [told(3, "\"x\"")]);
    }

    #[test]
    fn a_definition_that_pairs_otherwise_than_what_follows_is_told_at_its_own_frame() {
        let told = (1, "filehandle \"odd\", unlike in frame 102".to_owned());
        assert_eq!(wrong(&[("a", "odd"), ("a", "x"), ("a", "x"), ("a", "x")]), [told]);
        // Of two that stand as often the earlier is believed.
        let told = (2, "filehandle \"odd\", unlike in frame 101".to_owned());
        assert_eq!(wrong(&[("a", "x"), ("a", "odd")]), [told]);
    }

    #[test]
    fn a_name_of_another_thing_is_told_once_however_often_it_stands_and_takes_nothing_from_that_thing() {
        // The definition of a says y, which is that of b.
        assert_eq!(wrong(&[("a", "y"), ("b", "y"), ("a", "x"), ("b", "y"), ("a", "x")]).len(), 1);
        let twice = [("a", "x"), ("b", "y"), ("a", "x"), ("b", "y"), ("a", "x"), ("a", "y"), ("a", "y")];
        assert_eq!(wrong(&twice).len(), 1);
        // Two definitions that changed places are two.
        let swapped = [("a", "y"), ("b", "x"), ("a", "x"), ("b", "y"), ("a", "x"), ("b", "y")];
        assert_eq!(wrong(&swapped).iter().map(|(frame, _)| *frame).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_pair_has_one_number_on_both_sides() {
        let mut renaming = IdentityMap::default();
        see(&mut renaming, 1, "a", "x");
        assert_eq!(renaming.number(0, name("a")), renaming.number(1, name("x")));
        assert_eq!((renaming.number(1, name("y")), renaming.number(0, name("x"))), (0, 0));
    }

    #[test]
    fn what_contradicts_is_bounded() {
        let mut renaming = IdentityMap::default();
        (0..3).for_each(|_| see(&mut renaming, 1, "a", "x"));
        for at in 0..3 * DISPUTES as u64 {
            see(&mut renaming, at, "a", &format!("y{at}"));
            assert!(renaming.disputes.len() <= DISPUTES);
        }
        assert_eq!(renaming.wrong(true).len(), 3 * DISPUTES);
    }

    #[test]
    fn what_is_the_same_everywhere_has_no_name_of_its_own() {
        assert_eq!(IdentityName::of(IdentityType::Stateid, &RecordValue::Bytes([0; 12].into()), None), None);
        assert_eq!(
            IdentityName::of(IdentityType::Stateid, &RecordValue::Bytes([0xff; 12].into()), None),
            None
        );
        assert_eq!(IdentityName::of(IdentityType::Cookie, &RecordValue::Number(0), None), None);
        assert!(IdentityName::of(IdentityType::MinorVersion, &RecordValue::Number(0), None).is_some());
    }

    #[test]
    fn a_cookie_is_a_place_in_one_directory() {
        let cookie = |directory| {
            IdentityName::of(IdentityType::Cookie, &RecordValue::Number(7), Some(name(directory)))
        };
        assert_ne!(cookie("a"), cookie("b"));
    }
}
