//! Network addresses and names of servers. RFC 8881 sections 3.3.9 and 11.17.1, RFC 5665.
//!
//! [`universal_address`](crate::rpc::universal_address) parses the addresses.

pub use crate::rpc::universal_address::{ServerName, UniversalAddress};
use crate::xdr::Text;

crate::xdr! { "nfs";
    /// netaddr4, and clientaddr4 of NFSv4.0. The netid is `tcp`, `tcp6`, `udp`, `udp6`, `rdma` or `rdma6`. RFC 8881
    /// section 3.3.9, RFC 5665 section 5.2, RFC 8166 section 9.
    struct Netaddr4<'a> { na_r_netid: Text<'a> => "nfs.r_netid", na_r_addr: UniversalAddress<'a> => "nfs.r_addr" }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Seen;
    use super::*;
    use crate::field::{FieldDefinition, FieldValue};
    use crate::xdr::{Cursor, Xdr};

    static FIELD: FieldDefinition = FieldDefinition::group("test", "test", "");

    #[test]
    fn rfc8166_section_9_an_rdma_address_has_address_and_port() {
        let mut seen = Seen::default();
        let bytes = b"\0\0\0\x04rdma\0\0\0\x0f192.0.2.1.78.81\0";
        let netaddr = Netaddr4::decode(&mut Cursor::new(bytes), &FIELD, &mut seen).unwrap();
        assert_eq!(netaddr.na_r_netid, Text(b"rdma"));
        assert_eq!(netaddr.na_r_addr.said(), (Some([192, 0, 2, 1].into()), Some(20049)));
        let expected = [
            ("nfs.r_netid", 0..8, FieldValue::Text(b"rdma")),
            ("nfs.r_addr", 8..27, FieldValue::Text(b"192.0.2.1.78.81")),
            ("nfs.universal_address.ipv4", 8..27, FieldValue::Ipv4([192, 0, 2, 1].into())),
            ("nfsrdma.universal_address.port", 8..27, FieldValue::Unsigned(20049)),
        ];
        assert_eq!(seen.values, expected);
    }
}
