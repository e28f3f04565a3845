//! NFSACL, POSIX access control lists for NFSv2 (version 2) and NFSv3 (version 3), mostly on the same connection.
//!
//! The program has no specification; RFC 8267 section 5 calls it a de facto standard. The names are those of its XDR
//! file. None of its items is DDP-eligible: RFC 8267 section 5.2.

pub mod v2;
pub mod v3;

use crate::xdr::XdrArray;

crate::xdr! { "nfsacl";
    /// Parts of the lists that are requested or returned.
    flags AclMask { NA_ACL = 0x1, NA_ACLCNT = 0x2, NA_DFACL = 0x4, NA_DFACLCNT = 0x8 }

    /// Subject of an entry, and a flag for the default list, which new files of a directory inherit.
    flags AclentType {
        NA_USER_OBJ = 0x1,
        NA_USER = 0x2,
        NA_GROUP_OBJ = 0x4,
        NA_GROUP = 0x8,
        NA_CLASS_OBJ = 0x10,
        NA_OTHER_OBJ = 0x20,
        NA_ACL_DEFAULT = 0x1000,
    }

    /// Permissions of an entry.
    flags AclentPerm { NA_READ = 0x4, NA_WRITE = 0x2, NA_EXEC = 0x1 }

    /// aclent: one entry.
    struct Aclent {
        r#type: AclentType => "nfsacl.aclent.type",
        /// User or group identifier; meaningless for other types.
        id: u32 => "nfsacl.aclent.uid",
        perm: AclentPerm => "nfsacl.aclent.perm",
    }

    /// secattr: the list of an object, and the default list of a directory. The counts are present even without the
    /// lists.
    struct Secattr<'a> {
        mask: AclMask,
        aclcnt: u32,
        aclent: XdrArray<'a, Aclent, 1024>,
        dfaclcnt: u32,
        dfaclent: XdrArray<'a, Aclent, 1024> => "nfsacl.aclent",
    }
}

#[cfg(test)]
pub(super) mod tests;
