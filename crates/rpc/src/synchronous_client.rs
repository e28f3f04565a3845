//! A synchronous RPC client: sends a Call, waits for its Reply, and passes the results to a closure.
//!
//! It serves work without performance needs: probes, setup and tests. The replay engine uses [`RpcClientTransport`]
//! directly.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::rpc::auth::{AuthNoneVerifier, AuthNoneVerifierBody, AuthSys, Flavor, UndecodedAuthBody};
use nfsrdma_dissectors::rpc::{
    self, AcceptStat, AcceptedReply, AuthStat, Credential, Program, RejectedReply, ReplyData, RpcMsg, RpcMsgBody,
    RpcReplyStatus, Verifier, Xid,
};
use nfsrdma_dissectors::rpcrdma::{RpcRdmaError, RpcRdmaErrvers};
use nfsrdma_dissectors::xdr::{self, Cursor, Encoder, Opaque, Text, Xdr, XdrArray};

use crate::client_transport_events::{DisconnectReason, ReceivedMessageDiscardReason, RpcClientTransportEvent};
use crate::gss::control_call::GssControlCall;
use crate::outgoing_call::{
    CallTag, DdpEligibleArgument, OutgoingRpcCall, PayloadContentLocation, ReplySizeLimits, RequestedCallForm,
};
use crate::params::{ConnectTarget, RpcClientConnectionId};
use crate::reconnection::ReconnectionAttempts;
use crate::rpc_transport::RpcClientTransport;
use crate::transport_error::{
    PermanentSubmitRefusal, RpcClientTransportError, SubmitError, TransportErrorResponsibility,
};

/// Maximum number of resends of a Call after connection loss, and after a timeout. Linux's iWARP over TCP (siw) loses
/// the first Call of a connection at times, and of two connections in a row on a busy host.
const MAX_RESENDS: u32 = 8;
const MAX_TIMEOUT_RETRIES: u32 = 2;

/// Maximum number of bytes of the Reply header before the results, with a long verifier (RFC 5531 section 8.2).
const MAX_REPLY_HEADER_BYTES: u32 = 28 + 400;

/// An AUTH_SYS credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSysCredential {
    /// The machine name sent to the server.
    pub machine: String,
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
}

impl Default for AuthSysCredential {
    /// Returns a credential of root, which most servers map to nobody.
    fn default() -> Self {
        Self { machine: env!("CARGO_PKG_NAME").into(), uid: 0, gid: 0 }
    }
}

/// An RPC client on one connection of a transport.
pub struct RpcClient<'t, F = ()> {
    transport: &'t mut dyn RpcClientTransport,
    /// The current connection.
    pub connection: RpcClientConnectionId,
    auth_sys: AuthSysCredential,
    next: u32,
    /// Number of XIDs directly before that of the current Call whose Replies may come again.
    earlier_xids: u32,
    timeout: Duration,
    /// The duration of the last Call.
    pub last_latency: Duration,
    /// Number of Replies that could not be decoded.
    pub undecodable_replies: u64,
    /// `true` if the last Call was sent again, so that the server may have executed it twice.
    pub was_resent: bool,
    filter: F,
    /// Target of the replacement connection after connection loss or a timeout; `None` if the Call fails then.
    target: Option<ConnectTarget>,
    /// `true` if a Call without Reply is sent again on another connection, too.
    reconnects_after_timeout: bool,
    /// Time from which on Calls fail; `None` for never.
    deadline: Option<Instant>,
    /// Flag from which on Calls fail.
    interruption: Option<Arc<AtomicBool>>,
}

/// A check that every Call of an [`RpcClient`] must pass, made on the finished Call just before it is sent.
///
/// [`RpcClient::control`] does not ask it: a [`GssControlCall`] has no bytes of a caller.
pub trait OutgoingCallCheck {
    /// The reason that a Call is refused.
    type Refusal: Error + Send + Sync + 'static;

    /// Checks a Call.
    ///
    /// # Errors
    /// Returns the reason that the Call must not be sent.
    fn check_call(&self, call: &OutgoingRpcCall<'_>) -> Result<(), Self::Refusal>;

    /// Processes the Reply of a Call that was sent. The cursor is at the beginning of the Reply message.
    fn record_reply(&mut self, call: &OutgoingRpcCall<'_>, reply: Cursor<'_>);
}

/// Lets every Call pass.
impl OutgoingCallCheck for () {
    type Refusal = Infallible;

    fn check_call(&self, _call: &OutgoingRpcCall<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn record_reply(&mut self, _call: &OutgoingRpcCall<'_>, _reply: Cursor<'_>) {}
}

/// A procedure and the parameters of its Call.
#[derive(Clone, Copy)]
pub struct SynchronousProcedureCall<'a> {
    /// The program.
    pub program: Program,
    /// The version of the program.
    pub version: u32,
    /// The procedure number.
    pub number: u32,
    /// The contents of the DDP-eligible arguments that are encoded as chunks, in order.
    pub data: &'a [PayloadContentLocation<'a>],
    /// Maximum number of bytes of the results, without the DDP-eligible ones in `results`.
    pub max_result_bytes: u32,
    /// Maximum number of bytes of each DDP-eligible result.
    pub max_payload_bytes: &'a [u32],
    /// The form of the Call over RDMA.
    pub shape: RequestedCallForm<'a>,
}

impl SynchronousProcedureCall<'_> {
    /// Creates a procedure call whose results have at most `reply` bytes.
    pub fn new(program: Program, version: u32, number: u32, reply: u32) -> Self {
        Self {
            program,
            version,
            number,
            data: &[],
            max_result_bytes: reply,
            max_payload_bytes: &[],
            shape: RequestedCallForm::Fitting,
        }
    }
}

/// The reason that a Call gave no results.
#[derive(Debug, thiserror::Error)]
pub enum RpcCallError {
    /// The transport failed and is unusable.
    #[error("{0}")]
    Transport(#[from] RpcClientTransportError),
    /// The Call could not be sent.
    #[error("{0}")]
    Submit(SubmitError),
    /// The [`OutgoingCallCheck`] of the client refused the Call.
    #[error("{0}")]
    Filtered(Box<dyn Error + Send + Sync>),
    /// No Reply arrived within this time.
    #[error("no reply within {} s; check that the server runs", .0.as_secs_f64())]
    Timeout(Duration),
    /// No Reply arrived within this time, but a message that breaks the protocol, and was not used for this reason.
    #[error("no reply within {} s, but a message that was discarded: {}; see the server's log", .0.as_secs_f64(), .1)]
    Discarded(Duration, ReceivedMessageDiscardReason),
    /// The connection was lost.
    #[error("{}{}", .0, disconnect_time(.0))]
    Disconnected(DisconnectReason),
    /// The time limit of the client was reached.
    #[error("time limit reached")]
    DeadlineExceeded,
    /// The user interrupted the client.
    #[error("interrupted")]
    Interrupted,
    /// The server could not process the transport header of the Call.
    #[error("RDMA_ERROR: {}", rdma_error_text(.0))]
    RdmaError(RpcRdmaError),
    /// The server supports only other versions of the program: lowest, highest.
    #[error("PROG_MISMATCH: the server has versions {0} to {1} of the program; `probe` lists those of NFS")]
    Versions(u32, u32),
    /// The RPC layer of the server did not execute the procedure.
    #[error("{0}{advice}", advice = advice_for_rpc_status(*.0))]
    Rpc(RpcReplyStatus),
    /// The server rejected the credential or the verifier. RFC 5531 section 9.
    #[error("MSG_DENIED: AUTH_ERROR, {0}; check the security of the export (sec=), and whether it allows this machine")]
    Denied(AuthStat),
    /// The Reply cannot be decoded.
    #[error("the reply cannot be read: {0}; check that an NFS server listens there, and its log")]
    Unreadable(xdr::XdrError),
}

impl RpcCallError {
    /// Returns `true` if the connection cannot be used for further Calls.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Transport(_)
                | Self::Timeout(_)
                | Self::Discarded(..)
                | Self::Disconnected(_)
                | Self::DeadlineExceeded
                | Self::Interrupted
        )
    }

    /// Returns the party that is to blame.
    pub fn blame(&self) -> TransportErrorResponsibility {
        const GARBAGE_ARGS: RpcReplyStatus = RpcReplyStatus::Accepted(AcceptStat::GARBAGE_ARGS);
        match self {
            Self::Submit(SubmitError::Refused(_)) | Self::RdmaError(_) | Self::Rpc(GARBAGE_ARGS) => {
                TransportErrorResponsibility::Program
            }
            Self::Transport(error) => error.blame(),
            Self::Rpc(RpcReplyStatus::Accepted(AcceptStat::PROG_UNAVAIL | AcceptStat::SYSTEM_ERR)) => {
                TransportErrorResponsibility::Unreachable
            }
            // Every program has the procedures that are called, and RPC has only version 2: RFC 5531 section 9.
            Self::Rpc(_) | Self::Unreadable(_) | Self::Discarded(..) => TransportErrorResponsibility::Server,
            _ => TransportErrorResponsibility::Unreachable,
        }
    }
}

/// Returns the remedy for a call that RPC did not execute.
fn advice_for_rpc_status(status: RpcReplyStatus) -> &'static str {
    match status {
        RpcReplyStatus::Accepted(AcceptStat::PROG_UNAVAIL) => {
            "; an RPC server without the program: check the port, and that the NFS server is running"
        }
        RpcReplyStatus::Accepted(AcceptStat::GARBAGE_ARGS) => {
            "; the server says that this program broke the protocol: capture the connection. If `lint` of the \
             capture names the server, report it to the server's maintainers, else to those of this program"
        }
        RpcReplyStatus::Accepted(AcceptStat::SYSTEM_ERR) => "; see the server's log",
        RpcReplyStatus::Accepted(AcceptStat::PROC_UNAVAIL) => {
            "; the server lacks a procedure that it must have: see its log"
        }
        _ => "; the server broke the protocol: see its log",
    }
}

fn disconnect_time(reason: &DisconnectReason) -> &'static str {
    if matches!(reason, DisconnectReason::NonRpcProtocol(_)) { "" } else { " before the reply arrived" }
}

fn rdma_error_text(error: &RpcRdmaError) -> String {
    match error {
        RpcRdmaError::Chunk => "ERR_CHUNK".to_owned(),
        RpcRdmaError::Vers(RpcRdmaErrvers { rdma_vers_low: low, rdma_vers_high: high }) => {
            format!("ERR_VERS, the server speaks RPC-over-RDMA {low} to {high}")
        }
    }
}

impl<'t> RpcClient<'t> {
    /// Creates a client on a connection. XIDs begin at `xid`; it should differ between connections to a server, whose
    /// duplicate request cache may be keyed by XID.
    pub fn new(
        transport: &'t mut dyn RpcClientTransport,
        connection: RpcClientConnectionId,
        caller: AuthSysCredential,
        xid: Xid,
        timeout: Duration,
    ) -> Self {
        let took = Duration::ZERO;
        Self {
            transport,
            connection,
            auth_sys: caller,
            next: xid.0,
            earlier_xids: 0,
            timeout,
            last_latency: took,
            undecodable_replies: 0,
            was_resent: false,
            filter: (),
            target: None,
            reconnects_after_timeout: true,
            deadline: None,
            interruption: None,
        }
    }

    /// Makes the client check each Call with a filter, and show it each Reply.
    pub fn with_filter<F: OutgoingCallCheck>(self, filter: F) -> RpcClient<'t, F> {
        RpcClient {
            filter,
            transport: self.transport,
            connection: self.connection,
            auth_sys: self.auth_sys,
            next: self.next,
            earlier_xids: self.earlier_xids,
            timeout: self.timeout,
            last_latency: self.last_latency,
            undecodable_replies: self.undecodable_replies,
            was_resent: self.was_resent,
            target: self.target,
            reconnects_after_timeout: self.reconnects_after_timeout,
            deadline: self.deadline,
            interruption: self.interruption,
        }
    }
}

impl<'t, F: OutgoingCallCheck> RpcClient<'t, F> {
    /// Makes Calls survive connection loss: after a disconnect or a timeout the client opens another connection and
    /// resends the Call unchanged, with the same XID.
    pub fn with_reconnect(self, target: &ConnectTarget) -> Self {
        Self { target: Some(target.clone()), ..self }
    }

    /// Makes Calls survive connection loss, but not a timeout.
    pub fn with_reconnect_after_close(self, target: &ConnectTarget) -> Self {
        Self { target: Some(target.clone()), reconnects_after_timeout: false, ..self }
    }

    /// Notes that others sent Calls on this connection before, with this number of XIDs directly before the first one of
    /// this client. A server may send their Replies late or twice.
    pub fn with_earlier_xids(self, earlier_xids: u32) -> Self {
        Self { earlier_xids, ..self }
    }

    /// Makes Calls fail with [`RpcCallError::DeadlineExceeded`] from this time on.
    pub fn with_deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Makes Calls fail with [`RpcCallError::Interrupted`] once the flag is set.
    pub fn with_interruption(self, interruption: Option<Arc<AtomicBool>>) -> Self {
        Self { interruption, ..self }
    }

    /// Returns the filter of Calls.
    pub fn filter_mut(&mut self) -> &mut F {
        &mut self.filter
    }

    /// Returns the transport.
    pub fn transport(&mut self) -> &mut dyn RpcClientTransport {
        self.transport
    }

    /// Calls a procedure. `arguments` encodes its arguments, `results` decodes its results.
    ///
    /// # Errors
    /// Returns an error if there are no results.
    pub fn call<T>(
        &mut self,
        procedure: &SynchronousProcedureCall<'_>,
        arguments: impl FnOnce(&mut Encoder),
        results: impl FnOnce(&mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        let xid = self.next_xid();
        let mut encoder = encode_call_header(xid, self.credential(procedure), procedure);
        arguments(&mut encoder);
        let (message, splices) = encoder.finish();
        let payloads: Vec<_> = splices
            .iter()
            .zip(procedure.data)
            .map(|(splice, source)| DdpEligibleArgument {
                position: u32::try_from(splice.position).unwrap_or(u32::MAX),
                source: *source,
            })
            .collect();
        let call = OutgoingRpcCall {
            xid,
            tag: CallTag(xid.0.into()),
            message: &message,
            payloads: &payloads,
            reply: ReplySizeLimits {
                message_bytes: procedure.max_result_bytes + MAX_REPLY_HEADER_BYTES,
                payloads: procedure.max_payload_bytes,
            },
            requested_form: procedure.shape,
        };
        self.filter.check_call(&call).map_err(|refusal| RpcCallError::Filtered(refusal.into()))?;
        let result = self.exchange(&call, |_, cursor| results(cursor));
        self.earlier_xids = self.earlier_xids.saturating_add(1);
        result
    }

    pub(crate) fn next_xid(&mut self) -> Xid {
        let xid = Xid(self.next);
        self.next = self.next.wrapping_add(1);
        xid
    }

    /// Sends an RPCSEC_GSS control message, which no [`OutgoingCallCheck`] checks. `results` also gets the verifier of
    /// the Reply.
    ///
    /// # Errors
    /// Returns an error if there are no results.
    pub fn control<T>(
        &mut self,
        control: &GssControlCall,
        results: impl FnOnce(&Verifier<'_>, &mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        let call = control.transport_call(CallTag(control.xid().0.into()));
        let result = self.exchange(&call, results);
        self.earlier_xids = self.earlier_xids.saturating_add(1);
        result
    }

    /// Sends a Call and decodes its Reply. Reconnects and resends within the limits.
    fn exchange<T>(
        &mut self,
        call: &OutgoingRpcCall<'_>,
        results: impl FnOnce(&Verifier<'_>, &mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        let mut results = Some(results);
        let (mut disconnect_count, mut timeout_count) = (0, 0);
        self.was_resent = false;
        loop {
            let start = Instant::now();
            if self.deadline.is_some_and(|deadline| start >= deadline) {
                return Err(RpcCallError::DeadlineExceeded);
            }
            if self.interruption.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Err(RpcCallError::Interrupted);
            }
            let limit = start + self.timeout;
            let limit = self.deadline.map_or(limit, |deadline| limit.min(deadline));
            let result = match self.submit(call, limit) {
                Ok(()) => self.receive(call, [start, limit], &mut results),
                Err(error) => Err(error),
            };
            match &result {
                Err(RpcCallError::Disconnected(DisconnectReason::NonRpcProtocol(_))) => return result,
                Err(
                    RpcCallError::Disconnected(_)
                    | RpcCallError::Submit(SubmitError::Refused(PermanentSubmitRefusal::Closed)),
                ) if disconnect_count < MAX_RESENDS => {
                    disconnect_count += 1;
                }
                Err(RpcCallError::Timeout(_)) if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    return Err(RpcCallError::DeadlineExceeded);
                }
                Err(RpcCallError::Timeout(_))
                    if self.reconnects_after_timeout && timeout_count < MAX_TIMEOUT_RETRIES =>
                {
                    timeout_count += 1;
                }
                _ => return result,
            }
            if !self.reconnect()? {
                return result;
            }
            self.was_resent = true;
        }
    }

    /// Replaces a lost or silent connection. Returns `false` if the client has no target to reconnect to.
    fn reconnect(&mut self) -> Result<bool, RpcCallError> {
        let Some(target) = &self.target else { return Ok(false) };
        self.transport.disconnect(self.connection);
        self.connection = ReconnectionAttempts::new(Instant::now(), self.timeout)
            .connect_blocking(target, |target| self.transport.connect(target))?;
        Ok(true)
    }

    /// Calls COMPOUND with these operations, and passes the decoded results to `results`.
    ///
    /// # Errors
    /// Returns an error if there are no results. A failed operation is not an error here.
    pub fn compound<T>(
        &mut self,
        minor: u32,
        operations: &[v4::Args<'_>],
        call: &SynchronousProcedureCall<'_>,
        results: impl FnOnce(&v4::CompoundReply<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        let head = v4::CompoundCallHead { tag: Text(b""), minorversion: minor };
        let procedure = SynchronousProcedureCall { program: Program::NFS, version: 4, number: 1, ..*call };
        self.call(
            &procedure,
            |encoder| v4::CompoundCall::new(head, operations).encode(encoder),
            |cursor| results(&v4::CompoundReply::decode(cursor, &mut NullFieldObserver)?),
        )
    }

    fn credential(&self, procedure: &SynchronousProcedureCall<'_>) -> Credential<'_> {
        let sys = AuthSys {
            stamp: 0,
            machinename: Text(self.auth_sys.machine.as_bytes()),
            uid: self.auth_sys.uid,
            gid: self.auth_sys.gid,
            gids: XdrArray::default(),
        };
        match procedure.number {
            // NULL needs no credential: RFC 5531 section 12.1.
            0 => Credential::Other(Flavor::AUTH_NONE, UndecodedAuthBody { body: Opaque(b"") }),
            _ => Credential::Sys(rpc::auth::FlavorSpecificAuthBody::Known(sys)),
        }
    }

    /// Submits a Call. While the transport is busy, processes its events.
    fn submit(&mut self, call: &OutgoingRpcCall<'_>, deadline: Instant) -> Result<(), RpcCallError> {
        loop {
            match self.transport.submit(self.connection, call) {
                Ok(_) => return Ok(()),
                Err(SubmitError::Busy(_)) => {}
                Err(error) => return Err(RpcCallError::Submit(error)),
            }
            match self.transport.poll(Some(deadline))? {
                Some(RpcClientTransportEvent::Disconnected { connection, reason, .. })
                    if connection == self.connection =>
                {
                    return Err(RpcCallError::Disconnected(reason));
                }
                // Events that nobody asked for must not extend the deadline.
                Some(_) if Instant::now() < deadline => {}
                _ => return Err(RpcCallError::Timeout(self.timeout)),
            }
        }
    }

    /// Waits for the Reply. Answers Calls from the server with PROG_UNAVAIL.
    fn receive<T>(
        &mut self,
        call: &OutgoingRpcCall<'_>,
        [start, deadline]: [Instant; 2],
        results: &mut Option<impl FnOnce(&Verifier<'_>, &mut Cursor<'_>) -> Result<T, xdr::XdrError>>,
    ) -> Result<T, RpcCallError> {
        let (xid, mut pending_call, mut discarded) = (call.xid, None, None);
        loop {
            if let Some((connection, xid)) = pending_call.take() {
                // If the answer cannot be sent, the server gets none.
                let _ = self.transport.answer(connection, xid, &encode_prog_unavail(xid));
            }
            match self.transport.poll(Some(deadline))? {
                None => return Err(self.timeout_error(discarded)),
                Some(RpcClientTransportEvent::Reply(reply))
                    if reply.connection == self.connection && reply.xid == xid =>
                {
                    self.last_latency = start.elapsed();
                    self.filter.record_reply(call, reply.cursor());
                    let Some(results) = results.take() else {
                        return Err(RpcCallError::Timeout(self.timeout));
                    };
                    let result = decode_reply(&mut reply.cursor(), results);
                    self.undecodable_replies += u64::from(matches!(result, Err(RpcCallError::Unreadable(_))));
                    return result;
                }
                Some(RpcClientTransportEvent::RdmaError { connection, xid: failed_xid, error, .. })
                    if connection == self.connection && failed_xid == xid =>
                {
                    return Err(RpcCallError::RdmaError(error));
                }
                Some(RpcClientTransportEvent::Disconnected { connection, reason, .. })
                    if connection == self.connection =>
                {
                    return Err(RpcCallError::Disconnected(reason));
                }
                Some(_) if Instant::now() >= deadline => return Err(self.timeout_error(discarded)),
                Some(RpcClientTransportEvent::Discarded { connection, xid: other, reason })
                    if connection == self.connection && is_fault(reason, xid, other, self.earlier_xids) =>
                {
                    discarded = Some(reason);
                }
                Some(RpcClientTransportEvent::Call(call)) => pending_call = Some((call.connection, call.xid)),
                Some(_) => {}
            }
        }
    }

    /// Returns the error of a call without a reply; `discarded` is the reason for which a message was not used.
    fn timeout_error(&self, discarded: Option<ReceivedMessageDiscardReason>) -> RpcCallError {
        match discarded {
            Some(reason) => RpcCallError::Discarded(self.timeout, reason),
            None => RpcCallError::Timeout(self.timeout),
        }
    }
}

/// Returns `true` if the server is to blame for a message that was discarded while the Call `xid` was in flight: one that
/// violates the protocol, or a Reply to no Call. The Replies to the `earlier` Calls before it may come late or twice.
fn is_fault(reason: ReceivedMessageDiscardReason, xid: Xid, other: Option<Xid>, earlier: u32) -> bool {
    let is_earlier = |other: Xid| (1..=earlier).contains(&xid.0.wrapping_sub(other.0));
    match reason {
        ReceivedMessageDiscardReason::UnknownXid => !other.is_some_and(is_earlier),
        reason => reason.is_violation(),
    }
}

/// Decodes the header of a Reply, and then the results with the verifier.
pub(crate) fn decode_reply<'a, T>(
    cursor: &mut Cursor<'a>,
    results: impl FnOnce(&Verifier<'a>, &mut Cursor<'a>) -> Result<T, xdr::XdrError>,
) -> Result<T, RpcCallError> {
    let message = RpcMsg::decode(cursor, &mut NullFieldObserver).map_err(RpcCallError::Unreadable)?;
    let RpcMsgBody::Reply(reply) = &message.body else {
        let at = cursor.at();
        return Err(RpcCallError::Unreadable(xdr::XdrError::Invalid { at, what: "reply", value: 0 }));
    };
    match reply {
        rpc::ReplyBody::Accepted(AcceptedReply { reply_data: ReplyData::ProgMismatch(versions), .. }) => {
            Err(RpcCallError::Versions(versions.low, versions.high))
        }
        rpc::ReplyBody::Accepted(AcceptedReply { verf, reply_data: ReplyData::Success }) => {
            results(verf, cursor).map_err(RpcCallError::Unreadable)
        }
        rpc::ReplyBody::Denied(RejectedReply::AuthError(error)) => Err(RpcCallError::Denied(error.stat)),
        other => Err(RpcCallError::Rpc(other.status())),
    }
}

/// Encodes a Call up to its arguments.
fn encode_call_header(xid: Xid, cred: Credential<'_>, procedure: &SynchronousProcedureCall<'_>) -> Encoder {
    let mut encoder = Encoder::new();
    let body = RpcMsgBody::Call(rpc::CallBody {
        rpcvers: rpc::VERSION,
        prog: procedure.program,
        vers: procedure.version,
        proc: procedure.number,
        cred,
        verf: no_verifier(),
    });
    RpcMsg { xid, body }.encode(&mut encoder);
    encoder
}

pub(crate) fn no_verifier<'a>() -> Verifier<'a> {
    Verifier::None(AuthNoneVerifier { body: AuthNoneVerifierBody::default() })
}

/// Encodes the answer to a Call for a program that is not available here. RFC 5531 section 9.
fn encode_prog_unavail(xid: Xid) -> Vec<u8> {
    let reply_data = ReplyData::Failed(rpc::AcceptStat::PROG_UNAVAIL);
    let reply = rpc::ReplyBody::Accepted(AcceptedReply { verf: no_verifier(), reply_data });
    let mut encoder = Encoder::new();
    RpcMsg { xid, body: RpcMsgBody::Reply(reply) }.encode(&mut encoder);
    encoder.finish().0
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::params::{ConnectOptions, ConnectTarget};
    use crate::tcp::TcpTransport;

    #[test]
    fn endless_calls_of_a_server_do_not_extend_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Records of eight bytes: an XID, and CALL.
            while stream.write_all(b"\x80\0\0\x08\0\0\0\x07\0\0\0\0").is_ok() {}
        });
        let mut tcp = TcpTransport::new();
        let wish = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
        let connection = tcp.connect(&ConnectTarget { address, name: "test".into(), options: wish }).unwrap();
        let timeout = Duration::from_millis(300);
        let mut line = RpcClient::new(&mut tcp, connection, AuthSysCredential::default(), Xid(1), timeout);
        let begin = Instant::now();
        let outcome = line.call(&SynchronousProcedureCall::new(Program::NFS, 4, 0, 0), |_| {}, |_| Ok(()));
        assert!(matches!(outcome, Err(RpcCallError::Timeout(_))), "{outcome:?}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }

    #[test]
    fn a_call_survives_two_silent_connections_and_no_third() {
        for silent_connections in [2, 3] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            thread::spawn(move || {
                let silent: Vec<_> = (0..silent_connections).map(|_| listener.accept().unwrap()).collect();
                let (mut stream, _) = listener.accept().unwrap();
                let mut call = [0; 44];
                stream.read_exact(&mut call).unwrap();
                let xid = &call[4..8];
                // A record of 24 bytes: XID, REPLY, MSG_ACCEPTED, an empty AUTH_NONE verifier, SUCCESS.
                let rest = [1_u32, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
                stream.write_all(&[&[0x80, 0, 0, 24], xid, &rest].concat()).unwrap();
                drop(silent);
            });
            let mut tcp = TcpTransport::new();
            let options = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
            let target = ConnectTarget { address, name: "test".into(), options };
            let connection = tcp.connect(&target).unwrap();
            let timeout = Duration::from_millis(300);
            let mut client = RpcClient::new(&mut tcp, connection, AuthSysCredential::default(), Xid(1), timeout)
                .with_reconnect(&target);
            let outcome = client.call(&SynchronousProcedureCall::new(Program::NFS, 4, 0, 0), |_| {}, |_| Ok(()));
            assert_eq!(outcome.is_ok(), silent_connections == 2, "{outcome:?}");
        }
    }

    /// RFC 5531 section 9: the XID of a Reply is that of its Call.
    #[test]
    fn repeated_reply_is_no_server_fault() {
        // The XIDs of the Replies to the first of two Calls, and the party at fault for the second.
        let cases: [(&[u32], _); 3] = [
            (&[7], TransportErrorResponsibility::Unreachable),
            (&[7, 7], TransportErrorResponsibility::Unreachable),
            (&[7, 99], TransportErrorResponsibility::Server),
        ];
        for (xids, blame) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 44]).unwrap();
                for xid in xids {
                    // A record of 24 bytes: XID, REPLY, MSG_ACCEPTED, an empty AUTH_NONE verifier, SUCCESS.
                    let words = [0x8000_0018, *xid, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
                    stream.write_all(&words).unwrap();
                }
                stream
            });
            let mut tcp = TcpTransport::new();
            let options = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
            let connection = tcp.connect(&ConnectTarget { address, name: "test".into(), options }).unwrap();
            let credential = AuthSysCredential::default();
            let timeout = Duration::from_millis(300);
            let mut client = RpcClient::new(&mut tcp, connection, credential, Xid(7), timeout);
            let null = SynchronousProcedureCall::new(Program::NFS, 4, 0, 0);
            client.call(&null, |_| {}, |_| Ok(())).unwrap();
            let error = client.call(&null, |_| {}, |_| Ok(())).unwrap_err();
            assert_eq!(error.blame(), blame, "{error}");
            drop(server.join().unwrap());
        }
    }

    /// Refuses every Call.
    struct ClosedFilter;

    impl OutgoingCallCheck for ClosedFilter {
        type Refusal = std::fmt::Error;

        fn check_call(&self, _call: &OutgoingRpcCall<'_>) -> Result<(), std::fmt::Error> {
            Err(std::fmt::Error)
        }

        fn record_reply(&mut self, _call: &OutgoingRpcCall<'_>, _reply: Cursor<'_>) {}
    }

    #[test]
    fn a_call_that_the_filter_refuses_is_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut tcp = TcpTransport::new();
        let options = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
        let connection = tcp.connect(&ConnectTarget { address, name: "test".into(), options }).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let credential = AuthSysCredential::default();
        let mut client =
            RpcClient::new(&mut tcp, connection, credential, Xid(1), Duration::from_secs(5)).with_filter(ClosedFilter);
        let outcome = client.call(&SynchronousProcedureCall::new(Program::NFS, 4, 0, 0), |_| {}, |_| Ok(()));
        assert!(matches!(outcome, Err(RpcCallError::Filtered(_))), "{outcome:?}");
        client.transport().flush();
        drop(tcp);
        let mut sent = Vec::new();
        stream.read_to_end(&mut sent).unwrap();
        assert_eq!(sent, []);
    }
}
