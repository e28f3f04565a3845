//! Names of a directory compared as a set across a listing: each server returns them in its own order and parts.

use std::rc::Rc;

use nfsrdma_analysis::comparison::field_path_text::{ends_with_labels, is_within};
use nfsrdma_analysis::comparison::record::{
    ComparableMessageField, ComparedFieldValue, ComparedOperationOrHeaders, hash,
};
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v3::Procedure;
use nfsrdma_dissectors::nfs::v4::Operation;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::run::tolerance_rules::{self, BuiltInToleranceRule};
use crate::tree::inferred_object::name_hash;

/// Maximum number of directories being listed.
const MAX_LISTINGS: usize = 32;
/// Maximum number of names that only one side has returned so far, and of names that both have.
const MAX_NAMES: usize = 1 << 16;

/// Pseudo rule: names of the recorded listing were not seen in the live one, which may have them: it was not read to its
/// end, or has too many names.
pub(crate) const UNLISTED: BuiltInToleranceRule = BuiltInToleranceRule { name: "", reason: "" };

/// Names by their hash, which a changed name is known by.
type NamesByHash = FxHashMap<u64, Box<[u8]>>;

/// Names that one side has returned and the other has not yet.
#[derive(Debug, Default)]
struct ReplayListingCheck {
    recorded: NamesByHash,
    live: NamesByHash,
    /// Hashes of names that both sides have returned. A server may return one again, as the cookie of the same name has
    /// another position in its own order.
    common: FxHashSet<u128>,
    /// Hashes of names that steps changed since the first part: either server may have listed them before or after.
    changed: FxHashSet<u64>,
    is_over_limit: bool,
    /// `true` if earlier parts were not compared: they may have the names that only one side has returned.
    is_beginning_unknown: bool,
    /// `true` if the live listing has ended, and no name was created since.
    has_ended: bool,
}

/// Listings in progress, by the variable of the directory.
#[derive(Debug, Default)]
pub(super) struct DirectoryListingChecks {
    by_directory: FxHashMap<u32, ReplayListingCheck>,
    /// Variables of directories without a captured name: "..", the one above, is another one in the run.
    nameless: FxHashSet<u32>,
}

type ListingFieldDifference = (String, [Option<String>; 2]);

impl DirectoryListingChecks {
    /// Creates checks for a tree with these variables of directories without a captured name.
    pub(super) fn new(nameless: FxHashSet<u32>) -> Self {
        Self { nameless, ..Self::default() }
    }

    /// Forgets a listing of which a part is not compared.
    pub(super) fn forget(&mut self, directory: u32) {
        self.by_directory.remove(&directory);
    }

    /// Notes the creation of a name: completed listings may grow.
    pub(super) fn reopen_all(&mut self) {
        self.by_directory.values_mut().for_each(|listing| listing.has_ended = false);
    }

    /// Notes the change of a name in the listings in progress that `is_affected` selects.
    pub(super) fn record_change(&mut self, name: u64, is_affected: impl Fn(u32) -> bool) {
        for (_, listing) in self.by_directory.iter_mut().filter(|(directory, _)| is_affected(**directory)) {
            if listing.changed.len() >= MAX_NAMES {
                listing.is_over_limit = true;
            } else if listing.changed.insert(name) {
                listing.recorded.remove(&name);
                listing.live.remove(&name);
            }
        }
    }

    /// Returns the names of a recorded part that the live listing does not have so far; none if its beginning is
    /// unknown.
    pub(super) fn unlisted(&self, (directory, is_first): (u32, bool), names: &[&[u8]]) -> FxHashSet<Box<[u8]>> {
        let listing = self.by_directory.get(&directory).filter(|_| !is_first);
        if !is_first && listing.is_none_or(|listing| !listing.is_complete()) || names.len() > MAX_NAMES {
            return FxHashSet::default();
        }
        let is_unlisted = |name: &&&[u8]| match listing {
            None => !is_dots(name),
            Some(listing) => listing.is_new(name) && !listing.changed.contains(&name_hash(name)),
        };
        names.iter().filter(is_unlisted).map(|name| (*name).into()).collect()
    }

    /// Sorts the entries of two listings. Names of only one side are remembered and reported at the end of the listing;
    /// a name that one Reply has twice is reported at once.
    pub(super) fn compare(
        &mut self,
        (directory, is_first): (u32, bool),
        a: &mut ComparedOperationOrHeaders,
        b: &mut ComparedOperationOrHeaders,
        is_strict: bool,
        needed: &mut Vec<BuiltInToleranceRule>,
    ) -> Vec<ListingFieldDifference> {
        let ends = [is_end(a), is_end(b)];
        let (Some(mut entries_a), Some(mut entries_b)) = (take_entries(a), take_entries(b)) else {
            return Vec::new();
        };
        if is_first {
            self.by_directory.remove(&directory);
        }
        if self.by_directory.len() >= MAX_LISTINGS && !self.by_directory.contains_key(&directory) {
            self.by_directory.clear();
        }
        let is_above_nameless = !is_strict && self.nameless.contains(&directory);
        // The beginning of the listing is unknown: its Reply was not captured, or its Call was not sent.
        let unknown = || ReplayListingCheck { is_beginning_unknown: !is_first, ..ReplayListingCheck::default() };
        let listing = self.by_directory.entry(directory).or_insert_with(unknown);
        let is_more = listing.has_ended && entries_b.iter().any(|(name, _)| listing.is_new(name));
        listing.has_ended |= ends[1];
        entries_a.sort_by(|a, b| a.0.cmp(&b.0));
        entries_b.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut rest_a, mut rest_b) = (entries_a.into_iter().peekable(), entries_b.into_iter().peekable());
        let (mut previous, mut differences) = (None, Vec::new());
        while let Some((name, _)) = rest_a.peek().into_iter().chain(rest_b.peek()).min_by_key(|(name, _)| name) {
            let name = name.clone();
            let is_same_name = |entry: &ReaddirReplyEntry| entry.0 == name;
            match (rest_a.next_if(is_same_name), rest_b.next_if(is_same_name)) {
                (Some((_, recorded)), Some((_, live))) => {
                    listing.record_common(&name);
                    let values = |entry: &[ComparableMessageField]| -> Vec<_> {
                        entry.iter().map(|field| field.datum.clone()).collect()
                    };
                    if is_above_nameless && *name == *b".." && values(&recorded) != values(&live) {
                        needed.push(tolerance_rules::NAMELESS_LINKS);
                        continue;
                    }
                    a.entries.extend(recorded);
                    b.entries.extend(live);
                }
                (Some(_), None) => listing.record_name(name.clone(), true),
                (None, _) => {
                    if previous.as_ref() == Some(&name) {
                        differences.push(name_difference([None, quoted_name(&name)]));
                    }
                    listing.record_name(name.clone(), false);
                }
            }
            previous = Some(name);
        }
        if is_more {
            let values = ["no names after an eof", "more of them"].map(|text| Some(text.to_owned()));
            differences.push(([enumerator_names::READDIR, field_labels::REPLY, field_labels::EOF].join("."), values));
        }
        if !differences.is_empty() {
            return differences;
        }
        // A server may know already that no names follow. If the recorded server returns more, they are missing.
        let ends_earlier = ends == [false, true] && !is_strict;
        if listing.recorded.is_empty() && listing.live.is_empty() && !ends_earlier {
            // Both sides have returned the same names, so their ends must agree.
            if ends == [true, true] {
                self.by_directory.remove(&directory);
            }
            return Vec::new();
        }
        // The parts differ, so their ends may, too.
        for section in [a, b] {
            section.entries.retain(|entry| entry.path.leaf() != field_labels::EOF);
        }
        if listing.is_complete() && !is_strict && ends == [false, true] {
            // The recorded part may end before other names.
            let missing: Vec<_> = listing.recorded.drain().map(|(_, name)| name).collect();
            let mut values: Vec<_> = missing.iter().map(|name| [quoted_name(name), None]).collect();
            if !values.is_empty() {
                values.sort();
                return values.into_iter().map(name_difference).collect();
            }
        }
        if ends[0] && (ends[1] || !listing.live.is_empty()) || is_strict {
            let listing = self.by_directory.remove(&directory).unwrap_or_default();
            if listing.is_complete() {
                return listing.remaining_differences();
            }
            needed.push(listing.rule());
            return Vec::new();
        }
        needed.push(listing.rule());
        Vec::new()
    }
}

impl ReplayListingCheck {
    /// Returns `true` if all names of all parts so far were compared.
    fn is_complete(&self) -> bool {
        !self.is_over_limit && !self.is_beginning_unknown
    }

    /// Returns the rule for names of only one side that are no difference, at least so far.
    fn rule(&self) -> BuiltInToleranceRule {
        // The live listing was read to its end; the names may be in its unknown beginning.
        let is_read = self.is_beginning_unknown && self.has_ended && !self.is_over_limit;
        if is_read || self.recorded.is_empty() { tolerance_rules::LISTING } else { UNLISTED }
    }

    fn record_common(&mut self, name: &[u8]) {
        let key = name_hash(name);
        self.recorded.remove(&key);
        self.live.remove(&key);
        if self.common.len() >= MAX_NAMES {
            self.is_over_limit = true;
        } else {
            self.common.insert(hash(name));
        }
    }

    /// Records a name that only one side has in this part.
    fn record_name(&mut self, name: Box<[u8]>, is_recorded: bool) {
        let key = name_hash(&name);
        if is_dots(&name) || self.changed.contains(&key) {
            return;
        }
        let (own_names, other_names) = match is_recorded {
            true => (&mut self.recorded, &mut self.live),
            false => (&mut self.live, &mut self.recorded),
        };
        if other_names.contains_key(&key) {
            self.record_common(&name);
        } else if own_names.len() >= MAX_NAMES {
            self.is_over_limit = true;
        } else if !self.common.contains(&hash(&name)) {
            own_names.insert(key, name);
        }
    }

    /// Returns `true` if the live side has not returned the name before.
    fn is_new(&self, name: &[u8]) -> bool {
        let is_known = self.live.contains_key(&name_hash(name)) || self.common.contains(&hash(name));
        self.is_complete() && !is_known && !is_dots(name)
    }

    fn remaining_differences(&self) -> Vec<ListingFieldDifference> {
        let recorded = self.recorded.values().map(|name| [quoted_name(name), None]);
        let live = self.live.values().map(|name| [None, quoted_name(name)]);
        let mut values: Vec<_> = recorded.chain(live).collect();
        values.sort();
        values.into_iter().map(name_difference).collect()
    }
}

/// Returns `true` for two names that NFSv3 may list, and NFSv4 does not. RFC 8881 section 18.23.3.
fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

fn quoted_name(name: &[u8]) -> Option<String> {
    Some(format!("{:?}", String::from_utf8_lossy(name)))
}

/// Path of the names of a listing.
const ENTRY_NAME_PATH: [&str; 4] =
    [enumerator_names::READDIR, field_labels::REPLY, field_labels::ENTRIES, field_labels::NAME];

fn name_difference(values: [Option<String>; 2]) -> ListingFieldDifference {
    (ENTRY_NAME_PATH.join("."), values)
}

fn is_end(section: &ComparedOperationOrHeaders) -> bool {
    let eof = section.entries.iter().find(|entry| entry.path.leaf() == field_labels::EOF);
    eof.is_some_and(|entry| entry.datum == ComparedFieldValue::Bool(true))
}

type ReaddirReplyEntry = (Box<[u8]>, Vec<ComparableMessageField>);

/// Takes the directory entries from a section, with the name of each; `None` if it is not a listing.
fn take_entries(section: &mut ComparedOperationOrHeaders) -> Option<Vec<ReaddirReplyEntry>> {
    let is_plus = Procedure::READDIRPLUS.name() == &*section.name;
    if !is_plus && !section.is_operation(Operation::READDIR) {
        return None;
    }
    let is_below = |entry: &ComparableMessageField| is_within(&entry.path.text, field_labels::ENTRIES);
    let (entry_fields, other_fields): (Vec<_>, Vec<_>) =
        std::mem::take(&mut section.entries).into_iter().partition(is_below);
    section.entries = other_fields;
    let mut elements: Vec<ReaddirReplyEntry> = Vec::new();
    let first = entry_fields.first().map(|entry| Rc::clone(&entry.path));
    for entry in entry_fields {
        if first.as_ref().is_some_and(|first| Rc::ptr_eq(first, &entry.path)) || elements.is_empty() {
            elements.push((Box::default(), Vec::new()));
        }
        let Some((name, fields)) = elements.last_mut() else { break };
        if ends_with_labels(&entry.path.text, &[field_labels::ENTRIES, field_labels::NAME]) {
            *name = match &entry.datum {
                ComparedFieldValue::Text(bytes) | ComparedFieldValue::Bytes(bytes) => bytes.clone(),
                other => other.to_string().into_bytes().into(),
            };
        }
        fields.push(entry);
    }
    Some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meets(parts: &[(&[u8], &[u8])]) -> Vec<ListingFieldDifference> {
        let mut listing = ReplayListingCheck::default();
        for (recorded, live) in parts {
            recorded.iter().for_each(|name| listing.record_name([*name].into(), true));
            live.iter().for_each(|name| listing.record_name([*name].into(), false));
        }
        listing.remaining_differences()
    }

    #[test]
    fn names_may_be_split_differently_and_repeat_across_parts() {
        assert_eq!(meets(&[(b"ab", b"bc"), (b"cd", b"cad")]), []);
    }

    /// A changed name is found by its hash: its cost is independent of the number of names.
    #[test]
    fn changed_names_leave_long_listing_fast() {
        let names = || (0..MAX_NAMES as u64).map(|number| number.to_be_bytes());
        let mut checks = DirectoryListingChecks::default();
        for directory in 0..MAX_LISTINGS as u32 {
            let listing = checks.by_directory.entry(directory).or_default();
            names().take(4096).for_each(|name| listing.record_name(name.as_slice().into(), true));
        }
        let begin = std::time::Instant::now();
        names().for_each(|name| checks.record_change(name_hash(&name), |_| true));
        // 2 million removals; with a search in each listing, 8 billion hashes.
        assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{:?}", begin.elapsed());
        assert!(checks.by_directory.values().all(|listing| listing.recorded.is_empty() && !listing.is_over_limit));
    }

    #[test]
    fn a_name_on_one_side_alone_is_a_difference() {
        assert_eq!(
            meets(&[(b"ab", b"ax")]),
            [name_difference([None, Some("\"x\"".into())]), name_difference([Some("\"b\"".into()), None])]
        );
    }
}
