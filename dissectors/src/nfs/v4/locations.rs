//! Locations of file systems: fs_locations and fs_locations_info. RFC 8881 sections 11.16 and 11.17.

use super::address::ServerName;
use super::types::Pathname4;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use crate::xdr::{Cursor, Encoder, Opaque, Xdr, XdrArray, XdrError};

crate::xdr! { "nfs";
    /// fs_location4. RFC 8881 section 11.16.
    struct FsLocation4<'a> {
        server: XdrArray<'a, ServerName<'a>> => "nfs.server",
        rootpath: Pathname4<'a> => "nfs.pathname.component",
    }

    /// fs_locations4. RFC 8881 section 11.16.
    struct FsLocations4<'a> {
        fs_root: Pathname4<'a> => "nfs.pathname.component",
        locations: XdrArray<'a, FsLocation4<'a>> => "nfs.fattr4.fs_location",
    }

    /// fs_locations_server4. RFC 8881 section 11.17.1.
    struct FsLocationsServer4<'a> {
        fls_currency: i32,
        fls_info: FlsInfo<'a>,
        fls_server: ServerName<'a> => "nfs.server",
    }

    /// fs_locations_item4. RFC 8881 section 11.17.3.
    struct FsLocationsItem4<'a> {
        fli_entries: XdrArray<'a, FsLocationsServer4<'a>>,
        fli_rootpath: Pathname4<'a> => "nfs.pathname.component",
    }

    /// The bits of fli_flags. RFC 8881 section 11.17.2.
    flags FliFlags { FSLI4IF_VAR_SUB = 0x1 }

    /// fs_locations_info4. RFC 8881 section 11.17.2.
    struct FsLocationsInfo4<'a> {
        fli_flags: FliFlags,
        fli_valid_for: i32,
        fli_fs_root: Pathname4<'a> => "nfs.pathname.component",
        fli_items: XdrArray<'a, FsLocationsItem4<'a>>,
    }
}

/// fls_info: properties of a server, one byte each. The last bytes may be missing; additional bytes are undefined. RFC
/// 8881 section 11.17.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlsInfo<'a>(pub Opaque<'a>);

/// A byte of [`FlsInfo`]: its field, and the names of its bits if it is a mask.
type FlsInfoByteDescription = (FieldDefinition, &'static [crate::field::FlagName]);

macro_rules! facts {
    ($($name:ident $filter:literal $kind:ident [$($bit:literal $flag:ident),*], $doc:literal;)*) => {
        static FACTS: &[FlsInfoByteDescription] = &[$((
            FieldDefinition { name: $filter, label: stringify!($name), kind: FieldKind::$kind, doc: $doc },
            &[$(($bit, stringify!($flag))),*],
        )),*];
    };
}
facts! {
    FSLI4BX_GFLAGS "nfs.fls_info.gflags" Flags [
        0x01 FSLI4GF_WRITABLE, 0x02 FSLI4GF_CUR_REQ, 0x04 FSLI4GF_ABSENT, 0x08 FSLI4GF_GOING, 0x10 FSLI4GF_SPLIT
    ], "General flags. RFC 8881 section 11.17.1.";
    FSLI4BX_TFLAGS "nfs.fls_info.tflags" Flags [0x01 FSLI4TF_RDMA],
        "Transport flags: whether the server can be reached with RDMA. RFC 8881 section 11.17.1.";
    FSLI4BX_CLSIMUL "nfs.fls_info.clsimul" Unsigned [], "Class of simultaneous use. RFC 8881 section 11.17.1.";
    FSLI4BX_CLHANDLE "nfs.fls_info.clhandle" Unsigned [], "Class of filehandles. RFC 8881 section 11.17.1.";
    FSLI4BX_CLFILEID "nfs.fls_info.clfileid" Unsigned [], "Class of fileids. RFC 8881 section 11.17.1.";
    FSLI4BX_CLWRITEVER "nfs.fls_info.clwritever" Unsigned [], "Class of write verifiers. RFC 8881 section 11.17.1.";
    FSLI4BX_CLCHANGE "nfs.fls_info.clchange" Unsigned [], "Class of change attributes. RFC 8881 section 11.17.1.";
    FSLI4BX_CLREADDIR "nfs.fls_info.clreaddir" Unsigned [], "Class of READDIR cookies. RFC 8881 section 11.17.1.";
    FSLI4BX_READRANK "nfs.fls_info.readrank" Unsigned [], "Rank for readers. RFC 8881 section 11.17.1.";
    FSLI4BX_WRITERANK "nfs.fls_info.writerank" Unsigned [], "Rank for writers. RFC 8881 section 11.17.1.";
    FSLI4BX_READORDER "nfs.fls_info.readorder" Unsigned [], "Order within the rank for readers. RFC 8881 section 11.17.1.";
    FSLI4BX_WRITEORDER "nfs.fls_info.writeorder" Unsigned [],
        "Order within the rank for writers. RFC 8881 section 11.17.1.";
}
crate::field::fields! {
    UNKNOWN_BYTES = "nfs.fls_info.later" "later" Bytes,
        "Facts that this program does not know. RFC 8881 section 11.17.1.";
}

impl FlsInfo<'_> {
    /// Returns `true` if the server is reachable over RDMA: FSLI4TF_RDMA.
    pub fn has_rdma(&self) -> bool {
        self.0.0.get(1).is_some_and(|flags| flags & 1 != 0)
    }
}

impl<'a> Xdr<'a> for FlsInfo<'a> {
    const KIND: FieldKind = FieldKind::Group;

    fn describe(registry: &mut FieldRegistry) {
        FACTS.iter().for_each(|(field, _)| registry.field(field));
        registry.field(&UNKNOWN_BYTES);
    }

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let start = cursor.position();
        let this = Self(Opaque::decode(cursor, field, &mut crate::field::NullFieldObserver)?);
        if O::is_enabled() {
            observer.enter(field, start);
            for (at, ((field, names), byte)) in (start + 4..).zip(FACTS.iter().zip(this.0.0)) {
                let number = u64::from(*byte);
                let value = if field.kind == FieldKind::Flags {
                    FieldValue::Flags(number, names)
                } else {
                    FieldValue::Unsigned(number)
                };
                observer.value(field, at..at + 1, value);
            }
            if let Some(unknown) = this.0.0.get(FACTS.len()..).filter(|later| !later.is_empty()) {
                let at = start + 4 + FACTS.len();
                observer.value(&UNKNOWN_BYTES, at..at + unknown.len(), FieldValue::Bytes(unknown));
            }
            observer.leave(cursor.position());
        }
        Ok(this)
    }

    fn encode(&self, encoder: &mut Encoder) {
        self.0.encode(encoder);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Seen;
    use super::*;

    static FIELD: FieldDefinition = FieldDefinition::group("nfs.fls_info", "fls_info", "");

    fn seen(bytes: &[u8]) -> Seen<'_> {
        let mut seen = Seen::default();
        FlsInfo::decode(&mut Cursor::new(bytes), &FIELD, &mut seen).unwrap();
        seen
    }

    #[test]
    fn rfc8881_section_11_17_1_each_byte_of_fls_info_is_a_fact() {
        let bytes = b"\0\0\0\x0c\x03\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b";
        let seen = seen(bytes);
        assert_eq!(seen.values.len(), 12);
        assert!(matches!(seen.values[0], ("nfs.fls_info.gflags", _, FieldValue::Flags(3, names)) if names.len() == 5));
        assert_eq!(seen.values[1], ("nfs.fls_info.tflags", 5..6, FieldValue::Flags(1, &[(1, "FSLI4TF_RDMA")])));
        assert_eq!(seen.values[11], ("nfs.fls_info.writeorder", 15..16, FieldValue::Unsigned(11)));
        assert!(FlsInfo(Opaque(&bytes[4..])).has_rdma());
    }

    #[test]
    fn fls_info_may_end_early_and_may_grow() {
        assert_eq!(seen(b"\0\0\0\0").values, []);
        assert_eq!(seen(b"\0\0\0\x01\x01\0\0\0").values.len(), 1);
        let longer = seen(b"\0\0\0\x0f123456789012345\0");
        assert_eq!(longer.values[12], ("nfs.fls_info.later", 16..19, FieldValue::Bytes(b"345")));
        assert!(!FlsInfo::default().has_rdma());
    }
}
