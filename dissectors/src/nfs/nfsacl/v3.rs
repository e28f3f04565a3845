//! NFSACL version 3, for files of NFSv3.

use super::{AclMask, Secattr};
use crate::nfs::status_union::StatusUnion;
use crate::nfs::v3::{NfsFh3, Nfsstat3, PostOpAttr};
use crate::xdr::Void;

crate::xdr! { "nfsacl";
    /// GETACL3args.
    struct Getacl3Args<'a> { fh: NfsFh3<'a> => "nfs.fhandle", mask: AclMask }

    /// GETACL3resok.
    struct Getacl3Resok<'a> { attr: PostOpAttr, acl: Secattr<'a> }

    /// SETACL3args.
    struct Setacl3Args<'a> { fh: NfsFh3<'a> => "nfs.fhandle", acl: Secattr<'a> }

    /// SETACL3resok, and GETACL3resfail and SETACL3resfail.
    struct Nfsacl3AttrResult { attr: PostOpAttr }

    /// GETXATTRDIR3args.
    struct Getxattrdir3Args<'a> { fh: NfsFh3<'a> => "nfs.fhandle", create: bool }

    /// GETXATTRDIR3resok.
    struct Getxattrdir3Resok<'a> { fh: NfsFh3<'a> => "nfs.fhandle", attr: PostOpAttr }
}

crate::operations! { "nfsacl";
    /// The procedures. The last is specific to Solaris.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing";
    1 GETACL(Getacl3Args<'a>) -> StatusUnion<Nfsstat3, Getacl3Resok<'a>, Nfsacl3AttrResult>, "Get the access control lists";
    2 SETACL(Setacl3Args<'a>) -> StatusUnion<Nfsstat3, Nfsacl3AttrResult, Nfsacl3AttrResult>, "Set the access control lists";
    3 GETXATTRDIR(Getxattrdir3Args<'a>) -> StatusUnion<Nfsstat3, Getxattrdir3Resok<'a>>,
        "Get the directory of extended attributes";
}
