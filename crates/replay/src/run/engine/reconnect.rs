//! Replaces lost connections, sends the Calls that were in flight again, and binds the new connections to sessions.

use std::fmt;
use std::io::{Read, Seek};
use std::mem::swap;
use std::time::Instant;

use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Encoder;
use nfsrdma_rpc::{
    CallTag, ReconnectionAttempts, TransportConnectionId, TransportErrorResponsibility, TransportReply,
};

use super::super::recovery::{self, MAX_RESENDS, NO_CONNECTION, SessionBindError};
use super::super::step_outcome::StepOutcome;
use super::connections::{LiveConnection, PendingBindConnToSession, PendingSessionBinding};
use super::reply::missing_reply_difference;
use super::scheduler::RETRY_DELAY;
use super::send::unsigned_header;
use super::step_window::{
    BIND_INDEX, CONTEXT_INDEX, RECOVERY_INDEX, SUBSTITUTE_INDEX, StepWindowEntry, call_tag, unreadable_state,
    window_index,
};
use super::{NonStepCallSubmitResult, ReplayEngine, ReplayRunError, StepSendObstacle, with_recorder};
use crate::containment::ContainmentCheckedTransport;
use crate::trace::step::{NONE, TraceStep};
use nfsrdma_analysis::comparison::record::hash;

fn no_connection_state() -> StepOutcome {
    StepOutcome::Unreplayable(format!("{}: {}", NO_CONNECTION.code, NO_CONNECTION.text))
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Returns the index of the live connection for the captured one, or the outcome of the step if that has no
    /// capacity.
    pub(super) fn live_connection(
        &mut self,
        step: &TraceStep<'_>,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<usize, StepSendObstacle> {
        let captured = step.caller.connection;
        let max_connections = self.context.options.connections;
        let captured = max_connections.map_or(captured, |max_count| captured % u64::from(max_count.max(1)));
        let key = (step.caller.client, captured);
        let number = match self.connections.connection_by_client.get(&key) {
            Some(number) => *number,
            None if self.connections.has_given_up() => return Err(no_connection_state().into()),
            None => {
                let connection = self.open_connection(key, transport)?;
                self.report.connections += 1;
                let seed =
                    hash(format!("{} {} {:?}", self.context.tag, self.report.connections, key).as_bytes());
                let number = self.connections.lines.len();
                self.connections.lines.push(LiveConnection::new(connection, seed as u32));
                self.connections.connection_by_client.insert(key, number);
                self.connections.connection_index.insert(connection, number);
                number
            }
        };
        if let Some(retry_at) = self.ensure_connected(number, transport)? {
            return Err(StepSendObstacle::UnreachableUntil(retry_at));
        }
        if self.connections.has_given_up() {
            return Err(no_connection_state().into());
        }
        self.bind_sessions(number, transport);
        let parked = StepSendObstacle::Parked(number);
        let Some(line) = self.connections.lines.get(number) else { return Err(parked) };
        if line.is_waiting_for_binding() {
            let due = line.next_binding.filter(|due| *due > Instant::now());
            return Err(due.map_or(parked, StepSendObstacle::UnreachableUntil));
        }
        match transport.credits(line.connection).is_some_and(|credits| credits.available() == 0) {
            true => Err(parked),
            false => Ok(number),
        }
    }

    /// Reconnects a live connection if it is lost. Returns the time until which the server is not to be contacted, if
    /// any.
    pub(super) fn ensure_connected(
        &mut self,
        number: usize,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<Option<Instant>, ReplayRunError> {
        match self.connections.lines.get(number).and_then(|line| line.lost) {
            Some(attempts) if !self.connections.has_given_up() => self.reconnect(number, attempts, transport),
            _ => Ok(None),
        }
    }

    /// Opens a connection in place of a lost one. Returns the time until which the server is not to be contacted, if
    /// any.
    fn reconnect(
        &mut self,
        number: usize,
        mut attempts: ReconnectionAttempts,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<Option<Instant>, ReplayRunError> {
        let result = self.attempt_connection(&mut attempts, transport)?;
        let Some(line) = self.connections.lines.get_mut(number) else { return Ok(None) };
        match result {
            Ok(connection) => {
                // The XIDs continue: the server's duplicate request cache uses them.
                (line.connection, line.lost) = (connection, None);
                line.bindings.iter_mut().for_each(|binding| binding.is_refused = false);
                line.pending_bindings.clone_from(&line.bindings);
                self.connections.connection_index.insert(connection, number);
                self.report.connections += 1;
                self.report.recovery.reconnects += 1;
                self.verification.checker.record_reconnection();
                Ok(None)
            }
            Err(retry_at) => {
                line.lost = Some(attempts);
                Ok(retry_at)
            }
        }
    }

    /// Makes an attempt to connect, if one is due. Returns the connection, or else the time of the next attempt; `None`
    /// if the server is given up.
    fn attempt_connection(
        &mut self,
        attempts: &mut ReconnectionAttempts,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<Result<TransportConnectionId, Option<Instant>>, ReplayRunError> {
        if attempts.next_attempt() <= Instant::now() {
            match attempts.connect(self.context.target, |target| transport.connect(target)) {
                Ok(Some(connection)) => return Ok(Ok(connection)),
                Ok(None) => {}
                Err(error) if error.blame() == TransportErrorResponsibility::Unreachable => {
                    self.mark_unreachable(&error);
                    return Ok(Err(None));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Err(Some(attempts.next_attempt())))
    }

    /// Opens a connection that the run does not have yet, or returns the outcome of the step that needs it. After the
    /// first Call the server may be unreachable for a while.
    fn open_connection(
        &mut self,
        key: (u32, u64),
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<TransportConnectionId, StepSendObstacle> {
        if self.report.calls == 0 {
            return Ok(transport.connect(self.context.target)?);
        }
        let existing = self.connections.first_attempts.remove(&key);
        let mut attempts = existing
            .unwrap_or_else(|| ReconnectionAttempts::new(Instant::now(), self.context.options.timeout));
        self.attempt_connection(&mut attempts, transport)?.map_err(|retry_at| match retry_at {
            Some(retry_at) => {
                self.connections.first_attempts.insert(key, attempts);
                StepSendObstacle::UnreachableUntil(retry_at)
            }
            None => no_connection_state().into(),
        })
    }

    /// Marks the server as unreachable: no more Calls are sent, and the run ends with a report.
    pub(super) fn mark_unreachable(&mut self, reason: &dyn fmt::Display) {
        self.connections.failed_connections = u32::MAX;
        // A recovery cannot continue.
        self.connections.reclaim = None;
        self.report.end.unreachable.get_or_insert_with(|| reason.to_string());
    }

    /// Marks a connection as lost; the next step on it opens a new one.
    pub(super) fn mark_connection_lost(&mut self, connection: TransportConnectionId) {
        if let Some(number) = self.connections.mark_lost(connection, self.context.options.timeout) {
            self.scheduler.unpark(number, usize::MAX);
        }
    }

    /// Handles a Call whose connection was lost before its Reply: it is sent again, or fails after too many tries.
    pub(super) fn handle_lost_call(&mut self, tag: CallTag, reason: &str) -> Result<(), ReplayRunError> {
        let Some(window_index) = self.scheduler.window.find(tag) else {
            match window_index(tag) {
                RECOVERY_INDEX => self.handle_recovery_loss(tag),
                CONTEXT_INDEX => self.handle_setup_loss(tag),
                SUBSTITUTE_INDEX => self.lose_substitute(tag, true),
                _ => {}
            }
            return Ok(());
        };
        let is_exhausted =
            self.scheduler.window.get(window_index).is_none_or(|entry| entry.resend.count >= MAX_RESENDS);
        if is_exhausted || self.connections.is_failing() || self.report.end.is_interrupted {
            return self.handle_failed_call(tag, reason);
        }
        with_recorder(self.context.recorder, |recorder| recorder.record_lost(tag, None));
        let mut entry = self.scheduler.window.take(window_index);
        entry.call.in_flight = None;
        entry.resend.is_pending = true;
        entry.resend.count += 1;
        self.scheduler.end_flight();
        self.scheduler.put_back(window_index, entry, None);
        Ok(())
    }

    /// Sends a Call again unchanged, on the slot that it still has. RFC 8881 section 2.10.6.2.
    pub(super) fn resend(
        &mut self,
        window_index: u32,
        entry: &mut StepWindowEntry,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<(), StepSendObstacle> {
        let is_recorded = !entry.rewrites.is_substituted;
        let StepWindowEntry { step: stored_step, description: parts, call, turn, rewrites, .. } = &mut *entry;
        let (sent, placed) = (&mut call.message, &mut call.placed);
        let (Some(step), Some(xid)) = (stored_step.trace_step(), recovery::xid(sent)) else {
            return Err(unreadable_state().into());
        };
        let number = self.live_connection(&step, transport)?;
        let tag = call_tag(self.context.number, window_index, *turn);
        swap(&mut self.call_builder.call_buffer, sent);
        swap(&mut self.call_builder.placed, placed);
        let submitted =
            self.submit(&step, (parts, rewrites.piece), (number, xid, tag), transport, is_recorded);
        if submitted.is_err() {
            swap(&mut self.call_builder.call_buffer, sent);
            swap(&mut self.call_builder.placed, placed);
        }
        let (sent_at, reply_identifiers) = submitted?;
        self.report.recovery.resent += u64::from(!entry.resend.is_denied);
        (entry.resend.is_pending, entry.resend.is_denied) = (false, false);
        self.mark_in_flight((number, tag, sent_at), reply_identifiers, entry);
        Ok(())
    }

    /// Returns the state of a step that was sent and cannot be sent again; it is unknown whether the server has
    /// executed it.
    pub(super) fn unanswered_state(
        &mut self,
        entry: &StepWindowEntry,
        reason: &str,
    ) -> Result<StepOutcome, ReplayRunError> {
        // Earlier Replies are checked before the effects of this step become uncertain.
        self.check_all()?;
        if let Some(slot) = entry.call.counts.slot {
            self.retire_slot(slot);
        }
        if let (Some(tree), Some(step)) = (&mut self.verification.expected_tree, entry.step.trace_step()) {
            tree.mark_uncertain(&step, &entry.description);
        }
        Ok(StepOutcome::Mismatched(vec![missing_reply_difference(entry, reason)]))
    }

    /// Returns the state of a step that the server has executed without a usable Reply; its effects are unknown.
    pub(super) fn unknown_reply_state(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
    ) -> Result<StepOutcome, ReplayRunError> {
        self.check_all()?;
        if let Some(tree) = &mut self.verification.expected_tree {
            tree.mark_uncertain(step, &entry.description);
        }
        Ok(StepOutcome::Substituted(recovery::REPLY_UNKNOWN.code))
    }

    /// Sends BIND_CONN_TO_SESSION for the next session that a connection must be bound to: one at a time, as far as it
    /// has capacity.
    pub(super) fn bind_sessions(&mut self, number: usize, transport: &mut ContainmentCheckedTransport<'_>) {
        while let Some(line) = self.connections.lines.get_mut(number) {
            if line.pending_bindings.is_empty() || line.binding_in_flight.is_some() {
                return;
            }
            let now = Instant::now();
            if line.next_binding.is_some_and(|due| due > now) {
                return;
            }
            let required = line.pending_bindings.iter().position(|binding| binding.is_required);
            let Some(at) = required.or(line.pending_bindings.len().checked_sub(1)) else { return };
            let binding = line.pending_bindings.swap_remove(at);
            let PendingSessionBinding { session, minor_version, direction, .. } = binding;
            let Some(id) = self.call_builder.values.identifier(session) else { continue };
            let (connection, xid) = (line.connection, line.next_xid());
            let mut encoder = Encoder::new();
            unsigned_header((Program::NFS, 4, 1), xid, &mut encoder);
            recovery::bind_conn_to_session(minor_version, id, direction, &mut encoder);
            let message = encoder.finish().0;
            let tag = call_tag(self.context.number, BIND_INDEX, self.connections.binding_calls);
            let client = self
                .call_builder
                .client_state
                .client_of_session(id)
                .map_or(NONE, |client| client.captured_client);
            let result = self.submit_own(connection, (xid, tag), (&message, Some(client)), transport);
            self.connections.binding_calls += 1;
            let Some(line) = self.connections.lines.get_mut(number) else { return };
            match result {
                NonStepCallSubmitResult::Sent => {
                    self.report.calls += 1;
                    line.recoveries_at_binding = self.connections.recoveries;
                    line.binding_in_flight = Some(PendingBindConnToSession { tag, binding, sent: now });
                    return;
                }
                NonStepCallSubmitResult::NotYet => return line.pending_bindings.push(binding),
                NonStepCallSubmitResult::Lost => return,
                NonStepCallSubmitResult::Unsigned(why) | NonStepCallSubmitResult::Escapes(why) => {
                    line.refuse_binding(session);
                    self.report.add_refusal(format!("BIND_CONN_TO_SESSION: {why}"));
                }
            }
        }
    }

    pub(super) fn lose_binding(&mut self, tag: CallTag, reason: &str) {
        let Some((number, line, binding)) = self.connections.take_binding(tag) else { return };
        line.refuse_binding(binding.session);
        self.scheduler.unpark(number, usize::MAX);
        self.report.add_refusal(format!("BIND_CONN_TO_SESSION: {reason}"));
    }

    pub(super) fn expire_bindings(&mut self, now: Instant) {
        let in_flight = self.connections.lines.iter().filter_map(|line| line.binding_in_flight);
        let overdue: Vec<_> = in_flight.filter(|call| self.context.is_overdue(call.sent, now)).collect();
        for call in overdue {
            self.lose_binding(call.tag, &self.context.timeout_text());
        }
    }

    pub(super) fn handle_bind_reply(&mut self, reply: &TransportReply<'_>) {
        let Some((number, line, binding)) = self.connections.take_binding(reply.tag) else { return };
        let PendingSessionBinding { session, direction, .. } = binding;
        let recoveries = line.recoveries_at_binding;
        self.scheduler.unpark(number, usize::MAX);
        match recovery::decode_bind_reply(reply.cursor(), direction) {
            Ok(()) => self.report.recovery.rebound += 1,
            Err(SessionBindError::UnknownSession) => {
                let id = self.call_builder.values.identifier(session);
                if let Some(session) = id.and_then(|id| self.call_builder.client_state.sessions.get(&id)) {
                    self.start_recovery_since(session.client, id, reply.connection, recoveries);
                }
            }
            Err(SessionBindError::Delayed) if binding.delays < MAX_RESENDS => {
                line.next_binding = Some(Instant::now() + RETRY_DELAY);
                line.pending_bindings.push(PendingSessionBinding { delays: binding.delays + 1, ..binding });
            }
            Err(SessionBindError::Delayed) => {
                line.refuse_binding(session);
                self.report.add_refusal("BIND_CONN_TO_SESSION: NFS4ERR_DELAY".to_owned());
            }
            Err(SessionBindError::Refused(reason)) => {
                line.refuse_binding(session);
                self.report.add_refusal(reason);
            }
        }
    }
}
