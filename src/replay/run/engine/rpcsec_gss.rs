//! Calls that RPCSEC_GSS signed are signed with contexts of the run's own. RFC 2203 section 5.3.

use std::io::{Read, Seek};

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::rpc::auth::Flavor;
use nfsrdma_dissectors::rpc::gss::RpcGssService;
use nfsrdma_dissectors::rpc::{self, Program, Xid};
use nfsrdma_dissectors::xdr::{Cursor, roundup};
use rustc_hash::FxHashMap;

use super::reply::CompletedStep;
use super::{ReplayEngine, ReplayRunError};
use crate::analysis::comparison::record::hash;
use crate::replay::gss::{
    GssContext, GssError, GssIntegrityError, GssMechanism, GssMechanismError, GssReplyProtection,
    GssUnprotectedCall,
};
use crate::replay::rpc_client::{AuthSysCredential, RpcClient};
use crate::replay::trace::emission::PlacedPayload;
use crate::replay::trace::{GssProtection, TraceReader, TraceStep};
use crate::replay::transport::{ConnectTarget, RpcTransport, TransportReply};

/// Contexts of a capture that have one of their own; what was signed with more shares them.
const MOST: usize = 64;

/// What Calls are signed with, and room for them.
#[derive(Debug)]
pub(super) struct GssCallSigner {
    /// As many as the capture has, so that what was one context there is one here.
    contexts: Vec<GssContext>,
    /// By the handle in the capture.
    by_handle: FxHashMap<Vec<u8>, usize>,
    /// The Call as it goes, and where its payloads belong in it.
    pub(super) message: Vec<u8>,
    pub(super) placed: Vec<PlacedPayload>,
    /// The signature of the Call that was made last.
    pub(super) last: Option<GssCallSignature>,
    whole: Vec<u8>,
    /// A Reply that was opened.
    plain: Vec<u8>,
}

/// What the Reply of a signed Call is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GssCallSignature {
    context: usize,
    seal: GssReplyProtection,
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
        mechanism: impl Fn(&str) -> Result<Box<dyn GssMechanism>, GssMechanismError>,
    ) -> Result<Option<Self>, ReplayRunError> {
        let (mut by_handle, mut versions) = (FxHashMap::default(), Vec::new());
        trace.steps(|step| {
            if by_handle.len() < MOST
                && let Some(handle) = handle(step)
                && !by_handle.contains_key(handle)
            {
                by_handle.insert(handle.to_vec(), versions.len());
                versions.push(step.asked.version);
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
            GssContext::establish(&mut line, version, mechanism)
        });
        let contexts = contexts.collect::<Result<Vec<_>, GssError>>().map_err(ReplayRunError::Security);
        transport.disconnect(connection);
        Ok(Some(Self {
            contexts: contexts?,
            by_handle,
            message: Vec::new(),
            placed: Vec::new(),
            last: None,
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
        let (at, seal) = with.seal(&call, &mut self.message)?;
        self.last = Some(GssCallSignature { context, seal });
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
        let oldest = of_context.map(|signature| signature.seal.number).min();
        let with = signing.contexts.get(at);
        with.zip(oldest).is_some_and(|(with, oldest)| with.is_beyond(oldest))
    }

    /// Checks the Reply of a signed Call, which goes on as if nothing had signed it.
    pub(super) fn open(
        &mut self,
        with: GssCallSignature,
        reply: &TransportReply<'_>,
        flown: CompletedStep,
    ) -> Result<(), ReplayRunError> {
        let Some(signing) = &mut self.signing else { return self.answered(flown, reply) };
        let mut plain = std::mem::take(&mut signing.plain);
        let opened = match signing.contexts.get_mut(with.context) {
            Some(context) => context.open(with.seal, reply.message, &mut plain),
            None => Err(GssIntegrityError::Verifier),
        };
        let outcome = match opened {
            Ok(()) => self.answered(flown, &TransportReply { message: &plain, ..reply.clone() }),
            Err(forged) => self.disbelieve(flown, &forged.to_string()),
        };
        if let Some(signing) = &mut self.signing {
            signing.plain = plain;
        }
        outcome
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
