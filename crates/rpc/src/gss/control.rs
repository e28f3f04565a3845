//! RPCSEC_GSS control Calls, which set up and destroy a context. RFC 2203 sections 5.2.2 and 5.4.
//!
//! A [`GssControlCall`] consists only of tokens of the mechanism and handles of the server, and has no bytes of a
//! caller. So a program that checks its Calls, such as one that replays a capture, can send it without a check.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc::gss::{GssProc, RpcGssInitArg, RpcGssInitRes, RpcGssService};
use nfsrdma_dissectors::rpc::{self, Program, RpcMsg, RpcMsgBody, Verifier, Xid};
use nfsrdma_dissectors::xdr::{self, Cursor, Encoder, Opaque, Xdr};

use super::{
    COMPLETE, CONTINUE_NEEDED, GssContext, GssContextSetupError, GssInitReply, GssInitStep,
    GssMechanismContext, GssMechanismError, GssReplyProtection, INIT_RES, MAX_TOKEN_BYTES, TURNS, credential,
};
use crate::synchronous_client::{RpcClient, decode_reply, no_verifier};
use crate::{CallTag, OutgoingRpcCall};

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

    /// Returns the Call for a transport, with this tag.
    pub fn transport_call(&self, tag: CallTag) -> OutgoingRpcCall<'_> {
        OutgoingRpcCall::without_payloads(self.xid, tag, &self.message, self.reply_bytes())
    }

    /// Returns the maximum length of its Reply in bytes.
    pub fn reply_bytes(&self) -> u32 {
        MAX_TOKEN_BYTES
    }
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
    pub fn begin(
        mut mechanism: Box<dyn GssMechanismContext>,
        version: u32,
    ) -> Result<Self, GssMechanismError> {
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
        GssControlCall { xid, message: encoder.finish().0 }
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
        self.left = self
            .left
            .checked_sub(1)
            .filter(|remaining| *remaining > 0)
            .ok_or(GssContextSetupError::Endless)?;
        Ok(GssSetupStep::ContinueNeeded(self))
    }
}

fn decode_init_reply(
    verifier: &Verifier<'_>,
    cursor: &mut Cursor<'_>,
) -> Result<GssInitReply, xdr::XdrError> {
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

    /// Returns the Call that destroys this context, and the protection that its Reply must be
    /// [signed](Self::verify_reply) with. RFC 2203 section 5.4.
    ///
    /// # Errors
    /// Returns an error if the context has expired.
    pub fn destroy(&mut self, xid: Xid) -> Result<(GssControlCall, GssReplyProtection), GssMechanismError> {
        let procedure = (Program::NFS, self.version, 0);
        let proc_and_service = (GssProc::RPCSEC_GSS_DESTROY, RpcGssService::rpc_gss_svc_none);
        let (encoder, protection) =
            self.begin_signed_call(proc_and_service, xid, procedure, &mut Vec::new())?;
        Ok((GssControlCall { xid, message: encoder.finish().0 }, protection))
    }
}
