//! What a server offers: what was agreed on with it, its versions of NFS, their limits, and its exports.
//!
//! Nothing is changed on the server. A client ID and a session that are needed to ask are given back.

mod mount;
mod v3;
mod v4;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::rpc::{AcceptStat, Program, RpcReplyStatus, Xid};
use nfsrdma_dissectors::xdr::Encoder;

use super::rpc_client::{AuthSysCredential, ProcedureCall, RpcCallError, RpcClient};
use super::transport::{
    ConnectOptions, ConnectTarget, ConnectionId, DisconnectReason, RdmaFabric, RpcTransport,
    RpcTransportError, RpcTransportErrorKind, TransportCredits, TransportKind, TransportParams,
};
use super::url::{NfsVersion, ServerUrl};

pub use mount::{MountError, MountedExport, ProbedExports, ask as mount};
pub use v3::Nfs3ProbeReport;
pub use v4::{ChannelLimits, Nfs4ProbeReport, Nfs4ServerIdentity, ProbedSessionLimits};

/// NULL Calls of which the time is taken.
const NULLS: usize = 32;
/// Connections over iWARP that are given up because the first Call on them has no Reply. Linux's siw has a race in which the
/// server does not see what comes right behind the set-up of a connection.
const GIVEN_UP: u32 = 1;

/// What was found out about a server.
#[derive(Debug)]
pub struct ServerProbe {
    /// The address that answered.
    pub address: SocketAddr,
    /// What was agreed on.
    pub terms: TransportParams,
    /// Credits that were asked for and granted; `None` on TCP.
    pub credits: Option<TransportCredits>,
    /// Replies with which the server invalidated a handle remotely, of so many.
    pub invalidations: (u64, u64),
    /// Whether the server was to be told that it may. The terms have what it was told.
    pub asked_for_invalidation: bool,
    /// Connections before this one whose first Call had no Reply, and which were given up.
    pub given_up: u32,
    /// How long a NULL Call takes.
    pub null: NullCallLatency,
    /// The versions of NFS that answer NULL, or lie in the range that the server says it has.
    pub versions: Vec<u32>,
    /// What was asked for and is not there: the version, and what the server has instead.
    pub absent: Option<String>,
    /// NFSv3, where the server has it and it was asked for; or why it says nothing.
    pub v3: Option<Result<Nfs3ProbeReport, String>>,
    /// The minor versions of NFSv4 that were asked for; or why one says nothing.
    pub v4: Vec<(u32, Result<Nfs4ProbeReport, String>)>,
    /// What MOUNT says is exported; or why it says nothing. `None` where NFSv3 was not asked about.
    pub exports: Option<Result<ProbedExports, String>>,
    /// Replies of NFS that could not be read: what the server is it does not say.
    pub unreadable: u64,
}

/// How long NULL Calls took, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullCallLatency {
    /// How many there were.
    pub calls: usize,
    /// The fastest.
    pub fastest: Duration,
    /// The one in the middle.
    pub median: Duration,
}

/// Why nothing was found out.
#[derive(Debug)]
pub enum ProbeError {
    /// There is no connection.
    Transport(RpcTransportError),
    /// There is one, but not the first Call gets its Reply. Where, and why.
    Call(String, RpcCallError),
    /// There were several over iWARP, and no first Call got its Reply. Where, how many, and how long each was waited for.
    Unanswered(String, u32, Duration),
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Call(place, error) => write!(f, "{place}: {error}{}", advice(error)),
            Self::Unanswered(place, connections, time) => write!(
                f,
                "{place}: the server took {connections} connections over iWARP, and answered the first Call of none within {} s; \
                 see the server's log, or give it longer (--timeout)",
                time.as_secs_f64()
            ),
        }
    }
}

/// What to do about a first Call that fails, where its error does not say.
fn advice(error: &RpcCallError) -> &'static str {
    match error {
        RpcCallError::Rpc(RpcReplyStatus::Accepted(AcceptStat::PROG_UNAVAIL)) => {
            "; what listens there speaks RPC, but has no NFS: check the port, and that the NFS server runs"
        }
        RpcCallError::Rpc(RpcReplyStatus::Accepted(AcceptStat::SYSTEM_ERR)) => "; see the server's log",
        RpcCallError::Denied(_) => {
            "; the server refuses AUTH_SYS: check the security of the export (sec=), and whether this host may"
        }
        RpcCallError::Disconnected(DisconnectReason::Closed | DisconnectReason::Reset) => {
            "; check that an NFS server listens on this port, and that this host may connect"
        }
        _ => "",
    }
}

impl std::error::Error for ProbeError {}

impl ProbeError {
    /// Who is to blame.
    pub fn blame(&self) -> super::transport::TransportBlame {
        match self {
            Self::Transport(error) => error.blame(),
            Self::Call(_, error) => error.blame(),
            Self::Unanswered(..) => super::transport::TransportBlame::Unreachable,
        }
    }
}

/// Asks a server what it offers.
///
/// # Errors
/// Where it cannot be reached, or does not speak NFS. What goes wrong later is part of what was found out.
pub fn probe(
    transport: &mut dyn RpcTransport,
    url: &ServerUrl,
    wish: &ConnectOptions,
) -> Result<ServerProbe, ProbeError> {
    let (ProbeConnection { mut line, address, versions }, given_up) = stand(transport, url, wish)?;
    let connection = line.connection;
    let place = || format!("{} ({address})", url.host);
    let newest = versions.iter().max().copied().unwrap_or(4);
    let null =
        null_time(&mut line, newest, wish.timeout).map_err(|error| ProbeError::Call(place(), error))?;

    let is_asked = |version| url.version.is_none_or(|asked| asked == version);
    let (mut v3, mut exports) = (None, None);
    if versions.contains(&3) && is_asked(NfsVersion::V3) {
        let (found, mounted) = mount::ask(url, address, wish);
        exports = Some(found);
        let mounted = mounted.map_err(|error| error.to_string());
        v3 = Some(mounted.and_then(|mounted| v3::ask(&mut line, &mounted.root)));
    }
    let mut v4 = Vec::new();
    if versions.contains(&4) {
        for minor in (0..=2).filter(|minor| is_asked(NfsVersion::V4(*minor))) {
            v4.push((minor, v4::ask(&mut line, minor, &url.export)));
        }
    }

    let absent = url.version.and_then(|asked| absent(asked, &versions, &v4));
    let unreadable = line.unreadable;
    let transport = line.transport();
    let credits = transport.credits(connection);
    let counts = transport.counts(connection).copied().unwrap_or_default();
    let terms = transport.terms(connection).cloned().ok_or_else(|| gone(url, address))?;
    transport.disconnect(connection);
    let invalidations = (counts.invalidations, counts.replies);
    Ok(ServerProbe {
        address,
        terms,
        credits,
        invalidations,
        asked_for_invalidation: wish.remote_invalidation,
        given_up,
        null,
        versions,
        absent,
        v3,
        v4,
        exports,
        unreadable,
    })
}

/// A connection on which the first Calls were answered.
struct ProbeConnection<'t> {
    line: RpcClient<'t>,
    address: SocketAddr,
    versions: Vec<u32>,
}

/// Connects, and asks for the versions of NFS; over iWARP on another connection where the first Call of one has no Reply. How many were
/// given up.
fn stand<'t>(
    transport: &'t mut dyn RpcTransport,
    url: &ServerUrl,
    wish: &ConnectOptions,
) -> Result<(ProbeConnection<'t>, u32), ProbeError> {
    let mut given_up = 0;
    loop {
        let (connection, address) = connect(transport, url, wish).map_err(ProbeError::Transport)?;
        let place = || format!("{} ({address})", url.host);
        let xid = Xid(std::process::id().rotate_left(16) ^ 0x5052_4f42 ^ given_up << 12);
        let mut line =
            RpcClient::new(&mut *transport, connection, AuthSysCredential::default(), xid, wish.timeout);
        let error = match versions(&mut line) {
            Ok(versions) => {
                // A server may remember the Replies of the XIDs before.
                let xid = Xid(xid.0.wrapping_add(16));
                let line =
                    RpcClient::new(transport, connection, AuthSysCredential::default(), xid, wish.timeout);
                return Ok((ProbeConnection { line, address, versions }, given_up));
            }
            Err(error) => error,
        };
        let is_iwarp = transport
            .terms(connection)
            .is_some_and(|terms| terms.kind == TransportKind::Rdma(RdmaFabric::Iwarp));
        let is_silent = transport.counts(connection).is_some_and(|counts| counts.replies == 0);
        match error {
            RpcCallError::Timeout(time) if is_iwarp && is_silent => {
                transport.disconnect(connection);
                given_up += 1;
                if given_up > GIVEN_UP {
                    return Err(ProbeError::Unanswered(place(), given_up, time));
                }
            }
            error => return Err(ProbeError::Call(place(), error)),
        }
    }
}

/// What is said of a version that was asked for and is not there.
fn absent(
    asked: NfsVersion,
    versions: &[u32],
    v4: &[(u32, Result<Nfs4ProbeReport, String>)],
) -> Option<String> {
    let number = match asked {
        NfsVersion::V3 => 3,
        NfsVersion::V4(_) => 4,
    };
    let has: Vec<String> = versions.iter().map(u32::to_string).collect();
    let has = has.join(" and ");
    let mismatch = Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH.to_string();
    let is_mismatch = |found: &(u32, Result<Nfs4ProbeReport, String>)| {
        found.1.as_ref().is_err_and(|error| error.contains(&mismatch))
    };
    match asked {
        _ if !versions.contains(&number) => Some(format!("NFSv{asked}: not there; the server has {has}")),
        NfsVersion::V4(_) if v4.iter().any(is_mismatch) => {
            Some(format!("NFSv{asked}: not there; the server has {has}, without that minor version"))
        }
        _ => None,
    }
}

fn gone(url: &ServerUrl, address: SocketAddr) -> ProbeError {
    ProbeError::Transport(RpcTransportError::at(&url.host, Some(address), RpcTransportErrorKind::Reset))
}

/// Connects to the first address of the host that takes it.
///
/// # Errors
/// Of the last address that was tried.
pub fn connect(
    transport: &mut dyn RpcTransport,
    url: &ServerUrl,
    wish: &ConnectOptions,
) -> Result<(ConnectionId, SocketAddr), RpcTransportError> {
    let addresses = url
        .resolve()
        .map_err(|error| RpcTransportError::at(&url.host, None, RpcTransportErrorKind::Name(error)))?;
    let mut last = RpcTransportError::at(&url.host, None, RpcTransportErrorKind::NoRoute);
    for address in addresses {
        let target = ConnectTarget { address, name: url.host.clone(), wish: wish.clone() };
        match transport.connect(&target) {
            Ok(connection) => return Ok((connection, address)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Which versions of NFS there are.
fn versions(line: &mut RpcClient<'_>) -> Result<Vec<u32>, RpcCallError> {
    let mut found = Vec::new();
    for version in [4, 3, 2] {
        match null(line, version) {
            Ok(()) => found.push(version),
            Err(RpcCallError::Versions(low, high)) => {
                // Servers name the lowest and the highest, and what is between may still not be there.
                if high < version && low >= version {
                    break;
                }
            }
            Err(RpcCallError::Rpc(_) | RpcCallError::Denied(_)) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn null(line: &mut RpcClient<'_>, version: u32) -> Result<(), RpcCallError> {
    line.call(&ProcedureCall::new(Program::NFS, version, 0, 0), |_: &mut Encoder| {}, |_| Ok(()))
}

/// The time of NULL: of as many as come back within this time, of which the first counts however long it takes.
fn null_time(
    line: &mut RpcClient<'_>,
    version: u32,
    most: Duration,
) -> Result<NullCallLatency, RpcCallError> {
    let mut times = Vec::with_capacity(NULLS);
    let started = Instant::now();
    while times.is_empty() || (times.len() < NULLS && started.elapsed() < most) {
        match null(line, version) {
            Ok(()) => times.push(line.took),
            Err(error) => return Err(error),
        }
    }
    times.sort_unstable();
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    Ok(NullCallLatency { calls: times.len(), fastest: at(0), median: at(times.len() / 2) })
}
