//! RQUOTA, which gets and sets quotas of users (version 1), or of users and groups (version 2). The program has no RFC;
//! the names are those of its XDR file.

pub mod v1;
pub mod v2;

use crate::xdr::Text;

/// Path in the file system, at most RQ_PATHLEN bytes.
pub type Pathp<'a> = Text<'a, 1024>;

crate::xdr! { "rquota";
    /// gqr_status. Value 0 is undefined.
    enum GqrStatus { Q_OK = 1, Q_NOQUOTA = 2, Q_EPERM = 3 }

    /// rquota: limits and usage of a user or group, in blocks of rq_bsize bytes.
    struct Rquota {
        rq_bsize: i32 => "rquota.bsize",
        rq_active: bool => "rquota.active",
        rq_bhardlimit: u32 => "rquota.bhardlimit",
        rq_bsoftlimit: u32 => "rquota.bsoftlimit",
        rq_curblocks: u32 => "rquota.curblocks",
        rq_fhardlimit: u32 => "rquota.fhardlimit",
        rq_fsoftlimit: u32 => "rquota.fsoftlimit",
        rq_curfiles: u32 => "rquota.curfiles",
        /// Seconds left until the block soft limit is enforced.
        rq_btimeleft: u32 => "rquota.btimeleft",
        /// Seconds left until the file soft limit is enforced.
        rq_ftimeleft: u32 => "rquota.ftimeleft",
    }

    /// sq_dqblk: limits and usage to set.
    struct SqDqblk {
        rq_bhardlimit: u32 => "rquota.bhardlimit",
        rq_bsoftlimit: u32 => "rquota.bsoftlimit",
        rq_curblocks: u32 => "rquota.curblocks",
        rq_fhardlimit: u32 => "rquota.fhardlimit",
        rq_fsoftlimit: u32 => "rquota.fsoftlimit",
        rq_curfiles: u32 => "rquota.curfiles",
        rq_btimeleft: u32 => "rquota.btimeleft",
        rq_ftimeleft: u32 => "rquota.ftimeleft",
    }

    /// getquota_rslt, with status Q_OK.
    struct GetquotaOk { gqr_rquota: Rquota => "rquota.rquota" }

    /// setquota_rslt, with status Q_OK.
    struct SetquotaOk { sqr_rquota: Rquota => "rquota.rquota" }
}

#[cfg(test)]
pub(super) mod tests;
