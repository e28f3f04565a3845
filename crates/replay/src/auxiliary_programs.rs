//! Auxiliary programs: MOUNT, NLM and the port mapper. They are called over TCP at the port that the port mapper
//! returns, whatever transport carries NFS (RFC 8267 section 5.1, RFC 1833 section 3).
//!
//! Procedures for which [`is_limited_to_files`] returns `false` affect more than the files of a run: they would remove
//! mounts or locks of other clients, or change the registrations of the port mapper.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::mount::DirpathArgs;
use nfsrdma_dissectors::nfs::mount::v3::{Args as Mount, ProcedureNumber as MountProcedureNumber};
use nfsrdma_dissectors::nfs::nlm::v4 as nlm;
use nfsrdma_dissectors::nfs::rpcbind::v2::{self, Mapping, Prot};
use nfsrdma_dissectors::rpc::{self, Program, Xid};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Text, Xdr};
use nfsrdma_rpc::synchronous_client::{RpcCallError, RpcClient, SynchronousProcedureCall};
use nfsrdma_rpc::tcp::TcpTransport;
use nfsrdma_rpc::{
    ConnectTarget, RpcClientConnectionId, RpcClientTransport, RpcClientTransportError, RpcClientTransportErrorKind,
    RpcClientTransportEvent, TransportReply,
};
use rustc_hash::FxHashMap;

use super::containment::ContainmentCheckedCall;
use crate::root_credential;

/// Port of the port mapper. RFC 1833 section 3.
pub const PORT_MAPPER: u16 = 111;
/// Delay between two attempts to reach a program that is absent.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Maximum time to wait for a program that is not registered although nothing else shows that the server restarts: it
/// may have begun to restart just now.
const REGISTRATION_GRACE: Duration = Duration::from_secs(2);
/// Maximum time to wait for a program after a connection was lost.
const RESTART_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time to wait for a connection, and for the port mapper, while the server may be restarting: nothing else
/// proceeds meanwhile.
const RESTARTING_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of open connections. Further pairs of client and program get no connection.
const MAX_CONNECTIONS: usize = 1024;

/// Ports of the auxiliary programs, as configured by the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredAuxiliaryPorts {
    /// Port of the port mapper; `None` for [`PORT_MAPPER`].
    pub port_mapper: Option<u16>,
    /// Port of MOUNT; `None` to ask the port mapper.
    pub mount: Option<u16>,
}

impl ConfiguredAuxiliaryPorts {
    /// Returns the port of the port mapper.
    pub fn port_mapper(self) -> u16 {
        self.port_mapper.unwrap_or(PORT_MAPPER)
    }
}

/// The reason that an auxiliary program sent no Reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuxiliaryProgramError {
    /// The program is not available, or it closed the connection.
    Absent(String),
    /// The port mapper does not know the program.
    Unregistered(String),
    /// No Reply arrived within the timeout. The program is not called again.
    Silent(String),
}

impl fmt::Display for AuxiliaryProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Absent(why) | Self::Unregistered(why) | Self::Silent(why)) = self;
        f.write_str(why)
    }
}

impl From<RpcClientTransportError> for AuxiliaryProgramError {
    fn from(error: RpcClientTransportError) -> Self {
        match error.kind {
            RpcClientTransportErrorKind::Timeout(_) => Self::Silent(error.to_string()),
            _ => Self::Absent(error.to_string()),
        }
    }
}

/// Returns `true` if a procedure of an auxiliary program affects only the files of a run, or changes nothing.
pub fn is_limited_to_files(program: Program, version: u32, procedure: u32) -> bool {
    match (program, version) {
        // NULL, MNT, DUMP, UMNT and EXPORT, but not UMNTALL. RFC 1813 section 5.2.
        (Program::MOUNT, _) => matches!(procedure, 0..=3 | 5),
        // NULL, TEST, LOCK, CANCEL, UNLOCK, SHARE, UNSHARE and NM_LOCK, but not FREE_ALL. RFC 1813 section 6.3.
        (Program::NLM, _) => matches!(procedure, 0..=4 | 20..=22),
        // NULL, GETPORT, DUMP. RFC 1833 section 3.
        (Program::PORTMAP, 2) => matches!(procedure, 0 | 3 | 4),
        // NULL, GETADDR, DUMP, GETTIME, UADDR2TADDR, TADDR2UADDR, GETVERSADDR, GETADDRLIST, GETSTAT. RFC 1833 section
        // 2.
        (Program::PORTMAP, 3 | 4) => matches!(procedure, 0 | 3 | 4 | 6..=9 | 11 | 12),
        _ => false,
    }
}

/// Asks the port mapper of a server for the TCP port of a program. `reconnects` says whether a connection that the server
/// closes is made again: a caller that asks again later does not need that.
///
/// # Errors
/// Returns an error if the port mapper does not answer, or if the program is not registered.
pub fn query_port_mapper(
    target: &ConnectTarget,
    ports: ConfiguredAuxiliaryPorts,
    program: Program,
    version: u32,
    reconnects: bool,
) -> Result<u16, AuxiliaryProgramError> {
    let mut tcp = TcpTransport::new();
    let address = SocketAddr::new(target.address.ip(), ports.port_mapper());
    let target = ConnectTarget { address, ..target.clone() };
    let with_context = |error: AuxiliaryProgramError| match error {
        AuxiliaryProgramError::Absent(text) => AuxiliaryProgramError::Absent(format!("port mapper: {text}")),
        AuxiliaryProgramError::Silent(text) => AuxiliaryProgramError::Silent(format!("port mapper: {text}")),
        AuxiliaryProgramError::Unregistered(_) => error,
    };
    let connection = tcp.connect(&target).map_err(|error| with_context(error.into()))?;
    let xid = Xid(std::process::id().rotate_left(16) ^ program.0.rotate_left(8) ^ version);
    let mut rpc_client = RpcClient::new(&mut tcp, connection, root_credential(), xid, target.options.timeout);
    if reconnects {
        rpc_client = rpc_client.with_reconnect_after_close(&target);
    }
    let mapping = Mapping { prog: program, vers: version, prot: Prot::IPPROTO_TCP, port: 0 };
    let getport = v2::Procedure::GETPORT;
    let port = rpc_client.call(
        &SynchronousProcedureCall::new(Program::PORTMAP, 2, getport.number().0, 4),
        |encoder| v2::Args::GETPORT(mapping).encode(encoder),
        |cursor| match v2::Results::decode(getport, cursor, &mut NullFieldObserver)? {
            v2::Results::GETPORT(port) => Ok(port.port),
            _ => Ok(0),
        },
    );
    let name = program.name().unwrap_or("that program");
    match port.map(u16::try_from) {
        Ok(Ok(port)) if port > 0 => Ok(port),
        Ok(_) => Err(AuxiliaryProgramError::Unregistered(format!("the port mapper knows no {name}"))),
        Err(RpcCallError::Timeout(_)) => {
            let seconds = target.options.timeout.as_secs_f64();
            Err(with_context(AuxiliaryProgramError::Silent(format!("{address}: no reply within {seconds} s"))))
        }
        Err(error) => Err(with_context(AuxiliaryProgramError::Absent(error.to_string()))),
    }
}

/// Connections to the auxiliary programs of one server: one per client and program, opened on first use.
pub struct AuxiliaryRpcConnections {
    tcp: TcpTransport,
    target: ConnectTarget,
    configured_ports: ConfiguredAuxiliaryPorts,
    ports: FxHashMap<(Program, u32), Result<u16, AuxiliaryProgramError>>,
    lanes: FxHashMap<(u32, Program, u32), AuxiliaryRpcConnection>,
    /// Time until which each absent program may be restarting. It may have another port then. A Reply ends it.
    restarting_until: FxHashMap<(Program, u32), Instant>,
    /// Time until which each program that the port mapper does not know may be registered.
    unregistered_until: FxHashMap<(Program, u32), Instant>,
    /// Programs that are looked for again, the time of the next attempt, and the result of the last one.
    next_attempts: FxHashMap<(Program, u32), (Instant, AuxiliaryProgramError)>,
    /// Time until which the server may be restarting, because a connection to it was lost.
    server_restarting_until: Option<Instant>,
    /// Ports from which no Reply arrived within the timeout.
    unresponsive_ports: FxHashMap<u16, AuxiliaryProgramError>,
    nlm_callers: NlmCallerNames,
    last_xid: u32,
}

/// A connection to an auxiliary program.
#[derive(Clone, Copy, Debug)]
pub struct AuxiliaryRpcConnection {
    /// Number of the connection within its run, from 0.
    pub number: u64,
    connection: RpcClientConnectionId,
    /// The local address and port; `None` if the system does not report them.
    pub local: Option<SocketAddr>,
    /// The address and port of the program.
    pub peer: SocketAddr,
}

impl AuxiliaryRpcConnections {
    /// Creates an empty set of connections to programs on the host of `target`. XIDs begin after `xid`.
    pub fn new(target: &ConnectTarget, ports: ConfiguredAuxiliaryPorts, xid: Xid) -> Self {
        Self {
            tcp: TcpTransport::new(),
            target: target.clone(),
            configured_ports: ports,
            ports: FxHashMap::default(),
            lanes: FxHashMap::default(),
            restarting_until: FxHashMap::default(),
            unregistered_until: FxHashMap::default(),
            next_attempts: FxHashMap::default(),
            server_restarting_until: None,
            unresponsive_ports: FxHashMap::default(),
            nlm_callers: NlmCallerNames::of_this_machine(),
            last_xid: xid.0,
        }
    }

    /// Returns the XID for the next Call.
    pub fn next_xid(&mut self) -> Xid {
        self.last_xid = self.last_xid.wrapping_add(1);
        Xid(self.last_xid)
    }

    /// Sends a Call on a connection, waits for its Reply, and passes it to `accept`.
    ///
    /// # Errors
    /// Returns an error if the connection fails, or if no Reply arrives within the timeout.
    pub fn call<T>(
        &mut self,
        AuxiliaryRpcConnection { connection, peer, .. }: AuxiliaryRpcConnection,
        call: &ContainmentCheckedCall<'_>,
        accept: impl FnOnce(&TransportReply<'_>) -> T,
    ) -> Result<T, AuxiliaryProgramError> {
        let absent = |error: &dyn fmt::Display| AuxiliaryProgramError::Absent(error.to_string());
        let xid = call.call().xid;
        if let Err(error) = self.tcp.submit(connection, call.call()) {
            // It was closed while another program was called.
            self.remove_lost_lane(connection);
            return Err(absent(&error));
        }
        let deadline = Instant::now() + self.target.options.timeout;
        while Instant::now() < deadline {
            match self.tcp.poll(Some(deadline)).map_err(|error| absent(&error))? {
                Some(RpcClientTransportEvent::Reply(reply)) if reply.connection == connection && reply.xid == xid => {
                    let entry = self.lanes.iter().find(|(_, candidate)| candidate.connection == connection);
                    if let Some(((_, program, version), _)) = entry {
                        self.restarting_until.remove(&(*program, *version));
                    }
                    return Ok(accept(&reply));
                }
                Some(RpcClientTransportEvent::Disconnected { connection: lost_connection, reason, .. }) => {
                    let text = format!("the connection went away: {reason}");
                    self.remove_lost_lane(lost_connection);
                    if lost_connection == connection {
                        return Err(AuxiliaryProgramError::Absent(text));
                    }
                }
                _ => {}
            }
        }
        self.tcp.disconnect(connection);
        self.lanes.retain(|_, entry| entry.connection != connection);
        let text = format!("{peer}: no reply within {} s", self.target.options.timeout.as_secs_f64());
        Err(self.unresponsive_ports.entry(peer.port()).or_insert(AuxiliaryProgramError::Silent(text)).clone())
    }

    /// Removes a connection that its program has closed. The program may be restarting; the time until which it is
    /// waited for is not extended by further connections that it closes.
    fn remove_lost_lane(&mut self, connection: RpcClientConnectionId) {
        let deadline = Instant::now() + self.restart_timeout();
        self.lanes.retain(|(_, program, version), entry| {
            let is_other = entry.connection != connection;
            if !is_other {
                self.restarting_until.entry((*program, *version)).or_insert(deadline);
                self.ports.remove(&(*program, *version));
            }
            is_other
        });
    }

    fn restart_timeout(&self) -> Duration {
        self.target.options.timeout.min(RESTART_TIMEOUT)
    }

    /// Records that a connection to the server was lost: its programs may be restarting.
    pub fn record_server_disconnect(&mut self) {
        self.server_restarting_until = Some(Instant::now() + self.restart_timeout());
        // Those that were absent may be there afterwards.
        self.ports.retain(|_, port| port.is_ok());
        self.restarting_until.clear();
        self.unregistered_until.clear();
        self.unresponsive_ports.clear();
    }

    /// Returns the time until which a program may be restarting.
    fn restart_end(&self, program: (Program, u32)) -> Option<Instant> {
        self.restarting_until.get(&program).copied().max(self.server_restarting_until)
    }

    /// Returns the target of a connection: while the program may be restarting, with a short timeout.
    fn target_for(&self, program: (Program, u32)) -> (ConnectTarget, bool) {
        let mut target = self.target.clone();
        let is_restarting = self.restart_end(program).is_some_and(|end| end > Instant::now());
        if is_restarting {
            target.options.timeout = target.options.timeout.min(RESTARTING_CONNECT_TIMEOUT);
        }
        (target, is_restarting)
    }

    /// Returns the time at which to look again for a program after this error; `None` if it is not expected any more.
    /// However many steps wait for a program, it is looked for once in [`RETRY_DELAY`].
    pub fn schedule_retry(&mut self, program: (Program, u32), error: &AuxiliaryProgramError) -> Option<Instant> {
        let now = Instant::now();
        let deadline = match error {
            AuxiliaryProgramError::Absent(_) => self.restart_end(program)?,
            AuxiliaryProgramError::Unregistered(_) => {
                let grace = *self.unregistered_until.entry(program).or_insert_with(|| now + REGISTRATION_GRACE);
                self.restart_end(program).map_or(grace, |end| end.max(grace))
            }
            AuxiliaryProgramError::Silent(_) => return None,
        };
        if deadline <= now {
            return None;
        }
        if let Some((retry_at, _)) = self.next_attempts.get(&program).filter(|(retry_at, _)| *retry_at > now) {
            return Some(*retry_at);
        }
        let retry_at = now + RETRY_DELAY;
        self.ports.remove(&program);
        self.next_attempts.insert(program, (retry_at, error.clone()));
        Some(retry_at)
    }

    /// Returns the connection of a client to a program, and opens it if necessary.
    ///
    /// # Errors
    /// Returns an error if the port is unknown or unresponsive, the connection fails, or there are too many
    /// connections. Before the time of the next attempt, returns the result of the last one.
    pub fn lane(
        &mut self,
        client: u32,
        program: (Program, u32),
    ) -> Result<AuxiliaryRpcConnection, AuxiliaryProgramError> {
        if let Some(existing) = self.lanes.get(&(client, program.0, program.1)) {
            return Ok(*existing);
        }
        if let Some((retry_at, error)) = self.next_attempts.get(&program)
            && *retry_at > Instant::now()
        {
            return Err(error.clone());
        }
        if self.lanes.len() >= MAX_CONNECTIONS {
            return Err(AuxiliaryProgramError::Absent("too many connections".into()));
        }
        let port = match (program.0, self.configured_ports.mount) {
            (Program::PORTMAP, _) => self.configured_ports.port_mapper(),
            (Program::MOUNT, Some(port)) => port,
            _ => self.port_of_program(program)?,
        };
        if let Some(error) = self.unresponsive_ports.get(&port) {
            return Err(error.clone());
        }
        let (target, is_restarting) = self.target_for(program);
        let peer = SocketAddr::new(target.address.ip(), port);
        let target = ConnectTarget { address: peer, ..target };
        let connection = self
            .tcp
            .connect(&target)
            .map_err(|error| self.record_unresponsive_port(port, error.into(), is_restarting))?;
        let local = self.tcp.params(connection).and_then(|params| params.local);
        let rpc_connection = AuxiliaryRpcConnection { number: connection.0.into(), connection, local, peer };
        self.lanes.insert((client, program.0, program.1), rpc_connection);
        Ok(rpc_connection)
    }

    /// Rewrites the caller of a Call of NLM version 4 ([`replace_nlm_caller`]).
    pub fn replace_nlm_caller(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        replace_nlm_caller(message, &mut self.nlm_callers)
    }

    /// Returns the port of a program from the cache or the port mapper.
    fn port_of_program(&mut self, program: (Program, u32)) -> Result<u16, AuxiliaryProgramError> {
        let port_mapper = self.configured_ports.port_mapper();
        if let Some(port) = self.ports.get(&program) {
            return port.clone();
        }
        let (target, is_restarting) = self.target_for(program);
        let port = match self.unresponsive_ports.get(&port_mapper) {
            Some(error) => Err(error.clone()),
            None => query_port_mapper(&target, self.configured_ports, program.0, program.1, false)
                .map_err(|error| self.record_unresponsive_port(port_mapper, error, is_restarting)),
        };
        self.ports.insert(program, port.clone());
        port
    }

    /// Records a port that did not respond in time. While it may be restarting, it is only absent.
    fn record_unresponsive_port(
        &mut self,
        port: u16,
        error: AuxiliaryProgramError,
        is_restarting: bool,
    ) -> AuxiliaryProgramError {
        match error {
            AuxiliaryProgramError::Silent(text) if is_restarting => AuxiliaryProgramError::Absent(text),
            AuxiliaryProgramError::Silent(_) => {
                self.unresponsive_ports.insert(port, error.clone());
                error
            }
            _ => error,
        }
    }
}

/// The names of callers that a run uses in Calls of NLM, in place of those of the captured clients.
///
/// A caller name is a host name, which the server may resolve and watch (XNFS section 11), and part of the owner of a
/// lock, so that different clients need different names.
#[derive(Debug)]
pub struct NlmCallerNames {
    host: Vec<u8>,
    /// The names used, by those of the captured clients.
    used: FxHashMap<Vec<u8>, Vec<u8>>,
}

impl NlmCallerNames {
    /// Creates names that begin with the host name of this machine.
    pub fn of_this_machine() -> Self {
        // What uname(2) returns.
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        Self::new(if name.is_empty() { crate::PROGRAM } else { name })
    }

    fn new(host: &str) -> Self {
        Self { host: host.as_bytes().to_vec(), used: FxHashMap::default() }
    }

    /// Returns the name for a captured client: the host name for the first, with a number for the others.
    fn name_for(&mut self, captured: &[u8]) -> Vec<u8> {
        if let Some(name) = self.used.get(captured) {
            return name.clone();
        }
        let name = match self.used.len() + 1 {
            1 => self.host.clone(),
            number => [&self.host[..], format!("-{number}").as_bytes()].concat(),
        };
        if self.used.len() < MAX_CONNECTIONS {
            self.used.insert(captured.to_vec(), name.clone());
        }
        name
    }
}

/// Rewrites the absolute path of a MNT or UMNT Call of MOUNT version 3 to one below `root`. Returns `None` for every
/// other Call. The [containment check](super::containment) of the finished Call decides if the path is allowed.
pub fn reroot_mount_path(message: &[u8], root: &str) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(message);
    let rpc_message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let call = rpc_message.call().filter(|call| (call.prog, call.vers) == (Program::MOUNT, 3))?;
    let header = message.get(..cursor.at())?;
    let procedure = MountProcedureNumber(call.proc).known()?;
    let arguments = Mount::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()?;
    let (Mount::MNT(DirpathArgs { dirpath: Text(path) }) | Mount::UMNT(DirpathArgs { dirpath: Text(path) })) =
        arguments
    else {
        return None;
    };
    if !matches!(path.first(), None | Some(b'/')) {
        return None;
    }
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let path = names.fold(root.as_bytes().to_vec(), |path, name| [&path, &b"/"[..], name].concat());
    let mut encoder = Encoder::new();
    encoder.raw(header);
    DirpathArgs { dirpath: Text(&path) }.encode(&mut encoder);
    encoder.raw(cursor.rest());
    Some(encoder.finish().0)
}

/// Replaces the name of the captured client in a Call of NLM version 4 by one of this machine. Otherwise the server
/// would have its status monitor watch the captured client, and notify it after a restart (XNFS section 11). Returns
/// `None` for every other Call.
pub fn replace_nlm_caller(message: &[u8], names: &mut NlmCallerNames) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(message);
    let rpc_message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let call = rpc_message.call().filter(|call| (call.prog, call.vers) == (Program::NLM, 4))?;
    let header = message.get(..cursor.at())?;
    let procedure = nlm::ProcedureNumber(call.proc).known()?;
    let mut args = nlm::Args::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()?;
    let caller_name = match &mut args {
        nlm::Args::TEST(args) => &mut args.alock.caller_name,
        nlm::Args::LOCK(args) | nlm::Args::NM_LOCK(args) => &mut args.alock.caller_name,
        nlm::Args::CANCEL(args) => &mut args.alock.caller_name,
        nlm::Args::UNLOCK(args) => &mut args.alock.caller_name,
        nlm::Args::SHARE(args) | nlm::Args::UNSHARE(args) => &mut args.share.caller_name,
        _ => return None,
    };
    let name = names.name_for(caller_name.0);
    *caller_name = Text(&name);
    let mut encoder = Encoder::new();
    encoder.raw(header);
    args.encode(&mut encoder);
    encoder.raw(cursor.rest());
    Some(encoder.finish().0)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    use nfsrdma_rpc::{CallTag, ConnectOptions, OutgoingRpcCall};

    use super::*;
    use crate::containment::Containment;

    fn mount(procedure: u32, path: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        [9, 0, 2, 100_005, 3, procedure, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
        encoder.append_opaque(path);
        encoder.finish().0
    }

    #[test]
    fn rfc1813_section_5_2_1_a_path_is_mounted_below_the_directory_of_the_run() {
        for procedure in [1, 3] {
            let message = reroot_mount_path(&mount(procedure, b"/export//home/"), "/srv/run/tree");
            assert_eq!(message, Some(mount(procedure, b"/srv/run/tree/export/home")));
        }
        for (procedure, path) in [(0, &b""[..]), (1, b"relative"), (5, b"")] {
            assert_eq!(reroot_mount_path(&mount(procedure, path), "/srv/run/tree"), None);
        }
        // An undecodable message is left as it is.
        assert_eq!(reroot_mount_path(&mount(1, b"/export")[..44], "/srv/run/tree"), None);
    }

    #[test]
    fn xnfs_section_11_an_nlm_call_names_this_machine_and_callers_stay_different() {
        let lock = |caller: &[u8]| {
            let mut encoder = Encoder::new();
            [9, 0, 2, Program::NLM.0, 4, 2, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
            // Cookie, block, exclusive.
            encoder.append_opaque(b"1234");
            [0, 1].iter().for_each(|word| encoder.word(*word));
            encoder.append_opaque(caller);
            [&b"handle"[..], b"owner"].iter().for_each(|opaque| encoder.append_opaque(opaque));
            // svid, l_offset, l_len, reclaim, state.
            [5, 0, 10, 0, 20, 0, 3].iter().for_each(|word| encoder.word(*word));
            encoder.finish().0
        };
        let mut names = NlmCallerNames::new("here.example");
        for (captured, ours) in [
            (&b"client.example"[..], &b"here.example"[..]),
            (b"c", b"here.example-2"),
            (b"client.example", b"here.example"),
            (b"d", b"here.example-3"),
            (b"c", b"here.example-2"),
        ] {
            assert_eq!(replace_nlm_caller(&lock(captured), &mut names), Some(lock(ours)));
        }
        let host = NlmCallerNames::of_this_machine().name_for(b"c");
        assert!(!host.is_empty() && host != crate::PROGRAM.as_bytes(), "{}", host.escape_ascii());
        // An undecodable message is left as it is.
        assert_eq!(replace_nlm_caller(&lock(b"client")[..50], &mut names), None);
        assert_eq!(replace_nlm_caller(&mount(1, b"/export"), &mut names), None);
    }

    /// Starts a listener whose connections are passed to `serve`. Returns its port.
    fn listen(serve: impl Fn(TcpStream) + Send + 'static) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(serve));
        port
    }

    fn connections(ports: ConfiguredAuxiliaryPorts, timeout: Duration) -> AuxiliaryRpcConnections {
        let target = ConnectTarget {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            name: "here".into(),
            options: ConnectOptions { timeout, ..ConnectOptions::default() },
        };
        AuxiliaryRpcConnections::new(&target, ports, Xid(1))
    }

    const MOUNT: (Program, u32) = (Program::MOUNT, 3);
    const NLM: (Program, u32) = (Program::NLM, 4);

    /// Sends NULL of MOUNT.
    fn call_null(
        programs: &mut AuxiliaryRpcConnections,
        lane: AuxiliaryRpcConnection,
    ) -> Result<(), AuxiliaryProgramError> {
        let xid = programs.next_xid();
        let mut encoder = Encoder::new();
        [xid.0, 0, 2, 100_005, 3, 0, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
        let message = encoder.finish().0;
        let containment = Containment::for_seeding("/export", "directory");
        let call = OutgoingRpcCall::without_payloads(xid, CallTag(0), &message, 64);
        let call = containment.check_call(call).unwrap();
        programs.call(lane, &call, |_| ())
    }

    /// The program closes the connections of all clients when one calls.
    #[test]
    fn a_connection_that_was_closed_while_another_was_used_is_replaced() {
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let behind = Arc::clone(&open);
        let port = listen(move |stream| behind.lock().unwrap().push(stream));
        let mut programs = connections(
            ConfiguredAuxiliaryPorts { mount: Some(port), ..ConfiguredAuxiliaryPorts::default() },
            Duration::from_secs(5),
        );
        let lanes = [1, 2, 3].map(|client| programs.lane(client, MOUNT).unwrap());
        while open.lock().unwrap().len() < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        open.lock().unwrap().clear();
        std::thread::sleep(Duration::from_millis(100));
        for (client, lane) in (1..).zip(lanes) {
            assert!(matches!(call_null(&mut programs, lane), Err(AuxiliaryProgramError::Absent(_))));
            let other = programs.lane(client, MOUNT).unwrap();
            assert_ne!(other.number, lane.number, "client {client}");
        }
    }

    /// The program accepts each connection and closes it.
    #[test]
    fn a_program_that_only_closes_connections_is_given_up_after_the_restart_time() {
        let port = listen(drop);
        let ports = ConfiguredAuxiliaryPorts { mount: Some(port), ..ConfiguredAuxiliaryPorts::default() };
        let mut programs = connections(ports, Duration::from_secs(1));
        let begin = Instant::now();
        let mut attempts = 0;
        loop {
            let lane = programs.lane(1, MOUNT);
            let why = lane.and_then(|lane| call_null(&mut programs, lane)).unwrap_err();
            attempts += 1;
            let Some(due) = programs.schedule_retry(MOUNT, &why) else { break };
            assert!(begin.elapsed() < Duration::from_secs(5), "{attempts} attempts");
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
        assert!((4..=7).contains(&attempts), "{attempts}");
    }

    #[test]
    fn the_port_mapper_is_asked_once_for_all_steps_that_wait() {
        let queries: Arc<Mutex<u32>> = Arc::default();
        let behind = Arc::clone(&queries);
        let port = listen(move |_| *behind.lock().unwrap() += 1);
        let ports = ConfiguredAuxiliaryPorts { port_mapper: Some(port), ..ConfiguredAuxiliaryPorts::default() };
        let mut programs = connections(ports, Duration::from_secs(5));
        programs.record_server_disconnect();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(1) {
            for client in 0..10 {
                let why = programs.lane(client, NLM).unwrap_err();
                let due = programs.schedule_retry(NLM, &why);
                assert!(due.is_some_and(|due| due <= Instant::now() + RETRY_DELAY), "{why}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // Of ten steps, each of which looks every 20 ms. A busy machine may be slower.
        let (queries, elapsed) = (*queries.lock().unwrap(), begin.elapsed());
        let most = elapsed.as_millis() / RETRY_DELAY.as_millis() + 1;
        assert!(queries >= 2 && u128::from(queries) <= most, "{queries} in {elapsed:?}");
    }

    #[test]
    fn a_silent_port_mapper_is_asked_again_after_a_connection_to_the_server_was_lost() {
        let held: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let port = listen(move |stream| held.lock().unwrap().push(stream));
        let ports = ConfiguredAuxiliaryPorts { port_mapper: Some(port), ..ConfiguredAuxiliaryPorts::default() };
        let mut programs = connections(ports, Duration::from_secs(3));
        let begin = Instant::now();
        for _ in 0..2 {
            let why = programs.lane(1, NLM).unwrap_err();
            assert!(matches!(why, AuxiliaryProgramError::Silent(_)), "{why}");
            assert_eq!(programs.schedule_retry(NLM, &why), None);
        }
        assert!(begin.elapsed() < Duration::from_secs(5), "the timeout occurs once: {:?}", begin.elapsed());
        // A restart must not keep the other calls waiting.
        programs.record_server_disconnect();
        let begin = Instant::now();
        let why = programs.lane(1, NLM).unwrap_err();
        assert!(matches!(why, AuxiliaryProgramError::Absent(_)), "{why}");
        assert!(programs.schedule_retry(NLM, &why).is_some());
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }

    #[test]
    fn calls_that_affect_others_are_not_limited_to_files() {
        for (program, version, procedure) in [
            (Program::MOUNT, 3, 4),
            (Program::NLM, 4, 23),
            (Program::PORTMAP, 2, 1),
            (Program::PORTMAP, 2, 2),
            (Program::PORTMAP, 2, 5),
            (Program::PORTMAP, 4, 1),
            (Program::NSM, 1, 2),
        ] {
            assert!(!is_limited_to_files(program, version, procedure), "{program:?} {version} {procedure}");
        }
        assert!(is_limited_to_files(Program::NLM, 4, 2));
    }
}
