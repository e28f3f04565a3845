//! Preparation of a replay: connects to the server, verifies that it is not the captured one, and seeds its directory.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow, bail};
use nfsrdma_analysis::comparison::record::hash;
use nfsrdma_dissectors::rpc::{Program, Xid};
use nfsrdma_replay::containment::{Containment, ContainmentCheckedRpcClient};
use nfsrdma_replay::probe::{MountError, MountedExport, connect, mount};
use nfsrdma_replay::root_credential;
use nfsrdma_replay::run::removable_names::RemovableNames;
use nfsrdma_replay::seed::file_server_client::{FileServerClientError, VersionIndependentNfsClient};
use nfsrdma_replay::seed::v3::Nfs3Client;
use nfsrdma_replay::seed::v4::Nfs4Client;
use nfsrdma_replay::seed::{SeedError, SeedMode, SeededTree, ServerRunDirectory, removal, seed};
use nfsrdma_replay::trace::{NONE, TraceError};
use nfsrdma_rpc::gss::GssContextSetupError;
use nfsrdma_rpc::synchronous_client::{RpcCallError, RpcClient};
use nfsrdma_rpc::url::NfsVersion;
use nfsrdma_rpc::{
    ConnectTarget, RpcClientConnectionId, RpcClientTransport, RpcClientTransportError, TransportErrorResponsibility,
    open,
};

use super::seeded_directory_markers::{self, RunDirectoryPreviousUse};
use super::target_server_options::{ReplayServerArgs, ReplayTraceFileReader};
use crate::cli::exit_status::ExitStatus;
use crate::cli::standard_streams::report_error;
use crate::interrupt::ShutdownSignalRegistration;

#[derive(Debug)]
pub(super) enum ReplayStartError {
    /// A connection or a call of the program's own failed, through the fault of this party.
    Call(String, TransportErrorResponsibility),
    /// The time limit was reached.
    TimeLimit(String),
    /// A signal requested the end.
    Interrupted(String),
    /// Invalid arguments or trace.
    Usage(anyhow::Error),
}

impl From<RpcClientTransportError> for ReplayStartError {
    fn from(error: RpcClientTransportError) -> Self {
        Self::Call(error.to_string(), error.blame())
    }
}

impl From<anyhow::Error> for ReplayStartError {
    fn from(error: anyhow::Error) -> Self {
        Self::Usage(error)
    }
}

impl From<GssContextSetupError> for ReplayStartError {
    fn from(error: GssContextSetupError) -> Self {
        match &error {
            GssContextSetupError::Mechanism(_) => Self::Usage(anyhow!(
                "--sec krb5: {error}; get a ticket with kinit, or name a keytab in KRB5_CLIENT_KTNAME (docs/replay.md)"
            )),
            GssContextSetupError::Call(call) => Self::Call(error.to_string(), call.blame()),
            _ => Self::Call(error.to_string(), TransportErrorResponsibility::Unreachable),
        }
    }
}

impl fmt::Display for ReplayStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(what, _) | Self::TimeLimit(what) | Self::Interrupted(what) => f.write_str(what),
            Self::Usage(error) => error.fmt(f),
        }
    }
}

impl ReplayStartError {
    pub(super) fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Call(_, blame) => (*blame).into(),
            Self::TimeLimit(_) | Self::Interrupted(_) => ExitStatus::Uncovered,
            Self::Usage(_) => ExitStatus::Failed,
        }
    }

    /// Reports the failure and returns the exit status.
    pub(super) fn report(self) -> Result<ExitStatus> {
        if let Self::Usage(error) = self {
            bail!(error);
        }
        report_error(&self);
        Ok(self.exit_status())
    }
}

/// Returns a random tag that is unique per replay.
pub(super) fn unique_tag() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = format!("{} {}", now.as_nanos(), std::process::id());
    format!("{:08x}", hash(seed.as_bytes()) as u32)
}

/// One of several copies of the captured clients.
pub(super) struct ReplayClientCopyIdentity {
    /// Tag of the replay.
    pub(super) tag: String,
    /// Number of the copy, from 1.
    pub(super) number: u32,
    /// `true` for a replay; `false` for seeding only.
    pub(super) is_replay: bool,
    /// `true` if the files are checked after the replay.
    pub(super) checks_tree: bool,
}

impl ReplayClientCopyIdentity {
    pub(super) fn only() -> Self {
        Self { tag: unique_tag(), number: 1, is_replay: false, checks_tree: false }
    }
}

/// Control over seeding.
#[derive(Debug, Default)]
pub(super) struct SeedingControl {
    /// Flag that ends seeding.
    interruption: Option<Arc<AtomicBool>>,
    /// `true` if seeding has begun to create objects in the directory of the current copy.
    has_begun: Cell<bool>,
}

impl SeedingControl {
    /// Creates a control whose flag the first signal sets.
    pub(super) fn new(interrupted: &ShutdownSignalRegistration) -> Self {
        Self { interruption: Some(interrupted.flag()), has_begun: Cell::new(false) }
    }

    /// Returns `true` if seeding has begun to create objects in the directory of the current copy.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.get()
    }
}

/// Access to the files of a replay.
struct ServerReplayDirectoryAccess<'a> {
    connection: RpcClientConnectionId,
    address: SocketAddr,
    is_v3: bool,
    /// Time limit for all its calls.
    limit: Duration,
    /// Name of the replay's directory.
    directory: &'a str,
    /// Flag that interrupts the run.
    interruption: Option<Arc<AtomicBool>>,
}

pub(super) struct PreparedReplay {
    pub(super) transport: Box<dyn RpcClientTransport>,
    pub(super) target: ConnectTarget,
    pub(super) directory: String,
    pub(super) tag: String,
    pub(super) seeded: SeededTree,
    /// How the directory was used before.
    pub(super) earlier_use: RunDirectoryPreviousUse,
}

impl ReplayServerArgs {
    /// Connects, and creates or finds the tree of a trace.
    pub(super) fn prepare(
        &self,
        path: &Path,
        trace: &mut ReplayTraceFileReader,
        seed_mode: SeedMode,
        copy: &ReplayClientCopyIdentity,
        control: &SeedingControl,
    ) -> Result<PreparedReplay, ReplayStartError> {
        control.has_begun.set(false);
        let mut transport = open(self.server.transport)?;
        let (connection, address) = connect(&mut *transport, &self.server, &self.connect_options())?;
        if !self.allow_source_server {
            reject_captured_server(trace, address)?;
        }
        let directory = self.directory(path, copy);
        let containment = Containment::for_seeding(&self.server.export, &directory);
        let is_v3 = self.is_v3(path, trace)?;
        let limit = self.preparation_limit(trace);
        let interruption = control.interruption.clone();
        let access =
            ServerReplayDirectoryAccess { connection, address, is_v3, limit, directory: &directory, interruption };
        let marker = seeded_directory_markers::trace_marker(trace);
        let seeded = self.with_file_client(&mut *transport, &access, containment, copy, |files, run_directory| {
            let mut seeded = self.seed_tree(path, trace, files, run_directory, seed_mode, control)?;
            if copy.checks_tree {
                seeded.record_initial_names(files).map_err(|problem| self.refusal(&problem))?;
            }
            let mut earlier_use = RunDirectoryPreviousUse::default();
            if copy.is_replay {
                earlier_use = seeded_directory_markers::mark_run(files, run_directory, &marker)
                    .map_err(|problem| self.refusal(&problem))?;
            }
            Ok::<_, ReplayStartError>((seeded, earlier_use))
        })?;
        let (seeded, earlier_use) = seeded?;
        let target = ConnectTarget { address, name: self.server.host.clone(), options: self.connect_options() };
        Ok(PreparedReplay { transport, target, directory, tag: copy.tag.clone(), seeded, earlier_use })
    }

    /// Calls `action` with a file client of the server.
    fn with_file_client<T>(
        &self,
        transport: &mut dyn RpcClientTransport,
        access: &ServerReplayDirectoryAccess<'_>,
        mut containment: Containment,
        copy: &ReplayClientCopyIdentity,
        action: impl FnOnce(&mut dyn VersionIndependentNfsClient, &ServerRunDirectory<'_>) -> T,
    ) -> Result<T, ReplayStartError> {
        let xid = Xid(hash(access.directory.as_bytes()) as u32);
        let target =
            ConnectTarget { address: access.address, name: self.server.host.clone(), options: self.connect_options() };
        let client =
            RpcClient::new(transport, access.connection, root_credential(), xid, self.connect_options().timeout)
                .with_reconnect(&target)
                .with_deadline(Instant::now() + access.limit)
                .with_interruption(access.interruption.clone());
        let mounted = if access.is_v3 { Some(self.mount_export(access.address)?) } else { None };
        let (mut files, export): (Box<dyn VersionIndependentNfsClient + '_>, _) = match mounted {
            Some(MountedExport { path, root }) => {
                containment.set_export_handle(&root);
                (Box::new(Nfs3Client::new(ContainmentCheckedRpcClient::new(client, &mut containment), root)), path)
            }
            None => {
                let files = self.open_nfs4_client(ContainmentCheckedRpcClient::new(client, &mut containment), copy)?;
                (Box::new(files), self.server.export.clone())
            }
        };
        let result = action(&mut *files, &ServerRunDirectory { export: &export, directory: access.directory });
        files.close();
        Ok(result)
    }

    /// Removes the directory of a finished replay, if it contains nothing created by others.
    pub(super) fn remove(
        &self,
        path: &Path,
        trace: &mut ReplayTraceFileReader,
        copy: &ReplayClientCopyIdentity,
    ) -> Result<u64, ReplayStartError> {
        let mut transport = open(self.server.transport)?;
        let (connection, address) = connect(&mut *transport, &self.server, &self.connect_options())?;
        let directory = self.directory(path, copy);
        let containment = Containment::for_removal(&self.server.export, &directory);
        let is_v3 = self.is_v3(path, trace)?;
        let limit = self.preparation_limit(trace);
        let interruption = None;
        let access =
            ServerReplayDirectoryAccess { connection, address, is_v3, limit, directory: &directory, interruption };
        // Uses another client than the one of the replay, whose lease may not have expired.
        let copy = ReplayClientCopyIdentity { tag: format!("{} removal", copy.tag), ..*copy };
        let marker = seeded_directory_markers::trace_marker(trace);
        let created = RemovableNames::read(trace).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let out_of_time = || {
            ReplayStartError::TimeLimit(format!(
                "{}: {directory}: not completely removed: time limit reached; --max-time changes it",
                self.server
            ))
        };
        let removed = self.with_file_client(&mut *transport, &access, containment, &copy, |files, run_directory| {
            removal::remove(files, run_directory, &marker, &created)
        });
        let removed = removed.map_err(|error| match error {
            ReplayStartError::TimeLimit(_) => out_of_time(),
            error => error,
        })?;
        removed.map_err(|error| match &error {
            removal::RunDirectoryRemovalError::Server(
                _,
                FileServerClientError::Call(RpcCallError::DeadlineExceeded),
            ) => out_of_time(),
            removal::RunDirectoryRemovalError::Server(_, problem) if problem.blame().is_some() => {
                failure(format!("{}: {directory}: {error}", self.server), problem.blame())
            }
            _ => ReplayStartError::Usage(anyhow!("{}: {directory}: {error}", self.server)),
        })
    }

    fn directory(&self, trace: &Path, copy: &ReplayClientCopyIdentity) -> String {
        let ReplayClientCopyIdentity { tag, number, .. } = copy;
        let name = trace.file_name().map_or_else(|| "trace".into(), |name| name.to_string_lossy());
        let name = name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("trace");
        let plain: String = name
            .chars()
            .filter(|character| character.is_ascii_alphanumeric() || "-_".contains(*character))
            .take(100)
            .collect();
        let directory = self.directory.clone().unwrap_or_else(|| format!("{plain}-{tag}"));
        if *number > 1 { format!("{directory}-{number}") } else { directory }
    }
    /// Returns `true` if the directory is created through NFSv3: by the URL, or else by the version of the trace.
    fn is_v3(&self, path: &Path, trace: &mut ReplayTraceFileReader) -> Result<bool, ReplayStartError> {
        let first = first_version(trace).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        if let (Some(version), Some(first)) = (self.server.version, first)
            && first != requested_version(version)
        {
            let (used, requested) = (version_text(first), version_text(requested_version(version)));
            return Err(anyhow!(
                "{}: the trace uses {used}, but {} requests {requested}; omit ?vers=",
                path.display(),
                self.server
            )
            .into());
        }
        Ok(match self.server.version {
            Some(version) => version == NfsVersion::V3,
            None => first.is_some_and(|(version, _)| version == 3),
        })
    }

    fn mount_export(&self, address: SocketAddr) -> Result<MountedExport, ReplayStartError> {
        let (_, result) = mount(&self.server, address, &self.connect_options());
        result.map_err(|error| match error {
            MountError::Refused(..) => ReplayStartError::Usage(anyhow!("{}: {error}", self.server)),
            MountError::Failed(_, blame) => ReplayStartError::Call(format!("{}: {error}", self.server), blame),
        })
    }

    /// Returns a client of an NFSv4 server under its own client owner.
    fn open_nfs4_client<'l>(
        &self,
        client: ContainmentCheckedRpcClient<'l>,
        copy: &ReplayClientCopyIdentity,
    ) -> Result<Nfs4Client<'l>, ReplayStartError> {
        let minors = match self.server.version {
            Some(NfsVersion::V4(minor)) => vec![minor],
            _ => vec![2, 1, 0],
        };
        let name = format!("{} {} {}", env!("CARGO_PKG_NAME"), copy.tag, copy.number);
        Nfs4Client::new(client, &name, &minors).map_err(|problem| self.refusal(&problem))
    }

    /// Creates or finds the tree, and marks the directory before and after.
    fn seed_tree(
        &self,
        path: &Path,
        trace: &mut ReplayTraceFileReader,
        files: &mut dyn VersionIndependentNfsClient,
        run_directory: &ServerRunDirectory<'_>,
        seed_mode: SeedMode,
        control: &SeedingControl,
    ) -> Result<SeededTree, ReplayStartError> {
        let name = seeded_directory_markers::trace_marker(trace);
        let on_begin = |files: &mut dyn VersionIndependentNfsClient, home: &[u8]| {
            control.has_begun.set(true);
            seeded_directory_markers::mark_seeding(files, home, &name)
        };
        let error = match seed(trace, files, run_directory, seed_mode, on_begin) {
            Ok(seeded) => {
                if matches!(seed_mode, SeedMode::Make | SeedMode::Complete) {
                    seeded_directory_markers::mark_seeded(files, run_directory, &name)
                        .map_err(|problem| self.refusal(&problem))?;
                }
                return Ok(seeded);
            }
            Err(error) => error,
        };
        Err(match &error {
            // The content of the directory shows its history.
            SeedError::NotEmpty(_) => {
                let content = seeded_directory_markers::describe_content(files, run_directory, &name)
                    .unwrap_or_else(|_| error.to_string());
                ReplayStartError::Usage(anyhow!("{}: {content}", self.server))
            }
            SeedError::Server(_, problem @ (FileServerClientError::Call(_) | FileServerClientError::Busy(..))) => {
                self.refusal(problem)
            }
            SeedError::Server(_, problem) => failure(format!("{}: {error}", self.server), problem.blame()),
            SeedError::Trace(_) => ReplayStartError::Usage(anyhow!("{}: {error}", path.display())),
            _ => ReplayStartError::Usage(anyhow!("{}: {error}", self.server)),
        })
    }

    /// Converts a problem with the server before the replay.
    fn refusal(&self, problem: &FileServerClientError) -> ReplayStartError {
        match problem {
            FileServerClientError::Call(error @ RpcCallError::DeadlineExceeded) => ReplayStartError::TimeLimit(
                format!("{}: {error} before the run began; --max-time changes it", self.server.host),
            ),
            FileServerClientError::Call(error @ RpcCallError::Interrupted) => {
                ReplayStartError::Interrupted(format!("{}: {error} before the run began", self.server.host))
            }
            FileServerClientError::Call(_) | FileServerClientError::Busy(..) => {
                failure(format!("{}: {problem}", self.server.host), problem.blame())
            }
            FileServerClientError::Refused(..) => failure(format!("{}: {problem}", self.server), problem.blame()),
        }
    }
}

/// Returns the error of a party; `None` for a server that refused an operation as it may.
fn failure(text: String, blame: Option<TransportErrorResponsibility>) -> ReplayStartError {
    match blame {
        Some(blame) => ReplayStartError::Call(text, blame),
        None => ReplayStartError::Usage(anyhow!(text)),
    }
}

/// Refuses the captured server, whose files might be in use.
fn reject_captured_server(trace: &ReplayTraceFileReader, address: SocketAddr) -> Result<(), ReplayStartError> {
    let address = address.ip().to_string();
    let mut captured = trace.summary().hosts.iter().filter(|host| host.is_server);
    if captured.any(|host| host.address == address) {
        let message =
            format!("{address}: the capture was taken from this server; name another, or use --allow-source-server");
        return Err(ReplayStartError::Usage(anyhow!(message)));
    }
    Ok(())
}

/// An NFS version, and the minor version of NFSv4.
type NfsVersionAndMinor = (u32, Option<u32>);

/// Returns the version that a URL requests.
fn requested_version(version: NfsVersion) -> NfsVersionAndMinor {
    match version {
        NfsVersion::V3 => (3, None),
        NfsVersion::V4(minor) => (4, Some(minor)),
    }
}

/// Returns the name of a version, e.g. `NFSv4.2`.
fn version_text((version, minor): NfsVersionAndMinor) -> String {
    minor.map_or_else(|| format!("NFSv{version}"), |minor| format!("NFSv{version}.{minor}"))
}

/// Returns the NFS version of the first NFS step.
fn first_version(trace: &mut ReplayTraceFileReader) -> Result<Option<NfsVersionAndMinor>, TraceError> {
    trace.rewind();
    let mut version = None;
    while version.is_none()
        && let Some(step) = trace.next_step()?
    {
        let is_nfs = step.procedure.program == Program::NFS.0 && step.procedure.number != 0;
        let minor = (step.procedure.minor_version != NONE).then_some(step.procedure.minor_version);
        // The minor version of an undecodable COMPOUND is unknown.
        let is_known = matches!(step.procedure.version, 2 | 3) || step.procedure.version == 4 && minor.is_some();
        version = (is_nfs && is_known).then_some((step.procedure.version, minor));
    }
    trace.rewind();
    Ok(version)
}
