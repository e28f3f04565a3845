//! Operations and attributes that a server must support: a server without them differs.

use std::rc::Rc;

use nfsrdma_analysis::comparison::comparable_transaction_recorder::LocatedField;
use nfsrdma_analysis::comparison::field_equality::FieldEqualityRequirement;
use nfsrdma_analysis::comparison::field_path_text::{ends_with_labels, is_within};
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field::FieldValue;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v3;
use nfsrdma_dissectors::nfs::v4::{Attributes, BitNames, Operation};
use nfsrdma_nfs_model as model;
use rustc_hash::{FxHashMap, FxHashSet};

use super::attribute_relations::violations::AttributeRelationViolation;
use super::tolerated_difference_removal::{attribute, is_attribute};
use crate::run::tolerance_rules::rule_of_field;
use crate::trace::step::NONE;

/// Returns the numbers of the REQUIRED attributes. RFC 8881 section 5.1, RFC 7530 section 5.6.
pub(in crate::run) fn required_attributes() -> impl Iterator<Item = u32> {
    (Attributes::SUPPORTED_ATTRS..=Attributes::RDATTR_ERROR).chain([Attributes::FILEHANDLE])
}

fn violation(field: &LocatedField<'_>, relation: &str, values: [&str; 2]) -> AttributeRelationViolation {
    let (section, operation) = &field.section;
    AttributeRelationViolation {
        section: *section,
        path: format!("{operation}.{} ({relation})", field.path.text),
        field: field.path.field,
        object: NONE,
        values: values.map(str::to_owned),
        rule: None,
    }
}

/// Returns the violations by a live Reply that has attributes, but lacks one that the recorded Reply has and that the
/// server must support, or does support. RFC 8881 section 18.7.3.
pub(super) fn missing_attributes(
    [recorded, live]: [&[LocatedField<'_>]; 2],
    is_supported: impl Fn(&str) -> bool,
) -> Vec<AttributeRelationViolation> {
    if has_same_layout(recorded, live) {
        return Vec::new();
    }
    let mut live_attributes = FxHashSet::default();
    let mut sections = FxHashSet::default();
    for field in live.iter().filter(|field| is_attribute(&field.path.text)) {
        sections.insert(field.section.0);
        live_attributes.insert((field.section.0, &*field.path.text));
    }
    let required: Vec<_> = required_attributes().filter_map(Attributes::name).collect();
    let entries = listed_attributes(live);
    let (mut missing, mut entry) = (Vec::new(), None);
    let mut reported = FxHashSet::default();
    for field in recorded {
        let text = &*field.path.text;
        if let Some(name) = entry_name(field) {
            entry = entries.get(name);
        }
        if !is_attribute(text) {
            continue;
        }
        let name = attribute(text);
        // Attributes whose values are compared differ without this.
        let is_compared =
            matches!(field.path.class, FieldEqualityRequirement::Equal(_) | FieldEqualityRequirement::Racing(_));
        let has_rule = || rule_of_field(&field.section.1, text, field.path.field).is_some();
        let relation = match () {
            () if required.contains(&name) => "required",
            () if is_supported(name) && !is_compared && !has_rule() => "supported",
            () => continue,
        };
        // An entry whose attributes could not be read has rdattr_error alone: RFC 8881 section 5.8.1.12.
        let is_missing = match is_within(text, field_labels::ENTRIES) {
            true => entry.is_some_and(|entry| !entry.has_error && !entry.paths.contains(text)),
            false => !live_attributes.contains(&(field.section.0, text)),
        };
        // Each attribute once per operation.
        if sections.contains(&field.section.0) && is_missing && reported.insert((field.section.0, text)) {
            missing.push(violation(field, relation, ["returned", "not returned"]));
        }
    }
    missing
}

#[derive(Debug, Default)]
struct ReaddirEntryAttributePaths<'p> {
    paths: FxHashSet<&'p str>,
    /// `true` if its `rdattr_error` is not NFS4_OK.
    has_error: bool,
}

/// Returns the name of a directory entry, if this is its field.
fn entry_name<'a>(field: &LocatedField<'a>) -> Option<&'a [u8]> {
    match field.value {
        FieldValue::Text(name) | FieldValue::Bytes(name)
            if ends_with_labels(&field.path.text, &[field_labels::ENTRIES, field_labels::NAME]) =>
        {
            Some(name)
        }
        _ => None,
    }
}

/// Returns the attributes of each directory entry, which follow its name.
fn listed_attributes<'p, 'a>(fields: &'p [LocatedField<'a>]) -> FxHashMap<&'a [u8], ReaddirEntryAttributePaths<'p>> {
    let mut entries: FxHashMap<&'a [u8], ReaddirEntryAttributePaths<'p>> = FxHashMap::default();
    let mut current: &[u8] = &[];
    for field in fields {
        if let Some(name) = entry_name(field) {
            current = name;
            entries.entry(name).or_default();
        } else if let Some(entry) = entries.get_mut(current) {
            entry.paths.insert(&field.path.text);
            let is_error = attribute(&field.path.text) == field_labels::RDATTR_ERROR;
            entry.has_error |= is_error && !matches!(field.value, FieldValue::Enum(0, _) | FieldValue::Unsigned(0));
        }
    }
    entries
}

/// Returns the violations by a live Reply that has attributes which neither the recorded Reply has nor the Call
/// requested. `may_return` returns `false` if an operation, by index, did not request an attribute. RFC 8881 sections
/// 18.7.3 and 18.23.3.
pub(super) fn unrequested_attributes(
    [recorded, live]: [&[LocatedField<'_>]; 2],
    may_return: &dyn Fn(usize, &str) -> bool,
) -> Vec<AttributeRelationViolation> {
    if has_same_layout(recorded, live) {
        return Vec::new();
    }
    let recorded = recorded.iter().filter(|field| is_attribute_value(field));
    let mut attributes: FxHashSet<_> = recorded.map(|field| (field.section.0, attribute(&field.path.text))).collect();
    let mut violations = Vec::new();
    for field in live.iter().filter(|field| is_attribute_value(field)) {
        let section = field.section.0;
        let name = attribute(&field.path.text);
        // Each attribute once per operation; the first section is the header.
        let is_new = attributes.insert((section, name));
        let Some(index) = section.checked_sub(1).filter(|_| is_new) else { continue };
        if !may_return(index, name) {
            violations.push(violation(field, "not requested", ["not returned", "returned"]));
        }
    }
    violations
}

/// Returns `true` for a field of an attribute; the mask of the attributes is none.
fn is_attribute_value(field: &LocatedField<'_>) -> bool {
    is_attribute(&field.path.text) && attribute(&field.path.text) != field_labels::ATTRMASK
}

fn has_same_layout(recorded: &[LocatedField<'_>], live: &[LocatedField<'_>]) -> bool {
    let is_one = |(a, b): (&LocatedField<'_>, &LocatedField<'_>)| Rc::ptr_eq(&a.path, &b.path);
    recorded.len() == live.len() && recorded.iter().zip(live).all(is_one)
}

/// NFSv3 procedures whose errors do not include NFS3ERR_NOTSUPP, except those that are named like a required operation
/// of NFSv4. RFC 1813 section 3.3.
const REQUIRED_PROCEDURES: &[v3::Procedure] = &[
    v3::Procedure::NULL,
    v3::Procedure::MKDIR,
    v3::Procedure::RMDIR,
    v3::Procedure::FSSTAT,
    v3::Procedure::FSINFO,
    v3::Procedure::PATHCONF,
];

/// Returns `true` if a server must support an operation of NFSv4.
fn is_required(operation: Operation) -> bool {
    model::v4::meaning(operation).is_required
}

/// Returns `true` if the status means that a server does not support a required operation of NFS.
pub(super) fn lacks_required(operation: &str, status: &str) -> bool {
    // An unsupported attribute, operation variant or minor version is something else.
    [
        enumerator_names::NFS4ERR_NOTSUPP,
        enumerator_names::NFS4ERR_OP_ILLEGAL,
        enumerator_names::NFS3ERR_NOTSUPP,
        enumerator_names::PROC_UNAVAIL,
    ]
    .contains(&status)
        && (Operation::from_name(operation).is_some_and(is_required)
            || REQUIRED_PROCEDURES.iter().any(|required| required.name() == operation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8881_section_17_a_server_must_have_read_and_may_have_no_links() {
        assert!(lacks_required("READ", "NFS4ERR_NOTSUPP") && lacks_required("WRITE", "NFS4ERR_OP_ILLEGAL"));
        assert!(!lacks_required("READLINK", "NFS4ERR_NOTSUPP") && !lacks_required("CLONE", "NFS4ERR_NOTSUPP"));
        assert!(
            !lacks_required("SETATTR", "NFS4ERR_ATTRNOTSUPP") && !lacks_required("READ", "NFS4ERR_MINOR_VERS_MISMATCH")
        );
    }

    #[test]
    fn rfc1813_section_3_3_a_server_may_have_no_readdirplus() {
        assert!(lacks_required("FSINFO", "NFS3ERR_NOTSUPP") && !lacks_required("READDIRPLUS", "NFS3ERR_NOTSUPP"));
    }
}
