//! Opens, locks and delegations.

use super::*;

fn open(openhow: Openflag4<'static>, claim: OpenClaim4<'static>) -> Args<'static> {
    Args::OPEN(Open4Args {
        seqid: 0,
        share_access: ShareAccess::OPEN4_SHARE_ACCESS_BOTH,
        share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
        owner: OpenOwner4 { clientid: 5, owner: Opaque(b"open id:") },
        openhow,
        claim,
    })
}

pub(super) fn calls() -> Vec<(Args<'static>, &'static str)> {
    let lock = |locker| {
        Args::LOCK(Lock4Args { locktype: NfsLockType4::WRITEW_LT, reclaim: false, offset: 0, length: u64::MAX, locker })
    };
    vec![
        (Args::CLOSE(Close4Args { seqid: 0, open_stateid: STATEID }), "00000000 $stateid"),
        (Args::DELEGPURGE(Delegpurge4Args { clientid: 5 }), "00000000 00000005"),
        (Args::DELEGRETURN(Delegreturn4Args { deleg_stateid: STATEID }), "$stateid"),
        (
            lock(Locker4::New(OpenToLockOwner4 {
                open_seqid: 0,
                open_stateid: STATEID,
                lock_seqid: 0,
                lock_owner: OWNER,
            })),
            "00000004 00000000 00000000 00000000 ffffffff ffffffff 00000001 00000000 $stateid 00000000 $owner",
        ),
        (
            lock(Locker4::Existing(ExistLockOwner4 { lock_stateid: STATEID, lock_seqid: 1 })),
            "00000004 00000000 00000000 00000000 ffffffff ffffffff 00000000 $stateid 00000001",
        ),
        (
            Args::LOCKT(Lockt4Args { locktype: NfsLockType4::READ_LT, offset: 1, length: 2, owner: OWNER }),
            "00000001 00000000 00000001 00000000 00000002 $owner",
        ),
        (
            Args::LOCKU(Locku4Args {
                locktype: NfsLockType4::READ_LT,
                seqid: 1,
                lock_stateid: STATEID,
                offset: 1,
                length: 2,
            }),
            "00000001 00000001 $stateid 00000000 00000001 00000000 00000002",
        ),
        (open(Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE), OpenClaim4::Null(NAME)), "$open 00000000 00000000 $name"),
        (
            open(
                Openflag4::Create(Createhow4::Unchecked(fattr())),
                OpenClaim4::Previous(OpenDelegationType4::OPEN_DELEGATE_WRITE),
            ),
            "$open 00000001 00000000 $fattr 00000001 00000002",
        ),
        (
            open(
                Openflag4::Create(Createhow4::Guarded(fattr())),
                OpenClaim4::DelegateCur(OpenClaimDelegateCur4 { delegate_stateid: STATEID, file: NAME }),
            ),
            "$open 00000001 00000001 $fattr 00000002 $stateid $name",
        ),
        (
            open(Openflag4::Create(Createhow4::Exclusive(VERIFIER)), OpenClaim4::DelegatePrev(NAME)),
            "$open 00000001 00000002 $verifier 00000003 $name",
        ),
        (
            open(
                Openflag4::Create(Createhow4::Exclusive41(Creatverfattr { cva_verf: VERIFIER, cva_attrs: fattr() })),
                OpenClaim4::Fh,
            ),
            "$open 00000001 00000003 $verifier $fattr 00000004",
        ),
        (open(Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE), OpenClaim4::DelegPrevFh), "$open 00000000 00000006"),
        (
            open(Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE), OpenClaim4::DelegCurFh(STATEID)),
            "$open 00000000 00000005 $stateid",
        ),
        (Args::OPEN_CONFIRM(OpenConfirm4Args { open_stateid: STATEID, seqid: 1 }), "$stateid 00000001"),
        (
            Args::OPEN_DOWNGRADE(OpenDowngrade4Args {
                open_stateid: STATEID,
                seqid: 1,
                share_access: ShareAccess::OPEN4_SHARE_ACCESS_READ,
                share_deny: ShareDeny::OPEN4_SHARE_DENY_BOTH,
            }),
            "$stateid 00000001 00000001 00000003",
        ),
        (Args::RELEASE_LOCKOWNER(ReleaseLockowner4Args { lock_owner: OWNER }), "$owner"),
        (Args::FREE_STATEID(FreeStateid4Args { fsa_stateid: STATEID }), "$stateid"),
        (
            Args::GET_DIR_DELEGATION(Box::new(GetDirDelegation4Args {
                gdda_signal_deleg_avail: false,
                gdda_notification_types: bitmap(&[0x3f]),
                gdda_child_attr_delay: SPAN,
                gdda_dir_attr_delay: SPAN,
                gdda_child_attributes: bitmap(&[]),
                gdda_dir_attributes: bitmap(&[1]),
            })),
            "00000000 00000001 0000003f $time $time 00000000 00000001 00000001",
        ),
        (Args::TEST_STATEID(TestStateid4Args { ts_stateids: list([STATEID, STATEID]) }), "00000002 $stateid $stateid"),
        (
            Args::WANT_DELEGATION(WantDelegation4Args {
                wda_want: ShareAccess::OPEN4_SHARE_ACCESS_WANT_ANY_DELEG,
                wda_claim: DelegClaim4::Previous(OpenDelegationType4::OPEN_DELEGATE_READ),
            }),
            "00000300 00000001 00000001",
        ),
    ]
}

pub(super) fn replies() -> Vec<(Results<'static>, &'static str)> {
    const DONE: StatusUnion<Nfsstat4, Void> = StatusUnion::Ok(Void);
    const FAILED: StatusUnion<Nfsstat4, Void> = StatusUnion::Fail(Nfsstat4::NFS4ERR_DELAY, Void);
    let denied = || LockDenied { offset: 0, length: 1, locktype: NfsLockType4::WRITE_LT, owner: OWNER };
    let open = |delegation| {
        Results::OPEN(StatusUnion::Ok(Open4Resok {
            stateid: STATEID,
            cinfo: CINFO,
            rflags: OpenRflags::OPEN4_RESULT_LOCKTYPE_POSIX,
            attrset: bitmap(&[0, 2]),
            delegation,
        }))
    };
    let read_delegation = || OpenReadDelegation4 { stateid: STATEID, recall: true, permissions: ACE };
    vec![
        (Results::CLOSE(StatusUnion::Ok(OpenStateid4Resok { open_stateid: STATEID })), "00000000 $stateid"),
        (Results::DELEGPURGE(DONE), "00000000"),
        (Results::DELEGRETURN(FAILED), "00002718"),
        (Results::LOCK(LockRes::Ok(LockStateid4Resok { lock_stateid: STATEID })), "00000000 $stateid"),
        (Results::LOCK(LockRes::Denied(denied())), "0000271a 00000000 00000000 00000000 00000001 00000002 $owner"),
        (Results::LOCK(LockRes::Fail(Nfsstat4::NFS4ERR_GRACE)), "0000271d"),
        (Results::LOCKT(LocktRes::Ok(Void)), "00000000"),
        (Results::LOCKT(LocktRes::Denied(denied())), "0000271a 00000000 00000000 00000000 00000001 00000002 $owner"),
        (Results::LOCKU(StatusUnion::Ok(LockStateid4Resok { lock_stateid: STATEID })), "00000000 $stateid"),
        (open(OpenDelegation4::None), "00000000 $stateid $cinfo 00000004 00000002 00000000 00000002 00000000"),
        (
            open(OpenDelegation4::Read(read_delegation())),
            "00000000 $stateid $cinfo 00000004 00000002 00000000 00000002 00000001 $read_delegation",
        ),
        (
            open(OpenDelegation4::Write(write_delegation())),
            "00000000 $stateid $cinfo 00000004 00000002 00000000 00000002 00000002 $write_delegation",
        ),
        (
            open(OpenDelegation4::NoneExt(OpenNoneDelegation4::Contention(true))),
            "00000000 $stateid $cinfo 00000004 00000002 00000000 00000002 00000003 00000001 00000001",
        ),
        (
            open(OpenDelegation4::NoneExt(OpenNoneDelegation4::Resource(false))),
            "00000000 $stateid $cinfo 00000004 00000002 00000000 00000002 00000003 00000002 00000000",
        ),
        (
            open(OpenDelegation4::NoneExt(OpenNoneDelegation4::Other(WhyNoDelegation4::WND4_NOT_WANTED))),
            "00000000 $stateid $cinfo 00000004 00000002 00000000 00000002 00000003 00000000",
        ),
        (
            open(OpenDelegation4::ReadAttrs(read_delegation())),
            "00000000 $stateid $cinfo 00000004 00000002 00000000 00000002 00000004 $read_delegation",
        ),
        (
            open(OpenDelegation4::WriteAttrs(OpenWriteDelegation4 {
                space_limit: NfsSpaceLimit4::Size(u64::MAX),
                ..write_delegation()
            })),
            "00000000 $stateid $cinfo 00000004 00000002 00000000 00000002 00000005 $stateid 00000000 00000001 ffffffff ffffffff $ace",
        ),
        (Results::OPEN_CONFIRM(StatusUnion::Ok(OpenStateid4Resok { open_stateid: STATEID })), "00000000 $stateid"),
        (Results::OPEN_DOWNGRADE(StatusUnion::Ok(OpenStateid4Resok { open_stateid: STATEID })), "00000000 $stateid"),
        (Results::RELEASE_LOCKOWNER(DONE), "00000000"),
        (Results::FREE_STATEID(DONE), "00000000"),
        (
            Results::GET_DIR_DELEGATION(StatusUnion::Ok(Box::new(GetDirDelegation4ResNonFatal::Ok(
                GetDirDelegation4Resok {
                    gddr_cookieverf: VERIFIER,
                    gddr_stateid: STATEID,
                    gddr_notification: bitmap(&[0x3c]),
                    gddr_child_attributes: bitmap(&[]),
                    gddr_dir_attributes: bitmap(&[]),
                },
            )))),
            "00000000 00000000 $verifier $stateid 00000001 0000003c 00000000 00000000",
        ),
        (
            Results::GET_DIR_DELEGATION(StatusUnion::Ok(Box::new(GetDirDelegation4ResNonFatal::Unavail(true)))),
            "00000000 00000001 00000001",
        ),
        (
            Results::TEST_STATEID(StatusUnion::Ok(TestStateid4Resok {
                tsr_status_codes: list([Nfsstat4::NFS4_OK, Nfsstat4::NFS4ERR_EXPIRED]),
            })),
            "00000000 00000002 00000000 0000271b",
        ),
        (
            Results::WANT_DELEGATION(StatusUnion::Ok(WantDelegation4Resok {
                wdr_resok4: OpenDelegation4::Read(read_delegation()),
            })),
            "00000000 00000001 $read_delegation",
        ),
    ]
}
