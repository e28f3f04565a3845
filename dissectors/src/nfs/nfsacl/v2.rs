//! NFSACL version 2, for files of NFSv2.

use crate::nfs::v2::{Fattr, Fhandle, Nfsstat};
use crate::nfs::v3::Access3;
use crate::nfs::{Outcome, ProcedureStatus};
use crate::xdr::{Cursor, Error, Void};

use super::types::{AclMask, Secattr};

crate::xdr! { "nfsacl";
    /// GETACL2args.
    struct GetaclArgs { fh: Fhandle => "nfs.fhandle", mask: AclMask }

    /// GETACL2resok.
    struct GetaclOk<'a> { attr: Fattr, acl: Secattr<'a> }

    /// SETACL2args.
    struct SetaclArgs<'a> { fh: Fhandle => "nfs.fhandle", acl: Secattr<'a> }

    /// SETACL2resok and GETATTR2resok.
    struct AttrOk { attr: Fattr }

    /// GETATTR2args.
    struct GetattrArgs { fh: Fhandle => "nfs.fhandle" }

    /// ACCESS2args: the rights are those of NFSv3.
    struct AccessArgs { fh: Fhandle => "nfs.fhandle", access: Access3 => "nfs.access_check" }

    /// ACCESS2resok.
    struct AccessOk { attr: Fattr, access: Access3 => "nfs.access_rights" }

    /// GETXATTRDIR2args.
    struct GetxattrdirArgs { fh: Fhandle => "nfs.fhandle", create: bool }

    /// GETXATTRDIR2resok.
    struct GetxattrdirOk { fh: Fhandle => "nfs.fhandle", attr: Fattr }
}

crate::operations! { "nfsacl";
    /// The procedures. The last is of Solaris.
    Procedure, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing";
    1 GETACL(GetaclArgs) -> Outcome<Nfsstat, GetaclOk<'a>>, "Get the access control lists";
    2 SETACL(SetaclArgs<'a>) -> Outcome<Nfsstat, AttrOk>, "Set the access control lists";
    3 GETATTR(GetattrArgs) -> Outcome<Nfsstat, AttrOk>, "Get file attributes";
    4 ACCESS(AccessArgs) -> Outcome<Nfsstat, AccessOk>, "Check access permission, as ACCESS of NFSv3 does";
    5 GETXATTRDIR(GetxattrdirArgs) -> Outcome<Nfsstat, GetxattrdirOk>, "Get the directory of extended attributes";
}

impl Procedure {
    /// Reads from the results how it went; `None` for NULL.
    ///
    /// # Errors
    /// Where the message ends before the status.
    pub fn status(self, mut results: Cursor<'_>) -> Result<Option<ProcedureStatus>, Error> {
        match self {
            Self::NULL => Ok(None),
            _ => ProcedureStatus::read::<Nfsstat>(&mut results).map(Some),
        }
    }
}
