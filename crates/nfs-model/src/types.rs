//! Types of objects, as the status of an operation proves them. RFC 1813 section 3.3, RFC 7530 section 16, RFC 8881
//! section 18, RFC 7862 section 15.
//!
//! A row per procedure and operation has the objects that it works on; [`Objects::proof`] returns the types that they can
//! have with a status. Numbers of statuses are those of NFSv4: a status of NFSv3 has the number of
//! the status of NFSv4 with its meaning.

use nfsrdma_dissectors::nfs::v3::Procedure;
use nfsrdma_dissectors::nfs::v4::{Nfsstat4, Operation};

/// A set of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// All types: nothing is known.
    pub const ANY: Self = Self(0b1111);
    /// Regular files.
    pub const FILE: Self = Self(0b0001);
    /// Directories, those of named attributes included.
    pub const DIRECTORY: Self = Self(0b0010);
    /// Symbolic links.
    pub const LINK: Self = Self(0b0100);
    /// Devices, sockets and FIFOs.
    pub const SPECIAL: Self = Self(0b1000);

    /// Returns the types of an object for which ACCESS asked for these rights, and has these results: in NFSv4 the
    /// supported rights, in NFSv3 those that are granted. A client asks for the rights of the type that it knows, and
    /// those of another type have no meaning. RFC 1813 section 3.3.4, RFC 8881 section 18.1.3.
    pub const fn of_access(asked: u32, results: u32) -> Self {
        const LOOKUP: u32 = 0x02;
        const EXECUTE: u32 = 0x20;
        let of_asked = asked & (LOOKUP | EXECUTE);
        match if of_asked == LOOKUP | EXECUTE { results & of_asked } else { of_asked } {
            LOOKUP => Self::DIRECTORY,
            EXECUTE => Self::DIRECTORY.others(),
            _ => Self::ANY,
        }
    }

    /// Returns all other types.
    pub const fn others(self) -> Self {
        Self(Self::ANY.0 & !self.0)
    }

    /// Returns the types that are in both sets; `None` if there are none.
    #[must_use]
    pub const fn and(self, other: Self) -> Option<Self> {
        match self.0 & other.0 {
            0 => None,
            common => Some(Self(common)),
        }
    }

    /// Returns `true` if a type of `other` is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Default for Types {
    fn default() -> Self {
        Self::ANY
    }
}

/// Knowledge of a name in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    #[default]
    Unknown,
    /// It does not exist.
    Absent,
    /// It exists, with an object of one of these types.
    Present(Types),
    /// It exists, with a directory that is not empty.
    Occupied,
}

/// Types that objects can have, and names that exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Types of the object of the current filehandle; of LINK and RENAME in NFSv3, of the target directory.
    pub current: Types,
    /// Types of the object of the other filehandle.
    pub saved: Types,
    /// The name in the current one; of RENAME, the new name. The statuses of an operation on a name that is not in a
    /// directory may prove the same: it holds if the objects are directories.
    pub named: Entry,
    /// The old name of RENAME, in the other one.
    pub old: Entry,
}

/// Returns what the names of a RENAME that fails with NFS4ERR_EXIST are, if their objects can have these types: a
/// directory and another object, or directories, of which the target is not empty. RFC 1813 section 3.3.14, RFC 8881
/// section 18.26.3.
///
/// If both are possible, the target is not empty: servers have other statuses for objects of different types.
pub const fn conflict(old: Types, named: Types) -> [Entry; 2] {
    const DIRECTORY: Entry = Entry::Present(Types::DIRECTORY);
    const NO_DIRECTORY: Entry = Entry::Present(Types::DIRECTORY.others());
    if !old.has(Types::DIRECTORY) {
        [NO_DIRECTORY, DIRECTORY]
    } else if !named.has(Types::DIRECTORY) {
        [DIRECTORY, NO_DIRECTORY]
    } else {
        [DIRECTORY, Entry::Occupied]
    }
}

/// The objects that an operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// None, or one of any type.
    Any,
    /// A directory, and perhaps a name in it.
    Directory,
    /// A directory, and a name in it that is removed, of an object of any type: servers of NFSv3 may remove directories
    /// with REMOVE, too (RFC 1813 section 3.3.12).
    Removal,
    /// A directory, and a name in it that is removed, of a directory.
    DirectoryRemoval,
    /// A directory, and the name of a file in it, or the file.
    Open,
    /// The same in NFSv4.0, which has one status for links and special files.
    OpenOfV40,
    /// Two directories, and a name in each.
    TwoDirectories,
    /// A directory, a new name in it, and the object to get it.
    NewName,
    /// A regular file.
    File,
    /// A regular file, before NFSv4.1: NFS3ERR_INVAL and NFS4ERR_INVAL are about an object of another type.
    FileOfRead,
    /// A regular file: NFS4ERR_WRONG_TYPE is about an object of any other type.
    FileOfLayout,
    /// Two regular files.
    TwoFiles,
    /// A symbolic link.
    Link,
}

impl Objects {
    /// Returns the objects of a procedure of NFSv3.
    pub const fn of_v3(procedure: Procedure) -> Self {
        use Procedure as P;
        match procedure {
            P::NULL | P::GETATTR | P::SETATTR | P::ACCESS | P::FSSTAT | P::FSINFO | P::PATHCONF => Self::Any,
            P::LOOKUP | P::CREATE | P::MKDIR | P::SYMLINK | P::MKNOD | P::READDIR | P::READDIRPLUS => Self::Directory,
            P::READLINK => Self::Link,
            P::READ => Self::FileOfRead,
            P::WRITE | P::COMMIT => Self::File,
            P::REMOVE => Self::Removal,
            P::RMDIR => Self::DirectoryRemoval,
            P::RENAME => Self::TwoDirectories,
            P::LINK => Self::NewName,
        }
    }

    /// Returns the objects of an operation of NFSv4. OPEN has a directory as its current object if `has_name`.
    pub const fn of_v4(minor: u32, operation: Operation, has_name: bool) -> Self {
        use Operation as O;
        match operation {
            O::OPEN if has_name && minor == 0 => Self::OpenOfV40,
            O::OPEN if has_name => Self::Open,
            O::READ if minor == 0 => Self::FileOfRead,
            O::CREATE | O::LOOKUP | O::LOOKUPP | O::READDIR | O::SECINFO | O::GET_DIR_DELEGATION => Self::Directory,
            O::REMOVE => Self::Removal,
            O::RENAME => Self::TwoDirectories,
            O::LINK => Self::NewName,
            O::READLINK => Self::Link,
            O::OPEN | O::OPEN_CONFIRM | O::OPEN_DOWNGRADE | O::CLOSE => Self::File,
            O::COMMIT | O::READ | O::WRITE | O::LOCK | O::LOCKT | O::LOCKU => Self::File,
            O::LAYOUTCOMMIT | O::LAYOUTGET | O::LAYOUTERROR | O::LAYOUTSTATS => Self::FileOfLayout,
            O::ALLOCATE | O::DEALLOCATE | O::IO_ADVISE | O::READ_PLUS | O::SEEK | O::WRITE_SAME => Self::File,
            O::COPY_NOTIFY | O::OFFLOAD_CANCEL | O::OFFLOAD_STATUS => Self::File,
            O::COPY | O::CLONE => Self::TwoFiles,
            // LAYOUTRETURN can be for a file system, a delegation for a directory, and SECINFO_NO_NAME for any object.
            O::LAYOUTRETURN | O::DELEGPURGE | O::DELEGRETURN | O::WANT_DELEGATION | O::SECINFO_NO_NAME => Self::Any,
            O::ACCESS | O::GETATTR | O::SETATTR | O::VERIFY | O::NVERIFY | O::OPENATTR => Self::Any,
            O::GETXATTR | O::SETXATTR | O::LISTXATTRS | O::REMOVEXATTR => Self::Any,
            O::GETFH | O::PUTFH | O::PUTPUBFH | O::PUTROOTFH | O::RESTOREFH | O::SAVEFH => Self::Any,
            O::SETCLIENTID | O::SETCLIENTID_CONFIRM | O::RENEW | O::RELEASE_LOCKOWNER => Self::Any,
            O::BACKCHANNEL_CTL | O::BIND_CONN_TO_SESSION | O::EXCHANGE_ID | O::CREATE_SESSION => Self::Any,
            O::DESTROY_SESSION | O::DESTROY_CLIENTID | O::SEQUENCE | O::SET_SSV | O::RECLAIM_COMPLETE => Self::Any,
            O::FREE_STATEID | O::TEST_STATEID | O::GETDEVICEINFO | O::GETDEVICELIST | O::ILLEGAL => Self::Any,
        }
    }

    /// Returns what the objects and names can be if the operation has this status. A status that another check can
    /// give, such as those of names and of access, proves nothing.
    pub const fn proof(self, status: Nfsstat4) -> Proof {
        use Entry::{Absent, Occupied, Present, Unknown};
        use Nfsstat4 as S;
        const ANY: Types = Types::ANY;
        const DIRECTORY: Types = Types::DIRECTORY;
        const LINK_OR_SPECIAL: Types = Types(Types::LINK.0 | Types::SPECIAL.0);
        const NO_DIRECTORY: Types = DIRECTORY.others();
        const fn of(current: Types, saved: Types, named: Entry) -> Proof {
            Proof { current, saved, named, old: Unknown }
        }
        const fn of_rename(directories: Types, old: Entry, named: Entry) -> Proof {
            Proof { current: directories, saved: directories, named, old }
        }
        match (self, status) {
            (Self::Any, S::NFS4ERR_ISDIR) => of(DIRECTORY, ANY, Unknown),
            (Self::Any, _) => of(ANY, ANY, Unknown),
            // What is in a directory: a name, an entry, none, or a cookie.
            (Self::Directory, S::NFS4ERR_NOENT) => of(DIRECTORY, ANY, Absent),
            (Self::Directory, S::NFS4ERR_EXIST) => of(DIRECTORY, ANY, Present(ANY)),
            (Self::Directory, S::NFS4_OK | S::NFS4ERR_TOOSMALL | S::NFS4ERR_BAD_COOKIE) => of(DIRECTORY, ANY, Unknown),
            (Self::Directory, S::NFS4ERR_ISDIR) => of(DIRECTORY, ANY, Present(DIRECTORY)),
            (Self::Removal | Self::DirectoryRemoval, S::NFS4ERR_NOENT) => of(DIRECTORY, ANY, Absent),
            (Self::Removal, S::NFS4_OK | S::NFS4ERR_FILE_OPEN) => of(DIRECTORY, ANY, Unknown),
            (Self::Removal, S::NFS4ERR_ISDIR) => of(DIRECTORY, ANY, Present(DIRECTORY)),
            (Self::DirectoryRemoval, S::NFS4_OK) => of(DIRECTORY, ANY, Present(DIRECTORY)),
            // Some servers say that the name exists, as RENAME does: RFC 1813 section 3.3.14.
            (Self::Removal | Self::DirectoryRemoval, S::NFS4ERR_NOTEMPTY | S::NFS4ERR_EXIST) => {
                of(DIRECTORY, ANY, Occupied)
            }
            // If it is not about the directory itself.
            (Self::DirectoryRemoval, S::NFS4ERR_NOTDIR) => of(ANY, ANY, Present(NO_DIRECTORY)),
            (Self::Open | Self::OpenOfV40, S::NFS4_OK | S::NFS4ERR_SHARE_DENIED) => {
                of(DIRECTORY, ANY, Present(Types::FILE))
            }
            (Self::Open | Self::OpenOfV40, S::NFS4ERR_NOENT) => of(DIRECTORY, ANY, Absent),
            (Self::Open | Self::OpenOfV40, S::NFS4ERR_EXIST) => of(DIRECTORY, ANY, Present(ANY)),
            (Self::Open | Self::OpenOfV40, S::NFS4ERR_ISDIR) => of(DIRECTORY, ANY, Present(DIRECTORY)),
            (Self::Open, S::NFS4ERR_SYMLINK) => of(DIRECTORY, ANY, Present(Types::LINK)),
            // RFC 7530 section 16.16.5: also those of other special files.
            (Self::OpenOfV40, S::NFS4ERR_SYMLINK) => of(DIRECTORY, ANY, Present(LINK_OR_SPECIAL)),
            (Self::Open | Self::OpenOfV40, S::NFS4ERR_WRONG_TYPE) => of(DIRECTORY, ANY, Present(Types::SPECIAL)),
            (Self::TwoDirectories, S::NFS4_OK) => of_rename(DIRECTORY, Unknown, Unknown),
            (Self::TwoDirectories, S::NFS4ERR_NOENT) => of_rename(DIRECTORY, Absent, Unknown),
            (Self::TwoDirectories, S::NFS4ERR_EXIST) => of_rename(DIRECTORY, Present(ANY), Present(ANY)),
            (Self::TwoDirectories, S::NFS4ERR_NOTEMPTY) => of_rename(DIRECTORY, Present(DIRECTORY), Occupied),
            (Self::TwoDirectories, S::NFS4ERR_ISDIR) => of_rename(ANY, Present(NO_DIRECTORY), Present(DIRECTORY)),
            // If it is not about either directory.
            (Self::TwoDirectories, S::NFS4ERR_NOTDIR) => of_rename(ANY, Present(DIRECTORY), Present(NO_DIRECTORY)),
            (Self::TwoDirectories, _) => of(ANY, ANY, Unknown),
            (Self::NewName, S::NFS4_OK) => of(DIRECTORY, NO_DIRECTORY, Unknown),
            (Self::NewName, S::NFS4ERR_EXIST) => of(DIRECTORY, ANY, Present(ANY)),
            (Self::NewName, S::NFS4ERR_NOENT) => of(DIRECTORY, ANY, Unknown),
            (Self::NewName, S::NFS4ERR_ISDIR) => of(DIRECTORY, DIRECTORY, Unknown),
            (Self::Directory | Self::Removal | Self::Open | Self::OpenOfV40 | Self::NewName, S::NFS4ERR_NOTDIR) => {
                of(NO_DIRECTORY, ANY, Unknown)
            }
            (Self::Directory | Self::Removal | Self::DirectoryRemoval | Self::NewName, S::NFS4ERR_SYMLINK) => {
                of(Types::LINK, ANY, Unknown)
            }
            (
                Self::Directory | Self::Removal | Self::DirectoryRemoval | Self::Open | Self::OpenOfV40 | Self::NewName,
                _,
            ) => of(ANY, ANY, Unknown),
            // What is in a file: bytes, holes, locks and opens.
            (
                Self::File | Self::FileOfRead | Self::FileOfLayout,
                S::NFS4_OK | S::NFS4ERR_DENIED | S::NFS4ERR_OPENMODE,
            ) => of(Types::FILE, ANY, Unknown),
            (Self::File | Self::FileOfRead | Self::FileOfLayout | Self::Link, S::NFS4ERR_ISDIR) => {
                of(DIRECTORY, ANY, Unknown)
            }
            (Self::File | Self::FileOfRead | Self::FileOfLayout, S::NFS4ERR_SYMLINK) => of(Types::LINK, ANY, Unknown),
            (Self::FileOfLayout, S::NFS4ERR_WRONG_TYPE) => of(Types::FILE.others(), ANY, Unknown),
            // A link and a directory have statuses of their own.
            (Self::File | Self::FileOfRead, S::NFS4ERR_WRONG_TYPE) => of(Types::SPECIAL, ANY, Unknown),
            (Self::FileOfRead, S::NFS4ERR_INVAL) => of(LINK_OR_SPECIAL, ANY, Unknown),
            (Self::File | Self::FileOfRead | Self::FileOfLayout, _) => of(ANY, ANY, Unknown),
            (Self::TwoFiles, S::NFS4_OK) => of(Types::FILE, Types::FILE, Unknown),
            (Self::TwoFiles, _) => of(ANY, ANY, Unknown),
            (Self::Link, S::NFS4_OK) => of(Types::LINK, ANY, Unknown),
            // READLINK has no arguments that could be wrong.
            (Self::Link, S::NFS4ERR_INVAL | S::NFS4ERR_WRONG_TYPE) => of(Types::LINK.others(), ANY, Unknown),
            (Self::Link, _) => of(ANY, ANY, Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v3::Procedure;
    use nfsrdma_dissectors::nfs::v4::Operation;

    use super::*;

    fn current(operation: Operation, status: Nfsstat4) -> Types {
        Objects::of_v4(1, operation, true).proof(status).current
    }

    /// RFC 8881 sections 18.13.4, 18.14.4, 18.22.4 and 18.24.4.
    #[test]
    fn statuses_prove_types_of_current_object() {
        use Nfsstat4 as S;
        use Operation as O;
        for (operation, status, types) in [
            (O::LOOKUPP, S::NFS4_OK, Types::DIRECTORY),
            (O::LOOKUP, S::NFS4ERR_NOENT, Types::DIRECTORY),
            (O::LOOKUP, S::NFS4ERR_NOTDIR, Types::DIRECTORY.others()),
            (O::LOOKUP, S::NFS4ERR_SYMLINK, Types::LINK),
            (O::LOOKUP, S::NFS4ERR_ACCESS, Types::ANY),
            (O::REMOVE, S::NFS4ERR_NOENT, Types::DIRECTORY),
            (O::READ, S::NFS4ERR_ISDIR, Types::DIRECTORY),
            (O::READ, S::NFS4_OK, Types::FILE),
            (O::READ, S::NFS4ERR_WRONG_TYPE, Types::SPECIAL),
            (O::READLINK, S::NFS4_OK, Types::LINK),
            (O::READLINK, S::NFS4ERR_INVAL, Types::LINK.others()),
            (O::LOCK, S::NFS4ERR_DENIED, Types::FILE),
            (O::OPEN, S::NFS4_OK, Types::DIRECTORY),
            (O::GETATTR, S::NFS4_OK, Types::ANY),
            (O::SETATTR, S::NFS4ERR_ISDIR, Types::DIRECTORY),
        ] {
            assert_eq!(current(operation, status), types, "{operation:?} {status}");
        }
        let named = |status| Objects::of_v4(1, O::OPEN, true).proof(status).named;
        let types = [Types::LINK, Types::DIRECTORY].map(Entry::Present);
        assert_eq!([named(S::NFS4ERR_SYMLINK), named(S::NFS4ERR_ISDIR)], types);
        // RFC 7530 section 16.16.5: "NFS4ERR_SYMLINK is returned for both symlinks and for special files".
        let named = Objects::of_v4(0, O::OPEN, true).proof(S::NFS4ERR_SYMLINK).named;
        let Entry::Present(named) = named else { panic!("{named:?}") };
        assert!(named.has(Types::LINK) && named.has(Types::SPECIAL) && !named.has(Types::FILE), "{named:?}");
        // RFC 1813 section 3.3.12: "REMOVE can be used to remove directories".
        assert_eq!(Objects::of_v3(Procedure::REMOVE).proof(S::NFS4_OK).named, Entry::Unknown);
        let read = [0, 1].map(|minor| Objects::of_v4(minor, O::READ, true).proof(S::NFS4ERR_INVAL).current);
        assert_eq!((read[0].has(Types::FILE), read[1]), (false, Types::ANY));
        assert_eq!(Objects::of_v4(1, O::LINK, true).proof(S::NFS4_OK).saved, Types::DIRECTORY.others());
    }

    #[test]
    fn access_rights_belong_to_types() {
        assert_eq!(Types::of_access(0x1f, 0), Types::DIRECTORY);
        assert_eq!(Types::of_access(0x2d, 0x2d), Types::DIRECTORY.others());
        assert_eq!(Types::of_access(0x3f, 0x1f), Types::DIRECTORY);
        assert_eq!(Types::of_access(0x3f, 0x3f), Types::ANY);
        assert_eq!(Types::of_access(0x3f, 0), Types::ANY);
        assert_eq!(Types::of_access(0x01, 0x01), Types::ANY);
    }

    /// RFC 1813 sections 3.3.12 to 3.3.15, RFC 8881 sections 18.4.3, 18.9.4, 18.25.4 and 18.26.4.
    #[test]
    fn statuses_prove_names() {
        use Entry::{Absent, Occupied, Present, Unknown};
        use Nfsstat4 as S;
        use Procedure as P;
        let [any, directory, other] = [Types::ANY, Types::DIRECTORY, Types::DIRECTORY.others()].map(Present);
        for (procedure, status, names) in [
            (P::RMDIR, S::NFS4ERR_NOTEMPTY, [Unknown, Occupied]),
            (P::RMDIR, S::NFS4ERR_NOENT, [Unknown, Absent]),
            (P::RMDIR, S::NFS4ERR_NOTDIR, [Unknown, other]),
            (P::REMOVE, S::NFS4ERR_ISDIR, [Unknown, directory]),
            (P::LINK, S::NFS4ERR_EXIST, [Unknown, any]),
            (P::LINK, S::NFS4ERR_NOENT, [Unknown; 2]),
            (P::SYMLINK, S::NFS4ERR_EXIST, [Unknown, any]),
            (P::RENAME, S::NFS4ERR_NOENT, [Absent, Unknown]),
            (P::RENAME, S::NFS4ERR_EXIST, [any, any]),
            (P::RENAME, S::NFS4ERR_NOTEMPTY, [directory, Occupied]),
            (P::RENAME, S::NFS4ERR_ISDIR, [other, directory]),
            (P::RENAME, S::NFS4ERR_NOTDIR, [directory, other]),
            (P::RENAME, S::NFS4ERR_ACCESS, [Unknown; 2]),
        ] {
            let proof = Objects::of_v3(procedure).proof(status);
            assert_eq!([proof.old, proof.named], names, "{procedure:?} {status}");
        }
    }

    /// RFC 1813 section 3.3.14: "either both are non-directories or both are directories and the target must be empty".
    #[test]
    fn names_of_failed_rename_conflict() {
        use Entry::{Occupied, Present};
        let [any, directory, file] = [Types::ANY, Types::DIRECTORY, Types::FILE];
        let [is_directory, other] = [directory, directory.others()].map(Present);
        assert_eq!(conflict(file, any), [other, is_directory]);
        assert_eq!(conflict(any, file), [is_directory, other]);
        for [old, named] in [[any, any], [directory, any], [any, directory], [directory, directory]] {
            assert_eq!(conflict(old, named), [is_directory, Occupied]);
        }
    }

    /// A success proves the type of each object that the operation needs; NFS4ERR_STALE proves nothing.
    #[test]
    fn success_proves_type_of_each_needed_object() {
        let v3 = Procedure::ALL.iter().copied().map(Objects::of_v3);
        let v4 = Operation::ALL.iter().map(|operation| Objects::of_v4(1, *operation, true));
        for objects in v3.chain(v4) {
            let success = objects.proof(Nfsstat4::NFS4_OK);
            assert_eq!(success.current == Types::ANY, objects == Objects::Any, "{objects:?}");
            assert_eq!(objects.proof(Nfsstat4::NFS4ERR_STALE), Proof::default(), "{objects:?}");
        }
    }
}
