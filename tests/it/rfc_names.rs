//! Names by number from the RFCs, for the numbers of tshark and the server.

/// RFC 1813 section 3.
#[rustfmt::skip]
pub(crate) const NFS3_PROCEDURES: [&str; 22] = [
    "NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD",
    "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
];

/// RFC 8881 section 16, RFC 7862 section 15, RFC 8276 section 8.2: operations from 3 on.
#[rustfmt::skip]
const NFS4_OPERATIONS: [&str; 73] = [
    "ACCESS", "CLOSE", "COMMIT", "CREATE", "DELEGPURGE", "DELEGRETURN", "GETATTR", "GETFH", "LINK", "LOCK", "LOCKT",
    "LOCKU", "LOOKUP", "LOOKUPP", "NVERIFY", "OPEN", "OPENATTR", "OPEN_CONFIRM", "OPEN_DOWNGRADE", "PUTFH", "PUTPUBFH",
    "PUTROOTFH", "READ", "READDIR", "READLINK", "REMOVE", "RENAME", "RENEW", "RESTOREFH", "SAVEFH", "SECINFO", "SETATTR",
    "SETCLIENTID", "SETCLIENTID_CONFIRM", "VERIFY", "WRITE", "RELEASE_LOCKOWNER", "BACKCHANNEL_CTL",
    "BIND_CONN_TO_SESSION", "EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION", "FREE_STATEID", "GET_DIR_DELEGATION",
    "GETDEVICEINFO", "GETDEVICELIST", "LAYOUTCOMMIT", "LAYOUTGET", "LAYOUTRETURN", "SECINFO_NO_NAME", "SEQUENCE",
    "SET_SSV", "TEST_STATEID", "WANT_DELEGATION", "DESTROY_CLIENTID", "RECLAIM_COMPLETE", "ALLOCATE", "COPY",
    "COPY_NOTIFY", "DEALLOCATE", "IO_ADVISE", "LAYOUTERROR", "LAYOUTSTATS", "OFFLOAD_CANCEL", "OFFLOAD_STATUS",
    "READ_PLUS", "SEEK", "WRITE_SAME", "CLONE", "GETXATTR", "SETXATTR", "LISTXATTRS", "REMOVEXATTR",
];

/// RFC 8881 section 20, RFC 7862 section 16: callback operations from 3 on.
#[rustfmt::skip]
const CALLBACK_OPERATIONS: [&str; 13] = [
    "CB_GETATTR", "CB_RECALL", "CB_LAYOUTRECALL", "CB_NOTIFY", "CB_PUSH_DELEG", "CB_RECALL_ANY",
    "CB_RECALLABLE_OBJ_AVAIL", "CB_RECALL_SLOT", "CB_SEQUENCE", "CB_WANTS_CANCELLED", "CB_NOTIFY_LOCK",
    "CB_NOTIFY_DEVICEID", "CB_OFFLOAD",
];

/// Statuses in these captures, with their names after `NFS3ERR_` and `NFS4ERR_`.
const STATUSES: [(u64, &str, &str); 9] = [
    (1, "PERM", "PERM"),
    (2, "NOENT", "NOENT"),
    (13, "ACCES", "ACCESS"),
    (17, "EXIST", "EXIST"),
    (28, "NOSPC", "NOSPC"),
    (66, "NOTEMPTY", "NOTEMPTY"),
    (10010, "-", "DENIED"),
    (10013, "-", "GRACE"),
    (10018, "-", "RESOURCE"),
];

pub(crate) fn nfs4_operation(number: u64) -> &'static str {
    let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(3));
    index.and_then(|n| NFS4_OPERATIONS.get(n)).copied().unwrap_or("?")
}

pub(crate) fn callback_operation(number: u64) -> &'static str {
    let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(3));
    index.and_then(|n| CALLBACK_OPERATIONS.get(n)).copied().unwrap_or("?")
}

/// Returns the name of an nfsstat of version 3 or 4.
pub(crate) fn status(version: u64, number: u64) -> String {
    if number == 0 {
        return format!("NFS{version}_OK");
    }
    let (_, v3, v4) = STATUSES
        .iter()
        .find(|(known, _, _)| *known == number)
        .unwrap_or_else(|| panic!("status {number} has no name here"));
    format!("NFS{version}ERR_{}", if version == 3 { v3 } else { v4 })
}
