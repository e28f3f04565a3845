//! What a decoder tells about the bytes that it walks: named fields, seen by an [`Observer`].
//!
//! Every protocol structure is described once ([`header!`](crate::header!) for fixed layouts,
//! [`xdr!`](crate::xdr!) for XDR), and a decoder is generic over who watches. With [`NullObserver`] the watching
//! compiles to nothing, so that the tree, filters and `-e` cost only those who ask for them.

pub mod registry;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use registry::Registry;

/// One field of one structure: its name for filters, its name in the specification, and where that is.
#[derive(Debug)]
pub struct Field {
    /// Name for filters and `-e`; Wireshark's where Wireshark has the field (`rpcordma.xid`).
    pub name: &'static str,
    /// The specification's own name (`xid`, `READ4args`).
    pub label: &'static str,
    /// What its values look like.
    pub kind: FieldKind,
    /// What it is and the section that defines it.
    pub doc: &'static str,
}

impl Field {
    /// A field that only groups others: a protocol layer, a structure, an operation.
    pub const fn group(name: &'static str, label: &'static str, doc: &'static str) -> Self {
        Self { name, label, kind: FieldKind::Group, doc }
    }
}

/// The specification's name of a field that Rust can only write as a raw identifier (`r#type`).
pub const fn label(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// What is said of a field; of one of which nothing is said, what is said of its structure.
pub const fn doc(own: &'static str, structure: &'static str) -> &'static str {
    if own.is_empty() { structure } else { own }
}

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A structure; its fields follow inside it.
    Group,
    /// A structure that is a point in time; its parts follow inside it.
    Time,
    /// A structure that is a length of time; its parts follow inside it.
    Duration,
    /// An unsigned number, shown in decimal.
    Unsigned,
    /// An unsigned number, shown in hexadecimal with this many digits.
    Hex(u8),
    /// A signed number.
    Signed,
    /// Yes or no.
    Bool,
    /// A number that the specification gives names to.
    Enum,
    /// A number whose bits the specification gives names to.
    Flags,
    /// Bytes without meaning for this program.
    Bytes,
    /// Text, by its specification in UTF-8 or ASCII.
    Text,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address or a GID.
    Ipv6,
    /// An Ethernet address.
    Ethernet,
}

/// Name of one bit, or of a combination of bits, of a mask; or of one value of an enumeration.
pub type FlagName = (u64, &'static str);

/// A value as it stands in the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// A number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Yes or no.
    Bool(bool),
    /// A number with the name that its specification gives it, if it gives one.
    Enum(u64, Option<&'static str>),
    /// A mask with the names of its bits.
    Flags(u64, &'static [FlagName]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text; not checked to be UTF-8.
    Text(&'a [u8]),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address or a GID.
    Ipv6(Ipv6Addr),
    /// An Ethernet address.
    Ethernet([u8; 6]),
    /// A data item that travelled in a chunk: its length, and its bytes where they were kept.
    Chunk(u32, Option<&'a [u8]>),
}

/// Who watches a decoder. Positions are byte offsets in the frame, or in the reassembled message, that
/// the decoder was given.
pub trait Observer<'a> {
    /// Whether anything is watched at all; `false` lets a decoder skip what only a view would need.
    const WATCHES: bool = true;

    /// Whether it wants to hear of a structure that is told under this field, or of the fields inside it, which `describe`
    /// adds to a registry. What it does not want is read unobserved.
    #[inline(always)]
    fn wants(&mut self, _field: &'static Field, _describe: fn(&mut Registry)) -> bool {
        true
    }

    /// The same of a header of fixed layout, which is always told under this field, as `describe` says, too.
    #[inline(always)]
    fn wants_header(&mut self, group: &'static Field, describe: fn(&mut Registry)) -> bool {
        self.wants(group, describe)
    }

    /// Whether it wants to hear of the items that a bitmap announced: the field of their bytes, and which bits are set.
    #[inline(always)]
    fn wants_items(&mut self, _values: &'static Field, _has: impl Fn(u32) -> bool) -> bool {
        true
    }

    /// A structure begins at byte `at`.
    fn enter(&mut self, field: &'static Field, at: usize);

    /// The structure entered last ends before byte `at`.
    fn leave(&mut self, at: usize);

    /// A list begins at byte `at`: its items follow, each under this field; there may be none.
    #[inline(always)]
    fn list(&mut self, _field: &'static Field, _at: usize) {}

    /// What the structure that was left last says as a whole, if it is a time: nanoseconds, of a point in time since
    /// 1970-01-01 00:00:00 UTC.
    #[inline(always)]
    fn time(&mut self, _field: &'static Field, _nanoseconds: i128) {}

    /// Bytes that only the notation needs were read: a count, whether an optional item follows, fill. They belong to no
    /// field.
    #[inline(always)]
    fn notation(&mut self, _bytes: Range<usize>) {}

    /// A value was read from these bytes.
    fn value(&mut self, field: &'static Field, bytes: Range<usize>, value: FieldValue<'a>);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullObserver;

impl<'a> Observer<'a> for NullObserver {
    const WATCHES: bool = false;

    #[inline(always)]
    fn enter(&mut self, _: &'static Field, _: usize) {}

    #[inline(always)]
    fn leave(&mut self, _: usize) {}

    #[inline(always)]
    fn value(&mut self, _: &'static Field, _: Range<usize>, _: FieldValue<'a>) {}
}
