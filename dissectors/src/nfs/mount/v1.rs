//! MOUNT version 1, for NFSv2. RFC 1094 appendix A.

use super::{DirpathArgs, FhstatusCode, FhstatusDirectory, MountExports, Mountlist};
use crate::nfs::status_union::StatusUnion;
use crate::xdr::Void;

crate::operations! { "mount";
    /// The procedures. RFC 1094 section A.5; the rest is from the protocol's XDR file.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 1094 section A.5.1";
    1 MNT(DirpathArgs<'a>) -> StatusUnion<FhstatusCode, FhstatusDirectory>, "Add mount entry. RFC 1094 section A.5.2";
    2 DUMP(Void) -> Mountlist<'a>, "Return mount entries. RFC 1094 section A.5.3";
    3 UMNT(DirpathArgs<'a>) -> Void, "Remove mount entry. RFC 1094 section A.5.4";
    4 UMNTALL(Void) -> Void, "Remove all mount entries. RFC 1094 section A.5.5";
    5 EXPORT(Void) -> MountExports<'a>, "Return export list. RFC 1094 section A.5.6";
    6 EXPORTALL(Void) -> MountExports<'a>, "Return export list, as EXPORT does";
}
