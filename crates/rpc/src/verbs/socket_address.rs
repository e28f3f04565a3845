//! Conversion of socket addresses to and from the system's structures.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

pub(super) enum VerbsSocketAddress {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl VerbsSocketAddress {
    /// Returns a pointer for calls that read as many bytes as the family requires.
    pub(super) fn pointer(&mut self) -> *mut libc::sockaddr {
        match self {
            Self::V4(address) => std::ptr::from_mut(address).cast(),
            Self::V6(address) => std::ptr::from_mut(address).cast(),
        }
    }
}

impl From<SocketAddr> for VerbsSocketAddress {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self::V4(libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Self::V6(libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }
}

fn family(number: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(number).unwrap_or_default()
}

/// Reads a system structure; `None` if its family is neither IPv4 nor IPv6.
///
/// # Safety
/// `storage` points to a valid `sockaddr_storage`.
pub(super) unsafe fn read(storage: *const libc::sockaddr_storage) -> Option<SocketAddr> {
    const { assert!(size_of::<libc::sockaddr_storage>() >= size_of::<libc::sockaddr_in6>()) };
    // SAFETY: the storage is valid, large enough for each of these types, and aligned for all of them; all bytes are
    // valid values of their integers.
    unsafe {
        match libc::c_int::from((*storage).ss_family) {
            libc::AF_INET => {
                let address = *storage.cast::<libc::sockaddr_in>();
                let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
            }
            libc::AF_INET6 => {
                let address = *storage.cast::<libc::sockaddr_in6>();
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                let port = u16::from_be(address.sin6_port);
                Some(SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_converted_back_unchanged() {
        for address in ["192.0.2.1:20049", "[2001:db8::7]:2049"] {
            let address: SocketAddr = address.parse().unwrap();
            // SAFETY: all-zero bytes are a valid value of it.
            let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
            let mut system = VerbsSocketAddress::from(address);
            let length = match &system {
                VerbsSocketAddress::V4(_) => size_of::<libc::sockaddr_in>(),
                VerbsSocketAddress::V6(_) => size_of::<libc::sockaddr_in6>(),
            };
            // SAFETY: both have at least that length, and do not overlap.
            let back = unsafe {
                let to = (&raw mut storage).cast::<u8>();
                std::ptr::copy_nonoverlapping(system.pointer().cast::<u8>(), to, length);
                read(&raw const storage)
            };
            assert_eq!(back, Some(address));
        }
    }
}
