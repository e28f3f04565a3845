//! RQUOTA version 2: quotas of users and of groups.

use super::{GetquotaOk, GqrStatus, Pathp, SetquotaOk, SqDqblk};
use crate::nfs::status_union::StatusUnion;
use crate::xdr::Void;

crate::xdr! { "rquota";
    /// Type of a quota.
    open_enum QuotaType { RQUOTA_USRQUOTA = 0, RQUOTA_GRPQUOTA = 1 }

    /// ext_getquota_args.
    struct ExtGetquotaArgs<'a> {
        gqa_pathp: Pathp<'a> => "rquota.pathp",
        gqa_type: QuotaType => "rquota.type",
        gqa_id: i32 => "rquota.id",
    }

    /// ext_setquota_args.
    struct ExtSetquotaArgs<'a> {
        /// The command of quotactl(2).
        sqa_qcmd: i32,
        sqa_pathp: Pathp<'a> => "rquota.pathp",
        sqa_id: i32 => "rquota.id",
        sqa_type: QuotaType => "rquota.type",
        sqa_dqblk: SqDqblk,
    }
}

crate::operations! { "rquota";
    /// The procedures.
    Procedure, ProcedureNumber, Args<'a>, Results<>:
    0 NULL(Void) -> Void, "Do nothing";
    1 GETQUOTA(ExtGetquotaArgs<'a>) -> StatusUnion<GqrStatus, GetquotaOk>, "Get all quotas";
    2 GETACTIVEQUOTA(ExtGetquotaArgs<'a>) -> StatusUnion<GqrStatus, GetquotaOk>, "Get quotas that are enforced";
    3 SETQUOTA(ExtSetquotaArgs<'a>) -> StatusUnion<GqrStatus, SetquotaOk>, "Set all quotas";
    4 SETACTIVEQUOTA(ExtSetquotaArgs<'a>) -> StatusUnion<GqrStatus, SetquotaOk>, "Set quotas that are enforced";
}
