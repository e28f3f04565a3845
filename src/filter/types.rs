//! The types of fields.

use std::fmt;

use nfsrdma_dissectors::field::Kind;

/// The type of a field, which says what it can be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A protocol: the bytes of its header; of one that has none, the arguments or results.
    Protocol,
    /// A structure; its fields follow inside it.
    Structure,
    /// A number of 0 or more.
    Unsigned,
    /// A number.
    Signed,
    /// Yes or no.
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
    /// An address of IPv4 or IPv6, or the LID of a port of InfiniBand as text.
    Address,
    /// A point in time.
    Time,
    /// A length of time.
    Duration,
}

impl Type {
    /// The type of a field of this name and kind.
    pub(crate) fn of(name: &str, kind: Kind) -> Self {
        match kind {
            Kind::Group if !name.contains('.') => Self::Protocol,
            Kind::Group => Self::Structure,
            Kind::Time => Self::Time,
            Kind::Duration => Self::Duration,
            Kind::Unsigned | Kind::Hex(_) => Self::Unsigned,
            Kind::Signed => Self::Signed,
            Kind::Bool => Self::Boolean,
            Kind::Enum => Self::Enumeration,
            Kind::Flags => Self::Flags,
            Kind::Bytes => Self::Bytes,
            Kind::Text => Self::Text,
            Kind::Ipv4 => Self::Ipv4,
            Kind::Ipv6 => Self::Ipv6,
            Kind::Ethernet => Self::Ethernet,
        }
    }

    /// The name, as the list of fields shows it.
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

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
