//! Probe of a minor version of NFSv4: limits of the file system, root entries, and from 4.1 on session limits.

use std::time::{SystemTime, UNIX_EPOCH};

use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::nfs::v4::{
    Args, Attribute, Attributes, Bitmap4, ChannelAttrs4, CreateSessionFlags, ExchangeId4Resok, ExchangeIdFlags,
    Getattr4Args, Lookup4Args, NfsFtype4, Nfsstat4, Operation, Readdir4Args, Results, words_for_bits,
};
use nfsrdma_dissectors::xdr::{Text, Void};
use nfsrdma_rpc::synchronous_client::RpcClient;

use crate::nfs4::caller::Caller;
use crate::nfs4::client::Client;
use crate::nfs4::operations::channel;
use crate::seed::file_server_client::{FileServerClientError, FileServerClientResult};

/// Maximum length in bytes of each part of a directory listing.
const LISTING: u32 = 8 << 10;
/// Maximum number of root entries to return.
const ENTRIES: usize = 1000;
/// Requested session limit in bytes: more than servers grant, so that the result is their own limit.
const REQUESTED_SESSION_BYTES: u32 = 16 << 20;

/// The results of a minor version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nfs4ProbeReport {
    /// Maximum length of a READ in bytes; `None` if the server does not support the attribute.
    pub maxread: Option<u64>,
    /// Maximum length of a WRITE in bytes.
    pub maxwrite: Option<u64>,
    /// Maximum size of a file in bytes.
    pub maxfilesize: Option<u64>,
    /// Lease time in seconds.
    pub lease_time: Option<u32>,
    /// Entries of the root: names, each `true` if it is a directory, like every export.
    pub root: Vec<(String, bool)>,
    /// `true` if the root has more entries.
    pub has_more: bool,
    /// The server's identity, from 4.1 on.
    pub server: Option<Nfs4ServerIdentity>,
    /// The session limits, from 4.1 on.
    pub session: Option<ProbedSessionLimits>,
}

/// The identity of a server. RFC 8881 section 18.35.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nfs4ServerIdentity {
    /// `so_major_id`, which is equal for all addresses of one server.
    pub owner: String,
    /// `eir_server_scope`.
    pub scope: String,
    /// Name and domain of the implementation, if the server reports them.
    pub implementation: Option<String>,
    /// Names of the server's pNFS roles: no pNFS, metadata server, data server.
    pub roles: Vec<&'static str>,
}

/// The session limits that a server grants to a large request. RFC 8881 section 18.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbedSessionLimits {
    /// Limits of the fore channel, for Calls of the client.
    pub fore: ProbedChannelLimits,
    /// Limits of the backchannel, for Calls of the server.
    pub back: ProbedChannelLimits,
    /// `true` if its reply cache persists across restarts.
    pub is_persistent: bool,
}

/// The limits of a channel: channel_attrs4. RFC 8881 section 18.36.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbedChannelLimits {
    /// Maximum length of a Call in bytes.
    pub max_request: u32,
    /// Maximum length of a Reply in bytes.
    pub max_response: u32,
    /// Maximum length of a cached Reply in bytes.
    pub max_response_cached: u32,
    /// Maximum number of operations in a COMPOUND.
    pub max_operations: u32,
    /// Number of slots.
    pub max_requests: u32,
}

impl From<&ChannelAttrs4<'_>> for ProbedChannelLimits {
    fn from(channel: &ChannelAttrs4<'_>) -> Self {
        Self {
            max_request: channel.ca_maxrequestsize,
            max_response: channel.ca_maxresponsesize,
            max_response_cached: channel.ca_maxresponsesize_cached,
            max_operations: channel.ca_maxoperations,
            max_requests: channel.ca_maxrequests,
        }
    }
}

/// The client of a probe, with a session from NFSv4.1 on.
struct Nfs4Probe<'l, 't>(Caller<&'l mut RpcClient<'t>>);

pub(super) fn probe_v4(
    rpc: &mut RpcClient<'_>,
    minor: u32,
    export: &str,
) -> Result<Nfs4ProbeReport, FileServerClientError> {
    let mut report = Nfs4ProbeReport::default();
    let client = match minor {
        0 => Client::stateless(),
        _ => {
            let name = format!("{} probe {} 4.{minor}", crate::PROGRAM, std::process::id());
            let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
            let channels = [(1024, 1024), (16, 16)].map(|(operations, slots)| {
                channel(REQUESTED_SESSION_BYTES, REQUESTED_SESSION_BYTES, operations, slots)
            });
            Client::new(&name, started.to_be_bytes(), &[minor]).with_channels(channels)
        }
    };
    let mut probe = Nfs4Probe(Caller::new(rpc, client));
    let outcome = probe.establish(&mut report).and_then(|()| probe.read_file_system(export, &mut report));
    probe.0.destroy();
    outcome.map(|()| report)
}

impl Nfs4Probe<'_, '_> {
    fn establish(&mut self, report: &mut Nfs4ProbeReport) -> FileServerClientResult<()> {
        self.0.establish(|results| match results {
            Results::EXCHANGE_ID(outcome) => report.server = outcome.ok().map(|ok| server(ok)),
            Results::CREATE_SESSION(outcome) => {
                report.session = outcome.ok().map(|ok| ProbedSessionLimits {
                    fore: (&ok.csr_fore_chan_attrs).into(),
                    back: (&ok.csr_back_chan_attrs).into(),
                    is_persistent: ok.csr_flags.contains(CreateSessionFlags::CREATE_SESSION4_FLAG_PERSIST),
                });
            }
            _ => {}
        })
    }

    fn read_file_system(&mut self, export: &str, report: &mut Nfs4ProbeReport) -> FileServerClientResult<()> {
        self.read_limits(export, report)?;
        self.read_root(report)
    }

    fn read_limits(&mut self, export: &str, report: &mut Nfs4ProbeReport) -> FileServerClientResult<()> {
        let mask = words_for_bits([
            Attributes::LEASE_TIME,
            Attributes::MAXFILESIZE,
            Attributes::MAXREAD,
            Attributes::MAXWRITE,
        ]);
        let mut operations = walk(export);
        operations.push(Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&mask[..]) }));
        let mut names_found = 0;
        let outcome = self.0.run(&Operation::GETATTR, &operations, &[], |results| {
            if matches!(results, Results::PUTROOTFH(_)) {
                names_found = 0;
            }
            names_found += usize::from(matches!(results, Results::LOOKUP(_)));
            let Results::GETATTR(outcome) = results else { return None };
            for attribute in outcome.ok()?.obj_attributes.items().map_while(Result::ok) {
                match attribute {
                    Attribute::LEASE_TIME(seconds) => report.lease_time = Some(seconds),
                    Attribute::MAXFILESIZE(bytes) => report.maxfilesize = Some(bytes),
                    Attribute::MAXREAD(bytes) => report.maxread = Some(bytes),
                    Attribute::MAXWRITE(bytes) => report.maxwrite = Some(bytes),
                    _ => {}
                }
            }
            Some(())
        });
        match outcome {
            Err(FileServerClientError::Refused(operation, reason))
                if operation.starts_with(enumerator_names::LOOKUP) =>
            {
                Err(FileServerClientError::Refused(failed_walk(export, names_found, reason.status()), reason))
            }
            outcome => outcome,
        }
    }

    /// Reads the root's entries, up to the maximum number.
    fn read_root(&mut self, report: &mut Nfs4ProbeReport) -> FileServerClientResult<()> {
        let mask = words_for_bits([Attributes::TYPE]);
        let (mut cookie, mut cookieverf) = (0, [0; 8]);
        loop {
            let readdir = Args::READDIR(Readdir4Args {
                cookie,
                cookieverf,
                dircount: LISTING,
                maxcount: LISTING,
                attr_request: Bitmap4::from(&mask[..]),
            });
            let root = &mut report.root;
            let operations = [Args::PUTROOTFH(Void), readdir];
            let (last, verifier, eof) = self.0.run(&Operation::READDIR, &operations, &[], |results| {
                let Results::READDIR(outcome) = results else { return None };
                let ok = outcome.ok()?;
                let mut last = None;
                for entry in ok.reply.entries.iter().take(ENTRIES + 1 - root.len().min(ENTRIES)) {
                    let mut items = entry.attrs.items().map_while(Result::ok);
                    let is_directory = items.any(|item| item == Attribute::TYPE(NfsFtype4::NF4DIR));
                    root.push((String::from_utf8_lossy(entry.name.0).into_owned(), is_directory));
                    last = Some(entry.cookie);
                }
                Some((last, ok.cookieverf, ok.reply.eof))
            })?;
            if report.root.len() > ENTRIES {
                report.root.truncate(ENTRIES);
                report.has_more = true;
                return Ok(());
            }
            match last {
                Some(last) if !eof => (cookie, cookieverf) = (last, verifier),
                _ => return Ok(()),
            }
        }
    }
}

fn server(exchange: &ExchangeId4Resok<'_>) -> Nfs4ServerIdentity {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let implementation = exchange.eir_server_impl_id.iter().next();
    let roles = [
        (ExchangeIdFlags::EXCHGID4_FLAG_USE_NON_PNFS, "no pNFS"),
        (ExchangeIdFlags::EXCHGID4_FLAG_USE_PNFS_MDS, "metadata server"),
        (ExchangeIdFlags::EXCHGID4_FLAG_USE_PNFS_DS, "data server"),
    ];
    Nfs4ServerIdentity {
        owner: text(exchange.eir_server_owner.so_major_id.0),
        scope: text(exchange.eir_server_scope.0),
        implementation: implementation.map(|id| format!("{} ({})", text(id.nii_name.0), text(id.nii_domain.0))),
        roles: roles.iter().filter(|(flag, _)| exchange.eir_flags.contains(*flag)).map(|(_, name)| *name).collect(),
    }
}

/// Returns the names on the path from the root to the export.
fn names(export: &str) -> impl Iterator<Item = &str> {
    export.split('/').filter(|name| !name.is_empty())
}

/// Returns the operations that walk from the root to the export.
fn walk(export: &str) -> Vec<Args<'_>> {
    let mut operations = vec![Args::PUTROOTFH(Void)];
    operations.extend(names(export).map(|name| Args::LOOKUP(Lookup4Args { objname: Text(name.as_bytes()) })));
    operations
}

/// Returns what failed in a walk to the export whose LOOKUP fails after `names_found` names.
fn failed_walk(export: &str, names_found: usize, status: Option<Nfsstat4>) -> String {
    let path: String = names(export).take(names_found + 1).flat_map(|name| ["/", name]).collect();
    let no = if status == Some(Nfsstat4::NFS4ERR_NOENT) { "no " } else { "" };
    format!("{no}{path}: {}", Operation::LOOKUP)
}
