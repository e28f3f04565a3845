//! Signs the Calls that RPCSEC_GSS protected in the capture with contexts of this run. RFC 2203 section 5.3.

use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::rpc::auth::Flavor;
use nfsrdma_dissectors::rpc::gss::RpcGssService;
use nfsrdma_dissectors::rpc::{self, Program, Xid};
use nfsrdma_dissectors::xdr::{Cursor, roundup};
use nfsrdma_rpc::gss::{
    GssContext, GssContextSetupError, GssIntegrityError, GssMechanismContext, GssMechanismError, GssSealInput,
};
use nfsrdma_rpc::synchronous_client::RpcClient;
use nfsrdma_rpc::{CallTag, ConnectTarget, RpcClientTransport};
use rustc_hash::FxHashMap;

use super::super::run_error::ReplayRunError;
use super::renewable_gss_context::{GssReplyVerificationData, GssUnsignedCallReason, RenewableGssContext};
use crate::root_credential;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{GssProtection, TraceSlotValueKind, TraceStep};
use crate::trace::value_substitution::TracePayloadInMessage;

/// Maximum number of captured contexts with a context of their own; Calls of further ones share these.
const MAX_CONTEXTS: usize = 64;

/// Function that creates this program's side of a security context with a host.
type GssSecurityContextFactory = fn(&str) -> Result<Box<dyn GssMechanismContext>, GssMechanismError>;

#[derive(Debug)]
pub(super) struct GssCallSigner {
    /// One context for each captured one.
    pub(super) contexts: Vec<RenewableGssContext>,
    /// Context index by captured handle.
    by_handle: FxHashMap<Vec<u8>, usize>,
    machine_credentials: FxHashMap<u32, MachineCredentialGssContext>,
    pub(super) mechanism: GssSecurityContextFactory,
    /// The signed Call, and the payloads to be inserted into it.
    pub(super) message: Vec<u8>,
    pub(super) placed: Vec<TracePayloadInMessage>,
    pub(super) last_signature: Option<GssReplyVerificationData>,
    /// Signatures of Calls in flight that are not steps.
    pub(super) own_signatures: FxHashMap<CallTag, GssReplyVerificationData>,
    message_with_payloads: Vec<u8>,
    /// Reply without its protection.
    pub(super) unprotected_reply: Vec<u8>,
}

/// Credential of the Calls that this program makes for a client; the same as the client's EXCHANGE_ID or SETCLIENTID
/// had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MachineCredentialGssContext {
    context: usize,
    service: RpcGssService,
}

impl GssCallSigner {
    /// Establishes the contexts that the Calls of the trace need. Returns `None` if none was signed.
    ///
    /// # Errors
    /// Returns an error if a context cannot be established.
    pub(super) fn from_trace(
        trace: &mut ReplayTraceReader<impl Read + Seek>,
        transport: &mut dyn RpcClientTransport,
        target: &ConnectTarget,
        tag: &str,
        mechanism: GssSecurityContextFactory,
    ) -> Result<Option<Self>, ReplayRunError> {
        let (mut by_handle, mut versions) = (FxHashMap::default(), Vec::new());
        let mut machines = FxHashMap::default();
        trace.for_each_step(|step| {
            let Some(handle) = context_handle(step) else { return };
            if by_handle.len() < MAX_CONTEXTS && !by_handle.contains_key(handle) {
                by_handle.insert(handle.to_vec(), versions.len());
                versions.push(step.procedure.version);
            }
            if !machines.contains_key(&step.caller.client)
                && let Some(machine) = machine_credential(step, by_handle.get(handle).copied().unwrap_or_default())
            {
                machines.insert(step.caller.client, machine);
            }
        })?;
        if versions.is_empty() {
            return Ok(None);
        }
        let connection = transport.connect(target)?;
        let xid = Xid(hash(format!("{tag} security").as_bytes()) as u32);
        let mut client = RpcClient::new(transport, connection, root_credential(), xid, target.options.timeout);
        let contexts = versions.into_iter().map(|version| {
            let mechanism = mechanism(&target.name).map_err(GssContextSetupError::Mechanism)?;
            Ok(RenewableGssContext::new(version, GssContext::establish(&mut client, version, mechanism)?))
        });
        let contexts = contexts.collect::<Result<Vec<_>, GssContextSetupError>>().map_err(ReplayRunError::Security);
        transport.disconnect(connection);
        Ok(Some(Self {
            contexts: contexts?,
            by_handle,
            machine_credentials: machines,
            mechanism,
            message: Vec::new(),
            placed: Vec::new(),
            last_signature: None,
            own_signatures: FxHashMap::default(),
            message_with_payloads: Vec::new(),
            unprotected_reply: Vec::new(),
        }))
    }

    pub(super) fn context_index(&self, step: &TraceStep<'_>) -> usize {
        context_handle(step).and_then(|handle| self.by_handle.get(handle)).copied().unwrap_or_default()
    }

    pub(super) fn sign(
        &mut self,
        step: &TraceStep<'_>,
        xid: Xid,
        (message, placed, contents): (&[u8], &[TracePayloadInMessage], &[Vec<u8>]),
    ) -> Result<(), GssMechanismError> {
        let mut cursor = Cursor::new(message);
        let body = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).map_or(0, |_| cursor.position());
        let (service, arguments) = match step.procedure.protection {
            // Protected data is part of the message, as the checksum covers all of it.
            GssProtection::INTEGRITY => {
                whole(message, placed, contents, &mut self.message_with_payloads);
                (RpcGssService::rpc_gss_svc_integrity, self.message_with_payloads.get(body..))
            }
            _ => (RpcGssService::rpc_gss_svc_none, message.get(body..)),
        };
        let procedure = (Program(step.procedure.program), step.procedure.version, step.procedure.number);
        let call = GssSealInput { xid, procedure, service, arguments: arguments.unwrap_or_default() };
        let context = self.context_index(step);
        let Some(renewable) = self.contexts.get_mut(context) else { return Ok(()) };
        let (at, seal) = renewable.context.seal(&call, &mut self.message)?;
        self.last_signature =
            Some(GssReplyVerificationData { context, generation: renewable.generation, protection: seal });
        self.placed.clear();
        if service == RpcGssService::rpc_gss_svc_none {
            self.placed.extend(placed.iter().cloned());
            for placed in &mut self.placed {
                let offset = (placed.position as usize).saturating_sub(body);
                placed.position = u32::try_from(at + offset).unwrap_or(u32::MAX);
            }
        }
        Ok(())
    }

    /// Signs a Call that is not a step, for a captured client. Returns `None` if it is to be sent unsigned, because the
    /// client's first Call was not signed.
    ///
    /// # Errors
    /// Returns an error if Calls cannot be signed yet, or never again.
    pub(super) fn sign_own(
        &mut self,
        client: u32,
        tag: CallTag,
        message: &[u8],
    ) -> Result<Option<&[u8]>, GssUnsignedCallReason> {
        let Some(MachineCredentialGssContext { context, service }) = self.machine_credentials.get(&client).copied()
        else {
            return Ok(None);
        };
        let mut cursor = Cursor::new(message);
        let decoded = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok();
        let Some((xid, call)) = decoded.as_ref().and_then(|decoded| Some((decoded.xid, decoded.call()?))) else {
            return Ok(None);
        };
        let Some(renewable) = self.contexts.get_mut(context) else { return Ok(None) };
        renewable.is_ready()?;
        let arguments = message.get(cursor.position()..).unwrap_or_default();
        let call = GssSealInput { xid, procedure: (call.prog, call.vers, call.proc), service, arguments };
        let sealed = renewable.context.seal(&call, &mut self.message);
        let (_, seal) = sealed.map_err(|error| GssUnsignedCallReason::Never(error.to_string()))?;
        self.own_signatures
            .insert(tag, GssReplyVerificationData { context, generation: renewable.generation, protection: seal });
        Ok(Some(&self.message))
    }

    /// Verifies a Reply and removes its protection.
    pub(super) fn open(
        &mut self,
        signature: GssReplyVerificationData,
        message: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<(), GssIntegrityError> {
        let context = self
            .contexts
            .get_mut(signature.context)
            .and_then(|renewable| renewable.at_generation(signature.generation));
        context.ok_or(GssIntegrityError::Verifier)?.open(signature.protection, message, plain)
    }
}

/// Returns the machine credential of a client, if the step is its EXCHANGE_ID or SETCLIENTID.
fn machine_credential(step: &TraceStep<'_>, context: usize) -> Option<MachineCredentialGssContext> {
    let service = match step.procedure.protection {
        GssProtection::INTEGRITY => RpcGssService::rpc_gss_svc_integrity,
        _ => RpcGssService::rpc_gss_svc_none,
    };
    // Only their Replies give a client ID, so other Calls are not decoded.
    step.reply.variable(TraceSlotValueKind::CLIENTID)?;
    let arguments = step.call.head.0.get(step.call.body as usize..step.call.end as usize)?;
    let call = v4::CompoundCall::decode(&mut Cursor::new(arguments), &mut NullFieldObserver).ok()?;
    let operation = call.operations().next()?.ok()?;
    matches!(operation, v4::Args::EXCHANGE_ID(_) | v4::Args::SETCLIENTID(_))
        .then_some(MachineCredentialGssContext { context, service })
}

pub(super) fn is_signed(step: &TraceStep<'_>) -> bool {
    step.procedure.flavor == Flavor::RPCSEC_GSS.0
}

/// Returns the handle of the context that signed the captured Call.
fn context_handle<'a>(step: &TraceStep<'a>) -> Option<&'a [u8]> {
    let is_data = is_signed(step) && step.procedure.protection != GssProtection::CONTROL;
    let mut cursor = Cursor::new(step.call.head.0).assume_valid();
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok().filter(|_| is_data)?;
    Some(message.call()?.cred.gss()?.handle.0)
}

/// Inserts the payloads into a message.
fn whole(message: &[u8], placed: &[TracePayloadInMessage], contents: &[Vec<u8>], out: &mut Vec<u8>) {
    out.clear();
    let mut from = 0;
    for (placed, content) in placed.iter().zip(contents) {
        // Positions refer to the message being built.
        let at = (from + (placed.position as usize).saturating_sub(out.len())).min(message.len());
        out.extend_from_slice(message.get(from..at).unwrap_or_default());
        out.extend_from_slice(content);
        out.extend_from_slice([0; 3].get(..roundup(content.len())).unwrap_or_default());
        from = at;
    }
    out.extend_from_slice(message.get(from..).unwrap_or_default());
}
