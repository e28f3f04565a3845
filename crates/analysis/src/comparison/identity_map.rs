//! Identity maps: a one-to-one mapping between the names of A and of B.
//!
//! Filehandles, stateids and similar names are new in each run, and must map one to one. Two names at the same position
//! are a pair. Of contradicting pairs the more frequent one is accepted, and of equally frequent ones the earlier, so
//! that the odd one may come first. It is reported once, at its position, when all contradicting pairs are known.

use std::collections::HashMap;
use std::rc::Rc;

use nfsrdma_dissectors::captured_frame::FrameNumber;

use super::difference::{Difference, DifferenceKind, DifferenceSideValue, TransactionCaptureLocation};
use super::field_equality::{FieldEqualityRequirement, MappedIdentifierType};
use super::field_path::FieldPath;
use super::record::{ComparableMessageField, ComparableTransaction, ComparedFieldValue, MAX_VALUE_BYTES, hash};
use crate::memory_budget_shares::allocated;
use crate::second_chance_map::SecondChanceMap;

/// Default maximum number of pairs.
const MAX_PAIRS: usize = 1 << 18;
/// Default maximum number of contradicting pairs that are not reported yet.
const MAX_DISPUTES: usize = 1 << 14;
const IDENTITY_PAIR_BYTES: usize = SecondChanceMap::<ServerAssignedValueHash, ServerAssignedValuePair>::ENTRY_BYTES
    + SecondChanceMap::<ServerAssignedValueHash, ServerAssignedValueHash>::ENTRY_BYTES
    + allocated::<FirstOccurrenceOfIdentifierPair>(1)
    + 2 * allocated::<u8>(MAX_VALUE_BYTES);
/// Maximum number of contradicting pairs that are not reported yet, as a part of all pairs.
const DISPUTE_PART: usize = 8;

/// A name of an identity on one side: a hash of its type and value, and of its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerAssignedValueHash([u64; 2]);

impl ServerAssignedValueHash {
    /// Returns the name for a value; `None` if it is the same on every side, such as the all-zeros stateid (RFC 8881
    /// section 8.2.3) or the first cookie. A cookie is a position in one directory, `scope`.
    pub fn from_value(identity: MappedIdentifierType, value: &ComparedFieldValue, scope: Option<Self>) -> Option<Self> {
        let is_constant = match value {
            ComparedFieldValue::Number(0) => {
                !matches!(identity, MappedIdentifierType::MinorVersion | MappedIdentifierType::Program)
            }
            ComparedFieldValue::Bytes(bytes) => {
                bytes.iter().all(|byte| *byte == 0) || bytes.iter().all(|byte| *byte == 0xff)
            }
            ComparedFieldValue::Text(text) => text.is_empty(),
            _ => false,
        };
        if is_constant {
            return None;
        }
        let mut bytes = format!("{} {value}", identity.word()).into_bytes();
        if identity == MappedIdentifierType::Cookie
            && let Some(Self(scope)) = scope
        {
            bytes.extend(scope.iter().flat_map(|word| word.to_be_bytes()));
        }
        let hash = hash(&bytes);
        Some(Self([(hash >> 64) as u64, hash as u64]))
    }
}

impl ComparableTransaction {
    /// Returns the filehandle whose directory the cookies belong to.
    pub fn scope(&self) -> Option<ServerAssignedValueHash> {
        let is_filehandle = |entry: &&ComparableMessageField| {
            entry.path.class == FieldEqualityRequirement::Identity(MappedIdentifierType::Filehandle)
        };
        self.call_fields()
            .filter(is_filehandle)
            .find_map(|entry| ServerAssignedValueHash::from_value(MappedIdentifierType::Filehandle, &entry.datum, None))
    }
}

/// First common position of two names, for reports.
#[derive(Clone, Debug)]
pub struct FirstOccurrenceOfIdentifierPair {
    /// The operation of the Transaction.
    pub operation: Rc<str>,
    /// The operation within the COMPOUND: index, from 1, and name.
    pub section: (usize, Rc<str>),
    /// The field.
    pub path: Rc<FieldPath>,
    /// The type of the identity.
    pub identity: MappedIdentifierType,
    /// Locations of the Transactions, on A and B.
    pub places: [TransactionCaptureLocation; 2],
    /// The frames that contain the field, on A and B.
    pub frames: [Option<FrameNumber>; 2],
    /// The names as values of the field.
    pub values: [ComparedFieldValue; 2],
}

/// Two names at the same position, with their count.
#[derive(Debug)]
struct IdentityPairOccurrences {
    count: u64,
    first: Box<FirstOccurrenceOfIdentifierPair>,
}

/// A name of A with its name of B.
#[derive(Debug)]
struct ServerAssignedValuePair {
    other: ServerAssignedValueHash,
    number: u64,
    link: IdentityPairOccurrences,
}

/// Mapping between the names of both sides.
#[derive(Debug)]
pub struct CrossCaptureIdentityMap {
    /// By the name of A.
    pairs: SecondChanceMap<ServerAssignedValueHash, ServerAssignedValuePair>,
    /// The name of A, by the name of B.
    a_by_b: SecondChanceMap<ServerAssignedValueHash, ServerAssignedValueHash>,
    /// Pairs that contradict them.
    disputes: HashMap<(ServerAssignedValueHash, ServerAssignedValueHash), IdentityPairOccurrences>,
    max_disputes: usize,
    count: u64,
    differences: Vec<Difference>,
}

impl Default for CrossCaptureIdentityMap {
    fn default() -> Self {
        Self::with_limits(MAX_PAIRS, MAX_DISPUTES)
    }
}

impl CrossCaptureIdentityMap {
    pub(super) fn for_memory(memory_bytes: usize) -> Self {
        let max_pairs = memory_bytes / IDENTITY_PAIR_BYTES;
        Self::with_limits(max_pairs - max_pairs / DISPUTE_PART, max_pairs / DISPUTE_PART)
    }

    fn with_limits(max_pairs: usize, max_disputes: usize) -> Self {
        Self {
            pairs: SecondChanceMap::new(max_pairs),
            a_by_b: SecondChanceMap::new(max_pairs),
            disputes: HashMap::new(),
            max_disputes,
            count: 0,
            differences: Vec::new(),
        }
    }

    /// Returns the number of pairs that were forgotten because of the memory limit.
    pub(super) fn forgotten(&self) -> u64 {
        self.pairs.forgotten()
    }

    /// Returns the memory in bytes in which no pair would have been forgotten.
    pub(super) fn needed_bytes(&self) -> u64 {
        let part = DISPUTE_PART as u64;
        self.count.div_ceil(part - 1).saturating_mul(part * IDENTITY_PAIR_BYTES as u64)
    }

    /// Returns the number that both names of a pair share; 0 if the name is unpaired. `side` is 0 for A and 1 for B.
    pub fn number(&mut self, side: usize, name: ServerAssignedValueHash) -> u64 {
        let of_a = if side == 0 { Some(name) } else { self.a_by_b.get(name).copied() };
        of_a.and_then(|name| self.pairs.get(name)).map_or(0, |pair| pair.number)
    }

    /// Records two names at the same position.
    pub fn record_pair(
        &mut self,
        a: ServerAssignedValueHash,
        b: ServerAssignedValueHash,
        occurrence: impl FnOnce() -> FirstOccurrenceOfIdentifierPair,
    ) {
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
                let link = IdentityPairOccurrences { count: 1, first: Box::new(occurrence()) };
                if self.count_of(a, b) == 0 {
                    self.insert_pair(a, b, link);
                    return;
                }
                if self.disputes.len() >= self.max_disputes {
                    self.resolve_disputes();
                }
                self.disputes.insert((a, b), link);
                1
            }
        };
        if link > self.count_of(a, b)
            && let Some(link) = self.disputes.remove(&(a, b))
        {
            self.dissolve_pairs(a, b);
            self.insert_pair(a, b, link);
        }
    }

    /// Returns the larger count of the pairs that contain one of these names.
    fn count_of(&mut self, a: ServerAssignedValueHash, b: ServerAssignedValueHash) -> u64 {
        let of_a = self.pairs.get(a).map_or(0, |pair| pair.link.count);
        let other = self.a_by_b.get(b).copied();
        of_a.max(other.and_then(|other| self.pairs.get(other)).map_or(0, |pair| pair.link.count))
    }

    fn insert_pair(&mut self, a: ServerAssignedValueHash, b: ServerAssignedValueHash, link: IdentityPairOccurrences) {
        self.count += 1;
        self.pairs.insert(a, ServerAssignedValuePair { other: b, number: self.count, link });
        self.a_by_b.insert(b, a);
    }

    /// Dissolves the pairs that contain these names, and keeps them as disputes of the better pair.
    fn dissolve_pairs(&mut self, a: ServerAssignedValueHash, b: ServerAssignedValueHash) {
        let other = self.a_by_b.remove(b);
        for name in [Some(a), other].into_iter().flatten() {
            if let Some(pair) = self.pairs.remove(name) {
                self.a_by_b.remove(pair.other);
                self.disputes.insert((name, pair.other), pair.link);
            }
        }
    }

    /// Resolves all disputes: the most frequent pair of free names is accepted, and other pairs become differences.
    fn resolve_disputes(&mut self) {
        let mut disputes: Vec<_> = self.disputes.drain().collect();
        disputes.sort_by_key(|(_, link)| {
            let [a, b] = link.first.places.map(|location| location.index);
            (std::cmp::Reverse(link.count), a, b, link.first.frames)
        });
        for ((a, b), link) in disputes {
            if self.count_of(a, b) == 0 {
                self.insert_pair(a, b, link);
                continue;
            }
            let other = self.a_by_b.get(b).copied();
            let of_a = self.pairs.get(a).map(|pair| pair.link.first.frames);
            let of_b = other.and_then(|other| self.pairs.get(other)).map(|pair| pair.link.first.frames);
            let earlier_frames = [of_a.or(of_b).and_then(|[a, _]| a), of_b.or(of_a).and_then(|[_, b]| b)];
            self.differences.push(difference(link, earlier_frames));
        }
    }

    /// Takes the wrong pairs found since the last call; `is_last` resolves all disputes first.
    pub fn take_differences(&mut self, is_last: bool) -> Vec<Difference> {
        if is_last {
            self.resolve_disputes();
        }
        std::mem::take(&mut self.differences)
    }
}

/// Text between a value and the frame where it is paired otherwise.
pub const UNLIKE_IN_FRAME: &str = ", unlike in frame ";

/// Returns the difference for names that are paired otherwise elsewhere, `earlier_frames` these frames.
fn difference(link: IdentityPairOccurrences, earlier_frames: [Option<FrameNumber>; 2]) -> Difference {
    let FirstOccurrenceOfIdentifierPair { operation, section, path, identity, places, frames, values } = *link.first;
    let side_value = |at: usize| {
        let [value, suffix] = [
            values.get(at).map(ComparedFieldValue::display_text).unwrap_or_default(),
            match earlier_frames.get(at) {
                Some(Some(frame)) => format!("{UNLIKE_IN_FRAME}{frame}"),
                _ => String::new(),
            },
        ];
        DifferenceSideValue {
            location: places.get(at).copied(),
            frame: frames.get(at).copied().flatten(),
            value: Some(format!("{} {value}{suffix}", identity.word())),
        }
    };
    let (section_index, section) = section;
    let dot = if section.is_empty() { "" } else { "." };
    Difference {
        kind: DifferenceKind::Identity,
        operation: operation.to_string(),
        path: format!("{section}{dot}{}", path.text),
        section: section_index,
        field: path.field,
        count: link.count,
        a: side_value(0),
        b: side_value(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ServerAssignedValueHash {
        ServerAssignedValueHash::from_value(
            MappedIdentifierType::Filehandle,
            &ComparedFieldValue::Text(text.as_bytes().into()),
            None,
        )
        .unwrap()
    }

    /// Maps pairs of names in the order of their frames; returns the frames and texts of the differences.
    fn wrong(pairs: &[(&str, &str)]) -> Vec<(u64, String)> {
        let mut renaming = CrossCaptureIdentityMap::default();
        for (at, (a, b)) in (1..).zip(pairs) {
            see(&mut renaming, at, a, b);
        }
        let differences = renaming.take_differences(true);
        differences.into_iter().map(|difference| (difference.a.frame.unwrap().0, difference.b.value.unwrap())).collect()
    }

    fn see(renaming: &mut CrossCaptureIdentityMap, at: u64, a: &str, b: &str) {
        renaming.record_pair(name(a), name(b), || FirstOccurrenceOfIdentifierPair {
            operation: "NFS 3 LOOKUP".into(),
            section: (0, "LOOKUP".into()),
            path: Rc::new(FieldPath::new(
                "object",
                "nfs.fhandle",
                FieldEqualityRequirement::Identity(MappedIdentifierType::Filehandle),
            )),
            identity: MappedIdentifierType::Filehandle,
            places: [TransactionCaptureLocation { index: at, ..TransactionCaptureLocation::default() }; 2],
            frames: [Some(FrameNumber(at)), Some(FrameNumber(at + 100))],
            values: [a, b].map(|text| ComparedFieldValue::Text(text.as_bytes().into())),
        });
    }

    #[test]
    fn one_name_on_one_side_is_one_name_on_the_other() {
        assert_eq!(wrong(&[("a", "x"), ("b", "y"), ("a", "x"), ("b", "y")]), []);
        let reported = |frame: u64, value: &str| (frame, format!("filehandle {value}, unlike in frame 101"));
        assert_eq!(wrong(&[("a", "x"), ("a", "x"), ("a", "y")]), [reported(3, "\"y\"")]);
        assert_eq!(wrong(&[("a", "x"), ("a", "x"), ("b", "x")]), [reported(3, "\"x\"")]);
    }

    #[test]
    fn a_definition_that_contradicts_later_pairs_is_reported_at_its_frame() {
        let reported = (1, "filehandle \"odd\", unlike in frame 102".to_owned());
        assert_eq!(wrong(&[("a", "odd"), ("a", "x"), ("a", "x"), ("a", "x")]), [reported]);
        // Of equally frequent pairs the earlier is accepted.
        let reported = (2, "filehandle \"odd\", unlike in frame 101".to_owned());
        assert_eq!(wrong(&[("a", "x"), ("a", "odd")]), [reported]);
    }

    #[test]
    fn a_wrong_pair_is_reported_once_and_spoils_no_other() {
        // The definition of a has y, the name of b.
        assert_eq!(wrong(&[("a", "y"), ("b", "y"), ("a", "x"), ("b", "y"), ("a", "x")]).len(), 1);
        let twice = [("a", "x"), ("b", "y"), ("a", "x"), ("b", "y"), ("a", "x"), ("a", "y"), ("a", "y")];
        assert_eq!(wrong(&twice).len(), 1);
        // Two swapped definitions are two differences.
        let swapped = [("a", "y"), ("b", "x"), ("a", "x"), ("b", "y"), ("a", "x"), ("b", "y")];
        assert_eq!(wrong(&swapped).iter().map(|(frame, _)| *frame).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_pair_has_one_number_on_both_sides() {
        let mut renaming = CrossCaptureIdentityMap::default();
        see(&mut renaming, 1, "a", "x");
        assert_eq!(renaming.number(0, name("a")), renaming.number(1, name("x")));
        assert_eq!((renaming.number(1, name("y")), renaming.number(0, name("x"))), (0, 0));
    }

    #[test]
    fn the_number_of_contradictory_pairs_is_bounded() {
        let mut renaming = CrossCaptureIdentityMap::default();
        (0..3).for_each(|_| see(&mut renaming, 1, "a", "x"));
        for at in 0..3 * MAX_DISPUTES as u64 {
            see(&mut renaming, at, "a", &format!("y{at}"));
            assert!(renaming.disputes.len() <= MAX_DISPUTES);
        }
        assert_eq!(renaming.take_differences(true).len(), 3 * MAX_DISPUTES);
    }

    #[test]
    fn values_that_are_special_in_every_capture_are_not_mapped() {
        assert_eq!(
            ServerAssignedValueHash::from_value(
                MappedIdentifierType::Stateid,
                &ComparedFieldValue::Bytes([0; 12].into()),
                None
            ),
            None
        );
        assert_eq!(
            ServerAssignedValueHash::from_value(
                MappedIdentifierType::Stateid,
                &ComparedFieldValue::Bytes([0xff; 12].into()),
                None
            ),
            None
        );
        assert_eq!(
            ServerAssignedValueHash::from_value(MappedIdentifierType::Cookie, &ComparedFieldValue::Number(0), None),
            None
        );
        assert!(
            ServerAssignedValueHash::from_value(
                MappedIdentifierType::MinorVersion,
                &ComparedFieldValue::Number(0),
                None
            )
            .is_some()
        );
    }

    #[test]
    fn a_cookie_is_a_place_in_one_directory() {
        let cookie = |directory| {
            ServerAssignedValueHash::from_value(
                MappedIdentifierType::Cookie,
                &ComparedFieldValue::Number(7),
                Some(name(directory)),
            )
        };
        assert_ne!(cookie("a"), cookie("b"));
    }
}
