//! Types common to the procedures. RFC 1094 section 2.3.

use crate::field::registry::FieldRegistry;
use crate::field::{FieldDefinition, FieldKind, FieldObserver};
use crate::xdr::{Cursor, Encoder, Text, Xdr, XdrError};

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
    time Timeval { seconds: u32 => "nfs.timeval.seconds", useconds: u32 => "nfs.timeval.useconds" }

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

impl<T> Sattr2ValueOrUnchanged<T> {
    /// Leaves the attribute unchanged.
    pub const UNCHANGED: Self = Self(None);
}

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
        let (at, mut ahead) = (cursor.position(), *cursor);
        for _ in 0..T::UNCHANGED_WORDS {
            if ahead.word()? != u32::MAX {
                return T::decode(cursor, field, observer).map(|value| Self(Some(value)));
            }
        }
        *cursor = ahead;
        // It is no value of the attribute, so no field reports it.
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
