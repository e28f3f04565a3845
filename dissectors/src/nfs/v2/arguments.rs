//! Arguments of the procedures. RFC 1094 section 2.2.

use crate::xdr::{Ddp, DdpText};

use super::types::{Diropargs, Fhandle, Sattr};

crate::xdr! { "nfs";
    /// The fhandle argument of GETATTR, READLINK and STATFS. RFC 1094 sections 2.2.2, 2.2.6 and 2.2.18.
    struct Fhandle2Args { file: Fhandle => "nfs.fhandle" }

    /// sattrargs. RFC 1094 section 2.2.3.
    struct Setattr2Args { file: Fhandle => "nfs.fhandle", attributes: Sattr }

    /// readargs. RFC 1094 section 2.2.7.
    struct Read2Args {
        file: Fhandle => "nfs.fhandle",
        offset: u32 => "nfs.read.offset",
        count: u32 => "nfs.read.count",
        totalcount: u32 => "nfs.read.totalcount",
    }

    /// writeargs. The data is DDP-eligible: RFC 8267 section 4. RFC 1094 section 2.2.9.
    struct Write2Args<'a> {
        file: Fhandle => "nfs.fhandle",
        beginoffset: u32 => "nfs.write.beginoffset",
        offset: u32 => "nfs.write.offset",
        totalcount: u32 => "nfs.write.totalcount",
        data: Ddp<'a>,
    }

    /// createargs, of CREATE and MKDIR. RFC 1094 sections 2.2.10 and 2.2.15.
    struct Create2Args<'a> { r#where: Diropargs<'a> => "nfs.where", attributes: Sattr }

    /// renameargs. RFC 1094 section 2.2.12.
    struct Rename2Args<'a> { from: Diropargs<'a>, to: Diropargs<'a> }

    /// linkargs. RFC 1094 section 2.2.13.
    struct Link2Args<'a> { from: Fhandle => "nfs.fhandle", to: Diropargs<'a> }

    /// symlinkargs. The path is DDP-eligible: RFC 8267 section 4. RFC 1094 section 2.2.14.
    struct Symlink2Args<'a> { from: Diropargs<'a>, to: DdpText<'a> => "nfs.symlink.to", attributes: Sattr }

    /// readdirargs. The cookie is opaque to the client, except 0 for the start. RFC 1094 section 2.2.17.
    struct Readdir2Args {
        dir: Fhandle => "nfs.fhandle",
        cookie: u32 => "nfs.readdir.cookie",
        count: u32 => "nfs.readdir.count",
    }
}
