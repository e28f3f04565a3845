//! Locations of fields in messages. They come from the decoders, so that no message is described twice.

use std::ops::Range;

use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::{field_labels, v3, v4};
use nfsrdma_dissectors::rpc::{self, Program};
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor, roundup};

use super::super::reply::MockReply;
use super::server_fault::MockFieldMutation;

pub(super) struct MockCallOperations {
    procedure: Procedure,
    pub(super) version: u32,
    /// The operations of a COMPOUND, or the one procedure.
    pub(super) operations: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MockFieldPosition {
    /// A number.
    Number(Range<usize>),
    /// Text or bytes.
    Text(Range<usize>),
    /// The data item with this index, and the location of its length.
    Item(usize, Range<usize>),
    /// A list entry, and the start of its name.
    Entry(Range<usize>, usize),
}

impl MockCallOperations {
    /// Decodes a Call; `None` if it is not an NFS Call.
    pub(super) fn from_call(message: &[u8], chunks: &[ChunkedDataItem<'_>]) -> Option<Self> {
        let mut cursor = Cursor::new(message).with_chunks(chunks);
        let header = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
        let call = header.call().filter(|call| call.prog == Program::NFS)?;
        let procedure = Procedure::from_numbers(call.prog, call.vers, call.proc)?;
        let operations = match procedure {
            Procedure::Compound => {
                let compound = v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok()?;
                let operations = compound.operations().map_while(Result::ok);
                operations.map(|args| args.operation().name()).collect()
            }
            procedure => vec![procedure.name()],
        };
        Some(Self { procedure, version: call.vers, operations })
    }
}

/// Finds the first field with a given name in an operation.
#[derive(Default)]
struct MockFieldFinder<'s, 'a> {
    operation: &'s str,
    field: &'s [&'s str],
    message: &'a [u8],
    chunks: &'s [ChunkedDataItem<'a>],
    /// Labels of the enclosing structures from the operation on, with their start offsets.
    enclosing: Vec<(&'static str, usize)>,
    /// The depth of an object type that is not a directory.
    non_directory_depth: Option<usize>,
    name: usize,
    /// `true` if the entry is "." or "..", which only NFSv3 has, and which are optional.
    is_dots: bool,
    position: Option<MockFieldPosition>,
}

impl MockFieldFinder<'_, '_> {
    /// Returns `true` if a field with this label, at the current position, is the requested one.
    fn is_wanted_field(&self, label: &str) -> bool {
        if self.position.is_some() || self.enclosing.first().is_none_or(|(name, _)| *name != self.operation) {
            return false;
        }
        let mut enclosing = self.enclosing.iter().rev().map(|(label, _)| *label);
        let mut components = self.field.iter().rev().copied();
        components.next() == Some(label) && components.all(|component| enclosing.next() == Some(component))
    }

    /// Returns the location of `bytes` in the message.
    fn span(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let start = (bytes.as_ptr() as usize).checked_sub(self.message.as_ptr() as usize)?;
        (start + bytes.len() <= self.message.len()).then_some(start..start + bytes.len())
    }
}

impl<'a> FieldObserver<'a> for MockFieldFinder<'_, 'a> {
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        self.enclosing.push((field.label, at));
    }

    fn leave(&mut self, at: usize) {
        let Some((label, start)) = self.enclosing.pop() else { return };
        if self.non_directory_depth.is_some_and(|depth| depth > self.enclosing.len()) {
            self.non_directory_depth = None;
        }
        if self.is_wanted_field(label) && !self.is_dots {
            self.position = Some(MockFieldPosition::Entry(start..at, self.name));
        }
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        if let (true, FieldValue::Enum(_, name)) = (field.label == field_labels::TYPE, value) {
            let is_directory = matches!(name, Some(enumerator_names::NF4DIR | enumerator_names::NF3DIR));
            self.non_directory_depth = (!is_directory).then_some(self.enclosing.len());
        }
        if let (true, FieldValue::Text(text) | FieldValue::Bytes(text)) = (field.label == field_labels::NAME, value) {
            self.name = self.span(text).map_or(0, |span| span.start);
            self.is_dots = matches!(text, b"." | b"..");
        }
        // The file system determines size and links of a directory, and an object without a type may be one.
        let is_own = matches!(field.label, field_labels::SIZE | field_labels::NUMLINKS | field_labels::NLINK)
            && self.non_directory_depth.is_none();
        if is_own || self.is_dots || !self.is_wanted_field(field.label) {
            return;
        }
        self.position = match value {
            FieldValue::Unsigned(_)
            | FieldValue::Signed(_)
            | FieldValue::Bool(_)
            | FieldValue::Enum(..)
            | FieldValue::Flags(..) => Some(MockFieldPosition::Number(bytes)),
            FieldValue::Text(text) | FieldValue::Bytes(text) if !text.is_empty() => {
                self.span(text).map(MockFieldPosition::Text)
            }
            FieldValue::Chunk(length, content) if length > 0 => {
                let is_same_item =
                    |chunk: &ChunkedDataItem<'_>| chunk.bytes.map(<[u8]>::as_ptr) == content.map(<[u8]>::as_ptr);
                self.chunks.iter().position(is_same_item).map(|at| MockFieldPosition::Item(at, bytes))
            }
            _ => None,
        };
    }
}

pub(super) fn argument(
    call: &MockCallOperations,
    message: &[u8],
    chunks: &[ChunkedDataItem<'_>],
    operation: &str,
    field: &[&str],
) -> Option<MockFieldPosition> {
    let mut cursor = Cursor::new(message).with_chunks(chunks);
    rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let mut finder = MockFieldFinder { operation, field, message, chunks, ..MockFieldFinder::default() };
    // A Call that sets a size never applies to a directory.
    finder.non_directory_depth = Some(0);
    // Arguments that cannot be decoded do not contain the field.
    let _ = call.procedure.arguments(&mut cursor, &mut finder);
    finder.position
}

pub(super) fn result(
    call: &MockCallOperations,
    reply: &MockReply,
    operation: &str,
    field: &[&str],
) -> Option<MockFieldPosition> {
    let items = items(reply);
    let mut cursor = Cursor::new(&reply.message).with_chunks(&items);
    rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let mut finder =
        MockFieldFinder { operation, field, message: &reply.message, chunks: &items, ..MockFieldFinder::default() };
    // Results that cannot be decoded do not contain the field.
    let _ = call.procedure.results(&mut cursor, &mut finder);
    finder.position
}

/// Returns the data items of a reply, with their positions.
fn items(reply: &MockReply) -> Vec<ChunkedDataItem<'_>> {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let items = reply.splices.iter().zip(&reply.data);
    items
        .map(|(splice, data)| ChunkedDataItem {
            position: Some(number(splice.position)),
            length: number(data.len()),
            bytes: Some(data),
        })
        .collect()
}

/// Returns the status of a reply: that of the procedure, or of the COMPOUND.
pub(super) fn status(reply: &MockReply) -> Option<u32> {
    let mut cursor = Cursor::new(&reply.message);
    rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    cursor.word().ok()
}

/// Returns the number of words after the status of a failed NFSv3 procedure, all of which can mean absent attributes.
/// RFC 1813 section 3.3.
pub(in super::super) fn words_after(operation: &str) -> usize {
    use v3::Procedure as P;
    match v3::Procedure::from_name(operation) {
        Some(P::GETATTR) => 0,
        Some(P::SETATTR | P::WRITE | P::CREATE | P::MKDIR | P::SYMLINK | P::MKNOD) => 2,
        Some(P::REMOVE | P::RMDIR | P::COMMIT) => 2,
        Some(P::RENAME) => 4,
        Some(P::LINK) => 3,
        _ => 1,
    }
}

/// Makes a successful operation report a failure; it becomes the last one of its COMPOUND (RFC 8881 section 16.2.3).
/// Returns `false` if it had not succeeded.
pub(super) fn fail(call: &MockCallOperations, reply: &mut MockReply, operation: &str, status: u32) -> bool {
    let (start, at) = {
        let items = items(reply);
        let mut cursor = Cursor::new(&reply.message).with_chunks(&items);
        if rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).is_err() {
            return false;
        }
        let start = cursor.at();
        // An NFSv3 procedure begins with its status.
        let first = (call.procedure != Procedure::Compound).then_some(MockFieldPosition::Number(start..start + 4));
        let mut finder = MockFieldFinder {
            operation,
            field: &[field_labels::STATUS],
            message: &reply.message,
            chunks: &items,
            ..MockFieldFinder::default()
        };
        let _ = call.procedure.results(&mut cursor, &mut finder);
        match first.or(finder.position) {
            Some(MockFieldPosition::Number(at)) => (start, at),
            _ => return false,
        }
    };
    let message = &mut reply.message;
    if message.get(at.clone()).is_none_or(|word| word.iter().any(|byte| *byte != 0)) {
        return false;
    }
    message.truncate(at.end);
    put(message, at.start, status);
    match call.procedure {
        Procedure::Compound => {
            let operation_count = call.operations.iter().position(|name| *name == operation).unwrap_or(0) + 1;
            let mut cursor = Cursor::new(message.get(start..).unwrap_or_default());
            let tag = cursor.word().and_then(|_| cursor.word()).unwrap_or(0) as usize;
            put(message, start, status);
            put(message, start + 8 + tag + roundup(tag), u32::try_from(operation_count).unwrap_or(0));
            // RFC 8881 section 18.30.2: the mask is present regardless of the status.
            if operation == enumerator_names::SETATTR {
                message.extend_from_slice(&[0; 4]);
            }
        }
        _ => message.resize(message.len() + 4 * words_after(operation), 0),
    }
    let end = message.len();
    reply.splices.retain(|splice| splice.position < end);
    reply.data.truncate(reply.splices.len());
    true
}

fn put(message: &mut [u8], at: usize, value: u32) {
    if let Some(word) = message.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *word = value.to_be_bytes();
    }
}

impl MockFieldMutation {
    /// Changes the field at a location. Returns `true` if its value is different now.
    pub(super) fn apply(self, position: &MockFieldPosition, message: &mut Vec<u8>, items: &mut [Vec<u8>]) -> bool {
        match position {
            MockFieldPosition::Number(at) => message.get_mut(at.clone()).is_some_and(|bytes| self.number(bytes)),
            MockFieldPosition::Text(at) => message.get_mut(at.clone()).is_some_and(|bytes| self.text(bytes)),
            MockFieldPosition::Item(at, length) => {
                let Some(content) = items.get_mut(*at) else { return false };
                if self != Self::Shorter {
                    return self.text(content);
                }
                content.pop();
                message.get_mut(length.clone()).is_some_and(|word| Self::Less.number(word))
            }
            MockFieldPosition::Entry(at, name) => {
                let (follows, Some(entry)) = ([0, 0, 0, 1], message.get(at.clone()).map(<[u8]>::to_vec)) else {
                    return false;
                };
                let addition = [&follows[..], &entry].concat();
                match self {
                    // The word before the entry means that an entry follows; the word after it replaces that one.
                    Self::RemoveEntry => {
                        let Some(start) = at.start.checked_sub(4) else { return false };
                        message.drain(start..at.end);
                    }
                    Self::DuplicateEntry | Self::AddEntry => {
                        message.splice(at.end..at.end, addition);
                        if let (Self::AddEntry, Some(byte)) =
                            (self, message.get_mut(name + entry.len() + follows.len()))
                        {
                            *byte ^= 1;
                        }
                    }
                    _ => return false,
                }
                true
            }
        }
    }

    /// Changes a big-endian number.
    fn number(self, bytes: &mut [u8]) -> bool {
        let before = bytes.to_vec();
        match self {
            Self::Flipped | Self::LastFlipped => bytes.iter_mut().next_back().into_iter().for_each(|byte| *byte ^= 1),
            Self::More => {
                for byte in bytes.iter_mut().rev() {
                    *byte = byte.wrapping_add(1);
                    if *byte != 0 {
                        break;
                    }
                }
            }
            Self::Less if before.iter().any(|byte| *byte != 0) => {
                for byte in bytes.iter_mut().rev() {
                    *byte = byte.wrapping_sub(1);
                    if *byte != u8::MAX {
                        break;
                    }
                }
            }
            _ => {}
        }
        *bytes != before[..]
    }

    /// Changes text or data.
    fn text(self, bytes: &mut [u8]) -> bool {
        let byte = match self {
            Self::Flipped => bytes.first_mut(),
            Self::LastFlipped => bytes.last_mut(),
            _ => None,
        };
        byte.map(|byte| *byte ^= 1).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_changes_with_its_carry() {
        let change = |change: MockFieldMutation, number: u32| {
            let mut bytes = number.to_be_bytes();
            change.number(&mut bytes).then(|| u32::from_be_bytes(bytes))
        };
        assert_eq!(change(MockFieldMutation::More, 0xff), Some(0x100));
        assert_eq!(change(MockFieldMutation::Less, 0x100), Some(0xff));
        assert_eq!(change(MockFieldMutation::Less, 0), None);
        assert_eq!(change(MockFieldMutation::Flipped, 6), Some(7));
        assert_eq!(change(MockFieldMutation::Shorter, 6), None);
    }

    #[test]
    fn list_mutations_remove_duplicate_or_add_an_entry() {
        let entry = |name: u8| [&[0, 0, 0, 1][..], &[0, 0, 0, 1, name, 0, 0, 0]].concat();
        let list = |names: &[u8]| [names.iter().flat_map(|name| entry(*name)).collect(), vec![0; 4]].concat();
        for (change, names) in [
            (MockFieldMutation::RemoveEntry, &b"b"[..]),
            (MockFieldMutation::DuplicateEntry, b"aab"),
            (MockFieldMutation::AddEntry, b"a`b"),
        ] {
            let mut message = list(b"ab");
            assert!(change.apply(&MockFieldPosition::Entry(4..12, 8), &mut message, &mut []));
            assert_eq!(message, list(names), "{change:?}");
        }
    }
}
