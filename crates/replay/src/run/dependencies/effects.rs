//! Effects of operations, as far as dependencies between steps follow from them.

use nfsrdma_dissectors::nfs::v3;
use nfsrdma_dissectors::nfs::v4::{self, Openflag4};
use nfsrdma_nfs_model::names::claimed_name;

/// Effect of an operation, or of a procedure that is not a COMPOUND. Names are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum OperationEffect {
    /// Nothing visible to others, and nothing read besides its own file.
    Nothing,
    /// Reads attributes or the end of its file.
    ReadAttributes,
    ChangeAttributes,
    /// Makes the object with this name the current one.
    Lookup(u64),
    /// Reads about the object with this name, which does not become the current one.
    ReadName(u64),
    /// Creates an object with this name, or opens it so that it exists.
    Create(u64),
    /// Adds this name in a directory for its file, for NFSv4 the saved one.
    Link(u64),
    Remove(u64),
    /// Renames from the first name, in the saved directory for NFSv4, to the second.
    Rename(u64, u64),
    ReadDirectory,
    /// Opens a file, by name if there is one; `true` if it may create it.
    Open(Option<u64>, bool),
    /// Changes opens or locks of its file, with their stateids.
    ChangeFileState,
    /// Changes open or lock state of a file that it does not name.
    FreeState,
    /// Reads: offset and number of bytes.
    Read(u64, u64),
    /// Writes: offset and number of bytes, `None` for the length of its payload.
    Write(u64, Option<u64>),
    /// Copies from the saved file: source offset, destination offset, number of bytes (0 up to the end).
    Copy(u64, u64, u64),
    ExclusiveClient,
}

use crate::tree::inferred_object::name_hash;

impl OperationEffect {
    pub(in crate::run) fn changes_names(self) -> bool {
        matches!(self, Self::Create(_) | Self::Link(_) | Self::Remove(_) | Self::Rename(..) | Self::Open(Some(_), true))
    }

    /// Returns the hashes of the names that the operation uses.
    pub(in crate::run) fn names(self) -> impl Iterator<Item = u64> {
        let names = match self {
            Self::Lookup(name)
            | Self::ReadName(name)
            | Self::Create(name)
            | Self::Link(name)
            | Self::Remove(name)
            | Self::Open(Some(name), _) => [Some(name), None],
            Self::Rename(from, to) => [Some(from), Some(to)],
            _ => [None; 2],
        };
        names.into_iter().flatten()
    }

    pub(in crate::run) fn from_operation(operation: &v4::Args<'_>) -> Self {
        use v4::Args;
        match operation {
            Args::LOOKUP(args) => Self::Lookup(name_hash(args.objname.0)),
            Args::SECINFO(args) => Self::ReadName(name_hash(args.name.0)),
            Args::CREATE(args) => Self::Create(name_hash(args.objname.0)),
            Args::LINK(args) => Self::Link(name_hash(args.newname.0)),
            Args::REMOVE(args) => Self::Remove(name_hash(args.target.0)),
            Args::RENAME(args) => Self::Rename(name_hash(args.oldname.0), name_hash(args.newname.0)),
            Args::READDIR(_) => Self::ReadDirectory,
            Args::OPEN(args) => {
                let name = claimed_name(&args.claim).map(name_hash);
                Self::Open(name, matches!(args.openhow, Openflag4::Create(_)))
            }
            Args::READ(args) => Self::Read(args.offset, args.count.into()),
            Args::READ_PLUS(args) => Self::Read(args.rpa_offset, args.rpa_count.into()),
            Args::SEEK(args) => Self::Read(args.sa_offset, u64::MAX),
            Args::WRITE(args) => Self::Write(args.offset, None),
            Args::ALLOCATE(args) => Self::Write(args.aa_offset, Some(args.aa_length)),
            Args::DEALLOCATE(args) => Self::Write(args.da_offset, Some(args.da_length)),
            Args::WRITE_SAME(args) => {
                let block = &args.wsa_adb;
                Self::Write(block.adb_offset, Some(block.adb_block_size.saturating_mul(block.adb_block_count)))
            }
            Args::COPY(args) => Self::Copy(args.ca_src_offset, args.ca_dst_offset, args.ca_count),
            Args::CLONE(args) => Self::Copy(args.cl_src_offset, args.cl_dst_offset, args.cl_count),
            Args::GETATTR(_)
            | Args::VERIFY(_)
            | Args::NVERIFY(_)
            | Args::ACCESS(_)
            | Args::COMMIT(_)
            | Args::READLINK(_)
            | Args::GETXATTR(_)
            | Args::LISTXATTRS(_) => Self::ReadAttributes,
            Args::SETATTR(_) | Args::SETXATTR(_) | Args::REMOVEXATTR(_) | Args::LAYOUTCOMMIT(_) => {
                Self::ChangeAttributes
            }
            Args::CLOSE(_)
            | Args::LOCK(_)
            | Args::LOCKT(_)
            | Args::LOCKU(_)
            | Args::OPEN_CONFIRM(_)
            | Args::OPEN_DOWNGRADE(_)
            | Args::DELEGRETURN(_)
            | Args::WANT_DELEGATION(_)
            | Args::GET_DIR_DELEGATION(_)
            | Args::LAYOUTGET(_)
            | Args::LAYOUTRETURN(_) => Self::ChangeFileState,
            Args::FREE_STATEID(_) | Args::OFFLOAD_CANCEL(_) => Self::FreeState,
            Args::EXCHANGE_ID(_)
            | Args::CREATE_SESSION(_)
            | Args::DESTROY_SESSION(_)
            | Args::DESTROY_CLIENTID(_)
            | Args::BIND_CONN_TO_SESSION(_)
            | Args::BACKCHANNEL_CTL(_)
            | Args::RECLAIM_COMPLETE(_)
            | Args::SETCLIENTID(_)
            | Args::SETCLIENTID_CONFIRM(_)
            | Args::SET_SSV(_)
            | Args::DELEGPURGE(_)
            | Args::RELEASE_LOCKOWNER(_) => Self::ExclusiveClient,
            Args::PUTFH(_)
            | Args::PUTPUBFH(_)
            | Args::PUTROOTFH(_)
            | Args::SAVEFH(_)
            | Args::RESTOREFH(_)
            | Args::GETFH(_)
            | Args::LOOKUPP(_)
            | Args::OPENATTR(_)
            | Args::SECINFO_NO_NAME(_)
            | Args::SEQUENCE(_)
            | Args::RENEW(_)
            | Args::TEST_STATEID(_)
            | Args::GETDEVICEINFO(_)
            | Args::GETDEVICELIST(_)
            | Args::COPY_NOTIFY(_)
            | Args::IO_ADVISE(_)
            | Args::LAYOUTERROR(_)
            | Args::LAYOUTSTATS(_)
            | Args::OFFLOAD_STATUS(_)
            | Args::ILLEGAL(_) => Self::Nothing,
        }
    }

    pub(in crate::run) fn writes_data(self) -> bool {
        matches!(self, Self::Write(..) | Self::Copy(..))
    }

    /// Returns `true` if size or link count of a file may change; an OPEN that may create can truncate.
    pub(in crate::run) fn may_change_size_or_links(self) -> bool {
        self.changes_names() || self.writes_data() || matches!(self, Self::ChangeAttributes | Self::Open(None, true))
    }

    pub(in crate::run) fn from_v3_args(arguments: &v3::Args<'_>) -> Self {
        use v3::Args;
        match arguments {
            Args::SETATTR(_) => Self::ChangeAttributes,
            Args::LOOKUP(args) => Self::Lookup(name_hash(args.what.name.0)),
            Args::CREATE(args) => Self::Create(name_hash(args.r#where.name.0)),
            Args::MKDIR(args) => Self::Create(name_hash(args.r#where.name.0)),
            Args::SYMLINK(args) => Self::Create(name_hash(args.r#where.name.0)),
            Args::MKNOD(args) => Self::Create(name_hash(args.r#where.name.0)),
            Args::LINK(args) => Self::Link(name_hash(args.link.name.0)),
            Args::REMOVE(args) | Args::RMDIR(args) => Self::Remove(name_hash(args.object.name.0)),
            Args::RENAME(args) => Self::Rename(name_hash(args.from.name.0), name_hash(args.to.name.0)),
            Args::READDIR(_) | Args::READDIRPLUS(_) => Self::ReadDirectory,
            Args::READ(args) => Self::Read(args.offset, args.count.into()),
            Args::WRITE(args) => Self::Write(args.offset, Some(args.count.into())),
            Args::NULL(_)
            | Args::GETATTR(_)
            | Args::ACCESS(_)
            | Args::READLINK(_)
            | Args::FSSTAT(_)
            | Args::FSINFO(_)
            | Args::PATHCONF(_)
            | Args::COMMIT(_) => Self::ReadAttributes,
        }
    }
}
