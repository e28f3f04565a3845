//! NLM version 4, for NFSv3. RFC 1813 section 6, which describes the differences to version 3.

use super::{CallerName, Netobj, NlmNotify, NlmShareargs};
use crate::nfs::nsm;
use crate::xdr::Void;

crate::xdr! { "nlm";
    /// nlm4_stats. RFC 1813 section 6.1.4.
    enum Nlm4Stats {
        NLM4_GRANTED = 0,
        NLM4_DENIED = 1,
        NLM4_DENIED_NOLOCKS = 2,
        NLM4_BLOCKED = 3,
        NLM4_DENIED_GRACE_PERIOD = 4,
        NLM4_DEADLCK = 5,
        NLM4_ROFS = 6,
        NLM4_STALE_FH = 7,
        NLM4_FBIG = 8,
        NLM4_FAILED = 9,
    }

    /// nlm4_holder: the holder of a conflicting lock. RFC 1813 section 6.1.4.
    struct Nlm4Holder<'a> {
        exclusive: bool,
        svid: i32 => "nlm.lock.svid",
        oh: Netobj<'a> => "nlm.lock.owner",
        l_offset: u64 => "nlm.lock.l_offset64",
        l_len: u64 => "nlm.lock.l_len64",
    }

    /// nlm4_lock: a range of a file; length 0 means to the end of the file. RFC 1813 section 6.1.4.
    struct Nlm4Lock<'a> {
        caller_name: CallerName<'a> => "nlm.lock.caller_name",
        fh: Netobj<'a> => "nfs.fhandle",
        oh: Netobj<'a> => "nlm.lock.owner",
        svid: i32 => "nlm.lock.svid",
        l_offset: u64 => "nlm.lock.l_offset64",
        l_len: u64 => "nlm.lock.l_len64",
    }

    /// nlm4_testargs. XNFS section 10, NLM_TEST.
    struct Nlm4Testargs<'a> { cookie: Netobj<'a>, exclusive: bool, alock: Nlm4Lock<'a> => "nlm.lock" }

    /// nlm4_lockargs. XNFS section 10, NLM_LOCK.
    struct Nlm4Lockargs<'a> {
        cookie: Netobj<'a>,
        block: bool,
        exclusive: bool,
        alock: Nlm4Lock<'a> => "nlm.lock",
        reclaim: bool,
        /// State number of the client's status monitor (NSM).
        state: i32,
    }

    /// nlm4_cancargs. XNFS section 10, NLM_CANCEL.
    struct Nlm4Cancargs<'a> {
        cookie: Netobj<'a>,
        block: bool,
        exclusive: bool,
        alock: Nlm4Lock<'a> => "nlm.lock",
    }

    /// nlm4_unlockargs. XNFS section 10, NLM_UNLOCK.
    struct Nlm4Unlockargs<'a> { cookie: Netobj<'a>, alock: Nlm4Lock<'a> => "nlm.lock" }

    /// nlm4_testrply. XNFS section 10, NLM_TEST.
    union Nlm4Testrply<'a> switch (stat: Nlm4Stats => "nlm.test_stat.stat") {
        NLM4_DENIED => Denied(Nlm4Holder<'a>) as holder,
        default => Other,
    }

    /// nlm4_testres. XNFS section 10, NLM_TEST.
    struct Nlm4Testres<'a> { cookie: Netobj<'a>, test_stat: Nlm4Testrply<'a> }

    /// nlm4_res. XNFS section 10, NLM_LOCK.
    struct Nlm4Res<'a> { cookie: Netobj<'a>, stat: Nlm4Stats }

    /// nlm4_shareres. XNFS section 10, NLM_SHARE.
    struct Nlm4Shareres<'a> { cookie: Netobj<'a>, stat: Nlm4Stats, sequence: i32 }
}

crate::operations! { "nlm";
    /// The procedures. RFC 1813 section 6.2. Those that end in `_MSG` and `_RES` are one-way: there is no Reply.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. RFC 1813 section 6.2.0";
    1 TEST(Nlm4Testargs<'a>) -> Nlm4Testres<'a>, "Ask whether a lock would be granted. RFC 1813 section 6.2, NLMPROC4_TEST";
    2 LOCK(Nlm4Lockargs<'a>) -> Nlm4Res<'a>, "Ask for a lock. RFC 1813 section 6.2, NLMPROC4_LOCK";
    3 CANCEL(Nlm4Cancargs<'a>) -> Nlm4Res<'a>, "Cancel a blocked lock request. RFC 1813 section 6.2, NLMPROC4_CANCEL";
    4 UNLOCK(Nlm4Unlockargs<'a>) -> Nlm4Res<'a>, "Release a lock. RFC 1813 section 6.2, NLMPROC4_UNLOCK";
    5 GRANTED(Nlm4Testargs<'a>) -> Nlm4Res<'a>,
        "Callback: the lock that was waited for is granted. RFC 1813 section 6.2, NLMPROC4_GRANTED";
    6 TEST_MSG(Nlm4Testargs<'a>) -> Void, "TEST, one-way. RFC 1813 section 6.2, NLMPROC4_TEST_MSG";
    7 LOCK_MSG(Nlm4Lockargs<'a>) -> Void, "LOCK, one-way. RFC 1813 section 6.2, NLMPROC4_LOCK_MSG";
    8 CANCEL_MSG(Nlm4Cancargs<'a>) -> Void, "CANCEL, one-way. RFC 1813 section 6.2, NLMPROC4_CANCEL_MSG";
    9 UNLOCK_MSG(Nlm4Unlockargs<'a>) -> Void, "UNLOCK, one-way. RFC 1813 section 6.2, NLMPROC4_UNLOCK_MSG";
    10 GRANTED_MSG(Nlm4Testargs<'a>) -> Void, "GRANTED, one-way. RFC 1813 section 6.2, NLMPROC4_GRANTED_MSG";
    11 TEST_RES(Nlm4Testres<'a>) -> Void, "Result of TEST_MSG. RFC 1813 section 6.2, NLMPROC4_TEST_RES";
    12 LOCK_RES(Nlm4Res<'a>) -> Void, "Result of LOCK_MSG. RFC 1813 section 6.2, NLMPROC4_LOCK_RES";
    13 CANCEL_RES(Nlm4Res<'a>) -> Void, "Result of CANCEL_MSG. RFC 1813 section 6.2, NLMPROC4_CANCEL_RES";
    14 UNLOCK_RES(Nlm4Res<'a>) -> Void, "Result of UNLOCK_MSG. RFC 1813 section 6.2, NLMPROC4_UNLOCK_RES";
    15 GRANTED_RES(Nlm4Res<'a>) -> Void, "Result of GRANTED_MSG. RFC 1813 section 6.2, NLMPROC4_GRANTED_RES";
    16 NSM_NOTIFY(nsm::SmStatus<'a>) -> Void,
        "Callback of NSM on the same host: Linux has it called here. XNFS section 11, SM_NOTIFY";
    20 SHARE(NlmShareargs<'a>) -> Nlm4Shareres<'a>, "Open a file as DOS does. RFC 1813 section 6.2, NLMPROC4_SHARE";
    21 UNSHARE(NlmShareargs<'a>) -> Nlm4Shareres<'a>, "Close a file as DOS does. RFC 1813 section 6.2, NLMPROC4_UNSHARE";
    22 NM_LOCK(Nlm4Lockargs<'a>) -> Nlm4Res<'a>, "Ask for a lock that NSM does not watch. RFC 1813 section 6.2, NLMPROC4_NM_LOCK";
    23 FREE_ALL(NlmNotify<'a>) -> Void, "Give back all locks of a host. RFC 1813 section 6.2, NLMPROC4_FREE_ALL";
}
