//! Results of the procedures. RFC 1094 sections 2.2 and 2.3.

use crate::xdr::{Chain, Ddp, DdpText};

use super::types::{Fattr, Fhandle, Filename};

crate::xdr! { "nfs";
    /// attrstat, with status NFS_OK. RFC 1094 section 2.3.9.
    struct Attrstat2Ok { attributes: Fattr }

    /// diropok. RFC 1094 section 2.3.11.
    struct Diropok { file: Fhandle => "nfs.fhandle", attributes: Fattr }

    /// readlinkres, with status NFS_OK. The path is DDP-eligible: RFC 8267 section 4. RFC 1094 section 2.2.6.
    struct Readlink2Ok<'a> { data: DdpText<'a> => "nfs.readlink.data" }

    /// readres, with status NFS_OK. The data is DDP-eligible: RFC 8267 section 4. RFC 1094 section 2.2.7.
    struct Read2Ok<'a> { attributes: Fattr, data: Ddp<'a> }

    /// readdirok. RFC 1094 section 2.2.17.
    struct Readdir2Ok<'a> {
        entries: Chain<'a, Entry2<'a>> => "nfs.readdir.entry",
        eof: bool => "nfs.readdir.eof",
    }

    /// entry. RFC 1094 section 2.2.17.
    struct Entry2<'a> {
        fileid: u32 => "nfs.readdir.entry.fileid",
        name: Filename<'a> => "nfs.readdir.entry.name",
        cookie: u32 => "nfs.readdir.entry.cookie",
    }

    /// The info of statfsres. RFC 1094 section 2.2.18.
    struct Statfs2Ok {
        tsize: u32 => "nfs.statfs.tsize",
        bsize: u32 => "nfs.statfs.bsize",
        blocks: u32 => "nfs.statfs.blocks",
        bfree: u32 => "nfs.statfs.bfree",
        bavail: u32 => "nfs.statfs.bavail",
    }
}
