//! NSM, the Network Status Monitor, which tells NLM that a host was started anew. XNFS version 3W chapter 11.

use crate::field::{Field, FieldKind};
use crate::nfs::{self, ProcedureStatus};
use crate::rpc::Program;
use crate::xdr::{Cursor, Text, Void, XdrError};

/// The name of a host; SM_MAXSTRLEN is its bound. XNFS section 11.
pub type Hostname<'a> = Text<'a, 1024>;

crate::xdr! { "stat";
    /// res: whether the host can be watched. XNFS section 11, SM_STAT.
    enum SmRes { STAT_SUCC = 0, STAT_FAIL = 1 }

    /// sm_name. XNFS section 11, SM_STAT.
    struct SmName<'a> { mon_name: Hostname<'a> => "stat.name" }

    /// sm_stat_res: the state is a number that is odd while the host is up, and rises as it starts and stops.
    /// XNFS section 11, SM_STAT.
    struct SmStatRes { res_stat: SmRes => "stat.stat_res.res", state: i32 => "stat.stat_res.state" }

    /// sm_stat: the state of the host that answers. XNFS section 11, SM_UNMON.
    struct SmStat { state: i32 }

    /// my_id: who asks, and the procedure that is to be called back. XNFS section 11, SM_MON.
    struct MyId<'a> {
        my_name: Hostname<'a> => "stat.my_id.hostname",
        my_prog: Program => "stat.my_id.prog",
        my_vers: i32 => "stat.my_id.vers",
        my_proc: i32 => "stat.my_id.proc",
    }

    /// mon_id: who is to be watched, and for whom. XNFS section 11, SM_MON.
    struct MonId<'a> { mon_name: Hostname<'a> => "stat.mon_id.name", my_id: MyId<'a> }

    /// mon. XNFS section 11, SM_MON.
    struct Mon<'a> {
        mon_id: MonId<'a> => "stat.mon",
        /// What the callback brings back.
        r#priv: [u8; 16] => "stat.priv",
    }

    /// stat_chge: the host that was started anew, and its new state. XNFS section 11, SM_NOTIFY.
    struct StatChge<'a> { mon_name: Hostname<'a> => "stat.mon_id.name", state: i32 }
}

crate::xdr! { "statnotify";
    /// status: what the monitor tells those who asked for it, in a Call of the procedure that SM_MON named.
    /// XNFS section 11, SM_NOTIFY.
    struct SmStatus<'a> { mon_name: Hostname<'a> => "statnotify.name", state: i32, r#priv: [u8; 16] => "statnotify.priv" }
}

impl nfs::ResultStatus for SmRes {
    const OK: Self = Self::STAT_SUCC;
    const FIELD: &'static Field = &Field {
        name: "stat.stat_res.res",
        label: "res_stat",
        kind: FieldKind::Enum,
        doc: "Whether the host can be watched. XNFS section 11, SM_STAT",
    };
}

crate::operations! { "stat";
    /// The procedures. XNFS section 11.
    Procedure, Args<'a>, Results<>:
    0 NULL(Void) -> Void, "Do nothing. XNFS section 11";
    1 STAT(SmName<'a>) -> SmStatRes, "Ask whether a host can be watched. XNFS section 11, SM_STAT";
    2 MON(Mon<'a>) -> SmStatRes, "Watch a host. XNFS section 11, SM_MON";
    3 UNMON(MonId<'a>) -> SmStat, "Watch a host no more. XNFS section 11, SM_UNMON";
    4 UNMON_ALL(MyId<'a>) -> SmStat, "Watch no host any more. XNFS section 11, SM_UNMON_ALL";
    5 SIMU_CRASH(Void) -> Void, "Tell all hosts of a crash that was none. XNFS section 11, SM_SIMU_CRASH";
    6 NOTIFY(StatChge<'a>) -> Void, "Tell another host that this one was started anew. XNFS section 11, SM_NOTIFY";
}

impl Procedure {
    /// Reads from the results how it went; `None` for those that have no status. XNFS section 11.
    ///
    /// # Errors
    /// Where the message ends before the status.
    pub fn status(self, mut results: Cursor<'_>) -> Result<Option<ProcedureStatus>, XdrError> {
        match self {
            Self::STAT | Self::MON => ProcedureStatus::read::<SmRes>(&mut results).map(Some),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
