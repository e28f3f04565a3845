//! Error statuses that both versions of NFS share.

use nfsrdma_dissectors::nfs::v4::Nfsstat4;

/// An error status that nfsstat3 (RFC 1813 section 2.6) and nfsstat4 (RFC 7530 section 13) share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MockNfsError(pub u32);

#[allow(missing_docs, reason = "the names of the RFCs")]
impl MockNfsError {
    pub const PERM: Self = Self(1);
    pub const NOENT: Self = Self(2);
    pub const EXIST: Self = Self(17);
    pub const NOTDIR: Self = Self(20);
    pub const ISDIR: Self = Self(21);
    pub const INVAL: Self = Self(22);
    pub const FBIG: Self = Self(27);
    pub const NOSPC: Self = Self(28);
    pub const NAMETOOLONG: Self = Self(63);
    pub const NOTEMPTY: Self = Self(66);
    pub const STALE: Self = Self(70);
    pub const BADHANDLE: Self = Self(10001);
}

impl From<MockNfsError> for Nfsstat4 {
    fn from(error: MockNfsError) -> Self {
        // Both versions share these numbers.
        Self(error.0)
    }
}
