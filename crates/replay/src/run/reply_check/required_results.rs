//! Operations that a server must support: a server without them differs.

/// Required operations of NFSv4 as in RFC 8881 section 17, and OPEN_CONFIRM, RENEW, SETCLIENTID, SETCLIENTID_CONFIRM
/// and RELEASE_LOCKOWNER of NFSv4.0 (RFC 7530 section 16); then the NFSv3 procedures whose errors do not include
/// NFS3ERR_NOTSUPP (RFC 1813 section 3.3).
const REQUIRED_OPERATIONS: &[&str] = &[
    "ACCESS",
    "BACKCHANNEL_CTL",
    "BIND_CONN_TO_SESSION",
    "CLOSE",
    "COMMIT",
    "CREATE",
    "CREATE_SESSION",
    "DESTROY_CLIENTID",
    "DESTROY_SESSION",
    "EXCHANGE_ID",
    "FREE_STATEID",
    "GETATTR",
    "GETFH",
    "LOCK",
    "LOCKT",
    "LOCKU",
    "LOOKUP",
    "LOOKUPP",
    "NVERIFY",
    "OPEN",
    "OPEN_CONFIRM",
    "OPEN_DOWNGRADE",
    "PUTFH",
    "PUTPUBFH",
    "PUTROOTFH",
    "READ",
    "READDIR",
    "RECLAIM_COMPLETE",
    "RELEASE_LOCKOWNER",
    "REMOVE",
    "RENAME",
    "RENEW",
    "RESTOREFH",
    "SAVEFH",
    "SECINFO",
    "SEQUENCE",
    "SETATTR",
    "SETCLIENTID",
    "SETCLIENTID_CONFIRM",
    "SET_SSV",
    "TEST_STATEID",
    "VERIFY",
    "WRITE",
    // NFSv3.
    "NULL",
    "MKDIR",
    "RMDIR",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
];

/// Returns `true` if the status means that a server does not support a required operation of NFS.
pub(super) fn lacks_required(operation: &str, status: &str) -> bool {
    // An unsupported attribute, operation variant or minor version is something else.
    matches!(status, "NFS4ERR_NOTSUPP" | "NFS4ERR_OP_ILLEGAL" | "NFS3ERR_NOTSUPP" | "PROC_UNAVAIL")
        && REQUIRED_OPERATIONS.contains(&operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8881_section_17_a_server_must_have_read_and_may_have_no_links() {
        assert!(lacks_required("READ", "NFS4ERR_NOTSUPP") && lacks_required("WRITE", "NFS4ERR_OP_ILLEGAL"));
        assert!(
            !lacks_required("READLINK", "NFS4ERR_NOTSUPP") && !lacks_required("CLONE", "NFS4ERR_NOTSUPP")
        );
        assert!(
            !lacks_required("SETATTR", "NFS4ERR_ATTRNOTSUPP")
                && !lacks_required("READ", "NFS4ERR_MINOR_VERS_MISMATCH")
        );
    }

    #[test]
    fn rfc1813_section_3_3_a_server_may_have_no_readdirplus() {
        assert!(
            lacks_required("FSINFO", "NFS3ERR_NOTSUPP") && !lacks_required("READDIRPLUS", "NFS3ERR_NOTSUPP")
        );
    }
}
