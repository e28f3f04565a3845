//! Operations of NFSv4.0, 4.1 and 4.2. RFC 7530 section 16, RFC 8881 section 18, RFC 7862 section 15, RFC 8276.

pub mod filehandles;
pub mod sequence;
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
    /// Its effect on the current filehandle.
    pub current: Current,
    /// `true` if it works on the object of the saved filehandle, too: as its source. RFC 8881 sections 18.9 and 18.26,
    /// RFC 7862 sections 15.2 and 15.13.
    pub uses_saved: bool,
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

/// Effect of an operation on the current filehandle: its object behind the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Current {
    /// The one that it was.
    Kept,
    /// Its argument.
    Argument,
    /// That of the root.
    Root,
    /// The public one, of an object that the client does not know.
    Public,
    /// That of the object of a name in the directory.
    Name,
    /// OPEN: that of the object of a name, or the one that it was, by its claim. RFC 8881 section 18.16.3.
    Claim,
    /// That of the directory above.
    Parent,
    /// That of the directory of named attributes.
    Attributes,
    /// The saved one.
    Saved,
    /// None from NFSv4.1 on, and the one that it was in NFSv4.0. RFC 8881 sections 18.29.3 and 18.45.3, RFC 7530 section
    /// 16.31.4.
    Consumed,
}

/// Generates a match with a row per operation.
macro_rules! meanings {
    ($operation:expr; $($name:ident $again:ident $naming:ident $position:ident $support:ident $current:ident $saved:ident;)*) => {
        match $operation {
            $(Operation::$name => Meaning {
                again: $again,
                naming: Naming::$naming,
                position: Position::$position,
                is_required: $support,
                current: Current::$current,
                uses_saved: $saved,
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
    const Source: bool = true;
    const Unused: bool = false;
    // SETATTR and WRITE put the same attributes and bytes in the same place. The seqids of LOCK, CLOSE and others, and
    // the sequence of CREATE_SESSION, count; a stateid that was freed or returned is unknown the next time.
    meanings! { operation;
        ACCESS                Reads           Kept      InSession         Required  Kept        Unused;
        CLOSE                 Differs         Kept      InSession         Required  Kept        Unused;
        COMMIT                Same            Kept      InSession         Required  Kept        Unused;
        CREATE                EXIST           Makes     InSession         Required  Name        Unused;
        DELEGPURGE            Same            Kept      InSession         Optional  Kept        Unused;
        DELEGRETURN           Differs         Kept      InSession         Optional  Kept        Unused;
        GETATTR               Reads           Kept      InSession         Required  Kept        Unused;
        GETFH                 Reads           Kept      InSession         Required  Kept        Unused;
        LINK                  EXIST           Replaces  InSession         Optional  Kept        Source;
        LOCK                  Differs         Kept      InSession         Required  Kept        Unused;
        LOCKT                 Reads           Kept      InSession         Required  Kept        Unused;
        LOCKU                 Differs         Kept      InSession         Required  Kept        Unused;
        LOOKUP                Reads           Kept      InSession         Required  Name        Unused;
        LOOKUPP               Reads           Kept      InSession         Required  Parent      Unused;
        NVERIFY               Reads           Kept      InSession         Required  Kept        Unused;
        OPEN                  Differs         Makes     InSession         Required  Claim       Unused;
        OPENATTR              Same            Kept      InSession         Optional  Attributes  Unused;
        OPEN_CONFIRM          Differs         Kept      InSession         Required  Kept        Unused;
        OPEN_DOWNGRADE        Differs         Kept      InSession         Required  Kept        Unused;
        PUTFH                 Reads           Kept      InSession         Required  Argument    Unused;
        PUTPUBFH              Reads           Kept      InSession         Required  Public      Unused;
        PUTROOTFH             Reads           Kept      InSession         Required  Root        Unused;
        READ                  Reads           Kept      InSession         Required  Kept        Unused;
        READDIR               Reads           Kept      InSession         Required  Kept        Unused;
        READLINK              Reads           Kept      InSession         Optional  Kept        Unused;
        REMOVE                NOENT           Replaces  InSession         Required  Kept        Unused;
        RENAME                NOENT           Replaces  InSession         Required  Kept        Source;
        RENEW                 Same            Kept      InSession         Required  Kept        Unused;
        RESTOREFH             Reads           Kept      InSession         Required  Saved       Unused;
        SAVEFH                Reads           Kept      InSession         Required  Kept        Unused;
        SECINFO               Reads           Kept      InSession         Required  Consumed    Unused;
        SETATTR               Same            Kept      InSession         Required  Kept        Unused;
        SETCLIENTID           Same            Kept      InSession         Required  Kept        Unused;
        SETCLIENTID_CONFIRM   Same            Kept      InSession         Required  Kept        Unused;
        VERIFY                Reads           Kept      InSession         Required  Kept        Unused;
        WRITE                 Same            Kept      InSession         Required  Kept        Unused;
        RELEASE_LOCKOWNER     Same            Kept      InSession         Required  Kept        Unused;
        BACKCHANNEL_CTL       Same            Kept      InSession         Required  Kept        Unused;
        BIND_CONN_TO_SESSION  Same            Kept      Alone             Required  Kept        Unused;
        EXCHANGE_ID           Same            Kept      AloneOrInSession  Required  Kept        Unused;
        CREATE_SESSION        Differs         Kept      AloneOrInSession  Required  Kept        Unused;
        DESTROY_SESSION       BADSESSION      Kept      AloneOrInSession  Required  Kept        Unused;
        FREE_STATEID          Differs         Kept      InSession         Required  Kept        Unused;
        GET_DIR_DELEGATION    Differs         Kept      InSession         Optional  Kept        Unused;
        GETDEVICEINFO         Reads           Kept      InSession         Optional  Kept        Unused;
        GETDEVICELIST         Reads           Kept      InSession         Optional  Kept        Unused;
        LAYOUTCOMMIT          Same            Kept      InSession         Optional  Kept        Unused;
        LAYOUTGET             Differs         Kept      InSession         Optional  Kept        Unused;
        LAYOUTRETURN          Differs         Kept      InSession         Optional  Kept        Unused;
        SECINFO_NO_NAME       Reads           Kept      InSession         Optional  Consumed    Unused;
        SEQUENCE              Reads           Kept      First             Required  Kept        Unused;
        SET_SSV               Differs         Kept      InSession         Required  Kept        Unused;
        TEST_STATEID          Reads           Kept      InSession         Required  Kept        Unused;
        WANT_DELEGATION       Differs         Kept      InSession         Optional  Kept        Unused;
        DESTROY_CLIENTID      STALE_CLIENTID  Kept      AloneOrInSession  Required  Kept        Unused;
        RECLAIM_COMPLETE      Differs         Kept      InSession         Required  Kept        Unused;
        ALLOCATE              Same            Kept      InSession         Optional  Kept        Unused;
        COPY                  Differs         Kept      InSession         Optional  Kept        Source;
        COPY_NOTIFY           Differs         Kept      InSession         Optional  Kept        Unused;
        DEALLOCATE            Same            Kept      InSession         Optional  Kept        Unused;
        IO_ADVISE             Same            Kept      InSession         Optional  Kept        Unused;
        LAYOUTERROR           Differs         Kept      InSession         Optional  Kept        Unused;
        LAYOUTSTATS           Differs         Kept      InSession         Optional  Kept        Unused;
        OFFLOAD_CANCEL        Differs         Kept      InSession         Optional  Kept        Unused;
        OFFLOAD_STATUS        Reads           Kept      InSession         Optional  Kept        Unused;
        READ_PLUS             Reads           Kept      InSession         Optional  Kept        Unused;
        SEEK                  Reads           Kept      InSession         Optional  Kept        Unused;
        WRITE_SAME            Same            Kept      InSession         Optional  Kept        Unused;
        CLONE                 Same            Kept      InSession         Optional  Kept        Source;
        GETXATTR              Reads           Kept      InSession         Optional  Kept        Unused;
        SETXATTR              Differs         Kept      InSession         Optional  Kept        Unused;
        LISTXATTRS            Reads           Kept      InSession         Optional  Kept        Unused;
        REMOVEXATTR           Differs         Kept      InSession         Optional  Kept        Unused;
        ILLEGAL               Reads           Kept      InSession         Optional  Kept        Unused;
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
