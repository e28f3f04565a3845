//! A COMPOUND during its execution.

use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{Clientid4, Nfsstat4, Results, Stateid4};
use nfsrdma_dissectors::xdr::Encoder;
use nfsrdma_replay::seed::file_server_client::SessionLimits;

use super::super::filehandle::MockFileId;

/// Maximum number of operations in a COMPOUND.
pub(super) const OPERATIONS: u32 = 64;

pub(super) struct MockCompoundExecution<'a> {
    pub(super) minor: u32,
    pub(super) current: Option<MockFileId>,
    pub(super) saved: Option<MockFileId>,
    /// The current stateid, which {1, 0} represents: RFC 8881 section 16.2.3.1.2.
    pub(super) stateid: Option<Stateid4>,
    /// The client of the session.
    pub(super) client: Option<Clientid4>,
    /// The limits of the session.
    pub(super) limits: SessionLimits,
    pub(super) body: Encoder,
    pub(super) data: &'a mut Vec<Vec<u8>>,
}

impl MockCompoundExecution<'_> {
    pub(super) fn current(&self) -> Result<MockFileId, Nfsstat4> {
        self.current.ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE)
    }

    pub(super) fn saved(&self) -> Result<MockFileId, Nfsstat4> {
        // NFSv4.0 has its own error for RESTOREFH without a saved filehandle: RFC 7530.
        self.saved.ok_or(if self.minor == 0 { Nfsstat4::NFS4ERR_RESTOREFH } else { Nfsstat4::NFS4ERR_NOFILEHANDLE })
    }

    /// Replaces the special stateid {1, 0} by the current stateid.
    pub(super) fn resolve_stateid(&self, stateid: &Stateid4) -> Result<Stateid4, Nfsstat4> {
        if self.minor > 0 && stateid.seqid == 1 && stateid.other == [0; 12] {
            return self.stateid.clone().ok_or(Nfsstat4::NFS4ERR_BAD_STATEID);
        }
        Ok(stateid.clone())
    }

    pub(super) fn succeed<'r, T>(
        &mut self,
        results: impl FnOnce(StatusUnion<Nfsstat4, T>) -> Results<'r>,
        body: T,
    ) -> Result<(), Nfsstat4> {
        self.encode_results(&results(StatusUnion::Ok(body)))
    }

    pub(super) fn encode_results(&mut self, results: &Results<'_>) -> Result<(), Nfsstat4> {
        results.encode(&mut self.body);
        Ok(())
    }
}
