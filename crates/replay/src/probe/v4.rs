//! Probe of a minor version of NFSv4: limits of the file system, root entries, and from 4.1 on session limits.

use nfsrdma_dissectors::nfs::v4::{
    Args, Attribute, Attributes, Bitmap4, CallbackSecParms4, ChannelAttrs4, ClientOwner4, CompoundReply,
    CreateSession4Args, CreateSessionFlags, DestroyClientid4Args, DestroySession4Args, ExchangeId4Args,
    ExchangeId4Resok, ExchangeIdFlags, Getattr4Args, Lookup4Args, NfsFtype4, Nfsstat4, Readdir4Args, Results,
    Sequence4Args, Sessionid4, StateProtect4A, words_for_bits,
};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{List, Opaque, Text, Void};
use nfsrdma_rpc::synchronous_client::{RpcClient, SynchronousProcedureCall};

use crate::reply_size::ReplySizeUpperBound;

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
    fn from(given: &ChannelAttrs4<'_>) -> Self {
        Self {
            max_request: given.ca_maxrequestsize,
            max_response: given.ca_maxresponsesize,
            max_response_cached: given.ca_maxresponsesize_cached,
            max_operations: given.ca_maxoperations,
            max_requests: given.ca_maxrequests,
        }
    }
}

/// An open session.
struct ProbeSession {
    clientid: u64,
    id: Sessionid4,
    sequence: u32,
}

pub(super) fn probe_v4(
    line: &mut RpcClient<'_>,
    minor: u32,
    export: &str,
) -> Result<Nfs4ProbeReport, String> {
    let mut found = Nfs4ProbeReport::default();
    let mut held = None;
    if minor > 0 {
        let (clientid, sequence, server) = exchange_id(line, minor)?;
        found.server = Some(server);
        match create_session(line, minor, clientid, sequence) {
            Ok((id, session)) => {
                found.session = Some(session);
                held = Some(ProbeSession { clientid, id, sequence: 0 });
            }
            Err(error) => {
                let _ = destroy_client(line, minor, clientid);
                return Err(error);
            }
        }
    }
    let asked = limits(line, minor, &mut held, export, &mut found)
        .and_then(|()| read_root(line, minor, &mut held, &mut found));
    if let Some(held) = held {
        // A failure is harmless: the state expires with its lease.
        let destroy = [Args::DESTROY_SESSION(DestroySession4Args { dsa_sessionid: held.id })];
        let _ = run(line, minor, &destroy, |_| Some(()));
        let _ = destroy_client(line, minor, held.clientid);
    }
    asked.map(|()| found)
}

/// Executes operations; the first failed one is the error.
fn run<T>(
    line: &mut RpcClient<'_>,
    minor: u32,
    operations: &[Args<'_>],
    mut read: impl FnMut(Results<'_>) -> Option<T>,
) -> Result<T, String> {
    let size = ReplySizeUpperBound::for_compound(operations);
    let procedure = SynchronousProcedureCall::new(Program::NFS, 4, 1, 0);
    let outcome =
        line.compound(minor, operations, &size.apply_to(&procedure), |reply: &CompoundReply<'_>| {
            let mut found = None;
            for results in reply.operations() {
                let results = results.map_err(|stop| stop.error)?;
                if results.status() != Nfsstat4::NFS4_OK {
                    return Ok(Err(format!("{}: {}", results.number(), results.status())));
                }
                found = read(results).or(found);
            }
            if reply.head.status != Nfsstat4::NFS4_OK {
                return Ok(Err(reply.head.status.to_string()));
            }
            Ok(found.ok_or_else(|| "the results end before the one that was asked for".to_owned()))
        });
    outcome.unwrap_or_else(|error| Err(error.to_string()))
}

/// Executes operations in the session, if there is one.
fn run_in_session<T>(
    line: &mut RpcClient<'_>,
    minor: u32,
    held: &mut Option<ProbeSession>,
    operations: &[Args<'_>],
    read: impl FnMut(Results<'_>) -> Option<T>,
) -> Result<T, String> {
    let mut all = Vec::with_capacity(operations.len() + 1);
    if let Some(held) = held {
        held.sequence += 1;
        all.push(Args::SEQUENCE(Sequence4Args {
            sa_sessionid: held.id,
            sa_sequenceid: held.sequence,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        }));
    }
    all.extend_from_slice(operations);
    run(line, minor, &all, read)
}

fn exchange_id(line: &mut RpcClient<'_>, minor: u32) -> Result<(u64, u32, Nfs4ServerIdentity), String> {
    let owner = format!("{} probe {} 4.{minor}", crate::PROGRAM, std::process::id());
    let verifier = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64);
    let operation = Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
        eia_clientowner: ClientOwner4 {
            co_verifier: verifier.to_be_bytes(),
            co_ownerid: Opaque(owner.as_bytes()),
        },
        eia_flags: ExchangeIdFlags(0),
        eia_state_protect: StateProtect4A::None,
        eia_client_impl_id: List::default(),
    }));
    run(line, minor, &[operation], |results| match results {
        Results::EXCHANGE_ID(outcome) => {
            outcome.ok().map(|given| (given.eir_clientid, given.eir_sequenceid, server(given)))
        }
        _ => None,
    })
}

fn server(given: &ExchangeId4Resok<'_>) -> Nfs4ServerIdentity {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let implementation = given.eir_server_impl_id.iter().next();
    let roles = [
        (ExchangeIdFlags::EXCHGID4_FLAG_USE_NON_PNFS, "no pNFS"),
        (ExchangeIdFlags::EXCHGID4_FLAG_USE_PNFS_MDS, "metadata server"),
        (ExchangeIdFlags::EXCHGID4_FLAG_USE_PNFS_DS, "data server"),
    ];
    Nfs4ServerIdentity {
        owner: text(given.eir_server_owner.so_major_id.0),
        scope: text(given.eir_server_scope.0),
        implementation: implementation
            .map(|id| format!("{} ({})", text(id.nii_name.0), text(id.nii_domain.0))),
        roles: roles
            .iter()
            .filter(|(flag, _)| given.eir_flags.contains(*flag))
            .map(|(_, name)| *name)
            .collect(),
    }
}

fn create_session(
    line: &mut RpcClient<'_>,
    minor: u32,
    clientid: u64,
    sequence: u32,
) -> Result<(Sessionid4, ProbedSessionLimits), String> {
    let attributes = |operations, requests| ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: REQUESTED_SESSION_BYTES,
        ca_maxresponsesize: REQUESTED_SESSION_BYTES,
        ca_maxresponsesize_cached: REQUESTED_SESSION_BYTES,
        ca_maxoperations: operations,
        ca_maxrequests: requests,
        ca_rdma_ird: List::default(),
    };
    let operation = Args::CREATE_SESSION(Box::new(CreateSession4Args {
        csa_clientid: clientid,
        csa_sequence: sequence,
        csa_flags: CreateSessionFlags(0),
        csa_fore_chan_attrs: attributes(1024, 1024),
        csa_back_chan_attrs: attributes(16, 16),
        csa_cb_program: Program::NFS_CB.0,
        csa_sec_parms: List::from(&[CallbackSecParms4::None][..]),
    }));
    run(line, minor, &[operation], |results| match results {
        Results::CREATE_SESSION(outcome) => outcome.ok().map(|given| {
            let session = ProbedSessionLimits {
                fore: (&given.csr_fore_chan_attrs).into(),
                back: (&given.csr_back_chan_attrs).into(),
                is_persistent: given.csr_flags.contains(CreateSessionFlags::CREATE_SESSION4_FLAG_PERSIST),
            };
            (given.csr_sessionid, session)
        }),
        _ => None,
    })
}

fn destroy_client(line: &mut RpcClient<'_>, minor: u32, clientid: u64) -> Result<(), String> {
    let operation = Args::DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: clientid });
    run(line, minor, &[operation], |_| Some(()))
}

/// Returns the names on the path from the root to the export.
fn names(export: &str) -> impl Iterator<Item = &str> {
    export.split('/').filter(|name| !name.is_empty())
}

/// Returns the operations that walk from the root to the export.
fn walk(export: &str) -> Vec<Args<'_>> {
    let mut way = vec![Args::PUTROOTFH(Void)];
    way.extend(names(export).map(|name| Args::LOOKUP(Lookup4Args { objname: Text(name.as_bytes()) })));
    way
}

/// Returns the error of a walk to the export whose LOOKUP fails after `found` names.
fn walk_error(export: &str, found: usize, error: &str) -> String {
    let path: String = names(export).take(found + 1).flat_map(|name| ["/", name]).collect();
    let no = if error.ends_with(&Nfsstat4::NFS4ERR_NOENT.to_string()) { "no " } else { "" };
    format!("{no}{path}: {error}")
}

fn limits(
    line: &mut RpcClient<'_>,
    minor: u32,
    held: &mut Option<ProbeSession>,
    export: &str,
    found: &mut Nfs4ProbeReport,
) -> Result<(), String> {
    let words = words_for_bits([
        Attributes::LEASE_TIME,
        Attributes::MAXFILESIZE,
        Attributes::MAXREAD,
        Attributes::MAXWRITE,
    ]);
    let mut operations = walk(export);
    operations.push(Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&words[..]) }));
    let mut names_found = 0;
    let outcome = run_in_session(line, minor, held, &operations, |results| {
        names_found += usize::from(matches!(results, Results::LOOKUP(_)));
        let Results::GETATTR(outcome) = results else { return None };
        for attribute in outcome.ok()?.obj_attributes.items().map_while(Result::ok) {
            match attribute {
                Attribute::LEASE_TIME(seconds) => found.lease_time = Some(seconds),
                Attribute::MAXFILESIZE(bytes) => found.maxfilesize = Some(bytes),
                Attribute::MAXREAD(bytes) => found.maxread = Some(bytes),
                Attribute::MAXWRITE(bytes) => found.maxwrite = Some(bytes),
                _ => {}
            }
        }
        Some(())
    });
    match outcome {
        Err(error) if error.starts_with("LOOKUP: ") => Err(walk_error(export, names_found, &error)),
        outcome => outcome,
    }
}

/// Reads the root's entries, up to the maximum number.
fn read_root(
    line: &mut RpcClient<'_>,
    minor: u32,
    held: &mut Option<ProbeSession>,
    found: &mut Nfs4ProbeReport,
) -> Result<(), String> {
    let words = words_for_bits([Attributes::TYPE]);
    let (mut cookie, mut cookieverf) = (0, [0; 8]);
    loop {
        let readdir = Args::READDIR(Readdir4Args {
            cookie,
            cookieverf,
            dircount: LISTING,
            maxcount: LISTING,
            attr_request: Bitmap4::from(&words[..]),
        });
        let root = &mut found.root;
        let (last, verifier, eof) =
            run_in_session(line, minor, held, &[Args::PUTROOTFH(Void), readdir], |results| {
                let Results::READDIR(outcome) = results else { return None };
                let given = outcome.ok()?;
                let mut last = None;
                for entry in given.reply.entries.iter().take(ENTRIES + 1 - root.len().min(ENTRIES)) {
                    let mut items = entry.attrs.items().map_while(Result::ok);
                    let is_directory = items.any(|item| item == Attribute::TYPE(NfsFtype4::NF4DIR));
                    root.push((String::from_utf8_lossy(entry.name.0).into_owned(), is_directory));
                    last = Some(entry.cookie);
                }
                Some((last, given.cookieverf, given.reply.eof))
            })?;
        if found.root.len() > ENTRIES {
            found.root.truncate(ENTRIES);
            found.has_more = true;
            return Ok(());
        }
        match last {
            Some(last) if !eof => (cookie, cookieverf) = (last, verifier),
            _ => return Ok(()),
        }
    }
}
