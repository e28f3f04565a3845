//! Types of the fields of filters.

use std::fmt;

use nfsrdma_dissectors::field::FieldKind;

/// The type of a field, which determines its comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterType {
    /// A protocol: the bytes of its header, or else the arguments or results.
    Protocol,
    /// A structure; its fields follow inside it.
    Structure,
    /// An unsigned number.
    Unsigned,
    /// A signed number.
    Signed,
    /// A boolean.
    Boolean,
    /// A number whose values have names.
    Enumeration,
    /// A number whose bits have names.
    Flags,
    /// Bytes.
    Bytes,
    /// Text.
    Text,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// An Ethernet address.
    Ethernet,
    /// An IPv4 or IPv6 address, or the LID of an InfiniBand port as text.
    Address,
    /// A point in time.
    Time,
    /// A duration.
    Duration,
}

impl FilterType {
    /// Returns the type of a field of this name and kind.
    pub fn from_field(name: &str, kind: FieldKind) -> Self {
        match kind {
            FieldKind::Group if !name.contains('.') => Self::Protocol,
            FieldKind::Group => Self::Structure,
            FieldKind::Time => Self::Time,
            FieldKind::Duration => Self::Duration,
            FieldKind::Unsigned | FieldKind::Hex(_) => Self::Unsigned,
            FieldKind::Signed => Self::Signed,
            FieldKind::Bool => Self::Boolean,
            FieldKind::Enum => Self::Enumeration,
            FieldKind::Flags => Self::Flags,
            FieldKind::Bytes => Self::Bytes,
            FieldKind::Text => Self::Text,
            FieldKind::Ipv4 => Self::Ipv4,
            FieldKind::Ipv6 => Self::Ipv6,
            FieldKind::Ethernet => Self::Ethernet,
        }
    }

    /// Returns the name in the list of fields.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Structure => "structure",
            Self::Unsigned => "unsigned",
            Self::Signed => "signed",
            Self::Boolean => "boolean",
            Self::Enumeration => "enumeration",
            Self::Flags => "flags",
            Self::Bytes => "bytes",
            Self::Text => "text",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Ethernet => "ethernet",
            Self::Address => "address",
            Self::Time => "time",
            Self::Duration => "duration",
        }
    }
}

impl fmt::Display for FilterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
