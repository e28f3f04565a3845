//! The setup of a context. RFC 2203 section 5.2.

use nfsrdma_dissectors::field::{FieldDefinition, NullFieldObserver};
use nfsrdma_dissectors::rpc::gss::{GssProc, RpcGssInitArg, RpcGssInitRes, RpcGssService};
use nfsrdma_dissectors::rpc::{self, Program, RpcMsg, RpcMsgBody, Verifier, Xid};
use nfsrdma_dissectors::xdr::{self, Cursor, Encoder, Opaque, Xdr};

use super::context::{GssContext, checksum, credential};
use super::control_call::GssControlCall;
use super::mechanism_context::{GssInitStep, GssMechanismContext, GssMechanismError};
use crate::synchronous_client::{RpcCallError, RpcClient, decode_reply, no_verifier};

/// Maximum number of turns in a context setup. Kerberos takes one.
const TURNS: u32 = 16;
/// GSS_S_COMPLETE and GSS_S_CONTINUE_NEEDED. RFC 2744 section 3.9.1.
const COMPLETE: u32 = 0;
const CONTINUE_NEEDED: u32 = 1;

static INIT_RES: FieldDefinition =
    FieldDefinition::group("rpc.authgss.init", "rpc_gss_init_res", "RFC 2203 section 5.2.3.1");

/// The reason that there is no context.
#[derive(Debug, thiserror::Error)]
pub enum GssContextSetupError {
    /// The mechanism of this side failed.
    #[error("no security context: {0}")]
    Mechanism(#[from] GssMechanismError),
    /// The Call failed.
    #[error("no security context: {0}")]
    Call(#[from] RpcCallError),
    /// The server refused: gss_major and gss_minor.
    #[error("no security context: refused by the server (major {0:#010x}, minor {1}); check its log")]
    Refused(u32, u32),
    /// The server's signature is missing or wrong.
    #[error("no security context: reply not signed")]
    NotSigned,
    /// The server accepts no Calls in the context: its window of sequence numbers is empty.
    #[error("no security context: sequence window of 0")]
    NoWindow,
    /// The setup exceeded the maximum number of turns.
    #[error("no security context: negotiation incomplete after {TURNS} rounds")]
    Endless,
}

/// A context that is being set up.
#[derive(Debug)]
pub struct GssContextSetup {
    mechanism: Box<dyn GssMechanismContext>,
    version: u32,
    handle: Vec<u8>,
    gss_proc: GssProc,
    step: GssInitStep,
    /// Number of further tokens that the server may request.
    left: u32,
}

/// The state of the setup after an answer of the server.
#[derive(Debug)]
pub enum GssSetupStep {
    /// The context is established.
    Established(GssContext),
    /// The server requests another token.
    ContinueNeeded(GssContextSetup),
}

impl GssContextSetup {
    /// Begins the setup of a context for a version of NFS: 3, or else 4.
    ///
    /// # Errors
    /// Returns an error if the mechanism has no credentials.
    pub fn begin(mut mechanism: Box<dyn GssMechanismContext>, version: u32) -> Result<Self, GssMechanismError> {
        let step = mechanism.step(&[])?;
        let version = if version == 3 { 3 } else { 4 };
        let gss_proc = GssProc::RPCSEC_GSS_INIT;
        Ok(Self { mechanism, version, handle: Vec::new(), gss_proc, step, left: TURNS })
    }

    /// Returns the Call with the token of this side.
    pub fn call(&self, xid: Xid) -> GssControlCall {
        let cred = credential(self.gss_proc, 0, RpcGssService::rpc_gss_svc_none, &self.handle);
        let (prog, vers) = (Program::NFS, self.version);
        let call = rpc::CallBody { rpcvers: rpc::VERSION, prog, vers, proc: 0, cred, verf: no_verifier() };
        let mut encoder = Encoder::new();
        RpcMsg { xid, body: RpcMsgBody::Call(call) }.encode(&mut encoder);
        RpcGssInitArg { gss_token: Opaque(&self.step.token) }.encode(&mut encoder);
        GssControlCall::new(xid, encoder.finish().0)
    }

    /// Processes the Reply to that Call. The cursor is at the beginning of its message.
    ///
    /// # Errors
    /// Returns an error if one of the sides rejects the context.
    pub fn handle_reply(self, mut reply: Cursor<'_>) -> Result<GssSetupStep, GssContextSetupError> {
        let reply = decode_reply(&mut reply, decode_init_reply)?;
        self.advance(reply)
    }

    fn advance(mut self, reply: GssInitReply) -> Result<GssSetupStep, GssContextSetupError> {
        if !matches!(reply.major, COMPLETE | CONTINUE_NEEDED) {
            return Err(GssContextSetupError::Refused(reply.major, reply.minor));
        }
        self.handle = reply.handle;
        if !reply.token.is_empty() {
            self.step = self.mechanism.step(&reply.token)?;
        }
        if reply.major == COMPLETE {
            if reply.window == 0 {
                return Err(GssContextSetupError::NoWindow);
            }
            let is_signed = self.mechanism.verify(&reply.window.to_be_bytes(), &reply.checksum);
            return match self.step.is_done && is_signed {
                true => Ok(GssSetupStep::Established(GssContext::new(
                    self.mechanism,
                    self.handle,
                    self.version,
                    reply.window,
                ))),
                false => Err(GssContextSetupError::NotSigned),
            };
        }
        self.gss_proc = GssProc::RPCSEC_GSS_CONTINUE_INIT;
        self.left = self.left.checked_sub(1).filter(|remaining| *remaining > 0).ok_or(GssContextSetupError::Endless)?;
        Ok(GssSetupStep::ContinueNeeded(self))
    }
}

struct GssInitReply {
    handle: Vec<u8>,
    major: u32,
    minor: u32,
    window: u32,
    token: Vec<u8>,
    checksum: Vec<u8>,
}

impl GssInitReply {
    fn new(verifier: &Verifier<'_>, result: &RpcGssInitRes<'_>) -> Self {
        Self {
            handle: result.handle.0.to_vec(),
            major: result.gss_major,
            minor: result.gss_minor,
            window: result.seq_window,
            token: result.gss_token.0.to_vec(),
            checksum: checksum(verifier).unwrap_or_default().to_vec(),
        }
    }
}

fn decode_init_reply(verifier: &Verifier<'_>, cursor: &mut Cursor<'_>) -> Result<GssInitReply, xdr::XdrError> {
    Ok(GssInitReply::new(verifier, &RpcGssInitRes::decode(cursor, &INIT_RES, &mut NullFieldObserver)?))
}

impl GssContext {
    /// Sets up a context with the server of an RPC client, for a version of NFS.
    ///
    /// # Errors
    /// Returns an error if one of the sides rejects it, or the server is unreachable.
    pub fn establish(
        line: &mut RpcClient<'_>,
        version: u32,
        mechanism: Box<dyn GssMechanismContext>,
    ) -> Result<Self, GssContextSetupError> {
        let mut setup = GssContextSetup::begin(mechanism, version)?;
        loop {
            let call = setup.call(line.next_xid());
            let reply = line.control(&call, decode_init_reply)?;
            match setup.advance(reply)? {
                GssSetupStep::Established(context) => return Ok(context),
                GssSetupStep::ContinueNeeded(next) => setup = next,
            }
        }
    }
}
