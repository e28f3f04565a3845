//! Operations and attributes that a server must support: a server without them differs.

use std::rc::Rc;

use nfsrdma_analysis::comparison::field_equality::FieldEqualityRequirement;
use nfsrdma_analysis::comparison::recorder::LocatedField;
use nfsrdma_dissectors::field::FieldValue;
use nfsrdma_dissectors::nfs::v3;
use nfsrdma_dissectors::nfs::v4::{Attributes, BitNames, Operation};
use rustc_hash::{FxHashMap, FxHashSet};

use super::attribute_relations::AttributeRelationViolation;
use super::tolerance::{attribute, is_attribute};
use crate::run::tolerance_rules::rule_of_field;
use crate::trace::NONE;

/// Operations of NFSv4.0 and NFSv4.1 that a server need not support. RFC 8881 section 17. All operations of NFSv4.2 are
/// optional: RFC 7862 section 14, RFC 8276 section 8.1.
const OPTIONAL_OPERATIONS: [Operation; 13] = [
    Operation::DELEGPURGE,
    Operation::DELEGRETURN,
    Operation::LINK,
    Operation::OPENATTR,
    Operation::READLINK,
    Operation::GET_DIR_DELEGATION,
    Operation::GETDEVICEINFO,
    Operation::GETDEVICELIST,
    Operation::LAYOUTCOMMIT,
    Operation::LAYOUTGET,
    Operation::LAYOUTRETURN,
    Operation::SECINFO_NO_NAME,
    Operation::WANT_DELEGATION,
];

/// Returns the numbers of the REQUIRED attributes. RFC 8881 section 5.1, RFC 7530 section 5.6.
pub(in crate::run) fn required_attributes() -> impl Iterator<Item = u32> {
    (Attributes::SUPPORTED_ATTRS..=Attributes::RDATTR_ERROR).chain([Attributes::FILEHANDLE])
}

fn violation(place: &LocatedField<'_>, relation: &str, values: [&str; 2]) -> AttributeRelationViolation {
    let (section, operation) = &place.section;
    AttributeRelationViolation {
        section: *section,
        path: format!("{operation}.{} ({relation})", place.path.text),
        field: place.path.field,
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
    let mut known = FxHashSet::default();
    let mut sections = FxHashSet::default();
    for place in live.iter().filter(|place| is_attribute(&place.path.text)) {
        sections.insert(place.section.0);
        known.insert((place.section.0, &*place.path.text));
    }
    let required: Vec<_> = required_attributes().filter_map(Attributes::name).collect();
    let listed = listed_attributes(live);
    let (mut missing, mut entry) = (Vec::new(), None);
    let mut seen = FxHashSet::default();
    for place in recorded {
        let text = &*place.path.text;
        if let Some(name) = entry_name(place) {
            entry = listed.get(name);
        }
        if !is_attribute(text) {
            continue;
        }
        let name = attribute(text);
        // Attributes whose values are compared differ without this.
        let is_compared = matches!(
            place.path.class,
            FieldEqualityRequirement::Equal(_) | FieldEqualityRequirement::Racing(_)
        );
        let has_rule = || rule_of_field(&place.section.1, text, place.path.field).is_some();
        let relation = match () {
            () if required.contains(&name) => "required",
            () if is_supported(name) && !is_compared && !has_rule() => "supported",
            () => continue,
        };
        // An entry whose attributes could not be read has rdattr_error alone: RFC 8881 section 5.8.1.12.
        let is_missing = match text.contains("entries.") {
            true => entry.is_some_and(|entry| !entry.has_error && !entry.paths.contains(text)),
            false => !known.contains(&(place.section.0, text)),
        };
        // Each attribute once per operation.
        if sections.contains(&place.section.0) && is_missing && seen.insert((place.section.0, text)) {
            missing.push(violation(place, relation, ["returned", "not returned"]));
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
fn entry_name<'a>(place: &LocatedField<'a>) -> Option<&'a [u8]> {
    match place.value {
        FieldValue::Text(name) | FieldValue::Bytes(name) if place.path.text.ends_with("entries.name") => {
            Some(name)
        }
        _ => None,
    }
}

/// Returns the attributes of each directory entry, which follow its name.
fn listed_attributes<'p, 'a>(
    places: &'p [LocatedField<'a>],
) -> FxHashMap<&'a [u8], ReaddirEntryAttributePaths<'p>> {
    let mut listed: FxHashMap<&'a [u8], ReaddirEntryAttributePaths<'p>> = FxHashMap::default();
    let mut current: &[u8] = &[];
    for place in places {
        if let Some(name) = entry_name(place) {
            current = name;
            listed.entry(name).or_default();
        } else if let Some(entry) = listed.get_mut(current) {
            entry.paths.insert(&place.path.text);
            let is_error = attribute(&place.path.text) == "rdattr_error";
            entry.has_error |=
                is_error && !matches!(place.value, FieldValue::Enum(0, _) | FieldValue::Unsigned(0));
        }
    }
    listed
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
    let recorded = recorded.iter().filter(|place| is_attribute_value(place));
    let mut known: FxHashSet<_> =
        recorded.map(|place| (place.section.0, attribute(&place.path.text))).collect();
    let mut violations = Vec::new();
    for place in live.iter().filter(|place| is_attribute_value(place)) {
        let section = place.section.0;
        let name = attribute(&place.path.text);
        // Each attribute once per operation; the first section is the header.
        let is_new = known.insert((section, name));
        let Some(index) = section.checked_sub(1).filter(|_| is_new) else { continue };
        if !may_return(index, name) {
            violations.push(violation(place, "not requested", ["not returned", "returned"]));
        }
    }
    violations
}

/// Returns `true` for a field of an attribute; the mask of the attributes is none.
fn is_attribute_value(place: &LocatedField<'_>) -> bool {
    is_attribute(&place.path.text) && attribute(&place.path.text) != "attrmask"
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

fn is_required(operation: Operation) -> bool {
    operation.0 <= Operation::RECLAIM_COMPLETE.0 && !OPTIONAL_OPERATIONS.contains(&operation)
}

/// Returns `true` if the status means that a server does not support a required operation of NFS.
pub(super) fn lacks_required(operation: &str, status: &str) -> bool {
    // An unsupported attribute, operation variant or minor version is something else.
    matches!(status, "NFS4ERR_NOTSUPP" | "NFS4ERR_OP_ILLEGAL" | "NFS3ERR_NOTSUPP" | "PROC_UNAVAIL")
        && (Operation::from_name(operation).is_some_and(is_required)
            || REQUIRED_PROCEDURES.iter().any(|required| required.name() == Some(operation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8881_section_17_a_server_must_have_read_and_may_have_no_links() {
        assert!(lacks_required("READ", "NFS4ERR_NOTSUPP") && lacks_required("WRITE", "NFS4ERR_OP_ILLEGAL"));
        assert!(
            !lacks_required("READLINK", "NFS4ERR_NOTSUPP") && !lacks_required("CLONE", "NFS4ERR_NOTSUPP")
        );
        assert!(
            !lacks_required("SETATTR", "NFS4ERR_ATTRNOTSUPP")
                && !lacks_required("READ", "NFS4ERR_MINOR_VERS_MISMATCH")
        );
    }

    #[test]
    fn rfc1813_section_3_3_a_server_may_have_no_readdirplus() {
        assert!(
            lacks_required("FSINFO", "NFS3ERR_NOTSUPP") && !lacks_required("READDIRPLUS", "NFS3ERR_NOTSUPP")
        );
    }
}
