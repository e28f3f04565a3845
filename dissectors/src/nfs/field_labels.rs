//! Labels of fields that programs look for, from the structures that define them. A label is the name of a field in its
//! specification, without its structure. Several structures may have it; it does not compile if the named one loses it.

use super::mount::Mountres3Ok;
use super::nlm::v4::{Nlm4Holder, Nlm4Testargs};
use super::v3::{
    Create3Args, Create3Resok, Diropargs3, Entryplus3, Fattr3, FileWcc, Fsroot3Args, Link3Res, Lookup3Args,
    Lookup3Resok, Mkdir3Args, ObjWcc, Read3Args, Readlink3Args, Readlink3Resok, Rename3Args, RenameWcc, Setattr3Args,
    Symlinkdata3, Write3Resok,
};
use super::v4::{
    Access4Args, Access4Resok, Allocate4Args, AppDataBlock4, Args, Attribute, BindConnToSession4Resok,
    BitmapKeyedValue, CbGetattr4Args, CbNotify4Args, CbNotifyLock4Args, CbOffload4Args, CbPushDeleg4Args,
    CbSequence4Args, CbSequence4Resok, ChangeInfo4, ChannelAttrs4, ClientOwner4, Clone4Args, Commit4Args, Commit4Resok,
    Copy4Args, CopyRequirements4, Create4Args, CreateSession4Args, CreateSession4Resok, Createhow4, Createtype4,
    Creatverfattr, Data4, Deallocate4Args, Dirlist4, Entry4, ExchangeId4Resok, Fsid4, Getattr4Resok,
    Getdeviceinfo4Args, Getxattr4Args, Getxattr4Resok, Layoutcommit4Args, Layoutget4Args, LayoutrecallFile4,
    Layoutstats4Args, Link4Args, Listxattrs4Args, Listxattrs4Resok, LockStateid4Resok, ModeMasked4, ModeUmask4,
    NfsClientId4, Nfstime4, Notification, ObjectFh4, Open4Args, Open4Resok, OpenClaim4, OpenStateid4Resok,
    OpenToLockOwner4, OperationBody, Read4Args, Read4Resok, ReadPlus4Args, ReadPlusContent, ReadPlusRes4, Readdir4Args,
    Readdir4Resok, Readlink4Resok, Remove4Args, Removexattr4Args, Rename4Args, Rename4Resok, Seek4Args, SeekRes4,
    Sequence4Args, Sequence4Resok, Setattr4Res, SetclientidConfirm, Settime4, Setxattr4Args, Stateid4, Threshold,
    Write4Resok, WriteResponse4, compound,
};

macro_rules! field_labels {
    ($($constant:ident = $field:expr;)*) => {
        $(
            #[doc = concat!("Label of `", stringify!($field), "`, and of all fields of this name.")]
            pub const $constant: &str = $field.label;
        )*

        #[cfg(test)]
        const ALL: &[(&str, &str)] = &[$((stringify!($constant), $constant)),*];
    };
}

field_labels! {
    AA_LENGTH = Allocate4Args::FIELDS.aa_length;
    AA_OFFSET = Allocate4Args::FIELDS.aa_offset;
    ACCESS = Access4Args::FIELDS.access;
    ACL = Attribute::FIELDS.ACL;
    ACLSUPPORT = Attribute::FIELDS.ACLSUPPORT;
    ADB_PATTERN = AppDataBlock4::FIELDS.adb_pattern;
    AFTER = ChangeInfo4::FIELDS.after;
    ALOCK = Nlm4Testargs::FIELDS.alock;
    ARCHIVE = Attribute::FIELDS.ARCHIVE;
    ATOMIC = ChangeInfo4::FIELDS.atomic;
    ATTRIBUTES = Mkdir3Args::FIELDS.attributes;
    ATTRMASK = <Attribute as BitmapKeyedValue>::MASK;
    ATTRS = Entry4::FIELDS.attrs;
    ATTRSET = Open4Resok::FIELDS.attrset;
    ATTRSSET = Setattr4Res::FIELDS.attrsset;
    ATTR_VALS = <Attribute as BitmapKeyedValue>::VALUES;
    AUTH_FLAVORS = Mountres3Ok::FIELDS.auth_flavors;
    BCTSR_SESSID = BindConnToSession4Resok::FIELDS.bctsr_sessid;
    BEFORE = ChangeInfo4::FIELDS.before;
    CANSETTIME = Attribute::FIELDS.CANSETTIME;
    CASE_INSENSITIVE = Attribute::FIELDS.CASE_INSENSITIVE;
    CASE_PRESERVING = Attribute::FIELDS.CASE_PRESERVING;
    CA_COUNT = Copy4Args::FIELDS.ca_count;
    CA_DST_OFFSET = Copy4Args::FIELDS.ca_dst_offset;
    CA_HEADERPADSIZE = ChannelAttrs4::FIELDS.ca_headerpadsize;
    CA_MAXOPERATIONS = ChannelAttrs4::FIELDS.ca_maxoperations;
    CA_MAXREQUESTS = ChannelAttrs4::FIELDS.ca_maxrequests;
    CA_MAXREQUESTSIZE = ChannelAttrs4::FIELDS.ca_maxrequestsize;
    CA_MAXRESPONSESIZE = ChannelAttrs4::FIELDS.ca_maxresponsesize;
    CA_MAXRESPONSESIZE_CACHED = ChannelAttrs4::FIELDS.ca_maxresponsesize_cached;
    CA_RDMA_IRD = ChannelAttrs4::FIELDS.ca_rdma_ird;
    CA_SRC_OFFSET = Copy4Args::FIELDS.ca_src_offset;
    CHANGE = Attribute::FIELDS.CHANGE;
    CHANGE_ATTR_TYPE = Attribute::FIELDS.CHANGE_ATTR_TYPE;
    CHANGE_POLICY = Attribute::FIELDS.CHANGE_POLICY;
    CHOWN_RESTRICTED = Attribute::FIELDS.CHOWN_RESTRICTED;
    CINFO = Open4Resok::FIELDS.cinfo;
    CLAIM = Open4Args::FIELDS.claim;
    CLIENTID = SetclientidConfirm::FIELDS.clientid;
    CLONE_BLKSIZE = Attribute::FIELDS.CLONE_BLKSIZE;
    CL_COUNT = Clone4Args::FIELDS.cl_count;
    CL_DST_OFFSET = Clone4Args::FIELDS.cl_dst_offset;
    CL_SRC_OFFSET = Clone4Args::FIELDS.cl_src_offset;
    CNA_FH = CbNotify4Args::FIELDS.cna_fh;
    CNLA_FH = CbNotifyLock4Args::FIELDS.cnla_fh;
    COA_FH = CbOffload4Args::FIELDS.coa_fh;
    COMMITTED = Write4Resok::FIELDS.committed;
    COUNT = Commit4Args::FIELDS.count;
    CO_VERIFIER = ClientOwner4::FIELDS.co_verifier;
    CPDA_FH = CbPushDeleg4Args::FIELDS.cpda_fh;
    CREATEATTRS = Createhow4::FIELDS.Unchecked;
    CREATEVERF = Createhow4::FIELDS.Exclusive;
    CR_CONSECUTIVE = CopyRequirements4::FIELDS.cr_consecutive;
    CR_SYNCHRONOUS = CopyRequirements4::FIELDS.cr_synchronous;
    CSA_HIGHEST_SLOTID = CbSequence4Args::FIELDS.csa_highest_slotid;
    CSA_SEQUENCE = CreateSession4Args::FIELDS.csa_sequence;
    CSA_SEQUENCEID = CbSequence4Args::FIELDS.csa_sequenceid;
    CSA_SESSIONID = CbSequence4Args::FIELDS.csa_sessionid;
    CSA_SLOTID = CbSequence4Args::FIELDS.csa_slotid;
    CSR_SEQUENCE = CreateSession4Resok::FIELDS.csr_sequence;
    CSR_SEQUENCEID = CbSequence4Resok::FIELDS.csr_sequenceid;
    CSR_SESSIONID = CreateSession4Resok::FIELDS.csr_sessionid;
    CSR_SLOTID = CbSequence4Resok::FIELDS.csr_slotid;
    CSR_TARGET_HIGHEST_SLOTID = CbSequence4Resok::FIELDS.csr_target_highest_slotid;
    CTIME = Fattr3::FIELDS.ctime;
    CVA_ATTRS = Creatverfattr::FIELDS.cva_attrs;
    CVA_VERF = Creatverfattr::FIELDS.cva_verf;
    DACL = Attribute::FIELDS.DACL;
    DATA = Read4Resok::FIELDS.data;
    DA_LENGTH = Deallocate4Args::FIELDS.da_length;
    DA_OFFSET = Deallocate4Args::FIELDS.da_offset;
    DELEGATE_CUR_INFO = OpenClaim4::FIELDS.DelegateCur;
    DELEGATION = Open4Resok::FIELDS.delegation;
    DIR = Diropargs3::FIELDS.dir;
    DIR_ATTRIBUTES = Lookup3Resok::FIELDS.dir_attributes;
    DIR_WCC = Create3Resok::FIELDS.dir_wcc;
    D_DATA = Data4::FIELDS.d_data;
    D_OFFSET = Data4::FIELDS.d_offset;
    EIR_CLIENTID = ExchangeId4Resok::FIELDS.eir_clientid;
    EIR_SEQUENCEID = ExchangeId4Resok::FIELDS.eir_sequenceid;
    ENTRIES = Dirlist4::FIELDS.entries;
    EOF = Read4Resok::FIELDS.eof;
    FH = CbGetattr4Args::FIELDS.fh;
    FHANDLE = Mountres3Ok::FIELDS.fhandle;
    FH_EXPIRE_TYPE = Attribute::FIELDS.FH_EXPIRE_TYPE;
    FILE = Read3Args::FIELDS.file;
    FILEID = Attribute::FIELDS.FILEID;
    FILE_ATTRIBUTES = Link3Res::FIELDS.file_attributes;
    FILE_DELEGATE_PREV = OpenClaim4::FIELDS.DelegatePrev;
    FILE_WCC = FileWcc::FIELDS.file_wcc;
    FROM = Rename3Args::FIELDS.from;
    FROMDIR_WCC = RenameWcc::FIELDS.fromdir_wcc;
    FSID = Attribute::FIELDS.FSID;
    FSROOT = Fsroot3Args::FIELDS.fsroot;
    FS_CHARSET_CAP = Attribute::FIELDS.FS_CHARSET_CAP;
    FS_LAYOUT_TYPES = Attribute::FIELDS.FS_LAYOUT_TYPES;
    FS_STATUS = Attribute::FIELDS.FS_STATUS;
    GDIA_MAXCOUNT = Getdeviceinfo4Args::FIELDS.gdia_maxcount;
    GID = Fattr3::FIELDS.gid;
    GUARD = Setattr3Args::FIELDS.guard;
    GXA_NAME = Getxattr4Args::FIELDS.gxa_name;
    GXR_VALUE = Getxattr4Resok::FIELDS.gxr_value;
    HOMOGENEOUS = Attribute::FIELDS.HOMOGENEOUS;
    HOW = Create3Args::FIELDS.how;
    LAYOUT_ALIGNMENT = Attribute::FIELDS.LAYOUT_ALIGNMENT;
    LAYOUT_BLKSIZE = Attribute::FIELDS.LAYOUT_BLKSIZE;
    LINK = Readlink4Resok::FIELDS.link;
    LINKDATA = Createtype4::FIELDS.Link;
    LINKDIR_WCC = Link3Res::FIELDS.linkdir_wcc;
    LINK_SUPPORT = Attribute::FIELDS.LINK_SUPPORT;
    LOCA_OFFSET = Layoutcommit4Args::FIELDS.loca_offset;
    LOCK_STATEID = LockStateid4Resok::FIELDS.lock_stateid;
    LOGA_LENGTH = Layoutget4Args::FIELDS.loga_length;
    LOGA_MAXCOUNT = Layoutget4Args::FIELDS.loga_maxcount;
    LOGA_OFFSET = Layoutget4Args::FIELDS.loga_offset;
    LOR_FH = LayoutrecallFile4::FIELDS.lor_fh;
    LSA_LENGTH = Layoutstats4Args::FIELDS.lsa_length;
    LSA_OFFSET = Layoutstats4Args::FIELDS.lsa_offset;
    LXA_MAXCOUNT = Listxattrs4Args::FIELDS.lxa_maxcount;
    LXR_EOF = Listxattrs4Resok::FIELDS.lxr_eof;
    L_OFFSET = Nlm4Holder::FIELDS.l_offset;
    MAJOR = Fsid4::FIELDS.major;
    MAXCOUNT = Readdir4Args::FIELDS.maxcount;
    MAXFILESIZE = Attribute::FIELDS.MAXFILESIZE;
    MAXLINK = Attribute::FIELDS.MAXLINK;
    MAXNAME = Attribute::FIELDS.MAXNAME;
    MAXREAD = Attribute::FIELDS.MAXREAD;
    MAXWRITE = Attribute::FIELDS.MAXWRITE;
    MINOR = Fsid4::FIELDS.minor;
    MM_MASK_BITS = ModeMasked4::FIELDS.mm_mask_bits;
    MM_VALUE_TO_SET = ModeMasked4::FIELDS.mm_value_to_set;
    MODE = Attribute::FIELDS.MODE;
    MODE_UMASK = Attribute::FIELDS.MODE_UMASK;
    MOUNTED_ON_FILEID = Attribute::FIELDS.MOUNTED_ON_FILEID;
    MTIME = Fattr3::FIELDS.mtime;
    MU_MODE = ModeUmask4::FIELDS.mu_mode;
    MU_UMASK = ModeUmask4::FIELDS.mu_umask;
    NAME = Entry4::FIELDS.name;
    NAMED_ATTR = Attribute::FIELDS.NAMED_ATTR;
    NAME_ATTRIBUTES = Entryplus3::FIELDS.name_attributes;
    NAME_HANDLE = Entryplus3::FIELDS.name_handle;
    NEWNAME = Link4Args::FIELDS.newname;
    NLINK = Fattr3::FIELDS.nlink;
    NOTIFY_VALS = <Notification as BitmapKeyedValue>::VALUES;
    NO_TRUNC = Attribute::FIELDS.NO_TRUNC;
    NSECONDS = Nfstime4::FIELDS.nseconds;
    NUMLINKS = Attribute::FIELDS.NUMLINKS;
    OBJ = Create3Resok::FIELDS.obj;
    OBJECT = ObjectFh4::FIELDS.object;
    OBJNAME = Create4Args::FIELDS.objname;
    OBJTYPE = Create4Args::FIELDS.objtype;
    OBJ_ATTRIBUTES = Getattr4Resok::FIELDS.obj_attributes;
    OBJ_WCC = ObjWcc::FIELDS.obj_wcc;
    OFFSET = Commit4Args::FIELDS.offset;
    OLDNAME = Rename4Args::FIELDS.oldname;
    OP = <Args<'_> as OperationBody>::OPCODE;
    OPENHOW = Open4Args::FIELDS.openhow;
    OPEN_ARGUMENTS = Attribute::FIELDS.OPEN_ARGUMENTS;
    OPEN_SEQID = OpenToLockOwner4::FIELDS.open_seqid;
    OPEN_STATEID = OpenStateid4Resok::FIELDS.open_stateid;
    OTHER = Stateid4::FIELDS.other;
    OWNER = Attribute::FIELDS.OWNER;
    OWNER_GROUP = Attribute::FIELDS.OWNER_GROUP;
    RDATTR_ERROR = Attribute::FIELDS.RDATTR_ERROR;
    REPLY = Readdir4Resok::FIELDS.reply;
    RETENTION_GET = Attribute::FIELDS.RETENTION_GET;
    RFLAGS = Open4Resok::FIELDS.rflags;
    RPA_COUNT = ReadPlus4Args::FIELDS.rpa_count;
    RPA_OFFSET = ReadPlus4Args::FIELDS.rpa_offset;
    RPA_STATEID = ReadPlus4Args::FIELDS.rpa_stateid;
    RPC_CONTENT = ReadPlusContent::TAG;
    RPC_DATA = ReadPlusContent::FIELDS.Data;
    RPC_HOLE = ReadPlusContent::FIELDS.Hole;
    RPR_CONTENTS = ReadPlusRes4::FIELDS.rpr_contents;
    RPR_EOF = ReadPlusRes4::FIELDS.rpr_eof;
    RXA_NAME = Removexattr4Args::FIELDS.rxa_name;
    SACL = Attribute::FIELDS.SACL;
    SA_HIGHEST_SLOTID = Sequence4Args::FIELDS.sa_highest_slotid;
    SA_OFFSET = Seek4Args::FIELDS.sa_offset;
    SA_SEQUENCEID = Sequence4Args::FIELDS.sa_sequenceid;
    SA_SESSIONID = Sequence4Args::FIELDS.sa_sessionid;
    SA_SLOTID = Sequence4Args::FIELDS.sa_slotid;
    SECONDS = Nfstime4::FIELDS.seconds;
    SEC_LABEL = Attribute::FIELDS.SEC_LABEL;
    SEQID = Open4Args::FIELDS.seqid;
    SETCLIENTID_CONFIRM = SetclientidConfirm::FIELDS.setclientid_confirm;
    SHARE_ACCESS = Open4Args::FIELDS.share_access;
    SIZE = Attribute::FIELDS.SIZE;
    SOURCE_CINFO = Rename4Resok::FIELDS.source_cinfo;
    SR_EOF = SeekRes4::FIELDS.sr_eof;
    SR_SEQUENCEID = Sequence4Resok::FIELDS.sr_sequenceid;
    SR_SESSIONID = Sequence4Resok::FIELDS.sr_sessionid;
    SR_SLOTID = Sequence4Resok::FIELDS.sr_slotid;
    SR_STATUS_FLAGS = Sequence4Resok::FIELDS.sr_status_flags;
    SR_TARGET_HIGHEST_SLOTID = Sequence4Resok::FIELDS.sr_target_highest_slotid;
    STATEID = Read4Args::FIELDS.stateid;
    STATUS = Setattr4Res::FIELDS.status;
    SUPPATTR_EXCLCREAT = Attribute::FIELDS.SUPPATTR_EXCLCREAT;
    SUPPORTED = Access4Resok::FIELDS.supported;
    SUPPORTED_ATTRS = Attribute::FIELDS.SUPPORTED_ATTRS;
    SXA_KEY = Setxattr4Args::FIELDS.sxa_key;
    SXA_VALUE = Setxattr4Args::FIELDS.sxa_value;
    SYMLINK = Readlink3Args::FIELDS.symlink;
    SYMLINK_ATTRIBUTES = Readlink3Resok::FIELDS.symlink_attributes;
    SYMLINK_DATA = Symlinkdata3::FIELDS.symlink_data;
    SYMLINK_SUPPORT = Attribute::FIELDS.SYMLINK_SUPPORT;
    TARGET = Remove4Args::FIELDS.target;
    TARGET_CINFO = Rename4Resok::FIELDS.target_cinfo;
    THI_HINTLIST = <Threshold as BitmapKeyedValue>::VALUES;
    TIME = Settime4::FIELDS.Client;
    TIME_DELTA = Attribute::FIELDS.TIME_DELTA;
    TIME_METADATA = Attribute::FIELDS.TIME_METADATA;
    TIME_MODIFY = Attribute::FIELDS.TIME_MODIFY;
    TO = Rename3Args::FIELDS.to;
    TODIR_WCC = RenameWcc::FIELDS.todir_wcc;
    TYPE = Attribute::FIELDS.TYPE;
    UID = Fattr3::FIELDS.uid;
    UNDECODED = compound::REST;
    UNIQUE_HANDLES = Attribute::FIELDS.UNIQUE_HANDLES;
    UNKNOWN_OPERATION = compound::UNKNOWN;
    VERF = Write3Resok::FIELDS.verf;
    VERIFIER = NfsClientId4::FIELDS.verifier;
    WHAT = Lookup3Args::FIELDS.what;
    WHERE = Create3Args::FIELDS.r#where;
    WRITEVERF = Commit4Resok::FIELDS.writeverf;
    WR_CALLBACK_ID = WriteResponse4::FIELDS.wr_callback_id;
    WR_WRITEVERF = WriteResponse4::FIELDS.wr_writeverf;
    XATTR_SUPPORT = Attribute::FIELDS.XATTR_SUPPORT;
}

/// Labels of weak cache consistency data of directories. RFC 1813 section 2.6.
pub const DIRECTORY_WCC_DATA: &[&str] = &[DIR_WCC, FROMDIR_WCC, TODIR_WCC, LINKDIR_WCC];

/// Labels of all weak cache consistency data. RFC 1813 section 2.6.
pub const WCC_DATA: &[&str] = &[OBJ_WCC, FILE_WCC, DIR_WCC, FROMDIR_WCC, TODIR_WCC, LINKDIR_WCC];

/// Labels of `post_op_attr` other than `obj_attributes`, a label that NFSv4 has, too. RFC 1813 section 2.6.
pub const POST_OP_ATTRIBUTES: &[&str] = &[DIR_ATTRIBUTES, FILE_ATTRIBUTES, SYMLINK_ATTRIBUTES, NAME_ATTRIBUTES];

#[cfg(test)]
mod tests {
    #[test]
    fn a_constant_has_the_name_of_its_label() {
        for (name, label) in super::ALL {
            assert_eq!(name.to_lowercase(), label.replace(' ', "_"));
        }
    }
}
