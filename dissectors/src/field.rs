//! Named fields that decoders report to a [`FieldObserver`].
//!
//! Every protocol structure is described once: with [`header!`](crate::header!) for fixed layouts, with
//! [`xdr!`](crate::xdr!) for XDR. Decoders are generic over the observer. With [`NullFieldObserver`] observation
//! compiles to nothing, so only users of the field tree, filters and `-e` pay for it.

pub mod field_names;
pub mod registry;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use registry::FieldRegistry;

/// One field of one structure: filter name, name in the specification, kind and documentation.
#[derive(Debug)]
pub struct FieldDefinition {
    /// Name for filters and `-e`; Wireshark's name if it has the field (`rpcordma.xid`).
    pub name: &'static str,
    /// Name in the specification (`xid`, `READ4args`).
    pub label: &'static str,
    /// Type of its values.
    pub kind: FieldKind,
    /// Description, and the section that defines the field.
    pub doc: &'static str,
}

/// Two fields are equal if their names are. Structures with the same members share the fields.
impl PartialEq for FieldDefinition {
    fn eq(&self, other: &Self) -> bool {
        self.label == other.label && self.name == other.name
    }
}

impl FieldDefinition {
    /// Returns a field that only groups others: a protocol layer, a structure, an operation.
    pub const fn group(name: &'static str, label: &'static str, doc: &'static str) -> Self {
        Self { name, label, kind: FieldKind::Group, doc }
    }
}

/// Returns the specification's name of a field that is a raw identifier in Rust (`r#type`).
pub const fn label(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Returns the field's own documentation, or its structure's if the field has none.
pub const fn doc(own: &'static str, structure: &'static str) -> &'static str {
    if own.is_empty() { structure } else { own }
}

/// Defines fields that no structure describes: `NAME = "filter name" "label" Kind, "documentation";`.
macro_rules! fields {
    ($($vis:vis $name:ident = $filter:literal $label:literal $kind:expr, $doc:literal;)*) => {$(
        #[doc = $doc]
        $vis static $name: $crate::field::FieldDefinition = {
            use $crate::field::FieldKind::*;
            $crate::field::FieldDefinition { name: $filter, label: $label, kind: $kind, doc: $doc }
        };
    )*};
}
pub(crate) use fields;

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A structure; its fields follow inside it.
    Group,
    /// A structure that is a point in time; its components follow inside it.
    Time,
    /// A structure that is a duration; its components follow inside it.
    Duration,
    /// An unsigned number, shown in decimal.
    Unsigned,
    /// An unsigned number, shown in hexadecimal with this many digits.
    Hex(u8),
    /// A signed number.
    Signed,
    /// A boolean.
    Bool,
    /// A number with named values.
    Enum,
    /// A number with named bits.
    Flags,
    /// Opaque bytes.
    Bytes,
    /// Text, in UTF-8 or ASCII according to its specification.
    Text,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address or a GID.
    Ipv6,
    /// An Ethernet address.
    Ethernet,
}

/// Name of one bit or bit combination of a mask, or of one value of an enumeration.
pub type FlagName = (u64, &'static str);

/// A decoded value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A boolean.
    Bool(bool),
    /// A number and its name, if the specification defines one.
    Enum(u64, Option<&'static str>),
    /// A mask and the names of its bits.
    Flags(u64, &'static [FlagName]),
    /// Opaque bytes.
    Bytes(&'a [u8]),
    /// Text, not checked to be valid UTF-8.
    Text(&'a [u8]),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address or a GID.
    Ipv6(Ipv6Addr),
    /// An Ethernet address.
    Ethernet([u8; 6]),
    /// A data item that was sent in a chunk: its length in bytes, and its content if retained.
    Chunk(u32, Option<&'a [u8]>),
}

/// A DDP-eligible data item of a message. RFC 8166 section 6.1, RFC 8267 sections 4 and 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdpEligibleItem {
    /// Byte offset of the content in the unreduced message, as in the Position of a Read chunk.
    pub position: usize,
    /// Length in bytes, as in the message.
    pub length: u32,
    /// Index of its operation among those of the message that can have an eligible item.
    pub operation: usize,
    /// Place of the content.
    pub placement: DataItemPlacement,
}

/// Place of a DDP-eligible data item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataItemPlacement {
    /// In the message.
    Inline,
    /// In the Read chunk with its position.
    ReadChunk,
    /// In the Write chunk with this index.
    WriteChunk(usize),
}

/// Visitor for decoded fields. Positions are byte offsets in the frame or reassembled message that is decoded.
pub trait FieldObserver<'a> {
    /// Returns `true` if fields are reported. Otherwise decoders skip work needed only for reporting.
    #[inline(always)]
    fn is_enabled() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Returns `true` if nothing is reported, data items included.
    #[inline(always)]
    fn ignores_all() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Returns `true` if the structure reported under this field is wanted. `describe` adds the fields inside it to a
    /// registry. An unwanted structure is decoded without being reported.
    #[inline(always)]
    fn is_interested_in(
        &mut self,
        _field: &'static FieldDefinition,
        _describe: fn(&mut FieldRegistry),
    ) -> bool {
        true
    }

    /// Same as [`FieldObserver::is_interested_in`] for a header of fixed layout, which `describe` registers under this
    /// field, too.
    #[inline(always)]
    fn is_interested_in_header(
        &mut self,
        group: &'static FieldDefinition,
        describe: fn(&mut FieldRegistry),
    ) -> bool {
        self.is_interested_in(group, describe)
    }

    /// Returns `true` if the items announced by a bitmap are wanted: `_values` is the field of their bytes, `_has`
    /// tests a bit.
    #[inline(always)]
    fn is_interested_in_items(
        &mut self,
        _values: &'static FieldDefinition,
        _has: &dyn Fn(u32) -> bool,
    ) -> bool {
        true
    }

    /// Begins a structure at byte `at`.
    #[inline(always)]
    fn enter(&mut self, _field: &'static FieldDefinition, _at: usize) {}

    /// Ends the structure entered last, before byte `at`.
    #[inline(always)]
    fn leave(&mut self, _at: usize) {}

    /// Begins a list at byte `at`. Its items follow, each under this field; there may be none.
    #[inline(always)]
    fn list(&mut self, _field: &'static FieldDefinition, _at: usize) {}

    /// Reports the structure left last as a time in nanoseconds; points in time are relative to 1970-01-01 00:00:00
    /// UTC.
    #[inline(always)]
    fn time(&mut self, _field: &'static FieldDefinition, _nanoseconds: i128) {}

    /// Reports bytes of the encoding that belong to no field: a count, the discriminant of an optional item, padding.
    #[inline(always)]
    fn structural_bytes(&mut self, _bytes: Range<usize>) {}

    /// Reports the length and place of a DDP-eligible item, before its content is decoded.
    #[inline(always)]
    fn eligible_item(&mut self, _item: DdpEligibleItem) {}

    /// Reports a value decoded from these bytes.
    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>);
}

/// Observer that forwards to another one by dynamic dispatch. The decoders of all protocols are compiled for it once,
/// in this crate, instead of once for each observer: otherwise, they are half of the program.
pub(crate) struct TypeErasedFieldObserver<'o, 'a>(&'o mut (dyn FieldObserver<'a> + 'o));

impl<'o, 'a> TypeErasedFieldObserver<'o, 'a> {
    pub(crate) fn new(observer: &'o mut impl FieldObserver<'a>) -> Self {
        Self(observer)
    }
}

impl<'a> FieldObserver<'a> for TypeErasedFieldObserver<'_, 'a> {
    #[inline(always)]
    fn is_interested_in(
        &mut self,
        field: &'static FieldDefinition,
        describe: fn(&mut FieldRegistry),
    ) -> bool {
        self.0.is_interested_in(field, describe)
    }

    #[inline(always)]
    fn is_interested_in_header(
        &mut self,
        group: &'static FieldDefinition,
        describe: fn(&mut FieldRegistry),
    ) -> bool {
        self.0.is_interested_in_header(group, describe)
    }

    #[inline(always)]
    fn is_interested_in_items(
        &mut self,
        values: &'static FieldDefinition,
        has_item: &dyn Fn(u32) -> bool,
    ) -> bool {
        self.0.is_interested_in_items(values, has_item)
    }

    #[inline(always)]
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        self.0.enter(field, at);
    }

    #[inline(always)]
    fn leave(&mut self, at: usize) {
        self.0.leave(at);
    }

    #[inline(always)]
    fn list(&mut self, field: &'static FieldDefinition, at: usize) {
        self.0.list(field, at);
    }

    #[inline(always)]
    fn time(&mut self, field: &'static FieldDefinition, nanoseconds: i128) {
        self.0.time(field, nanoseconds);
    }

    #[inline(always)]
    fn structural_bytes(&mut self, bytes: Range<usize>) {
        self.0.structural_bytes(bytes);
    }

    #[inline(always)]
    fn eligible_item(&mut self, item: DdpEligibleItem) {
        self.0.eligible_item(item);
    }

    #[inline(always)]
    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        self.0.value(field, bytes, value);
    }
}

/// Observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullFieldObserver;

impl<'a> FieldObserver<'a> for NullFieldObserver {
    #[inline(always)]
    fn is_enabled() -> bool {
        false
    }

    #[inline(always)]
    fn ignores_all() -> bool {
        true
    }

    #[inline(always)]
    fn value(&mut self, _: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {}
}
