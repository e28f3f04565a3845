//! Removes differences that a rule tolerates from both sides and records the rules that were needed.

use std::collections::VecDeque;
use std::rc::Rc;

use nfsrdma_analysis::comparison::field_equality::FieldEqualityRequirement;
use nfsrdma_analysis::comparison::field_path::FieldPath;
use nfsrdma_analysis::comparison::field_path_text::{is_within, strip_labels};
use nfsrdma_analysis::comparison::record::{ComparableMessageField, ComparedFieldValue, ComparedOperationOrHeaders};
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::Operation;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::run::tolerance_rules::{self, BuiltInToleranceRule};

/// Rules that are turned off, and properties of the live server on which the others depend.
#[derive(Debug, Default)]
pub(super) struct ReplyTolerance {
    pub(super) is_strict: bool,
    pub(super) disabled_rules: FxHashSet<&'static str>,
    pub(super) rule_cache: ReplyToleranceRuleCache,
    /// Attributes that the live server supports, or has returned.
    pub(super) offered_attributes: FxHashSet<Box<str>>,
    /// `true` if the server has restarted in this run, or has ended a lease.
    pub(super) has_lost_state: bool,
    /// User and group of objects created by root in NFSv3, if the export squashes root.
    pub(super) squashed_ids: Option<[u32; 2]>,
    /// Live file IDs of seeded objects with one more link than in the capture.
    pub(super) nameless_fileids: FxHashSet<u128>,
    /// File IDs of the objects with fewer links than in the capture.
    pub(super) unlinked_fileids: FxHashSet<u128>,
    /// `true` if the result of the current comparison holds only for its objects.
    pub(super) depends_on_objects: bool,
}

impl ReplyTolerance {
    /// Returns `true` if a rule is enabled.
    pub(super) fn is_enabled(&self, rule: BuiltInToleranceRule) -> bool {
        !self.is_strict && !self.disabled_rules.contains(rule.name)
    }

    /// Removes fields covered by a rule from both sides and adds the rules that were needed to `needed`.
    pub(super) fn tolerate(
        &mut self,
        a: &mut ComparedOperationOrHeaders,
        b: &mut ComparedOperationOrHeaders,
        is_directory: bool,
        needed: &mut Vec<BuiltInToleranceRule>,
    ) {
        let operation = &Rc::clone(&a.name);
        let mut cache = std::mem::take(&mut self.rule_cache);
        if needs_no_rule(a, b, |path| cache.rule_of(operation, path).is_some()) {
            self.rule_cache = cache;
            return;
        }
        let is_same_data = has_same_data(a, b);
        let status_flags = [&*a, &*b].map(|section| mask(section, field_labels::SR_STATUS_FLAGS).unwrap_or(0));
        let has_usual_flags = tolerance_rules::may_report_status_flags(status_flags, self.has_lost_state);
        if self.is_enabled(tolerance_rules::COMMITTED) && tolerate_committed(a, b) {
            needed.push(tolerance_rules::COMMITTED);
        }
        if self.is_enabled(tolerance_rules::ACCESS_SUPPORTED) && tolerate_access(a, b) {
            needed.push(tolerance_rules::ACCESS_SUPPORTED);
        }
        if let Some(squashed) = self.squashed_ids.filter(|_| self.is_enabled(tolerance_rules::OWNER))
            && tolerate_squashed_owner(a, b, squashed)
        {
            needed.push(tolerance_rules::OWNER);
        }
        if self.is_enabled(tolerance_rules::NAMELESS_LINKS)
            && tolerate_nameless_links(a, b, [&self.nameless_fileids, &self.unlinked_fileids])
        {
            needed.push(tolerance_rules::NAMELESS_LINKS);
            self.depends_on_objects = true;
        }
        let mut removed: [Vec<(BuiltInToleranceRule, ComparableMessageField)>; 2] = [Vec::new(), Vec::new()];
        for (section, removed) in [&mut *a, &mut *b].into_iter().zip(&mut removed) {
            let mut kinds = DirectoryAttributePaths::default();
            section.entries.retain(|entry| {
                kinds.process_field(entry);
                let path = &entry.path;
                let is_size = matches!(path.leaf(), field_labels::SIZE | field_labels::NUMLINKS | field_labels::NLINK);
                let rule = match cache.rule_of(operation, path) {
                    None if is_size && kinds.describes_directory(path, is_directory) => {
                        Some(tolerance_rules::DIRECTORY_SIZE)
                    }
                    rule => rule,
                };
                let rule = rule.filter(|rule| match *rule {
                    tolerance_rules::SEGMENTS => is_same_data,
                    tolerance_rules::STATUS_FLAGS => has_usual_flags,
                    _ => true,
                });
                match rule.filter(|rule| self.is_enabled(*rule)) {
                    Some(rule) => {
                        removed.push((rule, entry.clone()));
                        false
                    }
                    None => true,
                }
            });
        }
        self.rule_cache = cache;
        let [removed_a, removed_b] = &removed;
        let differing = removed_a
            .iter()
            .zip(removed_b)
            .find(|((_, a), (_, b))| a.path.text != b.path.text || !a.datum.is_same(&b.datum));
        let longer = if removed_a.len() > removed_b.len() { removed_a } else { removed_b };
        let first = differing.map(|(a, _)| a).or_else(|| longer.get(removed_a.len().min(removed_b.len())));
        needed.extend(first.map(|(rule, _)| *rule));
        self.remove_optional(a, b, needed);
    }

    /// Removes attributes of one side that are optional, or that the live server neither supports nor returns.
    fn remove_optional(
        &self,
        a: &mut ComparedOperationOrHeaders,
        b: &mut ComparedOperationOrHeaders,
        needed: &mut Vec<BuiltInToleranceRule>,
    ) {
        let names = |section: &ComparedOperationOrHeaders| -> FxHashSet<Box<str>> {
            let paths = section.entries.iter().map(|entry| &entry.path.text);
            paths.filter(|path| is_attribute(path) || is_post_op(path)).cloned().collect()
        };
        let is_one = |(a, b): (&ComparableMessageField, &ComparableMessageField)| Rc::ptr_eq(&a.path, &b.path);
        if a.entries.len() == b.entries.len() && a.entries.iter().zip(&b.entries).all(is_one) {
            return;
        }
        let (names_a, names_b) = (names(a), names(b));
        for (section, other_names, is_recorded) in [(&mut *a, &names_b, true), (&mut *b, &names_a, false)] {
            section.entries.retain(|entry| {
                let text = &entry.path.text;
                if other_names.contains(text) {
                    return true;
                }
                let rule = if is_post_op(text) {
                    tolerance_rules::POST_OP
                } else if is_attribute(text) && (!is_recorded || !self.offered_attributes.contains(attribute(text))) {
                    tolerance_rules::ATTRIBUTES_OFFERED
                } else {
                    return true;
                };
                if !self.is_enabled(rule) {
                    return true;
                }
                needed.push(rule);
                false
            });
        }
    }
}

/// Removes the mode of a file that was created exclusively. Returns `true` if it differs.
pub(super) fn tolerate_mode(a: &mut ComparedOperationOrHeaders, b: &mut ComparedOperationOrHeaders) -> bool {
    let differs = field(a, field_labels::MODE).zip(field(b, field_labels::MODE)).is_some_and(|(a, b)| !a.is_same(b));
    if differs {
        remove_fields([a, b], field_labels::MODE);
    }
    differs
}

fn field<'s>(section: &'s ComparedOperationOrHeaders, leaf: &str) -> Option<&'s ComparedFieldValue> {
    section.entries.iter().find(|entry| entry.path.leaf() == leaf).map(|entry| &entry.datum)
}

fn remove_fields(sections: [&mut ComparedOperationOrHeaders; 2], leaf: &str) {
    for section in sections {
        section.entries.retain(|entry| entry.path.leaf() != leaf);
    }
}

/// Cache of the rule for each field of each operation's results; its size is limited by the message descriptions.
#[derive(Debug, Default)]
pub(super) struct ReplyToleranceRuleCache {
    /// Keyed by the addresses of operation and path.
    rules: FxHashMap<(*const u8, *const FieldPath), (RuleCacheKeyReferences, Option<BuiltInToleranceRule>)>,
}

/// Operation and path, whose addresses are not reused while these are kept.
type RuleCacheKeyReferences = (Rc<str>, Rc<FieldPath>);

impl ReplyToleranceRuleCache {
    fn rule_of(&mut self, operation: &Rc<str>, path: &Rc<FieldPath>) -> Option<BuiltInToleranceRule> {
        let key = (operation.as_ptr(), Rc::as_ptr(path));
        let (_, rule) = self.rules.entry(key).or_insert_with(|| {
            let rule = tolerance_rules::rule_of_field(operation, &path.text, path.field);
            ((Rc::clone(operation), Rc::clone(path)), rule)
        });
        *rule
    }
}

/// Returns `true` if no rule applies: all differences are in fields that vary anyway or have no rule.
fn needs_no_rule(
    a: &ComparedOperationOrHeaders,
    b: &ComparedOperationOrHeaders,
    mut has_rule: impl FnMut(&Rc<FieldPath>) -> bool,
) -> bool {
    let mut is_plain = |(a, b): (&ComparableMessageField, &ComparableMessageField)| {
        let (path, leaf) = (&a.path, a.path.leaf());
        // The rules for these depend on more than the path.
        let is_special = matches!(
            leaf,
            field_labels::SIZE
                | field_labels::NUMLINKS
                | field_labels::NLINK
                | field_labels::ACCESS
                | field_labels::COMMITTED
                | field_labels::DATA
                | field_labels::UID
                | field_labels::GID
        );
        Rc::ptr_eq(path, &b.path)
            && (matches!(path.class, FieldEqualityRequirement::Varies(_))
                || a.datum == b.datum
                || !is_special && !has_rule(path))
    };
    a.entries.len() == b.entries.len() && a.entries.iter().zip(&b.entries).all(&mut is_plain)
}

/// Returns the path below an attribute list: that of an object, or of a directory entry.
fn path_of_attribute(path: &str) -> Option<&str> {
    match path.split_once('.')? {
        (field_labels::OBJ_ATTRIBUTES, rest) => Some(rest),
        (_, mut rest) => loop {
            match rest.split_once('.')? {
                (field_labels::ATTRS, attribute) => return Some(attribute),
                (_, below) => rest = below,
            }
        },
    }
}

pub(super) fn is_attribute(path: &str) -> bool {
    path_of_attribute(path).is_some()
}

/// Returns the name of an attribute, without its subfields.
pub(super) fn attribute(path: &str) -> &str {
    path_of_attribute(path).and_then(|rest| rest.split('.').next()).unwrap_or_default()
}

/// Returns `true` if a field belongs to the optional attributes of an NFSv3 Reply.
fn is_post_op(path: &str) -> bool {
    path.split('.')
        .any(|part| field_labels::WCC_DATA.contains(&part) || field_labels::POST_OP_ATTRIBUTES.contains(&part))
}

/// Paths whose attributes are those of a directory, according to their type field.
#[derive(Default)]
struct DirectoryAttributePaths {
    directories: Vec<Box<str>>,
}

impl DirectoryAttributePaths {
    fn process_field(&mut self, entry: &ComparableMessageField) {
        let path = &entry.path;
        // Each entry of a listing has its own type, after its name.
        if let Some(entries) = strip_labels(&path.text, &[field_labels::ENTRIES, field_labels::NAME]) {
            self.directories.retain(|directory| {
                !directory.strip_prefix(entries).is_some_and(|rest| is_within(rest, field_labels::ENTRIES))
            });
        }
        if path.leaf() == field_labels::TYPE
            && matches!(entry.datum, ComparedFieldValue::Named(enumerator_names::NF4DIR | enumerator_names::NF3DIR))
        {
            self.directories.push(path.parent_path().into());
        }
    }

    /// Returns `true` if an attribute is that of a directory. `is_directory` is `true` if the operation applies to one;
    /// its entries need not be directories.
    fn describes_directory(&self, path: &FieldPath, is_directory: bool) -> bool {
        let parent = path.parent_path();
        is_directory && !is_within(&path.text, field_labels::ENTRIES)
            || field_labels::DIRECTORY_WCC_DATA.iter().any(|label| is_within(parent, label))
            || self.directories.iter().any(|directory| **directory == *parent)
    }
}

/// Returns `true` if two READ_PLUS results have the same bytes, or the same length if the recorded bytes are unknown.
fn has_same_data(a: &ComparedOperationOrHeaders, b: &ComparedOperationOrHeaders) -> bool {
    fn data(section: &ComparedOperationOrHeaders) -> Option<&ComparedFieldValue> {
        section.entries.iter().find(|entry| &*entry.path.text == field_labels::DATA).map(|entry| &entry.datum)
    }
    let is_unknown =
        |section: &ComparedOperationOrHeaders| section.entries.iter().any(|entry| entry.datum.is_unknown());
    match (data(a), data(b)) {
        (Some(ComparedFieldValue::Digest(one, _)), Some(ComparedFieldValue::Digest(other, _))) if is_unknown(a) => {
            one == other
        }
        (Some(one), Some(other)) => one.is_same(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Removes the stability of written data. Returns `true` if the live server did better.
fn tolerate_committed(a: &mut ComparedOperationOrHeaders, b: &mut ComparedOperationOrHeaders) -> bool {
    let rank = |section: &ComparedOperationOrHeaders| match field(section, field_labels::COMMITTED) {
        Some(ComparedFieldValue::Named(name)) => {
            [enumerator_names::UNSTABLE, enumerator_names::DATA_SYNC, enumerator_names::FILE_SYNC]
                .iter()
                .position(|level| name.starts_with(level))
        }
        _ => None,
    };
    let is_better = rank(a).zip(rank(b)).is_some_and(|(recorded, live)| live > recorded);
    if is_better {
        remove_fields([a, b], field_labels::COMMITTED);
    }
    is_better
}

/// Treats a recorded owner as equal to the live one if the export squashes root to the live one. Returns `true` if
/// there are any.
fn tolerate_squashed_owner(
    a: &mut ComparedOperationOrHeaders,
    b: &ComparedOperationOrHeaders,
    squashed: [u32; 2],
) -> bool {
    let owner = |entry: &ComparableMessageField| match entry.path.field {
        field_names::NFS_FATTR3_UID => Some(squashed[0]),
        field_names::NFS_FATTR3_GID => Some(squashed[1]),
        _ => None,
    };
    // One side may lack attributes (RFC 1813 section 2.6), and a listing has a path once per entry.
    let mut live_values: FxHashMap<&str, VecDeque<&ComparedFieldValue>> = FxHashMap::default();
    for entry in b.entries.iter().filter(|entry| owner(entry).is_some()) {
        live_values.entry(&entry.path.text).or_default().push_back(&entry.datum);
    }
    let mut is_needed = false;
    for recorded in &mut a.entries {
        let Some(owner) = owner(recorded) else { continue };
        let Some(live) = live_values.get_mut(&*recorded.path.text).and_then(VecDeque::pop_front) else {
            continue;
        };
        let is_squashed = matches!(live, ComparedFieldValue::Number(number) if *number == u64::from(owner));
        if is_squashed && recorded.datum != *live {
            recorded.datum = live.clone();
            is_needed = true;
        }
    }
    is_needed
}

/// Tolerates one link more of a seeded object, the name that seeding gave it, and fewer links of one of which seeding
/// did not make all. Returns `true` if any.
fn tolerate_nameless_links(
    a: &mut ComparedOperationOrHeaders,
    b: &ComparedOperationOrHeaders,
    [nameless, unlinked]: [&FxHashSet<u128>; 2],
) -> bool {
    if nameless.is_empty() && unlinked.is_empty() {
        return false;
    }
    let is_links =
        |entry: &&ComparableMessageField| matches!(entry.path.leaf(), field_labels::NUMLINKS | field_labels::NLINK);
    let number = |value: &ComparedFieldValue| match value {
        ComparedFieldValue::Number(number) => Some(*number),
        _ => None,
    };
    // The file ID is after the link count in NFSv3, before it in NFSv4 (RFC 1813 section 2.6, RFC 8881 section 5.6).
    let fileid = |at: usize, links: &ComparableMessageField| {
        let parent = links.path.parent_path();
        let is_fileid = |entry: &&ComparableMessageField| {
            entry.path.leaf() == field_labels::FILEID && entry.path.parent_path() == parent
        };
        let nearest = match links.path.leaf() {
            field_labels::NLINK => b.entries.get(at..)?.iter().find(is_fileid),
            _ => b.entries.get(..at)?.iter().rfind(is_fileid),
        };
        nearest.and_then(|entry| number(&entry.datum))
    };
    let live: Vec<_> = b.entries.iter().enumerate().filter(|(_, entry)| is_links(entry)).collect();
    let recorded = || a.entries.iter().filter(is_links);
    let is_paired = recorded().map(|entry| &entry.path.text).eq(live.iter().map(|(_, entry)| &entry.path.text));
    if !is_paired {
        return false;
    }
    let mut is_needed = false;
    let recorded = a.entries.iter_mut().filter(|entry| is_links(&&**entry));
    for (recorded, (at, links)) in recorded.zip(live) {
        let Some((count, live_count)) = number(&recorded.datum).zip(number(&links.datum)) else { continue };
        let fileids = match count.checked_add(1) == Some(live_count) {
            true => nameless,
            false if live_count < count => unlinked,
            false => continue,
        };
        if fileid(at, links).is_some_and(|id| fileids.contains(&u128::from(id))) {
            recorded.datum = links.datum.clone();
            is_needed = true;
        }
    }
    is_needed
}

fn mask(section: &ComparedOperationOrHeaders, leaf: &str) -> Option<u64> {
    match field(section, leaf)? {
        ComparedFieldValue::Flags(mask, _) | ComparedFieldValue::Number(mask) => Some(*mask),
        _ => None,
    }
}

/// Removes access rights that are equal in the bits that both servers support. Returns `true` if it removed any: the
/// servers support different rights.
fn tolerate_access(a: &mut ComparedOperationOrHeaders, b: &mut ComparedOperationOrHeaders) -> bool {
    let masks = |leaf: &str| mask(a, leaf).zip(mask(b, leaf));
    let (true, Some((recorded, live)), Some(rights)) =
        (a.is_operation(Operation::ACCESS), masks(field_labels::SUPPORTED), masks(field_labels::ACCESS))
    else {
        return false;
    };
    let common = recorded & live;
    let is_tolerated = recorded != live && rights.0 & common == rights.1 & common;
    if is_tolerated {
        remove_fields([a, b], field_labels::ACCESS);
    }
    is_tolerated
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_analysis::comparison::difference::DifferenceKind;

    fn entry(text: &str, datum: ComparedFieldValue) -> ComparableMessageField {
        ComparableMessageField {
            path: Rc::new(FieldPath::new(text, "", FieldEqualityRequirement::Equal(DifferenceKind::Result))),
            datum,
        }
    }

    /// RFC 1813 section 2.6 (fattr3), RFC 8881 section 5.6.
    #[test]
    fn only_objects_without_a_captured_name_have_one_more_link() {
        let section =
            |entries: Vec<ComparableMessageField>| ComparedOperationOrHeaders { name: "GETATTR".into(), entries };
        let of = |is_v4: bool, fileid, links| {
            let fields = match is_v4 {
                true => [("obj_attributes.fileid", fileid), ("obj_attributes.numlinks", links)],
                false => [("entries.name_attributes.nlink", links), ("entries.name_attributes.fileid", fileid)],
            };
            fields.map(|(path, value)| entry(path, ComparedFieldValue::Number(value)))
        };
        let [nameless, unlinked] = [FxHashSet::from_iter([7]), FxHashSet::from_iter([9])];
        let is_tolerated = |recorded: [u64; 2], live: [[u64; 2]; 2]| {
            [true, false].map(|is_v4| {
                let objects = |[one, other]: [[u64; 2]; 2]| {
                    section([of(is_v4, one[0], one[1]), of(is_v4, other[0], other[1])].concat())
                };
                let mut a = objects([[1, recorded[0]], [2, recorded[1]]]);
                tolerate_nameless_links(&mut a, &objects(live), [&nameless, &unlinked])
            })
        };
        assert_eq!(is_tolerated([1, 1], [[8, 1], [7, 2]]), [true; 2]);
        assert_eq!(is_tolerated([1, 1], [[7, 1], [8, 2]]), [false; 2], "another object");
        assert_eq!(is_tolerated([1, 1], [[8, 1], [7, 3]]), [false; 2], "two more");
        assert_eq!(is_tolerated([1, 2], [[8, 1], [7, 1]]), [false; 2], "one less");
        // Seeding did not make all of its links.
        assert_eq!(is_tolerated([1, 300], [[8, 1], [9, 256]]), [true; 2]);
        assert_eq!(is_tolerated([1, 300], [[8, 1], [9, 301]]), [false; 2], "one more");
        assert_eq!(is_tolerated([300, 300], [[8, 256], [9, 300]]), [false; 2], "another object");
    }

    #[test]
    fn of_a_listing_the_sizes_of_directories_alone_are_the_file_systems_own() {
        let of = |kind| {
            let name = entry("reply.entries.name", ComparedFieldValue::Text((*b"n").into()));
            let size = entry("reply.entries.attrs.size", ComparedFieldValue::Number(1));
            [name, entry("reply.entries.attrs.type", ComparedFieldValue::Named(kind)), size]
        };
        let mut kinds = DirectoryAttributePaths::default();
        for (kind, is_directory) in [("NF4DIR", true), ("NF4REG", false), ("NF4DIR", true)] {
            let entries = of(kind);
            entries.iter().for_each(|entry| kinds.process_field(entry));
            // READDIR applies to a directory, but its entries may be of any type.
            assert_eq!(kinds.describes_directory(&entries[2].path, true), is_directory);
        }
        assert!(kinds.describes_directory(&entry("obj_attributes.size", ComparedFieldValue::Number(1)).path, true));
    }
}
