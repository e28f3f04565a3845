//! Universal addresses: address and port of a service in one text, as RPCBIND and NFSv4 carry them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A universal address of the netids over IP (`tcp`, `tcp6`, `udp`, `udp6`, `rdma`, `rdma6`): the address, and behind it
/// the two bytes of the port. RFC 5665 sections 5.2.3.3 and 5.2.3.4; for RDMA, RFC 8166 section 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UniversalAddress(pub SocketAddr);

impl UniversalAddress {
    /// Reads `192.0.2.1.78.81` or `2001:db8::1.78.81`; `None` for what is no address of IP with a port.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.rsplitn(3, '.');
        let (low, high) = (byte(parts.next()?)?, byte(parts.next()?)?);
        let address: IpAddr = parts.next()?.parse().ok()?;
        Some(Self(SocketAddr::new(address, u16::from_be_bytes([high, low]))))
    }
}

/// A decimal number below 256, without a sign.
fn byte(digits: &str) -> Option<u8> {
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// As a message has it.
impl fmt::Display for UniversalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low] = self.0.port().to_be_bytes();
        write!(f, "{}.{high}.{low}", self.0.ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc5665_section_5_2_3_the_port_stands_behind_the_address_in_two_bytes() {
        for (text, address) in [
            ("192.0.2.1.78.81", "192.0.2.1:20049"),
            ("0.0.0.0.0.111", "0.0.0.0:111"),
            ("2001:db8::1.8.1", "[2001:db8::1]:2049"),
            ("::.255.255", "[::]:65535"),
        ] {
            let parsed = UniversalAddress::parse(text.as_bytes());
            assert_eq!(parsed, Some(UniversalAddress(address.parse().unwrap())));
            assert_eq!(parsed.map(|address| address.to_string()), Some(text.to_owned()));
        }
    }

    #[test]
    fn what_is_no_address_of_ip_with_a_port_is_refused() {
        for text in ["", "192.0.2.1", "192.0.2.1.256.1", "192.0.2.1.+1.1", "/run/rpcbind.sock", "1.2", "::1"]
        {
            assert_eq!(UniversalAddress::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(UniversalAddress::parse(b"\xff.1.1"), None);
    }

    proptest::proptest! {
        #[test]
        fn every_address_is_read_as_it_was_written(address: IpAddr, port: u16) {
            let address = UniversalAddress(SocketAddr::new(address, port));
            proptest::prop_assert_eq!(UniversalAddress::parse(address.to_string().as_bytes()), Some(address));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = UniversalAddress::parse(&bytes);
        }
    }
}
