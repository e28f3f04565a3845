//! NFSACL version 3, for files of NFSv3.

use crate::nfs::v3::{NfsFh3, Nfsstat3, PostOpAttr};
use crate::nfs::{Outcome, ProcedureStatus};
use crate::xdr::{Cursor, Error, Void};

use super::types::{AclMask, Secattr};

crate::xdr! { "nfsacl";
    /// GETACL3args.
    struct GetaclArgs<'a> { fh: NfsFh3<'a> => "nfs.fhandle", mask: AclMask }

    /// GETACL3resok.
    struct GetaclOk<'a> { attr: PostOpAttr, acl: Secattr<'a> }

    /// SETACL3args.
    struct SetaclArgs<'a> { fh: NfsFh3<'a> => "nfs.fhandle", acl: Secattr<'a> }

    /// SETACL3resok, and GETACL3resfail and SETACL3resfail.
    struct Attr { attr: PostOpAttr }

    /// GETXATTRDIR3args.
    struct GetxattrdirArgs<'a> { fh: NfsFh3<'a> => "nfs.fhandle", create: bool }

    /// GETXATTRDIR3resok.
    struct GetxattrdirOk<'a> { fh: NfsFh3<'a> => "nfs.fhandle", attr: PostOpAttr }
}

crate::operations! { "nfsacl";
    /// The procedures. The last is of Solaris.
    Procedure, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing";
    1 GETACL(GetaclArgs<'a>) -> Outcome<Nfsstat3, GetaclOk<'a>, Attr>, "Get the access control lists";
    2 SETACL(SetaclArgs<'a>) -> Outcome<Nfsstat3, Attr, Attr>, "Set the access control lists";
    3 GETXATTRDIR(GetxattrdirArgs<'a>) -> Outcome<Nfsstat3, GetxattrdirOk<'a>>,
        "Get the directory of extended attributes";
}

impl Procedure {
    /// Reads from the results how it went; `None` for NULL.
    ///
    /// # Errors
    /// Where the message ends before the status.
    pub fn status(self, mut results: Cursor<'_>) -> Result<Option<ProcedureStatus>, Error> {
        match self {
            Self::NULL => Ok(None),
            _ => ProcedureStatus::read::<Nfsstat3>(&mut results).map(Some),
        }
    }
}
