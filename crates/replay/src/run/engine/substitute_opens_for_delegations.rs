//! Opens in place of delegations that the live server does not grant.
//!
//! A captured client with a delegation used its stateid after closing the file, or had no stateid of the open at all
//! (RFC 9754 section 5). A server need not grant a delegation (RFC 8881 section 10.4). This program then opens the file
//! once more, with its own open-owner: a CLOSE of the captured owner does not end that open (RFC 8881 section 9.9).
//! DELEGRETURN is replaced by its CLOSE. If the captured client had no stateid of the open but the live server returns
//! one, no step would close it, so this program does.
//!
//! A delegation that the live server grants and the captured one did not is returned at once (RFC 7530 section 10.4,
//! RFC 8881 section 10.4): no step returns it, other users of the file would wait for it, and DESTROY_CLIENTID would
//! fail.
//!
//! An NFSv4.0 server asks for OPEN_CONFIRM of an unknown open-owner (RFC 7530 section 16.18), for example after a
//! restart. If the trace has none, this program sends it.
//!
//! The step of the trace keeps its window entry until all this is done, so that no step is sent with the old stateid.

pub(super) mod pending_substitutes;
mod substitute_open_request;

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::nfs::v4::{Clientid4, Nfsstat4, Sessionid4, Stateid4};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_rpc::{CallTag, RpcClientConnectionId, TransportReply};

use super::super::file_divergence::MAX_DIVERGENT_FILES;
use super::super::recovery::MAX_RESENDS;
use super::super::recovery::calls::{RecoveryCallResult, RecoveryReply, encode_compound};
use super::super::recovery::recoverable_client_state::{RecoverableDelegation, substitute_owner};
use super::super::root_and_attribute_rewriting::OperationWithSubstituteOpenStateid;
use super::super::run_error::ReplayRunError;
use super::live_call_builder::LiveCallBuilder;
use super::replay_engine::ReplayEngine;
use super::reply_check_queue::LiveReply;
use super::scheduler::RETRY_DELAY;
use super::send_result::NonStepCallSubmitResult;
use super::step_window::{SUBSTITUTE_INDEX, StepWindowEntry, call_tag};
use crate::containment::ContainmentCheckedTransport;
use crate::trace::step::{SubstitutableMessageSlot, TraceSlotValueKind, TraceStep};
use pending_substitutes::PendingDelegationSubstitute;
use substitute_open_request::{DelegationSubstituteCall, DelegationSubstituteOpenRequest};

impl LiveCallBuilder {
    fn substitute_call(
        &self,
        substitute: &PendingDelegationSubstitute,
        sequence: Option<([u8; 16], u32, u32)>,
        xid: Xid,
    ) -> Option<Vec<u8>> {
        let request = &substitute.request;
        let stage = substitute.stages.front()?;
        let seqid = match request.seqid_owner(stage) {
            Some(owner) if request.minor_version == 0 => self.values.next_seqid((false, owner)),
            _ => 0,
        };
        let owner = request.delegation.map(|(variable, _)| substitute_owner(variable)).unwrap_or_default();
        let operations = request.operations(stage, &owner, seqid);
        encode_compound(&request.header, xid, request.minor_version, sequence, &operations)
    }

    /// Returns the operations of a step that use the stateid of an open in place of a delegation's.
    pub(super) fn substituted_stateids(&self, step: &TraceStep<'_>) -> Vec<OperationWithSubstituteOpenStateid> {
        if self.ungranted_delegations.is_empty() {
            return Vec::new();
        }
        let slots = step.call.slots.iter().filter(|slot| {
            slot.value_kind == TraceSlotValueKind::STATEID && self.ungranted_delegations.contains(&slot.variable)
        });
        let from_slot = |slot: SubstitutableMessageSlot| OperationWithSubstituteOpenStateid {
            operation: slot.operation as usize,
            has_own_owner: self.substitutes.active.contains(&slot.variable),
            variable: slot.variable,
            seqid: match step.procedure.minor_version {
                0 => self.values.next_seqid((false, slot.variable)),
                _ => 0,
            },
        };
        slots.map(from_slot).collect()
    }

    /// Updates a substitute with the identifiers that a recovery returned. Returns `false` if it cannot continue.
    fn update_renewed(&mut self, substitute: &mut PendingDelegationSubstitute) -> bool {
        let request = &mut substitute.request;
        if request.minor_version == 0 && !self.client_state.clients.contains_key(&request.clientid) {
            let id = request.client_variable.and_then(|variable| self.values.identifier(variable));
            let Some(id) = id else { return false };
            request.clientid = u64::from_be_bytes(id);
        }
        // The captured owner's open replaces the delegation while there is no substitute.
        if let (Some(surplus), Some((variable, _))) = (&mut request.surplus_open, request.delegation) {
            let Some(other) = self.values.identifier(variable) else { return false };
            *surplus = Stateid4 { seqid: self.values.seqid(variable), other };
            return true;
        }
        // A recovery has confirmed the captured owner.
        substitute.stages.retain(|stage| !matches!(stage, DelegationSubstituteCall::ConfirmCaptured(_)));
        request.surplus_open.is_none()
    }

    fn complete_stage(
        &mut self,
        substitute: &mut PendingDelegationSubstitute,
        stage: &DelegationSubstituteCall,
        result: RecoveryCallResult,
        is_done: bool,
    ) {
        substitute.stages.pop_front();
        match (stage, result) {
            (DelegationSubstituteCall::ReturnDelegation(stateid), _) => {
                self.client_state.delegations.remove(&stateid.other);
            }
            (DelegationSubstituteCall::ConfirmCaptured(open), RecoveryCallResult::Stateid(stateid)) => {
                self.values.set_seqid(open.variables[0], stateid.seqid);
            }
            (DelegationSubstituteCall::Open, RecoveryCallResult::UnconfirmedLiveOpen(stateid)) => {
                substitute.stages.push_front(DelegationSubstituteCall::Confirm(stateid))
            }
            (
                DelegationSubstituteCall::Open | DelegationSubstituteCall::Confirm(_),
                RecoveryCallResult::Stateid(stateid),
            ) => self.take_substitute_stateid(substitute, &stateid),
            _ => {}
        }
        if let Some(surplus) = substitute
            .request
            .surplus_open
            .as_ref()
            .filter(|_| is_done && matches!(stage, DelegationSubstituteCall::Open))
        {
            self.client_state.remove_open(surplus.other);
        }
    }

    /// Returns the client of a substitute, and its session from NFSv4.1 on.
    fn client_of_substitute(
        &self,
        substitute: &PendingDelegationSubstitute,
    ) -> Option<(Clientid4, Option<Sessionid4>)> {
        let id = substitute.session.and_then(|(session, _)| self.values.identifier(session));
        match id {
            Some(id) => Some((self.client_state.sessions.get(&id)?.client, Some(id))),
            None => Some((substitute.request.clientid, None)),
        }
    }

    /// Uses the stateid of the substitute open for the delegation from here on.
    fn take_substitute_stateid(&mut self, substitute: &PendingDelegationSubstitute, stateid: &Stateid4) {
        let request = &substitute.request;
        let Some((variable, access)) = request.delegation else { return };
        if self.substitutes.active.len() >= MAX_DIVERGENT_FILES {
            self.dropped_values += 1;
            return;
        }
        self.values.set_value(variable, &stateid.other);
        self.values.set_seqid(variable, stateid.seqid);
        self.substitutes.active.insert(variable);
        let Some((client, _)) = self.client_of_substitute(substitute) else { return };
        let (file, header) = (request.file.clone(), request.header.clone());
        let replaced = RecoverableDelegation { client, file, access, header, variable };
        self.client_state.add_substitute_open(stateid.other, replaced);
    }

    /// Removes the substitute whose CLOSE, sent for a DELEGRETURN, was answered.
    pub(super) fn substitute_closed(&mut self, step: &TraceStep<'_>) {
        for variable in step.call.variables(TraceSlotValueKind::STATEID) {
            if self.substitutes.active.remove(&variable)
                && let Some(other) = self.values.identifier(variable)
            {
                self.client_state.remove_open(other);
            }
        }
    }

    /// Records the substitute that the OPEN or GET_DIR_DELEGATION of a step makes necessary. Returns `true` if a
    /// delegation is missing that cannot be replaced, so that the open in its place stays open.
    pub(super) fn record_substitute_request(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
        reply: &TransportReply<'_>,
    ) -> bool {
        let missing = self.substitutes.missing.take();
        self.substitutes.wanted = DelegationSubstituteOpenRequest::of(entry, step, LiveReply::from(reply), missing);
        missing.is_some() && self.substitutes.wanted.is_none()
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Releases the window entry of an answered step, at once or when the substitute that its Reply makes necessary
    /// exists.
    pub(super) fn release_after_substitute(
        &mut self,
        window_index: u32,
        window_step: Box<StepWindowEntry>,
        connection: RpcClientConnectionId,
    ) {
        let line = self.connections.connection_index.get(&connection).copied();
        let Some((request, line)) = self.call_builder.substitutes.wanted.take().zip(line) else {
            return self.scheduler.release(window_index, window_step);
        };
        let stages = request.stages();
        self.call_builder.substitutes.waiting.push_back(PendingDelegationSubstitute {
            window_index,
            session: window_step.captured.slot,
            window_step,
            request,
            stages,
            line,
            ..PendingDelegationSubstitute::default()
        });
    }

    /// Sends the Calls of pending substitutes, as far as connections have capacity.
    pub(super) fn make_substitutes(
        &mut self,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<(), ReplayRunError> {
        for _ in 0..self.call_builder.substitutes.waiting.len() {
            let Some(mut substitute) = self.call_builder.substitutes.waiting.pop_front() else { break };
            let is_finished = substitute.sent.is_none() && self.make_substitute(&mut substitute, transport)?;
            match is_finished {
                true => self.abandon_substitute(substitute),
                false => self.call_builder.substitutes.waiting.push_back(substitute),
            }
        }
        Ok(())
    }

    /// Sends the next Call of a substitute. Returns `true` if nothing more can be sent.
    fn make_substitute(
        &mut self,
        substitute: &mut PendingDelegationSubstitute,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<bool, ReplayRunError> {
        if self.connections.is_failing() || self.report.end.is_interrupted {
            return Ok(true);
        }
        if std::mem::take(&mut substitute.is_renewed) && !self.call_builder.update_renewed(substitute)
            || substitute.stages.is_empty()
        {
            return Ok(true);
        }
        let now = Instant::now();
        if substitute.retry_at.is_some_and(|due| due > now)
            || self.ensure_connected(substitute.line, transport)?.is_some()
        {
            return Ok(false);
        }
        self.bind_sessions(substitute.line, transport);
        let Some(line) = self.connections.lines.get_mut(substitute.line) else { return Ok(true) };
        if line.is_waiting_for_binding() {
            return Ok(false);
        }
        let connection = line.connection;
        let (xid, message) = match substitute.message.take() {
            Some(message) => message,
            None => {
                let mut sequence = None;
                if let Some((session, captured)) = substitute.session {
                    let Some(live_session) = self.call_builder.values.session(session) else {
                        return Ok(true);
                    };
                    let slot = live_session.slot(captured);
                    if live_session.is_busy(slot) {
                        return Ok(false);
                    }
                    let id = self.call_builder.values.identifier(session);
                    let Some(id) = id else { return Ok(true) };
                    let next = self.call_builder.values.next_sequence((session, slot));
                    (substitute.slot, sequence) = (Some((session, slot)), Some((id, slot, next)));
                }
                let xid = line.next_xid();
                let Some(message) = self.call_builder.substitute_call(substitute, sequence, xid) else {
                    return Ok(true);
                };
                (xid, message)
            }
        };
        let tag = call_tag(self.context.number, SUBSTITUTE_INDEX, substitute.window_index.into());
        match self.submit_own(connection, (xid, tag), (&message, None), transport) {
            NonStepCallSubmitResult::Sent => {
                self.scheduler.in_flight += 1;
                substitute.sent = Some(now);
                if let Some(slot) = substitute.slot {
                    self.call_builder.values.set_slot_state(slot, true, false);
                }
            }
            NonStepCallSubmitResult::Lost => self.mark_connection_lost(connection),
            NonStepCallSubmitResult::Escapes(_) => return Ok(true),
            _ => {}
        }
        substitute.message = Some((xid, message));
        Ok(false)
    }

    /// Removes and returns the substitute in flight whose Call has this tag.
    fn take_substitute(&mut self, tag: CallTag) -> Option<PendingDelegationSubstitute> {
        let number = self.context.number;
        let has_tag = |substitute: &PendingDelegationSubstitute| {
            substitute.sent.is_some() && call_tag(number, SUBSTITUTE_INDEX, substitute.window_index.into()) == tag
        };
        let at = self.call_builder.substitutes.waiting.iter().position(has_tag)?;
        let mut substitute = self.call_builder.substitutes.waiting.remove(at)?;
        substitute.sent = None;
        self.scheduler.end_flight();
        Some(substitute)
    }

    pub(super) fn handle_substitute_reply(&mut self, reply: &TransportReply<'_>) {
        let Some(mut substitute) = self.take_substitute(reply.tag) else { return };
        self.unpark_connection(reply.connection, 1);
        if let Some((_, message)) = substitute.message.take() {
            self.call_builder.containment.record_decoded_reply(Cursor::new(&message), reply.cursor());
        }
        let connection = reply.connection;
        let Some(reply) = RecoveryReply::of(reply.cursor()) else {
            let (blame, reason) = RecoveryReply::failure(reply.cursor());
            self.report.protocol.add_fault(blame, format!("a call in place of a delegation: {reason}"));
            return self.abandon_substitute(substitute);
        };
        if let Some(slot) = substitute.slot.take() {
            self.free_slot(slot, reply.statuses.first() == Some(&Nfsstat4::NFS4_OK));
        }
        let status = reply.status();
        let Some(stage) = substitute.stages.front().cloned() else { return };
        // If the operation was not reached, the server did not count the seqid.
        if substitute.request.minor_version == 0
            && reply.statuses.len() > 1
            && let Some(owner) = substitute.request.seqid_owner(&stage)
        {
            let seqid = self.call_builder.values.next_seqid((false, owner));
            self.call_builder.values.update_owner_seqid(false, owner, seqid, status.0);
        }
        let is_return = matches!(stage, DelegationSubstituteCall::ReturnDelegation(_));
        let is_forgotten = match status {
            Nfsstat4::NFS4ERR_BADSESSION | Nfsstat4::NFS4ERR_DEADSESSION | Nfsstat4::NFS4ERR_STALE_CLIENTID => true,
            // A forgotten delegation need not be returned.
            Nfsstat4::NFS4ERR_STALE_STATEID => !is_return,
            _ => false,
        };
        if is_forgotten && substitute.resends < MAX_RESENDS && self.reclaim_client(&mut substitute, connection) {
            return self.call_builder.substitutes.waiting.push_back(substitute);
        }
        let is_open = reply.opened().is_some();
        substitute.stages.extend(reply.delegation.map(DelegationSubstituteCall::ReturnDelegation));
        match status {
            Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE
                if !is_open && substitute.tries < self.context.options.max_delay_retries =>
            {
                substitute.tries += 1;
                substitute.retry_at = Some(Instant::now() + RETRY_DELAY * substitute.tries.min(10));
                self.report.delayed += 1;
                self.call_builder.substitutes.waiting.push_back(substitute);
            }
            _ => {
                let is_done = is_return || status == Nfsstat4::NFS4_OK;
                if status != Nfsstat4::NFS4_OK {
                    let minor = substitute.request.minor_version;
                    let what = format!("{} in place of a delegation", reply.operation);
                    self.report.protocol.add_own_status(&what, (minor, reply.operation), status);
                }
                self.call_builder.complete_stage(&mut substitute, &stage, reply.result, is_done);
                self.report.returned_delegations += u64::from(is_return);
                match (is_done, substitute.stages.is_empty()) {
                    (true, false) => self.call_builder.substitutes.waiting.push_back(substitute),
                    (true, true) => self.scheduler.release(substitute.window_index, substitute.window_step),
                    (false, _) => self.abandon_substitute(substitute),
                }
            }
        }
    }

    /// Re-establishes the client of a substitute that the server has forgotten, after which all is requested again.
    /// Returns `true` if this is possible.
    fn reclaim_client(
        &mut self,
        substitute: &mut PendingDelegationSubstitute,
        connection: RpcClientConnectionId,
    ) -> bool {
        let client = self.call_builder.client_of_substitute(substitute);
        let clients = &self.call_builder.client_state.clients;
        let Some((client, id)) = client.filter(|(client, _)| clients.contains_key(client)) else {
            return false;
        };
        self.start_recovery(client, id, connection);
        substitute.resends += 1;
        substitute.is_renewed = true;
        true
    }

    /// Gives up a substitute; the captured owner's open stands in for the delegation.
    fn abandon_substitute(&mut self, substitute: PendingDelegationSubstitute) {
        self.verification.leaves_open = true;
        if let Some(slot) = substitute.slot {
            self.retire_slot(slot);
        }
        self.scheduler.release(substitute.window_index, substitute.window_step);
    }

    /// Handles a Call of a substitute that will get no Reply. `is_again` is `true` if it is to be sent again because
    /// its connection was lost.
    pub(super) fn lose_substitute(&mut self, tag: CallTag, is_again: bool) {
        let Some(mut substitute) = self.take_substitute(tag) else { return };
        match is_again && substitute.resends < MAX_RESENDS {
            true => {
                substitute.resends += 1;
                self.call_builder.substitutes.waiting.push_back(substitute);
            }
            false => self.abandon_substitute(substitute),
        }
    }

    pub(super) fn expire_substitutes(&mut self, now: Instant) {
        let waiting = self.call_builder.substitutes.waiting.iter();
        let overdue =
            waiting.filter(|substitute| substitute.sent.is_some_and(|sent| self.context.is_overdue(sent, now)));
        for window_index in overdue.map(|substitute| substitute.window_index).collect::<Vec<_>>() {
            let tag = call_tag(self.context.number, SUBSTITUTE_INDEX, window_index.into());
            self.lose_substitute(tag, false);
        }
    }

    /// Gives up all substitutes, including those in flight.
    pub(super) fn abandon_substitutes(&mut self) {
        while let Some(substitute) = self.call_builder.substitutes.waiting.pop_front() {
            if substitute.sent.is_some() {
                self.scheduler.end_flight();
            }
            self.abandon_substitute(substitute);
        }
    }
}
