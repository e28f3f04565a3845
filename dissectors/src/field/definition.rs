//! Definitions of fields, the kinds of their values, and the values.

use std::net::{Ipv4Addr, Ipv6Addr};

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
        $vis static $name: $crate::field::definition::FieldDefinition = {
            use $crate::field::definition::FieldKind::*;
            $crate::field::definition::FieldDefinition { name: $filter, label: $label, kind: $kind, doc: $doc }
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
