//! File attributes: table of all attributes, and fattr4. RFC 7530 section 5, RFC 8881 section 5, RFC 7862 section 12.

use super::attribute_value_types::{
    Aclsupport, ChangeAttrType4, FhExpireType, Fs4Status, FsCharsetCap4, Mdsthreshold4, ModeMasked4, ModeUmask4,
    Nfsacl41, OpenArguments4, RetentionGet4, RetentionSet4, SecLabel4,
};
use super::bitmap::NamedBitmap;
use super::bitmap_keyed_values::BitmapKeyedValues;
use super::bitmap_keyed_values::items;
use super::layout::Layouthint4;
use super::locations::{FsLocations4, FsLocationsInfo4};
use super::status::Nfsstat4;
use super::types::{
    ChangePolicy4, Duration4, Fsid4, Layouttype4, Mode4, NfsFh4, NfsFtype4, Nfsace4, Nfstime4, Settime4, Specdata4,
};
use crate::xdr::{Text, XdrArray};

/// bitmap4: a set of attributes, unless other names are given. RFC 8881 section 3.3.7.
pub type Bitmap4<'a, N = Attributes> = NamedBitmap<'a, N>;
/// fattr4: attributes and their values. RFC 8881 section 3.3.7.
pub type Fattr4<'a> = BitmapKeyedValues<'a, Attribute<'a>, Attributes>;

items! { "nfs.fattr4", attrmask => "nfs.attr_mask", attr_vals => "nfs.attr_vals";
    /// An attribute and its value. RFC 8881 section 5.
    Attribute<'a>, Attributes:
    0 SUPPORTED_ATTRS supported_attrs(Bitmap4<'a>) => "nfs.attr_mask", "RFC 8881 section 5.8.1.1";
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
    11 RDATTR_ERROR rdattr_error(Nfsstat4) => "nfs.nfsstat4", "RFC 8881 section 5.8.1.12";
    12 ACL acl(XdrArray<'a, Nfsace4<'a>>), "RFC 8881 section 6.2.1";
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
    51 TIME_DELTA time_delta(Duration4), "RFC 8881 section 5.8.2.41";
    52 TIME_METADATA time_metadata(Nfstime4), "RFC 8881 section 5.8.2.42";
    53 TIME_MODIFY time_modify(Nfstime4), "RFC 8881 section 5.8.2.43";
    54 TIME_MODIFY_SET time_modify_set(Settime4), "RFC 8881 section 5.8.2.44";
    55 MOUNTED_ON_FILEID mounted_on_fileid(u64), "RFC 8881 section 5.8.2.23";
    56 DIR_NOTIF_DELAY dir_notif_delay(Duration4), "RFC 8881 section 5.11.1";
    57 DIRENT_NOTIF_DELAY dirent_notif_delay(Duration4), "RFC 8881 section 5.11.2";
    58 DACL dacl(Nfsacl41<'a>), "RFC 8881 section 6.2.2";
    59 SACL sacl(Nfsacl41<'a>), "RFC 8881 section 6.2.3";
    60 CHANGE_POLICY change_policy(ChangePolicy4), "RFC 8881 section 5.8.2.5";
    61 FS_STATUS fs_status(Fs4Status<'a>), "RFC 8881 section 5.8.2.14";
    62 FS_LAYOUT_TYPES fs_layout_types(XdrArray<'a, Layouttype4>) => "nfs.layouttype", "RFC 8881 section 5.12.1";
    63 LAYOUT_HINT layout_hint(Layouthint4<'a>), "RFC 8881 section 5.12.4";
    64 LAYOUT_TYPES layout_types(XdrArray<'a, Layouttype4>) => "nfs.layouttype", "RFC 8881 section 5.12.5";
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
    75 SUPPATTR_EXCLCREAT suppattr_exclcreat(Bitmap4<'a>) => "nfs.attr_mask", "RFC 8881 section 5.8.1.14";
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
mod tests;
