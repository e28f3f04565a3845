//! NLM version 3, for NFSv2. XNFS version 3W chapter 10.

use super::{CallerName, Netobj, NlmNotify, NlmShareargs};
use crate::nfs::nsm;
use crate::xdr::Void;

crate::xdr! { "nlm";
    /// nlm_stats. XNFS section 10; implementations also have LCK_DEADLCK.
    enum NlmStats {
        LCK_GRANTED = 0,
        LCK_DENIED = 1,
        LCK_DENIED_NOLOCKS = 2,
        LCK_BLOCKED = 3,
        LCK_DENIED_GRACE_PERIOD = 4,
        LCK_DEADLCK = 5,
    }

    /// nlm_holder: the holder of a conflicting lock. XNFS section 10.
    struct NlmHolder<'a> {
        exclusive: bool,
        uppid: i32 => "nlm.lock.svid",
        oh: Netobj<'a> => "nlm.lock.owner",
        l_offset: u32 => "nlm.lock.l_offset",
        l_len: u32 => "nlm.lock.l_len",
    }

    /// nlm_lock: a range of a file; length 0 means to the end of the file. XNFS section 10.
    struct NlmLock<'a> {
        caller_name: CallerName<'a> => "nlm.lock.caller_name",
        fh: Netobj<'a> => "nfs.fhandle",
        oh: Netobj<'a> => "nlm.lock.owner",
        uppid: i32 => "nlm.lock.svid",
        l_offset: u32 => "nlm.lock.l_offset",
        l_len: u32 => "nlm.lock.l_len",
    }

    /// nlm_testargs. XNFS section 10, NLM_TEST.
    struct NlmTestargs<'a> { cookie: Netobj<'a>, exclusive: bool, alock: NlmLock<'a> => "nlm.lock" }

    /// nlm_lockargs. XNFS section 10, NLM_LOCK.
    struct NlmLockargs<'a> {
        cookie: Netobj<'a>,
        block: bool,
        exclusive: bool,
        alock: NlmLock<'a> => "nlm.lock",
        reclaim: bool,
        /// State number of the client's status monitor (NSM).
        state: i32,
    }

    /// nlm_cancargs. XNFS section 10, NLM_CANCEL.
    struct NlmCancargs<'a> {
        cookie: Netobj<'a>,
        block: bool,
        exclusive: bool,
        alock: NlmLock<'a> => "nlm.lock",
    }

    /// nlm_unlockargs. XNFS section 10, NLM_UNLOCK.
    struct NlmUnlockargs<'a> { cookie: Netobj<'a>, alock: NlmLock<'a> => "nlm.lock" }

    /// nlm_testrply. XNFS section 10, NLM_TEST.
    union NlmTestrply<'a> switch (stat: NlmStats => "nlm.test_stat.stat") {
        LCK_DENIED => Denied(NlmHolder<'a>) as holder,
        default => Other,
    }

    /// nlm_testres. XNFS section 10, NLM_TEST.
    struct NlmTestres<'a> { cookie: Netobj<'a>, test_stat: NlmTestrply<'a> }

    /// nlm_res. XNFS section 10, NLM_LOCK.
    struct NlmRes<'a> { cookie: Netobj<'a>, stat: NlmStats }

    /// nlm_shareres. XNFS section 10, NLM_SHARE.
    struct NlmShareres<'a> { cookie: Netobj<'a>, stat: NlmStats, sequence: i32 }
}

crate::operations! { "nlm";
    /// The procedures. XNFS section 10. Those that end in `_MSG` and `_RES` are one-way: there is no Reply.
    Procedure, ProcedureNumber, Args<'a>, Results:
    0 NULL(Void) -> Void, "Do nothing. XNFS section 10";
    1 TEST(NlmTestargs<'a>) -> NlmTestres<'a>, "Ask whether a lock would be granted. XNFS section 10, NLM_TEST";
    2 LOCK(NlmLockargs<'a>) -> NlmRes<'a>, "Ask for a lock. XNFS section 10, NLM_LOCK";
    3 CANCEL(NlmCancargs<'a>) -> NlmRes<'a>, "Cancel a blocked lock request. XNFS section 10, NLM_CANCEL";
    4 UNLOCK(NlmUnlockargs<'a>) -> NlmRes<'a>, "Release a lock. XNFS section 10, NLM_UNLOCK";
    5 GRANTED(NlmTestargs<'a>) -> NlmRes<'a>,
        "Callback: the lock that was waited for is granted. XNFS section 10, NLM_GRANTED";
    6 TEST_MSG(NlmTestargs<'a>) -> Void, "TEST, one-way. XNFS section 10, NLM_TEST_MSG";
    7 LOCK_MSG(NlmLockargs<'a>) -> Void, "LOCK, one-way. XNFS section 10, NLM_LOCK_MSG";
    8 CANCEL_MSG(NlmCancargs<'a>) -> Void, "CANCEL, one-way. XNFS section 10, NLM_CANCEL_MSG";
    9 UNLOCK_MSG(NlmUnlockargs<'a>) -> Void, "UNLOCK, one-way. XNFS section 10, NLM_UNLOCK_MSG";
    10 GRANTED_MSG(NlmTestargs<'a>) -> Void, "GRANTED, one-way. XNFS section 10, NLM_GRANTED_MSG";
    11 TEST_RES(NlmTestres<'a>) -> Void, "Result of TEST_MSG. XNFS section 10, NLM_TEST_RES";
    12 LOCK_RES(NlmRes<'a>) -> Void, "Result of LOCK_MSG. XNFS section 10, NLM_LOCK_RES";
    13 CANCEL_RES(NlmRes<'a>) -> Void, "Result of CANCEL_MSG. XNFS section 10, NLM_CANCEL_RES";
    14 UNLOCK_RES(NlmRes<'a>) -> Void, "Result of UNLOCK_MSG. XNFS section 10, NLM_UNLOCK_RES";
    15 GRANTED_RES(NlmRes<'a>) -> Void, "Result of GRANTED_MSG. XNFS section 10, NLM_GRANTED_RES";
    16 NSM_NOTIFY(nsm::SmStatus<'a>) -> Void,
        "Callback of NSM on the same host: Linux has it called here. XNFS section 11, SM_NOTIFY";
    20 SHARE(NlmShareargs<'a>) -> NlmShareres<'a>, "Open a file as DOS does. XNFS section 10, NLM_SHARE";
    21 UNSHARE(NlmShareargs<'a>) -> NlmShareres<'a>, "Close a file as DOS does. XNFS section 10, NLM_UNSHARE";
    22 NM_LOCK(NlmLockargs<'a>) -> NlmRes<'a>, "Ask for a lock that NSM does not watch. XNFS section 10, NLM_NM_LOCK";
    23 FREE_ALL(NlmNotify<'a>) -> Void, "Give back all locks of a host. XNFS section 10, NLM_FREE_ALL";
}
