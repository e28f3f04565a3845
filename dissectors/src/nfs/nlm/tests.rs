//! Arguments and results of each procedure, encoded by hand from XNFS version 3W chapter 10 and RFC 1813 section 6.

use super::*;
use crate::nfs::example_messages::{FieldOrderChecker, lay_out};
use crate::nfs::{Procedure, ProcedureStatus, nsm};
use crate::xdr::{Cursor, Opaque, Text, Void};

const COOKIE: Netobj<'static> = Opaque(b"cook");
const FH: Netobj<'static> = Opaque(b"handle7");
const OH: Netobj<'static> = Opaque(b"0@client");
const CALLER: CallerName<'static> = Text(b"client");
const PRIV: [u8; 16] = *b"sixteen of these";

fn notified() -> nsm::SmStatus<'static> {
    nsm::SmStatus { mon_name: Text(b"server"), state: 9, r#priv: PRIV }
}

fn share() -> NlmShareargs<'static> {
    let share = NlmShare { caller_name: CALLER, fh: FH, oh: OH, mode: FshMode::fsm_DW, access: FshAccess::fsa_RW };
    NlmShareargs { cookie: COOKIE, share, reclaim: true }
}

/// Calls and replies of procedures 0 to 16. `lock` encodes a lock with this offset and length.
macro_rules! of_every_version {
    (calls, $lock:ident, $range:expr, $testargs:ident, $lockargs:ident, $cancargs:ident, $unlockargs:ident,
     $testres:ident, $testrply:ident, $holder:expr, $res:ident, $stats:ident, $denied:ident, $other:ident) => {{
        let lock = lay_out!["client", "handle7", "0@client", -1, $range];
        let test = || $testargs { cookie: COOKIE, exclusive: true, alock: $lock() };
        let ask =
            || $lockargs { cookie: COOKIE, block: true, exclusive: false, alock: $lock(), reclaim: false, state: 3 };
        let cancel = || $cancargs { cookie: COOKIE, block: true, exclusive: true, alock: $lock() };
        let unlock = || $unlockargs { cookie: COOKIE, alock: $lock() };
        let res = || $res { cookie: COOKIE, stat: $stats::$other };
        let (test_bytes, ask_bytes) = (lay_out!["cook", 1, lock.clone()], lay_out!["cook", 1, 0, lock.clone(), 0, 3]);
        let (cancel_bytes, unlock_bytes) = (lay_out!["cook", 1, 1, lock.clone()], lay_out!["cook", lock]);
        let res_bytes = lay_out!["cook", 4];
        vec![
            (lay_out![], Args::NULL(Void)),
            (test_bytes.clone(), Args::TEST(test())),
            (ask_bytes.clone(), Args::LOCK(ask())),
            (cancel_bytes.clone(), Args::CANCEL(cancel())),
            (unlock_bytes.clone(), Args::UNLOCK(unlock())),
            (test_bytes.clone(), Args::GRANTED(test())),
            (test_bytes.clone(), Args::TEST_MSG(test())),
            (ask_bytes, Args::LOCK_MSG(ask())),
            (cancel_bytes, Args::CANCEL_MSG(cancel())),
            (unlock_bytes, Args::UNLOCK_MSG(unlock())),
            (test_bytes, Args::GRANTED_MSG(test())),
            (
                lay_out!["cook", 1, 1, 77, "0@client", $range],
                Args::TEST_RES($testres { cookie: COOKIE, test_stat: $testrply::Denied($holder) }),
            ),
            (
                lay_out!["cook", 0],
                Args::TEST_RES($testres { cookie: COOKIE, test_stat: $testrply::Other($stats::$denied) }),
            ),
            (res_bytes.clone(), Args::LOCK_RES(res())),
            (res_bytes.clone(), Args::CANCEL_RES(res())),
            (res_bytes.clone(), Args::UNLOCK_RES(res())),
            (res_bytes, Args::GRANTED_RES(res())),
            (lay_out!["server", 9, PRIV], Args::NSM_NOTIFY(notified())),
        ]
    }};
    (replies, $range:expr, $testres:ident, $testrply:ident, $holder:expr, $res:ident, $stats:ident, $granted:ident,
     $blocked:ident) => {{
        let res = |stat| $res { cookie: COOKIE, stat };
        vec![
            (lay_out![], Results::NULL(Void)),
            (
                lay_out!["cook", 1, 1, 77, "0@client", $range],
                Results::TEST($testres { cookie: COOKIE, test_stat: $testrply::Denied($holder) }),
            ),
            (
                lay_out!["cook", 0],
                Results::TEST($testres { cookie: COOKIE, test_stat: $testrply::Other($stats::$granted) }),
            ),
            (lay_out!["cook", 3], Results::LOCK(res($stats::$blocked))),
            (lay_out!["cook", 0], Results::CANCEL(res($stats::$granted))),
            (lay_out!["cook", 0], Results::UNLOCK(res($stats::$granted))),
            (lay_out!["cook", 0], Results::GRANTED(res($stats::$granted))),
            (lay_out![], Results::TEST_MSG(Void)),
            (lay_out![], Results::LOCK_MSG(Void)),
            (lay_out![], Results::CANCEL_MSG(Void)),
            (lay_out![], Results::UNLOCK_MSG(Void)),
            (lay_out![], Results::GRANTED_MSG(Void)),
            (lay_out![], Results::TEST_RES(Void)),
            (lay_out![], Results::LOCK_RES(Void)),
            (lay_out![], Results::CANCEL_RES(Void)),
            (lay_out![], Results::UNLOCK_RES(Void)),
            (lay_out![], Results::GRANTED_RES(Void)),
            (lay_out![], Results::NSM_NOTIFY(Void)),
        ]
    }};
}

/// Calls of versions 3 and 4 that version 1 does not have.
macro_rules! of_dos {
    (calls, $lock:ident, $range:expr, $lockargs:ident) => {{
        let share_bytes = lay_out!["cook", "client", "handle7", "0@client", 2, 3, 1];
        let lock = lay_out!["client", "handle7", "0@client", -1, $range];
        let ask = $lockargs { cookie: COOKIE, block: false, exclusive: true, alock: $lock(), reclaim: false, state: 0 };
        vec![
            (share_bytes.clone(), Args::SHARE(share())),
            (share_bytes, Args::UNSHARE(share())),
            (lay_out!["cook", 0, 1, lock, 0, 0], Args::NM_LOCK(ask)),
            (lay_out!["client", 0], Args::FREE_ALL(NlmNotify { name: Text(b"client"), state: 0 })),
        ]
    }};
    (replies, $shareres:ident, $res:ident, $stats:ident, $granted:ident, $denied:ident) => {
        vec![
            (
                lay_out!["cook", 1, -1],
                Results::SHARE($shareres { cookie: COOKIE, stat: $stats::$denied, sequence: -1 }),
            ),
            (
                lay_out!["cook", 0, 5],
                Results::UNSHARE($shareres { cookie: COOKIE, stat: $stats::$granted, sequence: 5 }),
            ),
            (lay_out!["cook", 0], Results::NM_LOCK($res { cookie: COOKIE, stat: $stats::$granted })),
            (lay_out![], Results::FREE_ALL(Void)),
        ]
    };
}

/// Components of the examples of versions 1 and 3.
mod narrow {
    use super::*;
    pub(super) use crate::nfs::nlm::v3::{
        NlmCancargs, NlmHolder, NlmLock, NlmLockargs, NlmRes, NlmShareres, NlmStats, NlmTestargs, NlmTestres,
        NlmTestrply, NlmUnlockargs,
    };

    pub(super) fn lock() -> NlmLock<'static> {
        NlmLock { caller_name: CALLER, fh: FH, oh: OH, uppid: -1, l_offset: 20, l_len: 5 }
    }

    pub(super) fn holder() -> NlmHolder<'static> {
        NlmHolder { exclusive: true, uppid: 77, oh: OH, l_offset: 20, l_len: 5 }
    }

    pub(super) fn range() -> Vec<u8> {
        lay_out![20, 5]
    }
}

macro_rules! of_nfsv2 {
    (calls) => {
        of_every_version!(
            calls,
            lock,
            range(),
            NlmTestargs,
            NlmLockargs,
            NlmCancargs,
            NlmUnlockargs,
            NlmTestres,
            NlmTestrply,
            holder(),
            NlmRes,
            NlmStats,
            LCK_GRANTED,
            LCK_DENIED_GRACE_PERIOD
        )
    };
    (replies) => {
        of_every_version!(
            replies,
            range(),
            NlmTestres,
            NlmTestrply,
            holder(),
            NlmRes,
            NlmStats,
            LCK_GRANTED,
            LCK_BLOCKED
        )
    };
}

pub(in crate::nfs) mod version_1 {
    use super::narrow::*;
    use super::*;

    crate::nfs::example_messages::examples! { crate::nfs::nlm::v1: of_nfsv2!(calls), of_nfsv2!(replies) }
}

pub(in crate::nfs) mod version_3 {
    use super::narrow::*;
    use super::*;

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        [of_nfsv2!(calls), of_dos!(calls, lock, range(), NlmLockargs)].concat()
    }

    fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
        [of_nfsv2!(replies), of_dos!(replies, NlmShareres, NlmRes, NlmStats, LCK_GRANTED, LCK_DENIED)].concat()
    }

    crate::nfs::example_messages::examples! { crate::nfs::nlm::v3: calls(), replies() }
}

pub(in crate::nfs) mod version_4 {
    use super::*;
    use crate::nfs::nlm::v4::{
        Nlm4Cancargs, Nlm4Holder, Nlm4Lock, Nlm4Lockargs, Nlm4Res, Nlm4Shareres, Nlm4Stats, Nlm4Testargs, Nlm4Testres,
        Nlm4Testrply, Nlm4Unlockargs,
    };

    fn lock() -> Nlm4Lock<'static> {
        Nlm4Lock { caller_name: CALLER, fh: FH, oh: OH, svid: -1, l_offset: 1 << 40, l_len: 5 }
    }

    fn holder() -> Nlm4Holder<'static> {
        Nlm4Holder { exclusive: true, svid: 77, oh: OH, l_offset: 1 << 40, l_len: 5 }
    }

    fn range() -> Vec<u8> {
        lay_out![1u64 << 40, 5u64]
    }

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        let all = of_every_version!(
            calls,
            lock,
            range(),
            Nlm4Testargs,
            Nlm4Lockargs,
            Nlm4Cancargs,
            Nlm4Unlockargs,
            Nlm4Testres,
            Nlm4Testrply,
            holder(),
            Nlm4Res,
            Nlm4Stats,
            NLM4_GRANTED,
            NLM4_DENIED_GRACE_PERIOD
        );
        [all, of_dos!(calls, lock, range(), Nlm4Lockargs)].concat()
    }

    fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
        let all = of_every_version!(
            replies,
            range(),
            Nlm4Testres,
            Nlm4Testrply,
            holder(),
            Nlm4Res,
            Nlm4Stats,
            NLM4_GRANTED,
            NLM4_BLOCKED
        );
        [all, of_dos!(replies, Nlm4Shareres, Nlm4Res, Nlm4Stats, NLM4_GRANTED, NLM4_DENIED)].concat()
    }

    crate::nfs::example_messages::examples! { crate::nfs::nlm::v4: calls(), replies() }
}

#[test]
fn rfc1813_section_6_1_4_the_status_stands_after_the_cookie() {
    let bytes = lay_out!["cook", 8];
    let status = |procedure| Procedure::Nlm4(procedure).status(Cursor::new(&bytes)).unwrap();
    let fbig = ProcedureStatus { number: 8, name: Some("NLM4_FBIG"), is_ok: false };
    let of_results = v4::Procedure::ALL.iter().filter(|procedure| status(**procedure) == Some(fbig));
    let names: Vec<_> = of_results.map(ToString::to_string).collect();
    assert_eq!(names, ["TEST", "LOCK", "CANCEL", "UNLOCK", "GRANTED", "SHARE", "UNSHARE", "NM_LOCK"]);
    assert!(v4::Procedure::ALL.iter().all(|procedure| [None, Some(fbig)].contains(&status(*procedure))));

    let lock = Procedure::Nlm3(v3::Procedure::LOCK);
    let granted = lock.status(Cursor::new(&lay_out!["cook", 0])).unwrap().unwrap();
    assert_eq!((granted.name, granted.is_ok), (Some("LCK_GRANTED"), true));
}

#[test]
fn fields_have_the_names_that_wireshark_gives_them() {
    let lock = lay_out!["client", "handle7", "0@client", -1, 0u64, 10u64];
    let bytes = lay_out!["cook", 1, 1, lock, 0, 3];
    let mut observer = FieldOrderChecker::default();
    v4::Args::decode(v4::Procedure::LOCK, &mut Cursor::new(&bytes), &mut observer).unwrap();
    let expected = [
        "nlm.cookie",
        "nlm.block",
        "nlm.exclusive",
        "nlm.lock.caller_name",
        "nfs.fhandle",
        "nlm.lock.owner",
        "nlm.lock.svid",
        "nlm.lock.l_offset64",
        "nlm.lock.l_len64",
        "nlm.reclaim",
        "nlm.state",
    ];
    assert_eq!(observer.names, expected);
}
