//! Network addresses and names of servers. RFC 8881 sections 3.3.9 and 11.17.1, RFC 5665.
//!
//! They are text. A watcher is told the text, and what it says if it is an address: the IP address and the port.

use std::net::IpAddr;
use std::ops::Range;

use crate::field::registry::Registry;
use crate::field::{Field, Kind, Observer, Value};
use crate::rpc::universal_address;
use crate::xdr::{Cursor, Encoder, Error, Text, Xdr};

crate::xdr! { "nfs";
    /// netaddr4, and clientaddr4 of NFSv4.0. The netid is `tcp`, `tcp6`, `udp`, `udp6`, `rdma` or `rdma6`. RFC 8881
    /// section 3.3.9, RFC 5665 section 5.2, RFC 8166 section 9.
    struct Netaddr4<'a> { na_r_netid: Text<'a> => "nfs.r_netid", na_r_addr: UniversalAddress<'a> => "nfs.r_addr" }
}

static IPV4: Field = Field {
    name: "nfs.universal_address.ipv4",
    label: "address",
    kind: Kind::Ipv4,
    doc: "The IPv4 address that the text says. RFC 5665 section 5.2.3.3.",
};
static IPV6: Field = Field {
    name: "nfs.universal_address.ipv6",
    label: "address",
    kind: Kind::Ipv6,
    doc: "The IPv6 address that the text says. RFC 5665 section 5.2.3.4.",
};
static PORT: Field = Field {
    name: "nfsrdma.universal_address.port",
    label: "port",
    kind: Kind::Unsigned,
    doc: "The port that the last two numbers of a universal address say. RFC 5665 section 5.2.3.",
};

/// Tells a watcher what the text in `bytes` says.
fn tell<'a, O: Observer<'a>>(
    observer: &mut O,
    bytes: Range<usize>,
    address: Option<IpAddr>,
    port: Option<u16>,
) {
    match address {
        Some(IpAddr::V4(address)) => observer.value(&IPV4, bytes.clone(), Value::Ipv4(address)),
        Some(IpAddr::V6(address)) => observer.value(&IPV6, bytes.clone(), Value::Ipv6(address)),
        None => {}
    }
    if let Some(port) = port {
        observer.value(&PORT, bytes, Value::Unsigned(port.into()));
    }
}

macro_rules! address_text {
    ($(#[doc = $doc:literal])+ $name:ident, |$text:ident| $said:expr) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name<'a>(pub Text<'a>);

        impl $name<'_> {
            /// The address and the port that the text says; `None` for what it does not say.
            pub fn said(&self) -> (Option<IpAddr>, Option<u16>) {
                let $text = self.0.0;
                $said
            }
        }

        impl<'a> Xdr<'a> for $name<'a> {
            const KIND: Kind = Kind::Text;

            fn describe(registry: &mut Registry) {
                [&IPV4, &IPV6, &PORT].into_iter().for_each(|field| registry.field(field));
            }

            #[inline]
            fn decode<O: Observer<'a>>(
                cursor: &mut Cursor<'a>,
                field: &'static Field,
                observer: &mut O,
            ) -> Result<Self, Error> {
                let at = cursor.position();
                let this = Self(Text::decode(cursor, field, observer)?);
                if O::WATCHES {
                    let (address, port) = this.said();
                    tell(observer, at..at + 4 + this.0.0.len(), address, port);
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
        let said = universal_address::parse(text);
        (said.map(|said| said.ip()), said.map(|said| said.port()))
    }
}
address_text! {
    /// A server: its host name, its address, or a universal address, which has a port. RFC 8881 section 11.16.
    ServerName, |text| {
        let said = universal_address::parse(text);
        let address = said.map(|said| said.ip()).or_else(|| universal_address::parse_address(text));
        (address, said.map(|said| said.port()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Seen;
    use super::*;

    static FIELD: Field = Field::group("test", "test", "");

    #[test]
    fn rfc8166_section_9_an_rdma_address_says_address_and_port() {
        let mut seen = Seen::default();
        let bytes = b"\0\0\0\x04rdma\0\0\0\x0f192.0.2.1.78.81\0";
        let netaddr = Netaddr4::decode(&mut Cursor::new(bytes), &FIELD, &mut seen).unwrap();
        assert_eq!(netaddr.na_r_netid, Text(b"rdma"));
        assert_eq!(netaddr.na_r_addr.said(), (Some([192, 0, 2, 1].into()), Some(20049)));
        let expected = [
            ("nfs.r_netid", 0..8, Value::Text(b"rdma")),
            ("nfs.r_addr", 8..27, Value::Text(b"192.0.2.1.78.81")),
            ("nfs.universal_address.ipv4", 8..27, Value::Ipv4([192, 0, 2, 1].into())),
            ("nfsrdma.universal_address.port", 8..27, Value::Unsigned(20049)),
        ];
        assert_eq!(seen.values, expected);
    }

    #[test]
    fn a_server_is_a_name_or_an_address_with_or_without_a_port() {
        let said = |text: &'static str| ServerName(Text(text.as_bytes())).said();
        assert_eq!(said("nfs.example"), (None, None));
        assert_eq!(said("192.0.2.1"), (Some([192, 0, 2, 1].into()), None));
        assert_eq!(said("fd00::1.78.81"), (Some("fd00::1".parse().unwrap()), Some(20049)));
    }
}
