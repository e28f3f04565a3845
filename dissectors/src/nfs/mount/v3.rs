//! MOUNT version 3, for NFSv3. RFC 1813 section 5.

use super::{DirpathArgs, MountExports, Mountlist, Mountres3Ok, Mountstat3};
use crate::nfs::status_union::StatusUnion;
use crate::xdr::Void;

crate::operations! { "mount";
    /// The procedures. RFC 1813 section 5.2.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 1813 section 5.2.0";
    1 MNT(DirpathArgs<'a>) -> StatusUnion<Mountstat3, Mountres3Ok<'a>>, "Add mount entry. RFC 1813 section 5.2.1";
    2 DUMP(Void) -> Mountlist<'a>, "Return mount entries. RFC 1813 section 5.2.2";
    3 UMNT(DirpathArgs<'a>) -> Void, "Remove mount entry. RFC 1813 section 5.2.3";
    4 UMNTALL(Void) -> Void, "Remove all mount entries. RFC 1813 section 5.2.4";
    5 EXPORT(Void) -> MountExports<'a>, "Return export list. RFC 1813 section 5.2.5";
}
