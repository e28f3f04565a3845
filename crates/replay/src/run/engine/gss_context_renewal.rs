//! Renewal and destruction of security contexts. If the server no longer knows a context, for example after a restart,
//! a new one is established and the denied Calls are sent again with it (RFC 2203 section 5.3.3.3). At the end of the
//! run every context is destroyed (section 5.4).
//!
//! Calls that need the context wait meanwhile; all others proceed.

use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::gss::{GssContextSetup, GssSetupStep};
use nfsrdma_rpc::{CallTag, RpcClientConnectionId, SubmitError, TransportReply};

use super::super::recovery::{MAX_CLIENT_RECOVERIES, MAX_RESENDS};
use super::super::run_error::ReplayRunError;
use super::live_call_builder::LiveCallBuilder;
use super::renewable_gss_context::{
    GssContextRenewal, GssContextRenewalState, GssReplyVerificationData, RenewableGssContext,
};
use super::replay_engine::ReplayEngine;
use super::step_window::{CONTEXT_INDEX, StepWindowEntry, call_tag, turn};
use crate::containment::{ContainmentCheckedCall, ContainmentCheckedTransport};

/// Maximum time to wait for the Reply to a context's destruction. Otherwise the server expires the context.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(3);

impl LiveCallBuilder {
    fn context_mut(&mut self, at: usize) -> Option<&mut RenewableGssContext> {
        self.signing.as_mut()?.contexts.get_mut(at)
    }

    fn renewal_mut(&mut self, at: usize) -> Option<&mut GssContextRenewal> {
        match &mut self.context_mut(at)?.state {
            GssContextRenewalState::Renewing(renewal) => Some(renewal),
            GssContextRenewalState::Ready | GssContextRenewalState::Lost(_) => None,
        }
    }

    fn renewing_contexts(&mut self) -> Vec<usize> {
        let count = self.signing.as_ref().map_or(0, |signing| signing.contexts.len());
        (0..count).filter(|at| self.renewal_mut(*at).is_some()).collect()
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Starts the renewal of a context that the server has denied. Returns `true` if the context is being renewed or
    /// was renewed since, so that the Call can be sent again.
    pub(super) fn is_re_established(
        &mut self,
        signature: GssReplyVerificationData,
        connection: RpcClientConnectionId,
    ) -> bool {
        let connection_index = self.connections.connection_index.get(&connection).copied().unwrap_or_default();
        let Some(renewable) = self.call_builder.context_mut(signature.context) else { return false };
        if renewable.generation != signature.generation {
            return true;
        }
        match &renewable.state {
            GssContextRenewalState::Renewing(_) => true,
            GssContextRenewalState::Ready if renewable.generation < MAX_CLIENT_RECOVERIES => {
                let renewal = GssContextRenewal { connection_index, setup: None, sent: None, tries: 0 };
                renewable.state = GssContextRenewalState::Renewing(renewal);
                true
            }
            GssContextRenewalState::Ready | GssContextRenewalState::Lost(_) => false,
        }
    }

    /// Queues a denied step to be sent again, on the same slot but with a new XID, as the server has answered the old
    /// one.
    pub(super) fn resend_denied_step(
        &mut self,
        window_index: u32,
        mut entry: Box<StepWindowEntry>,
        connection: RpcClientConnectionId,
    ) {
        (entry.resend.is_pending, entry.resend.is_denied) = (true, true);
        entry.resend.denials += 1;
        let line = self.connections.line_mut(connection);
        if let Some((line, xid)) = line.zip(entry.call.message.get_mut(..4)) {
            xid.copy_from_slice(&line.next_xid().0.to_be_bytes());
        }
        self.scheduler.put_back(window_index, entry, None);
    }

    /// Queues a denied Call that is not a step to be sent again.
    pub(super) fn resend_denied_control(&mut self, reply: &TransportReply<'_>) {
        self.handle_recovery_loss(reply.tag);
        if let Some((number, line, binding)) = self.connections.take_binding(reply.tag) {
            line.pending_bindings.push(binding);
            self.scheduler.unpark(number, usize::MAX);
        }
    }

    pub(super) fn renew_contexts(
        &mut self,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<(), ReplayRunError> {
        for at in self.call_builder.renewing_contexts() {
            let unsent = self.call_builder.renewal_mut(at).filter(|renewal| renewal.sent.is_none());
            if let Some(connection_index) = unsent.map(|renewal| renewal.connection_index) {
                self.renew_context(at, connection_index, transport)?;
            }
        }
        Ok(())
    }

    fn renew_context(
        &mut self,
        at: usize,
        connection_index: usize,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<(), ReplayRunError> {
        if self.connections.is_failing() {
            self.lose_context(at, "connections were lost without a reply");
            return Ok(());
        }
        if self.ensure_connected(connection_index, transport)?.is_some() {
            return Ok(());
        }
        let Some(line) = self.connections.lines.get_mut(connection_index) else { return Ok(()) };
        let (connection, xid) = (line.connection, line.next_xid());
        let Some(mechanism) = self.call_builder.signing.as_ref().map(|signing| signing.mechanism) else {
            return Ok(());
        };
        let (host, tag) = (&self.context.target.name, call_tag(self.context.number, CONTEXT_INDEX, at as u64));
        let Some(version) = self.call_builder.context_mut(at).map(|renewable| renewable.version) else {
            return Ok(());
        };
        let Some(renewal) = self.call_builder.renewal_mut(at) else { return Ok(()) };
        let begin_setup = || mechanism(host).and_then(|mechanism| GssContextSetup::begin(mechanism, version));
        let setup = match renewal.setup.take().map_or_else(begin_setup, Ok) {
            Ok(setup) => renewal.setup.insert(setup),
            Err(error) => {
                self.lose_context(at, &error.to_string());
                return Ok(());
            }
        };
        let control = setup.call(xid);
        match transport.submit(connection, &ContainmentCheckedCall::control(&control, tag)) {
            Ok(_) => {
                renewal.sent = Some((Instant::now(), xid));
                self.report.calls += 1;
            }
            Err(SubmitError::Busy(_)) => {}
            // The transport reports the end of the connection later.
            Err(SubmitError::Refused(_)) => {
                self.connections.count_failure();
                self.mark_connection_lost(connection);
            }
        }
        Ok(())
    }

    /// Handles a Reply to a Call that establishes a context.
    pub(super) fn handle_setup_reply(&mut self, reply: &TransportReply<'_>) {
        let at = turn(reply.tag) as usize;
        self.unpark_connection(reply.connection, 1);
        let Some(renewal) = self.call_builder.renewal_mut(at) else { return };
        if renewal.sent.is_none_or(|(_, xid)| xid != reply.xid) {
            return;
        }
        renewal.sent = None;
        let Some(setup) = renewal.setup.take() else { return };
        match setup.handle_reply(reply.cursor()) {
            Ok(GssSetupStep::ContinueNeeded(next)) => renewal.setup = Some(next),
            Ok(GssSetupStep::Established(context)) => {
                if let Some(renewable) = self.call_builder.context_mut(at) {
                    renewable.previous = Some(std::mem::replace(&mut renewable.context, context));
                    (renewable.generation, renewable.state) = (renewable.generation + 1, GssContextRenewalState::Ready);
                }
                self.report.recovery.contexts_renewed += 1;
                self.scheduler.unpark_each(usize::MAX);
            }
            Err(error) => self.lose_context(at, &error.to_string()),
        }
    }

    /// Handles the loss of the connection of such a Call; another is sent.
    pub(super) fn handle_setup_loss(&mut self, tag: CallTag) {
        let at = turn(tag) as usize;
        let Some(renewal) = self.call_builder.renewal_mut(at) else { return };
        (renewal.sent, renewal.setup) = (None, None);
        renewal.tries += 1;
        if renewal.tries > MAX_RESENDS {
            self.lose_context(at, "connections were lost without a reply");
        }
    }

    pub(super) fn expire_contexts(&mut self, now: Instant) {
        for at in self.call_builder.renewing_contexts() {
            let sent = self.call_builder.renewal_mut(at).and_then(|renewal| renewal.sent);
            if sent.is_some_and(|(sent, _)| self.context.is_overdue(sent, now)) {
                self.lose_context(at, &self.context.timeout_text());
            }
        }
    }

    /// Gives up a context: Calls that need it are not sent.
    fn lose_context(&mut self, at: usize, reason: &str) {
        let reason = format!("security context not re-established: {reason}");
        if let Some(renewable) = self.call_builder.context_mut(at) {
            renewable.state = GssContextRenewalState::Lost(reason.clone());
        }
        self.report.add_refusal(reason);
        self.scheduler.unpark_each(usize::MAX);
    }

    /// Destroys the established contexts when nothing else is in flight. The server expires those it does not answer
    /// for.
    pub(super) fn destroy_contexts(&mut self, transport: &mut ContainmentCheckedTransport<'_>) {
        let Some(mut signing) = self.call_builder.signing.take().filter(|_| self.report.end.unreachable.is_none())
        else {
            return;
        };
        let open = self.connections.lines.iter().find(|line| line.lost.is_none()).map(|line| line.connection);
        let Some(connection) = open.or_else(|| transport.connect(self.context.target).ok()) else { return };
        let timeout = self.context.options.timeout.min(DESTROY_TIMEOUT);
        let first = hash(format!("{} security ends", self.context.tag).as_bytes()) as u32;
        for (at, renewable) in (0_u32..).zip(&mut signing.contexts) {
            if !matches!(renewable.state, GssContextRenewalState::Ready) {
                continue;
            }
            let Ok((control, seal)) = renewable.context.destroy(Xid(first.wrapping_add(at))) else {
                continue;
            };
            let context = &mut renewable.context;
            let is_signed = transport
                .control(connection, &control, timeout, |verifier, _| Ok(context.verify_reply(seal, verifier)));
            match is_signed {
                Ok(true) => self.report.recovery.contexts_destroyed += 1,
                Ok(false) => {}
                Err(error) if error.is_final() => return,
                Err(_) => {}
            }
        }
    }
}
