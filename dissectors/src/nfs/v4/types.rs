//! Data types common to all operations. RFC 7530 section 2, RFC 8881 section 3, RFC 7863.

pub use crate::rpc::auth::Flavor;
use crate::xdr::{Opaque, Text, XdrArray};

/// changeid4. RFC 8881 section 3.2.
pub type Changeid4 = u64;
/// clientid4. RFC 8881 section 3.2.
pub type Clientid4 = u64;
/// component4: one component of a path. RFC 8881 section 3.2.
pub type Component4<'a> = Text<'a>;
/// count4. RFC 8881 section 3.2.
pub type Count4 = u32;
/// deviceid4. RFC 8881 section 3.3.14.
pub type Deviceid4 = [u8; 16];
/// length4. RFC 8881 section 3.2.
pub type Length4 = u64;
/// nfs_cookie4. RFC 8881 section 3.2.
pub type NfsCookie4 = u64;
/// nfs_fh4: a filehandle. RFC 8881 section 3.2.
pub type NfsFh4<'a> = Opaque<'a, 128>;
/// offset4. RFC 8881 section 3.2.
pub type Offset4 = u64;
/// pathname4. RFC 8881 section 3.2.
pub type Pathname4<'a> = XdrArray<'a, Component4<'a>>;
/// seqid4. RFC 8881 section 3.2.
pub type Seqid4 = u32;
/// sequenceid4. RFC 8881 section 3.2.
pub type Sequenceid4 = u32;
/// sessionid4. RFC 8881 section 3.2.
pub type Sessionid4 = [u8; 16];
/// slotid4. RFC 8881 section 3.2.
pub type Slotid4 = u32;
/// verifier4. RFC 8881 section 3.2.
pub type Verifier4 = [u8; 8];

crate::xdr! { "nfs";
    /// bool, as the discriminant of a union. RFC 4506 section 4.4.
    enum Bool { FALSE = 0, TRUE = 1 }

    /// nfs_ftype4: the type of an object. RFC 8881 section 5.8.1.2.
    enum NfsFtype4 {
        NF4REG = 1, NF4DIR = 2, NF4BLK = 3, NF4CHR = 4, NF4LNK = 5, NF4SOCK = 6, NF4FIFO = 7,
        NF4ATTRDIR = 8, NF4NAMEDATTR = 9,
    }

    /// nfstime4. RFC 8881 section 3.3.1.
    time Nfstime4 { seconds: i64 => "nfs.nfstime4.seconds", nseconds: u32 => "nfs.nfstime4.nseconds" }

    /// nfstime4, as a duration. RFC 8881 section 3.3.1.
    duration Duration4 { seconds: i64 => "nfs.nfstime4.seconds", nseconds: u32 => "nfs.nfstime4.nseconds" }

    /// time_how4. RFC 8881 section 3.3.2.
    enum TimeHow4 { SET_TO_SERVER_TIME4 = 0, SET_TO_CLIENT_TIME4 = 1 }

    /// settime4. RFC 8881 section 3.3.3.
    union Settime4 switch (set_it: TimeHow4) { SET_TO_CLIENT_TIME4 => Client(Nfstime4) as time, default => Server }

    /// specdata4: device numbers. RFC 8881 section 3.3.4.
    struct Specdata4 { specdata1: u32, specdata2: u32 }

    /// fsid4. RFC 8881 section 3.3.5.
    struct Fsid4 { major: u64 => "nfs.fsid4.major", minor: u64 => "nfs.fsid4.minor" }

    /// change_policy4. RFC 8881 section 3.3.6.
    struct ChangePolicy4 { cp_major: u64, cp_minor: u64 }

    /// change_info4. RFC 8881 section 3.3.8.
    struct ChangeInfo4 {
        atomic: bool => "nfs.change_info.atomic",
        before: Changeid4 => "nfs.changeid4.before",
        after: Changeid4 => "nfs.changeid4.after",
    }

    /// open_owner4, a state_owner4. RFC 8881 section 3.3.10.1.
    struct OpenOwner4<'a> { clientid: Clientid4, owner: Opaque<'a, 1024> => "nfs.open_owner4" }

    /// lock_owner4, a state_owner4. RFC 8881 section 3.3.10.2.
    struct LockOwner4<'a> { clientid: Clientid4, owner: Opaque<'a, 1024> => "nfs.lock_owner4" }

    /// stateid4. RFC 8881 section 3.3.12.
    struct Stateid4 { seqid: u32 => "nfs.stateid.seqid", other: [u8; 12] => "nfs.stateid.other" }

    /// stable_how4. RFC 8881 section 18.32.1.
    enum StableHow4 { UNSTABLE4 = 0, DATA_SYNC4 = 1, FILE_SYNC4 = 2 }

    /// mode4. RFC 8881 section 6.2.4.
    flags Mode4 {
        MODE4_SUID = 0x800, MODE4_SGID = 0x400, MODE4_SVTX = 0x200,
        MODE4_RUSR = 0x100, MODE4_WUSR = 0x080, MODE4_XUSR = 0x040,
        MODE4_RGRP = 0x020, MODE4_WGRP = 0x010, MODE4_XGRP = 0x008,
        MODE4_ROTH = 0x004, MODE4_WOTH = 0x002, MODE4_XOTH = 0x001,
    }

    /// layouttype4. RFC 8881 section 3.3.13, RFC 8435, RFC 8154.
    open_enum Layouttype4 {
        LAYOUT4_NFSV4_1_FILES = 1, LAYOUT4_OSD2_OBJECTS = 2, LAYOUT4_BLOCK_VOLUME = 3,
        LAYOUT4_FLEX_FILES = 4, LAYOUT4_SCSI = 5,
    }

    /// acetype4. RFC 8881 section 6.2.1.1.
    open_enum Acetype4 {
        ACE4_ACCESS_ALLOWED_ACE_TYPE = 0, ACE4_ACCESS_DENIED_ACE_TYPE = 1,
        ACE4_SYSTEM_AUDIT_ACE_TYPE = 2, ACE4_SYSTEM_ALARM_ACE_TYPE = 3,
    }

    /// aceflag4. RFC 8881 section 6.2.1.4.
    flags Aceflag4 {
        ACE4_FILE_INHERIT_ACE = 0x01, ACE4_DIRECTORY_INHERIT_ACE = 0x02, ACE4_NO_PROPAGATE_INHERIT_ACE = 0x04,
        ACE4_INHERIT_ONLY_ACE = 0x08, ACE4_SUCCESSFUL_ACCESS_ACE_FLAG = 0x10, ACE4_FAILED_ACCESS_ACE_FLAG = 0x20,
        ACE4_IDENTIFIER_GROUP = 0x40, ACE4_INHERITED_ACE = 0x80,
    }

    /// acemask4; some bits have different names for files and directories. RFC 8881 section 6.2.1.3.
    flags Acemask4 {
        ACE4_READ_DATA = 0x01, ACE4_LIST_DIRECTORY = 0x01, ACE4_WRITE_DATA = 0x02, ACE4_ADD_FILE = 0x02,
        ACE4_APPEND_DATA = 0x04, ACE4_ADD_SUBDIRECTORY = 0x04, ACE4_READ_NAMED_ATTRS = 0x08,
        ACE4_WRITE_NAMED_ATTRS = 0x10, ACE4_EXECUTE = 0x20, ACE4_DELETE_CHILD = 0x40,
        ACE4_READ_ATTRIBUTES = 0x80, ACE4_WRITE_ATTRIBUTES = 0x100, ACE4_WRITE_RETENTION = 0x200,
        ACE4_WRITE_RETENTION_HOLD = 0x400, ACE4_DELETE = 0x10000, ACE4_READ_ACL = 0x20000,
        ACE4_WRITE_ACL = 0x40000, ACE4_WRITE_OWNER = 0x80000, ACE4_SYNCHRONIZE = 0x100000,
    }

    /// nfsace4. RFC 8881 section 6.2.1.
    struct Nfsace4<'a> {
        r#type: Acetype4 => "nfs.acetype4",
        flag: Aceflag4 => "nfs.aceflags4",
        access_mask: Acemask4 => "nfs.acemask4",
        who: Text<'a> => "nfs.who",
    }

    /// rpc_gss_svc_t. RFC 8881 section 18.29.2.
    enum RpcGssSvcT { RPC_GSS_SVC_NONE = 1, RPC_GSS_SVC_INTEGRITY = 2, RPC_GSS_SVC_PRIVACY = 3 }
}
