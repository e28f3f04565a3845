//! Labels of fields that programs look for, from the structures that define them. A label is the name of a field in its
//! specification, without its structure. Several structures may have it; it does not compile if the named one loses it.

use super::mount::Mountres3Ok;
use super::nlm::v4::{Nlm4Holder, Nlm4Testargs};
use super::v3::{
    Create3Args, Create3Resok, Diropargs3, Fattr3, Fsroot3Args, Link3Res, Lookup3Args, Lookup3Resok,
    Readlink3Args, Rename3Args, RenameWcc, Setattr3Args, Write3Resok,
};
use super::v4::{
    Access4Args, Access4Resok, Allocate4Args, AppDataBlock4, Attribute, BindConnToSession4Resok,
    CbGetattr4Args, CbNotify4Args, CbNotifyLock4Args, CbOffload4Args, CbPushDeleg4Args, CbSequence4Args,
    CbSequence4Resok, ChangeInfo4, ClientOwner4, Clone4Args, Commit4Args, Commit4Resok, Copy4Args,
    Create4Args, CreateSession4Args, CreateSession4Resok, Createhow4, Creatverfattr, Data4, Deallocate4Args,
    Dirlist4, Entry4, ExchangeId4Resok, Fsid4, Getattr4Resok, Getdeviceinfo4Args, Getxattr4Args,
    Getxattr4Resok, Layoutcommit4Args, Layoutget4Args, LayoutrecallFile4, Layoutstats4Args, Link4Args,
    Listxattrs4Args, Listxattrs4Resok, ModeMasked4, NfsClientId4, Nfstime4, ObjectFh4, Open4Args, Open4Resok,
    OpenClaimDelegateCur4, OpenToLockOwner4, Openflag4, Read4Resok, ReadPlus4Args, ReadPlusRes4,
    Readdir4Args, Readdir4Resok, Readlink4Resok, Remove4Args, Removexattr4Args, Rename4Args, Rename4Resok,
    Seek4Args, SeekRes4, Sequence4Args, Sequence4Resok, Setattr4Res, SetclientidConfirm, Settime4,
    Setxattr4Args, Stateid4, Write4Resok, WriteResponse4,
};

macro_rules! field_labels {
    ($($name:ident = $structure:ident $field:ident;)*) => {
        $(
            #[doc = concat!("Label of `", stringify!($field), "` of [`", stringify!($structure), "`], and of all fields of this name.")]
            pub const $name: &str = field_labels!(@label $structure $field);
        )*

        #[cfg(test)]
        const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
    (@label $structure:ident $field:ident) => { $structure::FIELDS.$field.label };
}

field_labels! {
    AA_LENGTH = Allocate4Args aa_length;
    AA_OFFSET = Allocate4Args aa_offset;
    ACCESS = Access4Args access;
    ACLSUPPORT = Attribute ACLSUPPORT;
    ADB_PATTERN = AppDataBlock4 adb_pattern;
    AFTER = ChangeInfo4 after;
    ALOCK = Nlm4Testargs alock;
    ARCHIVE = Attribute ARCHIVE;
    ATTRS = Entry4 attrs;
    ATTRSET = Open4Resok attrset;
    ATTRSSET = Setattr4Res attrsset;
    BCTSR_SESSID = BindConnToSession4Resok bctsr_sessid;
    BEFORE = ChangeInfo4 before;
    CA_COUNT = Copy4Args ca_count;
    CA_SRC_OFFSET = Copy4Args ca_src_offset;
    CANSETTIME = Attribute CANSETTIME;
    CASE_INSENSITIVE = Attribute CASE_INSENSITIVE;
    CASE_PRESERVING = Attribute CASE_PRESERVING;
    CHANGE = Attribute CHANGE;
    CHANGE_ATTR_TYPE = Attribute CHANGE_ATTR_TYPE;
    CHANGE_POLICY = Attribute CHANGE_POLICY;
    CHOWN_RESTRICTED = Attribute CHOWN_RESTRICTED;
    CINFO = Open4Resok cinfo;
    CL_COUNT = Clone4Args cl_count;
    CL_SRC_OFFSET = Clone4Args cl_src_offset;
    CLAIM = Open4Args claim;
    CLONE_BLKSIZE = Attribute CLONE_BLKSIZE;
    CNA_FH = CbNotify4Args cna_fh;
    CNLA_FH = CbNotifyLock4Args cnla_fh;
    CO_VERIFIER = ClientOwner4 co_verifier;
    COA_FH = CbOffload4Args coa_fh;
    COMMITTED = Write4Resok committed;
    COUNT = Commit4Args count;
    CPDA_FH = CbPushDeleg4Args cpda_fh;
    CREATEATTRS = Createhow4 Unchecked;
    CREATEVERF = Createhow4 Exclusive;
    CSA_HIGHEST_SLOTID = CbSequence4Args csa_highest_slotid;
    CSA_SEQUENCE = CreateSession4Args csa_sequence;
    CSA_SEQUENCEID = CbSequence4Args csa_sequenceid;
    CSA_SESSIONID = CbSequence4Args csa_sessionid;
    CSA_SLOTID = CbSequence4Args csa_slotid;
    CSR_SEQUENCE = CreateSession4Resok csr_sequence;
    CSR_SEQUENCEID = CbSequence4Resok csr_sequenceid;
    CSR_SESSIONID = CreateSession4Resok csr_sessionid;
    CSR_SLOTID = CbSequence4Resok csr_slotid;
    CSR_TARGET_HIGHEST_SLOTID = CbSequence4Resok csr_target_highest_slotid;
    CTIME = Fattr3 ctime;
    CVA_ATTRS = Creatverfattr cva_attrs;
    CVA_VERF = Creatverfattr cva_verf;
    D_DATA = Data4 d_data;
    D_OFFSET = Data4 d_offset;
    DA_LENGTH = Deallocate4Args da_length;
    DA_OFFSET = Deallocate4Args da_offset;
    DATA = Read4Resok data;
    DIR = Diropargs3 dir;
    DIR_ATTRIBUTES = Lookup3Resok dir_attributes;
    DIR_WCC = Create3Resok dir_wcc;
    EIR_SEQUENCEID = ExchangeId4Resok eir_sequenceid;
    ENTRIES = Dirlist4 entries;
    EOF = Read4Resok eof;
    FH = CbGetattr4Args fh;
    FH_EXPIRE_TYPE = Attribute FH_EXPIRE_TYPE;
    FHANDLE = Mountres3Ok fhandle;
    FILE = OpenClaimDelegateCur4 file;
    FILEID = Attribute FILEID;
    FROM = Rename3Args from;
    FS_CHARSET_CAP = Attribute FS_CHARSET_CAP;
    FS_LAYOUT_TYPES = Attribute FS_LAYOUT_TYPES;
    FS_STATUS = Attribute FS_STATUS;
    FSID = Attribute FSID;
    FSROOT = Fsroot3Args fsroot;
    GDIA_MAXCOUNT = Getdeviceinfo4Args gdia_maxcount;
    GID = Fattr3 gid;
    GUARD = Setattr3Args guard;
    GXA_NAME = Getxattr4Args gxa_name;
    GXR_VALUE = Getxattr4Resok gxr_value;
    HOMOGENEOUS = Attribute HOMOGENEOUS;
    HOW = Openflag4 Create;
    L_OFFSET = Nlm4Holder l_offset;
    LAYOUT_ALIGNMENT = Attribute LAYOUT_ALIGNMENT;
    LAYOUT_BLKSIZE = Attribute LAYOUT_BLKSIZE;
    LINK = Readlink4Resok link;
    LINK_SUPPORT = Attribute LINK_SUPPORT;
    LINKDIR_WCC = Link3Res linkdir_wcc;
    LOCA_OFFSET = Layoutcommit4Args loca_offset;
    LOGA_LENGTH = Layoutget4Args loga_length;
    LOGA_MAXCOUNT = Layoutget4Args loga_maxcount;
    LOGA_OFFSET = Layoutget4Args loga_offset;
    LOR_FH = LayoutrecallFile4 lor_fh;
    LSA_LENGTH = Layoutstats4Args lsa_length;
    LSA_OFFSET = Layoutstats4Args lsa_offset;
    LXA_MAXCOUNT = Listxattrs4Args lxa_maxcount;
    LXR_EOF = Listxattrs4Resok lxr_eof;
    MAJOR = Fsid4 major;
    MAXCOUNT = Readdir4Args maxcount;
    MAXFILESIZE = Attribute MAXFILESIZE;
    MAXLINK = Attribute MAXLINK;
    MAXNAME = Attribute MAXNAME;
    MAXREAD = Attribute MAXREAD;
    MAXWRITE = Attribute MAXWRITE;
    MINOR = Fsid4 minor;
    MM_MASK_BITS = ModeMasked4 mm_mask_bits;
    MM_VALUE_TO_SET = ModeMasked4 mm_value_to_set;
    MODE = Attribute MODE;
    MOUNTED_ON_FILEID = Attribute MOUNTED_ON_FILEID;
    MTIME = Fattr3 mtime;
    NAME = Entry4 name;
    NAMED_ATTR = Attribute NAMED_ATTR;
    NEWNAME = Link4Args newname;
    NLINK = Fattr3 nlink;
    NO_TRUNC = Attribute NO_TRUNC;
    NSECONDS = Nfstime4 nseconds;
    NUMLINKS = Attribute NUMLINKS;
    OBJ = Create3Resok obj;
    OBJ_ATTRIBUTES = Getattr4Resok obj_attributes;
    OBJECT = ObjectFh4 object;
    OBJNAME = Create4Args objname;
    OBJTYPE = Create4Args objtype;
    OFFSET = Commit4Args offset;
    OLDNAME = Rename4Args oldname;
    OPEN_SEQID = OpenToLockOwner4 open_seqid;
    OPENHOW = Open4Args openhow;
    OTHER = Stateid4 other;
    OWNER = Attribute OWNER;
    OWNER_GROUP = Attribute OWNER_GROUP;
    RDATTR_ERROR = Attribute RDATTR_ERROR;
    REPLY = Readdir4Resok reply;
    RETENTION_GET = Attribute RETENTION_GET;
    RFLAGS = Open4Resok rflags;
    RPA_COUNT = ReadPlus4Args rpa_count;
    RPA_OFFSET = ReadPlus4Args rpa_offset;
    RPR_CONTENTS = ReadPlusRes4 rpr_contents;
    RXA_NAME = Removexattr4Args rxa_name;
    SA_HIGHEST_SLOTID = Sequence4Args sa_highest_slotid;
    SA_OFFSET = Seek4Args sa_offset;
    SA_SEQUENCEID = Sequence4Args sa_sequenceid;
    SA_SESSIONID = Sequence4Args sa_sessionid;
    SA_SLOTID = Sequence4Args sa_slotid;
    SEC_LABEL = Attribute SEC_LABEL;
    SECONDS = Nfstime4 seconds;
    SEQID = Open4Args seqid;
    SETCLIENTID_CONFIRM = SetclientidConfirm setclientid_confirm;
    SIZE = Attribute SIZE;
    SOURCE_CINFO = Rename4Resok source_cinfo;
    SR_EOF = SeekRes4 sr_eof;
    SR_SEQUENCEID = Sequence4Resok sr_sequenceid;
    SR_SLOTID = Sequence4Resok sr_slotid;
    SR_STATUS_FLAGS = Sequence4Resok sr_status_flags;
    SR_TARGET_HIGHEST_SLOTID = Sequence4Resok sr_target_highest_slotid;
    STATUS = Setattr4Res status;
    SUPPATTR_EXCLCREAT = Attribute SUPPATTR_EXCLCREAT;
    SUPPORTED = Access4Resok supported;
    SUPPORTED_ATTRS = Attribute SUPPORTED_ATTRS;
    SXA_KEY = Setxattr4Args sxa_key;
    SXA_VALUE = Setxattr4Args sxa_value;
    SYMLINK = Readlink3Args symlink;
    SYMLINK_SUPPORT = Attribute SYMLINK_SUPPORT;
    TARGET = Remove4Args target;
    TIME = Settime4 Client;
    TIME_DELTA = Attribute TIME_DELTA;
    TIME_METADATA = Attribute TIME_METADATA;
    TIME_MODIFY = Attribute TIME_MODIFY;
    TODIR_WCC = RenameWcc todir_wcc;
    TYPE = Attribute TYPE;
    UID = Fattr3 uid;
    UNIQUE_HANDLES = Attribute UNIQUE_HANDLES;
    VERF = Write3Resok verf;
    VERIFIER = NfsClientId4 verifier;
    WHAT = Lookup3Args what;
    WHERE = Create3Args r#where;
    WR_WRITEVERF = WriteResponse4 wr_writeverf;
    WRITEVERF = Commit4Resok writeverf;
    XATTR_SUPPORT = Attribute XATTR_SUPPORT;
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_constant_has_the_name_of_its_label() {
        for (name, label) in super::ALL {
            assert_eq!(name.to_lowercase(), *label);
        }
    }
}
