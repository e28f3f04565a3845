//! NSM, the Network Status Monitor, which notifies NLM of host restarts. XNFS version 3W chapter 11.

use crate::rpc::program::Program;
use crate::xdr::{Text, Void};

/// Name of a host, at most SM_MAXSTRLEN bytes. XNFS section 11.
pub type NsmHostname<'a> = Text<'a, 1024>;

crate::xdr! { "stat";
    /// res: the result of a request to monitor a host. XNFS section 11, SM_STAT.
    enum SmRes { STAT_SUCC = 0, STAT_FAIL = 1 }

    /// sm_name. XNFS section 11, SM_STAT.
    struct SmName<'a> { mon_name: NsmHostname<'a> => "stat.name" }

    /// sm_stat_res: the state number is odd while the host is up, and increases when it starts and stops. XNFS section
    /// 11, SM_STAT.
    struct SmStatRes { res_stat: SmRes => "stat.stat_res.res", state: i32 => "stat.stat_res.state" }

    /// sm_stat: the state number of the replying host. XNFS section 11, SM_UNMON.
    struct SmStat { state: i32 }

    /// my_id: the requester, and the procedure to call back. XNFS section 11, SM_MON.
    struct MyId<'a> {
        my_name: NsmHostname<'a> => "stat.my_id.hostname",
        my_prog: Program => "stat.my_id.prog",
        my_vers: i32 => "stat.my_id.vers",
        my_proc: i32 => "stat.my_id.proc",
    }

    /// mon_id: the monitored host, and the requester. XNFS section 11, SM_MON.
    struct MonId<'a> { mon_name: NsmHostname<'a> => "stat.mon_id.name", my_id: MyId<'a> }

    /// mon. XNFS section 11, SM_MON.
    struct Mon<'a> {
        mon_id: MonId<'a> => "stat.mon",
        /// Opaque data returned in the callback.
        r#priv: [u8; 16] => "stat.priv",
    }

    /// stat_chge: the restarted host, and its new state number. XNFS section 11, SM_NOTIFY.
    struct StatChge<'a> { mon_name: NsmHostname<'a> => "stat.mon_id.name", state: i32 }
}

crate::xdr! { "statnotify";
    /// status: the notification to a requester, in a call of the procedure named in SM_MON. XNFS section 11, SM_NOTIFY.
    struct SmStatus<'a> { mon_name: NsmHostname<'a> => "statnotify.name", state: i32, r#priv: [u8; 16] => "statnotify.priv" }
}

crate::operations! { "stat";
    /// The procedures. XNFS section 11.
    Procedure, ProcedureNumber, Args<'a>, Results<>:
    0 NULL(Void) -> Void, "Do nothing. XNFS section 11";
    1 STAT(SmName<'a>) -> SmStatRes, "Ask whether a host can be watched. XNFS section 11, SM_STAT";
    2 MON(Mon<'a>) -> SmStatRes, "Watch a host. XNFS section 11, SM_MON";
    3 UNMON(MonId<'a>) -> SmStat, "Stop monitoring a host. XNFS section 11, SM_UNMON";
    4 UNMON_ALL(MyId<'a>) -> SmStat, "Stop monitoring all hosts. XNFS section 11, SM_UNMON_ALL";
    5 SIMU_CRASH(Void) -> Void, "Simulate a crash: notify all hosts. XNFS section 11, SM_SIMU_CRASH";
    6 NOTIFY(StatChge<'a>) -> Void, "Notify another host that this one has restarted. XNFS section 11, SM_NOTIFY";
}

#[cfg(test)]
pub(super) mod tests;
