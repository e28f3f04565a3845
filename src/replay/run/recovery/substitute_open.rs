//! Opens that this program made for itself, among what clients hold.

use nfsrdma_dissectors::nfs::v4::{Clientid4, ShareAccess, ShareDeny};

use super::client_state::{RecoverableOpen, RecoverableState, StateidOther};

/// An open that this program made for itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::replay::run) struct SubstituteOpen<'a> {
    pub(in crate::replay::run) client: Clientid4,
    pub(in crate::replay::run) file: &'a [u8],
    pub(in crate::replay::run) access: ShareAccess,
    pub(in crate::replay::run) owner: &'a [u8],
    /// The header of the Call that opened, with its credential.
    pub(in crate::replay::run) header: &'a [u8],
    /// The variable that it stands for, which its owner counts under in NFSv4.0, too.
    pub(in crate::replay::run) variable: u32,
}

impl RecoverableState {
    /// This program has opened a file for itself. The variable stands for that, and for no other open any more.
    pub(in crate::replay::run) fn lend(&mut self, other: StateidOther, lent: SubstituteOpen<'_>) {
        for open in self.opens.values_mut() {
            open.variables.retain(|variable| *variable != lent.variable);
        }
        let open = RecoverableOpen {
            client: lent.client,
            file: lent.file.into(),
            access: lent.access,
            deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
            owner: lent.owner.into(),
            header: lent.header.into(),
            seqid_of: lent.variable,
            variables: vec![lent.variable],
        };
        self.opened(other, open);
    }
}
