//! RQUOTA version 1: quotas of users.

use super::{GetquotaOk, GqrStatus, Pathp, SetquotaOk, SqDqblk};
use crate::nfs::status_union::StatusUnion;
use crate::xdr::Void;

crate::xdr! { "rquota";
    /// getquota_args.
    struct GetquotaArgs<'a> { gqa_pathp: Pathp<'a> => "rquota.pathp", gqa_uid: i32 => "rquota.uid" }

    /// setquota_args.
    struct SetquotaArgs<'a> {
        /// The command of quotactl(2).
        sqa_qcmd: i32,
        sqa_pathp: Pathp<'a> => "rquota.pathp",
        sqa_id: i32 => "rquota.id",
        sqa_dqblk: SqDqblk,
    }
}

crate::operations! { "rquota";
    /// The procedures.
    Procedure, ProcedureNumber, Args<'a>, Results<>:
    0 NULL(Void) -> Void, "Do nothing";
    1 GETQUOTA(GetquotaArgs<'a>) -> StatusUnion<GqrStatus, GetquotaOk>, "Get all quotas";
    2 GETACTIVEQUOTA(GetquotaArgs<'a>) -> StatusUnion<GqrStatus, GetquotaOk>, "Get quotas that are enforced";
    3 SETQUOTA(SetquotaArgs<'a>) -> StatusUnion<GqrStatus, SetquotaOk>, "Set all quotas";
    4 SETACTIVEQUOTA(SetquotaArgs<'a>) -> StatusUnion<GqrStatus, SetquotaOk>, "Set quotas that are enforced";
}
