//! NFS version 3. RFC 1813.

use crate::nfs::status_union::StatusUnion;
use crate::xdr::{Ddp, DdpText, Opaque, Text, Void, XdrLinkedList};

/// Version number of NFSv3 in program 100003. RFC 1813 section 2.1.
pub const VERSION: u32 = 3;

/// nfs_fh3: identifier of a file system object, opaque to the client. RFC 1813 section 2.6.
pub type NfsFh3<'a> = Opaque<'a, 64>;

/// post_op_attr: attributes after the operation, if the server returns them. RFC 1813 section 2.6.
pub type PostOpAttr = Option<Fattr3>;

/// pre_op_attr: attributes before the operation, if the server returns them. RFC 1813 section 2.6.
pub type PreOpAttr = Option<WccAttr>;

/// post_op_fh3: the filehandle of a new object, if the server returns it. RFC 1813 section 2.6.
pub type PostOpFh3<'a> = Option<NfsFh3<'a>>;

/// cookieverf3, createverf3 and writeverf3. RFC 1813 sections 2.4 and 2.5.
pub type Verifier3 = [u8; 8];

crate::xdr! { "nfs";
    /// nfsstat3. RFC 1813 section 2.6.
    enum Nfsstat3 {
        NFS3_OK = 0,
        NFS3ERR_PERM = 1,
        NFS3ERR_NOENT = 2,
        NFS3ERR_IO = 5,
        NFS3ERR_NXIO = 6,
        NFS3ERR_ACCES = 13,
        NFS3ERR_EXIST = 17,
        NFS3ERR_XDEV = 18,
        NFS3ERR_NODEV = 19,
        NFS3ERR_NOTDIR = 20,
        NFS3ERR_ISDIR = 21,
        NFS3ERR_INVAL = 22,
        NFS3ERR_FBIG = 27,
        NFS3ERR_NOSPC = 28,
        NFS3ERR_ROFS = 30,
        NFS3ERR_MLINK = 31,
        NFS3ERR_NAMETOOLONG = 63,
        NFS3ERR_NOTEMPTY = 66,
        NFS3ERR_DQUOT = 69,
        NFS3ERR_STALE = 70,
        NFS3ERR_REMOTE = 71,
        NFS3ERR_BADHANDLE = 10001,
        NFS3ERR_NOT_SYNC = 10002,
        NFS3ERR_BAD_COOKIE = 10003,
        NFS3ERR_NOTSUPP = 10004,
        NFS3ERR_TOOSMALL = 10005,
        NFS3ERR_SERVERFAULT = 10006,
        NFS3ERR_BADTYPE = 10007,
        NFS3ERR_JUKEBOX = 10008,
    }

    /// ftype3. RFC 1813 section 2.6.
    enum Ftype3 {
        NF3REG = 1,
        NF3DIR = 2,
        NF3BLK = 3,
        NF3CHR = 4,
        NF3LNK = 5,
        NF3SOCK = 6,
        NF3FIFO = 7,
    }

    /// mode3, its bits with POSIX names. RFC 1813 section 2.6.
    flags Mode3 {
        S_ISUID = 0x800,
        S_ISGID = 0x400,
        S_ISVTX = 0x200,
        S_IRUSR = 0x100,
        S_IWUSR = 0x080,
        S_IXUSR = 0x040,
        S_IRGRP = 0x020,
        S_IWGRP = 0x010,
        S_IXGRP = 0x008,
        S_IROTH = 0x004,
        S_IWOTH = 0x002,
        S_IXOTH = 0x001,
    }

    /// specdata3: major and minor number of a device. RFC 1813 section 2.6.
    struct Specdata3 { specdata1: u32, specdata2: u32 }

    /// nfstime3: time since 1970-01-01 00:00:00 UTC. RFC 1813 section 2.6.
    time Nfstime3 { seconds: u32 => "nfs.nfstime3.seconds", nseconds: u32 => "nfs.nfstime3.nseconds" }

    /// nfstime3, as a duration. RFC 1813 section 3.3.19.
    duration Duration3 { seconds: u32 => "nfs.nfstime3.seconds", nseconds: u32 => "nfs.nfstime3.nseconds" }

    /// fattr3. RFC 1813 section 2.6.
    struct Fattr3 {
        r#type: Ftype3 => "nfs.fattr3.type",
        mode: Mode3 => "nfs.mode3",
        nlink: u32 => "nfs.fattr3.nlink",
        uid: u32 => "nfs.fattr3.uid",
        gid: u32 => "nfs.fattr3.gid",
        size: u64 => "nfs.fattr3.size",
        used: u64 => "nfs.fattr3.used",
        rdev: Specdata3,
        fsid: u64 => "nfs.fattr3.fsid",
        fileid: u64 => "nfs.fattr3.fileid",
        atime: Nfstime3,
        mtime: Nfstime3,
        ctime: Nfstime3,
    }

    /// wcc_attr. RFC 1813 section 2.6.
    struct WccAttr { size: u64 => "nfs.wcc_attr.size", mtime: Nfstime3, ctime: Nfstime3 }

    /// wcc_data: attributes before and after an operation that modifies an object. RFC 1813 section 2.6.
    struct WccData { before: PreOpAttr, after: PostOpAttr }

    /// time_how. RFC 1813 section 2.6.
    enum TimeHow { DONT_CHANGE = 0, SET_TO_SERVER_TIME = 1, SET_TO_CLIENT_TIME = 2 }

    /// set_atime. RFC 1813 section 2.6.
    union SetAtime switch (set_it: TimeHow) {
        DONT_CHANGE => DontChange,
        SET_TO_SERVER_TIME => Server,
        SET_TO_CLIENT_TIME => Client(Nfstime3) as time => "nfs.atime",
    }

    /// set_mtime. RFC 1813 section 2.6.
    union SetMtime switch (set_it: TimeHow) {
        DONT_CHANGE => DontChange,
        SET_TO_SERVER_TIME => Server,
        SET_TO_CLIENT_TIME => Client(Nfstime3) as time => "nfs.mtime",
    }

    /// sattr3: attributes to set. RFC 1813 section 2.6.
    struct Sattr3 {
        /// set_mode3.
        mode: Option<Mode3> => "nfs.mode3",
        /// set_uid3.
        uid: Option<u32> => "nfs.uid3",
        /// set_gid3.
        gid: Option<u32> => "nfs.gid3",
        /// set_size3.
        size: Option<u64> => "nfs.set_size",
        atime: SetAtime => "nfs.set_atime",
        mtime: SetMtime => "nfs.set_mtime",
    }

    /// diropargs3: a name in a directory. RFC 1813 section 2.6.
    struct Diropargs3<'a> { dir: NfsFh3<'a> => "nfs.fhandle", name: Text<'a> }

    /// stable_how. RFC 1813 section 3.3.7.
    enum StableHow { UNSTABLE = 0, DATA_SYNC = 1, FILE_SYNC = 2 }

    /// Access rights of ACCESS. RFC 1813 section 3.3.4.
    flags Access3 {
        ACCESS3_READ = 0x01,
        ACCESS3_LOOKUP = 0x02,
        ACCESS3_MODIFY = 0x04,
        ACCESS3_EXTEND = 0x08,
        ACCESS3_DELETE = 0x10,
        ACCESS3_EXECUTE = 0x20,
    }

    /// Properties of a file system. RFC 1813 section 3.3.19.
    flags Fsf3 { FSF3_LINK = 0x01, FSF3_SYMLINK = 0x02, FSF3_HOMOGENEOUS = 0x08, FSF3_CANSETTIME = 0x10 }
}

// Arguments of the procedures.
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

// Results of the procedures. Structures of several procedures, or of success and failure, are described once.
crate::xdr! { "nfs";
    /// GETATTR3resok. RFC 1813 section 3.3.1.
    struct Getattr3Resok { obj_attributes: Fattr3 }

    /// SETATTR3resok and SETATTR3resfail. RFC 1813 section 3.3.2.
    struct ObjWcc { obj_wcc: WccData }

    /// LOOKUP3resok. RFC 1813 section 3.3.3.
    struct Lookup3Resok<'a> {
        object: NfsFh3<'a> => "nfs.fhandle",
        obj_attributes: PostOpAttr,
        dir_attributes: PostOpAttr,
    }

    /// LOOKUP3resfail, READDIR3resfail and READDIRPLUS3resfail. RFC 1813 sections 3.3.3, 3.3.16 and 3.3.17.
    struct DirAttributes3Resfail { dir_attributes: PostOpAttr }

    /// ACCESS3resok. RFC 1813 section 3.3.4.
    struct Access3Resok { obj_attributes: PostOpAttr, access: Access3 => "nfs.access_rights" }

    /// ACCESS3resfail, FSSTAT3resfail, FSINFO3resfail and PATHCONF3resfail.
    /// RFC 1813 sections 3.3.4 and 3.3.18 to 3.3.20.
    struct ObjAttributes3Resfail { obj_attributes: PostOpAttr }

    /// READLINK3resok. The path is DDP-eligible: RFC 8267 section 4. RFC 1813 section 3.3.5.
    struct Readlink3Resok<'a> { symlink_attributes: PostOpAttr, data: DdpText<'a> => "nfs.readlink.data" }

    /// READLINK3resfail. RFC 1813 section 3.3.5.
    struct Readlink3Resfail { symlink_attributes: PostOpAttr }

    /// READ3resok. The data is DDP-eligible: RFC 8267 section 4. RFC 1813 section 3.3.6.
    struct Read3Resok<'a> {
        file_attributes: PostOpAttr,
        count: u32 => "nfs.count3",
        eof: bool => "nfs.read.eof",
        data: Ddp<'a>,
    }

    /// READ3resfail. RFC 1813 section 3.3.6.
    struct Read3Resfail { file_attributes: PostOpAttr }

    /// WRITE3resok. RFC 1813 section 3.3.7.
    struct Write3Resok {
        file_wcc: WccData,
        count: u32 => "nfs.count3",
        committed: StableHow => "nfs.write.committed",
        verf: Verifier3 => "nfs.verifier",
    }

    /// WRITE3resfail and COMMIT3resfail. RFC 1813 sections 3.3.7 and 3.3.21.
    struct FileWcc { file_wcc: WccData }

    /// CREATE3resok, MKDIR3resok, SYMLINK3resok and MKNOD3resok. RFC 1813 sections 3.3.8 to 3.3.11.
    struct Create3Resok<'a> { obj: PostOpFh3<'a> => "nfs.fhandle", obj_attributes: PostOpAttr, dir_wcc: WccData }

    /// The failures of CREATE, MKDIR, SYMLINK and MKNOD, and all results of REMOVE and RMDIR. RFC 1813 sections 3.3.8
    /// to 3.3.13.
    struct DirWcc { dir_wcc: WccData }

    /// RENAME3resok and RENAME3resfail. RFC 1813 section 3.3.14.
    struct RenameWcc { fromdir_wcc: WccData, todir_wcc: WccData }

    /// LINK3resok and LINK3resfail. RFC 1813 section 3.3.15.
    struct Link3Res { file_attributes: PostOpAttr, linkdir_wcc: WccData }

    /// READDIR3resok. RFC 1813 section 3.3.16.
    struct Readdir3Resok<'a> {
        dir_attributes: PostOpAttr,
        cookieverf: Verifier3 => "nfs.verifier",
        reply: Dirlist3<'a>,
    }

    /// dirlist3. RFC 1813 section 3.3.16.
    struct Dirlist3<'a> {
        entries: XdrLinkedList<'a, Entry3<'a>> => "nfs.readdir.entry",
        eof: bool => "nfs.readdir.eof",
    }

    /// entry3. RFC 1813 section 3.3.16.
    struct Entry3<'a> {
        fileid: u64 => "nfs.readdir.entry3.fileid",
        name: Text<'a> => "nfs.readdir.entry3.name",
        cookie: u64 => "nfs.readdir.entry3.cookie",
    }

    /// READDIRPLUS3resok. RFC 1813 section 3.3.17.
    struct Readdirplus3Resok<'a> {
        dir_attributes: PostOpAttr,
        cookieverf: Verifier3 => "nfs.verifier",
        reply: Dirlistplus3<'a>,
    }

    /// dirlistplus3. RFC 1813 section 3.3.17.
    struct Dirlistplus3<'a> {
        entries: XdrLinkedList<'a, Entryplus3<'a>> => "nfs.readdir.entry",
        eof: bool => "nfs.readdir.eof",
    }

    /// entryplus3. RFC 1813 section 3.3.17.
    struct Entryplus3<'a> {
        fileid: u64 => "nfs.readdirplus.entry.fileid",
        name: Text<'a> => "nfs.readdirplus.entry.name",
        cookie: u64 => "nfs.readdirplus.entry.cookie",
        name_attributes: PostOpAttr,
        name_handle: PostOpFh3<'a> => "nfs.fhandle",
    }

    /// FSSTAT3resok. RFC 1813 section 3.3.18.
    struct Fsstat3Resok {
        obj_attributes: PostOpAttr,
        tbytes: u64 => "nfs.fsstat3_resok.tbytes",
        fbytes: u64 => "nfs.fsstat3_resok.fbytes",
        abytes: u64 => "nfs.fsstat3_resok.abytes",
        tfiles: u64 => "nfs.fsstat3_resok.tfiles",
        ffiles: u64 => "nfs.fsstat3_resok.ffiles",
        afiles: u64 => "nfs.fsstat3_resok.afiles",
        invarsec: u32 => "nfs.fsstat.invarsec",
    }

    /// FSINFO3resok. RFC 1813 section 3.3.19.
    struct Fsinfo3Resok {
        obj_attributes: PostOpAttr,
        rtmax: u32 => "nfs.fsinfo.rtmax",
        rtpref: u32 => "nfs.fsinfo.rtpref",
        rtmult: u32 => "nfs.fsinfo.rtmult",
        wtmax: u32 => "nfs.fsinfo.wtmax",
        wtpref: u32 => "nfs.fsinfo.wtpref",
        wtmult: u32 => "nfs.fsinfo.wtmult",
        dtpref: u32 => "nfs.fsinfo.dtpref",
        maxfilesize: u64 => "nfs.fsinfo.maxfilesize",
        time_delta: Duration3 => "nfs.dtime",
        properties: Fsf3 => "nfs.fsinfo.properties",
    }

    /// PATHCONF3resok. RFC 1813 section 3.3.20.
    struct Pathconf3Resok {
        obj_attributes: PostOpAttr,
        linkmax: u32 => "nfs.pathconf.linkmax",
        name_max: u32 => "nfs.pathconf.name_max",
        no_trunc: bool => "nfs.pathconf.no_trunc",
        chown_restricted: bool => "nfs.pathconf.chown_restricted",
        case_insensitive: bool => "nfs.pathconf.case_insensitive",
        case_preserving: bool => "nfs.pathconf.case_preserving",
    }

    /// COMMIT3resok. RFC 1813 section 3.3.21.
    struct Commit3Resok { file_wcc: WccData, verf: Verifier3 => "nfs.verifier" }
}

crate::operations! { "nfs";
    /// The procedures of NFSv3. RFC 1813 section 3.
    Procedure, ProcedureNumber, Args<'a>, Results:
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
