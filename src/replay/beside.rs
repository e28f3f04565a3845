//! Programs beside NFS: MOUNT, NLM and the port mapper. They are asked over TCP, where the port mapper says, whatever carries NFS
//! (RFC 8267 section 5.1, RFC 1833 section 3).
//!
//! What [`is_about_files`] leaves out is about more than the files of a run: it would strike out mounts or locks of other clients, or
//! tell the port mapper where programs listen.

use std::net::SocketAddr;
use std::time::Instant;

use nfsrdma_dissectors::field::Unobserved;
use nfsrdma_dissectors::nfs::mount::DirpathArgs;
use nfsrdma_dissectors::nfs::mount::v3::{Args as Mount, Procedure as MountProcedure};
use nfsrdma_dissectors::nfs::rpcbind::v2::{self, Mapping, Prot};
use nfsrdma_dissectors::rpc::{self, Program, Xid};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Text};
use rustc_hash::FxHashMap;

use super::caller::{Caller, Line, Procedure};
use super::containment::ContainedCall;
use super::transport::tcp::Tcp;
use super::transport::{ConnectionId, Event, Reply, Target, Transport};

/// The port of the port mapper. RFC 1833 section 3.
pub const PORT_MAPPER: u16 = 111;
/// Connections that are opened; more clients and programs than that are not asked.
const CONNECTIONS: usize = 1024;

/// Whether a procedure of a program beside NFS is about the files of a run alone, or changes nothing.
pub fn is_about_files(program: Program, version: u32, procedure: u32) -> bool {
    match (program, version) {
        // NULL, MNT, DUMP, UMNT, EXPORT, and not UMNTALL. RFC 1813 section 5.2.
        (Program::MOUNT, _) => matches!(procedure, 0..=3 | 5),
        // NULL, TEST, LOCK, CANCEL, UNLOCK, SHARE, UNSHARE, NM_LOCK, and not FREE_ALL. RFC 1813 section 6.3.
        (Program::NLM, _) => matches!(procedure, 0..=4 | 20..=22),
        // NULL, GETPORT, DUMP. RFC 1833 section 3.
        (Program::PORTMAP, 2) => matches!(procedure, 0 | 3 | 4),
        // NULL, GETADDR, DUMP, GETTIME, UADDR2TADDR, TADDR2UADDR, GETVERSADDR, GETADDRLIST, GETSTAT. RFC 1833 section 2.
        (Program::PORTMAP, 3 | 4) => matches!(procedure, 0 | 3 | 4 | 6..=9 | 11 | 12),
        _ => false,
    }
}

/// Asks the port mapper of a server where a program listens on TCP.
///
/// # Errors
/// Why that is not known.
pub fn port_of(target: &Target, program: Program, version: u32) -> Result<u16, String> {
    let mut tcp = Tcp::new();
    let target = Target { address: SocketAddr::new(target.address.ip(), PORT_MAPPER), ..target.clone() };
    let connection = tcp.connect(&target).map_err(|error| error.to_string())?;
    let xid = Xid(std::process::id().rotate_left(16) ^ program.0.rotate_left(8) ^ version);
    let mut line = Line::new(&mut tcp, connection, Caller::default(), xid, target.wish.timeout);
    let mapping = Mapping { prog: program, vers: version, prot: Prot::IPPROTO_TCP, port: 0 };
    let getport = v2::Procedure::GETPORT;
    let port = line.call(
        &Procedure::new(Program::PORTMAP, 2, getport.0, 4),
        |encoder| v2::Args::GETPORT(mapping).encode(encoder),
        |cursor| match v2::Results::decode(getport, cursor, &mut Unobserved)? {
            v2::Results::GETPORT(port) => Ok(port.port),
            _ => Ok(0),
        },
    );
    let name = program.name().unwrap_or("that program");
    match port.map(u16::try_from) {
        Ok(Ok(port)) if port > 0 => Ok(port),
        Ok(_) => Err(format!("the port mapper knows no {name}")),
        Err(error) => Err(format!("port mapper: {error}")),
    }
}

/// Connections to the programs beside NFS of one server, opened when they are first needed: one for each client and program.
pub struct Beside {
    tcp: Tcp,
    target: Target,
    mount_port: Option<u16>,
    ports: FxHashMap<(Program, u32), Result<u16, String>>,
    lines: FxHashMap<(u32, Program, u32), ConnectionId>,
    next: u32,
}

impl Beside {
    /// Programs on the host of a target. XIDs begin at `xid`; `mount_port` is that of MOUNT, where the port mapper is not to be asked.
    pub fn new(target: &Target, mount_port: Option<u16>, xid: Xid) -> Self {
        Self {
            tcp: Tcp::new(),
            target: target.clone(),
            mount_port,
            ports: FxHashMap::default(),
            lines: FxHashMap::default(),
            next: xid.0,
        }
    }

    /// The XID of the next Call.
    pub fn xid(&mut self) -> Xid {
        self.next = self.next.wrapping_add(1);
        Xid(self.next)
    }

    /// Sends a Call of a client, and lends its Reply to `heard`. Waits for it.
    ///
    /// # Errors
    /// Why there is no Reply: nobody listens, or not in time.
    pub fn call<T>(
        &mut self,
        client: u32,
        (program, version): (Program, u32),
        call: &ContainedCall<'_>,
        heard: impl FnOnce(&Reply<'_>) -> T,
    ) -> Result<T, String> {
        let connection = self.connection(client, program, version)?;
        let xid = call.call().xid;
        self.tcp.submit(connection, call.call()).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + self.target.wish.timeout;
        while Instant::now() < deadline {
            match self.tcp.poll(Some(deadline)).map_err(|error| error.to_string())? {
                Some(Event::Reply(reply)) if reply.connection == connection && reply.xid == xid => {
                    return Ok(heard(&reply));
                }
                Some(Event::Disconnected { connection: gone, reason, .. }) => {
                    self.lines.retain(|_, line| *line != gone);
                    if gone == connection {
                        return Err(format!("the connection went away: {reason}"));
                    }
                }
                _ => {}
            }
        }
        self.tcp.disconnect(connection);
        self.lines.retain(|_, line| *line != connection);
        Err(format!("no Reply within {} s", self.target.wish.timeout.as_secs_f64()))
    }

    fn connection(&mut self, client: u32, program: Program, version: u32) -> Result<ConnectionId, String> {
        if let Some(connection) = self.lines.get(&(client, program, version)) {
            return Ok(*connection);
        }
        if self.lines.len() >= CONNECTIONS {
            return Err("too many connections".into());
        }
        let known = match (program, self.mount_port) {
            (Program::PORTMAP, _) => Ok(PORT_MAPPER),
            (Program::MOUNT, Some(port)) => Ok(port),
            _ => {
                let target = &self.target;
                let ask = || port_of(target, program, version);
                self.ports.entry((program, version)).or_insert_with(ask).clone()
            }
        };
        let address = SocketAddr::new(self.target.address.ip(), known?);
        let target = Target { address, ..self.target.clone() };
        let connection = self.tcp.connect(&target).map_err(|error| error.to_string())?;
        self.lines.insert((client, program, version), connection);
        Ok(connection)
    }
}

/// A Call of MOUNT version 3 that names a path, with the path below `root` instead. `None` for every other. Whether the path may be
/// asked for is [checked](super::containment) when the Call is finished.
pub fn rerooted(message: &[u8], root: &str) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(message);
    let asked = rpc::Message::decode(&mut cursor, &mut Unobserved).ok()?;
    let call = asked.call().filter(|call| (call.prog, call.vers) == (Program::MOUNT, 3))?;
    let header = message.get(..cursor.at())?;
    let procedure = MountProcedure(call.proc);
    let below = |path: &[u8]| {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.fold(root.as_bytes().to_vec(), |path, name| [&path, &b"/"[..], name].concat())
    };
    let mut encoder = Encoder::new();
    encoder.raw(header);
    match Mount::decode(procedure, &mut cursor, &mut Unobserved).ok()? {
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

fn is_absolute(path: &[u8]) -> bool {
    matches!(path.first(), None | Some(b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(procedure: u32, path: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        [9, 0, 2, 100_005, 3, procedure, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
        encoder.opaque(path);
        encoder.finish().0
    }

    #[test]
    fn rfc1813_section_5_2_1_a_path_is_mounted_below_the_directory_of_the_run() {
        for procedure in [1, 3] {
            let message = rerooted(&mount(procedure, b"/export//home/"), "/srv/run/tree");
            assert_eq!(message, Some(mount(procedure, b"/srv/run/tree/export/home")));
        }
        for (procedure, path) in [(0, &b""[..]), (1, b"relative"), (5, b"")] {
            assert_eq!(rerooted(&mount(procedure, path), "/srv/run/tree"), None);
        }
        // What cannot be read stays as it is.
        assert_eq!(rerooted(&mount(1, b"/export")[..44], "/srv/run/tree"), None);
    }

    #[test]
    fn what_would_change_what_others_have_is_not_asked() {
        for (program, version, procedure) in [
            (Program::MOUNT, 3, 4),
            (Program::NLM, 4, 23),
            (Program::PORTMAP, 2, 1),
            (Program::PORTMAP, 2, 2),
            (Program::PORTMAP, 2, 5),
            (Program::PORTMAP, 4, 1),
            (Program::NSM, 1, 2),
        ] {
            assert!(!is_about_files(program, version, procedure), "{program:?} {version} {procedure}");
        }
        assert!(is_about_files(Program::NLM, 4, 2));
    }
}
