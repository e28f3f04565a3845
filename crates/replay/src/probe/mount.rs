//! MOUNT, which lists the exports of NFSv3 and returns their root filehandles. It is queried over TCP, at the port from
//! the port mapper (RFC 1833 section 3, RFC 1813 section 5).

use std::fmt;
use std::net::SocketAddr;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::mount::v3::{Args, Procedure as Mount, Results};
use nfsrdma_dissectors::nfs::mount::{DirpathArgs, Groupnode, Mountstat3};
use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::rpc::{Program, Xid};
use nfsrdma_dissectors::xdr::{Encoder, Text, Void};
use nfsrdma_rpc::synchronous_client::{RpcCallError, RpcClient, SynchronousProcedureCall};
use nfsrdma_rpc::tcp::TcpTransport;
use nfsrdma_rpc::url::ServerUrl;
use nfsrdma_rpc::{ConnectOptions, ConnectTarget, RpcClientTransport, TransportErrorResponsibility};

use crate::auxiliary_programs::{AuxiliaryProgramError, ConfiguredAuxiliaryPorts, query_port_mapper};
use crate::root_credential;
use crate::seed::file_server_client::advice_for_status;

/// Maximum length of an export list in bytes.
const EXPORTS: u32 = 1 << 20;
/// Maximum length of MNT results in bytes: status, filehandle, flavors.
const MAX_MNT_RESULT_BYTES: u32 = 4 + 4 + 64 + 4 + 4 * 32;

/// The exports of a server according to MOUNT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbedExports {
    /// The port of MOUNT.
    pub port: u16,
    /// Exported directories, each with its permitted groups; the groups are empty if everybody may mount it.
    pub list: Vec<(String, Vec<String>)>,
}

/// A mounted export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountedExport {
    /// The path from the URL; for `/` that of the first export, if there is a list.
    pub path: String,
    /// The root filehandle: 1 to 64 bytes. RFC 1813 section 5.2.1.
    pub root: Vec<u8>,
}

/// The reason that no export is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountError {
    /// The server refused: the path, and the status of MNT.
    Refused(String, Mountstat3),
    /// The port mapper or MOUNT is unreachable or missing, or did not answer as it must: the reason, and the party at
    /// fault.
    Failed(String, TransportErrorResponsibility),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // MNT3ERR_ACCES and MNT3ERR_NOENT: a server has exports, and no modes, at that point.
            Self::Refused(path, status) if [2, 13].contains(&status.0) => write!(
                f,
                "{path}: not exported to this machine over NFSv3; a server may have other paths there than in NFSv4 \
                 (MNT {path}: {status})"
            ),
            Self::Refused(path, status) => match advice_for_status(Nfsstat4(status.0)) {
                Some(advice) => write!(f, "{advice} (MNT {path}: {status})"),
                None => write!(f, "MNT {path}: {status}; see the server's log"),
            },
            Self::Failed(reason, _) => f.write_str(reason),
        }
    }
}

/// Queries the exports, and mounts the one from the URL, or the first one if that is `/`.
///
/// # Errors
/// Both results have their own error: no export list, and no mounted export.
pub fn probe_mount(url: &ServerUrl, server: SocketAddr, options: &ConnectOptions) -> MountProbeResults {
    let unreachable = |error: String| (error, TransportErrorResponsibility::Unreachable);
    let outcome = port_of_mount(url, server, options).map_err(unreachable).and_then(|port| {
        let mut tcp = TcpTransport::new();
        let address = SocketAddr::new(server.ip(), port);
        let target = ConnectTarget { address, name: url.host.clone(), options: options.clone() };
        let connection = tcp.connect(&target).map_err(|error| unreachable(error.to_string()))?;
        let xid = Xid(std::process::id().rotate_left(16) ^ u32::from(port));
        let mut client = RpcClient::new(&mut tcp, connection, root_credential(), xid, options.timeout)
            .with_reconnect_after_close(&target);
        exports_and_root(&mut client, url, port)
    });
    outcome.unwrap_or_else(|(error, blame)| (Err(error.clone()), Err(MountError::Failed(error, blame))))
}

fn port_of_mount(url: &ServerUrl, server: SocketAddr, options: &ConnectOptions) -> Result<u16, String> {
    if let Some(port) = url.mount_port {
        return Ok(port);
    }
    let target = ConnectTarget { address: server, name: url.host.clone(), options: options.clone() };
    let ports = ConfiguredAuxiliaryPorts { port_mapper: url.rpcbind_port, mount: None };
    query_port_mapper(&target, ports, Program::MOUNT, 3, true).map_err(|error| match error {
        AuxiliaryProgramError::Absent(why) | AuxiliaryProgramError::Unregistered(why) => {
            format!("{why}; without a port mapper, name the port of MOUNT with ?mountport=")
        }
        AuxiliaryProgramError::Silent(reason) => {
            format!("{reason}; check that rpcbind answers, or name the port of MOUNT with ?mountport=")
        }
    })
}

pub(super) type MountProbeResults = (Result<ProbedExports, String>, Result<MountedExport, MountError>);

fn exports_and_root(
    client: &mut RpcClient<'_>,
    url: &ServerUrl,
    port: u16,
) -> Result<MountProbeResults, (String, TransportErrorResponsibility)> {
    let exports = call(client, Mount::EXPORT, EXPORTS, &Args::EXPORT(Void), |results| match results {
        Results::EXPORT(exports) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let group = |group: Groupnode<'_>| text(group.gr_name.0);
            let list = exports.exports.iter();
            list.map(|node| (text(node.ex_dir.0), node.ex_groups.iter().map(group).collect())).collect()
        }
        _ => Vec::new(),
    });
    if let Err(error) = &exports
        && error.is_final()
    {
        // There is no connection for further Calls.
        return Err((format!("MOUNT on port {port}: {error}"), error.blame()));
    }
    let exports = exports.map(|list| ProbedExports { port, list }).map_err(|error| format!("EXPORT: {error}"));
    let first = exports.as_ref().ok().and_then(|exports| exports.list.first());
    let path = match &url.export[..] {
        "/" => first.map_or("/", |(path, _)| path).to_owned(),
        path => path.to_owned(),
    };
    let arguments = DirpathArgs { dirpath: Text(path.as_bytes()) };
    let mount = Args::MNT(arguments.clone());
    let root = call(client, Mount::MNT, MAX_MNT_RESULT_BYTES, &mount, |results| match results {
        Results::MNT(outcome) => match outcome.ok() {
            Some(mounted) => Ok(mounted.fhandle.0.to_vec()),
            None if outcome.status().name().is_none() => Err(MountError::Failed(
                format!(
                    "the server broke the protocol: see its log (MNT {path}: status {}, which is not defined)",
                    outcome.status().0
                ),
                TransportErrorResponsibility::Server,
            )),
            None => Err(MountError::Refused(path.clone(), outcome.status())),
        },
        _ => Err(MountError::Failed("MNT: another result".into(), TransportErrorResponsibility::Server)),
    });
    // The server's record of the mount is of no use; a failure to remove it does not matter.
    let _ = call(client, Mount::UMNT, 0, &Args::UMNT(arguments), |_| ());
    let root = root.unwrap_or_else(|error| {
        Err(MountError::Failed(format!("MOUNT on port {port}: MNT {path}: {error}"), error.blame()))
    });
    Ok((exports, root.map(|root| MountedExport { path, root })))
}

fn call<T>(
    client: &mut RpcClient<'_>,
    number: Mount,
    reply_bytes: u32,
    arguments: &Args<'_>,
    read: impl FnOnce(Results<'_>) -> T,
) -> Result<T, RpcCallError> {
    client.call(
        &SynchronousProcedureCall::new(Program::MOUNT, 3, number.number().0, reply_bytes),
        |encoder: &mut Encoder| arguments.encode(encoder),
        |cursor| Results::decode(number, cursor, &mut NullFieldObserver).map(read),
    )
}
