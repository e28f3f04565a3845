//! Canonical records of a baseline: no varying fields, short hashes for identities and long lists.
//!
//! The same bytes must give the same record, so that records contain no numbers that depend on other records.

use std::collections::HashMap;
use std::fmt::Write;
use std::rc::Rc;

use crate::comparison::field_equality::{FieldEqualityRequirement, MappedIdentifierType, OPERATION_COUNT_FIELD};
use crate::comparison::record::{
    ComparableMessageField, ComparableTransaction, ComparedChunkKind, ComparedFieldValue, ComparedOperationOrHeaders,
    hash,
};

/// Number of fields with one path in one operation from which they are folded as a list.
const MIN_FOLDED_FIELDS: usize = 5;

pub(super) fn canonicalize(record: &mut ComparableTransaction) {
    for message in record.call.iter_mut().chain(&mut record.reply) {
        // Lengths are compared exactly.
        message.varying = 0;
        for section in &mut message.sections {
            section.entries.retain(|entry| {
                !matches!(entry.path.class, FieldEqualityRequirement::Varies(_))
                    && entry.path.field != OPERATION_COUNT_FIELD
            });
            fold(section);
            for entry in &mut section.entries {
                if let FieldEqualityRequirement::Identity(identity) = entry.path.class {
                    shorten(identity, &mut entry.datum);
                }
            }
        }
    }
    for chunk in &mut record.chunks {
        chunk.varying = 0;
        if let ComparedChunkKind::Read(_, varying) = &mut chunk.kind {
            *varying = 0;
        }
    }
}

/// Replaces identity bytes by the beginning of their hash. All zeros and all ones are well known and stay.
fn shorten(identity: MappedIdentifierType, value: &mut ComparedFieldValue) {
    if let ComparedFieldValue::Bytes(bytes) = value
        && bytes.iter().any(|byte| *byte != 0)
        && bytes.iter().any(|byte| *byte != 0xff)
    {
        *value = ComparedFieldValue::Name(identity, (hash(bytes) >> 96) as u32);
    }
}

/// Sets the keys that pair the record: a hash of its whole Call, and one of its names, offsets and counts. Identities
/// are included unless they are ignored.
pub(super) fn set_match_keys(record: &mut ComparableTransaction, has_identities: bool) {
    let (mut arguments, mut subject) = (String::new(), String::new());
    for entry in record.call_fields() {
        if has_identities || !matches!(entry.path.class, FieldEqualityRequirement::Identity(_)) {
            let _ = write!(arguments, "{}={} ", entry.path.text, entry.datum);
        }
        if entry.path.class.is_subject() {
            let _ = write!(subject, "{} ", entry.datum);
        }
    }
    record.arguments = hash(arguments.as_bytes()) as u64;
    record.subject_hash = hash(subject.as_bytes()) as u64;
}

/// Folds each frequent field into one, at the position of its first value: the count, and the hash of all values.
fn fold(section: &mut ComparedOperationOrHeaders) {
    if section.entries.len() < MIN_FOLDED_FIELDS {
        return;
    }
    let mut counts: HashMap<*const str, usize> = HashMap::new();
    let key = |entry: &ComparableMessageField| std::ptr::from_ref(&*entry.path.text);
    for entry in &section.entries {
        *counts.entry(key(entry)).or_default() += 1;
    }
    counts.retain(|_, count| *count >= MIN_FOLDED_FIELDS);
    if counts.is_empty() {
        return;
    }
    let mut texts: HashMap<*const str, String> = HashMap::new();
    let mut entries: Vec<ComparableMessageField> = Vec::with_capacity(section.entries.len());
    for entry in std::mem::take(&mut section.entries) {
        if !counts.contains_key(&key(&entry)) {
            entries.push(entry);
            continue;
        }
        let is_first = !texts.contains_key(&key(&entry));
        let text = texts.entry(key(&entry)).or_default();
        let _ = write!(text, "{} ", entry.datum);
        if is_first {
            entries
                .push(ComparableMessageField { path: Rc::clone(&entry.path), datum: ComparedFieldValue::Fold(0, 0) });
        }
    }
    for entry in &mut entries {
        if let (Some(count), Some(text)) = (counts.get(&key(entry)), texts.get(&key(entry))) {
            entry.datum = ComparedFieldValue::Fold(*count as u64, hash(text.as_bytes()) as u64);
        }
    }
    section.entries = entries;
}
