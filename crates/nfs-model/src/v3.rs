//! Procedures of NFSv3. RFC 1813 section 3.3.

use nfsrdma_dissectors::nfs::v3::{Nfsstat3, Procedure};

use crate::{Again, Meaning, Naming};

/// Returns the meaning of a procedure.
pub const fn meaning(procedure: Procedure) -> Meaning {
    use Procedure as P;
    const EXIST: Again = Again::Fails(Nfsstat3::NFS3ERR_EXIST.0);
    const NOENT: Again = Again::Fails(Nfsstat3::NFS3ERR_NOENT.0);
    // With a guard, which is the time before the first one (section 3.3.2).
    const NOT_SYNC: Again = Again::Fails(Nfsstat3::NFS3ERR_NOT_SYNC.0);
    let (again, naming) = match procedure {
        P::NULL | P::GETATTR | P::LOOKUP | P::ACCESS | P::READLINK | P::READ => (Again::Reads, Naming::Kept),
        P::READDIR | P::READDIRPLUS | P::FSSTAT | P::FSINFO | P::PATHCONF => (Again::Reads, Naming::Kept),
        P::WRITE | P::COMMIT => (Again::Same, Naming::Kept),
        P::SETATTR => (NOT_SYNC, Naming::Kept),
        P::CREATE | P::MKDIR | P::SYMLINK | P::MKNOD => (EXIST, Naming::Makes),
        P::LINK => (EXIST, Naming::Replaces),
        P::REMOVE | P::RMDIR | P::RENAME => (NOENT, Naming::Replaces),
    };
    Meaning { again, naming }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names change only where a second execution fails; RFC 1813 section 4.8.
    #[test]
    fn name_changes_fail_again() {
        for procedure in Procedure::ALL {
            let Meaning { again, naming } = meaning(*procedure);
            let fails = matches!(again, Again::Fails(_)) && *procedure != Procedure::SETATTR;
            assert_eq!(fails, naming != Naming::Kept, "{procedure}");
        }
    }
}
