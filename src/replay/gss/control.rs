//! RPCSEC_GSS control Calls, which set up and destroy a context. RFC 2203 sections 5.2.2 and 5.4.
//!
//! A [`GssControlCall`] consists only of tokens of the mechanism and handles of the server, and has no bytes of a
//! trace. So a replay may [send](crate::replay::containment::ContainedCall::control) it, while a trace with such a Call
//! is rejected.

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::rpc::gss::{GssProc, InitArg, InitRes, RpcGssService};
use nfsrdma_dissectors::rpc::{self, Program, RpcMsg, RpcMsgBody, Verifier, Xid};
use nfsrdma_dissectors::xdr::{self, Cursor, Encoder, Opaque, Xdr};

use super::{
    COMPLETE, CONTINUE_NEEDED, GssContext, GssError, GssInitReply, GssInitStep, GssMechanism,
    GssMechanismError, GssReplyProtection, INIT_RES, TOKEN, TURNS, credential,
};
use crate::replay::rpc_client::{ProcedureCall, RpcClient, no_verifier, read};

/// A NULL Call that sets up or destroys a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssControlCall {
    xid: Xid,
    message: Vec<u8>,
}

impl GssControlCall {
    /// Returns the XID.
    pub fn xid(&self) -> Xid {
        self.xid
    }

    /// Returns the RPC message.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Returns the maximum length of its Reply in bytes.
    pub fn reply_bytes(&self) -> u32 {
        TOKEN
    }
}

/// A context that is being set up.
#[derive(Debug)]
pub struct GssContextSetup {
    mechanism: Box<dyn GssMechanism>,
    version: u32,
    handle: Vec<u8>,
    gss_proc: GssProc,
    turn: GssInitStep,
    /// Number of further tokens that the server may request.
    left: u32,
}

/// The state of the setup after an answer of the server.
#[derive(Debug)]
pub enum GssSetupStep {
    /// The context is established.
    Stands(GssContext),
    /// The server requests another token.
    Asks(GssContextSetup),
}

impl GssContextSetup {
    /// Begins the setup of a context for a version of NFS: 3, or else 4.
    ///
    /// # Errors
    /// Returns an error if the mechanism has no credentials.
    pub fn begin(mut mechanism: Box<dyn GssMechanism>, version: u32) -> Result<Self, GssMechanismError> {
        let turn = mechanism.step(&[])?;
        let version = if version == 3 { 3 } else { 4 };
        let gss_proc = GssProc::RPCSEC_GSS_INIT;
        Ok(Self { mechanism, version, handle: Vec::new(), gss_proc, turn, left: TURNS })
    }

    fn argument(&self) -> InitArg<'_> {
        InitArg { gss_token: Opaque(&self.turn.token) }
    }

    /// Returns the Call with the token of this side.
    pub fn call(&self, xid: Xid) -> GssControlCall {
        let cred = credential(self.gss_proc, 0, RpcGssService::rpc_gss_svc_none, &self.handle);
        let (prog, vers) = (Program::NFS, self.version);
        let call = rpc::CallBody { rpcvers: rpc::VERSION, prog, vers, proc: 0, cred, verf: no_verifier() };
        let mut encoder = Encoder::new();
        RpcMsg { xid, body: RpcMsgBody::Call(call) }.encode(&mut encoder);
        self.argument().encode(&mut encoder);
        GssControlCall { xid, message: encoder.finish().0 }
    }

    /// Processes the Reply to that Call. The cursor is at the beginning of its message.
    ///
    /// # Errors
    /// Returns an error if one of the sides rejects the context.
    pub fn answered(self, mut reply: Cursor<'_>) -> Result<GssSetupStep, GssError> {
        let told = read(&mut reply, told)?;
        self.hear(told)
    }

    fn hear(mut self, told: GssInitReply) -> Result<GssSetupStep, GssError> {
        if !matches!(told.major, COMPLETE | CONTINUE_NEEDED) {
            return Err(GssError::Refused(told.major, told.minor));
        }
        self.handle = told.handle;
        if !told.token.is_empty() {
            self.turn = self.mechanism.step(&told.token)?;
        }
        if told.major == COMPLETE {
            if told.window == 0 {
                return Err(GssError::NoWindow);
            }
            let is_signed = self.mechanism.is_signed(&told.window.to_be_bytes(), &told.checksum);
            return match self.turn.is_done && is_signed {
                true => Ok(GssSetupStep::Stands(GssContext::new(
                    self.mechanism,
                    self.handle,
                    self.version,
                    told.window,
                ))),
                false => Err(GssError::NotSigned),
            };
        }
        self.gss_proc = GssProc::RPCSEC_GSS_CONTINUE_INIT;
        self.left = self.left.checked_sub(1).filter(|left| *left > 0).ok_or(GssError::Endless)?;
        Ok(GssSetupStep::Asks(self))
    }
}

/// Decodes the server's answer to a token.
fn told(verifier: &Verifier<'_>, cursor: &mut Cursor<'_>) -> Result<GssInitReply, xdr::XdrError> {
    Ok(GssInitReply::new(verifier, &InitRes::decode(cursor, &INIT_RES, &mut NullObserver)?))
}

impl GssContext {
    /// Sets up a context with the server of an RPC client, for a version of NFS.
    ///
    /// # Errors
    /// Returns an error if one of the sides rejects it, or the server is unreachable.
    pub fn establish(
        line: &mut RpcClient<'_>,
        version: u32,
        mechanism: Box<dyn GssMechanism>,
    ) -> Result<Self, GssError> {
        let mut establishing = GssContextSetup::begin(mechanism, version)?;
        loop {
            let credential =
                credential(establishing.gss_proc, 0, RpcGssService::rpc_gss_svc_none, &establishing.handle);
            let procedure = ProcedureCall::new(Program::NFS, establishing.version, 0, TOKEN);
            let argument = establishing.argument();
            let told = line.call_as(credential, &procedure, |encoder| argument.encode(encoder), told)?;
            match establishing.hear(told)? {
                GssSetupStep::Stands(context) => return Ok(context),
                GssSetupStep::Asks(again) => establishing = again,
            }
        }
    }

    /// Returns the Call that destroys this context, and the protection that its Reply must be [signed](Self::is_signed)
    /// with. RFC 2203 section 5.4.
    ///
    /// # Errors
    /// Returns an error if the context has expired.
    pub fn destroy(&mut self, xid: Xid) -> Result<(GssControlCall, GssReplyProtection), GssMechanismError> {
        let asked = (Program::NFS, self.version, 0);
        let destroys = (GssProc::RPCSEC_GSS_DESTROY, RpcGssService::rpc_gss_svc_none);
        let (encoder, seal) = self.signed(destroys, xid, asked, &mut Vec::new())?;
        Ok((GssControlCall { xid, message: encoder.finish().0 }, seal))
    }
}
