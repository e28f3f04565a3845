//! Tape of the decoded fields of a Transaction, in the order of decoding, for one line.
//!
//! Decoders report fields one by one, and a line needs the arguments and the results of an operation together, so they
//! are buffered here. The buffer also applies part of the schema: XDR structures without a meaning of their own are
//! flattened, attributes become names and values, and the entries of a directory a count and names.

use std::ops::Range;

use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;

/// Maximum number of entry names of a directory in a line.
const MAX_NAMES: u64 = 1_000;

/// Structures whose fields are flattened into those of the operation.
const FLATTENED: [&str; 10] = [
    field_labels::OBJTYPE,
    field_labels::OPENHOW,
    field_labels::HOW,
    field_labels::CLAIM,
    field_labels::REPLY,
    field_labels::WHAT,
    field_labels::WHERE,
    field_labels::SYMLINK,
    field_labels::OBJECT,
    field_labels::LINK,
];

/// Field of the values of a `fattr4`, whose own name is used for the names of the attributes.
static ATTRIBUTES: FieldDefinition =
    FieldDefinition::group("nfs.fattr4", "attributes", "Attributes and their values. RFC 8881 section 5.");
/// Field of the entry names of a directory, whose own name is used for their count.
static NAMES: FieldDefinition = FieldDefinition {
    name: field_names::NFS_ENTRY_NAME,
    label: "names",
    kind: FieldKind::Text,
    doc: "Names of entries of a directory. RFC 8881 section 18.23.2.",
};

/// Field with its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferedField<'a> {
    pub(super) field: &'static FieldDefinition,
    pub(super) content: BufferedFieldContent<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum BufferedFieldContent<'a> {
    Value(FieldValue<'a>),
    /// Group; its fields are the following items, up to this index.
    Group(usize),
    /// List; its items follow, each under the same field.
    List,
}

/// One operation of a COMPOUND, in its Call or in its Reply.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonCompoundOperationFields {
    pub(super) number: u64,
    pub(super) name: Option<&'static str>,
    /// Number and name of the status.
    pub(super) status: Option<(u64, Option<&'static str>)>,
    pub(super) items: Range<usize>,
}

/// Structure that the decoder has entered.
#[derive(Clone, Copy, Debug)]
enum EnteredStructure {
    /// Ignored structure.
    Ignored,
    /// Operation of a COMPOUND.
    Operation,
    /// Flattened structure.
    Flattened(&'static FieldDefinition),
    /// Structure recorded as the item of this index.
    Recorded(usize),
    /// Entry of a directory.
    Entry,
}

/// Observer that records the fields of a message.
#[derive(Debug, Default)]
pub(super) struct MessageFieldBuffer<'a> {
    pub(super) items: Vec<BufferedField<'a>>,
    pub(super) parts: Vec<JsonCompoundOperationFields>,
    levels: Vec<EnteredStructure>,
    /// Name of the procedure; `None` in a COMPOUND.
    procedure: Option<&'static str>,
    /// Index of the item that counts the entries of a directory.
    entries: usize,
}

impl MessageFieldBuffer<'_> {
    /// Returns an empty buffer with the memory of this one, for messages of another lifetime.
    #[expect(clippy::unnecessary_filter_map, reason = "a filter would keep the lifetime")]
    pub(super) fn cleared<'to>(self) -> MessageFieldBuffer<'to> {
        let Self { mut items, mut parts, mut levels, .. } = self;
        items.clear();
        parts.clear();
        levels.clear();
        // Maps nothing: it only changes the lifetime of the items, and keeps the allocation.
        let items = items.into_iter().filter_map(|_| None).collect();
        MessageFieldBuffer { items, parts, levels, procedure: None, entries: 0 }
    }

    /// Sets the procedure of the next message; `None` for a COMPOUND.
    pub(super) fn begin_message(&mut self, procedure: Option<&'static str>) {
        self.procedure = procedure;
    }

    /// Ends a message, even one truncated within its structures. Returns the index of the next item.
    pub(super) fn end_message(&mut self) -> usize {
        while !self.levels.is_empty() {
            self.leave(0);
        }
        self.items.len()
    }

    /// Returns `true` if the last operation has no items yet.
    fn is_operation_empty(&self) -> bool {
        self.parts.last().is_some_and(|operation| operation.items.start == self.items.len())
    }
}

impl<'a> MessageFieldBuffer<'a> {
    fn push(&mut self, field: &'static FieldDefinition, content: BufferedFieldContent<'a>) {
        self.items.push(BufferedField { field, content });
    }

    /// Inserts a word of an attribute mask before the values; it takes the name of the group.
    fn push_attribute_mask(&mut self, group: usize, value: FieldValue<'a>) {
        let Some(item) = self.items.get_mut(group) else { return };
        let field = std::mem::replace(&mut item.field, &ATTRIBUTES);
        let field = if group > 0 && std::ptr::eq(field, &ATTRIBUTES) {
            self.items.get(group - 1).map_or(field, |mask| mask.field)
        } else {
            field
        };
        self.items.insert(group, BufferedField { field, content: BufferedFieldContent::Value(value) });
        if let Some(level) = self.levels.last_mut() {
            *level = EnteredStructure::Recorded(group + 1);
        }
    }

    fn begin_level(&mut self, field: &'static FieldDefinition) -> EnteredStructure {
        match self.levels.last() {
            Some(EnteredStructure::Ignored | EnteredStructure::Entry) => EnteredStructure::Ignored,
            None if field_names::is_of_rpc(field.name) => EnteredStructure::Ignored,
            None => match self.procedure {
                None => {
                    let at = self.items.len();
                    self.parts
                        .push(JsonCompoundOperationFields { items: at..at, ..JsonCompoundOperationFields::default() });
                    EnteredStructure::Operation
                }
                Some(procedure) if procedure == field.label => EnteredStructure::Flattened(field),
                Some(_) => self.push_group(field),
            },
            Some(_) if field.label == field_labels::ENTRIES => {
                if let Some(BufferedField {
                    content: BufferedFieldContent::Value(FieldValue::Unsigned(count)), ..
                }) = self.items.get_mut(self.entries)
                {
                    *count += 1;
                }
                EnteredStructure::Entry
            }
            Some(EnteredStructure::Operation | EnteredStructure::Flattened(_)) if FLATTENED.contains(&field.label) => {
                EnteredStructure::Flattened(field)
            }
            Some(_) => self.push_group(field),
        }
    }

    fn push_group(&mut self, field: &'static FieldDefinition) -> EnteredStructure {
        self.push(field, BufferedFieldContent::Group(usize::MAX));
        EnteredStructure::Recorded(self.items.len() - 1)
    }

    fn entry_count(&self) -> u64 {
        match self.items.get(self.entries).map(|item| item.content) {
            Some(BufferedFieldContent::Value(FieldValue::Unsigned(count))) => count,
            _ => 0,
        }
    }
}

impl<'a> FieldObserver<'a> for MessageFieldBuffer<'a> {
    fn enter(&mut self, field: &'static FieldDefinition, _: usize) {
        let level = self.begin_level(field);
        self.levels.push(level);
    }

    fn leave(&mut self, _: usize) {
        let end = self.items.len();
        match self.levels.pop() {
            Some(EnteredStructure::Operation) => {
                if let Some(operation) = self.parts.last_mut() {
                    operation.items.end = end;
                }
            }
            // Its message ended before its first field.
            Some(EnteredStructure::Recorded(at)) if at + 1 == end => self.items.truncate(at),
            Some(EnteredStructure::Recorded(at)) => {
                if let Some(item) = self.items.get_mut(at) {
                    item.content = BufferedFieldContent::Group(end);
                }
            }
            Some(EnteredStructure::Ignored | EnteredStructure::Flattened(_) | EnteredStructure::Entry) | None => {}
        }
    }

    fn list(&mut self, field: &'static FieldDefinition, _: usize) {
        match self.levels.last() {
            Some(EnteredStructure::Ignored | EnteredStructure::Entry) => {}
            None if self.procedure.is_none() || field_names::is_of_rpc(field.name) => {}
            _ if field.label == field_labels::ENTRIES => {
                self.entries = self.items.len();
                self.push(field, BufferedFieldContent::Value(FieldValue::Unsigned(0)));
                self.push(&NAMES, BufferedFieldContent::List);
            }
            _ => self.push(field, BufferedFieldContent::List),
        }
    }

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        match self.levels.last().copied() {
            Some(EnteredStructure::Ignored) => {}
            Some(EnteredStructure::Entry) => {
                if field.label == field_labels::NAME && self.entry_count() <= MAX_NAMES {
                    self.push(&NAMES, BufferedFieldContent::Value(value));
                }
            }
            // The line itself has the header of a COMPOUND and the status of a procedure.
            None if self.procedure.is_none() || field.label == field_labels::STATUS => {}
            None if field_names::is_of_rpc(field.name) => {}
            Some(EnteredStructure::Operation) if self.is_operation_empty() && is_operation_header(field) => {
                if let (Some(operation), FieldValue::Enum(number, name)) = (self.parts.last_mut(), value) {
                    if field.label == field_labels::OP {
                        (operation.number, operation.name) = (number, name);
                    } else {
                        operation.status = Some((number, name));
                    }
                }
            }
            // The type of the object that CREATE makes is named after the union.
            Some(EnteredStructure::Flattened(union))
                if union.label == field_labels::OBJTYPE && field.label == field_labels::TYPE =>
            {
                self.push(union, BufferedFieldContent::Value(value));
            }
            Some(EnteredStructure::Recorded(group)) if field.label == field_labels::ATTRMASK => {
                self.push_attribute_mask(group, value)
            }
            _ => self.push(field, BufferedFieldContent::Value(value)),
        }
    }
}

/// Returns `true` if a field is the number of an operation or its status.
fn is_operation_header(field: &FieldDefinition) -> bool {
    matches!(field.name, field_names::NFS_OPCODE | field_names::NFS_CB_OPERATION | field_names::NFS_NFSSTAT4)
        && matches!(field.label, field_labels::OP | field_labels::STATUS)
}
