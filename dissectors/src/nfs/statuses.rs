//! Statuses of all programs, as discriminants of their unions.

use super::status_union::{ProcedureStatus, StatusUnionDiscriminant};
use super::{mount, nlm, nsm, rquota, v2, v3, v4};
use crate::field::{FieldDefinition, FieldKind};

macro_rules! statuses {
    ($($status:path: $ok:ident, $filter:literal $label:literal, $doc:literal;)*) => {$(
        impl StatusUnionDiscriminant for $status {
            const OK: Self = Self::$ok;
            const FIELD: &'static FieldDefinition =
                &FieldDefinition { name: $filter, label: $label, kind: FieldKind::Enum, doc: $doc };

            fn status(self) -> ProcedureStatus {
                ProcedureStatus { number: self.0, name: self.name(), is_ok: self == Self::OK }
            }
        }
    )*};
}
statuses! {
    v2::Nfsstat: NFS_OK, "nfs.status2" "status", "Status of the procedure. RFC 1094 section 2.3.1";
    v3::Nfsstat3: NFS3_OK, "nfs.status3" "status", "Status of the procedure. RFC 1813 section 2.6";
    v4::status::Nfsstat4: NFS4_OK, "nfs.nfsstat4" "status", "Status of the operation. RFC 8881 section 15.";
    mount::FhstatusCode: MNT_OK, "mount.status" "status",
        "Status of the mount request. RFC 1094 section A.4.2, RFC 1813 section 5.2.1";
    mount::Mountstat3: MNT3_OK, "mount.status" "fhs_status",
        "Status of the mount request. RFC 1094 section A.4.2, RFC 1813 section 5.2.1";
    nlm::v3::NlmStats: LCK_GRANTED, "nlm.stat" "stat", "Result: the lock was granted or not. XNFS section 10";
    nlm::v4::Nlm4Stats: NLM4_GRANTED, "nlm.stat" "stat", "Result: the lock was granted or not. RFC 1813 section 6.1.4";
    nsm::SmRes: STAT_SUCC, "stat.stat_res.res" "res_stat",
        "Result: the host can be monitored or not. XNFS section 11, SM_STAT";
    rquota::GqrStatus: Q_OK, "rquota.status" "status", "Status: the caller may see or set a quota, or not";
}
