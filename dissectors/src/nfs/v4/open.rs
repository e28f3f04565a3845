//! OPEN, CLOSE and delegations. RFC 7530 section 16, RFC 8881 section 18, RFC 9754.

use super::attributes::{Bitmap4, Fattr4};
use super::directory_notifications::Notifications;
use super::types::{ChangeInfo4, Clientid4, Component4, Duration4, Nfsace4, OpenOwner4, Seqid4, Stateid4, Verifier4};

crate::xdr! { "nfs";
    /// Access requested by OPEN, and delegation wants; the second byte is a number, not a mask. RFC 8881 section
    /// 18.16.1, RFC 9754.
    flags ShareAccess {
        OPEN4_SHARE_ACCESS_READ = 0x1, OPEN4_SHARE_ACCESS_WRITE = 0x2, OPEN4_SHARE_ACCESS_BOTH = 0x3,
        OPEN4_SHARE_ACCESS_WANT_READ_DELEG = 0x100, OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG = 0x200,
        OPEN4_SHARE_ACCESS_WANT_ANY_DELEG = 0x300, OPEN4_SHARE_ACCESS_WANT_NO_DELEG = 0x400,
        OPEN4_SHARE_ACCESS_WANT_CANCEL = 0x500,
        OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL = 0x1_0000,
        OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED = 0x2_0000,
        OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS = 0x10_0000,
        OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION = 0x20_0000,
    }

    /// Access denied to others by OPEN. RFC 8881 section 18.16.1.
    open_enum ShareDeny {
        OPEN4_SHARE_DENY_NONE = 0, OPEN4_SHARE_DENY_READ = 1, OPEN4_SHARE_DENY_WRITE = 2, OPEN4_SHARE_DENY_BOTH = 3,
    }

    /// createmode4. RFC 8881 section 18.16.1.
    enum Createmode4 { UNCHECKED4 = 0, GUARDED4 = 1, EXCLUSIVE4 = 2, EXCLUSIVE4_1 = 3 }

    /// creatverfattr. RFC 8881 section 18.16.1.
    struct Creatverfattr<'a> { cva_verf: Verifier4 => "nfs.verifier4", cva_attrs: Fattr4<'a> }

    /// createhow4. RFC 8881 section 18.16.1.
    union Createhow4<'a> switch (mode: Createmode4 => "nfs.createmode4") {
        UNCHECKED4 => Unchecked(Fattr4<'a>) as createattrs,
        GUARDED4 => Guarded(Fattr4<'a>) as createattrs,
        EXCLUSIVE4 => Exclusive(Verifier4) as createverf => "nfs.verifier4",
        EXCLUSIVE4_1 => Exclusive41(Creatverfattr<'a>) as ch_createboth,
    }

    /// opentype4. RFC 8881 section 18.16.1.
    enum Opentype4 { OPEN4_NOCREATE = 0, OPEN4_CREATE = 1 }

    /// openflag4. RFC 8881 section 18.16.1.
    union Openflag4<'a> switch (opentype: Opentype4 => "nfs.open.opentype") {
        OPEN4_CREATE => Create(Createhow4<'a>) as how,
        default => NoCreate,
    }

    /// open_claim_type4. RFC 8881 section 18.16.1.
    enum OpenClaimType4 {
        CLAIM_NULL = 0, CLAIM_PREVIOUS = 1, CLAIM_DELEGATE_CUR = 2, CLAIM_DELEGATE_PREV = 3, CLAIM_FH = 4,
        CLAIM_DELEG_CUR_FH = 5, CLAIM_DELEG_PREV_FH = 6,
    }

    /// open_claim_delegate_cur4. RFC 8881 section 18.16.1.
    struct OpenClaimDelegateCur4<'a> {
        delegate_stateid: Stateid4 => "nfs.stateid",
        file: Component4<'a> => "nfs.pathname.component",
    }

    /// open_claim4. RFC 8881 section 18.16.1.
    union OpenClaim4<'a> switch (claim: OpenClaimType4 => "nfs.open.claim_type") {
        CLAIM_NULL => Null(Component4<'a>) as file => "nfs.pathname.component",
        CLAIM_PREVIOUS => Previous(OpenDelegationType4) as delegate_type => "nfs.delegate_type",
        CLAIM_DELEGATE_CUR => DelegateCur(OpenClaimDelegateCur4<'a>) as delegate_cur_info,
        CLAIM_DELEGATE_PREV => DelegatePrev(Component4<'a>) as file_delegate_prev => "nfs.pathname.component",
        CLAIM_FH => Fh,
        CLAIM_DELEG_PREV_FH => DelegPrevFh,
        CLAIM_DELEG_CUR_FH => DelegCurFh(Stateid4) as oc_delegate_stateid => "nfs.stateid",
    }

    /// OPEN4args. RFC 8881 section 18.16.1.
    struct Open4Args<'a> {
        seqid: Seqid4,
        share_access: ShareAccess => "nfs.share_access",
        share_deny: ShareDeny => "nfs.open4.share_deny",
        owner: OpenOwner4<'a>,
        openhow: Openflag4<'a>,
        claim: OpenClaim4<'a>,
    }

    /// open_delegation_type4. RFC 8881 section 18.16.2, RFC 9754.
    enum OpenDelegationType4 {
        OPEN_DELEGATE_NONE = 0, OPEN_DELEGATE_READ = 1, OPEN_DELEGATE_WRITE = 2, OPEN_DELEGATE_NONE_EXT = 3,
        OPEN_DELEGATE_READ_ATTRS_DELEG = 4, OPEN_DELEGATE_WRITE_ATTRS_DELEG = 5,
    }

    /// limit_by4. RFC 8881 section 18.16.2.
    enum LimitBy4 { NFS_LIMIT_SIZE = 1, NFS_LIMIT_BLOCKS = 2 }

    /// nfs_modified_limit4. RFC 8881 section 18.16.2.
    struct NfsModifiedLimit4 { num_blocks: u32, bytes_per_block: u32 }

    /// nfs_space_limit4. RFC 8881 section 18.16.2.
    union NfsSpaceLimit4 switch (limitby: LimitBy4 => "nfs.open.limit_by") {
        NFS_LIMIT_SIZE => Size(u64) as filesize,
        NFS_LIMIT_BLOCKS => Blocks(NfsModifiedLimit4) as mod_blocks,
    }

    /// open_read_delegation4. RFC 8881 section 18.16.2.
    struct OpenReadDelegation4<'a> { stateid: Stateid4, recall: bool => "nfs.recall4", permissions: Nfsace4<'a> }

    /// open_write_delegation4. RFC 8881 section 18.16.2.
    struct OpenWriteDelegation4<'a> {
        stateid: Stateid4,
        recall: bool => "nfs.recall4",
        space_limit: NfsSpaceLimit4,
        permissions: Nfsace4<'a>,
    }

    /// why_no_delegation4. RFC 8881 section 18.16.2.
    enum WhyNoDelegation4 {
        WND4_NOT_WANTED = 0, WND4_CONTENTION = 1, WND4_RESOURCE = 2, WND4_NOT_SUPP_FTYPE = 3,
        WND4_WRITE_DELEG_NOT_SUPP_FTYPE = 4, WND4_NOT_SUPP_UPGRADE = 5, WND4_NOT_SUPP_DOWNGRADE = 6,
        WND4_CANCELLED = 7, WND4_IS_DIR = 8,
    }

    /// open_none_delegation4. RFC 8881 section 18.16.2.
    union OpenNoneDelegation4 switch (ond_why: WhyNoDelegation4 => "nfs.open.why_no_delegation") {
        WND4_CONTENTION => Contention(bool) as ond_server_will_push_deleg,
        WND4_RESOURCE => Resource(bool) as ond_server_will_signal_avail,
        default => Other,
    }

    /// open_delegation4. RFC 8881 section 18.16.2, RFC 9754.
    union OpenDelegation4<'a> switch (delegation_type: OpenDelegationType4 => "nfs.open.delegation_type") {
        OPEN_DELEGATE_NONE => None,
        OPEN_DELEGATE_READ => Read(OpenReadDelegation4<'a>) as read,
        OPEN_DELEGATE_WRITE => Write(OpenWriteDelegation4<'a>) as write,
        OPEN_DELEGATE_NONE_EXT => NoneExt(OpenNoneDelegation4) as od_whynone,
        OPEN_DELEGATE_READ_ATTRS_DELEG => ReadAttrs(OpenReadDelegation4<'a>) as read,
        OPEN_DELEGATE_WRITE_ATTRS_DELEG => WriteAttrs(OpenWriteDelegation4<'a>) as write,
    }

    /// The flags of OPEN's result. RFC 8881 section 18.16.2, RFC 9754.
    flags OpenRflags {
        OPEN4_RESULT_CONFIRM = 0x02, OPEN4_RESULT_LOCKTYPE_POSIX = 0x04, OPEN4_RESULT_PRESERVE_UNLINKED = 0x08,
        OPEN4_RESULT_NO_OPEN_STATEID = 0x10, OPEN4_RESULT_MAY_NOTIFY_LOCK = 0x20,
    }

    /// OPEN4resok. RFC 8881 section 18.16.2.
    struct Open4Resok<'a> {
        stateid: Stateid4,
        cinfo: ChangeInfo4,
        rflags: OpenRflags => "nfs.open_rflags",
        attrset: Bitmap4<'a> => "nfs.attr_mask",
        delegation: OpenDelegation4<'a>,
    }

    /// CLOSE4args. RFC 8881 section 18.2.1.
    struct Close4Args { seqid: Seqid4, open_stateid: Stateid4 => "nfs.stateid" }

    /// CLOSE4res, OPEN_CONFIRM4resok and OPEN_DOWNGRADE4resok. RFC 8881 sections 18.2.2 and 18.18.2, RFC 7530
    /// section 16.18.3.
    struct OpenStateid4Resok { open_stateid: Stateid4 => "nfs.stateid" }

    /// OPEN_CONFIRM4args. RFC 7530 section 16.18.2.
    struct OpenConfirm4Args { open_stateid: Stateid4 => "nfs.stateid", seqid: Seqid4 }

    /// OPEN_DOWNGRADE4args. RFC 8881 section 18.18.1.
    struct OpenDowngrade4Args {
        open_stateid: Stateid4 => "nfs.stateid",
        seqid: Seqid4,
        share_access: ShareAccess => "nfs.share_access",
        share_deny: ShareDeny => "nfs.open4.share_deny",
    }

    /// DELEGPURGE4args. RFC 8881 section 18.5.1.
    struct Delegpurge4Args { clientid: Clientid4 }

    /// DELEGRETURN4args. RFC 8881 section 18.6.1.
    struct Delegreturn4Args { deleg_stateid: Stateid4 => "nfs.stateid" }

    /// deleg_claim4. RFC 8881 section 18.49.1.
    union DelegClaim4 switch (dc_claim: OpenClaimType4 => "nfs.open.claim_type") {
        CLAIM_FH => Fh,
        CLAIM_DELEG_PREV_FH => DelegPrevFh,
        CLAIM_PREVIOUS => Previous(OpenDelegationType4) as dc_delegate_type => "nfs.delegate_type",
    }

    /// WANT_DELEGATION4args. RFC 8881 section 18.49.1.
    struct WantDelegation4Args { wda_want: ShareAccess => "nfs.share_access", wda_claim: DelegClaim4 }

    /// WANT_DELEGATION4res, on success. RFC 8881 section 18.49.2.
    struct WantDelegation4Resok<'a> { wdr_resok4: OpenDelegation4<'a> }

    /// GET_DIR_DELEGATION4args. RFC 8881 section 18.39.1.
    struct GetDirDelegation4Args<'a> {
        gdda_signal_deleg_avail: bool,
        gdda_notification_types: Bitmap4<'a, Notifications> => "nfs.notify_mask",
        gdda_child_attr_delay: Duration4,
        gdda_dir_attr_delay: Duration4,
        gdda_child_attributes: Bitmap4<'a> => "nfs.attr_mask",
        gdda_dir_attributes: Bitmap4<'a> => "nfs.attr_mask",
    }

    /// GET_DIR_DELEGATION4resok. RFC 8881 section 18.39.2.
    struct GetDirDelegation4Resok<'a> {
        gddr_cookieverf: Verifier4 => "nfs.cookie_verf4",
        gddr_stateid: Stateid4 => "nfs.stateid",
        gddr_notification: Bitmap4<'a, Notifications> => "nfs.notify_mask",
        gddr_child_attributes: Bitmap4<'a> => "nfs.attr_mask",
        gddr_dir_attributes: Bitmap4<'a> => "nfs.attr_mask",
    }

    /// gddrnf4_status. RFC 8881 section 18.39.2.
    enum Gddrnf4Status { GDD4_OK = 0, GDD4_UNAVAIL = 1 }

    /// GET_DIR_DELEGATION4res_non_fatal. RFC 8881 section 18.39.2.
    union GetDirDelegation4ResNonFatal<'a> switch (gddrnf_status: Gddrnf4Status) {
        GDD4_OK => Ok(GetDirDelegation4Resok<'a>) as gddrnf_resok4,
        GDD4_UNAVAIL => Unavail(bool) as gddrnf_will_signal_deleg_avail,
    }
}

impl OpenDelegation4<'_> {
    /// Returns the stateid of the delegation, if one was granted.
    pub fn stateid(&self) -> Option<&Stateid4> {
        match self {
            Self::Read(granted) | Self::ReadAttrs(granted) => Some(&granted.stateid),
            Self::Write(granted) | Self::WriteAttrs(granted) => Some(&granted.stateid),
            Self::None | Self::NoneExt(_) => None,
        }
    }

    /// Returns the access that the delegation covers. RFC 8881 section 10.4.
    pub fn access(&self) -> ShareAccess {
        match self {
            Self::Read(_) | Self::ReadAttrs(_) => ShareAccess::OPEN4_SHARE_ACCESS_READ,
            Self::Write(_) | Self::WriteAttrs(_) => ShareAccess::OPEN4_SHARE_ACCESS_BOTH,
            Self::None | Self::NoneExt(_) => ShareAccess(0),
        }
    }
}
