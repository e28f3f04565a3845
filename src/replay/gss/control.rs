//! Calls of RPCSEC_GSS itself, by which a context is set up and destroyed. RFC 2203 sections 5.2.2 and 5.4.
//!
//! A [`GssControlCall`] is made of tokens of the mechanism and of handles of the server alone: no byte of a trace is in one. So a run may
//! [send](crate::replay::containment::ContainedCall::control) it, while a trace that has such a Call is refused.

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::rpc::gss::{GssProc, InitArg, InitRes, RpcGssService};
use nfsrdma_dissectors::rpc::{self, Program, RpcMsg, RpcMsgBody, Verifier, Xid};
use nfsrdma_dissectors::xdr::{self, Cursor, Encoder, Opaque, Xdr};

use super::{
    COMPLETE, CONTINUE_NEEDED, GssContext, GssError, GssInitReply, GssInitStep, GssMechanism,
    GssMechanismError, GssReplyProtection, INIT_RES, TOKEN, TURNS, credential,
};
use crate::replay::rpc_client::{RpcClient, no_verifier, read};

/// A Call of NULL that sets up or destroys a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssControlCall {
    xid: Xid,
    message: Vec<u8>,
}

impl GssControlCall {
    /// Its XID.
    pub fn xid(&self) -> Xid {
        self.xid
    }

    /// The RPC message.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The most bytes that its Reply can have.
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
    /// Tokens that the server may still ask for.
    left: u32,
}

/// A context after an answer of the server.
#[derive(Debug)]
pub enum GssSetupStep {
    /// It stands.
    Established(GssContext),
    /// The server asks for another token.
    ContinueNeeded(GssContextSetup),
}

impl GssContextSetup {
    /// Begins a context for a version of NFS: 3, or else 4.
    ///
    /// # Errors
    /// Where the mechanism has no credentials.
    pub fn begin(mut mechanism: Box<dyn GssMechanism>, version: u32) -> Result<Self, GssMechanismError> {
        let turn = mechanism.step(&[])?;
        let version = if version == 3 { 3 } else { 4 };
        let gss_proc = GssProc::RPCSEC_GSS_INIT;
        Ok(Self { mechanism, version, handle: Vec::new(), gss_proc, turn, left: TURNS })
    }

    /// The Call with the token of this side.
    pub fn call(&self, xid: Xid) -> GssControlCall {
        let cred = credential(self.gss_proc, 0, RpcGssService::rpc_gss_svc_none, &self.handle);
        let (prog, vers) = (Program::NFS, self.version);
        let call = rpc::CallBody { rpcvers: rpc::VERSION, prog, vers, proc: 0, cred, verf: no_verifier() };
        let mut encoder = Encoder::new();
        RpcMsg { xid, body: RpcMsgBody::Call(call) }.encode(&mut encoder);
        InitArg { gss_token: Opaque(&self.turn.token) }.encode(&mut encoder);
        GssControlCall { xid, message: encoder.finish().0 }
    }

    /// Takes the Reply to that Call. The cursor stands at the beginning of its message.
    ///
    /// # Errors
    /// Where one of the two sides does not want the context.
    pub fn answered(self, mut reply: Cursor<'_>) -> Result<GssSetupStep, GssError> {
        let reply = read(&mut reply, decode_init_reply)?;
        self.advance(reply)
    }

    fn advance(mut self, reply: GssInitReply) -> Result<GssSetupStep, GssError> {
        if !matches!(reply.major, COMPLETE | CONTINUE_NEEDED) {
            return Err(GssError::Refused(reply.major, reply.minor));
        }
        self.handle = reply.handle;
        if !reply.token.is_empty() {
            self.turn = self.mechanism.step(&reply.token)?;
        }
        if reply.major == COMPLETE {
            if reply.window == 0 {
                return Err(GssError::NoWindow);
            }
            let is_signed = self.mechanism.is_signed(&reply.window.to_be_bytes(), &reply.checksum);
            return match self.turn.is_done && is_signed {
                true => Ok(GssSetupStep::Established(GssContext::new(
                    self.mechanism,
                    self.handle,
                    self.version,
                    reply.window,
                ))),
                false => Err(GssError::NotSigned),
            };
        }
        self.gss_proc = GssProc::RPCSEC_GSS_CONTINUE_INIT;
        self.left = self.left.checked_sub(1).filter(|left| *left > 0).ok_or(GssError::Endless)?;
        Ok(GssSetupStep::ContinueNeeded(self))
    }
}

/// Reads what the server says to a token.
fn decode_init_reply(
    verifier: &Verifier<'_>,
    cursor: &mut Cursor<'_>,
) -> Result<GssInitReply, xdr::XdrError> {
    Ok(GssInitReply::new(verifier, &InitRes::decode(cursor, &INIT_RES, &mut NullObserver)?))
}

impl GssContext {
    /// Sets up a context with the server at the other end of a line, for a version of NFS.
    ///
    /// # Errors
    /// Where one of the two sides does not want it, or the server cannot be reached.
    pub fn establish(
        line: &mut RpcClient<'_>,
        version: u32,
        mechanism: Box<dyn GssMechanism>,
    ) -> Result<Self, GssError> {
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

    /// The Call that destroys this context, and what its Reply must be [signed](Self::is_signed) with. RFC 2203 section 5.4.
    ///
    /// # Errors
    /// Where the context has expired.
    pub fn destroy(&mut self, xid: Xid) -> Result<(GssControlCall, GssReplyProtection), GssMechanismError> {
        let asked = (Program::NFS, self.version, 0);
        let destroys = (GssProc::RPCSEC_GSS_DESTROY, RpcGssService::rpc_gss_svc_none);
        let (encoder, seal) = self.signed(destroys, xid, asked, &mut Vec::new())?;
        Ok((GssControlCall { xid, message: encoder.finish().0 }, seal))
    }
}
