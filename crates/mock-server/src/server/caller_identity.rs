//! The user of a Call.

use nfsrdma_dissectors::rpc::Credential;
use nfsrdma_dissectors::rpc::auth;

/// The uid and gid of callers without AUTH_SYS credentials.
const NOBODY: u32 = 65_534;

/// A user with AUTH_SYS credentials.
#[derive(Clone, Debug, Default)]
pub(super) struct MockCallerIdentity {
    pub(super) uid: u32,
    gid: u32,
    gids: Vec<u32>,
}

impl MockCallerIdentity {
    /// Takes the identity from a credential; that of nobody if it is not AUTH_SYS.
    pub(super) fn set_from(&mut self, credential: &Credential<'_>) {
        self.gids.clear();
        match credential {
            Credential::Sys(auth::FlavorSpecificAuthBody::Known(sys)) => {
                (self.uid, self.gid) = (sys.uid, sys.gid);
                self.gids.extend(sys.gids.iter());
            }
            _ => (self.uid, self.gid) = (NOBODY, NOBODY),
        }
    }

    pub(super) fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.gids.contains(&group)
    }
}
