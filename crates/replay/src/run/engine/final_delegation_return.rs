//! Return of the delegations that are still held when all steps are finished, because the capture ends before its
//! clients returned them.
//!
//! Otherwise other users of the files, the final check among them, would wait until the server revokes the delegations
//! (RFC 8881 sections 10.4.5 and 10.4.6).

use std::io::{Read, Seek};

use nfsrdma_dissectors::nfs::v4::Clientid4;

use super::super::recovery::calls::RecoveryCall;
use super::ReplayEngine;
use super::reclaim::{ClientReclaim, SessionUsedForReclaim};

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Starts to return the delegations of one client. Returns `false` if no client holds any.
    pub(super) fn start_delegation_return(&mut self) -> bool {
        if self.report.end.unreachable.is_some() {
            return false;
        }
        while let Some(client) = self.call_builder.client_state.delegation_holder() {
            let calls = self.call_builder.client_state.delegations_of(client);
            let calls = calls.into_iter().map(|(other, variable)| {
                RecoveryCall::ReturnHeldDelegation(other, self.call_builder.values.seqid(variable))
            });
            let calls = calls.collect();
            if let Some((line, session)) = self.connection_of_client(client) {
                self.connections.reclaim = Some(ClientReclaim::for_return(client, line, calls, session));
                return true;
            }
            self.abandon_delegation_return(client, "no connection or session");
        }
        false
    }

    /// Returns the index of a connection of a client and, from NFSv4.1 on, its session.
    fn connection_of_client(&self, client: Clientid4) -> Option<(usize, Option<SessionUsedForReclaim>)> {
        let known = self.call_builder.client_state.client(client)?;
        let own = self.connections.connection_by_client.iter();
        let own = own.filter(|((captured, _), _)| *captured == known.captured_client);
        let line = own.map(|(_, line)| *line).min()?;
        if known.minor_version == 0 {
            return Some((line, None));
        }
        let (id, session) = self.call_builder.client_state.session_of_client(client)?;
        let (slot, slots) =
            ((session.variable, 0), self.call_builder.values.session(session.variable)?.slot_count());
        let is_certain = self.call_builder.values.is_slot_certain(slot);
        let last = self.call_builder.values.next_sequence(slot).wrapping_sub(1);
        is_certain.then_some((line, Some((id, last, slots))))
    }

    /// Gives up the delegations of a client.
    pub(super) fn abandon_delegation_return(&mut self, client: Clientid4, why: &str) {
        let count = self.call_builder.client_state.take_delegations_of(client).len();
        if count > 0 {
            self.report.add_refusal(format!("{count} delegations not returned: {why}"));
        }
    }
}
