//! Addresses, ports and virtual networks of datagrams.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

crate::number! {
    /// A TCP or UDP port.
    pub struct Port(u16) as Unsigned;

    /// Local identifier of an InfiniBand port within its subnet, 16 bits. InfiniBand Architecture Specification volume
    /// 1, section 4.1.3.
    pub struct Lid(u16) as Unsigned;
}

/// Source or destination of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// The frame has no network-layer address, or is truncated before it.
    #[default]
    Unknown,
    /// An IP address, or a GID as an IP address.
    Ip(IpAddr),
    /// Local identifier of an InfiniBand packet without Global Route Header.
    Lid(Lid),
}

impl Address {
    /// Returns the address of a GID: IPv4 for an IPv4-mapped GID, as in RoCE, otherwise IPv6.
    pub fn from_gid(gid: Ipv6Addr) -> Self {
        Self::Ip(gid.to_canonical())
    }

    /// Returns the byte in which addresses of one network differ most often; 0 if the address is unknown.
    #[inline]
    pub fn last_byte(&self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Ip(IpAddr::V4(address)) => address.octets()[3],
            Self::Ip(IpAddr::V6(address)) => address.octets()[15],
            Self::Lid(lid) => lid.0 as u8,
        }
    }
}

/// The virtual network of a datagram. Equal addresses in different virtual networks are different hosts.
///
/// Identified by the VLAN identifiers around the datagram (IEEE 802.1Q section 9.6), the two innermost if more are
/// stacked. In a VXLAN (RFC 7348) or NVGRE (RFC 7637) tunnel: the tunnel's network identifier and the VLAN identifiers
/// inside. Other tunnels reset it, because the outer tags of a mirrored frame say nothing about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualNetwork(u64);

impl VirtualNetwork {
    /// No virtual network.
    pub const NONE: Self = Self(0);

    /// Returns the virtual network of a tunnel with a 24-bit identifier.
    pub const fn network(identifier: u32) -> Self {
        Self(1 << 24 | (identifier & 0xff_ffff) as u64)
    }

    /// Returns this virtual network with one more inner VLAN. Identifier 0 (a priority tag) adds none.
    #[must_use]
    pub const fn with_vlan(self, identifier: u16) -> Self {
        match identifier {
            0 => self,
            _ => Self((self.0 >> 32 << 12 | identifier as u64 & 0xfff) << 32 | self.0 & 0xffff_ffff),
        }
    }

    /// Returns the VLAN identifiers (IEEE 802.1Q section 9.6), outermost first.
    pub fn vlan_ids(self) -> impl Iterator<Item = u16> {
        let ids = (self.0 >> 32) as u32;
        [ids >> 12, ids].into_iter().map(|id| (id & 0xfff) as u16).filter(|id| *id != 0)
    }

    /// Returns the 24-bit network identifier of a tunnel: the VNI of VXLAN (RFC 7348 section 5) or the VSID of NVGRE
    /// (RFC 7637 section 3.2). `None` outside such a tunnel.
    pub fn network_identifier(self) -> Option<u32> {
        let has_network = self.0 >> 24 & 1 == 1;
        has_network.then_some((self.0 & 0xff_ffff) as u32)
    }

    /// Returns `true` if two datagrams may belong to one connection. A mirror may show the tags of one direction only.
    pub fn may_match(self, other: Self) -> bool {
        self == other || self == Self::NONE || other == Self::NONE
    }
}

/// Displays `VLAN 6`, `VLAN 5.6` (outer to inner), `VNI 100`, `VNI 100 VLAN 5`, or nothing for
/// [`VirtualNetwork::NONE`].
impl fmt::Display for VirtualNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut prefix = "VLAN ";
        if let Some(identifier) = self.network_identifier() {
            write!(f, "VNI {identifier}")?;
            prefix = " VLAN ";
        }
        for id in self.vlan_ids() {
            write!(f, "{prefix}{id}")?;
            prefix = ".";
        }
        Ok(())
    }
}

/// Displays `10.9.0.2`, `fd09::2`, `lid:2`, or `-` if unknown.
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
    fn tags_and_network_identifiers_distinguish_tenants() {
        let none = VirtualNetwork::NONE;
        let all = [
            none,
            none.with_vlan(5),
            none.with_vlan(6),
            none.with_vlan(5).with_vlan(6),
            none.with_vlan(6).with_vlan(5),
            VirtualNetwork::network(5),
            VirtualNetwork::network(0),
            VirtualNetwork::network(5).with_vlan(5),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| one != other), "{one:?}");
        }
        assert_eq!(none.with_vlan(0), none);
        let ids = |tenant: VirtualNetwork| (tenant.network_identifier(), tenant.vlan_ids().collect::<Vec<_>>());
        let outermost = none.with_vlan(7).with_vlan(5).with_vlan(6);
        assert_eq!(ids(none), (None, vec![]));
        assert_eq!(ids(outermost), (None, vec![5, 6]));
        assert_eq!(ids(VirtualNetwork::network(0xff_ffff).with_vlan(4095)), (Some(0xff_ffff), vec![4095]));
        let texts = [none, outermost, VirtualNetwork::network(0), VirtualNetwork::network(100).with_vlan(5)]
            .map(|it| it.to_string());
        assert_eq!(texts, ["", "VLAN 5.6", "VNI 0", "VNI 100 VLAN 5"]);
        assert!(none.may_match(all[1]) && all[1].may_match(none) && !all[1].may_match(all[2]));
    }

    #[test]
    fn an_ipv4_mapped_gid_is_an_ipv4_address() {
        assert_eq!(Address::from_gid("::ffff:10.9.0.2".parse().unwrap()).to_string(), "10.9.0.2");
        assert_eq!(Address::from_gid("fd09::2".parse().unwrap()).to_string(), "fd09::2");
        assert_eq!(Address::Lid(Lid(2)).to_string(), "lid:2");
    }
}
