//! File attributes: one table of them all, and fattr4. RFC 7530 section 5, RFC 8881 section 5, RFC 7862 section 12.

use crate::xdr::{List, Text};

use super::attribute_types::{
    Aclsupport, ChangeAttrType4, FhExpireType, Fs4Status, FsCharsetCap4, Mdsthreshold4, ModeMasked4,
    ModeUmask4, Nfsacl41, OpenArguments4, RetentionGet4, RetentionSet4, SecLabel4,
};
use super::bitmap::Bitmap4;
use super::layout::Layouthint4;
use super::locations::{FsLocations4, FsLocationsInfo4};
use super::masked::{Masked, items};
use super::status::Nfsstat4;
use super::types::{
    ChangePolicy4, Fsid4, Layouttype4, Mode4, NfsFh4, NfsFtype4, Nfsace4, Nfstime4, Settime4, Specdata4,
};

/// fattr4: attributes and their values. RFC 8881 section 3.3.7.
pub type Fattr4<'a> = Masked<'a, Attribute<'a>, Attributes>;

items! { "nfs.fattr4", attrmask => "nfs.attr_mask", attr_vals => "nfs.attr_vals";
    /// An attribute and its value. RFC 8881 section 5.
    Attribute<'a>, Attributes:
    0 SUPPORTED_ATTRS supported_attrs(Bitmap4<'a>), "RFC 8881 section 5.8.1.1";
    1 TYPE type(NfsFtype4) => "nfs.nfs_ftype4", "RFC 8881 section 5.8.1.2";
    2 FH_EXPIRE_TYPE fh_expire_type(FhExpireType) => "nfs.fattr4_fh_expire_type", "RFC 8881 section 5.8.1.3";
    3 CHANGE change(u64) => "nfs.changeid4", "RFC 8881 section 5.8.1.4";
    4 SIZE size(u64), "RFC 8881 section 5.8.1.5";
    5 LINK_SUPPORT link_support(bool) => "nfs.fattr4_link_support", "RFC 8881 section 5.8.1.6";
    6 SYMLINK_SUPPORT symlink_support(bool) => "nfs.fattr4_symlink_support", "RFC 8881 section 5.8.1.7";
    7 NAMED_ATTR named_attr(bool) => "nfs.fattr4_named_attr", "RFC 8881 section 5.8.1.8";
    8 FSID fsid(Fsid4), "RFC 8881 section 5.8.1.9";
    9 UNIQUE_HANDLES unique_handles(bool) => "nfs.fattr4_unique_handles", "RFC 8881 section 5.8.1.10";
    10 LEASE_TIME lease_time(u32), "RFC 8881 section 5.8.1.11";
    11 RDATTR_ERROR rdattr_error(Nfsstat4), "RFC 8881 section 5.8.1.12";
    12 ACL acl(List<'a, Nfsace4<'a>>), "RFC 8881 section 6.2.1";
    13 ACLSUPPORT aclsupport(Aclsupport), "RFC 8881 section 6.2.1.2";
    14 ARCHIVE archive(bool) => "nfs.fattr4_archive", "RFC 8881 section 5.8.2.1";
    15 CANSETTIME cansettime(bool) => "nfs.fattr4_cansettime", "RFC 8881 section 5.8.2.2";
    16 CASE_INSENSITIVE case_insensitive(bool) => "nfs.fattr4_case_insensitive", "RFC 8881 section 5.8.2.3";
    17 CASE_PRESERVING case_preserving(bool) => "nfs.fattr4_case_preserving", "RFC 8881 section 5.8.2.4";
    18 CHOWN_RESTRICTED chown_restricted(bool) => "nfs.fattr4_chown_restricted", "RFC 8881 section 5.8.2.6";
    19 FILEHANDLE filehandle(NfsFh4<'a>) => "nfs.fhandle", "RFC 8881 section 5.8.1.13";
    20 FILEID fileid(u64), "RFC 8881 section 5.8.2.7";
    21 FILES_AVAIL files_avail(u64), "RFC 8881 section 5.8.2.8";
    22 FILES_FREE files_free(u64), "RFC 8881 section 5.8.2.9";
    23 FILES_TOTAL files_total(u64), "RFC 8881 section 5.8.2.10";
    24 FS_LOCATIONS fs_locations(FsLocations4<'a>), "RFC 8881 section 5.8.2.12";
    25 HIDDEN hidden(bool) => "nfs.fattr4_hidden", "RFC 8881 section 5.8.2.15";
    26 HOMOGENEOUS homogeneous(bool) => "nfs.fattr4_homogeneous", "RFC 8881 section 5.8.2.16";
    27 MAXFILESIZE maxfilesize(u64), "RFC 8881 section 5.8.2.17";
    28 MAXLINK maxlink(u32), "RFC 8881 section 5.8.2.18";
    29 MAXNAME maxname(u32), "RFC 8881 section 5.8.2.19";
    30 MAXREAD maxread(u64), "RFC 8881 section 5.8.2.20";
    31 MAXWRITE maxwrite(u64), "RFC 8881 section 5.8.2.21";
    32 MIMETYPE mimetype(Text<'a>) => "nfs.fattr4_mimetype", "RFC 8881 section 5.8.2.22";
    33 MODE mode(Mode4) => "nfs.mode", "RFC 8881 section 6.2.4";
    34 NO_TRUNC no_trunc(bool) => "nfs.fattr4_no_trunc", "RFC 8881 section 5.8.2.24";
    35 NUMLINKS numlinks(u32), "RFC 8881 section 5.8.2.25";
    36 OWNER owner(Text<'a>) => "nfs.fattr4_owner", "RFC 8881 section 5.8.2.26";
    37 OWNER_GROUP owner_group(Text<'a>) => "nfs.fattr4_owner_group", "RFC 8881 section 5.8.2.27";
    38 QUOTA_AVAIL_HARD quota_avail_hard(u64) => "nfs.fattr4.quota_hard", "RFC 8881 section 5.8.2.28";
    39 QUOTA_AVAIL_SOFT quota_avail_soft(u64) => "nfs.fattr4.quota_soft", "RFC 8881 section 5.8.2.29";
    40 QUOTA_USED quota_used(u64), "RFC 8881 section 5.8.2.30";
    41 RAWDEV rawdev(Specdata4), "RFC 8881 section 5.8.2.31";
    42 SPACE_AVAIL space_avail(u64), "RFC 8881 section 5.8.2.32";
    43 SPACE_FREE space_free(u64), "RFC 8881 section 5.8.2.33";
    44 SPACE_TOTAL space_total(u64), "RFC 8881 section 5.8.2.34";
    45 SPACE_USED space_used(u64), "RFC 8881 section 5.8.2.35";
    46 SYSTEM system(bool) => "nfs.fattr4_system", "RFC 8881 section 5.8.2.36";
    47 TIME_ACCESS time_access(Nfstime4), "RFC 8881 section 5.8.2.37";
    48 TIME_ACCESS_SET time_access_set(Settime4), "RFC 8881 section 5.8.2.38";
    49 TIME_BACKUP time_backup(Nfstime4), "RFC 8881 section 5.8.2.39";
    50 TIME_CREATE time_create(Nfstime4), "RFC 8881 section 5.8.2.40";
    51 TIME_DELTA time_delta(Nfstime4), "RFC 8881 section 5.8.2.41";
    52 TIME_METADATA time_metadata(Nfstime4), "RFC 8881 section 5.8.2.42";
    53 TIME_MODIFY time_modify(Nfstime4), "RFC 8881 section 5.8.2.43";
    54 TIME_MODIFY_SET time_modify_set(Settime4), "RFC 8881 section 5.8.2.44";
    55 MOUNTED_ON_FILEID mounted_on_fileid(u64), "RFC 8881 section 5.8.2.23";
    56 DIR_NOTIF_DELAY dir_notif_delay(Nfstime4), "RFC 8881 section 5.11.1";
    57 DIRENT_NOTIF_DELAY dirent_notif_delay(Nfstime4), "RFC 8881 section 5.11.2";
    58 DACL dacl(Nfsacl41<'a>), "RFC 8881 section 6.2.2";
    59 SACL sacl(Nfsacl41<'a>), "RFC 8881 section 6.2.3";
    60 CHANGE_POLICY change_policy(ChangePolicy4), "RFC 8881 section 5.8.2.5";
    61 FS_STATUS fs_status(Fs4Status<'a>), "RFC 8881 section 5.8.2.14";
    62 FS_LAYOUT_TYPES fs_layout_types(List<'a, Layouttype4>) => "nfs.layouttype", "RFC 8881 section 5.12.1";
    63 LAYOUT_HINT layout_hint(Layouthint4<'a>), "RFC 8881 section 5.12.4";
    64 LAYOUT_TYPES layout_types(List<'a, Layouttype4>) => "nfs.layouttype", "RFC 8881 section 5.12.5";
    65 LAYOUT_BLKSIZE layout_blksize(u32), "RFC 8881 section 5.12.3";
    66 LAYOUT_ALIGNMENT layout_alignment(u32), "RFC 8881 section 5.12.2";
    67 FS_LOCATIONS_INFO fs_locations_info(FsLocationsInfo4<'a>), "RFC 8881 section 5.8.2.13";
    68 MDSTHRESHOLD mdsthreshold(Mdsthreshold4<'a>), "RFC 8881 section 5.12.6";
    69 RETENTION_GET retention_get(RetentionGet4<'a>), "RFC 8881 section 5.13.1";
    70 RETENTION_SET retention_set(RetentionSet4<'a>), "RFC 8881 section 5.13.2";
    71 RETENTEVT_GET retentevt_get(RetentionGet4<'a>), "RFC 8881 section 5.13.3";
    72 RETENTEVT_SET retentevt_set(RetentionSet4<'a>), "RFC 8881 section 5.13.4";
    73 RETENTION_HOLD retention_hold(u64), "RFC 8881 section 5.13.5";
    74 MODE_SET_MASKED mode_set_masked(ModeMasked4), "RFC 8881 section 6.2.5";
    75 SUPPATTR_EXCLCREAT suppattr_exclcreat(Bitmap4<'a>), "RFC 8881 section 5.8.1.14";
    76 FS_CHARSET_CAP fs_charset_cap(FsCharsetCap4), "RFC 8881 section 5.8.2.11";
    77 CLONE_BLKSIZE clone_blksize(u32) => "nfs.fattr4.clone_block_size", "RFC 7862 section 12.2.1";
    78 SPACE_FREED space_freed(u64), "RFC 7862 section 12.2.2";
    79 CHANGE_ATTR_TYPE change_attr_type(ChangeAttrType4), "RFC 7862 section 12.2.3";
    80 SEC_LABEL sec_label(SecLabel4<'a>), "RFC 7862 section 12.2.4";
    81 MODE_UMASK mode_umask(ModeUmask4), "RFC 8275";
    82 XATTR_SUPPORT xattr_support(bool) => "nfs.fattr4_xattr_support", "RFC 8276 section 8.2.1";
    83 OFFLINE offline(bool) => "nfs.fattr4_offline", "RFC 9754";
    84 TIME_DELEG_ACCESS time_deleg_access(Nfstime4), "RFC 9754";
    85 TIME_DELEG_MODIFY time_deleg_modify(Nfstime4), "RFC 9754";
    86 OPEN_ARGUMENTS open_arguments(OpenArguments4<'a>), "RFC 9754";
}

#[cfg(test)]
mod tests {
    use super::super::address::ServerName;
    use super::super::attribute_types::*;
    use super::super::layout::{FilelayoutHintCare4, NflUtil4, Nfsv41FileLayouthint4};
    use super::super::locations::*;
    use super::super::masked::mask_and_values;
    use super::super::types::*;
    use super::*;
    use crate::field::{Field, Unobserved, Value};
    use crate::xdr::{Cursor, Enclosed, Encoder, Error, Opaque, Xdr};

    static FIELD: Field = Field::group("nfs.obj_attributes", "obj_attributes", "");

    const ACE: Nfsace4<'_> = Nfsace4 {
        r#type: Acetype4::ACE4_ACCESS_DENIED_ACE_TYPE,
        flag: Aceflag4::ACE4_IDENTIFIER_GROUP,
        access_mask: Acemask4::ACE4_WRITE_ACL,
        who: Text(b"GROUP@"),
    };
    const TIME: Nfstime4 = Nfstime4 { seconds: -1, nseconds: 999_999_999 };

    /// One of each, in the order of their numbers.
    fn every_attribute(test: impl FnOnce(&[Attribute<'_>])) {
        let names = [Text(b"export"), Text(b"home")];
        let servers = [ServerName(Text(b"one.example")), ServerName(Text(b"192.0.2.2.78.81"))];
        let locations = [FsLocation4 { server: List::from(&servers[..]), rootpath: List::from(&names[..]) }];
        let entries = [FsLocationsServer4 {
            fls_currency: -1,
            fls_info: FlsInfo(Opaque(&[2, 1])),
            fls_server: ServerName(Text(b"three.example")),
        }];
        let items = [FsLocationsItem4 {
            fli_entries: List::from(&entries[..]),
            fli_rootpath: List::from(&names[..]),
        }];
        let (hint_words, hints) =
            mask_and_values(&[Threshold::READ_SIZE(4096), Threshold::WRITE_IOSIZE(1 << 20)]);
        let hints = Masked::new(Bitmap4::from(&hint_words[..]), Opaque(&hints));
        let thresholds =
            [ThresholdItem4 { thi_layout_type: Layouttype4::LAYOUT4_FLEX_FILES, thi_hints: hints }];
        let (aces, times, durations) = ([ACE, ACE], [TIME], [u64::MAX]);
        let layouts = [Layouttype4::LAYOUT4_NFSV4_1_FILES, Layouttype4::LAYOUT4_SCSI];
        let words = [0xffff_ffff, 1];
        let acl = Nfsacl41 { na41_flag: Aclflag4::ACL4_PROTECTED, na41_aces: List::from(&aces[..]) };
        let retention_get = RetentionGet4 { rg_duration: 9, rg_begin_time: List::from(&times[..]) };
        let retention_set = RetentionSet4 { rs_enable: true, rs_duration: List::from(&durations[..]) };
        test(&[
            Attribute::SUPPORTED_ATTRS(Bitmap4::from(&words[..])),
            Attribute::TYPE(NfsFtype4::NF4LNK),
            Attribute::FH_EXPIRE_TYPE(FhExpireType::FH4_VOL_RENAME),
            Attribute::CHANGE(3),
            Attribute::SIZE(4),
            Attribute::LINK_SUPPORT(true),
            Attribute::SYMLINK_SUPPORT(true),
            Attribute::NAMED_ATTR(false),
            Attribute::FSID(Fsid4 { major: 8, minor: 9 }),
            Attribute::UNIQUE_HANDLES(true),
            Attribute::LEASE_TIME(90),
            Attribute::RDATTR_ERROR(Nfsstat4::NFS4ERR_MOVED),
            Attribute::ACL(List::from(&aces[..])),
            Attribute::ACLSUPPORT(Aclsupport::ACL4_SUPPORT_AUDIT_ACL),
            Attribute::ARCHIVE(true),
            Attribute::CANSETTIME(true),
            Attribute::CASE_INSENSITIVE(false),
            Attribute::CASE_PRESERVING(true),
            Attribute::CHOWN_RESTRICTED(true),
            Attribute::FILEHANDLE(Opaque(&[1, 2, 3])),
            Attribute::FILEID(20),
            Attribute::FILES_AVAIL(21),
            Attribute::FILES_FREE(22),
            Attribute::FILES_TOTAL(23),
            Attribute::FS_LOCATIONS(FsLocations4 {
                fs_root: List::from(&names[..]),
                locations: List::from(&locations[..]),
            }),
            Attribute::HIDDEN(false),
            Attribute::HOMOGENEOUS(true),
            Attribute::MAXFILESIZE(u64::MAX),
            Attribute::MAXLINK(255),
            Attribute::MAXNAME(255),
            Attribute::MAXREAD(1 << 20),
            Attribute::MAXWRITE(1 << 20),
            Attribute::MIMETYPE(Text(b"text/plain")),
            Attribute::MODE(Mode4(0o644)),
            Attribute::NO_TRUNC(true),
            Attribute::NUMLINKS(1),
            Attribute::OWNER(Text(b"root@example")),
            Attribute::OWNER_GROUP(Text(b"0")),
            Attribute::QUOTA_AVAIL_HARD(38),
            Attribute::QUOTA_AVAIL_SOFT(39),
            Attribute::QUOTA_USED(40),
            Attribute::RAWDEV(Specdata4 { specdata1: 8, specdata2: 1 }),
            Attribute::SPACE_AVAIL(42),
            Attribute::SPACE_FREE(43),
            Attribute::SPACE_TOTAL(44),
            Attribute::SPACE_USED(45),
            Attribute::SYSTEM(false),
            Attribute::TIME_ACCESS(TIME),
            Attribute::TIME_ACCESS_SET(Settime4::Client(TIME)),
            Attribute::TIME_BACKUP(TIME),
            Attribute::TIME_CREATE(TIME),
            Attribute::TIME_DELTA(TIME),
            Attribute::TIME_METADATA(TIME),
            Attribute::TIME_MODIFY(TIME),
            Attribute::TIME_MODIFY_SET(Settime4::Server(TimeHow4::SET_TO_SERVER_TIME4)),
            Attribute::MOUNTED_ON_FILEID(55),
            Attribute::DIR_NOTIF_DELAY(TIME),
            Attribute::DIRENT_NOTIF_DELAY(TIME),
            Attribute::DACL(acl.clone()),
            Attribute::SACL(acl),
            Attribute::CHANGE_POLICY(ChangePolicy4 { cp_major: 1, cp_minor: 2 }),
            Attribute::FS_STATUS(Fs4Status {
                fss_absent: false,
                fss_type: Fs4StatusType::STATUS4_VERSIONED,
                fss_source: Text(b"a"),
                fss_current: Text(b"bc"),
                fss_age: -5,
                fss_version: TIME,
            }),
            Attribute::FS_LAYOUT_TYPES(List::from(&layouts[..])),
            Attribute::LAYOUT_HINT(Layouthint4::Files(Enclosed::Known(Nfsv41FileLayouthint4 {
                nflh_care: FilelayoutHintCare4::NFLH4_CARE_STRIPE_COUNT,
                nflh_util: NflUtil4(0),
                nflh_stripe_count: 4,
            }))),
            Attribute::LAYOUT_TYPES(List::from(&layouts[..])),
            Attribute::LAYOUT_BLKSIZE(4096),
            Attribute::LAYOUT_ALIGNMENT(512),
            Attribute::FS_LOCATIONS_INFO(FsLocationsInfo4 {
                fli_flags: FliFlags::FSLI4IF_VAR_SUB,
                fli_valid_for: 1800,
                fli_fs_root: List::from(&names[..]),
                fli_items: List::from(&items[..]),
            }),
            Attribute::MDSTHRESHOLD(Mdsthreshold4 { mth_hints: List::from(&thresholds[..]) }),
            Attribute::RETENTION_GET(retention_get.clone()),
            Attribute::RETENTION_SET(retention_set.clone()),
            Attribute::RETENTEVT_GET(retention_get),
            Attribute::RETENTEVT_SET(retention_set),
            Attribute::RETENTION_HOLD(1),
            Attribute::MODE_SET_MASKED(ModeMasked4 {
                mm_value_to_set: Mode4(0),
                mm_mask_bits: Mode4::MODE4_SUID,
            }),
            Attribute::SUPPATTR_EXCLCREAT(Bitmap4::from(&words[..])),
            Attribute::FS_CHARSET_CAP(FsCharsetCap4::FSCHARSET_CAP4_ALLOWS_ONLY_UTF8),
            Attribute::CLONE_BLKSIZE(4096),
            Attribute::SPACE_FREED(78),
            Attribute::CHANGE_ATTR_TYPE(ChangeAttrType4::NFS4_CHANGE_TYPE_IS_TIME_METADATA),
            Attribute::SEC_LABEL(SecLabel4 {
                slai_lfs: LabelformatSpec4 { lfs_lfs: 0, lfs_pi: 0 },
                slai_data: Text(b"system_u:object_r:nfs_t:s0"),
            }),
            Attribute::MODE_UMASK(ModeUmask4 { mu_mode: Mode4(0o666), mu_umask: Mode4(0o22) }),
            Attribute::XATTR_SUPPORT(true),
            Attribute::OFFLINE(false),
            Attribute::TIME_DELEG_ACCESS(TIME),
            Attribute::TIME_DELEG_MODIFY(TIME),
            Attribute::OPEN_ARGUMENTS(OpenArguments4 {
                oa_share_access: Bitmap4::from(&words[1..]),
                oa_share_deny: Bitmap4::default(),
                oa_share_access_want: Bitmap4::from(&words[..1]),
                oa_open_claim: Bitmap4::default(),
                oa_create_mode: Bitmap4::default(),
            }),
        ]);
    }

    /// The bytes of fattr4: the bitmap, then opaque data.
    fn fattr4(words: &[u32], values: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        Fattr4::new(Bitmap4::from(words), Opaque(values)).encode(&mut encoder);
        encoder.finish().0
    }

    #[test]
    fn every_attribute_of_the_table_is_read_and_written() {
        every_attribute(|attributes| {
            use super::super::bitmap::Names;
            use super::super::masked::Item;
            let numbers: Vec<_> = attributes.iter().map(Item::number).collect();
            assert_eq!(numbers, (0..=86).collect::<Vec<_>>());
            assert_eq!(Attributes::ALL.iter().map(|(number, _)| *number).collect::<Vec<_>>(), numbers);

            let (words, values) = mask_and_values(attributes);
            let bytes = fattr4(&words, &values);
            let mut cursor = Cursor::new(&bytes);
            let decoded = Fattr4::decode(&mut cursor, &FIELD, &mut Unobserved).unwrap();
            assert_eq!(cursor.remaining(), 0);
            assert_eq!(decoded.items().collect::<Result<Vec<_>, _>>().unwrap(), attributes);
        });
    }

    #[test]
    fn attributes_stand_in_the_order_of_their_numbers() {
        // RFC 8881 section 3.3.7: size (4) in the first word, mode (33) in the second.
        let bytes =
            [0, 0, 0, 2, 0, 0, 0, 0x10, 0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 1, 0xa4];
        let fattr = Fattr4::decode(&mut Cursor::new(&bytes), &FIELD, &mut Unobserved).unwrap();
        let attributes: Vec<_> = fattr.items().collect();
        assert_eq!(attributes, [Ok(Attribute::SIZE(42)), Ok(Attribute::MODE(Mode4(0o644)))]);
    }

    #[test]
    fn an_unknown_attribute_stops_the_walk_and_keeps_its_bytes() {
        // Size, attribute 90, and a word after the fattr4.
        let values = [0, 0, 0, 0, 0, 0, 0, 42, 1, 2, 3, 4];
        let mut bytes = fattr4(&[0x10, 0, 1 << (90 - 64)], &values);
        let end = bytes.len();
        bytes.extend([0, 0, 0, 7]);
        let mut cursor = Cursor::new(&bytes);
        let fattr = Fattr4::decode(&mut cursor, &FIELD, &mut Unobserved).unwrap();
        assert_eq!(u32::decode(&mut cursor, &FIELD, &mut Unobserved), Ok(7));

        let mut walk = fattr.items();
        assert_eq!(walk.next(), Some(Ok(Attribute::SIZE(42))));
        assert_eq!(walk.next(), Some(Err(Error::Unknown { at: 8, what: "Attribute", number: 90 })));
        assert_eq!(walk.next(), None);
        assert_eq!(walk.rest(), [1, 2, 3, 4]);

        let mut encoder = Encoder::new();
        fattr.encode(&mut encoder);
        assert_eq!(encoder.bytes(), &bytes[..end]);
    }

    #[test]
    fn a_watcher_sees_attributes_by_name_and_what_stops_them() {
        let bytes = fattr4(&[0x10, 0, 1 << (90 - 64)], &[0, 0, 0, 0, 0, 0, 0, 42, 1, 2, 3, 4]);
        let mut seen = super::super::tests::Seen::default();
        Fattr4::decode(&mut Cursor::new(&bytes), &FIELD, &mut seen).unwrap();
        let lines: Vec<_> =
            seen.values.iter().map(|(field, at, value)| (*field, at.clone(), *value)).collect();
        assert_eq!(lines.len(), 5);
        assert!(
            matches!(lines[0], ("nfs.attr_mask", _, Value::Flags(0x10, names)) if names.contains(&(0x10, "size")))
        );
        assert_eq!(lines[3], ("nfs.fattr4.size", 20..28, Value::Unsigned(42)));
        assert_eq!(lines[4], ("nfs.attr_vals", 28..32, Value::Bytes(&[1, 2, 3, 4])));
    }

    #[test]
    fn a_value_that_is_cut_short_by_its_opaque_data_stops_the_walk() {
        let bytes = fattr4(&[0x110], &[0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        let mut seen = super::super::tests::Seen::default();
        let fattr = Fattr4::decode(&mut Cursor::new(&bytes), &FIELD, &mut seen).unwrap();
        let stop = fattr.items().nth(1);
        assert_eq!(stop, Some(Err(Error::Short { at: 16, needed: 8 })));
        assert_eq!(seen.depth, 0);
    }
}
