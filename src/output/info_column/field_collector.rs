//! Collector of the fields of one operation for the info column.

use std::ops::Range;

use nfsrdma_dissectors::field::{Field, FieldKind, FieldValue, FlagName, Observer};

/// Maximum number of fields collected per message; the arguments of every operation have fewer.
const MAX_FIELDS: usize = 96;
/// Maximum number of bytes collected per text: every screen truncates longer names.
const MAX_TEXT_BYTES: usize = 256;

/// Value of a field; text is stored in a separate buffer.
#[derive(Clone, Debug)]
pub(super) enum InfoFieldValue {
    Number(u64),
    Enum(u64, Option<&'static str>),
    Flags(u64, &'static [FlagName]),
    Text(Range<usize>),
    Length(usize),
}

/// Observer that collects the fields of one operation.
#[derive(Debug, Default)]
pub(super) struct InfoFieldCollector {
    operation: &'static str,
    depth: usize,
    /// Depth at which the current operation began.
    operation_depth: Option<usize>,
    /// Depth of the directory entry being skipped.
    skipped_entry_depth: Option<usize>,
    /// Number of operations of this name seen.
    pub(super) operations_seen: usize,
    /// Number of directory entries skipped.
    pub(super) entries: u64,
    pub(super) fields: Vec<(&'static Field, InfoFieldValue)>,
    pub(super) text: Vec<u8>,
}

impl InfoFieldCollector {
    pub(super) fn begin(&mut self, operation: &'static str) {
        self.operation = operation;
        (self.depth, self.operation_depth, self.skipped_entry_depth, self.operations_seen, self.entries) =
            (0, None, None, 0, 0);
        self.fields.clear();
        self.text.clear();
    }

    pub(super) fn find(&self, name: &str) -> Option<&InfoFieldValue> {
        let is_called = |field: &Field| field.label == name || field.name == name;
        self.fields.iter().find(|(field, _)| is_called(field)).map(|(_, heard)| heard)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        match *self.find(name)? {
            InfoFieldValue::Number(number)
            | InfoFieldValue::Enum(number, _)
            | InfoFieldValue::Flags(number, _) => Some(number),
            InfoFieldValue::Length(length) => Some(length as u64),
            InfoFieldValue::Text(_) => None,
        }
    }

    pub(super) fn texts(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.fields.iter().filter(move |(field, _)| field.label == name).filter_map(
            |(_, heard)| match heard {
                InfoFieldValue::Text(range) => self.text.get(range.clone()),
                _ => None,
            },
        )
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.fields.iter().filter(|(field, _)| field.label == name).count()
    }
}

impl<'a> Observer<'a> for InfoFieldCollector {
    #[inline]
    fn is_interested_in_items(&mut self, _: &'static Field, _: impl Fn(u32) -> bool) -> bool {
        self.operation_depth.is_some() && self.skipped_entry_depth.is_none()
    }

    fn enter(&mut self, field: &'static Field, _: usize) {
        // A path is several LOOKUPs; of any other operation, only the first is collected.
        let again = self.operations_seen == 0 || self.operation == "LOOKUP";
        if self.operation_depth.is_none() && again && field.label == self.operation {
            self.operation_depth = Some(self.depth);
            self.operations_seen += 1;
        }
        if self.operation_depth.is_some() && self.skipped_entry_depth.is_none() && field.label == "entries" {
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

    fn value(&mut self, field: &'static Field, _: Range<usize>, value: FieldValue<'a>) {
        if self.operation_depth.is_none()
            || self.skipped_entry_depth.is_some()
            || self.fields.len() >= MAX_FIELDS
        {
            return;
        }
        let value = match value {
            // Opaque in the specification, but every client stores text there.
            FieldValue::Bytes(bytes) if matches!(field.label, "co_ownerid" | "id") => FieldValue::Text(bytes),
            value => value,
        };
        let heard = match value {
            FieldValue::Unsigned(number) => InfoFieldValue::Number(number),
            FieldValue::Signed(number) => InfoFieldValue::Number(number as u64),
            FieldValue::Bool(bool) => InfoFieldValue::Number(bool.into()),
            FieldValue::Enum(number, name) => InfoFieldValue::Enum(number, name),
            FieldValue::Flags(mask, names) => InfoFieldValue::Flags(mask, names),
            FieldValue::Text(bytes) | FieldValue::Chunk(_, Some(bytes)) if is_text(field, &value) => {
                let start = self.text.len();
                self.text.extend_from_slice(bytes.get(..MAX_TEXT_BYTES).unwrap_or(bytes));
                InfoFieldValue::Text(start..self.text.len())
            }
            FieldValue::Text(bytes) | FieldValue::Bytes(bytes) => InfoFieldValue::Length(bytes.len()),
            FieldValue::Chunk(length, _) => InfoFieldValue::Length(length as usize),
            _ => return,
        };
        self.fields.push((field, heard));
    }
}

fn is_text(field: &Field, value: &FieldValue<'_>) -> bool {
    matches!(value, FieldValue::Text(_)) || field.kind == FieldKind::Text
}
