//! Who talks to whom: addresses and ports, as every network has them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

crate::number! {
    /// A port of TCP or UDP.
    pub struct Port(u16) as Unsigned;

    /// Local identifier of an InfiniBand port within its subnet, 16 bits. InfiniBand Architecture Specification
    /// volume 1, section 4.1.3.
    pub struct Lid(u16) as Unsigned;
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One end of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// The frame has no address of the network layer, or ends before it.
    #[default]
    Unknown,
    /// An IP address, or the IP address that a GID is.
    Ip(IpAddr),
    /// An InfiniBand packet without Global Route Header goes by local identifiers.
    Lid(Lid),
}

impl Address {
    /// The address that a GID stands for: IPv4 for an IPv4-mapped GID, as RoCE makes them, IPv6 for any other.
    pub fn from_gid(gid: Ipv6Addr) -> Self {
        Self::Ip(gid.to_canonical())
    }
}

/// `10.9.0.2`, `fd09::2`, `lid:2`; `-` where there is none.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.pad("-"),
            Self::Ip(address) => address.fmt(f),
            Self::Lid(lid) => write!(f, "lid:{}", lid.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_mapped_gid_is_an_ipv4_address() {
        assert_eq!(Address::from_gid("::ffff:10.9.0.2".parse().unwrap()).to_string(), "10.9.0.2");
        assert_eq!(Address::from_gid("fd09::2".parse().unwrap()).to_string(), "fd09::2");
        assert_eq!(Address::Lid(Lid(2)).to_string(), "lid:2");
    }
}
