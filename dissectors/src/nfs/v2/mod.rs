//! NFS version 2. RFC 1094.

mod arguments;
mod results;
mod types;

pub use arguments::*;
pub use results::*;
pub use types::*;

use crate::nfs::StatusUnion;
use crate::xdr::Void;

crate::operations! { "nfs";
    /// The procedures of NFSv2. RFC 1094 section 2.2.
    Procedure, KnownProcedure, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 1094 section 2.2.1";
    1 GETATTR(Fhandle2Args) -> StatusUnion<Nfsstat, Attrstat2Ok>, "Get file attributes. RFC 1094 section 2.2.2";
    2 SETATTR(Setattr2Args) -> StatusUnion<Nfsstat, Attrstat2Ok>, "Set file attributes. RFC 1094 section 2.2.3";
    3 ROOT(Void) -> Void, "Get filesystem root; obsolete. RFC 1094 section 2.2.4";
    4 LOOKUP(Diropargs<'a>) -> StatusUnion<Nfsstat, Diropok>, "Look up file name. RFC 1094 section 2.2.5";
    5 READLINK(Fhandle2Args) -> StatusUnion<Nfsstat, Readlink2Ok<'a>>, "Read from symbolic link. RFC 1094 section 2.2.6";
    6 READ(Read2Args) -> StatusUnion<Nfsstat, Read2Ok<'a>>, "Read from file. RFC 1094 section 2.2.7";
    7 WRITECACHE(Void) -> Void, "Write to cache; never used. RFC 1094 section 2.2.8";
    8 WRITE(Write2Args<'a>) -> StatusUnion<Nfsstat, Attrstat2Ok>, "Write to file. RFC 1094 section 2.2.9";
    9 CREATE(Create2Args<'a>) -> StatusUnion<Nfsstat, Diropok>, "Create file. RFC 1094 section 2.2.10";
    10 REMOVE(Diropargs<'a>) -> StatusUnion<Nfsstat, Void>, "Remove file. RFC 1094 section 2.2.11";
    11 RENAME(Rename2Args<'a>) -> StatusUnion<Nfsstat, Void>, "Rename file. RFC 1094 section 2.2.12";
    12 LINK(Link2Args<'a>) -> StatusUnion<Nfsstat, Void>, "Create link to file. RFC 1094 section 2.2.13";
    13 SYMLINK(Symlink2Args<'a>) -> StatusUnion<Nfsstat, Void>, "Create symbolic link. RFC 1094 section 2.2.14";
    14 MKDIR(Create2Args<'a>) -> StatusUnion<Nfsstat, Diropok>, "Create directory. RFC 1094 section 2.2.15";
    15 RMDIR(Diropargs<'a>) -> StatusUnion<Nfsstat, Void>, "Remove directory. RFC 1094 section 2.2.16";
    16 READDIR(Readdir2Args) -> StatusUnion<Nfsstat, Readdir2Ok<'a>>, "Read from directory. RFC 1094 section 2.2.17";
    17 STATFS(Fhandle2Args) -> StatusUnion<Nfsstat, Statfs2Ok>, "Get filesystem attributes. RFC 1094 section 2.2.18";
}

#[cfg(test)]
pub(super) mod tests;
