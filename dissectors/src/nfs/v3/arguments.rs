//! Arguments of the procedures. RFC 1813 section 3.3.

use crate::xdr::{Ddp, DdpText};

use super::types::{Access3, Diropargs3, Ftype3, NfsFh3, Nfstime3, Sattr3, Specdata3, StableHow, Verifier3};

crate::xdr! { "nfs";
    /// GETATTR3args. RFC 1813 section 3.3.1.
    struct Getattr3Args<'a> { object: NfsFh3<'a> => "nfs.fhandle" }

    /// SETATTR3args. RFC 1813 section 3.3.2.
    struct Setattr3Args<'a> {
        object: NfsFh3<'a> => "nfs.fhandle",
        new_attributes: Sattr3,
        /// sattrguard3: required ctime of the object.
        guard: Option<Nfstime3> => "nfs.ctime",
    }

    /// LOOKUP3args. RFC 1813 section 3.3.3.
    struct Lookup3Args<'a> { what: Diropargs3<'a> }

    /// ACCESS3args. RFC 1813 section 3.3.4.
    struct Access3Args<'a> { object: NfsFh3<'a> => "nfs.fhandle", access: Access3 => "nfs.access_check" }

    /// READLINK3args. RFC 1813 section 3.3.5.
    struct Readlink3Args<'a> { symlink: NfsFh3<'a> => "nfs.fhandle" }

    /// READ3args. RFC 1813 section 3.3.6.
    struct Read3Args<'a> {
        file: NfsFh3<'a> => "nfs.fhandle",
        offset: u64 => "nfs.offset3",
        count: u32 => "nfs.count3",
    }

    /// WRITE3args. The data is DDP-eligible: RFC 8267 section 4. RFC 1813 section 3.3.7.
    struct Write3Args<'a> {
        file: NfsFh3<'a> => "nfs.fhandle",
        offset: u64 => "nfs.offset3",
        count: u32 => "nfs.count3",
        stable: StableHow => "nfs.write.stable",
        data: Ddp<'a>,
    }

    /// CREATE3args. RFC 1813 section 3.3.8.
    struct Create3Args<'a> { r#where: Diropargs3<'a> => "nfs.where", how: Createhow3 }

    /// createmode3. RFC 1813 section 3.3.8.
    enum Createmode3 { UNCHECKED = 0, GUARDED = 1, EXCLUSIVE = 2 }

    /// createhow3. RFC 1813 section 3.3.8.
    union Createhow3 switch (mode: Createmode3 => "nfs.createmode") {
        UNCHECKED => Unchecked(Sattr3) as obj_attributes,
        GUARDED => Guarded(Sattr3) as obj_attributes,
        EXCLUSIVE => Exclusive(Verifier3) as verf => "nfs.verifier",
    }

    /// MKDIR3args. RFC 1813 section 3.3.9.
    struct Mkdir3Args<'a> { r#where: Diropargs3<'a> => "nfs.where", attributes: Sattr3 }

    /// SYMLINK3args. RFC 1813 section 3.3.10.
    struct Symlink3Args<'a> { r#where: Diropargs3<'a> => "nfs.where", symlink: Symlinkdata3<'a> }

    /// symlinkdata3. The path is DDP-eligible: RFC 8267 section 4. RFC 1813 section 3.3.10.
    struct Symlinkdata3<'a> { symlink_attributes: Sattr3, symlink_data: DdpText<'a> => "nfs.symlink.to" }

    /// MKNOD3args. RFC 1813 section 3.3.11.
    struct Mknod3Args<'a> { r#where: Diropargs3<'a> => "nfs.where", what: Mknoddata3 }

    /// mknoddata3. RFC 1813 section 3.3.11.
    union Mknoddata3 switch (type: Ftype3) {
        NF3CHR => Chr(Devicedata3) as device,
        NF3BLK => Blk(Devicedata3) as device,
        NF3SOCK => Sock(Sattr3) as pipe_attributes,
        NF3FIFO => Fifo(Sattr3) as pipe_attributes,
        default => Other,
    }

    /// devicedata3. RFC 1813 section 3.3.11.
    struct Devicedata3 { dev_attributes: Sattr3, spec: Specdata3 }

    /// REMOVE3args and RMDIR3args. RFC 1813 sections 3.3.12 and 3.3.13.
    struct Remove3Args<'a> { object: Diropargs3<'a> }

    /// RENAME3args. RFC 1813 section 3.3.14.
    struct Rename3Args<'a> { from: Diropargs3<'a>, to: Diropargs3<'a> }

    /// LINK3args. RFC 1813 section 3.3.15.
    struct Link3Args<'a> { file: NfsFh3<'a> => "nfs.fhandle", link: Diropargs3<'a> }

    /// READDIR3args. RFC 1813 section 3.3.16.
    struct Readdir3Args<'a> {
        dir: NfsFh3<'a> => "nfs.fhandle",
        cookie: u64 => "nfs.cookie3",
        cookieverf: Verifier3 => "nfs.verifier",
        count: u32 => "nfs.count3",
    }

    /// READDIRPLUS3args. RFC 1813 section 3.3.17.
    struct Readdirplus3Args<'a> {
        dir: NfsFh3<'a> => "nfs.fhandle",
        cookie: u64 => "nfs.cookie3",
        cookieverf: Verifier3 => "nfs.verifier",
        dircount: u32 => "nfs.count3_dircount",
        maxcount: u32 => "nfs.count3_maxcount",
    }

    /// FSSTAT3args and FSINFOargs. RFC 1813 sections 3.3.18 and 3.3.19.
    struct Fsroot3Args<'a> { fsroot: NfsFh3<'a> => "nfs.fhandle" }

    /// PATHCONF3args. RFC 1813 section 3.3.20.
    struct Pathconf3Args<'a> { object: NfsFh3<'a> => "nfs.fhandle" }

    /// COMMIT3args. RFC 1813 section 3.3.21.
    struct Commit3Args<'a> {
        file: NfsFh3<'a> => "nfs.fhandle",
        offset: u64 => "nfs.offset3",
        count: u32 => "nfs.count3",
    }
}
