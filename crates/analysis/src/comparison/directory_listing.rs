//! Directory entries, matched by name: a missing entry does not shift those that follow.

use std::collections::HashMap;
use std::ops::Range;

use nfsrdma_dissectors::nfs::field_labels;

use super::alignment::anchors;
use super::difference::DifferenceKind;
use super::field_equality::FieldEqualityRequirement;
use super::record::{ComparableMessageField, ComparedFieldValue, hash};

pub(super) struct ComparedDirectoryListing<'e> {
    /// The range of all their fields.
    pub(super) fields: Range<usize>,
    /// The range of the fields of each entry.
    elements: Vec<Range<usize>>,
    names: Vec<&'e ComparedFieldValue>,
}

impl<'e> ComparedDirectoryListing<'e> {
    /// Finds the listing among these fields: everything below `entries`, where each entry starts with the same field.
    pub(super) fn find(entries: &[&'e ComparableMessageField]) -> Option<Self> {
        let is_name = |entry: &&&ComparableMessageField| {
            entry.path.class == FieldEqualityRequirement::Equal(DifferenceKind::Name)
                && entry.path.text.rsplit('.').nth(1) == Some(field_labels::ENTRIES)
        };
        let name = entries.iter().find(is_name)?;
        let prefix = name.path.text.get(..name.path.text.len() - name.path.leaf().len())?;
        let is_below = |entry: &&ComparableMessageField| entry.path.text.starts_with(prefix);
        let start = entries.iter().position(is_below)?;
        let length = entries.iter().skip(start).take_while(|entry| is_below(entry)).count();
        let fields = start..start + length;
        let field_entries = entries.get(fields.clone())?;
        let first = field_entries.first()?;
        let starts: Vec<usize> = (0..field_entries.len())
            .filter(|at| field_entries.get(*at).is_some_and(|entry| entry.path.text == first.path.text))
            .map(|at| start + at)
            .collect();
        let ends = starts.iter().copied().skip(1).chain([fields.end]);
        let elements: Vec<_> = starts.iter().zip(ends).map(|(from, to)| *from..to).collect();
        let names: Vec<_> = elements
            .iter()
            .filter_map(|element| {
                let is_entry_name = |entry: &&&ComparableMessageField| entry.path.text == name.path.text;
                entries.get(element.clone())?.iter().find(is_entry_name).map(|entry| &entry.datum)
            })
            .collect();
        (names.len() == elements.len()).then_some(Self { fields, elements, names })
    }

    /// Returns `true` if both have the same names in the same order.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let names = || self.names.iter().zip(&other.names);
        self.names.len() == other.names.len() && names().all(|(a, b)| a.is_same(b))
    }

    pub(super) fn match_entries(&self, other: &Self) -> Vec<ComparedDirectoryEntryPair<'e>> {
        let keys = |listing: &Self| -> Vec<u64> {
            listing.names.iter().map(|name| hash(name.to_string().as_bytes()) as u64).collect()
        };
        let (keys_a, keys_b) = (keys(self), keys(other));
        let mut pairs = Vec::new();
        let mut from = (0, 0);
        let ends = [(self.names.len(), other.names.len())];
        let positions = |keys: &[u64]| -> HashMap<u64, usize> { keys.iter().copied().zip(0..).collect() };
        let (in_a, in_b) = (positions(&keys_a), positions(&keys_b));
        let position = |other_positions: &HashMap<u64, usize>, keys: &[u64], at: usize| {
            keys.get(at).and_then(|key| other_positions.get(key).copied())
        };
        for to in anchors(&keys_a, &keys_b).into_iter().chain(ends) {
            // Between two common names: unmatched entries, if equally many, were renamed.
            let removed: Vec<usize> = (from.0..to.0).filter(|at| position(&in_b, &keys_a, *at).is_none()).collect();
            let added: Vec<usize> = (from.1..to.1).filter(|at| position(&in_a, &keys_b, *at).is_none()).collect();
            let element_pair = |(a, b): (&usize, &usize)| self.element(*a).zip(other.element(*b));
            if removed.len() == added.len() {
                pairs.extend(
                    removed
                        .iter()
                        .zip(&added)
                        .filter_map(element_pair)
                        .map(|(a, b)| ComparedDirectoryEntryPair::Pair(a, b)),
                );
            } else {
                pairs.extend(
                    removed
                        .iter()
                        .filter_map(|at| Some(ComparedDirectoryEntryPair::OnlyInA(self.names.get(*at).copied()?))),
                );
                pairs.extend(
                    added
                        .iter()
                        .filter_map(|at| Some(ComparedDirectoryEntryPair::OnlyInB(other.names.get(*at).copied()?))),
                );
            }
            // Names at a different position in the other listing.
            for at in from.0..to.0 {
                if let (Some(name), Some(index_b)) = (self.names.get(at).copied(), position(&in_b, &keys_a, at)) {
                    pairs.push(ComparedDirectoryEntryPair::Moved(name, at, index_b));
                }
            }
            pairs.extend(element_pair((&to.0, &to.1)).map(|(a, b)| ComparedDirectoryEntryPair::Pair(a, b)));
            from = (to.0 + 1, to.1 + 1);
        }
        pairs
    }

    fn element(&self, at: usize) -> Option<Range<usize>> {
        self.elements.get(at).cloned()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ComparedDirectoryEntryPair<'e> {
    /// The fields of an entry of A and of its partner of B.
    Pair(Range<usize>, Range<usize>),
    /// An entry in A only.
    OnlyInA(&'e ComparedFieldValue),
    /// An entry in B only.
    OnlyInB(&'e ComparedFieldValue),
    /// An entry at another index on B; indices count from 0.
    Moved(&'e ComparedFieldValue, usize, usize),
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::field_path::FieldPath;
    use super::*;

    fn field(text: &str, value: ComparedFieldValue) -> ComparableMessageField {
        let is_name = text.ends_with("name");
        let requirement =
            FieldEqualityRequirement::Equal(if is_name { DifferenceKind::Name } else { DifferenceKind::Result });
        ComparableMessageField {
            path: Rc::new(FieldPath::new(text, "nfs.readdir.entry.name", requirement)),
            datum: value,
        }
    }

    /// Returns a READDIR Reply with these names, each entry with a cookie before it.
    fn reply(names: &str) -> Vec<ComparableMessageField> {
        let entries = names.chars().flat_map(|name| {
            [
                field("reply.entries.cookie", ComparedFieldValue::Number(name.into())),
                field("reply.entries.name", ComparedFieldValue::Text(name.to_string().into_bytes().into())),
            ]
        });
        let status = [field("status", ComparedFieldValue::Named("NFS4_OK"))];
        status.into_iter().chain(entries).chain([field("reply.eof", ComparedFieldValue::Bool(true))]).collect()
    }

    fn met(a: &str, b: &str) -> Vec<String> {
        let (a, b) = (reply(a), reply(b));
        let (a, b) = (a.iter().collect::<Vec<_>>(), b.iter().collect::<Vec<_>>());
        let (of_a, of_b) = (ComparedDirectoryListing::find(&a).unwrap(), ComparedDirectoryListing::find(&b).unwrap());
        assert_eq!((of_a.fields.start, of_a.fields.end), (1, a.len() - 1));
        let word = |met: ComparedDirectoryEntryPair<'_>| match met {
            ComparedDirectoryEntryPair::Pair(a, b) => format!("{}={}", a.start / 2, b.start / 2),
            ComparedDirectoryEntryPair::OnlyInA(name) => format!("-{name}"),
            ComparedDirectoryEntryPair::OnlyInB(name) => format!("+{name}"),
            ComparedDirectoryEntryPair::Moved(name, from, to) => format!("{name} {from}>{to}"),
        };
        of_a.match_entries(&of_b).into_iter().map(word).collect()
    }

    #[test]
    fn an_entry_that_is_missing_shifts_no_other() {
        assert_eq!(met("abcd", "acd"), ["0=0", "-\"b\"", "2=1", "3=2"]);
        assert_eq!(met("acd", "abcd"), ["0=0", "+\"b\"", "1=2", "2=3"]);
    }

    #[test]
    fn a_renamed_entry_is_paired_with_the_one_in_its_place() {
        assert_eq!(met("abcd", "axcd"), ["0=0", "1=1", "2=2", "3=3"]);
    }

    #[test]
    fn a_moved_entry_is_reported_as_moved() {
        assert_eq!(met("abcd", "acbd").iter().filter(|met| met.contains('>')).count(), 1);
    }

    #[test]
    fn a_reply_without_a_directory_has_no_listing() {
        let fields = [field("status", ComparedFieldValue::Named("NFS4_OK"))];
        assert!(ComparedDirectoryListing::find(&fields.iter().collect::<Vec<_>>()).is_none());
    }
}
