//! NFS version 3. RFC 1813.

mod arguments;
mod results;
mod types;

pub use arguments::*;
pub use results::*;
pub use types::*;

use crate::nfs::StatusUnion;
use crate::xdr::Void;

/// Version number of NFSv3 in program 100003. RFC 1813 section 2.1.
pub const VERSION: u32 = 3;

crate::operations! { "nfs";
    /// The procedures of NFSv3. RFC 1813 section 3.
    Procedure, KnownProcedure, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 1813 section 3.3.0";
    1 GETATTR(Getattr3Args<'a>) -> StatusUnion<Nfsstat3, Getattr3Resok>, "Get file attributes. RFC 1813 section 3.3.1";
    2 SETATTR(Setattr3Args<'a>) -> StatusUnion<Nfsstat3, ObjWcc, ObjWcc>, "Set file attributes. RFC 1813 section 3.3.2";
    3 LOOKUP(Lookup3Args<'a>) -> StatusUnion<Nfsstat3, Lookup3Resok<'a>, DirAttributes3Resfail>,
        "Lookup filename. RFC 1813 section 3.3.3";
    4 ACCESS(Access3Args<'a>) -> StatusUnion<Nfsstat3, Access3Resok, ObjAttributes3Resfail>,
        "Check access permission. RFC 1813 section 3.3.4";
    5 READLINK(Readlink3Args<'a>) -> StatusUnion<Nfsstat3, Readlink3Resok<'a>, Readlink3Resfail>,
        "Read from symbolic link. RFC 1813 section 3.3.5";
    6 READ(Read3Args<'a>) -> StatusUnion<Nfsstat3, Read3Resok<'a>, Read3Resfail>, "Read from file. RFC 1813 section 3.3.6";
    7 WRITE(Write3Args<'a>) -> StatusUnion<Nfsstat3, Write3Resok, FileWcc>, "Write to file. RFC 1813 section 3.3.7";
    8 CREATE(Create3Args<'a>) -> StatusUnion<Nfsstat3, Create3Resok<'a>, DirWcc>, "Create a file. RFC 1813 section 3.3.8";
    9 MKDIR(Mkdir3Args<'a>) -> StatusUnion<Nfsstat3, Create3Resok<'a>, DirWcc>, "Create a directory. RFC 1813 section 3.3.9";
    10 SYMLINK(Symlink3Args<'a>) -> StatusUnion<Nfsstat3, Create3Resok<'a>, DirWcc>,
        "Create a symbolic link. RFC 1813 section 3.3.10";
    11 MKNOD(Mknod3Args<'a>) -> StatusUnion<Nfsstat3, Create3Resok<'a>, DirWcc>,
        "Create a special device. RFC 1813 section 3.3.11";
    12 REMOVE(Remove3Args<'a>) -> StatusUnion<Nfsstat3, DirWcc, DirWcc>, "Remove a file. RFC 1813 section 3.3.12";
    13 RMDIR(Remove3Args<'a>) -> StatusUnion<Nfsstat3, DirWcc, DirWcc>, "Remove a directory. RFC 1813 section 3.3.13";
    14 RENAME(Rename3Args<'a>) -> StatusUnion<Nfsstat3, RenameWcc, RenameWcc>,
        "Rename a file or directory. RFC 1813 section 3.3.14";
    15 LINK(Link3Args<'a>) -> StatusUnion<Nfsstat3, Link3Res, Link3Res>, "Create link to an object. RFC 1813 section 3.3.15";
    16 READDIR(Readdir3Args<'a>) -> StatusUnion<Nfsstat3, Readdir3Resok<'a>, DirAttributes3Resfail>,
        "Read from directory. RFC 1813 section 3.3.16";
    17 READDIRPLUS(Readdirplus3Args<'a>) -> StatusUnion<Nfsstat3, Readdirplus3Resok<'a>, DirAttributes3Resfail>,
        "Extended read from directory. RFC 1813 section 3.3.17";
    18 FSSTAT(Fsroot3Args<'a>) -> StatusUnion<Nfsstat3, Fsstat3Resok, ObjAttributes3Resfail>,
        "Get dynamic file system information. RFC 1813 section 3.3.18";
    19 FSINFO(Fsroot3Args<'a>) -> StatusUnion<Nfsstat3, Fsinfo3Resok, ObjAttributes3Resfail>,
        "Get static file system information. RFC 1813 section 3.3.19";
    20 PATHCONF(Pathconf3Args<'a>) -> StatusUnion<Nfsstat3, Pathconf3Resok, ObjAttributes3Resfail>,
        "Retrieve POSIX information. RFC 1813 section 3.3.20";
    21 COMMIT(Commit3Args<'a>) -> StatusUnion<Nfsstat3, Commit3Resok, FileWcc>,
        "Commit cached data on a server to stable storage. RFC 1813 section 3.3.21";
}

#[cfg(test)]
mod tests;
