//! One RPC at a time: makes a Call, waits for its Reply, and lends the results.
//!
//! For what needs no speed: asking a server what it offers, setting up, and tests. What drives a server speaks to
//! [`RpcTransport`] itself.

use std::fmt;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::rpc::auth::{AuthBody, AuthSys, Flavor, NoneVerifier, StartTls};
use nfsrdma_dissectors::rpc::{
    self, AcceptedReply, AuthStat, Credential, Program, RejectedReply, ReplyData, RpcMsg, RpcMsgBody,
    RpcReplyStatus, Verifier, Xid,
};
use nfsrdma_dissectors::rpcrdma::RpcRdmaError;
use nfsrdma_dissectors::xdr::{self, Cursor, Encoder, List, Opaque, Text, Xdr};

use super::containment::{ContainedCall, Containment, ContainmentViolation};
use super::gss::GssControlCall;
use super::transport::{
    CallTag, ConnectTarget, ConnectionId, DisconnectReason, ExpectedReply, PayloadSource, RequestedCallForm,
    RpcTransport, RpcTransportError, SubmitBusyReason, SubmitError, SubmitRefusal, TransportBlame,
    TransportCall, TransportEvent, TransportPayload,
};

/// How often a Call is sent again because its connection went away, and because no Reply came.
const RESENDS: u32 = 8;
const RETRIES: u32 = 1;
/// Between two tries to connect.
const PAUSE: Duration = Duration::from_millis(200);

/// Bytes that the header of a Reply may have before the results, with a long verifier (RFC 5531 section 8.2).
const REPLY_HEADER: u32 = 28 + 400;

/// Who calls, for AUTH_SYS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSysCredential {
    /// The host that the server is told.
    pub machine: String,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Default for AuthSysCredential {
    /// Root, which most servers take for nobody.
    fn default() -> Self {
        Self { machine: env!("CARGO_PKG_NAME").into(), uid: 0, gid: 0 }
    }
}

/// Calls over one connection of a transport.
pub struct RpcClient<'t> {
    transport: &'t mut dyn RpcTransport,
    /// The connection.
    pub connection: ConnectionId,
    caller: AuthSysCredential,
    next: u32,
    timeout: Duration,
    /// How long the last Call took.
    pub took: Duration,
    /// Replies that could not be read.
    pub unreadable: u64,
    /// What each Call must pass, if any must.
    containment: Option<&'t mut Containment>,
    /// What another connection is opened to where this one goes away or is silent; `None` for the Call to fail then.
    target: Option<ConnectTarget>,
}

/// Calls over one connection of a transport, each of which passed the check of a run.
pub struct ContainedRpcClient<'t>(RpcClient<'t>);

impl ContainedRpcClient<'_> {
    /// As [`RpcClient::call`].
    ///
    /// # Errors
    /// As there, and [`RpcCallError::Contained`].
    pub fn call<T>(
        &mut self,
        procedure: &ProcedureCall<'_>,
        arguments: impl FnOnce(&mut Encoder),
        results: impl FnOnce(&mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        self.0.call(procedure, arguments, results)
    }

    /// As [`RpcClient::compound`].
    ///
    /// # Errors
    /// As there, and [`RpcCallError::Contained`].
    pub fn compound<T>(
        &mut self,
        minor: u32,
        operations: &[v4::Args<'_>],
        more: &ProcedureCall<'_>,
        results: impl FnOnce(&v4::CompoundReply<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        self.0.compound(minor, operations, more, results)
    }

    /// Ends the connection, which may be another than the one it began on.
    pub fn disconnect(&mut self) {
        self.0.transport.disconnect(self.0.connection);
    }

    /// Lets this program speak for a client of this name.
    pub fn introduce(&mut self, client: &str) {
        if let Some(containment) = &mut self.0.containment {
            containment.introduce(client);
        }
    }
}

/// A procedure, and what its Call is made of.
#[derive(Clone, Copy)]
pub struct ProcedureCall<'a> {
    /// The program.
    pub program: Program,
    /// Its version.
    pub version: u32,
    /// The number of the procedure.
    pub number: u32,
    /// The contents of the DDP-eligible arguments that are encoded as chunks, in their order.
    pub data: &'a [PayloadSource<'a>],
    /// The most bytes that the results can have, without DDP-eligible ones that stand in `results`.
    pub reply: u32,
    /// The most bytes of each DDP-eligible result.
    pub results: &'a [u32],
    /// The form of the Call on RDMA.
    pub shape: RequestedCallForm<'a>,
}

impl ProcedureCall<'_> {
    /// A procedure whose results have at most `reply` bytes.
    pub fn new(program: Program, version: u32, number: u32, reply: u32) -> Self {
        Self { program, version, number, data: &[], reply, results: &[], shape: RequestedCallForm::Fitting }
    }
}

/// Why there are no results.
#[derive(Debug)]
pub enum RpcCallError {
    /// The transport is of no more use.
    Transport(RpcTransportError),
    /// The Call could not be sent.
    Submit(SubmitError),
    /// The Call must not be sent.
    Contained(ContainmentViolation),
    /// No Reply within this time.
    Timeout(Duration),
    /// The connection went away.
    Disconnected(DisconnectReason),
    /// The server could not read the Call's header.
    RdmaError(RpcRdmaError),
    /// The server speaks other versions of the program: from, to.
    Versions(u32, u32),
    /// RPC did not get as far as the procedure.
    Rpc(RpcReplyStatus),
    /// The server refuses the credential or the verifier. RFC 5531 section 9.
    Denied(AuthStat),
    /// The Reply cannot be read.
    Unreadable(xdr::XdrError),
}

impl RpcCallError {
    /// Whether nothing further can be asked on the connection.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Transport(_) | Self::Timeout(_) | Self::Disconnected(_))
    }

    /// Who is to blame.
    pub fn blame(&self) -> TransportBlame {
        match self {
            Self::Submit(SubmitError::Refused(_)) | Self::RdmaError(_) => TransportBlame::Own,
            Self::Transport(error) => error.blame(),
            _ => TransportBlame::Unreachable,
        }
    }
}

impl fmt::Display for RpcCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Submit(error) => error.fmt(f),
            Self::Contained(escape) => escape.fmt(f),
            Self::Timeout(time) => {
                write!(f, "no Reply within {} s; check that the server runs", time.as_secs_f64())
            }
            Self::Disconnected(reason @ DisconnectReason::Speaks(_)) => reason.fmt(f),
            Self::Disconnected(reason) => write!(f, "{reason}, with the Call in flight"),
            Self::RdmaError(RpcRdmaError::Chunk) => f.write_str("RDMA_ERROR: ERR_CHUNK"),
            Self::RdmaError(RpcRdmaError::Vers(versions)) => write!(
                f,
                "RDMA_ERROR: ERR_VERS, the server speaks RPC-over-RDMA {} to {}",
                versions.rdma_vers_low, versions.rdma_vers_high
            ),
            Self::Versions(low, high) => write!(f, "the server has versions {low} to {high}"),
            Self::Rpc(status) => status.fmt(f),
            Self::Denied(stat) => write!(f, "MSG_DENIED: AUTH_ERROR, {stat}"),
            Self::Unreadable(error) => write!(f, "the Reply cannot be read: {error}"),
        }
    }
}

impl std::error::Error for RpcCallError {}

impl From<RpcTransportError> for RpcCallError {
    fn from(error: RpcTransportError) -> Self {
        Self::Transport(error)
    }
}

impl<'t> RpcClient<'t> {
    /// Calls over a connection. XIDs begin at `xid`, which should be another one for each connection to a server, as it
    /// may remember Replies by them.
    pub fn new(
        transport: &'t mut dyn RpcTransport,
        connection: ConnectionId,
        caller: AuthSysCredential,
        xid: Xid,
        timeout: Duration,
    ) -> Self {
        let took = Duration::ZERO;
        Self {
            transport,
            connection,
            caller,
            next: xid.0,
            timeout,
            took,
            unreadable: 0,
            containment: None,
            target: None,
        }
    }

    /// The same for Calls that are to survive their connection: where it goes away, or no Reply comes, another is opened, and the
    /// Call is sent again as it was, with its XID.
    pub fn reconnecting(self, target: &ConnectTarget) -> Self {
        Self { target: Some(target.clone()), ..self }
    }

    /// The same for a run: each Call is checked, and what its Reply gives is noted.
    pub fn contained(self, containment: &'t mut Containment) -> ContainedRpcClient<'t> {
        ContainedRpcClient(Self { containment: Some(containment), ..self })
    }

    /// The transport.
    pub fn transport(&mut self) -> &mut dyn RpcTransport {
        self.transport
    }

    /// Calls a procedure: `arguments` encodes its arguments, `results` reads what it answers.
    ///
    /// # Errors
    /// Where there are no results.
    pub fn call<T>(
        &mut self,
        procedure: &ProcedureCall<'_>,
        arguments: impl FnOnce(&mut Encoder),
        results: impl FnOnce(&mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        let xid = self.next_xid();
        let mut encoder = written(xid, self.credential(procedure), procedure);
        arguments(&mut encoder);
        let (message, splices) = encoder.finish();
        let payloads: Vec<_> = splices
            .iter()
            .zip(procedure.data)
            .map(|(splice, source)| TransportPayload {
                position: u32::try_from(splice.position).unwrap_or(u32::MAX),
                source: *source,
            })
            .collect();
        let call = TransportCall {
            xid,
            tag: CallTag(xid.0.into()),
            message: &message,
            payloads: &payloads,
            reply: ExpectedReply { message: procedure.reply + REPLY_HEADER, payloads: procedure.results },
            shape: procedure.shape,
        };
        if let Some(containment) = &self.containment {
            containment.admit(call).map_err(RpcCallError::Contained)?;
        }
        self.exchange(&call, |_, cursor| results(cursor))
    }

    /// Returns the XID for the next Call.
    pub(super) fn next_xid(&mut self) -> Xid {
        let xid = Xid(self.next);
        self.next = self.next.wrapping_add(1);
        xid
    }

    /// Makes a Call of RPCSEC_GSS itself, which needs no check: see [`ContainedCall::control`]. `results` is given the verifier of
    /// the Reply, too.
    ///
    /// # Errors
    /// Where there are no results.
    pub fn control<T>(
        &mut self,
        control: &GssControlCall,
        results: impl FnOnce(&Verifier<'_>, &mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        let call = ContainedCall::control(control, CallTag(control.xid().0.into()));
        self.exchange(call.call(), results)
    }

    /// Sends a Call, and reads its Reply.
    fn exchange<T>(
        &mut self,
        call: &TransportCall<'_>,
        results: impl FnOnce(&Verifier<'_>, &mut Cursor<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        let mut results = Some(results);
        let (mut lost, mut silent) = (0, 0);
        loop {
            let start = Instant::now();
            let done = match self.submit(call, start + self.timeout) {
                Ok(()) => self.receive(call, start, &mut results),
                Err(error) => Err(error),
            };
            match &done {
                Err(RpcCallError::Disconnected(DisconnectReason::Speaks(_))) => return done,
                Err(
                    RpcCallError::Disconnected(_)
                    | RpcCallError::Submit(SubmitError::Refused(SubmitRefusal::Closed)),
                ) if lost < RESENDS => {
                    lost += 1;
                }
                Err(RpcCallError::Timeout(_)) if silent < RETRIES => silent += 1,
                _ => return done,
            }
            if !self.reconnect()? {
                return done;
            }
        }
    }

    /// Opens a connection in the place of one that went away or is silent. Whether there is one.
    fn reconnect(&mut self) -> Result<bool, RpcCallError> {
        let Some(target) = &self.target else { return Ok(false) };
        self.transport.disconnect(self.connection);
        let since = Instant::now();
        loop {
            match self.transport.connect(target) {
                Ok(connection) => {
                    self.connection = connection;
                    return Ok(true);
                }
                // A server that restarts is not there for a while.
                Err(error)
                    if error.blame() == TransportBlame::Unreachable && since.elapsed() < self.timeout =>
                {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Calls COMPOUND with these operations, and lends the results to `results`.
    ///
    /// # Errors
    /// Where there are no results. That an operation failed is no error here.
    pub fn compound<T>(
        &mut self,
        minor: u32,
        operations: &[v4::Args<'_>],
        more: &ProcedureCall<'_>,
        results: impl FnOnce(&v4::CompoundReply<'_>) -> Result<T, xdr::XdrError>,
    ) -> Result<T, RpcCallError> {
        let head = v4::CompoundCallHead { tag: Text(b""), minorversion: minor };
        let procedure = ProcedureCall { program: Program::NFS, version: 4, number: 1, ..*more };
        self.call(
            &procedure,
            |encoder| v4::CompoundCall::new(head, operations).encode(encoder),
            |cursor| results(&v4::CompoundReply::decode(cursor, &mut NullObserver)?),
        )
    }

    fn credential(&self, procedure: &ProcedureCall<'_>) -> Credential<'_> {
        let sys = AuthSys {
            stamp: 0,
            machinename: Text(self.caller.machine.as_bytes()),
            uid: self.caller.uid,
            gid: self.caller.gid,
            gids: List::default(),
        };
        match procedure.number {
            // NULL needs no credential: RFC 5531 section 12.1.
            0 => Credential::Other(Flavor::AUTH_NONE, AuthBody { body: Opaque(b"") }),
            _ => Credential::Sys(rpc::auth::EnclosedAuthBody::Known(sys)),
        }
    }

    /// Submits a Call; where the transport is busy, what comes makes room.
    fn submit(&mut self, call: &TransportCall<'_>, deadline: Instant) -> Result<(), RpcCallError> {
        loop {
            match self.transport.submit(self.connection, call) {
                Ok(_) => return Ok(()),
                Err(SubmitError::Busy(
                    SubmitBusyReason::Credits | SubmitBusyReason::Memory | SubmitBusyReason::Queue,
                )) => {}
                Err(error) => return Err(RpcCallError::Submit(error)),
            }
            match self.transport.poll(Some(deadline))? {
                Some(TransportEvent::Disconnected { connection, reason, .. })
                    if connection == self.connection =>
                {
                    return Err(RpcCallError::Disconnected(reason));
                }
                // A server that keeps saying what nobody asked for keeps nobody past the deadline.
                Some(_) if Instant::now() < deadline => {}
                _ => return Err(RpcCallError::Timeout(self.timeout)),
            }
        }
    }

    /// Waits for the Reply. Calls of the server are told that there is no such program here.
    fn receive<T>(
        &mut self,
        call: &TransportCall<'_>,
        start: Instant,
        results: &mut Option<impl FnOnce(&Verifier<'_>, &mut Cursor<'_>) -> Result<T, xdr::XdrError>>,
    ) -> Result<T, RpcCallError> {
        let (xid, mut called) = (call.xid, None);
        let deadline = start + self.timeout;
        loop {
            if let Some((connection, xid)) = called.take() {
                // An answer that cannot be sent is one that the server waits for in vain.
                let _ = self.transport.answer(connection, xid, &unavailable(xid));
            }
            match self.transport.poll(Some(deadline))? {
                None => return Err(RpcCallError::Timeout(self.timeout)),
                Some(TransportEvent::Reply(reply))
                    if reply.connection == self.connection && reply.xid == xid =>
                {
                    self.took = start.elapsed();
                    if let Some(containment) = &mut self.containment {
                        containment.learn(call, reply.cursor());
                    }
                    let Some(results) = results.take() else {
                        return Err(RpcCallError::Timeout(self.timeout));
                    };
                    let found = read(&mut reply.cursor(), results);
                    self.unreadable += u64::from(matches!(found, Err(RpcCallError::Unreadable(_))));
                    return found;
                }
                Some(TransportEvent::RdmaError { connection, xid: failed, error, .. })
                    if connection == self.connection && failed == xid =>
                {
                    return Err(RpcCallError::RdmaError(error));
                }
                Some(TransportEvent::Disconnected { connection, reason, .. })
                    if connection == self.connection =>
                {
                    return Err(RpcCallError::Disconnected(reason));
                }
                Some(_) if Instant::now() >= deadline => return Err(RpcCallError::Timeout(self.timeout)),
                Some(TransportEvent::Call(call)) => called = Some((call.connection, call.xid)),
                Some(_) => {}
            }
        }
    }
}

/// Reads the header of a Reply, and then the results, for which it lends the verifier.
pub(super) fn read<'a, T>(
    cursor: &mut Cursor<'a>,
    results: impl FnOnce(&Verifier<'a>, &mut Cursor<'a>) -> Result<T, xdr::XdrError>,
) -> Result<T, RpcCallError> {
    let message = RpcMsg::decode(cursor, &mut NullObserver).map_err(RpcCallError::Unreadable)?;
    let RpcMsgBody::Reply(reply) = &message.body else {
        let at = cursor.at();
        return Err(RpcCallError::Unreadable(xdr::XdrError::Invalid { at, what: "Reply", value: 0 }));
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

/// A Call up to its arguments.
fn written(xid: Xid, cred: Credential<'_>, procedure: &ProcedureCall<'_>) -> Encoder {
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

pub(super) fn no_verifier<'a>() -> Verifier<'a> {
    Verifier::None(NoneVerifier { body: StartTls::default() })
}

/// The answer to a Call for a program that is not here. RFC 5531 section 9.
fn unavailable(xid: Xid) -> Vec<u8> {
    let reply_data = ReplyData::Failed(rpc::AcceptStat::PROG_UNAVAIL);
    let reply = rpc::ReplyBody::Accepted(AcceptedReply { verf: no_verifier(), reply_data });
    let mut encoder = Encoder::new();
    RpcMsg { xid, body: RpcMsgBody::Reply(reply) }.encode(&mut encoder);
    encoder.finish().0
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::super::transport::tcp::TcpTransport;
    use super::super::transport::{ConnectOptions, ConnectTarget};
    use super::*;

    #[test]
    fn a_server_that_calls_without_end_keeps_nobody_past_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Records of eight bytes: an XID, and CALL.
            while stream.write_all(b"\x80\0\0\x08\0\0\0\x07\0\0\0\0").is_ok() {}
        });
        let mut tcp = TcpTransport::new();
        let wish = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
        let connection = tcp.connect(&ConnectTarget { address, name: "test".into(), wish }).unwrap();
        let timeout = Duration::from_millis(300);
        let mut line = RpcClient::new(&mut tcp, connection, AuthSysCredential::default(), Xid(1), timeout);
        let begin = Instant::now();
        let outcome = line.call(&ProcedureCall::new(Program::NFS, 4, 0, 0), |_| {}, |_| Ok(()));
        assert!(matches!(outcome, Err(RpcCallError::Timeout(_))), "{outcome:?}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}
