//! The fields of one operation, heard from the decoders and remembered until they are put into words.

use std::ops::Range;

use nfsrdma_dissectors::field::{Field, FieldKind, FieldValue, FlagName, Observer};

/// Fields of one message that are remembered; the arguments of every operation have fewer.
const FIELDS: usize = 96;
/// Bytes of one text that are remembered: a name that is longer is cut on every screen.
const TEXT: usize = 256;

/// A value that was heard; text stands in a buffer beside it.
#[derive(Clone, Debug)]
pub(super) enum LabelFieldValue {
    Number(u64),
    Enum(u64, Option<&'static str>),
    Flags(u64, &'static [FlagName]),
    Text(Range<usize>),
    Length(usize),
}

/// Remembers the fields of one operation.
#[derive(Debug, Default)]
pub(super) struct LabelFieldCollector {
    operation: &'static str,
    depth: usize,
    /// The depth at which the operation that is being heard began.
    inside: Option<usize>,
    /// The depth of the directory entry that is being passed over.
    entry: Option<usize>,
    /// How many operations of this name were heard.
    pub(super) seen: usize,
    /// Entries of a directory that were passed over.
    pub(super) entries: u64,
    pub(super) fields: Vec<(&'static Field, LabelFieldValue)>,
    pub(super) text: Vec<u8>,
}

impl LabelFieldCollector {
    pub(super) fn begin(&mut self, operation: &'static str) {
        self.operation = operation;
        (self.depth, self.inside, self.entry, self.seen, self.entries) = (0, None, None, 0, 0);
        self.fields.clear();
        self.text.clear();
    }

    pub(super) fn find(&self, name: &str) -> Option<&LabelFieldValue> {
        let is_called = |field: &Field| field.label == name || field.name == name;
        self.fields.iter().find(|(field, _)| is_called(field)).map(|(_, heard)| heard)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        match *self.find(name)? {
            LabelFieldValue::Number(number)
            | LabelFieldValue::Enum(number, _)
            | LabelFieldValue::Flags(number, _) => Some(number),
            LabelFieldValue::Length(length) => Some(length as u64),
            LabelFieldValue::Text(_) => None,
        }
    }

    pub(super) fn texts(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.fields.iter().filter(move |(field, _)| field.label == name).filter_map(
            |(_, heard)| match heard {
                LabelFieldValue::Text(range) => self.text.get(range.clone()),
                _ => None,
            },
        )
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.fields.iter().filter(|(field, _)| field.label == name).count()
    }
}

impl<'a> Observer<'a> for LabelFieldCollector {
    #[inline]
    fn is_interested_in_items(&mut self, _: &'static Field, _: impl Fn(u32) -> bool) -> bool {
        self.inside.is_some() && self.entry.is_none()
    }

    fn enter(&mut self, field: &'static Field, _: usize) {
        // A path is several operations; of any other the first is the one that is meant.
        let again = self.seen == 0 || self.operation == "LOOKUP";
        if self.inside.is_none() && again && field.label == self.operation {
            self.inside = Some(self.depth);
            self.seen += 1;
        }
        if self.inside.is_some() && self.entry.is_none() && field.label == "entries" {
            self.entries += 1;
            self.entry = Some(self.depth);
        }
        self.depth += 1;
    }

    fn leave(&mut self, _: usize) {
        self.depth = self.depth.saturating_sub(1);
        if self.inside == Some(self.depth) {
            self.inside = None;
        }
        if self.entry == Some(self.depth) {
            self.entry = None;
        }
    }

    fn value(&mut self, field: &'static Field, _: Range<usize>, value: FieldValue<'a>) {
        if self.inside.is_none() || self.entry.is_some() || self.fields.len() >= FIELDS {
            return;
        }
        let value = match value {
            // Opaque by its specification, and text by what every client puts there.
            FieldValue::Bytes(bytes) if matches!(field.label, "co_ownerid" | "id") => FieldValue::Text(bytes),
            value => value,
        };
        let heard = match value {
            FieldValue::Unsigned(number) => LabelFieldValue::Number(number),
            FieldValue::Signed(number) => LabelFieldValue::Number(number as u64),
            FieldValue::Bool(bool) => LabelFieldValue::Number(bool.into()),
            FieldValue::Enum(number, name) => LabelFieldValue::Enum(number, name),
            FieldValue::Flags(mask, names) => LabelFieldValue::Flags(mask, names),
            FieldValue::Text(bytes) | FieldValue::Chunk(_, Some(bytes)) if is_text(field, &value) => {
                let start = self.text.len();
                self.text.extend_from_slice(bytes.get(..TEXT).unwrap_or(bytes));
                LabelFieldValue::Text(start..self.text.len())
            }
            FieldValue::Text(bytes) | FieldValue::Bytes(bytes) => LabelFieldValue::Length(bytes.len()),
            FieldValue::Chunk(length, _) => LabelFieldValue::Length(length as usize),
            _ => return,
        };
        self.fields.push((field, heard));
    }
}

fn is_text(field: &Field, value: &FieldValue<'_>) -> bool {
    matches!(value, FieldValue::Text(_)) || field.kind == FieldKind::Text
}
