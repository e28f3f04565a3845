//! Opens of this program in the recoverable state.

use nfsrdma_dissectors::nfs::v4::{Clientid4, ShareAccess, ShareDeny};

use super::recoverable_client_state::{RecoverableOpen, RecoverableState, StateidOther};

/// An open of this program.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct DelegationSubstituteOpen<'a> {
    pub(in crate::run) client: Clientid4,
    pub(in crate::run) file: &'a [u8],
    pub(in crate::run) access: ShareAccess,
    pub(in crate::run) owner: &'a [u8],
    /// RPC header of the OPEN's Call, with its credential.
    pub(in crate::run) header: &'a [u8],
    /// Variable of the delegation that it replaces; its owner's seqid counts under it in NFSv4.0.
    pub(in crate::run) variable: u32,
}

/// Returns the name of this program's open-owner for a delegation.
pub(in crate::run) fn substitute_owner(variable: u32) -> Vec<u8> {
    format!("{} delegation {variable}", crate::PROGRAM).into_bytes()
}

impl RecoverableState {
    /// Adds an open of this program. Its variable is removed from all other opens.
    pub(in crate::run) fn add_substitute_open(
        &mut self,
        other: StateidOther,
        lent: DelegationSubstituteOpen<'_>,
    ) {
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
            seqid_variable: lent.variable,
            variables: vec![lent.variable],
        };
        self.add_open(other, open);
    }
}
