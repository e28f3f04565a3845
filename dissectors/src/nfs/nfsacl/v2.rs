//! NFSACL version 2, for files of NFSv2.

use super::{AclMask, Secattr};
use crate::nfs::status_union::StatusUnion;
use crate::nfs::v2::{Fattr, Fhandle, Nfsstat};
use crate::nfs::v3::Access3;
use crate::xdr::Void;

crate::xdr! { "nfsacl";
    /// GETACL2args.
    struct Getacl2Args { fh: Fhandle => "nfs.fhandle", mask: AclMask }

    /// GETACL2resok.
    struct Getacl2Resok<'a> { attr: Fattr, acl: Secattr<'a> }

    /// SETACL2args.
    struct Setacl2Args<'a> { fh: Fhandle => "nfs.fhandle", acl: Secattr<'a> }

    /// SETACL2resok and GETATTR2resok.
    struct Nfsacl2AttrResok { attr: Fattr }

    /// GETATTR2args.
    struct Getattr2Args { fh: Fhandle => "nfs.fhandle" }

    /// ACCESS2args: the rights are those of NFSv3.
    struct Access2Args { fh: Fhandle => "nfs.fhandle", access: Access3 => "nfs.access_check" }

    /// ACCESS2resok.
    struct Access2Resok { attr: Fattr, access: Access3 => "nfs.access_rights" }

    /// GETXATTRDIR2args.
    struct Getxattrdir2Args { fh: Fhandle => "nfs.fhandle", create: bool }

    /// GETXATTRDIR2resok.
    struct Getxattrdir2Resok { fh: Fhandle => "nfs.fhandle", attr: Fattr }
}

crate::operations! { "nfsacl";
    /// The procedures. The last is specific to Solaris.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing";
    1 GETACL(Getacl2Args) -> StatusUnion<Nfsstat, Getacl2Resok<'a>>, "Get the access control lists";
    2 SETACL(Setacl2Args<'a>) -> StatusUnion<Nfsstat, Nfsacl2AttrResok>, "Set the access control lists";
    3 GETATTR(Getattr2Args) -> StatusUnion<Nfsstat, Nfsacl2AttrResok>, "Get file attributes";
    4 ACCESS(Access2Args) -> StatusUnion<Nfsstat, Access2Resok>, "Check access permission, as ACCESS of NFSv3 does";
    5 GETXATTRDIR(Getxattrdir2Args) -> StatusUnion<Nfsstat, Getxattrdir2Resok>, "Get the directory of extended attributes";
}
