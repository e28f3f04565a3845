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
use nfsrdma_dissectors::nfs::mount::v3::{Args as Mount, Procedure as MountProcedure};
use nfsrdma_dissectors::nfs::nlm::v4 as nlm;
use nfsrdma_dissectors::nfs::rpcbind::v2::{self, Mapping, Prot};
use nfsrdma_dissectors::rpc::{self, Program, Xid};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Text};
use nfsrdma_rpc::synchronous_client::{RpcCallError, RpcClient, SynchronousProcedureCall};
use nfsrdma_rpc::tcp::TcpTransport;
use nfsrdma_rpc::{
    ConnectTarget, RpcTransport, RpcTransportError, RpcTransportErrorKind, RpcTransportEvent,
    TransportConnectionId, TransportReply,
};
use rustc_hash::FxHashMap;

use super::containment::ContainedCall;
use crate::root_credential;

/// Port of the port mapper. RFC 1833 section 3.
pub const PORT_MAPPER: u16 = 111;
/// Delay between two attempts to reach a program that is absent.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Maximum time to wait for a program that is not registered although nothing else shows that the server restarts: it may
/// have begun to restart just now.
const REGISTRATION_GRACE: Duration = Duration::from_secs(2);
/// Maximum time to wait for a program after a connection was lost.
const RESTART_TIMEOUT: Duration = Duration::from_secs(15);
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

impl From<RpcTransportError> for AuxiliaryProgramError {
    fn from(error: RpcTransportError) -> Self {
        match error.kind {
            RpcTransportErrorKind::Timeout(_) => Self::Silent(error.to_string()),
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

/// Asks the port mapper of a server for the TCP port of a program.
///
/// # Errors
/// Returns an error if the port mapper does not answer, or if the program is not registered.
pub fn query_port_mapper(
    target: &ConnectTarget,
    ports: ConfiguredAuxiliaryPorts,
    program: Program,
    version: u32,
) -> Result<u16, AuxiliaryProgramError> {
    let mut tcp = TcpTransport::new();
    let address = SocketAddr::new(target.address.ip(), ports.port_mapper());
    let target = ConnectTarget { address, ..target.clone() };
    let said = |error: AuxiliaryProgramError| match error {
        AuxiliaryProgramError::Absent(why) => AuxiliaryProgramError::Absent(format!("port mapper: {why}")),
        AuxiliaryProgramError::Silent(why) => AuxiliaryProgramError::Silent(format!("port mapper: {why}")),
        AuxiliaryProgramError::Unregistered(_) => error,
    };
    let connection = tcp.connect(&target).map_err(|error| said(error.into()))?;
    let xid = Xid(std::process::id().rotate_left(16) ^ program.0.rotate_left(8) ^ version);
    let mut line = RpcClient::new(&mut tcp, connection, root_credential(), xid, target.options.timeout);
    let mapping = Mapping { prog: program, vers: version, prot: Prot::IPPROTO_TCP, port: 0 };
    let getport = v2::Procedure::GETPORT;
    let port = line.call(
        &SynchronousProcedureCall::new(Program::PORTMAP, 2, getport.0, 4),
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
            Err(said(AuxiliaryProgramError::Silent(format!("{address}: no Reply within {seconds} s"))))
        }
        Err(error) => Err(said(AuxiliaryProgramError::Absent(error.to_string()))),
    }
}

/// Connections to the auxiliary programs of one server: one per client and program, opened on first use.
pub struct AuxiliaryRpcConnections {
    tcp: TcpTransport,
    target: ConnectTarget,
    configured_ports: ConfiguredAuxiliaryPorts,
    ports: FxHashMap<(Program, u32), Result<u16, AuxiliaryProgramError>>,
    lanes: FxHashMap<(u32, Program, u32), AuxiliaryRpcConnection>,
    /// Time until which each absent program may be restarting. It may have another port then.
    restarting_until: FxHashMap<(Program, u32), Instant>,
    /// Time until which the server may be restarting, because a connection to it was lost.
    server_restarting_until: Option<Instant>,
    /// Ports from which no Reply arrived within the timeout.
    unresponsive_ports: FxHashMap<u16, AuxiliaryProgramError>,
    last_xid: u32,
}

/// A connection to an auxiliary program.
#[derive(Clone, Copy, Debug)]
pub struct AuxiliaryRpcConnection {
    /// Number of the connection within its run, from 0.
    pub number: u64,
    connection: TransportConnectionId,
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
            server_restarting_until: None,
            unresponsive_ports: FxHashMap::default(),
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
        call: &ContainedCall<'_>,
        accept: impl FnOnce(&TransportReply<'_>) -> T,
    ) -> Result<T, AuxiliaryProgramError> {
        let absent = |why: &dyn fmt::Display| AuxiliaryProgramError::Absent(why.to_string());
        let xid = call.call().xid;
        self.tcp.submit(connection, call.call()).map_err(|error| absent(&error))?;
        let deadline = Instant::now() + self.target.options.timeout;
        while Instant::now() < deadline {
            match self.tcp.poll(Some(deadline)).map_err(|error| absent(&error))? {
                Some(RpcTransportEvent::Reply(reply))
                    if reply.connection == connection && reply.xid == xid =>
                {
                    return Ok(accept(&reply));
                }
                Some(RpcTransportEvent::Disconnected { connection: gone, reason, .. }) => {
                    let until = Instant::now() + self.restart_timeout();
                    self.lanes.retain(|(_, program, version), lane| {
                        let is_other = lane.connection != gone;
                        if !is_other {
                            self.restarting_until.insert((*program, *version), until);
                            self.ports.remove(&(*program, *version));
                        }
                        is_other
                    });
                    if gone == connection {
                        return Err(AuxiliaryProgramError::Absent(format!(
                            "the connection went away: {reason}"
                        )));
                    }
                }
                _ => {}
            }
        }
        self.tcp.disconnect(connection);
        self.lanes.retain(|_, lane| lane.connection != connection);
        let why = format!("{peer}: no Reply within {} s", self.target.options.timeout.as_secs_f64());
        Err(self.unresponsive_ports.entry(peer.port()).or_insert(AuxiliaryProgramError::Silent(why)).clone())
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
    }

    /// Returns the time at which to look again for a program after this error; `None` if it is not expected any more.
    pub fn next_attempt(
        &mut self,
        program: (Program, u32),
        error: &AuxiliaryProgramError,
    ) -> Option<Instant> {
        let now = Instant::now();
        match error {
            AuxiliaryProgramError::Absent(_) => {}
            AuxiliaryProgramError::Unregistered(_) => {
                self.restarting_until.entry(program).or_insert(now + REGISTRATION_GRACE);
            }
            AuxiliaryProgramError::Silent(_) => return None,
        }
        let until = self.restarting_until.get(&program).copied().max(self.server_restarting_until)?;
        if until <= now {
            return None;
        }
        self.ports.remove(&program);
        Some(now + RETRY_DELAY)
    }

    /// Returns the connection of a client to a program, and opens it if necessary.
    ///
    /// # Errors
    /// Returns an error if the port is unknown or unresponsive, the connection fails, or there are too many
    /// connections.
    pub fn lane(
        &mut self,
        client: u32,
        program: (Program, u32),
    ) -> Result<AuxiliaryRpcConnection, AuxiliaryProgramError> {
        let lane = self.open(client, program)?;
        self.restarting_until.remove(&program);
        Ok(lane)
    }

    fn open(
        &mut self,
        client: u32,
        (program, version): (Program, u32),
    ) -> Result<AuxiliaryRpcConnection, AuxiliaryProgramError> {
        if let Some(lane) = self.lanes.get(&(client, program, version)) {
            return Ok(*lane);
        }
        if self.lanes.len() >= MAX_CONNECTIONS {
            return Err(AuxiliaryProgramError::Absent("too many connections".into()));
        }
        let port = match (program, self.configured_ports.mount) {
            (Program::PORTMAP, _) => self.configured_ports.port_mapper(),
            (Program::MOUNT, Some(port)) => port,
            _ => self.port_of_program(program, version)?,
        };
        if let Some(why) = self.unresponsive_ports.get(&port) {
            return Err(why.clone());
        }
        let peer = SocketAddr::new(self.target.address.ip(), port);
        let target = ConnectTarget { address: peer, ..self.target.clone() };
        let connection =
            self.tcp.connect(&target).map_err(|error| self.record_unresponsive_port(port, error.into()))?;
        let local = self.tcp.params(connection).and_then(|terms| terms.local);
        let lane = AuxiliaryRpcConnection { number: connection.0.into(), connection, local, peer };
        self.lanes.insert((client, program, version), lane);
        Ok(lane)
    }

    /// Returns the port of a program from the cache or the port mapper.
    fn port_of_program(&mut self, program: Program, version: u32) -> Result<u16, AuxiliaryProgramError> {
        let port_mapper = self.configured_ports.port_mapper();
        if let Some(known) = self.ports.get(&(program, version)) {
            return known.clone();
        }
        let port = match self.unresponsive_ports.get(&port_mapper) {
            Some(why) => Err(why.clone()),
            None => query_port_mapper(&self.target, self.configured_ports, program, version)
                .map_err(|why| self.record_unresponsive_port(port_mapper, why)),
        };
        self.ports.insert((program, version), port.clone());
        port
    }

    /// Records a port that did not respond in time.
    fn record_unresponsive_port(&mut self, port: u16, why: AuxiliaryProgramError) -> AuxiliaryProgramError {
        if let AuxiliaryProgramError::Silent(_) = why {
            self.unresponsive_ports.insert(port, why.clone());
        }
        why
    }
}

/// Rewrites the absolute path of a MNT or UMNT Call of MOUNT version 3 to one below `root`. Returns `None` for every
/// other Call. The [containment check](super::containment) of the finished Call decides if the path is allowed.
pub fn reroot_mount_path(message: &[u8], root: &str) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(message);
    let asked = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let call = asked.call().filter(|call| (call.prog, call.vers) == (Program::MOUNT, 3))?;
    let header = message.get(..cursor.at())?;
    let procedure = MountProcedure(call.proc);
    let below = |path: &[u8]| {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.fold(root.as_bytes().to_vec(), |path, name| [&path, &b"/"[..], name].concat())
    };
    let mut encoder = Encoder::new();
    encoder.raw(header);
    match Mount::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()? {
        Mount::MNT(args) if is_absolute(args.dirpath.0) => {
            let path = below(args.dirpath.0);
            Mount::MNT(DirpathArgs { dirpath: Text(&path) }).encode(&mut encoder);
        }
        Mount::UMNT(args) if is_absolute(args.dirpath.0) => {
            let path = below(args.dirpath.0);
            Mount::UMNT(DirpathArgs { dirpath: Text(&path) }).encode(&mut encoder);
        }
        _ => return None,
    }
    encoder.raw(cursor.rest());
    Some(encoder.finish().0)
}

/// Replaces the name of the captured client in a Call of NLM version 4 by that of this program. The server would have its
/// status monitor watch the captured client, and notify it after a restart (XNFS section 11). Returns `None` for every
/// other Call.
pub fn replace_nlm_caller(message: &[u8]) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(message);
    let asked = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let call = asked.call().filter(|call| (call.prog, call.vers) == (Program::NLM, 4))?;
    let header = message.get(..cursor.at())?;
    let caller = Text(crate::PROGRAM.as_bytes());
    let procedure = nlm::Procedure(call.proc);
    let mut args = nlm::Args::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()?;
    match &mut args {
        nlm::Args::TEST(args) => args.alock.caller_name = caller,
        nlm::Args::LOCK(args) | nlm::Args::NM_LOCK(args) => args.alock.caller_name = caller,
        nlm::Args::CANCEL(args) => args.alock.caller_name = caller,
        nlm::Args::UNLOCK(args) => args.alock.caller_name = caller,
        nlm::Args::SHARE(args) | nlm::Args::UNSHARE(args) => args.share.caller_name = caller,
        _ => return None,
    }
    let mut encoder = Encoder::new();
    encoder.raw(header);
    args.encode(&mut encoder);
    encoder.raw(cursor.rest());
    Some(encoder.finish().0)
}

fn is_absolute(path: &[u8]) -> bool {
    matches!(path.first(), None | Some(b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_nlm_call_names_this_program_and_not_the_captured_client() {
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
        let ours = lock(crate::PROGRAM.as_bytes());
        assert_eq!(replace_nlm_caller(&lock(b"client.example")), Some(ours.clone()));
        assert_eq!(replace_nlm_caller(&lock(b"c")), Some(ours));
        // An undecodable message is left as it is.
        assert_eq!(replace_nlm_caller(&lock(b"client")[..50]), None);
        assert_eq!(replace_nlm_caller(&mount(1, b"/export")), None);
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
