//! Security contexts from their denial to their end: one that the server does not know any more, as after a restart, is set up anew,
//! and what it denied is sent again with that (RFC 2203 section 5.3.3.3); in the end each is destroyed (section 5.4).
//!
//! What is to be signed with a context waits meanwhile; everything else goes on.

use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::rpc::Xid;

use super::super::recovery::{BARREN, RESENDS, RESTARTS};
use super::reply::CompletedStep;
use super::rpcsec_gss::{GssCallSignature, Unsigned};
use super::window::{BINDING, SECURING, tagged};
use super::{ReplayEngine, ReplayRunError};
use crate::analysis::comparison::record::hash;
use crate::replay::containment::{ContainedCall, ContainedTransport};
use crate::replay::gss::{GssContext, GssContextSetup, GssSetupStep};
use crate::replay::transport::{CallTag, ConnectionId, SubmitError, TransportReply};

/// How long the Reply that a context is destroyed is waited for at most. Without one the server forgets the context in time.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(3);

/// A context, and those that came after it in its place.
#[derive(Debug)]
pub(super) struct RenewableContext {
    /// The version of NFS that it is for.
    version: u32,
    /// The one that stood last.
    pub(super) context: GssContext,
    /// The one before, with which Replies in flight may be signed.
    before: Option<GssContext>,
    /// How often it was set up anew.
    pub(super) generation: u32,
    standing: ContextState,
}

/// Whether Calls can be signed with a context.
#[derive(Debug)]
enum ContextState {
    /// They can.
    Good,
    /// The server has denied it, and another is set up.
    Renewing(ContextRenewal),
    /// There is none any more.
    Lost(String),
}

/// A context that is being set up in the place of another.
#[derive(Debug)]
struct ContextRenewal {
    /// The line whose connection carries it.
    line: usize,
    /// `None` before the first Call, and after one was lost: a server may refuse a token that it has seen.
    establishing: Option<GssContextSetup>,
    /// The Call in flight.
    sent: Option<(Instant, Xid)>,
    tries: u32,
}

impl RenewableContext {
    /// Of a context that stands.
    pub(super) fn new(version: u32, context: GssContext) -> Self {
        Self { version, context, before: None, generation: 0, standing: ContextState::Good }
    }

    /// Whether Calls can be signed with it.
    ///
    /// # Errors
    /// Where they cannot, now or ever.
    pub(super) fn is_ready(&self) -> Result<(), Unsigned> {
        match &self.standing {
            ContextState::Good => Ok(()),
            ContextState::Renewing(_) => Err(Unsigned::Yet),
            ContextState::Lost(why) => Err(Unsigned::Ever(why.clone())),
        }
    }

    /// The context of a generation, if it is not too long ago.
    pub(super) fn of(&mut self, generation: u32) -> Option<&mut GssContext> {
        match self.generation.checked_sub(generation)? {
            0 => Some(&mut self.context),
            1 => self.before.as_mut(),
            _ => None,
        }
    }

    fn renewal(&mut self) -> Option<&mut ContextRenewal> {
        match &mut self.standing {
            ContextState::Renewing(renewal) => Some(renewal),
            ContextState::Good | ContextState::Lost(_) => None,
        }
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    fn kept(&mut self, at: usize) -> Option<&mut RenewableContext> {
        self.signing.as_mut()?.contexts.get_mut(at)
    }

    /// The server has denied a Call: whether its context is set up anew, or was since, so that the Call is sent again.
    pub(super) fn is_re_established(&mut self, with: GssCallSignature, connection: ConnectionId) -> bool {
        let line = self.by_connection.get(&connection).copied().unwrap_or_default();
        let Some(kept) = self.kept(with.context) else { return false };
        if kept.generation != with.generation {
            return true;
        }
        match &kept.standing {
            ContextState::Renewing(_) => true,
            ContextState::Good if kept.generation < RESTARTS => {
                let renewal = ContextRenewal { line, establishing: None, sent: None, tries: 0 };
                kept.standing = ContextState::Renewing(renewal);
                true
            }
            ContextState::Good | ContextState::Lost(_) => false,
        }
    }

    /// A step whose Call the server has denied is sent again: on the slot that it still has, and with another XID, as the server has
    /// answered this one.
    pub(super) fn deny(
        &mut self,
        CompletedStep { seat, mut held, .. }: CompletedStep,
        connection: ConnectionId,
    ) {
        (held.is_lost, held.is_denied) = (true, true);
        held.denials += 1;
        let line = self.by_connection.get(&connection).and_then(|line| self.lines.get_mut(*line));
        if let Some((line, xid)) = line.zip(held.sent.get_mut(..4)) {
            line.xid = line.xid.wrapping_add(1);
            xid.copy_from_slice(&line.xid.to_be_bytes());
        }
        self.queue.push(held.turn, seat, None);
        self.seats.put(seat, held);
    }

    /// A Call that is of no step was denied: it is sent again.
    pub(super) fn deny_own(&mut self, reply: &TransportReply<'_>) {
        if self.is_recovery_lost(reply.tag) {
            return;
        }
        let number = self.number;
        let line = self.by_connection.get(&reply.connection).and_then(|line| self.lines.get_mut(*line));
        let Some(line) = line else { return };
        let is_of = |(session, _): &&(u32, u32)| tagged(number, BINDING, (*session).into()) == reply.tag;
        let bound = line.backchannels.iter().find(is_of).copied();
        line.unbound.extend(bound);
    }

    /// Goes on with the contexts that are set up anew.
    pub(super) fn renew_contexts(
        &mut self,
        transport: &mut ContainedTransport<'_>,
    ) -> Result<(), ReplayRunError> {
        let count = self.signing.as_ref().map_or(0, |signing| signing.contexts.len());
        for at in 0..count {
            let due =
                self.kept(at).and_then(RenewableContext::renewal).filter(|renewal| renewal.sent.is_none());
            if let Some(line) = due.map(|renewal| renewal.line) {
                self.renew_context(at, line, transport)?;
            }
        }
        Ok(())
    }

    fn renew_context(
        &mut self,
        at: usize,
        line: usize,
        transport: &mut ContainedTransport<'_>,
    ) -> Result<(), ReplayRunError> {
        if self.barren > BARREN {
            self.lose_context(at, "connections go away without a Reply");
            return Ok(());
        }
        if self.connected(line, transport)?.is_some() {
            return Ok(());
        }
        let Some((connection, xid)) = self.lines.get_mut(line).map(|line| {
            line.xid = line.xid.wrapping_add(1);
            (line.connection, Xid(line.xid))
        }) else {
            return Ok(());
        };
        let Some(mechanism) = self.signing.as_ref().map(|signing| signing.mechanism) else { return Ok(()) };
        let (host, tag) = (&self.target.name, tagged(self.number, SECURING, at as u64));
        let Some(kept) = self.kept(at) else { return Ok(()) };
        let version = kept.version;
        let Some(renewal) = kept.renewal() else { return Ok(()) };
        let establishing = match renewal.establishing.take() {
            Some(establishing) => Ok(establishing),
            None => mechanism(host).and_then(|mechanism| GssContextSetup::begin(mechanism, version)),
        };
        let establishing = match establishing {
            Ok(establishing) => establishing,
            Err(error) => {
                self.lose_context(at, &error.to_string());
                return Ok(());
            }
        };
        let control = establishing.call(xid);
        renewal.establishing = Some(establishing);
        match transport.submit(connection, &ContainedCall::control(&control, tag)) {
            Ok(_) => {
                renewal.sent = Some((Instant::now(), xid));
                self.report.calls += 1;
            }
            Err(SubmitError::Busy(_)) => {}
            // Its end is told yet.
            Err(SubmitError::Refused(_)) => {
                self.barren = self.barren.saturating_add(1);
                self.forget(connection);
            }
        }
        Ok(())
    }

    /// The context whose Call a tag names.
    fn secures(&self, tag: CallTag) -> Option<usize> {
        let count = self.signing.as_ref()?.contexts.len();
        (0..count).find(|at| tagged(self.number, SECURING, *at as u64) == tag)
    }

    /// A Reply to the Call that sets up a context. Whether it was one.
    pub(super) fn is_secured(&mut self, reply: &TransportReply<'_>) -> bool {
        let Some(at) = self.secures(reply.tag) else { return false };
        self.unpark(reply.connection, 1);
        let Some(renewal) = self.kept(at).and_then(RenewableContext::renewal) else { return true };
        if renewal.sent.is_none_or(|(_, xid)| xid != reply.xid) {
            return true;
        }
        renewal.sent = None;
        let Some(establishing) = renewal.establishing.take() else { return true };
        match establishing.answered(reply.cursor()) {
            Ok(GssSetupStep::ContinueNeeded(next)) => renewal.establishing = Some(next),
            Ok(GssSetupStep::Established(context)) => {
                if let Some(kept) = self.kept(at) {
                    kept.before = Some(std::mem::replace(&mut kept.context, context));
                    (kept.generation, kept.standing) = (kept.generation + 1, ContextState::Good);
                }
                self.report.contexts_renewed += 1;
                self.unpark_all();
            }
            Err(error) => self.lose_context(at, &error.to_string()),
        }
        true
    }

    /// The connection of such a Call went away: another is made. Whether it was one.
    pub(super) fn is_securing_lost(&mut self, tag: CallTag) -> bool {
        let Some(at) = self.secures(tag) else { return false };
        let Some(renewal) = self.kept(at).and_then(RenewableContext::renewal) else { return true };
        (renewal.sent, renewal.establishing) = (None, None);
        renewal.tries += 1;
        if renewal.tries > RESENDS {
            self.lose_context(at, "connections go away without a Reply");
        }
        true
    }

    /// Gives up contexts whose Reply does not come.
    pub(super) fn expire_contexts(&mut self, now: Instant) {
        let timeout = self.options.timeout;
        let count = self.signing.as_ref().map_or(0, |signing| signing.contexts.len());
        for at in 0..count {
            let sent = self.kept(at).and_then(RenewableContext::renewal).and_then(|renewal| renewal.sent);
            if sent.is_some_and(|(sent, _)| now.saturating_duration_since(sent) > timeout) {
                self.lose_context(at, &format!("no Reply within {} s", timeout.as_secs_f64()));
            }
        }
    }

    /// A context cannot be set up anew: what needs it is not sent.
    fn lose_context(&mut self, at: usize, why: &str) {
        let why = format!("the security context is not set up anew: {why}");
        if let Some(kept) = self.kept(at) {
            kept.standing = ContextState::Lost(why.clone());
        }
        self.refuse(why);
        self.unpark_all();
    }

    /// Destroys the contexts that stand, when nothing else is in flight. One that the server does not answer it forgets in time.
    pub(super) fn destroy_contexts(&mut self, transport: &mut ContainedTransport<'_>) {
        let Some(mut signing) = self.signing.take().filter(|_| self.report.unreachable.is_none()) else {
            return;
        };
        let open = self.lines.iter().find(|line| line.gone.is_none()).map(|line| line.connection);
        let Some(connection) = open.or_else(|| transport.connect(self.target).ok()) else { return };
        let timeout = self.options.timeout.min(DESTROY_TIMEOUT);
        let first = hash(format!("{} security ends", self.tag).as_bytes()) as u32;
        for (at, kept) in (0_u32..).zip(&mut signing.contexts) {
            if !matches!(kept.standing, ContextState::Good) {
                continue;
            }
            let Ok((control, seal)) = kept.context.destroy(Xid(first.wrapping_add(at))) else { continue };
            let context = &mut kept.context;
            let is_signed = transport
                .control(connection, &control, timeout, |verifier, _| Ok(context.is_signed(seal, verifier)));
            match is_signed {
                Ok(true) => self.report.contexts_destroyed += 1,
                Ok(false) => {}
                Err(error) if error.is_final() => return,
                Err(_) => {}
            }
        }
    }
}
