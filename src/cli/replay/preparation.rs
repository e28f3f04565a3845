//! A run is made ready: its server is reached and is not the captured one by accident, and its directory has the tree that
//! the trace expects.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Result, anyhow, bail};
use nfsrdma_dissectors::rpc::{Program, Xid};

use super::directory_markers;
use super::server::{ServerArgs, TraceFile};
use crate::analysis::comparison::record::hash;
use crate::cli::{ExitStatus, complain};
use crate::replay::containment::Containment;
use crate::replay::gss::GssError;
use crate::replay::probe::{MountError, MountedExport, connect, mount};
use crate::replay::rpc_client::{AuthSysCredential, ContainedRpcClient, RpcClient};
use crate::replay::seed::files::{FileServerClient, FileServerError};
use crate::replay::seed::v3::Nfs3Client;
use crate::replay::seed::v4::Nfs4Client;
use crate::replay::seed::{RunDirectory, SeedError, SeedMode, SeededTree, removal, seed};
use crate::replay::trace::TraceError;
use crate::replay::transport::{
    ConnectTarget, ConnectionId, RpcTransport, RpcTransportError, TransportBlame, open,
};
use crate::replay::url::NfsVersion;

/// Why a run cannot begin, and who is to blame.
#[derive(Debug)]
pub(super) enum RunRefusal {
    /// The server or the transport.
    Unreachable(String, TransportBlame),
    /// The arguments or the trace.
    Usage(anyhow::Error),
}

impl From<RpcTransportError> for RunRefusal {
    fn from(error: RpcTransportError) -> Self {
        Self::Unreachable(error.to_string(), error.blame())
    }
}

impl From<anyhow::Error> for RunRefusal {
    fn from(error: anyhow::Error) -> Self {
        Self::Usage(error)
    }
}

impl From<GssError> for RunRefusal {
    fn from(error: GssError) -> Self {
        match &error {
            GssError::Mechanism(_) => Self::Usage(anyhow!(
                "--sec krb5: {error}; get a ticket with kinit, or name a keytab in KRB5_CLIENT_KTNAME (docs/replay.md)"
            )),
            GssError::Call(call) => Self::Unreachable(error.to_string(), call.blame()),
            _ => Self::Unreachable(error.to_string(), TransportBlame::Unreachable),
        }
    }
}

impl fmt::Display for RunRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(what, _) => f.write_str(what),
            Self::Usage(error) => error.fmt(f),
        }
    }
}

impl RunRefusal {
    /// Tells it, and gives the exit code.
    pub(super) fn tell(self) -> Result<ExitStatus> {
        match self {
            Self::Unreachable(what, blame) => {
                complain(what);
                Ok(blame.into())
            }
            Self::Usage(error) => bail!(error),
        }
    }
}

/// Letters that no other run has.
pub(super) fn tag() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = format!("{} {}", now.as_nanos(), std::process::id());
    format!("{:08x}", hash(seed.as_bytes()) as u32)
}

/// One of several copies of the captured clients.
pub(super) struct ClientCopySpec {
    /// Letters that no other run has.
    pub(super) tag: String,
    /// Which, from 1.
    pub(super) number: u32,
    /// It is to run, and not to be seeded alone.
    pub(super) is_run: bool,
}

impl ClientCopySpec {
    /// The only one.
    pub(super) fn only() -> Self {
        Self { tag: tag(), number: 1, is_run: false }
    }
}

/// Where files are reached.
struct RunFileAccess<'a> {
    connection: ConnectionId,
    address: SocketAddr,
    is_v3: bool,
    /// The name of the run's directory.
    directory: &'a str,
}

/// The place of a run, ready to be used.
pub(super) struct PreparedRun {
    pub(super) transport: Box<dyn RpcTransport>,
    pub(super) target: ConnectTarget,
    pub(super) directory: String,
    pub(super) tag: String,
    pub(super) seeded: SeededTree,
    /// A run has begun in the directory before.
    pub(super) was_run: bool,
}

impl ServerArgs {
    /// Connects, and makes the tree of a trace or finds it.
    pub(super) fn ready(
        &self,
        path: &Path,
        trace: &mut TraceFile,
        how: SeedMode,
        copy: &ClientCopySpec,
    ) -> Result<PreparedRun, RunRefusal> {
        let mut transport = open(self.server.transport)?;
        let (connection, address) = connect(&mut *transport, &self.server, &self.wish())?;
        if !self.allow_source_server {
            not_captured(trace, address)?;
        }
        let directory = self.directory(path, copy);
        let containment = Containment::for_seeding(&self.server.export, &directory);
        let is_v3 = self.is_v3(path, trace)?;
        let at = RunFileAccess { connection, address, is_v3, directory: &directory };
        let seeded = self.on_files(&mut *transport, &at, containment, copy, |files, place| {
            let seeded = self.seeded(path, trace, files, place, how)?;
            let was_run = copy.is_run
                && directory_markers::begin(files, place).map_err(|problem| self.refused(&problem))?;
            Ok::<_, RunRefusal>((seeded, was_run))
        })?;
        let (seeded, was_run) = seeded?;
        let target = ConnectTarget { address, name: self.server.host.clone(), options: self.wish() };
        Ok(PreparedRun { transport, target, directory, tag: copy.tag.clone(), seeded, was_run })
    }

    /// Does something with the files of the server.
    fn on_files<T>(
        &self,
        transport: &mut dyn RpcTransport,
        at: &RunFileAccess<'_>,
        mut containment: Containment,
        copy: &ClientCopySpec,
        act: impl FnOnce(&mut dyn FileServerClient, &RunDirectory<'_>) -> T,
    ) -> Result<T, RunRefusal> {
        let xid = Xid(hash(at.directory.as_bytes()) as u32);
        let target =
            ConnectTarget { address: at.address, name: self.server.host.clone(), options: self.wish() };
        let line =
            RpcClient::new(transport, at.connection, AuthSysCredential::default(), xid, self.wish().timeout)
                .with_reconnect(&target);
        let mounted = if at.is_v3 { Some(self.mounted(at.address)?) } else { None };
        let (mut files, export): (Box<dyn FileServerClient + '_>, _) = match mounted {
            Some(MountedExport { path, root }) => {
                containment.set_export_handle(&root);
                (Box::new(Nfs3Client::new(line.with_containment(&mut containment), root)), path)
            }
            None => {
                let files = self.opened(line.with_containment(&mut containment), copy)?;
                (Box::new(files), self.server.export.clone())
            }
        };
        let done = act(&mut *files, &RunDirectory { export: &export, directory: at.directory });
        files.close();
        Ok(done)
    }

    /// Removes the directory of a run that is over, if nothing is in it that no run has made.
    pub(super) fn remove(
        &self,
        path: &Path,
        trace: &mut TraceFile,
        copy: &ClientCopySpec,
    ) -> Result<u64, RunRefusal> {
        let mut transport = open(self.server.transport)?;
        let (connection, address) = connect(&mut *transport, &self.server, &self.wish())?;
        let directory = self.directory(path, copy);
        let containment = Containment::for_removal(&self.server.export, &directory);
        let is_v3 = self.is_v3(path, trace)?;
        let at = RunFileAccess { connection, address, is_v3, directory: &directory };
        // Another client than the one that has made it, whose lease may not be over.
        let copy = ClientCopySpec { tag: format!("{} removal", copy.tag), ..*copy };
        let mark = directory_markers::name_of(trace);
        let removed = self.on_files(&mut *transport, &at, containment, &copy, |files, place| {
            removal::remove(files, place, &mark)
        })?;
        removed.map_err(|error| RunRefusal::Usage(anyhow!("{}: {directory}: {error}", self.server)))
    }

    /// The name of the run's directory.
    fn directory(&self, trace: &Path, copy: &ClientCopySpec) -> String {
        let ClientCopySpec { tag, number, .. } = copy;
        let name = trace.file_name().map_or_else(|| "trace".into(), |name| name.to_string_lossy());
        let name = name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("trace");
        let plain: String = name
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || "-_".contains(*letter))
            .take(100)
            .collect();
        let directory = self.directory.clone().unwrap_or_else(|| format!("{plain}-{tag}"));
        if *number > 1 { format!("{directory}-{number}") } else { directory }
    }
    /// Whether the directory is made through NFSv3: as the URL says, or else as the trace does its work.
    fn is_v3(&self, path: &Path, trace: &mut TraceFile) -> Result<bool, RunRefusal> {
        let first = first_version(trace).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let wanted = self.server.version.map(|version| if version == NfsVersion::V3 { 3 } else { 4 });
        match (wanted, first) {
            (Some(wanted), Some(first)) if wanted != first => Err(anyhow!(
                "{}: is of NFSv{first}, and {} asks for NFSv{wanted}; leave out ?vers=",
                path.display(),
                self.server
            )
            .into()),
            _ => Ok(wanted.or(first) == Some(3)),
        }
    }

    /// What MOUNT gives for the export.
    fn mounted(&self, address: SocketAddr) -> Result<MountedExport, RunRefusal> {
        let (_, mounted) = mount(&self.server, address, &self.wish());
        mounted.map_err(|error| match error {
            MountError::Refused(..) => RunRefusal::Usage(anyhow!("{}: {error}", self.server)),
            MountError::Unreachable(_) => {
                RunRefusal::Unreachable(format!("{}: {error}", self.server), TransportBlame::Unreachable)
            }
        })
    }

    /// The files of a server of NFSv4, to which this run is a client of its own.
    fn opened<'l>(
        &self,
        line: ContainedRpcClient<'l>,
        copy: &ClientCopySpec,
    ) -> Result<Nfs4Client<'l>, RunRefusal> {
        let minors: &[u32] = match self.server.version {
            Some(NfsVersion::V4(0)) => &[0],
            Some(NfsVersion::V4(1)) => &[1],
            _ => &[2, 1, 0],
        };
        let name = format!("{} {} {}", env!("CARGO_PKG_NAME"), copy.tag, copy.number);
        Nfs4Client::new(line, &name, minors).map_err(|problem| self.refused(&problem))
    }

    /// Makes the tree or finds it, and notes down that it is there.
    fn seeded(
        &self,
        path: &Path,
        trace: &mut TraceFile,
        files: &mut dyn FileServerClient,
        place: &RunDirectory<'_>,
        how: SeedMode,
    ) -> Result<SeededTree, RunRefusal> {
        let name = directory_markers::name_of(trace);
        let error = match seed(trace, files, place, how) {
            Ok(seeded) => {
                if matches!(how, SeedMode::Make | SeedMode::Complete) {
                    directory_markers::mark(files, place, &name).map_err(|problem| self.refused(&problem))?;
                }
                return Ok(seeded);
            }
            Err(error) => error,
        };
        Err(match &error {
            // Only what it holds can tell how a directory came to be.
            SeedError::NotEmpty(_) => {
                let told =
                    directory_markers::found(files, place, &name).unwrap_or_else(|_| error.to_string());
                RunRefusal::Usage(anyhow!("{}: {told}", self.server))
            }
            SeedError::Server(_, problem @ (FileServerError::Call(_) | FileServerError::Busy(..))) => {
                self.refused(problem)
            }
            SeedError::Trace(_) => RunRefusal::Usage(anyhow!("{}: {error}", path.display())),
            _ => RunRefusal::Usage(anyhow!("{}: {error}", self.server)),
        })
    }

    /// What a problem with the server is to a run that has not begun.
    fn refused(&self, problem: &FileServerError) -> RunRefusal {
        match problem {
            FileServerError::Busy(..) => RunRefusal::Unreachable(
                format!("{}: {problem}", self.server.host),
                TransportBlame::Unreachable,
            ),
            FileServerError::Call(error) => {
                RunRefusal::Unreachable(format!("{}: {error}", self.server.host), error.blame())
            }
            FileServerError::Refused(..) => RunRefusal::Usage(anyhow!("{}: {problem}", self.server)),
        }
    }
}

/// Refuses the server that the capture is of: what was captured might be somebody's work.
fn not_captured(trace: &TraceFile, address: SocketAddr) -> Result<(), RunRefusal> {
    let address = address.ip().to_string();
    let mut captured = trace.summary().hosts.iter().filter(|host| host.is_server);
    if captured.any(|host| host.address == address) {
        let what = format!(
            "{address}: the capture was taken from this server; name another, or use --allow-source-server"
        );
        return Err(RunRefusal::Usage(anyhow!(what)));
    }
    Ok(())
}

/// The version of NFS that the first step of it has.
fn first_version(trace: &mut TraceFile) -> Result<Option<u32>, TraceError> {
    trace.rewind();
    let mut version = None;
    while version.is_none()
        && let Some(step) = trace.next_step()?
    {
        let is_nfs = step.asked.program == Program::NFS.0 && step.asked.procedure != 0;
        version = (is_nfs && matches!(step.asked.version, 2..=4)).then_some(step.asked.version);
    }
    trace.rewind();
    Ok(version)
}
