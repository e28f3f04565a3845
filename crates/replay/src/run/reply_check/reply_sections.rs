//! Sections of decoded Replies: their statuses, and the fields that are never compared.

use std::rc::Rc;

use nfsrdma_analysis::comparison::difference::DifferenceKind;
use nfsrdma_analysis::comparison::field_equality::{FieldEqualityRequirement, MappedIdentifierType};
use nfsrdma_analysis::comparison::field_path::FieldPath;
use nfsrdma_analysis::comparison::record::{
    ComparableMessage, ComparableMessageField, ComparedFieldValue, ComparedOperationOrHeaders,
};
use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v3;
use nfsrdma_dissectors::nfs::v4::Operation;

/// Bits of an NFSv3 mode that are defined. RFC 1813 section 2.6.
const MODE_BITS: u64 = 0o7777;

/// Renames PUTFH sections that replace PUTROOTFH: the root is the run's directory.
pub(super) fn align_root_sections(recorded: &ComparableMessage, live: &mut ComparableMessage) {
    for (section, live_section) in recorded.sections.iter().zip(&mut live.sections) {
        let is_root = [Operation::PUTROOTFH, Operation::PUTPUBFH].into_iter().any(|root| section.is_operation(root));
        if is_root && live_section.is_operation(Operation::PUTFH) {
            live_section.name = Rc::clone(&section.name);
        }
    }
}

/// Fills in the hashes of data that the message does not contain.
pub(super) fn fill_hashes(message: &mut ComparableMessage, hashes: &[(u32, Option<u128>)]) {
    let entries = message.sections.iter_mut().flat_map(|section| &mut section.entries);
    let unknown = entries.filter(|entry| entry.datum.is_unknown());
    for (entry, (length, hash)) in unknown.zip(hashes) {
        if let Some(hash) = hash {
            entry.datum = ComparedFieldValue::Digest(u64::from(*length), *hash);
        }
    }
}

pub(super) fn is_status(entry: &ComparableMessageField) -> bool {
    entry.path.class == FieldEqualityRequirement::Equal(DifferenceKind::Status)
}

pub(super) fn is_ok(value: &ComparedFieldValue) -> bool {
    match value {
        ComparedFieldValue::Named(name) => {
            name.ends_with("_OK") || [enumerator_names::SUCCESS, enumerator_names::MSG_ACCEPTED].contains(name)
        }
        ComparedFieldValue::Number(number) => *number == 0,
        _ => false,
    }
}

pub(super) fn statuses(message: &ComparableMessage) -> Vec<&ComparedFieldValue> {
    message.sections.iter().filter_map(section_status).collect()
}

pub(super) fn section_status(section: &ComparedOperationOrHeaders) -> Option<&ComparedFieldValue> {
    section.entries.iter().find(|entry| is_status(entry)).map(|entry| &entry.datum)
}

/// Returns the index of the first section after the header whose status differs.
pub(super) fn first_differing_status(recorded: &ComparableMessage, live: &ComparableMessage) -> Option<usize> {
    let mut pairs = recorded.sections.iter().zip(&live.sections).enumerate().skip(1);
    pairs.find(|(_, (a, b))| section_status(a) != section_status(b)).map(|(at, _)| at)
}

/// Returns the operations before a section. The status in the header of a COMPOUND is that of the last one.
pub(super) fn operations_before(message: &ComparableMessage, end: usize) -> ComparableMessage {
    let mut sections: Vec<_> = message.sections.iter().take(end).cloned().collect();
    if let Some(header) = sections.first_mut() {
        header.entries.retain(|entry| !is_status(entry));
    }
    ComparableMessage { sections, ..ComparableMessage::default() }
}

pub(super) fn makes_names(operation: &str) -> bool {
    use v3::Procedure as Nfs;
    matches!(
        Operation::from_name(operation),
        Some(Operation::CREATE | Operation::OPEN | Operation::LINK | Operation::RENAME)
    ) || matches!(Nfs::from_name(operation), Some(Nfs::MKDIR | Nfs::SYMLINK | Nfs::MKNOD))
}

/// Removes fields that are never compared: identifiers that each server chooses, except filehandles, which must refer
/// to the same objects; RPC protection; and attribute masks, which follow from the attributes.
pub(super) fn remove_incomparable(section: &mut ComparedOperationOrHeaders, may_have_restarted: bool) {
    let name = Rc::clone(&section.name);
    section.entries.retain(|entry| !is_incomparable(&name, &entry.path, may_have_restarted));
}

/// Clears the bits of NFSv3 modes that have no meaning: some servers add the type of the file. RFC 1813 section 2.6.
pub(super) fn clear_undefined_mode_bits(section: &mut ComparedOperationOrHeaders) {
    let modes = section.entries.iter_mut().filter(|entry| entry.path.field == field_names::NFS_MODE3);
    for entry in modes {
        if let ComparedFieldValue::Flags(mask, _) | ComparedFieldValue::Number(mask) = &mut entry.datum {
            *mask &= MODE_BITS;
        }
    }
}

pub(super) fn is_incomparable(operation: &str, path: &FieldPath, may_have_restarted: bool) -> bool {
    match path.class {
        FieldEqualityRequirement::Identity(MappedIdentifierType::Filehandle) => false,
        // Data written before a change of the verifier may be lost: RFC 8881 section 18.32.4.
        FieldEqualityRequirement::Identity(MappedIdentifierType::Verifier) => {
            may_have_restarted
                || ![Operation::WRITE, Operation::COMMIT].into_iter().any(|write| write.name() == operation)
        }
        FieldEqualityRequirement::Identity(_) => true,
        FieldEqualityRequirement::Equal(DifferenceKind::Status) => false,
        _ if operation.is_empty() => field_names::is_of_rpc(path.field),
        _ => path.field == field_names::NFS_STATEID_SEQID || path.leaf() == field_labels::ATTRMASK,
    }
}
