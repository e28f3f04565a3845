//! What the messages of a Transaction say, in the order in which they were read, for as long as one line takes.
//!
//! A decoder tells its fields one after the other, and a line needs the arguments and the results of an operation side
//! by side, so they wait here. Some of the shape that lines have is made here, too: structures that only hold others
//! together in XDR are opened, attributes become names and values, and the entries of a directory a count and names.

use std::ops::Range;

use nfsrdma_dissectors::field::{Field, FieldKind, FieldValue, Observer};

/// The names of a directory's entries that a line holds at most.
const MAX_NAMES: u64 = 1_000;

/// Structures whose fields stand directly among those of the operation.
const OPENED: [&str; 10] =
    ["objtype", "openhow", "how", "claim", "reply", "what", "where", "symlink", "object", "link"];

/// Stands for the values of a `fattr4`, whose own name goes to the names of the attributes.
static ATTRIBUTES: Field =
    Field::group("nfs.fattr4", "attributes", "Attributes and their values. RFC 8881 section 5.");
/// Stands for the names of a directory's entries, whose own name goes to their count.
static NAMES: Field = Field {
    name: "nfs.entry_name",
    label: "names",
    kind: FieldKind::Text,
    doc: "Names of entries of a directory. RFC 8881 section 18.23.2.",
};

/// A field and what is in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TapeItem<'a> {
    pub(super) field: &'static Field,
    pub(super) content: TapeItemContent<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TapeItemContent<'a> {
    Value(FieldValue<'a>),
    /// Its fields are the items that follow, up to this one.
    Group(usize),
    /// Its items follow, each under the same field.
    List,
}

/// One operation of a COMPOUND, in its Call or in its Reply.
#[derive(Clone, Debug, Default)]
pub(super) struct TapeOperation {
    pub(super) number: u64,
    pub(super) name: Option<&'static str>,
    /// The number of a status, and its name.
    pub(super) status: Option<(u64, Option<&'static str>)>,
    pub(super) items: Range<usize>,
}

/// A structure that was entered.
#[derive(Clone, Copy, Debug)]
enum TapeLevel {
    /// Nothing of it is kept.
    Skipped,
    /// It is an operation of a COMPOUND.
    Operation,
    /// Its fields stand in for it.
    Opened(&'static Field),
    /// It is this item.
    Kept(usize),
    /// It is an entry of a directory.
    Entry,
}

/// Listens to a walk over a message.
#[derive(Debug, Default)]
pub(super) struct FieldTape<'a> {
    pub(super) items: Vec<TapeItem<'a>>,
    pub(super) parts: Vec<TapeOperation>,
    levels: Vec<TapeLevel>,
    /// The name of the procedure; `None` in a COMPOUND.
    procedure: Option<&'static str>,
    /// The item that counts the entries of a directory.
    entries: usize,
}

impl FieldTape<'_> {
    /// An empty tape that has the memory of this one, for messages that live elsewhere.
    #[expect(clippy::unnecessary_filter_map, reason = "a filter would keep the lifetime")]
    pub(super) fn wiped<'to>(self) -> FieldTape<'to> {
        let Self { mut items, mut parts, mut levels, .. } = self;
        items.clear();
        parts.clear();
        levels.clear();
        // There is nothing to map: this only says that the memory may hold items of another lifetime.
        let items = items.into_iter().filter_map(|_| None).collect();
        FieldTape { items, parts, levels, procedure: None, entries: 0 }
    }

    /// Says what procedure the message belongs to that is listened to next; `None` for a COMPOUND.
    pub(super) fn listen_to(&mut self, procedure: Option<&'static str>) {
        self.procedure = procedure;
    }

    /// Ends a message that may have ended within its structures. Returns where the next one begins.
    pub(super) fn end(&mut self) -> usize {
        while !self.levels.is_empty() {
            self.leave(0);
        }
        self.items.len()
    }

    /// Whether nothing is kept of an operation that was begun.
    fn is_at_its_begin(&self) -> bool {
        self.parts.last().is_some_and(|part| part.items.start == self.items.len())
    }
}

impl<'a> FieldTape<'a> {
    fn push(&mut self, field: &'static Field, content: TapeItemContent<'a>) {
        self.items.push(TapeItem { field, content });
    }

    /// The words of an attribute mask come before the values, and take the name of both.
    fn push_attribute_mask(&mut self, group: usize, value: FieldValue<'a>) {
        let Some(item) = self.items.get_mut(group) else { return };
        let field = std::mem::replace(&mut item.field, &ATTRIBUTES);
        let field = if group > 0 && std::ptr::eq(field, &ATTRIBUTES) {
            self.items.get(group - 1).map_or(field, |mask| mask.field)
        } else {
            field
        };
        self.items.insert(group, TapeItem { field, content: TapeItemContent::Value(value) });
        if let Some(level) = self.levels.last_mut() {
            *level = TapeLevel::Kept(group + 1);
        }
    }

    fn level_of(&mut self, field: &'static Field) -> TapeLevel {
        match self.levels.last() {
            Some(TapeLevel::Skipped | TapeLevel::Entry) => TapeLevel::Skipped,
            None if field.name.starts_with("rpc") => TapeLevel::Skipped,
            None => match self.procedure {
                None => {
                    let at = self.items.len();
                    self.parts.push(TapeOperation { items: at..at, ..TapeOperation::default() });
                    TapeLevel::Operation
                }
                Some(procedure) if procedure == field.label => TapeLevel::Opened(field),
                Some(_) => self.keep(field),
            },
            Some(_) if field.label == "entries" => {
                if let Some(TapeItem {
                    content: TapeItemContent::Value(FieldValue::Unsigned(count)), ..
                }) = self.items.get_mut(self.entries)
                {
                    *count += 1;
                }
                TapeLevel::Entry
            }
            Some(TapeLevel::Operation | TapeLevel::Opened(_)) if OPENED.contains(&field.label) => {
                TapeLevel::Opened(field)
            }
            Some(_) => self.keep(field),
        }
    }

    fn keep(&mut self, field: &'static Field) -> TapeLevel {
        self.push(field, TapeItemContent::Group(usize::MAX));
        TapeLevel::Kept(self.items.len() - 1)
    }

    fn names(&self) -> u64 {
        match self.items.get(self.entries).map(|item| item.content) {
            Some(TapeItemContent::Value(FieldValue::Unsigned(count))) => count,
            _ => 0,
        }
    }
}

impl<'a> Observer<'a> for FieldTape<'a> {
    fn enter(&mut self, field: &'static Field, _: usize) {
        let level = self.level_of(field);
        self.levels.push(level);
    }

    fn leave(&mut self, _: usize) {
        let end = self.items.len();
        match self.levels.pop() {
            Some(TapeLevel::Operation) => {
                if let Some(part) = self.parts.last_mut() {
                    part.items.end = end;
                }
            }
            // Its message ended before its first field.
            Some(TapeLevel::Kept(at)) if at + 1 == end => self.items.truncate(at),
            Some(TapeLevel::Kept(at)) => {
                if let Some(item) = self.items.get_mut(at) {
                    item.content = TapeItemContent::Group(end);
                }
            }
            Some(TapeLevel::Skipped | TapeLevel::Opened(_) | TapeLevel::Entry) | None => {}
        }
    }

    fn list(&mut self, field: &'static Field, _: usize) {
        match self.levels.last() {
            Some(TapeLevel::Skipped | TapeLevel::Entry) => {}
            None if self.procedure.is_none() || field.name.starts_with("rpc") => {}
            _ if field.label == "entries" => {
                self.entries = self.items.len();
                self.push(field, TapeItemContent::Value(FieldValue::Unsigned(0)));
                self.push(&NAMES, TapeItemContent::List);
            }
            _ => self.push(field, TapeItemContent::List),
        }
    }

    fn value(&mut self, field: &'static Field, _: Range<usize>, value: FieldValue<'a>) {
        match self.levels.last().copied() {
            Some(TapeLevel::Skipped) => {}
            Some(TapeLevel::Entry) => {
                if field.label == "name" && self.names() <= MAX_NAMES {
                    self.push(&NAMES, TapeItemContent::Value(value));
                }
            }
            // The head of a COMPOUND, and the status of a procedure, are in the line itself.
            None if self.procedure.is_none() || field.label == "status" => {}
            None if field.name.starts_with("rpc") => {}
            Some(TapeLevel::Operation) if self.is_at_its_begin() && is_head(field) => {
                if let (Some(part), FieldValue::Enum(number, name)) = (self.parts.last_mut(), value) {
                    if field.label == "op" {
                        (part.number, part.name) = (number, name);
                    } else {
                        part.status = Some((number, name));
                    }
                }
            }
            // The type of an object that CREATE makes is what the union is for.
            Some(TapeLevel::Opened(union)) if union.label == "objtype" && field.label == "type" => {
                self.push(union, TapeItemContent::Value(value));
            }
            Some(TapeLevel::Kept(group)) if field.label == "attrmask" => {
                self.push_attribute_mask(group, value)
            }
            _ => self.push(field, TapeItemContent::Value(value)),
        }
    }
}

/// Whether a field is the number of an operation or its status.
fn is_head(field: &Field) -> bool {
    matches!(field.name, "nfs.opcode" | "nfs.cb.operation" | "nfs.nfsstat4")
        && matches!(field.label, "op" | "status")
}
