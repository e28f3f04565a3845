//! Byte-range locks and their stateids. RFC 7530 section 16, RFC 8881 section 18.

use super::status::Nfsstat4;
use super::status::results;
use super::types::{Bool, Length4, LockOwner4, Offset4, Seqid4, Stateid4};
use crate::xdr::XdrArray;

crate::xdr! { "nfs";
    /// nfs_lock_type4. RFC 8881 section 18.10.1.
    enum NfsLockType4 { READ_LT = 1, WRITE_LT = 2, READW_LT = 3, WRITEW_LT = 4 }

    /// open_to_lock_owner4. RFC 8881 section 3.3.11.
    struct OpenToLockOwner4<'a> {
        open_seqid: Seqid4 => "nfs.seqid",
        open_stateid: Stateid4 => "nfs.stateid",
        lock_seqid: Seqid4,
        lock_owner: LockOwner4<'a>,
    }

    /// exist_lock_owner4. RFC 8881 section 18.10.1.
    struct ExistLockOwner4 { lock_stateid: Stateid4 => "nfs.stateid", lock_seqid: Seqid4 }

    /// locker4. RFC 8881 section 18.10.1.
    union Locker4<'a> switch (new_lock_owner: Bool => "nfs.lock.locker.new_lock_owner") {
        TRUE => New(OpenToLockOwner4<'a>) as open_owner,
        FALSE => Existing(ExistLockOwner4) as lock_owner,
    }

    /// LOCK4args. RFC 8881 section 18.10.1.
    struct Lock4Args<'a> {
        locktype: NfsLockType4 => "nfs.locktype4",
        reclaim: bool => "nfs.lock.reclaim",
        offset: Offset4 => "nfs.offset4",
        length: Length4 => "nfs.length4",
        locker: Locker4<'a>,
    }

    /// LOCK4resok, and LOCKU4res on success. RFC 8881 sections 18.10.2 and 18.12.2.
    struct LockStateid4Resok { lock_stateid: Stateid4 => "nfs.stateid" }

    /// LOCK4denied: the holder of the conflicting lock. RFC 8881 section 18.10.2.
    struct LockDenied<'a> {
        offset: Offset4 => "nfs.offset4",
        length: Length4 => "nfs.length4",
        locktype: NfsLockType4 => "nfs.locktype4",
        owner: LockOwner4<'a>,
    }

    /// LOCKT4args. RFC 8881 section 18.11.1.
    struct Lockt4Args<'a> {
        locktype: NfsLockType4 => "nfs.locktype4",
        offset: Offset4 => "nfs.offset4",
        length: Length4 => "nfs.length4",
        owner: LockOwner4<'a>,
    }

    /// LOCKU4args. RFC 8881 section 18.12.1.
    struct Locku4Args {
        locktype: NfsLockType4 => "nfs.locktype4",
        seqid: Seqid4,
        lock_stateid: Stateid4 => "nfs.stateid",
        offset: Offset4 => "nfs.offset4",
        length: Length4 => "nfs.length4",
    }

    /// RELEASE_LOCKOWNER4args. RFC 7530 section 16.37.2.
    struct ReleaseLockowner4Args<'a> { lock_owner: LockOwner4<'a> }

    /// FREE_STATEID4args. RFC 8881 section 18.38.1.
    struct FreeStateid4Args { fsa_stateid: Stateid4 => "nfs.stateid" }

    /// TEST_STATEID4args. RFC 8881 section 18.48.1.
    struct TestStateid4Args<'a> { ts_stateids: XdrArray<'a, Stateid4> => "nfs.stateid" }

    /// TEST_STATEID4resok. RFC 8881 section 18.48.2.
    struct TestStateid4Resok<'a> { tsr_status_codes: XdrArray<'a, Nfsstat4> => "nfs.nfsstat4" }
}

results! {
    /// LOCK4res. RFC 8881 section 18.10.2.
    LockRes<'a> { NFS4_OK => LockStateid4Resok, NFS4ERR_DENIED => Denied(LockDenied<'a>) }

    /// LOCKT4res. RFC 8881 section 18.11.2.
    LocktRes<'a> { NFS4_OK => crate::xdr::Void, NFS4ERR_DENIED => Denied(LockDenied<'a>) }
}
