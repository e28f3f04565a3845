//! Types common to the procedures. RFC 1813 sections 2.3 to 2.6.

use crate::xdr::{Opaque, Text};

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

impl Nfstime3 {
    /// Returns the nanoseconds since 1970-01-01 00:00:00 UTC.
    pub fn nanoseconds(&self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nseconds)
    }
}

impl Duration3 {
    /// Returns the duration in nanoseconds.
    pub fn nanoseconds(&self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nseconds)
    }
}
