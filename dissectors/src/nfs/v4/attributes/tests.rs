use super::super::address::ServerName;
use super::super::attribute_value_types::*;
use super::super::bitmap_keyed_values::mask_and_values;
use super::super::layout::{FilelayoutHintCare4, NflUtil4, Nfsv41FileLayouthint4};
use super::super::locations::*;
use super::super::types::*;
use super::*;
use crate::field::{FieldDefinition, FieldValue, NullFieldObserver};
use crate::xdr::{Cursor, Encoder, Opaque, StructuredOpaque, Xdr, XdrError};

static FIELD: FieldDefinition = FieldDefinition::group("nfs.obj_attributes", "obj_attributes", "");

const ACE: Nfsace4<'_> = Nfsace4 {
    r#type: Acetype4::ACE4_ACCESS_DENIED_ACE_TYPE,
    flag: Aceflag4::ACE4_IDENTIFIER_GROUP,
    access_mask: Acemask4::ACE4_WRITE_ACL,
    who: Text(b"GROUP@"),
};
const TIME: Nfstime4 = Nfstime4 { seconds: -1, nseconds: 999_999_999 };
const SPAN: Duration4 = Duration4 { seconds: -1, nseconds: 999_999_999 };

/// Encodes the notation of the examples, with common components of several attributes.
fn laid_out(text: &str) -> Vec<u8> {
    let text = text
        .replace("$entry", "00000001 00000040 00040000 00000006 'GROUP@' 0000")
        .replace("$path", "00000002 00000006 'export' 0000 00000004 'home'")
        .replace("$when", "ffffffff ffffffff 3b9ac9ff");
    super::super::tests::laid(&text)
}

/// Runs a test with one of each attribute in numerical order, and its hand-written encoding.
fn every_attribute(test: impl FnOnce(&[(Attribute<'_>, &str)])) {
    let names = [Text(b"export"), Text(b"home")];
    let servers = [ServerName(Text(b"one.example")), ServerName(Text(b"192.0.2.2.78.81"))];
    let locations = [FsLocation4 { server: XdrArray::from(&servers[..]), rootpath: XdrArray::from(&names[..]) }];
    let entries = [FsLocationsServer4 {
        fls_currency: -1,
        fls_info: FlsInfo(Opaque(&[2, 1])),
        fls_server: ServerName(Text(b"three.example")),
    }];
    let items =
        [FsLocationsItem4 { fli_entries: XdrArray::from(&entries[..]), fli_rootpath: XdrArray::from(&names[..]) }];
    let (hint_words, hints) = mask_and_values(&[Threshold::READ_SIZE(4096), Threshold::WRITE_IOSIZE(1 << 20)]);
    let hints = BitmapKeyedValues::new(Bitmap4::from(&hint_words[..]), Opaque(&hints));
    let thresholds = [ThresholdItem4 { thi_layout_type: Layouttype4::LAYOUT4_FLEX_FILES, thi_hints: hints }];
    let (aces, times, durations) = ([ACE, ACE], [TIME], [u64::MAX]);
    let layouts = [Layouttype4::LAYOUT4_NFSV4_1_FILES, Layouttype4::LAYOUT4_SCSI];
    let words = [0xffff_ffff, 1];
    let acl = Nfsacl41 { na41_flag: Aclflag4::ACL4_PROTECTED, na41_aces: XdrArray::from(&aces[..]) };
    let retention_get = RetentionGet4 { rg_duration: 9, rg_begin_time: XdrArray::from(&times[..]) };
    let retention_set = RetentionSet4 { rs_enable: true, rs_duration: XdrArray::from(&durations[..]) };
    test(&[
        (Attribute::SUPPORTED_ATTRS(Bitmap4::from(&words[..])), "00000002 ffffffff 00000001"),
        (Attribute::TYPE(NfsFtype4::NF4LNK), "00000005"),
        (Attribute::FH_EXPIRE_TYPE(FhExpireType::FH4_VOL_RENAME), "00000008"),
        (Attribute::CHANGE(3), "00000000 00000003"),
        (Attribute::SIZE(4), "00000000 00000004"),
        (Attribute::LINK_SUPPORT(true), "00000001"),
        (Attribute::SYMLINK_SUPPORT(true), "00000001"),
        (Attribute::NAMED_ATTR(false), "00000000"),
        (Attribute::FSID(Fsid4 { major: 8, minor: 9 }), "00000000 00000008 00000000 00000009"),
        (Attribute::UNIQUE_HANDLES(true), "00000001"),
        (Attribute::LEASE_TIME(90), "0000005a"),
        (Attribute::RDATTR_ERROR(Nfsstat4::NFS4ERR_MOVED), "00002723"),
        (Attribute::ACL(XdrArray::from(&aces[..])), "00000002 $entry $entry"),
        (Attribute::ACLSUPPORT(Aclsupport::ACL4_SUPPORT_AUDIT_ACL), "00000004"),
        (Attribute::ARCHIVE(true), "00000001"),
        (Attribute::CANSETTIME(true), "00000001"),
        (Attribute::CASE_INSENSITIVE(false), "00000000"),
        (Attribute::CASE_PRESERVING(true), "00000001"),
        (Attribute::CHOWN_RESTRICTED(true), "00000001"),
        (Attribute::FILEHANDLE(Opaque(&[1, 2, 3])), "00000003 010203 00"),
        (Attribute::FILEID(20), "00000000 00000014"),
        (Attribute::FILES_AVAIL(21), "00000000 00000015"),
        (Attribute::FILES_FREE(22), "00000000 00000016"),
        (Attribute::FILES_TOTAL(23), "00000000 00000017"),
        (
            Attribute::FS_LOCATIONS(FsLocations4 {
                fs_root: XdrArray::from(&names[..]),
                locations: XdrArray::from(&locations[..]),
            }),
            "$path 00000001 00000002 0000000b 'one.example' 00 0000000f '192.0.2.2.78.81' 00 $path",
        ),
        (Attribute::HIDDEN(false), "00000000"),
        (Attribute::HOMOGENEOUS(true), "00000001"),
        (Attribute::MAXFILESIZE(u64::MAX), "ffffffff ffffffff"),
        (Attribute::MAXLINK(255), "000000ff"),
        (Attribute::MAXNAME(255), "000000ff"),
        (Attribute::MAXREAD(1 << 20), "00000000 00100000"),
        (Attribute::MAXWRITE(1 << 20), "00000000 00100000"),
        (Attribute::MIMETYPE(Text(b"text/plain")), "0000000a 'text/plain' 0000"),
        (Attribute::MODE(Mode4(0o644)), "000001a4"),
        (Attribute::NO_TRUNC(true), "00000001"),
        (Attribute::NUMLINKS(1), "00000001"),
        (Attribute::OWNER(Text(b"root@example")), "0000000c 'root@example'"),
        (Attribute::OWNER_GROUP(Text(b"0")), "00000001 '0' 000000"),
        (Attribute::QUOTA_AVAIL_HARD(38), "00000000 00000026"),
        (Attribute::QUOTA_AVAIL_SOFT(39), "00000000 00000027"),
        (Attribute::QUOTA_USED(40), "00000000 00000028"),
        (Attribute::RAWDEV(Specdata4 { specdata1: 8, specdata2: 1 }), "00000008 00000001"),
        (Attribute::SPACE_AVAIL(42), "00000000 0000002a"),
        (Attribute::SPACE_FREE(43), "00000000 0000002b"),
        (Attribute::SPACE_TOTAL(44), "00000000 0000002c"),
        (Attribute::SPACE_USED(45), "00000000 0000002d"),
        (Attribute::SYSTEM(false), "00000000"),
        (Attribute::TIME_ACCESS(TIME), "$when"),
        (Attribute::TIME_ACCESS_SET(Settime4::Client(TIME)), "00000001 $when"),
        (Attribute::TIME_BACKUP(TIME), "$when"),
        (Attribute::TIME_CREATE(TIME), "$when"),
        (Attribute::TIME_DELTA(SPAN), "$when"),
        (Attribute::TIME_METADATA(TIME), "$when"),
        (Attribute::TIME_MODIFY(TIME), "$when"),
        (Attribute::TIME_MODIFY_SET(Settime4::Server(TimeHow4::SET_TO_SERVER_TIME4)), "00000000"),
        (Attribute::MOUNTED_ON_FILEID(55), "00000000 00000037"),
        (Attribute::DIR_NOTIF_DELAY(SPAN), "$when"),
        (Attribute::DIRENT_NOTIF_DELAY(SPAN), "$when"),
        (Attribute::DACL(acl.clone()), "00000002 00000002 $entry $entry"),
        (Attribute::SACL(acl), "00000002 00000002 $entry $entry"),
        (Attribute::CHANGE_POLICY(ChangePolicy4 { cp_major: 1, cp_minor: 2 }), "00000000 00000001 00000000 00000002"),
        (
            Attribute::FS_STATUS(Fs4Status {
                fss_absent: false,
                fss_type: Fs4StatusType::STATUS4_VERSIONED,
                fss_source: Text(b"a"),
                fss_current: Text(b"bc"),
                fss_age: -5,
                fss_version: TIME,
            }),
            "00000000 00000003 00000001 'a' 000000 00000002 'bc' 0000 fffffffb $when",
        ),
        (Attribute::FS_LAYOUT_TYPES(XdrArray::from(&layouts[..])), "00000002 00000001 00000005"),
        (
            Attribute::LAYOUT_HINT(Layouthint4::Files(StructuredOpaque::Known(Nfsv41FileLayouthint4 {
                nflh_care: FilelayoutHintCare4::NFLH4_CARE_STRIPE_COUNT,
                nflh_util: NflUtil4(0),
                nflh_stripe_count: 4,
            }))),
            "00000001 0000000c 00000080 00000000 00000004",
        ),
        (Attribute::LAYOUT_TYPES(XdrArray::from(&layouts[..])), "00000002 00000001 00000005"),
        (Attribute::LAYOUT_BLKSIZE(4096), "00001000"),
        (Attribute::LAYOUT_ALIGNMENT(512), "00000200"),
        (
            Attribute::FS_LOCATIONS_INFO(FsLocationsInfo4 {
                fli_flags: FliFlags::FSLI4IF_VAR_SUB,
                fli_valid_for: 1800,
                fli_fs_root: XdrArray::from(&names[..]),
                fli_items: XdrArray::from(&items[..]),
            }),
            "00000001 00000708 $path 00000001 00000001 ffffffff 00000002 0201 0000 0000000d 'three.example' 000000 $path",
        ),
        (
            Attribute::MDSTHRESHOLD(Mdsthreshold4 { mth_hints: XdrArray::from(&thresholds[..]) }),
            "00000001 00000004 00000001 00000009 00000010 00000000 00001000 00000000 00100000",
        ),
        (Attribute::RETENTION_GET(retention_get.clone()), "00000000 00000009 00000001 $when"),
        (Attribute::RETENTION_SET(retention_set.clone()), "00000001 00000001 ffffffff ffffffff"),
        (Attribute::RETENTEVT_GET(retention_get), "00000000 00000009 00000001 $when"),
        (Attribute::RETENTEVT_SET(retention_set), "00000001 00000001 ffffffff ffffffff"),
        (Attribute::RETENTION_HOLD(1), "00000000 00000001"),
        (
            Attribute::MODE_SET_MASKED(ModeMasked4 { mm_value_to_set: Mode4(0), mm_mask_bits: Mode4::MODE4_SUID }),
            "00000000 00000800",
        ),
        (Attribute::SUPPATTR_EXCLCREAT(Bitmap4::from(&words[..])), "00000002 ffffffff 00000001"),
        (Attribute::FS_CHARSET_CAP(FsCharsetCap4::FSCHARSET_CAP4_ALLOWS_ONLY_UTF8), "00000002"),
        (Attribute::CLONE_BLKSIZE(4096), "00001000"),
        (Attribute::SPACE_FREED(78), "00000000 0000004e"),
        (Attribute::CHANGE_ATTR_TYPE(ChangeAttrType4::NFS4_CHANGE_TYPE_IS_TIME_METADATA), "00000003"),
        (
            Attribute::SEC_LABEL(SecLabel4 {
                slai_lfs: LabelformatSpec4 { lfs_lfs: 0, lfs_pi: 0 },
                slai_data: Text(b"system_u:object_r:nfs_t:s0"),
            }),
            "00000000 00000000 0000001a 'system_u:object_r:nfs_t:s0' 0000",
        ),
        (Attribute::MODE_UMASK(ModeUmask4 { mu_mode: Mode4(0o666), mu_umask: Mode4(0o22) }), "000001b6 00000012"),
        (Attribute::XATTR_SUPPORT(true), "00000001"),
        (Attribute::OFFLINE(false), "00000000"),
        (Attribute::TIME_DELEG_ACCESS(TIME), "$when"),
        (Attribute::TIME_DELEG_MODIFY(TIME), "$when"),
        (
            Attribute::OPEN_ARGUMENTS(OpenArguments4 {
                oa_share_access: Bitmap4::from(&words[1..]),
                oa_share_deny: Bitmap4::default(),
                oa_share_access_want: Bitmap4::from(&words[..1]),
                oa_open_claim: Bitmap4::default(),
                oa_create_mode: Bitmap4::default(),
            }),
            "00000001 00000001 00000000 00000001 ffffffff 00000000 00000000",
        ),
    ]);
}

/// Encodes a fattr4: the bitmap, then opaque data.
fn fattr4(words: &[u32], values: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    Fattr4::new(Bitmap4::from(words), Opaque(values)).encode(&mut encoder);
    encoder.finish().0
}

#[test]
fn every_attribute_of_the_table_is_read_and_written() {
    every_attribute(|examples| {
        use super::super::bitmap::BitNames;
        use super::super::bitmap_keyed_values::BitmapKeyedValue;
        let attributes: Vec<_> = examples.iter().map(|(attribute, _)| attribute.clone()).collect();
        let numbers: Vec<_> = attributes.iter().map(BitmapKeyedValue::number).collect();
        assert_eq!(numbers, (0..=86).collect::<Vec<_>>());
        let named: Vec<_> = Attributes::ALL.iter().map(|(number, _)| *number as u32).collect();
        assert_eq!(named, numbers);

        for (attribute, by_hand) in examples {
            let mut encoder = Encoder::new();
            attribute.encode(&mut encoder);
            assert_eq!(encoder.bytes(), laid_out(by_hand), "{attribute:?}");
        }
        let (words, values) = mask_and_values(&attributes);
        let by_hand: Vec<u8> = examples.iter().flat_map(|(_, by_hand)| laid_out(by_hand)).collect();
        assert_eq!(values, by_hand);
        let bytes = fattr4(&words, &values);
        let mut cursor = Cursor::new(&bytes);
        let decoded = Fattr4::decode(&mut cursor, &FIELD, &mut NullFieldObserver).unwrap();
        assert_eq!(cursor.remaining(), 0);
        assert_eq!(decoded.items().collect::<Result<Vec<_>, _>>().unwrap(), attributes);
    });
}

#[test]
fn attributes_stand_in_the_order_of_their_numbers() {
    // RFC 8881 section 3.3.7: size (4) in the first word, mode (33) in the second.
    let bytes = [0, 0, 0, 2, 0, 0, 0, 0x10, 0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 1, 0xa4];
    let fattr = Fattr4::decode(&mut Cursor::new(&bytes), &FIELD, &mut NullFieldObserver).unwrap();
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
    let fattr = Fattr4::decode(&mut cursor, &FIELD, &mut NullFieldObserver).unwrap();
    assert_eq!(u32::decode(&mut cursor, &FIELD, &mut NullFieldObserver), Ok(7));

    let mut walk = fattr.items();
    assert_eq!(walk.next(), Some(Ok(Attribute::SIZE(42))));
    assert_eq!(walk.next(), Some(Err(XdrError::Unknown { at: 8, what: "Attribute", number: 90 })));
    assert_eq!(walk.next(), None);
    assert_eq!(walk.rest(), [1, 2, 3, 4]);

    let mut encoder = Encoder::new();
    fattr.encode(&mut encoder);
    assert_eq!(encoder.bytes(), &bytes[..end]);
}

#[test]
fn an_observer_gets_attributes_by_name_and_the_undecoded_rest() {
    let bytes = fattr4(&[0x10, 0, 1 << (90 - 64)], &[0, 0, 0, 0, 0, 0, 0, 42, 1, 2, 3, 4]);
    let mut seen = super::super::tests::Seen::default();
    Fattr4::decode(&mut Cursor::new(&bytes), &FIELD, &mut seen).unwrap();
    let lines: Vec<_> = seen.values.iter().map(|(field, at, value)| (*field, at.clone(), *value)).collect();
    assert_eq!(lines.len(), 5);
    assert!(
        matches!(lines[0], ("nfs.attr_mask", _, FieldValue::Flags(0x10, names)) if names.contains(&(0x10, "size")))
    );
    assert_eq!(lines[3], ("nfs.fattr4.size", 20..28, FieldValue::Unsigned(42)));
    assert_eq!(lines[4], ("nfs.attr_vals", 28..32, FieldValue::Bytes(&[1, 2, 3, 4])));
}

#[test]
fn a_value_that_is_cut_short_by_its_opaque_data_stops_the_walk() {
    let bytes = fattr4(&[0x110], &[0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    let mut seen = super::super::tests::Seen::default();
    let fattr = Fattr4::decode(&mut Cursor::new(&bytes), &FIELD, &mut seen).unwrap();
    let stop = fattr.items().nth(1);
    assert_eq!(stop, Some(Err(XdrError::Short { at: 16, needed: 8 })));
    assert_eq!(seen.depth, 0);
}
