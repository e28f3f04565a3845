//! The server of a run: where it is, and that it is not the captured one by accident.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use nfsrdma_dissectors::rpc::{Program, Xid};

use crate::analysis::comparison::record::hash;
use crate::replay::caller::{Caller, Line};
use crate::replay::probe::{connect, mount};
use crate::replay::seed::files::{Files, Kind, Problem};
use crate::replay::seed::v3::V3;
use crate::replay::seed::v4::V4;
use crate::replay::seed::{How, Place, SeedError, Seeded, TREE, seed};
use crate::replay::trace::{Trace, TraceError};
use crate::replay::transport::{Blame, Target, Transport, TransportError, Wish, open};
use crate::replay::url::{NfsVersion, Url, UrlError};

/// Where a trace runs.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    #[arg(long, value_name = "URL", value_parser = parse_url,
        help = "The server: rdma://HOST[:20049]/EXPORT or tcp://HOST[:2049]/EXPORT, with ?vers=3|4.0|4.1|4.2 and &mountport=PORT")]
    pub(super) server: Url,

    /// The directory of the run, in the export; made where it is not there (default: the name of the trace, and letters
    /// that no other run has)
    #[arg(long, value_name = "NAME")]
    pub(super) directory: Option<String>,

    /// Use the directory though something is in it
    #[arg(long)]
    pub(super) into_existing: bool,

    /// Use the server though the capture is of it
    #[arg(long)]
    pub(super) same_server: bool,

    /// Seconds that a connection and a Reply may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = parse_seconds)]
    pub(super) timeout: f64,

    /// Credits to ask for, over RDMA
    #[arg(long, value_name = "COUNT", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(super) credits: u32,

    /// Bytes that this side can send and receive inline, over RDMA: 1024 to 262144
    #[arg(long, value_name = "BYTES", default_value_t = 4096,
        value_parser = clap::value_parser!(u32).range(1024..=262_144))]
    pub(super) inline: u32,
}

fn parse_url(text: &str) -> Result<Url, UrlError> {
    text.parse()
}

pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=86400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.001 to 86400".into()),
    }
}

/// A trace file that is read.
pub(super) type TraceFile = Trace<BufReader<File>>;

/// Opens a trace.
pub(super) fn open_trace(path: &Path) -> Result<TraceFile> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("{name}: cannot open"))?;
    Trace::open(BufReader::new(file)).map_err(|error| anyhow!("{name}: {error}"))
}

/// Letters that no other run has.
pub(super) fn tag() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = format!("{} {}", now.as_nanos(), std::process::id());
    format!("{:08x}", hash(seed.as_bytes()) as u32)
}

/// Why a run cannot begin, and who is to blame.
#[derive(Debug)]
pub(super) enum Refused {
    /// The server or the transport.
    Unreachable(String, Blame),
    /// The arguments or the trace.
    Usage(anyhow::Error),
}

impl From<TransportError> for Refused {
    fn from(error: TransportError) -> Self {
        Self::Unreachable(error.to_string(), error.blame())
    }
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        Self::Usage(error)
    }
}

/// The directory that says that seeding a run's directory came to its end; in it another names the trace.
const SEEDED: &str = "seeded";

/// Names a trace among others: the same captures, compiled to the same steps.
fn name_of(trace: &TraceFile) -> String {
    let summary = trace.summary();
    let text = format!("{:?} {:?} {:?}", summary.captures, summary.hosts, summary.end);
    format!("trace-{:016x}", hash(text.as_bytes()) as u64)
}

/// Notes in the run's directory that it was seeded, and for which trace.
fn mark(files: &mut dyn Files, place: &Place<'_>, trace: &str) -> Result<(), Problem> {
    let export = files.export(place.export)?;
    let Some(mut at) = files.lookup(&export, place.directory.as_bytes())? else { return Ok(()) };
    for name in [SEEDED, trace] {
        at = match files.lookup(&at, name.as_bytes())? {
            Some(there) => there,
            None => files.make(&at, name.as_bytes(), Kind::Directory, 0o755)?,
        };
    }
    Ok(())
}

/// What a directory holds that is not empty, and what can be done.
fn found(files: &mut dyn Files, place: &Place<'_>, trace: &str) -> Result<String, Problem> {
    let name = place.directory;
    let export = files.export(place.export)?;
    let run = files.lookup(&export, name.as_bytes())?.unwrap_or_default();
    let is_of_run = files.lookup(&run, TREE.as_bytes())?.is_some();
    let seeded = files.lookup(&run, SEEDED.as_bytes())?;
    let is_same = match &seeded {
        Some(seeded) => files.lookup(seeded, trace.as_bytes())?.is_some(),
        None => false,
    };
    let what = match (is_of_run, seeded) {
        (false, _) => "no run of this program has left what is in it",
        (true, None) => "a run was ended in it before its tree was whole",
        (true, Some(_)) if is_same => "it was seeded for this trace, and may have been run in since",
        (true, Some(_)) => "it was seeded for another trace, and may have been run in since",
    };
    let then = match (is_of_run, is_same) {
        (false, _) => "name another directory, or say --into-existing to make the tree beside it",
        (true, true) => {
            "name another directory, remove it, or say --seeded to run in it as it is, --into-existing to complete it"
        }
        (true, false) => "name another directory, remove it, or say --into-existing to complete it",
    };
    Ok(format!("{name}: is there and not empty: {what}; {then}"))
}

/// One of several copies of the captured clients.
pub(super) struct Copy {
    /// Letters that no other run has.
    pub(super) tag: String,
    /// Which, from 1.
    pub(super) number: u32,
}

impl Copy {
    /// The only one.
    pub(super) fn only() -> Self {
        Self { tag: tag(), number: 1 }
    }
}

/// The place of a run, ready to be used.
pub(super) struct Ready {
    pub(super) transport: Box<dyn Transport>,
    pub(super) target: Target,
    pub(super) directory: String,
    pub(super) tag: String,
    pub(super) seeded: Seeded,
}

impl ServerArgs {
    /// A server with everything else as it is by itself.
    pub(super) fn at(server: Url) -> Self {
        let timeout = 30.0;
        Self {
            server,
            directory: None,
            into_existing: false,
            same_server: false,
            timeout,
            credits: 128,
            inline: 4096,
        }
    }

    fn wish(&self) -> Wish {
        Wish {
            send_size: self.inline,
            receive_size: self.inline,
            credits: self.credits,
            timeout: Duration::from_secs_f64(self.timeout),
            ..Wish::default()
        }
    }

    /// The name of the run's directory.
    fn directory(&self, trace: &Path, copy: &Copy) -> String {
        let Copy { tag, number } = copy;
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

    /// Connects, and makes the tree of a trace or finds it.
    pub(super) fn ready(
        &self,
        path: &Path,
        trace: &mut TraceFile,
        how: How,
        copy: &Copy,
    ) -> Result<Ready, Refused> {
        let tag = copy.tag.clone();
        let mut transport = open(self.server.carrier)?;
        let (connection, address) = connect(&mut *transport, &self.server, &self.wish())?;
        let captured = trace.summary().hosts.iter().filter(|host| host.is_server);
        if !self.same_server
            && let Some(host) = captured.into_iter().find(|host| host.address == address.ip().to_string())
        {
            let what = format!(
                "{}: the capture is of this server; name another, or say --same-server",
                host.address
            );
            return Err(Refused::Usage(anyhow!(what)));
        }
        let target = Target { address, name: self.server.host.clone(), wish: self.wish() };
        let directory = self.directory(path, copy);
        let xid = Xid(hash(directory.as_bytes()) as u32);
        let timeout = self.wish().timeout;
        let line = Line::new(&mut *transport, connection, Caller::default(), xid, timeout);
        let is_v3 = match self.server.version {
            Some(version) => version == NfsVersion::V3,
            None => first_version(trace).map_err(|error| anyhow!("{}: {error}", path.display()))? == Some(3),
        };
        let minors: &[u32] = match self.server.version {
            Some(NfsVersion::V4(0)) => &[0],
            Some(NfsVersion::V4(1)) => &[1],
            _ => &[2, 1, 0],
        };
        let name = format!("{} {tag} {}", env!("CARGO_PKG_NAME"), copy.number);
        let problem = |problem: &Problem| match problem {
            Problem::Call(error) => {
                Refused::Unreachable(format!("{}: {error}", self.server.host), error.blame())
            }
            Problem::Refused(..) => Refused::Usage(anyhow!("{}: {problem}", self.server)),
        };
        let (export, mut mounted) = (&self.server.export, None);
        let mut files: Box<dyn Files + '_> = if is_v3 {
            let (exports, root) = mount(&self.server, address, &self.wish());
            // What is mounted of `/` is the first export.
            let first = exports.ok().and_then(|exports| exports.list.into_iter().next());
            mounted = first.map(|(path, _)| path).filter(|_| export == "/");
            let root = root.map_err(|error| anyhow!("{}: {error}", self.server))?;
            Box::new(V3::new(line, root))
        } else {
            Box::new(V4::new(line, &name, minors).map_err(|error| problem(&error))?)
        };
        let place = Place { export: mounted.as_ref().unwrap_or(export), directory: &directory };
        let id = name_of(trace);
        let seeded = seed(trace, &mut *files, &place, how);
        // Only what it holds can tell how a directory came to be.
        let told = match (&seeded, how) {
            (Err(SeedError::NotEmpty(_)), _) => found(&mut *files, &place, &id).ok(),
            (Ok(_), How::Make | How::Complete) => {
                mark(&mut *files, &place, &id).map_err(|error| problem(&error))?;
                None
            }
            _ => None,
        };
        files.leave();
        drop(files);
        if let Some(told) = told {
            return Err(Refused::Usage(anyhow!("{}: {told}", self.server)));
        }
        let seeded = seeded.map_err(|error| match &error {
            SeedError::Server(_, problem @ Problem::Call(_)) => {
                let Problem::Call(error) = problem else { return Refused::Usage(anyhow!("{error}")) };
                Refused::Unreachable(format!("{}: {error}", self.server.host), error.blame())
            }
            SeedError::Trace(_) => Refused::Usage(anyhow!("{}: {error}", path.display())),
            _ => Refused::Usage(anyhow!("{}: {error}", self.server)),
        })?;
        transport.disconnect(connection);
        Ok(Ready { transport, target, directory, tag, seeded })
    }
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

impl Refused {
    /// Tells it, and gives the exit code.
    pub(super) fn tell(self) -> Result<crate::cli::Exit> {
        match self {
            Self::Unreachable(what, blame) => {
                crate::cli::complain(what);
                Ok(blame.into())
            }
            Self::Usage(error) => bail!(error),
        }
    }
}
