//! Probe of a server: the negotiated parameters, its NFS versions, their limits, and its exports.
//!
//! The probe changes nothing on the server. Client IDs and sessions that it needs are destroyed afterwards.

mod mount;
mod v4;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v3::{self, Fsinfo3Resok};
use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::rpc::{Program, Xid};
use nfsrdma_dissectors::xdr::{Encoder, Opaque};
use nfsrdma_rpc::synchronous_client::{RpcCallError, RpcClient, SynchronousProcedureCall};
use nfsrdma_rpc::url::{NfsVersion, ServerUrl};
use nfsrdma_rpc::{
    ConnectOptions, ConnectTarget, DisconnectReason, NegotiatedTransportParams, RdmaFabric, RpcClientConnectionId,
    RpcClientTransport, RpcClientTransportError, RpcClientTransportErrorKind, TransportCredits,
    TransportErrorResponsibility, TransportKind,
};

use crate::nfs4::backoff::Backoff;
use crate::root_credential;
use crate::seed::file_server_client::{FileServerClientError, NfsOperationFailure};

pub use mount::{MountError, MountedExport, ProbedExports, probe_mount as mount};
pub use v4::{Nfs4ProbeReport, Nfs4ServerIdentity, ProbedChannelLimits, ProbedSessionLimits};

/// Number of NULL Calls to time.
const NULL_CALLS: usize = 32;
/// Maximum number of iWARP connections to abandon because the first Call on them gets no Reply. Linux's siw has a race
/// in which the server misses data that directly follows connection setup.
const MAX_ABANDONED_CONNECTIONS: u32 = 1;

/// Number of XIDs for the Calls of NULL that query the versions.
const VERSION_QUERY_XIDS: u32 = 16;

/// Maximum length of FSINFO results in bytes: status, attributes, limits.
const FSINFO: u32 = 4 + 4 + 84 + 48;

/// The result of a probe.
#[derive(Debug)]
pub struct ServerProbeReport {
    /// The address that answered.
    pub address: SocketAddr,
    /// The negotiated parameters.
    pub terms: NegotiatedTransportParams,
    /// The requested and granted credits; `None` on TCP.
    pub credits: Option<TransportCredits>,
    /// Number of Replies with which the server invalidated a handle remotely, and number of all Replies.
    pub invalidations: (u64, u64),
    /// `true` if remote invalidation was requested. `terms` has the negotiated result.
    pub asked_for_invalidation: bool,
    /// Number of earlier connections that were abandoned because their first Call got no Reply.
    pub abandoned_connections: u32,
    /// The latency of NULL Calls.
    pub null: NullCallLatency,
    /// The versions of NFS that answer NULL, in ascending order.
    pub versions: Vec<u32>,
    /// A message if the requested version is not available: the version, and those that the server has.
    pub missing_version_message: Option<String>,
    /// The limits of NFSv3 in bytes (RFC 1813 section 3.3.19), if available and requested: maximum, preferred size and
    /// recommended multiple of READ and WRITE, preferred size of READDIR. Or the reason that there are none.
    pub v3: Option<Result<Fsinfo3Resok, ProbeFailure>>,
    /// The results of each requested minor version of NFSv4; or the reason that there are none.
    pub v4: Vec<(u32, Result<Nfs4ProbeReport, ProbeFailure>)>,
    /// The exports according to MOUNT; or the reason that there are none. `None` if NFSv3 was not probed.
    pub exports: Option<Result<ProbedExports, String>>,
    /// Number of NFS Replies that could not be decoded.
    pub unreadable: u64,
}

/// The reason that a version of NFS has no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    /// Failure, with a remedy.
    pub text: String,
    /// `true` if a server has answered: NFS or MOUNT with a status.
    pub is_answer: bool,
    /// `true` if NULL failed, which concerns all minor versions of NFSv4.
    pub is_of_null: bool,
    /// `true` if NFSv4 answered that it does not have the minor version.
    pub is_minor_version_absent: bool,
    /// The party at fault; `None` if the server refused as it may.
    pub blame: Option<TransportErrorResponsibility>,
}

impl std::fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<FileServerClientError> for ProbeFailure {
    fn from(error: FileServerClientError) -> Self {
        let is_answer = matches!(error, FileServerClientError::Refused(..));
        let is_minor_version_absent = error.status() == Some(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
        Self { text: error.to_string(), is_answer, is_of_null: false, is_minor_version_absent, blame: error.blame() }
    }
}

impl ProbeFailure {
    /// Returns the failure of a Call without results.
    fn of_call(name: &str, error: &RpcCallError) -> Self {
        let text = format!("{name}: {error}");
        let blame = Some(error.blame());
        Self { text, is_answer: false, is_of_null: false, is_minor_version_absent: false, blame }
    }

    /// Returns the failure of the NULL of a version.
    fn of_null(error: &RpcCallError) -> Self {
        Self { is_of_null: true, ..Self::of_call(&v3::Procedure::NULL.to_string(), error) }
    }
}

impl ProbeFailure {
    /// Returns `true` if the server or this program broke the protocol.
    fn is_violation(&self) -> bool {
        self.blame.is_some_and(|blame| blame != TransportErrorResponsibility::Unreachable)
    }

    /// Returns what the failure of this version concerns: NULL is a procedure of all minor versions.
    pub fn concerned_version(&self, version: NfsVersion) -> String {
        match version {
            NfsVersion::V4(_) if self.is_of_null => "NFSv4".to_owned(),
            version => format!("NFSv{version}"),
        }
    }
}

impl ServerProbeReport {
    /// Returns the party at fault if a version has no results: this program, if the server says so about any.
    pub fn blame(&self) -> TransportErrorResponsibility {
        let v3 = self.v3.iter().filter_map(|result| result.as_ref().err());
        let v4 = self.v4.iter().filter_map(|(_, result)| result.as_ref().err());
        let blamed: Vec<_> = v3.chain(v4).filter_map(|failure| failure.blame).collect();
        let is_blamed = |party| blamed.contains(&party);
        match () {
            () if is_blamed(TransportErrorResponsibility::Program) => TransportErrorResponsibility::Program,
            () if is_blamed(TransportErrorResponsibility::Server) || self.unreadable > 0 => {
                TransportErrorResponsibility::Server
            }
            () => TransportErrorResponsibility::Unreachable,
        }
    }

    /// Returns a line for each version whose probe makes the whole fail: the requested one without results, one whose
    /// calls were not answered or only with a delay, one where the server or this program broke the protocol, and all if
    /// none has results.
    pub fn failed_versions(&self, requested: Option<NfsVersion>) -> Vec<String> {
        let v3 = self.v3.iter().map(|result| (NfsVersion::V3, result.as_ref().err()));
        let v4 = self.v4.iter().map(|(minor, result)| (NfsVersion::V4(*minor), result.as_ref().err()));
        let results: Vec<_> = v3.chain(v4).collect();
        if results.is_empty() && self.missing_version_message.is_none() {
            return vec!["the server has neither NFSv3 nor NFSv4".to_owned()];
        }
        let has_results = results.iter().any(|(_, failure)| failure.is_none());
        let failed = results.into_iter().filter_map(|(version, failure)| Some((version, failure?)));
        let failed = failed
            .filter(|(_, failure)| requested.is_some() || !has_results || !failure.is_answer || failure.is_violation());
        let mut lines: Vec<_> =
            failed.map(|(version, failure)| format!("{}: {failure}", failure.concerned_version(version))).collect();
        lines.dedup();
        lines
    }
}

/// The latency of consecutive NULL Calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullCallLatency {
    /// Number of Calls.
    pub calls: usize,
    /// The minimum.
    pub fastest: Duration,
    /// The median.
    pub median: Duration,
}

/// The reason that a probe failed.
#[derive(Debug)]
pub enum ProbeError {
    /// There is no connection.
    Transport(RpcClientTransportError),
    /// The first Call failed: the server, and the error.
    Call(String, RpcCallError),
    /// Over iWARP no first Call got a Reply: the server, the number of connections, and the timeout of each.
    Unanswered(String, u32, Duration),
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Call(server, error) => write!(f, "{server}: {error}{}", advice(error)),
            Self::Unanswered(server, connections, time) => write!(
                f,
                "{server}: {connections} iWARP connections were accepted, but none replied to the first call within {} s; \
                 check the server's log, or raise --timeout",
                time.as_secs_f64()
            ),
        }
    }
}

/// Returns the remedy for a failed first Call, if the error itself has none.
fn advice(error: &RpcCallError) -> &'static str {
    match error {
        RpcCallError::Disconnected(DisconnectReason::Closed | DisconnectReason::Reset) => {
            "; check that an NFS server listens on this port and allows this host"
        }
        _ => "",
    }
}

impl std::error::Error for ProbeError {}

impl ProbeError {
    /// Returns the party at fault.
    pub fn blame(&self) -> TransportErrorResponsibility {
        match self {
            Self::Transport(error) => error.blame(),
            Self::Call(_, error) => error.blame(),
            Self::Unanswered(..) => TransportErrorResponsibility::Unreachable,
        }
    }
}

/// Probes a server.
///
/// # Errors
/// Returns an error if the server is unreachable, or does not speak NFS. Later errors are part of the result.
pub fn probe(
    transport: &mut dyn RpcClientTransport,
    url: &ServerUrl,
    options: &ConnectOptions,
) -> Result<ServerProbeReport, ProbeError> {
    let (ProbeConnection { client: mut line, address, versions }, abandoned) =
        connect_for_probe(transport, url, options)?;
    let server = || format!("{} ({address})", url.host);
    let VersionQueryResult { versions, failed } = versions;
    let newest = versions.iter().max().copied().unwrap_or(url.version.map_or(4, program_version));
    let null = null_time(&mut line, newest, options.timeout).map_err(|error| ProbeError::Call(server(), error))?;

    let is_requested = |version| url.version.is_none_or(|requested| requested == version);
    let failure_of = |number: u32| {
        let error = failed.iter().find(|(version, _)| *version == number).map(|(_, error)| error);
        error.map(ProbeFailure::of_null)
    };
    let (mut v3, mut exports) = (failure_of(3).map(Err), None);
    if versions.contains(&3) && is_requested(NfsVersion::V3) {
        let (probed_exports, mounted) = mount::probe_mount(url, address, options);
        exports = Some(probed_exports);
        let mounted = mounted.map_err(|error| ProbeFailure {
            text: error.to_string(),
            is_answer: matches!(error, MountError::Refused(..)),
            is_of_null: false,
            is_minor_version_absent: false,
            blame: match error {
                MountError::Refused(..) => None,
                MountError::Failed(_, blame) => Some(blame),
            },
        });
        v3 = Some(mounted.and_then(|mounted| probe_v3(&mut line, &mounted.root)));
    }
    let mut v4 = Vec::new();
    for minor in (0..=2).filter(|minor| is_requested(NfsVersion::V4(*minor))) {
        match failure_of(4) {
            Some(failure) => v4.push((minor, Err(failure))),
            None if versions.contains(&4) => {
                v4.push((minor, v4::probe_v4(&mut line, minor, &url.export).map_err(ProbeFailure::from)));
            }
            None => {}
        }
    }

    let answered = url.version.filter(|requested| failure_of(program_version(*requested)).is_none());
    let message = answered.and_then(|requested| absent(requested, &versions, &v4));
    let unreadable = line.undecodable_replies;
    // It may have replaced the first one.
    let connection = line.connection;
    let transport = line.transport();
    let credits = transport.credits(connection);
    let counts = transport.counts(connection).copied().unwrap_or_default();
    let params = transport.params(connection).cloned().ok_or_else(|| {
        ProbeError::Transport(RpcClientTransportError::at(&url.host, Some(address), RpcClientTransportErrorKind::Reset))
    })?;
    transport.disconnect(connection);
    let invalidations = (counts.invalidations, counts.replies);
    Ok(ServerProbeReport {
        address,
        terms: params,
        credits,
        invalidations,
        asked_for_invalidation: options.remote_invalidation,
        abandoned_connections: abandoned,
        null,
        versions,
        missing_version_message: message,
        v3,
        v4,
        exports,
        unreadable,
    })
}

/// A connection whose first Calls were answered.
struct ProbeConnection<'t> {
    client: RpcClient<'t>,
    address: SocketAddr,
    versions: VersionQueryResult,
}

/// The versions of NFS that answer NULL, in ascending order, and those of the requested ones whose NULL failed.
struct VersionQueryResult {
    versions: Vec<u32>,
    failed: Vec<(u32, RpcCallError)>,
}

/// Connects, and queries the versions of NFS; abandons an iWARP connection whose first Call gets no Reply, and tries
/// another. Returns the number of abandoned connections as well.
fn connect_for_probe<'t>(
    transport: &'t mut dyn RpcClientTransport,
    url: &ServerUrl,
    options: &ConnectOptions,
) -> Result<(ProbeConnection<'t>, u32), ProbeError> {
    let mut abandoned = 0;
    loop {
        let (connection, address) = connect(transport, url, options).map_err(ProbeError::Transport)?;
        let server = || format!("{} ({address})", url.host);
        let xid = Xid(std::process::id().rotate_left(16) ^ 0x5052_4f42 ^ abandoned << 12);
        let target = ConnectTarget { address, name: url.host.clone(), options: options.clone() };
        let mut client = new_client(&mut *transport, connection, &target, xid);
        let outcome = versions(&mut client, url.version);
        let connection = client.connection;
        let error = match outcome {
            Ok(versions) => {
                // New XIDs, as a server may cache the Replies of the earlier ones.
                let xid = Xid(xid.0.wrapping_add(VERSION_QUERY_XIDS));
                let client = new_client(transport, connection, &target, xid).with_earlier_xids(VERSION_QUERY_XIDS);
                return Ok((ProbeConnection { client, address, versions }, abandoned));
            }
            Err(error) => error,
        };
        let is_iwarp =
            transport.params(connection).is_some_and(|params| params.kind == TransportKind::Rdma(RdmaFabric::Iwarp));
        let is_silent = transport.counts(connection).is_some_and(|counts| counts.replies == 0);
        match error {
            RpcCallError::Timeout(timeout) if is_iwarp && is_silent => {
                transport.disconnect(connection);
                abandoned += 1;
                if abandoned > MAX_ABANDONED_CONNECTIONS {
                    return Err(ProbeError::Unanswered(server(), abandoned, timeout));
                }
            }
            error => return Err(ProbeError::Call(server(), error)),
        }
    }
}

fn new_client<'t>(
    transport: &'t mut dyn RpcClientTransport,
    connection: RpcClientConnectionId,
    target: &ConnectTarget,
    xid: Xid,
) -> RpcClient<'t> {
    RpcClient::new(transport, connection, root_credential(), xid, target.options.timeout)
        .with_reconnect_after_close(target)
}

/// Returns the version of the NFS program.
fn program_version(version: NfsVersion) -> u32 {
    match version {
        NfsVersion::V3 => 3,
        NfsVersion::V4(_) => 4,
    }
}

/// Returns the message for a requested version that is not available.
fn absent(
    requested: NfsVersion,
    versions: &[u32],
    v4: &[(u32, Result<Nfs4ProbeReport, ProbeFailure>)],
) -> Option<String> {
    let number = program_version(requested);
    let supported: Vec<String> = versions.iter().map(u32::to_string).collect();
    let supported = supported.join(" and ");
    let is_mismatch = |report: &(u32, Result<Nfs4ProbeReport, ProbeFailure>)| {
        report.1.as_ref().is_err_and(|failure| failure.is_minor_version_absent)
    };
    match requested {
        _ if !versions.contains(&number) => Some(format!("NFSv{requested}: not supported; the server has {supported}")),
        NfsVersion::V4(_) if v4.iter().any(is_mismatch) => {
            Some(format!("NFSv{requested}: not supported; the server has {supported}, without that minor version"))
        }
        _ => None,
    }
}

/// Connects to the first address of the host that accepts the connection.
///
/// # Errors
/// Returns the error of the last address.
pub fn connect(
    transport: &mut dyn RpcClientTransport,
    url: &ServerUrl,
    options: &ConnectOptions,
) -> Result<(RpcClientConnectionId, SocketAddr), RpcClientTransportError> {
    let addresses = url
        .resolve()
        .map_err(|error| RpcClientTransportError::at(&url.host, None, RpcClientTransportErrorKind::Name(error)))?;
    let mut last_error = RpcClientTransportError::at(&url.host, None, RpcClientTransportErrorKind::NoRoute);
    for address in addresses {
        let target = ConnectTarget { address, name: url.host.clone(), options: options.clone() };
        match transport.connect(&target) {
            Ok(connection) => return Ok((connection, address)),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// Queries the versions of NFS with NULL.
///
/// # Errors
/// Returns the first error if no version answers, or if the connection cannot be used any further.
fn versions(client: &mut RpcClient<'_>, requested: Option<NfsVersion>) -> Result<VersionQueryResult, RpcCallError> {
    let (mut versions, mut failed) = (Vec::new(), Vec::new());
    for version in [4, 3, 2] {
        match null(client, version) {
            Ok(()) => versions.push(version),
            Err(error) if error.is_final() => return Err(error),
            // The range that the server reports may have gaps, so each version is tried.
            Err(RpcCallError::Versions(..) | RpcCallError::Denied(_)) => {}
            Err(error @ RpcCallError::Rpc(_))
                if version == 2 || error.blame() == TransportErrorResponsibility::Unreachable => {}
            Err(error) if requested.is_none_or(|requested| program_version(requested) == version) => {
                failed.push((version, error));
            }
            Err(_) => {}
        }
    }
    if versions.is_empty() && !failed.is_empty() {
        return Err(failed.swap_remove(0).1);
    }
    versions.sort_unstable();
    Ok(VersionQueryResult { versions, failed })
}

fn null(client: &mut RpcClient<'_>, version: u32) -> Result<(), RpcCallError> {
    client.call(&SynchronousProcedureCall::new(Program::NFS, version, 0, 0), |_: &mut Encoder| {}, |_| Ok(()))
}

/// Measures the latency of NULL: sequential Calls until `NULL_CALLS` are done or `max_time` has passed, but at least
/// one.
fn null_time(client: &mut RpcClient<'_>, version: u32, max_time: Duration) -> Result<NullCallLatency, RpcCallError> {
    let mut times = Vec::with_capacity(NULL_CALLS);
    let started = Instant::now();
    while times.is_empty() || (times.len() < NULL_CALLS && started.elapsed() < max_time) {
        null(client, version)?;
        times.push(client.last_latency);
    }
    times.sort_unstable();
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    Ok(NullCallLatency { calls: times.len(), fastest: at(0), median: at(times.len() / 2) })
}

/// Queries the limits of a file system in NFSv3 with FSINFO. RFC 1813 section 3.3.19.
fn probe_v3(client: &mut RpcClient<'_>, root: &[u8]) -> Result<Fsinfo3Resok, ProbeFailure> {
    let arguments = v3::Args::FSINFO(v3::Fsroot3Args { fsroot: Opaque(root) });
    let mut backoff = Backoff::default();
    loop {
        let result = client.call(
            &SynchronousProcedureCall::new(Program::NFS, 3, v3::Procedure::FSINFO.number().0, FSINFO),
            |encoder| arguments.encode(encoder),
            |cursor| {
                Ok(match v3::Results::decode(v3::Procedure::FSINFO, cursor, &mut NullFieldObserver)? {
                    v3::Results::FSINFO(StatusUnion::Ok(limits)) => Ok(limits),
                    v3::Results::FSINFO(failed) => Err(failed.status()),
                    _ => Err(v3::Nfsstat3::NFS3ERR_SERVERFAULT),
                })
            },
        );
        let name = v3::Procedure::FSINFO.to_string();
        let failure = match result {
            Ok(Ok(limits)) => return Ok(limits),
            Ok(Err(v3::Nfsstat3::NFS3ERR_JUKEBOX)) => match backoff.next_wait() {
                Some(wait) => {
                    std::thread::sleep(wait);
                    continue;
                }
                None => {
                    let reason = NfsOperationFailure::V3(v3::Nfsstat3::NFS3ERR_JUKEBOX);
                    FileServerClientError::Busy(name, reason, backoff.waited_seconds())
                }
            },
            Ok(Err(status)) => FileServerClientError::Refused(name, NfsOperationFailure::of_v3(status)),
            Err(error) => {
                return Err(ProbeFailure::of_call(&name, &error));
            }
        };
        return Err(failure.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use nfsrdma_rpc::tcp::TcpTransport;

    use super::*;

    /// Serves NFSv3 and MOUNT on a port: every Call gets the words of `reply_words` for program, version and procedure
    /// after XID, REPLY, MSG_ACCEPTED and an empty AUTH_NONE verifier.
    fn serve(reply_words: fn([u32; 3]) -> Vec<u32>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                thread::spawn(move || {
                    let mut mark = [0; 4];
                    while stream.read_exact(&mut mark).is_ok() {
                        let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
                        stream.read_exact(&mut call).unwrap();
                        let word = |at: usize| u32::from_be_bytes(call[at * 4..at * 4 + 4].try_into().unwrap());
                        let mut words = vec![word(0), 1, 0, 0, 0];
                        words.extend(reply_words([3, 4, 5].map(word)));
                        let length = 0x8000_0000 | (words.len() * 4) as u32;
                        let record = std::iter::once(length).chain(words).flat_map(u32::to_be_bytes);
                        stream.write_all(&record.collect::<Vec<_>>()).unwrap();
                    }
                });
            }
        });
        port
    }

    /// A server with NFSv3 and MOUNT, whose NULL of NFSv4 ends with `V4`; other versions are PROG_UNAVAIL.
    fn v3_server<const V4: u32>([program, version, procedure]: [u32; 3]) -> Vec<u32> {
        match [program, version, procedure] {
            [100_003, 4, 0] => vec![V4],
            [100_003, 3, 0] | [100_005, 3, 3] => vec![0],
            // An empty list of exports; a filehandle of 4 bytes and AUTH_SYS.
            [100_005, 3, 5] => vec![0, 0],
            [100_005, 3, 1] => vec![0, 0, 4, 7, 1, 1],
            // FSINFO without attributes: seven sizes, maxfilesize, time_delta and properties.
            [100_003, 3, 19] => vec![0, 0, 0, 65_536, 65_536, 1, 65_536, 65_536, 1, 4096, 1, 0, 0, 1, 0x1b],
            _ => vec![1],
        }
    }

    fn probe_port(port: u16, version: &str) -> Result<ServerProbeReport, ProbeError> {
        let url = format!("tcp://127.0.0.1:{port}/?mountport={port}{version}").parse().unwrap();
        let options = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
        probe(&mut TcpTransport::new(), &url, &options)
    }

    /// RFC 5531 section 9: PROC_UNAVAIL 3, GARBAGE_ARGS 4. Both are noted for the version that has them.
    #[test]
    fn failed_null_leaves_other_versions() {
        let cases = [
            (serve(v3_server::<3>), TransportErrorResponsibility::Server),
            (serve(v3_server::<4>), TransportErrorResponsibility::Program),
        ];
        for (port, blame) in cases {
            let report = probe_port(port, "").unwrap();
            assert_eq!(report.versions, [3]);
            assert!(matches!(report.v3, Some(Ok(_))), "{:?}", report.v3);
            let failed = report.failed_versions(None);
            assert!(failed.len() == 1 && failed[0].starts_with("NFSv4: NULL: "), "once for all minors: {failed:?}");
            assert_eq!(report.v4.iter().filter(|(_, result)| result.is_err()).count(), 3);
            assert_eq!((report.blame(), report.missing_version_message), (blame, None));
            let report = probe_port(port, "&vers=3").unwrap();
            assert_eq!((report.failed_versions(Some(NfsVersion::V3)), report.missing_version_message), (vec![], None));
            let report = probe_port(port, "&vers=4.1").unwrap();
            assert_eq!(report.failed_versions(Some(NfsVersion::V4(1))).len(), 1);
            assert_eq!((report.blame(), report.missing_version_message), (blame, None));
        }
        // PROG_UNAVAIL.
        let port = serve(v3_server::<1>);
        let report = probe_port(port, "").unwrap();
        assert_eq!((report.versions.as_slice(), report.failed_versions(None)), (&[3][..], vec![]));
    }

    /// A server with NFSv3, MOUNT and NFSv4, whose COMPOUNDs have this status and no results.
    fn v4_server<const STATUS: u32>(call: [u32; 3]) -> Vec<u32> {
        match call {
            [100_003, 4, 0] => vec![0],
            [100_003, 4, 1] => vec![0, STATUS, 0, 0],
            call => v3_server::<1>(call),
        }
    }

    /// RFC 8881 section 16.2.4: results of NFSv3 make up for a refusal in NFSv4 (NFS4ERR_MINOR_VERS_MISMATCH), but not
    /// for NFS4ERR_NOTEMPTY, which a COMPOUND without results cannot have, and NFS4ERR_BADXDR.
    #[test]
    fn violation_in_one_version_fails_probe() {
        let report = probe_port(serve(v4_server::<10_021>), "").unwrap();
        assert_eq!((report.versions.as_slice(), report.failed_versions(None)), (&[3, 4][..], vec![]));
        for (port, blame) in [
            (serve(v4_server::<66>), TransportErrorResponsibility::Server),
            (serve(v4_server::<10_036>), TransportErrorResponsibility::Program),
        ] {
            let report = probe_port(port, "").unwrap();
            assert!(matches!(report.v3, Some(Ok(_))), "{:?}", report.v3);
            assert_eq!((report.failed_versions(None).len(), report.blame()), (3, blame), "{report:?}");
        }
    }

    /// RFC 5531 section 9: PROC_UNAVAIL 3.
    #[test]
    fn probe_without_any_version_fails() {
        let error = probe_port(serve(|_| vec![3]), "").unwrap_err();
        assert_eq!(error.blame(), TransportErrorResponsibility::Server, "{error}");
    }

    /// RFC 8178 section 4.1: the status decides, and not the text of another failure.
    #[test]
    fn minor_version_is_absent_by_status() {
        let failure = |status: Nfsstat4| {
            let reason = NfsOperationFailure::V4(status);
            ProbeFailure::from(FileServerClientError::Refused("SEQUENCE".to_owned(), reason))
        };
        let absent = |failure: ProbeFailure| absent(NfsVersion::V4(2), &[3, 4], &[(2, Err(failure))]).is_some();
        let of_text = ProbeFailure {
            text: format!("{} in a name", Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH),
            ..failure(Nfsstat4::NFS4ERR_ACCESS)
        };
        assert!(absent(failure(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH)));
        assert!(!absent(failure(Nfsstat4::NFS4ERR_ACCESS)) && !absent(of_text));
    }
}
