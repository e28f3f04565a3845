//! NLM version 1, for NFSv2: version 3 without DOS file sharing. XNFS version 3W chapter 10.

use super::v3::{NlmCancargs, NlmLockargs, NlmRes, NlmTestargs, NlmTestres, NlmUnlockargs};
use crate::nfs::nsm;
use crate::xdr::Void;

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
}
