//! Types of individual attributes.

use super::bitmap::NamedBitmap;
use super::bitmap::bits;
use super::bitmap_keyed_values::BitmapKeyedValues;
use super::bitmap_keyed_values::items;
use super::types::{Layouttype4, Length4, Mode4, Nfsace4, Nfstime4};
use crate::xdr::{Text, XdrArray};

crate::xdr! { "nfs";
    /// fattr4_fh_expire_type. RFC 8881 section 4.2.3.
    flags FhExpireType {
        FH4_NOEXPIRE_WITH_OPEN = 0x1, FH4_VOLATILE_ANY = 0x2, FH4_VOL_MIGRATION = 0x4, FH4_VOL_RENAME = 0x8,
    }

    /// fattr4_aclsupport. RFC 8881 section 6.2.1.2.
    flags Aclsupport {
        ACL4_SUPPORT_ALLOW_ACL = 0x1, ACL4_SUPPORT_DENY_ACL = 0x2, ACL4_SUPPORT_AUDIT_ACL = 0x4,
        ACL4_SUPPORT_ALARM_ACL = 0x8,
    }

    /// aclflag4. RFC 8881 section 6.4.3.2.
    flags Aclflag4 { ACL4_AUTO_INHERIT = 0x1, ACL4_PROTECTED = 0x2, ACL4_DEFAULTED = 0x4 }

    /// nfsacl41. RFC 8881 sections 6.2.2 and 6.2.3.
    struct Nfsacl41<'a> { na41_flag: Aclflag4 => "nfs.acl.flags", na41_aces: XdrArray<'a, Nfsace4<'a>> }

    /// mode_masked4. RFC 8881 section 6.2.5.
    struct ModeMasked4 { mm_value_to_set: Mode4, mm_mask_bits: Mode4 }

    /// mode_umask4. RFC 8275.
    struct ModeUmask4 { mu_mode: Mode4 => "nfs.mode", mu_umask: Mode4 => "nfs.fattr4.umask" }

    /// fs4_status_type. RFC 8881 section 11.18.
    enum Fs4StatusType {
        STATUS4_FIXED = 1, STATUS4_UPDATED = 2, STATUS4_VERSIONED = 3, STATUS4_WRITABLE = 4, STATUS4_REFERRAL = 5,
    }

    /// fs4_status. RFC 8881 section 11.18.
    struct Fs4Status<'a> {
        fss_absent: bool,
        fss_type: Fs4StatusType,
        fss_source: Text<'a>,
        fss_current: Text<'a>,
        fss_age: i32,
        fss_version: Nfstime4,
    }

    /// threshold_item4; its last two members, thi_hintset and thi_hintlist, form one field. RFC 8881 section 3.3.22.
    struct ThresholdItem4<'a> { thi_layout_type: Layouttype4 => "nfs.layouttype", thi_hints: BitmapKeyedValues<'a, Threshold, Thresholds> }

    /// mdsthreshold4. RFC 8881 section 3.3.23.
    struct Mdsthreshold4<'a> { mth_hints: XdrArray<'a, ThresholdItem4<'a>> => "nfs.fattr4.threshold_item" }

    /// retention_get4. RFC 8881 section 5.13.1.
    struct RetentionGet4<'a> { rg_duration: u64, rg_begin_time: XdrArray<'a, Nfstime4, 1> }

    /// retention_set4. RFC 8881 section 5.13.2.
    struct RetentionSet4<'a> { rs_enable: bool, rs_duration: XdrArray<'a, u64, 1> }

    /// fs_charset_cap4. RFC 8881 section 14.4.
    flags FsCharsetCap4 { FSCHARSET_CAP4_CONTAINS_NON_UTF8 = 0x1, FSCHARSET_CAP4_ALLOWS_ONLY_UTF8 = 0x2 }

    /// change_attr_type4. RFC 7862 section 12.2.3.
    enum ChangeAttrType4 {
        NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR = 0, NFS4_CHANGE_TYPE_IS_VERSION_COUNTER = 1,
        NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS = 2, NFS4_CHANGE_TYPE_IS_TIME_METADATA = 3,
        NFS4_CHANGE_TYPE_IS_UNDEFINED = 4,
    }

    /// labelformat_spec4. RFC 7862 section 12.2.4.
    struct LabelformatSpec4 {
        lfs_lfs: u32 => "nfs.fattr4.security_label.lfs",
        lfs_pi: u32 => "nfs.fattr4.security_label.pi",
    }

    /// sec_label4; the data is opaque to NFS, but text in every label format in use. RFC 7862 section 12.2.4.
    struct SecLabel4<'a> { slai_lfs: LabelformatSpec4, slai_data: Text<'a> => "nfs.fattr4.security_label.context" }

    /// open_arguments4: supported arguments of OPEN. RFC 9754.
    struct OpenArguments4<'a> {
        oa_share_access: NamedBitmap<'a, OpenArgsShareAccess4>,
        oa_share_deny: NamedBitmap<'a, OpenArgsShareDeny4>,
        oa_share_access_want: NamedBitmap<'a, OpenArgsShareAccessWant4>,
        oa_open_claim: NamedBitmap<'a, OpenArgsOpenClaim4>,
        oa_create_mode: NamedBitmap<'a, OpenArgsCreatemode4>,
    }
}

items! { "nfs.fattr4.threshold_item",
    thi_hintset => "nfs.fattr4.threshold_item.hint_mask", thi_hintlist => "nfs.fattr4.threshold_item.hint";
    /// Size or offset threshold above which I/O should bypass the metadata server. RFC 8881 section 3.3.22.
    Threshold, Thresholds:
    0 READ_SIZE read_size(Length4), "threshold4_read_size";
    1 WRITE_SIZE write_size(Length4), "threshold4_write_size";
    2 READ_IOSIZE read_iosize(Length4), "threshold4_read_iosize";
    3 WRITE_IOSIZE write_iosize(Length4), "threshold4_write_iosize";
}

bits! {
    /// open_args_share_access4. RFC 9754.
    OpenArgsShareAccess4 {
        OPEN_ARGS_SHARE_ACCESS_READ = 1, OPEN_ARGS_SHARE_ACCESS_WRITE = 2, OPEN_ARGS_SHARE_ACCESS_BOTH = 3,
    }

    /// open_args_share_deny4. RFC 9754.
    OpenArgsShareDeny4 {
        OPEN_ARGS_SHARE_DENY_NONE = 0, OPEN_ARGS_SHARE_DENY_READ = 1, OPEN_ARGS_SHARE_DENY_WRITE = 2,
        OPEN_ARGS_SHARE_DENY_BOTH = 3,
    }

    /// open_args_share_access_want4. RFC 9754.
    OpenArgsShareAccessWant4 {
        OPEN_ARGS_SHARE_ACCESS_WANT_ANY_DELEG = 3,
        OPEN_ARGS_SHARE_ACCESS_WANT_NO_DELEG = 4,
        OPEN_ARGS_SHARE_ACCESS_WANT_CANCEL = 5,
        OPEN_ARGS_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL = 17,
        OPEN_ARGS_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED = 18,
        OPEN_ARGS_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS = 20,
        OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION = 21,
    }

    /// open_args_open_claim4. RFC 9754.
    OpenArgsOpenClaim4 {
        OPEN_ARGS_OPEN_CLAIM_NULL = 0, OPEN_ARGS_OPEN_CLAIM_PREVIOUS = 1, OPEN_ARGS_OPEN_CLAIM_DELEGATE_CUR = 2,
        OPEN_ARGS_OPEN_CLAIM_DELEGATE_PREV = 3, OPEN_ARGS_OPEN_CLAIM_FH = 4,
        OPEN_ARGS_OPEN_CLAIM_DELEG_CUR_FH = 5, OPEN_ARGS_OPEN_CLAIM_DELEG_PREV_FH = 6,
    }

    /// open_args_createmode4. RFC 9754.
    OpenArgsCreatemode4 {
        OPEN_ARGS_CREATEMODE_UNCHECKED4 = 0, OPEN_ARGS_CREATE_MODE_GUARDED = 1,
        OPEN_ARGS_CREATEMODE_EXCLUSIVE4 = 2, OPEN_ARGS_CREATE_MODE_EXCLUSIVE4_1 = 3,
    }
}
