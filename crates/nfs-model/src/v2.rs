//! Procedures of NFSv2. RFC 1094 section 2.2.

use nfsrdma_dissectors::nfs::v2::{Nfsstat, Procedure};

use crate::{Again, Meaning, Naming};

/// Returns the meaning of a procedure.
pub const fn meaning(procedure: Procedure) -> Meaning {
    use Procedure as P;
    const EXIST: Again = Again::Fails(Nfsstat::NFSERR_EXIST.0);
    const NOENT: Again = Again::Fails(Nfsstat::NFSERR_NOENT.0);
    let (again, naming) = match procedure {
        P::NULL | P::GETATTR | P::ROOT | P::LOOKUP | P::READLINK | P::READ => (Again::Reads, Naming::Kept),
        P::WRITECACHE | P::READDIR | P::STATFS => (Again::Reads, Naming::Kept),
        P::SETATTR | P::WRITE => (Again::Same, Naming::Kept),
        P::CREATE | P::SYMLINK | P::MKDIR => (EXIST, Naming::Makes),
        P::LINK => (EXIST, Naming::Replaces),
        P::REMOVE | P::RENAME | P::RMDIR => (NOENT, Naming::Replaces),
    };
    Meaning { again, naming }
}
