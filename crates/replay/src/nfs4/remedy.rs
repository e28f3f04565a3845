//! Remedies for a status, on the client's side. RFC 7530 section 13, RFC 8881 section 15.1.

use nfsrdma_dissectors::nfs::v4::{Nfsstat4, Operation};
use nfsrdma_nfs_model::v4::statuses::is_valid;

/// Reaction of a client to a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing: the operation has failed.
    Nothing,
    /// The purpose of the operation is fulfilled.
    Ignore,
    /// Wait, and send the operation again.
    Wait,
    /// Send the operation again as another request: the server executed it, but did not cache its reply.
    Resend,
    /// Create a session again.
    NewSession,
    /// Register the client again, and create what depends on it.
    NewClient,
    /// Continue under another open-owner, whose seqid is not in doubt.
    NewOwner,
    /// Register under the next lower minor version.
    LowerMinorVersion,
}

/// Returns the remedy for a status of an operation; `None` for one of a COMPOUND without results. A status that the
/// operation cannot have has no remedy, except delays and NFS4ERR_MINOR_VERS_MISMATCH, which concerns the whole COMPOUND.
pub(crate) fn remedy(minor: u32, operation: Option<Operation>, status: Nfsstat4) -> Remedy {
    match remedy_of_status(operation, status) {
        remedy @ (Remedy::Wait | Remedy::LowerMinorVersion) => remedy,
        remedy if can_have(minor, operation, status) => remedy,
        _ => Remedy::Nothing,
    }
}

fn remedy_of_status(operation: Option<Operation>, status: Nfsstat4) -> Remedy {
    match (operation, status) {
        (_, Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE) => Remedy::Wait,
        (_, Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP) => Remedy::Resend,
        // The server had not lost the client: RFC 8881 section 18.51.3.
        (Some(Operation::RECLAIM_COMPLETE), Nfsstat4::NFS4ERR_COMPLETE_ALREADY) => Remedy::Ignore,
        (_, Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH) => Remedy::LowerMinorVersion,
        // The server has another csa_sequence, or has forgotten the client ID: RFC 8881 section 18.36.3.
        (Some(Operation::CREATE_SESSION), Nfsstat4::NFS4ERR_SEQ_MISORDERED)
        | (
            _,
            Nfsstat4::NFS4ERR_STALE_CLIENTID | Nfsstat4::NFS4ERR_EXPIRED | Nfsstat4::NFS4ERR_STALE_STATEID,
        ) => Remedy::NewClient,
        (
            _,
            Nfsstat4::NFS4ERR_BADSESSION
            | Nfsstat4::NFS4ERR_DEADSESSION
            | Nfsstat4::NFS4ERR_BADSLOT
            | Nfsstat4::NFS4ERR_BAD_HIGH_SLOT
            | Nfsstat4::NFS4ERR_SEQ_MISORDERED
            | Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY
            // The connection that creates a session is bound to it: RFC 8881 section 18.36.3.
            | Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION,
        ) => Remedy::NewSession,
        (_, Nfsstat4::NFS4ERR_BAD_SEQID | Nfsstat4::NFS4ERR_BAD_STATEID | Nfsstat4::NFS4ERR_OLD_STATEID) => {
            Remedy::NewOwner
        }
        _ => Remedy::Nothing,
    }
}

/// Returns `true` if an operation with this status advances the seqid of its owner. RFC 7530 section 9.1.7.
pub(crate) fn advances_seqid(status: Nfsstat4) -> bool {
    !matches!(
        status,
        Nfsstat4::NFS4ERR_STALE_CLIENTID
            | Nfsstat4::NFS4ERR_STALE_STATEID
            | Nfsstat4::NFS4ERR_BAD_STATEID
            | Nfsstat4::NFS4ERR_BAD_SEQID
            | Nfsstat4::NFS4ERR_BADXDR
            | Nfsstat4::NFS4ERR_RESOURCE
            | Nfsstat4::NFS4ERR_NOFILEHANDLE
            | Nfsstat4::NFS4ERR_MOVED
    )
}

/// Returns `true` if an operation, or a COMPOUND without results, can have a status, by the RFCs or by the use of servers.
/// EXCHANGE_ID and SETCLIENTID, with which a version is tried, can have NFS4ERR_MINOR_VERS_MISMATCH, too. Servers confuse
/// NFS4ERR_ACCESS with NFS4ERR_PERM, and NFS4ERR_NOSPC with NFS4ERR_DQUOT. Linux refuses a client to which nothing is
/// exported at the operation that sets the filehandle, and COMMIT if the disk is full.
pub(crate) fn can_have(minor: u32, operation: Option<Operation>, status: Nfsstat4) -> bool {
    let is_usual = match operation {
        Some(Operation::EXCHANGE_ID | Operation::SETCLIENTID) => status == Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH,
        Some(Operation::PUTFH | Operation::PUTPUBFH | Operation::PUTROOTFH) => is_permission(status),
        Some(Operation::COMMIT) => is_space(status),
        _ => false,
    };
    let is_valid = |status| is_valid(minor, operation, status);
    is_usual
        || is_valid(status)
        || is_permission(status) && (is_valid(Nfsstat4::NFS4ERR_ACCESS) || is_valid(Nfsstat4::NFS4ERR_PERM))
        || is_space(status) && (is_valid(Nfsstat4::NFS4ERR_NOSPC) || is_valid(Nfsstat4::NFS4ERR_DQUOT))
}

fn is_permission(status: Nfsstat4) -> bool {
    matches!(status, Nfsstat4::NFS4ERR_ACCESS | Nfsstat4::NFS4ERR_PERM)
}

fn is_space(status: Nfsstat4) -> bool {
    matches!(status, Nfsstat4::NFS4ERR_NOSPC | Nfsstat4::NFS4ERR_DQUOT)
}

/// Returns `true` if the server did not refuse an operation, but failed. RFC 1813 section 2.6, RFC 8881 sections 15.1.1.6
/// and 15.1.4.6.
pub(crate) fn is_server_failure(status: Nfsstat4) -> bool {
    matches!(status, Nfsstat4::NFS4ERR_SERVERFAULT | Nfsstat4::NFS4ERR_IO)
}

/// Returns `true` if a status says that this program has broken the protocol: the remedies are exhausted.
pub(crate) fn blames_client(status: Nfsstat4) -> bool {
    matches!(
        status,
        Nfsstat4::NFS4ERR_BAD_SEQID
            | Nfsstat4::NFS4ERR_BADSESSION
            | Nfsstat4::NFS4ERR_BADSLOT
            | Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION
            | Nfsstat4::NFS4ERR_SEQ_MISORDERED
            | Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY
            | Nfsstat4::NFS4ERR_BADXDR
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All statuses of the list at the end of RFC 7530 section 9.1.7, and three that are not in it.
    #[test]
    fn rfc7530_section_9_1_7_statuses_keep_seqid() {
        let keeping = [10_022, 10_023, 10_025, 10_026, 10_036, 10_018, 10_020, 10_019];
        assert!(keeping.iter().all(|status| !advances_seqid(Nfsstat4(*status))));
        let advancing = [Nfsstat4::NFS4_OK, Nfsstat4::NFS4ERR_GRACE, Nfsstat4::NFS4ERR_DENIED];
        assert!(advancing.into_iter().all(advances_seqid));
    }

    /// Statuses of servers that are not in the tables of RFC 7530 section 13.2 and RFC 8881 section 15.2.
    #[test]
    fn servers_have_further_statuses() {
        for minor in [0, 1, 2] {
            let can_have = |operation, status| can_have(minor, Some(operation), status);
            assert!(can_have(Operation::PUTROOTFH, Nfsstat4::NFS4ERR_PERM));
            assert!(can_have(Operation::REMOVE, Nfsstat4::NFS4ERR_PERM));
            assert!(can_have(Operation::COMMIT, Nfsstat4::NFS4ERR_NOSPC));
            assert!(!can_have(Operation::GETFH, Nfsstat4::NFS4ERR_ACCESS));
            assert!(!can_have(Operation::LOOKUP, Nfsstat4::NFS4ERR_NOSPC));
        }
        assert!(can_have(1, Some(Operation::EXCHANGE_ID), Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH));
        assert!(!can_have(1, Some(Operation::LOOKUP), Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH));
    }

    #[test]
    fn remedy_depends_on_operation() {
        let misordered = |operation| remedy(1, Some(operation), Nfsstat4::NFS4ERR_SEQ_MISORDERED);
        assert_eq!(misordered(Operation::SEQUENCE), Remedy::NewSession);
        assert_eq!(misordered(Operation::CREATE_SESSION), Remedy::NewClient);
        let complete = |operation| remedy(1, Some(operation), Nfsstat4::NFS4ERR_COMPLETE_ALREADY);
        assert_eq!(complete(Operation::RECLAIM_COMPLETE), Remedy::Ignore);
        assert_eq!(complete(Operation::LOOKUP), Remedy::Nothing);
    }

    /// RFC 8881 section 15.2: a status that an operation cannot have proves a fault of the server.
    #[test]
    fn impossible_status_has_no_remedy() {
        let of = |operation, status| remedy(1, Some(operation), status);
        assert_eq!(of(Operation::EXCHANGE_ID, Nfsstat4::NFS4ERR_STALE_CLIENTID), Remedy::Nothing);
        assert_eq!(of(Operation::CREATE_SESSION, Nfsstat4::NFS4ERR_STALE_CLIENTID), Remedy::NewClient);
        assert_eq!(of(Operation::PUTFH, Nfsstat4::NFS4ERR_GRACE), Remedy::Wait);
    }
}
