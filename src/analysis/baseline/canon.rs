//! Records as a baseline has them: identities under numbers of their own, and long lists as hashes.

use std::collections::HashMap;
use std::fmt::Write;
use std::rc::Rc;

use crate::analysis::comparison::pair::OPERATIONS;
use crate::analysis::comparison::record::{Datum, Entry, Message, Record, Section, hash};
use crate::analysis::comparison::renaming::Name;
use crate::analysis::comparison::role::{Identity, Role};

/// A field that stands so often in one operation is part of a long list.
const LIST: usize = 5;

/// Numbers the identities of one capture, in the order in which they appear: `filehandle:3`.
#[derive(Debug, Default)]
pub struct Canon {
    numbers: HashMap<Name, u64>,
    counts: HashMap<Identity, u64>,
}

impl Canon {
    /// Brings a record into the form that baselines have. Times and the like are left out.
    pub fn record(&mut self, record: &mut Record) {
        let scope = record.scope();
        for message in record.call.iter_mut().chain(&mut record.reply) {
            for section in &mut message.sections {
                section.entries.retain(|entry| {
                    !matches!(entry.path.role, Role::Varies(_)) && entry.path.field != OPERATIONS
                });
                fold(section);
                for entry in &mut section.entries {
                    if let Role::Identity(identity) = entry.path.role
                        && !entry.datum.is_fold()
                        && let Some(name) = Name::of(identity, &entry.datum, scope)
                    {
                        entry.datum = Datum::Name(identity, self.number(identity, name));
                    }
                }
            }
        }
        record.arguments = record.call.as_ref().map_or(0, arguments);
        record.about = 0;
    }

    fn number(&mut self, identity: Identity, name: Name) -> u64 {
        let counts = &mut self.counts;
        *self.numbers.entry(name).or_insert_with(|| {
            let count = counts.entry(identity).or_default();
            *count += 1;
            *count
        })
    }
}

/// Everything in a Call but identities, hashed.
pub(super) fn arguments(call: &Message) -> u64 {
    let mut text = String::new();
    for entry in call.sections.iter().flat_map(|section| &section.entries) {
        if !matches!(entry.datum, Datum::Name(..)) {
            let _ = write!(text, "{}={} ", entry.path.text, entry.datum);
        }
    }
    hash(text.as_bytes()) as u64
}

/// Fields that stand often become one each, where the first of them was: their count, and the hash of all values.
fn fold(section: &mut Section) {
    if section.entries.len() < LIST {
        return;
    }
    let mut counts: HashMap<*const str, usize> = HashMap::new();
    let key = |entry: &Entry| std::ptr::from_ref(&*entry.path.text);
    for entry in &section.entries {
        *counts.entry(key(entry)).or_default() += 1;
    }
    counts.retain(|_, count| *count >= LIST);
    if counts.is_empty() {
        return;
    }
    let mut texts: HashMap<*const str, String> = HashMap::new();
    let mut kept: Vec<Entry> = Vec::with_capacity(section.entries.len());
    for entry in std::mem::take(&mut section.entries) {
        if !counts.contains_key(&key(&entry)) {
            kept.push(entry);
            continue;
        }
        let is_first = !texts.contains_key(&key(&entry));
        let text = texts.entry(key(&entry)).or_default();
        let _ = write!(text, "{} ", entry.datum);
        if is_first {
            kept.push(Entry { path: Rc::clone(&entry.path), datum: Datum::Fold(0, 0) });
        }
    }
    for entry in &mut kept {
        if let (Some(count), Some(text)) = (counts.get(&key(entry)), texts.get(&key(entry))) {
            entry.datum = Datum::Fold(*count as u64, hash(text.as_bytes()) as u64);
        }
    }
    section.entries = kept;
}
