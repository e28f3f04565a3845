//! Names of values of XDR enumerations that programs compare: file types, statuses, operations. They come from the
//! enumerations that define them: a name without its value does not compile.

use crate::nfs::nlm::v3::NlmStats;
use crate::nfs::nlm::v4::Nlm4Stats;
use crate::nfs::nsm::SmRes;
use crate::nfs::v3::{Ftype3, Nfsstat3, StableHow};
use crate::nfs::v4::{CbOperationNumber, NfsFtype4, Nfsstat4, OpenClaimType4, OperationNumber};
use crate::rpc::{AcceptStat, ReplyStat};

macro_rules! enumerator_names {
    ($($enumeration:ident: $($enumerator:ident),+;)*) => {$($(
        #[doc = concat!("Name of this value of `", stringify!($enumeration), "`.")]
        pub const $enumerator: &str = $enumeration::$enumerator.name().expect("named value");
    )+)*};
}

enumerator_names! {
    AcceptStat: SUCCESS, PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL;
    ReplyStat: MSG_ACCEPTED, MSG_DENIED;
    Ftype3: NF3DIR;
    StableHow: UNSTABLE, DATA_SYNC, FILE_SYNC;
    Nfsstat3: NFS3ERR_NOTSUPP, NFS3ERR_JUKEBOX;
    NfsFtype4: NF4DIR;
    OpenClaimType4: CLAIM_PREVIOUS;
    OperationNumber: ACCESS, COPY, DESTROY_CLIENTID, GETATTR, LOOKUP, OFFLOAD_CANCEL, OFFLOAD_STATUS, READ, READDIR,
        READ_PLUS, SEQUENCE, SETATTR;
    CbOperationNumber: CB_ILLEGAL;
    Nfsstat4: NFS4ERR_DELAY, NFS4ERR_GRACE, NFS4ERR_NOTSUPP, NFS4ERR_MINOR_VERS_MISMATCH, NFS4ERR_ATTRNOTSUPP,
        NFS4ERR_OP_ILLEGAL, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, NFS4ERR_UNKNOWN_LAYOUTTYPE, NFS4ERR_SEQ_MISORDERED,
        NFS4ERR_CLIENTID_BUSY, NFS4ERR_UNION_NOTSUPP;
    NlmStats: LCK_GRANTED, LCK_DENIED_GRACE_PERIOD;
    Nlm4Stats: NLM4_GRANTED, NLM4_DENIED_GRACE_PERIOD;
    SmRes: STAT_SUCC;
}
