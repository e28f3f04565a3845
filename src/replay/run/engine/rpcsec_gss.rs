//! Calls that RPCSEC_GSS signed are signed with contexts of the run's own. RFC 2203 section 5.3.

use std::io::{Read, Seek};

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::rpc::auth::Flavor;
use nfsrdma_dissectors::rpc::gss::RpcGssService;
use nfsrdma_dissectors::rpc::{self, Program, Xid};
use nfsrdma_dissectors::xdr::{Cursor, roundup};
use rustc_hash::FxHashMap;

use super::super::recovery::RESENDS;
use super::super::report::ReplayStepState;
use super::context_renewal::RenewableContext;
use super::reply::CompletedStep;
use super::{ReplayEngine, ReplayRunError, StepSendOutcome};
use crate::analysis::comparison::record::hash;
use crate::replay::gss::{
    self, GssContext, GssError, GssIntegrityError, GssMechanism, GssMechanismError, GssReplyProtection,
    GssUnprotectedCall,
};
use crate::replay::rpc_client::{AuthSysCredential, RpcClient};
use crate::replay::trace::emission::PlacedPayload;
use crate::replay::trace::{GssProtection, MessageSlotKind, TraceReader, TraceStep};
use crate::replay::transport::{CallTag, ConnectTarget, RpcTransport, TransportReply};

/// Contexts of a capture that have one of their own; what was signed with more shares them.
const MOST: usize = 64;

/// Makes the side of this program of a security context with a host.
type Make = fn(&str) -> Result<Box<dyn GssMechanism>, GssMechanismError>;

/// What Calls are signed with, and room for them.
#[derive(Debug)]
pub(super) struct GssCallSigner {
    /// As many as the capture has, so that what was one context there is one here.
    pub(super) contexts: Vec<RenewableContext>,
    /// By the handle in the capture.
    by_handle: FxHashMap<Vec<u8>, usize>,
    /// By the client of the capture.
    machines: FxHashMap<u32, MachineCredential>,
    pub(super) mechanism: Make,
    /// The Call as it goes, and where its payloads belong in it.
    pub(super) message: Vec<u8>,
    pub(super) placed: Vec<PlacedPayload>,
    /// The signature of the Call that was made last.
    pub(super) last: Option<GssCallSignature>,
    /// Those of Calls in flight that are of no step.
    pub(super) own: FxHashMap<CallTag, GssCallSignature>,
    whole: Vec<u8>,
    /// A Reply that was opened.
    plain: Vec<u8>,
}

/// What the Reply of a signed Call is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GssCallSignature {
    pub(super) context: usize,
    /// How often that had been set up anew.
    pub(super) generation: u32,
    seal: GssReplyProtection,
}

/// What the Calls that this program makes for a client are signed with: as the Call was by which that made itself known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MachineCredential {
    context: usize,
    service: RpcGssService,
}

/// Why a Call is not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unsigned {
    /// Its context is being set up anew.
    Yet,
    /// There is no context any more, and why.
    Ever(String),
}

impl GssCallSigner {
    /// Sets up the contexts that Calls of the trace were signed with; none if none was.
    ///
    /// # Errors
    /// Where there is none to be had.
    pub(super) fn of(
        trace: &mut TraceReader<impl Read + Seek>,
        transport: &mut dyn RpcTransport,
        target: &ConnectTarget,
        tag: &str,
        mechanism: Make,
    ) -> Result<Option<Self>, ReplayRunError> {
        let (mut by_handle, mut versions) = (FxHashMap::default(), Vec::new());
        let mut machines = FxHashMap::default();
        trace.steps(|step| {
            let Some(handle) = handle(step) else { return };
            if by_handle.len() < MOST && !by_handle.contains_key(handle) {
                by_handle.insert(handle.to_vec(), versions.len());
                versions.push(step.asked.version);
            }
            if !machines.contains_key(&step.caller.client)
                && let Some(machine) = machine(step, by_handle.get(handle).copied().unwrap_or_default())
            {
                machines.insert(step.caller.client, machine);
            }
        })?;
        if versions.is_empty() {
            return Ok(None);
        }
        let connection = transport.connect(target)?;
        let xid = Xid(hash(format!("{tag} security").as_bytes()) as u32);
        let mut line =
            RpcClient::new(transport, connection, AuthSysCredential::default(), xid, target.wish.timeout);
        let contexts = versions.into_iter().map(|version| {
            let mechanism = mechanism(&target.name).map_err(GssError::Mechanism)?;
            Ok(RenewableContext::new(version, GssContext::establish(&mut line, version, mechanism)?))
        });
        let contexts = contexts.collect::<Result<Vec<_>, GssError>>().map_err(ReplayRunError::Security);
        transport.disconnect(connection);
        Ok(Some(Self {
            contexts: contexts?,
            by_handle,
            machines,
            mechanism,
            message: Vec::new(),
            placed: Vec::new(),
            last: None,
            own: FxHashMap::default(),
            whole: Vec::new(),
            plain: Vec::new(),
        }))
    }

    /// Which of the contexts a step is signed with.
    fn at(&self, step: &TraceStep<'_>) -> usize {
        handle(step).and_then(|handle| self.by_handle.get(handle)).copied().unwrap_or_default()
    }

    /// Makes of a Call that was emitted the one that goes.
    fn sign(
        &mut self,
        step: &TraceStep<'_>,
        xid: Xid,
        (message, placed, contents): (&[u8], &[PlacedPayload], &[Vec<u8>]),
    ) -> Result<(), GssMechanismError> {
        let mut cursor = Cursor::new(message);
        let body = rpc::RpcMsg::decode(&mut cursor, &mut NullObserver).map_or(0, |_| cursor.position());
        let (service, arguments) = match step.asked.protection {
            // What is protected travels in the message: its checksum is of all of it.
            GssProtection::INTEGRITY => {
                whole(message, placed, contents, &mut self.whole);
                (RpcGssService::rpc_gss_svc_integrity, self.whole.get(body..))
            }
            _ => (RpcGssService::rpc_gss_svc_none, message.get(body..)),
        };
        let asked = (Program(step.asked.program), step.asked.version, step.asked.procedure);
        let call = GssUnprotectedCall { xid, asked, service, arguments: arguments.unwrap_or_default() };
        let context = self.at(step);
        let Some(with) = self.contexts.get_mut(context) else { return Ok(()) };
        let (at, seal) = with.context.seal(&call, &mut self.message)?;
        self.last = Some(GssCallSignature { context, generation: with.generation, seal });
        self.placed.clear();
        if service == RpcGssService::rpc_gss_svc_none {
            self.placed.extend(placed.iter().cloned());
            for placed in &mut self.placed {
                let after = (placed.position as usize).saturating_sub(body);
                placed.position = u32::try_from(at + after).unwrap_or(u32::MAX);
            }
        }
        Ok(())
    }

    /// Signs a Call that is of no step, of a client of the capture. `None` for it to go as it is: the client made itself known by
    /// a Call that was not signed.
    ///
    /// # Errors
    /// Where there is no context, now or ever.
    pub(super) fn sign_own(
        &mut self,
        client: u32,
        tag: CallTag,
        message: &[u8],
    ) -> Result<Option<&[u8]>, Unsigned> {
        let Some(MachineCredential { context, service }) = self.machines.get(&client).copied() else {
            return Ok(None);
        };
        let mut cursor = Cursor::new(message);
        let read = rpc::RpcMsg::decode(&mut cursor, &mut NullObserver).ok();
        let Some((xid, call)) = read.as_ref().and_then(|read| Some((read.xid, read.call()?))) else {
            return Ok(None);
        };
        let Some(with) = self.contexts.get_mut(context) else { return Ok(None) };
        with.is_ready()?;
        let arguments = message.get(cursor.position()..).unwrap_or_default();
        let call = GssUnprotectedCall { xid, asked: (call.prog, call.vers, call.proc), service, arguments };
        let sealed = with.context.seal(&call, &mut self.message);
        let (_, seal) = sealed.map_err(|error| Unsigned::Ever(error.to_string()))?;
        self.own.insert(tag, GssCallSignature { context, generation: with.generation, seal });
        Ok(Some(&self.message))
    }

    /// Opens a Reply.
    fn open(
        &mut self,
        with: GssCallSignature,
        message: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<(), GssIntegrityError> {
        let context = self.contexts.get_mut(with.context).and_then(|kept| kept.of(with.generation));
        context.ok_or(GssIntegrityError::Verifier)?.open(with.seal, message, plain)
    }
}

/// What a client of the capture made itself known with, if this is the Call that did so.
fn machine(step: &TraceStep<'_>, context: usize) -> Option<MachineCredential> {
    let service = match step.asked.protection {
        GssProtection::INTEGRITY => RpcGssService::rpc_gss_svc_integrity,
        _ => RpcGssService::rpc_gss_svc_none,
    };
    // Only its Reply gives a clientid, so that others need not be read.
    step.reply.slots.iter().find(|slot| slot.holds == MessageSlotKind::CLIENTID)?;
    let arguments = step.call.head.0.get(step.call.body as usize..step.call.end as usize)?;
    let call = v4::CompoundCall::decode(&mut Cursor::new(arguments), &mut NullObserver).ok()?;
    let operation = call.operations().next()?.ok()?;
    matches!(operation, v4::Args::EXCHANGE_ID(_) | v4::Args::SETCLIENTID(_))
        .then_some(MachineCredential { context, service })
}

/// Whether a Call was signed.
pub(super) fn is_signed(step: &TraceStep<'_>) -> bool {
    step.asked.flavor == Flavor::RPCSEC_GSS.0
}

/// The context that a Call of the capture was signed with.
fn handle<'a>(step: &TraceStep<'a>) -> Option<&'a [u8]> {
    let is_data = is_signed(step) && step.asked.protection != GssProtection::CONTROL;
    let mut cursor = Cursor::new(step.call.head.0).known();
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullObserver).ok().filter(|_| is_data)?;
    Some(message.call()?.cred.gss()?.handle.0)
}

/// A message with its payloads in it.
fn whole(message: &[u8], placed: &[PlacedPayload], contents: &[Vec<u8>], out: &mut Vec<u8>) {
    out.clear();
    let mut from = 0;
    for (placed, content) in placed.iter().zip(contents) {
        // Positions are those in the message that is being made.
        let at = (from + (placed.position as usize).saturating_sub(out.len())).min(message.len());
        out.extend_from_slice(message.get(from..at).unwrap_or_default());
        out.extend_from_slice(content);
        out.extend_from_slice([0; 3].get(..roundup(content.len())).unwrap_or_default());
        from = at;
    }
    out.extend_from_slice(message.get(from..).unwrap_or_default());
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Signs the Call that was emitted, if the captured one was signed. Gives whether it is.
    ///
    /// # Errors
    /// Where the context has expired.
    pub(super) fn sign(&mut self, step: &TraceStep<'_>, xid: Xid) -> Result<bool, GssMechanismError> {
        let Some(signing) = &mut self.signing else { return Ok(false) };
        signing.last = None;
        if !is_signed(step) {
            return Ok(false);
        }
        signing.sign(step, xid, (&self.out, &self.placed, &self.buffers))?;
        Ok(true)
    }

    /// Whether a Call that is to be signed would put one in flight out of the window of sequence numbers, so that the server would
    /// drop that in silence. RFC 2203 section 5.3.3.1.
    pub(super) fn is_window_full(&self, step: &TraceStep<'_>) -> bool {
        let Some(signing) = self.signing.as_ref().filter(|_| is_signed(step)) else { return false };
        let at = signing.at(step);
        let of_context = self.seats.signatures().filter(|signature| signature.context == at);
        let generation = signing.contexts.get(at).map(|kept| kept.generation);
        let of_context = of_context.filter(|signature| Some(signature.generation) == generation);
        let oldest = of_context.map(|signature| signature.seal.number).min();
        let with = signing.contexts.get(at);
        with.zip(oldest).is_some_and(|(with, oldest)| with.context.is_beyond(oldest))
    }

    /// Why a Call that is to be signed does not go now, if it does not.
    pub(super) fn awaits_context(&self, step: &TraceStep<'_>, line: usize) -> Option<StepSendOutcome> {
        let signing = self.signing.as_ref().filter(|_| is_signed(step))?;
        match signing.contexts.get(signing.at(step))?.is_ready().err()? {
            Unsigned::Yet => Some(StepSendOutcome::Parked(line)),
            Unsigned::Ever(why) => {
                Some(StepSendOutcome::Settled(ReplayStepState::Unreplayable(format!("security: {why}"))))
            }
        }
    }

    /// Checks the Reply of a signed Call, which goes on as if nothing had signed it.
    pub(super) fn open(
        &mut self,
        with: GssCallSignature,
        reply: &TransportReply<'_>,
        flown: CompletedStep,
    ) -> Result<(), ReplayRunError> {
        if gss::is_unknown(reply.cursor())
            && flown.held.denials < RESENDS
            && self.is_re_established(with, reply.connection)
        {
            self.deny(flown, reply.connection);
            return Ok(());
        }
        let Some(signing) = &mut self.signing else { return self.answered(flown, reply) };
        let mut plain = std::mem::take(&mut signing.plain);
        let opened = signing.open(with, reply.message, &mut plain);
        let outcome = match opened {
            Ok(()) => self.answered(flown, &TransportReply { message: &plain, ..reply.clone() }),
            Err(forged) => self.disbelieve(flown, &forged.to_string()),
        };
        if let Some(signing) = &mut self.signing {
            signing.plain = plain;
        }
        outcome
    }

    /// Checks the Reply of a Call that is of no step, which goes on as if nothing had signed it: as nothing, where somebody else than
    /// the server made it.
    pub(super) fn open_own(&mut self, reply: &TransportReply<'_>) {
        let Some(with) = self.signing.as_mut().and_then(|signing| signing.own.remove(&reply.tag)) else {
            return self.answered_own(reply);
        };
        if gss::is_unknown(reply.cursor()) && self.is_re_established(with, reply.connection) {
            return self.deny_own(reply);
        }
        let Some(signing) = &mut self.signing else { return };
        let mut plain = std::mem::take(&mut signing.plain);
        if signing.open(with, reply.message, &mut plain).is_err() {
            plain.clear();
        }
        self.answered_own(&TransportReply { message: &plain, ..reply.clone() });
        if let Some(signing) = &mut self.signing {
            signing.plain = plain;
        }
    }

    /// Nothing of a Reply that somebody else made is taken: nobody knows whether the server has done the step.
    fn disbelieve(
        &mut self,
        CompletedStep { seat, held, .. }: CompletedStep,
        why: &str,
    ) -> Result<(), ReplayRunError> {
        let state = self.unanswered(&held, why)?;
        self.settle(seat, held, state);
        Ok(())
    }
}
