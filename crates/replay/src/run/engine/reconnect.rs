//! Opens connections, replaces lost ones, and binds the new ones to sessions.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Encoder;
use nfsrdma_rpc::{ReconnectionAttempts, RpcClientConnectionId, TransportErrorResponsibility};

use super::super::recovery::{self, NO_CONNECTION};
use super::super::run_error::ReplayRunError;
use super::super::step_outcome::StepOutcome;
use super::connections::{ConnectionSessionBinding, LiveConnection, PendingBindConnToSession};
use super::replay_engine::ReplayEngine;
use super::send::unsigned_header;
use super::send_result::{NonStepCallSubmitResult, StepSendObstacle};
use super::step_window::{BIND_INDEX, call_tag};
use crate::containment::ContainmentCheckedTransport;
use crate::trace::step::{NONE, TraceStep};

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
                let seed = hash(format!("{} {} {:?}", self.context.tag, self.report.connections, key).as_bytes());
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
    ) -> Result<Result<RpcClientConnectionId, Option<Instant>>, ReplayRunError> {
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
    ) -> Result<RpcClientConnectionId, StepSendObstacle> {
        if self.report.calls == 0 {
            return Ok(transport.connect(self.context.target)?);
        }
        let existing = self.connections.first_attempts.remove(&key);
        let mut attempts =
            existing.unwrap_or_else(|| ReconnectionAttempts::new(Instant::now(), self.context.options.timeout));
        self.attempt_connection(&mut attempts, transport)?.map_err(|retry_at| match retry_at {
            Some(retry_at) => {
                self.connections.first_attempts.insert(key, attempts);
                StepSendObstacle::UnreachableUntil(retry_at)
            }
            None => no_connection_state().into(),
        })
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
            let ConnectionSessionBinding { session, minor_version, direction, .. } = binding;
            let Some(id) = self.call_builder.values.identifier(session) else { continue };
            let (connection, xid) = (line.connection, line.next_xid());
            let mut encoder = Encoder::new();
            unsigned_header((Program::NFS, 4, 1), xid, &mut encoder);
            recovery::bind_conn_to_session(minor_version, id, direction, &mut encoder);
            let message = encoder.finish().0;
            let tag = call_tag(self.context.number, BIND_INDEX, self.connections.binding_calls);
            let client =
                self.call_builder.client_state.client_of_session(id).map_or(NONE, |client| client.captured_client);
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
}
