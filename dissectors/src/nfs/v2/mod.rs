//! NFS version 2. RFC 1094.

use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver};
use crate::nfs::status_union::StatusUnion;
use crate::xdr::{Cursor, Ddp, DdpText, Encoder, Text, Void, Xdr, XdrError, XdrLinkedList};

/// fhandle: identifier of a file or directory, opaque to the client. RFC 1094 section 2.3.3.
pub type Fhandle = [u8; 32];

/// filename: a component of a path. RFC 1094 section 2.3.7.
pub type Filename<'a> = Text<'a, 255>;

crate::xdr! { "nfs";
    /// stat. RFC 1094 section 2.3.1.
    enum Nfsstat {
        NFS_OK = 0,
        NFSERR_PERM = 1,
        NFSERR_NOENT = 2,
        NFSERR_IO = 5,
        NFSERR_NXIO = 6,
        NFSERR_ACCES = 13,
        NFSERR_EXIST = 17,
        NFSERR_NODEV = 19,
        NFSERR_NOTDIR = 20,
        NFSERR_ISDIR = 21,
        NFSERR_FBIG = 27,
        NFSERR_NOSPC = 28,
        NFSERR_ROFS = 30,
        NFSERR_NAMETOOLONG = 63,
        NFSERR_NOTEMPTY = 66,
        NFSERR_DQUOT = 69,
        NFSERR_STALE = 70,
        NFSERR_WFLUSH = 99,
    }

    /// ftype. RFC 1094 section 2.3.2.
    enum Ftype { NFNON = 0, NFREG = 1, NFDIR = 2, NFBLK = 3, NFCHR = 4, NFLNK = 5 }

    /// The bits of a mode, with POSIX names. The file type, a four-bit number, is above the permissions. RFC 1094
    /// section 2.3.5.
    flags Mode {
        S_IFCHR = 0x2000,
        S_IFDIR = 0x4000,
        S_IFBLK = 0x6000,
        S_IFREG = 0x8000,
        S_IFLNK = 0xa000,
        S_IFSOCK = 0xc000,
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

    /// timeval: time since 1970-01-01 00:00:00 UTC. RFC 1094 section 2.3.4.
    checked_time Timeval { seconds: u32 => "nfs.timeval.seconds", useconds: u32 => "nfs.timeval.useconds" }

    /// fattr. RFC 1094 section 2.3.5.
    struct Fattr {
        r#type: Ftype => "nfs.ftype",
        mode: Mode => "nfs.mode",
        nlink: u32 => "nfs.fattr.nlink",
        uid: u32 => "nfs.fattr.uid",
        gid: u32 => "nfs.fattr.gid",
        size: u32 => "nfs.fattr.size",
        blocksize: u32 => "nfs.fattr.blocksize",
        rdev: u32 => "nfs.fattr.rdev",
        blocks: u32 => "nfs.fattr.blocks",
        fsid: u32 => "nfs.fattr.fsid",
        fileid: u32 => "nfs.fattr.fileid",
        atime: Timeval,
        mtime: Timeval,
        ctime: Timeval,
    }

    /// sattr: attributes to set. RFC 1094 section 2.3.6.
    struct Sattr {
        mode: Sattr2ValueOrUnchanged<Mode> => "nfs.mode",
        uid: Sattr2ValueOrUnchanged<u32> => "nfs.fattr.uid",
        gid: Sattr2ValueOrUnchanged<u32> => "nfs.fattr.gid",
        size: Sattr2ValueOrUnchanged<u32> => "nfs.fattr.size",
        atime: Sattr2ValueOrUnchanged<Timeval>,
        mtime: Sattr2ValueOrUnchanged<Timeval>,
    }

    /// diropargs: a name in a directory. RFC 1094 section 2.3.10.
    struct Diropargs<'a> { dir: Fhandle => "nfs.fhandle", name: Filename<'a> }
}

impl Timeval {
    /// Microseconds of a time that a client sends to request the server's time: an extension of RFC 1094.
    pub const SERVER_TIME_USECONDS: u32 = 1_000_000;

    /// Returns the nanoseconds since 1970-01-01 00:00:00 UTC. `None` if the microseconds exceed 999,999.
    pub fn nanoseconds(&self) -> Option<i128> {
        let is_instant = self.useconds < Self::SERVER_TIME_USECONDS;
        is_instant.then(|| i128::from(self.seconds) * 1_000_000_000 + i128::from(self.useconds) * 1_000)
    }
}

/// A field of sattr: a value, or -1 to leave the attribute unchanged. RFC 1094 section 2.3.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sattr2ValueOrUnchanged<T>(pub Option<T>);

/// A type with an encoding for "unchanged" in sattr.
pub trait SattrUnchangedEncoding {
    /// Number of words that are -1 in this encoding.
    const UNCHANGED_WORDS: usize = 1;
}

impl SattrUnchangedEncoding for u32 {}

impl SattrUnchangedEncoding for Mode {}

/// Both words are -1.
impl SattrUnchangedEncoding for Timeval {
    const UNCHANGED_WORDS: usize = 2;
}

impl<'a, T: Xdr<'a> + SattrUnchangedEncoding> Xdr<'a> for Sattr2ValueOrUnchanged<T> {
    const KIND: FieldKind = T::KIND;

    fn describe(registry: &mut FieldRegistry) {
        T::describe(registry);
    }

    fn decode<O: FieldObserver<'a>>(
        cursor: &mut Cursor<'a>,
        field: &'static FieldDefinition,
        observer: &mut O,
    ) -> Result<Self, XdrError> {
        let (at, mut lookahead) = (cursor.position(), *cursor);
        for _ in 0..T::UNCHANGED_WORDS {
            if lookahead.word()? != u32::MAX {
                return T::decode(cursor, field, observer).map(|value| Self(Some(value)));
            }
        }
        *cursor = lookahead;
        // It is not a value of the attribute, so no field reports it.
        observer.structural_bytes(at..cursor.position());
        Ok(Self(None))
    }

    fn encode(&self, encoder: &mut Encoder) {
        match &self.0 {
            Some(value) => value.encode(encoder),
            None => (0..T::UNCHANGED_WORDS).for_each(|_| encoder.word(u32::MAX)),
        }
    }
}

// Arguments of the procedures.
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

// Results of the procedures. Structures of several procedures, or of success and failure, are described once.
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
        entries: XdrLinkedList<'a, Entry2<'a>> => "nfs.readdir.entry",
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

crate::operations! { "nfs";
    /// The procedures of NFSv2. RFC 1094 section 2.2.
    Procedure, ProcedureNumber, Args<'a>, Results:
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
