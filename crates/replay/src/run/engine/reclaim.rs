//! Recovery from a server that has forgotten a client or its session, for example after a restart: the client's state
//! is reclaimed, then the steps continue.
//!
//! No other Call is sent meanwhile. Recovery starts when nothing is in flight, so that all old Replies are processed.
//! Its Calls are sent one at a time.
//!
//! Delegations that are still held when all steps are finished, because the capture ends before its clients returned
//! them, are returned in the same way. Otherwise other users of the files, the final check among them, would wait until
//! the server revokes the delegations (RFC 8881 sections 10.4.5 and 10.4.6).

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::nfs::v4::{Clientid4, Nfsstat4, Operation, Sessionid4, ShareAccess, Stateid4};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_rpc::{CallTag, RpcClientConnectionId, TransportReply};

use super::super::file_divergence::MAX_DIVERGENT_FILES;
use super::super::live_values::{LiveServerSession, LiveVariableValues};
use super::super::recovery::calls::{self, RecoveryCall, RecoveryCallContext, RecoveryCallResult, RecoveryReply};
use super::super::recovery::recoverable_client_state::{
    RecoverableState, SentCallWithReply, StateidOther, may_change_state, rename,
};
use super::super::recovery::{MAX_CLIENT_RECOVERIES, MAX_RESENDS, NOT_RECLAIMED};
use super::super::reply_statuses_and_grants::ReplyStatusesAndSessionGrants;
use super::super::run_error::ReplayRunError;
use super::super::step_outcome::StepOutcome;
use super::client_reclaim::{ClientReclaim, SessionUsedForReclaim};
use super::live_call_builder::LiveCallBuilder;
use super::replay_engine::ReplayEngine;
use super::scheduler::RETRY_DELAY;
use super::send_result::NonStepCallSubmitResult;
use super::step_window::{RECOVERY_INDEX, StepWindowEntry, call_tag};
use crate::containment::ContainmentCheckedTransport;
use crate::nfs4::remedy::{Remedy, remedy};
use crate::trace::step::{NONE, TraceSlotValueKind, TraceStep};

enum RecoveryProgress {
    /// It waits for a Reply, capacity, or this time.
    Waiting(Option<Instant>),
    Abandoned(String),
    Finished,
}

fn set_stateid(values: &mut LiveVariableValues, variables: &[u32], stateid: &Stateid4) {
    for variable in variables {
        values.set_value(*variable, &stateid.other);
        values.set_seqid(*variable, stateid.seqid);
    }
}

impl LiveCallBuilder {
    /// Updates the sequence IDs of the slot and the seqids of the owners.
    fn count_recovery_sequences(&mut self, reclaim: &mut ClientReclaim, call: RecoveryCall, reply: &RecoveryReply) {
        let is_sequenced = call.has_sequence() && reply.statuses.first() == Some(&Nfsstat4::NFS4_OK);
        if let Some((_, sequence, _)) = reclaim.session.as_mut().filter(|_| is_sequenced) {
            *sequence = sequence.wrapping_add(1);
        }
        // If the operation was not reached, the server did not count the seqid.
        if reply.statuses.len() < 2 {
            return;
        }
        for (is_lock, owner_seqid) in [false, true].into_iter().zip(reclaim.seqids) {
            if let Some((owner, seqid)) = owner_seqid {
                self.values.update_owner_seqid(is_lock, owner, seqid, reply.status().0);
            }
        }
    }

    fn replace_open_stateid(&mut self, old: StateidOther, stateid: &Stateid4) {
        self.client_state.rename_open(old, stateid.other);
        if let Some(open) = self.client_state.opens.get(&stateid.other) {
            set_stateid(&mut self.values, &open.variables, stateid);
        }
    }

    fn replace_client_id(&mut self, reclaim: &mut ClientReclaim, id: Clientid4) {
        self.client_state.rename_client(reclaim.client, id);
        reclaim.client = id;
        if let Some(client) = self.client_state.clients.get(&id) {
            self.values.set_value(client.variables[0], &id.to_be_bytes());
        }
    }

    /// Drops the values of variables whose state is lost.
    fn unset_variables(&mut self, variables: impl IntoIterator<Item = u32>) {
        for variable in variables {
            self.values.unset(variable);
            if self.unrecovered.len() < MAX_DIVERGENT_FILES {
                self.unrecovered.insert(variable);
            }
        }
    }

    /// Returns the state of a step that needs state which could not be reclaimed.
    pub(super) fn not_reclaimed_state(&self, entry: &StepWindowEntry, step: &TraceStep<'_>) -> Option<StepOutcome> {
        if self.unrecovered.is_empty() {
            return None;
        }
        let kinds = [TraceSlotValueKind::SESSION, TraceSlotValueKind::CLIENTID, TraceSlotValueKind::STATEID];
        let is_lost = step.call.slots.iter().any(|slot| {
            kinds.contains(&slot.value_kind)
                && self.unrecovered.contains(&slot.variable)
                && self.values.get(slot.variable).is_none()
        });
        is_lost.then(|| match entry.resend.forgotten_status.map(Nfsstat4) {
            Some(status) => {
                let reason = format!("{status}, and not reclaimed");
                StepOutcome::Mismatched(vec![entry.missing_reply_difference(&reason)])
            }
            None => StepOutcome::Unreplayable(format!("{}: {}", NOT_RECLAIMED.code, NOT_RECLAIMED.text)),
        })
    }

    /// Records the state at the server that a Call and its Reply create or release.
    pub(super) fn record_state(&mut self, entry: &StepWindowEntry, step: &TraceStep<'_>, reply: &TransportReply<'_>) {
        if may_change_state(&entry.description.operations) {
            self.client_state.update(&SentCallWithReply {
                step,
                sent: &entry.call.message,
                placed: &entry.call.placed,
                reply: reply.cursor(),
            });
            self.dropped_values += std::mem::take(&mut self.client_state.dropped);
        }
    }

    /// Removes the session or client that a Call has destroyed whose first Reply was lost.
    pub(super) fn record_destroyed(&mut self, step: &TraceStep<'_>, operations: &[Operation]) {
        if operations.contains(&Operation::DESTROY_SESSION) {
            for session in step.call.variables(TraceSlotValueKind::SESSION) {
                self.values.identifier(session).and_then(|id| self.client_state.sessions.remove(&id));
            }
        }
        if operations.contains(&Operation::DESTROY_CLIENTID) {
            let clients = step.call.variables(TraceSlotValueKind::CLIENTID);
            let ids = clients.filter_map(|client| self.values.identifier(client).map(Clientid4::from_be_bytes));
            ids.for_each(|id| self.client_state.remove_client(id));
        }
    }

    fn plan_recovery(&self, reclaim: &mut ClientReclaim) {
        let Some(client) = self.client_state.clients.get(&reclaim.client) else { return };
        (reclaim.is_client_lost, reclaim.is_completion, reclaim.session) = (true, false, None);
        reclaim.calls.clear();
        if client.minor_version == 0 {
            reclaim.calls.push_back(RecoveryCall::Setclientid);
        } else {
            reclaim.calls.push_back(RecoveryCall::ExchangeId);
            let sessions = self.client_state.sessions_of(reclaim.client);
            reclaim.calls.extend(sessions.into_iter().map(RecoveryCall::CreateSession));
        }
        reclaim.calls.extend(self.client_state.opens_of(reclaim.client).into_iter().map(RecoveryCall::Open));
        if client.minor_version > 0 && client.is_complete {
            reclaim.calls.push_back(RecoveryCall::ReclaimComplete);
        }
    }

    /// Replaces the delegations of a client that the server has forgotten: those of files by opens of this program,
    /// which can be reclaimed; those of directories, which cannot (RFC 8881 section 10.9.5), by nothing.
    fn replace_delegations(&mut self, reclaim: &mut ClientReclaim) {
        for (other, delegation) in self.client_state.take_delegations_of(reclaim.client) {
            let variable = delegation.variable;
            if self.ungranted_delegations.len() < MAX_DIVERGENT_FILES {
                self.ungranted_delegations.insert(variable);
            }
            self.values.unset(variable);
            if delegation.access == ShareAccess(0) {
                continue;
            }
            self.substitutes.active.insert(variable);
            self.client_state.add_substitute_open(other, delegation);
            // Before RECLAIM_COMPLETE.
            let sessions = reclaim.calls.iter().take_while(|call| matches!(call, RecoveryCall::CreateSession(_)));
            reclaim.calls.insert(sessions.count(), RecoveryCall::Open(other));
        }
    }

    /// Stores the result of a Reply of a recovery. Returns the number of opens and lock ranges reclaimed.
    fn apply_recovery_result(
        &mut self,
        reclaim: &mut ClientReclaim,
        call: RecoveryCall,
        result: RecoveryCallResult,
    ) -> Result<u64, String> {
        let mut reclaimed = 0;
        match (call, result) {
            (RecoveryCall::ExchangeId, RecoveryCallResult::Client(id, sequence, is_known)) => {
                // The server still knows the client, and its state still exists.
                let is_unchanged = is_known && id == reclaim.client;
                if is_unchanged {
                    reclaim.calls.retain(|call| matches!(call, RecoveryCall::CreateSession(_)));
                    reclaim.is_client_lost = false;
                } else {
                    self.replace_delegations(reclaim);
                }
                self.replace_client_id(reclaim, id);
                // RFC 8881 section 18.35.3: the csa_sequence of a confirmed client does not change.
                if let Some(client) = self.client_state.clients.get_mut(&id).filter(|_| !is_unchanged) {
                    client.sequence = sequence;
                    let [variable, _] = client.variables;
                    self.values.set_create_sequence(variable, sequence);
                }
            }
            (RecoveryCall::Setclientid, RecoveryCallResult::Unconfirmed(id, verifier)) => {
                self.replace_delegations(reclaim);
                self.replace_client_id(reclaim, id);
                let Some(client) = self.client_state.clients.get(&id) else { return Ok(0) };
                self.values.set_value(client.variables[1], &verifier);
                if client.is_complete {
                    reclaim.calls.push_front(RecoveryCall::SetclientidConfirm(verifier));
                }
            }
            (RecoveryCall::CreateSession(old), RecoveryCallResult::Session(id, slots)) => {
                rename(&mut self.client_state.sessions, &old, id);
                if let Some(client) = self.client_state.clients.get_mut(&reclaim.client) {
                    client.sequence = client.sequence.wrapping_add(1);
                    let (variable, sequence) = (client.variables[0], client.sequence);
                    self.values.set_create_sequence(variable, sequence);
                }
                if let Some(session) = self.client_state.sessions.get(&id) {
                    self.values.set_value(session.variable, &id);
                    self.values.renew_session(session.variable, LiveServerSession::new(slots));
                }
                reclaim.session.get_or_insert((id, 0, slots));
            }
            (RecoveryCall::Open(old), RecoveryCallResult::UnconfirmedLiveOpen(stateid)) => {
                self.replace_open_stateid(old, &stateid);
                reclaim.calls.push_front(RecoveryCall::OpenConfirm(stateid.other, stateid.seqid));
            }
            (RecoveryCall::Open(old) | RecoveryCall::OpenConfirm(old, _), RecoveryCallResult::Stateid(stateid)) => {
                self.replace_open_stateid(old, &stateid);
                reclaimed += 1;
                for lock in self.client_state.locks_of(stateid.other).into_iter().rev() {
                    reclaim.calls.push_front(RecoveryCall::Lock(lock, 0));
                }
            }
            (RecoveryCall::Lock(old, at), RecoveryCallResult::Stateid(stateid)) => {
                reclaimed += 1;
                rename(&mut self.client_state.locks, &old, stateid.other);
                if let Some(lock) = self.client_state.locks.get(&stateid.other) {
                    set_stateid(&mut self.values, &lock.variables, &stateid);
                    if at + 1 < lock.ranges.len() {
                        reclaim.calls.push_front(RecoveryCall::Lock(stateid.other, at + 1));
                    }
                }
            }
            (RecoveryCall::ReturnHeldDelegation(other, _), _) => {
                self.client_state.delegations.remove(&other);
            }
            (
                RecoveryCall::SetclientidConfirm(_)
                | RecoveryCall::ReturnDelegation { .. }
                | RecoveryCall::ReclaimComplete
                | RecoveryCall::Renew,
                _,
            ) => {}
            (call, _) => return Err(format!("{}: its reply has no result", call.name())),
        }
        Ok(reclaimed)
    }

    /// Drops an open that could not be reclaimed, with its locks. Returns the number of opens and locks dropped.
    fn drop_open(&mut self, open: StateidOther) -> u64 {
        let locks = self.client_state.locks_of(open);
        let dropped = locks.into_iter().map(|lock| self.drop_lock(lock)).sum::<u64>();
        let open = self.client_state.opens.remove(&open);
        self.unset_variables(open.into_iter().flat_map(|open| open.variables));
        dropped + 1
    }

    /// Drops a lock that could not be reclaimed. Returns the number of locks dropped.
    fn drop_lock(&mut self, lock: StateidOther) -> u64 {
        let lock = self.client_state.locks.remove(&lock);
        self.unset_variables(lock.into_iter().flat_map(|lock| lock.variables));
        1
    }

    /// Returns the next Call of a recovery, skipping state that is no longer held. Each attempt takes an XID.
    fn next_recovery_call(
        &self,
        reclaim: &mut ClientReclaim,
        mut next_xid: impl FnMut() -> Xid,
    ) -> Option<(Xid, Vec<u8>)> {
        loop {
            let call = *reclaim.calls.front()?;
            let RecoverableState { clients, opens, locks, .. } = &self.client_state;
            let (open, lock) = match call {
                RecoveryCall::Open(open) | RecoveryCall::OpenConfirm(open, _) => (opens.get(&open), None),
                RecoveryCall::Lock(lock, _) => {
                    let lock = locks.get(&lock);
                    (lock.and_then(|lock| opens.get(&lock.open)), lock)
                }
                _ => (None, None),
            };
            // Only the first LOCK of a lock-owner uses the open.
            let counted_open = open.filter(|_| !matches!(call, RecoveryCall::Lock(_, 1..)));
            let next = |is_lock, owner| (owner, self.values.next_seqid((is_lock, owner)));
            reclaim.seqids =
                [counted_open.map(|open| next(false, open.seqid_variable)), lock.map(|lock| next(true, lock.seqid_of))];
            // The seqid is 0 for the most recent stateid, except in NFSv4.0: RFC 8881 section 8.2.2.
            let is_minor_0 = clients.get(&reclaim.client).is_some_and(|client| client.minor_version == 0);
            let stateid_seqid = |variables: Option<&Vec<u32>>| {
                let variable = variables.and_then(|variables| variables.first());
                variable.filter(|_| is_minor_0).map_or(0, |variable| self.values.seqid(*variable))
            };
            let xid = next_xid();
            let session = reclaim.session.map(|(id, sequence, _)| (id, sequence.wrapping_add(1)));
            let context = RecoveryCallContext {
                xid,
                client: reclaim.client,
                session: session.filter(|_| call.has_sequence()),
                seqids: reclaim.seqids.map(|owner_seqid| owner_seqid.map_or(0, |(_, seqid)| seqid)),
                stateid_seqids: [open.map(|open| &open.variables), lock.map(|lock| &lock.variables)].map(stateid_seqid),
                is_expired: reclaim.is_expired,
            };
            match calls::encode_call(&self.client_state, call, &context) {
                Some(message) => return Some((xid, message)),
                None => reclaim.calls.pop_front(),
            };
        }
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Returns `true` if the server has forgotten state that a Call uses and the state is being recovered or was
    /// recovered since, so that the Call is sent again.
    pub(super) fn needs_recovery(
        &mut self,
        entry: &mut StepWindowEntry,
        step: &TraceStep<'_>,
        connection: RpcClientConnectionId,
        outcome: &ReplyStatusesAndSessionGrants,
        recorded_status: impl FnOnce() -> Option<u32>,
    ) -> bool {
        let Some(status) = outcome.forgotten_state_status() else { return false };
        // From NFSv4.1 on, the client and its session remain when a stateid has expired.
        if Nfsstat4(status) == Nfsstat4::NFS4ERR_EXPIRED && step.procedure.minor_version != 0 {
            return false;
        }
        if entry.resend.renewals >= MAX_RESENDS || recorded_status() == Some(status) {
            return false;
        }
        let Some(client) = self.call_builder.client_state.client_of(step, &self.call_builder.values) else {
            return false;
        };
        let id = entry.call.counts.slot.and_then(|(session, _)| self.call_builder.values.identifier(session));
        self.start_recovery_since(client, id, connection, entry.call.recoveries_at_send);
        self.note_expiry(client, Some(Nfsstat4(status)));
        entry.resend.renewals += 1;
        entry.resend.count += 1;
        entry.resend.forgotten_status = Some(status);
        true
    }

    /// Returns `true` if the server refuses a call because the registration of its client is not complete, and the run
    /// completes it, so that the call is sent again: the capture lacks SETCLIENTID_CONFIRM or RECLAIM_COMPLETE. RFC 7530
    /// section 16.33.5, RFC 8881 section 18.51.3.
    pub(super) fn needs_completion(
        &mut self,
        entry: &mut StepWindowEntry,
        step: &TraceStep<'_>,
        connection: RpcClientConnectionId,
        outcome: &ReplyStatusesAndSessionGrants,
        recorded_status: impl FnOnce() -> Option<u32>,
    ) -> bool {
        let Some(status) = outcome.last_status().map(Nfsstat4) else { return false };
        let [of_unconfirmed, of_incomplete] = [
            matches!(status, Nfsstat4::NFS4ERR_STALE_CLIENTID | Nfsstat4::NFS4ERR_EXPIRED),
            status == Nfsstat4::NFS4ERR_GRACE,
        ];
        if !of_unconfirmed && !of_incomplete {
            return false;
        }
        let (state, values) = (&self.call_builder.client_state, &self.call_builder.values);
        let client = state.client_of(step, values);
        let Some((client, known)) = client.and_then(|client| Some((client, state.clients.get(&client)?))) else {
            return false;
        };
        let is_refused = if known.minor_version == 0 { of_unconfirmed } else { of_incomplete };
        let completes = [Operation::SETCLIENTID_CONFIRM, Operation::RECLAIM_COMPLETE]
            .iter()
            .any(|operation| entry.description.operations.contains(operation));
        if known.is_complete || !is_refused || completes || recorded_status() == Some(status.0) {
            return false;
        }
        if self.connections.reclaim.is_none() {
            let verifier = values.get(known.variables[1]).and_then(|verifier| verifier.first_chunk().copied());
            let call = match (known.minor_version, verifier) {
                (0, Some(verifier)) => RecoveryCall::SetclientidConfirm(verifier),
                (0, None) => return false,
                _ => RecoveryCall::ReclaimComplete,
            };
            let Some((line, session)) = self.connection_of_client(client) else { return false };
            let line = self.connections.connection_index.get(&connection).copied().unwrap_or(line);
            let (calls, is_completion) = ([call].into(), true);
            let reclaim = ClientReclaim { client, line, calls, session, is_completion, ..ClientReclaim::default() };
            self.connections.reclaim = Some(reclaim);
        }
        entry.resend.completed_client = true;
        true
    }

    /// Makes the recovery of a client request again what cannot be reclaimed, if its lease has expired.
    pub(super) fn note_expiry(&mut self, client: Clientid4, status: Option<Nfsstat4>) {
        if let Some(reclaim) = self.connections.reclaim.as_mut().filter(|reclaim| reclaim.client == client) {
            reclaim.is_expired |= status == Some(Nfsstat4::NFS4ERR_EXPIRED);
        }
    }

    /// Starts the recovery of a client unless it was recovered since the run had this number of recoveries.
    pub(super) fn start_recovery_since(
        &mut self,
        client: Clientid4,
        id: Option<Sessionid4>,
        connection: RpcClientConnectionId,
        recoveries: u32,
    ) {
        // Its DESTROY_SESSION was sent again, so that the server may have executed it: nobody needs the session.
        if id.is_some_and(|id| self.is_destroyed_again(id)) {
            return;
        }
        let state = self.call_builder.client_state.clients.get(&client);
        if state.is_none_or(|state| state.recovery_number <= recoveries) {
            self.start_recovery(client, id, connection);
        }
    }

    /// Returns `true` if DESTROY_SESSION of a session was sent and is sent again, because its connection was lost.
    fn is_destroyed_again(&self, id: Sessionid4) -> bool {
        self.scheduler.window.steps_in_order().into_iter().any(|entry| {
            entry.resend.count > 0
                && entry.description.operations.contains(&Operation::DESTROY_SESSION)
                && entry.step.trace_step().is_some_and(|step| {
                    let mut sessions = step.call.variables(TraceSlotValueKind::SESSION);
                    sessions.any(|session| self.call_builder.values.identifier(session) == Some(id))
                })
        })
    }

    /// Starts the recovery of a client, beginning with the session `id` if one was forgotten.
    pub(super) fn start_recovery(
        &mut self,
        client: Clientid4,
        id: Option<Sessionid4>,
        connection: RpcClientConnectionId,
    ) {
        let Some(line) = self.connections.connection_index.get(&connection).copied() else { return };
        if self.connections.reclaim.is_some() || self.report.end.is_interrupted {
            return;
        }
        let mut reclaim = ClientReclaim { client, line, ..ClientReclaim::default() };
        match id.filter(|id| self.call_builder.client_state.sessions.contains_key(id)) {
            Some(id) => reclaim.calls.push_back(RecoveryCall::CreateSession(id)),
            None => self.call_builder.plan_recovery(&mut reclaim),
        }
        self.continue_unless_repeated(reclaim);
    }

    /// Counts a loss of the client and continues the recovery, unless it was lost too often.
    fn continue_unless_repeated(&mut self, reclaim: ClientReclaim) {
        let recovery_count = self.call_builder.client_state.clients.get_mut(&reclaim.client).map(|client| {
            client.recovery_count += 1;
            client.recovery_count
        });
        match recovery_count {
            Some(recovery_count) if recovery_count > MAX_CLIENT_RECOVERIES => {
                self.abandon_recovery(&reclaim, &format!("the server has forgotten it {recovery_count} times"));
            }
            Some(_) => self.connections.reclaim = Some(reclaim),
            None => {}
        }
    }

    /// Continues a recovery. Returns the time of the next action, if known.
    pub(super) fn recover(
        &mut self,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<Option<Instant>, ReplayRunError> {
        if self.scheduler.in_flight > 0 || self.connections.leases.is_renewing() {
            return Ok(None);
        }
        // Replies from before the recovery are checked against the old state.
        self.check_all()?;
        let Some(mut reclaim) = self.connections.reclaim.take() else { return Ok(None) };
        match self.continue_recovery(&mut reclaim, transport)? {
            RecoveryProgress::Waiting(due) => {
                self.connections.reclaim = Some(reclaim);
                return Ok(due);
            }
            RecoveryProgress::Abandoned(reason) => self.abandon_recovery(&reclaim, &reason),
            RecoveryProgress::Finished => self.finish_recovery(&reclaim),
        }
        Ok(None)
    }

    /// Sends the next Call of a recovery, if it may be sent now.
    fn continue_recovery(
        &mut self,
        reclaim: &mut ClientReclaim,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<RecoveryProgress, ReplayRunError> {
        let now = Instant::now();
        let name = |reclaim: &ClientReclaim| reclaim.calls.front().map_or("", |call| call.name());
        if let Some(sent) = reclaim.sent {
            if !self.context.is_overdue(sent, now) {
                return Ok(RecoveryProgress::Waiting(None));
            }
            let seconds = self.context.options.timeout.as_secs_f64();
            let reason = format!("no reply to {} within {seconds} s", name(reclaim));
            return Ok(RecoveryProgress::Abandoned(reason));
        }
        if self.connections.is_failing() {
            return Ok(RecoveryProgress::Abandoned("connections were lost without a reply".into()));
        }
        if let Some(due) = reclaim.retry_at.filter(|due| *due > now) {
            return Ok(RecoveryProgress::Waiting(Some(due)));
        }
        if let Some(retry_at) = self.ensure_connected(reclaim.line, transport)? {
            return Ok(RecoveryProgress::Waiting(Some(retry_at)));
        }
        self.bind_sessions(reclaim.line, transport);
        if let Some(line) = self.connections.lines.get(reclaim.line).filter(|line| line.is_waiting_for_binding()) {
            return Ok(RecoveryProgress::Waiting(line.next_binding));
        }
        let Some(line) = self.connections.lines.get_mut(reclaim.line) else {
            return Ok(RecoveryProgress::Abandoned("it has no connection".into()));
        };
        let connection = line.connection;
        let next = reclaim.message.take().or_else(|| self.call_builder.next_recovery_call(reclaim, || line.next_xid()));
        let Some((xid, bytes)) = next else { return Ok(RecoveryProgress::Finished) };
        self.connections.recovery_calls += 1;
        let tag = call_tag(self.context.number, RECOVERY_INDEX, self.connections.recovery_calls);
        let client = self.call_builder.client_state.clients.get(&reclaim.client);
        let client = client.map_or(NONE, |client| client.captured_client);
        match self.submit_own(connection, (xid, tag), (&bytes, Some(client)), transport) {
            NonStepCallSubmitResult::Sent => {
                self.report.calls += 1;
                reclaim.sent = Some(now);
            }
            NonStepCallSubmitResult::NotYet => {}
            NonStepCallSubmitResult::Lost => {
                self.connections.count_failure();
                self.mark_connection_lost(connection);
            }
            NonStepCallSubmitResult::Unsigned(reason) => return Ok(RecoveryProgress::Abandoned(reason)),
            NonStepCallSubmitResult::Escapes(reason) => {
                return Ok(RecoveryProgress::Abandoned(format!("{}: {reason}", name(reclaim))));
            }
        }
        reclaim.message = Some((xid, bytes));
        Ok(RecoveryProgress::Waiting(None))
    }

    fn is_last_recovery_call(&self, tag: CallTag) -> bool {
        tag == call_tag(self.context.number, RECOVERY_INDEX, self.connections.recovery_calls)
    }

    /// Handles the loss of the connection of a recovery's Call, which is sent again unchanged.
    pub(super) fn handle_recovery_loss(&mut self, tag: CallTag) {
        let is_last = self.is_last_recovery_call(tag);
        if let Some(restart) = self.connections.reclaim.as_mut().filter(|_| is_last) {
            restart.sent = None;
        }
    }

    pub(super) fn handle_recovery_reply(&mut self, reply: &TransportReply<'_>) {
        if !self.is_last_recovery_call(reply.tag) {
            return;
        }
        let Some(mut reclaim) = self.connections.reclaim.take().filter(|reclaim| reclaim.sent.is_some()) else {
            return;
        };
        if let Some((_, bytes)) = &reclaim.message {
            self.call_builder.containment.record_decoded_reply(Cursor::new(bytes), reply.cursor());
        }
        (reclaim.sent, reclaim.message) = (None, None);
        self.connections.stalled_since = None;
        let Some(call) = reclaim.calls.front().copied() else { return };
        let Some(reply) = RecoveryReply::of(reply.cursor()) else {
            let (blame, reason) = RecoveryReply::failure(reply.cursor());
            let reason = format!("{}: {reason}", call.name());
            self.report.protocol.add_fault(blame, reason.clone());
            return self.abandon_recovery(&reclaim, &reason);
        };
        self.call_builder.count_recovery_sequences(&mut reclaim, call, &reply);
        let status = reply.status();
        let remedy = remedy(self.minor_version(reclaim.client), Some(reply.operation), status);
        let opens = &self.call_builder.client_state.opens;
        let is_other_file = match (call, &reply.file) {
            (RecoveryCall::Open(open), Some(file)) => opens.get(&open).is_some_and(|open| open.file != *file),
            _ => false,
        };
        match status {
            Nfsstat4::NFS4_OK if is_other_file => {
                reclaim.calls.pop_front();
                if let RecoveryCall::Open(open) = call {
                    self.report.recovery.not_reclaimed += self.call_builder.drop_open(open);
                }
                self.report.add_refusal(format!("{}: another file has its name", call.name()));
            }
            Nfsstat4::NFS4_OK => {
                reclaim.tries = 0;
                reclaim.calls.pop_front();
                let granted = reply.opened().zip(reply.delegation);
                match self.call_builder.apply_recovery_result(&mut reclaim, call, reply.result) {
                    Ok(reclaimed) => self.report.recovery.reclaimed += reclaimed,
                    Err(reason) => return self.abandon_recovery(&reclaim, &reason),
                }
                self.report.returned_delegations += u64::from(call.is_delegation_return());
                // No step returns it.
                if let Some((open, Stateid4 { seqid, other: delegation })) = granted {
                    reclaim.calls.push_front(RecoveryCall::ReturnDelegation { open, delegation, seqid });
                }
            }
            _ if remedy == Remedy::Wait && reclaim.tries < self.context.options.max_delay_retries => {
                reclaim.tries += 1;
                reclaim.retry_at = Some(Instant::now() + RETRY_DELAY * reclaim.tries.min(10));
                self.report.delayed += 1;
            }
            // The server does not know the client either.
            _ if remedy == Remedy::NewClient
                && matches!(call, RecoveryCall::CreateSession(_))
                && !reclaim.is_client_lost =>
            {
                self.call_builder.plan_recovery(&mut reclaim);
            }
            _ if matches!(remedy, Remedy::NewClient | Remedy::NewSession) && !reclaim.is_return => {
                self.call_builder.plan_recovery(&mut reclaim);
                return self.continue_unless_repeated(reclaim);
            }
            _ if remedy == Remedy::Ignore => {
                reclaim.calls.pop_front();
            }
            _ if reclaim.is_return => {
                self.add_own_status(reclaim.client, call, (reply.operation, status));
                if let RecoveryCall::ReturnHeldDelegation(other, _) = call {
                    self.call_builder.client_state.delegations.remove(&other);
                }
                reclaim.calls.pop_front();
                self.report.add_refusal(format!("delegation not returned: {status}"));
            }
            // The server has lost the seqids of all owners, and takes any next ones: RFC 7530 section 9.1.9.
            Nfsstat4::NFS4ERR_BAD_SEQID if reclaim.seqids.iter().any(Option::is_some) => {
                self.report.protocol.count_violation(format!(
                    "{status} to {}: its seqids follow those of the calls before, and a server that has restarted \
                     knows no others (RFC 7530 sections 9.1.7 and 9.1.9)",
                    call.name()
                ));
                // It may insist on those of a new owner, which begin with 1.
                let is_repeated = reclaim.seqids.iter().flatten().all(|(_, seqid)| *seqid == 1);
                if is_repeated {
                    self.drop_unreclaimed(&mut reclaim, call, status);
                } else {
                    self.call_builder.values.forget_owner_seqids(reclaim.seqids);
                }
            }
            _ => {
                self.add_own_status(reclaim.client, call, (reply.operation, status));
                if let Some(reason) = self.drop_unreclaimed(&mut reclaim, call, status) {
                    return self.abandon_recovery(&reclaim, &reason);
                }
            }
        }
        self.connections.reclaim = Some(reclaim);
    }

    /// Adds the status of a failed call of a recovery, if a side has failed or broken the protocol.
    fn add_own_status(&mut self, client: Clientid4, call: RecoveryCall, (operation, status): (Operation, Nfsstat4)) {
        let minor = self.minor_version(client);
        self.report.protocol.add_own_status(call.name(), (minor, operation), status);
    }

    fn minor_version(&self, client: Clientid4) -> u32 {
        self.call_builder.client_state.clients.get(&client).map_or(0, |client| client.minor_version)
    }

    /// Drops the state of a call that could not be reclaimed. Returns the reason if the recovery cannot continue.
    fn drop_unreclaimed(
        &mut self,
        reclaim: &mut ClientReclaim,
        call: RecoveryCall,
        status: Nfsstat4,
    ) -> Option<String> {
        let reason = format!("{}: {status}", call.name());
        reclaim.calls.pop_front();
        let dropped = match call {
            RecoveryCall::Open(open) | RecoveryCall::OpenConfirm(open, _) => self.call_builder.drop_open(open),
            RecoveryCall::Lock(lock, _) => self.call_builder.drop_lock(lock),
            call if call.is_delegation_return() => 0,
            _ => return Some(reason),
        };
        self.report.recovery.not_reclaimed += dropped;
        (0..dropped).for_each(|_| self.report.add_refusal(reason.clone()));
        None
    }

    /// Gives up the recovery of a client; all its state is lost.
    fn abandon_recovery(&mut self, reclaim: &ClientReclaim, reason: &str) {
        if reclaim.is_return {
            return self.abandon_delegation_return(reclaim.client, reason);
        }
        if reclaim.is_completion {
            self.report.add_refusal(format!("registration of a client not completed: {reason}"));
            return self.finish_completion(reclaim);
        }
        let Some(client) = self.call_builder.client_state.clients.get(&reclaim.client) else { return };
        let (captured, [variable, _]) = (client.captured_client, client.variables);
        self.report.add_refusal(format!("captured client {captured} not re-established: {reason}"));
        for open in self.call_builder.client_state.opens_of(reclaim.client) {
            self.report.recovery.not_reclaimed += self.call_builder.drop_open(open);
        }
        for id in self.call_builder.client_state.sessions_of(reclaim.client) {
            if let Some(session) = self.call_builder.client_state.sessions.remove(&id) {
                self.call_builder.values.close_session(session.variable);
                self.call_builder.unset_variables([session.variable]);
            }
        }
        self.call_builder.unset_variables([variable]);
        self.call_builder.client_state.remove_client(reclaim.client);
        self.requeue_client(captured);
    }

    /// Records that the registration of a client is complete, so that the run does not complete it again.
    fn finish_completion(&mut self, reclaim: &ClientReclaim) {
        let Self { call_builder: LiveCallBuilder { client_state, values, .. }, .. } = self;
        client_state.complete_client(reclaim.client);
        if let Some((id, sequence, _)) = reclaim.session
            && let Some(session) = client_state.sessions.get(&id)
        {
            values.set_last_sequence((session.variable, 0), sequence);
        }
    }

    fn finish_recovery(&mut self, reclaim: &ClientReclaim) {
        if reclaim.is_return {
            return;
        }
        if reclaim.is_completion {
            return self.finish_completion(reclaim);
        }
        self.connections.recoveries += 1;
        self.report.recovery.recovered += 1;
        if reclaim.is_client_lost {
            self.verification.checker.record_restart();
        }
        if let Some((id, sequence, slots)) = reclaim.session
            && let Some(session) = self.call_builder.client_state.sessions.get(&id)
        {
            self.call_builder
                .values
                .renew_session(session.variable, LiveServerSession::with_used_slot(slots, sequence));
        }
        let recoveries = self.connections.recoveries;
        let captured = self.call_builder.client_state.clients.get_mut(&reclaim.client).map(|client| {
            client.recovery_number = recoveries;
            client.captured_client
        });
        captured.into_iter().for_each(|captured| self.requeue_client(captured));
    }

    /// Queues the steps of a client again; Calls that were to be sent unchanged are rebuilt with the new state.
    fn requeue_client(&mut self, captured: u32) {
        // The server returns new lock stateids.
        std::mem::take(&mut self.verification.locks);
        self.scheduler.requeue_client(captured);
    }

    /// Starts to return the delegations of one client. Returns `false` if no client holds any.
    pub(super) fn start_delegation_return(&mut self) -> bool {
        if self.report.end.unreachable.is_some() {
            return false;
        }
        while let Some(first) = self.call_builder.client_state.delegations.values().next() {
            let (client, values) = (first.client, &self.call_builder.values);
            if let Some((line, session)) = self.connection_of_client(client) {
                let delegations = self.call_builder.client_state.delegations.iter();
                let own_delegations = delegations.filter(|(_, delegation)| delegation.client == client);
                let calls = own_delegations.map(|(other, delegation)| {
                    RecoveryCall::ReturnHeldDelegation(*other, values.seqid(delegation.variable))
                });
                let (calls, is_return) = (calls.collect(), true);
                let reclaim = ClientReclaim { client, line, calls, session, is_return, ..ClientReclaim::default() };
                self.connections.reclaim = Some(reclaim);
                return true;
            }
            self.abandon_delegation_return(client, "no connection or session");
        }
        false
    }

    /// Returns the index of a connection of a client and, from NFSv4.1 on, its session.
    fn connection_of_client(&self, client: Clientid4) -> Option<(usize, Option<SessionUsedForReclaim>)> {
        let state = self.call_builder.client_state.clients.get(&client)?;
        let line = self.connections.line_of_captured_client(state.captured_client)?;
        if state.minor_version == 0 {
            return Some((line, None));
        }
        let values = &self.call_builder.values;
        let mut sessions = self.call_builder.client_state.sessions.iter();
        let (id, session) = sessions.find(|(_, session)| session.client == client)?;
        let (slot, slots) = ((session.variable, 0), values.session(session.variable)?.slot_count());
        let last = values.next_sequence(slot).wrapping_sub(1);
        values.is_slot_certain(slot).then_some((line, Some((*id, last, slots))))
    }

    fn abandon_delegation_return(&mut self, client: Clientid4, reason: &str) {
        let count = self.call_builder.client_state.take_delegations_of(client).len();
        if count > 0 {
            self.report.add_refusal(format!("{count} delegations not returned: {reason}"));
        }
    }
}
