//! NFS version 3. RFC 1813.

mod arguments;
mod results;
mod types;

pub use arguments::*;
pub use results::*;
pub use types::*;

use crate::nfs::{Outcome, ProcedureStatus};
use crate::xdr::{Cursor, Error, Void};

/// The version of program 100003 that this is. RFC 1813 section 2.1.
pub const VERSION: u32 = 3;

crate::operations! { "nfs";
    /// The procedures of NFSv3. RFC 1813 section 3.
    Procedure, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 1813 section 3.3.0";
    1 GETATTR(GetattrArgs<'a>) -> Outcome<Nfsstat3, GetattrOk>, "Get file attributes. RFC 1813 section 3.3.1";
    2 SETATTR(SetattrArgs<'a>) -> Outcome<Nfsstat3, ObjWcc, ObjWcc>, "Set file attributes. RFC 1813 section 3.3.2";
    3 LOOKUP(LookupArgs<'a>) -> Outcome<Nfsstat3, LookupOk<'a>, DirAttributes>,
        "Lookup filename. RFC 1813 section 3.3.3";
    4 ACCESS(AccessArgs<'a>) -> Outcome<Nfsstat3, AccessOk, ObjAttributes>,
        "Check access permission. RFC 1813 section 3.3.4";
    5 READLINK(ReadlinkArgs<'a>) -> Outcome<Nfsstat3, ReadlinkOk<'a>, SymlinkAttributes>,
        "Read from symbolic link. RFC 1813 section 3.3.5";
    6 READ(ReadArgs<'a>) -> Outcome<Nfsstat3, ReadOk<'a>, FileAttributes>, "Read from file. RFC 1813 section 3.3.6";
    7 WRITE(WriteArgs<'a>) -> Outcome<Nfsstat3, WriteOk, FileWcc>, "Write to file. RFC 1813 section 3.3.7";
    8 CREATE(CreateArgs<'a>) -> Outcome<Nfsstat3, Created<'a>, DirWcc>, "Create a file. RFC 1813 section 3.3.8";
    9 MKDIR(MkdirArgs<'a>) -> Outcome<Nfsstat3, Created<'a>, DirWcc>, "Create a directory. RFC 1813 section 3.3.9";
    10 SYMLINK(SymlinkArgs<'a>) -> Outcome<Nfsstat3, Created<'a>, DirWcc>,
        "Create a symbolic link. RFC 1813 section 3.3.10";
    11 MKNOD(MknodArgs<'a>) -> Outcome<Nfsstat3, Created<'a>, DirWcc>,
        "Create a special device. RFC 1813 section 3.3.11";
    12 REMOVE(RemoveArgs<'a>) -> Outcome<Nfsstat3, DirWcc, DirWcc>, "Remove a file. RFC 1813 section 3.3.12";
    13 RMDIR(RemoveArgs<'a>) -> Outcome<Nfsstat3, DirWcc, DirWcc>, "Remove a directory. RFC 1813 section 3.3.13";
    14 RENAME(RenameArgs<'a>) -> Outcome<Nfsstat3, RenameWcc, RenameWcc>,
        "Rename a file or directory. RFC 1813 section 3.3.14";
    15 LINK(LinkArgs<'a>) -> Outcome<Nfsstat3, Linked, Linked>, "Create link to an object. RFC 1813 section 3.3.15";
    16 READDIR(ReaddirArgs<'a>) -> Outcome<Nfsstat3, ReaddirOk<'a>, DirAttributes>,
        "Read from directory. RFC 1813 section 3.3.16";
    17 READDIRPLUS(ReaddirplusArgs<'a>) -> Outcome<Nfsstat3, ReaddirplusOk<'a>, DirAttributes>,
        "Extended read from directory. RFC 1813 section 3.3.17";
    18 FSSTAT(FsrootArgs<'a>) -> Outcome<Nfsstat3, FsstatOk, ObjAttributes>,
        "Get dynamic file system information. RFC 1813 section 3.3.18";
    19 FSINFO(FsrootArgs<'a>) -> Outcome<Nfsstat3, FsinfoOk, ObjAttributes>,
        "Get static file system information. RFC 1813 section 3.3.19";
    20 PATHCONF(PathconfArgs<'a>) -> Outcome<Nfsstat3, PathconfOk, ObjAttributes>,
        "Retrieve POSIX information. RFC 1813 section 3.3.20";
    21 COMMIT(CommitArgs<'a>) -> Outcome<Nfsstat3, CommitOk, FileWcc>,
        "Commit cached data on a server to stable storage. RFC 1813 section 3.3.21";
}

impl Procedure {
    /// Reads from the results how it went; `None` for NULL. RFC 1813 section 2.6.
    ///
    /// # Errors
    /// Where the message ends before the status.
    pub fn status(self, mut results: Cursor<'_>) -> Result<Option<ProcedureStatus>, Error> {
        match self {
            Self::NULL => Ok(None),
            _ => ProcedureStatus::read::<Nfsstat3>(&mut results).map(Some),
        }
    }

    /// Whether a chunk of the arguments holds a path that people read. RFC 8267 section 4.
    pub const fn has_text_in_arguments(self) -> bool {
        matches!(self, Self::SYMLINK)
    }

    /// Whether a chunk of the results holds a path that people read. RFC 8267 section 4.
    pub const fn has_text_in_results(self) -> bool {
        matches!(self, Self::READLINK)
    }
}

impl Results<'_> {
    /// How the procedure went; `None` for NULL, which has no status. RFC 1813 section 2.6.
    pub fn status(&self) -> Option<Nfsstat3> {
        Some(match self {
            Self::NULL(_) => return None,
            Self::GETATTR(outcome) => outcome.status(),
            Self::SETATTR(outcome) => outcome.status(),
            Self::LOOKUP(outcome) => outcome.status(),
            Self::ACCESS(outcome) => outcome.status(),
            Self::READLINK(outcome) => outcome.status(),
            Self::READ(outcome) => outcome.status(),
            Self::WRITE(outcome) => outcome.status(),
            Self::CREATE(outcome) | Self::MKDIR(outcome) | Self::SYMLINK(outcome) | Self::MKNOD(outcome) => {
                outcome.status()
            }
            Self::REMOVE(outcome) | Self::RMDIR(outcome) => outcome.status(),
            Self::RENAME(outcome) => outcome.status(),
            Self::LINK(outcome) => outcome.status(),
            Self::READDIR(outcome) => outcome.status(),
            Self::READDIRPLUS(outcome) => outcome.status(),
            Self::FSSTAT(outcome) => outcome.status(),
            Self::FSINFO(outcome) => outcome.status(),
            Self::PATHCONF(outcome) => outcome.status(),
            Self::COMMIT(outcome) => outcome.status(),
        })
    }
}

#[cfg(test)]
mod tests;
