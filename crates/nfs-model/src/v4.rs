//! Operations of NFSv4.0, 4.1 and 4.2. RFC 7530 section 16, RFC 8881 section 18, RFC 7862 section 15, RFC 8276.

pub mod statuses;

use nfsrdma_dissectors::nfs::v4::{Nfsstat4, Operation};

use crate::{Again, Naming};

/// Meaning of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Effect of a second execution, without a cached reply.
    pub again: Again,
    /// Effect on names. OPEN makes one only with OPEN4_CREATE.
    pub naming: Naming,
    /// Its place in a COMPOUND.
    pub position: Position,
    /// `true` if a server of its first minor version must support it. RFC 8881 section 17, RFC 7862 section 14.
    pub is_required: bool,
}

/// Place of an operation in a COMPOUND from NFSv4.1 on. RFC 8881 sections 2.10.2.1, 18.34 to 18.37, 18.46 and 18.50.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The first.
    First,
    /// The only operation.
    Alone,
    /// The only operation, or behind SEQUENCE.
    AloneOrInSession,
    /// Behind SEQUENCE.
    InSession,
}

/// Generates a match with a row per operation.
macro_rules! meanings {
    ($operation:expr; $($name:ident $again:ident $naming:ident $position:ident $support:ident;)*) => {
        match $operation {
            $(Operation::$name => Meaning {
                again: $again,
                naming: Naming::$naming,
                position: Position::$position,
                is_required: $support,
            },)*
        }
    };
}

/// Returns the meaning of an operation.
#[allow(non_upper_case_globals, reason = "words of the table")]
pub const fn meaning(operation: Operation) -> Meaning {
    const Reads: Again = Again::Reads;
    const Same: Again = Again::Same;
    const Differs: Again = Again::Differs;
    const EXIST: Again = Again::Fails(Nfsstat4::NFS4ERR_EXIST.0);
    const NOENT: Again = Again::Fails(Nfsstat4::NFS4ERR_NOENT.0);
    const BADSESSION: Again = Again::Fails(Nfsstat4::NFS4ERR_BADSESSION.0);
    const STALE_CLIENTID: Again = Again::Fails(Nfsstat4::NFS4ERR_STALE_CLIENTID.0);
    const Required: bool = true;
    const Optional: bool = false;
    // SETATTR and WRITE put the same attributes and bytes in the same place. The seqids of LOCK, CLOSE and others, and
    // the sequence of CREATE_SESSION, count; a stateid that was freed or returned is unknown the next time.
    meanings! { operation;
        ACCESS                Reads           Kept      InSession         Required;
        CLOSE                 Differs         Kept      InSession         Required;
        COMMIT                Same            Kept      InSession         Required;
        CREATE                EXIST           Makes     InSession         Required;
        DELEGPURGE            Same            Kept      InSession         Optional;
        DELEGRETURN           Differs         Kept      InSession         Optional;
        GETATTR               Reads           Kept      InSession         Required;
        GETFH                 Reads           Kept      InSession         Required;
        LINK                  EXIST           Replaces  InSession         Optional;
        LOCK                  Differs         Kept      InSession         Required;
        LOCKT                 Reads           Kept      InSession         Required;
        LOCKU                 Differs         Kept      InSession         Required;
        LOOKUP                Reads           Kept      InSession         Required;
        LOOKUPP               Reads           Kept      InSession         Required;
        NVERIFY               Reads           Kept      InSession         Required;
        OPEN                  Differs         Makes     InSession         Required;
        OPENATTR              Same            Kept      InSession         Optional;
        OPEN_CONFIRM          Differs         Kept      InSession         Required;
        OPEN_DOWNGRADE        Differs         Kept      InSession         Required;
        PUTFH                 Reads           Kept      InSession         Required;
        PUTPUBFH              Reads           Kept      InSession         Required;
        PUTROOTFH             Reads           Kept      InSession         Required;
        READ                  Reads           Kept      InSession         Required;
        READDIR               Reads           Kept      InSession         Required;
        READLINK              Reads           Kept      InSession         Optional;
        REMOVE                NOENT           Replaces  InSession         Required;
        RENAME                NOENT           Replaces  InSession         Required;
        RENEW                 Same            Kept      InSession         Required;
        RESTOREFH             Reads           Kept      InSession         Required;
        SAVEFH                Reads           Kept      InSession         Required;
        SECINFO               Reads           Kept      InSession         Required;
        SETATTR               Same            Kept      InSession         Required;
        SETCLIENTID           Same            Kept      InSession         Required;
        SETCLIENTID_CONFIRM   Same            Kept      InSession         Required;
        VERIFY                Reads           Kept      InSession         Required;
        WRITE                 Same            Kept      InSession         Required;
        RELEASE_LOCKOWNER     Same            Kept      InSession         Required;
        BACKCHANNEL_CTL       Same            Kept      InSession         Required;
        BIND_CONN_TO_SESSION  Same            Kept      Alone             Required;
        EXCHANGE_ID           Same            Kept      AloneOrInSession  Required;
        CREATE_SESSION        Differs         Kept      AloneOrInSession  Required;
        DESTROY_SESSION       BADSESSION      Kept      AloneOrInSession  Required;
        FREE_STATEID          Differs         Kept      InSession         Required;
        GET_DIR_DELEGATION    Differs         Kept      InSession         Optional;
        GETDEVICEINFO         Reads           Kept      InSession         Optional;
        GETDEVICELIST         Reads           Kept      InSession         Optional;
        LAYOUTCOMMIT          Same            Kept      InSession         Optional;
        LAYOUTGET             Differs         Kept      InSession         Optional;
        LAYOUTRETURN          Differs         Kept      InSession         Optional;
        SECINFO_NO_NAME       Reads           Kept      InSession         Optional;
        SEQUENCE              Reads           Kept      First             Required;
        SET_SSV               Differs         Kept      InSession         Required;
        TEST_STATEID          Reads           Kept      InSession         Required;
        WANT_DELEGATION       Differs         Kept      InSession         Optional;
        DESTROY_CLIENTID      STALE_CLIENTID  Kept      AloneOrInSession  Required;
        RECLAIM_COMPLETE      Differs         Kept      InSession         Required;
        ALLOCATE              Same            Kept      InSession         Optional;
        COPY                  Differs         Kept      InSession         Optional;
        COPY_NOTIFY           Differs         Kept      InSession         Optional;
        DEALLOCATE            Same            Kept      InSession         Optional;
        IO_ADVISE             Same            Kept      InSession         Optional;
        LAYOUTERROR           Differs         Kept      InSession         Optional;
        LAYOUTSTATS           Differs         Kept      InSession         Optional;
        OFFLOAD_CANCEL        Differs         Kept      InSession         Optional;
        OFFLOAD_STATUS        Reads           Kept      InSession         Optional;
        READ_PLUS             Reads           Kept      InSession         Optional;
        SEEK                  Reads           Kept      InSession         Optional;
        WRITE_SAME            Same            Kept      InSession         Optional;
        CLONE                 Same            Kept      InSession         Optional;
        GETXATTR              Reads           Kept      InSession         Optional;
        SETXATTR              Differs         Kept      InSession         Optional;
        LISTXATTRS            Reads           Kept      InSession         Optional;
        REMOVEXATTR           Differs         Kept      InSession         Optional;
        ILLEGAL               Reads           Kept      InSession         Optional;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8881 section 2.10.2.1: what a client can send without a session sets up, binds or ends one.
    #[test]
    fn operations_without_session_are_of_sessions() {
        let is_outside = |operation: &&Operation| meaning(**operation).position != Position::InSession;
        let names: Vec<_> = Operation::ALL.iter().filter(is_outside).map(ToString::to_string).collect();
        let expected = [
            "BIND_CONN_TO_SESSION",
            "EXCHANGE_ID",
            "CREATE_SESSION",
            "DESTROY_SESSION",
            "SEQUENCE",
            "DESTROY_CLIENTID",
        ];
        assert_eq!(names, expected);
    }

    /// RFC 8881 section 17, table of operations: OPT. RFC 7862 section 14.2: all of NFSv4.2.
    #[test]
    fn optional_operations_are_those_of_tables() {
        let is_optional = |operation: &&Operation| !meaning(**operation).is_required;
        let optional: Vec<_> = Operation::ALL.iter().filter(is_optional).collect();
        let of_later = optional.iter().filter(|operation| operation.first_minor_version() == 2).count();
        assert_eq!((optional.len(), of_later), (13 + 17 + 1, 17));
    }
}
