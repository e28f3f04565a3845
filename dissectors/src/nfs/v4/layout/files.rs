//! NFSv4.1 file layout type, LAYOUT4_NFSV4_1_FILES. RFC 8881 section 13, RFC 5662.

use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use crate::nfs::v4::address::Netaddr4;
use crate::nfs::v4::types::{Count4, Deviceid4, NfsFh4, Offset4};
use crate::xdr::{Cursor, Encoder, Xdr, XdrArray, XdrError};

crate::xdr! { "nfs";
    /// nfsv4_1_file_layout4: the content of loc_body. RFC 8881 section 13.3.
    struct Nfsv41FileLayout4<'a> {
        nfl_deviceid: Deviceid4 => "nfs.deviceid",
        nfl_util: NflUtil4 => "nfs.nfl_util",
        nfl_first_stripe_index: u32 => "nfs.nfl_first_stripe_index",
        nfl_pattern_offset: Offset4 => "nfs.offset4",
        nfl_fh_list: XdrArray<'a, NfsFh4<'a>> => "nfs.fhandle",
    }

    /// multipath_list4: the addresses of one data server. RFC 8881 section 13.3.
    struct MultipathList4<'a> { multipath_list: XdrArray<'a, Netaddr4<'a>> => "nfs.multipath_list" }

    /// nfsv4_1_file_layout_ds_addr4: the content of da_addr_body. RFC 8881 section 13.3.
    struct Nfsv41FileLayoutDsAddr4<'a> {
        nflda_stripe_indices: XdrArray<'a, u32> => "nfs.deviceidx",
        nflda_multipath_ds_list: XdrArray<'a, MultipathList4<'a>>,
    }

    /// filelayout_hint_care4: the valid members of the hint. RFC 8881 section 13.3.
    flags FilelayoutHintCare4 {
        NFLH4_CARE_DENSE = 0x01, NFLH4_CARE_COMMIT_THRU_MDS = 0x02, NFLH4_CARE_STRIPE_UNIT_SIZE = 0x40,
        NFLH4_CARE_STRIPE_COUNT = 0x80,
    }

    /// nfsv4_1_file_layouthint4: the content of loh_body. RFC 8881 section 13.3.
    struct Nfsv41FileLayouthint4 {
        nflh_care: FilelayoutHintCare4,
        nflh_util: NflUtil4 => "nfs.nfl_util",
        nflh_stripe_count: Count4,
    }
}

/// nfl_util4: flags in the lower six bits, and the size of a stripe unit in the upper bits. RFC 8881 section 13.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NflUtil4(pub u32);

crate::field::fields! {
    STRIPE_UNIT = "nfs.nfl_util.stripe_size" "stripe_unit_size" Unsigned,
        "Size of a stripe unit in bytes, a multiple of 64. RFC 8881 section 13.3.";
    DENSE = "nfs.nfl_util.dense" "dense" Bool,
        "NFL4_UFLG_DENSE: the data servers store the file without holes. RFC 8881 section 13.3.";
    COMMIT_THRU_MDS = "nfs.nfl_util.commit_thru_mds" "commit_thru_mds" Bool,
        "NFL4_UFLG_COMMIT_THRU_MDS: COMMIT goes to the metadata server. RFC 8881 section 13.3.";
}

impl NflUtil4 {
    /// Mask of the flags: NFL4_UFLG_MASK.
    pub const FLAGS: u32 = 0x3f;
    /// Returns `true` if the data servers store the file without holes.
    pub fn is_dense(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns `true` if COMMIT goes to the metadata server.
    pub fn commits_through_the_metadata_server(self) -> bool {
        self.0 & 2 != 0
    }

    /// Returns the size of a stripe unit in bytes.
    pub fn stripe_unit(self) -> u32 {
        self.0 & !Self::FLAGS
    }
}

impl<'a> Xdr<'a> for NflUtil4 {
    const KIND: FieldKind = FieldKind::Hex(8);
    const LENGTH: Option<usize> = Some(4);

    fn describe(registry: &mut FieldRegistry) {
        for field in [&DENSE, &COMMIT_THRU_MDS, &STRIPE_UNIT] {
            registry.field(field);
        }
    }

    #[inline]
    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let at = cursor.position();
        let this = Self(cursor.word()?);
        observer.value(field, at..at + 4, FieldValue::Unsigned(u64::from(this.0)));
        observer.value(&DENSE, at..at + 4, FieldValue::Bool(this.is_dense()));
        let through = this.commits_through_the_metadata_server();
        observer.value(&COMMIT_THRU_MDS, at..at + 4, FieldValue::Bool(through));
        observer.value(&STRIPE_UNIT, at..at + 4, FieldValue::Unsigned(u64::from(this.stripe_unit())));
        Ok(this)
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.word(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8881_section_13_3_one_word_holds_flags_and_the_stripe_unit() {
        let util = NflUtil4(0x0001_0002);
        assert!(util.commits_through_the_metadata_server() && !util.is_dense());
        assert_eq!(util.stripe_unit(), 65536);
        assert_eq!(NflUtil4(0x0000_1001).stripe_unit(), 4096);
    }

    /// The whole word is one field, as in Wireshark; its parts are further fields.
    #[test]
    fn rfc8881_section_13_3_the_word_keeps_the_stripe_unit() {
        #[derive(Default)]
        struct Told(Vec<(&'static str, String)>);
        impl<'a> FieldObserver<'a> for Told {
            fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}
            fn leave(&mut self, _: usize) {}
            fn value(&mut self, field: &'static FieldDefinition, _: std::ops::Range<usize>, value: FieldValue<'a>) {
                self.0.push((field.name, format!("{value:?}")));
            }
        }
        static WORD: FieldDefinition =
            FieldDefinition { name: "nfs.nfl_util", label: "nfl_util", kind: FieldKind::Hex(8), doc: "" };
        let mut observed = Told::default();
        let bytes = 0x0001_0002_u32.to_be_bytes();
        NflUtil4::decode(&mut Cursor::new(&bytes), &WORD, &mut observed).unwrap();
        let value = |value: FieldValue<'_>| format!("{value:?}");
        assert_eq!(
            observed.0,
            [
                ("nfs.nfl_util", value(FieldValue::Unsigned(0x0001_0002))),
                ("nfs.nfl_util.dense", value(FieldValue::Bool(false))),
                ("nfs.nfl_util.commit_thru_mds", value(FieldValue::Bool(true))),
                ("nfs.nfl_util.stripe_size", value(FieldValue::Unsigned(0x0001_0000))),
            ]
        );
    }
}
