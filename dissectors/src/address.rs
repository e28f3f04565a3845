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

/// The virtual network that a datagram is in: equal addresses in different ones are different hosts.
///
/// It is named by the VLAN identifiers around the datagram (IEEE 802.1Q section 9.6), the two innermost where more are stacked;
/// in a tunnel that has network identifiers, VXLAN (RFC 7348) or NVGRE (RFC 7637), by that and the VLAN identifiers inside. Any
/// other tunnel begins from nothing: what is around a mirrored frame tells nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(u64);

impl Tenant {
    /// No virtual network is named.
    pub const NONE: Self = Self(0);

    /// The virtual network of a tunnel, by an identifier of 24 bits.
    pub const fn network(identifier: u32) -> Self {
        Self(1 << 24 | (identifier & 0xff_ffff) as u64)
    }

    /// The same inside of a VLAN. Identifier 0 names none: the tag is there for its priority.
    #[must_use]
    pub const fn with_vlan(self, identifier: u16) -> Self {
        match identifier {
            0 => self,
            _ => Self((self.0 >> 32 << 12 | identifier as u64 & 0xfff) << 32 | self.0 & 0xffff_ffff),
        }
    }

    /// Its VLAN identifiers (IEEE 802.1Q section 9.6), the outermost first.
    pub fn vlan_ids(self) -> impl Iterator<Item = u16> {
        let ids = (self.0 >> 32) as u32;
        [ids >> 12, ids].into_iter().map(|id| (id & 0xfff) as u16).filter(|id| *id != 0)
    }

    /// The 24 bits that name the virtual network of a tunnel: the VNI of VXLAN (RFC 7348 section 5), the VSID of NVGRE (RFC 7637
    /// section 3.2). `None` outside of such a tunnel.
    pub fn network_identifier(self) -> Option<u32> {
        let has_network = self.0 >> 24 & 1 == 1;
        has_network.then_some((self.0 & 0xff_ffff) as u32)
    }

    /// Whether two datagrams may be of one connection: a mirror may show the tags of one direction only.
    pub fn may_be(self, other: Self) -> bool {
        self == other || self == Self::NONE || other == Self::NONE
    }
}

/// `VLAN 6`, `VLAN 5.6` from outside to inside, `VNI 100`, `VNI 100 VLAN 5`; nothing where no virtual network is named.
impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "VLAN ";
        if let Some(identifier) = self.network_identifier() {
            write!(f, "VNI {identifier}")?;
            before = " VLAN ";
        }
        for id in self.vlan_ids() {
            write!(f, "{before}{id}")?;
            before = ".";
        }
        Ok(())
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
    fn tags_and_network_identifiers_tell_tenants_apart() {
        let none = Tenant::NONE;
        let all = [
            none,
            none.with_vlan(5),
            none.with_vlan(6),
            none.with_vlan(5).with_vlan(6),
            none.with_vlan(6).with_vlan(5),
            Tenant::network(5),
            Tenant::network(0),
            Tenant::network(5).with_vlan(5),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| one != other), "{one:?}");
        }
        assert_eq!(none.with_vlan(0), none);
        let ids = |tenant: Tenant| (tenant.network_identifier(), tenant.vlan_ids().collect::<Vec<_>>());
        let outermost = none.with_vlan(7).with_vlan(5).with_vlan(6);
        assert_eq!(ids(none), (None, vec![]));
        assert_eq!(ids(outermost), (None, vec![5, 6]));
        assert_eq!(ids(Tenant::network(0xff_ffff).with_vlan(4095)), (Some(0xff_ffff), vec![4095]));
        let texts =
            [none, outermost, Tenant::network(0), Tenant::network(100).with_vlan(5)].map(|it| it.to_string());
        assert_eq!(texts, ["", "VLAN 5.6", "VNI 0", "VNI 100 VLAN 5"]);
        assert!(none.may_be(all[1]) && all[1].may_be(none) && !all[1].may_be(all[2]));
    }

    #[test]
    fn an_ipv4_mapped_gid_is_an_ipv4_address() {
        assert_eq!(Address::from_gid("::ffff:10.9.0.2".parse().unwrap()).to_string(), "10.9.0.2");
        assert_eq!(Address::from_gid("fd09::2".parse().unwrap()).to_string(), "fd09::2");
        assert_eq!(Address::Lid(Lid(2)).to_string(), "lid:2");
    }
}
