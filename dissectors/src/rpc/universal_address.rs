//! Universal addresses: an address and a port as text. RFC 5665 section 5.2.3.
//!
//! The observer receives the text, and the IP address and port if the text is a universal address.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use crate::xdr::{Cursor, Encoder, Text, Xdr, XdrError};

/// Parses a universal address: an IPv4 or IPv6 address as text, and the two bytes of the port in decimal, joined by
/// dots. Returns `None` for any other text, such as a host name.
///
/// ```
/// use nfsrdma_dissectors::rpc::universal_address;
/// let address = universal_address::parse(b"192.0.2.1.78.81").unwrap();
/// assert_eq!(address, "192.0.2.1:20049".parse().unwrap());
/// assert_eq!(universal_address::parse(b"::1.8.1").unwrap(), "[::1]:2049".parse().unwrap());
/// assert_eq!(universal_address::parse(b"server.example"), None);
/// ```
pub fn parse(text: &[u8]) -> Option<SocketAddr> {
    let (rest, low) = std::str::from_utf8(text).ok()?.rsplit_once('.')?;
    let (address, high) = rest.rsplit_once('.')?;
    let address: IpAddr = address.parse().ok()?;
    Some(SocketAddr::new(address, u16::from_be_bytes([parse_byte(high)?, parse_byte(low)?])))
}

/// Formats a universal address. An IPv6 scope is dropped.
///
/// ```
/// use nfsrdma_dissectors::rpc::universal_address;
/// assert_eq!(universal_address::format_address("192.0.2.1:20049".parse().unwrap()), "192.0.2.1.78.81");
/// assert_eq!(universal_address::format_address("[::1]:2049".parse().unwrap()), "::1.8.1");
/// ```
pub fn format_address(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

/// Parses an IPv4 or IPv6 address without a port.
pub fn parse_address(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a byte in decimal digits, without a sign.
fn parse_byte(digits: &str) -> Option<u8> {
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

crate::field::fields! {
    IPV4 = "nfs.universal_address.ipv4" "address" Ipv4, "IPv4 address in the text. RFC 5665 section 5.2.3.3.";
    IPV6 = "nfs.universal_address.ipv6" "address" Ipv6, "IPv6 address in the text. RFC 5665 section 5.2.3.4.";
    pub PORT = "nfsrdma.universal_address.port" "port" Unsigned,
        "The port that the last two numbers of a universal address say. RFC 5665 section 5.2.3.";
}

/// Reports the address and port of the text in `bytes`.
fn report_address<'a, O: FieldObserver<'a>>(
    observer: &mut O,
    bytes: Range<usize>,
    address: Option<IpAddr>,
    port: Option<u16>,
) {
    match address {
        Some(IpAddr::V4(address)) => observer.value(&IPV4, bytes.clone(), FieldValue::Ipv4(address)),
        Some(IpAddr::V6(address)) => observer.value(&IPV6, bytes.clone(), FieldValue::Ipv6(address)),
        None => {}
    }
    if let Some(port) = port {
        observer.value(&PORT, bytes, FieldValue::Unsigned(port.into()));
    }
}

macro_rules! address_text {
    ($(#[doc = $doc:literal])+ $name:ident, |$text:ident| $parts:expr) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name<'a>(pub Text<'a>);

        impl $name<'_> {
            /// Returns the address and the port in the text, each `None` if the text has none.
            pub fn said(&self) -> (Option<IpAddr>, Option<u16>) {
                let $text = self.0.0;
                $parts
            }
        }

        impl<'a> Xdr<'a> for $name<'a> {
            const KIND: FieldKind = FieldKind::Text;

            fn describe(registry: &mut FieldRegistry) {
                [&IPV4, &IPV6, &PORT].into_iter().for_each(|field| registry.field(field));
            }

            #[inline]
            fn decode<O: FieldObserver<'a>>(
                cursor: &mut Cursor<'a>,
                field: &'static FieldDefinition,
                observer: &mut O,
            ) -> Result<Self, XdrError> {
                let at = cursor.position();
                let this = Self(Text::decode(cursor, field, observer)?);
                if O::is_enabled() {
                    let (address, port) = this.said();
                    report_address(observer, at..at + 4 + this.0.0.len(), address, port);
                }
                Ok(this)
            }

            fn encode(&self, encoder: &mut Encoder) {
                self.0.encode(encoder);
            }
        }
    };
}
address_text! {
    /// An address and a port in the universal form. RFC 5665 section 5.2.3.
    UniversalAddress, |text| {
        let address = parse(text);
        (address.map(|address| address.ip()), address.map(|address| address.port()))
    }
}
address_text! {
    /// A server: a host name, an address, or a universal address, which includes a port. RFC 8881 section 11.16.
    ServerName, |text| {
        let address = parse(text);
        let ip = address.map(|address| address.ip()).or_else(|| parse_address(text));
        (ip, address.map(|address| address.port()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn rfc5665_section_5_2_3_3_four_bytes_of_the_address_and_two_of_the_port() {
        assert_eq!(parse(b"10.1.3.7.2.15"), Some("10.1.3.7:527".parse().unwrap()));
        assert_eq!(parse(b"0.0.0.0.0.0"), Some("0.0.0.0:0".parse().unwrap()));
    }

    #[test]
    fn rfc5665_section_5_2_3_4_the_port_follows_the_text_of_an_ipv6_address() {
        assert_eq!(parse(b"fd00::10.2.8.1"), None, "a group of hexadecimal digits has no dot in it");
        assert_eq!(parse(b"fd00::a.78.81"), Some("[fd00::a]:20049".parse().unwrap()));
        assert_eq!(parse(b"::ffff:192.0.2.1.8.1"), Some("[::ffff:192.0.2.1]:2049".parse().unwrap()));
    }

    #[test]
    fn other_text_is_no_address() {
        let others = ["", ".", "..", "192.0.2.1", "192.0.2.1.8", "192.0.2.1.8.256", "192.0.2.1.+8.1", "a.b.c"];
        assert!(others.iter().all(|text| parse(text.as_bytes()).is_none()));
        assert_eq!(parse(&[0xff, b'.', b'1', b'.', b'1']), None);
    }

    #[test]
    fn an_address_may_stand_without_a_port() {
        assert_eq!(parse_address(b"192.0.2.1"), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(parse_address(b"fd00::1"), Some("fd00::1".parse().unwrap()));
        assert_eq!(parse_address(b"server"), None);
    }

    #[test]
    fn a_server_is_a_name_or_an_address_with_or_without_a_port() {
        let said = |text: &'static str| ServerName(Text(text.as_bytes())).said();
        assert_eq!(said("nfs.example"), (None, None));
        assert_eq!(said("192.0.2.1"), (Some([192, 0, 2, 1].into()), None));
        assert_eq!(said("fd00::1.78.81"), (Some("fd00::1".parse().unwrap()), Some(20049)));
    }

    proptest::proptest! {
        #[test]
        fn formatted_addresses_are_parsed_back(high: u128, low: u32, port: u16) {
            for address in [IpAddr::from(Ipv6Addr::from(high)), IpAddr::from(Ipv4Addr::from(low))] {
                let address = SocketAddr::new(address, port);
                proptest::prop_assert_eq!(parse(format_address(address).as_bytes()), Some(address));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>) {
            let _ = (parse(&text), parse_address(&text));
        }
    }
}
