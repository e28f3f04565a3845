//! Collector of the fields of one operation for the info column.

use std::ops::Range;

use nfsrdma_dissectors::field::registry::FieldRegistry;
use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue, FlagName};
use nfsrdma_dissectors::nfs::v3::Dirlist3;
use nfsrdma_dissectors::nfs::v4::{ClientOwner4, Dirlist4, NfsClientId4};

/// Maximum number of fields collected per message; the arguments of every operation have fewer.
const MAX_FIELDS: usize = 96;
/// Maximum number of bytes collected per text: every screen truncates longer names.
const MAX_TEXT_BYTES: usize = 256;

/// Value of a field; text is stored in a separate buffer.
#[derive(Clone, Debug)]
pub(super) enum InfoColumnFieldValue {
    Number(u64),
    Enum(u64, Option<&'static str>),
    Flags(u64, &'static [FlagName]),
    Text(Range<usize>),
    Length(usize),
}

/// Observer that collects the fields of one operation, or of all operations of its name.
#[derive(Debug, Default)]
pub(super) struct InfoFieldCollector {
    operation: &'static str,
    is_repeated: bool,
    depth: usize,
    /// Depth at which the current operation began.
    operation_depth: Option<usize>,
    /// Depth of the directory entry being skipped.
    skipped_entry_depth: Option<usize>,
    /// Number of operations seen.
    pub(super) operations_seen: usize,
    /// Number of directory entries skipped.
    pub(super) entries: u64,
    pub(super) fields: Vec<(&'static FieldDefinition, InfoColumnFieldValue)>,
    pub(super) text: Vec<u8>,
}

impl InfoFieldCollector {
    pub(super) fn begin(&mut self, operation: &'static str, is_repeated: bool) {
        (self.operation, self.is_repeated) = (operation, is_repeated);
        (self.depth, self.operation_depth, self.skipped_entry_depth, self.operations_seen, self.entries) =
            (0, None, None, 0, 0);
        self.fields.clear();
        self.text.clear();
    }

    pub(super) fn find(&self, definition: &FieldDefinition) -> Option<&InfoColumnFieldValue> {
        self.fields.iter().find(|(field, _)| *field == definition).map(|(_, value)| value)
    }

    pub(super) fn number(&self, field: &FieldDefinition) -> Option<u64> {
        match *self.find(field)? {
            InfoColumnFieldValue::Number(number)
            | InfoColumnFieldValue::Enum(number, _)
            | InfoColumnFieldValue::Flags(number, _) => Some(number),
            InfoColumnFieldValue::Length(length) => Some(length as u64),
            InfoColumnFieldValue::Text(_) => None,
        }
    }

    /// Returns the texts of these fields in the order of the message.
    pub(super) fn texts(&self, definitions: &[&FieldDefinition]) -> impl Iterator<Item = &[u8]> {
        self.fields.iter().filter(|(field, _)| definitions.contains(field)).filter_map(|(_, value)| match value {
            InfoColumnFieldValue::Text(range) => self.text.get(range.clone()),
            _ => None,
        })
    }

    pub(super) fn count(&self, definition: &FieldDefinition) -> usize {
        self.fields.iter().filter(|(field, _)| *field == definition).count()
    }

    /// Returns `true` inside the operation, except in an entry of a directory.
    fn is_collecting(&self) -> bool {
        self.operation_depth.is_some() && self.skipped_entry_depth.is_none()
    }

    /// Returns `true` if the operation begins with this group.
    fn is_beginning(&self, group: &'static FieldDefinition) -> bool {
        let is_wanted = self.operations_seen == 0 || self.is_repeated;
        self.operation_depth.is_none() && is_wanted && self.operation == group.label
    }
}

impl<'a> FieldObserver<'a> for InfoFieldCollector {
    #[inline]
    fn is_interested_in(&mut self, group: &'static FieldDefinition, _: fn(&mut FieldRegistry)) -> bool {
        self.is_collecting() || self.is_beginning(group)
    }

    #[inline]
    fn is_interested_in_items(&mut self, _: &'static FieldDefinition, _: &dyn Fn(u32) -> bool) -> bool {
        self.is_collecting()
    }

    fn enter(&mut self, group: &'static FieldDefinition, _: usize) {
        if self.is_beginning(group) {
            self.operation_depth = Some(self.depth);
            self.operations_seen += 1;
        }
        let entries = [Dirlist3::FIELDS.entries, Dirlist4::FIELDS.entries];
        if self.is_collecting() && entries.contains(&group) {
            self.entries += 1;
            self.skipped_entry_depth = Some(self.depth);
        }
        self.depth += 1;
    }

    fn leave(&mut self, _: usize) {
        self.depth = self.depth.saturating_sub(1);
        if self.operation_depth == Some(self.depth) {
            self.operation_depth = None;
        }
        if self.skipped_entry_depth == Some(self.depth) {
            self.skipped_entry_depth = None;
        }
    }

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        if !self.is_collecting() || self.fields.len() >= MAX_FIELDS {
            return;
        }
        let texts = [ClientOwner4::FIELDS.co_ownerid, NfsClientId4::FIELDS.id];
        let value = match value {
            // Opaque in the specification, but every client stores text there.
            FieldValue::Bytes(bytes) if texts.contains(&field) => FieldValue::Text(bytes),
            value => value,
        };
        let collected = match value {
            FieldValue::Unsigned(number) => InfoColumnFieldValue::Number(number),
            FieldValue::Signed(number) => InfoColumnFieldValue::Number(number as u64),
            FieldValue::Bool(bool) => InfoColumnFieldValue::Number(bool.into()),
            FieldValue::Enum(number, name) => InfoColumnFieldValue::Enum(number, name),
            FieldValue::Flags(mask, names) => InfoColumnFieldValue::Flags(mask, names),
            FieldValue::Text(bytes) | FieldValue::Chunk(_, Some(bytes)) if is_text(field, &value) => {
                let start = self.text.len();
                self.text.extend_from_slice(bytes.get(..MAX_TEXT_BYTES).unwrap_or(bytes));
                InfoColumnFieldValue::Text(start..self.text.len())
            }
            FieldValue::Text(bytes) | FieldValue::Bytes(bytes) => InfoColumnFieldValue::Length(bytes.len()),
            FieldValue::Chunk(length, _) => InfoColumnFieldValue::Length(length as usize),
            _ => return,
        };
        self.fields.push((field, collected));
    }
}

fn is_text(field: &FieldDefinition, value: &FieldValue<'_>) -> bool {
    matches!(value, FieldValue::Text(_)) || field.kind == FieldKind::Text
}
