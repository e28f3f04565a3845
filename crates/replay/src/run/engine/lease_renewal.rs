//! Renews the leases of clients each third of the lease time: with RENEW in NFSv4.0 (RFC 7530 section 9.5), and from
//! NFSv4.1 on with SEQUENCE, unless another one of the session has succeeded since the last time (RFC 8881 section
//! 8.3). In NFSv4.0 only some operations renew the lease, so that RENEW is sent in any case.
//!
//! No renewal is in flight during a recovery, nor at the end of a run.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::nfs::v4::{Args, Clientid4, Nfsstat4, Operation, Renew4Args};
use nfsrdma_dissectors::rpc::{Program, Xid};
use nfsrdma_dissectors::xdr::Encoder;
use nfsrdma_rpc::TransportReply;

use super::super::recovery::calls::{self, RecoveryCall, RecoveryCallContext, RecoveryReply};
use super::super::run_error::ReplayRunError;
use super::client_lease::LeaseRenewal;
use super::replay_engine::ReplayEngine;
use super::send::unsigned_header;
use super::send_result::NonStepCallSubmitResult;
use super::step_window::{RENEWAL_INDEX, call_tag};
use crate::containment::ContainmentCheckedTransport;
use crate::nfs4::remedy::{Remedy, remedy};

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Renews the leases that are due.
    pub(super) fn renew_leases(
        &mut self,
        now: Instant,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<(), ReplayRunError> {
        let is_stopped = self.connections.reclaim.is_some() || self.connections.has_given_up();
        if !is_stopped && self.connections.leases.start_renewal(now) {
            self.plan_renewals();
        }
        for mut renewal in std::mem::take(&mut self.connections.leases.renewals) {
            let is_kept = match renewal.sent {
                Some(sent) => !self.context.is_overdue(sent, now),
                None => !is_stopped && self.send_renewal(&mut renewal, now, transport)?,
            };
            match renewal.slot {
                _ if is_kept => self.connections.leases.renewals.push(renewal),
                Some(slot) => self.retire_slot(slot),
                None => {}
            }
        }
        Ok(())
    }

    /// Encodes the Calls that renew the leases.
    fn plan_renewals(&mut self) {
        let mut clientids = self.connections.leases.prologue_clientids.clone();
        let clients = self.call_builder.client_state.clients.iter();
        let clients = clients.filter(|(_, client)| client.minor_version == 0 && client.is_complete);
        clientids.extend(clients.map(|(id, client)| (client.captured_client, *id)));
        for (client, id) in clientids {
            if self.connections.leases.is_unanswered(Some(id), None) {
                continue;
            }
            let Some((line, xid)) = self.renewal_line(client) else { continue };
            let context = RecoveryCallContext {
                xid,
                client: id,
                session: None,
                seqids: [0; 2],
                stateid_seqids: [0; 2],
                is_expired: false,
            };
            let known = calls::encode_call(&self.call_builder.client_state, RecoveryCall::Renew, &context);
            let message = known.or_else(|| encode_unsigned(xid, 0, None, &[Args::RENEW(Renew4Args { clientid: id })]));
            self.add_renewal(client, (line, xid), message, (Some(id), None));
        }
        for ((client, minor_version), slot) in self.call_builder.values.take_due_session_slots() {
            if self.connections.leases.is_unanswered(None, Some(slot.0)) {
                continue;
            }
            let Some(id) = self.call_builder.values.identifier(slot.0) else { continue };
            let Some((line, xid)) = self.renewal_line(client) else { continue };
            let sequence = (id, slot.1, self.call_builder.values.next_sequence(slot));
            let message = encode_unsigned(xid, minor_version, Some(sequence), &[]);
            self.call_builder.values.set_slot_state(slot, true, false);
            self.add_renewal(client, (line, xid), message, (None, Some(slot)));
        }
    }

    /// Returns the index of a connection of a captured client, and an XID for it.
    fn renewal_line(&mut self, client: u32) -> Option<(usize, Xid)> {
        let line = self.connections.line_of_captured_client(client)?;
        Some((line, self.connections.lines.get_mut(line)?.next_xid()))
    }

    fn add_renewal(
        &mut self,
        client: u32,
        (line, xid): (usize, Xid),
        message: Option<Vec<u8>>,
        (clientid, slot): (Option<Clientid4>, Option<(u32, u32)>),
    ) {
        let Some(message) = message else { return };
        let leases = &mut self.connections.leases;
        leases.calls += 1;
        let tag = call_tag(self.context.number, RENEWAL_INDEX, leases.calls);
        let recoveries = self.connections.recoveries;
        leases.renewals.push(LeaseRenewal { client, line, message, xid, tag, clientid, slot, recoveries, sent: None });
    }

    /// Sends a renewal if its connection has capacity. Returns `false` if it can never be sent.
    fn send_renewal(
        &mut self,
        renewal: &mut LeaseRenewal,
        now: Instant,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<bool, ReplayRunError> {
        if self.ensure_connected(renewal.line, transport)?.is_some() {
            return Ok(true);
        }
        self.bind_sessions(renewal.line, transport);
        let Some(line) = self.connections.lines.get(renewal.line) else { return Ok(false) };
        if line.is_waiting_for_binding() {
            return Ok(true);
        }
        let connection = line.connection;
        let signer = Some(renewal.client);
        match self.submit_own(connection, (renewal.xid, renewal.tag), (&renewal.message, signer), transport) {
            NonStepCallSubmitResult::Sent => {
                self.report.calls += 1;
                renewal.sent = Some(now);
            }
            NonStepCallSubmitResult::NotYet => {}
            NonStepCallSubmitResult::Lost => {
                self.connections.count_failure();
                self.mark_connection_lost(connection);
            }
            NonStepCallSubmitResult::Unsigned(reason) | NonStepCallSubmitResult::Escapes(reason) => {
                self.report.add_refusal(format!("lease not renewed: {reason}"));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles the Reply to a renewal; a client that the server has forgotten is recovered.
    pub(super) fn handle_renewal_reply(&mut self, reply: &TransportReply<'_>) {
        let renewals = &mut self.connections.leases.renewals;
        let Some(at) = renewals.iter().position(|renewal| renewal.tag == reply.tag) else { return };
        let renewal = renewals.swap_remove(at);
        let (status, failed) = match RecoveryReply::of(reply.cursor()) {
            Some(reply) => (Some(reply.status()), reply.operation),
            None => (None, Operation::ILLEGAL),
        };
        if let Some(slot) = renewal.slot {
            match status {
                Some(status) => self.free_slot(slot, status == Nfsstat4::NFS4_OK),
                None => self.retire_slot(slot),
            }
        }
        let operation = if renewal.slot.is_some() { Operation::SEQUENCE } else { Operation::RENEW };
        // SEQUENCE has the same statuses in all minor versions.
        let minor = u32::from(renewal.slot.is_some());
        if !status.is_some_and(|status| {
            matches!(remedy(minor, Some(operation), status), Remedy::NewClient | Remedy::NewSession)
        }) {
            if let Some(status) = status {
                self.report.protocol.add_own_status(&format!("{operation} for the lease"), (minor, failed), status);
            }
            return;
        }
        let id = renewal.slot.and_then(|(session, _)| self.call_builder.values.identifier(session));
        let sessions = &self.call_builder.client_state.sessions;
        let client = renewal.clientid.or_else(|| Some(sessions.get(&id?)?.client));
        if let Some(client) = client {
            self.start_recovery_since(client, id, reply.connection, renewal.recoveries);
            self.note_expiry(client, status);
        }
    }
}

/// Encodes a COMPOUND of this program. SEQUENCE precedes the operations if a session, slot and sequence ID are given.
fn encode_unsigned(
    xid: Xid,
    minor_version: u32,
    sequence: Option<([u8; 16], u32, u32)>,
    operations: &[Args<'_>],
) -> Option<Vec<u8>> {
    let mut header = Encoder::new();
    unsigned_header((Program::NFS, 4, 1), xid, &mut header);
    calls::encode_compound(&header.finish().0, xid, minor_version, sequence, operations)
}
